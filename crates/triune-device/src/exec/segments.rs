//! Where a program's segments lie in memory.

use std::fmt;

use crate::{Addr, Error, Memory, memory::RangeAccess, memory::RegionId};

/// Alignment in bytes that every segment's base must have, so that offsets decide the alignment of operands.
pub const SEGMENT_ALIGNMENT: u64 = 64;

/// What a program does with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Command words; never written by the program.
    Instructions,
    /// Weights, parameters and tables; never written by the program.
    Constants,
    /// Feature maps between commands.
    Scratch,
    /// Feature maps between commands that stay in the near memory.
    Resident,
    /// Feature maps between commands that the far memory has no room for.
    Spilled,
    /// An input; never written by the program.
    Input,
    /// An output.
    Output,
}

impl fmt::Display for SegmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "instructions",
            Self::Constants => "constants",
            Self::Scratch => "scratch",
            Self::Resident => "resident",
            Self::Spilled => "spilled",
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

impl SegmentKind {
    /// Whether the program may write the segment.
    pub const fn writable(self) -> bool {
        matches!(self, Self::Scratch | Self::Resident | Self::Spilled | Self::Output)
    }

    /// Whether the segment's content means nothing before a run and after it.
    pub const fn transient(self) -> bool {
        self.writable() && !matches!(self, Self::Output)
    }

    /// Whether a decoded program depends on the segment's content.
    pub const fn prepared(self) -> bool {
        matches!(self, Self::Instructions | Self::Constants)
    }
}

/// One segment: a range of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The region.
    pub region: RegionId,
    /// Address of the first byte, a multiple of [`SEGMENT_ALIGNMENT`].
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// What the program does with it.
    pub kind: SegmentKind,
}

impl Segment {
    /// Its bytes, and whether a program may write them.
    pub const fn access(&self) -> RangeAccess {
        RangeAccess { region: self.region, start: self.base, len: self.len, exclusive: self.kind.writable() }
    }
}

/// One of something for each segment of a compiled program: the one place that knows their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout<T> {
    /// For the encoded commands.
    pub instructions: T,
    /// For weights, parameters and tables.
    pub constants: T,
    /// For feature maps in the far memory.
    pub scratch: T,
    /// For feature maps in the near memory.
    pub resident: T,
    /// For what lies outside of the program, with what it is: inputs, outputs, large constants that several programs share; and feature
    /// maps that the far memory has no room for.
    pub others: Vec<(SegmentKind, T)>,
}

impl<T> Layout<T> {
    /// Them all, by their segments' numbers.
    pub fn in_order(self) -> impl Iterator<Item = (SegmentKind, T)> {
        let own = [
            (SegmentTable::INSTRUCTIONS, SegmentKind::Instructions, self.instructions),
            (SegmentTable::CONSTANTS, SegmentKind::Constants, self.constants),
            (SegmentTable::SCRATCH, SegmentKind::Scratch, self.scratch),
            (SegmentTable::RESIDENT, SegmentKind::Resident, self.resident),
        ];
        debug_assert!(own.iter().enumerate().all(|(index, each)| index == usize::from(each.0)));
        own.into_iter().map(|(_, kind, each)| (kind, each)).chain(self.others)
    }
}

/// Two segments that share bytes although the program writes one of them, the lower index first.
fn conflict(segments: &[Segment]) -> Option<[usize; 2]> {
    let mut order: Vec<usize> = (0..segments.len()).filter(|&index| segments[index].len > 0).collect();
    order.sort_by_key(|&index| (segments[index].region, segments[index].base));
    // Of those that begin before: which one ends last, and which of those that are written.
    let (mut any, mut written) = (None::<usize>, None::<usize>);
    for index in order {
        let segment = &segments[index];
        let reaches = |before: Option<usize>| {
            before.filter(|&before| segments[before].access().overlaps(&segment.access()))
        };
        let met = if segment.kind.writable() { reaches(any) } else { reaches(written) };
        if let Some(other) = met {
            return Some([index.min(other), index.max(other)]);
        }
        let end = |&other: &usize| (segments[other].region, segments[other].base + segments[other].len);
        any = any.into_iter().chain([index]).max_by_key(end);
        if segment.kind.writable() {
            written = written.into_iter().chain([index]).max_by_key(end);
        }
    }
    None
}

/// The segments of a program, indexed by the top bits of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentTable {
    segments: Vec<Segment>,
}

impl SegmentTable {
    /// Number of a compiled program's segment of encoded commands.
    pub const INSTRUCTIONS: u16 = 0;
    /// Number of a compiled program's segment of weights, parameters and tables.
    pub const CONSTANTS: u16 = 1;
    /// Number of a compiled program's segment of feature maps in the far memory.
    pub const SCRATCH: u16 = 2;
    /// Number of a compiled program's segment of feature maps in the near memory.
    pub const RESIDENT: u16 = 3;
    /// Number of the first of the others.
    pub const FIRST_IO: u16 = 4;

    /// A table of at most 1,023 segments, as many as addresses name and one less. Segments that the program only reads may share bytes; one that it writes
    /// shares none with any other.
    ///
    /// # Errors
    /// [`Error::Segment`] for a misaligned base or too many segments, [`Error::Overlap`].
    pub fn new(segments: Vec<Segment>) -> Result<Self, Error> {
        for (index, segment) in segments.iter().enumerate() {
            let fail = |problem: String| Err(Error::Segment { segment: index, problem });
            if index >= usize::from(Addr::MAX_SEGMENT) {
                return fail(format!("there can be {} segments", Addr::MAX_SEGMENT));
            }
            if !segment.base.is_multiple_of(SEGMENT_ALIGNMENT) {
                return fail(format!(
                    "the base {:#x} is not a multiple of {SEGMENT_ALIGNMENT}",
                    segment.base
                ));
            }
            if segment.base.checked_add(segment.len).is_none() {
                return fail(format!("{} bytes at {:#x} leave the address space", segment.len, segment.base));
            }
        }
        if let Some([one, other]) = conflict(&segments) {
            return Err(Error::Overlap(format!(
                "segments {one} ({}) and {other} ({}), one of which the program writes,",
                segments[one].kind, segments[other].kind
            )));
        }
        Ok(Self { segments })
    }

    /// The segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(super) fn get(&self, index: u16) -> Option<&Segment> {
        self.segments.get(usize::from(index))
    }

    /// Whether every segment lies in its region of `memory`.
    pub(super) fn check(&self, memory: &Memory) -> Result<(), Error> {
        for (index, segment) in self.segments.iter().enumerate() {
            let size = memory.size(segment.region)?;
            if segment.base + segment.len > size {
                return Err(Error::Segment {
                    segment: index,
                    problem: format!(
                        "{} bytes at {:#x} leave a region of {size} bytes",
                        segment.len, segment.base
                    ),
                });
            }
        }
        Ok(())
    }
}
