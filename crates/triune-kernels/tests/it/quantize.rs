//! Quantization, padding and their inverses, against the formulas one element at a time.

use crate::common::{gapped, indices, isas, same_bits};
use proptest::prelude::*;
use triune_kernels::{Error, Isa, Nhwc, Pool, Q8, TensorPad, dequantize, dequantize_i32, quantize};
use triune_tensor::{DType, QuantParams, Rounding};
use triune_testing::Random;

fn awkward(random: &mut Random, len: usize, scale: f32) -> Vec<f32> {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, -0.0];
    (0..len)
        .map(|i| match i % 7 {
            0 if i < 42 => special[i / 7],
            // Ties, and their neighbours.
            1 => (random.below(300) as f32 - 150.5) * scale,
            2 => f32::from_bits(((random.below(300) as f32 - 150.5) * scale).to_bits() + 1),
            _ => random.unit() * 160.0 * scale,
        })
        .collect()
}

#[test]
fn quantize_equals_the_vocabulary_and_dequantize_inverts() {
    let mut random = Random(61);
    for round in 0..20 {
        let signed = round % 2 == 0;
        let zero_point = random.below(256) as i32 - if signed { 128 } else { 0 };
        let q = Q8 { signed, zero_point };
        // By 1 nothing is divided.
        let scale = if round % 5 == 4 { 1.0 } else { 0.001 + random.unit().abs() * 0.1 };
        let size = [random.between(1, 6), random.between(1, 9)];
        let c = random.between(1, 40);
        let gaps = [[0, 0, 0], [1, 2, 3]][round % 2];
        let (i, o) = (gapped(2, size, c, gaps), gapped(2, size, c, [gaps[1], 0, gaps[0]]));
        let x = awkward(&mut random, i.span(), scale);
        let dtype = if signed { DType::I8 } else { DType::U8 };
        let rounding = [Rounding::HalfToEven, Rounding::HalfAwayFromZero][round / 2 % 2];
        let params = QuantParams { scale, zero_point };
        let mut expected = vec![0xEE; o.span()];
        let mut real = vec![777.0; i.span()];
        for (n, h, w, c) in indices(o) {
            let (from, to) = (i.offset(n, h, w) + c, o.offset(n, h, w) + c);
            let byte = params.quantize_by(rounding, x[from], dtype) as u8;
            expected[to] = byte;
            real[from] = params.dequantize(q.value(byte));
        }
        for isa in isas() {
            let pool = Pool::new(2);
            let mut y = vec![0xEE; o.span()];
            quantize(isa, scale, q, rounding, &x, i, &mut y, o, &pool).unwrap();
            assert_eq!(expected, y, "{isa:?}");
            let mut back = vec![777.0; i.span()];
            dequantize(isa, scale, q, &y, o, &mut back, i, &pool).unwrap();
            same_bits(&real, &back, "dequantize");
        }
        let pool = Pool::new(1);
        let mut y = vec![0; o.span()];
        assert!(quantize(Isa::best(), scale, q, rounding, &x[1..], i, &mut y, o, &pool).is_err());
        assert!(quantize(Isa::best(), scale, q, rounding, &x, i, &mut y[1..], o, &pool).is_err());
        assert!(quantize(Isa::best(), 0.0, q, rounding, &x, i, &mut y, o, &pool).is_err());
        let wrong = Q8 { signed, zero_point: 300 };
        assert!(quantize(Isa::best(), 1.0, wrong, rounding, &x, i, &mut y, o, &pool).is_err());
    }
}

/// What ONNX Runtime makes of NaN, in vectors and in what remains of them.
#[test]
fn nan_gives_the_lowest_value() {
    for (signed, zero_point, low, zero) in [(true, 3, 0x80, 3), (false, 100, 0, 100)] {
        let q = Q8 { signed, zero_point };
        for len in [1, 7, 70] {
            let map = Nhwc::dense(1, 1, len, 1);
            let x: Vec<f32> = (0..len).map(|i| if i % 2 == 0 { f32::NAN } else { 0.0 }).collect();
            let expected: Vec<u8> = (0..len).map(|i| if i % 2 == 0 { low } else { zero }).collect();
            for isa in isas() {
                let mut y = vec![0xEE; len];
                quantize(isa, 0.1, q, Rounding::HalfToEven, &x, map, &mut y, map, &Pool::new(1)).unwrap();
                assert_eq!(expected, y, "{isa:?}");
            }
        }
    }
}

#[test]
fn wide_integers_dequantize_with_one_scale_or_many() {
    let map = Nhwc::dense(1, 3, 5, 19);
    let mut random = Random(67);
    let x: Vec<i32> = (0..map.span()).map(|_| random.next() as i32).collect();
    let scales: Vec<f32> = random.floats(19);
    for isa in isas() {
        for scales in [&scales[..1], &scales[..]] {
            let mut y = vec![0.0; map.span()];
            dequantize_i32(isa, scales, &x, map, &mut y, map, &Pool::new(1)).unwrap();
            for (i, (&x, &y)) in x.iter().zip(&y).enumerate() {
                assert_eq!(y, x as f32 * scales[i % 19 % scales.len()]);
            }
        }
        let mut y = vec![0.0; map.span()];
        assert!(dequantize_i32(isa, &scales[..2], &x, map, &mut y, map, &Pool::new(1)).is_err());
    }
}

/// Dense index of a padded index, or none inside of padding.
fn dense_index(shape: &[usize], padding: &[(usize, usize)], mut index: usize) -> Option<usize> {
    let (mut dense, mut step) = (0, 1);
    for (&extent, &(before, after)) in shape.iter().zip(padding).rev() {
        let at = index % extent;
        index /= extent;
        if at < before || at >= extent - after {
            return None;
        }
        dense += (at - before) * step;
        step *= extent - before - after;
    }
    Some(dense)
}

fn reference(x: f32, scale: f32, q: Q8) -> u8 {
    let [low, high] = q.range();
    let rounded = (x / scale + q.zero_point as f32).round_ties_even();
    if x.is_nan() { q.zero_point as u8 } else { (rounded as i64).clamp(low.into(), high.into()) as u8 }
}

fn check_padding(dense: &[usize], padding: &[(usize, usize)], q: Q8, scale: f32, seed: u64) {
    let shape: Vec<usize> = dense.iter().zip(padding).map(|(d, p)| d + p.0 + p.1).collect();
    let layout = TensorPad::new(&shape, padding, scale, q).unwrap();
    assert_eq!(layout.dense_len(), dense.iter().product::<usize>());
    assert_eq!(layout.padded_len(), shape.iter().product::<usize>());
    let mut random = Random(seed | 1);
    let x = awkward(&mut random, layout.dense_len(), scale);
    let bytes = random.bytes(layout.dense_len());
    let table = layout.table(|byte| f32::from(byte) * 0.01 - 1.0);
    let mut expected = vec![q.zero_point as u8; layout.padded_len()];
    let mut from_bytes = expected.clone();
    let mut real = vec![777.0f32; layout.dense_len()];
    for (at, y) in expected.iter_mut().enumerate() {
        if let Some(from) = dense_index(&shape, padding, at) {
            *y = reference(x[from], scale, q);
            from_bytes[at] = reference(f32::from(bytes[from]) * 0.01 - 1.0, scale, q);
            real[from] = (q.value(*y) - q.zero_point) as f32 * scale;
        }
    }
    for isa in isas() {
        for threads in [1, 2] {
            let pool = Pool::new(threads);
            let mut y = vec![0xEE; layout.padded_len()];
            layout.quantize_f32(isa, &x, &mut y, &pool).unwrap();
            assert_eq!(expected, y, "{isa:?} {dense:?} {padding:?}");
            let mut back = vec![777.0; layout.dense_len()];
            layout.dequantize(isa, &y, &mut back, &pool).unwrap();
            same_bits(&real, &back, "dequantize");
            let mut y = vec![0xEE; layout.padded_len()];
            layout.quantize_u8(isa, &table, &bytes, &mut y, &pool).unwrap();
            assert_eq!(from_bytes, y, "{isa:?} {dense:?} {padding:?}");
        }
    }
    let pool = Pool::new(1);
    let mut y = vec![0; layout.padded_len() + 1];
    assert!(layout.quantize_f32(Isa::best(), &x, &mut y, &pool).is_err());
    let mut back = vec![0.0; layout.dense_len() + 1];
    assert!(layout.dequantize(Isa::best(), &expected, &mut back, &pool).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn padding_of_any_rank(
        axes in prop::collection::vec((0usize..7, 0usize..3, 0usize..3, any::<bool>()), 0..=8),
        zero_point in -128i32..128,
        unsigned in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut dense: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        // Keeps the tensors small.
        for extent in dense.iter_mut().skip(4) {
            *extent = (*extent).min(2);
        }
        let padding: Vec<_> = axes.iter().map(|axis| if axis.3 { (axis.1, axis.2) } else { (0, 0) }).collect();
        let q = Q8 { signed: !unsigned, zero_point: if unsigned { zero_point + 128 } else { zero_point } };
        if dense.iter().zip(&padding).map(|(d, p)| d + p.0 + p.1).product::<usize>() < 20_000 {
            check_padding(&dense, &padding, q, 0.013, seed);
        }
    }
}

#[test]
fn camera_frames() {
    let q = Q8 { signed: true, zero_point: -1 };
    for w in [1, 7, 8, 9, 40, 1400, 2000] {
        check_padding(&[1, 3, w, 3], &[(0, 0), (2, 1), (3, 13), (0, 1)], q, 0.018, w as u64);
    }
    check_padding(&[2, 5, 60, 1], &[(0, 0), (0, 0), (3, 13), (0, 3)], q, 0.018, 3);
    check_padding(&[2, 3, 4, 100], &[(0, 0), (0, 0), (0, 0), (0, 28)], q, 0.018, 3);
    check_padding(&[1, 1, 2, 5000], &[(0, 0), (0, 0), (0, 0), (0, 8)], q, 0.018, 3);
}

#[test]
fn layouts_that_make_no_sense_are_errors() {
    let q = Q8 { signed: true, zero_point: 0 };
    assert!(TensorPad::new(&[4], &[(3, 2)], 1.0, q).is_err());
    assert!(TensorPad::new(&[4, 4], &[(0, 0)], 1.0, q).is_err());
    assert!(TensorPad::new(&[1; 9], &[(0, 0); 9], 1.0, q).is_err());
    assert!(TensorPad::new(&[usize::MAX, 2], &[(0, 0); 2], 1.0, q).is_err());
    assert!(TensorPad::new(&[4], &[(0, 0)], f32::NAN, q).is_err());
    assert!(TensorPad::new(&[4], &[(0, 0)], 1.0, Q8 { signed: true, zero_point: 128 }).is_err());
}

#[test]
fn tensors_that_do_not_fit_say_what_is_there() {
    let differs = |result: Result<(), Error>| match result {
        Err(Error::Mismatch { what, expected, got }) => (what, expected, got),
        other => panic!("{other:?}"),
    };
    let (isa, pool) = (Isa::best(), Pool::new(1));
    let layout = TensorPad::new(&[2, 5], &[(0, 0), (1, 1)], 1.0, Q8 { signed: true, zero_point: 0 }).unwrap();
    let (dense, mut padded) = (vec![0.0; 6], vec![0; 10]);
    assert_eq!(layout.quantize_f32(isa, &dense, &mut padded, &pool), Ok(()));
    assert_eq!(differs(layout.quantize_f32(isa, &dense, &mut padded[1..], &pool)), ("padded tensor", 10, 9));
    let map = Nhwc::dense(1, 1, 2, 3);
    let run =
        |scales: usize| dequantize_i32(isa, &vec![1.0; scales], &[0; 6], map, &mut [0.0; 6], map, &pool);
    assert_eq!([run(1), run(3)], [Ok(()), Ok(())]);
    assert_eq!(differs(run(2)), ("scales", 3, 2));
    assert_eq!(differs(run(4)), ("scales", 3, 4));
}
