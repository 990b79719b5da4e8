//! Different elements, or parts along an axis.

use std::cmp::Ordering;

use triune_device::work;
use triune_graph::ops::Unique;
use triune_tensor::{DType, Shape, memory};

use super::{Element, Elements, Operands, ROUND, words};
use crate::{Error, Tensor};

/// A number whose order is that of elements of one type; NaN is larger than every number and equal to NaN.
fn key(element: Element) -> u64 {
    const TOP: u64 = 1 << 63;
    match element {
        Element::Integer(value) => value as u64 ^ TOP,
        Element::Unsigned(value) => value,
        Element::Float(value) if value.is_nan() => u64::MAX,
        // The two zeros are one.
        Element::Float(value) => match (value + 0.0).to_bits() {
            bits if bits & TOP == 0 => bits | TOP,
            bits => !bits,
        },
    }
}

/// Sorts as `sort_by` does, so that of equal ones the one that stands first comes first, as long as nobody stops the work.
pub(super) fn sort<T: Copy>(places: &mut Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Result<(), Error> {
    let mut width = 1 << 12;
    for run in places.chunks_mut(width) {
        work::go_on()?;
        run.sort_by(&order);
    }
    let mut merged: Vec<T> = memory::with_room(places.len())?;
    while width < places.len() {
        for pair in places.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while !left.is_empty() || !right.is_empty() {
                if merged.len().is_multiple_of(1 << 12) {
                    work::go_on()?;
                }
                let from_right = match (left, right) {
                    ([a, ..], [b, ..]) => order(a, b).is_gt(),
                    (left, _) => left.is_empty(),
                };
                let from = if from_right { &mut right } else { &mut left };
                merged.extend(from.split_off_first());
            }
        }
        std::mem::swap(places, &mut merged);
        merged.clear();
        width *= 2;
    }
    Ok(())
}

pub(super) fn unique(at: &Operands<'_>, op: Unique) -> Result<Vec<Tensor>, Error> {
    let x = at.input(0)?;
    let axis_of = |axis: i64| super::axis(at.step, axis, x.shape.len());
    let (outer, count, inner) = match op.axis {
        None => (1, x.shape.iter().product::<usize>(), 1),
        Some(axis) => {
            let axis = axis_of(axis)?;
            (x.shape[..axis].iter().product(), x.shape[axis], x.shape[axis + 1..].iter().product::<usize>())
        }
    };
    let mut keys = memory::with_room(outer * count * inner)?;
    let mut rest = Elements::of(x).map(key);
    while keys.len() < outer * count * inner {
        work::go_on()?;
        keys.extend(rest.by_ref().take(ROUND));
    }
    let part = |index: usize| (0..outer).map(move |outer| (outer * count + index) * inner);
    let order = |&a: &usize, &b: &usize| {
        let pairs = part(a).zip(part(b)).map(|(a, b)| keys[a..a + inner].cmp(&keys[b..b + inner]));
        pairs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut places: Vec<usize> = memory::with_room(count)?;
    if (outer, inner) == (1, 1) {
        let mut pairs: Vec<(u64, usize)> = memory::with_room(count)?;
        pairs.extend(keys.iter().copied().zip(0..));
        sort(&mut pairs, |a, b| a.0.cmp(&b.0))?;
        places.extend(pairs.iter().map(|pair| pair.1));
    } else {
        places.extend(0..count);
        sort(&mut places, order)?;
    }
    // For each different one its members, the first of which stands first.
    let mut groups: Vec<&[usize]> = Vec::new();
    for (number, group) in places.chunk_by(|a, b| order(a, b).is_eq()).enumerate() {
        if number.is_multiple_of(ROUND) {
            work::go_on()?;
        }
        memory::grow(&mut groups, 1)?;
        groups.push(group);
    }
    if !op.sorted {
        groups.sort_unstable_by_key(|group| group[0]);
    }
    let mut inverse = memory::filled(count, 0_i64)?;
    for (number, group) in groups.iter().enumerate() {
        if number.is_multiple_of(ROUND) {
            work::go_on()?;
        }
        group.iter().for_each(|&member| inverse[member] = number as i64);
    }
    let size = x.dtype.bytes();
    let mut bytes = memory::with_room(outer * groups.len() * inner * size)?;
    for outer in 0..outer {
        for (number, group) in groups.iter().enumerate() {
            if number.is_multiple_of(ROUND) {
                work::go_on()?;
            }
            let from = (outer * count + group[0]) * inner * size;
            bytes.extend_from_slice(&x.bytes[from..][..inner * size]);
        }
    }
    let mut shape = x.shape.to_vec();
    match op.axis {
        None => shape = vec![groups.len()],
        Some(axis) => shape[axis_of(axis)?] = groups.len(),
    }
    let shape = Shape::new(&shape).ok_or_else(|| at.wrong("too many dimensions"))?;
    let of_groups = |number: fn(&[usize]) -> usize| {
        let numbers = groups.iter().map(|group| (number(group) as i64).to_le_bytes());
        words(at, DType::I64, &[groups.len()], numbers)
    };
    let inverse = words(at, DType::I64, &[count], inverse.iter().map(|number| number.to_le_bytes()))?;
    let first = of_groups(|group| group[0])?;
    let counts = of_groups(<[usize]>::len)?;
    Ok(vec![Tensor { dtype: x.dtype, shape, bytes }, first, inverse, counts])
}
