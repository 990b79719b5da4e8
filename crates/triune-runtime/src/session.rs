//! Sessions: a model file run on the host, whole, with shapes bound by each call.

use std::{collections::HashMap, path::Path, sync::Arc};

use bytes::Bytes;
use triune_device::DeviceSpec;
use triune_graph::{Dim, Graph, format::onnx};
use triune_tensor::{DType, Shape};

use crate::{DeployOptions, Deployment, Device, Error, Program, compile::compile_host, lower::ALIGNMENT};

/// How a session runs.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Threads that a run uses, the caller's included; 0 means one per CPU core.
    pub threads: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { threads: 1 }
    }
}

/// What a model takes or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents; symbols are bound by each call.
    pub dims: Vec<Dim>,
}

/// A dense row-major operand of a run.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: &'a [usize],
    /// Elements, little-endian.
    pub bytes: &'a [u8],
}

/// A dense row-major result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Elements, little-endian.
    pub bytes: Vec<u8>,
}

/// A model on the host. Programs are compiled per set of input shapes and kept.
#[derive(Debug)]
pub struct Session {
    model: Graph,
    host: DeviceSpec,
    options: SessionOptions,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    deployments: HashMap<Vec<Shape>, Deployment>,
}

impl Session {
    /// Programs kept for different input shapes; the oldest are dropped beyond it.
    const KEPT: usize = 16;

    /// Opens an ONNX file.
    pub fn open(path: &Path, options: &SessionOptions) -> Result<Self, Error> {
        Self::new(onnx::read(path)?, options)
    }

    /// Opens an ONNX model in memory; external data is not available.
    pub fn from_bytes(bytes: impl Into<Bytes>, options: &SessionOptions) -> Result<Self, Error> {
        Self::new(onnx::read_bytes(bytes.into(), None)?, options)
    }

    /// A session over a graph.
    pub fn new(model: Graph, options: &SessionOptions) -> Result<Self, Error> {
        let info = |ids: &[triune_graph::ValueId]| {
            ids.iter()
                .map(|&id| {
                    let value = model.value(id);
                    ValueInfo {
                        name: value.name.clone(),
                        dtype: value.dtype.unwrap_or(DType::F32),
                        dims: value.shape.clone().unwrap_or_default(),
                    }
                })
                .collect()
        };
        let (inputs, outputs) = (info(&model.inputs), info(&model.outputs));
        let host = DeviceSpec::builtin("host")?;
        let mut session =
            Self { model, host, options: options.clone(), inputs, outputs, deployments: HashMap::new() };
        // A model without open extents is compiled at once, so that its errors show here and the first run is fast.
        if let Some(shapes) = session.default_shapes() {
            session.prepare(&shapes)?;
        }
        Ok(session)
    }

    /// What a run takes.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inputs
    }

    /// What a run gives.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.outputs
    }

    /// Compiles for these input shapes unless that is done; a later run with them starts at once.
    pub fn prepare(&mut self, shapes: &[Shape]) -> Result<&mut Deployment, Error> {
        if !self.deployments.contains_key(shapes) {
            if self.deployments.len() >= Self::KEPT {
                self.deployments.clear();
            }
            let mut graph = self.model.clone();
            let named: Vec<(&str, &[usize])> = self
                .inputs
                .iter()
                .map(|input| &*input.name)
                .zip(shapes.iter().map(|shape| &**shape))
                .collect();
            graph.bind(&named)?;
            let program = Arc::new(compile_host(graph, &self.host)?);
            let options = DeployOptions { threads: self.options.threads, ..DeployOptions::default() };
            let device = Device::new(sized(&self.host, &program))?;
            let deployment = Deployment::new(&device, &program, &options)?;
            self.deployments.insert(shapes.to_vec(), deployment);
        }
        self.deployments
            .get_mut(shapes)
            .ok_or_else(|| Error::Target("a program that was just made is gone".into()))
    }

    /// The shapes that the model gives its inputs, unless it leaves an extent open.
    pub fn default_shapes(&self) -> Option<Vec<Shape>> {
        self.model.inputs.iter().map(|&id| self.model.value(id).fixed_shape()).collect()
    }

    /// The outputs' shapes for inputs of these shapes, for which a program is compiled unless that is done.
    pub fn output_shapes(&mut self, shapes: &[Shape]) -> Result<Vec<Option<Shape>>, Error> {
        let deployment = self.prepare(shapes)?;
        Ok(deployment.program().outputs.iter().map(|io| Some(io.shape)).collect())
    }

    /// Runs the model on inputs in the order of [`Self::inputs`].
    pub fn run(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Tensor>, Error> {
        if inputs.len() != self.inputs.len() {
            return Err(Error::Operand {
                what: "number of inputs".into(),
                expected: self.inputs.len().to_string(),
                got: inputs.len().to_string(),
            });
        }
        let mut shapes = Vec::with_capacity(inputs.len());
        for (info, input) in self.inputs.iter().zip(inputs) {
            shapes.push(info.check(input)?);
        }
        let deployment = self.prepare(&shapes)?;
        let mut results: Vec<Tensor> = deployment
            .program()
            .outputs
            .iter()
            .map(|io| Tensor { dtype: io.dtype, shape: io.shape, bytes: vec![0; io.bytes()] })
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.bytes).collect();
        let mut outputs: Vec<&mut [u8]> = results.iter_mut().map(|result| &mut *result.bytes).collect();
        deployment.run(&inputs, &mut outputs)?;
        Ok(results)
    }
}

/// The host with as much memory as one deployment of the program takes: address space is not free everywhere.
fn sized(host: &DeviceSpec, program: &Program) -> DeviceSpec {
    let border = program.inputs.iter().chain(&program.outputs).map(|io| io.bytes() as u64);
    let parts = [program.instructions.len() as u64, program.constants.len() as u64, program.scratch_bytes];
    let bytes = parts.into_iter().chain(border).fold(ALIGNMENT, |sum, part| {
        sum.saturating_add(part.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX))
    });
    let mut spec = host.clone();
    for memory in &mut spec.memory {
        memory.bytes = memory.reserved.saturating_add(bytes);
    }
    spec
}

impl ValueInfo {
    /// Checks an operand against this and gives its shape.
    fn check(&self, input: &TensorRef<'_>) -> Result<Shape, Error> {
        let fail = |expected: String, got: String| Error::Operand {
            what: format!("input '{}'", self.name),
            expected,
            got,
        };
        if input.dtype != self.dtype {
            return Err(fail(self.dtype.to_string(), input.dtype.to_string()));
        }
        let matches = self.dims.len() == input.shape.len()
            && self.dims.iter().zip(input.shape).all(|(dim, &extent)| match dim {
                Dim::Fixed(fixed) => *fixed == extent,
                Dim::Symbol(_) => true,
            });
        let shape = Shape::new(input.shape).filter(|_| matches);
        let Some(shape) = shape else {
            let extents: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
            return Err(fail(format!("shape {}", self.shape_text()), format!("({})", extents.join(", "))));
        };
        if shape.contains(&0) {
            return Err(fail(format!("shape {} without empty axes", self.shape_text()), shape.to_string()));
        }
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(self.dtype.bytes()));
        let Some(bytes) = bytes else {
            return Err(fail("a size that fits memory".into(), format!("shape {shape}")));
        };
        if bytes != input.bytes.len() {
            return Err(fail(
                format!("{bytes} bytes for shape {shape}"),
                format!("{} bytes", input.bytes.len()),
            ));
        }
        Ok(shape)
    }

    /// The extents as text, symbols by name.
    fn shape_text(&self) -> String {
        let dims: Vec<String> = self
            .dims
            .iter()
            .map(|dim| match dim {
                Dim::Fixed(extent) => extent.to_string(),
                Dim::Symbol(symbol) => symbol.to_string(),
            })
            .collect();
        format!("({})", dims.join(", "))
    }
}
