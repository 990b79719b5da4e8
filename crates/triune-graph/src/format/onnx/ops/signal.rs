//! Windows and Fourier transforms of signals: factors that follow from extents.

use std::f64::consts::PI;

use triune_tensor::{
    DType,
    function::{UnaryKind, math},
};

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{Error, Op, ValueId, functions::Scope};

/// Σ cᵢ·cos(i·2πn/N) for n up to the size; N is the size, or one less of a window that is symmetric.
fn window(node: &mut NodeReader<'_, '_>, factors: &'static [f64]) -> Result<Op, Error> {
    let periodic = node.int("periodic")?.unwrap_or(1) != 0;
    let dtype = node.dtype("output_datatype")?.unwrap_or(DType::F32);
    let function = node.function(move |f| {
        let size = f.bounded(usize::try_from(f.int(0)?).ok())?;
        let period = if periodic { size } else { size.saturating_sub(1).max(1) };
        let at = |n: usize| {
            let terms = factors.iter().enumerate();
            terms.map(|(i, factor)| factor * math::cos(2.0 * PI * (i * n) as f64 / period as f64)).sum()
        };
        let values: Vec<f64> = (0..size).map(at).collect();
        Ok(f.numbers(&values, dtype))
    });
    Ok(function.deciding(&[0]).into())
}

/// The discrete Fourier transform along an axis; the last axis has reals, or reals and imaginary parts.
fn dft(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (inverse, onesided) = (node.flag("inverse")?, node.flag("onesided")?);
    let axis = if node.since < 20 { Some(node.int("axis")?.unwrap_or(1)) } else { None };
    let function = node.function(move |f| {
        let x = f.input(0)?;
        let axis = match axis {
            Some(axis) => axis,
            None if f.get(2).is_some() => f.int(2)?,
            None => -2,
        };
        let axis = f.axis(x, axis)?;
        let shape = f.shape(x);
        let length = match f.get(1) {
            Some(_) => f.int(1)?,
            // One side of an even number of elements.
            None if inverse && onesided => 2 * (shape[axis] as i64 - 1),
            None => shape[axis] as i64,
        };
        let length = usize::try_from(length).ok().filter(|length| *length > 0);
        let length = length.ok_or_else(|| f.wrong("a transform of no elements"))?;
        if inverse && onesided {
            real_inverse(f, x, axis, length)
        } else {
            transform(f, x, axis, length, inverse, onesided)
        }
    });
    Ok(function.deciding(&[1, 2]).into())
}

/// Refuses what has no reals or pairs of them to transform.
fn expect_signal(f: &Scope<'_, '_>, x: ValueId, axis: usize) -> Result<(), Error> {
    let shape = f.shape(x);
    match shape.split_last() {
        Some((1 | 2, rest)) if axis < rest.len() && !rest.contains(&0) => Ok(()),
        _ => Err(f.wrong(format!("a transform of {shape} along axis {axis}"))),
    }
}

/// Factors of (elements, results) by the angle that an element turns in a result.
fn factors(
    f: &mut Scope<'_, '_>,
    [elements, results]: [usize; 2],
    dtype: DType,
    factor: impl Fn(usize, usize) -> f64,
) -> Result<ValueId, Error> {
    f.bounded(elements.checked_mul(results))?;
    let factor = &factor;
    let values: Vec<f64> = (0..elements).flat_map(|n| (0..results).map(move |k| factor(n, k))).collect();
    let list = f.floats(&values, dtype);
    f.reshape(list, &[elements, results])
}

/// Σ x·exp(∓2πi·nk/N), N being the `length` that elements are cut or filled up to with zeros.
fn transform(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    length: usize,
    inverse: bool,
    onesided: bool,
) -> Result<ValueId, Error> {
    expect_signal(f, x, axis)?;
    let (shape, last) = (f.shape(x), f.rank(x) - 1);
    let own = length.min(shape[axis]);
    let count = if onesided { length / 2 + 1 } else { length };
    let x = f.slice(x, axis, 0, own as i64)?;
    let dtype = f.dtype(x);
    if let Some(parts) = two_factors(length) {
        return in_two_steps(f, x, axis, parts, count, inverse);
    }
    let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
    let sign = if inverse { -1.0 } else { 1.0 };
    let angle = |n: usize, k: usize| 2.0 * PI * ((n * k) % length) as f64 / length as f64;
    let cosines = factors(f, [own, count], dtype, |n, k| scale * math::cos(angle(n, k)))?;
    let sines = factors(f, [own, count], dtype, |n, k| scale * sign * math::sin(angle(n, k)))?;
    let real = f.slice(x, last, 0, 1)?;
    let mut parts = [along(f, real, axis, cosines)?, along(f, real, axis, sines)?];
    parts[1] = f.mul_number(parts[1], -1.0)?;
    if shape[last] == 2 {
        let imaginary = f.slice(x, last, 1, 2)?;
        let (a, b) = (along(f, imaginary, axis, sines)?, along(f, imaginary, axis, cosines)?);
        parts = [f.add(parts[0], a)?, f.add(parts[1], b)?];
    }
    f.concat(&parts, last)
}

/// Two factors of a length, as near to each other as they can be, where a transform in two steps takes less than one: the smaller
/// one first.
fn two_factors(length: usize) -> Option<[usize; 2]> {
    let root = length.isqrt();
    let small = (4..=root).rev().find(|small| length.is_multiple_of(*small))?;
    let large = length / small;
    (4 * (small + large) <= length).then_some([small, large])
}

/// A matrix of (results, elements) that turns real parts above imaginary ones, or real ones alone, by angles; its results are real
/// parts above imaginary ones.
fn turning(
    f: &mut Scope<'_, '_>,
    [results, elements]: [usize; 2],
    complex: bool,
    dtype: DType,
    factor: impl Fn(usize, usize) -> [f64; 2],
) -> Result<ValueId, Error> {
    let (height, width) = (2 * results, if complex { 2 * elements } else { elements });
    f.bounded(height.checked_mul(width))?;
    let mut values = Vec::with_capacity(height * width);
    for row in 0..height {
        for column in 0..width {
            let [cosine, sine] = factor(row % results, column % elements);
            values.push(match (row < results, column < elements) {
                (true, true) | (false, false) => cosine,
                (true, false) => sine,
                (false, true) => -sine,
            });
        }
    }
    let list = f.floats(&values, dtype);
    f.reshape(list, &[height, width])
}

/// As [`transform`], of as many elements as `small`·`large`, by transforms of `small` and of `large` elements (Cooley and Tukey):
/// element large·a + b turns in result c + small·d by ac/small + bc/(small·large) + bd/large.
fn in_two_steps(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    [small, large]: [usize; 2],
    count: usize,
    inverse: bool,
) -> Result<ValueId, Error> {
    let length = small * large;
    let (shape, dtype) = (f.shape(x), f.dtype(x));
    let last = shape.rank() - 1;
    let (outer, inner) = (f.product(&shape[..axis])?, f.product(&shape[axis + 1..last])?);
    let complex = shape[last] == 2;
    let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
    let mut x = f.cast(x, wide)?;
    if shape[axis] < length {
        let mut dims = shape.to_vec();
        dims[axis] = length - shape[axis];
        let zero = f.scalar(0.0, wide);
        let zeros = f.expand(zero, &dims)?;
        x = f.concat(&[x, zeros], axis)?;
    }
    let turn = |steps: usize, of: usize| {
        let angle = 2.0 * PI * (steps % of) as f64 / of as f64;
        [math::cos(angle), if inverse { -math::sin(angle) } else { math::sin(angle) }]
    };
    // Real parts above imaginary ones: (outer, parts·small, large·inner).
    let mut parts = if complex { 2 } else { 1 };
    let x = f.reshape(x, &[outer, length * inner, parts])?;
    let x = f.transpose(x, &[0, 2, 1])?;
    let x = f.reshape(x, &[outer, parts * small, large * inner])?;
    let first = turning(f, [small; 2], complex, wide, |c, a| turn(a * c, small))?;
    let x = f.matmul(first, x)?;
    parts = 2;
    let x = f.reshape(x, &[outer, parts, small, large * inner])?;
    let [real, imaginary] = [f.slice(x, 1, 0, 1)?, f.slice(x, 1, 1, 2)?];
    let between = |place: usize| turn(place / (large * inner) * (place % (large * inner) / inner), length);
    let turns: Vec<[f64; 2]> = (0..f.bounded(length.checked_mul(inner))?).map(between).collect();
    let mut turns = |part: usize| {
        let list: Vec<f64> = turns.iter().map(|turn| turn[part]).collect();
        let list = f.floats(&list, wide);
        f.reshape(list, &[small, large * inner])
    };
    let [cosines, sines] = [turns(0)?, turns(1)?];
    let sides = [[real, cosines], [imaginary, sines], [imaginary, cosines], [real, sines]];
    let mut products = Vec::with_capacity(sides.len());
    for [a, b] in sides {
        products.push(f.mul(a, b)?);
    }
    let x = [f.add(products[0], products[1])?, f.sub(products[2], products[3])?];
    let x = f.concat(&x, 1)?;
    let x = f.reshape(x, &[outer * parts, small, large, inner])?;
    let x = f.transpose(x, &[0, 2, 1, 3])?;
    let x = f.reshape(x, &[outer, parts * large, small * inner])?;
    // Rows of results beyond those that are asked for are not computed.
    let rows = count.div_ceil(small);
    let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
    let second =
        turning(f, [rows, large], true, wide, |d, b| turn(b * d, large).map(|factor| scale * factor))?;
    let x = f.matmul(second, x)?;
    let x = f.reshape(x, &[outer, parts, rows * small, inner])?;
    let x = f.slice(x, 2, 0, count as i64)?;
    let x = f.transpose(x, &[0, 2, 3, 1])?;
    let x = f.cast(x, dtype)?;
    let mut dims = shape.to_vec();
    (dims[axis], dims[last]) = (count, parts);
    f.reshape(x, &dims)
}

/// The reals whose transform has this one side.
fn real_inverse(f: &mut Scope<'_, '_>, x: ValueId, axis: usize, length: usize) -> Result<ValueId, Error> {
    expect_signal(f, x, axis)?;
    let (shape, last) = (f.shape(x), f.rank(x) - 1);
    let own = (length / 2 + 1).min(shape[axis]);
    let x = f.slice(x, axis, 0, own as i64)?;
    let dtype = f.dtype(x);
    // Every other element stands for its mirror image, too.
    let alone = |n: usize| n == 0 || 2 * n == length;
    let weight = |n: usize| if alone(n) { 1.0 } else { 2.0 } / length as f64;
    let angle = |n: usize, k: usize| 2.0 * PI * ((n * k) % length) as f64 / length as f64;
    let cosines = factors(f, [own, length], dtype, |n, k| weight(n) * math::cos(angle(n, k)))?;
    let real = f.slice(x, last, 0, 1)?;
    let sum = along(f, real, axis, cosines)?;
    if shape[last] == 1 {
        return Ok(sum);
    }
    let sine = |n: usize, k: usize| if alone(n) { 0.0 } else { -weight(n) * math::sin(angle(n, k)) };
    let sines = factors(f, [own, length], dtype, sine)?;
    let imaginary = f.slice(x, last, 1, 2)?;
    let other = along(f, imaginary, axis, sines)?;
    f.add(sum, other)
}

/// Transforms of parts of a signal, each times a window; results (batch, parts, elements, 2).
fn stft(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let onesided = node.int("onesided")?.unwrap_or(1) != 0;
    let function = node.function(move |f| {
        let signal = f.input(0)?;
        let shape = f.shape(signal);
        let [batch, samples, parts] = match *shape {
            [batch, samples] => [batch, samples, 1],
            [batch, samples, parts] => [batch, samples, parts],
            _ => return Err(f.wrong(format!("a signal {shape}; (batch, samples, 1 or 2) is expected"))),
        };
        let window = f.get(2);
        let own = window.map(|window| f.shape(window).elements().unwrap_or(0) as i64);
        let given = if f.get(3).is_some() { Some(f.int(3)?) } else { None };
        let length = given.or(own).unwrap_or(samples as i64);
        if own.is_some_and(|own| own != length) {
            return Err(f.wrong(format!("a window of {} for parts of {length}", own.unwrap_or(0))));
        }
        let step = f.int(1)?;
        let sizes = usize::try_from(length).ok().zip(usize::try_from(step).ok());
        let sizes = sizes.filter(|&(length, step)| (1..=samples).contains(&length) && step > 0);
        let (length, step) = sizes
            .ok_or_else(|| f.wrong(format!("parts of {length} by steps of {step} of {samples} samples")))?;
        let count = (samples - length) / step + 1;
        f.bounded(count.checked_mul(length))?;
        let places: Vec<i64> =
            (0..count).flat_map(|part| (0..length).map(move |at| (part * step + at) as i64)).collect();
        let places = f.list(&places);
        let signal = f.reshape(signal, &[batch, samples, parts])?;
        let taken = f.gather(signal, 1, places)?;
        let mut taken = f.reshape(taken, &[batch, count, length, parts])?;
        if let Some(window) = window {
            let window = f.reshape(window, &[length, 1])?;
            taken = f.mul(taken, window)?;
        }
        transform(f, taken, 2, length, false, onesided)
    });
    Ok(function.deciding(&[1, 3]).into())
}

/// Hertz on the mel scale: 2595·log₁₀(1 + f/700).
fn mel(hertz: f64) -> f64 {
    2595.0 / std::f64::consts::LN_10 * UnaryKind::Log1p.evaluate(hertz / 700.0)
}

/// Triangles that weigh a spectrum's elements by bands of equal width on the mel scale.
fn mel_weight_matrix(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let dtype = node.dtype("output_datatype")?.unwrap_or(DType::F32);
    let function = node.function(move |f| {
        let count = |f: &Scope<'_, '_>, index: usize| -> Result<usize, Error> {
            let value = f.int(index)?;
            usize::try_from(value)
                .ok()
                .filter(|value| *value > 0)
                .ok_or_else(|| f.wrong(format!("input {index} is {value}; a positive number is expected")))
        };
        let (bands, length, rate) = (count(f, 0)?, count(f, 1)?, count(f, 2)?);
        let edge = |f: &Scope<'_, '_>, index: usize| -> Result<f64, Error> {
            let known = f.constant_of(f.input(index)?).and_then(crate::Constant::to_f64);
            match known.as_deref() {
                Some(&[hertz]) if hertz >= 0.0 && hertz.is_finite() => Ok(mel(hertz)),
                _ => Err(f.wrong(format!("input {index} is not one known frequency"))),
            }
        };
        let (low, high) = (edge(f, 3)?, edge(f, 4)?);
        let spectrum = length / 2 + 1;
        f.bounded(spectrum.checked_mul(bands))?;
        let step = (high - low) / (bands as f64 + 2.0);
        // The spectrum's element at each end of a band.
        let ends: Vec<usize> = (0..bands + 2)
            .map(|index| {
                let mel = low + index as f64 * step;
                let hertz = 700.0 * UnaryKind::Expm1.evaluate(mel * std::f64::consts::LN_10 / 2595.0);
                ((length as f64 + 1.0) * hertz / rate as f64).floor() as usize
            })
            .collect();
        let mut weights = vec![0.0; spectrum * bands];
        for (band, ends) in ends.windows(3).enumerate() {
            let &[left, center, right] = ends else { continue };
            if left > center || center > right || right > spectrum || center >= spectrum {
                return Err(f.wrong(format!(
                    "band {band} reaches from element {left} to {right} of a spectrum of {spectrum}"
                )));
            }
            for at in left..=center {
                let rise = center - left;
                weights[at * bands + band] = if rise == 0 { 1.0 } else { (at - left) as f64 / rise as f64 };
            }
            for at in center..right {
                weights[at * bands + band] = (right - at) as f64 / (right - center) as f64;
            }
        }
        let weights = f.numbers(&weights, dtype);
        f.reshape(weights, &[spectrum, bands])
    });
    Ok(function.deciding(&[0, 1, 2, 3, 4]).into())
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
    "MelWeightMatrix": [17] {5, 5, 1 => mel_weight_matrix};
    "STFT": [17] {2, 4, 1 => stft};
}
