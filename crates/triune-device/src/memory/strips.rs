//! A lease cut for several threads: each has rows of its own of what is written.
//!
//! Why it is sound. [`Strips`] borrow their lease mutably, so nobody else has a slice of it. What is written lies in [`Cut`]s, which
//! are exclusively leased and pairwise the same or without a common byte, and [`Own`] reaches of each no rows but its own, and
//! outside of them nothing that overlaps one. Strips of one run have different rows: they are made here, one per task, and a pool
//! runs each task once. Within a strip, slices come as a lease's do: a mutable one borrows the strip mutably, and shared ones beside
//! it are checked to have no byte of it. Bytes outside of the lease are cut by the same rows; of the room for copies, each worker has
//! its part, and no two tasks have the same worker at the same time.
#![expect(unsafe_code, reason = "hands rows of buffers to tasks that each have others; see above")]

use std::{marker::PhantomData, ops::Range};

use triune_kernels::Pool;

use super::{AccessKind, Lease, RangeAccess};
use crate::Error;

/// A range that is written row by row, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) range: RangeAccess,
    /// Bytes of a row.
    pub(crate) row: u64,
}

impl Cut {
    /// Where some of its rows lie.
    fn rows(&self, rows: &Range<u64>) -> Range<u64> {
        self.range.start + rows.start * self.row..self.range.start + rows.end * self.row
    }
}

/// Bytes that tasks take parts of.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    start: *mut u8,
    len: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: bytes can be sent and shared; the parts that tasks take share none, by the contract of `part`.
unsafe impl Send for Bytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for Bytes<'_> {}

impl<'a> Bytes<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), len: bytes.len(), borrow: PhantomData }
    }

    /// Those of a range, cut off where they end.
    ///
    /// # Safety
    /// Nobody else has any of them meanwhile.
    unsafe fn part(self, range: Range<usize>) -> &'a mut [u8] {
        let (start, end) = (range.start.min(self.len), range.end.min(self.len));
        // SAFETY: within the bytes that were borrowed, and nobody else has them, says the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), end.saturating_sub(start)) }
    }
}

/// Buffers of a lease, and bytes outside of it, to be gone through in strips of rows.
pub(crate) struct Strips<'a> {
    lease: &'a Lease<'a>,
    cuts: &'a [Cut],
    rows: u64,
    outside: Bytes<'a>,
    /// Bytes of a row of these.
    outside_row: u64,
    room: Bytes<'a>,
}

/// What one task may touch.
pub(crate) struct Strip<'a> {
    /// What lies in the lease.
    pub(crate) own: Own<'a>,
    /// Its rows of what lies outside.
    pub(crate) outside: &'a mut [u8],
    /// Room of its own.
    pub(crate) room: &'a mut [u8],
}

/// The rows of a lease that are one task's own.
pub(crate) struct Own<'a> {
    lease: &'a Lease<'a>,
    cuts: &'a [Cut],
    pub(crate) rows: Range<u64>,
}

impl<'a> Strips<'a> {
    /// Cuts what tasks write in `rows` rows: `cuts` of the lease, and `outside`. `room` is shared out among threads.
    ///
    /// # Errors
    /// [`Error::NotLeased`]; [`Error::Overlap`] for cuts that share bytes without being the same.
    pub(crate) fn new<'l: 'a>(
        lease: &'a mut Lease<'l>,
        cuts: &'a [Cut],
        rows: u64,
        outside: &'a mut [u8],
        room: &'a mut [u8],
    ) -> Result<Self, Error> {
        for (index, cut) in cuts.iter().enumerate() {
            lease.check(cut.range, AccessKind::Write)?;
            let whole = cut.row.checked_mul(rows) == Some(cut.range.len);
            if !whole || cuts[..index].iter().any(|other| other != cut && other.range.overlaps(&cut.range)) {
                let RangeAccess { start, len, .. } = cut.range;
                return Err(Error::Overlap(format!(
                    "{len} bytes at {start:#x}, and others, to write in {rows} rows"
                )));
            }
        }
        let outside_row = outside.len() as u64 / rows.max(1);
        let (outside, room) = (Bytes::new(outside), Bytes::new(room));
        Ok(Self { lease, cuts, rows, outside, outside_row, room })
    }

    /// Calls `f` on strips of `each` rows, the last one's may be fewer.
    pub(crate) fn run(&self, each: u64, pool: &Pool, f: &(dyn Fn(Strip<'_>) + Sync)) {
        let each = each.max(1);
        let room = self.room.len / pool.threads();
        let strip = |task: usize, worker: usize| {
            let start = (task as u64).saturating_mul(each).min(self.rows);
            let rows = start..start.saturating_add(each).min(self.rows);
            let outside = (rows.start * self.outside_row) as usize..(rows.end * self.outside_row) as usize;
            f(Strip {
                own: Own { lease: self.lease, cuts: self.cuts, rows },
                // SAFETY: tasks have different rows, and each is run once.
                outside: unsafe { self.outside.part(outside) },
                // SAFETY: no other task has this worker meanwhile.
                room: unsafe { self.room.part(worker * room..(worker + 1) * room) },
            });
        };
        pool.run(self.rows.div_ceil(each) as usize, &strip);
    }
}

impl Own<'_> {
    /// Refuses what another strip could write, and what the lease does not hold.
    fn check(&self, range: RangeAccess, wanted: AccessKind) -> Result<(), Error> {
        self.lease.check(range, wanted)?;
        let mut own = wanted == AccessKind::Read;
        for cut in self.cuts.iter().filter(|cut| cut.range.overlaps(&range)) {
            let rows = cut.rows(&self.rows);
            if range.start < rows.start || range.end() > rows.end {
                return Err(Error::Overlap(format!(
                    "{:#x}..{:#x}, of which {:#x}..{:#x} belong to these rows",
                    range.start,
                    range.end(),
                    rows.start,
                    rows.end
                )));
            }
            own = true;
        }
        if own || range.len == 0 {
            return Ok(());
        }
        Err(Error::Overlap(format!("{:#x}..{:#x} is not cut in rows", range.start, range.end())))
    }

    /// As [`Lease::read`], of what no other strip writes.
    ///
    /// # Errors
    /// [`Error::NotLeased`], [`Error::Overlap`].
    pub(crate) fn read(&self, range: RangeAccess) -> Result<&[u8], Error> {
        self.check(range, AccessKind::Read)?;
        // SAFETY: leased, and no other strip writes it; this one hands out mutable slices for `&mut self` only.
        Ok(unsafe { self.lease.bytes(range) })
    }

    /// As [`Lease::split`], of these rows.
    ///
    /// # Errors
    /// [`Error::NotLeased`], [`Error::Overlap`].
    pub(crate) fn split<const N: usize>(
        &mut self,
        reads: [RangeAccess; N],
        write: RangeAccess,
    ) -> Result<([&[u8]; N], &mut [u8]), Error> {
        for read in reads {
            self.check(read, AccessKind::Read)?;
            if read.overlaps(&write) {
                return Err(Error::Overlap(format!(
                    "{:#x}..{:#x} to read and {:#x}..{:#x} to write",
                    read.start,
                    read.end(),
                    write.start,
                    write.end()
                )));
            }
        }
        self.check(write, AccessKind::Write)?;
        // SAFETY: leased, written by no other strip, and disjoint from `write`, the only mutable slice that there is.
        let reads = reads.map(|range| unsafe { self.lease.bytes(range) });
        // SAFETY: exclusively leased, of rows that no other strip has; `&mut self` excludes earlier slices, and `reads` are disjoint.
        Ok((reads, unsafe { self.lease.bytes_mut(write) }))
    }
}
