//! Windows read where their rows lie side by side: pixels of a line share what their windows overlap in.
//!
//! A task copies the input rows of some output rows into scratch, with what is beside the map, instead of one window per pixel.
//! Windows of neighbouring pixels then lie a step apart, and a row of a window is a run of the product's depth.
#![expect(clippy::inline_always, reason = "vector code must be inlined where the instruction set is enabled")]

use crate::{Nhwc, arch::int8::Int8, cancel::Pace};

use super::{
    qconv::Params,
    qgemm::{GemmJob, Line, SLACK},
};

/// Output channels from which on windows that are gathered once serve enough panels.
const MOST_COLUMNS: usize = 128;
/// Pixels of a line below which too many blocks are small.
const LEAST_LINE: usize = 12;
/// Bytes of input rows that stay in the first-level cache.
const BAND_BYTES: usize = 24 << 10;

/// Whether windows may be read in rows.
pub(super) fn serves(p: &Params) -> bool {
    let g = &p.geometry;
    g.groups == 1 && g.kernel != [1, 1] && g.dilation[1] == 1 && p.out_channels <= MOST_COLUMNS
}

/// Some rows of the output at a time.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    /// Rows of a band at most, and bands of an image.
    rows: usize,
    per_image: usize,
    /// Bytes of an input row with what is beside the map, and pixels of it.
    pitch: usize,
    pixels: usize,
}

impl Bands {
    /// `None` where windows are better gathered, or `room` bytes have no room for a line's rows.
    pub(super) fn new(p: &Params, width: usize, out: &Nhwc, room: usize, wanted: usize) -> Option<Self> {
        let g = &p.geometry;
        if out.w < LEAST_LINE {
            return None;
        }
        let pixels = (out.w - 1) * g.stride[1] + g.kernel[1];
        let pitch = pixels.checked_mul(p.in_channels * width)?;
        let window = (g.kernel[0] - 1) * g.dilation[0] + 1;
        let fit = |bytes: usize| {
            let rows = bytes.saturating_sub(SLACK) / pitch + g.stride[0];
            rows.saturating_sub(window) / g.stride[0]
        };
        // A few rows at least, so that those that bands share are not most of them.
        let rows = fit(room.min(BAND_BYTES)).max(fit(room).min(4));
        let even = (out.n * out.h).div_ceil(wanted);
        let rows = rows.min(even).min(out.h);
        (rows > 0).then(|| Self { rows, per_image: out.h.div_ceil(rows), pitch, pixels })
    }

    pub(super) const fn count(&self, images: usize) -> usize {
        images * self.per_image
    }
}

/// Computes a band, or a part of its columns.
///
/// # Safety
/// As [`super::gemm_tile`].
#[inline(always)]
pub(super) unsafe fn band<S: Int8>(job: &GemmJob<'_>, bands: &Bands, task: usize, worker: usize) {
    let (chunk, band) = (task % job.chunks, task / job.chunks);
    let (image, first) = (band / bands.per_image, band % bands.per_image * bands.rows);
    let (p, out) = (job.p, &job.views.out_map);
    let rows = bands.rows.min(out.h - first);
    let width = job.gemm.vector.width;
    // SAFETY: the worker's slot holds a band's rows and the slack: `Bands::new` was given its size.
    unsafe {
        let to = job.scratch.add(worker * job.gemm.slot_bytes());
        copy_rows::<S>(job, bands, [image, first, rows], to);
        let line = |row: usize| Line {
            activations: to.add(row * p.geometry.stride[0] * bands.pitch),
            readable: job.gemm.slot_bytes() - row * p.geometry.stride[0] * bands.pitch,
            stride: p.geometry.stride[1] * p.in_channels * width,
            runs: p.geometry.kernel[0],
            apart: p.geometry.dilation[0] * bands.pitch,
            pixel: [image, first + row, 0],
            rows: out.w,
        };
        let steps = rows.saturating_mul(out.w).saturating_mul(job.gemm.row_bytes / 8);
        let mut pace = Pace::new();
        for (panel, count) in job.panels(chunk) {
            if pace.stops(steps) {
                return;
            }
            for row in 0..rows {
                job.multiply::<S>(&line(row), 0, panel, count);
            }
        }
        for row in 0..rows {
            job.look_up::<S>(&line(row), 0, chunk);
        }
    }
}

/// Copies the input's rows of some output rows, packed, with its zero point beside the map.
///
/// Rows are written from front to back, so that what a run writes beyond its end is overwritten by the next.
///
/// # Safety
/// As [`band`]; `to` has room for the rows and the slack.
#[inline(always)]
unsafe fn copy_rows<S: Int8>(
    job: &GemmJob<'_>,
    bands: &Bands,
    [image, first, rows]: [usize; 3],
    to: *mut u8,
) {
    let (p, map) = (job.p, &job.views.in_map);
    let (g, depth) = (&p.geometry, p.in_channels);
    let vector = job.gemm.vector;
    let (flip, zero_point) = (vector.flip(p.input), vector.zero_point(p.input) as u8);
    let left = g.pad[1].min(bands.pixels);
    let inside = map.w.min(bands.pixels - left);
    let right = bands.pixels - left - inside;
    let input_rows = (rows - 1) * g.stride[0] + (g.kernel[0] - 1) * g.dilation[0] + 1;
    for row in 0..input_rows {
        // SAFETY: rows and columns outside of the map are filled, the others lie within the input's slice.
        unsafe {
            let mut to = to.add(row * bands.pitch);
            let y = (first * g.stride[0] + row).wrapping_sub(g.pad[0]);
            if y >= map.h {
                S::fill_activations(to, zero_point, bands.pixels * depth);
                continue;
            }
            S::fill_activations(to, zero_point, left * depth);
            to = to.add(left * depth * S::WIDTH);
            let from = job.views.input.as_ptr().add(map.offset(image, y, 0));
            if map.stride_w == depth {
                S::pack_activations(to, from, inside * depth, flip);
            } else {
                for x in 0..inside {
                    S::pack_activations(
                        to.add(x * depth * S::WIDTH),
                        from.add(x * map.stride_w),
                        depth,
                        flip,
                    );
                }
            }
            S::fill_activations(to.add(inside * depth * S::WIDTH), zero_point, right * depth);
        }
    }
}
