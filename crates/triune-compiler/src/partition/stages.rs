//! Which stage each operator runs in: host and device take turns, and the device begins anew only where that pays.
//!
//! Stages count from 0; the host has the even ones, the device the odd ones. Each operator is in the earliest that its operands
//! let it be in, but what the host makes for no later stage of the device is in the last; so a graph's nodes in the order of their
//! stages are in execution order.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher,
};

use triune_graph::{
    Graph, Node, NodeId, Op, ValueId,
    ops::{BinaryKind, ReduceKind},
};
use triune_tensor::{DType, QuantParams};

use crate::outline::{is_resize, macs};

/// Most stages of the device. Each but the first costs a call and the transfer of what crosses.
pub const MOST_STAGES: usize = 16;

/// A stage of the device beside the largest has at least this many multiply-accumulates, and one in so many of all; else its
/// operators stay on the host, which has computed them by the time that they would have crossed.
const LEAST: (u64, u64) = (50_000, 200);

/// How the reason of what the device has in no form begins.
pub(super) const LACKS: &str = "the device has no";

/// The reason of what could run on the device, but is not worth a crossing.
pub(super) const TOO_LITTLE: &str = "too little work behind the host to cross for";

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
fn staged<S: BuildHasher>(
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
fn crosses(graph: &Graph, node: &Node) -> bool {
    matches!(node.op, Op::QuantizeLinear(_)) && graph.border_params(node).is_some() || node.quant.is_some()
}

/// Whether the integers that the host makes can go to the device, however it makes them: they are bytes, and those who read them say
/// what they mean.
fn is_told(graph: &Graph, meanings: &[Option<QuantParams>], id: ValueId) -> bool {
    meanings[id.0 as usize].is_some() && graph.value(id).dtype.is_some_and(DType::is_quantized)
}

/// Why nodes stay on the host.
pub struct Reasons<'g> {
    graph: &'g Graph,
    /// For each node what it has against the device itself.
    own: Vec<Option<String>>,
    /// Those whose stages the device had for others.
    crowded_out: HashSet<NodeId>,
    /// For each node the first one that keeps it on the host: itself, or one whose results it comes behind.
    roots: Vec<usize>,
}

impl<'g> Reasons<'g> {
    /// The reasons in a network whose nodes have these stages; `kept` as for [`stages`].
    pub fn new(
        graph: &'g Graph,
        stages: &[u32],
        kept: &HashSet<NodeId, impl BuildHasher>,
        int16: bool,
    ) -> Self {
        let producers = graph.producers();
        let meanings = graph.meanings();
        let makes_on_host = |id: &ValueId| {
            let maker = producers[id.0 as usize]?.0 as usize;
            let stays = !crosses(graph, &graph.nodes[maker]) && !is_told(graph, &meanings, *id);
            (!is_device(stages[maker]) && stays).then_some(maker)
        };
        let mut reasons = Self {
            graph,
            own: Vec::with_capacity(stages.len()),
            crowded_out: staged(graph, kept, int16).1,
            roots: Vec::with_capacity(stages.len()),
        };
        for (index, node) in graph.nodes.iter().enumerate() {
            let own = if is_device(stages[index]) { None } else { against_device(graph, index, kept, int16) };
            let behind = node.inputs.iter().flatten().find_map(makes_on_host).filter(|_| own.is_none());
            reasons.own.push(own);
            reasons.roots.push(behind.map_or(index, |maker| reasons.roots[maker]));
        }
        reasons
    }

    /// Why a node of the host stays there.
    pub fn of(&self, node: NodeId) -> String {
        let index = node.0 as usize;
        let root = self.roots[index];
        match &self.own[root] {
            Some(own) if root == index => own.clone(),
            Some(_) => {
                format!("it comes behind a {} that stays on the host", self.graph.nodes[root].title().1)
            }
            None if self.crowded_out.contains(&NodeId(root as u32)) => {
                format!("a program has at most {MOST_STAGES} segments, and others have more work")
            }
            None => TOO_LITTLE.into(),
        }
    }
}

/// What a node has against the device itself.
fn against_device(
    graph: &Graph,
    index: usize,
    kept: &HashSet<NodeId, impl BuildHasher>,
    int16: bool,
) -> Option<String> {
    let node = &graph.nodes[index];
    let real = |id: &ValueId| {
        let value = graph.value(*id);
        let wide = value.dtype == Some(DType::I16) && int16;
        let known = value.constant.is_some();
        (!known && !wide && !value.dtype.is_some_and(DType::is_quantized)).then_some(value)
    };
    let listed = |ids: &[Option<ValueId>]| ids.iter().flatten().find_map(real);
    if let Some(value) = listed(&node.inputs).or_else(|| listed(&node.outputs)) {
        let dtype = value.dtype.map_or("unknown", DType::name);
        if value.dtype == Some(DType::I16) {
            return Some("16-bit integers, and the device computes on those of 8".into());
        }
        return Some(if is_over_volume(graph, node) {
            format!("{LACKS} {} over three axes", node.title().1)
        } else if stays_on_host(node) && !has_integer_form(graph, node) {
            format!("{LACKS} {}, and it computes on {dtype}", node.title().1)
        } else {
            format!("it computes on {dtype}: no quantizer on both sides, or no form over integers")
        });
    }
    if stays_on_host(node) {
        return Some(format!("{LACKS} {}", node.title().1));
    }
    let is_kept = kept.contains(&NodeId(index as u32));
    is_kept.then(|| "what it gives or takes has no tensor in the model that could cross".into())
}

/// Whether a node is a piece of a window over three axes, at one of its ends.
fn is_over_volume(graph: &Graph, node: &Node) -> bool {
    let windows = node.origin.as_ref().is_some_and(|origin| {
        matches!(origin.op.as_str(), "Conv" | "ConvTranspose")
            || origin.op.strip_suffix("Pool").is_some_and(|kind| !kind.is_empty())
    });
    let mut ends = node.inputs.iter().chain(&node.outputs).flatten();
    windows && ends.any(|id| graph.value(*id).shape.as_ref().is_some_and(|shape| shape.len() > IMAGE_AXES))
}

/// Axes of an image: of images, channels, rows and columns.
const IMAGE_AXES: usize = 4;

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
fn stays_on_host(node: &Node) -> bool {
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

/// Whether the device computes some operators of this name over integers.
fn has_integer_form(graph: &Graph, node: &Node) -> bool {
    match &node.op {
        Op::Binary(op) => match op.kind {
            BinaryKind::Add | BinaryKind::Sub | BinaryKind::Mul | BinaryKind::Max | BinaryKind::Min => true,
            // By a constant it is a function of one value.
            BinaryKind::Div => node.inputs.iter().flatten().any(|id| graph.value(*id).constant.is_some()),
            _ => false,
        },
        Op::Reduce(op) => matches!(op.kind, ReduceKind::Mean),
        Op::Unary(_) | Op::Clip(_) | Op::Softmax(_) | Op::LayerNorm(_) => true,
        // A part of an operator that others of its name do without.
        _ => is_resize(node),
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
