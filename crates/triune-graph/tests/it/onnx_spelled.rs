//! What nodes of ONNX become, for each way to spell them that makes a difference: every attribute, default and version, operands
//! that are there or not. `pinned/onnx/*.txt` has a spelling to a line and below it the graph as it was when values were last
//! compared, the graph as passes leave it where they change it, and what writers make of it. A line that is added is answered
//! with `TRIUNE_PIN=write cargo test -p triune-graph --test it onnx_spelled`, and so is a change that is meant.
//!
//! A spelling is an operator set, an operator, its operands, and behind a bar its attributes (`~` before one that does not say its
//! kind); `>3` asks for three results.
//! Operands are `f32[2,3]`, an input; `f32[2,3]#`, numbers; `i64{1,2}`, a known list; `i64(3)`, a known scalar; `-`, none.

use std::{collections::HashMap, fmt::Write, fs, path::Path};

use crate::onnx_common::{Message, float, floats, int, ints, node, tensor, tensor_attribute, text};
use triune_graph::{
    Error, Graph,
    format::{mge, onnx},
    infer::infer,
    passes,
};
use triune_testing::{digest, outline, pinned_answers};

/// Element types by ONNX's numbers.
const TYPES: &[(&str, i64)] = &[
    ("f32", 1),
    ("u8", 2),
    ("i8", 3),
    ("u16", 4),
    ("i16", 5),
    ("i32", 6),
    ("i64", 7),
    ("str", 8),
    ("bool", 9),
    ("f16", 10),
    ("f64", 11),
    ("u32", 12),
    ("u64", 13),
    ("bf16", 16),
    ("f8", 17),
];

/// The type that a text begins with, and the rest of it.
fn typed(text: &str) -> Option<(i64, &str)> {
    let end = text.find(['[', '{', '('])?;
    let (name, rest) = text.split_at(end);
    TYPES.iter().find(|(own, _)| *own == name).map(|(_, number)| (*number, rest))
}

/// The items between brackets, and what stands behind them.
fn items(text: &str, [open, close]: [char; 2]) -> Option<(Vec<&str>, &str)> {
    let (inner, rest) = text.strip_prefix(open)?.split_once(close)?;
    Some((inner.split(',').filter(|item| !item.is_empty()).collect(), rest))
}

fn bytes(dtype: i64, item: &str) -> Vec<u8> {
    let integer = || item.parse::<i64>().unwrap_or_else(|_| panic!("{item} is no integer")).to_le_bytes();
    let real = || item.parse::<f64>().unwrap_or_else(|_| panic!("{item} is no number"));
    match dtype {
        1 => (real() as f32).to_le_bytes().to_vec(),
        2 | 3 | 9 => integer()[..1].to_vec(),
        4 | 5 => integer()[..2].to_vec(),
        6 | 12 => integer()[..4].to_vec(),
        7 | 13 => integer().to_vec(),
        11 => real().to_le_bytes().to_vec(),
        _ => panic!("no constants of type {dtype} are spelled"),
    }
}

/// The `at`th of numbers that are all over the place.
fn number(dtype: i64, at: usize) -> Vec<u8> {
    let item = match dtype {
        1 | 11 => ((at * 23 % 33) as f64 / 8.0 - 2.0).to_string(),
        9 => (at * 5 % 3 % 2).to_string(),
        2 | 4 | 12 | 13 => (at * 37 % 29).to_string(),
        _ => ((at * 37 % 29) as i64 - 14).to_string(),
    };
    bytes(dtype, &item)
}

/// A known tensor: `{…}`, `(…)`, `[…]{…}` or `[…]#`.
fn known(name: &str, dtype: i64, text: &str) -> Option<Message> {
    let of = |dims: &[i64], items: &[&str]| {
        let raw: Vec<u8> = items.iter().flat_map(|item| bytes(dtype, item)).collect();
        tensor(name, dtype, dims).bytes(9, &raw)
    };
    if let Some((list, _)) = items(text, ['{', '}']) {
        return Some(of(&[list.len() as i64], &list));
    }
    if let Some((list, _)) = items(text, ['(', ')']) {
        return Some(of(&[], &list));
    }
    let (dims, rest) = items(text, ['[', ']'])?;
    let dims: Vec<i64> = dims.iter().map(|dim| dim.parse().expect("an extent")).collect();
    if let Some((list, _)) = items(rest, ['{', '}']) {
        return Some(of(&dims, &list));
    }
    (rest == "#").then(|| {
        let count = dims.iter().product::<i64>() as usize;
        let raw: Vec<u8> = (0..count).flat_map(|at| number(dtype, at)).collect();
        tensor(name, dtype, &dims).bytes(9, &raw)
    })
}

/// An attribute; behind `~` one that does not say what kind it is, as in old files.
fn attribute(name: &str, value: &str) -> Message {
    if let Some(name) = name.strip_prefix('~') {
        let mut own = attribute(name, value);
        // The field with the kind is the last: its number takes two bytes.
        own.0.truncate(own.0.len() - 3);
        return own;
    }
    if let Some((dtype, rest)) = typed(value) {
        return tensor_attribute(name, &known("", dtype, rest).expect("a tensor"));
    }
    if let Some((list, _)) = items(value, ['[', ']']) {
        if let Ok(numbers) = list.iter().map(|item| item.parse()).collect::<Result<Vec<i64>, _>>() {
            return ints(name, &numbers);
        }
        if let Ok(numbers) = list.iter().map(|item| item.parse()).collect::<Result<Vec<f32>, _>>() {
            return floats(name, &numbers);
        }
        return list.iter().fold(Message::default().text(1, name), |m, item| m.text(9, item)).int(20, 8);
    }
    if let Ok(number) = value.parse() {
        return int(name, number);
    }
    value.parse().map_or_else(|_| text(name, value), |number| float(name, number))
}

fn model(spelling: &str) -> Vec<u8> {
    let (operands, attributes) = spelling.split_once(" |").unwrap_or((spelling, ""));
    let mut words = operands.split_whitespace();
    let opset: i64 = words.next().and_then(|word| word.parse().ok()).expect("an operator set");
    let op = words.next().expect("an operator");
    let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
    let (mut graph, mut names) = (Message::default(), Vec::new());
    for (index, word) in words.enumerate() {
        if word == "-" {
            names.push(String::new());
            continue;
        }
        let name = format!("x{index}");
        let (dtype, rest) = typed(word).unwrap_or_else(|| panic!("operand {word}"));
        graph = if let Some(constant) = known(&name, dtype, rest) {
            graph.message(5, &constant)
        } else {
            let (dims, _) = items(rest, ['[', ']']).unwrap_or_else(|| panic!("operand {word}"));
            let shape = dims.iter().fold(Message::default(), |shape, dim| {
                shape.message(1, &Message::default().int(1, dim.parse().expect("an extent")))
            });
            let of = Message::default().message(1, &Message::default().int(1, dtype).message(2, &shape));
            graph.message(11, &Message::default().text(1, &name).message(2, &of))
        };
        names.push(name);
    }
    let (mut results, mut given) = (1, Vec::new());
    for word in attributes.split_whitespace() {
        if let Some(count) = word.strip_prefix('>') {
            results = count.parse().expect("how many results");
        } else {
            let (name, value) = word.split_once('=').expect("an attribute");
            given.push(attribute(name, value));
        }
    }
    let results: Vec<String> = (0..results).map(|index| format!("y{index}")).collect();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let own = node(op, &names, &results, &given).text(3, "it").text(7, domain);
    let graph = graph.message(1, &own);
    let graph =
        results.iter().fold(graph, |graph, name| graph.message(12, &Message::default().text(1, name)));
    let file = Message::default().int(1, 10).message(7, &graph);
    let file = file.message(8, &Message::default().text(1, "").int(2, opset));
    file.message(8, &Message::default().text(1, "com.microsoft").int(2, 1)).0
}

/// What writers make of a graph: how many bytes, and a number for all of them.
fn written(graph: &Graph) -> String {
    let shapes = mge::default_shapes(graph, &HashMap::new()).expect("no names");
    let told = |format: &str, file: Result<Vec<u8>, Error>| match file {
        Ok(file) => format!("  as {format}: {} bytes {:016x}\n", file.len(), digest(&file)),
        Err(error) => format!("  no {format}: {error}\n"),
    };
    told("ONNX", onnx::write(graph)) + &told("MGE", mge::write(graph, &shapes))
}

fn answer(spelling: &str) -> String {
    let read = match onnx::read_bytes(model(spelling), None) {
        Ok(graph) => graph,
        Err(error) => return format!("  refused: {error}\n"),
    };
    let mut graph = read.clone();
    match infer(&mut graph) {
        Ok(()) => {}
        // What runs in stages has extents only then.
        Err(error) if error.to_string().contains("the host runs it, behind") => {
            return outline(&read) + &written(&read);
        }
        Err(error) => return format!("  refused: {error}\n"),
    }
    let mut told = outline(&graph);
    told.push_str(&written(&graph));
    match passes::prepare(&mut graph) {
        Ok(false) => {}
        Ok(true) => {
            let prepared = outline(&graph).replace("\n  ", "\n    ");
            write!(told, "  prepared:\n    {}\n", prepared.trim()).expect("memory");
        }
        Err(error) => writeln!(told, "  not prepared: {error}").expect("memory"),
    }
    told
}

#[test]
fn spellings_become_what_they_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned/onnx");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 4, "{files:?}");
    for file in files {
        pinned_answers(&file, answer);
    }
}
