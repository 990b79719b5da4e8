//! The bytes of a region, and the leases that make touching them sound. With the strips that a lease is cut in, and the system's calls behind [`Pages`], the only unsafe code of the crate.
//!
//! Why it is sound. All bytes are reached through [`Lease::read`], [`Lease::write`] and [`Lease::split`].
//! - *Between leases:* the lease table grants an exclusive range only when no live lease overlaps it, and a shared one
//!   only when no live exclusive range does, under one mutex (which also orders the memory accesses of the lease
//!   before with those of the lease after). A lease ends when it is dropped, and the slices borrow it.
//! - *Within a lease:* its ranges are disjoint wherever one is exclusive. Shared slices are handed out by `&self`; a
//!   mutable slice needs `&mut self`, so no other slice of the lease is alive; `split` gives one mutable slice together
//!   with shared ones only after it has checked that they share no byte.
//! - *Lifetime:* the mapping lives as long as the [`Memory`], which the lease borrows.
//! - *Content:* what is checked is committed, and pages start zeroed, so every byte is initialised, and any bit pattern is a `u8`.
#![expect(unsafe_code, reason = "turns checked ranges of a mapping into slices; see above")]

use super::{
    AccessKind, Memory, RangeAccess,
    pages::Pages,
    sanitizer::{Actor, Sanitizer, Touch, rows::Rows},
};
use crate::Error;

/// The bytes of a region, zeroed at first.
pub(super) struct Slab {
    pages: Pages,
}

impl Slab {
    /// Reserves address space for `size` bytes, without swap or memory behind it yet.
    pub(super) fn new(size: u64) -> std::io::Result<Self> {
        let len = usize::try_from(size).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        Ok(Self { pages: Pages::reserve(len)? })
    }

    pub(super) fn size(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Has memory behind a range of it.
    fn commit(&self, range: RangeAccess) -> Result<(), Error> {
        let all = range.start as usize..range.end() as usize;
        self.pages.commit(all).map_err(|_| Error::HostMemory(triune_tensor::OutOfMemory { bytes: range.len }))
    }

    /// # Safety
    /// The range lies in the slab, and nobody writes any of it during `'a`.
    unsafe fn bytes<'a>(&self, range: RangeAccess) -> &'a [u8] {
        debug_assert!(range.end() <= self.size());
        // SAFETY: in bounds of the live mapping and not written, says the caller; zeroed at first, so initialised.
        unsafe {
            std::slice::from_raw_parts(self.pages.as_mut_ptr().add(range.start as usize), range.len as usize)
        }
    }

    /// # Safety
    /// The range lies in the slab, and nobody else reads or writes any of it during `'a`.
    unsafe fn bytes_mut<'a>(&self, range: RangeAccess) -> &'a mut [u8] {
        debug_assert!(range.end() <= self.size());
        // SAFETY: in bounds of the live mapping and unaliased, says the caller; zeroed at first, so initialised.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.pages.as_mut_ptr().add(range.start as usize),
                range.len as usize,
            )
        }
    }
}

/// No bytes, where elements of any type may lie.
pub(crate) fn nothing() -> &'static [u8] {
    bytemuck::cast_slice::<u64, u8>(&[])
}

/// The right to touch some ranges of a memory, until it is dropped.
#[derive(Debug)]
pub struct Lease<'a> {
    memory: &'a Memory,
    ranges: &'a [RangeAccess],
    id: u64,
    /// Is told of what is touched, in leases of the host.
    sanitizer: Option<&'a Sanitizer>,
}

impl<'a> Lease<'a> {
    /// `id` was granted by the memory's lease table for exactly `ranges`, all of which lie in their regions.
    pub(super) fn new(
        memory: &'a Memory,
        ranges: &'a [RangeAccess],
        id: u64,
        sanitizer: Option<&'a Sanitizer>,
    ) -> Self {
        Self { memory, ranges, id, sanitizer }
    }

    /// The bytes of a range, which must lie in one leased range (its own `exclusive` is ignored).
    ///
    /// # Errors
    /// [`Error::NotLeased`], [`Error::Sanitizer`].
    pub fn read(&self, range: RangeAccess) -> Result<&[u8], Error> {
        self.check(range, AccessKind::Read)?;
        // SAFETY: leased, so no other lease writes it; this lease hands out mutable slices for `&mut self` only.
        Ok(unsafe { self.memory.regions[range.region.0].slab.bytes(range) })
    }

    /// The bytes of a range, which must lie in one exclusively leased range.
    ///
    /// # Errors
    /// [`Error::NotLeased`], [`Error::Sanitizer`].
    pub fn write(&mut self, range: RangeAccess) -> Result<&mut [u8], Error> {
        self.check(range, AccessKind::Write)?;
        // SAFETY: exclusively leased, and `&mut self` excludes every other slice of this lease.
        Ok(unsafe { self.memory.regions[range.region.0].slab.bytes_mut(range) })
    }

    /// The bytes of `reads` and of `write` at once, of which `write` shares none. Reads of no bytes may be anywhere.
    ///
    /// # Errors
    /// [`Error::NotLeased`], [`Error::Overlap`], [`Error::Sanitizer`].
    pub fn split<const N: usize>(
        &mut self,
        reads: [RangeAccess; N],
        write: RangeAccess,
    ) -> Result<([&[u8]; N], &mut [u8]), Error> {
        // Reads first: their bytes must have been written before this write.
        for &read in reads.iter().filter(|read| read.len > 0) {
            self.check(read, AccessKind::Read)?;
        }
        self.check(write, AccessKind::Write)?;
        for read in reads {
            if read.overlaps(&write) {
                return Err(Error::Overlap(format!(
                    "the range {:#x}..{:#x} to read and {:#x}..{:#x} to write",
                    read.start,
                    read.end(),
                    write.start,
                    write.end()
                )));
            }
        }
        let bytes = |range: RangeAccess| {
            if range.len == 0 {
                return nothing();
            }
            // SAFETY: leased, so no other lease writes it; disjoint from `write`, the only mutable slice there is.
            unsafe { self.memory.regions[range.region.0].slab.bytes(range) }
        };
        let reads = reads.map(bytes);
        // SAFETY: exclusively leased, `&mut self` excludes earlier slices, and `reads` are disjoint from it.
        let write = unsafe { self.memory.regions[write.region.0].slab.bytes_mut(write) };
        Ok((reads, write))
    }

    /// # Safety
    /// [`Self::check`] let it through, and nobody writes any of it during `'b`.
    pub(super) unsafe fn bytes<'b>(&self, range: RangeAccess) -> &'b [u8]
    where
        'a: 'b,
    {
        // SAFETY: in its region, by the lease; the rest is the caller's promise.
        unsafe { self.memory.regions[range.region.0].slab.bytes(range) }
    }

    /// # Safety
    /// [`Self::check`] let it be written, and nobody else reads or writes any of it during `'b`.
    pub(super) unsafe fn bytes_mut<'b>(&self, range: RangeAccess) -> &'b mut [u8]
    where
        'a: 'b,
    {
        // SAFETY: in its region, by the lease; the rest is the caller's promise.
        unsafe { self.memory.regions[range.region.0].slab.bytes_mut(range) }
    }

    /// Refuses a range that no leased range holds, or holds for reading only when it is to be written.
    pub(super) fn check(&self, range: RangeAccess, wanted: AccessKind) -> Result<(), Error> {
        let held = range.start.checked_add(range.len).is_some_and(|end| {
            self.ranges.iter().any(|own| {
                own.region == range.region
                    && own.start <= range.start
                    && end <= own.end()
                    && (own.exclusive || wanted == AccessKind::Read)
            })
        });
        if !held {
            return Err(Error::NotLeased {
                region: range.region.0,
                start: range.start,
                end: range.end(),
                wanted,
            });
        }
        self.memory.regions[range.region.0].slab.commit(range)?;
        let Some(sanitizer) = self.sanitizer else { return Ok(()) };
        let rows = Rows::dense(range.len);
        sanitizer.touch(&Touch { actor: Actor::Host, kind: wanted, range, rows, meant: None })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.memory.leases.release(self.id);
    }
}
