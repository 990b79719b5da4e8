//! Means, sums and maxima over any axes between quantizers, and global pools of what is no image: their elements move to where a global
//! pool sees them.

use super::{
    super::rewrite::Rewriter,
    maker::Maker,
    pattern::{dequantized, quantizer},
};
use crate::{
    Node, Op, ValueId,
    ops::{GlobalPool, ReduceKind, Reshape},
};

/// Makes a global pool of an image of the reduction at `index`: (N, …) with the axes that stay before those that go, as (N, C, H, 1).
pub(super) fn as_pool(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(found) = Found::of(rewriter, index) else { return };
    let Found { pool, sums, input, output, shape, gone } = found;
    let kept: Vec<usize> = (0..shape.len()).filter(|&axis| !gone[axis]).collect();
    let perm: Vec<usize> = kept.iter().copied().chain((0..shape.len()).filter(|&axis| gone[axis])).collect();
    let images = if gone[0] { 1 } else { shape[0] };
    let channels = kept.iter().filter(|&&axis| axis > 0).map(|&axis| shape[axis]).product::<usize>();
    let elements: usize =
        gone.iter().zip(&shape).filter(|(gone, _)| **gone).map(|(_, &extent)| extent).product();
    let mut make = Maker::new(rewriter, index, output);
    let mut at = input;
    if sums {
        let Some(scaled) = make.scaled(input, elements as f32, &shape) else { return };
        at = scaled;
    }
    if !perm.iter().enumerate().all(|(place, &axis)| place == axis) {
        let extents = perm.iter().map(|&axis| shape[axis]).collect::<Vec<_>>();
        at = make.transposed(at, "moved", &perm, &extents);
    }
    let rows = make.reshaped(at, "rows", &[images, channels, 1, elements]);
    let pooled = make.value("pooled", &[images, channels, 1, 1]);
    make.node(Op::GlobalPool(pool), vec![Some(rows)], pooled);
    let Some(result) = make.rewriter.value(output).fixed_shape() else { return };
    let inputs = vec![Some(pooled), Some(make.list(&result))];
    make.finish(Op::Reshape(Reshape { allow_zero: false }), inputs, output);
}

struct Found {
    pool: GlobalPool,
    /// Whether it is a mean times the number of elements.
    sums: bool,
    input: ValueId,
    output: ValueId,
    shape: Vec<usize>,
    gone: Vec<bool>,
}

impl Found {
    /// A reduction of a dequantized value that one operator reads, which quantizes it or lets a quantizer come before.
    fn of(rewriter: &Rewriter<'_>, index: usize) -> Option<Self> {
        let node = rewriter.get(index)?;
        let (input, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
        let shape = rewriter.value(input).fixed_shape()?.to_vec();
        let (pool, gone) = match &node.op {
            Op::Reduce(op) => (of_reduction(op.kind)?, op.reduced(shape.len())?),
            // Of one axis, or of three.
            Op::GlobalPool(op) if shape.len() != 4 => (*op, (0..shape.len()).map(|axis| axis >= 2).collect()),
            _ => return None,
        };
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
        let sums = matches!(&node.op, Op::Reduce(op) if op.kind == ReduceKind::Sum);
        fits.then_some(Self { pool, sums, input, output, shape, gone })
    }
}

fn of_reduction(kind: ReduceKind) -> Option<GlobalPool> {
    match kind {
        ReduceKind::Mean | ReduceKind::Sum => Some(GlobalPool::AVERAGE),
        ReduceKind::Max => Some(GlobalPool::MAX),
        ReduceKind::SumSquare | ReduceKind::Product | ReduceKind::Min => None,
    }
}
