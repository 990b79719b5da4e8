//! What an operator's reader sees: parameters and operands, and nodes to make of them.

use triune_tensor::{DType, QuantParams, Shape};

use super::{damaged, element::Element, file::Operator, read::Builder, registry};
use crate::{
    Constant, Error, Node, Op, Quantization, Value, ValueId, ValueIds,
    format::flatbuffer::{Table, Wrong},
    functions::{Function, Scope},
    ops::{BinaryKind, Cast, Identity, Reshape, Transpose, UnaryKind},
};

/// One operator of a file while nodes are made of it.
///
/// A reader makes values by emitting nodes; the one it returns becomes the operator's variable.
pub(super) struct NodeReader<'b, 'f, 'a> {
    pub(super) builder: &'b mut Builder<'f>,
    pub(super) operator: &'b Operator<'a>,
    pub(super) name: String,
    /// Names for the operator's variables.
    pub(super) names: &'b [String],
    pub(super) inputs: Vec<ValueId>,
}

impl<'a> NodeReader<'_, '_, 'a> {
    /// The error that this operator cannot run, because of `reason`.
    pub(super) fn unsupported(&self, reason: impl Into<String>) -> Error {
        Error::Unsupported { node: self.name.clone(), op: self.operator.kind.clone(), reason: reason.into() }
    }

    /// The error that the file is damaged here.
    pub(super) fn damaged(&self, reason: &Wrong) -> Error {
        damaged(format!("node '{}' ({}): {reason}", self.name, self.operator.kind))
    }

    /// The parameters, which have to be of the kind with this number in the schema's union.
    pub(super) fn params(&self, kind: u8) -> Result<Params<'a>, Error> {
        match self.operator.param {
            Some((found, table)) if found == kind => Ok(Params { table, place: self.place() }),
            Some((found, _)) => {
                Err(self.unsupported(format!("parameters of kind {found}; {kind} is supported")))
            }
            None => Err(self.unsupported("parameters are missing")),
        }
    }

    fn place(&self) -> String {
        format!("node '{}' ({})", self.name, self.operator.kind)
    }

    /// Operand `index`.
    pub(super) fn input(&self, index: usize) -> Result<ValueId, Error> {
        self.inputs.get(index).copied().ok_or_else(|| self.unsupported(format!("input {index} is missing")))
    }

    /// The element type of a value.
    pub(super) fn dtype(&self, id: ValueId) -> Result<DType, Error> {
        self.builder
            .graph
            .value(id)
            .dtype
            .ok_or_else(|| self.unsupported("the type of an operand depends on the network's data"))
    }

    /// What the integers of a value mean, if it is quantized.
    pub(super) fn quant(&self, id: ValueId) -> Option<QuantParams> {
        self.builder.quant(id)
    }

    /// The element type of a quantized value, for a result that means the same.
    pub(super) fn element(&self, id: ValueId) -> Result<Option<Element>, Error> {
        let dtype = self.dtype(id)?;
        Ok(self.quant(id).map(|quant| Element { dtype, quant: Some(quant) }))
    }

    /// The extents of a value under the file's default shapes.
    pub(super) fn shape(&self, id: ValueId) -> Result<Shape, Error> {
        self.builder
            .type_of(id)
            .map(|found| found.shape)
            .ok_or_else(|| self.unsupported("the extents of an operand depend on the network's data"))
    }

    /// The number of axes of a value.
    pub(super) fn rank(&self, id: ValueId) -> Result<usize, Error> {
        Ok(self.shape(id)?.rank())
    }

    /// The constant that a value is.
    pub(super) fn constant(&self, id: ValueId) -> Option<&Constant> {
        self.builder.graph.value(id).constant.as_ref()
    }

    /// The integers of a constant.
    pub(super) fn constant_ints(&self, id: ValueId) -> Option<Vec<i64>> {
        self.constant(id)?.to_i64()
    }

    /// The integers of a value under the default shapes, when they follow from those.
    pub(super) fn folded_ints(&self, id: ValueId) -> Option<Vec<i64>> {
        self.builder.folded(id)?.to_i64()
    }

    /// The element type that the file gives the result.
    pub(super) fn output_element(&self) -> Result<Option<Element>, Error> {
        let Some(table) = &self.operator.output_dtype else { return Ok(None) };
        Element::read(table).map(Some).map_err(|reason| self.unsupported(reason))
    }

    /// Makes a constant.
    pub(super) fn new_constant(&mut self, suffix: &str, constant: Constant) -> ValueId {
        let name = self.builder.unique_name(format!("{}.{suffix}", self.name));
        self.builder.add_constant(name, constant)
    }

    /// Makes a one-dimensional i64 constant.
    pub(super) fn ints(&mut self, suffix: &str, values: &[i64]) -> Result<ValueId, Error> {
        let constant = Constant::from_i64(Shape::from([values.len()]), values);
        let constant = constant.ok_or_else(|| self.unsupported("too many axes"))?;
        Ok(self.new_constant(suffix, constant))
    }

    /// Makes an f32 scalar.
    pub(super) fn scalar(&mut self, value: f32) -> ValueId {
        let constant = Constant::from_f32(Shape::from([]), &[value]).expect("one element");
        self.new_constant("constant", constant)
    }

    /// Emits a node and gives its result.
    pub(super) fn emit(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId, Error> {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.emit_as(op.into(), &inputs, None)
    }

    /// Emits a node whose result has an element type of its own.
    pub(super) fn emit_as(
        &mut self,
        op: Op,
        inputs: &[Option<ValueId>],
        element: Option<Element>,
    ) -> Result<ValueId, Error> {
        Ok(self.emit_many(op, inputs, &[element])?[0])
    }

    /// Emits a node with one result per element of `elements`.
    pub(super) fn emit_many(
        &mut self,
        op: Op,
        inputs: &[Option<ValueId>],
        elements: &[Option<Element>],
    ) -> Result<Vec<ValueId>, Error> {
        let mut outputs = Vec::with_capacity(elements.len());
        for element in elements {
            let name = self.builder.unique_name(format!("{}.{}", self.name, op.name()));
            let value = Value { dtype: element.map(|element| element.dtype), ..Value::named(name) };
            let output = self.builder.add(value, None);
            self.builder.set_quant(output, element.and_then(|element| element.quant));
            outputs.push(output);
        }
        let quant = self.quantization(&op, inputs, elements.first().copied().flatten()).map(Box::new);
        self.builder.infer(&self.name, &op, inputs, &outputs, quant.as_ref().map(|quant| quant.dtype))?;
        let name = self.builder.unique_node_name(format!("{}.{}", self.name, op.name()));
        let results: ValueIds = outputs.iter().copied().map(Some).collect();
        self.builder.graph.nodes.push(Node { quant, ..Node::new(name, op, inputs, results) });
        Ok(outputs)
    }

    /// What an operator says about its integers: what its variables' types say.
    fn quantization(
        &self,
        op: &Op,
        inputs: &[Option<ValueId>],
        element: Option<Element>,
    ) -> Option<Quantization> {
        let Some(Element { dtype, quant: Some(result) }) = element else { return None };
        let mut operands: Vec<_> = inputs.iter().map(|id| self.quant((*id)?)).collect();
        let mut weights = Vec::new();
        match op {
            Op::Conv(_) => {
                // Its other operands have the scales of what they are multiplied with and added to.
                weights.extend(operands.get(1).copied().flatten().map(|quant| quant.scale));
                operands.truncate(1);
            }
            Op::Binary(_) | Op::Table(_) => {}
            Op::Pool(_) | Op::GlobalPool(_) | Op::AdaptivePool(_) if !op.moves() => {}
            _ => return None,
        }
        Some(Quantization { operands, weights: weights.into(), dtype, result })
    }

    /// A composite operator with one result.
    pub(super) fn function(
        &mut self,
        inputs: &[ValueId],
        decides: &'static [usize],
        body: impl Fn(&mut Scope<'_, '_>) -> Result<ValueId, Error> + Send + Sync + 'static,
    ) -> Result<ValueId, Error> {
        let function = Function::new(self.stable_name(), body).deciding(decides);
        self.emit(function, inputs)
    }

    /// A composite operator with `results` results.
    pub(super) fn functions(
        &mut self,
        inputs: &[ValueId],
        results: usize,
        body: impl Fn(&mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> + Send + Sync + 'static,
    ) -> Result<Vec<ValueId>, Error> {
        let function = Function::with_results(self.stable_name(), body);
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.emit_many(function.into(), &inputs, &vec![None; results])
    }

    /// The operator's type, which is one of those that are read.
    fn stable_name(&self) -> &'static str {
        let known = registry::OPERATORS.iter().find(|&&name| name == self.operator.kind);
        known.copied().unwrap_or("Function")
    }

    /// A float function of one operand.
    pub(super) fn unary(&mut self, kind: UnaryKind, x: ValueId) -> Result<ValueId, Error> {
        self.emit(kind, &[x])
    }

    /// A function of two operands.
    pub(super) fn binary(&mut self, kind: BinaryKind, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.emit(kind, &[a, b])
    }

    /// The same elements under extents known now; a constant stays one.
    pub(super) fn reshaped(&mut self, id: ValueId, dims: &[i64]) -> Result<ValueId, Error> {
        let fixed: Option<Vec<usize>> = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        if let Some(constant) = self.constant(id)
            && let Some(shape) = fixed.as_deref().and_then(Shape::new)
            && let Some(constant) = constant.reshaped(shape)
        {
            let quant = self.quant(id);
            let reshaped = self.new_constant("reshaped", constant);
            self.builder.set_quant(reshaped, quant);
            return Ok(reshaped);
        }
        let requested = self.ints("shape", dims)?;
        self.emit_like(Op::Reshape(Reshape { allow_zero: true }), &[id, requested])
    }

    /// Axes permuted.
    pub(super) fn transposed(&mut self, id: ValueId, perm: &[usize]) -> Result<ValueId, Error> {
        self.emit_like(Op::Transpose(Transpose { perm: perm.to_vec() }), &[id])
    }

    /// Emits a node that moves elements: the result means what operand 0 means.
    pub(super) fn emit_like(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId, Error> {
        let element = match self.quant(inputs[0]) {
            Some(_) => self.element(inputs[0])?,
            None => None,
        };
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.emit_as(op, &inputs, element)
    }

    /// Another plain element type, if it is another.
    pub(super) fn cast(&mut self, id: ValueId, to: DType) -> Result<ValueId, Error> {
        if self.builder.graph.value(id).dtype == Some(to) {
            Ok(id)
        } else {
            self.emit(Op::Cast(Cast { to }), &[id])
        }
    }

    /// Makes `value` the operator's variable number `result` and gives it that variable's name.
    pub(super) fn finish(&mut self, result: usize, value: ValueId) -> Result<(), Error> {
        let Some(name) = self.names.get(result) else { return Ok(()) };
        // What the reader handed on unchanged keeps its name; the variable is a copy, which passes remove.
        let handed_on = self.inputs.contains(&value);
        let block = self.blocked(value);
        let value = if handed_on { self.emit_like(Op::Identity(Identity), &[value])? } else { value };
        if let Some(block) = block {
            self.builder.blocks.insert(value, block);
        }
        self.builder.graph.value_mut(value).name.clone_from(name);
        // The last node carries the operator's name; those before it are named after their operator, too.
        let last = self.builder.graph.nodes.last_mut();
        if let Some(node) = last.filter(|node| node.outputs.contains(&Some(value))) {
            node.name.clone_from(&self.name);
        }
        let variable = self.operator.outputs.start as usize + result;
        self.builder.variables[variable] = Some(value);
        Ok(())
    }
}

/// An operator's parameters; errors name the node.
pub(super) struct Params<'a> {
    table: Table<'a>,
    place: String,
}

macro_rules! fields {
    ($($name:ident: $type:ty;)*) => {
        $(
            /// A field, `default` where the file leaves it out.
            pub(super) fn $name(&self, slot: usize, default: $type) -> Result<$type, Error> {
                self.table.$name(slot, default).map_err(|reason| damaged(format!("{}: {reason}", self.place)))
            }
        )*
    };
}

impl<'a> Params<'a> {
    fields! {
        u8: u8;
        u32: u32;
        u64: u64;
        i32: i32;
        f32: f32;
        f64: f64;
        bool: bool;
    }

    /// A vector of structs of `size` bytes; empty where the file leaves it out.
    pub(super) fn structs(&self, slot: usize, size: usize) -> Result<&'a [u8], Error> {
        let bytes = self.table.structs(slot, size);
        Ok(bytes.map_err(|reason| damaged(format!("{}: {reason}", self.place)))?.unwrap_or_default())
    }

    /// The table itself.
    pub(super) fn table(&self) -> &Table<'a> {
        &self.table
    }

    /// Two neighbouring extents, rows and columns.
    pub(super) fn pair(&self, slot: usize, default: u32) -> Result<[usize; 2], Error> {
        Ok([self.u32(slot, default)? as usize, self.u32(slot + 1, default)? as usize])
    }
}
