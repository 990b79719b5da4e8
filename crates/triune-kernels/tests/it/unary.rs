//! Functions of one operand: accuracy against f64, equal bits on every instruction set.

use crate::common::{gapped, indices, isas, same_bits};
use triune_kernels::{Isa, Nhwc, Pool, unary};
use triune_tensor::function::UnaryKind;
use triune_testing::Random;

const ALL: [UnaryKind; 50] = [
    UnaryKind::Identity,
    UnaryKind::Relu,
    UnaryKind::LeakyRelu(0.1),
    UnaryKind::Elu(0.7),
    UnaryKind::Clip([-0.5, 6.0]),
    UnaryKind::Sigmoid,
    UnaryKind::Silu,
    UnaryKind::HardSigmoid { alpha: 0.2, beta: 0.5 },
    UnaryKind::HardSwish,
    UnaryKind::Tanh,
    UnaryKind::Exp,
    UnaryKind::Log,
    UnaryKind::Sqrt,
    UnaryKind::Reciprocal,
    UnaryKind::Abs,
    UnaryKind::Neg,
    UnaryKind::Softplus,
    UnaryKind::Erf,
    UnaryKind::Gelu,
    UnaryKind::Floor,
    UnaryKind::Ceil,
    UnaryKind::Round,
    UnaryKind::Sin,
    UnaryKind::Cos,
    UnaryKind::Tan,
    UnaryKind::Asin,
    UnaryKind::Acos,
    UnaryKind::Atan,
    UnaryKind::Sinh,
    UnaryKind::Cosh,
    UnaryKind::Asinh,
    UnaryKind::Acosh,
    UnaryKind::Atanh,
    UnaryKind::Expm1,
    UnaryKind::Log1p,
    UnaryKind::Erfc,
    UnaryKind::ErfInv,
    UnaryKind::ErfcInv,
    UnaryKind::FastTanh,
    UnaryKind::RoundHalfAway,
    UnaryKind::Sign,
    UnaryKind::Square,
    UnaryKind::Rsqrt,
    UnaryKind::LogSigmoid,
    UnaryKind::Affine { alpha: 1.75, beta: -0.375 },
    UnaryKind::ThresholdedRelu(0.75),
    UnaryKind::ScaledTanh { alpha: 1.5, beta: 0.5 },
    UnaryKind::Softsign,
    UnaryKind::Gate { alpha: 1.702, beta: 0.0 },
    UnaryKind::Gate { alpha: 1.595_769_2, beta: 0.071_354_814 },
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

fn run(isa: Isa, kind: UnaryKind, x: &[f32], threads: usize) -> Vec<f32> {
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
            UnaryKind::Sigmoid
            | UnaryKind::Silu
            | UnaryKind::Softplus
            | UnaryKind::LogSigmoid
            | UnaryKind::Elu(_)
            | UnaryKind::Softsign
            | UnaryKind::Gelu => 2.0,
            UnaryKind::ScaledTanh { .. } | UnaryKind::Gate { .. } => 3.0,
            UnaryKind::Exp | UnaryKind::Log | UnaryKind::Tanh | UnaryKind::Erf => 1.5,
            UnaryKind::HardSigmoid { .. }
            | UnaryKind::HardSwish
            | UnaryKind::Rsqrt
            // In the tail, where erfc is a subnormal of f32.
            | UnaryKind::ErfcInv => 1.25,
            _ => 0.5001,
        };
        let mut worst = (0.0, 0.0, 0.0);
        for (&x, &y) in x.iter().zip(&run(Isa::best(), kind, &x, 1)) {
            let exact = triune_testing::unary(kind, f64::from(x));
            let rounded = exact as f32;
            if x.is_nan() || exact.is_nan() {
                // A limit may swallow infinities times zero, never a NaN operand; a threshold, which NaN is not above, does.
                let swallows = matches!(kind, UnaryKind::ThresholdedRelu(_)) && y == 0.0;
                assert!(y.is_nan() || !x.is_nan() || swallows, "{kind:?}({x}) = {y}");
                continue;
            }
            if rounded.is_infinite() || y.is_infinite() {
                let near = (exact / f64::from(f32::MAX)).abs();
                assert!(rounded == y || (near > 0.999_999 && near < 1.000_001), "{kind:?}({x}) = {y}");
                continue;
            }
            // Results that are differences of larger numbers are measured against those.
            let magnitude = match kind {
                UnaryKind::Gelu => exact.abs().max(f64::from(x).abs().min(6.0) * 0.5),
                UnaryKind::HardSigmoid { .. } => exact.abs().max(0.5),
                UnaryKind::HardSwish => exact.abs().max(0.5 * f64::from(x).abs()),
                // x times a sigmoid that has lost bits to underflow.
                UnaryKind::Silu => exact.abs().max(1e-36),
                // The exponent's last bits are lost, which tells where it is large.
                UnaryKind::Gate { alpha, beta } => {
                    let x = f64::from(x);
                    let exponent = (x * (f64::from(alpha) + f64::from(beta) * x * x)).abs();
                    exact.abs().max(1e-36) * (1.0 + exponent)
                }
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

/// Neighbours choose the way to a function's value together; what an element becomes does not depend on them.
#[test]
fn neighbours_change_no_bits() {
    let x = inputs();
    let among_infinities: Vec<f32> = x.iter().flat_map(|x| [*x, f32::INFINITY]).collect();
    for kind in ALL {
        for isa in isas() {
            let mixed = run(isa, kind, &among_infinities, 1);
            let alone: Vec<f32> = mixed.into_iter().step_by(2).collect();
            same_bits(&alone, &run(isa, kind, &x, 1), &format!("{kind:?} {isa:?}"));
        }
    }
}

#[test]
fn maps_with_gaps_stay_untouched() {
    let (i, o) = (gapped(2, [3, 5], 7, [1, 2, 3]), gapped(2, [3, 5], 7, [0, 4, 0]));
    let x = Random(1).floats(i.span());
    let mut y = vec![777.0; o.span()];
    unary(Isa::best(), UnaryKind::Neg, &x, i, &mut y, o, &Pool::new(2)).unwrap();
    let mut expected = vec![777.0; o.span()];
    for (n, h, w, c) in indices(o) {
        expected[o.offset(n, h, w) + c] = -x[i.offset(n, h, w) + c];
    }
    same_bits(&expected, &y, "gaps");
    let pool = Pool::new(1);
    assert!(unary(Isa::best(), UnaryKind::Neg, &x[1..], i, &mut y, o, &pool).is_err());
    assert!(unary(Isa::best(), UnaryKind::Neg, &x, i, &mut y[1..], o, &pool).is_err());
    assert!(unary(Isa::best(), UnaryKind::Neg, &x, Nhwc { c: 6, ..i }, &mut y, o, &pool).is_err());
    let empty = Nhwc::dense(0, 3, 5, 7);
    unary(Isa::best(), UnaryKind::Neg, &[], empty, &mut [], empty, &pool).unwrap();
}

/// The functions that are computed in f64, against the library's f64 functions: half a unit in the last place of f32.
#[test]
fn rare_functions_are_rounded_from_double() {
    type Reference = (UnaryKind, fn(f64) -> f64);
    let functions: [Reference; 13] = [
        (UnaryKind::Sin, f64::sin),
        (UnaryKind::Cos, f64::cos),
        (UnaryKind::Tan, f64::tan),
        (UnaryKind::Asin, f64::asin),
        (UnaryKind::Acos, f64::acos),
        (UnaryKind::Atan, f64::atan),
        (UnaryKind::Sinh, f64::sinh),
        (UnaryKind::Cosh, f64::cosh),
        (UnaryKind::Asinh, f64::asinh),
        (UnaryKind::Acosh, f64::acosh),
        (UnaryKind::Atanh, f64::atanh),
        (UnaryKind::Expm1, f64::exp_m1),
        (UnaryKind::Log1p, f64::ln_1p),
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
        let got = run(Isa::best(), UnaryKind::Erfc, &[x as f32, -x as f32], 1);
        assert!((f64::from(got[0]) - expected).abs() <= 2e-7 * expected, "erfc({x}) = {}", got[0]);
        assert!((f64::from(got[1]) - (2.0 - expected)).abs() <= 2e-7, "erfc(−{x}) = {}", got[1]);
    }
    let mut random = Random(47);
    let y: Vec<f32> = (0..2000).map(|_| random.unit() * 0.999).collect();
    let back = run(Isa::best(), UnaryKind::Erf, &run(Isa::best(), UnaryKind::ErfInv, &y, 1), 1);
    for (y, back) in y.iter().zip(&back) {
        assert!((y - back).abs() <= 4e-7, "erf(erfinv({y})) = {back}");
    }
    let q: Vec<f32> = (0..2000).map(|i| 10_f32.powf(-f32::from(i as u16) / 60.0)).collect();
    let inverse = run(Isa::best(), UnaryKind::ErfcInv, &q, 1);
    for ((q, inverse), back) in q.iter().zip(&inverse).zip(run(Isa::best(), UnaryKind::Erfc, &inverse, 1)) {
        // erfc falls by 2·x per unit of x, of which x has 2⁻²⁴ of its own size.
        let slack = 4e-7 * (1.0 + inverse * inverse);
        assert!((q - back).abs() <= slack * q, "erfc(erfcinv({q})) = {back}");
    }
    let ends = run(Isa::best(), UnaryKind::ErfInv, &[1.0, -1.0, 0.0, 1.5], 1);
    assert!(ends[..3] == [f32::INFINITY, f32::NEG_INFINITY, 0.0] && ends[3].is_nan());
    let ends = run(Isa::best(), UnaryKind::ErfcInv, &[0.0, 2.0, 1.0, -0.1], 1);
    assert!(ends[..2] == [f32::INFINITY, f32::NEG_INFINITY] && ends[2].abs() < 1e-7 && ends[3].is_nan());
}
