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
        let from = self.least * at + at.min(self.more);
        let read = self.cut.rows_read(from, from + self.least + u64::from(at < self.more));
        std::array::from_fn(|memory| self.row[memory].saturating_mul(read).min(self.map[memory]))
    }
}

/// What one tile loads, computes and stores.
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

    /// Calls `each` for every tile in turn, while it gives true.
    pub(super) fn steps(&self, tiling: &Tiling, mut each: impl FnMut(&Step) -> bool) {
        let tiles = tiling.tiles();
        let beside = Split::new(&self.beside, tiling.results());
        let stores = Split::new(&self.stores, tiling.results());
        let weights = Split::new(&self.weights, tiling.pieces());
        let (bands, kept) = (u64::from(tiling.bands), u64::from(tiling.kept));
        let (least, more) = (self.cycles / tiles, self.cycles % tiles);
        let cycles = |at: u64| least + u64::from(at < more);
        let Some(cut) = self.cut.as_ref().filter(|_| tiling.order != Order::Even) else {
            let (weights, map) = (Split::new(&self.weights, tiles), Split::new(&self.map, tiles));
            for at in 0..tiles {
                let step = Step {
                    weights: weights.part(at),
                    data: plus(&map.part(at), &beside.part(at)),
                    stores: stores.part(at),
                    cycles: cycles(at),
                };
                if !each(&step) {
                    return;
                }
            }
            return;
        };
        let (chunks, pieces, panels) = (u64::from(tiling.chunks), tiling.pieces(), u64::from(tiling.panels));
        let banding = self.banding(cut, bands);
        let mut at = 0;
        if tiling.order == Order::Bands {
            for band in 0..bands {
                let map = Split::new(&banding.band(band), chunks);
                for piece in 0..pieces {
                    let mut step =
                        Step { weights: NOTHING, data: NOTHING, stores: NOTHING, cycles: cycles(at) };
                    if band == 0 || piece >= kept {
                        step.weights = weights.part(piece);
                    }
                    if piece < chunks {
                        step.data = map.part(piece);
                    }
                    if (piece + 1).is_multiple_of(chunks) {
                        let result = band * panels + piece / chunks;
                        step.data = plus(&step.data, &beside.part(result));
                        step.stores = stores.part(result);
                    }
                    if !each(&step) {
                        return;
                    }
                    at += 1;
                }
            }
        } else {
            for panel in 0..panels {
                for band in 0..bands {
                    let mut step = Step {
                        weights: NOTHING,
                        data: beside.part(at),
                        stores: stores.part(at),
                        cycles: cycles(at),
                    };
                    if band == 0 {
                        step.weights = weights.part(panel);
                    }
                    // A single band stays for all panels.
                    if panel == 0 || (band >= kept && bands > 1) {
                        step.data = plus(&step.data, &banding.band(band));
                    }
                    if !each(&step) {
                        return;
                    }
                    at += 1;
                }
            }
        }
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
        for at in 0..count {
            for (quarter, first) in found.first.iter_mut().take(4).enumerate() {
                if quarters(count, quarter as u64) == at {
                    *first = sum;
                }
            }
            let bytes = banding.band(at);
            sum = plus(&sum, &bytes);
            found.largest = std::array::from_fn(|memory| found.largest[memory].max(bytes[memory]));
        }
        // Quarters of few bands can be all of them.
        for quarter in 0..=4 {
            if quarters(count, quarter) == count {
                found.first[quarter as usize] = sum;
            }
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
