//! Spatial resampling: which input elements make an output element is worked out once per axis. Knows no channels.

use std::ops::Range;

use triune_tensor::{
    Rounding,
    function::{CoordinateMode, NearestMode, ResizeMode},
};

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::parallel::{GRAIN, Shared};
use crate::{Error, Isa, Nhwc, Pool, Q8, math, parallel};

/// How near to the middle of two elements a coordinate is a tie, as ONNX Runtime has it.
const TIE: f32 = 1e-6;

/// What a resampling is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizeSpec {
    /// How values are made.
    pub mode: ResizeMode,
    /// Where they are taken.
    pub coordinates: CoordinateMode,
    /// Input rows and columns.
    pub input: [usize; 2],
    /// Output rows and columns.
    pub output: [usize; 2],
    /// Output extent over input extent per axis, where the model gives it (it may differ from the quotient of the
    /// extents, which are whole numbers).
    pub scales: Option<[f32; 2]>,
}

/// The two inputs of an output index along one axis: low + weight·(high − low).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tap {
    low: usize,
    high: usize,
    weight: f32,
}

/// What blended bytes stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QResize {
    /// The operand's bytes.
    pub input: Q8,
    /// The result's bytes.
    pub output: Q8,
    /// The operand's scale over the result's; finite.
    pub factor: f32,
    /// Where halves go.
    pub rounding: Rounding,
}

/// Bits of a weight between two elements where bytes are blended.
const WEIGHT_BITS: u32 = 11;

impl Tap {
    /// The weight in steps of 2⁻¹¹, halves to even.
    fn steps(self) -> i32 {
        (self.weight * (1 << WEIGHT_BITS) as f32).round_ties_even() as i32
    }
}

/// A resampling with its index tables.
#[derive(Clone, Debug)]
pub struct Resize {
    spec: ResizeSpec,
    rows: Vec<Tap>,
    columns: Vec<Tap>,
}

impl Resize {
    /// Bytes of the index tables that [`Self::new`] makes.
    pub const fn table_bytes(spec: &ResizeSpec) -> usize {
        spec.output[0].saturating_add(spec.output[1]).saturating_mul(size_of::<Tap>())
    }

    /// Works out the index tables.
    ///
    /// Errors: an empty input with an output that is not, scales that are not positive and finite.
    pub fn new(spec: &ResizeSpec) -> Result<Self, Error> {
        if spec.scales.is_some_and(|scales| !scales.iter().all(|scale| scale.is_finite() && *scale > 0.0)) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        if spec.input.contains(&0) && !spec.output.contains(&0) {
            return Err(Error::Invalid("an empty map cannot be resized"));
        }
        Ok(Self { spec: *spec, rows: axis(spec, 0), columns: axis(spec, 1) })
    }

    fn check<T>(&self, x: &[T], in_map: Nhwc, y: &[T], out_map: Nhwc) -> Result<(), Error> {
        Error::check_eq("batch", in_map.n, out_map.n)?;
        Error::check_eq("channels", in_map.c, out_map.c)?;
        Error::check_eq("input rows", self.spec.input[0], in_map.h)?;
        Error::check_eq("input columns", self.spec.input[1], in_map.w)?;
        Error::check_eq("output rows", self.spec.output[0], out_map.h)?;
        Error::check_eq("output columns", self.spec.output[1], out_map.w)?;
        Error::check_len("input", x.len(), in_map.span())?;
        parallel::check_output(y, out_map)
    }

    /// Nearest neighbours of elements of any type; for larger or smaller elements than `T`, count channels in `T`s.
    ///
    /// Errors: extents other than prepared for, slices shorter than their maps, a resampling that is not nearest.
    pub fn run_nearest<T: Resizable>(
        &self,
        x: &[T],
        in_map: Nhwc,
        y: &mut [T],
        out_map: Nhwc,
        pool: &Pool,
    ) -> Result<(), Error> {
        if self.spec.mode == ResizeMode::Linear {
            return Err(Error::Invalid("linear resampling is defined for f32 and bytes"));
        }
        self.check(x, in_map, y, out_map)?;
        if in_map.c == 1 && in_map.stride_w == 1 && out_map.stride_w == 1 {
            self.nearest_planes(x, in_map, y, out_map, pool);
            return Ok(());
        }
        parallel::rows(pool, y, out_map, &|n, h, row| {
            let x = &x[in_map.offset(n, self.rows[h].low, 0)..];
            // Not in chunks of the stride: a map of one column may have any, even one below its channels.
            for part in spans(self.columns.len(), in_map.c) {
                let row = &mut row[part.start * out_map.stride_w..];
                for (w, tap) in self.columns[part].iter().enumerate() {
                    let x = &x[tap.low * in_map.stride_w..][..in_map.c];
                    row[w * out_map.stride_w..][..in_map.c].copy_from_slice(x);
                }
            }
        });
        Ok(())
    }

    /// Nearest neighbours in planes: a row that is the one above it again is copied.
    fn nearest_planes<T: Resizable>(&self, x: &[T], in_map: Nhwc, y: &mut [T], out_map: Nhwc, pool: &Pool) {
        let width = out_map.w;
        let times = (1..=4).find(|times| {
            let repeats = |(at, tap): (usize, &Tap)| tap.low == at / times;
            width == times * in_map.w && self.columns.iter().enumerate().all(repeats)
        });
        let (level, y) = (Level::new(Isa::best()), Shared::new(y));
        parallel::ranges(pool, out_map.n * out_map.h, GRAIN.div_ceil(width.max(1)), &|range| {
            // SAFETY: rows of a map that was checked lie inside of the slice and do not overlap; a task has rows of its own.
            unsafe { nearest_rows(level, self, x, in_map, range, times.unwrap_or(0), &y, out_map) };
        });
    }

    /// Nearest or linear over f32. Linear: along the columns first, then along the rows, each
    /// fma(weight, high − low, low).
    ///
    /// Errors: extents other than prepared for, slices shorter than their maps.
    pub fn run_f32(
        &self,
        isa: Isa,
        x: &[f32],
        in_map: Nhwc,
        y: &mut [f32],
        out_map: Nhwc,
        pool: &Pool,
    ) -> Result<(), Error> {
        if self.spec.mode != ResizeMode::Linear {
            return self.run_nearest(x, in_map, y, out_map, pool);
        }
        self.check(x, in_map, y, out_map)?;
        let level = Level::new(isa);
        parallel::rows(pool, y, out_map, &|n, h, row| {
            let tap = self.rows[h];
            let low = &x[in_map.offset(n, tap.low, 0)..];
            let high = &x[in_map.offset(n, tap.high, 0)..];
            for part in spans(self.columns.len(), in_map.c) {
                let row = &mut row[part.start * out_map.stride_w..];
                linear_row(level, &self.columns[part], tap.weight, low, high, in_map, row, out_map.stride_w);
            }
        });
        Ok(())
    }
}

impl Resize {
    /// Linear over bytes: weights are integers of 2⁻¹¹, S = Σ weight·weight·(q − zero point) over the four neighbours is
    /// exact, and the result clamp(round(f32(S)·(factor·2⁻²²)) + zero point).
    ///
    /// Errors: extents other than prepared for, slices shorter than their maps, a factor that is not finite, zero points
    /// outside of their types, a resampling that is not linear.
    pub fn run_q8(
        &self,
        isa: Isa,
        quant: QResize,
        x: &[u8],
        in_map: Nhwc,
        y: &mut [u8],
        out_map: Nhwc,
        pool: &Pool,
    ) -> Result<(), Error> {
        if self.spec.mode != ResizeMode::Linear {
            return Err(Error::Invalid("bytes are blended by linear resampling only"));
        }
        [quant.input, quant.output].into_iter().try_for_each(Q8::check)?;
        if !quant.factor.is_finite() {
            return Err(Error::Invalid("multipliers must be finite"));
        }
        self.check(x, in_map, y, out_map)?;
        let zero_point = quant.output.zero_point;
        let bytes = Bytes {
            flip: quant.input.flip(),
            zero: quant.input.zero_point + i32::from(quant.input.flip()),
            factor: quant.factor / (1_u32 << (2 * WEIGHT_BITS)) as f32,
            limits: quant.output.range().map(|limit| (limit - zero_point) as f32),
            zero_point: zero_point as u8,
            rounding: quant.rounding,
        };
        let level = Level::new(isa);
        parallel::rows(pool, y, out_map, &|n, h, row| {
            let tap = self.rows[h];
            let low = &x[in_map.offset(n, tap.low, 0)..];
            let high = &x[in_map.offset(n, tap.high, 0)..];
            for part in spans(self.columns.len(), in_map.c.saturating_mul(4)) {
                let row = &mut row[part.start * out_map.stride_w..];
                let columns = &self.columns[part];
                bytes_row(level, &bytes, columns, tap.steps(), low, high, in_map, row, out_map.stride_w);
            }
        });
        Ok(())
    }
}

/// What a kernel needs of a [`QResize`].
#[derive(Clone, Copy)]
struct Bytes {
    /// The xor that turns a byte into its value shifted to 0..=255, and the zero point under the same shift.
    flip: u8,
    zero: i32,
    factor: f32,
    /// The result's, before its zero point is added.
    limits: [f32; 2],
    zero_point: u8,
    rounding: Rounding,
}

multiversion! {
    fn bytes_row(
        bytes: &Bytes, columns: &[Tap], down: i32, low: &[u8], high: &[u8], map: Nhwc, y: &mut [u8], stride: usize,
    ) {
        let Bytes { flip, zero, factor, limits: [least, most], zero_point, rounding } = *bytes;
        // 255·2²² at most.
        let blend = |low: i32, high: i32, steps: i32| (low << WEIGHT_BITS) + steps * (high - low);
        macro_rules! columns {
            ($round:path) => {
                for (w, tap) in columns.iter().enumerate() {
                    let across = tap.steps();
                    let y = &mut y[w * stride..][..map.c];
                    let (left, right) = (tap.low * map.stride_w, tap.high * map.stride_w);
                    let (a, b) = (&low[left..][..map.c], &low[right..][..map.c]);
                    let (c, d) = (&high[left..][..map.c], &high[right..][..map.c]);
                    for channel in 0..map.c {
                        let value = |x: &[u8]| i32::from(x[channel] ^ flip) - zero;
                        let above = blend(value(a), value(b), across);
                        let below = blend(value(c), value(d), across);
                        let real = blend(above, below, down) as f32 * factor;
                        y[channel] = $round(real, least, most).wrapping_add(zero_point);
                    }
                }
            };
        }
        match rounding {
            Rounding::HalfToEven => columns!(math::round_to_byte),
            Rounding::HalfAwayFromZero => columns!(math::round_away_to_byte),
        }
    }
}

multiversion! {
    /// Some rows of planes, of which all elements are repeated `times`; 0: as the columns' taps say.
    ///
    /// # Safety
    /// Nobody else has these rows, which lie inside of `y` and do not overlap.
    unsafe fn nearest_rows[T: Resizable](
        resize: &Resize, x: &[T], in_map: Nhwc, range: Range<usize>, times: usize, y: &Shared<'_, T>, out_map: Nhwc,
    ) {
        let (mut n, mut h) = (range.start / out_map.h, range.start % out_map.h);
        for row in range.clone() {
            if row > range.start && h > 0 && out_map.stride_h == out_map.w && resize.rows[h].low == resize.rows[h - 1].low {
                // SAFETY: the caller's contract; between the two rows there is nothing.
                let both = unsafe { y.piece(out_map.offset(n, h - 1, 0), 2 * out_map.w) };
                let (above, own) = both.split_at_mut(out_map.w);
                copy_row(above, own);
                (n, h) = if h + 1 == out_map.h { (n + 1, 0) } else { (n, h + 1) };
                continue;
            }
            let x = &x[in_map.offset(n, resize.rows[h].low, 0)..][..in_map.w];
            // SAFETY: the caller's contract.
            let y = unsafe { y.piece(out_map.offset(n, h, 0), out_map.w) };
            match times {
                1 => y.copy_from_slice(x),
                2 => repeat::<T, 2>(x, y),
                3 => repeat::<T, 3>(x, y),
                4 => repeat::<T, 4>(x, y),
                _ => y.iter_mut().zip(&resize.columns).for_each(|(y, tap)| *y = x[tap.low]),
            }
            (n, h) = if h + 1 == out_map.h { (n + 1, 0) } else { (n, h + 1) };
        }
    }
}

/// Words that nearest neighbours are copied as.
pub trait Resizable: Copy + Send + Sync + 'static {
    /// The word so many times.
    #[must_use]
    fn times<const TIMES: usize>(self) -> [Self; TIMES] {
        [self; TIMES]
    }
}

impl Resizable for u8 {
    #[inline]
    fn times<const TIMES: usize>(self) -> [Self; TIMES] {
        let mut all = [self; TIMES];
        // Products of wider words, which are vectors where arrays of bytes are none.
        match TIMES {
            2 => all.copy_from_slice(&(u16::from(self) * 0x0101).to_ne_bytes()),
            4 => all.copy_from_slice(&(u32::from(self) * 0x0101_0101).to_ne_bytes()),
            _ => {}
        }
        all
    }
}

impl Resizable for u16 {}
impl Resizable for u32 {}
impl Resizable for u64 {}
impl Resizable for f32 {}

/// Elements of a row that are copied at once; the last ones once more, rather than one by one.
const PIECE: usize = 16;

/// Copies a row, which is short, without a call.
#[inline(always)]
#[expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]
fn copy_row<T: Copy>(x: &[T], y: &mut [T]) {
    let Some(last) = x.len().min(y.len()).checked_sub(PIECE) else { return y.copy_from_slice(x) };
    for at in (0..last).step_by(PIECE).chain([last]) {
        y[at..at + PIECE].copy_from_slice(&x[at..at + PIECE]);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]
fn repeat<T: Resizable, const TIMES: usize>(x: &[T], y: &mut [T]) {
    for (y, &x) in y.as_chunks_mut::<TIMES>().0.iter_mut().zip(x) {
        *y = x.times();
    }
}

/// Between the four neighbours above and below, left and right: across first, then down.
#[inline(always)]
#[expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]
fn blend([a, b, c, d]: [f32; 4], across: f32, down: f32) -> f32 {
    let above = across.mul_add(b - a, a);
    let below = across.mul_add(d - c, c);
    down.mul_add(below - above, above)
}

multiversion! {
    fn linear_row(columns: &[Tap], weight: f32, low: &[f32], high: &[f32], map: Nhwc, y: &mut [f32], stride: usize) {
        macro_rules! few {
            ($channels:expr) => {
                for (w, tap) in columns.iter().enumerate() {
                    let y = &mut y[w * stride..][..$channels];
                    let (left, right) = (tap.low * map.stride_w, tap.high * map.stride_w);
                    let (a, b) = (&low[left..][..$channels], &low[right..][..$channels]);
                    let (c, d) = (&high[left..][..$channels], &high[right..][..$channels]);
                    for channel in 0..$channels {
                        let seen = [a[channel], b[channel], c[channel], d[channel]];
                        y[channel] = blend(seen, tap.weight, weight);
                    }
                }
            };
        }
        match map.c {
            1 if map.stride_w == 1 && stride == 1 => {
                for (y, tap) in y.iter_mut().zip(columns) {
                    *y = blend([low[tap.low], low[tap.high], high[tap.low], high[tap.high]], tap.weight, weight);
                }
            }
            1 => few!(1),
            3 => few!(3),
            4 => few!(4),
            channels => few!(channels),
        }
    }
}

fn axis(spec: &ResizeSpec, axis: usize) -> Vec<Tap> {
    let (input, output) = (spec.input[axis], spec.output[axis]);
    if input == 0 {
        return Vec::new();
    }
    let scale = spec.scales.map_or(output as f32 / input as f32, |scales| scales[axis]);
    let last = input - 1;
    (0..output)
        .map(|index| {
            let x = index as f32;
            let at = match spec.coordinates {
                // A map that keeps its extents keeps its elements, whatever its scales.
                _ if spec.input == spec.output || scale == 1.0 => x,
                CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners if output == 1 => 0.0,
                CoordinateMode::Asymmetric => x / scale,
                CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
                CoordinateMode::AlignCorners => x * last as f32 / (output - 1) as f32,
            };
            match spec.mode {
                ResizeMode::Nearest(nearest) => {
                    let (floor, above) = (at.floor(), at - at.floor());
                    // A rounded quotient may miss the tie that the exact one is.
                    let tie = (above - 0.5).abs() < TIE;
                    let at = match nearest {
                        NearestMode::RoundPreferFloor => floor + f32::from(!tie && above > 0.5),
                        NearestMode::RoundPreferCeil => floor + f32::from(tie || above > 0.5),
                        NearestMode::Floor => floor,
                        NearestMode::Ceil => at.ceil(),
                    };
                    // `as` saturates below at 0.
                    let low = (at as usize).min(last);
                    Tap { low, high: low, weight: 0.0 }
                }
                ResizeMode::Linear => {
                    let at = at.clamp(0.0, last as f32);
                    let low = (at as usize).min(last);
                    Tap { low, high: (low + 1).min(last), weight: at - low as f32 }
                }
            }
        })
        .collect()
}
