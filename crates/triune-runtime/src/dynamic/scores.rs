//! What becomes of scores in the end, in f32 as ONNX Runtime computes it.

use triune_graph::ops::PostTransform;
use triune_tensor::function::math;

fn exp(x: f32) -> f32 {
    math::exp(f64::from(x)) as f32
}

/// 1/(1 + exp(−x)).
pub(super) fn logistic(x: f32) -> f32 {
    let y = 1.0 / (1.0 + exp(-x.abs()));
    if x < 0.0 { 1.0 - y } else { y }
}

/// About the inverse of the normal distribution: Winitzki's approximation of the inverse error function, which files mean.
pub(super) fn probit(x: f32) -> f32 {
    const A: f32 = 0.147;
    let y = 2.0 * x - 1.0;
    let sign = if y < 0.0 { -1.0 } else { 1.0 };
    let log = math::log(f64::from((1.0 - y) * (1.0 + y))) as f32;
    let half = 2.0 / (std::f32::consts::PI * A) + 0.5 * log;
    let root = (half * half - 1.0 / A * log).sqrt();
    std::f32::consts::SQRT_2 * (sign * (root - half).sqrt())
}

/// All scores of a row.
pub(super) fn transform(scores: &mut [f32], by: PostTransform) {
    match by {
        PostTransform::None => {}
        PostTransform::Logistic => scores.iter_mut().for_each(|score| *score = logistic(*score)),
        PostTransform::Probit => scores.iter_mut().for_each(|score| *score = probit(*score)),
        PostTransform::Softmax => shares(scores, false),
        PostTransform::SoftmaxZero => shares(scores, true),
    }
}

/// exp(x − largest)/Σ; where `but_zero`, scores of about 0 are only made smaller as the others are.
fn shares(scores: &mut [f32], but_zero: bool) {
    const ABOUT: f32 = 1e-7;
    let most = scores.iter().copied().fold(f32::MIN, |most, score| if score > most { score } else { most });
    let scale = exp(-most);
    let mut sum = 0.0;
    for score in &mut *scores {
        if but_zero && !(*score > ABOUT || *score < -ABOUT) {
            *score *= scale;
        } else {
            *score = exp(*score - most);
            sum += *score;
        }
    }
    for score in scores {
        *score /= sum;
    }
}

/// Both classes' scores, of the one that a model of two classes has, as [`Second`] says.
pub(super) fn both(score: f32, second: Second, by: PostTransform) -> [f32; 2] {
    match (second, by) {
        (_, PostTransform::Probit) => [probit(score), probit(1.0 - score)],
        (_, PostTransform::Logistic) => [logistic(-score), logistic(score)],
        (Second::Rest, _) => [1.0 - score, score],
        (Second::Opposite, _) => [-score, score],
    }
}

/// What the first class's score is, where there is one for the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    /// What is left to 1.
    Rest,
    /// Its opposite.
    Opposite,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_become_what_is_asked_for() {
        let of = |by, scores: [f32; 3]| {
            let mut scores = scores;
            transform(&mut scores, by);
            scores
        };
        assert_eq!(of(PostTransform::None, [3.0, -1.0, 0.0]), [3.0, -1.0, 0.0]);
        assert_eq!(of(PostTransform::Logistic, [0.0, 100.0, -100.0]), [0.5, 1.0, 0.0]);
        let third = 1.0_f32 / 3.0;
        assert_eq!(of(PostTransform::Softmax, [2.0; 3]), [third; 3]);
        assert_eq!(of(PostTransform::SoftmaxZero, [1.0, 0.0, 1.0]), [0.5, 0.0, 0.5]);
        let probit = of(PostTransform::Probit, [0.5, 0.9, 0.1]);
        assert!(probit[0].abs() < 1e-6 && (probit[1] - 1.2816).abs() < 5e-3, "{probit:?}");
        assert!((probit[1] + probit[2]).abs() < 1e-5, "{probit:?}");
        assert_eq!(both(0.25, Second::Rest, PostTransform::Softmax), [0.75, 0.25]);
        assert_eq!(both(0.25, Second::Opposite, PostTransform::None), [-0.25, 0.25]);
        assert_eq!(both(0.0, Second::Opposite, PostTransform::Logistic), [0.5, 0.5]);
    }
}
