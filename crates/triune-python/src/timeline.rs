//! The modelled time of a program: the core's table as Python lists.

use pyo3::{prelude::*, types::PyDict};
use triune::internals::{
    device::{
        SegmentKind,
        spec::MemorySpec,
        timing::{CommandTime, Energy, Span, TileTime, Tiling},
    },
    runtime::{Cost, OperatorCost, Place, PlannedBuffer, Profile, Program},
};

use crate::error;

/// The modelled time of one run. Cycles count from the launch; microseconds and milliseconds are cycles at the clock that
/// the table was computed for.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) inner: Profile,
}

/// A first cycle, and one past the last.
type Cycles = (u64, u64);

/// Femtojoules, by what they go to; those of memories in the order of the device's.
pub(crate) fn energy<'py>(py: Python<'py>, energy: &Energy, memories: usize) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("macs", energy.macs)?;
    row.set_item("elements", energy.elements)?;
    row.set_item("buffers", energy.buffers)?;
    row.set_item("idle", energy.idle)?;
    row.set_item("memories", &energy.memories[..memories])?;
    Ok(row)
}

fn put_cost(row: &Bound<'_, PyDict>, cost: &Cost<'_>) -> PyResult<()> {
    row.set_item("start", cost.span[0])?;
    row.set_item("end", cost.span[1])?;
    row.set_item("cycles", cost.cycles())?;
    row.set_item("compute", cost.compute)?;
    row.set_item("load", cost.load)?;
    row.set_item("store", cost.store)?;
    row.set_item("stall", cost.stall)?;
    row.set_item("load_stall", cost.load_stall)?;
    row.set_item("launch", cost.launch)?;
    row.set_item("ideal", cost.ideal)?;
    row.set_item("sram", (cost.sram.ifmap, cost.sram.filter, cost.sram.ofmap))?;
    row.set_item("bound_by", cost.bound_by.name())?;
    row.set_item("bound_memory", cost.bound_memory)?;
    row.set_item("utilization", cost.utilization())?;
    row.set_item("array_utilization", cost.array_utilization())?;
    row.set_item("macs", cost.macs)?;
    row.set_item("bytes_read", cost.read.iter().sum::<u64>())?;
    row.set_item("bytes_written", cost.written.iter().sum::<u64>())?;
    row.set_item("reread", cost.reread)?;
    row.set_item("buffered", cost.buffered)?;
    row.set_item("tiles", cost.tiles)?;
    row.set_item("tiling", tiling(row.py(), &cost.tiling)?)?;
    row.set_item("read", &cost.read)?;
    row.set_item("written", &cost.written)?;
    row.set_item(
        "energy",
        cost.energy.as_ref().map(|each| energy(row.py(), each, cost.read.len())).transpose()?,
    )
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

#[pymethods]
impl Timeline {
    #[getter]
    fn device(&self) -> &str {
        &self.inner.timeline().device
    }

    /// The clock that the table was computed for in MHz; 0 when time is not modelled.
    #[getter]
    fn clock_mhz(&self) -> u32 {
        self.inner.timeline().clock_mhz
    }

    /// The memory that the description places constants in, and the bytes of it that are the program's.
    #[getter]
    fn constants_share(&self) -> (&str, u64) {
        self.inner.constants_share()
    }

    /// What the device's description takes for granted of every program, in words.
    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.inner.spec().assumptions()
    }

    /// Bytes of a core's buffers, with what the program's maps leave of the near memory; None where the description gives no
    /// size.
    #[getter]
    fn buffer_bytes(&self) -> Option<u64> {
        self.inner.timeline().buffer_bytes
    }

    /// Cycles from the launch to the last store.
    #[getter]
    fn cycles(&self) -> u64 {
        self.inner.timeline().total_cycles
    }

    /// Cycles from the launch to the first command.
    #[getter]
    fn launch_cycles(&self) -> u64 {
        self.inner.timeline().launch_cycles
    }

    /// The whole program in microseconds.
    #[getter]
    fn micros(&self) -> f64 {
        self.inner.timeline().micros()
    }

    /// The sums over all commands, with the keys of `operators` but for name and kind: `cycles` is the whole time, launch
    /// included, `utilization` the array's in it, `launch` what starting the commands costs.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let row = PyDict::new(py);
        put_cost(&row, &self.inner.total())?;
        Ok(row)
    }

    /// Multiply-accumulates of the whole program.
    #[getter]
    fn macs(&self) -> u64 {
        self.inner.timeline().macs()
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
        let row = |operator: OperatorCost<'_>| {
            let row = PyDict::new(py);
            row.set_item("name", operator.name)?;
            row.set_item("kind", operator.kind)?;
            put_cost(&row, &self.inner.cost(operator.commands))?;
            Ok(row)
        };
        self.inner.operators().map(row).collect()
    }

    /// Most 8-bit multiply-accumulates per cycle and core.
    #[getter]
    fn peak_macs_per_cycle(&self) -> f64 {
        self.inner.spec().peak_macs_per_cycle()
    }

    /// Bytes of the segment of feature maps in the far memory.
    #[getter]
    fn scratch_bytes(&self) -> u64 {
        self.inner.program().scratch_bytes
    }

    /// What no plan of those can do without.
    #[getter]
    fn scratch_lower_bound(&self) -> u64 {
        self.inner.program().scratch_lower_bound
    }

    /// Bytes of feature maps that the memory for them has no room for.
    #[getter]
    fn spilled_bytes(&self) -> u64 {
        self.inner.program().spilled_bytes
    }

    /// What stays in the near memory: policy, capacity, value, bound, gap, peak, `lower_bound`. None when the device has no
    /// such memory.
    fn residency<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        residency(py, self.inner.program())
    }

    /// One dict per memory of the device: name, bytes that programs can use, `bytes_per_cycle` of a core's port.
    fn memories<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |memory: &MemorySpec| {
            let row = PyDict::new(py);
            row.set_item("name", &memory.name)?;
            row.set_item("bytes", memory.usable_bytes())?;
            row.set_item("bytes_per_cycle", memory.bytes_per_cycle_at(self.inner.timeline().clock_mhz))?;
            Ok(row)
        };
        self.inner.spec().memory.iter().map(row).collect()
    }

    /// One dict per segment of the first image: kind (`instructions`, `constants`, `scratch`, `resident`, `input`,
    /// `output`, `spilled`), memory, base, bytes.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |place: &Place| {
            let row = PyDict::new(py);
            let kind = match place.kind {
                SegmentKind::Instructions => "instructions",
                SegmentKind::Constants => "constants",
                SegmentKind::Scratch => "scratch",
                SegmentKind::Resident => "resident",
                SegmentKind::Spilled => "spilled",
                SegmentKind::Input => "input",
                SegmentKind::Output => "output",
            };
            row.set_item("kind", kind)?;
            row.set_item("memory", &place.memory)?;
            row.set_item("base", place.base)?;
            row.set_item("bytes", place.bytes)?;
            Ok(row)
        };
        self.inner.places().iter().map(row).collect()
    }

    /// One dict per feature map of the plan: segment (`scratch`, `resident`, `spilled`), offset, bytes, first and last (one past)
    /// command, reads.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |buffer: &PlannedBuffer| {
            let row = PyDict::new(py);
            let segment = match buffer.segment {
                Program::RESIDENT => "resident",
                Program::SCRATCH => "scratch",
                _ => "spilled",
            };
            row.set_item("segment", segment)?;
            row.set_item("offset", buffer.offset)?;
            row.set_item("bytes", buffer.bytes)?;
            row.set_item("first", buffer.first)?;
            row.set_item("last", buffer.last)?;
            row.set_item("reads", buffer.reads)?;
            Ok(row)
        };
        self.inner.program().buffers.iter().map(row).collect()
    }

    /// One dict per command: index, opcode, as `operators`, then loading, computing, storing (first cycle, one past the
    /// last).
    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let row = |command: &CommandTime| {
            let row = PyDict::new(py);
            row.set_item("index", command.index)?;
            row.set_item("opcode", format!("{:?}", command.opcode))?;
            let (name, kind) = self.inner.operator_of(command);
            row.set_item("name", name)?;
            row.set_item("kind", kind)?;
            put_cost(&row, &self.inner.cost(std::slice::from_ref(command)))?;
            let span = |span: Span| (span.start, span.end);
            row.set_item("loading", span(command.loading))?;
            row.set_item("computing", span(command.computing))?;
            row.set_item("storing", span(command.storing))?;
            Ok(row)
        };
        self.inner.timeline().commands.iter().map(row).collect()
    }

    /// Per command, one tuple per tile: when it is loaded, computed and stored (first cycle, one past the last; equal when it
    /// is not).
    fn tiles(&self) -> PyResult<Vec<Vec<[Cycles; 3]>>> {
        let span = |span: Span| (span.start, span.end);
        let spans = |tile: &TileTime| [tile.loading, tile.computing, tile.storing].map(span);
        let found = self.inner.tiles().map_err(error::runtime)?;
        Ok(found.iter().map(|tiles| tiles.iter().map(spans).collect()).collect())
    }

    /// Per command, the indices of the feature maps of `buffers` that it reads, and of those that it writes.
    fn feature_maps(&self) -> PyResult<Vec<[Vec<usize>; 2]>> {
        self.inner.feature_maps().map_err(error::runtime)
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
