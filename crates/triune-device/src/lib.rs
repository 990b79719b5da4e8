//! The simulated device: its description, its memory, its commands, what they compute and how long they take.
//!
//! Devices know commands and addresses; nothing here knows graphs or model files, and nothing but the registers of boards
//! (`board/registers.rs`, `board/model.rs`) knows vendors.
//!
//! A program is a stream of [`Command`]s that lies, with its weights and feature maps, in a [`Memory`].
//! [`Executor`] computes the values; [`timing::timeline`] computes the cycles from the same commands. The two
//! never meet: timing changes no value, execution reads no clock.
#![deny(unsafe_code)]

pub mod board;
pub mod command;
mod error;
pub mod exec;
pub mod logic;
pub mod memory;
pub mod spec;
pub mod timing;
pub mod work;

pub use board::{Board, BoardInfo, Job, JobReport, LayerTime, LocalBoard, Records, RegionInfo, Settings};
pub use command::{Addr, Command, FeatureMap};
pub use error::{Error, ErrorClass};
pub use exec::{
    Decoded, Executor, Inputs, Layout, Library, Outputs, Scratch, Segment, SegmentKind, SegmentTable, Stream,
    Weights,
};
pub use memory::{Chunk, Lease, Memory, RangeAccess, RegionId, Sanitize, Watch};
pub use spec::DeviceSpec;
pub use timing::{CommandTime, Timeline, TimingOptions, Touch, timeline, touches};
pub use triune_kernels::{CancelToken, cancel};
pub use triune_tensor::OutOfMemory;
