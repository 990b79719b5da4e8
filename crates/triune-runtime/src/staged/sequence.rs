//! Operators over lists of tensors, and over values that may be missing.

use triune_device::work;
use triune_graph::{ops::SequenceOp, passes::HostStep};
use triune_tensor::{
    DType, Shape,
    memory::{self, Room},
    text::List,
};

use super::{
    Table,
    value::{Strip, Value, ValueRef, join, own},
};
use crate::{
    Error, Tensor, TensorRef,
    dynamic::{self, ROUND, wrong},
};

/// Runs the step.
pub(super) fn run(step: &HostStep, op: SequenceOp, table: &Table<'_>) -> Result<Value, Error> {
    let operands = dynamic::operands(step, ValueRef::Tensor, |name| table.value(name))?;
    At { step, operands: &operands }.run(op)
}

/// What a piece of memory takes besides its bytes, at most.
const PIECE: usize = 32;

struct At<'a> {
    step: &'a HostStep,
    operands: &'a [Option<ValueRef<'a>>],
}

impl<'a> At<'a> {
    fn wrong(&self, reason: impl Into<String>) -> Error {
        wrong(self.step, reason)
    }

    fn run(&self, op: SequenceOp) -> Result<Value, Error> {
        Ok(match op {
            SequenceOp::Construct => {
                let mut tensors: Vec<Tensor> = Vec::with_capacity(self.operands.len());
                for index in 0..self.operands.len() {
                    let tensor = self.tensor(index)?;
                    if let Some(first) = tensors.first().filter(|first| first.dtype != tensor.dtype) {
                        return Err(self.wrong(format!("elements of {} and {}", first.dtype, tensor.dtype)));
                    }
                    tensors.push(own(tensor)?);
                }
                Value::Sequence(tensors)
            }
            SequenceOp::Empty(_) => Value::Sequence(Vec::new()),
            SequenceOp::At => {
                let list = self.list(0)?;
                let position = self.position(1, list.len(), list.len())?;
                Value::Tensor(own(list[position].view())?)
            }
            SequenceOp::Insert => {
                let (list, element) = (self.list(0)?, self.tensor(1)?);
                if let Some(first) = list.first().filter(|first| first.dtype != element.dtype) {
                    return Err(self.wrong(format!("an element of {} among {}", element.dtype, first.dtype)));
                }
                let position = match self.operand(2) {
                    Some(_) => self.position(2, list.len(), list.len() + 1)?,
                    None => list.len(),
                };
                let (before, behind) = list.split_at(position);
                let all = before.iter().map(Tensor::view).chain([element]);
                let all = all.chain(behind.iter().map(Tensor::view));
                Value::Sequence(all.map(own).collect::<Result<_, _>>()?)
            }
            SequenceOp::Erase => {
                let list = self.list(0)?;
                let position = match self.operand(1) {
                    Some(_) => self.position(1, list.len(), list.len())?,
                    None => list.len().checked_sub(1).ok_or_else(|| self.wrong("the list is empty"))?,
                };
                let rest = list[..position].iter().chain(&list[position + 1..]);
                Value::Sequence(rest.map(|tensor| own(tensor.view())).collect::<Result<_, _>>()?)
            }
            SequenceOp::Length => Value::scalar(DType::I64, &(self.list(0)?.len() as i64).to_le_bytes()),
            SequenceOp::Concat { axis, new } => {
                let list = self.list(0)?;
                let rank = list.first().map_or(0, |first| first.shape.rank()) + usize::from(new);
                let axis = dynamic::axis(self.step, axis, rank)?;
                Value::Tensor(join(list, axis, new)?.map_err(|reason| self.wrong(reason))?)
            }
            SequenceOp::Split { axis, keep } => {
                let x = self.tensor(0)?;
                let axis = dynamic::axis(self.step, axis, x.shape.len())?;
                Value::Sequence(self.split(x, axis, keep)?)
            }
            SequenceOp::Optional | SequenceOp::Same => {
                self.operand(0).unwrap_or(ValueRef::Nothing).to_owned()?
            }
            SequenceOp::GetElement => match self.operand(0) {
                None | Some(ValueRef::Nothing) => return Err(self.wrong("the optional is empty")),
                Some(value) => value.to_owned()?,
            },
            SequenceOp::HasElement => {
                let there = !matches!(self.operand(0), None | Some(ValueRef::Nothing));
                Value::scalar(DType::Bool, &[u8::from(there)])
            }
        })
    }

    fn operand(&self, index: usize) -> Option<ValueRef<'a>> {
        self.operands.get(index).copied().flatten()
    }

    /// An operand that is a list.
    fn list(&self, index: usize) -> Result<&'a [Tensor], Error> {
        match self.operand(index) {
            Some(ValueRef::Sequence(list)) => Ok(list),
            _ => Err(self.wrong(format!("operand {index} is not a sequence"))),
        }
    }

    /// An operand that is a tensor.
    fn tensor(&self, index: usize) -> Result<TensorRef<'a>, Error> {
        match self.operand(index) {
            Some(ValueRef::Tensor(tensor)) => Ok(tensor),
            _ => Err(self.wrong(format!("operand {index} is not a tensor"))),
        }
    }

    /// The integers of an operand.
    fn integers(&self, index: usize) -> Result<Vec<i64>, Error> {
        let tensor = self.tensor(index)?;
        match tensor.dtype {
            DType::I64 => {
                let words = tensor.bytes.as_chunks().0.iter();
                Ok(memory::collected(words.map(|&word| i64::from_le_bytes(word)))?)
            }
            DType::I32 => {
                let words = tensor.bytes.as_chunks().0.iter();
                Ok(memory::collected(words.map(|&word| i64::from(i32::from_le_bytes(word))))?)
            }
            dtype => Err(self.wrong(format!("operand {index} is {dtype}, not int32 or int64"))),
        }
    }

    /// A position in a list of `len`, from its end where it is negative, below `end`.
    fn position(&self, index: usize, len: usize, end: usize) -> Result<usize, Error> {
        let [position] = *self.integers(index)? else {
            return Err(self.wrong(format!("operand {index} is not one position")));
        };
        let counted = if position < 0 { position.saturating_add(len as i64) } else { position };
        usize::try_from(counted)
            .ok()
            .filter(|position| *position < end)
            .ok_or_else(|| self.wrong(format!("position {position} in a list of {len}")))
    }

    fn split(&self, x: TensorRef<'_>, axis: usize, keep: bool) -> Result<Vec<Tensor>, Error> {
        let strip = Strip::of(x.dtype, x.shape, axis);
        let strip = strip.ok_or_else(|| self.wrong(format!("axis {axis} of {}", List(x.shape))))?;
        let (extents, keep) = if self.operand(1).is_some() {
            let given = self.integers(1)?.into_iter().map(|size| usize::try_from(size).ok());
            let given: Option<Vec<usize>> = given.collect();
            let given = given.ok_or_else(|| self.wrong("a part of a negative extent"))?;
            let one = self.tensor(1)?.shape.is_empty();
            (if one { self.equal_parts(strip.extent, &given)? } else { given }, true)
        } else {
            (memory::filled(strip.extent, 1)?, keep)
        };
        let whole = extents.iter().try_fold(0_usize, |sum, &extent| sum.checked_add(extent));
        if whole != Some(strip.extent) {
            return Err(self.wrong(format!("parts {} of an extent of {}", List(&extents), strip.extent)));
        }
        // Each part is a piece of its own.
        let pieces = (extents.len() as u64).saturating_mul((size_of::<Tensor>() + PIECE) as u64);
        let _room = Room::of(pieces.saturating_add(x.bytes.len() as u64))?;
        let mut parts = memory::with_room(extents.len())?;
        let mut start = 0;
        for (part, extent) in extents.into_iter().enumerate() {
            if part.is_multiple_of(ROUND) {
                work::go_on()?;
            }
            let mut shape = x.shape.to_vec();
            if keep {
                shape[axis] = extent;
            } else {
                shape.remove(axis);
            }
            let shape = Shape::new(&shape).ok_or_else(|| self.wrong("too many dimensions"))?;
            parts.push(Tensor { dtype: x.dtype, shape, bytes: strip.part(x.bytes, start, extent)? });
            start += extent;
        }
        Ok(parts)
    }

    /// Parts of one extent, the last of what is left.
    fn equal_parts(&self, whole: usize, extent: &[usize]) -> Result<Vec<usize>, Error> {
        let &[extent @ 1..=usize::MAX] = extent else { return Err(self.wrong("parts of extent 0")) };
        let mut parts = memory::filled(whole / extent, extent)?;
        if !whole.is_multiple_of(extent) {
            parts.push(whole % extent);
        }
        Ok(parts)
    }
}
