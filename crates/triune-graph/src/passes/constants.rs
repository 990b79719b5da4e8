//! Constants folded: nodes whose results are known go, operands that became known simplify the rest.

use triune_tensor::{DType, Recipe, Shape};

use super::rewrite::Rewriter;
use crate::{
    Constant, Dim, Error, Graph, Node, Op, Value, ValueId,
    evaluate::{Evaluator, constant_of, shares_bytes},
    infer::infer,
    ops::{
        DequantizeLinear, GlobalPool, ReduceKind, Reshape, Slice, Unary, UnaryKind,
        infer::{Operand, Operands, TensorType},
    },
    walk::Walk,
};

/// No folded value is larger than this; what would be stays a node.
const LIMIT: usize = 256 << 20;

/// Evaluates what is known on a bound graph and simplifies what that makes simple; also infers all types.
///
/// Shape arithmetic and moved, cast, repeated or exactly computable constants become constants: at most 256 MiB each, and
/// at one time five times the bytes of the network's own constants and 4 MiB. What would be more stays to be computed in
/// each run. Nodes that change nothing go; clamps with constant limits become [`UnaryKind::Clip`]; flattening, squeezing
/// and unsqueezing become reshapes to a constant shape. Dequantized constants stay as they are: quantization needs
/// their integers, see [`fold_dequantize`]. Returns whether anything changed.
pub fn fold_constants(graph: &mut Graph) -> Result<bool, Error> {
    infer(graph)?;
    fold_inferred(graph)
}

/// The same for a graph whose types are inferred.
pub(super) fn fold_inferred(graph: &mut Graph) -> Result<bool, Error> {
    let evaluated = evaluate(graph)?;
    if !graph.nodes.iter().any(|node| may_be_simpler(&node.op)) {
        return Ok(evaluated);
    }
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        clip_with_limits(&mut rewriter, index);
        reduce_as_pool(&mut rewriter, index);
        resolve_reshape(&mut rewriter, index);
        reshape_dequantized(&mut rewriter, index);
        move_dequantized(&mut rewriter, index);
        drop_copy(&mut rewriter, index);
    }
    Ok(rewriter.commit() || evaluated)
}

/// Whether one of the steps of [`fold_constants`] looks at the operator.
const fn may_be_simpler(op: &Op) -> bool {
    matches!(
        op,
        Op::Clip(_)
            | Op::Reduce(_)
            | Op::Reshape(_)
            | Op::Flatten(_)
            | Op::Squeeze(_)
            | Op::Unsqueeze(_)
            | Op::Slice(_)
            | Op::Transpose(_)
            | Op::Identity(_)
            | Op::Cast(_)
            | Op::Expand(_)
            | Op::Concat(_)
            | Op::Split(_)
    )
}

/// Turns dequantized constants that quantization left over into f32 constants, at most 1 GiB of them: each takes four times
/// what the network has, and is not held to the limit of what is made of little. Returns whether anything changed.
pub fn fold_dequantize(graph: &mut Graph) -> Result<bool, Error> {
    let mut changed = false;
    let mut nodes = std::mem::take(&mut graph.nodes);
    let mut budget = 4 * LIMIT;
    nodes.retain(|node| {
        let (Op::DequantizeLinear(op), Some(Some(output))) = (&node.op, node.outputs.first()) else {
            return true;
        };
        let operand = |index: usize| {
            node.inputs.get(index).copied().flatten().map(|id| graph.value(id).constant.as_ref())
        };
        let (Some(Some(x)), Some(Some(scale))) = (operand(0), operand(1)) else { return true };
        // A zero point that is given but not known has to wait.
        let zero_point = match operand(2) {
            Some(None) => return true,
            Some(zero_point) => zero_point,
            None => None,
        };
        let bytes = x.elements().saturating_mul(4);
        let folded = (bytes <= budget).then(|| dequantized(x, scale, zero_point, op.axis));
        let Some(constant) = folded.flatten() else { return true };
        budget -= bytes;
        graph.set_constant(*output, constant);
        changed = true;
        false
    });
    graph.nodes = nodes;
    Ok(changed)
}

fn dequantized(
    x: &Constant,
    scale: &Constant,
    zero_point: Option<&Constant>,
    axis: isize,
) -> Option<Constant> {
    let scales = scale.to_f32()?;
    let zero_points = match zero_point {
        Some(zero_point) => zero_point.to_i64()?,
        None => vec![0; scales.len()],
    };
    let shape = x.shape();
    // Elements that share a scale in a row, and scales before they start again.
    let (run, count) = if scales.len() == 1 {
        (x.elements().max(1), 1)
    } else {
        let axis = crate::ops::infer::resolve_axis(axis as i64, shape.rank())?;
        (shape[axis + 1..].iter().product::<usize>().max(1), shape[axis])
    };
    if scales.len() != count || zero_points.len() != count {
        return None;
    }
    // All of whose integers are those of an i64.
    x.dtype().int_range()?;
    let bytes = x.elements().checked_mul(4)?;
    let mut how = b"dequantized ".to_vec();
    how.extend_from_slice(x.dtype().name().as_bytes());
    for extent in [run, count] {
        how.extend_from_slice(&extent.to_le_bytes());
    }
    how.extend_from_slice(scale.bytes());
    how.extend(zero_points.iter().flat_map(|zero_point| zero_point.to_le_bytes()));
    let (source, own) = (x.bytes().clone(), x.clone());
    let fill = move |at: usize, to: &mut [u8]| {
        let (first, here, size) = (at / 4, to.len() / 4, own.dtype().bytes());
        let part = own.bytes().slice(first * size..(first + here) * size);
        let part = Constant::new(own.dtype(), Shape::from([here]), part);
        let mut to = to.as_chunks_mut().0.iter_mut();
        let mut index = first;
        let dequantize = |value: i64| {
            let channel = index / run % count;
            index += 1;
            if let Some(to) = to.next() {
                *to = (value.wrapping_sub(zero_points[channel]) as f32 * scales[channel]).to_le_bytes();
            }
        };
        let all = part.and_then(|part| part.for_each_i64(dequantize));
        debug_assert!(all.is_some());
    };
    // Without memory it stays to be computed in each run, where that is said.
    constant_of(DType::F32, shape, Recipe::new(source, how, bytes, fill))
}

/// Bytes of folded values at one time, times those of the network's own constants, and besides.
const HELD: (usize, usize) = (5, 4 << 20);

/// Replaces nodes by their results where those are known. A constant that only served others goes with its last reader.
fn evaluate(graph: &mut Graph) -> Result<bool, Error> {
    let own = graph.values.iter().filter_map(|value| value.constant.as_ref());
    let own = own.fold(0_usize, |sum, constant| sum.saturating_add(constant.byte_len()));
    let mut evaluator = Evaluator::with_budget(LIMIT, own.saturating_mul(HELD.0).saturating_add(HELD.1));
    let mut readers = vec![0_usize; graph.values.len()];
    let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
    let given = graph.defaults.iter().map(|default| &default.value);
    for id in read.chain(&graph.outputs).chain(given) {
        readers[id.0 as usize] += 1;
    }
    // Bytes that go when a folded value goes.
    let mut folded = vec![0_usize; graph.values.len()];
    let mut nodes = std::mem::take(&mut graph.nodes);
    let before = nodes.len();
    let (mut walk, mut going) = (Walk::new(), Ok(()));
    nodes.retain(|node| {
        if going.is_ok() {
            going = walk.node();
        }
        if going.is_err() {
            return true;
        }
        let Some(constants) = results(graph, node, &mut evaluator) else { return true };
        let counts = !shares_bytes(&node.op) && !matches!(node.op, Op::ConstantOfShape(_));
        for (output, constant) in node.outputs.iter().zip(constants) {
            if let Some(id) = output {
                folded[id.0 as usize] = if counts { constant.byte_len() } else { 0 };
                graph.set_constant(*id, constant);
            }
        }
        if let Some(Some(id)) = node.inputs.first()
            && shares_bytes(&node.op)
        {
            // They live on under another name, and are never given back.
            folded[id.0 as usize] = 0;
        }
        for id in node.inputs.iter().flatten() {
            let (left, bytes) = (&mut readers[id.0 as usize], &mut folded[id.0 as usize]);
            *left -= 1;
            if *left == 0 {
                evaluator.give_back(std::mem::take(bytes));
                graph.value_mut(*id).constant = None;
            }
        }
        false
    });
    graph.nodes = nodes;
    going.map(|()| graph.nodes.len() != before)
}

fn results(graph: &Graph, node: &Node, evaluator: &mut Evaluator) -> Option<Vec<Constant>> {
    let is_known = |id: &ValueId| graph.value(*id).constant.is_some();
    if !matches!(node.op, Op::ShapeOf(_)) && !node.inputs.iter().flatten().all(is_known) {
        return None;
    }
    let operand = |id: &Option<ValueId>| {
        let value = graph.value((*id)?);
        Some(Operand { dtype: value.dtype?, shape: value.fixed_shape()?, constant: value.constant.as_ref() })
    };
    let inputs: Vec<Option<Operand<'_>>> = node.inputs.iter().map(operand).collect();
    let quantized = node.quant.as_ref().map(|quant| quant.dtype);
    let at = Operands { node: &node.name, op: node.op.name(), inputs: &inputs, quantized };
    // The types of results that nobody named are not kept anywhere; those nodes stay.
    let types: Option<Vec<TensorType>> = node
        .outputs
        .iter()
        .map(|id| {
            let value = graph.value((*id)?);
            Some(TensorType { dtype: value.dtype?, shape: value.fixed_shape()? })
        })
        .collect();
    evaluator.evaluate(&node.op, &at, &types?)
}

/// Clamps with constant f32 limits hold them themselves.
fn clip_with_limits(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node @ Node { op: Op::Clip(_), .. }) = rewriter.get(index) else { return };
    let mut limits = [f32::NEG_INFINITY, f32::INFINITY];
    for (limit, operand) in limits.iter_mut().zip(node.inputs.iter().skip(1)) {
        let Some(id) = operand else { continue };
        let known = rewriter.value(*id).constant.as_ref().and_then(Constant::scalar_f32);
        let Some(value) = known.filter(|value| !value.is_nan()) else { return };
        *limit = value;
    }
    let f32_input =
        node.inputs.first().copied().flatten().is_some_and(|id| rewriter.value(id).dtype == Some(DType::F32));
    if f32_input {
        let mut node = node.clone();
        node.op = Op::Unary(Unary { kind: UnaryKind::Clip(limits) });
        node.inputs.truncate(1);
        rewriter.replace(index, node);
    }
}

/// Means and maxima of f32 over rows and columns are global pools, which quantization knows.
fn reduce_as_pool(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node @ Node { op: Op::Reduce(op), .. }) = rewriter.get(index) else { return };
    let pool = match op.kind {
        ReduceKind::Mean => GlobalPool::AVERAGE,
        ReduceKind::Max => GlobalPool::MAX,
        ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::Product | ReduceKind::Min => return,
    };
    let (Some(Some(input)), [Some(output)]) = (node.inputs.first().copied(), node.outputs.as_slice()) else {
        return;
    };
    let (from, output) = (rewriter.value(input), *output);
    let (Some(DType::F32), Some(shape)) = (from.dtype, from.fixed_shape()) else { return };
    let over_space = shape.rank() == 4 && op.reduced(4).as_deref() == Some(&[false, false, true, true]);
    if !over_space || shape[2..].contains(&0) {
        return;
    }
    let (name, keep_dims) = (node.name.clone(), op.keep_dims);
    let node = |output| Node::new(&*name, Op::GlobalPool(pool), vec![Some(input)], vec![Some(output)]);
    if keep_dims {
        rewriter.replace(index, node(output));
        return;
    }
    let dims = [shape[0], shape[1]].map(|extent| extent as i64);
    let Some(constant) = Constant::from_i64(Shape::from([2]), &dims) else { return };
    let stem = rewriter.value(output).name.clone();
    let requested = rewriter.add_value(Value::named(format!("{stem}.shape")));
    rewriter.set_constant(requested, constant);
    let extents = [shape[0], shape[1], 1, 1].map(Dim::Fixed).to_vec();
    let pooled =
        Value { dtype: Some(DType::F32), shape: Some(extents), ..Value::named(format!("{stem}.pooled")) };
    let pooled = rewriter.add_value(pooled);
    rewriter.add_node(node(pooled), index);
    let op = Op::Reshape(Reshape { allow_zero: dims.contains(&0) });
    let inputs = vec![Some(pooled), Some(requested)];
    let reshape = Node::new(format!("{name}.Reshape"), op, inputs, vec![Some(output)]);
    rewriter.replace(index, reshape);
}

/// Whatever only regroups elements becomes a reshape to a known shape, from the first value in a row of such.
fn resolve_reshape(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node) = rewriter.get(index) else { return };
    if !matches!(node.op, Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_)) {
        return;
    }
    let (Some(Some(input)), Some(Some(output))) =
        (node.inputs.first().copied(), node.outputs.first().copied())
    else {
        return;
    };
    let Some(shape) = rewriter.value(output).fixed_shape() else { return };
    let source = match rewriter.producer(input) {
        Some((_, Node { op: Op::Reshape(_), inputs, .. })) => {
            inputs.first().copied().flatten().unwrap_or(input)
        }
        _ => input,
    };
    let dims: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let op = Op::Reshape(Reshape { allow_zero: dims.contains(&0) });
    let known = node.inputs.get(1).copied().flatten().and_then(|id| rewriter.value(id).constant.as_ref());
    let resolved = known.and_then(Constant::to_i64).is_some_and(|known| known == dims);
    if resolved && source == input && node.op == op {
        return;
    }
    let (name, origin) = (node.name.clone(), node.origin.clone());
    let Some(constant) = Constant::from_i64(Shape::from([dims.len()]), &dims) else { return };
    let requested = rewriter.add_value(Value::named(format!("{}.shape", rewriter.value(output).name)));
    rewriter.set_constant(requested, constant);
    let inputs = vec![Some(source), Some(requested)];
    rewriter.replace(index, Node { origin, ..Node::new(name, op, inputs, vec![Some(output)]) });
}

/// A dequantized constant that is reshaped is the dequantized constant of these extents: quantization finds weights by their
/// dequantizer.
fn reshape_dequantized(rewriter: &mut Rewriter<'_>, index: usize) -> Option<()> {
    let node = rewriter.get(index).filter(|node| matches!(node.op, Op::Reshape(_)))?;
    let (real, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
    let (_, maker) = rewriter.producer(real)?;
    let Op::DequantizeLinear(own) = &maker.op else { return None };
    let known = |index: usize| rewriter.value(maker.inputs.get(index).copied()??).constant.as_ref();
    let source = known(0)?;
    let (from, to) = (source.shape(), rewriter.value(output).fixed_shape()?);
    let axis = match known(1)?.elements() {
        1 => 0,
        _ => same_axis(&from, &to, crate::ops::infer::resolve_axis(own.axis as i64, from.rank())?)?,
    };
    let reshaped = source.reshaped(to)?;
    let op = Op::DequantizeLinear(DequantizeLinear { axis: axis as isize });
    let (mut inputs, name) = (maker.inputs.clone(), node.name.clone());
    let stem = rewriter.value(inputs[0]?).name.clone();
    let value = rewriter.add_value(Value::named(stem));
    rewriter.set_constant(value, reshaped);
    inputs[0] = Some(value);
    rewriter.replace(index, Node::new(name, op, inputs, vec![Some(output)]));
    Some(())
}

/// A dequantized constant that is transposed, taken a part of or reshaped over its scales' axis is the dequantized constant of those elements, with the scales that
/// these have there: a transposed convolution's weights are turned round so.
fn move_dequantized(rewriter: &mut Rewriter<'_>, index: usize) -> Option<()> {
    let node = rewriter
        .get(index)
        .filter(|node| matches!(node.op, Op::Slice(_) | Op::Transpose(_) | Op::Reshape(_)))?;
    let (real, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
    let (_, maker) = rewriter.producer(real)?;
    let Op::DequantizeLinear(own) = &maker.op else { return None };
    let known = |id: Option<ValueId>| rewriter.value(id?).constant.as_ref();
    let operand = |index: usize| maker.inputs.get(index).copied().flatten();
    let (source, scales) = (known(operand(0))?, known(operand(1))?);
    let zero_points = match operand(2) {
        Some(id) => Some(known(Some(id))?),
        None => None,
    };
    let shape = rewriter.value(output).fixed_shape()?;
    let moved = |constant: &Constant| {
        let first = Operand { dtype: constant.dtype(), shape: constant.shape(), constant: Some(constant) };
        let others = node.inputs[1..].iter().map(|id| match id {
            None => Some(None),
            Some(id) => {
                let constant = known(Some(*id))?;
                Some(Some(Operand {
                    dtype: constant.dtype(),
                    shape: constant.shape(),
                    constant: Some(constant),
                }))
            }
        });
        let others: Option<Vec<Option<Operand<'_>>>> = others.collect();
        let inputs: Vec<Option<Operand<'_>>> = std::iter::once(Some(first)).chain(others?).collect();
        let at = Operands { node: &node.name, op: node.op.name(), inputs: &inputs, quantized: None };
        let result = TensorType { dtype: constant.dtype(), shape };
        Evaluator::new(LIMIT).evaluate(&node.op, &at, &[result])?.pop()
    };
    let elements = moved(source)?;
    let mut replaced = vec![(0, elements)];
    let mut axis = 0;
    if scales.elements() > 1 {
        let along = crate::ops::infer::resolve_axis(own.axis as i64, source.shape().rank())?;
        let count = source.shape()[along];
        let chosen: Vec<i32>;
        (axis, chosen) = if let Op::Transpose(op) = &node.op {
            (op.perm.iter().position(|&from| from == along)?, (0..count as i32).collect())
        } else {
            // Where along the axis of scales each element stood, moved along with it.
            let behind: usize = source.shape()[along + 1..].iter().product();
            let places: Vec<i32> = (0..source.elements()).map(|at| (at / behind % count) as i32).collect();
            let places = moved(&Constant::from_i32(source.shape(), &places)?)?.to_i32()?;
            (0..shape.rank()).find_map(|axis| {
                let behind: usize = shape[axis + 1..].iter().product();
                let chosen: Vec<i32> =
                    (0..shape[axis]).map(|at| places.get(at * behind).copied()).collect::<Option<_>>()?;
                let own = |(at, place): (usize, &i32)| chosen[at / behind % chosen.len()] == *place;
                places.iter().enumerate().all(own).then_some((axis, chosen))
            })?
        };
        let picked = |constant: &Constant| {
            let width = constant.dtype().bytes();
            let bytes: Vec<u8> = chosen
                .iter()
                .flat_map(|&at| constant.bytes()[at as usize * width..][..width].iter().copied())
                .collect();
            Constant::new(constant.dtype(), Shape::from([chosen.len()]), bytes)
        };
        if scales.elements() != count || zero_points.is_some_and(|points| points.elements() != count) {
            return None;
        }
        replaced.push((1, picked(scales)?));
        if let Some(zero_points) = zero_points {
            replaced.push((2, picked(zero_points)?));
        }
    }
    let op = Op::DequantizeLinear(DequantizeLinear { axis: axis as isize });
    let (mut inputs, name) = (maker.inputs.clone(), node.name.clone());
    for (operand, constant) in replaced {
        let stem = rewriter.value(inputs[operand]?).name.clone();
        let value = rewriter.add_value(Value::named(stem));
        rewriter.set_constant(value, constant);
        inputs[operand] = Some(value);
    }
    rewriter.replace(index, Node::new(name, op, inputs, vec![Some(output)]));
    Some(())
}

/// The axis of other extents along which the same elements lie, in the same steps.
fn same_axis(from: &[usize], to: &[usize], axis: usize) -> Option<usize> {
    let before = |extents: &[usize]| extents.iter().product::<usize>();
    (0..to.len()).find(|&each| to[each] == from[axis] && before(&to[..each]) == before(&from[..axis]))
}

/// Nodes that hand on what they get go.
fn drop_copy(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node) = rewriter.get(index) else { return };
    let ([Some(output)], Some(Some(input))) = (node.outputs.as_slice(), node.inputs.first()) else { return };
    let (input, output) = (*input, *output);
    let (from, to) = (rewriter.value(input), rewriter.value(output));
    if from.dtype != to.dtype || from.shape != to.shape {
        return;
    }
    let copies = match &node.op {
        Op::Identity(_) | Op::Reshape(_) | Op::Cast(_) | Op::Expand(_) => true,
        // The same extents, so that nothing but a step backwards could change anything.
        Op::Slice(_) => takes_all(rewriter, node),
        Op::Transpose(op) => op.perm.is_sorted(),
        Op::Concat(_) | Op::Split(_) => node.inputs.len() == 1,
        _ => false,
    };
    if !copies {
        return;
    }
    if !rewriter.is_output(output) {
        rewriter.remove(index);
        rewriter.replace_uses(output, input);
        return;
    }
    // A caller gets this value by its name: who makes the input makes the output directly.
    let Some((maker, node)) = rewriter.producer(input) else { return };
    if !rewriter.is_private(input) {
        return;
    }
    let mut node = node.clone();
    for made in node.outputs.iter_mut().filter(|made| **made == Some(input)) {
        *made = Some(output);
    }
    rewriter.remove(index);
    rewriter.replace(maker, node);
}

fn takes_all(rewriter: &Rewriter<'_>, node: &Node) -> bool {
    let ints = |index: usize| {
        let id = node.inputs.get(index).copied().flatten()?;
        rewriter.value(id).constant.as_ref()?.to_i64()
    };
    let shape = node.inputs[0].and_then(|id| rewriter.value(id).fixed_shape());
    let (Some(shape), Some(starts), Some(ends)) = (shape, ints(1), ints(2)) else { return false };
    Slice::ranges(&shape, &starts, &ends, ints(3).as_deref(), ints(4).as_deref())
        .is_some_and(|ranges| ranges.iter().all(|range| range.step == 1))
}
