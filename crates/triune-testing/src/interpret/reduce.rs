//! Reductions.

use triune_graph::ops::{ArgReduce, Reduce, ReduceKind, Running};

use super::Step;
use crate::{
    Data, Tensor,
    tensor::{flat, positions, resolve_axis},
};

impl Step<'_> {
    /// For every result, the elements that it is made of, in row-major order.
    fn groups(x: &Tensor, reduced: &[bool]) -> Vec<Vec<usize>> {
        let kept: Vec<usize> =
            x.shape.iter().zip(reduced).map(|(&dim, &reduced)| if reduced { 1 } else { dim }).collect();
        let mut groups = vec![Vec::new(); kept.iter().product()];
        for at in positions(&x.shape) {
            let target: Vec<usize> =
                (0..at.len()).map(|axis| if reduced[axis] { 0 } else { at[axis] }).collect();
            groups[flat(&kept, &target)].push(flat(&x.shape, &at));
        }
        groups
    }

    fn reduced_shape(x: &Tensor, reduced: &[bool], keep_dims: bool) -> Vec<usize> {
        (0..x.shape.len())
            .filter(|&axis| keep_dims || !reduced[axis])
            .map(|axis| if reduced[axis] { 1 } else { x.shape[axis] })
            .collect()
    }

    /// One element after the other; f32 in f32, integers in 64 bits, of which the low ones are left.
    pub(super) fn running(&self, op: Running) -> Tensor {
        let x = self.input(0);
        let reduced: Vec<bool> = (0..x.shape.len()).map(|axis| axis == op.axis).collect();
        let mut order = Self::groups(x, &reduced);
        if op.reverse {
            for group in &mut order {
                group.reverse();
            }
        }
        let start = i64::from(op.product);
        if let Data::F32(values) = &x.data {
            let mut results = vec![0.0; values.len()];
            for group in order {
                let mut sum = start as f32;
                for at in group {
                    let next = if op.product { sum * values[at] } else { sum + values[at] };
                    results[at] = if op.exclusive { sum } else { next };
                    sum = next;
                }
            }
            return Tensor::new(&x.shape, Data::F32(results));
        }
        let values = x.integers();
        let mut results = vec![0; values.len()];
        for group in order {
            let mut sum = start;
            for at in group {
                let next = if op.product { sum * values[at] } else { sum + values[at] };
                results[at] = if op.exclusive { sum } else { next };
                sum = next;
            }
        }
        Tensor::of_integers(x.dtype(), &x.shape, &results)
    }

    pub(super) fn reduce(&self, op: &Reduce) -> Tensor {
        let x = self.input(0);
        let mut op = op.clone();
        if let Some(target) = self.optional(1) {
            let target = target.integers();
            let goes = |axis: &usize| target[*axis] == 1 && x.shape[*axis] != 1;
            op.axes = Some((0..x.shape.len()).filter(goes).map(|axis| axis as isize).collect());
            op.keep_dims = true;
        }
        let reduced: Vec<bool> = match &op.axes {
            None => vec![true; x.shape.len()],
            Some(axes) => {
                let axes: Vec<usize> = axes.iter().map(|&axis| resolve_axis(axis, x.shape.len())).collect();
                (0..x.shape.len()).map(|axis| axes.contains(&axis)).collect()
            }
        };
        let groups = Self::groups(x, &reduced);
        let shape = Self::reduced_shape(x, &reduced, op.keep_dims);
        if let Data::F32(values) = &x.data {
            let result = |group: &Vec<usize>| {
                let elements = group.iter().map(|&at| f64::from(values[at]));
                let pick = |better: fn(f64, f64) -> bool| {
                    elements.clone().reduce(|best, x| {
                        if best.is_nan() || x.is_nan() {
                            f64::NAN
                        } else if better(x, best) {
                            x
                        } else {
                            best
                        }
                    })
                };
                let result = match op.kind {
                    ReduceKind::Sum => elements.sum(),
                    ReduceKind::SumSquare => elements.map(|x| x * x).sum(),
                    ReduceKind::Product => elements.product(),
                    ReduceKind::Min => pick(|x, best| x < best).expect("an element"),
                    ReduceKind::Max => pick(|x, best| x > best).expect("an element"),
                    ReduceKind::Mean => elements.sum::<f64>() / group.len() as f64,
                };
                result as f32
            };
            return Tensor::new(&shape, Data::F32(groups.iter().map(result).collect()));
        }
        let values = x.integers();
        let result = |group: &Vec<usize>| {
            let elements = group.iter().map(|&at| values[at]);
            match op.kind {
                ReduceKind::Sum => elements.fold(0, i64::wrapping_add),
                ReduceKind::SumSquare => elements.fold(0, |sum: i64, x| sum.wrapping_add(x.wrapping_mul(x))),
                ReduceKind::Product => elements.fold(1, i64::wrapping_mul),
                ReduceKind::Min => elements.min().expect("an element"),
                ReduceKind::Max => elements.max().expect("an element"),
                ReduceKind::Mean => elements.fold(0, i64::wrapping_add) / group.len() as i64,
            }
        };
        let results: Vec<i64> = groups.iter().map(result).collect();
        Tensor::wrapped(x.dtype(), &shape, &results)
    }

    pub(super) fn arg_reduce(&self, op: ArgReduce) -> Tensor {
        let x = self.input(0);
        let axis = resolve_axis(op.axis, x.shape.len());
        let reduced: Vec<bool> = (0..x.shape.len()).map(|index| index == axis).collect();
        let shape = Self::reduced_shape(x, &reduced, op.keep_dims);
        // Floats in an order where NaN is beyond everything; integers as they are.
        let sign: i64 = if op.kind == ReduceKind::Max { 1 } else { -1 };
        let integers = if x.dtype().is_float() { Vec::new() } else { x.integers() };
        let rank = |at: usize| match &x.data {
            Data::F32(values) if values[at].is_nan() => (i64::MAX, f64::INFINITY),
            Data::F32(values) => (0, f64::from(sign as f32 * values[at])),
            _ => (sign.wrapping_mul(integers[at]), 0.0),
        };
        let results: Vec<i64> = Self::groups(x, &reduced)
            .iter()
            .map(|group| {
                let mut best = 0;
                for index in 1..group.len() {
                    let (candidate, current) = (rank(group[index]), rank(group[best]));
                    if candidate > current || op.last && candidate == current {
                        best = index;
                    }
                }
                best as i64
            })
            .collect();
        Tensor::of_integers(op.dtype, &shape, &results)
    }
}
