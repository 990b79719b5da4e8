//! ONNX models of any number of nodes, one family per shape that a quadratic walk would hide in.

#[expect(dead_code, reason = "the reader's own tests make more")]
#[path = "../../../triune-graph/tests/onnx_common/mod.rs"]
mod onnx_common;

use onnx_common::{Message, Model, f32s, i64s, int, node, value};

/// A family of models: its name, and the model of about `count` nodes or edges.
pub(crate) type Family = (&'static str, fn(usize) -> Vec<u8>);

/// Every family that loads and runs.
pub(crate) const FAMILIES: [Family; 10] = [
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
];

/// Every family that is refused: for its number of inputs or outputs.
pub(crate) const REFUSED: [Family; 2] = [("inputs", inputs), ("outputs", outputs)];

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
    model((0..count).map(|i| node("Relu", &[&link(i, count)], &[&link(i + 1, count)], &[])).collect()).bytes()
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
