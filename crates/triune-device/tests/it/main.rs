//! The virtual device's tests, in one binary: what they share is compiled and linked once.

mod blocks;
mod board;
mod border;
mod cancel;
mod chains;
mod commands;
mod common;
mod computed_operands;
mod decode_refuses;
mod energy;
mod exec;
mod memory;
mod samples;
mod sanitizer;
mod spec;
mod stepped;
mod timing;
mod timing_stepped;
mod traffic;
mod work;
