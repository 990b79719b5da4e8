//! Values normalized by statistics of their own.

use super::Scope;
use crate::{
    Error, ValueId,
    ops::{ReduceKind, UnaryKind},
};

/// Mean 0 and variance 1 over some axes.
pub(crate) struct Standard {
    pub(crate) result: ValueId,
    pub(crate) mean: ValueId,
    /// 1/√(variance + ε).
    pub(crate) inverse: ValueId,
}

pub(crate) fn standardized(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axes: &[usize],
    epsilon: f32,
) -> Result<Standard, Error> {
    let mean = f.reduce(ReduceKind::Mean, x, axes)?;
    let difference = f.sub(x, mean)?;
    let square = f.mul(difference, difference)?;
    let variance = f.reduce(ReduceKind::Mean, square, axes)?;
    let variance = f.add_number(variance, f64::from(epsilon))?;
    let deviation = f.unary(UnaryKind::Sqrt, variance)?;
    let inverse = f.unary(UnaryKind::Reciprocal, deviation)?;
    Ok(Standard { result: f.mul(difference, inverse)?, mean, inverse })
}
