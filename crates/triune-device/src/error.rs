//! What can go wrong with a device: in its description, its memory, a command or a run.

use triune_tensor::text::{Name, Reason};

use crate::memory::{AccessKind, sanitizer::Report};

/// A failure of the device, its memory or a program on it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A device description is wrong.
    #[error("device spec: {}: {}", Name(.key), Reason(.problem))]
    Spec {
        /// The TOML key, dotted.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// No memory of the device has this name.
    #[error("the device {device} has no memory named '{}'; it has {known}", Name(.name))]
    UnknownMemory {
        /// The device's name.
        device: String,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// An access leaves its region.
    #[error("{length} bytes at {start:#x} leave the region {region} of {size} bytes")]
    OutOfRegion {
        /// The region's name.
        region: String,
        /// First byte.
        start: u64,
        /// Bytes asked for.
        length: u64,
        /// Bytes that the region has.
        size: u64,
    },
    /// A region has no free range that is large enough.
    #[error(
        "the region {region} has no free range of {length} bytes aligned to {alignment}; {live} of {size} bytes are in use"
    )]
    OutOfMemory {
        /// The region's name.
        region: String,
        /// Bytes asked for.
        length: u64,
        /// Alignment asked for.
        alignment: u64,
        /// Bytes in use.
        live: u64,
        /// Bytes that the region has.
        size: u64,
    },
    /// Nothing is allocated at an address that is to be freed.
    #[error("nothing is allocated at {start:#x} in the region {region}")]
    NotAllocated {
        /// The region's name.
        region: String,
        /// The address.
        start: u64,
    },
    /// The host refused to reserve address space for a region.
    #[error("the host has no address space for the {size} bytes of the region {region}: {reason}")]
    Map {
        /// The region's name.
        region: String,
        /// Bytes that the region has.
        size: u64,
        /// The operating system's words.
        reason: String,
    },
    /// Another lease holds a range, and one of the two writes.
    #[error(
        "{wanted} bytes {start:#x}..{end:#x} of {region} conflicts with another lease {held} {held_start:#x}..{held_end:#x}"
    )]
    Busy {
        /// The region's name.
        region: String,
        /// First byte asked for.
        start: u64,
        /// One past the last byte asked for.
        end: u64,
        /// What the new lease would do.
        wanted: AccessKind,
        /// First byte held.
        held_start: u64,
        /// One past the last byte held.
        held_end: u64,
        /// What the holder does.
        held: AccessKind,
    },
    /// A lease was asked for bytes that it does not hold, or to write what it only reads.
    #[error("the lease does not allow {wanted} {start:#x}..{end:#x} of region {region}")]
    NotLeased {
        /// The region's index.
        region: usize,
        /// First byte asked for.
        start: u64,
        /// One past the last byte asked for.
        end: u64,
        /// What was to be done.
        wanted: AccessKind,
    },
    /// Two ranges of which one is written share bytes.
    #[error("{} overlap", Reason(.0))]
    Overlap(String),
    /// A segment table is wrong.
    #[error("segment {segment}: {}", Reason(.problem))]
    Segment {
        /// The segment's index.
        segment: usize,
        /// What is wrong.
        problem: String,
    },
    /// A command cannot be decoded, or its operands do not fit the program's segments.
    #[error("command {index} ({mnemonic}) at byte {offset:#x} of the stream: {field}: {}", Reason(.problem))]
    Command {
        /// Position in the stream.
        index: usize,
        /// Byte offset of the command's header in the stream.
        offset: u64,
        /// The command's name, `?` when the opcode is unknown.
        mnemonic: &'static str,
        /// The field, dotted.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A program would take too much of the host's memory in the form that runs.
    #[error("the program takes {bytes} bytes of memory and more when it is decoded, it may take {limit}")]
    ProgramTooLarge {
        /// Bytes that it took when the limit was passed.
        bytes: u64,
        /// A gibibyte, and four times the bytes of its constants.
        limit: u64,
    },
    /// The host has no memory for what a program keeps.
    #[error(transparent)]
    HostMemory(#[from] triune_tensor::OutOfMemory),
    /// A kernel refused its operands.
    #[error("command {index} ({mnemonic}): {source}")]
    Kernel {
        /// Position in the stream.
        index: usize,
        /// The command's name.
        mnemonic: &'static str,
        /// The kernel's words.
        source: triune_kernels::Error,
    },
    /// A run would take more operations than a run may.
    #[error(
        "command {index} ({mnemonic}) takes {work} operations, a run of the program takes {total} and may take {limit}: if that \
         is meant, set a higher limit before it is loaded: {}={total} in the environment, or triune.set_work_limit({total})",
        crate::work::VARIABLE
    )]
    TooMuchWork {
        /// Position of the largest command in the stream.
        index: usize,
        /// Its name.
        mnemonic: &'static str,
        /// Its operations.
        work: u64,
        /// Those of all commands.
        total: u64,
        /// The limit.
        limit: u64,
    },
    /// The environment variable that limits runs has an unknown value.
    #[error(
        "{}={value} is no limit of operations: it can be a number from 1, or none",
        crate::work::VARIABLE
    )]
    WorkLimit {
        /// The variable's value.
        value: String,
    },
    /// The work was stopped, see [`triune_kernels::CancelToken`]; what it was to write may be written in part.
    #[error("the work was stopped")]
    Cancelled,
    /// The instructions or constants changed after the program was decoded.
    #[error("the program's instructions or constants changed since it was decoded")]
    Stale,
    /// The scratch buffer is too small.
    #[error("scratch: {need} bytes needed, {got} given")]
    Scratch {
        /// Bytes needed.
        need: usize,
        /// Bytes given.
        got: usize,
    },
    /// The sanitizer found a fault; what was asked for was not done.
    #[error("sanitizer: {0}")]
    Sanitizer(Box<Report>),
    /// The environment variable that turns the sanitizer on has an unknown value.
    #[error(
        "{}={} is no mode of the sanitizer: it can be 0, 1 (or report) or log",
        crate::memory::Sanitize::VARIABLE, Name(.value)
    )]
    SanitizerMode {
        /// The variable's value.
        value: String,
    },
    /// A timeline cannot be computed.
    #[error("timeline: {}", Reason(.0))]
    Timing(String),
    /// A thread that is not in this process was at work with it when the process was forked.
    #[error(transparent)]
    Forked(#[from] triune_fork::Forked),
    /// A board refuses what was asked for.
    #[error("{}", Reason(.0))]
    Board(String),
    /// A board cannot be reached.
    #[error("{}", Reason(.0))]
    Link(String),
    /// A board can be reached, but others have it.
    #[error("{}", Reason(.0))]
    InUse(String),
    /// A layer of a board's job failed.
    #[error("layer {layer}: {source}")]
    Layer {
        /// Which of the job's streams of commands, from 0.
        layer: usize,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// An error of a device behind a connection, whose other fields stayed there.
    #[error("{}", Reason(.text))]
    Far {
        /// Its class.
        class: ErrorClass,
        /// The operand that holds what is wrong, where a command's data are.
        operand: Option<String>,
        /// The layer of a job that failed.
        layer: Option<usize>,
        /// Its text.
        text: String,
    },
}

/// What an error means to who asked: errors of one class are told apart by their text alone, on whatever side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ErrorClass {
    /// What was asked for is wrong: an address, a command, a setting, data.
    Argument,
    /// It is right, but too much for this device, or for the limit of its work.
    Unsupported,
    /// The host has no memory for it.
    Memory,
    /// The work was stopped.
    Cancelled,
    /// The sanitizer found a fault.
    Sanitizer,
    /// A fork left it behind.
    Forked,
    /// The board cannot be reached.
    Link,
    /// Others have the board.
    InUse,
    /// The core broke its own rules.
    Internal,
}

impl ErrorClass {
    /// Every class; its number is its place.
    pub const ALL: [Self; 9] = [
        Self::Argument,
        Self::Unsupported,
        Self::Memory,
        Self::Cancelled,
        Self::Sanitizer,
        Self::Forked,
        Self::Link,
        Self::InUse,
        Self::Internal,
    ];
}

impl Error {
    /// The error's class.
    pub fn class(&self) -> ErrorClass {
        match self {
            // What a damaged program, its data or a wrong name can cause.
            Self::Spec { .. }
            | Self::UnknownMemory { .. }
            | Self::OutOfRegion { .. }
            | Self::NotAllocated { .. }
            | Self::Overlap(_)
            | Self::Segment { .. }
            | Self::Command { .. }
            | Self::ProgramTooLarge { .. }
            | Self::SanitizerMode { .. }
            | Self::WorkLimit { .. }
            | Self::Timing(_)
            | Self::Board(_)
            | Self::Kernel {
                source: triune_kernels::Error::Index { .. } | triune_kernels::Error::Range { .. },
                ..
            } => ErrorClass::Argument,
            Self::OutOfMemory { .. } | Self::TooMuchWork { .. } => ErrorClass::Unsupported,
            Self::HostMemory(_) | Self::Map { .. } => ErrorClass::Memory,
            Self::Cancelled => ErrorClass::Cancelled,
            Self::Sanitizer(_) => ErrorClass::Sanitizer,
            Self::Forked(_) => ErrorClass::Forked,
            Self::Link(_) => ErrorClass::Link,
            Self::InUse(_) => ErrorClass::InUse,
            Self::Busy { .. }
            | Self::NotLeased { .. }
            | Self::Kernel { .. }
            | Self::Stale
            | Self::Scratch { .. } => ErrorClass::Internal,
            Self::Layer { source, .. } => source.class(),
            Self::Far { class, .. } => *class,
        }
    }

    /// The operand of a command that holds data which are wrong, such as an index that leads out of what it indexes.
    pub fn operand(&self) -> Option<&str> {
        match self {
            Self::Kernel {
                source:
                    triune_kernels::Error::Index { operand, .. } | triune_kernels::Error::Range { operand, .. },
                ..
            } => Some(operand),
            Self::Layer { source, .. } => source.operand(),
            Self::Far { operand, .. } => operand.as_deref(),
            _ => None,
        }
    }

    /// The layer of a board's job that failed.
    pub fn layer(&self) -> Option<usize> {
        match self {
            Self::Layer { layer, .. } => Some(*layer),
            Self::Far { layer, .. } => *layer,
            _ => None,
        }
    }

    /// The same as one of a layer; when the work as a whole was stopped, or the board cannot do any, no layer is to blame.
    pub(crate) fn of_layer(self, layer: usize) -> Self {
        match self.class() {
            ErrorClass::Argument | ErrorClass::Unsupported | ErrorClass::Sanitizer | ErrorClass::Internal => {
                Self::Layer { layer, source: Box::new(self) }
            }
            ErrorClass::Memory
            | ErrorClass::Cancelled
            | ErrorClass::Forked
            | ErrorClass::Link
            | ErrorClass::InUse => self,
        }
    }
}
