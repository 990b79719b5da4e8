//! The border between reals and integers that stand for them.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op,
    ops::{DequantizeLinear, QuantizeLinear},
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

operators! {
    DEFAULT_DOMAIN;
    "DequantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28] {2, 3, 1 => dequantize} write write_dequantize;
    "QuantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28] {2, 3, 1 => quantize} write write_quantize;
}
