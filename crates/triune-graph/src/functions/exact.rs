//! Products of integers, exactly, by the kernels that multiply floats.

use triune_tensor::DType;

use super::Scope;
use crate::{Error, ValueId};

/// Products of two bytes without their zero points whose sum is exact in f32, in whatever order.
pub(crate) const PRODUCTS: usize = (1 << 24) / (255 * 255);

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
