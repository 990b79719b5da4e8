//! Sliding windows without weights, and resampling.

use triune_device::command::{self, GlobalPool, PoolKind, Quant, Resize};
use triune_graph::{
    Node, ValueId,
    ops::{self, AutoPad, CoordinateMode, NearestMode, ResizeMode},
};
use triune_kernels::ConvGeometry;
use triune_tensor::DType;

use super::{Form, Lowering, conv::window, operand, result, unsupported};
use crate::Error;

impl Lowering<'_> {
    pub(super) fn pool(&mut self, node: &Node, op: &ops::Pool) -> Result<(), Error> {
        if op.auto_pad != AutoPad::Explicit {
            return Err(unsupported(node, "auto_pad that shape inference left open"));
        }
        self.windowed(node, op)
    }

    pub(super) fn adaptive_pool(&mut self, node: &Node, op: ops::AdaptivePool) -> Result<(), Error> {
        let (x, y) = (self.meta(operand(node, 0)?)?.0, self.meta(result(node)?)?.0);
        let pool = match (&*x, &*y) {
            (&[.., h, w], &[.., rows, columns]) => op.window([h, w], [rows, columns]),
            _ => None,
        };
        let pool = pool.ok_or_else(|| unsupported(node, format!("{x} pooled to {y}")))?;
        self.windowed(node, &pool)
    }

    fn windowed(&mut self, node: &Node, op: &ops::Pool) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let input = self.feature_map(node, x)?;
        let output = self.place(y, Form::ChannelsLast)?;
        let geometry = ConvGeometry {
            kernel: op.kernel,
            stride: op.stride,
            dilation: op.dilation,
            pad: op.pad,
            groups: 1,
        };
        let command = command::Pool {
            input: self.map(&input)?,
            output: self.map(&output)?,
            window: window(&geometry)?,
            kind: pool_kind(op.kind),
            input_quant: self.meaning(node, x)?,
            output_quant: self.meaning(node, y)?,
            rounding: self.graph.rounding.into(),
            requantize: self.graph.requantize.into(),
        };
        self.emit(command, &[&input, &output]);
        Ok(())
    }

    pub(super) fn global_pool(&mut self, node: &Node, op: ops::GlobalPool) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let input = self.feature_map(node, x)?;
        let output = self.place(y, Form::ChannelsLast)?;
        let command = GlobalPool {
            input: self.map(&input)?,
            output: self.map(&output)?,
            kind: pool_kind(op.kind),
            input_quant: self.meaning(node, x)?,
            output_quant: self.meaning(node, y)?,
            rounding: self.graph.rounding.into(),
            requantize: self.graph.requantize.into(),
        };
        self.emit(command, &[&input, &output]);
        Ok(())
    }

    pub(super) fn resize(&mut self, node: &Node, op: ops::Resize) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let input = self.feature_map(node, x)?;
        let output = self.place(y, Form::ChannelsLast)?;
        if input.dims[..2] != output.dims[..2] {
            return Err(unsupported(
                node,
                format!("resampling {} to {} changes images or channels", input.dims, output.dims),
            ));
        }
        let given = node
            .inputs
            .get(2)
            .copied()
            .flatten()
            .and_then(|id| self.graph.value(id).constant.as_ref())
            .and_then(triune_graph::Constant::to_f32)
            .filter(|scales| scales.len() == 4);
        let scales = match given {
            Some(scales) => [scales[2], scales[3]],
            None => [2, 3].map(|axis| output.dims[axis] as f32 / input.dims[axis] as f32),
        };
        let command = Resize {
            input: self.map(&input)?,
            output: self.map(&output)?,
            mode: match op.mode {
                ResizeMode::Nearest(NearestMode::RoundPreferFloor) => {
                    command::ResizeMode::NearestRoundPreferFloor
                }
                ResizeMode::Nearest(NearestMode::RoundPreferCeil) => {
                    command::ResizeMode::NearestRoundPreferCeil
                }
                ResizeMode::Nearest(NearestMode::Floor) => command::ResizeMode::NearestFloor,
                ResizeMode::Nearest(NearestMode::Ceil) => command::ResizeMode::NearestCeil,
                ResizeMode::Linear if input.dtype == DType::F32 => command::ResizeMode::Linear,
                ResizeMode::Linear => return Err(unsupported(node, "linear resampling of 8-bit values")),
            },
            coordinates: match op.coordinates {
                CoordinateMode::Asymmetric => command::CoordinateMode::Asymmetric,
                CoordinateMode::HalfPixel => command::CoordinateMode::HalfPixel,
                CoordinateMode::PytorchHalfPixel => command::CoordinateMode::PytorchHalfPixel,
                CoordinateMode::AlignCorners => command::CoordinateMode::AlignCorners,
            },
            scales,
        };
        self.emit(command, &[&input, &output]);
        Ok(())
    }

    /// Meaning of a value's integers; floats have a neutral one.
    pub(super) fn meaning(&self, node: &Node, id: ValueId) -> Result<Quant, Error> {
        if self.graph.value(id).dtype.is_some_and(DType::holds_quantized) {
            let quant = self.quant_of(node, id)?;
            Ok(Quant { scale: quant.scale, zero_point: quant.zero_point })
        } else {
            Ok(Quant { scale: 1.0, zero_point: 0 })
        }
    }
}

fn pool_kind(kind: ops::PoolKind) -> PoolKind {
    match kind {
        ops::PoolKind::Max => PoolKind::Max,
        ops::PoolKind::Average { count_include_pad: false } => PoolKind::Average,
        ops::PoolKind::Average { count_include_pad: true } => PoolKind::AverageIncludingPad,
    }
}
