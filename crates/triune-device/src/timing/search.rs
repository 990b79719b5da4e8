//! The choice of a tiling: the one that takes the least time of all that fit the buffers.
//!
//! The tilings that are looked at depend on the command alone, and those that fit a buffer fit a larger one, too: a
//! resource that grows leaves every choice and makes none slower, so that no command takes longer. The engine times them,
//! beginning with those whose bounds are lowest, until no bound is below the best time.

use super::engine::Engine;
use super::pipeline;
use super::tiling::{Amounts, Bands, Demand, MAX_TILES, Order, Tiling, quarters};
use super::work::Cut;

/// Smallest block, in bytes moved, of a command on a device that states no size of its buffers.
const MIN_BLOCK_BYTES: u64 = 4096;
/// Tiles that any command can be cut into for the sake of a better overlap.
const FEW_TILES: u64 = 16;
/// Smallest tile, in bytes moved, when there are more.
const MIN_TILE_BYTES: u64 = 65_536;
/// Tilings that hold no more than this, wherever it lies, are looked at whatever the size of their tiles: small buffers need
/// them.
const SMALL_BUFFER_BYTES: u64 = 65_536;

/// What there is to choose from: buffers of `bytes`, if the device says so, of which `depth` tiles can be under way; else
/// `blocks` equal ones.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) bytes: Option<u64>,
    pub(super) depth: u64,
    pub(super) blocks: u64,
    /// The memory whose contents need no buffer.
    pub(super) near: Option<usize>,
}

/// A tiling that fits, and cycles that it cannot take less than.
#[derive(Clone, Copy)]
struct Candidate {
    bound: u64,
    tiling: Tiling,
    traffic: u64,
}

/// The best tiling of a command: the least time, then the least traffic, then the fewest tiles.
pub(super) fn best(engine: &Engine, demand: &Demand, room: &Room) -> Tiling {
    let mut search = Search { engine, demand, room, found: Vec::new(), least: None };
    search.collect();
    let mut found = search.found;
    // What holds least is always among them, fitting or not: a buffer that is smaller counts as that large.
    found.extend(search.least.map(|(_, least)| least));
    found.sort_unstable_by_key(|one| (one.bound, one.tiling.tiles()));
    let mut best: Option<([u64; 3], Tiling)> = None;
    for Candidate { bound, tiling, traffic } in found {
        if best.is_some_and(|(cost, _)| bound > cost[0]) {
            break;
        }
        let most = best.map_or(u64::MAX, |(cost, _)| cost[0]);
        let cost = [pipeline::cycles(engine, demand, &tiling, most), traffic, tiling.tiles()];
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, tiling));
        }
    }
    best.map(|(_, tiling)| tiling).unwrap_or_default()
}

struct Search<'a> {
    engine: &'a Engine,
    demand: &'a Demand,
    room: &'a Room,
    found: Vec<Candidate>,
    /// The tiling that holds the least bytes, and those.
    least: Option<(u64, Candidate)>,
}

/// 1, 2, 4, … and `most` itself.
fn ladder(most: u64) -> impl Iterator<Item = u64> + Clone {
    let most = most.clamp(1, MAX_TILES);
    let powers = (0..u64::BITS).map(|bit| 1 << bit).take_while(move |&count| count < most);
    powers.chain(std::iter::once(most))
}

impl Search<'_> {
    fn collect(&mut self) {
        let Some(cut) = self.demand.cut.filter(|_| self.room.bytes.is_some()) else {
            return self.even();
        };
        for count in ladder(cut.rows) {
            let bands = self.demand.bands(&cut, count);
            for panels in ladder(cut.panels) {
                if count * panels > MAX_TILES {
                    continue;
                }
                self.of_panels(&bands, panels);
                self.of_bands(&bands, panels, &cut);
            }
        }
    }

    /// Equal tiles.
    fn even(&mut self) {
        let total = self.demand.total();
        let bands = Bands::NONE;
        let counts: Vec<u64> = match self.room.bytes {
            None => (1..=(total / MIN_BLOCK_BYTES).clamp(1, self.room.blocks)).collect(),
            Some(_) => ladder(total / 1024).collect(),
        };
        for count in counts {
            let tiling = Tiling { bands: count as u32, ..Tiling::default() };
            self.depths(tiling, 0, &bands);
        }
    }

    /// Panels outside; a part of the bands stays.
    fn of_panels(&mut self, bands: &Bands, panels: u64) {
        let tiling = Tiling {
            order: Order::Panels,
            bands: bands.count as u32,
            panels: panels as u32,
            ..Tiling::default()
        };
        // With a single panel nothing is read twice, with a single band it stays.
        let most = if panels == 1 || bands.count == 1 { 0 } else { 4 };
        self.keeping(tiling, bands.count, most, bands);
    }

    /// Bands outside; a part of the weights stays.
    fn of_bands(&mut self, bands: &Bands, panels: u64, cut: &Cut) {
        for chunks in ladder(cut.chunks) {
            let pieces = panels * chunks;
            if bands.count * pieces > MAX_TILES {
                break;
            }
            // Without an inner loop it is the other order, too.
            if pieces == 1 && bands.count == 1 {
                continue;
            }
            let tiling = Tiling {
                order: Order::Bands,
                bands: bands.count as u32,
                panels: panels as u32,
                chunks: chunks as u32,
                ..Tiling::default()
            };
            let most = if bands.count == 1 { 0 } else { 4 };
            self.keeping(tiling, pieces, most, bands);
        }
    }

    /// Nothing of the inner loop's `inner` tiles stays, or some quarters of them do.
    fn keeping(&mut self, tiling: Tiling, inner: u64, most: u64, bands: &Bands) {
        let mut before = None;
        for quarter in 0..=most {
            let kept = quarters(inner, quarter);
            if before.replace(kept) != Some(kept) {
                self.depths(Tiling { kept: kept as u32, ..tiling }, quarter, bands);
            }
        }
    }

    fn depths(&mut self, tiling: Tiling, quarter: u64, bands: &Bands) {
        for depth in 1..=self.room.depth.min(tiling.tiles().max(1)) {
            self.offer(Tiling { depth: depth as u32, ..tiling }, quarter, bands);
        }
    }

    /// Remembers a tiling if it fits.
    fn offer(&mut self, tiling: Tiling, quarter: u64, bands: &Bands) {
        let amounts = self.demand.amounts(&tiling, quarter, bands, self.room.near);
        let least = self.least.is_none_or(|(held, _)| amounts.held < held);
        let fits = self.room.bytes.is_none_or(|bytes| {
            let tile = self.demand.total() / tiling.tiles();
            let worth = tiling.tiles() <= FEW_TILES || tile >= MIN_TILE_BYTES;
            let small = || self.demand.amounts(&tiling, quarter, bands, None).held <= SMALL_BUFFER_BYTES;
            amounts.held <= bytes && (worth || small())
        });
        if !least && !fits {
            return;
        }
        let bound = self.bound(&tiling, &amounts, bands);
        let traffic = [&amounts.weights, &amounts.map, &self.demand.beside, &self.demand.stores];
        let traffic = traffic.into_iter().flatten().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
        let candidate = Candidate { bound, tiling, traffic };
        if least {
            self.least = Some((amounts.held, candidate));
        }
        if fits {
            self.found.push(candidate);
        }
    }

    /// Cycles that a tiling takes at least: those of each port, of the computation between the first tile's loads or the
    /// launch and the last one's stores, and of tiles that wait for the one `depth` before them.
    fn bound(&self, tiling: &Tiling, amounts: &Amounts, bands: &Bands) -> u64 {
        let demand = self.demand;
        let (mut ports, mut loading, mut storing) = (0, 0, 0);
        let (mut first, mut last) = (demand.launch, 0);
        let (pieces, chunks) = (tiling.pieces(), u64::from(tiling.chunks));
        let results = u64::from(tiling.bands).saturating_mul(tiling.panels.into());
        let [mut before, mut behind] = [u64::MAX; 2];
        for memory in 0..demand.map.len() {
            let loads = amounts.weights[memory]
                .saturating_add(amounts.map[memory])
                .saturating_add(demand.beside[memory]);
            let stores = demand.stores[memory];
            let head = match tiling.order {
                Order::Even => {
                    (demand.weights[memory] / results).saturating_add(demand.map[memory] / results)
                }
                Order::Bands | Order::Panels => {
                    (demand.weights[memory] / pieces).saturating_add(bands.head[memory] / chunks)
                }
            };
            if let Some((cycles, latency)) = self.engine.at_least(memory, head).filter(|_| head > 0) {
                first = first.max(cycles.saturating_add(latency));
            }
            let tail = stores / results;
            if let Some((cycles, latency)) = self.engine.at_least(memory, tail).filter(|_| tail > 0) {
                last = last.max(cycles.saturating_add(latency));
            }
            if let Some((cycles, latency)) = self.engine.at_least(memory, loads).filter(|_| loads > 0) {
                loading = loading.max(cycles);
                before = before.min(latency);
            }
            if let Some((cycles, latency)) = self.engine.at_least(memory, stores).filter(|_| stores > 0) {
                storing = storing.max(cycles);
                behind = behind.min(latency);
            }
            if let Some((cycles, _)) = self.engine.at_least(memory, loads.saturating_add(stores)) {
                ports = ports.max(cycles);
            }
        }
        let count = u64::from(tiling.bands);
        let rotating = |once: u64, passes: u64, kept: u64| {
            once.saturating_add((passes - 1).saturating_mul(once - kept.min(once)))
        };
        let loaded = match tiling.order {
            Order::Even => count,
            Order::Bands => rotating(pieces, count, tiling.kept.into()).max(count),
            Order::Panels if count == 1 => u64::from(tiling.panels),
            Order::Panels => rotating(count, tiling.panels.into(), tiling.kept.into()),
        };
        let depth = u64::from(tiling.depth);
        let chain = |moving: u64, latency: u64, times: u64| {
            let waits = if latency == u64::MAX { 0 } else { latency.saturating_mul(times) };
            demand.cycles.saturating_add(moving).saturating_add(waits).div_ceil(depth)
        };
        let computed = first.saturating_add(demand.cycles).saturating_add(last);
        ports.max(computed).max(chain(loading, before, loaded)).max(chain(storing, behind, results))
    }
}
