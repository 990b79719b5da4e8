//! Reals of 16 bits widened: operators that compute do so in f32.

use std::collections::HashMap;

use triune_tensor::DType;

use crate::{Error, Graph, Node, Op, Provenance, Value, ValueId, infer::infer, ops::Cast};

/// Lets every operator that computes read and write f32 where the network has f16 or bf16. Returns whether anything changed.
///
/// Conversions stand where a value is stored: at the network's inputs and outputs, at constants, and around operators
/// that only move elements of those. Between two operators that compute, values of f16 keep f32's precision, moved or not; those of
/// bf16, whose 8 bits tell, are rounded behind each. Needs a bound graph; types are inferred before and after.
pub fn widen_half(graph: &mut Graph) -> Result<bool, Error> {
    infer(graph)?;
    widen_inferred(graph)
}

/// The same for a graph whose types are inferred.
pub(super) fn widen_inferred(graph: &mut Graph) -> Result<bool, Error> {
    if !graph.values.iter().any(|value| value.dtype.is_some_and(DType::is_half)) {
        return Ok(false);
    }
    let mut wide: HashMap<ValueId, ValueId> = HashMap::new();
    let nodes = std::mem::take(&mut graph.nodes);
    for mut node in nodes {
        // What is moved between operators that compute need not become f16 for that.
        let mut halves = node
            .inputs
            .iter()
            .flatten()
            .filter(|id| graph.value(**id).dtype.is_some_and(DType::is_half))
            .peekable();
        let between = node.op.moves() && halves.peek().is_some() && halves.all(|id| wide.contains_key(id));
        if node.op.takes_halves() && !between {
            graph.nodes.push(node);
            continue;
        }
        for input in node.inputs.iter_mut().flatten() {
            if !graph.value(*input).dtype.is_some_and(DType::is_half) {
                continue;
            }
            if let Some(&widened) = wide.get(input) {
                *input = widened;
                continue;
            }
            let widened = like(graph, *input);
            let node = cast(graph, *input, widened, DType::F32);
            graph.nodes.push(node);
            wide.insert(*input, widened);
            *input = widened;
        }
        let mut behind = Vec::new();
        for output in node.outputs.iter_mut().flatten() {
            let Some(dtype) = graph.value(*output).dtype.filter(|dtype| dtype.is_half()) else { continue };
            let widened = like(graph, *output);
            behind.push(cast(graph, widened, *output, dtype));
            if dtype == DType::F16 {
                wide.insert(*output, widened);
            }
            *output = widened;
        }
        graph.nodes.push(node);
        graph.nodes.extend(behind);
    }
    super::dead_code(graph)?;
    infer(graph)?;
    Ok(true)
}

/// An f32 value for the same elements.
fn like(graph: &mut Graph, id: ValueId) -> ValueId {
    let value = graph.value(id);
    let name = format!("{}:f32.{}", value.name, graph.values.len());
    let shape = value.shape.clone();
    graph.add_value(Value {
        dtype: Some(DType::F32),
        shape,
        provenance: Provenance::Pass,
        ..Value::named(name)
    })
}

fn cast(graph: &Graph, from: ValueId, to: ValueId, dtype: DType) -> Node {
    let name = format!("{}.Cast", graph.value(to).name);
    Node::new(name, Op::Cast(Cast { to: dtype }), vec![Some(from)], vec![Some(to)])
}
