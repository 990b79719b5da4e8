//! The network: operators with their attributes and shape inference, readers and writers of model files, passes.
//!
//! A graph says what is computed, never where or how fast: nothing here knows kernels, devices or memory plans.
#![forbid(unsafe_code)]

mod constant;
mod error;
mod evaluate;
pub mod format;
mod functions;
mod graph;
pub mod infer;
mod meaning;
pub mod ops;
pub mod passes;
mod strings;
mod subgraph;
mod walk;

pub use constant::Constant;
pub use error::Error;
pub use functions::Function;
pub use graph::{
    DefaultInput, Dim, Graph, MapType, Node, NodeId, Origin, Provenance, Quantization, Value, ValueId,
    ValueIds, ValueKind,
};
pub use ops::Op;
pub use strings::Strings;
