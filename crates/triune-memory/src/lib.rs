//! Where things go: an online offset allocator and a static planner with its independent validator.
//!
//! Addresses only; no memory is ever touched here, and nothing is known of tensors, commands or devices.
#![forbid(unsafe_code)]

mod arena;
mod plan;
mod validate;

pub use arena::{Arena, Report};
pub use plan::{Buffer, Limits, Outcome, Plan, minimize, plan, solve};
pub use validate::{Violation, validate};
