//! Normalization: by given statistics, or by those of the operand itself.

use triune_tensor::DType;

use super::infer::{Operands, TensorType};
use crate::Error;

/// (x − mean)/√(var + ε)·scale + bias, per channel (axis 1; one axis alone is one channel).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormalization {
    /// ε.
    pub epsilon: f32,
}

impl BatchNormalization {
    /// How many channels a value of this shape has.
    pub(crate) fn channels(shape: &[usize]) -> usize {
        shape.get(1).copied().unwrap_or(1)
    }

    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if x.shape.rank() == 0 {
            return Err(at.wrong(format!("input {} has no channel axis", x.shape)));
        }
        let channels = Self::channels(&x.shape);
        for index in 1..5 {
            let operand = at.input(index)?;
            if *operand.shape != [channels] || operand.dtype != x.dtype {
                return Err(at.wrong(format!(
                    "input {index} has shape {} and type {}; ({channels}) and {} are expected",
                    operand.shape, operand.dtype, x.dtype
                )));
            }
        }
        at.like_input(x.shape)
    }
}

/// (x − mean)/√(variance + ε)·scale + bias over 8-bit integers, or over f32 along the last axes, by statistics of the axes from one
/// to another; over 8-bit integers with 0 in the mean's place, too. Inputs: x, optional scale and bias, f32 of as many elements as those axes have.
///
/// Formats spell it out in reals; passes find it there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    /// The first of the axes, and one past the last.
    pub axes: [usize; 2],
    /// ε, above 0.
    pub epsilon: f32,
    /// Whether the mean is taken off: else the variance is the mean square.
    pub centred: bool,
}

impl LayerNorm {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let [first, end] = self.axes;
        if first >= end || end > x.shape.rank() {
            return Err(at.wrong(format!("axes {first} to {end} of {}", x.shape)));
        }
        let elements: usize = x.shape[first..end].iter().product();
        for index in 1..3 {
            if let Some(row) = at.get(index)
                && (row.shape.elements() != Some(elements) || row.dtype != DType::F32)
            {
                return Err(at.wrong(format!("input {index} is {} of {}", row.shape, row.dtype)));
            }
        }
        at.like_input(x.shape)
    }
}
