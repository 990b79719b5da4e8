//! Softmax.

use super::{
    Op,
    infer::{Operands, TensorType},
};
use crate::{
    Error,
    format::onnx::{NodeReader, NodeWriter},
};

/// exp(x − max)/Σ along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Whether all axes from `axis` on form one (ONNX before opset 13).
    pub flatten: bool,
}

impl Softmax {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let flatten = node.opset < 13;
        let axis = node.axis("axis", if flatten { 1 } else { -1 })?;
        Ok(Op::Softmax(Self { axis, flatten }))
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter) -> Result<(), String> {
        if self.flatten {
            return Err("a softmax over several axes cannot be written in opset 13".into());
        }
        writer.int("axis", self.axis as i64);
        Ok(())
    }

    pub(super) fn infer(&mut self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rank = x.shape.rank();
        // The flattening form may split behind the last axis: rows of one element then.
        if !(self.flatten && self.axis == rank as isize) {
            let axis = at.axis(self.axis, rank)?;
            if self.flatten && x.shape[axis + 1..].iter().all(|&extent| extent == 1) {
                // Nothing but this axis is in a row, which is the plain form.
                *self = Self { axis: axis as isize, flatten: false };
            }
        }
        at.like_input(x.shape)
    }
}
