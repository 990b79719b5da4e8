//! Convolution, and the epilogue that passes fuse to it.

use std::sync::Arc;

use triune_tensor::QuantParams;

use super::UnaryKind;

/// How a window's padding is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoPad {
    /// As the `pads` attribute says.
    #[default]
    Explicit,
    /// Output ⌈in/stride⌉, the odd element at the end.
    SameUpper,
    /// Output ⌈in/stride⌉, the odd element at the start.
    SameLower,
    /// None.
    Valid,
}

/// Two-dimensional convolution (1-D ones are read with a height of 1). Empty `kernel` means: from the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Window rows and columns.
    pub kernel: Option<[usize; 2]>,
    /// Step of the window.
    pub stride: [usize; 2],
    /// Distance of two taps.
    pub dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub pad: [usize; 4],
    /// Who chooses `pad`.
    pub auto_pad: AutoPad,
    /// Channel groups.
    pub groups: usize,
    /// What happens to a result before it is stored.
    pub epilogue: Epilogue,
}

/// Steps fused behind a convolution or matrix product, applied in order to each result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// The steps.
    pub stages: Vec<Stage>,
}

/// One fused step. In an integer operator, `quant` is the meaning of the 8-bit integer that *enters* the step: the
/// first step's `quant` is what the accumulator is requantized to; without steps that is the output value's.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Float operators only: an activation function.
    Activation(UnaryKind),
    /// Integer operators only: limits on the integer that the accumulator (or the addition before it) is rounded to.
    Clamp {
        /// Smallest and largest integer, in the domain of the output value's quantization (or the next stage's).
        limits: [i32; 2],
    },
    /// Integer operators only: a map of the 256 byte patterns.
    Table {
        /// Meaning of the integer before the map.
        quant: QuantParams,
        /// Indexed by the byte's unsigned pattern.
        table: Arc<[u8; 256]>,
    },
    /// Adds another tensor of the output's shape, the node's last input.
    Residual(Residual),
}

/// A fused addition.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// Integer operators only: meaning of this operator's own result before the addition.
    pub quant: Option<QuantParams>,
    /// Whether the operator's own result is the addition's first operand (the order matters to the last bit).
    pub own_first: bool,
}
