//! Weights of 22 bits along an axis, as Pillow has them: the arithmetic is that of its `Resample.c`, operation by operation, in
//! doubles, but for sines, which are the core's own.

use std::{f64::consts::PI, ops::Range};

use triune_tensor::function::math;

use super::ResampleFilter;
use crate::Error;

/// Bits of a weight behind the point. A byte takes 8 more, and two are left for filters that overshoot.
pub(super) const BITS: u32 = 22;

/// Above, two halves of 11 bits and more would not be 16 bits each.
const LARGEST: f64 = (1_u32 << 25) as f64;

/// The weights of every element of a result.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The first element that counts, and how many do.
    windows: Vec<(usize, usize)>,
    /// `most` for each element, 0 behind those that count.
    weights: Vec<i32>,
    most: usize,
}

impl Axis {
    pub(super) fn new(
        filter: ResampleFilter,
        input: usize,
        [from, to]: [f32; 2],
        output: usize,
    ) -> Result<Self, Error> {
        let scale = f64::from(to - from) / output as f64;
        let spread = scale.max(1.0);
        let (support, step) = (reach(filter) * spread, 1.0 / spread);
        let room = support.ceil() as usize * 2 + 1;
        if output > i32::MAX as usize / (room * size_of::<f64>()) {
            return Err(Error::Invalid("there are too many weights"));
        }
        let mut taps: Vec<(usize, Vec<i32>)> = Vec::with_capacity(output);
        let mut reals = Vec::with_capacity(room);
        for index in 0..output {
            let center = f64::from(from) + (index as f64 + 0.5) * scale;
            let first = ((center - support + 0.5) as i32).max(0) as usize;
            let end = ((center + support + 0.5) as usize).min(input);
            reals.clear();
            reals.extend((first..end).map(|at| weight(filter, (at as f64 - center + 0.5) * step)));
            let sum = reals.iter().fold(0.0, |sum, real| sum + real);
            if sum != 0.0 {
                for real in &mut reals {
                    *real /= sum;
                }
            }
            if !reals.iter().all(|real| real.abs() * f64::from(1 << BITS) < LARGEST) {
                return Err(Error::Invalid("a weight is too large for sums of 32 bits"));
            }
            let whole = |&real: &f64| {
                let scaled = real * f64::from(1 << BITS);
                (if real < 0.0 { -0.5 + scaled } else { 0.5 + scaled }) as i32
            };
            taps.push((first, reals.iter().map(whole).collect()));
        }
        Ok(Self::of(&taps))
    }

    /// Leaves out what counts for nothing at both ends. First elements never go back, as rows are forgotten in this order.
    fn of(taps: &[(usize, Vec<i32>)]) -> Self {
        let mut windows = vec![(0, 0); taps.len()];
        let mut following = usize::MAX;
        for (window, (first, weights)) in windows.iter_mut().zip(taps).rev() {
            let counts = |weight: &i32| *weight != 0;
            let end = first + weights.iter().rposition(counts).map_or(0, |last| last + 1);
            let begin = first + weights.iter().position(counts).unwrap_or(0);
            following = following.min(begin);
            *window = (following.min(end), end - following.min(end));
        }
        let most = windows.iter().map(|&(_, count)| count).max().unwrap_or(0).max(1);
        let mut packed = vec![0; taps.len() * most];
        for ((to, (first, weights)), &(begin, count)) in packed.chunks_exact_mut(most).zip(taps).zip(&windows)
        {
            to[..count].copy_from_slice(&weights[begin - first..][..count]);
        }
        Self { windows, weights: packed, most }
    }

    /// The most elements that one of the result is made of, at least one.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Elements of the result.
    pub(super) fn len(&self) -> usize {
        self.windows.len()
    }

    /// Elements that any of the result is made of, and those between.
    pub(super) fn used(&self) -> Range<usize> {
        let ends = self.windows.iter().map(|(first, count)| first + count);
        self.windows.first().map_or(0, |window| window.0)..ends.max().unwrap_or(0)
    }

    /// The first element that one of the result is made of, and the weights of it and those that follow.
    pub(super) fn taps(&self, index: usize) -> (usize, &[i32]) {
        let (first, count) = self.windows[index];
        (first, &self.weights[index * self.most..][..count])
    }
}

/// How far away an element counts.
fn reach(filter: ResampleFilter) -> f64 {
    match filter {
        ResampleFilter::Box => 0.5,
        ResampleFilter::Bilinear | ResampleFilter::Hamming => 1.0,
        ResampleFilter::Bicubic => 2.0,
        ResampleFilter::Lanczos => 3.0,
    }
}

/// How much an element counts at a distance. Products and sums stay apart: fused, some would have other bits.
fn weight(filter: ResampleFilter, x: f64) -> f64 {
    let far = x.abs();
    match filter {
        ResampleFilter::Box => f64::from(x > -0.5 && x <= 0.5),
        ResampleFilter::Bilinear => {
            if far < 1.0 {
                1.0 - far
            } else {
                0.0
            }
        }
        ResampleFilter::Hamming if far == 0.0 => 1.0,
        ResampleFilter::Hamming if far >= 1.0 => 0.0,
        ResampleFilter::Hamming => {
            let angle = far * PI;
            math::sin(angle) / angle * (f64::from(0.54_f32) + f64::from(0.46_f32) * math::cos(angle))
        }
        ResampleFilter::Bicubic => {
            const A: f64 = -0.5;
            if far < 1.0 {
                ((A + 2.0) * far - (A + 3.0)) * far * far + 1.0
            } else if far < 2.0 {
                (((far - 5.0) * far + 8.0) * far - 4.0) * A
            } else {
                0.0
            }
        }
        ResampleFilter::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
        ResampleFilter::Lanczos => 0.0,
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { math::sin(x * PI) / (x * PI) }
}
