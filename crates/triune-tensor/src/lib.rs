//! The vocabulary that every other crate shares: element types, shapes, quantization parameters.
//!
//! Plain data, no memory and no kernels: nothing here knows where a tensor's bytes lie or who computes them.
#![forbid(unsafe_code)]

mod dtype;
mod multiplier;
mod quant;
mod shape;

pub use dtype::DType;
pub use multiplier::{Multiplier, Requantize};
pub use quant::{ChannelQuant, QuantParams, Rounding};
pub use shape::{MAX_RANK, Shape};
