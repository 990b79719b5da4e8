//! Element types changed, and the border between reals and integers.

use triune_tensor::{DType, QuantParams, Shape};

use super::kind;
use crate::{
    Constant, Error, ValueId,
    format::mge::{element::Element, node::NodeReader},
    functions::Scope,
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
        return to_integers(node, x, to, quant);
    }
    let [scale, zero_point] = parameters(node, to.dtype, quant)?;
    let op = Op::QuantizeLinear(QuantizeLinear { axis: 0, dtype: to.dtype });
    node.emit_as(op, &[Some(x), Some(scale), Some(zero_point)], Some(to))
}

/// Reals to integers of more than 8 bits.
fn to_integers(
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

/// Reals as they are behind a quantizer and its inverse: whole steps of a scale, half away from zero, within limits. Operands x,
/// the scale (for `TQT` its logarithm to base 2, rounded up) and, but for that, the zero point.
pub(in super::super) fn fake_quant(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let name = node.operator.kind.as_str();
    let (power, clamps_first) = (name == "TQT", name == "LSQ");
    let params = node.params(match name {
        "TQT" => kind::TQT,
        "LSQ" => kind::LSQ,
        _ => kind::FAKE_QUANT,
    })?;
    let limits = [params.i32(0, i32::MIN)? as f32, params.i32(1, i32::MAX)? as f32];
    let inputs = node.inputs.clone();
    node.function(&inputs, &[], move |f| {
        let (x, scale) = (f.input(0)?, f.input(1)?);
        if f.dtype(x) != DType::F32 {
            return Err(f.wrong(format!("input of type {}; f32 is expected", f.dtype(x))));
        }
        let scale = if power {
            let exponent = f.unary(UnaryKind::Ceil, scale)?;
            let two = f.scalar(2.0, DType::F32);
            f.binary(BinaryKind::Pow, two, exponent)?
        } else {
            scale
        };
        let zero_point = if power { None } else { Some(f.input(2)?) };
        let mut steps = f.div(x, scale)?;
        let move_by = |f: &mut Scope<'_, '_>, x, kind| match zero_point {
            Some(zero_point) => f.binary(kind, x, zero_point),
            None => Ok(x),
        };
        if clamps_first {
            steps = move_by(f, steps, BinaryKind::Add)?;
            steps = f.unary(UnaryKind::Clip(limits), steps)?;
            steps = f.unary(UnaryKind::RoundHalfAway, steps)?;
        } else {
            steps = f.unary(UnaryKind::RoundHalfAway, steps)?;
            steps = move_by(f, steps, BinaryKind::Add)?;
            steps = f.unary(UnaryKind::Clip(limits), steps)?;
        }
        let steps = move_by(f, steps, BinaryKind::Sub)?;
        f.mul(steps, scale)
    })
}
