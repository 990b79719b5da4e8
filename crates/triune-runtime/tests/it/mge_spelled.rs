//! What operators of MegEngine's files become, for each way to spell them that makes a difference: every parameter, default and mode,
//! operands that are there or not. `pinned/mge.txt` has a spelling to a line and below it the graph as it was when values were last
//! compared. A line that is added is answered with `TRIUNE_PIN=write cargo test -p triune-runtime --test it mge_spelled`, and so is a
//! change that is meant.
//!
//! A spelling is an operator, the kind of its parameters and their slots, a bar, and the operands; `>2` asks for two results, `=qs8:0.5`
//! says the type of the first. Slots are `0=7` and `0=-7`, 32 bits; `0=0.5`, a real; `0b1`, a byte; `0q7`, 64 bits; `0w1,2` and `0s1,2`,
//! lists of words and of bytes, with how many make one behind a slash. Operands are `f32[2,3]`, an input; `f32[2,3]#`, numbers;
//! `i32{1,2}`, a known list.

use std::path::Path;

use crate::mge_common::{Field, File, Table, Type, dtype, read};
use triune_graph::infer::infer;
use triune_testing::{outline, pinned_answers};

/// A type: its name, and behind colons its scale and zero point.
fn of(text: &str) -> Type {
    let mut parts = text.split(':');
    let code = match parts.next().unwrap_or_default() {
        "f32" => 0,
        "u8" => 1,
        "i8" => 2,
        "i16" => 3,
        "i32" => 4,
        "f16" => 9,
        "qu8" => 11,
        "qs32" => 12,
        "qs8" => 13,
        "qs16" => 16,
        "bf16" => 17,
        "bool" => 18,
        "u16" => 19,
        other => panic!("type {other}"),
    };
    let scale = parts.next().map(|scale| scale.parse().expect("a scale"));
    let zero_point = parts.next().map_or(0, |zero_point| zero_point.parse().expect("a zero point"));
    Type(code, scale.map(|scale| (scale, zero_point)))
}

fn bytes(of: Type) -> usize {
    match of.0 {
        0 | 4 | 12 => 4,
        3 | 9 | 16 | 17 | 19 => 2,
        _ => 1,
    }
}

fn numbers(text: &str) -> Vec<i64> {
    let items = text.split(',').filter(|item| !item.is_empty());
    items.map(|item| item.parse().unwrap_or_else(|_| panic!("{item}"))).collect()
}

/// One slot of the parameters.
fn slot(text: &str) -> (usize, Field) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or_else(|| panic!("slot {text}"));
    let (number, value) = text.split_at(end);
    let (kind, value) = value.split_at(1);
    let list = |bytes: fn(i64) -> Vec<u8>| {
        let (items, size) = value.split_once('/').expect("how many make one");
        let data: Vec<u8> = numbers(items).into_iter().flat_map(bytes).collect();
        Field::Vector(data.len() / size.parse::<usize>().expect("a size"), 4, data)
    };
    let field = match kind {
        "=" if value.contains('.') => Field::F32(value.parse().expect("a real")),
        "=" => Field::U32(value.parse::<i64>().expect("an integer") as u32),
        "b" => Field::U8(value.parse().expect("a byte")),
        "q" => Field::U64(value.parse().expect("an integer")),
        "w" => list(|word| (word as i32).to_le_bytes().to_vec()),
        "s" => list(|byte| vec![byte as u8]),
        other => panic!("a slot of kind {other}"),
    };
    (number.parse().expect("a slot"), field)
}

fn operand(file: &mut File, index: usize, word: &str) -> u32 {
    if let Some((_, list)) = word.split_once('{') {
        let values: Vec<i32> =
            numbers(list.trim_end_matches('}')).iter().map(|&value| value as i32).collect();
        return file.ints(&values);
    }
    let (name, dims) = word.split_once('[').unwrap_or_else(|| panic!("operand {word}"));
    let (dims, rest) = dims.split_once(']').expect("extents");
    let shape: Vec<usize> = numbers(dims).iter().map(|&dim| dim as usize).collect();
    let of = of(name);
    if rest.is_empty() {
        return file.input(&format!("x{index}"), of, &shape);
    }
    let count: usize = shape.iter().product();
    if of.0 == 0 {
        return file
            .floats(&shape, &(0..count).map(|at| (at * 23 % 33) as f32 / 8.0 - 2.0).collect::<Vec<_>>());
    }
    let number = |at: usize| ((at * 37 % 29) as i32 - 14).to_le_bytes()[..bytes(of)].to_vec();
    file.constant(of, &shape, (0..count).flat_map(number).collect())
}

fn model(spelling: &str) -> Vec<u8> {
    let (operator, operands) = spelling.split_once(" |").expect("operands");
    let mut words = operator.split_whitespace();
    let op = words.next().expect("an operator");
    let kind: Option<u8> = words.next().map(|word| word.parse().expect("a kind of parameters"));
    let mut params: Table = Vec::new();
    for word in words {
        match word.strip_prefix("type=") {
            Some(name) => params.extend(dtype(of(name))),
            None => params.push(slot(word)),
        }
    }
    let (mut file, mut ids, mut results, mut typed) = (File::default(), Vec::new(), 1, None);
    for word in operands.split_whitespace() {
        if let Some(count) = word.strip_prefix('>') {
            results = count.parse().expect("how many results");
        } else if let Some(name) = word.strip_prefix('=') {
            typed = Some(of(name));
        } else {
            let id = operand(&mut file, ids.len(), word);
            ids.push(id);
        }
    }
    let made = match kind {
        Some(kind) if results > 1 => file.many(op, (kind, params), &ids, results),
        _ => vec![file.node(op, kind.map(|kind| (kind, params)), &ids, typed)],
    };
    file.finish(&made)
}

#[test]
fn spellings_become_what_they_did() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned/mge.txt");
    pinned_answers(&file, |spelling| {
        let model = match read(model(spelling)) {
            Ok(model) => model,
            Err(error) => return format!("  refused: {error}\n"),
        };
        let (mut graph, shapes) = (model.graph, model.default_shapes);
        let names: Vec<String> = graph.inputs.iter().map(|&id| graph.value(id).name.clone()).collect();
        let given: Vec<(&str, &[usize])> =
            names.iter().zip(&shapes).map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
        graph.bind(&given).expect("extents of the file");
        let read = outline(&graph);
        match infer(&mut graph) {
            Ok(()) => outline(&graph),
            // What runs in stages has extents only then.
            Err(error) if error.to_string().contains("the host runs it, behind") => read,
            Err(error) => format!("  refused: {error}\n"),
        }
    });
}
