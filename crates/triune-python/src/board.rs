//! Boards: an accelerator's memories, registers and core as a driver sees them, in this process or elsewhere.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use numpy::PyUntypedArray;
use pyo3::{intern, marker::Ungil, prelude::*, types::PyDict};
use triune::internals::{
    compiler::Error as CompileError,
    device::{
        self, Error, Job, JobReport, LocalBoard, Records, RegionId, Segment, SegmentKind, SegmentTable,
        Settings, spec::Precision,
    },
    fork::{Brief, Lock},
    kernels::CancelToken,
    remote::{ClientTls, ConnectOptions, RemoteBoard},
    runtime::Error as RuntimeError,
};

use crate::list::List;
use crate::{
    array::{Input, Output},
    error::{self, ReleasedError},
    remote,
};

/// A segment from Python: region, address, bytes, kind.
pub(crate) type Place = (String, u64, u64, String);
/// Records from Python: region, address, bytes.
type Range = (String, u64, u64);

/// A board: regions of memory by name, registers, and a core that runs commands which lie in memory.
///
/// Calls may come from any thread; copies and runs release the interpreter. Buffers are anything that numpy can see as bytes,
/// and are copied once, between themselves and the board's memory.
#[pyclass(frozen, weakref, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Board {
    inner: Brief<Option<Arc<dyn device::Board>>>,
    /// Held while some settings are changed, so that nobody else's are lost.
    configuring: Lock<()>,
    /// Stops calls under way when the board is closed.
    closed: CancelToken,
}

/// What a run cost.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct BoardReport {
    pub(crate) inner: JobReport,
}

#[pymethods]
impl BoardReport {
    /// Layers since the last reset, this run's included.
    #[getter]
    fn layer_count(&self) -> u64 {
        self.inner.layer_count
    }

    /// Cycles of the core from the launch to the last store.
    #[getter]
    fn cycles(&self) -> u64 {
        self.inner.cycles
    }

    /// The same in nanoseconds.
    #[getter]
    fn nanoseconds(&self) -> u64 {
        self.inner.nanoseconds
    }

    /// First and last cycle of each layer, from the launch on.
    #[getter]
    fn layers(&self) -> Vec<(u64, u64)> {
        self.inner.layers.iter().map(|layer| (layer.start, layer.end)).collect()
    }
}

/// The kinds of segments by name.
const KINDS: [(&str, SegmentKind); 7] = [
    ("instructions", SegmentKind::Instructions),
    ("constants", SegmentKind::Constants),
    ("scratch", SegmentKind::Scratch),
    ("resident", SegmentKind::Resident),
    ("spilled", SegmentKind::Spilled),
    ("input", SegmentKind::Input),
    ("output", SegmentKind::Output),
];

impl Board {
    /// A board of any kind.
    pub(crate) fn of(board: Arc<dyn device::Board>) -> Self {
        Self { inner: Brief::new(Some(board)), configuring: Lock::new(()), closed: CancelToken::new() }
    }

    /// The board.
    ///
    /// Raises `ReleasedError` once it is closed.
    pub(crate) fn open(&self) -> PyResult<Arc<dyn device::Board>> {
        let inner = self.inner.lock();
        inner.clone().ok_or_else(closed)
    }

    /// Does what the board is asked for, until it is closed.
    pub(crate) fn detached<T: Ungil + Send, E: Ungil + Send + Into<RuntimeError>>(
        &self,
        py: Python<'_>,
        call: impl Ungil + Send + FnOnce() -> Result<T, E>,
    ) -> PyResult<T> {
        error::stoppable(py, Some(&self.closed), call)?.map_err(|error| match error.into() {
            RuntimeError::Compile(CompileError::Device(Error::Cancelled)) => closed(),
            other => error::runtime(other),
        })
    }
}

/// The region of a name.
pub(crate) fn region(board: &dyn device::Board, name: &str) -> PyResult<RegionId> {
    board.info().region(name).map_err(error::device)
}

/// The kind of segments of a name.
pub(crate) fn kind(name: &str) -> PyResult<SegmentKind> {
    let known = KINDS.iter().find(|(known, _)| *known == name);
    known.map(|(_, kind)| *kind).ok_or_else(|| {
        let kinds = KINDS.map(|(name, _)| name).join(", ");
        error::argument(format!(
            "'{}' is no kind of a segment; there are {kinds}",
            triune::internals::tensor::text::Name(name)
        ))
    })
}

/// The segments of a job.
pub(crate) fn segment_table(board: &dyn device::Board, places: &[Place]) -> PyResult<SegmentTable> {
    let segment = |(name, base, len, kind): &Place| {
        Ok(Segment { region: region(board, name)?, base: *base, len: *len, kind: self::kind(kind)? })
    };
    let segments: PyResult<Vec<Segment>> = places.iter().map(segment).collect();
    SegmentTable::new(segments?).map_err(error::device)
}

/// Any buffer as an array of bytes, without a copy.
pub(crate) fn bytes_of<'py>(buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = buffer.py();
    if let Ok(array) = buffer.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let array = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "frombuffer"), (buffer, "u1"))?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

#[pymethods]
impl Board {
    /// A simulated board in this process, of a device such as `zg330`; one that does not compute has memory and registers only.
    /// Runs use `threads` threads, 0 means one per CPU core.
    ///
    /// Raises `ArgumentError` if there is no such device.
    #[staticmethod]
    #[pyo3(signature = (device, computes=true, *, threads=0))]
    fn local(py: Python<'_>, device: &str, computes: bool, threads: usize) -> PyResult<Self> {
        let board = error::detached(py, || LocalBoard::open(device, computes, threads))?;
        Ok(Self::of(Arc::new(board.map_err(error::device)?)))
    }

    /// A board of a server at a host and port: number `board` or the first that is free; one that others may have at the same
    /// time if `share`. The token is in `token_file` or the environment variable `TRIUNE_TOKEN`; it goes to other machines under
    /// TLS only, unless `insecure`. `ca` is a PEM file with the certificates that are trusted, and turns TLS on. Getting the
    /// board may take `timeout` seconds; a server that is silent for `patience` seconds, though it has something to do, is
    /// given up. After that every call raises `LinkError`; only a new connection helps, which has a new board.
    ///
    /// Raises `LinkError` if there is no server, it refuses, or is not to be trusted.
    #[staticmethod]
    #[pyo3(signature = (
        host,
        port,
        device,
        *,
        board=None,
        share=false,
        token_file=None,
        ca=None,
        insecure=false,
        timeout=10.0,
        patience=30.0,
    ))]
    fn connect(
        py: Python<'_>,
        host: &str,
        port: u16,
        device: &str,
        board: Option<u32>,
        share: bool,
        token_file: Option<PathBuf>,
        ca: Option<PathBuf>,
        insecure: bool,
        timeout: f64,
        patience: f64,
    ) -> PyResult<Self> {
        let timeout = remote::seconds("timeout", timeout)?;
        let patience = remote::seconds("patience", patience)?;
        let connect = || {
            let token = remote::token(token_file)?;
            let tls = ca.map(|path| ClientTls::load(&path)).transpose()?;
            let options = ConnectOptions { board, share, token, tls, insecure, timeout, patience };
            RemoteBoard::connect(host, port, device, &options)
        };
        let board = error::detached(py, connect)?.map_err(error::device)?;
        Ok(Self::of(Arc::new(board)))
    }

    /// The device's name.
    #[getter]
    fn device(&self) -> PyResult<String> {
        Ok(self.open()?.info().device.clone())
    }

    /// Whether it can run commands.
    #[getter]
    fn computes(&self) -> PyResult<bool> {
        Ok(self.open()?.info().computes)
    }

    /// Whether its memory is under the sanitizer's eyes: it wants to hear what runs make, see `forget`.
    #[getter]
    fn watched(&self) -> PyResult<bool> {
        Ok(self.open()?.info().watched)
    }

    /// Versions of its parts.
    #[getter]
    fn versions(&self) -> PyResult<BTreeMap<String, String>> {
        Ok(self.open()?.info().versions.iter().cloned().collect())
    }

    /// Its regions: name, bytes, and bytes at the start that nobody gets.
    #[getter]
    fn regions(&self) -> PyResult<Vec<Range>> {
        let board = self.open()?;
        let regions = board.info().regions.iter();
        Ok(regions.map(|region| (region.name.clone(), region.bytes, region.reserved)).collect())
    }

    /// Allocates bytes at a multiple of `alignment`, a power of two; returns their address.
    ///
    /// Raises `UnsupportedError` if there is no room, also for no bytes.
    #[pyo3(signature = (region, nbytes, alignment=64))]
    fn allocate(&self, py: Python<'_>, region: &str, nbytes: u64, alignment: u64) -> PyResult<u64> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        self.detached(py, || board.allocate(region, nbytes, alignment))
    }

    /// Allocates bytes at an address.
    ///
    /// Raises `UnsupportedError` if any of them is in use or outside of the region.
    fn allocate_at(&self, py: Python<'_>, region: &str, start: u64, nbytes: u64) -> PyResult<()> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        self.detached(py, || board.allocate_at(region, start, nbytes))
    }

    /// Frees what was allocated at an address; returns its bytes.
    ///
    /// Raises `ArgumentError` if nothing was.
    fn free(&self, py: Python<'_>, region: &str, start: u64) -> PyResult<u64> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        self.detached(py, || board.free(region, start))
    }

    /// Address and bytes of everything that is allocated in a region, in the order of addresses.
    fn live(&self, py: Python<'_>, region: &str) -> PyResult<Vec<(u64, u64)>> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        self.detached(py, || board.live(region))
    }

    /// The most bytes of a region that can be allocated at a multiple of `alignment`, a power of two, or could be if what lies at the
    /// addresses `without` were freed.
    fn room(&self, py: Python<'_>, region: &str, alignment: u64, without: List<u64>) -> PyResult<u64> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        self.detached(py, || board.room(region, alignment, &without))
    }

    /// Copies bytes at an address to a buffer, all of it.
    ///
    /// Raises `ArgumentError` if they leave the region, or the buffer cannot be written.
    fn read(&self, py: Python<'_>, region: &str, start: u64, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        let mut out = Output::new("out", &bytes_of(out)?)?;
        let bytes = out.bytes()?;
        self.detached(py, || board.read(region, start, bytes))
    }

    /// Copies a buffer to an address.
    ///
    /// Raises `ArgumentError` if it leaves the region.
    fn write(&self, py: Python<'_>, region: &str, start: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let board = self.open()?;
        let region = self::region(&*board, region)?;
        let data = Input::new("data", &bytes_of(data)?)?;
        let bytes = data.bytes()?;
        self.detached(py, || board.write(region, start, bytes))
    }

    /// Copies bytes within the board; the ranges may overlap.
    ///
    /// Raises `ArgumentError` if they leave a region.
    fn copy(
        &self,
        py: Python<'_>,
        source_region: &str,
        source: u64,
        target_region: &str,
        target: u64,
        nbytes: u64,
    ) -> PyResult<()> {
        let board = self.open()?;
        let from = (region(&*board, source_region)?, source);
        let to = (region(&*board, target_region)?, target);
        self.detached(py, || board.copy(from, to, nbytes))
    }

    /// Says that bytes (region, address, bytes) hold nothing of value any more: until they are written again, a board that is
    /// watched raises `SanitizerError` for whoever reads them. Whoever runs a part of a program says so of what that makes.
    ///
    /// Raises `ArgumentError` if there are no such bytes.
    fn forget(&self, py: Python<'_>, ranges: List<Range>) -> PyResult<()> {
        let board = self.open()?;
        let ranges: PyResult<Vec<_>> = ranges
            .0
            .iter()
            .map(|(name, start, bytes)| Ok((region(&*board, name)?, *start, *bytes)))
            .collect();
        let ranges = ranges?;
        self.detached(py, || board.forget(&ranges))
    }

    /// What a register holds; the address counts from the board's window of registers.
    ///
    /// Raises `ArgumentError` if there is none.
    fn read_register(&self, py: Python<'_>, address: u64) -> PyResult<u32> {
        let board = self.open()?;
        self.detached(py, || board.read_register(address))
    }

    /// Sets a register and does what that does: the run registers start the core.
    ///
    /// Raises `ArgumentError` if there is none, or it cannot be written; what `run` raises.
    fn write_register(&self, py: Python<'_>, address: u64, value: u32) -> PyResult<()> {
        let board = self.open()?;
        self.detached(py, || board.write_register(address, value))
    }

    /// What is set, by the names that `configure` takes.
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let board = self.open()?;
        let settings = self.detached(py, || board.settings())?;
        let range = |records: Option<Records>| {
            let regions = &board.info().regions;
            records.and_then(|records| {
                let name = regions.get(records.region.0)?.name.clone();
                Some((name, records.start, records.bytes))
            })
        };
        let found = PyDict::new(py);
        found.set_item("core_hz", settings.core_hz)?;
        found.set_item("memory_hz", settings.memory_hz)?;
        found.set_item("engines", (settings.engines[0], settings.engines[1]))?;
        found.set_item("bits", bits(settings.precision))?;
        found.set_item("timer", range(settings.timer))?;
        found.set_item("profiler", range(settings.profiler))?;
        Ok(found)
    }

    /// Sets what is given: clocks of core and far memory in Hz, rows and columns of engines that work, bits that 8-bit commands
    /// are timed at (8 or 16), where every run writes its layers' times and profiles (region, address, bytes; none is
    /// written to 0 bytes).
    ///
    /// Raises `ArgumentError` naming what cannot be; then nothing is set.
    #[pyo3(signature = (*, core_hz=None, memory_hz=None, engines=None, bits=None, timer=None, profiler=None))]
    fn configure(
        &self,
        py: Python<'_>,
        core_hz: Option<u64>,
        memory_hz: Option<u64>,
        engines: Option<(u32, u32)>,
        bits: Option<u32>,
        timer: Option<Range>,
        profiler: Option<Range>,
    ) -> PyResult<()> {
        let board = self.open()?;
        let precision = match bits {
            None => None,
            Some(8) => Some(Precision::Int8),
            Some(16) => Some(Precision::Int16),
            Some(other) => return Err(error::argument(format!("{other} bits; 8 and 16 can be set"))),
        };
        let records = |range: Option<Range>| {
            let records = range
                .map(|(name, start, bytes)| Ok(Records { region: region(&*board, &name)?, start, bytes }));
            records.transpose()
        };
        let (timer, profiler): (PyResult<_>, PyResult<_>) = (records(timer), records(profiler));
        let (timer, profiler) = (timer?, profiler?);
        let configure = || {
            let _configuring = self.configuring.lock()?;
            let old = board.settings()?;
            let chosen = |new: Option<Records>, old: Option<Records>| {
                if new.is_some_and(|records| records.bytes == 0) { None } else { new.or(old) }
            };
            board.configure(&Settings {
                core_hz: core_hz.unwrap_or(old.core_hz),
                memory_hz: memory_hz.unwrap_or(old.memory_hz),
                engines: engines.map_or(old.engines, |(rows, columns)| [rows, columns]),
                precision: precision.unwrap_or(old.precision),
                timer: chosen(timer, old.timer),
                profiler: chosen(profiler, old.profiler),
            })
        };
        self.detached(py, configure)
    }

    /// Runs the streams of commands in `nbytes` bytes at `start` of the memory for instructions, and returns when they are done.
    /// `segments` says where the segments that they name lie: region, address, bytes and kind (`instructions`, `constants`,
    /// `scratch`, `resident`, `input`, `output`) of each; without, they lie where they did when these commands ran last.
    ///
    /// Raises `ArgumentError` naming the command, field or segment that is wrong, or if the board does not compute.
    #[pyo3(signature = (start, nbytes, segments=None))]
    fn run(
        &self,
        py: Python<'_>,
        start: u64,
        nbytes: u64,
        segments: Option<List<Place>>,
    ) -> PyResult<BoardReport> {
        let board = self.open()?;
        let segments = segments.map(|places| segment_table(&*board, &places)).transpose()?;
        let job = Job { start, bytes: nbytes, segments };
        let inner = self.detached(py, || board.run(&job))?;
        Ok(BoardReport { inner })
    }

    /// Sets everything but memory to what it was when the board was opened (level 0), or counters and timers (level 1).
    ///
    /// Raises `ArgumentError` for another level.
    fn reset(&self, py: Python<'_>, level: u32) -> PyResult<()> {
        let board = self.open()?;
        self.detached(py, || board.reset(level))
    }

    /// Lets go of the board and everything allocated on it. Calls under way are stopped; they, and every later call but this,
    /// raise `ReleasedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner.lock().take();
        self.closed.cancel();
        error::detached(py, || drop(inner))
    }
}

fn closed() -> PyErr {
    ReleasedError::new_err("the board has been closed")
}

fn bits(precision: Precision) -> u32 {
    match precision {
        Precision::Int8 => 8,
        Precision::Int16 => 16,
    }
}
