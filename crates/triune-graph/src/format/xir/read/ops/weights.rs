//! What products share: constant weights and biases, and what their integers mean.

use triune_tensor::{DType, Shape};

use super::super::{
    Meaning,
    constant::{Dense, Scales, floats},
    form::FlatAxis,
    node::Reader,
};
use crate::{Constant, Error, ValueId};

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
    ///
    /// `multipliers` count in the steps that are declared, even where all is computed in reals.
    fn step(&self, index: usize, multipliers: bool) -> Result<f32, Error> {
        let typed = if multipliers { self.declared(index)? } else { self.typed(index)? };
        match typed.meaning {
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
        let (x, y) = (self.step(ends.0, multipliers)?, self.step(ends.1, multipliers)?);
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
            let reals = weights.floats(&constant).ok_or_else(|| self.unsupported(too_many))?;
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
        let select = |_: char, total: usize| {
            (total != count && outputs.total == Some(total)).then(|| outputs.positions()).flatten()
        };
        let dense = self.dense_row(index, name, taken_as, select)?;
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
        let (x, y) = (self.step(ends.0, found.multipliers)?, self.step(ends.1, found.multipliers)?);
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
        select: impl Fn(char, usize) -> Option<Vec<usize>>,
    ) -> Result<Dense, Error> {
        let Some(axis) = star else { return self.dense(index, &name.to_string(), select) };
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
        let selected = if own.valid.is_empty() { select('*', total) } else { None };
        let positions = selected.or_else(|| own.positions()).unwrap_or_default();
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
}

impl Weights {
    /// Rows and columns backwards: of (O, I, KH, KW), every plane's elements in reverse.
    pub(super) fn turn(&mut self) {
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
    fn floats(&self, constant: &Constant) -> Option<Vec<f32>> {
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
