//! Windows over one to three axes in terms of those over two: convolutions of volumes, transposed ones, and sums.

use triune_tensor::{DType, Shape, text::List};

use super::Scope;
use crate::{
    Constant, Error, Op, ValueId,
    ops::{AutoPad, Axis, BinaryKind, Conv, Epilogue, Pad, PadMode, Pool, PoolKind},
};

/// Most elements of a window in depth: each is an operator of its own.
const MOST_TAPS: usize = 256;

/// A window's attributes for any number of axes.
#[derive(Clone, Default)]
pub(crate) struct Attributes {
    pub(crate) kernel: Option<Vec<usize>>,
    pub(crate) strides: Option<Vec<usize>>,
    pub(crate) dilations: Option<Vec<usize>>,
    pub(crate) pads: Option<Vec<usize>>,
    pub(crate) auto_pad: AutoPad,
    pub(crate) ceil_mode: bool,
}

impl Attributes {
    /// Whether a border is asked for.
    pub(crate) fn is_padded(&self) -> bool {
        !matches!(self.auto_pad, AutoPad::Explicit | AutoPad::Valid)
            || self.pads.as_ref().is_some_and(|pads| pads.iter().any(|&pad| pad != 0))
    }

    /// The window over an operand of these extents, with a kernel of its own or of the weights.
    pub(crate) fn over(
        &self,
        f: &Scope<'_, '_>,
        extents: &[usize],
        weights: Option<&[usize]>,
    ) -> Result<Window, Error> {
        let axes = extents.len();
        let wrong = |name: &str| f.wrong(format!("attribute '{name}' does not fit {axes} axes"));
        let list = |list: &Option<Vec<usize>>, name: &str| match list {
            None => Ok(vec![1; axes]),
            Some(list) if list.len() == axes && !list.contains(&0) => Ok(list.clone()),
            Some(_) => Err(wrong(name)),
        };
        let kernel = match (&self.kernel, weights) {
            (Some(own), Some(weights)) if own != weights => return Err(wrong("kernel_shape")),
            (_, Some(weights)) => weights.to_vec(),
            (Some(_), None) => list(&self.kernel, "kernel_shape")?,
            (None, None) => return Err(wrong("kernel_shape")),
        };
        if !(1..=3).contains(&axes) || kernel.contains(&0) {
            return Err(f.wrong(format!("a window over {axes} axes; 1 to 3 are supported")));
        }
        let (strides, dilations) = (list(&self.strides, "strides")?, list(&self.dilations, "dilations")?);
        let pads = match &self.pads {
            Some(pads) if self.auto_pad == AutoPad::Explicit => {
                if pads.len() != 2 * axes {
                    return Err(wrong("pads"));
                }
                pads.clone()
            }
            _ => vec![0; 2 * axes],
        };
        let mut window = Window { axes: [Axis::ONE; 3], own: axes };
        for (index, axis) in window.axes[3 - axes..].iter_mut().enumerate() {
            *axis = Axis {
                extent: extents[index],
                kernel: kernel[index],
                stride: strides[index],
                dilation: dilations[index],
                before: pads[index] as i64,
                behind: pads[index + axes] as i64,
                out: 0,
            };
            if weights.is_none()
                && let Some(reason) = axis.same_over_steps(self.auto_pad)
            {
                return Err(f.wrong(reason));
            }
            let placed = axis.padded(self.auto_pad).and_then(|axis| axis.placed(self.ceil_mode));
            *axis = placed.ok_or_else(|| {
                f.wrong(format!("a window of {} does not fit {} elements", axis.kernel, axis.extent))
            })?;
            f.bounded(Some(axis.out))?;
        }
        Ok(window)
    }
}

/// A window over depth, rows and columns; the first ones have one element where the operand has fewer axes.
pub(crate) struct Window {
    pub(crate) axes: [Axis; 3],
    /// Axes that the operand has.
    pub(crate) own: usize,
}

impl Window {
    /// The operand as (N, C, depth, rows, columns) with its padding, as far as the window reaches.
    pub(crate) fn padded(&self, f: &mut Scope<'_, '_>, x: ValueId, value: f64) -> Result<ValueId, Error> {
        let shape = f.shape(x);
        let dims = [&shape[..2], &self.axes.map(|axis| axis.extent)].concat();
        let x = f.reshape(x, &dims)?;
        let amounts = self.axes.map(|axis| (axis.before, axis.span() - axis.before - axis.extent as i64));
        if amounts == [(0, 0); 3] {
            return Ok(x);
        }
        let (mut x, mut pads) = (x, vec![0; 10]);
        for (index, (before, behind)) in amounts.into_iter().enumerate() {
            // What goes, goes first.
            let extent = dims[2 + index] as i64;
            let [from, to] = [(-before).max(0), extent + behind.min(0)];
            let added = if (0..=extent).contains(&to) && from <= to && (from, to) != (0, extent) {
                x = f.slice_by(x, 2 + index, from, to, 1)?;
                (before.max(0), behind.max(0))
            } else {
                (before, behind)
            };
            (pads[2 + index], pads[7 + index]) = added;
        }
        if pads.iter().all(|&pad| pad == 0) {
            return Ok(x);
        }
        let pads = f.list(&pads);
        let value = f.scalar_like(value, x);
        f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads, value])
    }

    /// What a window over rows and columns makes of each slice of the depth, by `body`, put together by `join`.
    pub(crate) fn by_depth(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        join: BinaryKind,
        mut body: impl FnMut(&mut Scope<'_, '_>, ValueId, usize) -> Result<ValueId, Error>,
    ) -> Result<ValueId, Error> {
        let depth = self.axes[0];
        if depth.kernel > MOST_TAPS {
            return Err(f.unsupported(format!("a window of {} elements in depth", depth.kernel)));
        }
        let shape = f.shape(x);
        let mut total = None;
        for tap in 0..depth.kernel {
            let from = (tap * depth.dilation) as i64;
            let to = from + ((depth.out - 1) * depth.stride) as i64 + 1;
            let slices = f.slice_by(x, 2, from, to, depth.stride as i64)?;
            let slices = f.transpose(slices, &[0, 2, 1, 3, 4])?;
            let images = f.reshape(slices, &[shape[0] * depth.out, shape[1], shape[3], shape[4]])?;
            let result = body(f, images, tap)?;
            total = Some(match total {
                Some(total) => f.binary(join, total, result)?,
                None => result,
            });
        }
        let images = total.ok_or_else(|| f.wrong("a window without taps"))?;
        let channels = f.shape(images)[1];
        let [_, rows, columns] = self.axes.map(|axis| axis.out);
        let volumes = f.reshape(images, &[shape[0], depth.out, channels, rows, columns])?;
        let volumes = f.transpose(volumes, &[0, 2, 1, 3, 4])?;
        self.unlifted(f, volumes)
    }

    /// The result with as many axes as the operand has.
    fn unlifted(&self, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
        let shape = f.shape(x);
        let outs = self.axes.map(|axis| axis.out);
        let dims = [&shape[..2], &outs[3 - self.own..]].concat();
        f.reshape(x, &dims)
    }

    /// The convolution with weights (O, I/groups, …).
    pub(super) fn conv(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
        groups: usize,
    ) -> Result<ValueId, Error> {
        let x = self.padded(f, x, 0.0)?;
        let shape = f.shape(weights);
        let dims = [&shape[..2], &self.axes.map(|axis| axis.kernel)].concat();
        let weights = f.reshape(weights, &dims)?;
        let [depth, rows, columns] = self.axes;
        let op = Conv {
            kernel: None,
            stride: [rows.stride, columns.stride],
            dilation: [rows.dilation, columns.dilation],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            groups,
            epilogue: Epilogue::default(),
        };
        let taps = [dims[0], dims[1], rows.kernel, columns.kernel];
        if depth.kernel == 1 && depth.extent == 1 {
            let padded = f.shape(x);
            let image = f.reshape(x, &[padded[0], padded[1], padded[3], padded[4]])?;
            let weights = f.reshape(weights, &taps)?;
            let mut operands = vec![Some(image), Some(weights)];
            operands.extend(bias.map(Some));
            let result = f.ops(Op::Conv(Box::new(op)), &operands, 1)?[0];
            return self.unlifted(f, result);
        }
        self.by_depth(f, x, BinaryKind::Add, |f, images, tap| {
            let own = f.slice(weights, 2, tap as i64, tap as i64 + 1)?;
            let own = f.reshape(own, &taps)?;
            let mut operands = vec![Some(images), Some(own)];
            operands.extend(bias.filter(|_| tap == 0).map(Some));
            Ok(f.ops(Op::Conv(Box::new(op.clone())), &operands, 1)?[0])
        })
    }

    /// The convolution of single elements into a few channels, which is a product with the matrix of weights: planes stay what they
    /// are, where channels side by side would fill no vector.
    pub(super) fn few_points(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
        groups: usize,
    ) -> Result<Option<ValueId>, Error> {
        const FEW: usize = 8;
        let (shape, taps) = (f.shape(x), f.shape(weights));
        let single = |axis: &Axis| axis.kernel == 1 && axis.before == 0 && axis.out == axis.extent;
        if groups != 1 || taps[0] > FEW || !self.axes.iter().all(single) || f.dtype(x) != DType::F32 {
            return Ok(None);
        }
        let outs = self.axes.map(|axis| axis.out);
        let places: usize = outs.iter().product();
        let rows = f.reshape(x, &[shape[0], shape[1], places])?;
        let matrix = f.reshape(weights, &[taps[0], taps[1]])?;
        let mut y = f.matmul(matrix, rows)?;
        if let Some(bias) = bias {
            let bias = f.reshape(bias, &[taps[0], 1])?;
            y = f.add(y, bias)?;
        }
        let dims = [&[shape[0], taps[0]], &outs[3 - self.own..]].concat();
        Ok(Some(f.reshape(y, &dims)?))
    }

    /// The sum of all elements under the window; 0 in the padding.
    pub(crate) fn sums(&self, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
        let x = self.padded(f, x, 0.0)?;
        let area = (self.axes[1].kernel * self.axes[2].kernel) as f64;
        let pool = self.pool(PoolKind::Average { count_include_pad: true });
        self.by_depth(f, x, BinaryKind::Add, |f, images, _| {
            let means = f.op(Op::Pool(Box::new(pool.clone())), &[images])?;
            f.mul_number(means, area)
        })
    }

    /// The largest element under the window of an operand with its padding: over rows and columns of all slices, each a channel,
    /// then over the depth, where a slice is a row.
    pub(crate) fn largest(&self, f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
        let shape = f.shape(x);
        let [depth, rows, columns] = self.axes;
        let mut y = f.reshape(x, &[shape[0], shape[1] * shape[2], shape[3], shape[4]])?;
        y = f.op(Op::Pool(Box::new(self.pool(PoolKind::Max))), &[y])?;
        if (depth.kernel, depth.stride) != (1, 1) {
            let pool = Pool {
                kernel: [depth.kernel, 1],
                stride: [depth.stride, 1],
                dilation: [depth.dilation, 1],
                ..self.pool(PoolKind::Max)
            };
            y = f.reshape(y, &[shape[0], shape[1], shape[2], rows.out * columns.out])?;
            y = f.op(Op::Pool(Box::new(pool)), &[y])?;
        }
        y = f.reshape(y, &[shape[0], shape[1], depth.out, rows.out, columns.out])?;
        self.unlifted(f, y)
    }

    pub(crate) fn pool(&self, kind: PoolKind) -> Pool {
        let [_, rows, columns] = self.axes;
        Pool {
            kind,
            kernel: [rows.kernel, columns.kernel],
            stride: [rows.stride, columns.stride],
            dilation: [rows.dilation, columns.dilation],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        }
    }
}

/// The extents behind the batch, which may be of nothing, and the channels.
pub(crate) fn spatial<'s>(f: &Scope<'_, '_>, shape: &'s [usize]) -> Result<&'s [usize], Error> {
    match shape.split_at_checked(2) {
        Some((_, spatial)) if !spatial.is_empty() && !shape[1..].contains(&0) => Ok(spatial),
        _ => Err(f.wrong(format!("input {} is no image", List(shape)))),
    }
}

/// A convolution over one to three axes: operands x, weights and an optional bias.
pub(crate) fn conv(f: &mut Scope<'_, '_>, attributes: &Attributes, groups: usize) -> Result<ValueId, Error> {
    let (x, weights) = (f.input(0)?, f.input(1)?);
    let (shape, taps) = (f.shape(x), f.shape(weights));
    let fits = taps.rank() == shape.rank() && taps[1].checked_mul(groups) == Some(shape[1]);
    if !fits || !taps[0].is_multiple_of(groups) {
        return Err(f.wrong(format!("weights {taps} in {groups} groups do not fit the input {shape}")));
    }
    let window = attributes.over(f, spatial(f, &shape)?, Some(&taps[2..]))?;
    window.conv(f, x, weights, f.get(2), groups)
}

/// The least number of a type.
fn lowest(dtype: DType) -> f64 {
    dtype.int_range().map_or(f64::NEG_INFINITY, |(low, _)| low as f64)
}

/// The largest element under a window over one to three axes, and where it stands in the input, of equal ones the first.
pub(crate) fn max_with_places(
    f: &mut Scope<'_, '_>,
    attributes: &Attributes,
    column_major: bool,
) -> Result<Vec<ValueId>, Error> {
    let x = f.input(0)?;
    let shape = f.shape(x);
    let window = attributes.over(f, spatial(f, &shape)?, None)?;
    let padded = window.padded(f, x, lowest(f.dtype(x)))?;
    let outs = window.axes.map(|axis| axis.out);
    let extents = window.axes.map(|axis| axis.extent as i64);
    // From one element to the next, along each axis.
    let steps = if column_major {
        [1, extents[0], extents[0] * extents[1]]
    } else {
        [extents[1] * extents[2], extents[2], 1]
    };
    let (count, kernel) = (outs.iter().product::<usize>(), window.axes.map(|axis| axis.kernel));
    let taps = kernel.iter().try_fold(1_usize, |taps, &kernel| taps.checked_mul(kernel));
    let taps = taps.filter(|taps| *taps <= MOST_TAPS);
    let taps = taps.ok_or_else(|| f.unsupported(format!("indices of a window of {}", List(&kernel))))?;
    f.bounded(count.checked_mul(taps))?;
    // Places whose window has had an element so far; what stands on the padding is none.
    let mut met = vec![false; count];
    let mut best: Option<[ValueId; 2]> = None;
    for tap in 0..taps {
        let tap = [tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]];
        let mut part = padded;
        for (index, axis) in window.axes.iter().enumerate() {
            let from = (tap[index] * axis.dilation) as i64;
            let to = from + ((axis.out - 1) * axis.stride) as i64 + 1;
            part = f.slice_by(part, 2 + index, from, to, axis.stride as i64)?;
        }
        let (mut places, mut first) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (place, met) in met.iter_mut().enumerate() {
            let place = [place / (outs[1] * outs[2]), place / outs[2] % outs[1], place % outs[2]];
            let (mut at, mut inside) = (0, true);
            for (index, axis) in window.axes.iter().enumerate() {
                let own = axis.at(tap[index], place[index]);
                inside &= (0..extents[index]).contains(&own);
                at += own * steps[index];
            }
            places.push(at);
            first.push(u8::from(inside && !*met));
            *met |= inside;
        }
        let places = f.list(&places);
        let places = f.reshape(places, &outs)?;
        let Some([value, place]) = best else {
            best = Some([part, places]);
            continue;
        };
        let mut better = f.binary(BinaryKind::Greater, part, value)?;
        if first.contains(&1) {
            let first = Constant::new(DType::Bool, Shape::from(outs), first);
            let first = first.ok_or_else(|| f.unsupported("no constant"))?;
            let first = f.constant(first);
            better = f.binary(BinaryKind::Or, better, first)?;
        }
        best = Some([f.choose(better, part, value)?, f.choose(better, places, place)?]);
    }
    let [value, place] = best.ok_or_else(|| f.wrong("a window without taps"))?;
    let planes = shape[0].checked_mul(shape[1]);
    let planes = f.bounded(planes)? as i64;
    let area: i64 = extents.iter().product();
    let planes: Vec<i64> = (0..planes).map(|plane| plane * area).collect();
    let planes = f.list(&planes);
    let planes = f.reshape(planes, &[shape[0], shape[1], 1, 1, 1])?;
    let place = f.add(place, planes)?;
    Ok(vec![window.unlifted(f, value)?, window.unlifted(f, place)?])
}
