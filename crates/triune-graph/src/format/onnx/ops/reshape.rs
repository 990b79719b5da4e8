//! Operators that change or tell a tensor's extents or element type, not the elements' order.

use triune_tensor::Shape;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken, operators,
};
use crate::{
    Constant, Error, Op,
    ops::{Cast, ConstantOfShape, Expand, Flatten, Identity, Reshape, ShapeOf, Squeeze, Unsqueeze},
};

fn reshape(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 5 {
        let shape = node.ints("shape")?.ok_or_else(|| node.unsupported("attribute 'shape' is missing"))?;
        let shape = node.new_ints("shape", &shape);
        node.set_input(1, shape);
    }
    Ok(Op::Reshape(Reshape { allow_zero: node.flag("allowzero")? }))
}

fn write_reshape(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Reshape(op) = op else { return Err(mistaken(op)) };
    if op.allow_zero {
        writer.needs(14);
        writer.int("allowzero", 1);
    }
    Ok(())
}

fn flatten(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(Op::Flatten(Flatten { axis: node.axis("axis", 1)? }))
}

fn write_flatten(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Flatten(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    Ok(())
}

/// Before opset 13 the axes are an attribute.
fn axes(node: &mut NodeReader<'_, '_>) -> Result<(), Error> {
    if node.since < 13
        && let Some(axes) = node.ints("axes")?
    {
        let axes = node.new_ints("axes", &axes);
        node.set_input(1, axes);
    }
    Ok(())
}

fn unsqueeze(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    axes(node)?;
    if node.inputs.get(1).copied().flatten().is_none() {
        return Err(node.unsupported("axes are missing"));
    }
    Ok(Op::Unsqueeze(Unsqueeze))
}

fn squeeze(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    axes(node)?;
    Ok(Op::Squeeze(Squeeze))
}

fn shape_of(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let start = node.axis("start", 0)?;
    let end = if node.has("end") { Some(node.axis("end", 0)?) } else { None };
    Ok(Op::ShapeOf(ShapeOf { start, end }))
}

fn write_shape_of(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::ShapeOf(op) = op else { return Err(mistaken(op)) };
    if op.start != 0 || op.end.is_some() {
        writer.needs(15);
        writer.int("start", op.start as i64);
    }
    if let Some(end) = op.end {
        writer.int("end", end as i64);
    }
    Ok(())
}

fn constant_of_shape(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let value = match node.tensor("value")? {
        Some(value) if value.elements() == 1 => value.reshaped(Shape::from([1])),
        Some(_) => return Err(node.unsupported("attribute 'value' does not have one element")),
        None => Constant::from_f32(Shape::from([1]), &[0.0]),
    };
    let value = value.ok_or_else(|| node.unsupported("attribute 'value'"))?;
    Ok(Op::ConstantOfShape(ConstantOfShape { value }))
}

fn write_constant_of_shape(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::ConstantOfShape(op) = op else { return Err(mistaken(op)) };
    writer.tensor("value", &op.value);
    Ok(())
}

fn cast(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // Both concern 8-bit floats only.
    node.ignore(&["saturate", "round_mode"]);
    let to = node.dtype("to")?.ok_or_else(|| node.unsupported("attribute 'to' is missing"))?;
    Ok(Op::Cast(Cast { to }))
}

fn write_cast(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Cast(op) = op else { return Err(mistaken(op)) };
    writer.dtype("to", op.to);
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "Cast": [1] {refused "its element type is a name before opset 6"}
        [6, 9, 13, 19, 21, 23, 24, 25, 28] {1, 1, 1 => cast} write write_cast;
    "ConstantOfShape": [9, 20, 21, 23, 24, 25] {1, 1, 1 => constant_of_shape} write write_constant_of_shape;
    "Expand": [8, 13] {2, 2, 1 => |_| Ok(Op::Expand(Expand))} write bare;
    "Flatten": [1, 9, 11, 13, 21, 23, 24, 25] {1, 1, 1 => flatten} write write_flatten;
    "Identity": [1, 13, 14, 16, 19, 21, 23, 24, 25] {1, 1, 1 => |_| Ok(Op::Identity(Identity))} write bare;
    "Reshape": [1] {1, 1, 1 => reshape} [5, 13, 14, 19, 21, 23, 24, 25] {2, 2, 1 => reshape} write write_reshape;
    "Shape": [1, 13, 15, 19, 21, 23, 24, 25] {1, 1, 1 => shape_of} write write_shape_of;
    "Squeeze": [1, 11] {1, 1, 1 => squeeze} [13, 21, 23, 24, 25] {1, 2, 1 => squeeze} write bare;
    "Unsqueeze": [1, 11] {1, 1, 1 => unsqueeze} [13, 21, 23, 24, 25] {2, 2, 1 => unsqueeze} write bare;
}
