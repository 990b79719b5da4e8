//! Products of integers, exactly, by the kernels that multiply floats.

use triune_tensor::DType;

use super::Scope;
use crate::{Error, ValueId, ops::IntegerMatMul};

/// Products of two bytes without their zero points whose sum is exact in f32, in whatever order.
pub(crate) const PRODUCTS: usize = (1 << 24) / (255 * 255);

/// Whether a parameter is one number, or one per row or column.
fn is_one_or(f: &Scope<'_, '_>, parameter: Option<ValueId>, count: usize, dtype: DType) -> bool {
    parameter.is_none_or(|id| {
        let shape = f.shape(id);
        let fits = shape.elements() == Some(1) || *shape == [count];
        fits && f.dtype(id) == dtype
    })
}

/// The product of matrices of bytes without their zero points, of which the one on the left may have one per row and the one on the
/// right one per column, if there is a command for it; with factors f32, one for all or one per column.
pub(crate) fn of_bytes(
    f: &mut Scope<'_, '_>,
    [a, b]: [ValueId; 2],
    [a_zero, b_zero]: [Option<ValueId>; 2],
    factors: Option<ValueId>,
) -> Result<Option<ValueId>, Error> {
    let bytes = |id| matches!(f.dtype(id), DType::I8 | DType::U8);
    let (left, right) = (f.shape(a), f.shape(b));
    let ([own @ .., rows, depth], [other @ .., inner, columns]) = (&*left, &*right) else { return Ok(None) };
    let shared = other.iter().all(|&extent| extent == 1) && other.len() <= own.len();
    let fits = bytes(a)
        && bytes(b)
        && depth == inner
        && *depth > 0
        && (shared || own == other)
        && is_one_or(f, a_zero, *rows, f.dtype(a))
        && is_one_or(f, b_zero, *columns, f.dtype(b))
        && is_one_or(f, factors, *columns, DType::F32);
    if !fits {
        return Ok(None);
    }
    let operands = [Some(a), Some(b), a_zero, b_zero, factors];
    let count = operands.iter().rposition(Option::is_some).map_or(2, |last| last + 1);
    Ok(Some(f.ops(crate::Op::IntegerMatMul(IntegerMatMul), &operands[..count], 1)?[0]))
}

/// A · B in 32 bits, of integers: where both are f32, of magnitudes up to 255, as many products at a time as are exact.
pub(crate) fn product(f: &mut Scope<'_, '_>, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
    if [a, b].iter().any(|&x| f.dtype(x) != DType::F32) {
        let (a, b) = (f.cast(a, DType::I32)?, f.cast(b, DType::I32)?);
        return f.matmul(a, b);
    }
    let (left, right) = (f.rank(a), f.rank(b));
    if left == 0 || right == 0 {
        return Err(f.wrong("scalars have no matrix product"));
    }
    let (own, other) = (left - 1, right.saturating_sub(2));
    let depth = f.shape(a)[own];
    let mut sum = None;
    for from in (0..depth.max(1)).step_by(PRODUCTS) {
        let to = from.saturating_add(PRODUCTS).min(depth);
        let (a, b) = if depth <= PRODUCTS {
            (a, b)
        } else {
            (f.slice(a, own, from as i64, to as i64)?, f.slice(b, other, from as i64, to as i64)?)
        };
        let part = f.matmul(a, b)?;
        let part = f.cast(part, DType::I32)?;
        sum = Some(match sum {
            Some(sum) => f.add(sum, part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| f.wrong("a product of nothing"))
}
