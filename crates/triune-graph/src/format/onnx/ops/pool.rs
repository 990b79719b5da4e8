//! Pools: over windows, and over all positions.

use triune_tensor::function::PoolKind;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken, operators,
    volume::{self, read_attributes},
    window::{read_window, window_axes, write_undilated, write_window},
};
use crate::{
    Error, Op,
    ops::{AutoPad, GlobalPool, Pool, Window},
};

pub(super) fn max_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let column_major = node.flag("storage_order")?;
    if node.output_used(1) {
        let attributes = volume::read_attributes(node)?;
        return Ok(volume::max_pool_with_places(node, attributes, column_major));
    }
    node.outputs.truncate(1);
    if window_axes(node, None)? == 3 {
        let attributes = read_attributes(node)?;
        return Ok(volume::max_pool(node, attributes));
    }
    pool(node, PoolKind::Max)
}

pub(super) fn average_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let count_include_pad = node.flag("count_include_pad")?;
    let undecided = || "before opset 7 nothing says whether a mean counts the padding";
    if window_axes(node, None)? == 3 {
        let attributes = read_attributes(node)?;
        if node.since < 7 && attributes.is_padded() {
            return Err(node.unsupported(undecided()));
        }
        return Ok(volume::average_pool(node, attributes, count_include_pad));
    }
    let op = pool(node, PoolKind::Average { count_include_pad })?;
    if let Op::Pool(pool) = &op
        && node.since < 7
        && (pool.pad != [0; 4] || !matches!(pool.auto_pad, AutoPad::Explicit | AutoPad::Valid))
    {
        return Err(node.unsupported(undecided()));
    }
    Ok(op)
}

fn pool(node: &mut NodeReader<'_, '_>, kind: PoolKind) -> Result<Op, Error> {
    let ceil_mode = node.flag("ceil_mode")?;
    let file = read_window(node, None)?;
    let kernel = file.window.kernel;
    let kernel = kernel.ok_or_else(|| node.unsupported("attribute 'kernel_shape' is missing"))?;
    file.lift(node, 1);
    let Window { stride, dilation, pad, auto_pad, .. } = file.window;
    Ok(Op::Pool(Box::new(Pool { kind, kernel, stride, dilation, pad, auto_pad, ceil_mode })))
}

fn write_pool(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Pool(op) = op else { return Err(mistaken(op)) };
    let window = op.window();
    writer.int("ceil_mode", i64::from(op.ceil_mode));
    if let PoolKind::Average { count_include_pad } = op.kind {
        writer.int("count_include_pad", i64::from(count_include_pad));
        // Dilated averages came with opset 19.
        if op.dilation == [1; 2] && writer.target < 19 {
            write_undilated(&window, writer);
            return Ok(());
        }
        writer.needs(19);
    }
    write_window(&window, writer);
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "AveragePool": [1, 7, 10, 11, 19, 22] {1, 1, 1 => average_pool} write write_pool;
    "GlobalAveragePool": [1, 22] {1, 1, 1 => |_| Ok(Op::GlobalPool(GlobalPool::AVERAGE))} write bare;
    "GlobalMaxPool": [1, 22] {1, 1, 1 => |_| Ok(Op::GlobalPool(GlobalPool::MAX))} write bare;
    "MaxPool": [1, 8, 10, 11, 12, 22] {1, 1, 2 => max_pool} write write_pool;
}
