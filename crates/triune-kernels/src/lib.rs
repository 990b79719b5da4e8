//! Microkernels on slices: quantized and float convolution, pooling, elementwise, copies, quantize and pad.
//!
//! The scalar kernel is the specification of every SIMD kernel: equal bits, on every instruction set and thread
//! count. Nothing here knows graphs, commands or devices; unsafe code stays inside this crate's kernels.

mod arch;
mod conv;
mod error;
mod isa;
mod map;
mod pool;

pub use conv::{Q8, QAdd, QConv, QConvSpec};
pub use error::Error;
pub use isa::Isa;
pub use map::{ConvGeometry, Nhwc};
pub use pool::Pool;
