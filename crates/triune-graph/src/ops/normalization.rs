//! Normalization at inference time.

use super::infer::{Operands, TensorType};
use crate::Error;

/// (x − mean)/√(var + ε)·scale + bias, per channel (axis 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormalization {
    /// ε.
    pub epsilon: f32,
}

impl BatchNormalization {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if x.shape.rank() < 2 {
            return Err(at.wrong(format!("input {} has no channel axis", x.shape)));
        }
        for index in 1..5 {
            let operand = at.input(index)?;
            if *operand.shape != [x.shape[1]] || operand.dtype != x.dtype {
                return Err(at.wrong(format!(
                    "input {index} has shape {} and type {}; ({}) and {} are expected",
                    operand.shape, operand.dtype, x.shape[1], x.dtype
                )));
            }
        }
        at.like_input(x.shape)
    }
}
