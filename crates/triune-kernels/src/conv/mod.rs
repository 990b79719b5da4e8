//! Convolution: the window slides over NHWC maps, weights are packed once, the epilogue is fused.
//!
//! Matrix products with constant weights are convolutions with a 1×1 window.

mod fconv;
mod fdepthwise;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod fdepthwise_simd;
mod fepilogue;
pub(crate) mod fgemm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod fgemm_simd;
mod fpack;
mod fpicture;
#[cfg(target_arch = "x86_64")]
mod fplane;
mod frows;
mod method;
mod q16;
mod q8;
mod qconv;
mod qdepthwise;
mod qepilogue;
mod qgemm;
mod qpack;
mod qrows;
mod qscalar;
mod winograd;
mod winograd_simd;

pub use fconv::{FConv, FConvSpec, PackedFilter};
pub(crate) use fgemm::pack_panel;
pub use fpack::Filter;
pub use method::ConvMethod;
pub use q8::{Q8, QAdd};
pub use q16::{Q16Conv, Q16ConvSpec};
pub use qconv::{QConv, QConvSpec};
pub(crate) use qpack::Lines;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use qdepthwise::{DepthwiseJob, depthwise_row};
pub(crate) use qgemm::Block;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use qgemm::{GemmJob, gemm_block, gemm_tile};
#[cfg(target_arch = "x86_64")]
pub(crate) use qgemm::{TileKernels, tiled_block};
