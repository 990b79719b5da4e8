//! Pools on every instruction set, against one window at a time.

#[path = "fixtures/average_pool.rs"]
mod averages;

use crate::common::{gapped, indices, isas, same_bits};
use triune_kernels::{
    Isa, Nhwc, Pool, PoolQuant, PoolSpec, Q8, f32_global_pool, f32_pool, q8_global_pool, q8_pool,
};
use triune_tensor::function::PoolKind;
use triune_tensor::{Requantize, Rounding};
use triune_testing::Random;

/// The taps of a window inside of the input, and how many lie inside of the padded input.
fn taps(spec: &PoolSpec, map: Nhwc, oh: usize, ow: usize) -> (Vec<(usize, usize)>, usize) {
    let (mut inside, mut padded) = (Vec::new(), 0);
    for kh in 0..spec.kernel[0] {
        for kw in 0..spec.kernel[1] {
            let h = (oh * spec.stride[0] + kh * spec.dilation[0]) as i64 - spec.pad[0] as i64;
            let w = (ow * spec.stride[1] + kw * spec.dilation[1]) as i64 - spec.pad[1] as i64;
            if h < (map.h + spec.pad[2]) as i64 && w < (map.w + spec.pad[3]) as i64 {
                padded += 1;
            }
            if (0..map.h as i64).contains(&h) && (0..map.w as i64).contains(&w) {
                inside.push((h as usize, w as usize));
            }
        }
    }
    (inside, padded)
}

struct Case {
    spec: PoolSpec,
    in_map: Nhwc,
    out_map: Nhwc,
}

fn cases() -> Vec<Case> {
    let mut random = Random(5);
    let kinds = [
        PoolKind::Max,
        PoolKind::Average { count_include_pad: false },
        PoolKind::Average { count_include_pad: true },
    ];
    let mut cases = Vec::new();
    for round in 0..99 {
        let kernel = [random.between(1, 4), random.between(1, 4)];
        let spec = PoolSpec {
            kernel,
            stride: [random.between(1, 3), random.between(1, 2)],
            dilation: [random.between(1, 2), random.between(1, 2)],
            pad: [random.below(3), random.below(3), random.below(3), random.below(3)],
            kind: kinds[round % 3],
        };
        // Rows long enough for several pixels at a time, too.
        let size = [random.between(1, 9), random.between(1, if round % 4 == 0 { 40 } else { 9 })];
        let extent = |axis: usize| {
            // As many windows as start inside of the padded input: more than without partial windows.
            (size[axis] + spec.pad[axis] + spec.pad[axis + 2]).div_ceil(spec.stride[axis])
        };
        let c = [1, 3, 4, 19, 64, 87, 210, 8, 16, 32, 24][round / 3 % 11];
        let gaps = [[0, 0, 0], [2, 1, 3]][round % 2];
        let in_map = gapped(2, size, c, gaps);
        let out_map = gapped(2, [extent(0), extent(1)], c, [gaps[2], gaps[0], gaps[1]]);
        cases.push(Case { spec, in_map, out_map });
    }
    // Planes, whose columns lie beside each other as channels do: narrower and wider than vectors, windows that are cut on both
    // sides, and one that is all of a plane.
    for round in 0..90 {
        let whole = round % 15 == 0;
        let size = [random.between(1, 6), [1, 2, 5, 9, 16, 17, 31, 33, 64, 70, 150][round % 11]];
        let free = [random.between(1, 3), random.between(1, 4)];
        let spec = PoolSpec {
            kernel: if whole { size } else { free },
            stride: [random.between(1, 2), 1 + round / 3 % 3],
            dilation: if whole { [1; 2] } else { [random.between(1, 2), random.between(1, 2)] },
            pad: if whole { [0; 4] } else { [(); 4].map(|()| random.below(3)) },
            kind: kinds[round % 3],
        };
        let extent = |axis: usize| {
            let all = (size[axis] + spec.pad[axis] + spec.pad[axis + 2]).div_ceil(spec.stride[axis]);
            if whole { 1 } else { all }
        };
        let in_map = Nhwc { stride_h: size[1] + round % 2, ..gapped(3, size, 1, [0; 3]) };
        let in_map = Nhwc { stride_n: in_map.h * in_map.stride_h + 2, ..in_map };
        cases.push(Case { spec, in_map, out_map: gapped(3, [extent(0), extent(1)], 1, [0; 3]) });
    }
    cases
}

#[test]
fn float_pools_equal_one_window_at_a_time() {
    let mut random = Random(11);
    for Case { spec, in_map, out_map } in cases() {
        let x = random.floats(in_map.span());
        let mut expected = vec![777.0f32; out_map.span()];
        for (n, h, w, c) in indices(out_map) {
            let (inside, padded) = taps(&spec, in_map, h, w);
            let values = inside.iter().map(|&(h, w)| x[in_map.offset(n, h, w) + c]);
            expected[out_map.offset(n, h, w) + c] = match spec.kind {
                PoolKind::Max => values.fold(f32::NEG_INFINITY, f32::max),
                PoolKind::Average { count_include_pad } => {
                    let count = if count_include_pad { padded } else { inside.len() };
                    if count == 0 { 0.0 } else { values.fold(0.0, |sum, x| sum + x) / count as f32 }
                }
            };
        }
        for isa in isas() {
            for threads in [1, 2] {
                let mut y = vec![777.0f32; out_map.span()];
                f32_pool(isa, &spec, &x, in_map, &mut y, out_map, &Pool::new(threads)).unwrap();
                same_bits(&expected, &y, &format!("{isa:?} {spec:?} {in_map:?}"));
            }
        }
    }
}

/// Windows of three over planes, whose rows are read once: of numbers that are none, of zeros of either sign, of padding on all sides.
#[test]
fn windows_of_three_equal_one_window_at_a_time() {
    let mut random = Random(17);
    let kinds = [
        PoolKind::Max,
        PoolKind::Average { count_include_pad: false },
        PoolKind::Average { count_include_pad: true },
    ];
    for round in 0..72 {
        let stride = 1 + round / 3 % 2;
        let pad = [(); 4].map(|()| random.below(if round % 8 == 0 { 5 } else { 2 }));
        let spec =
            PoolSpec { kernel: [3; 2], stride: [stride; 2], dilation: [1; 2], pad, kind: kinds[round % 3] };
        let size = [random.between(1, 40), [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 65, 100][round % 12]];
        let extent = |axis: usize| (size[axis] + spec.pad[axis] + spec.pad[axis + 2]).div_ceil(stride);
        let in_map = Nhwc { stride_h: size[1] + round % 2, ..gapped(2, size, 1, [0; 3]) };
        let in_map = Nhwc { stride_n: in_map.h * in_map.stride_h + 2, ..in_map };
        let out_map = gapped(2, [extent(0), extent(1)], 1, [0; 3]);
        let mut x = random.floats(in_map.span());
        if spec.kind == PoolKind::Max && round / 6 % 2 == 0 {
            for x in &mut x {
                *x = [f32::NAN, 0.0, -0.0, f32::NEG_INFINITY][random.below(4)];
            }
        }
        let mut expected = vec![777.0_f32; out_map.span()];
        for (n, h, w, _) in indices(out_map) {
            let (inside, padded) = taps(&spec, in_map, h, w);
            let values = inside.iter().map(|&(h, w)| x[in_map.offset(n, h, w)]);
            expected[out_map.offset(n, h, w)] = match spec.kind {
                // The first of equal ones.
                PoolKind::Max => values.fold(f32::NEG_INFINITY, |most, x| if x > most { x } else { most }),
                PoolKind::Average { count_include_pad } => {
                    let count = if count_include_pad { padded } else { inside.len() };
                    if count == 0 { 0.0 } else { values.fold(0.0, |sum, x| sum + x) / count as f32 }
                }
            };
        }
        for isa in isas() {
            for threads in [1, 2] {
                let mut y = vec![777.0_f32; out_map.span()];
                f32_pool(isa, &spec, &x, in_map, &mut y, out_map, &Pool::new(threads)).unwrap();
                same_bits(&expected, &y, &format!("{isa:?} {spec:?} {in_map:?}"));
            }
        }
    }
}

/// Wherever in a window it stands, and in vectors as in what is left over; a window of NaN alone is as one without elements. Of
/// a whole map it is, wherever it stands.
#[test]
fn nan_is_no_largest_element() {
    let spec =
        PoolSpec { kernel: [2, 2], stride: [2, 2], dilation: [1, 1], pad: [0; 4], kind: PoolKind::Max };
    for c in [1, 4, 19, 64, 87] {
        let (in_map, out_map) = (gapped(1, [4, 2], c, [0; 3]), gapped(1, [2, 1], c, [0; 3]));
        for place in 0..4 {
            let (h, w) = (place / 2, place % 2);
            let mut x = vec![f32::NAN; in_map.span()];
            for (n, row, column, channel) in indices(in_map).filter(|&(_, h, _, _)| h < 2) {
                x[in_map.offset(n, row, column) + channel] =
                    if (row, column) == (h, w) { f32::NAN } else { -7.5 - channel as f32 };
            }
            for isa in isas() {
                let mut y = vec![777.0_f32; out_map.span()];
                f32_pool(isa, &spec, &x, in_map, &mut y, out_map, &Pool::new(1)).unwrap();
                for (n, row, column, channel) in indices(out_map) {
                    let expected = if row == 0 { -7.5 - channel as f32 } else { f32::NEG_INFINITY };
                    assert_eq!(
                        y[out_map.offset(n, row, column) + channel],
                        expected,
                        "{isa:?} {place} of {c}"
                    );
                }
                let mut y = vec![777.0_f32; c];
                let whole = gapped(1, [1, 1], c, [0; 3]);
                f32_global_pool(isa, PoolKind::Max, &x, in_map, &mut y, whole, &Pool::new(1)).unwrap();
                // The whole map has one, and there it wins.
                assert!(y.iter().all(|y| y.is_nan()), "{isa:?} {place} of {c}: {y:?}");
            }
        }
    }
}

#[test]
fn byte_pools_equal_one_window_at_a_time() {
    let mut random = Random(13);
    for (round, Case { spec, in_map, out_map }) in cases().into_iter().enumerate() {
        let q = |signed: bool, zero: i32| Q8 { signed, zero_point: if signed { zero - 128 } else { zero } };
        let input = q(round % 2 == 0, random.below(256) as i32);
        let mut quant = PoolQuant {
            input,
            input_scale: 0.03,
            output: input,
            output_scale: 0.03,
            rounding: Rounding::HalfToEven,
            requantize: Requantize::Float,
        };
        if spec.kind != PoolKind::Max {
            quant.output = q(round % 4 < 2, random.below(256) as i32);
            quant.output_scale = 0.0217;
        }
        let x = random.bytes(in_map.span());
        let mut expected = vec![0xEE; out_map.span()];
        for (n, h, w, c) in indices(out_map) {
            let (inside, _) = taps(&spec, in_map, h, w);
            let values = inside.iter().map(|&(h, w)| input.value(x[in_map.offset(n, h, w) + c]));
            let [low, high] = quant.output.range();
            let whole = spec.kernel == [in_map.h, in_map.w] && spec.pad == [0; 4];
            let y = match spec.kind {
                PoolKind::Max => values.max().unwrap_or(low),
                PoolKind::Average { .. } if whole => {
                    let sum: i32 = values.map(|q| q - input.zero_point).sum();
                    let multiplier = quant.input_scale / (quant.output_scale * inside.len() as f32);
                    let y = (sum as f32 * multiplier).round_ties_even() as i32 + quant.output.zero_point;
                    y.clamp(low, high)
                }
                PoolKind::Average { count_include_pad } => {
                    let all = spec.kernel[0] * spec.kernel[1];
                    let count = if count_include_pad { all } else { inside.len() };
                    let real = |q: i32| (q - input.zero_point) as f32 * quant.input_scale;
                    let mean = values.fold(0.0, |sum, q| sum + real(q)) / count.max(1) as f32;
                    let y = mean / quant.output_scale + quant.output.zero_point as f32;
                    (y.round_ties_even() as i32).clamp(low, high)
                }
            };
            expected[out_map.offset(n, h, w) + c] = y as u8;
        }
        for isa in isas() {
            for threads in [1, 2] {
                let mut y = vec![0xEE; out_map.span()];
                q8_pool(isa, &spec, &quant, &x, in_map, &mut y, out_map, &Pool::new(threads)).unwrap();
                assert_eq!(expected, y, "{isa:?} {spec:?} {in_map:?} {quant:?}");
            }
        }
    }
}

/// With halves away from zero, the integers themselves are averaged, in f64 here, and padding is the zero point.
#[test]
fn byte_averages_half_away_equal_one_window_at_a_time() {
    let mut random = Random(14);
    let mut halves = 0;
    for (round, Case { spec, in_map, out_map }) in cases().into_iter().enumerate() {
        let PoolKind::Average { count_include_pad } = spec.kind else { continue };
        let signed = round % 2 == 0;
        let input = Q8 { signed, zero_point: random.below(256) as i32 - if signed { 128 } else { 0 } };
        let mut quant = PoolQuant {
            input,
            input_scale: 0.03,
            output: input,
            output_scale: 0.03,
            rounding: Rounding::HalfAwayFromZero,
            requantize: Requantize::Float,
        };
        if round % 3 == 0 {
            quant.output = Q8 { zero_point: input.zero_point / 2, ..input };
            quant.output_scale = 0.06;
        }
        let x = random.bytes(in_map.span());
        let mut expected = vec![0xEE; out_map.span()];
        for (n, h, w, c) in indices(out_map) {
            let (inside, _) = taps(&spec, in_map, h, w);
            let all = spec.kernel[0] * spec.kernel[1];
            let count = if count_include_pad { all } else { inside.len() }.max(1);
            let zero = f64::from(input.zero_point);
            let sum: f64 = inside
                .iter()
                .map(|&(h, w)| f64::from(input.value(x[in_map.offset(n, h, w) + c])) - zero)
                .sum();
            let mean = sum / count as f64;
            let y = if quant.output == input { mean + zero } else { mean / 2.0 };
            halves += usize::from(y.fract().abs() == 0.5);
            let behind = if quant.output == input { 0.0 } else { f64::from(quant.output.zero_point) };
            let [low, high] = input.range().map(f64::from);
            expected[out_map.offset(n, h, w) + c] = (y.round() + behind).clamp(low, high) as i32 as u8;
        }
        for isa in isas() {
            for threads in [1, 2] {
                let mut y = vec![0xEE; out_map.span()];
                q8_pool(isa, &spec, &quant, &x, in_map, &mut y, out_map, &Pool::new(threads)).unwrap();
                assert_eq!(expected, y, "{isa:?} {spec:?} {in_map:?} {quant:?}");
            }
        }
    }
    assert!(halves > 100, "{halves} halves");
}

/// With fixed-point factors, sums are exact, in i64 here, and multiplied once.
#[test]
fn byte_averages_of_fixed_point_equal_one_window_at_a_time() {
    let mut random = Random(15);
    for (round, Case { spec, in_map, out_map }) in cases().into_iter().enumerate() {
        let PoolKind::Average { count_include_pad } = spec.kind else { continue };
        let q = |signed: bool, zero: i32| Q8 { signed, zero_point: if signed { zero - 128 } else { zero } };
        let quant = PoolQuant {
            input: q(round % 2 == 0, random.below(256) as i32),
            input_scale: 0.0213,
            output: q(round % 4 < 2, random.below(256) as i32),
            output_scale: 0.017,
            rounding: if round % 3 == 0 { Rounding::HalfAwayFromZero } else { Rounding::HalfToEven },
            requantize: Requantize::Fixed,
        };
        let x = random.bytes(in_map.span());
        let mut expected = vec![0xEE; out_map.span()];
        for (n, h, w, c) in indices(out_map) {
            let (inside, _) = taps(&spec, in_map, h, w);
            let all = spec.kernel[0] * spec.kernel[1];
            let count = if count_include_pad { all } else { inside.len() }.max(1);
            let value = |&(h, w): &(usize, usize)| quant.input.value(x[in_map.offset(n, h, w) + c]);
            let sum: i64 = inside.iter().map(|at| i64::from(value(at) - quant.input.zero_point)).sum();
            // Eight significant bits: the factors here are far above 2⁻¹⁴.
            let exact = quant.input_scale / (quant.output_scale * count as f32);
            let step = 2_f64.powi(f64::from(exact).log2().floor() as i32 - 7);
            let factor = (f64::from(exact) / step).round_ties_even() * step;
            let [low, high] = quant.output.range();
            let y = quant.rounding.round(sum as f32 * factor as f32) as i32 + quant.output.zero_point;
            expected[out_map.offset(n, h, w) + c] = y.clamp(low, high) as u8;
        }
        for isa in isas() {
            for threads in [1, 2] {
                let mut y = vec![0xEE; out_map.span()];
                q8_pool(isa, &spec, &quant, &x, in_map, &mut y, out_map, &Pool::new(threads)).unwrap();
                assert_eq!(expected, y, "{isa:?} {spec:?} {in_map:?} {quant:?}");
            }
        }
        let coarse = PoolQuant { input_scale: 5.0, output_scale: 0.017, ..quant };
        let mut y = vec![0; out_map.span()];
        q8_pool(Isa::Scalar, &spec, &coarse, &x, in_map, &mut y, out_map, &Pool::new(1)).unwrap_err();
    }
}

#[test]
fn global_pools_equal_their_formulas() {
    let mut random = Random(17);
    let average = PoolKind::Average { count_include_pad: false };
    for (c, size, gaps) in [
        (1, [1, 1], [1, 0, 2]),
        (1, [9, 33], [0; 3]),
        (37, [7, 7], [1, 0, 2]),
        (64, [3, 5], [1, 0, 2]),
        (130, [1, 9], [1, 0, 2]),
    ] {
        let in_map = gapped(2, size, c, gaps);
        let out_map = gapped(2, [1, 1], c, [0, 0, 3]);
        let x = random.bytes(in_map.span());
        let floats = random.floats(in_map.span());
        let quant = PoolQuant {
            input: Q8 { signed: true, zero_point: -3 },
            input_scale: 0.013,
            output: Q8 { signed: false, zero_point: 120 },
            output_scale: 0.0031,
            rounding: Rounding::HalfToEven,
            requantize: Requantize::Float,
        };
        let count = size[0] * size[1];
        let mut expected = vec![0xEE; out_map.span()];
        let mut expected_floats = vec![777.0f32; out_map.span()];
        for (n, _, _, c) in indices(out_map) {
            let (mut sum, mut total) = (0, 0.0f32);
            for h in 0..size[0] {
                let mut row = 0.0f32;
                for w in 0..size[1] {
                    let at = in_map.offset(n, h, w) + c;
                    sum += i32::from(x[at] as i8) + 3;
                    row += floats[at];
                }
                total += row;
            }
            let multiplier = quant.input_scale / (quant.output_scale * count as f32);
            let y = (sum as f32 * multiplier).round_ties_even() as i32 + 120;
            expected[out_map.offset(n, 0, 0) + c] = y.clamp(0, 255) as u8;
            expected_floats[out_map.offset(n, 0, 0) + c] = total / count as f32;
        }
        for isa in isas() {
            let pool = Pool::new(2);
            let mut y = vec![0xEE; out_map.span()];
            q8_global_pool(isa, average, &quant, &x, in_map, &mut y, out_map, &pool).unwrap();
            assert_eq!(expected, y, "{isa:?}");
            let mut y = vec![777.0; out_map.span()];
            f32_global_pool(isa, average, &floats, in_map, &mut y, out_map, &pool).unwrap();
            same_bits(&expected_floats, &y, "global average");
            let mut largest = vec![777.0; out_map.span()];
            f32_global_pool(isa, PoolKind::Max, &floats, in_map, &mut largest, out_map, &pool).unwrap();
            assert!(largest.iter().zip(&y).all(|(max, mean)| max >= mean));
        }
    }
}

/// Windows 3×3, stride 2, padding 1 over one channel of 5×7, as ONNX Runtime 1.31 computes them.
#[test]
fn averages_round_as_the_reference() {
    for case in averages::CASES {
        let spec = PoolSpec {
            kernel: [3, 3],
            stride: [2, 2],
            dilation: [1, 1],
            pad: [1; 4],
            kind: PoolKind::Average { count_include_pad: case.include_pad },
        };
        let quant = PoolQuant {
            input: Q8 { signed: case.signed, zero_point: case.input.1 },
            input_scale: case.input.0,
            output: Q8 { signed: case.signed, zero_point: case.output.1 },
            output_scale: case.output.0,
            rounding: Rounding::HalfToEven,
            requantize: Requantize::Float,
        };
        for isa in isas() {
            let mut y = [0; 12];
            let (i, o) = (Nhwc::dense(1, 5, 7, 1), Nhwc::dense(1, 3, 4, 1));
            q8_pool(isa, &spec, &quant, &case.x, i, &mut y, o, &Pool::new(1)).unwrap();
            assert_eq!(case.y, y, "{isa:?}");
        }
    }
}

/// A window over the whole map rounds as a global pool, at any stride.
#[test]
fn averages_of_whole_maps_round_as_the_reference() {
    for case in averages::WHOLE {
        for (stride, include_pad) in [([1, 1], case.include_pad), ([2, 3], true)] {
            let kind = PoolKind::Average { count_include_pad: include_pad };
            let spec = PoolSpec { kernel: [2, 2], stride, dilation: [1, 1], pad: [0; 4], kind };
            let quant = PoolQuant {
                input: Q8 { signed: case.signed, zero_point: case.input.1 },
                input_scale: case.input.0,
                output: Q8 { signed: case.signed, zero_point: case.output.1 },
                output_scale: case.output.0,
                rounding: Rounding::HalfToEven,
                requantize: Requantize::Float,
            };
            for isa in isas() {
                let mut y = [0; 16];
                let (i, o) = (Nhwc::dense(1, 2, 2, 16), Nhwc::dense(1, 1, 1, 16));
                q8_pool(isa, &spec, &quant, &case.x, i, &mut y, o, &Pool::new(1)).unwrap();
                assert_eq!(case.y, y, "{isa:?}");
            }
        }
    }
}

#[test]
fn misfits_are_errors() {
    let spec =
        PoolSpec { kernel: [2, 2], stride: [2, 2], dilation: [1, 1], pad: [0; 4], kind: PoolKind::Max };
    let (i, o) = (Nhwc::dense(1, 4, 4, 3), Nhwc::dense(1, 2, 2, 3));
    let (x, mut y) = (vec![0.0; 48], vec![0.0; 12]);
    let pool = Pool::new(1);
    let isa = Isa::best();
    f32_pool(isa, &spec, &x, i, &mut y, o, &pool).unwrap();
    assert!(f32_pool(isa, &spec, &x[1..], i, &mut y, o, &pool).is_err());
    assert!(f32_pool(isa, &spec, &x, i, &mut y[1..], o, &pool).is_err());
    assert!(f32_pool(isa, &spec, &x, i, &mut y, Nhwc { c: 2, ..o }, &pool).is_err());
    let mut more = vec![0.0; 100];
    assert!(f32_pool(isa, &spec, &x, i, &mut more, Nhwc::dense(1, 3, 2, 3), &pool).is_err());
    assert!(f32_pool(isa, &PoolSpec { stride: [0, 1], ..spec }, &x, i, &mut y, o, &pool).is_err());
    assert!(f32_pool(isa, &PoolSpec { pad: [usize::MAX; 4], ..spec }, &x, i, &mut y, o, &pool).is_err());
    let empty = Nhwc::dense(0, 4, 4, 3);
    f32_pool(isa, &spec, &[], empty, &mut [], Nhwc::dense(0, 2, 2, 3), &pool).unwrap();
}

#[test]
fn means_of_whole_planes_are_summed_row_by_row() {
    let mut random = Random(17);
    for h in (1..=18).chain([40]) {
        for w in (1..=18).chain([28, 33, 100]) {
            let planes = if h * w <= 400 { 35 } else { 3 };
            let (in_map, out_map) = (Nhwc::dense(planes, h, w, 1), Nhwc::dense(planes, 1, 1, 1));
            let x = random.floats(in_map.span());
            let largest: Vec<f32> = x
                .chunks(h * w)
                .map(|plane| plane.iter().copied().fold(f32::NEG_INFINITY, f32::max))
                .collect();
            let sum = |elements: &[f32]| elements.iter().fold(0.0, |sum, x| sum + x);
            let mean = |plane: &[f32]| sum(&plane.chunks(w).map(sum).collect::<Vec<_>>()) / (h * w) as f32;
            let expected: Vec<f32> = x.chunks(h * w).map(mean).collect();
            let kind = PoolKind::Average { count_include_pad: false };
            for isa in isas() {
                let mut y = vec![777.0; planes];
                f32_global_pool(isa, kind, &x, in_map, &mut y, out_map, &Pool::new(2)).unwrap();
                same_bits(&expected, &y, &format!("{isa:?} {h} × {w}"));
                f32_global_pool(isa, PoolKind::Max, &x, in_map, &mut y, out_map, &Pool::new(2)).unwrap();
                same_bits(&largest, &y, &format!("largest, {isa:?} {h} × {w}"));
            }
        }
    }
}
