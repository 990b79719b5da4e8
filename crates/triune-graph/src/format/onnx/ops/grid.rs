//! Samples of images at places that are computed, and grids of such places.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, GatherElements, UnaryKind, Weigh},
};

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// What lies outside of the image.
#[derive(Clone, Copy, PartialEq)]
enum PaddingMode {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy)]
struct Sampling {
    mode: Mode,
    padding: PaddingMode,
    align_corners: bool,
}

/// An element that a sample is made of: its place along an axis, its factor, and whether it lies within the image.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    place: ValueId,
    factor: Option<ValueId>,
    inside: Option<ValueId>,
}

pub(super) fn grid_sample(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let modes = [
        ("nearest", Mode::Nearest),
        ("bilinear", Mode::Linear),
        ("linear", Mode::Linear),
        ("bicubic", Mode::Cubic),
        ("cubic", Mode::Cubic),
    ];
    let paddings = [
        ("zeros", PaddingMode::Zeros),
        ("border", PaddingMode::Border),
        ("reflection", PaddingMode::Reflection),
    ];
    let sampling = Sampling {
        mode: node.choice("mode", if node.since < 20 { "bilinear" } else { "linear" }, &modes)?,
        padding: node.choice("padding_mode", "zeros", &paddings)?,
        align_corners: node.flag("align_corners")?,
    };
    Ok(node.function(move |f| sampling.body(f)).into())
}

impl Sampling {
    fn body(self, f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
        let (x, grid) = (f.input(0)?, f.input(1)?);
        let (shape, places) = (f.shape(x), f.shape(grid));
        let wrong = || f.wrong(format!("places {places} in {shape}"));
        let axes = shape.rank().checked_sub(2).filter(|axes| (1..=3).contains(axes)).ok_or_else(wrong)?;
        let fits = places.rank() == shape.rank() && places[0] == shape[0] && places[axes + 1] == axes;
        if !fits || shape[1..].contains(&0) || self.mode == Mode::Cubic && axes != 2 {
            return Err(wrong());
        }
        let outs = &places[1..=axes];
        let count: usize = outs.iter().product();
        let dtype = f.dtype(x);
        let area: usize = shape[2..].iter().product();
        let pixels = f.reshape(x, &[shape[0], shape[1], area])?;
        // A grid names the last axis first.
        let mut taps = Vec::with_capacity(axes);
        for axis in 0..axes {
            let column = (axes - 1 - axis) as i64;
            let at = f.slice(grid, axes + 1, column, column + 1)?;
            let at = f.reshape(at, &[shape[0], 1, count])?;
            let at = f.cast(at, DType::F32)?;
            taps.push(self.taps(f, at, shape[2 + axis])?);
        }
        let total = sample_all(f, pixels, &taps, &shape, count)?;
        let total = f.cast(total, dtype)?;
        f.reshape(total, &[&shape[..2], outs].concat())
    }

    /// The elements along an axis of `extent` that samples are made of, places being −1 to 1.
    fn taps(self, f: &mut Scope<'_, '_>, at: ValueId, extent: usize) -> Result<Vec<Tap>, Error> {
        let length = extent as f64;
        let mut x = f.add_number(at, 1.0)?;
        if self.align_corners {
            x = f.mul_number(x, (length - 1.0) / 2.0)?;
        } else {
            x = f.mul_number(x, length)?;
            x = f.add_number(x, -1.0)?;
            x = f.mul_number(x, 0.5)?;
        }
        if self.mode == Mode::Nearest {
            x = f.unary(UnaryKind::Round, x)?;
            x = self.brought_in(f, x, extent)?;
            return Ok(vec![self.tap(f, x, extent, None)?]);
        }
        // Each neighbour has a place of its own at a border, as PyTorch and ONNX Runtime have it: the standard's reference brings in
        // what they are neighbours of.
        if (self.mode, self.padding) != (Mode::Cubic, PaddingMode::Border) {
            x = self.brought_in(f, x, extent)?;
        }
        self.neighbours(f, x, extent)
    }

    /// The elements around places along an axis, and how much of each there is.
    fn neighbours(self, f: &mut Scope<'_, '_>, x: ValueId, extent: usize) -> Result<Vec<Tap>, Error> {
        let base = f.unary(UnaryKind::Floor, x)?;
        let ratio = f.sub(x, base)?;
        let offsets = if self.mode == Mode::Cubic { -1..=2 } else { 0..=1 };
        let mut taps = Vec::new();
        for offset in offsets {
            let place = f.add_number(base, f64::from(offset))?;
            let factor = self.factor(f, ratio, offset)?;
            taps.push(self.tap(f, place, extent, Some(factor))?);
        }
        Ok(taps)
    }

    /// The factor of the element that lies `offset` places from the left neighbour.
    fn factor(self, f: &mut Scope<'_, '_>, ratio: ValueId, offset: i32) -> Result<ValueId, Error> {
        let distance = f.add_number(ratio, -f64::from(offset))?;
        let distance = f.unary(UnaryKind::Abs, distance)?;
        // Σ cᵢ·distanceⁱ, the highest power first.
        let a = -0.75;
        let coefficients: &[f64] = match (self.mode, offset) {
            (Mode::Cubic, 0 | 1) => &[a + 2.0, -(a + 3.0), 0.0, 1.0],
            (Mode::Cubic, _) => &[a, -5.0 * a, 8.0 * a, -4.0 * a],
            _ => &[-1.0, 1.0],
        };
        let mut sum = f.mul_number(distance, coefficients[0])?;
        for (index, &coefficient) in coefficients.iter().enumerate().skip(1) {
            sum = f.add_number(sum, coefficient)?;
            if index + 1 < coefficients.len() {
                sum = f.mul(sum, distance)?;
            }
        }
        Ok(sum)
    }

    /// Places outside brought to the border or mirrored, as far as the mode does so.
    fn brought_in(self, f: &mut Scope<'_, '_>, x: ValueId, extent: usize) -> Result<ValueId, Error> {
        let last = extent as f64 - 1.0;
        match self.padding {
            PaddingMode::Zeros => Ok(x),
            PaddingMode::Border => f.unary(UnaryKind::Clip([0.0, last as f32]), x),
            PaddingMode::Reflection => {
                let (low, span) = if self.align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
                if span == 0.0 {
                    return f.mul_number(x, 0.0);
                }
                // A triangle of twice the span.
                let from = f.add_number(x, -low)?;
                let from = f.unary(UnaryKind::Abs, from)?;
                let period = f.scalar_like(2.0 * span, x);
                let times = f.div(from, period)?;
                let times = f.unary(UnaryKind::Floor, times)?;
                let whole = f.mul(times, period)?;
                let rest = f.sub(from, whole)?;
                let turned = f.sub(period, rest)?;
                let nearer = f.binary(BinaryKind::Min, rest, turned)?;
                f.add_number(nearer, low)
            }
        }
    }

    /// An element at a whole place, which may lie outside.
    fn tap(
        self,
        f: &mut Scope<'_, '_>,
        place: ValueId,
        extent: usize,
        factor: Option<ValueId>,
    ) -> Result<Tap, Error> {
        let last = extent as f32 - 1.0;
        let inside = if self.padding == PaddingMode::Zeros {
            let behind = f.compare(BinaryKind::GreaterOrEqual, place, 0.0)?;
            let before = f.compare(BinaryKind::LessOrEqual, place, f64::from(last))?;
            Some(f.binary(BinaryKind::And, behind, before)?)
        } else {
            None
        };
        let place = self.brought_in(f, place, extent)?;
        let place = f.unary(UnaryKind::Clip([0.0, last]), place)?;
        let place = f.cast(place, DType::I64)?;
        Ok(Tap { place, factor, inside })
    }
}

/// The elements that samples at these places along each axis are made of: neighbours by their nearness, 0 beyond the image.
pub(super) fn zero_padded(
    f: &mut Scope<'_, '_>,
    places: &[ValueId],
    extents: &[usize],
) -> Result<Vec<Vec<Tap>>, Error> {
    let sampling = Sampling { mode: Mode::Linear, padding: PaddingMode::Zeros, align_corners: false };
    places.iter().zip(extents).map(|(&place, &extent)| sampling.neighbours(f, place, extent)).collect()
}

/// Samples of `pixels` (N, C, elements), which have the extents behind N and C of `shape`: of every choice of one tap per axis,
/// added up.
pub(super) fn sample_all(
    f: &mut Scope<'_, '_>,
    pixels: ValueId,
    taps: &[Vec<Tap>],
    shape: &[usize],
    count: usize,
) -> Result<ValueId, Error> {
    let real = f.dtype(pixels) == DType::F32 || f.dtype(pixels).is_half();
    let area = shape[2..].iter().try_fold(1_usize, |area, &extent| area.checked_mul(extent));
    if real && area.is_some_and(|area| i32::try_from(area).is_ok()) {
        return weighed(f, pixels, taps, shape);
    }
    let mut total = None;
    let mut choice = vec![0; taps.len()];
    loop {
        let chosen: Vec<Tap> = choice.iter().zip(taps).map(|(&index, taps)| taps[index]).collect();
        let sample = sample(f, pixels, &chosen, shape, count)?;
        total = Some(match total {
            Some(total) => f.add(total, sample)?,
            None => sample,
        });
        let Some(axis) = (0..taps.len()).rev().find(|&axis| choice[axis] + 1 < taps[axis].len()) else {
            break;
        };
        choice[axis] += 1;
        choice[axis + 1..].fill(0);
    }
    total.ok_or_else(|| f.wrong("no samples"))
}

/// The same of reals of 32 bits, all channels by the indices and factors of one.
fn weighed(
    f: &mut Scope<'_, '_>,
    pixels: ValueId,
    taps: &[Vec<Tap>],
    shape: &[usize],
) -> Result<ValueId, Error> {
    let (mut indices, mut factors) = (Vec::new(), Vec::new());
    let mut choice = vec![0; taps.len()];
    loop {
        let chosen: Vec<Tap> = choice.iter().zip(taps).map(|(&index, taps)| taps[index]).collect();
        let mut index = f.cast(chosen[0].place, DType::I32)?;
        for (axis, tap) in chosen.iter().enumerate().skip(1) {
            let row = f.integer(shape[2 + axis] as i64, DType::I32);
            let place = f.cast(tap.place, DType::I32)?;
            index = f.mul(index, row)?;
            index = f.add(index, place)?;
        }
        let outside = f.integer(-1, DType::I32);
        for inside in chosen.iter().filter_map(|tap| tap.inside) {
            index = f.choose(inside, index, outside)?;
        }
        indices.push(index);
        let mut own = chosen.iter().filter_map(|tap| tap.factor);
        if let Some(mut factor) = own.next() {
            for other in own {
                factor = f.mul(factor, other)?;
            }
            factors.push(factor);
        }
        let Some(axis) = (0..taps.len()).rev().find(|&axis| choice[axis] + 1 < taps[axis].len()) else {
            break;
        };
        choice[axis] += 1;
        choice[axis + 1..].fill(0);
    }
    let pixels = f.cast(pixels, DType::F32)?;
    let mut operands = vec![pixels, f.concat(&indices, 1)?];
    if factors.len() == indices.len() {
        operands.push(f.concat(&factors, 1)?);
    }
    f.op(Op::Weigh(Weigh), &operands)
}

/// One element of each sample, times its factors.
fn sample(
    f: &mut Scope<'_, '_>,
    pixels: ValueId,
    taps: &[Tap],
    shape: &[usize],
    count: usize,
) -> Result<ValueId, Error> {
    let mut index = taps[0].place;
    for (axis, tap) in taps.iter().enumerate().skip(1) {
        let row = f.integer(shape[2 + axis] as i64, DType::I64);
        index = f.mul(index, row)?;
        index = f.add(index, tap.place)?;
    }
    let index = f.expand(index, &[shape[0], shape[1], count])?;
    let mut sample = f.op(Op::GatherElements(GatherElements { axis: 2 }), &[pixels, index])?;
    for inside in taps.iter().filter_map(|tap| tap.inside) {
        let zero = f.scalar_like(0.0, sample);
        sample = f.choose(inside, sample, zero)?;
    }
    if taps.iter().all(|tap| tap.factor.is_none()) {
        return Ok(sample);
    }
    sample = f.cast(sample, DType::F32)?;
    for factor in taps.iter().filter_map(|tap| tap.factor) {
        sample = f.mul(sample, factor)?;
    }
    Ok(sample)
}

/// The places −1 to 1 of an image's or volume's elements, turned by a matrix for each.
fn affine_grid(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let align_corners = node.flag("align_corners")?;
    let function = node.function(move |f| {
        let theta = f.input(0)?;
        let size = f.ints(1)?.unwrap_or_default();
        let size: Option<Vec<usize>> = size.iter().map(|&extent| usize::try_from(extent).ok()).collect();
        let matrices = f.shape(theta);
        let size = size.filter(|size| matches!(size.len(), 4 | 5));
        let size = size.ok_or_else(|| f.wrong("the size is none of images or volumes"))?;
        let axes = size.len() - 2;
        if matrices[..] != [size[0], axes, axes + 1] {
            return Err(f.wrong(format!("matrices {matrices} for {axes} axes")));
        }
        let dtype = f.dtype(theta);
        let outs = &size[2..];
        let count = outs.iter().try_fold(axes + 1, |product, &extent| product.checked_mul(extent));
        let count = f.bounded(count)? / (axes + 1);
        // Per element: its places, the last axis first, and 1.
        let mut places = Vec::with_capacity(count * (axes + 1));
        for element in 0..count {
            let mut rest = element;
            let mut index = vec![0; axes];
            for axis in (0..axes).rev() {
                index[axis] = rest % outs[axis];
                rest /= outs[axis];
            }
            for axis in (0..axes).rev() {
                let (at, extent) = (index[axis] as f64, outs[axis] as f64);
                places.push(if align_corners {
                    if outs[axis] == 1 { -1.0 } else { 2.0 * at / (extent - 1.0) - 1.0 }
                } else {
                    (2.0 * at + 1.0) / extent - 1.0
                });
            }
            places.push(1.0);
        }
        let places = f.floats(&places, dtype);
        let places = f.reshape(places, &[count, axes + 1])?;
        // Long rows: products are computed by columns.
        let places = f.transpose(places, &[1, 0])?;
        let grid = f.matmul(theta, places)?;
        let grid = f.transpose(grid, &[0, 2, 1])?;
        f.reshape(grid, &[&size[..1], outs, &[axes]].concat())
    });
    Ok(function.deciding(&[1]).into())
}

operators! {
    DEFAULT_DOMAIN;
    "AffineGrid": [20] {2, 2, 1 => affine_grid};
    "GridSample": [16, 20, 22] {2, 2, 1 => grid_sample};
}
