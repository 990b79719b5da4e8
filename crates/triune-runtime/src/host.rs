//! Programs on the host: their segments' places in memory, shared where that harms nobody, and their runs.
//!
//! A workspace is the memory that programs compute in, one at a time: feature maps, inputs, outputs. All programs of a
//! session lie in one workspace at the same addresses, and sessions can share theirs. That no two run at once in it is
//! the memory's own rule: a run leases what it touches, and a second lease is refused.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hasher},
    sync::{Arc, Weak},
};

use bytes::Bytes;
use triune_device::{
    Chunk, Decoded, DeviceSpec, Error as DeviceError, Inputs, Layout, Library, Memory, Outputs, RangeAccess,
    RegionId, Scratch, Segment, SegmentKind, SegmentTable,
    exec::{AT_ONCE, Observer},
};
use triune_fork::{Brief, BriefGuard};
use triune_kernels::{Isa, Pool};
use triune_tensor::{OutOfMemory, memory};

use triune_compiler::ALIGNMENT;

use crate::{Error, Program};

/// Bytes of the workspace's region, which is this process's own memory.
fn chunk(memory: &Arc<Memory>, region: RegionId, len: u64) -> Result<Chunk, Error> {
    Chunk::new(memory, region, len).map_err(own)
}

/// The same, with these bytes in them.
fn holding(memory: &Arc<Memory>, region: RegionId, bytes: &[u8]) -> Result<Chunk, Error> {
    Chunk::holding(memory, region, bytes).map_err(own)
}

fn own(error: DeviceError) -> Error {
    match error {
        DeviceError::OutOfMemory { length, .. } => Error::Memory(OutOfMemory { bytes: length }),
        error => error.into(),
    }
}

/// Refuses what this machine does not have: the system would promise it, and end the process that takes it at its word.
fn check_there_is(bytes: u64) -> Result<(), Error> {
    if bytes <= Workspace::LEAST {
        return Ok(());
    }
    // Where nobody says how much there is, nothing is refused.
    let Some(all) = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text)) else {
        return Ok(());
    };
    if bytes <= all {
        return Ok(());
    }
    Err(OutOfMemory { bytes }.into())
}

/// All memory and swap in bytes, by Linux's account.
fn total(text: &str) -> Option<u64> {
    let amount = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    amount("MemTotal:")?.checked_add(amount("SwapTotal:").unwrap_or(0))
}

fn aligned(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// Memory that the programs of one or more sessions run in, one at a time.
#[derive(Debug)]
pub struct Workspace {
    spec: DeviceSpec,
    memory: Arc<Memory>,
    region: RegionId,
    state: Brief<State>,
}

#[derive(Debug, Default)]
struct State {
    /// As large as the largest program needs; replaced when a larger one comes.
    chunk: Option<Arc<Chunk>>,
    constants: Constants,
    /// By where the model has them.
    tables: HashMap<(usize, usize), Weak<Table>>,
}

/// A model's own bytes in memory. They live as long, so that nothing else can lie where they do.
#[derive(Debug)]
struct Table {
    chunk: Chunk,
    _bytes: Bytes,
}

/// Constants that programs alive have in memory.
#[derive(Debug, Default)]
struct Constants {
    /// By length and a hash of parts of the content.
    chunks: HashMap<(usize, u64), Vec<Weak<Chunk>>>,
    count: usize,
    /// How many were left when those without a program were dropped last.
    left: usize,
}

impl Constants {
    /// By what chunks are told apart before they are compared. All of the content would take longer than to copy it, for every
    /// set of extents that a model with a large table comes along with.
    fn key(bytes: &[u8]) -> (usize, u64) {
        const PARTS: usize = 64;
        const PART: usize = 64;
        let mut hasher = DefaultHasher::new();
        let step = bytes.len().div_ceil(PARTS * PART).max(1);
        for part in bytes.chunks(PART).step_by(step) {
            hasher.write(part);
        }
        (bytes.len(), hasher.finish())
    }

    fn find(&self, bytes: &[u8]) -> Option<Arc<Chunk>> {
        let mut alike = self.chunks.get(&Self::key(bytes))?.iter().filter_map(Weak::upgrade);
        alike.find(|each| each.holds(bytes))
    }

    fn add(&mut self, bytes: &[u8], chunk: &Arc<Chunk>) {
        // Whenever there are twice as many: a look at all of them costs no more than what came in between.
        if self.count > 2 * self.left {
            self.chunks.retain(|_, alike| {
                alike.retain(|each| each.strong_count() > 0);
                !alike.is_empty()
            });
            self.left = self.chunks.values().map(Vec::len).sum();
            self.count = self.left;
        }
        self.chunks.entry(Self::key(bytes)).or_default().push(Arc::downgrade(chunk));
        self.count += 1;
    }
}

impl Workspace {
    /// Least address space that is worth a try.
    const LEAST: u64 = 1 << 26;

    /// An empty workspace: address space, of which nothing is committed until it is touched.
    pub fn new() -> Result<Arc<Self>, Error> {
        let mut spec = DeviceSpec::builtin("host")?;
        let all =
            |spec: &DeviceSpec| spec.memory.iter().fold(0, |sum: u64, each| sum.saturating_add(each.bytes));
        let whole = all(&spec);
        // Address space is not free everywhere: where there is less, less has to do, and as much stays for everything else.
        let memory = loop {
            let bytes = all(&spec);
            match Memory::new(&spec) {
                Ok(memory) if bytes == whole || memory::check_room(bytes).is_ok() => break memory,
                Ok(memory) if spec.memory.iter().all(|memory| memory.bytes <= Self::LEAST) => break memory,
                // What less memory does not mend.
                Err(error) if !matches!(error, DeviceError::Map { .. } | DeviceError::HostMemory(_)) => {
                    return Err(error.into());
                }
                Err(_) if spec.memory.iter().all(|memory| memory.bytes <= Self::LEAST) => {
                    return Err(OutOfMemory { bytes }.into());
                }
                Ok(_) | Err(_) => {
                    for memory in &mut spec.memory {
                        memory.bytes = (memory.bytes / 4).max(Self::LEAST);
                    }
                }
            }
        };
        let region = memory.region(&spec.placement.scratch)?;
        Ok(Arc::new(Self { spec, memory: Arc::new(memory), region, state: Brief::default() }))
    }

    /// The description of the host.
    pub(crate) fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// Bytes for feature maps, inputs and outputs.
    pub fn bytes(&self) -> u64 {
        self.lock().chunk.as_ref().map_or(0, |chunk| chunk.len())
    }

    /// Bytes of a model's own large constants that programs alive have here, each once.
    pub fn table_bytes(&self) -> u64 {
        self.lock().tables.values().filter_map(Weak::upgrade).map(|table| table.chunk.len()).sum()
    }

    fn lock(&self) -> BriefGuard<'_, State> {
        self.state.lock()
    }

    /// A chunk that all programs share, with room for `program`; the pages of feature maps are there already up to [`AT_ONCE`].
    /// Inputs and outputs behind them are seldom used: commands take the caller's.
    fn chunk(&self, program: &Program) -> Result<Arc<Chunk>, Error> {
        let bytes = shared_bytes(program);
        let mut state = self.lock();
        if let Some(chunk) = state.chunk.as_ref().filter(|chunk| chunk.len() >= bytes) {
            return Ok(Arc::clone(chunk));
        }
        let before = state.chunk.take().map_or(0, |chunk| chunk.len());
        check_there_is(bytes)?;
        // Half as much more where there was too little: what grows with each run, as a cache does, shall not take new pages each time.
        let ample = bytes.max(before.saturating_add(before / 2));
        let found = chunk(&self.memory, self.region, aligned(ample));
        let chunk = Arc::new(found.or_else(|_| chunk(&self.memory, self.region, aligned(bytes)))?);
        let ranges =
            [RangeAccess::exclusive(chunk.region(), chunk.base(), map_bytes(program).min(AT_ONCE as u64))];
        self.memory.lease(&ranges)?.write(ranges[0])?.fill(0);
        state.chunk = Some(Arc::clone(&chunk));
        Ok(chunk)
    }

    /// Whether `chunk` is the one that is shared now.
    fn is_current(&self, chunk: &Arc<Chunk>) -> bool {
        self.lock().chunk.as_ref().is_some_and(|current| Arc::ptr_eq(current, chunk))
    }

    /// A table in memory, once for all programs that have it.
    fn table(&self, bytes: &Bytes) -> Result<Arc<Table>, Error> {
        let mut state = self.lock();
        let place = (bytes.as_ptr().addr(), bytes.len());
        if let Some(found) = state.tables.get(&place).and_then(Weak::upgrade) {
            return Ok(found);
        }
        state.tables.retain(|_, table| table.strong_count() > 0);
        let chunk = holding(&self.memory, self.region, bytes)?;
        let new = Arc::new(Table { chunk, _bytes: bytes.clone() });
        state.tables.insert(place, Arc::downgrade(&new));
        Ok(new)
    }

    /// Constants in memory, once for all programs with the same.
    fn constants(&self, bytes: &[u8]) -> Result<Arc<Chunk>, Error> {
        let mut state = self.lock();
        if let Some(found) = state.constants.find(bytes) {
            return Ok(found);
        }
        let new = Arc::new(holding(&self.memory, self.region, bytes)?);
        state.constants.add(bytes, &new);
        Ok(new)
    }
}

/// A compiled program in a workspace.
#[derive(Debug)]
pub(crate) struct HostProgram {
    workspace: Arc<Workspace>,
    program: Program,
    constants: Arc<Chunk>,
    tables: Vec<Arc<Table>>,
    shared: Arc<Chunk>,
    decoded: Decoded,
}

impl HostProgram {
    /// Puts a program into the workspace and packs its weights, those of the library once.
    pub(crate) fn new(
        workspace: &Arc<Workspace>,
        mut program: Program,
        library: &Library,
    ) -> Result<Self, Error> {
        let constants = workspace.constants(&program.constants)?;
        // Memory has them now.
        program.constants = Bytes::new();
        let tables: Result<Vec<_>, Error> =
            std::mem::take(&mut program.tables).iter().map(|table| workspace.table(table)).collect();
        let tables = tables?;
        let shared = workspace.chunk(&program)?;
        let segments = segments(&program, &constants, &tables, &shared)?;
        let stream = program.instructions.clone();
        let decoded = Decoded::from_bytes(&workspace.memory, &segments, stream, Isa::best(), Some(library))
            .map_err(|error| program.blame(0, error))?;
        let workspace = Arc::clone(workspace);
        Ok(Self { workspace, program, constants, tables, shared, decoded })
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// The program in the form that runs.
    pub(crate) fn decoded(&self) -> &Decoded {
        &self.decoded
    }

    /// Bytes of its own constants; others with the same share them.
    pub(crate) fn constant_bytes(&self) -> u64 {
        self.constants.len()
    }

    /// About the bytes that it takes, apart from what other programs have as well.
    pub(crate) fn bytes(&self) -> u64 {
        /// Of the commands: as they are, and as they run.
        const FORMS: u64 = 1 + 8;
        let Program { instructions, buffers, operators, .. } = &self.program;
        let described = size_of_val(&**buffers) + size_of_val(&**operators);
        let own = if Arc::strong_count(&self.constants) == 1 { self.constants.len() } else { 0 };
        let commands = (instructions.len() as u64).saturating_mul(FORMS);
        commands.saturating_add(described as u64).saturating_add(own)
    }

    /// Makes room for runs with `threads` threads, so that the first one need not.
    pub(crate) fn reserve(&self, scratch: &mut Scratch, threads: usize) -> Result<(), Error> {
        Ok(scratch.reserve(self.decoded.scratch_bytes(threads))?)
    }

    /// Runs once.
    pub(crate) fn run(
        &mut self,
        inputs: &dyn Inputs,
        outputs: &mut dyn Outputs,
        scratch: &mut Scratch,
        pool: &Pool,
        observer: Option<&mut Observer<'_>>,
    ) -> Result<(), Error> {
        if !self.workspace.is_current(&self.shared) {
            let shared = self.workspace.chunk(&self.program)?;
            let segments = segments(&self.program, &self.constants, &self.tables, &shared)?;
            self.decoded.rebind(&self.workspace.memory, &segments)?;
            self.shared = shared;
        }
        self.reserve(scratch, pool.threads())?;
        let run =
            self.decoded.run_border(&self.workspace.memory, inputs, outputs, scratch.bytes(), pool, observer);
        run.map_err(|error| match error {
            triune_device::Error::Busy { .. } => Error::Shared,
            error => self.program.blame(0, error).into(),
        })
    }
}

/// Bytes of a program's feature maps.
fn map_bytes(program: &Program) -> u64 {
    aligned(program.scratch_bytes).saturating_add(aligned(program.resident_bytes()))
}

/// Bytes of a program's feature maps, inputs and outputs.
fn shared_bytes(program: &Program) -> u64 {
    let border = program.border().map(|(_, io)| io.bytes() as u64);
    border.fold(map_bytes(program), |sum, bytes| sum.saturating_add(aligned(bytes)))
}

/// The program's segments, those that runs write one behind the other in the shared chunk.
fn segments(
    program: &Program,
    constants: &Chunk,
    tables: &[Arc<Table>],
    shared: &Chunk,
) -> Result<SegmentTable, Error> {
    let mut base = shared.base();
    let mut next = |len: u64, kind| {
        let segment = Segment { region: shared.region(), base, len, kind };
        base += aligned(len);
        segment
    };
    // The commands need no place in memory: no device reads them.
    let instructions = Segment { len: 0, ..constants.segment(SegmentKind::Instructions) };
    let mut layout = Layout {
        instructions,
        constants: constants.segment(SegmentKind::Constants),
        scratch: next(program.scratch_bytes, SegmentKind::Scratch),
        resident: next(program.resident_bytes(), SegmentKind::Resident),
        others: Vec::new(),
    };
    for (kind, io) in program.border() {
        layout.others.push((kind, next(io.bytes() as u64, kind)));
    }
    let constants = |table: &Arc<Table>| table.chunk.segment(SegmentKind::Constants);
    layout.others.extend(tables.iter().map(|table| (SegmentKind::Constants, constants(table))));
    Ok(SegmentTable::new(layout.in_order().map(|(_, segment)| segment).collect())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_in_kibibytes() {
        let text = "MemTotal:       2048 kB\nMemFree:        12 kB\nSwapTotal:      1024 kB\n";
        assert_eq!(total(text), Some(3 << 20));
        assert_eq!(total("MemTotal: 1 kB\n"), Some(1024));
        assert_eq!(total("MemTotal: many\n"), None);
        assert_eq!(total(""), None);
    }

    #[test]
    fn what_no_machine_has_is_refused() {
        assert!(check_there_is(1 << 28).is_ok());
        if std::fs::exists("/proc/meminfo").is_ok_and(|exists| exists) {
            let error = check_there_is(1 << 60).expect_err("an exbibyte");
            assert!(error.to_string().contains("1152921504606846976 bytes"), "{error}");
            assert!(matches!(error, Error::Memory(_)), "{error:?}");
        }
    }

    #[test]
    fn sizes_are_whole_lines() {
        assert_eq!([0, 1, 64, 65].map(aligned), [64, 64, 64, 128]);
        assert_eq!(aligned(u64::MAX), u64::MAX);
    }

    /// Constants are found by all of their bytes, though the key has only parts of them.
    #[test]
    fn the_same_constants_lie_once() {
        let workspace = Workspace::new().expect("a workspace");
        let long: Vec<u8> = (0..10_000_u32).map(|index| (index * 31 % 251) as u8).collect();
        let mut other = long.clone();
        // Between the parts that are hashed: three of four are left out.
        other[130] ^= 1;
        assert_eq!(Constants::key(&long), Constants::key(&other));
        assert_ne!(Constants::key(&long), Constants::key(&long[..9_999]));
        let first = workspace.constants(&long).expect("room");
        let again = workspace.constants(&long).expect("room");
        let second = workspace.constants(&other).expect("room");
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &second));
        assert!(first.holds(&long) && second.holds(&other));
        assert!(!first.holds(&other) && !first.holds(&long[..9_999]));
        assert!(Arc::ptr_eq(&second, &workspace.constants(&other).expect("room")));
        // What no program has any more is given back, and forgotten as new ones come.
        drop((first, again));
        for index in 0..20 {
            workspace.constants(&[index; 70]).expect("room");
        }
        assert_eq!(workspace.lock().constants.chunks.values().map(Vec::len).max(), Some(1));
        assert!(workspace.lock().constants.count <= 5, "{}", workspace.lock().constants.count);
        assert!(Arc::ptr_eq(&second, &workspace.constants(&other).expect("room")));
    }

    /// A model's bytes lie once as long as a program has them; as many from another place are others.
    #[test]
    fn a_table_lies_once() {
        let workspace = Workspace::new().expect("a workspace");
        let bytes = Bytes::from(vec![7; 1000]);
        let (one, same) = (workspace.table(&bytes).expect("room"), workspace.table(&bytes).expect("room"));
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(workspace.table_bytes(), 1000);
        let shorter = workspace.table(&bytes.slice(..999)).expect("room");
        let other = workspace.table(&Bytes::from(vec![7; 1000])).expect("room");
        assert_eq!(workspace.table_bytes(), 2999);
        assert!(one.chunk.holds(&bytes) && shorter.chunk.holds(&bytes[..999]));
        drop((one, same, shorter));
        assert_eq!(workspace.table_bytes(), 1000);
        drop(other);
        workspace.table(&bytes).expect("room");
        assert_eq!(workspace.lock().tables.len(), 1);
    }
}
