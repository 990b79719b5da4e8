//! Where a function's body is built: its operands, and operators that are added one by one.

use std::sync::Arc;

use triune_tensor::{DType, Shape, memory, text::List};

use crate::{
    Constant, Error, Node, Op, ValueId, ValueIds,
    constant::{integer_bytes, real_bytes},
    graph::Origin,
    infer::Inference,
    ops::{
        BinaryKind, Body, Cast, Concat, Expand, Gather, MatMul, Reduce, ReduceKind, Reshape, Slice,
        Transpose, UnaryKind, Where,
        infer::{TensorType, resolve_axis},
    },
};

/// A function's body while it is built.
///
/// Every operator is added with its operands and gives its result. Types are exact: nothing is cast unless asked for.
pub(crate) struct Scope<'s, 'g> {
    inference: &'s mut Inference<'g>,
    node: &'s Node,
    origin: Arc<Origin>,
    depth: usize,
    nodes: Vec<Node>,
}

impl<'s, 'g> Scope<'s, 'g> {
    /// Most elements of what a body lays out as a constant.
    pub(crate) const MOST: usize = 1 << 24;

    pub(crate) fn new(
        inference: &'s mut Inference<'g>,
        node: &'s Node,
        origin: Arc<Origin>,
        depth: usize,
    ) -> Self {
        Self { inference, node, origin, depth, nodes: Vec::new() }
    }

    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    // ---- what the function is called with ----

    /// The error that the function cannot be, because of `reason`.
    pub(crate) fn unsupported(&self, reason: impl Into<String>) -> Error {
        let Origin { node, op } = &*self.origin;
        Error::Unsupported { node: node.clone(), op: op.clone(), reason: reason.into() }
    }

    /// The error that the operands do not fit.
    pub(crate) fn wrong(&self, reason: impl Into<String>) -> Error {
        let Origin { node, op } = &*self.origin;
        Error::Shape { node: node.clone(), op: op.clone(), reason: reason.into() }
    }

    /// All operands.
    pub(crate) fn inputs(&self) -> &'s [Option<ValueId>] {
        &self.node.inputs
    }

    /// Operand `index`, when it is there.
    pub(crate) fn get(&self, index: usize) -> Option<ValueId> {
        self.node.inputs.get(index).copied().flatten()
    }

    /// Operand `index`.
    pub(crate) fn input(&self, index: usize) -> Result<ValueId, Error> {
        self.get(index).ok_or_else(|| self.wrong(format!("input {index} is missing")))
    }

    // ---- what is known of values ----

    fn tensor_type(&self, id: ValueId) -> TensorType {
        // Whoever has the id got it from a step that found its type.
        let none = TensorType { dtype: DType::F32, shape: Shape::from([]) };
        debug_assert!(self.inference.tensor_type(id).is_some());
        self.inference.tensor_type(id).unwrap_or(none)
    }

    pub(crate) fn dtype(&self, id: ValueId) -> DType {
        self.tensor_type(id).dtype
    }

    pub(crate) fn shape(&self, id: ValueId) -> Shape {
        self.tensor_type(id).shape
    }

    /// Whether a value stands for integers that it was made from.
    pub(crate) fn is_dequantized(&self, id: ValueId) -> bool {
        self.inference.is_dequantized(id)
    }

    pub(crate) fn rank(&self, id: ValueId) -> usize {
        self.shape(id).rank()
    }

    /// An axis of a value, counted from the front.
    pub(crate) fn axis(&self, id: ValueId, axis: i64) -> Result<usize, Error> {
        let rank = self.rank(id);
        resolve_axis(axis, rank)
            .ok_or_else(|| self.wrong(format!("axis {axis} is not one of {rank} dimensions")))
    }

    /// Axes of a value, counted from the front, each once.
    pub(crate) fn axes(&self, id: ValueId, axes: &[i64]) -> Result<Vec<usize>, Error> {
        let mut found = Vec::with_capacity(axes.len());
        for &axis in axes {
            let axis = self.axis(id, axis)?;
            if found.contains(&axis) {
                return Err(self.wrong(format!("axes {} name one twice", List(axes))));
            }
            found.push(axis);
        }
        Ok(found)
    }

    /// The elements of a value, where they are known.
    pub(crate) fn constant_of(&self, id: ValueId) -> Option<&Constant> {
        self.inference.constant(id)
    }

    /// The integers of operand `index`, when it is there; they have to be known.
    pub(crate) fn ints(&self, index: usize) -> Result<Option<Vec<i64>>, Error> {
        let Some(id) = self.get(index) else { return Ok(None) };
        let constant = self.constant_of(id).ok_or_else(|| {
            self.wrong(format!("input {index} decides about shapes, but depends on the network's data"))
        })?;
        let ints = constant.to_i64();
        ints.map(Some).ok_or_else(|| {
            self.wrong(format!("input {index} has type {}, not an integer's", constant.dtype()))
        })
    }

    /// The only integer of operand `index`.
    pub(crate) fn int(&self, index: usize) -> Result<i64, Error> {
        match self.ints(index)?.as_deref() {
            Some(&[value]) => Ok(value),
            _ => Err(self.wrong(format!("input {index} is not one integer"))),
        }
    }

    // ---- constants ----

    pub(crate) fn constant(&mut self, constant: Constant) -> ValueId {
        let stem = format!("{}.constant", self.node.name);
        self.inference.add_constant(&stem, constant)
    }

    /// One number of a type: rounded to it once, cut off for integers.
    pub(crate) fn scalar(&mut self, value: f64, dtype: DType) -> ValueId {
        let bytes = real_bytes(value, dtype);
        self.constant(Constant::new(dtype, Shape::from([]), bytes.into_vec()).expect("one element"))
    }

    /// One integer of a type of integers, its low bits if it does not fit.
    pub(crate) fn integer(&mut self, value: i64, dtype: DType) -> ValueId {
        let bytes = integer_bytes(value, dtype);
        self.constant(Constant::new(dtype, Shape::from([]), bytes.into_vec()).expect("one element"))
    }

    /// A number of a value's own type.
    pub(crate) fn scalar_like(&mut self, value: f64, like: ValueId) -> ValueId {
        self.scalar(value, self.dtype(like))
    }

    /// A list of integers.
    pub(crate) fn list(&mut self, values: &[i64]) -> ValueId {
        let shape = Shape::from([values.len()]);
        self.constant(Constant::from_i64(shape, values).expect("as many elements as the shape says"))
    }

    /// A list of strings, by their numbers.
    pub(crate) fn words(&mut self, numbers: &[i64]) -> ValueId {
        let id = self.list(numbers);
        self.inference.makes_strings(id);
        id
    }

    /// A list of reals, each rounded to the type once; f32 where the type is one of integers.
    pub(crate) fn floats(&mut self, values: &[f64], dtype: DType) -> ValueId {
        self.numbers(values, if dtype.is_float() { dtype } else { DType::F32 })
    }

    /// A list of numbers, each rounded to the type once, cut off for integers.
    pub(crate) fn numbers(&mut self, values: &[f64], dtype: DType) -> ValueId {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| real_bytes(value, dtype)).collect();
        self.constant(Constant::new(dtype, Shape::from([values.len()]), bytes).expect("as many elements"))
    }

    /// A number of elements that constants may have, which a file that asks for more costs nothing to write, and that there is
    /// memory for.
    pub(crate) fn bounded(&self, count: Option<usize>) -> Result<usize, Error> {
        /// Bytes that an element takes while a constant is made of f64, one after the other.
        const EACH: u64 = 32;
        match count {
            Some(count) if count <= Self::MOST => {
                if !self.inference.lay_out(count) {
                    return Err(self.unsupported(format!(
                        "with its constants, those that operators of the network lay out have more than {} elements",
                        4 * Self::MOST
                    )));
                }
                memory::check_room(EACH * count as u64)?;
                Ok(count)
            }
            _ => Err(self.unsupported(format!("a list of more than {} numbers", Self::MOST))),
        }
    }

    /// A product of extents, which those of a tensor without elements may not have.
    pub(crate) fn product(&self, extents: &[usize]) -> Result<usize, Error> {
        let product = extents.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
        product
            .filter(|&product| i64::try_from(product).is_ok())
            .ok_or_else(|| self.unsupported(format!("{} elements", List(extents))))
    }

    /// 0, 1, … along an axis that `behind` others follow.
    pub(crate) fn places(&mut self, count: usize, behind: usize) -> Result<ValueId, Error> {
        let count = self.bounded(Some(count))?;
        let places: Vec<i64> = (0..count as i64).collect();
        let list = self.list(&places);
        let mut dims = vec![1; behind + 1];
        dims[0] = count;
        self.reshape(list, &dims)
    }

    fn extents(&mut self, dims: &[usize]) -> ValueId {
        let values: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        self.list(&values)
    }

    // ---- operators ----

    /// Any operator with one result.
    pub(crate) fn op(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId, Error> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        Ok(self.ops(op, &inputs, 1)?[0])
    }

    /// Any operator, with operands that may be left out and several results.
    pub(crate) fn ops(
        &mut self,
        op: impl Into<Op>,
        inputs: &[Option<ValueId>],
        results: usize,
    ) -> Result<Vec<ValueId>, Error> {
        let op = op.into();
        let name = format!("{}.{}.{}", self.node.name, self.nodes.len(), op.name());
        let results: Vec<ValueId> = (0..results).map(|_| self.inference.add_value(&name)).collect();
        let outputs: ValueIds = results.iter().copied().map(Some).collect();
        let node = Node { origin: Some(Arc::clone(&self.origin)), ..Node::new(name, op, inputs, outputs) };
        self.inference.place_inner(node, &mut self.nodes, self.depth)?;
        Ok(results)
    }

    /// The results of a network within the operator; what it sees of the one around it comes behind its own inputs.
    pub(crate) fn network(
        &mut self,
        body: &Body,
        operands: &[Option<ValueId>],
    ) -> Result<Vec<ValueId>, Error> {
        let name = format!("{}.{}", self.node.name, self.nodes.len());
        let results: Vec<ValueId> =
            body.graph.outputs.iter().map(|_| self.inference.add_value(&name)).collect();
        let outputs: Vec<Option<ValueId>> = results.iter().copied().map(Some).collect();
        let origin = Arc::clone(&self.origin);
        let refuse = |reason| Error::Unsupported { node: origin.node.clone(), op: origin.op.clone(), reason };
        for node in self.inference.adopt(&body.graph, operands, &outputs, &name, refuse)? {
            let node = Node { name: format!("{name}/{}", node.name), ..node };
            self.inference.place_inner(node, &mut self.nodes, self.depth)?;
        }
        Ok(results)
    }

    pub(crate) fn unary(&mut self, kind: UnaryKind, x: ValueId) -> Result<ValueId, Error> {
        self.op(kind, &[x])
    }

    pub(crate) fn binary(&mut self, kind: BinaryKind, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.op(kind, &[a, b])
    }

    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.binary(BinaryKind::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.binary(BinaryKind::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.binary(BinaryKind::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.binary(BinaryKind::Div, a, b)
    }

    /// a + a number.
    pub(crate) fn add_number(&mut self, a: ValueId, number: f64) -> Result<ValueId, Error> {
        let number = self.scalar_like(number, a);
        self.add(a, number)
    }

    /// a · a number.
    pub(crate) fn mul_number(&mut self, a: ValueId, number: f64) -> Result<ValueId, Error> {
        let number = self.scalar_like(number, a);
        self.mul(a, number)
    }

    /// a compared with a number.
    pub(crate) fn compare(&mut self, kind: BinaryKind, a: ValueId, number: f64) -> Result<ValueId, Error> {
        let number = self.scalar_like(number, a);
        self.binary(kind, a, number)
    }

    pub(crate) fn choose(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.op(Op::Where(Where), &[condition, a, b])
    }

    /// Another element type; the value itself if it has it already.
    pub(crate) fn cast(&mut self, x: ValueId, to: DType) -> Result<ValueId, Error> {
        if self.dtype(x) == to { Ok(x) } else { self.op(Op::Cast(Cast { to }), &[x]) }
    }

    /// Other extents for as many elements.
    pub(crate) fn reshape(&mut self, x: ValueId, dims: &[usize]) -> Result<ValueId, Error> {
        if *self.shape(x) == *dims {
            return Ok(x);
        }
        let dims = self.extents(dims);
        self.op(Op::Reshape(Reshape { allow_zero: true }), &[x, dims])
    }

    pub(crate) fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Result<ValueId, Error> {
        self.op(Op::Transpose(Transpose { perm: perm.to_vec() }), &[x])
    }

    pub(crate) fn expand(&mut self, x: ValueId, dims: &[usize]) -> Result<ValueId, Error> {
        if *self.shape(x) == *dims {
            return Ok(x);
        }
        let dims = self.extents(dims);
        self.op(Op::Expand(Expand), &[x, dims])
    }

    pub(crate) fn concat(&mut self, parts: &[ValueId], axis: usize) -> Result<ValueId, Error> {
        if let &[part] = parts {
            Ok(part)
        } else {
            self.op(Op::Concat(Concat { axis: axis as isize }), parts)
        }
    }

    /// Elements `from` to `to` (not included) along an axis.
    pub(crate) fn slice(&mut self, x: ValueId, axis: usize, from: i64, to: i64) -> Result<ValueId, Error> {
        self.slice_by(x, axis, from, to, 1)
    }

    /// Every `step`-th element from `from` to `to` (not included) along an axis.
    pub(crate) fn slice_by(
        &mut self,
        x: ValueId,
        axis: usize,
        from: i64,
        to: i64,
        step: i64,
    ) -> Result<ValueId, Error> {
        let operands = [[from], [to], [axis as i64], [step]].map(|values| self.list(&values));
        self.op(Op::Slice(Slice), &[x, operands[0], operands[1], operands[2], operands[3]])
    }

    pub(crate) fn gather(&mut self, x: ValueId, axis: usize, indices: ValueId) -> Result<ValueId, Error> {
        self.op(Op::Gather(Gather { axis: axis as isize }), &[x, indices])
    }

    /// A reduction over axes that stay with extent 1.
    pub(crate) fn reduce(&mut self, kind: ReduceKind, x: ValueId, axes: &[usize]) -> Result<ValueId, Error> {
        let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
        self.op(Op::Reduce(Reduce::along(kind, &axes)), &[x])
    }

    /// A matrix product as numpy has it. What kernels multiply goes to them, other types are products that are added up.
    pub(crate) fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        if self.dtype(a).is_float()
            || matches!(self.dtype(a), DType::I32 | DType::U32 | DType::I64 | DType::U64)
        {
            return self.op(Op::MatMul(MatMul::default()), &[a, b]);
        }
        let (left, right) = (self.shape(a), self.shape(b));
        if left.rank() == 0 || right.rank() == 0 {
            return Err(self.wrong("scalars have no matrix product"));
        }
        // A vector is a row on the left and a column on the right; the made-up extent goes again.
        let rows = if left.rank() == 1 { [&[1], &*left].concat() } else { left.to_vec() };
        let columns = if right.rank() == 1 { [&*right, &[1]].concat() } else { right.to_vec() };
        let a = self.reshape(a, &[rows.as_slice(), &[1]].concat())?;
        let (batch, matrix) = columns.split_at(columns.len() - 2);
        if rows[rows.len() - 1] != matrix[0] {
            return Err(self.wrong(format!("{left} · {right}: inner extents")));
        }
        let b = self.reshape(b, &[batch, &[1], matrix].concat())?;
        let products = self.mul(a, b)?;
        let last = self.rank(products);
        let sums = self.reduce(ReduceKind::Sum, products, &[last - 2])?;
        let mut dims = self.shape(sums).to_vec();
        dims.remove(last - 2);
        if right.rank() == 1 {
            dims.pop();
        }
        if left.rank() == 1 {
            dims.remove(last - 3);
        }
        self.reshape(sums, &dims)
    }
}
