//! Sigmoid and what is made of it on AVX-512, which scales by powers of two in one instruction: the bits of `math`, in two
//! thirds of the steps.

use std::arch::x86_64::{
    __m512, _CMP_LT_OQ, _CMP_NLT_UQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_div_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mask_mov_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_maskz_mul_ps,
    _mm512_maskz_scalef_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_or_ps, _mm512_set1_ps, _mm512_storeu_ps,
    _mm512_sub_ps,
};
use std::f32::consts::LOG2_E;

use crate::conv::fgemm_simd::mask_512;
use crate::math::{EXP, GONE, LN2_HIGH, LN2_LOW, ROUNDER};

/// As `math::sigmoid`, which see.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn sigmoid(x: __m512) -> __m512 {
    let (one, gone) = (_mm512_set1_ps(1.0), _mm512_set1_ps(GONE));
    let minus = _mm512_or_ps(x, _mm512_set1_ps(-0.0));
    // NaN stays. What is gone is 0, and never computed: products that vanish take long.
    let left = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(minus, gone);
    let t = _mm512_max_ps(gone, minus);
    let rounder = _mm512_set1_ps(ROUNDER);
    let n = _mm512_sub_ps(_mm512_fmadd_ps(t, _mm512_set1_ps(LOG2_E), rounder), rounder);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_HIGH), t);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_LOW), r);
    let mut p = _mm512_set1_ps(EXP[0]);
    for factor in &EXP[1..] {
        p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(*factor));
    }
    let p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
    // Rounded once, as the last of the two factors of `math::exp` does it: the first is exact.
    let e = _mm512_maskz_scalef_ps(left, _mm512_add_ps(p, one), n);
    let negative = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_set1_ps(0.0));
    _mm512_div_ps(_mm512_mask_mov_ps(one, negative, e), _mm512_add_ps(one, e))
}

/// y = sigmoid(x), or x·sigmoid(x).
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn apply_sigmoid<const TIMES_X: bool>(x: &[f32], y: &mut [f32]) {
    let len = x.len().min(y.len());
    for at in (0..len).step_by(16) {
        let (from, to) = (x[at..].as_ptr(), y[at..].as_mut_ptr());
        let mask = mask_512(len - at);
        // SAFETY: masked lanes are not touched, the others lie inside of both slices.
        unsafe {
            let whole = len - at >= 16;
            let x = if whole { _mm512_loadu_ps(from) } else { _mm512_maskz_loadu_ps(mask, from) };
            let s = sigmoid(x);
            let s = if TIMES_X { _mm512_mul_ps(x, s) } else { s };
            if whole {
                _mm512_storeu_ps(to, s);
            } else {
                _mm512_mask_storeu_ps(to, mask, s);
            }
        }
    }
}

/// y = x·sigmoid(x·(α + β·x²)), as `math::gate`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn apply_gate(alpha: f32, beta: f32, x: &[f32], y: &mut [f32]) {
    let len = x.len().min(y.len());
    let squares = if beta == 0.0 { 0 } else { u16::MAX };
    let (alpha, beta) = (_mm512_set1_ps(alpha), _mm512_set1_ps(beta));
    for at in (0..len).step_by(16) {
        let mask = mask_512(len - at);
        // SAFETY: masked lanes are not touched, the others lie inside of both slices.
        unsafe {
            let x = _mm512_maskz_loadu_ps(mask, x[at..].as_ptr());
            let inner = _mm512_mul_ps(x, _mm512_fmadd_ps(beta, _mm512_maskz_mul_ps(squares, x, x), alpha));
            _mm512_mask_storeu_ps(y[at..].as_mut_ptr(), mask, _mm512_mul_ps(x, sigmoid(inner)));
        }
    }
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
