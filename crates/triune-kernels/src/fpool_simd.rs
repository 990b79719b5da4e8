//! The taps of a window on AVX2, AVX-512 and NEON: vectors of channels, several of them side by side so that one waits for its last
//! tap while the others go on.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{vaddq_f32, vdivq_f32, vdupq_n_f32, vld1q_f32, vst1q_f32};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _CMP_UNORD_Q, _mm256_add_ps, _mm256_blendv_ps, _mm256_cmp_ps, _mm256_div_ps, _mm256_loadu_ps,
    _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_add_ps,
    _mm512_cmp_ps_mask, _mm512_div_ps, _mm512_loadu_ps, _mm512_mask_mov_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

#[cfg(target_arch = "aarch64")]
use crate::arch::neon;
#[cfg(target_arch = "x86_64")]
use crate::conv::fgemm_simd::{mask_256, mask_512};
use crate::fpool::{Join, Region};

const MAX: u8 = 0;
const MAX_OR_NAN: u8 = 1;
const MEAN: u8 = 2;
const MEAN_BY_ROWS: u8 = 3;

macro_rules! pool {
    ($name:ident, $channels:ident, $kernel:ident, $features:literal, $lanes:literal, $splat:path, $load:path, $store:path,
     $add:path, $div:path, $max:path, $or_nan:expr, $mask:path, $masked_load:expr, $masked_store:path) => {
        /// # Safety
        /// The region's taps can be read for as many channels as `out` has, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(join: Join, region: &Region, out: &mut [f32]) {
            // SAFETY: passed on.
            unsafe {
                match join {
                    Join::Max => $channels::<MAX>(region, out),
                    Join::MaxOrNan => $channels::<MAX_OR_NAN>(region, out),
                    Join::Mean => $channels::<MEAN>(region, out),
                    Join::MeanByRows => $channels::<MEAN_BY_ROWS>(region, out),
                }
            }
        }

        /// # Safety
        /// As the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $channels<const JOIN: u8>(region: &Region, out: &mut [f32]) {
            let mut channel = 0;
            // SAFETY: passed on; channels are in range, or masked.
            unsafe {
                while channel + 8 * $lanes <= out.len() {
                    $kernel::<JOIN, 8, false>(region, channel, out);
                    channel += 8 * $lanes;
                }
                while channel + 4 * $lanes <= out.len() {
                    $kernel::<JOIN, 4, false>(region, channel, out);
                    channel += 4 * $lanes;
                }
                while channel + $lanes <= out.len() {
                    $kernel::<JOIN, 1, false>(region, channel, out);
                    channel += $lanes;
                }
                if channel < out.len() {
                    $kernel::<JOIN, 1, true>(region, channel, out);
                }
            }
        }

        /// `VECTORS` vectors from `channel` on, the only one masked if it is the `LAST`.
        ///
        /// # Safety
        /// As the caller's; the channels exist, but for those that are masked.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $kernel<const JOIN: u8, const VECTORS: usize, const LAST: bool>(
            region: &Region,
            channel: usize,
            out: &mut [f32],
        ) {
            let mask = $mask(out.len() - channel);
            let largest = JOIN == MAX || JOIN == MAX_OR_NAN;
            let mut sums = [$splat(if largest { f32::NEG_INFINITY } else { 0.0 }); VECTORS];
            let mut line = region.input.wrapping_add(channel);
            for _ in 0..region.taps[0] {
                let mut row = if JOIN == MEAN_BY_ROWS { [$splat(0.0); VECTORS] } else { sums };
                let mut x = line;
                for _ in 0..region.taps[1] {
                    for (vector, row) in row.iter_mut().enumerate() {
                        let x = x.wrapping_add(vector * $lanes);
                        // SAFETY: channels of a tap, as the caller promised.
                        let x = unsafe { if LAST { $masked_load(x, mask) } else { $load(x) } };
                        // The second operand stays where the first is NaN or equal.
                        *row = match JOIN {
                            MAX => $max(x, *row),
                            MAX_OR_NAN => $or_nan(x, $max(x, *row)),
                            _ => $add(*row, x),
                        };
                    }
                    x = x.wrapping_add(region.steps[1]);
                }
                for (sum, row) in sums.iter_mut().zip(row) {
                    *sum = if JOIN == MEAN_BY_ROWS { $add(*sum, row) } else { row };
                }
                line = line.wrapping_add(region.steps[0]);
            }
            let counted = $splat(region.counted);
            for (vector, sum) in sums.into_iter().enumerate() {
                let y = if largest { sum } else { $div(sum, counted) };
                let output = out.as_mut_ptr().wrapping_add(channel + vector * $lanes);
                // SAFETY: channels of the result; masked lanes are not touched.
                unsafe {
                    if LAST {
                        $masked_store(output, mask, y);
                    } else {
                        $store(output, y);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pool!(
    pixel_avx512,
    channels_avx512,
    kernel_avx512,
    "avx512f",
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_div_ps,
    _mm512_max_ps,
    |x, larger| _mm512_mask_mov_ps(larger, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x), x),
    mask_512,
    |from: *const f32, mask| _mm512_maskz_loadu_ps(mask, from),
    _mm512_mask_storeu_ps
);
#[cfg(target_arch = "x86_64")]
pool!(
    pixel_avx2,
    channels_avx2,
    kernel_avx2,
    "avx2,fma",
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_div_ps,
    _mm256_max_ps,
    |x, larger| _mm256_blendv_ps(larger, x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)),
    mask_256,
    |from: *const f32, mask| _mm256_maskload_ps(from, mask),
    _mm256_maskstore_ps
);
#[cfg(target_arch = "aarch64")]
pool!(
    pixel_neon,
    channels_neon,
    kernel_neon,
    "neon",
    4,
    vdupq_n_f32,
    vld1q_f32,
    vst1q_f32,
    vaddq_f32,
    vdivq_f32,
    neon::max,
    neon::or_nan,
    neon::lanes,
    neon::load_first,
    neon::store_first
);
