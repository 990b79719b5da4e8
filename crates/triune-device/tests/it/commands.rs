//! Every command, run through device memory, against a plain computation of what it is documented to do.

use crate::common::{
    Bench, Constants, INPUT, OUTPUT, SCRATCH, input, operand, output, quant, to_bytes, to_floats, window,
};
use triune_device::{
    Addr, Command, ErrorClass, FeatureMap,
    command::{
        self, ArgReduce, Blocks, Convert, Copy, Dequantize, FBinary, FConv, FMatMul, FNorm, FSoftmax, FUnary,
        Fill, GlobalPool, IMatMul, Opcode, Operand, Order, Pool, Put, QMul, QNorm, QSoftmax, Quantize,
        QuantizeBy, Reduce, Resize, Running, Select, TMatMul, Table, Tables, Take, Weigh,
    },
};
use triune_kernels::Isa;
use triune_tensor::DType;
use triune_tensor::{
    Requantize, Rounding,
    function::{
        BinaryKind, CoordinateMode, NearestMode, PoolKind, ReduceKind, ResizeMode, ScatterKind, UnaryKind,
    },
};
use triune_testing::Random;

const RELU: UnaryKind = UnaryKind::Relu;

/// Runs one command on `x` and gives `len` bytes of output.
fn run(command: impl Into<Command>, constants: &Constants, x: &[u8], len: usize) -> Vec<u8> {
    let bench = Bench::alone(&[command.into()], constants, [4096, x.len() as u64, len as u64]);
    bench.write(INPUT, 0, x);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    executor.run(&triune_kernels::Pool::new(2), None).expect("runs");
    bench.read(OUTPUT, 0, len)
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{index}: {got} for {expected}");
    }
}

#[test]
fn copy_transposes_and_fill_fills_a_part() {
    // [2, 3] of u16 transposed.
    let x: Vec<u8> = (0..12).collect();
    let copy = Copy {
        elem_bytes: 2,
        dims: [1, 1, 1, 1, 3, 2],
        src: Addr::new(INPUT, 0),
        src_strides: [0, 0, 0, 0, 2, 6],
        dst: Addr::new(OUTPUT, 0),
        dst_strides: [0, 0, 0, 0, 4, 2],
    };
    assert_eq!(run(copy, &Constants::default(), &x, 12), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
    let fill = Fill {
        elem_bytes: 2,
        dims: [1, 1, 1, 1, 2, 1],
        dst: Addr::new(OUTPUT, 2),
        dst_strides: [0, 0, 0, 0, 4, 2],
        value: 0x0201,
    };
    assert_eq!(run(fill, &Constants::default(), &[], 10), [0, 0, 1, 2, 0, 0, 1, 2, 0, 0]);
}

#[test]
fn float_convolution_with_residual_and_activation() {
    let mut random = Random(1);
    let (h, c, o) = (6, 3, 5);
    let x = random.floats(h * h * c);
    let (weights, bias) = (random.floats(o * 9 * c), random.floats(o));
    let mut constants = Constants::default();
    let residual = random.floats(9 * o);
    let conv = FConv {
        input: input(DType::F32, [1, 6, 6, 3]),
        output: output(DType::F32, [1, 3, 3, 5]),
        window: window([3, 3], [2, 2], [1; 4], 1),
        weights: constants.floats(&weights),
        bias: Some(constants.floats(&bias)),
        residual: Some(FeatureMap::dense(constants.floats(&residual), DType::F32, [1, 3, 3, 5])),
        activation: RELU,
    };
    let got = to_floats(&run(conv, &constants, &to_bytes(&x), 4 * 9 * o));
    let mut expected = Vec::new();
    for (row, column, out) in (0..9 * o).map(|i| (i / o / 3, i / o % 3, i % o)) {
        let mut sum = bias[out];
        for tap in 0..9 {
            let (y, z) = (2 * row + tap / 3, 2 * column + tap % 3);
            if (1..=h).contains(&y) && (1..=h).contains(&z) {
                for channel in 0..c {
                    sum += x[((y - 1) * h + z - 1) * c + channel] * weights[(out * 9 + tap) * c + channel];
                }
            }
        }
        expected.push((sum + residual[(row * 3 + column) * o + out]).max(0.0));
    }
    assert_close(&got, &expected);
}

#[test]
fn planes_are_convolved_as_maps_are() {
    let mut random = Random(3);
    let [h, w, c, o] = [5, 33, 3, 5];
    let x = random.floats(h * w * c);
    let turned: Vec<f32> = (0..h * w * c).map(|at| x[at % (h * w) * c + at / (h * w)]).collect();
    let mut constants = Constants::default();
    let map = FConv {
        input: input(DType::F32, [1, 5, 33, 3]),
        output: output(DType::F32, [1, 3, 17, 5]),
        window: window([3, 3], [2, 2], [1; 4], 1),
        weights: constants.floats(&random.floats(o * 9 * c)),
        bias: None,
        residual: None,
        activation: RELU,
    };
    let blocks = Some(Blocks { channels: 1, stride: (4 * h * w) as u64, fill: 0 });
    let planes = FeatureMap { stride_w: 4, stride_h: 4 * w as u64, blocks, ..map.input };
    let got = run(FConv { input: planes, ..map }, &constants, &to_bytes(&turned), 4 * 3 * 17 * o);
    assert_eq!(got, run(map, &constants, &to_bytes(&x), 4 * 3 * 17 * o));
}

#[test]
fn matrix_products() {
    let mut random = Random(2);
    let (batch, m, n, k) = (2, 3, 4, 5);
    let a = random.floats(batch * m * k);
    let bias = random.floats(n);
    for (shared, transposed, activation) in [(false, false, UnaryKind::Identity), (true, true, RELU)] {
        let b = random.floats(batch * k * n);
        let mut constants = Constants::default();
        let product = FMatMul {
            batch: batch as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            a: Addr::new(INPUT, 0),
            transpose_a: transposed,
            b: constants.floats(&b),
            transpose_b: transposed,
            shared_b: shared,
            bias: Some(constants.floats(&bias)),
            output: Addr::new(OUTPUT, 0),
            activation,
        };
        let got = to_floats(&run(product, &constants, &to_bytes(&a), 4 * batch * m * n));
        let mut expected = Vec::new();
        for (z, i, j) in (0..batch * m * n).map(|at| (at / n / m, at / n % m, at % n)) {
            let mut sum = bias[j];
            for l in 0..k {
                let x = a[z * m * k + if transposed { l * m + i } else { i * k + l }];
                let z = if shared { 0 } else { z };
                sum += x * b[z * k * n + if transposed { j * k + l } else { l * n + j }];
            }
            expected.push(if activation == RELU { sum.max(0.0) } else { sum });
        }
        assert_close(&got, &expected);
    }
}

#[test]
fn pools() {
    let x: Vec<u8> = Random(3).bytes(5 * 5 * 2);
    let at = |row: usize, column: usize, channel: usize| {
        f32::from(x[(row * 5 + column) * 2 + channel].cast_signed())
    };
    let pool = |kind| Pool {
        input: input(DType::I8, [1, 5, 5, 2]),
        output: output(DType::I8, [1, 2, 2, 2]),
        window: window([2, 2], [2, 2], [0; 4], 1),
        kind,
        input_quant: quant(0.5, 1),
        output_quant: if kind == PoolKind::Max { quant(0.5, 1) } else { quant(0.25, -2) },
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    let four = |row: usize, column: usize, channel: usize| {
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(y, z)| at(2 * row + y, 2 * column + z, channel))
    };
    let cells = || (0..8).map(|i| (i / 4, i / 2 % 2, i % 2));
    let expected: Vec<u8> = cells()
        .map(|(row, column, channel)| four(row, column, channel).into_iter().fold(-128.0, f32::max) as i8)
        .map(i8::cast_unsigned)
        .collect();
    assert_eq!(run(pool(PoolKind::Max), &Constants::default(), &x, 8), expected);
    let expected: Vec<u8> = cells()
        .map(|(row, column, channel)| {
            let sum: f32 = four(row, column, channel).into_iter().map(|x| x - 1.0).sum();
            ((sum * (0.5 / (0.25 * 4.0))).round_ties_even() - 2.0).clamp(-128.0, 127.0) as i8
        })
        .map(i8::cast_unsigned)
        .collect();
    assert_eq!(
        run(pool(PoolKind::Average { count_include_pad: false }), &Constants::default(), &x, 8),
        expected
    );

    let x = Random(4).floats(5 * 5 * 2);
    let global = GlobalPool {
        input: input(DType::F32, [1, 5, 5, 2]),
        output: output(DType::F32, [1, 1, 1, 2]),
        kind: PoolKind::Average { count_include_pad: false },
        input_quant: quant(1.0, 0),
        output_quant: quant(1.0, 0),
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    let expected: Vec<f32> =
        (0..2).map(|channel| (0..25).map(|i| x[2 * i + channel]).sum::<f32>() / 25.0).collect();
    assert_close(&to_floats(&run(global, &Constants::default(), &to_bytes(&x), 8)), &expected);
}

#[test]
fn eight_bit_multiplication_broadcasts() {
    let x = Random(5).bytes(12);
    let dims = [1, 1, 1, 1, 4, 3];
    let mut constants = Constants::default();
    let scale = [3_u8, 130, 250];
    let mut b = operand(constants.add(scale), DType::U8, dims);
    b.strides[4] = 0;
    let mul = QMul {
        dims,
        a: operand(Addr::new(INPUT, 0), DType::I8, dims),
        b,
        output: operand(Addr::new(OUTPUT, 0), DType::I8, dims),
        zero_points: [2, 128, -5],
        multiplier: 0.01,
        rounding: Rounding::HalfToEven,
        clamp: [-50, 50],
        counted: [0, 0],
    };
    let expected: Vec<u8> = x
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            let product = (i32::from(x.cast_signed()) - 2) * (i32::from(scale[i % 3]) - 128);
            ((product as f32 * 0.01 - 5.0).round_ties_even() as i32).clamp(-50, 50) as i8
        })
        .map(i8::cast_unsigned)
        .collect();
    assert_eq!(run(mul, &constants, &x, 12), expected);
}

#[test]
fn float_functions() {
    let mut random = Random(6);
    let x = random.floats(24);
    let b = random.floats(4);
    let dims = [1, 1, 1, 2, 3, 4];
    for (kind, f) in [
        (BinaryKind::Add, (|a, b| a + b) as fn(f32, f32) -> f32),
        (BinaryKind::Sub, |a, b| a - b),
        (BinaryKind::Mul, |a, b| a * b),
        (BinaryKind::Div, |a, b| a / b),
        (BinaryKind::Min, f32::min),
        (BinaryKind::Max, f32::max),
    ] {
        for activation in [UnaryKind::Identity, RELU] {
            let mut constants = Constants::default();
            let mut broadcast = operand(constants.floats(&b), DType::F32, dims);
            broadcast.strides[3] = 0;
            broadcast.strides[4] = 0;
            // Rows of the output are one element apart.
            let mut out = operand(Addr::new(OUTPUT, 0), DType::F32, dims);
            (out.strides[4], out.strides[3]) = (20, 60);
            let command = FBinary {
                dims,
                kind,
                a: operand(Addr::new(INPUT, 0), DType::F32, dims),
                b: broadcast,
                output: out,
                activation,
            };
            let got = to_floats(&run(command, &constants, &to_bytes(&x), 4 * 30));
            let got: Vec<f32> = got.chunks(5).flat_map(|row| row[..4].to_vec()).collect();
            let expected: Vec<f32> = x.iter().enumerate().map(|(i, &x)| f(x, b[i % 4])).collect();
            let relu = |x: &f32| if activation == RELU { x.max(0.0) } else { *x };
            assert_close(&got, &expected.iter().map(relu).collect::<Vec<_>>());
        }
    }
    for kind in (0..).map_while(|code| UnaryKind::from_code(code, [0.25, 0.75])) {
        let x: Vec<f32> = x.iter().map(|x| x.abs() + 0.25).collect();
        let map = [1, 2, 3, 4];
        let command =
            FUnary { input: input(DType::F32, map), output: output(DType::F32, map), function: kind };
        let got = to_floats(&run(command, &Constants::default(), &to_bytes(&x), 96));
        let known: Option<fn(f32) -> f32> = match kind {
            UnaryKind::Identity | UnaryKind::Relu | UnaryKind::LeakyRelu(_) | UnaryKind::Elu(_) => {
                Some(|x| x)
            }
            UnaryKind::Clip(_) => Some(|x| x.clamp(0.25, 0.75)),
            UnaryKind::Sigmoid => Some(|x| 1.0 / (1.0 + (-x).exp())),
            UnaryKind::Silu => Some(|x| x / (1.0 + (-x).exp())),
            UnaryKind::HardSigmoid { .. } => Some(|x| (0.25 * x + 0.75).clamp(0.0, 1.0)),
            UnaryKind::HardSwish => Some(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
            UnaryKind::Tanh => Some(f32::tanh),
            UnaryKind::Exp => Some(f32::exp),
            UnaryKind::Log => Some(f32::ln),
            UnaryKind::Sqrt => Some(f32::sqrt),
            UnaryKind::Reciprocal => Some(f32::recip),
            UnaryKind::Abs => Some(f32::abs),
            UnaryKind::Neg => Some(|x| -x),
            UnaryKind::Softplus => Some(|x| x.exp().ln_1p()),
            UnaryKind::Floor => Some(f32::floor),
            UnaryKind::Ceil => Some(f32::ceil),
            UnaryKind::Round => Some(f32::round_ties_even),
            UnaryKind::Sin => Some(f32::sin),
            UnaryKind::Cos => Some(f32::cos),
            UnaryKind::Atan => Some(f32::atan),
            UnaryKind::Sinh => Some(f32::sinh),
            UnaryKind::Cosh => Some(f32::cosh),
            UnaryKind::Asinh => Some(f32::asinh),
            UnaryKind::Expm1 => Some(f32::exp_m1),
            UnaryKind::Log1p => Some(f32::ln_1p),
            UnaryKind::FastTanh => Some(|x| x * (27.0 + x * x) / (27.0 + 9.0 * x * x)),
            UnaryKind::RoundHalfAway => Some(f32::round),
            UnaryKind::Sign => Some(|_| 1.0),
            UnaryKind::Square => Some(|x| x * x),
            UnaryKind::Rsqrt => Some(|x| 1.0 / x.sqrt()),
            UnaryKind::LogSigmoid => Some(|x| -(-x).exp().ln_1p()),
            UnaryKind::Affine { .. } => Some(|x| 0.25 * x + 0.75),
            UnaryKind::ThresholdedRelu(_) => Some(|x| if x > 0.25 { x } else { 0.0 }),
            UnaryKind::ScaledTanh { .. } => Some(|x| 0.25 * (0.75 * x).tanh()),
            UnaryKind::Softsign => Some(|x| x / (1.0 + x.abs())),
            UnaryKind::Gate { .. } => Some(|x| x / (1.0 + (-x * (0.25 + 0.75 * x * x)).exp())),
            // Not defined, steep or vanishing on some of these operands; the kernels' tests have their own.
            UnaryKind::Tan
            | UnaryKind::Asin
            | UnaryKind::Acos
            | UnaryKind::Acosh
            | UnaryKind::Atanh
            | UnaryKind::Erfc
            | UnaryKind::ErfInv
            | UnaryKind::ErfcInv => continue,
            // No oracle in the standard library; both lie between 0 and x + 1 there.
            UnaryKind::Erf | UnaryKind::Gelu => None,
        };
        match known {
            Some(f) => assert_close(&got, &x.iter().map(|&x| f(x)).collect::<Vec<_>>()),
            None => assert!(got.iter().zip(&x).all(|(y, x)| *y > 0.0 && *y < x + 1.0), "{kind:?}: {got:?}"),
        }
    }
}

#[test]
fn tables_and_borders() {
    let x = Random(7).bytes(24);
    let map = [2, 2, 3, 2];
    let mut constants = Constants::default();
    let table: Vec<u8> = (0..=255_u8).map(|byte| byte.wrapping_mul(7) ^ 0x5a).collect();
    let command = Table {
        input: input(DType::U8, map),
        output: output(DType::I8, map),
        table: constants.add(table.iter().copied()),
    };
    let expected: Vec<u8> = x.iter().map(|&x| table[usize::from(x)]).collect();
    assert_eq!(run(command, &constants, &x, 24), expected);
    // One for each of two channels, or of two rows.
    for (by_rows, count) in [(false, 2_usize), (true, 2)] {
        let mut constants = Constants::default();
        let tables = Random(9).bytes(count * 256);
        let command = Tables {
            input: input(DType::U8, map),
            output: output(DType::I8, map),
            tables: constants.add(tables.iter().copied()),
            by_rows,
        };
        let which = |at: usize| if by_rows { at / 6 % 2 } else { at % 2 };
        let looked_up = x.iter().enumerate().map(|(at, &x)| tables[which(at) * 256 + usize::from(x)]);
        assert_eq!(run(command, &constants, &x, 24), looked_up.collect::<Vec<u8>>(), "{by_rows}");
    }

    let reals = Random(8).floats(24);
    let command = Quantize {
        input: input(DType::F32, map),
        output: output(DType::I8, map),
        quant: quant(0.03, 5),
        rounding: Rounding::HalfToEven,
    };
    let expected: Vec<u8> = reals
        .iter()
        .map(|x| ((x / 0.03).round_ties_even() as i32 + 5).clamp(-128, 127) as i8)
        .map(i8::cast_unsigned)
        .collect();
    assert_eq!(run(command, &constants, &to_bytes(&reals), 24), expected);

    let command =
        Dequantize { input: input(DType::U8, map), output: output(DType::F32, map), quant: quant(0.1, 99) };
    let expected: Vec<f32> = x.iter().map(|&x| (i32::from(x) - 99) as f32 * 0.1).collect();
    assert_eq!(to_floats(&run(command, &constants, &x, 96)), expected);
    let ints: Vec<u8> = (0..24_i32).flat_map(|i| (i * 1000 - 9000).to_le_bytes()).collect();
    let command =
        Dequantize { input: input(DType::I32, map), output: output(DType::F32, map), quant: quant(0.5, 0) };
    let expected: Vec<f32> = (0..24).map(|i| (i * 1000 - 9000) as f32 * 0.5).collect();
    assert_eq!(to_floats(&run(command, &constants, &ints, 96)), expected);
}

#[test]
fn normalizations_of_rows() {
    let x = Random(12).floats(3 * 20);
    let mut constants = Constants::default();
    let (gamma, beta) = (Random(13).floats(20), Random(14).floats(20));
    let rows = [constants.floats(&gamma), constants.floats(&beta)];
    for (factors, addends) in [(false, false), (true, false), (true, true)] {
        let command = FNorm {
            input: Addr::new(INPUT, 0),
            output: Addr::new(OUTPUT, 0),
            dims: [3, 20],
            epsilon: 1e-3,
            gamma: factors.then_some(rows[0]),
            beta: addends.then_some(rows[1]),
        };
        let expected: Vec<f32> = x
            .chunks(20)
            .flat_map(|row| {
                let mean = row.iter().sum::<f32>() / 20.0;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / 20.0;
                let own = row.iter().enumerate().map(|(at, x)| {
                    let y = (x - mean) / (variance + 1e-3).sqrt();
                    let y = if factors { y * gamma[at] } else { y };
                    if addends { y + beta[at] } else { y }
                });
                own.collect::<Vec<f32>>()
            })
            .collect();
        assert_close(&to_floats(&run(command, &constants, &to_bytes(&x), 240)), &expected);
    }
}

#[test]
fn softmaxes() {
    let x = Random(9).floats(2 * 5 * 3);
    let command = FSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [2, 5, 3] };
    let expected: Vec<f32> = (0..30)
        .map(|i| {
            let (outer, inner) = (i / 15, i % 3);
            let sum: f32 = (0..5).map(|j| x[outer * 15 + j * 3 + inner].exp()).sum();
            x[i].exp() / sum
        })
        .collect();
    assert_close(&to_floats(&run(command, &Constants::default(), &to_bytes(&x), 120)), &expected);

    let x = Random(10).bytes(30);
    let command = QSoftmax {
        input: Addr::new(INPUT, 0),
        output: Addr::new(OUTPUT, 0),
        dtype: DType::U8,
        dims: [2, 5, 3],
        input_quant: quant(0.02, 128),
        output_quant: quant(1.0 / 256.0, 0),
    };
    let real = |i: usize| (f32::from(x[i]) * 0.02).exp();
    for (i, got) in run(command, &Constants::default(), &x, 30).into_iter().enumerate() {
        let sum: f32 = (0..5).map(|j| real(i / 15 * 15 + j * 3 + i % 3)).sum();
        assert!((f32::from(got) - real(i) / sum * 256.0).abs() <= 1.0, "{i}: {got}");
    }
}

#[test]
fn resampling() {
    for (dtype, bytes) in [(DType::U8, 1), (DType::I16, 2), (DType::F32, 4), (DType::F64, 8)] {
        let x = Random(11).bytes(2 * 3 * bytes);
        let command = Resize {
            input: input(dtype, [1, 2, 3, 1]),
            output: output(dtype, [1, 4, 6, 1]),
            mode: ResizeMode::Nearest(NearestMode::Floor),
            coordinates: CoordinateMode::Asymmetric,
            scales: [2.0, 2.0],
            zero_points: [0; 2],
            factor: 0.0,
            rounding: Rounding::HalfToEven,
        };
        let expected: Vec<u8> =
            (0..24).flat_map(|i| x[(i / 12 * 3 + i % 6 / 2) * bytes..][..bytes].to_vec()).collect();
        assert_eq!(run(command, &Constants::default(), &x, 24 * bytes), expected);
    }
    let command = Resize {
        input: input(DType::F32, [1, 1, 2, 1]),
        output: output(DType::F32, [1, 1, 4, 1]),
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        scales: [0.0, 0.0],
        zero_points: [0; 2],
        factor: 0.0,
        rounding: Rounding::HalfToEven,
    };
    let got = to_floats(&run(command, &Constants::default(), &to_bytes(&[0.0, 1.0]), 16));
    assert_close(&got, &[0.0, 0.25, 0.75, 1.0]);
    // Over bytes: 10, 12.5, 17.5 and 20 steps of ½ above 4 are 5, 6.25, 8.75 and 10 steps of 1 above 100.
    let command = Resize {
        input: input(DType::U8, [1, 1, 2, 1]),
        output: output(DType::U8, [1, 1, 4, 1]),
        zero_points: [4, 100],
        factor: 0.5,
        ..command
    };
    assert_eq!(run(command, &Constants::default(), &[14, 24], 4), [105, 106, 109, 110]);
}

/// Against means and variances of reals, within a step; constant rows become the addend.
#[test]
fn normalization_of_bytes() {
    let mut x = Random(21).bytes(2 * 7 * 3);
    (0..7).for_each(|i| x[i * 3] = 9);
    let mut constants = Constants::default();
    let (gamma, beta) = (Random(22).floats(7), Random(23).floats(7));
    let command = QNorm {
        input: Addr::new(INPUT, 0),
        output: Addr::new(OUTPUT, 0),
        dtype: DType::U8,
        dims: [2, 7, 3],
        input_quant: quant(0.02, 128),
        output_quant: quant(0.03, 117),
        epsilon: 1e-3,
        gamma: Some(constants.floats(&gamma)),
        beta: Some(constants.floats(&beta)),
        rounding: Rounding::HalfToEven,
        centred: true,
    };
    for centred in [true, false] {
        let got = run(QNorm { centred, ..command }, &constants, &x, 42);
        for (at, got) in got.into_iter().enumerate() {
            let (first, own) = (at / 21 * 21 + at % 3, at / 3 % 7);
            let real = |i: usize| (f64::from(x[first + i * 3]) - 128.0) * 0.02;
            let mean = if centred { (0..7).map(real).sum::<f64>() / 7.0 } else { 0.0 };
            let variance = (0..7).map(|i| (real(i) - mean).powi(2)).sum::<f64>() / 7.0;
            let normal = (real(own) - mean) / (variance + 1e-3).sqrt();
            let wanted = (normal * f64::from(gamma[own]) + f64::from(beta[own])) / 0.03 + 117.0;
            assert!((f64::from(got) - wanted.clamp(0.0, 255.0)).abs() <= 0.51, "{at}: {got} {wanted}");
        }
    }
}

/// A damaged word of any command gives an error or a run, never a panic.
#[test]
fn damaged_commands_never_panic() {
    let map = [1, 4, 4, 2];
    let mut constants = Constants::default();
    let weights = constants.floats(&Random(12).floats(64));
    let dims = [1, 1, 1, 1, 8, 4];
    let zeros = constants.add([0; 64]);
    let scratch = |dtype| FeatureMap::dense(Addr::new(SCRATCH, 0), dtype, map);
    let float = |addr| operand(addr, DType::F32, dims);
    let commands: [Command; 25] = [
        Copy {
            elem_bytes: 4,
            dims,
            src: Addr::new(INPUT, 0),
            src_strides: [0, 0, 0, 0, 16, 4],
            dst: Addr::new(OUTPUT, 0),
            dst_strides: [0, 0, 0, 0, 16, 4],
        }
        .into(),
        Fill { elem_bytes: 1, dims, dst: Addr::new(OUTPUT, 0), dst_strides: [0, 0, 0, 0, 4, 1], value: 7 }
            .into(),
        FConv {
            input: input(DType::F32, map),
            output: output(DType::F32, map),
            window: window([3, 3], [1, 1], [1; 4], 1),
            weights,
            bias: Some(weights),
            residual: Some(input(DType::F32, map)),
            activation: RELU,
        }
        .into(),
        FMatMul {
            batch: 1,
            m: 4,
            n: 4,
            k: 4,
            a: Addr::new(INPUT, 0),
            transpose_a: false,
            b: Addr::new(INPUT, 64),
            transpose_b: false,
            shared_b: false,
            bias: None,
            output: Addr::new(OUTPUT, 0),
            activation: RELU,
        }
        .into(),
        Pool {
            input: input(DType::U8, map),
            output: output(DType::U8, [1, 2, 2, 2]),
            window: window([3, 3], [2, 2], [1; 4], 1),
            kind: PoolKind::Average { count_include_pad: false },
            input_quant: quant(1.0, 0),
            output_quant: quant(1.0, 0),
            rounding: Rounding::HalfToEven,
            requantize: Requantize::Float,
        }
        .into(),
        GlobalPool {
            input: input(DType::F32, map),
            output: output(DType::F32, [1, 1, 1, 2]),
            kind: PoolKind::Max,
            input_quant: quant(1.0, 0),
            output_quant: quant(1.0, 0),
            rounding: Rounding::HalfToEven,
            requantize: Requantize::Float,
        }
        .into(),
        FBinary {
            dims,
            kind: BinaryKind::Pow,
            a: float(Addr::new(INPUT, 0)),
            b: float(weights),
            output: float(Addr::new(OUTPUT, 0)),
            activation: RELU,
        }
        .into(),
        FUnary { input: scratch(DType::F32), output: scratch(DType::F32), function: RELU }.into(),
        Table { input: scratch(DType::U8), output: scratch(DType::I8), table: weights }.into(),
        Quantize {
            input: input(DType::F32, map),
            output: scratch(DType::I8),
            quant: quant(0.1, 0),
            rounding: Rounding::HalfToEven,
        }
        .into(),
        FSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [2, 4, 4] }.into(),
        Resize {
            input: input(DType::F32, map),
            output: output(DType::F32, map),
            mode: ResizeMode::Linear,
            coordinates: CoordinateMode::AlignCorners,
            scales: [1.0, 1.0],
            zero_points: [0; 2],
            factor: 0.0,
            rounding: Rounding::HalfToEven,
        }
        .into(),
        Reduce {
            dims,
            axes: 0b10_0000,
            kind: ReduceKind::Sum,
            input: float(Addr::new(INPUT, 0)),
            output: operand(Addr::new(OUTPUT, 0), DType::F32, [1, 1, 1, 1, 8, 1]),
        }
        .into(),
        command::Binary {
            dims,
            kind: BinaryKind::FloorDiv,
            a: operand(Addr::new(INPUT, 0), DType::I32, dims),
            b: operand(Addr::new(INPUT, 0), DType::I32, dims),
            output: operand(Addr::new(OUTPUT, 0), DType::I32, dims),
        }
        .into(),
        Select {
            dims,
            condition: operand(Addr::new(INPUT, 0), DType::Bool, dims),
            a: float(Addr::new(INPUT, 0)),
            b: float(Addr::new(INPUT, 0)),
            output: float(Addr::new(OUTPUT, 0)),
        }
        .into(),
        Convert {
            dims,
            input: float(Addr::new(INPUT, 0)),
            output: operand(Addr::new(OUTPUT, 0), DType::I16, dims),
        }
        .into(),
        Take {
            elem_bytes: 4,
            dims: [1, 1, 1, 1, 2, 3],
            src: Addr::new(INPUT, 0),
            src_strides: [0, 0, 0, 0, 0, 4],
            indices: Operand { addr: zeros, dtype: DType::I64, strides: [0, 0, 0, 0, 8, 0] },
            count: 1,
            index_stride: 0,
            extents: [8, 1, 1, 1, 1, 1],
            axis_strides: [16, 0, 0, 0, 0, 0],
            dst: Addr::new(OUTPUT, 0),
            dst_strides: [0, 0, 0, 0, 12, 4],
        }
        .into(),
        Put {
            dtype: DType::I32,
            kind: ScatterKind::Add,
            dims: [1, 1, 1, 1, 2, 3],
            src: Addr::new(INPUT, 0),
            src_strides: [0, 0, 0, 0, 12, 4],
            indices: Operand { addr: zeros, dtype: DType::I64, strides: [0, 0, 0, 0, 8, 0] },
            count: 1,
            index_stride: 0,
            extents: [2, 1, 1, 1, 1, 1],
            axis_strides: [12, 0, 0, 0, 0, 0],
            dst: Addr::new(OUTPUT, 0),
            dst_strides: [0, 0, 0, 0, 0, 4],
        }
        .into(),
        Order {
            input: Addr::new(INPUT, 0),
            dtype: DType::F32,
            dims: [2, 4, 4],
            k: 2,
            descending: true,
            output: Addr::new(OUTPUT, 0),
        }
        .into(),
        IMatMul {
            batch: 1,
            m: 2,
            n: 3,
            k: 4,
            a: Addr::new(INPUT, 0),
            a_dtype: DType::U8,
            b: None,
            weights: Some(zeros),
            b_dtype: DType::I8,
            shared_b: true,
            a_zeros: Some(Addr::new(INPUT, 64)),
            b_zeros: None,
            scales: Some(Addr::new(INPUT, 68)),
            counts: [2, 0, 1],
            output: Addr::new(OUTPUT, 0),
        }
        .into(),
        TMatMul {
            dtype: DType::I16,
            batch: 1,
            m: 4,
            n: 3,
            k: 5,
            a: Addr::new(INPUT, 0),
            b: Addr::new(INPUT, 40),
            shared_b: false,
            output: Addr::new(OUTPUT, 0),
        }
        .into(),
        QuantizeBy {
            input: FeatureMap::dense(Addr::new(INPUT, 0), DType::F32, [1, 2, 2, 4]),
            output: output(DType::I8, [1, 2, 2, 4]),
            scale: Addr::new(INPUT, 64),
            zero_point: Some(Addr::new(INPUT, 68)),
            rounding: Rounding::HalfAwayFromZero,
        }
        .into(),
        Weigh {
            batch: 1,
            channels: 5,
            elements: 4,
            count: 3,
            taps: 2,
            shared: false,
            input: Addr::new(INPUT, 0),
            indices: zeros,
            factors: Some(Addr::new(INPUT, 80)),
            output: Addr::new(OUTPUT, 0),
        }
        .into(),
        Running {
            input: Addr::new(INPUT, 0),
            output: Addr::new(OUTPUT, 0),
            dtype: DType::U8,
            dims: [2, 8, 4],
            product: true,
            exclusive: false,
            reverse: false,
        }
        .into(),
        ArgReduce {
            dims,
            axis: 4,
            largest: true,
            last: false,
            input: float(Addr::new(INPUT, 0)),
            output: operand(Addr::new(OUTPUT, 0), DType::I64, [1, 1, 1, 1, 1, 4]),
        }
        .into(),
    ];
    let pool = triune_kernels::Pool::new(1);
    for command in commands {
        let bench = Bench::alone(&[command], &constants, [4096, 128, 128]);
        let mut executor = bench.executor(Isa::best()).expect("valid");
        executor.run(&pool, None).expect("runs");
        let (mut refused, bytes) = (0, 4 * command.words());
        for at in 0..bytes {
            let [own] = bench.read(0, at as u64, 1)[..] else { unreachable!() };
            for value in [0x00, 0x01, 0x7f, 0xff, own ^ 0x04] {
                bench.write(0, at as u64, &[value]);
                if let Err(error) = executor.run(&pool, None) {
                    // Decoding finds it, and leaves nothing but an index to a kernel.
                    assert_ne!(error.class(), ErrorClass::Internal, "byte {at} = {value}: {error}");
                    refused += 1;
                }
            }
            bench.write(0, at as u64, &[own]);
        }
        assert!(refused > bytes, "{}: only {refused} damages of {bytes} bytes", command.opcode().mnemonic());
        executor.run(&pool, None).expect("repaired");
    }
}

#[test]
fn opcodes_are_named_once() {
    let mut names: Vec<_> = Opcode::ALL.iter().map(|opcode| opcode.mnemonic()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Opcode::ALL.len());
    assert!(command::field_tables().contains("### `qconv` (0x0010"));
}
