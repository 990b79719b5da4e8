//! From a model to results: partition, lower, plan, package, deploy, run.
//!
//! The runtime knows graphs and devices; it knows no vendor's API and does no arithmetic on tensors itself.
#![forbid(unsafe_code)]

pub mod card;
