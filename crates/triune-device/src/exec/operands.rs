//! A checked command: which bytes it reads and writes, and the kernel that does it.

use std::fmt;

use triune_kernels::{Blocked, Pool};

use super::{SegmentTable, check::Placed, outside::Outside};
use crate::{Error, Lease, memory::RangeAccess};

/// Operands that a command can read beside its constants.
pub(super) const MAX_READS: usize = 3;

/// A range of a segment, inside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegRange {
    pub(super) segment: u8,
    pub(super) start: u64,
    pub(super) len: u64,
}

impl SegRange {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.segment == other.segment
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }

    /// Where the range lies in memory.
    pub(super) fn resolve(&self, segments: &SegmentTable) -> Result<RangeAccess, Error> {
        let segment = segments.get(self.segment).ok_or_else(|| Error::Segment {
            segment: self.segment.into(),
            problem: "does not exist".into(),
        })?;
        Ok(RangeAccess::shared(segment.region, segment.base + self.start, self.len))
    }
}

/// A kernel with its parameters. Slices start at their operand's first element and end at its last.
pub(super) trait Step: Send + Sync + fmt::Debug {
    /// Bytes of scratch that a run needs.
    fn scratch_bytes(&self, threads: usize) -> usize {
        let _ = threads;
        0
    }

    /// Computes `write` from `reads`, of which those that the command does not have are empty.
    fn run(
        &self,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error>;
}

/// An operand that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) placed: Placed,
    /// Whether it shares bytes with the output and is copied aside before the kernel runs: a slice that is read must
    /// not alias one that is written.
    pub(super) staged: bool,
}

/// A command that is ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) reads: [Option<Read>; MAX_READS],
    pub(super) write: Placed,
    pub(super) kernel: Box<dyn Step>,
}

/// Why a step failed.
pub(super) enum RunError {
    Device(Error),
    Kernel(triune_kernels::Error),
}

/// Rounds up to the alignment that kernels are given.
const fn padded(bytes: u64) -> usize {
    bytes.next_multiple_of(64) as usize
}

impl Read {
    /// The operand's blocks, if kernels cannot read them.
    fn gathered(&self) -> Option<&Blocked> {
        self.placed.blocks().filter(|blocks| blocks.blocks() > 1)
    }
}

impl Prepared {
    /// Bytes of scratch that operands copied aside, gathered or to be scattered take.
    pub(super) fn staging_bytes(&self) -> usize {
        let read = |read: &Read| match read.gathered() {
            Some(blocks) => padded(blocks.dense_len() as u64),
            None if read.staged => padded(read.placed.range.len),
            None => 0,
        };
        let written = self.scattered().map_or(0, |blocks| padded(blocks.dense_len() as u64));
        self.reads.iter().flatten().map(read).sum::<usize>() + written
    }

    /// The output's blocks, if kernels cannot write them.
    fn scattered(&self) -> Option<&Blocked> {
        self.write.blocks().filter(|blocks| blocks.blocks() > 1)
    }

    pub(super) fn scratch_bytes(&self, threads: usize) -> usize {
        self.kernel.scratch_bytes(threads)
    }

    /// Runs the kernel, on inputs where `outside` has them.
    pub(super) fn run(
        &self,
        lease: &mut Lease<'_>,
        segments: &SegmentTable,
        outside: Option<&Outside<'_>>,
        staging: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), RunError> {
        let write = self.write.range.resolve(segments).map_err(RunError::Device)?;
        // An operand that does not exist, lies outside, or was copied aside, is an empty range where the output starts.
        let mut ranges = [RangeAccess::shared(write.region, write.start, 0); MAX_READS];
        let mut copies: [Option<&[u8]>; MAX_READS] = [None; MAX_READS];
        let mut free = staging;
        for ((read, range), copy) in self.reads.iter().zip(&mut ranges).zip(&mut copies) {
            let Some(read) = read else { continue };
            let outside = outside.and_then(|outside| outside.bytes(read.placed.range));
            if outside.is_some() && read.gathered().is_none() {
                *copy = outside;
                continue;
            }
            let resolved = read.placed.range.resolve(segments).map_err(RunError::Device)?;
            if let Some(blocks) = read.gathered() {
                let (own, rest) = free.split_at_mut(padded(blocks.dense_len() as u64));
                let own = &mut own[..blocks.dense_len()];
                let bytes = match outside {
                    Some(bytes) => bytes,
                    None => lease.read(resolved).map_err(RunError::Device)?,
                };
                blocks.gather(bytes, own, pool).map_err(RunError::Kernel)?;
                *copy = Some(own);
                free = rest;
            } else if read.staged {
                let (own, rest) = free.split_at_mut(padded(resolved.len));
                let own = &mut own[..resolved.len as usize];
                own.copy_from_slice(lease.read(resolved).map_err(RunError::Device)?);
                *copy = Some(own);
                free = rest;
            } else {
                *range = resolved;
            }
        }
        let (mut reads, output) = lease.split(ranges, write).map_err(RunError::Device)?;
        for (read, copy) in reads.iter_mut().zip(copies) {
            if let Some(copy) = copy {
                *read = copy;
            }
        }
        self.compute(reads, output, free, scratch, pool).map_err(RunError::Kernel)
    }

    /// Runs the kernel; behind it, what it wrote is put in blocks.
    fn compute(
        &self,
        reads: [&[u8]; MAX_READS],
        output: &mut [u8],
        staging: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        if let Some(blocks) = self.scattered() {
            let own = &mut staging[..blocks.dense_len()];
            self.kernel.run(reads, own, scratch, pool)?;
            return blocks.scatter(own, output, pool);
        }
        self.kernel.run(reads, output, scratch, pool)?;
        match self.write.blocks() {
            Some(blocks) if blocks.channels < blocks.block => blocks.pad(output),
            _ => Ok(()),
        }
    }
}
