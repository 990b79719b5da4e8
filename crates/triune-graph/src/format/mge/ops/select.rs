//! Elements in order, elements that meet a condition, and boxes that do not overlap.

use triune_tensor::DType;

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{BinaryKind, Comparison, CondTake, Nms, NonZero, Op, Reshape, ShapeOf, TopK, Where},
};

/// The rows' element type as an [`Error`] unless the operand is a matrix.
fn rows(node: &NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let x = node.input(0)?;
    match node.rank(x)? {
        2 => Ok(x),
        rank => Err(node.unsupported(format!("an operand of {rank} axes; 2 are expected"))),
    }
}

/// The elements of every row in order, and where they stood.
fn ordered(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    count: ValueId,
    largest: bool,
) -> Result<[ValueId; 2], Error> {
    let op = TopK { axis: 1, largest, sorted: true, index_dtype: DType::I32 };
    let element = node.element(x)?;
    let results = node.emit_many(Op::TopK(op), &[Some(x), Some(count)], &[element, None])?;
    Ok([results[0], results[1]])
}

/// Rows in order; results: elements, and their places as i32.
pub(in super::super) fn argsort(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let largest = match node.params(kind::ARGSORT)?.u32(0, 0)? {
        0 => false,
        1 => true,
        order => return Err(node.unsupported(format!("order {order}"))),
    };
    let x = rows(node)?;
    let count = node.emit(ShapeOf { start: 1, end: Some(2) }, &[x])?;
    let [values, places] = ordered(node, x, count, largest)?;
    node.finish(1, places)?;
    Ok(values)
}

/// The |k| first elements of every row in order: ascending for a positive k, descending for a negative one; all of them
/// where there are fewer. Results: elements, and their places as i32; or only the last of those elements.
pub(in super::super) fn top_k(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mode = node.params(kind::TOP_K)?.u32(0, 0)?;
    if mode > 2 {
        return Err(node.unsupported(format!("mode {mode}")));
    }
    let (x, k) = (rows(node)?, node.input(1)?);
    let Some(&[requested]) = node.folded_ints(k).as_deref() else {
        return Err(node.unsupported("a number of elements that depends on the network's data"));
    };
    if requested == 0 {
        return Err(node.unsupported("no elements"));
    }
    let extent = node.emit(ShapeOf { start: 1, end: Some(2) }, &[x])?;
    let count = node.cast(k, DType::I64)?;
    let count = node.reshaped(count, &[1])?;
    let largest = requested < 0;
    let count = if largest {
        let zero = node.ints("zero", &[0])?;
        node.binary(BinaryKind::Sub, zero, count)?
    } else {
        count
    };
    let count = node.binary(BinaryKind::Min, count, extent)?;
    let [values, places] = ordered(node, x, count, largest)?;
    if mode == 0 {
        // The last of them, row by row.
        let one = node.ints("one", &[1])?;
        let start = node.binary(BinaryKind::Sub, count, one)?;
        let axis = node.ints("axis", &[1])?;
        let last = node.emit_like(Op::Slice(crate::ops::Slice), &[values, start, count, axis])?;
        let flat = node.ints("rows", &[-1])?;
        return node.emit_like(Op::Reshape(Reshape { allow_zero: true }), &[last, flat]);
    }
    node.finish(1, places)?;
    Ok(values)
}

/// The elements where a mask meets a condition; results: they, and their flat places as i32.
pub(in super::super) fn cond_take(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::COND_TAKE)?;
    let comparison = match params.u32(0, 0)? {
        0 => Comparison::Equal,
        1 => Comparison::NotEqual,
        2 => Comparison::Less,
        3 => Comparison::LessOrEqual,
        4 => Comparison::Greater,
        5 => Comparison::GreaterOrEqual,
        mode => return Err(node.unsupported(format!("mode {mode}"))),
    };
    let (value, epsilon) = (params.f32(1, 0.0)?, params.f32(2, 1e-6)?);
    let (x, mask) = (node.input(0)?, node.input(1)?);
    let element = node.element(x)?;
    let op = CondTake { comparison, value, epsilon }.into();
    let results = node.emit_many(op, &[Some(x), Some(mask)], &[element, None])?;
    node.finish(1, results[1])?;
    Ok(results[0])
}

/// Boxes that overlap none before them; results: their places, filled up, and how many there are, both as i32.
pub(in super::super) fn nms_keep(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::NMS_KEEP)?;
    let (threshold, most) = (params.f32(0, 0.0)?, params.u32(1, 0)? as usize);
    let x = node.input(0)?;
    let results = node.emit_many(Nms { threshold, max_output: most }.into(), &[Some(x)], &[None, None])?;
    node.finish(1, results[1])?;
    Ok(results[0])
}

/// Elements of operand 1 where a mask holds, of operand 2 elsewhere.
pub(in super::super) fn choice(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let (mask, a, b) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if node.quant(a) != node.quant(b) {
        return Err(node.unsupported("inputs whose integers do not mean the same"));
    }
    let mask = node.cast(mask, DType::Bool)?;
    let element = node.element(a)?;
    node.emit_as(Op::Where(Where), &[Some(mask), Some(a), Some(b)], element)
}

/// The indices of the elements that are not 0: one row per axis, as i32.
pub(in super::super) fn non_zero(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let x = node.input(0)?;
    let indices = node.emit(NonZero, &[x])?;
    node.cast(indices, DType::I32)
}
