//! Passes: each takes a graph and leaves an equal one that is closer to what runs.

mod fuse;
mod quantize;
mod rewrite;

pub use fuse::fuse;
pub use quantize::quantize;
