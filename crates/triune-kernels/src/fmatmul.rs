//! Matrix products of f32 operands that are both known at run time only. Constant weights belong in `FConv`.

use crate::cancel::{self, spans};
use crate::conv::fgemm::{Finish, Line, MAX_COLUMNS, MAX_ROWS, Panels, TILE_STEPS};
use crate::copy::{Lines, TILE, turn_columns, turn_tile};
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool};

/// C = A·B per batch, all row-major; either operand may lie transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulSpec {
    /// Matrices.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Whether A lies as k×m instead of m×k.
    pub trans_a: bool,
    /// Whether B lies as n×k instead of k×n.
    pub trans_b: bool,
    /// Elements from one row of A, as it lies, to the next.
    pub stride_a: usize,
    /// Elements from one row of B, as it lies, to the next.
    pub stride_b: usize,
    /// Elements from one row of C to the next.
    pub stride_c: usize,
    /// Elements from one matrix of A to the next; 0 uses the same in every batch.
    pub batch_a: usize,
    /// Elements from one matrix of B to the next; 0 uses the same in every batch.
    pub batch_b: usize,
    /// Elements from one matrix of C to the next.
    pub batch_c: usize,
}

impl MatMulSpec {
    /// Operands without gaps.
    pub const fn dense(batch: usize, m: usize, n: usize, k: usize, trans_a: bool, trans_b: bool) -> Self {
        Self {
            batch,
            m,
            n,
            k,
            trans_a,
            trans_b,
            stride_a: if trans_a { m } else { k },
            stride_b: if trans_b { k } else { n },
            stride_c: n,
            batch_a: m.saturating_mul(k),
            batch_b: k.saturating_mul(n),
            batch_c: m.saturating_mul(n),
        }
    }
}

/// A product ready to run.
#[derive(Debug)]
pub struct FMatMul {
    spec: MatMulSpec,
    level: Level,
    panels: Panels,
    packed: usize,
}

/// Rows of A that a task holds pointers to at once.
const BLOCK_ROWS: usize = 8 * MAX_ROWS;

/// Columns of a task of a product with one row.
const ROW_PIECE: usize = 512;

/// Rows of A up to which B is read for each of them, sums of at most [`SHORT`] elements: a piece of it stays in the cache.
const FEW_ROWS: usize = 8;

/// Longest sums of few rows.
const SHORT: usize = 64;

/// Columns whose sums are in registers at once, of a product with one row.
const ROW_BLOCK: usize = 64;

/// Lines of B that are gone along at once: as many sums do not wait for each other.
const LINES: usize = TILE;

impl FMatMul {
    /// Checks the description.
    ///
    /// Errors: strides below the extents they step over, products that overflow.
    pub fn new(spec: &MatMulSpec, isa: Isa) -> Result<Self, Error> {
        let level = Level::new(isa);
        let panels = Panels::new(level, spec.n);
        let s = spec;
        let (a_rows, a_columns) = if s.trans_a { (s.k, s.m) } else { (s.m, s.k) };
        let (b_rows, b_columns) = if s.trans_b { (s.n, s.k) } else { (s.k, s.n) };
        for (rows, columns, stride) in
            [(a_rows, a_columns, s.stride_a), (b_rows, b_columns, s.stride_b), (s.m, s.n, s.stride_c)]
        {
            if rows > 1 && stride < columns {
                return Err(Error::Invalid("rows of a matrix overlap"));
            }
        }
        if s.batch > 1 && s.batch_c < span(1, 0, s.m, s.n, s.stride_c) {
            return Err(Error::Invalid("matrices of the output overlap"));
        }
        let packed = panels.packed_len(s.k).and_then(|len| len.checked_add(s.m.checked_mul(s.k)?));
        let packed = packed.filter(|&len| len < usize::MAX / 8);
        let packed = packed.ok_or(Error::Invalid("extents overflow"))?;
        Ok(Self { spec: *spec, level, panels, packed })
    }

    /// Bytes of scratch that [`FMatMul::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let _ = threads;
        // A line is lost at either end to alignment.
        self.packed * 4 + 2 * size_of::<Line>()
    }

    /// Computes `c` from `a` and `b`; `bias`, one per column or 0, is added to each sum.
    ///
    /// An element is Σ a·b by fused multiply-adds from 0 in k order. Errors: slices shorter than the strides reach.
    pub fn run(
        &self,
        a: &[f32],
        b: &[f32],
        bias: Option<&[f32]>,
        c: &mut [f32],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        self.run_some(self.spec.batch, a, b, bias, c, scratch, pool)
    }

    /// As [`FMatMul::run`], of the first `batch` matrices alone, however many there are in all.
    pub fn run_some(
        &self,
        batch: usize,
        a: &[f32],
        b: &[f32],
        bias: Option<&[f32]>,
        c: &mut [f32],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let s = &MatMulSpec { batch, ..self.spec };
        let (a_rows, a_columns) = if s.trans_a { (s.k, s.m) } else { (s.m, s.k) };
        let (b_rows, b_columns) = if s.trans_b { (s.n, s.k) } else { (s.k, s.n) };
        Error::check_len("a", a.len(), span(s.batch, s.batch_a, a_rows, a_columns, s.stride_a))?;
        Error::check_len("b", b.len(), span(s.batch, s.batch_b, b_rows, b_columns, s.stride_b))?;
        Error::check_len("c", c.len(), span(s.batch, s.batch_c, s.m, s.n, s.stride_c))?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(pool.threads()))?;
        if let Some(bias) = bias {
            Error::check_eq("bias", s.n, bias.len())?;
        }
        if s.batch == 0 || s.m == 0 || s.n == 0 {
            return Ok(());
        }
        if s.m == 1 || s.m <= FEW_ROWS && s.k <= SHORT && !s.trans_b {
            self.run_rows(batch, a, b, bias, c, pool);
            return Ok(());
        }
        // SAFETY: any bytes are floats.
        let (_, lines, _) = unsafe { scratch.align_to_mut::<Line>() };
        let floats = Line::floats_mut(lines);
        Error::check_len("aligned scratch", floats.len(), self.packed)?;
        let (packed_b, packed_a) = floats.split_at_mut(self.packed - s.m * s.k);
        let c = Shared::new(c);
        for batch in 0..s.batch {
            if batch > 0 && cancel::requested() {
                break;
            }
            if batch == 0 || s.batch_b > 0 {
                self.pack_b(b.get(batch * s.batch_b..).unwrap_or_default(), packed_b, pool);
            }
            let a = a.get(batch * s.batch_a..).unwrap_or_default();
            let (rows, row_step): (&[f32], usize) = if s.trans_a {
                if batch == 0 || s.batch_a > 0 {
                    for row in spans(s.m, s.k).flatten() {
                        for k in 0..s.k {
                            packed_a[row * s.k + k] = a[k * s.stride_a + row];
                        }
                    }
                }
                (packed_a, s.k)
            } else {
                (a, s.stride_a)
            };
            self.multiply(rows, row_step, packed_b, bias, &c, batch * s.batch_c, pool);
        }
        Ok(())
    }

    /// One row of A for each B, or few: packing would take as long as the product.
    fn run_rows(&self, batch: usize, a: &[f32], b: &[f32], bias: Option<&[f32]>, c: &mut [f32], pool: &Pool) {
        let s = &MatMulSpec { batch, ..self.spec };
        let pieces = s.n.div_ceil(ROW_PIECE);
        let c = Shared::new(c);
        let grain = GRAIN.div_ceil(s.k.saturating_mul(s.n.min(ROW_PIECE)).max(1));
        parallel::ranges(pool, s.batch * pieces, grain, &|range| {
            for task in range {
                if cancel::requested() {
                    return;
                }
                let (batch, first) = (task / pieces, task % pieces * ROW_PIECE);
                let len = ROW_PIECE.min(s.n - first);
                let a = a.get(batch * s.batch_a..).unwrap_or_default();
                let b = b.get(batch * s.batch_b..).unwrap_or_default();
                let (step, row_step) = if s.trans_a { (s.stride_a, 1) } else { (1, s.stride_a) };
                for row in 0..s.m {
                    let a = a.get(row * row_step..).unwrap_or_default();
                    // SAFETY: inside of C's span, which was checked; pieces are disjoint, as C's matrices and their rows are.
                    let y = unsafe { c.piece(batch * s.batch_c + row * s.stride_c + first, len) };
                    if s.k == 0 {
                        y.fill(0.0);
                    } else if s.trans_b {
                        let b = b.get(first * s.stride_b..).unwrap_or_default();
                        row_by_lines(self.level, self.level, s.k, a, step, b, s.stride_b, y);
                    } else {
                        let b = b.get(first..).unwrap_or_default();
                        row_by_rows(self.level, s.k, a, step, b, s.stride_b, y);
                    }
                    match bias {
                        Some(bias) => y.iter_mut().zip(&bias[first..]).for_each(|(y, bias)| *y += bias),
                        // As it is behind other products: 0 has no sign.
                        None => y.iter_mut().for_each(|y| *y += 0.0),
                    }
                }
            }
        });
    }

    fn pack_b(&self, b: &[f32], packed: &mut [f32], pool: &Pool) {
        let s = &self.spec;
        let shared = Shared::new(packed);
        pool.run(self.panels.count(), &|panel, _| {
            let len = self.panels.width(panel) * s.k;
            // SAFETY: panels are disjoint pieces of the packed matrix.
            let packed = unsafe { shared.piece(self.panels.start(panel, s.k), len) };
            pack_columns(self.level, &self.panels, panel, s.k, b, s.stride_b, s.trans_b, packed);
        });
    }

    fn multiply(
        &self,
        a: &[f32],
        row_step: usize,
        packed: &[f32],
        bias: Option<&[f32]>,
        c: &Shared<'_, f32>,
        c_start: usize,
        pool: &Pool,
    ) {
        let s = &self.spec;
        let panels = &self.panels;
        let tiles = s.m.div_ceil(panels.rows);
        let per_block = BLOCK_ROWS / panels.rows;
        let blocks = tiles.div_ceil(per_block);
        let splits = (4 * pool.threads()).div_ceil(blocks).min(panels.count());
        let splits = if pool.threads() == 1 { 1 } else { splits };
        pool.run(blocks * splits, &|task, _| {
            let (block, split) = (task / splits, task % splits);
            let block_tiles = block * tiles / blocks..(block + 1) * tiles / blocks;
            let first_of = |tile: usize| tile * s.m / tiles;
            let first_row = first_of(block_tiles.start);
            let mut outputs = [std::ptr::null_mut::<f32>(); BLOCK_ROWS];
            let mut pointers = [std::ptr::null::<f32>(); BLOCK_ROWS];
            let rows = first_row..first_of(block_tiles.end);
            for ((pointer, output), row) in pointers.iter_mut().zip(&mut outputs).zip(rows) {
                *pointer = a.as_ptr().wrapping_add(row * row_step);
                *output = c.as_ptr().wrapping_add(c_start + row * s.stride_c);
            }
            let first_panel = split * panels.count() / splits;
            let weight = s.k.saturating_mul(block_tiles.len()).saturating_mul(TILE_STEPS);
            for panel in spans((split + 1) * panels.count() / splits - first_panel, weight).flatten() {
                let panel = first_panel + panel;
                let (width, used) = (panels.width(panel), panels.used(panel));
                let b = packed[panels.start(panel, s.k)..].as_ptr();
                let first_column = panel * panels.columns;
                let mut bias_row = [0.0f32; MAX_COLUMNS];
                if let Some(bias) = bias {
                    bias_row[..used].copy_from_slice(&bias[first_column..][..used]);
                }
                for tile in spans(block_tiles.len(), s.k.saturating_mul(TILE_STEPS)).flatten() {
                    let tile = block_tiles.start + tile;
                    let rows = first_of(tile) - first_row..first_of(tile + 1) - first_row;
                    let (pointers, outputs) =
                        (pointers[rows.clone()].as_ptr(), outputs[rows.clone()].as_ptr());
                    let finish = Finish {
                        factors: std::ptr::null(),
                        bias: bias_row.as_ptr(),
                        residual: std::ptr::null(),
                        output: outputs,
                        ahead: outputs,
                        next: 0,
                        offset: first_column,
                        used,
                        limits: [f32::NEG_INFINITY, f32::INFINITY],
                    };
                    // SAFETY: each row of A holds k floats, the panel k rows of `width`, C's span was checked; tasks
                    // have disjoint rows or columns of C.
                    unsafe { panels.tile(rows.len(), width, pointers, 1, s.k, b, &finish) };
                }
            }
        });
    }
}

/// Packs the columns of one panel of a matrix with `depth` rows; `stride` leads from row to row, or of a transposed one from column to
/// column.
pub(crate) fn pack_columns(
    level: Level,
    panels: &Panels,
    panel: usize,
    depth: usize,
    b: &[f32],
    stride: usize,
    transposed: bool,
    packed: &mut [f32],
) {
    let (width, used) = (panels.width(panel), panels.used(panel));
    let first = panel * panels.columns;
    if used < width {
        packed.fill(0.0);
    }
    if transposed {
        let b = &b[first * stride..];
        for columns in spans(used.div_ceil(TILE), TILE * depth).flatten().map(|tile| tile * TILE) {
            let count = TILE.min(used - columns);
            let lines = &b[columns * stride..];
            let whole = if count == TILE { depth / TILE * TILE } else { 0 };
            for row in (0..whole).step_by(TILE) {
                turn_tile(level, &lines[row..], stride, &mut packed[row * width + columns..], width);
            }
            for column in 0..count {
                let line = &lines[column * stride..];
                for (row, value) in packed.chunks_exact_mut(width).zip(&line[..depth]).skip(whole) {
                    row[columns + column] = *value;
                }
            }
        }
    } else {
        pack_rows(level, &b[first..], stride, used, packed, width);
    }
}

multiversion! {
    /// Packs rows as they lie.
    fn pack_rows(b: &[f32], stride: usize, used: usize, packed: &mut [f32], width: usize) {
        match (used, width) {
            (32, 32) => pack_whole::<32>(b, stride, packed),
            (16, 16) => pack_whole::<16>(b, stride, packed),
            (8, 8) => pack_whole::<8>(b, stride, packed),
            _ => {
                for (row, packed) in packed.chunks_exact_mut(width).enumerate() {
                    packed[..used].copy_from_slice(&b[row * stride..][..used]);
                }
            }
        }
    }
}

/// As [`pack_rows`], of panels without gaps: where its size is known a copy is no call.
#[inline(always)]
#[expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]
fn pack_whole<const WIDTH: usize>(b: &[f32], stride: usize, packed: &mut [f32]) {
    for (row, packed) in packed.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        if let Some(row) = b[row * stride..].first_chunk::<WIDTH>() {
            *packed = *row;
        }
    }
}

multiversion! {
    /// y = a·B, the rows of B `stride` apart.
    fn row_by_rows(k: usize, a: &[f32], step: usize, b: &[f32], stride: usize, y: &mut [f32]) {
        for (block, y) in y.chunks_mut(ROW_BLOCK).enumerate() {
            let first = block * ROW_BLOCK;
            let mut sums = [0.0_f32; ROW_BLOCK];
            for row in 0..k {
                let (x, b) = (a[row * step], &b[row * stride + first..][..y.len()]);
                if let Ok(b) = <&[f32; ROW_BLOCK]>::try_from(b) {
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = x.mul_add(*b, *sum);
                    }
                } else {
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = x.mul_add(*b, *sum);
                    }
                }
            }
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}

multiversion! {
    /// y = a·Bᵀ, the rows of B `stride` apart.
    fn row_by_lines(machine: Level, k: usize, a: &[f32], step: usize, b: &[f32], stride: usize, y: &mut [f32]) {
        for (block, y) in y.chunks_mut(LINES).enumerate() {
            let mut sums = [0.0_f32; LINES];
            // Of what is left over the last one is computed again.
            let line = |line: usize| &b[(block * LINES + line.min(y.len() - 1)) * stride..][..k];
            let lines: [&[f32]; LINES] = std::array::from_fn(line);
            let whole = if y.len() == LINES { k / TILE * TILE } else { 0 };
            let mut columns = Lines([[0.0_f32; LINES]; TILE]);
            for first in (0..whole).step_by(TILE) {
                turn_columns(machine, &b[block * LINES * stride + first..], stride, TILE, &mut columns);
                for (at, column) in columns.0.iter().enumerate() {
                    let x = a[(first + at) * step];
                    for (sum, b) in sums.iter_mut().zip(column) {
                        *sum = x.mul_add(*b, *sum);
                    }
                }
            }
            for at in whole..k {
                let x = a[at * step];
                for (sum, line) in sums.iter_mut().zip(&lines) {
                    *sum = x.mul_add(line[at], *sum);
                }
            }
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}

/// Elements from the first to one past the last of a batch of matrices; saturates.
fn span(batch: usize, batch_step: usize, rows: usize, columns: usize, row_step: usize) -> usize {
    if batch == 0 || rows == 0 || columns == 0 {
        return 0;
    }
    (batch - 1)
        .saturating_mul(batch_step)
        .saturating_add((rows - 1).saturating_mul(row_step))
        .saturating_add(columns)
}
