//! Partition: which nodes are the integer core that an NPU runs, and what stays before and behind it on the host.
//!
//! The core is the largest set of integer nodes that can run in one go: nothing in it may depend on a host node that
//! depends on it. The cuts lie on quantize and dequantize operators, so the host parts are plain float models.

mod host;
mod names;
mod signed;

use std::{collections::HashSet, hash::BuildHasher};

use triune_graph::{Graph, Node, NodeId, Op, ValueId, passes};
use triune_tensor::{DType, QuantParams};

use crate::{Error, Program};
use host::Cut;
use names::Names;
use signed::{RAW, flipped, signed_inputs, signed_outputs};

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
    let names = Names::new(model, &prepared);
    let (inputs, outputs) = named_core(&prepared, &names)?;
    let cut = Cut::new(&names, &inputs, &outputs)?;
    let before = cut.preprocess(&names)?;
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

/// The values that enter and leave the core. What leaves it must have a float tensor in the model; a node whose result has
/// none stays on the host.
fn named_core(prepared: &Graph, names: &Names<'_>) -> Result<(Vec<ValueId>, Vec<ValueId>), Error> {
    let mut kept = HashSet::new();
    loop {
        // Packages hold 8-bit tensors at their border.
        let sides = sides(prepared, &kept, false);
        if !sides.contains(&Side::Device) {
            return Err(Error::NotQuantized);
        }
        let (inputs, outputs) = crossings(prepared, &sides);
        let mut leaves = vec![false; prepared.values.len()];
        for id in &outputs {
            leaves[id.0 as usize] = true;
        }
        // From the back: a node that stays on the host wants its operands there.
        let before = kept.len();
        for (index, node) in prepared.nodes.iter().enumerate().rev() {
            if sides[index] != Side::Device {
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
        if kept.len() == before {
            check_count(&inputs, &outputs, 16)?;
            return Ok((inputs, outputs));
        }
    }
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
pub fn sides<S: BuildHasher>(graph: &Graph, kept: &HashSet<NodeId, S>, int16: bool) -> Vec<Side> {
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
/// arithmetic on integers that mean no reals. What is not named here stays on the host.
fn stays_on_host(node: &Node) -> bool {
    match node.op {
        Op::Binary(_) | Op::Unary(_) => node.quant.is_none(),
        Op::Conv(_)
        | Op::Gemm(_)
        | Op::MatMul(_)
        | Op::BatchNormalization(_)
        | Op::Pool(_)
        | Op::GlobalPool(_)
        | Op::AdaptivePool(_)
        | Op::Table(_)
        | Op::Reshape(_)
        | Op::Flatten(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Split(_)
        | Op::Gather(_)
        | Op::Unsqueeze(_)
        | Op::Squeeze(_)
        | Op::Expand(_)
        | Op::Pad(_)
        | Op::Identity(_)
        | Op::ShapeOf(_)
        | Op::ConstantOfShape(_)
        | Op::Cast(_)
        | Op::Resize(_)
        | Op::QuantizeLinear(_)
        | Op::DequantizeLinear(_)
        | Op::WarpPerspective(_)
        | Op::ScatterElements(_)
        | Op::ScatterNd(_)
        | Op::Hosted(_) => false,
        _ => true,
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
