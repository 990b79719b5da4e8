//! Operators that move elements, and conversions between reals and integers.

use std::collections::HashSet;

use triune_graph::{
    Node, Op, ValueId,
    format::xir::{Attribute, TensorType},
    ops::{Concat, Gather, Pad, PadMode, Slice, SliceRange, Split},
};

use super::{
    super::{
        emit::{Emitter, input, ints},
        form::{Form, stored},
        source::ends,
    },
    product::number,
};
use triune_tensor::Shape;

use crate::Error;

impl Emitter<'_> {
    /// A name for the same value, or a conversion between reals and integers.
    pub(super) fn identity(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let (from, to) = (self.meaning(x), self.meaning(y));
        if self.constant(x).is_none() && (from == to || self.dialect.style.is_none()) {
            let axes: Vec<usize> = (0..self.dims(x)?.rank()).collect();
            return self.alias(y, x, &axes);
        }
        let form = self.form(x)?.unblocked();
        let index = self.operand(x, &form, from)?;
        let made = self.define(y, form)?;
        let dtype = self.document.values[made].dtype.clone();
        let attributes = vec![("target_dtype", Attribute::Type(Box::new(dtype)))];
        self.push("Cast", &node.name, vec![Some(index)], vec![made], attributes);
        Ok(())
    }

    /// Another element type.
    pub(super) fn cast_to(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let form = self.form(x)?.unblocked();
        let meaning = self.wanted(node, x);
        let index = self.operand(x, &form, meaning)?;
        let made = self.define(y, form)?;
        let dtype = self.document.values[made].dtype.clone();
        let attributes = vec![("target_dtype", Attribute::Type(Box::new(dtype)))];
        self.push("Cast", &node.name, vec![Some(index)], vec![made], attributes);
        Ok(())
    }

    /// Other extents for the same elements in the network's own order.
    pub(super) fn reshaped(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let (from, to) = (self.dims(x)?, self.dims(y)?);
        let current = self.form(x)?.unblocked();
        // Axes of extent 1 may lie anywhere.
        let long: Vec<usize> = current.order.iter().copied().filter(|&axis| from[axis] != 1).collect();
        let form = if long.is_sorted() { current } else { Form::plain(from.rank()) };
        let result = Form::plain(to.rank());
        let meaning = self.wanted(node, x);
        let index = self.operand(x, &form, meaning)?;
        let made = self.define(y, result)?;
        self.reshape_into(&node.name, index, made);
        Ok(())
    }

    /// Whether a value is an image again that was taken apart into more axes, as by a pixel shuffle, or is made of one whose axes
    /// it keeps.
    pub(crate) fn is_joined_image(&self, id: ValueId) -> bool {
        let graph = &self.source.graph;
        let rank = |id: ValueId| graph.value(id).shape.as_ref().map_or(0, Vec::len);
        let producers = graph.producers();
        let (mut open, mut seen) = (vec![id], HashSet::new());
        while let Some(at) = open.pop() {
            let Some(maker) = producers[at.0 as usize].filter(|_| rank(at) == 4 && seen.insert(at)) else {
                continue;
            };
            let node = &graph.nodes[maker.0 as usize];
            match node.op {
                Op::Reshape(_)
                    if node.inputs.first().is_some_and(|from| from.is_some_and(|from| rank(from) > 4)) =>
                {
                    return true;
                }
                Op::Identity(_)
                | Op::Unary(_)
                | Op::Clip(_)
                | Op::Binary(_)
                | Op::Concat(_)
                | Op::Slice(_)
                | Op::Split(_)
                | Op::Pad(_)
                | Op::Softmax(_)
                | Op::LayerNorm(_)
                | Op::Reduce(_) => open.extend(node.inputs.iter().flatten()),
                _ => {}
            }
        }
        false
    }

    /// Whether an input is an image with channels last in the model itself: what reads it reorders it before any window slides over it.
    pub(crate) fn has_channels_last(&self, id: ValueId) -> bool {
        let graph = &self.source.graph;
        let rank = |id: ValueId| graph.value(id).shape.as_ref().map_or(0, Vec::len);
        let (mut open, mut seen) = (vec![id], HashSet::new());
        while let Some(at) = open.pop() {
            if rank(at) != 4 || !seen.insert(at) {
                continue;
            }
            for node in graph.nodes.iter().filter(|node| node.inputs.contains(&Some(at))) {
                match &node.op {
                    Op::Transpose(op) if op.perm == [0, 3, 1, 2] => return true,
                    Op::Identity(_)
                    | Op::Unary(_)
                    | Op::Clip(_)
                    | Op::Binary(_)
                    | Op::Concat(_)
                    | Op::Gather(_)
                    | Op::MatMul(_)
                    | Op::Reshape(_) => open.extend(node.outputs.iter().flatten()),
                    _ => {}
                }
            }
        }
        false
    }

    pub(super) fn concat(&mut self, node: &Node, op: Concat) -> Result<(), Error> {
        let first = input(node, 0)?;
        let computed = node.inputs.iter().flatten().copied().find(|&id| self.constant(id).is_none());
        let form = self.form(computed.unwrap_or(first))?.unblocked();
        let axis = Self::axis(node, op.axis, form.order.len())?;
        let mut parts = Vec::with_capacity(node.inputs.len());
        for index in 0..node.inputs.len() {
            let id = input(node, index)?;
            parts.push(Some(match self.constant(id) {
                // It lies as the others do, in blocks where they are.
                Some(constant) => {
                    let form = self.native(id, form.clone(), computed.and_then(|id| self.wanted(node, id)));
                    self.place_constant(id, constant, &form)?
                }
                None => self.taken(node, index, &form)?,
            }));
        }
        let y = self.made(node, 0, &form)?;
        let made = ends(node)?.1;
        let native = self.native(made, form.clone(), self.meaning(made));
        self.push("Concat", &node.name, parts, vec![y], vec![("axis", number(native.axis(axis)))]);
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node) -> Result<(), Error> {
        let x = input(node, 0)?;
        let dims = self.dims(x)?;
        let (starts, ends) = (self.constant_ints(node, 1), self.constant_ints(node, 2));
        let (axes, steps) = (self.constant_ints(node, 3), self.constant_ints(node, 4));
        let ranges = starts.zip(ends).and_then(|(starts, ends)| {
            Slice::ranges(&dims, &starts, &ends, axes.as_deref(), steps.as_deref())
        });
        let ranges = ranges.ok_or_else(|| Error::unsupported(node, "its parameters are not constant"))?;
        self.part(node, x, ranges)
    }

    /// `Slice` of ranges in the network's order of axes, which is turned round along those that run backwards.
    fn part(&mut self, node: &Node, x: ValueId, mut ranges: Vec<SliceRange>) -> Result<(), Error> {
        let mut turned = Vec::new();
        for (axis, range) in ranges.iter_mut().enumerate().filter(|(_, range)| range.step < 0) {
            let last = range.start as isize + (range.length as isize - 1).max(0) * range.step;
            *range = SliceRange {
                start: usize::try_from(last).unwrap_or(0),
                step: range.step.saturating_neg(),
                length: range.length,
            };
            if range.length > 1 {
                turned.push(axis);
            }
        }
        let form = self.form(x)?.unblocked();
        let meaning = self.wanted(node, x);
        let mut index = self.operand(x, &form, meaning)?;
        let y = ends(node)?.1;
        let last = turned.pop();
        let dtype = self.part_type(index, y, &form)?;
        let next = |emitter: &mut Self, done: bool| -> Result<usize, Error> {
            if done {
                return emitter.define(y, form.clone());
            }
            Ok(emitter.value(&format!("{}:part", node.name), dtype.clone(), None))
        };
        let made = next(self, last.is_none())?;
        let attributes = slice_attributes(&form, &ranges);
        self.push("Slice", &node.name, vec![Some(index)], vec![made], attributes);
        index = made;
        let left: Vec<usize> = turned.into_iter().chain(last).collect();
        for (at, &axis) in left.iter().enumerate() {
            let made = next(self, at + 1 == left.len())?;
            let order = ints((0..ranges[axis].length as i64).rev());
            let attributes = vec![("axis", number(form.position(axis))), ("order", order)];
            let key = format!("{}:turned", node.name);
            self.push("SwapOrder", &key, vec![Some(index)], vec![made], attributes);
            index = made;
        }
        Ok(())
    }

    /// The type of elements of a value of the document in another one's extents.
    fn part_type(&self, of: usize, to: ValueId, form: &Form) -> Result<TensorType, Error> {
        let element = match (self.dialect.style, self.meaning(to)) {
            (Some(style), Some(meaning)) => style.activation(meaning, form.channels(&self.dims(to)?)),
            _ => self.document.values[of].dtype.element.clone(),
        };
        Ok(stored(element, self.dims(to)?, form))
    }

    pub(super) fn split(&mut self, node: &Node, op: Split) -> Result<(), Error> {
        let x = input(node, 0)?;
        let form = self.form(x)?.unblocked();
        let axis = Self::axis(node, op.axis, form.order.len())?;
        let mut sections = Vec::with_capacity(node.outputs.len());
        let meaning = self.wanted(node, x);
        let index = self.operand(x, &form, meaning)?;
        let mut made = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let id = output.ok_or_else(|| Error::unsupported(node, "nothing takes one of its results"))?;
            sections.push(self.dims(id)?[axis] as i64);
            made.push(self.define(id, form.clone())?);
        }
        let attributes = vec![("axis", number(form.position(axis))), ("sections", ints(sections))];
        self.push("Split", &node.name, vec![Some(index)], made, attributes);
        Ok(())
    }

    /// One index along an axis: a slice without that axis.
    pub(super) fn gather(&mut self, node: &Node, op: Gather) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let dims = self.dims(x)?;
        let axis = Self::axis(node, op.axis, dims.rank())?;
        let wrong = |what: &str| Error::unsupported(node, what);
        let indices = self.constant_ints(node, 1).ok_or_else(|| {
            wrong(
                "its indices are computed, and the vendor's operators take elements at constant ones; let the model end before \
                 it (--outputs), or compile the model into a package (--format package), whose host part runs it",
            )
        })?;
        let [index] = indices.as_slice() else { return self.several(node, axis, &indices) };
        let extent = dims[axis] as i64;
        let from_front = if *index < 0 { index + extent } else { *index };
        let start = usize::try_from(from_front).ok().filter(|&start| start < dims[axis]);
        let start = start.ok_or_else(|| wrong("its index is behind the last element"))?;
        let mut ranges: Vec<SliceRange> =
            dims.iter().map(|&length| SliceRange { start: 0, step: 1, length }).collect();
        ranges[axis] = SliceRange { start, step: 1, length: 1 };
        // The result lies in the network's order, which lets an axis go.
        let form = Form::plain(dims.rank());
        let meaning = self.wanted(node, x);
        let operand = self.operand(x, &form, meaning)?;
        let mut kept = dims;
        kept.dims_mut()[axis] = 1;
        let dtype = stored(self.document.values[operand].dtype.element.clone(), kept, &form);
        let part = self.value(&format!("{}:part", node.name), dtype, None);
        self.push("Slice", &node.name, vec![Some(operand)], vec![part], slice_attributes(&form, &ranges));
        let made = self.define(y, Form::plain(self.dims(y)?.rank()))?;
        self.reshape_into(&format!("{}:without", node.name), part, made);
        Ok(())
    }

    /// Several indices along an axis: all of it in another order, as channels from blue to red, or parts of it behind each other.
    fn several(&mut self, node: &Node, axis: usize, order: &[i64]) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let (from, to) = (self.dims(x)?, self.dims(y)?);
        let extent = from[axis] as i64;
        let order: Vec<i64> = order.iter().map(|&at| if at < 0 { at + extent } else { at }).collect();
        let along = from.rank() == to.rank() && to[axis] == order.len();
        if !along || order.is_empty() || order.iter().any(|at| !(0..extent).contains(at)) {
            return Err(Error::unsupported(node, "its indices are no list of elements of an axis"));
        }
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().eq(0..extent) {
            let form = self.form(x)?.unblocked();
            let meaning = self.wanted(node, x);
            let operand = self.operand(x, &form, meaning)?;
            let made = self.define(y, form.clone())?;
            let attributes = vec![("axis", number(form.position(axis))), ("order", ints(order))];
            self.push("SwapOrder", &node.name, vec![Some(operand)], vec![made], attributes);
            return Ok(());
        }
        let runs = runs(&order);
        let whole = |extent: usize| SliceRange { start: 0, step: 1, length: extent };
        let ranges = |run: SliceRange| {
            let mut ranges: Vec<SliceRange> = from.iter().map(|&extent| whole(extent)).collect();
            ranges[axis] = run;
            ranges
        };
        if let [run] = *runs {
            return self.part(node, x, ranges(run));
        }
        if runs.len() > MOST_PARTS {
            return Err(Error::unsupported(
                node,
                format!("{} parts of an axis; {MOST_PARTS} can be joined", runs.len()),
            ));
        }
        let form = self.form(x)?.unblocked();
        let meaning = self.wanted(node, x);
        let operand = self.operand(x, &form, meaning)?;
        let mut parts = Vec::with_capacity(runs.len());
        for run in runs {
            let mut dims = from;
            dims.dims_mut()[axis] = run.length;
            let element = match (self.dialect.style, meaning) {
                (Some(style), Some(meaning)) => style.activation(meaning, form.channels(&dims)),
                _ => self.document.values[operand].dtype.element.clone(),
            };
            let part = self.value(&format!("{}:part", node.name), stored(element, dims, &form), None);
            let attributes = slice_attributes(&form, &ranges(run));
            self.push("Slice", &format!("{}:part", node.name), vec![Some(operand)], vec![part], attributes);
            parts.push(Some(part));
        }
        let made = self.define(y, form.clone())?;
        self.push("Concat", &node.name, parts, vec![made], vec![("axis", number(form.position(axis)))]);
        Ok(())
    }

    pub(super) fn expand(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let (from, to) = (self.dims(x)?, self.dims(y)?);
        let meaning = self.wanted(node, x);
        let (form, index) = if from.rank() == to.rank() {
            let form = self.form(x)?.unblocked();
            let index = self.operand(x, &form, meaning)?;
            (form, index)
        } else {
            // What is new is in front, one element long at first.
            let index = self.operand(x, &Form::plain(from.rank()), meaning)?;
            let mut dims = vec![1; to.rank() - from.rank()];
            dims.extend_from_slice(&from);
            let dims = Shape::new(&dims).ok_or_else(|| Error::unsupported(node, "too many axes"))?;
            let form = Form::plain(to.rank());
            let dtype = stored(self.document.values[index].dtype.element.clone(), dims, &form);
            (form, self.reshape(&format!("{}:axes", node.name), index, dtype))
        };
        let made = self.define(y, form.clone())?;
        let sizes = ints(form.stored(&to).into_iter().map(|extent| extent as i64));
        self.push("Expand", &node.name, vec![Some(index)], vec![made], vec![("sizes", sizes)]);
        Ok(())
    }

    /// Borders, the last axis first: pairs of elements before and behind.
    pub(super) fn pad(&mut self, node: &Node, op: Pad) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let rank = self.dims(x)?.rank();
        let pads = self.constant_ints(node, 1);
        let axes = self.constant_ints(node, 3);
        let amounts = pads.and_then(|pads| Pad::amounts(rank, &pads, axes.as_deref()));
        let amounts = amounts.ok_or_else(|| Error::unsupported(node, "its borders are not constant"))?;
        if amounts.iter().any(|&(before, behind)| before < 0 || behind < 0) {
            return Err(Error::unsupported(node, "a border that takes elements away"));
        }
        let value = match node.inputs.get(2).copied().flatten() {
            None => 0.0,
            Some(id) => {
                let known = self.constant(id).and_then(triune_graph::Constant::scalar_f32);
                known
                    .ok_or_else(|| Error::unsupported(node, "what it fills with is not one constant real"))?
            }
        };
        let mode = match op.mode {
            PadMode::Constant => "CONSTANT",
            PadMode::Reflect => "REFLECTION",
            PadMode::Edge => "REPLICATION",
        };
        let form = self.form(x)?.unblocked();
        let padding: Vec<i64> =
            form.order.iter().rev().flat_map(|&axis| [amounts[axis].0, amounts[axis].1]).collect();
        let meaning = self.wanted(node, x);
        let index = self.operand(x, &form, meaning)?;
        let made = self.define(y, form)?;
        let attributes = vec![
            ("mode", Attribute::Text(mode.to_owned())),
            ("padding", ints(padding)),
            ("value", Attribute::Float(f64::from(value))),
        ];
        self.push("Pad", &node.name, vec![Some(index)], vec![made], attributes);
        Ok(())
    }
}

/// Most parts of an axis that are joined again.
const MOST_PARTS: usize = 64;

/// Indices as ranges, each of a step of its own.
fn runs(indices: &[i64]) -> Vec<SliceRange> {
    let mut runs: Vec<SliceRange> = Vec::new();
    for &index in indices {
        let index = index.max(0) as usize;
        if let Some(run) = runs.last_mut() {
            let step = index as isize - (run.start as isize + (run.length as isize - 1) * run.step);
            // Ahead alone: what is joined is not turned round.
            if step > 0 && (run.length == 1 || step == run.step) {
                (run.step, run.length) = (step, run.length + 1);
                continue;
            }
        }
        runs.push(SliceRange { start: index, step: 1, length: 1 });
    }
    runs
}

fn slice_attributes(form: &Form, ranges: &[SliceRange]) -> Vec<(&'static str, Attribute)> {
    let along = |value: fn(&SliceRange) -> i64| ints(form.order.iter().map(|&axis| value(&ranges[axis])));
    // One past the last element that is taken.
    let end = |range: &SliceRange| {
        range.start as i64
            + (range.length as i64 - 1).max(0) * range.step as i64
            + i64::from(range.length > 0)
    };
    vec![
        ("begin", along(|range| range.start as i64)),
        ("end", along(end)),
        ("stride", along(|range| range.step as i64)),
    ]
}
