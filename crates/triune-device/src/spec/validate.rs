//! Checks of a description that the TOML schema cannot express. Every error names the key.

use super::{DeviceSpec, MAX_MEMORIES, MAX_MEMORY_BYTES, TimingModel, error};
use crate::Error;
use triune_tensor::text::Name;

impl DeviceSpec {
    pub(super) fn validate(&self) -> Result<(), Error> {
        let positive = |key: &str, value: u64| {
            if value == 0 { Err(error(key, "must be above 0".into())) } else { Ok(()) }
        };
        if self.name.is_empty() {
            return Err(error("name", "is empty".into()));
        }
        if !(1..=64).contains(&self.cores) {
            return Err(error("cores", format!("{} is not in 1..=64", self.cores)));
        }
        if !self.alignment.is_power_of_two() || !(64..=1 << 20).contains(&self.alignment) {
            return Err(error("alignment", format!("{} is no power of two in 64..=1048576", self.alignment)));
        }
        if !self.clocks_mhz.is_sorted_by(|a, b| a < b) || self.clocks_mhz.first() == Some(&0) {
            return Err(error("clocks_mhz", "must be positive and ascending".into()));
        }
        if let Some(clock) = self.clock_mhz
            && !self.allows_clock(clock)
        {
            return Err(error("clock_mhz", format!("{clock} is not within clocks_mhz")));
        }
        if let Some(array) = &self.array {
            array.validate()?;
        }
        if let Some(vector) = &self.vector {
            positive("vector.elements_per_cycle", vector.elements_per_cycle.into())?;
            positive("vector.taps_per_cycle", vector.taps_per_cycle.into())?;
            positive("vector.products_per_cycle", vector.products_per_cycle.unwrap_or(1).into())?;
        }
        if !(1..=8).contains(&self.queues.buffers) {
            return Err(error("queues.buffers", format!("{} is not in 1..=8", self.queues.buffers)));
        }
        if !(1..=64).contains(&self.queues.blocks) {
            return Err(error("queues.blocks", format!("{} is not in 1..=64", self.queues.blocks)));
        }
        if self.launch.program_ns > 1_000_000_000 {
            return Err(error("launch.program_ns", "is above one second".into()));
        }
        if let Some(link) = &self.link {
            positive("link.bytes_per_second", link.bytes_per_second)?;
        }
        for (key, value) in
            [("border.channels", self.border.channels), ("border.image_columns", self.border.image_columns)]
        {
            if !(1..=4096).contains(&value) {
                return Err(error(key, format!("{value} is not in 1..=4096")));
            }
        }
        if self.border.image_channels > 64 {
            return Err(error("border.image_channels", "is above 64".into()));
        }
        self.validate_memories()?;
        if self.timing == TimingModel::Modelled {
            if self.clock_mhz.is_none() {
                return Err(error("clock_mhz", "is missing, and timing is modelled".into()));
            }
            if self.vector.is_none() {
                return Err(error("vector", "is missing, and timing is modelled".into()));
            }
        }
        Ok(())
    }

    fn validate_memories(&self) -> Result<(), Error> {
        if self.memory.is_empty() || self.memory.len() > MAX_MEMORIES {
            return Err(error(
                "memory",
                format!("{} memories, 1 to {MAX_MEMORIES} can be", self.memory.len()),
            ));
        }
        for (index, memory) in self.memory.iter().enumerate() {
            let key = |field: &str| format!("memory[{index}].{field}");
            if memory.name.is_empty() || self.memory[..index].iter().any(|other| other.name == memory.name) {
                return Err(error(&key("name"), format!("'{}' is empty or taken", Name(&memory.name))));
            }
            if memory.bytes == 0 || memory.bytes > MAX_MEMORY_BYTES {
                return Err(error(
                    &key("bytes"),
                    format!("{} is not in 1..={MAX_MEMORY_BYTES}", memory.bytes),
                ));
            }
            if memory.reserved >= memory.bytes {
                return Err(error(&key("reserved"), "leaves nothing of the memory".into()));
            }
            if !(1..=64).contains(&memory.ports) {
                return Err(error(&key("ports"), format!("{} is not in 1..=64", memory.ports)));
            }
            match (memory.bytes_per_cycle, memory.bytes_per_second) {
                (Some(_), Some(_)) => {
                    return Err(error(
                        &key("bytes_per_second"),
                        "and bytes_per_cycle exclude each other".into(),
                    ));
                }
                (Some([bytes, cycles]), None) if bytes == 0 || cycles == 0 => {
                    return Err(error(&key("bytes_per_cycle"), "must be two positive numbers".into()));
                }
                (None, Some(0)) => return Err(error(&key("bytes_per_second"), "must be above 0".into())),
                (None, None) if self.timing == TimingModel::Modelled => {
                    return Err(error(&key("bytes_per_cycle"), "is missing, and timing is modelled".into()));
                }
                _ => {}
            }
        }
        for (key, name) in [
            ("placement.instructions", &self.placement.instructions),
            ("placement.constants", &self.placement.constants),
            ("placement.scratch", &self.placement.scratch),
            ("placement.io", &self.placement.io),
        ] {
            self.memory_index(name).map_err(|problem| error(key, problem.to_string()))?;
        }
        if let Some(resident) = &self.placement.resident {
            let key = "placement.resident";
            self.memory_index(resident).map_err(|problem| error(key, problem.to_string()))?;
            if *resident == self.placement.scratch {
                return Err(error(
                    key,
                    format!("'{}' is placement.scratch too; leave it out", Name(resident)),
                ));
            }
        }
        Ok(())
    }
}
