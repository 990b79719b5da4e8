//! Windows of three rows and columns that slide over planes, on AVX2 and AVX-512: a vector has neighbouring results, and goes down the
//! plane with them, so that each row of the input is read once. What lies beside the plane is not read, but for masked lanes.

use std::arch::x86_64::{
    __m256, __m256i, __m512, __mmask16, _mm256_add_ps, _mm256_blendv_ps, _mm256_castpd_ps, _mm256_castps_pd,
    _mm256_castsi256_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps, _mm256_permute4x64_pd,
    _mm256_set1_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm512_add_ps, _mm512_castpd_ps, _mm512_castps_pd,
    _mm512_mask_loadu_ps, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_permutexvar_pd, _mm512_set1_ps,
    _mm512_setr_epi64, _mm512_shuffle_ps, _mm512_storeu_ps,
};

use crate::Isa;
use crate::conv::fgemm_simd::{between_256, between_512};
use crate::dispatch::Level;

/// Rows and columns of a window.
pub(crate) const WINDOW: usize = 3;

/// Lines of results that a vector makes before the next one of the same lines comes: what they read lies in the cache then.
const LINES: usize = 8;

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// The largest number, the first of equal ones.
    Max,
    /// The sum of the taps in their order.
    Sum,
}

/// Lines of results of a plane.
pub(crate) struct Slide<'a> {
    /// The plane from its first element on.
    pub(crate) x: &'a [f32],
    /// Its rows and columns, and the elements from row to row.
    pub(crate) extents: [usize; 2],
    pub(crate) row_step: usize,
    /// Rows above it and columns to its left, which windows see too.
    pub(crate) pad: [usize; 2],
    /// Rows and columns from window to window, 1 or 2.
    pub(crate) stride: usize,
    /// The first of the lines.
    pub(crate) first: usize,
    /// Results of a line.
    pub(crate) columns: usize,
}

impl Slide<'_> {
    /// The first element of a row, or null of one that is not there. `row` counts those above the plane.
    #[inline]
    fn row(&self, row: usize) -> *const f32 {
        match row.checked_sub(self.pad[0]) {
            Some(row) if row < self.extents[0] => self.x.as_ptr().wrapping_add(row * self.row_step),
            _ => std::ptr::null(),
        }
    }

    /// The elements of a row from `column` on that lie in the plane, of so many: all before the second but not those before the first.
    /// `column` counts those to the plane's left.
    #[inline]
    fn inside(&self, column: usize, lanes: usize) -> [usize; 2] {
        let (left, right) = (self.pad[1], self.pad[1] + self.extents[1]);
        [left.saturating_sub(column).min(lanes), right.saturating_sub(column).min(lanes)]
    }
}

/// Makes the lines, if the machine has a kernel and there is one of the stride; says whether it has.
pub(crate) fn slide(level: Level, join: Join, slide: &Slide<'_>, out: &mut [f32]) -> bool {
    let [rows, columns] = slide.extents;
    if !(1..=2).contains(&slide.stride) || slide.columns == 0 || level.isa() == Isa::Scalar {
        return false;
    }
    assert!(rows == 0 || (rows - 1) * slide.row_step + columns <= slide.x.len(), "the map was checked");
    // SAFETY: the rows' elements lie inside of the slice; the level vouches for the instruction set.
    unsafe {
        if level.is_512() {
            lines_avx512(join, slide, out);
        } else {
            lines_avx2(join, slide, out);
        }
    }
    true
}

const MAX: u8 = 0;
const SUM: u8 = 1;

macro_rules! slide {
    ($name:ident, $lines:ident, $block:ident, $row:ident, $features:literal, $lanes:literal, $vector:ty, $mask:ty, $splat:path,
     $load:path, $store:path, $masked_store:path, $between:path, $add:path, $max:path, $even:path, $odd:path, $in_order:path) => {
        /// # Safety
        /// The rows' elements can be read, on a machine with the features.
        #[target_feature(enable = $features)]
        unsafe fn $name(join: Join, slide: &Slide<'_>, out: &mut [f32]) {
            // SAFETY: passed on.
            unsafe {
                match (join, slide.stride) {
                    (Join::Max, 1) => $lines::<MAX, 1>(slide, out),
                    (Join::Max, _) => $lines::<MAX, 2>(slide, out),
                    (Join::Sum, 1) => $lines::<SUM, 1>(slide, out),
                    (Join::Sum, _) => $lines::<SUM, 2>(slide, out),
                }
            }
        }

        /// # Safety
        /// As the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $lines<const JOIN: u8, const STRIDE: usize>(slide: &Slide<'_>, out: &mut [f32]) {
            let (columns, mut first) = (slide.columns, slide.first);
            for out in out.chunks_mut(LINES * columns) {
                for column in (0..columns).step_by($lanes) {
                    // The last ones together with some before them, which are made again.
                    let column = column.min(columns.saturating_sub($lanes));
                    // SAFETY: passed on.
                    unsafe { $block::<JOIN, STRIDE>(slide, first, column, out) };
                }
                first += LINES;
            }
        }

        /// A vector of results of each line.
        ///
        /// # Safety
        /// As the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $block<const JOIN: u8, const STRIDE: usize>(
            slide: &Slide<'_>,
            first: usize,
            column: usize,
            out: &mut [f32],
        ) {
            let start = column * STRIDE;
            let beside = $splat(if JOIN == MAX { f32::NEG_INFINITY } else { 0.0 });
            // Of the vectors that begin at each tap, and of those behind them.
            let mut masks = [[$between([0, 0]); 2]; WINDOW];
            for (tap, masks) in masks.iter_mut().enumerate() {
                for (half, mask) in masks.iter_mut().enumerate() {
                    *mask = $between(slide.inside(start + tap + half * $lanes, $lanes));
                }
            }
            // Of the two rows above the next line's last ones: the largest of their taps, or the taps.
            let mut above = [[beside; WINDOW]; 2];
            // SAFETY: passed on.
            unsafe {
                if STRIDE == 1 {
                    above[0] = $row::<JOIN, STRIDE>(slide, first, start, &masks, beside);
                }
                above[1] = $row::<JOIN, STRIDE>(slide, first * STRIDE + 2 - STRIDE, start, &masks, beside);
            }
            let left = slide.columns - column;
            let stored = $between([0, left.min($lanes)]);
            for (line, out) in (first..).zip(out.chunks_exact_mut(slide.columns)) {
                let at = line * STRIDE;
                // SAFETY: passed on.
                let rows = unsafe {
                    let last = $row::<JOIN, STRIDE>(slide, at + 2, start, &masks, beside);
                    if STRIDE == 1 {
                        [above[0], above[1], last]
                    } else {
                        [above[1], $row::<JOIN, STRIDE>(slide, at + 1, start, &masks, beside), last]
                    }
                };
                above = [rows[1], rows[2]];
                let mut y = beside;
                for row in &rows {
                    if JOIN == MAX {
                        // The second operand stays where they are equal.
                        y = $max(row[0], y);
                    } else {
                        for x in row {
                            y = $add(y, *x);
                        }
                    }
                }
                let y = if STRIDE == 2 { $in_order(y) } else { y };
                // SAFETY: results of the line; masked lanes are not touched.
                unsafe {
                    let to = out.as_mut_ptr().wrapping_add(column);
                    if left >= $lanes {
                        $store(to, y);
                    } else {
                        $masked_store(to, stored, y);
                    }
                }
            }
        }

        /// The taps of a row, or the largest of them first.
        ///
        /// # Safety
        /// As the caller's.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $row<const JOIN: u8, const STRIDE: usize>(
            slide: &Slide<'_>,
            row: usize,
            start: usize,
            masks: &[[$mask; 2]; WINDOW],
            beside: $vector,
        ) -> [$vector; WINDOW] {
            let row = slide.row(row);
            if row.is_null() {
                return [beside; WINDOW];
            }
            let from = row.wrapping_add(start).wrapping_sub(slide.pad[1]);
            // SAFETY: lanes beside the row are masked.
            let taps = unsafe {
                let [[first, behind_first], [second, _], [third, behind_third]] = *masks;
                let x = $load(beside, first, from);
                let z = $load(beside, third, from.wrapping_add(2));
                if STRIDE == 2 {
                    let behind = $load(beside, behind_first, from.wrapping_add($lanes));
                    let behind_z = $load(beside, behind_third, from.wrapping_add(2 + $lanes));
                    [$even(x, behind), $odd(x, behind), $even(z, behind_z)]
                } else {
                    [x, $load(beside, second, from.wrapping_add(1)), z]
                }
            };
            if JOIN == MAX {
                // The second operand stays where the first is NaN or equal.
                let largest = $max(taps[2], $max(taps[1], $max(taps[0], beside)));
                return [largest; WINDOW];
            }
            taps
        }
    };
}

/// # Safety
/// The lanes can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_512(beside: __m512, mask: __mmask16, from: *const f32) -> __m512 {
    // SAFETY: the caller's contract; masked lanes are not read.
    unsafe { _mm512_mask_loadu_ps(beside, mask, from) }
}

/// Every other float of two vectors, in the order that [`in_order_512`] ends.
#[inline]
#[target_feature(enable = "avx512f")]
fn even_512(low: __m512, high: __m512) -> __m512 {
    _mm512_shuffle_ps::<0b10_00_10_00>(low, high)
}

/// Those behind them.
#[inline]
#[target_feature(enable = "avx512f")]
fn odd_512(low: __m512, high: __m512) -> __m512 {
    _mm512_shuffle_ps::<0b11_01_11_01>(low, high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn in_order_512(x: __m512) -> __m512 {
    let pairs = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_castpd_ps(_mm512_permutexvar_pd(pairs, _mm512_castps_pd(x)))
}

/// # Safety
/// The lanes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_256(beside: __m256, mask: __m256i, from: *const f32) -> __m256 {
    // SAFETY: the caller's contract; masked lanes are not read.
    let read = unsafe { _mm256_maskload_ps(from, mask) };
    _mm256_blendv_ps(beside, read, _mm256_castsi256_ps(mask))
}

/// Every other float of two vectors, in the order that [`in_order_256`] ends.
#[inline]
#[target_feature(enable = "avx2")]
fn even_256(low: __m256, high: __m256) -> __m256 {
    _mm256_shuffle_ps::<0b10_00_10_00>(low, high)
}

/// Those behind them.
#[inline]
#[target_feature(enable = "avx2")]
fn odd_256(low: __m256, high: __m256) -> __m256 {
    _mm256_shuffle_ps::<0b11_01_11_01>(low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn in_order_256(x: __m256) -> __m256 {
    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(x)))
}

slide!(
    lines_avx512,
    some_lines_avx512,
    block_avx512,
    row_avx512,
    "avx512f",
    16,
    __m512,
    __mmask16,
    _mm512_set1_ps,
    load_512,
    _mm512_storeu_ps,
    _mm512_mask_storeu_ps,
    between_512,
    _mm512_add_ps,
    _mm512_max_ps,
    even_512,
    odd_512,
    in_order_512
);
slide!(
    lines_avx2,
    some_lines_avx2,
    block_avx2,
    row_avx2,
    "avx2",
    8,
    __m256,
    __m256i,
    _mm256_set1_ps,
    load_256,
    _mm256_storeu_ps,
    _mm256_maskstore_ps,
    between_256,
    _mm256_add_ps,
    _mm256_max_ps,
    even_256,
    odd_256,
    in_order_256
);
