//! Operators over lists of tensors, and over values that may be missing.

use triune_graph::{
    ops::SequenceOp,
    passes::{HostOperand, HostStep},
};
use triune_tensor::{DType, Shape, text::List};

use super::{
    Table,
    value::{Strip, Value, join},
};
use crate::{Error, Tensor, TensorRef, dynamic::wrong};

/// Runs the step.
pub(super) fn run(step: &HostStep, op: SequenceOp, table: &Table<'_>) -> Result<Value, Error> {
    let mut operands = Vec::with_capacity(step.inputs.len());
    for operand in &step.inputs {
        operands.push(match operand {
            None => None,
            Some(HostOperand::Constant(constant)) => Some(Value::Tensor(Tensor {
                dtype: constant.dtype(),
                shape: constant.shape(),
                bytes: constant.bytes().to_vec(),
            })),
            Some(HostOperand::Value(name)) => {
                let value = table.value(name);
                Some(value.ok_or_else(|| wrong(step, format!("'{name}' is not there yet")))?.to_owned()?)
            }
        });
    }
    At { step, operands }.run(op)
}

struct At<'a> {
    step: &'a HostStep,
    operands: Vec<Option<Value>>,
}

impl At<'_> {
    fn wrong(&self, reason: impl Into<String>) -> Error {
        wrong(self.step, reason)
    }

    fn run(mut self, op: SequenceOp) -> Result<Value, Error> {
        Ok(match op {
            SequenceOp::Construct => {
                let tensors = (0..self.operands.len()).map(|index| self.tensor(index));
                let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
                if let Some(other) = tensors.iter().find(|tensor| tensor.dtype != tensors[0].dtype) {
                    return Err(self.wrong(format!("elements of {} and {}", tensors[0].dtype, other.dtype)));
                }
                Value::Sequence(tensors)
            }
            SequenceOp::Empty(_) => Value::Sequence(Vec::new()),
            SequenceOp::At => {
                let mut list = self.list(0)?;
                let position = self.position(1, list.len(), list.len())?;
                Value::Tensor(list.swap_remove(position))
            }
            SequenceOp::Insert => {
                let (mut list, element) = (self.list(0)?, self.tensor(1)?);
                if let Some(first) = list.first().filter(|first| first.dtype != element.dtype) {
                    return Err(self.wrong(format!("an element of {} among {}", element.dtype, first.dtype)));
                }
                let position = match self.operands.get(2) {
                    Some(Some(_)) => self.position(2, list.len(), list.len() + 1)?,
                    _ => list.len(),
                };
                list.insert(position, element);
                Value::Sequence(list)
            }
            SequenceOp::Erase => {
                let mut list = self.list(0)?;
                let position = match self.operands.get(1) {
                    Some(Some(_)) => self.position(1, list.len(), list.len())?,
                    _ => list.len().checked_sub(1).ok_or_else(|| self.wrong("the list is empty"))?,
                };
                list.remove(position);
                Value::Sequence(list)
            }
            SequenceOp::Length => Value::scalar(DType::I64, &(self.list(0)?.len() as i64).to_le_bytes()),
            SequenceOp::Concat { axis, new } => {
                let list = self.list(0)?;
                let rank = list.first().map_or(0, |first| first.shape.rank()) + usize::from(new);
                let axis = self.axis(axis, rank)?;
                Value::Tensor(join(&list, axis, new)?.map_err(|reason| self.wrong(reason))?)
            }
            SequenceOp::Split { axis, keep } => {
                let x = self.tensor(0)?;
                let axis = self.axis(axis, x.shape.rank())?;
                Value::Sequence(self.split(x.view(), axis, keep)?)
            }
            SequenceOp::Optional => {
                self.operands.first_mut().and_then(Option::take).unwrap_or(Value::Nothing)
            }
            SequenceOp::GetElement => match self.operands.first_mut().and_then(Option::take) {
                None | Some(Value::Nothing) => return Err(self.wrong("the optional is empty")),
                Some(value) => value,
            },
            SequenceOp::HasElement => {
                let there = !matches!(self.operands.first(), None | Some(None | Some(Value::Nothing)));
                Value::scalar(DType::Bool, &[u8::from(there)])
            }
        })
    }

    /// An operand that is a list; it is taken.
    fn list(&mut self, index: usize) -> Result<Vec<Tensor>, Error> {
        match self.operands.get_mut(index).and_then(Option::take) {
            Some(Value::Sequence(list)) => Ok(list),
            _ => Err(self.wrong(format!("operand {index} is not a sequence"))),
        }
    }

    /// An operand that is a tensor; it is taken.
    fn tensor(&mut self, index: usize) -> Result<Tensor, Error> {
        match self.operands.get_mut(index).and_then(Option::take) {
            Some(Value::Tensor(tensor)) => Ok(tensor),
            _ => Err(self.wrong(format!("operand {index} is not a tensor"))),
        }
    }

    /// The integers of an operand.
    fn integers(&self, index: usize) -> Result<Vec<i64>, Error> {
        let Some(Some(Value::Tensor(tensor))) = self.operands.get(index) else {
            return Err(self.wrong(format!("operand {index} is not a tensor")));
        };
        match tensor.dtype {
            DType::I64 => {
                Ok(tensor.bytes.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word)).collect())
            }
            DType::I32 => {
                let words = tensor.bytes.as_chunks().0.iter();
                Ok(words.map(|&word| i64::from(i32::from_le_bytes(word))).collect())
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

    fn axis(&self, axis: i64, rank: usize) -> Result<usize, Error> {
        let counted = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(counted)
            .ok()
            .filter(|axis| *axis < rank)
            .ok_or_else(|| self.wrong(format!("axis {axis} is not one of {rank} dimensions")))
    }

    fn split(&self, x: TensorRef<'_>, axis: usize, keep: bool) -> Result<Vec<Tensor>, Error> {
        let strip = Strip::of(x.dtype, x.shape, axis);
        let strip = strip.ok_or_else(|| self.wrong(format!("axis {axis} of {}", List(x.shape))))?;
        let (extents, keep) = match self.operands.get(1) {
            Some(Some(Value::Tensor(sizes))) => {
                let given = self.integers(1)?.into_iter().map(|size| usize::try_from(size).ok());
                let given: Option<Vec<usize>> = given.collect();
                let given = given.ok_or_else(|| self.wrong("a part of a negative extent"))?;
                (if sizes.shape.rank() == 0 { self.equal_parts(strip.extent, &given)? } else { given }, true)
            }
            Some(Some(_)) => return Err(self.wrong("operand 1 is not a tensor")),
            _ => (vec![1; strip.extent], keep),
        };
        let whole = extents.iter().try_fold(0_usize, |sum, &extent| sum.checked_add(extent));
        if whole != Some(strip.extent) {
            return Err(self.wrong(format!("parts {} of an extent of {}", List(&extents), strip.extent)));
        }
        let mut parts = Vec::with_capacity(extents.len());
        let mut start = 0;
        for extent in extents {
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
        let mut parts = vec![extent; whole / extent];
        if !whole.is_multiple_of(extent) {
            parts.push(whole % extent);
        }
        Ok(parts)
    }
}
