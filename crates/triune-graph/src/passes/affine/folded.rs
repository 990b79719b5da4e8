//! What convolutions and matrix products take in: collected while the graph is walked, made into weights and biases once.

use std::collections::BTreeMap;

use triune_tensor::{DType, OutOfMemory, Shape};

use super::{Affine, constant, constant_f32, constant_f64, per_channel, rounded};
use crate::{
    Constant, Error, Node, Op, ValueId,
    ops::{Binary, BinaryKind},
    passes::{fuse::epilogue, rewrite::Rewriter},
};

/// (a + b) + shift is (a + shift) + b: what an addend's maker becomes when it takes the shift in. The addition may then
/// follow the convolution as its residual; optimized dumps add biases last.
pub(super) fn addend(
    rewriter: &Rewriter<'_>,
    folded: &BTreeMap<usize, Folded>,
    affine: &Affine,
) -> Option<(usize, Folded)> {
    let (_, node) = rewriter.producer(affine.x)?;
    let Op::Binary(Binary { kind: BinaryKind::Add, epilogue }) = &node.op else { return None };
    let plain = epilogue.post_ops.is_empty() && rewriter.is_private(affine.x);
    (plain && affine.scale.iter().all(|&scale| scale == 1.0)).then_some(())?;
    let shape = rewriter.value(affine.x).fixed_shape()?;
    node.inputs.iter().flatten().find_map(|&x| {
        (rewriter.value(x).fixed_shape() == Some(shape)).then_some(())?;
        let (maker, _) = rewriter.producer(x)?;
        Folded::of(rewriter, maker, folded.get(&maker), x, affine)
    })
}

/// product·scale + shift per output channel: what becomes of the product that a node computes.
pub(super) struct Folded {
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Folded {
    /// `before`, or else the bias of the node `maker`, which makes `x`, and then `affine`; with the node again. `None` when
    /// that does not take it in.
    pub(super) fn of(
        rewriter: &Rewriter<'_>,
        maker: usize,
        before: Option<&Self>,
        x: ValueId,
        affine: &Affine,
    ) -> Option<(usize, Self)> {
        let node = rewriter.get(maker)?;
        let (beta, weights) = (beta(&node.op)?, weights(rewriter, node)?);
        let channels = weights.shape()[channel_axis(&node.op)];
        let free = epilogue(&node.op)?.post_ops.is_empty() && rewriter.is_private(x);
        (free && channels == affine.scale.len()).then_some(())?;
        let pairs = affine.scale.iter().zip(&affine.shift);
        if let Some(before) = before {
            let scale =
                before.scale.iter().zip(&affine.scale).map(|(before, scale)| before * scale).collect();
            let shift = before.shift.iter().zip(pairs).map(|(before, (scale, shift))| before * scale + shift);
            return Some((maker, Self { scale, shift: shift.collect() }));
        }
        let bias = match node.inputs.get(2).copied().flatten() {
            None => vec![0.0; channels],
            Some(id) if matches!(node.op, Op::Conv(_)) => constant_f64(rewriter, Some(id))?,
            Some(id) => per_channel(rewriter, id, &rewriter.value(x).fixed_shape()?)?,
        };
        (bias.len() == channels).then_some(())?;
        let shift =
            bias.iter().zip(pairs).map(|(bias, (scale, shift))| bias * beta * scale + shift).collect();
        Some((maker, Self { scale: affine.scale.clone(), shift }))
    }

    /// Makes the weights and the bias of the node.
    pub(super) fn apply(&self, rewriter: &mut Rewriter<'_>, maker: usize) -> Result<(), Error> {
        let Some(node) = rewriter.get(maker) else { return Ok(()) };
        let (mut node, Some(Some(y))) = (node.clone(), node.outputs.first().copied()) else { return Ok(()) };
        if self.scale.iter().any(|&scale| scale != 1.0) {
            let axis = channel_axis(&node.op);
            // That they fit was seen when the fold was planned; only memory may be missing.
            let own = weights(rewriter, &node);
            let bytes = own.map_or(0, |weights| weights.byte_len() as u64);
            let scaled = own.and_then(|weights| weights.scaled(axis, &self.scale));
            let scaled = scaled.ok_or(OutOfMemory { bytes })?;
            node.inputs[1] = Some(constant(rewriter, y, "weights", scaled));
        }
        if let Op::Gemm(gemm) = &mut node.op {
            gemm.beta = 1.0;
        }
        node.inputs.truncate(2);
        let bias = constant_f32(Shape::from([self.shift.len()]), &rounded(&self.shift));
        node.inputs.push(Some(constant(rewriter, y, "bias", bias)));
        rewriter.replace(maker, node);
        Ok(())
    }
}

/// What the bias of an operator that has weights counts times; `None` for other operators.
fn beta(op: &Op) -> Option<f64> {
    match op {
        Op::Conv(_) => Some(1.0),
        Op::Gemm(gemm) => Some(f64::from(gemm.beta)),
        _ => None,
    }
}

/// The axis of the weights that output channels run along.
fn channel_axis(op: &Op) -> usize {
    usize::from(matches!(op, Op::Gemm(gemm) if !gemm.trans_b))
}

/// The constant f32 weights of a node.
fn weights<'a>(rewriter: &'a Rewriter<'_>, node: &Node) -> Option<&'a Constant> {
    let weights = rewriter.value((*node.inputs.get(1)?)?).constant.as_ref()?;
    let rank =
        if matches!(node.op, Op::Gemm(_)) { weights.shape().rank() == 2 } else { weights.shape().rank() > 0 };
    (weights.dtype() == DType::F32 && rank).then_some(weights)
}
