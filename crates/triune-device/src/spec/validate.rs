//! How the keys of a description go together; each by itself is the schema's matter. Every error names the key.

use super::{DeviceSpec, TimingModel, error};
use crate::Error;
use triune_tensor::text::{List, Name};

impl DeviceSpec {
    pub(super) fn validate(&self) -> Result<(), Error> {
        if let Some(clock) = self.clock_mhz
            && !self.allows_clock(clock)
        {
            return Err(error(
                "clock_mhz",
                format!("{clock} is not within clocks_mhz, {}", List(&self.clocks_mhz)),
            ));
        }
        if let Some(array) = &self.array {
            array.validate()?;
        }
        self.validate_memories()?;
        Ok(())
    }

    fn validate_memories(&self) -> Result<(), Error> {
        for (index, memory) in self.memory.iter().enumerate() {
            let key = |field: &str| format!("memory[{index}].{field}");
            if self.memory[..index].iter().any(|other| other.name == memory.name) {
                return Err(error(&key("name"), format!("a second memory named '{}'", Name(&memory.name))));
            }
            // Dots part the steps of a path, and the number of a core's own memory.
            if memory.name.contains('.') || matches!(&*memory.name, "array" | "clock") {
                return Err(error(
                    &key("name"),
                    format!("'{}' has a dot, or is a word of sweeps; call it otherwise", Name(&memory.name)),
                ));
            }
            if memory.reserved >= memory.bytes {
                return Err(error(
                    &key("reserved"),
                    format!("{} leaves nothing of the memory's {} bytes", memory.reserved, memory.bytes),
                ));
            }
            if memory.row_ns > 0 && memory.row_bytes.is_none() {
                return Err(error(&key("row_ns"), "needs row_bytes: add it, or leave this out".into()));
            }
            match (&self.energy, memory.read_fj_per_byte, memory.write_fj_per_byte) {
                (Some(_), None, _) => {
                    return Err(error(
                        &key("read_fj_per_byte"),
                        "is missing, and the device has [energy]: add what a byte costs, 0 for nothing"
                            .into(),
                    ));
                }
                (None, Some(_), _) | (None, None, Some(_)) => {
                    return Err(error(
                        &key("read_fj_per_byte"),
                        "counts only with [energy], which the device has not: add it, or leave this out"
                            .into(),
                    ));
                }
                _ => {}
            }
            match (memory.bytes_per_cycle, memory.bytes_per_second) {
                (Some(_), Some(_)) => {
                    return Err(error(
                        &key("bytes_per_second"),
                        "and bytes_per_cycle exclude each other: leave one out".into(),
                    ));
                }
                (None, None) if self.timing == TimingModel::Modelled => {
                    return Err(error(
                        &key("bytes_per_cycle"),
                        "is missing, and timing is modelled: add it, or bytes_per_second".into(),
                    ));
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
            self.check_memory(key, name)?;
        }
        if let Some(resident) = &self.placement.resident {
            let key = "placement.resident";
            self.check_memory(key, resident)?;
            if *resident == self.placement.scratch {
                return Err(error(
                    key,
                    format!("'{}' is placement.scratch too; leave it out", Name(resident)),
                ));
            }
        }
        Ok(())
    }

    fn check_memory(&self, key: &str, name: &str) -> Result<(), Error> {
        if self.memory.iter().any(|memory| memory.name == name) {
            return Ok(());
        }
        let known: Vec<&str> = self.memory.iter().map(|memory| &*memory.name).collect();
        Err(error(key, format!("there is no memory '{}'; there are {}", Name(name), known.join(", "))))
    }
}
