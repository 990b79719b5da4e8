//! The border between reals and 8-bit integers.

use triune_tensor::DType;

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
