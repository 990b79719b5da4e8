//! Reductions along axes: sums, products, extremes, and where extremes stand.

use triune_tensor::{
    DType,
    function::{ReduceKind, UnaryKind},
    text::List,
};

use super::{
    Op, Squeeze, Unary,
    infer::{Operands, TensorType, resolve_axis},
};
use crate::{
    Constant, Error,
    format::onnx::{NodeReader, NodeWriter},
};

/// One result of all elements along some axes, of the operand's type.
///
/// Sums, products and means of floats are carried in f64 and rounded once. Inputs: x, and optionally the shape to
/// reduce to (integers known before the network runs): axes along which it has extent 1 and x has not are the ones that
/// go, and all axes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// The axes that go, counted from the back when negative; `None` for all.
    pub axes: Option<Vec<isize>>,
    /// Whether the axes stay with extent 1.
    pub keep_dims: bool,
}

/// Where along an axis the largest or smallest element stands. A NaN wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgReduce {
    /// [`ReduceKind::Max`] or [`ReduceKind::Min`].
    pub kind: ReduceKind,
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Whether the axis stays with extent 1.
    pub keep_dims: bool,
    /// Whether the last of equal elements is taken, rather than the first.
    pub last: bool,
    /// Type of the positions: [`DType::I64`] or [`DType::I32`].
    pub dtype: DType,
}

impl Reduce {
    /// A reduction over all axes that are listed, which stay with extent 1.
    pub fn along(kind: ReduceKind, axes: &[isize]) -> Self {
        Self { kind, axes: Some(axes.to_vec()), keep_dims: true }
    }

    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>, kind: ReduceKind) -> Result<Op, Error> {
        let noop = node.flag("noop_with_empty_axes")?;
        let keep_dims = node.int("keepdims")?.unwrap_or(1) != 0;
        // Up to opset 12, 17 for most, the axes are an attribute, an operand since.
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
        Ok(Op::Reduce(Self { kind, axes, keep_dims }))
    }

    /// Σ |x|.
    pub(crate) fn l1_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        Self::of_function(node, UnaryKind::Abs, ReduceKind::Sum)
    }

    /// √Σ x².
    pub(crate) fn l2_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let op = Self::from_onnx(node, ReduceKind::SumSquare)?;
        node.emit_after(Op::Unary(Unary { kind: UnaryKind::Sqrt }), &[]);
        Ok(op)
    }

    /// ln Σ x.
    pub(crate) fn log_sum_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let op = Self::from_onnx(node, ReduceKind::Sum)?;
        node.emit_after(Op::Unary(Unary { kind: UnaryKind::Log }), &[]);
        Ok(op)
    }

    /// ln Σ eˣ, with the largest x taken out so that no power overflows.
    pub(crate) fn log_sum_exp_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let Op::Reduce(op) = Self::from_onnx(node, ReduceKind::Sum)? else {
            return Err(node.unsupported("it is no reduction"));
        };
        let [largest, shifted, powers] = ["largest", "shifted", "powers"].map(|name| node.new_value(name));
        let x = node.inputs[0];
        let kept = Self { kind: ReduceKind::Max, keep_dims: true, ..op.clone() };
        node.emit_before(Op::Reduce(kept), &[x], largest);
        node.emit_before(super::BinaryKind::Sub.into(), &[x, Some(largest)], shifted);
        node.emit_before(UnaryKind::Exp.into(), &[Some(shifted)], powers);
        node.inputs = vec![Some(powers)];
        // Behind the sum: its logarithm, the largest added, and the axes gone.
        if !op.keep_dims {
            let squeezed: Vec<Option<crate::ValueId>> = match &op.axes {
                Some(axes) => {
                    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
                    vec![Some(node.new_ints("axes", &axes))]
                }
                None => Vec::new(),
            };
            node.emit_after(Op::Squeeze(Squeeze), &squeezed);
        }
        node.emit_after(super::BinaryKind::Add.into(), &[Some(largest)]);
        node.emit_after(UnaryKind::Log.into(), &[]);
        Ok(Op::Reduce(Self { keep_dims: true, ..op }))
    }

    /// A reduction of f(x).
    fn of_function(node: &mut NodeReader<'_, '_>, f: UnaryKind, kind: ReduceKind) -> Result<Op, Error> {
        let op = Self::from_onnx(node, kind)?;
        let inner = node.new_value("function");
        node.emit_before(f.into(), &[node.inputs[0]], inner);
        node.inputs = vec![Some(inner)];
        Ok(op)
    }

    /// Writes the attributes; the axes are one of them unless they are an operand.
    pub(super) fn to_onnx(&self, writer: &mut NodeWriter, axes_are_operand: bool) -> Result<(), String> {
        writer.int("keepdims", i64::from(self.keep_dims));
        match &self.axes {
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

    /// Whether the opset `target` has the axes as an operand.
    pub(crate) fn has_axes_operand(&self, target: i64) -> bool {
        target >= if self.kind == ReduceKind::Sum { 13 } else { 18 }
    }

    /// For every axis of a tensor of `rank` dimensions, whether it goes; `None` when an axis does not exist or is named
    /// twice.
    pub fn reduced(&self, rank: usize) -> Option<Vec<bool>> {
        let Some(axes) = &self.axes else { return Some(vec![true; rank]) };
        let mut reduced = vec![false; rank];
        for &axis in axes {
            let axis = resolve_axis(axis as i64, rank)?;
            if std::mem::replace(&mut reduced[axis], true) {
                return None;
            }
        }
        Some(reduced)
    }

    /// Fixes the axes when they follow from a shape, and gives the result's type.
    pub(super) fn infer(&mut self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rank = x.shape.rank();
        if let Some(target) = at.ints(1)? {
            let lead = rank.checked_sub(target.len());
            let extent =
                |axis: usize| lead.map_or(0, |lead| axis.checked_sub(lead).map_or(1, |axis| target[axis]));
            let fits = |axis: usize| extent(axis) == 1 || extent(axis) == x.shape[axis] as i64;
            if lead != Some(0) || !(0..rank).all(fits) {
                return Err(at.wrong(format!("shape {} cannot be reduced to {}", x.shape, List(&target))));
            }
            let goes = |axis: &usize| extent(*axis) == 1 && x.shape[*axis] != 1;
            self.axes = Some((0..rank).filter(goes).map(|axis| axis as isize).collect());
            self.keep_dims = true;
        }
        let reduced = self.reduced(rank).ok_or_else(|| {
            at.wrong(format!(
                "axes {} are not distinct ones of {rank}",
                List(self.axes.as_deref().unwrap_or_default())
            ))
        })?;
        let sums = matches!(self.kind, ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::Product);
        if !sums && (0..rank).any(|axis| reduced[axis] && x.shape[axis] == 0) {
            return Err(at.wrong(format!("input {} has no elements along the axes", x.shape)));
        }
        if x.dtype == DType::Bool && !matches!(self.kind, ReduceKind::Min | ReduceKind::Max) {
            return Err(at.wrong("an input of type bool"));
        }
        at.like_input(at.shape(&kept(&x.shape, &reduced, self.keep_dims))?)
    }
}

/// The extents that stay.
fn kept(dims: &[usize], reduced: &[bool], keep_dims: bool) -> Vec<usize> {
    let axes = dims.iter().zip(reduced);
    axes.filter(|(_, reduced)| keep_dims || !**reduced)
        .map(|(&dim, &reduced)| if reduced { 1 } else { dim })
        .collect()
}

impl ArgReduce {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>, kind: ReduceKind) -> Result<Op, Error> {
        let axis = node.axis("axis", 0)?;
        let keep_dims = node.int("keepdims")?.unwrap_or(1) != 0;
        let last = node.flag("select_last_index")?;
        Ok(Op::ArgReduce(Self { kind, axis, keep_dims, last, dtype: DType::I64 }))
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter) -> Result<(), String> {
        if self.dtype != DType::I64 {
            return Err(format!("positions of type {} cannot be written as ONNX", self.dtype));
        }
        writer.int("axis", self.axis as i64);
        writer.int("keepdims", i64::from(self.keep_dims));
        writer.int("select_last_index", i64::from(self.last));
        Ok(())
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rank = x.shape.rank();
        let axis = at.axis(self.axis, rank)?;
        if x.shape[axis] == 0 {
            return Err(at.wrong(format!("input {} has no elements along axis {axis}", x.shape)));
        }
        if !matches!(self.kind, ReduceKind::Min | ReduceKind::Max) {
            return Err(at.wrong("positions are those of the largest or the smallest element"));
        }
        if !matches!(self.dtype, DType::I32 | DType::I64) {
            return Err(at.wrong(format!("positions of type {}", self.dtype)));
        }
        if self.dtype == DType::I32 && i32::try_from(x.shape[axis]).is_err() {
            return Err(at.wrong(format!("positions up to {} of type int32", x.shape[axis])));
        }
        let reduced: Vec<bool> = (0..rank).map(|index| index == axis).collect();
        let shape = at.shape(&kept(&x.shape, &reduced, self.keep_dims))?;
        Ok(vec![TensorType { dtype: self.dtype, shape }])
    }
}
