//! Softmax.

use super::infer::{Operands, TensorType};
use crate::Error;

/// exp(x − max)/Σ along `axis`, or that one's logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Whether all axes from `axis` on form one (ONNX before opset 13).
    pub flatten: bool,
    /// Whether the result is the logarithm, x − max − ln Σ exp(x − max).
    pub log: bool,
}

impl Softmax {
    pub(super) fn infer(&mut self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rank = x.shape.rank();
        // The flattening form may split behind the last axis: rows of one element then.
        if !(self.flatten && self.axis == rank as isize) {
            let axis = at.axis(self.axis, rank)?;
            if self.flatten && x.shape[axis + 1..].iter().all(|&extent| extent == 1) {
                // Nothing but this axis is in a row, which is the plain form.
                *self = Self { axis: axis as isize, flatten: false, ..*self };
            }
        }
        at.like_input(x.shape)
    }
}
