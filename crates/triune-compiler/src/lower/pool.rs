//! Sliding windows without weights, and resampling.

use triune_device::command::{self, GlobalPool, Quant, Resize};
use triune_graph::{
    Node, ValueId,
    ops::{self, AutoPad, PoolKind, ResizeMode},
};
use triune_kernels::ConvGeometry;
use triune_tensor::{DType, QuantParams, Shape};

use super::{Form, Lowering, conv::window, lowers, operand, result};
use crate::{Error, view::View};

/// Extents of a window from which on rows and columns are pooled one after the other, where that changes no result.
const LONG: usize = 5;

lowers! {
    Pool => |to, node, op| to.pool(node, op);
    GlobalPool => |to, node, op| to.global_pool(node, *op);
    Resize => |to, node, op| to.resize(node, *op);
    AdaptivePool => |to, node, op| to.adaptive_pool(node, *op);
}

impl Lowering<'_> {
    pub(super) fn pool(&mut self, node: &Node, op: &ops::Pool) -> Result<(), Error> {
        if op.auto_pad != AutoPad::Explicit {
            return Err(Error::unsupported(node, "auto_pad that shape inference left open"));
        }
        self.windowed(node, op)
    }

    pub(super) fn adaptive_pool(&mut self, node: &Node, op: ops::AdaptivePool) -> Result<(), Error> {
        let (x, y) = (self.meta(operand(node, 0)?)?.0, self.meta(result(node)?)?.0);
        let pool = match (&*x, &*y) {
            (&[.., h, w], &[.., rows, columns]) => op.window([h, w], [rows, columns]),
            _ => None,
        };
        let pool = pool.ok_or_else(|| Error::unsupported(node, format!("{x} pooled to {y}")))?;
        self.windowed(node, &pool)
    }

    fn windowed(&mut self, node: &Node, op: &ops::Pool) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let planes = if super::serves_planes(self.graph, node, op) { self.planes(node, x, y)? } else { None };
        let (input, output) = match planes {
            Some(planes) => planes,
            None => (self.feature_map(node, x)?, self.place(y, Form::ChannelsLast)?),
        };
        let quants = self.pooled(node)?;
        if op.kind == PoolKind::Max && input.dtype == DType::F32 && op.kernel[0].min(op.kernel[1]) >= LONG {
            // The largest of each row, then of those.
            let [top, left, bottom, right] = op.pad;
            let across = ops::Pool {
                kernel: [1, op.kernel[1]],
                stride: [1, op.stride[1]],
                dilation: [1, op.dilation[1]],
                pad: [0, left, 0, right],
                ..op.clone()
            };
            let down = ops::Pool {
                kernel: [op.kernel[0], 1],
                stride: [op.stride[0], 1],
                dilation: [op.dilation[0], 1],
                pad: [top, 0, bottom, 0],
                ..op.clone()
            };
            let mut dims = output.dims;
            dims.dims_mut()[2] = input.dims[2];
            let form = if planes.is_some() { View::dense } else { View::channels_last };
            let between = form(self.new_scratch(dims, DType::F32), DType::F32, dims);
            self.emit_pool(&across, &input, &between, quants)?;
            return self.emit_pool(&down, &between, &output, quants);
        }
        self.emit_pool(op, &input, &output, quants)
    }

    fn emit_pool(
        &mut self,
        op: &ops::Pool,
        input: &View,
        output: &View,
        [input_quant, output_quant]: [Quant; 2],
    ) -> Result<(), Error> {
        let geometry = ConvGeometry {
            kernel: op.kernel,
            stride: op.stride,
            dilation: op.dilation,
            pad: op.pad,
            groups: 1,
        };
        let command = command::Pool {
            input: self.map(input)?,
            output: self.map(output)?,
            window: window(&geometry)?,
            kind: op.kind,
            input_quant,
            output_quant,
            rounding: self.graph.rounding,
            requantize: self.graph.requantize,
        };
        self.emit(command, &[input, output]);
        Ok(())
    }

    pub(super) fn global_pool(&mut self, node: &Node, op: ops::GlobalPool) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        // Sums of integers have no order, and what reals become is the same on planes.
        let (_, dtype) = self.meta(x)?;
        let either = dtype.is_quantized() || dtype == DType::F32;
        let planes = if either { self.planes(node, x, y)? } else { None };
        let (input, output) = match planes {
            Some(planes) => planes,
            None => (self.feature_map(node, x)?, self.place(y, Form::ChannelsLast)?),
        };
        let [input_quant, output_quant] = self.pooled(node)?;
        let command = GlobalPool {
            input: self.map(&input)?,
            output: self.map(&output)?,
            kind: op.kind,
            input_quant,
            output_quant,
            rounding: self.graph.rounding,
            requantize: self.graph.requantize,
        };
        self.emit(command, &[&input, &output]);
        Ok(())
    }

    pub(super) fn resize(&mut self, node: &Node, op: ops::Resize) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let by_planes = matches!(op.mode, ResizeMode::Nearest(_)) || self.meta(x)?.1 == DType::F32;
        let planes = if by_planes { self.planes(node, x, y)? } else { None };
        let (input, output) = match planes {
            Some(planes) => planes,
            None => (self.feature_map(node, x)?, self.place(y, Form::ChannelsLast)?),
        };
        if input.dims[..2] != output.dims[..2] {
            return Err(Error::unsupported(
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
        let (mut zero_points, mut factor) = ([0; 2], 0.0);
        if op.mode == ResizeMode::Linear && input.dtype != DType::F32 {
            if node.quant.is_none() {
                return Err(Error::unsupported(
                    node,
                    format!(
                        "means of {}, integers without scales and zero points, of which the file does not state the type; write \
                         types into it (onnx.shape_inference.infer_shapes)",
                        input.dtype
                    ),
                ));
            }
            let [from, to] = [self.operand_quant(node, 0)?, self.result_quant(node)?];
            if !input.dtype.is_quantized() || input.dtype != output.dtype {
                return Err(Error::unsupported(node, format!("linear resampling of {}", input.dtype)));
            }
            zero_points = [from.zero_point, to.zero_point];
            factor = self.factor(node, from.scale / to.scale, input.dtype)?;
        }
        let command = Resize {
            input: self.map(&input)?,
            output: self.map(&output)?,
            mode: op.mode,
            coordinates: op.coordinates,
            scales,
            zero_points,
            factor,
            rounding: self.graph.rounding,
        };
        self.emit(command, &[&input, &output]);
        Ok(())
    }

    /// Operand and result of what is done plane by plane, each plane an image, if they lie so: nothing is transposed for it.
    fn planes(&mut self, node: &Node, x: ValueId, y: ValueId) -> Result<Option<(View, View)>, Error> {
        if !self.is_plane_by_plane(node) {
            return Ok(None);
        }
        let planes = |view: View| {
            let &[n, c, h, w] = &*view.dims else { return None };
            view.reshaped(Shape::from([n * c, 1, h, w]))
        };
        let (input, dims) = (self.view(x)?, self.meta(y)?.0);
        let Some(input) = planes(input).filter(|_| input.dims[..2] == dims[..2]) else { return Ok(None) };
        let output = self.place(y, Form::Dense)?;
        Ok(planes(output).map(|output| (input, output)))
    }

    /// What a pool's integers stand for before and behind it; nothing that matters for reals, and where integers are only
    /// compared.
    fn pooled(&self, node: &Node) -> Result<[Quant; 2], Error> {
        if node.op.moves() || self.meta(operand(node, 0)?)?.1.is_float() {
            return Ok([Quant { scale: 1.0, zero_point: 0 }; 2]);
        }
        let quants = [self.operand_quant(node, 0)?, self.result_quant(node)?];
        // A window of one element has the largest factor.
        self.factor(node, quants[0].scale / quants[1].scale, self.meta(result(node)?)?.1)?;
        Ok(quants.map(|QuantParams { scale, zero_point }| Quant { scale, zero_point }))
    }
}
