//! 8-bit vector operations in NEON, with the dot product (signed bytes in `sdot`) or without (i16 in `smlal`).
//!
//! Dot products of unsigned by signed bytes are an extension that fewer machines have, so activations are made signed.
#![expect(clippy::inline_always, reason = "operations must be inlined where the instruction set is enabled")]
#![cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "intrinsics name themselves"))]

use std::arch::aarch64::*;
use std::arch::asm;

use crate::{
    arch::int8::{Dot, GemmKernel, Int8, Narrow, Sum, SumsKernel},
    conv::{Block, DepthwiseJob, GemmJob, depthwise_row, gemm_block, gemm_tile},
    imatmul::{self, sums_block},
};

/// NEON; with the dot product if the parameter says so.
pub(crate) struct Neon<const DOT: bool>;

/// The nearest integers; halves to even, or away from zero.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
unsafe fn round(x: float32x4_t, away: bool) -> int32x4_t {
    // SAFETY: the caller's contract.
    unsafe { if away { vcvtaq_s32_f32(x) } else { vcvtnq_s32_f32(x) } }
}

/// The function for a number of rows and panels out of [`Int8::ROWS`].
macro_rules! table {
    ($rows:expr, $panels:expr, if $dot:ident { $with:ident } else { $without:ident }) => {
        table!(@ $rows, $panels, $dot, $with, $without,
            (1, 16) (1, 8) (1, 4) (1, 2) (1, 1)
            (2, 12) (2, 8) (2, 4) (2, 2) (2, 1)
            (3, 8) (3, 4) (3, 2) (3, 1)
            (4, 6) (4, 4) (4, 2) (4, 1))
    };
    (@ $rows:expr, $panels:expr, $dot:ident, $with:ident, $without:ident, $(($nv:literal, $mr:literal))*) => {
        match ($rows, $panels) {
            $(($mr, $nv) => if $dot { $with::<$mr, $nv> } else { $without::<$mr, $nv> },)*
            (rows, panels) => unreachable!("no kernel for {rows} rows and {panels} panels"),
        }
    };
}

impl<const DOT: bool> Dot for Neon<DOT> {
    type V = int32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(p: *const i32) -> int32x4_t {
        // SAFETY: the trait's contract.
        unsafe { vld1q_s32(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut i32, v: int32x4_t) {
        // SAFETY: the trait's contract.
        unsafe { vst1q_s32(p, v) }
    }

    #[inline(always)]
    unsafe fn splat(p: *const u8) -> int32x4_t {
        // SAFETY: the trait's contract.
        unsafe { vdupq_n_s32(p.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, activations: int32x4_t, weights: int32x4_t) -> int32x4_t {
        if DOT {
            let mut sum = sum;
            // SAFETY: the trait's contract; the instruction works on registers alone.
            unsafe {
                asm!(
                    ".arch_extension dotprod",
                    "sdot {sum:v}.4s, {a:v}.16b, {w:v}.16b",
                    sum = inlateout(vreg) sum,
                    a = in(vreg) activations,
                    w = in(vreg) weights,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            return sum;
        }
        // SAFETY: the trait's contract. The lower and the upper half of each lane are elements of their own.
        unsafe {
            let (a_low, w_low) = (vmovn_s32(activations), vmovn_s32(weights));
            let (a_high, w_high) = (vshrn_n_s32::<16>(activations), vshrn_n_s32::<16>(weights));
            vmlal_s16(vmlal_s16(sum, a_low, w_low), a_high, w_high)
        }
    }
}

impl<const DOT: bool> Int8 for Neon<DOT> {
    type B = uint8x16_t;
    const WIDTH: usize = if DOT { 1 } else { 2 };
    const SIGNED: bool = DOT;
    const ROWS: &'static [&'static [usize]] =
        &[&[16, 8, 4, 2, 1], &[12, 8, 4, 2, 1], &[8, 4, 2, 1], &[6, 4, 2, 1]];
    const PIXELS: usize = 4;

    fn kernel(rows: usize, panels: usize) -> GemmKernel {
        table!(rows, panels, if DOT { block_dot } else { block_neon })
    }

    #[inline(always)]
    unsafe fn scale(sum: int32x4_t, multiplier: *const f32, high: f32, away: bool) -> int32x4_t {
        // SAFETY: the trait's contract. Conversion saturates.
        unsafe {
            let scaled = vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(multiplier));
            round(vminnmq_f32(scaled, vdupq_n_f32(high)), away)
        }
    }

    #[inline(always)]
    unsafe fn pack(v: [int32x4_t; 4], narrow: Narrow) -> uint8x16_t {
        // SAFETY: the trait's contract.
        unsafe {
            let zero_point = vreinterpretq_s16_s32(vdupq_n_s32(narrow.zero_point));
            let left = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(v[0]), v[1]), zero_point);
            let right = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(v[2]), v[3]), zero_point);
            let bytes = vqmovn_high_s16(vqmovn_s16(left), right);
            let bytes = vmaxq_s8(bytes, vreinterpretq_s8_s32(vdupq_n_s32(narrow.low)));
            let bytes = vminq_s8(bytes, vreinterpretq_s8_s32(vdupq_n_s32(narrow.high)));
            Self::flip(vreinterpretq_u8_s8(bytes), narrow.flip)
        }
    }

    #[inline(always)]
    unsafe fn pack_interleaved(v: [int32x4_t; 4], narrow: Narrow) -> uint8x16_t {
        // SAFETY: passed on; a vector has one part, in which nothing changes places.
        unsafe { Self::pack(v, narrow) }
    }

    #[inline(always)]
    unsafe fn widen(bytes: uint8x16_t, signed: bool) -> [int32x4_t; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            if signed {
                let bytes = vreinterpretq_s8_u8(bytes);
                let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
                [
                    vmovl_s16(vget_low_s16(low)),
                    vmovl_high_s16(low),
                    vmovl_s16(vget_low_s16(high)),
                    vmovl_high_s16(high),
                ]
            } else {
                let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
                [
                    vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                    vreinterpretq_s32_u32(vmovl_high_u16(low)),
                    vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                    vreinterpretq_s32_u32(vmovl_high_u16(high)),
                ]
            }
        }
    }

    #[inline(always)]
    unsafe fn load_widen(p: *const u8, n: usize, signed: bool) -> int32x4_t {
        // SAFETY: the trait's contract.
        unsafe {
            let mut bytes = [0_u8; 4];
            if n >= 4 {
                p.copy_to_nonoverlapping(bytes.as_mut_ptr(), 4);
            } else {
                p.copy_to_nonoverlapping(bytes.as_mut_ptr(), n);
            }
            let bytes = vreinterpretq_u8_u32(vdupq_n_u32(u32::from_le_bytes(bytes)));
            Self::widen(bytes, signed)[0]
        }
    }

    #[inline(always)]
    unsafe fn raise(v: int32x4_t, low: i32, offset: i32) -> int32x4_t {
        // SAFETY: the trait's contract.
        unsafe { vaddq_s32(vmaxq_s32(v, vdupq_n_s32(low)), vdupq_n_s32(offset)) }
    }

    #[inline(always)]
    unsafe fn sum(a: int32x4_t, b: int32x4_t, sum: &Sum) -> int32x4_t {
        // SAFETY: the trait's contract. Conversion saturates.
        unsafe {
            let (a, b) = (vcvtq_f32_s32(a), vcvtq_f32_s32(b));
            let inner = vfmaq_f32(vdupq_n_f32(sum.k), b, vdupq_n_f32(sum.rb));
            let outer = vfmaq_f32(inner, a, vdupq_n_f32(sum.ra));
            round(vminnmq_f32(outer, vdupq_n_f32(sum.high)), sum.away)
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8, n: usize) -> uint8x16_t {
        // SAFETY: the trait's contract.
        unsafe {
            if n >= 16 {
                return vld1q_u8(p);
            }
            let mut bytes = [0_u8; 16];
            p.copy_to_nonoverlapping(bytes.as_mut_ptr(), n);
            vld1q_u8(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(p: *mut u8, bytes: uint8x16_t, n: usize) {
        // SAFETY: the trait's contract.
        unsafe {
            if n >= 16 {
                vst1q_u8(p, bytes);
            } else {
                let mut all = [0_u8; 16];
                vst1q_u8(all.as_mut_ptr(), bytes);
                p.copy_from_nonoverlapping(all.as_ptr(), n);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_chunks(to: [*mut u8; 4], bytes: uint8x16_t, n: [usize; 4]) {
        // SAFETY: the trait's contract.
        unsafe {
            let mut all = [0_u8; 16];
            vst1q_u8(all.as_mut_ptr(), bytes);
            for (j, chunk) in all.as_chunks::<4>().0.iter().enumerate() {
                if n[j] >= 4 {
                    to[j].copy_from_nonoverlapping(chunk.as_ptr(), 4);
                } else {
                    to[j].copy_from_nonoverlapping(chunk.as_ptr(), n[j]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn flip(bytes: uint8x16_t, flip: i32) -> uint8x16_t {
        // SAFETY: the trait's contract.
        unsafe { veorq_u8(bytes, vreinterpretq_u8_s32(vdupq_n_s32(flip))) }
    }

    #[inline(always)]
    unsafe fn interleave(rows: [uint8x16_t; 4]) -> [int32x4_t; 8] {
        // SAFETY: the trait's contract.
        unsafe {
            let (low01, high01) = (vzip1q_u8(rows[0], rows[1]), vzip2q_u8(rows[0], rows[1]));
            let (low23, high23) = (vzip1q_u8(rows[2], rows[3]), vzip2q_u8(rows[2], rows[3]));
            if DOT {
                let pairs = vreinterpretq_u16_u8;
                let (low01, high01) = (pairs(low01), pairs(high01));
                let (low23, high23) = (pairs(low23), pairs(high23));
                let none = vdupq_n_s32(0);
                [
                    vreinterpretq_s32_u16(vzip1q_u16(low01, low23)),
                    vreinterpretq_s32_u16(vzip2q_u16(low01, low23)),
                    vreinterpretq_s32_u16(vzip1q_u16(high01, high23)),
                    vreinterpretq_s32_u16(vzip2q_u16(high01, high23)),
                    none,
                    none,
                    none,
                    none,
                ]
            } else {
                let words = vreinterpretq_s32_u16;
                [
                    words(vmovl_u8(vget_low_u8(low01))),
                    words(vmovl_high_u8(low01)),
                    words(vmovl_u8(vget_low_u8(high01))),
                    words(vmovl_high_u8(high01)),
                    words(vmovl_u8(vget_low_u8(low23))),
                    words(vmovl_high_u8(low23)),
                    words(vmovl_u8(vget_low_u8(high23))),
                    words(vmovl_high_u8(high23)),
                ]
            }
        }
    }

    #[inline(always)]
    unsafe fn dot4(mut sum: [int32x4_t; 4], rows: [int32x4_t; 8], weights: *const u8) -> [int32x4_t; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            for j in 0..4 {
                sum[j] = Self::dot(sum[j], rows[j], Self::load(weights.add(16 * j).cast()));
                if !DOT {
                    sum[j] = Self::dot(sum[j], rows[4 + j], Self::load(weights.add(64 + 16 * j).cast()));
                }
            }
        }
        sum
    }

    #[inline(always)]
    unsafe fn pack_activations(to: *mut u8, from: *const u8, n: usize, flip: u8) {
        // SAFETY: the trait's contract; a vector that would read past the end starts earlier instead.
        unsafe {
            let mask = vdupq_n_u8(flip);
            if n < 8 {
                for i in 0..n {
                    let byte = *from.add(i) ^ flip;
                    if DOT {
                        to.add(i).write(byte);
                    } else {
                        to.add(2 * i).cast::<u16>().write_unaligned(u16::from(byte));
                    }
                }
                return;
            }
            let step = if n < 16 { 8 } else { 16 };
            let mut at = 0;
            while at < n {
                let start = at.min(n - step);
                let to = to.add(Self::WIDTH * start);
                if step == 8 {
                    let bytes = veor_u8(vld1_u8(from.add(start)), vget_low_u8(mask));
                    if DOT {
                        vst1_u8(to, bytes);
                    } else {
                        vst1q_u8(to, vreinterpretq_u8_u16(vmovl_u8(bytes)));
                    }
                } else {
                    let bytes = veorq_u8(vld1q_u8(from.add(start)), mask);
                    if DOT {
                        vst1q_u8(to, bytes);
                    } else {
                        vst1q_u8(to, vreinterpretq_u8_u16(vmovl_u8(vget_low_u8(bytes))));
                        vst1q_u8(to.add(16), vreinterpretq_u8_u16(vmovl_high_u8(bytes)));
                    }
                }
                at += step;
            }
        }
    }

    #[inline(always)]
    unsafe fn fill_activations(to: *mut u8, value: u8, n: usize) {
        // SAFETY: the trait's contract.
        unsafe {
            let value =
                if DOT { vdupq_n_u8(value) } else { vreinterpretq_u8_u16(vdupq_n_u16(u16::from(value))) };
            let mut at = 0;
            while at < Self::WIDTH * n {
                vst1q_u8(to.add(at), value);
                at += 16;
            }
        }
    }
}

#[target_feature(enable = "neon")]
unsafe fn block_neon<const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { gemm_block::<Neon<false>, MR, NV>(block) }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn block_dot<const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe { gemm_block::<Neon<true>, MR, NV>(block) }
}

/// The kernel that only sums, for rows and panels out of [`Int8::ROWS`].
pub(crate) fn sums<const DOT: bool>(rows: usize, panels: usize) -> SumsKernel {
    table!(rows, panels, if DOT { sums_dot } else { sums_neon })
}

#[target_feature(enable = "neon")]
unsafe fn sums_neon<const MR: usize, const NV: usize>(block: &imatmul::Block) {
    // SAFETY: the caller's contract.
    unsafe { sums_block::<Neon<false>, MR, NV>(block) }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn sums_dot<const MR: usize, const NV: usize>(block: &imatmul::Block) {
    // SAFETY: the caller's contract.
    unsafe { sums_block::<Neon<true>, MR, NV>(block) }
}

/// # Safety
/// The CPU has NEON, and [`gemm_tile`]'s terms.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn tile_neon(job: &GemmJob<'_>, task: usize, worker: usize) {
    // SAFETY: the caller's contract.
    unsafe { gemm_tile::<Neon<false>>(job, task, worker) }
}

/// # Safety
/// The CPU has NEON with the dot product, and [`gemm_tile`]'s terms.
#[target_feature(enable = "neon,dotprod")]
pub(crate) unsafe fn tile_dot(job: &GemmJob<'_>, task: usize, worker: usize) {
    // SAFETY: the caller's contract.
    unsafe { gemm_tile::<Neon<true>>(job, task, worker) }
}

/// # Safety
/// The CPU has NEON, and [`depthwise_row`]'s terms.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn row_neon(job: &DepthwiseJob<'_>, task: usize) {
    // SAFETY: the caller's contract.
    unsafe { depthwise_row::<Neon<false>>(job, task) }
}

/// # Safety
/// The CPU has NEON with the dot product, and [`depthwise_row`]'s terms.
#[target_feature(enable = "neon,dotprod")]
pub(crate) unsafe fn row_dot(job: &DepthwiseJob<'_>, task: usize) {
    // SAFETY: the caller's contract.
    unsafe { depthwise_row::<Neon<true>>(job, task) }
}
