//! Element types changed, and the border between reals and integers.

use triune_tensor::{DType, QuantParams, Shape};

use super::kind;
use crate::{
    Constant, Error, ValueId,
    format::mge::{element::Element, node::NodeReader},
    ops::{BinaryKind, Cast, DequantizeLinear, Op, QuantizeLinear, UnaryKind},
    passes::table,
};

/// To another element type: quantize, dequantize, requantize or cast.
pub(in super::super) fn type_cvt(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let x = node.input(0)?;
    let to = Element::read(node.params(kind::DTYPE)?.table()).map_err(|reason| node.unsupported(reason))?;
    let from = Element { dtype: node.dtype(x)?, quant: node.quant(x) };
    match (from.quant, to.quant) {
        _ if from == to => Ok(x),
        (None, None) => node.cast(x, to.dtype),
        (None, Some(quant)) => {
            let x = node.cast(x, DType::F32)?;
            quantize(node, x, to, quant)
        }
        (Some(quant), None) => {
            let real = dequantize(node, x, from.dtype, quant)?;
            node.cast(real, to.dtype)
        }
        (Some(a), Some(b)) if from.dtype.is_quantized() && to.dtype.is_quantized() => {
            let table = table(None, (from.dtype, a), (to.dtype, b), node.builder.graph.rounding);
            node.emit_as(Op::Table(table), &[Some(x)], Some(to))
        }
        (Some(a), Some(b)) => {
            let real = dequantize(node, x, from.dtype, a)?;
            quantize(node, real, to, b)
        }
    }
}

fn parameters(
    node: &mut NodeReader<'_, '_, '_>,
    dtype: DType,
    quant: QuantParams,
) -> Result<[ValueId; 2], Error> {
    let scale = node.scalar(quant.scale);
    let bytes = quant.zero_point.to_le_bytes()[..dtype.bytes().min(4)].to_vec();
    let zero_point = Constant::new(dtype, Shape::from([]), bytes);
    let zero_point = zero_point.ok_or_else(|| node.unsupported(format!("integers of type {dtype}")))?;
    Ok([scale, node.new_constant("zero_point", zero_point)])
}

/// Reals to integers that mean `quant`.
pub(super) fn quantize(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    to: Element,
    quant: QuantParams,
) -> Result<ValueId, Error> {
    if !to.dtype.is_quantized() {
        return wide(node, x, to, quant);
    }
    let [scale, zero_point] = parameters(node, to.dtype, quant)?;
    let op = Op::QuantizeLinear(QuantizeLinear { axis: 0, dtype: to.dtype });
    node.emit_as(op, &[Some(x), Some(scale), Some(zero_point)], Some(to))
}

/// Reals to integers of more than 8 bits.
fn wide(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    to: Element,
    quant: QuantParams,
) -> Result<ValueId, Error> {
    if !matches!(to.dtype, DType::I16 | DType::I32) || quant.zero_point != 0 {
        return Err(node.unsupported(format!("reals quantized to {}", to.dtype)));
    }
    let scale = node.scalar(quant.scale);
    let steps = node.binary(BinaryKind::Div, x, scale)?;
    let mut steps = node.unary(UnaryKind::RoundHalfAway, steps)?;
    if to.dtype == DType::I16 {
        steps = node.unary(UnaryKind::Clip([f32::from(i16::MIN), f32::from(i16::MAX)]), steps)?;
    }
    node.emit_as(Op::Cast(Cast { to: to.dtype }), &[Some(steps)], Some(to))
}

/// The reals that integers mean.
pub(super) fn dequantize(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    dtype: DType,
    quant: QuantParams,
) -> Result<ValueId, Error> {
    let [scale, zero_point] = parameters(node, dtype, quant)?;
    let op = Op::DequantizeLinear(DequantizeLinear { axis: 0 });
    node.emit(op, &[x, scale, zero_point])
}
