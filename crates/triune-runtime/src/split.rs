//! A model on the host and a simulated device: its integer core there, the rest here, with the results of the host alone
//! (where that has the device's factors: `Graph::requantize`).
//!
//! The cut is made in the graph as it is prepared for the host, at integer tensors: both sides compute exactly what the
//! host would.

use std::{sync::Arc, time::Instant};

use triune_compiler::{
    adapt, compile_core, host_io,
    partition::{Origin, parts},
};
use triune_device::{Border, DeviceSpec};
use triune_graph::{Graph, passes};
use triune_tensor::{DType, Shape, memory};

use crate::{
    DeployOptions, Deployment, Device, Error, Model, OperatorTime, Outline, Session, SessionOptions, Tensor,
    TensorIo, TensorRef,
};

/// A model bound to shapes, in parts.
#[derive(Debug)]
pub(crate) struct Split {
    inputs: Vec<(DType, Shape)>,
    before: Option<Session>,
    behind: Option<Session>,
    deployment: Deployment,
    outline: Outline,
    core_inputs: Vec<Wire>,
    core_outputs: Vec<Wire>,
    behind_inputs: Vec<Origin>,
    outputs: Vec<Origin>,
    ios: Vec<TensorIo>,
    /// Nanoseconds that the core's last run took, if it was profiled.
    time: Option<u64>,
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
    before: Vec<Tensor>,
    core: Vec<Tensor>,
    behind: Vec<Tensor>,
}

impl Tensors<'_> {
    fn get(&self, origin: Origin) -> TensorRef<'_> {
        match origin {
            Origin::Model(index) => self.model[index],
            Origin::Before(index) => self.before[index].view(),
            Origin::Core(index) => self.core[index].view(),
            Origin::Behind(index) => self.behind[index].view(),
        }
    }
}

impl Split {
    /// Prepares a bound graph, compiles its integer core for a device of its own and the rest for the host. `None` if there are
    /// no operators for the device.
    pub(crate) fn new(mut graph: Graph, spec: &DeviceSpec, threads: usize) -> Result<Option<Self>, Error> {
        adapt(&mut graph, spec);
        passes::prepare(&mut graph)?;
        let Some(parts) = parts(&graph, spec.int16)? else { return Ok(None) };
        let program = Arc::new(compile_core(&parts.core, spec)?);
        let device = Device::new(spec.clone())?;
        let deployment =
            Deployment::new(&device, &program, &DeployOptions { threads, ..DeployOptions::default() })?;
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let session =
            |part: Option<Graph>| part.map(|part| Session::of(Model::new(part), &options)).transpose();
        let meanings = graph.meanings();
        let wire = |(id, origin)| -> Result<Wire, Error> {
            let io = host_io(&graph, &meanings, id)?;
            Ok(Wire { origin, dtype: io.dtype, shape: io.shape })
        };
        let ios = |ids: &[triune_graph::ValueId]| -> Result<Vec<TensorIo>, Error> {
            ids.iter().map(|&id| Ok(host_io(&graph, &meanings, id)?)).collect()
        };
        Ok(Some(Self {
            inputs: ios(&graph.inputs)?.iter().map(|io| (io.dtype, io.shape)).collect(),
            before: session(parts.before)?,
            behind: session(parts.behind)?,
            deployment,
            outline: Outline::of(&graph),
            core_inputs: parts.core_inputs.into_iter().map(wire).collect::<Result<_, _>>()?,
            core_outputs: parts.core_outputs.into_iter().map(wire).collect::<Result<_, _>>()?,
            behind_inputs: parts.behind_inputs,
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
        let part = |part: &Option<Session>| part.as_ref().map(Session::operator_times).unwrap_or_default();
        let core = self.time.map(|nanos| OperatorTime {
            name: self.deployment.program().target.clone(),
            kind: OperatorTime::DEVICE.into(),
            nanos,
        });
        part(&self.before).into_iter().chain(core).chain(part(&self.behind)).collect()
    }

    /// Runs once.
    pub(crate) fn run(&mut self, border: &mut dyn Border, profiled: bool) -> Result<(), Error> {
        for part in [&mut self.before, &mut self.behind].into_iter().flatten() {
            part.profile(profiled);
        }
        let inputs = self.inputs.clone();
        let results = {
            let border = &*border;
            let model = inputs.iter().enumerate();
            let model: Vec<TensorRef<'_>> = model
                .map(|(index, (dtype, shape))| TensorRef { dtype: *dtype, shape, bytes: border.input(index) })
                .collect();
            let before = self.before.as_mut().map(|part| part.run(&model)).transpose()?.unwrap_or_default();
            let mut tensors = Tensors { model, before, core: Vec::new(), behind: Vec::new() };
            let start = Instant::now();
            tensors.core = self.run_core(&tensors)?;
            self.time = profiled.then(|| start.elapsed().as_nanos() as u64);
            if let Some(behind) = &mut self.behind {
                let operands: Vec<_> = self.behind_inputs.iter().map(|&origin| tensors.get(origin)).collect();
                tensors.behind = behind.run(&operands)?;
            }
            self.outputs.iter().map(|&origin| tensors.get(origin).bytes.to_vec()).collect::<Vec<_>>()
        };
        for (index, result) in results.iter().enumerate() {
            let output = border.output(index);
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

    fn run_core(&mut self, tensors: &Tensors<'_>) -> Result<Vec<Tensor>, Error> {
        let program = Arc::clone(self.deployment.program());
        let inputs: Vec<Vec<u8>> = self
            .core_inputs
            .iter()
            .zip(&program.inputs)
            .map(|(wire, io)| {
                let dense = tensors.get(wire.origin).bytes;
                let size = io.dtype.bytes();
                let zero_point = &io.zero_point.to_le_bytes()[..size];
                let mut bytes = memory::with_room(io.bytes())?;
                (0..io.bytes() / size).for_each(|_| bytes.extend_from_slice(zero_point));
                walk(wire, io, &mut |host, device| scatter(&mut bytes, device, dense, host, wire, io));
                Ok(bytes)
            })
            .collect::<Result<_, Error>>()?;
        let mut outputs: Vec<Vec<u8>> =
            program.outputs.iter().map(|io| memory::filled(io.bytes(), 0)).collect::<Result<_, _>>()?;
        let sources: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        self.deployment.run(&sources, &mut targets)?;
        let dense = |((wire, io), padded): ((&Wire, &TensorIo), &Vec<u8>)| {
            let size = wire.shape.iter().product::<usize>() * wire.dtype.bytes();
            let mut bytes = memory::filled(size, 0)?;
            walk(wire, io, &mut |host, device| scatter(&mut bytes, host, padded, device, wire, io));
            Ok(Tensor { dtype: wire.dtype, shape: wire.shape, bytes })
        };
        self.core_outputs.iter().zip(&program.outputs).zip(&outputs).map(dense).collect()
    }
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

/// Calls `f` with the index of every element on the host and on the device.
fn walk(wire: &Wire, io: &TensorIo, f: &mut dyn FnMut(usize, usize)) {
    // Images lie with channels last on the device; other ranks in their own order.
    let ([n, c, h, w], image) = match *wire.shape {
        [n, c, h, w] => ([n, c, h, w], true),
        [n, w, c] => ([n, c, 1, w], false),
        [n, c] => ([n, c, 1, 1], false),
        _ => return,
    };
    let ([_, rows, columns, channels], padding) = (
        [io.shape[0], io.shape[1], io.shape[2], io.shape[3]],
        [io.padding[1].0, io.padding[2].0, io.padding[3].0],
    );
    for image_index in 0..n {
        for y in 0..h {
            for x in 0..w {
                let pixel = (image_index * rows + padding[0] + y) * columns + padding[1] + x;
                for channel in 0..c {
                    let host = if image {
                        ((image_index * c + channel) * h + y) * w + x
                    } else {
                        (image_index * w + x) * c + channel
                    };
                    f(host, pixel * channels + padding[2] + channel);
                }
            }
        }
    }
}
