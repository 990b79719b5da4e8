//! The runtime's tests, in one binary: what they share is compiled and linked once.

mod between;
mod blocked;
mod cascades;
mod conformance;
mod control;
mod cores;
mod families;
mod grown;
mod hosted;
mod hosted_values;
mod in_step;
mod instances;
mod many_nodes;
mod mge_common;
mod mge_composites;
mod mge_models;
mod mge_operators;
mod mge_refuses;
mod mge_spelled;
mod mge_write;
mod networks;
mod operators;
mod package_bounds;
mod package_refuses;
mod packages;
mod parts;
mod plans;
#[expect(dead_code, reason = "only the page groups networks by families")]
#[path = "../../examples/validate_timing/published.rs"]
mod published;
#[path = "../../examples/validate_timing/quantize.rs"]
mod quantize;
mod recurrence;
mod sanitizer;
mod scalesim;
mod sessions;
mod stages;
mod timelines;
mod vision;
