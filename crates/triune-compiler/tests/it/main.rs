//! The compiler's tests, in one binary: what they share is compiled and linked once.

mod common;
mod empty;
mod pinned;
mod refuses;
mod structure;
mod turns;
mod values;
