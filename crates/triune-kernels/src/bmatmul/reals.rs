//! The product in f32: the matrix becomes real on the way, a few columns at a time.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::Pool;
use crate::cancel::{self, spans};
use crate::conv::fgemm::{Finish, MAX_COLUMNS, MAX_ROWS, Panels, TILE_STEPS};
use crate::dispatch::multiversion;
use crate::eltwise::apart;
use crate::parallel::{self, GRAIN, Shared};

use super::BlockMatMul;
use super::bytes::REAL_LANES as LANES;

/// Groups whose sums one row has in registers at once.
const TOGETHER: usize = 4;

impl BlockMatMul {
    /// Bytes of scratch of a product in reals.
    pub(super) fn reals_scratch(&self, m: usize, threads: usize) -> Option<usize> {
        if m == 1 { Some(0) } else { self.slot()?.checked_mul(4)?.checked_mul(threads) }
    }

    /// Floats of a panel.
    fn slot(&self) -> Option<usize> {
        self.spec.k.checked_mul(MAX_COLUMNS)
    }

    pub(super) fn multiply_reals(&self, x: &[f32], m: usize, y: &mut [f32], scratch: &mut [u8], pool: &Pool) {
        let y = Shared::new(y);
        if m == 1 {
            self.row(x, &y, pool);
        } else {
            self.rows(x, m, &y, scratch, pool);
        }
    }

    fn row(&self, x: &[f32], y: &Shared<'_, f32>, pool: &Pool) {
        let (n, k) = (self.spec.n, self.spec.k);
        let quads = n.div_ceil(TOGETHER * LANES);
        let grain = GRAIN.div_ceil(k.saturating_mul(TOGETHER * LANES).max(1));
        parallel::ranges(pool, quads, grain, &|range| {
            for quad in range {
                if cancel::requested() {
                    return;
                }
                let first = quad * TOGETHER * LANES;
                // SAFETY: pieces are disjoint, and end with the row.
                let y = unsafe { y.piece(first, (TOGETHER * LANES).min(n - first)) };
                row_of_groups(self.level, self, quad * TOGETHER, &x[..k], y);
            }
        });
    }

    fn rows(&self, x: &[f32], m: usize, y: &Shared<'_, f32>, scratch: &mut [u8], pool: &Pool) {
        let (n, k) = (self.spec.n, self.spec.k);
        let panels = Panels::new(self.level, n);
        // SAFETY: any bytes are floats; the scratch begins at a cache line.
        let (_, slots, _) = unsafe { scratch.align_to_mut::<f32>() };
        let slots = Shared::new(slots);
        pool.run(panels.count(), &|panel, worker| {
            let (width, used) = (panels.width(panel), panels.used(panel));
            let first = panel * panels.columns;
            // SAFETY: each worker has a slot of its own.
            let matrix = unsafe { slots.piece(worker * k * MAX_COLUMNS, width * k) };
            for half in 0..width.div_ceil(LANES) {
                let (group, columns) = (first / LANES + half, width.min(LANES));
                if group * LANES < n {
                    make(self.level, self, group, columns, &mut matrix[half * LANES..], width);
                } else {
                    matrix[half * LANES..].chunks_mut(width).for_each(|row| row[..LANES].fill(0.0));
                }
            }
            let bias = [0.0_f32; MAX_COLUMNS];
            let mut outputs = [std::ptr::null_mut::<f32>(); MAX_ROWS];
            let mut pointers = [std::ptr::null::<f32>(); MAX_ROWS];
            let tiles = m.div_ceil(panels.rows);
            for tile in spans(tiles, k.saturating_mul(TILE_STEPS)).flatten() {
                let rows = tile * m / tiles..(tile + 1) * m / tiles;
                for ((pointer, output), row) in pointers.iter_mut().zip(&mut outputs).zip(rows.clone()) {
                    *pointer = x.as_ptr().wrapping_add(row * k);
                    *output = y.as_ptr().wrapping_add(row * n);
                }
                let finish = Finish {
                    factors: std::ptr::null(),
                    bias: bias.as_ptr(),
                    residual: std::ptr::null(),
                    output: outputs.as_ptr(),
                    ahead: outputs.as_ptr(),
                    next: 0,
                    offset: first,
                    used,
                    limits: [f32::NEG_INFINITY, f32::INFINITY],
                };
                // SAFETY: each row of x holds k floats, the panel k rows of `width`, y as many rows of n; tasks have disjoint columns.
                unsafe { panels.tile(rows.len(), width, pointers.as_ptr(), 1, k, matrix.as_ptr(), &finish) };
            }
        });
    }
}

/// What elements of a step stand for: number `at` of those that lie in a line of words.
#[inline(always)]
fn reals<const BITS: usize>(
    words: &[u32; LANES],
    at: usize,
    factors: &[f32; LANES],
    zeros: &[f32; LANES],
) -> [f32; LANES] {
    let shift = if BITS == 4 { 8 * (at % 4) + 4 * (at / 4) } else { 8 * at };
    let mut made = [0.0; LANES];
    for i in 0..LANES {
        let digit = (u32::from_le(words[i]) >> shift) & ((1 << BITS) - 1);
        made[i] = (digit.cast_signed() as f32 - zeros[i]) * factors[i];
    }
    made
}

/// The lines of words of a block of a group, its factors and its zero points.
#[inline(always)]
fn block_of(matrix: &BlockMatMul, group: usize, block: usize) -> (&[[u32; LANES]], [&[f32; LANES]; 2]) {
    // SAFETY: any bytes are integers, and blocks begin at cache lines.
    let (_, words, _) = unsafe { matrix.stored(group, block).align_to::<u32>() };
    let parameters = matrix.parameters(group, block);
    (words.as_chunks().0, parameters.map(|all| all.first_chunk().expect("as many as a group has columns")))
}

multiversion! {
    /// One row, times some groups from `first` on.
    fn row_of_groups(matrix: &BlockMatMul, first: usize, x: &[f32], y: &mut [f32]) {
        match (y.len() == TOGETHER * LANES, matrix.spec.bits) {
            (true, 4) => sum_groups::<4, TOGETHER>(matrix, first, x, y),
            (true, _) => sum_groups::<8, TOGETHER>(matrix, first, x, y),
            (false, bits) => {
                for (group, y) in (first..).zip(y.chunks_mut(LANES)) {
                    if bits == 4 {
                        sum_groups::<4, 1>(matrix, group, x, y);
                    } else {
                        sum_groups::<8, 1>(matrix, group, x, y);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn sum_groups<const BITS: usize, const GROUPS: usize>(
    matrix: &BlockMatMul,
    first: usize,
    x: &[f32],
    y: &mut [f32],
) {
    let mut sums = [[0.0_f32; LANES]; GROUPS];
    for (block, x) in x.chunks(matrix.spec.block).enumerate() {
        // Copies, so that they stay in registers.
        let mut lines: [&[[u32; LANES]]; GROUPS] = [&[]; GROUPS];
        let (mut factors, mut zeros) = ([[0.0; LANES]; GROUPS], [[0.0; LANES]; GROUPS]);
        for group in 0..GROUPS {
            let (own, parameters) = block_of(matrix, first + group, block);
            lines[group] = own;
            factors[group] = *parameters[0];
            zeros[group] = *parameters[1];
        }
        for (line, x) in x.chunks(32 / BITS).enumerate() {
            let mut words = [[0; LANES]; GROUPS];
            for group in 0..GROUPS {
                words[group] = lines[group][line];
            }
            for (at, x) in x.iter().enumerate() {
                for group in 0..GROUPS {
                    let made = reals::<BITS>(&words[group], at, &factors[group], &zeros[group]);
                    for i in 0..LANES {
                        sums[group][i] = x.mul_add(made[i], sums[group][i]);
                    }
                    apart();
                }
            }
        }
    }
    for (y, sum) in y.iter_mut().zip(sums.as_flattened()) {
        // As it is behind other products: 0 has no sign.
        *y = sum + 0.0;
    }
}

multiversion! {
    /// The first columns of a group as reals, rows `width` apart.
    fn make(matrix: &BlockMatMul, group: usize, columns: usize, to: &mut [f32], width: usize) {
        if matrix.spec.bits == 4 {
            make_group::<4>(matrix, group, columns, to, width);
        } else {
            make_group::<8>(matrix, group, columns, to, width);
        }
    }
}

#[inline(always)]
fn make_group<const BITS: usize>(
    matrix: &BlockMatMul,
    group: usize,
    columns: usize,
    to: &mut [f32],
    width: usize,
) {
    let block_len = matrix.spec.block;
    for (block, rows) in to.chunks_mut(block_len * width).enumerate() {
        let (lines, parameters) = block_of(matrix, group, block);
        // Copies, so that they stay in registers.
        let [factors, zeros] = parameters.map(|own| *own);
        for (words, rows) in lines.iter().zip(rows.chunks_mut(width * (32 / BITS))) {
            let words = *words;
            for (at, row) in rows.chunks_mut(width).enumerate() {
                let made = reals::<BITS>(&words, at, &factors, &zeros);
                if let Some(row) = row.first_chunk_mut::<LANES>() {
                    *row = made;
                } else {
                    row.iter_mut().zip(made).take(columns).for_each(|(to, real)| *to = real);
                }
                apart();
            }
        }
    }
}
