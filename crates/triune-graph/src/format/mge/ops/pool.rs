//! Pooling.

use super::{channels_last, kind};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{AutoPad, Op, Pool, PoolKind},
};

/// What a mode's number stands for.
pub(super) fn pool_kind(node: &NodeReader<'_, '_, '_>, mode: u32) -> Result<PoolKind, Error> {
    match mode {
        0 => Ok(PoolKind::Max),
        1 => Ok(PoolKind::Average { count_include_pad: true }),
        2 => Ok(PoolKind::Average { count_include_pad: false }),
        _ => Err(node.unsupported(format!("mode {mode}"))),
    }
}

/// Max or mean over a sliding window.
pub(in super::super) fn pooling(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::POOLING)?;
    let kind = pool_kind(node, params.u32(0, 0)?)?;
    let [rows, columns] = params.pair(1, 0)?;
    let (stride, kernel) = (params.pair(3, 2)?, params.pair(5, 2)?);
    let last = channels_last(node, &params, 7, 0)?;
    if stride.contains(&0) || kernel.contains(&0) {
        return Err(node.unsupported("a window or step of 0"));
    }
    let mut x = node.input(0)?;
    if last {
        x = node.transposed(x, &[0, 3, 1, 2])?;
    }
    let pool = Pool {
        kind,
        kernel,
        stride,
        dilation: [1; 2],
        pad: [rows, columns, rows, columns],
        auto_pad: AutoPad::Explicit,
        ceil_mode: false,
    };
    // Integers mean behind a pool what they mean before it.
    let element = node.element(x)?;
    let y = node.emit_as(Op::Pool(pool), &[Some(x)], element)?;
    if last { node.transposed(y, &[0, 2, 3, 1]) } else { Ok(y) }
}
