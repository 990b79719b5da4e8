//! Running sums and products along an axis.

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{Error, Op, functions::running, ops::BinaryKind};

/// What of the elements before (or, in reverse, from) each one becomes; without itself if `exclusive`.
fn running(node: &mut NodeReader<'_, '_>, kind: BinaryKind) -> Result<Op, Error> {
    let (exclusive, reverse) = (node.flag("exclusive")?, node.flag("reverse")?);
    let function = node.function(move |f| {
        let x = f.input(0)?;
        let axis = f.axis(x, f.int(1)?)?;
        running::along(f, x, axis, kind, [exclusive, reverse])
    });
    Ok(function.deciding(&[1]).into())
}

/// The axis is an operand by then.
fn write(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Running(op) = op else { return Err(mistaken(op)) };
    writer.int("exclusive", op.exclusive.into());
    writer.int("reverse", op.reverse.into());
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "CumProd": [26] {2, 2, 1 => |node| running(node, BinaryKind::Mul)} write write;
    "CumSum": [11, 14] {2, 2, 1 => |node| running(node, BinaryKind::Add)} write write;
}
