//! Normalization of f32 rows to mean 0 and variance 1, in one pass over memory per row.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::eltwise::halved;
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool};

/// Partial sums of a row: element i goes to partial sum i mod `LANES`, as in a reduction, so that both give the same bits.
const LANES: usize = 16;

/// What follows a row's normalization: y = (x − mean)/√(variance + ε)·gamma + beta.
#[derive(Clone, Copy, Debug)]
pub struct NormRow<'a> {
    /// Elements of a row.
    pub len: usize,
    /// ε.
    pub epsilon: f32,
    /// One per element of a row, else 1.
    pub gamma: Option<&'a [f32]>,
    /// One per element of a row, else 0.
    pub beta: Option<&'a [f32]>,
}

/// Normalizes every row of `x`. Sums are f64; mean, variance, the inverse of the deviation and every product are rounded to f32, as
/// if each step were an operator of its own.
///
/// Errors: slices that are no whole number of rows or differ in length, factors or addends of another number than a row has
/// elements.
pub fn normalize(isa: Isa, row: NormRow<'_>, x: &[f32], y: &mut [f32], pool: &Pool) -> Result<(), Error> {
    Error::check_eq("output", x.len(), y.len())?;
    for (name, values) in [("gamma", row.gamma), ("beta", row.beta)] {
        if let Some(values) = values {
            Error::check_eq(name, row.len, values.len())?;
        }
    }
    if x.is_empty() {
        return Ok(());
    }
    if row.len == 0 || !x.len().is_multiple_of(row.len) {
        return Err(Error::Invalid("elements that are no whole number of rows"));
    }
    let level = Level::new(isa);
    let shared = Shared::new(y);
    parallel::ranges(pool, x.len() / row.len, GRAIN.div_ceil(4 * row.len), &|range| {
        for index in range {
            // SAFETY: rows are disjoint and inside of the slice.
            let y = unsafe { shared.piece(index * row.len, row.len) };
            normalize_row(level, row, &x[index * row.len..][..row.len], y);
        }
    });
    Ok(())
}

/// The mean of partial sums of so many elements.
#[inline(always)]
fn mean(lanes: [f64; LANES], count: usize) -> f32 {
    (halved(lanes, |a, b| a + b) / count as f64) as f32
}

/// Adds elements, changed by `f`, to partial sums.
#[inline(always)]
fn gather(lanes: &mut [f64; LANES], x: &[f32], f: impl Fn(f32) -> f32) {
    let mut own = *lanes;
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in own.iter_mut().zip(chunk) {
            *lane += f64::from(f(x));
        }
    }
    for (lane, &x) in own.iter_mut().zip(rest) {
        *lane += f64::from(f(x));
    }
    *lanes = own;
}

multiversion! {
    fn normalize_row(row: NormRow<'_>, x: &[f32], y: &mut [f32]) {
        let mut sums = [0.0; LANES];
        for part in spans(x.len(), 1) {
            gather(&mut sums, &x[part], |x| x);
        }
        let middle = mean(sums, x.len());
        let mut squares = [0.0; LANES];
        for part in spans(x.len(), 1) {
            gather(&mut squares, &x[part], |x| (x - middle) * (x - middle));
        }
        let inverse = 1.0 / (mean(squares, x.len()) + row.epsilon).sqrt();
        for part in spans(x.len(), 1) {
            let (x, y) = (&x[part.clone()], &mut y[part.clone()]);
            match (row.gamma, row.beta) {
                (None, None) => {
                    for (x, y) in x.iter().zip(y) {
                        *y = (x - middle) * inverse;
                    }
                }
                (Some(gamma), None) => {
                    for ((x, y), gamma) in x.iter().zip(y).zip(&gamma[part]) {
                        *y = (x - middle) * inverse * gamma;
                    }
                }
                (None, Some(beta)) => {
                    for ((x, y), beta) in x.iter().zip(y).zip(&beta[part]) {
                        *y = (x - middle) * inverse + beta;
                    }
                }
                (Some(gamma), Some(beta)) => {
                    for (((x, y), gamma), beta) in x.iter().zip(y).zip(&gamma[part.clone()]).zip(&beta[part]) {
                        *y = (x - middle) * inverse * gamma + beta;
                    }
                }
            }
        }
    }
}
