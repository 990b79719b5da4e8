//! The border between reals and 8-bit integers.

use triune_tensor::DType;

use super::{
    Op,
    infer::{Operands, TensorType},
};
use crate::{
    Error,
    format::onnx::{NodeReader, NodeWriter},
};

/// clamp(round-half-even(x/scale) + zero point).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLinear {
    /// The axis of per-channel parameters.
    pub axis: isize,
    /// Element type when no zero point is given to take it from.
    pub dtype: DType,
}

/// (q − zero point)·scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequantizeLinear {
    /// The axis of per-channel parameters.
    pub axis: isize,
}

/// The `axis` that both have since opset 13; blocks of a scale each, since 21, are not supported.
fn axis_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<isize, Error> {
    node.only("block_size", 0)?;
    node.axis("axis", 1)
}

/// An error unless scale and zero point are one value, or one per index of `axis`.
fn check(at: &Operands<'_>, axis: isize) -> Result<(), Error> {
    let x = at.input(0)?;
    let scale = at.input(1)?;
    if let Some(zero_point) = at.get(2)
        && zero_point.shape.elements() != scale.shape.elements()
    {
        return Err(at.wrong(format!("scale {} and zero point {}", scale.shape, zero_point.shape)));
    }
    if scale.shape.elements() == Some(1) {
        return Ok(());
    }
    let axis = at.axis(axis, x.shape.rank())?;
    if *scale.shape != [x.shape[axis]] {
        return Err(at.wrong(format!("scale {} does not fit axis {axis} of {}", scale.shape, x.shape)));
    }
    Ok(())
}

impl QuantizeLinear {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let axis = axis_from_onnx(node)?;
        // Saturation concerns 8-bit floats, precision the division of half floats.
        node.ignore(&["saturate"]);
        node.only("precision", 0)?;
        let wish = node.dtype("output_dtype")?;
        let given = node.constant(2).map(crate::Constant::dtype);
        Ok(Op::QuantizeLinear(Self { axis, dtype: given.or(wish).unwrap_or(DType::U8) }))
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter, has_zero_point: bool) {
        writer.int("axis", self.axis as i64);
        if !has_zero_point && self.dtype != DType::U8 {
            writer.needs(21);
            writer.dtype("output_dtype", self.dtype);
        }
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        check(at, self.axis)?;
        let x = at.input(0)?;
        let dtype = at.get(2).map_or(self.dtype, |zero_point| zero_point.dtype);
        Ok(vec![TensorType { dtype, shape: x.shape }])
    }
}

impl DequantizeLinear {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let axis = axis_from_onnx(node)?;
        if let Some(dtype) = node.dtype("output_dtype")?
            && dtype != DType::F32
        {
            return Err(node.unsupported(format!("attribute 'output_dtype' = {dtype}")));
        }
        Ok(Op::DequantizeLinear(Self { axis }))
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter) {
        writer.int("axis", self.axis as i64);
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        check(at, self.axis)?;
        let (x, scale) = (at.input(0)?, at.input(1)?);
        if x.dtype.is_float() || !scale.dtype.is_float() {
            return Err(at.wrong(format!("values of type {} and a scale of {}", x.dtype, scale.dtype)));
        }
        if let Some(zero_point) = at.get(2).filter(|zero_point| zero_point.dtype != x.dtype) {
            return Err(
                at.wrong(format!("values of type {} and a zero point of {}", x.dtype, zero_point.dtype))
            );
        }
        Ok(vec![TensorType { dtype: scale.dtype, shape: x.shape }])
    }
}
