//! Windows and Fourier transforms of signals: factors that follow from extents.

use std::f64::consts::PI;

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{Error, Op, ValueId, functions::Scope};

/// Σ cᵢ·cos(i·2πn/N) for n up to the size; N is the size, or one less of a window that is symmetric.
fn window(node: &mut NodeReader<'_, '_>, factors: &'static [f64]) -> Result<Op, Error> {
    let periodic = node.int("periodic")?.unwrap_or(1) != 0;
    let dtype = node.dtype("output_datatype")?.unwrap_or(DType::F32);
    if !dtype.is_float() {
        return Err(node.unsupported(format!("attribute 'output_datatype' = {dtype}")));
    }
    let function = node.function(move |f| {
        let size = f.bounded(usize::try_from(f.int(0)?).ok())?;
        let period = if periodic { size } else { size.saturating_sub(1).max(1) };
        let at = |n: usize| {
            let terms = factors.iter().enumerate();
            terms.map(|(i, factor)| factor * (2.0 * PI * (i * n) as f64 / period as f64).cos()).sum()
        };
        let values: Vec<f64> = (0..size).map(at).collect();
        Ok(f.reals(&values, dtype))
    });
    Ok(function.deciding(&[0]).into())
}

/// The discrete Fourier transform along an axis; the last axis has reals, or reals and imaginary parts.
fn dft(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (inverse, onesided) = (node.flag("inverse")?, node.flag("onesided")?);
    if inverse && onesided {
        return Err(node.unsupported("attributes 'inverse' and 'onesided' together"));
    }
    let axis = if node.since < 20 { Some(node.int("axis")?.unwrap_or(1)) } else { None };
    let function = node.function(move |f| {
        let x = f.input(0)?;
        let axis = match axis {
            Some(axis) => axis,
            None if f.get(2).is_some() => f.int(2)?,
            None => -2,
        };
        let axis = f.axis(x, axis)?;
        let last = f.rank(x) - 1;
        let shape = f.shape(x);
        if axis == last || !matches!(shape[last], 1 | 2) || shape.contains(&0) {
            return Err(f.wrong(format!("a transform of {shape} along axis {axis}")));
        }
        let length = if f.get(1).is_some() { f.int(1)? } else { shape[axis] as i64 };
        let length = usize::try_from(length).ok().filter(|length| *length > 0);
        let length = length.ok_or_else(|| f.wrong("a transform of no elements"))?;
        let own = length.min(shape[axis]);
        let count = if onesided { length / 2 + 1 } else { length };
        f.bounded(own.checked_mul(count))?;
        let x = f.slice(x, axis, 0, own as i64)?;
        let dtype = f.dtype(x);
        let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
        let sign = if inverse { -1.0 } else { 1.0 };
        let angles: Vec<f64> = (0..own)
            .flat_map(|n| (0..count).map(move |k| 2.0 * PI * ((n * k) % length) as f64 / length as f64))
            .collect();
        let mut matrices = [x; 2];
        for (matrix, values) in matrices.iter_mut().zip([
            angles.iter().map(|angle| scale * angle.cos()).collect::<Vec<_>>(),
            angles.iter().map(|angle| scale * sign * angle.sin()).collect::<Vec<_>>(),
        ]) {
            let list = f.reals(&values, dtype);
            *matrix = f.reshape(list, &[own, count])?;
        }
        let [cosines, sines] = matrices;
        let real = f.slice(x, last, 0, 1)?;
        let mut parts = [along(f, real, axis, cosines)?, along(f, real, axis, sines)?];
        parts[1] = f.mul_number(parts[1], -1.0)?;
        if shape[last] == 2 {
            let imaginary = f.slice(x, last, 1, 2)?;
            let (a, b) = (along(f, imaginary, axis, sines)?, along(f, imaginary, axis, cosines)?);
            parts = [f.add(parts[0], a)?, f.add(parts[1], b)?];
        }
        f.concat(&parts, last)
    });
    Ok(function.deciding(&[1, 2]).into())
}

/// Rows along an axis times a matrix.
fn along(f: &mut Scope<'_, '_>, x: ValueId, axis: usize, matrix: ValueId) -> Result<ValueId, Error> {
    let mut perm: Vec<usize> = (0..f.rank(x)).collect();
    let last = perm.len() - 1;
    perm.swap(axis, last);
    let rows = f.transpose(x, &perm)?;
    let rows = f.matmul(rows, matrix)?;
    f.transpose(rows, &perm)
}

operators! {
    DEFAULT_DOMAIN;
    "BlackmanWindow": [17] {1, 1, 1 => |node| window(node, &[0.42, -0.5, 0.08])};
    "DFT": [17] {1, 2, 1 => dft} [20] {1, 3, 1 => dft};
    "HammingWindow": [17] {1, 1, 1 => |node| window(node, &[25.0 / 46.0, -21.0 / 46.0])};
    "HannWindow": [17] {1, 1, 1 => |node| window(node, &[0.5, -0.5])};
}
