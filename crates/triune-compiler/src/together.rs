//! What takes images of a batch together. A device computes each image alone.

use triune_graph::{Graph, Node, Op, ValueId, infer};

use crate::compile::{bind_batch, compile_room};

/// Images of the batch that extents are compared with: none that a model is likely to have of anything else.
const MANY: usize = 7;

/// The name and the operator of the first node that computes one result of several images, in a model whose batch is open: a mean
/// over all of them, a softmax among them, a product along them. With a batch of one it does not; that is what a program computes.
pub fn taken_together(model: &Graph) -> Option<(String, String)> {
    let _room = compile_room(model).ok()?;
    // What cannot have a batch of several takes none together.
    let [one, many] = [1, MANY].map(|batch| {
        let mut bound = bind_batch(model, batch).ok()?;
        infer::infer(&mut bound).ok()?;
        Some(bound)
    });
    let (one, many) = (one?, many?);
    let grows = |id: ValueId, axis: usize| {
        let extent = |graph: &Graph| graph.value(id).fixed_shape()?.get(axis).copied();
        extent(&one) != extent(&many)
    };
    let joins = |node: &&Node| {
        let operands = node.inputs.iter().flatten().enumerate();
        operands.filter_map(|(index, &id)| Some((index, id, many.value(id).fixed_shape()?))).any(
            |(index, id, shape)| {
                joined(&node.op, index, shape.rank()).into_iter().any(|axis| grows(id, axis))
            },
        )
    };
    let (name, op) = many.nodes.iter().find(joins)?.title();
    Some((name.to_owned(), op.to_owned()))
}

/// The axes of an operand along which results are made of several elements.
fn joined(op: &Op, index: usize, rank: usize) -> Vec<usize> {
    let counted = |axis: isize| if axis < 0 { axis.saturating_add_unsigned(rank) } else { axis } as usize;
    match (op, index) {
        (Op::Reduce(op), 0) => {
            let gone = op.reduced(rank).unwrap_or_default();
            gone.iter().enumerate().filter_map(|(axis, gone)| gone.then_some(axis)).collect()
        }
        (Op::ArgReduce(op), 0) => vec![counted(op.axis)],
        (Op::TopK(op), 0) => vec![counted(op.axis)],
        (Op::Running(op), 0) => vec![op.axis],
        (Op::Softmax(op), 0) if op.flatten => (counted(op.axis)..rank).collect(),
        (Op::Softmax(op), 0) => vec![counted(op.axis)],
        (Op::LayerNorm(op), 0) => (op.axes[0]..op.axes[1]).collect(),
        (Op::MatMul(_), 0) => vec![counted(-1)],
        (Op::MatMul(_), 1) => vec![counted(if rank > 1 { -2 } else { -1 })],
        _ => Vec::new(),
    }
}
