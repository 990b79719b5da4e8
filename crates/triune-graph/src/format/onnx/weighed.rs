//! Weighted sums of picked elements, put together again from the operators that they are written as (`spelled.rs`): so a file has
//! their bits, too, with one rounding for each product and its sum.

use std::collections::HashSet;

use triune_tensor::DType;

use crate::{
    Graph, Node, NodeId, Op, ValueId,
    ops::{Binary, BinaryKind, GatherElements, Weigh},
};

/// One product of such a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Source {
    x: ValueId,
    indices: ValueId,
    factors: Option<ValueId>,
    extents: ValueId,
}

/// Replaces such sums, and takes out the operators that nobody else reads.
pub(super) fn put_together(graph: &mut Graph) {
    let picks = |node: &Node| matches!(node.op, Op::GatherElements(GatherElements { axis: 2 }));
    if !graph.nodes.iter().any(picks) {
        return;
    }
    let producers = graph.producers();
    let mut parts = HashSet::new();
    let mut found = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| matches!(node.op, Op::Identity(_)))
    {
        let mut reader = Reader { graph, producers: &producers, parts: HashSet::new() };
        if let Some(source) = reader.sum(node) {
            parts.extend(reader.parts);
            found.push((index, source));
        }
    }
    for (index, Source { x, indices, factors, .. }) in found {
        let node = &mut graph.nodes[index];
        node.op = Op::Weigh(Weigh);
        node.inputs =
            [Some(x), Some(indices)].into_iter().chain(factors.map(Some)).collect::<Vec<_>>().into();
    }
    drop_parts(graph, &parts);
}

fn drop_parts(graph: &mut Graph, parts: &HashSet<NodeId>) {
    let mut used: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut nodes: Vec<_> = (0..).map(NodeId).zip(std::mem::take(&mut graph.nodes)).collect();
    nodes.reverse();
    nodes.retain(|(id, node)| {
        let stays = !parts.contains(id) || node.outputs.iter().flatten().any(|id| used.contains(id));
        if stays {
            used.extend(node.inputs.iter().flatten());
        }
        stays
    });
    graph.nodes = nodes.into_iter().rev().map(|(_, node)| node).collect();
}

/// Looks for the operators of one sum.
struct Reader<'g> {
    graph: &'g Graph,
    producers: &'g [Option<NodeId>],
    /// Those that were found.
    parts: HashSet<NodeId>,
}

impl<'g> Reader<'g> {
    /// The operands of what ends with a node.
    fn sum(&mut self, last: &Node) -> Option<Source> {
        let mut total = operand(last, 0)?;
        let mut terms = Vec::new();
        while let Some([before, term]) = self.binary(total, BinaryKind::Add) {
            terms.push(term);
            total = before;
        }
        terms.push(total);
        let mut sources = terms.iter().rev().zip(0..).map(|(&term, tap)| self.term(term, tap));
        let source = sources.next()??;
        let same = sources.all(|other| other == Some(source));
        let shape = |id: ValueId| self.graph.value(id).fixed_shape();
        let extents = self.graph.value(source.extents).constant.as_ref()?.to_i64()?;
        let [images, channels, count] = *extents.as_slice() else { return None };
        let (x, own) = (shape(source.x)?, shape(source.indices)?);
        let own_fits = own.len() == 3
            && own[1] == terms.len()
            && own[2] as i64 == count
            && (own[0] == 1 || own[0] as i64 == images)
            && source.factors.is_none_or(|factors| shape(factors).as_deref() == Some(&own));
        let fits = x.len() == 3 && x[0] as i64 == images && x[1] as i64 == channels;
        let types = self.is(source.x, DType::F32)
            && self.is(source.indices, DType::I32)
            && source.factors.is_none_or(|factors| self.is(factors, DType::F32));
        (same && own_fits && fits && types).then_some(source)
    }

    fn is(&self, id: ValueId, dtype: DType) -> bool {
        self.graph.value(id).dtype == Some(dtype)
    }

    /// What a tap's elements and factors are taken from.
    fn term(&mut self, id: ValueId, tap: i64) -> Option<Source> {
        let (picked, factors) = match self.binary(id, BinaryKind::Mul) {
            Some([picked, factor]) => (picked, Some(self.slice(factor, tap)?)),
            None => (id, None),
        };
        let choice = self.made(picked, |op| matches!(op, Op::Where(_)))?;
        let [inside, element, nothing] = operands(choice)?;
        let [places, zero] = self.binary(inside, BinaryKind::GreaterOrEqual)?;
        let pick = self.made(element, |op| matches!(op, Op::GatherElements(GatherElements { axis: 2 })))?;
        let [x, known] = operands(pick)?;
        let [same, least] = self.binary(known, BinaryKind::Max)?;
        let spread = self.made(places, |op| matches!(op, Op::Expand(_)))?;
        let [part, extents] = operands(spread)?;
        let is_nothing = self.graph.value(nothing).constant.as_ref()?.scalar_f32()?.to_bits() == 0;
        let is_zero = self.ints(zero)? == [0] && self.ints(least)? == [0];
        let indices = self.slice(part, tap)?;
        (same == places && is_nothing && is_zero).then_some(Source { x, indices, factors, extents })
    }

    /// What is cut at one place of axis 1.
    fn slice(&mut self, id: ValueId, tap: i64) -> Option<ValueId> {
        let node = self.made(id, |op| matches!(op, Op::Slice(_)))?;
        let [whole, from, to, axis] = operands(node)?;
        (self.ints(from)? == [tap] && self.ints(to)? == [tap + 1] && self.ints(axis)? == [1]).then_some(whole)
    }

    fn ints(&self, id: ValueId) -> Option<Vec<i64>> {
        self.graph.value(id).constant.as_ref()?.to_i64()
    }

    fn binary(&mut self, id: ValueId, wanted: BinaryKind) -> Option<[ValueId; 2]> {
        let is = |op: &Op| matches!(op, Op::Binary(Binary { kind, epilogue }) if *kind == wanted && epilogue.post_ops.is_empty());
        operands(self.made(id, is)?)
    }

    /// The node that makes a value, if it is one of these.
    fn made(&mut self, id: ValueId, is: impl Fn(&Op) -> bool) -> Option<&'g Node> {
        let producer = self.producers[id.0 as usize]?;
        let node = &self.graph.nodes[producer.0 as usize];
        (is(&node.op) && node.quant.is_none()).then(|| self.parts.insert(producer))?;
        Some(node)
    }
}

fn operand(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// All of a node's operands, if it has so many.
fn operands<const N: usize>(node: &Node) -> Option<[ValueId; N]> {
    let all: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
    all?.try_into().ok()
}
