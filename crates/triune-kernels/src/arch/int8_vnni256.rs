//! 8-bit vector operations in 256-bit VNNI, for depthwise channels that would leave most of a 512-bit vector empty.
//!
//! AVX2's operations but for the dot product, which takes bytes.
#![expect(clippy::inline_always, reason = "operations must be inlined where the instruction set is enabled")]
#![cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "intrinsics name themselves"))]

use std::arch::x86_64::*;

use crate::{
    arch::{
        int8::{Dot, GemmKernel, Int8, Narrow, Sum},
        int8_avx2::Avx2,
    },
    conv::{DepthwiseJob, depthwise_row},
};

/// AVX-512 VL with VNNI, on half vectors.
pub(crate) struct Vnni256;

/// Methods that are AVX2's.
macro_rules! as_in_avx2 {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $type),*) $(-> $result)? {
            // SAFETY: the trait's contract; VNNI machines have AVX2.
            unsafe { Avx2::$name($($arg),*) }
        }
    )*};
}

impl Dot for Vnni256 {
    type V = __m256i;
    const LANES: usize = 8;

    as_in_avx2! {
        load(p: *const i32) -> __m256i;
        store(p: *mut i32, v: __m256i);
        splat(p: *const u8) -> __m256i;
    }

    #[inline(always)]
    unsafe fn dot(sum: __m256i, activations: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: the trait's contract.
        unsafe { _mm256_dpbusd_epi32(sum, activations, weights) }
    }
}

impl Int8 for Vnni256 {
    type B = __m256i;
    const WIDTH: usize = 1;
    const ROWS: &'static [&'static [usize]] = &[];
    const PIXELS: usize = 4;

    fn kernel(rows: usize, panels: usize) -> GemmKernel {
        unreachable!("no kernel for {rows} rows and {panels} panels")
    }

    as_in_avx2! {
        scale(sum: __m256i, multiplier: *const f32, high: f32, away: bool) -> __m256i;
        pack(v: [__m256i; 4], narrow: Narrow) -> __m256i;
        pack_interleaved(v: [__m256i; 4], narrow: Narrow) -> __m256i;
        widen(bytes: __m256i, signed: bool) -> [__m256i; 4];
        load_widen(p: *const u8, n: usize, signed: bool) -> __m256i;
        raise(v: __m256i, low: i32, offset: i32) -> __m256i;
        sum(a: __m256i, b: __m256i, sum: &Sum) -> __m256i;
        store_chunks(to: [*mut u8; 4], bytes: __m256i, n: [usize; 4]);
        flip(bytes: __m256i, flip: i32) -> __m256i;
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8, n: usize) -> __m256i {
        // SAFETY: the trait's contract; bytes that are masked off are not accessed.
        unsafe { _mm256_maskz_loadu_epi8(mask(n), p.cast()) }
    }

    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, bytes: __m256i, n: usize) {
        // SAFETY: the trait's contract; bytes that are masked off are not accessed.
        unsafe { _mm256_mask_storeu_epi8(p.cast(), mask(n), bytes) }
    }

    #[inline(always)]
    unsafe fn interleave(rows: [__m256i; 4]) -> [__m256i; 8] {
        // SAFETY: the trait's contract.
        unsafe {
            let (low01, high01) =
                (_mm256_unpacklo_epi8(rows[0], rows[1]), _mm256_unpackhi_epi8(rows[0], rows[1]));
            let (low23, high23) =
                (_mm256_unpacklo_epi8(rows[2], rows[3]), _mm256_unpackhi_epi8(rows[2], rows[3]));
            let zero = _mm256_setzero_si256();
            [
                _mm256_unpacklo_epi16(low01, low23),
                _mm256_unpackhi_epi16(low01, low23),
                _mm256_unpacklo_epi16(high01, high23),
                _mm256_unpackhi_epi16(high01, high23),
                zero,
                zero,
                zero,
                zero,
            ]
        }
    }

    #[inline(always)]
    unsafe fn dot4(mut sum: [__m256i; 4], rows: [__m256i; 8], weights: *const u8) -> [__m256i; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            for j in 0..4 {
                sum[j] = Self::dot(sum[j], rows[j], Self::load(weights.add(32 * j).cast()));
            }
        }
        sum
    }

    #[inline(always)]
    unsafe fn pack_activations(to: *mut u8, from: *const u8, n: usize, flip: u8) {
        // SAFETY: the trait's contract.
        unsafe {
            for i in 0..n {
                to.add(i).write(*from.add(i) ^ flip);
            }
        }
    }

    #[inline(always)]
    unsafe fn fill_activations(to: *mut u8, value: u8, n: usize) {
        // SAFETY: the trait's contract.
        unsafe { to.write_bytes(value, n) }
    }
}

const fn mask(n: usize) -> u32 {
    if n >= 32 { u32::MAX } else { (1 << n) - 1 }
}

/// # Safety
/// The CPU has AVX-512 with VNNI, and [`depthwise_row`]'s terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
pub(crate) unsafe fn row_vnni256(job: &DepthwiseJob<'_>, row: usize) {
    // SAFETY: the caller's contract.
    unsafe { depthwise_row::<Vnni256>(job, row) }
}
