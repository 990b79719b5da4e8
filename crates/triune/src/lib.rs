//! Triune for Rust programs: what a program adds to its `Cargo.toml`.
//!
//! A model runs whole on the CPU in a [`Session`]:
//!
//! ```
//! use std::path::Path;
//! use triune::{Error, Session, SessionOptions, TensorRef};
//!
//! # fn main() -> Result<(), Error> {
//! let mut session = Session::open(Path::new("models/edges.onnx"), &SessionOptions { threads: 0, ..Default::default() })?;
//! let pixels = vec![0.5f32; 8 * 8];
//! let outputs = session.run(&[TensorRef::of(&pixels, &[1, 1, 8, 8])])?;
//! let edges: &[f32] = outputs[0].as_slice()?;
//! println!("{} values", edges.len());
//! # Ok(())
//! # }
//! ```
//!
//! Or its integer core is compiled for an NPU, deployed to a simulated device and run there, with an account of what the
//! device would have taken:
//!
//! ```
//! use std::path::Path;
//! use triune::{CompileOptions, DeployOptions, Deployment, Device, DeviceSpec, Package};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let spec = DeviceSpec::builtin("metis")?;
//! let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
//! let package = Package::write(&compiled, &folder.join("edges"))?;
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

/// How a model becomes a program.
///
/// ```
/// use std::path::Path;
/// use triune::{CompileOptions, DeviceSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec = DeviceSpec::builtin("metis")?;
/// let options = CompileOptions { batch: 4, ..CompileOptions::default() };
/// let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &options)?;
/// assert_eq!(compiled.program.batch, 4);
/// # Ok(())
/// # }
/// ```
pub use triune_compiler::CompileOptions;

/// What [`compile`] gives.
///
/// ```
/// use std::path::Path;
/// use triune::{CompileOptions, Compiled, DeviceSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let spec = DeviceSpec::builtin("metis")?;
/// let compiled: Compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
/// assert_eq!(compiled.program.target, "metis");
/// // All of it runs on the device: no node is left for the host.
/// assert!(compiled.preprocess.is_none() && compiled.postprocess.is_none());
/// println!("{} nodes in {} commands", compiled.summary.device_nodes, compiled.summary.commands);
/// # Ok(())
/// # }
/// ```
pub use triune_compiler::Compiled;

/// How memory is planned.
///
/// ```
/// use std::path::Path;
/// use triune::{CompileOptions, DeviceSpec, PlanOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec = DeviceSpec::builtin("metis")?;
/// let plan = PlanOptions { in_place: true, ..PlanOptions::default() };
/// let options = CompileOptions { plan, ..CompileOptions::default() };
/// let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &options)?;
/// assert!(compiled.program.scratch_bytes >= compiled.program.scratch_lower_bound);
/// # Ok(())
/// # }
/// ```
pub use triune_compiler::PlanOptions;

/// What a package holds and a deployment runs.
///
/// ```
/// use std::path::Path;
/// use triune::{CompileOptions, DeviceSpec, Program};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let spec = DeviceSpec::builtin("metis")?;
/// # let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
/// let program: &Program = &compiled.program;
/// for input in &program.inputs {
///     println!("{}: {} bytes", input.name, input.bytes());
/// }
/// assert!(!program.operators.is_empty() && !program.instructions.is_empty());
/// # Ok(())
/// # }
/// ```
pub use triune_compiler::Program;

/// What a device is: those that come with Triune, or one of a file.
///
/// ```
/// use triune::DeviceSpec;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec = DeviceSpec::builtin("metis")?;
/// assert_eq!(spec.cores, 4);
/// // What comes with Triune is a file, and so is a device of one's own.
/// assert!(DeviceSpec::builtin("no such device").is_err());
/// # Ok(())
/// # }
/// ```
pub use triune_device::DeviceSpec;

/// A run can be stopped from elsewhere.
///
/// ```
/// use std::path::Path;
/// use triune::{CancelToken, Session, SessionOptions, TensorRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// # let mut session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let token = CancelToken::new();
/// // Another thread has a clone of it, and may stop the run.
/// token.clone().cancel();
/// let stopped = token.during(|| session.run(&[TensorRef::of(&[1.0f32; 4], &[1, 4])]));
/// assert!(stopped.is_err());
/// // The session is as before.
/// session.run(&[TensorRef::of(&[1.0f32; 4], &[1, 4])])?;
/// # Ok(())
/// # }
/// ```
pub use triune_kernels::CancelToken;

/// Cores, clock and threads of a deployment.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use triune::{CompileOptions, DeployOptions, Deployment, Device, DeviceSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let spec = DeviceSpec::builtin("metis")?;
/// # let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
/// # let program = Arc::new(compiled.program);
/// let device = Device::new(spec)?;
/// let slow = DeployOptions { clock_mhz: Some(400), ..DeployOptions::default() };
/// let slow = Deployment::new(&device, &program, &slow)?;
/// let usual = Deployment::new(&device, &program, &DeployOptions::default())?;
/// assert!(slow.timeline().micros() > usual.timeline().micros());
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::DeployOptions;

/// A program on a simulated device.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use triune::{CompileOptions, DeployOptions, Deployment, Device, DeviceSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let spec = DeviceSpec::builtin("metis")?;
/// # let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
/// # let program = Arc::new(compiled.program);
/// let device = Device::new(spec)?;
/// let mut deployment = Deployment::new(&device, &program, &DeployOptions::default())?;
/// let input = vec![0; program.inputs[0].bytes()];
/// let mut output = vec![1; program.outputs[0].bytes()];
/// deployment.run(&[&input], &mut [&mut output])?;
/// // A picture without edges.
/// assert!(output.iter().all(|&byte| byte == 0));
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Deployment;

/// A simulated device in this process.
///
/// ```
/// use triune::{Device, DeviceSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::new(DeviceSpec::builtin("metis")?)?;
/// assert_eq!(device.spec().name, "metis");
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Device;

/// An extent of an input or output.
///
/// ```
/// use std::path::Path;
/// use triune::{Dim, Session, SessionOptions};
///
/// # fn main() -> Result<(), triune::Error> {
/// let session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// // A batch of any size, which each run says, of four features.
/// assert_eq!(session.inputs()[0].dims, [Dim::Symbol("N".into()), Dim::Fixed(4)]);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Dim;

/// Numbers that tensors have.
///
/// ```
/// use triune::{DType, Element, Tensor};
///
/// # fn main() -> Result<(), triune::Error> {
/// fn mean<T: Element + Into<f64>>(tensor: &Tensor) -> Result<f64, triune::Error> {
///     let elements = tensor.as_slice::<T>()?;
///     Ok(elements.iter().map(|&element| element.into()).sum::<f64>() / elements.len() as f64)
/// }
///
/// let zeros = Tensor::zeros(DType::I32, [2, 3].into())?;
/// assert_eq!(mean::<i32>(&zeros)?, 0.0);
/// assert!(mean::<f32>(&zeros).is_err());
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Element;

/// What goes wrong, told by variants.
///
/// ```
/// use std::path::Path;
/// use triune::{Error, Session, SessionOptions};
///
/// match Session::open(Path::new("models/gone.onnx"), &SessionOptions::default()) {
///     Err(error @ Error::Compile(_)) => assert!(error.to_string().contains("gone.onnx")),
///     other => panic!("{other:?}"),
/// }
/// ```
pub use triune_runtime::Error;

/// Keys or values of [`Maps`].
///
/// ```
/// use triune::{MapElements, StringTensor};
///
/// let keys = MapElements::Strings(StringTensor { shape: [2].into(), texts: vec!["cat".into(), "dog".into()] });
/// assert!(matches!(&keys, MapElements::Strings(names) if names.texts.len() == 2));
/// ```
pub use triune_runtime::MapElements;

/// Maps that a model takes or gives, as those of classical learning do: a class and its score.
///
/// ```
/// use std::path::Path;
/// use triune::{MapElements, Session, SessionOptions, TensorRef, Value, ValueRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/pets.onnx"), &SessionOptions::default())?;
/// let features = [1.0f32, 3.0];
/// let outputs = session.run_values(&[ValueRef::Tensor(TensorRef::of(&features, &[1, 2]))], &mut [])?;
/// let Some(Value::Map(chances)) = &outputs[0] else { panic!("the model gives maps") };
/// let MapElements::Strings(classes) = &chances.keys else { panic!("the classes are strings") };
/// let MapElements::Numbers(scores) = &chances.values else { panic!("their scores are numbers") };
/// assert_eq!(classes.texts.iter().map(|name| &**name).collect::<Vec<_>>(), ["cat", "dog"]);
/// // A row of scores per map.
/// assert_eq!(scores.as_slice::<f32>()?, [1.0, 3.0]);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Maps;

/// A model that several sessions run.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use triune::{Model, ModelOptions, Session, SessionOptions, TensorRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// let model = Model::open(Path::new("models/sums.onnx"), &ModelOptions::default())?;
/// // A session per thread; all of them share the model's weights.
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         let model = Arc::clone(&model);
///         scope.spawn(move || {
///             let mut session = Session::of(model, &SessionOptions::default())?;
///             session.run(&[TensorRef::of(&[1.0f32; 4], &[1, 4])])
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Model;

/// How a model is read.
///
/// ```
/// use std::path::Path;
/// use triune::{Model, ModelOptions};
///
/// # fn main() -> Result<(), triune::Error> {
/// let model = Model::open(Path::new("models/sums.onnx"), &ModelOptions::default())?;
/// assert_eq!(model.outputs()[0].name, "sums");
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::ModelOptions;

/// A program in a folder.
///
/// ```
/// use std::path::Path;
/// use triune::{CompileOptions, DeviceSpec, Package};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("edges");
/// # let spec = DeviceSpec::builtin("metis")?;
/// # let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
/// Package::write(&compiled, &folder)?;
/// let package = Package::load(&folder.join("model.json"))?;
/// assert_eq!(package.program().instructions, compiled.program.instructions);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Package;

/// A model on the CPU.
///
/// ```
/// use std::path::Path;
/// use triune::{Session, SessionOptions, TensorRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let features = [1.0f32, 2.0, -3.0, 1.0];
/// let outputs = session.run_named(&[("x", TensorRef::of(&features, &[1, 4]))])?;
/// assert_eq!(outputs[0].as_slice::<f32>()?, [3.0, 0.0]);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Session;

/// Threads and memory of a session.
///
/// ```
/// use std::path::Path;
/// use triune::{Session, SessionOptions};
///
/// # fn main() -> Result<(), triune::Error> {
/// let every_cpu = SessionOptions { threads: 0, ..SessionOptions::default() };
/// Session::open(Path::new("models/sums.onnx"), &every_cpu)?;
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::SessionOptions;

/// Strings that a model takes or gives.
///
/// ```
/// use std::path::Path;
/// use triune::{Session, SessionOptions, StringTensor, Value, ValueRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/greeting.onnx"), &SessionOptions::default())?;
/// let names = StringTensor { shape: [2].into(), texts: vec!["Ada".into(), "Grace".into()] };
/// let outputs = session.run_values(&[ValueRef::Strings(&names)], &mut [])?;
/// let Some(Value::Strings(greetings)) = &outputs[0] else { panic!("the model gives strings") };
/// assert_eq!(&*greetings.texts[1], "hello, Grace");
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::StringTensor;

/// What a run gives.
///
/// ```
/// use std::path::Path;
/// use triune::{DType, Session, SessionOptions, Tensor};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let input = Tensor::zeros(DType::F32, [3, 4].into())?;
/// let output: Tensor = session.run(&[input.view()])?.remove(0);
/// assert_eq!((output.dtype, &output.shape[..]), (DType::F32, &[3, 2][..]));
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Tensor;

/// A place of the caller's that a run writes to.
///
/// ```
/// use std::path::Path;
/// use triune::{DType, Session, SessionOptions, TensorMut, TensorRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let mut bytes = [0; 8];
/// let place = TensorMut { dtype: DType::F32, shape: &[1, 2], bytes: &mut bytes };
/// session.run_into(&[TensorRef::of(&[1.0f32; 4], &[1, 4])], &mut [Some(place)])?;
/// assert_eq!(bytes[..4], 2.0f32.to_le_bytes());
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::TensorMut;

/// What a run takes.
///
/// ```
/// use triune::{DType, TensorRef};
///
/// let elements = [1i32, -1];
/// let operand = TensorRef::of(&elements, &[2]);
/// assert_eq!(operand.dtype, DType::I32);
/// assert_eq!(operand.bytes.len(), 8);
/// ```
pub use triune_runtime::TensorRef;

/// What a run gives where that need not be a tensor.
///
/// ```
/// use std::path::Path;
/// use triune::{DType, Session, SessionOptions, Tensor, Value};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let input = Value::from(Tensor::zeros(DType::F32, [1, 4].into())?);
/// let outputs = session.run_values(&[input.view()], &mut [])?;
/// assert!(matches!(outputs[0], Some(Value::Tensor(_))));
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Value;

/// What a model says of an input or output.
///
/// ```
/// use std::path::Path;
/// use triune::{DType, Session, SessionOptions, ValueInfo};
///
/// # fn main() -> Result<(), triune::Error> {
/// let session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let input: &ValueInfo = &session.inputs()[0];
/// assert_eq!((&*input.name, input.dtype, input.dims.len()), ("x", DType::F32, 2));
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::ValueInfo;

/// Whether an input or output is a tensor.
///
/// ```
/// use std::path::Path;
/// use triune::{Session, SessionOptions, ValueKind};
///
/// # fn main() -> Result<(), triune::Error> {
/// let session = Session::open(Path::new("models/greeting.onnx"), &SessionOptions::default())?;
/// assert_eq!(session.inputs()[0].kind, ValueKind::Strings);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::ValueKind;

/// What a run takes where that need not be a tensor.
///
/// ```
/// use std::path::Path;
/// use triune::{Session, SessionOptions, TensorRef, ValueRef};
///
/// # fn main() -> Result<(), triune::Error> {
/// let mut session = Session::open(Path::new("models/sums.onnx"), &SessionOptions::default())?;
/// let features = [0.5f32; 4];
/// let outputs = session.run_values(&[ValueRef::Tensor(TensorRef::of(&features, &[1, 4]))], &mut [])?;
/// assert_eq!(outputs.len(), 1);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::ValueRef;

/// Memory that sessions share.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use triune::{Session, SessionOptions, TensorRef, Workspace};
///
/// # fn main() -> Result<(), triune::Error> {
/// let workspace = Workspace::new()?;
/// let options = SessionOptions { workspace: Some(Arc::clone(&workspace)), ..SessionOptions::default() };
/// // They take turns in the same memory.
/// let mut first = Session::open(Path::new("models/sums.onnx"), &options)?;
/// let mut second = Session::open(Path::new("models/edges.onnx"), &options)?;
/// first.run(&[TensorRef::of(&[1.0f32; 4], &[1, 4])])?;
/// second.run(&[TensorRef::of(&[1.0f32; 64], &[1, 1, 8, 8])])?;
/// assert!(workspace.bytes() > 0);
/// # Ok(())
/// # }
/// ```
pub use triune_runtime::Workspace;

/// The types of elements.
///
/// ```
/// use triune::DType;
///
/// assert_eq!(DType::from_name("int8"), Some(DType::I8));
/// assert_eq!(DType::F16.bytes(), 2);
/// ```
pub use triune_tensor::DType;

/// The extents of a tensor.
///
/// ```
/// use triune::Shape;
///
/// let shape = Shape::from([2, 3]);
/// assert_eq!((shape.rank(), shape.elements()), (2, Some(6)));
/// assert_eq!(shape.strides()[..], [3, 1]);
/// ```
pub use triune_tensor::Shape;

/// The crates that the rest is made of. What they offer may change with every version.
///
/// ```
/// let graph = triune::internals::graph::format::read(std::path::Path::new("models/sums.onnx"))?;
/// assert_eq!(graph.nodes.len(), 2);
/// # Ok::<(), triune::Error>(())
/// ```
pub mod internals {
    pub use triune_compiler as compiler;
    pub use triune_device as device;
    pub use triune_files as files;
    pub use triune_fork as fork;
    pub use triune_graph as graph;
    #[cfg(feature = "icraft")]
    pub use triune_icraft as icraft;
    pub use triune_kernels as kernels;
    #[cfg(feature = "remote-without-tls")]
    pub use triune_remote as remote;
    pub use triune_runtime as runtime;
    pub use triune_tensor as tensor;
}

/// Compiles the integer core of a quantized model for a device: a file of any format that [`Session::open`] takes.
///
/// ```
/// use std::path::Path;
/// use triune::{CompileOptions, DeviceSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec = DeviceSpec::builtin("metis")?;
/// let compiled = triune::compile(Path::new("models/edges.onnx"), &spec, &CompileOptions::default())?;
/// assert_eq!(compiled.summary.between_nodes, 0);
/// // Nothing in this one is quantized.
/// assert!(triune::compile(Path::new("models/sums.onnx"), &spec, &CompileOptions::default()).is_err());
/// # Ok(())
/// # }
/// ```
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
