//! Images resampled.

use triune_tensor::DType;

use super::{channels_last, kind};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{Concat, CoordinateMode, NearestMode, Op, Resize, ResizeMode, ShapeOf},
};

/// Rows and columns to the numbers that operand 1 gives.
pub(in super::super) fn resize(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::RESIZE)?;
    let mode = params.u32(0, 1)?;
    let last = channels_last(node, &params, 1, 1)?;
    let op = match mode {
        // Upstream takes the element at ⌊i · in / out⌋.
        0 => {
            Resize { mode: ResizeMode::Nearest(NearestMode::Floor), coordinates: CoordinateMode::Asymmetric }
        }
        1 => Resize { mode: ResizeMode::Linear, coordinates: CoordinateMode::HalfPixel },
        _ => {
            return Err(
                node.unsupported(format!("interpolation {mode}; 0, nearest, and 1, linear, are supported"))
            );
        }
    };
    let (mut x, sizes) = (node.input(0)?, node.input(1)?);
    if last {
        x = node.transposed(x, &[0, 3, 1, 2])?;
    }
    let outer = node.emit(ShapeOf { start: 0, end: Some(2) }, &[x])?;
    let sizes = node.cast(sizes, DType::I64)?;
    let sizes = node.emit(Concat { axis: 0 }, &[outer, sizes])?;
    let element = node.element(x)?;
    let y = node.emit_as(Op::Resize(op), &[Some(x), None, None, Some(sizes)], element)?;
    if last { node.transposed(y, &[0, 2, 3, 1]) } else { Ok(y) }
}
