//! Pooling.

use super::AutoPad;

/// What a pool makes of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest.
    Max,
    /// The mean of the window's elements inside the input, or of all taps.
    Average {
        /// Whether padding counts as elements of value 0.
        count_include_pad: bool,
    },
}

/// A sliding window without weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What is computed.
    pub kind: PoolKind,
    /// Window rows and columns.
    pub kernel: [usize; 2],
    /// Step of the window.
    pub stride: [usize; 2],
    /// Distance of two taps.
    pub dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub pad: [usize; 4],
    /// Who chooses `pad`.
    pub auto_pad: AutoPad,
    /// Whether a partial window at the end counts.
    pub ceil_mode: bool,
}

/// One result per image and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalPool {
    /// What is computed; padding plays no part.
    pub kind: PoolKind,
}
