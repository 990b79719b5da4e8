//! Means and maxima over any axes between quantizers: their elements move to where a global pool sees them.

use triune_tensor::{DType, Shape};

use super::{
    super::rewrite::Rewriter,
    pattern::{dequantized, quantizer},
};
use crate::{
    Constant, Dim, Node, Op, Value, ValueId,
    ops::{GlobalPool, ReduceKind, Reshape, Transpose},
};

/// Makes a global pool of the reduction at `index`: (N, …) with the axes that stay before those that go, as (N, C, H, 1).
pub(super) fn as_pool(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(found) = Found::of(rewriter, index) else { return };
    let Found { pool, input, output, shape, gone, name } = found;
    let kept: Vec<usize> = (0..shape.len()).filter(|&axis| !gone[axis]).collect();
    let perm: Vec<usize> = kept.iter().copied().chain((0..shape.len()).filter(|&axis| gone[axis])).collect();
    let images = if gone[0] { 1 } else { shape[0] };
    let channels = kept.iter().filter(|&&axis| axis > 0).map(|&axis| shape[axis]).product::<usize>();
    let elements = gone.iter().zip(&shape).filter(|(gone, _)| **gone).map(|(_, &extent)| extent).product();
    let mut make = Maker { rewriter, index, name: &name, stem: String::new() };
    make.stem.clone_from(&make.rewriter.value(output).name);
    let mut at = input;
    if !perm.iter().enumerate().all(|(place, &axis)| place == axis) {
        let extents = perm.iter().map(|&axis| shape[axis]).collect::<Vec<_>>();
        let to = make.value("moved", &extents);
        make.node(Op::Transpose(Transpose { perm }), vec![Some(at)], to);
        at = to;
    }
    let to = make.value("rows", &[images, channels, 1, elements]);
    make.reshape(at, to, &[images, channels, 1, elements]);
    let pooled = make.value("pooled", &[images, channels, 1, 1]);
    make.node(Op::GlobalPool(pool), vec![Some(to)], pooled);
    let Some(result) = make.rewriter.value(output).fixed_shape() else { return };
    let inputs = vec![Some(pooled), Some(make.extents(&result))];
    let op = Op::Reshape(Reshape { allow_zero: false });
    rewriter.replace(index, Node::new(name, op, inputs, vec![Some(output)]));
}

struct Found {
    pool: GlobalPool,
    input: ValueId,
    output: ValueId,
    shape: Vec<usize>,
    gone: Vec<bool>,
    name: String,
}

impl Found {
    /// A reduction of a dequantized value that one operator reads, which quantizes it or lets a quantizer come before.
    fn of(rewriter: &Rewriter<'_>, index: usize) -> Option<Self> {
        let node = rewriter.get(index)?;
        let Op::Reduce(op) = &node.op else { return None };
        let pool = match op.kind {
            ReduceKind::Mean => GlobalPool::AVERAGE,
            ReduceKind::Max => GlobalPool::MAX,
            ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::Product | ReduceKind::Min => return None,
        };
        let (input, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
        let shape = rewriter.value(input).fixed_shape()?.to_vec();
        let gone = op.reduced(shape.len())?;
        let some = gone.contains(&true) && !shape.contains(&0);
        let (_, from) = dequantized(rewriter, input)?;
        let whole = rewriter.value(output).fixed_shape().is_some();
        let mut readers = rewriter.consumers(output).filter_map(|at| Some((at, rewriter.get(at)?)));
        let moves = |op: &Op| {
            matches!(
                op,
                Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_) | Op::Transpose(_)
            )
        };
        let fits = |(at, node): (usize, &Node)| quantizer(rewriter, at).is_some() || moves(&node.op);
        let quantized = rewriter.is_private(output) && readers.all(fits);
        let fits = some && whole && quantized && from.is_byte();
        fits.then(|| Self { pool, input, output, shape, gone, name: node.name.clone() })
    }
}

/// Adds nodes at one place.
struct Maker<'m, 'r> {
    rewriter: &'m mut Rewriter<'r>,
    index: usize,
    name: &'m str,
    stem: String,
}

impl Maker<'_, '_> {
    fn value(&mut self, what: &str, extents: &[usize]) -> ValueId {
        let shape = Some(extents.iter().copied().map(Dim::Fixed).collect());
        let name = format!("{}.{what}", self.stem);
        self.rewriter.add_value(Value { dtype: Some(DType::F32), shape, ..Value::named(name) })
    }

    /// A constant of extents.
    fn extents(&mut self, extents: &[usize]) -> ValueId {
        let id = self.rewriter.add_value(Value::named(format!("{}.shape", self.stem)));
        let dims: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
        if let Some(constant) = Constant::from_i64(Shape::from([dims.len()]), &dims) {
            self.rewriter.set_constant(id, constant);
        }
        id
    }

    fn node(&mut self, op: Op, inputs: Vec<Option<ValueId>>, to: ValueId) {
        let name = format!("{}.{}", self.name, op.name());
        self.rewriter.add_node(Node::new(name, op, inputs, vec![Some(to)]), self.index);
    }

    fn reshape(&mut self, from: ValueId, to: ValueId, extents: &[usize]) {
        let inputs = vec![Some(from), Some(self.extents(extents))];
        self.node(Op::Reshape(Reshape { allow_zero: false }), inputs, to);
    }
}
