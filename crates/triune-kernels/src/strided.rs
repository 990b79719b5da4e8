//! Loop nests over strided operands, brought into their shortest form once. Knows no element types.

use crate::Error;

/// The rank that every strided descriptor has; unused axes have extent 1.
pub(crate) const RANK: usize = 6;

/// A loop nest over `N` operands, the first of which is written: axes sorted so that the output's smallest stride is
/// innermost, axes that lie behind each other in all operands merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nest<const N: usize> {
    /// Axes in use, at least one.
    pub(crate) rank: usize,
    /// Extents, outermost first.
    pub(crate) dims: [usize; RANK],
    /// Strides per axis.
    pub(crate) strides: [[i64; N]; RANK],
    /// Lowest and one past the highest position that each operand is touched at, relative to its start.
    pub(crate) span: [[i64; 2]; N],
}

impl<const N: usize> Nest<N> {
    /// Canonicalises the nest. `unit[i]` is the size of one element in the units of operand i's strides.
    ///
    /// Errors: extents or strides whose products overflow, an output in which two elements overlap.
    pub(crate) fn new(dims: [usize; RANK], strides: [[i64; N]; RANK], unit: [i64; N]) -> Result<Self, Error> {
        let overflow = Error::Invalid("strided extents overflow");
        let empty = dims.contains(&0);
        let mut axes: [(usize, [i64; N]); RANK] = std::array::from_fn(|i| (dims[i], strides[i]));
        if empty {
            return Ok(Self { rank: 1, dims: [0; RANK], strides: [[0; N]; RANK], span: [[0; 2]; N] });
        }
        let mut span: [[i64; 2]; N] = std::array::from_fn(|i| [0, unit[i]]);
        let mut total = 1usize;
        for (dim, strides) in axes {
            total = total.checked_mul(dim).ok_or(overflow.clone())?;
            let last = i64::try_from(dim - 1).map_err(|_| overflow.clone())?;
            for (span, stride) in span.iter_mut().zip(strides) {
                let reach = last.checked_mul(stride).ok_or(overflow.clone())?;
                let end = &mut span[usize::from(reach > 0)];
                *end = end.checked_add(reach).ok_or(overflow.clone())?;
            }
        }
        // Stable, so that the caller's order decides between equal strides; axes of extent 1 go first and vanish.
        axes.sort_by_key(|&(dim, strides)| if dim == 1 { i64::MIN } else { -strides[0] });
        let mut inner = unit[0];
        for &(dim, strides) in axes.iter().rev().filter(|(dim, _)| *dim > 1) {
            if strides[0] < inner {
                return Err(Error::Invalid("output elements overlap"));
            }
            inner += strides[0] * (dim as i64 - 1);
        }
        let mut nest = Self { rank: 0, dims: [1; RANK], strides: [[0; N]; RANK], span };
        for (dim, strides) in axes.into_iter().filter(|(dim, _)| *dim > 1) {
            if nest.rank > 0 {
                let outer = &mut nest.strides[nest.rank - 1];
                if (0..N).all(|i| strides[i].checked_mul(dim as i64) == Some(outer[i])) {
                    *outer = strides;
                    nest.dims[nest.rank - 1] *= dim;
                    continue;
                }
            }
            nest.dims[nest.rank] = dim;
            nest.strides[nest.rank] = strides;
            nest.rank += 1;
        }
        if nest.rank == 0 {
            nest.rank = 1;
            nest.strides[0] = unit;
        }
        Ok(nest)
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.dims[0] == 0
    }

    /// Extent of the innermost axis.
    pub(crate) fn inner(&self) -> usize {
        self.dims[self.rank - 1]
    }

    /// Strides of the innermost axis.
    pub(crate) fn inner_strides(&self) -> [i64; N] {
        self.strides[self.rank - 1]
    }

    /// Rows along the outermost axis, and how far apart each operand's lie, if what is written lies without gaps.
    pub(crate) fn rows(&self) -> Option<(usize, [usize; N])> {
        let mut dense = 1_i64;
        for axis in (0..self.rank).rev() {
            if self.strides[axis][0] != dense {
                return None;
            }
            dense *= self.dims[axis] as i64;
        }
        let mut apart = [0; N];
        for (apart, &stride) in apart.iter_mut().zip(&self.strides[0]) {
            *apart = usize::try_from(stride).ok()?;
        }
        Some((self.dims[0], apart)).filter(|rows| rows.0 > 1)
    }

    /// The nest of `count` of its rows, at most all and at least one.
    pub(crate) fn of_rows(&self, count: usize) -> Self {
        let mut part = *self;
        let left_out = self.dims[0].saturating_sub(count.max(1)) as i64;
        part.dims[0] -= left_out as usize;
        for (span, stride) in part.span.iter_mut().zip(&self.strides[0]) {
            span[usize::from(*stride > 0)] -= left_out * stride;
        }
        part
    }

    /// Iterations of all axes but the innermost `inner_axes`.
    pub(crate) fn outer(&self, inner_axes: usize) -> usize {
        self.dims[..self.rank.saturating_sub(inner_axes)].iter().product()
    }

    /// As [`Self::position`], from iteration `first` on, one after the other.
    pub(crate) fn positions(&self, inner_axes: usize, first: usize) -> Positions<'_, N> {
        let mut positions = Positions {
            nest: self,
            axes: self.rank.saturating_sub(inner_axes),
            at: [0; RANK],
            position: self.position(inner_axes, first),
        };
        let mut index = first;
        for axis in (0..positions.axes).rev() {
            positions.at[axis] = index % self.dims[axis];
            index /= self.dims[axis];
        }
        positions
    }

    /// Where each operand stands in iteration `index` of all axes but the innermost `inner_axes`.
    pub(crate) fn position(&self, inner_axes: usize, mut index: usize) -> [i64; N] {
        let mut position = [0; N];
        for axis in (0..self.rank.saturating_sub(inner_axes)).rev() {
            let step = (index % self.dims[axis]) as i64;
            index /= self.dims[axis];
            for (position, stride) in position.iter_mut().zip(self.strides[axis]) {
                *position += step * stride;
            }
        }
        position
    }
}

/// Positions of a nest, without end: behind the last one comes the first.
pub(crate) struct Positions<'a, const N: usize> {
    nest: &'a Nest<N>,
    axes: usize,
    at: [usize; RANK],
    position: [i64; N],
}

impl<const N: usize> Iterator for Positions<'_, N> {
    type Item = [i64; N];

    fn next(&mut self) -> Option<[i64; N]> {
        let own = self.position;
        for axis in (0..self.axes).rev() {
            let (strides, dim) = (&self.nest.strides[axis], self.nest.dims[axis]);
            self.at[axis] += 1;
            let ends = self.at[axis] == dim;
            let steps = if ends { 1 - dim as i64 } else { 1 };
            for (position, stride) in self.position.iter_mut().zip(strides) {
                *position += steps * stride;
            }
            if !ends {
                break;
            }
            self.at[axis] = 0;
        }
        Some(own)
    }
}
