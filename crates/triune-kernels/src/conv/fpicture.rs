//! The f32 convolution of a picture: few planes in, a map with channels last out.
//!
//! ```text
//! for line of results: note where the elements of a window are for its first pixel
//!     for tile of pixels:     those at the border of a copy, with zeros beside the plane
//!         for panel: the tile of `fgemm`, whose rows are neighbours in each plane
//! ```
//!
//! No map of the picture is made for it, and windows are noted by the line. The sums are those of `fgemm`, in the same order.

use triune_tensor::Buffer;

use super::fconv::FConv;
use super::fgemm::{Finish, MAX_ROWS, Panels, Staged, TILE_STEPS};
use crate::cancel::spans;
use crate::parallel::{GRAIN, Shared};
use crate::{ConvGeometry, Nhwc, Planes, Pool};

/// One run.
pub(super) struct Picture<'a> {
    pub(super) conv: &'a FConv,
    pub(super) panels: &'a Panels,
    pub(super) weights: &'a Buffer,
    pub(super) planes: Planes,
    pub(super) input: &'a [f32],
    pub(super) out_map: Nhwc,
    pub(super) output: *mut f32,
}

// SAFETY: `output` is the only pointer; tasks write disjoint lines of it.
unsafe impl Sync for Picture<'_> {}

/// A line of results: image and row.
type Place = [usize; 2];

/// What a thread notes.
struct Notes<'s> {
    /// For each element of a window where it lies in the planes for a line's first pixel, and in copies for a tile's.
    places: [&'s mut [*const f32]; 2],
    /// Copies of lines, so many of each row of a window as there are planes.
    copies: &'s mut [f32],
}

/// Bytes that are lost to alignment.
const SLACK: usize = 16;

/// Floats of a copied line of each plane for each row of a window.
fn line(geometry: &ConvGeometry) -> usize {
    let [step, columns, across] = [geometry.stride[1], geometry.kernel[1], geometry.dilation[1]];
    let reach = (columns - 1).saturating_mul(across).saturating_add(1);
    reach.saturating_add(step.saturating_mul(MAX_ROWS - 1))
}

impl<'s> Notes<'s> {
    /// Carves the scratch of a thread.
    fn new(scratch: &'s mut [u8], depth: usize) -> Self {
        // SAFETY: any bytes are pointers that nobody follows before they are noted.
        let (_, places, _) = unsafe { scratch.align_to_mut::<*const f32>() };
        let (first, rest) = places.split_at_mut(depth);
        let (second, rest) = rest.split_at_mut(depth);
        // SAFETY: any bytes are floats.
        let (_, copies, _) = unsafe { rest.align_to_mut::<f32>() };
        Self { places: [first, second], copies }
    }
}

impl<'a> Picture<'a> {
    /// Bytes of scratch of a thread.
    pub(super) fn scratch_bytes(conv: &FConv) -> usize {
        let depth = conv.depth();
        let copied = depth / conv.geometry.kernel[1];
        let copies = copied.saturating_mul(line(&conv.geometry)).saturating_mul(size_of::<f32>());
        depth.saturating_mul(2 * size_of::<*const f32>()).saturating_add(copies).saturating_add(SLACK)
    }

    pub(super) fn run(&self, scratch: &mut [u8], pool: &Pool) {
        let (depth, out) = (self.conv.depth(), self.out_map);
        let lines = out.n * out.h;
        let weight = depth.saturating_mul(out.w).saturating_mul(self.panels.count());
        let together = GRAIN.div_ceil(weight.saturating_mul(self.panels.columns).max(1));
        let bytes = Self::scratch_bytes(self.conv);
        let scratch = Shared::new(scratch);
        pool.run(lines.div_ceil(together), &|task, worker| {
            // SAFETY: one piece per worker, inside of the scratch as its length was checked.
            let mut notes = Notes::new(unsafe { scratch.piece(worker * bytes, bytes) }, depth);
            let range = task * together..lines.min((task + 1) * together);
            for line in spans(range.len(), weight.saturating_mul(TILE_STEPS) / MAX_ROWS).flatten() {
                let line = range.start + line;
                self.line([line / out.h, line % out.h], &mut notes);
            }
        });
    }

    /// A row of the window for a line of results, if the planes have it.
    fn row(&self, y: usize, ky: usize) -> Option<usize> {
        let g = &self.conv.geometry;
        let row = (y * g.stride[0] + ky * g.dilation[0]).checked_sub(g.pad[0])?;
        (row < self.planes.h).then_some(row)
    }

    /// That row of a plane.
    fn line_of(&self, n: usize, plane: usize, row: usize) -> &'a [f32] {
        let Planes { w, stride_n, stride_c, stride_h, .. } = self.planes;
        &self.input[n * stride_n + plane * stride_c + row * stride_h..][..w]
    }

    /// The results of a line.
    fn line(&self, place @ [n, y]: Place, notes: &mut Notes<'_>) {
        let (g, panels, out) = (&self.conv.geometry, self.panels, &self.out_map);
        let ([kh, kw], [step, across, left]) = (g.kernel, [g.stride[1], g.dilation[1], g.pad[1]]);
        let whole = (0..kh).all(|ky| self.row(y, ky).is_some());
        if whole {
            let mut places = notes.places[0].iter_mut();
            for row in (0..kh).filter_map(|ky| self.row(y, ky)) {
                for kx in 0..kw {
                    for (plane, to) in (0..self.planes.c).zip(&mut places) {
                        let line = self.line_of(n, plane, row);
                        *to = line.as_ptr().wrapping_add(kx * across).wrapping_sub(left);
                    }
                }
            }
        }
        let mut stages = self.conv.stages();
        let tiles = out.w.div_ceil(panels.rows);
        for tile in 0..tiles {
            let (x, end) = (tile * out.w / tiles, (tile + 1) * out.w / tiles);
            let inside = x * step >= left && (end - 1) * step + (kw - 1) * across < self.planes.w + left;
            let (places, offset) = if whole && inside {
                (&notes.places[0], x * step)
            } else {
                self.copy(place, [x, end - x], notes);
                (&notes.places[1], 0)
            };
            self.multiply(place, [x, end - x], places, offset, &mut stages);
        }
    }

    /// Copies the lines that a tile's windows see, zeros beside the planes, and notes where elements are.
    fn copy(&self, [n, y]: Place, [x, count]: [usize; 2], notes: &mut Notes<'_>) {
        let g = &self.conv.geometry;
        let ([kh, kw], [step, across]) = (g.kernel, [g.stride[1], g.dilation[1]]);
        let len = (count - 1) * step + (kw - 1) * across + 1;
        let mut places = notes.places[1].chunks_exact_mut(self.planes.c);
        let lines = notes.copies.chunks_exact_mut(line(g) * self.planes.c);
        for (ky, lines) in (0..kh).zip(lines) {
            let lines = lines.chunks_exact_mut(line(g));
            let lines = lines.enumerate().map(|(plane, copy)| {
                let copy = &mut copy[..len];
                match self.row(y, ky) {
                    Some(row) => cut(self.line_of(n, plane, row), x * step, g.pad[1], copy),
                    None => copy.fill(0.0),
                }
                copy.as_ptr()
            });
            let mut own = (0..kw).zip(&mut places);
            let Some((_, first)) = own.next() else { continue };
            first.iter_mut().zip(lines).for_each(|(place, line)| *place = line);
            for (kx, places) in own {
                for (place, first) in places.iter_mut().zip(&*first) {
                    *place = first.wrapping_add(kx * across);
                }
            }
        }
    }

    /// The results of a tile: pixels of a line from `x` on.
    fn multiply(
        &self,
        [n, y]: Place,
        [x, rows]: [usize; 2],
        places: &[*const f32],
        offset: usize,
        stages: &mut Option<[Staged; 2]>,
    ) {
        let (conv, panels, depth) = (self.conv, self.panels, places.len());
        let apart = conv.geometry.stride[1];
        // SAFETY: any bytes are floats; a buffer is aligned for them.
        let (_, weights, _) = unsafe { self.weights.align_to::<f32>() };
        let first = self.output.wrapping_add(self.out_map.offset(n, y, x));
        let outputs: [*mut f32; MAX_ROWS] =
            std::array::from_fn(|row| first.wrapping_add(row.min(rows - 1) * self.out_map.stride_w));
        for panel in 0..panels.count() {
            let (width, used, channel) = (panels.width(panel), panels.used(panel), panel * panels.columns);
            let finish = Finish {
                factors: std::ptr::null(),
                bias: conv.epilogue.bias[channel..].as_ptr(),
                residual: std::ptr::null(),
                output: outputs.as_ptr(),
                ahead: outputs.as_ptr(),
                next: 0,
                offset: channel,
                used,
                limits: conv.epilogue.limits,
            };
            let (a, b) = (places.as_ptr(), weights[panels.start(panel, depth)..].as_ptr());
            // SAFETY: each element of a window is there for all of the tile's pixels; the panel holds a row of `width` floats for
            // each; a tile has at most `panels.rows` rows; tasks have lines of the checked map of their own.
            let multiply = |finish: &Finish| unsafe {
                panels.side_by_side([rows, apart], width, a, offset, depth, b, finish);
            };
            // SAFETY: as above.
            unsafe { conv.staged_tile(rows, width, finish, stages, multiply) };
        }
    }
}

/// A line that has `left` zeros in front and any number behind, from `column` of that on.
fn cut(line: &[f32], column: usize, left: usize, to: &mut [f32]) {
    let before = |end: usize| end.saturating_sub(column).min(to.len());
    let inside = before(left)..before(left + line.len());
    to[..inside.start].fill(0.0);
    to[inside.end..].fill(0.0);
    if !inside.is_empty() {
        let from = column + inside.start - left;
        to[inside.clone()].copy_from_slice(&line[from..][..inside.len()]);
    }
}
