//! Convolution of 16-bit integers: exact sums in i64, then clamp(round(sum · multiplier)).
//!
//! Products of 16 bits fill 32, so that a vector of i32 could not hold a sum of three. A weight is therefore 256·high + low, both
//! between -128 and 128, and there are two products per pair of operands: of either, as many as a chunk has fit 32 bits whatever the
//! activations are, and are added up in 64 then. Tiles of pixels are gathered and multiplied as in `qgemm`.

#![expect(clippy::inline_always, reason = "vector code must be inlined where the instruction set is enabled")]

use triune_tensor::Rounding;

use crate::arch::int8::{Int8, SumsKernel};
use crate::cancel::{Pace, spans};
use crate::dispatch::{Level, multiversion};
use crate::imatmul::Block;
use crate::parallel::{self, Shared};
use crate::q16::Q16Target;
use crate::{ConvGeometry, Error, Isa, Nhwc, Pool};

use super::qgemm::{Pixel, pixel_stride};
use super::qpack::Lines;

/// Steps, each of two products, of which sums fit 32 bits: 504 · 2¹⁵ · 2⁷ < 2³¹.
const CHUNK: usize = 252;
/// Bytes of gathered activations that stay in the second-level cache beside the weights that stream through it.
const TILE_BYTES: usize = 256 << 10;
/// Pixels of a tile at most.
const MAX_ROWS: usize = 96;
/// Vectors of sums that a kernel makes at most, and 32-bit lanes that a vector has.
const MOST_SUMS: usize = 24 * 16;
/// Output channels of a group from which panels of them are worth it.
const FEW: usize = 4;

/// A convolution of 16-bit integers: clamp(round(f64(Σ weight · x + bias) · multiplier)).
#[derive(Clone, Copy, Debug)]
pub struct Q16ConvSpec<'a> {
    /// Window and groups.
    pub geometry: ConvGeometry,
    /// Channels of the input map.
    pub in_channels: usize,
    /// Channels of the output map.
    pub out_channels: usize,
    /// Weights in the order output channel, kernel row, kernel column, input channel of the group.
    pub weights: &'a [i16],
    /// One per output channel, in units of input scale × weight scale.
    pub bias: Option<&'a [i32]>,
    /// Input scale × weight scale / output scale: one per output channel, or one for all. Finite.
    pub multiplier: &'a [f32],
    /// What results are.
    pub target: Q16Target,
}

/// A convolution of 16-bit integers, ready to run on any map size.
#[derive(Debug)]
pub struct Q16Conv {
    geometry: ConvGeometry,
    in_channels: usize,
    weights: Weights,
    /// One each per output channel.
    bias: Vec<i64>,
    multiplier: Vec<f64>,
    target: Q16Target,
    level: Level,
}

#[derive(Debug)]
enum Weights {
    /// As in [`Q16ConvSpec`]: one product after the other, the specification of what follows.
    Plain(Vec<i16>),
    /// A channel's own, tap by tap.
    Depthwise(Vec<i16>),
    Panels(Panels),
}

/// How an instruction set sums up products of pairs.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// Columns of a panel.
    lanes: usize,
    /// Rows of the kernels by number of panels.
    rows: &'static [&'static [usize]],
    kernel: fn(usize, usize) -> SumsKernel,
}

impl Form {
    fn new(level: Level) -> Option<Self> {
        #[cfg(target_arch = "aarch64")]
        use crate::arch::int8_neon::{self, Neon};
        #[cfg(target_arch = "x86_64")]
        use crate::arch::{
            int8_avx2::{self, Avx2},
            int8_avx512::{self, Avx512},
        };
        Some(match level.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::of::<Avx2>(int8_avx2::sums),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Self::of::<Avx512<false>>(int8_avx512::sums_of_words::<false>),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni | Isa::Amx => Self::of::<Avx512<true>>(int8_avx512::sums_of_words::<true>),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon | Isa::NeonDot => Self::of::<Neon<false>>(int8_neon::sums::<false>),
            _ => return None,
        })
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn of<S: Int8>(kernel: fn(usize, usize) -> SumsKernel) -> Self {
        Self { lanes: S::LANES, rows: S::ROWS, kernel }
    }
}

/// Weights for the kernels: group, chunk of steps, high parts and low parts, panel, step, column, two of them.
#[derive(Debug)]
struct Panels {
    form: Form,
    words: Lines,
    /// Panels of a group.
    count: usize,
    /// Steps over the depth of the product, of two elements each.
    steps: usize,
    /// Bytes from one gathered row to the next.
    row_bytes: usize,
    /// Pixels of a tile at most.
    max_rows: usize,
}

/// The parts of a weight: 256·high + low.
const fn split(weight: i16) -> [i16; 2] {
    let low = weight as i8 as i16;
    [((weight as i32 - low as i32) >> 8) as i16, low]
}

impl Panels {
    fn new(form: Form, weights: &[i16], [channels, groups, depth]: [usize; 3]) -> Self {
        let columns = channels / groups;
        let (count, steps) = (columns.div_ceil(form.lanes), depth.div_ceil(2));
        // An odd number of cache lines, so that the rows of a kernel do not fall into the same cache sets.
        let row_bytes = (4 * steps).next_multiple_of(64) | 64;
        let max_rows = (TILE_BYTES / row_bytes).clamp(1, MAX_ROWS);
        let words = Lines::zeroed(4 * groups * 2 * count * steps * form.lanes);
        let mut panels = Self { form, words, count, steps, row_bytes, max_rows };
        for (channel, row) in weights.chunks_exact(depth.max(1)).enumerate() {
            let (group, column) = (channel / columns, channel % columns);
            for (step, pair) in row.chunks(2).enumerate() {
                let (chunk, within) = (step / CHUNK, step % CHUNK);
                for half in 0..2 {
                    let parts = [0, 1].map(|i| pair.get(i).map_or(0, |&weight| split(weight)[half]));
                    let at = panels.place(group, chunk, half, column / form.lanes)
                        + within * form.lanes
                        + column % form.lanes;
                    let [first, second] = parts.map(i16::to_le_bytes);
                    panels.words.words_mut()[at] =
                        u32::from_le_bytes([first[0], first[1], second[0], second[1]]);
                }
            }
        }
        panels
    }

    /// Steps of a chunk.
    fn chunk_steps(&self, chunk: usize) -> usize {
        (self.steps - chunk * CHUNK).min(CHUNK)
    }

    /// Where one of a chunk's panels begins, in words.
    fn place(&self, group: usize, chunk: usize, half: usize, panel: usize) -> usize {
        let group = group * 2 * self.count * self.steps;
        let before = 2 * self.count * chunk * CHUNK;
        (group + before + (half * self.count + panel) * self.chunk_steps(chunk)) * self.form.lanes
    }

    fn slot_bytes(&self) -> usize {
        self.max_rows * self.row_bytes
    }
}

/// One run over a pair of maps.
struct Job<'a> {
    conv: &'a Q16Conv,
    panels: &'a Panels,
    input: &'a [i16],
    in_map: Nhwc,
    output: Shared<'a, i16>,
    out_map: Nhwc,
    /// Pixels of a tile.
    rows: usize,
    /// Tasks that share the panels of one tile and group, and the panels of each.
    chunks: usize,
    chunk_panels: usize,
    /// Elements between pixels, if rows are read from the input itself.
    direct: Option<usize>,
    scratch: Shared<'a, u8>,
}

impl Job<'_> {
    fn run(&self, task: usize, worker: usize) {
        let (conv, panels) = (self.conv, self.panels);
        let (groups, form) = (conv.geometry.groups, panels.form);
        let (chunk, group, tile) =
            (task % self.chunks, task / self.chunks % groups, task / self.chunks / groups);
        let first = tile * self.rows;
        let rows = self.rows.min(self.out_map.pixels() - first);
        let depth = conv.in_channels / groups;
        let (activations, stride): (*const u8, usize) = if let Some(stride) = self.direct {
            (self.input[first * stride + group * depth..].as_ptr().cast(), 2 * stride)
        } else {
            // SAFETY: workers have a slot each.
            let slot = unsafe { self.scratch.piece(worker * panels.slot_bytes(), rows * panels.row_bytes) };
            self.gather(group, first, slot);
            (slot.as_ptr(), panels.row_bytes)
        };
        let mut at = [0; MAX_ROWS];
        let mut pixel = Pixel::at(&self.out_map, first);
        for at in &mut at[..rows] {
            *at = pixel.offset(&self.out_map);
            pixel.step(&self.out_map);
        }
        let columns = conv.bias.len() / groups;
        let last = panels.count.min((chunk + 1) * self.chunk_panels);
        let mut panel = chunk * self.chunk_panels;
        let mut pace = Pace::new();
        while panel < last {
            // A panel's step covers many bytes of a row.
            if pace.stops(rows.saturating_mul(panels.row_bytes / 4)) {
                return;
            }
            let count = (last - panel).min(form.rows.len());
            let (begin, width) = (panel * form.lanes, count * form.lanes);
            let used = columns.min(begin + width) - begin;
            let channel = group * columns + begin;
            let mut row = 0;
            for &step in form.rows[count - 1] {
                while rows - row >= step {
                    // SAFETY: `step` rows from `row` on exist, in whole steps.
                    let activations = unsafe { activations.add(row * stride) };
                    let sums = self.sums([step, count], group, panel, activations, stride);
                    for (sums, &at) in sums.0.chunks_exact(width).zip(&at[row..row + step]) {
                        // SAFETY: tasks have disjoint pixels or columns of the output, which the slice covers.
                        let output = unsafe { self.output.piece(at + channel, used) };
                        conv.store(channel, &sums[..used], output);
                    }
                    row += step;
                }
            }
            panel += count;
        }
    }

    /// Sums of a block of rows and panels, over the whole depth.
    fn sums(
        &self,
        [rows, count]: [usize; 2],
        group: usize,
        panel: usize,
        activations: *const u8,
        stride: usize,
    ) -> Sums {
        let panels = self.panels;
        let kernel = (panels.form.kernel)(rows, count);
        let mut sums = Sums([0; MOST_SUMS]);
        let mut part = Part([0; MOST_SUMS]);
        let all = rows * count * panels.form.lanes;
        for chunk in 0..panels.steps.div_ceil(CHUNK) {
            for half in 0..2 {
                // SAFETY: the form is one that the machine has; rows, panels and steps exist, and the sums of a block fit.
                unsafe {
                    kernel(&Block {
                        activations: activations.add(4 * chunk * CHUNK),
                        stride,
                        steps: panels.chunk_steps(chunk),
                        weights: panels.words.as_ptr().add(4 * panels.place(group, chunk, half, panel)),
                        sums: part.0.as_mut_ptr(),
                    });
                }
                add(self.conv.level, &part.0[..all], if half == 0 { 8 } else { 0 }, &mut sums.0[..all]);
            }
        }
        sums
    }

    /// Packs the windows of the pixels from `first` on, one row each; padding is 0, as is what fills the last step up.
    fn gather(&self, group: usize, first: usize, to: &mut [u8]) {
        let (conv, map) = (self.conv, &self.in_map);
        let g = &conv.geometry;
        let [kh, kw] = g.kernel;
        let depth = conv.in_channels / g.groups;
        // SAFETY: any bytes are integers, and slots begin at cache lines.
        let (_, words, _) = unsafe { to.align_to_mut::<i16>() };
        // The taps of a kernel row are one run if columns and channels follow each other without gap.
        let merged = g.groups == 1 && g.dilation[1] == 1 && (map.stride_w == depth || kw == 1);
        let window = (kw - 1) * g.dilation[1] + 1;
        let mut pixel = Pixel::at(&self.out_map, first);
        for row in words.chunks_exact_mut(self.panels.row_bytes / 2) {
            let [n, y, x] = pixel.place();
            let left = x * g.stride[1];
            let inside = left >= g.pad[1] && left - g.pad[1] + window <= map.w;
            let (taps, rest) = row.split_at_mut(kh * kw * depth);
            rest.fill(0);
            for (ky, line) in taps.chunks_exact_mut((kw * depth).max(1)).enumerate() {
                let y = (y * g.stride[0] + ky * g.dilation[0]).wrapping_sub(g.pad[0]);
                if y >= map.h {
                    line.fill(0);
                    continue;
                }
                let from = map.offset(n, y, 0) + group * depth;
                if inside && merged {
                    line.copy_from_slice(
                        &self.input[from + (left - g.pad[1]) * map.stride_w..][..kw * depth],
                    );
                    continue;
                }
                for (kx, tap) in line.chunks_exact_mut(depth.max(1)).enumerate() {
                    let x = (left + kx * g.dilation[1]).wrapping_sub(g.pad[1]);
                    if x >= map.w {
                        tap.fill(0);
                    } else {
                        tap.copy_from_slice(&self.input[from + x * map.stride_w..][..depth]);
                    }
                }
            }
            pixel.step(&self.out_map);
        }
    }
}

/// Sums of a block, and parts of them, from a cache line on.
#[repr(align(64))]
struct Sums([i64; MOST_SUMS]);
#[repr(align(64))]
struct Part([i32; MOST_SUMS]);

multiversion! {
    /// Adds each part, times 2 to the power of `shift`, to its sum.
    fn add(parts: &[i32], shift: u32, sums: &mut [i64]) {
        for (sum, &part) in sums.iter_mut().zip(parts) {
            *sum += i64::from(part) << shift;
        }
    }
}

multiversion! {
    /// The integers of sums.
    fn store(sums: &[i64], bias: &[i64], multiplier: &[f64], target: Q16Target, out: &mut [i16]) {
        let [low, high] = target.clamp.map(f64::from);
        let all = out.iter_mut().zip(sums).zip(bias).zip(multiplier);
        match target.rounding {
            Rounding::HalfToEven => {
                for (((out, &sum), &bias), &multiplier) in all {
                    let real = (sum + bias) as f64 * multiplier;
                    *out = integer(real.round_ties_even().max(low).min(high));
                }
            }
            Rounding::HalfAwayFromZero => {
                for (((out, &sum), &bias), &multiplier) in all {
                    let real = (sum + bias) as f64 * multiplier;
                    // As `round`, in vectors.
                    *out = integer((real + BELOW_HALF.copysign(real)).trunc().max(low).min(high));
                }
            }
        }
    }
}

/// A whole number that has 16 bits; a cast that looks after all others takes no vectors.
#[inline(always)]
fn integer(real: f64) -> i16 {
    // SAFETY: what was clamped is no NaN and has 16 bits.
    unsafe { real.to_int_unchecked::<i32>() as i16 }
}

/// The largest number below a half.
const BELOW_HALF: f64 = 0.5 - f64::EPSILON / 4.0;

multiversion! {
    /// One pixel of a depthwise convolution, whose first tap lies at `at`, or would in padding: image, row and column.
    fn depthwise(conv: &Q16Conv, weights: &[i16], input: &[i16], map: &Nhwc, at: [usize; 3], out: &mut [i16]) {
        let mut channel = 0;
        while channel < out.len() {
            let mut sums = [0; CHANNELS];
            let done = match out.len() - channel {
                CHANNELS.. => {
                    sums = depthwise_sums::<CHANNELS>(&conv.geometry, weights, input, map, at, channel);
                    CHANNELS
                }
                8.. => {
                    sums[..8].copy_from_slice(&depthwise_sums::<8>(&conv.geometry, weights, input, map, at, channel));
                    8
                }
                _ => {
                    sums[..1].copy_from_slice(&depthwise_sums::<1>(&conv.geometry, weights, input, map, at, channel));
                    1
                }
            };
            conv.store(channel, &sums[..done], &mut out[channel..channel + done]);
            channel += done;
        }
    }
}

/// Channels whose sums are kept in registers.
const CHANNELS: usize = 32;

/// Sums of `N` channels from `channel` on.
#[inline(always)]
fn depthwise_sums<const N: usize>(
    g: &ConvGeometry,
    weights: &[i16],
    input: &[i16],
    map: &Nhwc,
    [n, y, x]: [usize; 3],
    channel: usize,
) -> [i64; N] {
    let mut sums = [0; N];
    for ky in 0..g.kernel[0] {
        let row = y.wrapping_add(ky * g.dilation[0]);
        if row >= map.h {
            continue;
        }
        for kx in 0..g.kernel[1] {
            let column = x.wrapping_add(kx * g.dilation[1]);
            if column >= map.w {
                continue;
            }
            let taps = &input[map.offset(n, row, column) + channel..][..N];
            let own = &weights[(ky * g.kernel[1] + kx) * map.c + channel..][..N];
            for lane in 0..N {
                sums[lane] += i64::from(i32::from(taps[lane]) * i32::from(own[lane]));
            }
        }
    }
    sums
}

impl Q16Conv {
    /// Checks the parameters and packs the weights for `isa`, or for the best instruction set below it that this machine has.
    ///
    /// Errors: lengths that do not fit the channels, zero extents, channels that the groups do not divide, multipliers
    /// that are not finite, inner products so long that a sum could overflow i64.
    pub fn new(spec: &Q16ConvSpec<'_>, isa: Isa) -> Result<Self, Error> {
        let g = spec.geometry;
        let [depth, elements] = g.weights(spec.in_channels, spec.out_channels)?;
        // 2³⁰ per product leave room for 2³² of them.
        if depth >= 1 << 32 {
            return Err(Error::Invalid("kernel size overflows"));
        }
        Error::check_eq("weights", elements, spec.weights.len())?;
        let bias = match spec.bias {
            Some(bias) => bias.iter().map(|&bias| i64::from(bias)).collect(),
            None => vec![0; spec.out_channels],
        };
        Error::check_eq("bias", spec.out_channels, bias.len())?;
        let multiplier: Vec<f64> = match spec.multiplier {
            &[one] => vec![one.into(); spec.out_channels],
            all => all.iter().map(|&each| each.into()).collect(),
        };
        Error::check_eq("multiplier", spec.out_channels, multiplier.len())?;
        if !multiplier.iter().all(|m| m.is_finite()) {
            return Err(Error::Invalid("multipliers must be finite"));
        }
        let target = spec.target.check()?;
        let level = Level::new(isa);
        let channels = spec.out_channels;
        let weights = match Form::new(level) {
            Some(_) if g.groups == spec.in_channels && g.groups == channels => {
                let by_tap = |at: usize| spec.weights[at % channels * depth + at / channels];
                Weights::Depthwise((0..spec.weights.len()).map(by_tap).collect())
            }
            Some(form) if channels / g.groups >= FEW => {
                Weights::Panels(Panels::new(form, spec.weights, [channels, g.groups, depth]))
            }
            _ => Weights::Plain(spec.weights.to_vec()),
        };
        Ok(Self { geometry: g, in_channels: spec.in_channels, weights, bias, multiplier, target, level })
    }

    /// Bytes of scratch that [`Q16Conv::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        match &self.weights {
            Weights::Plain(_) | Weights::Depthwise(_) => 0,
            Weights::Panels(panels) => threads * panels.slot_bytes() + 64,
        }
    }

    /// Computes `output` from `input`. The slices start at the first element of their maps, `scratch` holds
    /// [`Q16Conv::scratch_bytes`] bytes of any content; gaps of the output are left alone.
    ///
    /// Errors: extents that do not agree, slices shorter than their maps, an output map that overlaps itself.
    pub fn run(
        &self,
        input: &[i16],
        in_map: Nhwc,
        output: &mut [i16],
        out_map: Nhwc,
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let g = &self.geometry;
        g.check_maps([self.in_channels, self.bias.len()], in_map, out_map)?;
        Error::check_len("input", input.len(), in_map.span())?;
        parallel::check_output(output, out_map)?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(pool.threads()))?;
        match &self.weights {
            Weights::Plain(weights) => self.run_plain(weights, input, in_map, output, out_map, pool),
            Weights::Depthwise(weights) => {
                parallel::rows(pool, output, out_map, &|n, y, row| {
                    let y = (y * g.stride[0]).wrapping_sub(g.pad[0]);
                    for x in spans(out_map.w, weights.len()).flatten() {
                        let at = [n, y, (x * g.stride[1]).wrapping_sub(g.pad[1])];
                        let pixel = &mut row[x * out_map.stride_w..][..out_map.c];
                        depthwise(self.level, self, weights, input, &in_map, at, pixel);
                    }
                });
            }
            Weights::Panels(panels) => self.run_panels(panels, input, in_map, output, out_map, scratch, pool),
        }
        Ok(())
    }

    fn run_panels(
        &self,
        panels: &Panels,
        input: &[i16],
        in_map: Nhwc,
        output: &mut [i16],
        out_map: Nhwc,
        scratch: &mut [u8],
        pool: &Pool,
    ) {
        let g = &self.geometry;
        let pixels = out_map.pixels();
        if pixels == 0 {
            return;
        }
        let depth = self.in_channels / g.groups;
        let in_place = g.kernel == [1, 1] && g.stride == [1, 1] && g.pad == [0; 4] && depth.is_multiple_of(2);
        // Several tasks per thread even out their ends; tiles are cut before panels, because tasks that share a tile gather it once
        // each.
        let wanted = if pool.threads() == 1 { 1 } else { 4 * pool.threads() };
        let tiles = pixels
            .div_ceil(panels.max_rows)
            .max(wanted.div_ceil(g.groups).min(pixels.div_ceil(MAX_ROWS / 4)));
        let rows = pixels.div_ceil(tiles);
        let tiles = pixels.div_ceil(rows);
        let together = panels.form.rows.len();
        let chunks = wanted.div_ceil(tiles * g.groups).clamp(1, panels.count.div_ceil(together));
        let chunk_panels = panels.count.div_ceil(chunks).next_multiple_of(together);
        let chunks = panels.count.div_ceil(chunk_panels);
        let aligned = scratch.as_ptr().align_offset(64).min(64);
        let job = Job {
            conv: self,
            panels,
            input,
            in_map,
            output: Shared::new(output),
            out_map,
            rows,
            chunks,
            chunk_panels,
            direct: if in_place { pixel_stride(&in_map) } else { None },
            scratch: Shared::new(&mut scratch[aligned..]),
        };
        pool.run(tiles * g.groups * chunks, &|task, worker| job.run(task, worker));
    }

    /// The integers of the sums of neighbouring channels from `channel` on.
    fn store(&self, channel: usize, sums: &[i64], out: &mut [i16]) {
        let (bias, multiplier) = (&self.bias[channel..], &self.multiplier[channel..]);
        store(self.level, sums, bias, multiplier, self.target, out);
    }

    fn run_plain(
        &self,
        weights: &[i16],
        input: &[i16],
        in_map: Nhwc,
        output: &mut [i16],
        out_map: Nhwc,
        pool: &Pool,
    ) {
        parallel::rows(pool, output, out_map, &|n, y, row| {
            for x in spans(out_map.w, weights.len()).flatten() {
                let pixel = &mut row[x * out_map.stride_w..][..out_map.c];
                for channel in spans(out_map.c, weights.len() / out_map.c.max(1)).flatten() {
                    let sum = self.sum(weights, input, in_map, [n, y, x], channel);
                    pixel[channel] = self.target.integer(sum as f64 * self.multiplier[channel]);
                }
            }
        });
    }

    fn sum(&self, weights: &[i16], input: &[i16], map: Nhwc, [n, y, x]: [usize; 3], channel: usize) -> i64 {
        let g = &self.geometry;
        let [kh, kw] = g.kernel;
        let depth = self.in_channels / g.groups;
        let first = channel / (self.bias.len() / g.groups) * depth;
        let weights = &weights[channel * kh * kw * depth..][..kh * kw * depth];
        let mut sum = self.bias[channel];
        for ky in 0..kh {
            // Taps in the padding add nothing.
            let row = (y * g.stride[0] + ky * g.dilation[0]).checked_sub(g.pad[0]).filter(|&row| row < map.h);
            let Some(row) = row else { continue };
            for kx in 0..kw {
                let column = (x * g.stride[1] + kx * g.dilation[1]).checked_sub(g.pad[1]);
                let Some(column) = column.filter(|&column| column < map.w) else { continue };
                let taps = &input[map.offset(n, row, column) + first..][..depth];
                let weights = &weights[(ky * kw + kx) * depth..][..depth];
                sum += taps
                    .iter()
                    .zip(weights)
                    .map(|(&x, &w)| i64::from(i32::from(x) * i32::from(w)))
                    .sum::<i64>();
            }
        }
        sum
    }
}
