//! Quantize and pad, depad and dequantize in one pass: what stands between an application's dense tensor and a device
//! tensor whose axes are padded to the hardware's widths. Knows no device.

use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::quantize::{dequantize_run, unbias};
use crate::tables::look_up;
use crate::{Error, Isa, Pool, Q8, math};

/// Most axes that a padded tensor may have.
pub const MAX_RANK: usize = 8;

/// One axis: elements of the dense tensor, and what padding adds before and behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    before: usize,
    len: usize,
    after: usize,
}

impl Axis {
    const ONE: Self = Self { before: 0, len: 1, after: 0 };

    fn padded(self) -> usize {
        self.before + self.len + self.after
    }

    fn is_padded(self) -> bool {
        self.before + self.after > 0
    }
}

/// The layout of a padded 8-bit tensor and how its elements are encoded.
///
/// Quantization is clamp(rint(f32(f32(x / scale) + zero point))): the zero point is added *before* rounding, unlike ONNX
/// `QuantizeLinear`. Padding is filled with the zero point.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorPad {
    /// Rows of pixels, outermost first; axes without padding are merged into the one in front of them.
    outer: Vec<Axis>,
    pixels: Axis,
    channels: Axis,
    scale: f32,
    q: Q8,
}

/// Bytes of the buffer in which a row is staged between quantization and padding.
const STAGE: usize = 4096;

impl TensorPad {
    /// `shape` is the padded shape, `padding` what of it lies before and behind the dense tensor, per axis.
    ///
    /// Errors: more than [`MAX_RANK`] axes, padding that exceeds its axis, products that overflow, a scale that is not
    /// positive and finite, a zero point outside of its type.
    pub fn new(shape: &[usize], padding: &[(usize, usize)], scale: f32, q: Q8) -> Result<Self, Error> {
        Error::check_eq("padding axes", shape.len(), padding.len())?;
        if shape.len() > MAX_RANK {
            return Err(Error::Invalid("at most eight axes"));
        }
        if !(scale.is_finite() && scale > 0.0) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        q.check()?;
        shape
            .iter()
            .try_fold(1usize, |total, &extent| total.checked_mul(extent.max(1)))
            .ok_or(Error::Invalid("extents overflow"))?;
        let mut axes = Vec::with_capacity(MAX_RANK + 2);
        for (&extent, &(before, after)) in shape.iter().zip(padding) {
            let len = before
                .checked_add(after)
                .and_then(|padding| extent.checked_sub(padding))
                .ok_or(Error::Invalid("padding exceeds its axis"))?;
            axes.push(Axis { before, len, after });
        }
        let mut merged: Vec<Axis> = vec![Axis::ONE, Axis::ONE];
        for axis in axes {
            match merged.last_mut() {
                Some(outer) if !axis.is_padded() => {
                    outer.before *= axis.len;
                    outer.len *= axis.len;
                    outer.after *= axis.len;
                }
                _ => merged.push(axis),
            }
        }
        let channels = merged.pop().unwrap_or(Axis::ONE);
        let pixels = merged.pop().unwrap_or(Axis::ONE);
        Ok(Self { outer: merged, pixels, channels, scale, q })
    }

    /// Elements of the dense tensor.
    pub fn dense_len(&self) -> usize {
        self.axes().map(|axis| axis.len).product()
    }

    /// Elements, that is bytes, of the padded tensor.
    pub fn padded_len(&self) -> usize {
        self.axes().map(Axis::padded).product()
    }

    fn axes(&self) -> impl Iterator<Item = Axis> {
        self.outer.iter().copied().chain([self.pixels, self.channels])
    }

    /// The byte that padding is filled with.
    fn fill(&self) -> u8 {
        self.q.zero_point as u8
    }

    /// The dense row that belongs to a padded row, unless that is padding.
    fn dense_row(&self, mut row: usize) -> Option<usize> {
        let (mut dense, mut step) = (0, 1);
        for axis in self.outer.iter().rev() {
            let at = (row % axis.padded()).checked_sub(axis.before).filter(|&at| at < axis.len)?;
            row /= axis.padded();
            dense += at * step;
            step *= axis.len;
        }
        Some(dense)
    }

    /// Calls `f(dense row, padded bytes of the pixels inside)` for every row after filling its padding.
    fn padded_rows(
        &self,
        y: &mut [u8],
        pool: &Pool,
        f: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<(), Error> {
        Error::check_eq("padded tensor", self.padded_len(), y.len())?;
        let width = self.channels.padded();
        let row_len = self.pixels.padded() * width;
        if y.is_empty() {
            return Ok(());
        }
        let rows = y.len() / row_len;
        let shared = Shared::new(y);
        parallel::ranges(pool, rows, (4 * GRAIN).div_ceil(row_len), &|range| {
            for row in range {
                // SAFETY: rows are disjoint and inside of the slice.
                let y = unsafe { shared.piece(row * row_len, row_len) };
                let Some(dense) = self.dense_row(row) else {
                    y.fill(self.fill());
                    continue;
                };
                let (before, y) = y.split_at_mut(self.pixels.before * width);
                let (inside, after) = y.split_at_mut(self.pixels.len * width);
                before.fill(self.fill());
                f(dense, inside);
                after.fill(self.fill());
            }
        });
        Ok(())
    }

    /// Fills `y` pixel by pixel from bytes that `make(first element, bytes)` provides in dense order.
    fn spread(&self, level: Level, y: &mut [u8], make: impl Fn(usize, &mut [u8])) {
        let (channels, width) = (self.channels, self.channels.padded());
        if !channels.is_padded() {
            make(0, y);
            return;
        }
        if channels.len == 0 || channels.len > STAGE / 2 {
            for (pixel, y) in y.chunks_exact_mut(width).enumerate() {
                y.fill(self.fill());
                make(pixel * channels.len, &mut y[channels.before..][..channels.len]);
            }
            return;
        }
        let mut stage = [0u8; STAGE];
        let block = STAGE / channels.len;
        for (index, y) in y.chunks_mut(block * width).enumerate() {
            let stage = &mut stage[..y.len() / width * channels.len];
            make(index * block * channels.len, stage);
            widen(level, stage, y, channels, self.fill());
        }
    }

    /// Quantizes and pads a dense f32 tensor.
    ///
    /// Errors: `x` and `y` that do not have [`TensorPad::dense_len`] and [`TensorPad::padded_len`] elements.
    pub fn quantize_f32(&self, isa: Isa, x: &[f32], y: &mut [u8], pool: &Pool) -> Result<(), Error> {
        Error::check_eq("dense tensor", self.dense_len(), x.len())?;
        let level = Level::new(isa);
        let row_len = self.pixels.len * self.channels.len;
        self.padded_rows(y, pool, &|row, y| {
            let x = &x[row * row_len..][..row_len];
            self.spread(level, y, |first, bytes| {
                let x = &x[first..][..bytes.len()];
                quantize_run(level, self.scale, self.q, x, bytes);
            });
        })
    }

    /// Pads a dense tensor of bytes, each replaced through `table` (see [`TensorPad::table`]).
    ///
    /// Errors: as [`TensorPad::quantize_f32`].
    pub fn quantize_u8(
        &self,
        isa: Isa,
        table: &[u8; 256],
        x: &[u8],
        y: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        Error::check_eq("dense tensor", self.dense_len(), x.len())?;
        let level = Level::new(isa);
        let row_len = self.pixels.len * self.channels.len;
        self.padded_rows(y, pool, &|row, y| {
            let x = &x[row * row_len..][..row_len];
            self.spread(level, y, |first, bytes| look_up(level, table, &x[first..][..bytes.len()], bytes));
        })
    }

    /// The bytes that the 256 values `real(0)` … `real(255)` quantize to: the whole of a camera's normalisation.
    pub fn table(&self, real: impl Fn(u8) -> f32) -> [u8; 256] {
        std::array::from_fn(|i| {
            let mut byte = [0];
            quantize_run(Level::new(Isa::Scalar), self.scale, self.q, &[real(i as u8)], &mut byte);
            byte[0]
        })
    }

    /// Removes the padding of `x` and dequantizes: f32(q − zero point) · scale.
    ///
    /// Errors: `x` and `y` that do not have [`TensorPad::padded_len`] and [`TensorPad::dense_len`] elements.
    pub fn dequantize(&self, isa: Isa, x: &[u8], y: &mut [f32], pool: &Pool) -> Result<(), Error> {
        Error::check_eq("padded tensor", self.padded_len(), x.len())?;
        Error::check_eq("dense tensor", self.dense_len(), y.len())?;
        let level = Level::new(isa);
        let (flip, zero) = unbias(self.q);
        let (channels, width) = (self.channels, self.channels.padded());
        let row_len = self.pixels.len * channels.len;
        if y.is_empty() {
            return Ok(());
        }
        let shared = Shared::new(y);
        let rows = self.outer.iter().map(|axis| axis.len).product();
        parallel::ranges(pool, rows, GRAIN.div_ceil(row_len), &|range| {
            for row in range {
                // SAFETY: rows are disjoint and inside of the slice.
                let y = unsafe { shared.piece(row * row_len, row_len) };
                let at = (self.padded_row(row) * self.pixels.padded() + self.pixels.before) * width;
                let x = &x[at..][..self.pixels.len * width];
                if !channels.is_padded() {
                    dequantize_run(level, self.scale, flip, zero, x, y);
                } else if channels.len > STAGE / 2 {
                    for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(channels.len)) {
                        let x = &x[channels.before..][..channels.len];
                        dequantize_run(level, self.scale, flip, zero, x, y);
                    }
                } else {
                    let mut stage = [0u8; STAGE];
                    let block = STAGE / channels.len;
                    for (x, y) in x.chunks(block * width).zip(y.chunks_mut(block * channels.len)) {
                        let stage = &mut stage[..y.len()];
                        narrow(level, x, stage, channels);
                        dequantize_run(level, self.scale, flip, zero, stage, y);
                    }
                }
            }
        });
        Ok(())
    }

    /// The padded row in which a dense row lies.
    fn padded_row(&self, mut row: usize) -> usize {
        let (mut padded, mut step) = (0, 1);
        for axis in self.outer.iter().rev() {
            padded += (row % axis.len + axis.before) * step;
            row /= axis.len;
            step *= axis.padded();
        }
        padded
    }
}

multiversion! {
    fn quantize_run(scale: f32, q: Q8, x: &[f32], y: &mut [u8]) {
        let [low, high] = q.range().map(|limit| limit as f32);
        let zero = q.zero_point as f32;
        for (y, &x) in y.iter_mut().zip(x) {
            let shifted = x / scale + zero;
            *y = math::round_to_byte(if shifted.is_nan() { zero } else { shifted }, low, high);
        }
    }
}

multiversion! {
    fn widen_any(x: &[u8], y: &mut [u8], channels: Axis, fill: u8) {
        let width = channels.before + channels.len + channels.after;
        for (x, y) in x.chunks_exact(channels.len).zip(y.chunks_exact_mut(width)) {
            let (before, y) = y.split_at_mut(channels.before);
            let (inside, after) = y.split_at_mut(channels.len);
            before.fill(fill);
            inside.copy_from_slice(x);
            after.fill(fill);
        }
    }
}

/// Copies pixels of `channels.len` bytes to pixels of the padded width.
fn widen(level: Level, x: &[u8], y: &mut [u8], channels: Axis, fill: u8) {
    let done =
        if channels == (Axis { before: 0, len: 3, after: 1 }) { widen_3_to_4(level, x, y, fill) } else { 0 };
    widen_any(level, &x[3 * done..], &mut y[4 * done..], channels, fill);
}

/// As [`widen`] for 3 channels to 4, several pixels at a time; returns the pixels done.
fn widen_3_to_4(level: Level, x: &[u8], y: &mut [u8], fill: u8) -> usize {
    match level.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level has AVX2.
        Isa::Avx2 | Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => unsafe { widen_avx2(x, y, fill) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the level has NEON.
        Isa::Neon | Isa::NeonDot => unsafe { widen_neon(x, y, fill) },
        _ => {
            let _ = (x, y, fill);
            0
        }
    }
}

/// As [`narrow`] for 4 channels to 3, several pixels at a time; returns the pixels done.
fn narrow_4_to_3(level: Level, x: &[u8], y: &mut [u8]) -> usize {
    match level.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level has AVX2.
        Isa::Avx2 | Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => unsafe { narrow_avx2(x, y) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the level has NEON.
        Isa::Neon | Isa::NeonDot => unsafe { narrow_neon(x, y) },
        _ => {
            let _ = (x, y);
            0
        }
    }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn widen_neon(x: &[u8], y: &mut [u8], fill: u8) -> usize {
    use std::arch::aarch64::{uint8x16x4_t, vdupq_n_u8, vld3q_u8, vst4q_u8};
    let pixels = x.as_chunks::<48>().0.iter().zip(y.as_chunks_mut::<64>().0);
    let done = 16 * pixels.len();
    for (x, y) in pixels {
        // SAFETY: 48 bytes of the source and 64 of the destination.
        unsafe {
            let own = vld3q_u8(x.as_ptr());
            vst4q_u8(y.as_mut_ptr(), uint8x16x4_t(own.0, own.1, own.2, vdupq_n_u8(fill)));
        }
    }
    done
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn narrow_neon(x: &[u8], y: &mut [u8]) -> usize {
    use std::arch::aarch64::{uint8x16x3_t, vld4q_u8, vst3q_u8};
    let pixels = x.as_chunks::<64>().0.iter().zip(y.as_chunks_mut::<48>().0);
    let done = 16 * pixels.len();
    for (x, y) in pixels {
        // SAFETY: 64 bytes of the source and 48 of the destination.
        unsafe {
            let own = vld4q_u8(x.as_ptr());
            vst3q_u8(y.as_mut_ptr(), uint8x16x3_t(own.0, own.1, own.2));
        }
    }
    done
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn widen_avx2(x: &[u8], y: &mut [u8], fill: u8) -> usize {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_or_si256, _mm256_set_m128i, _mm256_set1_epi32, _mm256_setr_epi8,
        _mm256_shuffle_epi8, _mm256_storeu_si256,
    };
    let order: __m256i = _mm256_setr_epi8(
        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10,
        11, -1,
    );
    let fill = _mm256_set1_epi32(i32::from_le_bytes([0, 0, 0, fill]));
    let mut pixel = 0;
    // The second load reads 28 bytes from the first pixel on.
    while 3 * pixel + 28 <= x.len() && 4 * pixel + 32 <= y.len() {
        // SAFETY: 28 bytes of the source and 32 of the destination are left.
        unsafe {
            let from = x.as_ptr().add(3 * pixel);
            let bytes = _mm256_set_m128i(_mm_loadu_si128(from.add(12).cast()), _mm_loadu_si128(from.cast()));
            let wide = _mm256_or_si256(_mm256_shuffle_epi8(bytes, order), fill);
            _mm256_storeu_si256(y.as_mut_ptr().add(4 * pixel).cast(), wide);
        }
        pixel += 8;
    }
    pixel
}

multiversion! {
    fn narrow_any(x: &[u8], y: &mut [u8], channels: Axis) {
        let width = channels.before + channels.len + channels.after;
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(channels.len)) {
            y.copy_from_slice(&x[channels.before..][..channels.len]);
        }
    }
}

/// Copies the `channels.len` bytes inside of each pixel of the padded width.
fn narrow(level: Level, x: &[u8], y: &mut [u8], channels: Axis) {
    let done =
        if channels == (Axis { before: 0, len: 3, after: 1 }) { narrow_4_to_3(level, x, y) } else { 0 };
    narrow_any(level, &x[4 * done..], &mut y[3 * done..], channels);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn narrow_avx2(x: &[u8], y: &mut [u8]) -> usize {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_setr_epi8, _mm_shuffle_epi8, _mm_storeu_si128};
    let order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    let mut pixel = 0;
    // The second store writes 28 bytes from the first pixel on; the next round overwrites the surplus.
    while 4 * pixel + 32 <= x.len() && 3 * pixel + 28 <= y.len() {
        // SAFETY: 32 bytes of the source and 28 of the destination are left.
        unsafe {
            let from = x.as_ptr().add(4 * pixel);
            let to = y.as_mut_ptr().add(3 * pixel);
            _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(_mm_loadu_si128(from.cast()), order));
            let second = _mm_shuffle_epi8(_mm_loadu_si128(from.add(16).cast()), order);
            _mm_storeu_si128(to.add(12).cast(), second);
        }
        pixel += 8;
    }
    pixel
}
