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
    CondTake, Determinant, Hosted, LinearAttention, NGramWeight, NGrams, Nms, NonMaxSuppression, NonZero,
    RoiAlign, SequenceOp, Unique,
};
pub use eltwise::Binary;
pub use encoders::{CastMap, Dictionary, MapOp, OneHotEncoder};
pub use gemm::{Gemm, IntegerMatMul, MatMul};
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
pub use unary::{Clip, Table, Unary};
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

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Convolution; inputs x, weights (O, I/groups, KH, KW), optional bias, then the epilogue's operands.
    Conv(Box<Conv>),
    /// y = α·A·B + β·C with optional transposes; after the quantization pass also over 8-bit values.
    Gemm(Gemm),
    /// Batched matrix product with broadcasting, as numpy's `matmul`.
    MatMul(MatMul),
    /// Batched product of matrices of bytes in 32 bits; inputs A, B, optional zero points of both, optional factors.
    IntegerMatMul(IntegerMatMul),
    /// (x − mean)/√(var + ε)·scale + bias; inputs x, scale, bias, mean, var.
    BatchNormalization(BatchNormalization),
    /// (x − mean)/√(variance + ε)·scale + bias by statistics of some axes, over integers; inputs x, optional scale, optional bias.
    LayerNorm(LayerNorm),
    /// Max or average over a sliding window.
    Pool(Box<Pool>),
    /// Max or average over all spatial positions.
    GlobalPool(GlobalPool),
    /// Two operands, broadcast as numpy does.
    Binary(Binary),
    /// One operand, element by element.
    Unary(Unary),
    /// Clamp to limits; inputs x, optional low, optional high.
    Clip(Clip),
    /// A 256-entry map of 8-bit values.
    Table(Table),
    /// Sum, product, mean or extreme along axes; inputs x, optionally the shape to reduce to.
    Reduce(Reduce),
    /// Position of an extreme along an axis.
    ArgReduce(ArgReduce),
    /// Running sums or products along an axis.
    Running(Running),
    /// exp(x − max)/Σ along an axis.
    Softmax(Softmax),
    /// Other extents for the same elements; inputs x, shape.
    Reshape(Reshape),
    /// To two dimensions.
    Flatten(Flatten),
    /// Axes permuted.
    Transpose(Transpose),
    /// Inputs joined along an axis.
    Concat(Concat),
    /// A strided part; inputs x, starts, ends, optional axes, optional steps.
    Slice(Slice),
    /// Parts along an axis; inputs x, optional sizes.
    Split(Split),
    /// Elements picked by index along an axis; inputs x, indices.
    Gather(Gather),
    /// One element per index along an axis; inputs x, indices.
    GatherElements(GatherElements),
    /// Parts picked by coordinates; inputs x, indices.
    GatherNd(GatherNd),
    /// One element put per index along an axis; inputs x, indices, updates.
    ScatterElements(ScatterElements),
    /// Parts put by coordinates; inputs x, indices, updates.
    ScatterNd(ScatterNd),
    /// numpy's advanced indexing; inputs x and one tensor of indices per axis.
    Index(Index),
    /// Elements of one operand or another; inputs condition, a, b.
    Where(Where),
    /// The first elements in order along an axis; inputs x, k; results values, indices.
    TopK(TopK),
    /// Extents of 1 inserted; inputs x, axes.
    Unsqueeze(Unsqueeze),
    /// Extents of 1 removed; inputs x, optional axes.
    Squeeze(Squeeze),
    /// Broadcast to a shape; inputs x, shape.
    Expand(Expand),
    /// Border added; inputs x, pads, optional value, optional axes.
    Pad(Pad),
    /// The input itself (also Dropout at inference).
    Identity(Identity),
    /// The input's extents as i64.
    ShapeOf(ShapeOf),
    /// One value repeated over a given shape.
    ConstantOfShape(ConstantOfShape),
    /// Another element type.
    Cast(Cast),
    /// The same bits as another element type.
    BitCast(BitCast),
    /// Spatial resampling; inputs x, optional roi, optional scales, optional sizes.
    Resize(Resize),
    /// f32 → 8 bit; inputs x, scale, optional zero point.
    QuantizeLinear(QuantizeLinear),
    /// 8 bit or i32 → f32; inputs x, scale, optional zero point.
    DequantizeLinear(DequantizeLinear),
    /// Max or average over equal windows that cover the input; inputs x, size.
    AdaptivePool(AdaptivePool),
    /// Perspective warp; inputs x, matrices, optional image indices, size.
    WarpPerspective(WarpPerspective),
    /// Weighted sums of elements picked by index; inputs x, indices, optional factors.
    Weigh(Weigh),
    /// A recurrent cell over time; inputs x, weights, optional vectors, states and lengths.
    Recurrence(Recurrence),
    /// What the host computes between the parts of a network that programs have.
    Hosted(Hosted),
    /// A composite operator, until shapes are inferred.
    Function(Function),
}

impl Op {
    /// The operator's name in ONNX, or ours where ONNX has none.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Conv(_) => "Conv",
            Self::Gemm(_) => "Gemm",
            Self::MatMul(_) => "MatMul",
            Self::IntegerMatMul(_) => "MatMulInteger",
            Self::BatchNormalization(_) => "BatchNormalization",
            Self::LayerNorm(_) => "LayerNormalization",
            Self::Pool(op) if matches!(op.kind, PoolKind::Max) => "MaxPool",
            Self::Pool(_) => "AveragePool",
            Self::GlobalPool(GlobalPool { kind: PoolKind::Max }) => "GlobalMaxPool",
            Self::GlobalPool(_) => "GlobalAveragePool",
            Self::Binary(op) => op.kind.name(),
            Self::Unary(op) => op.kind.name(),
            Self::Clip(_) => "Clip",
            Self::Table(_) => "Table",
            Self::Reduce(op) => op.kind.name(),
            Self::ArgReduce(ArgReduce { kind: ReduceKind::Min, .. }) => "ArgMin",
            Self::ArgReduce(_) => "ArgMax",
            Self::Running(op) => {
                if op.product {
                    "CumProd"
                } else {
                    "CumSum"
                }
            }
            Self::Softmax(_) => "Softmax",
            Self::Reshape(_) => "Reshape",
            Self::Flatten(_) => "Flatten",
            Self::Transpose(_) => "Transpose",
            Self::Concat(_) => "Concat",
            Self::Slice(_) => "Slice",
            Self::Split(_) => "Split",
            Self::Gather(_) => "Gather",
            Self::GatherElements(_) => "GatherElements",
            Self::GatherNd(_) => "GatherND",
            Self::ScatterElements(_) => "ScatterElements",
            Self::ScatterNd(_) => "ScatterND",
            Self::Index(_) => "Index",
            Self::Where(_) => "Where",
            Self::TopK(_) => "TopK",
            Self::Unsqueeze(_) => "Unsqueeze",
            Self::Squeeze(_) => "Squeeze",
            Self::Expand(_) => "Expand",
            Self::Pad(_) => "Pad",
            Self::Identity(_) => "Identity",
            Self::ShapeOf(_) => "Shape",
            Self::ConstantOfShape(_) => "ConstantOfShape",
            Self::Cast(_) => "Cast",
            Self::BitCast(_) => "BitCast",
            Self::Resize(_) => "Resize",
            Self::QuantizeLinear(_) => "QuantizeLinear",
            Self::DequantizeLinear(_) => "DequantizeLinear",
            Self::AdaptivePool(_) => "AdaptivePool",
            Self::WarpPerspective(_) => "WarpPerspective",
            Self::Weigh(_) => "Weigh",
            Self::Recurrence(_) => "Recurrence",
            Self::Hosted(op) => op.name(),
            Self::Function(function) => function.name(),
        }
    }

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

    /// The results' types, one per entry of a node's outputs; attributes that depend on the operands' extents are
    /// fixed on the way.
    pub(crate) fn infer(&mut self, at: &Operands<'_>, outputs: usize) -> Result<Vec<TensorType>, Error> {
        let quantizes = matches!(self, Self::QuantizeLinear(_) | Self::DequantizeLinear(_));
        if !quantizes && !self.takes_halves() {
            at.expect_numbers()?;
        }
        match self {
            Self::Conv(op) => op.infer(at),
            Self::Gemm(op) => op.infer(at),
            Self::MatMul(op) => op.infer(at),
            Self::IntegerMatMul(_) => IntegerMatMul::infer(at),
            Self::BatchNormalization(_) => BatchNormalization::infer(at),
            Self::LayerNorm(op) => op.infer(at),
            Self::Pool(op) => op.infer(at),
            Self::GlobalPool(_) => GlobalPool::infer(at),
            Self::Binary(op) => op.infer(at),
            Self::Unary(_) | Self::Identity(_) => at.like_input(at.input(0)?.shape),
            Self::Clip(_) => Clip::infer(at),
            Self::Table(_) => Table::infer(at),
            Self::Reduce(op) => op.infer(at),
            Self::ArgReduce(op) => op.infer(at),
            Self::Running(op) => op.infer(at),
            Self::Softmax(op) => op.infer(at),
            Self::Reshape(op) => op.infer(at),
            Self::Flatten(op) => op.infer(at),
            Self::Transpose(op) => op.infer(at),
            Self::Concat(op) => op.infer(at),
            Self::Slice(_) => Slice::infer(at),
            Self::Split(op) => op.infer(at, outputs),
            Self::Gather(op) => op.infer(at),
            Self::GatherElements(op) => op.infer(at),
            Self::GatherNd(op) => op.infer(at),
            Self::ScatterElements(op) => op.infer(at),
            Self::ScatterNd(op) => op.infer(at),
            Self::Index(op) => op.infer(at),
            Self::Where(_) => Where::infer(at),
            Self::TopK(op) => op.infer(at),
            Self::Unsqueeze(_) => Unsqueeze::infer(at),
            Self::Squeeze(_) => Squeeze::infer(at),
            Self::Expand(_) => Expand::infer(at),
            Self::Pad(op) => op.infer(at),
            Self::ShapeOf(op) => op.infer(at),
            Self::ConstantOfShape(op) => op.infer(at),
            Self::Cast(op) => op.infer(at),
            Self::BitCast(op) => op.infer(at),
            Self::Resize(_) => Resize::infer(at),
            Self::QuantizeLinear(op) => op.infer(at),
            Self::DequantizeLinear(op) => op.infer(at),
            Self::AdaptivePool(op) => op.infer(at),
            Self::WarpPerspective(_) => WarpPerspective::infer(at),
            Self::Weigh(_) => Weigh::infer(at),
            Self::Recurrence(op) => op.infer(at),
            Self::Hosted(op) => op.infer(at),
            // What becomes other operators has no rule of its own.
            Self::Function(_) => Err(at.wrong("a function within the rules of shapes")),
        }
    }
}
