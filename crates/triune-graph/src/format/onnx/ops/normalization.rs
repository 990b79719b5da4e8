//! Normalization at inference time, softmax, and dropout, which does nothing then.

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op,
    ops::{BatchNormalization, Identity, Softmax},
};

fn batch_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 7 && !node.flag("is_test")? {
        return Err(node.unsupported("attribute 'is_test' is 0: statistics of the batch are not supported"));
    }
    if node.since < 9 {
        node.only("spatial", 1)?;
    }
    node.only("training_mode", 0)?;
    node.ignore(&["momentum"]);
    node.drop_outputs(1)?;
    Ok(Op::BatchNormalization(BatchNormalization { epsilon: node.float("epsilon", 1e-5)? }))
}

fn write_batch_normalization(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::BatchNormalization(op) = op else { return Err(mistaken(op)) };
    writer.float("epsilon", op.epsilon);
    Ok(())
}

fn softmax(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // Before opset 13 all axes from the given one on form a row.
    let flatten = node.since < 13;
    let axis = node.axis("axis", if flatten { 1 } else { -1 })?;
    Ok(Op::Softmax(Softmax { axis, flatten }))
}

fn write_softmax(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Softmax(op) = op else { return Err(mistaken(op)) };
    if op.flatten {
        return Err("a softmax over several axes cannot be written in opset 13".into());
    }
    writer.int("axis", op.axis as i64);
    Ok(())
}

/// Dropout does nothing at inference.
fn dropout(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 7 && !node.flag("is_test")? {
        return Err(node.unsupported("attribute 'is_test' is 0: it would drop elements by chance"));
    }
    node.ignore(&["ratio", "seed"]);
    let training = node.inputs.get(2).is_some_and(Option::is_some);
    let off = node.constant(2).and_then(Constant::to_i64).is_some_and(|flag| flag == [0]);
    if training && !off {
        return Err(node.unsupported("input 2 (training_mode) is not false"));
    }
    node.drop_outputs(1)?;
    node.inputs.truncate(1);
    Ok(Op::Identity(Identity))
}

operators! {
    DEFAULT_DOMAIN;
    "BatchNormalization": [1, 6, 7, 9, 14, 15] {5, 5, 5 => batch_normalization} write write_batch_normalization;
    "Dropout": [1, 6, 7, 10] {1, 1, 2 => dropout} [12, 13, 22] {1, 3, 2 => dropout};
    "Softmax": [1, 11, 13] {1, 1, 1 => softmax} write write_softmax;
}
