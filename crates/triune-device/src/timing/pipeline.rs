//! One command's tiles through the engine's queues: what is loaded, computed and stored while something else is.

use super::{
    MemoryBytes, Span, TileTime,
    engine::{Engine, Queues, Transfer},
    tiling::{Demand, Step, Tiling, plus},
};

/// What the tiles of one command take, in cycles since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// A tile that is loaded and not yet computed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// When its loads pass the ports.
    loading: Span,
    /// When they are there.
    loaded: u64,
    cycles: u64,
    stores: MemoryBytes,
}

/// Tiles on their way through the queues.
#[derive(Clone, Debug)]
struct Flow<'a> {
    queues: Queues<'a>,
    spent: Spent,
    waiting: Option<Waiting>,
    /// Tiles that are computed.
    done: u64,
    /// Cycles of the tiles that are not loaded yet.
    left: u64,
}

impl Flow<'_> {
    /// Computes and stores the tile that waits for it; gives its place in time.
    fn finish(&mut self) -> Option<TileTime> {
        let Waiting { loading, loaded, cycles, stores } = self.waiting.take()?;
        let spent = &mut self.spent;
        let run = self.queues.execute(loaded, cycles);
        // Not `cover`: a command that only moves data still has its place between its neighbours.
        let start = if self.done == 0 { run.start } else { spent.computing.start };
        self.done += 1;
        spent.computing = Span { start, end: run.finish };
        spent.stall = spent.stall.saturating_add(run.stall);
        spent.load_stall = spent.load_stall.saturating_add(run.load_stall);
        let stored = self.queues.store(&stores, run.finish);
        spent.store = spent.store.saturating_add(stored.busy);
        spent.storing.cover(stored.ports);
        spent.end = spent.end.max(stored.finish);
        let computing = Span { start: run.start, end: run.finish };
        Some(TileTime { loading, computing, storing: stored.ports })
    }

    /// Loads a tile, and finishes the one before it: afterwards, unless that one is in its room. False once more than `most` cycles
    /// are sure.
    fn step(&mut self, step: &Step, most: u64, mut each: impl FnMut(TileTime)) -> bool {
        if !self.queues.overlapping() {
            self.finish().map(&mut each);
        }
        self.queues.open();
        let (weights, data) = (self.queues.load(&step.weights), self.queues.load(&step.data));
        self.spent.loaded(&weights);
        self.spent.loaded(&data);
        self.spent.read = plus(&self.spent.read, &plus(&step.weights, &step.data));
        let loaded = weights.finish.max(data.finish);
        let mut loading = weights.ports;
        loading.cover(data.ports);
        // What is not loaded before it is computed behind it.
        let ends = loaded.saturating_add(self.left);
        self.left -= step.cycles;
        self.finish().map(&mut each);
        self.waiting = Some(Waiting { loading, loaded, cycles: step.cycles, stores: step.stores });
        let spent = &mut self.spent;
        spent.cut_short = ends > most || spent.computing.end.saturating_add(self.left) > most;
        !spent.cut_short
    }

    /// The flow after `times` times as many further tiles like `step` as there were since `before`, all like it, too: if everything that
    /// they depend on is later by the same, everything that follows is. `None` if that is not so.
    ///
    /// A tile's times are maxima of what there was, plus constants: with all of that later by n, they are, too.
    fn after(&self, before: &Self, step: &Step, times: u64) -> Option<Self> {
        let moved: MemoryBytes = plus(&plus(&step.weights, &step.data), &step.stores);
        let later = self.queues.later_than(&before.queues, &moved)?;
        let (waiting, waited) = (self.waiting.as_ref()?, before.waiting.as_ref()?);
        if waiting.loaded.checked_sub(waited.loaded)? != later {
            return None;
        }
        let shift = later.checked_mul(times)?;
        let (spent, was) = (&self.spent, &before.spent);
        // What ends last may be of earlier tiles yet; then that is not later by as much.
        let loads = plus(&step.weights, &step.data);
        let nothing = [loads, step.stores].map(|bytes| bytes.iter().all(|&bytes| bytes == 0));
        let ends = [
            (spent.loading.end, was.loading.end, nothing[0]),
            (spent.storing.end, was.storing.end, nothing[1]),
            (spent.computing.end, was.computing.end, false),
            (spent.end, was.end, false),
        ];
        if before.done == 0
            || ends.iter().any(|(now, then, none)| now - then != if *none { 0 } else { later })
        {
            return None;
        }
        let mut flow = Self { queues: self.queues.later(shift, &moved)?, ..self.clone() };
        let more = |now: u64, then: u64| now.checked_add((now - then).checked_mul(times)?);
        let span = |now: Span, then: Span| Some(Span { start: now.start, end: more(now.end, then.end)? });
        flow.spent = Spent {
            end: more(spent.end, was.end)?,
            load: more(spent.load, was.load)?,
            store: more(spent.store, was.store)?,
            stall: more(spent.stall, was.stall)?,
            load_stall: more(spent.load_stall, was.load_stall)?,
            loading: span(spent.loading, was.loading)?,
            computing: span(spent.computing, was.computing)?,
            storing: span(spent.storing, was.storing)?,
            ..*spent
        };
        for (at, bytes) in flow.spent.read.iter_mut().enumerate() {
            *bytes = more(*bytes, was.read[at])?;
        }
        flow.waiting = Some(Waiting {
            loaded: waiting.loaded.checked_add(shift)?,
            loading: waiting.loading.later(shift),
            ..*waiting
        });
        flow.done = more(self.done, before.done)?;
        flow.left = self.left - (before.left - self.left) * times;
        Some(flow)
    }
}

/// Tiles that are alike, for their periods to be looked for.
const LONG: u64 = 4;

/// Runs a command's tiles, or as many of them as it takes to see that they take more than `most` cycles.
pub(super) fn run(engine: &Engine, demand: &Demand, tiling: &Tiling, most: u64) -> Spent {
    let mut flow = Flow::new(engine, demand, tiling);
    let depth = flow.queues.depth();
    demand.steps(tiling, |step, alike| {
        if alike < LONG * depth {
            return u64::from(flow.step(step, most, |_| {}));
        }
        let mut before: Option<Flow<'_>> = None;
        let mut at = 0;
        while at < alike {
            if !flow.step(step, most, |_| {}) {
                return 0;
            }
            at += 1;
            let periods = (alike - at) / depth;
            // The slots of the queues are the same ones again; the tile that waits is the first of these once there was one.
            if periods == 0 || !at.is_multiple_of(depth) {
                continue;
            }
            match before.as_ref().and_then(|before| flow.after(before, step, periods)) {
                Some(after) => {
                    flow = after;
                    at += periods * depth;
                    before = None;
                }
                None => before = Some(flow.clone()),
            }
        }
        alike
    });
    flow.end()
}

/// As [`run`] of all tiles, and gives every tile's place in time, in cycles since the command began.
pub(super) fn run_each(
    engine: &Engine,
    demand: &Demand,
    tiling: &Tiling,
    mut each: impl FnMut(TileTime),
) -> Spent {
    let mut flow = Flow::new(engine, demand, tiling);
    demand.steps(tiling, |step, _| u64::from(flow.step(step, u64::MAX, &mut each)));
    if let Some(tile) = flow.finish() {
        each(tile);
    }
    flow.end()
}

impl<'a> Flow<'a> {
    fn new(engine: &'a Engine, demand: &Demand, tiling: &Tiling) -> Self {
        Self {
            queues: Queues::new(engine, tiling.depth, demand.launch),
            spent: Spent::default(),
            waiting: None,
            done: 0,
            left: demand.cycles,
        }
    }

    /// What all tiles took.
    fn end(mut self) -> Spent {
        self.finish();
        let mut spent = self.spent;
        // What is still to be stored keeps the next command waiting.
        spent.stall = spent.stall.saturating_add(spent.end - spent.computing.end);
        spent
    }
}

/// Cycles from a command's beginning until its last result is stored; of those that are more than `most`, some that are, too.
pub(super) fn cycles(engine: &Engine, demand: &Demand, tiling: &Tiling, most: u64) -> u64 {
    let spent = run(engine, demand, tiling, most);
    if spent.cut_short { u64::MAX } else { spent.end }
}

#[cfg(test)]
mod tests {
    use triune_testing::Random;

    use super::*;
    use crate::command::Window;
    use crate::spec::DeviceSpec;
    use crate::timing::tiling::Order;
    use crate::timing::work::Cut;
    use crate::{Addr, FeatureMap};
    use triune_tensor::DType;

    /// A demand that is cut by rows of windows, or evenly, and a tiling of it; its bytes lie anywhere.
    fn random(random: &mut Random) -> (Demand, Tiling) {
        let mut bytes = |most: usize| -> MemoryBytes {
            std::array::from_fn(|at| {
                let some = at < 3 && random.below(3) > 0;
                if some { random.below(most) as u64 } else { 0 }
            })
        };
        let (weights, map, beside, stores) = (bytes(90_000), bytes(90_000), bytes(9_000), bytes(60_000));
        let size = random.between(1, 200) as u32;
        let kernel = random.between(1, 5) as u32;
        let window = Window {
            kernel: [kernel; 2],
            stride: [random.between(1, 3) as u32; 2],
            dilation: [1; 2],
            pad: [random.below(3) as u32; 4],
            groups: 1,
        };
        let out = ((size + 2 * window.pad[0]).max(kernel) - kernel) / window.stride[0] + 1;
        let map_of = |size: u32, c| FeatureMap::dense(Addr::new(0, 0), DType::I8, [1, size, size, c]);
        let spec = DeviceSpec::builtin("metis").expect("builtin");
        let cut = Cut::of_window(&spec, &map_of(size, 16), &map_of(out, 64), &window);
        let order = [Order::Even, Order::Bands, Order::Panels][random.below(3)];
        let even = order == Order::Even;
        let bands = random.between(1, if even { 300 } else { cut.rows.min(300) as usize });
        let panels = if even { 1 } else { random.between(1, cut.panels.min(20) as usize) };
        let chunks = if order == Order::Bands { random.between(1, cut.chunks.min(3) as usize) } else { 1 };
        let inner = if order == Order::Bands { panels * chunks } else { bands };
        let kept = if even { 0 } else { random.between(0, inner) };
        let [bands, panels, chunks, kept] = [bands, panels, chunks, kept].map(|count| count as u32);
        let depth = random.between(1, 4) as u32;
        let tiling = Tiling { order, bands, panels, chunks, kept, depth };
        let (launch, cycles) = (random.below(500) as u64, random.below(200_000) as u64);
        (Demand { launch, weights, map, beside, stores, cycles, cut: Some(cut) }, tiling)
    }

    /// What is found by periods is what comes out tile by tile.
    #[test]
    fn periods_are_what_they_stand_for() {
        let mut numbers = Random(41);
        let mut spec = DeviceSpec::builtin("metis").expect("builtin");
        for round in 0..20_000 {
            if round % 20 == 0 {
                for memory in &mut spec.memory {
                    memory.bytes_per_second = None;
                    memory.bytes_per_cycle =
                        Some([numbers.between(1, 200), numbers.between(1, 9)].map(|number| number as u32));
                    memory.latency_cycles = numbers.below(100) as u32;
                    (memory.row_bytes, memory.row_ns) = (Some(1024), numbers.below(30) as u32);
                }
            }
            let engine = Engine::new(&spec, 800, numbers.between(1, 4) as u32);
            let (demand, tiling) = random(&mut numbers);
            if !demand.allows(&tiling) {
                continue;
            }
            let by_periods = run(&engine, &demand, &tiling, u64::MAX);
            let mut tiles = 0;
            let each = run_each(&engine, &demand, &tiling, |_| tiles += 1);
            assert_eq!(by_periods, each, "{demand:?} {tiling:?}");
            assert_eq!(tiles, tiling.tiles());
        }
    }
}
