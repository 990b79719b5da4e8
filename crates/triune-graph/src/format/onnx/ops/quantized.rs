//! Products of integers that stand for reals, exactly in 32 bits.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, Operator, Signature, operators};
use crate::{
    Error, ValueId,
    functions::Scope,
    ops::{BinaryKind, UnaryKind},
};

/// Operand `index` in 32 bits without its zero point, of which a matrix on the left may have one per row.
fn centered(f: &mut Scope<'_, '_>, index: usize, zero_point: usize, by_row: bool) -> Result<ValueId, Error> {
    let x = f.input(index)?;
    let wide = f.cast(x, DType::I32)?;
    let Some(zero_point) = f.get(zero_point) else { return Ok(wide) };
    if f.dtype(zero_point) != f.dtype(x) {
        return Err(f.wrong(format!("{} with a zero point of {}", f.dtype(x), f.dtype(zero_point))));
    }
    let zero_point = f.cast(zero_point, DType::I32)?;
    let zero_point = spread(f, zero_point, by_row)?;
    f.sub(wide, zero_point)
}

/// A parameter for all, or one per row or column.
fn spread(f: &mut Scope<'_, '_>, x: ValueId, by_row: bool) -> Result<ValueId, Error> {
    let shape = f.shape(x);
    match *shape {
        [1] => f.reshape(x, &[]),
        [count] if by_row => f.reshape(x, &[count, 1]),
        _ => Ok(x),
    }
}

/// A · B in 32 bits.
fn matmul_integer(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (a, b) = (centered(f, 0, 2, true)?, centered(f, 1, 3, false)?);
    f.matmul(a, b)
}

/// A · B for bytes again: operands a, its scale and zero point, b and its own, and the result's.
fn qlinear_matmul(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (a, b) = (centered(f, 0, 2, true)?, centered(f, 3, 5, false)?);
    let sums = f.matmul(a, b)?;
    let mut scales = Vec::with_capacity(3);
    for (index, by_row) in [(1, true), (4, false), (6, true)] {
        let scale = f.input(index)?;
        let scale = f.cast(scale, DType::F32)?;
        scales.push(spread(f, scale, by_row)?);
    }
    let factor = f.mul(scales[0], scales[1])?;
    let factor = f.div(factor, scales[2])?;
    let reals = f.cast(sums, DType::F32)?;
    let scaled = f.mul(reals, factor)?;
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
    "MatMulInteger": [10] {2, 4, 1 => body matmul_integer};
    "QLinearMatMul": [10, 21] {8, 8, 1 => body qlinear_matmul};
}
