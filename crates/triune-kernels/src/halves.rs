//! Between f16 and f32, element by element: by the machine's own instruction where it has one, and with the same bits where not.

use bytemuck::{Pod, Zeroable};
use triune_tensor::half::{f16_of_f32, f32_of_f16};

use crate::dispatch::{Level, multiversion};
use crate::eltwise::{Run, combine};
use crate::{Broadcast, Error, Isa, Pool};

/// The bits of an f16.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The bits of a bf16.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct BF16(pub u16);

// SAFETY: a transparent u16, of which 0 is a value.
unsafe impl Zeroable for F16 {}
// SAFETY: a transparent u16, of which every pattern is a value.
unsafe impl Pod for F16 {}
// SAFETY: as above.
unsafe impl Zeroable for BF16 {}
// SAFETY: as above.
unsafe impl Pod for BF16 {}

multiversion! {
    fn widen_run(run: Run<'_, F16>, out: &mut [f32], stride: usize) {
        combine(run, out, stride, |x: F16, _| f32_of_f16(x.0));
    }
}

multiversion! {
    fn narrow_run(run: Run<'_, f32>, out: &mut [F16], stride: usize) {
        combine(run, out, stride, |x, _| F16(f16_of_f32(x)));
    }
}

/// out = x, over a nest whose second operand repeats x's first element.
///
/// Errors: slices shorter than the nest's spans.
pub fn f16_to_f32(isa: Isa, shape: &Broadcast, x: &[F16], out: &mut [f32], pool: &Pool) -> Result<(), Error> {
    let level = Level::new(isa);
    shape.runs(x, x, out, pool, &|run, out, stride| {
        #[cfg(target_arch = "x86_64")]
        if let Some(x) = run.dense_first(stride).filter(|_| x86::has_conversions(level)) {
            // SAFETY: just asked.
            return unsafe { x86::widen(x, out) };
        }
        widen_run(level, run, out, stride);
    })
}

/// out = x rounded to the nearest f16, halves to even, over a nest whose second operand repeats x's first element.
///
/// Errors: slices shorter than the nest's spans.
pub fn f32_to_f16(isa: Isa, shape: &Broadcast, x: &[f32], out: &mut [F16], pool: &Pool) -> Result<(), Error> {
    let level = Level::new(isa);
    shape.runs(x, x, out, pool, &|run, out, stride| {
        #[cfg(target_arch = "x86_64")]
        if let Some(x) = run.dense_first(stride).filter(|_| x86::has_conversions(level)) {
            // SAFETY: just asked.
            return unsafe { x86::narrow(x, out) };
        }
        narrow_run(level, run, out, stride);
    })
}

/// The conversions of F16C: they make quiet NaNs with the front of the payload and round halves to even, as the functions in
/// `triune_tensor::half` do.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };

    use super::{F16, f16_of_f32, f32_of_f16};
    use crate::Isa;
    use crate::dispatch::Level;

    /// Whether the machine converts halves, and may be asked to.
    pub(super) fn has_conversions(level: Level) -> bool {
        level.isa() >= Isa::Avx2 && std::arch::is_x86_feature_detected!("f16c")
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn widen(x: &[F16], out: &mut [f32]) {
        let ((x, x_rest), (out, out_rest)) = (x.as_chunks::<8>(), out.as_chunks_mut::<8>());
        for (x, out) in x.iter().zip(out) {
            // SAFETY: eight halves are 16 bytes, eight floats 32.
            unsafe {
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().cast())));
            };
        }
        for (x, out) in x_rest.iter().zip(out_rest) {
            *out = f32_of_f16(x.0);
        }
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn narrow(x: &[f32], out: &mut [F16]) {
        let ((x, x_rest), (out, out_rest)) = (x.as_chunks::<8>(), out.as_chunks_mut::<8>());
        for (x, out) in x.iter().zip(out) {
            // SAFETY: eight floats are 32 bytes, eight halves 16.
            unsafe {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(x.as_ptr()));
                _mm_storeu_si128(out.as_mut_ptr().cast(), halves);
            }
        }
        for (x, out) in x_rest.iter().zip(out_rest) {
            *out = F16(f16_of_f32(*x));
        }
    }
}
