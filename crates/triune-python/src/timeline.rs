//! The modelled time of a program: the core's table as Python lists.

use std::sync::Arc;

use pyo3::{prelude::*, types::PyDict};
use triune::internals::{
    device::{
        DeviceSpec, SegmentKind,
        spec::MemorySpec,
        timing::{BoundBy, CommandTime, MemoryBytes, Span, Tiling, Timeline as Inner},
    },
    runtime::{Deployment, Place, PlannedBuffer, Program},
};

/// The modelled time of one run. Cycles count from the launch; microseconds and milliseconds are cycles at the clock that
/// the table was computed for.
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
        Self::of(
            deployment.device().spec().clone(),
            deployment.program().clone(),
            deployment.timeline().clone(),
            deployment.places().to_vec(),
        )
    }

    pub(crate) fn of(spec: DeviceSpec, program: Arc<Program>, inner: Inner, places: Vec<Place>) -> Self {
        let mut operators: Vec<Operator> = Vec::with_capacity(program.operators.len());
        for command in &inner.commands {
            let (name, kind) = match program.operator_of(command.index) {
                Some(operator) => (operator.name.as_str(), &*operator.kind),
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
        Self { inner, spec, program, places, operators }
    }

    /// The memory whose port the commands' loads or stores keep busy longest, if that is what bounds them.
    fn bounding_memory(&self, bound: BoundBy, commands: &[CommandTime]) -> Option<&str> {
        let bytes = |command: &CommandTime, memory: usize| match bound {
            BoundBy::Load => command.bytes_read[memory],
            BoundBy::Store => command.bytes_written[memory],
            BoundBy::Compute | BoundBy::Launch => 0,
        };
        let busy = |(at, memory): (usize, &MemorySpec)| {
            let moved: u64 = commands.iter().map(|command| bytes(command, at)).sum();
            moved as f64 / memory.bytes_per_cycle_at(self.inner.clock_mhz)
        };
        let ports = self.spec.memory.iter().enumerate().map(|each| (each.1, busy(each)));
        let longest = ports.filter(|(_, busy)| *busy > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        longest.map(|(memory, _)| &*memory.name)
    }

    fn times(&self, row: &Bound<'_, PyDict>, commands: &[CommandTime]) -> PyResult<()> {
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
        row.set_item("load_stall", sum(|c| c.load_stall))?;
        row.set_item("launch", sum(|c| c.launch))?;
        row.set_item("ideal", sum(|c| c.ideal))?;
        row.set_item("sram", (sum(|c| c.sram.ifmap), sum(|c| c.sram.filter), sum(|c| c.sram.ofmap)))?;
        let bound = BoundBy::of(commands);
        row.set_item("bound_by", bound.name())?;
        row.set_item("bound_memory", self.bounding_memory(bound, commands))?;
        row.set_item("utilization", ratio(sum(|c| c.ideal), sum(CommandTime::occupied)))?;
        row.set_item("array_utilization", ratio(sum(|c| c.ideal), sum(|c| c.compute)))?;
        row.set_item("macs", sum(|c| c.macs))?;
        row.set_item("bytes_read", sum(|c| c.bytes_read.iter().sum()))?;
        row.set_item("bytes_written", sum(|c| c.bytes_written.iter().sum()))?;
        row.set_item("reread", sum(CommandTime::reread))?;
        row.set_item("buffered", commands.iter().map(|c| c.buffered).max().unwrap_or(0))?;
        row.set_item("tiles", sum(|c| c.tiling.tiles()))?;
        // Of several commands, that of the one which takes longest.
        let cut = commands.iter().max_by_key(|c| c.occupied()).map_or_else(Tiling::default, |c| c.tiling);
        row.set_item("tiling", tiling(row.py(), &cut)?)?;
        let each = |field: fn(&CommandTime) -> &MemoryBytes| -> Vec<u64> {
            (0..self.spec.memory.len()).map(|at| commands.iter().map(|c| field(c)[at]).sum()).collect()
        };
        row.set_item("read", each(|c| &c.bytes_read))?;
        row.set_item("written", each(|c| &c.bytes_written))
    }
}

/// How a command is cut, as a dict.
fn tiling<'py>(py: Python<'py>, tiling: &Tiling) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("order", tiling.order.name())?;
    row.set_item("bands", tiling.bands)?;
    row.set_item("panels", tiling.panels)?;
    row.set_item("chunks", tiling.chunks)?;
    row.set_item("kept", tiling.kept)?;
    row.set_item("depth", tiling.depth)?;
    Ok(row)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
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

    /// Bytes of a core's buffers, with what the program's maps leave of the near memory; None where the description gives no
    /// size.
    #[getter]
    fn buffer_bytes(&self) -> Option<u64> {
        self.inner.buffer_bytes
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

    /// The sums over all commands, with the keys of `operators` but for name and kind: `cycles` is the whole time, launch
    /// included, `utilization` the array's in it, `launch` what starting the commands costs.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let row = PyDict::new(py);
        self.times(&row, &self.inner.commands)?;
        let ideal: u64 = self.inner.commands.iter().map(|command| command.ideal).sum();
        row.set_item("start", 0)?;
        row.set_item("end", self.inner.total_cycles)?;
        row.set_item("cycles", self.inner.total_cycles)?;
        row.set_item("utilization", ratio(ideal, self.inner.total_cycles))?;
        Ok(row)
    }

    /// Multiply-accumulates of the whole program.
    #[getter]
    fn macs(&self) -> u64 {
        self.inner.macs()
    }

    /// One dict per node of the model: name, kind, start, end, cycles (end − start), compute, load, store, stall, of it
    /// `load_stall`; launch (what starting the commands costs), ideal (cycles of an array that always works), sram
    /// (elements that the array's buffers give as inputs and weights, and take as results), macs, `bytes_read` and
    /// `bytes_written`, and the same of each memory (read, written); `bound_by` (`compute`, `load`, `store` or `launch`) and `bound_memory` (whose port, or None);
    /// utilization (ideal over compute, stall and launch) and `array_utilization` (ideal over compute), from 0 to 1;
    /// `tiles`, most bytes of them in the buffers at once (`buffered`), bytes that were read before (`reread`), and how the
    /// longest command is cut (`tiling`: `order` (`even`, `bands` or `panels` outside), `bands`, `panels`, `chunks`, `kept`,
    /// `depth`).
    fn operators<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |operator: &Operator| {
            let row = PyDict::new(py);
            row.set_item("name", &operator.name)?;
            row.set_item("kind", &operator.kind)?;
            self.times(&row, &operator.commands)?;
            Ok(row)
        };
        self.operators.iter().map(row).collect()
    }

    /// Most 8-bit multiply-accumulates per cycle and core.
    #[getter]
    fn peak_macs_per_cycle(&self) -> f64 {
        self.spec.peak_macs_per_cycle()
    }

    /// Bytes of the segment of feature maps in the far memory.
    #[getter]
    fn scratch_bytes(&self) -> u64 {
        self.program.scratch_bytes
    }

    /// What no plan of those can do without.
    #[getter]
    fn scratch_lower_bound(&self) -> u64 {
        self.program.scratch_lower_bound
    }

    /// What stays in the near memory: policy, capacity, value, bound, gap, peak, `lower_bound`. None when the device has no
    /// such memory.
    fn residency<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        residency(py, &self.program)
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

    /// One dict per segment of the first image: kind (`instructions`, `constants`, `scratch`, `resident`, `input`,
    /// `output`), memory, base, bytes.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |place: &Place| {
            let row = PyDict::new(py);
            let kind = match place.kind {
                SegmentKind::Instructions => "instructions",
                SegmentKind::Constants => "constants",
                SegmentKind::Scratch => "scratch",
                SegmentKind::Resident => "resident",
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

    /// One dict per feature map of the plan: segment (`scratch`, `resident`), offset, bytes, first and last (one past)
    /// command, reads.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |buffer: &PlannedBuffer| {
            let row = PyDict::new(py);
            let near = buffer.segment == Program::RESIDENT;
            row.set_item("segment", if near { "resident" } else { "scratch" })?;
            row.set_item("offset", buffer.offset)?;
            row.set_item("bytes", buffer.bytes)?;
            row.set_item("first", buffer.first)?;
            row.set_item("last", buffer.last)?;
            row.set_item("reads", buffer.reads)?;
            Ok(row)
        };
        self.program.buffers.iter().map(row).collect()
    }

    /// One dict per command: index, opcode, as `operators`, then loading, computing, storing (first cycle, one past the
    /// last).
    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |command: &CommandTime| {
            let row = PyDict::new(py);
            row.set_item("index", command.index)?;
            row.set_item("opcode", format!("{:?}", command.opcode))?;
            let operator = self.program.operator_of(command.index);
            row.set_item("name", operator.map_or("", |operator| &operator.name))?;
            row.set_item("kind", operator.map_or("", |operator| &operator.kind))?;
            self.times(&row, std::slice::from_ref(command))?;
            let span = |span: Span| (span.start, span.end);
            row.set_item("loading", span(command.loading))?;
            row.set_item("computing", span(command.computing))?;
            row.set_item("storing", span(command.storing))?;
            Ok(row)
        };
        self.inner.commands.iter().map(row).collect()
    }
}

/// What stays in the near memory, as a dict.
pub(crate) fn residency<'py>(py: Python<'py>, program: &Program) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(residency) = &program.residency else { return Ok(None) };
    let row = PyDict::new(py);
    row.set_item("policy", residency.policy.name())?;
    row.set_item("capacity", residency.capacity)?;
    row.set_item("value", residency.value)?;
    row.set_item("bound", residency.bound)?;
    row.set_item("gap", residency.gap())?;
    row.set_item("peak", residency.peak)?;
    row.set_item("lower_bound", residency.lower_bound)?;
    Ok(Some(row))
}
