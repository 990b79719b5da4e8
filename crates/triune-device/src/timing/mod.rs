//! How long a program takes on a device: a second reading of its commands.
//!
//! Integers only, so that every machine gives the same answer. Knows shapes and the description, never a value.

mod array;
mod engine;
mod work;

use engine::Engine;
use work::{Traffic, Work};

use crate::command::{Command, Opcode};
use crate::spec::{DeviceSpec, MAX_MEMORIES, TimingModel};
use crate::{Addr, Error};

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
/// The loads of a command can start while the one before computes, so that `start..end` of neighbours overlap; `compute`
/// and `stall` never do.
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
    /// Cycles that the array or vector unit waited for this command's loads or for room for its results.
    pub stall: u64,
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
    /// Multiply-accumulates.
    pub macs: u64,
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
    /// Cycles from the launch to the first command.
    pub launch_cycles: u64,
    /// Cycles from the launch to the last store.
    pub total_cycles: u64,
    /// One entry per command, `end` excluded.
    pub commands: Vec<CommandTime>,
}

impl Timeline {
    /// Cycles in nanoseconds at the timeline's clock, rounded down; 0 when time is not modelled.
    pub fn nanos(&self, cycles: u64) -> u64 {
        match self.clock_mhz {
            0 => 0,
            clock => (u128::from(cycles) * 1000 / u128::from(clock)) as u64,
        }
    }

    /// The whole program in microseconds at the timeline's clock.
    pub fn micros(&self) -> f64 {
        self.nanos(self.total_cycles) as f64 / 1000.0
    }

    /// Multiply-accumulates of the whole program.
    pub fn macs(&self) -> u64 {
        self.commands.iter().map(|command| command.macs).sum()
    }
}

/// Smallest block, in bytes moved, that a command's work is cut into.
const MIN_BLOCK_BYTES: u64 = 4096;

/// Bytes of one command per memory, split by when they can move.
#[derive(Clone, Copy, Default)]
struct Bytes {
    constants: MemoryBytes,
    data: MemoryBytes,
    stores: MemoryBytes,
}

impl Bytes {
    fn total(&self) -> u64 {
        let all = self.constants.iter().chain(&self.data).chain(&self.stores);
        all.fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }
}

/// Block `block` of `blocks`' share of `total`; the shares add up to it.
const fn share(total: u64, block: u64, blocks: u64) -> u64 {
    total / blocks + (block < total % blocks) as u64
}

fn share_bytes(total: &MemoryBytes, block: u64, blocks: u64) -> MemoryBytes {
    total.map(|bytes| share(bytes, block, blocks))
}

/// A command with what it asks for.
struct Demand {
    work: Work,
    bytes: Bytes,
    blocks: u64,
}

/// Where a program's segments lie, for the timeline: memory indices by segment.
struct Places<'a> {
    spec: &'a DeviceSpec,
    memories: Vec<usize>,
}

impl Places<'_> {
    fn add(&self, bytes: &mut MemoryBytes, index: usize, traffic: Option<Traffic>) -> Result<(), Error> {
        let Some((addr, count)) = traffic else { return Ok(()) };
        let memory = *self.memories.get(usize::from(addr.segment())).ok_or_else(|| {
            Error::Timing(format!("command {index}: no memory is given for segment {}", addr.segment()))
        })?;
        bytes[memory] = bytes[memory].saturating_add(count);
        Ok(())
    }

    fn demand(&self, index: usize, command: &Command) -> Result<Demand, Error> {
        let work = work::work(self.spec, command);
        let mut bytes = Bytes::default();
        for traffic in work.constants {
            self.add(&mut bytes.constants, index, traffic)?;
        }
        for traffic in work.reads {
            self.add(&mut bytes.data, index, traffic)?;
        }
        self.add(&mut bytes.stores, index, work.write)?;
        let blocks = (bytes.total() / MIN_BLOCK_BYTES).clamp(1, u64::from(self.spec.queues.blocks.max(1)));
        Ok(Demand { work, bytes, blocks })
    }
}

/// The time that `commands` take on one core of `spec`, with nothing else running.
///
/// `placement` gives the memory of each segment by name; `clock_mhz` defaults to the device's. Every command is cut
/// into a few blocks (`queues.blocks`) that stream through the LOAD, EXECUTE and STORE queues; inputs wait until the
/// segment that they lie in has been stored, constants do not. O(1) per command.
///
/// # Errors
/// [`Error::UnknownMemory`]; [`Error::Timing`] for a clock that the device cannot be set to or a segment without a
/// memory.
pub fn timeline(
    spec: &DeviceSpec,
    commands: &[Command],
    placement: &[&str],
    clock_mhz: Option<u32>,
) -> Result<Timeline, Error> {
    let memories: Vec<usize> =
        placement.iter().map(|name| spec.memory_index(name)).collect::<Result<_, _>>()?;
    let places = Places { spec, memories };
    if let Some(clock) = clock_mhz
        && spec.timing == TimingModel::Modelled
        && !spec.allows_clock(clock)
    {
        return Err(Error::Timing(format!(
            "{} cannot run at {clock} MHz; any clock from {} to {} can be set",
            spec.name,
            spec.clocks_mhz.first().unwrap_or(&0),
            spec.clocks_mhz.last().unwrap_or(&0)
        )));
    }
    let clock = match spec.timing {
        TimingModel::Modelled => clock_mhz.or(spec.clock_mhz).unwrap_or(0),
        TimingModel::None => 0,
    };
    let end = commands.iter().position(|command| command.opcode() == Opcode::End).unwrap_or(commands.len());
    let mut walk = Walk::new(&places, clock);
    let mut times = Vec::with_capacity(end);
    let mut next = commands[..end].first().map(|command| places.demand(0, command)).transpose()?;
    for (index, command) in commands[..end].iter().enumerate() {
        let Some(demand) = next.take() else { break };
        next = commands[..end].get(index + 1).map(|command| places.demand(index + 1, command)).transpose()?;
        times.push(walk.command(index, command.opcode(), &demand, next.as_ref()));
    }
    Ok(Timeline {
        device: spec.name.clone(),
        clock_mhz: clock,
        memories: spec.memory.iter().map(|memory| memory.name.clone()).collect(),
        launch_cycles: walk.launch,
        total_cycles: walk.finish,
        commands: times,
    })
}

/// The walk over the commands of a program.
struct Walk {
    engine: Engine,
    modelled: bool,
    overhead: u64,
    launch: u64,
    /// When everything so far is stored.
    finish: u64,
    /// When the last store to each segment finished.
    stored: Box<[u64; 256]>,
    /// When the constants of the coming command's first block are there, and what loading them cost.
    prefetched: Option<engine::Transfer>,
}

impl Walk {
    fn new(places: &Places<'_>, clock_mhz: u32) -> Self {
        let spec = places.spec;
        let launch = u128::from(spec.launch.program_ns) * u128::from(clock_mhz) / 1000;
        let launch = u64::try_from(launch).unwrap_or(u64::MAX);
        Self {
            engine: Engine::new(spec, clock_mhz, launch),
            modelled: spec.timing == TimingModel::Modelled,
            overhead: u64::from(spec.launch.command_cycles),
            launch,
            finish: launch,
            stored: Box::new([launch; 256]),
            prefetched: None,
        }
    }

    fn command(
        &mut self,
        index: usize,
        opcode: Opcode,
        demand: &Demand,
        next: Option<&Demand>,
    ) -> CommandTime {
        let Demand { work, bytes, blocks } = demand;
        let sum = |a: &MemoryBytes, b: &MemoryBytes| std::array::from_fn(|at| a[at].saturating_add(b[at]));
        let mut time = CommandTime {
            index: index as u32,
            opcode,
            start: 0,
            end: 0,
            compute: 0,
            load: 0,
            store: 0,
            stall: 0,
            loading: Span::default(),
            computing: Span::default(),
            storing: Span::default(),
            bytes_read: sum(&bytes.constants, &bytes.data),
            bytes_written: bytes.stores,
            macs: work.macs,
        };
        if !self.modelled {
            return time;
        }
        time.compute = work.cycles;
        time.start = u64::MAX;
        let ready = self.ready(work.reads.iter().flatten().map(|&(addr, _)| addr));
        let mut loaded = self.load_block(&mut time, demand, 0, ready);
        for block in 0..*blocks {
            let last = block + 1 == *blocks;
            let mut following = 0;
            if self.engine.double_buffered() {
                following = self.load_ahead(&mut time, demand, next, block, last, ready);
            }
            let overhead = if block == 0 { self.overhead } else { 0 };
            let (start, computed, waited) =
                self.engine.execute(loaded, overhead, share(work.cycles, block, *blocks));
            time.start = time.start.min(start);
            // Not `cover`: a command that only moves data still has its place between its neighbours.
            let first = if block == 0 { start } else { time.computing.start };
            time.computing = Span { start: first, end: computed };
            time.stall = time.stall.saturating_add(waited);
            let stored = self.engine.store(&share_bytes(&bytes.stores, block, *blocks), computed);
            time.store = time.store.saturating_add(stored.busy);
            time.storing.cover(stored.ports);
            time.end = time.end.max(stored.finish);
            if !self.engine.double_buffered() {
                following = self.load_ahead(&mut time, demand, next, block, last, ready);
            }
            loaded = following;
        }
        if let Some((addr, _)) = work.write {
            self.stored[usize::from(addr.segment())] = time.end;
        }
        self.finish = self.finish.max(time.end);
        time
    }

    /// When all stores to the segments that a command reads are done.
    fn ready(&self, reads: impl Iterator<Item = Addr>) -> u64 {
        reads.map(|addr| self.stored[usize::from(addr.segment())]).fold(self.launch, u64::max)
    }

    /// Loads block `block + 1` of this command, or the constants of the next command's first block.
    fn load_ahead(
        &mut self,
        time: &mut CommandTime,
        demand: &Demand,
        next: Option<&Demand>,
        block: u64,
        last: bool,
        ready: u64,
    ) -> u64 {
        if !last {
            return self.load_block(time, demand, block + 1, ready);
        }
        if let Some(next) = next {
            self.engine.open_block();
            let constants = share_bytes(&next.bytes.constants, 0, next.blocks);
            self.prefetched = Some(self.engine.load(&constants, self.launch));
        }
        0
    }

    /// Loads one block's share of constants and inputs; gives the cycle at which all are there.
    fn load_block(&mut self, time: &mut CommandTime, demand: &Demand, block: u64, ready: u64) -> u64 {
        let Demand { bytes, blocks, .. } = demand;
        let constants = if let Some(transfer) = self.prefetched.take() {
            transfer
        } else {
            self.engine.open_block();
            self.engine.load(&share_bytes(&bytes.constants, block, *blocks), self.launch)
        };
        let data = self.engine.load(&share_bytes(&bytes.data, block, *blocks), ready);
        for transfer in [constants, data] {
            time.load = time.load.saturating_add(transfer.busy);
            time.loading.cover(transfer.ports);
            if transfer.busy > 0 {
                time.start = time.start.min(transfer.start);
            }
        }
        constants.finish.max(data.finish)
    }
}
