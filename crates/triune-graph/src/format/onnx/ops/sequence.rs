//! Lists of tensors, and values that may be missing.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, MANY, Meaning, NodeReader, Operator, Signature, operators};
use crate::{Error, Op, ops::SequenceOp};

fn empty(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(SequenceOp::Empty(node.dtype("dtype")?.unwrap_or(DType::F32)).into())
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of the readers")]
fn optional(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // Of one that has nothing; what asks for it knows by itself.
    node.ignore(&["type"]);
    Ok(SequenceOp::Optional.into())
}

fn concat(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.int("axis")?.ok_or_else(|| node.unsupported("attribute 'axis' is missing"))?;
    Ok(SequenceOp::Concat { axis, new: node.flag("new_axis")? }.into())
}

fn split(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.int("axis")?.unwrap_or(0);
    Ok(SequenceOp::Split { axis, keep: node.int("keepdims")?.unwrap_or(1) != 0 }.into())
}

operators! {
    DEFAULT_DOMAIN;
    "ConcatFromSequence": [11] {1, 1, 1 => concat};
    "Optional": [15, 28] {0, 1, 1 => optional};
    "OptionalGetElement": [15, 18, 28] {1, 1, 1 => |_| Ok(SequenceOp::GetElement.into())};
    "OptionalHasElement": [15, 18, 28] {0, 1, 1 => |_| Ok(SequenceOp::HasElement.into())};
    "SequenceAt": [11] {2, 2, 1 => |_| Ok(SequenceOp::At.into())};
    "SequenceConstruct": [11] {1, MANY, 1 => |_| Ok(SequenceOp::Construct.into())};
    "SequenceEmpty": [11] {0, 0, 1 => empty};
    "SequenceErase": [11] {1, 2, 1 => |_| Ok(SequenceOp::Erase.into())};
    "SequenceInsert": [11] {2, 3, 1 => |_| Ok(SequenceOp::Insert.into())};
    "SequenceLength": [11] {1, 1, 1 => |_| Ok(SequenceOp::Length.into())};
    "SplitToSequence": [11, 24] {1, 2, 1 => split};
}
