//! Pools.

use super::{
    super::{View, node::Reader},
    conv::{Window, lift},
};
use crate::{
    Error,
    ops::{AutoPad, BinaryKind, Pool, PoolKind},
};

/// Max or mean over a sliding window, over images or rows.
pub(in super::super) fn pool(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let rows = !node.kind().ends_with("1d");
    let Window { stride, dilation, pad } = node.window(rows)?;
    let kernel = [if rows { node.extent("pool_height", 1)? } else { 1 }, node.extent("pool_width", 1)?];
    let average = node.kind().to_ascii_lowercase().starts_with("avg");
    let divisor = node.size("divisor_override", 0)?;
    let count_include_pad = node.flag("count_include_pad", false)? || divisor > 0;
    let kind = if average { PoolKind::Average { count_include_pad } } else { PoolKind::Max };
    let open = node.in_floats(x, View::Open)?;
    let open = if rows { open } else { lift(node, x, open)? };
    let op = Pool { kind, kernel, stride, dilation, pad, auto_pad: AutoPad::Explicit, ceil_mode: false };
    let mut result = node.pool(op, open)?;
    if average && divisor > 0 {
        let factor = node.scalar((kernel[0] * kernel[1]) as f32 / divisor as f32);
        result = node.binary(BinaryKind::Mul, result, factor)?;
    }
    if !rows {
        let extents = node.typed(y)?.form.open_extents();
        result = node.reshape(result, &extents)?;
    }
    node.define(y, View::Open, result)
}
