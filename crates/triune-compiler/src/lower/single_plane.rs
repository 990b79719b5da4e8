//! Convolutions of images with one channel, plane by plane: each result is a convolution of its own, for which nothing is transposed.

use triune_device::command::FConv;
use triune_graph::{
    Constant, Node,
    ops::{Conv, PostOp},
};
use triune_kernels::ConvGeometry;
use triune_tensor::{DType, function::UnaryKind};

use super::{Form, Lowering, activation_first, constant, conv::window, operand, result};
use crate::Error;

/// Most results, each of which takes a command of its own.
const RESULTS: usize = 64;
/// Least elements of a result: fewer are sooner transposed than commands are begun.
const ELEMENTS: usize = 512;
/// Columns of a window for which there is a kernel.
const COLUMNS: std::ops::RangeInclusive<usize> = 2..=16;

impl Lowering<'_> {
    /// A convolution for each result. Whether the node is that.
    pub(super) fn single_plane(&mut self, node: &Node, op: &Conv, weights: &Constant) -> Result<bool, Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let ((dims, dtype), (to_dims, _)) = (self.meta(x)?, self.meta(y)?);
        let (&[_, 1, ..], &[_, results, rows, columns], &[_, 1, kh, kw]) =
            (&*dims, &*to_dims, &*weights.shape())
        else {
            return Ok(false);
        };
        let (activation, post_ops) = activation_first(&op.epilogue.post_ops);
        let fits = (2..=RESULTS).contains(&results)
            && rows.saturating_mul(columns) >= ELEMENTS
            && kh > 1
            && COLUMNS.contains(&kw)
            && (op.groups, op.stride) == (1, [1, 1])
            && (dtype, weights.dtype()) == (DType::F32, DType::F32)
            && node.quant.is_none()
            && matches!(activation, UnaryKind::Identity | UnaryKind::Relu | UnaryKind::Clip(_))
            && !op.epilogue.post_ops.iter().any(|post_op| matches!(post_op, PostOp::Residual(_)));
        // Nobody wants the result otherwise, and the image is a plane.
        let by_planes = self.io.block.is_none()
            && !self.becomes_map[y.0 as usize]
            && self.views[x.0 as usize].is_some_and(|view| view.is_dense());
        if !fits || self.bordered(x).is_some() || !by_planes {
            return Ok(false);
        }
        let bias = match node.inputs.get(2).copied().flatten() {
            None => None,
            Some(bias) => match self.graph.value(bias).constant.as_ref().and_then(Constant::to_f32) {
                Some(values) if values.len() == results => Some(values),
                _ => return Ok(false),
            },
        };
        let geometry = ConvGeometry {
            kernel: [kh, kw],
            stride: op.stride,
            dilation: op.dilation,
            pad: op.pad,
            groups: 1,
        };
        let from = self.view(x)?;
        let output = self.place(y, Form::Dense)?;
        let target = if post_ops.is_empty() { output } else { self.temporary(&output, DType::F32) };
        for (index, taps) in weights.bytes().chunks_exact(4 * kh * kw).enumerate() {
            let to = target.sliced(1, index, 1, 1);
            let command = FConv {
                input: self.map(&from)?,
                output: self.map(&to)?,
                window: window(&geometry)?,
                weights: constant(self.constants.add(taps)),
                bias: bias.as_ref().map(|values| constant(self.constants.add_f32(&values[index..=index]))),
                residual: None,
                activation,
            };
            self.emit(command, &[&from, &to]);
        }
        self.float_post_ops(node, &target, post_ops, &output)?;
        Ok(true)
    }
}
