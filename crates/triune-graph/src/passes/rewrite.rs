//! Bookkeeping for passes that replace patterns: who makes and who reads each value while nodes come and go.
//!
//! Knows no operator. Nodes are only marked while a pass runs; [`Rewriter::commit`] puts the survivors in order.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use smallvec::smallvec;
use triune_tensor::{Requantize, Rounding};

use crate::{Constant, Error, Graph, Node, Provenance, Value, ValueId, ValueIds, walk::Walk};

/// One operand position of the network, in the list of those that read the same value.
#[derive(Clone, Copy, Debug)]
struct Reader {
    node: u32,
    operand: u32,
    before: u32,
    after: u32,
}

/// Where a list of readers ends.
const END: u32 = u32::MAX;

/// Who reads each value: lists in no order, through one table of all operand positions.
#[derive(Debug, Default)]
struct Readers {
    table: Vec<Reader>,
    /// For every value, its first reader.
    first: Vec<u32>,
}

impl Readers {
    fn add(&mut self, id: ValueId, reader: u32) {
        let first = &mut self.first[id.0 as usize];
        let after = std::mem::replace(first, reader);
        (self.table[reader as usize].before, self.table[reader as usize].after) = (END, after);
        if after != END {
            self.table[after as usize].before = reader;
        }
    }

    fn remove(&mut self, id: ValueId, reader: u32) {
        let Reader { before, after, .. } = self.table[reader as usize];
        match before {
            END => self.first[id.0 as usize] = after,
            before => self.table[before as usize].after = after,
        }
        if after != END {
            self.table[after as usize].before = before;
        }
    }

    fn of(&self, id: ValueId) -> impl Iterator<Item = &Reader> {
        let next = |at: u32| self.table.get(at as usize);
        std::iter::successors(next(self.first[id.0 as usize]), move |reader| next(reader.after))
    }
}

/// A graph under change. Node indices stay valid until [`Rewriter::commit`].
///
/// Every change costs what the nodes that it touches have operands, however many others read the same values.
pub(super) struct Rewriter<'a> {
    graph: &'a mut Graph,
    /// `None` where a node is gone.
    nodes: Vec<Option<Node>>,
    /// For every node, where its operands begin in the table of readers.
    operands: Vec<u32>,
    /// Where each node should stand: new and moved nodes take the place of another one.
    rank: Vec<u32>,
    producers: Vec<Option<u32>>,
    readers: Readers,
    is_output: Vec<bool>,
    /// The values' names that one that is made up can be like, once one has been added.
    names: Option<HashSet<String>>,
    changed: bool,
    walk: Walk,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(graph: &'a mut Graph) -> Self {
        let mut is_output = vec![false; graph.values.len()];
        for id in &graph.outputs {
            is_output[id.0 as usize] = true;
        }
        let nodes: Vec<Option<Node>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
        let mut rewriter = Self {
            rank: (0..nodes.len() as u32).collect(),
            producers: vec![None; graph.values.len()],
            readers: Readers {
                table: Vec::with_capacity(2 * nodes.len()),
                first: vec![END; graph.values.len()],
            },
            operands: vec![0; nodes.len()],
            graph,
            nodes,
            is_output,
            names: None,
            changed: false,
            walk: Walk::new(),
        };
        for index in 0..rewriter.nodes.len() {
            rewriter.link(index);
        }
        rewriter
    }

    /// Before a node is looked at: fails when the work is to stop. What is not committed is lost then.
    pub(super) fn go_on(&mut self) -> Result<(), Error> {
        self.walk.node()
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
        let index = self.producers[id.0 as usize]? as usize;
        Some((index, self.get(index)?))
    }

    /// The nodes that read this value, once per operand position, in no order.
    pub(super) fn consumers(&self, id: ValueId) -> impl Iterator<Item = usize> + '_ {
        self.readers.of(id).map(|reader| reader.node as usize)
    }

    pub(super) fn is_output(&self, id: ValueId) -> bool {
        self.is_output[id.0 as usize]
    }

    /// Whether one operand position of the whole network reads this value, and no caller.
    pub(super) fn is_private(&self, id: ValueId) -> bool {
        let mut readers = self.readers.of(id);
        readers.next().is_some() && readers.next().is_none() && !self.is_output(id)
    }

    /// Where the node stands in the execution order, to compare with others.
    pub(super) fn rank(&self, index: usize) -> usize {
        self.rank[index] as usize
    }

    /// Lets the node take the place of another one.
    pub(super) fn move_to(&mut self, index: usize, place: usize) {
        self.rank[index] = self.rank[place];
    }

    /// Adds a value under a name made unique from `name`.
    pub(super) fn add_value(&mut self, mut value: Value) -> ValueId {
        let names = || self.graph.values.iter().map(|value| value.name.as_str());
        let names = self
            .names
            .get_or_insert_with(|| names().filter(|name| name.contains('#')).map(String::from).collect());
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
        self.readers.first.push(END);
        self.is_output.push(false);
        self.graph.add_value(value)
    }

    /// Adds a node that stands where `place` does.
    pub(super) fn add_node(&mut self, node: Node, place: usize) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Some(node));
        self.operands.push(0);
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
        let mut next = std::mem::replace(&mut self.readers.first[old.0 as usize], END);
        while let Some(&Reader { node, operand, after, .. }) = self.readers.table.get(next as usize) {
            self.nodes[node as usize].as_mut().expect("a live node").inputs[operand as usize] = Some(new);
            self.readers.add(new, next);
            next = after;
        }
        self.changed = true;
        self.sweep(smallvec![Some(old)]);
    }

    fn link(&mut self, index: usize) {
        let node = self.nodes[index].as_ref().expect("a live node");
        for output in node.outputs.iter().flatten() {
            self.producers[output.0 as usize] = Some(index as u32);
        }
        self.operands[index] = self.readers.table.len() as u32;
        for (operand, input) in (0..).zip(&node.inputs) {
            let reader = self.readers.table.len() as u32;
            self.readers.table.push(Reader { node: index as u32, operand, before: END, after: END });
            if let Some(id) = *input {
                self.readers.add(id, reader);
            }
        }
    }

    fn unlink(&mut self, index: usize) -> Node {
        let node = self.nodes[index].take().expect("a live node");
        for output in node.outputs.iter().flatten() {
            if self.producers[output.0 as usize] == Some(index as u32) {
                self.producers[output.0 as usize] = None;
            }
        }
        for (reader, input) in (self.operands[index]..).zip(&node.inputs) {
            if let Some(id) = *input {
                self.readers.remove(id, reader);
            }
        }
        node
    }

    /// Removes the producers of these values as far as nobody needs them any more.
    fn sweep(&mut self, mut values: ValueIds) {
        while let Some(value) = values.pop() {
            let Some((index, node)) = value.and_then(|id| self.producer(id)) else { continue };
            if !self.is_needed(node) {
                values.extend(self.unlink(index).inputs);
            }
        }
    }

    /// Whether somebody reads one of the node's results.
    fn is_needed(&self, node: &Node) -> bool {
        let needed = |id: &ValueId| self.readers.of(*id).next().is_some() || self.is_output(*id);
        node.outputs.iter().flatten().any(needed)
    }

    /// Removes every node whose results nobody needs.
    pub(super) fn sweep_all(&mut self) {
        for index in (0..self.len()).rev() {
            if let Some(node) = self.get(index)
                && !self.is_needed(node)
            {
                let inputs = self.unlink(index).inputs;
                self.changed = true;
                self.sweep(inputs);
            }
        }
    }

    /// Writes the nodes back in an order in which every operand is made before it is used, and otherwise by rank.
    /// Returns whether anything changed.
    pub(super) fn commit(mut self) -> bool {
        if self.changed {
            self.put_in_order();
        }
        #[expect(clippy::filter_map_identity, reason = "flatten() would copy them to memory of its own")]
        let nodes = self.nodes.into_iter().filter_map(|node| node).collect();
        self.graph.nodes = nodes;
        self.changed
    }

    fn put_in_order(&mut self) {
        let key = |index: u32| (self.rank[index as usize], index);
        let mut order: Vec<u32> =
            (0..self.nodes.len() as u32).filter(|&index| self.nodes[index as usize].is_some()).collect();
        order.sort_by_key(|&index| key(index));
        let mut place = vec![0; self.nodes.len()];
        for (at, &index) in (0_u32..).zip(&order) {
            place[index as usize] = at;
        }
        let comes_before = |id: &ValueId, at: u32| {
            self.producers[id.0 as usize].is_none_or(|maker| place[maker as usize] < at)
        };
        let is_sound = (0..).zip(&order).all(|(at, &index)| {
            let mut operands =
                self.nodes[index as usize].iter().flat_map(|node| node.inputs.iter().flatten());
            operands.all(|id| comes_before(id, at))
        });
        if !is_sound {
            order = self.order_by_operands();
        }
        if !order.is_sorted() {
            let mut left = std::mem::take(&mut self.nodes);
            self.nodes = order.into_iter().map(|index| left[index as usize].take()).collect();
        }
    }

    /// The nodes in the lowest order by rank in which every operand is made before it is used.
    fn order_by_operands(&self) -> Vec<u32> {
        // Operand positions of each node that wait for another node's result.
        let mut missing = vec![0_usize; self.nodes.len()];
        for (id, producer) in (0..).zip(&self.producers) {
            if producer.is_some() {
                for reader in self.readers.of(ValueId(id)) {
                    missing[reader.node as usize] += 1;
                }
            }
        }
        let key = |index: u32| Reverse((self.rank[index as usize], index));
        let mut ready: BinaryHeap<_> = (0..self.nodes.len() as u32)
            .filter(|&index| self.nodes[index as usize].is_some() && missing[index as usize] == 0)
            .map(key)
            .collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut is_placed = vec![false; self.nodes.len()];
        while let Some(Reverse((_, index))) = ready.pop() {
            let Some(node) = &self.nodes[index as usize] else { continue };
            if std::mem::replace(&mut is_placed[index as usize], true) {
                continue;
            }
            for output in node.outputs.iter().flatten() {
                for reader in self.readers.of(*output) {
                    missing[reader.node as usize] -= 1;
                    if missing[reader.node as usize] == 0 {
                        ready.push(key(reader.node));
                    }
                }
            }
            order.push(index);
        }
        // Only a graph that had a cycle to begin with leaves nodes here; it keeps them.
        let left = (0..self.nodes.len() as u32).filter(|&index| !is_placed[index as usize]);
        order.extend(left.filter(|&index| self.nodes[index as usize].is_some()));
        order
    }
}
