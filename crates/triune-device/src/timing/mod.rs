//! How long a program takes on a device: a second reading of its commands.
//!
//! Integers only, so that every machine gives the same answer. Knows shapes and the description, never a value.

use crate::command::Opcode;
use crate::spec::MAX_MEMORIES;

/// Bytes per memory, in the order of the device's description; unused entries are 0.
pub type MemoryBytes = [u64; MAX_MEMORIES];

/// What one command costs. All times in cycles of the core's clock, counted from the program's launch.
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
    /// Cycles between `start` and `end` in which nothing is computed.
    pub stall: u64,
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
