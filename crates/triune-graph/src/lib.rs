//! The network: operators with their attributes and shape inference, readers and writers of model files, passes.
//!
//! A graph says what is computed, never where or how fast: nothing here knows kernels, devices or memory plans.
#![forbid(unsafe_code)]

mod constant;
mod error;
mod graph;
pub mod ops;

pub use constant::Constant;
pub use error::Error;
pub use graph::{Dim, Graph, Node, NodeId, Value, ValueId};
pub use ops::Op;
