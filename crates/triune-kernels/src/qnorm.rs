//! Normalization of bytes to mean 0 and variance 1, or to a mean square of 1, along one axis of a dense tensor seen as (outer, axis, inner).

use triune_tensor::{DType, QuantParams, Rounding};

use crate::cancel::spans;
use crate::parallel::{self, GRAIN, Shared};
use crate::{AxisShape, Error, Pool, Q8};

/// What a normalization is: (x − mean)/√(variance + ε)·gamma + beta, or with 0 in the place of the mean.
#[derive(Clone, Copy, Debug)]
pub struct QNormSpec<'a> {
    /// Elements of an axis, at most [`QNorm::MAX_LEN`].
    pub len: usize,
    /// Whether bytes are i8.
    pub signed: bool,
    /// The operand's zero point, where that is in the place of the mean; it plays no part else.
    pub about: Option<i32>,
    /// The operand's scale.
    pub scale: f32,
    /// ε, above 0.
    pub epsilon: f32,
    /// One per element of the axis, else 1.
    pub gamma: Option<&'a [f32]>,
    /// One per element of the axis, else 0.
    pub beta: Option<&'a [f32]>,
    /// What results stand for; of the operand's type.
    pub output: QuantParams,
    /// Where halves go.
    pub rounding: Rounding,
}

/// A normalization ready to run.
#[derive(Clone, Debug)]
pub struct QNorm {
    signed: bool,
    about: Option<i32>,
    len: usize,
    /// len²·ε/scale².
    room: f64,
    gamma: Option<Vec<f32>>,
    beta: Option<Vec<f32>>,
    output: QuantParams,
    rounding: Rounding,
}

impl QNorm {
    /// Longest axes: the exact sums fit an i64.
    pub const MAX_LEN: usize = 1 << 22;

    /// Checks the description.
    ///
    /// Errors: an axis that is too long, scales and an ε that are not positive and finite, a zero point outside of its type,
    /// factors or addends of another number than the axis has elements.
    pub fn new(spec: &QNormSpec<'_>) -> Result<Self, Error> {
        if spec.len > Self::MAX_LEN {
            return Err(Error::Invalid("an axis whose sums overflow"));
        }
        if ![spec.scale, spec.output.scale, spec.epsilon].iter().all(|each| each.is_finite() && *each > 0.0) {
            return Err(Error::Invalid("scales and epsilon must be positive and finite"));
        }
        for zero_point in [spec.output.zero_point, spec.about.unwrap_or(spec.output.zero_point)] {
            Q8 { signed: spec.signed, zero_point }.check()?;
        }
        for (name, row) in [("gamma", spec.gamma), ("beta", spec.beta)] {
            if let Some(row) = row {
                Error::check_eq(name, spec.len, row.len())?;
            }
        }
        let (len, scale) = (spec.len as f64, f64::from(spec.scale));
        Ok(Self {
            signed: spec.signed,
            about: spec.about,
            len: spec.len,
            room: len * len * f64::from(spec.epsilon) / (scale * scale),
            gamma: spec.gamma.map(<[f32]>::to_vec),
            beta: spec.beta.map(<[f32]>::to_vec),
            output: spec.output,
            rounding: spec.rounding,
        })
    }

    /// Computes `y` from `x`, both dense. S = Σq and D = len·Σq² − S² are exact; r = f32((len·q − S)/√(D + len²·ε/scale²))
    /// in f64, then f32 products and sums, and quantization. With a zero point instead of the mean, q counts from there and S is 0.
    ///
    /// Errors: slices that do not have the shape's number of elements, another axis length than prepared for.
    pub fn run(&self, shape: AxisShape, x: &[u8], y: &mut [u8], pool: &Pool) -> Result<(), Error> {
        let elements = shape.elements()?;
        Error::check_eq("axis", self.len, shape.len)?;
        Error::check_eq("input", elements, x.len())?;
        Error::check_eq("output", elements, y.len())?;
        if elements == 0 {
            return Ok(());
        }
        let shared = Shared::new(y);
        let block = shape.len * shape.inner;
        parallel::ranges(pool, shape.outer, GRAIN.div_ceil(8 * block), &|range| {
            for outer in range {
                let x = &x[outer * block..][..block];
                // SAFETY: blocks are disjoint and inside of the slice.
                let y = unsafe { shared.piece(outer * block, block) };
                for column in spans(shape.inner, shape.len.saturating_mul(8)).flatten() {
                    self.column(&x[column..], &mut y[column..], shape.inner);
                }
            }
        });
        Ok(())
    }

    fn column(&self, x: &[u8], y: &mut [u8], stride: usize) {
        let own = Q8 { signed: self.signed, zero_point: 0 };
        let start = i64::from(self.about.unwrap_or(0));
        let value = |i: usize| i64::from(own.value(x[i * stride])) - start;
        let (mut sum, mut squares) = (0_i64, 0_i64);
        for part in spans(self.len, 1) {
            for i in part {
                sum += value(i);
                squares += value(i) * value(i);
            }
        }
        if self.about.is_some() {
            sum = 0;
        }
        let len = self.len as i64;
        // By Cauchy and Schwarz not below 0, unless a stopped run has left elements out.
        let root = ((len * squares - sum * sum).max(0) as f64 + self.room).sqrt();
        let dtype = if self.signed { DType::I8 } else { DType::U8 };
        for part in spans(self.len, 8) {
            for i in part {
                let mut real = ((len * value(i) - sum) as f64 / root) as f32;
                if let Some(gamma) = &self.gamma {
                    real *= gamma[i];
                }
                if let Some(beta) = &self.beta {
                    real += beta[i];
                }
                y[i * stride] = self.output.quantize_by(self.rounding, real, dtype) as u8;
            }
        }
    }
}
