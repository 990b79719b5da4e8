//! The vendor's words for places in the accelerator's memory: addresses on BUYI, chunks of virtual memory on ZG330.

use serde::{Deserialize, Serialize};
use triune_graph::format::xir::Mem;

use super::{
    Accelerator,
    generate::{Generated, Placed},
};
use crate::Error;
use triune_compiler::{ALIGNMENT, Program};

/// The first bytes of BUYI's external memory are the vendor's own.
const RESERVED: u64 = 4096;

/// A range of a program's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Section {
    pub(crate) segment: u16,
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
    pub(crate) fn last(&self, segment: u16, offset: u64) -> Result<Mem, Error> {
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

    fn address(&self, segment: u16, offset: u64) -> Result<Mem, Error> {
        let Self::Linear(bases) = self else { return Err(lost()) };
        if segment == Program::RESIDENT {
            return Ok(Mem::OnChip(offset));
        }
        let base = bases.get(usize::from(segment)).ok_or_else(lost)?;
        base.checked_add(offset).map(Mem::External).ok_or_else(lost)
    }

    /// The segment and offset of `bytes` bytes at a place; `None` where the program has nothing.
    pub(crate) fn find(&self, mem: Mem, bytes: u64) -> Option<(u16, u64)> {
        match (self, mem) {
            (Self::Linear(_), Mem::OnChip(offset)) => Some((Program::RESIDENT, offset)),
            (Self::Linear(bases), Mem::External(address)) => {
                // The segment that begins last before it; empty ones begin where the next one does, which has the bytes.
                let below = in_line(bases).filter(|&(_, base)| base != 0 && base <= address);
                let (segment, base) = below.max_by_key(|&(_, base)| base)?;
                Some((segment, address - base))
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

/// The segments in the external memory and their first bytes, in the order in which they lie: constants, inputs and outputs,
/// feature maps, instructions.
fn in_line(bases: &[u64]) -> impl Iterator<Item = (u16, u64)> + '_ {
    let border = Program::FIRST_IO..u16::try_from(bases.len()).unwrap_or(u16::MAX);
    let order = [Program::CONSTANTS].into_iter().chain(border);
    let order = order.chain([Program::SCRATCH, Program::INSTRUCTIONS]);
    order.filter_map(|segment| Some((segment, *bases.get(usize::from(segment))?)))
}

fn lost() -> Error {
    Error::internal("a value of the program lies in none of its segments")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(segment: u16, offset: u64, bytes: u64) -> Section {
        Section { segment, offset, bytes }
    }

    #[test]
    fn addresses_lie_in_the_segment_that_begins_last_before_them() {
        let (near, first) = (Program::RESIDENT, Program::FIRST_IO);
        let mut bases = vec![0; usize::from(first) + 2];
        bases[usize::from(Program::CONSTANTS)] = 4096;
        // An empty one begins where the next does.
        bases[usize::from(first)] = 8192;
        bases[usize::from(first) + 1] = 8192;
        bases[usize::from(Program::SCRATCH)] = 9216;
        bases[usize::from(Program::INSTRUCTIONS)] = 16384;
        let mut addresses = Addresses::Linear(bases);
        for (mem, place) in [
            (Mem::External(0), None),
            (Mem::External(4095), None),
            (Mem::External(4096), Some((Program::CONSTANTS, 0))),
            (Mem::External(8191), Some((Program::CONSTANTS, 4095))),
            (Mem::External(8192), Some((first + 1, 0))),
            (Mem::External(9215), Some((first + 1, 1023))),
            (Mem::External(9216), Some((Program::SCRATCH, 0))),
            (Mem::External(20000), Some((Program::INSTRUCTIONS, 3616))),
            (Mem::OnChip(77), Some((near, 77))),
            (Mem::Chunk(0, 0), None),
            (Mem::Host, None),
        ] {
            assert_eq!(addresses.find(mem, 1), place, "{mem:?}");
        }
        assert_eq!(addresses.last(near, 5).unwrap(), Mem::OnChip(5));
        assert_eq!(addresses.last(Program::SCRATCH, 5).unwrap(), Mem::External(9221));
        assert_eq!(addresses.instructions(8, 24).unwrap(), Mem::External(16392));
        for (segment, offset) in [(first + 2, 0), (Program::CONSTANTS, u64::MAX)] {
            assert!(addresses.last(segment, offset).is_err());
        }
        let same = addresses.clone();
        addresses.add(section(first, 0, 64));
        assert_eq!(addresses, same, "addresses have no chunks");
    }

    #[test]
    fn chunks_are_sections_of_segments() {
        let (first, scratch) = (Program::FIRST_IO, Program::SCRATCH);
        let instructions = section(Program::INSTRUCTIONS, 0, 0);
        let sections = vec![section(first, 0, 100), section(scratch, 64, 32), instructions];
        let mut addresses = Addresses::Chunks(sections);
        for (mem, bytes, place) in [
            (Mem::Chunk(0, 0), 100, Some((first, 0))),
            (Mem::Chunk(0, 1), 100, None),
            (Mem::Chunk(0, 99), 1, Some((first, 99))),
            (Mem::Chunk(1, 8), 24, Some((scratch, 72))),
            (Mem::Chunk(1, 8), 25, None),
            (Mem::Chunk(1, u64::MAX), 2, None),
            (Mem::Chunk(3, 0), 0, None),
            (Mem::External(4096), 1, None),
            (Mem::OnChip(0), 1, None),
        ] {
            assert_eq!(addresses.find(mem, bytes), place, "{mem:?}");
        }
        // Instructions grow their section, whichever it is.
        assert_eq!(addresses.instructions(0, 24).unwrap(), Mem::Chunk(2, 0));
        assert_eq!(addresses.instructions(24, 40).unwrap(), Mem::Chunk(2, 24));
        assert_eq!(addresses.find(Mem::Chunk(2, 63), 1), Some((Program::INSTRUCTIONS, 63)));
        assert_eq!(addresses.find(Mem::Chunk(2, 63), 2), None);
        addresses.add(section(scratch, 128, 16));
        assert_eq!(addresses.last(scratch, 130).unwrap(), Mem::Chunk(3, 2));
        let error = addresses.last(scratch, 127).unwrap_err().to_string();
        assert!(error.contains("lies in none of its segments"), "{error}");
        assert!(Addresses::Chunks(Vec::new()).instructions(0, 1).is_err());
    }
}
