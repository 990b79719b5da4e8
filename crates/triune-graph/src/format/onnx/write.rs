//! From a [`Graph`] to an ONNX file that other tools read.

use std::borrow::Cow;

use triune_tensor::{Rounding, Shape};

use super::{
    NodeWriter,
    ops::{self, DEFAULT_DOMAIN},
    spelled,
    tensor::dtype_number,
};
use crate::{
    Constant, Dim, Error, Graph, Op, Value,
    format::protobuf::Writer,
    infer::infer,
    ops::{Clip, Unary, UnaryKind},
};

/// The version of the container format, the one that goes with opset 13.
const IR_VERSION: i64 = 8;
/// The opset that all operators but a few younger ones are written in.
const OPSET: i64 = 13;

/// The bytes of an ONNX file with the same network: initializers with raw data, IR version 8, opset 13, or the first
/// that has all of the graph's operators.
///
/// Constants, element types and extents go along. Composite operators are written as what they are made of, for which all
/// inputs need fixed extents. Integer operators, fused epilogues, tables and other things that ONNX cannot
/// express are errors that name the node.
pub fn write(graph: &Graph) -> Result<Vec<u8>, Error> {
    graph.expect_numbers()?;
    let graph = &expanded(graph)?;
    let graph = &spelled::out(graph);
    let graph = &with_limits_as_operands(graph);
    // What the first round needs decides how the second one writes; opsets only grow, so two more always settle it.
    let mut target = OPSET;
    let (graph, nodes) = loop {
        let graph = with_axes_as_operands(graph, target);
        let (nodes, needed) = write_nodes(&graph, target)?;
        if needed <= target {
            break (graph, nodes);
        }
        target = needed;
    };
    let graph = &graph;
    let mut model = Writer::default();
    model.int(1, IR_VERSION.max(ir_version(target)));
    model.bytes(2, b"triune");
    model.message(7, |out| {
        for node in &nodes {
            out.bytes(1, node);
        }
        out.bytes(2, graph.name.as_bytes());
        for value in &graph.values {
            if let Some(constant) = &value.constant {
                out.message(5, |message| tensor(message, &value.name, constant));
            }
        }
        for (field, ids) in [(11, &graph.inputs), (12, &graph.outputs)] {
            for &id in ids {
                out.message(field, |message| value_info(message, graph.value(id)));
            }
        }
        let boundary: std::collections::HashSet<_> = graph.inputs.iter().chain(&graph.outputs).collect();
        for output in graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten()) {
            let value = graph.value(*output);
            if !boundary.contains(output) && value.dtype.is_some() {
                out.message(13, |message| value_info(message, value));
            }
        }
    });
    model.message(8, |opset| {
        opset.bytes(1, b"");
        opset.int(2, target);
    });
    Ok(model.finish())
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

fn write_nodes(graph: &Graph, target: i64) -> Result<(Vec<Vec<u8>>, i64), Error> {
    let mut needed = target;
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
        let name = ops::written_name(&node.op);
        let operator =
            ops::find(DEFAULT_DOMAIN, name).ok_or_else(|| fail("ONNX has no such operator".into()))?;
        let opset = OPSET.max(operator.first());
        let mut writer =
            NodeWriter { attributes: Writer::default(), graph, inputs: &node.inputs, opset, target };
        (operator.write)(&node.op, &mut writer).map_err(fail)?;
        needed = needed.max(writer.opset);
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
        nodes.push(bytes);
    }
    Ok((nodes, needed))
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

fn value_info(message: &mut Writer, value: &Value) {
    message.bytes(1, value.name.as_bytes());
    message.message(2, |types| {
        types.message(1, |tensor| {
            tensor.int(1, value.dtype.map_or(0, dtype_number));
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
    });
}
