//! The f32 tile: rows of A against a packed panel of B, each output one chain of fused multiply-adds in k order.
//! Knows neither windows nor maps: a row of A is a list of runs.
//!
//! ```text
//! for run in runs: for i in run: for row, column of the tile: acc[row][column] = fma(a[run][row][i], b[k++][column], acc)
//! ```
//!
//! The order within one output never depends on the tile's size, so every instruction set gives the same bits.

use crate::dispatch::Level;
use crate::{Isa, math};

/// Most rows of any tile.
pub(crate) const MAX_ROWS: usize = 14;
/// Most columns of any tile.
pub(crate) const MAX_COLUMNS: usize = 32;

/// Steps that one row of a panel costs a tile, see [`crate::cancel::spans`].
pub(crate) const TILE_STEPS: usize = 8;

/// What happens to a tile's sums: y = min(max(sum + bias (+ residual), low), high), then the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish {
    /// One per column of the panel; readable for the panel's whole width.
    pub(crate) bias: *const f32,
    /// Per row, what its sums are multiplied by; null without factors.
    pub(crate) factors: *const f32,
    /// Per row, where the residual of column 0 lies `offset` floats on; null without a residual.
    pub(crate) residual: *const *const f32,
    /// Per row, where the result of column 0 goes `offset` floats on.
    pub(crate) output: *const *mut f32,
    /// The same for what is written once the function behind the sums is applied.
    pub(crate) ahead: *const *mut f32,
    /// Floats from a row of A to the one that the next tile has at its place; 0 where that is not known.
    pub(crate) next: usize,
    /// Added to every row's pointers: the panel's first channel.
    pub(crate) offset: usize,
    /// Columns of the panel that exist; nothing beyond them is touched.
    pub(crate) used: usize,
    /// Low and high.
    pub(crate) limits: [f32; 2],
}

/// Room for the results of one tile, for steps that follow the store.
#[repr(align(64))]
pub(crate) struct Staged(pub(crate) [f32; MAX_ROWS * MAX_COLUMNS]);

/// A cache line of floats; packed operands are made of these so that vector loads never straddle two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Line(#[expect(dead_code, reason = "read through pointers")] [f32; 16]);

impl Line {
    /// The floats of the lines.
    pub(crate) fn floats_mut(lines: &mut [Self]) -> &mut [f32] {
        // SAFETY: a line is sixteen floats without padding.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 16) }
    }
}

/// How a matrix of `n` columns is cut into panels for one instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panels {
    level: Level,
    /// Rows of a full tile.
    pub(crate) rows: usize,
    /// Columns of a full panel.
    pub(crate) columns: usize,
    /// Columns of the matrix.
    pub(crate) n: usize,
}

impl Panels {
    pub(crate) fn new(level: Level, n: usize) -> Self {
        let (rows, columns) = match level.isa() {
            Isa::Scalar => (4, 16),
            Isa::Avx2 | Isa::Neon | Isa::NeonDot => (6, 16),
            Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => (14, 32),
        };
        Self { level, rows, columns, n }
    }

    /// Panels of the matrix.
    pub(crate) fn count(&self) -> usize {
        self.n.div_ceil(self.columns)
    }

    /// Columns that panel `index` has room for: the last one is half as wide where that is enough.
    pub(crate) fn width(&self, index: usize) -> usize {
        let left = self.n - index * self.columns;
        if left <= self.columns / 2 { self.columns / 2 } else { self.columns }
    }

    /// Columns of the matrix in panel `index`.
    pub(crate) fn used(&self, index: usize) -> usize {
        (self.n - index * self.columns).min(self.columns)
    }

    /// Floats of the packed matrix with `k` rows; `None` when that overflows.
    pub(crate) fn packed_len(&self, k: usize) -> Option<usize> {
        self.count().checked_mul(self.columns)?.checked_mul(k)
    }

    /// Where panel `index` starts in the packed matrix with `k` rows.
    pub(crate) fn start(&self, index: usize, k: usize) -> usize {
        index * self.columns * k
    }

    /// Computes a tile of `rows` rows against one panel.
    ///
    /// # Safety
    /// `a` holds `runs`·`rows` pointers, run by run, each to `run_len` floats; `b` holds `runs`·`run_len` rows of
    /// `width` floats; `rows` ≤ `self.rows`; `width` is one that [`Panels::width`] gives; `finish` describes `rows` rows
    /// that may be read and written as it says.
    pub(crate) unsafe fn tile(
        &self,
        rows: usize,
        width: usize,
        a: *const *const f32,
        runs: usize,
        run_len: usize,
        b: *const f32,
        finish: &Finish,
    ) {
        debug_assert!(rows <= self.rows && (width == self.columns || width * 2 == self.columns));
        debug_assert!(finish.used <= width);
        // SAFETY: as promised by the caller; the level vouches for the instruction set.
        unsafe {
            match self.level.isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => {
                    super::fgemm_simd::tile_avx512(rows, width / 16, a, runs, run_len, b, finish);
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => super::fgemm_simd::tile_avx2(rows, width / 8, a, runs, run_len, b, finish),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon | Isa::NeonDot => {
                    super::fgemm_simd::tile_neon(rows, width / 4, a, runs, run_len, b, finish);
                }
                _ if width == 16 => tile_scalar::<16>(rows, a, runs, run_len, b, finish),
                _ => tile_scalar::<8>(rows, a, runs, run_len, b, finish),
            }
        }
    }
}

impl Panels {
    /// Distances of rows that [`Panels::side_by_side`] takes. Those of more would have an address of their own each, of which there is
    /// none left in registers.
    pub(crate) const SIDES: [usize; 2] = [1, 2];

    /// As [`Panels::tile`], of rows that lie side by side: there is a pointer for each of their `k` elements, `offset` floats behind
    /// which it lies for the first row, and `apart` floats on for the next.
    ///
    /// # Safety
    /// As [`Panels::tile`], for such pointers; `apart` is one of [`Self::SIDES`].
    pub(crate) unsafe fn side_by_side(
        &self,
        [rows, apart]: [usize; 2],
        width: usize,
        a: *const *const f32,
        offset: usize,
        k: usize,
        b: *const f32,
        finish: &Finish,
    ) {
        debug_assert!(rows <= self.rows && (width == self.columns || width * 2 == self.columns));
        debug_assert!(finish.used <= width);
        // SAFETY: as promised by the caller; the level vouches for the instruction set.
        unsafe {
            match self.level.isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => {
                    super::fgemm_simd::side_avx512([rows, apart], width / 16, a, offset, k, b, finish);
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => {
                    super::fgemm_simd::side_avx2([rows, apart], width / 8, a, offset, k, b, finish);
                }
                #[cfg(target_arch = "aarch64")]
                Isa::Neon | Isa::NeonDot => {
                    super::fgemm_simd::side_neon([rows, apart], width / 4, a, offset, k, b, finish);
                }
                _ => {
                    let element = |row: usize, at: usize| *(*a.add(at)).wrapping_add(offset + row * apart);
                    if width == 16 {
                        scalar::<16>(rows, k, &element, b, finish);
                    } else {
                        scalar::<8>(rows, k, &element, b, finish);
                    }
                }
            }
        }
    }

    /// Most panels that [`Panels::tiles`] takes at once.
    pub(crate) const TOGETHER: usize = 4;

    /// Panels that [`Panels::tiles`] takes at once for so many rows. A row alone waits for its weights and not for its sums:
    /// it takes fewer, which are then small enough to be in the nearest cache still when it turns around.
    pub(crate) const fn together(&self, rows: usize) -> usize {
        if rows == 1 && self.columns == 32 { 2 } else { Self::TOGETHER }
    }

    /// As [`Panels::tile`] over one run, against several panels of the same width. A tile of few rows is then still wide
    /// enough to keep the multipliers busy while each waits for its last sum.
    ///
    /// # Safety
    /// As [`Panels::tile`], for each panel of `b` with the `finish` at its place; there are at most [`Self::TOGETHER`], and
    /// as many of either.
    pub(crate) unsafe fn tiles(
        &self,
        rows: usize,
        width: usize,
        a: *const *const f32,
        run_len: usize,
        b: &[*const f32],
        finish: &[Finish],
    ) {
        debug_assert!(b.len() == finish.len() && b.len() <= Self::TOGETHER);
        if b.len() > 1 {
            // SAFETY: as promised by the caller; the level vouches for the instruction set.
            let done = unsafe {
                match self.level.isa() {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => {
                        super::fgemm_simd::tiles_avx512(rows, width / 16, a, run_len, b, finish)
                    }
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => super::fgemm_simd::tiles_avx2(rows, width / 8, a, run_len, b, finish),
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon | Isa::NeonDot => {
                        super::fgemm_simd::tiles_neon(rows, width / 4, a, run_len, b, finish)
                    }
                    _ => false,
                }
            };
            if done {
                return;
            }
        }
        for (b, finish) in b.iter().zip(finish) {
            // SAFETY: as promised by the caller.
            unsafe { self.tile(rows, width, a, 1, run_len, *b, finish) };
        }
    }
}

/// Packs one panel.
pub(crate) fn pack_panel(
    panels: &Panels,
    panel: usize,
    k: usize,
    packed: &mut [f32],
    value: &impl Fn(usize, usize) -> f32,
) {
    let (width, used, first) = (panels.width(panel), panels.used(panel), panel * panels.columns);
    for (row, packed) in packed.chunks_exact_mut(width).take(k).enumerate() {
        for (column, packed) in packed.iter_mut().enumerate() {
            *packed = if column < used { value(row, first + column) } else { 0.0 };
        }
    }
}

/// # Safety
/// As [`Panels::tile`].
unsafe fn tile_scalar<const N: usize>(
    rows: usize,
    a: *const *const f32,
    runs: usize,
    run_len: usize,
    b: *const f32,
    finish: &Finish,
) {
    // SAFETY: `run_len` floats behind each pointer of A, as the caller promised.
    let element = |row: usize, at: usize| unsafe { *(*a.add(at / run_len * rows + row)).add(at % run_len) };
    // SAFETY: passed on.
    unsafe { scalar::<N>(rows, runs * run_len, &element, b, finish) };
}

/// Rows of `k` elements each.
///
/// # Safety
/// As [`Panels::tile`], for whatever has the elements of A.
unsafe fn scalar<const N: usize>(
    rows: usize,
    k: usize,
    element: &impl Fn(usize, usize) -> f32,
    b: *const f32,
    finish: &Finish,
) {
    let [low, high] = finish.limits;
    for row in 0..rows {
        let mut sums = [0.0f32; N];
        for at in 0..k {
            let x = element(row, at);
            for (column, sum) in sums.iter_mut().enumerate() {
                // SAFETY: rows of `N` floats in B, as the caller promised.
                *sum = x.mul_add(unsafe { *b.add(at * N + column) }, *sum);
            }
        }
        for (column, sum) in sums.into_iter().enumerate().take(finish.used) {
            // SAFETY: the row's pointers and the used columns, as the caller promised.
            unsafe {
                let sum = if finish.factors.is_null() { sum } else { sum * *finish.factors.add(row) };
                let mut y = sum + *finish.bias.add(column);
                if !finish.residual.is_null() {
                    y += *(*finish.residual.add(row)).add(finish.offset + column);
                }
                let output = (*finish.output.add(row)).add(finish.offset + column);
                *output = math::min(math::max(y, low), high);
            }
        }
    }
}
