//! What ONNX has no operator for, in terms of what it has, before a graph is written.

use std::{borrow::Cow, collections::HashSet};

use triune_tensor::{DType, Shape, function::CellKind};

use crate::{
    Constant, Dim, Graph, Node, Op, Value, ValueId,
    constant::real_bytes,
    ops::{
        Binary, BinaryKind, BlockMatMul, Cast, Concat, Epilogue, Expand, Gather, GatherElements, Gemm,
        Identity, MatMul, Recurrence, Reshape, Rotate, Slice, Unary, UnaryKind, Unsqueeze, Where,
    },
};

/// The graph without gates and other functions that ONNX lacks, weighted sums, turned rows, products with factors or with blocks, with the axes of
/// running sums as operands, and with recurrences that have the operands and results of ONNX's operators.
pub(super) fn out(graph: &Graph) -> Cow<'_, Graph> {
    if !graph.nodes.iter().any(is_spelled_out) {
        return Cow::Borrowed(graph);
    }
    let mut graph = graph.clone();
    let mut recurs = false;
    for node in std::mem::take(&mut graph.nodes) {
        recurs |= matches!(node.op, Op::Recurrence(_));
        if is_spelled_out(&node) {
            Steps { graph: &mut graph, node: &node }.spell();
        } else {
            graph.nodes.push(node);
        }
    }
    if recurs {
        drop_unused(&mut graph);
    }
    Cow::Owned(graph)
}

/// Takes out nodes whose results nobody takes, such as products that recurrent operators make themselves.
fn drop_unused(graph: &mut Graph) {
    let mut used: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut nodes = std::mem::take(&mut graph.nodes);
    nodes.reverse();
    nodes.retain(|node| {
        let is_used = node.outputs.iter().flatten().any(|id| used.contains(id));
        if is_used {
            used.extend(node.inputs.iter().flatten());
        }
        is_used
    });
    nodes.reverse();
    graph.nodes = nodes;
}

fn is_spelled_out(node: &Node) -> bool {
    let known = node.inputs.first().copied().flatten().is_some();
    known
        && match &node.op {
            Op::Unary(Unary { kind }) => matches!(
                kind,
                UnaryKind::Gate { .. }
                    | UnaryKind::Silu
                    | UnaryKind::Square
                    | UnaryKind::Rsqrt
                    | UnaryKind::LogSigmoid
            ),
            Op::Binary(Binary { kind, epilogue }) => {
                *kind == BinaryKind::NotEqual && epilogue.post_ops.is_empty()
            }
            Op::Running(_) | Op::Weigh(_) | Op::Rotate(_) | Op::Recurrence(_) => true,
            Op::BlockMatMul(op) => !op.integers,
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
            (Op::Unary(Unary { kind }), Some(x), _) => self.unary(*kind, x),
            (Op::Binary(_), Some(_), _) => {
                let same = self.step(BinaryKind::Equal, &self.node.inputs, DType::Bool);
                let yes = Constant::new(DType::Bool, Shape::from([]), vec![1]).expect("one element");
                let yes = self.graph.add_constant(format!("{}:yes", self.node.name), yes);
                self.last(BinaryKind::Xor, &[Some(same), Some(yes)]);
            }
            (Op::Running(op), Some(x), _) => {
                let axis = Constant::from_i64(Shape::from([]), &[op.axis as i64]).expect("one element");
                let axis = self.graph.add_constant(format!("{}:axis", self.node.name), axis);
                self.last(self.node.op.clone(), &[Some(x), Some(axis)]);
            }
            (Op::Weigh(_), Some(x), _) => self.weigh(x),
            (Op::Rotate(op), Some(x), _) => {
                if self.rotate(x, *op).is_none() {
                    // Without extents there is no operator for it.
                    self.graph.nodes.push(self.node.clone());
                }
            }
            (Op::BlockMatMul(op), Some(x), _) => {
                if self.reals_of_blocks(x, *op).is_none() {
                    // Without its blocks there is no operator for it.
                    self.graph.nodes.push(self.node.clone());
                }
            }
            (Op::Recurrence(op), Some(x), _) => {
                if self.recurrence(x, op).is_none() {
                    // Without extents there is no operator for it.
                    self.graph.nodes.push(self.node.clone());
                }
            }
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

    /// Functions of one value that are two or three of ONNX's.
    fn unary(&mut self, kind: UnaryKind, x: ValueId) {
        let dtype = self.graph.value(x).dtype.unwrap_or(DType::F32);
        match kind {
            UnaryKind::Silu => {
                let gate = self.step(UnaryKind::Sigmoid, &[Some(x)], dtype);
                self.last(BinaryKind::Mul, &[Some(x), Some(gate)]);
            }
            UnaryKind::Square => self.last(BinaryKind::Mul, &[Some(x), Some(x)]),
            UnaryKind::Rsqrt => {
                let root = self.step(UnaryKind::Sqrt, &[Some(x)], dtype);
                self.last(UnaryKind::Reciprocal, &[Some(root)]);
            }
            UnaryKind::LogSigmoid => {
                let minus = self.step(UnaryKind::Neg, &[Some(x)], dtype);
                let soft = self.step(UnaryKind::Softplus, &[Some(minus)], dtype);
                self.last(UnaryKind::Neg, &[Some(soft)]);
            }
            // Nothing else is spelled out.
            _ => self.graph.nodes.push(self.node.clone()),
        }
    }

    /// Σ f·x at k, tap by tap; where k is negative nothing is added. Readers put it together again (`weighed.rs`).
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
            let from = ints(self, &[tap], &format!("from {tap}"));
            let to = ints(self, &[tap + 1], &format!("to {tap}"));
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

    /// A product with what the integers of blocks stand for.
    fn reals_of_blocks(&mut self, x: ValueId, op: BlockMatMul) -> Option<()> {
        let blocks = self.node.inputs.get(1).copied().flatten()?;
        let blocks = self.graph.value(blocks).constant.clone()?;
        let columns = blocks.shape()[0];
        let digits = op.block * op.bits / 8;
        let mut reals = vec![0.0_f32; op.depth * columns];
        for (column, own) in blocks.bytes().chunks_exact(op.column_bytes().max(1)).enumerate() {
            for (index, block) in own.chunks_exact(digits + 8).enumerate() {
                let (parameters, _) = block[digits..].as_chunks();
                let [factor, zero] = [0, 1].map(|place| f32::from_le_bytes(parameters[place]));
                for (at, row) in (index * op.block..op.depth).take(op.block).enumerate() {
                    let digit = match op.bits {
                        4 => block[at / 2] >> (at % 2 * 4) & 15,
                        _ => block[at],
                    };
                    reals[row * columns + column] = (f32::from(digit) - zero) * factor;
                }
            }
        }
        let reals = Constant::from_f32(Shape::from([op.depth, columns]), &reals)?;
        let reals = self.graph.add_constant(format!("{}:reals", self.node.name), reals);
        self.last(Op::MatMul(MatMul::default()), &[Some(x), Some(reals)]);
        Some(())
    }

    /// x·(cos, cos) + (b, a)·(−sin, sin), and what stands behind the pairs.
    fn rotate(&mut self, x: ValueId, op: Rotate) -> Option<()> {
        let [cosines, sines] = [1, 2].map(|index| self.node.inputs.get(index).copied().flatten());
        let (dtype, len) = (self.graph.value(x).dtype?, self.graph.value(x).fixed_shape()?[3]);
        let pairs = self.graph.value(cosines?).fixed_shape()?[3];
        // Of each element its pair's angle, the other of the pair, and whether it is the first.
        let places: Vec<(usize, usize, bool)> = (0..2 * pairs)
            .map(|at| {
                if op.interleaved {
                    (at / 2, at ^ 1, at % 2 == 0)
                } else {
                    (at % pairs, (at + pairs) % (2 * pairs), at < pairs)
                }
            })
            .collect();
        let picked = |steps: &mut Self, of: Option<ValueId>, places: Vec<usize>, what: &str| {
            let places: Vec<i64> = places.into_iter().map(|at| at as i64).collect();
            let places = Constant::from_i64(Shape::from([places.len()]), &places)?;
            let places = steps.graph.add_constant(format!("{}:{what}", steps.node.name), places);
            Some(steps.part(Op::Gather(Gather { axis: 3 }), &[of, Some(places)], dtype))
        };
        let angles: Vec<usize> = places.iter().map(|place| place.0).collect();
        let own = picked(self, Some(x), (0..2 * pairs).collect(), "own")?;
        let other = picked(self, Some(x), places.iter().map(|place| place.1).collect(), "other")?;
        let cosines = picked(self, cosines, angles.clone(), "cosines")?;
        let sines = picked(self, sines, angles, "sines")?;
        let signs =
            places.iter().flat_map(|place| real_bytes(if place.2 { -1.0 } else { 1.0 }, dtype).to_vec());
        let signs = Constant::new(dtype, Shape::from([2 * pairs]), signs.collect::<Vec<u8>>())?;
        let signs = self.graph.add_constant(format!("{}:signs", self.node.name), signs);
        let sines = self.part(BinaryKind::Mul, &[Some(sines), Some(signs)], dtype);
        let own = self.part(BinaryKind::Mul, &[Some(own), Some(cosines)], dtype);
        let other = self.part(BinaryKind::Mul, &[Some(other), Some(sines)], dtype);
        let turned = [Some(own), Some(other)];
        if 2 * pairs == len {
            self.last(BinaryKind::Add, &turned);
            return Some(());
        }
        let turned = self.part(BinaryKind::Add, &turned, dtype);
        let rest = picked(self, Some(x), (2 * pairs..len).collect(), "rest")?;
        self.last(Op::Concat(Concat { axis: 3 }), &[Some(turned), Some(rest)]);
        Some(())
    }

    /// ONNX's recurrent operator, which multiplies inputs and weights itself: those of the product in front where that is of known
    /// weights, else the product with ones that pick each direction's gates.
    fn recurrence(&mut self, x: ValueId, op: &Recurrence) -> Option<()> {
        let operand = |index: usize| self.node.inputs.get(index).copied().flatten();
        let (recurrent, vectors, initial, lengths) = (operand(1)?, operand(2), operand(3), operand(4));
        let (products, shape) =
            (self.graph.value(x).fixed_shape()?, self.graph.value(recurrent).fixed_shape()?);
        let (&[steps, batch, width], &[directions, rows, hidden]) = (&*products, &*shape) else {
            return None;
        };
        let dtype = self.graph.value(x).dtype?;
        let (x, weights, own) = match self.product(x, [steps, batch], [directions, rows]) {
            Some(found) => found,
            None => (x, self.picking(directions, rows, width, dtype)?, None),
        };
        let own = match own {
            Some(own) => own,
            None => self.zeros(&[directions, rows], dtype, "no bias")?,
        };
        let other = match vectors {
            // That of the last gate, which the reset gate takes to, too.
            Some(vectors) if op.cell == CellKind::LinearGru => {
                let zeros = self.zeros(&[directions, rows - hidden], dtype, "no recurrent bias")?;
                self.part(Op::Concat(Concat { axis: 1 }), &[Some(zeros), Some(vectors)], dtype)
            }
            _ => self.zeros(&[directions, rows], dtype, "no recurrent bias")?,
        };
        let both = self.part(Op::Concat(Concat { axis: 1 }), &[Some(own), Some(other)], dtype);
        let mut states = [None; 2];
        if let Some(initial) = initial {
            for (number, state) in states.iter_mut().enumerate().take(op.cell.states()) {
                let index = Constant::from_i64(Shape::from([]), &[number as i64])?;
                let index = self.graph.add_constant(format!("{}:state {number}", self.node.name), index);
                *state =
                    Some(self.part(Op::Gather(Gather { axis: 0 }), &[Some(initial), Some(index)], dtype));
            }
        }
        let mut inputs = vec![Some(x), Some(weights), Some(recurrent), Some(both), lengths, states[0]];
        if op.cell == CellKind::Lstm {
            inputs.extend([states[1], vectors]);
        }
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let dims = |dims: &[usize]| Some(dims.iter().map(|&extent| Dim::Fixed(extent)).collect::<Vec<_>>());
        let mut results = vec![self.value(dtype, dims(&[steps, directions, batch, hidden]))];
        for _ in 0..op.cell.states() {
            results.push(self.value(dtype, dims(&[directions, batch, hidden])));
        }
        let outputs: Vec<_> = results.iter().copied().map(Some).collect();
        let name = format!("{}:steps", self.node.name);
        self.graph.nodes.push(Node::new(name, self.node.op.clone(), inputs, outputs));
        let axis = Constant::from_i64(Shape::from([1]), &[0])?;
        let axis = self.graph.add_constant(format!("{}:axis", self.node.name), axis);
        for state in &mut results[1..] {
            *state = self.part(Op::Unsqueeze(Unsqueeze), &[Some(*state), Some(axis)], dtype);
        }
        let all: Vec<_> = results.into_iter().map(Some).collect();
        self.last(Op::Concat(Concat { axis: 0 }), &all);
        Some(())
    }

    /// The inputs of all steps, weights of each direction and biases, of which `x` is the product.
    fn product(
        &mut self,
        x: ValueId,
        [steps, batch]: [usize; 2],
        [directions, rows]: [usize; 2],
    ) -> Option<(ValueId, ValueId, Option<ValueId>)> {
        let maker = |id: ValueId| self.graph.nodes.iter().rfind(|node| node.outputs.contains(&Some(id)));
        let operand = |node: &Node, index: usize| node.inputs.get(index).copied().flatten();
        let plain =
            Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true, epilogue: Epilogue::default() };
        let spread = maker(x).filter(|node| matches!(node.op, Op::Reshape(_)))?;
        let product = maker(operand(spread, 0)?)?;
        if product.op != Op::Gemm(plain) || product.quant.is_some() {
            return None;
        }
        let joined = operand(product, 0)?;
        let &[all, width] = &*self.graph.value(joined).fixed_shape()? else { return None };
        if all != steps * batch {
            return None;
        }
        let constant = |index: usize, dims: &[usize]| {
            let own = self.graph.value(operand(product, index)?).constant.as_ref()?;
            own.reshaped(Shape::new(dims)?)
        };
        let weights = constant(1, &[directions, rows, width])?;
        let bias = match operand(product, 2) {
            Some(_) => Some(constant(2, &[directions, rows])?),
            None => None,
        };
        let weights = self.graph.add_constant(format!("{}:weights", self.node.name), weights);
        let bias = bias.map(|bias| self.graph.add_constant(format!("{}:bias", self.node.name), bias));
        let dtype = self.graph.value(joined).dtype?;
        let extents = [steps, batch, width].map(|extent| extent as i64);
        let extents = Constant::from_i64(Shape::from([3]), &extents)?;
        let extents = self.graph.add_constant(format!("{}:extents", self.node.name), extents);
        let apart = Op::Reshape(Reshape { allow_zero: false });
        Some((self.part(apart, &[Some(joined), Some(extents)], dtype), weights, bias))
    }

    /// Weights (directions, rows, directions · rows) whose products are the inputs of each direction's gates.
    fn picking(&mut self, directions: usize, rows: usize, width: usize, dtype: DType) -> Option<ValueId> {
        let (one, size) = (real_bytes(1.0, dtype), dtype.bytes());
        let mut bytes = vec![0; (directions * rows).checked_mul(width)?.checked_mul(size)?];
        for row in 0..directions * rows {
            bytes[(row * width + row) * size..][..size].copy_from_slice(&one);
        }
        let constant = Constant::new(dtype, Shape::new(&[directions, rows, width])?, bytes)?;
        Some(self.graph.add_constant(format!("{}:gates", self.node.name), constant))
    }

    fn zeros(&mut self, dims: &[usize], dtype: DType, what: &str) -> Option<ValueId> {
        let bytes = vec![0; dims.iter().product::<usize>() * dtype.bytes()];
        let constant = Constant::new(dtype, Shape::new(dims)?, bytes)?;
        Some(self.graph.add_constant(format!("{}:{what}", self.node.name), constant))
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

    fn value(&mut self, dtype: DType, shape: Option<Vec<Dim>>) -> ValueId {
        let name = format!("{}:{}", self.node.name, self.graph.values.len());
        self.graph.add_value(Value { dtype: Some(dtype), shape, ..Value::named(name) })
    }

    fn add(&mut self, op: Op, inputs: &[Option<ValueId>], dtype: DType, shape: Option<Vec<Dim>>) -> ValueId {
        let name = format!("{}:{}", self.node.name, self.graph.nodes.len());
        let id = self.value(dtype, shape);
        self.graph.nodes.push(Node::new(name, op, inputs.to_vec(), vec![Some(id)]));
        id
    }

    /// The operator that makes the node's result.
    fn last(&mut self, op: impl Into<Op>, inputs: &[Option<ValueId>]) {
        let (name, outputs) = (self.node.name.clone(), self.node.outputs.clone());
        self.graph.nodes.push(Node::new(name, op.into(), inputs.to_vec(), outputs));
    }
}
