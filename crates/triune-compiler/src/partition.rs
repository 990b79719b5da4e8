//! Partition: which nodes are the integer core that an NPU runs, and what stays before and behind it on the host.
//!
//! The core is the largest set of integer nodes that can run in one go: nothing in it may depend on a host node that
//! depends on it. The cuts lie on quantize and dequantize operators, so the host parts are plain float models.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use triune_graph::{
    Constant, Dim, Graph, Node, NodeId, Op, Provenance, Quantization, Value, ValueId, format::onnx, ops,
    passes,
};
use triune_tensor::{DType, QuantParams, Shape};

use crate::{Error, Program};

/// What a partition gives.
pub struct Core {
    /// The integer core, all tensors at its border i8.
    pub graph: Graph,
    /// ONNX file of the host's part before the core.
    pub preprocess: Option<Vec<u8>>,
    /// ONNX file of the host's part behind it.
    pub postprocess: Option<Vec<u8>>,
    /// The float tensors that the core's inputs stand for.
    pub inputs: Vec<End>,
    /// The same for its outputs.
    pub outputs: Vec<End>,
    /// Nodes before, in and behind the core.
    pub nodes: [usize; 3],
}

/// What a caller is told of a tensor at the core's border.
pub struct End {
    /// The name of the float tensor that it is the quantized form of, or of the integers themselves.
    pub name: String,
    /// What its integers stand for, if anybody says.
    pub quant: Option<QuantParams>,
}

impl End {
    /// Those of a graph's own values, by what the operators beside them say.
    pub fn of(graph: &Graph, ids: &[ValueId]) -> Vec<Self> {
        let meanings = graph.meanings();
        let end = |&id: &ValueId| Self { name: graph.value(id).name.clone(), quant: meanings[id.0 as usize] };
        ids.iter().map(end).collect()
    }
}

/// Splits a model: `image` is bound to one image, `model` to the batch that the host's parts see, shapes known.
pub fn partition(image: &Graph, model: &Graph) -> Result<Core, Error> {
    let mut prepared = image.clone();
    passes::prepare(&mut prepared)?;
    // What leaves the core must have a float tensor in the model; a node whose result has none stays on the host.
    let producers = prepared.producers();
    let mut kept = HashSet::new();
    let (inputs, outputs) = loop {
        // Packages hold 8-bit tensors at their border.
        let sides = sides(&prepared, &kept, false);
        if !sides.contains(&Side::Device) {
            return Err(Error::NotQuantized);
        }
        let (inputs, outputs) = crossings(&prepared, &sides);
        // Those that have no name may still go; of so many, too many stay.
        check_count(&inputs, &outputs, 16)?;
        let nameless = outputs.iter().filter(|&&id| counterparts(model, &prepared, id).floats.is_empty());
        let before = kept.len();
        kept.extend(nameless.filter_map(|id| producers[id.0 as usize]));
        if kept.len() == before {
            break (inputs, outputs);
        }
    };
    let cut = Cut::new(model, &prepared, &inputs, &outputs)?;
    let before = cut.preprocess(model)?;
    let (behind, order) = cut.postprocess(model)?;
    let outputs: Vec<ValueId> = order.iter().map(|&index| outputs[index]).collect();
    let mut graph = prepared.extract(&inputs, &outputs)?;
    let device_nodes = graph.nodes.len();
    let mut input_ends: Vec<End> =
        cut.input_floats.into_iter().zip(cut.input_quants).map(|(name, quant)| End { name, quant }).collect();
    let output_end =
        |&index: &usize| End { name: cut.output_floats[index].0.clone(), quant: cut.output_quants[index] };
    let mut output_ends: Vec<End> = order.iter().map(output_end).collect();
    for (ends, changed) in
        [(&mut input_ends, signed_inputs(&mut graph)), (&mut output_ends, signed_outputs(&mut graph))]
    {
        for (end, _) in ends.iter_mut().zip(changed).filter(|(_, changed)| *changed) {
            end.quant = Some(flipped(end.quant.unwrap_or(RAW)));
        }
    }
    Ok(Core {
        graph,
        nodes: [before.nodes, device_nodes, behind.nodes],
        preprocess: before.onnx,
        postprocess: behind.onnx,
        inputs: input_ends,
        outputs: output_ends,
    })
}

/// Where a tensor of a model in parts comes from, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The model's inputs.
    Model(usize),
    /// The outputs of the part before the core.
    Before(usize),
    /// The outputs of the core.
    Core(usize),
    /// The outputs of the part behind the core.
    Behind(usize),
}

/// A prepared graph in parts, cut at integer tensors.
pub struct Parts {
    /// Takes the model's inputs.
    pub before: Option<Graph>,
    /// All tensors at its border are i8 or i16.
    pub core: Graph,
    /// Gives what neither the core nor the part before gives.
    pub behind: Option<Graph>,
    /// The values that enter the core, in the prepared graph.
    pub core_inputs: Vec<(ValueId, Origin)>,
    /// The values that leave it.
    pub core_outputs: Vec<(ValueId, Origin)>,
    /// What the part behind takes, in its order.
    pub behind_inputs: Vec<Origin>,
    /// The model's outputs.
    pub outputs: Vec<Origin>,
}

/// Splits a prepared graph for a device, which may compute on 16-bit integers, too, and the host, without regard to names:
/// nothing is written to a file. `None` if it has no operators over integers for the device.
pub fn parts(prepared: &Graph, int16: bool) -> Result<Option<Parts>, Error> {
    let sides = sides(prepared, &HashSet::new(), int16);
    if !sides.contains(&Side::Device) {
        return Ok(None);
    }
    let (inputs, outputs) = crossings(prepared, &sides);
    check_count(&inputs, &outputs, 1)?;
    let producers = prepared.producers();
    let made_on = |id: ValueId| producers[id.0 as usize].map(|producer| sides[producer.0 as usize]);
    let number = |list: &mut Vec<ValueId>, id: ValueId| {
        list.iter().position(|&each| each == id).unwrap_or_else(|| {
            list.push(id);
            list.len() - 1
        })
    };
    let (mut before, mut core, mut behind) = (Vec::new(), outputs.clone(), Vec::new());
    let mut origin = |id: ValueId| match made_on(id) {
        Some(Side::Before) => Origin::Before(number(&mut before, id)),
        Some(Side::Device) => Origin::Core(number(&mut core, id)),
        Some(Side::Behind) => Origin::Behind(number(&mut behind, id)),
        None => match prepared.inputs.iter().position(|&input| input == id) {
            Some(index) => Origin::Model(index),
            // A constant.
            None => Origin::Behind(number(&mut behind, id)),
        },
    };
    let core_inputs: Vec<_> = inputs.iter().map(|&id| (id, origin(id))).collect();
    let results: Vec<_> = prepared.outputs.iter().map(|&id| origin(id)).collect();
    let mut taken = Vec::new();
    for (node, _) in prepared.nodes.iter().zip(&sides).filter(|(_, side)| **side == Side::Behind) {
        for &id in node.inputs.iter().flatten() {
            let elsewhere = prepared.value(id).constant.is_none() && made_on(id) != Some(Side::Behind);
            if elsewhere && !taken.contains(&id) {
                taken.push(id);
            }
        }
    }
    let behind_inputs: Vec<_> = taken.iter().map(|&id| origin(id)).collect();
    let part = |inputs: &[ValueId], outputs: &[ValueId]| {
        (!outputs.is_empty()).then(|| prepared.extract(inputs, outputs)).transpose()
    };
    let mut graph = prepared.extract(&inputs, &outputs)?;
    signed_inputs(&mut graph);
    signed_outputs(&mut graph);
    let core_outputs = outputs.iter().enumerate().map(|(index, &id)| (id, Origin::Core(index))).collect();
    Ok(Some(Parts {
        before: part(&prepared.inputs, &before)?,
        core: graph,
        behind: part(&taken, &behind)?,
        core_inputs,
        core_outputs,
        behind_inputs,
        outputs: results,
    }))
}

/// Where a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On the host, before the device.
    Before,
    /// On the device.
    Device,
    /// On the host, behind the device.
    Behind,
}

/// Assigns every node of a prepared graph to a side; those in `kept` stay on the host, and those over 16-bit integers unless
/// the device computes on these.
pub fn sides(graph: &Graph, kept: &HashSet<NodeId>, int16: bool) -> Vec<Side> {
    // For a value: the side that makes it; inputs and constants count as before.
    let mut made: Vec<Side> = vec![Side::Before; graph.values.len()];
    let producers = graph.producers();
    graph
        .nodes
        .iter()
        .zip(0..)
        .map(|(node, index)| {
            let operands = || node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none());
            let behind = operands().any(|id| made[id.0 as usize] == Side::Behind);
            let runs =
                is_integer(graph, node, int16) && !stays_on_host(node) && !kept.contains(&NodeId(index));
            let ready = operands().all(|id| {
                made[id.0 as usize] == Side::Device
                    || producers[id.0 as usize].is_none_or(|producer| {
                        matches!(graph.nodes[producer.0 as usize].op, Op::QuantizeLinear(_))
                    })
            });
            let side = if behind || !(runs && ready) {
                let device = operands().any(|id| made[id.0 as usize] == Side::Device);
                if behind || device { Side::Behind } else { Side::Before }
            } else {
                Side::Device
            };
            for output in node.outputs.iter().flatten() {
                made[output.0 as usize] = side;
            }
            side
        })
        .collect()
}

/// Whether the arrays have no part in the operator, whatever its types: softmax, reductions, choices and lookups, and
/// arithmetic on integers that mean no reals.
fn stays_on_host(node: &Node) -> bool {
    match node.op {
        Op::Softmax(_)
        | Op::Reduce(_)
        | Op::ArgReduce(_)
        | Op::GatherElements(_)
        | Op::GatherNd(_)
        | Op::Index(_)
        | Op::Where(_)
        | Op::TopK(_)
        | Op::Clip(_) => true,
        Op::Binary(_) | Op::Unary(_) => node.quant.is_none(),
        _ => false,
    }
}

/// Whether all tensors of a node are 8 bit, or with `int16` 16.
fn is_integer(graph: &Graph, node: &Node, int16: bool) -> bool {
    let quantized = |id: &ValueId| {
        let dtype = graph.value(*id).dtype;
        int16 && dtype == Some(DType::I16) || dtype.is_some_and(DType::is_quantized)
    };
    !matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_))
        && node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none()).all(quantized)
        && node.outputs.iter().flatten().all(quantized)
}

/// Refuses more inputs and outputs than `times` those that a program can have, before anything is compared with them.
fn check_count(inputs: &[ValueId], outputs: &[ValueId], times: usize) -> Result<(), Error> {
    let (count, most) = (inputs.len() + outputs.len(), usize::from(u8::MAX - Program::FIRST_IO));
    if count <= times * most {
        return Ok(());
    }
    Err(Error::Target(format!(
        "{count} inputs and outputs of the integer core; a program has at most {most}"
    )))
}

/// Values that enter and leave the core, in order of first use.
pub fn crossings(graph: &Graph, sides: &[Side]) -> (Vec<ValueId>, Vec<ValueId>) {
    let producers = graph.producers();
    let inside = |id: ValueId| {
        producers[id.0 as usize].is_some_and(|producer| sides[producer.0 as usize] == Side::Device)
    };
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let (mut enters, mut leaves) = (HashSet::new(), HashSet::new());
    for (node, side) in graph.nodes.iter().zip(sides) {
        for &id in node.inputs.iter().flatten() {
            if *side == Side::Device {
                if graph.value(id).constant.is_none() && !inside(id) && enters.insert(id) {
                    inputs.push(id);
                }
            } else if inside(id) && leaves.insert(id) {
                outputs.push(id);
            }
        }
    }
    for &id in &graph.outputs {
        if inside(id) && leaves.insert(id) {
            outputs.push(id);
        }
    }
    (inputs, outputs)
}

/// What stays on the host on one side of the core.
#[derive(Default)]
struct HostPart {
    /// An ONNX file, when there is anything to compute.
    onnx: Option<Vec<u8>>,
    nodes: usize,
}

impl HostPart {
    fn of(part: &Graph) -> Result<Self, Error> {
        Ok(Self { onnx: Some(onnx::write(part)?), nodes: part.nodes.len() })
    }
}

fn rewritten(name: &str) -> Error {
    Error::Target(format!("the tensor '{name}' at the core's border was rewritten"))
}

/// The core's border in terms of the original model's tensors.
struct Cut {
    /// Per core input: the float (or 8-bit model input) tensor that it is the quantized form of.
    input_floats: Vec<String>,
    /// Per core output: the float tensor that it dequantizes to, and all names under which the model has it.
    output_floats: Vec<(String, Vec<ValueId>)>,
    /// Per core input: what its integers stand for.
    input_quants: Vec<Option<QuantParams>>,
    /// Per core output: the same.
    output_quants: Vec<Option<QuantParams>>,
    /// Per core output: the integers' type in the model, unless they themselves are what the model has.
    output_dtypes: Vec<Option<DType>>,
}

impl Cut {
    fn new(model: &Graph, prepared: &Graph, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Self, Error> {
        let (producers, meanings) = (prepared.producers(), prepared.meanings());
        let input_floats = inputs
            .iter()
            .map(|&id| {
                let quantize = producers[id.0 as usize].map(|producer| &prepared.nodes[producer.0 as usize]);
                let float = quantize.and_then(|node| node.inputs.first().copied().flatten()).unwrap_or(id);
                let value = prepared.value(float);
                let name = (value.provenance == Provenance::Network).then(|| value.name.clone());
                name.ok_or_else(|| rewritten(&value.name))
            })
            .collect::<Result<_, Error>>()?;
        let output_floats = outputs
            .iter()
            .map(|&id| {
                let Counterparts { floats, quant } = counterparts(model, prepared, id);
                let name = floats.first().map(|&first| model.value(first).name.clone());
                let name = name.ok_or_else(|| {
                    let name = &prepared.value(id).name;
                    Error::Target(format!("the model has no float tensor for '{name}' at the core's border"))
                })?;
                let dtype = quant.and(prepared.value(id).dtype);
                Ok(((name, floats), (quant.or(meanings[id.0 as usize]), dtype)))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let (output_floats, said): (Vec<_>, Vec<_>) = output_floats.into_iter().unzip();
        let (output_quants, output_dtypes) = said.into_iter().unzip();
        Ok(Self {
            input_floats,
            output_floats,
            input_quants: inputs.iter().map(|id| meanings[id.0 as usize]).collect(),
            output_quants,
            output_dtypes,
        })
    }

    /// The host part before the core, unless the core takes the model's own inputs.
    fn preprocess(&self, model: &Graph) -> Result<HostPart, Error> {
        let is_input = |name: &String| model.inputs.iter().any(|&id| model.value(id).name == *name);
        if self.input_floats.iter().all(is_input) {
            return Ok(HostPart::default());
        }
        let mut outputs = Vec::new();
        for name in &self.input_floats {
            let id = model.find_value(name).ok_or_else(|| {
                Error::Internal(format!("the tensor '{name}' at the core's border was rewritten"))
            })?;
            if !outputs.contains(&id) {
                outputs.push(id);
            }
        }
        let part = model.extract(&model.inputs, &outputs)?;
        HostPart::of(&part)
    }

    /// The host part behind the core, unless the core gives the model's own outputs; and the order of the core's
    /// outputs, the model's own where they are the same.
    fn postprocess(&self, model: &Graph) -> Result<(HostPart, Vec<usize>), Error> {
        let order: Option<Vec<usize>> = model
            .outputs
            .iter()
            .map(|output| self.output_floats.iter().position(|(_, floats)| floats.contains(output)))
            .collect();
        if let Some(order) = order
            && order.len() == self.output_floats.len()
        {
            return Ok((HostPart::default(), order));
        }
        // Every name of a border tensor is replaced by its first.
        let mut rewired = model.clone();
        let mut first: HashMap<ValueId, ValueId> = HashMap::new();
        for (_, floats) in &self.output_floats {
            first.extend(floats.iter().map(|&float| (float, floats[0])));
        }
        for node in &mut rewired.nodes {
            for input in node.inputs.iter_mut().flatten() {
                *input = first.get(input).copied().unwrap_or(*input);
            }
        }
        let inputs: Vec<ValueId> = self.output_floats.iter().map(|(_, floats)| floats[0]).collect();
        let mut part = rewired.extract(&inputs, &rewired.outputs).map_err(|error| {
            Error::Target(format!("the model cannot be split in host, device and host parts: {error}"))
        })?;
        for (index, meaning) in self.output_dtypes.iter().zip(&self.output_quants).enumerate() {
            if let (Some(dtype), Some(quant)) = meaning {
                quantize_input(&mut part, index, *dtype, *quant);
            }
        }
        Ok((HostPart::of(&part)?, (0..self.output_floats.len()).collect()))
    }
}

/// Puts a quantize and a dequantize operator behind an input. They change no value that the core can give, but let
/// whoever runs the part see that it takes integers, and compute on them where the model does.
fn quantize_input(part: &mut Graph, index: usize, dtype: DType, quant: QuantParams) {
    let input = part.inputs[index];
    let derived = |suffix: &str| format!("{}:{suffix}", part.value(input).name);
    let names = ["scale", "zero_point", "quantized", "dequantized"].map(derived);
    let shape = part.value(input).shape.clone();
    let [scale, zero_point, quantized, dequantized] = names.clone();
    let (Some(scale_value), Some(zero_value)) = (
        Constant::from_f32(Shape::from([]), &[quant.scale]),
        Constant::new(dtype, Shape::from([]), vec![quant.zero_point as u8]),
    ) else {
        return;
    };
    let scale = part.add_constant(scale, scale_value);
    let zero_point = part.add_constant(zero_point, zero_value);
    let integers =
        part.add_value(Value { dtype: Some(dtype), shape: shape.clone(), ..Value::named(quantized) });
    let reals = part.add_value(Value { dtype: Some(DType::F32), shape, ..Value::named(dequantized) });
    for node in &mut part.nodes {
        for operand in node.inputs.iter_mut().filter(|operand| **operand == Some(input)) {
            *operand = Some(reals);
        }
    }
    let axis = 1;
    let node = |name: &str, op: Op, input, output| {
        Node::new(name, op, vec![Some(input), Some(scale), Some(zero_point)], vec![Some(output)])
    };
    let quantize = Op::QuantizeLinear(ops::QuantizeLinear { axis, dtype });
    let dequantize = Op::DequantizeLinear(ops::DequantizeLinear { axis });
    part.nodes.splice(
        0..0,
        [node(&names[2], quantize, input, integers), node(&names[3], dequantize, integers, reals)],
    );
}

/// The float tensors of the original model that an integer value of the prepared one stands for.
#[derive(Default)]
struct Counterparts {
    floats: Vec<ValueId>,
    /// What all of them take the integers for; `None` when the model itself gives integers.
    quant: Option<QuantParams>,
}

/// Finds them; there are none when they do not take the integers for the same reals.
fn counterparts(model: &Graph, prepared: &Graph, id: ValueId) -> Counterparts {
    let dequantized = |model: &Graph, id: ValueId| -> Vec<(String, Option<QuantParams>)> {
        let readers = model.nodes.iter().filter(|node| {
            matches!(node.op, Op::DequantizeLinear(_)) && node.inputs.first() == Some(&Some(id))
        });
        let float = |node: &Node| {
            let value = model.value(node.outputs.first().copied()??);
            let own = (value.provenance == Provenance::Network).then(|| value.name.clone());
            Some((own?, model.border_params(node)))
        };
        readers.filter_map(float).collect()
    };
    let value = prepared.value(id);
    let mut found = dequantized(prepared, id);
    match &value.provenance {
        Provenance::Network => {
            if let Some(same) = model.find_value(&value.name) {
                found.extend(dequantized(model, same));
                let read = || model.nodes.iter().any(|node| node.inputs.contains(&Some(same)));
                if found.is_empty() && model.outputs.contains(&same) && !read() {
                    // The model itself gives integers, and nobody else goes on with them.
                    return Counterparts { floats: vec![same], quant: None };
                }
            }
        }
        Provenance::Same { value, quant } => found.push((value.clone(), Some(*quant))),
        Provenance::Quantized(_) | Provenance::Pass => {}
    }
    found.retain(|(name, _)| model.find_value(name).is_some());
    let quant = found.first().and_then(|(_, quant)| *quant);
    if quant.is_none() || found.iter().any(|(_, other)| *other != quant) {
        return Counterparts::default();
    }
    let mut floats = Vec::new();
    for float in found.iter().filter_map(|(name, _)| model.find_value(name)) {
        if !floats.contains(&float) {
            floats.push(float);
        }
    }
    Counterparts { floats, quant }
}

/// The byte map between u8 and i8 that keeps the real value when the zero point moves by 128.
fn flip_table() -> Arc<[u8; 256]> {
    let mut table = [0; 256];
    for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
        *entry = byte ^ 0x80;
    }
    Arc::new(table)
}

/// Integers that nobody takes for anything else.
const RAW: QuantParams = QuantParams { scale: 1.0, zero_point: 0 };

fn flipped(quant: QuantParams) -> QuantParams {
    QuantParams { zero_point: quant.zero_point - 128, ..quant }
}

/// Makes u8 inputs i8, and says which. Convolutions and products see no difference (activation minus zero point stays the
/// same); for other readers, whose rounding depends on the zero point, a map goes in between.
fn signed_inputs(graph: &mut Graph) -> Vec<bool> {
    let meanings = graph.meanings();
    let unsigned: Vec<bool> =
        graph.inputs.iter().map(|&id| graph.value(id).dtype == Some(DType::U8)).collect();
    for index in (0..graph.inputs.len()).filter(|&index| unsigned[index]) {
        let id = graph.inputs[index];
        let only_first_operand = graph.nodes.iter().all(|node| {
            let uses = node.inputs.iter().filter(|&&input| input == Some(id)).count();
            uses == 0
                || uses == 1 && matches!(node.op, Op::Conv(_) | Op::Gemm(_)) && node.inputs[0] == Some(id)
        });
        if only_first_operand && !graph.outputs.contains(&id) {
            graph.value_mut(id).dtype = Some(DType::I8);
            for node in graph.nodes.iter_mut().filter(|node| node.inputs.first() == Some(&Some(id))) {
                let taken = node.quant.as_mut().and_then(|quant| quant.operands.first_mut());
                if let Some(taken) = taken {
                    *taken = taken.map(flipped);
                }
            }
        } else {
            let signed = add_signed(graph, id);
            graph.inputs[index] = signed;
            insert_flip(graph, 0, [signed, id], meanings[id.0 as usize], DType::U8);
        }
    }
    unsigned
}

/// Makes u8 outputs i8, and says which: in the producing product's own rounding where it has no further stages, else by a map.
fn signed_outputs(graph: &mut Graph) -> Vec<bool> {
    let meanings = graph.meanings();
    let unsigned: Vec<bool> =
        graph.outputs.iter().map(|&id| graph.value(id).dtype == Some(DType::U8)).collect();
    for index in (0..graph.outputs.len()).filter(|&index| unsigned[index]) {
        let id = graph.outputs[index];
        let read = graph.nodes.iter().any(|node| node.inputs.contains(&Some(id)));
        let producer = graph.nodes.iter_mut().find(|node| node.outputs.contains(&Some(id)));
        let (epilogue, quant) = match producer {
            Some(
                Node { op: Op::Conv(ops::Conv { epilogue, .. }), quant: Some(quant), .. }
                | Node { op: Op::Gemm(ops::Gemm { epilogue, .. }), quant: Some(quant), .. },
            ) => (Some(epilogue), Some(quant)),
            _ => (None, None),
        };
        let plain = epilogue
            .filter(|epilogue| epilogue.stages.iter().all(|stage| matches!(stage, ops::Stage::Clamp { .. })));
        match (plain, quant) {
            (Some(epilogue), Some(quant)) if !read => {
                for stage in &mut epilogue.stages {
                    if let ops::Stage::Clamp { limits } = stage {
                        *limits = limits.map(|limit| limit.saturating_sub(128));
                    }
                }
                (quant.dtype, quant.result) = (DType::I8, flipped(quant.result));
                graph.value_mut(id).dtype = Some(DType::I8);
            }
            _ => {
                let signed = add_signed(graph, id);
                graph.outputs[index] = signed;
                insert_flip(graph, graph.nodes.len(), [id, signed], meanings[id.0 as usize], DType::I8);
            }
        }
    }
    unsigned
}

/// An i8 value for the same reals as the u8 value `id`.
fn add_signed(graph: &mut Graph, id: ValueId) -> ValueId {
    let value = graph.value(id);
    let shape: Option<Vec<Dim>> = value.shape.clone();
    let name = format!("{}:i8", value.name);
    graph.add_value(Value { dtype: Some(DType::I8), shape, ..Value::named(name) })
}

/// A map between the form in u8, which stands for `unsigned`, and that in i8 of the same reals, into the type `dtype`.
fn insert_flip(
    graph: &mut Graph,
    at: usize,
    [from, to]: [ValueId; 2],
    unsigned: Option<QuantParams>,
    dtype: DType,
) {
    let name = graph.value(to).name.clone();
    let op = Op::Table(ops::Table { table: flip_table() });
    let own = unsigned.unwrap_or(RAW);
    let [before, result] = if dtype == DType::U8 { [flipped(own), own] } else { [own, flipped(own)] };
    let quant = Quantization { operands: vec![Some(before)], weights: [].into(), dtype, result };
    let node = Node { quant: Some(quant), ..Node::new(name, op, vec![Some(from)], vec![Some(to)]) };
    graph.nodes.insert(at, node);
}
