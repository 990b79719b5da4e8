//! Affine quantization: real = (q − `zero_point`) × scale.

use std::sync::Arc;

use crate::DType;

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
        let (low, high) = dtype.int_range().unwrap_or((i64::from(i32::MIN), i64::from(i32::MAX)));
        let quotient = x / self.scale;
        if quotient.is_nan() {
            return low as i32;
        }
        // `as` saturates, so that infinities and huge quotients stay in range.
        let rounded = quotient.round_ties_even() as i64;
        rounded.saturating_add(i64::from(self.zero_point)).clamp(low, high) as i32
    }

    /// The real value of the quantized value `q`: f32(q − `zero_point`) · scale.
    pub fn dequantize(self, q: i32) -> f32 {
        (i64::from(q) - i64::from(self.zero_point)) as f32 * self.scale
    }
}

/// Per-channel symmetric quantization of weights: one scale per index of `axis`, zero point 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelQuant {
    /// One scale per channel, or a single one for all.
    pub scales: Arc<[f32]>,
    /// The axis that the scales run along.
    pub axis: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

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
