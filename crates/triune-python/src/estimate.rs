//! A program's cost on devices that differ from its own in some numbers, without deploying it.

use std::path::PathBuf;

use pyo3::prelude::*;

use triune::internals::runtime::Study;

use crate::{error, list::List, package::Package, timeline::Timeline};

/// A program whose cost can be asked.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Estimate {
    pub(crate) study: Study,
}

#[pymethods]
impl Estimate {
    /// The program of a package.
    ///
    /// Raises `ArgumentError` if it is damaged.
    #[new]
    fn new(py: Python<'_>, package: &Package) -> PyResult<Self> {
        let study = error::detached(py, || Study::of(package.program()))?.map_err(error::runtime)?;
        Ok(Self { study })
    }

    /// The program of a quantized ONNX file, compiled for a device, and again for every device whose border or sizes of memories
    /// differ.
    ///
    /// Raises `FileError`, `ArgumentError` if the model is damaged, `UnsupportedError` if the device cannot run it.
    #[staticmethod]
    #[pyo3(signature = (model, *, target, batch=1))]
    fn compile(py: Python<'_>, model: PathBuf, target: PathBuf, batch: usize) -> PyResult<Self> {
        let study =
            error::detached(py, || Study::compile(&model, &target, batch))?.map_err(error::runtime)?;
        Ok(Self { study })
    }

    /// The device that the program is for.
    #[getter]
    fn target(&self) -> &str {
        &self.study.base().name
    }

    /// Cores of the device.
    #[getter]
    fn cores(&self) -> u32 {
        self.study.base().cores
    }

    /// Images per run, each on a core of its own.
    #[getter]
    fn batch(&self) -> usize {
        self.study.batch()
    }

    /// The value that a key of `changes` has as it is.
    ///
    /// Raises `ArgumentError` if there is no such number.
    fn number(&self, key: &str) -> PyResult<String> {
        self.study.base().number(key).map_err(|error| error::runtime(error.into()))
    }

    /// The modelled time of one run on an empty device that differs from the program's in `changes`: pairs of a key, such as
    /// `array` or `queues.buffers`, and a value, such as `32x32` or `512K`.
    ///
    /// Raises `ArgumentError` if a change or the clock is wrong, `UnsupportedError` if the device cannot hold the program.
    #[pyo3(signature = (changes, *, clock_mhz=None))]
    fn timeline(
        &self,
        py: Python<'_>,
        changes: List<(String, String)>,
        clock_mhz: Option<u32>,
    ) -> PyResult<Timeline> {
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, value)| (&**key, &**value)).collect();
        let inner = error::detached(py, || self.study.at(&changes, clock_mhz))?.map_err(error::runtime)?;
        Ok(Timeline { inner })
    }
}
