//! Reductions along axes: sums, products, extremes, and where extremes stand.

use triune_tensor::{DType, function::ReduceKind, text::List};

use super::infer::{Operands, TensorType, resolve_axis};
use crate::Error;

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

/// What the elements up to each one along an axis become together, one after the other in their own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The axis.
    pub axis: usize,
    /// Whether products are made instead of sums.
    pub product: bool,
    /// Whether an element itself is left out.
    pub exclusive: bool,
    /// Whether the last element comes first.
    pub reverse: bool,
}

impl Running {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if self.axis >= x.shape.rank() || x.dtype == DType::Bool {
            return Err(at.wrong(format!("along axis {} of {} {}", self.axis, x.dtype, x.shape)));
        }
        at.like_input(x.shape)
    }
}

impl Reduce {
    /// A reduction over all axes that are listed, which stay with extent 1.
    pub fn along(kind: ReduceKind, axes: &[isize]) -> Self {
        Self { kind, axes: Some(axes.to_vec()), keep_dims: true }
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
