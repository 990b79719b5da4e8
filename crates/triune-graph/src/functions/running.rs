//! Running sums and products.

use super::Scope;
use crate::{Error, ValueId, ops::BinaryKind};

/// What of the elements before each one along an axis, and of itself unless `exclusive`, becomes; in reverse, of those behind it.
pub(crate) fn along(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    kind: BinaryKind,
    [exclusive, reverse]: [bool; 2],
) -> Result<ValueId, Error> {
    let extent = f.shape(x)[axis];
    let mut sums = if exclusive { moved(f, x, axis, 1, kind, reverse)? } else { x };
    // Each step doubles how many elements a sum has.
    let mut reach = 1;
    while reach < extent {
        let further = moved(f, sums, axis, reach, kind, reverse)?;
        sums = f.binary(kind, sums, further)?;
        reach *= 2;
    }
    Ok(sums)
}

/// The elements moved along an axis, with what changes nothing in the places that are left.
fn moved(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    places: usize,
    kind: BinaryKind,
    reverse: bool,
) -> Result<ValueId, Error> {
    let mut dims = f.shape(x).to_vec();
    let extent = dims[axis] as i64;
    dims[axis] = places.min(dims[axis]);
    let neutral = f.scalar_like(if kind == BinaryKind::Mul { 1.0 } else { 0.0 }, x);
    let filling = f.expand(neutral, &dims)?;
    let places = dims[axis] as i64;
    if reverse {
        let rest = f.slice(x, axis, places, extent)?;
        f.concat(&[rest, filling], axis)
    } else {
        let rest = f.slice(x, axis, 0, extent - places)?;
        f.concat(&[filling, rest], axis)
    }
}
