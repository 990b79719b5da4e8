//! Normalizations.

use triune_tensor::DType;

use super::{
    super::{View, node::Reader},
    reduce::axes,
};
use crate::{
    Error, Op, ValueId,
    ops::{BinaryKind, Reduce, ReduceKind, UnaryKind},
};

/// x·variance + mean: the parameters are in the form in which they are applied, without an ε.
pub(in super::super) fn batch(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let missing =
        |node: &Reader<'_, '_>, key: &str| node.unsupported(format!("attribute '{key}' is missing"));
    let factor = node.value("variance")?.ok_or_else(|| missing(node, "variance"))?;
    let addend = node.value("mean")?.ok_or_else(|| missing(node, "mean"))?;
    let open = node.aligned(x, y)?;
    let (factor, addend) = (node.aligned(factor, y)?, node.aligned(addend, y)?);
    let product = node.binary(BinaryKind::Mul, open, factor)?;
    let result = node.binary(BinaryKind::Add, product, addend)?;
    node.define(y, View::Open, result)
}

/// (x − mean)/√(var + ε) along axes, or what is not `centred` with 0 in the mean's place.
fn normalized(
    node: &mut Reader<'_, '_>,
    x: ValueId,
    along: &[isize],
    centred: bool,
) -> Result<ValueId, Error> {
    let epsilon = node.float("eps", 1e-5)?;
    let mean = |kind| Op::Reduce(Reduce::along(kind, along));
    let x = if node.dtype(x).is_some_and(DType::is_float) { x } else { node.cast(x, DType::F32)? };
    let shifted = if centred {
        let middle = node.emit(mean(ReduceKind::Mean), &[x])?;
        node.binary(BinaryKind::Sub, x, middle)?
    } else {
        x
    };
    let square = node.binary(BinaryKind::Mul, shifted, shifted)?;
    let variance = node.emit(mean(ReduceKind::Mean), &[square])?;
    let epsilon = node.scalar(epsilon);
    let variance = node.binary(BinaryKind::Add, variance, epsilon)?;
    let deviation = node.unary(UnaryKind::Sqrt, variance)?;
    node.binary(BinaryKind::Div, shifted, deviation)
}

/// gamma·x + beta, where either may be left out.
fn affine(
    node: &mut Reader<'_, '_>,
    x: ValueId,
    gamma: Option<ValueId>,
    beta: Option<ValueId>,
) -> Result<ValueId, Error> {
    let x = match gamma {
        Some(gamma) => node.binary(BinaryKind::Mul, x, gamma)?,
        None => x,
    };
    match beta {
        Some(beta) => node.binary(BinaryKind::Add, x, beta),
        None => Ok(x),
    }
}

/// Over the axes named, with parameters that have those axes.
pub(in super::super) fn layer(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let along = axes(node, x, "axis")?.ok_or_else(|| node.unsupported("attribute 'axis' is missing"))?;
    let rank = node.typed(x)?.form.flat.len();
    let flat = node.in_floats(x, View::Flat)?;
    let signed: Vec<isize> = along.iter().map(|&axis| axis as isize).collect();
    let centred = !node.kind().ends_with("RMSNorm");
    let mut result = normalized(node, flat, &signed, centred)?;
    let mut parameters = [None; 2];
    for (parameter, key) in parameters.iter_mut().zip(["gamma", "beta"]) {
        let Some(index) = node.value(key)? else { continue };
        let flat = node.in_floats(index, View::Flat)?;
        // One extent per axis that is normalized, in order.
        let own = node.typed(index)?.form.flat_extents();
        let own: Vec<Option<usize>> = if own.len() == along.len() {
            own
        } else {
            own.into_iter().filter(|extent| *extent != Some(1)).collect()
        };
        if own.len() != along.len() {
            return Err(node.wrong(format!(
                "attribute '{key}' has {} axes, {} are normalized",
                own.len(),
                along.len()
            )));
        }
        let mut extents = vec![Some(1); rank];
        for (&axis, extent) in along.iter().zip(own) {
            extents[axis] = extent;
        }
        *parameter = Some(node.reshape(flat, &extents)?);
    }
    result = affine(node, result, parameters[0], parameters[1])?;
    node.define(y, View::Flat, result)
}

/// Over each channel of each image.
pub(in super::super) fn instance(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let open = node.aligned(x, y)?;
    let rank = node.typed(y)?.form.flat.len();
    if rank < 3 {
        return Err(node.wrong(format!("an operand of {rank} axes")));
    }
    let along: Vec<isize> = (2..rank as isize).collect();
    let result = normalized(node, open, &along, true)?;
    let mut parameters = [None; 2];
    for (parameter, key) in parameters.iter_mut().zip(["gamma", "beta"]) {
        if let Some(index) = node.value(key)? {
            *parameter = Some(node.aligned(index, y)?);
        }
    }
    let result = affine(node, result, parameters[0], parameters[1])?;
    node.define(y, View::Open, result)
}

/// x / max(‖x‖, ε) along axes, of the norm 1 or 2.
pub(in super::super) fn normalize(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let along = axes(node, x, "axis")?.ok_or_else(|| node.unsupported("attribute 'axis' is missing"))?;
    let along: Vec<isize> = along.iter().map(|&axis| axis as isize).collect();
    let epsilon = node.float("eps", 1e-12)?;
    let power = node.float("p", 2.0)?;
    let flat = node.in_floats(x, View::Flat)?;
    let flat =
        if node.dtype(flat).is_some_and(DType::is_float) { flat } else { node.cast(flat, DType::F32)? };
    let norm = if power == 2.0 {
        let sum = node.emit(Op::Reduce(Reduce::along(ReduceKind::SumSquare, &along)), &[flat])?;
        node.unary(UnaryKind::Sqrt, sum)?
    } else if power == 1.0 {
        let size = node.unary(UnaryKind::Abs, flat)?;
        node.emit(Op::Reduce(Reduce::along(ReduceKind::Sum, &along)), &[size])?
    } else {
        return Err(node.unsupported(format!("the norm of power {power}")));
    };
    let norm = node.unary(UnaryKind::Clip([epsilon, f32::INFINITY]), norm)?;
    let result = node.binary(BinaryKind::Div, flat, norm)?;
    node.define(y, View::Flat, result)
}
