//! The f32 depthwise convolution: channels side by side in vectors, a few pixels at a time so that weights are loaded once
//! for all of them. Taps in padding are left out.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::dispatch::{Level, multiversion};
use crate::{ConvGeometry, Pool};

use super::fconv::Views;
use super::fepilogue::Epilogue;

/// Weights of a depthwise convolution, tap by tap.
#[derive(Debug)]
pub(crate) struct Depthwise {
    channels: usize,
    weights: Vec<f32>,
}

impl Depthwise {
    /// `weights` lie channel by channel.
    pub(crate) fn new(channels: usize, taps: usize, weights: &[f32]) -> Self {
        let weights = (0..taps).flat_map(|tap| (0..channels).map(move |c| weights[c * taps + tap])).collect();
        Self { channels, weights }
    }
}

/// Pixels computed side by side.
const PIXELS: usize = 6;
/// Channels computed side by side.
const CHANNELS: usize = 16;

/// Taps `first..end` of a window whose first tap lies at `start` − `pad`.
fn taps_inside(start: usize, pad: usize, step: usize, kernel: usize, size: usize) -> std::ops::Range<usize> {
    let first = pad.saturating_sub(start).div_ceil(step).min(kernel);
    let end = (size + pad).saturating_sub(start).div_ceil(step).min(kernel);
    first..end.max(first)
}

/// The window of some neighbouring pixels, clipped to the input.
#[derive(Clone)]
struct Window {
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    /// Index of tap (0, 0) of the first pixel; may lie outside, the taps in range do not.
    origin: usize,
    kernel_columns: usize,
    step_row: usize,
    step_column: usize,
    step_pixel: usize,
    channels: usize,
}

pub(crate) fn run(
    level: Level,
    depthwise: &Depthwise,
    g: &ConvGeometry,
    epilogue: &Epilogue,
    views: &Views<'_>,
    pool: &Pool,
) {
    let (map, out) = (views.in_map, views.out_map);
    let channels = depthwise.channels;
    pool.run(out.n * out.h, &|task, _| {
        let (n, oh) = (task / out.h, task % out.h);
        let rows = taps_inside(oh * g.stride[0], g.pad[0], g.dilation[0], g.kernel[0], map.h);
        let mut sums = [0.0f32; PIXELS * CHANNELS];
        let mut ow = 0;
        while ow < out.w {
            let columns =
                |ow: usize| taps_inside(ow * g.stride[1], g.pad[1], g.dilation[1], g.kernel[1], map.w);
            let all = 0..g.kernel[1];
            let last = ow + PIXELS - 1;
            let many = last < out.w && columns(ow) == all && columns(last) == all;
            let origin = (n * map.stride_n)
                .wrapping_add((oh * g.stride[0]).wrapping_sub(g.pad[0]).wrapping_mul(map.stride_h))
                .wrapping_add((ow * g.stride[1]).wrapping_sub(g.pad[1]).wrapping_mul(map.stride_w));
            let window = Window {
                rows: rows.clone(),
                columns: columns(ow),
                origin,
                kernel_columns: g.kernel[1],
                step_row: g.dilation[0] * map.stride_h,
                step_column: g.dilation[1] * map.stride_w,
                step_pixel: g.stride[1] * map.stride_w,
                channels,
            };
            let pixels = if many { PIXELS } else { 1 };
            for c in (0..channels).step_by(CHANNELS) {
                let used = CHANNELS.min(channels - c);
                accumulate(level, &window, &depthwise.weights, views.input, c, used, pixels, &mut sums);
                // SAFETY: pixels of this task's row, inside of the checked maps.
                unsafe { epilogue.store(&mut sums, CHANNELS, used, c, views, [n, oh, ow], pixels) };
            }
            ow += pixels;
        }
    });
}

multiversion! {
    fn accumulate(window: &Window, weights: &[f32], x: &[f32], c: usize, used: usize, pixels: usize, sums: &mut [f32; PIXELS * CHANNELS]) {
        match (pixels, used) {
            (PIXELS, CHANNELS) => block::<PIXELS>(window, weights, x, c, sums),
            (_, CHANNELS) => block::<1>(window, weights, x, c, sums),
            _ => {
                for pixel in 0..pixels {
                    for i in 0..used {
                        sums[pixel * CHANNELS + i] = single(window, weights, x, c + i, pixel);
                    }
                }
            }
        }
    }
}

/// The index of a tap's first channel.
#[inline(always)]
fn tap(window: &Window, row: usize, column: usize, pixel: usize) -> usize {
    window
        .origin
        .wrapping_add(row * window.step_row)
        .wrapping_add(column * window.step_column)
        .wrapping_add(pixel * window.step_pixel)
}

#[inline(always)]
fn block<const N: usize>(
    window: &Window,
    weights: &[f32],
    x: &[f32],
    c: usize,
    sums: &mut [f32; PIXELS * CHANNELS],
) {
    let mut acc = [[0.0f32; CHANNELS]; N];
    for row in window.rows.clone() {
        for column in window.columns.clone() {
            let w = &weights[(row * window.kernel_columns + column) * window.channels + c..][..CHANNELS];
            for (pixel, acc) in acc.iter_mut().enumerate() {
                let x = &x[tap(window, row, column, pixel) + c..][..CHANNELS];
                for i in 0..CHANNELS {
                    acc[i] = x[i].mul_add(w[i], acc[i]);
                }
            }
        }
    }
    for (acc, sums) in acc.iter().zip(sums.chunks_exact_mut(CHANNELS)) {
        sums.copy_from_slice(acc);
    }
}

#[inline(always)]
fn single(window: &Window, weights: &[f32], x: &[f32], c: usize, pixel: usize) -> f32 {
    let mut sum = 0.0f32;
    for row in window.rows.clone() {
        for column in window.columns.clone() {
            let w = weights[(row * window.kernel_columns + column) * window.channels + c];
            sum = x[tap(window, row, column, pixel) + c].mul_add(w, sum);
        }
    }
    sum
}
