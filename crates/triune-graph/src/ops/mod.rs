//! The operator set: one file per family with its attributes and shape inference.
//!
//! One operator, one meaning, whatever the element type: `Conv` in a node that says what its integers stand for
//! (`Node::quant`) is the integer convolution, over f32 the float one. Differences between versions of a source format end in its reader.

mod control;
mod conv;
mod dynamic;
mod eltwise;
mod encoders;
mod gemm;
mod index;
pub(crate) mod infer;
mod movement;
mod normalization;
mod pool;
mod quant;
mod recurrence;
mod reduce;
mod reshape;
mod resize;
mod softmax;
mod strings;
pub(crate) mod trees;
mod unary;
mod vectors;
mod warp;
mod window;

pub use control::{Body, If, Loop, Map, Scan, ScanAxis};
pub use conv::{AutoPad, Conv, Epilogue, PostOp, Residual};
pub use dynamic::{
    CondTake, Determinant, Hosted, Inverse, LinearAttention, NGramWeight, NGrams, Nms, NonMaxSuppression,
    NonZero, RoiAlign, RoiPool, SequenceOp, SingularValues, Unique,
};
pub use eltwise::{Binary, Rotate};
pub use encoders::{CastMap, Dictionary, Entries, MapOp, OneHotEncoder};
pub use gemm::{BlockMatMul, Gemm, IntegerMatMul, MatMul};
pub use index::{GatherElements, GatherNd, Index, ScatterElements, ScatterNd, TopK, Where};
pub use movement::{Concat, Gather, Pad, PadMode, Slice, SliceRange, Split, Transpose};
pub use normalization::{BatchNormalization, LayerNorm};
pub use pool::{AdaptivePool, GlobalPool, Pool};
pub use quant::{DequantizeLinear, QuantizeLinear};
pub use recurrence::Recurrence;
pub use reduce::{ArgReduce, Reduce, Running};
pub use reshape::{
    BitCast, Cast, ConstantOfShape, Expand, Flatten, Identity, Reshape, ShapeOf, Squeeze, Unsqueeze,
};
pub use resize::Resize;
pub use softmax::Softmax;
pub use strings::{CaseChange, Normalize, StringOp};
pub use trees::{Aggregate, Classes, Forest, Forests, PostTransform, TreeMode, TreeNode, Trees};
pub use unary::{Clip, Table, Tables, Unary};
pub use vectors::{Classifier, Kernel, Machine, SupportVectors};
pub use warp::{WarpPerspective, Weigh};
pub(crate) use window::{Axis, Window};
// What operators' attributes are made of.
pub use triune_tensor::function::{
    BinaryKind, BorderMode, CellKind, Comparison, CoordinateMode, NearestMode, PoolKind, ReduceKind,
    ResizeMode, Sampling, ScatterKind, UnaryKind,
};

use crate::{Error, Function};
use infer::{Operands, TensorType};

/// A name, or how attributes make one.
macro_rules! name_of {
    ($own:ident, $name:literal) => {
        $name
    };
    ($own:ident, (|$op:ident| $name:expr)) => {{
        let $op = $own;
        $name
    }};
}

/// A rule of shapes: the attributes' own, or another.
macro_rules! infer_of {
    ($own:ident, $given:ident, $count:ident) => {
        $own.infer($given)
    };
    ($own:ident, $given:ident, $count:ident, (|$op:pat_param, $at:pat_param, $outputs:pat_param| $infer:expr)) => {{
        let ($op, $at, $outputs) = ($own, $given, $count);
        $infer
    }};
}

/// Makes the enumeration of operators, and what asks each of them something, from a list: of each operator its attributes, its name
/// in ONNX (or ours, where ONNX has none), and its rule of shapes from operands and the number of results, where that is not
/// the attributes' `infer`.
macro_rules! ops {
    (($d:tt) $($(#[doc = $doc:literal])+ $variant:ident($type:ty) = $name:tt $(, $infer:tt)?;)+) => {
        /// What a node computes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $($(#[doc = $doc])+ $variant($type),)+
        }

        impl Op {
            /// The operator's name in ONNX, or ours where ONNX has none.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_own) => name_of!(_own, $name),)+
                }
            }

            fn infer_own(&mut self, at: &Operands<'_>, outputs: usize) -> Result<Vec<TensorType>, Error> {
                match self {
                    $(Self::$variant(own) => infer_of!(own, at, outputs $(, $infer)?),)+
                }
            }
        }

        /// Evaluates an expression with an operator's own attributes, whichever it is.
        ///
        /// ```
        /// use triune_graph::{Op, ops};
        ///
        /// let op = Op::Identity(ops::Identity);
        /// assert_eq!(triune_graph::with_op!(&op, own => format!("{own:?}")), "Identity");
        /// ```
        #[macro_export]
        macro_rules! with_op {
            ($d op:expr, $d own:ident => $d body:expr) => {
                match $d op {
                    $($crate::Op::$variant($d own) => $d body,)+
                }
            };
        }
    };
}

ops! {
    ($)
    /// Convolution; inputs x, weights (O, I/groups, KH, KW), optional bias, then the epilogue's operands.
    Conv(Box<Conv>) = "Conv";
    /// y = α·A·B + β·C with optional transposes; after the quantization pass also over 8-bit values.
    Gemm(Gemm) = "Gemm";
    /// Batched matrix product with broadcasting, as numpy's `matmul`.
    MatMul(MatMul) = "MatMul";
    /// Batched product of matrices of bytes in 32 bits; inputs A, B, optional zero points of both, optional factors.
    IntegerMatMul(IntegerMatMul) = "MatMulInteger", (|_, at, _| IntegerMatMul::infer(at));
    /// Product with a matrix of integers in blocks, each with a factor and a zero point; inputs x, the matrix.
    BlockMatMul(BlockMatMul) = "MatMulNBits", (|op, at, _| op.infer(at));
    /// (x − mean)/√(var + ε)·scale + bias; inputs x, scale, bias, mean, var.
    BatchNormalization(BatchNormalization) = "BatchNormalization", (|_, at, _| BatchNormalization::infer(at));
    /// (x − mean)/√(variance + ε)·scale + bias by statistics of some axes, over integers; inputs x, optional scale, optional bias.
    LayerNorm(LayerNorm) = (|op| if op.centred { "LayerNormalization" } else { "RMSNormalization" });
    /// Max or average over a sliding window.
    Pool(Box<Pool>) = (|op| if op.kind == PoolKind::Max { "MaxPool" } else { "AveragePool" });
    /// Max or average over all spatial positions.
    GlobalPool(GlobalPool) = (|op| if op.kind == PoolKind::Max { "GlobalMaxPool" } else { "GlobalAveragePool" }), (|_, at, _| GlobalPool::infer(at));
    /// Two operands, broadcast as numpy does.
    Binary(Binary) = (|op| op.kind.name());
    /// Rows turned in pairs; inputs x, cosines, sines.
    Rotate(Rotate) = "Rotate", (|_, at, _| Rotate::infer(at));
    /// One operand, element by element.
    Unary(Unary) = (|op| op.kind.name()), (|_, at, _| at.like_input(at.input(0)?.shape));
    /// Clamp to limits; inputs x, optional low, optional high.
    Clip(Clip) = "Clip", (|_, at, _| Clip::infer(at));
    /// A 256-entry map of 8-bit values.
    Table(Table) = "Table", (|_, at, _| Table::infer(at));
    /// A 256-entry map of 8-bit values for every index along an axis.
    Tables(Tables) = "Tables", (|op, at, _| op.infer(at));
    /// Sum, product, mean or extreme along axes; inputs x, optionally the shape to reduce to.
    Reduce(Reduce) = (|op| op.kind.name());
    /// Position of an extreme along an axis.
    ArgReduce(ArgReduce) = (|op| if op.kind == ReduceKind::Min { "ArgMin" } else { "ArgMax" });
    /// Running sums or products along an axis.
    Running(Running) = (|op| if op.product { "CumProd" } else { "CumSum" });
    /// exp(x − max)/Σ along an axis.
    Softmax(Softmax) = (|op| if op.log { "LogSoftmax" } else { "Softmax" });
    /// Other extents for the same elements; inputs x, shape.
    Reshape(Reshape) = "Reshape";
    /// To two dimensions.
    Flatten(Flatten) = "Flatten";
    /// Axes permuted.
    Transpose(Transpose) = "Transpose";
    /// Inputs joined along an axis.
    Concat(Concat) = "Concat";
    /// A strided part; inputs x, starts, ends, optional axes, optional steps.
    Slice(Slice) = "Slice", (|_, at, _| Slice::infer(at));
    /// Parts along an axis; inputs x, optional sizes.
    Split(Split) = "Split", (|op, at, outputs| op.infer(at, outputs));
    /// Elements picked by index along an axis; inputs x, indices.
    Gather(Gather) = "Gather";
    /// One element per index along an axis; inputs x, indices.
    GatherElements(GatherElements) = "GatherElements";
    /// Parts picked by coordinates; inputs x, indices.
    GatherNd(GatherNd) = "GatherND";
    /// One element put per index along an axis; inputs x, indices, updates.
    ScatterElements(ScatterElements) = "ScatterElements";
    /// Parts put by coordinates; inputs x, indices, updates.
    ScatterNd(ScatterNd) = "ScatterND";
    /// numpy's advanced indexing; inputs x and one tensor of indices per axis.
    Index(Index) = "Index";
    /// Elements of one operand or another; inputs condition, a, b.
    Where(Where) = "Where", (|_, at, _| Where::infer(at));
    /// The first elements in order along an axis; inputs x, k; results values, indices.
    TopK(TopK) = "TopK";
    /// Extents of 1 inserted; inputs x, axes.
    Unsqueeze(Unsqueeze) = "Unsqueeze", (|_, at, _| Unsqueeze::infer(at));
    /// Extents of 1 removed; inputs x, optional axes.
    Squeeze(Squeeze) = "Squeeze", (|_, at, _| Squeeze::infer(at));
    /// Broadcast to a shape; inputs x, shape.
    Expand(Expand) = "Expand", (|_, at, _| Expand::infer(at));
    /// Border added; inputs x, pads, optional value, optional axes.
    Pad(Pad) = "Pad";
    /// The input itself (also Dropout at inference).
    Identity(Identity) = "Identity", (|_, at, _| at.like_input(at.input(0)?.shape));
    /// The input's extents as i64.
    ShapeOf(ShapeOf) = "Shape";
    /// One value repeated over a given shape.
    ConstantOfShape(ConstantOfShape) = "ConstantOfShape";
    /// Another element type.
    Cast(Cast) = "Cast";
    /// The same bits as another element type.
    BitCast(BitCast) = "BitCast";
    /// Spatial resampling; inputs x, optional roi, optional scales, optional sizes.
    Resize(Resize) = "Resize", (|_, at, _| Resize::infer(at));
    /// f32 → 8 bit; inputs x, scale, optional zero point.
    QuantizeLinear(QuantizeLinear) = "QuantizeLinear";
    /// 8 bit or i32 → f32; inputs x, scale, optional zero point.
    DequantizeLinear(DequantizeLinear) = "DequantizeLinear";
    /// Max or average over equal windows that cover the input; inputs x, size.
    AdaptivePool(AdaptivePool) = "AdaptivePool";
    /// Perspective warp; inputs x, matrices, optional image indices, size.
    WarpPerspective(WarpPerspective) = "WarpPerspective", (|_, at, _| WarpPerspective::infer(at));
    /// Weighted sums of elements picked by index; inputs x, indices, optional factors.
    Weigh(Weigh) = "Weigh", (|_, at, _| Weigh::infer(at));
    /// A recurrent cell over time; inputs x, weights, optional vectors, states and lengths.
    Recurrence(Recurrence) = "Recurrence";
    /// What the host computes between the parts of a network that programs have.
    Hosted(Hosted) = (|op| op.name());
    /// A composite operator, until shapes are inferred.
    Function(Function) = (|op| op.name()), (|_, at, _| Err(at.wrong("a function within the rules of shapes")));
}

impl Op {
    /// Whether the first result's elements are those of operand 0 (of all operands of a `Concat`), possibly beside a border,
    /// whatever they stand for.
    pub const fn moves(&self) -> bool {
        match self {
            Self::Reshape(_)
            | Self::Flatten(_)
            | Self::Transpose(_)
            | Self::Concat(_)
            | Self::Slice(_)
            | Self::Split(_)
            | Self::Gather(_)
            | Self::GatherElements(_)
            | Self::GatherNd(_)
            | Self::Index(_)
            | Self::Unsqueeze(_)
            | Self::Squeeze(_)
            | Self::Expand(_)
            | Self::Pad(_)
            | Self::Identity(_) => true,
            Self::Pool(op) => matches!(op.kind, PoolKind::Max),
            Self::GlobalPool(op) => matches!(op.kind, PoolKind::Max),
            Self::AdaptivePool(op) => matches!(op.kind, PoolKind::Max),
            Self::Reduce(op) => matches!(op.kind, ReduceKind::Max | ReduceKind::Min),
            Self::Resize(op) => matches!(op.mode, ResizeMode::Nearest(_)),
            _ => false,
        }
    }

    /// Whether the operator has a form over half floats: it copies elements without looking at them, or converts them itself.
    pub(crate) fn takes_halves(&self) -> bool {
        match self {
            Self::Pool(_)
            | Self::GlobalPool(_)
            | Self::AdaptivePool(_)
            | Self::Reduce(_)
            | Self::Resize(_) => false,
            Self::Where(_)
            | Self::ShapeOf(_)
            | Self::ConstantOfShape(_)
            | Self::Cast(_)
            | Self::BitCast(_)
            | Self::Hosted(_) => true,
            _ => self.moves(),
        }
    }

    /// Whether the operator runs on the host, between the parts of a network that a program has.
    pub(crate) const fn runs_between_stages(&self) -> bool {
        matches!(self, Self::Hosted(_))
    }

    /// The operands whose elements decide about extents (or, like axes, must be known for another reason) before the
    /// operator can be placed in a program.
    pub(crate) fn decides(&self) -> &'static [usize] {
        match self {
            Self::Reshape(_)
            | Self::Expand(_)
            | Self::Unsqueeze(_)
            | Self::Squeeze(_)
            | Self::Split(_)
            | Self::Reduce(_)
            | Self::TopK(_)
            | Self::AdaptivePool(_) => &[1],
            Self::Slice(_) => &[1, 2, 3, 4],
            Self::Pad(_) | Self::Resize(_) => &[1, 2, 3],
            Self::ConstantOfShape(_) | Self::Hosted(Hosted::If(_)) => &[0],
            Self::WarpPerspective(_) => &[3],
            Self::Function(function) => function.decides(),
            _ => &[],
        }
    }

    /// The axes of operand `operand`, of `rank` of them, along which results are made of several elements: reduced, compared,
    /// summed over. Windows and what only moves elements have none.
    pub fn joins(&self, operand: usize, rank: usize) -> Vec<usize> {
        let counted = |axis: isize| if axis < 0 { axis.saturating_add_unsigned(rank) } else { axis } as usize;
        match (self, operand) {
            (Self::Reduce(op), 0) => {
                let gone = op.reduced(rank).unwrap_or_default();
                gone.iter().enumerate().filter_map(|(axis, gone)| gone.then_some(axis)).collect()
            }
            (Self::ArgReduce(op), 0) => vec![counted(op.axis)],
            (Self::TopK(op), 0) => vec![counted(op.axis)],
            (Self::Running(op), 0) => vec![op.axis],
            (Self::Softmax(op), 0) if op.flatten => (counted(op.axis)..rank).collect(),
            (Self::Softmax(op), 0) => vec![counted(op.axis)],
            (Self::LayerNorm(op), 0) => (op.axes[0]..op.axes[1]).collect(),
            (Self::MatMul(_), 0) => vec![counted(-1)],
            (Self::MatMul(_), 1) => vec![counted(if rank > 1 { -2 } else { -1 })],
            _ => Vec::new(),
        }
    }

    /// The results' types, one per entry of a node's outputs; attributes that depend on the operands' extents are
    /// fixed on the way.
    pub(crate) fn infer(&mut self, at: &Operands<'_>, outputs: usize) -> Result<Vec<TensorType>, Error> {
        let quantizes = matches!(self, Self::QuantizeLinear(_) | Self::DequantizeLinear(_));
        if !quantizes && !self.takes_halves() {
            at.expect_numbers()?;
        }
        self.infer_own(at, outputs)
    }
}
