//! Operators that move elements, and conversions between reals and integers.

use std::collections::HashSet;

use triune_graph::{
    Node, Op, ValueId,
    format::xir::Attribute,
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
        let dtype = &self.document.values[made].dtype;
        let attributes = vec![
            ("layout", Attribute::Text(format!("@layout({})", dtype.layout))),
            ("shape", ints(dtype.shape.iter().copied())),
        ];
        self.push("Reshape", &node.name, vec![Some(index)], vec![made], attributes);
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
        let constant = node.inputs.iter().flatten().any(|&id| self.constant(id).is_some());
        if constant && self.target != triune_graph::format::xir::Target::Host {
            return Err(Error::unsupported(node, "a constant joined to blocks of channels"));
        }
        let parts: Result<Vec<Option<usize>>, Error> =
            (0..node.inputs.len()).map(|index| self.taken(node, index, &form).map(Some)).collect();
        let parts = parts?;
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
        if ranges.iter().any(|range| range.step < 0) {
            return Err(Error::unsupported(node, "a slice that runs backwards"));
        }
        self.part(node, x, &ranges)
    }

    /// `Slice` of ranges in the network's order of axes.
    fn part(&mut self, node: &Node, x: ValueId, ranges: &[SliceRange]) -> Result<(), Error> {
        let form = self.form(x)?.unblocked();
        let meaning = self.wanted(node, x);
        let index = self.operand(x, &form, meaning)?;
        let y = ends(node)?.1;
        let made = self.define(y, form.clone())?;
        let attributes = slice_attributes(&form, ranges);
        self.push("Slice", &node.name, vec![Some(index)], vec![made], attributes);
        Ok(())
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
        let wrong = || Error::unsupported(node, "its indices are not one constant");
        let indices = self.constant_ints(node, 1).ok_or_else(wrong)?;
        let [index] = indices.as_slice() else { return self.swap(node, axis, &indices) };
        let extent = dims[axis] as i64;
        let from_front = if *index < 0 { index + extent } else { *index };
        let start = usize::try_from(from_front).ok().filter(|&start| start < dims[axis]).ok_or_else(wrong)?;
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
        let dtype = &self.document.values[made].dtype;
        let attributes = vec![
            ("layout", Attribute::Text(format!("@layout({})", dtype.layout))),
            ("shape", ints(dtype.shape.iter().copied())),
        ];
        self.push("Reshape", &format!("{}:without", node.name), vec![Some(part)], vec![made], attributes);
        Ok(())
    }

    /// All of an axis in another order, as channels from blue to red.
    fn swap(&mut self, node: &Node, axis: usize, order: &[i64]) -> Result<(), Error> {
        let x = input(node, 0)?;
        let extent = self.dims(x)?[axis] as i64;
        let order: Vec<i64> = order.iter().map(|&at| if at < 0 { at + extent } else { at }).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..extent) {
            return Err(Error::unsupported(
                node,
                "its indices are not one constant, nor all of the axis in another order",
            ));
        }
        let form = self.form(x)?.unblocked();
        let operand = self.taken(node, 0, &form)?;
        let made = self.made(node, 0, &form)?;
        let attributes = vec![("axis", number(form.axis(axis))), ("order", ints(order))];
        self.push("SwapOrder", &node.name, vec![Some(operand)], vec![made], attributes);
        Ok(())
    }

    pub(super) fn expand(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let (from, to) = (self.dims(x)?, self.dims(y)?);
        if from.rank() != to.rank() {
            return Err(Error::unsupported(node, "an expansion to more axes"));
        }
        let form = self.form(x)?.unblocked();
        let meaning = self.wanted(node, x);
        let index = self.operand(x, &form, meaning)?;
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
