//! Normalization at inference time, softmax, and dropout, which does nothing then.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
    statistics::per_channel,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{BatchNormalization, Identity, ReduceKind, Softmax, UnaryKind},
};

fn batch_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 7 && !node.flag("is_test")? {
        return Err(node.unsupported("attribute 'is_test' is 0: statistics of the batch are not supported"));
    }
    if node.since < 9 {
        node.only("spatial", 1)?;
    }
    let epsilon = node.float("epsilon", 1e-5)?;
    let momentum = node.float("momentum", 0.9)?;
    if node.flag("training_mode")? {
        return Ok(node.functions(move |f| in_training(f, epsilon, momentum)).into());
    }
    node.drop_outputs(1)?;
    let op = BatchNormalization { epsilon };
    let dtypes: Vec<_> = (1..5).map(|index| node.constant(index).map(Constant::dtype)).collect();
    let one_type = dtypes.iter().all(|dtype| *dtype == dtypes[0]);
    // What a convolution takes in; doubles are in none.
    let folds = |dtype: DType| dtype != DType::F64;
    if one_type
        && dtypes[0].is_some_and(folds)
        && node.dtype_of(0).is_none_or(|dtype| dtypes[0] == Some(dtype))
    {
        return Ok(Op::BatchNormalization(op));
    }
    // What is constant after all becomes part of a convolution; what is not is computed step by step.
    Ok(node
        .function(move |f| {
            let operands = (0..5).map(|index| f.input(index)).collect::<Result<Vec<_>, _>>()?;
            let (rank, dtype) = (f.rank(operands[0]), f.dtype(operands[0]));
            let one_type = operands.iter().all(|&id| f.dtype(id) == dtype);
            if one_type && folds(dtype) && operands[1..].iter().all(|&id| f.constant_of(id).is_some()) {
                return f.op(Op::BatchNormalization(op), &operands);
            }
            // Of several types the widest one is computed in.
            let double = operands.iter().any(|&id| f.dtype(id) == DType::F64);
            let within = match one_type {
                true => dtype,
                false if double => DType::F64,
                false => DType::F32,
            };
            let x = f.cast(operands[0], within)?;
            let mut spread = Vec::with_capacity(4);
            for &operand in &operands[1..] {
                let operand = f.cast(operand, within)?;
                spread.push(per_channel(f, operand, rank)?);
            }
            let y = normalized(f, x, [spread[0], spread[1]], [spread[2], spread[3]], epsilon)?;
            f.cast(y, dtype)
        })
        .into())
}

/// (x − mean)/√(variance + ε)·scale + bias.
fn normalized(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    [scale, bias]: [ValueId; 2],
    [mean, variance]: [ValueId; 2],
    epsilon: f32,
) -> Result<ValueId, Error> {
    let difference = f.sub(x, mean)?;
    let variance = f.add_number(variance, f64::from(epsilon))?;
    let deviation = f.unary(UnaryKind::Sqrt, variance)?;
    let result = f.div(difference, deviation)?;
    let result = f.mul(result, scale)?;
    f.add(result, bias)
}

/// By the statistics of the batch; results y, and the statistics so far with those of the batch taken in.
fn in_training(f: &mut Scope<'_, '_>, epsilon: f32, momentum: f32) -> Result<Vec<ValueId>, Error> {
    let x = f.input(0)?;
    let rank = f.rank(x);
    if rank < 2 {
        return Err(f.wrong(format!("input {} has no channel axis", f.shape(x))));
    }
    let axes: Vec<usize> = (0..rank).filter(|axis| *axis != 1).collect();
    let mean = f.reduce(ReduceKind::Mean, x, &axes)?;
    let difference = f.sub(x, mean)?;
    let square = f.mul(difference, difference)?;
    let variance = f.reduce(ReduceKind::Mean, square, &axes)?;
    let (scale, bias) = (per_channel(f, f.input(1)?, rank)?, per_channel(f, f.input(2)?, rank)?);
    let mut results = vec![normalized(f, x, [scale, bias], [mean, variance], epsilon)?];
    for (index, own) in [(3, mean), (4, variance)] {
        let before = f.input(index)?;
        let shape = f.shape(before);
        let own = f.reshape(own, &shape)?;
        let before = f.mul_number(before, f64::from(momentum))?;
        let own = f.mul_number(own, 1.0 - f64::from(momentum))?;
        results.push(f.add(before, own)?);
    }
    Ok(results)
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
    Ok(Op::Softmax(Softmax { axis, flatten, log: false }))
}

pub(super) fn write_softmax(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Softmax(op) = op else { return Err(mistaken(op)) };
    if op.flatten {
        return Err("a softmax over several axes cannot be written in opset 13".into());
    }
    writer.int("axis", op.axis as i64);
    Ok(())
}

/// Dropout does nothing at inference, and since opset 12 says so in its mask.
fn dropout(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 7 && !node.flag("is_test")? {
        return Err(node.unsupported("attribute 'is_test' is 0: it would drop elements by chance"));
    }
    node.ignore(&["ratio", "seed"]);
    if node.since < 12 {
        if !node.output_used(1) {
            node.outputs.truncate(1);
            return Ok(Op::Identity(Identity));
        }
        // Of these versions the standard says nothing about the mask at inference; ONNX Runtime's is zeros.
        let truth = node.since >= 10;
        let function = node.functions(move |f| {
            let x = f.input(0)?;
            let (dtype, shape) = (if truth { DType::Bool } else { f.dtype(x) }, f.shape(x));
            let dropped = f.scalar(0.0, dtype);
            Ok(vec![x, f.expand(dropped, &shape)?])
        });
        return Ok(function.into());
    }
    if node.inputs.get(2).is_none_or(Option::is_none) && !node.output_used(1) {
        node.inputs.truncate(1);
        node.outputs.truncate(1);
        return Ok(Op::Identity(Identity));
    }
    let function = node.functions(|f| {
        let x = f.input(0)?;
        let is = |index: usize, number: f64| {
            let known = f.get(index).and_then(|id| f.constant_of(id));
            known.is_some_and(|known| match known.to_i64() {
                Some(ints) => ints == [number as i64],
                None => known.to_f64().is_some_and(|reals| reals == [number]),
            })
        };
        if f.get(2).is_some() && !is(2, 0.0) && !is(1, 0.0) {
            return Err(
                f.unsupported("input 2 (training_mode) is not false: it would drop elements by chance")
            );
        }
        let kept = f.scalar(1.0, DType::Bool);
        let shape = f.shape(x);
        Ok(vec![x, f.expand(kept, &shape)?])
    });
    Ok(function.deciding(&[1, 2]).into())
}

operators! {
    DEFAULT_DOMAIN;
    "BatchNormalization": [1, 6, 7, 9, 14, 15] {5, 5, 5 => batch_normalization} write write_batch_normalization;
    "Dropout": [1, 6, 7, 10] {1, 1, 2 => dropout} [12, 13, 22] {1, 3, 2 => dropout};
    "Softmax": [1, 11, 13] {1, 1, 1 => softmax} write write_softmax;
}
