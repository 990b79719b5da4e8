//! The vocabulary that every other crate shares: element types, shapes, quantization parameters, buffers of bytes.
//!
//! Plain data, no devices and no kernels: nothing here knows what a tensor's bytes are for or who computes them.
#![forbid(unsafe_code)]

mod buffer;
mod dtype;
pub mod function;
pub mod half;
pub mod memory;
mod multiplier;
mod narrow;
mod quant;
mod recipe;
mod shape;
pub mod text;

pub use buffer::Buffer;
pub use dtype::DType;
pub use memory::OutOfMemory;
pub use multiplier::{Multiplier, Requantize};
pub use quant::{QuantParams, Rounding};
pub use recipe::Recipe;
pub use shape::{MAX_RANK, Shape};
