//! Operators over values that are known before the network runs: shape arithmetic, and moving weights about.
//!
//! Only what is exact: functions whose last bit depends on an implementation are left to run time. Bounded, since an
//! extent in a file costs nothing to write.

use std::collections::HashMap;

use bytes::Bytes;
use triune_tensor::{
    DType, Recipe, Shape,
    half::{f32_of_bf16, f32_of_f16},
    memory,
};

use crate::{
    Constant, Op,
    constant::{integer_bytes, real_bytes},
    ops::{
        BinaryKind, Pad, PadMode, Reduce, ReduceKind, Slice, UnaryKind,
        infer::{Operands, TensorType, resolve_axis},
    },
};

/// Results of so many bytes are always evaluated.
const ALWAYS: usize = 512;
/// Bytes that evaluation takes in between, times those of the results.
const IN_BETWEEN: u64 = 6;

/// Whether the results are the operand's bytes, seen differently.
pub(crate) const fn shares_bytes(op: &Op) -> bool {
    matches!(op, Op::Identity(_) | Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_))
}

/// Evaluates nodes, up to a number of bytes per result and altogether.
#[derive(Debug)]
pub(crate) struct Evaluator {
    limit: usize,
    budget: usize,
    fill_budget: usize,
    /// Repeated values, shared by all constants that repeat the same one.
    fills: HashMap<Bytes, Bytes>,
}

impl Evaluator {
    /// Results have at most `limit` bytes each and four times as many altogether, or sixteen MiB if that is more.
    pub(crate) fn new(limit: usize) -> Self {
        let budget = limit.saturating_mul(4).max(16 << 20);
        Self { limit, budget, fill_budget: budget, fills: HashMap::new() }
    }

    /// As [`Self::new`], with another number of bytes altogether.
    pub(crate) fn with_budget(limit: usize, budget: usize) -> Self {
        Self { budget, ..Self::new(limit) }
    }

    /// Results of so many bytes are gone.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.budget = self.budget.saturating_add(bytes);
    }

    /// The results of a node, when all that they depend on is known and they are small enough.
    pub(crate) fn evaluate(
        &mut self,
        op: &Op,
        at: &Operands<'_>,
        results: &[TensorType],
    ) -> Option<Vec<Constant>> {
        let needs_data = !matches!(op, Op::ShapeOf(_));
        if needs_data && at.inputs.iter().flatten().any(|operand| operand.constant.is_none()) {
            return None;
        }
        let mut total = 0_usize;
        for TensorType { dtype, shape } in results {
            let bytes = shape.elements()?.checked_mul(dtype.bytes())?;
            if bytes > self.limit {
                return None;
            }
            total = total.checked_add(bytes)?;
        }
        if let Op::ConstantOfShape(op) = op {
            return Some(vec![self.fill(&op.value, results.first()?.shape)?]);
        }
        if shares_bytes(op) {
            return results_of(op, at, results);
        }
        // Checked only here: a repeated value costs its buffer once, however many weights it stands for. Extents and the like
        // are always wanted: what is large must not take their place.
        let budget = match self.budget.checked_sub(total) {
            None if total <= ALWAYS => 0,
            budget => budget?,
        };
        // Operands spread out, wider elements in between, the results.
        memory::check_room((total as u64).saturating_mul(IN_BETWEEN)).ok()?;
        let constants = results_of(op, at, results)?;
        self.budget = budget;
        Some(constants)
    }

    fn fill(&mut self, value: &Constant, shape: Shape) -> Option<Constant> {
        let bytes = shape.elements()?.checked_mul(value.byte_len())?;
        let pattern = value.bytes().clone();
        if self.fills.get(&pattern).is_none_or(|fill| fill.len() < bytes) {
            // Doubling keeps the sum of all outgrown buffers below twice the last one.
            let old = self.fills.get(&pattern).map_or(0, Bytes::len);
            let size = bytes.max(old.saturating_mul(2)).min(self.limit.max(bytes));
            let size = size - size % pattern.len().max(1);
            self.fill_budget = self.fill_budget.checked_sub(size)?;
            memory::check_room(size as u64).ok()?;
            let fill = if pattern.iter().all(|&b| b == 0) {
                vec![0; size]
            } else {
                pattern.repeat(size / pattern.len())
            };
            self.fills.insert(pattern.clone(), fill.into());
        }
        Constant::new(value.dtype(), shape, self.fills.get(&pattern)?.slice(..bytes))
    }
}

fn results_of(op: &Op, at: &Operands<'_>, results: &[TensorType]) -> Option<Vec<Constant>> {
    let TensorType { dtype, shape } = *results.first()?;
    let x = at.get(0)?;
    if let Op::ShapeOf(op) = op {
        return Some(vec![Constant::from_i64(shape, &op.extents(&x.shape))?]);
    }
    let data = x.constant?;
    let one = |bytes: Vec<u8>| Some(vec![Constant::new(dtype, shape, bytes)?]);
    let quantized = at.quantized.is_some();
    let size = x.dtype.bytes();
    let source: Vec<isize> = x.shape.strides().iter().map(|&stride| (stride * size) as isize).collect();
    match op {
        Op::Identity(_) => Some(vec![data.clone()]),
        Op::BitCast(_) => Some(vec![Constant::new(dtype, shape, data.bytes().clone())?]),
        Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_) => {
            Some(vec![data.reshaped(shape)?])
        }
        Op::Transpose(op) => {
            let strides: Vec<isize> = op.perm.iter().map(|&axis| source[axis]).collect();
            one(strided(data.bytes(), 0, &shape, &strides, size))
        }
        Op::Expand(_) => one(expanded(data, shape)),
        Op::Slice(_) => {
            let (starts, ends) = (at.ints(1).ok()??, at.ints(2).ok()??);
            let (axes, steps) = (at.ints(3).ok()?, at.ints(4).ok()?);
            let ranges = Slice::ranges(&x.shape, &starts, &ends, axes.as_deref(), steps.as_deref())?;
            let start: isize = ranges.iter().zip(&source).map(|(r, stride)| r.start as isize * stride).sum();
            // A step of an axis with one element may be huge; it is never taken.
            let strides: Vec<isize> =
                ranges.iter().zip(&source).map(|(r, stride)| r.step.wrapping_mul(*stride)).collect();
            one(strided(data.bytes(), start, &shape, &strides, size))
        }
        Op::Split(op) => {
            let axis = resolve_axis(op.axis as i64, x.shape.rank())?;
            let mut start = 0;
            let part = |result: &TensorType| {
                let bytes = strided(data.bytes(), start, &result.shape, &source, size);
                start += result.shape[axis] as isize * source[axis];
                Constant::new(dtype, result.shape, bytes)
            };
            results.iter().map(part).collect()
        }
        Op::Concat(op) => {
            let axis = resolve_axis(op.axis as i64, x.shape.rank())?;
            let parts: Option<Vec<&Constant>> =
                at.inputs.iter().map(|operand| operand.as_ref()?.constant).collect();
            let rows = x.shape[..axis].iter().product::<usize>();
            let mut bytes = Vec::with_capacity(shape.elements()? * size);
            for row in 0..rows {
                for part in parts.as_ref()? {
                    let length = part.byte_len() / rows;
                    bytes.extend_from_slice(&part.bytes()[row * length..][..length]);
                }
            }
            one(bytes)
        }
        Op::Pad(op) if op.mode == PadMode::Constant => one(padded(data, shape, at)?),
        Op::Gather(op) => gather(data, resolve_axis(op.axis as i64, x.shape.rank())?, at).and_then(one),
        Op::Cast(op) if op.to == DType::F32 && data.dtype().is_half() => Some(vec![widened(data, shape)?]),
        Op::Cast(op) => one(cast(data, op.to)?),
        Op::Binary(op) if op.epilogue.post_ops.is_empty() && !quantized => {
            let other = at.get(1)?.constant.filter(|other| other.dtype() == data.dtype())?;
            one(binary(op.kind, data.dtype(), &expanded(data, shape), &expanded(other, shape))?)
        }
        Op::Where(_) => {
            let (a, b) = (at.get(1)?.constant?, at.get(2)?.constant?);
            let (condition, a, b) = (expanded(data, shape), expanded(a, shape), expanded(b, shape));
            let size = dtype.bytes();
            let parts = condition.iter().zip(a.chunks_exact(size)).zip(b.chunks_exact(size));
            one(parts.flat_map(|((&condition, a), b)| if condition != 0 { a } else { b }).copied().collect())
        }
        Op::Unary(op) if !quantized => one(unary(op.kind, data)?),
        Op::Reduce(op) => one(reduce(op, data, shape)?),
        _ => None,
    }
}

/// The elements at `start` + Σ index·stride (in bytes), row-major over `dims`.
fn strided(bytes: &[u8], start: isize, dims: &[usize], strides: &[isize], size: usize) -> Vec<u8> {
    let elements = dims.iter().product::<usize>();
    let mut out = Vec::with_capacity(elements * size);
    let mut index = vec![0_usize; dims.len()];
    let mut at = start;
    for _ in 0..elements {
        out.extend_from_slice(&bytes[at as usize..][..size]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                at += strides[axis];
                break;
            }
            at -= (dims[axis] as isize - 1).wrapping_mul(strides[axis]);
            index[axis] = 0;
        }
    }
    out
}

/// The elements broadcast to `shape`.
fn expanded(data: &Constant, shape: Shape) -> Vec<u8> {
    if data.shape() == shape {
        return data.bytes().to_vec();
    }
    let from = data.shape();
    let own = from.strides();
    let size = data.dtype().bytes();
    let missing = shape.rank() - from.rank();
    let strides: Vec<isize> = (0..shape.rank())
        .map(|axis| match axis.checked_sub(missing) {
            Some(axis) if from[axis] != 1 => (own[axis] * size) as isize,
            _ => 0,
        })
        .collect();
    strided(data.bytes(), 0, &shape, &strides, size)
}

/// The elements with a border of one value, or without some of their own.
fn padded(data: &Constant, to: Shape, at: &Operands<'_>) -> Option<Vec<u8>> {
    let (from, size) = (data.shape(), data.dtype().bytes());
    let (pads, axes) = (at.ints(1).ok()??, at.ints(3).ok()?);
    let amounts = Pad::amounts(from.rank(), &pads, axes.as_deref())?;
    let border = match at.get(2) {
        Some(value) => value.constant.filter(|value| value.byte_len() == size)?.bytes().to_vec(),
        None => vec![0; size],
    };
    let mut out = border.repeat(to.elements()?);
    // Where the element at each axis' start lies in the result, and which elements of the axis are in it.
    let kept: Vec<(i64, usize, usize)> = (0..from.rank())
        .map(|axis| {
            let (before, extent) = (amounts[axis].0, from[axis] as i64);
            let end = extent.min((to[axis] as i64).saturating_sub(before));
            (before, before.saturating_neg().max(0) as usize, end.max(0) as usize)
        })
        .collect();
    let (own, new) = (from.strides(), to.strides());
    'elements: for element in 0..data.elements() {
        let (mut rest, mut place) = (element, 0);
        for (axis, &(before, first, end)) in kept.iter().enumerate() {
            let index = rest / own[axis];
            rest %= own[axis];
            if !(first..end).contains(&index) {
                continue 'elements;
            }
            place += (index as i64 + before) as usize * new[axis];
        }
        out[place * size..][..size].copy_from_slice(&data.bytes()[element * size..][..size]);
    }
    Some(out)
}

fn gather(data: &Constant, axis: usize, at: &Operands<'_>) -> Option<Vec<u8>> {
    let indices = at.get(1)?.constant?.to_i64()?;
    let shape = data.shape();
    let extent = shape[axis];
    let rows = shape[..axis].iter().product::<usize>();
    let block = shape[axis + 1..].iter().product::<usize>() * data.dtype().bytes();
    let mut out = Vec::with_capacity(rows * indices.len() * block);
    for row in 0..rows {
        for &index in &indices {
            let position = row * extent + resolve_axis(index, extent)?;
            out.extend_from_slice(&data.bytes()[position * block..][..block]);
        }
    }
    Some(out)
}

/// Reals of 16 bits as f32.
fn widened(data: &Constant, shape: Shape) -> Option<Constant> {
    let (from, source) = (data.dtype(), data.bytes().clone());
    let fill = move |at: usize, to: &mut [u8]| {
        let pairs = to.as_chunks_mut::<4>().0.iter_mut().zip(source[at / 2..].as_chunks::<2>().0);
        // Two loops, each of which is made of vectors.
        if from == DType::BF16 {
            pairs.for_each(|(to, &from)| *to = f32_of_bf16(u16::from_le_bytes(from)).to_le_bytes());
        } else {
            pairs.for_each(|(to, &from)| *to = f32_of_f16(u16::from_le_bytes(from)).to_le_bytes());
        }
    };
    let bytes = data.elements().checked_mul(4)?;
    let how = [b"widened ", from.name().as_bytes()].concat();
    constant_of(DType::F32, shape, Recipe::new(data.bytes().clone(), how, bytes, fill))
}

/// A constant of a recipe: large ones are made when somebody asks for their elements.
pub(crate) fn constant_of(dtype: DType, shape: Shape, recipe: Recipe) -> Option<Constant> {
    /// Bytes that are not worth a promise.
    const SMALL: usize = 1 << 18;
    if recipe.len() < SMALL {
        return Constant::new(dtype, shape, recipe.made()?);
    }
    Constant::made(dtype, shape, recipe)
}

fn cast(data: &Constant, to: DType) -> Option<Vec<u8>> {
    /// Elements that are in a wider type at one time.
    const PART: usize = 1 << 16;
    if data.dtype() == to {
        return Some(data.bytes().to_vec());
    }
    let mut cast = Vec::with_capacity(data.elements().checked_mul(to.bytes())?);
    let size = data.dtype().bytes();
    for start in (0..data.elements()).step_by(PART) {
        let end = data.elements().min(start + PART);
        let elements = data.bytes().slice(start * size..end * size);
        let part = Constant::new(data.dtype(), Shape::from([end - start]), elements)?;
        match part.to_i64() {
            Some(values) => cast.extend(values.into_iter().flat_map(|value| integer_bytes(value, to))),
            None => cast.extend(part.to_f64()?.into_iter().flat_map(|value| real_bytes(value, to))),
        }
    }
    Some(cast)
}

/// Sums, products and extremes of integers.
fn reduce(op: &Reduce, data: &Constant, shape: Shape) -> Option<Vec<u8>> {
    if data.dtype() == DType::Bool {
        return None;
    }
    let values = data.to_i64()?;
    let reduced = op.reduced(data.shape().rank())?;
    let (least, most) = match data.dtype() {
        DType::I64 => (i64::MIN, i64::MAX),
        narrow => narrow.int_range()?,
    };
    let start = match op.kind {
        ReduceKind::Sum | ReduceKind::SumSquare => 0,
        ReduceKind::Product => 1,
        ReduceKind::Min => most,
        ReduceKind::Max => least,
        ReduceKind::Mean => return None,
    };
    let mut results = vec![start; shape.elements()?];
    let dims = data.shape();
    for (mut flat, &value) in values.iter().enumerate() {
        let (mut target, mut step) = (0, 1);
        for axis in (0..dims.rank()).rev() {
            if !reduced[axis] {
                target += flat % dims[axis] * step;
                step *= dims[axis];
            }
            flat /= dims[axis];
        }
        let result = results.get_mut(target)?;
        *result = match op.kind {
            ReduceKind::Sum => result.wrapping_add(value),
            ReduceKind::SumSquare => result.wrapping_add(value.wrapping_mul(value)),
            ReduceKind::Product => result.wrapping_mul(value),
            ReduceKind::Min => value.min(*result),
            ReduceKind::Max => value.max(*result),
            ReduceKind::Mean => return None,
        };
    }
    Some(results.into_iter().flat_map(|value| integer_bytes(value, data.dtype())).collect())
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.chunks_exact(N).map(|chunk| {
        let mut word = [0; N];
        word.copy_from_slice(chunk);
        word
    })
}

fn binary(kind: BinaryKind, dtype: DType, a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    if kind.comparison().is_some() {
        return answers(kind, dtype, a, b);
    }
    match dtype {
        DType::Bool => {
            let pairs = a.iter().zip(b).map(|(&a, &b)| (u8::from(a != 0), u8::from(b != 0)));
            match kind {
                BinaryKind::And | BinaryKind::Min => Some(pairs.map(|(a, b)| a & b).collect()),
                BinaryKind::Or | BinaryKind::Max => Some(pairs.map(|(a, b)| a | b).collect()),
                BinaryKind::Xor => Some(pairs.map(|(a, b)| a ^ b).collect()),
                _ => None,
            }
        }
        DType::F32 => {
            let pairs = words(a).map(f32::from_le_bytes).zip(words(b).map(f32::from_le_bytes));
            pairs
                .map(|(a, b)| float_binary(kind, a, b).map(f32::to_le_bytes))
                .collect::<Option<Vec<_>>>()
                .map(|words| words.concat())
        }
        DType::I64 => {
            let pairs = words(a).map(i64::from_le_bytes).zip(words(b).map(i64::from_le_bytes));
            pairs
                .map(|(a, b)| int_binary(kind, a, b).map(i64::to_le_bytes))
                .collect::<Option<Vec<_>>>()
                .map(|words| words.concat())
        }
        DType::I32 => {
            let pairs = words(a).map(i32::from_le_bytes).zip(words(b).map(i32::from_le_bytes));
            // Wide enough for every product; the low half is what wrapping arithmetic gives.
            let pairs = pairs.map(|(a, b)| int_binary(kind, i64::from(a), i64::from(b)));
            pairs
                .map(|result| result.map(|value| (value as i32).to_le_bytes()))
                .collect::<Option<Vec<_>>>()
                .map(|words| words.concat())
        }
        _ => None,
    }
}

/// Questions about integers and f32.
fn answers(kind: BinaryKind, dtype: DType, a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let ordering: Vec<Option<std::cmp::Ordering>> = if dtype == DType::F32 {
        let pairs = words(a).map(f32::from_le_bytes).zip(words(b).map(f32::from_le_bytes));
        pairs.map(|(a, b)| a.partial_cmp(&b)).collect()
    } else {
        let integers = |bytes: &[u8]| {
            let shape = Shape::from([bytes.len() / dtype.bytes()]);
            Constant::new(dtype, shape, bytes.to_vec())?.to_i64()
        };
        integers(a)?.into_iter().zip(integers(b)?).map(|(a, b)| Some(a.cmp(&b))).collect()
    };
    let answer = |order: Option<std::cmp::Ordering>| {
        Some(match kind {
            BinaryKind::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            BinaryKind::NotEqual => order.is_none_or(std::cmp::Ordering::is_ne),
            BinaryKind::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            BinaryKind::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            BinaryKind::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            BinaryKind::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
            _ => return None,
        })
    };
    ordering.into_iter().map(|order| answer(order).map(u8::from)).collect()
}

fn float_binary(kind: BinaryKind, a: f32, b: f32) -> Option<f32> {
    match kind {
        BinaryKind::Add => Some(a + b),
        BinaryKind::Sub => Some(a - b),
        BinaryKind::Mul => Some(a * b),
        BinaryKind::Div => Some(a / b),
        // A NaN on either side stays one.
        BinaryKind::Min => Some(if a.is_nan() || a < b { a } else { b }),
        BinaryKind::Max => Some(if a.is_nan() || a > b { a } else { b }),
        BinaryKind::FloorDiv => Some((a / b).floor()),
        BinaryKind::PRelu => Some(if a < 0.0 { a * b } else { a }),
        _ => None,
    }
}

fn int_binary(kind: BinaryKind, a: i64, b: i64) -> Option<i64> {
    match kind {
        BinaryKind::Add => Some(a.wrapping_add(b)),
        BinaryKind::Sub => Some(a.wrapping_sub(b)),
        BinaryKind::Mul => Some(a.wrapping_mul(b)),
        BinaryKind::Div => a.checked_div(b),
        BinaryKind::FloorDiv => {
            let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
            Some(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
        }
        BinaryKind::Mod => {
            let rest = a.checked_rem(b)?;
            Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        }
        BinaryKind::Rem => a.checked_rem(b),
        BinaryKind::Min => Some(a.min(b)),
        BinaryKind::Max => Some(a.max(b)),
        BinaryKind::Pow => u32::try_from(b).ok().map(|b| a.wrapping_pow(b)),
        BinaryKind::PRelu => Some(if a < 0 { a.wrapping_mul(b) } else { a }),
        BinaryKind::And => Some(a & b),
        BinaryKind::Or => Some(a | b),
        BinaryKind::Xor => Some(a ^ b),
        _ => None,
    }
}

fn unary(kind: UnaryKind, data: &Constant) -> Option<Vec<u8>> {
    if let (DType::I32 | DType::I64, Some(values)) = (data.dtype(), data.to_i64()) {
        let function = |value: i64| match kind {
            UnaryKind::Identity => Some(value),
            UnaryKind::Neg => Some(value.wrapping_neg()),
            UnaryKind::Abs => Some(value.wrapping_abs()),
            _ => None,
        };
        let values: Option<Vec<i64>> = values.into_iter().map(function).collect();
        return Some(values?.into_iter().flat_map(|value| integer_bytes(value, data.dtype())).collect());
    }
    let function = |x: f32| match kind {
        UnaryKind::Identity => Some(x),
        UnaryKind::Relu => Some(if x < 0.0 { 0.0 } else { x }),
        UnaryKind::LeakyRelu(alpha) => Some(if x < 0.0 { alpha * x } else { x }),
        UnaryKind::Clip([low, high]) => {
            Some(if x < low { low } else { x }).map(|x| if x > high { high } else { x })
        }
        UnaryKind::Sqrt => Some(x.sqrt()),
        UnaryKind::Reciprocal => Some(1.0 / x),
        UnaryKind::Abs => Some(x.abs()),
        UnaryKind::Neg => Some(-x),
        UnaryKind::Floor => Some(x.floor()),
        UnaryKind::Ceil => Some(x.ceil()),
        UnaryKind::Round => Some(x.round_ties_even()),
        UnaryKind::RoundHalfAway => Some(x.round()),
        UnaryKind::Square => Some(x * x),
        // The others have their bits from the kernels.
        _ => None,
    };
    let values = data.to_f32()?;
    let values: Option<Vec<[u8; 4]>> =
        values.into_iter().map(|x| function(x).map(f32::to_le_bytes)).collect();
    Some(values?.concat())
}
