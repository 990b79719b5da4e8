//! Products with addends and with third factors on every instruction set and thread count, against one element at a time.

use crate::common::{extents, isas, offsets, same_bits, span, strides};
use triune_kernels::{Isa, Pool, Then, Triple, triple};
use triune_testing::Random;

#[test]
fn products_are_rounded_before_the_third_operand_joins() {
    let mut random = Random(83);
    // The innermost runs that have loops of their own, long enough for several threads, and in rows.
    let flat = |inner: [usize; 4]| ([1, 1, 1, 1, 1, 40_001], inner.map(|stride| [0, 0, 0, 0, 0, stride]));
    let rows = |inner: [usize; 4]| {
        ([1, 1, 1, 3, 50, 37], inner.map(|stride| [0, 0, 0, 50 * 37 * stride, 37 * stride, stride]))
    };
    let inners = [
        [1, 1, 1, 1],
        [1, 1, 1, 0],
        [1, 1, 0, 1],
        [1, 1, 0, 0],
        [1, 0, 1, 1],
        [1, 0, 1, 0],
        [1, 0, 0, 1],
        [1, 0, 0, 0],
        [1, 2, 1, 1],
        [2, 1, 1, 1],
    ];
    let mut cases: Vec<_> = inners.iter().flat_map(|&inner| [flat(inner), rows(inner)]).collect();
    for _ in 0..60 {
        let dims = extents(&mut random, 3);
        let own = [false, true, true, true].map(|repeats| strides(&mut random, dims, repeats));
        cases.push((dims, own));
    }
    let mut fused = 0;
    for (dims, all) in cases {
        let [out, a, b, c] = all;
        let shape = Triple::new(dims, [a, b, c], out).unwrap();
        let [x, y, z] = [a, b, c].map(|strides| random.floats(span(dims, strides)));
        let mut expected = [Then::Add, Then::Mul].map(|then| (then, vec![777.0_f32; span(dims, out)]));
        for [o, i, j, k] in offsets(dims, all) {
            let product = x[i] * y[j];
            expected[0].1[o] = product + z[k];
            expected[1].1[o] = product * z[k];
            fused += usize::from(x[i].mul_add(y[j], z[k]) != product + z[k]);
        }
        for (isa, threads) in isas().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
            for (then, expected) in &expected {
                let mut got = vec![777.0; expected.len()];
                triple(isa, *then, &shape, [&x, &y, &z], &mut got, &Pool::new(threads)).unwrap();
                same_bits(expected, &got, &format!("{isa:?} {then:?} {dims:?} {all:?}"));
            }
        }
    }
    assert!(fused > 1000, "{fused} would differ with one rounding");
}

#[test]
fn misfits_are_errors() {
    let strides = [0, 0, 0, 0, 0, 1];
    let shape = Triple::new([1, 1, 1, 1, 1, 4], [strides; 3], strides).unwrap();
    let (pool, x) = (Pool::new(1), [1.0; 4]);
    let run =
        |operands: [&[f32]; 3], out: &mut [f32]| triple(Isa::best(), Then::Add, &shape, operands, out, &pool);
    run([&x; 3], &mut [0.0; 4]).unwrap();
    for short in 0..3 {
        let mut operands = [&x[..]; 3];
        operands[short] = &x[1..];
        run(operands, &mut [0.0; 4]).unwrap_err();
    }
    run([&x; 3], &mut [0.0; 3]).unwrap_err();
    Triple::new([1, 1, 1, 1, 1, 4], [strides; 3], [0; 6]).unwrap_err();
}
