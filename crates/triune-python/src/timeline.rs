//! The modelled time of a program: the core's table as Python lists.

use pyo3::{prelude::*, types::PyDict};
use triune::{
    device::timing::{CommandTime, Timeline as Inner},
    runtime::Program,
};

/// The modelled time of one run. Cycles count from the launch.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Timeline {
    inner: Inner,
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
    pub(crate) fn new(program: &Program, inner: &Inner) -> Self {
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
        Self { inner: inner.clone(), operators }
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

    /// One dict per command: index, opcode, then as `operators`.
    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |command: &CommandTime| {
            let row = PyDict::new(py);
            row.set_item("index", command.index)?;
            row.set_item("opcode", format!("{:?}", command.opcode))?;
            times(&row, std::slice::from_ref(command))?;
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
