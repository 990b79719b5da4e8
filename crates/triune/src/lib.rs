//! Triune for Rust programs: what a program adds to its `Cargo.toml`.
//!
//! A model runs whole on the CPU in a [`runtime::Session`], or its integer core is compiled for an NPU, deployed to a
//! simulated device and run there, with an account of what the device would have taken:
//!
//! ```no_run
//! use std::path::Path;
//! use triune::runtime::{DeployOptions, Deployment, Device, Package};
//!
//! # fn main() -> Result<(), triune::runtime::Error> {
//! let package = Package::load(Path::new("digits/model.json"))?;
//! let device = Device::new(triune::device::DeviceSpec::builtin("metis")?)?;
//! let mut deployment = Deployment::new(&device, package.program(), &DeployOptions::default())?;
//! let input = vec![0; package.program().inputs[0].bytes()];
//! let mut output = vec![0; package.program().outputs[0].bytes()];
//! deployment.run(&[&input], &mut [&mut output])?;
//! println!("{} µs on the device", deployment.timeline().micros());
//! # Ok(())
//! # }
//! ```
//!
//! Work is bounded: a program that takes more operations than a run may ([`device::work::set_limit`]) is refused, and any
//! run can be stopped from another thread, see [`CancelToken`].
#![forbid(unsafe_code)]

pub use triune_compiler as compiler;
pub use triune_device as device;
pub use triune_files as files;
pub use triune_fork as fork;
pub use triune_graph as graph;
pub use triune_icraft as icraft;
pub use triune_kernels as kernels;
pub use triune_kernels::CancelToken;
pub use triune_remote as remote;
pub use triune_runtime as runtime;
pub use triune_tensor as tensor;

/// The Rust snippet of the repository's first page, compiled as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
