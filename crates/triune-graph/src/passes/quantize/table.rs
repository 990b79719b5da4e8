//! Functions of one 8-bit operand as tables of 256 results.

use std::sync::Arc;

use triune_tensor::{DType, QuantParams, Rounding};

use crate::{
    Op,
    ops::{Table, Unary, UnaryKind},
};

/// What a quantized value means: its element type and its quantization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::passes) struct Quantized {
    pub(in crate::passes) dtype: DType,
    pub(in crate::passes) params: QuantParams,
}

impl Quantized {
    /// Whether its values have 8 bits, as tables want them.
    pub(in crate::passes) fn is_byte(self) -> bool {
        self.dtype.is_quantized()
    }
}

/// The integer that a byte pattern stands for.
pub(in crate::passes) fn integer(byte: u8, dtype: DType) -> i32 {
    if dtype == DType::I8 { i32::from(byte as i8) } else { i32::from(byte) }
}

/// The table that dequantizes, applies `function` in f64, rounds to f32 and quantizes.
pub(in crate::passes) fn tabulate(
    from: Quantized,
    to: Quantized,
    rounding: Rounding,
    function: impl Fn(f64) -> f64,
) -> Arc<[u8; 256]> {
    Arc::new(std::array::from_fn(|byte| {
        let x = from.params.dequantize(integer(byte as u8, from.dtype));
        to.params.quantize_by(rounding, function(f64::from(x)) as f32, to.dtype) as u8
    }))
}

/// The map of all 256 bytes of one 8-bit type and quantization to another, by way of a function of the real.
///
/// With a function: dequantize, apply it in f64, round to f32, quantize by `rounding`. Without one, halves to even:
/// dequantize, quantize; away from zero: round(f32(q − zero point) · f32(scale / scale)) + zero point, as `MegEngine`
/// converts between quantized types.
pub fn table(
    function: Option<UnaryKind>,
    (dtype, from): (DType, QuantParams),
    (to_dtype, to): (DType, QuantParams),
    rounding: Rounding,
) -> Table {
    let source = Quantized { dtype, params: from };
    let target = Quantized { dtype: to_dtype, params: to };
    let table = match (function, rounding) {
        (Some(kind), _) => tabulate(source, target, rounding, |x| evaluate(kind, x)),
        (None, Rounding::HalfToEven) => tabulate(source, target, rounding, |x| x),
        (None, Rounding::HalfAwayFromZero) => {
            let ratio = from.scale / to.scale;
            let steps = QuantParams { scale: 1.0, zero_point: to.zero_point };
            Arc::new(std::array::from_fn(|byte| {
                let q = integer(byte as u8, dtype) - from.zero_point;
                steps.quantize_by(rounding, q as f32 * ratio, to_dtype) as u8
            }))
        }
    };
    Table { table }
}

/// A function of one operand as an operator over integers, or one that keeps the real: a table of bytes, or the function itself
/// between 16-bit integers, whose table is made by [`wide_table`]. `None` between integers of 8 and of 16 bits.
pub(in crate::passes) fn mapping(
    function: Option<UnaryKind>,
    from: Quantized,
    to: Quantized,
    rounding: Rounding,
) -> Option<Op> {
    let kind = function.unwrap_or(UnaryKind::Clip([f32::NEG_INFINITY, f32::INFINITY]));
    match (from.is_byte(), to.is_byte()) {
        (true, true) => Some(Op::Table(Table { table: tabulate(from, to, rounding, |x| evaluate(kind, x)) })),
        (false, false) if from.dtype == to.dtype => Some(Op::Unary(Unary { kind })),
        _ => None,
    }
}

/// The map of all 65,536 patterns of 16-bit integers to others, by way of a function of the real: dequantize, apply it in
/// f64, round to f32, quantize by `rounding`. Indexed by the unsigned pattern.
pub fn wide_table(function: UnaryKind, from: QuantParams, to: QuantParams, rounding: Rounding) -> Vec<i16> {
    (0..=u16::MAX)
        .map(|pattern| {
            let x = from.dequantize(i32::from(pattern.cast_signed()));
            let real = evaluate(function, f64::from(x)) as f32;
            to.quantize_by(rounding, real, DType::I16) as i16
        })
        .collect()
}

/// The function in f64.
pub(in crate::passes) fn evaluate(kind: UnaryKind, x: f64) -> f64 {
    match kind {
        UnaryKind::Relu => x.max(0.0),
        UnaryKind::LeakyRelu(alpha) if x < 0.0 => f64::from(alpha) * x,
        UnaryKind::Elu(alpha) if x < 0.0 => f64::from(alpha) * x.exp_m1(),
        UnaryKind::LeakyRelu(_) | UnaryKind::Elu(_) => x,
        // Not `clamp`: the limits come from a file and may be the wrong way round, when the upper one wins.
        UnaryKind::Clip([low, high]) => x.max(f64::from(low)).min(f64::from(high)),
        UnaryKind::Sigmoid => sigmoid(x),
        UnaryKind::Silu => x * sigmoid(x),
        UnaryKind::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        UnaryKind::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        UnaryKind::Tanh => x.tanh(),
        UnaryKind::Exp => x.exp(),
        UnaryKind::Log => x.ln(),
        UnaryKind::Sqrt => x.sqrt(),
        UnaryKind::Reciprocal => x.recip(),
        UnaryKind::Abs => x.abs(),
        UnaryKind::Neg => -x,
        UnaryKind::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        UnaryKind::Erf => erf(x),
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
        UnaryKind::Erfc => 1.0 - erf(x),
        UnaryKind::ErfInv => erf_inverse(x),
        UnaryKind::ErfcInv => erf_inverse(1.0 - x),
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
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function as 2/√π · e^(−x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1)), whose terms are all positive; beyond 6 it is 1 to
/// the last bit.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude > 6.0 {
        return 1.0_f64.copysign(x);
    }
    let square = magnitude * magnitude;
    let (mut term, mut sum) = (magnitude, magnitude);
    let mut odd = 1.0;
    while term > sum * f64::EPSILON / 4.0 {
        odd += 2.0;
        term *= 2.0 * square / odd;
        sum += term;
    }
    (std::f64::consts::FRAC_2_SQRT_PI * (-square).exp() * sum).copysign(x)
}

/// The x whose error function is y, by halving: for tables, a few hundred times per network.
fn erf_inverse(y: f64) -> f64 {
    if y.abs() >= 1.0 || y.is_nan() {
        return if y.abs() == 1.0 { f64::INFINITY.copysign(y) } else { f64::NAN };
    }
    let (mut low, mut high) = (0.0, 6.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if erf(middle) < y.abs() { low = middle } else { high = middle }
    }
    low.copysign(y)
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
            (3.5, 0.999_999_256_901_627_7),
        ] {
            assert!((erf(x) - expected).abs() < 1e-14, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
    }

    #[test]
    fn same_parameters_make_the_identity() {
        let quantized = Quantized { dtype: DType::I8, params: QuantParams { scale: 0.037, zero_point: -11 } };
        let table = tabulate(quantized, quantized, Rounding::HalfToEven, |x| x);
        assert!((0..=255_u8).all(|byte| table[usize::from(byte)] == byte));
    }

    #[test]
    fn conversions_round_halves_as_asked() {
        let from = (DType::I8, QuantParams { scale: 0.5, zero_point: 0 });
        let to = (DType::I8, QuantParams { scale: 1.0, zero_point: -2 });
        let halves = |rounding| {
            let table = table(None, from, to, rounding).table;
            [1, 5, -1, -5_i8].map(|q| table[usize::from(q.cast_unsigned())].cast_signed() + 2)
        };
        assert_eq!(halves(Rounding::HalfToEven), [0, 2, 0, -2]);
        assert_eq!(halves(Rounding::HalfAwayFromZero), [1, 3, -1, -3]);
        let relu = table(Some(UnaryKind::Relu), from, to, Rounding::HalfAwayFromZero).table;
        assert_eq!([relu[3], relu[0xfd]].map(u8::cast_signed), [2 - 2, -2]);
    }

    #[test]
    fn signed_bytes_are_indexed_by_their_pattern() {
        let from = Quantized { dtype: DType::I8, params: QuantParams { scale: 1.0, zero_point: 0 } };
        let to = Quantized { dtype: DType::U8, params: QuantParams { scale: 1.0, zero_point: 0 } };
        let table = tabulate(from, to, Rounding::HalfToEven, |x| evaluate(UnaryKind::Abs, x));
        assert_eq!([table[0], table[5], table[0xfb], table[0x80]], [0, 5, 5, 128]);
    }
}
