//! What flows between the stages of a network.

use std::sync::Arc;

use triune_device::{Error as DeviceError, cancel::Pace};
use triune_graph::{MapType, Strings};
use triune_tensor::{DType, Shape, memory};

use crate::{Error, Tensor, TensorRef};

/// What a run gives for an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A list of tensors.
    Sequence(Vec<Tensor>),
    /// A tensor of strings.
    Strings(StringTensor),
    /// A map, or a list of maps with the same keys.
    Map(Maps),
    /// The content of an optional that has none.
    Nothing,
}

/// What a run takes for an input.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// A tensor.
    Tensor(TensorRef<'a>),
    /// A list of tensors.
    Sequence(&'a [Tensor]),
    /// A tensor of strings.
    Strings(&'a StringTensor),
    /// A map.
    Map(&'a Maps),
    /// Nothing, where the input is an optional.
    Nothing,
}

/// A tensor of strings as callers have it; within a run it is one of their numbers in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringTensor {
    /// Extents.
    pub shape: Shape,
    /// Elements, row-major.
    pub texts: Vec<Arc<str>>,
}

/// Maps as callers have them: one, or several with the same keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maps {
    /// The different keys: (keys), strings or i64.
    pub keys: MapElements,
    /// The values of one map (keys), or of several (maps, keys).
    pub values: MapElements,
}

/// Keys or values of maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapElements {
    /// Numbers.
    Numbers(Tensor),
    /// Strings.
    Strings(StringTensor),
}

impl MapElements {
    /// The elements as a run has them; new strings are added to the table.
    fn numbers(&self, table: &mut Strings) -> Result<Tensor, Error> {
        match self {
            Self::Numbers(tensor) => own(tensor.view()),
            Self::Strings(strings) => strings.numbers(table),
        }
    }

    fn of(tensor: Tensor, strings: bool, table: &Strings) -> Result<Self, Error> {
        Ok(if strings { Self::Strings(StringTensor::of(&tensor, table)?) } else { Self::Numbers(tensor) })
    }

    /// Element type and extents; strings have none of the former.
    pub(crate) fn form(&self) -> (Option<DType>, Shape) {
        match self {
            Self::Numbers(tensor) => (Some(tensor.dtype), tensor.shape),
            Self::Strings(strings) => (None, strings.shape),
        }
    }
}

impl Maps {
    /// The keys and the values as a run has them.
    pub(crate) fn numbers(&self, table: &mut Strings) -> Result<Vec<Tensor>, Error> {
        Ok(vec![self.keys.numbers(table)?, self.values.numbers(table)?])
    }

    /// Of keys and values as a run has them.
    pub(crate) fn of(parts: Vec<Tensor>, map: MapType, table: &Strings) -> Result<Self, Error> {
        let [keys, values] =
            <[Tensor; 2]>::try_from(parts).map_err(|_| Error::internal("a map of other parts"))?;
        let keys = MapElements::of(keys, map.string_keys, table)?;
        Ok(Self { keys, values: MapElements::of(values, map.string_values, table)? })
    }
}

/// Before a string is looked up: whether the work goes on.
fn go_on(pace: &mut Pace) -> Result<(), Error> {
    /// Steps that it takes, in the sense of [`Pace`].
    const STRING: usize = 64;
    if pace.stops(STRING) { Err(DeviceError::Cancelled.into()) } else { Ok(()) }
}

impl StringTensor {
    /// The strings' numbers; new ones are added to the table.
    pub(crate) fn numbers(&self, table: &mut Strings) -> Result<Tensor, Error> {
        let mut bytes = memory::with_room(self.texts.len().saturating_mul(8))?;
        let mut pace = Pace::new();
        for text in &self.texts {
            go_on(&mut pace)?;
            bytes.extend_from_slice(&table.number_of(text)?.to_le_bytes());
        }
        Ok(Tensor { dtype: DType::I64, shape: self.shape, bytes })
    }

    /// The strings with these numbers.
    pub(crate) fn of(numbers: &Tensor, table: &Strings) -> Result<Self, Error> {
        let words = numbers.bytes.as_chunks().0;
        let (mut texts, mut pace) = (memory::with_room(words.len())?, Pace::new());
        for &word in words {
            go_on(&mut pace)?;
            let text = table.text(i64::from_le_bytes(word));
            texts.push(text.ok_or_else(|| Error::internal("a result has a number that no string has"))?);
        }
        Ok(Self { shape: numbers.shape, texts })
    }
}

impl Value {
    /// The value as an operand.
    pub fn view(&self) -> ValueRef<'_> {
        match self {
            Self::Tensor(tensor) => ValueRef::Tensor(tensor.view()),
            Self::Sequence(tensors) => ValueRef::Sequence(tensors),
            Self::Strings(strings) => ValueRef::Strings(strings),
            Self::Map(maps) => ValueRef::Map(maps),
            Self::Nothing => ValueRef::Nothing,
        }
    }

    /// A scalar.
    pub(super) fn scalar(dtype: DType, bytes: &[u8]) -> Self {
        Self::Tensor(Tensor { dtype, shape: Shape::from([]), bytes: bytes.to_vec() })
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl ValueRef<'_> {
    pub(super) fn to_owned(self) -> Result<Value, Error> {
        Ok(match self {
            Self::Tensor(tensor) => Value::Tensor(own(tensor)?),
            Self::Sequence(tensors) => {
                let mut own = memory::with_room(tensors.len())?;
                for tensor in tensors {
                    own.push(self::own(tensor.view())?);
                }
                Value::Sequence(own)
            }
            Self::Strings(strings) => Value::Strings(strings.clone()),
            Self::Map(maps) => Value::Map(maps.clone()),
            Self::Nothing => Value::Nothing,
        })
    }
}

/// A copy of a tensor.
pub(super) fn own(tensor: TensorRef<'_>) -> Result<Tensor, Error> {
    let shape = Shape::new(tensor.shape).ok_or_else(|| Error::internal("a tensor of too many dimensions"))?;
    Ok(Tensor { dtype: tensor.dtype, shape, bytes: memory::copied(tensor.bytes)? })
}

/// Extents before, along and behind an axis; the last in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) outer: usize,
    pub(super) extent: usize,
    pub(super) inner: usize,
}

impl Strip {
    /// Along an axis that is counted from the front; `None` for one that the tensor does not have.
    pub(super) fn of(dtype: DType, shape: &[usize], axis: usize) -> Option<Self> {
        let (before, rest) = shape.split_at_checked(axis)?;
        let (&extent, behind) = rest.split_first()?;
        let inner = behind.iter().product::<usize>() * dtype.bytes();
        Some(Self { outer: before.iter().product(), extent, inner })
    }

    /// The part `start..start + count` along the axis.
    pub(super) fn part(self, bytes: &[u8], start: usize, count: usize) -> Result<Vec<u8>, Error> {
        let (row, from, len) = (self.extent * self.inner, start * self.inner, count * self.inner);
        let mut part = memory::with_room(self.outer * len)?;
        (0..self.outer).for_each(|outer| part.extend_from_slice(&bytes[outer * row + from..][..len]));
        Ok(part)
    }
}

/// Tensors of one type joined along an axis that is counted from the front: one that they have, or a `new` one.
///
/// `Err` inside says what does not fit.
pub(super) fn join(parts: &[Tensor], axis: usize, new: bool) -> Result<Result<Tensor, String>, Error> {
    let Some(first) = parts.first() else { return Ok(Err("there is nothing to join".into())) };
    let mut whole = first.shape.to_vec();
    if new {
        whole.insert(axis.min(whole.len()), 1);
    }
    if axis >= whole.len() {
        return Ok(Err(format!("axis {axis} of {}", first.shape)));
    }
    whole[axis] = 0;
    for part in parts {
        let differs = |(index, (a, b)): (usize, (&usize, &usize))| a != b && (new || index != axis);
        let same_rank = part.shape.rank() == first.shape.rank();
        if part.dtype != first.dtype
            || !same_rank
            || part.shape.iter().zip(&*first.shape).enumerate().any(differs)
        {
            let (a, b) = (&first.shape, &part.shape);
            return Ok(Err(format!("{} {a} and {} {b} are not alike", first.dtype, part.dtype)));
        }
        whole[axis] += if new { 1 } else { part.shape[axis] };
    }
    let Some(shape) = Shape::new(&whole) else { return Ok(Err("too many dimensions".into())) };
    let outer: usize = whole[..axis].iter().product();
    let total = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.bytes.len()));
    let mut bytes = memory::with_room(total)?;
    for index in 0..outer {
        for part in parts {
            let len = part.bytes.len() / outer;
            bytes.extend_from_slice(&part.bytes[index * len..][..len]);
        }
    }
    Ok(Ok(Tensor { dtype: first.dtype, shape, bytes }))
}
