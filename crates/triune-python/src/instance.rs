//! A program on a device: runs with numpy arrays, one at a time, with results at once or two calls late.

use std::sync::Arc;

use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};
use triune::internals::{
    fork::Lock,
    kernels::{CancelToken, cancel},
    runtime::{self, InstanceOptions, Program, TensorIo, clock::Realtime},
};

use crate::list::List;
use crate::{
    array::{self, Input, Output},
    card::Card,
    error::{self, InternalError, ReleasedError},
    package::Package,
    timeline::Timeline,
};

/// A program on a device.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Instance {
    program: Arc<Program>,
    /// `None` once it is released.
    state: Lock<Option<runtime::Instance>>,
    /// Stops a run that is under way.
    released: CancelToken,
}

/// Calls, then seconds: total, least, most, last.
type HostTimes = (u64, f64, f64, f64, f64);

#[pymethods]
impl Instance {
    /// Puts the package's program on a card, with one of `cores` per image of the batch. `threads` compute one run (0: one per
    /// image of the batch). Constants get `constants_percent` of the memory for them, or stream. `realtime` is the speed that
    /// runs are paced at as a multiple of the device's; None: what `TRIUNE_REALTIME` says.
    ///
    /// Raises `UnsupportedError` if the card's memory does not hold it, `ArgumentError` if another instance is paced at another
    /// speed, `SettingError` if `TRIUNE_REALTIME` is no factor.
    #[new]
    #[pyo3(signature = (
        package, card, cores, *, threads=0, double_buffer=false, host_profiling=false, constants_percent=100, realtime=None
    ))]
    fn new(
        py: Python<'_>,
        package: &Package,
        card: &Card,
        cores: List<u32>,
        threads: usize,
        double_buffer: bool,
        host_profiling: bool,
        constants_percent: u32,
        realtime: Option<f64>,
    ) -> PyResult<Self> {
        let options = InstanceOptions {
            cores: cores.0,
            threads,
            double_buffer,
            host_profiling,
            constants_percent,
            realtime: realtime.map(Realtime::new).transpose().map_err(error::runtime)?,
        };
        let new = || runtime::Instance::new(&card.inner, &package.inner, options);
        let instance = error::detached(py, new)?.map_err(error::runtime)?;
        Ok(Self {
            program: package.program().clone(),
            state: Lock::new(Some(instance)),
            released: CancelToken::new(),
        })
    }

    /// Computes `outputs` from `inputs`: sequences of C-contiguous numpy arrays of the package's types and shapes. With
    /// double buffering, call n writes the results of call n − 2, and the first two calls write nothing.
    ///
    /// Calls from several threads run one after the other.
    ///
    /// Raises `ArgumentError` if an array does not fit, `ReleasedError` after `release`, `ForkedError` in a child of a fork that
    /// came upon a run.
    fn run(&self, py: Python<'_>, inputs: &Bound<'_, PyAny>, outputs: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut borrowed = Vec::new();
        for (name, object, io) in operands("inputs", inputs, self.program.taken().collect())? {
            let array = array::check(&name, &object, io.dtype, Some(&io.shape))?;
            borrowed.push(Input::new(&name, array)?);
        }
        let mut written = Vec::with_capacity(self.program.results().len());
        for (name, object, io) in operands("outputs", outputs, self.program.results().iter().collect())? {
            let array = array::check(&name, &object, io.dtype, Some(&io.shape))?;
            written.push(Output::new(&name, array)?);
        }
        let sources = borrowed.iter().map(Input::bytes).collect::<PyResult<Vec<_>>>()?;
        let mut targets = written.iter_mut().map(Output::bytes).collect::<PyResult<Vec<_>>>()?;
        error::detached(py, || {
            let mut state = cancel::lock(&self.state).map_err(error::no_lock)?;
            // A run that panicked may have left anything behind.
            if self.state.is_poisoned() {
                return Err(InternalError::new_err("an earlier run failed midway"));
            }
            let running = state.as_mut().ok_or_else(released)?;
            let done = self.released.during(|| running.run(&sources, &mut targets));
            if self.released.is_cancelled() {
                // Whoever released it in the middle of the run could not wait for this, if it was this thread.
                *state = None;
                return Err(released());
            }
            done.map_err(error::runtime)
        })?
    }

    /// Frees the program's place on the device; a run that is under way is stopped before, and raises `ReleasedError`. Harmless
    /// if it is free already, and in a child of a fork that came upon a run.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.released.cancel();
        error::detached(py, || {
            // In a child of such a fork the place is the other process's; a signal's handler leaves it to the run that it is in.
            if let Ok(mut state) = cancel::lock(&self.state) {
                *state = None;
            }
        })
    }

    /// The modelled time of one run, command by command.
    fn timeline(&self, py: Python<'_>) -> PyResult<Timeline> {
        error::detached(py, || {
            let state = self.state.lock().map_err(error::forked)?;
            let state = state.as_ref().ok_or_else(released)?;
            Ok(Timeline { inner: state.profile() })
        })?
    }

    /// Host times of the runs so far in seconds: calls, total, least, most, last. None without host profiling.
    fn host_times(&self, py: Python<'_>) -> PyResult<Option<HostTimes>> {
        error::detached(py, || {
            let state = self.state.lock().map_err(error::forked)?;
            let host = state.as_ref().ok_or_else(released)?.host_times();
            let seconds = |nanos: u64| nanos as f64 * 1e-9;
            Ok(host.map(|h| (h.calls, seconds(h.total), seconds(h.least), seconds(h.most), seconds(h.last))))
        })?
    }
}

fn released() -> PyErr {
    ReleasedError::new_err("the instance has been released")
}

/// Pairs the items of a list or tuple with what they must be, and names each.
fn operands<'a, 'py>(
    what: &'static str,
    items: &Bound<'py, PyAny>,
    ios: Vec<&'a TensorIo>,
) -> PyResult<Vec<(String, Bound<'py, PyAny>, &'a TensorIo)>> {
    let found: Vec<Bound<'py, PyAny>> = if let Ok(list) = items.cast::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = items.cast::<PyTuple>() {
        tuple.iter().collect()
    } else {
        let got = items.get_type().name()?;
        return Err(error::argument(format!("{what}: expected a list of arrays, got {got}")));
    };
    if found.len() != ios.len() {
        let names: Vec<_> = ios.iter().map(|io| io.name.as_str()).collect();
        return Err(error::argument(format!(
            "{what}: expected {} ({}), got {}",
            ios.len(),
            names.join(", "),
            found.len()
        )));
    }
    let name = |(index, (object, io)): (usize, (_, &'a TensorIo))| (format!("{what}[{index}]"), object, io);
    Ok(found.into_iter().zip(ios).enumerate().map(name).collect())
}
