//! Closed forms: cycles of a matrix array and of a vector unit.

use crate::spec::{ArraySpec, VectorSpec};

/// A dense product in the array's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gemm {
    /// Activation vectors: output pixels.
    pub(super) m: u64,
    /// Outputs per vector and group.
    pub(super) n: u64,
    /// Inputs per vector and group.
    pub(super) k: u64,
    /// Independent products side by side.
    pub(super) groups: u64,
}

impl Gemm {
    /// Multiply-accumulates; saturates.
    pub(super) fn macs(&self) -> u64 {
        self.m.saturating_mul(self.n).saturating_mul(self.k).saturating_mul(self.groups)
    }

    /// Cycles on an array that holds one tile of weights at a time: every activation vector passes every tile.
    ///
    /// Groups that fit the array together share a tile. A tile's vector takes as long as the array needs for its inputs
    /// or its results need to leave, whichever is longer.
    pub(super) fn array_cycles(&self, array: &ArraySpec) -> u64 {
        let (rows, columns) = (u64::from(array.rows), u64::from(array.columns));
        let fitting = (rows / self.k.max(1)).min(columns / self.n.max(1)).clamp(1, self.groups.max(1));
        let tiles = self
            .k
            .div_ceil(rows)
            .saturating_mul(self.n.div_ceil(columns))
            .saturating_mul(self.groups.div_ceil(fitting));
        let results = self.n.saturating_mul(fitting).min(columns);
        let per_vector =
            u64::from(array.cycles_per_vector).max(results.div_ceil(array.results_per_cycle.into()));
        tiles.saturating_mul(self.m).saturating_mul(per_vector)
    }
}

/// Cycles of a vector unit for `taps` multiply-accumulates and `elements` results.
pub(super) fn vector_cycles(vector: VectorSpec, taps: u64, elements: u64) -> u64 {
    taps.div_ceil(vector.taps_per_cycle.into()).max(elements.div_ceil(vector.elements_per_cycle.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METIS: ArraySpec =
        ArraySpec { rows: 512, columns: 512, cycles_per_vector: 8, results_per_cycle: 64 };

    #[test]
    fn one_tile_is_eight_cycles_per_vector() {
        assert_eq!(Gemm { m: 100, n: 512, k: 512, groups: 1 }.array_cycles(&METIS), 800);
        assert_eq!(Gemm { m: 100, n: 1, k: 1, groups: 1 }.array_cycles(&METIS), 800);
        assert_eq!(Gemm { m: 100, n: 513, k: 513, groups: 1 }.array_cycles(&METIS), 3200);
    }

    #[test]
    fn small_groups_share_a_tile() {
        // 32 groups of 64 x 16: eight fit the rows, so four tiles.
        assert_eq!(Gemm { m: 10, n: 16, k: 64, groups: 32 }.array_cycles(&METIS), 4 * 80);
    }

    #[test]
    fn results_can_bound_a_vector() {
        let slow = ArraySpec { results_per_cycle: 16, ..METIS };
        assert_eq!(Gemm { m: 1, n: 512, k: 512, groups: 1 }.array_cycles(&slow), 32);
    }
}
