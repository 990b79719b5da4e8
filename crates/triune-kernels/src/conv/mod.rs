//! Convolution: the window slides over NHWC maps, weights are packed once, the epilogue is fused.
//!
//! Matrix products with constant weights are convolutions with a 1×1 window.

mod fconv;
mod fdepthwise;
#[cfg(target_arch = "x86_64")]
mod fdepthwise_x86;
mod fepilogue;
pub(crate) mod fgemm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod fgemm_x86;
mod fpack;
mod q8;
mod qconv;
mod qdepthwise;
mod qepilogue;
mod qgemm;
mod qpack;
mod qscalar;

pub(crate) use fconv::pack_panel;
pub use fconv::{FConv, FConvSpec, PackedFilter};
pub use fpack::Filter;
pub use q8::{Q8, QAdd};
pub use qconv::{QConv, QConvSpec};
pub(crate) use qpack::Lines;

#[cfg(target_arch = "x86_64")]
pub(crate) use qdepthwise::{DepthwiseJob, depthwise_row};
pub(crate) use qgemm::Block;
#[cfg(target_arch = "x86_64")]
pub(crate) use qgemm::{GemmJob, gemm_block, gemm_tile};
