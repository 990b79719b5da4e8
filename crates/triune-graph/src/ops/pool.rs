//! Pooling.

use triune_tensor::function::PoolKind;

use super::{
    AutoPad,
    infer::{Operands, TensorType},
    window::{Axis, Window},
};
use crate::Error;
use triune_tensor::text::List;

/// A sliding window without weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What is computed.
    pub kind: PoolKind,
    /// Window rows and columns.
    pub kernel: [usize; 2],
    /// Step of the window.
    pub stride: [usize; 2],
    /// Distance of two taps.
    pub dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub pad: [usize; 4],
    /// Who chooses `pad`.
    pub auto_pad: AutoPad,
    /// Whether a partial window at the end counts.
    pub ceil_mode: bool,
}

/// One result per image and channel, over any number of axes behind these; over two of them programs have an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalPool {
    /// What is computed; padding plays no part.
    pub kind: PoolKind,
}

/// A window of one size and step over the whole input, chosen for the wished output: along each axis the step is
/// ⌊in/out⌋ and the window in − (out − 1)·step. Inputs x and size, two integers: rows and columns of the result.
///
/// (`MegEngine`'s `AdaptivePooling`; other frameworks let windows differ.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptivePool {
    /// What is computed; there is no padding.
    pub kind: PoolKind,
}

impl AdaptivePool {
    /// The sliding window that makes `output` rows and columns of `input`; `None` when it asks for more than there are.
    pub fn window(self, input: [usize; 2], output: [usize; 2]) -> Option<Pool> {
        let fits = (0..2).all(|axis| (1..=input[axis]).contains(&output[axis]));
        let stride = [0, 1].map(|axis| input[axis].checked_div(output[axis]).unwrap_or(0));
        fits.then(|| Pool {
            kind: self.kind,
            kernel: [0, 1].map(|axis| input[axis] - (output[axis] - 1) * stride[axis]),
            stride,
            dilation: [1; 2],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        })
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, size) = (at.of_rank(0, 4)?, at.size(1)?);
        if self.window([x.shape[2], x.shape[3]], size).is_none() {
            return Err(at.wrong(format!("input {} cannot be pooled to {}", x.shape, List(&size))));
        }
        at.like_input(at.shape(&[x.shape[0], x.shape[1], size[0], size[1]])?)
    }
}

impl Pool {
    /// The window's attributes.
    pub(crate) fn window(&self) -> Window {
        Window {
            kernel: Some(self.kernel),
            stride: self.stride,
            dilation: self.dilation,
            pad: self.pad,
            auto_pad: self.auto_pad,
        }
    }

    /// Fixes `pad` and gives the result's type.
    pub(super) fn infer(&mut self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.of_rank(0, 4)?;
        for index in 0..2 {
            let (extent, kernel) = (x.shape[2 + index], self.kernel[index]);
            let (stride, dilation) = (self.stride[index], self.dilation[index]);
            if let Some(reason) =
                (Axis { extent, kernel, stride, dilation, ..Axis::ONE }).same_over_steps(self.auto_pad)
            {
                return Err(at.wrong(reason));
            }
        }
        let (pad, [rows, columns]) =
            self.window().resolve(at, self.kernel, [x.shape[2], x.shape[3]], self.ceil_mode)?;
        (self.pad, self.auto_pad) = (pad, AutoPad::Explicit);
        at.like_input(at.shape(&[x.shape[0], x.shape[1], rows, columns])?)
    }
}

impl GlobalPool {
    /// The mean.
    pub const AVERAGE: Self = Self { kind: PoolKind::Average { count_include_pad: false } };
    /// The largest.
    pub const MAX: Self = Self { kind: PoolKind::Max };

    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if x.shape.rank() < 3 || x.shape[2..].contains(&0) {
            return Err(at.wrong(format!("input {} has no elements to pool", x.shape)));
        }
        let mut dims = x.shape.to_vec();
        dims[2..].fill(1);
        at.like_input(at.shape(&dims)?)
    }
}
