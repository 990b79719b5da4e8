//! The engine model: three in-order queues (LOAD, EXECUTE, STORE), memory ports, buffers for a few tiles.
//!
//! ```text
//! LOAD, STORE: per memory  s = max(port free, start);  port free = s + ⌈bytes/B⌉ + rows·R;  finish = port free + latency
//! EXECUTE:                 start = max(queue free, loads finished, room for results);  finish = start + cycles
//! ```
//! A load needs the room that the computation `depth` tiles before frees; a computation needs the room for results that
//! the store `depth` tiles before frees. Knows no commands: tiles only, in cycles since the command began.

use crate::spec::{DeviceSpec, MAX_MEMORIES, MemorySpec};

use super::{MemoryBytes, Span};

/// Most tiles under way that a description can ask for.
pub(super) const MAX_DEPTH: usize = 8;

/// A bandwidth as an integer fraction in lowest terms, the latency behind it, and what bursts and rows cost.
#[derive(Clone, Copy, Debug)]
struct Port {
    bytes: u64,
    cycles: u64,
    latency: u64,
    burst: u64,
    /// Bytes of a row and the cycles that opening one takes; none if that is free.
    row: Option<[u64; 2]>,
}

impl Port {
    /// The port of one of `active` cores at a clock; none for memories without a bandwidth.
    fn new(memory: &MemorySpec, clock_mhz: u32, active: u32) -> Option<Self> {
        let (bytes, cycles) = match (memory.bytes_per_cycle, memory.bytes_per_second) {
            (Some([bytes, cycles]), _) => (u128::from(bytes), u128::from(cycles)),
            (None, Some(bytes)) => (u128::from(bytes), u128::from(clock_mhz) * 1_000_000),
            (None, None) => return None,
        };
        // Cores beyond the ports share them evenly.
        let [ports, sharing] =
            if memory.per_core { [1, 1] } else { [memory.ports, active.max(memory.ports)].map(u128::from) };
        let (bytes, cycles) = (bytes * ports, cycles * sharing);
        // A row is opened for one core at a time, too.
        let opening = u128::from(memory.row_ns) * u128::from(clock_mhz) * sharing;
        let opening = u64::try_from(opening.div_ceil(1000 * ports)).unwrap_or(u64::MAX);
        let row = memory.row_bytes.filter(|_| opening > 0).map(|bytes| [bytes.into(), opening]);
        let divisor = greatest_common_divisor(bytes, cycles).max(1);
        let (mut bytes, mut cycles) = (bytes / divisor, cycles / divisor);
        // Beyond 64 bits, the last of some twenty digits do not matter.
        while bytes > u128::from(u64::MAX) || cycles > u128::from(u64::MAX) {
            (bytes, cycles) = ((bytes >> 1).max(1), cycles >> 1);
        }
        let latency = u64::from(memory.latency_cycles);
        let burst = u64::from(memory.burst_bytes.max(1));
        Some(Self { bytes: bytes as u64, cycles: cycles as u64, latency, burst, row })
    }

    /// Cycles for bytes that follow each other.
    fn duration(&self, bytes: u64) -> u64 {
        let bytes =
            if self.burst > 1 { bytes.div_ceil(self.burst).saturating_mul(self.burst) } else { bytes };
        let moving = self.moving(bytes);
        match self.row {
            Some([row, opening]) => moving.saturating_add(bytes.div_ceil(row).saturating_mul(opening)),
            None => moving,
        }
    }

    fn moving(&self, bytes: u64) -> u64 {
        if let Some(product) = bytes.checked_mul(self.cycles) {
            return product.div_ceil(self.bytes);
        }
        let cycles = (u128::from(bytes) * u128::from(self.cycles)).div_ceil(u128::from(self.bytes));
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }
}

/// A transfer's place in time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    /// When the first port starts; equal to `finish` when there is nothing to move.
    pub(super) start: u64,
    /// When the last byte is usable.
    pub(super) finish: u64,
    /// Cycles of the busiest port.
    pub(super) busy: u64,
    /// From the first port's start until the last port is free.
    pub(super) ports: Span,
}

/// A computation's place in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) finish: u64,
    /// Cycles that the unit waited for loads or room.
    pub(super) stall: u64,
    /// Those in which loads were missing.
    pub(super) load_stall: u64,
}

/// The ports of a core at work beside others.
#[derive(Debug)]
pub(super) struct Engine {
    ports: [Option<Port>; MAX_MEMORIES],
    count: usize,
}

impl Engine {
    /// Those of one of `active_cores` cores at a clock.
    pub(super) fn new(spec: &DeviceSpec, clock_mhz: u32, active_cores: u32) -> Self {
        let mut ports = [None; MAX_MEMORIES];
        for (port, memory) in ports.iter_mut().zip(&spec.memory) {
            *port = Port::new(memory, clock_mhz, active_cores);
        }
        Self { ports, count: spec.memory.len().min(MAX_MEMORIES) }
    }

    /// Cycles that a memory's port takes for `bytes`, however they are cut, and the latency behind; none if it takes no time.
    pub(super) fn at_least(&self, memory: usize, bytes: u64) -> Option<(u64, u64)> {
        self.ports[memory].map(|port| (port.duration(bytes), port.latency))
    }
}

/// The queues while they work on one command.
#[derive(Clone, Debug)]
pub(super) struct Queues<'a> {
    engine: &'a Engine,
    /// When each port is free.
    free: [u64; MAX_MEMORIES],
    depth: usize,
    load_free: u64,
    execute_free: u64,
    store_free: u64,
    /// When the computation of each of the last tiles finished.
    executed: [u64; MAX_DEPTH],
    /// When the store of each of the last tiles finished.
    stored: [u64; MAX_DEPTH],
    /// Slots of the next load and the next computation among the last tiles.
    loads: usize,
    tiles: usize,
}

impl<'a> Queues<'a> {
    /// All free from cycle 0 on, but that nothing can be computed before `overhead`.
    pub(super) fn new(engine: &'a Engine, depth: u32, overhead: u64) -> Self {
        Self {
            engine,
            free: [0; MAX_MEMORIES],
            depth: (depth as usize).clamp(1, MAX_DEPTH),
            load_free: 0,
            execute_free: overhead,
            store_free: 0,
            executed: [0; MAX_DEPTH],
            stored: [0; MAX_DEPTH],
            loads: 0,
            tiles: 0,
        }
    }

    /// Tiles under way.
    pub(super) const fn depth(&self) -> u64 {
        self.depth as u64
    }

    /// By how many cycles everything is later than in `before`, but for the ports that `moved` leaves alone; `None` if not by the same.
    pub(super) fn later_than(&self, before: &Self, moved: &MemoryBytes) -> Option<u64> {
        let later = self.execute_free.checked_sub(before.execute_free)?;
        let by = |now: u64, then: u64| now.checked_sub(then) == Some(later);
        let slots = |now: &[u64], then: &[u64]| {
            now.iter().zip(then).take(self.depth).all(|(&now, &then)| by(now, then))
        };
        let same = by(self.load_free, before.load_free)
            && by(self.store_free, before.store_free)
            && slots(&self.executed, &before.executed)
            && slots(&self.stored, &before.stored)
            && (0..self.engine.count).all(|at| moved[at] == 0 || by(self.free[at], before.free[at]));
        same.then_some(later)
    }

    /// The same later, but for the ports that `moved` leaves alone; `None` beyond what can be counted.
    pub(super) fn later(&self, cycles: u64, moved: &MemoryBytes) -> Option<Self> {
        let mut queues = self.clone();
        let used = queues.free.iter_mut().zip(moved).filter(|(_, moved)| **moved > 0).map(|(free, _)| free);
        let slots = queues.executed.iter_mut().chain(&mut queues.stored).chain(used);
        let all = slots.chain([&mut queues.load_free, &mut queues.execute_free, &mut queues.store_free]);
        for cycle in all {
            *cycle = cycle.checked_add(cycles)?;
        }
        Some(queues)
    }

    /// Whether a tile's load can be issued before the tile before it has been computed.
    pub(super) fn overlapping(&self) -> bool {
        self.depth > 1
    }

    /// Opens the next tile's room: later loads belong to it.
    pub(super) fn open(&mut self) {
        // That of the tile `depth` before; slots of tiles that never were hold the start.
        self.load_free = self.load_free.max(self.executed[self.loads]);
        self.loads = self.after(self.loads);
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.depth { 0 } else { slot + 1 }
    }

    /// Loads bytes from each memory.
    pub(super) fn load(&mut self, bytes: &MemoryBytes) -> Transfer {
        let transfer = self.transfer(bytes, self.load_free);
        self.load_free = self.load_free.max(transfer.start);
        transfer
    }

    /// Computes the next tile once its loads are there.
    pub(super) fn execute(&mut self, loaded: u64, cycles: u64) -> Run {
        let free = self.execute_free;
        let start = free.max(loaded).max(self.stored[self.tiles]);
        let finish = start.saturating_add(cycles);
        self.executed[self.tiles] = finish;
        self.execute_free = finish;
        Run { start, finish, stall: start - free, load_stall: loaded.saturating_sub(free) }
    }

    /// Stores the tile that was computed last.
    pub(super) fn store(&mut self, bytes: &MemoryBytes, computed: u64) -> Transfer {
        let transfer = self.transfer(bytes, self.store_free.max(computed));
        self.store_free = self.store_free.max(transfer.start);
        self.stored[self.tiles] = transfer.finish;
        self.tiles = self.after(self.tiles);
        transfer
    }

    fn transfer(&mut self, bytes: &MemoryBytes, ready: u64) -> Transfer {
        let mut transfer = Transfer { start: u64::MAX, finish: ready, ..Transfer::default() };
        for memory in 0..self.engine.count {
            let (Some(port), bytes) = (&self.engine.ports[memory], bytes[memory]) else { continue };
            if bytes == 0 {
                continue;
            }
            let start = self.free[memory].max(ready);
            let duration = port.duration(bytes);
            let end = start.saturating_add(duration);
            self.free[memory] = end;
            transfer.start = transfer.start.min(start);
            transfer.finish = transfer.finish.max(end.saturating_add(port.latency));
            transfer.busy = transfer.busy.max(duration);
            transfer.ports.cover(Span { start, end });
        }
        transfer.start = transfer.start.min(transfer.finish);
        transfer
    }
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
