//! Control flow: networks that run or do not, or again and again.

use super::{DEFAULT_DOMAIN, Form, MANY, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op,
    ops::{Body, If, Loop, Map, Scan, ScanAxis},
};

/// A network with as many inputs of its own and results as the operator gives and takes.
fn body(
    node: &mut NodeReader<'_, '_>,
    name: &str,
    formals: usize,
    results: std::ops::RangeInclusive<usize>,
) -> Result<Body, Error> {
    let body = node.body(name)?;
    let (own, made) = (body.formals(), body.graph.outputs.len());
    if own != formals {
        return Err(node.unsupported(format!("'{name}' has {own} inputs, not {formals}")));
    }
    if !results.contains(&made) {
        return Err(node.unsupported(format!("'{name}' has {made} outputs, not {}", results.start())));
    }
    Ok(body)
}

fn choice(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let results = node.outputs.len();
    let then = body(node, "then_branch", 0, results..=results)?;
    let otherwise = body(node, "else_branch", 0, results..=results)?;
    for index in 0..results {
        let strings = then.makes_strings(index);
        if strings != otherwise.makes_strings(index) {
            return Err(node
                .unsupported(format!("output {index} is strings in one network and numbers in the other")));
        }
        if strings {
            node.makes_strings(index);
        }
    }
    Ok(If { then, otherwise }.into())
}

fn repetition(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let state = node.inputs.len().checked_sub(2);
    let state = state.ok_or_else(|| node.unsupported("fewer than 2 inputs"))?;
    let results = node.outputs.len() + 1;
    Ok(Loop { body: body(node, "body", 2 + state, results..=results)? }.into())
}

fn scan(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let batched = node.since < 9;
    let given = node.inputs.len().saturating_sub(usize::from(batched));
    let count = node.int("num_scan_inputs")?;
    let count =
        count.and_then(|count| usize::try_from(count).ok()).filter(|count| (1..=given).contains(count));
    let count =
        count.ok_or_else(|| node.unsupported("attribute 'num_scan_inputs' is not one to all inputs"))?;
    let results = node.outputs.len();
    let body = body(node, "body", given, results..=results)?;
    let collected = results.checked_sub(given - count);
    let collected = collected.ok_or_else(|| node.unsupported("fewer outputs than states"))?;
    let names = if batched {
        [["", "directions"], ["", ""]]
    } else {
        [["scan_input_axes", "scan_input_directions"], ["scan_output_axes", "scan_output_directions"]]
    };
    let [inputs, outputs] = [(names[0], count), (names[1], collected)];
    let inputs = axes(node, inputs.0, inputs.1)?;
    let outputs = axes(node, outputs.0, outputs.1)?;
    Ok(Scan { body, inputs, outputs, batched }.into())
}

/// The axes of attributes that have one number each for so many tensors.
fn axes(
    node: &mut NodeReader<'_, '_>,
    [axes, directions]: [&str; 2],
    count: usize,
) -> Result<Vec<ScanAxis>, Error> {
    let mut list = |name: &str| {
        let values = node.ints(name)?.unwrap_or_else(|| vec![0; count]);
        if values.len() != count {
            return Err(
                node.unsupported(format!("attribute '{name}' has {} elements, not {count}", values.len()))
            );
        }
        Ok(values)
    };
    let (axes, reversed) = (list(axes)?, list(directions)?);
    if reversed.iter().any(|direction| !(0..=1).contains(direction)) {
        return Err(node.unsupported(format!("attribute '{directions}' has other elements than 0 and 1")));
    }
    Ok(axes
        .into_iter()
        .zip(reversed)
        .map(|(axis, direction)| ScanAxis { axis, reverse: direction == 1 })
        .collect())
}

fn map(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (given, results) = (node.inputs.len(), node.outputs.len());
    Ok(Map { body: body(node, "body", given, results..=results)? }.into())
}

operators! {
    DEFAULT_DOMAIN;
    "If": [1, 11, 13, 16, 19, 21, 23, 24, 25] {1, 1, MANY => choice};
    "Loop": [1, 11, 13, 16, 19, 21, 23, 24, 25] {0, MANY, MANY => repetition};
    "SequenceMap": [17] {1, MANY, MANY => map};
    "Scan": [8] {0, MANY, MANY => scan} [9, 11, 16, 19, 21, 23, 24, 25] {1, MANY, MANY => scan};
}
