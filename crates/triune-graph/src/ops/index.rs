//! Choices and elements picked by index.

use triune_tensor::{DType, MAX_RANK, function::ScatterKind, text::List};

use super::infer::{Operands, TensorType, broadcast, resolve_axis};
use crate::Error;

/// Elements of one operand or another; inputs condition (bool), a where it holds, b where it does not, broadcast as
/// numpy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Where;

impl Where {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (condition, a, b) = (at.input(0)?, at.input(1)?, at.input(2)?);
        if condition.dtype != DType::Bool {
            return Err(at.wrong(format!("a condition of type {}", condition.dtype)));
        }
        if a.dtype != b.dtype {
            return Err(at.wrong(format!("inputs of types {} and {}", a.dtype, b.dtype)));
        }
        let shape = at.broadcast(&a.shape, &b.shape)?;
        let shape = at.broadcast(&condition.shape, &shape)?;
        Ok(vec![TensorType { dtype: a.dtype, shape }])
    }
}

/// Refuses indices that are no signed integers of 32 or 64 bits.
fn expect_indices(at: &Operands<'_>, index: usize) -> Result<(), Error> {
    match at.input(index)?.dtype {
        DType::I32 | DType::I64 => Ok(()),
        dtype => Err(at.wrong(format!("indices of type {dtype}"))),
    }
}

/// One element per index, the others of its coordinates its own: `y[i, j] = x[index[i, j], j]` for axis 0. Inputs x and
/// indices of the same rank; negative ones count from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherElements {
    /// The axis, counted from the back when negative.
    pub axis: isize,
}

impl GatherElements {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, indices) = (at.input(0)?, at.input(1)?);
        expect_indices(at, 1)?;
        let axis = at.axis(self.axis, x.shape.rank())?;
        let fits = |index: usize| index == axis || indices.shape[index] <= x.shape[index];
        if indices.shape.rank() != x.shape.rank() || !(0..x.shape.rank()).all(fits) {
            return Err(at.wrong(format!("indices of shape {} for {}", indices.shape, x.shape)));
        }
        at.expect_indices_within(1, axis, x.shape[axis])?;
        at.like_input(indices.shape)
    }
}

/// Parts of x picked by coordinates: the last axis of the indices holds the first coordinates of a part, behind the batch
/// axes. Inputs x, indices; negative ones count from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherNd {
    /// Leading axes that x and the indices share.
    pub batch_dims: usize,
}

impl GatherNd {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, indices) = (at.input(0)?, at.input(1)?);
        expect_indices(at, 1)?;
        let wrong = || at.wrong(format!("indices of shape {} for {}", indices.shape, x.shape));
        let Some((&count, rows)) = indices.shape.split_last() else { return Err(wrong()) };
        let batch = self.batch_dims;
        let picked =
            batch.checked_add(count).filter(|&end| count > 0 && end <= x.shape.rank()).ok_or_else(wrong)?;
        if rows.len() < batch || x.shape[..batch] != rows[..batch] {
            return Err(wrong());
        }
        let dims = [rows, &x.shape[picked..]].concat();
        at.like_input(at.shape(&dims)?)
    }
}

/// Elements put into a copy of x, the others of their coordinates their own: `y[index[i, j], j] = updates[i, j]` for axis 0.
/// Inputs x, indices and updates of the same rank, the latter two of the same extents; negative indices count from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterElements {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// What becomes of an element that another one is put on.
    pub kind: ScatterKind,
}

/// Types of x and updates, which are the result's, and what is put together has to be numbers.
fn scattered(at: &Operands<'_>, kind: ScatterKind) -> Result<Vec<TensorType>, Error> {
    let (x, updates) = (at.input(0)?, at.input(2)?);
    if x.dtype != updates.dtype {
        return Err(at.wrong(format!("inputs of types {} and {}", x.dtype, updates.dtype)));
    }
    if kind != ScatterKind::Set && x.dtype == DType::Bool {
        return Err(at.wrong(format!("{kind} of {}", x.dtype)));
    }
    at.like_input(x.shape)
}

impl ScatterElements {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, indices, updates) = (at.input(0)?, at.input(1)?, at.input(2)?);
        expect_indices(at, 1)?;
        let axis = at.axis(self.axis, x.shape.rank())?;
        let fits = |index: usize| index == axis || indices.shape[index] <= x.shape[index];
        let same = indices.shape.rank() == x.shape.rank() && indices.shape == updates.shape;
        if !same || !(0..x.shape.rank()).all(fits) {
            return Err(at.wrong(format!(
                "indices of shape {} and updates of shape {} for {}",
                indices.shape, updates.shape, x.shape
            )));
        }
        at.expect_indices_within(1, axis, x.shape[axis])?;
        scattered(at, self.kind)
    }
}

/// Parts put into a copy of x by coordinates: the last axis of the indices holds the first coordinates of a part. Inputs x,
/// indices, updates; negative coordinates count from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterNd {
    /// What becomes of an element that another one is put on.
    pub kind: ScatterKind,
}

impl ScatterNd {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, indices, updates) = (at.input(0)?, at.input(1)?, at.input(2)?);
        expect_indices(at, 1)?;
        let parts = indices.shape.split_last().filter(|(count, _)| (1..=x.shape.rank()).contains(*count));
        let parts = parts.map(|(&count, rows)| [rows, &x.shape[count..]].concat());
        if parts.as_deref() != Some(&*updates.shape) {
            return Err(at.wrong(format!(
                "indices of shape {} and updates of shape {} for {}",
                indices.shape, updates.shape, x.shape
            )));
        }
        scattered(at, self.kind)
    }
}

/// numpy's advanced indexing with integer tensors: inputs x and one tensor of indices per axis, which are broadcast
/// together. Their axes take the place of the indexed ones when those are neighbours, and come first otherwise. Negative
/// indices count from the back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The indexed axes in ascending order, counted from the back when negative.
    pub axes: Vec<isize>,
}

impl Index {
    /// The indexed axes counted from the front, and the place of the indices' axes in the result; `None` unless they
    /// are distinct axes of `rank`, in order.
    pub fn resolve(&self, rank: usize) -> Option<(Vec<usize>, usize)> {
        let axes: Vec<usize> =
            self.axes.iter().map(|&axis| resolve_axis(axis as i64, rank)).collect::<Option<_>>()?;
        let first = *axes.first()?;
        if axes.windows(2).any(|pair| pair[0] >= pair[1]) {
            return None;
        }
        let neighbours = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        Some((axes, if neighbours { first } else { 0 }))
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let (axes, place) = self
            .resolve(x.shape.rank())
            .ok_or_else(|| at.wrong(format!("axes {} of rank {}", List(&self.axes), x.shape.rank())))?;
        if at.inputs.len() != axes.len() + 1 {
            return Err(at.wrong(format!(
                "{} tensors of indices for {} axes",
                at.inputs.len() - 1,
                axes.len()
            )));
        }
        let mut picked = Vec::new();
        for index in 1..at.inputs.len() {
            expect_indices(at, index)?;
            let shape = at.input(index)?.shape;
            picked = broadcast(&picked, &shape)
                .ok_or_else(|| at.wrong(format!("indices of shapes {} and {shape}", List(&picked))))?;
        }
        let rest: Vec<usize> =
            (0..x.shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| x.shape[axis]).collect();
        let dims = [&rest[..place], &picked, &rest[place..]].concat();
        if dims.len() > MAX_RANK {
            return Err(at.wrong(format!("a result of {} dimensions", dims.len())));
        }
        at.like_input(at.shape(&dims)?)
    }
}

/// The first elements in order along an axis, and where they stand; inputs x, k (one integer known before the network
/// runs). Results: values, indices.
///
/// Of equal elements the one with the lower index comes first. NaN counts as larger than every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Whether the largest elements come first.
    pub largest: bool,
    /// Whether order is asked for; it is kept in any case.
    pub sorted: bool,
    /// Type of the indices: [`DType::I64`] or [`DType::I32`].
    pub index_dtype: DType,
}

impl TopK {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let axis = at.axis(self.axis, x.shape.rank())?;
        let [k] = at.needed_ints(1)?[..] else { return Err(at.wrong("k is not one number")) };
        let k = usize::try_from(k)
            .ok()
            .filter(|&k| k <= x.shape[axis])
            .ok_or_else(|| at.wrong(format!("k = {k} of {} elements", x.shape[axis])))?;
        if !matches!(self.index_dtype, DType::I32 | DType::I64) {
            return Err(at.wrong(format!("indices of type {}", self.index_dtype)));
        }
        if u32::try_from(x.shape[axis]).is_err()
            || self.index_dtype == DType::I32 && i32::try_from(x.shape[axis]).is_err()
        {
            return Err(at.wrong(format!("rows of {} elements", x.shape[axis])));
        }
        let mut dims = x.shape.to_vec();
        dims[axis] = k;
        let shape = at.shape(&dims)?;
        let values = TensorType { dtype: x.dtype, shape };
        Ok(vec![values, TensorType { dtype: self.index_dtype, shape }])
    }
}
