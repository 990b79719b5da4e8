//! Nodes over reals that take another's place, with what they make of known extents.

use std::sync::Arc;

use smallvec::smallvec;
use triune_tensor::{DType, Shape};

use super::super::rewrite::Rewriter;
use crate::{
    Constant, Dim, Node, Op, Origin, Value, ValueId,
    ops::{Concat, Reshape, Slice, Transpose},
};

/// Adds nodes in front of one, under its name.
pub(super) struct Maker<'m, 'r> {
    pub(super) rewriter: &'m mut Rewriter<'r>,
    index: usize,
    name: String,
    stem: String,
    origin: Option<Arc<Origin>>,
}

impl<'m, 'r> Maker<'m, 'r> {
    /// In front of the node at `index`, which makes `output`.
    pub(super) fn new(rewriter: &'m mut Rewriter<'r>, index: usize, output: ValueId) -> Self {
        let name = rewriter.get(index).map_or_else(String::new, |node| node.name.clone());
        let origin = rewriter.get(index).map(Node::as_origin);
        let stem = rewriter.value(output).name.clone();
        Self { rewriter, index, name, stem, origin }
    }

    /// A value of reals.
    pub(super) fn value(&mut self, what: &str, extents: &[usize]) -> ValueId {
        let shape = Some(extents.iter().copied().map(Dim::Fixed).collect());
        let name = format!("{}.{what}", self.stem);
        self.rewriter.add_value(Value { dtype: Some(DType::F32), shape, ..Value::named(name) })
    }

    /// A constant of extents or places.
    pub(super) fn list(&mut self, numbers: &[usize]) -> ValueId {
        let id = self.rewriter.add_value(Value::named(format!("{}.list", self.stem)));
        let numbers: Vec<i64> = numbers.iter().map(|&number| number as i64).collect();
        if let Some(constant) = Constant::from_i64(Shape::from([numbers.len()]), &numbers) {
            self.rewriter.set_constant(id, constant);
        }
        id
    }

    pub(super) fn node(&mut self, op: Op, inputs: Vec<Option<ValueId>>, to: ValueId) {
        let name = format!("{}.{}", self.name, op.name());
        let node = Node { origin: self.origin.clone(), ..Node::new(name, op, inputs, vec![Some(to)]) };
        self.rewriter.add_node(node, self.index);
    }

    /// The node that makes `to`, in place of the one there was.
    pub(super) fn finish(self, op: Op, inputs: Vec<Option<ValueId>>, to: ValueId) {
        let node = Node { origin: self.origin, ..Node::new(self.name, op, inputs, vec![Some(to)]) };
        self.rewriter.replace(self.index, node);
    }

    /// A dequantized value times a factor above 0: its integers, on another scale.
    pub(super) fn scaled(&mut self, from: ValueId, factor: f32, extents: &[usize]) -> Option<ValueId> {
        let (_, maker) = self.rewriter.producer(from)?;
        let mut own = maker.clone();
        let scale = self.rewriter.value(own.inputs.get(1).copied()??).constant.as_ref()?;
        let scaled = scale.scalar_f32()? * factor;
        let scale = Constant::from_f32(scale.shape(), &[scaled]).filter(|_| scaled.is_finite())?;
        let id = self.rewriter.add_value(Value::named(format!("{}.scale", self.stem)));
        self.rewriter.set_constant(id, scale);
        let to = self.value("scaled", extents);
        own.inputs[1] = Some(id);
        own.outputs = smallvec![Some(to)];
        self.rewriter.add_node(own, self.index);
        Some(to)
    }

    /// The same elements under other extents.
    pub(super) fn reshaped(&mut self, from: ValueId, what: &str, extents: &[usize]) -> ValueId {
        let to = self.value(what, extents);
        let inputs = vec![Some(from), Some(self.list(extents))];
        self.node(Op::Reshape(Reshape { allow_zero: false }), inputs, to);
        to
    }

    /// The axes in another order, which the extents come in.
    pub(super) fn transposed(
        &mut self,
        from: ValueId,
        what: &str,
        perm: &[usize],
        extents: &[usize],
    ) -> ValueId {
        let to = self.value(what, extents);
        self.node(Op::Transpose(Transpose { perm: perm.to_vec() }), vec![Some(from)], to);
        to
    }

    /// Every `step`th of the places from `start` on, along an axis, as many as the extents say.
    pub(super) fn sliced(
        &mut self,
        from: ValueId,
        what: &str,
        (axis, start, step): (usize, usize, usize),
        extents: &[usize],
    ) -> ValueId {
        let to = self.value(what, extents);
        let end = start + (extents[axis] - 1) * step + 1;
        let operands = [[start], [end], [axis], [step]].map(|number| Some(self.list(&number)));
        self.node(Op::Slice(Slice), [Some(from)].into_iter().chain(operands).collect(), to);
        to
    }

    /// Parts one behind the other along an axis.
    pub(super) fn joined(
        &mut self,
        parts: &[ValueId],
        what: &str,
        axis: isize,
        extents: &[usize],
    ) -> ValueId {
        let to = self.value(what, extents);
        self.node(Op::Concat(Concat { axis }), parts.iter().copied().map(Some).collect(), to);
        to
    }
}
