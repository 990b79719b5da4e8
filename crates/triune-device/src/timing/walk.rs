//! The walk over a program's commands: one after the other, each tile by tile through the engine's queues.

use std::sync::OnceLock;

use super::{
    CommandTime, MemoryBytes, Span, TileTime, TimingOptions,
    engine::{Engine, MAX_DEPTH},
    pipeline::{Spent, run, run_each},
    search::{Room, best},
    tiling::{Demand, Tiling, plus},
    work::{self, Work},
};
use crate::Error;
use crate::command::{Command, Opcode};
use crate::spec::{DeviceSpec, TimingModel};

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

/// The walk over the commands of a program.
pub(super) struct Walk {
    engine: Engine,
    room: Room,
    modelled: bool,
    pub(super) launch: u64,
    /// When everything so far is stored.
    pub(super) finish: u64,
    /// What was found for commands that ask for the same, by their kind.
    known: Vec<Known>,
}

/// What a command asks for.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) opcode: Opcode,
    pub(super) work: Work,
    pub(super) demand: Demand,
    /// The same of all commands with this demand.
    pub(super) kind: usize,
    /// What the first tiling that was asked about holds in the buffers, whatever the circumstances.
    pub(super) held: OnceLock<(Tiling, u64)>,
}

/// What was found for a kind of command.
#[derive(Clone, Copy, Default)]
struct Known {
    best: Option<Tiling>,
    /// What the last one took, and how it was cut.
    last: Option<(Tiling, Spent)>,
}

impl Walk {
    /// Over commands of so many kinds.
    pub(super) fn new(spec: &DeviceSpec, clock_mhz: u32, options: &TimingOptions, kinds: usize) -> Self {
        let active_cores = options.active_cores;
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
            launch,
            finish: launch,
            known: vec![Known::default(); kinds],
        }
    }

    /// Bytes that tiles under way have; none without a limit.
    pub(super) const fn buffer_bytes(&self) -> Option<u64> {
        self.room.bytes
    }

    /// The tiling to use for a command, the given one, if it can be cut so, or the best; and what it takes then.
    fn spent(&mut self, asked: &Asking, given: Option<&Tiling>) -> (Tiling, Spent) {
        let (demand, known) = (&asked.demand, &mut self.known[asked.kind]);
        let allowed =
            |given: &&Tiling| known.last.is_some_and(|(own, _)| own == **given) || demand.allows(given);
        let tiling = match given.filter(allowed) {
            Some(given) => *given,
            None => *known.best.get_or_insert_with(|| best(&self.engine, demand, &self.room)),
        };
        if let Some((_, spent)) = known.last.filter(|(own, _)| *own == tiling) {
            return (tiling, spent);
        }
        let mut spent = run(&self.engine, demand, &tiling, u64::MAX);
        let hold = || (tiling, demand.held(&tiling, self.room.near));
        let (own, held) = *asked.held.get_or_init(hold);
        spent.held = if own == tiling { held } else { hold().1 };
        known.last = Some((tiling, spent));
        (tiling, spent)
    }

    /// When each tile of a command is in each queue; none for the time of another command.
    pub(super) fn tiles(&self, demand: &Demand, time: &CommandTime) -> Option<Vec<TileTime>> {
        if !self.modelled {
            return Some(Vec::new());
        }
        if !demand.allows(&time.tiling) {
            return None;
        }
        let mut tiles = Vec::with_capacity(usize::try_from(time.tiling.tiles()).ok()?);
        let spent = run_each(&self.engine, demand, &time.tiling, |tile| tiles.push(tile));
        // Stages that are appended are delayed together, so a command begins where its end says.
        let from = time.end.checked_sub(spent.end)?;
        if (spent.load, spent.store, spent.stall) != (time.load, time.store, time.stall) {
            return None;
        }
        for tile in &mut tiles {
            for span in [&mut tile.loading, &mut tile.computing, &mut tile.storing] {
                *span = span.later(from);
            }
        }
        Some(tiles)
    }

    /// The next command's time, by a given tiling or by the best.
    pub(super) fn command(&mut self, index: usize, asked: &Asking, given: Option<&Tiling>) -> CommandTime {
        let Asking { opcode, work, demand, .. } = asked;
        let once = plus(&demand.weights, &plus(&demand.map, &demand.beside));
        let mut time = CommandTime {
            index: index as u32,
            opcode: *opcode,
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
            taps: work.taps,
            elements: work.elements,
            tiling: Tiling::default(),
            buffered: 0,
        };
        if !self.modelled {
            return time;
        }
        let (tiling, spent) = self.spent(asked, given);
        let from = self.finish;
        let later = |cycle: u64| cycle.saturating_add(from);
        time.compute = demand.cycles;
        time.launch = demand.launch;
        (time.load, time.store) = (spent.load, spent.store);
        (time.stall, time.load_stall) = (spent.stall, spent.load_stall);
        (time.loading, time.storing) = (spent.loading.later(from), spent.storing.later(from));
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
