//! Partition: which nodes are the integer core that an NPU runs, and what stays before and behind it on the host.
//!
//! The core is the largest set of integer nodes that can run in one go: nothing in it may depend on a host node that
//! depends on it. The cuts lie on quantize and dequantize operators, so the host parts are plain float models.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use triune_graph::{Constant, Dim, Graph, Node, NodeId, Op, Value, ValueId, format::onnx, ops, passes};
use triune_tensor::{DType, QuantParams, Shape};

use crate::Error;

/// What a partition gives.
pub(crate) struct Core {
    /// The integer core, all tensors at its border i8.
    pub(crate) graph: Graph,
    /// ONNX files of the host parts.
    pub(crate) preprocess: Option<Vec<u8>>,
    pub(crate) postprocess: Option<Vec<u8>>,
    /// Names of the float tensors that the core's border tensors stand for.
    pub(crate) input_names: Vec<String>,
    pub(crate) output_names: Vec<String>,
    /// Nodes before, in and behind the core.
    pub(crate) nodes: [usize; 3],
}

/// Splits a model: `image` is bound to one image, `model` to the batch that the host's parts see, shapes known.
pub(crate) fn partition(image: &Graph, model: &Graph) -> Result<Core, Error> {
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
        let nameless = outputs.iter().filter(|&&id| counterparts(model, &prepared, id).is_empty());
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
    let output_names = order.iter().map(|&index| cut.output_floats[index].0.clone()).collect();
    let mut graph = prepared.extract(&inputs, &outputs)?;
    let device_nodes = graph.nodes.len();
    signed_inputs(&mut graph);
    signed_outputs(&mut graph);
    Ok(Core {
        graph,
        nodes: [before.nodes, device_nodes, behind.nodes],
        preprocess: before.onnx,
        postprocess: behind.onnx,
        input_names: cut.input_floats,
        output_names,
    })
}

/// Where a tensor of a model in parts comes from, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
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
pub(crate) struct Parts {
    /// Takes the model's inputs.
    pub(crate) before: Option<Graph>,
    /// All tensors at its border are i8 or i16.
    pub(crate) core: Graph,
    /// Gives what neither the core nor the part before gives.
    pub(crate) behind: Option<Graph>,
    /// The values that enter the core, in the prepared graph.
    pub(crate) core_inputs: Vec<(ValueId, Origin)>,
    /// The values that leave it.
    pub(crate) core_outputs: Vec<(ValueId, Origin)>,
    pub(crate) behind_inputs: Vec<Origin>,
    /// The model's outputs.
    pub(crate) outputs: Vec<Origin>,
}

/// Splits a prepared graph for a device, which may compute on 16-bit integers, too, and the host, without regard to names:
/// nothing is written to a file. `None` if it has no operators over integers for the device.
pub(crate) fn parts(prepared: &Graph, int16: bool) -> Result<Option<Parts>, Error> {
    let sides = sides(prepared, &HashSet::new(), int16);
    if !sides.contains(&Side::Device) {
        return Ok(None);
    }
    let (inputs, outputs) = crossings(prepared, &sides);
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
pub(crate) enum Side {
    /// On the host, before the device.
    Before,
    Device,
    /// On the host, behind the device.
    Behind,
}

/// Assigns every node of a prepared graph to a side; those in `kept` stay on the host, and those over 16-bit integers unless
/// the device computes on these.
pub(crate) fn sides(graph: &Graph, kept: &HashSet<NodeId>, int16: bool) -> Vec<Side> {
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
            let runs = is_integer(graph, node, int16)
                && !stays_on_host(graph, node)
                && !kept.contains(&NodeId(index));
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
fn stays_on_host(graph: &Graph, node: &Node) -> bool {
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
        Op::Binary(_) | Op::Unary(_) => {
            node.outputs.iter().flatten().any(|id| graph.value(*id).quant.is_none())
        }
        _ => false,
    }
}

/// Whether all tensors of a node are 8 bit, or with `int16` quantized to 16.
fn is_integer(graph: &Graph, node: &Node, int16: bool) -> bool {
    let quantized = |id: &ValueId| {
        let value = graph.value(*id);
        let wide = int16 && value.dtype == Some(DType::I16) && value.quant.is_some();
        wide || value.dtype.is_some_and(DType::is_quantized)
    };
    !matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_))
        && node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none()).all(quantized)
        && node.outputs.iter().flatten().all(quantized)
}

/// Values that enter and leave the core, in order of first use.
pub(crate) fn crossings(graph: &Graph, sides: &[Side]) -> (Vec<ValueId>, Vec<ValueId>) {
    let producers = graph.producers();
    let inside = |id: ValueId| {
        producers[id.0 as usize].is_some_and(|producer| sides[producer.0 as usize] == Side::Device)
    };
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for (node, side) in graph.nodes.iter().zip(sides) {
        for &id in node.inputs.iter().flatten() {
            if *side == Side::Device {
                if graph.value(id).constant.is_none() && !inside(id) && !inputs.contains(&id) {
                    inputs.push(id);
                }
            } else if inside(id) && !outputs.contains(&id) {
                outputs.push(id);
            }
        }
    }
    for &id in &graph.outputs {
        if inside(id) && !outputs.contains(&id) {
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

/// The core's border in terms of the original model's tensors.
struct Cut {
    /// Per core input: the float (or 8-bit model input) tensor that it is the quantized form of.
    input_floats: Vec<String>,
    /// Per core output: the float tensor that it dequantizes to, and all names under which the model has it.
    output_floats: Vec<(String, Vec<ValueId>)>,
    /// Per core output: element type and meaning of its integers in the model.
    meanings: Vec<Option<(DType, QuantParams)>>,
}

impl Cut {
    fn new(model: &Graph, prepared: &Graph, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Self, Error> {
        let producers = prepared.producers();
        let input_floats = inputs
            .iter()
            .map(|&id| {
                let quantize = producers[id.0 as usize].map(|producer| &prepared.nodes[producer.0 as usize]);
                let float = quantize.and_then(|node| node.inputs.first().copied().flatten()).unwrap_or(id);
                prepared.value(float).name.clone()
            })
            .collect();
        let output_floats = outputs
            .iter()
            .map(|&id| {
                let floats = counterparts(model, prepared, id);
                let name = floats.first().map(|&first| model.value(first).name.clone());
                let name = name.ok_or_else(|| {
                    let name = &prepared.value(id).name;
                    Error::Target(format!("the model has no float tensor for '{name}' at the core's border"))
                })?;
                Ok((name, floats))
            })
            .collect::<Result<_, Error>>()?;
        let meaning = |&id: &ValueId| prepared.value(id).dtype.zip(prepared.value(id).quant);
        Ok(Self { input_floats, output_floats, meanings: outputs.iter().map(meaning).collect() })
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
        for (index, meaning) in self.meanings.iter().enumerate() {
            if let Some((dtype, quant)) = *meaning {
                quantize_input(&mut part, index, dtype, quant);
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
    let node = |name: &str, op, input, output| Node {
        name: name.to_owned(),
        op,
        inputs: vec![Some(input), Some(scale), Some(zero_point)],
        outputs: vec![Some(output)],
    };
    let quantize = Op::QuantizeLinear(ops::QuantizeLinear { axis, dtype });
    let dequantize = Op::DequantizeLinear(ops::DequantizeLinear { axis });
    part.nodes.splice(
        0..0,
        [node(&names[2], quantize, input, integers), node(&names[3], dequantize, integers, reals)],
    );
}

/// The float tensors of the original model that an integer value of the prepared one stands for.
fn counterparts(model: &Graph, prepared: &Graph, id: ValueId) -> Vec<ValueId> {
    let dequantized = |graph: &Graph, id: ValueId| -> Vec<String> {
        graph
            .nodes
            .iter()
            .filter(|node| {
                matches!(node.op, Op::DequantizeLinear(_)) && node.inputs.first() == Some(&Some(id))
            })
            .filter_map(|node| node.outputs.first().copied().flatten())
            .map(|float| graph.value(float).name.clone())
            .collect()
    };
    let name = &prepared.value(id).name;
    let mut names = dequantized(prepared, id);
    if let Some(same) = model.find_value(name) {
        names.extend(dequantized(model, same));
        if names.is_empty() {
            // Nothing dequantizes it: the model itself gives integers.
            names.push(name.clone());
        }
    }
    names.extend(passes::origin(name).map(str::to_owned));
    let mut floats = Vec::new();
    for float in names.iter().filter_map(|name| model.find_value(name)) {
        if !floats.contains(&float) {
            floats.push(float);
        }
    }
    floats
}

/// The byte map between u8 and i8 that keeps the real value when the zero point moves by 128.
fn flip_table() -> Arc<[u8; 256]> {
    let mut table = [0; 256];
    for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
        *entry = byte ^ 0x80;
    }
    Arc::new(table)
}

fn flipped(quant: QuantParams) -> QuantParams {
    QuantParams { zero_point: quant.zero_point - 128, ..quant }
}

/// Makes u8 inputs i8. Convolutions and products see no difference (activation minus zero point stays the same); for
/// other readers, whose rounding depends on the zero point, a map goes in between.
fn signed_inputs(graph: &mut Graph) {
    for index in 0..graph.inputs.len() {
        let id = graph.inputs[index];
        let value = graph.value(id);
        let (Some(DType::U8), Some(quant)) = (value.dtype, value.quant) else { continue };
        let only_first_operand = graph.nodes.iter().all(|node| {
            let uses = node.inputs.iter().filter(|&&input| input == Some(id)).count();
            uses == 0
                || uses == 1 && matches!(node.op, Op::Conv(_) | Op::Gemm(_)) && node.inputs[0] == Some(id)
        });
        if only_first_operand && !graph.outputs.contains(&id) {
            let value = graph.value_mut(id);
            value.dtype = Some(DType::I8);
            value.quant = Some(flipped(quant));
        } else {
            let signed = add_flipped(graph, id, quant);
            graph.inputs[index] = signed;
            insert_flip(graph, 0, signed, id);
        }
    }
}

/// Makes u8 outputs i8, in the producing product's own rounding where it has no further stages, else by a map.
fn signed_outputs(graph: &mut Graph) {
    for index in 0..graph.outputs.len() {
        let id = graph.outputs[index];
        let value = graph.value(id);
        let (Some(DType::U8), Some(quant)) = (value.dtype, value.quant) else { continue };
        let read = graph.nodes.iter().any(|node| node.inputs.contains(&Some(id)));
        let producer = graph.nodes.iter_mut().find(|node| node.outputs.contains(&Some(id)));
        let epilogue = match producer.map(|node| &mut node.op) {
            Some(Op::Conv(op)) => Some(&mut op.epilogue),
            Some(Op::Gemm(op)) => Some(&mut op.epilogue),
            _ => None,
        };
        let plain = epilogue
            .filter(|epilogue| epilogue.stages.iter().all(|stage| matches!(stage, ops::Stage::Clamp { .. })));
        match plain {
            Some(epilogue) if !read => {
                for stage in &mut epilogue.stages {
                    if let ops::Stage::Clamp { limits } = stage {
                        *limits = limits.map(|limit| limit.saturating_sub(128));
                    }
                }
                let value = graph.value_mut(id);
                value.dtype = Some(DType::I8);
                value.quant = Some(flipped(quant));
            }
            _ => {
                let signed = add_flipped(graph, id, quant);
                graph.outputs[index] = signed;
                insert_flip(graph, graph.nodes.len(), id, signed);
            }
        }
    }
}

/// An i8 value for the same reals as the u8 value `id`.
fn add_flipped(graph: &mut Graph, id: ValueId, quant: QuantParams) -> ValueId {
    let value = graph.value(id);
    let shape: Option<Vec<Dim>> = value.shape.clone();
    let name = format!("{}:i8", value.name);
    graph.add_value(Value {
        dtype: Some(DType::I8),
        shape,
        quant: Some(flipped(quant)),
        ..Value::named(name)
    })
}

fn insert_flip(graph: &mut Graph, at: usize, from: ValueId, to: ValueId) {
    let name = graph.value(to).name.clone();
    let op = Op::Table(ops::Table { table: flip_table() });
    graph.nodes.insert(at, Node { name, op, inputs: vec![Some(from)], outputs: vec![Some(to)] });
}
