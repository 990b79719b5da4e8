//! What the sanitizer says: a fault, who did it, and the chunks that it concerns.

use std::{fmt, panic::Location};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes of a chunk that has been freed are read or written.
    UseAfterFree,
    /// A chunk is freed a second time.
    DoubleFree,
    /// An address inside a chunk, not its first, is freed.
    FreeInside,
    /// Bytes outside of the chunk that the access begins in, or of any chunk, are read or written.
    OutOfBounds,
    /// Bytes are read that nobody wrote since they were allocated, or, in a feature map, since the run began.
    NeverWritten,
    /// Bytes of instructions or constants that a live deployment uses are written.
    Sealed,
    /// A new chunk shares bytes with a live one: the allocator itself is wrong.
    Overlap,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UseAfterFree => "use after free",
            Self::DoubleFree => "double free",
            Self::FreeInside => "free inside of a chunk",
            Self::OutOfBounds => "out of bounds",
            Self::NeverWritten => "read of never-written bytes",
            Self::Sealed => "write to live instructions or constants",
            Self::Overlap => "overlap of live chunks",
        })
    }
}

/// A chunk of device memory as the sanitizer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Number of the chunk, in the order of allocation on its device.
    pub serial: u64,
    /// The region's name.
    pub region: String,
    /// Address of the first byte.
    pub start: u64,
    /// Bytes as asked for.
    pub len: u64,
    /// What it is for; empty when nobody said.
    pub label: String,
    /// Where in the source it was allocated.
    pub allocated: &'static Location<'static>,
    /// Where in the source it was freed, if it was.
    pub freed: Option<&'static Location<'static>>,
}

impl fmt::Display for ChunkInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {}", self.serial)?;
        if !self.label.is_empty() {
            write!(f, " \"{}\"", self.label)?;
        }
        let end = self.start.saturating_add(self.len);
        write!(f, " ({} bytes at {} {:#x}..{end:#x}", self.len, self.region, self.start)?;
        write!(f, ", allocated at {}", self.allocated)?;
        if let Some(freed) = self.freed {
            write!(f, ", freed at {freed}")?;
        }
        f.write_str(")")
    }
}

/// One fault with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub fault: Fault,
    /// Who did it: `the host`, or a command with its number and operand.
    pub actor: String,
    /// What was being done, such as `reads`.
    pub action: &'static str,
    /// The region's name.
    pub region: String,
    /// First byte of the access.
    pub start: u64,
    /// One past its last byte, gaps of a strided operand included.
    pub end: u64,
    /// First byte that is at fault.
    pub first: u64,
    /// One past the last byte that is at fault, from there without a gap.
    pub last: u64,
    /// The chunk that it is about: the one that was meant, else the nearest below.
    pub chunk: Option<ChunkInfo>,
    /// The live chunk that lies there instead.
    pub other: Option<ChunkInfo>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, actor, action, region, start, end, first, last, .. } = self;
        write!(f, "{fault}: {actor} {action} {region} {start:#x}")?;
        if end > start {
            write!(f, "..{end:#x}")?;
        }
        if (first, last) != (start, end) && last > first {
            write!(f, ", of which {first:#x}..{last:#x} is at fault")?;
        }
        match &self.chunk {
            Some(chunk)
                if self.fault == Fault::OutOfBounds && *start >= chunk.start.saturating_add(chunk.len) =>
            {
                write!(f, "; nothing is allocated there, the nearest below is {chunk}")?;
            }
            Some(chunk) => write!(f, "; {chunk}")?,
            None => f.write_str("; nothing is allocated there")?,
        }
        if let Some(other) = &self.other {
            write!(f, "; what lies there now is {other}")?;
        }
        Ok(())
    }
}
