//! Reals of 16 bits as f32, exactly and without a branch: compilers make vectors of it.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

/// Bits of f32's fraction that f16 does not have.
const SHIFT: u32 = 13;
/// The least normal f16, 2⁻¹⁴, as an f32.
const LEAST_NORMAL: u32 = 0x3880_0000;
/// f32's exponent of all ones.
const INFINITY: u32 = 0x7f80_0000;
/// What makes an f32 that is no number a quiet one.
const QUIET: u32 = 0x0040_0000;

/// The number that the bits of an f16 stand for; a NaN becomes a quiet one with its payload.
#[inline(always)]
pub fn f32_of_f16(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    let normal = (magnitude << SHIFT) + (112 << 23);
    // A subnormal one counts steps of 2⁻²⁴: put behind the leading digit of 2⁻¹⁴, which is taken off again.
    let subnormal =
        (f32::from_bits((magnitude << SHIFT) + LEAST_NORMAL) - f32::from_bits(LEAST_NORMAL)).to_bits();
    let quiet = if magnitude > 0x7c00 { QUIET } else { 0 };
    let special = INFINITY | magnitude << SHIFT | quiet;
    let finite = if magnitude < 0x0400 { subnormal } else { normal };
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
}

/// The number that the bits of a bf16 stand for; a NaN becomes a quiet one with its payload.
#[inline(always)]
pub fn f32_of_bf16(bits: u16) -> f32 {
    let wide = u32::from(bits) << 16;
    f32::from_bits(if wide & !(1 << 31) > INFINITY { wide | QUIET } else { wide })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn every_pattern_is_its_number() {
        for (dtype, widened) in
            [(DType::F16, f32_of_f16 as fn(u16) -> f32), (DType::BF16, f32_of_bf16 as fn(u16) -> f32)]
        {
            for bits in 0..=u16::MAX {
                let (number, wide) = (dtype.decode(bits).expect("a real"), widened(bits));
                if number.is_nan() {
                    let (top, payload) = (u32::from(bits >> 15) << 31 | INFINITY | QUIET, wide.to_bits());
                    assert!(wide.is_nan() && payload & top == top, "{dtype} {bits:#06x}");
                } else {
                    assert_eq!(f64::from(wide).to_bits(), number.to_bits(), "{dtype} {bits:#06x}");
                }
            }
        }
    }
}
