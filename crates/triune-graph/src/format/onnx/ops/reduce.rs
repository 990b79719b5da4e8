//! Reductions along axes, and where extremes stand.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    ops::{ArgReduce, BinaryKind, Reduce, ReduceKind, Squeeze, Unary, UnaryKind},
};

/// A reduction of these elements.
macro_rules! reduce {
    ($kind:ident) => {
        |node| Ok(Op::Reduce(reduce(node, ReduceKind::$kind)?))
    };
}

fn reduce(node: &mut NodeReader<'_, '_>, kind: ReduceKind) -> Result<Reduce, Error> {
    let noop = node.flag("noop_with_empty_axes")?;
    let keep_dims = node.int("keepdims")?.unwrap_or(1) != 0;
    // The axes are an attribute at first; the versions with two inputs have them as an operand.
    let given = match node.ints("axes")? {
        Some(axes) => Some(axes),
        None if node.inputs.get(1).copied().flatten().is_some() => Some(
            node.constant(1)
                .and_then(Constant::to_i64)
                .ok_or_else(|| node.unsupported("its axes are not constant"))?,
        ),
        None => None,
    };
    node.inputs.truncate(1);
    let axes = match given {
        Some(axes) if !axes.is_empty() => Some(
            axes.into_iter()
                .map(|axis| isize::try_from(axis).map_err(|_| node.unsupported(format!("axis {axis}"))))
                .collect::<Result<Vec<_>, _>>()?,
        ),
        // Nothing goes: every element is a result of its own.
        _ if noop => Some(Vec::new()),
        _ => None,
    };
    Ok(Reduce { kind, axes, keep_dims })
}

/// Σ |x|.
fn l1(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let op = reduce(node, ReduceKind::Sum)?;
    let inner = node.new_value("function");
    node.emit_before(UnaryKind::Abs.into(), &[node.inputs[0]], inner);
    node.inputs = vec![Some(inner)];
    Ok(Op::Reduce(op))
}

/// √Σ x².
fn l2(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let op = reduce(node, ReduceKind::SumSquare)?;
    node.emit_after(Op::Unary(Unary { kind: UnaryKind::Sqrt }), &[]);
    Ok(Op::Reduce(op))
}

/// ln Σ x.
fn log_sum(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let op = reduce(node, ReduceKind::Sum)?;
    node.emit_after(Op::Unary(Unary { kind: UnaryKind::Log }), &[]);
    Ok(Op::Reduce(op))
}

/// ln Σ eˣ, with the largest x taken out so that no power overflows.
fn log_sum_exp(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let op = reduce(node, ReduceKind::Sum)?;
    let [largest, shifted, powers] = ["largest", "shifted", "powers"].map(|name| node.new_value(name));
    let x = node.inputs[0];
    let kept = Reduce { kind: ReduceKind::Max, keep_dims: true, ..op.clone() };
    node.emit_before(Op::Reduce(kept), &[x], largest);
    node.emit_before(BinaryKind::Sub.into(), &[x, Some(largest)], shifted);
    node.emit_before(UnaryKind::Exp.into(), &[Some(shifted)], powers);
    node.inputs = vec![Some(powers)];
    // Behind the sum: its logarithm, the largest added, and the axes gone.
    if !op.keep_dims {
        let squeezed: Vec<Option<ValueId>> = match &op.axes {
            Some(axes) => {
                let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
                vec![Some(node.new_ints("axes", &axes))]
            }
            None => Vec::new(),
        };
        node.emit_after(Op::Squeeze(Squeeze), &squeezed);
    }
    node.emit_after(BinaryKind::Add.into(), &[Some(largest)]);
    node.emit_after(UnaryKind::Log.into(), &[]);
    Ok(Op::Reduce(Reduce { keep_dims: true, ..op }))
}

/// Whether the operator set `opset` has the axes of such a reduction as an operand.
pub(in super::super) fn has_axes_operand(op: &Reduce, opset: i64) -> bool {
    opset >= if op.kind == ReduceKind::Sum { 13 } else { 18 }
}

/// Writes the attributes; the axes are one of them unless they are an operand.
fn write_reduce(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Reduce(op) = op else { return Err(mistaken(op)) };
    let axes_are_operand = writer.has_input(1);
    writer.int("keepdims", i64::from(op.keep_dims));
    match &op.axes {
        None if axes_are_operand => {
            return Err("a reduction to the shape of an operand cannot be written as ONNX".into());
        }
        Some(axes) if axes.is_empty() => {
            writer.needs(18);
            writer.int("noop_with_empty_axes", 1);
        }
        Some(axes) if !axes_are_operand => writer.ints("axes", axes.iter().map(|&axis| axis as i64)),
        _ => {}
    }
    Ok(())
}

fn arg_reduce(node: &mut NodeReader<'_, '_>, kind: ReduceKind) -> Result<Op, Error> {
    let axis = node.axis("axis", 0)?;
    let keep_dims = node.int("keepdims")?.unwrap_or(1) != 0;
    let last = node.flag("select_last_index")?;
    Ok(Op::ArgReduce(ArgReduce { kind, axis, keep_dims, last, dtype: DType::I64 }))
}

fn write_arg_reduce(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::ArgReduce(op) = op else { return Err(mistaken(op)) };
    if op.dtype != DType::I64 {
        return Err(format!("positions of type {} cannot be written as ONNX", op.dtype));
    }
    writer.int("axis", op.axis as i64);
    writer.int("keepdims", i64::from(op.keep_dims));
    writer.int("select_last_index", i64::from(op.last));
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "ArgMax": [1, 11, 12, 13] {1, 1, 1 => |node| arg_reduce(node, ReduceKind::Max)} write write_arg_reduce;
    "ArgMin": [1, 11, 12, 13] {1, 1, 1 => |node| arg_reduce(node, ReduceKind::Min)} write write_arg_reduce;
    "ReduceL1": [1, 11, 13] {1, 1, 1 => l1} [18] {1, 2, 1 => l1};
    "ReduceL2": [1, 11, 13] {1, 1, 1 => l2} [18] {1, 2, 1 => l2};
    "ReduceLogSum": [1, 11, 13] {1, 1, 1 => log_sum} [18, 28] {1, 2, 1 => log_sum};
    "ReduceLogSumExp": [1, 11, 13] {1, 1, 1 => log_sum_exp} [18, 28] {1, 2, 1 => log_sum_exp};
    "ReduceMax": [1, 11, 12, 13] {1, 1, 1 => reduce!(Max)} [18, 20] {1, 2, 1 => reduce!(Max)} write write_reduce;
    "ReduceMean": [1, 11, 13] {1, 1, 1 => reduce!(Mean)} [18] {1, 2, 1 => reduce!(Mean)} write write_reduce;
    "ReduceMin": [1, 11, 12, 13] {1, 1, 1 => reduce!(Min)} [18, 20] {1, 2, 1 => reduce!(Min)} write write_reduce;
    "ReduceProd": [1, 11, 13] {1, 1, 1 => reduce!(Product)} [18] {1, 2, 1 => reduce!(Product)}
        write write_reduce;
    "ReduceSum": [1, 11] {1, 1, 1 => reduce!(Sum)} [13] {1, 2, 1 => reduce!(Sum)} write write_reduce;
    "ReduceSumSquare": [1, 11, 13] {1, 1, 1 => reduce!(SumSquare)} [18] {1, 2, 1 => reduce!(SumSquare)}
        write write_reduce;
}
