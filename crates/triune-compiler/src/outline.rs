//! What the operators of a model work on, for people and their tools: names, types, extents, arithmetic.

use std::collections::{BTreeSet, HashMap};

use triune_graph::{Constant, Graph, Node, NodeId, Op, Provenance, ValueId};
use triune_tensor::{DType, Shape};

/// A model as it runs: after folding and fusion, for the extents of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Every tensor that an operator reads or makes; names are unique.
    pub values: Vec<OutlineValue>,
    /// The operators in execution order.
    pub nodes: Vec<OutlineNode>,
}

/// A tensor of an [`Outline`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineValue {
    /// Its name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Whether its elements are known before any run.
    pub constant: bool,
}

/// An operator of an [`Outline`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineNode {
    /// The node's name in the model.
    pub name: String,
    /// The operator, such as `Conv`.
    pub kind: &'static str,
    /// Positions of its operands in [`Outline::values`].
    pub inputs: Vec<usize>,
    /// Positions of its results in [`Outline::values`].
    pub outputs: Vec<usize>,
    /// Additions and multiplications, a product with its sum being two; `None` where nobody counts them, as for
    /// operators that move elements. What is fused into the operator is left out.
    pub operations: Option<u64>,
}

impl Outline {
    /// The outline of a prepared graph. Values whose type or extents are not known are left out.
    pub fn of(graph: &Graph) -> Self {
        let mut outline = Self::default();
        outline.nodes.reserve_exact(graph.nodes.len());
        outline.values.reserve_exact(graph.values.len());
        let mut known = vec![None; graph.values.len()];
        for node in &graph.nodes {
            let mut positions = |ids: &[Option<ValueId>]| -> Vec<usize> {
                ids.iter().flatten().filter_map(|&id| outline.position(graph, id, &mut known)).collect()
            };
            let (inputs, outputs) = (positions(&node.inputs), positions(&node.outputs));
            let operations = operations(graph, node);
            outline.nodes.push(OutlineNode {
                name: node.name.clone(),
                kind: node.op.name(),
                inputs,
                outputs,
                operations,
            });
        }
        outline
    }

    fn position(&mut self, graph: &Graph, id: ValueId, known: &mut [Option<usize>]) -> Option<usize> {
        if let Some(position) = known[id.0 as usize] {
            return Some(position);
        }
        let value = graph.value(id);
        let found = OutlineValue {
            name: value.name.clone(),
            dtype: value.dtype?,
            shape: value.fixed_shape()?,
            constant: value.constant.is_some(),
        };
        self.values.push(found);
        known[id.0 as usize] = Some(self.values.len() - 1);
        Some(self.values.len() - 1)
    }
}

/// A prepared graph that has no more use for its elements: an outline is drawn of it when somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Skeleton(Graph);

impl Skeleton {
    /// What is left of a graph without the elements of its constants.
    pub fn of(mut graph: Graph) -> Self {
        let nothing = Shape::new(&[0]).and_then(|none| Constant::from_f32(none, &[]));
        for value in graph.values.iter_mut().filter(|value| value.constant.is_some()) {
            value.constant.clone_from(&nothing);
        }
        Self(graph)
    }

    /// About the bytes of memory that it takes.
    pub fn footprint(&self) -> u64 {
        self.0.footprint()
    }

    /// The outline of the graph.
    pub fn outline(&self) -> Outline {
        Outline::of(&self.0)
    }

    /// For each of its operators, those of the model that it was made of which end with it: all between its results and the values
    /// before them that other operators read or make, too. What is computed of constants and extents alone is left out; an operator
    /// whose result is no value of the model's has none.
    pub fn made_of(&self, model: &Graph) -> Vec<Vec<NodeId>> {
        let is_own = |id: &ValueId| model.value(*id).provenance == Provenance::Network;
        let ids = (0..model.values.len()).map(|index| ValueId(index as u32));
        let names: HashMap<&str, ValueId> =
            ids.filter(is_own).map(|id| (&*model.value(id).name, id)).collect();
        let own = |id: &ValueId| {
            let value = self.0.value(*id);
            let name = match &value.provenance {
                Provenance::Network => &value.name,
                Provenance::Same { value, .. } | Provenance::Quantized(value) => value,
                Provenance::Pass => return None,
            };
            names.get(&**name).copied()
        };
        // Where looking back ends.
        let mut ends: Vec<bool> = model.values.iter().map(|value| value.constant.is_some()).collect();
        for node in &model.nodes {
            let fixed = matches!(node.op, Op::ShapeOf(_))
                || node.inputs.iter().flatten().all(|input| ends[input.0 as usize]);
            node.outputs.iter().flatten().for_each(|output| ends[output.0 as usize] |= fixed);
        }
        for id in self.0.nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs)).flatten() {
            if let Some(id) = own(id) {
                ends[id.0 as usize] = true;
            }
        }
        let producers = model.producers();
        let behind = |node: &Node| {
            let mut found = BTreeSet::new();
            let mut open: Vec<ValueId> = node.outputs.iter().flatten().filter_map(own).collect();
            while let Some(id) = open.pop() {
                let Some(producer) = producers[id.0 as usize] else { continue };
                if found.insert(producer.0) {
                    let inputs = model.nodes[producer.0 as usize].inputs.iter().flatten();
                    open.extend(inputs.filter(|input| !ends[input.0 as usize]));
                }
            }
            found.into_iter().map(NodeId).collect()
        };
        self.0.nodes.iter().map(behind).collect()
    }
}

/// An outline while it is put together from operators and parts of one model: values of one name are one value.
#[derive(Debug, Default)]
pub struct OutlineBuilder {
    outline: Outline,
    /// The position of each value.
    positions: HashMap<String, usize>,
}

impl OutlineBuilder {
    fn position(&mut self, value: &OutlineValue) -> usize {
        if let Some(&position) = self.positions.get(&value.name) {
            return position;
        }
        let position = self.outline.values.len();
        self.positions.insert(value.name.clone(), position);
        self.outline.values.push(value.clone());
        position
    }

    /// Adds an operator.
    pub fn add(&mut self, name: &str, kind: &'static str, inputs: &[OutlineValue], outputs: &[OutlineValue]) {
        let mut positions =
            |values: &[OutlineValue]| values.iter().map(|value| self.position(value)).collect();
        let (inputs, outputs) = (positions(inputs), positions(outputs));
        self.outline.nodes.push(OutlineNode { name: name.into(), kind, inputs, outputs, operations: None });
    }

    /// Adds the operators of a part.
    pub fn append(&mut self, part: &Outline) {
        let positions: Vec<usize> = part.values.iter().map(|value| self.position(value)).collect();
        let moved = |old: &[usize]| old.iter().map(|&position| positions[position]).collect();
        self.outline.nodes.extend(part.nodes.iter().map(|node| OutlineNode {
            inputs: moved(&node.inputs),
            outputs: moved(&node.outputs),
            ..node.clone()
        }));
    }

    /// The outline of all that was added.
    pub fn finish(self) -> Outline {
        self.outline
    }
}

/// Whether an operator is one of those that a change of size was spelled out as, such as products with matrices.
pub(crate) fn is_resize(node: &Node) -> bool {
    node.origin.as_ref().is_some_and(|origin| matches!(&*origin.op, "Resize" | "Upsample"))
}

/// Multiply-accumulates of an operator over constant weights or two matrices; 0 of others, and where extents are open.
pub(crate) fn macs(graph: &Graph, node: &Node) -> u64 {
    match &node.op {
        _ if is_resize(node) => 0,
        Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_) => operations(graph, node).unwrap_or(0) / 2,
        _ => 0,
    }
}

/// The arithmetic of an operator with fixed extents.
fn operations(graph: &Graph, node: &Node) -> Option<u64> {
    let extents =
        |ids: &[Option<ValueId>], index: usize| graph.value(ids.get(index).copied().flatten()?).fixed_shape();
    let count = |shape: Shape| shape.elements().map(|elements| elements as u64);
    let results = extents(&node.outputs, 0).and_then(count)?;
    let products = |depth: u64| results.checked_mul(depth)?.checked_mul(2);
    match &node.op {
        Op::Conv(_) => {
            let weights = extents(&node.inputs, 1)?;
            products(count(weights)? / weights.first().map_or(1, |&outputs| outputs.max(1) as u64))
        }
        Op::Gemm(op) => {
            let a = extents(&node.inputs, 0)?;
            products(*a.get(usize::from(!op.trans_a))? as u64)
        }
        Op::MatMul(_) => products(*extents(&node.inputs, 0)?.last()? as u64),
        Op::Pool(op) => results.checked_mul(op.kernel.iter().map(|&extent| extent as u64).product()),
        Op::GlobalPool(_) | Op::AdaptivePool(_) | Op::Reduce(_) | Op::ArgReduce(_) => {
            extents(&node.inputs, 0).and_then(count)
        }
        Op::Binary(_)
        | Op::Unary(_)
        | Op::Clip(_)
        | Op::Table(_)
        | Op::Tables(_)
        | Op::Softmax(_)
        | Op::LayerNorm(_)
        | Op::BatchNormalization(_) => Some(results),
        _ => None,
    }
}
