//! The taps of a window on AVX2, AVX-512 and NEON: vectors of channels, several of them side by side so that one waits for its last
//! tap while the others go on. Neighbouring results of a plane are made in the same way, their taps beside each other or every
//! other element.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{
    float32x4_t, vaddq_f32, vcombine_f32, vdivq_f32, vdupq_n_f32, vget_low_f32, vld1q_f32, vst1q_f32,
    vuzp1q_f32, vuzp2q_f32,
};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m512, _CMP_UNORD_Q, _mm256_add_ps, _mm256_blendv_ps, _mm256_castpd_ps, _mm256_castps_pd,
    _mm256_cmp_ps, _mm256_div_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps,
    _mm256_permute4x64_pd, _mm256_set1_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
    _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_div_ps, _mm512_loadu_ps, _mm512_mask_mov_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_permutex2var_ps, _mm512_set1_ps,
    _mm512_setr_epi32, _mm512_storeu_ps,
};

#[cfg(target_arch = "aarch64")]
use crate::arch::neon;
use crate::fpool::{Apart, Join, Region};
#[cfg(target_arch = "x86_64")]
use crate::{
    arch::transpose::{columns_of_half, columns_of_lines},
    conv::fgemm_simd::{mask_256, mask_512},
};

const MAX: u8 = 0;
const MAX_OR_NAN: u8 = 1;
const MEAN: u8 = 2;
const MEAN_BY_ROWS: u8 = 3;

macro_rules! pool {
    ($name:ident, $channels:ident, $line:ident, $kernel:ident, $features:literal, $lanes:literal, $splat:path, $load:path, $store:path,
     $add:path, $div:path, $max:path, $or_nan:expr, $mask:path, $masked_load:expr, $masked_store:path,
     $pairs:path, $first_pairs:path) => {
        /// # Safety
        /// The region's taps can be read for its results, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(join: Join, region: &Region, out: &mut [f32]) {
            // SAFETY: passed on.
            unsafe {
                match (join, region.apart) {
                    (Join::Max, Apart::One) => $channels::<MAX, 1>(region, out),
                    (Join::MaxOrNan, Apart::One) => $channels::<MAX_OR_NAN, 1>(region, out),
                    (Join::Mean, Apart::One) => $channels::<MEAN, 1>(region, out),
                    (Join::MeanByRows, Apart::One) => $channels::<MEAN_BY_ROWS, 1>(region, out),
                    (Join::Max, Apart::Two) => $channels::<MAX, 2>(region, out),
                    (Join::MaxOrNan, Apart::Two) => $channels::<MAX_OR_NAN, 2>(region, out),
                    (Join::Mean, Apart::Two) => $channels::<MEAN, 2>(region, out),
                    (Join::MeanByRows, Apart::Two) => $channels::<MEAN_BY_ROWS, 2>(region, out),
                }
            }
        }

        /// # Safety
        /// As the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $channels<const JOIN: u8, const APART: usize>(region: &Region, out: &mut [f32]) {
            let (width, mut line) = (region.results, 0);
            // Of short lines several, so that as many sums are on their way as of a long one.
            let vectors = width.div_ceil($lanes);
            if vectors <= 2 {
                let lines = 8 / vectors;
                let channel = |vector: usize| (vector % vectors * $lanes).min(width.saturating_sub($lanes));
                let from = std::array::from_fn(|v| v / vectors * region.line_step + channel(v) * APART);
                let to = std::array::from_fn(|vector| vector / vectors * region.out_step + channel(vector));
                while line + lines <= region.lines {
                    let input = region.input.wrapping_add(line * region.line_step);
                    let out = &mut out[line * region.out_step..][..(lines - 1) * region.out_step + width];
                    // SAFETY: passed on, of lines that there are.
                    unsafe {
                        if width < $lanes {
                            $kernel::<JOIN, APART, 8, true>(region, input, from, to, width, out);
                        } else {
                            $kernel::<JOIN, APART, 8, false>(region, input, from, to, width, out);
                        }
                    }
                    line += lines;
                }
            }
            for line in line..region.lines {
                let input = region.input.wrapping_add(line * region.line_step);
                let out = &mut out[line * region.out_step..][..width];
                // SAFETY: passed on.
                unsafe { $line::<JOIN, APART>(region, input, out) };
            }
        }

        /// # Safety
        /// As the caller's.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $line<const JOIN: u8, const APART: usize>(
            region: &Region,
            input: *const f32,
            out: &mut [f32],
        ) {
            let (len, mut channel) = (out.len(), 0);
            // SAFETY: passed on; channels are in range, or masked. What reaches beyond the last channel begins before it instead,
            // and makes the same results once more.
            unsafe {
                if len < $lanes {
                    return $kernel::<JOIN, APART, 1, true>(region, input, [0], [0], len, out);
                }
                macro_rules! vectors {
                    ($count:literal) => {{
                        let to: [usize; $count] =
                            std::array::from_fn(|vector| (channel + vector * $lanes).min(len - $lanes));
                        $kernel::<JOIN, APART, $count, false>(
                            region,
                            input,
                            to.map(|at| at * APART),
                            to,
                            len,
                            out,
                        );
                    }};
                }
                while channel + 8 * $lanes <= len {
                    vectors!(8);
                    channel += 8 * $lanes;
                }
                if channel + 4 * $lanes <= len {
                    vectors!(4);
                    channel += 4 * $lanes;
                }
                match (len - channel).div_ceil($lanes) {
                    0 => {}
                    1 => vectors!(1),
                    2 => vectors!(2),
                    3 => vectors!(3),
                    _ => vectors!(4),
                }
            }
        }

        /// `VECTORS` vectors of results: the first tap of each lies `from` floats behind `input`, and it goes `to` floats behind the
        /// beginning of `out`. If they are the `LAST`, no more than `width` of their lanes count.
        ///
        /// # Safety
        /// As the caller's; taps and results lie where they may be read and written, but for lanes that are masked.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $kernel<const JOIN: u8, const APART: usize, const VECTORS: usize, const LAST: bool>(
            region: &Region,
            input: *const f32,
            from: [usize; VECTORS],
            to: [usize; VECTORS],
            width: usize,
            out: &mut [f32],
        ) {
            let mask = $mask(width);
            let largest = JOIN == MAX || JOIN == MAX_OR_NAN;
            let mut sums = [$splat(if largest { f32::NEG_INFINITY } else { 0.0 }); VECTORS];
            let mut line = input;
            for _ in 0..region.taps[0] {
                let mut row = if JOIN == MEAN_BY_ROWS { [$splat(0.0); VECTORS] } else { sums };
                let mut x = line;
                for _ in 0..region.taps[1] {
                    for (vector, row) in row.iter_mut().enumerate() {
                        let x = x.wrapping_add(from[vector]);
                        // SAFETY: channels of a tap, as the caller promised.
                        let x = unsafe {
                            match (APART, LAST) {
                                (1, false) => $load(x),
                                (1, true) => $masked_load(x, mask),
                                (_, false) => $pairs(x),
                                (_, true) => $first_pairs(x, width),
                            }
                        };
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
                let output = out.as_mut_ptr().wrapping_add(to[vector]);
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

/// Every other float of 31: the second vector begins with the last float of the first, so that none behind them is read.
///
/// # Safety
/// The floats can be read.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pairs_512(from: *const f32) -> __m512 {
    // SAFETY: the caller's contract.
    unsafe { every_other_512(_mm512_loadu_ps(from), _mm512_loadu_ps(from.wrapping_add(15))) }
}

/// The first `count` of them, no more than 16.
///
/// # Safety
/// `2·count − 1` floats can be read.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn first_pairs_512(from: *const f32, count: usize) -> __m512 {
    let floats = 2 * count.min(16) - 1;
    // SAFETY: the caller's contract; masked lanes are not read.
    unsafe {
        let low = _mm512_maskz_loadu_ps(mask_512(floats), from);
        let high = _mm512_maskz_loadu_ps(mask_512(floats.saturating_sub(15)), from.wrapping_add(15));
        every_other_512(low, high)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn every_other_512(low: __m512, high: __m512) -> __m512 {
    let lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm512_permutex2var_ps(low, lanes, high)
}

/// Every other float of 15, as above.
///
/// # Safety
/// The floats can be read.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs_256(from: *const f32) -> __m256 {
    // SAFETY: the caller's contract.
    unsafe { every_other_256(_mm256_loadu_ps(from), _mm256_loadu_ps(from.wrapping_add(7))) }
}

/// The first `count` of them, no more than 8.
///
/// # Safety
/// `2·count − 1` floats can be read.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn first_pairs_256(from: *const f32, count: usize) -> __m256 {
    let floats = 2 * count.min(8) - 1;
    // SAFETY: the caller's contract; masked lanes are not read.
    unsafe {
        let low = _mm256_maskload_ps(from, mask_256(floats));
        let high = _mm256_maskload_ps(from.wrapping_add(7), mask_256(floats.saturating_sub(7)));
        every_other_256(low, high)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn every_other_256(low: __m256, high: __m256) -> __m256 {
    // Even lanes of the low one, odd ones of the high one, half by half; then the halves' parts in order.
    let mixed = _mm256_shuffle_ps::<0b11_01_10_00>(low, high);
    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(mixed)))
}

/// Every other float of 7, as above.
///
/// # Safety
/// The floats can be read.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
unsafe fn pairs_neon(from: *const f32) -> float32x4_t {
    // SAFETY: the caller's contract.
    let (low, high) = unsafe { (vld1q_f32(from), vld1q_f32(from.wrapping_add(3))) };
    vcombine_f32(vget_low_f32(vuzp1q_f32(low, low)), vget_low_f32(vuzp2q_f32(high, high)))
}

/// The first `count` of them, no more than 4.
///
/// # Safety
/// `2·count − 1` floats can be read.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
unsafe fn first_pairs_neon(from: *const f32, count: usize) -> float32x4_t {
    let mut all = [0.0; 4];
    for (index, all) in all.iter_mut().enumerate().take(count) {
        // SAFETY: the caller's contract.
        *all = unsafe { from.wrapping_add(2 * index).read() };
    }
    // SAFETY: an array of as many floats.
    unsafe { vld1q_f32(all.as_ptr()) }
}

#[cfg(target_arch = "x86_64")]
pool!(
    pixel_avx512,
    channels_avx512,
    line_avx512,
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
    _mm512_mask_storeu_ps,
    pairs_512,
    first_pairs_512
);
#[cfg(target_arch = "x86_64")]
pool!(
    pixel_avx2,
    channels_avx2,
    line_avx2,
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
    _mm256_maskstore_ps,
    pairs_256,
    first_pairs_256
);
#[cfg(target_arch = "aarch64")]
pool!(
    pixel_neon,
    channels_neon,
    line_neon,
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
    neon::store_first,
    pairs_neon,
    first_pairs_neon
);

/// Rows that [`add_rows_avx2`] sums side by side, and columns that it transposes at a time.
#[cfg(target_arch = "x86_64")]
pub(crate) const LINES: usize = 8;

/// Rows of a plane, each summed by itself from left to right, and the sums from the first to the last: as `pool2d::add_rows`, which is
/// the same for any machine, with a row in each lane of a vector.
///
/// There are [`LINES`] rows and columns at least. The last ones of either are read together with some before them, which are not
/// added again.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) fn add_rows_avx2(x: &[f32], columns: usize, sum: f32) -> f32 {
    let rows = x.len() / columns;
    assert!(rows >= LINES && columns >= LINES);
    let (mut sum, mut row) = (sum, 0);
    while row < rows {
        let first = |row: usize| row.min(rows - LINES);
        let mut add = |row: usize, sums: __m256| {
            let mut own = [0.0; LINES];
            // SAFETY: as many elements as a vector has.
            unsafe { _mm256_storeu_ps(own.as_mut_ptr(), sums) };
            for own in &own[row - first(row)..] {
                sum += own;
            }
        };
        // Some vectors of rows, so that one waits for its last column while the others go on.
        let at = |index: usize| first(row + index * LINES);
        match (rows - row).div_ceil(LINES) {
            1 => {
                let [only] = sums_of_rows(x, columns, [at(0)]);
                add(row, only);
            }
            2 => {
                let [low, high] = sums_of_rows(x, columns, [at(0), at(1)]);
                add(row, low);
                add(row + LINES, high);
            }
            _ => {
                // The last of three is there twice.
                let four = sums_of_rows(x, columns, [at(0), at(1), at(2), at(3)]);
                for (index, sums) in four.into_iter().enumerate().take((rows - row).div_ceil(LINES)) {
                    add(row + index * LINES, sums);
                }
            }
        }
        row += 4 * LINES;
    }
    sum
}

/// The same for rows of fewer columns than [`LINES`], one at least, of which there may be any number.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn add_short_rows_avx2(x: &[f32], columns: usize, mut sum: f32) -> f32 {
    let mask = mask_256(columns);
    for rows in x.chunks(LINES * columns) {
        let last = rows.len() / columns - 1;
        let mut lines = [_mm256_setzero_ps(); LINES];
        for (row, line) in lines.iter_mut().enumerate() {
            // Of fewer rows the last one is summed several times.
            let row = &rows[row.min(last) * columns..][..columns];
            // SAFETY: the row's columns; masked lanes are not read.
            *line = unsafe { _mm256_maskload_ps(row.as_ptr(), mask) };
        }
        let mut sums = _mm256_setzero_ps();
        for column in &columns_of_lines(lines)[..columns] {
            sums = _mm256_add_ps(sums, *column);
        }
        let mut own = [0.0; LINES];
        // SAFETY: as many elements as a vector has.
        unsafe { _mm256_storeu_ps(own.as_mut_ptr(), sums) };
        for own in &own[..=last] {
            sum += own;
        }
    }
    sum
}

/// The sums of [`LINES`] rows from each of the first ones on.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_rows<const VECTORS: usize>(
    x: &[f32],
    columns: usize,
    first: [usize; VECTORS],
) -> [__m256; VECTORS] {
    /// Columns at a time.
    const COLUMNS: usize = 4;
    let mut sums = [_mm256_setzero_ps(); VECTORS];
    for column in (0..columns).step_by(COLUMNS) {
        let at = column.min(columns - COLUMNS);
        let mut tiles = [[_mm256_setzero_ps(); COLUMNS]; VECTORS];
        for (tile, first) in tiles.iter_mut().zip(first) {
            let rows = &x[first * columns..][..LINES * columns];
            // SAFETY: four columns of eight rows.
            *tile =
                unsafe { columns_of_half(rows[at..].as_ptr().cast(), (columns * size_of::<f32>()) as isize) };
        }
        for index in column - at..COLUMNS {
            for (sums, tile) in sums.iter_mut().zip(&tiles) {
                *sums = _mm256_add_ps(*sums, tile[index]);
            }
        }
    }
    sums
}
