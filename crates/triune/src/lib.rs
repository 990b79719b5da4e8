//! Triune for Rust programs: what a program adds to its `Cargo.toml`.
//!
//! A model runs whole on the CPU in a [`Session`]:
//!
//! ```no_run
//! use std::path::Path;
//! use triune::{Error, Session, SessionOptions, TensorRef};
//!
//! # fn main() -> Result<(), Error> {
//! let mut session = Session::open(Path::new("classifier.onnx"), &SessionOptions { threads: 0, ..Default::default() })?;
//! let pixels = vec![0.5f32; 3 * 224 * 224];
//! let outputs = session.run(&[TensorRef::of(&pixels, &[1, 3, 224, 224])])?;
//! let scores: &[f32] = outputs[0].as_slice()?;
//! println!("{} classes", scores.len());
//! # Ok(())
//! # }
//! ```
//!
//! Or its integer core is compiled for an NPU, deployed to a simulated device and run there, with an account of what the
//! device would have taken:
//!
//! ```no_run
//! use std::path::Path;
//! use triune::{CompileOptions, DeployOptions, Deployment, Device, DeviceSpec, Error, Package};
//!
//! # fn main() -> Result<(), Error> {
//! let spec = DeviceSpec::builtin("metis")?;
//! let compiled = triune::compile(Path::new("digits_int8.onnx"), &spec, &CompileOptions::default())?;
//! let package = Package::write(&compiled, Path::new("digits"))?;
//! let device = Device::new(spec)?;
//! let mut deployment = Deployment::new(&device, package.program(), &DeployOptions::default())?;
//! let input = vec![0; package.program().inputs[0].bytes()];
//! let mut output = vec![0; package.program().outputs[0].bytes()];
//! deployment.run(&[&input], &mut [&mut output])?;
//! println!("{} µs on the device", deployment.timeline().micros());
//! # Ok(())
//! # }
//! ```
//!
//! Work is bounded: a program that takes more operations than a run may ([`internals::device::work::set_limit`]) is refused,
//! and any run can be stopped from another thread, see [`CancelToken`].
#![forbid(unsafe_code)]

use std::path::Path;

pub use triune_compiler::{CompileOptions, Compiled, PlanOptions, Program};
pub use triune_device::DeviceSpec;
pub use triune_kernels::CancelToken;
pub use triune_runtime::{
    DeployOptions, Deployment, Device, Dim, Element, Error, Model, ModelOptions, Package, Session,
    SessionOptions, StringTensor, Tensor, TensorMut, TensorRef, Value, ValueInfo, ValueKind, ValueRef,
    Workspace,
};
pub use triune_tensor::{DType, Shape};

/// The crates that the rest is made of. What they offer may change with every version.
pub mod internals {
    pub use triune_compiler as compiler;
    pub use triune_device as device;
    pub use triune_files as files;
    pub use triune_fork as fork;
    pub use triune_graph as graph;
    #[cfg(feature = "icraft")]
    pub use triune_icraft as icraft;
    pub use triune_kernels as kernels;
    #[cfg(feature = "remote")]
    pub use triune_remote as remote;
    pub use triune_runtime as runtime;
    pub use triune_tensor as tensor;
}

/// Compiles the integer core of a quantized model for a device: a file of any format that [`Session::open`] takes.
///
/// # Errors
/// [`Error::Compile`]: the file cannot be read, nothing in the model is quantized, or the device cannot run an operator.
pub fn compile(model: &Path, device: &DeviceSpec, options: &CompileOptions) -> Result<Compiled, Error> {
    let graph = triune_graph::format::read(model)?;
    Ok(triune_compiler::compile(&graph, device, options)?)
}

/// The snippet of the package's first page, compiled as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
