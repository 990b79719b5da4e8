//! Allocated bytes of a region that are given back by whoever drops them last.

use std::sync::Arc;

use super::{Memory, RangeAccess, RegionId};
use crate::{
    Error,
    exec::{SEGMENT_ALIGNMENT, Segment, SegmentKind},
};

/// Allocated bytes of a region, at a multiple of [`SEGMENT_ALIGNMENT`]; freed on drop.
#[derive(Debug)]
pub struct Chunk {
    memory: Arc<Memory>,
    region: RegionId,
    base: u64,
    len: u64,
}

impl Chunk {
    /// `len` bytes of a region. What has no bytes takes none; its place is where it would lie.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the region has no room, [`Error::UnknownMemory`] for an index out of range.
    pub fn new(memory: &Arc<Memory>, region: RegionId, len: u64) -> Result<Self, Error> {
        let size = len.checked_next_multiple_of(SEGMENT_ALIGNMENT).unwrap_or(u64::MAX);
        let base = if len == 0 { 0 } else { memory.allocate(region, size, SEGMENT_ALIGNMENT)? };
        Ok(Self { memory: Arc::clone(memory), region, base, len })
    }

    /// As many bytes as these, with these in them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn holding(memory: &Arc<Memory>, region: RegionId, bytes: &[u8]) -> Result<Self, Error> {
        let chunk = Self::new(memory, region, bytes.len() as u64)?;
        chunk.write(bytes)?;
        Ok(chunk)
    }

    /// The region that it lies in.
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// The first byte's address there.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes that were asked for.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes bytes to its beginning.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`] for more than the region has, [`Error::Busy`] while a run holds some of them.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(self.region, self.base, bytes)
    }

    /// Reads its beginning.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), Error> {
        self.memory.read(self.region, self.base, bytes)
    }

    /// Whether it holds these bytes and no more. While a run writes there, it holds others.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let ranges = [RangeAccess::shared(self.region, self.base, self.len)];
        let Ok(lease) = self.memory.lease(&ranges) else { return false };
        self.len == bytes.len() as u64 && lease.read(ranges[0]).is_ok_and(|own| own == bytes)
    }

    /// Says what it is for, in the words of the memory's sanitizer ([`Memory::label`]).
    #[must_use]
    pub fn labelled(self, label: impl FnOnce() -> String) -> Self {
        if self.len > 0 {
            self.memory.label(self.region, self.base, label);
        }
        self
    }

    /// From now on, the memory's sanitizer lets nobody write here ([`Memory::seal`]).
    pub fn seal(&self) {
        if self.len > 0 {
            self.memory.seal(self.region, self.base);
        }
    }

    /// It as a segment of a program.
    pub fn segment(&self, kind: SegmentKind) -> Segment {
        Segment { region: self.region, base: self.base, len: self.len, kind }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // Nobody else frees it; a failure here would be a second owner, which the allocator reports by itself.
        let freed = self.memory.free(self.region, self.base);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceSpec;

    #[test]
    fn bytes_are_given_back() {
        let memory = Arc::new(Memory::new(&DeviceSpec::builtin("metis").expect("builtin")).expect("room"));
        let region = memory.region("ddr").expect("a region");
        let live = |memory: &Memory| memory.live(region).expect("a region").len();
        let before = live(&memory);
        let (one, two) = (
            Chunk::holding(&memory, region, &[1, 2, 3]).expect("room"),
            Chunk::new(&memory, region, 0).expect("no room needed"),
        );
        assert_eq!((one.len(), one.is_empty(), two.is_empty(), live(&memory)), (3, false, true, before + 1));
        assert!(one.holds(&[1, 2, 3]) && !one.holds(&[1, 2]) && !one.holds(&[1, 2, 4]));
        assert!(one.base().is_multiple_of(SEGMENT_ALIGNMENT));
        one.write(&[9]).expect("its own");
        assert!(one.holds(&[9, 2, 3]));
        drop((one, two));
        assert_eq!(live(&memory), before);
        assert!(matches!(Chunk::new(&memory, region, u64::MAX), Err(Error::OutOfMemory { .. })));
        assert!(matches!(Chunk::new(&memory, RegionId(99), 1), Err(Error::UnknownMemory { .. })));
    }
}
