//! Normalization of bytes to mean 0 and variance 1, or to a mean square of 1, along one axis of a dense tensor seen as (outer, axis, inner).

use triune_tensor::{QuantParams, Rounding};

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::quantize::Quantizer;
use crate::{AxisShape, Error, Isa, Pool, Q8};

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
    pub fn run(&self, isa: Isa, shape: AxisShape, x: &[u8], y: &mut [u8], pool: &Pool) -> Result<(), Error> {
        let elements = shape.elements()?;
        Error::check_eq("axis", self.len, shape.len)?;
        Error::check_eq("input", elements, x.len())?;
        Error::check_eq("output", elements, y.len())?;
        if elements == 0 {
            return Ok(());
        }
        let (shared, level) = (Shared::new(y), Level::new(isa));
        let quantizer = Quantizer::new(self.output.scale, self.own(self.output.zero_point), self.rounding)?;
        let block = shape.len * shape.inner;
        parallel::ranges(pool, shape.outer, GRAIN.div_ceil(8 * block), &|range| {
            for outer in range {
                let x = &x[outer * block..][..block];
                // SAFETY: blocks are disjoint and inside of the slice.
                let y = unsafe { shared.piece(outer * block, block) };
                for column in spans(shape.inner, shape.len.saturating_mul(8)).flatten() {
                    self.column(level, &quantizer, &x[column..], &mut y[column..], shape.inner);
                }
            }
        });
        Ok(())
    }

    fn own(&self, zero_point: i32) -> Q8 {
        Q8 { signed: self.signed, zero_point }
    }

    fn column(&self, level: Level, quantizer: &Quantizer, x: &[u8], y: &mut [u8], stride: usize) {
        let flip = self.own(0).flip();
        // What is taken from a flipped byte so that it counts from where the others do.
        let start = self.about.unwrap_or(0) + i32::from(flip);
        let mut room = [0; PIECE];
        let (mut sum, mut squares) = (0_i64, 0_i64);
        for piece in spans(self.len.div_ceil(PIECE), PIECE).flatten() {
            let own = sums(level, piece_of(x, self.len, stride, piece, &mut room), flip, start);
            sum += i64::from(own[0]);
            squares += i64::from(own[1]);
        }
        if self.about.is_some() {
            sum = 0;
        }
        let len = self.len as i64;
        // By Cauchy and Schwarz not below 0, unless a stopped run has left elements out.
        let root = ((len * squares - sum * sum).max(0) as f64 + self.room).sqrt();
        let (mut reals, mut bytes) = ([0.0; PIECE], [0; PIECE]);
        for piece in spans(self.len.div_ceil(PIECE), 8 * PIECE).flatten() {
            let (first, own) = (piece * PIECE, piece_of(x, self.len, stride, piece, &mut room));
            let reals = &mut reals[..own.len()];
            // Integers below 2⁵³, which f64 has.
            normalize(level, own, flip, [f64::from(start), len as f64, sum as f64, root], reals);
            if let Some(gamma) = &self.gamma {
                reals.iter_mut().zip(&gamma[first..]).for_each(|(real, gamma)| *real *= gamma);
            }
            if let Some(beta) = &self.beta {
                reals.iter_mut().zip(&beta[first..]).for_each(|(real, beta)| *real += beta);
            }
            if stride == 1 {
                quantizer.run(level, reals, &mut y[first..][..reals.len()]);
            } else {
                quantizer.run(level, reals, &mut bytes[..reals.len()]);
                let to = y[first * stride..].iter_mut().step_by(stride);
                to.zip(&bytes[..reals.len()]).for_each(|(y, byte)| *y = *byte);
            }
        }
    }
}

/// Elements of a row that are gone over together; their sums of squares fit an i32.
const PIECE: usize = 512;

/// A piece of a row of `len` elements that lie `stride` apart, brought together in `room` where they do not.
fn piece_of<'a>(x: &'a [u8], len: usize, stride: usize, piece: usize, room: &'a mut [u8; PIECE]) -> &'a [u8] {
    let first = piece * PIECE;
    let count = PIECE.min(len - first);
    if stride == 1 {
        return &x[first..][..count];
    }
    let own = &mut room[..count];
    own.iter_mut().zip(x[first * stride..].iter().step_by(stride)).for_each(|(own, x)| *own = *x);
    own
}

multiversion! {
    /// Σq and Σq² of at most [`PIECE`] bytes.
    fn sums(x: &[u8], flip: u8, start: i32) -> [i32; 2] {
        let (mut sum, mut squares) = (0, 0);
        for &x in x {
            let q = i32::from(x ^ flip) - start;
            sum += q;
            squares += q * q;
        }
        [sum, squares]
    }
}

multiversion! {
    /// f32((len·q − S)/root).
    fn normalize(x: &[u8], flip: u8, of: [f64; 4], reals: &mut [f32]) {
        let [start, len, sum, root] = of;
        for (real, &x) in reals.iter_mut().zip(x) {
            let q = f64::from(x ^ flip) - start;
            *real = ((len * q - sum) / root) as f32;
        }
    }
}
