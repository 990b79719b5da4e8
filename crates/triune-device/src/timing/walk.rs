//! The walk over a program's commands: each is cut into blocks, which stream through the engine's queues.

use super::{
    CommandTime, MemoryBytes, Span, TimingOptions,
    engine::{Engine, Transfer},
    work::{self, Traffic, Work},
};
use crate::command::{Command, Opcode};
use crate::spec::{DeviceSpec, Precision, TimingModel};
use crate::{Addr, Error};

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
pub(super) struct Demand {
    work: Work,
    bytes: Bytes,
    blocks: u64,
}

/// Where a program's segments lie, for the timeline: memory indices by segment.
pub(super) struct Places<'a> {
    spec: &'a DeviceSpec,
    options: TimingOptions,
    memories: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(
        spec: &'a DeviceSpec,
        placement: &[&str],
        options: &TimingOptions,
    ) -> Result<Self, Error> {
        let memories = placement.iter().map(|name| spec.memory_index(name)).collect::<Result<_, _>>()?;
        Ok(Self { spec, options: *options, memories })
    }

    fn add(&self, bytes: &mut MemoryBytes, index: usize, traffic: Option<Traffic>) -> Result<(), Error> {
        let Some((addr, count)) = traffic else { return Ok(()) };
        let memory = *self.memories.get(usize::from(addr.segment())).ok_or_else(|| {
            Error::Timing(format!("command {index}: no memory is given for segment {}", addr.segment()))
        })?;
        bytes[memory] = bytes[memory].saturating_add(count);
        Ok(())
    }

    pub(super) fn demand(&self, index: usize, command: &Command) -> Result<Demand, Error> {
        let work = work::work(self.spec, command, &self.options);
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

/// The walk over the commands of a program.
pub(super) struct Walk {
    engine: Engine,
    modelled: bool,
    overhead: u64,
    pub(super) launch: u64,
    /// When everything so far is stored.
    pub(super) finish: u64,
    /// When the last store to each segment finished.
    stored: Box<[u64; 256]>,
    /// When the constants of the coming command's first block are there, and what loading them cost.
    prefetched: Option<Transfer>,
}

impl Walk {
    pub(super) fn new(spec: &DeviceSpec, clock_mhz: u32, options: &TimingOptions) -> Self {
        let TimingOptions { active_cores, precision, .. } = *options;
        let launch = u128::from(spec.launch.program_ns) * u128::from(clock_mhz) / 1000;
        let launch = u64::try_from(launch).unwrap_or(u64::MAX);
        Self {
            engine: Engine::new(spec, clock_mhz, active_cores, launch),
            modelled: spec.timing == TimingModel::Modelled,
            overhead: u64::from(match precision {
                Precision::Int8 => spec.launch.command_cycles,
                Precision::Int16 => spec.launch.command_cycles_16.unwrap_or(spec.launch.command_cycles),
            }),
            launch,
            finish: launch,
            stored: Box::new([launch; 256]),
            prefetched: None,
        }
    }

    pub(super) fn command(
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
            load_stall: 0,
            launch: 0,
            ideal: work.ideal,
            sram: work.sram,
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
        time.launch = self.overhead;
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
            let run = self.engine.execute(loaded, overhead, share(work.cycles, block, *blocks));
            time.start = time.start.min(run.start);
            // Not `cover`: a command that only moves data still has its place between its neighbours.
            let first = if block == 0 { run.start } else { time.computing.start };
            time.computing = Span { start: first, end: run.finish };
            time.stall = time.stall.saturating_add(run.stall);
            time.load_stall = time.load_stall.saturating_add(run.load_stall);
            let stored = self.engine.store(&share_bytes(&bytes.stores, block, *blocks), run.finish);
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
