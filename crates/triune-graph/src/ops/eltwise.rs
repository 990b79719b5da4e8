//! Element by element over two operands.

use super::{
    Epilogue, Identity, Op, UnaryKind,
    infer::{Operands, TensorType},
};
use triune_tensor::{DType, Shape};

use crate::{
    Constant, Error, ValueId,
    format::onnx::{NodeReader, NodeWriter},
};

/// The function of two operands, of one type. Integers wrap around, and a quotient by 0 is 0; where a kind says so, it is
/// for some types only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryKind {
    /// a + b.
    Add,
    /// a − b.
    Sub,
    /// a · b.
    Mul,
    /// a / b.
    Div,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// aᵇ.
    Pow,
    /// ⌊a / b⌋.
    FloorDiv,
    /// a − b·⌊a / b⌋: the remainder of b's sign.
    Mod,
    /// a − b·trunc(a / b): the remainder of a's sign.
    Rem,
    /// a, or a·b where a is negative.
    PRelu,
    /// The angle of the point (b, a); reals.
    Atan2,
    /// ln(eᵃ + eᵇ); reals.
    LogAddExp,
    /// Bit by bit, or of truth values; not for floats.
    And,
    /// Bit by bit, or of truth values; not for floats.
    Or,
    /// Bit by bit, or of truth values; not for floats.
    Xor,
    /// Towards the high bits; 0 beyond the type's width; integers.
    ShiftLeft,
    /// Towards the low bits, keeping the sign; integers.
    ShiftRight,
    /// The high half of 2·a·b, rounded half up, cut to the type's range; integers.
    MulHigh,
    /// a = b; a bool.
    Equal,
    /// a ≠ b; a bool.
    NotEqual,
    /// a < b; a bool.
    Less,
    /// a ≤ b; a bool.
    LessOrEqual,
    /// a > b; a bool.
    Greater,
    /// a ≥ b; a bool.
    GreaterOrEqual,
}

/// Two operands, broadcast as numpy does.
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
        if self.kind.is_question() {
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

impl BinaryKind {
    /// Whether the result is a bool, whatever the operands are.
    pub const fn is_question(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Less
                | Self::LessOrEqual
                | Self::Greater
                | Self::GreaterOrEqual
        )
    }

    /// Whether operands can be of this type.
    pub const fn takes(self, dtype: DType) -> bool {
        match self {
            Self::Atan2 | Self::LogAddExp => dtype.is_float(),
            Self::And | Self::Or | Self::Xor => !dtype.is_float(),
            Self::ShiftLeft | Self::ShiftRight | Self::MulHigh => {
                !dtype.is_float() && !matches!(dtype, DType::Bool)
            }
            Self::Min | Self::Max => true,
            _ if self.is_question() => true,
            _ => !matches!(dtype, DType::Bool),
        }
    }

    /// The operator's name in ONNX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::Pow => "Pow",
            Self::FloorDiv => "FloorDiv",
            Self::Mod | Self::Rem => "Mod",
            Self::PRelu => "PRelu",
            Self::Atan2 => "Atan2",
            Self::LogAddExp => "LogAddExp",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
            Self::ShiftLeft | Self::ShiftRight => "BitShift",
            Self::MulHigh => "MulHigh",
            Self::Equal => "Equal",
            Self::NotEqual => "NotEqual",
            Self::Less => "Less",
            Self::LessOrEqual => "LessOrEqual",
            Self::Greater => "Greater",
            Self::GreaterOrEqual => "GreaterOrEqual",
        }
    }
}
