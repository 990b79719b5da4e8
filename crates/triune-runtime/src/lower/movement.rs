//! Operators that move elements: most become views, the rest copies.

use triune_device::command::{Dequantize, Quantize};
use triune_graph::{
    Constant, Node, ValueId,
    ops::{Concat, Gather, Pad, PadMode, Split, Transpose},
};
use triune_tensor::{DType, QuantParams, Rounding};

use super::{Form, Lowering, has_contiguous_channels, operand, result, unsupported};
use crate::{Error, view::View};

/// Most elements of a gather that are copied one by one.
const MAX_COPIES: usize = 8;

impl Lowering<'_> {
    pub(super) fn alias(&mut self, node: &Node) -> Result<(), Error> {
        let view = self.mapped(operand(node, 0)?)?;
        self.set_view(result(node)?, view);
        Ok(())
    }

    /// Any operator that keeps the elements' order and changes extents.
    pub(super) fn reshape(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let (dims, _) = self.meta(y)?;
        let view = self.mapped(x)?;
        let reshaped = match view.plain().and_then(|view| view.reshaped(dims)) {
            _ if view.dims == dims => view,
            Some(view) => view,
            None => self
                .dense(x)?
                .reshaped(dims)
                .ok_or_else(|| unsupported(node, format!("{} elements as {dims}", view.dims)))?,
        };
        self.set_view(y, reshaped);
        Ok(())
    }

    pub(super) fn transpose(&mut self, node: &Node, op: &Transpose) -> Result<(), Error> {
        let view = self.view(operand(node, 0)?)?;
        let rank = view.dims.rank();
        let perm = if op.perm.is_empty() { (0..rank).rev().collect() } else { op.perm.clone() };
        if perm.len() != rank || (0..rank).any(|axis| !perm.contains(&axis)) {
            return Err(unsupported(node, format!("{perm:?} is no permutation of {rank} axes")));
        }
        self.set_view(result(node)?, view.permuted(&perm));
        Ok(())
    }

    pub(super) fn expand(&mut self, node: &Node) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let view = self.view(operand(node, 0)?)?;
        let view = view
            .broadcast(dims)
            .ok_or_else(|| unsupported(node, format!("{} does not broadcast to {dims}", view.dims)))?;
        self.set_view(y, view);
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let mut view = self.mapped(x)?;
        let rank = view.dims.rank();
        let (starts, ends) = (self.integers(node, 1)?, self.integers(node, 2)?);
        let axes = match node.inputs.get(3) {
            Some(Some(_)) => self.integers(node, 3)?,
            _ => (0..starts.len() as i64).collect(),
        };
        let steps = match node.inputs.get(4) {
            Some(Some(_)) => self.integers(node, 4)?,
            _ => vec![1; starts.len()],
        };
        if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
            return Err(unsupported(node, "starts, ends, axes and steps of different lengths"));
        }
        for (index, &axis) in axes.iter().enumerate() {
            let axis = self::axis(node, axis as isize, rank)?;
            let extent = view.dims[axis] as i64;
            let clamp = |at: i64| if at < 0 { at.saturating_add(extent).max(0) } else { at.min(extent) };
            let (start, end, step) = (clamp(starts[index]), clamp(ends[index]), steps[index]);
            if step < 1 {
                return Err(unsupported(node, format!("step {step}")));
            }
            let length = (end - start).max(0).cast_unsigned().div_ceil(step.cast_unsigned()) as usize;
            let (start, step) = (start as usize, step as usize);
            view = match view.plain() {
                Some(plain) => plain.sliced(axis, start, length, step),
                None if axis != 1 => view.sliced(axis, start, length, step),
                None => match view.channels(start, length).filter(|_| step == 1) {
                    Some(part) => part,
                    // What begins within a block begins no block of its own.
                    None => self.unblocked(&view)?.sliced(axis, start, length, step),
                },
            };
        }
        self.set_view(y, view);
        Ok(())
    }

    pub(super) fn split(&mut self, node: &Node, op: Split) -> Result<(), Error> {
        let mut view = self.mapped(operand(node, 0)?)?;
        let axis = axis(node, op.axis, view.dims.rank())?;
        if axis == 1 && !self.parts_have_blocks(&node.outputs, &view)? {
            view = self.unblocked(&view)?;
        }
        let mut start = 0;
        for output in &node.outputs {
            let Some(output) = *output else {
                return Err(unsupported(node, "a part that nobody reads"));
            };
            let (dims, _) = self.meta(output)?;
            self.set_view(output, part(&view, axis, start, dims[axis]));
            start += dims[axis];
        }
        Ok(())
    }

    pub(super) fn gather(&mut self, node: &Node, op: Gather) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let view = self.view(operand(node, 0)?)?;
        let axis = axis(node, op.axis, view.dims.rank())?;
        let extent = view.dims[axis] as i64;
        let known = self.graph.value(operand(node, 1)?).constant.as_ref();
        // Few known indices become views and copies; data, and long lists, are looked up.
        let known = known.filter(|constant| constant.elements() <= MAX_COPIES).and_then(Constant::to_i64);
        let Some(mut indices) = known else { return self.gather_by_data(node, op) };
        for index in &mut indices {
            if *index < 0 {
                *index += extent;
            }
            if !(0..extent).contains(index) {
                return Err(unsupported(node, format!("index {index} along an axis of {extent}")));
            }
        }
        if let [index] = *indices {
            let picked = view.sliced(axis, index as usize, 1, 1);
            let picked = picked.reshaped(dims).ok_or_else(|| unsupported(node, "indices of this rank"))?;
            self.set_view(y, picked);
            return Ok(());
        }
        let output = self.place(y, Form::Dense)?;
        let mut target_dims = view.dims;
        target_dims.dims_mut()[axis] = indices.len();
        let target = output.reshaped(target_dims).ok_or_else(|| unsupported(node, "indices of this rank"))?;
        for (at, &index) in indices.iter().enumerate() {
            self.copy(&view.sliced(axis, index as usize, 1, 1), &target.sliced(axis, at, 1, 1))?;
        }
        Ok(())
    }

    pub(super) fn concat(&mut self, node: &Node, op: Concat) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, dtype) = self.meta(y)?;
        let axis = axis(node, op.axis, dims.rank())?;
        let first = self.mapped(operand(node, 0)?)?;
        let form = match dims.rank() {
            4 if has_contiguous_channels(&first) || axis == 1 => Form::ChannelsLast,
            _ => Form::Dense,
        };
        let placed = self.place(y, form)?;
        let output = if axis != 1 || self.parts_have_blocks(&node.inputs, &placed)? {
            placed
        } else {
            View::channels_last(self.new_scratch(dims, dtype), dtype, dims)
        };
        let mut start = 0;
        for index in 0..node.inputs.len() {
            let input = operand(node, index)?;
            let view = self.mapped(input)?;
            let part = part(&output, axis, start, view.dims[axis]);
            start += view.dims[axis];
            if view == part || view.dims.contains(&0) {
                continue;
            }
            let view = if view.home == part.home { self.duplicate(&view)? } else { view };
            match (dtype.is_quantized(), self.graph.value(input).quant, self.graph.value(y).quant) {
                (true, Some(from), Some(to)) if from != to || view.dtype != dtype => {
                    let table = requantize_table((view.dtype, from), (dtype, to), self.graph.rounding);
                    self.requantize(&table, &view, &part)?;
                }
                (false, Some(from), Some(to)) if from != to && dtype == DType::I16 => {
                    self.requantize_wide(node, (input, &view), (y, &part))?;
                }
                _ => self.copy(&view, &part)?,
            }
        }
        if output != placed {
            self.copy(&output, &placed)?;
        }
        Ok(())
    }

    /// Whether the channels of each part begin with a block of `view`, if it has several.
    fn parts_have_blocks(&self, parts: &[Option<ValueId>], view: &View) -> Result<bool, Error> {
        let Some(blocks) = view.blocks else { return Ok(true) };
        let mut start: usize = 0;
        for &part in parts.iter().flatten() {
            if !start.is_multiple_of(blocks.channels) {
                return Ok(false);
            }
            start += self.meta(part)?.0[1];
        }
        Ok(true)
    }

    /// 16-bit integers of one meaning as those of another, by way of reals.
    fn requantize_wide(
        &mut self,
        node: &Node,
        (input, view): (ValueId, &View),
        (y, part): (ValueId, &View),
    ) -> Result<(), Error> {
        let (from, to) = (self.meaning(node, input)?, self.meaning(node, y)?);
        let view = self.densified(view)?;
        let reals = self.temporary(&view, DType::F32);
        let own = self.temporary(&view, DType::I16);
        let dequantize =
            Dequantize { input: self.flat_map(&view)?, output: self.flat_map(&reals)?, quant: from };
        self.emit(dequantize, &[&view, &reals]);
        let rounding = self.graph.rounding.into();
        let quantize =
            Quantize { input: self.flat_map(&reals)?, output: self.flat_map(&own)?, quant: to, rounding };
        self.emit(quantize, &[&reals, &own]);
        self.copy(&own, part)
    }

    /// Maps bytes from `view` to `part`, by way of a temporary where no single command can.
    fn requantize(&mut self, table: &[u8; 256], view: &View, part: &View) -> Result<(), Error> {
        let maps = |view: &View| view.dims.rank() == 4 && has_contiguous_channels(view);
        if maps(view) && maps(part) {
            return self.emit_table(table, view, part);
        }
        let view = match view.plain() {
            Some(plain) if plain.is_compact() => plain,
            _ => self.densified(view)?,
        };
        let own = self.temporary(&view, part.dtype);
        self.emit_table(table, &view, &own)?;
        self.copy(&own, part)
    }

    pub(super) fn pad(&mut self, node: &Node, op: Pad) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let view = self.mapped(x)?;
        let rank = view.dims.rank();
        let pads = self.integers(node, 1)?;
        let axes = match node.inputs.get(3) {
            Some(Some(_)) => self.integers(node, 3)?,
            _ => (0..rank as i64).collect(),
        };
        if pads.len() != 2 * axes.len() || pads.iter().any(|&pad| pad < 0) {
            return Err(unsupported(node, format!("pads {pads:?}")));
        }
        let mut starts = vec![0; rank];
        for (index, &at) in axes.iter().enumerate() {
            starts[axis(node, at as isize, rank)?] = pads[index] as usize;
        }
        if op.mode != PadMode::Constant {
            return self.mirrored(x, y, &starts, op.mode);
        }
        let value = self.pad_value(node, y, view.dtype)?;
        let output = self.place(y, if rank == 4 { Form::ChannelsLast } else { Form::Dense })?;
        // Channels in front or behind shift the blocks: such a result is made without them first.
        let placed = match output.blocks {
            Some(_) if view.dims[1] != output.dims[1] => {
                View::channels_last(self.new_scratch(output.dims, output.dtype), output.dtype, output.dims)
            }
            _ => output,
        };
        let all = placed.blocks.and_then(|blocks| placed.whole_blocks(blocks.channels));
        self.fill(&all.unwrap_or(placed), value)?;
        if let (Some(filling), Some(blocks)) = (placed.filling(), placed.blocks) {
            self.fill(&filling, blocks.fill.into())?;
        }
        let mut inner = placed;
        for (axis, &start) in
            starts.iter().enumerate().filter(|&(axis, _)| view.dims[axis] != placed.dims[axis])
        {
            inner = inner.sliced(axis, start, view.dims[axis], 1);
        }
        self.copy(&view, &inner)?;
        if placed != output {
            self.copy(&placed, &output)?;
        }
        Ok(())
    }

    /// The bytes of a border element.
    fn pad_value(&self, node: &Node, y: ValueId, dtype: DType) -> Result<u64, Error> {
        let given = node.inputs.get(2).copied().flatten();
        let constant = given.and_then(|id| self.graph.value(id).constant.as_ref());
        let quant = self.graph.value(y).quant;
        let byte = |q: i32| u64::from(q as u8);
        match (dtype, constant) {
            (DType::F32, Some(constant)) => constant.scalar_f32().map(|value| u64::from(value.to_bits())),
            (DType::I8 | DType::U8, None) if given.is_none() => {
                Some(byte(quant.map_or(0, |quant| quant.zero_point)))
            }
            (DType::I8 | DType::U8, Some(constant)) => match (constant.scalar_f32(), quant) {
                (Some(value), Some(quant)) => {
                    Some(byte(quant.quantize_by(self.graph.rounding, value, dtype)))
                }
                _ => constant.to_i64().and_then(|values| values.first().map(|&value| byte(value as i32))),
            },
            (DType::I16, Some(constant)) if constant.dtype() == DType::F32 => {
                let real = constant.scalar_f32().zip(quant);
                let rounding = self.graph.rounding;
                real.map(|(real, quant)| quant.quantize_by(rounding, real, dtype) as u16).map(u64::from)
            }
            (DType::I16, None) if given.is_none() && quant.is_some() => {
                quant.map(|quant| u64::from(quant.zero_point as u16))
            }
            (DType::F16 | DType::F64, Some(constant)) => {
                let mut word = [0; 8];
                let bytes = constant.bytes().get(..dtype.bytes()).filter(|_| constant.dtype() == dtype);
                bytes.map(|bytes| {
                    word[..bytes.len()].copy_from_slice(bytes);
                    u64::from_le_bytes(word)
                })
            }
            (_, None) if given.is_none() => Some(0),
            (_, Some(constant)) => {
                let mask = u64::MAX >> (64 - 8 * dtype.bytes());
                constant.to_i64().and_then(|values| values.first().map(|value| value.cast_unsigned() & mask))
            }
            _ => None,
        }
        .ok_or_else(|| unsupported(node, format!("a border of {dtype} with this value")))
    }

    /// The operand at `index` as constant integers.
    fn integers(&self, node: &Node, index: usize) -> Result<Vec<i64>, Error> {
        let id = operand(node, index)?;
        self.graph
            .value(id)
            .constant
            .as_ref()
            .and_then(Constant::to_i64)
            .ok_or_else(|| unsupported(node, format!("operand {index} is not a constant of integers")))
    }
}

/// Positions of an axis, where a map in blocks can be taken apart.
fn part(view: &View, axis: usize, start: usize, length: usize) -> View {
    let channels = if axis == 1 { view.channels(start, length) } else { None };
    channels.unwrap_or_else(|| view.sliced(axis, start, length, 1))
}

/// A byte map from one quantization to another: dequantize, then quantize.
fn requantize_table(
    (from_dtype, from): (DType, QuantParams),
    (dtype, to): (DType, QuantParams),
    rounding: Rounding,
) -> [u8; 256] {
    let mut table = [0; 256];
    for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
        let q = if from_dtype == DType::I8 { i32::from(byte.cast_signed()) } else { i32::from(byte) };
        *entry = to.quantize_by(rounding, from.dequantize(q), dtype) as u8;
    }
    table
}

/// An axis counted from the front.
pub(super) fn axis(node: &Node, axis: isize, rank: usize) -> Result<usize, Error> {
    let at = if axis < 0 { axis + rank as isize } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < rank)
        .ok_or_else(|| unsupported(node, format!("axis {axis} of rank {rank}")))
}
