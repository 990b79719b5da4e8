//! The border between reals and integers that stand for them.

use std::sync::Arc;

use triune_tensor::{DType, Recipe, Shape};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, BlockMatMul, DequantizeLinear, Identity, QuantizeLinear, ReduceKind, UnaryKind},
};

/// The axis of parameters per channel, and how many elements along it share one; 0 where the parameters have no other axes.
fn axis(node: &mut NodeReader<'_, '_>) -> Result<(isize, usize), Error> {
    let block = node.int("block_size")?.unwrap_or(0);
    let block = usize::try_from(block);
    let block = block.map_err(|_| node.unsupported("attribute 'block_size' is negative"))?;
    Ok((node.axis("axis", 1)?, block))
}

/// A parameter of each block of `x` along an axis, as often as there are elements.
pub(super) fn by_element(
    f: &mut Scope<'_, '_>,
    parameter: ValueId,
    x: ValueId,
    axis: isize,
    block: usize,
) -> Result<ValueId, Error> {
    let (shape, own) = (f.shape(x), f.shape(parameter));
    let axis = f.axis(x, axis as i64)?;
    let mut blocks = shape;
    blocks.dims_mut()[axis] = shape[axis].div_ceil(block);
    if own != blocks {
        return Err(f.wrong(format!("parameters {own} of blocks of {block} along axis {axis} of {shape}")));
    }
    let split = |times: usize| [&own[..=axis], &[times], &own[axis + 1..]].concat();
    let parameter = f.reshape(parameter, &split(1))?;
    let parameter = f.expand(parameter, &split(block))?;
    let mut whole = own.to_vec();
    whole[axis] = whole[axis].saturating_mul(block);
    let parameter = f.reshape(parameter, &whole)?;
    if whole[axis] == shape[axis] { Ok(parameter) } else { f.slice(parameter, axis, 0, shape[axis] as i64) }
}

/// A parameter as it is spread over `x`: one for all, for each index of an axis, or for each block along it.
fn spread(
    f: &mut Scope<'_, '_>,
    parameter: ValueId,
    x: ValueId,
    axis: isize,
    block: usize,
) -> Result<ValueId, Error> {
    let own = f.shape(parameter);
    if block > 0 {
        return by_element(f, parameter, x, axis, block);
    }
    if own.elements() == Some(1) {
        return f.reshape(parameter, &[]);
    }
    let shape = f.shape(x);
    let axis = f.axis(x, axis as i64)?;
    if *own != [shape[axis]] {
        return Err(f.wrong(format!("parameters {own} along axis {axis} of {shape}")));
    }
    let mut dims = vec![1; shape.rank() - axis];
    dims[0] = shape[axis];
    f.reshape(parameter, &dims)
}

/// The type that a quotient is rounded to in front of the next integer.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    Of(DType),
    OfScale,
}

/// clamp(rint(x / scale) + zero point).
fn quantize_parts(
    f: &mut Scope<'_, '_>,
    (axis, block): (isize, usize),
    dtype: DType,
    precision: Precision,
    saturates: bool,
) -> Result<ValueId, Error> {
    let (x, zero_point) = (f.input(0)?, f.get(2));
    let dtype = zero_point.map_or(dtype, |zero_point| f.dtype(zero_point));
    let scale = spread(f, f.input(1)?, x, axis, block)?;
    let precision = match precision {
        Precision::Of(dtype) => dtype,
        Precision::OfScale => f.dtype(scale),
    };
    let (x, scale) = (f.cast(x, DType::F32)?, f.cast(scale, DType::F32)?);
    let mut y = f.div(x, scale)?;
    if matches!(precision, DType::F16 | DType::BF16) {
        y = f.cast(y, precision)?;
        y = f.cast(y, DType::F32)?;
    }
    if let Some(largest) = dtype.largest().filter(|_| dtype.is_storage()) {
        // Reals round by themselves, and their zero point is 0.
        if saturates {
            y = f.unary(UnaryKind::Clip([-largest as f32, largest as f32]), y)?;
        }
        return f.cast(y, dtype);
    }
    let Some((low, high)) = dtype.int_range().filter(|_| dtype.bytes() <= 2) else {
        return Err(f.wrong(format!("a result of {dtype}")));
    };
    y = f.unary(UnaryKind::Round, y)?;
    if let Some(zero_point) = zero_point {
        let zero_point = spread(f, zero_point, x, axis, block)?;
        let zero_point = f.cast(zero_point, DType::F32)?;
        y = f.add(y, zero_point)?;
    }
    let y = f.unary(UnaryKind::Clip([low as f32, high as f32]), y)?;
    f.cast(y, dtype)
}

/// (q − zero point)·scale, in f32; the result is of the type that is asked for, or the scale's.
fn dequantize_parts(
    f: &mut Scope<'_, '_>,
    (axis, block): (isize, usize),
    requested: Option<DType>,
) -> Result<ValueId, Error> {
    let (x, scale) = (f.input(0)?, f.input(1)?);
    let (from, dtype) = (f.dtype(x), requested.unwrap_or_else(|| f.dtype(scale)));
    let scale = spread(f, scale, x, axis, block)?;
    let scale = f.cast(scale, DType::F32)?;
    // Differences of wide integers are exact before they are rounded.
    let exact = if from.bytes() > 2 { DType::I64 } else { DType::F32 };
    let mut y = f.cast(x, exact)?;
    if let Some(zero_point) = f.get(2) {
        let zero_point = spread(f, zero_point, x, axis, block)?;
        let zero_point = f.cast(zero_point, exact)?;
        y = f.sub(y, zero_point)?;
    }
    let y = f.cast(y, DType::F32)?;
    let y = f.mul(y, scale)?;
    f.cast(y, dtype)
}

pub(super) fn quantize(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (axis, block) = axis(node)?;
    let saturates = node.int("saturate")?.unwrap_or(1) != 0;
    // Until opset 23 nothing says what the quotient is rounded to: it is float32.
    let precision = match node.dtype("precision")? {
        Some(dtype) if dtype.is_float() && !dtype.is_storage() && dtype != DType::F64 => Precision::Of(dtype),
        Some(dtype) => return Err(node.unsupported(format!("attribute 'precision' = {dtype}"))),
        None if node.since < 23 || node.dtype_of(1) == Some(DType::F32) => Precision::Of(DType::F32),
        None => Precision::OfScale,
    };
    let requested = node.dtype("output_dtype")?;
    let given = node.constant(2).map(Constant::dtype);
    let dtype = given.or(requested).unwrap_or(DType::U8);
    if block > 0 || precision != Precision::Of(DType::F32) || !saturates && dtype.largest().is_some() {
        let parts = move |f: &mut Scope<'_, '_>| {
            let plain = block == 0 && saturates && precision == Precision::OfScale;
            if plain && f.dtype(f.input(1)?) == DType::F32 {
                let op = Op::QuantizeLinear(QuantizeLinear { axis, dtype });
                let inputs: Vec<ValueId> = f.inputs().iter().copied().flatten().collect();
                return f.op(op, &inputs);
            }
            quantize_parts(f, (axis, block), dtype, precision, saturates)
        };
        return Ok(node.function(parts).into());
    }
    Ok(Op::QuantizeLinear(QuantizeLinear { axis, dtype }))
}

fn write_quantize(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::QuantizeLinear(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    if !writer.has_input(2) && op.dtype != DType::U8 {
        writer.needs(21);
        writer.dtype("output_dtype", op.dtype);
    }
    Ok(())
}

/// A matrix of integers in blocks along its rows' axis as f32, which products can do without; `None` where it is not known, or small.
fn in_blocks(node: &NodeReader<'_, '_>, axis: isize, block: usize) -> Option<Constant> {
    /// Elements that are not worth a promise.
    const SMALL: usize = 1 << 16;
    let (x, scale) = (node.constant(0)?, node.constant(1)?);
    let zeros = node.constant(2);
    if zeros.is_none() && node.inputs.get(2).copied().flatten().is_some() {
        return None;
    }
    let [depth, columns] = *x.shape() else { return None };
    let (low, high) = x.dtype().int_range()?;
    let fits = matches!(axis, 0 | -2) && block >= 16 && block.is_power_of_two() && high - low < 256;
    let blocks = depth.div_ceil(block.max(1));
    if !fits || scale.dtype() != DType::F32 || *scale.shape() != [blocks, columns] || x.elements() < SMALL {
        return None;
    }
    let (scales, zeros) =
        (scale.to_f32()?, zeros.map(Constant::to_i64).map_or(Some(None), |zeros| zeros.map(Some))?);
    if zeros.as_ref().is_some_and(|zeros| zeros.len() != scales.len()) {
        return None;
    }
    let bits = if high - low < 16 { 4 } else { 8 };
    let product = BlockMatMul { depth, bits, block, integers: false };
    let integer = {
        let x = x.clone();
        // One byte an element, of any of these types.
        move |at: usize| match x.dtype() {
            DType::I8 => i64::from(x.bytes()[at].cast_signed()),
            DType::U8 => i64::from(x.bytes()[at]),
            dtype => dtype.decode_integer(x.bytes()[at]).unwrap_or_default(),
        }
    };
    let parameters = move |block: usize, column: usize| {
        let at = block * columns + column;
        (scales[at], zeros.as_ref().map_or(0, |zeros| zeros[at]))
    };
    let mut how = format!("{} in blocks of {block}, {columns} columns ", x.dtype()).into_bytes();
    how.extend_from_slice(scale.bytes());
    if let Some(zeros) = node.constant(2) {
        how.extend_from_slice(zeros.bytes());
    }
    let (reals, stored) = (Arc::new((integer, parameters)), [b"stored ", &*how].concat());
    let own = Arc::clone(&reals);
    let fill = move |at: usize, to: &mut [u8]| {
        let (integer, parameters) = &*own;
        for (index, to) in (at / size_of::<f32>()..).zip(to.as_chunks_mut().0) {
            let (scale, zero) = parameters(index / columns / block, index % columns);
            *to = ((integer(index) - zero) as f32 * scale).to_le_bytes();
        }
    };
    let size = block / 8 * bits + 8;
    let fill_stored = move |at: usize, mut to: &mut [u8]| {
        /// Columns that are turned together: a row of them is a line of the cache.
        const TOGETHER: usize = 64;
        let (integer, parameters) = &*reals;
        let mut own = vec![0_u8; TOGETHER * blocks * size];
        let (mut tile, mut from) = (at / own.len(), at % own.len());
        while !to.is_empty() {
            own.fill(0);
            let there = (tile * TOGETHER..columns).take(TOGETHER);
            for row in 0..depth {
                let (index, within) = (row / block, row % block);
                for (place, column) in there.clone().enumerate() {
                    let digit = (integer(row * columns + column) - low) as u8;
                    own[(place * blocks + index) * size + within * bits / 8] |= digit << (within * bits % 8);
                }
            }
            for (place, column) in there.enumerate() {
                for index in 0..blocks {
                    let (scale, zero) = parameters(index, column);
                    let end = (place * blocks + index + 1) * size;
                    own[end - 8..end - 4].copy_from_slice(&scale.to_le_bytes());
                    own[end - 4..end].copy_from_slice(&((zero - low) as f32).to_le_bytes());
                }
            }
            let (part, rest) = to.split_at_mut(to.len().min(own.len() - from));
            part.copy_from_slice(&own[from..][..part.len()]);
            (to, tile, from) = (rest, tile + 1, 0);
        }
    };
    let len = columns.checked_mul(product.column_bytes())?;
    let recipe = Recipe::new(x.bytes().clone(), stored, len, fill_stored);
    let matrix = Constant::made(DType::U8, Shape::from([columns, product.column_bytes()]), recipe)?;
    let recipe = Recipe::new(x.bytes().clone(), how, x.elements().checked_mul(size_of::<f32>())?, fill);
    Constant::made_of_blocks(x.shape(), recipe, product, matrix)
}

pub(super) fn dequantize(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (axis, block) = axis(node)?;
    let requested = node.dtype("output_dtype")?;
    // The result is of the scale's type, unless another one is asked for.
    if block > 0
        && requested.is_none_or(|dtype| dtype == DType::F32)
        && let Some(matrix) = in_blocks(node, axis, block)
    {
        let matrix = node.new_constant("reals", matrix);
        node.inputs.truncate(1);
        node.set_input(0, matrix);
        return Ok(Op::Identity(Identity));
    }
    if block > 0 || requested.is_some_and(|dtype| node.dtype_of(1) != Some(dtype)) {
        return Ok(node.function(move |f| dequantize_parts(f, (axis, block), requested)).into());
    }
    Ok(Op::DequantizeLinear(DequantizeLinear { axis }))
}

fn write_dequantize(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::DequantizeLinear(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of the readers")]
fn dynamic(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(node.functions(|f| Ok(by_range(f, f.input(0)?)?.to_vec())).into())
}

/// Bytes for the range of x and 0, the scale and the zero point.
pub(super) fn by_range(f: &mut Scope<'_, '_>, x: ValueId) -> Result<[ValueId; 3], Error> {
    let axes: Vec<usize> = (0..f.rank(x)).collect();
    let zero = f.scalar_like(0.0, x);
    let mut ends = [x; 2];
    let kinds = [(ReduceKind::Min, BinaryKind::Min), (ReduceKind::Max, BinaryKind::Max)];
    for (end, (reduce, binary)) in ends.iter_mut().zip(kinds) {
        let extreme = f.reduce(reduce, x, &axes)?;
        let extreme = f.reshape(extreme, &[])?;
        *end = f.binary(binary, extreme, zero)?;
    }
    let [low, high] = ends;
    let range = f.sub(high, low)?;
    let steps = f.scalar_like(255.0, x);
    let scale = f.div(range, steps)?;
    // Zeros alone have no range.
    let nothing = f.binary(BinaryKind::Equal, range, zero)?;
    let one = f.scalar_like(1.0, x);
    let scale = f.choose(nothing, one, scale)?;
    let start = f.div(low, scale)?;
    let start = f.sub(zero, start)?;
    let start = f.unary(UnaryKind::Clip([0.0, 255.0]), start)?;
    let start = f.unary(UnaryKind::Round, start)?;
    let zero_point = f.cast(start, DType::U8)?;
    let op = QuantizeLinear { axis: 1, dtype: DType::U8 };
    let y = f.op(Op::QuantizeLinear(op), &[x, scale, zero_point])?;
    Ok([y, scale, zero_point])
}

operators! {
    DEFAULT_DOMAIN;
    "DequantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28] {2, 3, 1 => dequantize} write write_dequantize;
    "DynamicQuantizeLinear": [11] {1, 1, 3 => dynamic};
    "QuantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28] {2, 3, 1 => quantize} write write_quantize;
}
