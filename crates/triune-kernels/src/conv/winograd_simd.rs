//! The additions of Winograd's filtering by vectors of channels, four by four in registers: one body, in the arithmetic of AVX2, AVX-512
//! and NEON, and of one float for the channels that no vector has.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{vaddq_f32, vld1q_f32, vst1q_f32, vsubq_f32};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm256_add_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps, _mm256_sub_ps, _mm512_add_ps,
    _mm512_loadu_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_sub_ps,
};

use super::winograd::POINTS;

macro_rules! transforms {
    ($windows:ident, $results:ident, $(#[$features:meta])* $lanes:literal, $zero:path, $load:path, $store:path, $add:path, $sub:path) => {
        /// V = Bᵀ·d·B of the channels `first..channels` that fill vectors; says where it ended.
        ///
        /// # Safety
        /// Behind each pixel's pointer `channels` floats can be read, behind `to` as many written, for each point `plane` floats on; the
        /// machine has the features.
        $(#[$features])*
        pub(super) unsafe fn $windows(
            pixels: &[*const f32; POINTS],
            first: usize,
            channels: usize,
            to: *mut f32,
            plane: usize,
        ) -> usize {
            let mut channel = first;
            while channels - channel >= $lanes {
                let mut t = [[$zero(); 4]; 4];
                // SAFETY: as promised by the caller.
                unsafe {
                    for column in 0..4 {
                        let [a, b, c, d] = [
                            $load(pixels[column].add(channel)),
                            $load(pixels[4 + column].add(channel)),
                            $load(pixels[8 + column].add(channel)),
                            $load(pixels[12 + column].add(channel)),
                        ];
                        t[0][column] = $sub(a, c);
                        t[1][column] = $add(b, c);
                        t[2][column] = $sub(c, b);
                        t[3][column] = $sub(b, d);
                    }
                    for (row, [a, b, c, d]) in t.into_iter().enumerate() {
                        let to = to.add(4 * row * plane + channel);
                        $store(to, $sub(a, c));
                        $store(to.add(plane), $add(b, c));
                        $store(to.add(2 * plane), $sub(c, b));
                        $store(to.add(3 * plane), $sub(b, d));
                    }
                }
                channel += $lanes;
            }
            channel
        }

        /// Y = Aᵀ·M·A of the channels `first..channels` that fill vectors, the results of a tile `row` floats apart; says where it ended,
        /// and whether all of them are finite.
        ///
        /// # Safety
        /// Behind `from` `channels` floats can be read for each point, `plane` floats on, behind `to` as many written for each result; the
        /// machine has the features.
        $(#[$features])*
        pub(super) unsafe fn $results(
            from: *const f32,
            plane: usize,
            first: usize,
            channels: usize,
            to: *mut f32,
            row: usize,
        ) -> (usize, bool) {
            let mut channel = first;
            // 0 while everything is finite: x − x is 0 or NaN.
            let mut strange = $zero();
            while channels - channel >= $lanes {
                let mut s = [[$zero(); 4]; 2];
                // SAFETY: as promised by the caller.
                unsafe {
                    for column in 0..4 {
                        let from = from.add(column * plane + channel);
                        let [a, b, c, d] = [
                            $load(from),
                            $load(from.add(4 * plane)),
                            $load(from.add(8 * plane)),
                            $load(from.add(12 * plane)),
                        ];
                        s[0][column] = $add($add(a, b), c);
                        s[1][column] = $sub($sub(b, c), d);
                    }
                    for (line, [a, b, c, d]) in s.into_iter().enumerate() {
                        let (left, right) = ($add($add(a, b), c), $sub($sub(b, c), d));
                        let to = to.add(2 * line * row + channel);
                        $store(to, left);
                        $store(to.add(row), right);
                        strange = $add(strange, $add($sub(left, left), $sub(right, right)));
                    }
                }
                channel += $lanes;
            }
            let mut lanes = [0.0f32; $lanes];
            // SAFETY: one vector.
            unsafe { $store(lanes.as_mut_ptr(), strange) };
            (channel, lanes.iter().all(|&lane| lane == 0.0))
        }
    };
}

/// A vector of one float.
mod single {
    pub(super) fn zero() -> f32 {
        0.0
    }

    /// # Safety
    /// The float can be read.
    pub(super) unsafe fn load(from: *const f32) -> f32 {
        // SAFETY: as promised by the caller.
        unsafe { *from }
    }

    /// # Safety
    /// The float can be written.
    pub(super) unsafe fn store(to: *mut f32, x: f32) {
        // SAFETY: as promised by the caller.
        unsafe { *to = x }
    }

    pub(super) fn add(x: f32, y: f32) -> f32 {
        x + y
    }

    pub(super) fn sub(x: f32, y: f32) -> f32 {
        x - y
    }
}

transforms!(
    windows_scalar,
    results_scalar,
    1,
    single::zero,
    single::load,
    single::store,
    single::add,
    single::sub
);
#[cfg(target_arch = "x86_64")]
transforms!(
    windows_avx512,
    results_avx512,
    #[target_feature(enable = "avx512f")]
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_sub_ps
);
#[cfg(target_arch = "x86_64")]
transforms!(
    windows_avx2,
    results_avx2,
    #[target_feature(enable = "avx2,fma")]
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_sub_ps
);
#[cfg(target_arch = "aarch64")]
transforms!(
    windows_neon,
    results_neon,
    #[target_feature(enable = "neon")]
    4,
    crate::arch::neon::zero,
    vld1q_f32,
    vst1q_f32,
    vaddq_f32,
    vsubq_f32
);
