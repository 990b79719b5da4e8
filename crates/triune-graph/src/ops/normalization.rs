//! Normalization at inference time.

/// (x − mean)/√(var + ε)·scale + bias, per channel (axis 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormalization {
    /// ε.
    pub epsilon: f32,
}
