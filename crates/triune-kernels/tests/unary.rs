//! Functions of one operand: accuracy against f64, equal bits on every instruction set, tables.

mod common;

use common::{gapped, indices, isas, same_bits};
use triune_kernels::{
    Encoding, Isa, Nhwc, Pool, Q8, Unary, dequantize, evaluate, table, table_f32, unary, unary_table,
};
use triune_tensor::QuantParams;
use triune_testing::Random;

const ALL: [Unary; 44] = [
    Unary::None,
    Unary::Relu,
    Unary::LeakyRelu(0.1),
    Unary::Elu(0.7),
    Unary::Clip([-0.5, 6.0]),
    Unary::Sigmoid,
    Unary::Silu,
    Unary::HardSigmoid { alpha: 0.2, beta: 0.5 },
    Unary::HardSwish,
    Unary::Tanh,
    Unary::Exp,
    Unary::Log,
    Unary::Sqrt,
    Unary::Reciprocal,
    Unary::Abs,
    Unary::Neg,
    Unary::Softplus,
    Unary::Erf,
    Unary::Gelu,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Sin,
    Unary::Cos,
    Unary::Tan,
    Unary::Asin,
    Unary::Acos,
    Unary::Atan,
    Unary::Sinh,
    Unary::Cosh,
    Unary::Asinh,
    Unary::Acosh,
    Unary::Atanh,
    Unary::Expm1,
    Unary::Log1p,
    Unary::Erfc,
    Unary::ErfInv,
    Unary::ErfcInv,
    Unary::FastTanh,
    Unary::RoundHalfAway,
    Unary::Sign,
    Unary::Square,
    Unary::Rsqrt,
    Unary::LogSigmoid,
];

fn inputs() -> Vec<f32> {
    let mut random = Random(41);
    let mut x = vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-42, -1e-42];
    x.extend([f32::MAX, f32::MIN, 0.5, 1.5, 2.5, -0.5, -1.5, 88.7, 88.8, -87.4, -103.9, -104.1, 1.0, -1.0]);
    for scale in [1e-6f32, 1e-3, 0.1, 1.0, 4.0, 20.0, 120.0, 1e6] {
        x.extend((0..3000).map(|_| random.unit() * scale));
    }
    // Every 40 thousandth pattern.
    x.extend((0..u32::MAX).step_by(40_009).map(f32::from_bits));
    x
}

fn run(isa: Isa, kind: Unary, x: &[f32], threads: usize) -> Vec<f32> {
    let map = Nhwc::dense(1, 1, x.len(), 1);
    let mut y = vec![777.0; x.len()];
    unary(isa, kind, x, map, &mut y, map, &Pool::new(threads)).unwrap();
    y
}

#[test]
fn functions_are_accurate() {
    let x = inputs();
    for kind in ALL {
        // Units in the last place of the exact value.
        let limit = match kind {
            Unary::Sigmoid
            | Unary::Silu
            | Unary::Softplus
            | Unary::LogSigmoid
            | Unary::Elu(_)
            | Unary::Gelu => 2.0,
            Unary::Exp | Unary::Log | Unary::Tanh | Unary::Erf => 1.5,
            Unary::HardSigmoid { .. } | Unary::HardSwish | Unary::Rsqrt => 1.25,
            _ => 0.5001,
        };
        let mut worst = (0.0, 0.0, 0.0);
        for (&x, &y) in x.iter().zip(&run(Isa::best(), kind, &x, 1)) {
            let exact = evaluate(kind, f64::from(x));
            let rounded = exact as f32;
            if x.is_nan() || exact.is_nan() {
                // A limit may swallow infinities times zero, never a NaN operand.
                assert!(y.is_nan() || !x.is_nan(), "{kind:?}({x}) = {y}");
                continue;
            }
            if rounded.is_infinite() || y.is_infinite() {
                let near = (exact / f64::from(f32::MAX)).abs();
                assert!(rounded == y || (near > 0.999_999 && near < 1.000_001), "{kind:?}({x}) = {y}");
                continue;
            }
            // Results that are differences of larger numbers are measured against those.
            let magnitude = match kind {
                Unary::Gelu => exact.abs().max(f64::from(x).abs().min(6.0) * 0.5),
                Unary::HardSigmoid { .. } => exact.abs().max(0.5),
                Unary::HardSwish => exact.abs().max(0.5 * f64::from(x).abs()),
                // x times a sigmoid that has lost bits to underflow.
                Unary::Silu => exact.abs().max(1e-36),
                _ => exact.abs(),
            };
            let ulp = (magnitude * f64::from(f32::EPSILON) / 2.0).max(f64::from(f32::from_bits(1)));
            let error = (f64::from(y) - exact).abs() / ulp;
            if error > worst.0 {
                worst = (error, x, y);
            }
            assert!(error <= 2.0 * limit, "{kind:?}({x:e}) = {y:e}, exact {exact:e}, {error} half steps");
        }
        println!("{kind:?}: worst {} half steps at {:e}", worst.0, worst.1);
    }
}

#[test]
fn functions_have_the_same_bits_everywhere() {
    let x = inputs();
    for kind in ALL {
        let expected = run(Isa::Scalar, kind, &x, 1);
        for isa in isas() {
            same_bits(&expected, &run(isa, kind, &x, 3), &format!("{kind:?} {isa:?}"));
        }
    }
}

#[test]
fn maps_with_gaps_stay_untouched() {
    let (i, o) = (gapped(2, [3, 5], 7, [1, 2, 3]), gapped(2, [3, 5], 7, [0, 4, 0]));
    let x = Random(1).floats(i.span());
    let mut y = vec![777.0; o.span()];
    unary(Isa::best(), Unary::Neg, &x, i, &mut y, o, &Pool::new(2)).unwrap();
    let mut expected = vec![777.0; o.span()];
    for (n, h, w, c) in indices(o) {
        expected[o.offset(n, h, w) + c] = -x[i.offset(n, h, w) + c];
    }
    same_bits(&expected, &y, "gaps");
    let pool = Pool::new(1);
    assert!(unary(Isa::best(), Unary::Neg, &x[1..], i, &mut y, o, &pool).is_err());
    assert!(unary(Isa::best(), Unary::Neg, &x, i, &mut y[1..], o, &pool).is_err());
    assert!(unary(Isa::best(), Unary::Neg, &x, Nhwc { c: 6, ..i }, &mut y, o, &pool).is_err());
    let empty = Nhwc::dense(0, 3, 5, 7);
    unary(Isa::best(), Unary::Neg, &[], empty, &mut [], empty, &pool).unwrap();
}

#[test]
fn tables_look_up_every_byte() {
    let mut random = Random(51);
    let bytes: [u8; 256] = std::array::from_fn(|_| random.next() as u8);
    let floats: [f32; 256] = std::array::from_fn(|_| random.unit());
    for len in [0, 1, 63, 64, 65, 127, 1000, 70_000] {
        let x = random.bytes(len);
        let map = Nhwc::dense(1, 1, len, 1);
        for isa in isas() {
            let mut y = vec![0; len];
            table(isa, &bytes, &x, map, &mut y, map, &Pool::new(2)).unwrap();
            assert!(x.iter().zip(&y).all(|(&x, &y)| y == bytes[usize::from(x)]), "{isa:?} {len}");
            let mut y = vec![0.0; len];
            table_f32(isa, &floats, &x, map, &mut y, map, &Pool::new(2)).unwrap();
            assert!(x.iter().zip(&y).all(|(&x, &y)| y == floats[usize::from(x)]), "{isa:?} {len}");
        }
    }
}

#[test]
fn quantized_functions_are_tables_of_reals() {
    let input = Encoding { signed: true, quant: QuantParams { scale: 0.05, zero_point: -7 } };
    let output = Encoding { signed: false, quant: QuantParams { scale: 1.0 / 256.0, zero_point: 0 } };
    let table = unary_table(Unary::Sigmoid, input, output);
    let bytes: Vec<u8> = (0..=255).collect();
    let map = Nhwc::dense(1, 1, 256, 1);
    let mut real = vec![0.0; 256];
    let q = Q8 { signed: true, zero_point: -7 };
    dequantize(Isa::Scalar, 0.05, q, &bytes, map, &mut real, map, &Pool::new(1)).unwrap();
    for (real, byte) in real.iter().zip(table) {
        let exact = 256.0 / (1.0 + (-f64::from(*real)).exp());
        assert!((exact - f64::from(byte)).abs() <= 0.5001 || byte == 255, "{real}: {exact} {byte}");
    }
    assert_eq!(input.byte(f64::NAN), 0x80);
    assert_eq!(output.byte(f64::NAN), 0);
    assert_eq!(output.byte(2.5 / 256.0), 2);
    assert_eq!(output.byte(3.5 / 256.0), 4);
    assert_eq!(output.byte(-1.0), 0);
}

/// The functions that are computed in f64, against the library's f64 functions: half a unit in the last place of f32.
#[test]
fn rare_functions_are_rounded_from_double() {
    type Reference = (Unary, fn(f64) -> f64);
    let functions: [Reference; 13] = [
        (Unary::Sin, f64::sin),
        (Unary::Cos, f64::cos),
        (Unary::Tan, f64::tan),
        (Unary::Asin, f64::asin),
        (Unary::Acos, f64::acos),
        (Unary::Atan, f64::atan),
        (Unary::Sinh, f64::sinh),
        (Unary::Cosh, f64::cosh),
        (Unary::Asinh, f64::asinh),
        (Unary::Acosh, f64::acosh),
        (Unary::Atanh, f64::atanh),
        (Unary::Expm1, f64::exp_m1),
        (Unary::Log1p, f64::ln_1p),
    ];
    let x = inputs();
    for (kind, reference) in functions {
        for (&x, &y) in x.iter().zip(&run(Isa::best(), kind, &x, 1)) {
            let exact = reference(f64::from(x));
            let rounded = exact as f32;
            if exact.is_nan() {
                assert!(y.is_nan(), "{kind:?}({x}) = {y}");
                continue;
            }
            if y == rounded {
                continue;
            }
            let step = f64::from(rounded.next_up()) - f64::from(rounded);
            let off = (f64::from(y) - exact).abs() / step.abs();
            // Library functions of f64 are off by a few of its units themselves.
            assert!(off <= 0.500_01, "{kind:?}({x}) = {y}, {exact}: {off} units off");
        }
    }
}

/// erfc, and the inverses by what they are the inverses of.
#[test]
fn error_functions() {
    // Abramowitz and Stegun, table 7.1 and 7.3.
    for (x, expected) in
        [(0.0, 1.0), (0.5, 0.479_500_122), (1.0, 0.157_299_207), (2.0, 0.004_677_735), (4.0, 1.541_726e-8)]
    {
        let got = run(Isa::best(), Unary::Erfc, &[x as f32, -x as f32], 1);
        assert!((f64::from(got[0]) - expected).abs() <= 2e-7 * expected, "erfc({x}) = {}", got[0]);
        assert!((f64::from(got[1]) - (2.0 - expected)).abs() <= 2e-7, "erfc(−{x}) = {}", got[1]);
    }
    let mut random = Random(47);
    let y: Vec<f32> = (0..2000).map(|_| random.unit() * 0.999).collect();
    let back = run(Isa::best(), Unary::Erf, &run(Isa::best(), Unary::ErfInv, &y, 1), 1);
    for (y, back) in y.iter().zip(&back) {
        assert!((y - back).abs() <= 4e-7, "erf(erfinv({y})) = {back}");
    }
    let q: Vec<f32> = (0..2000).map(|i| 10_f32.powf(-f32::from(i as u16) / 60.0)).collect();
    let inverse = run(Isa::best(), Unary::ErfcInv, &q, 1);
    for ((q, inverse), back) in q.iter().zip(&inverse).zip(run(Isa::best(), Unary::Erfc, &inverse, 1)) {
        // erfc falls by 2·x per unit of x, of which x has 2⁻²⁴ of its own size.
        let slack = 4e-7 * (1.0 + inverse * inverse);
        assert!((q - back).abs() <= slack * q, "erfc(erfcinv({q})) = {back}");
    }
    let ends = run(Isa::best(), Unary::ErfInv, &[1.0, -1.0, 0.0, 1.5], 1);
    assert!(ends[..3] == [f32::INFINITY, f32::NEG_INFINITY, 0.0] && ends[3].is_nan());
    let ends = run(Isa::best(), Unary::ErfcInv, &[0.0, 2.0, 1.0, -0.1], 1);
    assert!(ends[..2] == [f32::INFINITY, f32::NEG_INFINITY] && ends[2].abs() < 1e-7 && ends[3].is_nan());
}
