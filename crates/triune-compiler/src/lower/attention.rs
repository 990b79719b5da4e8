//! Attention: a product with keys, what scales it and is added to it, a softmax over its rows and a product with values become one
//! command, which keeps scores and weights of a few queries at a time and reads heads where projections left them.

use triune_device::command::{FAttention, Operand};
use triune_graph::{
    Node, NodeId, Op, ValueId,
    ops::{BinaryKind, Softmax},
};
use triune_tensor::{DType, MAX_RANK, Shape};

use super::{Form, Lowering, eltwise::spread_over, extents, result};
use crate::{
    Error,
    view::{View, merge_axes},
};

/// Queries of a head from which on packing its keys and values is worth it: a few read them as they lie.
const QUERIES: usize = 8;

/// Operators that are one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attention {
    q: ValueId,
    /// (…, elements, keys), as the product has them, or that in another order of axes.
    keys: (ValueId, Option<NodeId>),
    v: ValueId,
    /// Rounded once, with all factors.
    scale: f64,
    bias: Option<ValueId>,
    /// Heads of queries that share one of keys and values.
    group: usize,
}

/// What is found of a network's attentions: of each node, whether it is part of one, and of the last one of each, which.
#[derive(Debug, Default)]
pub(super) struct Attentions {
    parts: Vec<bool>,
    last: Vec<(NodeId, Attention)>,
}

impl Attentions {
    /// Whether the node is one of several whose command the last of them makes.
    pub(super) fn waits(&self, index: usize) -> bool {
        self.parts.get(index).is_some_and(|&part| part)
    }

    /// The attention that ends with the node.
    pub(super) fn ending_at(&self, index: usize) -> Option<Attention> {
        let place = self.last.binary_search_by_key(&NodeId(index as u32), |&(node, _)| node);
        place.ok().map(|place| self.last[place].1)
    }
}

impl Lowering<'_> {
    /// Looks for attentions.
    pub(super) fn find_attentions(&mut self) {
        if self.io.block.is_some() {
            return;
        }
        let graph = self.graph;
        let mut found = Attentions::default();
        for (index, node) in graph.nodes.iter().enumerate() {
            let Op::Softmax(op) = &node.op else { continue };
            let Some((parts, last, attention)) = self.attention_around(NodeId(index as u32), node, *op)
            else {
                continue;
            };
            // What one attention makes may look like another's scores: a node is part of one alone.
            let is_taken = |part: &NodeId| {
                found.waits(part.0 as usize) || found.last.iter().any(|(other, _)| other == part)
            };
            if parts.iter().chain([&last]).any(is_taken) {
                continue;
            }
            found.parts.resize(graph.nodes.len(), false);
            for part in parts {
                found.parts[part.0 as usize] = true;
            }
            found.last.push((last, attention));
        }
        found.last.sort_unstable_by_key(|&(node, _)| node);
        self.attentions = found;
    }

    /// The attention that a softmax is part of: the nodes in front of its last one, that one, and what it reads.
    fn attention_around(
        &self,
        index: NodeId,
        node: &Node,
        op: Softmax,
    ) -> Option<(Vec<NodeId>, NodeId, Attention)> {
        let graph = self.graph;
        let (&[Some(mut scores)], &[Some(weights)]) = (&node.inputs[..], &node.outputs[..]) else {
            return None;
        };
        let (dims, dtype) = self.meta(weights).ok()?;
        let rank = dims.rank();
        if rank < 2
            || dtype != DType::F32
            || op.log
            || op.flatten
            || ![-1, rank as isize - 1].contains(&op.axis)
        {
            return None;
        }
        let mut parts = vec![index];
        // Heads that share keys may be rows of one product.
        let (rows, group) = self.regrouped(weights, dims).unwrap_or((weights, 1));
        if group > 1 {
            parts.push(self.readers[weights.0 as usize].1);
        }
        let (_, mut last) = self.readers[rows.0 as usize];
        let (own, v) = product_of(self.only_reader(rows)?)?;
        if own != rows || v == rows {
            return None;
        }
        if group > 1 {
            parts.push(last);
            let y = result(&graph.nodes[last.0 as usize]).ok()?;
            (_, last) = self.readers[y.0 as usize];
            let reader = self.only_reader(y).filter(|reader| matches!(reader.op, Op::Reshape(_)))?;
            let (apart, together) = (self.meta(result(reader).ok()?).ok()?.0, self.meta(y).ok()?.0);
            (group_of(&apart, &together)? == group).then_some(())?;
        }
        let mut attention = Attention { q: own, keys: (own, None), v, scale: 1.0, bias: None, group };
        // From the softmax back to the product with keys: what is added first, then what scales.
        let (mut q, keys) = loop {
            let (maker, node) = self.private_maker(scores)?;
            parts.push(maker);
            if let Some(product) = product_of(node) {
                break product;
            }
            if let (Op::Reshape(_), Some(Some(together))) = (&node.op, node.inputs.first()) {
                (group_of(&dims, &self.meta(*together).ok()?.0)? == group).then_some(())?;
                let (maker, node) = self.private_maker(*together)?;
                parts.push(maker);
                break product_of(node)?;
            }
            scores = if let Some((x, factor)) = self.scaled_by(node) {
                attention.scale *= factor;
                x
            } else {
                let (x, bias) =
                    self.sum_of(node, dims).filter(|_| attention.bias.is_none() && attention.scale == 1.0)?;
                attention.bias = Some(bias);
                x
            };
        };
        let shape = |id: ValueId| self.meta(id).ok().map(|(dims, _)| dims);
        if group > 1 {
            let (maker, node) = self.private_maker(q)?;
            let apart =
                node.inputs.first().copied().flatten().filter(|_| matches!(node.op, Op::Reshape(_)))?;
            (group_of(&shape(apart)?, &shape(q)?)? == group).then_some(())?;
            parts.push(maker);
            q = apart;
        }
        attention.q = q;
        if let Some((maker, node)) = self.private_maker(q)
            && let Some((x, factor)) = self.scaled_by(node)
        {
            (attention.q, attention.scale) = (x, attention.scale * factor);
            parts.push(maker);
        }
        attention.keys = (keys, None);
        let mut before = keys;
        if let Some((maker, node)) = self.private_maker(keys)
            && matches!(node.op, Op::Transpose(_))
        {
            before = node.inputs.first().copied().flatten()?;
            attention.keys = (before, Some(maker));
        }
        if let Some((maker, node)) = self.private_maker(before)
            && let Some((x, factor)) = self.scaled_by(node)
        {
            attention.keys.0 = x;
            attention.scale *= factor;
            parts.push(maker);
            parts.extend(attention.keys.1);
        } else {
            attention.keys = (keys, None);
        }
        // Heads are the same in all operands, or one for all of keys and values.
        let y = shape(result(&graph.nodes[last.0 as usize]).ok()?)?;
        let [q, k, v] = [shape(q)?, shape(keys)?, shape(v)?];
        let same = |dims: &Shape| dims.rank() == rank && heads_of(dims) == heads_of(&y);
        let shared = |dims: &Shape| {
            (2..=rank).contains(&dims.rank()) && heads_of(dims).iter().all(|&extent| extent == 1)
        };
        let mut few = y;
        if group > 1 {
            few.dims_mut()[rank - 3] /= group;
        }
        let fits = [&q, &dims, &y].into_iter().all(same)
            && [&k, &v].into_iter().all(|dims| {
                dims.rank() == rank && heads_of(dims) == heads_of(&few) || group == 1 && shared(dims)
            });
        let whole = ![q, k, v].iter().any(|dims| dims.contains(&0));
        (fits && whole && dims[rank - 2] >= QUERIES).then_some((parts, last, attention))
    }

    /// What a value is with heads that share keys as rows of one, if that is all that reads it, and how many share.
    fn regrouped(&self, id: ValueId, dims: Shape) -> Option<(ValueId, usize)> {
        let reader = self.only_reader(id).filter(|reader| matches!(reader.op, Op::Reshape(_)))?;
        let together = result(reader).ok()?;
        Some((together, group_of(&dims, &self.meta(together).ok()?.0)?))
    }

    /// The node that makes a value which only one operand of another is, if all of it is f32.
    fn private_maker(&self, id: ValueId) -> Option<(NodeId, &Node)> {
        let index = self.producers[id.0 as usize]?;
        self.only_reader(id)?;
        let node = &self.graph.nodes[index.0 as usize];
        (node.quant.is_none() && self.meta(id).ok()?.1 == DType::F32).then_some((index, node))
    }

    /// The operand that a node multiplies by one number, or divides by it, and the factor.
    fn scaled_by(&self, node: &Node) -> Option<(ValueId, f64)> {
        let Op::Binary(op) = &node.op else { return None };
        let (&[Some(a), Some(b)], true) = (&node.inputs[..], op.epilogue.post_ops.is_empty()) else {
            return None;
        };
        let number = |id: ValueId| {
            let known = self.graph.value(id).constant.as_ref();
            known.filter(|known| known.elements() == 1)?.scalar_f32().map(f64::from)
        };
        let (x, factor) = match (op.kind, number(a), number(b)) {
            (BinaryKind::Mul, _, Some(factor)) => (a, factor),
            (BinaryKind::Mul, Some(factor), _) => (b, factor),
            (BinaryKind::Div, _, Some(divisor)) => (a, 1.0 / divisor),
            _ => return None,
        };
        let same = self.meta(x).ok()?.0 == self.meta(result(node).ok()?).ok()?.0;
        same.then_some((x, factor))
    }

    /// The operand of a sum that has all of its elements and one that may be repeated.
    fn sum_of(&self, node: &Node, dims: Shape) -> Option<(ValueId, ValueId)> {
        let Op::Binary(op) = &node.op else { return None };
        let (&[Some(a), Some(b)], true) = (&node.inputs[..], op.epilogue.post_ops.is_empty()) else {
            return None;
        };
        let whole =
            |id: ValueId| self.private_maker(id).is_some() && self.meta(id).is_ok_and(|(own, _)| own == dims);
        let is_sum = op.kind == BinaryKind::Add && a != b;
        // Either may be the scores.
        [(a, b), (b, a)].into_iter().find(|&(x, _)| is_sum && whole(x) && self.are_products(x))
    }

    /// Whether a product makes a value, maybe scaled or by other heads.
    fn are_products(&self, mut id: ValueId) -> bool {
        while let Some((_, node)) = self.private_maker(id) {
            let before = match (&node.op, node.inputs.first()) {
                (Op::Reshape(_), Some(Some(before))) => *before,
                _ if product_of(node).is_some() => return true,
                _ => match self.scaled_by(node) {
                    Some((before, _)) => before,
                    None => return false,
                },
            };
            id = before;
        }
        false
    }

    /// The command of an attention whose last node this is.
    pub(super) fn attention(&mut self, node: &Node, attention: &Attention) -> Result<(), Error> {
        let to = self.place_of_heads(result(node)?)?;
        let rank = to.dims.rank();
        let k = self.view(attention.keys.0)?;
        let k = match attention.keys.1.map(|node| &self.graph.nodes[node.0 as usize].op) {
            Some(Op::Transpose(op)) if op.perm.is_empty() => k.permuted(&(0..rank).rev().collect::<Vec<_>>()),
            Some(Op::Transpose(op)) => k.permuted(&op.perm),
            _ => k,
        };
        // Key by key.
        let own = k.dims.rank();
        let mut order: Vec<usize> = (0..own).collect();
        order.swap(own - 2, own - 1);
        let k = k.permuted(&order);
        let (q, v) = (self.view(attention.q)?, self.view(attention.v)?);
        let (queries, width) = (to.dims[rank - 2], q.dims[q.dims.rank() - 1]);
        let (keys, elements) = (v.dims[v.dims.rank() - 2], to.dims[rank - 1]);
        let mut operands = vec![(q, [queries, width]), (k, [keys, width]), (v, [keys, elements])];
        if let Some(bias) = attention.bias {
            operands.push((self.view(bias)?, [queries, keys]));
        }
        let mut views = Vec::with_capacity(operands.len() + 1);
        for (index, (view, [rows, len])) in operands.into_iter().enumerate() {
            // Each with all heads.
            let mut dims = to.dims;
            dims.dims_mut()[rank - 2..].copy_from_slice(&[rows, len]);
            let shared = attention.group > 1 && (index == 1 || index == 2);
            if shared {
                dims.dims_mut()[rank - 3] /= attention.group;
            }
            let mut view = spread_over(node, &view, dims)?;
            let in_a_row = |axis: usize| view.dims[axis] == 1 || view.strides[axis] == 4;
            if !(in_a_row(rank - 1) || index == 1 && in_a_row(rank - 2)) {
                view = self.duplicate(&view)?;
            }
            views.push(if attention.group > 1 { by_group(&view, attention.group, shared) } else { view });
        }
        let (to, rank) = match attention.group {
            1 => (to, rank),
            group => (by_group(&to, group, false), rank + 1),
        };
        if by_heads(views.iter().chain([&to])).is_none() {
            for view in &mut views {
                *view = self.densified(view)?;
            }
        }
        views.push(to);
        let (heads, strides) =
            by_heads(&views).ok_or_else(|| Error::unsupported(node, "heads along more than two axes"))?;
        let mut operands = Vec::with_capacity(views.len());
        for (view, [first, second]) in views.iter().zip(strides) {
            // Of one element there is no next.
            let element = if view.dims[rank - 1] == 1 { 4 } else { view.strides[rank - 1] };
            let strides = [0, 0, first, second, view.strides[rank - 2], element];
            operands.push(Operand { addr: self.addr(view)?, dtype: DType::F32, strides });
        }
        let (&[q, k, v], &[ref bias @ .., output]) = (&operands[..3], &operands[3..]) else {
            return Err(Error::unsupported(node, "an attention without results"));
        };
        let [queries, keys, width, elements] = extents([queries, keys, width, elements])?;
        let command = FAttention {
            heads: extents(heads)?,
            queries,
            keys,
            width,
            elements,
            scale: attention.scale as f32,
            q,
            k,
            v,
            bias: bias.first().map(|bias| bias.addr),
            bias_strides: bias.first().map_or([0; 6], |bias| bias.strides),
            output,
        };
        self.emit(command, &views.iter().collect::<Vec<_>>());
        Ok(())
    }

    /// A place for results by head: where a transpose of them will have them without gaps, if that is all that reads them.
    fn place_of_heads(&mut self, y: ValueId) -> Result<View, Error> {
        let turned = self.only_reader(y).and_then(|reader| match &reader.op {
            Op::Transpose(op) if op.perm.last() == Some(&(op.perm.len() - 1)) => {
                Some((op.perm.clone(), result(reader).ok()?))
            }
            _ => None,
        });
        let Some((perm, turned)) = turned.filter(|_| self.views[y.0 as usize].is_none()) else {
            return self.place(y, Form::Dense);
        };
        let placed = self.place(turned, Form::Dense)?;
        let view = placed.restored(&perm);
        if by_heads([&view]).is_none() {
            return self.place(y, Form::Dense);
        }
        self.set_view(y, view);
        Ok(view)
    }
}

/// The operands of a product of reals that nothing follows.
fn product_of(node: &Node) -> Option<(ValueId, ValueId)> {
    match (&node.op, &node.inputs[..]) {
        (Op::MatMul(op), &[Some(a), Some(b)]) if node.quant.is_none() && op.epilogue.post_ops.is_empty() => {
            Some((a, b))
        }
        _ => None,
    }
}

/// How many heads lie in the rows of one, if the second extents are the first ones so.
fn group_of(apart: &Shape, together: &Shape) -> Option<usize> {
    let rank = apart.rank();
    if together.rank() != rank || !(3..MAX_RANK).contains(&rank) {
        return None;
    }
    let ([before @ .., heads, rows, len], [own_before @ .., own, own_rows, own_len]) =
        (&**apart, &**together)
    else {
        return None;
    };
    let group = heads.checked_div(*own)?;
    let fits = before == own_before
        && len == own_len
        && group > 1
        && group * own == *heads
        && group * rows == *own_rows;
    fits.then_some(group)
}

/// A view by heads of keys, and those of queries that share them: an axis more, along which what is `shared` repeats.
fn by_group(view: &View, group: usize, shared: bool) -> View {
    let (mut apart, rank) = (*view, view.dims.rank());
    let mut dims = [0; MAX_RANK];
    dims[..rank].copy_from_slice(&view.dims);
    let own = if shared { view.dims[rank - 3] } else { view.dims[rank - 3] / group };
    dims[rank - 3..=rank].copy_from_slice(&[own, group, view.dims[rank - 2], view.dims[rank - 1]]);
    apart.dims = Shape::new(&dims[..=rank]).unwrap_or(view.dims);
    let [head, row, element] = [view.strides[rank - 3], view.strides[rank - 2], view.strides[rank - 1]];
    let heads = if shared { [head, 0] } else { [head * group as u64, head] };
    apart.strides[rank - 3..=rank].copy_from_slice(&[heads[0], heads[1], row, element]);
    apart
}

/// The axes in front of rows and columns.
fn heads_of(dims: &Shape) -> &[usize] {
    &dims[..dims.rank().saturating_sub(2)]
}

/// The axes in front of rows and columns of all views as two, and each view's strides along them.
fn by_heads<'a>(views: impl IntoIterator<Item = &'a View>) -> Option<([usize; 2], Vec<[u64; 2]>)> {
    let heads = views.into_iter().map(|view| {
        let (mut heads, rank) = (*view, view.dims.rank());
        heads.dims.dims_mut()[rank - 2..].fill(1);
        heads
    });
    merge_axes::<2>(&heads.collect::<Vec<_>>().iter().collect::<Vec<_>>())
}
