//! Steps that follow an operator, element by element, join it: activations, tables, limits, residual additions.
//!
//! Fusing never changes an integer result, and a float result only by what one rounding in between is worth.

mod float;
mod integer;

use super::rewrite::Rewriter;
use crate::{
    Error, Graph, Node, Op, ValueId,
    ops::{Epilogue, PostOp, Residual},
};
use smallvec::smallvec;

/// Fuses what follows convolutions, matrix products and functions of two operands into their [`Epilogue`]. Returns
/// whether anything changed.
pub fn fuse(graph: &mut Graph) -> Result<bool, Error> {
    // What takes a step in, or is one, is among them.
    if !graph.nodes.iter().any(|node| epilogue(&node.op).is_some() || matches!(node.op, Op::Table(_))) {
        return Ok(false);
    }
    let mut rewriter = Rewriter::new(graph);
    // Products of x and a function of x become one function before anything else looks at it.
    for step in [float::join_products, float::join_factors, integer::compose, float::absorb, integer::absorb]
    {
        for index in 0..rewriter.len() {
            rewriter.go_on()?;
            step(&mut rewriter, index);
        }
    }
    Ok(rewriter.commit())
}

/// The steps behind an operator that can have any.
pub(super) fn epilogue(op: &Op) -> Option<&Epilogue> {
    match op {
        Op::Conv(op) => Some(&op.epilogue),
        Op::Gemm(op) => Some(&op.epilogue),
        Op::MatMul(op) => Some(&op.epilogue),
        Op::Binary(op) => Some(&op.epilogue),
        _ => None,
    }
}

fn epilogue_mut(op: &mut Op) -> Option<&mut Epilogue> {
    match op {
        Op::Conv(op) => Some(&mut op.epilogue),
        Op::Gemm(op) => Some(&mut op.epilogue),
        Op::MatMul(op) => Some(&mut op.epilogue),
        Op::Binary(op) => Some(&mut op.epilogue),
        _ => None,
    }
}

/// Lets the node that makes `input` (for nobody else than `follower`) make `output` itself, after `post_op`.
fn append(
    rewriter: &mut Rewriter<'_>,
    follower: usize,
    input: ValueId,
    output: ValueId,
    post_op: PostOp,
) -> Option<()> {
    let (maker, node) = rewriter.producer(input)?;
    let mut node = node.clone();
    epilogue_mut(&mut node.op)?.post_ops.push(post_op);
    node.outputs = smallvec![Some(output)];
    if let (Some(own), Some(last)) = (&mut node.quant, &rewriter.get(follower)?.quant) {
        (own.dtype, own.result) = (last.dtype, last.result);
    }
    rewriter.remove(follower);
    rewriter.replace(maker, node);
    Some(())
}

/// Fuses the addition at `addition` into a convolution that makes one of its operands. `admits` says whether a convolution
/// can take it as the operand of this number.
fn absorb_residual(
    rewriter: &mut Rewriter<'_>,
    addition: usize,
    admits: impl Fn(&Node, &Epilogue, usize) -> bool,
) -> Option<()> {
    let node = rewriter.get(addition)?;
    let Op::Binary(binary) = &node.op else { return None };
    let (after, sum) = (binary.epilogue.post_ops.clone(), node.quant.clone());
    let (&[Some(a), Some(b)], &[Some(output)]) = (&node.inputs[..], &node.outputs[..]) else { return None };
    // A node may only start once both operands exist, so it moves to where the addition stood; of two convolutions the
    // later one moves less.
    let host = |own: ValueId, other: ValueId| {
        let (index, node) = rewriter.producer(own)?;
        let shape = rewriter.value(output).fixed_shape()?;
        let same = [own, other].iter().all(|&id| rewriter.value(id).fixed_shape() == Some(shape));
        let Op::Conv(conv) = &node.op else { return None };
        (same && rewriter.is_private(own) && admits(node, &conv.epilogue, usize::from(own != a)))
            .then_some((index, own, other))
    };
    let hosts = [host(a, b), host(b, a)];
    let (index, own, other) =
        hosts.into_iter().flatten().max_by_key(|(index, _, _)| rewriter.rank(*index))?;
    let mut node = rewriter.get(index)?.clone();
    let own_first = own == a;
    let quant = node.quant.as_ref().map(|quant| quant.result);
    let epilogue = epilogue_mut(&mut node.op)?;
    epilogue.post_ops.push(PostOp::Residual(Residual { quant, own_first }));
    epilogue.post_ops.extend(after);
    node.inputs.resize(3, None);
    if let (Some(quant), Some(sum)) = (&mut node.quant, sum) {
        quant.operands.resize(node.inputs.len(), None);
        quant.operands.push(sum.operand(usize::from(own_first)));
        (quant.dtype, quant.result) = (sum.dtype, sum.result);
    }
    node.inputs.push(Some(other));
    node.outputs = smallvec![Some(output)];
    rewriter.move_to(index, addition);
    rewriter.remove(addition);
    rewriter.replace(index, node);
    Some(())
}
