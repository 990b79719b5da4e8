//! Tiles: how a command's work is cut so that what is under way fits the buffers, and the order in which tiles follow
//! each other. Knows bytes and extents, no time.

use super::MemoryBytes;
use super::work::{Cut, Work};

/// Most tiles of a command.
pub(super) const MAX_TILES: u64 = 4096;

/// What the outer of a tiling's two loops goes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// No loops: each tile has the same part of everything.
    #[default]
    Even,
    /// Bands of maps outside, panels of weights inside: each band is read once, and all weights pass it.
    Bands,
    /// Panels of weights outside, bands inside: each panel is read once, and all bands pass it.
    Panels,
}

impl Order {
    /// The word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Bands => "bands",
            Self::Panels => "panels",
        }
    }
}

/// How a command's work is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// Which loop is the outer one.
    pub order: Order,
    /// Bands of rows of results that maps are cut into; tiles, with [`Order::Even`].
    pub bands: u32,
    /// Panels of outputs that weights are cut into.
    pub panels: u32,
    /// Pieces that each panel's inner products are cut into; more than 1 with [`Order::Bands`] alone. Partial sums wait in
    /// the buffers.
    pub chunks: u32,
    /// Of the inner loop's operand, the tiles (bands, or pieces of panels) that stay in the buffers once they are read.
    pub kept: u32,
    /// Tiles under way at once: with 2, one is loaded or stored beside the computation of another.
    pub depth: u32,
}

impl Default for Tiling {
    fn default() -> Self {
        Self { order: Order::Even, bands: 1, panels: 1, chunks: 1, kept: 0, depth: 1 }
    }
}

impl Tiling {
    /// Tiles in all.
    pub const fn tiles(&self) -> u64 {
        (self.bands as u64).saturating_mul(self.panels as u64).saturating_mul(self.chunks as u64)
    }

    /// Pieces of weights.
    pub(super) const fn pieces(&self) -> u64 {
        (self.panels as u64).saturating_mul(self.chunks as u64)
    }

    /// Tiles that give results.
    const fn results(&self) -> u64 {
        (self.bands as u64).saturating_mul(self.panels as u64)
    }
}

/// A sum cut into equal parts: the first ones have one more where it does not divide.
#[derive(Clone, Copy)]
struct Split {
    least: MemoryBytes,
    more: MemoryBytes,
}

impl Split {
    fn new(total: &MemoryBytes, parts: u64) -> Self {
        let mut split = Self { least: *total, more: NOTHING };
        if parts > 1 {
            for (memory, &bytes) in total.iter().enumerate() {
                // Most memories have nothing of it, and divisions take long.
                if bytes > 0 {
                    (split.least[memory], split.more[memory]) = (bytes / parts, bytes % parts);
                }
            }
        }
        split
    }

    fn part(&self, at: u64) -> MemoryBytes {
        std::array::from_fn(|memory| self.least[memory] + u64::from(at < self.more[memory]))
    }

    /// How many parts from `at` on are as large as it.
    fn alike(&self, at: u64) -> u64 {
        let ahead = self.more.iter().filter(|&&more| more > at).map(|&more| more - at);
        ahead.min().unwrap_or(u64::MAX)
    }

    /// The first `count` parts together.
    fn first(&self, count: u64) -> MemoryBytes {
        std::array::from_fn(|memory| self.least[memory] * count + count.min(self.more[memory]))
    }
}

pub(super) fn plus(a: &MemoryBytes, b: &MemoryBytes) -> MemoryBytes {
    std::array::from_fn(|at| a[at].saturating_add(b[at]))
}

/// What a command moves, per memory, and how it can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    /// Cycles before it can compute.
    pub(super) launch: u64,
    /// Weights and parameters: what panels are cut from.
    pub(super) weights: MemoryBytes,
    /// The map that bands are cut from.
    pub(super) map: MemoryBytes,
    /// Further inputs, of which a tile needs what its results need.
    pub(super) beside: MemoryBytes,
    /// Results.
    pub(super) stores: MemoryBytes,
    /// Cycles of the array or the vector unit.
    pub(super) cycles: u64,
    /// How it can be cut, if not evenly only.
    pub(super) cut: Option<Cut>,
}

/// The bands of a map.
pub(super) struct Banding<'a> {
    cut: &'a Cut,
    bands: u64,
    /// Rows of results of the last bands; the first ones have one more.
    least: u64,
    more: u64,
    /// Bytes of a row of the input.
    row: MemoryBytes,
    map: MemoryBytes,
}

impl Banding<'_> {
    /// Bytes that band `at` reads.
    fn band(&self, at: u64) -> MemoryBytes {
        if self.bands == 1 {
            return self.map;
        }
        let (from, height) = self.rows(at);
        let read = self.cut.rows_read(from, from + height);
        std::array::from_fn(|memory| self.row[memory].saturating_mul(read).min(self.map[memory]))
    }

    /// The first row of results of band `at`, and how many it has.
    fn rows(&self, at: u64) -> (u64, u64) {
        (self.least * at + at.min(self.more), self.least + u64::from(at < self.more))
    }

    /// How many bands from `at` on read as much as it: they are as high, and no window of theirs reaches beyond the map.
    fn alike(&self, at: u64) -> u64 {
        let as_high = if at < self.more { self.more } else { self.bands } - at;
        let (from, height) = self.rows(at);
        let until = self.cut.alike_until(from);
        ((until - from) / height.max(1)).clamp(1, as_high)
    }
}

/// What one tile loads, computes and stores.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) weights: MemoryBytes,
    pub(super) data: MemoryBytes,
    pub(super) stores: MemoryBytes,
    pub(super) cycles: u64,
}

const NOTHING: MemoryBytes = [0; crate::spec::MAX_MEMORIES];

impl Demand {
    /// Bytes of a command's `work` in the memories that `places` finds.
    pub(super) fn new<E>(work: &Work, places: impl Fn(crate::Addr) -> Result<usize, E>) -> Result<Self, E> {
        let mut demand = Self {
            launch: work.launch,
            weights: NOTHING,
            map: NOTHING,
            beside: NOTHING,
            stores: NOTHING,
            cycles: work.cycles,
            cut: work.cut,
        };
        let add = |bytes: &mut MemoryBytes, traffic: super::work::Traffic| -> Result<(), E> {
            let memory = places(traffic.0)?;
            bytes[memory] = bytes[memory].saturating_add(traffic.1);
            Ok(())
        };
        for traffic in work.constants.into_iter().flatten() {
            add(&mut demand.weights, traffic)?;
        }
        let panels = work.cut.is_some_and(|cut| cut.second_is_weights);
        for (index, traffic) in work.reads.into_iter().enumerate() {
            let Some(traffic) = traffic else { continue };
            let bytes = match index {
                0 => &mut demand.map,
                1 if panels => &mut demand.weights,
                _ => &mut demand.beside,
            };
            add(bytes, traffic)?;
        }
        if let Some(traffic) = work.write {
            add(&mut demand.stores, traffic)?;
        }
        Ok(demand)
    }

    /// All bytes that it moves when each is read once.
    pub(super) fn total(&self) -> u64 {
        let all = self.weights.iter().chain(&self.map).chain(&self.beside).chain(&self.stores);
        all.fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Bytes of the map that each of `bands` reads: rows that two bands need are read by both.
    pub(super) fn banding<'a>(&self, cut: &'a Cut, bands: u64) -> Banding<'a> {
        let all = cut.rows_in();
        let row = if bands > 1 { self.map.map(|bytes| bytes.div_ceil(all)) } else { self.map };
        Banding { cut, bands, least: cut.rows / bands, more: cut.rows % bands, row, map: self.map }
    }

    /// Calls `each` for every tile in turn, with how many from it on are alike, it included. What that gives is how many of them are
    /// done; after 0 there are no more.
    pub(super) fn steps(&self, tiling: &Tiling, mut each: impl FnMut(&Step, u64) -> u64) {
        let tiles = Tiles::new(self, tiling);
        let mut at = 0;
        while at < tiles.count {
            let (step, alike) = tiles.at(at);
            match each(&step, alike.min(tiles.count - at)) {
                0 => return,
                done => at += done,
            }
        }
    }
}

/// The tiles of a command that is cut in one way.
struct Tiles<'a> {
    count: u64,
    order: Order,
    banding: Option<Banding<'a>>,
    chunks: u64,
    /// Turns of the inner loop.
    inner: u64,
    kept: u64,
    weights: Split,
    /// The map, where it is cut evenly.
    map: Split,
    beside: Split,
    stores: Split,
    /// Cycles of a tile, and the first ones that have one more.
    cycles: [u64; 2],
}

impl<'a> Tiles<'a> {
    fn new(demand: &'a Demand, tiling: &Tiling) -> Self {
        let (count, results) = (tiling.tiles(), tiling.results());
        let cut = demand.cut.as_ref().filter(|_| tiling.order != Order::Even);
        Self {
            count,
            order: if cut.is_some() { tiling.order } else { Order::Even },
            banding: cut.map(|cut| demand.banding(cut, tiling.bands.into())),
            chunks: tiling.chunks.into(),
            inner: if tiling.order == Order::Bands { tiling.pieces() } else { tiling.bands.into() },
            kept: tiling.kept.into(),
            weights: Split::new(&demand.weights, if cut.is_some() { tiling.pieces() } else { count }),
            map: Split::new(&demand.map, count),
            beside: Split::new(&demand.beside, results),
            stores: Split::new(&demand.stores, results),
            cycles: [demand.cycles / count, demand.cycles % count],
        }
    }

    /// Tile `at`, and how many tiles from it on are alike.
    fn at(&self, at: u64) -> (Step, u64) {
        let [cycles, more] = self.cycles;
        let (cycles, alike) = if at < more { (cycles + 1, more - at) } else { (cycles, u64::MAX) };
        let step = Step { weights: NOTHING, data: NOTHING, stores: NOTHING, cycles };
        match (self.order, &self.banding) {
            (Order::Bands, Some(banding)) => self.in_bands(at, banding, step, alike),
            (Order::Panels, Some(banding)) => self.in_panels(at, banding, step, alike),
            _ => self.even(at, step, alike),
        }
    }

    fn even(&self, at: u64, step: Step, alike: u64) -> (Step, u64) {
        let all = [&self.weights, &self.map, &self.beside, &self.stores];
        let alike = all.iter().fold(alike, |least, split| least.min(split.alike(at)));
        let data = plus(&self.map.part(at), &self.beside.part(at));
        (Step { weights: self.weights.part(at), data, stores: self.stores.part(at), ..step }, alike)
    }

    /// Bands outside, pieces of weights inside.
    fn in_bands(&self, at: u64, banding: &Banding<'_>, mut step: Step, mut alike: u64) -> (Step, u64) {
        let (band, piece) = (at / self.inner, at % self.inner);
        // With one piece a band, tiles are bands; else those of a band are alike, but for the first ones, which load it.
        let single = self.inner == 1;
        alike = alike.min(match (single, piece < self.chunks || self.chunks > 1) {
            (true, _) if band == 0 && self.kept > 0 => 1,
            (true, _) => banding.alike(band),
            (false, true) => 1,
            (false, false) => self.inner - piece,
        });
        if band == 0 || piece >= self.kept {
            step.weights = self.weights.part(piece);
            alike = alike.min(if single { u64::MAX } else { self.weights.alike(piece) });
        } else {
            alike = alike.min(if single { u64::MAX } else { self.kept - piece });
        }
        if piece < self.chunks {
            step.data = Split::new(&banding.band(band), self.chunks).part(piece);
        }
        if (piece + 1).is_multiple_of(self.chunks) {
            let result = (band * self.inner + piece) / self.chunks;
            step.data = plus(&step.data, &self.beside.part(result));
            step.stores = self.stores.part(result);
            alike = alike.min(self.beside.alike(result)).min(self.stores.alike(result));
        }
        (step, alike)
    }

    /// Panels of weights outside, bands inside.
    fn in_panels(&self, at: u64, banding: &Banding<'_>, mut step: Step, mut alike: u64) -> (Step, u64) {
        let (panel, band) = (at / self.inner, at % self.inner);
        step.data = self.beside.part(at);
        step.stores = self.stores.part(at);
        alike = alike.min(self.beside.alike(at)).min(self.stores.alike(at));
        // With a single band tiles are panels; it stays for all of them.
        let single = self.inner == 1;
        alike = alike.min(match (single, band) {
            (true, _) if panel == 0 => 1,
            (true, _) => self.weights.alike(panel),
            (false, 0) => 1,
            (false, _) => self.inner - band,
        });
        if band == 0 {
            step.weights = self.weights.part(panel);
        }
        if panel == 0 || (band >= self.kept && !single) {
            step.data = plus(&step.data, &banding.band(band));
            alike = alike.min(if single { u64::MAX } else { banding.alike(band) });
        } else if !single {
            alike = alike.min(self.kept - band);
        }
        (step, alike)
    }
}

/// What the bands of a map ask for, whatever the panels: found once per number of bands.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    /// How many.
    pub(super) count: u64,
    /// Bytes of the largest.
    largest: MemoryBytes,
    /// Bytes of the first, where its map is loaded piece by piece: those of a piece at least.
    pub(super) head: MemoryBytes,
    /// Bytes of the first ones, up to each quarter of them.
    first: [MemoryBytes; 5],
}

/// `quarter` quarters of `count`, rounded up.
pub(super) const fn quarters(count: u64, quarter: u64) -> u64 {
    (count * quarter).div_ceil(4)
}

impl Bands {
    /// Those of a command that is cut evenly.
    pub(super) const NONE: Self = Self { count: 0, largest: NOTHING, head: NOTHING, first: [NOTHING; 5] };
}

impl Demand {
    pub(super) fn bands(&self, cut: &Cut, count: u64) -> Bands {
        let mut found = Bands { count, largest: NOTHING, head: NOTHING, first: [NOTHING; 5] };
        let (mut sum, banding) = (NOTHING, self.banding(cut, count));
        found.head = banding.band(0);
        let mut at = 0;
        while at < count {
            let (bytes, alike) = (banding.band(at), banding.alike(at));
            let first = |bands: u64| -> MemoryBytes {
                std::array::from_fn(|memory| sum[memory].saturating_add(bytes[memory].saturating_mul(bands)))
            };
            // Quarters of few bands can be all of them.
            for (quarter, part) in found.first.iter_mut().enumerate() {
                let end = quarters(count, quarter as u64);
                if (at + 1..=at + alike).contains(&end) {
                    *part = first(end - at);
                }
            }
            sum = first(alike);
            found.largest = std::array::from_fn(|memory| found.largest[memory].max(bytes[memory]));
            at += alike;
        }
        found
    }

    /// What a tiling reads of weights, map and further inputs, and what it holds in the buffers at once of what lies in
    /// other memories than `near`.
    ///
    /// `quarter` says which part of the inner loop's operand the tiling keeps.
    pub(super) fn amounts(
        &self,
        tiling: &Tiling,
        quarter: u64,
        bands: &Bands,
        near: Option<usize>,
    ) -> Amounts {
        let far = |bytes: &MemoryBytes| {
            let sum = |sum: u64, (memory, &bytes): (usize, &u64)| {
                if near == Some(memory) { sum } else { sum.saturating_add(bytes) }
            };
            bytes.iter().enumerate().fold(0, sum)
        };
        let (depth, kept) = (u64::from(tiling.depth), u64::from(tiling.kept));
        let (count, results) = (u64::from(tiling.bands), tiling.results());
        let times = |bytes: &MemoryBytes, count: u64| bytes.map(|bytes| bytes.saturating_mul(count));
        let largest = |total: &MemoryBytes, parts: u64| far(&total.map(|bytes| bytes.div_ceil(parts)));
        let waiting = |total: &MemoryBytes| largest(total, results).saturating_mul(depth.min(results));
        let passing = waiting(&self.stores).saturating_add(waiting(&self.beside));
        let pieces = tiling.pieces();
        let piece = largest(&self.weights, pieces);
        let (weights, map, weights_held, map_held) = match (tiling.order, self.cut.as_ref()) {
            (Order::Even, _) | (_, None) => {
                let held = |total| largest(total, count).saturating_mul(depth.min(count));
                (self.weights, self.map, held(&self.weights), held(&self.map))
            }
            (Order::Bands, Some(_)) => {
                let split = Split::new(&self.weights, pieces);
                let staying = split.first(kept);
                let rest: MemoryBytes = std::array::from_fn(|memory| self.weights[memory] - staying[memory]);
                let under_way = depth.min(count.saturating_mul(pieces - kept));
                (
                    plus(&staying, &times(&rest, count)),
                    bands.first[4],
                    far(&staying).saturating_add(piece.saturating_mul(under_way)),
                    far(&bands.largest).saturating_mul(count.min(1 + (depth - 1).div_ceil(pieces))),
                )
            }
            (Order::Panels, Some(_)) => {
                let panels = u64::from(tiling.panels);
                // A single band stays for all panels.
                let (kept, quarter) = if count == 1 { (1, 4) } else { (kept, quarter as usize) };
                let [staying, all] = [bands.first[quarter], bands.first[4]];
                let rest: MemoryBytes = std::array::from_fn(|memory| all[memory] - staying[memory]);
                let under_way = depth.min(panels.saturating_mul(count - kept));
                (
                    self.weights,
                    plus(&staying, &times(&rest, panels)),
                    piece.saturating_mul(panels.min(1 + (depth - 1).div_ceil(count))),
                    far(&staying).saturating_add(far(&bands.largest).saturating_mul(under_way)),
                )
            }
        };
        let sums = match self.cut.as_ref() {
            Some(cut) if tiling.chunks > 1 => cut.sums.div_ceil(results),
            _ => 0,
        };
        let held = weights_held.saturating_add(map_held).saturating_add(passing).saturating_add(sums);
        Amounts { weights, map, held }
    }
}

/// What a tiling costs in bytes.
#[derive(Clone, Copy)]
pub(super) struct Amounts {
    /// Bytes of weights that are read.
    pub(super) weights: MemoryBytes,
    /// Bytes of the map that are read.
    pub(super) map: MemoryBytes,
    /// Most bytes in the buffers at once.
    pub(super) held: u64,
}

impl Demand {
    /// Whether a tiling has no more bands, panels and pieces than there are rows, outputs and inner products.
    pub(super) fn allows(&self, tiling: &Tiling) -> bool {
        let [bands, panels, chunks, kept] =
            [tiling.bands, tiling.panels, tiling.chunks, tiling.kept].map(u64::from);
        if bands.min(panels).min(chunks) == 0 || tiling.depth == 0 || tiling.tiles() > MAX_TILES {
            return false;
        }
        match (tiling.order, &self.cut) {
            (Order::Even, _) => panels == 1 && chunks == 1 && kept == 0,
            (_, None) => false,
            (Order::Bands, Some(cut)) => {
                bands <= cut.rows && panels <= cut.panels && chunks <= cut.chunks && kept <= panels * chunks
            }
            (Order::Panels, Some(cut)) => {
                bands <= cut.rows && panels <= cut.panels && chunks == 1 && kept <= bands
            }
        }
    }

    /// Bytes that a tiling holds in the buffers at once.
    pub(super) fn held(&self, tiling: &Tiling, near: Option<usize>) -> u64 {
        let bands = match &self.cut {
            Some(cut) if tiling.order != Order::Even => self.bands(cut, tiling.bands.into()),
            _ => Bands::NONE,
        };
        let inner = if tiling.order == Order::Panels { tiling.bands.into() } else { tiling.pieces() };
        let quarter = (0..4).find(|&quarter| quarters(inner, quarter) >= tiling.kept.into()).unwrap_or(4);
        self.amounts(tiling, quarter, &bands, near).held
    }
}
