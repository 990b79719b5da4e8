//! Functions of one operand.

use triune_graph::ops::{Table, Tables, Unary, UnaryKind};
use triune_tensor::DType;

use super::{Step, epilogue::look_up};
use crate::{Data, Tensor};

/// The function in f64, by the C library and by series of its own.
pub fn unary(kind: UnaryKind, x: f64) -> f64 {
    match kind {
        // A NaN stays one, which the library's extremes would drop.
        _ if x.is_nan() => x,
        UnaryKind::Identity => x,
        UnaryKind::Relu => x.max(0.0),
        UnaryKind::LeakyRelu(alpha) => {
            if x < 0.0 {
                f64::from(alpha) * x
            } else {
                x
            }
        }
        UnaryKind::Elu(alpha) => {
            if x < 0.0 {
                f64::from(alpha) * x.exp_m1()
            } else {
                x
            }
        }
        UnaryKind::Clip([low, high]) => x.max(f64::from(low)).min(f64::from(high)),
        UnaryKind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryKind::Silu => x / (1.0 + (-x).exp()),
        UnaryKind::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        UnaryKind::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        UnaryKind::Tanh => x.tanh(),
        UnaryKind::Exp => x.exp(),
        UnaryKind::Log => x.ln(),
        UnaryKind::Sqrt => x.sqrt(),
        UnaryKind::Reciprocal => 1.0 / x,
        UnaryKind::Abs => x.abs(),
        UnaryKind::Neg => -x,
        UnaryKind::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        UnaryKind::Erf => erf(x),
        UnaryKind::Gate { alpha, beta } => {
            let cubic = if beta == 0.0 { 0.0 } else { f64::from(beta) * x * x };
            x / (1.0 + (-x * (f64::from(alpha) + cubic)).exp())
        }
        UnaryKind::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        UnaryKind::Floor => x.floor(),
        UnaryKind::Ceil => x.ceil(),
        UnaryKind::Round => x.round_ties_even(),
        UnaryKind::Sin => x.sin(),
        UnaryKind::Cos => x.cos(),
        UnaryKind::Tan => x.tan(),
        UnaryKind::Asin => x.asin(),
        UnaryKind::Acos => x.acos(),
        UnaryKind::Atan => x.atan(),
        UnaryKind::Sinh => x.sinh(),
        UnaryKind::Cosh => x.cosh(),
        UnaryKind::Asinh => x.asinh(),
        UnaryKind::Acosh => x.acosh(),
        UnaryKind::Atanh => x.atanh(),
        UnaryKind::Expm1 => x.exp_m1(),
        UnaryKind::Log1p => x.ln_1p(),
        UnaryKind::FastTanh => x * (27.0 + x * x) / (27.0 + 9.0 * x * x),
        UnaryKind::RoundHalfAway => x.round(),
        UnaryKind::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                1.0_f64.copysign(x)
            }
        }
        UnaryKind::Square => x * x,
        UnaryKind::Rsqrt => 1.0 / x.sqrt(),
        UnaryKind::LogSigmoid => -((-x).max(0.0) + (-x.abs()).exp().ln_1p()),
        UnaryKind::Affine { alpha, beta } => f64::from(alpha) * x + f64::from(beta),
        UnaryKind::ThresholdedRelu(alpha) => {
            if x > f64::from(alpha) {
                x
            } else {
                0.0
            }
        }
        UnaryKind::ScaledTanh { alpha, beta } => f64::from(alpha) * (f64::from(beta) * x).tanh(),
        UnaryKind::Softsign => x / (1.0 + x.abs()),
        UnaryKind::Erfc => erfc(x),
        UnaryKind::ErfInv => erf_inverse(x, 1.0 - x),
        UnaryKind::ErfcInv => erf_inverse(1.0 - x, x),
    }
}

/// The error function by its Maclaurin series, which f64 carries far enough up to |x| = 3, and beyond that by the
/// continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    let value = if magnitude < 3.0 {
        let mut term = magnitude;
        let mut sum = magnitude;
        for n in 1..200_u32 {
            term *= -magnitude * magnitude / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let tail = (1..60_u32).rev().fold(magnitude, |below, k| magnitude + f64::from(k) / 2.0 / below);
        1.0 - (-magnitude * magnitude).exp() / tail / std::f64::consts::PI.sqrt()
    };
    value.copysign(x)
}

/// 1 − erf x, from the continued fraction where that would cancel.
fn erfc(x: f64) -> f64 {
    if x < 2.5 {
        return 1.0 - erf(x);
    }
    let tail = (1..200_u32).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below);
    (-x * x).exp() / tail / std::f64::consts::PI.sqrt()
}

/// The argument of this error function and this complement of it: by the smaller one, which has all its digits.
fn erf_inverse(y: f64, complement: f64) -> f64 {
    if !(0.0..=2.0).contains(&complement) {
        return f64::NAN;
    }
    if complement == 0.0 || complement == 2.0 {
        return f64::INFINITY.copysign(y);
    }
    if y.abs() < 0.5 { inverse(erf, y) } else { inverse(|t| -erfc(t), -complement) }
}

/// The argument at which a rising function has this value, by halving.
fn inverse(f: impl Fn(f64) -> f64, y: f64) -> f64 {
    let (mut low, mut high) = (-12.0, 12.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if f(middle) < y { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The functions that integers have.
fn integer_unary(kind: UnaryKind, x: i64) -> i64 {
    match kind {
        UnaryKind::Relu => x.max(0),
        UnaryKind::Abs => x.wrapping_abs(),
        UnaryKind::Neg => x.wrapping_neg(),
        UnaryKind::Sign => x.signum(),
        UnaryKind::Square => x.wrapping_mul(x),
        UnaryKind::Floor | UnaryKind::Ceil | UnaryKind::Round | UnaryKind::RoundHalfAway => x,
        other => panic!("no {other:?} of integers"),
    }
}

impl Step<'_> {
    pub(super) fn unary(&self, op: Unary) -> Tensor {
        let x = self.input(0);
        if let (DType::I16, Some(_)) = (x.dtype(), self.quant()) {
            let (from, to) = (self.input_quant(0), self.result_quant());
            let result = |q: i64| {
                let real = unary(op.kind, f64::from(from.dequantize(q as i32))) as f32;
                i64::from(to.quantize_by(self.graph.rounding, real, DType::I16))
            };
            let values: Vec<i64> = x.integers().into_iter().map(result).collect();
            return Tensor::of_integers(DType::I16, &x.shape, &values);
        }
        if !x.dtype().is_float() {
            let values: Vec<i64> = x.integers().into_iter().map(|x| integer_unary(op.kind, x)).collect();
            return Tensor::wrapped(x.dtype(), &x.shape, &values);
        }
        if x.dtype() != DType::F32 {
            let values: Vec<f64> = x.reals().into_iter().map(|x| unary(op.kind, x)).collect();
            return Tensor::of_floats(x.dtype(), &x.shape, &values);
        }
        let values = x.as_f32().iter().map(|&x| unary(op.kind, f64::from(x)) as f32).collect();
        Tensor::new(&x.shape, Data::F32(values))
    }

    pub(super) fn clip(&self) -> Tensor {
        let x = self.input(0);
        if !x.dtype().is_float() {
            let limit = |operand| self.optional(operand).map(|limit| limit.integers()[0]);
            let (low, high) = (limit(1).unwrap_or(i64::MIN), limit(2).unwrap_or(i64::MAX));
            let values: Vec<i64> = x.integers().into_iter().map(|x| x.max(low).min(high)).collect();
            return Tensor::wrapped(x.dtype(), &x.shape, &values);
        }
        let limit = |operand, default| self.optional(operand).map_or(default, |limit| limit.as_f32()[0]);
        let (low, high) = (limit(1, f32::NEG_INFINITY), limit(2, f32::INFINITY));
        Tensor::new(
            &x.shape,
            Data::F32(
                x.as_f32().iter().map(|&x| if x.is_nan() { x } else { x.max(low).min(high) }).collect(),
            ),
        )
    }

    pub(super) fn table(&self, op: &Table) -> Tensor {
        let (x, to) = (self.input(0), self.result_dtype());
        let values: Vec<i64> =
            x.integers().iter().map(|&q| i64::from(look_up(&op.table, q as i32, x.dtype(), to))).collect();
        Tensor::of_integers(to, &x.shape, &values)
    }

    pub(super) fn tables(&self, op: &Tables) -> Tensor {
        let (x, to) = (self.input(0), self.result_dtype());
        let inner: usize = x.shape[op.axis + 1..].iter().product();
        let integers = x.integers();
        let looked_up = integers.iter().enumerate().map(|(at, &q)| {
            let table = &op.tables[at / inner % x.shape[op.axis]];
            i64::from(look_up(table, q as i32, x.dtype(), to))
        });
        Tensor::of_integers(to, &x.shape, &looked_up.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_function_meets_known_values() {
        for (x, expected) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (2.999, 0.999_977_769_831_400_2),
            (3.5, 0.999_999_256_901_627_7),
        ] {
            assert!((erf(x) - expected).abs() < 2e-10, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }
}
