//! Between f16 and f32, element by element, without a branch: compiled for vectors where the machine has them, and with the same
//! bits where not.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use half::f16;
use triune_tensor::half::f32_of_f16;

use crate::dispatch::{Level, multiversion};
use crate::eltwise::{Run, combine};
use crate::{Broadcast, Error, Isa, Pool};

/// Bits of f32's fraction that f16 does not have.
const SHIFT: u32 = 13;
/// The least normal f16, 2⁻¹⁴, as an f32.
const LEAST_NORMAL: u32 = 0x3880_0000;
/// f32's exponent of all ones.
const INFINITY: u32 = 0x7f80_0000;

/// The nearest f16, halves to even; infinite from 65,520 on; a NaN becomes a quiet one with the front of its payload.
#[inline(always)]
fn narrowed(x: f32) -> f16 {
    let bits = x.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // Half a step, less one where the last digit that stays is even; digits that carry raise the exponent, up to infinity.
    let odd = magnitude >> SHIFT & 1;
    let normal = (magnitude.wrapping_sub(112 << 23) + 0x0fff + odd) >> SHIFT;
    // Added to ½, an f32 has steps of 2⁻²⁴, as subnormal f16 do.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let special = if magnitude > INFINITY { 0x7e00 | magnitude >> SHIFT & 0x03ff } else { 0x7c00 };
    let finite = if magnitude < LEAST_NORMAL { subnormal } else { normal };
    f16::from_bits((sign | if magnitude >= 0x4780_0000 { special } else { finite }) as u16)
}

multiversion! {
    fn widen_run(run: Run<'_, f16>, out: &mut [f32], stride: usize) {
        combine(run, out, stride, |x: f16, _| f32_of_f16(x.to_bits()));
    }
}

multiversion! {
    fn narrow_run(run: Run<'_, f32>, out: &mut [f16], stride: usize) {
        combine(run, out, stride, |x, _| narrowed(x));
    }
}

/// out = x, over a nest whose second operand repeats x's first element.
///
/// Errors: slices shorter than the nest's spans.
pub fn floats_of_halves(
    isa: Isa,
    shape: &Broadcast,
    x: &[f16],
    out: &mut [f32],
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    shape.runs(x, x, out, pool, &|run, out, stride| widen_run(level, run, out, stride))
}

/// out = x rounded to the nearest f16, halves to even, over a nest whose second operand repeats x's first element.
///
/// Errors: slices shorter than the nest's spans.
pub fn halves_of_floats(
    isa: Isa,
    shape: &Broadcast,
    x: &[f32],
    out: &mut [f16],
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    shape.runs(x, x, out, pool, &|run, out, stride| narrow_run(level, run, out, stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_round_to_the_nearest_half() {
        // Every f16, its neighbours' middles, and what lies one step of f32 beside them.
        for bits in 0..0x7c01_u32 {
            let [own, next] = [bits, (bits + 1).min(0x7c00)].map(|bits| f16::from_bits(bits as u16).to_f64());
            let middle = own.midpoint(next);
            let middle = if middle.is_finite() { middle as f32 } else { 65_520.0 };
            for x in [f16::from_bits(bits as u16).to_f32(), middle, middle.next_up(), middle.next_down()] {
                for x in [x, -x] {
                    assert_eq!(narrowed(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
                }
            }
        }
        let mut x = 0_u32;
        while let Some(next) = x.checked_add(65_521) {
            x = next;
            let x = f32::from_bits(x);
            assert_eq!(narrowed(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
        }
    }
}
