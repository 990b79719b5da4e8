//! A program's cost on devices that differ from its own in some numbers, without deploying it.

use std::path::PathBuf;

use pyo3::{prelude::*, types::PyDict};

use triune::internals::{
    device::spec::MemorySpec,
    runtime::{
        Study,
        cores::{Exchange, Mode, Shared, Task},
    },
};

use crate::{
    error,
    list::List,
    package::Package,
    timeline::{Timeline, energy},
};

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

    /// What images cost that the first `cores` cores, all without it, work on together, `mode` being `pipelined` or `split`; the device
    /// differs from the program's in `changes`, as in `timeline`. A dict: device, mode, `clock_mhz`, given (cores), cores (at
    /// work), latency, interval, alone, `alone_each` (per command), abreast, all in cycles; `abreast_traffic`
    /// (bytes of an image to and from the first memory), `own_bytes` (of the memories that each core
    /// has), energy, `alone_energy`, `abreast_energy` (dicts as of a timeline, or None), link (nanoseconds of call, inputs and outputs, or
    /// None), memories (names), tasks and exchanges, one dict each.
    ///
    /// Raises `ArgumentError` if there is no such mode, the device has fewer cores, or the program waits for the host; as `timeline`.
    #[pyo3(signature = (changes, *, mode, cores=None, clock_mhz=None))]
    fn on_cores<'py>(
        &self,
        py: Python<'py>,
        changes: List<(String, String)>,
        mode: &str,
        cores: Option<u32>,
        clock_mhz: Option<u32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, value)| (&**key, &**value)).collect();
        let mode = Mode::named(mode)
            .ok_or_else(|| error::argument(format!("mode: expected pipelined or split, got '{mode}'")))?;
        let found = error::detached(py, || self.study.on_cores(&changes, clock_mhz, mode, cores))?
            .map_err(error::runtime)?;
        shared(py, &found)
    }
}

fn shared<'py>(py: Python<'py>, found: &Shared) -> PyResult<Bound<'py, PyDict>> {
    let memories = found.spec.memory.len();
    let operator = |index: u32| {
        found.program.operator_of(index).map_or(("", ""), |operator| (&*operator.name, &*operator.kind))
    };
    let task = |task: &Task| {
        let row = PyDict::new(py);
        let (name, kind) = operator(task.command);
        row.set_item("core", task.core)?;
        row.set_item("what", task.kind.name())?;
        row.set_item("command", task.command)?;
        row.set_item("operator", name)?;
        row.set_item("kind", kind)?;
        row.set_item("axis", task.part.map(|(axis, ..)| axis.name()))?;
        row.set_item("part", task.part.map_or(0, |(_, part, _)| part))?;
        row.set_item("parts", task.part.map_or(1, |(.., of)| of))?;
        row.set_item("start", task.span.start)?;
        row.set_item("end", task.span.end)?;
        row.set_item("read", &task.read[..memories])?;
        row.set_item("written", &task.written[..memories])?;
        row.set_item("energy", found.energy.map(|_| energy(py, &task.energy, memories)).transpose()?)?;
        Ok(row)
    };
    let exchange = |each: &Exchange| {
        let row = PyDict::new(py);
        row.set_item("command", each.command)?;
        row.set_item("operator", operator(each.command).0)?;
        row.set_item("shared", each.shared)?;
        row.set_item("copied", each.copied)?;
        row.set_item("maps_again", each.maps_again)?;
        row.set_item("weights_again", each.weights_again)?;
        Ok(row)
    };
    let all = PyDict::new(py);
    all.set_item("device", &found.spec.name)?;
    all.set_item("mode", found.mode.name())?;
    all.set_item("clock_mhz", found.clock_mhz)?;
    all.set_item("given", found.given)?;
    all.set_item("cores", found.cores)?;
    all.set_item("latency", found.latency)?;
    all.set_item("interval", found.interval)?;
    all.set_item("alone", found.alone)?;
    all.set_item("alone_each", &found.alone_each)?;
    all.set_item("abreast", found.abreast)?;
    all.set_item("abreast_traffic", found.abreast_traffic)?;
    for (name, each) in [
        ("energy", found.energy),
        ("alone_energy", found.alone_energy),
        ("abreast_energy", found.abreast_energy),
    ] {
        all.set_item(name, each.map(|each| energy(py, &each, memories)).transpose()?)?;
    }
    all.set_item("link", found.link)?;
    let own = found.spec.memory.iter().filter(|memory| memory.per_core);
    all.set_item("own_bytes", own.map(MemorySpec::usable_bytes).sum::<u64>())?;
    all.set_item("memories", found.spec.memory.iter().map(|memory| &*memory.name).collect::<Vec<_>>())?;
    all.set_item("tasks", found.tasks.iter().map(task).collect::<PyResult<Vec<_>>>()?)?;
    all.set_item("exchanges", found.exchanges.iter().map(exchange).collect::<PyResult<Vec<_>>>()?)?;
    Ok(all)
}
