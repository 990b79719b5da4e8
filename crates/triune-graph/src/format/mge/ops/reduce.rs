//! Reductions.

use triune_tensor::DType;

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{ArgReduce, Op, Reduce, ReduceKind, Reshape},
};

/// The axis that stands for "to the shape that operand 1 gives".
const TO_SHAPE: i32 = i32::MAX;

/// A sum, product, extreme or mean along an axis, which stays with an extent of 1.
pub(in super::super) fn reduce(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::REDUCE)?;
    let kind = match params.u32(0, 0)? {
        0 => ReduceKind::Sum,
        1 => ReduceKind::SumSquare,
        2 => ReduceKind::Product,
        3 => ReduceKind::Min,
        4 => ReduceKind::Max,
        5 => ReduceKind::Mean,
        mode => return Err(node.unsupported(format!("mode {mode}"))),
    };
    let x = node.input(0)?;
    let dtype = node.dtype(x)?;
    // The computation's type, of which only a choice of floats makes a difference here.
    let wide = match params.u32(2, 0)? {
        0 => dtype,
        1 | 3 if dtype.is_float() => dtype,
        2 if dtype.is_float() => DType::F32,
        other => return Err(node.unsupported(format!("data type {other} over {dtype}"))),
    };
    if node.quant(x).is_some() && !matches!(kind, ReduceKind::Min | ReduceKind::Max) {
        return Err(node.unsupported("sums of quantized values"));
    }
    let mut inputs = vec![node.cast(x, wide)?];
    let op = match params.i32(1, TO_SHAPE)? {
        TO_SHAPE => {
            let target = node.input(1)?;
            if let [1] = *node.shape(target)?
                && node.rank(x)? > 1
                && node.folded_ints(target).as_deref() == Some(&[1])
            {
                return to_one(node, inputs[0], kind);
            }
            inputs.push(target);
            Reduce { kind, axes: None, keep_dims: true }
        }
        axis => Reduce::along(kind, &[axis as isize]),
    };
    node.emit_like(Op::Reduce(op), &inputs)
}

/// A reduction of all elements to one, on the only axis.
fn to_one(node: &mut NodeReader<'_, '_, '_>, x: ValueId, kind: ReduceKind) -> Result<ValueId, Error> {
    let row = node.ints("row", &[-1])?;
    let row = node.emit_like(Op::Reshape(Reshape { allow_zero: false }), &[x, row])?;
    node.emit_like(Op::Reduce(Reduce::along(kind, &[0])), &[row])
}

/// Where along an axis the largest element stands, as i32; the axis stays with an extent of 1.
pub(in super::super) fn argmax(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    position(node, ReduceKind::Max)
}

/// Where the smallest stands.
pub(in super::super) fn argmin(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    position(node, ReduceKind::Min)
}

fn position(node: &mut NodeReader<'_, '_, '_>, kind: ReduceKind) -> Result<ValueId, Error> {
    let axis = node.params(kind::AXIS)?.i32(0, 0)? as isize;
    let x = node.input(0)?;
    let op = ArgReduce { kind, axis, keep_dims: true, last: false, dtype: DType::I32 };
    node.emit(Op::ArgReduce(op), &[x])
}
