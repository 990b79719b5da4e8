//! Where things go: an online offset allocator, a static planner with its independent validator, and the choice of what
//! stays in a small memory.
//!
//! Addresses only; no memory is ever touched here, and nothing is known of tensors, commands or devices.
#![forbid(unsafe_code)]

mod alias;
mod arena;
mod events;
mod plan;
pub mod residency;
mod validate;

pub use alias::{Merged, Share, merge};
pub use arena::{Arena, Report};
pub use plan::{Buffer, Limits, Outcome, Plan, minimize, plan, solve};
pub use validate::{Violation, validate};
