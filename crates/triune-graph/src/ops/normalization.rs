//! Normalization at inference time.

use super::{
    Op,
    infer::{Operands, TensorType},
};
use crate::{
    Error,
    format::onnx::{NodeReader, NodeWriter},
};

/// (x − mean)/√(var + ε)·scale + bias, per channel (axis 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormalization {
    /// ε.
    pub epsilon: f32,
}

impl BatchNormalization {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        node.only("spatial", 1)?;
        node.only("training_mode", 0)?;
        node.ignore(&["momentum"]);
        node.drop_outputs(1)?;
        Ok(Op::BatchNormalization(Self { epsilon: node.float("epsilon", 1e-5)? }))
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter) {
        writer.float("epsilon", self.epsilon);
    }

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
