//! What NEON lacks for the kernels of reals: loads and stores of a part of a vector, and comparisons that let a NaN pass.

use std::arch::aarch64::{
    float32x4_t, vbslq_f32, vceqq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32,
};

/// Asks for the line that a float lies in; any address will do.
#[inline]
pub(crate) fn fetch(at: *const f32) {
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
}

/// Four zeros.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn zero() -> float32x4_t {
    vdupq_n_f32(0.0)
}

/// x·y + sum, rounded once.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn fma(x: float32x4_t, y: float32x4_t, sum: float32x4_t) -> float32x4_t {
    vfmaq_f32(sum, x, y)
}

/// The larger; the second where either is NaN or both are equal.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn max(x: float32x4_t, y: float32x4_t) -> float32x4_t {
    vbslq_f32(vcgtq_f32(x, y), x, y)
}

/// The smaller; the second where either is NaN or both are equal.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn min(x: float32x4_t, y: float32x4_t) -> float32x4_t {
    vbslq_f32(vcltq_f32(x, y), x, y)
}

/// `x` where it is NaN, `other` elsewhere.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn or_nan(x: float32x4_t, other: float32x4_t) -> float32x4_t {
    vbslq_f32(vceqq_f32(x, x), other, x)
}

/// Lanes of the first `left` floats, as their number.
#[inline]
pub(crate) fn lanes(left: usize) -> usize {
    left.min(4)
}

/// The first `lanes` floats, zeros behind.
///
/// # Safety
/// So many can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) unsafe fn load_first(from: *const f32, lanes: usize) -> float32x4_t {
    let mut all = [0.0_f32; 4];
    // SAFETY: as promised by the caller; at most as many as there is room for.
    unsafe {
        all.as_mut_ptr().copy_from_nonoverlapping(from, lanes);
        vld1q_f32(all.as_ptr())
    }
}

/// Stores the first `lanes` floats.
///
/// # Safety
/// So many can be written.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) unsafe fn store_first(to: *mut f32, lanes: usize, x: float32x4_t) {
    let mut all = [0.0_f32; 4];
    // SAFETY: as promised by the caller; at most as many as there are.
    unsafe {
        vst1q_f32(all.as_mut_ptr(), x);
        to.copy_from_nonoverlapping(all.as_ptr(), lanes);
    }
}
