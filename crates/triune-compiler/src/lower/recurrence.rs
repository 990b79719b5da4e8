//! Recurrences over time.

use triune_device::{Weights, command::Recurrence};
use triune_graph::{Node, ops};

use super::{Form, Lowering, constant, extents, lowers, operand, result};
use crate::Error;

lowers! {
    Recurrence => |to, node, op| to.recurrence(node, op);
}

impl Lowering<'_> {
    pub(super) fn recurrence(&mut self, node: &Node, op: &ops::Recurrence) -> Result<(), Error> {
        let (x, weights, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let input = self.dense(x)?;
        let maybe = |index: usize| node.inputs.get(index).copied().flatten();
        let mut more = [None; 3];
        for (view, index) in more.iter_mut().zip(2..) {
            *view = maybe(index).map(|id| self.dense(id)).transpose()?;
        }
        let [vectors, initial, lengths] = more;
        let (directions, gates) = (op.backwards.len(), op.cell.gates());
        let (rows, hidden) = self.meta(weights).map(|(dims, _)| (dims[0] * dims[1], dims[2]))?;
        let (known, given) = match &self.graph.value(weights).constant {
            Some(weights) => {
                let (bytes, recipe) = self.weight_elements(weights);
                let weights = Weights {
                    bytes,
                    recipe,
                    elem_bytes: weights.dtype().bytes(),
                    extents: [rows, 1, hidden],
                    strides: [hidden, hidden, 1],
                };
                let addr = match self.library {
                    Some(library) => library.add(&weights),
                    None => Some(constant(self.constants.add(&weights.dense()))),
                };
                (Some(addr.ok_or_else(|| Error::unsupported(node, "weights without elements"))?), None)
            }
            None => (None, Some(self.dense(weights)?)),
        };
        debug_assert_eq!(rows, directions * gates * hidden);
        let output = self.place(y, Form::Dense)?;
        let addr = |view: &Option<_>| view.as_ref().map(|view| self.addr(view)).transpose();
        let at = |direction: usize| op.functions.get(direction).unwrap_or(&op.functions[0]);
        let ([f, g, j], [other_f, other_g, other_j]) = (*at(0), *at(1));
        let [steps, batch, directions, hidden] = extents([input.dims[0], input.dims[1], directions, hidden])?;
        let command = Recurrence {
            cell: op.cell,
            steps,
            directions,
            batch,
            hidden,
            backwards: [op.backwards[0], op.backwards.get(1).is_some_and(|&backwards| backwards)],
            functions: [f, g, j, other_f, other_g, other_j],
            clip: op.clip,
            coupled: op.coupled,
            input: self.addr(&input)?,
            weights: known,
            given_weights: addr(&given)?,
            vectors: addr(&vectors)?,
            initial: addr(&initial)?,
            lengths: addr(&lengths)?,
            output: self.addr(&output)?,
        };
        let mut touched = vec![&input, &output];
        touched.extend([&given, &vectors, &initial, &lengths].into_iter().flatten());
        self.emit(command, &touched);
        Ok(())
    }
}
