//! What pools make of their windows.

use super::{Code, Coded, named};

/// What a pool makes of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The largest.
    Max,
    /// The mean.
    Average {
        /// Whether padding counts as elements of (real) value 0. What lies beyond the padding never counts.
        count_include_pad: bool,
    },
}

impl PoolKind {
    /// The kind with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Max,
            1 => Self::Average { count_include_pad: false },
            2 => Self::Average { count_include_pad: true },
            _ => return None,
        })
    }
}

named!(PoolKind);

impl Coded for PoolKind {
    const NAME: &'static str = "PoolKind";
    const MEANING: &'static str = "What a pool makes of its window.";
    const CODES: &'static [Code] = &[
        Code { code: 0, name: "Max", meaning: "The largest." },
        Code { code: 1, name: "Average", meaning: "The mean of the elements inside the input." },
        Code {
            code: 2,
            name: "AverageIncludingPad",
            meaning: "The mean of all taps, those in the padding 0.",
        },
    ];

    fn code(self) -> u32 {
        match self {
            Self::Max => 0,
            Self::Average { count_include_pad: false } => 1,
            Self::Average { count_include_pad: true } => 2,
        }
    }
}
