//! Convolution: the window slides over NHWC maps, weights are packed once, the epilogue is fused.
//!
//! Matrix products with constant weights are convolutions with a 1×1 window.

mod q8;
mod qconv;
mod qscalar;

pub use q8::{Q8, QAdd};
pub use qconv::{QConv, QConvSpec};
