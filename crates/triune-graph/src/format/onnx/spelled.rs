//! What ONNX has no operator for, in terms of what it has, before a graph is written.

use std::borrow::Cow;

use triune_tensor::{DType, Shape};

use crate::{
    Constant, Dim, Graph, Node, Op, Value, ValueId,
    constant::real_bytes,
    ops::{BinaryKind, Cast, Expand, GatherElements, Identity, Slice, Unary, UnaryKind, Where},
};

/// The graph without gates, weighted sums and products with factors, and with the axes of running sums as operands.
pub(super) fn out(graph: &Graph) -> Cow<'_, Graph> {
    if !graph.nodes.iter().any(is_spelled_out) {
        return Cow::Borrowed(graph);
    }
    let mut graph = graph.clone();
    for node in std::mem::take(&mut graph.nodes) {
        if is_spelled_out(&node) {
            Steps { graph: &mut graph, node: &node }.spell();
        } else {
            graph.nodes.push(node);
        }
    }
    Cow::Owned(graph)
}

fn is_spelled_out(node: &Node) -> bool {
    let known = node.inputs.first().copied().flatten().is_some();
    known
        && match &node.op {
            Op::Unary(Unary { kind: UnaryKind::Gate { .. } }) | Op::Running(_) | Op::Weigh(_) => true,
            Op::IntegerMatMul(_) => node.inputs.get(4).copied().flatten().is_some(),
            _ => false,
        }
}

/// The operators that take a node's place.
struct Steps<'g> {
    graph: &'g mut Graph,
    node: &'g Node,
}

impl Steps<'_> {
    fn spell(mut self) {
        let [x, factors] = [0, 4].map(|index| self.node.inputs.get(index).copied().flatten());
        match (&self.node.op, x, factors) {
            (Op::Unary(Unary { kind: UnaryKind::Gate { alpha, beta } }), Some(x), _) => {
                self.gate(x, *alpha, *beta);
            }
            (Op::Running(op), Some(x), _) => {
                let axis = Constant::from_i64(Shape::from([]), &[op.axis as i64]).expect("one element");
                let axis = self.graph.add_constant(format!("{}:axis", self.node.name), axis);
                self.last(self.node.op.clone(), &[Some(x), Some(axis)]);
            }
            (Op::Weigh(_), Some(x), _) => self.weigh(x),
            (_, _, Some(factors)) => {
                let count =
                    self.node.inputs[..4].iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                let sums = self.step(self.node.op.clone(), &self.node.inputs[..count], DType::I32);
                let reals = self.step(Op::Cast(Cast { to: DType::F32 }), &[Some(sums)], DType::F32);
                self.last(BinaryKind::Mul, &[Some(reals), Some(factors)]);
            }
            _ => self.graph.nodes.push(self.node.clone()),
        }
    }

    /// x·sigmoid(x·(α + β·x²)).
    fn gate(&mut self, x: ValueId, alpha: f32, beta: f32) {
        let dtype = self.graph.value(x).dtype.unwrap_or(DType::F32);
        let mut factor = self.number(alpha, dtype, "alpha");
        if beta != 0.0 {
            let beta = self.number(beta, dtype, "beta");
            let square = self.step(BinaryKind::Mul, &[Some(x), Some(x)], dtype);
            let scaled = self.step(BinaryKind::Mul, &[Some(square), Some(beta)], dtype);
            factor = self.step(BinaryKind::Add, &[Some(scaled), Some(factor)], dtype);
        }
        let inner = self.step(BinaryKind::Mul, &[Some(x), Some(factor)], dtype);
        let gate = self.step(UnaryKind::Sigmoid, &[Some(inner)], dtype);
        self.last(BinaryKind::Mul, &[Some(x), Some(gate)]);
    }

    /// Σ f·x at k, tap by tap; where k is negative nothing is added.
    fn weigh(&mut self, x: ValueId) {
        let [indices, factors] = [1, 2].map(|index| self.node.inputs.get(index).copied().flatten());
        let result = self.node.outputs.first().copied().flatten();
        let shape = |id: Option<ValueId>| id.and_then(|id| self.graph.value(id).fixed_shape());
        let (Some(dims), Some(own), Some(indices)) = (shape(result), shape(indices), indices) else {
            // Without extents there is no operator for it.
            return self.graph.nodes.push(self.node.clone());
        };
        let ints = |steps: &mut Self, values: &[i64], what: &str| {
            let constant = Constant::from_i64(Shape::from([values.len()]), values).expect("as many elements");
            steps.graph.add_constant(format!("{}:{what}", steps.node.name), constant)
        };
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let (whole, axis) = (ints(self, &dims, "extents"), ints(self, &[1], "axis"));
        let zero = Constant::new(DType::I32, Shape::from([]), vec![0; 4]).expect("one element");
        let zero = self.graph.add_constant(format!("{}:zero", self.node.name), zero);
        let nothing = self.number(0.0, DType::F32, "nothing");
        let mut total = None;
        for tap in 0..own[1] as i64 {
            let (from, to) = (ints(self, &[tap], "from"), ints(self, &[tap + 1], "to"));
            let part = |steps: &mut Self, of: ValueId, dtype| {
                let inputs = [of, from, to, axis].map(Some);
                steps.part(Op::Slice(Slice), &inputs, dtype)
            };
            let places = part(self, indices, DType::I32);
            let places = self.step(Op::Expand(Expand), &[Some(places), Some(whole)], DType::I32);
            let inside = self.step(BinaryKind::GreaterOrEqual, &[Some(places), Some(zero)], DType::Bool);
            let known = self.step(BinaryKind::Max, &[Some(places), Some(zero)], DType::I32);
            let picked = self.step(
                Op::GatherElements(GatherElements { axis: 2 }),
                &[Some(x), Some(known)],
                DType::F32,
            );
            let mut sum =
                self.step(Op::Where(Where), &[Some(inside), Some(picked), Some(nothing)], DType::F32);
            if let Some(factors) = factors {
                let factor = part(self, factors, DType::F32);
                sum = self.step(BinaryKind::Mul, &[Some(sum), Some(factor)], DType::F32);
            }
            total = Some(match total {
                Some(total) => self.step(BinaryKind::Add, &[Some(total), Some(sum)], DType::F32),
                None => sum,
            });
        }
        self.last(Op::Identity(Identity), &[total.or(Some(nothing))]);
    }

    fn number(&mut self, value: f32, dtype: DType, what: &str) -> ValueId {
        let bytes = real_bytes(value.into(), dtype).to_vec();
        let constant = Constant::new(dtype, Shape::from([]), bytes).expect("one element");
        self.graph.add_constant(format!("{}:{what}", self.node.name), constant)
    }

    /// An operator between, whose result has the extents of the node's.
    fn step(&mut self, op: impl Into<Op>, inputs: &[Option<ValueId>], dtype: DType) -> ValueId {
        let result = self.node.outputs.first().copied().flatten();
        let shape = result.and_then(|id| self.graph.value(id).shape.clone());
        self.add(op.into(), inputs, dtype, shape)
    }

    /// One whose result has others, which readers find.
    fn part(&mut self, op: impl Into<Op>, inputs: &[Option<ValueId>], dtype: DType) -> ValueId {
        self.add(op.into(), inputs, dtype, None)
    }

    fn add(&mut self, op: Op, inputs: &[Option<ValueId>], dtype: DType, shape: Option<Vec<Dim>>) -> ValueId {
        let name = format!("{}:{}", self.node.name, self.graph.nodes.len());
        let value = Value { dtype: Some(dtype), shape, ..Value::named(name.clone()) };
        let id = self.graph.add_value(value);
        self.graph.nodes.push(Node::new(name, op, inputs.to_vec(), vec![Some(id)]));
        id
    }

    /// The operator that makes the node's result.
    fn last(&mut self, op: impl Into<Op>, inputs: &[Option<ValueId>]) {
        let (name, outputs) = (self.node.name.clone(), self.node.outputs.clone());
        self.graph.nodes.push(Node::new(name, op.into(), inputs.to_vec(), outputs));
    }
}
