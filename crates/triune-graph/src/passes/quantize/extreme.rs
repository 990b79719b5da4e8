//! The larger or the smaller of several values: their integers beside one another along an axis of their own, and a pool over it.
//!
//! Quantization is monotone, so that the largest real is quantized to the largest of what each is quantized to: no bit is lost. The
//! smallest is the largest of the mirrored, low + high − q, which stand for the negated reals.

use triune_tensor::{DType, QuantParams, Shape};

use super::{
    super::rewrite::Rewriter,
    mapped,
    pattern::dequantized,
    table::{Quantized, mapping},
};
use crate::{
    Constant, Dim, Node, Op, Value, ValueId,
    ops::{AutoPad, Binary, BinaryKind, Concat, Pool, PoolKind, Reshape, UnaryKind},
};

/// Most values that are compared at once.
const MOST: usize = 16;

/// The last operator over integers of those that make `real`, a Max or Min of dequantized values of one shape; the others are
/// added in front.
pub(super) fn form(rewriter: &mut Rewriter<'_>, real: ValueId, to: Quantized) -> Option<Node> {
    let (place, node) = rewriter.producer(real)?;
    let name = node.name.clone();
    let kind = kind(node)?;
    let shape = rewriter.value(real).fixed_shape()?;
    to.is_byte().then_some(())?;
    let mut parts = Vec::new();
    collect(rewriter, real, kind, MOST, &mut parts)?;
    let fits = |(source, from): &(ValueId, Quantized)| {
        let value = rewriter.value(*source);
        from.is_byte() && value.constant.is_none() && value.fixed_shape().is_some_and(|own| own == shape)
    };
    (shape.elements()? > 0 && parts.iter().all(fits)).then_some(())?;
    let mut rows = [1; 4];
    for (axis, &extent) in shape.iter().enumerate() {
        rows[if axis < 2 { axis } else { 3 }] *= extent;
    }
    let largest = kind == BinaryKind::Max;
    let compared = if largest { to } else { mirrored(to)? };
    let function = if largest { UnaryKind::Identity } else { UnaryKind::Neg };
    let mut make = Maker { rewriter, place, name: &name, dtype: to.dtype };
    let mut joined = Vec::with_capacity(parts.len());
    for (position, (source, from)) in parts.into_iter().enumerate() {
        let mut part = source;
        if from != compared {
            let op = mapping(Some(function), from, compared, make.rewriter.rounding())?;
            part = make.value(source, "requantized", &shape);
            let name = format!("{name}#requantize{position}");
            make.rewriter.add_node(mapped(name, op, (source, from), (part, compared)), place);
        }
        let row = make.value(part, "row", &rows);
        let extents = make.extents(&rows)?;
        make.node("row", Op::Reshape(Reshape { allow_zero: true }), vec![Some(part), Some(extents)], row);
        joined.push(Some(row));
    }
    let mut extents = rows;
    extents[2] = joined.len();
    let beside = make.value(real, "beside", &extents);
    make.node("join", Op::Concat(Concat { axis: 2 }), joined, beside);
    let pooled = make.value(real, "pooled", &rows);
    let pool = Pool {
        kind: PoolKind::Max,
        kernel: [extents[2], 1],
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 4],
        auto_pad: AutoPad::Explicit,
        ceil_mode: false,
    };
    make.node("pool", Op::Pool(Box::new(pool)), vec![Some(beside)], pooled);
    let back = vec![Some(pooled), Some(make.extents(&shape)?)];
    let reshape = Op::Reshape(Reshape { allow_zero: true });
    if largest {
        return Some(Node::new(name, reshape, back, Vec::new()));
    }
    let found = make.value(real, "mirrored", &shape);
    make.node("back", reshape, back, found);
    let op = mapping(Some(UnaryKind::Neg), compared, to, make.rewriter.rounding())?;
    // The caller knows the result.
    Some(mapped(name, op, (found, compared), (real, to)))
}

/// Whether a node is the larger or the smaller of two reals, and which.
fn kind(node: &Node) -> Option<BinaryKind> {
    let Op::Binary(Binary { kind: kind @ (BinaryKind::Max | BinaryKind::Min), epilogue }) = &node.op else {
        return None;
    };
    (node.quant.is_none() && epilogue.post_ops.is_empty()).then_some(*kind)
}

/// The dequantized values that a chain of one kind compares.
fn collect(
    rewriter: &Rewriter<'_>,
    real: ValueId,
    wanted: BinaryKind,
    depth: usize,
    parts: &mut Vec<(ValueId, Quantized)>,
) -> Option<()> {
    let (_, node) = rewriter.producer(real)?;
    (kind(node)? == wanted).then_some(())?;
    let depth = depth.checked_sub(1)?;
    for &input in &node.inputs {
        let input = input?;
        if let Some(part) = dequantized(rewriter, input) {
            parts.push(part);
        } else {
            rewriter.is_private(input).then_some(())?;
            collect(rewriter, input, wanted, depth, parts)?;
        }
        (parts.len() <= MOST).then_some(())?;
    }
    Some(())
}

/// What low + high − q means where q means −x.
fn mirrored(of: Quantized) -> Option<Quantized> {
    let (low, high) = of.dtype.int_range()?;
    let zero_point = (low + high) as i32 - of.params.zero_point;
    Some(Quantized { params: QuantParams { zero_point, ..of.params }, ..of })
}

/// Adds nodes at one place.
struct Maker<'m, 'r> {
    rewriter: &'m mut Rewriter<'r>,
    place: usize,
    name: &'m str,
    dtype: DType,
}

impl Maker<'_, '_> {
    fn value(&mut self, like: ValueId, what: &str, extents: &[usize]) -> ValueId {
        let name = format!("{}:{what}", self.rewriter.value(like).name);
        let shape = Some(extents.iter().copied().map(Dim::Fixed).collect());
        self.rewriter.add_value(Value { dtype: Some(self.dtype), shape, ..Value::named(name) })
    }

    fn extents(&mut self, extents: &[usize]) -> Option<ValueId> {
        let id = self.rewriter.add_value(Value::named(format!("{}:shape", self.name)));
        let dims: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
        self.rewriter.set_constant(id, Constant::from_i64(Shape::from([dims.len()]), &dims)?);
        Some(id)
    }

    fn node(&mut self, what: &str, op: Op, inputs: Vec<Option<ValueId>>, to: ValueId) {
        let name = format!("{}#{what}", self.name);
        self.rewriter.add_node(Node::new(name, op, inputs, vec![Some(to)]), self.place);
    }
}
