//! Samples between pixels of maps whose channels lie beside each other, joined to the results of regions.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::Isa;
use crate::dispatch::{Level, multiversion};

/// Channels of a [`SampleMap`]'s pixel: their sums do not wait for each other.
pub const SAMPLE_CHANNELS: usize = 8;

/// A sample's neighbours along an axis, each with its share; `None` beyond the map.
pub type SamplePlace = Option<[(usize, f64); 2]>;

/// A map from which samples are taken.
#[derive(Clone, Copy)]
pub struct SampleMap<'a> {
    level: Level,
    pixels: &'a [[f64; SAMPLE_CHANNELS]],
    width: usize,
    is_finite: bool,
}

impl<'a> SampleMap<'a> {
    /// A map of rows of `width` pixels; `is_finite` says that no element is infinite or a NaN.
    pub fn new(isa: Isa, pixels: &'a [[f64; SAMPLE_CHANNELS]], width: usize, is_finite: bool) -> Self {
        Self { level: Level::new(isa), pixels, width, is_finite }
    }

    /// The neighbours of a sample, each with its factor.
    #[inline(always)]
    fn corners(&self, y: [(usize, f64); 2], x: [(usize, f64); 2]) -> [(&'a [f64; SAMPLE_CHANNELS], f64); 4] {
        let corner = |y: (usize, f64), x: (usize, f64)| (&self.pixels[y.0 * self.width + x.0], y.1 * x.1);
        [corner(y[0], x[0]), corner(y[0], x[1]), corner(y[1], x[0]), corner(y[1], x[1])]
    }

    /// Adds samples, row by row, part by part in the order of their corners, each product and sum rounded.
    ///
    /// Panics where a place lies beyond the map.
    pub fn add(self, down: &[SamplePlace], across: &[SamplePlace], sums: &mut [f64; SAMPLE_CHANNELS]) {
        add(self.level, self, down, across, sums);
    }

    /// The largest part of samples and of `most`; a sample beyond the map is 0, and a NaN wins.
    ///
    /// Panics where a place lies beyond the map.
    pub fn largest(self, down: &[SamplePlace], across: &[SamplePlace], most: &mut [f64; SAMPLE_CHANNELS]) {
        largest(self.level, self, down, across, most);
    }
}

multiversion! {
    fn add(map: SampleMap<'_>, down: &[SamplePlace], across: &[SamplePlace], sums: &mut [f64; SAMPLE_CHANNELS]) {
        let mut own = *sums;
        for y in down.iter().flatten() {
            for x in across.iter().flatten() {
                for (pixel, factor) in map.corners(*y, *x) {
                    for (sum, pixel) in own.iter_mut().zip(pixel) {
                        *sum += factor * pixel;
                    }
                }
            }
        }
        *sums = own;
    }
}

/// The greater of two numbers, channel by channel, of equal ones the first.
#[inline(always)]
fn greater(a: &[f64; SAMPLE_CHANNELS], b: &[f64; SAMPLE_CHANNELS]) -> [f64; SAMPLE_CHANNELS] {
    std::array::from_fn(|lane| if b[lane] > a[lane] { b[lane] } else { a[lane] })
}

multiversion! {
    fn largest(map: SampleMap<'_>, down: &[SamplePlace], across: &[SamplePlace], most: &mut [f64; SAMPLE_CHANNELS]) {
        if map.is_finite {
            // One for each corner: none waits for another.
            let mut best = [[f64::NEG_INFINITY; SAMPLE_CHANNELS]; 4];
            best[0] = *most;
            for y in down {
                for x in across {
                    let (Some(y), Some(x)) = (*y, *x) else {
                        best[0] = greater(&best[0], &[0.0; SAMPLE_CHANNELS]);
                        continue;
                    };
                    for (best, (pixel, factor)) in best.iter_mut().zip(map.corners(y, x)) {
                        *best = greater(best, &pixel.map(|pixel| factor * pixel));
                    }
                }
            }
            *most = greater(&greater(&best[0], &best[1]), &greater(&best[2], &best[3]));
            return;
        }
        let mut best = *most;
        for y in down {
            for x in across {
                let (Some(y), Some(x)) = (*y, *x) else {
                    for best in &mut best {
                        *best = best.max(0.0);
                    }
                    continue;
                };
                for (pixel, factor) in map.corners(y, x) {
                    for (best, pixel) in best.iter_mut().zip(pixel) {
                        let own = factor * pixel;
                        *best = if own > *best || own.is_nan() { own } else { *best };
                    }
                }
            }
        }
        *most = best;
    }
}
