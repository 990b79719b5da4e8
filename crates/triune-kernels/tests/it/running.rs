//! Running sums and products, and products of matrices of numbers: against plain loops, with the same bits on every instruction set and
//! number of threads.

use triune_kernels::{Isa, Pool, RunningSpec, TMatMulSpec, product, running};
use triune_testing::Random;

/// `step` by `step` along the axis, in the order that the specification says.
fn expected<T: Copy>(spec: &RunningSpec, x: &[T], start: T, step: impl Fn(T, T) -> T) -> Vec<T> {
    let RunningSpec { outer, len, inner, exclusive, reverse, .. } = *spec;
    let mut out = vec![start; outer * len * inner];
    for row in 0..outer * inner {
        let mut sum = start;
        for index in 0..len {
            let index = if reverse { len - 1 - index } else { index };
            let at = row / inner * len * inner + index * inner + row % inner;
            let next = step(sum, x[at]);
            out[at] = if exclusive { sum } else { next };
            sum = next;
        }
    }
    out
}

#[test]
fn sums_and_products_run_in_order() {
    let mut random = Random(61);
    for (outer, len, inner) in
        [(1, 1, 1), (3, 17, 1), (2, 5, 33), (1, 40, 1100), (1, 70_000, 1), (0, 3, 2), (600, 40, 3), (2, 3, 0)]
    {
        let count = outer * len * inner;
        let reals: Vec<f32> = (0..count).map(|_| random.unit()).collect();
        let whole: Vec<i16> = (0..count).map(|_| random.next() as i16).collect();
        for code in 0..8 {
            let (product, exclusive, reverse) = (code & 1 == 1, code & 2 == 2, code & 4 == 4);
            let spec = RunningSpec { outer, len, inner, product, exclusive, reverse };
            let (wanted, integers) = if product {
                (expected(&spec, &reals, 1.0, |a, b| a * b), expected(&spec, &whole, 1, i16::wrapping_mul))
            } else {
                (expected(&spec, &reals, 0.0, |a, b| a + b), expected(&spec, &whole, 0, i16::wrapping_add))
            };
            for isa in Isa::available() {
                for pool in [1, 3].map(Pool::new) {
                    let mut out = vec![f32::NAN; count];
                    running(isa, &spec, &reals, &mut out, &pool).unwrap();
                    let bits =
                        |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&out), bits(&wanted), "{spec:?} {isa:?}");
                    let mut out = vec![7; count];
                    running(isa, &spec, &whole, &mut out, &pool).unwrap();
                    assert_eq!(out, integers, "{spec:?} {isa:?}");
                    if count > 0 {
                        assert!(running(isa, &spec, &whole[1..], &mut out, &pool).is_err());
                        assert!(running(isa, &spec, &whole, &mut out[1..], &pool).is_err());
                    }
                }
            }
        }
    }
}

#[test]
fn matrices_of_numbers() {
    let mut random = Random(62);
    let extents = [
        [1, 1, 1, 1],
        [2, 3, 40, 5],
        [1, 9, 16, 33],
        [3, 4, 17, 1],
        [1, 2, 50, 7],
        [1, 130, 35, 20],
        [0, 2, 2, 2],
    ];
    for [batch, m, n, k] in extents {
        for shared_b in [false, true] {
            let spec = TMatMulSpec { batch, m, n, k, shared_b };
            let copies = if shared_b { 1 } else { batch };
            let whole = |random: &mut Random, count: usize| -> Vec<i64> {
                (0..count).map(|_| random.next() as i64).collect()
            };
            let (a, b) = (whole(&mut random, batch * m * k), whole(&mut random, copies * k * n));
            let reals =
                |values: &[i64]| -> Vec<f64> { values.iter().map(|&value| value as f64 / 1e15).collect() };
            let (x, y) = (reals(&a), reals(&b));
            let (mut sums, mut products) = (vec![0_i64; batch * m * n], vec![0.0_f64; batch * m * n]);
            for at in 0..batch * m * n {
                let (image, row, column) = (at / (m * n), at / n % m, at % n);
                let other = if shared_b { 0 } else { image };
                for i in 0..k {
                    let (left, right) = ((image * m + row) * k + i, (other * k + i) * n + column);
                    sums[at] = sums[at].wrapping_add(a[left].wrapping_mul(b[right]));
                    products[at] = x[left].mul_add(y[right], products[at]);
                }
            }
            for isa in Isa::available() {
                for pool in [1, 3].map(Pool::new) {
                    let elements = spec.scratch_elements(pool.threads());
                    let mut c = vec![5; sums.len()];
                    product(isa, &spec, &a, &b, &mut c, &mut vec![9; elements], &pool).unwrap();
                    assert_eq!(c, sums, "{spec:?} {isa:?}");
                    let mut c = vec![f64::NAN; sums.len()];
                    product(isa, &spec, &x, &y, &mut c, &mut vec![f64::NAN; elements], &pool).unwrap();
                    let bits =
                        |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&c), bits(&products), "{spec:?} {isa:?}");
                }
            }
            if batch > 0 {
                let pool = Pool::new(1);
                let (mut c, mut scratch) = (sums.clone(), vec![0; spec.scratch_elements(1)]);
                let isa = Isa::best();
                assert!(product(isa, &spec, &a[1..], &b, &mut c, &mut scratch, &pool).is_err());
                assert!(product(isa, &spec, &a, &b[1..], &mut c, &mut scratch, &pool).is_err());
                assert!(product(isa, &spec, &a, &b, &mut c[1..], &mut scratch, &pool).is_err());
                assert!(product(isa, &spec, &a, &b, &mut c, &mut scratch[1..], &pool).is_err());
            }
        }
    }
}
