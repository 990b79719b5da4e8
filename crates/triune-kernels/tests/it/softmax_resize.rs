//! Softmax and resampling, against f64 and against numbers of ONNX Runtime.

#[path = "fixtures/softmax.rs"]
mod pinned;
#[path = "fixtures/resize.rs"]
mod resized;

use crate::common::{gapped, indices, isas, same_bits};
use triune_kernels::{
    AxisShape, Isa, Nhwc, Pool, Q8, QSoftmax, Resizable, Resize, ResizeSpec, log_softmax, softmax,
};
use triune_tensor::function::{CoordinateMode, NearestMode, ResizeMode};
use triune_testing::Random;

#[test]
fn softmax_is_accurate_and_independent_of_layout_and_machine() {
    let mut random = Random(71);
    for (outer, len, inner) in EXTENTS {
        let shape = AxisShape { outer, len, inner };
        let x: Vec<f32> = random.floats(outer * len * inner).iter().map(|x| x * 30.0).collect();
        let mut first = None;
        for isa in isas() {
            let mut y = vec![0.0; x.len()];
            softmax(isa, shape, &x, &mut y, &Pool::new(2)).unwrap();
            for o in 0..outer {
                for i in 0..inner {
                    let at = |t: usize| (o * len + t) * inner + i;
                    let largest = (0..len).map(|t| x[at(t)]).fold(f32::NEG_INFINITY, f32::max);
                    let exponential = |t: usize| f64::from(x[at(t)] - largest).exp();
                    let sum: f64 = (0..len).map(exponential).sum();
                    let row: Vec<f32> = (0..len).map(|t| x[at(t)]).collect();
                    let mut flat = vec![0.0; len];
                    let flat_shape = AxisShape { outer: 1, len, inner: 1 };
                    softmax(Isa::Scalar, flat_shape, &row, &mut flat, &Pool::new(1)).unwrap();
                    for t in 0..len {
                        let exact = exponential(t) / sum;
                        assert!((f64::from(y[at(t)]) - exact).abs() <= 1e-6 * exact + 1e-40);
                        assert_eq!(flat[t].to_bits(), y[at(t)].to_bits());
                    }
                }
            }
            same_bits(first.get_or_insert_with(|| y.clone()), &y, "softmax");
        }
    }
    let shape = AxisShape { outer: 1, len: 4, inner: 1 };
    assert!(softmax(Isa::best(), shape, &[0.0; 3], &mut [0.0; 4], &Pool::new(1)).is_err());
    assert!(softmax(Isa::best(), shape, &[0.0; 4], &mut [0.0; 3], &Pool::new(1)).is_err());
    let huge = AxisShape { outer: usize::MAX, len: 4, inner: 1 };
    assert!(softmax(Isa::best(), huge, &[0.0; 4], &mut [0.0; 4], &Pool::new(1)).is_err());
}

/// Rows of few elements and of many, fewer and more of them than are gone over at once, and columns.
const EXTENTS: [(usize, usize, usize); 13] = [
    (3, 1, 1),
    (37, 2, 1),
    (2, 10, 1),
    (16, 15, 1),
    (33, 16, 1),
    (21, 17, 1),
    (9, 100, 1),
    (5, 1000, 1),
    (2, 21, 7),
    (3, 33, 40),
    (2, 2, 50),
    (0, 4, 1),
    (1, 0, 3),
];

/// Against f64, in rows and in columns, with elements so far below the largest that their shares are 0.
#[test]
fn logarithms_of_a_softmax_are_accurate_and_independent_of_layout_and_machine() {
    let mut random = Random(72);
    for (outer, len, inner) in EXTENTS {
        let shape = AxisShape { outer, len, inner };
        let x: Vec<f32> = random.floats(outer * len * inner).iter().map(|x| x * 300.0).collect();
        let mut first = None;
        for (isa, threads) in isas().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
            let mut y = vec![0.0; x.len()];
            log_softmax(isa, shape, &x, &mut y, &Pool::new(threads)).unwrap();
            for o in 0..outer {
                for i in 0..inner {
                    let at = |t: usize| (o * len + t) * inner + i;
                    let largest = (0..len).map(|t| x[at(t)]).fold(f32::NEG_INFINITY, f32::max);
                    let difference = |t: usize| f64::from(x[at(t)]) - f64::from(largest);
                    let sum: f64 = (0..len).map(|t| difference(t).exp()).sum();
                    for t in 0..len {
                        let exact = difference(t) - sum.ln();
                        assert!((f64::from(y[at(t)]) - exact).abs() <= 2e-7 * (1.0 + exact.abs()), "{exact}");
                    }
                }
            }
            same_bits(first.get_or_insert_with(|| y.clone()), &y, "logarithms");
        }
    }
    let shape = AxisShape { outer: 1, len: 4, inner: 1 };
    assert!(log_softmax(Isa::best(), shape, &[0.0; 3], &mut [0.0; 4], &Pool::new(1)).is_err());
}

#[test]
fn quantized_softmax_equals_the_reference() {
    for case in pinned::CASES {
        let output = Q8 { signed: case.signed, zero_point: case.output.1 };
        let len = case.x.len();
        let softmax = QSoftmax::new(len, case.input_scale, output, case.output.0).unwrap();
        let mut y = vec![0xEE; len];
        softmax
            .run(Isa::best(), AxisShape { outer: 1, len, inner: 1 }, case.x, &mut y, &Pool::new(1))
            .unwrap();
        assert_eq!(case.y, y, "scale {} {output:?} {:?}", case.input_scale, case.x);
        // The same rows as columns.
        let x: Vec<u8> = case.x.iter().flat_map(|&x| [x; 3]).collect();
        let mut columns = vec![0; 3 * len];
        softmax
            .run(Isa::best(), AxisShape { outer: 1, len, inner: 3 }, &x, &mut columns, &Pool::new(1))
            .unwrap();
        assert!(columns.chunks(3).zip(&y).all(|(three, &y)| three == [y; 3]));
        assert!(
            softmax
                .run(Isa::best(), AxisShape { outer: 1, len: len + 1, inner: 1 }, &x, &mut y, &Pool::new(1))
                .is_err()
        );
    }
}

/// Steps so small that the reference's exponentials times their number would be infinite.
#[test]
fn quantized_softmax_has_any_number_of_steps() {
    let x: Vec<u8> = (0..12).map(|i| 200 + i).collect();
    let powers: Vec<f64> = x.iter().map(|&x| (f64::from(x) * 0.05).exp()).collect();
    let sum: f64 = powers.iter().sum();
    for steps in [257.0_f32, 300.0, 1024.0, 1700.0, 5000.0, 1e6, 1e30] {
        for signed in [false, true] {
            let output = Q8 { signed, zero_point: if signed { -128 } else { 0 } };
            let bytes: Vec<u8> = x.iter().map(|&x| if signed { x ^ 0x80 } else { x }).collect();
            let mut y = vec![0; x.len()];
            let softmax = QSoftmax::new(x.len(), 0.05, output, 1.0 / steps).unwrap();
            softmax
                .run(
                    Isa::best(),
                    AxisShape { outer: 1, len: x.len(), inner: 1 },
                    &bytes,
                    &mut y,
                    &Pool::new(1),
                )
                .unwrap();
            for (y, power) in y.iter().zip(&powers) {
                let exact = (power / sum * f64::from((1.0 / (1.0 / steps)).floor())).min(255.0);
                let got = f64::from(if signed { y ^ 0x80 } else { *y });
                assert!((got - exact).abs() <= 0.501, "{steps} steps: {got}, {exact}");
            }
        }
    }
    // The reciprocal of the smallest scale is no f32.
    let smallest = QSoftmax::new(2, 0.05, Q8 { signed: false, zero_point: 0 }, f32::from_bits(1)).unwrap();
    let mut y = [0; 2];
    smallest
        .run(Isa::best(), AxisShape { outer: 1, len: 2, inner: 1 }, &[9, 200], &mut y, &Pool::new(1))
        .unwrap();
    assert_eq!(y, [255; 2]);
}

/// Many rows at a time give what each gives as a column, on every machine.
#[test]
fn quantized_softmax_is_independent_of_layout_and_machine() {
    let mut random = Random(73);
    for (outer, len) in [(1, 1), (7, 3), (67, 2), (8, 40), (17, 64), (9, 65), (19, 197), (33, 256), (9, 700)]
    {
        for signed in [false, true] {
            let output = Q8 { signed, zero_point: if signed { -128 } else { 7 } };
            let softmax = QSoftmax::new(len, 0.07, output, 1.0 / 256.0).unwrap();
            let x = random.bytes(outer * len);
            let columns: Vec<u8> = (0..outer * len).map(|at| x[at % outer * len + at / outer]).collect();
            let (mut turned, pool) = (vec![0; outer * len], Pool::new(2));
            let shape = AxisShape { outer: 1, len, inner: outer };
            softmax.run(Isa::Scalar, shape, &columns, &mut turned, &pool).unwrap();
            for isa in isas() {
                let mut y = vec![0; outer * len];
                softmax.run(isa, AxisShape { outer, len, inner: 1 }, &x, &mut y, &pool).unwrap();
                for (at, &y) in y.iter().enumerate() {
                    assert_eq!(
                        y,
                        turned[at % len * outer + at / len],
                        "{isa:?}, {outer}×{len}, element {at}"
                    );
                }
            }
        }
    }
}

/// The ONNX definition of a coordinate, in f64.
fn coordinate(mode: CoordinateMode, x: usize, input: usize, output: usize) -> f64 {
    let (x, i, o) = (x as f64, input as f64, output as f64);
    match mode {
        CoordinateMode::Asymmetric => x * i / o,
        CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners if output == 1 => 0.0,
        CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel => (x + 0.5) * i / o - 0.5,
        CoordinateMode::AlignCorners => x * (i - 1.0) / (o - 1.0),
    }
}

const COORDINATES: [CoordinateMode; 4] = [
    CoordinateMode::Asymmetric,
    CoordinateMode::HalfPixel,
    CoordinateMode::PytorchHalfPixel,
    CoordinateMode::AlignCorners,
];

#[test]
fn nearest_takes_the_defined_neighbour() {
    let mut random = Random(73);
    for (input, output) in [
        ([4, 6], [8, 12]),
        ([3, 5], [9, 20]),
        ([2, 4], [4, 12]),
        ([8, 8], [4, 2]),
        ([1, 5], [3, 1]),
        ([5, 3], [5, 6]),
        ([16, 2], [4, 8]),
    ] {
        for coordinates in COORDINATES {
            for nearest in [
                NearestMode::Floor,
                NearestMode::Ceil,
                NearestMode::RoundPreferFloor,
                NearestMode::RoundPreferCeil,
            ] {
                let mode = ResizeMode::Nearest(nearest);
                let resize =
                    Resize::new(&ResizeSpec { mode, coordinates, input, output, scales: None }).unwrap();
                // Pixels of several channels, and planes.
                for (channels, gaps) in [(5, [[1, 0, 2], [0, 3, 1]]), (1, [[0, 2, 1], [0, 0, 4]])] {
                    let (i, o) = (gapped(2, input, channels, gaps[0]), gapped(2, output, channels, gaps[1]));
                    let x = random.bytes(i.span());
                    let mut y = vec![0xEE; o.span()];
                    resize.run_nearest(&x, i, &mut y, o, &Pool::new(2)).unwrap();
                    let mut expected = vec![0xEE; o.span()];
                    for (n, h, w, c) in indices(o) {
                        let pick = |axis: usize, at: usize| {
                            let x = coordinate(coordinates, at, input[axis], output[axis]);
                            let x = match nearest {
                                NearestMode::Floor => x.floor(),
                                NearestMode::Ceil => x.ceil(),
                                NearestMode::RoundPreferFloor if x.fract().abs() == 0.5 => x.floor(),
                                NearestMode::RoundPreferCeil if x.fract().abs() == 0.5 => x.ceil(),
                                _ => x.round(),
                            };
                            x.clamp(0.0, (input[axis] - 1) as f64) as usize
                        };
                        expected[o.offset(n, h, w) + c] = x[i.offset(n, pick(0, h), pick(1, w)) + c];
                    }
                    assert_eq!(expected, y, "{coordinates:?} {nearest:?} {input:?} {output:?}");
                }
            }
        }
    }
}

#[test]
fn nearest_rounds_as_the_reference() {
    for case in resized::CASES {
        let (input, output) = (case.input, case.columns.len());
        let spec = ResizeSpec {
            mode: ResizeMode::Nearest(case.nearest),
            coordinates: case.coordinates,
            input: [1, input],
            output: [1, output],
            scales: case.scale.map(|scale| [1.0, scale]),
        };
        let x: Vec<u64> = (0..input as u64).collect();
        let (i, o) = (Nhwc::dense(1, 1, input, 1), Nhwc::dense(1, 1, output, 1));
        let mut y = vec![0; output];
        Resize::new(&spec).unwrap().run_nearest(&x, i, &mut y, o, &Pool::new(1)).unwrap();
        assert!(case.columns.iter().copied().eq(y.iter().map(|&y| y as usize)), "{spec:?}");
    }
}

/// Planes of elements of every size whose rows and columns are repeated, shorter and longer than vectors, dense or with gaps.
#[test]
fn planes_repeat_elements_of_every_size() {
    fn check<T: Resizable + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T) {
        for (width, times, gap) in triples(&[1, 7, 16, 17, 40], &[1, 2, 3, 4, 5], &[0, 3]) {
            let (height, out) = (3, [3 * times, width * times]);
            let spec = ResizeSpec {
                mode: ResizeMode::Nearest(NearestMode::Floor),
                coordinates: CoordinateMode::Asymmetric,
                input: [height, width],
                output: out,
                scales: None,
            };
            let from = Nhwc::dense(2, height, width, 1);
            let mut to = Nhwc::dense(2, out[0], out[1], 1);
            (to.stride_h, to.stride_n) = (out[1] + gap, (out[1] + gap) * out[0]);
            let x: Vec<T> = (0..from.span()).map(|at| make(at * 37 + 5)).collect();
            let mut y = vec![make(0); to.span()];
            Resize::new(&spec).unwrap().run_nearest(&x, from, &mut y, to, &Pool::new(2)).unwrap();
            for (n, h, w) in triples(&[0, 1], &up_to(out[0]), &up_to(out[1])) {
                assert_eq!(y[to.offset(n, h, w)], x[from.offset(n, h / times, w / times)], "{spec:?} {gap}");
            }
        }
    }
    check(|at| at as u8);
    check(|at| at as u16);
    check(|at| at as u32);
    check(|at| at as u64);
    check(|at| at as f32);
}

fn up_to(count: usize) -> Vec<usize> {
    (0..count).collect()
}

/// All triples.
fn triples(a: &[usize], b: &[usize], c: &[usize]) -> Vec<(usize, usize, usize)> {
    let pairs = a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| c.iter().map(move |&c| (a, b, c))).collect()
}

/// A map of one column or row: the stride that says nothing may be anything.
#[test]
fn one_column_has_all_its_channels() {
    let mut random = Random(83);
    let spec = |mode, output| ResizeSpec {
        mode,
        coordinates: CoordinateMode::HalfPixel,
        input: [4, 5],
        output,
        scales: None,
    };
    let nearest = ResizeMode::Nearest(NearestMode::Floor);
    for c in [1, 3, 4, 19, 40] {
        let from = Nhwc::dense(2, 4, 5, c);
        let x = random.floats(from.span());
        for output in [[3, 1], [1, 1], [1, 3]] {
            let dense = Nhwc::dense(2, output[0], output[1], c);
            for mode in [nearest, ResizeMode::Linear] {
                let resize = Resize::new(&spec(mode, output)).unwrap();
                // Channel by channel, where no stride is needed.
                let mut expected = vec![0.0; dense.span()];
                for channel in 0..c {
                    let plane: Vec<f32> = x.iter().skip(channel).step_by(c).copied().collect();
                    let mut y = vec![0.0; 2 * output[0] * output[1]];
                    let (i, o) = (Nhwc::dense(2, 4, 5, 1), Nhwc::dense(2, output[0], output[1], 1));
                    resize.run_f32(Isa::Scalar, &plane, i, &mut y, o, &Pool::new(1)).unwrap();
                    for (at, y) in y.into_iter().enumerate() {
                        expected[at * c + channel] = y;
                    }
                }
                for stride in [0, 1, c, 1 << 40] {
                    let mut map = dense;
                    if output[1] == 1 {
                        map.stride_w = stride;
                    }
                    if output[0] == 1 {
                        map.stride_h = stride;
                    }
                    for isa in isas() {
                        let mut y = vec![777.0; map.span()];
                        resize.run_f32(isa, &x, from, &mut y, map, &Pool::new(2)).unwrap();
                        same_bits(&expected, &y, &format!("{isa:?} {mode:?} {output:?} stride {stride}"));
                    }
                }
            }
        }
    }
}

#[test]
fn linear_interpolates_between_the_defined_neighbours() {
    let mut random = Random(79);
    for (input, output) in [([4, 6], [8, 12]), ([8, 9], [3, 5]), ([1, 5], [3, 1]), ([5, 3], [5, 7])] {
        for coordinates in COORDINATES {
            let spec = ResizeSpec { mode: ResizeMode::Linear, coordinates, input, output, scales: None };
            let resize = Resize::new(&spec).unwrap();
            let (i, o) = (gapped(2, input, 19, [1, 0, 2]), gapped(2, output, 19, [0, 3, 1]));
            let x = random.floats(i.span());
            let mut first = None;
            for isa in isas() {
                let mut y = vec![777.0; o.span()];
                resize.run_f32(isa, &x, i, &mut y, o, &Pool::new(2)).unwrap();
                let mut touched = 0;
                for (n, h, w, c) in indices(o) {
                    let taps = |axis: usize, at: usize| {
                        let last = input[axis] - 1;
                        let x =
                            coordinate(coordinates, at, input[axis], output[axis]).clamp(0.0, last as f64);
                        (x.floor() as usize, (x.floor() as usize + 1).min(last), x.fract())
                    };
                    let ((top, bottom, down), (left, right, along)) = (taps(0, h), taps(1, w));
                    let value = |h, w| f64::from(x[i.offset(n, h, w) + c]);
                    let row = |h| value(h, left) * (1.0 - along) + value(h, right) * along;
                    let exact = row(top) * (1.0 - down) + row(bottom) * down;
                    let got = y[o.offset(n, h, w) + c];
                    assert!((f64::from(got) - exact).abs() < 2e-6, "{coordinates:?} {exact} {got}");
                    touched += 1;
                }
                assert_eq!(y.iter().filter(|&&y| y == 777.0).count(), o.span() - touched);
                same_bits(first.get_or_insert_with(|| y.clone()), &y, "linear");
            }
            assert!(resize.run_nearest(&x, i, &mut vec![0.0; o.span()], o, &Pool::new(1)).is_err());
            assert!(
                resize.run_f32(Isa::best(), &x[1..], i, &mut vec![0.0; o.span()], o, &Pool::new(1)).is_err()
            );
            let other = Nhwc { h: o.h + 1, ..o };
            assert!(resize.run_f32(Isa::best(), &x, i, &mut vec![0.0; 9999], other, &Pool::new(1)).is_err());
        }
    }
    let spec = ResizeSpec {
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        input: [0, 3],
        output: [2, 2],
        scales: None,
    };
    assert!(Resize::new(&spec).is_err());
    assert!(Resize::new(&ResizeSpec { input: [1, 3], scales: Some([0.0, 1.0]), ..spec }).is_err());
}
