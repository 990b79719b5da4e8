//! Losses, which networks that are trained elsewhere bring along.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, activation::log_softmax_of, operators,
};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, GatherElements, ReduceKind, UnaryKind},
};

/// What becomes of the losses of all elements.
#[derive(Clone, Copy)]
enum Reduction {
    None,
    Sum,
    Mean,
}

struct Loss {
    reduction: Reduction,
    /// The class whose elements do not count.
    ignored: Option<i64>,
}

impl Loss {
    fn read(node: &mut NodeReader<'_, '_>) -> Result<Self, Error> {
        let reductions = [("none", Reduction::None), ("sum", Reduction::Sum), ("mean", Reduction::Mean)];
        Ok(Self {
            reduction: node.choice("reduction", "mean", &reductions)?,
            ignored: node.int("ignore_index")?,
        })
    }

    /// −x of each element's class, weighted; operands 1 and 2 are the classes and the weights.
    fn of(&self, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
        let (target, shape) = (f.input(1)?, f.shape(x));
        let targets = f.shape(target);
        if shape.rank() < 2 || targets[..] != [&shape[..1], &shape[2..]].concat()[..] {
            return Err(f.wrong(format!("classes {targets} for {shape}")));
        }
        let counts = match self.ignored {
            Some(ignored) => {
                let dtype = f.dtype(target);
                let ignored = f.integer(ignored, dtype);
                Some(f.binary(BinaryKind::NotEqual, target, ignored)?)
            }
            None => None,
        };
        let zero = f.scalar_like(0.0, target);
        let classes = match counts {
            Some(counts) => f.choose(counts, target, zero)?,
            None => target,
        };
        let mut dims = shape.to_vec();
        dims[1] = 1;
        let column = f.reshape(classes, &dims)?;
        let picked = f.op(Op::GatherElements(GatherElements { axis: 1 }), &[x, column])?;
        let picked = f.reshape(picked, &targets)?;
        let mut losses = f.unary(UnaryKind::Neg, picked)?;
        let nothing = f.scalar_like(0.0, x);
        let mut weights = match f.get(2) {
            Some(weights) => Some(f.gather(weights, 0, classes)?),
            None => None,
        };
        if let Some(counts) = counts {
            let own = match weights {
                Some(weights) => weights,
                None => f.scalar_like(1.0, x),
            };
            weights = Some(f.choose(counts, own, nothing)?);
            losses = f.choose(counts, losses, nothing)?;
        }
        if let Some(weights) = weights {
            losses = f.mul(losses, weights)?;
        }
        let axes: Vec<usize> = (0..targets.rank()).collect();
        let total = match self.reduction {
            Reduction::None => return Ok(losses),
            Reduction::Mean if weights.is_none() => f.reduce(ReduceKind::Mean, losses, &axes)?,
            Reduction::Sum | Reduction::Mean => f.reduce(ReduceKind::Sum, losses, &axes)?,
        };
        let total = f.reshape(total, &[])?;
        match (self.reduction, weights) {
            (Reduction::Mean, Some(weights)) => {
                let all = f.reduce(ReduceKind::Sum, weights, &axes)?;
                let all = f.reshape(all, &[])?;
                f.div(total, all)
            }
            _ => Ok(total),
        }
    }
}

fn negative_log_likelihood(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let loss = Loss::read(node)?;
    Ok(node.function(move |f| loss.of(f, f.input(0)?)).into())
}

/// The loss of the logarithms of a softmax over axis 1, and those logarithms.
fn softmax_cross_entropy(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let loss = Loss::read(node)?;
    Ok(node
        .functions(move |f| {
            let x = f.input(0)?;
            if f.rank(x) < 2 || !matches!(f.dtype(x), DType::F32 | DType::F16 | DType::F64) {
                return Err(f.wrong(format!("scores {} of {}", f.shape(x), f.dtype(x))));
            }
            let logarithms = log_softmax_of(f, x, 1)?;
            Ok(vec![loss.of(f, logarithms)?, logarithms])
        })
        .into())
}

operators! {
    DEFAULT_DOMAIN;
    "NegativeLogLikelihoodLoss": [12, 13, 22] {2, 3, 1 => negative_log_likelihood};
    "SoftmaxCrossEntropyLoss": [12, 13] {2, 3, 2 => softmax_cross_entropy};
}
