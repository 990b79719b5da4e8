//! Pooling.

use triune_tensor::DType;

use super::{kind, layout::layout};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{AdaptivePool, AutoPad, Op, Pool, PoolKind},
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
    let layout = layout(node, &params, 7, 0)?;
    if stride.contains(&0) || kernel.contains(&0) {
        return Err(node.unsupported("a window or step of 0"));
    }
    let x = node.input(0)?;
    let x = node.planes(x, layout)?;
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
    let y = node.emit_as(Op::Pool(Box::new(pool)), &[Some(x)], element)?;
    node.laid_out(y, layout)
}

/// Max or mean over equal windows, to as many rows and columns as operand 1 says.
pub(in super::super) fn adaptive_pooling(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::ADAPTIVE_POOLING)?;
    let kind = pool_kind(node, params.u32(0, 0)?)?;
    let layout = layout(node, &params, 1, 0)?;
    let (x, size) = (node.input(0)?, node.input(1)?);
    let x = node.planes(x, layout)?;
    let size = node.cast(size, DType::I64)?;
    let element = node.element(x)?;
    let y = node.emit_as(Op::AdaptivePool(AdaptivePool { kind }), &[Some(x), Some(size)], element)?;
    node.laid_out(y, layout)
}
