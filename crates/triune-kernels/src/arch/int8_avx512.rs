//! 8-bit vector operations in AVX-512, with VNNI (bytes in `vpdpbusd`) or without (i16 pairs in `vpmaddwd`).
//!
//! `vpmaddubsw` is not used: it saturates sums of two products, which changes results.
#![expect(clippy::inline_always, reason = "operations must be inlined where the instruction set is enabled")]
#![cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "intrinsics name themselves"))]

use std::arch::asm;
use std::arch::x86_64::*;

use crate::{
    arch::int8::{Dot, GemmKernel, Int8, Narrow, Sum, SumsKernel, fill},
    bmatmul::BlockRows,
    conv::{Block, DepthwiseJob, GemmJob, TileKernels, depthwise_row, gemm_block, gemm_tile, tiled_block},
    imatmul::{self, sums_block},
    math::BELOW_HALF,
};

/// AVX-512 F, BW, DQ, VL; with VNNI if the first parameter says so. With the second activations are signed bytes that become
/// unsigned in registers.
pub(crate) struct Avx512<const VNNI: bool, const FLIPS: bool = false>;

const fn mask64(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

const fn mask16(n: usize) -> u16 {
    ((1_u32 << n) - 1) as u16
}

/// The four chunks of a vector of bytes.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn split(bytes: __m512i) -> [__m128i; 4] {
    // SAFETY: the caller's contract.
    unsafe {
        [
            _mm512_castsi512_si128(bytes),
            _mm512_extracti32x4_epi32(bytes, 1),
            _mm512_extracti32x4_epi32(bytes, 2),
            _mm512_extracti32x4_epi32(bytes, 3),
        ]
    }
}

/// The nearest integers; halves to even, or away from zero.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn round(x: __m512, away: bool) -> __m512i {
    // SAFETY: the caller's contract.
    unsafe {
        if away {
            let sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0));
            _mm512_cvttps_epi32(_mm512_add_ps(x, _mm512_or_ps(_mm512_set1_ps(BELOW_HALF), sign)))
        } else {
            _mm512_cvtps_epi32(x)
        }
    }
}

/// The function for a number of rows and panels out of [`Int8::ROWS`].
macro_rules! table {
    ($rows:expr, $panels:expr, if $vnni:ident { $with:ident } else { $without:ident }) => {
        table!(@ $rows, $panels, $vnni, $with, $without,
            (1, 16) (1, 8) (1, 4) (1, 2) (1, 1)
            (2, 12) (2, 8) (2, 4) (2, 2) (2, 1)
            (3, 8) (3, 4) (3, 2) (3, 1)
            (4, 6) (4, 4) (4, 2) (4, 1))
    };
    (@ $rows:expr, $panels:expr, $vnni:ident, $with:ident, $without:ident, $(($nv:literal, $mr:literal))*) => {
        match ($rows, $panels) {
            $(($mr, $nv) => if $vnni { $with::<$mr, $nv> } else { $without::<$mr, $nv> },)*
            (rows, panels) => unreachable!("no kernel for {rows} rows and {panels} panels"),
        }
    };
}

impl<const VNNI: bool, const FLIPS: bool> Dot for Avx512<VNNI, FLIPS> {
    type V = __m512i;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn load(p: *const i32) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut i32, v: __m512i) {
        // SAFETY: the trait's contract.
        unsafe { _mm512_storeu_si512(p.cast(), v) }
    }

    #[inline(always)]
    unsafe fn splat(p: *const u8) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let bytes = _mm512_set1_epi32(p.cast::<i32>().read_unaligned());
            if FLIPS { _mm512_xor_si512(bytes, _mm512_set1_epi32(fill(0x80))) } else { bytes }
        }
    }

    #[inline(always)]
    unsafe fn dot(sum: __m512i, activations: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            if VNNI {
                _mm512_dpbusd_epi32(sum, activations, weights)
            } else {
                _mm512_add_epi32(sum, _mm512_madd_epi16(activations, weights))
            }
        }
    }
}

impl<const VNNI: bool, const FLIPS: bool> Int8 for Avx512<VNNI, FLIPS> {
    type B = __m512i;
    const FLIPS: bool = FLIPS;
    const WIDTH: usize = if VNNI { 1 } else { 2 };
    const ROWS: &'static [&'static [usize]] =
        &[&[16, 8, 4, 2, 1], &[12, 8, 4, 2, 1], &[8, 4, 2, 1], &[6, 4, 2, 1]];
    const PIXELS: usize = 4;

    fn kernel(rows: usize, panels: usize) -> GemmKernel {
        if VNNI {
            table!(rows, panels, if FLIPS { block_flipping } else { block_vnni })
        } else {
            table!(rows, panels, if VNNI { block_vnni } else { block_avx512 })
        }
    }

    #[inline(always)]
    unsafe fn scale(sum: __m512i, multiplier: *const f32, high: f32, away: bool) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(multiplier));
            round(_mm512_min_ps(scaled, _mm512_set1_ps(high)), away)
        }
    }

    #[inline(always)]
    unsafe fn pack(v: [__m512i; 4], narrow: Narrow) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_permutexvar_epi32(order, Self::pack_interleaved(v, narrow))
        }
    }

    #[inline(always)]
    unsafe fn pack_interleaved(v: [__m512i; 4], narrow: Narrow) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let zero_point = _mm512_set1_epi32(narrow.zero_point);
            let left = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), zero_point);
            let right = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), zero_point);
            let bytes = _mm512_packs_epi16(left, right);
            let bytes = _mm512_max_epi8(bytes, _mm512_set1_epi32(narrow.low));
            let bytes = _mm512_min_epi8(bytes, _mm512_set1_epi32(narrow.high));
            _mm512_xor_si512(bytes, _mm512_set1_epi32(narrow.flip))
        }
    }

    #[inline(always)]
    unsafe fn widen(bytes: __m512i, signed: bool) -> [__m512i; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            let chunks = split(bytes);
            if signed {
                [
                    _mm512_cvtepi8_epi32(chunks[0]),
                    _mm512_cvtepi8_epi32(chunks[1]),
                    _mm512_cvtepi8_epi32(chunks[2]),
                    _mm512_cvtepi8_epi32(chunks[3]),
                ]
            } else {
                [
                    _mm512_cvtepu8_epi32(chunks[0]),
                    _mm512_cvtepu8_epi32(chunks[1]),
                    _mm512_cvtepu8_epi32(chunks[2]),
                    _mm512_cvtepu8_epi32(chunks[3]),
                ]
            }
        }
    }

    #[inline(always)]
    unsafe fn load_widen(p: *const u8, n: usize, signed: bool) -> __m512i {
        // SAFETY: the trait's contract; bytes that are masked off are not accessed.
        unsafe {
            let bytes =
                if n >= 16 { _mm_loadu_si128(p.cast()) } else { _mm_maskz_loadu_epi8(mask16(n), p.cast()) };
            if signed { _mm512_cvtepi8_epi32(bytes) } else { _mm512_cvtepu8_epi32(bytes) }
        }
    }

    #[inline(always)]
    unsafe fn raise(v: __m512i, low: i32, offset: i32) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe { _mm512_add_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(low)), _mm512_set1_epi32(offset)) }
    }

    #[inline(always)]
    unsafe fn sum(a: __m512i, b: __m512i, sum: &Sum) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe {
            let (a, b) = (_mm512_cvtepi32_ps(a), _mm512_cvtepi32_ps(b));
            let inner = _mm512_fmadd_ps(b, _mm512_set1_ps(sum.rb), _mm512_set1_ps(sum.k));
            let outer = _mm512_fmadd_ps(a, _mm512_set1_ps(sum.ra), inner);
            round(_mm512_min_ps(outer, _mm512_set1_ps(sum.high)), sum.away)
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8, n: usize) -> __m512i {
        // SAFETY: the trait's contract; bytes that are masked off are not accessed.
        unsafe { _mm512_maskz_loadu_epi8(mask64(n), p.cast()) }
    }

    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, bytes: __m512i, n: usize) {
        // SAFETY: the trait's contract; bytes that are masked off are not accessed.
        unsafe { _mm512_mask_storeu_epi8(p.cast(), mask64(n), bytes) }
    }

    #[inline(always)]
    unsafe fn store_chunks(to: [*mut u8; 4], bytes: __m512i, n: [usize; 4]) {
        // SAFETY: the trait's contract; bytes that are masked off are not accessed.
        unsafe {
            let chunks = split(bytes);
            for j in 0..4 {
                if n[j] >= 16 {
                    _mm_storeu_si128(to[j].cast(), chunks[j]);
                } else {
                    _mm_mask_storeu_epi8(to[j].cast(), mask16(n[j]), chunks[j]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn flip(bytes: __m512i, flip: i32) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe { _mm512_xor_si512(bytes, _mm512_set1_epi32(flip)) }
    }

    #[inline(always)]
    unsafe fn interleave(rows: [__m512i; 4]) -> [__m512i; 8] {
        // SAFETY: the trait's contract.
        unsafe {
            let (low01, high01) =
                (_mm512_unpacklo_epi8(rows[0], rows[1]), _mm512_unpackhi_epi8(rows[0], rows[1]));
            let (low23, high23) =
                (_mm512_unpacklo_epi8(rows[2], rows[3]), _mm512_unpackhi_epi8(rows[2], rows[3]));
            let zero = _mm512_setzero_si512();
            if VNNI {
                [
                    _mm512_unpacklo_epi16(low01, low23),
                    _mm512_unpackhi_epi16(low01, low23),
                    _mm512_unpacklo_epi16(high01, high23),
                    _mm512_unpackhi_epi16(high01, high23),
                    zero,
                    zero,
                    zero,
                    zero,
                ]
            } else {
                [
                    _mm512_unpacklo_epi8(low01, zero),
                    _mm512_unpackhi_epi8(low01, zero),
                    _mm512_unpacklo_epi8(high01, zero),
                    _mm512_unpackhi_epi8(high01, zero),
                    _mm512_unpacklo_epi8(low23, zero),
                    _mm512_unpackhi_epi8(low23, zero),
                    _mm512_unpacklo_epi8(high23, zero),
                    _mm512_unpackhi_epi8(high23, zero),
                ]
            }
        }
    }

    #[inline(always)]
    unsafe fn dot4(mut sum: [__m512i; 4], rows: [__m512i; 8], weights: *const u8) -> [__m512i; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            for j in 0..4 {
                sum[j] = Self::dot(sum[j], rows[j], Self::load(weights.add(64 * j).cast()));
                if !VNNI {
                    sum[j] = Self::dot(sum[j], rows[4 + j], Self::load(weights.add(256 + 64 * j).cast()));
                }
            }
        }
        sum
    }

    #[inline(always)]
    unsafe fn pack_activations(to: *mut u8, from: *const u8, n: usize, flip: u8) {
        // SAFETY: the trait's contract; bytes that are masked off are not read.
        unsafe {
            // Short runs take short vectors: their stores stay within a cache line more often.
            if n <= 16 {
                let bytes = _mm_maskz_loadu_epi8(mask16(n), from.cast());
                let bytes = _mm_xor_si128(bytes, _mm_set1_epi8(flip as i8));
                if VNNI {
                    _mm_storeu_si128(to.cast(), bytes);
                } else {
                    _mm256_storeu_si256(to.cast(), _mm256_cvtepu8_epi16(bytes));
                }
                return;
            }
            if VNNI && n <= 32 {
                let bytes = _mm256_maskz_loadu_epi8(mask64(n) as u32, from.cast());
                _mm256_storeu_si256(to.cast(), _mm256_xor_si256(bytes, _mm256_set1_epi8(flip as i8)));
                return;
            }
            let mut at = 0;
            while at < n {
                let bytes = Self::flip(Self::load_bytes(from.add(at), n - at), fill(flip));
                if VNNI {
                    _mm512_storeu_si512(to.add(at).cast(), bytes);
                    at += 64;
                } else {
                    let words = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes));
                    _mm512_storeu_si512(to.add(2 * at).cast(), words);
                    at += 32;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn fill_activations(to: *mut u8, value: u8, n: usize) {
        // SAFETY: the trait's contract.
        unsafe {
            let value =
                if VNNI { _mm512_set1_epi8(value as i8) } else { _mm512_set1_epi16(i16::from(value)) };
            let mut at = 0;
            while at < n * Self::WIDTH {
                _mm512_storeu_si512(to.add(at).cast(), value);
                at += 64;
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn block_avx512<const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { gemm_block::<Avx512<false>, MR, NV>(block) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
unsafe fn block_vnni<const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { gemm_block::<Avx512<true>, MR, NV>(block) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
unsafe fn block_flipping<const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { gemm_block::<Avx512<true, true>, MR, NV>(block) }
}

/// 16 · MR rows times NV panels in tiles, the last steps of a run and the ends of sums in vectors.
///
/// # Safety
/// [`tiled_block`]'s.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
unsafe fn block_tiled<const FLIPS: bool, const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { tiled_block::<Avx512<true, FLIPS>, FLIPS, MR, NV>(block) }
}

/// The kernels in tiles, for activations that need not be flipped, and for those that are signed bytes to a tile.
pub(crate) static TILED: TileKernels = tile_kernels::<false>();
pub(crate) static TILED_SIGNED: TileKernels = tile_kernels::<true>();

const fn tile_kernels<const FLIPS: bool>() -> TileKernels {
    [
        [(32, block_tiled::<FLIPS, 2, 1>), (16, block_tiled::<FLIPS, 1, 1>)],
        [(32, block_tiled::<FLIPS, 2, 2>), (16, block_tiled::<FLIPS, 1, 2>)],
    ]
}

/// The kernel that only sums, for rows and panels out of [`Int8::ROWS`].
pub(crate) fn sums<const VNNI: bool>(rows: usize, panels: usize) -> SumsKernel {
    table!(rows, panels, if VNNI { sums_vnni } else { sums_avx512 })
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn sums_avx512<const MR: usize, const NV: usize>(block: &imatmul::Block) {
    // SAFETY: the caller's contract.
    unsafe { sums_block::<Avx512<false>, MR, NV>(block) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
unsafe fn sums_vnni<const MR: usize, const NV: usize>(block: &imatmul::Block) {
    // SAFETY: the caller's contract.
    unsafe { sums_block::<Avx512<true>, MR, NV>(block) }
}

/// `_mm512_dpwssd_epi32`, of which the compiler makes a product and an addition: a third slower.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot_of_words(mut sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the instruction, which the CPU has, works on registers alone.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {a}, {b}",
            sum = inlateout(zmm_reg) sum,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Dot products of pairs of 16 bits, with VNNI.
struct Words;

impl Dot for Words {
    type V = __m512i;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn load(p: *const i32) -> __m512i {
        // SAFETY: passed on.
        unsafe { <Avx512<true>>::load(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut i32, v: __m512i) {
        // SAFETY: passed on.
        unsafe { <Avx512<true>>::store(p, v) }
    }

    #[inline(always)]
    unsafe fn splat(p: *const u8) -> __m512i {
        // SAFETY: passed on.
        unsafe { <Avx512<true>>::splat(p) }
    }

    #[inline(always)]
    unsafe fn dot(sum: __m512i, activations: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: the trait's contract.
        unsafe { dot_of_words(sum, activations, weights) }
    }
}

/// As [`sums`] for operands of 16 bits.
pub(crate) fn sums_of_words<const VNNI: bool>(rows: usize, panels: usize) -> SumsKernel {
    table!(rows, panels, if VNNI { sums_words } else { sums_avx512 })
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
unsafe fn sums_words<const MR: usize, const NV: usize>(block: &imatmul::Block) {
    // SAFETY: the caller's contract.
    unsafe { sums_block::<Words, MR, NV>(block) }
}

/// Rows times four panels of unsigned bytes or halves of them, block by block, which become whole in registers: as many rows as the
/// job says, of those that there is a kernel for.
///
/// # Safety
/// The CPU has AVX-512 with VNNI; the job describes operands that exist.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
pub(crate) unsafe fn rows_by_blocks(job: &BlockRows<'_>, rows: usize, halves: bool) {
    // SAFETY: the caller's contract.
    unsafe {
        match (rows, halves) {
            (1, true) => rows_by_panels::<1, true>(job),
            (2, true) => rows_by_panels::<2, true>(job),
            (4, true) => rows_by_panels::<4, true>(job),
            (1, false) => rows_by_panels::<1, false>(job),
            (2, false) => rows_by_panels::<2, false>(job),
            (4, false) => rows_by_panels::<4, false>(job),
            _ => unreachable!("no kernel for {rows} rows"),
        }
    }
}

/// # Safety
/// As [`rows_by_blocks`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
unsafe fn rows_by_panels<const ROWS: usize, const HALVES: bool>(job: &BlockRows<'_>) {
    // SAFETY: the caller's contract.
    unsafe {
        let low = _mm512_set1_epi8(15);
        let mut results = [[_mm512_setzero_ps(); ROWS]; 4];
        let (mut digits, mut activations) = (job.digits, job.activations);
        for block in 0..job.blocks {
            let zeros = job.zeros.add(block * job.zeros_apart);
            for (panel, results) in results.iter_mut().enumerate() {
                // Two sums each, so that neither waits for the other.
                let mut made = [[_mm512_setzero_si512(); 2]; ROWS];
                for pair in 0..job.pairs {
                    let first = _mm512_loadu_si512(digits.cast());
                    let pairs = if HALVES {
                        let high = _mm512_srli_epi16::<4>(first);
                        [_mm512_and_si512(first, low), _mm512_and_si512(high, low)]
                    } else {
                        [first, _mm512_loadu_si512(digits.add(64).cast())]
                    };
                    digits = digits.add(if HALVES { 64 } else { 128 });
                    for (row, made) in made.iter_mut().enumerate() {
                        let a = activations.add(row * job.stride + 8 * pair);
                        for (step, made) in made.iter_mut().enumerate() {
                            let a = _mm512_set1_epi32(a.add(4 * step).cast::<i32>().read_unaligned());
                            *made = _mm512_dpbusd_epi32(*made, pairs[step], a);
                        }
                    }
                }
                let zero = _mm512_loadu_ps(zeros.add(panel * 16));
                let scale = _mm512_loadu_ps(job.scales.add(block * 64 + panel * 16));
                for (row, (made, result)) in made.iter().zip(results).enumerate() {
                    let [factor, sum] = [job.factors, job.sums].map(|own| own[row * job.blocks + block]);
                    let made = _mm512_cvtepi32_ps(_mm512_add_epi32(made[0], made[1]));
                    let exact = _mm512_fnmadd_ps(zero, _mm512_set1_ps(sum), made);
                    let scale = _mm512_mul_ps(_mm512_set1_ps(factor), scale);
                    *result = _mm512_fmadd_ps(exact, scale, *result);
                }
            }
            activations = activations.add(8 * job.pairs);
        }
        for (panel, results) in results.iter().enumerate() {
            for (row, &result) in results.iter().enumerate() {
                _mm512_storeu_ps(job.results.add(row * 64 + panel * 16), result);
            }
        }
    }
}

/// # Safety
/// The CPU has AVX-512, and [`gemm_tile`]'s terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(crate) unsafe fn tile_avx512(job: &GemmJob<'_>, task: usize, worker: usize) {
    // SAFETY: the caller's contract.
    unsafe { gemm_tile::<Avx512<false>>(job, task, worker) }
}

/// # Safety
/// The CPU has AVX-512 with VNNI, and [`gemm_tile`]'s terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
pub(crate) unsafe fn tile_vnni(job: &GemmJob<'_>, task: usize, worker: usize) {
    // SAFETY: the caller's contract.
    unsafe { gemm_tile::<Avx512<true>>(job, task, worker) }
}

/// The same for signed activations that lie where they are.
///
/// # Safety
/// As [`tile_vnni`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
pub(crate) unsafe fn tile_flipping(job: &GemmJob<'_>, task: usize, worker: usize) {
    // SAFETY: the caller's contract.
    unsafe { gemm_tile::<Avx512<true, true>>(job, task, worker) }
}

/// # Safety
/// The CPU has AVX-512, and [`depthwise_row`]'s terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(crate) unsafe fn row_avx512(job: &DepthwiseJob<'_>, task: usize) {
    // SAFETY: the caller's contract.
    unsafe { depthwise_row::<Avx512<false>>(job, task) }
}

/// # Safety
/// The CPU has AVX-512 with VNNI, and [`depthwise_row`]'s terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")]
pub(crate) unsafe fn row_vnni(job: &DepthwiseJob<'_>, task: usize) {
    // SAFETY: the caller's contract.
    unsafe { depthwise_row::<Avx512<true>>(job, task) }
}
