//! Elements replaced in a copy, and picked, by index.

use triune_tensor::{DType, function::ScatterKind, text::List};

use super::{
    kind,
    shape::{indexed, items},
};
use crate::{
    Error, ValueId,
    format::mge::{element, node::NodeReader},
    functions::running,
    ops::{
        BinaryKind, Concat, Expand, GatherElements, Op, Reshape, ScatterElements, ShapeOf, Split, Unsqueeze,
    },
};

/// Operand 1 in the places of operand 0 that the description names; the operator's name says whether it is put or added.
pub(in super::super) fn assign(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let kind = if node.operator.kind.contains("Incr") { ScatterKind::Add } else { ScatterKind::Set };
    let many = node.operator.kind.contains("MultiAxisVec");
    let items = items(node, 2)?;
    let (x, value) = (node.input(0)?, node.input(1)?);
    if node.quant(x) != node.quant(value) {
        return Err(node.unsupported("inputs whose integers do not mean the same"));
    }
    // Every element's place, cut as the description cuts the elements.
    let places = node.function(&[x], &[], |f| {
        let shape = f.shape(f.input(0)?);
        let count = f.bounded(shape.elements())?;
        let places = f.places(count, 0)?;
        f.reshape(places, &shape)
    })?;
    let places = indexed(node, places, items, many)?;
    let target = node.emit(ShapeOf { start: 0, end: None }, &[places])?;
    let value = node.emit_like(Op::Expand(Expand), &[value, target])?;
    let row = node.ints("row", &[-1])?;
    let flat = |node: &mut NodeReader<'_, '_, '_>, id| {
        node.emit_like(Op::Reshape(Reshape { allow_zero: false }), &[id, row])
    };
    let operands = [flat(node, x)?, flat(node, places)?, flat(node, value)?];
    let put = node.emit_like(Op::ScatterElements(ScatterElements { axis: 0, kind }), &operands)?;
    let own = node.emit(ShapeOf { start: 0, end: None }, &[x])?;
    node.emit_like(Op::Reshape(Reshape { allow_zero: true }), &[put, own])
}

/// The element along an axis that an index names: y[i, j] = x[i, index[i, j], j], the axis with extent 1.
pub(in super::super) fn one_hot(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let (x, axis, index) = along(node)?;
    node.emit_like(Op::GatherElements(GatherElements { axis }), &[x, index])
}

/// Operand 2, of extent 1 along an axis, in the places along it that an index names.
pub(in super::super) fn set_one_hot(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let (x, axis, index) = along(node)?;
    let value = node.input(2)?;
    if node.quant(x) != node.quant(value) {
        return Err(node.unsupported("inputs whose integers do not mean the same"));
    }
    let op = ScatterElements { axis, kind: ScatterKind::Set };
    node.emit_like(Op::ScatterElements(op), &[x, index, value])
}

/// Operand 0, the axis, and operand 1 with an axis of extent 1 there.
fn along(node: &mut NodeReader<'_, '_, '_>) -> Result<(ValueId, isize, ValueId), Error> {
    let axis = node.params(kind::AXIS)?.i32(0, 0)?;
    let (x, index) = (node.input(0)?, node.input(1)?);
    let rank = node.rank(x)?;
    let axis = crate::ops::infer::resolve_axis(i64::from(axis), rank)
        .ok_or_else(|| node.unsupported(format!("axis {axis} of {rank}")))?;
    let index = node.cast(index, DType::I32)?;
    // A vector's only index has its axis already: there are no tensors without axes.
    if node.rank(index)? == rank {
        return Ok((x, axis as isize, index));
    }
    let axes = node.ints("axis", &[axis as i64])?;
    let index = node.emit(Op::Unsqueeze(Unsqueeze), &[index, axes])?;
    Ok((x, axis as isize, index))
}

/// The parts along an axis, of the extents that the operands behind the first give.
pub(in super::super) fn split(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let axis = node.params(kind::AXIS)?.i32(0, 0)? as isize;
    let x = node.input(0)?;
    let mut sizes = Vec::with_capacity(node.inputs.len());
    for index in 1..node.inputs.len() {
        let size = node.cast(node.inputs[index], DType::I64)?;
        sizes.push(node.reshaped(size, &[1])?);
    }
    let count = sizes.len();
    let sizes = node.emit(Concat { axis: 0 }, &sizes)?;
    let element = node.element(x)?;
    let op = Op::Split(Split { axis, parts: None });
    let parts = node.emit_many(op, &[Some(x), Some(sizes)], &vec![element; count])?;
    for (index, &part) in parts.iter().enumerate().skip(1) {
        node.finish(index, part)?;
    }
    Ok(parts[0])
}

/// The diagonal of a matrix, or the matrix with a vector on its diagonal.
pub(in super::super) fn diagonal(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let k = i64::from(node.params(kind::DIAG)?.i32(0, 0)?);
    let x = node.input(0)?;
    node.function(&[x], &[], move |f| {
        let x = f.input(0)?;
        let far = k.unsigned_abs() as usize;
        match *f.shape(x) {
            [count] => {
                let side = f.bounded(count.checked_add(far))?;
                f.bounded(side.checked_mul(side))?;
                // Rows of zeros with one element each: the vector over the identity.
                let zero = f.scalar_like(0.0, x);
                let rows = f.places(side, 1)?;
                let columns = f.places(side, 0)?;
                let offset = f.scalar_like(k as f64, rows);
                let rows = f.add(rows, offset)?;
                let on = f.binary(BinaryKind::Equal, rows, columns)?;
                let mut parts = vec![x];
                if far > 0 {
                    let filling = f.expand(zero, &[far])?;
                    parts = if k > 0 { vec![filling, x] } else { vec![x, filling] };
                }
                let row = f.concat(&parts, 0)?;
                f.choose(on, row, zero)
            }
            [rows, columns] => {
                let (row, column) = if k < 0 { (far, 0) } else { (0, far) };
                let count = rows.saturating_sub(row).min(columns.saturating_sub(column));
                let count = f.bounded(Some(count))?;
                let places: Vec<i64> =
                    (0..count).map(|index| ((index + row) * columns + index + column) as i64).collect();
                let places = f.list(&places);
                let flat = f.reshape(x, &[rows * columns])?;
                f.gather(flat, 0, places)
            }
            _ => Err(f.wrong(format!("input {} is neither a vector nor a matrix", f.shape(x)))),
        }
    })
}

/// `num` numbers in equal steps from a start to a stop; operands start, stop, num.
pub(in super::super) fn linspace(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let endpoint = node.params(kind::LINSPACE)?.bool(0, true)?;
    let inputs = node.inputs.clone();
    node.function(&inputs, &[2], move |f| {
        let (start, stop, count) = (f.input(0)?, f.input(1)?, f.int(2)?);
        let count = f.bounded(usize::try_from(count).ok())?;
        let dtype = if f.dtype(start).is_float() { f.dtype(start) } else { DType::F32 };
        let (start, stop) = (f.cast(start, dtype)?, f.cast(stop, dtype)?);
        let (start, stop) = (f.reshape(start, &[1])?, f.reshape(stop, &[1])?);
        let steps = count.saturating_sub(usize::from(endpoint)).max(1);
        let span = f.sub(stop, start)?;
        let divisor = f.scalar(steps as f64, dtype);
        let step = f.div(span, divisor)?;
        let places: Vec<f64> = (0..count).map(|index| index as f64).collect();
        let places = f.floats(&places, dtype);
        let offsets = f.mul(places, step)?;
        f.add(offsets, start)
    })
}

/// A matrix with ones on a diagonal; the operand has its extents.
pub(in super::super) fn eye(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::EYE)?;
    let k = i64::from(params.i32(0, 0)?);
    let code = params.u8(1, 0)?;
    let dtype = element::plain(code).map_err(|reason| node.unsupported(reason))?;
    let inputs = node.inputs.clone();
    node.function(&inputs, &[0], move |f| {
        let requested = f.ints(0)?.unwrap_or_default();
        let extent = |index: usize| requested.get(index).and_then(|&extent| usize::try_from(extent).ok());
        let (rows, columns) = match requested.len() {
            1 => (extent(0), extent(0)),
            2 => (extent(0), extent(1)),
            _ => (None, None),
        };
        let (Some(rows), Some(columns)) = (rows, columns) else {
            return Err(f.wrong(format!("extents {}", List(&requested))));
        };
        f.bounded(rows.checked_mul(columns))?;
        let (down, across) = (f.places(rows, 1)?, f.places(columns, 0)?);
        let offset = f.scalar_like(k as f64, down);
        let down = f.add(down, offset)?;
        let on = f.binary(BinaryKind::Equal, down, across)?;
        f.cast(on, dtype)
    })
}

/// Sums of the elements up to each one along an axis.
pub(in super::super) fn running_sum(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CUMSUM)?;
    let axis = i64::from(params.i32(0, i32::MAX)?);
    let (exclusive, reverse) = (params.bool(1, true)?, params.bool(2, false)?);
    let x = node.input(0)?;
    node.function(&[x], &[], move |f| {
        let x = f.input(0)?;
        let axis = f.axis(x, axis)?;
        running::along(f, x, axis, BinaryKind::Add, [exclusive, reverse])
    })
}
