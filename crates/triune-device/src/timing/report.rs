//! What a timeline says: totals, utilization, what bounds a command.

use super::{CommandTime, MemoryBytes, Timeline, engine::Engine};
use crate::spec::DeviceSpec;

/// What a command's time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoundBy {
    /// The array or the vector unit.
    Compute,
    /// Waiting for weights or inputs.
    Load,
    /// Waiting for room for results.
    Store,
    /// Starting the command.
    Launch,
}

impl BoundBy {
    /// The word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Load => "load",
            Self::Store => "store",
            Self::Launch => "launch",
        }
    }

    /// The part of the commands' time together that is longest; the first of the enumeration's order when several are.
    pub fn of(commands: &[CommandTime]) -> Self {
        let sum = |part: fn(&CommandTime) -> u64| {
            commands.iter().map(part).fold(0, |sum: u64, cycles| sum.saturating_add(cycles))
        };
        [
            (Self::Load, sum(|command| command.load_stall)),
            (Self::Store, sum(|command| command.stall - command.load_stall)),
            (Self::Launch, sum(|command| command.launch)),
        ]
        .into_iter()
        .fold(
            (Self::Compute, sum(|command| command.compute)),
            |most, other| {
                if other.1 > most.1 { other } else { most }
            },
        )
        .0
    }
}

impl CommandTime {
    /// Cycles in which the core worked for this command alone: computed, waited, started it. Those of all commands, the
    /// program's launch and the stores behind the last computation add up to the timeline's total.
    pub const fn occupied(&self) -> u64 {
        self.compute.saturating_add(self.stall).saturating_add(self.launch)
    }

    /// Bytes that it reads and has read before, from all memories together.
    pub fn reread(&self) -> u64 {
        self.bytes_reread.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// The part of the command's time that is longest; the first of the enumeration's order when several are.
    pub fn bound_by(&self) -> BoundBy {
        BoundBy::of(std::slice::from_ref(self))
    }

    /// Multiply-accumulates over what the array can do in `compute` cycles, in thousandths: how well the shape fits.
    pub fn array_utilization(&self) -> u64 {
        permille(self.ideal, self.compute)
    }

    /// Multiply-accumulates over what the array can do in all of [`Self::occupied`], in thousandths.
    pub fn utilization(&self) -> u64 {
        permille(self.ideal, self.occupied())
    }
}

fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 { 0 } else { (u128::from(part) * 1000 / u128::from(whole)) as u64 }
}

impl Timeline {
    /// Cycles in nanoseconds at the timeline's clock, rounded down; 0 when time is not modelled.
    pub fn nanos(&self, cycles: u64) -> u64 {
        match self.clock_mhz {
            0 => 0,
            clock => (u128::from(cycles) * 1000 / u128::from(clock)) as u64,
        }
    }

    /// Cycles in nanoseconds at the timeline's clock, rounded up; 0 when time is not modelled.
    pub fn nanos_up(&self, cycles: u64) -> u64 {
        match self.clock_mhz {
            0 => 0,
            clock => {
                u64::try_from((u128::from(cycles) * 1000).div_ceil(u128::from(clock))).unwrap_or(u64::MAX)
            }
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

    /// Multiply-accumulates over what the array can do in the whole time, in thousandths.
    pub fn utilization(&self) -> u64 {
        permille(self.commands.iter().map(|command| command.ideal).sum(), self.total_cycles)
    }

    /// Bytes that the whole program reads from and writes to each of [`Self::memories`].
    pub fn traffic(&self) -> Vec<[u64; 2]> {
        let sum = |memory: usize| {
            self.commands.iter().fold([0_u64; 2], |[read, written], command| {
                [
                    read.saturating_add(command.bytes_read[memory]),
                    written.saturating_add(command.bytes_written[memory]),
                ]
            })
        };
        (0..self.memories.len()).map(sum).collect()
    }

    /// Cycles that the program's traffic keeps one port of each memory busy when no other core is at work, in the order of the
    /// description's memories: 0 for those without a bandwidth. `spec` is the device that the timeline is of.
    pub fn port_cycles(&self, spec: &DeviceSpec) -> MemoryBytes {
        let engine = Engine::new(spec, self.clock_mhz, 1);
        let mut cycles = MemoryBytes::default();
        for command in &self.commands {
            for (memory, sum) in cycles.iter_mut().enumerate() {
                for bytes in [command.bytes_read[memory], command.bytes_written[memory]] {
                    *sum = sum.saturating_add(engine.at_least(memory, bytes).map_or(0, |(cycles, _)| cycles));
                }
            }
        }
        cycles
    }
}
