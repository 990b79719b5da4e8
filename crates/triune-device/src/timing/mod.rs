//! How long a program takes on a device: a second reading of its commands.
//!
//! Integers only, so that every machine gives the same answer. Knows shapes and the description, never a value.

mod array;
mod energy;
mod engine;
mod pipeline;
mod report;
mod search;
mod tiling;
mod walk;
mod work;

pub use array::SramAccesses;
pub use energy::Energy;
pub use report::BoundBy;
pub use tiling::{Order, Tiling};

use std::{borrow::Borrow, collections::HashMap, sync::OnceLock};

use tiling::Demand;
use walk::{Asking, Places, Walk};

use crate::Error;
use crate::command::{Addr, Command, Opcode};
use crate::spec::{DeviceSpec, MAX_MEMORIES, Precision, TimingModel};

/// Bytes per memory, in the order of the device's description; unused entries are 0.
pub type MemoryBytes = [u64; MAX_MEMORIES];

/// Cycles from `start` until `end`; empty when they are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first cycle.
    pub start: u64,
    /// One past the last cycle.
    pub end: u64,
}

impl Span {
    /// So many cycles later; an empty one is nowhere.
    fn later(self, cycles: u64) -> Self {
        if self.start < self.end {
            Self { start: self.start.saturating_add(cycles), end: self.end.saturating_add(cycles) }
        } else {
            Self::default()
        }
    }

    /// Grows to hold `other` too; an empty span holds nothing.
    fn cover(&mut self, other: Self) {
        *self = match (self.start < self.end, other.start < other.end) {
            (true, true) => Self { start: self.start.min(other.start), end: self.end.max(other.end) },
            (false, true) => other,
            (_, false) => *self,
        };
    }
}

/// What one command costs. All times in cycles of the core's clock, counted from the program's launch.
///
/// Commands follow each other: one begins when the results of the one before are stored, its loads while it is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTime {
    /// Position in the stream.
    pub index: u32,
    /// Which command.
    pub opcode: Opcode,
    /// When its first load, or failing that its computation, starts.
    pub start: u64,
    /// When its last result is stored.
    pub end: u64,
    /// Cycles that the array or vector unit is busy with it.
    pub compute: u64,
    /// Cycles that its loads keep the memory ports busy.
    pub load: u64,
    /// Cycles that its stores keep the memory ports busy.
    pub store: u64,
    /// Cycles that the array or vector unit waited for this command's loads, for room for its results, and until the last
    /// of them were stored.
    pub stall: u64,
    /// The part of `stall` in which it waited for loads.
    pub load_stall: u64,
    /// Cycles that starting the command cost.
    pub launch: u64,
    /// Cycles that the array would take if all of it worked all the time; 0 for what runs on the vector unit.
    pub ideal: u64,
    /// Accesses to the array's operand buffers in elements.
    pub sram: SramAccesses,
    /// From its first byte on a memory port until its last, without the latency behind; may hold gaps.
    pub loading: Span,
    /// From its first block in the array or vector unit until its last; may hold gaps. Never overlaps a neighbour's.
    pub computing: Span,
    /// As `loading`, for its results.
    pub storing: Span,
    /// Bytes read from each memory.
    pub bytes_read: MemoryBytes,
    /// Bytes written to each memory.
    pub bytes_written: MemoryBytes,
    /// Of the bytes read from each memory, those that were read before: rows that two bands need, and what passes again.
    pub bytes_reread: MemoryBytes,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Multiply-accumulates and comparisons of windows; those of the array are among `macs` alone.
    pub taps: u64,
    /// Results of the vector unit, or of the array, which pass it.
    pub elements: u64,
    /// How its work is cut.
    pub tiling: Tiling,
    /// Most bytes in the buffers at once.
    pub buffered: u64,
}

/// When one tile of a command is in each queue; a span that is empty is 0..0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileTime {
    /// From its first byte on a memory port until its last, without the latency behind.
    pub loading: Span,
    /// In the array or vector unit.
    pub computing: Span,
    /// As `loading`, for its results.
    pub storing: Span,
}

/// What a program costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The device's name.
    pub device: String,
    /// The clock that it was computed for in MHz; 0 when time is not modelled.
    pub clock_mhz: u32,
    /// Names of the memories that the byte counts belong to.
    pub memories: Vec<String>,
    /// Bytes of a core's buffers, with what the program's maps leave of the near memory; none where the description gives no
    /// size.
    pub buffer_bytes: Option<u64>,
    /// Cycles from the launch to the first command.
    pub launch_cycles: u64,
    /// Cycles from the launch to the last store.
    pub total_cycles: u64,
    /// The circumstances that it was computed for, as given.
    pub options: TimingOptions,
    /// One entry per command, `end` excluded.
    pub commands: Vec<CommandTime>,
}

impl Timeline {
    /// Adds the time of commands that are launched when all of these are done.
    pub fn append(&mut self, part: Self) {
        let (delay, first) = (self.total_cycles, self.commands.len() as u32);
        let later = |cycle: u64| cycle.saturating_add(delay);
        // Empty ones too: what only moves data has its place in the array's time.
        let span = |span: Span| {
            if span == Span::default() {
                span
            } else {
                Span { start: later(span.start), end: later(span.end) }
            }
        };
        self.commands.extend(part.commands.into_iter().map(|time| CommandTime {
            index: time.index + first,
            start: later(time.start),
            end: later(time.end),
            loading: span(time.loading),
            computing: span(time.computing),
            storing: span(time.storing),
            ..time
        }));
        self.total_cycles = later(part.total_cycles);
    }
}

/// Under which circumstances a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingOptions {
    /// The core's clock in MHz; `None`: the device's default.
    pub clock_mhz: Option<u32>,
    /// Width of what the commands have as 8-bit integers.
    pub precision: Precision,
    /// Cores at work at the same time, each with a program like this one. A shared memory of p ports gives each of k
    /// cores its whole bandwidth while k ≤ p, and p/k of it beyond.
    pub active_cores: u32,
    /// Share of its time that the array may spend on products, in percent (1–100), as power limits set it: products take
    /// 100/n as long, whatever else a command waits for. An even stretch is inferred; vendors give the share alone.
    pub array_percent: u32,
    /// Bytes of the near memory (`placement.resident`) that the program keeps feature maps in; the others are buffers.
    pub resident_bytes: u64,
}

impl Default for TimingOptions {
    fn default() -> Self {
        Self {
            clock_mhz: None,
            precision: Precision::Int8,
            active_cores: 1,
            array_percent: 100,
            resident_bytes: 0,
        }
    }
}

/// The time that `commands`, up to an `end`, take on one core of `spec`.
///
/// `placement` gives the memory of each segment by name. Every command is cut into tiles that fit the buffers and stream
/// through the LOAD, EXECUTE and STORE queues, in the way that takes least time; commands that ask for the same are looked
/// at once. Searching it costs some tens of microseconds per kind of command, [`timeline_tiled`] saves them.
///
/// # Errors
/// [`Error::UnknownMemory`]; [`Error::Timing`] for a clock that the device cannot be set to, more cores than it has, a
/// precision that its array does not have, a share of the array's time above 100 %, or a segment without a memory.
pub fn timeline(
    spec: &DeviceSpec,
    commands: impl IntoIterator<Item: Borrow<Command>>,
    placement: &[&str],
    options: &TimingOptions,
) -> Result<Timeline, Error> {
    timeline_tiled(spec, commands, placement, options, std::iter::empty())
}

/// As [`timeline`], with commands cut as `tilings` say, one for each: those of a program that was compiled for other
/// circumstances. A command that cannot be cut so, or has none, is cut in the best way.
///
/// # Errors
/// As [`timeline`].
pub fn timeline_tiled(
    spec: &DeviceSpec,
    commands: impl IntoIterator<Item: Borrow<Command>>,
    placement: &[&str],
    options: &TimingOptions,
    tilings: impl IntoIterator<Item = Tiling>,
) -> Result<Timeline, Error> {
    clock(spec, options)?;
    Asked::new(spec, commands, placement, options)?.timeline(spec, options, tilings)
}

/// What commands, up to an `end`, ask of a device's memories and engines: worked out once, their times under several circumstances
/// follow from it.
#[derive(Clone, Debug)]
pub struct Asked {
    commands: Vec<Asking>,
    /// How many different demands there are.
    kinds: usize,
    precision: Precision,
    array_percent: u32,
}

impl Asked {
    /// What `commands` ask of `spec`, with segments in the memories that `placement` names.
    ///
    /// # Errors
    /// As [`timeline`], but for the clock and the cores.
    pub fn new(
        spec: &DeviceSpec,
        commands: impl IntoIterator<Item: Borrow<Command>>,
        placement: &[&str],
        options: &TimingOptions,
    ) -> Result<Self, Error> {
        let places = Places::new(spec, placement, options)?;
        let mut asked = Vec::new();
        let mut kinds: HashMap<Demand, usize, foldhash::fast::RandomState> = HashMap::default();
        for (index, command) in commands.into_iter().enumerate() {
            let command = command.borrow();
            if command.opcode() == Opcode::End {
                break;
            }
            let (work, demand) = places.demand(index, command)?;
            let next = kinds.len();
            let kind = *kinds.entry(demand).or_insert(next);
            asked.push(Asking { opcode: command.opcode(), work, demand, kind, held: OnceLock::new() });
        }
        Ok(Self {
            commands: asked,
            kinds: kinds.len(),
            precision: options.precision,
            array_percent: options.array_percent,
        })
    }

    /// Whether commands ask for the same under other circumstances: the clock, the cores at work and what is resident do not matter.
    pub fn serves(&self, options: &TimingOptions) -> bool {
        (self.precision, self.array_percent) == (options.precision, options.array_percent)
    }

    /// As [`timeline_tiled`], under circumstances that it [serves](Self::serves).
    ///
    /// # Errors
    /// As [`timeline`]; [`Error::Timing`] for circumstances that it does not serve.
    pub fn timeline(
        &self,
        spec: &DeviceSpec,
        options: &TimingOptions,
        tilings: impl IntoIterator<Item = Tiling>,
    ) -> Result<Timeline, Error> {
        let clock = clock(spec, options)?;
        if !self.serves(options) {
            return Err(Error::Timing(
                "what commands ask for was worked out for another precision or share".into(),
            ));
        }
        let mut tilings = tilings.into_iter();
        let mut walk = Walk::new(spec, clock, options, self.kinds);
        let mut times = Vec::with_capacity(self.commands.len());
        for (index, asked) in self.commands.iter().enumerate() {
            times.push(walk.command(index, asked, tilings.next().as_ref()));
        }
        Ok(Timeline {
            device: spec.name.clone(),
            clock_mhz: clock,
            memories: spec.memory.iter().map(|memory| memory.name.clone()).collect(),
            buffer_bytes: walk.buffer_bytes(),
            launch_cycles: walk.launch,
            total_cycles: walk.finish,
            options: *options,
            commands: times,
        })
    }
}

/// When each tile of each command of a timeline is in each queue, by command: `commands` and `placement` are those that it was
/// computed for. Tiles of one command cover its spans, and compute for as long.
///
/// # Errors
/// As [`timeline`]; [`Error::Timing`] if the timeline is that of other commands.
pub fn tiles(
    spec: &DeviceSpec,
    commands: impl IntoIterator<Item: Borrow<Command>>,
    placement: &[&str],
    timeline: &Timeline,
) -> Result<Vec<Vec<TileTime>>, Error> {
    let options = &timeline.options;
    let places = Places::new(spec, placement, options)?;
    let walk = Walk::new(spec, clock(spec, options)?, options, 0);
    let mut found = Vec::with_capacity(timeline.commands.len());
    for ((index, command), time) in commands.into_iter().enumerate().zip(&timeline.commands) {
        let (_, demand) = places.demand(index, command.borrow())?;
        found.push(
            walk.tiles(&demand, time).ok_or_else(|| {
                Error::Timing(format!("command {index}: the timeline is that of another one"))
            })?,
        );
    }
    Ok(found)
}

/// Bytes of the constants that `commands` use as the device holds them, each once: with the zeros between groups, if it computes
/// convolutions so ([`Groups::Dense`](crate::spec::Groups::Dense)).
pub fn constant_bytes<'a>(spec: &DeviceSpec, commands: impl IntoIterator<Item = &'a Command>) -> u64 {
    work::constant_bytes(spec, commands)
}

/// A feature map that a command reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Its first element.
    pub addr: Addr,
    /// Bytes of its elements, gaps not counted; a repeated operand counts once.
    pub bytes: u64,
    /// Whether it is written.
    pub written: bool,
}

/// The feature maps that a command reads and writes, without the channels that fill the timeline's blocks; constants are
/// not among them.
pub fn touches(spec: &DeviceSpec, command: &Command) -> impl Iterator<Item = Touch> + use<> {
    let work = work::work_as_addressed(spec, command);
    let touch = |written| move |(addr, bytes)| Touch { addr, bytes, written };
    let reads = work.reads.into_iter().flatten().map(touch(false));
    reads.chain(work.write.into_iter().map(touch(true)))
}

/// Multiply-accumulates or comparisons of a command, or the elements that it goes through where those are more; on no
/// device in particular.
pub(crate) fn operations(command: &Command) -> u64 {
    work::operations(command)
}

/// Checks the circumstances; gives the clock, 0 when time is not modelled.
fn clock(spec: &DeviceSpec, options: &TimingOptions) -> Result<u32, Error> {
    if !(1..=spec.cores).contains(&options.active_cores) {
        return Err(Error::Timing(format!(
            "{} active cores; {} has {}",
            options.active_cores, spec.name, spec.cores
        )));
    }
    if !(1..=100).contains(&options.array_percent) {
        return Err(Error::Timing(format!(
            "an array limited to {} %; 1 to 100 can be",
            options.array_percent
        )));
    }
    if spec.timing == TimingModel::None {
        return Ok(0);
    }
    if options.precision == Precision::Int16
        && spec.array.is_some_and(|array| array.cycles_per_vector_16.is_none())
    {
        return Err(Error::Timing(format!("the array of {} has no 16-bit integers", spec.name)));
    }
    match options.clock_mhz {
        Some(clock) if !spec.allows_clock(clock) => Err(Error::Timing(format!(
            "{} cannot run at {clock} MHz; any clock from {} to {} can be set",
            spec.name,
            spec.clocks_mhz.first().unwrap_or(&0),
            spec.clocks_mhz.last().unwrap_or(&0)
        ))),
        clock => Ok(clock.or(spec.clock_mhz).unwrap_or(0)),
    }
}
