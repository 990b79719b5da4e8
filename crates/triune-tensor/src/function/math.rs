//! Elementary functions in f64 from additions, multiplications, divisions and square roots alone: the same bits on every
//! machine, unlike those of a C library. Results lie within some units in the last place of f64, so that one
//! rounding to f32 follows; arguments are those that an f32 can be, or what such functions make of them.

/// ln x; NaN below 0, −∞ at 0. A subnormal f64 counts as the smallest normal one.
#[inline]
pub fn log(x: f64) -> f64 {
    if x > 0.0 && x < f64::INFINITY {
        return log_of_positive(x.max(f64::MIN_POSITIVE));
    }
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x == f64::INFINITY {
        x
    } else {
        f64::NAN
    }
}

/// ln x for normal positive x, without a branch: a series in (m − 1)/(m + 1).
#[inline]
pub fn log_of_positive(x: f64) -> f64 {
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

/// 1/n! for n up to 20.
const INVERSE_FACTORIALS: [f64; 21] = {
    let (mut inverse, mut factorial, mut n) = ([1.0; 21], 1_u64, 1);
    while n < inverse.len() {
        factorial *= n as u64;
        inverse[n] = 1.0 / factorial as f64;
        n += 1;
    }
    inverse
};

/// eˣ; beyond ±700, where f32 has but 0 and ∞, as at that limit.
#[inline]
pub fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let n = (x * std::f64::consts::LOG2_E).round_ties_even();
    let r = x - n * 6.931_471_803_691_238e-1 - n * 1.908_214_929_270_587_7e-10;
    // |r| ≤ ln 2/2: the first term left out is below 2⁻⁶⁰.
    let series = INVERSE_FACTORIALS[..15].iter().rev().fold(0.0, |sum, term| sum * r + term);
    series * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

/// 2ⁿ, exactly: 0 or ∞ where f64 has no such number.
#[inline]
pub fn power_of_two(n: i32) -> f64 {
    // Halves of the exponent are those of normal numbers.
    let n = n.clamp(-2044, 2046);
    let of = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    of(n / 2) * of(n - n / 2)
}

/// eˣ over all of f64, unlike [`exp`].
#[inline]
pub fn exp_to_infinity(x: f64) -> f64 {
    if x > 709.782_712_893_384 {
        f64::INFINITY
    } else if x < -745.2 {
        0.0
    } else if x.abs() > 690.0 {
        exp(x / 2.0) * exp(x / 2.0)
    } else {
        exp(x)
    }
}

/// aᵇ, with C's results for zeros, infinities and what is no number. Of exponents up to 1,024 that are whole or half a number,
/// products and a square root; of others, within 8 + 2·|b·ln a| units in the last place, and whole where it is as near to that.
pub fn pow(a: f64, b: f64) -> f64 {
    if b == 0.0 || a == 1.0 {
        return 1.0;
    }
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let whole = b.trunc() == b;
    let odd = whole && b.abs() < 9e15 && b as i64 & 1 == 1;
    let sign = if odd && a.is_sign_negative() { -1.0 } else { 1.0 };
    if b.is_infinite() || a == 0.0 || a.is_infinite() {
        let grows = match a.abs().partial_cmp(&1.0) {
            Some(std::cmp::Ordering::Equal) => return 1.0,
            Some(std::cmp::Ordering::Greater) => b > 0.0,
            _ => b < 0.0,
        };
        return if grows { sign * f64::INFINITY } else { sign * 0.0 };
    }
    if a < 0.0 && !whole {
        return f64::NAN;
    }
    if b.abs() <= 1024.0 && (2.0 * b).trunc() == 2.0 * b {
        let (mut base, mut left, mut product) = (a, b.abs() as u32, 1.0);
        while left > 0 {
            if left & 1 == 1 {
                product *= base;
            }
            base *= base;
            left >>= 1;
        }
        if !whole {
            product *= a.sqrt();
        }
        return if b < 0.0 { 1.0 / product } else { product };
    }
    let power = sign * exp_to_infinity(b * log(a.abs()));
    // A root that is whole is not to be cut to the integer below.
    let near = power.round();
    if (power - near).abs() <= 8.0 * f64::EPSILON * near.abs() { near } else { power }
}

/// The error function: a series of positive terms.
#[inline]
pub fn erf(x: f64) -> f64 {
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
    std::f64::consts::FRAC_2_SQRT_PI * exp(-x * x) * sum
}

/// π/2 in two parts; the first has 33 bits, so that its product with a small integer is exact in a fused multiply-add.
const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;

/// The first 1,280 binary digits of 2/π behind the point.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// Angles below this are reduced by a quarter turn in two parts.
const LARGE: f64 = 67_108_864.0;

/// Quarter turns in x, and what is left of it in −π/4..π/4.
#[inline]
fn quarter_turns(x: f64) -> (i64, f64) {
    if x.abs() < LARGE {
        return quarter_turns_of_small(x);
    }
    if x.is_finite() { quarter_turns_of_large(x) } else { (0, f64::NAN) }
}

/// The same for |x| below [`LARGE`].
#[inline]
fn quarter_turns_of_small(x: f64) -> (i64, f64) {
    let n = (x * std::f64::consts::FRAC_2_PI).round_ties_even();
    (n as i64, n.mul_add(-HALF_PI_LOW, n.mul_add(-HALF_PI_HIGH, x)))
}

/// The same by long multiplication, for finite |x| from 2²⁶ on.
#[cold]
fn quarter_turns_of_large(x: f64) -> (i64, f64) {
    // x = m·2ᵉ with m below 2⁵³ and e from −26 to 971. Digits of 2/π before the e − 2nd give multiples of four quarter turns;
    // the next 192 are enough for 53 digits of the fraction even where 62 zeros begin it, as far as an f64 comes to a
    // multiple of π/2 (Muller et al., Handbook of Floating-Point Arithmetic, 10.2).
    let bits = x.abs().to_bits();
    let exponent = (bits >> 52) as i64 - 1023 - 52;
    let m = u128::from(bits & 0x000f_ffff_ffff_ffff | 0x0010_0000_0000_0000);
    let first = exponent - 2;
    // Digits before the point are zeros.
    let digit_word = |index: i64| {
        usize::try_from(index).ok().and_then(|index| TWO_OVER_PI.get(index)).copied().unwrap_or(0)
    };
    let (word, shift) = (first.div_euclid(64), first.rem_euclid(64));
    let window = |index: i64| {
        let (high, low) = (digit_word(word + index), digit_word(word + index + 1));
        (u128::from(high) << 64 | u128::from(low)) >> (64 - shift) & u128::from(u64::MAX)
    };
    // m times 192 digits, of which the first counts 2·m quarter turns: two bits of the product's last 192 before the point.
    let low = m * window(2);
    let middle = m * window(1) + (low >> 64);
    let high = (m * window(0) + (middle >> 64)) as u64;
    let (turns, fraction) = (high >> 62, u128::from(high << 2 | (middle as u64) >> 62) << 64);
    let fraction = fraction | u128::from((middle as u64) << 2 | (low as u64) >> 62);
    let whole = 2.0_f64.powi(128);
    // The nearest quarter turn, so that what is left begins at its own first digit.
    let (turns, part) = match fraction >> 127 {
        0 => (turns as i64, fraction as f64 / whole),
        _ => (turns as i64 + 1, -(fraction.wrapping_neg() as f64) / whole),
    };
    let r = part * std::f64::consts::FRAC_PI_2;
    if x < 0.0 { (-turns, -r) } else { (turns, r) }
}

/// sin r and cos r for r in −π/4..π/4, by their series, to terms below 2⁻⁵³.
#[inline]
fn sin_cos(r: f64) -> (f64, f64) {
    let z = -(r * r);
    let series = |first: usize| {
        let terms = INVERSE_FACTORIALS[first..first + 19].iter().step_by(2);
        terms.rev().fold(0.0, |sum, term| sum * z + term)
    };
    (r * series(1), series(0))
}

/// The sine of an angle of so many quarter turns and r.
#[inline]
fn sin_of(turns: i64, r: f64) -> f64 {
    let (sin, cos) = sin_cos(r);
    let value = if turns & 1 == 0 { sin } else { cos };
    if turns & 2 == 0 { value } else { -value }
}

/// sin x.
#[inline]
pub fn sin(x: f64) -> f64 {
    let (turns, r) = quarter_turns(x);
    // What is taken off makes 0 of −0.
    if x == 0.0 { x } else { sin_of(turns, r) }
}

/// cos x.
#[inline]
pub fn cos(x: f64) -> f64 {
    let (turns, r) = quarter_turns(x);
    sin_of(turns + 1, r)
}

/// Whether [`sin_of_small`] and [`cos_of_small`] are for x.
#[inline]
pub fn is_small_angle(x: f64) -> bool {
    x.abs() < LARGE
}

/// sin x for a small angle, without a branch.
#[inline]
pub fn sin_of_small(x: f64) -> f64 {
    let (turns, r) = quarter_turns_of_small(x);
    let value = sin_of(turns, r);
    if x == 0.0 { x } else { value }
}

/// cos x for a small angle, without a branch.
#[inline]
pub fn cos_of_small(x: f64) -> f64 {
    let (turns, r) = quarter_turns_of_small(x);
    sin_of(turns + 1, r)
}

/// tan x.
#[inline]
pub fn tan(x: f64) -> f64 {
    let (turns, r) = quarter_turns(x);
    let (sin, cos) = sin_cos(r);
    let value = if turns & 1 == 0 { sin / cos } else { -cos / sin };
    if x == 0.0 { x } else { value }
}

/// atan x.
#[inline]
pub fn atan(x: f64) -> f64 {
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
#[inline]
pub fn atan2(y: f64, x: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let slope = if x.is_infinite() && y.is_infinite() { 1.0 } else { y.abs() / x.abs() };
    // 0/0 is the angle of the x axis.
    let angle = if slope.is_nan() { 0.0 } else { atan(slope) };
    (if x.is_sign_negative() { std::f64::consts::PI - angle } else { angle }).copysign(y)
}

/// asin x; NaN beyond −1..1.
#[inline]
pub fn asin(x: f64) -> f64 {
    atan2(x, ((1.0 - x) * (1.0 + x)).sqrt())
}

/// acos x; NaN beyond −1..1.
#[inline]
pub fn acos(x: f64) -> f64 {
    atan2(((1.0 - x) * (1.0 + x)).sqrt(), x)
}

/// eˣ − 1.
#[inline]
pub fn expm1(x: f64) -> f64 {
    if x.abs() < 0.5 {
        // x + x²/2 + …: |x| ≤ ½, the first term left out is below 2⁻⁵⁶.
        return x * (2..=15).rev().fold(1.0, |sum, k| 1.0 + sum * x / f64::from(k));
    }
    exp(x) - 1.0
}

/// ln(1 + x); NaN below −1, −∞ there.
#[inline]
pub fn log1p(x: f64) -> f64 {
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
    let result = log(u) + (x - (u - 1.0)) / u;
    // Keeps the sign of 0.
    if x == 0.0 { x } else { result }
}

/// sinh x.
#[inline]
pub fn sinh(x: f64) -> f64 {
    let e = expm1(x.abs());
    (0.5 * (e + e / (e + 1.0))).copysign(x)
}

/// cosh x.
#[inline]
pub fn cosh(x: f64) -> f64 {
    let e = exp(x.abs());
    0.5 * (e + 1.0 / e)
}

/// The inverse of sinh.
#[inline]
pub fn asinh(x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    let t = x.abs();
    log1p(t + t * t / (1.0 + (t * t + 1.0).sqrt())).copysign(x)
}

/// The inverse of cosh; NaN below 1.
#[inline]
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    let t = x - 1.0;
    log1p(t + (2.0 * t + t * t).sqrt())
}

/// The inverse of tanh; NaN beyond −1..1.
#[inline]
pub fn atanh(x: f64) -> f64 {
    let t = x.abs();
    if t == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    (0.5 * log1p(2.0 * t / (1.0 - t))).copysign(x)
}

/// 1 − erf x, right in the tail.
#[inline]
pub fn erfc(x: f64) -> f64 {
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
        1.0 - std::f64::consts::FRAC_2_SQRT_PI * exp(-t * t) * sum
    } else if t > 27.0 {
        0.0
    } else {
        // The continued fraction t + ½/(t + 1/(t + 1½/(t + …))).
        let fraction = (1..60_u32).rev().fold(t, |below, k| t + f64::from(k) / 2.0 / below);
        exp(-t * t) / fraction * (0.5 * std::f64::consts::FRAC_2_SQRT_PI)
    };
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// The x above 0 whose erfc is q, 0 < q ≤ 1: Winitzki's closed form, improved by Halley's method.
fn erfc_inverse(q: f64) -> f64 {
    const A: f64 = 0.147;
    let log = log(q * (2.0 - q));
    let b = 2.0 / (std::f64::consts::PI * A) + 0.5 * log;
    let mut x = ((b * b - log / A).sqrt() - b).max(0.0).sqrt();
    for _ in 0..4 {
        let step = (erfc(x) - q) / (std::f64::consts::FRAC_2_SQRT_PI * exp(-x * x));
        x += step / (1.0 + x * step);
    }
    x
}

/// Below this magnitude erf's inverse is its series, since 1 − |y| would lose digits of y.
const NEAR: f64 = 0.01;

/// √π/2·(y + π/12·y³ + 7π²/480·y⁵ + 127π³/40320·y⁷): below [`NEAR`] the first term left out is below 2⁻⁵⁵ of the sum.
fn erf_inverse_near(y: f64) -> f64 {
    let z = std::f64::consts::PI * y * y;
    let series = 1.0 + z * (1.0 / 12.0 + z * (7.0 / 480.0 + z * (127.0 / 40320.0)));
    0.5 * std::f64::consts::PI.sqrt() * y * series
}

/// The inverse of erf; ±∞ at ±1, NaN beyond.
#[inline]
pub fn erfinv(y: f64) -> f64 {
    if y == 0.0 {
        return y;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if y.abs() < NEAR {
        return erf_inverse_near(y);
    }
    if y.abs() < 1.0 { erfc_inverse(1.0 - y.abs()).copysign(y) } else { f64::NAN }
}

/// The inverse of erfc; ∞ at 0, −∞ at 2, NaN beyond.
#[inline]
pub fn erfcinv(q: f64) -> f64 {
    if q == 0.0 || q == 2.0 {
        return if q == 0.0 { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    if !(0.0..=2.0).contains(&q) {
        return f64::NAN;
    }
    if (1.0 - q).abs() < NEAR {
        return erf_inverse_near(1.0 - q);
    }
    if q <= 1.0 { erfc_inverse(q) } else { -erfc_inverse(2.0 - q) }
}

/// tanh x.
#[inline]
pub fn tanh(x: f64) -> f64 {
    // Beyond 20 the result is ±1 to the last bit.
    let e = expm1(2.0 * x.abs().min(20.0));
    if x.is_nan() { x } else { (e / (e + 2.0)).copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments of all magnitudes that an f32 has, both signs, and those where functions turn.
    fn arguments() -> impl Iterator<Item = f64> {
        let turns = [0.0, -0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 6.0, 20.0, 88.0, 104.0, f64::INFINITY, f64::NAN];
        let patterns = (0..u32::MAX).step_by(400_009).map(|bits| f64::from(f32::from_bits(bits)));
        let middle = (-40_000..40_000).map(|step| f64::from(step) * 3.1e-4);
        turns.into_iter().flat_map(|x| [x, -x]).chain(patterns).chain(middle)
    }

    /// Compares with the C library's function where that is no subnormal and no number beyond f32's.
    fn agree(name: &str, ours: fn(f64) -> f64, theirs: fn(f64) -> f64, tolerance: f64) {
        for x in arguments() {
            let (y, expected) = (ours(x), theirs(x));
            let beyond = expected.abs() > 2.0 * f64::from(f32::MAX) && y.abs() > 2.0 * f64::from(f32::MAX);
            let vanishes = expected.abs() < 1e-46 && y.abs() < 1e-46;
            let close = (y - expected).abs() <= tolerance * expected.abs() || y == expected;
            assert!(
                close || beyond || vanishes || (y.is_nan() && expected.is_nan()),
                "{name}({x:e}) = {y:e}, not {expected:e}"
            );
        }
    }

    #[test]
    fn odd_functions_keep_the_sign_of_zero() {
        for (name, function) in [
            ("sin", sin as fn(f64) -> f64),
            ("sin of a small angle", sin_of_small),
            ("tan", tan),
            ("asin", asin),
            ("atan", atan),
            ("sinh", sinh),
            ("asinh", asinh),
            ("tanh", tanh),
            ("atanh", atanh),
        ] {
            for zero in [0.0_f64, -0.0] {
                assert_eq!(function(zero).to_bits(), zero.to_bits(), "{name} of {zero:?}");
            }
        }
    }

    #[test]
    fn angles_of_any_size_are_reduced_exactly() {
        let near = |got: f64, expected: f64, x: f64| {
            assert!((got - expected).abs() <= 4e-16 * expected.abs(), "{x}: {got}, not {expected}");
        };
        for exponent in 26..1024_u64 {
            for mantissa in [0, 1, 0x000f_ffff_ffff_ffff, 0x0005_a5a5_1234_5678 ^ (exponent * 0x1_0000_0001)]
            {
                let x = f64::from_bits((exponent + 1023) << 52 | mantissa);
                for x in [x, -x] {
                    near(sin(x), x.sin(), x);
                    near(cos(x), x.cos(), x);
                }
            }
        }
        // What of all f64 comes nearest to a multiple of π/2 (Muller et al.).
        let x = 6_381_956_970_095_103.0 * power_of_two(797);
        near(cos(x), -4.687_165_924_254_628e-19, x);
        near(sin(x), 1.0, x);
        near(sin(1e22), -0.852_200_849_767_188_8, 1e22);
    }

    #[test]
    fn powers_of_two_are_exact() {
        for n in -1074..1024 {
            let expected = if n < -1022 { f64::from_bits(1 << (n + 1074)) } else { 2.0_f64.powi(n) };
            assert_eq!(power_of_two(n), expected, "{n}");
        }
        assert_eq!([-1075, -1076, i32::MIN].map(power_of_two), [0.0; 3]);
        assert_eq!([1024, i32::MAX].map(power_of_two), [f64::INFINITY; 2]);
    }

    #[test]
    fn powers_agree_with_the_c_librarys() {
        let bases = [0.0, -0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 1e-300, 1e300, f64::INFINITY, f64::NAN];
        let exponents =
            [0.0, 0.25, 0.5, 1.0, 1.0 / 3.0, 1.5, 2.0, 3.0, 7.5, 12.7, 300.0, 1001.0, 2049.0, 1e17];
        let both = |x: f64| [x, -x];
        let bases: Vec<f64> = bases.into_iter().flat_map(both).chain((1..60).map(f64::from)).collect();
        let exponents = exponents.into_iter().chain([f64::INFINITY, f64::NAN]).flat_map(both);
        for b in exponents {
            for &a in &bases {
                let (y, expected) = (pow(a, b), a.powf(b));
                let tolerance = 2e-16 * (8.0 + 4.0 * (b * a.abs().ln()).abs()).min(3000.0);
                let close = (y - expected).abs() <= tolerance * expected.abs();
                let same = y == expected && y.is_sign_negative() == expected.is_sign_negative();
                // Subnormals lose what lies below them, and products that pass them.
                let vanishes = y.abs() < 1e-300 && expected.abs() < 1e-300;
                assert!(
                    close || same || vanishes || (y.is_nan() && expected.is_nan()),
                    "{a:e}^{b:e} = {y:e}, not {expected:e}"
                );
            }
        }
        // Whole roots and powers are whole.
        assert_eq!(
            [pow(27.0, 1.0 / 3.0), pow(4.0, 1.5), pow(10.0, 9.0), pow(9.0, -0.5)],
            [3.0, 8.0, 1e9, 1.0 / 3.0]
        );
        assert_eq!([exp_to_infinity(-800.0), exp_to_infinity(800.0)], [0.0, f64::INFINITY]);
        for x in [-740.0, -701.0, 701.0, 709.7] {
            assert!((exp_to_infinity(x) / x.exp() - 1.0).abs() < 1e-8, "{x}");
        }
    }

    #[test]
    fn functions_agree_with_the_c_librarys() {
        agree("exp", exp, f64::exp, 1e-14);
        agree("log", log, f64::ln, 1e-14);
        agree("tanh", tanh, f64::tanh, 1e-14);
        agree("expm1", expm1, f64::exp_m1, 1e-14);
        agree("log1p", log1p, f64::ln_1p, 1e-14);
        agree("sinh", sinh, f64::sinh, 1e-14);
        agree("cosh", cosh, f64::cosh, 1e-14);
        agree("asinh", asinh, f64::asinh, 1e-13);
        agree("atan", atan, f64::atan, 1e-14);
    }

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
            assert!((erfc(x) - (1.0 - expected)).abs() < 1e-14, "erfc({x}) = {}", erfc(x));
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
        for y in [-0.999, -0.5, 0.0, 1e-9, 0.25, 0.9, 0.999_999] {
            assert!((erf(erfinv(y)) - y).abs() < 1e-14, "erfinv({y}) = {}", erfinv(y));
        }
    }
}
