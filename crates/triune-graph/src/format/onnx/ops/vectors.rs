//! Models by support vectors.

use super::{
    Form, Meaning, NodeReader, NodeWriter, Operator, Signature,
    learning::{ML_DOMAIN, labels, miscounted, missing, write_labels},
    mistaken, operators,
    trees::{POST_TRANSFORMS, post_transform},
};
use crate::{
    Error, Op,
    ops::{Classifier, Hosted, Kernel, Machine, SupportVectors},
};

/// Takes what rows and vectors have to do with each other.
fn kernel(node: &mut NodeReader<'_, '_>) -> Result<Kernel, Error> {
    let names = [("LINEAR", 0), ("POLY", 1), ("RBF", 2), ("SIGMOID", 3)];
    let kind = node.choice("kernel_type", "LINEAR", &names)?;
    let parameters = node.floats("kernel_params")?.unwrap_or_default();
    let [gamma, coef0, degree] = match *parameters {
        [] => [0.0; 3],
        [gamma, coef0, degree] => [gamma, coef0, degree],
        _ => return Err(miscounted(node, "kernel_params", parameters.len(), "3")),
    };
    Ok(match kind {
        0 => Kernel::Linear,
        1 => Kernel::Poly { gamma, coef0, degree },
        2 => Kernel::Rbf { gamma },
        _ => Kernel::Sigmoid { gamma, coef0 },
    })
}

/// Vectors of so many features each with the features in front, and how many features there are.
fn by_feature(
    node: &NodeReader<'_, '_>,
    name: &str,
    vectors: &[f32],
    count: usize,
) -> Result<(Vec<f32>, usize), Error> {
    if vectors.is_empty() || !vectors.len().is_multiple_of(count) {
        return Err(miscounted(node, name, vectors.len(), &format!("a multiple of {count}")));
    }
    let features = vectors.len() / count;
    let mut turned = triune_tensor::memory::with_room(vectors.len())?;
    turned.extend((0..features).flat_map(|feature| vectors.iter().skip(feature).step_by(features).copied()));
    Ok((turned, features))
}

/// Takes a list that has to be there.
fn floats(node: &mut NodeReader<'_, '_>, name: &str) -> Result<Vec<f32>, Error> {
    node.floats(name)?.filter(|list| !list.is_empty()).ok_or_else(|| missing(node, name))
}

/// Refuses a list of fewer elements than `count`.
fn expect_least(node: &NodeReader<'_, '_>, name: &str, got: usize, count: usize) -> Result<(), Error> {
    if got >= count { Ok(()) } else { Err(miscounted(node, name, got, &count.to_string())) }
}

fn regressor(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let kernel = kernel(node)?;
    let coefficients = floats(node, "coefficients")?;
    let rho = floats(node, "rho")?[0];
    let one_class = node.flag("one_class")?;
    let vectors = node.floats("support_vectors")?.unwrap_or_default();
    // A single score has nothing to share with.
    post_transform(node)?;
    let supports = node.int("n_supports")?.unwrap_or(0);
    let count = usize::try_from(supports)
        .map_err(|_| node.unsupported(format!("attribute 'n_supports' = {supports}")))?;
    if count == 0 {
        let features = coefficients.len();
        let machine = Machine::Regressor { coefficients: Vec::new(), rho, one_class };
        let (kernel, vectors, count) = (Kernel::Linear, coefficients, 1);
        return Ok(SupportVectors { kernel, features, count, vectors, machine }.into());
    }
    if coefficients.len() != count {
        return Err(miscounted(node, "coefficients", coefficients.len(), &count.to_string()));
    }
    let (vectors, features) = by_feature(node, "support_vectors", &vectors, count)?;
    let machine = Machine::Regressor { coefficients, rho, one_class };
    Ok(SupportVectors { kernel, features, count, vectors, machine }.into())
}

fn classifier(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let kernel = kernel(node)?;
    let labels = labels(node, "classlabels_ints")?;
    let classes = labels.len();
    if classes >= 1 << 16 {
        return Err(miscounted(node, "classlabels_ints", classes, "fewer than 65,536"));
    }
    let coefficients = floats(node, "coefficients")?;
    let rho = floats(node, "rho")?;
    let vectors = node.floats("support_vectors")?.unwrap_or_default();
    let per_class = node.extents("vectors_per_class")?.unwrap_or_default();
    let probability = [node.floats("prob_a")?, node.floats("prob_b")?].map(Option::unwrap_or_default);
    let post_transform = post_transform(node)?;
    let positive = coefficients.iter().all(|coefficient| *coefficient >= 0.0);
    let count = per_class.iter().try_fold(0_usize, |count, own| count.checked_add(*own));
    let count =
        count.ok_or_else(|| node.unsupported("attribute 'vectors_per_class' has a sum beyond 2^64"))?;
    let mut machine = Classifier {
        labels,
        starts: Vec::new(),
        coefficients: Vec::new(),
        rho,
        probability: None,
        positive,
        post_transform,
    };
    if count == 0 {
        let (vectors, features) = by_feature(node, "coefficients", &coefficients, classes)?;
        let (kernel, machine) = (Kernel::Linear, Machine::Classifier(machine));
        return Ok(SupportVectors { kernel, features, count: classes, vectors, machine }.into());
    }
    if per_class.len() != classes || classes < 2 {
        let expected = format!("{classes}, one for each of two or more classes,");
        return Err(miscounted(node, "vectors_per_class", per_class.len(), &expected));
    }
    let (vectors, features) = by_feature(node, "support_vectors", &vectors, count)?;
    let pairs = machine.pairs();
    expect_least(node, "coefficients", coefficients.len(), (classes - 1).saturating_mul(count))?;
    expect_least(node, "rho", machine.rho.len(), pairs)?;
    let [factors, addends] = &probability;
    if factors.len() != addends.len() {
        return Err(miscounted(
            node,
            "prob_b",
            addends.len(),
            &format!("{}, as 'prob_a' has,", factors.len()),
        ));
    }
    if !factors.is_empty() {
        expect_least(node, "prob_a", factors.len(), pairs)?;
        machine.probability = Some(factors.iter().zip(addends).map(|(&a, &b)| [a, b]).collect());
    }
    machine.starts.push(0);
    for own in per_class {
        machine.starts.push(machine.starts[machine.starts.len() - 1] + own);
    }
    machine.coefficients = coefficients;
    let machine = Machine::Classifier(machine);
    Ok(SupportVectors { kernel, features, count, vectors, machine }.into())
}

/// Vectors of so many features each from what has the features in front.
fn by_vector(op: &SupportVectors) -> impl Iterator<Item = f32> {
    (0..op.count).flat_map(|vector| op.vectors.iter().skip(vector).step_by(op.count).copied())
}

fn write_kernel(writer: &mut NodeWriter<'_>, kernel: Kernel) {
    let (name, parameters) = match kernel {
        Kernel::Linear => ("LINEAR", [0.0; 3]),
        Kernel::Poly { gamma, coef0, degree } => ("POLY", [gamma, coef0, degree]),
        Kernel::Rbf { gamma } => ("RBF", [gamma, 0.0, 0.0]),
        Kernel::Sigmoid { gamma, coef0 } => ("SIGMOID", [gamma, coef0, 0.0]),
    };
    writer.text("kernel_type", name);
    writer.floats("kernel_params", parameters);
}

fn write(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::SupportVectors(op)) = op else { return Err(mistaken(op)) };
    write_kernel(writer, op.kernel);
    match &op.machine {
        Machine::Regressor { coefficients, rho, one_class } => {
            if coefficients.is_empty() {
                writer.floats("coefficients", by_vector(op));
            } else {
                writer.floats("support_vectors", by_vector(op));
                writer.floats("coefficients", coefficients.iter().copied());
                writer.int("n_supports", op.count as i64);
            }
            writer.floats("rho", [*rho]);
            writer.int("one_class", (*one_class).into());
        }
        Machine::Classifier(machine) => {
            write_labels(writer, "classlabels_ints", &machine.labels)?;
            if machine.starts.is_empty() {
                writer.floats("coefficients", by_vector(op));
            } else {
                writer.floats("support_vectors", by_vector(op));
                writer.floats("coefficients", machine.coefficients.iter().copied());
                writer.ints(
                    "vectors_per_class",
                    machine.starts.windows(2).map(|ends| (ends[1] - ends[0]) as i64),
                );
            }
            writer.floats("rho", machine.rho.iter().copied());
            if let Some(probability) = &machine.probability {
                for (name, place) in [("prob_a", 0), ("prob_b", 1)] {
                    writer.floats(name, probability.iter().map(|pair| pair[place]));
                }
            }
            writer.choice("post_transform", &POST_TRANSFORMS, &machine.post_transform);
        }
    }
    Ok(())
}

operators! {
    ML_DOMAIN;
    "SVMClassifier": [1] {1, 1, 2 => classifier} write write;
    "SVMRegressor": [1] {1, 1, 1 => regressor} write write;
}
