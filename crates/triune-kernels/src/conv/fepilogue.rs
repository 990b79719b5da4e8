//! What happens to finished f32 sums: bias, residual, activation, store. Knows no windows.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::dispatch::{Level, multiversion};
use crate::{Activation, math, unary};

use super::fconv::Views;

/// The steps behind the sums of one convolution.
#[derive(Debug)]
pub(crate) struct Epilogue {
    level: Level,
    /// One per output channel.
    pub(crate) bias: Vec<f32>,
    /// Limits that the store applies; infinite where the activation is none or not a clamp.
    pub(crate) limits: [f32; 2],
    /// The activation where it is more than a clamp.
    pub(crate) function: Option<Activation>,
}

/// A tile of finished sums on its way out.
#[derive(Clone, Copy)]
struct Tile<'a> {
    views: &'a Views<'a>,
    bias: &'a [f32],
    limits: [f32; 2],
    /// Floats from one row of sums to the next.
    width: usize,
    /// Sums per row that belong to channels.
    used: usize,
    /// First channel.
    channel: usize,
    /// Image, row, column of the first pixel.
    pixel: [usize; 3],
    rows: usize,
}

impl Epilogue {
    pub(crate) fn new(level: Level, bias: Vec<f32>, activation: Activation) -> Self {
        let open = [f32::NEG_INFINITY, f32::INFINITY];
        let (limits, function) = match activation {
            Activation::None => (open, None),
            Activation::Relu => ([0.0, f32::INFINITY], None),
            Activation::Clip(limits) => (limits, None),
            other => (open, Some(other)),
        };
        Self { level, bias, limits, function }
    }

    /// Finishes `rows` consecutive pixels from `pixel` on: `used` of `width` sums each, for channels from `channel` on.
    ///
    /// # Safety
    /// The pixels and channels lie in the views' maps, and no other task writes them.
    pub(crate) unsafe fn store(
        &self,
        sums: &mut [f32],
        width: usize,
        used: usize,
        channel: usize,
        views: &Views<'_>,
        pixel: [usize; 3],
        rows: usize,
    ) {
        let bias = &self.bias[channel..][..used];
        let tile = Tile { views, bias, limits: self.limits, width, used, channel, pixel, rows };
        let Some(function) = self.function else {
            // SAFETY: passed on.
            return unsafe { finish(self.level, &tile, sums) };
        };
        add(self.level, &tile, sums);
        let mut at = pixel;
        for row in 0..rows {
            // SAFETY: a pixel of the checked output map, this task's own by the caller's promise.
            let output = unsafe { output(&tile, at) };
            unary::apply(self.level, function, &sums[row * width..][..used], output);
            at = views.next(at);
        }
    }
}

/// The channels of a pixel that the tile covers.
///
/// # Safety
/// The pixel lies in the output map, and no other task writes these channels of it.
#[inline(always)]
unsafe fn output<'a>(tile: &Tile<'a>, [n, h, w]: [usize; 3]) -> &'a mut [f32] {
    // SAFETY: as promised by the caller.
    unsafe {
        let at = tile.views.output.add(tile.views.out_map.offset(n, h, w) + tile.channel);
        std::slice::from_raw_parts_mut(at, tile.used)
    }
}

#[inline(always)]
fn residual<'a>(tile: &Tile<'a>, [n, h, w]: [usize; 3]) -> Option<&'a [f32]> {
    let (values, map) = tile.views.residual?;
    Some(&values[map.offset(n, h, w) + tile.channel..][..tile.used])
}

multiversion! {
    /// Adds bias and residual in place.
    fn add(tile: &Tile<'_>, sums: &mut [f32]) {
        let mut at = tile.pixel;
        for row in 0..tile.rows {
            let sums = &mut sums[row * tile.width..][..tile.used];
            for (sum, &bias) in sums.iter_mut().zip(tile.bias) {
                *sum += bias;
            }
            for (sum, &other) in sums.iter_mut().zip(residual(tile, at).unwrap_or_default()) {
                *sum += other;
            }
            at = tile.views.next(at);
        }
    }
}

multiversion! {
    /// Bias, residual, limits, store; # Safety of `Epilogue::store`.
    unsafe fn finish(tile: &Tile<'_>, sums: &[f32]) {
        // The common widths are constants, so that rows become a few vectors without loops.
        // SAFETY: passed on.
        unsafe {
            match tile.used {
                32 => finish_rows::<32>(tile, sums),
                16 => finish_rows::<16>(tile, sums),
                _ => finish_rows::<0>(tile, sums),
            }
        }
    }
}

/// # Safety
/// As [`Epilogue::store`]; `N` is the tile's `used` or 0 for any.
#[inline(always)]
unsafe fn finish_rows<const N: usize>(tile: &Tile<'_>, sums: &[f32]) {
    let [low, high] = tile.limits;
    let used = if N > 0 { N } else { tile.used };
    let bias = &tile.bias[..used];
    let mut at = tile.pixel;
    for row in 0..tile.rows {
        let sums = &sums[row * tile.width..][..used];
        // SAFETY: a pixel of the checked output map, this task's own by the caller's promise.
        let output = &mut unsafe { output(tile, at) }[..used];
        if let Some(residual) = residual(tile, at) {
            let residual = &residual[..used];
            for i in 0..used {
                output[i] = math::min(math::max(sums[i] + bias[i] + residual[i], low), high);
            }
        } else {
            for i in 0..used {
                output[i] = math::min(math::max(sums[i] + bias[i], low), high);
            }
        }
        at = tile.views.next(at);
    }
}
