//! Tensors of u8 at the core's border become i8, which is what devices take and give.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use triune_graph::{Dim, Graph, Node, Op, Quantization, Value, ValueId, ops};
use triune_tensor::{DType, QuantParams};

use super::Turns;

/// The byte map between u8 and i8 that keeps the real value when the zero point moves by 128.
fn flip_table() -> Arc<[u8; 256]> {
    let mut table = [0; 256];
    for (byte, entry) in (0..=u8::MAX).zip(&mut table) {
        *entry = byte ^ 0x80;
    }
    Arc::new(table)
}

/// Integers that nobody takes for anything else.
pub(super) const RAW: QuantParams = QuantParams { scale: 1.0, zero_point: 0 };

pub(super) fn flipped(quant: QuantParams) -> QuantParams {
    QuantParams { zero_point: quant.zero_point - 128, ..quant }
}

/// Makes u8 inputs and outputs i8, and says which. `stages` has the stage of each node, those that are added included: an input
/// is mapped when it is there, an output before the device waits for who reads it.
pub(super) fn signed_border(graph: &mut Graph, stages: &mut Vec<usize>, turns: &Turns) -> [Vec<bool>; 2] {
    let arrives = |input: usize| {
        let pause = turns.pauses.iter().position(|pause| pause.makes.contains(&input));
        pause.map_or(0, |pause| pause + 1)
    };
    let (inputs, before) = signed_inputs(graph);
    let made: HashMap<ValueId, usize> = graph
        .nodes
        .iter()
        .zip(&*stages)
        .flat_map(|(node, &stage)| node.outputs.iter().flatten().map(move |&id| (id, stage)))
        .collect();
    let (outputs, behind) = signed_outputs(graph);
    let before = before.into_iter().map(|(input, node)| ((arrives(input), 0), node));
    let behind = behind.into_iter().map(|node| {
        let from = node.inputs.first().copied().flatten();
        ((from.and_then(|id| made.get(&id).copied()).unwrap_or(0), 2), node)
    });
    let own = stages.iter().map(|&stage| (stage, 1)).zip(std::mem::take(&mut graph.nodes));
    let mut all: Vec<_> = before.chain(own).chain(behind).collect();
    all.sort_by_key(|(place, _)| *place);
    (*stages, graph.nodes) = all.into_iter().map(|((stage, _), node)| (stage, node)).unzip();
    [inputs, outputs]
}

/// Makes u8 inputs i8, and says which, with the maps that go before the nodes by the input's number. Convolutions and products see no difference (activation minus zero point stays the
/// same); for other readers, whose rounding depends on the zero point, a map goes in between.
fn signed_inputs(graph: &mut Graph) -> (Vec<bool>, Vec<(usize, Node)>) {
    let meanings = graph.meanings();
    let unsigned: Vec<bool> =
        graph.inputs.iter().map(|&id| graph.value(id).dtype == Some(DType::U8)).collect();
    // Values that somebody reads who does not see through the change.
    let mut seen: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    for node in &graph.nodes {
        let takes = usize::from(matches!(node.op, Op::Conv(_) | Op::Gemm(_)));
        seen.extend(node.inputs.iter().skip(takes).flatten());
    }
    let mut moved = HashSet::new();
    let mut flips = Vec::new();
    for index in (0..graph.inputs.len()).filter(|&index| unsigned[index]) {
        let id = graph.inputs[index];
        if seen.contains(&id) {
            let signed = add_signed(graph, id);
            graph.inputs[index] = signed;
            flips.push((index, flip(graph, [signed, id], meanings[id.0 as usize], DType::U8)));
        } else {
            graph.value_mut(id).dtype = Some(DType::I8);
            moved.insert(id);
        }
    }
    for node in &mut graph.nodes {
        if let Some(Some(id)) = node.inputs.first()
            && moved.contains(id)
            && let Some(taken) = node.quant.as_mut().and_then(|quant| quant.operands.first_mut())
        {
            *taken = taken.map(flipped);
        }
    }
    (unsigned, flips)
}

/// Makes u8 outputs i8, and says which, with the maps that go behind the nodes: in the producing product's own rounding where it has no further stages, else by a map.
fn signed_outputs(graph: &mut Graph) -> (Vec<bool>, Vec<Node>) {
    let meanings = graph.meanings();
    let unsigned: Vec<bool> =
        graph.outputs.iter().map(|&id| graph.value(id).dtype == Some(DType::U8)).collect();
    let producers = graph.producers();
    let read: HashSet<ValueId> =
        graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect();
    let mut flips = Vec::new();
    for index in (0..graph.outputs.len()).filter(|&index| unsigned[index]) {
        let id = graph.outputs[index];
        let producer = producers[id.0 as usize].map(|producer| &mut graph.nodes[producer.0 as usize]);
        let (epilogue, quant) = match producer {
            Some(Node { op: Op::Conv(op), quant: Some(quant), .. }) => (Some(&mut op.epilogue), Some(quant)),
            Some(Node { op: Op::Gemm(op), quant: Some(quant), .. }) => (Some(&mut op.epilogue), Some(quant)),
            _ => (None, None),
        };
        let plain = epilogue.filter(|epilogue| {
            epilogue.post_ops.iter().all(|stage| matches!(stage, ops::PostOp::Clamp { .. }))
        });
        match (plain, quant) {
            (Some(epilogue), Some(quant)) if !read.contains(&id) => {
                for stage in &mut epilogue.post_ops {
                    if let ops::PostOp::Clamp { limits } = stage {
                        *limits = limits.map(|limit| limit.saturating_sub(128));
                    }
                }
                (quant.dtype, quant.result) = (DType::I8, flipped(quant.result));
                graph.value_mut(id).dtype = Some(DType::I8);
            }
            _ => {
                let signed = add_signed(graph, id);
                graph.outputs[index] = signed;
                let flip = flip(graph, [id, signed], meanings[id.0 as usize], DType::I8);
                flips.push(flip);
            }
        }
    }
    (unsigned, flips)
}

/// An i8 value for the same reals as the u8 value `id`.
fn add_signed(graph: &mut Graph, id: ValueId) -> ValueId {
    let value = graph.value(id);
    let shape: Option<Vec<Dim>> = value.shape.clone();
    let name = format!("{}:i8", value.name);
    graph.add_value(Value { dtype: Some(DType::I8), shape, ..Value::named(name) })
}

/// The map between the form in u8, which stands for `unsigned`, and that in i8 of the same reals, into the type `dtype`.
fn flip(graph: &Graph, [from, to]: [ValueId; 2], unsigned: Option<QuantParams>, dtype: DType) -> Node {
    let name = graph.value(to).name.clone();
    let op = Op::Table(ops::Table { table: flip_table() });
    let own = unsigned.unwrap_or(RAW);
    let [before, result] = if dtype == DType::U8 { [flipped(own), own] } else { [own, flipped(own)] };
    let quant = Quantization { operands: vec![Some(before)], weights: [].into(), dtype, result };
    Node { quant: Some(Box::new(quant)), ..Node::new(name, op, vec![Some(from)], vec![Some(to)]) }
}
