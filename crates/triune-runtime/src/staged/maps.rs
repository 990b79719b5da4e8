//! Operators that make maps, or take them. A map is a list of its keys and its values, as [`triune_graph::ops::MapOp`] says.

use triune_graph::{
    Strings,
    ops::{CastMap, MapOp},
    passes::HostStep,
};
use triune_tensor::{DType, Shape, memory};

use super::{
    Table,
    value::{Value, ValueRef, own},
};
use crate::{
    Error, Tensor, TensorRef,
    dynamic::{self, strings, wrong},
};

/// Runs the step; new strings are added to the table of strings.
pub(super) fn run(
    step: &HostStep,
    op: &MapOp,
    table: &Table<'_>,
    known: &mut Strings,
) -> Result<Value, Error> {
    let operands = dynamic::operands(step, ValueRef::Tensor, |name| table.value(name))?;
    match (op, operands.first().copied().flatten()) {
        (MapOp::Zip { keys }, Some(ValueRef::Tensor(x))) => zip(step, keys, x),
        (MapOp::Vectorize { keys }, Some(ValueRef::Sequence([own, values]))) => {
            vectorize(step, keys, own, values).map(Value::Tensor)
        }
        (MapOp::Cast(op), Some(ValueRef::Sequence([keys, values]))) => {
            cast(step, *op, keys, values, known).map(Value::Tensor)
        }
        (MapOp::Zip { .. }, _) => Err(wrong(step, "operand 0 is not a tensor")),
        _ => Err(wrong(step, "operand 0 is not a map")),
    }
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    tensor.bytes.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word)).collect()
}

fn row(step: &HostStep, dtype: DType, count: usize, bytes: Vec<u8>) -> Result<Tensor, Error> {
    let shape = Shape::new(&[1, count]).ok_or_else(|| wrong(step, "too many dimensions"))?;
    Ok(Tensor { dtype, shape, bytes })
}

fn zip(step: &HostStep, keys: &[i64], x: TensorRef<'_>) -> Result<Value, Error> {
    let rows = MapOp::zipped(keys, x.dtype, x.shape).map_err(|reason| wrong(step, reason))?;
    let mut values = own(x)?;
    values.shape = Shape::from([rows, keys.len()]);
    let mut bytes = memory::with_room(8 * keys.len())?;
    for key in keys {
        bytes.extend_from_slice(&key.to_le_bytes());
    }
    let keys = Tensor { dtype: DType::I64, shape: Shape::from([keys.len()]), bytes };
    Ok(Value::Sequence(vec![keys, values]))
}

fn vectorize(step: &HostStep, keys: &[i64], own: &Tensor, values: &Tensor) -> Result<Tensor, Error> {
    let size = values.dtype.bytes();
    let places: std::collections::HashMap<i64, usize> = integers(own).into_iter().zip(0..).collect();
    let mut bytes = memory::filled(keys.len().saturating_mul(size), 0)?;
    for (key, word) in keys.iter().zip(bytes.chunks_exact_mut(size)) {
        if let Some(value) = places.get(key).and_then(|place| values.bytes.get(place * size..)?.get(..size)) {
            word.copy_from_slice(value);
        }
    }
    row(step, values.dtype, keys.len(), bytes)
}

fn cast(
    step: &HostStep,
    op: CastMap,
    keys: &Tensor,
    values: &Tensor,
    known: &mut Strings,
) -> Result<Tensor, Error> {
    let dtype = op.to.unwrap_or(DType::I64);
    let size = dtype.bytes();
    let gap = if op.to.is_none() { op.gap.to_le_bytes() } else { [0; 8] };
    let mut found = Vec::new();
    for (index, key) in integers(keys).into_iter().enumerate() {
        let wide = values.bytes.get(index * values.dtype.bytes()..).unwrap_or_default();
        let word = if op.from_strings {
            let number = wide.first_chunk().map_or(0, |&word| i64::from_le_bytes(word));
            match op.to {
                None => number.to_le_bytes(),
                Some(to) => {
                    let text = known.text(number).unwrap_or_default();
                    strings::parsed(&text, to).ok_or_else(|| {
                        let text = triune_tensor::text::Reason(&text).to_string();
                        wrong(
                            step,
                            format!("the value of key {key}, '{text}', does not say a number of {to}"),
                        )
                    })?
                }
            }
        } else {
            let real = wide.first_chunk().map_or(0.0, |&word| f32::from_le_bytes(word));
            match op.to {
                None => known.number(&format!("{real:.6}"))?.to_le_bytes(),
                Some(DType::I64) => (real as i64).to_le_bytes(),
                Some(_) => narrow_word(real),
            }
        };
        found.push((key, word));
    }
    found.sort_by_key(|(key, _)| *key);
    if let Some((key, _)) = found.first().filter(|(key, _)| op.extent.is_some() && *key < 0) {
        return Err(wrong(step, format!("key {key} is below 0, and attribute 'map_form' is 'SPARSE'")));
    }
    let count = op.extent.unwrap_or(found.len());
    let mut bytes = memory::with_room(count.saturating_mul(size))?;
    let mut found = found.into_iter().peekable();
    for place in 0..count as i64 {
        let word =
            found.next_if(|(key, _)| op.extent.is_none() || *key == place).map_or(gap, |(_, word)| word);
        bytes.extend_from_slice(&word[..size]);
    }
    row(step, dtype, count, bytes)
}

/// The bytes of an f32, in front.
fn narrow_word(real: f32) -> [u8; 8] {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&real.to_le_bytes());
    word
}
