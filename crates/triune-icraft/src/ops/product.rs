//! Convolutions and matrix products: weights, bias, multipliers.

use triune_graph::{
    Constant, Node, ValueId,
    format::xir::{Attribute, Axis, ElementType, ExpScale, Layout, Runs, Scale, Target, TensorType},
    ops::{Conv, Gemm},
    passes,
};
use triune_tensor::{DType, Multiplier, Shape};

use super::super::{
    emit::{Emitter, input, permuted, quantized},
    form::{Form, Style, padded, scalar, tensor},
    source::{Integers, Meaning, ends},
};
use crate::Error;

/// Most channels of an image, and those of a block of weights that reads one.
const IMAGE_CHANNELS: usize = 4;

/// Weights of zero point 0, and their scales.
struct Weights {
    constant: Constant,
    scales: Vec<f32>,
    /// The axis of output channels, which the scales run along.
    axis: usize,
}

impl Emitter<'_> {
    pub(super) fn conv(&mut self, node: &Node, op: &Conv) -> Result<(), Error> {
        if !op.epilogue.post_ops.is_empty() {
            return Err(Error::unsupported(node, "it is fused with what follows"));
        }
        let x = self.taken(node, 0, &Form::image())?;
        // In reals, weights lie as the host reads them, whoever runs it in the end.
        let integers = self.meanings(node).is_some() && self.weights(input(node, 1)?, 0).is_some();
        let blocks = if integers { self.weight_blocks(node, op.groups)? } else { None };
        let order = if blocks.is_some() { [0, 1, 2, 3] } else { [2, 3, 1, 0] };
        let [weights, bias] = self.parameters(node, 0, &order, "HWIO", blocks)?;
        let y = self.made(node, 0, &Form::image())?;
        let [top, left, bottom, right] = op.pad.map(number);
        let attributes = vec![
            ("cut_scale", no_scale()),
            ("dilation_height", number(op.dilation[0])),
            ("dilation_width", number(op.dilation[1])),
            ("groups", number(op.groups)),
            ("pad_bottom", bottom),
            ("pad_left", left),
            ("pad_right", right),
            ("pad_top", top),
            ("padding_mode", Attribute::Text("ZEROS".to_owned())),
            ("stride_height", number(op.stride[0])),
            ("stride_width", number(op.stride[1])),
        ];
        self.push("Conv2d", &node.name, vec![Some(x), weights, bias], vec![y], attributes);
        Ok(())
    }

    pub(super) fn gemm(&mut self, node: &Node, op: &Gemm) -> Result<(), Error> {
        let has_bias = node.inputs.get(2).copied().flatten().is_some();
        if !op.epilogue.post_ops.is_empty() {
            return Err(Error::unsupported(node, "it is fused with what follows"));
        }
        let scaled = op.trans_a || op.alpha != 1.0 || (has_bias && op.beta != 1.0);
        if scaled || self.constant(input(node, 1)?).is_none() {
            return self.general_gemm(node, op);
        }
        let form = Form::plain(2);
        let x = self.taken(node, 0, &form)?;
        let order: &[usize] = if op.trans_b { &[1, 0] } else { &[0, 1] };
        let [weights, bias] = self.parameters(node, usize::from(!op.trans_b), order, "IO", None)?;
        let y = self.made(node, 0, &form)?;
        self.push(
            "Matmul",
            &node.name,
            vec![Some(x), weights, bias],
            vec![y],
            vec![("cut_scale", no_scale())],
        );
        Ok(())
    }

    /// alpha·a·b + beta·c: a product of two values, and a weighted sum.
    fn general_gemm(&mut self, node: &Node, op: &Gemm) -> Result<(), Error> {
        let turned = |turned: bool| Form { order: if turned { vec![1, 0] } else { vec![0, 1] }, block: None };
        let a = self.taken(node, 0, &turned(op.trans_a))?;
        let b = self.taken(node, 1, &turned(op.trans_b))?;
        let plain = Form::plain(2);
        let y = self.made(node, 0, &plain)?;
        let addend = match node.inputs.get(2).copied().flatten() {
            Some(_) => self.broadcast(node, 2, &plain)?,
            None if op.alpha == 1.0 => {
                let scale = vec![("cut_scale", no_scale())];
                self.push("Matmul", &node.name, vec![Some(a), Some(b), None], vec![y], scale);
                return Ok(());
            }
            None => self.row(&format!("{}:none", node.name), &[0.0])?,
        };
        let element = ElementType::Scalar(scalar(DType::F32));
        let dtype = tensor(element, &self.dims(ends(node)?.1)?, plain.layout());
        let key = format!("{}:product", node.name);
        let product = self.value(&key, dtype, None);
        let scale = vec![("cut_scale", no_scale())];
        self.push("Matmul", &key, vec![Some(a), Some(b), None], vec![product], scale);
        let factor = |value: f32| Attribute::List(vec![Attribute::Float(f64::from(value))]);
        let attributes =
            vec![("alpha", factor(op.alpha)), ("beta", factor(op.beta)), ("cut_scale", no_scale())];
        self.push("Add", &node.name, vec![Some(product), Some(addend)], vec![y], attributes);
        Ok(())
    }

    pub(super) fn matmul(&mut self, node: &Node) -> Result<(), Error> {
        let (a, b) = (input(node, 0)?, input(node, 1)?);
        let [rank_a, rank_b] = [self.dims(a)?.rank(), self.dims(b)?.rank()];
        let x = self.taken(node, 0, &Form::plain(rank_a))?;
        let k = if self.constant(b).is_some() && rank_b == 2 {
            self.parameters(node, 1, &[0, 1], "IO", None)?[0]
        } else {
            Some(self.taken(node, 1, &Form::plain(rank_b))?)
        };
        let rank = rank_a.max(rank_b);
        let y = self.made(node, 0, &Form::plain(rank))?;
        self.push("Matmul", &node.name, vec![Some(x), k, None], vec![y], vec![("cut_scale", no_scale())]);
        Ok(())
    }

    /// y = variance·x + mean: the vendor keeps a normalization's parameters in the form in which they are applied.
    pub(super) fn batch_normalization(&mut self, node: &Node, epsilon: f32) -> Result<(), Error> {
        let parameter = |index: usize| -> Result<Vec<f32>, Error> {
            let known = self.constant(input(node, index)?).and_then(Constant::to_f32);
            known.ok_or_else(|| Error::unsupported(node, "its parameters are not constant"))
        };
        let (gamma, beta, mean, variance) = (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
        let factor = |(gamma, variance): (&f32, &f32)| {
            f64::from(*gamma) / (f64::from(*variance) + f64::from(epsilon)).sqrt()
        };
        let factors: Vec<f64> = gamma.iter().zip(&variance).map(factor).collect();
        let addends: Vec<f32> = beta
            .iter()
            .zip(&mean)
            .zip(&factors)
            .map(|((&beta, &mean), factor)| (f64::from(beta) - f64::from(mean) * factor) as f32)
            .collect();
        let factors: Vec<f32> = factors.into_iter().map(|factor| factor as f32).collect();
        let name = node.name.clone();
        let mean = self.row(&format!("{name}:mean"), &addends)?;
        let variance = self.row(&format!("{name}:variance"), &factors)?;
        let rank = self.dims(input(node, 0)?)?.rank();
        let kind = match rank {
            4 => "BatchNorm2d",
            2 | 3 => "BatchNorm1d",
            _ => return Err(Error::unsupported(node, format!("a normalization of rank {rank}"))),
        };
        let form = match rank {
            4 => Form::image(),
            3 => Form { order: vec![0, 2, 1], block: None },
            _ => Form::plain(2),
        };
        let x = self.taken(node, 0, &form)?;
        let y = self.made(node, 0, &form)?;
        let attributes = vec![("mean", Attribute::Value(mean)), ("variance", Attribute::Value(variance))];
        self.push(kind, &name, vec![Some(x)], vec![y], attributes);
        Ok(())
    }

    /// One real per channel.
    pub(super) fn row(&mut self, key: &str, values: &[f32]) -> Result<usize, Error> {
        let constant = Constant::from_f32(Shape::from([values.len()]), values)
            .ok_or_else(|| Error::target(format!("'{key}' has too many elements")))?;
        let dtype = tensor(ElementType::Scalar(scalar(DType::F32)), &[values.len()], axes("C"));
        Ok(self.value(key, dtype, Some(constant)))
    }

    /// Weights, whose output channels lie along `axis`, with their axes in `order`, and the bias.
    fn parameters(
        &mut self,
        node: &Node,
        axis: usize,
        order: &[usize],
        layout: &str,
        blocks: Option<Blocks>,
    ) -> Result<[Option<usize>; 2], Error> {
        let (id, bias) = (input(node, 1)?, node.inputs.get(2).copied().flatten());
        let meanings = self.meanings(node);
        let weights = self.weights(id, axis);
        let (Some(weights), Some((x, y))) = (weights, meanings) else {
            let (style, integers) = (self.dialect.style, self.source.integers(id));
            let weights = match (self.constant(id), integers) {
                (Some(_), Some(integers)) if style.is_some() => {
                    self.integers(id, integers, order, axes(layout))?
                }
                (Some(constant), _) => self.floats(id, constant, order, axes(layout))?,
                (None, _) => {
                    let why = "its weights are computed, and of such a convolution only one over integers, with both operands and \
                               the result quantized, is a product in the vendor's operators";
                    let cure = crate::without(&self.source.graph, node);
                    return Err(Error::unsupported(node, format!("{why}; {cure}")));
                }
            };
            let bias = bias.map(|id| self.real_bias(node, id)).transpose()?;
            return Ok([Some(weights), bias]);
        };
        let along = match blocks {
            Some(_) => 4,
            None => order.iter().position(|&each| each == axis).unwrap_or(0) as i64,
        };
        let (scale, scales) = self.scales(node, &weights, x, y, along, blocks)?;
        let name = self.source.graph.value(id).name.clone();
        let data = permuted(&weights.constant, order, &name)?;
        let element = quantized(data.dtype(), scale, Vec::new());
        let (dtype, data) = match blocks {
            None => (tensor(element, &data.shape(), axes(layout)), data),
            Some(blocks) => blocks.weights(element, &data).ok_or_else(|| {
                Error::unsupported(node, format!("weights of shape {} by blocks", data.shape()))
            })?,
        };
        let index = self.value(&name, dtype, Some(data));
        let bias = match bias {
            Some(id) => Some(self.integer_bias(node, id, x, &weights, &scales, blocks)?),
            None => None,
        };
        Ok([Some(index), bias])
    }

    /// The blocks that a convolution's weights lie in, when the accelerator runs it.
    fn weight_blocks(&self, node: &Node, groups: usize) -> Result<Option<Blocks>, Error> {
        let Some(hardware) = self.dialect.hardware.as_ref().filter(|_| self.target != Target::Host) else {
            return Ok(None);
        };
        let (x, w) = (input(node, 0)?, input(node, 1)?);
        let inner = self.dims(w)?.get(1).copied().unwrap_or(1);
        let elements = self.meaning(x).map_or(1, |meaning| meaning.dtype.bytes());
        let whole = hardware.block_bytes / elements;
        // As the accelerator's commands have them: depthwise weights by one channel, those of images by four.
        let inputs = match (inner, groups) {
            (1, 2..) => 1,
            (..=IMAGE_CHANNELS, 1) => IMAGE_CHANNELS,
            _ => whole,
        };
        Ok(Some(Blocks { outputs: whole, inputs }))
    }

    /// What a product's operand and result mean, when all of it is over integers.
    fn meanings(&self, node: &Node) -> Option<(Meaning, Meaning)> {
        let (x, y) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
        Some((self.meaning(x)?, self.meaning(y)?))
    }

    /// Signed weights of zero point 0, when that is what is behind the constant.
    fn weights(&self, id: ValueId, axis: usize) -> Option<Weights> {
        self.dialect.style?;
        let Integers { constant, scales, axis: own, zero_points } = self.source.integers(id)?;
        let all = |wanted: i64| zero_points.iter().all(|&zero_point| zero_point == wanted);
        if scales.len() != 1 && *own != axis {
            return None;
        }
        let constant = match constant.dtype() {
            DType::I8 | DType::I16 if all(0) => constant.clone(),
            DType::U8 if all(128) => {
                let bytes: Vec<u8> = constant.bytes().iter().map(|byte| byte ^ 0x80).collect();
                Constant::new(DType::I8, constant.shape(), bytes)?
            }
            _ => return None,
        };
        Some(Weights { constant, scales: scales.clone(), axis })
    }

    /// The scales of weights as the document has them, and what they are in reals.
    fn scales(
        &self,
        node: &Node,
        weights: &Weights,
        x: Meaning,
        y: Meaning,
        along: i64,
        blocks: Option<Blocks>,
    ) -> Result<(Scale, Vec<f32>), Error> {
        if self.dialect.style != Some(Style::Fixed) {
            let scales = match (weights.scales.as_slice(), blocks) {
                (&[scale], _) => Runs { axis: -1, runs: vec![(1, scale)] },
                (scales, Some(blocks)) => Runs::from_values(along, repeated(scales.to_vec(), blocks.outputs)),
                (scales, None) => Runs::from_values(along, scales.iter().copied()),
            };
            return Ok((Scale::Plain(scales), weights.scales.clone()));
        }
        let bits = 8 * y.dtype.bytes() as u32;
        let mut fixed = Vec::with_capacity(weights.scales.len());
        let mut reals = Vec::with_capacity(weights.scales.len());
        for &scale in &weights.scales {
            let factor = x.params.scale * scale / y.params.scale;
            let multiplier = Multiplier::fixed(factor, bits).ok_or_else(|| {
                Error::unsupported(
                    node,
                    format!("its multiplier {factor} is not one of m·2⁻ⁿ of the accelerator"),
                )
            })?;
            fixed.push(ExpScale {
                m: multiplier.m.into(),
                exp: multiplier.n.into(),
                origin: multiplier.value(),
            });
            reals.push(multiplier.value() * y.params.scale / x.params.scale);
        }
        let count = weights.constant.shape()[weights.axis];
        let count = blocks.map_or(count, |blocks| count.next_multiple_of(blocks.outputs));
        let scales = match *fixed.as_slice() {
            [scale] => Runs { axis: along, runs: vec![(count as u64, scale)] },
            _ => Runs::from_values(
                along,
                blocks.map_or_else(|| fixed.clone(), |blocks| repeated(fixed.clone(), blocks.outputs)),
            ),
        };
        Ok((Scale::Exp(scales), reals))
    }

    /// A bias in integers of the products' scale.
    fn integer_bias(
        &mut self,
        node: &Node,
        id: ValueId,
        x: Meaning,
        weights: &Weights,
        scales: &[f32],
        blocks: Option<Blocks>,
    ) -> Result<usize, Error> {
        let (channels, weight_scales) = (weights.constant.shape()[weights.axis], &weights.scales);
        let not_constant = || Error::unsupported(node, "its bias is not one constant per output channel");
        let constant = self.constant(id).filter(|constant| constant.elements() == channels);
        let reals = constant.and_then(Constant::to_f32).ok_or_else(not_constant)?;
        let integers = match self.source.integers(id) {
            Some(found)
                if found.constant.dtype() == DType::I32
                    && found.zero_points.iter().all(|&zero| zero == 0)
                    && passes::are_of_products(&found.scales, x.params.scale, weight_scales) =>
            {
                found.constant.to_i32().ok_or_else(not_constant)?
            }
            _ => {
                // As the quantization pass makes them of reals.
                let step = |channel: usize| {
                    x.params.scale * weight_scales[if weight_scales.len() == 1 { 0 } else { channel }]
                };
                let rounding = self.source.graph.rounding;
                reals
                    .iter()
                    .enumerate()
                    .map(|(channel, real)| rounding.round(real / step(channel)) as i32)
                    .collect()
            }
        };
        let data = Constant::from_i32(Shape::from([channels]), &integers).ok_or_else(not_constant)?;
        let steps: Vec<f32> = scales.iter().map(|scale| x.params.scale * scale).collect();
        let along = if steps.len() == 1 { -1 } else { i64::from(blocks.is_some()) };
        let element = |steps: Vec<f32>| {
            quantized(DType::I32, Scale::Plain(Runs::from_values(along, steps)), Vec::new())
        };
        let (dtype, data) = match blocks {
            None => (tensor(element(steps), &[channels], axes("O")), data),
            Some(blocks) => {
                let steps = if steps.len() == 1 { steps } else { repeated(steps, blocks.outputs) };
                blocks.row(element(steps), &data).ok_or_else(not_constant)?
            }
        };
        let name = self.source.graph.value(id).name.clone();
        Ok(self.value(&name, dtype, Some(data)))
    }

    fn real_bias(&mut self, node: &Node, id: ValueId) -> Result<usize, Error> {
        let constant =
            self.constant(id).ok_or_else(|| Error::unsupported(node, "its bias is not constant"))?;
        let elements = constant.elements();
        let row = constant
            .reshaped(Shape::from([elements]))
            .filter(|_| constant.shape().last().is_none_or(|&last| last == elements))
            .ok_or_else(|| Error::unsupported(node, "its bias is not one per output channel"))?;
        self.floats(id, &row, &[0], axes("O"))
    }

    pub(super) fn floats(
        &mut self,
        id: ValueId,
        constant: &Constant,
        order: &[usize],
        layout: Layout,
    ) -> Result<usize, Error> {
        let name = self.source.graph.value(id).name.clone();
        let data = permuted(constant, order, &name)?;
        let dtype = tensor(ElementType::Scalar(scalar(data.dtype())), &data.shape(), layout);
        Ok(self.value(&name, dtype, Some(data)))
    }
}

/// Blocks of a convolution's weights: output channels and input channels per block.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    outputs: usize,
    inputs: usize,
}

impl Blocks {
    /// Weights (O, I, rows, columns) in blocks, zeros behind the last channels.
    fn weights(self, element: ElementType, data: &Constant) -> Option<(TensorType, Constant)> {
        let [outputs, inputs, rows, columns] = *data.shape() else { return None };
        let blocks = [outputs.div_ceil(self.outputs), inputs.div_ceil(self.inputs)];
        let whole = [blocks[0] * self.outputs, blocks[1] * self.inputs, rows, columns];
        let split = [blocks[0], self.outputs, blocks[1], self.inputs, rows, columns];
        let data = filled(data, Shape::from(whole))?.reshaped(Shape::from(split))?;
        let data = data.permuted(&[0, 2, 4, 5, 1, 3])?;
        let mut dtype = tensor(element, &data.shape(), axes("OIHW"));
        let unit = |name, unit: usize| Axis { name, unit: unit as u64 };
        dtype.layout.axes.extend([unit('o', self.outputs), unit('i', self.inputs)]);
        dtype.merged = vec![padded(vec![0, 4], outputs, whole[0]), padded(vec![1, 5], inputs, whole[1])];
        Some((dtype, data))
    }

    /// One element per output channel in blocks.
    fn row(self, element: ElementType, data: &Constant) -> Option<(TensorType, Constant)> {
        let outputs = data.elements();
        let all = outputs.next_multiple_of(self.outputs);
        let split = Shape::from([all / self.outputs, self.outputs]);
        let data = filled(data, Shape::from([all]))?.reshaped(split)?;
        let mut dtype = tensor(element, &data.shape(), axes("O"));
        dtype.layout.axes.push(Axis { name: 'o', unit: self.outputs as u64 });
        dtype.merged = vec![padded(vec![0, 1], outputs, all)];
        Some((dtype, data))
    }
}

/// The constant with zeros behind its elements along each axis.
fn filled(constant: &Constant, to: Shape) -> Option<Constant> {
    let (from, width) = (constant.shape(), constant.dtype().bytes());
    let mut bytes = vec![0; to.elements()?.checked_mul(width)?];
    let row = from.last().copied().unwrap_or(1) * width;
    let (old, new) = (from.strides(), to.strides());
    for (index, elements) in constant.bytes().chunks_exact(row.max(1)).enumerate() {
        let mut rest = index * (row / width);
        let mut at = 0;
        for (&old, &new) in old.iter().zip(&*new) {
            at += rest / old * new;
            rest %= old;
        }
        bytes[at * width..][..row].copy_from_slice(elements);
    }
    Constant::new(constant.dtype(), to, bytes)
}

/// The last value again and again, up to a whole number of blocks.
fn repeated<T: Copy>(mut values: Vec<T>, block: usize) -> Vec<T> {
    if let Some(&last) = values.last() {
        values.resize(values.len().next_multiple_of(block), last);
    }
    values
}

/// A layout of plain axes.
pub(super) fn axes(names: &str) -> Layout {
    super::super::form::layout(names)
}

pub(super) fn number(value: usize) -> Attribute {
    Attribute::Int(value as i64)
}

/// No scale to cut products with: the result's own type says how they are rounded.
pub(super) fn no_scale() -> Attribute {
    Attribute::Text("@scales([axis=-1])".to_owned())
}
