//! Affine quantization: real = (q − `zero_point`) × scale.

use crate::{DType, function::coded};

coded! {
    /// How a real between two integers becomes one of them when an integer result is made.
    ///
    /// It also says when a zero point is added: to half-even results as ONNX Runtime adds it, operator by operator, to
    /// half-away ones always after rounding.
    #[derive(Default)]
    Rounding, "How a real becomes an integer, and where the result's zero point is added." {
        /// To the nearest; a half goes to the even neighbour. ONNX and its runtimes.
        #[default]
        HalfToEven = 0, "Halves go to the even neighbour, as in ONNX.";
        /// To the nearest; a half goes away from zero, as C's `roundf` has it. `MegEngine`.
        HalfAwayFromZero = 1, "Halves go away from zero; the zero point is added to what was rounded.";
    }
}

impl Rounding {
    /// The integer, as f32.
    pub fn round(self, x: f32) -> f32 {
        match self {
            Self::HalfToEven => x.round_ties_even(),
            Self::HalfAwayFromZero => x.round(),
        }
    }
}

/// Per-tensor quantization parameters: real = (q − `zero_point`) × `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantParams {
    /// Real value of one step.
    pub scale: f32,
    /// The quantized value that stands for the real 0.
    pub zero_point: i32,
}

impl QuantParams {
    /// Quantizes one value in the order of ONNX `QuantizeLinear`: divide, round half to even, add the zero
    /// point, saturate to `dtype` (an integer type of at most 32 bits; others saturate to i32). NaN, for which ONNX
    /// defines nothing, gives the type's lowest value, as in ONNX Runtime.
    pub fn quantize(self, x: f32, dtype: DType) -> i32 {
        self.quantize_by(Rounding::HalfToEven, x, dtype)
    }

    /// As [`Self::quantize`] by either rounding. Half away from zero multiplies with f32(1/scale) instead of
    /// dividing, as `MegEngine`'s x86 conversion does.
    pub fn quantize_by(self, rounding: Rounding, x: f32, dtype: DType) -> i32 {
        let (low, high) = dtype.int_range().unwrap_or((i64::from(i32::MIN), i64::from(i32::MAX)));
        let quotient = match rounding {
            Rounding::HalfToEven => x / self.scale,
            Rounding::HalfAwayFromZero => x * (1.0 / self.scale),
        };
        if quotient.is_nan() {
            return low as i32;
        }
        // `as` saturates, so that infinities and huge quotients stay in range.
        let rounded = rounding.round(quotient) as i64;
        rounded.saturating_add(i64::from(self.zero_point)).clamp(low, high) as i32
    }

    /// The real value of the quantized value `q`: f32(q − `zero_point`) · scale.
    pub fn dequantize(self, q: i32) -> f32 {
        (i64::from(q) - i64::from(self.zero_point)) as f32 * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_half_away_from_zero_on_request() {
        let params = QuantParams { scale: 0.5, zero_point: 3 };
        let away = |x| params.quantize_by(Rounding::HalfAwayFromZero, x, DType::U8);
        // ±0.5 and ±2.5 steps; the zero point is added to what was rounded.
        assert_eq!([0.25, -0.25, 1.25, -1.25].map(away), [4, 2, 6, 0]);
        assert_eq!([0.25, -0.25, 1.25, -1.25].map(|x| params.quantize(x, DType::U8)), [3, 3, 5, 1]);
        assert_eq!(away(f32::NAN), 0);
    }

    #[test]
    fn rounds_half_to_even_then_saturates() {
        let params = QuantParams { scale: 0.5, zero_point: -1 };
        assert_eq!(params.quantize(0.25, DType::I8), -1);
        assert_eq!(params.quantize(0.75, DType::I8), 1);
        assert_eq!(params.quantize(1e30, DType::I8), 127);
        assert_eq!(params.quantize(f32::NEG_INFINITY, DType::U8), 0);
        assert_eq!([DType::I8, DType::U8].map(|dtype| params.quantize(f32::NAN, dtype)), [-128, 0]);
        assert_eq!(params.dequantize(-128), -63.5);
    }
}
