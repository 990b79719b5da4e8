//! What runs do to each other on a device: compositions as Python lists, and planning them.

use pyo3::{prelude::*, types::PyDict};
use triune::internals::runtime::{
    clock::{self, Arrivals, InstanceTimes, Stamp},
    study::{self, Caller},
};

use crate::list::List;
use crate::{error, estimate::Estimate};

/// What runs did to each other. Times are nanoseconds of virtual time.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Composition {
    pub(crate) inner: clock::Composition,
}

#[pymethods]
impl Composition {
    /// Nanoseconds that it covers.
    #[getter]
    fn horizon(&self) -> u64 {
        self.inner.horizon
    }

    /// Nanoseconds that each core was taken.
    #[getter]
    fn core_busy(&self) -> Vec<u64> {
        self.inner.core_busy.clone()
    }

    /// Nanoseconds that the host link was taken: to the device, from the device.
    #[getter]
    fn link_busy(&self) -> (u64, u64) {
        self.inner.link_busy.into()
    }

    /// Older runs that are no longer remembered.
    #[getter]
    fn forgotten(&self) -> u64 {
        self.inner.forgotten
    }

    /// One dict per instance: name, cores (numbers), images per run, runs, images per second, and the latencies `min`, `p50`,
    /// `p90`, `p99`, `max` and `mean`.
    fn instances<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |instance: &InstanceTimes| {
            let row = PyDict::new(py);
            row.set_item("name", &instance.name)?;
            let cores: Vec<u32> = (0..u64::BITS).filter(|core| instance.cores >> core & 1 == 1).collect();
            row.set_item("cores", cores)?;
            row.set_item("images", instance.images)?;
            row.set_item("runs", instance.runs)?;
            row.set_item("images_per_second", instance.images_per_second(self.inner.horizon))?;
            let latency = instance.latency;
            row.set_item("min", latency.min)?;
            row.set_item("p50", latency.p50)?;
            row.set_item("p90", latency.p90)?;
            row.set_item("p99", latency.p99)?;
            row.set_item("max", latency.max)?;
            row.set_item("mean", latency.mean)?;
            Ok(row)
        };
        self.inner.instances.iter().map(row).collect()
    }

    /// One tuple per run, in the order in which they ended: number of the instance, when it was called, and the start and
    /// end of its inputs on the link, its computation, and its outputs on the link.
    #[expect(clippy::type_complexity, reason = "a row, as Python gets it")]
    fn runs(&self) -> Vec<(u32, u64, (u64, u64), (u64, u64), (u64, u64))> {
        let row = |run: &Stamp| {
            let [input, compute, output] =
                [run.input, run.compute, run.output].map(|span| (span.start, span.end));
            (run.instance, run.queued, input, compute, output)
        };
        self.inner.runs.iter().map(row).collect()
    }
}

/// An instance as Python gives it: name, program, cores, depth of a closed loop or 0, period and first call in nanoseconds.
type Row<'py> = (String, PyRef<'py, Estimate>, List<u32>, u32, u64, u64);

/// Composes instances of programs on one device for `horizon` nanoseconds, without running them. A row of `instances` is its
/// name, its program, its cores, and either how many runs are under way at once (from 1) or 0, the period of its calls and
/// the first one's time in nanoseconds.
///
/// Raises `ArgumentError` if the programs are for different devices, or a core, clock or change is wrong; `UnsupportedError`
/// if the device's memory does not hold one of the programs, or the horizon holds too many runs.
#[pyfunction]
#[pyo3(signature = (instances, *, horizon, clock_mhz=None))]
pub(crate) fn compose(
    py: Python<'_>,
    instances: List<Row<'_>>,
    horizon: u64,
    clock_mhz: Option<u32>,
) -> PyResult<Composition> {
    let mut callers = Vec::with_capacity(instances.len());
    for (name, estimate, cores, depth, period, offset) in &*instances {
        let arrivals = match depth {
            0 => Arrivals::Periodic { period: *period, offset: *offset },
            &depth => Arrivals::Closed { depth },
        };
        callers.push(Caller { name: name.clone(), study: &estimate.study, cores, arrivals });
    }
    let compose = || study::compose(&callers, horizon, clock_mhz);
    let inner = error::detached(py, compose)?.map_err(error::runtime)?;
    Ok(Composition { inner })
}
