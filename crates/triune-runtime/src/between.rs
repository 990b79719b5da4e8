//! What the host computes while a program waits for it: a model over reals between integers of the device.

use std::{collections::HashSet, path::Path};

use triune_graph::Dim;
use triune_tensor::{DType, QuantParams, Rounding, memory};

use crate::{Error, Program, Session, SessionOptions, Tensor, TensorIo, TensorRef, ValueInfo};

/// A part of a model on the host, between two stages of a program.
#[derive(Debug)]
pub struct BetweenPart {
    session: Session,
    /// Where each input of the session comes from.
    reads: Vec<Source>,
    /// Which of the session's outputs each tensor that the wait wants is.
    makes: Vec<usize>,
    wait: usize,
    /// What it makes that a later part reads, by the session's outputs.
    keeps: HashSet<usize>,
    /// What no later part reads.
    frees: Vec<Source>,
}

/// Where a part on the host has a tensor from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The program, by its place among the wait's reads.
    Program(usize),
    /// The caller, by its number in [`Program::beside`].
    Caller(usize),
    /// An earlier part, and the number there.
    Part(usize, usize),
}

/// What waits on the host in a run until the last part has read it.
#[derive(Debug)]
pub(crate) struct Kept {
    beside: Vec<Option<Tensor>>,
    made: Vec<Vec<Option<Tensor>>>,
}

impl Kept {
    /// With what the caller gives for the host alone.
    pub(crate) fn new(program: &Program, beside: &[&[u8]]) -> Result<Self, Error> {
        let tensors = program.beside.iter().zip(beside).map(|(io, bytes)| Ok(Some(dense(io, bytes)?)));
        Ok(Self { beside: tensors.collect::<Result<_, Error>>()?, made: Vec::new() })
    }

    fn place(&mut self, source: Source) -> Option<&mut Option<Tensor>> {
        match source {
            Source::Program(_) => None,
            Source::Caller(index) => self.beside.get_mut(index),
            Source::Part(part, index) => self.made.get_mut(part)?.get_mut(index),
        }
    }

    fn get(&self, source: Source) -> Option<&Tensor> {
        match source {
            Source::Program(_) => None,
            Source::Caller(index) => self.beside.get(index)?.as_ref(),
            Source::Part(part, index) => self.made.get(part)?.get(index)?.as_ref(),
        }
    }
}

/// Lets the parts of a program keep what later ones read, and no longer than these do.
pub(crate) fn keep_until_read(program: &Program, parts: &mut [BetweenPart]) -> Result<(), Error> {
    let mut read: HashSet<Source> = HashSet::new();
    for at in (0..parts.len()).rev() {
        let outputs: Vec<usize> = parts[..at].iter().map(|part| part.session.outputs().len()).collect();
        let part = &mut parts[at];
        let is_there = |source: &Source| match *source {
            Source::Program(index) => program.waits.get(at).is_some_and(|wait| index < wait.reads.len()),
            Source::Caller(index) => index < program.beside.len(),
            Source::Part(part, index) => outputs.get(part).is_some_and(|&count| index < count),
        };
        if part.wait != at || !part.reads.iter().all(is_there) {
            return Err(Error::argument("the parts on the host are not in the order of the program's waits"));
        }
        part.keeps = (0..part.session.outputs().len())
            .filter(|&index| read.contains(&Source::Part(at, index)))
            .collect();
        part.frees = part.reads.iter().copied().filter(|source| read.insert(*source)).collect();
    }
    Ok(())
}

/// Whether a tensor of a session has a type and extents.
fn fits(info: &ValueInfo, dtype: DType, shape: &[usize]) -> bool {
    let same = |(dim, &extent): (&Dim, &usize)| *dim == Dim::Fixed(extent);
    info.dtype == dtype && info.dims.len() == shape.len() && info.dims.iter().zip(shape).all(same)
}

impl BetweenPart {
    /// The ONNX file at `path` as what the host does in a wait of a program, the one behind those of `earlier`.
    ///
    /// # Errors
    /// As [`Session::open`]; [`Error::Package`] where the file does not take and give the program's tensors, by name, or takes what
    /// neither callers nor `earlier` parts give.
    pub fn open(
        program: &Program,
        earlier: &[Self],
        path: &Path,
        options: &SessionOptions,
    ) -> Result<Self, Error> {
        let session = Session::open(path, options)?;
        let wait = earlier.len();
        let stated = program.waits.get(wait);
        let stated = stated.ok_or_else(|| Error::package(path, "the program does not wait so often"))?;
        let wrong = |name: &str| {
            Error::package(
                path,
                format!("its tensor '{name}' is none of the program's; compile the model again"),
            )
        };
        let source = |info: &ValueInfo| {
            let real = |io: &TensorIo| io.name == info.name && fits(info, DType::F32, &io.model_shape);
            let read =
                || stated.reads.iter().position(|&index| real(&program.outputs[index])).map(Source::Program);
            let given = |io: &TensorIo| io.name == info.name && fits(info, io.dtype, &io.model_shape);
            let beside = || program.beside.iter().position(given).map(Source::Caller);
            let same = |made: &ValueInfo| {
                made.name == info.name && made.dtype == info.dtype && made.dims == info.dims
            };
            let made = || {
                earlier.iter().enumerate().find_map(|(part, other)| {
                    other.session.outputs().iter().position(same).map(|index| Source::Part(part, index))
                })
            };
            read().or_else(beside).or_else(made).ok_or_else(|| wrong(&info.name))
        };
        let reads = session.inputs().iter().map(source).collect::<Result<_, _>>()?;
        let outputs = session.outputs();
        let makes = stated
            .makes
            .iter()
            .map(|&index| {
                let io = &program.inputs[index];
                let found = outputs.iter().position(|info| info.name == io.name);
                let missing = || {
                    Error::package(path, format!("it does not make '{}'; compile the model again", io.name))
                };
                let at = found.ok_or_else(missing)?;
                fits(&outputs[at], DType::F32, &io.model_shape).then_some(at).ok_or_else(|| wrong(&io.name))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { session, reads, makes, wait, keeps: HashSet::new(), frees: Vec::new() })
    }

    /// Makes the inputs that the program waits for of the outputs that it gave so far, and of what waits on the host.
    pub(crate) fn run(
        &mut self,
        program: &Program,
        read: &[Vec<u8>],
        kept: &mut Kept,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let wait = &program.waits[self.wait];
        let mut reals: Vec<Option<Vec<f32>>> = Vec::with_capacity(self.reads.len());
        for source in &self.reads {
            reals.push(match *source {
                Source::Program(at) => Some(dequantized(&program.outputs[wait.reads[at]], &read[at])?),
                Source::Caller(_) | Source::Part(..) => None,
            });
        }
        let inputs = self.reads.iter().zip(&reals).map(|(&source, reals)| match (source, reals) {
            (Source::Program(at), Some(reals)) => {
                Ok(TensorRef::of(reals, &program.outputs[wait.reads[at]].model_shape))
            }
            _ => kept
                .get(source)
                .map(Tensor::view)
                .ok_or_else(|| Error::internal("a part on the host reads what no part before it made")),
        });
        let made = self.session.run(&inputs.collect::<Result<Vec<_>, Error>>()?)?;
        let pairs = self.makes.iter().zip(&wait.makes);
        let results = pairs.map(|(&at, &index)| quantized(&program.inputs[index], made[at].as_slice()?));
        let results = results.collect::<Result<_, Error>>()?;
        for &source in &self.frees {
            if let Some(place) = kept.place(source) {
                *place = None;
            }
        }
        let made = made.into_iter().enumerate();
        kept.made.push(made.map(|(at, tensor)| self.keeps.contains(&at).then_some(tensor)).collect());
        Ok(results)
    }
}

/// A buffer of a caller in the model's own order of axes.
fn dense(io: &TensorIo, bytes: &[u8]) -> Result<Tensor, Error> {
    let size = io.dtype.bytes();
    let mut own = memory::filled(bytes.len(), 0)?;
    walk(io.model_shape.rank(), io, &mut |host, device| {
        own[host * size..][..size].copy_from_slice(&bytes[device * size..][..size]);
    });
    Ok(Tensor { dtype: io.dtype, shape: io.model_shape, bytes: own })
}

/// The reals of a buffer in the model's own order of axes.
fn dequantized(io: &TensorIo, bytes: &[u8]) -> Result<Vec<f32>, Error> {
    let quant = QuantParams { scale: io.scale, zero_point: io.zero_point };
    let mut reals = memory::filled(io.model_shape.iter().product(), 0.0_f32)?;
    walk(io.model_shape.rank(), io, &mut |host, device| {
        let q =
            if io.dtype == DType::I8 { i32::from(bytes[device].cast_signed()) } else { bytes[device].into() };
        reals[host] = quant.dequantize(q);
    });
    Ok(reals)
}

/// A buffer for reals in the model's own order of axes, as `QuantizeLinear` makes integers, with the zero point around.
fn quantized(io: &TensorIo, reals: &[f32]) -> Result<Vec<u8>, Error> {
    let quant = QuantParams { scale: io.scale, zero_point: io.zero_point };
    let mut bytes = memory::filled(io.bytes(), io.zero_point as u8)?;
    walk(io.model_shape.rank(), io, &mut |host, device| {
        bytes[device] = quant.quantize_by(Rounding::HalfToEven, reals[host], io.dtype) as u8;
    });
    Ok(bytes)
}

/// Calls `f` with the index of every element of a tensor in the model's order and in a device's buffer for it; `rank` is the
/// model's, whatever the buffer's.
pub(crate) fn walk(rank: usize, io: &TensorIo, f: &mut dyn FnMut(usize, usize)) {
    let (&[n, h, w, c], &[_, rows, columns, channels]) = (&*io.unpadded_shape(), &*io.shape) else { return };
    let padding = [io.padding[1].0, io.padding[2].0, io.padding[3].0];
    // Images lie with channels last on the device; other ranks in their own order.
    let image = rank == 4;
    for image_index in 0..n {
        for y in 0..h {
            for x in 0..w {
                let pixel = (image_index * rows + padding[0] + y) * columns + padding[1] + x;
                for channel in 0..c {
                    let host = if image {
                        ((image_index * c + channel) * h + y) * w + x
                    } else {
                        ((image_index * h + y) * w + x) * c + channel
                    };
                    f(host, pixel * channels + padding[2] + channel);
                }
            }
        }
    }
}
