//! Choices and elements picked by index.

use std::cmp::Ordering;

use triune_graph::ops::{GatherElements, GatherNd, Index, ScatterElements, ScatterKind, ScatterNd, TopK};

use super::Step;
use crate::{
    Tensor,
    tensor::{broadcast_flat, broadcast_shape, flat, positions, resolve_axis},
};

fn from_front(index: i64, extent: usize) -> usize {
    let index = if index < 0 { index + extent as i64 } else { index };
    usize::try_from(index).expect("an index within its axis")
}

impl Step<'_> {
    pub(super) fn choose(&self) -> Tensor {
        let (condition, a, b) = (self.input(0), self.input(1), self.input(2));
        let shape = broadcast_shape(&broadcast_shape(&condition.shape, &a.shape), &b.shape);
        let truths = condition.integers();
        let mut both = a.clone();
        both.extend(b);
        let picks: Vec<usize> = positions(&shape)
            .map(|at| {
                if truths[broadcast_flat(&condition.shape, &at)] != 0 {
                    broadcast_flat(&a.shape, &at)
                } else {
                    a.elements() + broadcast_flat(&b.shape, &at)
                }
            })
            .collect();
        both.take(&shape, picks.into_iter())
    }

    pub(super) fn gather_elements(&self, op: GatherElements) -> Tensor {
        let (x, indices) = (self.input(0), self.input(1));
        let axis = resolve_axis(op.axis, x.shape.len());
        let picked = indices.integers();
        let sources = positions(&indices.shape).map(|mut at| {
            at[axis] = from_front(picked[flat(&indices.shape, &at)], x.shape[axis]);
            flat(&x.shape, &at)
        });
        x.take(&indices.shape, sources.collect::<Vec<_>>().into_iter())
    }

    pub(super) fn gather_nd(&self, op: GatherNd) -> Tensor {
        let (x, indices) = (self.input(0), self.input(1));
        let picked = indices.integers();
        let (count, rows) = indices.shape.split_last().expect("coordinates");
        let shape = [rows, &x.shape[op.batch_dims + count..]].concat();
        let sources = positions(&shape).map(|at| {
            let (row, rest) = at.split_at(rows.len());
            let coordinate = |axis: usize| {
                let index = picked[flat(&indices.shape, &[row, &[axis]].concat())];
                from_front(index, x.shape[op.batch_dims + axis])
            };
            let own: Vec<usize> = (0..*count).map(coordinate).collect();
            flat(&x.shape, &[&row[..op.batch_dims], &own, rest].concat())
        });
        x.take(&shape, sources.collect::<Vec<_>>().into_iter())
    }

    pub(super) fn scatter_elements(&self, op: ScatterElements) -> Tensor {
        let (x, indices) = (self.input(0), self.input(1));
        let axis = resolve_axis(op.axis, x.shape.len());
        let picked = indices.integers();
        let targets = positions(&indices.shape).map(|mut at| {
            at[axis] = from_front(picked[flat(&indices.shape, &at)], x.shape[axis]);
            flat(&x.shape, &at)
        });
        self.put(op.kind, targets.collect())
    }

    pub(super) fn scatter_nd(&self, op: ScatterNd) -> Tensor {
        let (x, indices) = (self.input(0), self.input(1));
        let picked = indices.integers();
        let (count, rows) = indices.shape.split_last().expect("coordinates");
        let targets = positions(&self.input(2).shape).map(|at| {
            let (row, rest) = at.split_at(rows.len());
            let coordinate = |axis: usize| {
                from_front(picked[flat(&indices.shape, &[row, &[axis]].concat())], x.shape[axis])
            };
            let own: Vec<usize> = (0..*count).map(coordinate).collect();
            flat(&x.shape, &[&own, rest].concat())
        });
        self.put(op.kind, targets.collect())
    }

    /// The first operand with the elements of the third put on those at `targets`.
    fn put(&self, kind: ScatterKind, targets: Vec<usize>) -> Tensor {
        let (x, updates) = (self.input(0), self.input(2));
        if kind == ScatterKind::Set {
            let mut both = x.clone();
            both.extend(updates);
            let mut from: Vec<usize> = (0..x.elements()).collect();
            targets.into_iter().enumerate().for_each(|(index, target)| from[target] = x.elements() + index);
            return both.take(&x.shape, from.into_iter());
        }
        let (mut values, updates) = (x.reals(), updates.reals());
        for (target, update) in targets.into_iter().zip(updates) {
            let own = &mut values[target];
            *own = match kind {
                ScatterKind::Add => f64::from((*own + update) as f32),
                ScatterKind::Mul => f64::from((*own * update) as f32),
                ScatterKind::Min if own.is_nan() || *own < update => *own,
                ScatterKind::Max if own.is_nan() || *own > update => *own,
                ScatterKind::Set | ScatterKind::Min | ScatterKind::Max => update,
            };
        }
        Tensor::f32(&x.shape, &values.into_iter().map(|value| value as f32).collect::<Vec<_>>())
    }

    pub(super) fn index(&self, op: &Index) -> Tensor {
        let x = self.input(0);
        let axes: Vec<usize> = op.axes.iter().map(|&axis| resolve_axis(axis, x.shape.len())).collect();
        let tensors: Vec<&Tensor> = (0..axes.len()).map(|index| self.input(index + 1)).collect();
        let picked = tensors.iter().fold(Vec::new(), |shape, tensor| broadcast_shape(&shape, &tensor.shape));
        let rest: Vec<usize> = (0..x.shape.len()).filter(|axis| !axes.contains(axis)).collect();
        let neighbours = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let place = if neighbours { axes[0] } else { 0 };
        let extents: Vec<usize> = rest.iter().map(|&axis| x.shape[axis]).collect();
        let shape = [&extents[..place], &picked, &extents[place..]].concat();
        let indices: Vec<Vec<i64>> = tensors.iter().map(|tensor| tensor.integers()).collect();
        let sources = positions(&shape).map(|at| {
            let own = &at[place..place + picked.len()];
            let mut source = vec![0; x.shape.len()];
            for (index, &axis) in axes.iter().enumerate() {
                let position = broadcast_flat(&tensors[index].shape, own);
                source[axis] = from_front(indices[index][position], x.shape[axis]);
            }
            for (index, &axis) in rest.iter().enumerate() {
                source[axis] = at[if index < place { index } else { index + picked.len() }];
            }
            flat(&x.shape, &source)
        });
        x.take(&shape, sources.collect::<Vec<_>>().into_iter())
    }

    pub(super) fn top_k(&self, op: TopK) -> Vec<Tensor> {
        let x = self.input(0);
        let axis = resolve_axis(op.axis, x.shape.len());
        let k = self.input(1).integers()[0] as usize;
        let mut shape = x.shape.clone();
        shape[axis] = k;
        let keys = x.reals();
        let mut sources = vec![0; shape.iter().product()];
        let mut indices = vec![0; sources.len()];
        let mut rows = x.shape.clone();
        rows[axis] = 1;
        for mut at in positions(&rows) {
            let mut order: Vec<usize> = (0..x.shape[axis]).collect();
            let mut key = |index: usize| {
                at[axis] = index;
                keys[flat(&x.shape, &at)]
            };
            let row: Vec<f64> = order.iter().map(|&index| key(index)).collect();
            // Stable: equal elements stay in order.
            order.sort_by(|&a, &b| {
                let order = match (row[a].is_nan(), row[b].is_nan()) {
                    (false, false) => row[a].partial_cmp(&row[b]).unwrap_or(Ordering::Equal),
                    (a, b) => a.cmp(&b),
                };
                if op.largest { order.reverse() } else { order }
            });
            for (place, &index) in order[..k].iter().enumerate() {
                at[axis] = place;
                let target = flat(&shape, &at);
                at[axis] = index;
                (sources[target], indices[target]) = (flat(&x.shape, &at), index as i64);
            }
        }
        vec![x.take(&shape, sources.into_iter()), Tensor::of_integers(op.index_dtype, &shape, &indices)]
    }
}
