//! Images sampled at places that are operands: maps, boxes and shifted windows.

use triune_tensor::DType;

use super::{
    image::{border, interpolation},
    kind,
    layout::{Layout, layout},
};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    functions::{Scope, sample::Pixels},
    ops::{BinaryKind, BorderMode, ReduceKind, UnaryKind},
};

/// Reals in the type that the images have: bytes are rounded half away from zero and saturated.
fn like(f: &mut Scope<'_, '_>, x: ValueId, dtype: DType) -> Result<ValueId, Error> {
    let Some((low, high)) = dtype.int_range() else { return f.cast(x, dtype) };
    let x = f.unary(UnaryKind::RoundHalfAway, x)?;
    let x = f.unary(UnaryKind::Clip([low as f32, high as f32]), x)?;
    f.cast(x, dtype)
}

/// 0, 1, … for the images of a batch, as (N, 1).
fn images(f: &mut Scope<'_, '_>, n: usize) -> Result<ValueId, Error> {
    f.places(n, 1)
}

/// Each result is taken where a map (N, rows, columns, 2) says: column, then row.
pub(in super::super) fn remap(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::REMAP)?;
    let linear = interpolation(node, params.u32(0, 1)?)?;
    let border = border(node, params.u32(1, 0)?, params.f32(3, 0.0)?)?;
    let layout = layout(node, &params, 2, 1)?;
    let (x, map) = (node.input(0)?, node.input(1)?);
    let x = node.planes(x, layout)?;
    let y = node.function(&[x, map], &[], move |f| {
        let (x, map) = (f.input(0)?, f.input(1)?);
        let (shape, wanted) = (f.shape(x), f.shape(map));
        let &[n, rows, columns, 2] = &*wanted else {
            return Err(f.wrong(format!("a map of extents {wanted}")));
        };
        if shape.rank() != 4 || shape[0] != n {
            return Err(f.wrong(format!("input {shape} and a map {wanted}")));
        }
        let pixels = Pixels::of(f, x)?;
        let places = f.product(&[rows, columns])?;
        let mut place = Vec::with_capacity(2);
        for index in [1, 0] {
            let part = f.slice(map, 3, index, index + 1)?;
            place.push(f.reshape(part, &[n, places])?);
        }
        let batch = images(f, n)?;
        let place = [place[0], place[1]];
        let taken = if linear {
            pixels.bilinear(f, batch, place, border)?
        } else {
            pixels.nearest(f, batch, place, border)?
        };
        let planes = f.transpose(taken, &[0, 2, 1])?;
        let planes = f.reshape(planes, &[n, shape[1], rows, columns])?;
        like(f, planes, f.dtype(x))
    })?;
    node.laid_out(y, layout)
}

/// What a file says of boxes' pools.
#[derive(Clone, Copy)]
struct Boxes {
    average: bool,
    scale: f32,
    offset: f32,
    pooled: [usize; 2],
    samples: [usize; 2],
}

/// Mean or maximum of samples in every cell of a grid over boxes (image, left, top, right, bottom). Results: the values, and
/// the sample that each maximum is.
pub(in super::super) fn roi_align(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::ROI_ALIGN)?;
    let average = match params.u32(0, 0)? {
        0 => false,
        1 => true,
        mode => return Err(node.unsupported(format!("mode {mode}"))),
    };
    if layout(node, &params, 1, 0)? != Layout::Planes {
        return Err(node.unsupported("images that are not in planes"));
    }
    let boxes = Boxes {
        average,
        scale: params.f32(2, 1.0)?,
        offset: params.f32(3, 0.0)?,
        pooled: params.pair(4, 1)?,
        samples: params.pair(6, 2)?,
    };
    if boxes.pooled.contains(&0) || boxes.samples.contains(&0) {
        return Err(node.unsupported("a grid of 0 cells or samples"));
    }
    let inputs = node.inputs.clone();
    let results = node.functions(&inputs, 2, move |f| boxes.body(f))?;
    node.finish(1, results[1])?;
    Ok(results[0])
}

impl Boxes {
    fn body(self, f: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> {
        let (x, boxes) = (f.input(0)?, f.input(1)?);
        let (shape, found) = (f.shape(x), f.shape(boxes));
        let &[count, 5] = &*found else { return Err(f.wrong(format!("boxes of extents {found}"))) };
        if shape.rank() != 4 || f.dtype(x) != DType::F32 || f.dtype(boxes) != DType::F32 {
            return Err(f.wrong(format!("input {shape} of type {}; f32 is expected", f.dtype(x))));
        }
        let pixels = Pixels::of(f, x)?;
        let image = f.slice(boxes, 1, 0, 1)?;
        let image = f.cast(image, DType::I64)?;
        for axis in 0..2 {
            f.bounded(self.pooled[axis].checked_mul(self.samples[axis]))?;
        }
        // Rows of the grid first: top and bottom are columns 2 and 4 of the boxes.
        let row = self.places(f, boxes, 0)?;
        let column = self.places(f, boxes, 1)?;
        let [high, wide] = self.pooled;
        let [down, across] = self.samples;
        let all = f.product(&[high, wide, down, across])?;
        f.bounded(Some(all))?;
        // (boxes, cells' rows, cells' columns, samples' rows, samples' columns).
        let row = f.reshape(row, &[count, high, 1, down, 1])?;
        let column = f.reshape(column, &[count, 1, wide, 1, across])?;
        let dims = [count, high, wide, down, across];
        let mut place = Vec::with_capacity(2);
        for part in [row, column] {
            let part = f.expand(part, &dims)?;
            place.push(f.reshape(part, &[count, all])?);
        }
        let taken = pixels.bilinear(f, image, [place[0], place[1]], BorderMode::Constant(0.0))?;
        let taken = f.reshape(taken, &[count, high * wide, down * across, shape[1]])?;
        let kind = if self.average { ReduceKind::Mean } else { ReduceKind::Max };
        let pooled = f.reduce(kind, taken, &[2])?;
        let pooled = f.reshape(pooled, &[count, high * wide, shape[1]])?;
        let pooled = f.transpose(pooled, &[0, 2, 1])?;
        let result = [count, shape[1], high, wide];
        let which = if self.average {
            let zero = f.integer(0, DType::I32);
            f.expand(zero, &result)?
        } else {
            let op = crate::ops::ArgReduce {
                kind: ReduceKind::Max,
                axis: 2,
                keep_dims: false,
                last: false,
                dtype: DType::I32,
            };
            let which = f.op(crate::Op::ArgReduce(op), &[taken])?;
            let which = f.transpose(which, &[0, 2, 1])?;
            f.reshape(which, &result)?
        };
        Ok(vec![f.reshape(pooled, &result)?, which])
    }

    /// Where samples lie along an axis, as (boxes, cells · samples).
    fn places(self, f: &mut Scope<'_, '_>, boxes: ValueId, axis: usize) -> Result<ValueId, Error> {
        let mut edges = Vec::with_capacity(2);
        for column in [2 - axis as i64, 4 - axis as i64] {
            let edge = f.slice(boxes, 1, column, column + 1)?;
            let edge = f.mul_number(edge, f64::from(self.scale))?;
            edges.push(f.add_number(edge, -f64::from(self.offset))?);
        }
        let span = f.sub(edges[1], edges[0])?;
        let span = f.unary(UnaryKind::Relu, span)?;
        let (cells, samples) = (self.pooled[axis], self.samples[axis]);
        let cell = f.scalar(cells as f64, DType::F32);
        let cell = f.div(span, cell)?;
        let f32s: Vec<f64> = (0..cells * samples)
            .map(|at| (at / samples) as f64 + f64::from(1.0 / samples as f32) * ((at % samples) as f64 + 0.5))
            .collect();
        let inner = f.floats(&f32s, DType::F32);
        let offsets = f.mul(cell, inner)?;
        f.add(edges[0], offsets)
    }
}

/// The largest element, or the mean, of every cell of a grid over boxes whose edges are rounded; operand 2 is the grid's rows and
/// columns. Results: the values, and where each maximum stands in its plane.
pub(in super::super) fn roi_pooling(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::ROI_POOLING)?;
    let average = match params.u32(0, 0)? {
        0 => false,
        1 => true,
        mode => return Err(node.unsupported(format!("mode {mode}"))),
    };
    let scale = params.f32(1, 1.0)?;
    let inputs = node.inputs.clone();
    let results = node.functions(&inputs, 2, move |f| cells(f, average, scale))?;
    node.finish(1, results[1])?;
    Ok(results[0])
}

/// Each cell's mask over rows and over columns, by which sums and maxima are taken.
fn cells(f: &mut Scope<'_, '_>, average: bool, scale: f32) -> Result<Vec<ValueId>, Error> {
    let (x, boxes) = (f.input(0)?, f.input(1)?);
    let (shape, found) = (f.shape(x), f.shape(boxes));
    let requested = f.ints(2)?.unwrap_or_default();
    let (&[count, 5], &[rows, columns]) = (&*found, &*requested) else {
        return Err(f.wrong(format!("boxes of extents {found} and a grid of {} numbers", requested.len())));
    };
    let (rows, columns) = (usize::try_from(rows).unwrap_or(0), usize::try_from(columns).unwrap_or(0));
    f.bounded(rows.checked_mul(columns))?;
    if shape.rank() != 4 || f.dtype(x) != DType::F32 || rows == 0 || columns == 0 {
        return Err(f.wrong(format!("input {shape} of type {}, a grid of {rows} × {columns}", f.dtype(x))));
    }
    let image = f.slice(boxes, 1, 0, 1)?;
    let image = f.cast(image, DType::I64)?;
    let image = f.reshape(image, &[count])?;
    let planes = f.gather(x, 0, image)?;
    // (boxes, channels, H, W) → by columns → by rows.
    let lowest = f.scalar(f64::from(f32::MIN), DType::F32);
    let zero = f.scalar(0.0, DType::F32);
    let mut value = planes;
    let mut empty = None;
    let mut counts = None;
    for (axis, cells) in [(1, columns), (0, rows)] {
        let extent = shape[2 + axis];
        let mask = cell_mask(f, boxes, scale, axis, cells, extent)?;
        // (boxes, 1, cells, extent) over (boxes, channels · rest, 1, extent).
        let ahead = f.product(&[shape[1], if axis == 1 { shape[2] } else { columns }])?;
        let turned = if axis == 1 { value } else { f.transpose(value, &[0, 1, 3, 2])? };
        let lines = f.reshape(turned, &[count, ahead, 1, extent])?;
        let masked = f.choose(mask, lines, if average { zero } else { lowest })?;
        let kind = if average { ReduceKind::Sum } else { ReduceKind::Max };
        let reduced = f.reduce(kind, masked, &[3])?;
        value = if axis == 1 {
            f.reshape(reduced, &[count, shape[1], shape[2], columns])?
        } else {
            let lines = f.reshape(reduced, &[count, shape[1], columns, rows])?;
            f.transpose(lines, &[0, 1, 3, 2])?
        };
        let ones = f.cast(mask, DType::F32)?;
        let ones = f.reduce(ReduceKind::Sum, ones, &[3])?;
        let dims = if axis == 1 { [count, 1, 1, columns] } else { [count, 1, rows, 1] };
        let ones = f.reshape(ones, &dims)?;
        counts = Some(match counts {
            Some(other) => f.mul(other, ones)?,
            None => ones,
        });
        empty = counts;
    }
    let (Some(counts), Some(empty)) = (counts, empty) else { return Err(f.wrong("no cells")) };
    let none = f.compare(BinaryKind::Equal, empty, 0.0)?;
    let value = if average {
        let one = f.scalar(1.0, DType::F32);
        let divisor = f.binary(BinaryKind::Max, counts, one)?;
        f.div(value, divisor)?
    } else {
        value
    };
    let value = f.choose(none, zero, value)?;
    let minus = f.integer(-1, DType::I32);
    let dims = [count, shape[1], rows, columns];
    Ok(vec![f.expand(value, &dims)?, f.expand(minus, &dims)?])
}

/// Which elements along an axis belong to each cell of each box, as (boxes, 1, cells, extent).
fn cell_mask(
    f: &mut Scope<'_, '_>,
    boxes: ValueId,
    scale: f32,
    axis: usize,
    cells: usize,
    extent: usize,
) -> Result<ValueId, Error> {
    let mut edges = Vec::with_capacity(2);
    for column in [2 - axis as i64, 4 - axis as i64] {
        let edge = f.slice(boxes, 1, column, column + 1)?;
        let edge = f.mul_number(edge, f64::from(scale))?;
        edges.push(f.unary(UnaryKind::RoundHalfAway, edge)?);
    }
    let span = f.sub(edges[1], edges[0])?;
    let span = f.add_number(span, 1.0)?;
    let one = f.scalar(1.0, DType::F32);
    let span = f.binary(BinaryKind::Max, span, one)?;
    let divisor = f.scalar(cells as f64, DType::F32);
    let size = f.div(span, divisor)?;
    let count = f.shape(boxes)[0];
    let mut bounds = Vec::with_capacity(2);
    for (step, kind) in [(0.0, UnaryKind::Floor), (1.0, UnaryKind::Ceil)] {
        let numbers: Vec<f64> = (0..cells).map(|cell| cell as f64 + step).collect();
        let numbers = f.floats(&numbers, DType::F32);
        let bound = f.mul(size, numbers)?;
        let bound = f.unary(kind, bound)?;
        let bound = f.add(bound, edges[0])?;
        let bound = f.unary(UnaryKind::Clip([0.0, extent as f32]), bound)?;
        bounds.push(f.reshape(bound, &[count, 1, cells, 1])?);
    }
    let extent = f.bounded(Some(extent))?;
    let places: Vec<f64> = (0..extent).map(|place| place as f64).collect();
    let places = f.floats(&places, DType::F32);
    let low = f.binary(BinaryKind::GreaterOrEqual, places, bounds[0])?;
    let high = f.binary(BinaryKind::Less, places, bounds[1])?;
    f.binary(BinaryKind::And, low, high)
}

/// A convolution whose taps stand beside their places: operand 2 (N, groups · taps · 2, rows, columns) says by how many rows, then
/// columns, and operand 3 (N, groups · taps, rows, columns) how much each counts.
pub(in super::super) fn deformable_conv(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONVOLUTION)?;
    if params.u32(0, 0)? != 0 || params.u32(8, 0)? != 0 {
        return Err(node.unsupported("a window the other way round, or images that are not in planes"));
    }
    let grouped = params.u32(7, 0)? == 1;
    let (pad, stride, dilation) = (params.pair(1, 0)?, params.pair(3, 1)?, params.pair(5, 1)?);
    if stride.contains(&0) || dilation.contains(&0) {
        return Err(node.unsupported("a step or dilation of 0"));
    }
    let inputs = node.inputs.clone();
    node.function(&inputs, &[], move |f| {
        let (x, weights, offsets, factors) = (f.input(0)?, f.input(1)?, f.input(2)?, f.input(3)?);
        let (shape, own, moved) = (f.shape(x), f.shape(weights), f.shape(offsets));
        let own = if grouped { own.to_vec() } else { [&[1], &*own].concat() };
        let (&[n, channels, _, _], &[groups, outputs, inputs, kh, kw], &[_, both, rows, columns]) =
            (&*shape, own.as_slice(), &*moved)
        else {
            return Err(f.wrong(format!("weights {} and offsets {moved} for {shape}", f.shape(weights))));
        };
        let (taps, places) = (f.product(&[kh, kw])?, f.product(&[rows, columns])?);
        f.product(&[n, channels, taps, 2])?;
        let sets = both.checked_div(2 * taps).filter(|sets| *sets > 0).unwrap_or(1);
        let fits = groups.checked_mul(inputs) == Some(channels)
            && channels.is_multiple_of(sets)
            && moved[..2] == [n, 2 * taps * sets]
            && f.shape(factors)[..] == [n, taps * sets, rows, columns];
        if !fits || f.dtype(x) != DType::F32 {
            return Err(f.wrong(format!(
                "weights {}, offsets {moved} and factors {} for {shape} of type {}",
                f.shape(weights),
                f.shape(factors),
                f.dtype(x)
            )));
        }
        let samples = f.bounded(taps.checked_mul(places))?;
        let offsets = f.reshape(offsets, &[n * sets, taps, 2, places])?;
        let mut place = Vec::with_capacity(2);
        for axis in 0..2 {
            let stands: Vec<f64> = (0..samples)
                .map(|sample| {
                    let (tap, at) = (sample / places, sample % places);
                    let (tap, at) =
                        if axis == 0 { (tap / kw, at / columns) } else { (tap % kw, at % columns) };
                    (at * stride[axis] + tap * dilation[axis]) as f64 - pad[axis] as f64
                })
                .collect();
            let stands = f.floats(&stands, DType::F32);
            let beside = f.slice(offsets, 2, axis as i64, axis as i64 + 1)?;
            let beside = f.reshape(beside, &[n * sets, samples])?;
            place.push(f.add(beside, stands)?);
        }
        let parts = f.reshape(x, &[n * sets, channels / sets, shape[2], shape[3]])?;
        let pixels = Pixels::of(f, parts)?;
        let image = images(f, n * sets)?;
        let taken = pixels.bilinear(f, image, [place[0], place[1]], BorderMode::Constant(0.0))?;
        let factors = f.reshape(factors, &[n * sets, samples, 1])?;
        let taken = f.mul(taken, factors)?;
        let planes = f.transpose(taken, &[0, 2, 1])?;
        let planes = f.reshape(planes, &[n, groups, inputs * taps, places])?;
        let weights = f.reshape(weights, &[1, groups, outputs, inputs * taps])?;
        let product = f.matmul(weights, planes)?;
        f.reshape(product, &[n, groups * outputs, rows, columns])
    })
}
