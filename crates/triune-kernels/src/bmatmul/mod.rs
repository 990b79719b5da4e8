//! Products with a matrix of small integers in blocks, each of which has a factor and a zero point of its own: how language models
//! store their weights.
//!
//! The matrix stays packed, 4 bits an element or 8, in the order in which kernels take it: panels of columns, block by block. `reals`
//! multiplies with what the integers stand for; `bytes` makes integers of the rows, too, a factor for each block.

mod bytes;
mod reals;

use crate::conv::Lines;
use crate::dispatch::Level;
use crate::{Error, Isa, Pool};

#[cfg(target_arch = "x86_64")]
pub(crate) use bytes::BlockRows;
use bytes::Form;

/// What a product is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockArithmetic {
    /// y = Σ x·w by fused multiply-adds from 0 in k order, w = (q − zero point)·factor rounded: as a product with a matrix of f32.
    Reals,
    /// The elements of a block of a row become integers of −127 to 127 and a factor, of which the largest is 127. Of each block
    /// the products of integers are summed exactly, and y = Σ (Σ a·q − zero point·Σ a)·(factor of a · factor) by fused multiply-adds, block
    /// by block.
    Bytes,
}

/// A matrix of n columns and k rows, whose columns are cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSpec {
    /// Columns of the matrix and of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Bits of an element, 4 or 8.
    pub bits: usize,
    /// Elements of a block: a power of two from 16 on.
    pub block: usize,
    /// What it is computed in.
    pub arithmetic: BlockArithmetic,
}

/// Longest block of integers whose sums of products have room in 32 bits.
const LONGEST: usize = 1 << 15;

/// Bytes of a block's factor and zero point.
const PARAMETERS: usize = 2 * size_of::<f32>();

/// Columns that lie together at most.
const MOST_COLUMNS: usize = 64;

/// Elements that are stored together: of 4 bits the low halves of as many bytes, then the high ones.
const HALF: usize = 64;

impl BlockSpec {
    /// Blocks of a column.
    pub const fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// Bytes of a block as it is given: its elements, from the low bits of a byte to its high ones, its factor and its zero point, little-endian
    /// f32.
    pub const fn block_bytes(&self) -> usize {
        self.block / 8 * self.bits + PARAMETERS
    }

    /// Bytes of the matrix as it is given, column by column; `None` when they overflow or the description is none.
    pub fn bytes(&self) -> Option<usize> {
        let is_block = self.block >= 16 && self.block.is_power_of_two();
        let fits = self.block <= LONGEST || self.arithmetic == BlockArithmetic::Reals;
        if !is_block || !fits || !matches!(self.bits, 4 | 8) {
            return None;
        }
        self.n.checked_mul(self.blocks())?.checked_mul(self.block_bytes())
    }

    /// Bytes that the packed matrix takes at most: columns are filled up to as many as lie together.
    pub fn packed_bytes(&self) -> Option<usize> {
        let columns = self.n.checked_next_multiple_of(MOST_COLUMNS)?;
        columns.checked_mul(self.blocks())?.checked_mul(self.block_bytes())
    }
}

/// A matrix packed for one instruction set, ready to be multiplied with.
#[derive(Debug)]
pub struct BlockMatMul {
    spec: BlockSpec,
    level: Level,
    /// How bytes are multiplied; reals lie as if vectors had 16 lanes.
    form: Form,
    /// Columns that lie together.
    columns: usize,
    /// Group of columns, block, panel, step over 4 elements (2 where the dot product takes 16 bits), column, element of the step.
    digits: Lines,
    /// Group of columns, block, column.
    factors: Vec<f32>,
    /// The same, or those of the columns of a group if all blocks have one zero point.
    zeros: Vec<f32>,
}

impl BlockMatMul {
    /// Packs a matrix given as [`BlockSpec::block_bytes`] says.
    ///
    /// Errors: another description than there is, fewer bytes than it calls for, extents that overflow.
    pub fn new(spec: &BlockSpec, matrix: &[u8], isa: Isa) -> Result<Self, Error> {
        let need =
            spec.bytes().ok_or(Error::Invalid("no blocks of 4 or 8 bits, or extents that overflow"))?;
        Error::check_len("matrix", matrix.len(), need)?;
        let level = Level::new(isa);
        let form = match spec.arithmetic {
            BlockArithmetic::Reals => Form::of_reals(),
            BlockArithmetic::Bytes => Form::new(level),
        };
        let columns = form.columns();
        let (blocks, groups) = (spec.blocks(), spec.n.div_ceil(columns));
        let in_block = columns.checked_mul(spec.block).ok_or(Error::Invalid("extents overflow"))?;
        let elements = groups.checked_mul(blocks).and_then(|all| all.checked_mul(in_block));
        let elements = elements.filter(|&all| all < usize::MAX / 8);
        let elements = elements.ok_or(Error::Invalid("extents overflow"))?;
        let mut packed = Self {
            spec: *spec,
            level,
            form,
            columns,
            digits: Lines::zeroed(elements / 8 * spec.bits),
            factors: vec![0.0; groups * blocks * columns],
            zeros: vec![0.0; groups * blocks * columns],
        };
        packed.fill(matrix, in_block);
        if let Some((&first, _)) = packed.zeros.split_first() {
            // Columns that do not exist are multiplied with factors of 0.
            let used = |at: usize| at / (blocks * columns) * columns + at % columns < spec.n;
            if packed
                .zeros
                .iter()
                .enumerate()
                .all(|(at, zero)| !used(at) || zero.to_bits() == first.to_bits())
            {
                packed.zeros = vec![first; columns];
            }
        }
        Ok(packed)
    }

    fn fill(&mut self, matrix: &[u8], in_block: usize) {
        let Self { spec, form, columns, .. } = *self;
        let blocks = spec.blocks();
        let stored = in_block / 8 * spec.bits;
        let mut plain = vec![0_u8; in_block];
        let digits = self.digits.bytes_mut();
        for (number, to) in
            digits.chunks_exact_mut(stored).take(spec.n.div_ceil(columns) * blocks).enumerate()
        {
            let (group, block) = (number / blocks, number % blocks);
            plain.fill(0);
            for column in 0..columns.min(spec.n - group * columns) {
                let own = ((group * columns + column) * blocks + block) * spec.block_bytes();
                let (own, parameters) =
                    matrix[own..][..spec.block_bytes()].split_at(spec.block / 8 * spec.bits);
                let (parameters, _) = parameters.as_chunks();
                let at = number * columns + column;
                self.factors[at] = f32::from_le_bytes(parameters[0]);
                self.zeros[at] = f32::from_le_bytes(parameters[1]);
                // Of a step the elements lie together, steps a vector apart.
                let first = form.place(column, spec.block);
                let mut put = |index: usize, digit: u8| {
                    plain[first
                        + index / form.per_step * form.per_step * form.lanes
                        + index % form.per_step] = digit;
                };
                if spec.bits == 4 {
                    for (index, byte) in own.iter().enumerate() {
                        put(2 * index, byte & 15);
                        put(2 * index + 1, byte >> 4);
                    }
                } else {
                    for (index, byte) in own.iter().enumerate() {
                        put(index, byte ^ form.flip);
                    }
                }
            }
            if spec.bits == 4 {
                for (to, pair) in to.chunks_exact_mut(HALF).zip(plain.chunks_exact(2 * HALF)) {
                    let (low, high) = pair.split_at(HALF);
                    to.iter_mut().zip(low).zip(high).for_each(|((to, low), high)| *to = low | high << 4);
                }
            } else {
                to.copy_from_slice(&plain);
            }
        }
    }

    /// What was packed.
    pub const fn spec(&self) -> &BlockSpec {
        &self.spec
    }

    /// Bytes of the packed matrix.
    pub fn bytes(&self) -> usize {
        self.digits.bytes() + size_of::<f32>() * (self.factors.len() + self.zeros.len())
    }

    /// Bytes of scratch that [`Self::run`] needs for `m` rows with a pool of `threads` threads; `usize::MAX` when that overflows.
    pub fn scratch_bytes(&self, m: usize, threads: usize) -> usize {
        let bytes = match self.spec.arithmetic {
            BlockArithmetic::Reals => self.reals_scratch(m, threads),
            BlockArithmetic::Bytes => self.bytes_scratch(m, threads),
        };
        bytes.and_then(|bytes| bytes.checked_add(64)).unwrap_or(usize::MAX)
    }

    /// Computes `m` rows of `n` results from as many rows of `k` elements, without gaps.
    ///
    /// Errors: slices shorter than that.
    pub fn run(
        &self,
        x: &[f32],
        m: usize,
        y: &mut [f32],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let BlockSpec { n, k, .. } = self.spec;
        Error::check_len("x", x.len(), m.saturating_mul(k))?;
        Error::check_len("y", y.len(), m.saturating_mul(n))?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(m, pool.threads()))?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        if k == 0 {
            y[..m * n].fill(0.0);
            return Ok(());
        }
        let offset = scratch.as_ptr().align_offset(64);
        let scratch = scratch.get_mut(offset..).unwrap_or_default();
        match self.spec.arithmetic {
            BlockArithmetic::Reals => self.multiply_reals(x, m, y, scratch, pool),
            BlockArithmetic::Bytes => self.multiply_bytes(x, m, y, scratch, pool),
        }
        Ok(())
    }

    /// The stored elements of a block of a group.
    fn stored(&self, group: usize, block: usize) -> &[u8] {
        let bytes = self.spec.block * self.columns / 8 * self.spec.bits;
        &self.digits.as_bytes()[(group * self.spec.blocks() + block) * bytes..][..bytes]
    }

    /// Factors and zero points of a block of a group.
    fn parameters(&self, group: usize, block: usize) -> [&[f32]; 2] {
        let at = (group * self.spec.blocks() + block) * self.columns;
        let zeros = if self.zeros.len() == self.columns { 0 } else { at };
        [&self.factors[at..][..self.columns], &self.zeros[zeros..][..self.columns]]
    }
}
