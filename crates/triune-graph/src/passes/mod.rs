//! Passes: each takes a graph and leaves an equal one that is closer to what runs.

mod constants;
mod dead_code;
mod fuse;
mod quantize;
mod rewrite;

pub use constants::{fold_constants, fold_dequantize};
pub use dead_code::dead_code;
pub use fuse::fuse;
pub use quantize::quantize;
