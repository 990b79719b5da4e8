//! Weighted sums of picked elements: against a plain loop, with the same bits on every instruction set and number of threads.

use triune_kernels::{Error, Isa, Pool, WeighSpec, weigh};
use triune_testing::Random;

#[test]
fn sums_of_picked_elements() {
    let mut random = Random(71);
    let extents = [
        (1, 1, 1, 1, 1),
        (2, 3, 40, 33, 4),
        (1, 5, 70, 17, 9),
        (2, 16, 20, 64, 1),
        (1, 37, 90, 50, 4),
        (1, 4, 300_000, 20, 2),
        (0, 2, 3, 3, 1),
        (2, 2, 3, 0, 1),
        (1, 20, 0, 4, 3),
    ];
    for (batch, channels, elements, count, taps) in extents {
        for code in 0..4 {
            let (shared, weighted) = (code & 1 == 1, code & 2 == 2);
            let spec = WeighSpec { batch, channels, elements, count, taps, shared };
            let own = if shared { batch.min(1) } else { batch } * taps * count;
            let x: Vec<f32> = (0..batch * channels * elements).map(|_| random.unit()).collect();
            let indices: Vec<i32> = (0..own).map(|_| random.below(elements + 1) as i32 - 1).collect();
            let factors: Vec<f32> = (0..own).map(|_| random.unit()).collect();
            let mut wanted = vec![0.0_f32; batch * channels * count];
            for (at, wanted) in wanted.iter_mut().enumerate() {
                let (image, row, place) = (at / (channels * count), at / count, at % count);
                let first = if shared { 0 } else { image * taps * count };
                let picked = (0..taps).map(|tap| first + tap * count + place).filter(|&at| indices[at] >= 0);
                for (number, at) in picked.enumerate() {
                    let factor = if weighted { factors[at] } else { 1.0 };
                    let x = x[row * elements + indices[at] as usize];
                    *wanted = if number == 0 { factor * x } else { factor.mul_add(x, *wanted) };
                }
            }
            for isa in Isa::available() {
                for pool in [1, 3].map(Pool::new) {
                    let mut scratch = vec![f32::NAN; spec.scratch_floats(pool.threads())];
                    let mut out = vec![f32::NAN; wanted.len()];
                    let given = weighted.then_some(&factors[..]);
                    weigh(isa, &spec, &x, &indices, given, &mut out, &mut scratch, &pool).unwrap();
                    let bits =
                        |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&out), bits(&wanted), "{spec:?} {isa:?}");
                }
            }
        }
    }
}

/// Windows' columns put together: runs of neighbours between results without any, shorter and longer than what is looked at at
/// once, with zeros of either sign, of which a first one keeps its own.
#[test]
fn runs_of_neighbours() {
    let mut random = Random(72);
    for (channels, elements, count, taps) in
        [(4, 200, 150, 3), (19, 90, 400, 5), (16, 64, 1000, 2), (5, 300, 7, 4)]
    {
        let spec = WeighSpec { batch: 2, channels, elements, count, taps, shared: true };
        let mut indices = Vec::new();
        while indices.len() < taps * count {
            let len = random.between(8, 60).min(elements);
            let first = random.below(elements - len + 1) as i32;
            let none = random.below(3) == 0;
            indices.extend((0..len as i32).map(|at| if none { -1 - at % 2 } else { first + at }));
        }
        indices.truncate(taps * count);
        let x: Vec<f32> =
            (0..2 * channels * elements).map(|_| [-0.0, 0.0, -1.25, 3e-8][random.below(4)]).collect();
        let mut wanted = vec![0.0_f32; 2 * channels * count];
        for (at, wanted) in wanted.iter_mut().enumerate() {
            let picked = (0..taps).map(|tap| indices[tap * count + at % count]).filter(|index| *index >= 0);
            for (number, index) in picked.enumerate() {
                let x = x[at / count * elements + index as usize];
                *wanted = if number == 0 { x } else { *wanted + x };
            }
        }
        for isa in Isa::available() {
            for pool in [1, 3].map(Pool::new) {
                let mut scratch = vec![f32::NAN; spec.scratch_floats(pool.threads())];
                let mut out = vec![f32::NAN; wanted.len()];
                weigh(isa, &spec, &x, &indices, None, &mut out, &mut scratch, &pool).unwrap();
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&out), bits(&wanted), "{spec:?} {isa:?}");
            }
        }
    }
}

#[test]
fn refuses() {
    let spec = WeighSpec { batch: 1, channels: 4, elements: 3, count: 2, taps: 2, shared: false };
    let (x, indices, factors) = ([1.0; 12], [0, 2, -1, 1], [1.0; 4]);
    let pool = Pool::new(1);
    let run = |x: &[f32], indices: &[i32], factors: &[f32], out: usize, less: usize| {
        let mut scratch = vec![0.0; spec.scratch_floats(1) - less];
        let mut out = vec![0.0; out];
        weigh(Isa::best(), &spec, x, indices, Some(factors), &mut out, &mut scratch, &pool)
    };
    assert!(run(&x, &indices, &factors, 8, 0).is_ok());
    assert!(run(&x[1..], &indices, &factors, 8, 0).is_err());
    assert!(run(&x, &indices[1..], &factors, 8, 0).is_err());
    assert!(run(&x, &indices, &factors[1..], 8, 0).is_err());
    assert!(run(&x, &indices, &factors, 7, 0).is_err());
    assert!(run(&x, &indices, &factors, 8, 1).is_err());
    let error = run(&x, &[0, 1, 3, 2], &factors, 8, 0).expect_err("outside");
    assert!(matches!(error, Error::Index { index: 3, extent: 3, .. }), "{error}");
}
