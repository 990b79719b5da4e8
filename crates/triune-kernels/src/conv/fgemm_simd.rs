//! The f32 tile on AVX2, AVX-512 and NEON: one broadcast per row, one load per vector of columns, one fused multiply-add per
//! pair. Accumulators stay in registers for the whole of k: 6×16 of 16 registers, 14×32 of 32, on NEON 6×16 of 32.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{
    float32x4_t, vaddq_f32, vdupq_n_f32, vld1q_dup_f32, vld1q_f32, vmulq_f32, vst1q_f32,
};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, __mmask16, _MM_HINT_T0, _mm_prefetch, _mm256_add_ps, _mm256_andnot_si256, _mm256_broadcast_ss,
    _mm256_cmpgt_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32,
    _mm256_setzero_ps, _mm256_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

#[cfg(target_arch = "aarch64")]
use crate::arch::neon;

use super::fgemm::Finish;

/// Floats of a cache line.
const LINE: usize = 16;

/// Rows of a panel from the one that is multiplied to the one that is asked for: as many as it takes to come from memory while a
/// tile of a dozen rows goes on, and few beside the nearest cache.
const ROWS_AHEAD: usize = 32;

macro_rules! tile {
    ($name:ident, $side:ident, $kernel:ident, $many:ident, $wide:ident, $features:literal, $lanes:literal, $zero:path, $splat:path,
     $load:path, $store:path, $fma:path, $mul:path, $add:path, $min:path, $max:path, $mask:path, $masked_load:expr,
     $masked_store:path, $broadcast:expr, $fetch:path, [$whole:literal, $half:literal], [$($rows:literal),*], [$([$few:literal, $panels:literal]),*]) => {
        /// # Safety
        /// As `Panels::tile`, with `vectors` the panel's width in registers, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(
            rows: usize,
            vectors: usize,
            a: *const *const f32,
            runs: usize,
            run_len: usize,
            b: *const f32,
            finish: &Finish,
        ) {
            // SAFETY: passed on; the number of rows and vectors is the one that the kernel is made for.
            unsafe {
                match (rows, vectors) {
                    $(
                        ($rows, $whole) => $kernel::<$rows, $whole, 0>(a, runs, run_len, 0, b, finish),
                        ($rows, $half) => $kernel::<$rows, $half, 0>(a, runs, run_len, 0, b, finish),
                    )*
                    _ => unreachable!("no tile of {rows} rows and {vectors} vectors"),
                }
            }
        }

        /// # Safety
        /// As `Panels::side_by_side`, with `vectors` the panel's width in registers, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $side(
            [rows, apart]: [usize; 2],
            vectors: usize,
            a: *const *const f32,
            offset: usize,
            k: usize,
            b: *const f32,
            finish: &Finish,
        ) {
            // SAFETY: as above.
            unsafe {
                match (rows, vectors, apart) {
                    $(
                        ($rows, $whole, 1) => $kernel::<$rows, $whole, 1>(a, 1, k, offset, b, finish),
                        ($rows, $half, 1) => $kernel::<$rows, $half, 1>(a, 1, k, offset, b, finish),
                        ($rows, $whole, 2) => $kernel::<$rows, $whole, 2>(a, 1, k, offset, b, finish),
                        ($rows, $half, 2) => $kernel::<$rows, $half, 2>(a, 1, k, offset, b, finish),
                    )*
                    _ => unreachable!("no tile of {rows} rows {apart} apart and {vectors} vectors"),
                }
            }
        }

        /// With rows that lie so many floats `APART`, `a` has a pointer for each of their elements; with none, for each row.
        ///
        /// # Safety
        /// As `Panels::tile` or `Panels::side_by_side`.
        #[target_feature(enable = $features)]
        unsafe fn $kernel<const ROWS: usize, const VECTORS: usize, const APART: usize>(
            a: *const *const f32,
            runs: usize,
            run_len: usize,
            offset: usize,
            mut b: *const f32,
            finish: &Finish,
        ) {
            for row in 0..ROWS {
                // SAFETY: pointers of `ROWS` rows; nothing is read where they lead.
                unsafe {
                    // What comes after the sums is on its way meanwhile.
                    for line in (0..VECTORS * $lanes).step_by(LINE) {
                        let at = finish.offset + line;
                        $fetch((*finish.ahead.add(row)).wrapping_add(at).cast_const());
                        if !finish.residual.is_null() {
                            $fetch((*finish.residual.add(row)).wrapping_add(at));
                        }
                    }
                }
            }
            let mut sums = [[$zero(); VECTORS]; ROWS];
            for run in 0..runs {
                // SAFETY: `ROWS` pointers per run, `run_len` floats behind each, `run_len` rows of B.
                unsafe {
                    let rows: [*const f32; ROWS] = if APART > 0 {
                        [std::ptr::null(); ROWS]
                    } else {
                        a.add(run * ROWS).cast::<[*const f32; ROWS]>().read_unaligned()
                    };
                    for start in (0..run_len).step_by(LINE) {
                        if APART == 0 && finish.next != 0 {
                            for row in rows {
                                $fetch(row.wrapping_add(finish.next + start));
                            }
                        }
                        for i in start..run_len.min(start + LINE) {
                            let mut columns = [$zero(); VECTORS];
                            for (vector, column) in columns.iter_mut().enumerate() {
                                *column = $load(b.add(vector * $lanes));
                            }
                            for line in (0..VECTORS * $lanes).step_by(LINE) {
                                $fetch(b.wrapping_add(ROWS_AHEAD * VECTORS * $lanes + line));
                            }
                            b = b.add(VECTORS * $lanes);
                            let side = if APART > 0 { *a.add(i) } else { std::ptr::null() };
                            for (index, (row, sums)) in rows.iter().zip(&mut sums).enumerate() {
                                let x = if APART > 0 { side.wrapping_add(offset + index * APART) } else { row.add(i) };
                                let x = $broadcast(x);
                                for (column, sum) in columns.iter().zip(sums) {
                                    *sum = $fma(x, *column, *sum);
                                }
                            }
                        }
                    }
                }
            }
            let (low, high) = ($splat(finish.limits[0]), $splat(finish.limits[1]));
            let is_limited = finish.limits != [f32::NEG_INFINITY, f32::INFINITY];
            let mut bias = [$zero(); VECTORS];
            for (vector, bias) in bias.iter_mut().enumerate() {
                // SAFETY: readable for the whole width.
                *bias = unsafe { $load(finish.bias.add(vector * $lanes)) };
            }
            let mut masks = [$mask(0); VECTORS];
            for (vector, mask) in masks.iter_mut().enumerate() {
                *mask = $mask(finish.used.saturating_sub(vector * $lanes));
            }
            // Row by row, spelled out: accumulators that are indexed at run time cannot be registers.
            $(
                if let Some(sums) = sums.get($rows - 1) {
                    // SAFETY: the used columns of a row, as the caller promised; masked lanes are not touched. The order of
                    // operands lets NaN pass the limits.
                    unsafe {
                        let output = (*finish.output.add($rows - 1)).wrapping_add(finish.offset);
                        for (vector, sum) in sums.iter().enumerate() {
                            let (at, mask) = (vector * $lanes, masks[vector]);
                            let whole = finish.used >= at + $lanes;
                            let mut y = *sum;
                            if !finish.factors.is_null() {
                                y = $mul(y, $splat(*finish.factors.add($rows - 1)));
                            }
                            y = $add(y, bias[vector]);
                            if !finish.residual.is_null() {
                                let residual = (*finish.residual.add($rows - 1)).wrapping_add(finish.offset + at);
                                y = $add(y, if whole { $load(residual) } else { $masked_load(residual, mask) });
                            }
                            if is_limited {
                                y = $min(high, $max(low, y));
                            }
                            if whole {
                                $store(output.wrapping_add(at), y);
                            } else {
                                $masked_store(output.wrapping_add(at), mask, y);
                            }
                        }
                    }
                }
            )*
        }

        /// Whether there is a kernel for so many rows and panels at once; if so, it has run.
        ///
        /// # Safety
        /// As `Panels::tiles`, with `vectors` the panels' width in registers, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $many(
            rows: usize,
            vectors: usize,
            a: *const *const f32,
            run_len: usize,
            b: &[*const f32],
            finish: &[Finish],
        ) -> bool {
            // SAFETY: passed on; the number of rows, panels and vectors is the one that the kernel is made for.
            unsafe {
                match (rows, b.len(), vectors) {
                    $(
                        ($few, $panels, $whole) => $wide::<$few, $panels, $whole>(a, run_len, b, finish),
                        ($few, $panels, $half) => $wide::<$few, $panels, $half>(a, run_len, b, finish),
                    )*
                    _ => return false,
                }
            }
            true
        }

        /// # Safety
        /// As `Panels::tiles`.
        #[target_feature(enable = $features)]
        unsafe fn $wide<const ROWS: usize, const PANELS: usize, const VECTORS: usize>(
            a: *const *const f32,
            run_len: usize,
            b: &[*const f32],
            finish: &[Finish],
        ) {
            let mut sums = [[[$zero(); VECTORS]; ROWS]; PANELS];
            // SAFETY: `ROWS` pointers, `run_len` floats behind each, `run_len` rows of each of the `PANELS` panels.
            unsafe {
                let rows: [*const f32; ROWS] = a.cast::<[*const f32; ROWS]>().read_unaligned();
                let panels: [*const f32; PANELS] = b.as_ptr().cast::<[*const f32; PANELS]>().read();
                for i in 0..run_len {
                    for (panel, sums) in panels.iter().zip(&mut sums) {
                        let panel = panel.add(i * VECTORS * $lanes);
                        let mut columns = [$zero(); VECTORS];
                        for (vector, column) in columns.iter_mut().enumerate() {
                            *column = $load(panel.add(vector * $lanes));
                        }
                        for (row, sums) in rows.iter().zip(sums) {
                            let x = $broadcast(row.add(i));
                            for (column, sum) in columns.iter().zip(sums) {
                                *sum = $fma(x, *column, *sum);
                            }
                        }
                    }
                }
            }
            // So few sums that every loop over them is unrolled: they stay registers.
            for (sums, finish) in sums.iter().zip(finish) {
                let (low, high) = ($splat(finish.limits[0]), $splat(finish.limits[1]));
                for (row, sums) in sums.iter().enumerate() {
                    for (vector, sum) in sums.iter().enumerate() {
                        let column = vector * $lanes;
                        let (at, left) = (finish.offset + column, finish.used.saturating_sub(column));
                        // SAFETY: rows and used columns as the caller promised; masked lanes are not touched. The order of
                        // operands lets NaN pass the limits.
                        unsafe {
                            let factor = || $splat(*finish.factors.add(row));
                            let mut y = if finish.factors.is_null() { *sum } else { $mul(*sum, factor()) };
                            y = $add(y, $load(finish.bias.add(column)));
                            if !finish.residual.is_null() {
                                let residual = (*finish.residual.add(row)).wrapping_add(at);
                                y = $add(y, $masked_load(residual, $mask(left)));
                            }
                            y = $min(high, $max(low, y));
                            let output = (*finish.output.add(row)).wrapping_add(at);
                            if left >= $lanes {
                                $store(output, y);
                            } else {
                                $masked_store(output, $mask(left), y);
                            }
                        }
                    }
                }
            }
        }
    };
}

/// Asks for the line that a float lies in; any address will do.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn fetch(at: *const f32) {
    // SAFETY: a hint, which every x86-64 processor takes and none faults on.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// The lanes of the first `left` floats.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn mask_512(left: usize) -> __mmask16 {
    if left >= 16 { !0 } else { (1 << left) - 1 }
}

/// The lanes of the first `left` floats.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn mask_256(left: usize) -> __m256i {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(left.min(8) as i32), lanes)
}

/// The lanes from the first to before the second.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn between_512([first, end]: [usize; 2]) -> __mmask16 {
    mask_512(end) & !mask_512(first)
}

/// The lanes from the first to before the second.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn between_256([first, end]: [usize; 2]) -> __m256i {
    _mm256_andnot_si256(mask_256(first), mask_256(end))
}

#[cfg(target_arch = "x86_64")]
tile!(
    tile_avx512,
    side_avx512,
    kernel_avx512,
    tiles_avx512,
    wide_avx512,
    "avx512f",
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_mul_ps,
    _mm512_add_ps,
    _mm512_min_ps,
    _mm512_max_ps,
    mask_512,
    |from: *const f32, mask| _mm512_maskz_loadu_ps(mask, from),
    _mm512_mask_storeu_ps,
    |x: *const f32| _mm512_set1_ps(*x),
    fetch,
    [2, 1],
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
    [[1, 2], [1, 3], [1, 4], [2, 2], [2, 3], [2, 4], [3, 2], [3, 3], [3, 4]]
);
#[cfg(target_arch = "x86_64")]
tile!(
    tile_avx2,
    side_avx2,
    kernel_avx2,
    tiles_avx2,
    wide_avx2,
    "avx2,fma",
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_mul_ps,
    _mm256_add_ps,
    _mm256_min_ps,
    _mm256_max_ps,
    mask_256,
    |from: *const f32, mask| _mm256_maskload_ps(from, mask),
    _mm256_maskstore_ps,
    |x: *const f32| _mm256_broadcast_ss(&*x),
    fetch,
    [2, 1],
    [1, 2, 3, 4, 5, 6],
    [[1, 2], [1, 3], [1, 4], [2, 2]]
);
#[cfg(target_arch = "aarch64")]
tile!(
    tile_neon,
    side_neon,
    kernel_neon,
    tiles_neon,
    wide_neon,
    "neon",
    4,
    neon::zero,
    vdupq_n_f32,
    vld1q_f32,
    vst1q_f32,
    neon::fma,
    vmulq_f32,
    vaddq_f32,
    neon::min,
    neon::max,
    neon::lanes,
    neon::load_first,
    neon::store_first,
    |x: *const f32| -> float32x4_t { vld1q_dup_f32(x) },
    neon::fetch,
    [4, 2],
    [1, 2, 3, 4, 5, 6],
    [[1, 2], [1, 3], [1, 4], [2, 2]]
);
