//! Closed forms: cycles of a matrix array and of a vector unit, and the array's accesses to its operand buffers.

use crate::spec::{ArraySpec, Dataflow, Fold, Precision, VectorSpec};

/// A dense product in the array's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gemm {
    /// Vectors: output pixels.
    pub(super) m: u64,
    /// Outputs per vector and group.
    pub(super) n: u64,
    /// Inputs per vector and group.
    pub(super) k: u64,
    /// Inputs that the vector of the next pixel in the row adds to this one's: the window's step.
    pub(super) step: u64,
    /// Independent products side by side.
    pub(super) groups: u64,
}

/// Elements that an array's operand buffers (SRAM) give and take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SramAccesses {
    /// Inputs read.
    pub ifmap: u64,
    /// Weights read.
    pub filter: u64,
    /// Results and partial sums written.
    pub ofmap: u64,
}

/// Shortest stream of a pipelined fold in cycles (Gemmini's, as `ONNXim` has it: arXiv 2406.08051).
const SHORTEST_STREAM: u64 = 4;

impl Gemm {
    /// Multiply-accumulates; saturates.
    pub(super) fn macs(&self) -> u64 {
        self.m.saturating_mul(self.n).saturating_mul(self.k).saturating_mul(self.groups)
    }

    /// Cycles that the array is busy with the product, of which it may work `percent` of the time. Weights that enter a
    /// `broadcast` array are no products: no limit holds them up.
    pub(super) fn array_cycles(&self, array: &ArraySpec, precision: Precision, percent: u32) -> u64 {
        let limited = |cycles: u64| {
            let stretched = (u128::from(cycles) * 100).div_ceil(u128::from(percent.clamp(1, 100)));
            u64::try_from(stretched).unwrap_or(u64::MAX)
        };
        match array.dataflow {
            Dataflow::Broadcast => {
                let [vectors, weights] = self.broadcast_cycles(array, precision);
                limited(vectors).saturating_add(weights)
            }
            Dataflow::Os | Dataflow::Ws | Dataflow::Is => {
                let passes = passes(array, precision);
                limited(self.systolic_cycles(array).saturating_mul(self.groups).saturating_mul(passes))
            }
        }
    }

    /// Accesses to the array's operand buffers; the count of the dataflow's folds, without a result that is written
    /// more than once per fold.
    pub(super) fn sram(&self, array: &ArraySpec) -> SramAccesses {
        let [m, n, k, groups] = [self.m, self.n, self.k, self.groups];
        let (rows, columns) = (u64::from(array.rows), u64::from(array.columns));
        let volume =
            |a: u64, b: u64, times: u64| a.saturating_mul(b).saturating_mul(times.saturating_mul(groups));
        match array.dataflow {
            Dataflow::Os => SramAccesses {
                ifmap: volume(m, k, n.div_ceil(columns)),
                filter: volume(k, n, m.div_ceil(rows)),
                ofmap: volume(m, n, 1),
            },
            Dataflow::Broadcast | Dataflow::Ws => SramAccesses {
                ifmap: volume(m, k, n.div_ceil(columns)),
                filter: volume(k, n, 1),
                ofmap: volume(m, n, k.div_ceil(rows)),
            },
            Dataflow::Is => SramAccesses {
                ifmap: volume(m, k, 1),
                filter: volume(k, n, m.div_ceil(columns)),
                ofmap: volume(m, n, k.div_ceil(rows)),
            },
        }
    }

    /// One group on a systolic array.
    ///
    /// `serial` is SCALE-Sim v3 without stalls: every fold fills, streams and drains. `pipelined` hides the fill of a
    /// fold behind the stream of the one before: a fold can start when the one before has streamed, and no earlier
    /// than its own operand, or its results, take to pass the array's height.
    fn systolic_cycles(&self, array: &ArraySpec) -> u64 {
        let (rows, columns) = (u64::from(array.rows), u64::from(array.columns));
        // What stays, over rows and columns, and what streams by.
        let (over_rows, over_columns, stream, preloads) = match array.dataflow {
            Dataflow::Os => (self.m, self.n, self.k, false),
            Dataflow::Is => (self.k, self.m, self.n, true),
            Dataflow::Ws | Dataflow::Broadcast => (self.k, self.n, self.m, true),
        };
        if over_rows.min(over_columns).min(stream) == 0 {
            return 0;
        }
        let folds = over_rows.div_ceil(rows).saturating_mul(over_columns.div_ceil(columns));
        match array.fold {
            Fold::Serial => {
                let fill = if preloads { 2 * rows + columns } else { rows + columns };
                folds.saturating_mul(stream.saturating_add(fill - 2))
            }
            Fold::Pipelined => {
                let stream = stream.max(SHORTEST_STREAM);
                let first = if preloads { 2 * rows - 1 } else { 0 };
                let latency = (rows + columns - 2).saturating_add(stream);
                (folds - 1).saturating_mul(stream.max(rows)).saturating_add(first).saturating_add(latency)
            }
        }
    }

    /// On an array that holds one tile of weights at a time: every vector passes every tile. Rows of units share the
    /// vectors, columns of units the tiles of outputs.
    ///
    /// Groups that fit the array together share a tile. Small weights can lie in it several times, for neighbouring
    /// pixels. A tile's vector takes as long as the array needs for its inputs or its results need to leave, whichever
    /// is longer; results of a tile that adds to another's are added up besides. Weights enter before the vectors.
    /// Gives the cycles of the vectors and those of the weights.
    fn broadcast_cycles(&self, array: &ArraySpec, precision: Precision) -> [u64; 2] {
        if self.macs() == 0 {
            return [0, 0];
        }
        let (rows, columns) = (u64::from(array.rows), u64::from(array.columns));
        let fitting = (rows / self.k).min(columns / self.n).clamp(1, self.groups);
        let copies = if self.groups == 1 { self.copies(array) } else { 1 };
        let units = array.units.map(u64::from);
        let vectors = self.m.div_ceil(copies).div_ceil(units[0]);
        let folds = self.k.div_ceil(rows);
        let tiles = self.n.div_ceil(columns).saturating_mul(self.groups.div_ceil(fitting));
        let results = self.n.saturating_mul(fitting * copies).min(columns);
        let leaving = array.results_per_cycle.map_or(0, |rate| results.div_ceil(rate.into()));
        let per_vector = match precision {
            Precision::Int8 => array.cycles_per_vector,
            Precision::Int16 => array.cycles_per_vector_16.unwrap_or(2 * array.cycles_per_vector),
        };
        let streaming = folds.saturating_mul(u64::from(per_vector).max(leaving));
        let adding = array
            .partial_sums_per_cycle
            .map_or(0, |rate| (folds - 1).saturating_mul(results.div_ceil(rate.into())));
        let weights = array.weight_bytes_per_cycle.map_or(0, |rate| {
            let bytes = self.k.saturating_mul(self.n).saturating_mul(self.groups);
            bytes.saturating_mul(copies * bytes_of(precision)).div_ceil(rate.into())
        });
        let tiles = tiles.div_ceil(units[1]);
        [tiles.saturating_mul(vectors).saturating_mul(streaming.saturating_add(adding)), weights]
    }

    /// How often the weights lie in the array: as many neighbouring pixels as it has rows and columns for.
    fn copies(&self, array: &ArraySpec) -> u64 {
        let spare_rows = u64::from(array.rows).saturating_sub(self.k);
        let by_rows = 1 + spare_rows.checked_div(self.step).unwrap_or(0);
        let by_columns = u64::from(array.columns) / self.n;
        if u64::from(array.rows) < self.k {
            return 1;
        }
        by_rows.min(by_columns).clamp(1, array.replication.into())
    }
}

/// Bytes of an element.
pub(super) const fn bytes_of(precision: Precision) -> u64 {
    match precision {
        Precision::Int8 => 1,
        Precision::Int16 => 2,
    }
}

/// How much longer a systolic array takes at a precision: without a figure, 16 bit takes two passes.
fn passes(array: &ArraySpec, precision: Precision) -> u64 {
    match precision {
        Precision::Int8 => 1,
        Precision::Int16 => array.cycles_per_vector_16.map_or(2, u64::from),
    }
}

/// Cycles of a vector unit for `taps` multiply-accumulates and `elements` results.
pub(super) fn vector_cycles(vector: VectorSpec, taps: u64, elements: u64) -> u64 {
    taps.div_ceil(vector.taps_per_cycle.into()).max(elements.div_ceil(vector.elements_per_cycle.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METIS: ArraySpec = ArraySpec {
        cycles_per_vector: 8,
        results_per_cycle: Some(64),
        ..ArraySpec::systolic(Dataflow::Broadcast, 512, 512)
    };

    fn cycles(m: u64, n: u64, k: u64, groups: u64, array: &ArraySpec) -> u64 {
        Gemm { m, n, k, step: k, groups }.array_cycles(array, Precision::Int8, 100)
    }

    #[test]
    fn one_tile_is_eight_cycles_per_vector() {
        assert_eq!(cycles(100, 512, 512, 1, &METIS), 800);
        assert_eq!(cycles(100, 1, 1, 1, &METIS), 800);
        assert_eq!(cycles(100, 513, 513, 1, &METIS), 3200);
    }

    #[test]
    fn small_groups_share_a_tile() {
        // 32 groups of 64 x 16: eight fit the rows, so four tiles.
        assert_eq!(cycles(10, 16, 64, 32, &METIS), 4 * 80);
    }

    #[test]
    fn results_can_bound_a_vector() {
        let slow = ArraySpec { results_per_cycle: Some(16), ..METIS };
        assert_eq!(cycles(1, 512, 512, 1, &slow), 32);
    }

    #[test]
    fn units_share_pixels_and_outputs() {
        let array = ArraySpec { units: [4, 4], ..ArraySpec::systolic(Dataflow::Broadcast, 32, 32) };
        assert_eq!(cycles(160, 64, 96, 1, &array), 40 * 3);
        assert_eq!(cycles(161, 64, 96, 1, &array), 41 * 3);
        // A second round for the fifth block of outputs.
        assert_eq!(cycles(160, 128, 96, 1, &array), 40 * 3);
        assert_eq!(cycles(160, 129, 96, 1, &array), 40 * 2 * 3);
        let wide = Gemm { m: 160, n: 64, k: 96, step: 96, groups: 1 };
        assert_eq!(wide.array_cycles(&array, Precision::Int16, 100), 2 * 120);
        let three = ArraySpec { cycles_per_vector_16: Some(3), ..array };
        assert_eq!(wide.array_cycles(&three, Precision::Int16, 100), 3 * 120);
        assert_eq!(array.macs_per_cycle(), 16_384);
    }

    #[test]
    fn products_of_nothing_take_no_time() {
        let loading = ArraySpec { weight_bytes_per_cycle: Some(32), ..METIS };
        let arrays = [Dataflow::Os, Dataflow::Ws, Dataflow::Is].map(|flow| ArraySpec::systolic(flow, 8, 8));
        for array in arrays.iter().chain([&loading, &METIS]) {
            for [m, n, k, groups] in [[0, 5, 6, 1], [4, 0, 6, 1], [4, 5, 0, 1], [4, 5, 6, 0]] {
                let gemm = Gemm { m, n, k, step: k, groups };
                assert_eq!(gemm.array_cycles(array, Precision::Int8, 100), 0, "{gemm:?}");
            }
        }
    }

    #[test]
    fn weights_enter_before_the_vectors() {
        let loading = ArraySpec { weight_bytes_per_cycle: Some(32), ..METIS };
        assert_eq!(cycles(100, 512, 512, 1, &loading), 800 + 512 * 512 / 32);
    }

    #[test]
    fn a_limit_stretches_the_vectors_alone() {
        let loading = ArraySpec { weight_bytes_per_cycle: Some(32), ..METIS };
        let at = |percent| {
            Gemm { m: 100, n: 512, k: 512, step: 512, groups: 1 }.array_cycles(
                &loading,
                Precision::Int8,
                percent,
            )
        };
        assert_eq!(
            [100, 50, 30, 1].map(at),
            [800, 1600, 2667, 80_000].map(|vectors| vectors + 512 * 512 / 32)
        );
        let systolic = ArraySpec::systolic(Dataflow::Ws, 32, 32);
        let gemm = Gemm { m: 100, n: 64, k: 64, step: 64, groups: 2 };
        assert_eq!(
            gemm.array_cycles(&systolic, Precision::Int8, 25),
            4 * gemm.array_cycles(&systolic, Precision::Int8, 100)
        );
    }

    #[test]
    fn partial_sums_are_added_up() {
        let adding = ArraySpec { partial_sums_per_cycle: Some(32), ..METIS };
        assert_eq!(cycles(100, 512, 512, 1, &adding), 800);
        assert_eq!(cycles(100, 512, 3 * 512, 1, &adding), 3 * 800 + 2 * 100 * 16);
    }

    #[test]
    fn small_weights_lie_side_by_side() {
        let copying = ArraySpec { replication: 8, ..METIS };
        let cycles = |gemm: Gemm| gemm.array_cycles(&copying, Precision::Int8, 100);
        // 7·7·4 inputs, stride 2: each further pixel adds 7·2·4 = 56; six fit 512 rows, eight 512 columns.
        assert_eq!(cycles(Gemm { m: 600, n: 64, k: 196, step: 56, groups: 1 }), 100 * 8);
        // Columns for two; and an inner product that takes two tiles has no room.
        assert_eq!(cycles(Gemm { m: 600, n: 256, k: 64, step: 64, groups: 1 }), 300 * 8);
        assert_eq!(cycles(Gemm { m: 600, n: 64, k: 576, step: 192, groups: 1 }), 600 * 2 * 8);
        // The copies are made: weights enter as often.
        let loading = ArraySpec { weight_bytes_per_cycle: Some(1), ..copying };
        let twice = Gemm { m: 600, n: 256, k: 64, step: 64, groups: 1 };
        assert_eq!(twice.array_cycles(&loading, Precision::Int8, 100), 300 * 8 + 2 * 256 * 64);
    }

    #[test]
    fn serial_folds_fill_stream_and_drain() {
        let os = ArraySpec::systolic(Dataflow::Os, 8, 16);
        // ⌈20/8⌉·⌈33/16⌉ = 9 folds.
        assert_eq!(cycles(20, 33, 50, 1, &os), 9 * (8 + 16 + 50 - 2));
        let ws = ArraySpec { dataflow: Dataflow::Ws, ..os };
        assert_eq!(cycles(20, 33, 50, 1, &ws), 7 * 3 * (16 + 16 + 20 - 2));
        let is = ArraySpec { dataflow: Dataflow::Is, ..os };
        assert_eq!(cycles(20, 33, 50, 1, &is), 7 * 2 * (16 + 16 + 33 - 2));
        assert_eq!(cycles(20, 33, 50, 5, &is), 5 * 7 * 2 * (16 + 16 + 33 - 2));
    }

    /// The instructions of a pipelined array one by one: latency height + width − 2 + stream; issued when the one
    /// before has streamed, not before its own weights have passed the height, which for the first takes 2·height − 1.
    #[test]
    fn pipelined_folds_overlap_as_their_instructions_do() {
        for (m, n, k) in [(20, 33, 50), (1, 16, 8), (200, 100, 100), (3, 200, 9), (9, 1, 1)] {
            for dataflow in [Dataflow::Os, Dataflow::Ws, Dataflow::Is] {
                let array = ArraySpec { fold: Fold::Pipelined, ..ArraySpec::systolic(dataflow, 8, 16) };
                let (outer, inner, stream, preload): (u64, u64, u64, u64) = match dataflow {
                    Dataflow::Os => (m, n, k, 0),
                    Dataflow::Is => (k, m, n, 2 * 8 - 1),
                    _ => (k, n, m, 2 * 8 - 1),
                };
                let stream = stream.max(4);
                let (mut issue, mut end) = (preload, 0);
                for fold in 0..outer.div_ceil(8) * inner.div_ceil(16) {
                    if fold > 0 {
                        issue += stream.max(8);
                    }
                    end = issue + 8 + 16 - 2 + stream;
                }
                assert_eq!(cycles(m, n, k, 1, &array), end, "{dataflow:?} {m} {n} {k}");
            }
        }
    }

    #[test]
    fn pipelining_costs_no_more_than_its_first_fill() {
        for size in [1, 4, 31, 32, 33, 100, 1000] {
            for dataflow in [Dataflow::Os, Dataflow::Ws, Dataflow::Is] {
                let serial = ArraySpec::systolic(dataflow, 32, 32);
                let pipelined = ArraySpec { fold: Fold::Pipelined, ..serial };
                let (fast, slow) =
                    (cycles(size, 100, size, 1, &pipelined), cycles(size, 100, size, 1, &serial));
                // The two models count the first fill differently, by a height less a cycle; streams have 4 cycles.
                assert!(fast <= slow + 32 + 4, "{dataflow:?} {size}: {fast} {slow}");
            }
        }
    }
}
