//! Element by element over one operand: float functions, tables of 256 entries and how they are made.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::QuantParams;

use crate::dispatch::{Level, multiversion};
use crate::{Error, Isa, Nhwc, Pool, math, parallel};

/// A function of one f32. As [`Activation`] it is what a convolution applies to its results.
///
/// Results have the same bits on every instruction set and lie within a few units in the last place of the exact value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Unary {
    /// x.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x, or α·x below 0.
    LeakyRelu(f32),
    /// x, or α·(eˣ − 1) below 0.
    Elu(f32),
    /// min(max(x, low), high).
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
}

/// What a convolution applies to each result; the same functions as [`unary`].
pub type Activation = Unary;

/// Calls a generic function with the element function of a `Unary`, so that the choice is made outside of the loop.
macro_rules! with_function {
    ($kind:expr, $call:ident ( $($arg:expr),* )) => {
        match $kind {
            Unary::None => $call($($arg,)* |x| x),
            Unary::Relu => $call($($arg,)* |x| math::max(x, 0.0)),
            Unary::LeakyRelu(alpha) => $call($($arg,)* |x| if x < 0.0 { alpha * x } else { x }),
            Unary::Elu(alpha) => $call($($arg,)* |x| if x < 0.0 { alpha * math::expm1(x) } else { x }),
            Unary::Clip([low, high]) => $call($($arg,)* |x| math::min(math::max(x, low), high)),
            Unary::Sigmoid => $call($($arg,)* math::sigmoid),
            Unary::Silu => $call($($arg,)* |x| x * math::sigmoid(x)),
            Unary::HardSigmoid { alpha, beta } => {
                $call($($arg,)* |x| math::max(math::min(alpha.mul_add(x, beta), 1.0), 0.0));
            }
            Unary::HardSwish => {
                $call($($arg,)* |x| x * math::max(math::min((1.0f32 / 6.0).mul_add(x, 0.5), 1.0), 0.0));
            }
            Unary::Tanh => $call($($arg,)* math::tanh),
            Unary::Exp => $call($($arg,)* math::exp),
            Unary::Log => $call($($arg,)* math::log),
            Unary::Sqrt => $call($($arg,)* f32::sqrt),
            Unary::Reciprocal => $call($($arg,)* |x| 1.0 / x),
            Unary::Abs => $call($($arg,)* f32::abs),
            Unary::Neg => $call($($arg,)* |x| -x),
            Unary::Softplus => $call($($arg,)* math::softplus),
            Unary::Erf => $call($($arg,)* math::erf),
            Unary::Gelu => $call($($arg,)* math::gelu),
            Unary::Floor => $call($($arg,)* f32::floor),
            Unary::Ceil => $call($($arg,)* f32::ceil),
            Unary::Round => $call($($arg,)* f32::round_ties_even),
            Unary::Sin => $call($($arg,)* |x| math::sin_f64(f64::from(x)) as f32),
            Unary::Cos => $call($($arg,)* |x| math::cos_f64(f64::from(x)) as f32),
            Unary::Tan => $call($($arg,)* |x| math::tan_f64(f64::from(x)) as f32),
            Unary::Asin => $call($($arg,)* |x| math::asin_f64(f64::from(x)) as f32),
            Unary::Acos => $call($($arg,)* |x| math::acos_f64(f64::from(x)) as f32),
            Unary::Atan => $call($($arg,)* |x| math::atan_f64(f64::from(x)) as f32),
            Unary::Sinh => $call($($arg,)* |x| math::sinh_f64(f64::from(x)) as f32),
            Unary::Cosh => $call($($arg,)* |x| math::cosh_f64(f64::from(x)) as f32),
            Unary::Asinh => $call($($arg,)* |x| math::asinh_f64(f64::from(x)) as f32),
            Unary::Acosh => $call($($arg,)* |x| math::acosh_f64(f64::from(x)) as f32),
            Unary::Atanh => $call($($arg,)* |x| math::atanh_f64(f64::from(x)) as f32),
            Unary::Expm1 => $call($($arg,)* |x| math::expm1_f64(f64::from(x)) as f32),
            Unary::Log1p => $call($($arg,)* |x| math::log1p_f64(f64::from(x)) as f32),
            Unary::Erfc => $call($($arg,)* |x| math::erfc_f64(f64::from(x)) as f32),
            Unary::ErfInv => $call($($arg,)* |x| math::erfinv_f64(f64::from(x)) as f32),
            Unary::ErfcInv => $call($($arg,)* |x| math::erfcinv_f64(f64::from(x)) as f32),
            Unary::FastTanh => $call($($arg,)* math::fast_tanh),
            Unary::RoundHalfAway => $call($($arg,)* f32::round),
            Unary::Sign => $call($($arg,)* math::sign),
            Unary::Square => $call($($arg,)* |x| x * x),
            Unary::Rsqrt => $call($($arg,)* |x| 1.0 / x.sqrt()),
            Unary::LogSigmoid => $call($($arg,)* |x: f32| -math::softplus(-x)),
        }
    };
}

// Never in place: where a function leaves some elements alone, that would become a conditional store.
#[inline(always)]
fn each(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    for (x, y) in x.iter().zip(y) {
        *y = f(*x);
    }
}

multiversion! {
    /// y = f(x).
    pub(crate) fn apply(kind: Unary, x: &[f32], y: &mut [f32]) {
        with_function!(kind, each(x, y));
    }
}

/// y = f(x), element by element over two maps of equal extents.
///
/// A flat operand is `Nhwc::dense(1, 1, len, 1)`. Errors: extents that differ, slices shorter than their maps.
pub fn unary(
    isa: Isa,
    kind: Unary,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| apply(level, kind, x, y))
}

/// y = `table[x]`, byte by byte, indexed by the byte's unsigned pattern.
///
/// Errors: extents that differ, slices shorter than their maps.
pub fn table(
    isa: Isa,
    table: &[u8; 256],
    x: &[u8],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| look_up(level, table, x, y))
}

/// y = `table[x]` from bytes to f32, indexed by the byte's unsigned pattern.
///
/// Errors: extents that differ, slices shorter than their maps.
pub fn table_f32(
    isa: Isa,
    table: &[f32; 256],
    x: &[u8],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| look_up_f32(level, table, x, y))
}

multiversion! {
    fn look_up_f32(table: &[f32; 256], x: &[u8], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = table[usize::from(x)];
        }
    }
}

/// Looks up bytes in registers where the machine can, in memory where not.
pub(crate) fn look_up(level: Level, table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() && std::arch::is_x86_feature_detected!("avx512vbmi") {
        // SAFETY: the machine has AVX-512 F, BW (by the level) and VBMI (just asked).
        return unsafe { look_up_vbmi(table, x, y) };
    }
    let _ = level;
    for (y, &x) in y.iter_mut().zip(x) {
        *y = table[usize::from(x)];
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up_vbmi(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_epi8, _mm512_mask_blend_epi8, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
        _mm512_movepi8_mask, _mm512_permutex2var_epi8, _mm512_storeu_epi8,
    };
    // SAFETY: four loads of 64 bytes each cover the 256 of the table.
    let rows: [__m512i; 4] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_epi8(table.as_ptr().add(64 * i).cast()) });
    // Two tables of 128 entries each, by the low seven bits; the top bit chooses.
    let pick = |index: __m512i| {
        let low = _mm512_permutex2var_epi8(rows[0], index, rows[1]);
        let high = _mm512_permutex2var_epi8(rows[2], index, rows[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high)
    };
    let len = x.len().min(y.len());
    let mut at = 0;
    while at + 64 <= len {
        // SAFETY: 64 bytes from `at` on lie inside of both slices.
        unsafe {
            let index = _mm512_loadu_epi8(x.as_ptr().add(at).cast());
            _mm512_storeu_epi8(y.as_mut_ptr().add(at).cast(), pick(index));
        }
        at += 64;
    }
    if at < len {
        let mask = (1u64 << (len - at)) - 1;
        // SAFETY: masked lanes are not touched, the others lie inside of both slices.
        unsafe {
            let index = _mm512_maskz_loadu_epi8(mask, x.as_ptr().add(at).cast());
            _mm512_mask_storeu_epi8(y.as_mut_ptr().add(at).cast(), mask, pick(index));
        }
    }
}

/// An 8-bit encoding with its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoding {
    /// Whether bytes are two's complement.
    pub signed: bool,
    /// Scale and zero point.
    pub quant: QuantParams,
}

impl Encoding {
    /// The real value of a byte, in f64.
    pub fn real(self, byte: u8) -> f64 {
        let q = if self.signed { i32::from(byte as i8) } else { i32::from(byte) };
        (f64::from(q) - f64::from(self.quant.zero_point)) * f64::from(self.quant.scale)
    }

    /// The byte of a real value: clamp(rint(x/scale) + zero point); NaN gives the lowest byte.
    pub fn byte(self, x: f64) -> u8 {
        let [low, high] = if self.signed { [-128, 127] } else { [0, 255] };
        if x.is_nan() {
            return low as u8;
        }
        let steps = (x / f64::from(self.quant.scale)).round_ties_even();
        (steps as i64).saturating_add(i64::from(self.quant.zero_point)).clamp(low, high) as u8
    }
}

/// The table of an int8 function: f in f64 between `input`'s reals and `output`'s bytes, rounded half to even.
pub fn unary_table(kind: Unary, input: Encoding, output: Encoding) -> [u8; 256] {
    table_of(input, output, |x| evaluate(kind, x))
}

/// As [`unary_table`], for any function: chains of functions become one table.
pub fn table_of(input: Encoding, output: Encoding, f: impl Fn(f64) -> f64) -> [u8; 256] {
    std::array::from_fn(|i| output.byte(f(input.real(i as u8))))
}

/// The function in f64.
pub fn evaluate(kind: Unary, x: f64) -> f64 {
    match kind {
        Unary::None => x,
        Unary::Relu => x.max(0.0),
        Unary::LeakyRelu(alpha) => {
            if x < 0.0 {
                f64::from(alpha) * x
            } else {
                x
            }
        }
        Unary::Elu(alpha) => {
            if x < 0.0 {
                f64::from(alpha) * x.exp_m1()
            } else {
                x
            }
        }
        Unary::Clip([low, high]) => x.max(f64::from(low)).min(f64::from(high)),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Silu => x / (1.0 + (-x).exp()),
        Unary::HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        Unary::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Unary::Tanh => x.tanh(),
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Reciprocal => 1.0 / x,
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::Erf => math::erf_f64(x),
        Unary::Gelu => 0.5 * x * (1.0 + math::erf_f64(x * std::f64::consts::FRAC_1_SQRT_2)),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sin => math::sin_f64(x),
        Unary::Cos => math::cos_f64(x),
        Unary::Tan => math::tan_f64(x),
        Unary::Asin => math::asin_f64(x),
        Unary::Acos => math::acos_f64(x),
        Unary::Atan => math::atan_f64(x),
        Unary::Sinh => math::sinh_f64(x),
        Unary::Cosh => math::cosh_f64(x),
        Unary::Asinh => math::asinh_f64(x),
        Unary::Acosh => math::acosh_f64(x),
        Unary::Atanh => math::atanh_f64(x),
        Unary::Expm1 => math::expm1_f64(x),
        Unary::Log1p => math::log1p_f64(x),
        Unary::Erfc => math::erfc_f64(x),
        Unary::ErfInv => math::erfinv_f64(x),
        Unary::ErfcInv => math::erfcinv_f64(x),
        Unary::FastTanh => x * (27.0 + x * x) / (27.0 + 9.0 * x * x),
        Unary::RoundHalfAway => x.round(),
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                1f64.copysign(x)
            }
        }
        Unary::Square => x * x,
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::LogSigmoid => -((-x).max(0.0) + (-x.abs()).exp().ln_1p()),
    }
}
