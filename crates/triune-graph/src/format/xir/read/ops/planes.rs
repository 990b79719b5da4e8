//! Operators that move elements between channels and pixels.

use super::super::{View, node::Reader};
use crate::{Error, ValueId};

fn image(node: &Reader<'_, '_>, index: usize) -> Result<[Option<usize>; 4], Error> {
    let extents = node.typed(index)?.form.open_extents();
    extents.try_into().map_err(|_| node.unsupported("an operand that is not an image"))
}

fn fixed(node: &Reader<'_, '_>, extent: Option<usize>) -> Result<usize, Error> {
    extent.ok_or_else(|| node.unsupported("extents that the network decides about"))
}

/// r² channels become r rows of r columns.
pub(in super::super) fn pixel_shuffle(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let factor = node.extent("upscale_factor", 1)?;
    let [n, c, h, w] = image(node, x)?;
    let (c, h, w) = (fixed(node, c)?, fixed(node, h)?, fixed(node, w)?);
    let square = factor.checked_mul(factor).filter(|square| c % square == 0);
    let square = square.ok_or_else(|| node.wrong(format!("{c} channels for a factor of {factor}")))?;
    let open = node.in_floats(x, View::Open)?;
    let split = node.reshape(open, &[n, Some(c / square), Some(factor), Some(factor), Some(h), Some(w)])?;
    let moved = node.transpose(split, &[0, 1, 4, 2, 5, 3])?;
    let result = node.reshape(moved, &[n, Some(c / square), h.checked_mul(factor), w.checked_mul(factor)])?;
    node.define(y, View::Open, result)
}

/// Channels of groups, one of each group in turn.
pub(in super::super) fn channel_shuffle(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let groups = node.extent("groups", 1)?;
    let [n, c, h, w] = image(node, x)?;
    let c = fixed(node, c)?;
    if c % groups != 0 {
        return Err(node.wrong(format!("{c} channels in {groups} groups")));
    }
    let open: ValueId = node.in_floats(x, View::Open)?;
    let split = node.reshape(open, &[n, Some(groups), Some(c / groups), h, w])?;
    let moved = node.transpose(split, &[0, 2, 1, 3, 4])?;
    let result = node.reshape(moved, &[n, Some(c), h, w])?;
    node.define(y, View::Open, result)
}
