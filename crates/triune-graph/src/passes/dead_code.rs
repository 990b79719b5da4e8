//! Nodes and values that no output depends on.

use crate::{Error, Graph, walk::Walk};

/// Drops nodes that no output depends on, and values that nobody refers to; the rest is renumbered in canonical order
/// (inputs, constants, results in execution order). Inputs stay. Returns whether anything changed.
pub fn dead_code(graph: &mut Graph) -> Result<bool, Error> {
    let before = (graph.nodes.len(), graph.values.len());
    let mut live = vec![false; graph.values.len()];
    for id in &graph.outputs {
        live[id.0 as usize] = true;
    }
    // Operands are made before their use, so one look from the back sees every reader first.
    let mut keep = vec![false; graph.nodes.len()];
    let mut walk = Walk::new();
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        walk.node()?;
        keep[index] = node.outputs.iter().flatten().any(|id| live[id.0 as usize]);
        if keep[index] {
            for id in node.inputs.iter().flatten() {
                live[id.0 as usize] = true;
            }
        }
    }
    let mut keep = keep.into_iter();
    graph.nodes.retain(|_| keep.next().unwrap_or(true));
    graph.renumber();
    Ok(before != (graph.nodes.len(), graph.values.len()))
}
