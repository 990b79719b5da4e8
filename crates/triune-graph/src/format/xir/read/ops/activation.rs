//! Functions of one operand, element by element.

use triune_tensor::DType;

use super::super::{View, node::Reader};
use crate::{
    Error, Op, ValueId,
    ops::{BinaryKind, UnaryKind, Where},
};

type Made = Result<ValueId, Error>;

/// Defines the result as `f` of the operand's reals.
pub(super) fn each(
    node: &mut Reader<'_, '_>,
    f: impl FnOnce(&mut Reader<'_, '_>, ValueId) -> Made,
) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let open = node.in_floats(x, View::Open)?;
    let open =
        if node.dtype(open).is_some_and(DType::is_float) { open } else { node.cast(open, DType::F32)? };
    let result = f(node, open)?;
    node.define_like(y, x, result)
}

/// A function that the graph has under another name.
pub(in super::super) fn function(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let kind = match node.kind() {
        "ACos" => UnaryKind::Acos,
        "ACosh" => UnaryKind::Acosh,
        "ASin" => UnaryKind::Asin,
        "ASinh" => UnaryKind::Asinh,
        "ATan" => UnaryKind::Atan,
        "ATanh" => UnaryKind::Atanh,
        "Abs" => UnaryKind::Abs,
        "Cos" => UnaryKind::Cos,
        "Cosh" => UnaryKind::Cosh,
        "GELU" | "Gelu" => UnaryKind::Gelu,
        "Hardswish" => UnaryKind::HardSwish,
        "Log" => UnaryKind::Log,
        "LogSigmoid" => UnaryKind::LogSigmoid,
        "Neg" => UnaryKind::Neg,
        "SiLU" | "Silu" => UnaryKind::Silu,
        "Sigmoid" => UnaryKind::Sigmoid,
        "Sin" => UnaryKind::Sin,
        "Sinh" => UnaryKind::Sinh,
        "Sqrt" => UnaryKind::Sqrt,
        "Tan" => UnaryKind::Tan,
        "Tanh" => UnaryKind::Tanh,
        _ => return Err(node.unknown()),
    };
    each(node, |node, x| node.unary(kind, x))
}

/// `max_value` from there on, alpha·(x − threshold) below the threshold, else x.
pub(in super::super) fn relu(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let alpha = node.float("alpha", 0.0)?;
    let most = node.float("max_value", f32::INFINITY)?;
    let threshold = node.float("threshold", 0.0)?;
    each(node, |node, x| {
        if threshold != 0.0 {
            let limit = node.scalar(threshold);
            let above = node.binary(BinaryKind::GreaterOrEqual, x, limit)?;
            let below = node.binary(BinaryKind::Sub, x, limit)?;
            let slope = node.scalar(alpha);
            let below = node.binary(BinaryKind::Mul, below, slope)?;
            let result = node.emit(Op::Where(Where), &[above, x, below])?;
            return at_most(node, result, most);
        }
        if alpha == 0.0 {
            return node.unary(
                if most == f32::INFINITY { UnaryKind::Relu } else { UnaryKind::Clip([0.0, most]) },
                x,
            );
        }
        let result = node.unary(UnaryKind::LeakyRelu(alpha), x)?;
        at_most(node, result, most)
    })
}

fn at_most(node: &mut Reader<'_, '_>, x: ValueId, most: f32) -> Made {
    if most == f32::INFINITY { Ok(x) } else { node.unary(UnaryKind::Clip([f32::NEG_INFINITY, most]), x) }
}

/// x, or x times its channel's slope where it is negative.
pub(in super::super) fn prelu(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let x = node.operand(0)?;
    let y = node.result(0)?;
    // Old files have the slopes among the operands.
    let slopes = match node.value("alpha")? {
        Some(slopes) => slopes,
        None => node.operand(1)?,
    };
    let slopes = node.aligned(slopes, y)?;
    let slopes = node.cast(slopes, DType::F32)?;
    let open = node.aligned(x, y)?;
    let result = node.binary(BinaryKind::PRelu, open, slopes)?;
    node.define(y, View::Open, result)
}

/// Between limits.
pub(in super::super) fn clamp(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let limits = [node.float("min", f32::NEG_INFINITY)?, node.float("max", f32::INFINITY)?];
    each(node, |node, x| node.unary(UnaryKind::Clip(limits), x))
}

/// Between limits that are -1 and 1 unless given.
pub(in super::super) fn hard_tanh(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let limits = [node.float("min_val", -1.0)?, node.float("max_val", 1.0)?];
    each(node, |node, x| node.unary(UnaryKind::Clip(limits), x))
}

/// x, or alpha·(eˣ − 1) below 0.
pub(in super::super) fn elu(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let alpha = node.float("alpha", 1.0)?;
    each(node, |node, x| node.unary(UnaryKind::Elu(alpha), x))
}

/// max(0, min(1, alpha·x + beta)).
pub(in super::super) fn hard_sigmoid(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (alpha, beta) = (node.float("alpha", 1.0 / 6.0)?, node.float("beta", 0.5)?);
    each(node, |node, x| node.unary(UnaryKind::HardSigmoid { alpha, beta }, x))
}

/// ln(1 + e^(beta·x)) / beta. From the threshold on, it is x to the precision of f32.
pub(in super::super) fn softplus(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let beta = node.float("beta", 1.0)?;
    let threshold = node.float("threshold", 20.0)?;
    each(node, |node, x| {
        let factor = node.scalar(beta);
        let scaled = if beta == 1.0 { x } else { node.binary(BinaryKind::Mul, x, factor)? };
        let mut result = node.unary(UnaryKind::Softplus, scaled)?;
        if beta != 1.0 {
            result = node.binary(BinaryKind::Div, result, factor)?;
        }
        if threshold >= 17.0 {
            return Ok(result);
        }
        let limit = node.scalar(threshold);
        let above = node.binary(BinaryKind::Greater, scaled, limit)?;
        node.emit(Op::Where(Where), &[above, x, result])
    })
}

/// x·tanh(ln(1 + eˣ)).
pub(in super::super) fn mish(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    each(node, |node, x| {
        let inner = node.unary(UnaryKind::Softplus, x)?;
        let inner = node.unary(UnaryKind::Tanh, inner)?;
        node.binary(BinaryKind::Mul, x, inner)
    })
}

/// x / (1 + |x|).
pub(in super::super) fn softsign(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    each(node, |node, x| {
        let size = node.unary(UnaryKind::Abs, x)?;
        let one = node.scalar(1.0);
        let below = node.binary(BinaryKind::Add, size, one)?;
        node.binary(BinaryKind::Div, x, below)
    })
}

/// x − tanh x.
pub(in super::super) fn tanh_shrink(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    each(node, |node, x| {
        let tanh = node.unary(UnaryKind::Tanh, x)?;
        node.binary(BinaryKind::Sub, x, tanh)
    })
}

fn lambda(node: &Reader<'_, '_>) -> Result<f32, Error> {
    let key = if node.attribute("lambda_").is_some() { "lambda_" } else { "lambda" };
    node.float(key, 0.5)
}

/// x where |x| is above lambda, else 0.
pub(in super::super) fn hard_shrink(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let lambda = lambda(node)?;
    each(node, |node, x| {
        let size = node.unary(UnaryKind::Abs, x)?;
        let (limit, zero) = (node.scalar(lambda), node.scalar(0.0));
        let above = node.binary(BinaryKind::Greater, size, limit)?;
        node.emit(Op::Where(Where), &[above, x, zero])
    })
}

/// x moved towards 0 by lambda, not beyond it.
pub(in super::super) fn soft_shrink(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let lambda = lambda(node)?;
    each(node, |node, x| {
        let between = node.unary(UnaryKind::Clip([-lambda, lambda]), x)?;
        node.binary(BinaryKind::Sub, x, between)
    })
}
