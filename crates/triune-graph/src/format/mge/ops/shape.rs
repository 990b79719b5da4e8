//! Operators that move elements or tell extents.

use triune_tensor::{DType, text::List};

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{Concat, Expand, Gather, Index, Op, Pad, PadMode, Reshape, ShapeOf, Slice, Squeeze, Unsqueeze},
};

/// The axis that stands for "none".
const NO_AXIS: i32 = 7;

pub(in super::super) fn identity(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    node.input(0)
}

/// The extents of a value, or one of them, as i32.
pub(in super::super) fn get_var_shape(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mut x = node.input(0)?;
    if node.inputs.len() > 1 {
        // The extents of what they all are broadcast to.
        let inputs = node.inputs.clone();
        x = node.function(&inputs, &[], |f| {
            let mut dims = Vec::new();
            for index in 0..f.inputs().len() {
                let shape = f.shape(f.input(index)?);
                let both = crate::ops::infer::broadcast(&dims, &shape);
                dims = both.ok_or_else(|| {
                    f.wrong(format!("extents {} and {shape} do not go together", List(&dims)))
                })?;
            }
            let zero = f.scalar(0.0, DType::U8);
            f.expand(zero, &dims)
        })?;
    }
    let (start, end) = match node.params(kind::OPTIONAL_AXIS_V1)?.i32(0, NO_AXIS)? {
        NO_AXIS => (0, None),
        axis => {
            let axis = axis as isize;
            // The last axis counted from the back has nothing behind it to count to.
            (axis, if axis == -1 { None } else { Some(axis + 1) })
        }
    };
    let extents = node.emit(ShapeOf { start, end }, &[x])?;
    node.cast(extents, DType::I32)
}

/// Other extents; the one at the given axis is what is left.
pub(in super::super) fn reshape(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let (x, mut requested) = (node.input(0)?, node.input(1)?);
    let axis = node.params(kind::OPTIONAL_AXIS_V1)?.i32(0, NO_AXIS)?;
    if axis != NO_AXIS {
        let [rank] = *node.shape(requested)? else {
            return Err(node.unsupported("the shape operand does not have one axis"));
        };
        let axis = crate::ops::infer::resolve_axis(i64::from(axis), rank)
            .ok_or_else(|| node.unsupported(format!("axis {axis} of a shape of {rank} extents")))?;
        let open = node.folded_ints(requested).and_then(|known| known.get(axis).copied());
        if open != Some(-1) {
            requested = with_open_extent(node, requested, axis, rank)?;
        }
    }
    node.emit_like(Op::Reshape(Reshape { allow_zero: true }), &[x, requested])
}

/// The shape operand with −1 at `axis`.
fn with_open_extent(
    node: &mut NodeReader<'_, '_, '_>,
    requested: ValueId,
    axis: usize,
    rank: usize,
) -> Result<ValueId, Error> {
    let open = node.ints("open", &[-1])?;
    let requested = node.cast(requested, DType::I64)?;
    let mut parts = Vec::new();
    for range in [0..axis, axis + 1..rank] {
        if !range.is_empty() {
            let starts = node.ints("start", &[range.start as i64])?;
            let ends = node.ints("end", &[range.end as i64])?;
            parts.push(node.emit(Slice, &[requested, starts, ends])?);
        }
        if range.start == 0 {
            parts.push(open);
        }
    }
    node.emit(Concat { axis: 0 }, &parts)
}

/// Broadcast to a shape.
pub(in super::super) fn broadcast(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let (x, requested) = (node.input(0)?, node.input(1)?);
    if let Some((kind::OPTIONAL_AXIS_V1, _)) = node.operator.param
        && node.params(kind::OPTIONAL_AXIS_V1)?.i32(0, NO_AXIS)? != NO_AXIS
    {
        return Err(node.unsupported("a broadcast with an axis"));
    }
    node.emit_like(Op::Expand(Expand), &[x, requested])
}

pub(in super::super) fn concat(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let axis = node.params(kind::AXIS)?.i32(0, 0)? as isize;
    // Channels are in order in blocks, too, unless the blocks themselves grow.
    let block = node.blocked(node.inputs[0]).filter(|&block| {
        (0..4).contains(&axis) && node.inputs.iter().all(|&id| node.blocked(id) == Some(block))
    });
    if block.is_none() {
        for index in 0..node.inputs.len() {
            node.inputs[index] = node.as_in_file(node.inputs[index])?;
        }
    }
    let inputs: Vec<_> = node.inputs.iter().copied().map(Some).collect();
    let quant = node.quant(node.inputs[0]);
    let element = node.element(node.inputs[0])?;
    if node.inputs.iter().any(|&id| node.quant(id) != quant) {
        return Err(node.unsupported("inputs whose integers do not mean the same"));
    }
    let value = node.emit_as(Concat { axis }.into(), &inputs, element)?;
    if let Some(block) = block {
        node.builder.blocks.insert(value, block);
    }
    Ok(value)
}

/// A border added.
pub(in super::super) fn padding(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::PADDING)?;
    let x = node.input(0)?;
    if node.quant(x).is_some() {
        return Err(node.unsupported("a border of quantized values"));
    }
    let rank = node.rank(x)?;
    let mut amounts = Vec::new();
    // Slots 0 to 6 are what comes before the axes, 7 to 13 what comes behind.
    for first in [0, 7] {
        for axis in 0..7 {
            let amount = params.u32(first + axis, 0)?;
            if axis < rank {
                amounts.push(i64::from(amount));
            } else if amount != 0 {
                return Err(node.unsupported(format!("a border of axis {axis} of {rank}")));
            }
        }
    }
    let mode = match params.u32(15, 2)? {
        0 => PadMode::Edge,
        1 => PadMode::Reflect,
        2 => PadMode::Constant,
        mode => return Err(node.unsupported(format!("mode {mode}"))),
    };
    let value = params.f32(14, 0.0)?;
    let pads = node.ints("pads", &amounts)?;
    let mut inputs = vec![x, pads];
    if mode == PadMode::Constant {
        let value = node.scalar(value);
        inputs.push(node.cast(value, node.dtype(x)?)?);
    }
    node.emit(Op::Pad(Pad { mode }), &inputs)
}

/// Axes permuted, dropped (extents of 1) and added: entry i of the pattern is the input axis that becomes axis i, or
/// −1 for a new one.
pub(in super::super) fn dimshuffle(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let x = node.input(0)?;
    let params = node.params(kind::DIMSHUFFLE)?;
    let pattern = params.structs(0, 4)?;
    let pattern: Vec<i32> = pattern
        .chunks_exact(4)
        .map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let rank = match params.u32(1, 0)? {
        0 => node.rank(x)?,
        rank => rank as usize,
    };
    let wrong = || node.unsupported(format!("pattern {} of {rank} axes", List(&pattern)));
    if rank > triune_tensor::MAX_RANK {
        return Err(wrong());
    }
    let mut taken = Vec::new();
    let mut added = Vec::new();
    for (index, &axis) in pattern.iter().enumerate() {
        match usize::try_from(axis) {
            Ok(axis) if axis < rank && !taken.contains(&axis) => taken.push(axis),
            Err(_) if axis == -1 => added.push(index as i64),
            _ => return Err(wrong()),
        }
    }
    let mut value = x;
    let dropped: Vec<i64> = (0..rank).filter(|axis| !taken.contains(axis)).map(|axis| axis as i64).collect();
    if !dropped.is_empty() {
        let axes = node.ints("dropped", &dropped)?;
        value = node.emit_like(Op::Squeeze(Squeeze), &[value, axes])?;
    }
    // Counted among the axes that are left.
    let perm: Vec<usize> =
        taken.iter().map(|&axis| taken.iter().filter(|&&other| other < axis).count()).collect();
    if !perm.is_sorted() {
        value = node.transposed(value, &perm)?;
    }
    if !added.is_empty() {
        let axes = node.ints("added", &added)?;
        value = node.emit_like(Op::Unsqueeze(Unsqueeze), &[value, axes])?;
    }
    Ok(value)
}

/// Extents of 1 added and removed, one after the other.
pub(in super::super) fn axis_add_remove(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mut value = node.input(0)?;
    let params = node.params(kind::AXIS_ADD_REMOVE)?;
    // A struct of the method (a byte, then padding) and the axis.
    for step in params.structs(0, 8)?.chunks_exact(8) {
        let axis = i64::from(i32::from_le_bytes([step[4], step[5], step[6], step[7]]));
        let rank = node.rank(value)?;
        value = match step[0] {
            0 => {
                let axes = node.ints("axes", &[axis])?;
                node.emit_like(Op::Unsqueeze(Unsqueeze), &[value, axes])?
            }
            // There are no tensors without axes.
            1 if rank == 1 => {
                let [1] = *node.shape(value)? else {
                    return Err(node.unsupported("the only axis cannot go unless its extent is 1"));
                };
                value
            }
            1 => {
                let axes = node.ints("axes", &[axis])?;
                node.emit_like(Op::Squeeze(Squeeze), &[value, axes])?
            }
            method => return Err(node.unsupported(format!("method {method}"))),
        };
    }
    Ok(value)
}

/// What an index description takes along one axis: operands, where they are given.
pub(super) struct Item {
    axis: i64,
    begin: Option<ValueId>,
    end: Option<ValueId>,
    step: Option<ValueId>,
    index: Option<ValueId>,
}

/// The items of an index description; the operands from `first` on are theirs.
pub(super) fn items(node: &NodeReader<'_, '_, '_>, first: usize) -> Result<Vec<Item>, Error> {
    let params = node.params(kind::INDEX_DESC)?;
    let mut operands = node.inputs.iter().copied().skip(first);
    let mut items = Vec::new();
    for item in params.structs(0, 5)?.chunks_exact(5) {
        let mut operand = |flag: u8| match flag {
            0 => Ok(None),
            _ => operands
                .next()
                .map(Some)
                .ok_or_else(|| node.unsupported("fewer operands than the description has")),
        };
        items.push(Item {
            axis: i64::from(item[0] as i8),
            begin: operand(item[1])?,
            end: operand(item[2])?,
            step: operand(item[3])?,
            index: operand(item[4])?,
        });
    }
    if operands.next().is_some() {
        return Err(node.unsupported("more operands than the description has"));
    }
    Ok(items)
}

/// Elements picked by tensors of indices, one per indexed axis, from a strided part.
pub(in super::super) fn indexing(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let items = items(node, 1)?;
    let x = node.input(0)?;
    indexed(node, x, items, true)
}

/// What a description takes of a value; with `many`, indices are tensors that are broadcast together.
pub(super) fn indexed(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    items: Vec<Item>,
    many: bool,
) -> Result<ValueId, Error> {
    if !many {
        return part(node, x, &items);
    }
    let rank = node.rank(x)?;
    let mut picked = Vec::new();
    for item in &items {
        let Some(index) = item.index else { continue };
        if item.begin.is_some() || item.end.is_some() || item.step.is_some() {
            return Err(node.unsupported("an axis with a range and indices"));
        }
        let axis = crate::ops::infer::resolve_axis(item.axis, rank)
            .ok_or_else(|| node.unsupported(format!("axis {} of {rank}", item.axis)))?;
        picked.push((axis as isize, index));
    }
    picked.sort_unstable_by_key(|&(axis, _)| axis);
    if picked.is_empty() {
        return Err(node.unsupported("no indices"));
    }
    let ranges: Vec<Item> = items.into_iter().filter(|item| item.index.is_none()).collect();
    let value = if ranges.is_empty() { x } else { part(node, x, &ranges)? };
    let mut inputs = vec![value];
    for &(_, index) in &picked {
        inputs.push(node.cast(index, DType::I32)?);
    }
    let axes = picked.into_iter().map(|(axis, _)| axis).collect();
    node.emit_like(Op::Index(Index { axes }), &inputs)
}

/// A strided part; axes with an index go.
pub(in super::super) fn subtensor(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let items = items(node, 1)?;
    let x = node.input(0)?;
    part(node, x, &items)
}

fn part(node: &mut NodeReader<'_, '_, '_>, x: ValueId, items: &[Item]) -> Result<ValueId, Error> {
    let mut value = x;
    let rank = node.rank(value)?;
    let mut ranges: [Vec<Bound>; 3] = [const { Vec::new() }; 3];
    let mut axes = Vec::new();
    let mut gone = Vec::new();
    let mut gathered = Vec::new();
    for item in items {
        let axis = crate::ops::infer::resolve_axis(item.axis, rank)
            .ok_or_else(|| node.unsupported(format!("axis {} of {rank}", item.axis)))?
            as i64;
        if let Some(index) = item.index {
            match node.constant_ints(index).as_deref() {
                // Indices known now are slices of one element.
                Some(&[index]) => {
                    ranges[0].push(Bound::Fixed(index));
                    ranges[1].push(Bound::Fixed(if index == -1 { i64::MAX } else { index + 1 }));
                    ranges[2].push(Bound::Fixed(1));
                    axes.push(axis);
                    gone.push(axis);
                }
                _ => gathered.push((axis, index)),
            }
            continue;
        }
        let step = match item.step {
            None => 1,
            Some(step) => match node.constant_ints(step).as_deref() {
                Some(&[step]) if step != 0 => step,
                _ => return Err(node.unsupported("a step that is 0 or not constant")),
            },
        };
        let bound = |given: Option<ValueId>, open: i64| match given {
            None => Bound::Fixed(open),
            Some(id) => match node.constant_ints(id).as_deref() {
                Some(&[position]) => Bound::Fixed(position),
                _ => Bound::Computed(id),
            },
        };
        ranges[0].push(bound(item.begin, if step > 0 { 0 } else { i64::MAX }));
        ranges[1].push(bound(item.end, if step > 0 { i64::MAX } else { i64::MIN }));
        ranges[2].push(Bound::Fixed(step));
        axes.push(axis);
    }
    if !axes.is_empty() {
        let mut inputs = vec![value];
        let [starts, ends, steps] = &ranges;
        inputs.push(bounds(node, "starts", starts)?);
        inputs.push(bounds(node, "ends", ends)?);
        inputs.push(node.ints("axes", &axes)?);
        inputs.push(bounds(node, "steps", steps)?);
        value = node.emit_like(Op::Slice(Slice), &inputs)?;
    }
    for &(axis, index) in &gathered {
        // One element along the axis, which stays for now.
        let index = node.reshaped(index, &[1])?;
        value = node.emit_like(Op::Gather(Gather { axis: axis as isize }), &[value, index])?;
        gone.push(axis);
    }
    gone.sort_unstable();
    // There are no tensors without axes.
    if gone.len() == rank {
        gone.pop();
    }
    if !gone.is_empty() {
        let axes = node.ints("gone", &gone)?;
        value = node.emit_like(Op::Squeeze(Squeeze), &[value, axes])?;
    }
    Ok(value)
}

/// A start, end or step.
enum Bound {
    Fixed(i64),
    Computed(ValueId),
}

/// Bounds as one operand.
fn bounds(node: &mut NodeReader<'_, '_, '_>, suffix: &str, bounds: &[Bound]) -> Result<ValueId, Error> {
    let fixed: Option<Vec<i64>> = bounds
        .iter()
        .map(|bound| match bound {
            Bound::Fixed(value) => Some(*value),
            Bound::Computed(_) => None,
        })
        .collect();
    if let Some(fixed) = fixed {
        return node.ints(suffix, &fixed);
    }
    let mut parts = Vec::new();
    for bound in bounds {
        parts.push(match *bound {
            Bound::Fixed(value) => node.ints(suffix, &[value])?,
            Bound::Computed(id) => {
                let wide = node.cast(id, DType::I64)?;
                node.reshaped(wide, &[1])?
            }
        });
    }
    node.emit(Concat { axis: 0 }, &parts)
}
