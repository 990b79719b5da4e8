//! From a [`Graph`] to an ONNX file that other tools read.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use triune_tensor::{DType, Requantize, Rounding, Shape};

use super::{
    FIXED, NodeWriter,
    ops::{self, DEFAULT_DOMAIN},
    spelled,
    tensor::dtype_number,
};
use crate::{
    Constant, Dim, Error, Graph, Op, Value, ValueKind,
    format::protobuf::Writer,
    infer::infer,
    ops::{Clip, Hosted, Unary, UnaryKind},
};

/// The version of the container format, the one that goes with opset 13.
const IR_VERSION: i64 = 8;
/// The opset that all operators but a few younger ones are written in.
const OPSET: i64 = 13;
/// The set of classical learning that its operators are written in, unless they are younger.
const LEARNING_OPSET: i64 = 3;

/// The bytes of an ONNX file with the same network: initializers with raw data, IR version 8, opset 13, or the first
/// that has all of the graph's operators.
///
/// Constants, element types and extents go along. Composite operators are written as what they are made of, for which all
/// inputs need fixed extents; those of classical learning in the operator set 3 of their domain, or the first that has them. Integer operators, fused epilogues, tables and other things that ONNX cannot
/// express are errors that name the node.
pub fn write(graph: &Graph) -> Result<Vec<u8>, Error> {
    let graph = &expanded(graph)?;
    let graph = &spelled::out(graph);
    let graph = &with_limits_as_operands(graph);
    // What the first round needs decides how the second one writes; opsets only grow, so two more always settle it.
    let mut target = OPSET;
    let (graph, nodes, learning) = loop {
        let graph = with_axes_as_operands(graph, target);
        let Written { nodes, opset, learning } = write_nodes(&graph, target)?;
        if opset <= target {
            break (graph, nodes, learning);
        }
        target = opset;
    };
    let graph = &graph;
    let texts = texts(graph)?;
    let has_strings = graph.values.iter().any(|value| value.kind == ValueKind::Strings);
    let mut model = Writer::default();
    model.int(1, IR_VERSION.max(ir_version(target)));
    model.bytes(2, b"triune");
    model.message(7, |out| {
        for node in &nodes {
            out.bytes(1, node);
        }
        out.bytes(2, graph.name.as_bytes());
        for value in &graph.values {
            let Some(constant) = &value.constant else { continue };
            out.message(5, |message| match texts.get(&*value.name) {
                Some(texts) => strings(message, &value.name, constant.dims(), texts),
                None => tensor(message, &value.name, constant),
            });
        }
        for (field, ids) in [(11, &graph.inputs), (12, &graph.outputs)] {
            for &id in ids {
                out.message(field, |message| value_info(message, graph.value(id)));
            }
        }
        let boundary: std::collections::HashSet<_> = graph.inputs.iter().chain(&graph.outputs).collect();
        for output in graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten()) {
            let value = graph.value(*output);
            // What a function made of strings on its way does not say so.
            let may_be_strings =
                value.kind == ValueKind::Tensor && value.dtype == Some(DType::I64) && has_strings;
            if !boundary.contains(output) && value.dtype.is_some() && !may_be_strings {
                out.message(13, |message| value_info(message, value));
            }
        }
    });
    model.message(8, |opset| {
        opset.bytes(1, b"");
        opset.int(2, target);
    });
    if let Some(version) = learning {
        model.message(8, |opset| {
            opset.bytes(1, ops::ML_DOMAIN.as_bytes());
            opset.int(2, version);
        });
    }
    if graph.requantize == Requantize::Fixed {
        model.message(14, |property| {
            property.bytes(1, FIXED.0.as_bytes());
            property.bytes(2, FIXED.1.as_bytes());
        });
    }
    Ok(model.finish())
}

/// The strings that constants are of, by the constants' names.
fn texts(graph: &Graph) -> Result<HashMap<&str, Vec<Arc<str>>>, Error> {
    let mut found = HashMap::new();
    for value in graph.values.iter().filter(|value| value.kind == ValueKind::Strings) {
        let Some(numbers) = value.constant.as_ref().and_then(Constant::to_i64) else { continue };
        let texts: Option<Vec<_>> = numbers.iter().map(|&number| graph.strings.text(number)).collect();
        let texts = texts.ok_or_else(|| {
            Error::Graph(format!("'{}' is of strings, and of a number that stands for none", value.name))
        })?;
        found.insert(&*value.name, texts);
    }
    Ok(found)
}

/// The graph without composite operators, which are graphs of their own once extents are known.
fn expanded(graph: &Graph) -> Result<Cow<'_, Graph>, Error> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::Function(_))) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut graph = graph.clone();
    infer(&mut graph)?;
    Ok(Cow::Owned(graph))
}

/// The graph with the limits of its clamps as operands, where ONNX has them.
fn with_limits_as_operands(graph: &Graph) -> Cow<'_, Graph> {
    let mut graph = Cow::Borrowed(graph);
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let Op::Unary(Unary { kind: UnaryKind::Clip(limits) }) = node.op else { continue };
        let names = ["low", "high"].map(|limit| format!("{}:{limit}", node.name));
        for (name, limit) in names.into_iter().zip(limits) {
            let Some(constant) = Constant::from_f32(Shape::from([]), &[limit]) else { continue };
            let graph = graph.to_mut();
            let id = graph.add_constant(name, constant);
            graph.nodes[index].inputs.push(Some(id));
        }
        graph.to_mut().nodes[index].op = Op::Clip(Clip);
    }
    graph
}

/// The graph with the axes of its reductions as operands, where the opset `target` has them so.
fn with_axes_as_operands(graph: &Graph, target: i64) -> Cow<'_, Graph> {
    let mut graph = Cow::Borrowed(graph);
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let Op::Reduce(op) = &node.op else { continue };
        let Some(axes) =
            op.axes.as_ref().filter(|axes| !axes.is_empty() && ops::has_axes_operand(op, target))
        else {
            continue;
        };
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let Some(constant) = Constant::from_i64(Shape::from([axes.len()]), &axes) else { continue };
        let name = format!("{}:axes", node.name);
        let graph = graph.to_mut();
        let id = graph.add_constant(name, constant);
        graph.nodes[index].inputs.truncate(1);
        graph.nodes[index].inputs.push(Some(id));
    }
    graph
}

/// The first container version that goes with an opset.
const fn ir_version(opset: i64) -> i64 {
    match opset {
        ..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        _ => 11,
    }
}

/// The nodes, and the operator sets that they need.
struct Written {
    nodes: Vec<Vec<u8>>,
    opset: i64,
    /// That of classical learning, if there is a node of it.
    learning: Option<i64>,
}

fn write_nodes(graph: &Graph, target: i64) -> Result<Written, Error> {
    let (mut needed, mut learning) = (target, None);
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let fail = |reason: String| Error::Unsupported {
            node: node.name.clone(),
            op: node.op.name().into(),
            reason,
        };
        if node.quant.is_some() {
            return Err(fail(
                "integers that mean reals cannot be written as ONNX, only quantizers can".into(),
            ));
        }
        if matches!(node.op, Op::QuantizeLinear(_)) && graph.rounding != Rounding::default() {
            return Err(fail("ONNX rounds halves to even".into()));
        }
        if matches!(node.op, Op::Hosted(Hosted::Strings(_))) {
            let reason =
                "what looks at the letters of strings is not written; sessions run the model as it is";
            return Err(fail(reason.into()));
        }
        if matches!(node.op, Op::BlockMatMul(_)) {
            let reason = "a product whose rows become integers block by block (accuracy_level 4) is not written; without that attribute it is";
            return Err(fail(reason.into()));
        }
        let name = ops::written_name(&node.op);
        let operator = ops::find(ops::written_domain(&node.op), name)
            .ok_or_else(|| fail("ONNX has no such operator".into()))?;
        let learns = operator.domain == ops::ML_DOMAIN;
        let opset = if learns { LEARNING_OPSET } else { OPSET.max(operator.first()) };
        let mut writer = NodeWriter {
            attributes: Writer::default(),
            graph,
            inputs: &node.inputs,
            outputs: &node.outputs,
            opset,
            target,
        };
        (operator.write)(&node.op, &mut writer).map_err(fail)?;
        let set = if learns { learning.get_or_insert(LEARNING_OPSET) } else { &mut needed };
        *set = writer.opset.max(*set);
        let mut out = Writer::default();
        for (field, ids) in [(1, &node.inputs), (2, &node.outputs)] {
            for id in ids {
                let name = id.map_or("", |id| graph.value(id).name.as_str());
                out.bytes(field, name.as_bytes());
            }
        }
        out.bytes(3, node.name.as_bytes());
        out.bytes(4, name.as_bytes());
        let mut bytes = out.finish();
        bytes.extend(writer.attributes.finish());
        if operator.domain != DEFAULT_DOMAIN {
            let mut domain = Writer::default();
            domain.bytes(7, operator.domain.as_bytes());
            bytes.extend(domain.finish());
        }
        nodes.push(bytes);
    }
    Ok(Written { nodes, opset: needed, learning })
}

/// Writes a tensor with raw data.
pub(super) fn tensor(message: &mut Writer, name: &str, constant: &Constant) {
    for &dim in &*constant.shape() {
        message.int(1, dim as i64);
    }
    message.int(2, dtype_number(constant.dtype()));
    if !name.is_empty() {
        message.bytes(8, name.as_bytes());
    }
    message.bytes(9, &super::tensor::packed(constant));
}

/// Writes a tensor of strings.
fn strings(message: &mut Writer, name: &str, dims: &[usize], texts: &[Arc<str>]) {
    for &dim in dims {
        message.int(1, dim as i64);
    }
    message.int(2, ops::STRING);
    for text in texts {
        message.bytes(6, text.as_bytes());
    }
    message.bytes(8, name.as_bytes());
}

fn value_info(message: &mut Writer, value: &Value) {
    message.bytes(1, value.name.as_bytes());
    message.message(2, |types| value_type(types, value, value.kind));
}

/// Writes the type that the value has if it is of this kind.
fn value_type(types: &mut Writer, value: &Value, kind: ValueKind) {
    let number = value.dtype.map_or(0, dtype_number);
    match kind {
        ValueKind::Tensor => tensor_type(types, value, number),
        ValueKind::Strings => tensor_type(types, value, ops::STRING),
        ValueKind::Sequence => {
            types.message(4, |list| list.message(1, |each| value_type(each, value, ValueKind::Tensor)));
        }
        ValueKind::Optional => {
            types.message(9, |maybe| maybe.message(1, |own| value_type(own, value, ValueKind::Tensor)));
        }
        ValueKind::OptionalSequence => {
            types.message(9, |maybe| maybe.message(1, |own| value_type(own, value, ValueKind::Sequence)));
        }
        ValueKind::Maps(map) => {
            types.message(4, |list| list.message(1, |each| value_type(each, value, ValueKind::Map(map))));
        }
        ValueKind::Map(map) => types.message(5, |entries| {
            let of = |strings| if strings { ops::STRING } else { dtype_number(DType::I64) };
            entries.int(1, of(map.string_keys));
            let values = if map.string_values { ops::STRING } else { number };
            entries.message(2, |each| {
                each.message(1, |scalar| {
                    scalar.int(1, values);
                    scalar.message(2, |_| {});
                });
            });
        }),
    }
}

fn tensor_type(types: &mut Writer, value: &Value, number: i64) {
    types.message(1, |tensor| {
        tensor.int(1, number);
        let Some(dims) = &value.shape else { return };
        tensor.message(2, |shape| {
            for dim in dims {
                shape.message(1, |out| match dim {
                    Dim::Fixed(extent) => out.int(1, *extent as i64),
                    Dim::Symbol(name) => out.bytes(2, name.as_bytes()),
                });
            }
        });
    });
}
