//! Commands whose operands are computed: products, running and weighted sums, scales. Against plain loops.

use crate::common::{Bench, Constants, INPUT, OUTPUT, input, output};
use triune_device::{
    Addr, Command,
    command::{IMatMul, QMatMul, QuantizeBy, RequantTarget, Running, TMatMul, Weigh},
};
use triune_kernels::Isa;
use triune_tensor::{DType, Rounding};
use triune_testing::Random;

/// Runs one command on `x` and gives `len` bytes of output.
fn run(command: impl Into<Command>, constants: &Constants, x: &[u8], len: usize) -> Vec<u8> {
    let bench = Bench::alone(&[command.into()], constants, [4096, x.len() as u64, len as u64]);
    bench.write(INPUT, 0, x);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    executor.run(&triune_kernels::Pool::new(2), None).expect("runs");
    bench.read(OUTPUT, 0, len)
}

/// Sums of 32 bits, with a matrix that comes with the program and one that does not, as integers and times factors.
#[test]
fn products_of_bytes_by_computed_zero_points() {
    let mut random = Random(21);
    let (batch, m, n, k) = (2_usize, 3_usize, 37_usize, 21_usize);
    let (a, b) = (random.bytes(batch * m * k), random.bytes(k * n));
    let (a_zeros, b_zeros, scales) = (random.bytes(m), random.bytes(n), random.floats(n));
    let turned: Vec<u8> = (0..k * n).map(|at| b[at % k * n + at / k]).collect();
    let mut data = Vec::new();
    let mut place = |bytes: &[u8]| {
        data.resize(data.len().next_multiple_of(64), 0);
        data.extend(bytes);
        Addr::new(INPUT, (data.len() - bytes.len()) as u64)
    };
    let [a_at, b_at, a_zeros_at, b_zeros_at] = [&a, &b, &a_zeros, &b_zeros].map(|bytes| place(bytes));
    let scales_at = place(&scales.iter().flat_map(|scale| scale.to_le_bytes()).collect::<Vec<_>>());
    let mut constants = Constants::default();
    let weights = constants.add(turned);
    for code in 0..8 {
        let (known, real, one) = (code & 1 == 1, code & 2 == 2, code & 4 == 4);
        let command = IMatMul {
            batch: batch as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            a: a_at,
            a_dtype: DType::U8,
            b: (!known).then_some(b_at),
            weights: known.then_some(weights),
            b_dtype: DType::I8,
            shared_b: true,
            a_zeros: Some(a_zeros_at),
            b_zeros: Some(b_zeros_at),
            scales: real.then_some(scales_at),
            counts: if one { [1, 1, 1] } else { [m as u32, n as u32, n as u32] },
            output: Addr::new(OUTPUT, 0),
        };
        let got = run(command, &constants, &data, 4 * batch * m * n);
        for (at, got) in got.chunks_exact(4).enumerate() {
            let (image, row, column) = (at / (m * n), at / n % m, at % n);
            let (a0, b0) = (a_zeros[if one { 0 } else { row }], b_zeros[if one { 0 } else { column }]);
            let term = |i: usize| {
                let left = i32::from(a[(image * m + row) * k + i]) - i32::from(a0);
                left * (i32::from(b[i * n + column].cast_signed()) - i32::from(b0.cast_signed()))
            };
            let sum: i32 = (0..k).map(term).sum();
            let got = <[u8; 4]>::try_from(got).expect("four bytes");
            if real {
                assert_eq!(
                    f32::from_le_bytes(got),
                    sum as f32 * scales[if one { 0 } else { column }],
                    "{code} {at}"
                );
            } else {
                assert_eq!(i32::from_le_bytes(got), sum, "{code} {at}");
            }
        }
    }
}

#[test]
fn products_of_numbers() {
    let whole: Vec<i64> = (0..2 * 3 * 4).map(|at| at * at - 40).collect();
    let reals: Vec<f64> = whole.iter().map(|&value| value as f64 / 4.0).collect();
    let bytes: [Vec<u8>; 2] = [
        whole.iter().flat_map(|value| value.to_le_bytes()).collect(),
        reals.iter().flat_map(|value| value.to_le_bytes()).collect(),
    ];
    // Two products of 3 × 4 and 4 × 3, the second operand the first's elements, all its own or shared.
    for (dtype, bytes) in [DType::I64, DType::F64].into_iter().zip(&bytes) {
        for shared_b in [false, true] {
            let (a, output) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            let command = TMatMul { dtype, batch: 2, m: 3, n: 3, k: 4, a, b: a, shared_b, output };
            let got = run(command, &Constants::default(), bytes, 8 * 18);
            for (at, got) in got.as_chunks::<8>().0.iter().enumerate() {
                let (image, row, column) = (at / 9, at / 3 % 3, at % 3);
                let other = if shared_b { 0 } else { image };
                let pairs = (0..4).map(|i| ((image * 3 + row) * 4 + i, (other * 4 + i) * 3 + column));
                if dtype == DType::I64 {
                    let sum: i64 = pairs.map(|(a, b)| whole[a] * whole[b]).sum();
                    assert_eq!(i64::from_le_bytes(*got), sum);
                } else {
                    let sum: f64 = pairs.map(|(a, b)| reals[a] * reals[b]).sum();
                    assert_eq!(f64::from_le_bytes(*got), sum);
                }
            }
        }
    }
}

#[test]
fn quantizing_by_what_is_computed() {
    let x = [-1000.0_f32, -0.26, -0.25, 0.0, 0.25, 0.75, 1.5, 1000.0, f32::NAN];
    for (scale, zero_point) in [(0.5_f32, 3_u8), (0.0, 7), (f32::NAN, 9), (f32::INFINITY, 100)] {
        let mut data: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        data.extend(scale.to_le_bytes());
        data.push(zero_point);
        let command = QuantizeBy {
            input: input(DType::F32, [1, 1, 1, 9]),
            output: output(DType::U8, [1, 1, 1, 9]),
            scale: Addr::new(INPUT, 36),
            zero_point: Some(Addr::new(INPUT, 40)),
            rounding: Rounding::HalfToEven,
        };
        let wanted = x.map(|x| {
            let quotient = x / scale;
            let integer = quotient.round_ties_even() + f32::from(zero_point);
            if quotient.is_nan() { 0 } else { integer.clamp(0.0, 255.0) as u8 }
        });
        assert_eq!(run(command, &Constants::default(), &data, 9), wanted, "{scale}");
    }
}

#[test]
fn weighted_sums_of_picked_elements() {
    let x: Vec<f32> = (0..2 * 5 * 4).map(|at| at as f32 / 2.0 - 3.0).collect();
    let indices = [0_i32, 3, -1, 2, 1, 1, -1, -1, 3, 0, 2, 2];
    let factors: Vec<f32> = (0..12).map(|at| 0.25 * at as f32 - 1.0).collect();
    let mut data: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    data.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
    data.extend(factors.iter().flat_map(|factor| factor.to_le_bytes()));
    for (shared, weighted) in [(false, false), (false, true), (true, true)] {
        let command = Weigh {
            batch: 2,
            channels: 5,
            elements: 4,
            count: 3,
            taps: 2,
            shared,
            input: Addr::new(INPUT, 0),
            indices: Addr::new(INPUT, 160),
            factors: weighted.then_some(Addr::new(INPUT, 208)),
            output: Addr::new(OUTPUT, 0),
        };
        let got = run(command, &Constants::default(), &data, 4 * 30);
        for (at, got) in got.as_chunks::<4>().0.iter().enumerate() {
            let (row, place) = (at / 3, at % 3);
            let first = if shared { 0 } else { row / 5 * 6 };
            let terms = [first + place, first + 3 + place].into_iter().filter(|&at| indices[at] >= 0);
            let wanted: f32 = terms
                .map(|at| (if weighted { factors[at] } else { 1.0 }) * x[row * 4 + indices[at] as usize])
                .sum();
            assert_eq!(f32::from_le_bytes(*got), wanted, "{at}");
        }
    }
}

#[test]
fn running_sums_and_products() {
    // Two rows of three pairs.
    let x: [i32; 12] = [1, 10, 2, 20, 3, 30, -1, 5, 4, 6, 7, 8];
    let data: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let wanted = [
        ([false; 3], [1, 10, 3, 30, 6, 60, -1, 5, 3, 11, 10, 19]),
        ([false, true, false], [0, 0, 1, 10, 3, 30, 0, 0, -1, 5, 3, 11]),
        ([false, false, true], [6, 60, 5, 50, 3, 30, 10, 19, 11, 14, 7, 8]),
        ([true, false, false], [1, 10, 2, 200, 6, 6000, -1, 5, -4, 30, -28, 240]),
        ([true, true, true], [6, 600, 3, 30, 1, 1, 28, 48, 7, 8, 1, 1]),
    ];
    for ([product, exclusive, reverse], wanted) in wanted {
        let (input, output) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
        let command =
            Running { input, output, dtype: DType::I32, dims: [2, 3, 2], product, exclusive, reverse };
        let got = run(command, &Constants::default(), &data, 48);
        let got: Vec<i32> = got.as_chunks::<4>().0.iter().map(|&word| i32::from_le_bytes(word)).collect();
        assert_eq!(got, wanted, "{product} {exclusive} {reverse}");
    }
}

/// Against sums in i64, one by one.
#[test]
fn products_of_bytes() {
    let mut random = Random(20);
    for (batch, m, n, k) in [(1, 1, 1, 1), (2, 3, 70, 33), (3, 5, 4, 64), (1, 2, 3, 31)] {
        for code in 0..8 {
            let (transpose_a, transpose_b, shared_b) = (code & 1 == 1, code & 2 == 2, code & 4 == 4);
            let b_batch = if shared_b { 1 } else { batch };
            let (a, b) = (random.bytes(batch * m * k), random.bytes(b_batch * k * n));
            let start = a.len().next_multiple_of(64);
            let mut data = a.clone();
            data.resize(start, 0);
            data.extend(&b);
            let command = QMatMul {
                batch: batch as u32,
                m: m as u32,
                n: n as u32,
                k: k as u32,
                a: Addr::new(INPUT, 0),
                a_target: RequantTarget { dtype: DType::U8, zero_point: 201 },
                transpose_a,
                b: Addr::new(INPUT, start as u64),
                b_target: RequantTarget { dtype: DType::I8, zero_point: -77 },
                transpose_b,
                shared_b,
                output: Addr::new(OUTPUT, 0),
                result: RequantTarget { dtype: DType::I8, zero_point: -3 },
                multiplier: 0.25 / k as f32,
                rounding: Rounding::HalfToEven,
            };
            let got = run(command, &Constants::default(), &data, batch * m * n);
            for (at, got) in got.into_iter().enumerate() {
                let (image, row, column) = (at / (m * n), at / n % m, at % n);
                let term = |i: usize| {
                    let left = if transpose_a { i * m + row } else { row * k + i };
                    let right = if transpose_b { column * k + i } else { i * n + column };
                    let left = i64::from(a[image * m * k + left]) - 201;
                    let right = i64::from(b[image % b_batch * k * n + right].cast_signed()) + 77;
                    left * right
                };
                let sum: i64 = (0..k).map(term).sum();
                let wanted = (sum as f32 * (0.25 / k as f32)).round_ties_even() - 3.0;
                assert_eq!(f32::from(got.cast_signed()), wanted.clamp(-128.0, 127.0), "{code} {at}");
            }
        }
    }
}
