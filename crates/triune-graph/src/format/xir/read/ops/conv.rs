//! Convolutions, and what they share with matrix products: constant weights and biases.

use triune_tensor::{DType, Shape};

use super::super::{
    Meaning, View,
    constant::{Dense, Scales, floats},
    form::FlatAxis,
    node::Reader,
};
use crate::{
    Constant, Error, Op, ValueId,
    ops::{AutoPad, Conv, Epilogue, Pad, PadMode, Slice},
};

/// Steps, distances and borders of a window, rows before columns.
pub(in super::super) struct Window {
    pub(in super::super) stride: [usize; 2],
    pub(in super::super) dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub(in super::super) pad: [usize; 4],
}

/// Weights that are constants: their elements, and what one step stands for.
pub(in super::super) struct Weights {
    pub(in super::super) dense: Dense,
    /// The axis of `dense` that output channels run along.
    pub(in super::super) axis: usize,
    /// Real scales and zero points: one for all, or one per output channel. `None` for plain numbers.
    pub(in super::super) scales: Option<(Vec<f32>, Vec<i64>)>,
    /// Output channels that a multiplier of 0 makes 0 whatever their weights are.
    dead: Vec<bool>,
}

impl Reader<'_, '_> {
    /// The scale of all of an activation's elements; 1 for reals.
    fn step(&self, index: usize) -> Result<f32, Error> {
        match self.typed(index)?.meaning {
            Meaning::Plain => Ok(1.0),
            Meaning::Ratio(scales) | Meaning::Quantized { scales, .. } => match scales.as_slice() {
                &[scale] => Ok(scale),
                _ => Err(self.unsupported("a product of values with several scales")),
            },
        }
    }

    /// Whether the integers of a product are computed as such.
    fn is_integer(&self, index: usize) -> Result<bool, Error> {
        Ok(matches!(self.typed(index)?.meaning, Meaning::Quantized { .. }))
    }

    /// Constant weights over the axes `names`, `O` among them.
    ///
    /// Weights may have rows for the padding of the operand or the result: those are left out. `inputs` and `outputs` are the
    /// axes of channels of the two, with how many groups share the weights' input channels.
    pub(in super::super) fn weights(
        &self,
        index: usize,
        names: &str,
        ends: (usize, usize),
        channels: (&FlatAxis, &FlatAxis),
        groups: usize,
    ) -> Result<Weights, Error> {
        let (inputs, outputs) = channels;
        let fitting = |axis: &FlatAxis, total: usize| {
            let padded = axis.extent() != Some(total) && axis.total == Some(total);
            if padded { axis.positions() } else { None }
        };
        let dense = self.dense(index, names, |name, total| match name {
            'I' if groups == 1 => fitting(inputs, total),
            'O' => fitting(outputs, total),
            _ => None,
        })?;
        let axis = names.find('O').unwrap_or(0);
        let total = self.total(index, 'O')?;
        let Some(found) = self.constant_scales(index, total)? else {
            let dead = vec![false; dense.taken[axis].len()];
            return Ok(Weights { dense, axis, scales: None, dead });
        };
        let Scales { values, multipliers, zero_points } = found;
        let (x, y) = (self.step(ends.0)?, self.step(ends.1)?);
        // A multiplier is what a product's integers are multiplied with to be the result's.
        let real = |scale: f32| if multipliers { scale * y / x } else { scale };
        let taken = &dense.taken[axis];
        let mut scales: Vec<f32> = match values.as_slice() {
            &[scale] => vec![real(scale)],
            values => taken.iter().map(|&channel| real(values[channel])).collect(),
        };
        let zero_points = match zero_points.as_slice() {
            [] => vec![0; scales.len()],
            &[zero_point] => vec![zero_point; scales.len()],
            points if scales.len() == 1 && points.iter().all(|point| *point == points[0]) => vec![points[0]],
            points if scales.len() == taken.len() => taken.iter().map(|&channel| points[channel]).collect(),
            points => return Err(self.unsupported(format!("{} zero points beside one scale", points.len()))),
        };
        let dead: Vec<bool> =
            (0..taken.len()).map(|channel| scales[channel.min(scales.len() - 1)] == 0.0).collect();
        for scale in &mut scales {
            if *scale == 0.0 {
                *scale = 1.0;
            }
        }
        let mut weights = Weights { dense, axis, scales: Some((scales, zero_points)), dead };
        weights.silence(|reason| self.unsupported(reason))?;
        Ok(weights)
    }

    /// All elements along the axis of a constant called `name`, with padding.
    fn total(&self, index: usize, name: char) -> Result<usize, Error> {
        let form = super::super::Form::of(&self.builder.document.values[index].dtype)
            .map_err(|reason| self.unsupported(reason))?;
        let axis = form.named(name).and_then(|axis| form.flat[axis].total);
        axis.ok_or_else(|| self.unsupported(format!("constant without an axis {name}")))
    }

    /// The reals of weights: of integers unless everything is computed in reals.
    pub(in super::super) fn install(&mut self, weights: &Weights) -> Result<ValueId, Error> {
        let extents = weights.dense.extents();
        let shape = Shape::new(&extents).ok_or_else(|| self.unsupported("weights of too many axes"))?;
        let make = |dtype: DType, bytes: Vec<u8>| Constant::new(dtype, shape, bytes);
        let too_many = "weights of too many elements";
        let Some((scales, zero_points)) = &weights.scales else {
            let reals = floats(weights.dense.dtype, &weights.dense.bytes);
            let reals = reals.ok_or_else(|| self.unsupported("weights that are integers without a scale"))?;
            let constant = Constant::from_f32(shape, &reals).ok_or_else(|| self.unsupported(too_many))?;
            return Ok(self.constant("weights", constant));
        };
        let dtype = weights.dense.dtype;
        let constant = make(dtype, weights.dense.bytes.clone()).ok_or_else(|| self.unsupported(too_many))?;
        if !matches!(dtype, DType::I8 | DType::U8 | DType::I16) {
            return Err(self.unsupported(format!("weights of type {dtype}")));
        }
        if self.builder.options.fake_qf {
            let reals = weights.reals(&constant).ok_or_else(|| self.unsupported(too_many))?;
            let constant = Constant::from_f32(shape, &reals).ok_or_else(|| self.unsupported(too_many))?;
            return Ok(self.constant("weights", constant));
        }
        let id = self.constant("weights", constant);
        self.dequantize(id, dtype, weights.axis, scales, zero_points)
    }

    /// The reals of a bias with one element per output channel, in a form that fits the products' integers.
    pub(in super::super) fn bias(
        &mut self,
        index: usize,
        weights: &Weights,
        ends: (usize, usize),
        outputs: &FlatAxis,
    ) -> Result<ValueId, Error> {
        if !self.is_constant(index) {
            return Err(self.unsupported("a bias that is not constant"));
        }
        let form = super::super::Form::of(&self.builder.document.values[index].dtype)
            .map_err(|reason| self.unsupported(reason))?;
        let long: Vec<char> =
            form.flat.iter().filter(|axis| axis.total != Some(1)).map(|axis| axis.name).collect();
        let axis = match long.as_slice() {
            [] => form.flat.last().map(|axis| axis.name),
            [name] => Some(*name),
            _ => None,
        };
        let name = axis.ok_or_else(|| self.unsupported("a bias of several axes"))?;
        let mut taken_as = None;
        if name == '*' {
            // One axis that matters, whatever it is called.
            taken_as = form.flat.iter().position(|axis| axis.total != Some(1)).or(Some(form.flat.len() - 1));
        }
        let count = weights.dense.taken[weights.axis].len();
        let pick = |_: char, total: usize| {
            (total != count && outputs.total == Some(total)).then(|| outputs.positions()).flatten()
        };
        let dense = self.dense_row(index, name, taken_as, pick)?;
        if dense.taken[0].len() != count {
            return Err(
                self.wrong(format!("a bias of {} elements for {count} channels", dense.taken[0].len()))
            );
        }
        let total = form.flat.iter().map(|axis| axis.total.unwrap_or(1)).product();
        let Some(found) = self.constant_scales(index, total)? else {
            let reals = floats(dense.dtype, &dense.bytes)
                .ok_or_else(|| self.unsupported("an integer bias without a scale"))?;
            let reals: Vec<f32> =
                reals.iter().zip(&weights.dead).map(|(real, dead)| if *dead { 0.0 } else { *real }).collect();
            return self.row("bias", &reals);
        };
        if found.zero_points.iter().any(|&zero_point| zero_point != 0) {
            return Err(self.unsupported("a bias with zero points"));
        }
        let shape = Shape::from([count]);
        let integers =
            Constant::new(dense.dtype, shape, dense.bytes.clone()).and_then(|constant| constant.to_i64());
        let integers =
            integers.ok_or_else(|| self.unsupported(format!("a quantized bias of type {}", dense.dtype)))?;
        let (x, y) = (self.step(ends.0)?, self.step(ends.1)?);
        // The bias of multipliers counts in products, of which a multiplier makes steps of the result.
        let real = |scale: f32| if found.multipliers { scale * y } else { scale };
        let scale = |channel: usize| match found.values.as_slice() {
            &[scale] => real(scale),
            values => real(values[dense.taken[0][channel]]),
        };
        let product = |channel: usize| {
            let (scales, _) = weights.scales.as_ref()?;
            Some(x * scales[channel.min(scales.len() - 1)])
        };
        let fits = |channel: usize| {
            weights.dead[channel]
                || product(channel)
                    .is_some_and(|product| (scale(channel) - product).abs() <= product.abs() * 1e-5)
        };
        let narrow: Option<Vec<i32>> = integers
            .iter()
            .zip(&weights.dead)
            .map(|(&value, dead)| if *dead { Some(0) } else { i32::try_from(value).ok() })
            .collect();
        let integer = !self.builder.options.fake_qf && self.is_integer(ends.0)? && (0..count).all(fits);
        let Some(narrow) = narrow.filter(|_| integer) else {
            let real = |(channel, &value): (usize, &i64)| {
                if weights.dead[channel] { 0.0 } else { (value as f64 * f64::from(scale(channel))) as f32 }
            };
            let reals: Vec<f32> = integers.iter().enumerate().map(real).collect();
            return self.row("bias", &reals);
        };
        let constant =
            Constant::from_i32(shape, &narrow).ok_or_else(|| self.unsupported("too many channels"))?;
        let id = self.constant("bias", constant);
        let one = weights.scales.as_ref().is_some_and(|(scales, _)| scales.len() == 1);
        let channels = if one { 1 } else { count };
        let scales: Vec<f32> = (0..channels).map(|channel| product(channel).unwrap_or(1.0)).collect();
        self.dequantize(id, DType::I32, 0, &scales, &vec![0; channels])
    }

    /// The elements of a constant with one axis that matters.
    fn dense_row(
        &self,
        index: usize,
        name: char,
        star: Option<usize>,
        pick: impl Fn(char, usize) -> Option<Vec<usize>>,
    ) -> Result<Dense, Error> {
        let Some(axis) = star else { return self.dense(index, &name.to_string(), pick) };
        let value = &self.builder.document.values[index];
        let dtype = super::super::meaning::dtype(value.dtype.element.storage())
            .ok_or_else(|| self.unsupported("a bias of such a type"))?;
        let constant = self.stored_constant(index, dtype)?;
        let form = super::super::Form::of(&value.dtype).map_err(|reason| self.unsupported(reason))?;
        if form.flat[axis].lower.is_some() || constant.elements() == 0 {
            return Err(self.unsupported("a bias in blocks of no axis"));
        }
        let own = &form.flat[axis];
        let total = own.total.unwrap_or(0);
        let picked = if own.valid.is_empty() { pick('*', total) } else { None };
        let positions = picked.or_else(|| own.positions()).unwrap_or_default();
        let width = dtype.bytes();
        let bytes =
            positions.iter().flat_map(|&at| constant.bytes()[at * width..][..width].to_vec()).collect();
        Ok(Dense { dtype, bytes, taken: vec![positions] })
    }

    /// The axis of channels of an activation.
    pub(in super::super) fn channel_axis(&self, index: usize) -> Result<FlatAxis, Error> {
        let form = self.typed(index)?.form;
        let axis = form
            .named('C')
            .ok_or_else(|| self.unsupported("an activation without one axis of channels C"))?;
        Ok(form.flat[axis].clone())
    }

    /// Stride, dilation and padding of a window: rows, columns; top, left, bottom, right.
    pub(in super::super) fn window(&self, rows: bool) -> Result<Window, Error> {
        let vertical = |key: &str, default: usize, least: usize| {
            if !rows {
                return Ok(default);
            }
            if least > 0 { self.extent(key, default) } else { self.size(key, default) }
        };
        let stride = [vertical("stride_height", 1, 1)?, self.extent("stride_width", 1)?];
        let dilation = [vertical("dilation_height", 1, 1)?, self.extent("dilation_width", 1)?];
        let pad = [
            vertical("pad_top", 0, 0)?,
            self.size("pad_left", 0)?,
            vertical("pad_bottom", 0, 0)?,
            self.size("pad_right", 0)?,
        ];
        Ok(Window { stride, dilation, pad })
    }
}

impl Weights {
    /// Zeros for the channels that a multiplier of 0 silences.
    fn silence(&mut self, error: impl Fn(String) -> Error) -> Result<(), Error> {
        if !self.dead.contains(&true) {
            return Ok(());
        }
        let Some((_, zero_points)) = &self.scales else { return Ok(()) };
        if zero_points.iter().any(|&zero_point| zero_point != 0) {
            return Err(error("a scale of 0 beside a zero point".into()));
        }
        let inner: usize = self.dense.taken[self.axis + 1..].iter().map(Vec::len).product::<usize>()
            * self.dense.dtype.bytes();
        let channels = self.dead.len();
        for (block, bytes) in self.dense.bytes.chunks_exact_mut(inner.max(1)).enumerate() {
            if self.dead[block % channels] {
                bytes.fill(0);
            }
        }
        Ok(())
    }

    /// The reals of quantized weights.
    fn reals(&self, constant: &Constant) -> Option<Vec<f32>> {
        let (scales, zero_points) = self.scales.as_ref()?;
        let inner: usize = self.dense.taken[self.axis + 1..].iter().map(Vec::len).product::<usize>().max(1);
        let channels = self.dead.len();
        let values = constant.to_i64()?;
        Some(
            values
                .iter()
                .enumerate()
                .map(|(at, &value)| {
                    let channel = if scales.len() == 1 { 0 } else { at / inner % channels };
                    (value - zero_points[channel]) as f32 * scales[channel]
                })
                .collect(),
        )
    }
}

/// What lies beyond the borders.
fn padding_mode(node: &Reader<'_, '_>) -> Result<Option<PadMode>, Error> {
    let names = [
        ("ZEROS", Some(None)),
        ("REFLECT", Some(Some(PadMode::Reflect))),
        ("REPLICATE", Some(Some(PadMode::Edge))),
        ("CIRCULAR", None),
    ];
    node.choice("padding_mode", Some(None), &names)?.ok_or_else(|| node.unsupported("padding_mode CIRCULAR"))
}

/// x ∗ w + b over images.
pub(in super::super) fn conv2d(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let x = node.operand(0)?;
    let open = node.reals(x, View::Open)?;
    let result = conv(node, open, "OIHW", true)?;
    node.define(y, View::Open, result)
}

/// x ∗ w + b over rows.
pub(in super::super) fn conv1d(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let x = node.operand(0)?;
    let open = node.reals(x, View::Open)?;
    let lifted = lift(node, x, open)?;
    let result = conv(node, lifted, "OIW", false)?;
    let extents = node.typed(y)?.form.open_extents();
    let result = node.reshape(result, &extents)?;
    node.define(y, View::Open, result)
}

/// (N, C, L) as (N, C, 1, L).
pub(in super::super) fn lift(
    node: &mut Reader<'_, '_>,
    index: usize,
    open: ValueId,
) -> Result<ValueId, Error> {
    let mut extents = node.typed(index)?.form.open_extents();
    if extents.len() != 3 {
        return Err(node.wrong(format!("an operand of {} axes, expected are 3", extents.len())));
    }
    extents.insert(2, Some(1));
    node.reshape(open, &extents)
}

fn conv(node: &mut Reader<'_, '_>, x: ValueId, names: &str, rows: bool) -> Result<ValueId, Error> {
    node.no_cut()?;
    let Window { stride, dilation, mut pad } = node.window(rows)?;
    let groups = node.extent("groups", 1)?;
    let ends = (node.operand(0)?, node.result(0)?);
    let (inputs, outputs) = (node.channel_axis(ends.0)?, node.channel_axis(ends.1)?);
    let weights = node.operand(1)?;
    if !node.is_constant(weights) {
        return Err(node.unsupported("weights that are not constant"));
    }
    let mut found = node.weights(weights, names, ends, (&inputs, &outputs), groups)?;
    if !rows {
        found.dense.taken.insert(2, vec![0]);
    }
    let kernel = node.install(&found)?;
    let mut operands = vec![x, kernel];
    if let Some(bias) = node.optional(2) {
        operands.push(node.bias(bias, &found, ends, &outputs)?);
    }
    if let Some(mode) = padding_mode(node)?
        && pad != [0; 4]
    {
        let [top, left, bottom, right] = pad.map(|amount| amount as i64);
        let pads = node.list("pads", &[0, 0, top, left, 0, 0, bottom, right])?;
        operands[0] = node.emit(Op::Pad(Pad { mode }), &[x, pads])?;
        pad = [0; 4];
    }
    let op = Conv {
        kernel: None,
        stride,
        dilation,
        pad,
        auto_pad: AutoPad::Explicit,
        groups,
        epilogue: Epilogue::default(),
    };
    node.emit(Op::Conv(op), &operands)
}

/// The transposed convolution over images, as a convolution over the operand with zeros between its elements.
pub(in super::super) fn conv_transpose(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let Window { stride, dilation, pad } = node.window(true)?;
    let more = [node.size("output_pad_height", 0)?, node.size("output_pad_width", 0)?];
    if node.extent("groups", 1)? != 1 {
        return Err(node.unsupported("a transposed convolution in groups"));
    }
    let ends = (node.operand(0)?, y);
    let (inputs, outputs) = (node.channel_axis(ends.0)?, node.channel_axis(ends.1)?);
    let weights = node.operand(1)?;
    if !node.is_constant(weights) {
        return Err(node.unsupported("weights that are not constant"));
    }
    let mut found = node.weights(weights, "OIHW", ends, (&inputs, &outputs), 1)?;
    found.turn();
    let kernel = node.install(&found)?;
    let bias = match node.optional(2) {
        Some(bias) => Some(node.bias(bias, &found, ends, &outputs)?),
        None => None,
    };
    let x = node.reals(ends.0, View::Open)?;
    let extents = node.typed(ends.0)?.form.open_extents();
    let known: Option<Vec<usize>> = extents.iter().copied().collect();
    let [n, c, h, w] = known.as_deref().unwrap_or_default()[..] else {
        return Err(node.unsupported("a transposed convolution needs an image of known extents"));
    };
    // Zeros behind each element, rows and columns apart.
    let mut spread = node.reshape(x, &[Some(n), Some(c), Some(h), Some(1), Some(w), Some(1)])?;
    if stride != [1; 2] {
        let mut pads = vec![0_i64; 12];
        (pads[9], pads[11]) = (stride[0] as i64 - 1, stride[1] as i64 - 1);
        let pads = node.list("zeros", &pads)?;
        spread = node.emit(Op::Pad(Pad { mode: PadMode::Constant }), &[spread, pads])?;
    }
    let wide = [h.checked_mul(stride[0]), w.checked_mul(stride[1])];
    let [Some(rows), Some(columns)] = wide else { return Err(node.unsupported("a stride out of range")) };
    let spread = node.reshape(spread, &[Some(n), Some(c), Some(rows), Some(columns)])?;
    // The last element has no zeros behind it; what the padding cuts may be more than the window adds.
    let taps = found.dense.extents();
    let mut amounts = [0_i64; 4];
    for axis in 0..2 {
        let reach =
            (taps[2 + axis] - 1).checked_mul(dilation[axis]).and_then(|reach| i64::try_from(reach).ok());
        let reach = reach.ok_or_else(|| node.unsupported("a dilation out of range"))?;
        amounts[axis] = reach - pad[axis] as i64;
        amounts[2 + axis] = reach - pad[2 + axis] as i64 + more[axis] as i64 - (stride[axis] as i64 - 1);
    }
    let mut cut = spread;
    if amounts.iter().any(|&amount| amount < 0) {
        let starts = node.list("starts", &[(-amounts[0]).max(0), (-amounts[1]).max(0)])?;
        let ends = [rows as i64 + amounts[2].min(0), columns as i64 + amounts[3].min(0)];
        let ends = node.list("ends", &ends.map(|end| end.max(0)))?;
        let axes = node.list("axes", &[2, 3])?;
        cut = node.emit(Op::Slice(Slice), &[spread, starts, ends, axes])?;
    }
    let pad = amounts.map(|amount| amount.max(0) as usize);
    let op = Conv {
        kernel: None,
        stride: [1; 2],
        dilation,
        pad,
        auto_pad: AutoPad::Explicit,
        groups: 1,
        epilogue: Epilogue::default(),
    };
    let mut operands = vec![cut, kernel];
    operands.extend(bias);
    let result = node.emit(Op::Conv(op), &operands)?;
    node.define(y, View::Open, result)
}

impl Weights {
    /// Rows and columns backwards: of (O, I, KH, KW), every plane's elements in reverse.
    fn turn(&mut self) {
        let extents = self.dense.extents();
        let width = self.dense.dtype.bytes();
        let plane = extents[2] * extents[3] * width;
        for bytes in self.dense.bytes.chunks_exact_mut(plane.max(1)) {
            bytes.reverse();
            for element in bytes.chunks_exact_mut(width) {
                element.reverse();
            }
        }
    }
}
