//! The matrix array of a core, as data. What its fields mean in cycles is in `timing/array.rs`.

use serde::{Deserialize, Serialize};

use super::error;
use crate::Error;

/// How operands move through an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dataflow {
    /// Weights stay; a vector of inputs reaches all columns at once and all its results leave at once. In-memory and
    /// bit-serial arrays (`cycles_per_vector` = bits) and arrays of inner-product units are of this kind.
    #[default]
    Broadcast,
    /// Systolic, output stationary.
    Os,
    /// Systolic, weight stationary.
    Ws,
    /// Systolic, input stationary.
    Is,
}

/// How the folds (tiles) of a systolic array follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// One after the other: fill, stream, drain.
    #[default]
    Serial,
    /// The fill of a fold is hidden behind the stream of the one before.
    Pipelined,
}

/// Where depthwise convolutions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Depthwise {
    /// On the vector unit.
    Vector,
    /// On a systolic array, as one filter over the windows of all channels. So SCALE-Sim's topologies have it: the
    /// multiply-accumulates are those of the convolution, the sum over channels is not.
    Window,
    /// On a systolic array, a product for each channel, one after the other.
    Groups,
}

/// How an array computes convolutions of several groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Groups {
    /// A product per group; groups that fit a `broadcast` array together share a tile.
    #[default]
    Apart,
    /// One product of all channels, whose weights between groups are zeros that take their place and their bytes.
    Dense,
}

/// Width of the integers that an array multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 8 bit, as the commands have them.
    #[default]
    Int8,
    /// 16 bit: the same commands on elements of twice the bytes.
    Int16,
}

/// A matrix array: `rows` by `columns` int8 multiply-accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Rows: inputs of one tile's inner product (`broadcast`), or the systolic array's height.
    pub rows: u32,
    /// Columns: outputs of one tile, or the systolic array's width.
    pub columns: u32,
    /// How operands move.
    #[serde(default)]
    pub dataflow: Dataflow,
    /// How folds follow each other; systolic arrays only.
    #[serde(default)]
    pub fold: Fold,
    /// Where depthwise convolutions run; absent: [`Depthwise::Vector`] for `broadcast` arrays, [`Depthwise::Window`] for
    /// systolic ones.
    pub depthwise: Option<Depthwise>,
    /// How convolutions of several groups are computed.
    #[serde(default)]
    pub groups: Groups,
    /// A pixel's channels enter inner products in blocks of this many, the last filled with zeros; absent: in those of
    /// [`BorderSpec::channels`](super::BorderSpec::channels).
    pub channels: Option<u32>,
    /// Arrays side by side as `[rows, columns]`: rows share the output pixels of a command, columns its blocks of
    /// output channels.
    #[serde(default = "one_by_one")]
    pub units: [u32; 2],
    /// Cycles from one vector to the next at 8 bit.
    #[serde(default = "one")]
    pub cycles_per_vector: u32,
    /// Cycles from one vector to the next at 16 bit; absent: the array has no 16 bit.
    pub cycles_per_vector_16: Option<u32>,
    /// i32 results that leave a `broadcast` array per cycle; absent: all at once.
    pub results_per_cycle: Option<u32>,
    /// i32 partial sums per cycle that are added up again when an inner product takes several tiles of a `broadcast`
    /// array; absent: for nothing.
    pub partial_sums_per_cycle: Option<u32>,
    /// Bytes per cycle in which weights enter a `broadcast` array, which does not compute meanwhile; absent: hidden.
    pub weight_bytes_per_cycle: Option<u32>,
    /// Of so many inputs in a row (the second number), those whose weights are no zeros: the array skips the others, and every
    /// constant weight is taken to be so. Absent: none is skipped.
    pub sparsity: Option<[u32; 2]>,
    /// Bytes of constant weights where they lie and move, in percent of those that enter the array.
    #[serde(default = "hundred")]
    pub weight_percent: u32,
    /// Most copies of small weights that a `broadcast` array holds, for neighbouring pixels of a row at once.
    #[serde(default = "one")]
    pub replication: u32,
}

const fn one() -> u32 {
    1
}

const fn hundred() -> u32 {
    100
}

const fn one_by_one() -> [u32; 2] {
    [1, 1]
}

impl ArraySpec {
    /// A systolic array without further limits.
    pub const fn systolic(dataflow: Dataflow, rows: u32, columns: u32) -> Self {
        Self {
            rows,
            columns,
            dataflow,
            fold: Fold::Serial,
            depthwise: None,
            groups: Groups::Apart,
            channels: None,
            units: one_by_one(),
            cycles_per_vector: 1,
            cycles_per_vector_16: None,
            results_per_cycle: None,
            partial_sums_per_cycle: None,
            weight_bytes_per_cycle: None,
            sparsity: None,
            weight_percent: hundred(),
            replication: 1,
        }
    }

    /// Multiply-accumulates per cycle of all units at 8 bit, when every one of them works.
    pub fn macs_per_cycle(&self) -> u64 {
        let all = u64::from(self.rows) * u64::from(self.columns);
        all * u64::from(self.units[0] * self.units[1]) / u64::from(self.cycles_per_vector.max(1))
    }

    /// Where depthwise convolutions run.
    pub const fn depthwise(&self) -> Depthwise {
        match (self.depthwise, self.dataflow) {
            (Some(place), _) => place,
            (None, Dataflow::Broadcast) => Depthwise::Vector,
            (None, _) => Depthwise::Window,
        }
    }

    /// Inner products of constant weights: of `k` inputs, those that the array does not skip.
    pub(crate) fn kept(&self, k: u64) -> u64 {
        match self.sparsity {
            Some([kept, of]) => {
                let all = (u128::from(k) * u128::from(kept)).div_ceil(u128::from(of.max(1)));
                u64::try_from(all).unwrap_or(u64::MAX)
            }
            None => k,
        }
    }

    /// Bytes of `bytes` of constant weights as they lie and move: without skipped ones, each of the others with its place among
    /// them, compressed.
    pub(crate) fn stored(&self, bytes: u64) -> u64 {
        let places = match self.sparsity {
            // ⌈log₂ of⌉ bits for each weight, which has eight.
            Some([_, of]) => {
                let bits = u64::from(u32::BITS - of.saturating_sub(1).leading_zeros());
                self.kept(bytes).saturating_mul(bits).div_ceil(8)
            }
            None => 0,
        };
        let all = u128::from(self.kept(bytes).saturating_add(places));
        u64::try_from((all * u128::from(self.weight_percent)).div_ceil(100)).unwrap_or(u64::MAX)
    }

    /// Whether weights lie and move as other bytes than they are.
    pub fn packs_weights(&self) -> bool {
        self.groups == Groups::Dense || self.sparsity.is_some() || self.weight_percent != 100
    }

    pub(super) fn validate(&self) -> Result<(), Error> {
        if let Some([kept, of]) = self.sparsity
            && kept > of
        {
            return Err(error("array.sparsity", format!("{kept} of {of}: more are kept than there are")));
        }
        if self.dataflow == Dataflow::Broadcast {
            return match (self.fold, self.depthwise()) {
                (Fold::Pipelined, _) => Err(error(
                    "array.fold",
                    "\"pipelined\" is for systolic arrays (dataflow os, ws, is)".into(),
                )),
                (_, Depthwise::Vector) => Ok(()),
                _ => Err(error(
                    "array.depthwise",
                    "\"window\" and \"groups\" are for systolic arrays (dataflow os, ws, is)".into(),
                )),
            };
        }
        for (key, set) in [
            ("cycles_per_vector", self.cycles_per_vector != 1),
            ("results_per_cycle", self.results_per_cycle.is_some()),
            ("partial_sums_per_cycle", self.partial_sums_per_cycle.is_some()),
            ("weight_bytes_per_cycle", self.weight_bytes_per_cycle.is_some()),
            ("replication", self.replication != 1),
            ("units", self.units != one_by_one()),
        ] {
            if set {
                return Err(error(
                    &format!("array.{key}"),
                    "is for broadcast arrays: leave it out, or dataflow".into(),
                ));
            }
        }
        Ok(())
    }
}
