//! What the format's operators mean in the graph, one file per family.

pub(super) mod arithmetic;
pub(super) mod assign;
pub(super) mod color;
pub(super) mod conv;
pub(super) mod convert;
pub(super) mod image;
pub(super) mod layout;
pub(super) mod matrix;
pub(super) mod norm;
pub(super) mod pool;
pub(super) mod recurrent;
pub(super) mod reduce;
pub(super) mod sample;
pub(super) mod select;
pub(super) mod shape;
pub(super) mod source;
pub(super) mod spatial;

use crate::ops::{
    Cast, Concat, Expand, Flatten, Gather, Gemm, MatMul, Op, Resize, ShapeOf, Slice, Squeeze, Unsqueeze,
};

/// Numbers of the kinds of parameters in the schema's union `OperatorParam`.
mod kind {
    pub(super) const AXIS: u8 = 2;
    pub(super) const CONVOLUTION: u8 = 3;
    pub(super) const CONV_BIAS: u8 = 6;
    pub(super) const IMAGES_2_NEIBS: u8 = 8;
    pub(super) const POOLING: u8 = 9;
    pub(super) const LRN: u8 = 10;
    pub(super) const BN: u8 = 11;
    pub(super) const ROI_POOLING: u8 = 12;
    pub(super) const WARP_PERSPECTIVE: u8 = 13;
    pub(super) const ELEMWISE: u8 = 17;
    pub(super) const ELEMWISE_MULTI_TYPE: u8 = 18;
    pub(super) const POW_C: u8 = 19;
    pub(super) const MATRIX_MUL: u8 = 20;
    pub(super) const REDUCE: u8 = 23;
    pub(super) const CUMSUM: u8 = 24;
    pub(super) const COND_TAKE: u8 = 25;
    pub(super) const ARGSORT: u8 = 26;
    pub(super) const LINSPACE: u8 = 29;
    pub(super) const EYE: u8 = 31;
    pub(super) const FLIP: u8 = 34;
    pub(super) const ROTATE: u8 = 35;
    pub(super) const ROI_COPY: u8 = 36;
    pub(super) const CVT_COLOR: u8 = 37;
    pub(super) const WARP_AFFINE: u8 = 38;
    pub(super) const RESIZE: u8 = 40;
    pub(super) const CONVOLUTION_3D: u8 = 41;
    pub(super) const TOP_K: u8 = 44;
    pub(super) const RELAYOUT_FORMAT: u8 = 45;
    pub(super) const ROI_ALIGN: u8 = 48;
    pub(super) const OPTIONAL_AXIS_V1: u8 = 54;
    pub(super) const DIMSHUFFLE: u8 = 64;
    pub(super) const AXIS_ADD_REMOVE: u8 = 65;
    pub(super) const INDEX_DESC: u8 = 66;
    pub(super) const DTYPE: u8 = 67;
    pub(super) const REMAP: u8 = 68;
    pub(super) const NMS_KEEP: u8 = 69;
    pub(super) const ADAPTIVE_POOLING: u8 = 70;
    pub(super) const FAKE_QUANT: u8 = 73;
    pub(super) const TQT: u8 = 74;
    pub(super) const LSQ: u8 = 76;
    pub(super) const SLIDING_WINDOW_TRANSPOSE: u8 = 81;
    pub(super) const PADDING: u8 = 82;
    pub(super) const LAYER_NORM: u8 = 85;
    pub(super) const RNN_CELL: u8 = 87;
    pub(super) const RNN: u8 = 88;
    pub(super) const LSTM: u8 = 89;
    pub(super) const SOFTMAX: u8 = 90;
    pub(super) const DIAG: u8 = 91;
    pub(super) const GROUP_NORM: u8 = 92;
    pub(super) const GENERAL_NORM: u8 = 94;
}

macro_rules! into_op {
    ($($name:ident),*) => {
        $(
            impl From<$name> for Op {
                fn from(op: $name) -> Self {
                    Self::$name(op)
                }
            }
        )*
    };
}

into_op!(Cast, Concat, Expand, Flatten, Gather, Gemm, MatMul, Resize, ShapeOf, Slice, Squeeze, Unsqueeze);
