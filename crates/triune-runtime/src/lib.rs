//! From a model to results: partition, lower, plan, package, deploy, run.
//!
//! The runtime knows graphs and devices; it knows no vendor's API and does no arithmetic on tensors itself,
//! but for the few operators that run between the stages of a network ([`dynamic`]).
#![forbid(unsafe_code)]

mod border;
pub mod card;
pub mod clock;
mod compile;
mod deploy;
pub mod dynamic;
mod engine;
mod error;
mod estimate;
mod host;
pub mod icraft;
mod lower;
mod model;
mod outline;
mod package;
mod partition;
mod plan;
mod program;
mod session;
mod split;
mod staged;
mod view;

pub use compile::{CompileOptions, Compiled, Summary, compile};
pub use deploy::{DeployOptions, Deployment, Device, Place};
pub use error::Error;
pub use estimate::Estimate;
pub use host::Workspace;
pub use model::{Model, ModelOptions, ValueInfo};
pub use outline::{Outline, OutlineNode, OutlineValue};
pub use package::{MODEL_FILE, Package};
pub use plan::PlanOptions;
pub use program::{Operator, PlannedBuffer, Program, Residency, TensorIo};
pub use session::{OperatorTime, Session, SessionOptions, Tensor, TensorRef, Variable};
pub use triune_device::Border;
pub use triune_graph::Dim;
pub use triune_kernels::CancelToken;
pub use triune_memory::residency::Policy;
