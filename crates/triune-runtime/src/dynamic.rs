//! Operators that run on the host between the stages of a network: their results' extents depend on data.
//!
//! [`triune_graph::passes::stages`] says how a staged network is driven.

mod encoders;
mod linear_attention;
mod matrix;
mod n_grams;
mod regions;
mod rows;
mod scores;
pub(crate) mod strings;
pub(crate) mod trees;
mod unique;
pub(crate) mod vectors;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use triune_device::work;
use triune_graph::{
    Op,
    ops::{Comparison, CondTake, Hosted, Nms, NonMaxSuppression},
    passes::{HostOperand, HostStep},
};
use triune_tensor::{DType, Shape, memory, text::List};

use crate::{Error, Tensor, TensorRef};

/// Runs the step on what has arrived; gives its results by name, those that somebody reads.
///
/// Errors name the step: an operand that is not there, or whose type or extents do not fit.
pub fn run<'s: 'a, 'a>(
    step: &'s HostStep,
    arrived: impl Fn(&str) -> Option<TensorRef<'a>>,
) -> Result<Vec<(&'s str, Tensor)>, Error> {
    let operands = operands(step, |constant| constant, arrived)?;
    let at = Operands { step, operands: &operands };
    let results = match &step.op {
        Op::Hosted(Hosted::CondTake(op)) => cond_take(&at, *op)?,
        Op::Hosted(Hosted::NonZero(_)) => vec![non_zero(&at)?],
        Op::Hosted(Hosted::Nms(op)) => nms(&at, *op)?,
        Op::Hosted(Hosted::Unique(op)) => unique::unique(&at, *op)?,
        Op::Hosted(Hosted::RoiAlign(op)) => vec![regions::align(&at, *op)?],
        Op::Hosted(Hosted::RoiPool(op)) => vec![regions::pool(&at, *op)?],
        Op::Hosted(Hosted::Determinant(_)) => vec![matrix::determinants(&at)?],
        Op::Hosted(Hosted::Inverse(_)) => vec![matrix::inverses(&at)?],
        Op::Hosted(Hosted::SingularValues(_)) => vec![matrix::singular_values(&at)?],
        Op::Hosted(Hosted::LinearAttention(op)) => linear_attention::run(&at, *op)?,
        Op::Hosted(Hosted::NGrams(op)) => vec![n_grams::count(&at, op)?],
        Op::Hosted(Hosted::Dictionary(op)) => vec![encoders::translate(&at, op)?],
        Op::Hosted(Hosted::OneHotEncoder(op)) => vec![encoders::one_hot(&at, op)?],
        Op::Hosted(Hosted::NonMaxSuppression(op)) => vec![non_max_suppression(&at, *op)?],
        _ => return Err(unsupported(step, "it does not run on the host by itself")),
    };
    let named = step.outputs.iter().zip(results);
    Ok(named.filter_map(|(name, tensor)| Some((name.as_deref()?, tensor))).collect())
}

/// The step's operands: constants as `constant` has them, and what has arrived.
pub(crate) fn operands<'a, T>(
    step: &'a HostStep,
    constant: impl Fn(TensorRef<'a>) -> T,
    arrived: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>, Error> {
    let operand = |operand: &'a Option<HostOperand>| match operand {
        None => Ok(None),
        Some(HostOperand::Constant(known)) => {
            Ok(Some(constant(TensorRef { dtype: known.dtype(), shape: known.dims(), bytes: known.bytes() })))
        }
        Some(HostOperand::Value(name)) => {
            arrived(name).map(Some).ok_or_else(|| wrong(step, format!("'{name}' is not there yet")))
        }
    };
    step.inputs.iter().map(operand).collect()
}

/// An axis of so many, counted from the front.
pub(crate) fn axis(step: &HostStep, axis: i64, rank: usize) -> Result<usize, Error> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(counted)
        .ok()
        .filter(|axis| *axis < rank)
        .ok_or_else(|| wrong(step, format!("axis {axis} is not one of {rank} dimensions")))
}

/// What has arrived does not fit the operator.
pub(crate) fn wrong(step: &HostStep, reason: impl Into<String>) -> Error {
    triune_graph::Error::Shape { node: step.name.clone(), op: step.op.name().into(), reason: reason.into() }
        .into()
}

/// There is nothing that runs the operator.
pub(crate) fn unsupported(step: &HostStep, reason: impl Into<String>) -> Error {
    triune_compiler::Error::Unsupported {
        node: step.name.clone(),
        op: step.op.name().into(),
        reason: reason.into(),
    }
    .into()
}

struct Operands<'a> {
    step: &'a HostStep,
    operands: &'a [Option<TensorRef<'a>>],
}

impl<'a> Operands<'a> {
    fn wrong(&self, reason: impl Into<String>) -> Error {
        wrong(self.step, reason)
    }

    fn get(&self, index: usize) -> Result<Option<TensorRef<'a>>, Error> {
        let Some(tensor) = self.operands.get(index).copied().flatten() else { return Ok(None) };
        let elements = Shape::new(tensor.shape).and_then(|shape| shape.elements());
        if elements.and_then(|elements| elements.checked_mul(tensor.dtype.bytes()))
            != Some(tensor.bytes.len())
        {
            let (got, shape) = (tensor.bytes.len(), tensor.shape);
            return Err(self.wrong(format!("operand {index}: {got} bytes for extents {}", List(shape))));
        }
        Ok(Some(tensor))
    }

    fn input(&self, index: usize) -> Result<TensorRef<'a>, Error> {
        self.get(index)?.ok_or_else(|| self.wrong(format!("operand {index} is missing")))
    }

    fn floats(&self, index: usize) -> Result<Vec<f32>, Error> {
        let tensor = self.input(index)?;
        if tensor.dtype != DType::F32 {
            return Err(self.wrong(format!("operand {index} of type {}; f32 is expected", tensor.dtype)));
        }
        Ok(memory::collected(tensor.bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)))?)
    }

    /// The elements of an operand as reals, one after the other.
    fn doubles(&self, index: usize) -> Result<Vec<f64>, Error> {
        let tensor = self.input(index)?;
        let mut reals = memory::with_room(tensor.bytes.len() / tensor.dtype.bytes())?;
        if tensor.dtype == DType::F32 {
            let words = tensor.bytes.as_chunks().0.iter();
            reals.extend(words.map(|&word| f64::from(f32::from_le_bytes(word))));
            return Ok(reals);
        }
        reals.extend(Elements::of(tensor).map(Element::real));
        Ok(reals)
    }

    /// A tensor of reals, each rounded to the type.
    fn tensor(
        &self,
        dtype: DType,
        shape: &[usize],
        reals: impl ExactSizeIterator<Item = f64>,
    ) -> Result<Tensor, Error> {
        let mut bytes = memory::with_room(reals.len().saturating_mul(dtype.bytes()))?;
        for real in reals {
            match (dtype, dtype.encode(real)) {
                (DType::F32, _) => bytes.extend_from_slice(&(real as f32).to_le_bytes()),
                (DType::F64, _) => bytes.extend_from_slice(&real.to_le_bytes()),
                (_, Some(bits)) => bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.bytes()]),
                (_, None) => return Err(self.wrong(format!("reals of {dtype}"))),
            }
        }
        let shape = Shape::new(shape).ok_or_else(|| self.wrong("too many dimensions"))?;
        Ok(Tensor { dtype, shape, bytes })
    }

    fn of_bytes(&self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Result<Tensor, Error> {
        let shape = Shape::new(shape).ok_or_else(|| self.wrong("too many dimensions"))?;
        Ok(Tensor { dtype, shape, bytes })
    }

    /// The one element of an optional operand, in f64.
    fn scalar(&self, index: usize) -> Result<Option<f64>, Error> {
        let Some(tensor) = self.get(index)? else { return Ok(None) };
        let mut elements = Elements::of(tensor).map(Element::real);
        match (elements.next(), elements.next()) {
            (Some(value), None) => Ok(Some(value)),
            _ => Err(self.wrong(format!(
                "operand {index} of extents {}; one element is expected",
                List(tensor.shape)
            ))),
        }
    }
}

/// An element of any type.
#[derive(Clone, Copy, Debug)]
enum Element {
    Float(f64),
    Integer(i64),
    /// Beyond `i64`.
    Unsigned(u64),
}

impl Element {
    fn real(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Integer(value) => value as f64,
            Self::Unsigned(value) => value as f64,
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Self::Float(value) => value == 0.0,
            Self::Integer(value) => value == 0,
            Self::Unsigned(value) => value == 0,
        }
    }
}

/// The elements of a tensor, one after the other.
struct Elements<'a> {
    tensor: TensorRef<'a>,
    at: usize,
}

impl<'a> Elements<'a> {
    const fn of(tensor: TensorRef<'a>) -> Self {
        Self { tensor, at: 0 }
    }
}

impl Iterator for Elements<'_> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        let size = self.tensor.dtype.bytes();
        let bytes = self.tensor.bytes.get(self.at..self.at + size)?;
        self.at += size;
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        Some(match self.tensor.dtype {
            DType::F32 => Element::Float(f32::from_bits(bits as u32).into()),
            DType::F64 => Element::Float(f64::from_bits(bits)),
            dtype if dtype.is_half() || dtype.is_storage() => match dtype.decode_integer(bits as u8) {
                Some(integer) => Element::Integer(integer),
                None => Element::Float(dtype.decode(bits as u16).unwrap_or(f64::NAN)),
            },
            DType::I8 => Element::Integer((bits as i8).into()),
            DType::I16 => Element::Integer((bits as i16).into()),
            DType::I32 => Element::Integer((bits as i32).into()),
            DType::I64 | DType::Bool | DType::U8 | DType::U16 | DType::U32 => Element::Integer(bits as i64),
            _ => Element::Unsigned(bits),
        })
    }
}

/// As many elements as a run of a host operator's loop takes between two looks at whether it is to go on.
pub(crate) const ROUND: usize = 1 << 16;

fn words<const N: usize>(
    at: &Operands<'_>,
    dtype: DType,
    shape: &[usize],
    words: impl ExactSizeIterator<Item = [u8; N]>,
) -> Result<Tensor, Error> {
    let shape = Shape::new(shape).ok_or_else(|| at.wrong("too many results"))?;
    let mut bytes = memory::with_room(words.len().saturating_mul(N))?;
    words.for_each(|word| bytes.extend_from_slice(&word));
    Ok(Tensor { dtype, shape, bytes })
}

fn ints(at: &Operands<'_>, shape: &[usize], values: &[i32]) -> Result<Tensor, Error> {
    words(at, DType::I32, shape, values.iter().map(|value| value.to_le_bytes()))
}

fn cond_take(at: &Operands<'_>, op: CondTake) -> Result<Vec<Tensor>, Error> {
    let (x, mask) = (at.input(0)?, at.input(1)?);
    if x.shape != mask.shape {
        return Err(at.wrong(format!("elements {} and mask {}", List(x.shape), List(mask.shape))));
    }
    let size = x.dtype.bytes();
    let mut bytes = Vec::new();
    let mut indices = Vec::new();
    for (index, (element, mask)) in x.bytes.chunks_exact(size).zip(Elements::of(mask)).enumerate() {
        if index.is_multiple_of(ROUND) {
            work::go_on()?;
            memory::grow(&mut bytes, ROUND * size)?;
            memory::grow(&mut indices, ROUND)?;
        }
        if meets(op, mask) {
            bytes.extend_from_slice(element);
            indices.push(i32::try_from(index).map_err(|_| at.wrong("more than 2^31 elements"))?);
        }
    }
    let shape = Shape::from([indices.len()]);
    let indices = ints(at, &shape, &indices)?;
    Ok(vec![Tensor { dtype: x.dtype, shape, bytes }, indices])
}

/// Whether an element of the mask meets the condition; floats in f32, integers as such.
fn meets(op: CondTake, mask: Element) -> bool {
    if let Element::Float(x) = mask {
        let x = x as f32;
        return match op.comparison {
            Comparison::Equal => (op.value - x).abs() < op.epsilon,
            Comparison::NotEqual => (op.value - x).abs() >= op.epsilon,
            Comparison::Less => x < op.value,
            Comparison::LessOrEqual => x <= op.value,
            Comparison::Greater => x > op.value,
            Comparison::GreaterOrEqual => x >= op.value,
        };
    }
    let x = match mask {
        Element::Integer(x) => i128::from(x),
        Element::Unsigned(x) => i128::from(x),
        Element::Float(_) => return false,
    };
    let order = x.cmp(&i128::from(op.value as i64));
    match op.comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// Adds the places of elements other than 0, of which the first is at `first`. There is room for all.
fn keep_non_zero(x: TensorRef<'_>, bytes: &[u8], first: i64, places: &mut Vec<i64>) {
    /// Every place is written, and the end moves on behind those that stay: which ones do is no branch.
    fn keep<const N: usize>(
        bytes: &[u8],
        first: i64,
        places: &mut Vec<i64>,
        is_zero: impl Fn([u8; N]) -> bool,
    ) {
        let (words, _) = bytes.as_chunks::<N>();
        let mut end = places.len();
        places.resize(end + words.len(), 0);
        for (at, &word) in (first..).zip(words) {
            places[end] = at;
            end += usize::from(!is_zero(word));
        }
        places.truncate(end);
    }
    match x.dtype {
        DType::F32 => keep(bytes, first, places, |word| f32::from_le_bytes(word) == 0.0),
        DType::F64 => keep(bytes, first, places, |word| f64::from_le_bytes(word) == 0.0),
        DType::Bool | DType::U8 | DType::I8 => keep(bytes, first, places, |word| word == [0; 1]),
        DType::U16 | DType::I16 => keep(bytes, first, places, |word| word == [0; 2]),
        DType::U32 | DType::I32 => keep(bytes, first, places, |word| word == [0; 4]),
        DType::U64 | DType::I64 => keep(bytes, first, places, |word| word == [0; 8]),
        _ => {
            let elements = Elements { tensor: TensorRef { bytes, ..x }, at: 0 };
            places.extend(elements.zip(first..).filter(|(own, _)| !own.is_zero()).map(|(_, at)| at));
        }
    }
}

fn non_zero(at: &Operands<'_>) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    // A scalar is a list of one.
    let shape = if x.shape.is_empty() { &[1] } else { x.shape };
    let (&extent, outer) = shape.split_last().unwrap_or((&1, &[]));
    // What stands in each column of the result.
    let mut places: Vec<Vec<i64>> = vec![Vec::new(); shape.len()];
    let mut at_row = vec![0_i64; outer.len()];
    for row in 0..outer.iter().product::<usize>() {
        let (last, before) = places.split_last_mut().ok_or_else(|| at.wrong("no axes"))?;
        let known = last.len();
        for first in (0..extent).step_by(ROUND) {
            work::go_on()?;
            let count = ROUND.min(extent - first);
            memory::grow(last, count)?;
            let size = x.dtype.bytes();
            let bytes = x.bytes.get((row * extent + first) * size..).unwrap_or_default();
            keep_non_zero(x, &bytes[..bytes.len().min(count * size)], first as i64, last);
        }
        for (places, &own) in before.iter_mut().zip(&at_row) {
            memory::grow(places, last.len() - known)?;
            places.resize(last.len(), own);
        }
        for (own, &extent) in at_row.iter_mut().zip(outer).rev() {
            *own += 1;
            if *own < extent as i64 {
                break;
            }
            *own = 0;
        }
    }
    let found = places.first().map_or(0, Vec::len);
    let mut bytes = memory::with_room(shape.len().saturating_mul(8 * found))?;
    for places in places.iter().flat_map(|places| places.chunks(ROUND)) {
        work::go_on()?;
        for place in places {
            bytes.extend_from_slice(&place.to_le_bytes());
        }
    }
    let shape = Shape::new(&[shape.len(), found]).ok_or_else(|| at.wrong("too many results"))?;
    Ok(Tensor { dtype: DType::I64, shape, bytes })
}

/// Two corners.
type Corners = [f32; 4];

fn area(a: Corners) -> f32 {
    (a[2] - a[0]) * (a[3] - a[1])
}

fn intersection(a: Corners, b: Corners) -> f32 {
    let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis])).max(0.0);
    side(0) * side(1)
}

fn nms(at: &Operands<'_>, op: Nms) -> Result<Vec<Tensor>, Error> {
    let (boxes, x) = (at.floats(0)?, at.input(0)?);
    let [images, count, 4] = *x.shape else {
        return Err(at.wrong(format!("boxes {}", List(x.shape))));
    };
    let bounded = images.checked_mul(op.max_output).is_some_and(|results| results <= 1 << 28);
    if !bounded {
        return Err(at.wrong(format!("{images} times {} results", op.max_output)));
    }
    let (boxes, _) = boxes.as_chunks::<4>();
    let (mut indices, mut counts) = (memory::with_room(images * op.max_output)?, memory::with_room(images)?);
    let mut kept: Vec<usize> = memory::with_room(op.max_output)?;
    for image in 0..images {
        let boxes = &boxes[image * count..][..count];
        kept.clear();
        for (index, &own) in boxes.iter().enumerate() {
            work::go_on()?;
            if kept.len() == op.max_output {
                break;
            }
            let overlaps = |&other: &usize| {
                let (other, common) = (boxes[other], intersection(own, boxes[other]));
                common > (area(own) + area(other) - common) * op.threshold
            };
            if !kept.iter().any(overlaps) {
                kept.push(index);
            }
        }
        counts.push(kept.len() as i32);
        let last = kept.last().copied().unwrap_or(0);
        kept.resize(op.max_output, last);
        indices.extend(kept.iter().map(|&index| index as i32));
    }
    Ok(vec![ints(at, &[images, op.max_output], &indices)?, ints(at, &[images], &counts)?])
}

/// Corners in order, as ONNX Runtime makes them of either form.
fn corners([a, b, c, d]: [f32; 4], center: bool) -> Corners {
    if center {
        [b - d / 2.0, a - c / 2.0, b + d / 2.0, a + c / 2.0]
    } else {
        [a.min(c), b.min(d), a.max(c), b.max(d)]
    }
}

/// A number that is in the order of `f32::total_cmp`.
const fn total_order(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

fn non_max_suppression(at: &Operands<'_>, op: NonMaxSuppression) -> Result<Tensor, Error> {
    let (boxes, scores) = (at.floats(0)?, at.floats(1)?);
    let (box_shape, score_shape) = (at.input(0)?.shape, at.input(1)?.shape);
    let (&[images, count, 4], &[score_images, classes, score_count]) = (box_shape, score_shape) else {
        return Err(at.wrong(format!("boxes {} and scores {}", List(box_shape), List(score_shape))));
    };
    if (score_images, score_count) != (images, count) {
        return Err(at.wrong(format!("boxes {} and scores {}", List(box_shape), List(score_shape))));
    }
    // ONNX's default of 0 means no results.
    let most = at.scalar(2)?.unwrap_or(0.0).max(0.0) as usize;
    let overlap = at.scalar(3)?.unwrap_or(0.0) as f32;
    let least = at.scalar(4)?.map(|least| least as f32);
    let (boxes, _) = boxes.as_chunks::<4>();
    let mut results: Vec<[i64; 3]> = Vec::new();
    for image in 0..images {
        let own = boxes[image * count..][..count].iter().map(|&one| corners(one, op.center_point_box));
        let boxes: Vec<(Corners, f32)> = memory::collected(own.map(|corners| (corners, area(corners))))?;
        for class in 0..classes {
            let scores = &scores[(image * classes + class) * count..][..count];
            let mut order: Vec<(i32, Reverse<usize>)> = memory::with_room(count)?;
            let counted =
                scores.iter().zip(0..).filter(|&(&score, _)| least.is_none_or(|least| score > least));
            // Of equal scores the first box comes first.
            order.extend(counted.map(|(&score, index)| (total_order(score), Reverse(index))));
            // Seldom are all of them looked at: they are sorted as far as that.
            let mut order = BinaryHeap::from(order);
            let mut kept: Vec<(Corners, f32)> = Vec::new();
            while kept.len() < most {
                work::go_on()?;
                let Some((_, Reverse(index))) = order.pop() else { break };
                let (own, size) = boxes[index];
                let suppressed = |&(other, other_size): &(Corners, f32)| {
                    let common = intersection(own, other);
                    common > 0.0
                        && size > 0.0
                        && other_size > 0.0
                        && common / (size + other_size - common) > overlap
                };
                if !kept.iter().any(suppressed) {
                    memory::grow(&mut kept, 1)?;
                    kept.push((own, size));
                    memory::grow(&mut results, 1)?;
                    results.push([image as i64, class as i64, index as i64]);
                }
            }
        }
    }
    let values = results.as_flattened().iter().map(|value| value.to_le_bytes());
    words(at, DType::I64, &[results.len(), 3], values)
}
