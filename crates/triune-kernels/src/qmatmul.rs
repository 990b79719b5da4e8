//! Matrix products of 8-bit operands that are both known at run time only. Constant weights belong in `QConv`.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::Rounding;

use crate::cancel::{self, spans};
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool, Q8};

/// C = A·B per batch of integers, all row-major and without gaps; either operand may lie transposed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QMatMulSpec {
    /// Matrices.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the sums, at most [`QMatMul::MAX_DEPTH`].
    pub k: usize,
    /// Whether A lies as k×m instead of m×k.
    pub trans_a: bool,
    /// Whether B lies as n×k instead of k×n.
    pub trans_b: bool,
    /// Whether all batches use the same B.
    pub shared_b: bool,
    /// The first operand's bytes.
    pub a: Q8,
    /// The second operand's bytes.
    pub b: Q8,
    /// The result's bytes.
    pub output: Q8,
    /// (A's scale × B's scale) / C's scale; finite.
    pub multiplier: f32,
    /// Where halves go.
    pub rounding: Rounding,
}

/// A product ready to run.
#[derive(Clone, Debug)]
pub struct QMatMul {
    spec: QMatMulSpec,
    /// Elements of a packed row: k and zeros up to whole vectors.
    step: usize,
    /// Packed elements of A and B together.
    packed: usize,
    level: Level,
}

/// Elements that a packed row is a multiple of.
const VECTOR: usize = 32;
/// Sums that are made before they become bytes.
const COLUMNS: usize = 64;

impl QMatMul {
    /// Longest sums: each product is at most 255², and all of them fit an i32.
    pub const MAX_DEPTH: usize = (i32::MAX / (255 * 255)) as usize;

    /// Checks the description.
    ///
    /// Errors: sums that may overflow, a multiplier that is not finite, a zero point outside of its type, extents that
    /// overflow.
    pub fn new(spec: &QMatMulSpec, isa: Isa) -> Result<Self, Error> {
        if spec.k > Self::MAX_DEPTH {
            return Err(Error::Invalid("sums of so many products overflow 32 bits"));
        }
        if !spec.multiplier.is_finite() {
            return Err(Error::Invalid("multipliers must be finite"));
        }
        [spec.a, spec.b, spec.output].into_iter().try_for_each(Q8::check)?;
        let step = spec.k.next_multiple_of(VECTOR);
        let all = [spec.m, spec.k, spec.batch]
            .into_iter()
            .try_fold(spec.n, |product: usize, extent| product.checked_mul(extent.max(1)));
        let packed = spec.m.checked_add(spec.n).and_then(|rows| rows.checked_mul(step));
        let packed = packed.filter(|&packed| packed < usize::MAX / 8 && all.is_some());
        let packed = packed.ok_or(Error::Invalid("extents overflow"))?;
        Ok(Self { spec: *spec, step, packed, level: Level::new(isa) })
    }

    /// Bytes of scratch that [`Self::run`] needs.
    pub const fn scratch_bytes(&self) -> usize {
        2 * self.packed + align_of::<i16>()
    }

    /// Computes `c` from `a` and `b`: clamp(round(f32(Σ (a − a₀)(b − b₀)) · multiplier) + c₀), the sum exact.
    ///
    /// Errors: slices shorter than the extents say.
    pub fn run(
        &self,
        a: &[u8],
        b: &[u8],
        c: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let s = &self.spec;
        let (a_len, b_len, c_len) = (s.m * s.k, s.k * s.n, s.m * s.n);
        Error::check_len("a", a.len(), s.batch * a_len)?;
        Error::check_len("b", b.len(), if s.shared_b { s.batch.min(1) } else { s.batch } * b_len)?;
        Error::check_len("c", c.len(), s.batch * c_len)?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes())?;
        if c_len == 0 {
            return Ok(());
        }
        // SAFETY: any bytes are integers.
        let (_, packed, _) = unsafe { scratch.align_to_mut::<i16>() };
        Error::check_len("aligned scratch", packed.len(), self.packed)?;
        let (rows, columns) = packed[..self.packed].split_at_mut(s.m * self.step);
        let c = Shared::new(c);
        for batch in 0..s.batch {
            if batch > 0 && cancel::requested() {
                break;
            }
            if batch == 0 || !s.shared_b {
                let b = &b[batch * b_len..][..b_len];
                let place = |n: usize, k: usize| if s.trans_b { n * s.k + k } else { k * s.n + n };
                self.pack(b, s.b, s.n, columns, &place, pool);
            }
            let a = &a[batch * a_len..][..a_len];
            let place = |m: usize, k: usize| if s.trans_a { k * s.m + m } else { m * s.k + k };
            self.pack(a, s.a, s.m, rows, &place, pool);
            let (rows, columns) = (&*rows, &*columns);
            let work = s.n.saturating_mul(self.step).max(1);
            parallel::ranges(pool, s.m, GRAIN.div_ceil(work), &|range| {
                for part in spans(range.len(), work) {
                    for row in range.start + part.start..range.start + part.end {
                        // SAFETY: rows of the result are disjoint and inside of the slice.
                        let c = unsafe { c.piece(batch * c_len + row * s.n, s.n) };
                        self.row(&rows[row * self.step..][..self.step], columns, c);
                    }
                }
            });
        }
        Ok(())
    }

    /// Rows of differences from the zero point, zeros behind each.
    fn pack(
        &self,
        bytes: &[u8],
        own: Q8,
        count: usize,
        packed: &mut [i16],
        place: &(dyn Fn(usize, usize) -> usize + Sync),
        pool: &Pool,
    ) {
        let (k, step) = (self.spec.k, self.step);
        if k == 0 {
            return;
        }
        let packed = Shared::new(packed);
        parallel::ranges(pool, count, GRAIN.div_ceil(step), &|range| {
            for part in spans(range.len(), step) {
                for row in range.start + part.start..range.start + part.end {
                    // SAFETY: rows are disjoint pieces of the packed matrix.
                    let packed = unsafe { packed.piece(row * step, step) };
                    for (at, packed) in packed.iter_mut().enumerate() {
                        let value = |at| own.value(bytes[place(row, at)]) - own.zero_point;
                        // A difference of two 8-bit integers.
                        *packed = if at < k { value(at) as i16 } else { 0 };
                    }
                }
            }
        });
    }

    fn row(&self, a: &[i16], columns: &[i16], c: &mut [u8]) {
        let mut sums = [0; COLUMNS];
        for (block, c) in c.chunks_mut(COLUMNS).enumerate() {
            let sums = &mut sums[..c.len()];
            sums_of_row(self.level, a, &columns[block * COLUMNS * self.step..], sums);
            for (c, &sum) in c.iter_mut().zip(&*sums) {
                *c = self.requantize(sum);
            }
        }
    }

    fn requantize(&self, sum: i32) -> u8 {
        let QMatMulSpec { output, multiplier, rounding, .. } = self.spec;
        let [low, high] = output.range();
        let rounded = rounding.round(sum as f32 * multiplier) as i32;
        rounded.saturating_add(output.zero_point).clamp(low, high) as u8
    }
}

multiversion! {
    fn sums_of_row(a: &[i16], columns: &[i16], sums: &mut [i32]) {
        for (b, sum) in columns.chunks_exact(a.len().max(1)).zip(sums.iter_mut()) {
            *sum = dot(a, b);
        }
        if a.is_empty() {
            sums.fill(0);
        }
    }
}

#[inline(always)]
fn dot(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).fold(0_i32, |sum, (&a, &b)| sum.wrapping_add(i32::from(a) * i32::from(b)))
}
