//! Reals of 16 bits: as f32, exactly, and the nearest one of an f32 or f64. Without a branch: compilers make vectors of it.

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

/// The bits of the nearest f16, halves to even; infinite from 65,520 on; a NaN becomes a quiet one with the front of its payload.
#[inline(always)]
pub fn f16_of_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // Half a step, less one where the last digit that stays is even; digits that carry raise the exponent, up to infinity.
    let odd = magnitude >> SHIFT & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + odd) >> SHIFT;
    // Added to ½, an f32 has steps of 2⁻²⁴, as subnormal f16 do.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let special = if magnitude > INFINITY { 0x7e00 | magnitude >> SHIFT & 0x03ff } else { 0x7c00 };
    let finite = if magnitude < LEAST_NORMAL { subnormal } else { normal };
    (sign | if magnitude >= 0x4780_0000 { special } else { finite }) as u16
}

/// The bits of the nearest bf16, halves to even; a NaN becomes a quiet one with the front of its payload.
#[inline(always)]
pub fn bf16_of_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    let odd = bits >> 16 & 1;
    // Digits that carry raise the exponent, up to infinity.
    let nearest = bits.wrapping_add(0x7fff + odd);
    (if bits & !(1 << 31) > INFINITY { bits | QUIET } else { nearest } >> 16) as u16
}

/// As [`f16_of_f32`], of an f64: rounded once.
#[inline(always)]
pub fn f16_of_f64(x: f64) -> u16 {
    f16_of_f32(odd(x))
}

/// As [`bf16_of_f32`], of an f64: rounded once.
#[inline(always)]
pub fn bf16_of_f64(x: f64) -> u16 {
    bf16_of_f32(odd(x))
}

/// An f64 as the f32 next to it towards 0, with a last digit of 1 if that is not exact: a number with two digits more than it needs
/// is rounded to the same one then that the f64 would be.
#[inline(always)]
fn odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let towards_zero = near.to_bits() - u32::from(back.abs() > x.abs());
    let bits = x.to_bits();
    let nan = (bits >> 32) as u32 & 1 << 31 | INFINITY | QUIET | (bits >> 29) as u32 & 0x007f_ffff;
    f32::from_bits(if x.is_nan() { nan } else { towards_zero | u32::from(back != x) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    /// Every f16 or bf16 that is a number, what lies in the middle between it and the next, and what lies one step of f32 or f64
    /// beside both: `of_f32` and `of_f64` give what the type says that it holds.
    fn rounds_to_nearest(dtype: DType, infinity: u16, of_f32: fn(f32) -> u16, of_f64: fn(f64) -> u16) {
        let number = |bits| dtype.decode(bits).expect("a real");
        for bits in 0..infinity {
            let (own, next) = (number(bits), number(bits + 1));
            // Infinity is rounded to as the number would be that came next.
            let next = if next.is_finite() { next } else { own + (own - number(bits - 1)) };
            let middle = own.midpoint(next);
            for x in [own, middle] {
                let near = [x as f32, (x as f32).next_up(), (x as f32).next_down()].map(f64::from);
                for x in near.into_iter().chain([x, x.next_up(), x.next_down()]).flat_map(|x| [x, -x]) {
                    let nearest = dtype.encode(x).expect("a real");
                    assert_eq!(of_f64(x), nearest, "{dtype} {x:e}");
                    if f64::from(x as f32) == x {
                        assert_eq!(of_f32(x as f32), nearest, "{dtype} {x:e}");
                    }
                }
            }
        }
        for x in [f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::from(f32::MAX), 1e-300].map(|x| [x, -x]) {
            for x in x {
                assert_eq!(of_f64(x), dtype.encode(x).expect("a real"), "{dtype} {x:e}");
            }
        }
    }

    #[test]
    fn numbers_become_the_nearest_half() {
        rounds_to_nearest(DType::F16, 0x7c00, f16_of_f32, f16_of_f64);
        rounds_to_nearest(DType::BF16, 0x7f80, bf16_of_f32, bf16_of_f64);
    }

    #[test]
    fn a_nan_stays_one_with_its_sign_and_the_front_of_its_payload() {
        for sign in [0_u16, 0x8000] {
            let f32_of = |payload: u32| f32::from_bits(u32::from(sign) << 16 | INFINITY | payload);
            let f64_of = |payload: u64| f64::from_bits(u64::from(sign) << 48 | 0x7ff << 52 | payload);
            assert_eq!(f16_of_f32(f32_of(1)), sign | 0x7e00);
            assert_eq!(f16_of_f32(f32_of(0x0012_3456)), sign | 0x7e00 | 0x0091);
            assert_eq!(bf16_of_f32(f32_of(1)), sign | 0x7fc0);
            assert_eq!(bf16_of_f32(f32_of(0x0012_3456)), sign | 0x7fc0 | 0x0012);
            assert_eq!(f16_of_f64(f64_of(1)), sign | 0x7e00);
            assert_eq!(f16_of_f64(f64_of(0x0012_3456 << 29)), sign | 0x7e00 | 0x0091);
            assert_eq!(bf16_of_f64(f64_of(1)), sign | 0x7fc0);
            assert_eq!(bf16_of_f64(f64_of(0x0012_3456 << 29)), sign | 0x7fc0 | 0x0012);
        }
    }

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
