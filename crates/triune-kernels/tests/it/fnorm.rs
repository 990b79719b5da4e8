//! Normalization of rows: against its definition in f64, and with the bits of the reductions and products that it stands for.

use triune_kernels::{Error, Isa, NormRow, Pool, normalize};
use triune_testing::Random;

/// The definition, in f64.
fn naive(row: NormRow<'_>, x: &[f32]) -> Vec<f64> {
    let of_row = |x: &[f32]| -> Vec<f64> {
        let count = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
        let deviation = (variance + f64::from(row.epsilon)).sqrt();
        let factor = |at: usize| row.gamma.map_or(1.0, |gamma| f64::from(gamma[at]));
        let addend = |at: usize| row.beta.map_or(0.0, |beta| f64::from(beta[at]));
        x.iter()
            .enumerate()
            .map(|(at, &x)| (f64::from(x) - mean) / deviation * factor(at) + addend(at))
            .collect()
    };
    x.chunks(row.len).flat_map(of_row).collect()
}

/// Step by step, each rounded to f32; sums in 16 parts, which are joined in pairs.
fn by_steps(row: NormRow<'_>, x: &[f32]) -> Vec<f32> {
    let mean = |values: &[f32]| {
        let mut parts = [0.0_f64; 16];
        values.iter().enumerate().for_each(|(at, &value)| parts[at % 16] += f64::from(value));
        let mut width = 16;
        while width > 1 {
            width /= 2;
            for at in 0..width {
                parts[at] += parts[at + width];
            }
        }
        (parts[0] / values.len() as f64) as f32
    };
    let of_row = |x: &[f32]| -> Vec<f32> {
        let middle = mean(x);
        let apart: Vec<f32> = x.iter().map(|x| x - middle).collect();
        let variance = mean(&apart.iter().map(|apart| apart * apart).collect::<Vec<_>>());
        let inverse = 1.0 / (variance + row.epsilon).sqrt();
        let mut y: Vec<f32> = apart.iter().map(|apart| apart * inverse).collect();
        if let Some(gamma) = row.gamma {
            y.iter_mut().zip(gamma).for_each(|(y, gamma)| *y *= gamma);
        }
        if let Some(beta) = row.beta {
            y.iter_mut().zip(beta).for_each(|(y, beta)| *y += beta);
        }
        y
    };
    x.chunks(row.len).flat_map(of_row).collect()
}

#[test]
fn rows_are_normalized_with_the_same_bits_everywhere() {
    for (seed, (rows, len)) in
        [(1, 1), (3, 2), (5, 15), (4, 16), (7, 17), (2, 768), (3, 1000), (1, 70_001)].into_iter().enumerate()
    {
        let mut random = Random(seed as u64 + 1);
        let x: Vec<f32> = random.floats(rows * len).iter().map(|x| 3.0 * x + 5.0).collect();
        let (gamma, beta) = (random.floats(len), random.floats(len));
        for (gamma, beta) in [
            (None, None),
            (Some(&gamma[..]), None),
            (None, Some(&beta[..])),
            (Some(&gamma[..]), Some(&beta[..])),
        ] {
            let row = NormRow { len, epsilon: 1e-5, gamma, beta };
            let steps = by_steps(row, &x);
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let mut y = vec![f32::NAN; x.len()];
                    normalize(isa, row, &x, &mut y, &Pool::new(threads)).expect("rows");
                    assert_eq!(y, steps, "{rows}×{len} on {isa:?} with {threads} threads");
                }
            }
            for (got, wanted) in steps.iter().zip(naive(row, &x)) {
                assert!(
                    (f64::from(*got) - wanted).abs() <= 2e-5 * (1.0 + wanted.abs()),
                    "{got} for {wanted}"
                );
            }
        }
    }
}

#[test]
fn misfits_are_errors() {
    let pool = Pool::new(1);
    let run = |len: usize, gamma: Option<&[f32]>, x: usize, y: usize| {
        let row = NormRow { len, epsilon: 0.0, gamma, beta: None };
        normalize(Isa::Scalar, row, &vec![1.0; x], &mut vec![0.0; y], &pool)
    };
    assert!(run(3, None, 6, 6).is_ok());
    assert!(run(0, None, 0, 0).is_ok());
    assert!(matches!(run(3, None, 6, 5), Err(Error::Mismatch { .. })));
    assert!(matches!(run(3, Some(&[1.0; 2]), 6, 6), Err(Error::Mismatch { .. })));
    assert!(matches!(run(4, None, 6, 6), Err(Error::Invalid(_))));
    assert!(matches!(run(0, None, 6, 6), Err(Error::Invalid(_))));
}
