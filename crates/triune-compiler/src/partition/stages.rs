//! Which stage each operator runs in: host and device take turns, and the device begins anew only where that pays.
//!
//! Stages count from 0; the host has the even ones, the device the odd ones. Each operator is in the earliest that its operands
//! let it be in, but what the host makes for no later stage of the device is in the last; so a graph's nodes in the order of their
//! stages are in execution order.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher,
};

use triune_graph::{Graph, Node, NodeId, Op, ValueId};
use triune_tensor::{DType, QuantParams};

use crate::outline::macs;

/// Most stages of the device. Each but the first costs a call and the transfer of what crosses. Networks with a step of the host in
/// each of their blocks have forty and more.
pub const MOST_STAGES: usize = 64;

/// A stage of the device beside the largest has at least this many multiply-accumulates, and one in so many of all; else its
/// operators stay on the host, which has computed them by the time that they would have crossed.
const LEAST: (u64, u64) = (50_000, 200);

/// Whether a stage is one of the device's.
pub const fn is_device(stage: u32) -> bool {
    stage % 2 == 1
}

/// The stage of every node of a prepared graph; those in `kept` stay on the host, and those over 16-bit integers unless the
/// device computes on these.
pub fn stages<S: BuildHasher>(graph: &Graph, kept: &HashSet<NodeId, S>, int16: bool) -> Vec<u32> {
    staged(graph, kept, int16).0
}

/// The same, and the nodes whose stages the device had for [`MOST_STAGES`] others.
pub(super) fn staged<S: BuildHasher>(
    graph: &Graph,
    kept: &HashSet<NodeId, S>,
    int16: bool,
) -> (Vec<u32>, HashSet<NodeId>) {
    let mut crowded_out = HashSet::new();
    let mut kept: HashSet<NodeId> = kept.iter().copied().collect();
    let costs: Vec<u64> = graph.nodes.iter().map(|node| macs(graph, node)).collect();
    loop {
        let stages = assigned(graph, &kept, int16);
        let mut own: HashMap<u32, u64> = HashMap::new();
        for (stage, cost) in stages.iter().zip(&costs).filter(|(stage, _)| is_device(**stage)) {
            let sum = own.entry(*stage).or_default();
            *sum = sum.saturating_add(*cost);
        }
        let mut own: Vec<(u64, u32)> = own.into_iter().map(|(stage, cost)| (cost, stage)).collect();
        // Of equal ones the first is kept.
        own.sort_unstable_by_key(|&(cost, stage)| (std::cmp::Reverse(cost), stage));
        let all = own.iter().fold(0_u64, |sum, (cost, _)| sum.saturating_add(*cost));
        // What has enough to do comes first.
        let enough = |cost: u64| cost >= LEAST.0.max(all / LEAST.1);
        let able = own.iter().skip(1).take_while(|(cost, _)| enough(*cost)).count() + 1;
        let place: HashMap<u32, usize> =
            own.iter().zip(0..).map(|((_, stage), place)| (*stage, place)).collect();
        let left: Vec<_> = (0..)
            .zip(&stages)
            .filter_map(|(node, stage)| Some((NodeId(node), *place.get(stage)?)))
            .filter(|(_, place)| *place >= able.min(MOST_STAGES))
            .collect();
        if left.is_empty() {
            return (put_off(graph, stages), crowded_out);
        }
        kept.extend(left.iter().map(|(node, _)| *node));
        crowded_out.extend(left.iter().filter(|(_, place)| *place < able).map(|(node, _)| *node));
    }
}

/// The same, whatever a stage has to do.
fn assigned(graph: &Graph, kept: &HashSet<NodeId>, int16: bool) -> Vec<u32> {
    // For a value: the stage that makes it; inputs and constants are there from the beginning.
    let mut made = vec![0_u32; graph.values.len()];
    let producers = graph.producers();
    let meanings = graph.meanings();
    let stage = |(node, index): (&Node, u32)| {
        let operands = || node.inputs.iter().flatten().filter(|id| graph.value(**id).constant.is_none());
        let after = operands().map(|id| made[id.0 as usize]).max().unwrap_or(0);
        let runs = is_integer(graph, node, int16) && !stays_on_host(node) && !kept.contains(&NodeId(index));
        let ready = operands().all(|id| {
            is_device(made[id.0 as usize])
                || producers[id.0 as usize]
                    .is_none_or(|producer| crosses(graph, &graph.nodes[producer.0 as usize]))
                || is_told(graph, &meanings, *id)
        });
        let stage = if runs && ready { after | 1 } else { after.next_multiple_of(2) };
        for output in node.outputs.iter().flatten() {
            made[output.0 as usize] = stage;
        }
        stage
    };
    graph.nodes.iter().zip(0..).map(stage).collect()
}

/// Whether what a node makes on the host can go to the device: it quantizes, or computes on integers and says what they mean.
pub(super) fn crosses(graph: &Graph, node: &Node) -> bool {
    matches!(node.op, Op::QuantizeLinear(_)) && graph.border_params(node).is_some() || node.quant.is_some()
}

/// Whether the integers that the host makes can go to the device, however it makes them: they are bytes, and those who read them say
/// what they mean.
pub(super) fn is_told(graph: &Graph, meanings: &[Option<QuantParams>], id: ValueId) -> bool {
    meanings[id.0 as usize].is_some() && graph.value(id).dtype.is_some_and(DType::is_quantized)
}

/// Puts what the host makes of the device's results for no later stage of the device into the last stage.
pub fn put_off(graph: &Graph, mut stages: Vec<u32>) -> Vec<u32> {
    let last = stages.iter().copied().filter(|&stage| is_device(stage)).max().unwrap_or(0);
    let mut awaited = vec![false; graph.values.len()];
    for (node, stage) in graph.nodes.iter().zip(&mut stages).rev() {
        let wanted = node.outputs.iter().flatten().any(|id| awaited[id.0 as usize]);
        if is_device(*stage) || wanted {
            node.inputs.iter().flatten().for_each(|id| awaited[id.0 as usize] = true);
        } else if *stage > 0 {
            *stage = last + 1;
        }
    }
    stages
}

/// Puts nodes in the order of their stages, and these with them.
pub fn in_order(graph: &mut Graph, stages: &mut Vec<u32>) {
    let mut both: Vec<(u32, Node)> = stages.drain(..).zip(std::mem::take(&mut graph.nodes)).collect();
    both.sort_by_key(|(stage, _)| *stage);
    (*stages, graph.nodes) = both.into_iter().unzip();
}

/// Where a device waits for the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Outputs of the device that the host reads, by their number.
    pub reads: Vec<usize>,
    /// Inputs of the device that it makes.
    pub makes: Vec<usize>,
}

/// What crosses between the host and the device.
#[derive(Clone, Debug, Default)]
pub struct Crossings {
    /// Values that enter the device: those that are there before it begins, then those of each pause.
    pub inputs: Vec<ValueId>,
    /// How many of them are there before.
    pub given: usize,
    /// Values that leave it: those that are wanted in the end, then those that only pauses read.
    pub outputs: Vec<ValueId>,
    /// How many of them are wanted in the end.
    pub results: usize,
    /// Between its stages, in order.
    pub pauses: Vec<Pause>,
}

impl Crossings {
    /// Those of a graph whose nodes have these stages.
    pub fn new(graph: &Graph, stages: &[u32]) -> Self {
        let mut made = vec![0_u32; graph.values.len()];
        for (node, stage) in graph.nodes.iter().zip(stages) {
            node.outputs.iter().flatten().for_each(|id| made[id.0 as usize] = *stage);
        }
        let last = stages.iter().copied().filter(|&stage| is_device(stage)).max().unwrap_or(1);
        let is_known = |id: ValueId| graph.value(id).constant.is_some();
        // Values with the host's stage that makes or reads them.
        let mut enters: Vec<(u32, ValueId)> = Vec::new();
        let mut leaves: Vec<(u32, ValueId)> = Vec::new();
        let (mut seen, mut left) = (HashSet::new(), HashSet::new());
        for (node, &stage) in graph.nodes.iter().zip(stages) {
            for &id in node.inputs.iter().flatten() {
                let from = made[id.0 as usize];
                if is_device(stage) && !is_device(from) && !is_known(id) && seen.insert(id) {
                    enters.push((from, id));
                } else if !is_device(stage) && is_device(from) && left.insert((stage, id)) {
                    leaves.push((stage, id));
                }
            }
        }
        for &id in &graph.outputs {
            if is_device(made[id.0 as usize]) && left.insert((last + 1, id)) {
                leaves.push((last + 1, id));
            }
        }
        // Callers give arrays by their place: those of the network's inputs come in its order, and what the host makes of them where
        // the first of these would.
        let places = first_inputs(graph);
        enters.sort_by_key(|&(stage, id)| (stage, if stage == 0 { places[id.0 as usize] } else { 0 }));
        let mut found =
            Self { given: enters.iter().filter(|(stage, _)| *stage == 0).count(), ..Self::default() };
        found.inputs = enters.iter().map(|(_, id)| *id).collect();
        let (wanted, between): (Vec<_>, Vec<_>) = leaves.iter().partition(|(stage, _)| *stage > last);
        let mut places = HashMap::new();
        for (_, id) in wanted.into_iter().chain(between) {
            places.entry(id).or_insert_with(|| {
                found.outputs.push(id);
                found.outputs.len() - 1
            });
        }
        found.results = leaves.iter().filter(|(stage, _)| *stage > last).count();
        found.pauses = (2..=last)
            .step_by(2)
            .map(|host| Pause {
                reads: leaves.iter().filter(|(stage, _)| *stage == host).map(|(_, id)| places[id]).collect(),
                makes: (0..enters.len()).filter(|&index| enters[index].0 == host).collect(),
            })
            .collect();
        found
    }
}

/// For every value the place of the first of the graph's inputs that it is made of, behind all others if there is none.
fn first_inputs(graph: &Graph) -> Vec<usize> {
    let mut first = vec![graph.inputs.len(); graph.values.len()];
    for (place, &id) in graph.inputs.iter().enumerate() {
        first[id.0 as usize] = place;
    }
    for node in &graph.nodes {
        let operands = node.inputs.iter().flatten().map(|id| first[id.0 as usize]);
        let place = operands.min().unwrap_or(graph.inputs.len());
        node.outputs.iter().flatten().for_each(|id| first[id.0 as usize] = place);
    }
    first
}

/// Whether the device has no part in the operator, whatever its types: reductions, choices and lookups, and
/// arithmetic on integers that mean no reals. What is not named here stays on the host.
pub(super) fn stays_on_host(node: &Node) -> bool {
    match node.op {
        Op::Binary(_) | Op::Unary(_) | Op::Softmax(_) | Op::LayerNorm(_) => node.quant.is_none(),
        Op::Conv(_)
        | Op::Gemm(_)
        | Op::MatMul(_)
        | Op::BatchNormalization(_)
        | Op::Pool(_)
        | Op::GlobalPool(_)
        | Op::AdaptivePool(_)
        | Op::Table(_)
        | Op::Tables(_)
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
