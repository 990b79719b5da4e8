//! Where the rows of a float convolution's tiles are: a pointer for each run of a window, which leads into the map, to zeros or to a
//! copy.

use std::ops::Range;

use crate::ConvGeometry;

use super::fconv::{ALIGN, GAP, Plan, Views};
use super::fgemm::MAX_ROWS;

/// Which of `count` windows, `len` long and `step` apart from `first` on, lie within `low..high`.
fn within(count: usize, first: usize, step: usize, low: usize, high: usize, len: usize) -> Range<usize> {
    // Few are not, and there is no division for those.
    let start = (0..count).find(|at| first + at * step >= low).unwrap_or(count);
    let end = (start..count).rev().find(|at| first + at * step + len <= high);
    start..end.map_or(start, |last| last + 1)
}

/// The row pointers of a block's tiles, and the copies that rows at the border are read from.
pub(super) struct Rows {
    pub(super) pointers: *const *const f32,
    next: *mut *const f32,
    pub(super) outputs: *const *mut f32,
    pub(super) residuals: *const *const f32,
    /// Image, row and column of the next pixel, and the pixels before it.
    at: [usize; 3],
    noted: usize,
    copies: *mut f32,
    zeros: *const f32,
    runs: usize,
}

impl Rows {
    /// Carves the scratch: pointers, zeros, copies.
    #[expect(clippy::cast_ptr_alignment, reason = "aligned by hand, and pointers come in eights")]
    pub(super) fn new(scratch: &mut [u8], plan: &Plan, runs: usize, group_in: usize, at: [usize; 3]) -> Self {
        let skip = scratch.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        let pointers = scratch[skip..].as_mut_ptr();
        // Pointers first: their size is a multiple of eight, so that the floats behind them are aligned, too.
        let zeros = pointers.wrapping_add(plan.pointers).cast::<f32>();
        for i in 0..group_in {
            // SAFETY: the plan counts pointers, zeros and copies into the scratch, and ALIGN for the rounding.
            unsafe { zeros.add(i).write(0.0) };
        }
        let pointers: *mut *const f32 = pointers.cast();
        let residuals = pointers.wrapping_add(runs * MAX_ROWS * plan.tiles);
        let outputs = residuals.wrapping_add(MAX_ROWS * plan.tiles).cast();
        Self {
            pointers,
            next: pointers,
            outputs,
            residuals,
            at,
            noted: 0,
            copies: zeros.wrapping_add(group_in),
            zeros,
            runs,
        }
    }

    /// Makes the pointers of the next tile, of so many rows: run by run, row by row.
    pub(super) fn add(
        &mut self,
        g: &ConvGeometry,
        views: &Views<'_>,
        channel: usize,
        group_in: usize,
        [merged, copied]: [bool; 2],
        rows: usize,
    ) {
        let map = views.in_map;
        let [kh, kw] = g.kernel;
        let base = views.input.as_ptr();
        let mut pixel = self.at;
        self.add_outputs(views, rows);
        if kh * kw == 1 && g.pad == [0; 4] && !copied {
            let mut row = 0;
            while row < rows {
                let [n, oh, ow] = pixel;
                let count = (rows - row).min(views.out_map.w - ow);
                let first = map.offset(n, oh * g.stride[0], ow * g.stride[1]) + channel;
                self.put_all(row, count, base.wrapping_add(first), g.stride[1] * map.stride_w);
                row += count;
                pixel = views.next([n, oh, ow + count - 1]);
            }
            self.next = self.next.wrapping_add(rows);
            return;
        }
        let mut row = 0;
        while row < rows {
            let [n, oh, ow] = pixel;
            let count = (rows - row).min(views.out_map.w - ow);
            let image = base.wrapping_add(n * map.stride_n + channel);
            let (top, left) = (oh * g.stride[0], ow * g.stride[1]);
            for i in 0..kh {
                // Beyond the last row where the tap lies in the padding above.
                let y = (top + i * g.dilation[0]).wrapping_sub(g.pad[0]);
                let inside = y < map.h;
                let line = image.wrapping_add(y.wrapping_mul(map.stride_h));
                if merged || copied {
                    let within = if inside && !copied {
                        within(count, left, g.stride[1], g.pad[1], map.w + g.pad[1], kw)
                    } else {
                        0..0
                    };
                    for at in (0..within.start).chain(within.end..count) {
                        let y = inside.then_some(y);
                        let (image, left) = (n * map.stride_n + channel, left + at * g.stride[1]);
                        let copy = self.copy_window_row(views, image, y, left, g.pad[1], kw, group_in);
                        self.put(i * rows + row + at, copy);
                    }
                    let x = (left + within.start * g.stride[1]).wrapping_sub(g.pad[1]);
                    let first = line.wrapping_add(x.wrapping_mul(map.stride_w));
                    let to = i * rows + row + within.start;
                    self.put_all(to, within.len(), first, g.stride[1] * map.stride_w);
                    continue;
                }
                for j in 0..kw {
                    let tap = left + j * g.dilation[1];
                    let within = if inside {
                        within(count, tap, g.stride[1], g.pad[1], map.w + g.pad[1], 1)
                    } else {
                        0..0
                    };
                    let to = (i * kw + j) * rows + row;
                    self.put_all(to, within.start, self.zeros, 0);
                    let x = (tap + within.start * g.stride[1]).wrapping_sub(g.pad[1]);
                    let first = line.wrapping_add(x.wrapping_mul(map.stride_w));
                    self.put_all(to + within.start, within.len(), first, g.stride[1] * map.stride_w);
                    self.put_all(to + within.end, count - within.end, self.zeros, 0);
                }
            }
            row += count;
            pixel = views.next([n, oh, ow + count - 1]);
        }
        self.next = self.next.wrapping_add(self.runs * rows);
    }

    /// Notes where the results of the next pixels go and their residuals come from.
    fn add_outputs(&mut self, views: &Views<'_>, mut left: usize) {
        let [mut n, mut h, mut w] = self.at;
        let out = views.out_map;
        while left > 0 {
            let count = left.min(out.w - w);
            let output = views.output.wrapping_add(out.offset(n, h, w));
            let residual =
                views.residual.map(|(x, map)| (x.as_ptr().wrapping_add(map.offset(n, h, w)), map.stride_w));
            // SAFETY: the plan has room for `MAX_ROWS` of each per tile.
            unsafe {
                let outputs = self.outputs.cast_mut().add(self.noted);
                for i in 0..count {
                    outputs.add(i).write(output.wrapping_add(i * out.stride_w));
                }
                if let Some((residual, stride)) = residual {
                    let residuals = self.residuals.cast_mut().add(self.noted);
                    for i in 0..count {
                        residuals.add(i).write(residual.wrapping_add(i * stride));
                    }
                }
            }
            self.noted += count;
            left -= count;
            [n, h, w] = views.next([n, h, w + count - 1]);
        }
        self.at = [n, h, w];
    }

    /// Pointers one after another, `step` floats apart.
    fn put_all(&mut self, index: usize, count: usize, first: *const f32, step: usize) {
        // SAFETY: the plan has room for `MAX_ROWS` pointers per run and tile.
        let to = unsafe { self.next.add(index) };
        for i in 0..count {
            // SAFETY: as above.
            unsafe { to.add(i).write(first.wrapping_add(i * step)) };
        }
    }

    fn put(&mut self, index: usize, pointer: *const f32) {
        // SAFETY: the plan has room for `MAX_ROWS` pointers per run and tile.
        unsafe { self.next.add(index).write(pointer) };
    }

    /// Copies a window row that touches padding, zeros where it does.
    fn copy_window_row(
        &mut self,
        views: &Views<'_>,
        image: usize,
        y: Option<usize>,
        left: usize,
        pad: usize,
        kw: usize,
        group_in: usize,
    ) -> *const f32 {
        let len = kw * group_in;
        // SAFETY: the plan has room for every window of the block.
        let copy = unsafe { std::slice::from_raw_parts_mut(self.copies, len) };
        self.copies = self.copies.wrapping_add(len + GAP);
        copy.fill(0.0);
        if let Some(y) = y {
            let map = views.in_map;
            let first = pad.saturating_sub(left).min(kw);
            let end = (map.w + pad).saturating_sub(left).min(kw);
            if first < end {
                let at = image + y * map.stride_h + (left + first - pad) * map.stride_w;
                let len = (end - first) * group_in;
                copy[first * group_in..][..len].copy_from_slice(&views.input[at..][..len]);
            }
        }
        copy.as_ptr()
    }
}
