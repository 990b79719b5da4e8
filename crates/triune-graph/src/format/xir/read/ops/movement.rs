//! Parts, joints and repetitions of values.

use triune_tensor::{DType, text::List};

use super::super::{View, form::shown, node::Reader};
use crate::{
    Error, Op, ValueId,
    ops::{Concat, Expand, Gather, Pad, PadMode, Slice, Split},
};

/// An axis of the operand's stored ones by its number, counted from the front.
fn stored_axis(node: &Reader<'_, '_>, rank: usize, axis: i64) -> Result<usize, Error> {
    let from_front = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    from_front
        .and_then(|axis| usize::try_from(axis).ok())
        .filter(|&axis| axis < rank)
        .ok_or_else(|| node.wrong(format!("axis {axis} of {rank}")))
}

/// The flat axis of a stored one that is neither split nor padded; `None` for others.
fn plain_axis(node: &Reader<'_, '_>, index: usize, axis: i64) -> Result<Option<usize>, Error> {
    let form = node.typed(index)?.form;
    stored_axis(node, form.stored.len(), axis)?;
    Ok(form
        .flat_axis(axis)
        .filter(|&axis| form.flat[axis].lower.is_none() && form.flat[axis].valid.is_empty()))
}

/// Operands joined along an axis.
pub(in super::super) fn concat(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let parts: Vec<usize> =
        (0..node.op.inputs.len()).map(|index| node.operand(index)).collect::<Result<_, _>>()?;
    let first = *parts.first().ok_or_else(|| node.wrong("nothing to join"))?;
    let (from, to) = (node.typed(first)?.form, node.typed(y)?.form);
    let axis = stored_axis(node, from.stored.len(), node.int("axis", -1)?)?;
    // Blocks are joined, and with them the channels that are in them, padding left out.
    let flat = from.flat_axis(axis as i64);
    let place = flat.zip(from.towards(&to)).and_then(|(flat, perm)| perm.iter().position(|&own| own == flat));
    if let (Some(flat), Some(place)) = (flat, place) {
        let name = from.flat[flat].name;
        let mut sum = Some(0_usize);
        for &part in &parts {
            let form = node.typed(part)?.form;
            let extent = form
                .flat
                .get(flat)
                .filter(|axis| axis.name == name)
                .and_then(super::super::form::FlatAxis::extent);
            sum = sum.zip(extent).and_then(|(sum, extent)| sum.checked_add(extent));
        }
        if sum == to.flat[place].extent() {
            let mut open = Vec::with_capacity(parts.len());
            for &part in &parts {
                open.push(node.aligned(part, y)?);
            }
            let result = node.emit(Op::Concat(Concat { axis: to.open_axis(place) as isize }), &open)?;
            return node.define(y, View::Open, result);
        }
    }
    let mut stored = Vec::with_capacity(parts.len());
    for &part in &parts {
        stored.push(node.in_floats(part, View::Stored)?);
    }
    let result = node.emit(Op::Concat(Concat { axis: axis as isize }), &stored)?;
    node.define(y, View::Stored, result)
}

/// From `begin` up to `end` in steps along each stored axis.
pub(in super::super) fn slice(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let form = node.typed(x)?.form;
    let rank = form.stored.len();
    let (begin, end) = (node.needed_ints("begin")?, node.needed_ints("end")?);
    let step = node.ints("stride")?.filter(|step| !step.is_empty()).unwrap_or_else(|| vec![1; begin.len()]);
    if begin.len() != rank || end.len() != rank || step.len() != rank {
        return Err(node.wrong(format!(
            "begin {}, end {}, stride {} of {rank} axes",
            List(&begin),
            List(&end),
            List(&step)
        )));
    }
    let whole = |axis: usize| {
        begin[axis] == 0
            && step[axis] == 1
            && form.stored[axis].is_some_and(|extent| end[axis] >= extent as i64)
    };
    // Whole blocks may keep their padding out of it.
    let flat = form.flat.iter().all(|axis| {
        (axis.lower.is_none() && axis.valid.is_empty()) || (whole(axis.upper) && axis.lower.is_none_or(whole))
    });
    let mut parameters: [Vec<i64>; 4] = Default::default();
    let mut push = |number: usize, axis: usize| {
        for (list, value) in parameters.iter_mut().zip([begin[axis], end[axis], number as i64, step[axis]]) {
            list.push(value);
        }
    };
    if flat {
        for (number, axis) in form.flat.iter().enumerate().filter(|(_, axis)| !whole(axis.upper)) {
            push(number, axis.upper);
        }
    } else {
        (0..rank).filter(|&axis| !whole(axis)).for_each(|axis| push(axis, axis));
    }
    let view = if flat { View::Flat } else { View::Stored };
    let mut inputs = vec![node.in_floats(x, view)?];
    for (name, list) in ["begin", "end", "axes", "stride"].iter().zip(parameters) {
        inputs.push(node.list(name, &list)?);
    }
    let result = node.emit(Op::Slice(Slice), &inputs)?;
    node.define(y, view, result)
}

/// Parts along an axis.
pub(in super::super) fn split(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let x = node.operand(0)?;
    let axis = node.int("axis", -1)?;
    let flat = plain_axis(node, x, axis)?;
    let stored = stored_axis(node, node.typed(x)?.form.stored.len(), axis)?;
    let results = node.op.outputs.clone();
    let mut sizes = Vec::with_capacity(results.len());
    for &result in &results {
        let form = node.typed(result)?.form;
        let extent = match flat {
            Some(flat) => form.flat.get(flat).and_then(super::super::form::FlatAxis::extent),
            None => form.stored.get(stored).copied().flatten(),
        };
        sizes.push(extent.ok_or_else(|| node.wrong("a result whose extent is not known"))? as i64);
    }
    if let Some(sections) = node.ints("sections")?
        && sections.len() == sizes.len()
        && sections != sizes
    {
        return Err(node.wrong(format!(
            "attribute 'sections' {}, declared results have {}",
            List(&sections),
            List(&sizes)
        )));
    }
    let view = if flat.is_some() { View::Flat } else { View::Stored };
    let input = node.in_floats(x, view)?;
    let sizes = node.list("sizes", &sizes)?;
    let op = Split { axis: flat.unwrap_or(stored) as isize, parts: None };
    let made = node.emit_all(Op::Split(op), &[Some(input), Some(sizes)], results.len())?;
    for (&result, made) in results.iter().zip(made) {
        node.define(result, view, made)?;
    }
    Ok(())
}

/// A border: pairs of elements before and behind, the last axis first.
pub(in super::super) fn pad(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let names = [
        ("CONSTANT", Some(PadMode::Constant)),
        ("REFLECTION", Some(PadMode::Reflect)),
        ("REPLICATION", Some(PadMode::Edge)),
        ("SYMMETRIC", None),
    ];
    let mode = node.choice("mode", Some(PadMode::Constant), &names)?;
    let mode = mode.ok_or_else(|| node.unsupported("a border that mirrors the edge, too"))?;
    let padding = node.needed_ints("padding")?;
    let typed = node.typed(x)?;
    let view = Reader::axes_view(&typed);
    let rank = typed.form.stored.len();
    if padding.len() % 2 != 0 || padding.len() > 2 * rank {
        return Err(node.wrong(format!("attribute 'padding' {} of {rank} axes", List(&padding))));
    }
    let mut pads = vec![0; 2 * rank];
    for (number, pair) in padding.as_chunks::<2>().0.iter().enumerate() {
        let axis = rank - 1 - number;
        (pads[axis], pads[rank + axis]) = (pair[0], pair[1]);
    }
    let input = node.in_floats(x, view)?;
    let pads = node.list("pads", &pads)?;
    let mut inputs = vec![input, pads];
    if mode == PadMode::Constant {
        let value = node.float("value", 0.0)?;
        inputs.push(match node.dtype(input) {
            Some(DType::F32) => node.scalar(value),
            Some(dtype) if value.fract() == 0.0 => node.integer(dtype, &[value as i64], &[])?,
            _ => return Err(node.unsupported(format!("a border of {value}"))),
        });
    }
    let result = node.emit(Op::Pad(Pad { mode }), &inputs)?;
    node.define(y, view, result)
}

/// Extents of 1 repeated.
pub(in super::super) fn expand(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let typed = node.typed(x)?;
    let view = Reader::axes_view(&typed);
    let to = node.typed(y)?.form.stored;
    let sizes: Option<Vec<i64>> = to.iter().map(|extent| extent.map(|extent| extent as i64)).collect();
    let sizes = sizes.ok_or_else(|| node.unsupported("extents that the network decides about"))?;
    let input = node.in_floats(x, view)?;
    let sizes = node.list("sizes", &sizes)?;
    let result = node.emit(Op::Expand(Expand), &[input, sizes])?;
    node.define(y, View::Stored, result)
}

/// Elements moved along axes; what leaves at the end comes in at the front.
pub(in super::super) fn roll(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let shifts = node.needed_ints("shifts")?;
    let dims = node.ints("dims")?.filter(|dims| !dims.is_empty());
    let mut value = node.in_floats(x, View::Stored)?;
    let form = node.typed(x)?.form;
    let all: Option<Vec<usize>> = form.stored.iter().copied().collect();
    let mut extents = all.ok_or_else(|| node.unsupported("extents that the network decides about"))?;
    let dims = if let Some(dims) = dims {
        dims
    } else {
        extents = vec![extents.iter().product()];
        value = node.reshape(value, &[Some(extents[0])])?;
        vec![0]
    };
    if dims.len() != shifts.len() {
        return Err(node.wrong(format!("shifts {} of axes {}", List(&shifts), List(&dims))));
    }
    for (axis, shift) in dims.into_iter().zip(shifts) {
        let axis = stored_axis(node, extents.len(), axis)?;
        let extent = extents[axis] as i64;
        let at = if extent == 0 { 0 } else { (extent - shift.rem_euclid(extent)) % extent };
        if at > 0 {
            let axes = node.list("axes", &[axis as i64])?;
            let (cut, zero) = (node.list("cut", &[at])?, node.list("start", &[0])?);
            let end = node.list("end", &[i64::MAX])?;
            let front = node.emit(Op::Slice(Slice), &[value, cut, end, axes])?;
            let back = node.emit(Op::Slice(Slice), &[value, zero, cut, axes])?;
            value = node.emit(Op::Concat(Concat { axis: axis as isize }), &[front, back])?;
        }
    }
    let result = node.reshape(value, &form.stored)?;
    node.define(y, View::Stored, result)
}

/// Operands joined along a new axis.
pub(in super::super) fn stack(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let to = node.typed(y)?.form.stored;
    let axis = stored_axis(node, to.len(), node.int("dim", 0)?)?;
    let mut extents = to;
    extents[axis] = Some(1);
    let mut parts: Vec<ValueId> = Vec::new();
    for index in 0..node.op.inputs.len() {
        let part = node.operand(index)?;
        let part = node.in_floats(part, View::Stored)?;
        parts.push(node.reshape(part, &extents)?);
    }
    if parts.is_empty() {
        return Err(node.wrong("nothing to join"));
    }
    let result = node.emit(Op::Concat(Concat { axis: axis as isize }), &parts)?;
    node.define(y, View::Stored, result)
}

/// One result per element of an axis, which goes.
pub(in super::super) fn unstack(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let x = node.operand(0)?;
    let from = node.typed(x)?.form.stored;
    let axis = stored_axis(node, from.len(), node.int("dim", 0)?)?;
    let results = node.op.outputs.clone();
    if from[axis] != Some(results.len()) {
        return Err(node.wrong(format!(
            "{} results of axis {axis} of {}",
            results.len(),
            List(&shown(&from))
        )));
    }
    let input = node.in_floats(x, View::Stored)?;
    let op = Split { axis: axis as isize, parts: Some(results.len()) };
    let made = node.emit_all(Op::Split(op), &[Some(input)], results.len())?;
    for (&result, made) in results.iter().zip(made) {
        let extents = node.typed(result)?.form.stored;
        let made = node.reshape(made, &extents)?;
        node.define(result, View::Stored, made)?;
    }
    Ok(())
}

/// Elements along an axis in another order.
pub(in super::super) fn swap_order(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let order = node.needed_ints("order")?;
    let form = node.typed(x)?.form;
    let stored = stored_axis(node, form.stored.len(), node.int("axis", -1)?)?;
    let flat = form.flat_axis(stored as i64).filter(|&flat| form.flat[flat].extent() == Some(order.len()));
    let flat =
        flat.ok_or_else(|| node.wrong(format!("an order of {} elements for axis {stored}", order.len())))?;
    if order.iter().any(|&at| usize::try_from(at).map_or(true, |at| at >= order.len())) {
        return Err(node.wrong(format!("attribute 'order' {}", List(&order))));
    }
    let input = node.in_floats(x, View::Flat)?;
    let indices = node.list("order", &order)?;
    let result = node.emit(Op::Gather(Gather { axis: flat as isize }), &[input, indices])?;
    node.define(y, View::Flat, result)
}
