//! Element by element over two operands.

use super::{
    Epilogue, Identity, Op,
    infer::{Operands, TensorType},
};
use triune_tensor::{
    DType, Shape,
    function::{BinaryKind, UnaryKind},
};

use crate::{
    Constant, Error, ValueId,
    format::onnx::{NodeReader, NodeWriter},
};

/// Two operands of one type, broadcast as numpy does. Integers wrap around, and a quotient by 0 is 0; some functions are for
/// some types only ([`BinaryKind::takes`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// The function.
    pub kind: BinaryKind,
    /// What happens to a result before it is stored.
    pub epilogue: Epilogue,
}

impl From<BinaryKind> for Op {
    fn from(kind: BinaryKind) -> Self {
        Self::Binary(Binary::new(kind))
    }
}

impl Binary {
    /// The operator without an epilogue.
    pub fn new(kind: BinaryKind) -> Self {
        Self { kind, epilogue: Epilogue::default() }
    }

    /// An operator of any number of operands, as a chain from the left.
    pub(crate) fn chain_from_onnx(node: &mut NodeReader<'_, '_>, kind: BinaryKind) -> Result<Op, Error> {
        if node.inputs.iter().any(Option::is_none) {
            return Err(node.unsupported("an input is missing"));
        }
        if node.inputs.len() == 1 {
            return Ok(Op::Identity(Identity));
        }
        let operands = std::mem::take(&mut node.inputs);
        let last = operands.len() - 1;
        let mut left = operands[0];
        for &right in &operands[1..last] {
            let inner = node.new_value("partial");
            node.emit_before(kind.into(), &[left, right], inner);
            left = Some(inner);
        }
        node.inputs = vec![left, operands[last]];
        Ok(kind.into())
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (a, b) = (at.input(0)?, at.input(1)?);
        let both_quantized = a.dtype.is_quantized() && b.dtype.is_quantized() && at.quantized.is_some();
        if a.dtype != b.dtype && !both_quantized {
            return Err(at.wrong(format!("inputs of types {} and {}", a.dtype, b.dtype)));
        }
        if !self.kind.takes(a.dtype) {
            return Err(at.wrong(format!("inputs of type {}", a.dtype)));
        }
        let shape = at.broadcast(&a.shape, &b.shape)?;
        if self.kind.comparison().is_some() {
            return Ok(vec![TensorType { dtype: DType::Bool, shape }]);
        }
        self.epilogue.check(at, shape)?;
        at.like_input(shape)
    }
}

impl Binary {
    /// A remainder: of the dividend's sign when `fmod` is set, of the divisor's otherwise.
    pub(crate) fn mod_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        Ok(if node.flag("fmod")? { BinaryKind::Rem } else { BinaryKind::Mod }.into())
    }

    pub(crate) fn bit_shift_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let kinds = [("LEFT", BinaryKind::ShiftLeft), ("RIGHT", BinaryKind::ShiftRight)];
        Ok(node.choice("direction", "", &kinds)?.into())
    }

    /// !x, as x ≠ true.
    pub(crate) fn not_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let truth = Self::truth(node)?;
        node.set_input(1, truth);
        Ok(BinaryKind::Xor.into())
    }

    /// Not x = x.
    pub(crate) fn is_nan_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let x = node.inputs[0];
        let number = node.new_value("number");
        node.emit_before(BinaryKind::Equal.into(), &[x, x], number);
        let truth = Self::truth(node)?;
        node.inputs = vec![Some(number), Some(truth)];
        Ok(BinaryKind::Xor.into())
    }

    /// x = ∞ or −∞, as the attributes ask.
    pub(crate) fn is_inf_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let negative = node.int("detect_negative")?.unwrap_or(1) != 0;
        let positive = node.int("detect_positive")?.unwrap_or(1) != 0;
        let limit = match (negative, positive) {
            (true, true) => {
                let magnitude = node.new_value("magnitude");
                node.emit_before(UnaryKind::Abs.into(), &[node.inputs[0]], magnitude);
                node.inputs = vec![Some(magnitude)];
                f32::INFINITY
            }
            (false, true) => f32::INFINITY,
            (true, false) => f32::NEG_INFINITY,
            (false, false) => return Err(node.unsupported("neither infinity is asked for")),
        };
        let limit = node.new_scalar("infinity", limit);
        node.set_input(1, limit);
        Ok(BinaryKind::Equal.into())
    }

    fn truth(node: &mut NodeReader<'_, '_>) -> Result<ValueId, Error> {
        let truth = Constant::new(DType::Bool, Shape::from([]), vec![1]);
        let truth = truth.ok_or_else(|| node.unsupported("no constant"))?;
        Ok(node.new_constant("true", truth))
    }

    pub(super) fn to_onnx(&self, writer: &mut NodeWriter) -> Result<(), String> {
        self.epilogue.to_onnx()?;
        match self.kind {
            BinaryKind::Rem => writer.int("fmod", 1),
            BinaryKind::ShiftLeft => writer.text("direction", "LEFT"),
            BinaryKind::ShiftRight => writer.text("direction", "RIGHT"),
            BinaryKind::FloorDiv
            | BinaryKind::Atan2
            | BinaryKind::LogAddExp
            | BinaryKind::MulHigh
            | BinaryKind::NotEqual => {
                return Err("the function has no operator in ONNX".into());
            }
            _ => {}
        }
        Ok(())
    }
}
