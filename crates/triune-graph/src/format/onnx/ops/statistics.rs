//! Normalization by statistics that are computed when the network runs.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op, ValueId,
    functions::{
        Scope,
        standard::{Standard, standardized},
    },
    ops::{AutoPad, BinaryKind, Pool, PoolKind, ReduceKind, UnaryKind},
};

/// The type that statistics are computed in.
fn stash(node: &mut NodeReader<'_, '_>) -> Result<DType, Error> {
    Ok(node.dtype("stash_type")?.unwrap_or(DType::F32))
}

/// What was normalized, in another type, times a scale and plus a bias of that type. Before them f16 keeps f32's precision, as
/// between any two operators; bf16 is rounded.
pub(super) fn scaled(
    f: &mut Scope<'_, '_>,
    normalized: ValueId,
    dtype: DType,
    scale: ValueId,
    bias: Option<ValueId>,
) -> Result<ValueId, Error> {
    let within = match (dtype, f.dtype(normalized)) {
        (DType::F16, DType::F32) => DType::F32,
        _ => dtype,
    };
    let spread = |f: &mut Scope<'_, '_>, id| if within == dtype { Ok(id) } else { f.cast(id, within) };
    let (normalized, scale) = (f.cast(normalized, within)?, spread(f, scale)?);
    let mut y = f.mul(normalized, scale)?;
    if let Some(bias) = bias {
        let bias = spread(f, bias)?;
        y = f.add(y, bias)?;
    }
    f.cast(y, dtype)
}

/// Statistics over all axes from one on; results y, mean, 1/deviation.
fn layer_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (axis, epsilon, stash) = (node.axis("axis", -1)? as i64, node.float("epsilon", 1e-5)?, stash(node)?);
    Ok(node
        .functions(move |f| {
            let x = f.input(0)?;
            let axes: Vec<usize> = (f.axis(x, axis)?..f.rank(x)).collect();
            let wide = f.cast(x, stash)?;
            let Standard { result, mean, inverse } = standardized(f, wide, &axes, epsilon)?;
            let result = scaled(f, result, f.dtype(x), f.input(1)?, f.get(2))?;
            Ok(vec![result, mean, inverse])
        })
        .into())
}

/// x/√(mean of x² + ε) over all axes from one on; what it is multiplied by is a second result of ONNX Runtime's form.
fn rms_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (axis, epsilon, stash) = (node.axis("axis", -1)? as i64, node.float("epsilon", 1e-5)?, stash(node)?);
    Ok(node
        .functions(move |f| {
            let x = f.input(0)?;
            let axes: Vec<usize> = (f.axis(x, axis)?..f.rank(x)).collect();
            let wide = f.cast(x, stash)?;
            let count: usize = axes.iter().map(|&axis| f.shape(x)[axis]).product();
            let squares = f.reduce(ReduceKind::SumSquare, wide, &axes)?;
            let mean = f.mul_number(squares, 1.0 / count as f64)?;
            let mean = f.add_number(mean, f64::from(epsilon))?;
            let root = f.unary(UnaryKind::Sqrt, mean)?;
            let inverse = f.unary(UnaryKind::Reciprocal, root)?;
            let result = f.mul(wide, inverse)?;
            Ok(vec![scaled(f, result, f.dtype(x), f.input(1)?, None)?, inverse])
        })
        .into())
}

/// A vector with an element per channel, as it is spread over a value of `rank` dimensions: along the second, and a value of one
/// dimension has one channel.
pub(super) fn per_channel(f: &mut Scope<'_, '_>, vector: ValueId, rank: usize) -> Result<ValueId, Error> {
    let shape = f.shape(vector);
    if shape.rank() != 1 {
        return Err(f.wrong(format!("{shape} where an element per channel is expected")));
    }
    if rank == 0 || rank == 1 && shape[0] != 1 {
        return Err(f.wrong(format!("{shape} where an element per channel of {rank} axes is expected")));
    }
    let mut dims = vec![1; rank];
    dims[rank.min(2) - 1] = shape[0];
    f.reshape(vector, &dims[rank.min(2) - 1..])
}

/// Statistics of each channel of each image.
fn instance_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-5)?;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let rank = f.rank(x);
            if rank < 3 {
                return Err(f.wrong(format!("input {} is no image", f.shape(x))));
            }
            let axes: Vec<usize> = (2..rank).collect();
            let result = standardized(f, x, &axes, epsilon)?.result;
            let (scale, bias) = (per_channel(f, f.input(1)?, rank)?, per_channel(f, f.input(2)?, rank)?);
            let result = f.mul(result, scale)?;
            f.add(result, bias)
        })
        .into())
}

/// Statistics of each group of channels of each image. Scale and bias are per group at first, per channel since opset 21.
fn group_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-5)?;
    let groups = node.int("num_groups")?.and_then(|groups| usize::try_from(groups).ok());
    let groups = groups.filter(|groups| *groups > 0);
    let groups = groups.ok_or_else(|| node.unsupported("attribute 'num_groups' is not positive"))?;
    let (stash, by_channel) = (stash(node)?, node.since >= 21);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let (shape, dtype) = (f.shape(x), f.dtype(x));
            if shape.rank() < 2 || !shape[1].is_multiple_of(groups) {
                return Err(f.wrong(format!("input {shape} in {groups} groups of channels")));
            }
            let size = shape[1] / groups * shape[2..].iter().product::<usize>();
            let wide = if by_channel { f.cast(x, stash)? } else { x };
            let rows = f.reshape(wide, &[shape[0], groups, size])?;
            let mut result = standardized(f, rows, &[2], epsilon)?.result;
            let (mut scale, mut bias) = (f.input(1)?, f.input(2)?);
            let rank = if by_channel {
                result = f.reshape(result, &shape)?;
                result = f.cast(result, dtype)?;
                shape.rank()
            } else {
                3
            };
            (scale, bias) = (per_channel(f, scale, rank)?, per_channel(f, bias, rank)?);
            result = f.mul(result, scale)?;
            result = f.add(result, bias)?;
            f.reshape(result, &shape)
        })
        .into())
}

/// (x − mean)/(deviation + 10⁻⁹).
fn mean_variance_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axes = node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let axes = f.axes(x, &axes)?;
            let mean = f.reduce(ReduceKind::Mean, x, &axes)?;
            let difference = f.sub(x, mean)?;
            let square = f.mul(difference, difference)?;
            let variance = f.reduce(ReduceKind::Mean, square, &axes)?;
            let deviation = f.unary(UnaryKind::Sqrt, variance)?;
            let deviation = f.add_number(deviation, 1e-9)?;
            f.div(difference, deviation)
        })
        .into())
}

/// x over its norm along an axis; 0 where that is 0.
fn lp_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.axis("axis", -1)? as i64;
    let p = node.int("p")?.unwrap_or(2);
    if !matches!(p, 1 | 2) {
        return Err(node.unsupported(format!("attribute 'p' = {p}; 1 and 2 are norms here")));
    }
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let axis = f.axis(x, axis)?;
            let norm = if p == 1 {
                let magnitude = f.unary(UnaryKind::Abs, x)?;
                f.reduce(ReduceKind::Sum, magnitude, &[axis])?
            } else {
                let sum = f.reduce(ReduceKind::SumSquare, x, &[axis])?;
                f.unary(UnaryKind::Sqrt, sum)?
            };
            let quotient = f.div(x, norm)?;
            let nothing = f.compare(BinaryKind::Equal, norm, 0.0)?;
            let zero = f.scalar_like(0.0, x);
            f.choose(nothing, zero, quotient)
        })
        .into())
}

/// x/(bias + α/size · Σ of x² over the neighbouring channels)^β.
fn local_response_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1e-4)?;
    let (beta, bias) = (node.float("beta", 0.75)?, node.float("bias", 1.0)?);
    let size = node.int("size")?.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    let size = size.ok_or_else(|| node.unsupported("attribute 'size' is not positive"))?;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let shape = f.shape(x);
            if shape.rank() < 2 {
                return Err(f.wrong(format!("input {shape} has no channel axis")));
            }
            if shape.contains(&0) {
                return Ok(x);
            }
            let square = f.mul(x, x)?;
            // Channels as rows of an image: the mean over a window of them, padding counted, is Σ/size.
            let image = f.reshape(square, &[shape[0], 1, shape[1], shape[2..].iter().product()])?;
            let before = (size - 1) / 2;
            let window = Pool {
                kind: PoolKind::Average { count_include_pad: true },
                kernel: [size, 1],
                stride: [1; 2],
                dilation: [1; 2],
                pad: [before, 0, size - 1 - before, 0],
                auto_pad: AutoPad::Explicit,
                ceil_mode: false,
            };
            let mean = f.op(Op::Pool(Box::new(window)), &[image])?;
            let mean = f.reshape(mean, &shape)?;
            let base = f.mul_number(mean, f64::from(alpha))?;
            let base = f.add_number(base, f64::from(bias))?;
            let divisor = if beta == 0.75 {
                // The usual one: x^¾ = √x·√√x, each rounded as well as it can be.
                let root = f.unary(UnaryKind::Sqrt, base)?;
                let fourth = f.unary(UnaryKind::Sqrt, root)?;
                f.mul(root, fourth)?
            } else {
                let exponent = f.scalar_like(f64::from(beta), x);
                f.binary(BinaryKind::Pow, base, exponent)?
            };
            f.div(x, divisor)
        })
        .into())
}

operators! {
    DEFAULT_DOMAIN;
    "GroupNormalization": [18, 21] {3, 3, 1 => group_normalization};
    "InstanceNormalization": [1, 6, 22] {3, 3, 1 => instance_normalization};
    "LRN": [1, 13] {1, 1, 1 => local_response_normalization};
    // Before the standard had it ONNX Runtime did, in the same domain.
    "LayerNormalization": [1, 17] {2, 3, 3 => layer_normalization};
    "LpNormalization": [1, 22] {1, 1, 1 => lp_normalization};
    "MeanVarianceNormalization": [9, 13] {1, 1, 1 => mean_variance_normalization};
    "RMSNormalization": [23] {2, 2, 1 => rms_normalization};
    // What ONNX Runtime's exporters write for it, in ONNX's own domain.
    "SimplifiedLayerNormalization": [1] {2, 2, 2 => rms_normalization};
}
