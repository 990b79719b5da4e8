//! A device as data: cores, array, memories, clocks, costs. Read from TOML, checked once, never changed.
//!
//! The schema is documented in `docs/device-spec.md`. Nothing here computes a time or holds memory.

mod array;
mod builtin;
mod change;
mod own;
pub mod schema;
mod share;
mod validate;

use serde::{Deserialize, Serialize};
use triune_tensor::Requantize;

use crate::Error;

pub use array::{ArraySpec, Dataflow, Depthwise, Fold, Groups, Precision};
pub use own::{MAX_TEXT, Problem, TEMPLATE};
pub use schema::Style;
pub use share::Share;

/// Most memories that a device can have.
pub const MAX_MEMORIES: usize = 8;

/// Largest memory that a description may ask for: 1 TiB of address space.
const MAX_MEMORY_BYTES: u64 = 1 << 40;

/// Whether a device's time is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimingModel {
    /// Not at all: every command takes 0 cycles.
    None,
    /// By the engines of the description.
    #[default]
    Modelled,
}

/// A device's description.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks_mhz: Vec<u32>,
    /// Alignment of feature maps and weights in bytes, a power of two of at least 64.
    pub alignment: u64,
    /// What the factors of 8-bit arithmetic are; f32 unless it says otherwise.
    #[serde(default, with = "RequantizeKey")]
    pub requantize: Requantize,
    /// Whether programs compute on 16-bit integers, too; only on 8 bits unless it says otherwise.
    #[serde(default)]
    pub int16: bool,
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
    /// How tensors lie at a program's border; without padding unless it says otherwise.
    #[serde(default)]
    pub border: BorderSpec,
    /// The way to the host, if it is modelled.
    pub link: Option<LinkSpec>,
    /// What work costs in energy, if it is known.
    pub energy: Option<EnergySpec>,
}

/// The words for [`Requantize`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Requantize", rename_all = "lowercase")]
enum RequantizeKey {
    Float,
    Fixed,
}

/// A vector unit, for everything that is not a dense product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VectorSpec {
    /// Elementwise results per cycle.
    pub elements_per_cycle: u32,
    /// Multiply-accumulates (or comparisons) per cycle of depthwise windows and pools.
    pub taps_per_cycle: u32,
    /// Results per cycle of products of two quantized maps, which no table can do; absent: as any other elementwise result.
    pub products_per_cycle: Option<u32>,
}

/// One memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// Cores that can have that bandwidth at the same time; with more at work, they share it evenly.
    #[serde(default = "one")]
    pub ports: u32,
    /// Cycles from a transfer's last byte leaving to its being usable.
    #[serde(default)]
    pub latency_cycles: u32,
    /// Bytes of a burst: a transfer moves whole ones.
    #[serde(default = "one")]
    pub burst_bytes: u32,
    /// Bytes of a row; every row that a transfer reaches into is opened anew. Absent: rows cost nothing.
    pub row_bytes: Option<u32>,
    /// Nanoseconds that opening a row keeps the port busy.
    #[serde(default)]
    pub row_ns: u32,
    /// Energy of reading a byte in femtojoules; there when [`DeviceSpec::energy`] is.
    pub read_fj_per_byte: Option<u32>,
    /// The same of writing one; absent: as reading.
    pub write_fj_per_byte: Option<u32>,
}

const fn one() -> u32 {
    1
}

/// How tensors lie at the border of a program: what their extents are rounded up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct BorderSpec {
    /// Channels are a multiple of this.
    pub channels: u32,
    /// Channels of image inputs: those that have no more have exactly as many. 0: images are like other tensors.
    pub image_channels: u32,
    /// Rows of such images have a multiple of this many pixels.
    pub image_columns: u32,
    /// Whether an input's buffer has the zero padding of the one convolution that reads it.
    pub window_padding: bool,
}

impl Default for BorderSpec {
    fn default() -> Self {
        Self { channels: 1, image_channels: 0, image_columns: 1, window_padding: false }
    }
}

/// Names of the memories that hold a program's parts by default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementSpec {
    /// Command words.
    pub instructions: String,
    /// Weights, parameters, tables.
    pub constants: String,
    /// Feature maps between commands: the far memory, which holds what the near one does not, as far as its share has room; the rest
    /// spills to that of `io`.
    pub scratch: String,
    /// The near memory, where feature maps stay that a plan chooses; absent: none do.
    pub resident: Option<String>,
    /// What stays there from one command to the next.
    #[serde(default)]
    pub kept: Kept,
    /// Inputs and outputs.
    pub io: String,
}

/// What the near memory keeps from one command to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// The feature maps that a plan chooses.
    #[default]
    Maps,
    /// The bands of feature maps between the commands of a cascade, and nothing else.
    Bands,
}

/// How a core's queues overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// Tiles under way at once: 2 lets a load run beside the computation on the tile before.
    pub buffers: u32,
    /// Bytes of a core's buffers, which all tiles under way have to fit; absent: as large as need be.
    pub buffer_bytes: Option<u64>,
    /// Without `buffer_bytes`: most equal blocks that a command's work is streamed in.
    pub blocks: u32,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self { buffers: 2, buffer_bytes: None, blocks: 4 }
    }
}

/// Fixed costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaunchSpec {
    /// Nanoseconds from a program's launch to its first command, at any clock.
    pub program_ns: u64,
    /// Cycles that each command costs its core before it starts.
    pub command_cycles: u32,
    /// The same at 16 bit; absent: as many.
    pub command_cycles_16: Option<u32>,
    /// Cycles besides for a function by table behind a product.
    pub table_cycles: u32,
}

/// What work costs in energy, besides accesses to memories ([`MemorySpec::read_fj_per_byte`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EnergySpec {
    /// A multiply-accumulate of 8-bit integers, in femtojoules.
    pub mac_fj: u32,
    /// One of 16-bit integers; absent: four times as much, as a multiplier has four times the cells.
    pub mac_16_fj: Option<u32>,
    /// A result of the vector unit, or of the array on its way through it, in femtojoules.
    pub element_fj: u32,
    /// An element that the array's operand buffers give or take, in femtojoules.
    #[serde(default)]
    pub buffer_fj: u32,
    /// What a core and its part of the device draw whatever they do, in milliwatts.
    #[serde(default)]
    pub static_mw: u32,
}

impl EnergySpec {
    /// A multiply-accumulate at a precision, in femtojoules.
    pub fn mac(&self, precision: Precision) -> u64 {
        match precision {
            Precision::Int8 => self.mac_fj.into(),
            Precision::Int16 => self.mac_16_fj.map_or(4 * u64::from(self.mac_fj), u64::from),
        }
    }
}

/// The way to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// Reads and checks a description.
    ///
    /// # Errors
    /// [`Error::Spec`] names the key and what is wrong with it.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        Self::read(text).map_err(|problems| match problems.into_iter().next() {
            Some(Problem { line: Some(line), key, problem }) => {
                Error::Spec { key, problem: format!("{problem} (line {line})") }
            }
            Some(Problem { line: None, key, problem }) => Error::Spec { key, problem },
            None => error("toml", "is wrong".into()),
        })
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
                let leaving = array.results_per_cycle.map_or(0, |rate| array.columns.div_ceil(rate));
                let units = f64::from(array.units[0]) * f64::from(array.units[1]);
                let cycles = array.cycles_per_vector.max(leaving);
                units * f64::from(array.rows) * f64::from(array.columns) / f64::from(cycles)
            }
            (None, Some(vector)) => f64::from(vector.taps_per_cycle),
            (None, None) => 0.0,
        }
    }

    /// What the description takes for granted of every program, in words for people; empty for most.
    pub fn assumptions(&self) -> Vec<String> {
        let Some(array) = &self.array else { return Vec::new() };
        let mut found = Vec::new();
        if let Some([kept, of]) = array.sparsity {
            found.push(format!("{kept} of {of} weights in a row are no zeros, which is not looked at"));
        }
        if array.weight_percent != 100 {
            found.push(format!("weights take {} % of their bytes, whatever they are", array.weight_percent));
        }
        found
    }

    /// The near memory for feature maps, if there is one.
    pub fn resident_memory(&self) -> Option<&MemorySpec> {
        let name = self.placement.resident.as_ref()?;
        self.memory.iter().find(|memory| memory.name == *name)
    }

    /// Whether `mhz` can be set.
    pub fn allows_clock(&self, mhz: u32) -> bool {
        matches!((self.clocks_mhz.first(), self.clocks_mhz.last()), (Some(low), Some(high)) if (low..=high).contains(&&mhz))
    }
}

fn error(key: &str, problem: String) -> Error {
    Error::Spec { key: key.to_owned(), problem }
}
