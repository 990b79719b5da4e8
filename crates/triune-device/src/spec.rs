//! A device as data: cores, array, memories, clocks, costs. Read from TOML, checked once, never changed.
//!
//! The schema is documented in `docs/device-spec.md`. Nothing here computes a time or holds memory.

use serde::Deserialize;

use crate::Error;

/// Most memories that a device can have.
pub const MAX_MEMORIES: usize = 8;

/// Largest memory that a description may ask for: 1 TiB of address space.
const MAX_MEMORY_BYTES: u64 = 1 << 40;

/// Whether a device's time is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimingModel {
    /// Not at all: every command takes 0 cycles.
    None,
    /// By the engines of the description.
    #[default]
    Modelled,
}

/// A device's description.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// The name that programs and users call it by.
    pub name: String,
    /// One sentence for listings.
    pub description: String,
    /// Whether time is modelled.
    #[serde(default)]
    pub timing: TimingModel,
    /// Cores (sub-devices) that can run one program each.
    pub cores: u32,
    /// Default clock in MHz; absent when time is not modelled.
    pub clock_mhz: Option<u32>,
    /// Clocks in MHz, ascending: any from the first to the last can be set.
    #[serde(default)]
    pub clocks_mhz: Vec<u32>,
    /// Alignment of feature maps and weights in bytes, a power of two of at least 64.
    pub alignment: u64,
    /// The matrix array of a core, if it has one.
    pub array: Option<ArraySpec>,
    /// The vector unit of a core; needed when time is modelled.
    pub vector: Option<VectorSpec>,
    /// Memories, the first being the one that the host reaches by DMA.
    pub memory: Vec<MemorySpec>,
    /// Which memory holds what unless a plan says otherwise.
    pub placement: PlacementSpec,
    /// How loads, computation and stores overlap.
    #[serde(default)]
    pub queues: QueueSpec,
    /// Fixed costs.
    #[serde(default)]
    pub launch: LaunchSpec,
    /// The way to the host, if it is modelled.
    pub link: Option<LinkSpec>,
}

/// A matrix array: `rows` inputs by `columns` outputs of int8 multiply-accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Inputs per vector: the length of one tile's inner product.
    pub rows: u32,
    /// Outputs per vector.
    pub columns: u32,
    /// Cycles from one activation vector to the next.
    pub cycles_per_vector: u32,
    /// i32 results that leave the array per cycle.
    pub results_per_cycle: u32,
}

/// A vector unit, for everything that is not a dense product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorSpec {
    /// Elementwise results per cycle.
    pub elements_per_cycle: u32,
    /// Multiply-accumulates (or comparisons) per cycle of depthwise windows and pools.
    pub taps_per_cycle: u32,
}

/// One memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Name, unique in the device.
    pub name: String,
    /// Size in bytes, of each core's when `per_core`.
    pub bytes: u64,
    /// Bytes at its start that programs do not get.
    #[serde(default)]
    pub reserved: u64,
    /// Whether every core has its own; regions are then named `name.0`, `name.1`, ….
    #[serde(default)]
    pub per_core: bool,
    /// Bandwidth of one core's port as `[bytes, cycles]`, for memories in the core's clock domain.
    pub bytes_per_cycle: Option<[u32; 2]>,
    /// Bandwidth of the port in bytes per second, for memories with a clock of their own.
    pub bytes_per_second: Option<u64>,
    /// Cycles from a transfer's last byte leaving to its being usable.
    #[serde(default)]
    pub latency_cycles: u32,
}

/// Names of the memories that hold a program's parts by default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementSpec {
    /// Command words.
    pub instructions: String,
    /// Weights, parameters, tables.
    pub constants: String,
    /// Feature maps between commands.
    pub scratch: String,
    /// Inputs and outputs.
    pub io: String,
}

/// How a core's queues overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// On-chip buffers per direction: 2 lets a load run beside the computation on the block before.
    pub buffers: u32,
    /// Blocks that a command's work is streamed in.
    pub blocks: u32,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self { buffers: 2, blocks: 4 }
    }
}

/// Fixed costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSpec {
    /// Nanoseconds from a program's launch to its first command, at any clock.
    pub program_ns: u64,
    /// Cycles that each command costs its core before it starts.
    pub command_cycles: u32,
}

/// The way to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Bytes per second in each direction.
    pub bytes_per_second: u64,
    /// Nanoseconds of host work per call.
    pub call_ns: u64,
}

impl MemorySpec {
    /// Bytes that programs can use.
    pub fn usable_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.reserved)
    }

    /// Bytes per cycle of one core's port at a core clock in MHz; 0 when bandwidth is not modelled.
    pub fn bytes_per_cycle_at(&self, clock_mhz: u32) -> f64 {
        match (self.bytes_per_cycle, self.bytes_per_second) {
            (Some([bytes, cycles]), _) => f64::from(bytes) / f64::from(cycles),
            (None, Some(bytes)) if clock_mhz > 0 => bytes as f64 / (f64::from(clock_mhz) * 1e6),
            _ => 0.0,
        }
    }
}

impl DeviceSpec {
    /// Names of the descriptions that come with this crate.
    pub const BUILTIN: &[&str] = &["host", "metis"];

    /// A description that comes with this crate.
    ///
    /// # Errors
    /// [`Error::Spec`] when there is none of that name.
    pub fn builtin(name: &str) -> Result<Self, Error> {
        match name {
            "host" => Self::from_toml(include_str!("../specs/host.toml")),
            "metis" => Self::from_toml(include_str!("../specs/metis.toml")),
            other => Err(error(
                "name",
                format!("{other:?} is no builtin device; there are {}", Self::BUILTIN.join(", ")),
            )),
        }
    }

    /// Reads and checks a description.
    ///
    /// # Errors
    /// [`Error::Spec`] names the key and what is wrong with it.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let spec: Self =
            toml::from_str(text).map_err(|problem| error("toml", problem.to_string().trim().to_owned()))?;
        spec.validate()?;
        Ok(spec)
    }

    /// The index of a memory in [`Self::memory`].
    ///
    /// # Errors
    /// [`Error::UnknownMemory`].
    pub fn memory_index(&self, name: &str) -> Result<usize, Error> {
        self.memory.iter().position(|memory| memory.name == name).ok_or_else(|| Error::UnknownMemory {
            device: self.name.clone(),
            name: name.to_owned(),
            known: self.memory.iter().map(|memory| memory.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Most 8-bit multiply-accumulates that a core can do per cycle: those of its array, or failing that of its vector unit.
    pub fn peak_macs_per_cycle(&self) -> f64 {
        match (&self.array, &self.vector) {
            (Some(array), _) => {
                let results = array.columns.div_ceil(array.results_per_cycle);
                let cycles = array.cycles_per_vector.max(results);
                f64::from(array.rows) * f64::from(array.columns) / f64::from(cycles)
            }
            (None, Some(vector)) => f64::from(vector.taps_per_cycle),
            (None, None) => 0.0,
        }
    }

    /// Whether `mhz` can be set.
    pub fn allows_clock(&self, mhz: u32) -> bool {
        matches!((self.clocks_mhz.first(), self.clocks_mhz.last()), (Some(low), Some(high)) if (low..=high).contains(&&mhz))
    }

    fn validate(&self) -> Result<(), Error> {
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
            positive("array.rows", array.rows.into())?;
            positive("array.columns", array.columns.into())?;
            positive("array.cycles_per_vector", array.cycles_per_vector.into())?;
            positive("array.results_per_cycle", array.results_per_cycle.into())?;
        }
        if let Some(vector) = &self.vector {
            positive("vector.elements_per_cycle", vector.elements_per_cycle.into())?;
            positive("vector.taps_per_cycle", vector.taps_per_cycle.into())?;
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
                return Err(error(&key("name"), format!("{:?} is empty or taken", memory.name)));
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
        Ok(())
    }
}

fn error(key: &str, problem: String) -> Error {
    Error::Spec { key: key.to_owned(), problem }
}
