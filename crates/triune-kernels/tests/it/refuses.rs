//! What kernels are not defined for: each row is one that is, with one thing wrong of it. The last figure on either side of a limit is
//! there, too.

use triune_kernels::{
    Broadcast, Error, FMatMul, Isa, MatMulSpec, Nhwc, Pool, PoolQuant, PoolSpec, Q8, Q16Pool, QSoftmax,
    binary, double_binary, integer_binary, q16_dequantize, q16_quantize,
};
use triune_tensor::{
    QuantParams, Requantize, Rounding,
    function::{BinaryKind, PoolKind},
};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    match result {
        Err(Error::Invalid(reason)) => assert_eq!(reason, words),
        other => panic!("{words}: {other:?}"),
    }
}

const POSITIVE: &str = "scales must be positive and finite";
/// Scales that are none.
const NONE: [f32; 5] = [0.0, -0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

fn signed(zero_point: i32) -> Q8 {
    Q8 { signed: true, zero_point }
}

#[test]
fn pools_of_bytes() {
    let spec = PoolSpec {
        kernel: [2, 3],
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 4],
        kind: PoolKind::Average { count_include_pad: false },
    };
    let most = PoolSpec { kind: PoolKind::Max, ..spec };
    let map = Nhwc::dense(1, 5, 7, 3);
    let quant = PoolQuant {
        input: signed(3),
        input_scale: 0.5,
        output: signed(-4),
        output_scale: 0.25,
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    assert!(quant.check(&spec, map).is_ok());
    for scale in NONE {
        refused(PoolQuant { input_scale: scale, ..quant }.check(&spec, map), POSITIVE);
        refused(PoolQuant { output_scale: scale, ..quant }.check(&spec, map), POSITIVE);
    }
    let outside = "zero point outside of its 8-bit type";
    for zero_point in [-129, 128] {
        refused(PoolQuant { input: signed(zero_point), ..quant }.check(&spec, map), outside);
        refused(PoolQuant { output: signed(zero_point), ..quant }.check(&spec, map), outside);
    }
    for zero_point in [-128, 127] {
        assert!(PoolQuant { input: signed(zero_point), ..quant }.check(&spec, map).is_ok());
    }
    // A maximum gives what it takes.
    let same = PoolQuant { output: quant.input, output_scale: quant.input_scale, ..quant };
    assert!(same.check(&most, map).is_ok());
    let keeps = "a maximum keeps its input's quantization";
    refused(quant.check(&most, map), keeps);
    refused(PoolQuant { output: signed(2), ..same }.check(&most, map), keeps);
    refused(PoolQuant { output: Q8 { signed: false, zero_point: 3 }, ..same }.check(&most, map), keeps);
    refused(PoolQuant { output_scale: 0.25, ..same }.check(&most, map), keeps);
    // Sums of bytes in i32, unless the mean is one of reals.
    let away = PoolQuant { rounding: Rounding::HalfAwayFromZero, ..quant };
    let large = |rows: usize| PoolSpec { kernel: [rows, 1], ..spec };
    let limit = i32::MAX as usize / 255;
    assert!(away.check(&large(limit), map).is_ok());
    refused(away.check(&large(limit + 1), map), "a sum of the window's bytes could overflow");
    assert!(quant.check(&large(limit + 1), map).is_ok());
    let whole = Nhwc::dense(1, limit + 1, 1, 1);
    refused(quant.check(&large(limit + 1), whole), "a sum of the window's bytes could overflow");
    let padded = PoolSpec { pad: [1, 0, 0, 0], ..large(limit + 1) };
    assert!(quant.check(&padded, whole).is_ok());
    let fixed = PoolQuant { requantize: Requantize::Fixed, ..quant };
    assert!(fixed.check(&spec, map).is_ok());
    refused(fixed.check(&large(limit + 1), map), "a sum of the window's bytes could overflow");
    let tiny = PoolQuant { input_scale: 1e6, output_scale: 1.0, ..fixed };
    refused(tiny.check(&spec, map), "no fixed-point multiplier stands for the quotient of the scales");
}

#[test]
fn pools_of_words() {
    let quant = Q16Pool {
        input_scale: 0.5,
        output_scale: 0.25,
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    let mean = PoolKind::Average { count_include_pad: true };
    assert!(quant.check(mean).is_ok());
    for scale in NONE {
        refused(Q16Pool { input_scale: scale, ..quant }.check(mean), POSITIVE);
        refused(Q16Pool { output_scale: scale, ..quant }.check(PoolKind::Max), POSITIVE);
    }
    refused(quant.check(PoolKind::Max), "a maximum keeps its input's quantization");
    assert!(Q16Pool { output_scale: 0.5, ..quant }.check(PoolKind::Max).is_ok());
    let far = Q16Pool { input_scale: 1e38, output_scale: 1e-38, ..quant };
    refused(far.check(mean), "no multiplier stands for the quotient of the scales");
}

#[test]
fn scales_and_zero_points() {
    let out = signed(0);
    assert!(QSoftmax::new(3, 0.5, out, 0.25).is_ok());
    for scale in NONE {
        refused(QSoftmax::new(3, scale, out, 0.25), POSITIVE);
        refused(QSoftmax::new(3, 0.5, out, scale), POSITIVE);
    }
    refused(QSoftmax::new(3, 0.5, signed(128), 0.25), "zero point outside of its 8-bit type");
    let (map, pool) = (Nhwc::dense(1, 1, 1, 2), Pool::new(1));
    let round_trip = |params| {
        let (mut q, mut x) = ([0_i16; 2], [0.0; 2]);
        q16_quantize(Isa::Scalar, params, Rounding::HalfToEven, &[1.0, -1.0], map, &mut q, map, &pool)?;
        q16_dequantize(Isa::Scalar, params, &q, map, &mut x, map, &pool).map(|()| x)
    };
    for zero_point in [-32_768, 0, 32_767] {
        assert!(round_trip(QuantParams { scale: 0.5, zero_point }).is_ok());
    }
    assert_eq!(round_trip(QuantParams { scale: 0.5, zero_point: 7 }).expect("reals"), [1.0, -1.0]);
    for zero_point in [-32_769, 32_768] {
        let params = QuantParams { scale: 0.5, zero_point };
        refused(round_trip(params), "zero point outside of 16 bits");
        refused(
            q16_dequantize(Isa::Scalar, params, &[0_i16; 2], map, &mut [0.0; 2], map, &pool),
            "zero point outside of 16 bits",
        );
    }
    for scale in NONE {
        let params = QuantParams { scale, zero_point: 0 };
        refused(round_trip(params), POSITIVE);
        refused(q16_dequantize(Isa::Scalar, params, &[0_i16; 2], map, &mut [0.0; 2], map, &pool), POSITIVE);
    }
}

#[test]
fn matrices_whose_rows_or_batches_overlap() {
    let isa = Isa::best();
    for (trans_a, trans_b) in [(false, false), (true, false), (false, true), (true, true)] {
        let dense = MatMulSpec::dense(2, 3, 4, 5, trans_a, trans_b);
        assert!(FMatMul::new(&dense, isa).is_ok());
        let rows = "rows of a matrix overlap";
        refused(FMatMul::new(&MatMulSpec { stride_a: dense.stride_a - 1, ..dense }, isa), rows);
        refused(FMatMul::new(&MatMulSpec { stride_b: dense.stride_b - 1, ..dense }, isa), rows);
        refused(FMatMul::new(&MatMulSpec { stride_c: 3, ..dense }, isa), rows);
        let batches = "matrices of the output overlap";
        refused(FMatMul::new(&MatMulSpec { batch_c: 11, ..dense }, isa), batches);
        // Gaps count up to the last row's end.
        assert!(FMatMul::new(&MatMulSpec { stride_c: 6, batch_c: 16, ..dense }, isa).is_ok());
        refused(FMatMul::new(&MatMulSpec { stride_c: 6, batch_c: 15, ..dense }, isa), batches);
        // One matrix overlaps no other, one row none either; operands may be the same for all.
        assert!(FMatMul::new(&MatMulSpec { batch: 1, batch_c: 0, ..dense }, isa).is_ok());
        assert!(FMatMul::new(&MatMulSpec { batch_a: 0, batch_b: 0, ..dense }, isa).is_ok());
    }
    let row = MatMulSpec::dense(1, 1, 4, 5, false, false);
    assert!(FMatMul::new(&MatMulSpec { stride_a: 0, stride_c: 0, ..row }, isa).is_ok());
    let huge = MatMulSpec::dense(1, 1 << 40, 4, 1 << 40, false, false);
    refused(FMatMul::new(&huge, isa), "extents overflow");
}

#[test]
fn functions_that_a_type_does_not_have() {
    let (isa, pool) = (Isa::best(), Pool::new(1));
    let shape = Broadcast::dense(2).expect("a nest");
    let mut out = [0.0; 2];
    refused(
        binary(isa, BinaryKind::Xor, &shape, &[0.0; 2], &[0.0; 2], &mut out, &pool),
        "float32 does not have this function",
    );
    let mut out = [0_i32; 2];
    refused(
        integer_binary(isa, BinaryKind::Atan2, &shape, &[0; 2], &[0; 2], &mut out, &pool),
        "integers do not have this function",
    );
    let mut out = [0.0_f64; 2];
    refused(
        double_binary(isa, BinaryKind::LogAddExp, &shape, &[0.0; 2], &[0.0; 2], &mut out, &pool),
        "float64 does not have this function",
    );
}
