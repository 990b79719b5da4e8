//! From a model to a program: partition, lower, plan.
//!
//! The compiler knows graphs and device specifications, and no device: nothing here runs, and nothing is deployed.
#![forbid(unsafe_code)]

pub mod border;
mod cascade;
mod compile;
mod error;
mod in_place;
pub mod lower;
mod outline;
pub mod partition;
pub mod parts;
pub mod patch;
pub mod plan;
mod program;
mod tail;
mod together;
pub mod view;

pub use compile::{
    CompileOptions, Compiled, Summary, adapt, bind_batch, compile, compile_core, compile_host, compile_room,
    host_io, program,
};
pub use error::Error;
pub use outline::{Outline, OutlineBuilder, OutlineNode, OutlineValue, Skeleton};
pub use partition::report::{Crossing, Given, Report, Share, Stayed};
pub use plan::PlanOptions;
pub use program::{ALIGNMENT, Operator, PlannedBuffer, Program, Residency, TensorIo, Wait};
pub use together::taken_together;
