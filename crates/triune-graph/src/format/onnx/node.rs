//! What an operator sees of ONNX: a node's attributes and operands to read, attributes to write.

use std::sync::Arc;

use triune_tensor::{DType, Shape};

use super::{
    nested::{self, Scope as FileScope},
    proto::{Attribute, AttributeValue},
    read::Builder,
    tensor,
};
use crate::{
    Constant, Dim, Error, Function, Graph, Node, Op, Value, ValueId, ValueKind, format::protobuf::Writer,
    functions::Scope, ops::Body,
};

/// One node of a file while its operator is made of it.
///
/// An operator takes each attribute that it knows; one that is left over makes the node unsupported. It may change
/// `inputs` and `outputs`, and emit nodes that lie before its own.
pub(crate) struct NodeReader<'a, 'b> {
    pub(super) builder: &'a mut Builder<'b>,
    pub(super) scope: &'a FileScope<'b>,
    /// What the node's networks see of the one around them.
    pub(super) seen: Vec<(&'b str, Option<ValueId>)>,
    pub(super) attributes: &'a [Attribute<'b>],
    pub(super) taken: Vec<bool>,
    pub(super) name: String,
    pub(super) op_type: &'static str,
    /// The version of the operator: the operator set that it holds from.
    pub(crate) since: i64,
    /// Operands of the node to be.
    pub(crate) inputs: Vec<Option<ValueId>>,
    /// Results of the node to be.
    pub(crate) outputs: Vec<Option<ValueId>>,
    /// Nodes that follow, in order.
    pub(super) after: Vec<Node>,
}

impl<'a, 'b> NodeReader<'a, 'b> {
    /// The error that this node cannot run, because of `reason`.
    pub(crate) fn unsupported(&self, reason: impl Into<String>) -> Error {
        Error::Unsupported { node: self.name.clone(), op: self.op_type.into(), reason: reason.into() }
    }

    fn wrong(&self, attribute: &str, expected: &str) -> Error {
        self.unsupported(format!("attribute '{attribute}' is not {expected}"))
    }

    fn take(&mut self, name: &str) -> Option<&'a AttributeValue<'b>> {
        let index = self.attributes.iter().position(|attribute| attribute.name == name)?;
        self.taken[index] = true;
        Some(&self.attributes[index].value)
    }

    /// Whether the node has this attribute.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute.name == name)
    }

    /// Takes attributes that change nothing at inference.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.take(name);
        }
    }

    /// Takes an integer attribute.
    pub(crate) fn int(&mut self, name: &str) -> Result<Option<i64>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(&AttributeValue::Int(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong(name, "an integer")),
        }
    }

    /// Takes an integer attribute that has to be `only`, where it is given.
    pub(crate) fn only(&mut self, name: &str, only: i64) -> Result<(), Error> {
        match self.int(name)? {
            Some(value) if value != only => {
                Err(self.unsupported(format!("attribute '{name}' = {value}; only {only} is supported")))
            }
            _ => Ok(()),
        }
    }

    /// Takes a flag.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Error> {
        Ok(self.int(name)?.unwrap_or(0) != 0)
    }

    /// Takes an axis.
    pub(crate) fn axis(&mut self, name: &str, default: isize) -> Result<isize, Error> {
        match self.int(name)? {
            None => Ok(default),
            Some(axis) => isize::try_from(axis).map_err(|_| self.wrong(name, "an axis")),
        }
    }

    /// Takes a float attribute.
    pub(crate) fn float(&mut self, name: &str, default: f32) -> Result<f32, Error> {
        Ok(self.maybe_float(name)?.unwrap_or(default))
    }

    /// Takes a float attribute without a default.
    pub(crate) fn maybe_float(&mut self, name: &str) -> Result<Option<f32>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(&AttributeValue::Float(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong(name, "a float")),
        }
    }

    /// Takes a string attribute.
    pub(crate) fn text(&mut self, name: &str, default: &str) -> Result<String, Error> {
        match self.take(name) {
            None => Ok(default.into()),
            Some(&AttributeValue::Text(text)) => {
                std::str::from_utf8(text).map(Into::into).map_err(|_| self.wrong(name, "UTF-8"))
            }
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// Takes a string attribute and maps it by a table of what is supported.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &str,
        default: &str,
        table: &[(&str, T)],
    ) -> Result<T, Error> {
        let text = self.text(name, default)?;
        table
            .iter()
            .find(|(key, _)| *key == text)
            .map(|&(_, value)| value)
            .ok_or_else(|| self.unsupported(format!("attribute '{name}' = '{text}' is not supported")))
    }

    /// Takes a list of integers.
    pub(crate) fn ints(&mut self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(values)) => Ok(Some(values.clone())),
            Some(_) => Err(self.wrong(name, "a list of integers")),
        }
    }

    /// Takes a list of floats.
    pub(crate) fn floats(&mut self, name: &str) -> Result<Option<Vec<f32>>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeValue::Floats(values)) => Ok(Some(values.clone())),
            Some(_) => Err(self.wrong(name, "a list of floats")),
        }
    }

    /// Takes a list of strings.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let AttributeValue::Texts(texts) = value else { return Err(self.wrong(name, "a list of strings")) };
        let texts: Result<_, _> =
            texts.iter().map(|text| std::str::from_utf8(text).map(String::from)).collect();
        texts.map(Some).map_err(|_| self.wrong(name, "UTF-8"))
    }

    /// Takes a list of strings as their bytes, for words of which there are few.
    pub(crate) fn letters(&mut self, name: &str) -> Result<Option<&'a [&'b [u8]]>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeValue::Texts(texts)) => Ok(Some(texts)),
            Some(_) => Err(self.wrong(name, "a list of strings")),
        }
    }

    /// Takes a list of non-negative integers.
    pub(crate) fn extents(&mut self, name: &str) -> Result<Option<Vec<usize>>, Error> {
        let Some(values) = self.ints(name)? else { return Ok(None) };
        let values: Option<Vec<usize>> = values.iter().map(|&v| usize::try_from(v).ok()).collect();
        values.map(Some).ok_or_else(|| self.unsupported(format!("attribute '{name}' has a negative element")))
    }

    /// Takes a tensor.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Option<Constant>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeValue::Tensor(tensor)) => {
                let (own, op) = (&self.name, self.op_type);
                let what = format_args!("node '{own}' ({op}): attribute '{name}'");
                self.builder.source.constant(tensor, &what).map(Some)
            }
            Some(_) => Err(self.wrong(name, "a tensor")),
        }
    }

    /// Takes a tensor, which may be one of strings.
    pub(crate) fn any_tensor(&mut self, name: &str) -> Result<Option<(Constant, ValueKind)>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeValue::Tensor(tensor)) => {
                let (own, op) = (&self.name, self.op_type);
                let what = format_args!("node '{own}' ({op}): attribute '{name}'");
                self.builder.constant(self.scope, tensor, &what).map(Some)
            }
            Some(_) => Err(self.wrong(name, "a tensor")),
        }
    }

    /// Takes a network; what it sees of the one around it becomes operands behind those that there are.
    pub(crate) fn body(&mut self, name: &str) -> Result<Body, Error> {
        match self.take(name) {
            None => Err(self.unsupported(format!("attribute '{name}' is missing"))),
            Some(AttributeValue::Graph(network)) => {
                let (body, captured) = nested::body(self.builder, self.scope, network, &self.seen)?;
                self.inputs.extend(captured.into_iter().map(Some));
                if self.op_type != "If"
                    && (0..body.graph.outputs.len()).any(|index| body.makes_strings(index))
                {
                    let reason = "its network makes strings, which are supported as results of If alone";
                    return Err(self.unsupported(reason));
                }
                let made = |id: &ValueId| body.graph.value(*id).kind.is_map();
                if body.graph.outputs.iter().any(made) {
                    return Err(self.unsupported("its network makes maps, which the whole network alone can"));
                }
                Ok(body)
            }
            Some(_) => Err(self.wrong(name, "a network")),
        }
    }

    /// Takes an element type; `None` where the attribute is absent or 0.
    pub(crate) fn dtype(&mut self, name: &str) -> Result<Option<DType>, Error> {
        match self.int(name)? {
            None | Some(0) => Ok(None),
            Some(number) => tensor::dtype(number).map(Some).ok_or_else(|| {
                self.unsupported(format!("attribute '{name}': element type {number} is not supported"))
            }),
        }
    }

    /// The node as a composite operator with one result.
    pub(crate) fn function(
        &self,
        body: impl Fn(&mut Scope<'_, '_>) -> Result<ValueId, Error> + Send + Sync + 'static,
    ) -> Function {
        Function::new(self.op_type, body)
    }

    /// The node as a composite operator with several results.
    pub(crate) fn functions(
        &self,
        body: impl Fn(&mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> + Send + Sync + 'static,
    ) -> Function {
        Function::with_results(self.op_type, body)
    }

    /// The elements of operand `index`, when it is there and known.
    pub(crate) fn constant(&self, index: usize) -> Option<&Constant> {
        let id = (*self.inputs.get(index)?)?;
        let constant = self.builder.graph.value(id).constant.as_ref()?;
        self.builder.decided.borrow_mut().insert(id);
        Some(constant)
    }

    /// The element type of operand `index`, when the file tells.
    pub(crate) fn dtype_of(&self, index: usize) -> Option<DType> {
        self.builder.dtype((*self.inputs.get(index)?)?)
    }

    /// Whether operand `index` is there and of strings.
    pub(crate) fn is_strings(&self, index: usize) -> bool {
        let id = self.inputs.get(index).copied().flatten();
        id.is_some_and(|id| self.builder.graph.value(id).kind == ValueKind::Strings)
    }

    /// Says of result `index` that it is of strings.
    pub(crate) fn makes_strings(&mut self, index: usize) {
        if let Some(id) = self.outputs.get(index).copied().flatten() {
            self.builder.graph.value_mut(id).kind = ValueKind::Strings;
        }
    }

    /// What operand `index` is, when it is there.
    pub(crate) fn kind_of(&self, index: usize) -> Option<ValueKind> {
        let id = self.inputs.get(index).copied().flatten()?;
        Some(self.builder.graph.value(id).kind)
    }

    /// Says what result `index` is.
    pub(crate) fn makes(&mut self, index: usize, kind: ValueKind) {
        if let Some(id) = self.outputs.get(index).copied().flatten() {
            self.builder.graph.value_mut(id).kind = kind;
        }
    }

    /// The number that stands for a string.
    pub(crate) fn number_of(&self, text: &str) -> Result<i64, Error> {
        Ok(self.scope.strings().number(text)?)
    }

    /// The extent of operand `index` along an axis, when the file tells.
    pub(crate) fn extent(&self, index: usize, axis: usize) -> Option<usize> {
        let id = (*self.inputs.get(index)?)?;
        match self.builder.graph.value(id).shape.as_ref()?.get(axis)? {
            Dim::Fixed(extent) => Some(*extent),
            Dim::Symbol(_) => None,
        }
    }

    /// The rank of operand `index`, when the file tells.
    pub(crate) fn rank(&self, index: usize) -> Option<usize> {
        self.builder.rank((*self.inputs.get(index)?)?)
    }

    /// Whether somebody reads result `index`.
    pub(crate) fn output_used(&self, index: usize) -> bool {
        self.outputs.get(index).copied().flatten().is_some_and(|id| self.builder.is_used(id))
    }

    /// Drops the results from `keep` on; an error when somebody reads one.
    pub(crate) fn drop_outputs(&mut self, keep: usize) -> Result<(), Error> {
        for index in keep..self.outputs.len() {
            if self.output_used(index) {
                return Err(self.unsupported(format!("output {index} is not supported")));
            }
        }
        self.outputs.truncate(keep);
        Ok(())
    }

    /// Makes a new constant called after the node and `suffix`.
    pub(crate) fn new_constant(&mut self, suffix: &str, constant: Constant) -> ValueId {
        let name = self.builder.unique_value_name(format!("{}.{suffix}", self.name));
        self.builder.graph.add_constant(name, constant)
    }

    /// Makes a one-dimensional i64 constant.
    pub(crate) fn new_ints(&mut self, suffix: &str, values: &[i64]) -> ValueId {
        let constant = Constant::from_i64(Shape::from([values.len()]), values);
        self.new_constant(suffix, constant.expect("as many elements as the shape says"))
    }

    /// Makes an f32 scalar constant.
    pub(crate) fn new_scalar(&mut self, suffix: &str, value: f32) -> ValueId {
        let constant = Constant::from_f32(Shape::from([]), &[value]);
        self.new_constant(suffix, constant.expect("one element"))
    }

    /// Makes a value for a node in between.
    pub(crate) fn new_value(&mut self, suffix: &str) -> ValueId {
        let name = self.builder.unique_value_name(format!("{}.{suffix}", self.name));
        self.builder.graph.add_value(Value::named(name))
    }

    /// Sets operand `index`, which may lie behind the present ones.
    pub(crate) fn set_input(&mut self, index: usize, value: ValueId) {
        if self.inputs.len() <= index {
            self.inputs.resize(index + 1, None);
        }
        self.inputs[index] = Some(value);
    }

    /// Adds a node before this one.
    pub(crate) fn emit_before(&mut self, op: Op, inputs: &[Option<ValueId>], output: ValueId) {
        let name = self.builder.unique_node_name(format!("{}.{}", self.name, op.name()));
        self.builder.graph.nodes.push(Node::new(name, op, inputs, vec![Some(output)]));
    }

    /// Makes this node's first result an inner one, and adds a node behind that computes the outer result from it
    /// and `more`.
    pub(crate) fn emit_after(&mut self, op: Op, more: &[Option<ValueId>]) {
        let inner = self.new_value("inner");
        let outer = self.outputs[0].replace(inner);
        let mut inputs = vec![Some(inner)];
        inputs.extend_from_slice(more);
        let name = self.builder.unique_node_name(format!("{}.{}", self.name, op.name()));
        self.after.insert(0, Node::new(name, op, inputs, vec![outer]));
    }
}

/// Writes one node's operator and attributes.
pub(crate) struct NodeWriter<'a> {
    pub(super) attributes: Writer,
    /// The network that the node is one of.
    pub(super) graph: &'a Graph,
    /// The node's operands.
    pub(super) inputs: &'a [Option<ValueId>],
    /// The node's results.
    pub(super) outputs: &'a [Option<ValueId>],
    /// The first opset of the operator's domain that has what was written.
    pub(super) opset: i64,
    /// The opset that the file will have.
    pub(crate) target: i64,
}

impl NodeWriter<'_> {
    /// Whether operand `index` is there.
    pub(crate) fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// The extents of operand `index`, where they are known.
    pub(crate) fn extents_of(&self, index: usize) -> Option<Shape> {
        self.graph.value(self.inputs.get(index).copied()??).fixed_shape()
    }

    /// Whether operand `index` is there and of strings.
    pub(crate) fn is_strings(&self, index: usize) -> bool {
        self.is(self.inputs.get(index), ValueKind::Strings)
    }

    /// Whether result `index` is there and of strings.
    pub(crate) fn makes_strings(&self, index: usize) -> bool {
        self.is(self.outputs.get(index), ValueKind::Strings)
    }

    fn is(&self, id: Option<&Option<ValueId>>, kind: ValueKind) -> bool {
        id.copied().flatten().is_some_and(|id| self.graph.value(id).kind == kind)
    }

    /// What operand `index` is, when it is there.
    pub(crate) fn kind_of(&self, index: usize) -> Option<ValueKind> {
        Some(self.graph.value(self.inputs.get(index).copied()??).kind)
    }

    /// What result `index` is, when it is there.
    pub(crate) fn kind_made(&self, index: usize) -> Option<ValueKind> {
        Some(self.graph.value(self.outputs.get(index).copied()??).kind)
    }

    /// The string that a number stands for.
    pub(crate) fn text_of(&self, number: i64) -> Result<Arc<str>, String> {
        let text = self.graph.strings.text(number);
        text.ok_or_else(|| format!("{number} stands for no string of the network"))
    }

    /// A list of integers, or of the strings that they stand for.
    pub(crate) fn keys(
        &mut self,
        [integers, texts]: [&str; 2],
        keys: &[i64],
        strings: bool,
    ) -> Result<(), String> {
        if strings {
            let found = keys.iter().map(|&key| self.text_of(key)).collect::<Result<Vec<_>, _>>()?;
            self.texts(texts, found);
        } else {
            self.ints(integers, keys.iter().copied());
        }
        Ok(())
    }

    /// Says which operator set the node needs, when the first is too old.
    pub(crate) fn needs(&mut self, opset: i64) {
        self.opset = self.opset.max(opset);
    }

    fn attribute(&mut self, name: &str, kind: i64, fill: impl FnOnce(&mut Writer)) {
        self.attributes.message(5, |attribute| {
            attribute.bytes(1, name.as_bytes());
            fill(attribute);
            attribute.int(20, kind);
        });
    }

    /// An integer attribute.
    pub(crate) fn int(&mut self, name: &str, value: i64) {
        self.attribute(name, 2, |attribute| attribute.int(3, value));
    }

    /// A float attribute.
    pub(crate) fn float(&mut self, name: &str, value: f32) {
        self.attribute(name, 1, |attribute| attribute.float(2, value));
    }

    /// A string attribute.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.attribute(name, 3, |attribute| attribute.bytes(4, value.as_bytes()));
    }

    /// A string attribute by the table that it is read by.
    pub(crate) fn choice<T: PartialEq>(&mut self, name: &str, table: &[(&str, T)], value: &T) {
        if let Some((key, _)) = table.iter().find(|(_, other)| other == value) {
            self.text(name, key);
        }
    }

    /// A list of integers.
    pub(crate) fn ints(&mut self, name: &str, values: impl IntoIterator<Item = i64>) {
        self.attribute(name, 7, |attribute| {
            for value in values {
                attribute.int(8, value);
            }
        });
    }

    /// A list of floats.
    pub(crate) fn floats(&mut self, name: &str, values: impl IntoIterator<Item = f32>) {
        self.attribute(name, 6, |attribute| {
            for value in values {
                attribute.float(7, value);
            }
        });
    }

    /// A list of strings.
    pub(crate) fn texts(&mut self, name: &str, values: impl IntoIterator<Item: AsRef<str>>) {
        self.attribute(name, 8, |attribute| {
            for value in values {
                attribute.bytes(9, value.as_ref().as_bytes());
            }
        });
    }

    /// A list of extents.
    pub(crate) fn extents(&mut self, name: &str, values: &[usize]) {
        self.ints(name, values.iter().map(|&value| value as i64));
    }

    /// An element type.
    pub(crate) fn dtype(&mut self, name: &str, dtype: DType) {
        self.int(name, tensor::dtype_number(dtype));
    }

    /// A tensor.
    pub(crate) fn tensor(&mut self, name: &str, constant: &Constant) {
        self.attribute(name, 4, |attribute| {
            attribute.message(5, |message| super::write::tensor(message, "", constant));
        });
    }
}
