//! What takes images of a batch together. A device computes each image alone.

use triune_graph::{Graph, Node, ValueId, infer};

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
        let operands = node.inputs.iter().enumerate().filter_map(|(index, id)| Some((index, (*id)?)));
        operands.filter_map(|(index, id)| Some((index, id, many.value(id).fixed_shape()?))).any(
            |(index, id, shape)| node.op.joins(index, shape.rank()).into_iter().any(|axis| grows(id, axis)),
        )
    };
    let (name, op) = many.nodes.iter().find(joins)?.title();
    Some((name.to_owned(), op.to_owned()))
}
