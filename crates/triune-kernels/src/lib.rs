//! Microkernels on slices: quantized and float convolution, pooling, elementwise, copies, quantize and pad.
//!
//! The scalar kernel is the specification of every SIMD kernel: equal bits, on every instruction set and thread
//! count. Nothing here knows graphs, commands or devices; unsafe code stays inside this crate's kernels.

mod arch;
mod attention;
mod blocks;
mod bmatmul;
mod conv;
mod copy;
mod dispatch;
mod eltwise;
mod error;
mod fmatmul;
mod fnorm;
mod fpool;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod fpool_simd;
#[cfg(target_arch = "x86_64")]
mod fpool_slide;
mod halves;
mod imatmul;
mod index;
mod isa;
mod map;
mod math;
mod parallel;
mod pixels;
mod pool;
mod pool2d;
mod q16;
mod qmatmul;
mod qnorm;
mod quantize;
mod recurrence;
mod reduce;
mod resample;
mod resize;
mod rotate;
mod running;
mod samples;
mod sha256;
mod softmax;
mod strided;
mod tables;
mod tensor_info;
mod tmatmul;
mod triple;
mod typed;
mod unary;
#[cfg(target_arch = "x86_64")]
mod unary_avx2;
#[cfg(target_arch = "x86_64")]
mod unary_x86;
mod warp;
mod weigh;

pub use attention::{Attention, AttentionSpec};
pub use blocks::Blocked;
pub use bmatmul::{BlockArithmetic, BlockMatMul, BlockSpec};
pub use conv::{
    ConvMethod, FConv, FConvSpec, Filter, PackedFilter, Q8, Q16Conv, Q16ConvSpec, QAdd, QConv, QConvSpec,
};
pub use copy::{CopyNd, CopySpec};
pub use eltwise::{Broadcast, QMul, binary, has_float, q8_add, q8_mul};
pub use error::Error;
pub use fmatmul::{FMatMul, MatMulSpec};
pub use fnorm::{NormRow, normalize};
pub use fpool::{f32_global_pool, f32_pool};
pub use halves::{BF16, F16, f16_to_f32, f32_to_f16};
pub use imatmul::{IMatMul, IMatMulOperands, IMatMulSpec, PackedBytes};
pub use index::{Index, OrderSpec, Take, TakeSpec, order};
pub use isa::Isa;
pub use map::{ConvGeometry, Nhwc, Planes};
pub use pixels::{Channels, pixels};
pub use pool::Pool;
pub use pool2d::{PoolQuant, PoolSpec, Q16Pool, q8_global_pool, q8_pool, q16_pool};
pub use q16::{Q16Target, Word, q16_add, q16_dequantize, q16_mul, q16_quantize, q16_table};
pub use qmatmul::{QMatMul, QMatMulSpec};
pub use qnorm::{QNorm, QNormSpec};
pub use quantize::{dequantize, dequantize_i32, quantize, quantize_by};
pub use recurrence::{MAX_DIRECTIONS, Recurrence, RecurrenceSpec, Sequences};
pub use reduce::{IndexType, Reducible, Reduction, arg_reduce, reduce};
pub use resample::{Resample, ResampleFilter, ResampleSpec, ResampleTarget};
pub use resize::{QResize, Resizable, Resize, ResizeSpec};
pub use rotate::{Rotation, Row, rotate};
pub use running::{RunningSpec, Summand, running};
pub use samples::{SAMPLE_CHANNELS, SampleMap, SamplePlace};
pub use sha256::sha256;
pub use softmax::{AxisShape, QSoftmax, log_softmax, softmax};
pub use tables::{table, tables};
pub use tensor_info::{MAX_RANK, TensorPad};
pub use tmatmul::{TMatMulSpec, product};
pub use triple::{Then, Triple, triple};
pub use triune_cancel::{self as cancel, CancelToken};
pub use typed::{
    Choice, Convertible, Integer, Ordered, Truth, compare, convert, double_binary, double_unary, has_double,
    has_integer, integer_binary, narrow, select, widen,
};
pub use unary::unary;
pub use warp::{Sample, WarpSpec, warp_perspective};
pub use weigh::{WeighSpec, weigh};
