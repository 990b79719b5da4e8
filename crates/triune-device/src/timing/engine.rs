//! The engine model: three in-order queues (LOAD, EXECUTE, STORE), memory ports, a few on-chip buffers.
//!
//! ```text
//! LOAD, STORE: per memory  s = max(port free, start);  port free = s + ⌈bytes/B⌉;  finish = port free + latency
//! EXECUTE:                 start = max(queue free, loads finished, output buffer free);  finish = start + cycles
//! ```
//! A load needs an input buffer, which the computation `buffers` blocks before frees; a computation needs an output
//! buffer, which the store `buffers` blocks before frees. Knows no commands: blocks only.

use crate::spec::{DeviceSpec, MAX_MEMORIES, MemorySpec};

use super::{MemoryBytes, Span};

/// Most buffers that a description can ask for.
const MAX_BUFFERS: usize = 8;

/// A bandwidth as an integer fraction in lowest terms, and the latency behind it.
#[derive(Clone, Copy, Debug)]
struct Port {
    bytes: u64,
    cycles: u64,
    latency: u64,
    free: u64,
}

impl Port {
    /// The port of one of `active` cores at a clock; none for memories without a bandwidth.
    fn new(memory: &MemorySpec, clock_mhz: u32, active: u32, free: u64) -> Option<Self> {
        let (bytes, cycles) = match (memory.bytes_per_cycle, memory.bytes_per_second) {
            (Some([bytes, cycles]), _) => (u128::from(bytes), u128::from(cycles)),
            (None, Some(bytes)) => (u128::from(bytes), u128::from(clock_mhz) * 1_000_000),
            (None, None) => return None,
        };
        // Cores beyond the ports share them evenly.
        let [ports, sharing] =
            if memory.per_core { [1, 1] } else { [memory.ports, active.max(memory.ports)].map(u128::from) };
        let (bytes, cycles) = (bytes * ports, cycles * sharing);
        let divisor = greatest_common_divisor(bytes, cycles).max(1);
        let (mut bytes, mut cycles) = (bytes / divisor, cycles / divisor);
        // Beyond 64 bits, the last of some twenty digits do not matter.
        while bytes > u128::from(u64::MAX) || cycles > u128::from(u64::MAX) {
            (bytes, cycles) = ((bytes >> 1).max(1), cycles >> 1);
        }
        let latency = u64::from(memory.latency_cycles);
        Some(Self { bytes: bytes as u64, cycles: cycles as u64, latency, free })
    }

    fn duration(&self, bytes: u64) -> u64 {
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

/// The state of a core's queues.
#[derive(Debug)]
pub(super) struct Engine {
    ports: [Option<Port>; MAX_MEMORIES],
    buffers: usize,
    load_free: u64,
    execute_free: u64,
    store_free: u64,
    /// When the computation of each of the last blocks finished.
    executed: [u64; MAX_BUFFERS],
    /// When the store of each of the last blocks finished.
    stored: [u64; MAX_BUFFERS],
    loads: usize,
    blocks: usize,
}

impl Engine {
    /// The queues of one of `active_cores` cores at a clock, all free from cycle `start` on.
    pub(super) fn new(spec: &DeviceSpec, clock_mhz: u32, active_cores: u32, start: u64) -> Self {
        let mut ports = [None; MAX_MEMORIES];
        for (port, memory) in ports.iter_mut().zip(&spec.memory) {
            *port = Port::new(memory, clock_mhz, active_cores, start);
        }
        Self {
            ports,
            buffers: (spec.queues.buffers as usize).clamp(1, MAX_BUFFERS),
            load_free: start,
            execute_free: start,
            store_free: start,
            executed: [start; MAX_BUFFERS],
            stored: [start; MAX_BUFFERS],
            loads: 0,
            blocks: 0,
        }
    }

    /// Whether a block's load can be issued before the block before it has been computed.
    pub(super) fn double_buffered(&self) -> bool {
        self.buffers > 1
    }

    /// Opens the next block's input buffer: later loads belong to it.
    pub(super) fn open_block(&mut self) {
        // The buffer that the block `buffers` before used; slots of blocks that never were hold the start.
        self.load_free = self.load_free.max(self.executed[self.loads % self.buffers]);
        self.loads += 1;
    }

    /// Loads bytes from each memory, not before `ready`.
    pub(super) fn load(&mut self, bytes: &MemoryBytes, ready: u64) -> Transfer {
        let transfer = self.transfer(bytes, self.load_free.max(ready));
        self.load_free = self.load_free.max(transfer.start);
        transfer
    }

    /// Computes the next block once its loads are there.
    pub(super) fn execute(&mut self, loaded: u64, overhead: u64, cycles: u64) -> Run {
        let slot = self.blocks % self.buffers;
        let free = self.execute_free.saturating_add(overhead);
        let start = free.max(loaded).max(self.stored[slot]);
        let finish = start.saturating_add(cycles);
        self.executed[slot] = finish;
        self.execute_free = finish;
        Run { start, finish, stall: start - free, load_stall: loaded.saturating_sub(free) }
    }

    /// Stores the block that was computed last.
    pub(super) fn store(&mut self, bytes: &MemoryBytes, computed: u64) -> Transfer {
        let transfer = self.transfer(bytes, self.store_free.max(computed));
        self.store_free = self.store_free.max(transfer.start);
        self.stored[self.blocks % self.buffers] = transfer.finish;
        self.blocks += 1;
        transfer
    }

    fn transfer(&mut self, bytes: &MemoryBytes, ready: u64) -> Transfer {
        let mut transfer = Transfer { start: u64::MAX, finish: ready, ..Transfer::default() };
        for (port, &bytes) in self.ports.iter_mut().zip(bytes) {
            let Some(port) = port else { continue };
            if bytes == 0 {
                continue;
            }
            let start = port.free.max(ready);
            let duration = port.duration(bytes);
            port.free = start.saturating_add(duration);
            transfer.start = transfer.start.min(start);
            transfer.finish = transfer.finish.max(port.free.saturating_add(port.latency));
            transfer.busy = transfer.busy.max(duration);
            transfer.ports.cover(Span { start, end: port.free });
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
