//! Attention against its formula in f64, with the same bits on every instruction set and number of threads.

use crate::common::isas;
use triune_kernels::{Attention, AttentionSpec, Error, Isa, Pool};
use triune_testing::Random;

/// Heads without gaps, one behind the other.
fn dense(heads: [usize; 2], [queries, keys, width, elements]: [usize; 4]) -> AttentionSpec {
    let apart = |rows: usize, len: usize| [heads[1] * rows * len, rows * len, len];
    let [first, second, row] = apart(keys, width);
    AttentionSpec {
        heads,
        queries,
        keys,
        width,
        elements,
        scale: 0.3,
        q: apart(queries, width),
        k: [first, second, row, 1],
        v: apart(keys, elements),
        bias: None,
        y: apart(queries, elements),
    }
}

/// Heads beside each other, as a projection leaves them.
fn beside(mut spec: AttentionSpec) -> AttentionSpec {
    let [_, inner] = spec.heads;
    let apart = |rows: usize, len: usize| [rows * inner * len, len, inner * len];
    let [first, second, row] = apart(spec.keys, spec.width);
    spec.q = apart(spec.queries, spec.width);
    spec.k = [first, second, row, 1];
    spec.v = apart(spec.keys, spec.elements);
    spec.y = apart(spec.queries, spec.elements);
    spec
}

/// Elements that the operands need: queries, keys, values, bias, results.
fn lengths(s: &AttentionSpec) -> [usize; 5] {
    let [outer, inner] = s.heads;
    let reach = |steps: &[(usize, usize)]| {
        1 + steps.iter().map(|(extent, stride)| (extent - 1) * stride).sum::<usize>()
    };
    let of = |[first, second, row]: [usize; 3], rows: usize, len: usize| {
        reach(&[(outer, first), (inner, second), (rows, row), (len, 1)])
    };
    let [first, second, key, element] = s.k;
    [
        of(s.q, s.queries, s.width),
        reach(&[(outer, first), (inner, second), (s.keys, key), (s.width, element)]),
        of(s.v, s.keys, s.elements),
        s.bias.map_or(0, |bias| of(bias, s.queries, s.keys)),
        of(s.y, s.queries, s.elements),
    ]
}

fn run(s: &AttentionSpec, isa: Isa, threads: usize, operands: [&[f32]; 4]) -> Vec<f32> {
    let attention = Attention::new(s, isa).expect("a right description");
    let pool = Pool::new(threads);
    let mut y = vec![f32::NAN; lengths(s)[4]];
    let mut scratch = vec![0xff; attention.scratch_bytes(threads)];
    let [q, k, v, bias] = operands;
    attention.run([q, k, v], bias, &mut y, &mut scratch, &pool).expect("fitting slices");
    y
}

/// The largest difference from the formula, in f64.
fn off(s: &AttentionSpec, [q, k, v, bias]: [&[f32]; 4], y: &[f32]) -> f64 {
    let mut most = 0.0_f64;
    for head in 0..s.heads[0] * s.heads[1] {
        let start = |first: usize, second: usize| head / s.heads[1] * first + head % s.heads[1] * second;
        for query in 0..s.queries {
            let scores: Vec<f64> = (0..s.keys)
                .map(|key| {
                    let (from, to) =
                        (start(s.q[0], s.q[1]) + query * s.q[2], start(s.k[0], s.k[1]) + key * s.k[2]);
                    let sum: f64 =
                        (0..s.width).map(|i| f64::from(q[from + i]) * f64::from(k[to + i * s.k[3]])).sum();
                    let added =
                        s.bias.map_or(0.0, |[a, b, c]| f64::from(bias[start(a, b) + query * c + key]));
                    sum * f64::from(s.scale) + added
                })
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let all: f64 = weights.iter().sum();
            for element in 0..s.elements {
                let value = |key: usize| f64::from(v[start(s.v[0], s.v[1]) + key * s.v[2] + element]);
                let sum: f64 = weights.iter().enumerate().map(|(key, weight)| weight * value(key)).sum();
                let own = y[start(s.y[0], s.y[1]) + query * s.y[2] + element];
                most = most.max((f64::from(own) - sum / all).abs());
            }
        }
    }
    most
}

#[test]
fn agrees_with_its_formula_everywhere() {
    let mut random = Random(7);
    let extents = [
        [1, 1, 1, 1],
        [3, 5, 1, 2],
        [14, 32, 8, 16],
        [15, 33, 7, 17],
        [29, 130, 64, 48],
        [6, 16, 32, 33],
        [57, 47, 5, 64],
    ];
    for (index, extents) in extents.into_iter().enumerate() {
        for heads in [[1, 1], [2, 3]] {
            let plain = dense(heads, extents);
            let turned = {
                // Keys as their product has them: elements, each of all keys.
                let [first, second, ..] = plain.k;
                AttentionSpec { k: [first, second, 1, extents[1]], ..plain }
            };
            let one_for_all = {
                let [.., row] = plain.v;
                let [.., key, element] = plain.k;
                AttentionSpec { k: [0, 0, key, element], v: [0, 0, row], ..plain }
            };
            let one_for_several = {
                let ([first, _, key, element], [start, _, row]) = (plain.k, plain.v);
                AttentionSpec { k: [first, 0, key, element], v: [start, 0, row], ..plain }
            };
            let rows = |shared: [usize; 3]| AttentionSpec { bias: Some(shared), ..beside(plain) };
            let own = [heads[1] * extents[0] * extents[1], extents[0] * extents[1], extents[1]];
            let specs = [
                plain,
                beside(plain),
                turned,
                one_for_all,
                one_for_several,
                AttentionSpec { scale: -0.25, ..plain },
                rows([0, 0, extents[1]]),
                rows([0, 0, 0]),
                rows(own),
            ];
            for spec in specs {
                let lengths = lengths(&spec);
                let operands = [0, 1, 2, 3].map(|at| random.floats(lengths[at]));
                let operands = operands.each_ref().map(|operand| &operand[..]);
                let plainly = run(&spec, Isa::Scalar, 1, operands);
                let most = off(&spec, operands, &plainly);
                assert!(most < 1e-6, "{spec:?}: {most}");
                for isa in isas() {
                    for threads in [1, 2, 3 + index] {
                        let y = run(&spec, isa, threads, operands);
                        let same = y
                            .iter()
                            .zip(&plainly)
                            .all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
                        assert!(same, "{spec:?} on {} by {threads}", isa.name());
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_hidden_has_no_weight() {
    let spec = AttentionSpec { bias: Some([0, 0, 40]), ..dense([1, 1], [3, 40, 4, 2]) };
    let mut random = Random(3);
    let lengths = lengths(&spec);
    let [q, k, mut v] = [0, 1, 2].map(|at| random.floats(lengths[at]));
    // The first query sees one key, the second one none, the third all.
    let mut bias = vec![f32::NEG_INFINITY; 120];
    bias[17] = 0.25;
    bias[80..].fill(-90.0);
    // A weight of 0 times ∞ is no number, and says so.
    v[0] = f32::INFINITY;
    for isa in isas() {
        let y = run(&spec, isa, 2, [&q, &k, &v, &bias]);
        assert!(y[0].is_nan() && y[1] == v[2 * 17 + 1], "{}: {y:?}", isa.name());
        assert!(y[2].is_nan() && y[3].is_nan(), "{}: {y:?}", isa.name());
        assert!(y[4] == f32::INFINITY && y[5].is_finite(), "{}: {y:?}", isa.name());
    }
}

#[test]
fn weights_fade_into_the_subnormals() {
    // One query of one element, keys from 0 down: scores are the keys.
    let keys: Vec<f32> = (0..1600).map(|key| -(key as f32) / 10.0).collect();
    let spec = AttentionSpec { scale: 1.0, ..dense([1, 1], [1, keys.len(), 1, 1]) };
    for isa in isas() {
        for key in [0, 1, 500, 870, 880, 1000, 1030, 1039, 1045, 1599] {
            // The weight itself, and the sum of all by a value of 1 everywhere.
            let mut v = vec![0.0; keys.len()];
            v[key] = 1.0;
            let weight = f64::from(run(&spec, isa, 1, [&[1.0], &keys, &v, &[]])[0]);
            let sum: f64 = keys.iter().map(|key| f64::from(*key).exp()).sum();
            let expected = f64::from(keys[key]).exp() / sum;
            assert!(
                (weight - expected).abs() <= expected * 3e-6 + 2e-45,
                "{key} on {}: {weight:e} {expected:e}",
                isa.name()
            );
        }
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let spec = dense([2, 3], [4, 5, 6, 7]);
    let refused = |spec: AttentionSpec, words: &'static str| {
        assert_eq!(Attention::new(&spec, Isa::Scalar).err(), Some(Error::Invalid(words)));
    };
    let nothing = "an extent of attention is 0";
    refused(AttentionSpec { heads: [0, 3], ..spec }, nothing);
    refused(AttentionSpec { heads: [2, 0], ..spec }, nothing);
    refused(AttentionSpec { queries: 0, ..spec }, nothing);
    refused(AttentionSpec { keys: 0, ..spec }, nothing);
    refused(AttentionSpec { width: 0, ..spec }, nothing);
    refused(AttentionSpec { elements: 0, ..spec }, nothing);
    refused(
        AttentionSpec { k: [0, 0, 6, 2], ..spec },
        "neither keys nor their elements lie one after the other",
    );
    let overlap = "results of attention overlap";
    refused(AttentionSpec { y: [84, 28, 6], ..spec }, overlap);
    refused(AttentionSpec { y: [84, 27, 7], ..spec }, overlap);
    refused(AttentionSpec { y: [83, 28, 7], ..spec }, overlap);
    let overflow = "extents overflow";
    let far = usize::MAX / 8;
    refused(AttentionSpec { keys: far, ..spec }, overflow);
    refused(AttentionSpec { width: far, ..spec }, overflow);
    refused(AttentionSpec { elements: far, y: [6 * far, 2 * far, far], ..spec }, overlap);

    let spec = AttentionSpec { bias: Some([0, 0, 5]), ..spec };
    let attention = Attention::new(&spec, Isa::Scalar).expect("a right description");
    let lengths = lengths(&spec);
    let pool = Pool::new(1);
    for (short, what) in ["queries", "keys", "values", "bias", "output", "scratch"].into_iter().enumerate() {
        let less = |at: usize| if at == short { lengths[at] - 1 } else { lengths[at] };
        let [q, k, v, bias] = [0, 1, 2, 3].map(|at| vec![0.0_f32; less(at)]);
        let mut y = vec![0.0_f32; less(4)];
        let mut scratch = vec![0_u8; attention.scratch_bytes(1) - usize::from(short == 5)];
        let error = attention.run([&q, &k, &v], &bias, &mut y, &mut scratch, &pool).expect_err("too short");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}
