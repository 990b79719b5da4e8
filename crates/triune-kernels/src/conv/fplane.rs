//! The f32 convolution of planes into planes, on AVX2 and AVX-512: a vector has neighbouring results of a line, and some lines use each
//! vector of the input that is read. Masked lanes stand for what lies beside a plane, and are 0 as padding is.
//!
//! The sums are those of `fgemm`, in the same order.

use std::arch::x86_64::{
    __m256, __m256i, __mmask16, _mm256_add_ps, _mm256_fmadd_ps, _mm256_maskload_ps, _mm256_maskstore_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps, _mm512_add_ps,
    _mm512_fmadd_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};
use std::ops::Range;

use triune_tensor::Buffer;

use super::fconv::Views;
use super::fepilogue::Epilogue;
use super::fgemm_simd::{between_256, between_512};
use crate::cancel::spans;
use crate::{ConvGeometry, Isa, Pool, parallel};

/// Lines of results that are made together.
const LINES: usize = 4;
/// Lines that a task makes, for which what is masked is found once.
const TASK: usize = 8 * LINES;
/// Vectors of a line's results that are made together.
const VECTORS: usize = 2;
/// Most columns of a window.
const MOST_COLUMNS: usize = 16;

/// Whether planes that lie so are convolved here.
fn takes(g: &ConvGeometry, epilogue: &Epilogue, views: &Views<'_>) -> bool {
    let maps = [views.in_map, views.out_map];
    epilogue.level.isa() != Isa::Scalar
        && g.stride == [1, 1]
        && g.kernel[0] > 1
        && (2..=MOST_COLUMNS).contains(&g.kernel[1])
        && epilogue.function.is_none()
        && views.residual.is_none()
        && maps.iter().all(|map| (map.c, map.stride_w) == (1, 1))
}

/// One window over some lines of a plane.
struct Band<'a> {
    g: &'a ConvGeometry,
    /// The plane's first element, rows and columns, and the elements from row to row.
    x: *const f32,
    extents: [usize; 2],
    row_step: usize,
    /// The first element of the first line of results, their columns, and the elements from line to line.
    y: *mut f32,
    columns: usize,
    line_step: usize,
    /// The first line, and how many there are.
    first: usize,
    count: usize,
    /// Weights of the taps, so many floats apart.
    weights: &'a [f32],
    weight_step: usize,
    bias: f32,
    limits: [f32; 2],
}

impl Band<'_> {
    /// The elements of a row that a vector reads from `column` on, which counts those to the plane's left: all before the second but
    /// not those before the first.
    #[inline]
    fn inside(&self, column: usize, lanes: usize) -> [usize; 2] {
        let (left, right) = (self.g.pad[1], self.g.pad[1] + self.extents[1]);
        [left.saturating_sub(column).min(lanes), right.saturating_sub(column).min(lanes)]
    }
}

/// Convolves every plane with a window whose weights lie `weight_step` floats apart, if there is a kernel for that; says whether it has.
pub(crate) fn run(
    g: &ConvGeometry,
    weights: &Buffer,
    weight_step: usize,
    epilogue: &Epilogue,
    views: &Views<'_>,
    pool: &Pool,
) -> bool {
    if !takes(g, epilogue, views) {
        return false;
    }
    let level = epilogue.level;
    let (input, output) = (views.in_map, views.out_map);
    let lanes = if level.is_512() { 16 } else { 8 };
    let taps = g.kernel[0] * g.kernel[1];
    // SAFETY: any bytes are floats; a buffer is aligned for them.
    let (_, weights, _) = unsafe { weights.align_to::<f32>() };
    assert!((taps - 1) * weight_step < weights.len(), "a weight for each tap");
    let (groups, blocks) = (output.h.div_ceil(TASK), output.w.div_ceil(VECTORS * lanes));
    let weight = taps.saturating_mul(TASK * VECTORS);
    let grain = parallel::GRAIN.div_ceil(weight.saturating_mul(blocks).max(1));
    parallel::ranges(pool, output.n * groups, grain, &|range| {
        for item in range {
            let (n, first) = (item / groups, item % groups * TASK);
            let band = Band {
                g,
                x: views.input.as_ptr().wrapping_add(n * input.stride_n),
                extents: [input.h, input.w],
                row_step: input.stride_h,
                y: views.output.wrapping_add(output.offset(n, first, 0)),
                columns: output.w,
                line_step: output.stride_h,
                first,
                count: TASK.min(output.h - first),
                weights,
                weight_step,
                bias: epilogue.bias[0],
                limits: epilogue.limits,
            };
            for part in spans(blocks, weight) {
                // SAFETY: rows and columns of the checked maps; tasks have lines of their own; the level vouches for the
                // instruction set.
                unsafe {
                    if level.is_512() {
                        blocks_avx512(&band, part);
                    } else {
                        blocks_avx2(&band, part);
                    }
                }
            }
        }
    });
    true
}

macro_rules! plane {
    ($name:ident, $lines:ident, $block:ident, $features:literal, $lanes:literal, $mask:ty, $zero:path, $splat:path, $load:path, $store:path,
     $masked_store:path, $between:path, $fma:path, $add:path, $min:path, $max:path) => {
        /// Blocks of results of all lines.
        ///
        /// # Safety
        /// The lines' results may be written, and the plane read, on a machine with the features.
        #[target_feature(enable = $features)]
        unsafe fn $name(band: &Band<'_>, blocks: Range<usize>) {
            const WIDE: usize = VECTORS * $lanes;
            for block in blocks {
                // The last ones together with some before them, which are made again.
                let column = (block * WIDE).min(band.columns.saturating_sub(WIDE));
                // SAFETY: passed on.
                unsafe {
                    match band.g.kernel[1] {
                        3 => $lines::<3>(band, column),
                        5 => $lines::<5>(band, column),
                        columns if columns % 2 == 0 => $lines::<2>(band, column),
                        _ => $lines::<1>(band, column),
                    }
                }
            }
        }

        /// Vectors of results of all lines, for which `TAPS` columns of the window at a time are read, which divide all of them.
        ///
        /// # Safety
        /// As the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $lines<const TAPS: usize>(band: &Band<'_>, column: usize) {
            let ([_, columns], [down, across]) = (band.g.kernel, band.g.dilation);
            assert!(columns <= MOST_COLUMNS && columns % TAPS == 0);
            let mut masks = [[$between([0, 0]); VECTORS]; MOST_COLUMNS];
            for (tap, masks) in masks[..columns].iter_mut().enumerate() {
                for (vector, mask) in masks.iter_mut().enumerate() {
                    let from = column + vector * $lanes + tap * across;
                    *mask = $between(band.inside(from, $lanes));
                }
            }
            let mut line = 0;
            // SAFETY: passed on.
            unsafe {
                while down == 1 && line + LINES <= band.count {
                    $block::<LINES, TAPS>(band, line, column, &masks);
                    line += LINES;
                }
                while line < band.count {
                    $block::<1, TAPS>(band, line, column, &masks);
                    line += 1;
                }
            }
        }

        /// The same of `COUNT` lines from `line` on.
        ///
        /// # Safety
        /// As the caller's.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $block<const COUNT: usize, const TAPS: usize>(
            band: &Band<'_>,
            line: usize,
            column: usize,
            masks: &[[$mask; VECTORS]; MOST_COLUMNS],
        ) {
            let ([rows, columns], [down, across]) = (band.g.kernel, band.g.dilation);
            // As a constant, where it is one.
            let columns = if TAPS > 2 { TAPS } else { columns };
            let first = band.first + line;
            let mut sums = [[$zero(); VECTORS]; COUNT];
            // What is the tap of one row of the window for a line is that of the row above for the next.
            for step in 0..rows + COUNT - 1 {
                let row = (first + step * down).wrapping_sub(band.g.pad[0]);
                let inside = row < band.extents[0];
                let row = if inside { row } else { 0 };
                let from = band.x.wrapping_add(row * band.row_step + column).wrapping_sub(band.g.pad[1]);
                for part in (0..columns / TAPS).map(|part| part * TAPS) {
                    let mut taps = [[$zero(); VECTORS]; TAPS];
                    // Rows above and below the plane are zeros.
                    if inside {
                        for (tap, xs) in taps.iter_mut().enumerate() {
                            for (vector, x) in xs.iter_mut().enumerate() {
                                let from = from.wrapping_add((part + tap) * across + vector * $lanes);
                                // SAFETY: lanes beside the plane are masked.
                                *x = unsafe { $load(masks[part + tap][vector], from) };
                            }
                        }
                    }
                    for (line, sums) in sums.iter_mut().enumerate() {
                        let row = step.wrapping_sub(line);
                        if row >= rows {
                            continue;
                        }
                        for (tap, xs) in taps.iter().enumerate() {
                            let at = (row * columns + part + tap) * band.weight_step;
                            // SAFETY: there is a weight for each tap.
                            let weight = $splat(unsafe { *band.weights.get_unchecked(at) });
                            for (sum, x) in sums.iter_mut().zip(xs) {
                                *sum = $fma(*x, weight, *sum);
                            }
                        }
                    }
                }
            }
            let (bias, low, high) = ($splat(band.bias), $splat(band.limits[0]), $splat(band.limits[1]));
            for (index, sums) in sums.into_iter().enumerate() {
                let to = band.y.wrapping_add((line + index) * band.line_step + column);
                for (vector, sum) in sums.into_iter().enumerate() {
                    // The order of operands lets NaN pass the limits.
                    let y = $min(high, $max(low, $add(sum, bias)));
                    let to = to.wrapping_add(vector * $lanes);
                    let left = band.columns.saturating_sub(column + vector * $lanes);
                    // SAFETY: results of the line; masked lanes are not touched.
                    unsafe {
                        if left >= $lanes {
                            $store(to, y);
                        } else {
                            $masked_store(to, $between([0, left]), y);
                        }
                    }
                }
            }
        }
    };
}

/// # Safety
/// The lanes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_256(mask: __m256i, from: *const f32) -> __m256 {
    // SAFETY: the caller's contract; masked lanes are not read.
    unsafe { _mm256_maskload_ps(from, mask) }
}

plane!(
    blocks_avx512,
    lines_avx512,
    block_avx512,
    "avx512f",
    16,
    __mmask16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_maskz_loadu_ps,
    _mm512_storeu_ps,
    _mm512_mask_storeu_ps,
    between_512,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_min_ps,
    _mm512_max_ps
);
plane!(
    blocks_avx2,
    lines_avx2,
    block_avx2,
    "avx2,fma",
    8,
    __m256i,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    load_256,
    _mm256_storeu_ps,
    _mm256_maskstore_ps,
    between_256,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_min_ps,
    _mm256_max_ps
);
