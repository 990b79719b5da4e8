//! The f32 depthwise convolution, and that in groups of a few channels: channels side by side in vectors, groups of neighbouring pixels.
//! Taps in padding are left out, so the pixels of a group have the same taps.

use std::ops::Range;

use crate::cancel::{self, SPAN, spans};
use crate::dispatch::Level;
use crate::{ConvGeometry, Isa, Pool, math};

use super::fconv::Views;
use super::fepilogue::Epilogue;

/// Weights of a depthwise convolution, tap by tap, input channel of the group by input channel.
#[derive(Debug)]
pub(crate) struct Depthwise {
    channels: usize,
    /// Input channels, and output channels, of a group: see [`Depthwise::takes`].
    each: usize,
    /// Channels of a tap, those included that fill its last vector.
    padded: usize,
    weights: Vec<f32>,
}

/// Taps are a multiple of so many floats apart: a whole vector of any instruction set.
const LANES: usize = 16;

impl Depthwise {
    /// Whether groups of so many input and output channels are computed side by side: a vector of any instruction set has whole ones.
    pub(crate) const fn takes(inputs: usize, outputs: usize) -> bool {
        inputs == outputs && matches!(inputs, 1 | 2 | 4)
    }

    /// `weight` gives the value of a channel, a tap and one of the group's `each` input channels.
    pub(crate) fn new(
        channels: usize,
        each: usize,
        taps: usize,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let padded = channels.next_multiple_of(LANES);
        let mut weights = vec![0.0; taps.saturating_mul(each).saturating_mul(padded)];
        for (index, row) in weights.chunks_exact_mut(padded).enumerate() {
            for (channel, to) in row[..channels].iter_mut().enumerate() {
                *to = weight(channel, index / each, index % each);
            }
        }
        Self { channels, each, padded, weights }
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.weights.as_slice())
    }
}

/// Most pixels of a group, and of one whose pixels share elements.
const MAX_PIXELS: usize = 6;
const MAX_SHARING: usize = 10;

/// Floats that wait for a function, so that it is called for many at once.
const STAGE: usize = 2048;

/// Neighbouring pixels of a row, all of whose taps lie inside of the input, and channels of them.
pub(super) struct Group {
    /// The first channel of the first pixel's first tap.
    pub(super) input: *const f32,
    /// From pixel to pixel, and between taps from row to row and column to column, in floats.
    pub(super) input_step: usize,
    pub(super) line_step: usize,
    pub(super) column_step: usize,
    /// Rows and columns of taps.
    pub(super) lines: usize,
    pub(super) columns: usize,
    /// The first channel's weight at the first tap; readable for whole vectors. From one input channel of a group to the next, from
    /// tap to tap, and from row to row of them.
    pub(super) weights: *const f32,
    pub(super) weight_input: usize,
    pub(super) weight_step: usize,
    pub(super) weight_line: usize,
    /// Input channels of a group.
    pub(super) each: usize,
    /// One per channel; readable for whole vectors.
    pub(super) bias: *const f32,
    /// Null without a residual.
    pub(super) residual: *const f32,
    pub(super) residual_step: usize,
    pub(super) output: *mut f32,
    pub(super) output_step: usize,
    pub(super) limits: [f32; 2],
    pub(super) channels: usize,
    /// Whether the window alone takes so long that work may be stopped within it.
    pub(super) long: bool,
}

impl Group {
    /// Whether the work is to stop.
    #[inline]
    pub(super) fn stops(&self) -> bool {
        self.long && cancel::requested()
    }

    /// How many columns lie between neighbouring pixels, which share elements of rows of a few taps then; 0 where they do not.
    #[inline]
    pub(super) fn apart(&self, level: Level) -> usize {
        apart(level, self.each, self.columns, self.input_step, self.column_step)
    }

    /// Computes `pixels` pixels, at most [`MAX_PIXELS`], or [`MAX_SHARING`] that share elements.
    ///
    /// # Safety
    /// Pixels, taps and channels can be read and written as the fields say, by this thread alone.
    unsafe fn run(&self, level: Level, pixels: usize) {
        let apart = self.apart(level);
        debug_assert!(pixels <= if apart > 0 { MAX_SHARING } else { MAX_PIXELS });
        // SAFETY: as promised by the caller; the level vouches for the instruction set.
        unsafe {
            match level.isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => {
                    super::fdepthwise_simd::pixels_avx512(pixels, apart, self);
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => super::fdepthwise_simd::pixels_avx2(pixels, apart, self),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon | Isa::NeonDot => super::fdepthwise_simd::pixels_neon(pixels, apart, self),
                _ => self.run_scalar(pixels),
            }
        }
    }

    /// # Safety
    /// As [`Group::run`].
    unsafe fn run_scalar(&self, pixels: usize) {
        let [low, high] = self.limits;
        for (pixel, channel) in (0..pixels).flat_map(|pixel| (0..self.channels).map(move |c| (pixel, c))) {
            let own = channel - channel % self.each;
            let first = self.input.wrapping_add(pixel * self.input_step + own);
            let mut sum = 0.0f32;
            for line in 0..self.lines {
                if self.stops() {
                    return;
                }
                for column in 0..self.columns {
                    let x = first.wrapping_add(line * self.line_step + column * self.column_step);
                    let at = line * self.weight_line + column * self.weight_step + channel;
                    for input in 0..self.each {
                        // SAFETY: a tap and its weight, as the caller promised.
                        sum = unsafe {
                            let weight = *self.weights.add(at + input * self.weight_input);
                            (*x.add(input)).mul_add(weight, sum)
                        };
                    }
                }
            }
            // SAFETY: a channel of a pixel, as the caller promised.
            unsafe {
                let mut y = sum + *self.bias.add(channel);
                if !self.residual.is_null() {
                    y += *self.residual.add(pixel * self.residual_step + channel);
                }
                *self.output.add(pixel * self.output_step + channel) = math::min(math::max(y, low), high);
            }
        }
    }
}

/// How many columns of taps lie between neighbouring pixels, where a kernel loads each element once for all that see it.
#[inline]
fn apart(level: Level, each: usize, columns: usize, input_step: usize, column_step: usize) -> usize {
    match (each, columns) {
        (1, 3 | 5) if input_step == column_step => 1,
        (1, 7) if input_step == column_step && level.has_many_registers() => 1,
        (1, 3 | 5) if input_step == 2 * column_step => 2,
        _ => 0,
    }
}

/// Taps of a window whose first tap lies at `start` − `pad` that lie inside of the input.
fn taps_inside(start: usize, pad: usize, step: usize, kernel: usize, size: usize) -> Range<usize> {
    let first = pad.saturating_sub(start).div_ceil(step).min(kernel);
    let end = (size + pad).saturating_sub(start).div_ceil(step).min(kernel);
    first..end.max(first)
}

/// One output row.
struct Row<'a> {
    level: Level,
    depthwise: &'a Depthwise,
    geometry: &'a ConvGeometry,
    epilogue: &'a Epilogue,
    views: &'a Views<'a>,
    n: usize,
    oh: usize,
    /// Kernel rows inside of the input.
    taps: Range<usize>,
    /// Pixels with all taps of a kernel row inside of the input.
    inner: Range<usize>,
}

/// Output pixels of a row whose window lies inside of the input's columns.
fn inner(g: &ConvGeometry, size: usize) -> Range<usize> {
    let reach = (g.kernel[1] - 1) * g.dilation[1];
    let end = (size + g.pad[1]).checked_sub(reach + 1).map_or(0, |last| last / g.stride[1] + 1);
    g.pad[1].div_ceil(g.stride[1])..end
}

pub(crate) fn run(
    level: Level,
    depthwise: &Depthwise,
    geometry: &ConvGeometry,
    epilogue: &Epilogue,
    views: &Views<'_>,
    pool: &Pool,
) {
    let (g, out) = (geometry, views.out_map);
    let inner = inner(g, views.in_map.w);
    pool.run(out.n * out.h, &|task, _| {
        let (n, oh) = (task / out.h, task % out.h);
        let taps = taps_inside(oh * g.stride[0], g.pad[0], g.dilation[0], g.kernel[0], views.in_map.h);
        let row = Row { level, depthwise, geometry, epilogue, views, n, oh, taps, inner: inner.clone() };
        let channels = depthwise.channels.saturating_mul(depthwise.each);
        let steps = channels.saturating_mul(row.taps.len()).saturating_mul(g.kernel[1]);
        for part in spans(out.w, steps) {
            // SAFETY: the row belongs to this task, and its taps lie inside of the checked input.
            unsafe {
                if epilogue.function.is_some() {
                    row.staged(part);
                } else {
                    let output = views.output.add(out.offset(n, oh, part.start));
                    row.pixels(part, 0..depthwise.channels, output, out.stride_w);
                }
            }
        }
    });
}

impl Row<'_> {
    /// Kernel columns of an output pixel inside of the input.
    fn columns(&self, ow: usize) -> Range<usize> {
        let g = self.geometry;
        taps_inside(ow * g.stride[1], g.pad[1], g.dilation[1], g.kernel[1], self.views.in_map.w)
    }

    /// Pixels whose results go through a function.
    ///
    /// # Safety
    /// The pixels lie inside of the row, which no other task writes.
    unsafe fn staged(&self, pixels: Range<usize>) {
        let out = self.views.out_map;
        let all = self.depthwise.channels;
        let part = all.min(STAGE);
        let most = STAGE / part;
        let mut stage = [0.0f32; STAGE];
        for first in pixels.clone().step_by(most) {
            let count = most.min(pixels.end - first);
            for channel in (0..all).step_by(part) {
                let channels = channel..all.min(channel + part);
                let width = channels.len();
                // SAFETY: the stage has room for so many pixels and channels; what is written lies inside of the row.
                unsafe {
                    self.pixels(first..first + count, channels, stage.as_mut_ptr(), width);
                    let output = self.views.output.add(out.offset(self.n, self.oh, first) + channel);
                    if out.stride_w == width {
                        let output = std::slice::from_raw_parts_mut(output, count * width);
                        self.epilogue.activate(&stage[..count * width], output);
                        continue;
                    }
                    for (pixel, sums) in stage[..count * width].chunks_exact(width).enumerate() {
                        let output = std::slice::from_raw_parts_mut(output.add(pixel * out.stride_w), width);
                        self.epilogue.activate(sums, output);
                    }
                }
            }
        }
    }

    /// Channels of pixels, to `output` and on, `output_step` floats from pixel to pixel.
    ///
    /// # Safety
    /// The pixels and channels exist; the output has room for them and is written by nobody else.
    unsafe fn pixels(
        &self,
        pixels: Range<usize>,
        channels: Range<usize>,
        output: *mut f32,
        output_step: usize,
    ) {
        let (g, views) = (self.geometry, self.views);
        let map = views.in_map;
        let (line_step, column_step) = (g.dilation[0] * map.stride_h, g.dilation[1] * map.stride_w);
        let Depthwise { each, padded, .. } = *self.depthwise;
        let weight_line = g.kernel[1] * each * padded;
        let lines = self.taps.len();
        let input_step = g.stride[1] * map.stride_w;
        let shares = apart(self.level, each, g.kernel[1], input_step, column_step) > 0;
        let most = if shares { MAX_SHARING } else { MAX_PIXELS };
        let mut ow = pixels.start;
        while ow < pixels.end {
            let (count, columns) = if self.inner.contains(&ow) {
                // Two last groups of about the same size: one of a pixel would take as long as one of three.
                let left = self.inner.end.min(pixels.end) - ow;
                let even = left.div_ceil(left.div_ceil(most));
                (if left < 2 * most { even } else { most }, 0..g.kernel[1])
            } else {
                (1, self.columns(ow))
            };
            // Where tap (0, 0) of the first pixel lies or, in padding, would lie.
            let origin = (self.n * map.stride_n + channels.start)
                .wrapping_add((self.oh * g.stride[0]).wrapping_sub(g.pad[0]).wrapping_mul(map.stride_h))
                .wrapping_add((ow * g.stride[1]).wrapping_sub(g.pad[1]).wrapping_mul(map.stride_w));
            let first =
                origin.wrapping_add(self.taps.start * line_step).wrapping_add(columns.start * column_step);
            let tap = self.taps.start * weight_line + columns.start * each * padded;
            let residual = views.residual.map(|(x, map)| {
                let at = map.offset(self.n, self.oh, ow) + channels.start;
                (x.as_ptr().wrapping_add(at), map.stride_w)
            });
            let (residual, residual_step) = residual.unwrap_or((std::ptr::null(), 0));
            let group = Group {
                input: views.input.as_ptr().wrapping_add(first),
                input_step,
                line_step,
                column_step,
                lines,
                columns: columns.len(),
                weights: self.depthwise.weights.as_ptr().wrapping_add(tap + channels.start),
                weight_input: padded,
                weight_step: each * padded,
                weight_line,
                each,
                bias: self.epilogue.bias.as_ptr().wrapping_add(channels.start),
                residual,
                residual_step,
                output: output.wrapping_add((ow - pixels.start) * output_step),
                output_step,
                limits: self.epilogue.limits,
                channels: channels.len(),
                long: lines.saturating_mul(columns.len()) > SPAN,
            };
            // SAFETY: all pixels of a group have all taps of a kernel row, or there is only one; taps, pixels and channels
            // exist by the caller's promise.
            unsafe { group.run(self.level, count) };
            ow += count;
        }
    }
}
