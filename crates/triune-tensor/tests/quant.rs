//! Quantization where roundings and orders of operations part.

use triune_tensor::{DType, QuantParams, Rounding};

/// Ties are where a division and a product with the reciprocal part: each rounding has the one that its reference has.
#[test]
fn a_quotient_is_no_product_with_the_reciprocal() {
    let mut apart = 0;
    for step in 1..2000_u16 {
        let params = QuantParams { scale: f32::from(step) / 10_000.0, zero_point: 0 };
        for half in [2.5, 3.5, -0.5, 90.5] {
            let x = half * params.scale;
            let (quotient, product) = (x / params.scale, x * (1.0 / params.scale));
            apart += usize::from(quotient.round_ties_even() != product.round_ties_even());
            apart += usize::from(quotient.round() != product.round());
            assert_eq!(params.quantize(x, DType::I8), quotient.round_ties_even() as i32, "{step}");
            let away = params.quantize_by(Rounding::HalfAwayFromZero, x, DType::I8);
            assert_eq!(away, product.round() as i32, "{step}");
        }
    }
    assert!(apart > 100, "{apart}");
}

/// The zero point is added to what was rounded, and the sum is held to the type.
#[test]
fn zero_points_come_behind_the_rounding() {
    for rounding in [Rounding::HalfToEven, Rounding::HalfAwayFromZero] {
        for zero_point in [-128, -7, 0, 1, 127] {
            let params = QuantParams { scale: 0.5, zero_point };
            for x in [-0.75_f32, -0.25, 0.0, 0.25, 0.75, 1.25] {
                let steps = rounding.round(x * 2.0) as i32;
                let expected = (steps + zero_point).clamp(-128, 127);
                assert_eq!(params.quantize_by(rounding, x, DType::I8), expected, "{x} {zero_point}");
            }
        }
    }
    let wide = QuantParams { scale: 1e-30, zero_point: i32::MAX };
    assert_eq!(wide.quantize(1e9, DType::I32), i32::MAX);
    assert_eq!(wide.quantize(-1e9, DType::I32), i32::MIN);
    assert_eq!(wide.dequantize(i32::MIN), (i64::from(i32::MIN) - i64::from(i32::MAX)) as f32 * 1e-30);
}
