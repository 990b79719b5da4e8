//! Normalizations by statistics of the data; results: the values, and what they were normalized by.

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    functions::{
        Scope,
        standard::{Standard, standardized},
    },
    ops::BinaryKind,
};

/// The values times operand 1 plus operand 2, reshaped to `dims`, where they are given.
fn scaled(f: &mut Scope<'_, '_>, x: ValueId, dims: &[usize]) -> Result<ValueId, Error> {
    let (Some(weight), Some(bias)) = (f.get(1), f.get(2)) else { return Ok(x) };
    let (weight, bias) = (f.reshape(weight, dims)?, f.reshape(bias, dims)?);
    let scaled = f.mul(x, weight)?;
    f.add(scaled, bias)
}

/// Hands out the second and third result, and gives the first.
fn three(node: &mut NodeReader<'_, '_, '_>, results: &[ValueId]) -> Result<ValueId, Error> {
    for (index, &result) in results.iter().enumerate().skip(1) {
        node.finish(index, result)?;
    }
    Ok(results[0])
}

/// Over the last axes, as many as the file says.
pub(in super::super) fn layer(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::LAYER_NORM)?;
    let (epsilon, count) = (params.f32(1, 1e-5)?, params.u64(2, 1)? as usize);
    let rank = node.rank(node.input(0)?)?;
    if count == 0 || count > rank {
        return Err(node.unsupported(format!("{count} of {rank} axes")));
    }
    over(node, epsilon, count)
}

/// Over the axes from one to another, which are not all behind: the operand's last ones only.
pub(in super::super) fn general(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::GENERAL_NORM)?;
    let (epsilon, start, end) =
        (params.f32(1, 1e-5)?, params.u64(2, 0)? as usize, params.u64(3, 0)? as usize);
    let inputs = node.inputs.clone();
    let results = node.functions(&inputs, 3, move |f| {
        let x = f.input(0)?;
        let rank = f.rank(x);
        if start >= end || end > rank {
            return Err(f.wrong(format!("axes {start} to {end} of {rank}")));
        }
        let axes: Vec<usize> = (start..end).collect();
        let Standard { result: y, mean, inverse } = standardized(f, x, &axes, epsilon)?;
        let own = f.shape(x);
        let mut dims = vec![1; rank];
        dims[start..end].copy_from_slice(&own[start..end]);
        let y = scaled(f, y, &dims)?;
        // The statistics have the other axes only.
        let rest = [&own[..start], &own[end..]].concat();
        let rest = if rest.is_empty() { vec![1] } else { rest };
        Ok(vec![y, f.reshape(mean, &rest)?, f.reshape(inverse, &rest)?])
    })?;
    three(node, &results)
}

/// Over the last `count` axes.
fn over(node: &mut NodeReader<'_, '_, '_>, epsilon: f32, count: usize) -> Result<ValueId, Error> {
    let inputs = node.inputs.clone();
    let results = node.functions(&inputs, 3, move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let first = shape.rank().saturating_sub(count);
        let axes: Vec<usize> = (first..shape.rank()).collect();
        let Standard { result: y, mean, inverse } = standardized(f, x, &axes, epsilon)?;
        let y = scaled(f, y, &shape[first..])?;
        let rest = if first == 0 { vec![1] } else { shape[..first].to_vec() };
        Ok(vec![y, f.reshape(mean, &rest)?, f.reshape(inverse, &rest)?])
    })?;
    three(node, &results)
}

/// Over groups of channels and all places; every channel is a group of its own for instances.
pub(in super::super) fn group(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::GROUP_NORM)?;
    let (epsilon, groups) = (params.f32(1, 1e-5)?, params.u32(2, 1)? as usize);
    if params.u32(3, 0)? != 0 {
        return Err(node.unsupported(format!("format {}; 0, NCHW, is supported", params.u32(3, 0)?)));
    }
    let instances = node.operator.kind == "InstanceNorm";
    let inputs = node.inputs.clone();
    let results = node.functions(&inputs, 3, move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let rank = shape.rank();
        let groups = if instances { shape.get(1).copied().unwrap_or(0) } else { groups };
        if rank < 3 || groups == 0 || !shape[1].is_multiple_of(groups) {
            return Err(f.wrong(format!("input {shape} in {groups} groups of channels")));
        }
        let inner = f.product(&shape[2..])?;
        let apart = f.reshape(x, &[shape[0], groups, shape[1] / groups, inner])?;
        let Standard { result: y, mean, inverse } = standardized(f, apart, &[2, 3], epsilon)?;
        let y = f.reshape(y, &shape)?;
        let mut dims = vec![1; rank];
        dims[1] = shape[1];
        let y = scaled(f, y, &dims)?;
        let statistics = [shape[0], groups];
        Ok(vec![y, f.reshape(mean, &statistics)?, f.reshape(inverse, &statistics)?])
    })?;
    three(node, &results)
}

/// x / (k + α · Σ x² of the `n` channels around)^β.
pub(in super::super) fn local_response(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::LRN)?;
    let n = params.u32(0, 5)? as usize;
    let [k, alpha, beta] = [params.f32(1, 2.0)?, params.f32(2, 1e-4)?, params.f32(3, 0.75)?].map(f64::from);
    if n.is_multiple_of(2) || n > 255 {
        return Err(node.unsupported(format!("sums of {n} channels; odd numbers up to 255 are supported")));
    }
    let x = node.input(0)?;
    node.function(&[x], &[], move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        if shape.rank() != 4 {
            return Err(f.wrong(format!("input {shape}; 4 axes are expected")));
        }
        let square = f.mul(x, x)?;
        let half = n / 2;
        let mut filling = shape.to_vec();
        filling[1] = half;
        let zero = f.scalar_like(0.0, x);
        let zeros = f.expand(zero, &filling)?;
        let parts = if half == 0 { vec![square] } else { vec![zeros, square, zeros] };
        let padded = f.concat(&parts, 1)?;
        let mut sum = f.slice(padded, 1, 0, shape[1] as i64)?;
        for step in 1..n {
            let part = f.slice(padded, 1, step as i64, (step + shape[1]) as i64)?;
            sum = f.add(sum, part)?;
        }
        let scaled = f.mul_number(sum, alpha)?;
        let base = f.add_number(scaled, k)?;
        let exponent = f.scalar_like(-beta, x);
        let factor = f.binary(BinaryKind::Pow, base, exponent)?;
        f.mul(x, factor)
    })
}
