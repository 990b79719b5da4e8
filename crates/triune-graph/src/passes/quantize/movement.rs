//! Dequantization moves behind operators that only move, repeat or select elements: the same elements come out,
//! and a `QuantizeLinear` that follows meets its `DequantizeLinear`.

use std::collections::HashMap;

use smallvec::smallvec;
use triune_tensor::{DType, Shape};

use super::{
    super::rewrite::Rewriter,
    pattern::{dequantized, quantizer},
    table::Quantized,
};
use crate::{
    Constant, Node, Op, Provenance, Value, ValueId, ValueIds,
    ops::{Pad, PadMode, PoolKind, ResizeMode, Unary, UnaryKind},
};

/// Rewrites `DequantizeLinear` → movement to movement → `DequantizeLinear`. Returns whether it did.
pub(super) fn lower(rewriter: &mut Rewriter<'_>, index: usize) -> bool {
    let Some(node) = rewriter.get(index) else { return false };
    if !commutes(rewriter, node) {
        return false;
    }
    let node = node.clone();
    let operands = if matches!(node.op, Op::Concat(_)) { node.inputs.len() } else { 1 };
    let sources: Option<Vec<(ValueId, Quantized)>> =
        node.inputs.iter().take(operands).map(|input| dequantized(rewriter, (*input)?)).collect();
    let Some(sources) = sources else { return false };
    let Some((_, meaning)) = sources.first().copied() else { return false };
    if sources.iter().any(|(_, other)| *other != meaning) {
        return false;
    }
    let mut moved = node.clone();
    for (input, (source, _)) in moved.inputs.iter_mut().zip(&sources) {
        *input = Some(*source);
    }
    if let Op::Pad(_) = node.op {
        let Some(fill) = fill_value(rewriter, &node, meaning) else { return false };
        moved.inputs.resize(moved.inputs.len().max(3), None);
        moved.inputs[2] = Some(fill);
    }
    // The operator keeps its place and makes integers; each of its old results comes from a DequantizeLinear behind it.
    let maker =
        rewriter.producer(node.inputs[0].expect("a dequantized operand")).expect("its maker").1.clone();
    let mut dequantizers = Vec::new();
    for output in moved.outputs.iter_mut().flatten() {
        let real = *output;
        let value = rewriter.value(real);
        let value = Value {
            dtype: Some(meaning.dtype),
            shape: value.shape.clone(),
            provenance: Provenance::Same { value: value.name.clone(), quant: meaning.params },
            ..Value::named(value.name.clone())
        };
        *output = rewriter.add_value(value);
        dequantizers.push(Node::new(
            format!("{}#dequantize{}", node.name, dequantizers.len()),
            maker.op.clone(),
            std::iter::once(Some(*output)).chain(maker.inputs[1..].iter().copied()).collect::<ValueIds>(),
            vec![Some(real)],
        ));
    }
    // Old results must have found their new maker before the old node's servants are swept.
    rewriter.replace(index, moved);
    for dequantizer in dequantizers {
        rewriter.add_node(dequantizer, index);
    }
    true
}

/// Whether the operator gives the same elements on integers, and running it there is worth the exchange.
fn commutes(rewriter: &Rewriter<'_>, node: &Node) -> bool {
    let consumers = || node.outputs.iter().flatten().flat_map(|&output| rewriter.consumers(output));
    let only_into = |wanted: fn(&Rewriter<'_>, usize) -> bool| {
        !node.outputs.iter().flatten().any(|&output| rewriter.is_output(output))
            && consumers().all(|reader| wanted(rewriter, reader))
    };
    let into_quantize: fn(&Rewriter<'_>, usize) -> bool =
        |rewriter, reader| quantizer(rewriter, reader).is_some();
    match &node.op {
        Op::Reshape(_)
        | Op::Flatten(_)
        | Op::Transpose(_)
        | Op::Squeeze(_)
        | Op::Unsqueeze(_)
        | Op::Slice(_)
        | Op::Split(_)
        | Op::Concat(_) => true,
        Op::Pool(op) => op.kind == PoolKind::Max,
        Op::GlobalPool(op) => op.kind == PoolKind::Max,
        Op::Identity(_) => only_into(|_, _| true),
        // These may repeat elements: dequantizing behind them would be more work.
        Op::Gather(_) | Op::Expand(_) | Op::Pad(Pad { mode: PadMode::Edge | PadMode::Reflect }) => {
            only_into(into_quantize)
        }
        // A product takes the integers; zeros lie between the elements of one that is transposed.
        Op::Pad(Pad { mode: PadMode::Constant }) => only_into(|rewriter, reader| {
            quantizer(rewriter, reader).is_some() || leads_to_product(rewriter, reader, 16)
        }),
        Op::Resize(op) => matches!(op.mode, ResizeMode::Nearest(_)) && only_into(into_quantize),
        _ => false,
    }
}

/// Whether a node is a convolution or a product, or moves elements for such alone.
fn leads_to_product(rewriter: &Rewriter<'_>, reader: usize, depth: usize) -> bool {
    let (Some(node), Some(depth)) = (rewriter.get(reader), depth.checked_sub(1)) else { return false };
    if matches!(node.op, Op::Conv(_) | Op::MatMul(_)) {
        return true;
    }
    let [Some(output)] = node.outputs[..] else { return false };
    let moves = is_reordering(&node.op)
        || matches!(node.op, Op::Concat(_) | Op::Pad(Pad { mode: PadMode::Constant }));
    let mut readers = rewriter.consumers(output);
    moves && !rewriter.is_output(output) && readers.all(|reader| leads_to_product(rewriter, reader, depth))
}

/// Every `QuantizeLinear` of the network with one scale, by what it reads and the meaning of what it makes of that.
pub(super) struct Quantizers(HashMap<(ValueId, DType, u32, i32), Vec<usize>>);

impl Quantizers {
    pub(super) fn new(rewriter: &Rewriter<'_>) -> Self {
        let mut all = Self(HashMap::new());
        for index in 0..rewriter.len() {
            if let Some((input, _, meaning)) = quantizer(rewriter, index) {
                all.add(input, meaning, index);
            }
        }
        all
    }

    fn key(input: ValueId, Quantized { dtype, params }: Quantized) -> (ValueId, DType, u32, i32) {
        (input, dtype, params.scale.to_bits(), params.zero_point)
    }

    fn add(&mut self, input: ValueId, meaning: Quantized, index: usize) {
        self.0.entry(Self::key(input, meaning)).or_default().push(index);
    }

    /// One that is still there, and its result. Those that have become something else are forgotten on the way.
    fn find(
        &mut self,
        rewriter: &Rewriter<'_>,
        input: ValueId,
        meaning: Quantized,
    ) -> Option<(usize, ValueId)> {
        let candidates = self.0.get_mut(&Self::key(input, meaning))?;
        loop {
            let index = *candidates.last()?;
            match quantizer(rewriter, index) {
                Some((own, output, other)) if own == input && other == meaning => {
                    return Some((index, output));
                }
                _ => candidates.pop(),
            };
        }
    }
}

/// Rewrites reordering → `QuantizeLinear` to `QuantizeLinear` → reordering, so that the operator before meets its
/// `QuantizeLinear` and fewer bytes move. Returns the index of the `QuantizeLinear` above, which may go on moving up.
pub(super) fn raise_quantizer(
    rewriter: &mut Rewriter<'_>,
    quantizers: &mut Quantizers,
    index: usize,
) -> Option<usize> {
    let (real, output, meaning) = quantizer(rewriter, index)?;
    let (place, node) = rewriter.producer(real)?;
    (rewriter.is_private(real) && is_reordering(&node.op)).then_some(())?;
    let mut node = node.clone();
    let x = node.inputs.first().copied()??;
    let shape = rewriter.value(x).fixed_shape()?;
    // A small part of something large is better quantized by itself.
    let part = rewriter.value(real).fixed_shape()?.elements()?;
    (part.checked_mul(2)? >= shape.elements()?).then_some(())?;
    let existing = quantizers.find(rewriter, x, meaning);
    let (raised, quantized) = existing.unwrap_or_else(|| {
        let value = rewriter.value(x);
        let value = Value {
            dtype: Some(meaning.dtype),
            shape: value.shape.clone(),
            provenance: Provenance::Quantized(value.name.clone()),
            ..Value::named(format!("{}:quantized", value.name))
        };
        let quantized = rewriter.add_value(value);
        let mut quantizer = rewriter.get(index).expect("a live node").clone();
        quantizer.name.push_str("#raised");
        quantizer.inputs[0] = Some(x);
        quantizer.outputs = smallvec![Some(quantized)];
        let raised = rewriter.add_node(quantizer, place);
        quantizers.add(x, meaning, raised);
        (raised, quantized)
    });
    node.inputs[0] = Some(quantized);
    node.outputs = smallvec![Some(output)];
    rewriter.move_to(index, place);
    rewriter.replace(index, node);
    Some(raised)
}

/// Rewrites product → reorderings → limit to product → limit → reorderings: a convolution over one axis is one over two between
/// reshapes, and what limits it lies behind these. Returns whether it did.
pub(super) fn raise_limit(rewriter: &mut Rewriter<'_>, index: usize) -> bool {
    raised_limit(rewriter, index).is_some()
}

fn raised_limit(rewriter: &mut Rewriter<'_>, index: usize) -> Option<()> {
    let limit = rewriter.get(index)?;
    let is_limit = matches!(&limit.op, Op::Unary(Unary { kind: UnaryKind::Relu | UnaryKind::Clip(_) }))
        && limit.quant.is_none();
    is_limit.then_some(())?;
    let mut limit = limit.clone();
    let (real, output) = (limit.inputs.first().copied()??, limit.outputs.first().copied()??);
    // What is between, from the limit on.
    let mut moves = Vec::new();
    let mut at = real;
    let place = loop {
        let (place, node) = rewriter.producer(at)?;
        rewriter.is_private(at).then_some(())?;
        match &node.op {
            Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_) => break place,
            op if is_reordering(op) => {
                moves.push(place);
                at = node.inputs.first().copied()??;
            }
            _ => return None,
        }
    };
    let &last = moves.first()?;
    let value = rewriter.value(at);
    let name = format!("{}:limited", value.name);
    let value = Value { dtype: value.dtype, shape: value.shape.clone(), ..Value::named(name) };
    let limited = rewriter.add_value(value);
    limit.inputs[0] = Some(at);
    limit.outputs = smallvec![Some(limited)];
    let first = *moves.last()?;
    rewriter.remove(index);
    let mut node = rewriter.get(first)?.clone();
    rewriter.add_node(limit, place);
    node.inputs[0] = Some(limited);
    if first == last {
        node.outputs = smallvec![Some(output)];
    }
    rewriter.replace(first, node);
    if first != last {
        let mut node = rewriter.get(last)?.clone();
        node.outputs = smallvec![Some(output)];
        rewriter.replace(last, node);
    }
    Some(())
}

/// Whether the operator's only result has elements of its first operand, each at most once.
pub(in crate::passes) fn is_reordering(op: &Op) -> bool {
    matches!(
        op,
        Op::Reshape(_)
            | Op::Flatten(_)
            | Op::Transpose(_)
            | Op::Squeeze(_)
            | Op::Unsqueeze(_)
            | Op::Slice(_)
            | Op::Identity(_)
    )
}

/// An integer constant for the value that a Pad fills with, when the integers have it exactly.
fn fill_value(rewriter: &mut Rewriter<'_>, node: &Node, meaning: Quantized) -> Option<ValueId> {
    let Quantized { dtype, params } = meaning;
    let real = match node.inputs.get(2).copied().flatten() {
        Some(id) => rewriter.value(id).constant.as_ref()?.scalar_f32()?,
        None => 0.0,
    };
    let q = params.quantize_by(rewriter.rounding(), real, dtype);
    (params.dequantize(q) == real).then(|| add_integer(rewriter, &node.name, q, dtype))
}

fn add_integer(rewriter: &mut Rewriter<'_>, name: &str, q: i32, dtype: DType) -> ValueId {
    let constant = Constant::new(dtype, Shape::from([]), q.to_le_bytes()[..dtype.bytes()].to_vec());
    rewriter.add_value(Value {
        dtype: Some(dtype),
        shape: Some(Vec::new()),
        constant,
        ..Value::named(format!("{name}#fill"))
    })
}
