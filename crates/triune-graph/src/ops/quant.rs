//! The border between reals and 8-bit integers.

use triune_tensor::DType;

use super::infer::{Operands, TensorType};
use crate::Error;

/// clamp(round-half-even(x/scale) + zero point).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLinear {
    /// The axis of per-channel parameters.
    pub axis: isize,
    /// Element type when no zero point is given to take it from.
    pub dtype: DType,
}

/// (q − zero point)·scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequantizeLinear {
    /// The axis of per-channel parameters.
    pub axis: isize,
}

/// An error unless scale and zero point are one value, or one per index of `axis`.
fn check(at: &Operands<'_>, axis: isize) -> Result<(), Error> {
    let x = at.input(0)?;
    let scale = at.input(1)?;
    if let Some(zero_point) = at.get(2)
        && zero_point.shape.elements() != scale.shape.elements()
    {
        return Err(at.wrong(format!("scale {} and zero point {}", scale.shape, zero_point.shape)));
    }
    if scale.shape.elements() == Some(1) {
        return Ok(());
    }
    let axis = at.axis(axis, x.shape.rank())?;
    if *scale.shape != [x.shape[axis]] {
        return Err(at.wrong(format!("scale {} does not fit axis {axis} of {}", scale.shape, x.shape)));
    }
    Ok(())
}

impl QuantizeLinear {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        check(at, self.axis)?;
        let x = at.input(0)?;
        let dtype = at.get(2).map_or(self.dtype, |zero_point| zero_point.dtype);
        Ok(vec![TensorType { dtype, shape: x.shape }])
    }
}

impl DequantizeLinear {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        check(at, self.axis)?;
        let (x, scale) = (at.input(0)?, at.input(1)?);
        if x.dtype.is_float() || x.dtype == DType::Bool || !scale.dtype.is_float() {
            return Err(at.wrong(format!("values of type {} and a scale of {}", x.dtype, scale.dtype)));
        }
        if let Some(zero_point) = at.get(2).filter(|zero_point| zero_point.dtype != x.dtype) {
            return Err(
                at.wrong(format!("values of type {} and a zero point of {}", x.dtype, zero_point.dtype))
            );
        }
        Ok(vec![TensorType { dtype: scale.dtype, shape: x.shape }])
    }
}
