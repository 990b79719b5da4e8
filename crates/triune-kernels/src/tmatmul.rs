//! Matrix products of numbers that networks rarely multiply: f64 and integers.
//!
//! A task takes a strip of columns: it packs them, row after row, and goes over all rows of A with sums in registers. Each sum goes
//! through k from front to back, so that instruction sets and thread counts change no bit; f64 is rounded once per product and sum.
#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::cancel::Pace;
use crate::dispatch::{Level, multiversion};
use crate::parallel::{GRAIN, Shared};
use crate::running::Summand;
use crate::{Error, Isa, Pool};

/// C = A·B per batch, all row-major and without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TMatMulSpec {
    /// Matrices.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Whether all batches use the same B.
    pub shared_b: bool,
}

/// Columns of a strip, and rows whose sums are made together.
const COLUMNS: usize = 16;
const ROWS: usize = 4;
/// Columns of a strip for fewer rows, which is read where it lies: pieces of rows so long that memory is read ahead.
const WIDE: usize = 64;

impl TMatMulSpec {
    /// Elements of scratch that [`product`] needs with a pool of `threads` threads.
    pub fn scratch_elements(&self, threads: usize) -> usize {
        self.k.saturating_mul(COLUMNS).saturating_mul(threads)
    }
}

/// Computes `c` from `a` and `b`; integers wrap around.
///
/// Errors: slices shorter than the extents say, extents that overflow.
pub fn product<T: Summand>(
    isa: Isa,
    spec: &TMatMulSpec,
    a: &[T],
    b: &[T],
    c: &mut [T],
    scratch: &mut [T],
    pool: &Pool,
) -> Result<(), Error> {
    let TMatMulSpec { batch, m, n, k, shared_b } = *spec;
    let elements = |factors: [usize; 3]| {
        let product = factors.into_iter().try_fold(1_usize, usize::checked_mul);
        product.ok_or(Error::Invalid("extents overflow"))
    };
    Error::check_len("a", a.len(), elements([batch, m, k])?)?;
    Error::check_len("b", b.len(), elements([if shared_b { batch.min(1) } else { batch }, k, n])?)?;
    Error::check_len("c", c.len(), elements([batch, m, n])?)?;
    Error::check_len("scratch", scratch.len(), spec.scratch_elements(pool.threads()))?;
    let work = [batch, m, n, k].into_iter().fold(1_usize, usize::saturating_mul);
    if [batch, m, n].contains(&0) {
        return Ok(());
    }
    let width = if m < ROWS { WIDE } else { COLUMNS };
    let (level, strips) = (Level::new(isa), n.div_ceil(width));
    // Sums of a whole strip of 64-bit numbers fit into the registers of AVX-512 alone.
    let halves = size_of::<T>() == 8 && !matches!(level.isa(), Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx);
    let (c, scratch) = (Shared::new(c), Shared::new(scratch));
    let one = |task: usize, worker: usize| {
        let (batch, strip) = (task / strips, task % strips);
        // SAFETY: no two tasks of one run have the same worker at the same time; the length was checked.
        let packed = unsafe { scratch.piece(worker * k * COLUMNS, k * COLUMNS) };
        let a = &a[batch * m * k..][..m * k];
        let b = &b[if shared_b { 0 } else { batch * k * n }..][..k * n];
        // SAFETY: tasks have columns of their own, within the extents that were checked.
        unsafe { multiply(level, a, b, spec, batch * m * n, strip * width, packed, &c, halves) };
    };
    if work <= GRAIN {
        (0..batch * strips).for_each(|task| one(task, 0));
    } else {
        pool.run(batch * strips, &one);
    }
    Ok(())
}

multiversion! {
    /// The columns from `first` on.
    ///
    /// # Safety
    /// Nobody else has these columns of C, which begins at `start`.
    unsafe fn multiply[T: Summand](
        a: &[T], b: &[T], spec: &TMatMulSpec, start: usize, first: usize, packed: &mut [T], c: &Shared<'_, T>,
        halves: bool,
    ) {
        let TMatMulSpec { m, n, k, .. } = *spec;
        let mut pace = Pace::new();
        if m < ROWS {
            for row in 0..m {
                if pace.stops(k.saturating_mul(WIDE / 8)) {
                    return;
                }
                // SAFETY: the caller's contract.
                let c = unsafe { c.piece(start + row * n + first, WIDE.min(n - first)) };
                strip(&a[row * k..][..k], b.get(first..).unwrap_or_default(), n, c);
            }
            return;
        }
        let columns = COLUMNS.min(n - first);
        for (row, packed) in packed.chunks_exact_mut(COLUMNS).enumerate() {
            packed[..columns].copy_from_slice(&b[row * n + first..][..columns]);
            packed[columns..].fill(T::ZERO);
        }
        let mut row = 0;
        while row < m {
            if pace.stops(k.saturating_mul(COLUMNS * ROWS / 8)) {
                return;
            }
            let rows = if m - row >= ROWS { ROWS } else { 1 };
            let mut sums = [[T::ZERO; COLUMNS]; ROWS];
            let own = &a[row * k..][..rows * k];
            if rows == ROWS && halves {
                tile::<T, ROWS, { COLUMNS / 2 }>(own, packed, k, &mut sums);
            } else if rows == ROWS {
                tile::<T, ROWS, COLUMNS>(own, packed, k, &mut sums);
            } else {
                let mut one = [[T::ZERO; COLUMNS]];
                tile::<T, 1, COLUMNS>(own, packed, k, &mut one);
                sums[0] = one[0];
            }
            for (at, sums) in sums[..rows].iter().enumerate() {
                // SAFETY: the caller's contract.
                let c = unsafe { c.piece(start + (row + at) * n + first, columns) };
                c.copy_from_slice(&sums[..columns]);
            }
            row += rows;
        }
    }
}

/// Some rows times a packed strip, `WIDTH` of its columns at a time.
#[inline(always)]
fn tile<T: Summand, const MR: usize, const WIDTH: usize>(
    a: &[T],
    packed: &[T],
    k: usize,
    sums: &mut [[T; COLUMNS]; MR],
) {
    let rows: [&[T]; MR] = std::array::from_fn(|row| &a[row * k..][..k]);
    for part in 0..COLUMNS / WIDTH {
        // In registers: what others can see would be stored and loaded again for each step.
        let mut own = [[T::ZERO; WIDTH]; MR];
        for (step, b) in packed.as_chunks::<COLUMNS>().0.iter().enumerate() {
            let b = &b.as_chunks::<WIDTH>().0[part];
            for (row, sums) in rows.iter().zip(&mut own) {
                let a = row[step];
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum = sum.plus_product(a, b);
                }
            }
        }
        for (sums, own) in sums.iter_mut().zip(own) {
            sums[part * WIDTH..][..WIDTH].copy_from_slice(&own);
        }
    }
}

/// One row times a strip where it lies.
#[inline(always)]
fn strip<T: Summand>(a: &[T], b: &[T], n: usize, c: &mut [T]) {
    let mut sums = [T::ZERO; WIDE];
    for (step, &a) in a.iter().enumerate() {
        let b = &b[step * n..];
        if let Some(b) = b.first_chunk::<WIDE>().filter(|_| c.len() == WIDE) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = sum.plus_product(a, b);
            }
        } else {
            for (sum, &b) in sums.iter_mut().zip(&b[..c.len()]) {
                *sum = sum.plus_product(a, b);
            }
        }
    }
    c.copy_from_slice(&sums[..c.len()]);
}
