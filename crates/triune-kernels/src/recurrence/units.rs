//! A cell's functions, element by element.

use triune_tensor::function::UnaryKind;

use crate::dispatch::{Level, multiversion};
use crate::math;
use crate::unary::apply;
#[cfg(target_arch = "x86_64")]
use crate::unary_x86;

/// Some units of a row in one step; what the cell does not have is empty.
pub(super) struct Units<'a> {
    pub(super) level: Level,
    pub(super) functions: &'a [UnaryKind; 3],
    pub(super) clip: f32,
    pub(super) coupled: bool,
    pub(super) input: [&'a [f32]; 4],
    pub(super) sums: [&'a mut [f32]; 4],
    pub(super) values: [&'a mut [f32]; 4],
    pub(super) before: &'a [f32],
    pub(super) after: &'a mut [f32],
    pub(super) cell: &'a mut [f32],
    pub(super) gated: &'a mut [f32],
    pub(super) vectors: Option<[&'a [f32]; 3]>,
}

impl Units<'_> {
    pub(super) fn simple(self) {
        apply(self.level, self.functions[0], self.sums[0], self.after);
    }

    /// Both gates, and what the second one lets through of the state.
    pub(super) fn gru_gates(self) {
        let ([update, reset, ..], [first, second, ..]) = (self.sums, self.values);
        apply(self.level, self.functions[0], update, first);
        update.copy_from_slice(first);
        apply(self.level, self.functions[0], reset, second);
        multiply(self.level, second, self.before, self.gated);
    }

    pub(super) fn gru(self) {
        let ([update, _, new, _], [value, ..]) = (self.sums, self.values);
        apply(self.level, self.functions[1], new, value);
        mix(self.level, update, value, self.before, self.after);
    }

    pub(super) fn linear_gru(self) {
        let ([update, reset, new, _], [first, second, third, _]) = (self.sums, self.values);
        apply(self.level, self.functions[0], update, first);
        apply(self.level, self.functions[0], reset, second);
        add_scaled(self.level, second, new, self.input[2], self.clip, third);
        apply(self.level, self.functions[1], third, new);
        mix(self.level, first, new, self.before, self.after);
    }

    /// Whether the cell has the functions that it usually has, and no weights for its own state.
    #[cfg(target_arch = "x86_64")]
    fn is_plain_lstm(&self) -> bool {
        let usual = [UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Tanh];
        *self.functions == usual && !self.coupled && self.vectors.is_none()
    }

    pub(super) fn lstm(self) {
        #[cfg(target_arch = "x86_64")]
        if self.level.is_512() && self.is_plain_lstm() {
            let [input, output, forget, new] = self.sums;
            // SAFETY: the level has the instructions.
            unsafe { unary_x86::lstm([input, output, forget, new], self.cell, self.after) };
            return;
        }
        let ([input, output, forget, new], [first, second, third, fourth]) = (self.sums, self.values);
        let [gate, candidate, squash] = *self.functions;
        if let Some([own, _, forgets]) = self.vectors {
            add_state(self.level, own, self.cell, self.clip, input);
            add_state(self.level, forgets, self.cell, self.clip, forget);
            limit(self.level, self.clip, new);
        }
        apply(self.level, gate, input, first);
        if self.coupled {
            complement(self.level, first, third);
        } else {
            apply(self.level, gate, forget, third);
        }
        apply(self.level, candidate, new, fourth);
        carry(self.level, third, first, fourth, self.cell);
        if let Some([_, outputs, _]) = self.vectors {
            add_state(self.level, outputs, self.cell, self.clip, output);
        }
        apply(self.level, gate, output, second);
        apply(self.level, squash, self.cell, fourth);
        multiply(self.level, second, fourth, self.after);
    }
}

multiversion! {
    /// y = a·b.
    fn multiply(a: &[f32], b: &[f32], y: &mut [f32]) {
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = a * b;
        }
    }
}

multiversion! {
    /// y = 1 − x.
    fn complement(x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = 1.0 - x;
        }
    }
}

multiversion! {
    /// y = (1 − z)·n + z·h.
    fn mix(z: &[f32], n: &[f32], h: &[f32], y: &mut [f32]) {
        for (((y, z), n), h) in y.iter_mut().zip(z).zip(n).zip(h) {
            *y = z.mul_add(*h, (1.0 - z) * n);
        }
    }
}

multiversion! {
    /// c = f·c + i·g.
    fn carry(f: &[f32], i: &[f32], g: &[f32], c: &mut [f32]) {
        for (((c, f), i), g) in c.iter_mut().zip(f).zip(i).zip(g) {
            *c = f.mul_add(*c, i * g);
        }
    }
}

multiversion! {
    /// y = x within −limit..limit.
    fn limit(limit: f32, y: &mut [f32]) {
        for y in y {
            *y = math::min(math::max(*y, -limit), limit);
        }
    }
}

multiversion! {
    /// y = y + p·c within −limit..limit.
    fn add_state(p: &[f32], c: &[f32], limit: f32, y: &mut [f32]) {
        for ((y, p), c) in y.iter_mut().zip(p).zip(c) {
            *y = math::min(math::max(p.mul_add(*c, *y), -limit), limit);
        }
    }
}

multiversion! {
    /// y = x + r·sum within −limit..limit.
    fn add_scaled(r: &[f32], sum: &[f32], x: &[f32], limit: f32, y: &mut [f32]) {
        for (((y, r), sum), x) in y.iter_mut().zip(r).zip(sum).zip(x) {
            *y = math::min(math::max(r.mul_add(*sum, *x), -limit), limit);
        }
    }
}
