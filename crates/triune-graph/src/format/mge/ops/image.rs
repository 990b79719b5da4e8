//! Images resampled and warped.

use triune_tensor::DType;

use super::{kind, layout::layout};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{
        BorderMode, Concat, CoordinateMode, NearestMode, Op, Resize, ResizeMode, ShapeOf, WarpPerspective,
    },
};

/// Rows and columns to the numbers that operand 1 gives.
pub(in super::super) fn resize(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::RESIZE)?;
    let mode = params.u32(0, 1)?;
    let layout = layout(node, &params, 1, 1)?;
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
    let (x, sizes) = (node.input(0)?, node.input(1)?);
    let x = node.planes(x, layout)?;
    let outer = node.emit(ShapeOf { start: 0, end: Some(2) }, &[x])?;
    let sizes = node.cast(sizes, DType::I64)?;
    let sizes = node.emit(Concat { axis: 0 }, &[outer, sizes])?;
    let element = node.element(x)?;
    let y = node.emit_as(Op::Resize(op), &[Some(x), None, None, Some(sizes)], element)?;
    node.laid_out(y, layout)
}

/// A perspective warp; the last operand is the result's rows and columns, the one behind the matrices, where there are
/// four, the image that each result is taken from.
pub(in super::super) fn warp_perspective(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::WARP_PERSPECTIVE)?;
    let linear = match params.u32(0, 1)? {
        0 => false,
        1 => true,
        mode => {
            let reason = format!("interpolation {mode}; 0, nearest, and 1, linear, are supported");
            return Err(node.unsupported(reason));
        }
    };
    let border = match params.u32(1, 0)? {
        0 => BorderMode::Replicate,
        1 => BorderMode::Reflect,
        2 => BorderMode::Reflect101,
        3 => BorderMode::Wrap,
        4 => BorderMode::Constant(params.f32(3, 0.0)?),
        mode => return Err(node.unsupported(format!("border mode {mode}"))),
    };
    let layout = layout(node, &params, 2, 0)?;
    let (x, matrices) = (node.input(0)?, node.input(1)?);
    let last = node.inputs.len() - 1;
    let indices = if last == 3 { Some(node.inputs[2]) } else { None };
    let x = node.planes(x, layout)?;
    let size = node.cast(node.inputs[last], DType::I64)?;
    let element = node.element(x)?;
    let op = Op::WarpPerspective(WarpPerspective { linear, border });
    let y = node.emit_as(op, &[Some(x), Some(matrices), indices, Some(size)], element)?;
    node.laid_out(y, layout)
}
