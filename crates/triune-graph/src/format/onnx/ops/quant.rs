//! The border between reals and integers that stand for them.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, DequantizeLinear, QuantizeLinear, ReduceKind, UnaryKind},
};

/// The axis of parameters per channel; blocks of a scale each, since opset 21, are not supported.
fn axis(node: &mut NodeReader<'_, '_>) -> Result<isize, Error> {
    node.only("block_size", 0)?;
    node.axis("axis", 1)
}

pub(super) fn quantize(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = axis(node)?;
    // Saturation concerns 8-bit floats, precision the division of half floats.
    node.ignore(&["saturate"]);
    node.only("precision", 0)?;
    let wish = node.dtype("output_dtype")?;
    let given = node.constant(2).map(Constant::dtype);
    Ok(Op::QuantizeLinear(QuantizeLinear { axis, dtype: given.or(wish).unwrap_or(DType::U8) }))
}

fn write_quantize(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::QuantizeLinear(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    if !writer.has_input(2) && op.dtype != DType::U8 {
        writer.needs(21);
        writer.dtype("output_dtype", op.dtype);
    }
    Ok(())
}

pub(super) fn dequantize(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = axis(node)?;
    if let Some(dtype) = node.dtype("output_dtype")?
        && dtype != DType::F32
    {
        return Err(node.unsupported(format!("attribute 'output_dtype' = {dtype}")));
    }
    Ok(Op::DequantizeLinear(DequantizeLinear { axis }))
}

fn write_dequantize(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::DequantizeLinear(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of the readers")]
fn dynamic(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(node.functions(dynamic_quantize).into())
}

/// Bytes for the range of x and 0, the scale and the zero point.
fn dynamic_quantize(f: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> {
    let x = f.input(0)?;
    let axes: Vec<usize> = (0..f.rank(x)).collect();
    let zero = f.scalar_like(0.0, x);
    let mut ends = [x; 2];
    let kinds = [(ReduceKind::Min, BinaryKind::Min), (ReduceKind::Max, BinaryKind::Max)];
    for (end, (reduce, binary)) in ends.iter_mut().zip(kinds) {
        let extreme = f.reduce(reduce, x, &axes)?;
        let extreme = f.reshape(extreme, &[])?;
        *end = f.binary(binary, extreme, zero)?;
    }
    let [low, high] = ends;
    let range = f.sub(high, low)?;
    let steps = f.scalar_like(255.0, x);
    let scale = f.div(range, steps)?;
    let start = f.div(low, scale)?;
    let start = f.sub(zero, start)?;
    let start = f.unary(UnaryKind::Clip([0.0, 255.0]), start)?;
    let start = f.unary(UnaryKind::Round, start)?;
    let zero_point = f.cast(start, DType::U8)?;
    let op = QuantizeLinear { axis: 1, dtype: DType::U8 };
    let y = f.op(Op::QuantizeLinear(op), &[x, scale, zero_point])?;
    Ok(vec![y, scale, zero_point])
}

operators! {
    DEFAULT_DOMAIN;
    "DequantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28] {2, 3, 1 => dequantize} write write_dequantize;
    "DynamicQuantizeLinear": [11] {1, 1, 3 => dynamic};
    "QuantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28] {2, 3, 1 => quantize} write write_quantize;
}
