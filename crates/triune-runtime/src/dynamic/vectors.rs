//! What models by support vectors say of rows, in f32; what is made of a pair of classes is summed in f64.
//!
//! All vectors are compared with a row at once, feature by feature, so that every sum runs over the features in their order.

use triune_device::work;
use triune_graph::{
    ops::{Classifier, Kernel, Machine, PostTransform, SupportVectors},
    passes::HostStep,
};
use triune_kernels::Pool;
use triune_tensor::{DType, Shape, function::math, memory};

use super::{
    Operands, operands,
    rows::{Blocks, elements},
    scores::{self, Second},
};
use crate::{Error, Tensor, TensorRef};

/// Products that a block should have at least.
const TASK: usize = 1 << 16;
/// Rows of a block, at most.
const BLOCK: usize = 64;

/// So many products are not counted against the limit of work.
const UNCOUNTED: u64 = 100_000;

/// Runs the step.
pub(crate) fn run<'a>(
    step: &'a HostStep,
    op: &SupportVectors,
    pool: &Pool,
    arrived: impl Fn(&str) -> Option<TensorRef<'a>>,
) -> Result<Vec<Tensor>, Error> {
    let operands = operands(step, |constant| constant, arrived)?;
    let at = Operands { step, operands: &operands };
    let x = at.input(0)?;
    let rows = op.rows(x.dtype, x.shape).map_err(|reason| at.wrong(reason))?;
    let products = op.vectors.len();
    let total = (products as u64).saturating_mul(rows as u64);
    if total > UNCOUNTED && total > work::limit()? {
        let (limit, variable) = (work::limit()?, work::VARIABLE);
        return Err(at.wrong(format!(
            "{total} products with support vectors, more than the {limit} operations that a run may take; a higher limit of work ({variable}, or triune.set_work_limit) would let it go on"
        )));
    }
    let (labels, columns) = match &op.machine {
        Machine::Regressor { .. } => (0, 1),
        Machine::Classifier(classifier) => (8, classifier.scores()),
    };
    let block = TASK.div_ceil(products.max(1)).clamp(1, BLOCK);
    let blocks = Blocks { rows, block, bytes: [labels, 4 * columns] };
    let [labels, scores] = blocks.run(pool, &|first, [labels, scores]| {
        let count = scores.len() / (4 * columns);
        let x = elements::<f32>(x, op.features, first, count)?;
        let mut scratch = Scratch::new(op)?;
        let mut labels = labels.as_chunks_mut::<8>().0.iter_mut();
        for (row, scores) in x.chunks_exact(op.features).zip(scores.chunks_exact_mut(4 * columns)) {
            work::go_on()?;
            let label = scratch.row(op, row);
            if let Some(place) = labels.next() {
                *place = label.to_le_bytes();
            }
            let words = scores.as_chunks_mut::<4>().0;
            words.iter_mut().zip(&scratch.last).for_each(|(word, score)| *word = score.to_le_bytes());
        }
        Ok(())
    })?;
    let shape = |dims: &[usize]| Shape::new(dims).ok_or_else(|| at.wrong("too many dimensions"));
    let scores = Tensor { dtype: DType::F32, shape: shape(&[rows, columns])?, bytes: scores };
    Ok(match op.machine {
        Machine::Regressor { .. } => vec![scores],
        Machine::Classifier(_) => {
            vec![Tensor { dtype: DType::I64, shape: shape(&[rows])?, bytes: labels }, scores]
        }
    })
}

/// What a row is computed in.
struct Scratch {
    /// What it has to do with each vector.
    kernels: Vec<f32>,
    votes: Vec<u32>,
    /// Scores of pairs of classes.
    pairs: Vec<f32>,
    /// The row's scores in the end.
    last: Vec<f32>,
    coupling: Option<Coupling>,
}

/// The elements of a linear model and of its pairs are as many as `count`.
fn list<T: Copy>(count: usize, value: T) -> Result<Vec<T>, Error> {
    Ok(memory::filled(count, value)?)
}

impl Scratch {
    fn new(op: &SupportVectors) -> Result<Self, Error> {
        let (classes, pairs, last) = match &op.machine {
            Machine::Regressor { .. } => (0, 0, 1),
            Machine::Classifier(own) => (own.labels.len(), own.pairs(), own.scores()),
        };
        let votes = matches!(&op.machine, Machine::Classifier(own) if !own.starts.is_empty());
        let coupled = matches!(&op.machine, Machine::Classifier(own) if own.probability.is_some());
        Ok(Self {
            kernels: list(op.count, 0.0)?,
            votes: list(if votes { classes } else { 0 }, 0)?,
            pairs: list(if votes { pairs } else { 0 }, 0.0)?,
            last: list(last, 0.0)?,
            coupling: if coupled { Some(Coupling::new(classes)?) } else { None },
        })
    }

    /// Computes a row's scores; its label.
    fn row(&mut self, op: &SupportVectors, row: &[f32]) -> i64 {
        let rho = match &op.machine {
            Machine::Regressor { rho, coefficients, .. } if coefficients.is_empty() => *rho,
            Machine::Classifier(own) if own.starts.is_empty() => own.rho[0],
            _ => 0.0,
        };
        compare(op, row, rho, &mut self.kernels);
        match &op.machine {
            Machine::Regressor { coefficients, rho, one_class } => {
                let mut score = self.kernels[0];
                if !coefficients.is_empty() {
                    let products = self.kernels.iter().zip(coefficients).map(|(kernel, own)| kernel * own);
                    score = products.sum::<f32>() + rho;
                }
                if *one_class {
                    score = if score > 0.0 { 1.0 } else { -1.0 };
                }
                self.last[0] = score;
                0
            }
            Machine::Classifier(own) if own.starts.is_empty() => self.linear(own),
            Machine::Classifier(own) => self.voted(own, op.count),
        }
    }

    /// The label by the largest of the classes' own scores.
    fn linear(&mut self, op: &Classifier) -> i64 {
        self.last.copy_from_slice(&self.kernels);
        let best = first_largest(&self.last);
        let most = self.last[best];
        if op.labels.len() > 1 {
            scores::transform(&mut self.last, op.post_transform);
        } else if op.post_transform == PostTransform::Probit {
            self.last[0] = scores::probit(self.last[0]);
        }
        let second = if op.positive { most >= 0.5 } else { most > 0.0 };
        op.labels[if op.labels.len() == 2 && second { 1 } else { best }]
    }

    /// The label by the votes of all pairs of classes.
    fn voted(&mut self, op: &Classifier, count: usize) -> i64 {
        self.votes.fill(0);
        let classes = op.labels.len();
        let mut pair = 0;
        for first in 0..classes - 1 {
            for second in first + 1..classes {
                let mut sum = 0.0;
                for (own, other) in [(first, second - 1), (second, first)] {
                    let range = op.starts[own]..op.starts[own + 1];
                    let coefficients = &op.coefficients[other * count..][range.clone()];
                    for (coefficient, kernel) in coefficients.iter().zip(&self.kernels[range]) {
                        sum += f64::from(coefficient * kernel);
                    }
                }
                sum += f64::from(op.rho[pair]);
                self.pairs[pair] = sum as f32;
                self.votes[if sum > 0.0 { first } else { second }] += 1;
                pair += 1;
            }
        }
        let best = first_largest(&self.votes);
        let by = op.post_transform;
        if let (Some(probability), Some(coupling)) = (&op.probability, &mut self.coupling) {
            coupling.solve(&self.pairs, probability, &mut self.last);
            scores::transform(&mut self.last, by);
        } else if classes > 2 {
            self.last.copy_from_slice(&self.pairs);
            scores::transform(&mut self.last, by);
        } else {
            let second = if by == PostTransform::None { Second::Opposite } else { Second::Rest };
            self.last.copy_from_slice(&scores::both(self.pairs[0], second, by));
        }
        op.labels[best]
    }
}

/// Where the first of the largest elements is.
fn first_largest<T: PartialOrd>(elements: &[T]) -> usize {
    let mut best = 0;
    for (index, element) in elements.iter().enumerate() {
        if *element > elements[best] {
            best = index;
        }
    }
    best
}

/// What a row has to do with each vector; in a linear model, plus `rho`.
fn compare(op: &SupportVectors, row: &[f32], rho: f32, kernels: &mut [f32]) {
    kernels.fill(0.0);
    let by_feature = row.iter().zip(op.vectors.chunks_exact(op.count));
    let exp = |x: f32| math::exp(f64::from(x)) as f32;
    match op.kernel {
        Kernel::Rbf { gamma } => {
            for (&x, vectors) in by_feature {
                for (sum, vector) in kernels.iter_mut().zip(vectors) {
                    let distance = x - vector;
                    *sum += distance * distance;
                }
            }
            for sum in kernels {
                *sum = exp(-gamma * *sum);
            }
        }
        kernel => {
            for (&x, vectors) in by_feature {
                kernels.iter_mut().zip(vectors).for_each(|(sum, vector)| *sum += x * vector);
            }
            for sum in kernels {
                *sum = match kernel {
                    Kernel::Poly { gamma, coef0, degree } => power(gamma * *sum + coef0, degree),
                    Kernel::Sigmoid { gamma, coef0 } => math::tanh(f64::from(gamma * *sum + coef0)) as f32,
                    Kernel::Linear | Kernel::Rbf { .. } => *sum + rho,
                };
            }
        }
    }
}

#[expect(clippy::float_cmp, reason = "degrees are numbers of a file")]
fn power(x: f32, degree: f32) -> f32 {
    if degree == 2.0 {
        x * x
    } else if degree == 3.0 {
        x * x * x
    } else {
        math::pow(f64::from(x), f64::from(degree)) as f32
    }
}

/// What makes probabilities of classes of those of pairs of them: the second method of Wu, Lin and Weng's "Probability estimates
/// for multi-class classification by pairwise coupling" (2004).
struct Coupling {
    classes: usize,
    /// By two classes, the probability of the first among both.
    pairs: Vec<f32>,
    q: Vec<f32>,
    qp: Vec<f32>,
}

impl Coupling {
    fn new(classes: usize) -> Result<Self, Error> {
        let square = classes * classes;
        Ok(Self { classes, pairs: list(square, 0.0)?, q: list(square, 0.0)?, qp: list(classes, 0.0)? })
    }

    fn solve(&mut self, scores: &[f32], by: &[[f32; 2]], p: &mut [f32]) {
        /// A probability is no nearer to 0 or 1.
        const LEAST: f32 = 1e-7;
        /// Rounds, unless it is near enough before.
        const ROUNDS: usize = 100;
        let n = self.classes;
        let pairs = (0..n).flat_map(|first| (first + 1..n).map(move |second| (first, second)));
        for (((first, second), score), [factor, addend]) in pairs.zip(scores).zip(by) {
            let own = 1.0 - scores::logistic(score * factor + addend);
            let own = own.clamp(LEAST, 1.0 - LEAST);
            self.pairs[first * n + second] = own;
            self.pairs[second * n + first] = 1.0 - own;
        }
        let (r, q, qp) = (&self.pairs, &mut self.q, &mut self.qp);
        q.fill(0.0);
        for own in 0..n {
            p[own] = 1.0 / n as f32;
            for other in (0..n).filter(|other| *other != own) {
                let theirs = r[other * n + own];
                q[own * n + own] += theirs * theirs;
                q[own * n + other] = -theirs * r[own * n + other];
            }
        }
        let near = 0.005 / n as f32;
        for _ in 0..ROUNDS {
            let mut whole = 0.0;
            for own in 0..n {
                qp[own] = q[own * n..][..n].iter().zip(&*p).fold(0.0, |sum, (q, p)| sum + q * p);
                whole += p[own] * qp[own];
            }
            if qp.iter().all(|own| (own - whole).abs() < near) {
                break;
            }
            for own in 0..n {
                let step = (whole - qp[own]) / q[own * n + own];
                p[own] += step;
                whole =
                    (whole + step * (step * q[own * n + own] + 2.0 * qp[own])) / (1.0 + step) / (1.0 + step);
                for other in 0..n {
                    qp[other] = (qp[other] + step * q[own * n + other]) / (1.0 + step);
                    p[other] /= 1.0 + step;
                }
            }
        }
    }
}
