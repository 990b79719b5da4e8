//! Elements looked up in tables.

use triune_device::work;
use triune_graph::ops::{Dictionary, OneHotEncoder};
use triune_tensor::{DType, memory};

use super::{Element, Elements, Operands, ROUND};
use crate::{Error, Tensor};

/// Another value for each element.
pub(super) fn translate(at: &Operands<'_>, op: &Dictionary) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    if x.dtype != op.from {
        return Err(at.wrong(format!("an input of {}; its keys are of {}", x.dtype, op.from)));
    }
    let (size, made) = (x.dtype.bytes(), op.to.bytes());
    let mut bytes = memory::with_room((x.bytes.len() / size).saturating_mul(made))?;
    for some in x.bytes.chunks(ROUND * size) {
        work::go_on()?;
        for element in some.chunks_exact(size) {
            let mut word = [0; 8];
            word[..size].copy_from_slice(element);
            let key = Dictionary::key(x.dtype, u64::from_le_bytes(word));
            let value = op.table.get(&key).unwrap_or(&op.default);
            bytes.extend_from_slice(&value.to_le_bytes()[..made]);
        }
    }
    at.of_bytes(op.to, x.shape, bytes)
}

/// 1 at the place of each element's category.
pub(super) fn one_hot(at: &Operands<'_>, op: &OneHotEncoder) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let count = x.bytes.len() / x.dtype.bytes();
    let size = count.checked_mul(op.count).and_then(|size| size.checked_mul(4));
    let mut bytes = memory::filled(size.ok_or_else(|| at.wrong("too many results"))?, 0_u8)?;
    let one = 1.0_f32.to_le_bytes();
    let rows = bytes.chunks_exact_mut(4 * op.count.max(1));
    for (index, (element, row)) in Elements::of(x).zip(rows).enumerate() {
        if index.is_multiple_of(ROUND) {
            work::go_on()?;
        }
        let key = match element {
            Element::Integer(key) => Some(key),
            // The range is that of i64.
            Element::Float(real) if real > -9.3e18 && real < 9.2e18 => Some(real as i64),
            Element::Float(_) | Element::Unsigned(_) => None,
        };
        match key.and_then(|key| op.places.get(&key)) {
            Some(place) => row[4 * place..][..4].copy_from_slice(&one),
            None if op.zeros => {}
            None => {
                return Err(at.wrong(format!(
                    "element {index} is of none of the {} categories, and attribute 'zeros' is 0",
                    op.count
                )));
            }
        }
    }
    let mut dims = x.shape.to_vec();
    dims.push(op.count);
    at.of_bytes(DType::F32, &dims, bytes)
}
