//! Shapes: up to eight dimensions, copied by value so that a forward pass never allocates one.

use std::{fmt, ops::Deref};

/// The largest rank that a shape can have.
pub const MAX_RANK: usize = 8;

/// The extents of a tensor, outermost first; rank 0 is a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape with these extents, or `None` above [`MAX_RANK`] dimensions.
    pub fn new(dims: &[usize]) -> Option<Self> {
        let mut own = [0; MAX_RANK];
        own.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(Self { dims: own, rank: dims.len() as u8 })
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The number of elements, or `None` when it does not fit `usize`.
    pub fn elements(&self) -> Option<usize> {
        self.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim))
    }

    /// Element strides of the dense row-major layout.
    #[must_use]
    pub fn strides(&self) -> Self {
        let mut strides = *self;
        let mut step = 1_usize;
        for axis in (0..self.rank()).rev() {
            strides.dims[axis] = step;
            step = step.saturating_mul(self.dims[axis]);
        }
        strides
    }

    /// The extents as a slice that can be changed in place; the rank stays.
    pub fn dims_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank as usize]
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (axis, dim) in self.iter().enumerate() {
            write!(f, "{}{dim}", if axis == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        const { assert!(N <= MAX_RANK) };
        let mut own = [0; MAX_RANK];
        own[..N].copy_from_slice(&dims);
        Self { dims: own, rank: N as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_is_limited() {
        assert_eq!(Shape::new(&[1; 9]), None);
        assert_eq!(Shape::new(&[]).map(|shape| shape.elements()), Some(Some(1)));
    }

    #[test]
    fn extents_can_be_changed_and_the_rank_stays() {
        let mut shape = Shape::from([2, 3]);
        shape.dims_mut().fill(7);
        assert_eq!((shape, shape.dims_mut().len()), (Shape::from([7, 7]), 2));
        let mut full = Shape::from([1; MAX_RANK]);
        assert_eq!(full.dims_mut().len(), MAX_RANK);
        assert!(Shape::from([]).dims_mut().is_empty());
    }

    #[test]
    fn strides_are_row_major() {
        assert_eq!(&*Shape::from([2, 3, 4]).strides(), &[12, 4, 1]);
        assert_eq!(Shape::from([usize::MAX, 2]).elements(), None);
        assert_eq!(Shape::from([2, 3]).to_string(), "(2, 3)");
    }
}
