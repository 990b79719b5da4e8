//! Element by element over one operand.

use std::sync::Arc;

use triune_tensor::function::UnaryKind;

use super::{
    Op,
    infer::{Operands, TensorType},
};
use crate::{
    Error,
    format::onnx::{NodeReader, NodeWriter},
};

/// One operand, element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unary {
    /// The function.
    pub kind: UnaryKind,
}

/// Clamp with limits as operands; becomes [`UnaryKind::Clip`] once they are constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip;

/// A 256-entry map of 8-bit values, indexed by the byte's unsigned pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The map.
    pub table: Arc<[u8; 256]>,
}

impl From<UnaryKind> for Op {
    fn from(kind: UnaryKind) -> Self {
        Self::Unary(Unary { kind })
    }
}

impl Unary {
    pub(crate) fn leaky_relu_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        Ok(UnaryKind::LeakyRelu(node.float("alpha", 0.01)?).into())
    }

    pub(crate) fn elu_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        Ok(UnaryKind::Elu(node.float("alpha", 1.0)?).into())
    }

    pub(crate) fn hard_sigmoid_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
        Ok(UnaryKind::HardSigmoid { alpha, beta }.into())
    }

    pub(crate) fn gelu_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        node.choice("approximate", "none", &[("none", ())])?;
        Ok(UnaryKind::Gelu.into())
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter) -> Result<(), String> {
        match self.kind {
            UnaryKind::LeakyRelu(alpha) | UnaryKind::Elu(alpha) => writer.float("alpha", alpha),
            UnaryKind::HardSigmoid { alpha, beta } => {
                writer.float("alpha", alpha);
                writer.float("beta", beta);
            }
            UnaryKind::HardSwish => writer.needs(14),
            UnaryKind::Gelu => writer.needs(20),
            UnaryKind::Clip(_) => return Err("limits that are not operands cannot be written as ONNX".into()),
            UnaryKind::Silu => return Err("the fused Silu cannot be written as ONNX".into()),
            UnaryKind::Identity
            | UnaryKind::Relu
            | UnaryKind::Sigmoid
            | UnaryKind::Tanh
            | UnaryKind::Exp
            | UnaryKind::Log
            | UnaryKind::Sqrt
            | UnaryKind::Reciprocal
            | UnaryKind::Abs
            | UnaryKind::Neg
            | UnaryKind::Softplus
            | UnaryKind::Erf
            | UnaryKind::Floor
            | UnaryKind::Ceil
            | UnaryKind::Round
            | UnaryKind::Sin
            | UnaryKind::Cos
            | UnaryKind::Tan
            | UnaryKind::Asin
            | UnaryKind::Acos
            | UnaryKind::Atan
            | UnaryKind::Sinh
            | UnaryKind::Cosh
            | UnaryKind::Asinh
            | UnaryKind::Acosh
            | UnaryKind::Atanh
            | UnaryKind::Sign => {}
            UnaryKind::Expm1
            | UnaryKind::Log1p
            | UnaryKind::Erfc
            | UnaryKind::ErfInv
            | UnaryKind::ErfcInv
            | UnaryKind::FastTanh
            | UnaryKind::RoundHalfAway
            | UnaryKind::Square
            | UnaryKind::Rsqrt
            | UnaryKind::LogSigmoid => {
                return Err("the function has no operator in ONNX".into());
            }
        }
        Ok(())
    }
}

impl Clip {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        // Before opset 11 the limits are attributes.
        for (index, name) in [(1, "min"), (2, "max")] {
            if let Some(limit) = node.maybe_float(name)? {
                let limit = node.new_scalar(name, limit);
                node.set_input(index, limit);
            }
        }
        Ok(Op::Clip(Self))
    }

    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        for index in 1..=2 {
            if let Some(limit) = at.get(index)
                && (limit.shape.elements() != Some(1) || limit.dtype != x.dtype)
            {
                return Err(at.wrong(format!("limit {index} is not one value of type {}", x.dtype)));
            }
        }
        at.like_input(x.shape)
    }
}

impl Table {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if !x.dtype.is_quantized() {
            return Err(at.wrong(format!("an input of type {}; 8 bits are expected", x.dtype)));
        }
        at.like_input(x.shape)
    }
}
