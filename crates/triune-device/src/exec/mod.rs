//! What commands compute: decoded from device memory once, then run on the bytes where they lie.
//!
//! Decoding checks every operand against its segment and prepacks weights; a run only resolves addresses, takes one
//! lease and calls kernels, without allocating. Nothing here reads a clock or knows what a command costs.

mod border;
mod budget;
mod chain;
mod check;
mod executor;
mod guard;
mod library;
mod operands;
mod scratch;
mod segments;
mod steps;

use std::{cell::RefCell, ops::Range, sync::Arc};

use bytes::Bytes;
use triune_kernels::{ConvMethod, Isa, Pool, cancel};
use triune_tensor::memory as host;

pub use chain::StripForm;
pub use executor::Executor;
pub use library::{Library, Weights};
pub use scratch::{AT_ONCE, Scratch};
pub use segments::{Layout, SEGMENT_ALIGNMENT, Segment, SegmentKind, SegmentTable};

pub(crate) use budget::Budget;

use border::{InPlace, Sources, Targets};
use chain::Chain;
use check::{Checker, Program};
use guard::{Bound, Guard};
use library::{Loan, Packing};
use operands::{Operands, Prepared, SegRange};

use crate::{
    Addr, Command, Error, Lease, Memory, Watch,
    command::{CommandReader, Commands, Opcode},
    memory::RangeAccess,
    work::{self, Tally},
};

/// Where a program's commands lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The first command.
    pub addr: Addr,
    /// Bytes; a stream also ends at its `end` command.
    pub len: u64,
}

/// The commands of a program, to be read.
pub(crate) enum Words<At = Stream> {
    /// In device memory.
    At(At),
    /// Elsewhere.
    Bytes(Bytes),
}

/// A command that has just run, for tracing and dumps.
#[derive(Clone, Copy, Debug)]
pub struct StepView<'a> {
    /// Position in the stream.
    pub index: usize,
    /// The command's words.
    pub words: &'a [u8],
    /// The bytes from its output's first element to its last.
    pub output: &'a [u8],
}

impl StepView<'_> {
    /// The command.
    ///
    /// # Panics
    /// Never: what has run is a command.
    pub fn command(&self) -> Command {
        CommandReader::new(self.words).next().ok().flatten().expect("what has run is a command")
    }
}

/// How a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepForm {
    /// Which command it is.
    pub opcode: Opcode,
    /// How a convolution is computed; `None` of other commands, and of convolutions of 16-bit integers.
    pub method: Option<ConvMethod>,
    /// Segment of its output.
    pub segment: u16,
    /// The output's first byte there.
    pub start: u64,
    /// Bytes from the output's first element to its last.
    pub len: u64,
}

/// What a run reads outside of the device's memory, by position.
pub trait Inputs {
    /// The bytes for an input segment; an index always gives the same.
    fn input(&self, index: usize) -> &[u8];
}

/// What a run writes outside of the device's memory, by position.
pub trait Outputs {
    /// The bytes for an output segment; an index always gives the same.
    fn output(&mut self, index: usize) -> &mut [u8];
}

/// Called after every command.
pub type Observer<'a> = dyn FnMut(StepView<'_>) + 'a;

/// The commands of a program.
#[derive(Debug)]
struct Steps {
    /// The stream up to its end, which commands are decoded from when somebody wants to see them.
    words: Bytes,
    prepared: Vec<Prepared>,
    /// Those of the commands that run strip by strip, where nobody watches.
    chains: Vec<Chain>,
    /// Operands in full; empty while the sanitizer is off.
    operands: Vec<Operands>,
    in_place: InPlace,
    /// Bytes of memory that all of it takes.
    bytes: u64,
}

/// A program in the form that runs: commands checked, weights packed. Valid while its instructions and constants do
/// not change. Clones share the packed weights.
#[derive(Clone, Debug)]
pub struct Decoded {
    steps: Arc<Steps>,
    segments: SegmentTable,
    /// One range per segment that is not empty.
    access: Vec<RangeAccess>,
    /// The same, for runs that write the inputs first.
    border_access: Vec<RangeAccess>,
    tally: Tally,
    watch: Watch,
    generation: u64,
    staging_bytes: usize,
    /// The chunks that the segments lie in; empty while the sanitizer is off.
    bound: Bound,
    /// What every run makes anew, all that the program may write at first; empty while the sanitizer is off.
    makes: Arc<[SegRange]>,
    /// Whether other programs go on with what this one leaves in feature maps.
    is_part: bool,
}

impl Decoded {
    /// About what a segment takes: its place in the table, in two lists of accesses and among what is watched.
    const BYTES_PER_SEGMENT: usize = 160;

    /// Reads the commands at `stream` from device memory, checks them and packs their weights for `isa`.
    ///
    /// That takes up to eight times the stream's bytes, and what weights and tables take when they are packed; in all up to a
    /// gibibyte and four times the bytes of the constants.
    ///
    /// # Errors
    /// [`Error::Command`] names the command and the field: words that are no command, operands that leave their
    /// segment, are misaligned, written though read-only, overlap, or do not fit each other. [`Error::TooMuchWork`] for more
    /// than a run may take. [`Error::Segment`], [`Error::Busy`] while instructions or constants are being written,
    /// [`Error::ProgramTooLarge`], [`Error::Sanitizer`], [`Error::Cancelled`].
    pub fn new(memory: &Memory, segments: &SegmentTable, stream: Stream, isa: Isa) -> Result<Self, Error> {
        Self::with_library(memory, segments, stream, isa, None)
    }

    /// As [`Self::new`], for commands whose weights may lie in a library.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_library(
        memory: &Memory,
        segments: &SegmentTable,
        stream: Stream,
        isa: Isa,
        library: Option<&Library>,
    ) -> Result<Self, Error> {
        Self::within(memory, segments, Words::At(stream), isa, library, &Budget::new(segments))
    }

    /// As [`Self::with_library`], for commands that no device reads and that lie outside of its memory. They are kept as they
    /// are.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_bytes(
        memory: &Memory,
        segments: &SegmentTable,
        stream: Bytes,
        isa: Isa,
        library: Option<&Library>,
    ) -> Result<Self, Error> {
        Self::within(memory, segments, Words::Bytes(stream), isa, library, &Budget::new(segments))
    }

    /// As [`Self::with_library`], within what a budget leaves.
    pub(crate) fn within(
        memory: &Memory,
        segments: &SegmentTable,
        stream: Words,
        isa: Isa,
        library: Option<&Library>,
        budget: &Budget,
    ) -> Result<Self, Error> {
        segments.check(memory)?;
        let of_kind = |keep: fn(&Segment) -> bool| -> Vec<RangeAccess> {
            segments
                .segments()
                .iter()
                .filter(|each| each.len > 0 && keep(each))
                .map(Segment::access)
                .collect()
        };
        let prepared = of_kind(|segment| segment.kind.prepared());
        let watch = memory.watch(&prepared);
        let lease = memory.lease_for_program(&prepared)?;
        // Under the lease: whatever changes a byte from now on raises the generation first.
        let generation = watch.generation();

        let bound = Bound::new(memory, segments);
        let guard = Guard::new(memory, segments, &bound);
        let stream = match stream {
            Words::At(stream) => {
                let range = stream_range(segments, stream)?;
                if let Some(guard) = &guard {
                    guard.stream(stream.addr.segment(), range)?;
                }
                Words::At(range)
            }
            Words::Bytes(bytes) => Words::Bytes(bytes),
        };
        let before = budget.used();
        // What every program has, whatever its stream.
        budget.take((size_of::<Self>() + segments.segments().len() * Self::BYTES_PER_SEGMENT) as u64)?;
        let words = match &stream {
            Words::At(range) => lease.read(*range)?,
            Words::Bytes(bytes) => bytes,
        };
        let softmaxes = RefCell::default();
        let program = Program { segments, lease: &lease, isa, library, budget, softmaxes };
        let mut reader = CommandReader::new(words);
        let (mut steps, mut operands) = (Vec::new(), Vec::new());
        let (mut tally, limit) = (Tally::default(), work::limit()?);
        while let Some(command) = reader.next()? {
            let (index, offset) = (steps.len(), reader.command_offset());
            let opcode = command.opcode();
            let mnemonic = opcode.mnemonic();
            if opcode != Opcode::End {
                tally.add(index, &command);
                if tally.check(limit).is_err() {
                    return Err(too_much(tally, reader, index + 1, limit));
                }
                // Packing large weights takes long.
                work::go_on()?;
                let guard = guard.as_ref().map(|guard| guard.at(index, mnemonic));
                let checker = Checker::new(&program, opcode, guard);
                let step = steps::prepare(&checker, &command).map_err(|error| {
                    checker.take_fault().unwrap_or(Error::Command {
                        index,
                        offset,
                        mnemonic,
                        field: error.field,
                        problem: error.problem,
                    })
                })?;
                host::grow(&mut steps, 1)?;
                steps.push(step);
                if let Some(own) = checker.take_operands() {
                    host::grow(&mut operands, 1)?;
                    operands.push(own);
                }
            }
        }
        steps.shrink_to_fit();
        operands.shrink_to_fit();
        budget.take(reader.position() as u64)?;
        let words = match &stream {
            Words::At(_) => host::copied(&words[..reader.position()])?.into(),
            Words::Bytes(bytes) => bytes.slice(..reader.position()),
        };
        drop(lease);
        let chains = chain::chains(&steps, segments);
        budget.take((chains.len() * size_of::<Chain>()) as u64)?;
        let staging_bytes = steps.iter().map(Prepared::staging_bytes).max().unwrap_or(0);
        let bytes = budget.used() - before;
        Ok(Self {
            steps: Arc::new(Steps {
                words,
                in_place: InPlace::new(segments, &steps),
                prepared: steps,
                chains,
                operands,
                bytes,
            }),
            segments: segments.clone(),
            access: of_kind(|_| true),
            border_access: border_access(segments.segments()),
            tally,
            watch,
            generation,
            staging_bytes,
            bound,
            makes: if memory.sanitizer().is_some() {
                whole(segments, SegmentKind::writable).collect()
            } else {
                Arc::default()
            },
            is_part: false,
        })
    }

    /// The same as a part of a longer program: feature maps and outputs hold what other parts left there. Who runs the parts
    /// says what each makes ([`Memory::forget`]).
    pub(crate) fn into_part(self) -> Self {
        Self { makes: Arc::default(), is_part: true, ..self }
    }

    /// The same for a program that makes these bytes of its outputs and no others.
    fn making(self, results: impl Iterator<Item = SegRange>) -> Self {
        let makes = whole(&self.segments, SegmentKind::transient).chain(results).collect();
        Self { makes, ..self }
    }

    /// As `new`, decoded anew from the same stream: what was said of it counts.
    fn in_place_of(self, old: &Self) -> Self {
        Self { makes: Arc::clone(&old.makes), is_part: old.is_part, ..self }
    }

    /// The commands, `end` excluded.
    pub fn commands(&self) -> Commands<'_> {
        Commands::new(&self.steps.words, self.steps.prepared.len())
    }

    /// Bytes of memory that the program takes in this form; clones share them.
    pub fn bytes(&self) -> u64 {
        self.steps.bytes
    }

    /// The segments that a run uses.
    pub fn segments(&self) -> &SegmentTable {
        &self.segments
    }

    /// How the commands run, `end` excluded, in their order.
    pub fn steps(&self) -> impl Iterator<Item = StepForm> + '_ {
        self.steps.prepared.iter().map(|step| StepForm {
            opcode: step.opcode,
            method: step.method(),
            segment: step.write.segment,
            start: step.write.start,
            len: step.write.len,
        })
    }

    /// The commands that run strip by strip, one chain of them after the other, while nobody watches: what one writes is read by
    /// the next while it is still in the cache, and the bits are those of one command after the other.
    pub fn chains(&self) -> impl Iterator<Item = StripForm> + '_ {
        self.steps.chains.iter().map(Chain::strips)
    }

    /// What a run takes.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// What a run leases: every segment, those that the program writes exclusively.
    pub fn access(&self) -> &[RangeAccess] {
        &self.access
    }

    /// Whether instructions or constants may have changed since they were decoded.
    pub fn is_stale(&self) -> bool {
        self.watch.generation() != self.generation
    }

    /// Moves the program to other segments, as long as instructions and constants stay where they are. Cheap: nothing is
    /// decoded again.
    ///
    /// # Errors
    /// [`Error::Segment`] when a segment is shorter, of another kind, or holds instructions or constants and moved.
    pub fn rebind(&mut self, memory: &Memory, segments: &SegmentTable) -> Result<(), Error> {
        segments.check(memory)?;
        let (old, new) = (self.segments.segments(), segments.segments());
        if old.len() != new.len() {
            return Err(Error::Segment {
                segment: new.len(),
                problem: format!("{} segments needed", old.len()),
            });
        }
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            let fail = |problem: String| Err(Error::Segment { segment: index, problem });
            if old.kind != new.kind {
                return fail(format!("is {}, {} needed", new.kind, old.kind));
            }
            if new.len < old.len {
                return fail(format!("has {} bytes, {} needed", new.len, old.len));
            }
            if old.kind.prepared() && old != new {
                return fail("moved, and holds what was decoded".into());
            }
        }
        self.access.clear();
        self.access.extend(new.iter().filter(|each| each.len > 0).map(Segment::access));
        self.border_access = border_access(new);
        self.segments.clone_from(segments);
        self.bound = Bound::new(memory, segments);
        Ok(())
    }

    /// With the sanitizer on, whether instructions and constants still lie in the chunks that they were decoded from.
    ///
    /// # Errors
    /// [`Error::Sanitizer`].
    pub(super) fn check_chunks(&self, memory: &Memory) -> Result<(), Error> {
        Guard::new(memory, &self.segments, &self.bound).map_or(Ok(()), |guard| guard.begin(&self.makes))
    }

    /// Bytes of scratch that [`Self::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let kernels = self.steps.prepared.iter().map(|step| step.scratch_bytes(threads)).max().unwrap_or(0);
        self.staging(threads).saturating_add(kernels)
    }

    /// Bytes of these that operands copied aside take.
    fn staging(&self, threads: usize) -> usize {
        let chains = self.steps.chains.iter().filter(|chain| chain.suits(threads, false));
        let chains = chains.map(|chain| chain.staging_bytes(threads));
        chains.max().unwrap_or(0).max(self.staging_bytes)
    }

    /// Runs all commands. Allocates nothing.
    ///
    /// `scratch` holds [`Self::scratch_bytes`] bytes of any content, its base aligned to 64 bytes.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Busy`], [`Error::Scratch`]; [`Error::Kernel`] when a kernel refuses operands
    /// that decoding let through; [`Error::Sanitizer`]; [`Error::Cancelled`], with outputs written in part.
    pub fn run(
        &self,
        memory: &Memory,
        scratch: &mut [u8],
        pool: &Pool,
        observer: Option<&mut Observer<'_>>,
    ) -> Result<(), Error> {
        self.run_part(memory, 0..self.steps.prepared.len(), scratch, pool, observer)
    }

    /// As [`Self::run`], of some of the commands, on what those before them left: a run begins with the first.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_part(
        &self,
        memory: &Memory,
        commands: Range<usize>,
        scratch: &mut [u8],
        pool: &Pool,
        observer: Option<&mut Observer<'_>>,
    ) -> Result<(), Error> {
        let need = self.scratch_bytes(pool.threads());
        if scratch.len() < need {
            return Err(Error::Scratch { need, got: scratch.len() });
        }
        let mut lease = memory.lease_for_program(&self.access)?;
        self.run_leased(memory, &mut lease, None, commands, scratch, pool, observer)
    }

    /// As [`Self::run`], with inputs and outputs outside of the device's memory, all under one lease.
    ///
    /// Tensors on a boundary of 8 bytes are read and written where they are; others are copied to their segments before and
    /// from them behind, as are outputs that commands read, and all tensors when the sanitizer is on.
    ///
    /// # Errors
    /// As [`Self::run`], some of the outputs written then; [`Error::Segment`] when a tensor's bytes are not those of a segment,
    /// and nothing has run.
    pub fn run_border(
        &self,
        memory: &Memory,
        inputs: &dyn Inputs,
        outputs: &mut dyn Outputs,
        scratch: &mut [u8],
        pool: &Pool,
        observer: Option<&mut Observer<'_>>,
    ) -> Result<(), Error> {
        let need = self.scratch_bytes(pool.threads());
        if scratch.len() < need {
            return Err(Error::Scratch { need, got: scratch.len() });
        }
        let check = |index: usize, segment: &Segment, got: usize| {
            if got as u64 == segment.len {
                return Ok(());
            }
            Err(Error::Segment { segment: index, problem: format!("has {} bytes, {got} given", segment.len) })
        };
        let segments = self.segments.segments();
        let of_kind = |kind| segments.iter().enumerate().filter(move |(_, segment)| segment.kind == kind);
        for (number, (index, segment)) in of_kind(SegmentKind::Output).enumerate() {
            check(index, segment, outputs.output(number).len())?;
        }
        for (number, (index, segment)) in of_kind(SegmentKind::Input).enumerate() {
            check(index, segment, inputs.input(number).len())?;
        }
        if memory.sanitizer().is_some() {
            // Copies of the host's of their own, which the sanitizer sees.
            for (number, (_, segment)) in of_kind(SegmentKind::Input).enumerate() {
                memory.write(segment.region, segment.base, inputs.input(number))?;
            }
            self.run(memory, scratch, pool, observer)?;
            for (number, (_, segment)) in of_kind(SegmentKind::Output).enumerate() {
                memory.read(segment.region, segment.base, outputs.output(number))?;
            }
            return Ok(());
        }
        let mut lease = memory.lease_for_program(&self.border_access)?;
        let sources = Sources::new(&self.steps.in_place, inputs);
        for (number, (_, segment)) in of_kind(SegmentKind::Input).enumerate() {
            if segment.len > 0 && !sources.has(number) {
                cancel::copy(inputs.input(number), lease.write(segment.access())?);
            }
        }
        let mut targets = Targets::new(&self.steps.in_place, outputs);
        let commands = 0..self.steps.prepared.len();
        let border = Some((sources, &mut targets));
        self.run_leased(memory, &mut lease, border, commands, scratch, pool, observer)?;
        for (number, (_, segment)) in of_kind(SegmentKind::Output).enumerate() {
            if segment.len > 0 && !targets.has(number) {
                cancel::copy(lease.read(segment.access())?, targets.output(number));
            }
        }
        work::go_on()
    }

    fn run_leased(
        &self,
        memory: &Memory,
        lease: &mut Lease<'_>,
        mut border: Option<(Sources<'_>, &mut Targets<'_>)>,
        commands: Range<usize>,
        scratch: &mut [u8],
        pool: &Pool,
        mut observer: Option<&mut Observer<'_>>,
    ) -> Result<(), Error> {
        if self.is_stale() {
            return Err(Error::Stale);
        }
        let guard = Guard::new(memory, &self.segments, &self.bound);
        if let Some(guard) = &guard {
            // What a part reads of those before it was made in this run.
            let makes: &[SegRange] = if commands.start == 0 { &self.makes } else { &[] };
            guard.begin(makes)?;
        }
        let (staging, scratch) = scratch.split_at_mut(self.staging(pool.threads()));
        let mut reader = observer.is_some().then(|| CommandReader::new(&self.steps.words));
        if let Some(reader) = &mut reader {
            for _ in 0..commands.start {
                reader.skip();
            }
        }
        let prepared = &self.steps.prepared;
        let end = commands.end.min(prepared.len());
        let mut chains = self.steps.chains.iter().filter(|chain| chain.first >= commands.start).peekable();
        let watched = observer.is_some() || guard.is_some();
        let mut next = commands.start;
        while next < end {
            let (index, step) = (next, &prepared[next]);
            if let (Some(guard), Some(operands)) = (&guard, self.steps.operands.get(index)) {
                guard.at(index, step.opcode.mnemonic()).step(operands)?;
            }
            let own = border.as_mut().map(|(sources, targets)| (*sources, &mut **targets));
            let chain = chains.next_if(|chain| chain.first == index);
            // Who runs over a border sees what is behind it alone; others may look into the memory, or go on in it.
            let stores = own.is_none() || self.is_part;
            let whole = chain.filter(|chain| {
                !watched && index + chain.count <= end && chain.suits(pool.threads(), stores)
            });
            let done = if let Some(chain) = whole {
                next += chain.count;
                chain.run(prepared, lease, &self.segments, own, staging, pool, stores)
            } else {
                next += 1;
                let done = step.run(lease, &self.segments, own, staging, scratch, pool);
                done.map_err(|error| (index, error))
            };
            // Before anybody sees what a kernel that was stopped left behind.
            work::go_on()?;
            done.map_err(|(index, error)| match error {
                operands::RunError::Device(error) => error,
                operands::RunError::Kernel(source) => {
                    Error::Kernel { index, mnemonic: prepared[index].opcode.mnemonic(), source }
                }
            })?;
            if let (Some(observer), Some(reader)) = (observer.as_deref_mut(), &mut reader) {
                let words = reader.skip().unwrap_or_default();
                let output = match border.as_mut().and_then(|(_, targets)| targets.bytes(step.write)) {
                    Some(output) => output,
                    None => lease.read(step.write.resolve(&self.segments)?)?,
                };
                observer(StepView { index, words, output });
            }
        }
        Ok(())
    }
}

/// Why a program is too much work, with what all of its commands take: those from `index` on are still to be read.
fn too_much(mut tally: Tally, mut reader: CommandReader<'_>, mut index: usize, limit: u64) -> Error {
    // What is no command is not what is wrong here.
    while let Ok(Some(command)) = reader.next() {
        tally.add(index, &command);
        index += 1;
    }
    tally.refused(limit)
}

/// All bytes of the segments of some kinds.
fn whole(segments: &SegmentTable, kinds: fn(SegmentKind) -> bool) -> impl Iterator<Item = SegRange> {
    let all = segments.segments().iter().enumerate();
    let found = all.filter(move |(_, segment)| kinds(segment.kind) && segment.len > 0);
    found.map(|(index, segment)| SegRange { segment: index as u16, start: 0, len: segment.len })
}

/// Every segment that is not empty, inputs to be written before a run.
fn border_access(segments: &[Segment]) -> Vec<RangeAccess> {
    let access = |segment: &Segment| {
        let range = segment.access();
        RangeAccess { exclusive: range.exclusive || segment.kind == SegmentKind::Input, ..range }
    };
    segments.iter().filter(|segment| segment.len > 0).map(access).collect()
}

/// The bytes of a stream, which must lie in an instruction segment at a multiple of 4.
fn stream_range(segments: &SegmentTable, stream: Stream) -> Result<RangeAccess, Error> {
    let index = stream.addr.segment();
    let fail = |problem: String| Err(Error::Segment { segment: index.into(), problem });
    match segments.get(index) {
        None => fail("the stream's segment does not exist".into()),
        Some(segment) if segment.kind != SegmentKind::Instructions => {
            fail(format!("is {}, the stream must lie in instructions", segment.kind))
        }
        Some(segment) if stream.addr.offset().checked_add(stream.len).is_none_or(|end| end > segment.len) => {
            fail(format!(
                "the stream's {} bytes at {} leave its {} bytes",
                stream.len, stream.addr, segment.len
            ))
        }
        Some(_) if !stream.addr.offset().is_multiple_of(4) => {
            fail(format!("the stream's address {} is not a multiple of 4", stream.addr))
        }
        Some(_) => {
            SegRange { segment: index, start: stream.addr.offset(), len: stream.len }.resolve(segments)
        }
    }
}
