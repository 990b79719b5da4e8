//! Functions of one real.

use super::{Code, Coded, math, named};

/// Declares the functions with their codes and what they mean: those of a `(parameter)`, of an array of `[limits]`, and of
/// `{ two, parameters }`.
macro_rules! functions {
    ($($(#[$attribute:meta])* $name:ident $(($one:ident))? $([$both:ident])? $({ $first:ident, $second:ident })?
        = $code:literal, $meaning:literal;)+) => {
        /// A function of one operand, element by element.
        ///
        /// Results of kernels have the same bits on every instruction set and lie within a few units in the last place of f32 of
        /// [`Self::evaluate`].
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum UnaryKind {
            $(
                #[doc = $meaning]
                $(#[$attribute])*
                $name $((functions!(@f32 $one)))? $(([functions!(@f32 $both); 2]))? $({
                    /// α.
                    $first: f32,
                    /// β.
                    $second: f32,
                })?,
            )+
        }

        impl Coded for UnaryKind {
            const NAME: &'static str = "FunctionKind";
            const MEANING: &'static str = "A function of one real.";
            const CODES: &'static [Code] =
                &[$(Code { code: $code, name: stringify!($name), meaning: $meaning }),+];

            fn code(self) -> u32 {
                match self {
                    $(Self::$name { .. } => $code,)+
                }
            }
        }

        impl UnaryKind {
            /// The function with this code; `parameters` are those of [`Self::parameters`], of which a function takes what it has.
            pub fn from_code(code: u32, parameters: [f32; 2]) -> Option<Self> {
                let [alpha, beta] = parameters;
                Some(match code {
                    $($code => Self::$name $((functions!(@value $one alpha)))? $((functions!(@value $both parameters)))?
                        $({ $first: alpha, $second: beta })?,)+
                    _ => return None,
                })
            }

            /// α and β, or the lower and upper limit; 0 where the function has none.
            pub fn parameters(self) -> [f32; 2] {
                match self {
                    $($(Self::$name($one) => [$one, 0.0],)? $(Self::$name($both) => $both,)?
                        $(Self::$name { $first, $second } => [$first, $second],)?)+
                    _ => [0.0; 2],
                }
            }
        }
    };
    (@f32 $parameter:ident) => { f32 };
    (@value $parameter:ident $value:expr) => { $value };
}

functions! {
    #[default]
    Identity = 0, "x.";
    Relu = 1, "max(x, 0).";
    LeakyRelu(alpha) = 2, "x, or α·x below 0.";
    Elu(alpha) = 3, "x, or α·(eˣ − 1) below 0.";
    /// The upper limit wins where they are the wrong way round.
    Clip[limits] = 4, "Limited to α..β.";
    Sigmoid = 5, "1/(1 + e⁻ˣ).";
    Silu = 6, "x/(1 + e⁻ˣ).";
    HardSigmoid { alpha, beta } = 7, "max(0, min(1, α·x + β)).";
    HardSwish = 8, "x·max(0, min(1, x/6 + 1/2)).";
    Tanh = 9, "Hyperbolic tangent.";
    Exp = 10, "eˣ.";
    Log = 11, "Natural logarithm.";
    Sqrt = 12, "Square root.";
    Reciprocal = 13, "1/x.";
    Abs = 14, "|x|.";
    Neg = 15, "−x.";
    Softplus = 16, "ln(1 + eˣ).";
    Erf = 17, "Gauss error function.";
    Gelu = 18, "x·Φ(x).";
    Floor = 19, "Largest integer not above.";
    Ceil = 20, "Smallest integer not below.";
    Round = 21, "Nearest integer, half to even.";
    Sin = 22, "Sine.";
    Cos = 23, "Cosine.";
    Tan = 24, "Tangent.";
    Asin = 25, "Inverse sine; NaN beyond −1..1.";
    Acos = 26, "Inverse cosine; NaN beyond −1..1.";
    Atan = 27, "Inverse tangent.";
    Sinh = 28, "Hyperbolic sine.";
    Cosh = 29, "Hyperbolic cosine.";
    Asinh = 30, "Inverse hyperbolic sine.";
    Acosh = 31, "Inverse hyperbolic cosine; NaN below 1.";
    Atanh = 32, "Inverse hyperbolic tangent; NaN beyond −1..1.";
    Expm1 = 33, "eˣ − 1, right near 0.";
    Log1p = 34, "ln(1 + x), right near 0.";
    Erfc = 35, "1 − erf x, right in the tail.";
    ErfInv = 36, "Inverse of the error function.";
    ErfcInv = 37, "Inverse of erfc.";
    FastTanh = 38, "x·(27 + x²)/(27 + 9·x²), a rational function near tanh.";
    RoundHalfAway = 39, "Nearest integer, half away from zero.";
    Sign = 40, "−1, 0 or 1; NaN for NaN.";
    Square = 41, "x².";
    Rsqrt = 42, "1/√x.";
    LogSigmoid = 43, "−ln(1 + e⁻ˣ).";
    Affine { alpha, beta } = 44, "α·x + β.";
    ThresholdedRelu(alpha) = 45, "x above α, 0 elsewhere and for NaN.";
    ScaledTanh { alpha, beta } = 46, "α·tanh(β·x).";
    Softsign = 47, "x/(1 + |x|).";
    /// Swish, and Gelu by tanh.
    Gate { alpha, beta } = 48, "x/(1 + e⁻ᵘ) with u = x·(α + β·x²).";
}

named!(UnaryKind);

impl UnaryKind {
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
            Self::ThresholdedRelu(alpha) if x > f64::from(alpha) => x,
            Self::ThresholdedRelu(_) => 0.0,
            Self::ScaledTanh { alpha, beta } => f64::from(alpha) * math::tanh(f64::from(beta) * x),
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
        // A quotient of infinities, in whatever runtime.
        assert!(at(UnaryKind::Softsign).iter().all(|y| y.is_nan()));
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
        assert_eq!(UnaryKind::ThresholdedRelu(1.0).evaluate(f64::NAN), 0.0);
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
