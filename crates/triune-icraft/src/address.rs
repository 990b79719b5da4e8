//! The vendor's words for places in the accelerator's memory: addresses on BUYI, chunks of virtual memory on ZG330.

use serde::{Deserialize, Serialize};
use triune_graph::format::xir::Mem;

use super::{
    Accelerator,
    generate::{Generated, Placed},
};
use crate::Error;
use triune_compiler::{Program, lower::ALIGNMENT};

/// The first bytes of BUYI's external memory are the vendor's own.
const RESERVED: u64 = 4096;

/// A range of a program's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Section {
    pub(crate) segment: u8,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Where a program's segments lie in the vendor's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Addresses {
    /// First byte of each segment in external memory; feature maps on chip count from 0.
    #[serde(rename = "segments")]
    Linear(Vec<u64>),
    /// Sections of segments by the number of the chunk that has them.
    #[serde(rename = "chunks")]
    Chunks(Vec<Section>),
}

impl Addresses {
    /// Lays out the segments of a program.
    pub(crate) fn new(accelerator: Accelerator, generated: &Generated) -> Result<Self, Error> {
        let program = &generated.program;
        let border: Vec<u64> =
            program.inputs.iter().chain(&program.outputs).map(|io| io.bytes() as u64).collect();
        match accelerator {
            Accelerator::Buyi => {
                let mut bases = vec![0; usize::from(Program::FIRST_IO) + border.len()];
                let mut at = RESERVED;
                let mut take = |base: &mut u64, bytes: u64| -> Result<(), Error> {
                    *base = at;
                    let end = at.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
                    at = end.ok_or_else(|| Error::target("the segments overflow 64 bits"))?;
                    Ok(())
                };
                take(&mut bases[usize::from(Program::CONSTANTS)], program.constants.len() as u64)?;
                for (index, bytes) in border.into_iter().enumerate() {
                    take(&mut bases[usize::from(Program::FIRST_IO) + index], bytes)?;
                }
                take(&mut bases[usize::from(Program::SCRATCH)], program.scratch_bytes)?;
                take(&mut bases[usize::from(Program::INSTRUCTIONS)], 0)?;
                Ok(Self::Linear(bases))
            }
            Accelerator::Zg330 => {
                let edges = border.into_iter().zip(Program::FIRST_IO..).map(|(bytes, segment)| Section {
                    segment,
                    offset: 0,
                    bytes,
                });
                let maps = program.buffers.iter().map(|buffer| Section {
                    segment: buffer.segment,
                    offset: buffer.offset,
                    bytes: buffer.bytes,
                });
                let instructions = Section { segment: Program::INSTRUCTIONS, offset: 0, bytes: 0 };
                Ok(Self::Chunks(edges.chain(maps).chain([instructions]).collect()))
            }
        }
    }

    /// Where a value lies.
    pub(crate) fn value(&self, program: &Program, placed: &Placed) -> Result<Mem, Error> {
        match self {
            Self::Linear(_) => self.address(placed.segment, placed.offset),
            Self::Chunks(_) => {
                let edges = program.inputs.len() + program.outputs.len();
                let index = match placed.buffer {
                    Some(buffer) => edges + buffer,
                    None => usize::from(placed.segment.saturating_sub(Program::FIRST_IO)),
                };
                self.chunk(index, placed.offset)
            }
        }
    }

    /// Adds instructions at the end of those so far, and says where they lie.
    pub(crate) fn instructions(&mut self, offset: u64, bytes: u64) -> Result<Mem, Error> {
        let Self::Chunks(sections) = self else { return self.address(Program::INSTRUCTIONS, offset) };
        let found = sections.iter_mut().zip(0..).find(|(each, _)| each.segment == Program::INSTRUCTIONS);
        let (section, index) = found.ok_or_else(lost)?;
        section.bytes = offset + bytes;
        self.chunk(index, offset)
    }

    /// Adds a chunk; addresses have none.
    pub(crate) fn add(&mut self, section: Section) {
        if let Self::Chunks(sections) = self {
            sections.push(section);
        }
    }

    /// A byte of the section that was added last, or of a segment.
    pub(crate) fn last(&self, segment: u8, offset: u64) -> Result<Mem, Error> {
        match self {
            Self::Linear(_) => self.address(segment, offset),
            Self::Chunks(sections) => self.chunk(sections.len().saturating_sub(1), offset),
        }
    }

    fn chunk(&self, index: usize, offset: u64) -> Result<Mem, Error> {
        let Self::Chunks(sections) = self else { return Err(lost()) };
        let section = sections.get(index).ok_or_else(lost)?;
        let id = u16::try_from(index).map_err(|_| Error::target("more than 65536 chunks of memory"))?;
        Ok(Mem::Chunk(id, offset.checked_sub(section.offset).ok_or_else(lost)?))
    }

    fn address(&self, segment: u8, offset: u64) -> Result<Mem, Error> {
        let Self::Linear(bases) = self else { return Err(lost()) };
        if segment == Program::RESIDENT {
            return Ok(Mem::OnChip(offset));
        }
        let base = bases.get(usize::from(segment)).ok_or_else(lost)?;
        base.checked_add(offset).map(Mem::External).ok_or_else(lost)
    }

    /// The segment and offset of `bytes` bytes at a place; `None` where the program has nothing.
    pub(crate) fn find(&self, mem: Mem, bytes: u64) -> Option<(u8, u64)> {
        match (self, mem) {
            (Self::Linear(_), Mem::OnChip(offset)) => Some((Program::RESIDENT, offset)),
            (Self::Linear(bases), Mem::External(address)) => {
                // The segment that begins last before it; empty ones begin where others do.
                let below = bases.iter().enumerate().filter(|&(index, &base)| {
                    index != usize::from(Program::RESIDENT) && base != 0 && base <= address
                });
                let (index, base) = below.max_by_key(|&(index, &base)| (base, std::cmp::Reverse(index)))?;
                Some((u8::try_from(index).ok()?, address - base))
            }
            (Self::Chunks(sections), Mem::Chunk(id, offset)) => {
                let section = sections.get(usize::from(id))?;
                let end = offset.checked_add(bytes)?;
                (end <= section.bytes).then_some(())?;
                Some((section.segment, section.offset.checked_add(offset)?))
            }
            _ => None,
        }
    }
}

fn lost() -> Error {
    Error::internal("a value of the program lies in none of its segments")
}
