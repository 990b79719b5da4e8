//! Matrix products of 8-bit operands that are both known at run time only. Constant weights belong in `QConv`.

use triune_tensor::Rounding;

use crate::cancel::{self, spans};
use crate::dispatch::{Level, multiversion};
use crate::imatmul::{IMatMul, IMatMulOperands, IMatMulSpec};
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool, Q8, math};

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
    /// Of one batch; of all that share B, where A's rows follow each other.
    product: IMatMul,
    /// Rows of that, and how often it is computed.
    rows: usize,
    times: usize,
    level: Level,
}

impl QMatMul {
    /// Longest sums: each product is at most 255², and all of them fit an i32.
    pub const MAX_DEPTH: usize = (i32::MAX / (255 * 255)) as usize;

    /// Checks the description.
    ///
    /// Errors: sums that may overflow, a multiplier that is not finite, a zero point outside of its type, extents that
    /// overflow.
    pub fn new(spec: &QMatMulSpec, isa: Isa) -> Result<Self, Error> {
        let &QMatMulSpec { batch, m, n, k, shared_b, .. } = spec;
        if k > Self::MAX_DEPTH {
            return Err(Error::Invalid("sums of so many products overflow 32 bits"));
        }
        if !spec.multiplier.is_finite() {
            return Err(Error::Invalid("multipliers must be finite"));
        }
        [spec.a, spec.b, spec.output].into_iter().try_for_each(Q8::check)?;
        let overflow = Error::Invalid("extents overflow");
        let joined = shared_b && !spec.trans_a;
        let (rows, times) =
            if joined { (m.checked_mul(batch).ok_or(overflow.clone())?, batch.min(1)) } else { (m, batch) };
        let whole = IMatMulSpec {
            batch: 1,
            m: rows,
            n,
            k,
            shared_b: true,
            signed: [spec.a.signed, spec.b.signed],
            a_zeros: 1,
            b_zeros: 1,
            scales: 0,
        };
        let product = IMatMul::new(&whole, isa)?;
        // All batches' extents, as well.
        IMatMul::new(&IMatMulSpec { batch: times, ..whole }, isa)?;
        let product = if spec.trans_b { product.with_transposed_b() } else { product };
        Ok(Self { spec: *spec, product, rows, times, level: Level::new(isa) })
    }

    /// Words of sums, and bytes of an A that is turned.
    const fn parts(&self) -> [usize; 2] {
        [self.rows * self.spec.n, if self.spec.trans_a { self.rows * self.spec.k } else { 0 }]
    }

    /// Bytes of scratch that [`Self::run`] needs.
    pub fn scratch_bytes(&self) -> usize {
        let [sums, turned] = self.parts();
        4 * sums + turned + self.product.scratch_bytes(false) + align_of::<i32>()
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
        let (a_len, b_len, c_len) = (self.rows * s.k, s.k * s.n, self.rows * s.n);
        Error::check_len("a", a.len(), self.times * a_len)?;
        Error::check_len("b", b.len(), if s.shared_b { self.times.min(1) } else { self.times } * b_len)?;
        Error::check_len("c", c.len(), self.times * c_len)?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes())?;
        if c_len == 0 {
            return Ok(());
        }
        let [sums, turned] = self.parts();
        let offset = scratch.as_ptr().align_offset(align_of::<i32>());
        let (words, scratch) = scratch[offset..].split_at_mut(4 * sums);
        let (turned, scratch) = scratch.split_at_mut(turned);
        // SAFETY: any bytes are integers.
        let (_, sums, _) = unsafe { words.align_to_mut::<i32>() };
        let (a_zeros, b_zeros) = (&[s.a.zero_point as u8], &[s.b.zero_point as u8]);
        for batch in 0..self.times {
            if batch > 0 && cancel::requested() {
                break;
            }
            let mut a = &a[batch * a_len..][..a_len];
            if s.trans_a {
                turn(a, turned, s.k, self.rows);
                a = turned;
            }
            let b = &b[if s.shared_b { 0 } else { batch * b_len }..][..b_len];
            let operands = IMatMulOperands { a, b, a_zeros, b_zeros, scales: &[] };
            self.product.run(operands, None, sums, scratch, pool)?;
            self.requantize(sums, &mut c[batch * c_len..][..c_len], pool);
        }
        Ok(())
    }

    fn requantize(&self, sums: &[i32], c: &mut [u8], pool: &Pool) {
        let QMatMulSpec { output, multiplier, rounding, .. } = self.spec;
        let [low, high] = output.range().map(|limit| (limit - output.zero_point) as f32);
        let zero_point = output.zero_point as u8;
        let c = Shared::new(c);
        parallel::ranges(pool, sums.len(), GRAIN, &|range| {
            for part in spans(range.len(), 1) {
                let (first, len) = (range.start + part.start, part.len());
                // SAFETY: ranges are disjoint pieces of the result.
                let c = unsafe { c.piece(first, len) };
                let away = rounding == Rounding::HalfAwayFromZero;
                bytes_of(self.level, away, multiplier, [low, high], zero_point, &sums[first..][..len], c);
            }
        });
    }
}

/// Rows from what lies as `k`×`rows`.
fn turn(from: &[u8], to: &mut [u8], k: usize, rows: usize) {
    for (row, to) in to.chunks_exact_mut(k.max(1)).take(rows).enumerate() {
        for (to, &byte) in to.iter_mut().zip(from.iter().skip(row).step_by(rows)) {
            *to = byte;
        }
    }
}

multiversion! {
    fn bytes_of(away: bool, multiplier: f32, limits: [f32; 2], zero_point: u8, sums: &[i32], c: &mut [u8]) {
        let [low, high] = limits;
        if away {
            for (c, &sum) in c.iter_mut().zip(sums) {
                *c = math::round_away_to_byte(sum as f32 * multiplier, low, high).wrapping_add(zero_point);
            }
        } else {
            for (c, &sum) in c.iter_mut().zip(sums) {
                *c = math::round_to_byte(sum as f32 * multiplier, low, high).wrapping_add(zero_point);
            }
        }
    }
}
