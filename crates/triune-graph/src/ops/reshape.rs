//! Operators that change or tell a tensor's extents or element type, not the elements' order.

use triune_tensor::{DType, MAX_RANK, Shape, text::List};

use super::infer::{Operands, TensorType, resolve_axis};
use crate::{Constant, Error};

/// Other extents for the same elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// Whether a 0 in the shape means 0, rather than "as the input".
    pub allow_zero: bool,
}

impl Reshape {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let requested = at.needed_ints(1)?;
        let dims = self
            .resolve(&x.shape, &requested)
            .ok_or_else(|| at.wrong(format!("shape {} cannot become {}", x.shape, List(&requested))))?;
        at.like_input(at.shape(&dims)?)
    }

    /// The extents that `requested` asks for, with 0 as the input's and −1 as what is left; `None` when they do not fit.
    fn resolve(self, from: &[usize], requested: &[i64]) -> Option<Vec<usize>> {
        let mut dims = Vec::with_capacity(requested.len());
        let mut open = None;
        for (axis, &extent) in requested.iter().enumerate() {
            dims.push(match extent {
                0 if !self.allow_zero => *from.get(axis)?,
                -1 if open.is_none() => {
                    open = Some(axis);
                    1
                }
                extent => usize::try_from(extent).ok()?,
            });
        }
        let elements = from.iter().product::<usize>();
        let fixed = dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim))?;
        if let Some(open) = open {
            dims[open] = elements.checked_div(fixed)?;
            return (dims[open] * fixed == elements).then_some(dims);
        }
        (fixed == elements).then_some(dims)
    }
}

/// To two dimensions, split before `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten {
    /// The first axis of the second dimension, counted from the back when negative.
    pub axis: isize,
}

impl Flatten {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rank = x.shape.rank();
        // Behind the last axis is a place to split, too.
        let axis = if self.axis == rank as isize { rank } else { at.axis(self.axis, rank)? };
        let (rows, columns) = x.shape.split_at(axis);
        at.like_input(at.shape(&[rows.iter().product(), columns.iter().product()])?)
    }
}

/// Which of `rank` axes are listed; an error for one that is not there or listed twice.
fn marked_axes(at: &Operands<'_>, axes: &[i64], rank: usize) -> Result<Vec<bool>, Error> {
    let mut marked = vec![false; rank];
    for &axis in axes {
        match resolve_axis(axis, rank) {
            Some(index) if !marked[index] => marked[index] = true,
            _ => return Err(at.wrong(format!("axes {} of {rank} dimensions", List(axes)))),
        }
    }
    Ok(marked)
}

/// Extents of 1 inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsqueeze;

impl Unsqueeze {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let axes = at.needed_ints(1)?;
        let new = marked_axes(at, &axes, x.shape.rank().saturating_add(axes.len()).min(MAX_RANK + 1))?;
        let mut old = x.shape.iter();
        let dims: Vec<usize> =
            new.iter().map(|&new| if new { 1 } else { old.next().copied().unwrap_or(1) }).collect();
        at.like_input(at.shape(&dims)?)
    }
}

/// Extents of 1 removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squeeze;

impl Squeeze {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let gone = match at.ints(1)? {
            Some(axes) => marked_axes(at, &axes, x.shape.rank())?,
            None => x.shape.iter().map(|&extent| extent == 1).collect(),
        };
        let mut dims = Vec::with_capacity(x.shape.rank());
        for (&extent, gone) in x.shape.iter().zip(gone) {
            if !gone {
                dims.push(extent);
            } else if extent != 1 {
                return Err(at.wrong(format!("an axis of {} that is not 1 cannot go", x.shape)));
            }
        }
        at.like_input(at.shape(&dims)?)
    }
}

fn extents(at: &Operands<'_>, values: &[i64]) -> Result<Vec<usize>, Error> {
    let extents: Option<Vec<usize>> = values.iter().map(|&value| usize::try_from(value).ok()).collect();
    extents.ok_or_else(|| at.wrong(format!("a negative extent in {}", List(values))))
}

/// Broadcast to a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expand;

impl Expand {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let requested = extents(at, &at.needed_ints(1)?)?;
        at.like_input(at.broadcast(&x.shape, &requested)?)
    }
}

/// The input itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity;

/// The input's extents from `start` to `end` as i64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeOf {
    /// First axis, counted from the back when negative.
    pub start: isize,
    /// One past the last axis; `None` for all.
    pub end: Option<isize>,
}

impl ShapeOf {
    /// The extents that the operator gives for a tensor of shape `from`.
    pub fn extents(self, from: &[usize]) -> Vec<i64> {
        let rank = from.len() as isize;
        let clamp = |axis: isize| (if axis < 0 { axis.saturating_add(rank) } else { axis }).clamp(0, rank);
        let (start, end) = (clamp(self.start), self.end.map_or(rank, clamp));
        from[start as usize..end.max(start) as usize].iter().map(|&extent| extent as i64).collect()
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let count = self.extents(&at.input(0)?.shape).len();
        Ok(vec![TensorType { dtype: DType::I64, shape: Shape::from([count]) }])
    }
}

/// One value repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantOfShape {
    /// The value: one element.
    pub value: Constant,
}

impl ConstantOfShape {
    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let dims = extents(at, &at.needed_ints(0)?)?;
        Ok(vec![TensorType { dtype: self.value.dtype(), shape: at.shape(&dims)? }])
    }
}

/// The same bits taken for another element type of as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitCast {
    /// The new type; not bool.
    pub to: DType,
}

impl BitCast {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if x.dtype.bits() != self.to.bits() || self.to == DType::Bool {
            return Err(at.wrong(format!("the bits of {} as {}", x.dtype, self.to)));
        }
        Ok(vec![TensorType { dtype: self.to, shape: x.shape }])
    }
}

/// Another element type. What lies beyond the largest real of a type becomes infinity, or no number where it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The new type.
    pub to: DType,
}

impl Cast {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        Ok(vec![TensorType { dtype: self.to, shape: at.input(0)?.shape }])
    }
}
