//! Images resampled and warped.

use triune_tensor::{DType, text::List};

use super::{
    kind,
    layout::{Layout, layout},
};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{
        BorderMode, Concat, CoordinateMode, NearestMode, Op, Resize, ResizeMode, Sampling, ShapeOf, Slice,
        WarpPerspective,
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

/// Whether four neighbours make a pixel, or the nearest one is it.
pub(super) fn interpolation(node: &NodeReader<'_, '_, '_>, mode: u32) -> Result<bool, Error> {
    match mode {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(node.unsupported(format!("interpolation {mode}; 0, nearest, and 1, linear, are supported"))),
    }
}

/// What lies outside of an image.
pub(super) fn border(node: &NodeReader<'_, '_, '_>, mode: u32, value: f32) -> Result<BorderMode, Error> {
    match mode {
        0 => Ok(BorderMode::Replicate),
        1 => Ok(BorderMode::Reflect),
        2 => Ok(BorderMode::Reflect101),
        3 => Ok(BorderMode::Wrap),
        4 => Ok(BorderMode::Constant(value)),
        _ => Err(node.unsupported(format!("border mode {mode}"))),
    }
}

/// What upstream makes a pixel of: over images of one or three channels last, it takes linear places on a grid of 1/32.
fn sampling(
    node: &NodeReader<'_, '_, '_>,
    planes: ValueId,
    linear: bool,
    layout: Layout,
    grid: Sampling,
) -> Result<Sampling, Error> {
    if !linear {
        return Ok(Sampling::Nearest);
    }
    let pixels = layout == Layout::Pixels && matches!(node.dtype(planes)?, DType::F32 | DType::U8);
    let few = matches!(node.shape(planes)?.get(1), Some(1 | 3));
    Ok(if pixels && few { grid } else { Sampling::Linear })
}

/// A perspective warp; the last operand is the result's rows and columns, the one behind the matrices, where there are
/// four, the image that each result is taken from.
pub(in super::super) fn warp_perspective(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::WARP_PERSPECTIVE)?;
    let linear = interpolation(node, params.u32(0, 1)?)?;
    let border = border(node, params.u32(1, 0)?, params.f32(3, 0.0)?)?;
    let layout = layout(node, &params, 2, 0)?;
    let (x, matrices) = (node.input(0)?, node.input(1)?);
    let last = node.inputs.len() - 1;
    let indices = if last == 3 { Some(node.inputs[2]) } else { None };
    let x = node.planes(x, layout)?;
    let size = node.cast(node.inputs[last], DType::I64)?;
    let element = node.element(x)?;
    let sampling = sampling(node, x, linear, layout, Sampling::Grid)?;
    let op = Op::WarpPerspective(WarpPerspective { sampling, border });
    let y = node.emit_as(op, &[Some(x), Some(matrices), indices, Some(size)], element)?;
    node.laid_out(y, layout)
}

/// An affine warp: as a perspective one whose matrices have the row 0, 0, 1.
pub(in super::super) fn warp_affine(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::WARP_AFFINE)?;
    let linear = interpolation(node, params.u32(0, 1)?)?;
    let border = border(node, params.u32(1, 0)?, params.f32(2, 0.0)?)?;
    let layout = layout(node, &params, 3, 1)?;
    let (x, matrices) = (node.input(0)?, node.input(1)?);
    let x = node.planes(x, layout)?;
    let matrices = node.function(&[matrices], &[], |f| {
        let matrices = f.input(0)?;
        let shape = f.shape(matrices);
        let &[count, 2, 3] = &*shape else { return Err(f.wrong(format!("matrices of extents {shape}"))) };
        let row = f.floats(&[0.0, 0.0, 1.0], DType::F32);
        let rows = f.expand(row, &[count, 1, 3])?;
        f.concat(&[matrices, rows], 1)
    })?;
    let size = node.cast(node.inputs[2], DType::I64)?;
    let element = node.element(x)?;
    let sampling = sampling(node, x, linear, layout, Sampling::AffineGrid)?;
    let op = Op::WarpPerspective(WarpPerspective { sampling, border });
    let y = node.emit_as(op, &[Some(x), Some(matrices), None, Some(size)], element)?;
    node.laid_out(y, layout)
}

/// Pixels (N, H, W, channels) with rows or columns the other way round.
pub(in super::super) fn flip(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::FLIP)?;
    let turned = [params.bool(0, false)?, params.bool(1, false)?];
    let x = node.input(0)?;
    let axes: Vec<i64> = (1..3).filter(|&axis| turned[axis as usize - 1]).collect();
    reversed(node, x, &axes)
}

/// Pixels (N, H, W, channels) a quarter turn on.
pub(in super::super) fn rotate(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let clockwise = node.params(kind::ROTATE)?.bool(0, true)?;
    let x = node.input(0)?;
    if node.rank(x)? != 4 {
        return Err(node.unsupported(format!("an operand of {} axes; 4 are expected", node.rank(x)?)));
    }
    let turned = node.transposed(x, &[0, 2, 1, 3])?;
    reversed(node, turned, if clockwise { &[2] } else { &[1] })
}

/// Rows and columns of pixels (N, H, W, channels) from one to another, which is not one of them.
pub(in super::super) fn region(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::ROI_COPY)?;
    let slots = [params.u32(0, 0)?, params.u32(1, 0)?, params.u32(2, 0)?, params.u32(3, 0)?].map(i64::from);
    let x = node.input(0)?;
    let shape = node.shape(x)?;
    let inside = shape.rank() == 4
        && (0..2).all(|axis| {
            slots[2 * axis] <= slots[2 * axis + 1] && slots[2 * axis + 1] <= shape[1 + axis] as i64
        });
    if !inside {
        return Err(node.unsupported(format!("rows and columns {} of {shape}", List(&slots))));
    }
    let from = node.ints("from", &[slots[0], slots[2]])?;
    let to = node.ints("to", &[slots[1], slots[3]])?;
    let axes = node.ints("axes", &[1, 2])?;
    node.emit_like(Op::Slice(Slice), &[x, from, to, axes])
}

/// Axes the other way round.
fn reversed(node: &mut NodeReader<'_, '_, '_>, x: ValueId, axes: &[i64]) -> Result<ValueId, Error> {
    if axes.is_empty() {
        return Ok(x);
    }
    let starts = node.ints("last", &vec![-1; axes.len()])?;
    let ends = node.ints("first", &vec![i64::MIN; axes.len()])?;
    let axes = node.ints("axes", axes)?;
    node.emit_like(Op::Slice(Slice), &[x, starts, ends, axes, starts])
}
