//! Operators whose results' extents or elements depend on data in a way that no command computes.
//!
//! They run on the host between the static parts of a network: see [`crate::passes::stages`].

use std::sync::Arc;

use triune_tensor::{DType, function::Comparison};

use super::{
    control::{If, Loop, Map, Scan},
    encoders::{Dictionary, MapOp, OneHotEncoder},
    infer::{Operands, TensorType},
    strings::StringOp,
    trees::Trees,
    vectors::SupportVectors,
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
    If(Box<If>),
    /// A network again and again; inputs optional number of rounds, optional condition, state, then what the network sees of
    /// the one around it.
    Loop(Loop),
    /// A network along axes; inputs state, what is walked along, then what the network sees of the one around it.
    Scan(Box<Scan>),
    /// A network for each element of a sequence; inputs sequence, others of as many elements or tensors for all, then what the
    /// network sees of the one around it. Results: sequences.
    Map(Map),
    /// The different elements.
    Unique(Unique),
    /// Lists of tensors, and tensors that may be missing.
    Sequence(SequenceOp),
    /// Samples of a map in the parts of regions; inputs x, regions, the image of each.
    RoiAlign(RoiAlign),
    /// The largest elements of a map in the parts of regions; inputs x, regions with the image of each.
    RoiPool(RoiPool),
    /// Determinants of matrices.
    Determinant(Determinant),
    /// Inverses of matrices.
    Inverse(Inverse),
    /// Singular values of matrices.
    SingularValues(SingularValues),
    /// Attention by a state that every place changes; inputs queries, keys, values, optional state, decay and rate.
    LinearAttention(LinearAttention),
    /// How often sequences of numbers stand in rows.
    NGrams(Box<NGrams>),
    /// What looks at the letters of strings.
    Strings(StringOp),
    /// What an ensemble of decision trees says of each row.
    Trees(Arc<Trees>),
    /// What a model by support vectors says of each row.
    SupportVectors(Arc<SupportVectors>),
    /// Other values for elements.
    Dictionary(Arc<Dictionary>),
    /// Elements as places of their categories.
    OneHotEncoder(Arc<OneHotEncoder>),
    /// Maps, and what is made of them.
    Maps(Arc<MapOp>),
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
    /// The input, whatever it is.
    Same,
}

impl Hosted {
    /// Numbers that the operator itself has of what was learned, and their bytes; those of networks within are not counted.
    pub fn held(&self) -> [u64; 2] {
        match self {
            Self::Trees(op) => op.forests.held(),
            Self::SupportVectors(op) => op.held(),
            Self::Dictionary(op) => {
                let each = op.from.bytes() + op.to.bytes();
                [2 * op.table.len() as u64, (each * op.table.len()) as u64]
            }
            Self::OneHotEncoder(op) => [op.places.len() as u64, 8 * op.places.len() as u64],
            _ => [0; 2],
        }
    }

    /// The operator's name in ONNX, or ours where ONNX has none.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::CondTake(_) => "CondTake",
            Self::NonZero(_) => "NonZero",
            Self::Nms(_) => "Nms",
            Self::NonMaxSuppression(_) => "NonMaxSuppression",
            Self::If(_) => "If",
            Self::Loop(_) => "Loop",
            Self::Scan(_) => "Scan",
            Self::Map(_) => "SequenceMap",
            Self::Unique(_) => "Unique",
            Self::RoiAlign(_) => "RoiAlign",
            Self::RoiPool(_) => "MaxRoiPool",
            Self::Determinant(_) => "Det",
            Self::Inverse(_) => "Inverse",
            Self::SingularValues(_) => "SingularValues",
            Self::LinearAttention(_) => "LinearAttention",
            Self::NGrams(_) => "TfIdfVectorizer",
            Self::Strings(op) => op.name(),
            Self::Trees(op) => op.name,
            Self::SupportVectors(op) => op.name(),
            Self::Dictionary(op) => op.name,
            Self::OneHotEncoder(_) => "OneHotEncoder",
            Self::Maps(op) => op.name(),
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
                SequenceOp::Same => "Identity",
            },
        }
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        match self {
            Self::CondTake(_) => CondTake::infer(at),
            Self::NonZero(_) => NonZero::infer(at),
            Self::Nms(op) => op.infer(at),
            Self::NonMaxSuppression(_) => NonMaxSuppression::infer(at),
            Self::RoiAlign(op) => op.infer(at),
            Self::RoiPool(op) => op.infer(at),
            Self::Determinant(_) => Determinant::infer(at),
            Self::Inverse(_) => Inverse::infer(at),
            Self::SingularValues(_) => SingularValues::infer(at),
            Self::LinearAttention(op) => op.infer(at),
            Self::NGrams(op) => op.infer(at),
            Self::Trees(op) => op.infer(at),
            Self::SupportVectors(op) => op.infer(at),
            Self::Dictionary(op) => op.infer(at),
            Self::OneHotEncoder(op) => op.infer(at),
            Self::If(_)
            | Self::Loop(_)
            | Self::Scan(_)
            | Self::Map(_)
            | Self::Sequence(_)
            | Self::Maps(_)
            | Self::Strings(_)
            | Self::Unique(_) => Err(on_the_host(at, self.against_programs().unwrap_or(DEPENDS))),
        }
    }

    /// Why a program, whose tensors are numbers of fixed extents, has no place for the operator, whatever its operands are;
    /// nothing where it can have one.
    pub const fn against_programs(&self) -> Option<&'static str> {
        match self {
            Self::CondTake(_) | Self::NonZero(_) | Self::NonMaxSuppression(_) | Self::Unique(_) => {
                Some(DEPENDS)
            }
            Self::If(_) | Self::Loop(_) | Self::Scan(_) => Some("it runs other networks within this one"),
            Self::Map(_) | Self::Sequence(_) => Some("it makes or takes lists of tensors, or optional ones"),
            Self::Strings(_) => Some("it looks at the letters of strings"),
            Self::Maps(_) => Some("it makes or takes maps, which are no tensors"),
            Self::Nms(_)
            | Self::RoiAlign(_)
            | Self::RoiPool(_)
            | Self::Determinant(_)
            | Self::Inverse(_)
            | Self::SingularValues(_)
            | Self::LinearAttention(_)
            | Self::NGrams(_)
            | Self::Trees(_)
            | Self::SupportVectors(_)
            | Self::Dictionary(_)
            | Self::OneHotEncoder(_) => None,
        }
    }
}

macro_rules! hosted {
    ($($op:ident),+) => {
        $(impl From<$op> for Op {
            fn from(op: $op) -> Self {
                Self::Hosted(Hosted::$op(op.into()))
            }
        })+
    };
}

hosted!(
    CondTake,
    NonZero,
    Nms,
    NonMaxSuppression,
    If,
    Loop,
    Scan,
    Map,
    Unique,
    RoiAlign,
    RoiPool,
    Determinant,
    Inverse,
    SingularValues,
    LinearAttention,
    NGrams
);

impl From<StringOp> for Op {
    fn from(op: StringOp) -> Self {
        Self::Hosted(Hosted::Strings(op))
    }
}

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

/// The mean (or largest) of samples of a map in each part of regions: inputs x (N, C, H, W), regions (R, 4) of corners x₀ y₀ x₁
/// y₁, the image of each (R) of i32 or i64. The result is (R, C, rows, columns) of x's type, f16, f32 or f64.
///
/// A sample is made of its four neighbours. The largest is taken of neighbours times their factors, as ONNX has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiAlign {
    /// Whether the largest sample counts, rather than their mean.
    pub max: bool,
    /// Rows and columns of a region's parts.
    pub size: [usize; 2],
    /// Samples along either axis of a part; without a number, as many as the part has pixels, rounded up.
    pub samples: Option<usize>,
    /// What regions' coordinates are multiplied by to be those of x.
    pub scale: f32,
    /// Whether pixels' coordinates are those of their centres; else regions are at least 1 wide and high.
    pub half_pixel: bool,
}

/// The largest element of a map in each part of regions: inputs x (N, C, H, W), regions (R, 5) of the image's number and corners x₀
/// y₀ x₁ y₁. The result is (R, C, rows, columns) of x's type, f16, f32 or f64.
///
/// Corners are those of elements, rounded half away from zero, and belong to the region; parts that meet share elements, and a part
/// without any gives 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiPool {
    /// Rows and columns of a region's parts.
    pub size: [usize; 2],
    /// What regions' coordinates are multiplied by to be those of x.
    pub scale: f32,
}

/// The determinant of each matrix of (…, M, M): (…) of the same type, f16, f32 or f64; computed in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Determinant;

/// The inverse of each matrix of (…, M, M), of the same type, f16, f32 or f64; computed in f64. A matrix that has none is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inverse;

/// The singular values of each matrix of (…, M, N), the largest first: (…, the smaller of M and N) of the same type, f16, f32 or f64;
/// computed in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingularValues;

/// Attention by a state of (B, heads, keys' elements, values' elements), which every place t changes: S = exp(decay)·S, then
/// S += key ⊗ value, the value being rate·(value − Sᵀ·key) where there is a rate. The result at t is scale·Sᵀ·query.
///
/// Inputs queries (B, T, query heads · D), keys (B, T, heads · D), values (B, T, heads · E), optional state (B, heads, D, E),
/// optional decay (B, T, heads or heads · D), optional rate (B, T, heads or 1); results (B, T, query heads · E) and the last state.
/// Computed in f32 (f64 for f64); the same number of query heads, one after the other, share a head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAttention {
    /// Heads of the queries.
    pub query_heads: usize,
    /// Heads of keys and values.
    pub heads: usize,
    /// The factor; 1/√D without one.
    pub scale: Option<f32>,
}

/// How often each of a list of sequences stands in each row of a tensor of i32 or i64: (N) gives
/// (W), (B, N) gives (B, W), f32.
#[derive(Clone, Debug, PartialEq)]
pub struct NGrams {
    /// The sequences, each with its place in the result.
    pub grams: Vec<(Vec<i64>, usize)>,
    /// The weight of each element of a result.
    pub weights: Vec<f32>,
    /// Numbers of the shortest and the longest sequences that count.
    pub lengths: [usize; 2],
    /// Most elements between two of a sequence.
    pub skips: usize,
    /// What becomes of a count.
    pub weight: NGramWeight,
}

/// What becomes of a sequence's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NGramWeight {
    /// The count.
    Count,
    /// The weight, if it is there at all.
    Presence,
    /// The count times the weight.
    Both,
}

const DEPENDS: &str = "the extents of its result depend on data";

/// The error of an operator that has no place in a static network.
fn on_the_host(at: &Operands<'_>, why: &str) -> Error {
    at.wrong(format!(
        "{why}; the host runs it, behind the part of the network whose extents are known (triune.Session)"
    ))
}

impl CondTake {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, mask) = (at.input(0)?, at.input(1)?);
        if x.shape != mask.shape {
            return Err(at.wrong(format!("elements {} and mask {}", x.shape, mask.shape)));
        }
        Err(on_the_host(at, DEPENDS))
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
        Err(on_the_host(at, DEPENDS))
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
        Err(on_the_host(at, DEPENDS))
    }
}

/// Refuses operands of another type than those of reals.
fn expect_real(at: &Operands<'_>, index: usize) -> Result<(), Error> {
    let dtype = at.input(index)?.dtype;
    if dtype.is_float() {
        return Ok(());
    }
    Err(at.wrong(format!("input {index} of type {dtype}; reals are expected")))
}

impl RoiAlign {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, regions, images) = (at.of_rank(0, 4)?, at.of_rank(1, 2)?, at.of_rank(2, 1)?);
        expect_real(at, 0)?;
        if regions.shape[1] != 4 || images.shape[0] != regions.shape[0] || regions.dtype != x.dtype {
            return Err(at.wrong(format!(
                "regions {} of {} and images {} for {}",
                regions.shape, regions.dtype, images.shape, x.dtype
            )));
        }
        at.like_input(at.shape(&[regions.shape[0], x.shape[1], self.size[0], self.size[1]])?)
    }
}

impl RoiPool {
    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, regions) = (at.of_rank(0, 4)?, at.of_rank(1, 2)?);
        expect_real(at, 0)?;
        if regions.shape[1] != 5 || regions.dtype != x.dtype {
            return Err(at.wrong(format!("regions {} of {} for {}", regions.shape, regions.dtype, x.shape)));
        }
        at.like_input(at.shape(&[regions.shape[0], x.shape[1], self.size[0], self.size[1]])?)
    }
}

impl Determinant {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        expect_real(at, 0)?;
        match &*x.shape {
            [batch @ .., rows, columns] if rows == columns => at.like_input(at.shape(batch)?),
            _ => Err(at.wrong(format!("{} is not of square matrices", x.shape))),
        }
    }
}

impl Inverse {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        expect_real(at, 0)?;
        match &*x.shape {
            [.., rows, columns] if rows == columns => at.like_input(x.shape),
            _ => Err(at.wrong(format!("{} is not of square matrices", x.shape))),
        }
    }
}

impl SingularValues {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        expect_real(at, 0)?;
        match &*x.shape {
            [batch @ .., rows, columns] => at.like_input(at.shape(&[batch, &[*rows.min(columns)]].concat())?),
            _ => Err(at.wrong(format!("{} is not of matrices", x.shape))),
        }
    }
}

impl LinearAttention {
    /// Elements of a head's keys and of its values.
    pub fn widths(self, queries: &[usize], keys: &[usize], values: &[usize]) -> Option<[usize; 2]> {
        let (&[batch, places, width], &[_, _, own], &[_, _, other]) = (queries, keys, values) else {
            return None;
        };
        let key = own.checked_div(self.heads)?;
        let value = other.checked_div(self.heads)?;
        let fits = keys[..2] == [batch, places]
            && values[..2] == [batch, places]
            && key * self.heads == own
            && value * self.heads == other
            && key.checked_mul(self.query_heads) == Some(width);
        fits.then_some([key, value])
    }

    pub(super) fn infer(self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (q, k, v) = (at.input(0)?, at.input(1)?, at.input(2)?);
        expect_real(at, 0)?;
        let widths = self.widths(&q.shape, &k.shape, &v.shape);
        let [key, value] = widths.ok_or_else(|| {
            at.wrong(format!("queries {}, keys {} and values {}", q.shape, k.shape, v.shape))
        })?;
        let state = at.shape(&[q.shape[0], self.heads, key, value])?;
        let y = at.shape(&[q.shape[0], q.shape[1], self.query_heads.saturating_mul(value)])?;
        let dtype = at.get(3).map_or(q.dtype, |state| state.dtype);
        Ok(vec![TensorType { dtype: q.dtype, shape: y }, TensorType { dtype, shape: state }])
    }
}

impl NGrams {
    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let dims = match *x.shape {
            [_] => vec![self.weights.len()],
            [batch, _] => vec![batch, self.weights.len()],
            _ => return Err(at.wrong(format!("{}; one or two axes are expected", x.shape))),
        };
        Ok(vec![TensorType { dtype: DType::F32, shape: at.shape(&dims)? }])
    }
}
