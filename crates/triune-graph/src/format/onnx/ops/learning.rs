//! Operators of classical learning that are made of others: linear models, and what prepares features for them.

use std::cmp::Ordering;

use triune_tensor::{DType, Shape};

use super::{
    Form, MANY, Meaning, NodeReader, NodeWriter, Operator, Signature, operators, trees::post_transform,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{
        ArgReduce, BinaryKind, Epilogue, Gemm, Pad, PadMode, PostTransform, ReduceKind, Softmax, UnaryKind,
    },
};

/// The domain of classical learning.
pub(in crate::format::onnx) const ML_DOMAIN: &str = "ai.onnx.ml";

/// The error that an attribute is missing.
pub(super) fn missing(node: &NodeReader<'_, '_>, name: &str) -> Error {
    node.unsupported(format!("attribute '{name}' is missing"))
}

/// The error that an attribute has another number of elements than `expected`.
pub(super) fn miscounted(node: &NodeReader<'_, '_>, name: &str, got: usize, expected: &str) -> Error {
    node.unsupported(format!("attribute '{name}' has {got} elements; {expected} are expected"))
}

/// Takes the labels of classes, integers or strings, of which the numbers stand for them; the first result has them.
pub(super) fn labels(node: &mut NodeReader<'_, '_>, integers: &str) -> Result<Vec<i64>, Error> {
    let labels = maybe_labels(node, integers)?;
    labels.ok_or_else(|| {
        node.unsupported(format!(
            "attributes '{integers}' and 'classlabels_strings' are missing; one of both is expected"
        ))
    })
}

fn maybe_labels(node: &mut NodeReader<'_, '_>, integers: &str) -> Result<Option<Vec<i64>>, Error> {
    let texts = node.texts("classlabels_strings")?.filter(|texts| !texts.is_empty());
    let labels = node.ints(integers)?.filter(|labels| !labels.is_empty());
    let Some(texts) = texts else { return Ok(labels) };
    node.makes_strings(0);
    texts.iter().map(|text| node.number_of(text)).collect::<Result<_, _>>().map(Some)
}

/// Writes the labels of classes: strings, if the first result is of these.
pub(super) fn write_labels(
    writer: &mut NodeWriter<'_>,
    integers: &str,
    labels: &[i64],
) -> Result<(), String> {
    let strings = writer.makes_strings(0);
    writer.keys([integers, "classlabels_strings"], labels, strings)
}

/// The first operand, of numbers that such operators take, and its rows and columns; one axis is a row.
fn features(f: &Scope<'_, '_>) -> Result<(ValueId, [usize; 2]), Error> {
    let x = f.input(0)?;
    let dtype = f.dtype(x);
    if !matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64) {
        return Err(f.wrong(format!("an input of {dtype}; float32, float64, int32 or int64 is expected")));
    }
    match *f.shape(x) {
        [columns] => Ok((x, [1, columns])),
        [rows, columns] => Ok((x, [rows, columns])),
        _ => Err(f.wrong(format!("an input of {} axes; one or two are expected", f.rank(x)))),
    }
}

/// A list of one number for all columns, or of one for each.
fn per_column(
    f: &mut Scope<'_, '_>,
    name: &str,
    values: &[f64],
    columns: usize,
    dtype: DType,
) -> Result<ValueId, Error> {
    if values.len() != 1 && values.len() != columns {
        return Err(f.wrong(format!(
            "attribute '{name}' has {} elements; 1 is expected, or one for each of {columns} columns",
            values.len()
        )));
    }
    Ok(f.numbers(values, dtype))
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// (x − offset)·scale.
fn scaler(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let scale = node.floats("scale")?.ok_or_else(|| missing(node, "scale"))?;
    let offset = node.floats("offset")?.ok_or_else(|| missing(node, "offset"))?;
    if scale.len() != offset.len() {
        return Err(miscounted(node, "offset", offset.len(), &format!("{}, as 'scale' has,", scale.len())));
    }
    let (scale, offset) = (wide(&scale), wide(&offset));
    Ok(node
        .function(move |f| {
            let (x, [_, columns]) = features(f)?;
            let dtype = if f.dtype(x) == DType::F64 { DType::F64 } else { DType::F32 };
            let offset = per_column(f, "offset", &offset, columns, dtype)?;
            let scale = per_column(f, "scale", &scale, columns, dtype)?;
            let x = f.cast(x, dtype)?;
            let centered = f.sub(x, offset)?;
            let scaled = f.mul(centered, scale)?;
            f.cast(scaled, DType::F32)
        })
        .into())
}

/// 1 above a threshold, else 0.
fn binarizer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let threshold = f64::from(node.float("threshold", 0.0)?);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let dtype = f.dtype(x);
            if !matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64) {
                let expected = "float32, float64, int32 or int64 is expected";
                return Err(f.wrong(format!("an input of {dtype}; {expected}")));
            }
            let real = if dtype.is_float() { x } else { f.cast(x, DType::F64)? };
            let above = f.compare(BinaryKind::Greater, real, threshold)?;
            f.cast(above, dtype)
        })
        .into())
}

/// Other numbers in the place of one.
fn imputer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let reals = node.floats("imputed_value_floats")?.filter(|list| !list.is_empty());
    let integers = node.ints("imputed_value_int64s")?.filter(|list| !list.is_empty());
    let real = node.float("replaced_value_float", 0.0)?;
    let integer = node.int("replaced_value_int64")?.unwrap_or(0);
    if reals.is_some() == integers.is_some() {
        return Err(node.unsupported(
            "attributes 'imputed_value_floats' and 'imputed_value_int64s'; exactly one of both is expected",
        ));
    }
    Ok(node
        .function(move |f| {
            let (x, [_, columns]) = features(f)?;
            let dtype = f.dtype(x);
            let (missing, imputed) = if let (true, Some(reals)) = (dtype.is_float(), &reals) {
                let imputed = per_column(f, "imputed_value_floats", &wide(reals), columns, dtype)?;
                let missing = if real.is_nan() {
                    f.binary(BinaryKind::NotEqual, x, x)?
                } else {
                    f.compare(BinaryKind::Equal, x, real.into())?
                };
                (missing, imputed)
            } else if let (false, Some(integers)) = (dtype.is_float(), &integers) {
                if integers.len() != 1 && integers.len() != columns {
                    return Err(f.wrong(format!(
                        "attribute 'imputed_value_int64s' has {} elements; 1 is expected, or one for each of {columns} columns",
                        integers.len()
                    )));
                }
                let list = f.list(integers);
                let imputed = f.cast(list, dtype)?;
                let replaced = f.integer(integer, dtype);
                (f.binary(BinaryKind::Equal, x, replaced)?, imputed)
            } else {
                let name = if reals.is_some() { "floats" } else { "int64s" };
                return Err(f.wrong(format!("an input of {dtype} with attribute 'imputed_value_{name}'")));
            };
            f.choose(missing, imputed, x)
        })
        .into())
}

/// What rows are divided by.
#[derive(Clone, Copy)]
enum Norm {
    Max,
    L1,
    L2,
}

/// Rows by their norm, unless that is 0.
fn normalizer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let norm = node.choice("norm", "MAX", &[("MAX", Norm::Max), ("L1", Norm::L1), ("L2", Norm::L2)])?;
    Ok(node
        .function(move |f| {
            let (x, [_, columns]) = features(f)?;
            let x = f.cast(x, DType::F32)?;
            if columns == 0 {
                return f.cast(x, DType::F32);
            }
            let axis = [f.rank(x) - 1];
            let divided = |f: &mut Scope<'_, '_>, norm: ValueId, by: ValueId| {
                let is_zero = f.compare(BinaryKind::Equal, norm, 0.0)?;
                f.choose(is_zero, x, by)
            };
            match norm {
                Norm::Max => {
                    let most = f.reduce(ReduceKind::Max, x, &axis)?;
                    let by = f.div(x, most)?;
                    divided(f, most, by)
                }
                Norm::L1 => {
                    let sizes = f.unary(UnaryKind::Abs, x)?;
                    let sum = f.reduce(ReduceKind::Sum, sizes, &axis)?;
                    let by = f.div(x, sum)?;
                    divided(f, sum, by)
                }
                Norm::L2 => {
                    let squares = f.mul(x, x)?;
                    let sum = f.reduce(ReduceKind::Sum, squares, &axis)?;
                    let shares = f.div(squares, sum)?;
                    let roots = f.unary(UnaryKind::Sqrt, shares)?;
                    let opposite = f.unary(UnaryKind::Neg, roots)?;
                    let below = f.compare(BinaryKind::Less, x, 0.0)?;
                    let by = f.choose(below, opposite, roots)?;
                    divided(f, sum, by)
                }
            }
        })
        .into())
}

/// Columns by their numbers.
fn array_feature_extractor(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (x, y) = (f.input(0)?, f.input(1)?);
    let shape = f.shape(x);
    let Some(last) = shape.rank().checked_sub(1) else {
        return Err(f.wrong("an input without axes; columns are expected"));
    };
    let count = f.shape(y).elements().unwrap_or(0);
    if count == 0 {
        return Err(f.wrong("input 1 names no columns"));
    }
    let indices = f.reshape(y, &[count])?;
    let found = f.gather(x, last, indices)?;
    if last == 0 { f.reshape(found, &[1, count]) } else { Ok(found) }
}

/// All operands' columns side by side, so many of each.
fn feature_vectorizer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let extents = node.extents("inputdimensions")?;
    if let Some(extents) = &extents
        && extents.len() != node.inputs.len()
    {
        let expected = format!("{}, one for each input,", node.inputs.len());
        return Err(miscounted(node, "inputdimensions", extents.len(), &expected));
    }
    Ok(node
        .function(move |f| {
            let mut parts = Vec::new();
            for index in 0..f.inputs().len() {
                let x = f.input(index)?;
                let shape = f.shape(x);
                let (rows, columns) = match *shape {
                    [] => return Err(f.wrong(format!("input {index} has no axes"))),
                    [columns] => (1, columns),
                    [rows, ref rest @ ..] => (rows, rest.iter().product()),
                };
                let x = f.cast(x, DType::F32)?;
                let x = f.reshape(x, &[rows, columns])?;
                let wanted = extents.as_ref().map_or(columns, |extents| extents[index]);
                parts.push(match wanted.cmp(&columns) {
                    Ordering::Less => f.slice(x, 1, 0, wanted as i64)?,
                    Ordering::Equal => x,
                    Ordering::Greater => {
                        f.bounded(rows.checked_mul(wanted))?;
                        let pads = f.list(&[0, 0, 0, (wanted - columns) as i64]);
                        let zero = f.scalar(0.0, DType::F32);
                        f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads, zero])?
                    }
                });
            }
            f.concat(&parts, 1)
        })
        .into())
}

/// Scores of several targets in the end, as `dynamic/scores.rs` of the runtime has it.
fn transformed(f: &mut Scope<'_, '_>, x: ValueId, by: PostTransform) -> Result<ValueId, Error> {
    match by {
        PostTransform::None => Ok(x),
        PostTransform::Logistic => f.unary(UnaryKind::Sigmoid, x),
        PostTransform::Softmax => f.op(Op::Softmax(Softmax { axis: -1, flatten: false, log: false }), &[x]),
        PostTransform::SoftmaxZero => softmax_zero(f, x),
        PostTransform::Probit => probit(f, x),
    }
}

/// Shares among scores that are not about 0; the others become smaller as those do.
fn softmax_zero(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let axis = [f.rank(x) - 1];
    let most = f.reduce(ReduceKind::Max, x, &axis)?;
    let size = f.unary(UnaryKind::Abs, x)?;
    let counts = f.compare(BinaryKind::Greater, size, f64::from(1e-7_f32))?;
    let below = f.sub(x, most)?;
    let powers = f.unary(UnaryKind::Exp, below)?;
    let nothing = f.scalar_like(0.0, x);
    let taken = f.choose(counts, powers, nothing)?;
    let sum = f.reduce(ReduceKind::Sum, taken, &axis)?;
    let opposite = f.unary(UnaryKind::Neg, most)?;
    let scale = f.unary(UnaryKind::Exp, opposite)?;
    let small = f.mul(x, scale)?;
    let scores = f.choose(counts, powers, small)?;
    f.div(scores, sum)
}

/// About the inverse of the normal distribution, by Winitzki's approximation.
fn probit(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    const A: f64 = 0.147;
    let twice = f.mul_number(x, 2.0)?;
    let y = f.add_number(twice, -1.0)?;
    let square = f.mul(y, y)?;
    let opposite = f.unary(UnaryKind::Neg, square)?;
    let rest = f.add_number(opposite, 1.0)?;
    let log = f.unary(UnaryKind::Log, rest)?;
    let half = f.mul_number(log, 0.5)?;
    let half = f.add_number(half, 2.0 / (std::f64::consts::PI * A))?;
    let square = f.mul(half, half)?;
    let other = f.mul_number(log, 1.0 / A)?;
    let under = f.sub(square, other)?;
    let root = f.unary(UnaryKind::Sqrt, under)?;
    let under = f.sub(root, half)?;
    let size = f.unary(UnaryKind::Sqrt, under)?;
    let size = f.mul_number(size, std::f64::consts::SQRT_2)?;
    let opposite = f.unary(UnaryKind::Neg, size)?;
    let below = f.compare(BinaryKind::Less, y, 0.0)?;
    f.choose(below, opposite, size)
}

/// Takes a linear model's coefficients and intercepts for so many targets, which become operands.
fn linear(node: &mut NodeReader<'_, '_>, targets: usize, intercepts: Option<Vec<f32>>) -> Result<(), Error> {
    let coefficients = node.floats("coefficients")?.ok_or_else(|| missing(node, "coefficients"))?;
    if targets == 0 || coefficients.is_empty() || !coefficients.len().is_multiple_of(targets) {
        let expected = format!("a multiple of the {targets} targets");
        return Err(miscounted(node, "coefficients", coefficients.len(), &expected));
    }
    let shape = Shape::from([targets, coefficients.len() / targets]);
    let coefficients = Constant::from_f32(shape, &coefficients).expect("as many elements as the shape says");
    let coefficients = node.new_constant("coefficients", coefficients);
    node.set_input(1, coefficients);
    if let Some(intercepts) = intercepts {
        if intercepts.len() != targets {
            return Err(miscounted(node, "intercepts", intercepts.len(), &targets.to_string()));
        }
        let constant = Constant::from_f32(Shape::from([targets]), &intercepts);
        let intercepts = node.new_constant("intercepts", constant.expect("as many elements"));
        node.set_input(2, intercepts);
    }
    Ok(())
}

/// x · coefficientsᵀ + intercepts of what [`linear`] took.
fn product(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (x, [rows, columns]) = features(f)?;
    let coefficients = f.input(1)?;
    let shape = f.shape(coefficients);
    if shape[1] != columns {
        return Err(f.wrong(format!(
            "attribute 'coefficients' is for {} columns, and the input has {columns}",
            shape[1]
        )));
    }
    let x = f.cast(x, DType::F32)?;
    let x = f.reshape(x, &[rows, columns])?;
    let gemm = Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true, epilogue: Epilogue::default() };
    let mut operands = vec![x, coefficients];
    operands.extend(f.get(2));
    f.op(Op::Gemm(gemm), &operands)
}

fn linear_regressor(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let targets = node.int("targets")?.unwrap_or(1);
    let found = usize::try_from(targets).ok().filter(|targets| *targets > 0);
    let targets = found.ok_or_else(|| node.unsupported(format!("attribute 'targets' = {targets}")))?;
    let intercepts = node.floats("intercepts")?.filter(|list| !list.is_empty());
    linear(node, targets, intercepts)?;
    let by = post_transform(node)?;
    Ok(node
        .function(move |f| {
            let scores = product(f)?;
            // A single score has nothing to share with.
            if targets > 1 || by == PostTransform::Probit { transformed(f, scores, by) } else { Ok(scores) }
        })
        .into())
}

fn linear_classifier(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // How the model was made.
    node.ignore(&["multi_class"]);
    let strings = node.has("classlabels_strings");
    let labels = maybe_labels(node, "classlabels_ints")?.unwrap_or_default();
    let intercepts = node.floats("intercepts")?.filter(|list| !list.is_empty());
    let targets = intercepts.as_ref().map_or(labels.len(), Vec::len);
    linear(node, targets, intercepts)?;
    let by = post_transform(node)?;
    let (labels, two) = match (targets, labels.len()) {
        (1, 2) => (labels, true),
        // What the classes of a single score are called unless the file says it.
        (1, _) if strings => (vec![node.number_of("0")?, node.number_of("1")?], false),
        (1, _) => (vec![0, 1], false),
        (_, count) if count == targets => (labels, false),
        (_, count) => {
            let name = if strings { "classlabels_strings" } else { "classlabels_ints" };
            return Err(miscounted(node, name, count, &targets.to_string()));
        }
    };
    Ok(node
        .functions(move |f| {
            let scores = product(f)?;
            let rows = f.shape(scores)[0];
            let table = if strings { f.words(&labels) } else { f.list(&labels) };
            if targets > 1 {
                let best = ArgReduce {
                    kind: ReduceKind::Max,
                    axis: 1,
                    keep_dims: false,
                    last: false,
                    dtype: DType::I64,
                };
                let best = f.op(Op::ArgReduce(best), &[scores])?;
                return Ok(vec![f.gather(table, 0, best)?, transformed(f, scores, by)?]);
            }
            let above = f.compare(BinaryKind::Greater, scores, 0.0)?;
            let above = f.cast(above, DType::I64)?;
            let above = f.reshape(above, &[rows])?;
            let best = f.gather(table, 0, above)?;
            let own = if by == PostTransform::Probit { probit(f, scores)? } else { scores };
            if !two {
                return Ok(vec![best, own]);
            }
            let opposite = f.unary(UnaryKind::Neg, own)?;
            let (rest, own) = if by == PostTransform::Logistic {
                (f.unary(UnaryKind::Sigmoid, opposite)?, f.unary(UnaryKind::Sigmoid, own)?)
            } else {
                (f.add_number(opposite, 1.0)?, own)
            };
            Ok(vec![best, f.concat(&[rest, own], 1)?])
        })
        .into())
}

operators! {
    ML_DOMAIN;
    "ArrayFeatureExtractor": [1] {2, 2, 1 => body array_feature_extractor};
    "Binarizer": [1] {1, 1, 1 => binarizer};
    "FeatureVectorizer": [1] {1, MANY, 1 => feature_vectorizer};
    "Imputer": [1] {1, 1, 1 => imputer};
    "LinearClassifier": [1] {1, 1, 2 => linear_classifier};
    "LinearRegressor": [1] {1, 1, 1 => linear_regressor};
    "Normalizer": [1] {1, 1, 1 => normalizer};
    "Scaler": [1] {1, 1, 1 => scaler};
}
