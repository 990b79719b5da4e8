//! The operator set: one file per family with its attributes and shape inference.
//!
//! One operator, one meaning, whatever the element type: `Conv` over 8-bit values whose `Value::quant` is set is the
//! integer convolution, over f32 the float one. Differences between versions of a source format end in its reader.

mod conv;
mod eltwise;
mod gemm;
mod movement;
mod normalization;
mod pool;
mod quant;
mod resize;
mod softmax;
mod unary;

pub use conv::{AutoPad, Conv, Epilogue, Residual, Stage};
pub use eltwise::{Binary, BinaryKind};
pub use gemm::{Gemm, MatMul};
pub use movement::{
    Cast, Concat, ConstantOfShape, Expand, Flatten, Gather, Identity, Pad, PadMode, Reshape, ShapeOf, Slice,
    Split, Squeeze, Transpose, Unsqueeze,
};
pub use normalization::BatchNormalization;
pub use pool::{GlobalPool, Pool, PoolKind};
pub use quant::{DequantizeLinear, QuantizeLinear};
pub use resize::{CoordinateMode, NearestMode, Resize, ResizeMode};
pub use softmax::Softmax;
pub use unary::{Clip, Table, Unary, UnaryKind};

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Convolution; inputs x, weights (O, I/groups, KH, KW), optional bias, then the epilogue's operands.
    Conv(Conv),
    /// y = α·A·B + β·C with optional transposes; after the quantization pass also over 8-bit values.
    Gemm(Gemm),
    /// Batched matrix product with broadcasting, as numpy's `matmul`.
    MatMul(MatMul),
    /// (x − mean)/√(var + ε)·scale + bias; inputs x, scale, bias, mean, var.
    BatchNormalization(BatchNormalization),
    /// Max or average over a sliding window.
    Pool(Pool),
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
    /// Spatial resampling; inputs x, optional roi, optional scales, optional sizes.
    Resize(Resize),
    /// f32 → 8 bit; inputs x, scale, optional zero point.
    QuantizeLinear(QuantizeLinear),
    /// 8 bit or i32 → f32; inputs x, scale, optional zero point.
    DequantizeLinear(DequantizeLinear),
}
