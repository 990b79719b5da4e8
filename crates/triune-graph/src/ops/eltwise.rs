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

/// Rows of rank 4 whose first elements turn in pairs by angles: a pair (a, b) becomes a·cos − b·sin and b·cos + a·sin; inputs x, cosines and
/// sines, whose last axis has one for each pair, and whose others are those of x or 1. What stands behind the pairs stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate {
    /// Whether a pair's elements are neighbours; else the second ones stand behind all first ones.
    pub interleaved: bool,
}

impl Rotate {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, cosines, sines) = (at.of_rank(0, 4)?, at.of_rank(1, 4)?, at.of_rank(2, 4)?);
        let fits = (0..3).all(|axis| cosines.shape[axis] == 1 || cosines.shape[axis] == x.shape[axis]);
        if !fits || cosines.shape != sines.shape || cosines.shape[3] > x.shape[3] / 2 {
            return Err(at.wrong(format!("angles {} and {} for {}", cosines.shape, sines.shape, x.shape)));
        }
        if !x.dtype.is_float() || [cosines.dtype, sines.dtype] != [x.dtype; 2] {
            return Err(
                at.wrong(format!("inputs of types {}, {} and {}", x.dtype, cosines.dtype, sines.dtype))
            );
        }
        at.like_input(x.shape)
    }
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
