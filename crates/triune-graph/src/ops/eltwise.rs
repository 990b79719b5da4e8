//! Element by element over two operands.

use super::{
    Epilogue, Identity, Op,
    infer::{Operands, TensorType},
};
use crate::{Error, format::onnx::NodeReader};

/// The function of two operands.
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
        let both_quantized = a.dtype.is_quantized()
            && b.dtype.is_quantized()
            && at.quantized.first().is_some_and(Option::is_some);
        if a.dtype != b.dtype && !both_quantized {
            return Err(at.wrong(format!("inputs of types {} and {}", a.dtype, b.dtype)));
        }
        let shape = at.broadcast(&a.shape, &b.shape)?;
        self.epilogue.check(at, shape)?;
        at.like_input(shape)
    }
}

impl BinaryKind {
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
        }
    }
}
