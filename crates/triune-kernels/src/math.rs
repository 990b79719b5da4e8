//! Elementary functions from additions, multiplications and fused multiply-adds alone: the same bits on every machine,
//! without branches, so that loops over them vectorise. Knows no slices.
//!
//! The polynomials are minimax fits of their functions' reduced forms, weighted for relative error, rounded to f32.

// Constants keep the digits that the fit gave.
#![expect(
    clippy::excessive_precision,
    reason = "the shortest decimal that names the f32 is no easier to check"
)]
#![expect(clippy::inline_always, reason = "these are vectorised inside of their callers' loops")]

use std::f32::consts::{LN_2, LOG2_E};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use triune_tensor::function::math as exact;

/// The larger; the second when either is NaN… except that a NaN first operand stays, as in max(x, limit).
#[inline(always)]
pub(crate) fn max(x: f32, limit: f32) -> f32 {
    if x < limit { limit } else { x }
}

/// The smaller; a NaN first operand stays.
#[inline(always)]
pub(crate) fn min(x: f32, limit: f32) -> f32 {
    if x > limit { limit } else { x }
}

/// ln 2 in two parts; the first has so few bits that a product with a small integer is exact.
pub(crate) const LN2_HIGH: f32 = 0.693_359_375;
pub(crate) const LN2_LOW: f32 = -2.121_944_4e-4;

/// 1.5·2²³: adding it rounds to an integer, which then stands in the low bits.
pub(crate) const ROUNDER: f32 = 12_582_912.0;

/// The byte, in two's complement, of y rounded half to even and clamped to integers within −2²²..2²²; not for NaN.
///
/// Clamping first changes nothing since the limits are integers, and leaves one addition for rounding and conversion.
#[inline(always)]
pub(crate) fn round_to_byte(y: f32, low: f32, high: f32) -> u8 {
    round_to_word(y, low, high) as u8
}

/// The same of 16 bits.
#[inline(always)]
pub(crate) fn round_to_word(y: f32, low: f32, high: f32) -> u16 {
    (min(max(y, low), high) + ROUNDER).to_bits() as u16
}

/// The largest f32 below ½. Added with x's sign to x, it makes truncation round halves away from zero and nothing else;
/// ½ itself would also lift what lies an ulp below ½.
pub(crate) const BELOW_HALF: f32 = 0.5 - f32::EPSILON / 4.0;

/// As [`round_to_byte`], halves away from zero.
#[inline(always)]
pub(crate) fn round_away_to_byte(y: f32, low: f32, high: f32) -> u8 {
    round_away_to_word(y, low, high) as u8
}

/// The same of 16 bits.
#[inline(always)]
pub(crate) fn round_away_to_word(y: f32, low: f32, high: f32) -> u16 {
    let y = min(max(y, low), high);
    ((y + BELOW_HALF.copysign(y)).trunc() + ROUNDER).to_bits() as u16
}

/// (eʳ − 1 − r) / r², highest power first.
pub(crate) const EXP: [f32; 6] =
    [1.979_031_9e-4, 1.394_468_94e-3, 8.333_497_68e-3, 4.166_629_54e-2, 1.666_666_57e-1, 0.5];

/// 2^f for |f| ≤ ½, highest power first: the factors of a minimax fit of the relative error, each rounded before the next is
/// fitted, 6·10⁻⁸ off at most.
pub(crate) const POWER: [f32; 7] =
    [1.532_646_1e-4, 1.339_080_6e-3, 9.618_506e-3, 5.550_36e-2, 0.240_226_48, LN_2, 1.0];

/// Below this 2ⁿ·2^f is 0.
pub(crate) const VANISHED: f32 = -150.0;

/// Below this eˣ is 0.
pub(crate) const GONE: f32 = -104.5;

/// From here on eˣ is ∞.
pub(crate) const LARGEST: f32 = 89.5;

/// From here on tanh x is 1.
pub(crate) const FLAT: f32 = 10.0;

/// Splits x into n·ln 2 + r and returns n in ROUNDER's low bits, and eʳ − 1.
#[inline(always)]
fn exp_parts(x: f32) -> (u32, f32) {
    let rounded = x.mul_add(LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = EXP[0];
    for factor in &EXP[1..] {
        p = r.mul_add(p, *factor);
    }
    (rounded.to_bits(), (r * r).mul_add(p, r))
}

/// 2ⁿ for the n in ROUNDER's low bits, −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(bits: u32) -> f32 {
    f32::from_bits(bits.wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23)
}

/// eˣ; correct into the subnormals, 0 and ∞ beyond.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these limits the result is 0 or ∞ in f32. A product that vanishes takes a processor a hundred times as long as
    // another, and masks make many of them: below the lower one there is none. Above the upper one the limit gives ∞ as well.
    let gone = x < GONE;
    let x = min(if gone { 0.0 } else { x }, LARGEST);
    let (bits, p) = exp_parts(x);
    // 2ⁿ in two factors, since n runs from −151 to 129.
    let n = bits.wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = n >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let result = (p + 1.0) * scale(half) * scale(n - half);
    if gone { 0.0 } else { result }
}

/// 2^(x·factor) for x ≤ 0, the product not rounded; correct into the subnormals, 0 beyond.
#[inline(always)]
pub(crate) fn power(x: f32, factor: f32) -> f32 {
    let rounded = x.mul_add(factor, ROUNDER);
    let n = rounded - ROUNDER;
    let f = x.mul_add(factor, -n);
    let mut p = POWER[0];
    for factor in &POWER[1..] {
        p = f.mul_add(p, *factor);
    }
    let gone = n < VANISHED;
    let bits = if gone { ROUNDER.to_bits() } else { rounded.to_bits() };
    // 2ⁿ in two factors, since n runs down to −150.
    let n = bits.wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = n >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let result = p * scale(half) * scale(n - half);
    if gone { 0.0 } else { result }
}

/// Up to here, in both directions, eˣ is a normal number.
pub(crate) const MIDDLING: f32 = 87.0;

/// Whether eˣ and e⁻ˣ are normal numbers, for which there is [`exp_of_middling`].
#[inline(always)]
pub(crate) fn is_middling(x: f32) -> bool {
    x.abs() <= MIDDLING
}

/// [`exp`] where [`is_middling`], in half of its steps.
#[inline(always)]
pub(crate) fn exp_of_middling(x: f32) -> f32 {
    let (bits, p) = exp_parts(x);
    // The power of two goes straight into the exponent; ROUNDER's own bits leave on the left.
    f32::from_bits((p + 1.0).to_bits().wrapping_add(bits << 23))
}

/// eˣ − 1, accurate near 0, for x ≤ 0.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    let x = max(x, -40.0);
    let (bits, p) = exp_parts(min(x, 0.0));
    let scale = power_of_two(bits);
    let result = scale.mul_add(p, scale - 1.0);
    if x > 0.0 { f32::NAN } else { result }
}

/// ln x; NaN below 0, −∞ at 0.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let (scaled, bias) = if subnormal { (x * 8_388_608.0, -23.0) } else { (x, 0.0) };
    // Mantissa in √½ … √2.
    let bits = scaled.to_bits().wrapping_sub(0x3f35_04f3);
    let e = ((bits as i32) >> 23) as f32 + bias;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let mut p = 6.747_692_08e-2;
    p = m.mul_add(p, -1.167_750_49e-1);
    p = m.mul_add(p, 1.188_870_89e-1);
    p = m.mul_add(p, -1.240_534_26e-1);
    p = m.mul_add(p, 1.421_945_1e-1);
    p = m.mul_add(p, -1.666_800_53e-1);
    p = m.mul_add(p, 2.000_212_37e-1);
    p = m.mul_add(p, -2.500_000_89e-1);
    p = m.mul_add(p, 3.333_331_35e-1);
    let square = m * m;
    let mut y = square * m * p;
    y = e.mul_add(LN2_LOW, y);
    y = square.mul_add(-0.5, y);
    let result = e.mul_add(LN2_HIGH, y + m);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    // The comparison is false for NaN, which thus stays NaN.
    if x >= 0.0 { result } else { f32::NAN }
}

/// 1/(1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    // eˣ/(1 + eˣ) where e⁻ˣ overflows and the result does not vanish yet.
    let low = x < -MIDDLING;
    let e = exp(if low { x } else { -x });
    (if low { e } else { 1.0 }) / (1.0 + e)
}

/// [`sigmoid`] where [`is_middling`].
#[inline(always)]
pub(crate) fn sigmoid_of_middling(x: f32) -> f32 {
    1.0 / (1.0 + exp_of_middling(-x))
}

/// x·sigmoid(x·(α + β·x²)), where [`gated`] says what the sigmoid is of.
#[inline(always)]
pub(crate) fn gate(x: f32, alpha: f32, beta: f32) -> f32 {
    x * sigmoid(gated(x, alpha, beta))
}

/// x·(α + β·x²).
#[inline(always)]
pub(crate) fn gated(x: f32, alpha: f32, beta: f32) -> f32 {
    // Without β infinities have no part in it.
    let square = if beta == 0.0 { 0.0 } else { x * x };
    x * beta.mul_add(square, alpha)
}

/// tanh x, as (e²ˣ − 1)/(e²ˣ + 1) of |x|, whose numerator is accurate near 0.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let t = min(x.abs(), FLAT);
    let (bits, p) = exp_parts(t + t);
    let scale = power_of_two(bits);
    let less_one = scale.mul_add(p, scale - 1.0);
    (less_one / (less_one + 2.0)).copysign(x)
}

/// ln(1 + eˣ).
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    softplus_by(x, exp)
}

/// [`softplus`] where [`is_middling`].
#[inline(always)]
pub(crate) fn softplus_of_middling(x: f32) -> f32 {
    softplus_by(x, exp_of_middling)
}

#[inline(always)]
fn softplus_by(x: f32, exp: impl Fn(f32) -> f32) -> f32 {
    let e = exp(-x.abs());
    let u = 1.0 + e;
    // What 1 + e lost to rounding, to first order.
    let log1p = log(u) + (e - (u - 1.0)) / u;
    max(x, 0.0) + log1p
}

/// A polynomial of the seventh degree, highest power first, by pairs: three steps that wait for each other instead of seven.
#[inline(always)]
fn polynomial(x: f32, [a, b, c, d, e, f, g, h]: [f32; 8]) -> f32 {
    let square = x * x;
    let high = x.mul_add(a, b).mul_add(square, x.mul_add(c, d));
    let low = x.mul_add(e, f).mul_add(square, x.mul_add(g, h));
    high.mul_add(square * square, low)
}

/// (erf x − x) / x in x², up to 1.
pub(crate) const ERF_NEAR: [f32; 8] = [
    -9.641_516_04e-6,
    1.125_694_76e-4,
    -8.482_828_85e-4,
    5.220_945_46e-3,
    -2.686_540_04e-2,
    1.128_378_21e-1,
    -3.761_263_79e-1,
    1.283_791_66e-1,
];

/// −ln erfc, from 1 to 4.
pub(crate) const ERF_FAR: [f32; 8] = [
    2.169_763_87e-5,
    -4.414_729_19e-4,
    4.205_286_04e-3,
    -2.521_034_14e-2,
    1.084_221_01e-1,
    6.332_163_81e-1,
    1.129_580_26,
    -1.884_677_77e-4,
];

/// The error function.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let t = x.abs();
    let near = x.mul_add(polynomial(x * x, ERF_NEAR), x);
    let q = polynomial(min(t, 4.0), ERF_FAR);
    // What becomes of NaN is not taken.
    let far = (1.0 - exp_of_middling(-q)).copysign(x);
    if t > 1.0 { far } else { near }
}

/// x·Φ(x).
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// xʸ as IEEE 754 `pow`, to f32's last bit in nearly all cases: computed in f64. Squares and cubes are products in f32, as
/// ONNX Runtime has them.
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    if y == 2.0 {
        return x * x;
    }
    if y == 3.0 {
        return x * x * x;
    }
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return f32::NAN;
    }
    let integer = y.floor() == y;
    let odd = integer && y.abs() < 16_777_216.0 && (y as i32) & 1 == 1;
    let sign = if x.is_sign_negative() && odd { -1.0 } else { 1.0 };
    if y.is_infinite() {
        let grows = (x.abs() > 1.0) == (y > 0.0);
        return if x.abs() == 1.0 {
            1.0
        } else if grows {
            f32::INFINITY
        } else {
            0.0
        };
    }
    if x == 0.0 || x.is_infinite() {
        let grows = (x != 0.0) == (y > 0.0);
        return sign * if grows { f32::INFINITY } else { 0.0 };
    }
    if x < 0.0 && !integer {
        return f32::NAN;
    }
    sign * exact::exp(f64::from(y) * exact::log(f64::from(x.abs()))) as f32
}

/// Whether [`pow_of_finite`] is for x and y.
#[inline(always)]
#[expect(clippy::needless_bitwise_bool, reason = "a comparison that is skipped would be a branch")]
pub(crate) fn is_plain_power(x: f32, y: f32) -> bool {
    (x != 0.0) & (x.abs() < f32::INFINITY) & (y.abs() < f32::INFINITY) & (y != 2.0) & (y != 3.0)
}

/// [`pow`] where [`is_plain_power`], without a branch.
#[inline(always)]
pub(crate) fn pow_of_finite(x: f32, y: f32) -> f32 {
    let size = exact::exp(f64::from(y) * exact::log_of_positive(f64::from(x.abs()))) as f32;
    // Beyond 2²⁴ all are even; below, the sum's last bit is the integer's.
    let odd = y.abs() < 16_777_216.0 && (f64::from(y) + 6_755_399_441_055_744.0).to_bits() & 1 == 1;
    let signed = if odd { -size } else { size };
    let signed = if y.floor() == y { signed } else { f32::NAN };
    if x < 0.0 { signed } else { size }
}

/// x·(27 + x²)/(27 + 9·x²), a rational function near tanh.
#[inline(always)]
pub(crate) fn fast_tanh(x: f32) -> f32 {
    // In f64, where the square of no f32 overflows.
    let (x, square) = (f64::from(x), f64::from(x) * f64::from(x));
    (x * (27.0 + square) / (27.0 + 9.0 * square)) as f32
}

/// Polynomials of least relative error, 3·10⁻¹⁴ and 6·10⁻¹⁴, by the exchange algorithm of Remez: atan √z/√z up to tan²(π/8) and asin √z/√z up to
/// 1/4, from the highest power down.
const ATAN: [f64; 9] = [
    0.030_711_334_868_553_181,
    -0.058_778_679_449_348_524,
    0.075_646_431_644_532_319,
    -0.090_785_288_538_079_979,
    0.111_103_960_821_833_61,
    -0.142_856_909_076_907_34,
    0.199_999_996_153_185_76,
    -0.333_333_333_308_891_47,
    0.999_999_999_999_974_39,
];
const ASIN: [f64; 10] = [
    0.032_145_868_687_389_708,
    -0.003_082_891_536_255_545_7,
    0.018_744_401_069_721_922,
    0.016_446_056_215_808_207,
    0.022_476_545_693_620_607,
    0.030_374_709_354_976_422,
    0.044_643_143_221_025_581,
    0.074_999_994_280_161_414,
    0.166_666_666_710_910_1,
    0.999_999_999_999_943_61,
];

#[inline(always)]
fn series_of<const N: usize>(coefficients: [f64; N], z: f64) -> f64 {
    coefficients.into_iter().fold(0.0, |sum, coefficient| sum.mul_add(z, coefficient))
}

/// The inverse of tan. In f64 and without a branch, so that it becomes vectors.
#[inline(always)]
pub(crate) fn atan(x: f32) -> f32 {
    let x = f64::from(x);
    let t = x.abs();
    // Between tan(π/8) and tan(3π/8) the angle beyond π/4, from there on that beyond π/2.
    let (up, down, base) = if t > 2.414_213_562_373_095 {
        (-1.0, t, std::f64::consts::FRAC_PI_2)
    } else if t > 0.414_213_562_373_095 {
        (t - 1.0, t + 1.0, std::f64::consts::FRAC_PI_4)
    } else {
        (t, 1.0, 0.0)
    };
    let r = up / down;
    r.mul_add(series_of(ATAN, r * r), base).copysign(x) as f32
}

/// Whether an inverse of sin is taken from the half of the angle's complement, and the inverse of that's, or of the argument's, sine.
#[inline(always)]
fn asin_of_half(x: f64) -> (bool, f64) {
    let a = x.abs();
    let far = a > 0.5;
    let z = if far { 0.5 * (1.0 - a) } else { a * a };
    let r = if far { z.sqrt() } else { a };
    (far, r * series_of(ASIN, z))
}

/// The inverse of sin; NaN beyond −1..1. In f64 and without a branch, so that it becomes vectors.
#[inline(always)]
pub(crate) fn asin(x: f32) -> f32 {
    let x = f64::from(x);
    let (far, angle) = asin_of_half(x);
    let angle = if far { std::f64::consts::FRAC_PI_2 - 2.0 * angle } else { angle };
    angle.copysign(x) as f32
}

/// The inverse of cos, in the same way.
#[inline(always)]
pub(crate) fn acos(x: f32) -> f32 {
    let x = f64::from(x);
    let (far, angle) = asin_of_half(x);
    let near = std::f64::consts::FRAC_PI_2 - angle.copysign(x);
    let complement = if x < 0.0 { std::f64::consts::PI - 2.0 * angle } else { 2.0 * angle };
    (if far { complement } else { near }) as f32
}

/// x/(1 + |x|).
#[inline(always)]
pub(crate) fn softsign(x: f32) -> f32 {
    x / (1.0 + x.abs())
}

/// −1, 0 or 1; NaN for NaN.
#[inline(always)]
pub(crate) fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

/// 1.5·2⁵²: adding it rounds an f64 to an integer, which then stands in the low bits.
pub(crate) const WIDE_ROUNDER: f64 = 6_755_399_441_055_744.0;

/// What π/2 has beyond its f64.
pub(crate) const HALF_PI_REST: f64 = 6.123_233_995_736_766e-17;

/// sin r / r and cos r as series of r², highest power first: 1/(2k + 1)! and 1/(2k)! with signs in turn. With |r| ≤ π/4 the first
/// terms left out are below 2⁻⁵³.
pub(crate) const SIN: [f64; 8] = series(1);
pub(crate) const COS: [f64; 9] = series(0);

const fn series<const LEN: usize>(first: usize) -> [f64; LEN] {
    let (mut terms, mut k) = ([1.0; LEN], 1);
    while k < LEN {
        let n = 2 * k + first;
        terms[LEN - 1 - k] = -terms[LEN - k] / (n * (n - 1)) as f64;
        k += 1;
    }
    terms
}

/// Angles below this are small: a quarter turn in two parts, times their number, is exact enough.
pub(crate) const SMALL_ANGLE: f32 = 67_108_864.0;

/// Whether [`sin_of_small`] and [`cos_of_small`] are for x; not NaN.
#[inline(always)]
pub(crate) fn is_small_angle(x: f32) -> bool {
    x.abs() < SMALL_ANGLE
}

/// The sine of x and so many quarter turns, for a small angle: in f64, rounded once.
#[inline(always)]
fn sin_of_turned(x: f32, quarters: u64) -> f32 {
    let x = f64::from(x);
    let rounded = x.mul_add(FRAC_2_PI, WIDE_ROUNDER);
    let n = rounded - WIDE_ROUNDER;
    let r = n.mul_add(-HALF_PI_REST, n.mul_add(-FRAC_PI_2, x));
    let z = r * r;
    let of = |series: &[f64]| series[1..].iter().fold(series[0], |sum, term| sum.mul_add(z, *term));
    let (sin, cos) = (r * of(&SIN), of(&COS));
    // Of the turns' bits, the last two count.
    let turns = rounded.to_bits() + quarters;
    let value = if turns & 1 == 0 { sin } else { cos };
    f64::from_bits(value.to_bits() ^ (turns & 2) << 62) as f32
}

/// sin x for a small angle.
#[inline(always)]
pub(crate) fn sin_of_small(x: f32) -> f32 {
    sin_of_turned(x, 0)
}

/// cos x for a small angle.
#[inline(always)]
pub(crate) fn cos_of_small(x: f32) -> f32 {
    sin_of_turned(x, 1)
}

/// sin x.
#[inline]
pub(crate) fn sin(x: f32) -> f32 {
    if is_small_angle(x) { sin_of_small(x) } else { exact::sin(f64::from(x)) as f32 }
}

/// cos x.
#[inline]
pub(crate) fn cos(x: f32) -> f32 {
    if is_small_angle(x) { cos_of_small(x) } else { exact::cos(f64::from(x)) as f32 }
}

/// ln(eˣ + eʸ).
pub(crate) fn log_add_exp(x: f32, y: f32) -> f32 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == high {
        // Also where both are infinite.
        return if high.is_infinite() { high } else { (f64::from(high) + std::f64::consts::LN_2) as f32 };
    }
    (f64::from(high) + exact::log1p(exact::exp(f64::from(low) - f64::from(high)))) as f32
}

/// a − b·⌊a/b⌋: the remainder of b's sign.
pub(crate) fn floor_mod(a: f32, b: f32) -> f32 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

const _: () = assert!(LN2_HIGH > LN_2 && LN2_LOW < 0.0);
