//! One command's tiles through the engine's queues: what is loaded, computed and stored while something else is.

use super::{
    MemoryBytes, Span, TileTime,
    engine::{Engine, Queues, Transfer},
    tiling::{Demand, Step, Tiling, plus},
};

/// What the tiles of one command take, in cycles since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) end: u64,
    pub(super) load: u64,
    pub(super) store: u64,
    pub(super) stall: u64,
    pub(super) load_stall: u64,
    pub(super) loading: Span,
    pub(super) computing: Span,
    pub(super) storing: Span,
    pub(super) read: MemoryBytes,
    /// Most bytes in the buffers at once.
    pub(super) held: u64,
    /// Whether not all tiles were run.
    pub(super) cut_short: bool,
}

impl Spent {
    fn loaded(&mut self, transfer: &Transfer) {
        self.load = self.load.saturating_add(transfer.busy);
        self.loading.cover(transfer.ports);
    }
}

/// Runs a command's tiles, or as many of them as it takes to see that they take more than `most` cycles. A tile's loads are
/// issued before the tile before it is computed, unless that one is in their room.
pub(super) fn run(engine: &Engine, demand: &Demand, tiling: &Tiling, most: u64) -> Spent {
    run_each(engine, demand, tiling, most, |_| {})
}

/// As [`run`], and gives every tile's place in time, in cycles since the command began.
pub(super) fn run_each(
    engine: &Engine,
    demand: &Demand,
    tiling: &Tiling,
    most: u64,
    mut each: impl FnMut(TileTime),
) -> Spent {
    let mut spent = Spent::default();
    let mut queues = Queues::new(engine, tiling.depth, demand.launch);
    // The tile that is loaded and not yet computed: when its loads pass the ports and are there, what it computes and stores.
    let mut waiting: Option<(Span, u64, u64, MemoryBytes)> = None;
    let overlapping = queues.overlapping();
    let mut finish =
        |queues: &mut Queues<'_>, spent: &mut Spent, tile: (Span, u64, u64, MemoryBytes), first: bool| {
            let (loading, loaded, cycles, stores) = tile;
            let run = queues.execute(loaded, cycles);
            // Not `cover`: a command that only moves data still has its place between its neighbours.
            let start = if first { run.start } else { spent.computing.start };
            spent.computing = Span { start, end: run.finish };
            spent.stall = spent.stall.saturating_add(run.stall);
            spent.load_stall = spent.load_stall.saturating_add(run.load_stall);
            let stored = queues.store(&stores, run.finish);
            spent.store = spent.store.saturating_add(stored.busy);
            spent.storing.cover(stored.ports);
            spent.end = spent.end.max(stored.finish);
            let computing = Span { start: run.start, end: run.finish };
            each(TileTime { loading, computing, storing: stored.ports });
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
        let mut loading = weights.ports;
        loading.cover(data.ports);
        // What is not loaded before it is computed behind it.
        let ends = loaded.saturating_add(left);
        left -= step.cycles;
        if let Some(tile) = waiting.replace((loading, loaded, step.cycles, step.stores)) {
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
pub(super) fn cycles(engine: &Engine, demand: &Demand, tiling: &Tiling, most: u64) -> u64 {
    let spent = run(engine, demand, tiling, most);
    if spent.cut_short { u64::MAX } else { spent.end }
}
