//! The walk over a program's commands: one after the other, each tile by tile through the engine's queues.

use std::collections::HashMap;

use super::{
    CommandTime, MemoryBytes, Span, TimingOptions,
    engine::{Engine, MAX_DEPTH, Queues, Transfer},
    search::{Room, best},
    tiling::{Demand, Step, Tiling, plus},
    work::{self, Work},
};
use crate::Error;
use crate::command::{Command, Opcode};
use crate::spec::{DeviceSpec, Precision, TimingModel};

/// Where a program's segments lie, for the timeline: memory indices by segment.
pub(super) struct Places<'a> {
    spec: &'a DeviceSpec,
    options: TimingOptions,
    memories: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(
        spec: &'a DeviceSpec,
        placement: &[&str],
        options: &TimingOptions,
    ) -> Result<Self, Error> {
        let memories = placement.iter().map(|name| spec.memory_index(name)).collect::<Result<_, _>>()?;
        Ok(Self { spec, options: *options, memories })
    }

    /// What command `index` asks for.
    pub(super) fn demand(&self, index: usize, command: &Command) -> Result<(Work, Demand), Error> {
        let work = work::work(self.spec, command, &self.options);
        let demand = Demand::new(&work, |addr| {
            self.memories.get(usize::from(addr.segment())).copied().ok_or_else(|| {
                Error::Timing(format!("command {index}: no memory is given for segment {}", addr.segment()))
            })
        })?;
        Ok((work, demand))
    }
}

/// What the tiles of one command take, in cycles since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    end: u64,
    load: u64,
    store: u64,
    stall: u64,
    load_stall: u64,
    loading: Span,
    computing: Span,
    storing: Span,
    read: MemoryBytes,
    /// Most bytes in the buffers at once.
    held: u64,
    /// Whether not all tiles were run.
    cut_short: bool,
}

impl Spent {
    fn loaded(&mut self, transfer: &Transfer) {
        self.load = self.load.saturating_add(transfer.busy);
        self.loading.cover(transfer.ports);
    }
}

/// Runs a command's tiles, or as many of them as it takes to see that they take more than `most` cycles. A tile's loads are
/// issued before the tile before it is computed, unless that one is in their room.
fn run(engine: &Engine, demand: &Demand, tiling: &Tiling, overhead: u64, most: u64) -> Spent {
    let mut spent = Spent::default();
    let mut queues = Queues::new(engine, tiling.depth, overhead);
    // The tile that is loaded and not yet computed: when its loads are there, what it computes and stores.
    let mut waiting: Option<(u64, u64, MemoryBytes)> = None;
    let overlapping = queues.overlapping();
    let finish = |queues: &mut Queues<'_>, spent: &mut Spent, tile: (u64, u64, MemoryBytes), first: bool| {
        let run = queues.execute(tile.0, tile.1);
        // Not `cover`: a command that only moves data still has its place between its neighbours.
        let start = if first { run.start } else { spent.computing.start };
        spent.computing = Span { start, end: run.finish };
        spent.stall = spent.stall.saturating_add(run.stall);
        spent.load_stall = spent.load_stall.saturating_add(run.load_stall);
        let stored = queues.store(&tile.2, run.finish);
        spent.store = spent.store.saturating_add(stored.busy);
        spent.storing.cover(stored.ports);
        spent.end = spent.end.max(stored.finish);
    };
    let mut done = 0_u64;
    let mut left = demand.cycles;
    demand.steps(tiling, |step: &Step| {
        if !overlapping && let Some(tile) = waiting.take() {
            finish(&mut queues, &mut spent, tile, done == 0);
            done += 1;
        }
        queues.open();
        let (weights, data) = (queues.load(&step.weights), queues.load(&step.data));
        spent.loaded(&weights);
        spent.loaded(&data);
        spent.read = plus(&spent.read, &plus(&step.weights, &step.data));
        let loaded = weights.finish.max(data.finish);
        // What is not loaded before it is computed behind it.
        let ends = loaded.saturating_add(left);
        left -= step.cycles;
        if let Some(tile) = waiting.replace((loaded, step.cycles, step.stores)) {
            finish(&mut queues, &mut spent, tile, done == 0);
            done += 1;
        }
        spent.cut_short = ends > most || spent.computing.end.saturating_add(left) > most;
        !spent.cut_short
    });
    if let Some(tile) = waiting {
        finish(&mut queues, &mut spent, tile, done == 0);
    }
    // What is still to be stored keeps the next command waiting.
    spent.stall = spent.stall.saturating_add(spent.end - spent.computing.end);
    spent
}

/// Cycles from a command's beginning until its last result is stored; of those that are more than `most`, some that are, too.
pub(super) fn cycles(engine: &Engine, demand: &Demand, tiling: &Tiling, overhead: u64, most: u64) -> u64 {
    let spent = run(engine, demand, tiling, overhead, most);
    if spent.cut_short { u64::MAX } else { spent.end }
}

/// The walk over the commands of a program.
pub(super) struct Walk {
    engine: Engine,
    room: Room,
    modelled: bool,
    overhead: u64,
    pub(super) launch: u64,
    /// When everything so far is stored.
    pub(super) finish: u64,
    /// What was found for commands that ask for the same.
    tilings: HashMap<Demand, Tiling>,
    /// What the last different commands took, the next one in place of the first.
    recent: Vec<(Demand, Tiling, Spent)>,
    next: usize,
}

/// Commands that are remembered by what they took: looking for one among more takes longer than running its tiles.
const RECENT: usize = 64;

impl Walk {
    pub(super) fn new(spec: &DeviceSpec, clock_mhz: u32, options: &TimingOptions) -> Self {
        let TimingOptions { active_cores, precision, .. } = *options;
        let launch = u128::from(spec.launch.program_ns) * u128::from(clock_mhz) / 1000;
        let launch = u64::try_from(launch).unwrap_or(u64::MAX);
        // Tiles have what the program's maps leave of the near memory, too.
        let near = spec.placement.resident.as_deref().and_then(|name| spec.memory_index(name).ok());
        let left = near.map_or(0, |at| spec.memory[at].usable_bytes().saturating_sub(options.resident_bytes));
        Self {
            engine: Engine::new(spec, clock_mhz, active_cores),
            room: Room {
                bytes: spec.queues.buffer_bytes.map(|bytes| bytes.saturating_add(left)),
                depth: u64::from(spec.queues.buffers).clamp(1, MAX_DEPTH as u64),
                blocks: spec.queues.blocks.max(1).into(),
                near,
            },
            modelled: spec.timing == TimingModel::Modelled,
            overhead: u64::from(match precision {
                Precision::Int8 => spec.launch.command_cycles,
                Precision::Int16 => spec.launch.command_cycles_16.unwrap_or(spec.launch.command_cycles),
            }),
            launch,
            finish: launch,
            tilings: HashMap::new(),
            recent: Vec::new(),
            next: 0,
        }
    }

    /// Bytes that tiles under way have; none without a limit.
    pub(super) const fn buffer_bytes(&self) -> Option<u64> {
        self.room.bytes
    }

    /// The tiling to use for a command: the given one, if it can be cut so, or the best.
    fn tiling(&mut self, demand: &Demand, given: Option<&Tiling>) -> Tiling {
        if let Some(given) = given.filter(|given| demand.allows(given)) {
            return *given;
        }
        let (engine, room, overhead) = (&self.engine, &self.room, self.overhead);
        *self.tilings.entry(*demand).or_insert_with(|| best(engine, demand, room, overhead))
    }

    /// What a command takes, which those before it may have taken, too.
    fn spent(&mut self, demand: &Demand, tiling: &Tiling) -> Spent {
        let same = |(own, cut, _): &&(Demand, Tiling, Spent)| own == demand && cut == tiling;
        if let Some((.., spent)) = self.recent.iter().find(same) {
            return *spent;
        }
        let mut spent = run(&self.engine, demand, tiling, self.overhead, u64::MAX);
        spent.held = demand.held(tiling, self.room.near);
        let entry = (*demand, *tiling, spent);
        match self.recent.get_mut(self.next) {
            Some(old) => *old = entry,
            None => self.recent.push(entry),
        }
        self.next = (self.next + 1) % RECENT;
        spent
    }

    /// The next command's time, by a given tiling or by the best.
    pub(super) fn command(
        &mut self,
        index: usize,
        opcode: Opcode,
        (work, demand): &(Work, Demand),
        given: Option<&Tiling>,
    ) -> CommandTime {
        let once = plus(&demand.weights, &plus(&demand.map, &demand.beside));
        let mut time = CommandTime {
            index: index as u32,
            opcode,
            start: 0,
            end: 0,
            compute: 0,
            load: 0,
            store: 0,
            stall: 0,
            load_stall: 0,
            launch: 0,
            ideal: work.ideal,
            sram: work.sram,
            loading: Span::default(),
            computing: Span::default(),
            storing: Span::default(),
            bytes_read: once,
            bytes_written: demand.stores,
            bytes_reread: MemoryBytes::default(),
            macs: work.macs,
            tiling: Tiling::default(),
            buffered: 0,
        };
        if !self.modelled {
            return time;
        }
        let tiling = self.tiling(demand, given);
        let spent = self.spent(demand, &tiling);
        let from = self.finish;
        let later = |cycle: u64| cycle.saturating_add(from);
        let span = |span: Span| {
            if span.start < span.end {
                Span { start: later(span.start), end: later(span.end) }
            } else {
                Span::default()
            }
        };
        time.compute = demand.cycles;
        time.launch = self.overhead;
        (time.load, time.store) = (spent.load, spent.store);
        (time.stall, time.load_stall) = (spent.stall, spent.load_stall);
        (time.loading, time.storing) = (span(spent.loading), span(spent.storing));
        time.computing = Span { start: later(spent.computing.start), end: later(spent.computing.end) };
        time.start = if time.loading.start < time.loading.end {
            time.loading.start.min(time.computing.start)
        } else {
            time.computing.start
        };
        time.end = later(spent.end);
        time.bytes_read = spent.read;
        time.bytes_reread = std::array::from_fn(|at| spent.read[at].saturating_sub(once[at]));
        time.tiling = tiling;
        time.buffered = spent.held;
        self.finish = time.end;
        time
    }
}
