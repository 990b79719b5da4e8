//! Functions of float64 in vectors against the same one element after the other, and nests cut in rows against whole ones.

use crate::common::isas;
use triune_kernels::{Broadcast, Choice, Pool, binary, double_unary, select};
use triune_tensor::function::{BinaryKind, UnaryKind};
use triune_testing::Random;

/// Numbers among which those that functions treat in their own way come alone, in crowds and at the end.
fn arguments(len: usize) -> Vec<f64> {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        690.0,
        -690.000_001,
        709.9,
        -745.3,
        5e-324,
        f64::MIN_POSITIVE,
        1e300,
        1e9,
    ];
    let mut x: Vec<f64> = Random(len as u64).floats(len).into_iter().map(|x| f64::from(x) * 7.3).collect();
    for (index, x) in x.iter_mut().enumerate().filter(|(index, _)| index / 64 % 3 == 1) {
        *x = if index % 5 == 0 { special[index / 5 % special.len()] } else { x.abs() };
    }
    x
}

#[test]
fn doubles_by_vectors() {
    use UnaryKind::{Abs, Cos, Exp, Log, Neg, Reciprocal, Relu, Sigmoid, Silu, Sin, Sqrt, Square, Tanh};
    for kind in [Exp, Sigmoid, Silu, Log, Sin, Cos, Sqrt, Abs, Neg, Reciprocal, Square, Relu, Tanh] {
        for len in [0, 1, 31, 32, 33, 100, 1000] {
            let x = arguments(len);
            // The bits of a NaN that an operation makes are the machine's.
            let bits = |y: f64| if y.is_nan() { None } else { Some(y.to_bits()) };
            let expected: Vec<_> =
                x.iter().map(|&x| bits(if x.is_nan() { x } else { kind.evaluate(x) })).collect();
            for isa in isas() {
                for threads in [1, 3] {
                    let mut y = vec![1.5; len];
                    double_unary(isa, kind, &x, &mut y, &Pool::new(threads)).expect("operands fit");
                    let got: Vec<_> = y.iter().map(|&y| bits(y)).collect();
                    assert_eq!(got, expected, "{kind:?} of {len} on {isa:?}");
                }
            }
        }
    }
}

#[test]
fn nests_are_cut_in_rows() {
    let (dense, rows, columns) = ([0, 0, 0, 0, 9, 1], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]);
    let dims = [1, 1, 1, 1, 700, 9];
    let pool = Pool::new(1);
    let x = Random(1).floats(6300);
    for (a, b, expected) in [
        (dense, rows, [9, 9, 1]),
        (columns, dense, [9, 0, 9]),
        (dense, dense, [1, 1, 1]),
        (dense, [0; 6], [1, 1, 0]),
    ] {
        let nest = Broadcast::new(dims, a, b, dense).expect("a nest");
        let (count, apart) = nest.rows().expect("rows");
        assert_eq!((apart, count * apart[0]), (expected, 6300));
        for isa in isas() {
            let mut whole = vec![0.0; 6300];
            binary(isa, BinaryKind::Sub, &nest, &x, &x, &mut whole, &pool).expect("operands fit");
            for each in [1, 2, 64, 650, count] {
                let mut parts = vec![0.0; 6300];
                for first in (0..count).step_by(each) {
                    let own = each.min(count - first);
                    let part = nest.of_rows(own);
                    let [out, a, b] = apart.map(|apart| first * apart);
                    let out = &mut parts[out..][..own * apart[0]];
                    binary(isa, BinaryKind::Sub, &part, &x[a..], &x[b..], out, &pool).expect("operands fit");
                }
                assert_eq!(parts, whole, "{each} rows on {isa:?}");
            }
            // A choice's rows are the same.
            let choice = Choice::new(dims, rows, a, b, dense).expect("a nest");
            assert_eq!(choice.rows(), Some((700, [9, 1, if a == columns { 0 } else { 9 }, b[4]])));
            let mut one = vec![0.0; 9];
            select(isa, &choice.of_rows(1), &[1], &x[9..], &x[..9], &mut one, &pool).expect("operands fit");
            assert_eq!(one, x[9..18]);
        }
    }
    // Rows with gaps, and a single one, are not cut.
    let gaps = Broadcast::new(dims, dense, dense, [0, 0, 0, 0, 10, 1]).expect("a nest");
    assert_eq!(gaps.rows(), None);
    assert_eq!(Broadcast::dense(1).expect("a nest").rows(), None);
    assert_eq!(Broadcast::dense(0).expect("a nest").rows(), None);
}
