//! Models of any number of nodes, one family per shape that a quadratic walk would hide in, in every format.

#[expect(dead_code, reason = "the reader's own tests make more")]
#[path = "../../../../triune-graph/tests/it/onnx_common/mod.rs"]
mod onnx_common;
#[path = "../../../../triune-graph/tests/it/xir_common/net.rs"]
#[expect(dead_code, reason = "the reader's own tests make more")]
mod xir_net;

use onnx_common::{Message, Model, f32s, i64s, int, node, tensor, value};
use triune_graph::format::{mge, onnx};
use xir_net::{Net, real};

/// A family of models: its name, and the model of about `count` nodes or edges.
pub(crate) type Family = (&'static str, fn(usize) -> Vec<u8>);

/// Every family that loads and runs.
pub(crate) const FAMILIES: [Family; 18] = [
    ("chain of Relu", chain),
    ("chain of different functions", functions),
    ("residual additions", residual),
    ("Sum of one value", sum_of_one),
    ("Sum of many values", |count| wide("Sum", count)),
    ("Concat of many values", |count| wide("Concat", count)),
    ("Split into many values", split),
    ("values that live long", long_lived),
    ("constants", constants),
    ("one value read by all", read_by_all),
    ("nodes of one name", one_name),
    ("nodes in the wrong order", backwards),
    ("parts quantized one by one", quantized_parts),
    ("mge: chain of Relu", |count| as_mge(&chain(count))),
    ("mge: residual additions", |count| as_mge(&residual(count))),
    ("mge: values that live long", |count| as_mge(&long_lived(count))),
    ("xir: chain of Relu", xir_chain),
    ("xir: values that live long", xir_long_lived),
];

/// Every family that is refused: for its number of inputs or outputs.
pub(crate) const REFUSED: [Family; 5] = [
    ("inputs", inputs),
    ("outputs", outputs),
    ("mge: outputs", |count| as_mge(&outputs(count))),
    ("xir: inputs", xir_inputs),
    ("xir: outputs", xir_outputs),
];

/// Extents of the values.
const DIMS: [&str; 2] = ["1", "4"];

fn model(nodes: Vec<Message>) -> Model {
    Model { nodes, ..Model::new(17, &DIMS, &[]) }
}

fn name(index: usize) -> String {
    format!("v{index}")
}

/// The name of link `index` of a chain from x to y.
fn link(index: usize, count: usize) -> String {
    match index {
        0 => "x".into(),
        _ if index == count => "y".into(),
        _ => name(index),
    }
}

fn chain(count: usize) -> Vec<u8> {
    let nodes = (0..count).map(|i| node("Relu", &[&link(i, count)], &[&link(i + 1, count)], &[]));
    // As files have it: types that are not said are looked for.
    Model { outputs: vec![value("y", &DIMS)], ..model(nodes.collect()) }.bytes()
}

fn functions(count: usize) -> Vec<u8> {
    let kinds = ["Sigmoid", "Abs", "Exp", "Neg", "Tanh"];
    let nodes = (0..count).map(|i| node(kinds[i % 5], &[&link(i, count)], &[&link(i + 1, count)], &[]));
    model(nodes.collect()).bytes()
}

fn residual(count: usize) -> Vec<u8> {
    let count = count / 2;
    let nodes = (0..count).flat_map(|i| {
        let (from, inner) = (link(i, count), format!("r{i}"));
        [
            node("Sigmoid", &[&from], &[&inner], &[]),
            node("Add", &[&inner, &from], &[&link(i + 1, count)], &[]),
        ]
    });
    model(nodes.collect()).bytes()
}

fn sum_of_one(count: usize) -> Vec<u8> {
    model(vec![node("Sum", &vec!["x"; count], &["y"], &[])]).bytes()
}

fn wide(op: &str, count: usize) -> Vec<u8> {
    let mut nodes: Vec<Message> = (0..count).map(|i| node("Sigmoid", &["x"], &[&name(i)], &[])).collect();
    let names: Vec<String> = (0..count).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let attributes = if op == "Concat" { vec![int("axis", 1)] } else { Vec::new() };
    nodes.push(node(op, &names, &["y"], &attributes));
    model(nodes).bytes()
}

fn split(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let nodes = vec![
        node("Concat", &vec!["x"; count], &["all"], &[int("axis", 1)]),
        node("Split", &["all", "sizes"], &names, &[int("axis", 1)]),
        node("Concat", &names, &["y"], &[int("axis", 1)]),
    ];
    model(nodes).with(&[i64s("sizes", &vec![4; count])]).bytes()
}

/// Every value is read once more, in the opposite order: half of them are alive at once.
fn long_lived(count: usize) -> Vec<u8> {
    let half = (count / 2).max(1);
    let mut nodes: Vec<Message> = (0..half)
        .map(|i| node("Sigmoid", &[&if i == 0 { "x".into() } else { name(i) }], &[&name(i + 1)], &[]))
        .collect();
    for i in 0..half {
        let from = if i == 0 { name(half) } else { format!("s{i}") };
        let to = if i + 1 == half { "y".into() } else { format!("s{}", i + 1) };
        nodes.push(node("Add", &[&from, &name(half - i)], &[&to], &[]));
    }
    model(nodes).bytes()
}

fn constants(count: usize) -> Vec<u8> {
    let nodes =
        (0..count).map(|i| node("Add", &[&link(i, count), &format!("c{i}")], &[&link(i + 1, count)], &[]));
    let constants: Vec<Message> =
        (0..count).map(|i| f32s(&format!("c{i}"), &[1, 4], &[i as f32, 1.0, 2.0, 3.0])).collect();
    model(nodes.collect()).with(&constants).bytes()
}

fn read_by_all(count: usize) -> Vec<u8> {
    let mut nodes = vec![node("Sigmoid", &["x"], &["all"], &[])];
    nodes.extend((0..count).map(|i| {
        let from = if i == 0 { "all".into() } else { name(i) };
        let to = if i + 1 == count { "y".into() } else { name(i + 1) };
        node("Add", &[&from, "all"], &[&to], &[])
    }));
    model(nodes).bytes()
}

fn inputs(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(name).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let model = model(vec![node("Concat", &all, &["y"], &[int("axis", 1)])]);
    Model { inputs: names.iter().map(|name| value(name, &DIMS)).collect(), ..model }.bytes()
}

fn outputs(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(name).collect();
    let nodes = names.iter().map(|name| node("Sigmoid", &["x"], &[name], &[])).collect();
    let outputs = names.iter().map(|name| Message::default().text(1, name)).collect();
    Model { outputs, ..model(nodes) }.bytes()
}

fn one_name(count: usize) -> Vec<u8> {
    let node = |i| node("Relu", &[&link(i, count)], &[&link(i + 1, count)], &[]).text(3, "node");
    model((0..count).map(node).collect()).bytes()
}

fn backwards(count: usize) -> Vec<u8> {
    let node = |i| node("Sigmoid", &[&link(i, count)], &[&link(i + 1, count)], &[]);
    model((0..count).rev().map(node).collect()).bytes()
}

/// A zero point of 0, for i8.
fn zero() -> Message {
    tensor("zero", 3, &[]).bytes(9, &[0])
}

/// One value, of which every reader takes a view and quantizes it with a scale of its own.
fn quantized_parts(count: usize) -> Vec<u8> {
    let count = (count / 4).max(1);
    let mut nodes = vec![node("Sigmoid", &["x"], &["v"], &[])];
    let mut constants = vec![zero(), i64s("wish", &[4])];
    for i in 0..count {
        let [part, quantized, real, scale] = ["p", "q", "r", "s"].map(|stem| format!("{stem}{i}"));
        nodes.push(node("Reshape", &["v", "wish"], &[&part], &[]));
        nodes.push(node("QuantizeLinear", &[&part, &scale, "zero"], &[&quantized], &[]));
        nodes.push(node("DequantizeLinear", &[&quantized, &scale, "zero"], &[&real], &[]));
        constants.push(f32s(&scale, &[], &[(1.0 + i as f32) / 1e6]));
    }
    let parts: Vec<String> = (0..count).map(|i| format!("r{i}")).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    nodes.push(node("Concat", &parts, &["y"], &[int("axis", 0)]));
    model(nodes).with(&constants).bytes()
}

/// Integer operators between one quantizer and one dequantizer: what a device runs.
pub(crate) fn quantized_chain(count: usize) -> Vec<u8> {
    let count = count.div_ceil(3);
    let quantizer = |op, from: &str, to: &str| node(op, &[from, "scale", "zero"], &[to], &[]);
    let mut nodes = vec![quantizer("QuantizeLinear", "x", "q0")];
    for i in 0..count {
        let [from, real, sum, to] =
            [format!("q{i}"), format!("r{i}"), format!("s{i}"), format!("q{}", i + 1)];
        nodes.push(quantizer("DequantizeLinear", &from, &real));
        // Of two values: a function of one would become one table.
        nodes.push(node("Add", &[&real, "r0"], &[&sum], &[]));
        nodes.push(quantizer("QuantizeLinear", &sum, &to));
    }
    nodes.push(quantizer("DequantizeLinear", &format!("q{count}"), "y"));
    let model = Model { nodes, ..Model::new(17, &["1", "4", "2", "2"], &[]) };
    model.with(&[zero(), f32s("scale", &[], &[0.5])]).bytes()
}

/// Operators between stages, each behind the last: as many stages.
pub(crate) fn staged(count: usize) -> Vec<u8> {
    let count = (count / 2).max(1);
    let nodes = (0..count).flat_map(|i| {
        let (from, found) = (link(i, count), format!("n{i}"));
        let to = link(i + 1, count);
        [node("NonZero", &[&from], &[&found], &[]), node("Cast", &[&found], &[&to], &[int("to", 1)])]
    });
    model(nodes.collect()).bytes()
}

/// The same network as a `MegEngine` file.
fn as_mge(bytes: &[u8]) -> Vec<u8> {
    let graph = onnx::read_bytes(bytes.to_vec(), None).expect("a model");
    mge::write(&graph, &vec![vec![1, 4]; graph.inputs.len()]).expect("operators of the format")
}

fn xir_chain(count: usize) -> Vec<u8> {
    let mut net = Net::default();
    let mut last = net.input(real("NC", &[1, 4]));
    for _ in 0..count {
        last = net.op("Relu", &[last], real("NC", &[1, 4]), &[]);
    }
    net.finish(&[last]).write_json().into_bytes()
}

fn xir_long_lived(count: usize) -> Vec<u8> {
    let half = (count / 2).max(1);
    let mut net = Net::default();
    let mut values = vec![net.input(real("NC", &[1, 4]))];
    for i in 0..half {
        values.push(net.op("Sigmoid", &[values[i]], real("NC", &[1, 4]), &[]));
    }
    let mut last = values[half];
    for &other in values.iter().rev().skip(1) {
        last = net.op("Add", &[last, other], real("NC", &[1, 4]), &[]);
    }
    net.finish(&[last]).write_json().into_bytes()
}

fn xir_inputs(count: usize) -> Vec<u8> {
    let mut net = Net::default();
    let inputs: Vec<usize> = (0..count).map(|_| net.input(real("NC", &[1, 4]))).collect();
    let last = net.op("Relu", &inputs[..1], real("NC", &[1, 4]), &[]);
    net.finish(&[last]).write_json().into_bytes()
}

fn xir_outputs(count: usize) -> Vec<u8> {
    let mut net = Net::default();
    let x = net.input(real("NC", &[1, 4]));
    let outputs: Vec<usize> = (0..count).map(|_| net.op("Relu", &[x], real("NC", &[1, 4]), &[])).collect();
    net.finish(&outputs).write_json().into_bytes()
}
