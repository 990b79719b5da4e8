//! Activation functions that are made of others.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, MANY, Meaning, NodeReader, Operator, Signature, normalization, operators};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{ArgReduce, BinaryKind, ReduceKind, Softmax, UnaryKind},
};

/// α·(eˣ − 1) up to 0, x above, all times γ.
fn selu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // The first version has its factors to fewer digits.
    let defaults = if node.since < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
    let (alpha, gamma) = (node.float("alpha", defaults.0)?, node.float("gamma", defaults.1)?);
    Ok(node
        .function(move |f| {
            let elu = f.unary(UnaryKind::Elu(alpha), f.input(0)?)?;
            f.mul_number(elu, f64::from(gamma))
        })
        .into())
}

/// max(0, x) + min(0, α·(e^(x/α) − 1)).
fn celu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.0)?;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let zero = f.scalar_like(0.0, x);
            let (above, below) = (f.binary(BinaryKind::Max, x, zero)?, f.binary(BinaryKind::Min, x, zero)?);
            let divisor = f.scalar_like(f64::from(alpha), x);
            let below = f.div(below, divisor)?;
            let below = f.unary(UnaryKind::Elu(1.0), below)?;
            let below = f.mul(below, divisor)?;
            f.add(above, below)
        })
        .into())
}

/// x above α, 0 elsewhere.
fn thresholded_relu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.0)?;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            f.unary(UnaryKind::ThresholdedRelu(alpha), x)
        })
        .into())
}

/// x + bias below −λ, x − bias above λ, 0 between.
fn shrink(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (bias, limit) = (f64::from(node.float("bias", 0.0)?), f64::from(node.float("lambd", 0.5)?));
    Ok(node
        .function(move |f| {
            // Integers are reals on the way, and cut again at its end.
            let (given, dtype) = (f.input(0)?, f.dtype(f.input(0)?));
            let x = if dtype.is_float() { given } else { f.cast(given, DType::F64)? };
            let bias = f.scalar_like(bias, x);
            let limit = f.scalar_like(limit, x);
            let negative = f.unary(UnaryKind::Neg, limit)?;
            let (raised, lowered) = (f.add(x, bias)?, f.sub(x, bias)?);
            let (above, below) =
                (f.binary(BinaryKind::Greater, x, limit)?, f.binary(BinaryKind::Less, x, negative)?);
            let zero = f.scalar_like(0.0, x);
            let rest = f.choose(above, lowered, zero)?;
            let y = f.choose(below, raised, rest)?;
            f.cast(y, dtype)
        })
        .into())
}

/// x·tanh(ln(1 + eˣ)).
fn mish(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let x = f.input(0)?;
    let gate = f.unary(UnaryKind::Softplus, x)?;
    let gate = f.unary(UnaryKind::Tanh, gate)?;
    f.mul(x, gate)
}

/// x/(1 + |x|).
fn softsign(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let x = f.input(0)?;
    f.unary(UnaryKind::Softsign, x)
}

/// x·σ(α·x).
pub(super) fn swish_of(f: &mut Scope<'_, '_>, x: ValueId, alpha: f32) -> Result<ValueId, Error> {
    if alpha.to_bits() == 1_f32.to_bits() {
        return f.unary(UnaryKind::Silu, x);
    }
    f.unary(UnaryKind::Gate { alpha, beta: 0.0 }, x)
}

fn swish(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.0)?;
    Ok(node.function(move |f| swish_of(f, f.input(0)?, alpha)).into())
}

/// The swish of one operand times the other, of the same extents.
fn swiglu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.0)?;
    Ok(node
        .function(move |f| {
            let (gate, x) = (f.input(0)?, f.input(1)?);
            if f.shape(gate) != f.shape(x) {
                return Err(f.wrong(format!("a gate {} for {}", f.shape(gate), f.shape(x))));
            }
            let gate = swish_of(f, gate, alpha)?;
            f.mul(gate, x)
        })
        .into())
}

/// x·Φ(x), or x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
fn gelu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let by_tanh = node.choice("approximate", "none", &[("none", false), ("tanh", true)])?;
    Ok(if by_tanh { GELU_BY_TANH } else { UnaryKind::Gelu }.into())
}

/// x/2·(1 + tanh u) = x/(1 + e⁻²ᵘ), u = √(2/π)·(x + 0.044715·x³).
pub(super) const GELU_BY_TANH: UnaryKind = UnaryKind::Gate { alpha: 1.595_769_2, beta: 0.071_354_814 };

/// Runs `body` along one axis. Before opset 13 all axes from the given one on form a row.
fn along_rows(
    node: &mut NodeReader<'_, '_>,
    body: fn(&mut Scope<'_, '_>, ValueId, usize) -> Result<ValueId, Error>,
) -> Result<Op, Error> {
    let flatten = node.since < 13;
    let axis = node.axis("axis", if flatten { 1 } else { -1 })? as i64;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            if !flatten {
                let axis = f.axis(x, axis)?;
                return body(f, x, axis);
            }
            let shape = f.shape(x);
            let axis = f.axis(x, axis)?;
            let (rows, row) = shape.split_at(axis);
            let flat = f.reshape(x, &[rows.iter().product(), row.iter().product()])?;
            let flat = body(f, flat, 1)?;
            f.reshape(flat, &shape)
        })
        .into())
}

/// x − max − ln Σ e^(x − max).
pub(super) fn log_softmax_of(f: &mut Scope<'_, '_>, x: ValueId, axis: usize) -> Result<ValueId, Error> {
    if f.shape(x).contains(&0) {
        return Ok(x);
    }
    f.op(Op::Softmax(Softmax { axis: axis as isize, flatten: false, log: true }), &[x])
}

/// 1 at the first of the largest elements along an axis, 0 elsewhere.
fn hardmax_of(f: &mut Scope<'_, '_>, x: ValueId, axis: usize) -> Result<ValueId, Error> {
    let shape = f.shape(x);
    if shape.contains(&0) {
        return Ok(x);
    }
    let largest = ArgReduce {
        kind: ReduceKind::Max,
        axis: axis as isize,
        keep_dims: true,
        last: false,
        dtype: DType::I64,
    };
    let at = f.op(Op::ArgReduce(largest), &[x])?;
    let places = f.places(shape[axis], shape.rank() - 1 - axis)?;
    let hit = f.binary(BinaryKind::Equal, places, at)?;
    let dtype = f.dtype(x);
    f.cast(hit, dtype)
}

/// The arithmetic mean of any number of operands.
fn mean(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let mut sum = f.input(0)?;
    for index in 1..f.inputs().len() {
        sum = f.add(sum, f.input(index)?)?;
    }
    let count = f.inputs().len();
    let count = f.scalar_like(count as f64, sum);
    f.div(sum, count)
}

operators! {
    DEFAULT_DOMAIN;
    "Celu": [12, 28] {1, 1, 1 => celu};
    "Gelu": [20] {1, 1, 1 => gelu} write super::bare;
    "Hardmax": [1, 11, 13] {1, 1, 1 => |node| along_rows(node, hardmax_of)};
    "LogSoftmax": [1, 11, 13] {1, 1, 1 => |node| along_rows(node, log_softmax_of)} write normalization::write_softmax;
    "Mean": [1, 6, 8, 13] {1, MANY, 1 => body mean};
    "Mish": [18, 22] {1, 1, 1 => body mish};
    "Selu": [1, 6, 22] {1, 1, 1 => selu};
    "Shrink": [9] {1, 1, 1 => shrink};
    "Softsign": [1, 22] {1, 1, 1 => body softsign};
    "SwiGLU": [28] {2, 2, 1 => swiglu};
    "Swish": [24] {1, 1, 1 => swish};
    "ThresholdedRelu": [10, 22] {1, 1, 1 => thresholded_relu};
}
