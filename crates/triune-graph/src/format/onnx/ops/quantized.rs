//! Products of integers that stand for reals, exactly in 32 bits.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, conv, operators, qlinear};
use crate::{
    Error, Op, ValueId,
    functions::{Scope, exact},
    ops::{BinaryKind, QuantizeLinear, UnaryKind},
};

/// Operand `index` without its zero point, of which a matrix on the left may have one per row. Bytes become f32, which holds
/// them and sums of [`exact::PRODUCTS`] products of them exactly.
pub(super) fn centered(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    zero_point: Option<ValueId>,
    by_row: bool,
) -> Result<ValueId, Error> {
    let own = f.dtype(x);
    let dtype = if own.bytes() == 1 { DType::F32 } else { DType::I32 };
    let wide = f.cast(x, dtype)?;
    let Some(zero_point) = zero_point else { return Ok(wide) };
    if f.dtype(zero_point) != own {
        return Err(f.wrong(format!("{own} with a zero point of {}", f.dtype(zero_point))));
    }
    let zero_point = f.cast(zero_point, dtype)?;
    let zero_point = spread(f, zero_point, by_row)?;
    f.sub(wide, zero_point)
}

/// A parameter for all, or one per row or column.
pub(super) fn spread(f: &mut Scope<'_, '_>, x: ValueId, by_row: bool) -> Result<ValueId, Error> {
    let shape = f.shape(x);
    match *shape {
        [1] => f.reshape(x, &[]),
        [count] if by_row => f.reshape(x, &[count, 1]),
        _ => Ok(x),
    }
}

/// A convolution in 32 bits; operands x, w, and their zero points. Padding is at x's zero point.
fn conv_integer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let op = conv::conv(node)?;
    let groups = if let Op::Conv(op) = &op { op.groups } else { 1 };
    Ok(node
        .function(move |f| {
            let (x, w) = (f.input(0)?, f.input(1)?);
            let x = centered(f, x, f.get(2), false)?;
            let (shape, rank) = (f.shape(w), f.rank(w));
            let zero_point = match f.get(3) {
                // One per output channel.
                Some(id) if f.rank(id) == 1 && f.shape(id)[0] > 1 => {
                    let mut dims = vec![1; rank];
                    dims[0] = f.shape(id)[0];
                    Some(f.reshape(id, &dims)?)
                }
                other => other,
            };
            let w = centered(f, w, zero_point, false)?;
            if [x, w].iter().any(|&id| f.dtype(id) != DType::F32) || rank < 3 {
                return Err(f.wrong(format!("a convolution of integers with weights {shape}")));
            }
            let (channels, taps) = (shape[1], shape[2..].iter().product::<usize>().max(1));
            let most = exact::PRODUCTS / taps;
            if channels <= most {
                let y = f.op(op.clone(), &[x, w])?;
                return f.cast(y, DType::I32);
            }
            if most == 0 || groups > 1 {
                return by_digits(f, &op, [x, w], channels.saturating_mul(taps));
            }
            let mut sum = None;
            for from in (0..channels).step_by(most) {
                let to = (from + most).min(channels) as i64;
                let part = [f.slice(x, 1, from as i64, to)?, f.slice(w, 1, from as i64, to)?];
                let part = f.op(op.clone(), &part)?;
                let part = f.cast(part, DType::I32)?;
                sum = Some(match sum {
                    Some(sum) => f.add(sum, part)?,
                    None => part,
                });
            }
            sum.ok_or_else(|| f.wrong("a convolution without channels"))
        })
        .into())
}

/// A convolution of integers f32 of magnitudes up to 255, with so many products to a sum: both in digits, whose products are so
/// small that as many are exact.
fn by_digits(
    f: &mut Scope<'_, '_>,
    op: &Op,
    [x, w]: [ValueId; 2],
    products: usize,
) -> Result<ValueId, Error> {
    const BASE: i64 = 16;
    let most = (1 << 24) / (BASE * BASE) as usize;
    if products > most {
        return Err(f.unsupported(format!("sums of more than {most} products in groups or windows")));
    }
    let digits = |f: &mut Scope<'_, '_>, x: ValueId| -> Result<[ValueId; 2], Error> {
        let high = f.mul_number(x, 1.0 / BASE as f64)?;
        let high = f.unary(UnaryKind::Floor, high)?;
        let rest = f.mul_number(high, BASE as f64)?;
        Ok([f.sub(x, rest)?, high])
    };
    let (x, w) = (digits(f, x)?, digits(f, w)?);
    let mut sum = None;
    for (place, x) in x.into_iter().enumerate() {
        for (other, w) in w.into_iter().enumerate() {
            let part = f.op(op.clone(), &[x, w])?;
            let part = f.cast(part, DType::I32)?;
            let factor = f.integer(BASE.pow((place + other) as u32), DType::I32);
            let part = f.mul(part, factor)?;
            sum = Some(match sum {
                Some(sum) => f.add(sum, part)?,
                None => part,
            });
        }
    }
    sum.ok_or_else(|| f.wrong("a convolution of nothing"))
}

/// A · B in 32 bits; operands A, B, and their zero points.
fn matmul_integer(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    product(f, [f.input(0)?, f.input(1)?], [f.get(2), f.get(3)])
}

/// A · B in 32 bits without the zero points of both.
pub(super) fn product(
    f: &mut Scope<'_, '_>,
    [a, b]: [ValueId; 2],
    zero_points: [Option<ValueId>; 2],
) -> Result<ValueId, Error> {
    if let Some(sums) = exact::of_bytes(f, [a, b], zero_points, None)? {
        return Ok(sums);
    }
    let a = centered(f, a, zero_points[0], true)?;
    let b = centered(f, b, zero_points[1], false)?;
    exact::product(f, a, b)
}

/// A · B for bytes again: operands a, its scale and zero point, b and its own, and the result's.
fn qlinear_matmul(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (operands, zero_points) = ([f.input(0)?, f.input(3)?], [f.get(2), f.get(5)]);
    let mut scales = Vec::with_capacity(3);
    for (index, by_row) in [(1, true), (4, false), (6, true)] {
        let scale = f.input(index)?;
        let scale = f.cast(scale, DType::F32)?;
        scales.push(spread(f, scale, by_row)?);
    }
    let factor = f.mul(scales[0], scales[1])?;
    let factor = f.div(factor, scales[2])?;
    let scaled = if let Some(scaled) = exact::of_bytes(f, operands, zero_points, Some(factor))? {
        scaled
    } else {
        let sums = product(f, operands, zero_points)?;
        let reals = f.cast(sums, DType::F32)?;
        f.mul(reals, factor)?
    };
    let target = f.input(7)?;
    if f.shape(target).elements() == Some(1) && f.dtype(target).is_quantized() {
        // A quantizer rounds, adds and limits just so; a quotient by 1 is exact.
        let one = f.scalar(1.0, DType::F32);
        let target = f.reshape(target, &[])?;
        let op = QuantizeLinear { axis: 1, dtype: f.dtype(target) };
        return f.op(Op::QuantizeLinear(op), &[scaled, one, target]);
    }
    let rounded = f.unary(UnaryKind::Round, scaled)?;
    let zero_point = f.input(7)?;
    let dtype = f.dtype(zero_point);
    let Some((low, high)) = dtype.int_range().filter(|_| dtype.bytes() == 1) else {
        return Err(f.wrong(format!("a result of {dtype}")));
    };
    let zero_point = f.cast(zero_point, DType::F32)?;
    let zero_point = spread(f, zero_point, true)?;
    let moved = f.binary(BinaryKind::Add, rounded, zero_point)?;
    let clamped = f.unary(UnaryKind::Clip([low as f32, high as f32]), moved)?;
    f.cast(clamped, dtype)
}

operators! {
    DEFAULT_DOMAIN;
    "ConvInteger": [10] {2, 4, 1 => conv_integer};
    "MatMulInteger": [10] {2, 4, 1 => body matmul_integer} write super::bare;
    "QLinearConv": [10] {8, 9, 1 => qlinear::convolution};
    "QLinearMatMul": [10, 21] {8, 8, 1 => body qlinear_matmul};
}
