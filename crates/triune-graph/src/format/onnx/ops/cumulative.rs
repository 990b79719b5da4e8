//! Running sums and products along an axis.

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{Error, Op, ValueId, functions::Scope, ops::BinaryKind};

/// What of the elements before (or, in reverse, from) each one becomes; without itself if `exclusive`.
fn running(node: &mut NodeReader<'_, '_>, kind: BinaryKind) -> Result<Op, Error> {
    let (exclusive, reverse) = (node.flag("exclusive")?, node.flag("reverse")?);
    let function = node.function(move |f| {
        let x = f.input(0)?;
        let axis = f.axis(x, f.int(1)?)?;
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
    });
    Ok(function.deciding(&[1]).into())
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

operators! {
    DEFAULT_DOMAIN;
    "CumProd": [26] {2, 2, 1 => |node| running(node, BinaryKind::Mul)};
    "CumSum": [11, 14] {2, 2, 1 => |node| running(node, BinaryKind::Add)};
}
