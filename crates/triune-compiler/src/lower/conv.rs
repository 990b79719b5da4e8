//! Convolutions, and the matrix products with constant weights that run as 1×1 convolutions.

use bytes::Bytes;
use triune_device::{
    Addr, Weights,
    command::{AddParams, FConv, QConv, RequantTarget, Window},
};
use triune_graph::{
    Constant, Node, ValueId,
    ops::{AutoPad, Conv, Epilogue, PostOp},
};
use triune_kernels::{ConvGeometry, Q8, QAdd};
use triune_tensor::{
    DType, QuantParams, Shape,
    function::{BinaryKind, UnaryKind},
};

use super::{
    Form, Lowering, activation_first, extents, form::convolves_planes, has_contiguous_channels, lowers,
    operand, result,
};
use crate::{
    Error,
    view::{Home, View},
};

/// Most channels of an image, and those of a block of weights that reads one.
const IMAGE_CHANNELS: usize = 4;

/// What a convolution computes, whatever operator asked for it.
pub(super) struct Product<'a> {
    pub(super) geometry: ConvGeometry,
    pub(super) weights: Weights,
    /// Input channels of a group that the convolution reads; those that the weights do not have count as 0.
    pub(super) group_channels: usize,
    pub(super) weight_dtype: DType,
    pub(super) out_channels: usize,
    pub(super) bias: Option<ValueId>,
    pub(super) epilogue: &'a Epilogue,
}

lowers! {
    Conv => |to, node, op| to.conv(node, op);
}

impl Lowering<'_> {
    pub(super) fn conv(&mut self, node: &Node, op: &Conv) -> Result<(), Error> {
        let (x, w, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let weights = self
            .graph
            .value(w)
            .constant
            .clone()
            .ok_or_else(|| Error::unsupported(node, "weights that are computed at run time"))?;
        let [out_channels, group_channels, kh, kw] = *weights.shape() else {
            return Err(Error::unsupported(node, format!("weights of shape {}", weights.shape())));
        };
        if op.auto_pad != AutoPad::Explicit {
            return Err(Error::unsupported(node, "auto_pad that shape inference left open"));
        }
        if self.affine_planes(node, op, &weights)?
            || self.single_plane(node, op, &weights)?
            || self.few_results(node, op, &weights)?
        {
            return Ok(());
        }
        let mut geometry = ConvGeometry {
            kernel: [kh, kw],
            stride: op.stride,
            dilation: op.dilation,
            pad: op.pad,
            groups: op.groups,
        };
        let mut channels = group_channels;
        let input = match self.bordered(x) {
            // The border that the caller provides stands for the padding, as on the card.
            Some(bordered) => {
                geometry.pad = [0; 4];
                channels = bordered.dims[1];
                bordered
            }
            None => match self.picture(node, op)? {
                Some(planes) => planes,
                None => self.feature_map(node, x)?,
            },
        };
        let shared = op.groups > 1 && out_channels > op.groups;
        let input = if group_channels == 1 && shared && input.dtype == DType::F32 {
            geometry.groups = out_channels;
            self.repeated(node, &input, out_channels)?
        } else {
            input
        };
        let (bytes, recipe) = self.weight_elements(&weights);
        let product = Product {
            geometry,
            weights: Weights {
                bytes,
                recipe,
                elem_bytes: weights.dtype().bytes(),
                extents: [out_channels, kh * kw, group_channels],
                strides: [kh * kw * group_channels, 1, kh * kw],
            },
            group_channels: channels,
            weight_dtype: weights.dtype(),
            out_channels,
            bias: node.inputs.get(2).copied().flatten(),
            epilogue: &op.epilogue,
        };
        let output = self.place(y, Form::ChannelsLast)?;
        self.product(node, &product, &input, &output)
    }

    /// The planes of a picture that is convolved as it lies, see [`convolves_planes`].
    fn picture(&mut self, node: &Node, op: &Conv) -> Result<Option<View>, Error> {
        let x = operand(node, 0)?;
        let is_picture = self.io.block.is_none() && convolves_planes(self.graph, node, op, &self.pictures);
        if !is_picture || self.feature_maps.contains_key(&x) {
            return Ok(None);
        }
        let view = self.mapped(x)?;
        let in_planes = view.blocks.is_none()
            && !has_contiguous_channels(&view)
            && view.strides[3] == view.dtype.bytes() as u64;
        Ok(in_planes.then_some(view))
    }

    /// Each channel as often as there are results of it, so that every result has a channel of its own.
    fn repeated(&mut self, node: &Node, input: &View, channels: usize) -> Result<View, Error> {
        let &[n, c, h, w] = &*input.dims else {
            return Err(Error::unsupported(node, format!("an input of shape {}", input.dims)));
        };
        let dims = Shape::from([n, channels, h, w]);
        let own = View::channels_last(self.new_scratch(dims, input.dtype), input.dtype, dims);
        let apart = |view: &View, within: u64, of_channel: u64| {
            let mut apart = View { dims: Shape::from([n, h, w, c, channels / c.max(1)]), ..*view };
            let [of_image, _, of_row, of_column] = [0, 1, 2, 3].map(|axis| view.strides[axis]);
            apart.strides[..5].copy_from_slice(&[of_image, of_row, of_column, of_channel, within]);
            apart
        };
        let bytes = input.dtype.bytes() as u64;
        let to = apart(&own, bytes, (channels / c.max(1)) as u64 * bytes);
        self.copy(&apart(input, 0, input.strides[1]), &to)?;
        Ok(own)
    }

    /// A factor and an addend per channel, plane by plane: elementwise, for which nothing is transposed. Whether the node is that.
    fn affine_planes(&mut self, node: &Node, op: &Conv, weights: &Constant) -> Result<bool, Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let (dims, dtype) = self.meta(x)?;
        let &[_, channels, ..] = &*dims else { return Ok(false) };
        let alone = *weights.shape() == [channels, 1, 1, 1]
            && op.groups == channels
            && op.stride == [1, 1]
            && op.pad == [0; 4]
            && (dtype, weights.dtype()) == (DType::F32, DType::F32)
            && node.quant.is_none()
            && !op.epilogue.post_ops.iter().any(|post_op| matches!(post_op, PostOp::Residual(_)));
        if !alone || self.bordered(x).is_some() || !self.is_plane_by_plane(node) {
            return Ok(false);
        }
        let from = self.view(x)?;
        let output = self.place(y, Form::Dense)?;
        let factor = self.of_each_plane(node, weights.bytes(), dims)?;
        let addend = self.addend_of_planes(node, dims)?;
        let (activation, post_ops) = activation_first(&op.epilogue.post_ops);
        if let Some(addend) = &addend
            && activation == UnaryKind::Identity
        {
            let target = if post_ops.is_empty() { output } else { self.temporary(&output, DType::F32) };
            self.emit_triple(BinaryKind::Add, [&from, &factor, addend], &target)?;
            self.float_post_ops(node, &target, post_ops, &output)?;
            return Ok(true);
        }
        let target = if post_ops.is_empty() { output } else { self.temporary(&output, DType::F32) };
        let first = if addend.is_some() { UnaryKind::Identity } else { activation };
        // Not in place: an output that is read again cannot be written where the caller has it.
        let product = if addend.is_some() { self.temporary(&output, DType::F32) } else { target };
        self.emit_binary(node, BinaryKind::Mul, &from, &factor, &product, first)?;
        if let Some(addend) = addend {
            self.emit_binary(node, BinaryKind::Add, &product, &addend, &target, activation)?;
        }
        self.float_post_ops(node, &target, post_ops, &output)?;
        Ok(true)
    }

    /// A constant per channel of a value with these extents.
    fn of_each_plane(&mut self, node: &Node, bytes: &[u8], dims: Shape) -> Result<View, Error> {
        let offset = self.constants.add(bytes);
        let view = View::dense(Home::Constants, DType::F32, Shape::from([dims[1], 1, 1])).at(offset);
        view.broadcast(dims).ok_or_else(|| Error::unsupported(node, "a factor per channel"))
    }

    /// The bias of a convolution with such results.
    pub(super) fn addend_of_planes(&mut self, node: &Node, dims: Shape) -> Result<Option<View>, Error> {
        let Some(bias) = node.inputs.get(2).copied().flatten() else { return Ok(None) };
        let constant =
            self.graph.value(bias).constant.clone().filter(|constant| constant.dtype() == DType::F32);
        let constant =
            constant.ok_or_else(|| Error::unsupported(node, "a bias that is not a constant of f32"))?;
        if *constant.shape() != [dims[1]] {
            return Err(Error::unsupported(node, "a bias of another length than the output channels"));
        }
        self.of_each_plane(node, constant.bytes(), dims).map(Some)
    }

    /// The input view with its border, if `x` is an input that has one.
    pub(super) fn bordered(&self, x: ValueId) -> Option<View> {
        let index = self.graph.inputs.iter().position(|&input| input == x)?;
        self.io.inputs[index].bordered
    }

    /// Emits the convolution of `input` into `output`, both rank 4 with contiguous channels, or the input in planes, with its epilogue.
    pub(super) fn product(
        &mut self,
        node: &Node,
        product: &Product<'_>,
        input: &View,
        output: &View,
    ) -> Result<(), Error> {
        match (input.dtype, product.weight_dtype) {
            (DType::F32, DType::F32) => self.float_product(node, product, input, output),
            (DType::I8 | DType::U8, DType::I8) | (DType::I16, DType::I16) => {
                self.integer_product(node, product, input, output)
            }
            (a, b) => Err(Error::unsupported(node, format!("{a} input with {b} weights"))),
        }
    }

    fn float_product(
        &mut self,
        node: &Node,
        product: &Product<'_>,
        input: &View,
        output: &View,
    ) -> Result<(), Error> {
        // The command adds before it activates; post-ops in another order run as commands of their own.
        let mut post_ops = product.epilogue.post_ops.as_slice();
        let mut residual = None;
        if let [PostOp::Residual(_), rest @ ..] = post_ops {
            residual = Some(self.residual(node, output)?);
            post_ops = rest;
        }
        let (activation, post_ops) = activation_first(post_ops);
        let bias = self.float_bias(node, product)?;
        let weights = self.weights(node, product)?;
        let target = if post_ops.is_empty() { *output } else { self.temporary(output, DType::F32) };
        let command = FConv {
            input: self.map(input)?,
            output: self.map(&target)?,
            window: window(&product.geometry)?,
            weights,
            bias,
            residual: residual.as_ref().map(|view| self.map(view)).transpose()?,
            activation,
        };
        let mut touched = vec![input, &target];
        touched.extend(&residual);
        self.emit(command, &touched);
        self.float_post_ops(node, &target, post_ops, output)
    }

    fn float_bias(
        &mut self,
        node: &Node,
        product: &Product<'_>,
    ) -> Result<Option<triune_device::Addr>, Error> {
        let Some(bias) = product.bias else { return Ok(None) };
        let values = self
            .graph
            .value(bias)
            .constant
            .as_ref()
            .and_then(Constant::to_f32)
            .ok_or_else(|| Error::unsupported(node, "a bias that is not a constant of f32"))?;
        let values = spread(values, product.out_channels)
            .ok_or_else(|| Error::unsupported(node, "a bias of another length than the output channels"))?;
        Ok(Some(super::constant(self.constants.add_f32(&values))))
    }

    fn integer_product(
        &mut self,
        node: &Node,
        product: &Product<'_>,
        input: &View,
        output: &View,
    ) -> Result<(), Error> {
        let (x_quant, y_quant) = (self.operand_quant(node, 0)?, self.result_quant(node)?);
        if (input.dtype == DType::I16) != (output.dtype == DType::I16) {
            return Err(Error::unsupported(node, format!("{} made of {}", output.dtype, input.dtype)));
        }
        let scales = &*super::quantization(node)?.weights;
        let channels = product.out_channels;
        if scales.len() != 1 && scales.len() != channels {
            return Err(Error::unsupported(
                node,
                format!("{} weight scales for {channels} channels", scales.len()),
            ));
        }
        let epilogue = self.integer_epilogue(node, &product.epilogue.post_ops, y_quant, output)?;
        let multiplier = scales
            .iter()
            .map(|&scale| self.factor(node, x_quant.scale * scale / epilogue.target.scale, output.dtype))
            .collect::<Result<Vec<f32>, Error>>()?;
        let blocks = self.weight_blocks(product);
        let bias = match product.bias {
            None => None,
            Some(bias) => {
                let mut values = self
                    .graph
                    .value(bias)
                    .constant
                    .as_ref()
                    .and_then(Constant::to_i32)
                    .and_then(|values| spread(values, channels))
                    .ok_or_else(|| {
                        Error::unsupported(node, "a bias that is not a constant of i32 per channel")
                    })?;
                if let Some([outputs, _]) = blocks {
                    values.resize(channels.next_multiple_of(outputs), 0);
                }
                Some(super::constant(self.constants.add_i32(&values)))
            }
        };
        let (weights, weight_blocks) = match blocks {
            Some(blocks) => {
                let bytes = in_blocks(&*product.weights.made()?, product.group_channels, blocks);
                (super::constant(self.constants.add(&bytes)), extents(blocks)?)
            }
            None => (self.weights(node, product)?, [0, 0]),
        };
        let table = epilogue.table.map(|table| super::constant(self.constants.add(&table[..])));
        let command = QConv {
            input: self.map(input)?,
            output: self.map(output)?,
            window: window(&product.geometry)?,
            weights,
            weight_blocks,
            bias,
            multiplier: super::constant(self.constants.add_f32(&multiplier)),
            multipliers: multiplier.len() as u32,
            input_zero_point: x_quant.zero_point,
            result: RequantTarget { dtype: output.dtype, zero_point: epilogue.target.zero_point },
            rounding: self.graph.rounding,
            clamp: epilogue.clamp,
            table,
            residual: epilogue.residual.as_ref().map(|view| self.map(view)).transpose()?,
            add: epilogue.add.as_ref().map(add_params),
            conv_is_a: epilogue.add.is_some_and(|add| add.conv_is_a),
        };
        let mut touched = vec![input, output];
        touched.extend(&epilogue.residual);
        self.emit(command, &touched);
        Ok(())
    }

    /// Output and input channels of a block of weights: as many as a block of a feature map has; of images four, of
    /// depthwise convolutions one.
    fn weight_blocks(&self, product: &Product<'_>) -> Option<[usize; 2]> {
        let block = (self.io.block? as usize / product.weights.elem_bytes.max(1)).max(1);
        let inputs = match (product.group_channels, product.geometry.groups) {
            (1, 2..) => 1,
            (..=IMAGE_CHANNELS, 1) => IMAGE_CHANNELS,
            _ => block,
        };
        Some([block, inputs])
    }

    /// Where the weights are: in the library, if there is one, as the file has them; else in the constants, as the kernels
    /// take them.
    fn weights(&mut self, node: &Node, product: &Product<'_>) -> Result<Addr, Error> {
        let [_, _, group_channels] = product.weights.extents;
        match self.library {
            Some(library) if product.group_channels == group_channels => library
                .add(&product.weights)
                .ok_or_else(|| Error::unsupported(node, "weights without elements")),
            _ => {
                let weights = product.weights.made()?;
                Ok(super::constant(self.constants.add(&ohwi(&weights, product.group_channels))))
            }
        }
    }

    /// The fused addition's other operand: the node's last input.
    fn residual(&mut self, node: &Node, output: &View) -> Result<View, Error> {
        let id = operand(node, node.inputs.len() - 1)?;
        let view = self.mapped(id)?;
        let view = match view.plain().and_then(|view| view.reshaped(output.dims)) {
            _ if view.dims == output.dims && view.dims.rank() == 4 => self.feature_map(node, id)?,
            Some(view) if super::has_contiguous_channels(&view) => view,
            _ => return Err(Error::unsupported(node, "a fused addition of another shape")),
        };
        Ok(view)
    }

    fn integer_epilogue<'s>(
        &mut self,
        node: &Node,
        post_ops: &'s [PostOp],
        y_quant: QuantParams,
        output: &View,
    ) -> Result<IntegerEpilogue<'s>, Error> {
        let range = integer_range(output.dtype);
        let joined = post_ops.iter().any(|post_op| !matches!(post_op, PostOp::Clamp { .. }));
        if output.dtype == DType::I16 && joined {
            return Err(Error::unsupported(node, "a function or an addition fused into a 16-bit operator"));
        }
        let meaning = |post_op: &PostOp| match post_op {
            PostOp::Table { quant, .. } => Some(*quant),
            PostOp::Residual(residual) => residual.quant,
            PostOp::Clamp { .. } | PostOp::Activation(_) => None,
        };
        let mut epilogue = IntegerEpilogue {
            target: post_ops.iter().find_map(meaning).unwrap_or(y_quant),
            clamp: range,
            table: None,
            add: None,
            residual: None,
        };
        for (index, post_op) in post_ops.iter().enumerate() {
            match post_op {
                PostOp::Clamp { limits } => {
                    let clamp = match &mut epilogue.add {
                        Some(add) => &mut add.clamp,
                        None if epilogue.table.is_none() => &mut epilogue.clamp,
                        None => return Err(Error::unsupported(node, "limits behind a table")),
                    };
                    *clamp = [clamp[0].max(limits[0]), clamp[1].min(limits[1])];
                }
                PostOp::Table { table, .. } if epilogue.table.is_none() && epilogue.add.is_none() => {
                    epilogue.table = Some(table);
                }
                PostOp::Residual(residual) if epilogue.add.is_none() => {
                    let own = residual
                        .quant
                        .ok_or_else(|| Error::unsupported(node, "an addition without scales"))?;
                    let other = self.operand_quant(node, node.inputs.len() - 1)?;
                    let view = self.residual(node, output)?;
                    let sum = post_ops[index + 1..].iter().find_map(meaning).unwrap_or(y_quant);
                    let own = (q8(output.dtype, own), own.scale);
                    let other = (q8(view.dtype, other), other.scale);
                    let (a, b) = if residual.own_first { (own, other) } else { (other, own) };
                    let to = q8(output.dtype, sum);
                    let add = QAdd::new(
                        a.0,
                        a.1,
                        b.0,
                        b.1,
                        to,
                        sum.scale,
                        self.graph.rounding,
                        self.graph.requantize,
                    )
                    .map_err(|error| Error::unsupported(node, error.to_string()))?;
                    epilogue.add = Some(QAdd { conv_is_a: residual.own_first, ..add });
                    epilogue.residual = Some(view);
                }
                PostOp::Table { .. } | PostOp::Residual(_) | PostOp::Activation(_) => {
                    return Err(Error::unsupported(node, "an epilogue in an order that no command has"));
                }
            }
        }
        Ok(epilogue)
    }
}

struct IntegerEpilogue<'s> {
    /// What the accumulator is requantized to.
    target: QuantParams,
    clamp: [i32; 2],
    table: Option<&'s [u8; 256]>,
    add: Option<QAdd>,
    residual: Option<View>,
}

/// Encoding of an 8-bit value.
pub(super) fn q8(dtype: DType, quant: QuantParams) -> Q8 {
    Q8 { signed: dtype == DType::I8, zero_point: quant.zero_point }
}

/// Smallest and largest integer of a type that quantized operators compute on.
pub(super) fn integer_range(dtype: DType) -> [i32; 2] {
    match dtype {
        DType::I8 => [-128, 127],
        DType::I16 => [-32_768, 32_767],
        _ => [0, 255],
    }
}

/// A quantized addition's parameters as a command has them.
pub(super) fn add_params(add: &QAdd) -> AddParams {
    let target = |q: Q8| RequantTarget {
        dtype: if q.signed { DType::I8 } else { DType::U8 },
        zero_point: q.zero_point,
    };
    AddParams {
        a: target(add.a),
        b: target(add.b),
        out: target(add.out),
        ra: add.ra,
        rb: add.rb,
        k: add.k,
        rounding: add.rounding,
        clamp: add.clamp,
    }
}

/// A window as a command has it.
pub(super) fn window(geometry: &ConvGeometry) -> Result<Window, Error> {
    Ok(Window {
        kernel: extents(geometry.kernel)?,
        stride: extents(geometry.stride)?,
        dilation: extents(geometry.dilation)?,
        pad: extents(geometry.pad)?,
        groups: extents([geometry.groups])?[0],
    })
}

/// One value per channel from one value or one per channel.
fn spread<T: Copy>(values: Vec<T>, channels: usize) -> Option<Vec<T>> {
    match values.len() {
        length if length == channels => Some(values),
        1 => Some(vec![values[0]; channels]),
        _ => None,
    }
}

/// Weights as dense (O, KH, KW, `channels`), new input channels 0.
fn ohwi(weights: &Weights, channels: usize) -> Bytes {
    let dense = weights.dense();
    let (row, padded) = (weights.extents[2] * weights.elem_bytes, channels * weights.elem_bytes);
    if row == padded {
        return dense;
    }
    let rows = dense.chunks_exact(row.max(1));
    let mut out = vec![0; rows.len() * padded];
    for (from, to) in rows.zip(out.chunks_exact_mut(padded.max(1))) {
        to[..row].copy_from_slice(from);
    }
    out.into()
}

/// Weights of `channels` input channels as block of outputs, block of inputs, tap, output, input; zeros fill the last
/// blocks.
fn in_blocks(weights: &Weights, channels: usize, [outputs, inputs]: [usize; 2]) -> Vec<u8> {
    let dense = ohwi(weights, channels);
    let [all, taps, _] = weights.extents;
    let elem = weights.elem_bytes;
    let blocks = channels.div_ceil(inputs);
    let mut out = vec![0; all.next_multiple_of(outputs) * taps * blocks * inputs * elem];
    for (index, from) in dense.chunks_exact(elem).enumerate() {
        let (output, tap, input) = (index / (taps * channels), index / channels % taps, index % channels);
        let block = (output / outputs * blocks + input / inputs) * taps + tap;
        let to = (block * outputs + output % outputs) * inputs + input % inputs;
        out[to * elem..][..elem].copy_from_slice(from);
    }
    out
}

/// The rank-4 view (1, K, 1, M) of a matrix view (M, K): rows are pixels, columns channels.
pub(super) fn as_pixels(view: &View) -> Option<View> {
    let [m, k] = *view.dims else { return None };
    view.permuted(&[1, 0]).reshaped(Shape::from([1, k, 1, m]))
}
