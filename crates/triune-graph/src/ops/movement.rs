//! Operators that move elements without computing on them.

use super::infer::{Operands, TensorType, resolve_axis};
use crate::Error;
use triune_tensor::{DType, text::List};

/// Axes permuted: output axis i is input axis `perm[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// The permutation; empty reverses all axes.
    pub perm: Vec<usize>,
}

impl Transpose {
    /// Writes the permutation out and gives the result's type.
    pub(super) fn infer(&mut self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rank = x.shape.rank();
        if self.perm.is_empty() {
            self.perm = (0..rank).rev().collect();
        }
        let mut seen = vec![false; rank];
        for &axis in &self.perm {
            match seen.get_mut(axis) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(at.wrong(format!("{} does not permute {rank} axes", List(&self.perm)))),
            }
        }
        if self.perm.len() != rank {
            return Err(at.wrong(format!("{} does not permute {rank} axes", List(&self.perm))));
        }
        let dims: Vec<usize> = self.perm.iter().map(|&axis| x.shape[axis]).collect();
        at.like_input(at.shape(&dims)?)
    }
}

/// Inputs joined along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concat {
    /// The axis, counted from the back when negative.
    pub axis: isize,
}

impl Concat {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let first = at.input(0)?;
        let axis = at.axis(self.axis, first.shape.rank())?;
        let mut dims = first.shape.to_vec();
        for index in 1..at.inputs.len() {
            let part = at.input(index)?;
            let same_type = part.dtype == first.dtype;
            let same_shape = part.shape.rank() == dims.len()
                && (0..dims.len()).all(|other| other == axis || part.shape[other] == dims[other]);
            if !same_type || !same_shape {
                return Err(at.wrong(format!(
                    "input {index} is {} {}, which cannot be joined to {} {} along axis {axis}",
                    part.dtype, part.shape, first.dtype, first.shape
                )));
            }
            dims[axis] = dims[axis].saturating_add(part.shape[axis]);
        }
        at.like_input(at.shape(&dims)?)
    }
}

/// What a [`Slice`] takes along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRange {
    /// The first element.
    pub start: usize,
    /// From one element to the next.
    pub step: isize,
    /// Number of elements.
    pub length: usize,
}

/// A strided part; all parameters are operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice;

impl Slice {
    /// What is taken along each axis of a tensor of shape `from`; `None` when the parameters do not fit it.
    pub fn ranges(
        from: &[usize],
        starts: &[i64],
        ends: &[i64],
        axes: Option<&[i64]>,
        steps: Option<&[i64]>,
    ) -> Option<Vec<SliceRange>> {
        let mut ranges: Vec<SliceRange> =
            from.iter().map(|&length| SliceRange { start: 0, step: 1, length }).collect();
        let fits = |other: Option<&[i64]>| other.is_none_or(|other| other.len() == starts.len());
        if ends.len() != starts.len() || !fits(axes) || !fits(steps) {
            return None;
        }
        let mut seen = vec![false; from.len()];
        for (index, (&start, &end)) in starts.iter().zip(ends).enumerate() {
            let axis = match axes {
                Some(axes) => resolve_axis(axes[index], from.len())?,
                None => Some(index).filter(|&axis| axis < from.len())?,
            };
            if std::mem::replace(&mut seen[axis], true) {
                return None;
            }
            let extent = i64::try_from(from[axis]).ok()?;
            let step = steps.map_or(1, |steps| steps[index]);
            let from_front =
                |position: i64| if position < 0 { position.saturating_add(extent) } else { position };
            // Backwards, one before the first element is a place to end.
            let (start, span) = if step > 0 {
                let start = from_front(start).clamp(0, extent);
                (start, from_front(end).clamp(0, extent) - start)
            } else {
                let start = from_front(start).clamp(0, (extent - 1).max(0));
                (start, start - from_front(end).clamp(-1, extent - 1))
            };
            let length = match usize::try_from(span) {
                _ if step == 0 => return None,
                Ok(span) if extent > 0 => span.div_ceil(usize::try_from(step.unsigned_abs()).ok()?),
                _ => 0,
            };
            ranges[axis] =
                SliceRange { start: usize::try_from(start).ok()?, step: isize::try_from(step).ok()?, length };
        }
        Some(ranges)
    }

    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let (starts, ends) = (at.needed_ints(1)?, at.needed_ints(2)?);
        let (axes, steps) = (at.ints(3)?, at.ints(4)?);
        let ranges =
            Self::ranges(&x.shape, &starts, &ends, axes.as_deref(), steps.as_deref()).ok_or_else(|| {
                at.wrong(format!(
                    "starts {}, ends {}, axes {}, steps {} do not fit {}",
                    List(&starts),
                    List(&ends),
                    List(axes.as_deref().unwrap_or_default()),
                    List(steps.as_deref().unwrap_or_default()),
                    x.shape
                ))
            })?;
        let dims: Vec<usize> = ranges.iter().map(|range| range.length).collect();
        at.like_input(at.shape(&dims)?)
    }
}

/// Parts along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Number of equal parts when no sizes are given.
    pub parts: Option<usize>,
}

impl Split {
    pub(super) fn infer(self, at: &Operands<'_>, outputs: usize) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let axis = at.axis(self.axis, x.shape.rank())?;
        let extent = x.shape[axis];
        let sizes: Vec<usize> = if let Some(sizes) = at.ints(1)? {
            let sizes: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
            sizes.ok_or_else(|| at.wrong("a negative size"))?
        } else {
            // The last part may be smaller.
            let size = extent.div_ceil(outputs.max(1));
            (0..outputs).map(|part| extent.saturating_sub(part * size).min(size)).collect()
        };
        let total = sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size));
        if total != Some(extent) || sizes.len() != outputs {
            return Err(
                at.wrong(format!("{extent} elements cannot be split into {outputs} parts {}", List(&sizes)))
            );
        }
        let mut types = Vec::with_capacity(outputs);
        for &size in &sizes {
            let mut dims = x.shape.to_vec();
            dims[axis] = size;
            types.push(TensorType { dtype: x.dtype, shape: at.shape(&dims)? });
        }
        Ok(types)
    }
}

/// Elements picked by index along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The axis, counted from the back when negative.
    pub axis: isize,
}

impl Gather {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, indices) = (at.input(0)?, at.input(1)?);
        let axis = at.axis(self.axis, x.shape.rank())?;
        if !matches!(indices.dtype, DType::I32 | DType::I64) {
            return Err(at.wrong(format!("indices of type {}", indices.dtype)));
        }
        at.expect_indices_within(1, axis, x.shape[axis])?;
        let dims = [&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat();
        at.like_input(at.shape(&dims)?)
    }
}

/// What a border is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// One value.
    Constant,
    /// The mirrored input, edge not repeated.
    Reflect,
    /// The edge repeated.
    Edge,
}

/// Border added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// What the border is filled with.
    pub mode: PadMode,
}

impl Pad {
    /// Elements added (taken, when negative) before and behind each axis of a tensor of `rank` dimensions; `None`
    /// when the parameters do not fit it.
    pub fn amounts(rank: usize, pads: &[i64], axes: Option<&[i64]>) -> Option<Vec<(i64, i64)>> {
        let mut amounts = vec![(0, 0); rank];
        let count = axes.map_or(rank, <[i64]>::len);
        if pads.len() != count.checked_mul(2)? {
            return None;
        }
        for index in 0..count {
            let axis = match axes {
                Some(axes) => resolve_axis(axes[index], rank)?,
                None => index,
            };
            amounts[axis] = (pads[index], pads[index + count]);
        }
        Some(amounts)
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let (pads, axes) = (at.needed_ints(1)?, at.ints(3)?);
        let fail = || {
            at.wrong(format!(
                "pads {} and axes {} do not fit {}",
                List(&pads),
                List(axes.as_deref().unwrap_or_default()),
                x.shape
            ))
        };
        let amounts = Self::amounts(x.shape.rank(), &pads, axes.as_deref()).ok_or_else(fail)?;
        let mut dims = Vec::with_capacity(amounts.len());
        for (&extent, (before, behind)) in x.shape.iter().zip(amounts) {
            // A mirror shows what is in front of it: at most all but the edge. Without an element there is no edge.
            let limit = match self.mode {
                PadMode::Constant => i64::MAX,
                PadMode::Reflect => extent as i64 - 1,
                PadMode::Edge => {
                    if extent == 0 {
                        0
                    } else {
                        i64::MAX
                    }
                }
            };
            let padded = (extent as i64).checked_add(before).and_then(|sum| sum.checked_add(behind));
            let padded = padded.and_then(|padded| usize::try_from(padded).ok()).ok_or_else(fail)?;
            if before.max(behind) > limit.max(0) {
                return Err(fail());
            }
            dims.push(padded);
        }
        at.like_input(at.shape(&dims)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ONNX defines, walked step by step; unlike numpy's, a start before the first element is the first one.
    fn naive(extent: i64, start: i64, end: i64, step: i64) -> Vec<usize> {
        let from_front = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
        let (mut at, end) = if step > 0 {
            (from_front(start).clamp(0, extent), from_front(end).clamp(0, extent))
        } else if extent == 0 {
            (0, 0)
        } else {
            (from_front(start).clamp(0, extent - 1), from_front(end).clamp(-1, extent - 1))
        };
        let mut taken = Vec::new();
        while if step > 0 { at < end } else { at > end } {
            taken.push(at as usize);
            at = at.saturating_add(step);
        }
        taken
    }

    #[test]
    fn slices_are_those_of_the_definition() {
        for extent in 0..5 {
            for start in -7..7 {
                for end in (-7..7).chain([i64::MIN, i64::MAX]) {
                    for step in [-3, -2, -1, 1, 2, 3, i64::MAX] {
                        let ranges = Slice::ranges(
                            &[9, extent as usize],
                            &[start],
                            &[end],
                            Some(&[-1]),
                            Some(&[step]),
                        );
                        let SliceRange { start: first, step: stride, length } = ranges.unwrap()[1];
                        let taken: Vec<usize> = (0..length)
                            .map(|index| (first as isize + index as isize * stride) as usize)
                            .collect();
                        assert_eq!(taken, naive(extent, start, end, step), "{extent} {start}:{end}:{step}");
                    }
                }
            }
        }
    }

    #[test]
    fn slices_that_do_not_fit_are_none() {
        assert_eq!(Slice::ranges(&[4], &[0], &[4], None, Some(&[0])), None);
        assert_eq!(Slice::ranges(&[4], &[0, 0], &[4, 4], None, None), None);
        assert_eq!(Slice::ranges(&[4, 4], &[0, 0], &[4, 4], Some(&[1, -1]), None), None);
        assert_eq!(Slice::ranges(&[4], &[0], &[4], Some(&[i64::MIN]), None), None);
        assert_eq!(Slice::ranges(&[4], &[0], &[], None, None), None);
    }

    #[test]
    fn pads_belong_to_their_axes() {
        assert_eq!(Pad::amounts(2, &[1, 2, 3, 4], None), Some(vec![(1, 3), (2, 4)]));
        assert_eq!(Pad::amounts(3, &[1, 2], Some(&[-1])), Some(vec![(0, 0), (0, 0), (1, 2)]));
        assert_eq!(Pad::amounts(2, &[1, 2], None), None);
        assert_eq!(Pad::amounts(2, &[1, 2], Some(&[2])), None);
    }
}
