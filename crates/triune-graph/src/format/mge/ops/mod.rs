//! What the format's operators mean in the graph, one file per family.

pub(super) mod arithmetic;
pub(super) mod conv;
pub(super) mod convert;
pub(super) mod image;
pub(super) mod matrix;
pub(super) mod pool;
pub(super) mod reduce;
pub(super) mod shape;
pub(super) mod source;

use super::node::{NodeReader, Params};
use crate::{
    Error,
    ops::{
        Cast, Concat, Expand, Flatten, Gather, Gemm, MatMul, Op, Resize, ShapeOf, Slice, Squeeze, Unsqueeze,
    },
};

/// Numbers of the kinds of parameters in the schema's union `OperatorParam`.
mod kind {
    pub(super) const AXIS: u8 = 2;
    pub(super) const CONVOLUTION: u8 = 3;
    pub(super) const CONV_BIAS: u8 = 6;
    pub(super) const POOLING: u8 = 9;
    pub(super) const BN: u8 = 11;
    pub(super) const ELEMWISE: u8 = 17;
    pub(super) const ELEMWISE_MULTI_TYPE: u8 = 18;
    pub(super) const MATRIX_MUL: u8 = 20;
    pub(super) const REDUCE: u8 = 23;
    pub(super) const RESIZE: u8 = 40;
    pub(super) const OPTIONAL_AXIS_V1: u8 = 54;
    pub(super) const DIMSHUFFLE: u8 = 64;
    pub(super) const AXIS_ADD_REMOVE: u8 = 65;
    pub(super) const INDEX_DESC: u8 = 66;
    pub(super) const DTYPE: u8 = 67;
    pub(super) const PADDING: u8 = 82;
    pub(super) const SOFTMAX: u8 = 90;
}

/// Memory formats of images and weights, by number.
const FORMATS: [&str; 18] = [
    "NCHW",
    "NHWC",
    "NHWCD4",
    "NCHW4",
    "NCHW8",
    "NCHW32",
    "NCHW88",
    "NCHW44",
    "NCHW44_DOT",
    "NCHW4_NCHW32",
    "NCHW32_NCHW4",
    "NCHW4_NCHW",
    "NHWC_NCHW",
    "NHWC_NCHW4_IC_SMALL",
    "NCHW_NCHW4_IC_SMALL",
    "CHWN4",
    "NCHW64",
    "NCHW4_NHWC",
];

/// An error unless the format in `slot` is NCHW or NHWC; gives whether it is the latter.
fn channels_last(
    node: &NodeReader<'_, '_, '_>,
    params: &Params<'_>,
    slot: usize,
    default: u32,
) -> Result<bool, Error> {
    match params.u32(slot, default)? {
        0 => Ok(false),
        1 => Ok(true),
        other => {
            let name = FORMATS.get(other as usize).map_or_else(|| other.to_string(), |&name| name.into());
            Err(node.unsupported(format!("format {name}; NCHW and NHWC are supported")))
        }
    }
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
