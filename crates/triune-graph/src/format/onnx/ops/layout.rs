//! Operators that arrange elements, made of plainer ones, and what follows from extents and constants alone.

use triune_tensor::{DType, Shape};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators, reshape::Conversion, strings,
};
use crate::{
    Constant, Error, Op, ValueId,
    constant::real_bytes,
    functions::Scope,
    ops::{BinaryKind, GatherElements, Pad, PadMode},
};

/// The number of elements.
fn size(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let count = f.shape(f.input(0)?).elements().unwrap_or(usize::MAX);
    Ok(f.integer(count as i64, DType::I64))
}

/// The type of one operand for another.
fn cast_like(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if let Some(op) = strings::cast_like(node)? {
        return Ok(op);
    }
    let conversion = Conversion::read(node)?;
    Ok(node
        .function(move |f| {
            let to = f.dtype(f.input(1)?);
            conversion.apply(f, f.input(0)?, to)
        })
        .into())
}

/// Numbers from a start, by a step, up to a limit that is not reached.
pub(super) fn range(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    node.only("stash_type", 1)?;
    let function = node.function(|f| {
        let dtype = f.dtype(f.input(0)?);
        let mut ends = Vec::with_capacity(3);
        for index in 0..3 {
            let id = match f.get(index) {
                // ONNX Runtime's own form need not have a step.
                None if index == 2 => f.scalar(1.0, dtype),
                _ => f.input(index)?,
            };
            let constant = f.constant_of(id).filter(|constant| constant.elements() == 1);
            let constant = constant.ok_or_else(|| {
                f.wrong(format!("input {index} decides about extents, but depends on the network's data"))
            })?;
            ends.push(constant.clone());
        }
        let too_many = |count: f64| f.wrong(format!("a range of {count} elements"));
        let bytes: Vec<u8> = if let Some(ints) = ends.iter().map(Constant::to_i64).collect::<Option<Vec<_>>>()
        {
            let (start, limit, step) =
                (i128::from(ints[0][0]), i128::from(ints[1][0]), i128::from(ints[2][0]));
            if step == 0 {
                return Err(f.wrong("a step of 0"));
            }
            let span = limit - start;
            let count =
                if (span > 0) == (step > 0) { span.unsigned_abs().div_ceil(step.unsigned_abs()) } else { 0 };
            let count = usize::try_from(count).ok().filter(|count| *count <= Scope::MOST);
            let count = f.bounded(Some(count.ok_or_else(|| too_many(span as f64 / step as f64))?))?;
            let number = |index: usize| ((start + index as i128 * step) as i64).to_le_bytes();
            (0..count).flat_map(|index| number(index)[..dtype.bytes()].to_vec()).collect()
        } else {
            let reals: Vec<f64> = ends.iter().filter_map(Constant::to_f64).map(|reals| reals[0]).collect();
            let &[start, limit, step] = &*reals else { return Err(f.wrong("operands of several types")) };
            let count = ((limit - start) / step).ceil();
            if count.is_nan() || count > Scope::MOST as f64 {
                return Err(too_many(count));
            }
            let number = |index: usize| start + index as f64 * step;
            let numbers = (0..f.bounded(Some(count.max(0.0) as usize))?).map(number);
            if !dtype.is_float() {
                return Err(f.wrong(format!("a range of {dtype}")));
            }
            numbers.flat_map(|number| real_bytes(number, dtype)).collect()
        };
        let count = bytes.len() / dtype.bytes();
        let range = Constant::new(dtype, Shape::from([count]), bytes);
        let range = range.ok_or_else(|| f.unsupported("no constant"))?;
        Ok(f.constant(range))
    });
    Ok(function.deciding(&[0, 1, 2]).into())
}

/// The upper or lower triangle of matrices, 0 elsewhere.
pub(super) fn trilu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let upper = node.int("upper")?.unwrap_or(1) != 0;
    let function = node.function(move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let &[.., rows, columns] = &*shape else { return Err(f.wrong(format!("{shape} is no matrix"))) };
        let diagonal = if f.get(1).is_some() { f.int(1)? } else { 0 };
        if shape.contains(&0) {
            return Ok(x);
        }
        let (row, column) = (f.places(rows, 1)?, f.places(columns, 0)?);
        // No matrix has a diagonal beyond its extents.
        let diagonal = diagonal.clamp(-(rows as i64) - 1, columns as i64 + 1);
        let shift = f.scalar(diagonal as f64, DType::I64);
        let row = f.add(row, shift)?;
        let kind = if upper { BinaryKind::GreaterOrEqual } else { BinaryKind::LessOrEqual };
        let kept = f.binary(kind, column, row)?;
        let zero = f.scalar_like(0.0, x);
        f.choose(kept, x, zero)
    });
    Ok(function.deciding(&[1]).into())
}

/// 1 on a diagonal, 0 elsewhere.
fn eye_like(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (k, dtype) = (node.int("k")?.unwrap_or(0), node.dtype("dtype")?);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let shape = f.shape(x);
            let &[rows, columns] = &*shape else { return Err(f.wrong(format!("{shape} is no matrix"))) };
            let dtype = dtype.unwrap_or_else(|| f.dtype(x));
            let (row, column) = (f.places(rows, 1)?, f.places(columns, 0)?);
            let shift = f.scalar(k.clamp(-(rows as i64) - 1, columns as i64 + 1) as f64, DType::I64);
            let row = f.add(row, shift)?;
            let on = f.binary(BinaryKind::Equal, column, row)?;
            f.cast(on, dtype)
        })
        .into())
}

/// One value where an index points along a new axis, another elsewhere; indices beyond the axis point nowhere.
fn one_hot(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.axis("axis", -1)? as i64;
    let function = node.function(move |f| {
        let indices = f.input(0)?;
        let (depth, values) = (f.input(1)?, f.input(2)?);
        let count = f.constant_of(depth).and_then(|depth| match depth.to_i64() {
            Some(ints) => ints.first().copied(),
            None => Some(*depth.to_f64()?.first()? as i64),
        });
        let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= Scope::MOST);
        let count = count.ok_or_else(|| f.wrong("depth is not one known number of elements"))?;
        if *f.shape(values) != [2] {
            return Err(f.wrong(format!("values {} are not two", f.shape(values))));
        }
        let shape = f.shape(indices);
        let axis = crate::ops::infer::resolve_axis(axis, shape.rank() + 1);
        let axis = axis.ok_or_else(|| f.wrong(format!("no axis for indices {shape}")))?;
        let mut dims = shape.to_vec();
        dims.insert(axis, 1);
        let indices = f.cast(indices, DType::I64)?;
        let indices = f.reshape(indices, &dims)?;
        let counted = f.add_number(indices, count as f64)?;
        let negative = f.compare(BinaryKind::Less, indices, 0.0)?;
        let indices = f.choose(negative, counted, indices)?;
        let places = f.places(count, shape.rank() - axis)?;
        let on = f.binary(BinaryKind::Equal, indices, places)?;
        let [no, yes] = [0, 1].map(|place| f.slice(values, 0, place, place + 1));
        let (no, yes) = (no?, yes?);
        f.choose(on, yes, no)
    });
    Ok(function.deciding(&[1]).into())
}

/// Axes that one copy has.
const COPIED: usize = 6;

/// Whole tensors repeated along their axes.
fn tile(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let repeats = f.ints(1)?.unwrap_or_default();
    tiled(f, f.input(0)?, &repeats)
}

/// At first: how often, and along which axis.
fn first_tile(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let x = f.input(0)?;
    let (times, axis) = (f.int(1)?, f.axis(x, f.int(2)?)?);
    let mut repeats = vec![1; f.rank(x)];
    repeats[axis] = times;
    tiled(f, x, &repeats)
}

fn tiled(f: &mut Scope<'_, '_>, x: ValueId, repeats: &[i64]) -> Result<ValueId, Error> {
    let mut dims = f.shape(x).to_vec();
    if repeats.len() != dims.len() {
        return Err(f.wrong(format!("{} repeats for {}", repeats.len(), f.shape(x))));
    }
    // Axes of the operand with those that repeat it between them: neighbours of either kind are one.
    let mut parts: Vec<(usize, bool)> = Vec::new();
    let mut add = |extent: usize, repeated: bool| match parts.last_mut() {
        _ if extent == 1 => Some(()),
        Some((last, kind)) if *kind == repeated => {
            *last = last.checked_mul(extent)?;
            Some(())
        }
        _ => {
            parts.push((extent, repeated));
            Some(())
        }
    };
    let own = dims.clone();
    for (axis, &times) in repeats.iter().enumerate() {
        let wrong = || f.wrong(format!("{times} repeats"));
        let times = usize::try_from(times).map_err(|_| wrong())?;
        dims[axis] = dims[axis].checked_mul(times).ok_or_else(wrong)?;
        add(times, true).and_then(|()| add(own[axis], false)).ok_or_else(wrong)?;
    }
    if parts.len() <= COPIED {
        let from: Vec<_> =
            parts.iter().map(|&(extent, repeated)| if repeated { 1 } else { extent }).collect();
        let to: Vec<_> = parts.iter().map(|part| part.0).collect();
        let result = f.reshape(x, &from)?;
        let result = f.expand(result, &to)?;
        return f.reshape(result, &dims);
    }
    // Axis by axis.
    let (mut result, mut dims) = (x, own);
    for (axis, &times) in repeats.iter().enumerate().filter(|(_, times)| **times != 1) {
        let times = times as usize;
        let (before, behind) =
            (dims[..axis].iter().product::<usize>(), dims[axis..].iter().product::<usize>());
        result = f.reshape(result, &[before, 1, behind])?;
        result = f.expand(result, &[before, times, behind])?;
        dims[axis] *= times;
        result = f.reshape(result, &dims)?;
    }
    Ok(result)
}

fn block(node: &mut NodeReader<'_, '_>) -> Result<usize, Error> {
    let size = node.int("blocksize")?.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    size.ok_or_else(|| node.unsupported("attribute 'blocksize' is not positive"))
}

/// Whether channels are counted by block before depth.
fn depth_last(node: &mut NodeReader<'_, '_>) -> Result<bool, Error> {
    node.choice("mode", "DCR", &[("DCR", false), ("CRD", true)])
}

/// Channels become blocks of pixels.
fn depth_to_space(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (block, crd) = (block(node)?, depth_last(node)?);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let shape = f.shape(x);
            let area = block.checked_mul(block);
            let (&[n, c, h, w], Some(area)) = (&*shape, area) else {
                return Err(f.wrong(format!("{shape} in blocks of {block}")));
            };
            if !c.is_multiple_of(area) {
                return Err(f.wrong(format!("{c} channels in blocks of {block}")));
            }
            let depth = c / area;
            let (dims, perm) = if crd {
                ([n, depth, block, block, h, w], [0, 1, 4, 2, 5, 3])
            } else {
                ([n, block, block, depth, h, w], [0, 3, 4, 1, 5, 2])
            };
            let parts = f.reshape(x, &dims)?;
            let parts = f.transpose(parts, &perm)?;
            f.reshape(parts, &[n, depth, h * block, w * block])
        })
        .into())
}

/// Blocks of pixels become channels.
fn space_to_depth(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (block, crd) = (block(node)?, depth_last(node)?);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let shape = f.shape(x);
            let &[n, c, h, w] = &*shape else { return Err(f.wrong(format!("{shape} is no image"))) };
            if !h.is_multiple_of(block) || !w.is_multiple_of(block) {
                return Err(f.wrong(format!("{shape} in blocks of {block}")));
            }
            let parts = f.reshape(x, &[n, c, h / block, block, w / block, block])?;
            let perm = if crd { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
            let parts = f.transpose(parts, &perm)?;
            let depth = c.checked_mul(block).and_then(|depth| depth.checked_mul(block));
            let depth = depth.ok_or_else(|| f.wrong(format!("{shape} in blocks of {block}")))?;
            f.reshape(parts, &[n, depth, h / block, w / block])
        })
        .into())
}

/// Extents cut or filled up with zeros, as much before as behind.
fn center_crop_pad(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axes = node.ints("axes")?;
    let function = node.function(move |f| {
        let mut x = f.input(0)?;
        let axes = match &axes {
            Some(axes) => f.axes(x, axes)?,
            None => (0..f.rank(x)).collect(),
        };
        let requested = f.ints(1)?.unwrap_or_default();
        if requested.len() != axes.len() {
            return Err(f.wrong(format!("{} extents for {} axes", requested.len(), axes.len())));
        }
        let mut pads = vec![0; 2 * f.rank(x)];
        for (&axis, &requested) in axes.iter().zip(&requested) {
            let own = f.shape(x)[axis] as i64;
            if requested < 0 {
                return Err(f.wrong(format!("an extent of {requested}")));
            }
            if requested < own {
                let start = (own - requested) / 2;
                x = f.slice(x, axis, start, start + requested)?;
            } else {
                let rank = f.rank(x);
                pads[axis] = (requested - own) / 2;
                pads[rank + axis] = requested - own - pads[axis];
            }
        }
        if pads.iter().all(|&pad| pad == 0) {
            return Ok(x);
        }
        let pads = f.list(&pads);
        f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads])
    });
    Ok(function.deciding(&[1]).into())
}

/// Elements of `x` along an axis by an index that is spread over `dims`.
fn gathered_by(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    dims: &[usize],
    index: ValueId,
) -> Result<ValueId, Error> {
    let index = f.expand(index, dims)?;
    f.op(Op::GatherElements(GatherElements { axis: axis as isize }), &[x, index])
}

/// The first elements of each sequence of a batch in reverse, as many as its length says.
fn reverse_sequence(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (batch, time) = (node.int("batch_axis")?.unwrap_or(1), node.int("time_axis")?.unwrap_or(0));
    Ok(node
        .function(move |f| {
            let (x, lengths) = (f.input(0)?, f.input(1)?);
            let shape = f.shape(x);
            let (batch, time) = (f.axis(x, batch)?, f.axis(x, time)?);
            if batch == time || *f.shape(lengths) != [shape[batch]] {
                return Err(f.wrong(format!("lengths {} for axis {batch} of {shape}", f.shape(lengths))));
            }
            let mut dims = vec![1; shape.rank()];
            dims[batch] = shape[batch];
            let lengths = f.cast(lengths, DType::I64)?;
            let lengths = f.reshape(lengths, &dims)?;
            let places = f.places(shape[time], shape.rank() - 1 - time)?;
            let last = f.add_number(lengths, -1.0)?;
            let turned = f.sub(last, places)?;
            let within = f.binary(BinaryKind::Less, places, lengths)?;
            let index = f.choose(within, turned, places)?;
            gathered_by(f, x, time, &shape, index)
        })
        .into())
}

/// A run of elements along an axis put in the place of others, for each element of the batch where its index says.
fn tensor_scatter(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.int("axis")?.unwrap_or(-2);
    let circular = node.choice("mode", "linear", &[("linear", false), ("circular", true)])?;
    Ok(node
        .function(move |f| {
            let (cache, update) = (f.input(0)?, f.input(1)?);
            let (shape, own) = (f.shape(cache), f.shape(update));
            let axis = f.axis(cache, axis)?;
            let others = |dims: &[usize]| [&dims[..axis], &dims[axis + 1..]].concat();
            if axis == 0
                || own.rank() != shape.rank()
                || others(&own) != others(&shape)
                || own[axis] > shape[axis]
            {
                return Err(f.wrong(format!("an update {own} of {shape} along axis {axis}")));
            }
            if own[axis] == 0 {
                return Ok(cache);
            }
            let places = f.places(shape[axis], shape.rank() - 1 - axis)?;
            let mut at = places;
            if let Some(starts) = f.get(2) {
                if *f.shape(starts) != [shape[0]] {
                    return Err(f.wrong(format!("starts {} for a batch of {}", f.shape(starts), shape[0])));
                }
                let mut dims = vec![1; shape.rank()];
                dims[0] = shape[0];
                let starts = f.cast(starts, DType::I64)?;
                let starts = f.reshape(starts, &dims)?;
                at = f.sub(places, starts)?;
                if circular {
                    let extent = f.integer(shape[axis] as i64, DType::I64);
                    at = f.binary(BinaryKind::Mod, at, extent)?;
                }
            }
            let zero = f.integer(0, DType::I64);
            let count = f.integer(own[axis] as i64, DType::I64);
            let last = f.integer(own[axis] as i64 - 1, DType::I64);
            let behind = f.binary(BinaryKind::GreaterOrEqual, at, zero)?;
            let before = f.binary(BinaryKind::Less, at, count)?;
            let replaced = f.binary(BinaryKind::And, behind, before)?;
            let index = f.binary(BinaryKind::Max, at, zero)?;
            let index = f.binary(BinaryKind::Min, index, last)?;
            let new = gathered_by(f, update, axis, &shape, index)?;
            f.choose(replaced, new, cache)
        })
        .into())
}

operators! {
    DEFAULT_DOMAIN;
    "CastLike": [15, 19, 21, 23, 24, 25] {2, 2, 1 => cast_like};
    "CenterCropPad": [18] {2, 2, 1 => center_crop_pad};
    "DepthToSpace": [1, 11, 13, 28] {1, 1, 1 => depth_to_space};
    "EyeLike": [9, 22] {1, 1, 1 => eye_like};
    "OneHot": [9, 11, 28] {3, 3, 1 => one_hot};
    "Range": [11, 27] {3, 3, 1 => range};
    "ReverseSequence": [10, 28] {2, 2, 1 => reverse_sequence};
    "Size": [1, 13, 19, 21, 23, 24, 25] {1, 1, 1 => body size};
    "SpaceToDepth": [1, 13, 28] {1, 1, 1 => space_to_depth};
    "TensorScatter": [24] {2, 3, 1 => tensor_scatter};
    "Tile": [1] {3, 3, 1 => body first_tile, deciding &[1, 2]} [6, 13] {2, 2, 1 => body tile, deciding &[1]};
    "Trilu": [14] {1, 2, 1 => trilu};
}
