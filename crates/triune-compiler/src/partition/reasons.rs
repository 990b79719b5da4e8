//! Why operators stay on the host, in words that say what can be done.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher,
};

use triune_graph::{
    Graph, Node, NodeId, Op, ValueId,
    ops::{BinaryKind, ReduceKind},
};
use triune_tensor::DType;

use super::stages::{MOST_STAGES, crosses, is_device, is_told, staged, stays_on_host};
use crate::outline::is_resize;

/// How the reason of what the device has in no form begins.
pub(super) const LACKS: &str = "the device has no";

/// The reason of what could run on the device, but is not worth a crossing.
pub(super) const TOO_LITTLE: &str = "too little work behind the host to cross for";

/// The reason of what could run on the device, but is not in the model's own terms at one of its ends.
const NAMELESS: &str = "what it gives or takes has no tensor in the model that could cross";

/// The reason of what could run on the device behind a step of the host that lacks something.
const LOST: &str = "the host's step in front of it takes what a segment computes and keeps to itself, or bytes of the model's own: a \
                    QuantizeLinear and a DequantizeLinear behind that let it cross";

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

/// Who makes and who reads the values of a prepared graph.
struct Ends<'g> {
    graph: &'g Graph,
    producers: Vec<Option<NodeId>>,
    consumers: Vec<Vec<NodeId>>,
    /// What [`Self::why_reals`] has found, by the operators of the model.
    found: HashMap<(&'g str, &'g str), &'static str>,
}

impl<'g> Reasons<'g> {
    /// The reasons in a network whose nodes have these stages; `kept` as for [`stages`](super::stages::stages).
    pub fn new(
        graph: &'g Graph,
        stages: &[u32],
        kept: &HashSet<NodeId, impl BuildHasher>,
        int16: bool,
    ) -> Self {
        let (producers, consumers) = (graph.producers(), graph.consumers());
        let mut ends = Ends { graph, producers, consumers, found: HashMap::new() };
        let meanings = graph.meanings();
        let makes_on_host = |id: &ValueId, producers: &[Option<NodeId>]| {
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
            let own =
                if is_device(stages[index]) { None } else { against_device(&mut ends, index, kept, int16) };
            let behind = node.inputs.iter().flatten().find_map(|id| makes_on_host(id, &ends.producers));
            let behind = behind.filter(|_| own.is_none());
            reasons.own.push(own);
            reasons.roots.push(behind.map_or(index, |maker| reasons.roots[maker]));
        }
        reasons
    }

    /// The same, where the host in front of some of the nodes that are kept cannot make what they take.
    #[must_use]
    pub fn with_lost(mut self, lost: &HashSet<NodeId>) -> Self {
        for node in lost {
            if let Some(own) =
                self.own.get_mut(node.0 as usize).filter(|own| own.as_deref() == Some(NAMELESS))
            {
                *own = Some(LOST.into());
            }
        }
        self
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
    ends: &mut Ends<'_>,
    index: usize,
    kept: &HashSet<NodeId, impl BuildHasher>,
    int16: bool,
) -> Option<String> {
    let graph = ends.graph;
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
        if value.dtype.is_some_and(|dtype| !dtype.is_float()) {
            return Some(format!("it computes on {dtype}: indices, masks and extents have no scale"));
        }
        return Some(if is_over_volume(graph, node) {
            format!("{LACKS} {} over three axes", node.title().1)
        } else if stays_on_host(node) && !has_integer_form(graph, node) {
            format!("{LACKS} {}, and it computes on {dtype}", node.title().1)
        } else {
            format!("it computes on {dtype}{}", ends.why_reals(index))
        });
    }
    if stays_on_host(node) {
        return Some(format!("{LACKS} {}", node.title().1));
    }
    let is_kept = kept.contains(&NodeId(index as u32));
    is_kept.then(|| NAMELESS.into())
}

impl Ends<'_> {
    /// What has an operator of the model compute on reals, and what can be done, as the rest of a sentence.
    fn why_reals(&mut self, index: usize) -> &'static str {
        let Some(origin) = &self.graph.nodes[index].origin else { return self.why_real(index) };
        let key = (&*origin.node, &*origin.op);
        if let Some(known) = self.found.get(&key) {
            return known;
        }
        let why = self.why_real(index);
        self.found.insert(key, why);
        why
    }

    fn why_real(&self, index: usize) -> &'static str {
        let pieces = self.pieces(index);
        let own = |node: &NodeId| pieces.contains(&(node.0 as usize));
        let nodes = || pieces.iter().map(|&piece| &self.graph.nodes[piece]);
        let is_real = |id: &&ValueId| {
            let value = self.graph.value(**id);
            value.constant.is_none() && value.dtype.is_some_and(DType::is_float)
        };
        let reads = || nodes().flat_map(|node| node.inputs.iter().flatten().filter(is_real));
        let outer = reads().filter(|id| !self.producers[id.0 as usize].as_ref().is_some_and(own));
        let dequantized = |id: &ValueId| {
            let maker = self.producers[id.0 as usize].map(|maker| &self.graph.nodes[maker.0 as usize]);
            maker.is_some_and(|maker| matches!(maker.op, Op::DequantizeLinear(_)))
        };
        let before: Vec<bool> = outer.map(dequantized).collect();
        let is_quantizer =
            |reader: &NodeId| matches!(self.graph.nodes[reader.0 as usize].op, Op::QuantizeLinear(_));
        let results = nodes().flat_map(|node| node.outputs.iter().flatten());
        let behind: Vec<bool> = results
            .filter_map(|id| {
                let mut readers =
                    self.consumers[id.0 as usize].iter().filter(|reader| !own(reader)).peekable();
                let given = self.graph.outputs.contains(id);
                (given || readers.peek().is_some()).then(|| !given && readers.all(is_quantizer))
            })
            .collect();
        match [before, behind].map(|ends| ends.iter().all(|is| *is)) {
            [true, true] if nodes().any(|node| self.is_grouped(node)) => {
                " between quantizers: in groups its weights have a form over integers where they are quantized, and none is 255 more than \
                 its zero point; symmetric ones do (int8 with zero point 0)"
            }
            [true, true] => {
                " between quantizers: with these operands it has no form over integers; in float (--keep-float of triune quantize) it \
                 is rounded less often, and spelled out in other operators it may have one"
            }
            [false, true] => {
                ", as not all that it reads is quantized: if it has a form over integers, a QuantizeLinear and a DequantizeLinear in \
                 front give it that"
            }
            [true, false] => {
                ", as what it makes is not quantized for all who read it: if it has a form over integers, a QuantizeLinear and a \
                 DequantizeLinear behind it give it that"
            }
            [false, false] => {
                ", as neither what it reads nor what it makes is quantized: triune quantize makes integers of it unless --float-from, or \
                 that no product follows, leaves it out"
            }
        }
    }

    /// Whether it is a convolution in groups with constant weights, of which those without a form over integers are another kind than
    /// devices have.
    fn is_grouped(&self, node: &Node) -> bool {
        let constant = |id: &ValueId| self.graph.value(*id).constant.is_some();
        matches!(&node.op, Op::Conv(op) if op.groups > 1)
            && node.inputs.get(1).is_some_and(|weights| weights.as_ref().is_some_and(constant))
    }

    /// A node, and those that were one operator of the model with it.
    fn pieces(&self, index: usize) -> HashSet<usize> {
        let nodes = &self.graph.nodes;
        let origin = nodes[index].origin.as_ref();
        let (mut found, mut left) = (HashSet::from([index]), vec![index]);
        while let Some(at) = left.pop() {
            let makers = nodes[at].inputs.iter().flatten().filter_map(|id| self.producers[id.0 as usize]);
            let readers = nodes[at]
                .outputs
                .iter()
                .flatten()
                .flat_map(|id| self.consumers[id.0 as usize].iter().copied());
            for other in makers.chain(readers).map(|other| other.0 as usize) {
                if origin.is_some() && nodes[other].origin.as_ref() == origin && found.insert(other) {
                    left.push(other);
                }
            }
        }
        found
    }
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
