//! Weights, biases and multipliers in the order in which the 8-bit kernels read them; made once.

use std::ops::Range;

use super::qconv::Params;
use crate::{Q8, arch::int8::Int8};

/// Bytes that start at a cache line.
#[derive(Debug)]
pub(crate) struct Lines(Vec<Line>);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u8; 64]);

impl Lines {
    pub(crate) fn zeroed(bytes: usize) -> Self {
        Self(vec![Line([0; 64]); bytes.div_ceil(64)])
    }

    pub(crate) const fn bytes(&self) -> usize {
        64 * self.0.len()
    }

    /// All of them as words.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: lines are 64 bytes each, one after the other, at a boundary of 64, and any bytes are integers.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), 16 * self.0.len()) }
    }

    /// The same as bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: lines are 64 bytes each, one after the other.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), 64 * self.0.len()) }
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), 64 * self.0.len()) }
    }

    pub(crate) const fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            self.0[(at + i) / 64].0[(at + i) % 64] = byte;
        }
    }

    /// Stores weight number `index`, each `width` bytes.
    fn put_weight(&mut self, index: usize, width: usize, weight: i8) {
        if width == 1 {
            self.put(index, &weight.to_le_bytes());
        } else {
            self.put(2 * index, &i16::from(weight).to_le_bytes());
        }
    }
}

/// What operands an instruction set's dot product takes: 32-bit lanes, bytes of an activation, and whether those are signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector {
    pub(crate) lanes: usize,
    pub(crate) width: usize,
    signed: bool,
}

impl Vector {
    pub(crate) const fn of<S: Int8>() -> Self {
        Self { lanes: S::LANES, width: S::WIDTH, signed: S::SIGNED }
    }

    /// What a byte of the input is xored with to become what the dot product takes.
    pub(crate) const fn flip(self, input: Q8) -> u8 {
        if input.signed == self.signed { 0 } else { 0x80 }
    }

    /// The value of the input's zero point then.
    pub(crate) const fn zero_point(self, input: Q8) -> i32 {
        match (self.signed, input.signed) {
            (false, true) => input.zero_point + 128,
            (true, false) => input.zero_point - 128,
            _ => input.zero_point,
        }
    }
}

/// Packed parameters. Weight panels: group, panel of `lanes` output channels, step over 4 bytes of depth, lane, 4 bytes.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) weights: Lines,
    pub(crate) bias: Vec<i32>,
    pub(crate) multiplier: Vec<f32>,
    /// Panels (or blocks of channels) of a group.
    pub(crate) panels: usize,
    /// Steps over the depth of the product.
    pub(crate) steps: usize,
}

impl Packed {
    /// Weights of a panel.
    pub(crate) const fn panel(&self, panel: usize, lanes: usize) -> *const u8 {
        self.weights.as_ptr().wrapping_add(panel * self.steps * lanes * 4)
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.weights.bytes() + 4 * (self.bias.len() + self.multiplier.len())
    }
}

/// The bias of sums over packed activations: bias − zero point · Σ weights.
///
/// Modulo 2³², as the sums are: the final sum fits i32, so that it comes out right whatever overflows on the way.
fn folded_bias(p: &Params, vector: Vector, channel: usize, weights: &[i8]) -> i32 {
    let total: i64 = weights.iter().map(|&w| i64::from(w)).sum();
    (i64::from(p.bias[channel]) - i64::from(vector.zero_point(p.input)) * total) as i32
}

/// Packs for the matrix product, whose depth comes in runs that begin with a step each.
pub(crate) fn panels(p: &Params, weights: &[i8], runs: usize, vector: Vector) -> Packed {
    let Vector { lanes, width, .. } = vector;
    let groups = p.geometry.groups;
    let columns = p.out_channels / groups;
    let depth = weights.len() / p.out_channels;
    let per_step = 4 / width;
    let run = depth / runs;
    let (panels, run_steps) = (columns.div_ceil(lanes), run.div_ceil(per_step));
    let steps = runs * run_steps;
    let mut packed = Packed {
        weights: Lines::zeroed(groups * panels * steps * lanes * 4),
        bias: vec![0; groups * panels * lanes],
        multiplier: vec![0.0; groups * panels * lanes],
        panels,
        steps,
    };
    for (channel, row) in weights.chunks_exact(depth).enumerate() {
        let (group, column) = (channel / columns, channel % columns);
        let (panel, lane) = (group * panels + column / lanes, column % lanes);
        packed.bias[panel * lanes + lane] = folded_bias(p, vector, channel, row);
        packed.multiplier[panel * lanes + lane] = p.multiplier[channel];
        for (k, &w) in row.iter().enumerate() {
            let step = k / run * run_steps + k % run / per_step;
            let index = ((panel * steps + step) * lanes + lane) * per_step + k % run % per_step;
            packed.weights.put_weight(index, width, w);
        }
    }
    packed
}

/// Packs a range of channels for the depthwise kernel: block of 4 · `lanes` channels, group of 4 kernel rows, kernel column, then the
/// interleaved order: vector, lane, row; with 2-byte weights rows 0 and 1 of all vectors before rows 2 and 3.
pub(crate) fn depthwise(p: &Params, weights: &[i8], channels: Range<usize>, vector: Vector) -> Packed {
    let Vector { lanes, width, .. } = vector;
    let [kh, kw] = p.geometry.kernel;
    let (blocks, quads) = (channels.len().div_ceil(4 * lanes), kh.div_ceil(4));
    let mut packed = Packed {
        weights: Lines::zeroed(blocks * quads * kw * 16 * lanes * width),
        bias: vec![0; blocks * 4 * lanes],
        multiplier: vec![0.0; blocks * 4 * lanes],
        panels: blocks,
        steps: quads,
    };
    let rows = 4 / width;
    for channel in channels.clone() {
        let taps = &weights[channel * kh * kw..][..kh * kw];
        let index = channel - channels.start;
        let (block, within) = (index / (4 * lanes), index % (4 * lanes));
        // Unpacking works within 16-byte parts: vector j holds channels 4j..4j + 4 of every part.
        let (j, lane) = (within % 16 / 4, within / 16 * 4 + within % 4);
        let at = (block * 4 + j) * lanes + lane;
        packed.bias[at] = folded_bias(p, vector, channel, taps);
        packed.multiplier[at] = p.multiplier[channel];
        for (tap, &w) in taps.iter().enumerate() {
            let (ky, kx) = (tap / kw, tap % kw);
            let base = ((block * quads + ky / 4) * kw + kx) * 16 * lanes;
            let (half, row) = (ky % 4 / rows, ky % rows);
            let index = base + ((half * 4 + j) * lanes + lane) * rows + row;
            packed.weights.put_weight(index, width, w);
        }
    }
    packed
}
