//! Functions of one real.

use super::{Code, Coded, math, named};

/// A function of one operand, element by element.
///
/// Results of kernels have the same bits on every instruction set and lie within a few units in the last place of f32 of
/// [`Self::evaluate`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum UnaryKind {
    /// x.
    #[default]
    Identity,
    /// max(x, 0).
    Relu,
    /// x, or α·x below 0.
    LeakyRelu(f32),
    /// x, or α·(eˣ − 1) below 0.
    Elu(f32),
    /// min(max(x, low), high); the upper limit wins where they are the wrong way round.
    Clip([f32; 2]),
    /// 1/(1 + e⁻ˣ).
    Sigmoid,
    /// x/(1 + e⁻ˣ).
    Silu,
    /// max(0, min(1, α·x + β)).
    HardSigmoid {
        /// α.
        alpha: f32,
        /// β.
        beta: f32,
    },
    /// x·max(0, min(1, x/6 + 1/2)).
    HardSwish,
    /// Hyperbolic tangent.
    Tanh,
    /// eˣ.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// 1/x.
    Reciprocal,
    /// |x|.
    Abs,
    /// −x.
    Neg,
    /// ln(1 + eˣ).
    Softplus,
    /// Gauss error function.
    Erf,
    /// x·Φ(x).
    Gelu,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Nearest integer, half to even.
    Round,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Inverse sine; NaN beyond −1..1.
    Asin,
    /// Inverse cosine; NaN beyond −1..1.
    Acos,
    /// Inverse tangent.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine; NaN below 1.
    Acosh,
    /// Inverse hyperbolic tangent; NaN beyond −1..1.
    Atanh,
    /// eˣ − 1, right near 0.
    Expm1,
    /// ln(1 + x), right near 0.
    Log1p,
    /// 1 − erf x, right in the tail.
    Erfc,
    /// Inverse of the error function.
    ErfInv,
    /// Inverse of erfc.
    ErfcInv,
    /// x·(27 + x²)/(27 + 9·x²), a rational function near tanh.
    FastTanh,
    /// Nearest integer, half away from zero.
    RoundHalfAway,
    /// −1, 0 or 1; NaN for NaN.
    Sign,
    /// x².
    Square,
    /// 1/√x.
    Rsqrt,
    /// −ln(1 + e⁻ˣ).
    LogSigmoid,
    /// α·x + β.
    Affine {
        /// α.
        alpha: f32,
        /// β.
        beta: f32,
    },
    /// x above α, 0 elsewhere.
    ThresholdedRelu(f32),
    /// α·tanh(β·x).
    ScaledTanh {
        /// α.
        alpha: f32,
        /// β.
        beta: f32,
    },
    /// x/(1 + |x|).
    Softsign,
    /// x/(1 + e⁻ᵘ) with u = x·(α + β·x²): Swish, and Gelu by tanh.
    Gate {
        /// α.
        alpha: f32,
        /// β.
        beta: f32,
    },
}

named!(UnaryKind);

impl Coded for UnaryKind {
    const NAME: &'static str = "FunctionKind";
    const MEANING: &'static str = "A function of one real.";
    const CODES: &'static [Code] = &[
        Code { code: 0, name: "Identity", meaning: "x." },
        Code { code: 1, name: "Relu", meaning: "max(x, 0)." },
        Code { code: 2, name: "LeakyRelu", meaning: "x, or α·x below 0." },
        Code { code: 3, name: "Elu", meaning: "x, or α·(eˣ − 1) below 0." },
        Code { code: 4, name: "Clip", meaning: "Limited to α..β." },
        Code { code: 5, name: "Sigmoid", meaning: "1/(1 + e⁻ˣ)." },
        Code { code: 6, name: "Silu", meaning: "x/(1 + e⁻ˣ)." },
        Code { code: 7, name: "HardSigmoid", meaning: "max(0, min(1, α·x + β))." },
        Code { code: 8, name: "HardSwish", meaning: "x·max(0, min(1, x/6 + 1/2))." },
        Code { code: 9, name: "Tanh", meaning: "Hyperbolic tangent." },
        Code { code: 10, name: "Exp", meaning: "eˣ." },
        Code { code: 11, name: "Log", meaning: "Natural logarithm." },
        Code { code: 12, name: "Sqrt", meaning: "Square root." },
        Code { code: 13, name: "Reciprocal", meaning: "1/x." },
        Code { code: 14, name: "Abs", meaning: "|x|." },
        Code { code: 15, name: "Neg", meaning: "−x." },
        Code { code: 16, name: "Softplus", meaning: "ln(1 + eˣ)." },
        Code { code: 17, name: "Erf", meaning: "Gauss error function." },
        Code { code: 18, name: "Gelu", meaning: "x·Φ(x)." },
        Code { code: 19, name: "Floor", meaning: "Largest integer not above." },
        Code { code: 20, name: "Ceil", meaning: "Smallest integer not below." },
        Code { code: 21, name: "Round", meaning: "Nearest integer, half to even." },
        Code { code: 22, name: "Sin", meaning: "Sine." },
        Code { code: 23, name: "Cos", meaning: "Cosine." },
        Code { code: 24, name: "Tan", meaning: "Tangent." },
        Code { code: 25, name: "Asin", meaning: "Inverse sine; NaN beyond −1..1." },
        Code { code: 26, name: "Acos", meaning: "Inverse cosine; NaN beyond −1..1." },
        Code { code: 27, name: "Atan", meaning: "Inverse tangent." },
        Code { code: 28, name: "Sinh", meaning: "Hyperbolic sine." },
        Code { code: 29, name: "Cosh", meaning: "Hyperbolic cosine." },
        Code { code: 30, name: "Asinh", meaning: "Inverse hyperbolic sine." },
        Code { code: 31, name: "Acosh", meaning: "Inverse hyperbolic cosine; NaN below 1." },
        Code { code: 32, name: "Atanh", meaning: "Inverse hyperbolic tangent; NaN beyond −1..1." },
        Code { code: 33, name: "Expm1", meaning: "eˣ − 1, right near 0." },
        Code { code: 34, name: "Log1p", meaning: "ln(1 + x), right near 0." },
        Code { code: 35, name: "Erfc", meaning: "1 − erf x, right in the tail." },
        Code { code: 36, name: "ErfInv", meaning: "Inverse of the error function." },
        Code { code: 37, name: "ErfcInv", meaning: "Inverse of erfc." },
        Code {
            code: 38,
            name: "FastTanh",
            meaning: "x·(27 + x²)/(27 + 9·x²), a rational function near tanh.",
        },
        Code { code: 39, name: "RoundHalfAway", meaning: "Nearest integer, half away from zero." },
        Code { code: 40, name: "Sign", meaning: "−1, 0 or 1; NaN for NaN." },
        Code { code: 41, name: "Square", meaning: "x²." },
        Code { code: 42, name: "Rsqrt", meaning: "1/√x." },
        Code { code: 43, name: "LogSigmoid", meaning: "−ln(1 + e⁻ˣ)." },
        Code { code: 44, name: "Affine", meaning: "α·x + β." },
        Code { code: 45, name: "ThresholdedRelu", meaning: "x above α, 0 elsewhere." },
        Code { code: 46, name: "ScaledTanh", meaning: "α·tanh(β·x)." },
        Code { code: 47, name: "Softsign", meaning: "x/(1 + |x|)." },
        Code { code: 48, name: "Gate", meaning: "x/(1 + e⁻ᵘ) with u = x·(α + β·x²)." },
    ];

    fn code(self) -> u32 {
        match self {
            Self::Identity => 0,
            Self::Relu => 1,
            Self::LeakyRelu(_) => 2,
            Self::Elu(_) => 3,
            Self::Clip(_) => 4,
            Self::Sigmoid => 5,
            Self::Silu => 6,
            Self::HardSigmoid { .. } => 7,
            Self::HardSwish => 8,
            Self::Tanh => 9,
            Self::Exp => 10,
            Self::Log => 11,
            Self::Sqrt => 12,
            Self::Reciprocal => 13,
            Self::Abs => 14,
            Self::Neg => 15,
            Self::Softplus => 16,
            Self::Erf => 17,
            Self::Gelu => 18,
            Self::Floor => 19,
            Self::Ceil => 20,
            Self::Round => 21,
            Self::Sin => 22,
            Self::Cos => 23,
            Self::Tan => 24,
            Self::Asin => 25,
            Self::Acos => 26,
            Self::Atan => 27,
            Self::Sinh => 28,
            Self::Cosh => 29,
            Self::Asinh => 30,
            Self::Acosh => 31,
            Self::Atanh => 32,
            Self::Expm1 => 33,
            Self::Log1p => 34,
            Self::Erfc => 35,
            Self::ErfInv => 36,
            Self::ErfcInv => 37,
            Self::FastTanh => 38,
            Self::RoundHalfAway => 39,
            Self::Sign => 40,
            Self::Square => 41,
            Self::Rsqrt => 42,
            Self::LogSigmoid => 43,
            Self::Affine { .. } => 44,
            Self::ThresholdedRelu(_) => 45,
            Self::ScaledTanh { .. } => 46,
            Self::Softsign => 47,
            Self::Gate { .. } => 48,
        }
    }
}

impl UnaryKind {
    /// The function with this code; `parameters` are those of [`Self::parameters`], of which a function takes what it has.
    pub fn from_code(code: u32, parameters: [f32; 2]) -> Option<Self> {
        let [alpha, beta] = parameters;
        Some(match code {
            0 => Self::Identity,
            1 => Self::Relu,
            2 => Self::LeakyRelu(alpha),
            3 => Self::Elu(alpha),
            4 => Self::Clip(parameters),
            5 => Self::Sigmoid,
            6 => Self::Silu,
            7 => Self::HardSigmoid { alpha, beta },
            8 => Self::HardSwish,
            9 => Self::Tanh,
            10 => Self::Exp,
            11 => Self::Log,
            12 => Self::Sqrt,
            13 => Self::Reciprocal,
            14 => Self::Abs,
            15 => Self::Neg,
            16 => Self::Softplus,
            17 => Self::Erf,
            18 => Self::Gelu,
            19 => Self::Floor,
            20 => Self::Ceil,
            21 => Self::Round,
            22 => Self::Sin,
            23 => Self::Cos,
            24 => Self::Tan,
            25 => Self::Asin,
            26 => Self::Acos,
            27 => Self::Atan,
            28 => Self::Sinh,
            29 => Self::Cosh,
            30 => Self::Asinh,
            31 => Self::Acosh,
            32 => Self::Atanh,
            33 => Self::Expm1,
            34 => Self::Log1p,
            35 => Self::Erfc,
            36 => Self::ErfInv,
            37 => Self::ErfcInv,
            38 => Self::FastTanh,
            39 => Self::RoundHalfAway,
            40 => Self::Sign,
            41 => Self::Square,
            42 => Self::Rsqrt,
            43 => Self::LogSigmoid,
            44 => Self::Affine { alpha, beta },
            45 => Self::ThresholdedRelu(alpha),
            46 => Self::ScaledTanh { alpha, beta },
            47 => Self::Softsign,
            48 => Self::Gate { alpha, beta },
            _ => return None,
        })
    }

    /// α and β, or the lower and upper limit; 0 where the function has none.
    pub fn parameters(self) -> [f32; 2] {
        match self {
            Self::LeakyRelu(alpha) | Self::Elu(alpha) | Self::ThresholdedRelu(alpha) => [alpha, 0.0],
            Self::Clip(limits) => limits,
            Self::HardSigmoid { alpha, beta }
            | Self::Affine { alpha, beta }
            | Self::ScaledTanh { alpha, beta }
            | Self::Gate { alpha, beta } => [alpha, beta],
            _ => [0.0; 2],
        }
    }

    /// The operator's name in ONNX, or ours where ONNX has none.
    pub fn name(self) -> &'static str {
        Self::CODES[self.code() as usize].name
    }

    /// The function in f64, for tables and references: the same bits on every machine.
    pub fn evaluate(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::LeakyRelu(alpha) if x < 0.0 => f64::from(alpha) * x,
            Self::Elu(alpha) if x < 0.0 => f64::from(alpha) * math::expm1(x),
            Self::Identity | Self::LeakyRelu(_) | Self::Elu(_) => x,
            // Not `clamp`: the limits come from a file and may be the wrong way round, when the upper one wins.
            Self::Clip([low, high]) => x.max(f64::from(low)).min(f64::from(high)),
            Self::Sigmoid => sigmoid(x),
            Self::Silu => x * sigmoid(x),
            Self::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
            Self::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::Tanh => math::tanh(x),
            Self::Exp => math::exp_to_infinity(x),
            Self::Log => math::log(x),
            Self::Sqrt => x.sqrt(),
            Self::Reciprocal => x.recip(),
            Self::Abs => x.abs(),
            Self::Neg => -x,
            Self::Softplus => softplus(x),
            Self::Erf => math::erf(x),
            Self::Gelu => 0.5 * x * (1.0 + math::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round_ties_even(),
            Self::Sin => math::sin(x),
            Self::Cos => math::cos(x),
            Self::Tan => math::tan(x),
            Self::Asin => math::asin(x),
            Self::Acos => math::acos(x),
            Self::Atan => math::atan(x),
            Self::Sinh => math::sinh(x),
            Self::Cosh => math::cosh(x),
            Self::Asinh => math::asinh(x),
            Self::Acosh => math::acosh(x),
            Self::Atanh => math::atanh(x),
            Self::Expm1 => math::expm1(x),
            Self::Log1p => math::log1p(x),
            Self::Erfc => math::erfc(x),
            Self::ErfInv => math::erfinv(x),
            Self::ErfcInv => math::erfcinv(x),
            Self::FastTanh => x * (27.0 + x * x) / (27.0 + 9.0 * x * x),
            Self::RoundHalfAway => x.round(),
            Self::Sign if x == 0.0 || x.is_nan() => x,
            Self::Sign => 1_f64.copysign(x),
            Self::Square => x * x,
            Self::Rsqrt => 1.0 / x.sqrt(),
            Self::LogSigmoid => -softplus(-x),
            Self::Affine { alpha, beta } => f64::from(alpha) * x + f64::from(beta),
            Self::ThresholdedRelu(alpha) if x > f64::from(alpha) || x.is_nan() => x,
            Self::ThresholdedRelu(_) => 0.0,
            Self::ScaledTanh { alpha, beta } => f64::from(alpha) * math::tanh(f64::from(beta) * x),
            Self::Softsign if x.is_infinite() => 1_f64.copysign(x),
            Self::Softsign => x / (1.0 + x.abs()),
            Self::Gate { alpha, beta } => {
                // Without β infinities have no part in it.
                let square = if beta == 0.0 { 0.0 } else { x * x };
                x * sigmoid(x * (f64::from(alpha) + f64::from(beta) * square))
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + math::exp_to_infinity(-x))
}

/// ln(1 + eˣ), right on both sides.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + math::log1p(math::exp_to_infinity(-x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_at_infinity() {
        let at = |kind: UnaryKind| [f64::NEG_INFINITY, f64::INFINITY].map(|x| kind.evaluate(x));
        assert_eq!(at(UnaryKind::Softsign), [-1.0, 1.0]);
        assert_eq!(at(UnaryKind::Sign), [-1.0, 1.0]);
        assert_eq!(at(UnaryKind::Sigmoid), [0.0, 1.0]);
        assert_eq!(at(UnaryKind::LogSigmoid), [f64::NEG_INFINITY, 0.0]);
        assert_eq!(at(UnaryKind::ThresholdedRelu(1.0)), [0.0, f64::INFINITY]);
        assert_eq!(UnaryKind::Softsign.evaluate(-3.0), -0.75);
    }

    /// At the very place where a function bends, and with a factor that shows on which side it was.
    #[test]
    fn bends_belong_to_one_side() {
        let bits = |kind: UnaryKind, x: f64| kind.evaluate(x).to_bits();
        for kind in [UnaryKind::LeakyRelu(-1.0), UnaryKind::Elu(-1.0)] {
            assert_eq!(bits(kind, 0.0), 0_f64.to_bits(), "{kind:?}");
            assert_eq!(bits(kind, -0.0), (-0_f64).to_bits(), "{kind:?}");
            assert_eq!(kind.evaluate(0.5), 0.5, "{kind:?}");
        }
        assert_eq!(UnaryKind::LeakyRelu(-1.0).evaluate(-0.5), 0.5);
        assert!((UnaryKind::Elu(-1.0).evaluate(-0.5) - 0.393_469_340_287_366_6).abs() < 1e-15);
        assert_eq!(bits(UnaryKind::Sign, -0.0), (-0_f64).to_bits());
        assert_eq!(UnaryKind::ThresholdedRelu(1.0).evaluate(1.0), 0.0);
        assert_eq!(UnaryKind::ThresholdedRelu(1.0).evaluate(1.5), 1.5);
        assert!(UnaryKind::ThresholdedRelu(1.0).evaluate(f64::NAN).is_nan());
        assert_eq!(UnaryKind::Clip([2.0, 1.0]).evaluate(1.5), 1.0);
        assert_eq!(UnaryKind::RoundHalfAway.evaluate(-2.5), -3.0);
        assert_eq!(UnaryKind::Round.evaluate(-2.5), -2.0);
        let hard = UnaryKind::HardSigmoid { alpha: 0.25, beta: 0.5 };
        assert_eq!([-2.0, -1.0, 2.0, 3.0].map(|x| hard.evaluate(x)), [0.0, 0.25, 1.0, 1.0]);
        assert_eq!([-3.0, -1.5, 3.0, 4.0].map(|x| UnaryKind::HardSwish.evaluate(x)), [0.0, -0.375, 3.0, 4.0]);
        assert_eq!(UnaryKind::Gate { alpha: 1.0, beta: 0.0 }.evaluate(f64::NEG_INFINITY).to_bits() >> 63, 1);
    }

    #[test]
    fn what_has_no_parameter_has_zeros() {
        let (alpha, beta) = (0.75, -2.0);
        let pairs = [
            UnaryKind::Clip([alpha, beta]),
            UnaryKind::HardSigmoid { alpha, beta },
            UnaryKind::Affine { alpha, beta },
            UnaryKind::ScaledTanh { alpha, beta },
            UnaryKind::Gate { alpha, beta },
        ];
        assert!(pairs.iter().all(|kind| kind.parameters() == [alpha, beta]));
        let single = [UnaryKind::LeakyRelu(alpha), UnaryKind::Elu(alpha), UnaryKind::ThresholdedRelu(alpha)];
        assert!(single.iter().all(|kind| kind.parameters() == [alpha, 0.0]));
        let none = [UnaryKind::Relu, UnaryKind::Identity, UnaryKind::Gelu];
        assert!(none.iter().all(|kind| kind.parameters() == [0.0; 2]));
    }
}
