//! Quantized depthwise convolution on NHWC maps, vectorised over channels.
//!
//! The bytes of 4 kernel rows are interleaved per channel, so that one dot product adds 4 taps. For kernels of
//! common width an interleaved column serves every output column of the block whose window covers it: neighbours
//! share the shuffles, which are what a depthwise convolution spends its time on.
#![expect(clippy::inline_always, reason = "vector code must be inlined where the instruction set is enabled")]

use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use crate::arch::int8_neon::{Neon, row_dot, row_neon};
#[cfg(target_arch = "x86_64")]
use crate::arch::{
    int8_avx2::{Avx2, row_avx2},
    int8_avx512::{Avx512, row_avx512, row_vnni},
    int8_vnni256::{Vnni256, row_vnni256},
};
use crate::{
    Isa, Pool,
    arch::int8::{Int8, fill},
    cancel::spans,
    dispatch::Level,
};

use super::{
    qconv::{Params, Views},
    qepilogue::{Bytes, Epilogue},
    qpack::{self, Packed, Vector},
};

/// Groups of 4 kernel rows at most; taller kernels are left to the matrix product.
const MAX_QUADS: usize = 4;

/// A depthwise convolution with packed weights.
#[derive(Debug)]
pub(crate) struct QDepthwise {
    parts: Vec<Part>,
    epilogue: Epilogue,
}

/// Channels that one vector length takes.
#[derive(Debug)]
struct Part {
    channels: Range<usize>,
    packed: Packed,
    vector: Vector,
    row: RowFn,
}

type RowFn = unsafe fn(&DepthwiseJob<'_>, usize);

/// One run over a pair of maps.
pub(crate) struct DepthwiseJob<'a> {
    part: &'a Part,
    epilogue: &'a Epilogue,
    p: &'a Params,
    views: &'a Views<'a>,
    /// What padding taps read.
    zero: &'a Bytes,
}

/// Where a kernel row of one block of channels reads: columns `from + x · stride`.
#[derive(Clone, Copy)]
struct Row {
    from: *const u8,
    stride: usize,
}

/// One output row of one block of channels.
struct Strip<'a> {
    job: &'a DepthwiseJob<'a>,
    rows: [Row; 4 * MAX_QUADS],
    /// Padding of this block.
    zero: *const u8,
    weights: *const u8,
    bias: *const i32,
    multiplier: *const f32,
    /// Channels that exist.
    n: usize,
    output: *mut u8,
    residual: *const u8,
    residual_stride: usize,
}

impl QDepthwise {
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.packed.bytes()).sum()
    }

    /// `None` where the kernel does not apply.
    pub(crate) fn new(p: &Params, weights: &[i8], level: Level) -> Option<Self> {
        let g = &p.geometry;
        if g.groups != p.in_channels || g.groups != p.out_channels || g.kernel[0] > 4 * MAX_QUADS {
            return None;
        }
        let (row, vector, half): (RowFn, _, Option<(RowFn, Vector)>) = match level.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => (row_avx2, Vector::of::<Avx2>(), None),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                let half = (row_avx2 as RowFn, Vector::of::<Avx2>());
                (row_avx512, Vector::of::<Avx512<false>>(), Some(half))
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni | Isa::Amx => {
                let half = (row_vnni256 as RowFn, Vector::of::<Vnni256>());
                (row_vnni, Vector::of::<Avx512<true>>(), Some(half))
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => (row_neon, Vector::of::<Neon<false>>(), None),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => (row_dot, Vector::of::<Neon<true>>(), None),
            _ => return None,
        };
        let part = |channels: Range<usize>, row, vector| {
            let packed = qpack::depthwise(p, weights, channels.clone(), vector);
            Part { channels, packed, vector, row }
        };
        let channels = p.out_channels;
        let whole = channels / (4 * vector.lanes) * 4 * vector.lanes;
        let parts = match half {
            // What is left fits a half vector.
            Some((half_row, half)) if (1..=4 * half.lanes).contains(&(channels - whole)) => {
                let mut parts = vec![part(whole..channels, half_row, half)];
                if whole > 0 {
                    parts.insert(0, part(0..whole, row, vector));
                }
                parts
            }
            _ => vec![part(0..channels, row, vector)],
        };
        Some(Self { parts, epilogue: Epilogue::new(p, level) })
    }

    pub(crate) fn run(&self, p: &Params, views: &Views<'_>, pool: &Pool) {
        let zero = Bytes([p.input.zero_point as u8; 64]);
        pool.run(views.out_map.n * views.out_map.h, &|row, _| {
            for part in &self.parts {
                let job = DepthwiseJob { part, epilogue: &self.epilogue, p, views, zero: &zero };
                // SAFETY: `new` chose the function for an instruction set that the machine has; QConv::run checked
                // the slices.
                unsafe { (part.row)(&job, row) }
            }
            if self.epilogue.looks_up_stored() {
                let out = &views.out_map;
                let (run, step) = if out.stride_w == out.c { (out.w, out.w) } else { (1, 1) };
                for x in (0..out.w).step_by(step) {
                    // SAFETY: these bytes of the output have just been written by this task.
                    unsafe {
                        let bytes = views.output.add(out.offset(row / out.h, row % out.h, x));
                        self.epilogue.look_up_stored(bytes, run * out.c);
                    }
                }
            }
        });
    }
}

/// Computes one output row.
///
/// # Safety
/// The CPU has `S`; the job's maps lie within their slices.
#[inline(always)]
pub(crate) unsafe fn depthwise_row<S: Int8>(job: &DepthwiseJob<'_>, row: usize) {
    let (p, map, out) = (job.p, &job.views.in_map, &job.views.out_map);
    let (packed, channels) = (&job.part.packed, &job.part.channels);
    let g = &p.geometry;
    let (n, y) = (row / out.h, row % out.h);
    let zero = job.zero.0.as_ptr();
    let mut rows = [Row { from: zero, stride: 0 }; 4 * MAX_QUADS];
    for (ky, row) in rows.iter_mut().enumerate().take(g.kernel[0]) {
        let y = (y * g.stride[0] + ky * g.dilation[0]).wrapping_sub(g.pad[0]);
        if y < map.h && map.w > 0 {
            // SAFETY: the row exists.
            let from = unsafe { job.views.input.as_ptr().add(map.offset(n, y, 0) + channels.start) };
            *row = Row { from, stride: map.stride_w };
        }
    }
    let block_bytes = packed.steps * g.kernel[1] * 16 * S::LANES * S::WIDTH;
    let steps = out.w.saturating_mul(g.kernel[0]).saturating_mul(g.kernel[1]);
    for block in spans(packed.panels, steps).flatten() {
        let within = block * 4 * S::LANES;
        let channel = channels.start + within;
        let (residual, residual_stride) = match job.views.residual {
            // SAFETY: the residual has the output's shape.
            Some((bytes, map)) => unsafe {
                (bytes.as_ptr().add(map.offset(n, y, 0) + channel), map.stride_w)
            },
            None => (std::ptr::null(), 0),
        };
        // SAFETY: the block exists in the packed arrays, the row and the channel in the maps.
        unsafe {
            let strip = Strip {
                job,
                rows,
                zero,
                weights: packed.weights.as_ptr().add(block * block_bytes),
                bias: packed.bias.as_ptr().add(within),
                multiplier: packed.multiplier.as_ptr().add(within),
                n: (channels.end - channel).min(4 * S::LANES),
                output: job.views.output.add(out.offset(n, y, 0) + channel),
                residual,
                residual_stride,
            };
            match (g.kernel, g.stride[1], g.dilation[1]) {
                ([3, 3], 1, 1) => strip_of::<S, 3, 1>(&strip),
                ([3, 3], 2, 1) => strip_of::<S, 3, 2>(&strip),
                ([5, 5], 1, 1) => strip_of::<S, 5, 1>(&strip),
                ([5, 5], 2, 1) => strip_of::<S, 5, 2>(&strip),
                _ => {
                    for x in spans(out.w, g.kernel[0].saturating_mul(g.kernel[1])).flatten() {
                        any_width::<S>(&strip, x);
                    }
                }
            }
        }
        for row in &mut rows[..g.kernel[0]] {
            if row.from != zero {
                row.from = row.from.wrapping_add(4 * S::LANES);
            }
        }
    }
}

/// Covers a row with blocks of output columns, wide ones first.
///
/// # Safety
/// As [`depthwise_row`].
#[inline(always)]
unsafe fn strip_of<S: Int8, const K: usize, const STEP: usize>(strip: &Strip<'_>) {
    let width = strip.job.views.out_map.w;
    for part in spans(width, K * K) {
        let (mut x, width) = (part.start, part.end);
        // SAFETY: the caller's contract; columns are below `width`.
        unsafe {
            if S::PIXELS >= 4 {
                while width - x >= 4 {
                    columns::<S, K, STEP, 4>(strip, x);
                    x += 4;
                }
            }
            if S::PIXELS >= 2 {
                while width - x >= 2 {
                    columns::<S, K, STEP, 2>(strip, x);
                    x += 2;
                }
            }
            while x < width {
                columns::<S, K, STEP, 1>(strip, x);
                x += 1;
            }
        }
    }
}

/// P output columns from `x` on of a K×K kernel without dilation.
///
/// # Safety
/// As [`depthwise_row`].
#[inline(always)]
unsafe fn columns<S: Int8, const K: usize, const STEP: usize, const P: usize>(strip: &Strip<'_>, x: usize) {
    let p = strip.job.p;
    let flip = fill(strip.job.part.vector.flip(p.input));
    let width = strip.job.views.in_map.w;
    let left = (x * STEP).wrapping_sub(p.geometry.pad[1]);
    let vector = 16 * S::LANES * S::WIDTH;
    // SAFETY: the caller's contract; pointers into the padding left and right of a row are not read through.
    unsafe {
        let bias = [
            S::load(strip.bias),
            S::load(strip.bias.add(S::LANES)),
            S::load(strip.bias.add(2 * S::LANES)),
            S::load(strip.bias.add(3 * S::LANES)),
        ];
        let padding = S::flip(S::load_bytes(strip.zero, 4 * S::LANES), flip);
        let mut sums = [bias; P];
        for quad in 0..K.div_ceil(4) {
            let weights = strip.weights.add(quad * K * vector);
            let mut rows = [
                strip.rows[4 * quad],
                strip.rows[4 * quad + 1],
                strip.rows[4 * quad + 2],
                strip.rows[4 * quad + 3],
            ];
            for row in &mut rows {
                row.from = row.from.wrapping_add(left.wrapping_mul(row.stride));
            }
            // Spelled out, because the sums stay in registers only if every index is a constant.
            macro_rules! input_columns {
                ($($c:literal)*) => {$(
                    if $c < (P - 1) * STEP + K {
                        let mut bytes = [padding; 4];
                        if left.wrapping_add($c) < width {
                            for (i, row) in rows.iter().enumerate() {
                                // Rows that the kernel does not have meet weights of 0.
                                if 4 * quad + i < K {
                                    bytes[i] = S::flip(S::load_bytes(row.from, strip.n), flip);
                                }
                            }
                        }
                        for row in &mut rows {
                            row.from = row.from.wrapping_add(row.stride);
                        }
                        let rows = S::interleave(bytes);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            let tap = ($c as usize).wrapping_sub(i * STEP);
                            if tap < K {
                                *sum = S::dot4(*sum, rows, weights.add(tap * vector));
                            }
                        }
                    }
                )*};
            }
            const { assert!((P - 1) * STEP + K <= 11) };
            input_columns!(0 1 2 3 4 5 6 7 8 9 10);
        }
        if strip.job.epilogue.has_residual() {
            let spilled = sums;
            for (i, sum) in spilled.iter().enumerate() {
                finish::<S, true>(strip, x + i, *sum);
            }
            return;
        }
        const { assert!(P <= 4) };
        macro_rules! finish {
            ($($i:literal)*) => {$(
                if $i < P {
                    finish::<S, false>(strip, x + $i, sums[$i]);
                }
            )*};
        }
        finish!(0 1 2 3);
    }
}

/// The interleaved bytes of 4 kernel rows at an input column, which may lie in the padding.
///
/// # Safety
/// As [`depthwise_row`].
#[inline(always)]
unsafe fn column<S: Int8>(strip: &Strip<'_>, quad: usize, x: usize, flip: i32) -> [S::V; 8] {
    let rows = &strip.rows[4 * quad..4 * quad + 4];
    let inside = x < strip.job.views.in_map.w;
    // SAFETY: a row's columns below the map's width exist, the padding has room for a vector.
    unsafe {
        let mut bytes = [S::load_bytes(strip.zero, 4 * S::LANES); 4];
        if inside {
            for (bytes, row) in bytes.iter_mut().zip(rows) {
                *bytes = S::load_bytes(row.from.add(x * row.stride), strip.n);
            }
        }
        S::interleave([
            S::flip(bytes[0], flip),
            S::flip(bytes[1], flip),
            S::flip(bytes[2], flip),
            S::flip(bytes[3], flip),
        ])
    }
}

/// One output column of a kernel of any width, stride and dilation.
///
/// # Safety
/// As [`depthwise_row`].
#[inline(always)]
unsafe fn any_width<S: Int8>(strip: &Strip<'_>, x: usize) {
    let g = &strip.job.p.geometry;
    let flip = fill(strip.job.part.vector.flip(strip.job.p.input));
    let vector = 16 * S::LANES * S::WIDTH;
    // SAFETY: the caller's contract.
    unsafe {
        let mut sum = [
            S::load(strip.bias),
            S::load(strip.bias.add(S::LANES)),
            S::load(strip.bias.add(2 * S::LANES)),
            S::load(strip.bias.add(3 * S::LANES)),
        ];
        for quad in 0..strip.job.part.packed.steps {
            for kx in 0..g.kernel[1] {
                let column_x = (x * g.stride[1] + kx * g.dilation[1]).wrapping_sub(g.pad[1]);
                let rows = column::<S>(strip, quad, column_x, flip);
                sum = S::dot4(sum, rows, strip.weights.add((quad * g.kernel[1] + kx) * vector));
            }
        }
        finish::<S, true>(strip, x, sum);
    }
}

/// Turns one output column's sums into bytes; `RESIDUAL` says that there may be one.
///
/// # Safety
/// As [`depthwise_row`].
#[inline(always)]
unsafe fn finish<S: Int8, const RESIDUAL: bool>(strip: &Strip<'_>, x: usize, sum: [S::V; 4]) {
    let epilogue = &strip.job.epilogue;
    let m = strip.multiplier;
    // SAFETY: the caller's contract.
    unsafe {
        let values = [
            S::scale(sum[0], m, epilogue.high, epilogue.away),
            S::scale(sum[1], m.add(S::LANES), epilogue.high, epilogue.away),
            S::scale(sum[2], m.add(2 * S::LANES), epilogue.high, epilogue.away),
            S::scale(sum[3], m.add(3 * S::LANES), epilogue.high, epilogue.away),
        ];
        let bytes = if RESIDUAL {
            let (mut other, mut n) = ([strip.residual; 4], [0; 4]);
            for j in 0..4 {
                other[j] = strip.residual.wrapping_add(x * strip.residual_stride + j * S::LANES);
                n[j] = strip.n.saturating_sub(j * S::LANES);
            }
            epilogue.finish::<S, true>(values, other, n)
        } else {
            epilogue.bytes::<S, true>(values)
        };
        S::store_bytes(strip.output.add(x * strip.job.views.out_map.stride_w), bytes, strip.n);
    }
}
