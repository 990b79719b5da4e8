//! Models by support vectors.

use std::sync::Arc;

use triune_tensor::{DType, Shape};

use super::{
    PostTransform,
    infer::{Operands, TensorType},
};
use crate::{Error, Op};

/// What two vectors have to do with each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// a·b.
    Linear,
    /// (γ·a·b + c)ᵈ.
    Poly {
        /// γ.
        gamma: f32,
        /// c.
        coef0: f32,
        /// d.
        degree: f32,
    },
    /// exp(−γ·|a − b|²).
    Rbf {
        /// γ.
        gamma: f32,
    },
    /// tanh(γ·a·b + c).
    Sigmoid {
        /// γ.
        gamma: f32,
        /// c.
        coef0: f32,
    },
}

/// A model by support vectors, over rows of f32, f64, i32 or i64 that are computed on in f32.
#[derive(Clone, Debug, PartialEq)]
pub struct SupportVectors {
    /// What rows and vectors have to do with each other.
    pub kernel: Kernel,
    /// Features of a row.
    pub features: usize,
    /// How many vectors there are.
    pub count: usize,
    /// All vectors' first features, then their second ones, and so on. In a linear model they are the coefficients.
    pub vectors: Vec<f32>,
    /// What is made of rows and vectors.
    pub machine: Machine,
}

/// What is made of what rows and vectors have to do with each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Machine {
    /// A score (N, 1): the sum by coefficients, one for each vector.
    Regressor {
        /// The coefficients.
        coefficients: Vec<f32>,
        /// What is added.
        rho: f32,
        /// Whether scores are 1 above 0, else −1.
        one_class: bool,
    },
    /// Labels (N) of i64 and scores (N, classes), or (N, pairs of classes).
    Classifier(Classifier),
}

/// How rows are classified.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    /// The label of each class; of strings, their numbers.
    pub labels: Vec<i64>,
    /// Where each class's vectors begin, and where all end. Without any, vectors are the classes'.
    pub starts: Vec<usize>,
    /// For all vectors, by each of the other classes.
    pub coefficients: Vec<f32>,
    /// What is added, for each pair of classes.
    pub rho: Vec<f32>,
    /// What makes probabilities of the score of each pair of classes: a factor and an addend.
    pub probability: Option<Vec<[f32; 2]>>,
    /// Whether no coefficient is negative.
    pub positive: bool,
    /// What becomes of the scores.
    pub post_transform: PostTransform,
}

impl Classifier {
    /// Pairs of classes.
    pub fn pairs(&self) -> usize {
        self.labels.len() * self.labels.len().saturating_sub(1) / 2
    }

    /// Scores of a row.
    pub fn scores(&self) -> usize {
        let votes = !self.starts.is_empty() && self.probability.is_none();
        if votes && self.labels.len() > 2 { self.pairs() } else { self.labels.len() }
    }
}

impl SupportVectors {
    pub(super) const fn name(&self) -> &'static str {
        match self.machine {
            Machine::Regressor { .. } => "SVMRegressor",
            Machine::Classifier(_) => "SVMClassifier",
        }
    }

    /// Rows of an input; `Err` says what is wrong with it.
    pub fn rows(&self, dtype: DType, shape: &[usize]) -> Result<usize, String> {
        if !matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64) {
            return Err(format!("an input of {dtype}; float32, float64, int32 or int64 is expected"));
        }
        let [rows, columns] = match *shape {
            [columns] => [1, columns],
            [rows, columns] => [rows, columns],
            _ => return Err(format!("an input of {} axes; one or two are expected", shape.len())),
        };
        if columns != self.features {
            let name = if self.is_linear() { "coefficients" } else { "support_vectors" };
            return Err(format!(
                "attribute '{name}' is for {} columns, and the input has {columns}",
                self.features
            ));
        }
        Ok(rows)
    }

    /// Numbers that it has, and their bytes.
    pub(super) fn held(&self) -> [u64; 2] {
        let more = match &self.machine {
            Machine::Regressor { coefficients, .. } => coefficients.len() + 1,
            Machine::Classifier(own) => {
                own.coefficients.len()
                    + own.rho.len()
                    + own.probability.as_ref().map_or(0, |pairs| 2 * pairs.len())
            }
        };
        let count = (self.vectors.len() + more) as u64;
        [count, 4 * count]
    }

    /// Whether there are coefficients of features, rather than vectors.
    fn is_linear(&self) -> bool {
        match &self.machine {
            Machine::Regressor { coefficients, .. } => coefficients.is_empty(),
            Machine::Classifier(classifier) => classifier.starts.is_empty(),
        }
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let rows = self.rows(x.dtype, &x.shape).map_err(|reason| at.wrong(reason))?;
        let scores = |columns| -> Result<_, Error> {
            Ok(TensorType { dtype: DType::F32, shape: at.shape(&[rows, columns])? })
        };
        Ok(match &self.machine {
            Machine::Regressor { .. } => vec![scores(1)?],
            Machine::Classifier(classifier) => {
                let labels = TensorType { dtype: DType::I64, shape: Shape::from([rows]) };
                vec![labels, scores(classifier.scores())?]
            }
        })
    }
}

impl From<SupportVectors> for Op {
    fn from(op: SupportVectors) -> Self {
        Self::Hosted(super::Hosted::SupportVectors(Arc::new(op)))
    }
}
