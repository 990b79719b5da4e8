//! Running sums and products.

use triune_tensor::DType;

use super::Scope;
use crate::{
    Error, ValueId,
    ops::{BinaryKind, Running},
};

/// What of the elements before each one along an axis, and of itself unless `exclusive`, becomes; in reverse, of those behind it.
pub(crate) fn along(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    kind: BinaryKind,
    [exclusive, reverse]: [bool; 2],
) -> Result<ValueId, Error> {
    let product = kind == BinaryKind::Mul;
    if f.dtype(x) == DType::Bool {
        return Err(f.wrong("running sums of bool"));
    }
    f.op(crate::Op::Running(Running { axis, product, exclusive, reverse }), &[x])
}
