//! The part of a board that runs jobs: decodes streams from device memory, keeps what it decoded, runs and times them.

use triune_kernels::{Isa, Pool};

use super::{Job, Settings, records::Cost};
use crate::{
    Addr, Decoded, DeviceSpec, Error, Memory, RegionId, Segment, SegmentKind, SegmentTable, Stream,
    TimingOptions,
    command::CommandReader,
    exec::{Budget, Scratch, Words},
    memory::RangeAccess,
    spec::TimingModel,
    timeline,
    work::{self, Tally},
};

/// Most streams that are kept decoded; the jobs that were run longest ago go first.
const KEPT_STREAMS: usize = 4096;
/// Most bytes that they take, unless a single job takes more.
const KEPT_BYTES: u64 = Budget::COMMANDS;
/// Most tables that are remembered for jobs that bring none.
const KEPT_TABLES: usize = 64;
/// Streams start at multiples of so many bytes.
const STREAM_ALIGNMENT: usize = 8;

/// A job's streams, decoded.
#[derive(Debug)]
struct Decodes {
    start: u64,
    bytes: u64,
    table: SegmentTable,
    streams: Vec<Decoded>,
    cost: Option<(Settings, Cost)>,
}

/// What runs jobs, one at a time.
#[derive(Debug, Default)]
pub(super) struct Core {
    /// The job that was prepared last comes last.
    decoded: Vec<Decodes>,
    scratch: Scratch,
}

/// Where the commands of earlier jobs have their segments.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The one that was used last comes last.
    tables: Vec<SegmentTable>,
}

impl Tables {
    /// The table that a job brings, or the one that its commands had last.
    pub(super) fn of(&self, job: &Job, instructions: RegionId) -> Result<SegmentTable, Error> {
        if let Some(table) = &job.segments {
            return Ok(table.clone());
        }
        let holds = |table: &&SegmentTable| holding(table, instructions, job.start, job.bytes).is_some();
        self.tables.iter().rev().find(holds).cloned().ok_or_else(|| {
            Error::Board(format!(
                "nothing says where the segments lie that the commands at {:#x} name: no table came with them, nor with an \
                 earlier run of them",
                job.start
            ))
        })
    }

    /// Remembers a table.
    pub(super) fn remember(&mut self, table: &SegmentTable) {
        self.tables.retain(|kept| kept != table);
        if self.tables.len() == KEPT_TABLES {
            self.tables.remove(0);
        }
        self.tables.push(table.clone());
    }

    /// Forgets the tables of commands in a range.
    pub(super) fn forget(&mut self, freed: &RangeAccess) {
        let lies_there = |segment: &Segment| {
            segment.kind == SegmentKind::Instructions
                && RangeAccess::shared(segment.region, segment.base, segment.len).overlaps(freed)
        };
        self.tables.retain(|table| !table.segments().iter().any(lies_there));
    }

    /// Forgets all tables.
    pub(super) fn clear(&mut self) {
        self.tables.clear();
    }
}

/// Tells what a core is part of.
pub(super) struct Surroundings<'a> {
    pub(super) memory: &'a Memory,
    pub(super) pool: &'a Pool,
    /// The region for instructions.
    pub(super) instructions: RegionId,
    /// Names of the device's memories by region; `None` for those that its core does not reach.
    pub(super) memories: &'a [Option<String>],
}

impl Core {
    /// Drops what was decoded from memory that has been freed.
    pub(super) fn forget(&mut self, freed: &[RangeAccess]) {
        let lies_there = |range: &RangeAccess| freed.iter().any(|freed| freed.overlaps(range));
        self.decoded.retain(|job| !prepared(&job.table).iter().any(lies_there));
    }

    /// Jobs that are kept decoded.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.decoded.len()
    }

    /// Runs the job that was prepared last.
    pub(super) fn run(&mut self, at: &Surroundings<'_>) -> Result<(), Error> {
        let Self { decoded, scratch } = self;
        let Some(job) = decoded.last() else { return Ok(()) };
        let need =
            job.streams.iter().map(|stream| stream.scratch_bytes(at.pool.threads())).max().unwrap_or(0);
        scratch.reserve(need)?;
        for (layer, stream) in job.streams.iter().enumerate() {
            let run = || stream.run(at.memory, scratch.bytes(), at.pool, None);
            waiting(at.memory, stream.access(), run).map_err(|error| error.of_layer(layer))?;
        }
        Ok(())
    }

    /// What the job that was prepared last costs on the device that `spec` describes, which is asked once per settings.
    pub(super) fn cost(
        &mut self,
        at: &Surroundings<'_>,
        spec: impl FnOnce() -> Result<DeviceSpec, Error>,
        settings: &Settings,
        far: usize,
    ) -> Result<Cost, Error> {
        let Some(job) = self.decoded.last_mut() else { return Ok(Cost::default()) };
        // Where records go costs nothing.
        let key = Settings { timer: None, profiler: None, ..*settings };
        if let Some((own, cost)) = &job.cost
            && *own == key
        {
            return Ok(cost.clone());
        }
        let commands = job.streams.iter().flat_map(Decoded::commands);
        let placement = placement(at, &job.table)?;
        let spec = spec()?;
        let clock_mhz =
            (spec.timing == TimingModel::Modelled).then_some((settings.core_hz / 1_000_000) as u32);
        let near = spec.placement.resident.as_deref();
        let mut resident_bytes: u64 = 0;
        for (segment, memory) in job.table.segments().iter().zip(&placement) {
            if Some(*memory) == near {
                resident_bytes = resident_bytes.saturating_add(segment.len);
            }
        }
        let precision = settings.precision;
        let options = TimingOptions { clock_mhz, precision, resident_bytes, ..TimingOptions::default() };
        let timeline = timeline(&spec, commands, &placement, &options)?;
        let cost = Cost::new(&timeline, job.streams.iter().map(|stream| stream.commands().len()), far);
        job.cost = Some((key, cost.clone()));
        Ok(cost)
    }

    /// Decodes the streams in `start..start + bytes` of physical addresses, unless they are.
    pub(super) fn prepare(
        &mut self,
        at: &Surroundings<'_>,
        start: u64,
        bytes: u64,
        table: &SegmentTable,
    ) -> Result<(), Error> {
        let same = |job: &Decodes| job.start == start && job.bytes == bytes && alike(&job.table, table);
        if let Some(index) = self.decoded.iter().position(same) {
            let mut job = self.decoded.remove(index);
            // What holds no command is not watched.
            if !job.streams.is_empty() && !job.streams.iter().any(Decoded::is_stale) {
                job.bind(at, table)?;
                self.decoded.push(job);
                return Ok(());
            }
        }
        let streams = decode(at, start, bytes, table)?;
        let mut tally = Tally::default();
        for stream in &streams {
            tally.merge(stream.tally());
        }
        tally.check(work::limit()?)?;
        let bytes_of = |streams: &[Decoded]| streams.iter().map(Decoded::bytes).sum::<u64>();
        let mut kept: usize = self.decoded.iter().map(|job| job.streams.len().max(1)).sum();
        let mut bytes_kept: u64 = self.decoded.iter().map(|job| bytes_of(&job.streams)).sum();
        let bytes_new = bytes_of(&streams);
        while !self.decoded.is_empty()
            && (kept + streams.len() > KEPT_STREAMS || bytes_kept + bytes_new > KEPT_BYTES)
        {
            let oldest = self.decoded.remove(0);
            kept -= oldest.streams.len().max(1);
            bytes_kept -= bytes_of(&oldest.streams);
        }
        self.decoded.push(Decodes { start, bytes, table: table.clone(), streams, cost: None });
        Ok(())
    }
}

impl Decodes {
    /// Moves the job's feature maps to where `table`, which is alike, has them.
    fn bind(&mut self, at: &Surroundings<'_>, table: &SegmentTable) -> Result<(), Error> {
        if self.table == *table {
            return Ok(());
        }
        placement(at, table)?;
        for stream in &mut self.streams {
            stream.rebind(at.memory, table)?;
        }
        let moved = |(old, new): (&Segment, &Segment)| old.region != new.region;
        if self.table.segments().iter().zip(table.segments()).any(moved) {
            self.cost = None;
        }
        self.table = table.clone();
        Ok(())
    }
}

/// Whether what is decoded for one table can be moved to the other.
fn alike(old: &SegmentTable, new: &SegmentTable) -> bool {
    let same = |(old, new): (&Segment, &Segment)| {
        old.kind == new.kind && old.len == new.len && (!old.kind.prepared() || old == new)
    };
    old.segments().len() == new.segments().len() && old.segments().iter().zip(new.segments()).all(same)
}

/// The instruction segment that holds some bytes, and where they begin in it.
fn holding(table: &SegmentTable, region: RegionId, start: u64, bytes: u64) -> Option<(u16, u64)> {
    let end = start.checked_add(bytes)?;
    let holds = |segment: &Segment| {
        segment.kind == SegmentKind::Instructions
            && segment.region == region
            && segment.base <= start
            && end <= segment.base.saturating_add(segment.len)
    };
    let index = table.segments().iter().position(holds)?;
    Some((u16::try_from(index).ok()?, start - table.segments()[index].base))
}

/// The memory that each segment lies in.
fn placement<'a>(at: &Surroundings<'a>, table: &SegmentTable) -> Result<Vec<&'a str>, Error> {
    let name = |(index, segment): (usize, &Segment)| {
        let name = at.memories.get(segment.region.0).and_then(Option::as_deref);
        name.ok_or_else(|| Error::Segment {
            segment: index,
            problem: format!("lies in region {}, which the core does not reach", segment.region.0),
        })
    };
    table.segments().iter().enumerate().map(name).collect()
}

/// The streams in a range, in order.
fn decode(
    at: &Surroundings<'_>,
    start: u64,
    bytes: u64,
    table: &SegmentTable,
) -> Result<Vec<Decoded>, Error> {
    placement(at, table)?;
    let Some((segment, offset)) = holding(table, at.instructions, start, bytes) else {
        return Err(Error::Board(format!(
            "no instruction segment of the table holds the {bytes} bytes of commands at {start:#x}"
        )));
    };
    let spans = spans(at.memory, RangeAccess::shared(at.instructions, start, bytes))?;
    // One for the whole job: a stream of its own is no way to more memory.
    let budget = Budget::new(table);
    let decoded = |(layer, &[first, len]): (usize, &[u64; 2])| {
        let stream = Stream { addr: Addr::new(segment, offset + first), len };
        let decode = || Decoded::within(at.memory, table, Words::At(stream), Isa::best(), None, &budget);
        let done = waiting(at.memory, &prepared(table), decode);
        Ok(done.map_err(|error| error.of_layer(layer))?.into_part())
    };
    spans.iter().enumerate().map(decoded).collect()
}

/// First byte and length of each stream in a range.
fn spans(memory: &Memory, range: RangeAccess) -> Result<Vec<[u64; 2]>, Error> {
    let ranges = [range];
    let lease = memory.lease_wait(&ranges)?;
    let bytes = lease.read(range)?;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let padding = rest.len().min(STREAM_ALIGNMENT);
        if rest[..padding].iter().all(|&byte| byte == 0) {
            at += padding;
            continue;
        }
        let mut reader = CommandReader::new(rest);
        while reader.next().map_err(|error| error.of_layer(found.len()))?.is_some() {}
        if !reader.ended() {
            return Err(Error::Board(format!(
                "the stream of commands at {:#x} has no end command",
                range.start + at as u64
            )));
        }
        found.push([at as u64, reader.position() as u64]);
        at += reader.position().next_multiple_of(STREAM_ALIGNMENT);
    }
    Ok(found)
}

/// What decoding leases.
fn prepared(table: &SegmentTable) -> Vec<RangeAccess> {
    let segments = table.segments().iter().filter(|segment| segment.kind.prepared() && segment.len > 0);
    segments.map(|segment| RangeAccess::shared(segment.region, segment.base, segment.len)).collect()
}

/// Does what takes a lease on `ranges` as soon as it can have one: others hold theirs for a copy only.
fn waiting<T>(
    memory: &Memory,
    ranges: &[RangeAccess],
    mut work: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match work() {
            Err(Error::Busy { .. }) => drop(memory.lease_wait(ranges)?),
            done => return done,
        }
    }
}
