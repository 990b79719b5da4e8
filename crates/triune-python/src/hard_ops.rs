//! Networks as documents with commands: compiled from an ONNX file, run operator by operator, their time.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use pyo3::{buffer::PyBuffer, prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use triune::internals::{
    device::DeviceSpec,
    graph::format::xir,
    icraft::{self, HardNetwork},
    runtime::{Device, PlanOptions, Study},
};

use crate::list::{self, List};
use crate::{error, package::policy, report::CompileReport, timeline::Timeline};
use triune::internals::tensor::memory;

/// The operators with commands of a document, in the memory of a simulated device of their own.
///
/// Values lie where the document says and share memory in turn: what is written or made holds until an operator writes
/// another value to its place. Calls from several threads take turns; the interpreter is released.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct HardOps {
    inner: icraft::HardOps,
}

#[pymethods]
impl HardOps {
    /// Loads the operators of a document: its JSON as bytes, and the bytes of its constants by `v_id`, which are copied.
    ///
    /// Raises `ArgumentError` if it is damaged or holds no commands, `ForeignError` if another compiler wrote these.
    #[new]
    #[pyo3(signature = (model, params, *, threads=1))]
    fn new(
        py: Python<'_>,
        model: PyBackedBytes,
        params: BTreeMap<i64, PyBuffer<u8>>,
        threads: usize,
    ) -> PyResult<Self> {
        let params: PyResult<Vec<(i64, Vec<u8>)>> =
            params.into_iter().map(|(v_id, data)| Ok((v_id, list::bytes(py, &data)?))).collect();
        let params = params?;
        let inner = error::detached(py, || {
            let mut document = xir::Document::read(&model, None)?;
            for (v_id, data) in params {
                document.give(v_id, data.into())?;
            }
            let network = Arc::new(HardNetwork::new(&document, document.name.as_ref())?);
            let device = Device::new(DeviceSpec::builtin(&network.program().target)?)?;
            icraft::HardOps::new(&device, &network, threads)
        });
        Ok(Self { inner: inner?.map_err(error::runtime)? })
    }

    /// The device that the commands are for.
    #[getter]
    fn target(&self) -> &str {
        &self.inner.network().program().target
    }

    /// Numbers of the operators, in the order in which they run.
    #[getter]
    fn op_ids(&self) -> Vec<i64> {
        self.inner.network().op_ids().collect()
    }

    /// `v_id` of the values that an operator reads, and of those that it makes.
    ///
    /// Raises `UnsupportedError` if there is no such operator.
    fn operands(&self, op_id: i64) -> PyResult<(Vec<i64>, Vec<i64>)> {
        let (inputs, outputs) = self.inner.operands(op_id).map_err(error::runtime)?;
        Ok((inputs.to_vec(), outputs.to_vec()))
    }

    /// Stored extents of a value.
    ///
    /// Raises `UnsupportedError` if no operator reads or makes it.
    fn extents(&self, v_id: i64) -> PyResult<Vec<usize>> {
        Ok(self.inner.extents(v_id).map_err(error::runtime)?.to_vec())
    }

    /// Writes a value: its elements row-major in their stored extents.
    ///
    /// Raises `ArgumentError` for another number of bytes.
    fn write(&self, py: Python<'_>, v_id: i64, data: PyBuffer<u8>) -> PyResult<()> {
        let data = list::bytes(py, &data)?;
        error::detached(py, || self.inner.write(v_id, &data))?.map_err(error::runtime)
    }

    /// Reads a value: its elements row-major in their stored extents.
    fn read<'py>(&self, py: Python<'py>, v_id: i64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.inner.bytes(v_id).map_err(error::runtime)?;
        let mut data = memory::filled(bytes, 0).map_err(error::out_of_memory)?;
        error::detached(py, || self.inner.read(v_id, &mut data))?.map_err(error::runtime)?;
        list::to_bytes(py, &data)
    }

    /// Runs the operators from `first` to `last` on what lies in memory.
    fn run(&self, py: Python<'_>, first: i64, last: i64) -> PyResult<()> {
        error::detached(py, || self.inner.run(first, last))?.map_err(error::runtime)
    }

    /// Writes values, runs the operators from `first` to `last`, and reads values, with no other thread between.
    fn forward<'py>(
        &self,
        py: Python<'py>,
        first: i64,
        last: i64,
        inputs: BTreeMap<i64, PyBuffer<u8>>,
        outputs: List<i64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let inputs: PyResult<Vec<(i64, Vec<u8>)>> =
            inputs.into_iter().map(|(v_id, data)| Ok((v_id, list::bytes(py, &data)?))).collect();
        let inputs = inputs?;
        let mut results = Vec::with_capacity(outputs.len());
        for v_id in outputs {
            let bytes = self.inner.bytes(v_id).map_err(error::runtime)?;
            results.push((v_id, memory::filled(bytes, 0).map_err(error::out_of_memory)?));
        }
        error::detached(py, || {
            let inputs: Vec<(i64, &[u8])> =
                inputs.iter().map(|(v_id, data)| (*v_id, data.as_slice())).collect();
            let mut outputs: Vec<(i64, &mut [u8])> =
                results.iter_mut().map(|(v_id, data)| (*v_id, data.as_mut_slice())).collect();
            self.inner.forward(first, last, &inputs, &mut outputs)
        })?
        .map_err(error::runtime)?;
        results.iter().map(|(_, data)| list::to_bytes(py, data)).collect()
    }
}

/// Scale, mean and std of pixels, and whether blue is first.
type PixelOptions = (Vec<f64>, Vec<f64>, Vec<f64>, bool);
/// Threshold, its integers, anchors, parts, valid words, units compared, mask.
type PostOptions = (f64, Vec<i64>, i64, Vec<i64>, i64, i64, [i32; 2]);

/// Compiles a quantized ONNX file into the documents of each step, `<name>_<stage>.json` and `.raw` in the folder `output`,
/// which is made if missing; returns the JSON files in the order of the steps, and what runs where. The steps before quantization come from
/// `float_model`, if it is given; errors call the model so then. `policy` and `on_chip_bytes` are those of `Package.timeline`.
/// With `image_make`, from the adapted stage on the input is a picture's bytes: scale, mean and std of its pixels, and whether blue
/// is first. With `det_post`, a detector's candidates are gathered behind the results: threshold, the same for each level in
/// integers, anchors, units of 64 bytes of each part, valid words of the last, units compared, and the mask of the last of them.
///
/// Raises `FileError`, `ArgumentError` if a model is damaged or there is no such policy, `UnsupportedError` if the device
/// cannot run the model or documents have no words for it.
#[pyfunction]
#[pyo3(signature = (model, *, target, output, name, float_model=None, policy="exact", on_chip_bytes=None, image_make=None, det_post=None))]
pub(crate) fn compile_documents(
    py: Python<'_>,
    model: PathBuf,
    target: PathBuf,
    output: PathBuf,
    name: &str,
    float_model: Option<PathBuf>,
    policy: &str,
    on_chip_bytes: Option<u64>,
    image_make: Option<PixelOptions>,
    det_post: Option<PostOptions>,
) -> PyResult<(Vec<PathBuf>, CompileReport)> {
    let logic = icraft::Logic {
        image_make: image_make.map(|(scale, mean, std, bgr)| icraft::Pixels { scale, mean, std, bgr }),
        det_post: det_post.map(|(threshold, thresholds, anchors, parts, valid, compared, mask)| {
            icraft::DetPost { threshold, thresholds, anchors, parts, valid, compared, mask }
        }),
    };
    let plan =
        PlanOptions { policy: self::policy(policy)?, capacity: on_chip_bytes, ..PlanOptions::default() };
    let compile = || {
        let stages = icraft::Stages::compile(&model, float_model.as_deref(), &target, name, &plan, &logic)?;
        Ok((stages.write(&output, name)?, CompileReport::new(stages.report)))
    };
    error::detached(py, compile)?.map_err(error::runtime)
}

/// The modelled time of the accelerator's part of a document, at the device's clock or `clock_mhz`, and whether it is that of
/// the document's commands; else it is an estimate from the operators' shapes, as for documents of the vendor's compiler.
///
/// Raises `FileError`, `ArgumentError` if it is damaged or holds no commands, `UnsupportedError` if the device cannot hold it.
#[pyfunction]
#[pyo3(signature = (path, *, clock_mhz=None))]
pub(crate) fn document_timeline(
    py: Python<'_>,
    path: PathBuf,
    clock_mhz: Option<u32>,
) -> PyResult<(Timeline, bool)> {
    let estimate = || {
        let document = icraft::read(&path)?;
        let (program, exact) = icraft::program(&document, &path)?;
        Ok((Study::of(&program)?.at(&[], clock_mhz)?, exact))
    };
    let (inner, exact) = error::detached(py, estimate)?.map_err(error::runtime)?;
    Ok((Timeline { inner }, exact))
}
