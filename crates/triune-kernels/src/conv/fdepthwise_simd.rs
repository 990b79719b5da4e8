//! Depthwise pixels on AVX2, AVX-512 and NEON: vectors of channels, a few pixels at a time so that weights are loaded once for all
//! of them, or a few vectors at a time where pixels are few. Accumulators stay in registers for all taps.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{
    float32x4_t, vaddq_f32, vdupq_laneq_f32, vdupq_n_f32, vld1q_f32, vst1q_f32, vtrn1q_f32, vtrn2q_f32,
};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m512, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_permute_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_permute_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

#[cfg(target_arch = "aarch64")]
use crate::arch::neon;

use super::fdepthwise::Group;
#[cfg(target_arch = "x86_64")]
use super::fgemm_simd::{mask_256, mask_512};

macro_rules! depthwise {
    ($name:ident, $channels:ident, $kernel:ident, $features:literal, $lanes:literal, $zero:path, $splat:path, $load:path,
     $store:path, $fma:path, $add:path, $min:path, $max:path, $mask:path, $masked_load:expr, $masked_store:path, $spread:ident,
     [$([$pixels:literal, $vectors:literal]),*], [$([$slid:literal, $wide:literal]),*], [$($long:literal),*]) => {
        /// # Safety
        /// As `Group::run`, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(pixels: usize, apart: usize, group: &Group) {
            // SAFETY: passed on; the number of pixels is the one that the kernel is made for.
            unsafe {
                match (pixels, group.each, apart, group.columns) {
                    $(
                        ($slid, 1, 1, 3) => $channels::<$slid, $wide, 1, 1, 3>(group),
                        ($slid, 1, 2, 3) => $channels::<$slid, $wide, 1, 2, 3>(group),
                        ($slid, 1, 1, 5) => $channels::<$slid, $wide, 1, 1, 5>(group),
                        ($slid, 1, 2, 5) => $channels::<$slid, $wide, 1, 2, 5>(group),
                    )*
                    // Rows of seven and what they see of a vector take half of 32 registers.
                    $(
                        ($long, 1, 1, 7) => $channels::<$long, 1, 1, 1, 7>(group),
                    )*
                    $(
                        ($pixels, 1, ..) => $channels::<$pixels, $vectors, 1, 0, 0>(group),
                        ($pixels, 2, ..) => $channels::<$pixels, $vectors, 2, 0, 0>(group),
                        ($pixels, 4, ..) => $channels::<$pixels, $vectors, 4, 0, 0>(group),
                    )*
                    (_, each, ..) => unreachable!("no kernel of {pixels} pixels and groups of {each}"),
                }
            }
        }

        /// # Safety
        /// As `Group::run`, with `PIXELS` pixels.
        #[target_feature(enable = $features)]
        unsafe fn $channels<const PIXELS: usize, const VECTORS: usize, const EACH: usize, const APART: usize, const COLUMNS: usize>(
            group: &Group,
        ) {
            let mut channel = 0;
            // SAFETY: passed on; channels are in range, or masked.
            unsafe {
                while channel + VECTORS * $lanes <= group.channels {
                    $kernel::<PIXELS, VECTORS, EACH, APART, COLUMNS, false>(group, channel);
                    channel += VECTORS * $lanes;
                }
                while channel + $lanes <= group.channels {
                    $kernel::<PIXELS, 1, EACH, APART, COLUMNS, false>(group, channel);
                    channel += $lanes;
                }
                if channel < group.channels {
                    $kernel::<PIXELS, 1, EACH, APART, COLUMNS, true>(group, channel);
                }
            }
        }

        /// `PIXELS` pixels, `VECTORS` vectors of channels from `channel` on, the only one masked if it is the `LAST`. With `APART`, pixels lie
        /// so many columns from each other, and rows have `COLUMNS` taps: an element is loaded once for all that see it.
        ///
        /// # Safety
        /// As `Group::run`; the channels exist, but for those that are masked.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $kernel<const PIXELS: usize, const VECTORS: usize, const EACH: usize, const APART: usize, const COLUMNS: usize, const LAST: bool>(
            group: &Group,
            channel: usize,
        ) {
            let mask = $mask(group.channels - channel);
            let mut sums = [[$zero(); VECTORS]; PIXELS];
            // SAFETY: taps and weights of the channels, which lie where the group says; masked lanes are not touched.
            unsafe {
                let mut line = group.input.add(channel);
                let mut weights = group.weights.add(channel);
                for _ in 0..group.lines {
                    if group.stops() {
                        return;
                    }
                    if APART > 0 {
                        let mut factors = [[$zero(); COLUMNS]; VECTORS];
                        for (vector, factors) in factors.iter_mut().enumerate() {
                            for (column, factor) in factors.iter_mut().enumerate() {
                                *factor = $load(weights.add(column * group.weight_step + vector * $lanes));
                            }
                        }
                        for (vector, factors) in factors.iter().enumerate() {
                            let load = |at: usize| {
                                let x = line.wrapping_add(at * group.column_step + vector * $lanes);
                                if LAST { $masked_load(x, mask) } else { $load(x) }
                            };
                            let mut seen = [$zero(); COLUMNS];
                            for (at, seen) in seen.iter_mut().enumerate() {
                                *seen = load(at);
                            }
                            for (pixel, sums) in sums.iter_mut().enumerate() {
                                for (x, factor) in seen.iter().zip(factors) {
                                    sums[vector] = $fma(*x, *factor, sums[vector]);
                                }
                                if pixel + 1 < PIXELS {
                                    for at in 0..COLUMNS {
                                        seen[at] = if at + APART < COLUMNS {
                                            seen[at + APART]
                                        } else {
                                            load((pixel + 1) * APART + at)
                                        };
                                    }
                                }
                            }
                        }
                        line = line.wrapping_add(group.line_step);
                        weights = weights.wrapping_add(group.weight_line);
                        continue;
                    }
                    let (mut x, mut w) = (line, weights);
                    for _ in 0..group.columns {
                        let mut factors = [[$zero(); EACH]; VECTORS];
                        for (vector, factors) in factors.iter_mut().enumerate() {
                            for (input, factor) in factors.iter_mut().enumerate() {
                                *factor = $load(w.add(input * group.weight_input + vector * $lanes));
                            }
                        }
                        for (pixel, sums) in sums.iter_mut().enumerate() {
                            let x = x.wrapping_add(pixel * group.input_step);
                            for (vector, sum) in sums.iter_mut().enumerate() {
                                let x = x.wrapping_add(vector * $lanes);
                                let x = if LAST { $masked_load(x, mask) } else { $load(x) };
                                for (input, factor) in factors[vector].iter().enumerate() {
                                    *sum = $fma($spread::<EACH>(x, input), *factor, *sum);
                                }
                            }
                        }
                        x = x.wrapping_add(group.column_step);
                        w = w.wrapping_add(group.weight_step);
                    }
                    line = line.wrapping_add(group.line_step);
                    weights = weights.wrapping_add(group.weight_line);
                }
                let (low, high) = ($splat(group.limits[0]), $splat(group.limits[1]));
                for (pixel, sums) in sums.into_iter().enumerate() {
                    let output = group.output.wrapping_add(pixel * group.output_step + channel);
                    for (vector, sum) in sums.into_iter().enumerate() {
                        // The order of operands lets NaN pass the limits.
                        let mut y = $add(sum, $load(group.bias.add(channel + vector * $lanes)));
                        if !group.residual.is_null() {
                            let at = pixel * group.residual_step + channel + vector * $lanes;
                            let residual = group.residual.wrapping_add(at);
                            let residual = if LAST { $masked_load(residual, mask) } else { $load(residual) };
                            y = $add(y, residual);
                        }
                        let y = $min(high, $max(low, y));
                        let output = output.wrapping_add(vector * $lanes);
                        if LAST {
                            $masked_store(output, mask, y);
                        } else {
                            $store(output, y);
                        }
                    }
                }
            }
        }
    };
}

/// In each lane the element number `input` of the `EACH` lanes that it is one of.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn spread_512<const EACH: usize>(x: __m512, input: usize) -> __m512 {
    match (EACH, input) {
        (2, 0) => _mm512_permute_ps::<0b10_10_00_00>(x),
        (2, _) => _mm512_permute_ps::<0b11_11_01_01>(x),
        (4, 0) => _mm512_permute_ps::<0b00_00_00_00>(x),
        (4, 1) => _mm512_permute_ps::<0b01_01_01_01>(x),
        (4, 2) => _mm512_permute_ps::<0b10_10_10_10>(x),
        (4, _) => _mm512_permute_ps::<0b11_11_11_11>(x),
        _ => x,
    }
}

/// As [`spread_512`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn spread_256<const EACH: usize>(x: __m256, input: usize) -> __m256 {
    match (EACH, input) {
        (2, 0) => _mm256_permute_ps::<0b10_10_00_00>(x),
        (2, _) => _mm256_permute_ps::<0b11_11_01_01>(x),
        (4, 0) => _mm256_permute_ps::<0b00_00_00_00>(x),
        (4, 1) => _mm256_permute_ps::<0b01_01_01_01>(x),
        (4, 2) => _mm256_permute_ps::<0b10_10_10_10>(x),
        (4, _) => _mm256_permute_ps::<0b11_11_11_11>(x),
        _ => x,
    }
}

/// In each lane the element number `input` of the `EACH` lanes that it is one of.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn spread_neon<const EACH: usize>(x: float32x4_t, input: usize) -> float32x4_t {
    match (EACH, input) {
        (2, 0) => vtrn1q_f32(x, x),
        (2, _) => vtrn2q_f32(x, x),
        (4, 0) => vdupq_laneq_f32::<0>(x),
        (4, 1) => vdupq_laneq_f32::<1>(x),
        (4, 2) => vdupq_laneq_f32::<2>(x),
        (4, _) => vdupq_laneq_f32::<3>(x),
        _ => x,
    }
}

#[cfg(target_arch = "x86_64")]
depthwise!(
    pixels_avx512,
    channels_avx512,
    kernel_avx512,
    "avx512f",
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_min_ps,
    _mm512_max_ps,
    mask_512,
    |from: *const f32, mask| _mm512_maskz_loadu_ps(mask, from),
    _mm512_mask_storeu_ps,
    spread_512,
    [[1, 4], [2, 4], [3, 3], [4, 2], [5, 2], [6, 2]],
    [[1, 4], [2, 4], [3, 3], [4, 2], [5, 2], [6, 2], [7, 2], [8, 2], [9, 2], [10, 2]],
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
);
#[cfg(target_arch = "x86_64")]
depthwise!(
    pixels_avx2,
    channels_avx2,
    kernel_avx2,
    "avx2,fma",
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_min_ps,
    _mm256_max_ps,
    mask_256,
    |from: *const f32, mask| _mm256_maskload_ps(from, mask),
    _mm256_maskstore_ps,
    spread_256,
    [[1, 4], [2, 4], [3, 3], [4, 2], [5, 2], [6, 2]],
    [[1, 4], [2, 4], [3, 3], [4, 2], [5, 2], [6, 1], [7, 1], [8, 1], [9, 1], [10, 1]],
    []
);
#[cfg(target_arch = "aarch64")]
depthwise!(
    pixels_neon,
    channels_neon,
    kernel_neon,
    "neon",
    4,
    neon::zero,
    vdupq_n_f32,
    vld1q_f32,
    vst1q_f32,
    neon::fma,
    vaddq_f32,
    neon::min,
    neon::max,
    neon::lanes,
    neon::load_first,
    neon::store_first,
    spread_neon,
    [[1, 8], [2, 8], [3, 6], [4, 4], [5, 4], [6, 4]],
    [[1, 4], [2, 4], [3, 4], [4, 4], [5, 4], [6, 2], [7, 2], [8, 2], [9, 2], [10, 2]],
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
);
