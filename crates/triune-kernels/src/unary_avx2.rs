//! The exponential and what is made of it on AVX2: the bits of `math`, four vectors side by side.
//!
//! Each step waits for the one before it. A compiler takes one vector through all of them before the next, and a processor does not look
//! so far ahead that it would find enough to do meanwhile.

use std::arch::x86_64::{
    __m256, __m256d, __m256i, _CMP_GT_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _mm256_add_epi32, _mm256_add_epi64,
    _mm256_add_ps, _mm256_and_pd, _mm256_and_ps, _mm256_andnot_ps, _mm256_blendv_pd, _mm256_blendv_ps,
    _mm256_castpd_si256, _mm256_castps_si256, _mm256_castps256_ps128, _mm256_castsi256_pd,
    _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtpd_ps, _mm256_cvtps_pd, _mm256_div_ps,
    _mm256_extractf128_ps, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_min_ps,
    _mm256_movemask_ps, _mm256_mul_pd, _mm256_mul_ps, _mm256_or_ps, _mm256_set_m128, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32,
    _mm256_slli_epi64, _mm256_storeu_ps, _mm256_sub_pd, _mm256_sub_ps, _mm256_xor_pd, _mm256_xor_ps,
};
use std::array::from_fn;
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use triune_tensor::function::UnaryKind;

use crate::math::{
    self, COS, ERF_FAR, ERF_NEAR, EXP, FLAT, HALF_PI_REST, LN2_HIGH, LN2_LOW, MIDDLING, ROUNDER, SIN,
    SMALL_ANGLE, WIDE_ROUNDER,
};

/// Vectors side by side.
const SEVERAL: usize = 4;
/// Elements of a vector, and of several.
const WIDTH: usize = 8;
const GROUP: usize = SEVERAL * WIDTH;

type Several = [__m256; SEVERAL];

#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(x: &[f32; GROUP]) -> Several {
    // SAFETY: inside of the array.
    from_fn(|i| unsafe { _mm256_loadu_ps(x[i * WIDTH..].as_ptr()) })
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(y: &mut [f32; GROUP], several: Several) {
    for (y, vector) in y.as_chunks_mut::<WIDTH>().0.iter_mut().zip(several) {
        // SAFETY: as many elements as a vector has.
        unsafe { _mm256_storeu_ps(y.as_mut_ptr(), vector) };
    }
}

/// Whether the sizes of all compare so with a limit.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sizes_are<const COMPARED: i32>(several: Several, limit: f32) -> bool {
    let (sign, limit) = (_mm256_set1_ps(-0.0), _mm256_set1_ps(limit));
    let [a, b, c, d] = several.map(|x| _mm256_cmp_ps::<COMPARED>(_mm256_andnot_ps(sign, x), limit));
    _mm256_movemask_ps(_mm256_and_ps(_mm256_and_ps(a, b), _mm256_and_ps(c, d))) == (1 << WIDTH) - 1
}

/// Whether all are middling, as `math::is_middling` says.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn are_middling(several: Several) -> bool {
    sizes_are::<_CMP_LE_OQ>(several, MIDDLING)
}

/// n in the low bits and eʳ − 1 for x = n·ln 2 + r, as `math::exp_parts`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_parts(x: Several) -> ([__m256i; SEVERAL], Several) {
    let rounder = _mm256_set1_ps(ROUNDER);
    let rounded: Several = from_fn(|i| _mm256_fmadd_ps(x[i], _mm256_set1_ps(LOG2_E), rounder));
    let n: Several = from_fn(|i| _mm256_sub_ps(rounded[i], rounder));
    let r: Several = from_fn(|i| _mm256_fmadd_ps(n[i], _mm256_set1_ps(-LN2_HIGH), x[i]));
    let r: Several = from_fn(|i| _mm256_fmadd_ps(n[i], _mm256_set1_ps(-LN2_LOW), r[i]));
    let mut p = [_mm256_set1_ps(EXP[0]); SEVERAL];
    for factor in &EXP[1..] {
        for (p, r) in p.iter_mut().zip(r) {
            *p = _mm256_fmadd_ps(r, *p, _mm256_set1_ps(*factor));
        }
    }
    let less_one = from_fn(|i| _mm256_fmadd_ps(_mm256_mul_ps(r[i], r[i]), p[i], r[i]));
    (rounded.map(|rounded| _mm256_castps_si256(rounded)), less_one)
}

/// As `math::exp_of_middling`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_of_middling(x: Several) -> Several {
    let (bits, p) = exp_parts(x);
    from_fn(|i| {
        let power = _mm256_castps_si256(_mm256_add_ps(p[i], _mm256_set1_ps(1.0)));
        _mm256_castsi256_ps(_mm256_add_epi32(power, _mm256_slli_epi32::<23>(bits[i])))
    })
}

/// As `math::sigmoid_of_middling`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sigmoid_of_middling(x: Several) -> Several {
    let one = _mm256_set1_ps(1.0);
    let e = exp_of_middling(x.map(|x| _mm256_xor_ps(x, _mm256_set1_ps(-0.0))));
    e.map(|e| _mm256_div_ps(one, _mm256_add_ps(one, e)))
}

/// As `math::tanh`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn tanh(x: Several) -> Several {
    let (one, sign) = (_mm256_set1_ps(1.0), _mm256_set1_ps(-0.0));
    // NaN, as the second operand, stays.
    let t = x.map(|x| _mm256_min_ps(_mm256_set1_ps(FLAT), _mm256_andnot_ps(sign, x)));
    let (bits, p) = exp_parts(t.map(|t| _mm256_add_ps(t, t)));
    let less_one: Several = from_fn(|i| {
        let exponent = _mm256_add_epi32(_mm256_slli_epi32::<23>(bits[i]), _mm256_set1_epi32(127 << 23));
        let scale = _mm256_castsi256_ps(exponent);
        _mm256_fmadd_ps(scale, p[i], _mm256_sub_ps(scale, one))
    });
    from_fn(|i| {
        let size = _mm256_div_ps(less_one[i], _mm256_add_ps(less_one[i], _mm256_set1_ps(2.0)));
        _mm256_or_ps(_mm256_andnot_ps(sign, size), _mm256_and_ps(sign, x[i]))
    })
}

/// As `math::polynomial`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn polynomial(x: Several, factors: &[f32; 8]) -> Several {
    let squares: Several = from_fn(|i| _mm256_mul_ps(x[i], x[i]));
    let pair = |first: usize| -> Several {
        let [high, low] = [factors[first], factors[first + 1]].map(|factor| _mm256_set1_ps(factor));
        from_fn(|i| _mm256_fmadd_ps(x[i], high, low))
    };
    let four = |first: usize| -> Several {
        let (high, low) = (pair(first), pair(first + 2));
        from_fn(|i| _mm256_fmadd_ps(high[i], squares[i], low[i]))
    };
    let (high, low) = (four(0), four(4));
    from_fn(|i| _mm256_fmadd_ps(high[i], _mm256_mul_ps(squares[i], squares[i]), low[i]))
}

/// As `math::erf`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn erf(x: Several) -> Several {
    let (one, sign) = (_mm256_set1_ps(1.0), _mm256_set1_ps(-0.0));
    // What becomes of NaN is not taken.
    let limited: Several = from_fn(|i| _mm256_min_ps(_mm256_andnot_ps(sign, x[i]), _mm256_set1_ps(4.0)));
    let q = polynomial(limited, &ERF_FAR);
    let e = exp_of_middling(q.map(|q| _mm256_xor_ps(q, sign)));
    let far: Several = from_fn(|i| _mm256_or_ps(_mm256_sub_ps(one, e[i]), _mm256_and_ps(sign, x[i])));
    let p = polynomial(from_fn(|i| _mm256_mul_ps(x[i], x[i])), &ERF_NEAR);
    from_fn(|i| {
        let is_far = _mm256_cmp_ps::<_CMP_GT_OQ>(_mm256_andnot_ps(sign, x[i]), one);
        _mm256_blendv_ps(_mm256_fmadd_ps(x[i], p[i], x[i]), far[i], is_far)
    })
}

/// As `math::gelu`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn gelu(x: Several) -> Several {
    let e = erf(x.map(|x| _mm256_mul_ps(x, _mm256_set1_ps(FRAC_1_SQRT_2))));
    from_fn(|i| {
        let half = _mm256_mul_ps(_mm256_set1_ps(0.5), x[i]);
        _mm256_mul_ps(half, _mm256_add_ps(_mm256_set1_ps(1.0), e[i]))
    })
}

/// As `math::gated`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn gated(x: Several, alpha: f32, beta: f32) -> Several {
    let (factor, offset) = (_mm256_set1_ps(beta), _mm256_set1_ps(alpha));
    x.map(|x| {
        let square = if beta == 0.0 { _mm256_setzero_ps() } else { _mm256_mul_ps(x, x) };
        _mm256_mul_ps(x, _mm256_fmadd_ps(factor, square, offset))
    })
}

/// Whether all are small angles, as `math::is_small_angle` says.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn are_small_angles(several: Several) -> bool {
    sizes_are::<_CMP_LT_OQ>(several, SMALL_ANGLE)
}

/// As `math::sin_of_turned`, which see.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sin_of_turned(x: Several, quarters: i64) -> Several {
    let half = |pair: [__m256; 2]| {
        let [low, high] = pair;
        let wide = [
            _mm256_cvtps_pd(_mm256_castps256_ps128(low)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(low)),
            _mm256_cvtps_pd(_mm256_castps256_ps128(high)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(high)),
        ];
        let [a, b, c, d] = sin_of_turned_wide(wide, quarters).map(|value| _mm256_cvtpd_ps(value));
        [_mm256_set_m128(b, a), _mm256_set_m128(d, c)]
    };
    let ([a, b], [c, d]) = (half([x[0], x[1]]), half([x[2], x[3]]));
    [a, b, c, d]
}

/// The same in f64.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sin_of_turned_wide(x: [__m256d; SEVERAL], quarters: i64) -> [__m256d; SEVERAL] {
    type Wide = [__m256d; SEVERAL];
    let rounder = _mm256_set1_pd(WIDE_ROUNDER);
    let rounded: Wide = x.map(|x| _mm256_fmadd_pd(x, _mm256_set1_pd(FRAC_2_PI), rounder));
    let n: Wide = rounded.map(|rounded| _mm256_sub_pd(rounded, rounder));
    let r: Wide = from_fn(|i| _mm256_fmadd_pd(n[i], _mm256_set1_pd(-FRAC_PI_2), x[i]));
    let r: Wide = from_fn(|i| _mm256_fmadd_pd(n[i], _mm256_set1_pd(-HALF_PI_REST), r[i]));
    let z: Wide = r.map(|r| _mm256_mul_pd(r, r));
    let series = |factors: &[f64]| {
        let mut sum = [_mm256_set1_pd(factors[0]); SEVERAL];
        for factor in &factors[1..] {
            for (sum, z) in sum.iter_mut().zip(z) {
                *sum = _mm256_fmadd_pd(*sum, z, _mm256_set1_pd(*factor));
            }
        }
        sum
    };
    let (sin, cos) = (series(&SIN), series(&COS));
    from_fn(|i| {
        let turns = _mm256_add_epi64(_mm256_castpd_si256(rounded[i]), _mm256_set1_epi64x(quarters));
        let is_odd = _mm256_castsi256_pd(_mm256_slli_epi64::<63>(turns));
        let value = _mm256_blendv_pd(_mm256_mul_pd(r[i], sin[i]), cos[i], is_odd);
        let sign = _mm256_and_pd(_mm256_castsi256_pd(_mm256_slli_epi64::<62>(turns)), _mm256_set1_pd(-0.0));
        _mm256_xor_pd(value, sign)
    })
}

/// y = f(x) by several vectors where it serves all of them, element by element where not.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn each(
    x: &[f32],
    y: &mut [f32],
    is_served: impl Fn(Several) -> bool,
    f: impl Fn(Several) -> Several,
    general: impl Fn(f32) -> f32,
) {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<GROUP>(), y.as_chunks_mut::<GROUP>());
    for (x, y) in x.iter().zip(y) {
        let several = load(x);
        if is_served(several) {
            store(y, f(several));
        } else {
            for (x, y) in x.iter().zip(y) {
                *y = general(*x);
            }
        }
    }
    for (x, y) in x_rest.iter().zip(y_rest) {
        *y = general(*x);
    }
}

/// y = f(x) for the functions that are made for it, and whether this is one.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn apply(kind: UnaryKind, x: &[f32], y: &mut [f32]) -> bool {
    let times = |x: Several, y: Several| from_fn(|i| _mm256_mul_ps(x[i], y[i]));
    match kind {
        UnaryKind::Exp => each(x, y, |x| are_middling(x), |x| exp_of_middling(x), math::exp),
        UnaryKind::Sigmoid => each(x, y, |x| are_middling(x), |x| sigmoid_of_middling(x), math::sigmoid),
        UnaryKind::Silu => {
            let general = |x| x * math::sigmoid(x);
            each(x, y, |x| are_middling(x), |x| times(x, sigmoid_of_middling(x)), general);
        }
        UnaryKind::Tanh => each(x, y, |_| true, |x| tanh(x), math::tanh),
        UnaryKind::Erf => each(x, y, |_| true, |x| erf(x), math::erf),
        UnaryKind::Gelu => each(x, y, |_| true, |x| gelu(x), math::gelu),
        UnaryKind::Sin => each(x, y, |x| are_small_angles(x), |x| sin_of_turned(x, 0), math::sin),
        UnaryKind::Cos => each(x, y, |x| are_small_angles(x), |x| sin_of_turned(x, 1), math::cos),
        UnaryKind::Gate { alpha, beta } => {
            let quick = |x: Several| times(x, sigmoid_of_middling(gated(x, alpha, beta)));
            each(x, y, |x| are_middling(gated(x, alpha, beta)), quick, |x| math::gate(x, alpha, beta));
        }
        _ => return false,
    }
    true
}

/// Writes e^(x − largest) to y, and adds element i to sum i mod 16.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn exp_and_sums(x: &[f32], largest: f32, y: &mut [f32], sums: &mut [f32; 2 * WIDTH]) {
    let most = _mm256_set1_ps(largest);
    let ((groups, rest), (y, y_rest)) = (x.as_chunks::<GROUP>(), y.as_chunks_mut::<GROUP>());
    for (x, y) in groups.iter().zip(y) {
        let less = load(x).map(|x| _mm256_sub_ps(x, most));
        if are_middling(less) {
            let several = exp_of_middling(less);
            store(y, several);
            for (sums, pair) in sums.as_chunks_mut::<WIDTH>().0.iter_mut().zip([[0, 2], [1, 3]]) {
                for vector in pair {
                    // SAFETY: as many elements as a vector has.
                    unsafe {
                        let sum = _mm256_add_ps(_mm256_loadu_ps(sums.as_ptr()), several[vector]);
                        _mm256_storeu_ps(sums.as_mut_ptr(), sum);
                    }
                }
            }
        } else {
            add_each(x, largest, y, sums);
        }
    }
    add_each(rest, largest, y_rest, sums);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_each(x: &[f32], largest: f32, y: &mut [f32], sums: &mut [f32; 2 * WIDTH]) {
    for (x, y) in x.chunks(sums.len()).zip(y.chunks_mut(2 * WIDTH)) {
        for ((x, y), sum) in x.iter().zip(y).zip(&mut *sums) {
            *y = math::exp(*x - largest);
            *sum += *y;
        }
    }
}
