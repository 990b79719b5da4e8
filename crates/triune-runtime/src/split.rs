//! A model on the host and a simulated device in turns: its integer core there, the rest here, with the results of the host alone
//! (where that has the device's factors: `Graph::requantize`).
//!
//! The cut is made in the graph as it is prepared for the host, at integer tensors: both sides compute exactly what the
//! host would.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use triune_compiler::{
    adapt, compile_core, host_io,
    partition::{HostPart, Origin, parts},
};
use triune_device::{DeviceSpec, Inputs, Outputs};
use triune_graph::{Graph, passes};
use triune_tensor::{DType, Shape, memory};

use crate::{
    DeployOptions, Deployment, Device, Error, Model, OperatorTime, Outline, Session, SessionOptions, Tensor,
    TensorIo, TensorRef, between::walk,
};

/// A model bound to shapes, in parts.
#[derive(Debug)]
pub(crate) struct Split {
    inputs: Vec<(DType, Shape)>,
    /// What the host computes before, between and behind the core's stages.
    hosts: Vec<Part>,
    deployment: Deployment,
    outline: Outline,
    core_inputs: Vec<Wire>,
    core_outputs: Vec<Wire>,
    outputs: Vec<Origin>,
    ios: Vec<TensorIo>,
    /// Nanoseconds that the core's last run took, if it was profiled.
    time: Option<u64>,
}

/// A part on the host.
#[derive(Debug)]
struct Part {
    /// None where there is nothing to compute.
    session: Option<Session>,
    inputs: Vec<Origin>,
}

/// A tensor at the core's border, as the host has it.
#[derive(Clone, Copy, Debug)]
struct Wire {
    /// Where an input comes from; the output itself.
    origin: Origin,
    dtype: DType,
    shape: Shape,
}

/// Tensors of a run, part by part.
struct Tensors<'a> {
    model: Vec<TensorRef<'a>>,
    hosts: Vec<Vec<Tensor>>,
    /// Those that the core has given so far.
    core: Vec<Option<Tensor>>,
}

impl Tensors<'_> {
    fn get(&self, origin: Origin) -> Result<TensorRef<'_>, Error> {
        let found = match origin {
            Origin::Model(index) => self.model.get(index).copied(),
            Origin::Host(part, index) => {
                self.hosts.get(part).and_then(|part| part.get(index)).map(Tensor::view)
            }
            Origin::Core(index) => self.core.get(index).and_then(Option::as_ref).map(Tensor::view),
        };
        found.ok_or_else(|| Error::internal("a tensor is read before anything makes it"))
    }

    /// Runs a part on the host.
    fn host(&mut self, part: &mut Part) -> Result<(), Error> {
        let made = match &mut part.session {
            None => Vec::new(),
            Some(session) => {
                let operands = part.inputs.iter().map(|&origin| self.get(origin));
                session.run(&operands.collect::<Result<Vec<_>, Error>>()?)?
            }
        };
        self.hosts.push(made);
        Ok(())
    }
}

impl Split {
    /// Prepares a bound graph, compiles its integer core for a device of its own and the rest for the host. `None` if there are
    /// no operators for the device.
    pub(crate) fn new(mut graph: Graph, spec: &DeviceSpec, threads: usize) -> Result<Option<Self>, Error> {
        adapt(&mut graph, spec);
        passes::prepare(&mut graph)?;
        let Some(parts) = parts(&graph, spec.int16)? else { return Ok(None) };
        let program = Arc::new(compile_core(&parts.core, parts.turns, spec)?);
        let device = Device::new(spec.clone())?;
        let deployment =
            Deployment::new(&device, &program, &DeployOptions { threads, ..DeployOptions::default() })?;
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let part = |HostPart { graph, inputs }: HostPart| -> Result<Part, Error> {
            let session = graph.map(|part| Session::of(Model::new(part), &options)).transpose()?;
            Ok(Part { session, inputs })
        };
        let meanings = graph.meanings();
        let wire = |id, origin| -> Result<Wire, Error> {
            let io = host_io(&graph, &meanings, id)?;
            Ok(Wire { origin, dtype: io.dtype, shape: io.shape })
        };
        let ios = |ids: &[triune_graph::ValueId]| -> Result<Vec<TensorIo>, Error> {
            ids.iter().map(|&id| Ok(host_io(&graph, &meanings, id)?)).collect()
        };
        let core_inputs = parts.core_inputs.into_iter().map(|(id, origin)| wire(id, origin));
        let core_outputs = parts.core_outputs.into_iter().enumerate();
        let core_outputs = core_outputs.map(|(index, id)| wire(id, Origin::Core(index)));
        Ok(Some(Self {
            inputs: ios(&graph.inputs)?.iter().map(|io| (io.dtype, io.shape)).collect(),
            hosts: parts.hosts.into_iter().map(part).collect::<Result<_, _>>()?,
            deployment,
            outline: Outline::of(&graph),
            core_inputs: core_inputs.collect::<Result<_, _>>()?,
            core_outputs: core_outputs.collect::<Result<_, _>>()?,
            outputs: parts.outputs,
            ios: ios(&graph.outputs)?,
            time: None,
        }))
    }

    /// The model's outputs.
    pub(crate) fn outputs(&self) -> &[TensorIo] {
        &self.ios
    }

    /// The operators of all parts.
    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The core on its device.
    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Times of the last run, if it was profiled.
    pub(crate) fn operator_times(&self) -> Vec<OperatorTime> {
        let part = |part: &Part| part.session.as_ref().map(Session::operator_times).unwrap_or_default();
        let core = self.time.map(|nanos| OperatorTime {
            name: self.deployment.program().target.clone(),
            kind: OperatorTime::DEVICE.into(),
            nanos,
        });
        let (before, others) = self.hosts.split_at(1.min(self.hosts.len()));
        let before = before.iter().flat_map(part);
        before.chain(core).chain(others.iter().flat_map(part)).collect()
    }

    /// Runs once.
    pub(crate) fn run(
        &mut self,
        given: &dyn Inputs,
        wanted: &mut dyn Outputs,
        profiled: bool,
    ) -> Result<(), Error> {
        for session in self.hosts.iter_mut().filter_map(|part| part.session.as_mut()) {
            session.profile(profiled);
        }
        let inputs = self.inputs.clone();
        let results = {
            let model = inputs.iter().enumerate();
            let model: Vec<TensorRef<'_>> = model
                .map(|(index, (dtype, shape))| TensorRef { dtype: *dtype, shape, bytes: given.input(index) })
                .collect();
            let core = self.core_outputs.iter().map(|_| None).collect();
            let mut tensors = Tensors { model, hosts: Vec::with_capacity(self.hosts.len()), core };
            let time = self.run_parts(&mut tensors)?;
            self.time = profiled.then_some(time);
            let bytes = |&origin: &Origin| Ok(tensors.get(origin)?.bytes.to_vec());
            self.outputs.iter().map(bytes).collect::<Result<Vec<_>, Error>>()?
        };
        for (index, result) in results.iter().enumerate() {
            let output = wanted.output(index);
            if output.len() != result.len() {
                return Err(Error::Operand {
                    what: format!("output '{}'", self.ios[index].name),
                    expected: format!("{} bytes", result.len()),
                    got: format!("{} bytes", output.len()),
                });
            }
            output.copy_from_slice(result);
        }
        Ok(())
    }

    /// Runs host and device in turns; gives the nanoseconds that simulating the device took.
    fn run_parts(&mut self, tensors: &mut Tensors<'_>) -> Result<u64, Error> {
        let Self { hosts, deployment, core_inputs, core_outputs, .. } = self;
        let program = Arc::clone(deployment.program());
        let given = program.given().len();
        let (first, others) =
            hosts.split_first_mut().ok_or_else(|| Error::internal("no part on the host"))?;
        tensors.host(first)?;
        let inputs = (0..given).map(|index| to_device(tensors, &core_inputs[index], &program.inputs[index]));
        let inputs: Vec<Vec<u8>> = inputs.collect::<Result<_, _>>()?;
        let mut outputs: Vec<Vec<u8>> =
            program.results().iter().map(|io| memory::filled(io.bytes(), 0)).collect::<Result<_, _>>()?;
        let sources: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let (start, mut waited) = (Instant::now(), Duration::ZERO);
        deployment.run_with(&sources, &mut targets, &mut |number, read| {
            let begun = Instant::now();
            let wait = &program.waits[number];
            for (&index, padded) in wait.reads.iter().zip(read) {
                let tensor = from_device(padded, &core_outputs[index], &program.outputs[index])?;
                tensors.core[index] = Some(tensor);
            }
            tensors.host(&mut others[number])?;
            let made = wait.makes.iter();
            let made = made.map(|&index| to_device(tensors, &core_inputs[index], &program.inputs[index]));
            let made = made.collect();
            waited += begun.elapsed();
            made
        })?;
        let took = start.elapsed().saturating_sub(waited);
        for (index, padded) in outputs.iter().enumerate() {
            tensors.core[index] = Some(from_device(padded, &core_outputs[index], &program.outputs[index])?);
        }
        let last = others.last_mut().ok_or_else(|| Error::internal("no part behind the device"))?;
        tensors.host(last)?;
        Ok(took.as_nanos() as u64)
    }
}

/// A tensor as the device's buffer has it.
fn to_device(tensors: &Tensors<'_>, wire: &Wire, io: &TensorIo) -> Result<Vec<u8>, Error> {
    let dense = tensors.get(wire.origin)?.bytes;
    let size = io.dtype.bytes();
    let zero_point = &io.zero_point.to_le_bytes()[..size];
    let mut bytes = memory::with_room(io.bytes())?;
    (0..io.bytes() / size).for_each(|_| bytes.extend_from_slice(zero_point));
    walk(wire.shape.rank(), io, &mut |host, device| scatter(&mut bytes, device, dense, host, wire, io));
    Ok(bytes)
}

/// A tensor as the host has it.
fn from_device(padded: &[u8], wire: &Wire, io: &TensorIo) -> Result<Tensor, Error> {
    let size = wire.shape.iter().product::<usize>() * wire.dtype.bytes();
    let mut bytes = memory::filled(size, 0)?;
    walk(wire.shape.rank(), io, &mut |host, device| scatter(&mut bytes, host, padded, device, wire, io));
    Ok(Tensor { dtype: wire.dtype, shape: wire.shape, bytes })
}

/// Copies an element between host and device, with its sign bit flipped where the device has other integers for the same
/// reals.
fn scatter(to: &mut [u8], at: usize, from: &[u8], index: usize, wire: &Wire, io: &TensorIo) {
    if wire.dtype != io.dtype {
        to[at] = from[index] ^ 0x80;
        return;
    }
    let size = wire.dtype.bytes();
    to[at * size..][..size].copy_from_slice(&from[index * size..][..size]);
}
