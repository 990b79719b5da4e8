//! Element by element over one operand.

use std::sync::Arc;

/// The function of one operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnaryKind {
    /// max(x, 0).
    Relu,
    /// x, or α·x below 0.
    LeakyRelu(f32),
    /// x, or α·(eˣ − 1) below 0.
    Elu(f32),
    /// Limits, both finite or infinite.
    Clip([f32; 2]),
    /// 1/(1 + e⁻ˣ).
    Sigmoid,
    /// x/(1 + e⁻ˣ), also called swish.
    Silu,
    /// max(0, min(1, α·x + β)).
    HardSigmoid {
        /// α.
        alpha: f32,
        /// β.
        beta: f32,
    },
    /// x·max(0, min(1, x/6 + 1/2)).
    HardSwish,
    /// Hyperbolic tangent.
    Tanh,
    /// eˣ.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// 1/x.
    Reciprocal,
    /// |x|.
    Abs,
    /// −x.
    Neg,
    /// ln(1 + eˣ).
    Softplus,
    /// Gauss error function.
    Erf,
    /// x·Φ(x).
    Gelu,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Nearest integer, half to even.
    Round,
}

/// One operand, element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unary {
    /// The function.
    pub kind: UnaryKind,
}

/// Clamp with limits as operands; becomes [`UnaryKind::Clip`] once they are constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip;

/// A 256-entry map of 8-bit values, indexed by the byte's unsigned pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The map.
    pub table: Arc<[u8; 256]>,
}
