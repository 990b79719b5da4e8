//! Reductions along stored axes, and functions of whole rows.

use triune_tensor::{DType, text::List};

use super::super::{View, node::Reader};
use crate::{
    Error, Op, ValueId,
    ops::{ArgReduce, GlobalPool, Reduce, ReduceKind, Softmax},
};

/// The flat axes that an attribute names; `None` for all.
pub(super) fn axes(node: &Reader<'_, '_>, index: usize, key: &str) -> Result<Option<Vec<usize>>, Error> {
    let Some(list) = node.ints(key)?.filter(|list| !list.is_empty()) else { return Ok(None) };
    let form = node.typed(index)?.form;
    let flat: Option<Vec<usize>> = list.iter().map(|&axis| form.flat_axis(axis)).collect();
    flat.map(Some)
        .ok_or_else(|| node.wrong(format!("attribute '{key}' {}: there are no such whole axes", List(&list))))
}

fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

/// Mean, sum or extreme along axes.
pub(in super::super) fn reduce(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let kind = match node.kind() {
        "Mean" => ReduceKind::Mean,
        "Sum" => ReduceKind::Sum,
        "Max" => ReduceKind::Max,
        _ => ReduceKind::Min,
    };
    let keep_dims = node.flag("keepdim", false)?;
    let along = axes(node, x, "dim")?;
    let (from, to) = (node.typed(x)?.form, node.typed(y)?.form);
    // The mean of each plane is a pool, which integers have a form of.
    if let Some(along) = &along {
        let mut planes: Vec<usize> = along.iter().map(|&axis| from.open_axis(axis)).collect();
        planes.sort_unstable();
        if kind == ReduceKind::Mean && from.flat.len() == 4 && planes == [2, 3] {
            let open = node.in_floats(x, View::Open)?;
            let open = if node.dtype(open).is_some_and(DType::is_float) {
                open
            } else {
                node.cast(open, DType::F32)?
            };
            let result = node.emit(Op::GlobalPool(GlobalPool::AVERAGE), &[open])?;
            if keep_dims {
                return node.define_like(y, x, result);
            }
            let extents = to.flat_extents();
            let result = node.reshape(result, &extents)?;
            return node.define(y, View::Flat, result);
        }
    }
    let flat = node.in_floats(x, View::Flat)?;
    let op = Reduce { kind, axes: along.as_deref().map(signed), keep_dims };
    let result = node.emit(Op::Reduce(op), &[flat])?;
    finish(node, y, result)
}

/// A result whose axes are some of the operand's; scalars may be declared as one element.
fn finish(node: &mut Reader<'_, '_>, y: usize, result: ValueId) -> Result<(), Error> {
    let extents = node.typed(y)?.form.flat_extents();
    let elements = node.found(result).and_then(|found| found.shape.elements());
    let declared: Option<usize> =
        extents.iter().copied().collect::<Option<Vec<_>>>().map(|extents| extents.iter().product());
    let result =
        if elements == Some(1) && declared == Some(1) { node.reshape(result, &extents)? } else { result };
    node.define(y, View::Flat, result)
}

/// Where along an axis, or in all elements, the extreme stands.
pub(in super::super) fn position(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let kind = if node.kind() == "Argmin" { ReduceKind::Min } else { ReduceKind::Max };
    let declared = node.typed(y)?.dtype;
    let dtype = if declared == DType::I32 { DType::I32 } else { DType::I64 };
    let mut flat = node.in_floats(x, View::Flat)?;
    let axis = match axes(node, x, "dim")?.as_deref() {
        Some(&[axis]) => axis,
        Some(_) => return Err(node.wrong("attribute 'dim' names several axes")),
        None => {
            flat = node.reshape(flat, &[None])?;
            0
        }
    };
    let keep_dims = node.flag("keepdim", false)?;
    let op = ArgReduce { kind, axis: axis as isize, keep_dims, last: false, dtype };
    let result = node.emit(Op::ArgReduce(op), &[flat])?;
    let result = if declared.is_float() { result } else { node.cast(result, declared)? };
    finish(node, y, result)
}

fn soft_axis(node: &Reader<'_, '_>, x: usize) -> Result<usize, Error> {
    let axis = node.int("axis", -1)?;
    let form = node.typed(x)?.form;
    // Behind blocks of channels, the last axis is that of the channels.
    let last = axis == -1 || usize::try_from(axis).ok().map(|axis| axis + 1) == Some(form.stored.len());
    let blocks = form.flat.iter().position(|axis| axis.lower.is_some()).filter(|_| last);
    let flat = form.flat_axis(axis).or(blocks);
    flat.map(|flat| form.open_axis(flat)).ok_or_else(|| node.wrong(format!("attribute 'axis' {axis}")))
}

/// eˣ/Σeˣ along an axis.
pub(in super::super) fn softmax(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let axis = soft_axis(node, x)? as isize;
    let open = node.in_floats(x, View::Open)?;
    let result = node.emit(Op::Softmax(Softmax { axis, flatten: false, log: false }), &[open])?;
    node.define_like(y, x, result)
}

/// x − max − ln Σ e^(x − max) along an axis.
pub(in super::super) fn log_softmax(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let axis = soft_axis(node, x)? as isize;
    let open = node.in_floats(x, View::Open)?;
    let result = node.emit(Op::Softmax(Softmax { axis, flatten: false, log: true }), &[open])?;
    node.define_like(y, x, result)
}
