//! What the host computes while a program waits for it: a model over reals between integers of the device.

use std::path::Path;

use triune_tensor::{DType, QuantParams, Rounding, Shape, memory};

use crate::{Error, Program, Session, SessionOptions, TensorIo, TensorRef};

/// A part of a model on the host, between two stages of a program.
#[derive(Debug)]
pub struct BetweenPart {
    session: Session,
    /// Which of the wait's tensors each input of the session is.
    reads: Vec<usize>,
    /// Which of the session's outputs each tensor that the wait wants is.
    makes: Vec<usize>,
    wait: usize,
}

impl BetweenPart {
    /// The ONNX file at `path` as what the host does in a wait of a program, by its number.
    ///
    /// # Errors
    /// As [`Session::open`]; [`Error::Package`] where the file does not take and give the program's tensors, by name.
    pub fn open(
        program: &Program,
        wait: usize,
        path: &Path,
        options: &SessionOptions,
    ) -> Result<Self, Error> {
        let session = Session::open(path, options)?;
        let stated = program.waits.get(wait);
        let stated = stated.ok_or_else(|| Error::package(path, "the program does not wait so often"))?;
        let fits =
            |name: &str, dtype: DType, dims: &[triune_graph::Dim], ios: &[TensorIo], numbers: &[usize]| {
                let found = numbers.iter().position(|&index| ios[index].name == name);
                let io = found.map(|at| &ios[numbers[at]]);
                let same = io.is_some_and(|io| {
                    dtype == DType::F32
                        && io.model_shape.len() == dims.len()
                        && io
                            .model_shape
                            .iter()
                            .zip(dims)
                            .all(|(extent, dim)| *dim == triune_graph::Dim::Fixed(*extent))
                });
                let wrong = || {
                    Error::package(
                        path,
                        format!("its tensor '{name}' is none of the program's; compile the model again"),
                    )
                };
                found.filter(|_| same).ok_or_else(wrong)
            };
        let reads = session
            .inputs()
            .iter()
            .map(|info| fits(&info.name, info.dtype, &info.dims, &program.outputs, &stated.reads))
            .collect::<Result<_, _>>()?;
        let outputs = session.outputs();
        let makes = stated
            .makes
            .iter()
            .map(|&index| {
                let name = &program.inputs[index].name;
                let found = outputs.iter().position(|info| info.name == *name);
                let wrong =
                    || Error::package(path, format!("it does not make '{name}'; compile the model again"));
                let at = found.ok_or_else(wrong)?;
                fits(name, outputs[at].dtype, &outputs[at].dims, &program.inputs, &[index])?;
                Ok(at)
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { session, reads, makes, wait })
    }

    /// Makes the inputs that the program waits for of the outputs that it gave so far.
    pub(crate) fn run(&mut self, program: &Program, read: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
        let wait = &program.waits[self.wait];
        let mut reals = Vec::with_capacity(self.reads.len());
        for &at in &self.reads {
            reals.push(dequantized(&program.outputs[wait.reads[at]], &read[at])?);
        }
        let shape = |at: usize| program.outputs[wait.reads[at]].model_shape;
        let shapes: Vec<Shape> = self.reads.iter().map(|&at| shape(at)).collect();
        let inputs: Vec<TensorRef<'_>> =
            reals.iter().zip(&shapes).map(|(reals, shape)| TensorRef::of(reals, shape)).collect();
        let made = self.session.run(&inputs)?;
        let pairs = self.makes.iter().zip(&wait.makes);
        pairs.map(|(&at, &index)| quantized(&program.inputs[index], made[at].as_slice()?)).collect()
    }
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
