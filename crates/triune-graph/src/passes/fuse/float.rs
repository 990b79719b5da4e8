//! Float steps: x·σ(x) to one function, constant additions to biases, residual additions and activations to epilogues.

use smallvec::smallvec;
use triune_tensor::{DType, Shape};

use super::{Rewriter, absorb_residual, append, epilogue};
use crate::{
    Constant, Node, Op, Value, ValueId,
    ops::{Binary, BinaryKind, Epilogue, Gemm, PostOp, Unary, UnaryKind},
};

/// x·Sigmoid(x) → Silu, x·`HardSigmoid`(x) → `HardSwish`.
pub(super) fn join_products(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node) = rewriter.get(index) else { return };
    let Op::Binary(Binary { kind: BinaryKind::Mul, epilogue }) = &node.op else { return };
    let &[Some(a), Some(b)] = &node.inputs[..] else { return };
    // Integers are rounded between the two.
    if !epilogue.post_ops.is_empty() || node.quant.is_some() {
        return;
    }
    let joined = |x: ValueId, gate: ValueId| {
        let (_, maker) = rewriter.producer(gate)?;
        let Op::Unary(unary) = maker.op else { return None };
        if maker.inputs.first() != Some(&Some(x)) || maker.quant.is_some() {
            return None;
        }
        match unary.kind {
            UnaryKind::Sigmoid => Some((x, UnaryKind::Silu)),
            // The definition of HardSwish; any other slope is another function.
            UnaryKind::HardSigmoid { alpha, beta } if alpha == 1.0 / 6.0 && beta == 0.5 => {
                Some((x, UnaryKind::HardSwish))
            }
            _ => None,
        }
    };
    let Some((x, kind)) = joined(a, b).or_else(|| joined(b, a)) else { return };
    let node = Node { op: Op::Unary(Unary { kind }), inputs: smallvec![Some(x)], ..node.clone() };
    rewriter.replace(index, node);
}

/// Products of bytes that become reals and are multiplied with a factor, as dynamically quantized networks have them: the product
/// gives these reals itself, with the same roundings.
pub(super) fn join_factors(rewriter: &mut Rewriter<'_>, index: usize) {
    join_factor(rewriter, index);
}

fn join_factor(rewriter: &mut Rewriter<'_>, index: usize) -> Option<()> {
    let node = rewriter.get(index)?;
    let Op::Binary(Binary { kind: BinaryKind::Mul, epilogue }) = &node.op else { return None };
    let (&[Some(a), Some(b)], &[Some(output)]) = (&node.inputs[..], &node.outputs[..]) else { return None };
    (epilogue.post_ops.is_empty() && node.quant.is_none()).then_some(())?;
    let shape = rewriter.value(output).fixed_shape()?;
    let (cast, product, factor) = [(a, b), (b, a)].into_iter().find_map(|(reals, factor)| {
        let (cast, converts) = rewriter.producer(reals)?;
        let sums = converts.inputs.first().copied().flatten()?;
        let (product, multiplies) = rewriter.producer(sums)?;
        let own = rewriter.value(factor);
        let dims = own.fixed_shape()?;
        // One for all, or one per column.
        let (last, others) = dims.split_last().map_or((1, &[][..]), |(last, others)| (*last, others));
        let spreads = others.iter().all(|&extent| extent == 1) && (last == 1 || Some(&last) == shape.last());
        let fits = matches!(&converts.op, Op::Cast(cast) if cast.to == DType::F32)
            && matches!(multiplies.op, Op::IntegerMatMul(_))
            && multiplies.inputs.get(4).copied().flatten().is_none()
            && rewriter.is_private(reals)
            && rewriter.is_private(sums)
            && rewriter.value(sums).fixed_shape() == Some(shape)
            && own.dtype == Some(DType::F32)
            && spreads;
        fits.then_some((cast, product, factor))
    })?;
    let mut node = rewriter.get(product)?.clone();
    node.inputs.resize(4, None);
    node.inputs.push(Some(factor));
    node.outputs = smallvec![Some(output)];
    rewriter.remove(product);
    rewriter.remove(cast);
    rewriter.replace(index, node);
    Some(())
}

/// Fuses the node at `index` into the one that makes its operand, where it is such a step.
pub(super) fn absorb(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node) = rewriter.get(index) else { return };
    let result = node.outputs.first().copied().flatten();
    if result.is_none_or(|id| rewriter.value(id).dtype != Some(DType::F32)) {
        return;
    }
    match node.op {
        Op::Unary(unary) => absorb_activation(rewriter, index, unary.kind),
        Op::Binary(Binary { kind: BinaryKind::Add, .. }) => absorb_bias(rewriter, index)
            .or_else(|| absorb_residual(rewriter, index, |_, epilogue, _| epilogue.post_ops.is_empty())),
        _ => None,
    };
}

fn absorb_activation(rewriter: &mut Rewriter<'_>, index: usize, kind: UnaryKind) -> Option<()> {
    let node = rewriter.get(index)?;
    let (input, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
    let (_, maker) = rewriter.producer(input)?;
    let takes =
        |epilogue: &Epilogue| epilogue.post_ops.iter().all(|post_op| matches!(post_op, PostOp::Residual(_)));
    (is_activation(kind) && rewriter.is_private(input) && takes(epilogue(&maker.op)?)).then_some(())?;
    append(rewriter, index, input, output, PostOp::Activation(kind))
}

/// Whether networks put the function behind products; others stay nodes of their own.
fn is_activation(kind: UnaryKind) -> bool {
    matches!(
        kind,
        UnaryKind::Relu
            | UnaryKind::LeakyRelu(_)
            | UnaryKind::Elu(_)
            | UnaryKind::Clip(_)
            | UnaryKind::Sigmoid
            | UnaryKind::Silu
            | UnaryKind::HardSigmoid { .. }
            | UnaryKind::HardSwish
            | UnaryKind::Tanh
    )
}

/// Conv + constant per channel → bias; matrix product + constant row → Gemm with a bias.
fn absorb_bias(rewriter: &mut Rewriter<'_>, addition: usize) -> Option<()> {
    let node = rewriter.get(addition)?;
    let Op::Binary(binary) = &node.op else { return None };
    let (&[Some(a), Some(b)], &[Some(output)]) = (&node.inputs[..], &node.outputs[..]) else { return None };
    binary.epilogue.post_ops.is_empty().then_some(())?;
    let (own, addend) = [(a, b), (b, a)].into_iter().find(|&(own, addend)| {
        rewriter.value(addend).constant.is_some()
            && rewriter.producer(own).is_some()
            && rewriter.is_private(own)
    })?;
    let shape = rewriter.value(output).fixed_shape()?;
    (rewriter.value(own).fixed_shape() == Some(shape)).then_some(())?;
    let (maker, node) = rewriter.producer(own)?;
    let no_bias = node.inputs.get(2).copied().flatten().is_none();
    let mut node = node.clone();
    let axis = match &node.op {
        Op::Conv(op) if no_bias && op.epilogue.post_ops.is_empty() => 1,
        Op::MatMul(op) if op.epilogue.post_ops.is_empty() => {
            let value = |operand: usize| Some(rewriter.value((*node.inputs.get(operand)?)?));
            let rank = |operand: usize| Some(value(operand)?.fixed_shape()?.rank());
            // Only products with constants have a bias.
            (rank(0)? == 2 && rank(1)? == 2 && value(1)?.constant.is_some()).then_some(())?;
            node.op = Op::Gemm(Gemm {
                alpha: 1.0,
                beta: 1.0,
                trans_a: false,
                trans_b: false,
                epilogue: Epilogue::default(),
            });
            1
        }
        _ => return None,
    };
    let row = along_axis(rewriter.value(addend).constant.as_ref()?, &shape, axis)?;
    let bias = rewriter.add_value(Value {
        dtype: Some(DType::F32),
        shape: Some(vec![crate::Dim::Fixed(row.elements())]),
        constant: Some(row),
        ..Value::named(rewriter.value(addend).name.clone())
    });
    node.inputs.resize(2, None);
    node.inputs.push(Some(bias));
    node.outputs = smallvec![Some(output)];
    rewriter.remove(addition);
    rewriter.replace(maker, node);
    Some(())
}

/// The constant as a row, when it broadcasts to `shape` with its elements along `axis` only.
fn along_axis(constant: &Constant, shape: &Shape, axis: usize) -> Option<Constant> {
    let own = constant.shape();
    let missing = shape.rank().checked_sub(own.rank())?;
    let fits = own.iter().enumerate().all(|(at, &dim)| dim == 1 || missing + at == axis);
    (fits && constant.dtype() == DType::F32 && constant.elements() == shape[axis]).then_some(())?;
    constant.reshaped(Shape::from([shape[axis]]))
}
