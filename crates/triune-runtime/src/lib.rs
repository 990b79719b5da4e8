//! From a program to results: packages, virtual cards, deployments, sessions.
//!
//! The runtime knows programs and devices; it knows no vendor's API and does no arithmetic on tensors itself,
//! but for the few operators that run between the stages of a network ([`dynamic`]).
#![forbid(unsafe_code)]

mod between;
pub mod card;
pub mod clock;
pub mod conformance;
mod constants;
pub mod cores;
mod deploy;
pub mod dynamic;
mod engine;
mod error;
mod estimate;
mod host;
mod instance;
mod memory_plan;
mod model;
mod on_card;
mod package;
mod plans;
mod profile;
mod session;
mod session_plan;
mod split;
mod staged;
pub mod study;
pub mod target;
mod tensor;

pub use between::BetweenPart;
pub use constants::fold_constants;
pub use deploy::{AtWait, DeployOptions, Deployment, Device, Place, parts::Parts};
pub use error::Error;
pub use estimate::Estimate;
pub use host::Workspace;
pub use instance::{DOUBLE_BUFFER_DELAY, HostTimes, Instance, InstanceOptions};
pub use memory_plan::{MapPlace, MemoryPlan, OperatorCommands};
pub use model::{Metadata, Model, ModelOptions, ValueInfo};
pub use package::{MODEL_FILE, Package, description::Description};
pub use profile::{Cost, OperatorCost, Profile};
pub use session::{OperatorTime, Session, SessionOptions, Variable};
pub use session_plan::{PartPlan, Placement, PlannedCommand, PlannedOperator, SessionPlan};
pub use staged::value::{MapElements, Maps, StringTensor, Value, ValueRef};
pub use study::Study;
pub use tensor::{Element, Tensor, TensorMut, TensorRef};
pub use triune_compiler::{
    CompileOptions, Compiled, Error as CompileError, Operator, Outline, OutlineNode, OutlineValue,
    PlanOptions, PlannedBuffer, Program, Report, Residency, Share, Summary, TensorIo, Wait, compile,
};
pub use triune_device::{Inputs, Outputs, exec::StripForm};
pub use triune_graph::{Dim, MapType, ValueKind};
pub use triune_kernels::{CancelToken, ConvMethod};
pub use triune_memory::residency::Policy;
