//! Operators whose results' extents or elements depend on data in a way that no command computes.
//!
//! They run on the host between the static parts of a network: see [`crate::passes::stages`].

use triune_tensor::{DType, function::Comparison};

use super::{
    control::{If, Loop, Scan},
    infer::{Operands, TensorType},
};
use crate::{Error, Op};

/// An operator that the host runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Hosted {
    /// Elements where a mask meets a condition; inputs x, mask.
    CondTake(CondTake),
    /// Indices of the elements that are not 0.
    NonZero(NonZero),
    /// Overlapping boxes suppressed, as many results as there may be.
    Nms(Nms),
    /// Overlapping boxes suppressed; inputs boxes, scores, optional most, overlap and score thresholds.
    NonMaxSuppression(NonMaxSuppression),
    /// One of two networks; inputs condition, then what the networks see of the one around them.
    If(If),
    /// A network again and again; inputs optional number of rounds, optional condition, state, then what the network sees of
    /// the one around it.
    Loop(Loop),
    /// A network along axes; inputs state, what is walked along, then what the network sees of the one around it.
    Scan(Scan),
    /// The different elements.
    Unique(Unique),
    /// Lists of tensors, and tensors that may be missing.
    Sequence(SequenceOp),
}

/// An operator over a sequence, a list of tensors of one type, or over an optional, which is a value or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceOp {
    /// A list of the operands.
    Construct,
    /// An empty list.
    Empty(DType),
    /// The element at a position, from the end where it is negative; inputs list, position.
    At,
    /// The list with another element before a position, at the end without one; inputs list, element, optional position.
    Insert,
    /// The list without the element at a position, the last one without one; inputs list, optional position.
    Erase,
    /// How many elements there are, as i64.
    Length,
    /// All elements joined along an axis, which is a new one or one that they have.
    Concat {
        /// The axis.
        axis: i64,
        /// Whether it is a new one.
        new: bool,
    },
    /// A list of parts along an axis; inputs x, optional extents of the parts: one for all of them, or one each.
    Split {
        /// The axis.
        axis: i64,
        /// Whether parts of extent 1 keep the axis, where no extents are given.
        keep: bool,
    },
    /// An optional; the input, or nothing without one.
    Optional,
    /// What an optional has.
    GetElement,
    /// Whether there is something, as a boolean scalar.
    HasElement,
}

impl Hosted {
    /// The operator's name in ONNX, or ours where ONNX has none.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::CondTake(_) => "CondTake",
            Self::NonZero(_) => "NonZero",
            Self::Nms(_) => "Nms",
            Self::NonMaxSuppression(_) => "NonMaxSuppression",
            Self::If(_) => "If",
            Self::Loop(_) => "Loop",
            Self::Scan(_) => "Scan",
            Self::Unique(_) => "Unique",
            Self::Sequence(op) => match op {
                SequenceOp::Construct => "SequenceConstruct",
                SequenceOp::Empty(_) => "SequenceEmpty",
                SequenceOp::At => "SequenceAt",
                SequenceOp::Insert => "SequenceInsert",
                SequenceOp::Erase => "SequenceErase",
                SequenceOp::Length => "SequenceLength",
                SequenceOp::Concat { .. } => "ConcatFromSequence",
                SequenceOp::Split { .. } => "SplitToSequence",
                SequenceOp::Optional => "Optional",
                SequenceOp::GetElement => "OptionalGetElement",
                SequenceOp::HasElement => "OptionalHasElement",
            },
        }
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        match self {
            Self::CondTake(_) => CondTake::infer(at),
            Self::NonZero(_) => NonZero::infer(at),
            Self::Nms(op) => op.infer(at),
            Self::NonMaxSuppression(_) => NonMaxSuppression::infer(at),
            Self::If(_) | Self::Loop(_) | Self::Scan(_) | Self::Sequence(_) | Self::Unique(_) => {
                Err(depends_on_data(at))
            }
        }
    }
}

macro_rules! hosted {
    ($($op:ident),+) => {
        $(impl From<$op> for Op {
            fn from(op: $op) -> Self {
                Self::Hosted(Hosted::$op(op))
            }
        })+
    };
}

hosted!(CondTake, NonZero, Nms, NonMaxSuppression, If, Loop, Scan, Unique);

impl From<SequenceOp> for Op {
    fn from(op: SequenceOp) -> Self {
        Self::Hosted(Hosted::Sequence(op))
    }
}

/// The elements of the first input where the second, of the same extents, meets a condition. Results: those elements
/// (n), in row-major order, and their flat indices (n) of i32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CondTake {
    /// The condition. Floats are equal when they are nearer than `epsilon`.
    pub comparison: Comparison,
    /// What the mask is compared with; an integer mask compares with the value cut to its type.
    pub value: f32,
    /// How near floats count as equal.
    pub epsilon: f32,
}

/// The indices of the elements that are not 0: (rank of the input, n) of i64, in row-major order. A scalar has rank 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonZero;

/// Greedy suppression of overlapping boxes: input (N, B, 4) of f32 corners x₀ y₀ x₁ y₁, best first.
///
/// A box is kept unless it overlaps a kept one before it by more than the threshold: intersection > (sum of areas −
/// intersection) · threshold, all f32. Results: indices of the kept boxes (N, `max_output`) of i32, filled up with the
/// last kept one (0 if there is none), and their numbers (N) of i32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nms {
    /// Overlap above which a box is dropped.
    pub threshold: f32,
    /// Most boxes that are kept per image.
    pub max_output: usize,
}

/// ONNX's suppression: inputs boxes (N, B, 4), scores (N, C, B), optional most boxes per class (i64), overlap threshold
/// and score threshold (f32, one element each). The result is (n, 3) of i64: image, class, box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonMaxSuppression {
    /// Whether a box is its centre, width and height instead of two opposite corners y, x.
    pub center_point_box: bool,
}

/// The different elements, or parts along an axis; NaN is larger than every number and equal to NaN. Results: those, where
/// each stands first, for each element of the input which one it is, how often each is there; all but the first are i64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unique {
    /// The axis, from the end where it is negative; without one, elements count one by one, in row-major order.
    pub axis: Option<i64>,
    /// Whether the smallest comes first, rather than the one that stands first.
    pub sorted: bool,
}

/// The error of an operator that has no place in a static network.
fn depends_on_data(at: &Operands<'_>) -> Error {
    at.wrong("the extents of its result depend on data; networks that have it run in stages")
}

impl CondTake {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, mask) = (at.input(0)?, at.input(1)?);
        if x.shape != mask.shape {
            return Err(at.wrong(format!("elements {} and mask {}", x.shape, mask.shape)));
        }
        Err(depends_on_data(at))
    }

    /// The results' types if every element is taken.
    #[cfg(feature = "megengine")]
    pub(crate) fn most(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, mask) = (at.input(0)?, at.input(1)?);
        let taken = x.shape.elements().filter(|_| x.shape == mask.shape);
        let taken = taken.ok_or_else(|| at.wrong(format!("elements {} and mask {}", x.shape, mask.shape)))?;
        let shape = at.shape(&[taken])?;
        Ok(vec![TensorType { dtype: x.dtype, shape }, TensorType { dtype: DType::I32, shape }])
    }
}

impl NonZero {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        at.input(0)?;
        Err(depends_on_data(at))
    }

    /// The result's type if no element is 0.
    #[cfg(feature = "megengine")]
    pub(crate) fn most(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let count = x.shape.elements().ok_or_else(|| at.wrong(format!("elements {}", x.shape)))?;
        let shape = at.shape(&[x.shape.rank().max(1), count])?;
        Ok(vec![TensorType { dtype: DType::I64, shape }])
    }
}

impl Nms {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let boxes = at.of_rank(0, 3)?;
        if boxes.shape[2] != 4 || boxes.dtype != DType::F32 {
            return Err(at.wrong(format!("boxes {} of type {}", boxes.shape, boxes.dtype)));
        }
        let images = boxes.shape[0];
        Ok(vec![
            TensorType { dtype: DType::I32, shape: at.shape(&[images, self.max_output])? },
            TensorType { dtype: DType::I32, shape: at.shape(&[images])? },
        ])
    }
}

impl NonMaxSuppression {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (boxes, scores) = (at.of_rank(0, 3)?, at.of_rank(1, 3)?);
        let fits =
            boxes.shape[2] == 4 && scores.shape[0] == boxes.shape[0] && scores.shape[2] == boxes.shape[1];
        if !fits {
            return Err(at.wrong(format!("boxes {} and scores {}", boxes.shape, scores.shape)));
        }
        Err(depends_on_data(at))
    }
}
