//! 16-bit integers, symmetric: convolution, sum, product, and the way from and to reals.
//!
//! Sums are exact in i64, factors are f64, halves go where the rounding says. Loops are plain: what vectorises does so by
//! itself, and every instruction set gives the same bits. Pools lie with those of bytes.

use triune_tensor::Rounding;

use crate::cancel::spans;
use crate::eltwise::combine;
use crate::parallel;
use crate::{Broadcast, ConvGeometry, Error, Nhwc, Pool};

/// What an integer of 16 bits can be.
pub(crate) const RANGE: [i32; 2] = [i16::MIN as i32, i16::MAX as i32];

/// How a real becomes an integer of 16 bits: clamp(round(real)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WideTarget {
    /// Where halves go.
    pub rounding: Rounding,
    /// Smallest and largest result; cut to 16 bits.
    pub clamp: [i32; 2],
}

impl WideTarget {
    /// The whole range.
    pub const fn full(rounding: Rounding) -> Self {
        Self { rounding, clamp: RANGE }
    }

    fn check(self) -> Result<Self, Error> {
        let clamp = [self.clamp[0].max(RANGE[0]), self.clamp[1].min(RANGE[1])];
        if clamp[0] <= clamp[1] {
            Ok(Self { clamp, ..self })
        } else {
            Err(Error::Invalid("empty clamp range"))
        }
    }

    /// The integer of a real that is no NaN.
    #[inline]
    pub(crate) fn integer(self, real: f64) -> i16 {
        let rounded = match self.rounding {
            Rounding::HalfToEven => real.round_ties_even(),
            Rounding::HalfAwayFromZero => real.round(),
        };
        rounded.clamp(f64::from(self.clamp[0]), f64::from(self.clamp[1])) as i16
    }
}

/// A convolution of 16-bit integers: clamp(round(f64(Σ weight · x + bias) · multiplier)).
#[derive(Clone, Copy, Debug)]
pub struct WideConvSpec<'a> {
    /// Window and groups.
    pub geometry: ConvGeometry,
    /// Channels of the input map.
    pub in_channels: usize,
    /// Channels of the output map.
    pub out_channels: usize,
    /// Weights in the order output channel, kernel row, kernel column, input channel of the group.
    pub weights: &'a [i16],
    /// One per output channel, in units of input scale × weight scale.
    pub bias: Option<&'a [i32]>,
    /// Input scale × weight scale / output scale: one per output channel, or one for all. Finite.
    pub multiplier: &'a [f32],
    /// What results are.
    pub target: WideTarget,
}

/// A convolution of 16-bit integers, ready to run on any map size.
#[derive(Clone, Debug)]
pub struct WideConv {
    geometry: ConvGeometry,
    in_channels: usize,
    weights: Vec<i16>,
    /// One each per output channel.
    bias: Vec<i64>,
    multiplier: Vec<f64>,
    target: WideTarget,
}

impl WideConv {
    /// Checks the parameters.
    ///
    /// Errors: lengths that do not fit the channels, zero extents, channels that the groups do not divide, multipliers
    /// that are not finite, inner products so long that a sum could overflow i64.
    pub fn new(spec: &WideConvSpec<'_>) -> Result<Self, Error> {
        let g = spec.geometry;
        let [kh, kw] = g.kernel;
        if spec.in_channels == 0 || spec.out_channels == 0 || g.groups == 0 {
            return Err(Error::Invalid("zero channels or groups"));
        }
        if [kh, kw].contains(&0) || g.stride.contains(&0) || g.dilation.contains(&0) {
            return Err(Error::Invalid("zero kernel, stride or dilation"));
        }
        if !spec.in_channels.is_multiple_of(g.groups) || !spec.out_channels.is_multiple_of(g.groups) {
            return Err(Error::Invalid("groups do not divide the channels"));
        }
        let depth = kh.checked_mul(kw).and_then(|taps| taps.checked_mul(spec.in_channels / g.groups));
        // 2³⁰ per product leave room for 2³² of them.
        let depth = depth.filter(|&depth| depth < 1 << 32).ok_or(Error::Invalid("kernel size overflows"))?;
        let elements = depth.checked_mul(spec.out_channels).ok_or(Error::Invalid("weight size overflows"))?;
        Error::check_eq("weights", elements, spec.weights.len())?;
        let bias = match spec.bias {
            Some(bias) => bias.iter().map(|&bias| i64::from(bias)).collect(),
            None => vec![0; spec.out_channels],
        };
        Error::check_eq("bias", spec.out_channels, bias.len())?;
        let multiplier: Vec<f64> = match spec.multiplier {
            &[one] => vec![one.into(); spec.out_channels],
            all => all.iter().map(|&each| each.into()).collect(),
        };
        Error::check_eq("multiplier", spec.out_channels, multiplier.len())?;
        if !multiplier.iter().all(|m| m.is_finite()) {
            return Err(Error::Invalid("multipliers must be finite"));
        }
        let weights = spec.weights.to_vec();
        let target = spec.target.check()?;
        Ok(Self { geometry: g, in_channels: spec.in_channels, weights, bias, multiplier, target })
    }

    /// Computes `output` from `input`. The slices start at the first element of their maps; gaps of the output are left
    /// alone.
    ///
    /// Errors: extents that do not agree, slices shorter than their maps, an output map that overlaps itself.
    pub fn run(
        &self,
        input: &[i16],
        in_map: Nhwc,
        output: &mut [i16],
        out_map: Nhwc,
        pool: &Pool,
    ) -> Result<(), Error> {
        let g = &self.geometry;
        Error::check_eq("input channels", self.in_channels, in_map.c)?;
        Error::check_eq("output channels", self.bias.len(), out_map.c)?;
        Error::check_eq("batch", in_map.n, out_map.n)?;
        let extents = g.output(in_map.h, in_map.w);
        let [h, w] = extents.ok_or(Error::Invalid("the window does not fit the padded input"))?;
        Error::check_eq("output rows", h, out_map.h)?;
        Error::check_eq("output columns", w, out_map.w)?;
        Error::check_len("input", input.len(), in_map.span())?;
        parallel::check_output(output, out_map)?;
        parallel::rows(pool, output, out_map, &|n, y, row| {
            for x in spans(out_map.w, self.weights.len()).flatten() {
                let pixel = &mut row[x * out_map.stride_w..][..out_map.c];
                for channel in spans(out_map.c, self.weights.len() / out_map.c.max(1)).flatten() {
                    let sum = self.sum(input, in_map, [n, y, x], channel);
                    pixel[channel] = self.target.integer(sum as f64 * self.multiplier[channel]);
                }
            }
        });
        Ok(())
    }

    fn sum(&self, input: &[i16], map: Nhwc, [n, y, x]: [usize; 3], channel: usize) -> i64 {
        let g = &self.geometry;
        let [kh, kw] = g.kernel;
        let depth = self.in_channels / g.groups;
        let first = channel / (self.bias.len() / g.groups) * depth;
        let weights = &self.weights[channel * kh * kw * depth..][..kh * kw * depth];
        let mut sum = self.bias[channel];
        for ky in 0..kh {
            // Taps in the padding add nothing.
            let row = (y * g.stride[0] + ky * g.dilation[0]).checked_sub(g.pad[0]).filter(|&row| row < map.h);
            let Some(row) = row else { continue };
            for kx in 0..kw {
                let column = (x * g.stride[1] + kx * g.dilation[1]).checked_sub(g.pad[1]);
                let Some(column) = column.filter(|&column| column < map.w) else { continue };
                let taps = &input[map.offset(n, row, column) + first..][..depth];
                let weights = &weights[(ky * kw + kx) * depth..][..depth];
                sum += taps
                    .iter()
                    .zip(weights)
                    .map(|(&x, &w)| i64::from(i32::from(x) * i32::from(w)))
                    .sum::<i64>();
            }
        }
        sum
    }
}

/// out = clamp(round(a · `factors[0]` + b · `factors[1]`)), in f64.
///
/// Errors: slices shorter than the nest's spans, factors that are not finite.
pub fn wide_add(
    factors: [f32; 2],
    target: WideTarget,
    shape: &Broadcast,
    a: &[i16],
    b: &[i16],
    out: &mut [i16],
    pool: &Pool,
) -> Result<(), Error> {
    let [ra, rb] = finite(factors)?;
    let target = target.check()?;
    shape.runs(a, b, out, pool, &|run, out, stride| {
        // Products of 16 and 24 bits are exact.
        combine(run, out, stride, |a: i16, b: i16| target.integer(f64::from(a) * ra + f64::from(b) * rb));
    })
}

/// out = clamp(round(a · b · factor)), in f64.
///
/// Errors: as [`wide_add`].
pub fn wide_mul(
    factor: f32,
    target: WideTarget,
    shape: &Broadcast,
    a: &[i16],
    b: &[i16],
    out: &mut [i16],
    pool: &Pool,
) -> Result<(), Error> {
    let [factor] = finite([factor])?;
    let target = target.check()?;
    shape.runs(a, b, out, pool, &|run, out, stride| {
        combine(run, out, stride, |a: i16, b: i16| {
            target.integer(f64::from(i32::from(a) * i32::from(b)) * factor)
        });
    })
}

fn finite<const N: usize>(factors: [f32; N]) -> Result<[f64; N], Error> {
    if factors.iter().all(|factor| factor.is_finite()) {
        Ok(factors.map(f64::from))
    } else {
        Err(Error::Invalid("factors must be finite"))
    }
}

/// y = clamp(round(x / scale) + zero point) as 16 bits, by the rule of [`triune_tensor::QuantParams::quantize_by`].
///
/// Errors: extents that differ, slices shorter than their maps, a scale that is not positive and finite, a zero point that
/// 16 bits do not hold.
pub fn quantize_wide(
    params: triune_tensor::QuantParams,
    rounding: Rounding,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [i16],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    check_params(params)?;
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = params.quantize_by(rounding, x, triune_tensor::DType::I16) as i16;
        }
    })
}

/// y = f32(q − zero point) · scale of 16 bits.
///
/// Errors: as [`quantize_wide`].
pub fn dequantize_wide(
    params: triune_tensor::QuantParams,
    x: &[i16],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    check_params(params)?;
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| {
        for (y, &q) in y.iter_mut().zip(x) {
            *y = (i32::from(q) - params.zero_point) as f32 * params.scale;
        }
    })
}

/// y = `table[x]`, indexed by the unsigned pattern of 16 bits.
///
/// Errors: a table of another length than 65,536, extents that differ, slices shorter than their maps.
pub fn table_wide(
    table: &[i16],
    x: &[i16],
    in_map: Nhwc,
    y: &mut [i16],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    Error::check_eq("table", 1 << 16, table.len())?;
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = table[usize::from(x.cast_unsigned())];
        }
    })
}

fn check_params(params: triune_tensor::QuantParams) -> Result<(), Error> {
    if !(params.scale.is_finite() && params.scale > 0.0) {
        return Err(Error::Invalid("scales must be positive and finite"));
    }
    if (RANGE[0]..=RANGE[1]).contains(&params.zero_point) {
        Ok(())
    } else {
        Err(Error::Invalid("zero point outside of 16 bits"))
    }
}
