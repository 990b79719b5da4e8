//! Pools of quantized integers: how their sums start, grow and end.

use triune_tensor::{Requantize, Rounding, function::PoolKind};

use super::{PoolSpec, Reduce, drive, global};
use crate::dispatch::Level;
use crate::{Error, Isa, Nhwc, Pool, Q8, Q16Target, math};

/// Encodings and scales of a quantized pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolQuant {
    /// The input's encoding.
    pub input: Q8,
    /// The input's scale.
    pub input_scale: f32,
    /// The output's encoding; a maximum wants the input's.
    pub output: Q8,
    /// The output's scale.
    pub output_scale: f32,
    /// How a mean becomes an integer.
    pub rounding: Rounding,
    /// What a mean's factor is: fixed-point ones make clamp(round(f32(Σ(x − zero point)) · m·2⁻ⁿ) + zero point) of every
    /// window, whatever the rounding.
    pub requantize: Requantize,
}

impl PoolQuant {
    /// Whether there is such a pool over a map.
    ///
    /// Errors: zero points outside of their types, scales that are not positive and finite or whose quotient no multiplier
    /// stands for, a maximum whose two sides differ, a window so large that a sum of its bytes could overflow.
    pub fn check(&self, spec: &PoolSpec, map: Nhwc) -> Result<(), Error> {
        self.input.check()?;
        self.output.check()?;
        if ![self.input_scale, self.output_scale].iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        if spec.kind == PoolKind::Max {
            return if (self.input, self.input_scale) == (self.output, self.output_scale) {
                Ok(())
            } else {
                Err(Error::Invalid("a maximum keeps its input's quantization"))
            };
        }
        // One tap has the largest factor.
        if self.factor(1).is_none() {
            return Err(Error::Invalid("no fixed-point multiplier stands for the quotient of the scales"));
        }
        let whole = spec.kernel == [map.h, map.w] && spec.pad == [0; 4];
        let of_reals =
            self.rounding == Rounding::HalfToEven && self.requantize == Requantize::Float && !whole;
        if !of_reals && spec.kernel[0].saturating_mul(spec.kernel[1]) > (i32::MAX / 255) as usize {
            return Err(Error::Invalid("a sum of the window's bytes could overflow"));
        }
        Ok(())
    }

    /// What the sum of `taps` integers is multiplied with.
    #[inline(always)]
    fn factor(&self, taps: usize) -> Option<f32> {
        self.requantize.factor(self.input_scale / (self.output_scale * taps as f32), 8)
    }
}

#[derive(Clone, Copy)]
struct MaxBytes {
    flip: u8,
}

impl Reduce for MaxBytes {
    type In = u8;
    type Sum = u8;
    type Out = u8;
    const ANY_ORDER: bool = true;
    #[inline(always)]
    fn start(&self) -> u8 {
        0
    }
    #[inline(always)]
    fn add(&self, sum: u8, x: u8) -> u8 {
        sum.max(x ^ self.flip)
    }
    #[inline(always)]
    fn join(&self, sum: u8, row: u8) -> u8 {
        sum.max(row)
    }
    #[inline(always)]
    fn finish(&self, sum: u8, _taps: usize) -> u8 {
        sum ^ self.flip
    }
}

/// Mean of the bytes of a window as ONNX Runtime's `QLinearAveragePool` rounds it: dequantized taps, added in f32.
#[derive(Clone, Copy)]
struct WindowMeanBytes {
    quant: PoolQuant,
    flip: u8,
    zero: i32,
    low: f32,
    high: f32,
}

impl WindowMeanBytes {
    fn new(quant: PoolQuant) -> Self {
        let (flip, zero) = crate::quantize::unbias(quant.input);
        let [low, high] = quant.output.range().map(|limit| limit as f32);
        Self { quant, flip, zero, low, high }
    }
}

impl Reduce for WindowMeanBytes {
    type In = u8;
    type Sum = f32;
    type Out = u8;
    const COUNT_ALL: bool = true;
    #[inline(always)]
    fn start(&self) -> f32 {
        0.0
    }
    #[inline(always)]
    fn add(&self, sum: f32, x: u8) -> f32 {
        // Two roundings: the reference dequantizes the whole map first.
        sum + (i32::from(x ^ self.flip) - self.zero) as f32 * self.quant.input_scale
    }
    #[inline(always)]
    fn join(&self, sum: f32, row: f32) -> f32 {
        sum + row
    }
    #[inline(always)]
    fn finish(&self, sum: f32, taps: usize) -> u8 {
        let mean = sum / taps.max(1) as f32;
        // The zero point is added before rounding, as the reference does here and only here.
        let y = (mean / self.quant.output_scale + self.quant.output.zero_point as f32).round_ties_even();
        math::min(math::max(y, self.low), self.high) as i32 as u8
    }
}

/// Mean of all bytes of a channel: exact sums, one multiplication.
#[derive(Clone, Copy)]
struct MeanBytes {
    quant: PoolQuant,
    flip: u8,
    zero: i32,
    low: f32,
    high: f32,
}

impl MeanBytes {
    fn new(quant: PoolQuant) -> Self {
        let (flip, zero) = crate::quantize::unbias(quant.input);
        let [low, high] = quant.output.range().map(|limit| limit as f32);
        Self { quant, flip, zero, low, high }
    }
}

impl Reduce for MeanBytes {
    type In = u8;
    type Sum = i32;
    type Out = u8;
    const ANY_ORDER: bool = true;
    #[inline(always)]
    fn start(&self) -> i32 {
        0
    }
    #[inline(always)]
    fn add(&self, sum: i32, x: u8) -> i32 {
        // Subtracting per tap keeps padding at the real 0 without counting it.
        sum.wrapping_add(i32::from(x ^ self.flip) - self.zero)
    }
    #[inline(always)]
    fn join(&self, sum: i32, row: i32) -> i32 {
        sum.wrapping_add(row)
    }
    #[inline(always)]
    fn finish(&self, sum: i32, taps: usize) -> u8 {
        let multiplier = self.quant.input_scale / (self.quant.output_scale * taps.max(1) as f32);
        let mean = (sum as f32 * multiplier).round_ties_even() + self.quant.output.zero_point as f32;
        math::min(math::max(mean, self.low), self.high) as i32 as u8
    }
}

/// The mean of a window as `MegEngine` rounds it: the integers themselves are averaged, taps in the padding are the zero
/// point, halves go away from zero. A change of scale comes before rounding.
#[derive(Clone, Copy)]
struct PlainMeanBytes {
    flip: u8,
    zero: i32,
    zero_out: i32,
    /// Input scale / output scale, when they differ.
    ratio: Option<f32>,
    low: f32,
    high: f32,
}

impl PlainMeanBytes {
    fn new(quant: PoolQuant) -> Self {
        let (flip, zero) = crate::quantize::unbias(quant.input);
        let [low, high] = quant.output.range().map(|limit| limit as f32);
        let same = quant.input == quant.output && quant.input_scale == quant.output_scale;
        let ratio = (!same).then(|| quant.input_scale / quant.output_scale);
        Self { flip, zero, zero_out: quant.output.zero_point, ratio, low, high }
    }
}

impl Reduce for PlainMeanBytes {
    type In = u8;
    type Sum = i32;
    type Out = u8;
    const ANY_ORDER: bool = true;
    const COUNT_ALL: bool = true;
    #[inline(always)]
    fn start(&self) -> i32 {
        0
    }
    #[inline(always)]
    fn add(&self, sum: i32, x: u8) -> i32 {
        sum.wrapping_add(i32::from(x ^ self.flip) - self.zero)
    }
    #[inline(always)]
    fn join(&self, sum: i32, row: i32) -> i32 {
        sum.wrapping_add(row)
    }
    #[inline(always)]
    fn finish(&self, sum: i32, taps: usize) -> u8 {
        let taps = taps.max(1);
        let mean = match self.ratio {
            // The mean of the raw integers, zero point included: a half rounds by its sign.
            None => (sum.wrapping_add(self.zero_out.wrapping_mul(taps as i32)) as f32 / taps as f32).round(),
            Some(ratio) => (sum as f32 / taps as f32 * ratio).round() + self.zero_out as f32,
        };
        math::min(math::max(mean, self.low), self.high) as i32 as u8
    }
}

/// The mean of a window with a fixed-point factor: exact sums, one multiplication.
#[derive(Clone, Copy)]
struct FixedMeanBytes {
    quant: PoolQuant,
    flip: u8,
    zero: i32,
    low: f32,
    high: f32,
}

impl FixedMeanBytes {
    fn new(quant: PoolQuant) -> Self {
        let (flip, zero) = crate::quantize::unbias(quant.input);
        let [low, high] = quant.output.range().map(|limit| limit as f32);
        Self { quant, flip, zero, low, high }
    }
}

impl Reduce for FixedMeanBytes {
    type In = u8;
    type Sum = i32;
    type Out = u8;
    const ANY_ORDER: bool = true;
    const COUNT_ALL: bool = true;
    #[inline(always)]
    fn start(&self) -> i32 {
        0
    }
    #[inline(always)]
    fn add(&self, sum: i32, x: u8) -> i32 {
        sum.wrapping_add(i32::from(x ^ self.flip) - self.zero)
    }
    #[inline(always)]
    fn join(&self, sum: i32, row: i32) -> i32 {
        sum.wrapping_add(row)
    }
    #[inline(always)]
    fn finish(&self, sum: i32, taps: usize) -> u8 {
        // `PoolQuant::check` has seen that there is a factor.
        let factor = self.quant.factor(taps.max(1)).unwrap_or_default();
        let mean = self.quant.rounding.round(sum as f32 * factor) + self.quant.output.zero_point as f32;
        math::min(math::max(mean, self.low), self.high) as i32 as u8
    }
}

/// Slides a window over bytes.
///
/// The average equals ONNX Runtime's `QLinearAveragePool`: taps are dequantized, (x − zero point)·`input_scale`, and added
/// in f32 in their order, divided by their number n, then clamp(rint(mean / `output_scale` + zero point)). With
/// `count_include_pad` n is the window's size, also where the window reaches beyond the padding. A window that is the
/// whole map, without padding, averages as [`q8_global_pool`]. Half away from zero, the integers are averaged exactly,
/// padding is the zero point, and clamp(round(sum / n)) is the result (a change of scale comes before rounding). With
/// fixed-point factors, a mean is clamp(round(f32(sum) · m·2⁻ⁿ) + zero point), m·2⁻ⁿ the nearest to
/// f32(`input_scale` / f32(`output_scale` · n)).
///
/// Errors: extents that do not agree, slices shorter than their maps, a maximum whose encodings differ, a window so
/// large that a sum could overflow, scales whose quotient no multiplier stands for.
pub fn q8_pool(
    isa: Isa,
    spec: &PoolSpec,
    quant: &PoolQuant,
    x: &[u8],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    quant.check(spec, in_map)?;
    let level = Level::new(isa);
    match spec.kind {
        PoolKind::Max => {
            let reduce = MaxBytes { flip: quant.input.flip() };
            drive(level, reduce, spec, x, in_map, y, out_map, pool)
        }
        PoolKind::Average { .. } if quant.requantize == Requantize::Fixed => {
            drive(level, FixedMeanBytes::new(*quant), spec, x, in_map, y, out_map, pool)
        }
        PoolKind::Average { .. } if quant.rounding == Rounding::HalfAwayFromZero => {
            drive(level, PlainMeanBytes::new(*quant), spec, x, in_map, y, out_map, pool)
        }
        PoolKind::Average { .. } if spec.kernel == [in_map.h, in_map.w] && spec.pad == [0; 4] => {
            drive(level, MeanBytes::new(*quant), spec, x, in_map, y, out_map, pool)
        }
        PoolKind::Average { .. } => {
            drive(level, WindowMeanBytes::new(*quant), spec, x, in_map, y, out_map, pool)
        }
    }
}

#[derive(Clone, Copy)]
struct MaxWords;

impl Reduce for MaxWords {
    type In = i16;
    type Sum = i16;
    type Out = i16;
    const ANY_ORDER: bool = true;
    #[inline(always)]
    fn start(&self) -> i16 {
        i16::MIN
    }
    #[inline(always)]
    fn add(&self, sum: i16, x: i16) -> i16 {
        sum.max(x)
    }
    #[inline(always)]
    fn join(&self, sum: i16, row: i16) -> i16 {
        sum.max(row)
    }
    #[inline(always)]
    fn finish(&self, sum: i16, _taps: usize) -> i16 {
        sum
    }
}

/// What a mean of 16-bit integers is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Q16Pool {
    /// The input's scale.
    pub input_scale: f32,
    /// The output's scale.
    pub output_scale: f32,
    /// How a mean becomes an integer.
    pub rounding: Rounding,
    /// What its factor is.
    pub requantize: Requantize,
}

impl Q16Pool {
    /// Whether there is such a pool.
    ///
    /// Errors: scales that are not positive and finite or whose quotient no multiplier stands for, a maximum whose two sides
    /// differ.
    pub fn check(&self, kind: PoolKind) -> Result<(), Error> {
        if ![self.input_scale, self.output_scale].iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        if kind == PoolKind::Max {
            return if self.input_scale == self.output_scale {
                Ok(())
            } else {
                Err(Error::Invalid("a maximum keeps its input's quantization"))
            };
        }
        match self.factor(1) {
            Some(factor) if factor.is_finite() => Ok(()),
            _ => Err(Error::Invalid("no multiplier stands for the quotient of the scales")),
        }
    }

    #[inline(always)]
    fn factor(&self, taps: usize) -> Option<f32> {
        self.requantize.factor(self.input_scale / (self.output_scale * taps as f32), 16)
    }
}

impl Reduce for Q16Pool {
    type In = i16;
    type Sum = i64;
    type Out = i16;
    const ANY_ORDER: bool = true;
    const COUNT_ALL: bool = true;
    #[inline(always)]
    fn start(&self) -> i64 {
        0
    }
    #[inline(always)]
    fn add(&self, sum: i64, x: i16) -> i64 {
        sum + i64::from(x)
    }
    #[inline(always)]
    fn join(&self, sum: i64, row: i64) -> i64 {
        sum + row
    }
    #[inline(always)]
    fn finish(&self, sum: i64, taps: usize) -> i16 {
        // `q16_pool` has seen that there is a factor.
        let factor = self.factor(taps.max(1)).unwrap_or_default();
        Q16Target::full(self.rounding).integer(sum as f64 * f64::from(factor))
    }
}

/// Slides a window over symmetric 16-bit integers. A mean of n taps is clamp(round(f64(Σx) · factor)), the factor that of
/// f32(`input_scale` / f32(`output_scale` · n)); with `count_include_pad` n is the window's size.
///
/// Errors: extents that do not agree, slices shorter than their maps, a maximum whose scales differ, scales that are not
/// positive and finite or whose quotient no multiplier stands for.
pub fn q16_pool(
    isa: Isa,
    spec: &PoolSpec,
    quant: &Q16Pool,
    x: &[i16],
    in_map: Nhwc,
    y: &mut [i16],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    quant.check(spec.kind)?;
    let level = Level::new(isa);
    if spec.kind == PoolKind::Max {
        return drive(level, MaxWords, spec, x, in_map, y, out_map, pool);
    }
    drive(level, *quant, spec, x, in_map, y, out_map, pool)
}

/// One result per image and channel, of bytes: the average is
/// clamp(rint(f32(Σx − n·zero point) · f32(`input_scale` / f32(`output_scale`·n))) + zero point), as ONNX Runtime's
/// `QLinearGlobalAveragePool`; half away from zero as [`q8_pool`]. `out_map` has one row and one column.
///
/// Errors: as [`q8_pool`], a map so large that the sum could overflow.
pub fn q8_global_pool(
    isa: Isa,
    kind: PoolKind,
    quant: &PoolQuant,
    x: &[u8],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let spec = global(kind, in_map, out_map)?;
    let own = quant.rounding == Rounding::HalfToEven && quant.requantize == Requantize::Float;
    if kind == PoolKind::Max || !own {
        return q8_pool(isa, &spec, quant, x, in_map, y, out_map, pool);
    }
    quant.check(&spec, in_map)?;
    drive(Level::new(isa), MeanBytes::new(*quant), &spec, x, in_map, y, out_map, pool)
}
