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
const LN2_HIGH: f32 = 0.693_359_375;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// 1.5·2²³: adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f32 = 12_582_912.0;

/// The byte, in two's complement, of y rounded half to even and clamped to integers within −2²²..2²²; not for NaN.
///
/// Clamping first changes nothing since the limits are integers, and leaves one addition for rounding and conversion.
#[inline(always)]
pub(crate) fn round_to_byte(y: f32, low: f32, high: f32) -> u8 {
    (min(max(y, low), high) + ROUNDER).to_bits() as u8
}

/// The largest f32 below ½. Added with x's sign to x, it makes truncation round halves away from zero and nothing else;
/// ½ itself would also lift what lies an ulp below ½.
pub(crate) const BELOW_HALF: f32 = 0.5 - f32::EPSILON / 4.0;

/// As [`round_to_byte`], halves away from zero.
#[inline(always)]
pub(crate) fn round_away_to_byte(y: f32, low: f32, high: f32) -> u8 {
    let y = min(max(y, low), high);
    ((y + BELOW_HALF.copysign(y)).trunc() + ROUNDER).to_bits() as u8
}

/// Splits x into n·ln 2 + r and returns n in ROUNDER's low bits, and eʳ − 1.
#[inline(always)]
fn exp_parts(x: f32) -> (u32, f32) {
    let rounded = x.mul_add(LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.979_031_9e-4;
    p = r.mul_add(p, 1.394_468_94e-3);
    p = r.mul_add(p, 8.333_497_68e-3);
    p = r.mul_add(p, 4.166_629_54e-2);
    p = r.mul_add(p, 1.666_666_57e-1);
    p = r.mul_add(p, 0.5);
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
    // Beyond these limits the result is 0 or ∞ in f32, which the clamped argument gives as well.
    let x = min(max(x, -104.5), 89.5);
    let (bits, p) = exp_parts(x);
    // 2ⁿ in two factors, since n runs from −151 to 129.
    let n = bits.wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = n >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    (p + 1.0) * scale(half) * scale(n - half)
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
    let e = exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// tanh x.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let t = x.abs();
    let z = x * x;
    let mut p = 2.142_958_81e-3;
    p = z.mul_add(p, -8.177_394_98e-3);
    p = z.mul_add(p, 2.170_070_07e-2);
    p = z.mul_add(p, -5.394_676_33e-2);
    p = z.mul_add(p, 1.333_320_59e-1);
    p = z.mul_add(p, -3.333_333_13e-1);
    let near = (z * x).mul_add(p, x);
    let far = (1.0 - 2.0 / (exp(t + t) + 1.0)).copysign(x);
    if t < 0.625 { near } else { far }
}

/// ln(1 + eˣ).
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    let e = exp(-x.abs());
    let u = 1.0 + e;
    // What 1 + e lost to rounding, to first order.
    let log1p = log(u) + (e - (u - 1.0)) / u;
    max(x, 0.0) + log1p
}

/// The error function.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let t = x.abs();
    let z = x * x;
    let mut p = -9.641_516_04e-6;
    p = z.mul_add(p, 1.125_694_76e-4);
    p = z.mul_add(p, -8.482_828_85e-4);
    p = z.mul_add(p, 5.220_945_46e-3);
    p = z.mul_add(p, -2.686_540_04e-2);
    p = z.mul_add(p, 1.128_378_21e-1);
    p = z.mul_add(p, -3.761_263_79e-1);
    p = z.mul_add(p, 1.283_791_66e-1);
    let near = x.mul_add(p, x);
    // 1 − e^−q(t), q a fit of −ln erfc.
    let t = min(t, 4.0);
    let mut q = 2.169_763_87e-5;
    q = t.mul_add(q, -4.414_729_19e-4);
    q = t.mul_add(q, 4.205_286_04e-3);
    q = t.mul_add(q, -2.521_034_14e-2);
    q = t.mul_add(q, 1.084_221_01e-1);
    q = t.mul_add(q, 6.332_163_81e-1);
    q = t.mul_add(q, 1.129_580_26);
    q = t.mul_add(q, -1.884_677_77e-4);
    let far = (1.0 - exp(-q)).copysign(x);
    if t > 1.0 { far } else { near }
}

/// x·Φ(x).
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// xʸ as IEEE 754 `pow`, to f32's last bit in nearly all cases: computed in f64.
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    if y == 2.0 {
        return x * x;
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
    sign * exp_f64(f64::from(y) * log_f64(f64::from(x.abs()))) as f32
}

/// ln x for normal positive x: a series in (m − 1)/(m + 1).
fn log_f64(x: f64) -> f64 {
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits().wrapping_sub(ROOT);
    let e = ((bits as i64) >> 52) as f64;
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    // |s| ≤ 0.172: the first term left out is below 2⁻⁵⁵ of the sum.
    let series = (0..11).rev().fold(0.0, |sum, k| sum * z + 1.0 / f64::from(2 * k + 1));
    e * std::f64::consts::LN_2 + 2.0 * s * series
}

/// eˣ, 0 and ∞ beyond f64's exponents.
fn exp_f64(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let n = (x * std::f64::consts::LOG2_E).round_ties_even();
    let r = x - n * 6.931_471_803_691_238e-1 - n * 1.908_214_929_270_587_7e-10;
    let series = (1..=14).rev().fold(1.0, |sum, k| 1.0 + sum * r / f64::from(k));
    series * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

/// The error function in f64, for tables: a series of positive terms.
pub(crate) fn erf_f64(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 6.0 {
        return 1f64.copysign(x);
    }
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-18 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * k + 1.0);
        sum += term;
        k += 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// π/2 in two parts; the first has 33 bits, so that its product with a small integer is exact in a fused multiply-add.
const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;

/// The first 256 binary digits of 2/π behind the point.
const TWO_OVER_PI: [u64; 4] =
    [0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

/// Quarter turns in x, and what is left of it in −π/4..π/4; for x that is an f32.
fn quarter_turns(x: f64) -> (i64, f64) {
    if x.abs() < 67_108_864.0 {
        let n = (x * std::f64::consts::FRAC_2_PI).round_ties_even();
        return (n as i64, n.mul_add(-HALF_PI_LOW, n.mul_add(-HALF_PI_HIGH, x)));
    }
    if !x.is_finite() {
        return (0, f64::NAN);
    }
    // x = m·2ᵉ with m below 2²⁴ and e from 3 to 104. Digits of 2/π before the e − 2nd give multiples of four quarter
    // turns; the next 96 are enough for 70 digits of the fraction.
    let bits = x.abs().to_bits();
    let exponent = (bits >> 52) as usize - 1023 - 23;
    let m = u128::from((bits & 0x000f_ffff_ffff_ffff | 0x0010_0000_0000_0000) >> 29);
    let first = exponent - 2;
    let digit_word = |index: usize| TWO_OVER_PI.get(index).copied().unwrap_or(0);
    let (word, shift) = (first / 64, first % 64);
    let high = u128::from(digit_word(word)) << 64 | u128::from(digit_word(word + 1));
    let window =
        if shift == 0 { high } else { high << shift | u128::from(digit_word(word + 2) >> (64 - shift)) };
    // The digit at `first` counts 2·m quarter turns: two bits before the point.
    let product = (m * (window >> 32)) & ((1 << 96) - 1);
    let (mut turns, fraction) = ((product >> 94) as i64, product & ((1 << 94) - 1));
    let mut part = fraction as f64 / (1_u128 << 94) as f64;
    if fraction >> 93 != 0 {
        turns += 1;
        part = -(((1_u128 << 94) - fraction) as f64 / (1_u128 << 94) as f64);
    }
    let r = part * std::f64::consts::FRAC_PI_2;
    if x < 0.0 { (-turns, -r) } else { (turns, r) }
}

/// sin r and cos r for r in −π/4..π/4, by their series.
fn sin_cos(r: f64) -> (f64, f64) {
    let z = r * r;
    let series = |first: u32| {
        // 1 − z/(first·(first + 1))·(1 − …), to terms below 2⁻⁵³.
        (0..9).rev().fold(1.0, |sum, k| {
            let n = f64::from(first + 2 * k);
            1.0 - z / (n * (n + 1.0)) * sum
        })
    };
    (r * series(2), series(1))
}

/// sin x, of an f32.
pub(crate) fn sin_f64(x: f64) -> f64 {
    let (turns, r) = quarter_turns(x);
    let (sin, cos) = sin_cos(r);
    let value = if turns & 1 == 0 { sin } else { cos };
    if turns & 2 == 0 { value } else { -value }
}

/// cos x, of an f32.
pub(crate) fn cos_f64(x: f64) -> f64 {
    let (turns, r) = quarter_turns(x);
    let (sin, cos) = sin_cos(r);
    let value = if turns & 1 == 0 { cos } else { sin };
    if (turns + 1) & 2 == 0 { value } else { -value }
}

/// tan x, of an f32.
pub(crate) fn tan_f64(x: f64) -> f64 {
    let (turns, r) = quarter_turns(x);
    let (sin, cos) = sin_cos(r);
    if turns & 1 == 0 { sin / cos } else { -cos / sin }
}

/// atan x.
pub(crate) fn atan_f64(x: f64) -> f64 {
    let t = x.abs();
    let (far, t) = if t > 1.0 { (true, 1.0 / t) } else { (false, t) };
    // tan(π/8): from there on the angle beyond π/4 is smaller.
    let (middle, t) = if t > 0.414_213_562_373_095 { (true, (t - 1.0) / (t + 1.0)) } else { (false, t) };
    let z = t * t;
    // t − t³/3 + t⁵/5 − …: |t| ≤ √2 − 1, the first term left out is below 2⁻⁵⁵.
    let series = (0..21).rev().fold(0.0, |sum, k| 1.0 / f64::from(2 * k + 1) - z * sum);
    let angle = t * series + if middle { std::f64::consts::FRAC_PI_4 } else { 0.0 };
    let angle = if far { std::f64::consts::FRAC_PI_2 - angle } else { angle };
    angle.copysign(x)
}

/// The angle of the point (x, y).
pub(crate) fn atan2_f64(y: f64, x: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let slope = if x.is_infinite() && y.is_infinite() { 1.0 } else { y.abs() / x.abs() };
    // 0/0 is the angle of the x axis.
    let angle = if slope.is_nan() { 0.0 } else { atan_f64(slope) };
    (if x.is_sign_negative() { std::f64::consts::PI - angle } else { angle }).copysign(y)
}

/// asin x; NaN beyond −1..1.
pub(crate) fn asin_f64(x: f64) -> f64 {
    atan2_f64(x, ((1.0 - x) * (1.0 + x)).sqrt())
}

/// acos x; NaN beyond −1..1.
pub(crate) fn acos_f64(x: f64) -> f64 {
    atan2_f64(((1.0 - x) * (1.0 + x)).sqrt(), x)
}

/// eˣ − 1.
pub(crate) fn expm1_f64(x: f64) -> f64 {
    if x.abs() < 0.5 {
        // x + x²/2 + …: |x| ≤ ½, the first term left out is below 2⁻⁵⁶.
        return x * (2..=15).rev().fold(1.0, |sum, k| 1.0 + sum * x / f64::from(k));
    }
    exp_f64(x) - 1.0
}

/// ln(1 + x); NaN below −1, −∞ there.
pub(crate) fn log1p_f64(x: f64) -> f64 {
    if x.is_nan() || x < -1.0 {
        return f64::NAN;
    }
    if x == -1.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    let u = 1.0 + x;
    // What 1 + x lost to rounding, to first order.
    let result = log_f64(u) + (x - (u - 1.0)) / u;
    // Keeps the sign of 0.
    if x == 0.0 { x } else { result }
}

/// sinh x.
pub(crate) fn sinh_f64(x: f64) -> f64 {
    let e = expm1_f64(x.abs());
    (0.5 * (e + e / (e + 1.0))).copysign(x)
}

/// cosh x.
pub(crate) fn cosh_f64(x: f64) -> f64 {
    let e = exp_f64(x.abs());
    0.5 * (e + 1.0 / e)
}

/// The inverse of sinh.
pub(crate) fn asinh_f64(x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    let t = x.abs();
    log1p_f64(t + t * t / (1.0 + (t * t + 1.0).sqrt())).copysign(x)
}

/// The inverse of cosh; NaN below 1.
pub(crate) fn acosh_f64(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    let t = x - 1.0;
    log1p_f64(t + (2.0 * t + t * t).sqrt())
}

/// The inverse of tanh; NaN beyond −1..1.
pub(crate) fn atanh_f64(x: f64) -> f64 {
    let t = x.abs();
    if t == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    (0.5 * log1p_f64(2.0 * t / (1.0 - t))).copysign(x)
}

/// 1 − erf x, right in the tail.
pub(crate) fn erfc_f64(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let t = x.abs();
    let tail = if t < 3.0 {
        let (mut term, mut sum, mut k) = (t, t, 1.0);
        while term > 1e-18 * sum {
            term *= 2.0 * t * t / (2.0 * k + 1.0);
            sum += term;
            k += 1.0;
        }
        1.0 - std::f64::consts::FRAC_2_SQRT_PI * exp_f64(-t * t) * sum
    } else if t > 27.0 {
        0.0
    } else {
        // The continued fraction t + ½/(t + 1/(t + 1½/(t + …))).
        let fraction = (1..60_u32).rev().fold(t, |below, k| t + f64::from(k) / 2.0 / below);
        exp_f64(-t * t) / fraction * (0.5 * std::f64::consts::FRAC_2_SQRT_PI)
    };
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// The x above 0 whose erfc is q, 0 < q ≤ 1: Winitzki's closed form, improved by Halley's method.
fn erfc_inverse(q: f64) -> f64 {
    const A: f64 = 0.147;
    let log = log_f64(q * (2.0 - q));
    let b = 2.0 / (std::f64::consts::PI * A) + 0.5 * log;
    let mut x = ((b * b - log / A).sqrt() - b).max(0.0).sqrt();
    for _ in 0..4 {
        let step = (erfc_f64(x) - q) / (std::f64::consts::FRAC_2_SQRT_PI * exp_f64(-x * x));
        x += step / (1.0 + x * step);
    }
    x
}

/// The inverse of erf; ±∞ at ±1, NaN beyond.
pub(crate) fn erfinv_f64(y: f64) -> f64 {
    if y == 0.0 {
        return y;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if y.abs() < 1.0 { erfc_inverse(1.0 - y.abs()).copysign(y) } else { f64::NAN }
}

/// The inverse of erfc; ∞ at 0, −∞ at 2, NaN beyond.
pub(crate) fn erfcinv_f64(q: f64) -> f64 {
    if q == 0.0 || q == 2.0 {
        return if q == 0.0 { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    if !(0.0..=2.0).contains(&q) {
        return f64::NAN;
    }
    if q <= 1.0 { erfc_inverse(q) } else { -erfc_inverse(2.0 - q) }
}

/// x·(27 + x²)/(27 + 9·x²), a rational function near tanh.
#[inline(always)]
pub(crate) fn fast_tanh(x: f32) -> f32 {
    // In f64, where the square of no f32 overflows.
    let (x, square) = (f64::from(x), f64::from(x) * f64::from(x));
    (x * (27.0 + square) / (27.0 + 9.0 * square)) as f32
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

/// ln(eˣ + eʸ).
pub(crate) fn log_add_exp(x: f32, y: f32) -> f32 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == high {
        // Also where both are infinite.
        return if high.is_infinite() { high } else { (f64::from(high) + std::f64::consts::LN_2) as f32 };
    }
    (f64::from(high) + log1p_f64(exp_f64(f64::from(low) - f64::from(high)))) as f32
}

/// a − b·⌊a/b⌋: the remainder of b's sign.
pub(crate) fn floor_mod(a: f32, b: f32) -> f32 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

const _: () = assert!(LN2_HIGH > LN_2 && LN2_LOW < 0.0);
