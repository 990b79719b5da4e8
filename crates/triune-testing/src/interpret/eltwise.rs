//! Functions of two operands, and normalization.

use triune_graph::ops::{BatchNormalization, Binary, BinaryKind, Rotate};
use triune_tensor::DType;

use super::{
    Step,
    epilogue::{Operand, add, mul},
};
use crate::{
    Data, Tensor,
    tensor::{broadcast_flat, broadcast_shape, flat, positions},
};

fn function(kind: BinaryKind, a: f64, b: f64) -> f64 {
    match kind {
        BinaryKind::Add => a + b,
        BinaryKind::Sub => a - b,
        BinaryKind::Mul => a * b,
        BinaryKind::Div => a / b,
        // A NaN on either side wins, which the library's extremes would drop.
        BinaryKind::Min | BinaryKind::Max if a.is_nan() => a,
        BinaryKind::Min | BinaryKind::Max if b.is_nan() => b,
        BinaryKind::Min => a.min(b),
        BinaryKind::Max => a.max(b),
        BinaryKind::Pow => a.powf(b),
        BinaryKind::FloorDiv => (a / b).floor(),
        BinaryKind::Mod => a - b * (a / b).floor(),
        BinaryKind::Rem => a % b,
        BinaryKind::PRelu => {
            if a < 0.0 {
                a * b
            } else {
                a
            }
        }
        BinaryKind::Atan2 => a.atan2(b),
        BinaryKind::LogAddExp => a.max(b) + (-(a - b).abs()).exp().ln_1p(),
        other => panic!("no {other:?} of reals"),
    }
}

fn integer_function(kind: BinaryKind, a: i64, b: i64, bits: u32) -> i64 {
    match kind {
        BinaryKind::Add => a.wrapping_add(b),
        BinaryKind::Sub => a.wrapping_sub(b),
        BinaryKind::Mul => a.wrapping_mul(b),
        BinaryKind::Div | BinaryKind::FloorDiv | BinaryKind::Mod | BinaryKind::Rem if b == 0 => 0,
        BinaryKind::Div => a / b,
        BinaryKind::FloorDiv => (a as f64 / b as f64).floor() as i64,
        BinaryKind::Mod => a - b * (a as f64 / b as f64).floor() as i64,
        BinaryKind::Rem => a % b,
        BinaryKind::Min => a.min(b),
        BinaryKind::Max => a.max(b),
        BinaryKind::Pow if b < 0 => [0, 1, 0, if b % 2 == 0 { 1 } else { -1 }][match a {
            1 => 1,
            -1 => 3,
            _ => 0,
        }],
        BinaryKind::Pow => (0..b).fold(1_i64, |product, _| product.wrapping_mul(a)),
        BinaryKind::PRelu => {
            if a < 0 {
                a.wrapping_mul(b)
            } else {
                a
            }
        }
        BinaryKind::And => a & b,
        BinaryKind::Or => a | b,
        BinaryKind::Xor => a ^ b,
        BinaryKind::ShiftLeft => {
            if (0..i64::from(bits)).contains(&b) {
                a << b
            } else {
                0
            }
        }
        BinaryKind::ShiftRight => a >> if (0..i64::from(bits)).contains(&b) { b } else { 63 },
        BinaryKind::MulHigh => {
            let scale = 2_f64.powi(bits as i32 - 1);
            ((a as f64 * b as f64 / scale + 0.5).floor()).min(scale - 1.0) as i64
        }
        other => panic!("no {other:?} of integers"),
    }
}

fn answer<T: PartialOrd + Copy>(kind: BinaryKind, a: T, b: T) -> bool {
    match kind {
        BinaryKind::Equal => a == b,
        BinaryKind::NotEqual => a != b,
        BinaryKind::Less => a < b,
        BinaryKind::LessOrEqual => a <= b,
        BinaryKind::Greater => a > b,
        BinaryKind::GreaterOrEqual => a >= b,
        other => panic!("{other:?} is no question"),
    }
}

impl Step<'_> {
    /// Each product and sum rounded to f32.
    pub(super) fn rotate(&self, op: Rotate) -> Tensor {
        let (x, cosines, sines) = (self.input(0), self.input(1), self.input(2));
        let (reals, pairs) = (x.reals(), cosines.shape[3]);
        let angles = [cosines.reals(), sines.reals()];
        let turned = |mut at: Vec<usize>| {
            let (own, place) = (reals[flat(&x.shape, &at)], at[3]);
            if place >= 2 * pairs {
                return own;
            }
            let (pair, other) = if op.interleaved {
                (place / 2, place ^ 1)
            } else {
                (place % pairs, (place + pairs) % (2 * pairs))
            };
            at[3] = other;
            let partner = reals[flat(&x.shape, &at)];
            at[3] = pair;
            let [cos, sin] = angles.each_ref().map(|angle| angle[broadcast_flat(&cosines.shape, &at)]);
            let (own, partner) = ((own * cos) as f32, (partner * sin) as f32);
            f64::from(if other > place { own - partner } else { own + partner })
        };
        let values: Vec<f64> = positions(&x.shape).map(turned).collect();
        Tensor::of_floats(x.dtype(), &x.shape, &values)
    }

    pub(super) fn binary(&self, op: &Binary) -> Tensor {
        let (a, b) = (self.input(0), self.input(1));
        let shape = broadcast_shape(&a.shape, &b.shape);
        let pairs =
            positions(&shape).map(|at| (broadcast_flat(&a.shape, &at), broadcast_flat(&b.shape, &at)));
        if op.kind.comparison().is_some() {
            let answers: Vec<bool> = if a.dtype().is_float() {
                let (a, b) = (a.reals(), b.reals());
                pairs.map(|(i, j)| answer(op.kind, a[i], b[j])).collect()
            } else {
                let (a, b) = (a.integers(), b.integers());
                pairs.map(|(i, j)| answer(op.kind, a[i], b[j])).collect()
            };
            return Tensor::new(&shape, Data::Bool(answers));
        }
        if a.dtype().is_half() || a.dtype() == DType::F64 {
            let (dtype, a, b) = (a.dtype(), a.reals(), b.reals());
            let values: Vec<f64> = pairs.map(|(i, j)| function(op.kind, a[i], b[j])).collect();
            return Tensor::of_floats(dtype, &shape, &values);
        }
        if let (Data::F32(a), Data::F32(b)) = (&a.data, &b.data) {
            let result = |(at, (i, j)): (usize, (usize, usize))| {
                // The function itself is rounded to f32: a fused step behind it continues from there.
                let exact = function(op.kind, f64::from(a[i]), f64::from(b[j])) as f32;
                self.finish_float(&op.epilogue, f64::from(exact), at)
            };
            return Tensor::new(&shape, Data::F32(pairs.enumerate().map(result).collect()));
        }
        let (dtype, left, right) = (a.dtype(), a.integers(), b.integers());
        if self.quant().is_none() {
            let values: Vec<i64> = pairs
                .map(|(i, j)| integer_function(op.kind, left[i], right[j], 8 * dtype.bytes() as u32))
                .collect();
            return Tensor::wrapped(dtype, &shape, &values);
        }
        let (to, y) = (self.result_dtype(), self.quant_before(&op.epilogue, 0));
        let (a, b) = (self.input_quant(0), self.input_quant(1));
        let values: Vec<i64> = (pairs.enumerate())
            .map(|(at, (i, j))| {
                let a = Operand { q: left[i] as i32, params: a };
                let b = Operand { q: right[j] as i32, params: b };
                let q = match op.kind {
                    BinaryKind::Add => add(a, b, 1.0, y, to, self.arithmetic()),
                    BinaryKind::Sub => add(a, b, -1.0, y, to, self.arithmetic()),
                    BinaryKind::Mul => mul(a, b, y, to, self.arithmetic()),
                    other => panic!("'{}': no integer {other:?}", self.node.name),
                };
                i64::from(self.finish_integer(&op.epilogue, q, at))
            })
            .collect();
        Tensor::of_integers(to, &shape, &values)
    }

    pub(super) fn batch_normalization(&self, op: BatchNormalization) -> Tensor {
        let x = self.input(0);
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|operand| self.input(operand).as_f32());
        let inner: usize = x.shape[2..].iter().product();
        let values = (x.as_f32().iter().enumerate())
            .map(|(at, &x)| {
                let c = at / inner % scale.len();
                let [scale, bias, mean, variance] =
                    [scale, bias, mean, variance].map(|list| f64::from(list[c]));
                ((f64::from(x) - mean) / (variance + f64::from(op.epsilon)).sqrt() * scale + bias) as f32
            })
            .collect();
        Tensor::new(&x.shape, Data::F32(values))
    }
}
