//! Commands that run strip by strip: what one writes is read by the next while it is still in the cache.
//!
//! Composite operators become chains of commands that each go over whole tensors, which takes as long as the memory does. Where each
//! row of what they write is computed from the same row of what they read, all of them are run on some rows before the next rows' turn.
//! Nothing is computed in another way, so the bits are those of one command after the other. Whoever watches single commands (an
//! observer, the sanitizer) sees them run one after the other.

use std::{ops::Range, sync::OnceLock};

use triune_kernels::Pool;

use super::{
    SegmentKind, SegmentTable,
    border::{Sources, Targets},
    operands::{MAX_READS, Prepared, Rows, RunError, SegRange, padded},
};
use crate::{
    Lease, RegionId,
    memory::{Cut, Own, RangeAccess, Strip, Strips},
};

/// Commands of a chain at most.
const MOST: usize = 16;

/// Bytes that the rows of a strip have in all operands together, about: what a second-level cache has room for, since calls of a
/// kernel take as long as some thousand elements.
const STRIP: u64 = 256 << 10;

/// Bytes of a single row at most.
const ROW: u64 = 384 << 10;

/// The same where rows are whole matrices: what is computed of their elements takes longer than reading them.
const MATRIX: u64 = 4 << 20;

/// No bytes, wherever they are.
const NOTHING: RangeAccess = RangeAccess::shared(RegionId(0), 0, 0);

/// Commands, one behind the other, that can be cut in the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The first command's index.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Rows of the whole; each command has a multiple of it.
    rows: u64,
    /// Rows of a strip.
    each: u64,
    /// Bytes that copies of operands of a strip take, on a boundary that kernels are given.
    copies: usize,
    /// Bytes of scratch that a strip of one of the commands takes at most. Those that take some are products, whose rows are whole
    /// matrices.
    scratch: usize,
    /// Whether what lies at overlapping places of the plan is not stored: others than borders' runs have it stored.
    overlaid: bool,
    /// Of each command, which of the values that nobody else reads it writes, and which its operands are; [`STORED`] for others.
    writes: [u8; MOST],
    reads: [[u8; MAX_READS]; MOST],
    /// Those values, and bytes of a strip of one at most.
    values: usize,
    value: usize,
}

/// How commands run strip by strip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripForm {
    /// The commands, by their index.
    pub commands: Range<usize>,
    /// Rows that all of them are cut in.
    pub rows: u64,
    /// Rows of a strip, the last one may have less.
    pub each: u64,
    /// Of each command, whether what it writes lies in the thread's scratch for as long as a strip takes, and nowhere else, as long as a
    /// run's inputs and outputs are the caller's.
    pub passing: Vec<bool>,
}

/// What lies where the plan has it.
const STORED: u8 = u8::MAX;

/// Commands behind a chain that are looked at for who reads its values, so that a program is read in time.
const AHEAD: usize = 4096;

/// Whether nobody behind the chain reads what was left in a range, before its `later` commands wrote.
fn is_forgotten(range: &SegRange, segments: &SegmentTable, later: &[Prepared], behind: &[Prepared]) -> bool {
    if !segments.get(range.segment).is_some_and(|segment| segment.kind.transient()) {
        return false;
    }
    for (index, step) in behind.iter().enumerate() {
        let is_read = |read: &SegRange| {
            // Of both, the bytes that nobody wrote meanwhile.
            let (start, end) = (read.start.max(range.start), read.end().min(range.end()));
            let both = SegRange { start, len: end.saturating_sub(start), ..*range };
            read.overlaps(range) && !later.iter().any(|step| step.write.covers(&both))
        };
        if index == AHEAD || step.operands().iter().flatten().any(|(read, _)| is_read(read)) {
            return false;
        }
        if step.rows().is_some_and(|rows| rows.write * rows.count == step.write.len) && step.write == *range {
            return true;
        }
    }
    true
}

/// An operand and how it is cut: all of its range's bytes, where one row follows the other without gaps.
#[derive(Clone, Copy)]
struct Side {
    range: SegRange,
    row: u64,
    dense: bool,
    written: bool,
}

/// A command's operands.
fn sides(step: &Prepared, rows: Rows) -> impl Iterator<Item = Side> + Clone {
    let side = move |range: SegRange, row: u64, written| Side {
        range,
        row,
        dense: row.checked_mul(rows.count) == Some(range.len),
        written,
    };
    let write = side(step.write, rows.write, true);
    let reads = step.operands().into_iter().zip(rows.reads);
    let reads = reads.filter_map(move |(read, row)| read.map(|(range, _)| side(range, row, false)));
    std::iter::once(write).chain(reads)
}

/// Whether the rows of either can be computed without the other's: what one writes, the other has in the same rows or not at all.
fn agree(a: &Side, b: &Side) -> bool {
    !(a.written || b.written) || !a.range.overlaps(&b.range) || a.range == b.range && a.dense && b.dense
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The chain that is being made.
#[derive(Default)]
struct Draft {
    first: usize,
    count: usize,
    rows: u64,
    sides: Vec<Side>,
    /// Whether a command reads what another one wrote.
    linked: bool,
    /// Whether one of them multiplies matrices.
    matrices: bool,
    /// Whether places of the plan are taken again while others would still be at work on what was there.
    overlaid: bool,
    outputs: usize,
}

impl Draft {
    /// None yet, from `first` on.
    fn begin(&mut self, first: usize) {
        // The room for operands stays: there is a draft for every command that begins none.
        self.sides.clear();
        (self.first, self.count, self.rows, self.outputs) = (first, 0, 0, 0);
        (self.linked, self.matrices, self.overlaid) = (false, false, false);
    }

    /// Whether a command reads what was written last where it reads, all of it, or what no command of the chain wrote.
    fn is_last(&self, read: &Side) -> bool {
        let mut written = self.sides.iter().rev().filter(|side| side.written);
        let last = written.find(|side| side.range.overlaps(&read.range));
        last.is_none_or(|last| agree(last, read))
    }

    /// Takes in the next command, if it can be cut as those before. With `overlays`, its place may be one that others had before:
    /// whether that is one in memory shows in the end.
    fn take(&mut self, step: &Prepared, segments: &SegmentTable, overlays: bool) -> bool {
        let Some(rows) = step.rows() else { return false };
        let own = sides(step, rows);
        let common = gcd(rows.count, self.rows);
        let output = segments.get(step.write.segment).is_some_and(|to| to.kind == SegmentKind::Output);
        let outputs = self.outputs + usize::from(output);
        let all = || self.sides.iter().copied().chain(own.clone());
        // A row of the output begins where the one before ends; an output without rows would be written by all strips.
        let fits = self.count < MOST
            && outputs <= 1
            && common > 1
            && own.clone().all(|side| !side.written || side.dense);
        let apart = own.clone().all(|side| all().all(|other| agree(&side, &other)));
        let overlaid = overlays
            && own.clone().all(|side| own.clone().all(|other| agree(&side, &other)))
            && own.clone().all(|side| side.written || self.is_last(&side));
        let fits = fits && (apart || overlaid);
        let matrices = self.matrices || step.rows_scratch() > 0;
        if !fits || row_bytes(all(), common) > if matrices { MATRIX } else { ROW } {
            return false;
        }
        self.matrices = matrices;
        self.overlaid |= !apart;
        self.linked |= own
            .clone()
            .filter(|side| !side.written)
            .any(|side| self.sides.iter().any(|other| other.written && other.range.overlaps(&side.range)));
        (self.rows, self.outputs) = (common, outputs);
        self.sides.extend(own);
        self.count += 1;
        true
    }

    /// Whether nothing is written where other strips still read or write: of two operands that overlap, one is not stored.
    fn is_sound(own: &[Prepared], writes: &[u8; MOST], reads: &[[u8; MAX_READS]; MOST]) -> bool {
        let mut all: Vec<Side> = Vec::new();
        for ((step, &write), reads) in own.iter().zip(writes).zip(reads) {
            let rows = step.rows().expect("a chain is made of commands with rows");
            let read =
                step.operands().into_iter().zip(reads).filter_map(|(read, &place)| read.map(|_| place));
            let places = std::iter::once(write).chain(read);
            all.extend(
                sides(step, rows).zip(places).filter(|(_, place)| *place == STORED).map(|(side, _)| side),
            );
        }
        all.iter().enumerate().all(|(index, side)| all[..index].iter().all(|other| agree(side, other)))
    }

    /// The chain, if its commands have more than one strip and something to give each other.
    fn finish(&self, steps: &[Prepared], segments: &SegmentTable) -> Option<Chain> {
        let bytes = row_bytes(self.sides.iter().copied(), self.rows);
        let mut each = (STRIP / bytes.max(1)).max(1);
        if each > 64 {
            // So that strips of a dense operand begin on the boundaries of vectors.
            each -= each % 64;
        }
        if !self.linked || self.rows <= each {
            return None;
        }
        let (own, behind) = steps[self.first..].split_at(self.count);
        let bytes = |range: &SegRange| padded(range.len / self.rows * each);
        let copies = |step: &Prepared| {
            let reads = step.operands().into_iter().flatten();
            reads.filter(|read| read.1).map(|(range, _)| bytes(&range)).sum::<usize>()
        };
        let copies = own.iter().map(copies).max().unwrap_or(0);
        let (mut writes, mut reads) = ([STORED; MOST], [[STORED; MAX_READS]; MOST]);
        let mut values: Vec<SegRange> = Vec::new();
        for (index, step) in own.iter().enumerate() {
            let place = |range: &SegRange, values: &[SegRange]| {
                values.iter().position(|value| value == range).map_or(STORED, |place| place as u8)
            };
            for (to, read) in reads[index].iter_mut().zip(step.operands()) {
                // What was there before the chain is where the plan has it.
                *to = read.map_or(STORED, |(range, _)| place(&range, &values));
            }
            let last = own.iter().rposition(|other| other.write == step.write).unwrap_or(index);
            let later = &own[last + 1..];
            if !values.contains(&step.write) && is_forgotten(&step.write, segments, later, behind) {
                values.push(step.write);
            }
            writes[index] = place(&step.write, &values);
        }
        if self.overlaid && !Self::is_sound(own, &writes, &reads) {
            return None;
        }
        let value = values.iter().map(bytes).max().unwrap_or(0);
        let scratch = own.iter().map(Prepared::rows_scratch).max().unwrap_or(0);
        let (first, count, rows) = (self.first, self.count, self.rows);
        let (overlaid, values) = (self.overlaid, values.len());
        Some(Chain { first, count, rows, each, copies, scratch, overlaid, writes, reads, values, value })
    }
}

/// Bytes of a row of all operands, each counted once.
fn row_bytes(sides: impl Iterator<Item = Side> + Clone, rows: u64) -> u64 {
    let cut = sides.filter(|side| side.row > 0);
    let first = cut.clone().enumerate().filter(|(index, side)| {
        // Few enough that looking back costs less than keeping what was seen.
        cut.clone().take(*index).all(|other| other.range != side.range)
    });
    first.fold(0_u64, |sum, (_, side)| sum.saturating_add(side.range.len / rows.max(1)))
}

/// The chains of a program's commands, in their order.
pub(super) fn chains(steps: &[Prepared], segments: &SegmentTable) -> Vec<Chain> {
    let mut found = Vec::new();
    find(steps, segments, 0..steps.len(), true, &mut found);
    found
}

/// Those of some commands.
fn find(
    steps: &[Prepared],
    segments: &SegmentTable,
    among: Range<usize>,
    overlays: bool,
    found: &mut Vec<Chain>,
) {
    let mut draft = Draft::default();
    draft.begin(among.start);
    let finish = |draft: &Draft, found: &mut Vec<Chain>| match draft.finish(steps, segments) {
        Some(chain) => found.push(chain),
        // Shorter ones, perhaps.
        None if draft.overlaid => find(steps, segments, draft.first..draft.first + draft.count, false, found),
        None => {}
    };
    for index in among {
        if draft.take(&steps[index], segments, overlays) {
            continue;
        }
        finish(&draft, found);
        draft.begin(index);
        if !draft.take(&steps[index], segments, overlays) {
            draft.begin(index + 1);
        }
    }
    finish(&draft, found);
}

/// Where an operand of the chain lies.
#[derive(Clone, Copy)]
enum Source<'a> {
    Nowhere,
    /// Outside of the lease.
    Given(&'a [u8]),
    /// In the lease, to be copied aside or not.
    At(RangeAccess, bool),
    /// A value that is not stored, with the bytes of all of it.
    Value(usize, u64),
}

/// Where a command of the chain writes.
#[derive(Clone, Copy)]
enum Sink {
    Outside,
    At(RangeAccess),
    Value(usize, u64),
}

/// A command of the chain, resolved for one run.
#[derive(Clone, Copy)]
struct Link<'a> {
    step: &'a Prepared,
    rows: Rows,
    sources: [Source<'a>; MAX_READS],
    write: Sink,
}

impl Chain {
    /// What of it is for others to know.
    pub(super) fn strips(&self) -> StripForm {
        StripForm {
            commands: self.first..self.first + self.count,
            rows: self.rows,
            each: self.each,
            passing: self.writes[..self.count].iter().map(|&place| place != STORED).collect(),
        }
    }

    /// Bytes of staging that a run on so many threads needs.
    pub(super) fn staging_bytes(&self, threads: usize) -> usize {
        self.room().saturating_mul(threads)
    }

    /// Bytes of a thread's own.
    const fn room(&self) -> usize {
        self.copies + self.scratch + self.values * self.value
    }

    /// Whether so many threads have work, and what is to be stored has a place of its own: products have threads for the rows of a
    /// matrix, too, where there are few matrices.
    pub(super) fn suits(&self, threads: usize, stores: bool) -> bool {
        let few = self.scratch > 0 && self.rows.div_ceil(self.each) < threads as u64;
        !(few || stores && self.overlaid)
    }

    /// Runs the commands of the chain, out of `steps`, those of the whole program. `staging` holds [`Self::staging_bytes`] at least.
    /// With `stores`, values that no command reads later come to lie where the plan has them, too.
    pub(super) fn run(
        &self,
        steps: &[Prepared],
        lease: &mut Lease<'_>,
        segments: &SegmentTable,
        border: Option<(Sources<'_>, &mut Targets<'_>)>,
        staging: &mut [u8],
        pool: &Pool,
        stores: bool,
    ) -> Result<(), (usize, RunError)> {
        let (sources, mut targets) = border.unzip();
        let mut links: [Option<Link<'_>>; MOST] = [None; MOST];
        let mut cuts = [Cut { range: NOTHING, row: 0 }; MOST];
        let mut cut = 0;
        let mut outside: Option<SegRange> = None;
        for (index, (step, link)) in
            steps[self.first..self.first + self.count].iter().zip(&mut links).enumerate()
        {
            let fail = |error| (self.first + index, RunError::Device(error));
            let rows = step.rows().expect("a chain is made of commands with rows");
            let mut own = [Source::Nowhere; MAX_READS];
            for ((own, read), &value) in own.iter_mut().zip(step.operands()).zip(&self.reads[index]) {
                let Some((range, staged)) = read else { continue };
                if !stores && value != STORED {
                    *own = Source::Value(value.into(), range.len);
                    continue;
                }
                *own = match sources.and_then(|sources| sources.bytes(range)) {
                    Some(given) => Source::Given(given),
                    None => Source::At(range.resolve(segments).map_err(fail)?, staged),
                };
            }
            let is_outside = targets.as_mut().is_some_and(|targets| targets.bytes(step.write).is_some());
            let write = if is_outside {
                outside = Some(step.write);
                Sink::Outside
            } else if !stores && self.writes[index] != STORED {
                Sink::Value(self.writes[index].into(), step.write.len)
            } else {
                let write = step.write.resolve(segments).map_err(fail)?;
                cuts[cut] = Cut { range: write, row: write.len / self.rows };
                cut += 1;
                Sink::At(write)
            };
            *link = Some(Link { step, rows, sources: own, write });
        }
        let outside = match (outside, targets) {
            (Some(range), Some(targets)) => targets.bytes(range).unwrap_or_default(),
            _ => Default::default(),
        };
        let staging = &mut staging[..self.staging_bytes(pool.threads())];
        let strips = Strips::new(lease, &cuts[..cut], self.rows, outside, staging)
            .map_err(|error| (self.first, RunError::Device(error)))?;
        let failed = OnceLock::new();
        strips.run(self.each, pool, &|strip| {
            let Strip { own, outside, room } = strip;
            let (kept, room) = room.split_at_mut(self.values * self.value);
            let (scratch, room) = room.split_at_mut(self.scratch);
            let mut values: [&mut [u8]; MOST] = Default::default();
            for (to, value) in values.iter_mut().zip(kept.chunks_exact_mut(self.value.max(1))) {
                *to = value;
            }
            let mut task = Task { own, outside, room, scratch, values };
            for (index, link) in links.iter().flatten().enumerate() {
                if failed.get().is_some() {
                    return;
                }
                if let Err(error) = self.run_link(link, &mut task, pool) {
                    // Of several threads' errors one is told.
                    _ = failed.set((self.first + index, error));
                    return;
                }
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Runs a command on the rows of a strip.
    fn run_link(&self, link: &Link<'_>, task: &mut Task<'_>, pool: &Pool) -> Result<(), RunError> {
        let Link { step, rows, sources, write } = link;
        let Task { own, outside, room, scratch, values } = task;
        let finer = rows.count / self.rows;
        let (first, count) = (own.rows.start * finer, (own.rows.end - own.rows.start) * finer);
        // From the first of these rows' first byte to the last one's last.
        let span = |len: u64, row: u64| {
            if row == 0 { 0..len } else { first * row..len - (rows.count - first - count) * row }
        };
        // What is written is nobody else's meanwhile.
        let (taken, made) = match *write {
            Sink::Value(place, _) => (Some(place), std::mem::take(&mut values[place])),
            _ => (None, Default::default()),
        };
        let result = (|| {
            let mut ranges = [NOTHING; MAX_READS];
            let mut given: [Option<&[u8]>; MAX_READS] = [None; MAX_READS];
            let mut free = &mut **room;
            let mut aside = |bytes: &[u8]| {
                let (copy, rest) = std::mem::take(&mut free).split_at_mut(padded(bytes.len() as u64));
                free = rest;
                let copy = &mut copy[..bytes.len()];
                copy.copy_from_slice(bytes);
                &*copy
            };
            for (index, (source, &row)) in sources.iter().zip(&rows.reads).enumerate() {
                match *source {
                    Source::Nowhere => given[index] = Some(&[]),
                    Source::Given(bytes) => {
                        let span = span(bytes.len() as u64, row);
                        given[index] = Some(&bytes[span.start as usize..span.end as usize]);
                    }
                    Source::Value(place, len) => {
                        let span = span(len, row);
                        let len = (span.end - span.start) as usize;
                        let is_own = taken == Some(place);
                        given[index] = Some(if is_own { aside(&made[..len]) } else { &values[place][..len] });
                    }
                    Source::At(at, staged) => {
                        let span = span(at.len, row);
                        let at = RangeAccess::shared(at.region, at.start + span.start, span.end - span.start);
                        // Where the output is a value that is not stored, nothing is written to its place.
                        if staged && taken.is_none() {
                            given[index] = Some(aside(own.read(at).map_err(RunError::Device)?));
                        } else {
                            ranges[index] = at;
                        }
                    }
                }
            }
            let (mut reads, output) = if let Sink::At(write) = write {
                let span = span(write.len, rows.write);
                let write =
                    RangeAccess::shared(write.region, write.start + span.start, span.end - span.start);
                for (range, given) in ranges.iter_mut().zip(&given) {
                    if given.is_some() {
                        *range = RangeAccess { len: 0, ..write };
                    }
                }
                own.split(ranges, write).map_err(RunError::Device)?
            } else {
                let mut reads: [&[u8]; MAX_READS] = [&[]; MAX_READS];
                for ((read, range), given) in reads.iter_mut().zip(ranges).zip(&given) {
                    if given.is_none() {
                        *read = own.read(range).map_err(RunError::Device)?;
                    }
                }
                let output = match *write {
                    Sink::Value(_, len) => {
                        let span = span(len, rows.write);
                        &mut made[..(span.end - span.start) as usize]
                    }
                    _ => &mut **outside,
                };
                (reads, output)
            };
            for (read, given) in reads.iter_mut().zip(given) {
                if let Some(given) = given {
                    *read = given;
                }
            }
            step.run_rows(count as usize, reads, output, scratch, pool).map_err(RunError::Kernel)
        })();
        if let Some(place) = taken {
            values[place] = made;
        }
        result
    }
}

/// What the commands of a strip work on.
struct Task<'a> {
    own: Own<'a>,
    outside: &'a mut [u8],
    room: &'a mut [u8],
    scratch: &'a mut [u8],
    /// Values that are not stored; that which is being written is taken out.
    values: [&'a mut [u8]; MOST],
}
