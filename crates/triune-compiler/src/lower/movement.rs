//! Operators that move elements: most become views, the rest copies.

use triune_graph::{
    Constant, Node, ValueId,
    ops::{Concat, ConstantOfShape, Gather, Pad, PadMode, Split, Transpose},
};
use triune_tensor::{DType, text::List};

use super::{Form, Lowering, has_contiguous_channels, lowers, operand, result};
use crate::{Error, view::View};

/// Bytes that are worth a copy of their own.
const RUN: usize = 16;

/// Most elements of a gather that are copied one by one.
const MAX_COPIES: usize = 8;

lowers! {
    Reshape => |to, node, _| to.reshape(node);
    Flatten => |to, node, _| to.reshape(node);
    Unsqueeze => |to, node, _| to.reshape(node);
    Squeeze => |to, node, _| to.reshape(node);
    Transpose => |to, node, op| to.transpose(node, op);
    Concat => |to, node, op| to.concat(node, *op);
    Slice => |to, node, _| to.slice(node);
    Split => |to, node, op| to.split(node, *op);
    Gather => |to, node, op| to.gather(node, *op);
    Expand => |to, node, _| to.expand(node);
    Pad => |to, node, op| to.pad(node, *op);
    Identity => |to, node, _| to.alias(node);
    BitCast => |to, node, op| to.bit_cast(node, op.to);
    ConstantOfShape => |to, node, op| to.constant_of_shape(node, op);
}

impl Lowering<'_> {
    pub(super) fn alias(&mut self, node: &Node) -> Result<(), Error> {
        let view = self.mapped(operand(node, 0)?)?;
        self.set_view(result(node)?, view);
        Ok(())
    }

    /// The same bytes as another type.
    pub(super) fn bit_cast(&mut self, node: &Node, to: DType) -> Result<(), Error> {
        let view = self.view(operand(node, 0)?)?;
        self.set_view(result(node)?, View { dtype: to, ..view });
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
            None if self.pixels_in_runs(y, &view)? => return Ok(()),
            None if self.rows_for(y, &view)? => return Ok(()),
            None => self
                .dense(x)?
                .reshaped(dims)
                .ok_or_else(|| Error::unsupported(node, format!("{} elements as {dims}", view.dims)))?,
        };
        self.set_view(y, reshaped);
        Ok(())
    }

    /// Copies elements to where a row-major result is to lie. Whether it did: blocks are taken apart first.
    fn rows_for(&mut self, y: ValueId, from: &View) -> Result<bool, Error> {
        let Some(from) = from.plain() else { return Ok(false) };
        let output = self.place(y, Form::Dense)?;
        let target = output.plain().filter(|output| output.home != from.home);
        let Some(target) = target.and_then(|output| output.reshaped(from.dims)) else { return Ok(false) };
        self.copy(&from, &target)?;
        Ok(true)
    }

    /// Copies elements to where a feature map has them, if that takes whole runs: what a row-major copy would take apart. Whether it
    /// did.
    fn pixels_in_runs(&mut self, y: ValueId, from: &View) -> Result<bool, Error> {
        let (dims, dtype) = self.meta(y)?;
        let innermost = |view: &View| view.physical_order().last().copied();
        let map = View::channels_last(from.home, dtype, dims);
        let runs = dims.rank() == 4
            && self.io.block.is_none()
            && from.plain().is_some()
            && !from.dims.contains(&0)
            && map.reshaped(from.dims).is_some_and(|target| {
                let axis = innermost(&target);
                axis == innermost(from)
                    && axis.is_some_and(|axis| {
                        from.strides[axis] == dtype.bytes() as u64 && from.dims[axis] * dtype.bytes() >= RUN
                    })
            });
        if !runs {
            return Ok(false);
        }
        let output = self.place(y, Form::ChannelsLast)?;
        let Some(target) = output.reshaped(from.dims) else { return Ok(false) };
        self.copy(from, &target)?;
        Ok(true)
    }

    pub(super) fn transpose(&mut self, node: &Node, op: &Transpose) -> Result<(), Error> {
        let view = self.view(operand(node, 0)?)?;
        let rank = view.dims.rank();
        let perm = if op.perm.is_empty() { (0..rank).rev().collect() } else { op.perm.clone() };
        if perm.len() != rank || (0..rank).any(|axis| !perm.contains(&axis)) {
            return Err(Error::unsupported(
                node,
                format!("{} is no permutation of {rank} axes", List(&perm)),
            ));
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
            .ok_or_else(|| Error::unsupported(node, format!("{} does not broadcast to {dims}", view.dims)))?;
        self.set_view(y, view);
        Ok(())
    }

    /// One value everywhere, too much of it to be a constant.
    pub(super) fn constant_of_shape(&mut self, node: &Node, op: &ConstantOfShape) -> Result<(), Error> {
        let mut word = [0; 8];
        let value = op.value.bytes();
        word[..value.len().min(8)].copy_from_slice(&value[..value.len().min(8)]);
        let output = self.place(result(node)?, Form::Dense)?;
        if output.dims.contains(&0) {
            return Ok(());
        }
        self.fill(&output, u64::from_le_bytes(word))
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
            return Err(Error::unsupported(node, "starts, ends, axes and steps of different lengths"));
        }
        for (index, &axis) in axes.iter().enumerate() {
            let axis = self::axis(node, axis as isize, rank)?;
            let extent = view.dims[axis] as i64;
            let clamp = |at: i64| if at < 0 { at.saturating_add(extent).max(0) } else { at.min(extent) };
            let (start, end, step) = (clamp(starts[index]), clamp(ends[index]), steps[index]);
            if step < 1 {
                return Err(Error::unsupported(node, format!("step {step}")));
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
                return Err(Error::unsupported(node, "a part that nobody reads"));
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
            let given = *index;
            if given < 0 {
                *index += extent;
            }
            if !(0..extent).contains(index) {
                return Err(Error::unsupported(node, format!("index {given} along an axis of {extent}")));
            }
        }
        if let [index] = *indices {
            let picked = view.sliced(axis, index as usize, 1, 1);
            let picked =
                picked.reshaped(dims).ok_or_else(|| Error::unsupported(node, "indices of this rank"))?;
            self.set_view(y, picked);
            return Ok(());
        }
        let output = self.place(y, Form::Dense)?;
        let mut target_dims = view.dims;
        target_dims.dims_mut()[axis] = indices.len();
        let target =
            output.reshaped(target_dims).ok_or_else(|| Error::unsupported(node, "indices of this rank"))?;
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
        let by_planes = self.is_plane_by_plane(node) || self.stays_picture(y);
        let form = match dims.rank() {
            4 if has_contiguous_channels(&first) || axis == 1 && !by_planes => Form::ChannelsLast,
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
            let view = self.mapped(operand(node, index)?)?;
            let part = part(&output, axis, start, view.dims[axis]);
            start += view.dims[axis];
            if view == part || view.dims.contains(&0) {
                continue;
            }
            let view = if view.home == part.home { self.duplicate(&view)? } else { view };
            self.copy(&view, &part)?;
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
            return Err(Error::unsupported(node, format!("pads {}", List(&pads))));
        }
        let by_pixels = rank == 4 && !self.is_plane_by_plane(node);
        let mut starts = vec![0; rank];
        for (index, &at) in axes.iter().enumerate() {
            starts[axis(node, at as isize, rank)?] = pads[index] as usize;
        }
        if op.mode != PadMode::Constant {
            return self.mirrored(x, y, &starts, op.mode, by_pixels);
        }
        let value = self.pad_value(node, view.dtype)?;
        let output = self.place(y, if by_pixels { Form::ChannelsLast } else { Form::Dense })?;
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

    /// The bits of a border element: an element of the operand's type, or 0.
    fn pad_value(&self, node: &Node, dtype: DType) -> Result<u64, Error> {
        let Some(id) = node.inputs.get(2).copied().flatten() else { return Ok(0) };
        let constant = self.graph.value(id).constant.as_ref();
        let bytes = constant.filter(|constant| constant.dtype() == dtype && constant.elements() == 1);
        let mut word = [0; 8];
        let bytes =
            bytes.ok_or_else(|| Error::unsupported(node, format!("a border of {dtype} with this value")))?;
        word[..dtype.bytes()].copy_from_slice(bytes.bytes());
        Ok(u64::from_le_bytes(word))
    }

    /// The operand at `index` as constant integers.
    fn integers(&self, node: &Node, index: usize) -> Result<Vec<i64>, Error> {
        let id = operand(node, index)?;
        self.graph
            .value(id)
            .constant
            .as_ref()
            .and_then(Constant::to_i64)
            .ok_or_else(|| Error::unsupported(node, format!("operand {index} is not a constant of integers")))
    }
}

/// Positions of an axis, where a map in blocks can be taken apart.
fn part(view: &View, axis: usize, start: usize, length: usize) -> View {
    let channels = if axis == 1 { view.channels(start, length) } else { None };
    channels.unwrap_or_else(|| view.sliced(axis, start, length, 1))
}

/// An axis counted from the front.
pub(super) fn axis(node: &Node, axis: isize, rank: usize) -> Result<usize, Error> {
    let at = if axis < 0 { axis + rank as isize } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < rank)
        .ok_or_else(|| Error::unsupported(node, format!("axis {axis} of rank {rank}")))
}
