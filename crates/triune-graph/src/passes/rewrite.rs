//! Bookkeeping for passes that replace patterns: who makes and who reads each value while nodes come and go.
//!
//! Knows no operator. Nodes are only marked while a pass runs; [`Rewriter::commit`] puts the survivors in order.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use triune_tensor::{Requantize, Rounding};

use crate::{Constant, Graph, Node, Provenance, Value, ValueId};

/// One operand position of the network.
#[derive(Clone, Copy, Debug)]
struct Reader {
    node: usize,
    operand: usize,
}

/// A graph under change. Node indices stay valid until [`Rewriter::commit`].
///
/// Every change costs what the nodes that it touches have operands, however many others read the same values.
pub(super) struct Rewriter<'a> {
    graph: &'a mut Graph,
    /// `None` where a node is gone.
    nodes: Vec<Option<Node>>,
    /// For every operand of each node, its place among the readers of the value there.
    places: Vec<Vec<usize>>,
    /// Where each node should stand: new and moved nodes take the place of another one.
    rank: Vec<usize>,
    producers: Vec<Option<usize>>,
    /// In no order.
    readers: Vec<Vec<Reader>>,
    is_output: Vec<bool>,
    /// The values' names, once one has been added.
    names: Option<HashSet<String>>,
    changed: bool,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(graph: &'a mut Graph) -> Self {
        let mut is_output = vec![false; graph.values.len()];
        for id in &graph.outputs {
            is_output[id.0 as usize] = true;
        }
        let nodes: Vec<Option<Node>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
        let mut rewriter = Self {
            rank: (0..nodes.len()).collect(),
            producers: vec![None; graph.values.len()],
            readers: vec![Vec::new(); graph.values.len()],
            places: vec![Vec::new(); nodes.len()],
            graph,
            nodes,
            is_output,
            names: None,
            changed: false,
        };
        for index in 0..rewriter.nodes.len() {
            rewriter.link(index);
        }
        rewriter
    }

    /// One past the largest node index; nodes added later have larger ones.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node, unless it is gone.
    pub(super) fn get(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)?.as_ref()
    }

    /// The graph as far as its values go.
    pub(super) fn graph(&self) -> &Graph {
        self.graph
    }

    /// How the graph's operators make integers.
    pub(super) fn rounding(&self) -> Rounding {
        self.graph.rounding
    }

    /// What the factors of the graph's integer operators are.
    pub(super) fn requantize(&self) -> Requantize {
        self.graph.requantize
    }

    pub(super) fn value(&self, id: ValueId) -> &Value {
        self.graph.value(id)
    }

    pub(super) fn value_mut(&mut self, id: ValueId) -> &mut Value {
        self.graph.value_mut(id)
    }

    /// Makes the elements of a value known.
    pub(super) fn set_constant(&mut self, id: ValueId, constant: Constant) {
        self.graph.set_constant(id, constant);
    }

    /// The node that makes this value.
    pub(super) fn producer(&self, id: ValueId) -> Option<(usize, &Node)> {
        let index = self.producers[id.0 as usize]?;
        Some((index, self.get(index)?))
    }

    /// The nodes that read this value, once per operand position, in no order.
    pub(super) fn consumers(&self, id: ValueId) -> impl Iterator<Item = usize> + '_ {
        self.readers[id.0 as usize].iter().map(|reader| reader.node)
    }

    pub(super) fn is_output(&self, id: ValueId) -> bool {
        self.is_output[id.0 as usize]
    }

    /// Whether one operand position of the whole network reads this value, and no caller.
    pub(super) fn is_private(&self, id: ValueId) -> bool {
        self.readers[id.0 as usize].len() == 1 && !self.is_output(id)
    }

    /// Where the node stands in the execution order, to compare with others.
    pub(super) fn rank(&self, index: usize) -> usize {
        self.rank[index]
    }

    /// Lets the node take the place of another one.
    pub(super) fn move_to(&mut self, index: usize, place: usize) {
        self.rank[index] = self.rank[place];
    }

    /// Adds a value under a name made unique from `name`.
    pub(super) fn add_value(&mut self, mut value: Value) -> ValueId {
        let names = self
            .names
            .get_or_insert_with(|| self.graph.values.iter().map(|value| value.name.clone()).collect());
        if value.provenance == Provenance::Network {
            value.provenance = Provenance::Pass;
        }
        let stem = std::mem::take(&mut value.name);
        let mut number = self.graph.values.len();
        value.name = loop {
            let name = format!("{stem}#{number}");
            if names.insert(name.clone()) {
                break name;
            }
            number += 1;
        };
        self.producers.push(None);
        self.readers.push(Vec::new());
        self.is_output.push(false);
        self.graph.add_value(value)
    }

    /// Adds a node that stands where `place` does.
    pub(super) fn add_node(&mut self, node: Node, place: usize) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Some(node));
        self.places.push(Vec::new());
        self.rank.push(self.rank[place]);
        self.link(index);
        self.changed = true;
        index
    }

    /// Puts another node in this one's place. Nodes that only served the old one go.
    pub(super) fn replace(&mut self, index: usize, node: Node) {
        let old = self.unlink(index);
        self.nodes[index] = Some(node);
        self.link(index);
        self.sweep(old.inputs);
        self.changed = true;
    }

    /// Takes the node out. What served it stays: the caller has another use for it.
    pub(super) fn remove(&mut self, index: usize) {
        self.unlink(index);
        self.changed = true;
    }

    /// Lets every reader of `old` read `new`; what only served to make `old` goes. `old` must not be a graph output.
    pub(super) fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        debug_assert!(!self.is_output(old));
        for reader in std::mem::take(&mut self.readers[old.0 as usize]) {
            self.nodes[reader.node].as_mut().expect("a live node").inputs[reader.operand] = Some(new);
            self.add_reader(new, reader);
        }
        self.changed = true;
        self.sweep(vec![Some(old)]);
    }

    fn link(&mut self, index: usize) {
        let node = self.nodes[index].take().expect("a live node");
        for output in node.outputs.iter().flatten() {
            self.producers[output.0 as usize] = Some(index);
        }
        self.places[index] = vec![0; node.inputs.len()];
        for (operand, input) in node.inputs.iter().enumerate() {
            if let Some(id) = *input {
                self.add_reader(id, Reader { node: index, operand });
            }
        }
        self.nodes[index] = Some(node);
    }

    fn add_reader(&mut self, id: ValueId, reader: Reader) {
        let readers = &mut self.readers[id.0 as usize];
        self.places[reader.node][reader.operand] = readers.len();
        readers.push(reader);
    }

    fn unlink(&mut self, index: usize) -> Node {
        let node = self.nodes[index].take().expect("a live node");
        for output in node.outputs.iter().flatten() {
            if self.producers[output.0 as usize] == Some(index) {
                self.producers[output.0 as usize] = None;
            }
        }
        for (operand, input) in node.inputs.iter().enumerate() {
            let Some(id) = input else { continue };
            let place = self.places[index][operand];
            let readers = &mut self.readers[id.0 as usize];
            readers.swap_remove(place);
            if let Some(moved) = readers.get(place) {
                self.places[moved.node][moved.operand] = place;
            }
        }
        node
    }

    /// Removes the producers of these values as far as nobody needs them any more.
    fn sweep(&mut self, mut values: Vec<Option<ValueId>>) {
        while let Some(value) = values.pop() {
            let Some((index, node)) = value.and_then(|id| self.producer(id)) else { continue };
            let needed = |id: &ValueId| !self.readers[id.0 as usize].is_empty() || self.is_output(*id);
            if !node.outputs.iter().flatten().any(needed) {
                values.extend(self.unlink(index).inputs);
            }
        }
    }

    /// Removes every node whose results nobody needs.
    pub(super) fn sweep_all(&mut self) {
        for index in (0..self.len()).rev() {
            let Some(node) = self.get(index) else { continue };
            let outputs = node.outputs.clone();
            self.sweep(outputs);
            self.changed |= self.nodes[index].is_none();
        }
    }

    /// Writes the nodes back in an order in which every operand is made before it is used, and otherwise by rank.
    /// Returns whether anything changed.
    pub(super) fn commit(self) -> bool {
        let mut nodes = self.nodes;
        // Operand positions of each node that wait for another node's result.
        let mut missing = vec![0_usize; nodes.len()];
        for (id, readers) in self.readers.iter().enumerate() {
            if self.producers[id].is_some() {
                for reader in readers {
                    missing[reader.node] += 1;
                }
            }
        }
        let key = |index: usize| Reverse((self.rank[index], index));
        let mut ready: BinaryHeap<_> = (0..nodes.len())
            .filter(|&index| nodes[index].is_some() && missing[index] == 0)
            .map(key)
            .collect();
        while let Some(Reverse((_, index))) = ready.pop() {
            let Some(node) = nodes[index].take() else { continue };
            for output in node.outputs.iter().flatten() {
                for reader in &self.readers[output.0 as usize] {
                    missing[reader.node] -= 1;
                    if missing[reader.node] == 0 {
                        ready.push(key(reader.node));
                    }
                }
            }
            self.graph.nodes.push(node);
        }
        // Only a graph that had a cycle to begin with leaves nodes here; it keeps them.
        self.graph.nodes.extend(nodes.into_iter().flatten());
        self.changed
    }
}
