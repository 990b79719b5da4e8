//! Element by element over two operands.

use super::{
    Epilogue, Op,
    infer::{Operands, TensorType},
};
use triune_tensor::{DType, function::BinaryKind};

use crate::Error;

/// Two operands of one type, broadcast as numpy does; the result of a power has the base's. Integers wrap around, and a quotient by 0 is 0; some functions are for
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

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (a, b) = (at.input(0)?, at.input(1)?);
        let both_quantized = a.dtype.is_quantized() && b.dtype.is_quantized() && at.quantized.is_some();
        // An exponent is a number of its own.
        let exponent = self.kind == BinaryKind::Pow && self.kind.takes(b.dtype);
        if a.dtype != b.dtype && !both_quantized && !exponent {
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
