//! Convolution.

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, no_epilogue,
    operators,
    volume::{self, read_attributes},
    window::{read_window, window_axes, write_window},
};
use crate::{
    Error, Op,
    ops::{Conv, Epilogue, Window},
};

pub(super) fn conv(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let groups = node.int("group")?.unwrap_or(1);
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&groups| groups > 0)
        .ok_or_else(|| node.unsupported(format!("attribute 'group' = {groups}")))?;
    let rank = node.rank(1).or_else(|| node.rank(0));
    if node.constant(1).is_some_and(|weights| weights.elements() == 0) {
        let attributes = read_attributes(node)?;
        return Ok(node.function(move |f| volume::nothing_convolved(f, &attributes, groups)).into());
    }
    if window_axes(node, rank)? == 3 {
        let attributes = read_attributes(node)?;
        return Ok(volume::conv(node, attributes, groups));
    }
    let file = read_window(node, rank)?;
    file.lift(node, 2);
    let Window { kernel, stride, dilation, pad, auto_pad } = file.window;
    Ok(Op::Conv(Box::new(Conv {
        kernel,
        stride,
        dilation,
        pad,
        auto_pad,
        groups,
        epilogue: Epilogue::default(),
    })))
}

fn write_conv(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Conv(op) = op else { return Err(mistaken(op)) };
    no_epilogue(&op.epilogue)?;
    write_window(&op.window(), writer);
    writer.int("group", op.groups as i64);
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "Conv": [1, 11, 22] {2, 3, 1 => conv} write write_conv;
}
