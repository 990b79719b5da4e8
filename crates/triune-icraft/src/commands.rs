//! The accelerator's operators as documents have them: commands, constants, and where values lie.

mod constants;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

use triune_device::{Command, command};
use triune_graph::{
    Constant, Graph, Node, NodeId, Op, ValueId,
    format::xir::{Attribute, ElementType, Operation, Target},
    ops::{self, UnaryKind},
};
use triune_tensor::{DType, Shape};

use super::{
    accelerated::{Accelerated, between},
    address::Addresses,
    emit::{Emitter, ints},
    form::{Form, layout, scalar, stored, tensor},
    generate::{Generated, Placed},
};
use crate::Error;
use triune_compiler::{partition::Pause, view::View};

/// Tag of a value whose elements do not lie without gaps: bytes from one to the next along each stored axis.
pub(crate) const STRIDES: &str = "strides";

/// A core with its commands, to be written.
pub(crate) struct Compiled<'a> {
    pub(crate) core: &'a Accelerated,
    pub(crate) generated: &'a Generated,
    pub(crate) addresses: Addresses,
    /// Bytes of instructions so far.
    pub(crate) instructions: u64,
    /// Operators with commands so far.
    layers: i64,
    /// The document's values for those of the core.
    values: HashMap<ValueId, usize>,
    /// The document's constants by their offset.
    pub(super) constants: HashMap<u64, usize>,
    /// Nodes of the network that an operator stands for already.
    claimed: HashSet<NodeId>,
}

impl<'a> Compiled<'a> {
    pub(crate) fn new(core: &'a Accelerated, generated: &'a Generated, addresses: Addresses) -> Self {
        let (values, constants, claimed) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { core, generated, addresses, instructions: 0, layers: 0, values, constants, claimed }
    }
}

impl Emitter<'_> {
    /// Appends the accelerator's operators of a stage.
    pub(crate) fn hard_ops(&mut self, compiled: &mut Compiled<'_>, stage: usize) -> Result<(), Error> {
        let (core, generated) = (compiled.core, compiled.generated);
        let (program, turns) = (&generated.program, &core.turns);
        let lies = |id: ValueId| {
            let placed = generated.places.get(id.0 as usize).copied().flatten();
            placed.ok_or_else(|| Error::internal(format!("'{}' lies nowhere", core.graph.value(id).name)))
        };
        let made: Vec<usize> = match stage.checked_sub(1) {
            None => (0..turns.given).collect(),
            Some(pause) => turns.pauses[pause].makes.clone(),
        };
        for id in made.into_iter().map(|index| core.graph.inputs[index]) {
            let name = &core.graph.value(id).name;
            let value = core
                .value(id)
                .ok_or_else(|| Error::internal(format!("'{name}' is no value of the model")))?;
            let placed = lies(id)?;
            let (form, _) = describe(&placed.view);
            let index = self.operand(value, &form, self.meaning(value))?;
            self.document.values[index].mtype = compiled.addresses.value(program, &placed)?;
            compiled.values.insert(id, index);
        }
        let graph = &core.graph;
        let first: usize = turns.stages[..stage].iter().sum();
        let own = first..first + turns.stages[stage];
        for (node, span) in graph.nodes[own.clone()].iter().zip(&generated.spans[own.clone()]) {
            let mut inputs = Vec::with_capacity(node.inputs.len());
            for &id in node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none()) {
                let index = compiled.values.get(&id).copied();
                let name = &graph.value(id).name;
                inputs.push(Some(
                    index.ok_or_else(|| Error::internal(format!("'{name}' is read before it is made")))?,
                ));
            }
            let mut outputs = Vec::with_capacity(node.outputs.len());
            for &id in node.outputs.iter().flatten() {
                // A result that nobody reads may lie nowhere.
                let Some(placed) = generated.places.get(id.0 as usize).copied().flatten() else { continue };
                let index = self.placed_value(compiled, id, &placed, "")?;
                compiled.values.insert(id, index);
                outputs.push(index);
            }
            let origin = self.origin(compiled, node);
            self.hard_op(compiled, Some(node), &node.name, span.clone(), inputs, outputs, origin)?;
        }
        let copies = generated.copies[stage].clone();
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let read = |pauses: &[Pause]| -> HashSet<usize> {
            pauses.iter().flat_map(|pause| pause.reads.iter().copied()).collect()
        };
        // What the host takes now: what it reads in this pause and did in none before, or what is left at the end.
        let before = read(&turns.pauses[..stage]);
        let now = turns.pauses.get(stage).map(|pause| read(std::slice::from_ref(pause)));
        let taken =
            |index: &usize| !before.contains(index) && now.as_ref().is_none_or(|now| now.contains(index));
        for index in (0..graph.outputs.len()).filter(taken) {
            let (id, placed) = (graph.outputs[index], &generated.outputs[index]);
            let index = compiled.values.get(&id).copied();
            let index = index.ok_or_else(|| Error::internal("a result that nothing makes"))?;
            let own = lies(id)?;
            let copied = !copies.is_empty() && (own.segment, own.offset) != (placed.segment, placed.offset);
            let result = if copied {
                let result = self.placed_value(compiled, id, placed, ":result")?;
                from.push(Some(index));
                to.push(result);
                result
            } else {
                index
            };
            if let Some(value) = core.value(id) {
                let (form, _) = describe(&placed.view);
                self.settle(value, result, form);
            }
        }
        if !copies.is_empty() {
            self.hard_op(compiled, None, "results", copies, from, to, Vec::new())?;
        }
        Ok(())
    }

    /// A value of the core where it lies.
    fn placed_value(
        &mut self,
        compiled: &Compiled<'_>,
        id: ValueId,
        placed: &Placed,
        suffix: &str,
    ) -> Result<usize, Error> {
        let value = compiled.core.graph.value(id);
        let name = compiled.core.value(id).map_or(&value.name, |id| &self.source.graph.value(id).name);
        let name = format!("{name}{suffix}");
        let (form, strides) = describe(&placed.view);
        let dims = placed.view.dims;
        let meaning = compiled.core.meanings[id.0 as usize];
        let element = match (self.dialect.style, meaning) {
            (Some(style), Some(meaning)) => style.activation(meaning, form.channels(&dims)),
            _ => ElementType::Scalar(scalar(placed.view.dtype)),
        };
        let index = self.value(&name, stored(element, dims, &form), None);
        let made = &mut self.document.values[index];
        made.name = name;
        made.mtype = compiled.addresses.value(&compiled.generated.program, placed)?;
        if let Some(strides) = strides {
            made.tags.insert(STRIDES.to_owned(), strides.into());
        }
        Ok(index)
    }

    /// The operators of the stage before that a node of the core stands for.
    fn origin(&mut self, compiled: &mut Compiled<'_>, node: &Node) -> Vec<(i64, String)> {
        let ends = |ids: &[Option<ValueId>]| -> Vec<ValueId> {
            ids.iter().flatten().filter_map(|&id| compiled.core.value(id)).collect()
        };
        let graph = &self.source.graph;
        let mut nodes = between(graph, &ends(&node.inputs), &ends(&node.outputs), &compiled.claimed);
        if nodes.is_empty() {
            // Fused with what passes added: it has the name of the operator that it began as.
            let own = graph.nodes.iter().position(|each| each.name == node.name);
            nodes.extend(own.map(|index| NodeId(index as u32)));
            nodes.extend(own.and_then(|index| limit_behind(graph, index)));
        }
        compiled.claimed.extend(&nodes);
        nodes.iter().filter_map(|node| self.written(&graph.nodes[node.0 as usize].name)).collect()
    }

    fn hard_op(
        &mut self,
        compiled: &mut Compiled<'_>,
        node: Option<&Node>,
        name: &str,
        span: Range<usize>,
        inputs: Vec<Option<usize>>,
        outputs: Vec<usize>,
        origin: Vec<(i64, String)>,
    ) -> Result<(), Error> {
        let commands = &compiled.generated.commands[span];
        let params = self.constants(compiled, node, name, commands)?;
        let op_id = self.op_number(&format!("hard {name}"), "HardOp");
        let mut words = Vec::new();
        if !commands.is_empty() {
            let mut own = commands.to_vec();
            own.push(Command::End(command::End {}));
            words = command::encode(&own);
            words.resize(words.len().next_multiple_of(8), 0);
        }
        let mem = compiled.addresses.instructions(compiled.instructions, words.len() as u64)?;
        compiled.instructions += words.len() as u64;
        let dtype = tensor(ElementType::Scalar(scalar(DType::U64)), &[words.len() / 8], layout("*"));
        let data = Constant::new(DType::U64, Shape::from([words.len() / 8]), words)
            .ok_or_else(|| Error::internal("instructions of no whole words"))?;
        let instr = self.value(&format!("hard {name}:instr"), dtype, Some(data));
        self.document.values[instr].name = format!("{op_id}_instr");
        self.document.values[instr].mtype = mem;
        let layer_count = i64::from(!commands.is_empty());
        // The operator that it began as, if it stands for that; others may have been fused before it.
        let own = node.and_then(|node| self.written(&node.name)).filter(|own| origin.contains(own));
        let kind = match own.as_ref().or(origin.first()) {
            Some((_, kind)) => format!("{kind}Node"),
            // What the passes put between operators, and what brings results to their places.
            None => format!("icraft::xir::{}Node", node.map_or("Copy", |node| class(&node.op))),
        };
        let mut tags = BTreeMap::new();
        if matches!(compiled.addresses, Addresses::Chunks(_)) {
            tags.insert("ReadState".to_owned(), serde_json::json!([0, compiled.layers]));
        }
        tags.insert("operator".to_owned(), name.into());
        compiled.layers += layer_count;
        let values =
            |indices: Vec<usize>| Attribute::List(indices.into_iter().map(Attribute::Value).collect());
        let attributes = BTreeMap::from([
            ("device_info".to_owned(), Attribute::Map(BTreeMap::new())),
            ("instr".to_owned(), values(vec![instr])),
            ("layer_count".to_owned(), Attribute::Int(layer_count)),
            ("origin_ops_id".to_owned(), ints(origin.into_iter().map(|(id, _)| id))),
            ("params".to_owned(), values(params)),
            ("sub_hard_ops".to_owned(), Attribute::List(Vec::new())),
        ]);
        let target = self.dialect.hardware.as_ref().map_or(Target::Host, |hardware| hardware.target);
        let type_key = "icraft::xir::HardOp".to_owned();
        self.document.ops.push(Operation {
            type_key,
            op_id,
            name: kind,
            target,
            tags,
            inputs,
            outputs,
            attributes,
        });
        Ok(())
    }
}

/// The limit that alone reads what a node makes.
fn limit_behind(graph: &Graph, index: usize) -> Option<NodeId> {
    let [Some(made)] = graph.nodes[index].outputs.as_slice() else { return None };
    let mut readers = graph.nodes.iter().enumerate().filter(|(_, node)| node.inputs.contains(&Some(*made)));
    let (reader, node) = readers.next().filter(|_| !graph.outputs.contains(made))?;
    let limits = matches!(node.op, Op::Unary(ops::Unary { kind: UnaryKind::Relu | UnaryKind::Clip(_) }));
    (limits && readers.next().is_none()).then_some(NodeId(reader as u32))
}

/// The vendor's class for an operator that no operator of the stage before stands for.
fn class(op: &Op) -> &'static str {
    match op {
        Op::Conv(_) => "Conv2d",
        Op::Gemm(_) | Op::MatMul(_) => "Matmul",
        Op::Transpose(_) => "Transpose",
        Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_) => "Reshape",
        Op::Concat(_) => "Concat",
        Op::Slice(_) => "Slice",
        Op::Split(_) => "Split",
        // Tables between types, and what has no name of its own.
        _ => "Cast",
    }
}

/// The stored form of a view, and bytes from one element to the next along each stored axis where there are gaps.
pub(crate) fn describe(view: &View) -> (Form, Option<Vec<u64>>) {
    let rank = view.dims.rank();
    let mut forms = Vec::new();
    if let Some(blocks) = view.blocks {
        forms.push(Form::blocked(4, blocks.channels));
    } else {
        forms.push(Form::plain(rank));
        if rank == 4 {
            forms.push(Form::image());
            let element = view.dtype.bytes() as u64;
            let channels = (view.strides[3] / element.max(1)) as usize;
            // Channels from within a block have none of their own: they would end where the next pixel's begin.
            let begins = view.offset.is_multiple_of(view.strides[3].max(1));
            if view.dims[1] <= channels && channels <= 32 && begins {
                forms.push(Form::blocked(4, channels));
            }
        }
    }
    for form in &forms {
        if without_gaps(form, view) {
            return (form.clone(), None);
        }
    }
    let form = forms.swap_remove(0);
    let strides = strides(&form, view);
    (form, Some(strides))
}

/// Bytes from one element to the next along each stored axis.
fn strides(form: &Form, view: &View) -> Vec<u64> {
    let mut strides: Vec<u64> = form.order.iter().map(|&axis| view.strides[axis]).collect();
    if let Some(block) = form.block
        && let Some(inner) = strides.pop()
    {
        let stride = view.blocks.map_or(block as u64 * inner, |blocks| blocks.stride);
        strides.insert(form.blocks_at(), stride);
        strides.push(inner);
    }
    strides
}

fn without_gaps(form: &Form, view: &View) -> bool {
    let mut expected = view.dtype.bytes() as u64;
    let extents = form.shape(&view.dims);
    let strides = strides(form, view);
    extents.iter().zip(&strides).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || stride == expected;
        expected *= extent as u64;
        fits
    })
}
