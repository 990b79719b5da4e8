//! Reals of few bits: what each pattern stands for, and the pattern next to a real. Everything follows from how many bits a type
//! has for the exponent and the fraction, and which of its largest patterns are no numbers.

use crate::DType;

/// The layout of a type of reals that are not wider than 16 bits.
#[derive(Clone, Copy)]
struct Format {
    /// Bits of the fraction.
    fraction: u32,
    /// What the exponent is counted from.
    bias: i32,
    /// The pattern of the largest real.
    largest: u16,
    /// What stands for everything beyond, and for no number.
    beyond: u16,
    nan: u16,
    /// The sign's bit.
    sign: u16,
    /// Whether no number takes the pattern of −0, and has no sign.
    unsigned_zero: bool,
}

impl Format {
    /// `None` for types that are not made so.
    const fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F16 => Self::ieee(5, 10),
            DType::BF16 => Self::ieee(8, 7),
            DType::F8E5M2 => Self::ieee(5, 2),
            DType::F8E4M3FN => Self {
                fraction: 3,
                bias: 7,
                largest: 0x7e,
                beyond: 0x7f,
                nan: 0x7f,
                sign: 0x80,
                unsigned_zero: false,
            },
            DType::F8E4M3FNUZ => Self::one_nan(3, 8),
            DType::F8E5M2FNUZ => Self::one_nan(2, 16),
            DType::F4E2M1 => Self {
                fraction: 1,
                bias: 1,
                largest: 7,
                beyond: 7,
                // It has none: −0, as its other implementations have it.
                nan: 8,
                sign: 8,
                unsigned_zero: false,
            },
            _ => return None,
        })
    }

    /// As IEEE 754 has them.
    const fn ieee(exponent: u32, fraction: u32) -> Self {
        let infinity = ((1 << exponent) - 1) << fraction;
        Self {
            fraction,
            bias: (1 << (exponent - 1)) - 1,
            largest: infinity - 1,
            beyond: infinity,
            nan: infinity | 1 << (fraction - 1),
            sign: 1 << (exponent + fraction),
            unsigned_zero: false,
        }
    }

    /// Eight bits of which one pattern, that of −0, is no number.
    const fn one_nan(fraction: u32, bias: i32) -> Self {
        Self { fraction, bias, largest: 0x7f, beyond: 0x80, nan: 0x80, sign: 0x80, unsigned_zero: true }
    }

    fn decode(self, bits: u16) -> f64 {
        let magnitude = bits & (self.sign - 1);
        let negative = bits & self.sign != 0;
        if self.unsigned_zero && bits == self.nan {
            return f64::NAN;
        }
        if magnitude > self.largest {
            let infinite = magnitude == self.beyond && self.beyond != self.nan;
            return match (infinite, negative) {
                (true, false) => f64::INFINITY,
                (true, true) => f64::NEG_INFINITY,
                (false, _) => f64::NAN,
            };
        }
        let exponent = i32::from(magnitude >> self.fraction);
        let fraction = i32::from(magnitude & ((1 << self.fraction) - 1));
        let (whole, exponent) =
            if exponent == 0 { (fraction, 1) } else { (fraction + (1 << self.fraction), exponent) };
        let value = f64::from(whole) * power_of_two(exponent - self.bias - self.fraction as i32);
        if negative { -value } else { value }
    }

    /// The nearest real, half to even.
    fn encode(self, value: f64) -> u16 {
        if value.is_nan() {
            // The sign stays where no number has one.
            let sign = if self.unsigned_zero || self.nan & self.sign != 0 || !value.is_sign_negative() {
                0
            } else {
                self.sign
            };
            return self.nan | sign;
        }
        let magnitude = value.abs();
        // Of the real's binade, or of the smallest reals.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias);
        let steps = (magnitude * power_of_two(self.fraction as i32 - exponent)).round_ties_even();
        // Reals of a binade have the bit above the fraction's; it adds itself to the exponent, as one that rounding made does.
        let pattern = (i64::from(exponent + self.bias - 1) << self.fraction).saturating_add(steps as i64);
        let pattern = if steps.is_finite() && pattern <= i64::from(self.largest) {
            pattern as u16
        } else {
            self.beyond
        };
        let negative = value.is_sign_negative() && !(self.unsigned_zero && matches!(pattern, 0 | 0x80));
        pattern | if negative { self.sign } else { 0 }
    }
}

/// 2ⁿ for the exponents that these types have, and those of what they are made of.
fn power_of_two(exponent: i32) -> f64 {
    if (-1022..=1023).contains(&exponent) {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else {
        2_f64.powi(exponent)
    }
}

/// Powers of two, 2⁻¹²⁷ to 2¹²⁷: the exponent of an f32.
fn decode_power(bits: u16) -> f64 {
    if bits & 0xff == 0xff { f64::NAN } else { power_of_two(i32::from(bits & 0xff) - 127) }
}

/// The next power of two that is not below the magnitude, as an f32 has it; no number if there is none. What is below the normal
/// ones of f32 and not 0 becomes the smallest of those, as ONNX has it.
fn encode_power(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    let (exponent, fraction) = ((bits >> 23 & 0xff) as u16, bits & 0x7f_ffff);
    if exponent == 0xff { exponent } else { exponent + u16::from(fraction != 0) }
}

impl DType {
    /// What a pattern of a type of reals of up to 16 bits stands for; `None` for other types.
    pub fn decode(self, bits: u16) -> Option<f64> {
        match self {
            Self::F8E8M0 => Some(decode_power(bits)),
            _ => Format::of(self).map(|format| format.decode(bits)),
        }
    }

    /// The pattern of the real next to a value, half to even, of a type of reals of up to 16 bits; `None` for other types.
    ///
    /// Beyond the largest one lies infinity, or what is no number where there is no infinity; of four bits, the largest one itself.
    /// Powers of two (`F8E8M0`) have no sign, and are those next above.
    pub fn encode(self, value: f64) -> Option<u16> {
        match self {
            Self::F8E8M0 => Some(encode_power(value)),
            _ => Format::of(self).map(|format| format.encode(value)),
        }
    }

    /// The integer in the low bits of a byte, of a type of integers of fewer than 8 bits; `None` for other types.
    pub const fn decode_integer(self, byte: u8) -> Option<i64> {
        Some(match self {
            Self::U4 => (byte & 0xf) as i64,
            Self::I4 => ((byte << 4).cast_signed() >> 4) as i64,
            Self::U2 => (byte & 3) as i64,
            Self::I2 => ((byte << 6).cast_signed() >> 6) as i64,
            _ => return None,
        })
    }

    /// The largest real of a type of up to 16 bits; `None` for other types.
    pub fn largest(self) -> Option<f64> {
        match self {
            Self::F8E8M0 => Some(decode_power(0xfe)),
            _ => Format::of(self).map(|format| format.decode(format.largest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [DType; 8] = [
        DType::F16,
        DType::BF16,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
        DType::F8E8M0,
        DType::F4E2M1,
    ];

    fn patterns(dtype: DType) -> std::ops::RangeInclusive<u16> {
        match dtype {
            DType::F16 | DType::BF16 => 0..=u16::MAX,
            DType::F4E2M1 => 0..=0xf,
            _ => 0..=0xff,
        }
    }

    #[test]
    fn every_number_is_its_own_neighbour() {
        for dtype in TYPES {
            for bits in patterns(dtype) {
                let value = dtype.decode(bits).unwrap();
                // The smallest power of two is no normal f32, of which exponents are taken.
                if !value.is_nan() && (dtype, bits) != (DType::F8E8M0, 0) {
                    assert_eq!(dtype.encode(value), Some(bits), "{dtype} {bits:#x} {value}");
                }
            }
        }
    }

    #[test]
    fn the_nearest_number_is_found_among_all() {
        for dtype in TYPES.into_iter().filter(|dtype| *dtype != DType::F8E8M0 && dtype.bytes() == 1) {
            let all: Vec<(f64, u16)> = patterns(dtype)
                .map(|bits| (dtype.decode(bits).unwrap(), bits))
                .filter(|(value, _)| value.is_finite())
                .collect();
            let largest = dtype.largest().unwrap();
            for step in -4000..=4000 {
                // Ties among them: most types have quarters and eighths here.
                let value = f64::from(step) / 4000.0 * largest;
                for value in [value, (value * 64.0).round() / 64.0, value / 1000.0] {
                    let got = dtype.decode(dtype.encode(value).unwrap()).unwrap();
                    let least =
                        all.iter().map(|(each, _)| (each - value).abs()).fold(f64::INFINITY, f64::min);
                    assert_eq!((got - value).abs(), least, "{dtype} {value} became {got}");
                    let near = all.iter().filter(|(each, _)| (each - value).abs() == least && *each != 0.0);
                    let near: Vec<_> = near.collect();
                    if let [a, b] = near[..] {
                        let even = if a.1 & 1 == 0 { a } else { b };
                        assert_eq!(got, even.0, "{dtype} {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn integers_take_the_low_bits() {
        let decode = |dtype: DType, byte| dtype.decode_integer(byte).unwrap();
        assert_eq!([0, 7, 8, 15, 0xf8].map(|byte| decode(DType::I4, byte)), [0, 7, -8, -1, -8]);
        assert_eq!([0, 8, 15, 0xf8].map(|byte| decode(DType::U4, byte)), [0, 8, 15, 8]);
        assert_eq!([0, 1, 2, 3, 0xfe].map(|byte| decode(DType::I2, byte)), [0, 1, -2, -1, -2]);
        assert_eq!([0, 3, 0xfe].map(|byte| decode(DType::U2, byte)), [0, 3, 2]);
        assert_eq!(DType::I8.decode_integer(1), None);
    }

    #[test]
    fn what_lies_beyond() {
        let encode = |dtype: DType, value: f64| dtype.encode(value).unwrap();
        assert_eq!(encode(DType::F16, 65519.9), 0x7bff);
        assert_eq!(encode(DType::F16, 65520.0), 0x7c00);
        assert_eq!(encode(DType::BF16, -1e39), 0xff80);
        assert_eq!(encode(DType::BF16, 1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(encode(DType::F8E4M3FN, 464.0), 0x7e);
        assert_eq!(encode(DType::F8E4M3FN, -464.1), 0xff);
        assert_eq!(encode(DType::F8E4M3FNUZ, 1e9), 0x80);
        assert_eq!(encode(DType::F8E4M3FNUZ, -0.0), 0);
        assert_eq!(encode(DType::F8E4M3FNUZ, -1e-9), 0);
        assert_eq!(encode(DType::F8E5M2, f64::NEG_INFINITY), 0xfc);
        assert_eq!(encode(DType::F8E5M2, f64::NAN), 0x7e);
        // The sign of what is no number stays where there is one.
        let signs = |dtype| [f64::NAN, -f64::NAN].map(|value| encode(dtype, value));
        assert_eq!(signs(DType::F16), [0x7e00, 0xfe00]);
        assert_eq!(signs(DType::BF16), [0x7fc0, 0xffc0]);
        assert_eq!(signs(DType::F8E5M2), [0x7e, 0xfe]);
        assert_eq!(signs(DType::F8E4M3FN), [0x7f, 0xff]);
        assert_eq!(signs(DType::F8E4M3FNUZ), [0x80, 0x80]);
        assert_eq!(signs(DType::F4E2M1), [8, 8]);
        assert_eq!(encode(DType::F4E2M1, -1e9), 0xf);
        assert_eq!(encode(DType::F4E2M1, f64::NAN), 8);
        assert_eq!(
            [0.0, 1.0, 1.1, 1e39, -2.0].map(|value| encode(DType::F8E8M0, value)),
            [0, 127, 128, 255, 128]
        );
        assert!(DType::F8E4M3FN.decode(0xff).unwrap().is_nan());
        assert_eq!(DType::F8E4M3FN.largest(), Some(448.0));
        assert_eq!(DType::F8E5M2FNUZ.largest(), Some(57344.0));
        assert_eq!(DType::F32.encode(1.0), None);
    }
}
