//! Between f16 and f32, element by element, without a branch: compiled for vectors where the machine has them, and with the same
//! bits where not.

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
    shape.runs(x, x, out, pool, &|run, out, stride| widen_run(level, run, out, stride))
}

/// out = x rounded to the nearest f16, halves to even, over a nest whose second operand repeats x's first element.
///
/// Errors: slices shorter than the nest's spans.
pub fn f32_to_f16(isa: Isa, shape: &Broadcast, x: &[f32], out: &mut [F16], pool: &Pool) -> Result<(), Error> {
    let level = Level::new(isa);
    shape.runs(x, x, out, pool, &|run, out, stride| narrow_run(level, run, out, stride))
}
