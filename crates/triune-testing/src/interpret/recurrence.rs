//! Recurrent cells, one unit at a time in f64.

use triune_graph::ops::{CellKind, Recurrence, UnaryKind};

use super::{Step, unary};
use crate::{Data, Tensor};

/// A direction's parameters.
struct Cell<'a> {
    op: &'a Recurrence,
    direction: usize,
    hidden: usize,
    weights: &'a [f32],
    vectors: Option<&'a [f32]>,
}

impl Step<'_> {
    pub(super) fn recurrence(&self, op: &Recurrence) -> Tensor {
        let (x, weights) = (self.input(0), self.input(1));
        let [steps, batch] = [x.shape[0], x.shape[1]];
        let (directions, hidden) = (op.backwards.len(), weights.shape[2]);
        let states = op.cell.states();
        let initial = self.optional(3).map(Tensor::as_f32);
        let lengths = self.optional(4).map(Tensor::integers);
        let shape = [steps + states, directions, batch, hidden];
        let mut result = vec![0.0_f32; shape.iter().product()];
        for direction in 0..directions {
            let cell = Cell {
                op,
                direction,
                hidden,
                weights: weights.as_f32(),
                vectors: self.optional(2).map(Tensor::as_f32),
            };
            for sequence in 0..batch {
                let row = |outer: usize| ((outer * directions + direction) * batch + sequence) * hidden;
                let mut state: Vec<Vec<f64>> = (0..states)
                    .map(|state| {
                        let at = |unit| initial.map_or(0.0, |values| f64::from(values[row(state) + unit]));
                        (0..hidden).map(at).collect()
                    })
                    .collect();
                let length = lengths.as_ref().map_or(steps, |lengths| lengths[sequence] as usize);
                let mut times: Vec<usize> = (0..length).collect();
                if op.backwards[direction] {
                    times.reverse();
                }
                for time in times {
                    let gates = op.cell.gates() * hidden;
                    let from = ((time * batch + sequence) * directions + direction) * gates;
                    state = cell.step(&x.as_f32()[from..][..gates], &state);
                    put(&mut result[row(time)..], &state[0]);
                }
                for (index, state) in state.iter().enumerate() {
                    put(&mut result[row(steps + index)..], state);
                }
            }
        }
        Tensor::new(&shape, Data::F32(result))
    }
}

fn put(to: &mut [f32], values: &[f64]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to = *value as f32;
    }
}

impl Cell<'_> {
    /// A gate's row of weights times a state.
    fn product(&self, gate: usize, unit: usize, state: &[f64]) -> f64 {
        let row = (self.direction * self.op.cell.gates() + gate) * self.hidden + unit;
        let weights = &self.weights[row * self.hidden..][..self.hidden];
        weights.iter().zip(state).map(|(weight, state)| f64::from(*weight) * state).sum()
    }

    fn vector(&self, index: usize, unit: usize) -> f64 {
        let row = self.direction * self.op.cell.vectors() + index;
        self.vectors.map_or(0.0, |vectors| f64::from(vectors[row * self.hidden + unit]))
    }

    fn limited(&self, function: usize, x: f64) -> f64 {
        let (clip, kind) = (f64::from(self.op.clip), self.op.functions[self.direction][function]);
        unary(kind, x.min(clip).max(-clip))
    }

    fn step(&self, x: &[f32], state: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let h = &state[0];
        let units = 0..self.hidden;
        let sum =
            |gate: usize, unit: usize| f64::from(x[gate * self.hidden + unit]) + self.product(gate, unit, h);
        match self.op.cell {
            CellKind::Simple => vec![units.map(|unit| self.limited(0, sum(0, unit))).collect()],
            CellKind::Gru | CellKind::LinearGru => {
                let reset: Vec<f64> = units.clone().map(|unit| self.limited(0, sum(1, unit))).collect();
                let passed: Vec<f64> = reset.iter().zip(h).map(|(reset, h)| reset * h).collect();
                let new = |unit: usize| {
                    let own = f64::from(x[2 * self.hidden + unit]);
                    let old = match self.op.cell {
                        CellKind::Gru => self.product(2, unit, &passed),
                        _ => reset[unit] * (self.product(2, unit, h) + self.vector(0, unit)),
                    };
                    self.limited(1, own + old)
                };
                let mixed = units.map(|unit| {
                    let update = self.limited(0, sum(0, unit));
                    (1.0 - update) * new(unit) + update * h[unit]
                });
                vec![mixed.collect()]
            }
            CellKind::Lstm => {
                let c = &state[1];
                let next: Vec<f64> = units
                    .clone()
                    .map(|unit| {
                        let input = self.limited(0, sum(0, unit) + self.vector(0, unit) * c[unit]);
                        let forget = self.limited(0, sum(2, unit) + self.vector(2, unit) * c[unit]);
                        let forget = if self.op.coupled { 1.0 - input } else { forget };
                        forget * c[unit] + input * self.limited(1, sum(3, unit))
                    })
                    .collect();
                let squash: UnaryKind = self.op.functions[self.direction][2];
                let out = units.map(|unit| {
                    let output = self.limited(0, sum(1, unit) + self.vector(1, unit) * next[unit]);
                    output * unary(squash, next[unit])
                });
                vec![out.collect(), next]
            }
        }
    }
}
