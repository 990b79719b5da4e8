//! How accumulators are scaled back to few bits: by any f32, or by a fixed-point multiplier m·2⁻ⁿ.

use crate::function::coded;

coded! {
    /// What the factors are that scale integers from one meaning to another.
    #[derive(Default)]
    Requantize, "What the factors are that come of scales." {
        /// Any f32, as quotients and products of scales come out.
        #[default]
        Float = 0, "f32.";
        /// The nearest [`Multiplier`].
        Fixed = 1, "The nearest m·2⁻ⁿ, m 0 to 255, n 0 to 21 at 8 bit.";
    }
}

impl Requantize {
    /// The factor that stands for `value` over integers of `bits` bits; `None` when there is no such multiplier.
    #[inline]
    pub fn factor(self, value: f32, bits: u32) -> Option<f32> {
        match self {
            Self::Float => Some(value),
            Self::Fixed => Multiplier::fixed(value, bits).map(Multiplier::value),
        }
    }
}

/// A factor m · 2⁻ⁿ of 8 significant bits: m is 128..=255 wherever n allows that, and n at most [`Multiplier::max_shift`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// m, 0..=255.
    pub m: u8,
    /// n: how far the product is shifted down.
    pub n: u8,
}

impl Multiplier {
    /// Largest n over integers of `bits` bits: 2·`bits` + 5, the shifts of a matrix unit and of the vector unit behind it.
    pub const fn max_shift(bits: u32) -> u32 {
        2 * bits + 5
    }

    /// The multiplier nearest to `value` over integers of `bits` bits; between two of them the even m. What a multiplier
    /// stands for gives that multiplier again.
    ///
    /// Values below 128 · 2⁻ⁿ of the largest n have fewer significant bits, down to 0. `None` for what no multiplier
    /// stands for: NaN, negative values, and those that round to more than 255.
    #[inline]
    pub fn fixed(value: f32, bits: u32) -> Option<Self> {
        if value.is_nan() || value < 0.0 || value.is_infinite() {
            return None;
        }
        // The value is at least 2^exponent, and below twice that, unless it is subnormal: then all shifts are too short.
        let exponent = (value.abs().to_bits() >> 23).cast_signed() - 127;
        let n = (7 - exponent).clamp(0, Self::max_shift(bits).cast_signed());
        let power = f64::from_bits(u64::from((1023 + n).cast_unsigned()) << 52);
        let m = (f64::from(value) * power).round_ties_even();
        match (m as u32, n) {
            (m @ 0..=255, n) => Some(Self { m: m as u8, n: n as u8 }),
            (256, 1..) => Some(Self { m: 128, n: (n - 1) as u8 }),
            _ => None,
        }
    }

    /// m · 2⁻ⁿ, exactly.
    #[inline]
    pub fn value(self) -> f32 {
        // n is at most 255, far above the smallest exponent only in f64.
        (f64::from(self.m) * f64::from_bits((1023 - u64::from(self.n)) << 52)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(value: f32) -> Option<(u8, u8)> {
        Multiplier::fixed(value, 8).map(|multiplier| (multiplier.m, multiplier.n))
    }

    #[test]
    fn every_multiplier_is_its_own() {
        for bits in [8, 16] {
            let most = Multiplier::max_shift(bits) as u8;
            for n in 0..=most {
                for m in 0..=255_u8 {
                    let multiplier = Multiplier { m, n };
                    let found = Multiplier::fixed(multiplier.value(), bits).expect("in range");
                    assert_eq!(found.value(), multiplier.value());
                    assert!(found.m >= 128 || found.n == most, "{multiplier:?} {found:?}");
                    if m >= 128 {
                        assert_eq!(found, multiplier);
                    }
                }
            }
        }
    }

    /// No other multiplier is nearer, and halves go to the even one.
    #[test]
    fn the_nearest_is_found() {
        let mut normal: Vec<Multiplier> =
            (0..=21).flat_map(|n| (128..=255).map(move |m| Multiplier { m, n })).collect();
        normal.extend((0..128).map(|m| Multiplier { m, n: 21 }));
        normal.sort_by(|a, b| a.value().total_cmp(&b.value()));
        for pair in normal.windows(2) {
            let [low, high] = [pair[0].value(), pair[1].value()];
            let middle = low.midpoint(high);
            let expected = if pair[0].m % 2 == 0 { pair[0] } else { pair[1] };
            assert_eq!(Multiplier::fixed(middle, 8), Some(expected), "{middle}");
            assert_eq!(Multiplier::fixed(middle.next_down(), 8), Some(pair[0]));
            assert_eq!(Multiplier::fixed(middle.next_up(), 8), Some(pair[1]));
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        // 128·2⁻²¹ and 101·2⁻²¹ stand in a network that the vendor of such a device compiled.
        assert_eq!(fixed(6.103_515_6e-5), Some((128, 21)));
        assert_eq!(fixed(4.816_055_3e-5), Some((101, 21)));
        assert_eq!(fixed(1.0), Some((128, 7)));
        assert_eq!(fixed(0.0), Some((0, 21)));
        assert_eq!(fixed(f32::MIN_POSITIVE / 2.0), Some((0, 21)));
        assert_eq!(fixed(255.4), Some((255, 0)));
        for refused in [255.5, f32::INFINITY, f32::NAN, -0.001] {
            assert_eq!(fixed(refused), None, "{refused}");
        }
        assert_eq!(Requantize::Float.factor(1.0 / 3.0, 8), Some(1.0 / 3.0));
        assert_eq!(Requantize::Fixed.factor(1.0 / 3.0, 8), Some(171.0 / 512.0));
        assert_eq!(Requantize::Fixed.factor(f32::MAX, 8), None);
    }
}
