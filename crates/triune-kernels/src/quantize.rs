//! The border between reals and quantized integers, element by element. Knows no padding (see `tensor_info`).

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::Rounding;

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::{Error, Isa, Nhwc, Pool, Q8, math, parallel};

/// Limits of a rounded quotient before the zero point is added.
#[derive(Clone, Copy)]
struct Steps {
    low: f32,
    high: f32,
    zero: u8,
}

impl Steps {
    #[inline(always)]
    fn half_to_even(self, quotient: f32) -> u8 {
        // NaN fails the comparison, which is one instruction as it stands here.
        let quotient = if quotient > self.low { quotient } else { self.low };
        math::round_to_byte(quotient, self.low, self.high).wrapping_add(self.zero)
    }
}

fn check(scale: f32) -> Result<(), Error> {
    if scale.is_finite() && scale > 0.0 {
        Ok(())
    } else {
        Err(Error::Invalid("scales must be positive and finite"))
    }
}

fn steps(q: Q8) -> Result<Steps, Error> {
    q.check()?;
    let ([low, high], zero) = (q.range(), q.zero_point);
    Ok(Steps { low: (low - zero) as f32, high: (high - zero) as f32, zero: zero as u8 })
}

/// y = clamp(rint(x / scale) + zero point), as ONNX `QuantizeLinear`: a true division, half to even; NaN gives the
/// type's lowest value, as in ONNX Runtime. Half away from zero, y = clamp(round(x · f32(1/scale)) + zero point) (see
/// [`triune_tensor::QuantParams::quantize_by`]).
///
/// Errors: extents that differ, slices shorter than their maps, a scale that is not positive and finite.
pub fn quantize(
    isa: Isa,
    scale: f32,
    q: Q8,
    rounding: Rounding,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    check(scale)?;
    quantize_by(isa, scale, q, rounding, x, in_map, y, out_map, pool)
}

/// The same with a scale that may be any number: what is none by it becomes the type's lowest value.
///
/// Errors: extents that differ, slices shorter than their maps.
pub fn quantize_by(
    isa: Isa,
    scale: f32,
    q: Q8,
    rounding: Rounding,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let (level, quantizer) = (Level::new(isa), Quantizer::new(scale, q, rounding)?);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| quantizer.run(level, x, y))
}

/// What makes bytes of a run of reals.
#[derive(Clone, Copy)]
pub(crate) struct Quantizer {
    scale: f32,
    steps: Steps,
    rounding: Rounding,
}

impl Quantizer {
    /// Of any scale. Errors: a zero point outside of its type.
    pub(crate) fn new(scale: f32, q: Q8, rounding: Rounding) -> Result<Self, Error> {
        Ok(Self { scale, steps: steps(q)?, rounding })
    }

    /// As [`quantize_by`].
    pub(crate) fn run(&self, level: Level, x: &[f32], y: &mut [u8]) {
        match self.rounding {
            // A quotient by 1 is what it was of; divisions take longer than all the rest.
            Rounding::HalfToEven if self.scale == 1.0 => quantize_whole_run(level, self.steps, x, y),
            Rounding::HalfToEven => quantize_run(level, self.scale, self.steps, x, y),
            Rounding::HalfAwayFromZero => quantize_away_run(level, 1.0 / self.scale, self.steps, x, y),
        }
    }
}

multiversion! {
    fn quantize_away_run(inverse: f32, steps: Steps, x: &[f32], y: &mut [u8]) {
        for (y, &x) in y.iter_mut().zip(x) {
            let quotient = x * inverse;
            // NaN fails the comparison.
            let quotient = if quotient >= steps.low { quotient } else { steps.low };
            *y = math::round_away_to_byte(quotient, steps.low, steps.high).wrapping_add(steps.zero);
        }
    }
}

multiversion! {
    fn quantize_run(scale: f32, steps: Steps, x: &[f32], y: &mut [u8]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = steps.half_to_even(x / scale);
        }
    }
}

multiversion! {
    fn quantize_whole_run(steps: Steps, x: &[f32], y: &mut [u8]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = steps.half_to_even(x);
        }
    }
}

/// y = f32(q − zero point) · scale for bytes.
///
/// Errors: extents that differ, slices shorter than their maps.
pub fn dequantize(
    isa: Isa,
    scale: f32,
    q: Q8,
    x: &[u8],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    q.check()?;
    let (flip, zero) = unbias(q);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| dequantize_run(level, scale, flip, zero, x, y))
}

/// The xor that turns a byte into its value shifted to 0..=255, and the zero point under the same shift.
pub(crate) fn unbias(q: Q8) -> (u8, i32) {
    (q.flip(), q.zero_point + i32::from(q.flip()))
}

multiversion! {
    /// y = f32((x ^ flip) − zero) · scale.
    pub(crate) fn dequantize_run(scale: f32, flip: u8, zero: i32, x: &[u8], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = (i32::from(x ^ flip) - zero) as f32 * scale;
        }
    }
}

/// y = f32(q) · scale for 32-bit integers; `scales` holds one scale for all or one per channel.
///
/// Errors: extents that differ, slices shorter than their maps, scales that are neither one nor one per channel.
pub fn dequantize_i32(
    isa: Isa,
    scales: &[f32],
    x: &[i32],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    if let [scale] = *scales {
        return parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| scale_run(level, scale, x, y));
    }
    Error::check_eq("scales", in_map.c, scales.len())?;
    channels(pool, x, in_map, y, out_map, &|x, y| scale_pixel(level, scales, x, y))
}

multiversion! {
    fn scale_run(scale: f32, x: &[i32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x as f32 * scale;
        }
    }
}

multiversion! {
    fn scale_pixel(scales: &[f32], x: &[i32], y: &mut [f32]) {
        for ((y, &x), &scale) in y.iter_mut().zip(x).zip(scales) {
            *y = x as f32 * scale;
        }
    }
}

/// Checks both operands, then calls `f` pixel by pixel.
fn channels<T: Sync, U: Send>(
    pool: &Pool,
    x: &[T],
    in_map: Nhwc,
    y: &mut [U],
    out_map: Nhwc,
    f: &(dyn Fn(&[T], &mut [U]) + Sync),
) -> Result<(), Error> {
    parallel::same_extents(in_map, out_map)?;
    Error::check_len("input", x.len(), in_map.span())?;
    parallel::check_output(y, out_map)?;
    parallel::rows(pool, y, out_map, &|n, h, row| {
        for part in spans(out_map.w, out_map.c) {
            for w in part {
                let x = &x[in_map.offset(n, h, w)..][..in_map.c];
                f(x, &mut row[w * out_map.stride_w..][..out_map.c]);
            }
        }
    });
    Ok(())
}
