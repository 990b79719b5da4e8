//! Operators that compute: each between `DequantizeLinear` nodes and a `QuantizeLinear` becomes its integer form.

use smallvec::smallvec;
use triune_tensor::{DType, QuantParams, Requantize, Rounding, Shape};

use super::{
    super::rewrite::Rewriter,
    composite, extreme, mapped, over,
    pattern::{Weights, bias, dequantized, quantizer, weights},
    table::{Quantized, mapping},
};
use crate::{
    Constant, Dim, Node, Op, Quantization, Value, ValueId,
    ops::{
        AutoPad, Binary, BinaryKind, Concat, Conv, CoordinateMode, Epilogue, NearestMode, PoolKind, PostOp,
        Resize, ResizeMode, Softmax, UnaryKind, infer::resolve_axis,
    },
};

/// Fuses the operator (and a Relu or Clip) before the `QuantizeLinear` at `index` with it. Returns whether it did.
pub(super) fn lower(rewriter: &mut Rewriter<'_>, index: usize) -> bool {
    try_lower(rewriter, index).is_some()
}

fn try_lower(rewriter: &mut Rewriter<'_>, index: usize) -> Option<()> {
    let (real, output, meaning) = quantizer(rewriter, index)?;
    let (mut maker, node) = private_producer(rewriter, real)?;
    let mut replacement = if let Some(replacement) = integer_form(rewriter, &node, meaning) {
        replacement
    } else if let Some((before, replacement)) = limited_sum(rewriter, &node, meaning) {
        maker = before;
        replacement
    } else if let Some(replacement) = composite::form(rewriter, real, meaning) {
        replacement
    } else if let Some(replacement) = extreme::form(rewriter, real, meaning) {
        replacement
    } else {
        // Not by itself: perhaps it only limits what the operator before it makes.
        let (before, replacement) = limited(rewriter, &node, meaning)?;
        maker = before;
        replacement
    };
    replacement.outputs = smallvec![Some(output)];
    // It replaces the QuantizeLinear, so that the float operator goes with what only served that, and stands where the
    // float operator stood.
    rewriter.move_to(index, maker);
    rewriter.replace(index, replacement);
    Some(())
}

/// What a node limits, in one with its limits: where that operator stands, and its form over integers.
fn limited(rewriter: &mut Rewriter<'_>, node: &Node, meaning: Quantized) -> Option<(usize, Node)> {
    let limits = limits(rewriter, node, meaning)?;
    let (before, mut operator) = private_producer(rewriter, node.inputs.first().copied()??)?;
    epilogue_mut(&mut operator.op)?;
    let mut replacement = integer_form(rewriter, &operator, meaning)?;
    let (low, high) = meaning.dtype.int_range()?;
    if i64::from(limits[0]) > low || i64::from(limits[1]) < high {
        epilogue_mut(&mut replacement.op)?.post_ops.push(PostOp::Clamp { limits });
    }
    Some((before, replacement))
}

/// [`limited`], of a sum or product of integers, where factors are coarser than reals: it is rounded as it is without
/// the limits, even if both are a function of one value, which elsewhere is a table of the reals' results.
fn limited_sum(rewriter: &mut Rewriter<'_>, node: &Node, meaning: Quantized) -> Option<(usize, Node)> {
    (rewriter.requantize() == Requantize::Fixed).then_some(())?;
    let (_, before) = rewriter.producer(node.inputs.first().copied()??)?;
    let known = before.clone();
    matches!(known.op, Op::Binary(_)).then_some(())?;
    integer_form(rewriter, &known, meaning)?;
    limited(rewriter, node, meaning)
}

/// The node that makes this value for one reader only.
fn private_producer(rewriter: &Rewriter<'_>, id: ValueId) -> Option<(usize, Node)> {
    let (index, node) = rewriter.producer(id)?;
    (rewriter.is_private(id) && node.outputs.len() == 1).then(|| (index, node.clone()))
}

/// The limits in the integer domain that a Relu or Clip amounts to: quantization is monotone, so they commute.
fn limits(rewriter: &Rewriter<'_>, node: &Node, meaning: Quantized) -> Option<[i32; 2]> {
    let [low, high] = match &node.op {
        Op::Unary(unary) => match unary.kind {
            UnaryKind::Relu => [0.0, f32::INFINITY],
            UnaryKind::Clip(limits) => limits,
            _ => return None,
        },
        Op::Clip(_) => clip_limits(rewriter, node)?,
        _ => return None,
    };
    let rounding = rewriter.rounding();
    (low <= high).then(|| [low, high].map(|limit| meaning.params.quantize_by(rounding, limit, meaning.dtype)))
}

pub(super) fn clip_limits(rewriter: &Rewriter<'_>, node: &Node) -> Option<[f32; 2]> {
    let limit = |operand: usize, default| match node.inputs.get(operand).copied().flatten() {
        Some(id) => rewriter.value(id).constant.as_ref()?.scalar_f32(),
        None => Some(default),
    };
    Some([limit(1, f32::NEG_INFINITY)?, limit(2, f32::INFINITY)?])
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

/// The operator over 8-bit operands, when it has such a form and all its operands do.
fn integer_form(rewriter: &mut Rewriter<'_>, node: &Node, to: Quantized) -> Option<Node> {
    form(rewriter, node, to).filter(has_finite_factors)
}

/// Whether f32 has the factors by which an operator's integers become its result's, and what they make of the largest integers:
/// between scales that are far apart it has not, and the operator stays in reals, where each scale is for itself.
fn has_finite_factors(node: &Node) -> bool {
    let Some(quant) = &node.quant else { return true };
    let scale = |index: usize| quant.operand(index).map_or(1.0, |params| params.scale);
    let per_step = |scale: f32| f64::from(scale / quant.result.scale);
    let largest = f64::from(u16::MAX);
    let reach = match &node.op {
        Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_) => {
            let weights = quant.weights.iter().copied().fold(0.0, f32::max);
            let other = if quant.weights.is_empty() { scale(1) } else { weights };
            per_step(scale(0) * other)
        }
        Op::Binary(Binary { kind: BinaryKind::Mul, .. }) => per_step(scale(0) * scale(1)) * largest * largest,
        Op::Binary(_) => (per_step(scale(0)) + per_step(scale(1))) * 2.0 * largest,
        _ => per_step(scale(0)) * largest,
    };
    reach < f64::from(f32::MAX)
}

fn form(rewriter: &mut Rewriter<'_>, node: &Node, to: Quantized) -> Option<Node> {
    let x = node.inputs.first().copied()??;
    match &node.op {
        Op::Conv(op) if op.epilogue.post_ops.is_empty() => {
            let channels = dim(rewriter, node.inputs.get(1).copied()??, 0)?;
            products(rewriter, node, 0, channels, to)
        }
        Op::Gemm(op) if op.epilogue.post_ops.is_empty() => {
            let has_addend = node.inputs.get(2).copied().flatten().is_some();
            if op.trans_a || op.alpha != 1.0 || (has_addend && op.beta != 1.0) {
                return None;
            }
            let axis = usize::from(!op.trans_b);
            let channels = dim(rewriter, node.inputs.get(1).copied()??, axis)?;
            products(rewriter, node, axis, channels, to)
        }
        Op::MatMul(op) if op.epilogue.post_ops.is_empty() => {
            let matrix = node.inputs.get(1).copied()??;
            let known = rewriter.producer(matrix).is_none_or(|(_, maker)| {
                maker
                    .inputs
                    .first()
                    .copied()
                    .flatten()
                    .is_some_and(|id| rewriter.value(id).constant.is_some())
            });
            if known && rewriter.value(matrix).shape.as_ref()?.len() == 2 {
                let channels = dim(rewriter, matrix, 1)?;
                return products(rewriter, node, 1, channels, to);
            }
            product_of_both(rewriter, node, to)
        }
        Op::Binary(Binary { kind: BinaryKind::Add | BinaryKind::Sub | BinaryKind::Mul, epilogue })
            if epilogue.post_ops.is_empty() =>
        {
            over_integers(rewriter, node, node.inputs.len(), to)
        }
        Op::Pool(op) if matches!(op.kind, PoolKind::Average { .. }) => of_one_type(rewriter, node, to),
        // Over other numbers of axes than two it is spelled out, in reals.
        Op::GlobalPool(op) if matches!(op.kind, PoolKind::Average { .. }) && is_image(rewriter, x) => {
            of_one_type(rewriter, node, to)
        }
        Op::Resize(op) if op.mode == ResizeMode::Linear && to.is_byte() => {
            // Networks that round otherwise have a blending of their own.
            let blends = rewriter.rounding() == Rounding::HalfToEven && is_image(rewriter, x);
            blends.then(|| of_one_type(rewriter, node, to))?
        }
        // A share of itself alone is 1, which the operator over bytes has no room for.
        Op::Softmax(op) if to.is_byte() && !op.log && row(rewriter, *op, x)? == 1 => {
            function(rewriter, node, x, to, UnaryKind::Clip([1.0; 2]))
        }
        Op::Softmax(op) if to.is_byte() && !op.log => of_one_type(rewriter, node, to),
        Op::Concat(_) => concat(rewriter, node, to),
        Op::Unary(unary) => function(rewriter, node, x, to, unary.kind),
        Op::Clip(_) => {
            let limits = clip_limits(rewriter, node)?;
            function(rewriter, node, x, to, UnaryKind::Clip(limits))
        }
        _ => None,
    }
}

/// A product of two activations of 8 bits, whose batches are the same or of the first one alone.
fn product_of_both(rewriter: &Rewriter<'_>, node: &Node, to: Quantized) -> Option<Node> {
    let operand = |index: usize| rewriter.value(node.inputs.get(index).copied()??).fixed_shape();
    let (a, b) = (operand(0)?, operand(1)?);
    (to.is_byte() && a.rank() >= 2 && b.rank() >= 2 && a[a.rank() - 1] <= MOST_PRODUCTS).then_some(())?;
    let (own, other) = (&a[..a.rank() - 2], &b[..b.rank() - 2]);
    let shared = other.iter().all(|&extent| extent == 1) && other.len() <= own.len();
    (own == other || shared).then(|| over_integers(rewriter, node, 2, to))?
}

/// Longest inner product of two activations: 255² so many times fits an i32.
const MOST_PRODUCTS: usize = (i32::MAX / (255 * 255)) as usize;

fn is_image(rewriter: &Rewriter<'_>, id: ValueId) -> bool {
    rewriter.value(id).shape.as_ref().is_some_and(|dims| dims.len() == 4)
}

fn dim(rewriter: &Rewriter<'_>, id: ValueId, axis: usize) -> Option<usize> {
    rewriter.value(id).fixed_shape()?.get(axis).copied()
}

/// The same operator on the integers behind its first `operands` operands.
fn over_integers(rewriter: &Rewriter<'_>, node: &Node, operands: usize, to: Quantized) -> Option<Node> {
    let mut node = node.clone();
    let mut meanings = Vec::with_capacity(operands);
    for input in node.inputs.iter_mut().take(operands) {
        let (source, from) = dequantized(rewriter, (*input)?)?;
        alike(from, to).then_some(())?;
        *input = Some(source);
        meanings.push(from);
    }
    node.quant = Some(Box::new(over(&meanings, to)));
    Some(node)
}

/// How many elements a softmax shares out 1 among.
fn row(rewriter: &Rewriter<'_>, op: Softmax, x: ValueId) -> Option<usize> {
    let shape = rewriter.value(x).fixed_shape()?;
    let axis = resolve_axis(op.axis as i64, shape.rank())?;
    let row = if op.flatten { &shape[axis..] } else { &shape[axis..=axis] };
    row.iter().try_fold(1, |product: usize, &extent| product.checked_mul(extent))
}

/// The same operator on the integers behind its first operand, when they are of the result's type.
fn of_one_type(rewriter: &Rewriter<'_>, node: &Node, to: Quantized) -> Option<Node> {
    let (_, from) = dequantized(rewriter, node.inputs.first().copied()??)?;
    (from.dtype == to.dtype).then(|| over_integers(rewriter, node, 1, to))?
}

/// Whether an operator over integers can make the one of the other: both 8 bit, or both 16 bit and symmetric.
fn alike(from: Quantized, to: Quantized) -> bool {
    let symmetric = [from, to].iter().all(|own| own.dtype == DType::I16 && own.params.zero_point == 0);
    from.is_byte() && to.is_byte() || symmetric
}

fn function(
    rewriter: &Rewriter<'_>,
    node: &Node,
    x: ValueId,
    to: Quantized,
    kind: UnaryKind,
) -> Option<Node> {
    let (source, from) = dequantized(rewriter, x)?;
    let op = mapping(Some(kind), from, to, rewriter.rounding())?;
    let quant = Some(Box::new(over(&[from], to)));
    Some(Node { op, inputs: smallvec![Some(source)], quant, ..node.clone() })
}

/// A joint of integers that all mean the same: parts of other parameters are mapped first.
fn concat(rewriter: &mut Rewriter<'_>, node: &Node, to: Quantized) -> Option<Node> {
    let parts: Option<Vec<(ValueId, Quantized)>> =
        node.inputs.iter().map(|input| dequantized(rewriter, (*input)?)).collect();
    let parts = parts?;
    let rounding = rewriter.rounding();
    let maps: Option<Vec<Option<Op>>> = parts
        .iter()
        .map(|&(_, from)| if from == to { Some(None) } else { mapping(None, from, to, rounding).map(Some) })
        .collect();
    let mut joint = node.clone();
    let place = rewriter.producer(node.outputs.first().copied()??)?.0;
    for (position, ((source, from), map)) in parts.into_iter().zip(maps?).enumerate() {
        joint.inputs[position] = Some(source);
        if let Some(op) = map {
            let part = rewriter.value(source);
            let requantized = Value {
                dtype: Some(to.dtype),
                shape: part.shape.clone(),
                ..Value::named(format!("{}:requantized", part.name))
            };
            let requantized = rewriter.add_value(requantized);
            let name = format!("{}#requantize{position}", node.name);
            rewriter.add_node(mapped(name, op, (source, from), (requantized, to)), place);
            joint.inputs[position] = Some(requantized);
        }
    }
    Some(joint)
}

/// Convolution or matrix product with constant weights, whose `channels` run along `axis`.
fn products(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    axis: usize,
    channels: usize,
    to: Quantized,
) -> Option<Node> {
    let (x, meaning) = dequantized(rewriter, node.inputs.first().copied()??)?;
    let found = weights(rewriter, node.inputs.get(1).copied()??, axis, channels)?;
    let width = if to.is_byte() { DType::I8 } else { DType::I16 };
    (alike(meaning, to) && found.dtype == width).then_some(())?;
    let addend = match node.inputs.get(2).copied().flatten() {
        Some(real) => Some(bias_row(rewriter, real, meaning.params, &found, channels)?),
        None => None,
    };
    let mut node = node.clone();
    node.quant = Some(Box::new(Quantization {
        operands: vec![Some(meaning.params)],
        weights: found.scales.clone().into(),
        dtype: to.dtype,
        result: to.params,
    }));
    let (x, found) =
        if found.rest.is_some() { twice(rewriter, &mut node, x, axis, found)? } else { (x, found) };
    node.inputs = smallvec![Some(x), Some(install_weights(rewriter, found))];
    if addend.is_some() {
        node.inputs.push(addend);
    }
    Some(node)
}

/// The integers twice, and both parts of the weights in their order: the same sums. One behind the other along the axis that is
/// summed over, or in groups, where every column is there twice for a window that goes two columns at a time. Not where the sums
/// might leave 32 bits.
fn twice(
    rewriter: &mut Rewriter<'_>,
    node: &mut Node,
    x: ValueId,
    channels: usize,
    mut weights: Weights,
) -> Option<(ValueId, Weights)> {
    /// Products of two bytes whose sums fit.
    const MOST: usize = 33_025;
    let (near, rest) = (weights.rebased.take()?, weights.rest.take()?);
    let shape = near.shape();
    let products = shape.iter().product::<usize>() / shape[channels].max(1);
    (1..=MOST / 2).contains(&products).then_some(())?;
    let rank = rewriter.value(x).shape.as_ref()?.len();
    let (axis, op, operands, both);
    match &mut node.op {
        Op::Conv(conv) if conv.groups > 1 => {
            (axis, both) = (3, beside(conv, &near, &rest)?);
            let scales = Constant::from_f32(Shape::from([4]), &[1.0, 1.0, 1.0, 2.0])?;
            let id = rewriter.add_value(Value::named(format!("{}:columns", node.name)));
            rewriter.set_constant(id, scales);
            let (mode, coordinates) = (ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric);
            op = Op::Resize(Resize { mode, coordinates });
            operands = vec![Some(x), None, Some(id)];
        }
        other => {
            (axis, both) = (
                if matches!(other, Op::Conv(_)) { 1 } else { rank - 1 },
                behind(&near, &rest, 1 - channels)?,
            );
            op = Op::Concat(Concat { axis: axis as isize });
            operands = vec![Some(x); 2];
        }
    }
    weights.rebased = Some(both);
    let (place, _) = rewriter.producer(node.outputs.first().copied()??)?;
    let value = rewriter.value(x);
    let mut dims = value.shape.clone()?;
    dims[axis] = match dims.get(axis)? {
        Dim::Fixed(extent) => Dim::Fixed(extent.checked_mul(2)?),
        Dim::Symbol(_) => return None,
    };
    let twice =
        Value { dtype: value.dtype, shape: Some(dims), ..Value::named(format!("{}:twice", value.name)) };
    let twice = rewriter.add_value(twice);
    let own = Node::new(format!("{}#twice", node.name), op, operands, vec![Some(twice)]);
    rewriter.add_node(Node { origin: Some(node.as_origin()), ..own }, place);
    Some((twice, weights))
}

/// One part of the weights behind the other, along `axis`, the first or the second.
fn behind(near: &Constant, rest: &Constant, axis: usize) -> Option<Constant> {
    let mut shape = near.shape();
    let row: usize = shape[axis..].iter().product();
    let rows = near.bytes().chunks(row).zip(rest.bytes().chunks(row));
    let bytes: Vec<u8> = rows.flat_map(|(near, rest)| near.iter().chain(rest).copied()).collect();
    shape.dims_mut()[axis] *= 2;
    Constant::new(DType::I8, shape, bytes)
}

/// Both parts of the weights beside each other, of a window over columns that are there twice, which the convolution goes by then.
fn beside(conv: &mut Conv, near: &Constant, rest: &Constant) -> Option<Constant> {
    let mut shape = near.shape();
    let &[.., columns] = (shape.rank() == 4 && conv.auto_pad == AutoPad::Explicit).then_some(&*shape)? else {
        return None;
    };
    let step = conv.dilation[1].checked_mul(2)?;
    let width = step.checked_mul(columns - 1)?.checked_add(2)?;
    let mut bytes = Vec::new();
    for (near, rest) in near.bytes().chunks(columns).zip(rest.bytes().chunks(columns)) {
        let first = bytes.len();
        bytes.resize(first + width, 0);
        for (column, (&near, &rest)) in near.iter().zip(rest).enumerate() {
            bytes[first + column * step] = near;
            bytes[first + column * step + 1] = rest;
        }
    }
    shape.dims_mut()[3] = width;
    conv.kernel = Some([shape[2], width]);
    (conv.stride[1], conv.dilation[1]) = (conv.stride[1].checked_mul(2)?, 1);
    for side in [1, 3] {
        conv.pad[side] = conv.pad[side].checked_mul(2)?;
    }
    Constant::new(DType::I8, shape, bytes)
}

/// The bias as one row of `channels` integers.
fn bias_row(
    rewriter: &mut Rewriter<'_>,
    real: ValueId,
    x: QuantParams,
    weights: &Weights,
    channels: usize,
) -> Option<ValueId> {
    let scales = &weights.scales;
    let (source, row) = if let Some(reals) = &rewriter.value(real).constant {
        (real, quantize_bias(reals, x.scale, scales, channels, rewriter.rounding())?)
    } else {
        let found = bias(rewriter, real)?;
        let fits = found.fits(x.scale, scales);
        if fits && *found.elements.shape() == [channels] {
            return Some(found.source);
        }
        // A Gemm's addend may come as (1, N); one per row would not be a bias.
        let is_row = found.elements.shape().last() == Some(&channels);
        let row = is_row.then(|| found.elements.reshaped(Shape::from([channels])))??;
        // Integers on the scales of other products, as those of a bias that several share, count for their reals.
        let row = if fits {
            row
        } else {
            let reals = found.floats(&row)?;
            quantize_bias(&reals, x.scale, scales, channels, rewriter.rounding())?
        };
        (found.source, row)
    };
    let name = rewriter.value(source).name.clone();
    Some(rewriter.add_value(Value {
        dtype: Some(row.dtype()),
        shape: Some(vec![crate::Dim::Fixed(channels)]),
        constant: Some(row),
        ..Value::named(name)
    }))
}

/// A float bias beside quantized weights, as ONNX Runtime quantizes it: divided by the f32 product of the scales and rounded.
fn quantize_bias(
    reals: &Constant,
    x_scale: f32,
    weight_scales: &[f32],
    channels: usize,
    rounding: Rounding,
) -> Option<Constant> {
    let reals = (*reals.shape() == [channels]).then(|| reals.to_f32())??;
    let scales = weight_scales.iter().cycle();
    // `as` saturates.
    let row: Vec<i32> = reals
        .iter()
        .zip(scales)
        .map(|(real, scale)| rounding.round(real / (x_scale * scale)) as i32)
        .collect();
    Constant::from_i32(Shape::from([channels]), &row)
}

/// The value that holds the weights as s8 or s16.
fn install_weights(rewriter: &mut Rewriter<'_>, weights: Weights) -> ValueId {
    let Some(constant) = weights.rebased else { return weights.source };
    let name = rewriter.value(weights.source).name.clone();
    let value = rewriter.add_value(Value::named(name));
    rewriter.set_constant(value, constant);
    value
}
