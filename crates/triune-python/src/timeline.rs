//! The modelled time of a program: the core's table as Python lists.

use std::sync::Arc;

use pyo3::{prelude::*, types::PyDict};
use triune::{
    device::{
        DeviceSpec, SegmentKind,
        spec::MemorySpec,
        timing::{CommandTime, MemoryBytes, Span, Timeline as Inner},
    },
    runtime::{Deployment, Place, PlannedBuffer, Program},
};

/// The modelled time of one run. Cycles count from the launch.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Timeline {
    inner: Inner,
    spec: DeviceSpec,
    program: Arc<Program>,
    places: Vec<Place>,
    operators: Vec<Operator>,
}

/// The commands of one node of the model.
#[derive(Debug)]
struct Operator {
    name: String,
    kind: String,
    commands: Vec<CommandTime>,
}

impl Timeline {
    pub(crate) fn new(deployment: &Deployment) -> Self {
        let (program, inner) = (deployment.program(), deployment.timeline());
        let mut operators: Vec<Operator> = Vec::with_capacity(program.operators.len());
        for command in &inner.commands {
            let (name, kind) = match program.operator_of(command.index) {
                Some(operator) => (operator.name.as_str(), operator.kind.as_str()),
                None => ("", ""),
            };
            match operators.last_mut() {
                Some(last) if last.name == name && last.kind == kind => last.commands.push(*command),
                _ => operators.push(Operator {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                    commands: vec![*command],
                }),
            }
        }
        Self {
            inner: inner.clone(),
            spec: deployment.device().spec().clone(),
            program: program.clone(),
            places: deployment.places().to_vec(),
            operators,
        }
    }
}

#[pymethods]
impl Timeline {
    #[getter]
    fn device(&self) -> &str {
        &self.inner.device
    }

    /// The clock that the table was computed for in MHz; 0 when time is not modelled.
    #[getter]
    fn clock_mhz(&self) -> u32 {
        self.inner.clock_mhz
    }

    /// Cycles from the launch to the last store.
    #[getter]
    fn cycles(&self) -> u64 {
        self.inner.total_cycles
    }

    /// Cycles from the launch to the first command.
    #[getter]
    fn launch_cycles(&self) -> u64 {
        self.inner.launch_cycles
    }

    /// The whole program in microseconds.
    #[getter]
    fn micros(&self) -> f64 {
        self.inner.micros()
    }

    /// Multiply-accumulates of the whole program.
    #[getter]
    fn macs(&self) -> u64 {
        self.inner.macs()
    }

    /// One dict per node of the model: name, kind, start, end, cycles (end − start), compute, load, store, stall, macs,
    /// `bytes_read` and `bytes_written`. Neighbours overlap: their cycles may add up to more than the whole.
    fn operators<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |operator: &Operator| {
            let row = PyDict::new(py);
            row.set_item("name", &operator.name)?;
            row.set_item("kind", &operator.kind)?;
            times(&row, &operator.commands)?;
            Ok(row)
        };
        self.operators.iter().map(row).collect()
    }

    /// Most 8-bit multiply-accumulates per cycle and core.
    #[getter]
    fn peak_macs_per_cycle(&self) -> f64 {
        self.spec.peak_macs_per_cycle()
    }

    /// Bytes of the feature maps' segment.
    #[getter]
    fn scratch_bytes(&self) -> u64 {
        self.program.scratch_bytes
    }

    /// What no plan of the feature maps can do without.
    #[getter]
    fn scratch_lower_bound(&self) -> u64 {
        self.program.scratch_lower_bound
    }

    /// One dict per memory of the device: name, bytes that programs can use, `bytes_per_cycle` of a core's port.
    fn memories<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |memory: &MemorySpec| {
            let row = PyDict::new(py);
            row.set_item("name", &memory.name)?;
            row.set_item("bytes", memory.usable_bytes())?;
            row.set_item("bytes_per_cycle", memory.bytes_per_cycle_at(self.inner.clock_mhz))?;
            Ok(row)
        };
        self.spec.memory.iter().map(row).collect()
    }

    /// One dict per segment of the first image: kind (`instructions`, `constants`, `scratch`, `input`, `output`), memory,
    /// base, bytes.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |place: &Place| {
            let row = PyDict::new(py);
            let kind = match place.kind {
                SegmentKind::Instructions => "instructions",
                SegmentKind::Constants => "constants",
                SegmentKind::Scratch => "scratch",
                SegmentKind::Input => "input",
                SegmentKind::Output => "output",
            };
            row.set_item("kind", kind)?;
            row.set_item("memory", &place.memory)?;
            row.set_item("base", place.base)?;
            row.set_item("bytes", place.bytes)?;
            Ok(row)
        };
        self.places.iter().map(row).collect()
    }

    /// One dict per feature map of the plan: offset, bytes, first and last (one past) command. Empty for packages of before
    /// the plan was kept.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |buffer: &PlannedBuffer| {
            let row = PyDict::new(py);
            row.set_item("offset", buffer.offset)?;
            row.set_item("bytes", buffer.bytes)?;
            row.set_item("first", buffer.first)?;
            row.set_item("last", buffer.last)?;
            Ok(row)
        };
        self.program.buffers.iter().map(row).collect()
    }

    /// One dict per command: index, opcode, as `operators`, then loading, computing, storing (first cycle, one past the
    /// last), read and written (bytes of each memory).
    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |command: &CommandTime| {
            let row = PyDict::new(py);
            row.set_item("index", command.index)?;
            row.set_item("opcode", format!("{:?}", command.opcode))?;
            let operator = self.program.operator_of(command.index);
            row.set_item("name", operator.map_or("", |operator| &operator.name))?;
            row.set_item("kind", operator.map_or("", |operator| &operator.kind))?;
            times(&row, std::slice::from_ref(command))?;
            let span = |span: Span| (span.start, span.end);
            row.set_item("loading", span(command.loading))?;
            row.set_item("computing", span(command.computing))?;
            row.set_item("storing", span(command.storing))?;
            let bytes = |bytes: &MemoryBytes| bytes[..self.spec.memory.len()].to_vec();
            row.set_item("read", bytes(&command.bytes_read))?;
            row.set_item("written", bytes(&command.bytes_written))?;
            Ok(row)
        };
        self.inner.commands.iter().map(row).collect()
    }
}

fn times(row: &Bound<'_, PyDict>, commands: &[CommandTime]) -> PyResult<()> {
    let sum = |field: fn(&CommandTime) -> u64| commands.iter().map(field).sum::<u64>();
    let start = commands.iter().map(|c| c.start).min().unwrap_or(0);
    let end = commands.iter().map(|c| c.end).max().unwrap_or(0);
    row.set_item("start", start)?;
    row.set_item("end", end)?;
    row.set_item("cycles", end - start)?;
    row.set_item("compute", sum(|c| c.compute))?;
    row.set_item("load", sum(|c| c.load))?;
    row.set_item("store", sum(|c| c.store))?;
    row.set_item("stall", sum(|c| c.stall))?;
    row.set_item("macs", sum(|c| c.macs))?;
    row.set_item("bytes_read", sum(|c| c.bytes_read.iter().sum()))?;
    row.set_item("bytes_written", sum(|c| c.bytes_written.iter().sum()))
}
