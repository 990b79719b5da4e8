//! Lowering: from the operators of a prepared graph to commands of the device, one file per operator family.
//!
//! A value is a view of a buffer (see `view.rs`). Operators that only move elements become new views; those that compute
//! become commands between views. Scratch buffers get addresses from the memory plan (`plan.rs`) when all commands are known.

mod attention;
mod constants;
mod conv;
mod eltwise;
mod few_results;
mod form;
mod gemm;
mod index;
mod mirror;
mod movement;
mod pool;
mod quant;
mod recurrence;
mod reduce;
mod single_plane;
mod softmax;
mod typed;
mod warp;

use std::collections::HashMap;

use bytes::Bytes;
use triune_device::{
    Addr, Command, FeatureMap, Library,
    command::{self, CommandBuffer, Copy, Fill},
    work,
};
use triune_graph::{Graph, Node, NodeId, Op, Quantization, ValueId, ops::PostOp, with_op};
use triune_tensor::{DType, QuantParams, Shape, function::UnaryKind};

use crate::{
    Error, Program,
    partition::{Pause, Turns},
    patch,
    plan::Draft,
    program::{Operator, Wait},
    view::{Blocks, Home, View, merge_axes},
};
use attention::Attentions;
use constants::ConstantPool;
use form::{Form, maps_to_be, pictures, serves_planes, writes_feature_maps};

/// Where the border tensors lie, and what surrounds an input's data.
#[derive(Clone, Debug, Default)]
pub struct IoPlan {
    /// One per graph input.
    pub inputs: Vec<InputPlan>,
    /// One view per graph output, over the output's data without padding.
    pub outputs: Vec<View>,
    /// Bytes of a block of channels, if quantized feature maps and weights lie in blocks.
    pub block: Option<u32>,
    /// How the graph takes turns with the host; without stages it runs in one go.
    pub turns: Turns,
}

/// Where an input lies.
#[derive(Clone, Debug)]
pub struct InputPlan {
    /// The data, without padding.
    pub view: View,
    /// The data with the border that the one convolution that reads it needs, and with padded channels.
    pub bordered: Option<View>,
}

/// What lowering gives: commands whose addresses name feature maps, and what segment 1 holds.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The commands, in order.
    pub commands: CommandBuffer,
    /// The operators that have any, in order.
    pub operators: Vec<Operator>,
    /// Bytes of the constants segment.
    pub constants: Vec<u8>,
    /// The feature maps that addresses name.
    pub drafts: Vec<Draft>,
    /// Where each value of the graph lies, if any operator had to know.
    pub views: Vec<Option<View>>,
    /// First and one past the last command of each node.
    pub spans: Vec<[u32; 2]>,
    /// First and one past the last command that copies outputs to their places at the end of each stage.
    pub copies: Vec<[u32; 2]>,
    /// How many of the outputs callers get.
    pub results: usize,
    /// Where the commands wait for the host.
    pub waits: Vec<Wait>,
    /// Offset and length of the pieces of `constants`, in order.
    pub pieces: Vec<[u64; 2]>,
    /// What the segments behind the outputs' hold.
    pub tables: Vec<Bytes>,
}

/// Lowers a prepared graph with fixed shapes. Weights go to the library, if there is one, else to the constants.
pub fn lower(graph: &Graph, io: &IoPlan, library: Option<&Library>) -> Result<Lowered, Error> {
    let pictures = pictures(graph);
    let mut lowering = Lowering {
        graph,
        io,
        producers: graph.producers(),
        outputs: graph.outputs.iter().copied().enumerate().rev().map(|(index, id)| (id, index)).collect(),
        meanings: graph.meanings(),
        views: vec![None; graph.values.len()],
        feature_maps: HashMap::new(),
        plain: HashMap::new(),
        products: HashMap::new(),
        attentions: Attentions::default(),
        readers: readers(graph),
        parents: HashMap::new(),
        nested: HashMap::new(),
        becomes_map: maps_to_be(graph, &pictures),
        pictures,
        commands: CommandBuffer::default(),
        operators: Vec::with_capacity(graph.nodes.len()),
        spans: Vec::with_capacity(graph.nodes.len()),
        copies: Vec::new(),
        waits: Vec::new(),
        scratch: Vec::with_capacity(graph.nodes.len()),
        constants: ConstantPool::default(),
        tables: Vec::new(),
        library,
    };
    for (&id, input) in graph.inputs.iter().zip(&io.inputs) {
        lowering.views[id.0 as usize] = Some(input.view);
    }
    lowering.find_parents();
    lowering.find_nested();
    lowering.find_attentions();
    let (mut done, mut ended) = (vec![false; graph.outputs.len()], 0);
    let mut stages = io.turns.stages.iter().zip(&io.turns.pauses).peekable();
    for (index, node) in graph.nodes.iter().enumerate() {
        while let Some((_, pause)) = stages.next_if(|(nodes, _)| ended + **nodes <= index) {
            lowering.pause(pause, &mut done)?;
            ended += io.turns.stages[lowering.waits.len() - 1];
        }
        // A run with other extents compiles, and may be stopped there.
        work::go_on()?;
        if io.block.is_some() {
            // Where operators run one by one, each reads its own operands: what an earlier one made of them lies nowhere that a
            // caller knows of, and their place may be another's by then.
            lowering.feature_maps.clear();
            lowering.plain.clear();
        }
        let first = lowering.commands.len() as u32;
        let kind = lowering.node(index, node).map_err(|error| error.at(node))?;
        let last = lowering.commands.len() as u32;
        lowering.spans.push([first, last]);
        if last > first {
            let (name, kind) = (node.name.clone(), kind.into());
            let axes = lowering.indexed_axes(node);
            lowering.operators.push(Operator { name, kind, first, last, axes, origin: node.origin.clone() });
        }
    }
    for (_, pause) in stages {
        lowering.pause(pause, &mut done)?;
    }
    lowering.finish(&done)
}

struct Lowering<'g> {
    graph: &'g Graph,
    io: &'g IoPlan,
    /// For every value, the node that makes it.
    producers: Vec<Option<NodeId>>,
    /// The first of the graph's outputs that each value is.
    outputs: HashMap<ValueId, usize>,
    /// For every value, what its integers stand for: what fills the last block of a map is at its zero point.
    meanings: Vec<Option<QuantParams>>,
    views: Vec<Option<View>>,
    /// Channels-last copies of values that lie otherwise.
    feature_maps: HashMap<ValueId, View>,
    /// Copies without blocks of values that lie in several.
    plain: HashMap<ValueId, View>,
    /// The factors of products that are made with the sum that reads them.
    products: HashMap<ValueId, [View; 2]>,
    /// Products, softmaxes and what stands between them that are one command.
    attentions: Attentions,
    /// How many operands each value is, and the last node that it is one of.
    readers: Vec<(u32, NodeId)>,
    /// Values that are written straight into a part of a concatenation: its output, and the first channel.
    parents: HashMap<ValueId, (ValueId, usize)>,
    /// Joined values that are joined again, and read by nothing else but slices: the whole, and where they lie in it.
    nested: HashMap<ValueId, (ValueId, usize, usize)>,
    /// For every value, whether something that reads feature maps comes of it before its elements are moved.
    becomes_map: Vec<bool>,
    /// For every value, whether it is a picture, see [`form::pictures`].
    pictures: Vec<bool>,
    commands: CommandBuffer,
    operators: Vec<Operator>,
    spans: Vec<[u32; 2]>,
    copies: Vec<[u32; 2]>,
    waits: Vec<Wait>,
    scratch: Vec<Draft>,
    constants: ConstantPool,
    tables: Vec<Bytes>,
    library: Option<&'g Library>,
}

/// How many operands each value is, and the last node that it is one of.
fn readers(graph: &Graph) -> Vec<(u32, NodeId)> {
    let mut readers = vec![(0, NodeId(0)); graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for id in node.inputs.iter().flatten() {
            let (count, reader) = &mut readers[id.0 as usize];
            *count += 1;
            *reader = NodeId(index as u32);
        }
    }
    readers
}

/// An operator that becomes commands.
trait Lower {
    fn lower(&self, to: &mut Lowering<'_>, node: &Node) -> Result<(), Error>;
}

impl Lower for triune_graph::Function {
    fn lower(&self, _: &mut Lowering<'_>, node: &Node) -> Result<(), Error> {
        Err(Error::unsupported(node, "its shapes were never inferred"))
    }
}

/// Says how operators become commands: with the lowering, the node and its attributes.
macro_rules! lowers {
    ($($op:ident => |$to:pat_param, $node:ident, $own:pat_param| $lower:expr;)+) => {
        $(impl $crate::lower::Lower for triune_graph::ops::$op {
            fn lower(&self, to: &mut $crate::lower::Lowering<'_>, $node: &triune_graph::Node) -> Result<(), $crate::Error> {
                let ($to, $own) = (to, self);
                $lower
            }
        })+
    };
}
use lowers;

lowers! {
    Hosted => |_, node, _| Err(Error::unsupported(node, "it runs on the host, between the stages of a network"));
    BatchNormalization => |_, node, _| Err(Error::unsupported(node, "its parameters are not constant"));
    ShapeOf => |_, node, _| Err(Error::unsupported(node, "its parameters are not constant"));
}

impl Lowering<'_> {
    /// Lowers a node; gives the kind of operator that its commands are of.
    fn node(&mut self, index: usize, node: &Node) -> Result<&'static str, Error> {
        if let Some(attention) = self.attentions.ending_at(index) {
            self.attention(node, &attention)?;
            return Ok(Operator::ATTENTION);
        }
        if !self.attentions.waits(index) {
            with_op!(&node.op, op => op.lower(self, node))?;
        }
        Ok(node.op.name())
    }

    /// Marks values that a concatenation along channels can receive in place.
    fn find_parents(&mut self) {
        for node in &self.graph.nodes {
            let (Op::Concat(op), Some(Some(out))) = (&node.op, node.outputs.first()) else { continue };
            let whole = self.graph.value(*out);
            if whole.shape.as_ref().map(Vec::len) != Some(4) || !matches!(op.axis, 1 | -3) {
                continue;
            }
            let mut channel = 0;
            let channels = whole.fixed_shape().map_or(0, |dims| dims[1]);
            for &input in node.inputs.iter().flatten() {
                let part = self.graph.value(input);
                let Some(dims) = part.fixed_shape() else { break };
                // A part of a map in blocks has blocks of its own, unless it is the last.
                let apart = whole.dtype.and_then(|dtype| self.block_of(*out, dtype)).is_none_or(|block| {
                    let end = channel + dims[1];
                    channel.is_multiple_of(block) && (end.is_multiple_of(block) || end == channels)
                });
                let strided = self.producers[input.0 as usize]
                    .is_some_and(|producer| writes_feature_maps(&self.graph.nodes[producer.0 as usize].op));
                if strided && apart && part.dtype == whole.dtype && !self.outputs.contains_key(&input) {
                    self.parents.entry(input).or_insert((*out, channel));
                }
                channel += dims[1];
            }
        }
    }

    /// Marks joined values that are parts of another joined value, along an axis that is no feature map's channels: borders that repeat
    /// what lies opposite are joined to a map axis by axis.
    fn find_nested(&mut self) {
        for node in &self.graph.nodes {
            let (Op::Concat(op), &[Some(whole)]) = (&node.op, &node.outputs[..]) else { continue };
            let Some(dims) = self.graph.value(whole).fixed_shape() else { continue };
            let Ok(axis) = movement::axis(node, op.axis, dims.len()) else { continue };
            if dims.len() == 4 && axis == 1 {
                continue;
            }
            let mut start = 0;
            for &part in node.inputs.iter().flatten() {
                let Some(extents) = self.graph.value(part).fixed_shape() else { break };
                let own = start;
                start += extents[axis];
                let producer = self.producers[part.0 as usize].map(|id| &self.graph.nodes[id.0 as usize].op);
                let is_joined = matches!(producer, Some(Op::Concat(_)));
                if is_joined && !self.outputs.contains_key(&part) && self.is_only_cut(part, node) {
                    self.nested.insert(part, (whole, axis, own));
                }
            }
        }
    }

    /// Whether a value is one operand of `whole`, and all else that reads it takes slices.
    fn is_only_cut(&self, value: ValueId, whole: &Node) -> bool {
        let times = |node: &Node| node.inputs.iter().flatten().filter(|&&input| input == value).count();
        times(whole) == 1
            && self.graph.nodes.iter().filter(|node| times(node) > 0).all(|node| {
                std::ptr::eq(node, whole) || matches!(node.op, Op::Slice(_)) && node.inputs[0] == Some(value)
            })
    }

    /// Ends a stage: what the host reads has to be in its place.
    fn pause(&mut self, pause: &Pause, done: &mut [bool]) -> Result<(), Error> {
        self.copy_outputs(pause.reads.iter().copied().filter(|&index| !done[index]).collect())?;
        pause.reads.iter().for_each(|&index| done[index] = true);
        let (reads, makes) = (pause.reads.clone(), pause.makes.clone());
        self.waits.push(Wait { at: self.commands.len() as u32, reads, makes });
        Ok(())
    }

    /// Copies outputs that lie elsewhere to their places.
    fn copy_outputs(&mut self, outputs: Vec<usize>) -> Result<(), Error> {
        let first = self.commands.len() as u32;
        for index in outputs {
            let target = self.io.outputs[index];
            let view = self.mapped(self.graph.outputs[index])?;
            // Axes of one element have no say.
            let there = (view.home, view.offset, view.dtype) == (target.home, target.offset, target.dtype);
            if !there || !view.same_layout(&target) {
                self.copy(&view, &target)?;
            }
        }
        let last = self.commands.len() as u32;
        self.copies.push([first, last]);
        if last > first {
            self.operators.push(Operator {
                name: "outputs".into(),
                kind: "Copy".into(),
                first,
                last,
                axes: Vec::new(),
                origin: None,
            });
        }
        Ok(())
    }

    /// Copies the outputs that are not `done`, ends the stream.
    fn finish(mut self, done: &[bool]) -> Result<Lowered, Error> {
        self.copy_outputs((0..done.len()).filter(|&index| !done[index]).collect())?;
        self.commands.push(&Command::End(triune_device::command::End {}));
        let turns = &self.io.turns;
        let results = if turns.pauses.is_empty() { self.graph.outputs.len() } else { turns.results };
        let (commands, operators, pieces) = (self.commands, self.operators, self.constants.pieces().to_vec());
        let (constants, drafts) = (self.constants.into_bytes()?, self.scratch);
        let (views, spans, copies, waits, tables) =
            (self.views, self.spans, self.copies, self.waits, self.tables);
        Ok(Lowered {
            commands,
            operators,
            constants,
            drafts,
            views,
            spans,
            copies,
            results,
            waits,
            pieces,
            tables,
        })
    }

    // ---- values ----

    /// Dimensions and element type of a value.
    fn meta(&self, id: ValueId) -> Result<(Shape, DType), Error> {
        let value = self.graph.value(id);
        match (value.fixed_shape(), value.dtype) {
            (Some(shape), Some(dtype)) => Ok((shape, dtype)),
            _ => Err(Error::Target(format!("the shape of '{}' is not known", value.name))),
        }
    }

    /// What a node takes the integers of operand `index` for.
    fn operand_quant(&self, node: &Node, index: usize) -> Result<QuantParams, Error> {
        let quant = quantization(node)?.operand(index);
        let quant = quant.ok_or_else(|| {
            Error::unsupported(node, format!("operand {index} has no scale and zero point"))
        })?;
        self.symmetric(node, operand(node, index)?, quant)
    }

    /// What the integers of a node's result stand for.
    fn result_quant(&self, node: &Node) -> Result<QuantParams, Error> {
        let quant = quantization(node)?.result;
        self.symmetric(node, result(node)?, quant)
    }

    /// 16-bit integers are symmetric in arithmetic.
    fn symmetric(&self, node: &Node, id: ValueId, quant: QuantParams) -> Result<QuantParams, Error> {
        let value = self.graph.value(id);
        if value.dtype == Some(DType::I16) && quant.zero_point != 0 {
            let zero_point = quant.zero_point;
            return Err(Error::unsupported(
                node,
                format!("16-bit value '{}' with a zero point of {zero_point}", value.name),
            ));
        }
        Ok(quant)
    }

    /// A factor of arithmetic on integers of a type, as the graph wants factors.
    fn factor(&self, node: &Node, value: f32, dtype: DType) -> Result<f32, Error> {
        self.graph.requantize.factor(value, 8 * dtype.bytes() as u32).ok_or_else(|| {
            Error::unsupported(node, format!("a multiplier of {value}, where m·2⁻ⁿ has an m of at most 255"))
        })
    }

    /// Channels of a block, if the value is a feature map that lies in blocks.
    fn block_of(&self, id: ValueId, dtype: DType) -> Option<usize> {
        let value = self.graph.value(id);
        let image = value.shape.as_ref().is_some_and(|dims| dims.len() == 4);
        let block = self.io.block.filter(|_| image && dtype.holds_quantized())? as usize;
        Some((block / dtype.bytes()).max(1))
    }

    /// Where a value lies, without blocks; copied if it has several.
    fn view(&mut self, id: ValueId) -> Result<View, Error> {
        let view = self.mapped(id)?;
        if let Some(plain) = view.plain().or_else(|| self.plain.get(&id).copied()) {
            return Ok(plain);
        }
        let own = self.unblocked(&view)?;
        self.plain.insert(id, own);
        Ok(own)
    }

    /// The view without blocks, copied if there are several.
    fn unblocked(&mut self, view: &View) -> Result<View, Error> {
        if let Some(plain) = view.plain() {
            return Ok(plain);
        }
        let own = View::channels_last(self.new_scratch(view.dims, view.dtype), view.dtype, view.dims);
        self.copy(view, &own)?;
        Ok(own)
    }

    /// A view of the value with contiguous channels, maybe in blocks, copied if it lies otherwise.
    fn feature_map(&mut self, node: &Node, id: ValueId) -> Result<View, Error> {
        if let Some(&view) = self.feature_maps.get(&id) {
            return Ok(view);
        }
        let view = self.mapped(id)?;
        if view.dims.rank() != 4 {
            return Err(Error::unsupported(
                node,
                format!("rank {} where an image batch is needed", view.dims.rank()),
            ));
        }
        if has_contiguous_channels(&view) {
            return Ok(view);
        }
        let own = View::channels_last(self.new_scratch(view.dims, view.dtype), view.dtype, view.dims);
        self.copy(&view, &own)?;
        self.feature_maps.insert(id, own);
        Ok(own)
    }

    /// A row-major view of the value, copied if it lies otherwise.
    fn dense(&mut self, id: ValueId) -> Result<View, Error> {
        let view = self.mapped(id)?;
        self.densified(&view)
    }

    /// The view itself if it is row-major, else a copy that is.
    fn densified(&mut self, view: &View) -> Result<View, Error> {
        match view.plain() {
            Some(plain) if plain.is_dense() => Ok(plain),
            _ => self.duplicate(view),
        }
    }

    /// A row-major copy.
    fn duplicate(&mut self, view: &View) -> Result<View, Error> {
        let own = View::dense(self.new_scratch(view.dims, view.dtype), view.dtype, view.dims);
        self.copy(view, &own)?;
        Ok(own)
    }

    /// Gives a value the place of another, seen differently.
    fn set_view(&mut self, id: ValueId, view: View) {
        self.views[id.0 as usize] = Some(view);
    }

    /// A scratch buffer for the elements of these extents, without gaps.
    fn new_scratch(&mut self, dims: Shape, dtype: DType) -> Home {
        let bytes = dims.iter().product::<usize>() as u64 * dtype.bytes() as u64;
        self.scratch.push(Draft { bytes, first: u32::MAX, last: 0 });
        Home::Scratch(self.scratch.len() as u32 - 1)
    }

    /// A scratch view in blocks, the last one filled up with the value's zero point.
    fn new_blocked(&mut self, id: ValueId, dims: Shape, dtype: DType, block: usize) -> View {
        let zero_point = self.meanings[id.0 as usize].map_or(0, |quant| quant.zero_point);
        let mut padded = dims;
        padded.dims_mut()[1] = dims[1].next_multiple_of(block);
        let home = self.new_scratch(padded, dtype);
        View::blocked(home, dtype, [dims[0], dims[1], dims[2], dims[3]], block, filling(zero_point, dtype))
    }

    /// A scratch view for an intermediate that no value of the graph stands for.
    fn temporary(&mut self, like: &View, dtype: DType) -> View {
        let mut dims = like.dims;
        if let Some(blocks) = like.blocks {
            dims.dims_mut()[1] = dims[1].next_multiple_of(blocks.channels);
        }
        let home = self.new_scratch(dims, dtype);
        like.compact_like(home, dtype)
    }

    // ---- commands ----

    /// Appends a command and keeps the buffers that it touches alive.
    fn emit(&mut self, command: impl Into<Command>, touched: &[&View]) {
        let mut command = command.into();
        if command.is_empty() {
            return;
        }
        let now = self.commands.len() as u32;
        for view in touched {
            if let Home::Scratch(index) = view.home {
                let scratch = &mut self.scratch[index as usize];
                scratch.first = scratch.first.min(now);
                scratch.last = scratch.last.max(now + 1);
            }
        }
        if let Some(library) = self.library {
            command.addresses(&mut |_, _, addr| {
                if addr.segment() == Library::SEGMENT {
                    library.expect(*addr);
                }
            });
        }
        self.commands.push(&command);
    }

    /// Copies all elements of `from` to `to`, which has the same extents; the last block of `to` is filled up.
    fn copy(&mut self, from: &View, to: &View) -> Result<(), Error> {
        if from.dims.contains(&0) {
            return Ok(());
        }
        let Some(blocks) = to.blocks.or(from.blocks) else { return self.copy_plain(from, to) };
        if let (Some(own), Some(other)) = (from.blocks, to.blocks)
            && own.channels != other.channels
        {
            let plain = self.duplicate(from)?;
            return self.copy(&plain, to);
        }
        if let Some(filling) = to.filling() {
            self.fill(&filling, to.blocks.map_or(0, |blocks| blocks.fill).into())?;
        }
        let (from, to) = (from.in_blocks(blocks.channels), to.in_blocks(blocks.channels));
        for pair in [(from.0, to.0), (from.1, to.1)] {
            if let (Some(from), Some(to)) = pair {
                self.copy_plain(&from, &to)?;
            }
        }
        Ok(())
    }

    /// Writes one element everywhere.
    fn fill(&mut self, view: &View, value: u64) -> Result<(), Error> {
        let (dims, strides) = merge_axes::<6>(&[&view.permuted(&view.physical_order())])
            .ok_or_else(|| Error::Target("a border around more than six axes".into()))?;
        let command = Fill {
            elem_bytes: view.dtype.bytes() as u32,
            dims: extents(dims)?,
            dst: self.addr(view)?,
            dst_strides: strides[0],
            value,
        };
        self.emit(command, &[view]);
        Ok(())
    }

    fn copy_plain(&mut self, from: &View, to: &View) -> Result<(), Error> {
        let Some((dims, strides)) = merge_axes::<6>(&[to, from]) else {
            return self.copy_by_parts(from, to);
        };
        let command = Copy {
            elem_bytes: from.dtype.bytes() as u32,
            dims: extents(dims)?,
            src: self.addr(from)?,
            src_strides: strides[1],
            dst: self.addr(to)?,
            dst_strides: strides[0],
        };
        self.emit(command, &[from, to]);
        Ok(())
    }

    /// Copies along more axes than a command has: one command for each index of the shortest of them.
    fn copy_by_parts(&mut self, from: &View, to: &View) -> Result<(), Error> {
        /// Most commands for it, two axes' together.
        const MOST: usize = 64;
        let axes = (0..to.dims.rank()).filter(|&axis| to.dims[axis] > 1);
        let axis = axes.min_by_key(|&axis| to.dims[axis]).filter(|&axis| to.dims[axis] <= MOST);
        let axis = axis.ok_or_else(|| {
            Error::Target(format!(
                "a copy over more than six axes, of which none has {MOST} elements or fewer ({})",
                to.dims
            ))
        })?;
        (0..to.dims[axis]).try_for_each(|index| {
            self.copy_plain(&from.sliced(axis, index, 1, 1), &to.sliced(axis, index, 1, 1))
        })
    }

    /// The address of a view's first element; scratch addresses hold the buffer's index until the plan is made.
    fn addr(&self, view: &View) -> Result<Addr, Error> {
        let [inputs, outputs] = [self.io.inputs.len(), self.io.outputs.len()].map(|count| count as u32);
        let segment = |index: u32| {
            Program::behind(index as usize).ok_or_else(|| {
                let most = Program::MOST_BORDER;
                Error::Target(format!("more than {most} inputs, outputs and tables of the model"))
            })
        };
        if view.offset > patch::MAX_OFFSET {
            return Err(Error::Target(format!("a buffer of more than {} bytes", patch::MAX_OFFSET)));
        }
        Ok(match view.home {
            Home::Constants => Addr::new(Program::CONSTANTS, view.offset),
            Home::Scratch(index) => patch::pack(index, view.offset)
                .ok_or_else(|| Error::Target("more than a million feature maps".into()))?,
            Home::Input(index) => Addr::new(segment(index)?, view.offset),
            Home::Output(index) => Addr::new(segment(inputs + index)?, view.offset),
            Home::Table(index) => Addr::new(segment(inputs + outputs + index)?, view.offset),
        })
    }

    /// The descriptor of a view whose channels are contiguous, or lie in planes: those are blocks of one channel.
    fn map(&self, view: &View) -> Result<FeatureMap, Error> {
        let [n, c, h, w] = extents::<4>([view.dims[0], view.dims[1], view.dims[2], view.dims[3]])?;
        let [stride_n, stride_h, stride_w] = [view.strides[0], view.strides[2], view.strides[3]];
        let (addr, dtype) = (self.addr(view)?, view.dtype);
        let blocks = match view.blocks {
            Some(Blocks { channels, stride, fill, .. }) => {
                let [channels] = extents([channels])?;
                Some(command::Blocks { channels, stride, fill })
            }
            None if has_contiguous_channels(view) => None,
            None => Some(command::Blocks { channels: 1, stride: view.strides[1], fill: 0 }),
        };
        Ok(FeatureMap { addr, dtype, n, h, w, c, stride_n, stride_h, stride_w, blocks })
    }

    /// The descriptor of an elementwise operand whatever its rank: a gapless view as rows of its innermost axis, a
    /// view with contiguous channels as it is.
    fn flat_map(&self, view: &View) -> Result<FeatureMap, Error> {
        if view.dims.rank() == 4 && has_contiguous_channels(view) {
            return self.map(view);
        }
        debug_assert!(view.is_compact());
        let order = view.physical_order();
        let elements = view.dims.iter().product::<usize>();
        let inner = order.last().map_or(1, |&axis| view.dims[axis]).max(1);
        let [rows, inner] = extents::<2>([elements / inner, inner])?;
        Ok(FeatureMap::dense(self.addr(view)?, view.dtype, [1, 1, rows, inner]))
    }

    /// Operand and result views of an elementwise command over feature maps, in the operand's order of axes.
    fn elementwise(&mut self, input: ValueId, output: ValueId) -> Result<(View, View), Error> {
        let mut from = self.mapped(input)?;
        if !(from.is_compact() || from.dims.rank() == 4 && has_contiguous_channels(&from)) {
            from = self.densified(&from)?;
        }
        let form = if from.dims.rank() == 4 && has_contiguous_channels(&from) {
            Form::ChannelsLast
        } else {
            Form::Like(from)
        };
        let to = self.place(output, form)?;
        Ok((from, to))
    }
}

/// A zero point as the bits of an element.
pub fn filling(zero_point: i32, dtype: DType) -> u32 {
    let unused = 32 - 8 * dtype.bytes().min(4) as u32;
    zero_point.cast_unsigned() << unused >> unused
}

/// Whether a rank-4 view can be described as a feature map.
fn has_contiguous_channels(view: &View) -> bool {
    view.dims[1] == 1 || view.strides[1] == view.dtype.bytes() as u64
}

/// The function that comes first behind what a command computes, which it applies itself, and what comes behind that.
fn activation_first(post_ops: &[PostOp]) -> (UnaryKind, &[PostOp]) {
    match post_ops {
        [PostOp::Activation(kind), rest @ ..] => (*kind, rest),
        all => (UnaryKind::Identity, all),
    }
}

/// Extents as the commands' u32.
fn extents<const N: usize>(dims: [usize; N]) -> Result<[u32; N], Error> {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(dims) {
        *to =
            u32::try_from(from).map_err(|_| Error::Target(format!("an extent of {from} exceeds 32 bits")))?;
    }
    Ok(out)
}

/// The operator's operand at `index`.
fn operand(node: &Node, index: usize) -> Result<ValueId, Error> {
    node.inputs
        .get(index)
        .copied()
        .flatten()
        .ok_or_else(|| Error::unsupported(node, format!("operand {index} is missing")))
}

/// The operator's first result.
fn result(node: &Node) -> Result<ValueId, Error> {
    node.outputs
        .first()
        .copied()
        .flatten()
        .ok_or_else(|| Error::unsupported(node, "its result is unused".to_owned()))
}

/// The address of a byte of the constants segment.
fn constant(offset: u64) -> Addr {
    Addr::new(Program::CONSTANTS, offset)
}

/// What a node over integers says of them.
fn quantization(node: &Node) -> Result<&Quantization, Error> {
    node.quant.as_deref().ok_or_else(|| Error::unsupported(node, "integers without scales and zero points"))
}
