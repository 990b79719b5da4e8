//! What an 8-bit quantized operand is, and the quantized addition. Knows no maps and no memory.

use triune_tensor::{Requantize, Rounding};

use crate::Error;

/// How a byte encodes a quantized value; the scale lives in the multipliers of whoever uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Q8 {
    /// Whether the byte is two's complement (i8) instead of u8.
    pub signed: bool,
    /// The quantized value that stands for the real 0.
    pub zero_point: i32,
}

impl Q8 {
    /// Smallest and largest value of the type.
    pub const fn range(self) -> [i32; 2] {
        if self.signed { [-128, 127] } else { [0, 255] }
    }

    /// The quantized value of a byte.
    pub const fn value(self, byte: u8) -> i32 {
        if self.signed { byte as i8 as i32 } else { byte as i32 }
    }

    /// What a byte is xored with to get its value, shifted to 0..=255.
    pub(crate) const fn flip(self) -> u8 {
        if self.signed { 0x80 } else { 0 }
    }

    /// Refuses a zero point that the type cannot hold.
    pub(crate) fn check(self) -> Result<(), Error> {
        let [low, high] = self.range();
        if (low..=high).contains(&self.zero_point) {
            Ok(())
        } else {
            Err(Error::Invalid("zero point outside of its 8-bit type"))
        }
    }

    /// The part of `clamp` that the type can hold, or an error when there is none.
    pub(crate) fn intersect(self, clamp: [i32; 2]) -> Result<[i32; 2], Error> {
        let [low, high] = self.range();
        let clamp = [clamp[0].max(low), clamp[1].min(high)];
        if clamp[0] <= clamp[1] { Ok(clamp) } else { Err(Error::Invalid("empty clamp range")) }
    }
}

/// A quantized addition on the raw quantized integers a and b: clamp(rint(fma(a, ra, fma(b, rb, k)))) when halves go to
/// even, clamp(round(fma(a, ra, fma(b, rb, k))) + zero point of the sum) when they go away from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QAdd {
    /// First operand.
    pub a: Q8,
    /// Second operand.
    pub b: Q8,
    /// The sum.
    pub out: Q8,
    /// Scale of a over scale of the sum.
    pub ra: f32,
    /// Scale of b over scale of the sum.
    pub rb: f32,
    /// What the zero points add up to: −fma(ra, `a.zero_point`, rb · `b.zero_point`), plus `out.zero_point` when halves
    /// go to even.
    pub k: f32,
    /// How the sum becomes an integer.
    pub rounding: Rounding,
    /// Smallest and largest result, in the quantized domain of `out`.
    pub clamp: [i32; 2],
    /// Whether the operator that the addition is fused into provides a; otherwise b.
    pub conv_is_a: bool,
}

impl QAdd {
    /// The addition of `a` and `b`, each with its scale, into `out`: full range, the fused operator provides a.
    ///
    /// Half to even, the order of roundings is that of ONNX Runtime's `QLinearAdd`. Errors: a scale that is not
    /// positive and finite or quotients that overflow or have no multiplier, a zero point outside of its type.
    pub fn new(
        a: Q8,
        a_scale: f32,
        b: Q8,
        b_scale: f32,
        out: Q8,
        out_scale: f32,
        rounding: Rounding,
        requantize: Requantize,
    ) -> Result<Self, Error> {
        if ![a_scale, b_scale, out_scale].iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        let factor = |scale: f32| {
            let factor = requantize.factor(scale / out_scale, 8);
            factor.ok_or(Error::Invalid("no fixed-point multiplier stands for a quotient of the scales"))
        };
        let (ra, rb) = (factor(a_scale)?, factor(b_scale)?);
        let zero = match rounding {
            Rounding::HalfToEven => out.zero_point as f32,
            Rounding::HalfAwayFromZero => 0.0,
        };
        let k = zero - ra.mul_add(a.zero_point as f32, rb * b.zero_point as f32);
        let add = Self { a, b, out, ra, rb, k, rounding, clamp: out.range(), conv_is_a: true };
        add.check()?;
        Ok(add)
    }

    /// The difference of `a` and `b` instead of their sum: the factor of b is negative, also in what the zero points add up to.
    #[must_use]
    pub fn difference(self) -> Self {
        let (a, b) = (self.a.zero_point as f32, self.b.zero_point as f32);
        let zero = match self.rounding {
            Rounding::HalfToEven => self.out.zero_point as f32,
            Rounding::HalfAwayFromZero => 0.0,
        };
        let rb = -self.rb;
        Self { rb, k: zero - self.ra.mul_add(a, rb * b), ..self }
    }

    /// Refuses parameters on which the sum could be NaN, or that do not fit their types.
    pub fn check(&self) -> Result<(), Error> {
        self.a.check()?;
        self.b.check()?;
        self.out.check()?;
        self.out.intersect(self.clamp)?;
        let largest = 255.0 * (f64::from(self.ra).abs() + f64::from(self.rb).abs()) + f64::from(self.k).abs();
        // NaN and infinity fail the comparison; below it no partial sum overflows.
        if largest < f64::from(f32::MAX) {
            Ok(())
        } else {
            Err(Error::Invalid("residual scales overflow f32"))
        }
    }

    /// The byte of the sum of the bytes `a` and `b`. Parameters must have passed [`QAdd::check`].
    pub fn apply(&self, a: u8, b: u8) -> u8 {
        let (a, b) = (self.a.value(a) as f32, self.b.value(b) as f32);
        let sum = self.rounding.round(a.mul_add(self.ra, b.mul_add(self.rb, self.k)));
        // The bounds are integers in f32, so clamping before the conversion changes nothing but the overflow.
        let zero_point = self.added_zero_point();
        let [low, high] = self.clamp.map(|limit| (limit - zero_point) as f32);
        (sum.clamp(low, high) as i32 + zero_point) as u8
    }

    /// What is added to the rounded sum.
    pub(crate) const fn added_zero_point(&self) -> i32 {
        match self.rounding {
            Rounding::HalfToEven => 0,
            Rounding::HalfAwayFromZero => self.out.zero_point,
        }
    }

    /// The two operands' encodings: of the fused operator's result, and of the map that is added to it.
    pub(crate) const fn conv_and_other(&self) -> (Q8, Q8) {
        if self.conv_is_a { (self.a, self.b) } else { (self.b, self.a) }
    }
}
