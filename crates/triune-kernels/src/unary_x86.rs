//! The exponential and what is made of it on AVX-512, which scales by powers of two in one instruction: the bits of `math`, in
//! two thirds of the steps.

use std::arch::x86_64::{
    __m512, _CMP_GT_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _CMP_NLT_UQ, _mm_cvtss_f32, _mm_max_ps, _mm_movehdup_ps,
    _mm_movehl_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_max_ps, _mm512_add_ps,
    _mm512_and_ps, _mm512_andnot_ps, _mm512_castps512_ps256, _mm512_cmp_ps_mask, _mm512_div_ps,
    _mm512_extractf32x8_ps, _mm512_fmadd_ps, _mm512_fmsub_ps, _mm512_loadu_ps, _mm512_mask_add_ps,
    _mm512_mask_loadu_ps, _mm512_mask_mov_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_maskz_mul_ps, _mm512_maskz_scalef_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_or_ps,
    _mm512_scalef_ps, _mm512_set1_ps, _mm512_storeu_ps, _mm512_sub_ps, _mm512_xor_ps,
};
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

use triune_tensor::function::UnaryKind;

use crate::conv::fgemm_simd::mask_512;
use crate::eltwise::halved;
use crate::math::{
    ERF_FAR, ERF_NEAR, EXP, FLAT, GONE, LARGEST, LN2_HIGH, LN2_LOW, MIDDLING, POWER, ROUNDER, VANISHED,
};

/// n and eʳ − 1 for x = n·ln 2 + r, as `math::exp_parts`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn exp_parts(x: __m512) -> (__m512, __m512) {
    let rounder = _mm512_set1_ps(ROUNDER);
    let n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(LOG2_E), rounder), rounder);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_HIGH), x);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_LOW), r);
    let mut p = _mm512_set1_ps(EXP[0]);
    for factor in &EXP[1..] {
        p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(*factor));
    }
    (n, _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r))
}

/// As `math::exp`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn exp(x: __m512) -> __m512 {
    exp_up_to_largest(_mm512_min_ps(_mm512_set1_ps(LARGEST), x))
}

/// [`exp`] of nothing beyond `LARGEST`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn exp_up_to_largest(x: __m512) -> __m512 {
    // NaN stays. What is gone is 0, whatever is computed of it.
    let left = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(GONE));
    let (n, p) = exp_parts(x);
    // Rounded once, as the last of the two factors of `math::exp` does it: the first is exact.
    _mm512_maskz_scalef_ps(left, _mm512_add_ps(p, _mm512_set1_ps(1.0)), n)
}

/// As `math::sigmoid`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn sigmoid(x: __m512) -> __m512 {
    let (one, sign) = (_mm512_set1_ps(1.0), _mm512_set1_ps(-0.0));
    let middling = _mm512_set1_ps(MIDDLING);
    if _mm512_cmp_ps_mask::<_CMP_LE_OQ>(_mm512_andnot_ps(sign, x), middling) == u16::MAX {
        // Nothing overflows, and nothing is gone: as `math::sigmoid_of_middling`.
        let (n, p) = exp_parts(_mm512_xor_ps(x, sign));
        let e = _mm512_scalef_ps(_mm512_add_ps(p, one), n);
        return _mm512_div_ps(one, _mm512_add_ps(one, e));
    }
    let low = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_xor_ps(middling, sign));
    let e = exp_up_to_largest(_mm512_mask_mov_ps(_mm512_xor_ps(x, sign), low, x));
    _mm512_div_ps(_mm512_mask_mov_ps(one, low, e), _mm512_add_ps(one, e))
}

/// As `math::tanh`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn tanh(x: __m512) -> __m512 {
    let (one, sign) = (_mm512_set1_ps(1.0), _mm512_set1_ps(-0.0));
    let t = _mm512_min_ps(_mm512_set1_ps(FLAT), _mm512_andnot_ps(sign, x));
    let (n, p) = exp_parts(_mm512_add_ps(t, t));
    let scale = _mm512_scalef_ps(one, n);
    let less_one = _mm512_fmadd_ps(scale, p, _mm512_sub_ps(scale, one));
    let quotient = _mm512_div_ps(less_one, _mm512_add_ps(less_one, _mm512_set1_ps(2.0)));
    _mm512_or_ps(quotient, _mm512_and_ps(sign, x))
}

/// As `math::polynomial`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn polynomial(x: __m512, factors: &[f32; 8]) -> __m512 {
    let square = _mm512_mul_ps(x, x);
    let pair = |at: usize| _mm512_fmadd_ps(x, _mm512_set1_ps(factors[at]), _mm512_set1_ps(factors[at + 1]));
    let four = |at: usize| _mm512_fmadd_ps(pair(at), square, pair(at + 2));
    _mm512_fmadd_ps(four(0), _mm512_mul_ps(square, square), four(4))
}

/// As `math::erf`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn erf(x: __m512) -> __m512 {
    let (one, sign) = (_mm512_set1_ps(1.0), _mm512_set1_ps(-0.0));
    let size = _mm512_andnot_ps(sign, x);
    // What becomes of NaN is not taken.
    let q = polynomial(_mm512_min_ps(size, _mm512_set1_ps(4.0)), &ERF_FAR);
    let far = _mm512_or_ps(_mm512_sub_ps(one, exp(_mm512_xor_ps(q, sign))), _mm512_and_ps(sign, x));
    let p = polynomial(_mm512_mul_ps(x, x), &ERF_NEAR);
    let is_far = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(size, one);
    _mm512_mask_mov_ps(_mm512_fmadd_ps(x, p, x), is_far, far)
}

/// As `math::gelu`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn gelu(x: __m512) -> __m512 {
    let e = erf(_mm512_mul_ps(x, _mm512_set1_ps(FRAC_1_SQRT_2)));
    _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(0.5), x), _mm512_add_ps(_mm512_set1_ps(1.0), e))
}

/// y = f(x), vector by vector.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn each(x: &[f32], y: &mut [f32], f: impl Fn(__m512) -> __m512) {
    let len = x.len().min(y.len());
    for at in (0..len).step_by(16) {
        let (from, to) = (x[at..].as_ptr(), y[at..].as_mut_ptr());
        // SAFETY: masked lanes are not touched, the others lie inside of both slices.
        unsafe {
            if len - at >= 16 {
                _mm512_storeu_ps(to, f(_mm512_loadu_ps(from)));
            } else {
                let mask = mask_512(len - at);
                _mm512_mask_storeu_ps(to, mask, f(_mm512_maskz_loadu_ps(mask, from)));
            }
        }
    }
}

/// Writes f(x) to y, and adds element i to sum i mod 16.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn each_and_sums(x: &[f32], y: &mut [f32], sums: &mut [f32; 16], f: impl Fn(__m512) -> __m512) {
    let len = x.len().min(y.len());
    // SAFETY: sixteen floats.
    let mut sum = unsafe { _mm512_loadu_ps(sums.as_ptr()) };
    for at in (0..len).step_by(16) {
        let (from, to) = (x[at..].as_ptr(), y[at..].as_mut_ptr());
        // SAFETY: masked lanes are not touched, the others lie inside of both slices.
        unsafe {
            if len - at >= 16 {
                let y = f(_mm512_loadu_ps(from));
                _mm512_storeu_ps(to, y);
                sum = _mm512_add_ps(sum, y);
            } else {
                let mask = mask_512(len - at);
                let y = f(_mm512_maskz_loadu_ps(mask, from));
                _mm512_mask_storeu_ps(to, mask, y);
                sum = _mm512_mask_add_ps(sum, mask, sum, y);
            }
        }
    }
    // SAFETY: sixteen floats.
    unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
}

/// Writes e^(x − largest) to y, and adds element i to sum i mod 16.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn exp_and_sums(x: &[f32], largest: f32, y: &mut [f32], sums: &mut [f32; 16]) {
    let largest = _mm512_set1_ps(largest);
    each_and_sums(x, y, sums, |x| exp_up_to_largest(_mm512_sub_ps(x, largest)));
}

/// The largest element; what NaN makes of it is left open.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn largest(x: &[f32]) -> f32 {
    let mut largest = [_mm512_set1_ps(f32::NEG_INFINITY); 2];
    let (pairs, rest) = x.as_chunks::<32>();
    for pair in pairs {
        // SAFETY: 32 floats.
        let (low, high) = unsafe { (_mm512_loadu_ps(pair.as_ptr()), _mm512_loadu_ps(pair[16..].as_ptr())) };
        // The second operand stays where one of them is NaN.
        largest = [_mm512_max_ps(largest[0], low), _mm512_max_ps(largest[1], high)];
    }
    for rest in rest.chunks(16) {
        // SAFETY: masked lanes are not read.
        let x = unsafe { _mm512_mask_loadu_ps(largest[0], mask_512(rest.len()), rest.as_ptr()) };
        largest[0] = _mm512_max_ps(largest[0], x);
    }
    across(_mm512_max_ps(largest[1], largest[0]))
}

/// The largest of sixteen.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn across(lanes: __m512) -> f32 {
    let eight = _mm256_max_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps::<1>(lanes));
    let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ps(two, _mm_movehdup_ps(two)))
}

/// As `math::power`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn power(x: __m512, factor: __m512) -> __m512 {
    let rounder = _mm512_set1_ps(ROUNDER);
    let n = _mm512_sub_ps(_mm512_fmadd_ps(x, factor, rounder), rounder);
    // NaN stays. What is gone is 0, whatever is computed of it.
    let left = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(n, _mm512_set1_ps(VANISHED));
    let f = _mm512_fmsub_ps(x, factor, n);
    let mut p = _mm512_set1_ps(POWER[0]);
    for factor in &POWER[1..] {
        p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(*factor));
    }
    _mm512_maskz_scalef_ps(left, p, n)
}

/// As `attention::weigh_row`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn weigh_row(x: &[f32], factor: f32, y: &mut [f32]) -> f32 {
    let (most, factor) = (_mm512_set1_ps(largest(x)), _mm512_set1_ps(factor));
    let mut sums = [0.0; 16];
    each_and_sums(x, y, &mut sums, |x| power(_mm512_sub_ps(x, most), factor));
    halved(sums, |a, b| a + b)
}

/// Of rows that lie `row` floats apart, `len` of each: the weights, and 1 / their sums, one for each of `inverses`.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn weigh(
    scores: &[f32],
    row: usize,
    len: usize,
    factor: f32,
    weights: &mut [f32],
    inverses: &mut [f32],
) {
    let rows = scores.chunks_exact(row).zip(weights.chunks_exact_mut(row));
    for ((x, y), inverse) in rows.zip(inverses) {
        *inverse = 1.0 / weigh_row(&x[..len], factor, &mut y[..len]);
    }
}

/// y · factor, in the place of y.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn scale(y: &mut [f32], factor: f32) {
    let factor = _mm512_set1_ps(factor);
    let (whole, rest) = y.as_chunks_mut::<16>();
    for y in whole {
        // SAFETY: sixteen floats.
        unsafe { _mm512_storeu_ps(y.as_mut_ptr(), _mm512_mul_ps(_mm512_loadu_ps(y.as_ptr()), factor)) };
    }
    let mask = mask_512(rest.len());
    // SAFETY: masked lanes are not touched.
    unsafe {
        let scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, rest.as_ptr()), factor);
        _mm512_mask_storeu_ps(rest.as_mut_ptr(), mask, scaled);
    }
}

/// y = sigmoid(x), or x·sigmoid(x).
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn apply_sigmoid<const TIMES_X: bool>(x: &[f32], y: &mut [f32]) {
    each(x, y, |x| if TIMES_X { _mm512_mul_ps(x, sigmoid(x)) } else { sigmoid(x) });
}

/// y = f(x) for the functions that are made for it, and whether this is one.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn apply(kind: UnaryKind, x: &[f32], y: &mut [f32]) -> bool {
    match kind {
        UnaryKind::Exp => each(x, y, |x| exp(x)),
        UnaryKind::Sigmoid => apply_sigmoid::<false>(x, y),
        UnaryKind::Silu => apply_sigmoid::<true>(x, y),
        UnaryKind::Tanh => each(x, y, |x| tanh(x)),
        UnaryKind::Erf => each(x, y, |x| erf(x)),
        UnaryKind::Gelu => each(x, y, |x| gelu(x)),
        UnaryKind::Gate { alpha, beta } => apply_gate(alpha, beta, x, y),
        _ => return false,
    }
    true
}

/// y = x·sigmoid(x·(α + β·x²)), as `math::gate`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn apply_gate(alpha: f32, beta: f32, x: &[f32], y: &mut [f32]) {
    let squares = if beta == 0.0 { 0 } else { u16::MAX };
    let (alpha, beta) = (_mm512_set1_ps(alpha), _mm512_set1_ps(beta));
    each(x, y, |x| {
        let inner = _mm512_mul_ps(x, _mm512_fmadd_ps(beta, _mm512_maskz_mul_ps(squares, x, x), alpha));
        _mm512_mul_ps(x, sigmoid(inner))
    });
}

/// As [`apply_sigmoid`], row by row: rows of `x` are `width` long, their first `used` results go `offset` floats behind the
/// outputs' pointers.
///
/// # Safety
/// There is a pointer for each row, behind which nobody else writes so many floats.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) unsafe fn apply_sigmoid_rows<const TIMES_X: bool>(
    x: &[f32],
    [width, used]: [usize; 2],
    outputs: *const *mut f32,
    offset: usize,
) {
    for (row, x) in x.chunks_exact(width).enumerate() {
        // SAFETY: as promised by the caller.
        let y = unsafe { std::slice::from_raw_parts_mut((*outputs.add(row)).add(offset), used) };
        apply_sigmoid::<TIMES_X>(&x[..used], y);
    }
}

/// A step of long short-term memory for some units of a row, whose gates are sigmoid and whose other functions tanh: the sums
/// of the gates i, o, f and of what is new; c becomes f·c + i·g, and `after` o·tanh(c). Nothing waits in memory on the way.
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn lstm([input, output, forget, new]: [&[f32]; 4], cell: &mut [f32], after: &mut [f32]) {
    let len = after.len();
    let [input, output, forget, new] = [&input[..len], &output[..len], &forget[..len], &new[..len]];
    let cell = &mut cell[..len];
    for at in (0..len).step_by(16) {
        let mask = mask_512(len - at);
        // SAFETY: masked lanes are not touched, the others lie inside of all slices.
        unsafe {
            let read = |from: &[f32]| _mm512_maskz_loadu_ps(mask, from[at..].as_ptr());
            let fresh = _mm512_mul_ps(sigmoid(read(input)), tanh(read(new)));
            let state = _mm512_fmadd_ps(sigmoid(read(forget)), read(cell), fresh);
            _mm512_mask_storeu_ps(cell[at..].as_mut_ptr(), mask, state);
            let shown = _mm512_mul_ps(sigmoid(read(output)), tanh(state));
            _mm512_mask_storeu_ps(after[at..].as_mut_ptr(), mask, shown);
        }
    }
}
