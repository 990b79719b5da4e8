//! What commands cost in energy: what they compute, access and wait for, each at the description's price.

use super::{CommandTime, MemoryBytes, Timeline};
use crate::spec::{DeviceSpec, EnergySpec, MAX_MEMORIES, Precision};

/// Energy in femtojoules, by what it goes to. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// Multiply-accumulates, of the array or of windows.
    pub macs: u64,
    /// Results of the vector unit, and of the array on their way through it.
    pub elements: u64,
    /// Accesses to the array's operand buffers.
    pub buffers: u64,
    /// Accesses to each memory, in the order of the device's description.
    pub memories: MemoryBytes,
    /// What the core draws whatever it does.
    pub idle: u64,
}

impl Energy {
    /// All of it.
    pub fn total(&self) -> u64 {
        let parts = [self.macs, self.elements, self.buffers, self.idle];
        parts.into_iter().chain(self.memories).fold(0, u64::saturating_add)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            macs: self.macs.saturating_add(other.macs),
            elements: self.elements.saturating_add(other.elements),
            buffers: self.buffers.saturating_add(other.buffers),
            memories: std::array::from_fn(|at| self.memories[at].saturating_add(other.memories[at])),
            idle: self.idle.saturating_add(other.idle),
        }
    }
}

/// Femtojoules of `milliwatts` over `cycles` at a clock: a milliwatt is a femtojoule per picosecond, of which a cycle has 10⁶ / MHz.
fn drawn(milliwatts: u32, cycles: u64, clock_mhz: u32) -> u64 {
    let energy = u128::from(milliwatts) * u128::from(cycles) * 1_000_000 / u128::from(clock_mhz.max(1));
    u64::try_from(energy).unwrap_or(u64::MAX)
}

impl EnergySpec {
    fn of(&self, spec: &DeviceSpec, command: &CommandTime, precision: Precision, clock_mhz: u32) -> Energy {
        let times = |count: u64, price: u64| count.saturating_mul(price);
        let sram = command.sram;
        let accesses = sram.ifmap.saturating_add(sram.filter).saturating_add(sram.ofmap);
        let mut memories = [0; MAX_MEMORIES];
        for (at, memory) in spec.memory.iter().enumerate().take(MAX_MEMORIES) {
            let read = u64::from(memory.read_fj_per_byte.unwrap_or(0));
            let write = memory.write_fj_per_byte.map_or(read, u64::from);
            memories[at] =
                times(command.bytes_read[at], read).saturating_add(times(command.bytes_written[at], write));
        }
        Energy {
            macs: times(command.macs.max(command.taps), self.mac(precision)),
            elements: times(command.elements, self.element_fj.into()),
            buffers: times(accesses, self.buffer_fj.into()),
            memories,
            idle: drawn(self.static_mw, command.occupied(), clock_mhz),
        }
    }
}

impl DeviceSpec {
    /// What some of a timeline's commands cost; none if the description has no energy.
    pub fn energy_of(&self, timeline: &Timeline, commands: &[CommandTime]) -> Option<Energy> {
        let energy = self.energy?;
        let one = |command| energy.of(self, command, timeline.options.precision, timeline.clock_mhz);
        Some(commands.iter().map(one).fold(Energy::default(), |sum, each| sum.plus(&each)))
    }

    /// Femtojoules that a core draws in so many cycles whatever it does; none if the description has no energy.
    pub fn idle_energy(&self, cycles: u64, clock_mhz: u32) -> Option<u64> {
        Some(drawn(self.energy?.static_mw, cycles, clock_mhz))
    }

    /// What a whole timeline costs, with what the core draws between its commands; none if the description has no energy.
    pub fn energy_of_all(&self, timeline: &Timeline) -> Option<Energy> {
        let idle = self.idle_energy(timeline.total_cycles, timeline.clock_mhz)?;
        Some(Energy { idle, ..self.energy_of(timeline, &timeline.commands)? })
    }
}
