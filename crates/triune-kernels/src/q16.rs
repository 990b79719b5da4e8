//! 16-bit integers: sum and product of symmetric ones, and the way from and to reals.
//!
//! Sums are exact in i64, factors are f64, halves go where the rounding says. Loops are plain: what vectorises does so by
//! itself, and every instruction set gives the same bits. Pools lie with those of bytes, convolutions with the others.

use triune_tensor::{QuantParams, Rounding};

use crate::dispatch::{Level, multiversion};
use crate::eltwise::combine;
use crate::{Broadcast, Error, Isa, Nhwc, Pool, math, parallel};

/// What an integer of 16 bits can be.
pub(crate) const RANGE: [i32; 2] = [i16::MIN as i32, i16::MAX as i32];

/// How a real becomes an integer of 16 bits: clamp(round(real)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Q16Target {
    /// Where halves go.
    pub rounding: Rounding,
    /// Smallest and largest result; cut to 16 bits.
    pub clamp: [i32; 2],
}

impl Q16Target {
    /// The whole range.
    pub const fn full(rounding: Rounding) -> Self {
        Self { rounding, clamp: RANGE }
    }

    pub(crate) fn check(self) -> Result<Self, Error> {
        let clamp = [self.clamp[0].max(RANGE[0]), self.clamp[1].min(RANGE[1])];
        if clamp[0] <= clamp[1] {
            Ok(Self { clamp, ..self })
        } else {
            Err(Error::Invalid("empty clamp range"))
        }
    }

    /// The integer of a real that is no NaN.
    #[inline]
    pub(crate) fn integer(self, real: f64) -> i16 {
        let rounded = match self.rounding {
            Rounding::HalfToEven => real.round_ties_even(),
            Rounding::HalfAwayFromZero => real.round(),
        };
        rounded.clamp(f64::from(self.clamp[0]), f64::from(self.clamp[1])) as i16
    }
}

/// out = clamp(round(a · `factors[0]` + b · `factors[1]`)), in f64.
///
/// Errors: slices shorter than the nest's spans, factors that are not finite.
pub fn q16_add(
    factors: [f32; 2],
    target: Q16Target,
    shape: &Broadcast,
    a: &[i16],
    b: &[i16],
    out: &mut [i16],
    pool: &Pool,
) -> Result<(), Error> {
    let [ra, rb] = finite(factors)?;
    let target = target.check()?;
    shape.runs(a, b, out, pool, &|run, out, stride| {
        // Products of 16 and 24 bits are exact.
        combine(run, out, stride, |a: i16, b: i16| target.integer(f64::from(a) * ra + f64::from(b) * rb));
    })
}

/// out = clamp(round(a · b · factor)), in f64.
///
/// Errors: as [`q16_add`].
pub fn q16_mul(
    factor: f32,
    target: Q16Target,
    shape: &Broadcast,
    a: &[i16],
    b: &[i16],
    out: &mut [i16],
    pool: &Pool,
) -> Result<(), Error> {
    let [factor] = finite([factor])?;
    let target = target.check()?;
    shape.runs(a, b, out, pool, &|run, out, stride| {
        combine(run, out, stride, |a: i16, b: i16| {
            target.integer(f64::from(i32::from(a) * i32::from(b)) * factor)
        });
    })
}

fn finite<const N: usize>(factors: [f32; N]) -> Result<[f64; N], Error> {
    if factors.iter().all(|factor| factor.is_finite()) {
        Ok(factors.map(f64::from))
    } else {
        Err(Error::Invalid("factors must be finite"))
    }
}

/// An integer of 16 bits that stands for a real.
pub trait Word: Copy + Send + Sync + 'static {
    /// The smallest and the largest one.
    const RANGE: [i32; 2];
    /// The one of a pattern.
    fn of_bits(bits: u16) -> Self;
    /// The number.
    fn widen(self) -> i32;
}

macro_rules! words {
    ($($type:ty)*) => {$(
        impl Word for $type {
            const RANGE: [i32; 2] = [Self::MIN as i32, Self::MAX as i32];
            #[inline(always)]
            fn of_bits(bits: u16) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn widen(self) -> i32 {
                i32::from(self)
            }
        }
    )*};
}

words!(i16 u16);

/// y = clamp(round(x / scale) + zero point) as 16 bits, by the rule of [`triune_tensor::QuantParams::quantize_by`].
///
/// Errors: extents that differ, slices shorter than their maps, a scale that is not positive and finite, a zero point that
/// the type does not hold.
pub fn q16_quantize<W: Word>(
    isa: Isa,
    params: QuantParams,
    rounding: Rounding,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [W],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    check_params::<W>(params)?;
    let QuantParams { scale, zero_point } = params;
    let (level, limits) = (Level::new(isa), W::RANGE.map(|limit| (limit - zero_point) as f32));
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| match rounding {
        Rounding::HalfToEven => quantize_run(level, scale, limits, zero_point as u16, x, y),
        Rounding::HalfAwayFromZero => quantize_away_run(level, 1.0 / scale, limits, zero_point as u16, x, y),
    })
}

multiversion! {
    fn quantize_run[W: Word](scale: f32, limits: [f32; 2], zero: u16, x: &[f32], y: &mut [W]) {
        let [low, high] = limits;
        for (y, &x) in y.iter_mut().zip(x) {
            let quotient = x / scale;
            // NaN fails the comparison.
            let quotient = if quotient >= low { quotient } else { low };
            *y = W::of_bits(math::round_to_word(quotient, low, high).wrapping_add(zero));
        }
    }
}

multiversion! {
    fn quantize_away_run[W: Word](inverse: f32, limits: [f32; 2], zero: u16, x: &[f32], y: &mut [W]) {
        let [low, high] = limits;
        for (y, &x) in y.iter_mut().zip(x) {
            let quotient = x * inverse;
            // NaN fails the comparison.
            let quotient = if quotient >= low { quotient } else { low };
            *y = W::of_bits(math::round_away_to_word(quotient, low, high).wrapping_add(zero));
        }
    }
}

/// y = f32(q − zero point) · scale of 16 bits.
///
/// Errors: as [`q16_quantize`].
pub fn q16_dequantize<W: Word>(
    isa: Isa,
    params: QuantParams,
    x: &[W],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    check_params::<W>(params)?;
    let level = Level::new(isa);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| dequantize_run(level, params, x, y))
}

multiversion! {
    fn dequantize_run[W: Word](params: QuantParams, x: &[W], y: &mut [f32]) {
        for (y, q) in y.iter_mut().zip(x) {
            *y = (q.widen() - params.zero_point) as f32 * params.scale;
        }
    }
}

/// y = `table[x]`, indexed by the unsigned pattern of 16 bits.
///
/// Errors: a table of another length than 65,536, extents that differ, slices shorter than their maps.
pub fn q16_table(
    table: &[i16],
    x: &[i16],
    in_map: Nhwc,
    y: &mut [i16],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    Error::check_eq("table", 1 << 16, table.len())?;
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = table[usize::from(x.cast_unsigned())];
        }
    })
}

fn check_params<W: Word>(params: QuantParams) -> Result<(), Error> {
    if !(params.scale.is_finite() && params.scale > 0.0) {
        return Err(Error::Invalid("scales must be positive and finite"));
    }
    if (W::RANGE[0]..=W::RANGE[1]).contains(&params.zero_point) {
        Ok(())
    } else {
        Err(Error::Invalid("zero point outside of 16 bits"))
    }
}
