//! What an operator's reader sees: attributes and operands, and nodes to make of them.

use triune_tensor::{DType, Shape};

use super::{
    super::{Attribute, Layout, Operation, Scale},
    Builder, Form, Meaning, Typed, View, meaning, name_of,
};
use crate::{
    Constant, Dim, Error, Node, Op, Value, ValueId, ValueIds,
    ops::{
        BinaryKind, Cast, Identity, Pool, Reshape, Transpose, UnaryKind,
        infer::{Operand, Operands, TensorType as Found},
    },
};

/// Lists of one number per channel are not made for more channels than this: extents come from files.
pub(super) const MOST_CHANNELS: usize = 1 << 20;

/// One operation of a document while nodes are made of it.
pub(super) struct Reader<'b, 'd> {
    pub(super) builder: &'b mut Builder<'d>,
    pub(super) op: &'d Operation,
    pub(super) name: String,
}

impl<'b, 'd> Reader<'b, 'd> {
    pub(super) fn new(builder: &'b mut Builder<'d>, op: &'d Operation) -> Self {
        Self { builder, op, name: name_of(op) }
    }

    /// The operator without its namespace when it is the vendor's own.
    pub(super) fn kind(&self) -> &'d str {
        self.op.type_key.strip_prefix("icraft::xir::").unwrap_or(&self.op.type_key)
    }

    // ---- errors ----

    /// The error that this operation cannot run, because of `reason`.
    pub(super) fn unsupported(&self, reason: impl Into<String>) -> Error {
        let (node, op) = (format!("{} (op_id {})", self.name, self.op.op_id), self.op.type_key.clone());
        Error::Unsupported { node, op, reason: reason.into() }
    }

    /// The error that its operands or results do not fit.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> Error {
        let (node, op) = (format!("{} (op_id {})", self.name, self.op.op_id), self.op.type_key.clone());
        Error::Shape { node, op, reason: reason.into() }
    }

    /// The error for an operator that nobody reads.
    pub(super) fn unknown(&self) -> Error {
        if self.kind() == "HardOp" {
            return self.unsupported(
                "its arithmetic is in instruction words of the accelerator, which are not public; compile the ONNX file that \
                 the network came from with `triune compile --format icraft`, whose HardOps run on the simulated device",
            );
        }
        self.unsupported("there is no such operator here")
    }

    // ---- attributes ----

    pub(super) fn attribute(&self, key: &str) -> Option<&'d Attribute> {
        self.op.attributes.get(key).filter(|attribute| **attribute != Attribute::Null)
    }

    fn bad(&self, key: &str, expected: &str) -> Error {
        self.unsupported(format!("attribute '{key}' is not {expected}"))
    }

    /// A whole number, `default` where the file leaves it out.
    pub(super) fn int(&self, key: &str, default: i64) -> Result<i64, Error> {
        match self.attribute(key) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(_) => Err(self.bad(key, "a whole number")),
        }
    }

    /// A whole number that is not negative.
    pub(super) fn size(&self, key: &str, default: usize) -> Result<usize, Error> {
        let value = self.int(key, default as i64)?;
        usize::try_from(value).map_err(|_| self.bad(key, "0 or more"))
    }

    /// A whole number above 0.
    pub(super) fn extent(&self, key: &str, default: usize) -> Result<usize, Error> {
        Ok(self.size(key, default)?)
            .and_then(|value| if value == 0 { Err(self.bad(key, "above 0")) } else { Ok(value) })
    }

    fn number(attribute: &Attribute) -> Option<f32> {
        match attribute {
            Attribute::Int(value) => Some(*value as f32),
            Attribute::Float(value) => Some(*value as f32),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn float(&self, key: &str, default: f32) -> Result<f32, Error> {
        match self.attribute(key) {
            None => Ok(default),
            Some(value) => Self::number(value).ok_or_else(|| self.bad(key, "a number")),
        }
    }

    /// One number or a list of some.
    pub(super) fn floats(&self, key: &str) -> Result<Vec<f32>, Error> {
        let values = match self.attribute(key) {
            None => Some(Vec::new()),
            Some(Attribute::List(items)) => items.iter().map(Self::number).collect(),
            Some(value) => Self::number(value).map(|value| vec![value]),
        };
        values.ok_or_else(|| self.bad(key, "a list of numbers"))
    }

    /// A list of whole numbers, also when it is a single one; `None` where the file leaves it out.
    pub(super) fn ints(&self, key: &str) -> Result<Option<Vec<i64>>, Error> {
        let int = |item: &Attribute| if let Attribute::Int(value) = item { Some(*value) } else { None };
        let values = match self.attribute(key) {
            None => return Ok(None),
            Some(Attribute::List(items)) => items.iter().map(int).collect(),
            Some(value) => int(value).map(|value| vec![value]),
        };
        values.map(Some).ok_or_else(|| self.bad(key, "a list of whole numbers"))
    }

    /// A list of whole numbers that has to be there.
    pub(super) fn needed_ints(&self, key: &str) -> Result<Vec<i64>, Error> {
        self.ints(key)?.ok_or_else(|| self.unsupported(format!("attribute '{key}' is missing")))
    }

    /// A truth value, also as 0 or 1.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, Error> {
        match self.attribute(key) {
            None => Ok(default),
            Some(Attribute::Bool(value)) => Ok(*value),
            Some(Attribute::Int(value @ (0 | 1))) => Ok(*value == 1),
            Some(_) => Err(self.bad(key, "a bool")),
        }
    }

    /// A member of an enumeration, by name or by its number in `names`.
    pub(super) fn choice<T: Copy>(&self, key: &str, default: T, names: &[(&str, T)]) -> Result<T, Error> {
        let found = match self.attribute(key) {
            None => return Ok(default),
            Some(Attribute::Text(text)) => {
                names.iter().find(|(name, _)| name == text).map(|(_, value)| *value)
            }
            Some(Attribute::Int(number)) => {
                usize::try_from(*number).ok().and_then(|number| names.get(number)).map(|(_, value)| *value)
            }
            Some(_) => None,
        };
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        found.ok_or_else(|| self.bad(key, &format!("one of {}", known.join(", "))))
    }

    /// The constant among the attributes.
    pub(super) fn value(&self, key: &str) -> Result<Option<usize>, Error> {
        match self.attribute(key) {
            None => Ok(None),
            Some(Attribute::Value(index)) => Ok(Some(*index)),
            Some(_) => Err(self.bad(key, "a constant")),
        }
    }

    /// A cut of products that only the accelerator makes has no meaning in numbers that are public.
    pub(super) fn no_cut(&self) -> Result<(), Error> {
        match self.attribute("cut_scale") {
            None => Ok(()),
            Some(Attribute::Text(text)) => match text.parse::<Scale>() {
                Ok(Scale::Plain(runs)) if runs.runs.is_empty() => Ok(()),
                Ok(Scale::Exp(runs)) if runs.runs.is_empty() => Ok(()),
                Ok(_) => Err(self.unsupported("attribute 'cut_scale' is set; what it does is not public")),
                Err(error) => Err(self.unsupported(format!("attribute 'cut_scale': {error}"))),
            },
            Some(_) => Err(self.bad("cut_scale", "a list of scales")),
        }
    }

    // ---- values of the document ----

    /// Operand `index`, when it is there.
    pub(super) fn optional(&self, index: usize) -> Option<usize> {
        self.op.inputs.get(index).copied().flatten()
    }

    /// Operand `index`.
    pub(super) fn operand(&self, index: usize) -> Result<usize, Error> {
        self.optional(index).ok_or_else(|| self.unsupported(format!("operand {index} is missing")))
    }

    /// Result `index`.
    pub(super) fn result(&self, index: usize) -> Result<usize, Error> {
        self.op
            .outputs
            .get(index)
            .copied()
            .ok_or_else(|| self.unsupported(format!("result {index} is missing")))
    }

    /// The only operand and the only result.
    pub(super) fn ends(&self) -> Result<(usize, usize), Error> {
        if self.op.inputs.len() != 1 || self.op.outputs.len() != 1 {
            let (inputs, outputs) = (self.op.inputs.len(), self.op.outputs.len());
            return Err(self.wrong(format!("{inputs} operands and {outputs} results, expected one of each")));
        }
        Ok((self.operand(0)?, self.result(0)?))
    }

    fn document_value(&self, index: usize) -> Result<&'d super::super::Value, Error> {
        self.builder
            .document
            .values
            .get(index)
            .ok_or_else(|| self.wrong(format!("there is no value number {index}")))
    }

    /// What is known of a value.
    pub(super) fn typed(&self, index: usize) -> Result<Typed, Error> {
        let mut typed = self.declared(index)?;
        if self.builder.options.fake_qf
            && matches!(typed.meaning, Meaning::Quantized { .. })
            && !self.is_constant(index)
        {
            (typed.dtype, typed.meaning) = (DType::F32, Meaning::Plain);
        }
        Ok(typed)
    }

    /// What is declared of a value, whether it is computed as that or as reals.
    pub(super) fn declared(&self, index: usize) -> Result<Typed, Error> {
        let value = self.document_value(index)?;
        let at = |reason: String| self.unsupported(format!("value {}: {reason}", value.v_id));
        let form = Form::of(&value.dtype).map_err(at)?;
        let channels = form.named('C').and_then(|axis| form.flat[axis].total).unwrap_or(0).min(MOST_CHANNELS);
        let meaning = meaning::meaning(&value.dtype.element, channels).map_err(at)?;
        let storage = value.dtype.element.storage();
        let dtype = meaning::dtype(storage).ok_or_else(|| at(format!("elements of type {storage}")))?;
        Ok(Typed { dtype, meaning, form })
    }

    pub(super) fn is_constant(&self, index: usize) -> bool {
        self.builder.document.values.get(index).is_some_and(|value| value.params.is_some())
    }

    /// The layout of a value.
    pub(super) fn layout(&self, index: usize) -> Result<&'d Layout, Error> {
        Ok(&self.document_value(index)?.dtype.layout)
    }

    // ---- the graph ----

    /// Type and extents of a value of the graph, when they are known.
    pub(super) fn found(&self, id: ValueId) -> Option<Found> {
        self.builder.found.get(id.0 as usize).copied().flatten()
    }

    /// The element type of a value of the graph.
    pub(super) fn dtype(&self, id: ValueId) -> Option<DType> {
        self.builder.graph.value(id).dtype
    }

    pub(super) fn add(&mut self, value: Value, found: Option<Found>) -> ValueId {
        self.builder.found.push(found);
        self.builder.graph.add_value(value)
    }

    /// Makes a constant.
    pub(super) fn constant(&mut self, suffix: &str, constant: Constant) -> ValueId {
        let name = self.builder.names.unique(format!("{}.{suffix}", self.name));
        self.builder.found.push(Some(Found { dtype: constant.dtype(), shape: constant.shape() }));
        self.builder.graph.add_constant(name, constant)
    }

    /// Makes a list of integers.
    pub(super) fn list(&mut self, suffix: &str, values: &[i64]) -> Result<ValueId, Error> {
        let constant = Constant::from_i64(Shape::from([values.len()]), values);
        let constant = constant.ok_or_else(|| self.unsupported("too many axes"))?;
        Ok(self.constant(suffix, constant))
    }

    /// Makes a real.
    pub(super) fn scalar(&mut self, value: f32) -> ValueId {
        let constant = Constant::from_f32(Shape::from([]), &[value]).expect("one element");
        self.constant("number", constant)
    }

    /// Makes a row of reals.
    pub(super) fn row(&mut self, suffix: &str, values: &[f32]) -> Result<ValueId, Error> {
        let constant = Constant::from_f32(Shape::from([values.len()]), values);
        let constant = constant.ok_or_else(|| self.unsupported("too many elements"))?;
        Ok(self.constant(suffix, constant))
    }

    /// Emits a node with one result.
    pub(super) fn emit(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId, Error> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        Ok(self.emit_all(op.into(), &inputs, 1)?[0])
    }

    /// Emits a node; operands may be left out.
    pub(super) fn emit_all(
        &mut self,
        op: Op,
        inputs: &[Option<ValueId>],
        results: usize,
    ) -> Result<Vec<ValueId>, Error> {
        let name = self.builder.node_names.unique(self.name.clone());
        let operands: Option<Vec<Option<Operand<'_>>>> = inputs
            .iter()
            .map(|input| match input {
                None => Some(None),
                Some(id) => {
                    let Found { dtype, shape } = self.found(*id)?;
                    let constant = self.builder.graph.value(*id).constant.as_ref();
                    Some(Some(Operand { dtype, shape, constant }))
                }
            })
            .collect();
        let found = match operands {
            // Extents that the network decides about are checked when they are known.
            None => Vec::new(),
            Some(operands) => {
                let node = format!("{} (op_id {})", self.name, self.op.op_id);
                let at = Operands { node: &node, op: op.name(), inputs: &operands, quantized: None };
                op.clone().infer(&at, results)?
            }
        };
        let outputs: Vec<ValueId> = (0..results)
            .map(|index| {
                let own = self.builder.names.unique(format!("{name}:{index}"));
                let found = found.get(index).copied();
                let dims = |found: &Found| found.shape.iter().map(|&extent| Dim::Fixed(extent)).collect();
                let value = Value {
                    dtype: found.map(|found| found.dtype).or_else(|| {
                        // Most results are of their first operand's type.
                        inputs.first().copied().flatten().and_then(|id| self.dtype(id))
                    }),
                    shape: found.as_ref().map(dims),
                    ..Value::named(own)
                };
                self.add(value, found)
            })
            .collect();
        let results: ValueIds = outputs.iter().copied().map(Some).collect();
        self.builder.graph.nodes.push(Node::new(name, op, inputs, results));
        Ok(outputs)
    }

    pub(super) fn unary(&mut self, kind: UnaryKind, x: ValueId) -> Result<ValueId, Error> {
        self.emit(kind, &[x])
    }

    pub(super) fn binary(&mut self, kind: BinaryKind, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        self.emit(kind, &[a, b])
    }

    /// x with another element type.
    pub(super) fn cast(&mut self, x: ValueId, to: DType) -> Result<ValueId, Error> {
        if self.dtype(x) == Some(to) {
            return Ok(x);
        }
        let result = self.emit(Op::Cast(Cast { to }), &[x])?;
        self.builder.graph.value_mut(result).dtype = Some(to);
        Ok(result)
    }

    /// Axes permuted: result axis i is operand axis `perm[i]`.
    pub(super) fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Result<ValueId, Error> {
        if perm.iter().enumerate().all(|(to, &from)| to == from) {
            return Ok(x);
        }
        self.emit(Op::Transpose(Transpose { perm: perm.to_vec() }), &[x])
    }

    /// Other extents; one that the network decides about is left to what the others leave.
    pub(super) fn reshape(&mut self, x: ValueId, extents: &[Option<usize>]) -> Result<ValueId, Error> {
        if extents.iter().filter(|extent| extent.is_none()).count() > 1 {
            return Err(self.unsupported("a reshape with two extents that the network decides about"));
        }
        let own =
            self.found(x).map(|found| found.shape.iter().map(|&extent| Some(extent)).collect::<Vec<_>>());
        if own.as_deref() == Some(extents) {
            return Ok(x);
        }
        let requested: Vec<i64> =
            extents.iter().map(|extent| extent.map_or(-1, |extent| extent as i64)).collect();
        let shape = self.list("shape", &requested)?;
        self.emit(Op::Reshape(Reshape { allow_zero: true }), &[x, shape])
    }

    /// A copy, which passes remove.
    pub(super) fn copy(&mut self, x: ValueId) -> Result<ValueId, Error> {
        self.emit(Op::Identity(Identity), &[x])
    }

    /// The view in which an operator over stored axes works: the flat one when nothing is split or padded.
    pub(super) fn axes_view(typed: &Typed) -> View {
        if typed.form.is_plain() { View::Flat } else { View::Stored }
    }

    /// A pool of the open view.
    pub(super) fn pool(&mut self, pool: Pool, x: ValueId) -> Result<ValueId, Error> {
        self.emit(Op::Pool(Box::new(pool)), &[x])
    }
}
