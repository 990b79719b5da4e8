//! Perspective warps, coordinates in f32 as the kernel has them, the blend in f64.

use triune_graph::ops::{BorderMode, Sampling, WarpPerspective};

use super::Step;
use crate::{Data, Tensor, tensor::positions};

impl Step<'_> {
    pub(super) fn weigh(&self) -> Tensor {
        let (x, indices) = (self.input(0), self.input(1));
        let factors = self.optional(2).map(Tensor::as_f32);
        let (elements, [own, taps, count]) = (x.shape[2], [0, 1, 2].map(|axis| indices.shape[axis]));
        let shape = [x.shape[0], x.shape[1], count];
        let (values, places) = (x.as_f32(), indices.integers());
        let sums = positions(&shape).map(|at| {
            let image = if own == 1 { 0 } else { at[0] };
            let mut sum = 0.0;
            for tap in 0..taps {
                let place = (image * taps + tap) * count + at[2];
                if let Ok(index) = usize::try_from(places[place]) {
                    let factor = factors.as_ref().map_or(1.0, |factors| factors[place]);
                    let x = values[(at[0] * shape[1] + at[1]) * elements + index];
                    sum += f64::from(factor) * f64::from(x);
                }
            }
            sum as f32
        });
        Tensor::new(&shape, Data::F32(sums.collect()))
    }

    pub(super) fn warp(&self, op: WarpPerspective) -> Tensor {
        let (x, matrices) = (self.input(0), self.input(1).as_f32());
        let images = self.optional(2).map(Tensor::integers);
        let size = self.input(3).integers();
        let results = matrices.len() / 9;
        let shape = [results, x.shape[1], size[0] as usize, size[1] as usize];
        let reals: Vec<f64> = match &x.data {
            Data::F32(values) => values.iter().map(|&value| f64::from(value)).collect(),
            _ => x.integers().iter().map(|&q| q as f64).collect(),
        };
        let outside = if let BorderMode::Constant(value) = op.border { f64::from(value) } else { 0.0 };
        let values = positions(&shape).map(|at| {
            let m = &matrices[9 * at[0]..9 * at[0] + 9];
            let (column, row) = (at[3] as f32, at[2] as f32);
            let along = |i: usize| m[i] * column + m[i + 1] * row + m[i + 2];
            let (u, v) = match op.sampling {
                Sampling::Grid => gridded(m, column, row),
                Sampling::AffineGrid => fixed(m, column, row),
                _ => (along(0) / along(6), along(3) / along(6)),
            };
            if !(u.is_finite() && v.is_finite()) {
                return outside;
            }
            let image = images.as_ref().map_or(at[0], |images| images[at[0]] as usize);
            let tap = |row: i64, column: i64| {
                let place = (inside(op.border, row, x.shape[2]), inside(op.border, column, x.shape[3]));
                let (Some(row), Some(column)) = place else { return outside };
                reals[((image * x.shape[1] + at[1]) * x.shape[2] + row) * x.shape[3] + column]
            };
            if op.sampling == Sampling::Nearest {
                return tap(v.round_ties_even() as i64, u.round_ties_even() as i64);
            }
            let (top, left) = (v.floor() as i64, u.floor() as i64);
            let (below, right) = (f64::from(v - v.floor()), f64::from(u - u.floor()));
            let upper = tap(top, left) * (1.0 - right) + tap(top, left + 1) * right;
            let lower = tap(top + 1, left) * (1.0 - right) + tap(top + 1, left + 1) * right;
            upper * (1.0 - below) + lower * below
        });
        if matches!(x.data, Data::F32(_)) {
            return Tensor::new(&shape, Data::F32(values.map(|value| value as f32).collect()));
        }
        let (low, high) = x.dtype().int_range().expect("an integer type");
        let integers: Vec<i64> = values.map(|value| (value.round() as i64).clamp(low, high)).collect();
        Tensor::of_integers(x.dtype(), &shape, &integers)
    }
}

/// The place that is nearest in steps of 1/32.
fn gridded(m: &[f32], column: f32, row: f32) -> (f32, f32) {
    let real = |i: usize| {
        f64::from(m[i]) * f64::from(column) + (f64::from(m[i + 1]) * f64::from(row) + f64::from(m[i + 2]))
    };
    let steps = |place: f64| {
        let steps = if real(6) == 0.0 { 0.0 } else { (place * (32.0 / real(6))).round_ties_even() };
        (steps / 32.0) as f32
    };
    (steps(real(0)), steps(real(3)))
}

/// The place of an affine matrix whose two parts are counted in steps of 1/1024 and their sum in steps of 1/32.
fn fixed(m: &[f32], column: f32, row: f32) -> (f32, f32) {
    let place = |i: usize| {
        let across = (f64::from(m[i]) * f64::from(column) * 1024.0).round_ties_even();
        let down = ((f64::from(m[i + 1]) * f64::from(row) + f64::from(m[i + 2])) * 1024.0).round_ties_even();
        (((across + down + 16.0) / 32.0).floor() / 32.0) as f32
    };
    (place(0), place(3))
}

/// Where an index beyond the axis leads, one reflection or turn at a time.
fn inside(border: BorderMode, mut at: i64, extent: usize) -> Option<usize> {
    let last = extent as i64 - 1;
    while !(0..=last).contains(&at) {
        at = match border {
            BorderMode::Constant(_) => return None,
            BorderMode::Replicate => at.clamp(0, last),
            BorderMode::Reflect101 if last == 0 => 0,
            BorderMode::Reflect if at < 0 => -at - 1,
            BorderMode::Reflect => 2 * last + 1 - at,
            BorderMode::Reflect101 if at < 0 => -at,
            BorderMode::Reflect101 => 2 * last - at,
            BorderMode::Wrap if at < 0 => at + last + 1,
            BorderMode::Wrap => at - last - 1,
        };
    }
    Some(at as usize)
}
