//! Operators that run networks of their own: one of two, one again and again, one along an axis.
//!
//! They run between the stages of the network around them (see [`crate::passes::stages`]), which is also where their own
//! networks' extents become known. Only an [`If`] whose condition follows from extents is gone by then: shape inference
//! puts the chosen network in its place.

use std::sync::Arc;

use crate::{Graph, ValueKind};

/// A network within a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// The network. Its inputs' extents are open, and their types, too, where the file does not say them.
    pub graph: Arc<Graph>,
    /// How many of the graph's last inputs are values of the network around it, which are operands of the operator.
    pub captures: usize,
    /// The ranks of the other inputs, as far as the file declares them.
    pub ranks: Vec<Option<usize>>,
}

impl Body {
    /// The inputs that the operator itself gives.
    pub fn formals(&self) -> usize {
        self.graph.inputs.len() - self.captures
    }

    /// Whether result `index` is of strings.
    pub(crate) fn makes_strings(&self, index: usize) -> bool {
        let id = self.graph.outputs.get(index);
        id.is_some_and(|&id| self.graph.value(id).kind == ValueKind::Strings)
    }
}

/// One of two networks without inputs of their own, by a boolean; the captures of the first come before those of the second.
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    /// What runs if the condition is true.
    pub then: Body,
    /// What runs if it is not.
    pub otherwise: Body,
}

/// A network as long as its first result is true, and at most so many rounds.
///
/// The network's inputs are the round (i64), the condition and the state; its results are the condition, the state, and what
/// is collected: one element along a new first axis per round. Results: the state, what was collected.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The network.
    pub body: Body,
}

/// A network for each element of a list: its inputs are an element of each operand that is a list, or the operand itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The network.
    pub body: Body,
}

/// How a tensor is walked along, or made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanAxis {
    /// The axis; from the end where it is negative.
    pub axis: i64,
    /// Whether the last element comes first.
    pub reverse: bool,
}

/// A network for each position along axes of some of its operands.
///
/// The network's inputs are the state and an element of each of those operands; its results are the state and an element of
/// each result that is collected.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The network.
    pub body: Body,
    /// What is walked along: one per operand, which are the last ones before the captures.
    pub inputs: Vec<ScanAxis>,
    /// How results are collected: one per result, which are the last ones.
    pub outputs: Vec<ScanAxis>,
    /// Whether a first axis of all of them is a batch, each entry of which is a scan of its own, and operand 0 has their lengths
    /// (as the operator's first version has it).
    pub batched: bool,
}
