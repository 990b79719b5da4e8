//! A board: an accelerator with its memories and registers, as a driver sees it, in this process or behind a connection.
//!
//! Addresses are byte offsets in a region. What is allocated belongs to whoever asked for it, until it is freed or the
//! board is let go of.

mod core;
mod local;
mod logic;
mod mmu;
mod model;
mod records;
mod registers;

use std::fmt;

pub use local::LocalBoard;
pub use records::{PROFILER_RECORD_BYTES, TIMER_RECORD_BYTES};

use crate::{Error, RegionId, SegmentTable, spec::Precision};

/// What a board has and is; fixed as long as it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardInfo {
    /// Name of the device description, such as `zg330`.
    pub device: String,
    /// Regions of memory in the order of their [`RegionId`].
    pub regions: Vec<RegionInfo>,
    /// Versions of its parts, by name.
    pub versions: Vec<(String, String)>,
    /// Whether it computes; one that does not has memory and registers only.
    pub computes: bool,
    /// Whether its memory is under the sanitizer's eyes: it wants to hear what jobs make ([`Board::forget`]).
    pub watched: bool,
}

impl BoardInfo {
    /// The region of a name.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`] lists the names that exist.
    pub fn region(&self, name: &str) -> Result<RegionId, Error> {
        self.regions.iter().position(|region| region.name == name).map(RegionId).ok_or_else(|| {
            Error::UnknownMemory {
                device: self.device.clone(),
                name: name.to_owned(),
                known: self.regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>().join(", "),
            }
        })
    }
}

/// One region of a board's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Name, such as `ddr`.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Bytes at its start that nobody gets.
    pub reserved: u64,
}

/// What can be set on a board. Settings change times and register values, never results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The core's clock in Hz.
    pub core_hz: u64,
    /// The far memory's clock in Hz; its bandwidth is proportional to it.
    pub memory_hz: u64,
    /// Rows and columns of engines that work.
    pub engines: [u32; 2],
    /// Width that 8-bit commands are timed at.
    pub precision: Precision,
    /// Where every run writes when its layers started and ended: records of [`TIMER_RECORD_BYTES`] bytes, two little-endian
    /// u64 each, start and end in cycles of the core since the last reset, not counting what it stood still. The record of
    /// layer n, counted from 0 since the last reset, is the n-th; layers beyond the range leave none. Ends when what is
    /// allocated there is freed.
    pub timer: Option<Records>,
    /// As `timer`, of [`PROFILER_RECORD_BYTES`] bytes, eight u64 each: start, end, cycles that were computed, that were waited
    /// for loads, that were waited for stores, bytes read from the far memory, bytes written to it, multiply-accumulates.
    pub profiler: Option<Records>,
}

/// A range of a board's memory that it writes records of layers into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// The region.
    pub region: RegionId,
    /// Address of the first byte.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Commands to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The first command's address in the memory for instructions.
    pub start: u64,
    /// Bytes: one stream of commands after the other, each at a multiple of 8 bytes from `start` and with its `end` command,
    /// zero bytes between them. Every stream is a layer; all are launched once.
    pub bytes: u64,
    /// Where the segments that the commands name lie; `None`: where they did when commands of these bytes ran last. The
    /// instruction segment has to hold `start..start + bytes`. While a board has an MMU that is on, `start` and bases in the
    /// far memory are logical addresses, which its table turns into physical ones; without a table they are the same.
    pub segments: Option<SegmentTable>,
}

/// One layer of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerTime {
    /// Cycles from the job's launch to its first command.
    pub start: u64,
    /// Cycles from the job's launch to its last store.
    pub end: u64,
}

/// What a job cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Layers since the last reset, this job's included.
    pub layer_count: u64,
    /// Cycles of the core from the launch to the last store.
    pub cycles: u64,
    /// The same in nanoseconds at the core's clock.
    pub nanoseconds: u64,
    /// The job's layers in order.
    pub layers: Vec<LayerTime>,
}

/// A board. Every call may come from any thread; calls that change the same bytes take turns.
///
/// Errors of a board that cannot be reached any more are [`Error::Link`], of one that refuses [`Error::Board`]; a call that
/// takes long or waits gives [`Error::Cancelled`] when it is stopped ([`triune_kernels::CancelToken`]), and the board can be used
/// as before.
pub trait Board: Send + Sync + fmt::Debug {
    /// What it has and is.
    fn info(&self) -> &BoardInfo;

    /// Allocates bytes at a multiple of `alignment` (a power of two) and gives their address.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], also for no bytes or an alignment that is no power of two; [`Error::UnknownMemory`].
    fn allocate(&self, region: RegionId, bytes: u64, alignment: u64) -> Result<u64, Error>;

    /// Allocates exactly `bytes` at `start`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when any of them is in use or outside of the region.
    fn allocate_at(&self, region: RegionId, start: u64, bytes: u64) -> Result<(), Error>;

    /// Frees what was allocated at `start` and gives its length.
    ///
    /// # Errors
    /// [`Error::NotAllocated`].
    fn free(&self, region: RegionId, start: u64) -> Result<u64, Error>;

    /// What is allocated: address and length, in the order of addresses, reserved parts left out.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`].
    fn live(&self, region: RegionId) -> Result<Vec<(u64, u64)>, Error>;

    /// The most bytes that can be allocated at a multiple of `alignment` (a power of two), or could be if what lies at the addresses
    /// `without` were freed.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`].
    fn room(&self, region: RegionId, alignment: u64, without: &[u64]) -> Result<u64, Error> {
        let live = self.live(region)?;
        // That there is such a region, `live` has said.
        let own = self.info().regions.get(region.0);
        let (mut at, end) = own.map_or((0, 0), |own| (own.reserved, own.bytes));
        let mut most = 0;
        for (start, bytes) in live.into_iter().filter(|(start, _)| !without.contains(start)).chain([(end, 0)])
        {
            let first = at.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
            most = most.max(start.saturating_sub(first));
            at = at.max(start.saturating_add(bytes));
        }
        Ok(most)
    }

    /// Copies bytes at `start` to the host.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`].
    fn read(&self, region: RegionId, start: u64, out: &mut [u8]) -> Result<(), Error>;

    /// Copies bytes of the host to `start`.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`].
    fn write(&self, region: RegionId, start: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Copies bytes within the board, as if through a buffer: the ranges may overlap.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`].
    fn copy(&self, from: (RegionId, u64), to: (RegionId, u64), bytes: u64) -> Result<(), Error>;

    /// Says that bytes, each a region, an address and a length, hold nothing of value any more: until they are written again, a
    /// board that is watched reports who reads them. Jobs are parts of longer programs, so that whoever runs one says so of
    /// what it makes, before it runs.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`], [`Error::OutOfRegion`].
    fn forget(&self, ranges: &[(RegionId, u64, u64)]) -> Result<(), Error>;

    /// What a register holds. The address counts from the board's window of registers.
    ///
    /// # Errors
    /// [`Error::Board`] for an address without a register.
    fn read_register(&self, address: u64) -> Result<u32, Error>;

    /// Sets a register and does what that does: the run registers start the core.
    ///
    /// # Errors
    /// [`Error::Board`] for an address without a register; what [`Self::run`] gives.
    fn write_register(&self, address: u64, value: u32) -> Result<(), Error>;

    /// What is set.
    ///
    /// # Errors
    /// [`Error::Link`].
    fn settings(&self) -> Result<Settings, Error>;

    /// Sets clocks, engines and width.
    ///
    /// # Errors
    /// [`Error::Board`] names what cannot be.
    fn configure(&self, settings: &Settings) -> Result<(), Error>;

    /// Runs commands and returns when they are done. One job runs at a time; others wait for it.
    ///
    /// # Errors
    /// [`Error::Board`] if it does not compute; [`Error::Segment`]; what decoding and running commands give.
    fn run(&self, job: &Job) -> Result<JobReport, Error>;

    /// Level 0 sets everything but memory to what it was when the board was opened, level 1 what a run leaves behind:
    /// counters and timers.
    ///
    /// # Errors
    /// [`Error::Board`] for another level.
    fn reset(&self, level: u32) -> Result<(), Error>;
}
