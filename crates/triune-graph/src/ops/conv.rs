//! Convolution, and the epilogue that passes fuse to it.

use std::sync::Arc;

use triune_tensor::{DType, QuantParams, Shape, text::List};

use super::{
    UnaryKind,
    infer::{Operands, TensorType},
    window::Window,
};
use crate::Error;

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

/// Functions fused behind a convolution or matrix product (post-ops), applied in order to each result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// The functions.
    pub post_ops: Vec<PostOp>,
}

/// One of them. In an integer operator, `quant` is the meaning of the 8-bit integer that *enters* it: the
/// first one's `quant` is what the accumulator is requantized to; without any that is the output value's.
#[derive(Clone, Debug, PartialEq)]
pub enum PostOp {
    /// Float operators only: an activation function.
    Activation(UnaryKind),
    /// Integer operators only: limits on the integer that the accumulator (or the addition before it) is rounded to.
    Clamp {
        /// Smallest and largest integer, in the domain of the output value's quantization (or the next one's).
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

impl Conv {
    /// The window's attributes.
    pub(crate) fn window(&self) -> Window {
        Window {
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            pad: self.pad,
            auto_pad: self.auto_pad,
        }
    }

    /// Fixes `kernel` and `pad` and gives the result's type.
    pub(super) fn infer(&mut self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, weights) = (at.of_rank(0, 4)?, at.of_rank(1, 4)?);
        let (channels, outputs) = (x.shape[1], weights.shape[0]);
        let kernel = [weights.shape[2], weights.shape[3]];
        if let Some(own) = self.kernel.filter(|own| *own != kernel) {
            let own = List(&own);
            return Err(at.wrong(format!("weights {} do not have the window {own}", weights.shape)));
        }
        if self.groups == 0
            || !outputs.is_multiple_of(self.groups)
            || weights.shape[1].checked_mul(self.groups) != Some(channels)
        {
            return Err(at.wrong(format!(
                "weights {} in {} groups do not fit the input {}",
                weights.shape, self.groups, x.shape
            )));
        }
        check_types(at, x.dtype, weights.dtype)?;
        check_bias(at, outputs)?;
        let (pad, [rows, columns]) = self.window().resolve(at, kernel, [x.shape[2], x.shape[3]], false)?;
        (self.kernel, self.pad, self.auto_pad) = (Some(kernel), pad, AutoPad::Explicit);
        let shape = at.shape(&[x.shape[0], outputs, rows, columns])?;
        self.epilogue.check(at, shape)?;
        at.like_input(shape)
    }
}

/// An error unless operands of these types can be multiplied.
pub(super) fn check_types(at: &Operands<'_>, x: DType, weights: DType) -> Result<(), Error> {
    if x == weights && x.is_float() {
        return Ok(());
    }
    let alike = x.is_quantized() && weights.is_quantized() || x == weights && x.holds_quantized();
    if alike && at.quantized.is_some() {
        return Ok(());
    }
    Err(at.wrong(format!("inputs of types {x} and {weights}; equal floats or quantized values are expected")))
}

/// An error unless the third operand, where given, has one element per result channel.
fn check_bias(at: &Operands<'_>, channels: usize) -> Result<(), Error> {
    match at.get(2) {
        Some(bias) if *bias.shape != [channels] => {
            Err(at.wrong(format!("bias {} does not have {channels} elements", bias.shape)))
        }
        _ => Ok(()),
    }
}

impl Epilogue {
    /// An error unless a fused addend, the node's last operand, has the result's shape.
    pub(super) fn check(&self, at: &Operands<'_>, shape: Shape) -> Result<(), Error> {
        if self.post_ops.iter().any(|post_op| matches!(post_op, PostOp::Residual(_))) {
            let addend = at.input(at.inputs.len().saturating_sub(1))?;
            if addend.shape != shape {
                return Err(at.wrong(format!("fused addend {} of a result {shape}", addend.shape)));
            }
        }
        Ok(())
    }
}
