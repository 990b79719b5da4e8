//! The f32 depthwise convolution: channels side by side in vectors, a few pixels at a time so that weights are loaded once
//! for all of them. Taps in padding are left out.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::cancel::{self, SPAN, spans};
use crate::dispatch::{Level, multiversion};
use crate::{ConvGeometry, Pool, math};

use super::fconv::Views;
use super::fepilogue::Epilogue;

/// Weights of a depthwise convolution, tap by tap.
#[derive(Debug)]
pub(crate) struct Depthwise {
    channels: usize,
    weights: Vec<f32>,
}

impl Depthwise {
    /// `weight` gives the value of a channel and a tap.
    pub(crate) fn new(channels: usize, taps: usize, weight: impl Fn(usize, usize) -> f32) -> Self {
        let weight = &weight;
        let weights = (0..taps).flat_map(|tap| (0..channels).map(move |c| weight(c, tap))).collect();
        Self { channels, weights }
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.weights.as_slice())
    }
}

/// Channels computed side by side.
const CHANNELS: usize = 16;

/// Taps of a window whose first tap lies at `start` − `pad` that lie inside of the input.
fn taps_inside(start: usize, pad: usize, step: usize, kernel: usize, size: usize) -> std::ops::Range<usize> {
    let first = pad.saturating_sub(start).div_ceil(step).min(kernel);
    let end = (size + pad).saturating_sub(start).div_ceil(step).min(kernel);
    first..end.max(first)
}

/// One output row.
struct Row<'a> {
    depthwise: &'a Depthwise,
    geometry: &'a ConvGeometry,
    epilogue: &'a Epilogue,
    views: &'a Views<'a>,
    n: usize,
    oh: usize,
    /// Kernel rows inside of the input.
    taps: std::ops::Range<usize>,
}

pub(crate) fn run(
    level: Level,
    depthwise: &Depthwise,
    geometry: &ConvGeometry,
    epilogue: &Epilogue,
    views: &Views<'_>,
    pool: &Pool,
) {
    let out = views.out_map;
    pool.run(out.n * out.h, &|task, _| {
        let (n, oh) = (task / out.h, task % out.h);
        let g = geometry;
        let taps = taps_inside(oh * g.stride[0], g.pad[0], g.dilation[0], g.kernel[0], views.in_map.h);
        let row = Row { depthwise, geometry, epilogue, views, n, oh, taps };
        // SAFETY: the row belongs to this task, and its taps lie inside of the checked input.
        unsafe { compute_row(level, &row) };
    });
}

multiversion! {
    /// One output row; # Safety: the maps were checked, and no other task writes the row.
    unsafe fn compute_row(row: &Row<'_>) {
        let g = row.geometry;
        let (map, out) = (row.views.in_map, row.views.out_map);
        let columns = |ow: usize| taps_inside(ow * g.stride[1], g.pad[1], g.dilation[1], g.kernel[1], map.w);
        let steps = row.depthwise.channels.saturating_mul(row.taps.len()).saturating_mul(g.kernel[1]);
        for part in spans(out.w, steps) {
            let mut ow = part.start;
            while ow < part.end {
                let taps = columns(ow);
                let inner = |ow: usize| columns(ow).len() == g.kernel[1];
                let fits = |pixels: usize| ow + pixels <= part.end && inner(ow) && inner(ow + pixels - 1);
                // SAFETY: all pixels of a group have all taps of a kernel row, or there is only one.
                ow += unsafe {
                    if fits(6) {
                        group::<6>(row, ow, taps)
                    } else if fits(3) {
                        group::<3>(row, ow, taps)
                    } else {
                        group::<1>(row, ow, taps)
                    }
                };
            }
        }
    }
}

/// All channels of `P` pixels from `ow` on; returns `P`.
///
/// # Safety
/// The taps of all pixels lie inside of the input, the pixels inside of the output.
#[inline(always)]
unsafe fn group<const P: usize>(row: &Row<'_>, ow: usize, taps: std::ops::Range<usize>) -> usize {
    let channels = row.depthwise.channels;
    let mut c = 0;
    // SAFETY: passed on; channels are in range.
    unsafe {
        while c + CHANNELS <= channels {
            block::<P, CHANNELS>(row, ow, taps.clone(), c);
            c += CHANNELS;
        }
        while c + 4 <= channels {
            block::<P, 4>(row, ow, taps.clone(), c);
            c += 4;
        }
        while c < channels {
            block::<P, 1>(row, ow, taps.clone(), c);
            c += 1;
        }
    }
    P
}

/// `P` pixels from `ow` on, `C` channels from `c` on.
///
/// # Safety
/// The taps of all pixels lie inside of the input, the pixels and channels inside of the output.
#[inline(always)]
unsafe fn block<const P: usize, const C: usize>(
    row: &Row<'_>,
    ow: usize,
    columns: std::ops::Range<usize>,
    c: usize,
) {
    let g = row.geometry;
    let map = row.views.in_map;
    // Where tap (0, 0) of the first pixel lies or, in padding, would lie.
    let origin = (row.n * map.stride_n + c)
        .wrapping_add((row.oh * g.stride[0]).wrapping_sub(g.pad[0]).wrapping_mul(map.stride_h))
        .wrapping_add((ow * g.stride[1]).wrapping_sub(g.pad[1]).wrapping_mul(map.stride_w));
    let pixel_step = g.stride[1] * map.stride_w;
    let (line_step, column_step) = (g.dilation[0] * map.stride_h, g.dilation[1] * map.stride_w);
    let channels = row.depthwise.channels;
    let mut acc = [[0.0f32; C]; P];
    // A window of its own size is a span, or many.
    let long = row.taps.len().saturating_mul(columns.len()) > SPAN;
    for kh in row.taps.clone() {
        if long && cancel::requested() {
            return;
        }
        let first = origin.wrapping_add(kh * line_step).wrapping_add(columns.start * column_step);
        let mut x = row.views.input.as_ptr().wrapping_add(first);
        let tap = (kh * g.kernel[1] + columns.start) * channels + c;
        let mut w = row.depthwise.weights.as_ptr().wrapping_add(tap);
        for _ in columns.clone() {
            // SAFETY: a tap inside of the input by the caller's promise, `C` channels from `c` on; the weights hold
            // every tap.
            unsafe {
                let w = w.cast::<[f32; C]>().read_unaligned();
                for (pixel, acc) in acc.iter_mut().enumerate() {
                    let x = x.add(pixel * pixel_step).cast::<[f32; C]>().read_unaligned();
                    for i in 0..C {
                        acc[i] = x[i].mul_add(w[i], acc[i]);
                    }
                }
            }
            x = x.wrapping_add(column_step);
            w = w.wrapping_add(channels);
        }
    }
    let epilogue = row.epilogue;
    let out = row.views.out_map;
    if epilogue.function.is_none() && row.views.residual.is_none() {
        let [low, high] = epilogue.limits;
        let bias = &epilogue.bias[c..][..C];
        for (pixel, acc) in acc.iter().enumerate() {
            let y: [f32; C] = std::array::from_fn(|i| math::min(math::max(acc[i] + bias[i], low), high));
            // SAFETY: channels of a pixel of the output by the caller's promise.
            unsafe {
                let at = row.views.output.add(out.offset(row.n, row.oh, ow + pixel) + c);
                at.cast::<[f32; C]>().write_unaligned(y);
            }
        }
    } else {
        // A copy: accumulators whose address is known would not stay in registers.
        let mut sums = acc;
        // SAFETY: as above.
        unsafe { epilogue.store(sums.as_flattened_mut(), C, c, row.views, [row.n, row.oh, ow]) };
    }
}
