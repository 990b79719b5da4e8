//! What operators of a deployment cost, launched together.

use std::ops::Range;

use triune_compiler::Program;
use triune_device::{DeviceSpec, TimingOptions, timing};

use super::HardDeployment;
use crate::Error;

/// What some operators cost when they are launched together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of the core from the launch to the last store.
    pub cycles: u64,
    /// The same in nanoseconds.
    pub nanoseconds: u64,
    /// Bytes read from the far memory and written to it.
    pub far: [u64; 2],
    /// Bytes read from the memory on the chip and written to it.
    pub near: [u64; 2],
}

impl HardDeployment {
    /// Names of the memories that a device has the segments in, by the segments' numbers.
    pub(super) fn memories<'a>(&self, spec: &'a DeviceSpec) -> Vec<&'a str> {
        let place = &spec.placement;
        let near = place.resident.as_deref().unwrap_or(&place.scratch);
        let mut memories = vec![&*place.instructions, &*place.constants, &*place.scratch, near];
        memories.resize(memories.len() + self.areas.len(), &*place.io);
        memories
    }

    /// What the operators of a range cost on a device such as the deployment's, its clocks or engines changed perhaps.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a range that the deployment does not have, [`Error::Device`](triune_compiler::Error::Device) as `timing::timeline` says.
    pub fn cost(&self, ops: Range<usize>, spec: &DeviceSpec, options: &TimingOptions) -> Result<Cost, Error> {
        let own = self.range(ops)?;
        let window = own[0].window.start..own[own.len() - 1].window.end;
        if window.is_empty() {
            return Ok(Cost::default());
        }
        let memories = self.memories(spec);
        let near = memories[usize::from(Program::RESIDENT)];
        // Maps in the near memory leave the rest of it to the buffers.
        let touches = self.commands.iter().flat_map(|command| timing::touches(spec, command));
        let ends = touches.filter(|touch| touch.addr.segment() == Program::RESIDENT);
        let resident_bytes = ends.map(|touch| touch.addr.offset() + touch.bytes).max().unwrap_or(0);
        let options = TimingOptions { resident_bytes, ..*options };
        let timeline = timing::timeline(spec, &self.commands[window], &memories, &options)?;
        let mut cost = Cost {
            cycles: timeline.total_cycles,
            nanoseconds: timeline.nanos_up(timeline.total_cycles),
            ..Cost::default()
        };
        for command in &timeline.commands {
            for (index, name) in timeline.memories.iter().enumerate() {
                let bytes = if name == near { &mut cost.near } else { &mut cost.far };
                bytes[0] += command.bytes_read[index];
                bytes[1] += command.bytes_written[index];
            }
        }
        Ok(cost)
    }
}
