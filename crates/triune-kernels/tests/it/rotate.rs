//! Rows turned in pairs, against the formula element by element, with the same bits on every instruction set and number of threads.

use crate::common::isas;
use triune_kernels::{Error, Isa, Pool, Rotation, Row, rotate};
use triune_testing::Random;

#[test]
fn rows_turn_as_their_formula_says() {
    let mut random = Random(51);
    for pairs in [0, 1, 5, 16, 21, 32] {
        for (interleaved, rest, apart) in [(false, 0, 0), (false, 3, 5), (true, 0, 0), (true, 2, 7)] {
            let len = 2 * pairs + rest;
            if len == 0 {
                continue;
            }
            // Heads that lie behind places, and angles that all heads share.
            let (heads, places) = (3, 4);
            let dims = [1, 1, 1, heads, places, 1];
            let strides = [
                [0, 0, 0, len, heads * len, 0],
                [0, 0, 0, len + apart, heads * (len + apart), 0],
                [0, 0, 0, 0, pairs, 0],
                [0, 0, 0, 0, pairs, 0],
            ];
            let row = Row { len, pairs, interleaved };
            let shape = Rotation::new(dims, row, strides).expect("rows");
            let x = random.floats(heads * places * (len + apart));
            let (cosines, sines) = (random.floats(places * pairs), random.floats(places * pairs));
            let mut expected = vec![0.0_f32; heads * places * len];
            for (index, y) in expected.chunks_mut(len).enumerate() {
                let (x, place) = (&x[index * (len + apart)..][..len], index / heads);
                y.copy_from_slice(x);
                for pair in 0..pairs {
                    let (first, second) =
                        if interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pairs + pair) };
                    let (cos, sin) = (cosines[place * pairs + pair], sines[place * pairs + pair]);
                    y[first] = x[first] * cos - x[second] * sin;
                    y[second] = x[second] * cos + x[first] * sin;
                }
            }
            for isa in isas() {
                for pool in [Pool::new(1), Pool::new(3)] {
                    let mut out = vec![0.5; expected.len()];
                    rotate(isa, &shape, [&x, &cosines, &sines], &mut out, &pool).expect("fitting slices");
                    let same = out.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{row:?} on {}", isa.name());
                }
            }
        }
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let dims = [1, 1, 1, 1, 1, 2];
    let strides = |out| [[0, 0, 0, 0, 0, out], [0, 0, 0, 0, 0, 4], [0; 6], [0; 6]];
    let row = Row { len: 4, pairs: 2, interleaved: false };
    assert_eq!(
        Rotation::new(dims, Row { pairs: 3, ..row }, strides(4)),
        Err(Error::Invalid("more pairs than a row has"))
    );
    assert_eq!(Rotation::new(dims, row, strides(3)), Err(Error::Invalid("output elements overlap")));
    let shape = Rotation::new(dims, row, strides(4)).expect("rows");
    let pool = Pool::new(1);
    for (x, angles, out) in [(7, 2, 8), (8, 1, 8), (8, 2, 7)] {
        let (x, angles, mut out) = (vec![0.0; x], vec![0.0; angles], vec![0.0; out]);
        assert!(rotate(Isa::Scalar, &shape, [&x, &angles, &angles], &mut out, &pool).is_err());
    }
}
