//! Windows' elements as columns: put together into images, and taken at places that are computed.

use triune_tensor::{DType, function::ScatterKind, text::List};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature,
    grid::{sample_all, zero_padded},
    operators,
};
use crate::{
    Error, Op,
    functions::Scope,
    ops::{Axis, ScatterElements, Weigh},
};

/// One number for each of `axes`; 1 where none are given.
fn steps(f: &Scope<'_, '_>, list: Option<&[usize]>, axes: usize, name: &str) -> Result<Vec<usize>, Error> {
    match list {
        None => Ok(vec![1; axes]),
        Some(list) if list.len() == axes && !list.contains(&0) => Ok(list.to_vec()),
        Some(_) => Err(f.wrong(format!("attribute '{name}' is not {axes} positive numbers"))),
    }
}

/// Padding before all axes, then behind them; 0 where none is given.
fn borders(f: &Scope<'_, '_>, list: Option<&[usize]>, axes: usize) -> Result<Vec<usize>, Error> {
    match list {
        None => Ok(vec![0; 2 * axes]),
        Some(list) if list.len() == 2 * axes => Ok(list.to_vec()),
        Some(_) => Err(f.wrong(format!("attribute 'pads' is not {} numbers", 2 * axes))),
    }
}

/// The window along axis `index` of an image, with its places.
fn axis(index: usize, [image, block, strides, dilations, pads]: [&[usize]; 5]) -> Option<Axis> {
    let (before, behind) = pads.split_at(pads.len() / 2);
    let axis = Axis {
        extent: image[index],
        kernel: block[index],
        stride: strides[index],
        dilation: dilations[index],
        before: i64::try_from(before[index]).ok()?,
        behind: i64::try_from(behind[index]).ok()?,
        out: 0,
    };
    axis.placed(false)
}

/// How many elements there are of some extents.
fn product(extents: &[usize]) -> Option<usize> {
    extents.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent))
}

/// Which of some extents, in row-major order, an index stands for.
fn position(mut index: usize, extents: impl DoubleEndedIterator<Item = usize>) -> Vec<usize> {
    let mut position: Vec<usize> = extents
        .rev()
        .map(|extent| {
            let at = index % extent;
            index /= extent;
            at
        })
        .collect();
    position.reverse();
    position
}

/// Columns of a window's elements added up where they come from.
fn col2im(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (strides, dilations) = (node.extents("strides")?, node.extents("dilations")?);
    let pads = node.extents("pads")?;
    let function = node.function(move |f| {
        let x = f.input(0)?;
        let extents = |f: &Scope<'_, '_>, index: usize, what: &str| -> Result<Vec<usize>, Error> {
            let values = f.ints(index)?.unwrap_or_default();
            let extents: Option<Vec<usize>> =
                values.iter().map(|&value| usize::try_from(value).ok()).collect();
            extents
                .filter(|extents| !extents.is_empty() && !extents.contains(&0))
                .ok_or_else(|| f.wrong(format!("{what} {} is not of positive extents", List(&values))))
        };
        let (image, block) = (extents(f, 1, "the image")?, extents(f, 2, "the block")?);
        let count = image.len();
        let strides = steps(f, strides.as_deref(), count, "strides")?;
        let dilations = steps(f, dilations.as_deref(), count, "dilations")?;
        let pads = borders(f, pads.as_deref(), count)?;
        let shape = f.shape(x);
        let fit = || f.wrong(format!("columns {shape} of blocks of {}", List(&block)));
        if block.len() != count || shape.rank() != 3 {
            return Err(fit());
        }
        let lists = [&*image, &*block, &*strides, &*dilations, &*pads];
        let axes: Option<Vec<Axis>> = (0..count).map(|index| axis(index, lists)).collect();
        let axes = axes.ok_or_else(fit)?;
        let taps = f.bounded(product(&block))?;
        let places = f.bounded(product(&axes.iter().map(|axis| axis.out).collect::<Vec<_>>()))?;
        let area = f.bounded(product(&image))?;
        f.bounded(taps.checked_mul(places))?;
        if shape[2] != places || !shape[1].is_multiple_of(taps) {
            return Err(fit());
        }
        let channels = shape[1] / taps;
        let rows = shape[0] * channels;
        // What falls on the padding goes behind the image's elements.
        let target = |tap: &[usize], place: &[usize]| {
            let mut at = 0;
            for (axis, (&tap, &place)) in axes.iter().zip(tap.iter().zip(place)) {
                match usize::try_from(axis.at(tap, place)) {
                    Ok(own) if own < axis.extent => at = at * axis.extent + own,
                    _ => return area as i64,
                }
            }
            at as i64
        };
        let mut targets = Vec::with_capacity(taps * places);
        for tap in 0..taps {
            let tap = position(tap, axes.iter().map(|axis| axis.kernel));
            targets.extend(
                (0..places).map(|place| target(&tap, &position(place, axes.iter().map(|axis| axis.out)))),
            );
        }
        let zero = f.scalar_like(0.0, x);
        let dims = [&[shape[0], channels], image.as_slice()].concat();
        if rows == 0 {
            return f.expand(zero, &dims);
        }
        let small = i32::try_from(taps * places).is_ok()
            && area.checked_mul(taps).is_some_and(|all| all <= Scope::MOST);
        if small && (f.dtype(x) == DType::F32 || f.dtype(x).is_half()) {
            // For each element what falls on it, of which no tap has two.
            let mut sources = vec![-1.0; area * taps];
            for (source, &target) in targets.iter().enumerate() {
                if target < area as i64 {
                    sources[source / places * area + target as usize] = source as f64;
                }
            }
            let dtype = f.dtype(x);
            let sources = f.numbers(&sources, DType::I32);
            let sources = f.reshape(sources, &[1, taps, area])?;
            let columns = f.reshape(x, &[shape[0], channels, taps * places])?;
            let columns = f.cast(columns, DType::F32)?;
            let sums = f.op(Op::Weigh(Weigh), &[columns, sources])?;
            let sums = f.cast(sums, dtype)?;
            return f.reshape(sums, &dims);
        }
        let whole = f.expand(zero, &[rows, area + 1])?;
        let targets = f.list(&targets);
        let targets = f.expand(targets, &[rows, taps * places])?;
        let columns = f.reshape(x, &[rows, taps * places])?;
        let op = ScatterElements { axis: 1, kind: ScatterKind::Add };
        let sums = f.op(Op::ScatterElements(op), &[whole, targets, columns])?;
        let sums = f.slice(sums, 1, 0, area as i64)?;
        f.reshape(sums, &dims)
    });
    Ok(function.deciding(&[1, 2]).into())
}

/// A convolution whose taps stand beside their places; inputs x, weights, offsets, optional bias, optional factors of the taps.
fn deform_conv(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (kernel, strides) = (node.extents("kernel_shape")?, node.extents("strides")?);
    let (dilations, pads) = (node.extents("dilations")?, node.extents("pads")?);
    let count = |node: &mut NodeReader<'_, '_>, name: &str| {
        let count = node.int(name)?.unwrap_or(1);
        usize::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| node.unsupported(format!("attribute '{name}' = {count}; it has to be positive")))
    };
    let (groups, offset_groups) = (count(node, "group")?, count(node, "offset_group")?);
    Ok(node
        .function(move |f| {
            let (x, weights, offsets) = (f.input(0)?, f.input(1)?, f.input(2)?);
            let (shape, own, moved) = (f.shape(x), f.shape(weights), f.shape(offsets));
            let (&[n, c, height, width], &[outs, inner, kh, kw]) = (&*shape, &*own) else {
                return Err(f.unsupported(format!("weights {own} for {shape}; windows have two axes here")));
            };
            let wrong = || f.wrong(format!("weights {own} and offsets {moved} for {shape}"));
            if shape[1..].contains(&0) {
                return Err(f.wrong(format!("input {shape} has no elements to take")));
            }
            if inner.checked_mul(groups) != Some(c)
                || !outs.is_multiple_of(groups)
                || !c.is_multiple_of(offset_groups)
                || kernel.as_ref().is_some_and(|kernel| kernel[..] != own[2..])
            {
                return Err(wrong());
            }
            let strides = steps(f, strides.as_deref(), 2, "strides")?;
            let dilations = steps(f, dilations.as_deref(), 2, "dilations")?;
            let pads = borders(f, pads.as_deref(), 2)?;
            let lists = [&shape[2..], &own[2..], &*strides, &*dilations, &*pads];
            let axes = [axis(0, lists).ok_or_else(wrong)?, axis(1, lists).ok_or_else(wrong)?];
            let [rows, columns] = axes.map(|axis| axis.out);
            let (taps, places) = (kh * kw, rows.checked_mul(columns).ok_or_else(wrong)?);
            let samples = f.bounded(taps.checked_mul(places))?;
            let images = n * offset_groups;
            if moved[..] != [n, 2 * taps * offset_groups, rows, columns] {
                return Err(wrong());
            }
            let dtype = f.dtype(x);
            let offsets = f.reshape(offsets, &[images, taps, 2, places])?;
            let mut at = [x; 2];
            for (index, (at, axis)) in at.iter_mut().zip(&axes).enumerate() {
                let stand = |sample: usize| {
                    let (tap, place) = (sample / places, sample % places);
                    let (tap, place) =
                        if index == 0 { (tap / kw, place / columns) } else { (tap % kw, place % columns) };
                    axis.at(tap, place) as f64
                };
                let stands: Vec<f64> = (0..samples).map(stand).collect();
                let stands = f.floats(&stands, DType::F32);
                let own = f.slice(offsets, 2, index as i64, index as i64 + 1)?;
                let own = f.reshape(own, &[images, 1, samples])?;
                let own = f.cast(own, DType::F32)?;
                *at = f.add(own, stands)?;
            }
            let channels = c / offset_groups;
            let pixels = f.reshape(x, &[images, channels, height * width])?;
            let taken = zero_padded(f, &at, &[height, width])?;
            let mut taken = sample_all(f, pixels, &taken, &[images, channels, height, width], samples)?;
            if let Some(factors) = f.get(4) {
                if f.shape(factors)[..] != [n, taps * offset_groups, rows, columns] {
                    return Err(f.wrong(format!("factors {} for offsets {moved}", f.shape(factors))));
                }
                let factors = f.reshape(factors, &[images, 1, samples])?;
                let factors = f.cast(factors, DType::F32)?;
                taken = f.mul(taken, factors)?;
            }
            let columns_of = f.reshape(taken, &[n, groups, inner * taps, places])?;
            let weights = f.cast(weights, DType::F32)?;
            let weights = f.reshape(weights, &[1, groups, outs / groups, inner * taps])?;
            let product = f.matmul(weights, columns_of)?;
            let mut y = f.reshape(product, &[n, outs, rows, columns])?;
            if let Some(bias) = f.get(3) {
                let bias = f.cast(bias, DType::F32)?;
                let bias = f.reshape(bias, &[outs, 1, 1])?;
                y = f.add(y, bias)?;
            }
            f.cast(y, dtype)
        })
        .into())
}

operators! {
    DEFAULT_DOMAIN;
    "Col2Im": [18] {3, 3, 1 => col2im};
    "DeformConv": [19, 22] {3, 5, 1 => deform_conv};
}
