//! What the sanitizer is told of a program: which chunks its segments lie in, and what each command touches.
//!
//! The operands are those that decoding checked, with their strides: what a command may touch and what the sanitizer
//! looks at cannot differ. Nobody comes here while the sanitizer is off.

use std::sync::Arc;

use super::{
    SegmentTable,
    operands::{Operands, SegRange},
    segments::Segment,
};
use crate::{
    Error, Memory, RangeAccess,
    memory::{
        AccessKind,
        sanitizer::{Actor, Record, Sanitizer, Touch, rows::Rows},
    },
};

/// The chunk that each segment lay in when the program was bound to it: a segment that is freed stays a fault when its
/// bytes have a new owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound(Vec<Option<Arc<Record>>>);

impl Bound {
    /// Looks the chunks up; empty when the memory has no sanitizer.
    pub(super) fn new(memory: &Memory, segments: &SegmentTable) -> Self {
        let Some(sanitizer) = memory.sanitizer() else { return Self::default() };
        let chunk = |segment: &Segment| sanitizer.chunk_at(segment.region.0, segment.base);
        Self(segments.segments().iter().map(chunk).collect())
    }

    fn chunk(&self, segment: u16) -> Option<&Arc<Record>> {
        self.0.get(usize::from(segment))?.as_ref()
    }
}

/// A program under the sanitizer's eyes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard<'a> {
    sanitizer: &'a Sanitizer,
    segments: &'a SegmentTable,
    bound: &'a Bound,
    /// The command at work: its position and name.
    command: (usize, &'static str),
}

impl<'a> Guard<'a> {
    /// `None` when the memory has no sanitizer.
    pub(super) fn new(memory: &'a Memory, segments: &'a SegmentTable, bound: &'a Bound) -> Option<Self> {
        Some(Self { sanitizer: memory.sanitizer()?, segments, bound, command: (0, "") })
    }

    /// The guard while a command is at work.
    pub(super) fn at(&self, index: usize, mnemonic: &'static str) -> Self {
        Self { command: (index, mnemonic), ..*self }
    }

    /// The decoder reads the command stream.
    pub(super) fn stream(&self, segment: u16, range: RangeAccess) -> Result<(), Error> {
        self.decoder(segment, range, Rows::dense(range.len))
    }

    fn decoder(&self, segment: u16, range: RangeAccess, rows: Rows) -> Result<(), Error> {
        let meant = self.bound.chunk(segment);
        self.sanitizer.touch(&Touch { actor: Actor::Decoder, kind: AccessKind::Read, range, rows, meant })
    }

    /// The decoder reads constants of the command at work.
    pub(super) fn constants(&self, operand: &'static str, range: SegRange) -> Result<(), Error> {
        self.touch(operand, AccessKind::Read, range, Rows::dense(range.len))
    }

    /// A run begins: nothing of what it makes is there yet.
    pub(super) fn begin(&self, makes: &[SegRange]) -> Result<(), Error> {
        for range in makes {
            if let Some(chunk) = self.bound.chunk(range.segment) {
                self.sanitizer.forget(range.resolve(self.segments)?, Some(chunk));
            }
        }
        for (index, segment) in self.segments.segments().iter().enumerate() {
            if segment.kind.prepared() && segment.len > 0 {
                // What was decoded must still be allocated, although no byte is read again.
                self.decoder(index as u16, segment.access(), Rows::dense(0))?;
            }
        }
        Ok(())
    }

    /// The command at work reads its operands and writes its output.
    pub(super) fn step(&self, operands: &Operands) -> Result<(), Error> {
        for placed in operands.reads.iter().flatten() {
            self.touch(placed.field, AccessKind::Read, placed.range, placed.rows())?;
        }
        let write = &operands.write;
        self.touch(write.field, AccessKind::Write, write.range, write.rows())
    }

    fn touch(
        &self,
        operand: &'static str,
        kind: AccessKind,
        range: SegRange,
        rows: Rows,
    ) -> Result<(), Error> {
        let (index, mnemonic) = self.command;
        let actor = Actor::Command { index, mnemonic, operand };
        let meant = self.bound.chunk(range.segment);
        self.sanitizer.touch(&Touch { actor, kind, range: range.resolve(self.segments)?, rows, meant })
    }
}
