//! 8-bit vector operations in AVX2: activations and weights as i16 pairs in `vpmaddwd`.
//!
//! `vpmaddubsw` is not used: it saturates sums of two products, which changes results.
#![expect(clippy::inline_always, reason = "operations must be inlined where the instruction set is enabled")]
#![cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "intrinsics name themselves"))]

use std::arch::x86_64::*;

use crate::{
    arch::int8::{Dot, GemmKernel, Int8, Narrow, Sum, SumsKernel},
    conv::{Block, DepthwiseJob, GemmJob, depthwise_row, gemm_block, gemm_tile},
    imatmul::{self, sums_block},
    math::BELOW_HALF,
};

/// AVX2 and FMA.
pub(crate) struct Avx2;

/// The four chunks of a vector of bytes, each in the lower half.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn split(bytes: __m256i) -> [__m128i; 4] {
    // SAFETY: the caller's contract.
    unsafe {
        let (low, high) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        [low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)]
    }
}

/// The nearest integers; halves to even, or away from zero.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn round(x: __m256, away: bool) -> __m256i {
    // SAFETY: the caller's contract.
    unsafe {
        if away {
            let sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0));
            _mm256_cvttps_epi32(_mm256_add_ps(x, _mm256_or_ps(_mm256_set1_ps(BELOW_HALF), sign)))
        } else {
            _mm256_cvtps_epi32(x)
        }
    }
}

impl Dot for Avx2 {
    type V = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(p: *const i32) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut i32, v: __m256i) {
        // SAFETY: the trait's contract.
        unsafe { _mm256_storeu_si256(p.cast(), v) }
    }

    #[inline(always)]
    unsafe fn splat(p: *const u8) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_set1_epi32(p.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn dot(sum: __m256i, activations: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(activations, weights)) }
    }
}

impl Int8 for Avx2 {
    type B = __m256i;
    const WIDTH: usize = 2;
    const ROWS: &'static [&'static [usize]] = &[&[8, 4, 2, 1], &[6, 4, 2, 1]];
    const PIXELS: usize = 1;

    fn kernel(rows: usize, panels: usize) -> GemmKernel {
        match (rows, panels) {
            (8, 1) => block_avx2::<8, 1>,
            (4, 1) => block_avx2::<4, 1>,
            (2, 1) => block_avx2::<2, 1>,
            (1, 1) => block_avx2::<1, 1>,
            (6, 2) => block_avx2::<6, 2>,
            (4, 2) => block_avx2::<4, 2>,
            (2, 2) => block_avx2::<2, 2>,
            (1, 2) => block_avx2::<1, 2>,
            _ => unreachable!("no kernel for {rows} rows and {panels} panels"),
        }
    }

    #[inline(always)]
    unsafe fn scale(sum: __m256i, multiplier: *const f32, high: f32, away: bool) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe {
            let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(multiplier));
            round(_mm256_min_ps(scaled, _mm256_set1_ps(high)), away)
        }
    }

    #[inline(always)]
    unsafe fn pack(v: [__m256i; 4], narrow: Narrow) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe {
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            _mm256_permutevar8x32_epi32(Self::pack_interleaved(v, narrow), order)
        }
    }

    #[inline(always)]
    unsafe fn pack_interleaved(v: [__m256i; 4], narrow: Narrow) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe {
            let zero_point = _mm256_set1_epi32(narrow.zero_point);
            let left = _mm256_adds_epi16(_mm256_packs_epi32(v[0], v[1]), zero_point);
            let right = _mm256_adds_epi16(_mm256_packs_epi32(v[2], v[3]), zero_point);
            let bytes = _mm256_packs_epi16(left, right);
            let bytes = _mm256_max_epi8(bytes, _mm256_set1_epi32(narrow.low));
            let bytes = _mm256_min_epi8(bytes, _mm256_set1_epi32(narrow.high));
            Self::flip(bytes, narrow.flip)
        }
    }

    #[inline(always)]
    unsafe fn widen(bytes: __m256i, signed: bool) -> [__m256i; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            let chunks = split(bytes);
            if signed {
                [
                    _mm256_cvtepi8_epi32(chunks[0]),
                    _mm256_cvtepi8_epi32(chunks[1]),
                    _mm256_cvtepi8_epi32(chunks[2]),
                    _mm256_cvtepi8_epi32(chunks[3]),
                ]
            } else {
                [
                    _mm256_cvtepu8_epi32(chunks[0]),
                    _mm256_cvtepu8_epi32(chunks[1]),
                    _mm256_cvtepu8_epi32(chunks[2]),
                    _mm256_cvtepu8_epi32(chunks[3]),
                ]
            }
        }
    }

    #[inline(always)]
    unsafe fn load_widen(p: *const u8, n: usize, signed: bool) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe {
            let mut bytes = [0_u8; 8];
            if n >= 8 {
                p.copy_to_nonoverlapping(bytes.as_mut_ptr(), 8);
            } else {
                p.copy_to_nonoverlapping(bytes.as_mut_ptr(), n);
            }
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(bytes));
            if signed { _mm256_cvtepi8_epi32(bytes) } else { _mm256_cvtepu8_epi32(bytes) }
        }
    }

    #[inline(always)]
    unsafe fn raise(v: __m256i, low: i32, offset: i32) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_add_epi32(_mm256_max_epi32(v, _mm256_set1_epi32(low)), _mm256_set1_epi32(offset)) }
    }

    #[inline(always)]
    unsafe fn sum(a: __m256i, b: __m256i, sum: &Sum) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe {
            let (a, b) = (_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b));
            let inner = _mm256_fmadd_ps(b, _mm256_set1_ps(sum.rb), _mm256_set1_ps(sum.k));
            let outer = _mm256_fmadd_ps(a, _mm256_set1_ps(sum.ra), inner);
            round(_mm256_min_ps(outer, _mm256_set1_ps(sum.high)), sum.away)
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8, n: usize) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe {
            if n >= 32 {
                return _mm256_loadu_si256(p.cast());
            }
            let mut bytes = [0_u8; 32];
            p.copy_to_nonoverlapping(bytes.as_mut_ptr(), n);
            _mm256_loadu_si256(bytes.as_ptr().cast())
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, bytes: __m256i, n: usize) {
        // SAFETY: the trait's contract.
        unsafe {
            if n >= 32 {
                _mm256_storeu_si256(p.cast(), bytes);
            } else {
                let mut all = [0_u8; 32];
                _mm256_storeu_si256(all.as_mut_ptr().cast(), bytes);
                p.copy_from_nonoverlapping(all.as_ptr(), n);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_chunks(to: [*mut u8; 4], bytes: __m256i, n: [usize; 4]) {
        // SAFETY: the trait's contract.
        unsafe {
            let chunks = split(bytes);
            for j in 0..4 {
                if n[j] >= 8 {
                    _mm_storel_epi64(to[j].cast(), chunks[j]);
                } else {
                    let chunk = _mm_cvtsi128_si64(chunks[j]).to_le_bytes();
                    to[j].copy_from_nonoverlapping(chunk.as_ptr(), n[j]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn flip(bytes: __m256i, flip: i32) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_xor_si256(bytes, _mm256_set1_epi32(flip)) }
    }

    #[inline(always)]
    unsafe fn interleave(rows: [__m256i; 4]) -> [__m256i; 8] {
        // SAFETY: the trait's contract.
        unsafe {
            let zero = _mm256_setzero_si256();
            let (low01, high01) =
                (_mm256_unpacklo_epi8(rows[0], rows[1]), _mm256_unpackhi_epi8(rows[0], rows[1]));
            let (low23, high23) =
                (_mm256_unpacklo_epi8(rows[2], rows[3]), _mm256_unpackhi_epi8(rows[2], rows[3]));
            [
                _mm256_unpacklo_epi8(low01, zero),
                _mm256_unpackhi_epi8(low01, zero),
                _mm256_unpacklo_epi8(high01, zero),
                _mm256_unpackhi_epi8(high01, zero),
                _mm256_unpacklo_epi8(low23, zero),
                _mm256_unpackhi_epi8(low23, zero),
                _mm256_unpacklo_epi8(high23, zero),
                _mm256_unpackhi_epi8(high23, zero),
            ]
        }
    }

    #[inline(always)]
    unsafe fn dot4(mut sum: [__m256i; 4], rows: [__m256i; 8], weights: *const u8) -> [__m256i; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            for j in 0..4 {
                sum[j] = Self::dot(sum[j], rows[j], Self::load(weights.add(32 * j).cast()));
                sum[j] = Self::dot(sum[j], rows[4 + j], Self::load(weights.add(128 + 32 * j).cast()));
            }
        }
        sum
    }

    #[inline(always)]
    unsafe fn pack_activations(to: *mut u8, from: *const u8, n: usize, flip: u8) {
        // SAFETY: the trait's contract; a vector that would read past the end starts earlier instead.
        unsafe {
            let flip16 = _mm_set1_epi8(flip as i8);
            if n >= 16 {
                let mut at = 0;
                while at < n {
                    let start = at.min(n - 16);
                    let bytes = _mm_xor_si128(_mm_loadu_si128(from.add(start).cast()), flip16);
                    _mm256_storeu_si256(to.add(2 * start).cast(), _mm256_cvtepu8_epi16(bytes));
                    at += 16;
                }
            } else if n >= 8 {
                for start in [0, n - 8] {
                    let bytes = _mm_xor_si128(_mm_loadl_epi64(from.add(start).cast()), flip16);
                    _mm_storeu_si128(to.add(2 * start).cast(), _mm_cvtepu8_epi16(bytes));
                }
            } else {
                for i in 0..n {
                    to.add(2 * i).cast::<u16>().write_unaligned(u16::from(*from.add(i) ^ flip));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn fill_activations(to: *mut u8, value: u8, n: usize) {
        // SAFETY: the trait's contract.
        unsafe {
            let value = _mm256_set1_epi16(i16::from(value));
            let mut at = 0;
            while at < 2 * n {
                _mm256_storeu_si256(to.add(at).cast(), value);
                at += 32;
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn block_avx2<const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { gemm_block::<Avx2, MR, NV>(block) }
}

/// The kernel that only sums, for rows and panels out of [`Int8::ROWS`].
pub(crate) fn sums(rows: usize, panels: usize) -> SumsKernel {
    match (rows, panels) {
        (8, 1) => sums_avx2::<8, 1>,
        (4, 1) => sums_avx2::<4, 1>,
        (2, 1) => sums_avx2::<2, 1>,
        (1, 1) => sums_avx2::<1, 1>,
        (6, 2) => sums_avx2::<6, 2>,
        (4, 2) => sums_avx2::<4, 2>,
        (2, 2) => sums_avx2::<2, 2>,
        (1, 2) => sums_avx2::<1, 2>,
        _ => unreachable!("no kernel for {rows} rows and {panels} panels"),
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn sums_avx2<const MR: usize, const NV: usize>(block: &imatmul::Block) {
    // SAFETY: the caller's contract.
    unsafe { sums_block::<Avx2, MR, NV>(block) }
}

/// # Safety
/// The CPU has AVX2 and FMA, and [`gemm_tile`]'s terms.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn tile_avx2(job: &GemmJob<'_>, task: usize, worker: usize) {
    // SAFETY: the caller's contract.
    unsafe { gemm_tile::<Avx2>(job, task, worker) }
}

/// # Safety
/// The CPU has AVX2 and FMA, and [`depthwise_row`]'s terms.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn row_avx2(job: &DepthwiseJob<'_>, task: usize) {
    // SAFETY: the caller's contract.
    unsafe { depthwise_row::<Avx2>(job, task) }
}
