//! Partition: which nodes are the integer core that an NPU runs, and what stays before and behind it on the host.
//!
//! Host and device take turns, in few stages (see `partition/stages.rs`); what the device computes in all of them is one graph,
//! which waits for the host where a stage ends. The cuts lie on quantize and dequantize operators, so the host parts are
//! plain float models.

mod between;
mod host;
mod names;
mod reasons;
pub(crate) mod report;
mod signed;
mod stages;

use std::{collections::HashSet, hash::BuildHasher};

use triune_graph::{Graph, NodeId, Op, ValueId, passes};
use triune_tensor::{DType, QuantParams, text::Name};

use crate::{Error, Program, TensorIo, border};
use between::Betweens;
use host::Cut;
use names::Names;
pub use reasons::Reasons;
use report::Report;
use signed::{RAW, flipped, signed_border};
pub use stages::{Crossings, MOST_STAGES, Pause, in_order, is_device, put_off, stages};

/// What a partition gives.
pub struct Core {
    /// The integer core, all tensors at its border i8.
    pub graph: Graph,
    /// Where it waits for the host.
    pub turns: Turns,
    /// ONNX file of the host's part before the core.
    pub preprocess: Option<Vec<u8>>,
    /// ONNX files of the host's parts between the core's stages, one per pause.
    pub between: Vec<Vec<u8>>,
    /// ONNX file of the host's part behind it.
    pub postprocess: Option<Vec<u8>>,
    /// The float tensors that the core's inputs stand for.
    pub inputs: Vec<End>,
    /// The same for its outputs.
    pub outputs: Vec<End>,
    /// What callers give for the host's parts between alone.
    pub beside: Vec<TensorIo>,
    /// Nodes before, in, between the stages of and behind the core.
    pub nodes: [usize; 4],
    /// What runs where, and why.
    pub report: Report,
}

/// How a core and the host take turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Nodes of the core in each of its stages, in execution order.
    pub stages: Vec<usize>,
    /// How many of the core's inputs are there before it begins; the others come in its pauses.
    pub given: usize,
    /// How many of its outputs are wanted in the end; the others are for its pauses only.
    pub results: usize,
    /// Between the stages.
    pub pauses: Vec<Pause>,
}

/// What a caller is told of a tensor at the core's border.
pub struct End {
    /// The name of the float tensor that it is the quantized form of, or of the integers themselves.
    pub name: String,
    /// What its integers stand for, if anybody says.
    pub quant: Option<QuantParams>,
    /// The element type of the tensor of that name, if it is known.
    pub dtype: Option<DType>,
}

impl End {
    /// Those of a graph's own values, by what the operators beside them say.
    pub fn of(graph: &Graph, ids: &[ValueId]) -> Vec<Self> {
        let meanings = graph.meanings();
        let end = |&id: &ValueId| {
            let value = graph.value(id);
            Self { name: value.name.clone(), quant: meanings[id.0 as usize], dtype: value.dtype }
        };
        ids.iter().map(end).collect()
    }
}

/// Splits a model: `image` is bound to one image, `model` to the batch that the host's parts see, shapes known.
pub fn partition(image: &Graph, model: &Graph) -> Result<Core, Error> {
    let mut prepared = image.clone();
    passes::prepare(&mut prepared)?;
    let names = Names::new(model, &prepared);
    let (mut kept, mut lost) = (HashSet::new(), HashSet::new());
    let (stages, crossings, cut, computed, Betweens { parts: between, beside }) = loop {
        let (stages, crossings) = named_core(&prepared, &names, &mut kept)?;
        let cut = Cut::new(&names, &crossings.inputs, &crossings.outputs)?;
        let on_device = prepared.nodes.iter().zip(&stages).filter(|(_, stage)| is_device(**stage));
        let computed: HashSet<&str> = on_device.map(|(node, _)| node.name.as_str()).collect();
        // What the host cannot make of what it has in a pause, it makes behind the device, with all that follows.
        let pause = match cut.between(model, &crossings, &computed)? {
            Ok(found) => break (stages, crossings, cut, computed, found),
            Err(pause) => pause,
        };
        let later =
            (0..).zip(&stages).filter(|(_, stage)| is_device(**stage) && **stage as usize > 2 * pause + 1);
        lost.extend(later.map(|(index, _)| NodeId(index)));
        kept.extend(&lost);
    };
    let report = Report::new(&prepared, &stages, &crossings, [&kept, &lost], false);
    report.tell();
    let before = cut.preprocess(&names, crossings.given, &beside)?;
    let (behind, order, results) = cut.postprocess(model, &crossings, &computed)?;
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
    let outputs: Vec<ValueId> = order.iter().map(|&index| crossings.outputs[index]).collect();
    let pauses = between.iter().zip(&crossings.pauses).map(|(part, pause)| Pause {
        reads: part.reads.iter().map(|&index| place[index]).collect(),
        makes: pause.makes.clone(),
    });
    let mut turns = Turns { stages: Vec::new(), given: crossings.given, results, pauses: pauses.collect() };
    let (mut graph, mut own) = extract(&prepared, &stages, &crossings.inputs, &outputs)?;
    let device_nodes = graph.nodes.len();
    let between_nodes = between.iter().map(|part| part.part.nodes).sum();
    let end = |name: String, quant| {
        let dtype = model.find_value(&name).and_then(|id| model.value(id).dtype);
        End { name, quant, dtype }
    };
    let mut input_ends: Vec<End> =
        cut.input_floats.into_iter().zip(cut.input_quants).map(|(name, quant)| end(name, quant)).collect();
    let output_end = |&index: &usize| end(cut.output_floats[index].0.clone(), cut.output_quants[index]);
    let mut output_ends: Vec<End> = order.iter().map(output_end).collect();
    let changed = signed_border(&mut graph, &mut own, &turns);
    for (ends, changed) in [&mut input_ends, &mut output_ends].into_iter().zip(changed) {
        for (end, _) in ends.iter_mut().zip(changed).filter(|(_, changed)| *changed) {
            end.quant = Some(flipped(end.quant.unwrap_or(RAW)));
        }
    }
    turns.stages = counts(&own, turns.pauses.len() + 1);
    Ok(Core {
        graph,
        turns,
        nodes: [before.nodes, device_nodes, between_nodes, behind.nodes],
        preprocess: before.onnx,
        between: between.into_iter().filter_map(|part| part.part.onnx).collect(),
        postprocess: behind.onnx,
        inputs: input_ends,
        outputs: output_ends,
        beside: beside.iter().filter_map(|&id| border::beside(model, id)).collect(),
        report,
    })
}

/// The device's part of a prepared graph, its nodes in the order of their stages, and the stage of each, counted from 0.
pub fn extract(
    prepared: &Graph,
    stages: &[u32],
    inputs: &[ValueId],
    outputs: &[ValueId],
) -> Result<(Graph, Vec<usize>), Error> {
    let mut ordered = prepared.clone();
    let mut stages = stages.to_vec();
    in_order(&mut ordered, &mut stages);
    let graph = ordered.extract(inputs, outputs)?;
    // What is not needed for any output is left out.
    let first = |node: &triune_graph::Node| node.outputs.iter().flatten().next().copied();
    let mut all = ordered.nodes.iter().zip(&stages);
    let own = graph.nodes.iter().map(|node| {
        let name = first(node).map(|id| &graph.value(id).name);
        let found = all.find(|(other, _)| first(other).map(|id| &ordered.value(id).name) == name);
        found.map_or(0, |(_, stage)| (*stage / 2) as usize)
    });
    let own = own.collect();
    Ok((graph, own))
}

/// How many nodes each of some stages has.
fn counts(stages: &[usize], count: usize) -> Vec<usize> {
    let mut counts = vec![0; count];
    for &stage in stages {
        counts[stage] += 1;
    }
    counts
}

/// The stages of a graph, and what enters and leaves the core. Both must have a float tensor in the model; a node
/// whose result or operand has none stays on the host, and is one of those `kept`.
fn named_core(
    prepared: &Graph,
    names: &Names<'_>,
    kept: &mut HashSet<NodeId>,
) -> Result<(Vec<u32>, Crossings), Error> {
    loop {
        // Packages hold 8-bit tensors at their border.
        let stages = stages(prepared, kept, false);
        if !stages.iter().copied().any(is_device) {
            return Err(without_operators(
                prepared,
                kept,
                false,
                "packages have 8-bit ones: quantize the float model with 8 bits (--act s8); 16 bits are for buyi's networks of \
                 Icraft (--target buyi --format icraft) and sessions on buyi",
            ));
        }
        let crossings = Crossings::new(prepared, &stages);
        let mut leaves = vec![false; prepared.values.len()];
        for id in &crossings.outputs {
            leaves[id.0 as usize] = true;
        }
        // From the back: a node that stays on the host wants its operands there.
        let before = kept.len();
        for (index, node) in prepared.nodes.iter().enumerate().rev() {
            if !is_device(stages[index]) {
                continue;
            }
            let left = || node.outputs.iter().flatten().filter(|id| leaves[id.0 as usize]);
            if left().any(|&id| names.counterparts(id).floats.is_empty()) {
                kept.insert(NodeId(index as u32));
                for id in node.inputs.iter().flatten() {
                    leaves[id.0 as usize] = true;
                }
            }
        }
        let nameless: HashSet<ValueId> =
            crossings.inputs.iter().copied().filter(|&id| names.entering(id).is_none()).collect();
        for (index, node) in prepared.nodes.iter().enumerate().filter(|(index, _)| is_device(stages[*index]))
        {
            if node.inputs.iter().flatten().any(|id| nameless.contains(id)) {
                kept.insert(NodeId(index as u32));
            }
        }
        if kept.len() == before {
            check_count(&crossings.inputs, &crossings.outputs, 16)?;
            return Ok((stages, crossings));
        }
    }
}

/// What to say of a prepared graph without operators for a device: nothing in it is quantized; or to 16-bit integers only, of which
/// `instead` says where and how they are computed on; or what the first operators have against the device. `kept` and `int16` are as
/// for [`stages`].
pub fn without_operators(
    graph: &Graph,
    kept: &HashSet<NodeId, impl BuildHasher>,
    int16: bool,
    instead: &str,
) -> Error {
    /// Most operators that are named.
    const MOST: usize = 3;
    let meanings = graph.meanings();
    let of_type = |is: fn(DType) -> bool| {
        let mut values = graph.values.iter().zip(&meanings);
        values.any(|(value, meaning)| {
            value.dtype.is_some_and(is) && value.constant.is_none() && meaning.is_some()
        })
    };
    let wide = of_type(|dtype| dtype == DType::I16);
    if wide && !int16 {
        return Error::Target(format!("the model has operators over 16-bit integers only, and {instead}"));
    }
    let computes =
        |node: &&triune_graph::Node| !matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_));
    if !wide && !of_type(DType::is_quantized) || !graph.nodes.iter().any(|node| computes(&node)) {
        return Error::NotQuantized;
    }
    let stages = stages(graph, kept, int16);
    let reasons = Reasons::new(graph, &stages, kept, int16);
    let nodes = (0..).zip(&graph.nodes).filter(|(_, node)| computes(node));
    let named = nodes.take(MOST).map(|(index, node)| {
        let (name, kind) = node.title();
        format!("node '{}' ({kind}): {}", Name(name), reasons.of(NodeId(index)))
    });
    let named: Vec<String> = named.collect();
    Error::Target(format!(
        "the model is quantized to {} bits, and the device runs none of its operators: {}; it runs as a whole on the CPU \
         (triune.Session)",
        if wide { 16 } else { 8 },
        named.join("; ")
    ))
}

/// Where a tensor of a model in parts comes from, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The model's inputs.
    Model(usize),
    /// The outputs of a part on the host: which, and the number there.
    Host(usize, usize),
    /// The outputs of the core.
    Core(usize),
}

/// A prepared graph in parts, cut at integer tensors.
pub struct Parts {
    /// The host's, before, between and behind the core's stages: one more than there are of these.
    pub hosts: Vec<HostPart>,
    /// All tensors at its border are i8 or i16.
    pub core: Graph,
    /// How the core takes turns with them.
    pub turns: Turns,
    /// The values that enter the core, in the prepared graph.
    pub core_inputs: Vec<(ValueId, Origin)>,
    /// The values that leave it.
    pub core_outputs: Vec<ValueId>,
    /// The model's outputs.
    pub outputs: Vec<Origin>,
}

/// What the host computes at one time.
pub struct HostPart {
    /// The operators, if there are any.
    pub graph: Option<Graph>,
    /// What it takes, in its order.
    pub inputs: Vec<Origin>,
}

/// Splits a prepared graph for a device, which may compute on 16-bit integers, too, and the host, without regard to names:
/// nothing is written to a file. `None` if it has no operators over integers for the device.
pub fn parts(prepared: &Graph, int16: bool) -> Result<Option<Parts>, Error> {
    let stages = stages(prepared, &HashSet::<NodeId>::new(), int16);
    if !stages.iter().copied().any(is_device) {
        return Ok(None);
    }
    let crossings = Crossings::new(prepared, &stages);
    if log::log_enabled!(target: "triune::compile", log::Level::Debug) {
        let nodes = HashSet::new();
        Report::new(prepared, &stages, &crossings, [&nodes, &nodes], int16).tell();
    }
    check_count(&crossings.inputs, &crossings.outputs, 1)?;
    let count = crossings.pauses.len() + 2;
    let mut made = vec![None; prepared.values.len()];
    for (node, &stage) in prepared.nodes.iter().zip(&stages) {
        node.outputs.iter().flatten().for_each(|id| made[id.0 as usize] = Some(stage));
    }
    let mut made_on: Vec<Vec<ValueId>> = vec![Vec::new(); count];
    let number = |list: &mut Vec<ValueId>, id: ValueId| {
        list.iter().position(|&each| each == id).unwrap_or_else(|| {
            list.push(id);
            list.len() - 1
        })
    };
    let mut core = crossings.outputs.clone();
    let mut origin = |id: ValueId| match made[id.0 as usize] {
        Some(stage) if is_device(stage) => Origin::Core(number(&mut core, id)),
        Some(stage) => {
            let part = (stage / 2) as usize;
            Origin::Host(part, number(&mut made_on[part], id))
        }
        None => match prepared.inputs.iter().position(|&input| input == id) {
            Some(index) => Origin::Model(index),
            // A constant.
            None => Origin::Host(count - 1, number(&mut made_on[count - 1], id)),
        },
    };
    let core_inputs: Vec<_> = crossings.inputs.iter().map(|&id| (id, origin(id))).collect();
    let results: Vec<_> = prepared.outputs.iter().map(|&id| origin(id)).collect();
    let mut taken: Vec<Vec<ValueId>> = vec![Vec::new(); count];
    for (node, &stage) in prepared.nodes.iter().zip(&stages).filter(|(_, stage)| !is_device(**stage)) {
        let own = &mut taken[(stage / 2) as usize];
        for &id in node.inputs.iter().flatten() {
            let elsewhere = prepared.value(id).constant.is_none() && made[id.0 as usize] != Some(stage);
            if elsewhere && !own.contains(&id) {
                own.push(id);
            }
        }
    }
    let inputs: Vec<Vec<Origin>> =
        taken.iter().map(|ids| ids.iter().map(|&id| origin(id)).collect()).collect();
    let mut hosts = Vec::with_capacity(count);
    for ((own, outputs), inputs) in taken.iter().zip(&made_on).zip(inputs) {
        let graph = (!outputs.is_empty()).then(|| prepared.extract(own, outputs)).transpose()?;
        hosts.push(HostPart { graph, inputs });
    }
    let (mut graph, mut own) = extract(prepared, &stages, &crossings.inputs, &crossings.outputs)?;
    let Crossings { given, results: wanted, pauses, outputs, .. } = crossings;
    let mut turns = Turns { stages: Vec::new(), given, results: wanted, pauses };
    signed_border(&mut graph, &mut own, &turns);
    turns.stages = counts(&own, turns.pauses.len() + 1);
    Ok(Some(Parts { hosts, core: graph, turns, core_inputs, core_outputs: outputs, outputs: results }))
}

/// Refuses more inputs and outputs than `times` those that a program can have, before anything is compared with them.
fn check_count(inputs: &[ValueId], outputs: &[ValueId], times: usize) -> Result<(), Error> {
    let (count, most) = (inputs.len() + outputs.len(), usize::from(Program::MOST_BORDER));
    if count <= times * most {
        return Ok(());
    }
    Err(Error::Target(format!(
        "{count} inputs and outputs of the integer core; a program has at most {most}"
    )))
}
