//! Where results lie, and in which order of axes: by who makes them, who reads them, and which output sees them.

use triune_graph::{Graph, Node, Op, ValueId, ops};
use triune_tensor::DType;

use super::{Lowering, has_contiguous_channels};
use crate::{
    Error,
    view::{Home, View},
};

/// How a producer can write its result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Any view whose channels are contiguous (NHWC with free strides), or in blocks; ranks other than 4 row-major.
    ChannelsLast,
    /// Without gaps, axes in the order of this view.
    Like(View),
    /// Row-major without gaps.
    Dense,
}

impl Lowering<'_> {
    /// Decides where a result goes: its part of a concatenation, an output's segment, or scratch.
    pub(super) fn place(&mut self, id: ValueId, form: Form) -> Result<View, Error> {
        if let Some(view) = self.views[id.0 as usize] {
            return Ok(view);
        }
        let (dims, dtype) = self.meta(id)?;
        let strided = matches!(form, Form::ChannelsLast) && dims.rank() == 4;
        let mut view = None;
        if strided && let Some(&(parent, channel)) = self.parents.get(&id) {
            let whole = self.place(parent, Form::ChannelsLast)?;
            // No command reads and writes one buffer: pixels of two parts lie in turn.
            view = whole.channels(channel, dims[1]).filter(|_| !self.producer_reads(id, whole.home));
        } else if matches!(form, Form::Dense)
            && let Some(&(whole, axis, start)) = self.nested.get(&id)
        {
            let whole = self.place(whole, Form::Dense)?;
            let is_free = whole.is_dense() && whole.blocks.is_none() && !self.producer_reads(id, whole.home);
            view = is_free.then(|| whole.sliced(axis, start, dims[axis], 1));
        } else if let Some(target) = self.output_behind(id) {
            let fits = match form {
                Form::ChannelsLast if strided => has_contiguous_channels(&target),
                // Who writes elements in a row writes nothing behind the last one, as blocks have it.
                Form::ChannelsLast | Form::Dense => target.blocks.is_none() && target.is_dense(),
                Form::Like(like) => target.same_layout(&like.compact_like(target.home, dtype)),
            };
            view = fits.then_some(target);
        }
        let view = view.unwrap_or_else(|| match (form, self.block_of(id, dtype)) {
            (Form::ChannelsLast, Some(block)) => self.new_blocked(id, dims, dtype, block),
            (Form::ChannelsLast, None) => View::channels_last(self.new_scratch(dims, dtype), dtype, dims),
            (Form::Like(like), _) => like.compact_like(self.new_scratch(dims, dtype), dtype),
            (Form::Dense, _) => View::dense(self.new_scratch(dims, dtype), dtype, dims),
        });
        self.views[id.0 as usize] = Some(view);
        Ok(view)
    }

    /// Whether a node's operands lie plane by plane and nobody wants its result otherwise: channels together would have all of it
    /// transposed on the way in, and on the way out.
    pub(super) fn is_plane_by_plane(&self, node: &Node) -> bool {
        let lies_so = |id: &ValueId| match &self.views[id.0 as usize] {
            Some(view) => view.is_dense() && !has_contiguous_channels(view),
            None => self.graph.value(*id).constant.is_some(),
        };
        let maps = node.inputs.iter().flatten().filter(|id| {
            let value = self.graph.value(**id);
            value.constant.is_none() && value.shape.as_ref().is_some_and(|dims| dims.len() == 4)
        });
        let mut results = node.outputs.iter().flatten();
        self.io.block.is_none()
            && maps.clone().count() > 0
            && { maps }.all(lies_so)
            && results.all(|id| !self.becomes_map[id.0 as usize])
    }

    /// Whether a value is a picture, of which nobody wants a map.
    pub(super) fn stays_picture(&self, id: ValueId) -> bool {
        self.io.block.is_none() && self.pictures[id.0 as usize] && !self.becomes_map[id.0 as usize]
    }

    /// The node that reads a value, if that is one operand of one node and no output.
    pub(super) fn only_reader(&self, id: ValueId) -> Option<&Node> {
        let (count, reader) = self.readers[id.0 as usize];
        (count == 1 && !self.outputs.contains_key(&id)).then(|| &self.graph.nodes[reader.0 as usize])
    }

    /// The place of the output that a value is, or that only sees its elements under other extents.
    fn output_behind(&self, id: ValueId) -> Option<View> {
        let (dims, dtype) = self.meta(id).ok()?;
        let mut last = id;
        loop {
            if let Some(&index) = self.outputs.get(&last) {
                let target = self.io.outputs[index];
                // Of blocks, what fills the last one is written by whoever writes blocks.
                let behind = || if target.blocks.is_none() { target.reshaped(dims) } else { None };
                return if last == id { Some(target) } else { behind() }
                    .filter(|target| target.dtype == dtype);
            }
            let reader = self.only_reader(last)?;
            let first = reader.inputs.first().copied().flatten();
            if first != Some(last) || !self.passes_on(reader) {
                return None;
            }
            last = reader.outputs.first().copied().flatten()?;
        }
    }

    /// Whether a node's result has its operand's elements in their order, and the two can be one.
    pub(super) fn passes_on(&self, node: &Node) -> bool {
        match &node.op {
            Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_) | Op::Identity(_) => true,
            Op::Table(op) => {
                let ends = [&node.inputs, &node.outputs].map(|ids| ids.first().copied().flatten());
                let [from, to] = ends.map(|id| id.and_then(|id| self.graph.value(id).dtype));
                self.io.block.is_none()
                    && from == to
                    && op.table.iter().enumerate().all(|(byte, &own)| byte == usize::from(own))
            }
            _ => false,
        }
    }

    /// Whether an operand of the node that makes the value lies in `home`.
    fn producer_reads(&self, id: ValueId, home: Home) -> bool {
        self.producers[id.0 as usize].is_some_and(|producer| {
            let node = &self.graph.nodes[producer.0 as usize];
            let mut views = node.inputs.iter().flatten().filter_map(|input| self.views[input.0 as usize]);
            views.any(|view| view.home == home)
        })
    }
}

/// Whether the operator writes its result as a feature map with free strides.
pub(super) fn writes_feature_maps(op: &Op) -> bool {
    matches!(
        op,
        Op::Conv(_)
            | Op::Pool(_)
            | Op::GlobalPool(_)
            | Op::AdaptivePool(_)
            | Op::Resize(_)
            | Op::WarpPerspective(_)
            | Op::Binary(_)
            | Op::Table(_)
            | Op::Tables(_)
    )
}

/// Whether a pool is made plane by plane in less time than with channels brought side by side: of reals, whose kernels take every
/// column or every other one, and not of many channels by windows with so many elements that all columns are read often.
pub(super) fn serves_planes(graph: &Graph, node: &Node, op: &ops::Pool) -> bool {
    const FEW: usize = 9;
    const FEW_CHANNELS: usize = 16;
    let Some(x) = node.inputs.first().copied().flatten().map(|id| graph.value(id)) else { return false };
    let channels = x.fixed_shape().map_or(0, |shape| shape.get(1).copied().unwrap_or(0));
    // Means of few rows' elements cost more by planes than bringing many channels side by side, but of the windows that slide.
    let few_taps = op.kind == ops::PoolKind::Max && op.kernel[0].saturating_mul(op.kernel[1]) <= FEW;
    let slides = op.kernel == [3; 2] && op.dilation == [1; 2] && op.stride == [1; 2];
    let few = op.stride[1] == 2 || op.stride[1] == 1 && (channels < FEW_CHANNELS || few_taps || slides);
    few && x.dtype == Some(DType::F32)
}

/// Whether the operator's result lies as its operands do.
fn keeps_order(op: &Op) -> bool {
    matches!(
        op,
        Op::Binary(_)
            | Op::Unary(_)
            | Op::Table(_)
            | Op::Tables(_)
            | Op::QuantizeLinear(_)
            | Op::DequantizeLinear(_)
            | Op::Concat(_)
            | Op::Pad(_)
            | Op::Clip(_)
            | Op::Cast(_)
            | Op::Identity(_)
            | Op::Slice(_)
            | Op::Split(_)
            | Op::Where(_)
    )
}

/// For every value, whether it is an input or made of inputs by operators that keep their order: a picture lies in planes.
pub(super) fn pictures(graph: &Graph) -> Vec<bool> {
    let mut pictures = vec![false; graph.values.len()];
    graph.inputs.iter().for_each(|id| pictures[id.0 as usize] = true);
    for node in graph.nodes.iter().filter(|node| keeps_order(&node.op)) {
        let mut computed = node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none());
        if computed.all(|id| pictures[id.0 as usize]) {
            node.outputs.iter().flatten().for_each(|id| pictures[id.0 as usize] = true);
        }
    }
    pictures
}

/// Whether a picture of reals is convolved plane by plane in less time than with its few channels brought side by side.
pub(super) fn convolves_planes(graph: &Graph, node: &Node, op: &ops::Conv, pictures: &[bool]) -> bool {
    const CHANNELS: std::ops::RangeInclusive<usize> = 2..=16;
    /// A tile has neighbours in a line.
    const COLUMNS: usize = 14;
    /// Columns that a window reaches over at most: as many are copied at a border.
    const REACH: usize = 256;
    let value = |index: usize| node.inputs.get(index).copied().flatten();
    let (Some(x), Some(w), Some(y)) = (value(0), value(1), node.outputs.first().copied().flatten()) else {
        return false;
    };
    let extents = |id: ValueId| graph.value(id).fixed_shape();
    let (Some(from), Some(weights), Some(to)) = (extents(x), extents(w), extents(y)) else { return false };
    let (&[_, channels, ..], &[_, _, kh, kw], &[.., columns]) = (&*from, &*weights, &*to) else {
        return false;
    };
    let is_real = |id: ValueId| graph.value(id).dtype == Some(DType::F32);
    let is_added_to = op.epilogue.post_ops.iter().any(|post_op| matches!(post_op, ops::PostOp::Residual(_)));
    pictures[x.0 as usize]
        && CHANNELS.contains(&channels)
        && kh.saturating_mul(kw) > 1
        && columns >= COLUMNS
        && (1..=2).contains(&op.stride[1])
        && kw.saturating_mul(op.dilation[1]) <= REACH
        && op.groups == 1
        && node.quant.is_none()
        && is_real(x)
        && is_real(w)
        && !is_added_to
}

/// For every value, whether a feature map is made of it.
pub(super) fn maps_to_be(graph: &Graph, pictures: &[bool]) -> Vec<bool> {
    let mut wanted = vec![false; graph.values.len()];
    for node in graph.nodes.iter().rev() {
        // What can be done plane by plane wants maps where its readers do.
        let either = matches!(&node.op, Op::Pool(op) if serves_planes(graph, node, op));
        let in_planes = matches!(&node.op, Op::Conv(op) if convolves_planes(graph, node, op, pictures));
        let reads_map = !either
            && !in_planes
            && matches!(
                node.op,
                Op::Conv(_)
                    | Op::Pool(_)
                    | Op::GlobalPool(_)
                    | Op::AdaptivePool(_)
                    | Op::Resize(_)
                    | Op::WarpPerspective(_)
            );
        let passes_on = keeps_order(&node.op) || either;
        if reads_map || passes_on && node.outputs.iter().flatten().any(|id| wanted[id.0 as usize]) {
            node.inputs.iter().flatten().for_each(|id| wanted[id.0 as usize] = true);
        }
    }
    wanted
}
