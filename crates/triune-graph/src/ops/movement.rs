//! Operators that move elements without computing on them, and those about shapes.

use triune_tensor::DType;

use crate::Constant;

/// Other extents for the same elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// Whether a 0 in the shape means 0, rather than "as the input".
    pub allow_zero: bool,
}

/// To two dimensions, split before `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten {
    /// The first axis of the second dimension, counted from the back when negative.
    pub axis: isize,
}

/// Axes permuted: output axis i is input axis `perm[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// The permutation; empty reverses all axes.
    pub perm: Vec<usize>,
}

/// Inputs joined along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concat {
    /// The axis, counted from the back when negative.
    pub axis: isize,
}

/// A strided part; all parameters are operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice;

/// Parts along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Number of equal parts when no sizes are given.
    pub parts: Option<usize>,
}

/// Elements picked by index along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The axis, counted from the back when negative.
    pub axis: isize,
}

/// Extents of 1 inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsqueeze;

/// Extents of 1 removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squeeze;

/// Broadcast to a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expand;

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

/// One value repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantOfShape {
    /// The value: one element.
    pub value: Constant,
}

/// Another element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The new type.
    pub to: DType,
}
