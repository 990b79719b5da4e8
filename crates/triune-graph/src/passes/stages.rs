//! Networks whose extents depend on data, cut into parts of which each has fixed extents once its operands are there.

use std::collections::HashSet;

use triune_tensor::{DType, Shape, text::List};

use crate::{
    Constant, Error, Graph, Node, NodeId, Op, ValueId, ValueKind,
    ops::{Body, Hosted, SequenceOp},
    walk::Walk,
};

/// One part of a network, and what the host does behind it.
///
/// What flows between parts goes by the names that values have in the whole network: the caller keeps a table of tensors
/// by name, with the network's inputs to begin with. For each stage in turn it calls [`Stage::bind`] with that table,
/// compiles and runs the graph that comes back, puts its outputs into the table, then runs each of [`Stage::host`] in
/// order and puts their results there, too. In the end the table has the network's outputs. A compiled stage serves again
/// when [`Stage::bind`] would give the same graph: for equal types and extents of its inputs and equal elements of those
/// that [`Stage::constants`] names.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The static part; its inputs' extents are open. It may have no nodes.
    graph: Graph,
    /// The part's inputs, in the order in which the graph names them.
    pub inputs: Vec<String>,
    /// Those of them whose elements decide about extents: they are bound as constants.
    pub constants: HashSet<String>,
    /// What the part makes for later ones and for the host.
    pub outputs: Vec<String>,
    /// What the host computes when the part has run.
    pub host: Vec<HostStep>,
}

/// An operator that the host runs.
#[derive(Clone, Debug)]
pub struct HostStep {
    /// The node's name.
    pub name: String,
    /// The operator: one of those in [`crate::ops`] that say that they run between stages.
    pub op: Op,
    /// Its operands; `None` where an optional one is left out.
    pub inputs: Vec<Option<HostOperand>>,
    /// Names of its results; `None` for one that nobody reads.
    pub outputs: Vec<Option<String>>,
}

/// An operand of a [`HostStep`].
#[derive(Clone, Debug)]
pub enum HostOperand {
    /// A value of the network, by name.
    Value(String),
    /// Known beforehand.
    Constant(Constant),
}

/// A tensor that a stage is bound to: dense, row-major, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: &'a [usize],
    /// Elements.
    pub bytes: &'a [u8],
}

impl Stage {
    /// The part with fixed extents, for what has arrived; its inputs are those of [`Stage::inputs`] that are not
    /// [`Stage::constants`], in that order.
    ///
    /// An input that has not arrived, or does not fit, is an error that names it.
    pub fn bind<'a>(&self, arrived: impl Fn(&str) -> Option<Arrival<'a>>) -> Result<Graph, Error> {
        let mut graph = self.graph.clone();
        let mut shapes = Vec::new();
        let mut open = Vec::new();
        for id in std::mem::take(&mut graph.inputs) {
            let name = graph.value(id).name.clone();
            let tensor = arrived(&name).ok_or_else(|| Error::Graph(format!("'{name}' is not there yet")))?;
            if self.constants.contains(&name) {
                let constant = Shape::new(tensor.shape)
                    .and_then(|shape| Constant::new(tensor.dtype, shape, tensor.bytes.to_vec()))
                    .ok_or_else(|| {
                        let (got, shape) = (tensor.bytes.len(), tensor.shape);
                        Error::Graph(format!("'{name}': {got} bytes for extents {}", List(shape)))
                    })?;
                graph.set_constant(id, constant);
            } else {
                graph.value_mut(id).dtype = Some(tensor.dtype);
                shapes.push((name, tensor.shape));
                open.push(id);
            }
        }
        graph.inputs = open;
        let shapes: Vec<(&str, &[usize])> = shapes.iter().map(|(name, shape)| (&**name, *shape)).collect();
        graph.bind(&shapes)?;
        Ok(graph)
    }
}

/// Cuts the network behind each operator whose results depend on data in extent ([`Op`]s that run on the host), and
/// before each operator whose own extents are decided by computed elements, such as a slice up to a computed end.
///
/// `None` when there is no such operator: the network is one program. The network's nodes need not have types.
pub fn stages(graph: &Graph) -> Result<Option<Vec<Stage>>, Error> {
    let cuts = |op: &Op| matches!(op, Op::Hosted(_)) || op.runs_between_stages() || !op.decides().is_empty();
    let lists = graph.values.iter().any(|value| !value.kind.is_tensor());
    if !lists && !graph.nodes.iter().any(|node| cuts(&node.op)) {
        return Ok(None);
    }
    let cut = Cut::new(graph, None)?;
    let tensors = graph.inputs.iter().chain(&graph.outputs).all(|&id| cut.kind(id).is_tensor());
    if cut.levels() == 1 && !cut.on_host.contains(&true) && tensors {
        return Ok(None);
    }
    cut.stages().map(Some)
}

/// As [`stages`], for a network within a network: one stage where nothing is cut, and inputs of any extents.
pub fn body_stages(graph: &Graph) -> Result<Vec<Stage>, Error> {
    Cut { given: HashSet::new(), ..Cut::new(graph, None)? }.stages()
}

/// The nodes of one stage, in order.
#[derive(Clone, Debug, Default)]
struct Level {
    /// Those of the static part.
    nodes: Vec<usize>,
    /// Those behind it.
    host: Vec<usize>,
}

/// Which stage makes what.
struct Cut<'g> {
    graph: &'g Graph,
    producers: Vec<Option<NodeId>>,
    /// For every node, whether the host runs it.
    on_host: Vec<bool>,
    /// For every node, its stage.
    node_level: Vec<usize>,
    /// For every value, the first stage that can read it within its own graph: its maker's, or the one behind a host step.
    value_level: Vec<usize>,
    /// For every value, whether somebody needs it behind the static part that makes it: the host, a later part or the caller.
    leaves: Vec<bool>,
    /// The network's inputs.
    given: HashSet<ValueId>,
    /// For every value, what it is.
    kinds: Vec<ValueKind>,
}

/// What is to be known of a node's own networks.
#[derive(Default)]
struct Inner {
    /// Whether something in them runs on the host.
    on_host: bool,
    /// What the first network's results are.
    results: Vec<ValueKind>,
}

impl Inner {
    fn of(node: &Node, depends: impl Fn(ValueId) -> bool) -> Result<Self, Error> {
        let operand = |index: usize| node.inputs.get(index).copied().flatten();
        let body = |body: &Body, seen: Option<usize>| {
            let seen: Option<Vec<bool>> = seen.map(|first| {
                (first..first + body.captures).map(|index| operand(index).is_some_and(&depends)).collect()
            });
            let cut = Cut::new(&body.graph, seen.as_deref())?;
            let results = body.graph.outputs.iter().map(|&id| cut.kind(id)).collect();
            Ok(Self { on_host: cut.on_host.contains(&true), results })
        };
        match &node.op {
            Op::Hosted(Hosted::If(op)) => {
                let then = body(&op.then, Some(1))?;
                let otherwise = body(&op.otherwise, Some(1 + op.then.captures))?;
                Ok(Self { on_host: then.on_host || otherwise.on_host, ..then })
            }
            Op::Hosted(Hosted::Loop(op)) => body(&op.body, None),
            _ => Ok(Self::default()),
        }
    }
}

impl<'g> Cut<'g> {
    /// `depends` says of the inputs whether their elements depend on what the whole network is given; without it all do.
    fn new(graph: &'g Graph, depends: Option<&[bool]>) -> Result<Self, Error> {
        let mut cut = Self {
            graph,
            producers: graph.producers(),
            on_host: vec![false; graph.nodes.len()],
            node_level: vec![0; graph.nodes.len()],
            value_level: vec![0; graph.values.len()],
            leaves: vec![false; graph.values.len()],
            given: graph.inputs.iter().copied().collect(),
            kinds: graph.values.iter().map(|value| value.kind).collect(),
        };
        // Whether a value's elements depend on what the network is given, extents apart.
        let mut computed = vec![false; graph.values.len()];
        for (index, id) in graph.inputs.iter().enumerate() {
            let depends = depends.and_then(|depends| depends.get(index)).is_none_or(|depends| *depends);
            computed[id.0 as usize] = depends && graph.value(*id).constant.is_none();
        }
        let mut walk = Walk::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            walk.node()?;
            let is_computed = |id: &ValueId| computed[id.0 as usize];
            let inner = Inner::of(node, |id| computed[id.0 as usize])?;
            cut.find_kinds(node, &inner);
            let lists = node.inputs.iter().chain(&node.outputs).flatten();
            let lists = lists.clone().any(|&id| !cut.kind(id).is_tensor());
            let on_host = match &node.op {
                // What programs have are tensors.
                Op::Identity(_) => lists,
                // Where its condition follows from extents, one of its networks takes its place.
                Op::Hosted(Hosted::If(_)) => {
                    lists
                        || inner.on_host
                        || node.inputs.first().copied().flatten().is_none_or(|id| is_computed(&id))
                }
                op => op.runs_between_stages(),
            };
            let mut level = 0;
            for (position, id) in node.inputs.iter().enumerate() {
                let Some(id) = id.filter(|id| graph.value(*id).constant.is_none()) else { continue };
                let decides = !on_host && node.op.decides().contains(&position) && is_computed(&id);
                level = level.max(cut.value_level[id.0 as usize] + usize::from(decides));
            }
            cut.node_level[index] = level;
            cut.on_host[index] = on_host;
            let depends = !matches!(node.op, Op::ShapeOf(_))
                && (on_host || node.inputs.iter().flatten().any(is_computed));
            for id in node.outputs.iter().flatten() {
                cut.value_level[id.0 as usize] = level + usize::from(on_host);
                computed[id.0 as usize] = depends;
            }
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            for &id in node.inputs.iter().flatten() {
                let maker = cut.producers[id.0 as usize].map(|maker| cut.node_level[maker.0 as usize]);
                cut.leaves[id.0 as usize] |= maker.is_none_or(|level| !cut.is_static(index, level));
            }
        }
        for id in &graph.outputs {
            cut.leaves[id.0 as usize] = true;
        }
        Ok(cut)
    }

    fn kind(&self, id: ValueId) -> ValueKind {
        self.kinds[id.0 as usize]
    }

    /// What the results of a node are, where the file does not say it.
    fn find_kinds(&mut self, node: &Node, inner: &Inner) {
        let of = |index: usize| node.inputs.get(index).copied().flatten().map(|id| self.kind(id));
        let kinds = match &node.op {
            Op::Identity(_) => of(0).into_iter().collect(),
            Op::Hosted(Hosted::Sequence(op)) => vec![match op {
                SequenceOp::Construct
                | SequenceOp::Empty(_)
                | SequenceOp::Insert
                | SequenceOp::Erase
                | SequenceOp::Split { .. } => ValueKind::Sequence,
                SequenceOp::Optional => match of(0) {
                    Some(ValueKind::Sequence | ValueKind::OptionalSequence) => ValueKind::OptionalSequence,
                    _ => ValueKind::Optional,
                },
                SequenceOp::GetElement => match of(0) {
                    Some(ValueKind::Sequence | ValueKind::OptionalSequence) => ValueKind::Sequence,
                    _ => ValueKind::Tensor,
                },
                SequenceOp::Same => of(0).unwrap_or_default(),
                SequenceOp::At | SequenceOp::Length | SequenceOp::Concat { .. } | SequenceOp::HasElement => {
                    ValueKind::Tensor
                }
            }],
            Op::Hosted(Hosted::Map(_)) => vec![ValueKind::Sequence; node.outputs.len()],
            Op::Hosted(Hosted::If(_)) => inner.results.clone(),
            Op::Hosted(Hosted::Loop(_)) => inner.results.get(1..).unwrap_or_default().to_vec(),
            _ => return,
        };
        for (id, kind) in node.outputs.iter().zip(kinds) {
            if let Some(id) = id.filter(|id| self.kind(*id).is_tensor()) {
                self.kinds[id.0 as usize] = kind;
            }
        }
    }

    /// Whether the value comes into stage `level` from outside.
    fn enters(&self, id: ValueId, level: usize) -> bool {
        let made_here =
            self.producers[id.0 as usize].is_some_and(|node| self.is_static(node.0 as usize, level));
        !made_here && self.graph.value(id).constant.is_none()
    }

    fn is_static(&self, index: usize, level: usize) -> bool {
        self.node_level[index] == level && !self.on_host[index]
    }

    fn levels(&self) -> usize {
        self.node_level.iter().copied().max().unwrap_or(0) + 1
    }

    fn stages(&self) -> Result<Vec<Stage>, Error> {
        let mut levels = vec![Level::default(); self.levels()];
        for (index, &level) in self.node_level.iter().enumerate() {
            let own = &mut levels[level];
            if self.on_host[index] { &mut own.host } else { &mut own.nodes }.push(index);
        }
        levels.iter().enumerate().map(|(level, own)| self.stage(level, own)).collect()
    }

    fn stage(&self, level: usize, own: &Level) -> Result<Stage, Error> {
        let graph = self.graph;
        let (mut inputs, mut constants, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut outputs = Vec::new();
        for node in own.nodes.iter().map(|&index| &graph.nodes[index]) {
            for (position, &id) in node.inputs.iter().enumerate() {
                let Some(id) = id.filter(|id| self.enters(*id, level)) else { continue };
                if seen.insert(id) {
                    inputs.push(id);
                }
                if node.op.decides().contains(&position) {
                    constants.insert(id);
                }
            }
            outputs.extend(node.outputs.iter().flatten().filter(|id| self.leaves[id.0 as usize]));
        }
        let mut part = graph.extract_by(&self.producers, &inputs, &outputs)?;
        // What an operand's extents are is only known when it has arrived.
        for (id, own) in inputs.iter().zip(part.inputs.clone()) {
            if !self.given.contains(id) {
                part.value_mut(own).shape = None;
            }
        }
        let name = |id: &ValueId| graph.value(*id).name.clone();
        Ok(Stage {
            inputs: inputs.iter().map(name).collect(),
            constants: constants.iter().map(name).collect(),
            outputs: outputs.iter().map(name).collect(),
            host: own.host.iter().map(|&index| self.host_step(&graph.nodes[index])).collect(),
            graph: part,
        })
    }

    fn host_step(&self, node: &Node) -> HostStep {
        let operand = |id: ValueId| {
            let value = self.graph.value(id);
            match &value.constant {
                Some(constant) => HostOperand::Constant(constant.clone()),
                None => HostOperand::Value(value.name.clone()),
            }
        };
        HostStep {
            name: node.name.clone(),
            op: if let Op::Identity(_) = node.op { SequenceOp::Same.into() } else { node.op.clone() },
            inputs: node.inputs.iter().map(|id| id.map(operand)).collect(),
            outputs: node.outputs.iter().map(|id| id.map(|id| self.graph.value(id).name.clone())).collect(),
        }
    }
}
