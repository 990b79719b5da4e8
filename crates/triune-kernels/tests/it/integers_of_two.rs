//! Products of two matrices of bytes, normalization and blending of bytes: against their formulas in wide integers, with the same bits
//! on every instruction set and number of threads.

use crate::common::isas;
use triune_kernels::{
    AxisShape, Isa, Nhwc, Pool, Q8, QMatMul, QMatMulSpec, QNorm, QNormSpec, QResize, Resize, ResizeSpec,
};
use triune_tensor::{
    DType, QuantParams, Rounding,
    function::{CoordinateMode, ResizeMode},
};
use triune_testing::Random;

const ROUNDINGS: [Rounding; 2] = [Rounding::HalfToEven, Rounding::HalfAwayFromZero];

fn q8(signed: bool, zero_point: i32) -> Q8 {
    Q8 { signed, zero_point }
}

fn pools() -> [Pool; 2] {
    [1, 3].map(Pool::new)
}

/// (sum·multiplier, rounded, plus zero point) as a byte of the type.
fn finished(sum: i64, multiplier: f32, to: Q8, rounding: Rounding) -> u8 {
    let [low, high] = to.range();
    (rounding.round(sum as f32 * multiplier) as i64 + i64::from(to.zero_point)).clamp(low.into(), high.into())
        as u8
}

#[test]
fn products() {
    let mut random = Random(1);
    for (index, [batch, m, n, k]) in
        [[1, 1, 1, 1], [2, 3, 131, 33], [1, 65, 7, 64], [3, 2, 64, 95], [1, 4, 4, 0], [0, 3, 3, 3]]
            .into_iter()
            .enumerate()
    {
        for code in 0..8 {
            let spec = QMatMulSpec {
                batch,
                m,
                n,
                k,
                trans_a: code & 1 == 1,
                trans_b: code & 2 == 2,
                shared_b: code & 4 == 4,
                a: if index % 2 == 1 { q8(true, -128) } else { q8(false, 255) },
                b: q8(index % 3 != 0, 100),
                output: q8(code & 1 == 0, 17),
                multiplier: 0.5 / (k + 1) as f32,
                rounding: ROUNDINGS[index % 2],
            };
            let copies = if spec.shared_b { batch.min(1) } else { batch };
            let (a, b) = (random.bytes(batch * m * k), random.bytes(copies * k * n));
            let expected: Vec<u8> = (0..batch * m * n)
                .map(|at| {
                    let (image, row, column) = (at / (m * n), at / n % m, at % n);
                    let sum: i64 = (0..k)
                        .map(|i| {
                            let left = if spec.trans_a { i * m + row } else { row * k + i };
                            let right = if spec.trans_b { column * k + i } else { i * n + column };
                            let left = spec.a.value(a[image * m * k + left]) - spec.a.zero_point;
                            let right = spec.b.value(b[image % copies * k * n + right]) - spec.b.zero_point;
                            i64::from(left * right)
                        })
                        .sum();
                    finished(sum, spec.multiplier, spec.output, spec.rounding)
                })
                .collect();
            for isa in Isa::available() {
                for pool in pools() {
                    let product = QMatMul::new(&spec, isa).unwrap();
                    let mut c = vec![0; batch * m * n];
                    let mut scratch = vec![0xa5; product.scratch_bytes()];
                    product.run(&a, &b, &mut c, &mut scratch, &pool).unwrap();
                    assert_eq!(c, expected, "{spec:?} {isa:?}");
                }
            }
        }
    }
}

/// The largest sums that there can be.
#[test]
fn longest_products() {
    let k = QMatMul::MAX_DEPTH;
    let spec = QMatMulSpec {
        batch: 1,
        m: 1,
        n: 1,
        k,
        trans_a: false,
        trans_b: false,
        shared_b: false,
        a: q8(false, 0),
        b: q8(false, 255),
        output: q8(true, 0),
        multiplier: 100.0 / (255.0 * 255.0 * k as f32),
        rounding: Rounding::HalfToEven,
    };
    for isa in Isa::available() {
        let product = QMatMul::new(&spec, isa).unwrap();
        let mut scratch = vec![0; product.scratch_bytes()];
        let mut c = [0];
        let pool = Pool::new(1);
        product.run(&vec![255; k], &vec![0; k], &mut c, &mut scratch, &pool).unwrap();
        assert_eq!(c[0].cast_signed(), -100);
        assert!(QMatMul::new(&QMatMulSpec { k: k + 1, ..spec }, isa).is_err());
    }
}

#[test]
fn normalization() {
    let mut random = Random(2);
    for (outer, len, inner) in
        [(1, 1, 1), (3, 17, 1), (2, 5, 4), (1, 300, 3), (2, 1025, 1), (1, 600, 2), (0, 2, 2)]
    {
        for signed in [false, true] {
            let x = random.bytes(outer * len * inner);
            let rows = [random.floats(len), random.floats(len)];
            let abouts = [None, Some(if signed { -7 } else { 131 })];
            for (rounding, about) in ROUNDINGS.into_iter().flat_map(|own| abouts.map(|about| (own, about))) {
                let spec = QNormSpec {
                    len,
                    signed,
                    about,
                    scale: 0.02,
                    epsilon: 1e-3,
                    gamma: Some(&rows[0]),
                    beta: Some(&rows[1]),
                    output: QuantParams { scale: 0.01, zero_point: 9 },
                    rounding,
                };
                let own = q8(signed, 0);
                let value = |at: usize| i64::from(own.value(x[at]) - about.unwrap_or(0));
                let expected: Vec<u8> = (0..x.len())
                    .map(|at| {
                        let first = at / (len * inner) * len * inner + at % inner;
                        let all = || (0..len).map(|i| value(first + i * inner));
                        let (sum, squares): (i64, i64) = (all().sum(), all().map(|q| q * q).sum());
                        let sum = if about.is_some() { 0 } else { sum };
                        let count = len as i64;
                        let room = (len as f64).powi(2) * f64::from(1e-3_f32) / f64::from(0.02_f32).powi(2);
                        let root = ((count * squares - sum * sum) as f64 + room).sqrt();
                        let real = ((count * value(at) - sum) as f64 / root) as f32;
                        let i = at / inner % len;
                        let dtype = if signed { DType::I8 } else { DType::U8 };
                        let real = real * rows[0][i] + rows[1][i];
                        spec.output.quantize_by(rounding, real, dtype) as u8
                    })
                    .collect();
                for (isa, pool) in isas().into_iter().flat_map(|isa| pools().map(|pool| (isa, pool))) {
                    let mut y = vec![0; x.len()];
                    let norm = QNorm::new(&spec).unwrap();
                    norm.run(isa, AxisShape { outer, len, inner }, &x, &mut y, &pool).unwrap();
                    assert_eq!(y, expected, "{isa:?}, {outer}×{len}×{inner}");
                }
            }
        }
    }
    let spec = QNormSpec {
        len: 4,
        signed: true,
        about: None,
        scale: 1.0,
        epsilon: 1.0,
        gamma: None,
        beta: None,
        output: QuantParams { scale: 1.0, zero_point: 0 },
        rounding: Rounding::HalfToEven,
    };
    assert!(QNorm::new(&spec).is_ok());
    for wrong in [
        QNormSpec { len: QNorm::MAX_LEN + 1, ..spec },
        QNormSpec { scale: 0.0, ..spec },
        QNormSpec { about: Some(128), ..spec },
        QNormSpec { epsilon: -1.0, ..spec },
        QNormSpec { gamma: Some(&[1.0; 3]), ..spec },
        QNormSpec { output: QuantParams { scale: 1.0, zero_point: 128 }, ..spec },
    ] {
        assert!(QNorm::new(&wrong).is_err(), "{wrong:?}");
    }
}

/// What a blend of reals gives, within an eighth of a step and the last rounding.
#[test]
fn blending() {
    let mut random = Random(3);
    for coordinates in [CoordinateMode::HalfPixel, CoordinateMode::AlignCorners, CoordinateMode::Asymmetric] {
        for (input, output) in [([3, 5], [7, 8]), ([4, 4], [2, 3]), ([1, 1], [3, 2]), ([5, 3], [5, 3])] {
            for channels in [3, 37] {
                let spec = ResizeSpec { mode: ResizeMode::Linear, coordinates, input, output, scales: None };
                let resize = Resize::new(&spec).unwrap();
                let [from, to] = [input, output].map(|[h, w]| Nhwc::dense(1, h, w, channels));
                let x = random.bytes(input[0] * input[1] * channels);
                let reals: Vec<f32> = x.iter().map(|&q| f32::from(q) - 100.0).collect();
                let mut blended = vec![0.0; output[0] * output[1] * channels];
                let pool = Pool::new(1);
                resize.run_f32(Isa::Scalar, &reals, from, &mut blended, to, &pool).unwrap();
                for rounding in [Rounding::HalfToEven, Rounding::HalfAwayFromZero] {
                    let quant =
                        QResize { input: q8(false, 100), output: q8(true, -7), factor: 0.7, rounding };
                    let mut first = None;
                    for (isa, pool) in isas().into_iter().flat_map(|isa| pools().map(|pool| (isa, pool))) {
                        let mut y = vec![0; blended.len()];
                        resize.run_q8(isa, quant, &x, from, &mut y, to, &pool).unwrap();
                        for (&got, real) in y.iter().zip(&blended) {
                            let wanted = (real * 0.7 - 7.0).clamp(-128.0, 127.0);
                            assert!((f32::from(got.cast_signed()) - wanted).abs() <= 0.63, "{got} {wanted}");
                        }
                        assert_eq!(
                            *first.get_or_insert_with(|| y.clone()),
                            y,
                            "{rounding:?} on {}",
                            isa.name()
                        );
                    }
                }
            }
        }
    }
}
