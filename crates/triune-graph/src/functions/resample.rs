//! Resampling in all the ways that ONNX has: along each axis, results are sums of elements by factors that follow from the
//! extents, so that a constant matrix multiplies them, or a constant index picks them.

use triune_tensor::DType;

use super::Scope;
use crate::{
    Constant, Error, Op, ValueId,
    ops::{CoordinateMode, Resize, ResizeMode, Weigh},
};

/// How values are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// The nearest element.
    Nearest(Nearest),
    Linear,
    /// With the cubic's coefficient.
    Cubic(f64),
}

/// Which of two neighbours is the nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Nearest {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// Where in the operand an element of the result lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coordinates {
    Asymmetric,
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    TfHalfPixelForNearest,
    TfCropAndResize,
}

/// What is done with extents that are given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aspect {
    Stretch,
    NotLarger,
    NotSmaller,
}

#[derive(Clone, Debug)]
pub(crate) struct Resampling {
    pub(crate) mode: Mode,
    pub(crate) coordinates: Coordinates,
    pub(crate) aspect: Aspect,
    pub(crate) antialias: bool,
    pub(crate) exclude_outside: bool,
    pub(crate) extrapolation: f64,
    pub(crate) axes: Option<Vec<i64>>,
}

impl Resampling {
    /// The body: inputs x, region, factors, extents.
    fn body(&self, f: &mut Scope<'_, '_>, mut x: ValueId) -> Result<ValueId, Error> {
        let axes = match &self.axes {
            Some(axes) => f.axes(x, axes)?,
            None => (0..f.rank(x)).collect(),
        };
        let shape = f.shape(x);
        let lengths: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
        let (scales, outs) = self.extents(f, &lengths)?;
        if outs.iter().zip(&lengths).any(|(&out, &length)| length == 0 && out != 0) {
            return Err(f.wrong(format!("input {shape} has no elements to make others of")));
        }
        let region = self.region(f, axes.len())?;
        // Axes that shrink go first, the last ones before others: what is left for the next is less, and lies as it is taken.
        let mut order: Vec<usize> = (0..axes.len()).collect();
        if !matches!(self.mode, Mode::Nearest(_)) {
            order.sort_by_key(|&index| (outs[index] >= lengths[index], std::cmp::Reverse(axes[index])));
        }
        for index in order {
            let (axis, length, out) = (axes[index], lengths[index], outs[index]);
            let range =
                region.as_ref().map_or((0.0, 1.0), |region| (region[index], region[index + axes.len()]));
            if length == out && scales[index] == 1.0 && region.is_none() {
                continue;
            }
            let places = Places { length, out, scale: scales[index], range, coordinates: self.coordinates };
            x = self.along(f, x, axis, &places)?;
        }
        Ok(x)
    }

    /// Factors and results' extents of the axes.
    fn extents(&self, f: &Scope<'_, '_>, lengths: &[usize]) -> Result<(Vec<f64>, Vec<usize>), Error> {
        let fits = |count: usize| count == lengths.len();
        let sizes = f.ints(3)?.filter(|sizes| !sizes.is_empty());
        if let Some(sizes) = sizes {
            let wrong = || {
                f.wrong(format!("extents {} for {} axes", triune_tensor::text::List(&sizes), lengths.len()))
            };
            let sizes: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
            let sizes = sizes.filter(|sizes| fits(sizes.len())).ok_or_else(wrong)?;
            let own = |(&size, &length): (&usize, &usize)| size as f64 / length as f64;
            let scales = sizes.iter().zip(lengths).map(own);
            let scale = match self.aspect {
                Aspect::Stretch => return Ok((scales.collect(), sizes)),
                Aspect::NotLarger => scales.fold(f64::INFINITY, f64::min),
                Aspect::NotSmaller => scales.fold(0.0, f64::max),
            };
            let outs = lengths.iter().map(|&length| (scale * length as f64 + 0.5).floor() as usize).collect();
            return Ok((vec![scale; lengths.len()], outs));
        }
        let known = f.get(2).and_then(|id| f.constant_of(id)).and_then(Constant::to_f32);
        let scales = known.filter(|scales| fits(scales.len()));
        let scales = scales.ok_or_else(|| f.wrong("factors are missing, or depend on the network's data"))?;
        if !scales.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return Err(f.wrong(format!("factors {}", triune_tensor::text::List(&scales))));
        }
        // A product in f32, as the reference implementations have it: 1/3 of 3 is 1.
        let outs =
            scales.iter().zip(lengths).map(|(&scale, &length)| (scale * length as f32) as usize).collect();
        Ok((scales.into_iter().map(f64::from).collect(), outs))
    }

    /// Starts and ends of what is resampled, as parts of the operand's extents.
    fn region(&self, f: &Scope<'_, '_>, axes: usize) -> Result<Option<Vec<f64>>, Error> {
        if self.coordinates != Coordinates::TfCropAndResize {
            return Ok(None);
        }
        let region = f.get(1).and_then(|id| f.constant_of(id)).and_then(Constant::to_f64);
        match region {
            Some(region) if region.len() == 2 * axes => Ok(Some(region)),
            _ => Err(f.wrong(format!("the region is not known, or not one of {axes} axes"))),
        }
    }

    /// Resamples along one axis.
    fn along(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        axis: usize,
        places: &Places,
    ) -> Result<ValueId, Error> {
        let rank = f.rank(x);
        f.bounded(places.out.checked_mul(if matches!(self.mode, Mode::Nearest(_)) {
            1
        } else {
            places.length
        }))?;
        let mut result = if let Mode::Nearest(nearest) = self.mode {
            let index: Vec<i64> = (0..places.out).map(|at| places.nearest(at, nearest)).collect();
            let index = f.list(&index);
            f.gather(x, axis, index)?
        } else {
            let dtype = f.dtype(x);
            if !matches!(dtype, DType::F32 | DType::F16 | DType::F64) {
                return Err(f.unsupported(format!("means of {dtype}")));
            }
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.swap(axis, rank - 1);
            let rows = if axis == rank - 1 { x } else { f.transpose(x, &perm)? };
            let rows = self.rows(f, rows, places)?;
            if axis == rank - 1 { rows } else { f.transpose(rows, &perm)? }
        };
        let outside: Vec<i64> = (0..places.out).map(|at| i64::from(places.is_outside(at))).collect();
        if outside.contains(&1) {
            let mut dims = vec![1; rank - axis];
            dims[0] = places.out;
            let outside = f.list(&outside);
            let outside = f.reshape(outside, &dims)?;
            let outside = f.cast(outside, DType::Bool)?;
            let value = f.scalar_like(self.extrapolation, x);
            result = f.choose(outside, value, result)?;
        }
        Ok(result)
    }

    /// Resamples along the last axis.
    fn rows(&self, f: &mut Scope<'_, '_>, x: ValueId, places: &Places) -> Result<ValueId, Error> {
        /// How many times shorter than rows sums have to be, for their elements to be picked rather than multiplied with a matrix.
        const SPARSE: usize = 8;
        let (dtype, mut dims) = (f.dtype(x), f.shape(x).to_vec());
        let all: Vec<Vec<(usize, f64)>> = (0..places.out).map(|at| self.factors(places, at)).collect();
        let taps = all.iter().map(Vec::len).max().unwrap_or(0);
        if dtype == DType::F64 || taps.saturating_mul(SPARSE) > places.length || dims.contains(&0) {
            let mut matrix = vec![0.0; places.length * places.out];
            for (at, factors) in all.iter().enumerate() {
                for &(from, factor) in factors {
                    matrix[from * places.out + at] += factor;
                }
            }
            let matrix = f.floats(&matrix, dtype);
            let matrix = f.reshape(matrix, &[places.length, places.out])?;
            return f.matmul(x, matrix);
        }
        let (mut indices, mut factors) = (vec![-1.0; taps * places.out], vec![0.0; taps * places.out]);
        for (at, own) in all.iter().enumerate() {
            for (tap, &(from, factor)) in own.iter().enumerate() {
                indices[tap * places.out + at] = from as f64;
                factors[tap * places.out + at] = factor;
            }
        }
        let (indices, factors) = (f.numbers(&indices, DType::I32), f.floats(&factors, DType::F32));
        let (indices, factors) =
            (f.reshape(indices, &[1, taps, places.out])?, f.reshape(factors, &[1, taps, places.out])?);
        let last = dims.len() - 1;
        let rows = dims[..last].iter().product();
        let x = f.reshape(x, &[1, rows, places.length])?;
        let x = f.cast(x, DType::F32)?;
        let y = f.op(Op::Weigh(Weigh), &[x, indices, factors])?;
        let y = f.cast(y, dtype)?;
        dims[last] = places.out;
        f.reshape(y, &dims)
    }

    /// The elements that one of the result is made of, and their factors.
    fn factors(&self, places: &Places, at: usize) -> Vec<(usize, f64)> {
        let x = places.origin(at);
        // The left neighbour, which an element is not its own.
        let base = x.ceil() - 1.0;
        let ratio = x - base;
        let stretch = if self.antialias { places.scale.min(1.0) } else { 1.0 };
        let reach = if matches!(self.mode, Mode::Cubic(_)) { 2.0 } else { 1.0 };
        let start = (-reach / stretch).floor() as i64 + 1;
        let mut factors: Vec<(i64, f64)> = (start..=1 - start)
            .map(|tap| (base as i64 + tap, self.kernel((tap as f64 - ratio) * stretch)))
            .collect();
        let inside = |index: i64| (0..places.length as i64).contains(&index);
        if self.exclude_outside {
            factors.retain(|&(index, _)| inside(index));
        }
        if self.exclude_outside || self.antialias {
            let sum: f64 = factors.iter().map(|(_, factor)| factor).sum();
            for (_, factor) in &mut factors {
                *factor /= sum;
            }
        }
        let last = places.length.saturating_sub(1) as i64;
        factors.into_iter().map(|(index, factor)| (index.clamp(0, last) as usize, factor)).collect()
    }

    /// The factor of an element at a distance.
    fn kernel(&self, distance: f64) -> f64 {
        let x = distance.abs();
        match self.mode {
            Mode::Cubic(a) if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Mode::Cubic(a) if x < 2.0 => ((x - 5.0) * x + 8.0) * x * a - 4.0 * a,
            Mode::Linear if x < 1.0 => 1.0 - x,
            _ => 0.0,
        }
    }

    /// The primitive operator that does the same over images, if there is one.
    pub(crate) fn primitive(&self) -> Option<Resize> {
        use triune_tensor::function::NearestMode;
        let coordinates = match self.coordinates {
            Coordinates::Asymmetric => CoordinateMode::Asymmetric,
            Coordinates::HalfPixel => CoordinateMode::HalfPixel,
            Coordinates::PytorchHalfPixel => CoordinateMode::PytorchHalfPixel,
            Coordinates::AlignCorners => CoordinateMode::AlignCorners,
            _ => return None,
        };
        let mode = match self.mode {
            Mode::Linear if !self.exclude_outside => ResizeMode::Linear,
            Mode::Nearest(Nearest::PreferFloor) => ResizeMode::Nearest(NearestMode::RoundPreferFloor),
            Mode::Nearest(Nearest::PreferCeil) => ResizeMode::Nearest(NearestMode::RoundPreferCeil),
            Mode::Nearest(Nearest::Floor) => ResizeMode::Nearest(NearestMode::Floor),
            Mode::Nearest(Nearest::Ceil) => ResizeMode::Nearest(NearestMode::Ceil),
            _ => return None,
        };
        let plain = !self.antialias && self.axes.is_none() && self.aspect == Aspect::Stretch;
        plain.then_some(Resize { mode, coordinates })
    }

    /// Whether the primitive operator means the same: it resamples rows and columns of images, and counts the whole elements
    /// that corners are aligned to, where ONNX counts parts of them, too.
    fn is_primitive(&self, f: &Scope<'_, '_>) -> Result<bool, Error> {
        let x = f.input(0)?;
        let shape = f.shape(x);
        if shape.rank() != 4 || !self.has_primitive(f.dtype(x)) {
            return Ok(false);
        }
        let (scales, outs) = self.extents(f, &shape)?;
        Ok(outs[..2] == shape[..2] && self.is_whole(&shape, &scales, &outs))
    }

    /// Whether results have the extents that the factors make of the operand's, where that matters.
    fn is_whole(&self, shape: &[usize], scales: &[f64], outs: &[usize]) -> bool {
        let whole = (0..shape.len()).all(|axis| {
            let extent = scales[axis] * shape[axis] as f64;
            (extent - outs[axis] as f64).abs() <= 1e-4 * extent
        });
        whole || self.coordinates != Coordinates::AlignCorners
    }

    /// Whether the primitive operator takes elements of a type that have no scale.
    pub(crate) fn has_primitive(&self, dtype: DType) -> bool {
        match dtype {
            DType::F32 | DType::F16 => true,
            DType::I8 | DType::U8 => self.mode != Mode::Linear,
            _ => false,
        }
    }

    /// Images whose channels lie last, by the operator for those whose channels lie in front; `None` for anything else.
    fn channels_last(&self, f: &mut Scope<'_, '_>, op: Resize) -> Result<Option<ValueId>, Error> {
        let x = f.input(0)?;
        let shape = f.shape(x);
        if shape.rank() != 4 || !self.has_primitive(f.dtype(x)) {
            return Ok(None);
        }
        let (scales, outs) = self.extents(f, &shape)?;
        let own = outs[1..3] != shape[1..3] && [outs[0], outs[3]] == [shape[0], shape[3]];
        if !own || !self.is_whole(&shape, &scales, &outs) {
            return Ok(None);
        }
        let x = f.transpose(x, &[0, 3, 1, 2])?;
        let factors = match f.get(3) {
            Some(_) => [None, Some(f.list(&[0, 3, 1, 2].map(|axis| outs[axis] as i64)))],
            None => [Some(f.floats(&[0, 3, 1, 2].map(|axis| scales[axis]), DType::F32)), None],
        };
        let y = f.ops(Op::Resize(op), &[Some(x), None, factors[0], factors[1]], 1)?[0];
        f.transpose(y, &[0, 2, 3, 1]).map(Some)
    }

    /// What becomes of an operand: the primitive operator, where that means the same, or what the body is made of.
    pub(crate) fn placed(&self, f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
        if let Some(op) = self.primitive() {
            if self.is_primitive(f)? {
                let operands = [f.get(0), None, f.get(2), f.get(3)];
                return Ok(f.ops(Op::Resize(op), &operands, 1)?[0]);
            }
            if let Some(y) = self.channels_last(f, op)? {
                return Ok(y);
            }
        }
        let x = f.input(0)?;
        if self.mode == Mode::Linear && !f.dtype(x).is_real() {
            return self.integers(f);
        }
        self.body(f, x)
    }

    /// Integers, whose means are cut off behind the point, as the reference implementations have them.
    fn integers(&self, f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
        let x = f.input(0)?;
        let dtype = f.dtype(x);
        let wide =
            f.cast(x, if matches!(dtype, DType::I32 | DType::I64) { DType::F64 } else { DType::F32 })?;
        let y = self.body(f, wide)?;
        f.cast(y, dtype)
    }
}

/// Where the elements of the result lie along one axis.
struct Places {
    length: usize,
    out: usize,
    scale: f64,
    /// What part of the operand the result shows.
    range: (f64, f64),
    coordinates: Coordinates,
}

impl Places {
    /// The place in the operand.
    fn origin(&self, at: usize) -> f64 {
        let (x, length) = (at as f64, self.length as f64);
        let resized = self.scale * length;
        match self.coordinates {
            Coordinates::Asymmetric => x / self.scale,
            Coordinates::HalfPixel => (x + 0.5) / self.scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                // The extent that was cut off is missing at both ends.
                let offset = length / 2.0 * (1.0 - self.out as f64 / resized);
                offset + (x + 0.5) / self.scale - 0.5
            }
            // The result's own extent counts, as in ONNX Runtime; the standard's reference takes what it is before it is cut.
            Coordinates::PytorchHalfPixel if self.out > 1 => (x + 0.5) / self.scale - 0.5,
            Coordinates::AlignCorners if resized != 1.0 => x * (length - 1.0) / (resized - 1.0),
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
            Coordinates::TfHalfPixelForNearest => (x + 0.5) / self.scale,
            Coordinates::TfCropAndResize => {
                let (start, end) = self.range;
                if self.out > 1 {
                    start * (length - 1.0) + x * (end - start) * (length - 1.0) / (self.out as f64 - 1.0)
                } else {
                    (start + end) * (length - 1.0) / 2.0
                }
            }
        }
    }

    fn is_outside(&self, at: usize) -> bool {
        let x = self.origin(at);
        self.coordinates == Coordinates::TfCropAndResize && !(0.0..=self.length as f64 - 1.0).contains(&x)
    }

    fn nearest(&self, at: usize, nearest: Nearest) -> i64 {
        let x = self.origin(at);
        let place = match nearest {
            Nearest::PreferFloor => (x - 0.5).ceil(),
            Nearest::PreferCeil => (x + 0.5).floor(),
            Nearest::Floor => x.floor(),
            Nearest::Ceil => x.ceil(),
        };
        (place as i64).clamp(0, self.length.saturating_sub(1) as i64)
    }
}
