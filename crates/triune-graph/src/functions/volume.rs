//! Windows over one to three axes in terms of those over two: convolutions of volumes, transposed ones, and sums.

use triune_tensor::{DType, Shape, text::List};

use super::Scope;
use crate::{
    Constant, Error, Op, ValueId,
    ops::{AutoPad, Axis, BinaryKind, Conv, Epilogue, Pad, PadMode, Pool, PoolKind},
};

/// Most elements of a window in depth: each is an operator of its own.
const MOST_TAPS: usize = 256;

/// Most phases of a transposed convolution of single channels that are operators of their own.
const MOST_KINDS: usize = 16;

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
    fn conv(
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
    fn few_points(
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

/// A transposed convolution along one axis, whose results come in turns of `stride` phases.
#[derive(Clone, Copy)]
struct Phases {
    extent: usize,
    kernel: usize,
    stride: usize,
    /// Results in front that are cut off; not below 0.
    cut: i64,
    out: usize,
}

impl Default for Phases {
    /// An axis of one element.
    fn default() -> Self {
        Self { extent: 1, kernel: 1, stride: 1, cut: 0, out: 1 }
    }
}

impl Phases {
    /// The window over the operand that makes every phase of the turns that are asked for: result turn·stride + phase is the sum
    /// over taps t of element turn − t times weight phase + t·stride.
    fn window(self) -> Axis {
        let (stride, kernel) = (self.stride as i64, self.kernel.div_ceil(self.stride));
        let (first, last) = (self.cut / stride, (self.cut + self.out as i64 - 1) / stride);
        Axis {
            extent: self.extent,
            kernel,
            stride: 1,
            dilation: 1,
            before: kernel as i64 - 1 - first,
            behind: last + 1 - self.extent as i64,
            out: (last - first + 1) as usize,
        }
    }

    /// The same window for every `stride`th result from `place` on alone, with the phase that makes these, and how many of its first
    /// taps no weight belongs to.
    fn every(self, place: usize) -> (usize, Axis, usize) {
        let from = self.cut as usize + place;
        let (phase, taps) = (from % self.stride, self.kernel.div_ceil(self.stride));
        let own = (self.kernel - phase).div_ceil(self.stride);
        let before = own as i64 - 1 - (from / self.stride) as i64;
        let axis = Axis { kernel: own, before, out: self.out.div_ceil(self.stride), ..self.window() };
        (phase, axis, taps - own)
    }
}

/// Whether as many convolutions as there are phases take less time than one with all of them as channels, where some of the taps have
/// no weight: by the vectors of results, each of which has a product for every tap.
fn gains_by_phase([rows, columns]: [Phases; 2], made: usize) -> bool {
    const LANES: usize = 16;
    let kinds = rows.stride * columns.stride;
    let taps = rows.kernel.div_ceil(rows.stride) * columns.kernel.div_ceil(columns.stride);
    let together = (kinds * made).div_ceil(LANES) * taps;
    let apart = made.div_ceil(LANES) * rows.kernel * columns.kernel;
    kinds <= MOST_KINDS
        && rows.kernel >= rows.stride
        && columns.kernel >= columns.stride
        && 5 * apart <= 4 * together
}

/// A transposed convolution. Over reals, of `stride` neighbouring results each is made by its own taps: one convolution makes them
/// as channels, which then take their places. Over integers, and where the taps are dilated, one convolution over the operand with
/// zeros between its elements, the weights turned round.
#[derive(Clone)]
pub(crate) struct Transposed {
    pub(crate) attributes: Attributes,
    /// Elements that come behind the result of the smallest operand with it, per axis.
    pub(crate) more: Option<Vec<usize>>,
    /// The result's extents, where they are asked for.
    pub(crate) requested: Option<Vec<usize>>,
    pub(crate) groups: usize,
}

impl Transposed {
    /// Over x (N, C, …) with weights (C, M/groups, …).
    pub(crate) fn over(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, Error> {
        let groups = self.groups;
        let (shape, taps) = (f.shape(x), f.shape(weights));
        let extents = spatial(f, &shape)?;
        let axes = extents.len();
        if taps.rank() != shape.rank() || taps[0] != shape[1] || !taps[0].is_multiple_of(self.groups) {
            return Err(f.wrong(format!("weights {taps} in {groups} groups do not fit the input {shape}")));
        }
        let wrong = || f.wrong(format!("the window's attributes do not fit {axes} axes"));
        let lists = [&self.attributes.strides, &self.attributes.dilations, &self.more].map(Option::as_ref);
        if lists.into_iter().flatten().any(|list| list.len() != axes)
            || self.attributes.pads.as_ref().is_some_and(|pads| pads.len() != 2 * axes)
            || self.attributes.kernel.as_ref().is_some_and(|kernel| kernel[..] != taps[2..])
            || taps[2..].contains(&0)
            || !(1..=3).contains(&axes)
        {
            return Err(wrong());
        }
        let requested = match &self.requested {
            // The batch and the channels may stand before the extents.
            Some(requested) if requested.len() >= axes => Some(&requested[requested.len() - axes..]),
            Some(_) => return Err(wrong()),
            None => None,
        };
        let mut window = Window { axes: [Axis::ONE; 3], own: axes };
        let mut strides = Vec::with_capacity(axes);
        let mut phases = [Phases::default(); 3];
        for index in 0..axes {
            let stride = self.attributes.strides.as_ref().map_or(1, |strides| strides[index]);
            let dilation = self.attributes.dilations.as_ref().map_or(1, |dilations| dilations[index]);
            let more = self.more.as_ref().map_or(0, |more| more[index]) as i64;
            let (extent, kernel) = (extents[index], taps[2 + index]);
            if stride == 0 || dilation == 0 {
                return Err(wrong());
            }
            let reach = (kernel - 1).checked_mul(dilation).ok_or_else(wrong)? as i64;
            let full = ((extent - 1).checked_mul(stride).ok_or_else(wrong)? as i64) + reach + 1 + more;
            let same = matches!(self.attributes.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
            let asked = match requested {
                Some(requested) => Some(requested[index] as i64),
                None if same => Some((extent * stride) as i64),
                None => None,
            };
            let (before, behind) = match asked {
                Some(asked) => {
                    let total = (full - asked).max(0);
                    let small = total / 2;
                    let (before, behind) = match self.attributes.auto_pad {
                        AutoPad::SameUpper => (small, total - small),
                        _ => (total - small, small),
                    };
                    // More than there is comes behind.
                    (before, behind - (asked - full).max(0))
                }
                None if self.attributes.auto_pad == AutoPad::Valid => (0, 0),
                None => self
                    .attributes
                    .pads
                    .as_ref()
                    .map_or((0, 0), |pads| (pads[index] as i64, pads[index + axes] as i64)),
            };
            strides.push(stride);
            let out = usize::try_from(full - before - behind).ok().filter(|out| *out > 0);
            let out = out.ok_or_else(wrong)?;
            phases[3 - axes + index] = Phases { extent, kernel, stride, cut: before, out };
            window.axes[3 - axes + index] = Axis {
                extent: extent * stride,
                kernel,
                stride: 1,
                dilation,
                before: reach - before,
                // The last element has no zeros behind it.
                behind: reach - behind + more - (stride as i64 - 1),
                out,
            };
        }
        let over_reals = f.dtype(x).is_float() && !f.is_dequantized(x);
        // One element, and no border: every tap is a result.
        let is_point = extents.iter().all(|&extent| extent == 1)
            && (phases[3 - axes..].iter().zip(&taps[2..])).all(|(own, &tap)| own.cut == 0 && own.out == tap)
            && window.axes.iter().all(|axis| axis.dilation == 1);
        if is_point && over_reals && groups == 1 {
            let columns = f.product(&taps[1..])?;
            let (rows, matrix) =
                (f.reshape(x, &[shape[0], shape[1]])?, f.reshape(weights, &[taps[0], columns])?);
            let product = f.matmul(rows, matrix)?;
            let result = f.reshape(product, &[&[shape[0]], &taps[1..]].concat())?;
            let Some(bias) = bias else { return Ok(result) };
            let mut each = vec![1; axes + 1];
            each[0] = taps[1];
            let bias = f.reshape(bias, &each)?;
            return f.add(result, bias);
        }
        let [depth, planes @ ..] = phases;
        let apart = planes.iter().any(|own| own.stride > 1)
            && planes.iter().all(|own| own.cut >= 0)
            && window.axes[1..].iter().all(|axis| axis.dilation == 1);
        if apart && over_reals {
            let x = if depth.stride > 1 { with_zeros(f, x, 2, depth.stride)? } else { x };
            window.axes[1..].copy_from_slice(&planes.map(Phases::window));
            return self.by_phases(f, &window, planes, x, weights, bias);
        }
        let mut spread = x;
        for (index, &stride) in strides.iter().enumerate() {
            spread = with_zeros(f, spread, 2 + index, stride)?;
        }
        let weights = turned(f, weights, self.groups)?;
        window.conv(f, spread, weights, bias, self.groups)
    }

    /// One convolution with a channel for each phase of rows and columns, and these put where they belong. `window` is over the
    /// operand as it is.
    fn by_phases(
        &self,
        f: &mut Scope<'_, '_>,
        window: &Window,
        [rows, columns]: [Phases; 2],
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, Error> {
        let (groups, shape) = (self.groups, f.shape(weights));
        let (own, made) = (shape[0] / groups, shape[1]);
        let phases = [rows.stride, columns.stride].into_iter().try_fold(made, usize::checked_mul);
        let channels = f.bounded(phases.and_then(|phases| phases.checked_mul(groups)))?;
        let [depth, taps @ ..] = window.axes.map(|axis| axis.kernel);
        // As many taps for every phase, some of them 0.
        let whole = [(rows, taps[0]), (columns, taps[1])].map(|(own, taps)| own.stride * taps);
        let mut turned = f.reshape(weights, &[shape[0], made, depth, rows.kernel, columns.kernel])?;
        if depth > 1 {
            turned = f.slice_by(turned, 2, -1, i64::MIN, -1)?;
        }
        let behind = [whole[0] - rows.kernel, whole[1] - columns.kernel].map(|zeros| zeros as i64);
        if behind != [0, 0] {
            let pads = f.list(&[0, 0, 0, 0, 0, 0, 0, 0, behind[0], behind[1]]);
            turned = f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[turned, pads])?;
        }
        let split = [groups, own, made, depth, taps[0], rows.stride, taps[1], columns.stride];
        turned = f.reshape(turned, &split)?;
        for (axis, taps) in [(4, taps[0]), (6, taps[1])] {
            if taps > 1 {
                turned = f.slice_by(turned, axis, -1, i64::MIN, -1)?;
            }
        }
        // The phases to the front, then what is made before what is read: one by one, since a copy has six axes.
        let (window_rows, window_columns) = (own * made * depth * taps[0], taps[1] * columns.stride);
        turned = f.reshape(turned, &[groups, window_rows, rows.stride, window_columns])?;
        turned = f.transpose(turned, &[0, 2, 1, 3])?;
        turned = f.reshape(turned, &[groups * rows.stride, window_rows * taps[1], columns.stride])?;
        turned = f.transpose(turned, &[0, 2, 1])?;
        let phases = groups * rows.stride * columns.stride;
        let [images, kinds] = [f.shape(x)[0], rows.stride * columns.stride];
        let [slices, height, width] = window.axes.map(|axis| axis.out);
        if groups > 1 && own == 1 && made == 1 && slices == 1 && depth == 1 && kinds <= MOST_KINDS {
            // A channel of its own for each: as many convolutions with one result per channel are faster than one with several.
            turned = f.reshape(turned, &[groups, kinds, taps[0], taps[1]])?;
            let mut results = Vec::with_capacity(kinds);
            for kind in 0..kinds {
                let own = f.slice(turned, 1, kind as i64, kind as i64 + 1)?;
                let own = f.reshape(own, &[groups, 1, 1, taps[0], taps[1]])?;
                let result = window.conv(f, x, own, bias, groups)?;
                results.push(f.reshape(result, &[images, groups, height, width])?);
            }
            let result = f.concat(&results, 1)?;
            let parts = [images, rows.stride, columns.stride, groups, height, width];
            let result = f.reshape(result, &parts)?;
            let result = f.transpose(result, &[0, 3, 4, 1, 5, 2])?;
            return cut_out(f, result, window, [rows, columns], [images, groups, 1]);
        }
        turned = f.reshape(turned, &[phases, own, made, depth * taps[0] * taps[1]])?;
        turned = f.transpose(turned, &[0, 2, 1, 3])?;
        turned = f.reshape(turned, &[channels, own, depth, taps[0], taps[1]])?;
        if groups == 1 && slices == 1 && depth == 1 && gains_by_phase([rows, columns], made) {
            let mut results = Vec::with_capacity(kinds);
            for kind in 0..kinds {
                let own = [rows.every(kind / columns.stride), columns.every(kind % columns.stride)];
                let first = ((own[0].0 * columns.stride + own[1].0) * made) as i64;
                let mut weights = f.slice(turned, 0, first, first + made as i64)?;
                let mut axes = window.axes;
                for (index, (_, axis, empty)) in own.into_iter().enumerate() {
                    weights = f.slice(weights, 3 + index, empty as i64, taps[index] as i64)?;
                    axes[1 + index] = axis;
                }
                let window = Window { axes, own: window.own };
                let result = window.conv(f, x, weights, bias, 1)?;
                let [height, width] = [axes[1].out, axes[2].out];
                results.push(f.reshape(result, &[images, made, height, width])?);
            }
            let result = f.concat(&results, 1)?;
            let [height, width] = [f.shape(result)[2], f.shape(result)[3]];
            let parts = [images, rows.stride, columns.stride, made, height, width];
            let result = f.reshape(result, &parts)?;
            let result = f.transpose(result, &[0, 3, 4, 1, 5, 2])?;
            let mut axes = window.axes;
            (axes[1].out, axes[2].out) = (height, width);
            let planes = [rows, columns].map(|own| Phases { cut: 0, ..own });
            return cut_out(f, result, &Window { axes, own: window.own }, planes, [images, made, 1]);
        }
        let bias = match bias {
            Some(bias) => {
                let each = f.reshape(bias, &[groups, 1, made])?;
                let spread = f.expand(each, &[groups, rows.stride * columns.stride, made])?;
                Some(f.reshape(spread, &[channels])?)
            }
            None => None,
        };
        let result = match window.few_points(f, x, turned, bias, groups)? {
            Some(result) => result,
            None => window.conv(f, x, turned, bias, groups)?,
        };
        // (image and group, row's phase, column's phase, channel and depth, rows, columns): each phase goes behind its axis.
        let images = f.shape(result)[0];
        let [slices, height, width] = window.axes.map(|axis| axis.out);
        let result = if slices == 1 && (groups == 1 || images == 1) {
            let parts = [images * groups, rows.stride, columns.stride, made, height, width];
            let result = f.reshape(result, &parts)?;
            f.transpose(result, &[0, 3, 4, 1, 5, 2])?
        } else {
            // In two steps: a copy has six axes, and images and groups, channels and depth need not lie side by side.
            let parts = [images * groups * rows.stride, columns.stride, made * slices * height, width];
            let result = f.reshape(result, &parts)?;
            let result = f.transpose(result, &[0, 2, 3, 1])?;
            let parts = [images * groups, rows.stride, made * slices, height, width * columns.stride];
            let result = f.reshape(result, &parts)?;
            f.transpose(result, &[0, 2, 3, 1, 4])?
        };
        cut_out(f, result, window, [rows, columns], [images, groups * made, slices])
    }
}

/// What is asked for of the results of all phases, whose axes lie one within the other.
fn cut_out(
    f: &mut Scope<'_, '_>,
    phases: ValueId,
    window: &Window,
    planes: [Phases; 2],
    [images, channels, slices]: [usize; 3],
) -> Result<ValueId, Error> {
    let [_, height, width] = window.axes.map(|axis| axis.out);
    let dims = [images, channels, slices, height * planes[0].stride, width * planes[1].stride];
    let mut result = f.reshape(phases, &dims)?;
    for (axis, own) in [(3, planes[0]), (4, planes[1])] {
        let skipped = own.cut as usize % own.stride;
        if dims[axis] != own.out {
            result = f.slice(result, axis, skipped as i64, (skipped + own.out) as i64)?;
        }
    }
    let dims = f.shape(result);
    f.reshape(result, &[&dims[..2], &dims[5 - window.own..]].concat())
}

/// The operand with `stride` − 1 zeros behind each element along an axis.
pub(crate) fn with_zeros(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    stride: usize,
) -> Result<ValueId, Error> {
    if stride == 1 {
        return Ok(x);
    }
    let mut dims = f.shape(x).to_vec();
    let (before, behind) = (dims[..=axis].iter().product(), dims[axis + 1..].iter().product());
    let rows = f.reshape(x, &[before, 1, behind])?;
    let pads = f.list(&[0, 0, 0, 0, stride as i64 - 1, 0]);
    let rows = f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[rows, pads])?;
    dims[axis] = dims[axis].checked_mul(stride).ok_or_else(|| f.wrong(format!("a stride of {stride}")))?;
    f.reshape(rows, &dims)
}

/// Weights (C, M/groups, …) as (M, C/groups, …), their taps the other way round.
fn turned(f: &mut Scope<'_, '_>, weights: ValueId, groups: usize) -> Result<ValueId, Error> {
    let shape = f.shape(weights);
    let mut turned = weights;
    for axis in 2..shape.rank() {
        if shape[axis] > 1 {
            turned = f.slice_by(turned, axis, -1, i64::MIN, -1)?;
        }
    }
    let taps: usize = shape[2..].iter().product();
    turned = f.reshape(turned, &[groups, shape[0] / groups, shape[1], taps])?;
    turned = f.transpose(turned, &[0, 2, 1, 3])?;
    let dims = [&[groups * shape[1], shape[0] / groups], &shape[2..]].concat();
    f.reshape(turned, &dims)
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
