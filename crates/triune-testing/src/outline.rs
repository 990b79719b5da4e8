//! Graphs as texts, for what tests write down of them.

use std::fmt::Write;

use triune_graph::{Constant, Graph, ValueId};

use crate::digest;

/// Elements that are told one by one; of more there is a number for all.
const TOLD: usize = 24;

/// A graph in lines of two spaces and a node each: results with type and extents, the operator with its attributes, operands.
///
/// Inputs are called x0, x1, …, outputs y0, y1, …, what lies between t0, t1, …; constants are their elements. What the node says of
/// integers stands behind it. A constant that is an output has a line of its own.
pub fn outline(graph: &Graph) -> String {
    let mut names = vec![String::new(); graph.values.len()];
    for (ids, letter) in [(&graph.outputs, 'y'), (&graph.inputs, 'x')] {
        for (at, id) in ids.iter().enumerate() {
            names[id.0 as usize] = format!("{letter}{at}");
        }
    }
    let between = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let mut count = 0;
    for id in between {
        let name = &mut names[id.0 as usize];
        if name.is_empty() {
            *name = format!("t{count}");
            count += 1;
        }
    }
    let mut out = String::new();
    let operand = |id: &Option<ValueId>| match id {
        None => "-".to_owned(),
        Some(id) => match &graph.value(*id).constant {
            Some(constant) => elements(constant),
            None => names[id.0 as usize].clone(),
        },
    };
    for node in &graph.nodes {
        let results = node.outputs.iter().map(|id| match id {
            None => "-".to_owned(),
            Some(id) => format!("{} {}", names[id.0 as usize], kind(graph, *id)),
        });
        let results: Vec<String> = results.collect();
        let operands: Vec<String> = node.inputs.iter().map(operand).collect();
        write!(out, "  {} = {:?} ({})", results.join(", "), node.op, operands.join(", ")).expect("memory");
        if let Some(quant) = &node.quant {
            write!(out, " {quant:?}").expect("memory");
        }
        out.push('\n');
    }
    for id in &graph.outputs {
        if let Some(constant) = &graph.value(*id).constant {
            writeln!(out, "  {} = {}", names[id.0 as usize], elements(constant)).expect("memory");
        }
    }
    out
}

/// A value's type and extents, as far as they are known.
fn kind(graph: &Graph, id: ValueId) -> String {
    let value = graph.value(id);
    let dtype = value.dtype.map_or("?".into(), |dtype| dtype.to_string());
    let what = if value.kind.is_tensor() { "" } else { value.kind.name() };
    match value.fixed_shape() {
        Some(shape) => format!("{what}{dtype}{:?}", &*shape),
        None => format!("{what}{dtype}{:?}", value.shape),
    }
}

/// A constant's type, extents and elements.
fn elements(constant: &Constant) -> String {
    let start = format!("{}{:?}", constant.dtype(), constant.dims());
    if constant.elements() > TOLD {
        return format!("{start}#{:016x}", digest(constant.bytes()));
    }
    let told: Vec<String> = match (constant.to_i64(), constant.to_f64()) {
        (Some(values), _) => values.iter().map(ToString::to_string).collect(),
        (None, Some(values)) => values.iter().map(ToString::to_string).collect(),
        (None, None) => constant.bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    format!("{start}{{{}}}", told.join(","))
}
