//! A checked command: which bytes it reads and writes, and the kernel that does it.
//!
//! As many of these are in memory as a program has commands: what few commands have is boxed, and what the sanitizer alone
//! asks for is kept beside them while it is on.

use std::{fmt, num::NonZeroU32, ops::Range};

use triune_kernels::{Blocked, ConvMethod, CopyNd, Pool, cancel};

use super::{
    SegmentTable,
    border::{Sources, Targets},
    check::Placed,
};
use crate::{
    Error, Lease,
    command::Opcode,
    memory::{self, RangeAccess},
};

/// Operands that a command can read beside its constants.
pub(super) const MAX_READS: usize = 5;

/// A range of a segment, inside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegRange {
    pub(super) segment: u16,
    pub(super) start: u64,
    pub(super) len: u64,
}

/// What a command's operands are in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) reads: [Option<Placed>; MAX_READS],
    pub(super) write: Placed,
}

impl SegRange {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.segment == other.segment
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }

    /// The first byte behind it.
    pub(super) const fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Whether all bytes of another range are its own.
    pub(super) const fn covers(&self, other: &Self) -> bool {
        self.segment == other.segment && self.start <= other.start && other.end() <= self.end()
    }

    /// The range in bytes of the segment, if this machine can address it.
    pub(super) fn indices(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.start).ok()?;
        Some(start..start.checked_add(usize::try_from(self.len).ok()?)?)
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

    /// How a convolution is computed.
    fn method(&self) -> Option<ConvMethod> {
        None
    }

    /// How the command can be cut; `None` where no part of it can be computed alone.
    fn rows(&self) -> Option<Rows> {
        None
    }

    /// Bytes of scratch that any number of its rows needs.
    fn rows_scratch(&self) -> usize {
        0
    }

    /// As [`Self::run`], of `count` of its [`Self::rows`], by one thread: the slices of operands that have rows are those of these
    /// alone, and the scratch has [`Self::rows_scratch`] bytes at least.
    fn run_rows(
        &self,
        count: usize,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        let _ = (count, reads, write, scratch, pool);
        Err(triune_kernels::Error::Invalid("the command cannot be cut in rows"))
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

/// The rows that a command can be cut in: each is computed from the same row of its operands, and the last one's bytes of an operand
/// end with the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) count: u64,
    /// Bytes from a row to the next, 0 where all rows read the same.
    pub(super) reads: [u64; MAX_READS],
    /// Bytes of a row of the output, which has no gaps.
    pub(super) write: u64,
}

impl Rows {
    /// So many rows, of which an operand has so many bytes.
    pub(super) fn dense<const N: usize>(count: usize, reads: [usize; N], write: usize) -> Option<Self> {
        let mut all = [0; MAX_READS];
        for (all, bytes) in all.iter_mut().zip(reads) {
            *all = bytes as u64;
        }
        (count > 1).then_some(Self { count: count as u64, reads: all, write: write as u64 })
    }

    /// Those of a loop nest, the output's first, given in elements of so many bytes.
    pub(super) fn nest<const N: usize>(rows: Option<(usize, [usize; N])>, bytes: [usize; N]) -> Option<Self> {
        let (count, apart) = rows?;
        let mut all = [0; MAX_READS];
        for (all, (elements, bytes)) in all.iter_mut().zip(apart.into_iter().zip(bytes).skip(1)) {
            *all = (elements * bytes) as u64;
        }
        Some(Self { count: count as u64, reads: all, write: (apart[0] * bytes[0]) as u64 })
    }
}

/// [`Rows`] in few bytes, as many commands have them: of the three operands that these read at most.
#[derive(Clone, Copy)]
struct Packed {
    count: NonZeroU32,
    write: u32,
    reads: [u32; 3],
}

impl Packed {
    /// `None` for more than four gigabytes, which no cache is for.
    fn new(rows: &Rows) -> Option<Self> {
        let mut reads = [0; 3];
        for (index, &row) in rows.reads.iter().enumerate().filter(|(_, row)| **row > 0) {
            *reads.get_mut(index)? = u32::try_from(row).ok()?;
        }
        let count = NonZeroU32::new(u32::try_from(rows.count).ok()?)?;
        Some(Self { count, write: u32::try_from(rows.write).ok()?, reads })
    }

    fn rows(self) -> Rows {
        let mut reads = [0; MAX_READS];
        for (to, row) in reads.iter_mut().zip(self.reads) {
            *to = row.into();
        }
        Rows { count: self.count.get().into(), reads, write: self.write.into() }
    }
}

/// A kernel that needs no scratch and may be cut in rows.
struct InRows<K> {
    rows: Option<Packed>,
    kernel: K,
}

/// The step of a kernel that is given how many of its rows it computes: `None` for all.
pub(super) fn in_rows<K>(rows: Option<Rows>, kernel: K) -> impl Step + 'static
where
    K: Fn(Option<usize>, [&[u8]; MAX_READS], &mut [u8], &Pool) -> Result<(), triune_kernels::Error>
        + Send
        + Sync
        + 'static,
{
    InRows { rows: rows.as_ref().and_then(Packed::new), kernel }
}

impl<K> fmt::Debug for InRows<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<K>())
    }
}

impl<K> Step for InRows<K>
where
    K: Fn(Option<usize>, [&[u8]; MAX_READS], &mut [u8], &Pool) -> Result<(), triune_kernels::Error>
        + Send
        + Sync,
{
    fn rows(&self) -> Option<Rows> {
        self.rows.map(Packed::rows)
    }

    fn run_rows(
        &self,
        count: usize,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        (self.kernel)(Some(count), reads, write, pool)
    }

    fn run(
        &self,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        (self.kernel)(None, reads, write, pool)
    }
}

/// A kernel, the bytes of scratch that it needs for so many threads, how it computes a convolution, if it does, and what it does with
/// its operands, its output, that scratch and the threads.
struct Whole<K, B, M, R> {
    kernel: K,
    bytes: B,
    method: M,
    run: R,
}

/// The step of such a kernel.
pub(super) fn with_scratch<K, B, R>(kernel: K, bytes: B, run: R) -> impl Step + 'static
where
    K: Send + Sync + 'static,
    B: Fn(&K, usize) -> usize + Send + Sync + 'static,
    R: Fn(&K, [&[u8]; MAX_READS], &mut [u8], &mut [u8], &Pool) -> Result<(), triune_kernels::Error>
        + Send
        + Sync
        + 'static,
{
    with_method(kernel, bytes, |_| None, run)
}

/// The same for a kernel that may be a convolution's.
pub(super) fn with_method<K, B, M, R>(kernel: K, bytes: B, method: M, run: R) -> impl Step + 'static
where
    K: Send + Sync + 'static,
    B: Fn(&K, usize) -> usize + Send + Sync + 'static,
    M: Fn(&K) -> Option<ConvMethod> + Send + Sync + 'static,
    R: Fn(&K, [&[u8]; MAX_READS], &mut [u8], &mut [u8], &Pool) -> Result<(), triune_kernels::Error>
        + Send
        + Sync
        + 'static,
{
    Whole { kernel, bytes, method, run }
}

/// The step of a kernel that needs no scratch.
pub(super) fn plain<K>(kernel: K) -> impl Step + 'static
where
    K: Fn([&[u8]; MAX_READS], &mut [u8], &Pool) -> Result<(), triune_kernels::Error> + Send + Sync + 'static,
{
    with_scratch(kernel, |_, _| 0, |kernel, reads, write, _, pool| kernel(reads, write, pool))
}

impl<K, B, M, R> fmt::Debug for Whole<K, B, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<R>())
    }
}

impl<K, B, M, R> Step for Whole<K, B, M, R>
where
    K: Send + Sync,
    B: Fn(&K, usize) -> usize + Send + Sync,
    M: Fn(&K) -> Option<ConvMethod> + Send + Sync,
    R: Fn(&K, [&[u8]; MAX_READS], &mut [u8], &mut [u8], &Pool) -> Result<(), triune_kernels::Error>
        + Send
        + Sync,
{
    fn scratch_bytes(&self, threads: usize) -> usize {
        (self.bytes)(&self.kernel, threads)
    }

    fn method(&self) -> Option<ConvMethod> {
        (self.method)(&self.kernel)
    }

    fn run(
        &self,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        let scratch = &mut scratch[..self.scratch_bytes(pool.threads())];
        (self.run)(&self.kernel, reads, write, scratch, pool)
    }
}

/// An operand that is read: a [`SegRange`] laid out flat, since one inside of a struct would leave its padding unused.
#[derive(Clone, Copy, Debug)]
struct Read {
    start: u64,
    len: u64,
    segment: u16,
    /// Whether it shares bytes with the output and is copied aside before the kernel runs: a slice that is read must
    /// not alias one that is written.
    staged: bool,
}

/// Operands that lie as kernels cannot take them: in blocks of channels, or with rows between each other.
#[derive(Debug)]
struct Apart {
    reads: [Option<Blocked>; MAX_READS],
    write: Option<Blocked>,
    spread: Option<CopyNd>,
}

/// A command that is ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    reads: [Option<Read>; MAX_READS],
    pub(super) write: SegRange,
    apart: Option<Box<Apart>>,
    kernel: Box<dyn Step>,
    pub(super) opcode: Opcode,
}

/// How what a kernel wrote gets to where the output lies.
enum After<'a> {
    Blocks(&'a Blocked),
    Spread(&'a CopyNd),
}

impl After<'_> {
    /// Bytes that the kernel writes.
    fn bytes(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.dense_len(),
            Self::Spread(copy) => copy.src_bytes(),
        }
    }
}

/// Why a step failed.
pub(super) enum RunError {
    Device(Error),
    Kernel(triune_kernels::Error),
}

/// Rounds up to the alignment that kernels are given.
pub(super) const fn padded(bytes: u64) -> usize {
    bytes.next_multiple_of(64) as usize
}

impl Read {
    const fn range(&self) -> SegRange {
        SegRange { segment: self.segment, start: self.start, len: self.len }
    }
}

impl Prepared {
    /// Bytes of memory that a command takes, its kernel's own apart.
    pub(super) const BYTES: usize = size_of::<Self>();

    /// A command over these operands, of which those that `staged` says are copied aside.
    pub(super) fn new(
        opcode: Opcode,
        operands: &Operands,
        staged: [bool; MAX_READS],
        kernel: Box<dyn Step>,
    ) -> Self {
        let Operands { reads, write } = operands;
        let apart = Apart {
            reads: reads.map(|read| read.and_then(|placed| placed.blocks().copied())),
            write: write.blocks().copied(),
            spread: write.spread().copied(),
        };
        let written = apart.write.is_some() || apart.spread.is_some();
        let any = written || apart.reads.iter().any(Option::is_some);
        let mut compact = [None; MAX_READS];
        for ((to, from), staged) in compact.iter_mut().zip(reads).zip(staged) {
            *to = from.map(|placed| {
                let SegRange { segment, start, len } = placed.range;
                Read { start, len, segment, staged }
            });
        }
        Self { reads: compact, write: write.range, apart: any.then(|| Box::new(apart)), kernel, opcode }
    }

    /// The rows that it can be cut in, if its operands lie as kernels take them.
    pub(super) fn rows(&self) -> Option<Rows> {
        if self.apart.is_some() { None } else { self.kernel.rows() }
    }

    /// The operands that it reads, and of each whether it is copied aside.
    pub(super) fn operands(&self) -> [Option<(SegRange, bool)>; MAX_READS] {
        self.reads.map(|read| read.map(|read| (read.range(), read.staged)))
    }

    /// Bytes of scratch that its rows need, on a boundary that kernels are given.
    pub(super) fn rows_scratch(&self) -> usize {
        padded(self.kernel.rows_scratch() as u64)
    }

    /// Computes some of its rows.
    pub(super) fn run_rows(
        &self,
        count: usize,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        self.kernel.run_rows(count, reads, write, scratch, pool)
    }

    /// The segments that it reads.
    pub(super) fn read_segments(&self) -> impl Iterator<Item = u16> {
        self.reads.iter().flatten().map(|read| read.segment)
    }

    /// Bytes of scratch that operands copied aside, gathered or to be scattered take.
    pub(super) fn staging_bytes(&self) -> usize {
        let read = |(index, read): (usize, &Option<Read>)| match (read, self.gathered(index)) {
            (Some(_), Some(blocks)) => padded(blocks.dense_len() as u64),
            (Some(read), None) if read.staged => padded(read.len),
            _ => 0,
        };
        let written = self.scattered().map_or(0, |after| padded(after.bytes() as u64));
        self.reads.iter().enumerate().map(read).sum::<usize>() + written
    }

    /// The blocks of an operand, if kernels cannot read them.
    fn gathered(&self, index: usize) -> Option<&Blocked> {
        self.apart.as_ref()?.reads[index].as_ref().filter(|blocks| blocks.blocks() > 1)
    }

    /// What follows the kernel, if it cannot write the output where it lies.
    fn scattered(&self) -> Option<After<'_>> {
        let apart = self.apart.as_ref()?;
        let blocks = apart.write.as_ref().filter(|blocks| blocks.blocks() > 1).map(After::Blocks);
        blocks.or_else(|| apart.spread.as_ref().map(After::Spread))
    }

    pub(super) fn scratch_bytes(&self, threads: usize) -> usize {
        self.kernel.scratch_bytes(threads)
    }

    pub(super) fn method(&self) -> Option<ConvMethod> {
        self.kernel.method()
    }

    /// Runs the kernel, on inputs and into outputs where `border` has them.
    pub(super) fn run(
        &self,
        lease: &mut Lease<'_>,
        segments: &SegmentTable,
        border: Option<(Sources<'_>, &mut Targets<'_>)>,
        staging: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), RunError> {
        let (sources, target) = match border {
            Some((sources, targets)) => (Some(sources), targets.bytes(self.write)),
            None => (None, None),
        };
        let write = self.write.resolve(segments).map_err(RunError::Device)?;
        // An operand that does not exist, lies outside, or was copied aside, is an empty range where the output starts.
        let mut ranges = [RangeAccess::shared(write.region, write.start, 0); MAX_READS];
        let mut copies: [Option<&[u8]>; MAX_READS] = [None; MAX_READS];
        let mut free = staging;
        for (index, ((read, range), copy)) in self.reads.iter().zip(&mut ranges).zip(&mut copies).enumerate()
        {
            let Some(read) = read else { continue };
            let gathered = self.gathered(index);
            let given = sources.and_then(|sources| sources.bytes(read.range()));
            if given.is_some() && gathered.is_none() {
                *copy = given;
                continue;
            }
            let resolved = read.range().resolve(segments).map_err(RunError::Device)?;
            if let Some(blocks) = gathered {
                let (own, rest) = free.split_at_mut(padded(blocks.dense_len() as u64));
                let own = &mut own[..blocks.dense_len()];
                let bytes = match given {
                    Some(bytes) => bytes,
                    None => lease.read(resolved).map_err(RunError::Device)?,
                };
                blocks.gather(bytes, own, pool).map_err(RunError::Kernel)?;
                *copy = Some(own);
                free = rest;
            } else if read.staged {
                let (own, rest) = free.split_at_mut(padded(resolved.len));
                let own = &mut own[..resolved.len as usize];
                cancel::copy(lease.read(resolved).map_err(RunError::Device)?, own);
                *copy = Some(own);
                free = rest;
            } else {
                *range = resolved;
            }
        }
        let (mut reads, output) = match target {
            Some(output) => {
                let mut reads = [memory::nothing(); MAX_READS];
                for (read, range) in reads.iter_mut().zip(ranges).filter(|(_, range)| range.len > 0) {
                    *read = lease.read(range).map_err(RunError::Device)?;
                }
                (reads, output)
            }
            None => lease.split(ranges, write).map_err(RunError::Device)?,
        };
        for (read, copy) in reads.iter_mut().zip(copies) {
            if let Some(copy) = copy {
                *read = copy;
            }
        }
        self.compute(reads, output, free, scratch, pool).map_err(RunError::Kernel)
    }

    /// Runs the kernel; behind it, what it wrote is put in blocks or between other rows.
    fn compute(
        &self,
        reads: [&[u8]; MAX_READS],
        output: &mut [u8],
        staging: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        if let Some(after) = self.scattered() {
            let own = &mut staging[..after.bytes()];
            self.kernel.run(reads, own, scratch, pool)?;
            return match after {
                After::Blocks(blocks) => blocks.scatter(own, output, pool),
                After::Spread(copy) => copy.run(own, output, pool),
            };
        }
        self.kernel.run(reads, output, scratch, pool)?;
        match self.apart.as_ref().and_then(|blocks| blocks.write.as_ref()) {
            Some(blocks) if blocks.channels < blocks.block => blocks.pad(output),
            _ => Ok(()),
        }
    }
}
