//! Reductions along axes, and where extremes stand.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{ArgReduce, BinaryKind, Reduce, ReduceKind, UnaryKind},
};

/// What a node reduces along: an attribute at first, an operand of the versions with two inputs.
#[derive(Clone)]
struct Axes {
    /// `None` if an operand says.
    given: Option<Vec<i64>>,
    /// Whether no axes mean that nothing goes, rather than everything.
    noop: bool,
    keep_dims: bool,
}

impl Axes {
    fn read(node: &mut NodeReader<'_, '_>) -> Result<Self, Error> {
        let noop = node.flag("noop_with_empty_axes")?;
        let keep_dims = node.int("keepdims")?.unwrap_or(1) != 0;
        let given = match node.ints("axes")? {
            Some(axes) => Some(axes),
            None if node.inputs.get(1).copied().flatten().is_some() => {
                node.constant(1).and_then(Constant::to_i64)
            }
            None => Some(Vec::new()),
        };
        Ok(Self { given, noop, keep_dims })
    }

    /// The axes for a reduction; `None` for all.
    fn listed(&self, axes: &[i64]) -> Option<Vec<isize>> {
        let nothing = axes.is_empty() && !self.noop;
        (!nothing).then(|| axes.iter().map(|&axis| isize::try_from(axis).unwrap_or(isize::MAX)).collect())
    }

    /// The axes when shapes are known.
    fn resolve(&self, f: &Scope<'_, '_>) -> Result<Vec<usize>, Error> {
        let x = f.input(0)?;
        let axes = match &self.given {
            Some(axes) => axes.clone(),
            None => f.ints(1)?.unwrap_or_default(),
        };
        match self.listed(&axes) {
            Some(_) => f.axes(x, &axes),
            None => Ok((0..f.rank(x)).collect()),
        }
    }

    /// A reduction of a value along the axes.
    fn reduce(&self, f: &mut Scope<'_, '_>, kind: ReduceKind, x: ValueId) -> Result<ValueId, Error> {
        let axes = self.resolve(f)?;
        let axes = axes.iter().map(|&axis| axis as isize).collect();
        f.op(Op::Reduce(Reduce { kind, axes: Some(axes), keep_dims: self.keep_dims }), &[x])
    }
}

/// A reduction of these elements.
macro_rules! reduce {
    ($kind:ident) => {
        |node| reduce(node, ReduceKind::$kind)
    };
}

fn reduce(node: &mut NodeReader<'_, '_>, kind: ReduceKind) -> Result<Op, Error> {
    let axes = Axes::read(node)?;
    if let Some(given) = &axes.given {
        node.inputs.truncate(1);
        return Ok(Op::Reduce(Reduce { kind, axes: axes.listed(given), keep_dims: axes.keep_dims }));
    }
    Ok(node.function(move |f| axes.reduce(f, kind, f.input(0)?)).deciding(&[1]).into())
}

/// Σ |x|.
fn l1(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axes = Axes::read(node)?;
    let function = node.function(move |f| {
        let magnitude = f.unary(UnaryKind::Abs, f.input(0)?)?;
        axes.reduce(f, ReduceKind::Sum, magnitude)
    });
    Ok(function.deciding(&[1]).into())
}

/// A reduction in reals: what it makes of integers is cut to their type again.
fn in_floats(
    node: &mut NodeReader<'_, '_>,
    body: fn(&Axes, &mut Scope<'_, '_>, ValueId) -> Result<ValueId, Error>,
) -> Result<Op, Error> {
    let axes = Axes::read(node)?;
    let function = node.function(move |f| {
        let (given, dtype) = (f.input(0)?, f.dtype(f.input(0)?));
        let x = if dtype.is_float() { given } else { f.cast(given, DType::F64)? };
        let y = body(&axes, f, x)?;
        f.cast(y, dtype)
    });
    Ok(function.deciding(&[1]).into())
}

/// √Σ x².
fn l2(axes: &Axes, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let sum = axes.reduce(f, ReduceKind::SumSquare, x)?;
    f.unary(UnaryKind::Sqrt, sum)
}

/// ln Σ x.
fn log_sum(axes: &Axes, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let sum = axes.reduce(f, ReduceKind::Sum, x)?;
    f.unary(UnaryKind::Log, sum)
}

/// ln Σ eˣ, with the largest x taken out so that no power overflows.
fn log_sum_exp(axes: &Axes, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let along = axes.resolve(f)?;
    if f.shape(x).contains(&0) {
        let powers = f.unary(UnaryKind::Exp, x)?;
        let sum = axes.reduce(f, ReduceKind::Sum, powers)?;
        return f.unary(UnaryKind::Log, sum);
    }
    let largest = f.reduce(ReduceKind::Max, x, &along)?;
    // Infinities stay what they are: nothing is taken out of them.
    let magnitude = f.unary(UnaryKind::Abs, largest)?;
    let infinite = f.compare(BinaryKind::Equal, magnitude, f64::INFINITY)?;
    let zero = f.scalar_like(0.0, x);
    let largest = f.choose(infinite, zero, largest)?;
    let shifted = f.sub(x, largest)?;
    let powers = f.unary(UnaryKind::Exp, shifted)?;
    let sum = f.reduce(ReduceKind::Sum, powers, &along)?;
    let sum = f.unary(UnaryKind::Log, sum)?;
    let sum = f.add(sum, largest)?;
    let shape = f.shape(x);
    let kept = (0..shape.rank()).filter(|axis| axes.keep_dims || !along.contains(axis));
    let dims: Vec<usize> = kept.map(|axis| if along.contains(&axis) { 1 } else { shape[axis] }).collect();
    f.reshape(sum, &dims)
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
    "ReduceL2": [1, 11, 13] {1, 1, 1 => |node| in_floats(node, l2)} [18] {1, 2, 1 => |node| in_floats(node, l2)};
    "ReduceLogSum": [1, 11, 13] {1, 1, 1 => |node| in_floats(node, log_sum)} [18, 28] {1, 2, 1 => |node| in_floats(node, log_sum)};
    "ReduceLogSumExp": [1, 11, 13] {1, 1, 1 => |node| in_floats(node, log_sum_exp)} [18, 28] {1, 2, 1 => |node| in_floats(node, log_sum_exp)};
    "ReduceMax": [1, 11, 12, 13] {1, 1, 1 => reduce!(Max)} [18, 20] {1, 2, 1 => reduce!(Max)} write write_reduce;
    "ReduceMean": [1, 11, 13] {1, 1, 1 => reduce!(Mean)} [18] {1, 2, 1 => reduce!(Mean)} write write_reduce;
    "ReduceMin": [1, 11, 12, 13] {1, 1, 1 => reduce!(Min)} [18, 20] {1, 2, 1 => reduce!(Min)} write write_reduce;
    "ReduceProd": [1, 11, 13] {1, 1, 1 => reduce!(Product)} [18] {1, 2, 1 => reduce!(Product)}
        write write_reduce;
    "ReduceSum": [1, 11] {1, 1, 1 => reduce!(Sum)} [13] {1, 2, 1 => reduce!(Sum)} write write_reduce;
    "ReduceSumSquare": [1, 11, 13] {1, 1, 1 => reduce!(SumSquare)} [18] {1, 2, 1 => reduce!(SumSquare)}
        write write_reduce;
}
