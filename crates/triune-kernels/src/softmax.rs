//! Softmax over one axis of a dense tensor seen as (outer, axis, inner): f32, and 8-bit as ONNX Runtime defines it.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::function::math as exact;

use crate::cancel::{SPAN, spans};
use crate::copy::{Lines, TILE};
use crate::dispatch::{Level, multiversion};
use crate::eltwise::halved;
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool, Q8, math, tables};
#[cfg(target_arch = "x86_64")]
use crate::{unary_avx2, unary_x86};

/// A dense tensor seen from one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AxisShape {
    /// Product of the extents in front of the axis.
    pub outer: usize,
    /// Extent of the axis.
    pub len: usize,
    /// Product of the extents behind the axis.
    pub inner: usize,
}

impl AxisShape {
    pub(crate) fn elements(&self) -> Result<usize, Error> {
        self.outer
            .checked_mul(self.len)
            .and_then(|elements| elements.checked_mul(self.inner))
            .ok_or(Error::Invalid("extents overflow"))
    }
}

/// Partial sums of every reduction: element i goes to sum i mod `LANES`, then the sums are added pairwise. The order is
/// the same for every layout, instruction set and thread count.
pub(crate) const LANES: usize = TILE;

/// Columns that are reduced side by side when the axis is not innermost.
const COLUMNS: usize = TILE;

#[inline(always)]
pub(crate) fn tree(lanes: [f32; LANES]) -> f32 {
    halved(lanes, |a, b| a + b)
}

/// y = exp(x − max) · (1 / Σ exp(x − max)) along the axis: the quotient is rounded before the product is.
///
/// Errors: slices that do not have the shape's number of elements.
pub fn softmax(isa: Isa, shape: AxisShape, x: &[f32], y: &mut [f32], pool: &Pool) -> Result<(), Error> {
    along(isa, false, shape, x, y, pool)
}

/// y = x − max − ln Σ exp(x − max) along the axis: the difference, the logarithm and what is left are rounded one after the other.
///
/// Errors: as [`softmax`].
pub fn log_softmax(isa: Isa, shape: AxisShape, x: &[f32], y: &mut [f32], pool: &Pool) -> Result<(), Error> {
    along(isa, true, shape, x, y, pool)
}

fn along(isa: Isa, log: bool, shape: AxisShape, x: &[f32], y: &mut [f32], pool: &Pool) -> Result<(), Error> {
    let elements = shape.elements()?;
    Error::check_eq("input", elements, x.len())?;
    Error::check_eq("output", elements, y.len())?;
    if elements == 0 {
        return Ok(());
    }
    let level = Level::new(isa);
    let shared = Shared::new(y);
    let block = shape.len * shape.inner;
    parallel::ranges(pool, shape.outer, GRAIN.div_ceil(4 * block), &|range| {
        // SAFETY: ranges are disjoint and inside of the slice.
        let y = unsafe { shared.piece(range.start * block, range.len() * block) };
        let x = &x[range.start * block..][..range.len() * block];
        if shape.inner == 1 && block <= LANES {
            softmax_short(level, log, block, x, y);
        } else if shape.inner == 1 {
            let together = if block <= SPAN { ROWS * block } else { block };
            for (x, y) in x.chunks(together).zip(y.chunks_mut(together)) {
                softmax_rows(level, log, block, x, y);
            }
        } else {
            for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
                softmax_columns(level, log, shape.len, shape.inner, x, y);
            }
        }
    });
    Ok(())
}

multiversion! {
    /// Rows of at most [`LANES`] elements, as many as there are columns at once.
    fn softmax_short(log: bool, len: usize, x: &[f32], y: &mut [f32]) {
        let (mut from, mut to) = ([[0.0; COLUMNS]; LANES], [[0.0; COLUMNS]; LANES]);
        for (x, y) in x.chunks(COLUMNS * len).zip(y.chunks_mut(COLUMNS * len)) {
            for (row, x) in x.chunks_exact(len).enumerate() {
                for (column, &x) in from.iter_mut().zip(x) {
                    column[row] = x;
                }
            }
            columns(log, len, COLUMNS, 0, COLUMNS, from.as_flattened(), to.as_flattened_mut());
            for (row, y) in y.chunks_exact_mut(len).enumerate() {
                for (column, y) in to.iter().zip(y) {
                    *y = column[row];
                }
            }
        }
    }
}

/// Rows that are gone over together, one step after the other: each step of one waits for the step before.
const ROWS: usize = 8;

/// Up to [`ROWS`] rows of `len` elements.
fn softmax_rows(level: Level, log: bool, len: usize, x: &[f32], y: &mut [f32]) {
    let (mut maxima, mut sums) = ([0.0; ROWS], [[0.0; LANES]; ROWS]);
    for (max, x) in maxima.iter_mut().zip(x.chunks_exact(len)) {
        *max = largest(level, x);
    }
    for ((max, sums), (x, y)) in
        maxima.iter().zip(&mut sums).zip(x.chunks_exact(len).zip(y.chunks_exact_mut(len)))
    {
        for part in spans(len.div_ceil(LANES), LANES) {
            let part = part.start * LANES..len.min(part.end * LANES);
            exp_and_sums(level, &x[part.clone()], *max, &mut y[part], sums);
        }
    }
    for ((max, sums), (x, y)) in maxima.iter().zip(sums).zip(x.chunks_exact(len).zip(y.chunks_exact_mut(len)))
    {
        if log {
            subtract(level, x, *max, logarithm(tree(sums)), y);
        } else {
            scale(level, y, 1.0 / tree(sums));
        }
    }
}

/// The largest element.
pub(crate) fn largest(level: Level, x: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() && x.len() <= SPAN {
        // SAFETY: the level vouches for the features.
        return unsafe { unary_x86::largest(x) };
    }
    largest_any(level, x)
}

multiversion! {
    fn largest_any(x: &[f32]) -> f32 {
        let mut largest = [f32::NEG_INFINITY; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        for part in spans(whole.len(), LANES) {
            for chunk in &whole[part] {
                for (largest, &x) in largest.iter_mut().zip(chunk) {
                    *largest = math::max(x, *largest);
                }
            }
        }
        for (largest, &x) in largest.iter_mut().zip(rest) {
            *largest = math::max(x, *largest);
        }
        halved(largest, math::max)
    }
}

/// Writes e^(x − largest) to y, and adds element i to sum i mod [`LANES`].
fn exp_and_sums(level: Level, x: &[f32], largest: f32, y: &mut [f32], sums: &mut [f32; LANES]) {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() {
        // SAFETY: the level vouches for the features.
        return unsafe { unary_x86::exp_and_sums(x, largest, y, sums) };
    } else if level.isa() >= Isa::Avx2 {
        // SAFETY: as above.
        return unsafe { unary_avx2::exp_and_sums(x, largest, y, sums) };
    }
    exp_and_sums_any(level, x, largest, y, sums);
}

multiversion! {
    fn exp_and_sums_any(x: &[f32], largest: f32, y: &mut [f32], sums: &mut [f32; LANES]) {
        let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks_mut::<LANES>());
        for (x, y) in x.iter().zip(y) {
            if x.iter().fold(true, |all, x| all & math::is_middling(x - largest)) {
                add_each(x, y, sums, |x| math::exp_of_middling(x - largest));
            } else {
                add_each(x, y, sums, |x| math::exp(x - largest));
            }
        }
        add_each(x_rest, y_rest, sums, |x| math::exp(x - largest));
    }
}

/// Writes f(x) to y, and adds each element to its own sum.
#[inline(always)]
pub(crate) fn add_each(x: &[f32], y: &mut [f32], sums: &mut [f32; LANES], f: impl Fn(f32) -> f32) {
    for ((x, y), sum) in x.iter().zip(y).zip(sums) {
        *y = f(*x);
        *sum += *y;
    }
}

fn logarithm(sum: f32) -> f32 {
    exact::log(f64::from(sum)) as f32
}

multiversion! {
    fn subtract(x: &[f32], largest: f32, rest: f32, y: &mut [f32]) {
        for part in spans(y.len(), 1) {
            for (y, &x) in y[part.clone()].iter_mut().zip(&x[part]) {
                *y = (x - largest) - rest;
            }
        }
    }
}

fn scale(level: Level, y: &mut [f32], factor: f32) {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() && y.len() <= SPAN {
        // SAFETY: the level vouches for the features.
        return unsafe { unary_x86::scale(y, factor) };
    }
    scale_any(level, y, factor);
}

multiversion! {
    fn scale_any(y: &mut [f32], factor: f32) {
        for part in spans(y.len(), 1) {
            for y in &mut y[part] {
                *y *= factor;
            }
        }
    }
}

multiversion! {
    fn softmax_columns(log: bool, len: usize, inner: usize, x: &[f32], y: &mut [f32]) {
        for block in spans(inner.div_ceil(COLUMNS), len.saturating_mul(COLUMNS)).flatten() {
            let first = block * COLUMNS;
            // The common width is a constant, for which the loops over columns become vectors.
            if inner - first >= COLUMNS {
                columns(log, len, inner, first, COLUMNS, x, y);
            } else {
                columns(log, len, inner, first, inner - first, x, y);
            }
        }
    }
}

#[inline(always)]
fn columns(log: bool, len: usize, inner: usize, first: usize, width: usize, x: &[f32], y: &mut [f32]) {
    let mut largest = [f32::NEG_INFINITY; COLUMNS];
    for part in spans(len, COLUMNS) {
        for i in part {
            for (largest, &x) in largest.iter_mut().zip(&x[i * inner + first..][..width]) {
                *largest = math::max(x, *largest);
            }
        }
    }
    let mut sums = Lines([[0.0; COLUMNS]; LANES]);
    for part in spans(len, COLUMNS) {
        for i in part {
            let at = i * inner + first;
            let (x, y) = (&x[at..][..width], &mut y[at..][..width]);
            let lane = &mut sums.0[i % LANES];
            let quickly =
                (0..width).fold(true, |all, column| all & math::is_middling(x[column] - largest[column]));
            for column in 0..width {
                let off = x[column] - largest[column];
                y[column] = if quickly { math::exp_of_middling(off) } else { math::exp(off) };
                lane[column] += y[column];
            }
        }
    }
    // As `tree`, of all columns at once.
    let sums = sums.halved(|a, b| a + b);
    if log {
        let sums = sums.map(logarithm);
        for part in spans(len, COLUMNS) {
            for i in part {
                let at = i * inner + first;
                let (x, y) = (&x[at..][..width], &mut y[at..][..width]);
                for column in 0..width {
                    y[column] = (x[column] - largest[column]) - sums[column];
                }
            }
        }
        return;
    }
    let factors = sums.map(|sum| 1.0 / sum);
    for part in spans(len, COLUMNS) {
        for i in part {
            for (y, factor) in y[i * inner + first..][..width].iter_mut().zip(factors) {
                *y *= factor;
            }
        }
    }
}

/// A softmax over bytes, with the table of exponentials that its scale and axis call for.
///
/// Equal, bit for bit, to ONNX Runtime's `QLinearSoftmax` (domain com.microsoft), whose output takes the input's type.
#[derive(Clone, Debug)]
pub struct QSoftmax {
    /// e^(q·scale + shift), by the byte's value shifted to 0..=255; scaled so that the largest sums stay finite.
    table: Box<[f32; 256]>,
    len: usize,
    output: Q8,
    /// ⌊1 / output scale⌋.
    steps: f32,
}

/// Steps that results are counted in at most: the reference's conversion to integers wraps around beyond twice as many.
const MOST_STEPS: f32 = (1_u32 << 30) as f32;

/// How much smaller than the largest of `len` numbers that can be added exponentials are, as a logarithm: the reference's, or as
/// much as finite products with more than its 256 steps need.
fn headroom(len: usize, steps: f32) -> f64 {
    const REFERENCE: f64 = 5.0;
    if steps <= 256.0 {
        return REFERENCE;
    }
    // A hundredth for what rounding adds.
    REFERENCE.max(exact::log(f64::from(steps) / len.max(1) as f64) + 0.01)
}

/// Rows of bytes whose sums are made side by side.
const QROWS: usize = 8;

/// Elements of rows of bytes whose results are made one by one: a table of what each byte becomes would be larger.
const FEW: usize = 64;

impl QSoftmax {
    /// Bytes of its table.
    pub const TABLE_BYTES: usize = size_of::<[f32; 256]>();

    /// Prepares the softmax of axes of `len` elements. Input bytes are `output.signed` as the output's are; the input's
    /// zero point plays no part.
    ///
    /// Errors: scales that are not positive and finite, a zero point outside of its type.
    pub fn new(len: usize, input_scale: f32, output: Q8, output_scale: f32) -> Result<Self, Error> {
        if ![input_scale, output_scale].iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        output.check()?;
        // The largest element is moved to the table's last entry; `len` of those may be added. The logarithm is rounded to
        // f32, which decides ties.
        let room = f64::from(exact::log(f64::from(f32::MAX / len.max(1) as f32)) as f32);
        let steps = (1.0 / output_scale).floor().min(MOST_STEPS);
        let shift = (room - headroom(len, steps)).max(0.0) / f64::from(input_scale);
        let table =
            std::array::from_fn(|i| exact::exp((i as f64 - 255.0 + shift) * f64::from(input_scale)) as f32);
        Ok(Self { table: Box::new(table), len, output, steps })
    }

    /// Computes `y` from `x`, both dense.
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
        let block = shape.len * shape.inner;
        parallel::ranges(pool, shape.outer, GRAIN.div_ceil(4 * block), &|range| {
            let (first, count) = (range.start, range.len());
            let x = &x[first * block..][..count * block];
            // SAFETY: blocks are disjoint and inside of the slice.
            let y = unsafe { shared.piece(first * block, count * block) };
            if shape.inner == 1 && shape.len <= SPAN {
                for part in spans(count, shape.len) {
                    self.rows(level, &x[part.start * block..part.end * block], &mut y[part.start * block..]);
                }
                return;
            }
            for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
                if self.len <= FEW {
                    self.few_columns(level, x, y, shape.inner);
                    continue;
                }
                for column in spans(shape.inner, shape.len).flatten() {
                    self.column(level, &x[column..], &mut y[column..], shape.inner);
                }
            }
        });
        Ok(())
    }

    /// Rows that lie side by side: some at a time, so that the sum of one need not wait for itself.
    fn rows(&self, level: Level, x: &[u8], y: &mut [u8]) {
        let flip = self.output.flip();
        let (mut known, mut whole) = ([0.0; QROWS * FEW], [1.0; QROWS * FEW]);
        for (x, y) in x.chunks(QROWS * self.len).zip(y.chunks_mut(QROWS * self.len)) {
            let (mut largest, mut sums) = ([0; QROWS], [0.0; QROWS]);
            let rows = x.len() / self.len;
            for (x, largest) in x.chunks_exact(self.len).zip(&mut largest) {
                *largest = largest_byte(level, x, flip);
            }
            if rows == QROWS {
                for i in 0..self.len {
                    for row in 0..QROWS {
                        sums[row] += self.exponential(x[row * self.len + i] ^ flip, largest[row]);
                    }
                }
            } else {
                for ((x, sum), largest) in x.chunks_exact(self.len).zip(&mut sums).zip(largest) {
                    *sum = x.iter().fold(0.0, |sum, x| sum + self.exponential(x ^ flip, largest));
                }
            }
            if self.len <= FEW {
                let rows = x.chunks_exact(self.len).zip(largest.iter().zip(sums));
                let rows = rows.zip(known.chunks_exact_mut(self.len).zip(whole.chunks_exact_mut(self.len)));
                for ((x, (&largest, sum)), (known, whole)) in rows {
                    for (known, x) in known.iter_mut().zip(x) {
                        *known = self.exponential(x ^ flip, largest);
                    }
                    whole.fill(sum);
                }
                self.shares(level, &known[..x.len()], &whole, y);
                continue;
            }
            for (row, (x, y)) in x.chunks_exact(self.len).zip(y.chunks_exact_mut(self.len)).enumerate() {
                tables::look_up(level, &self.results(level, largest[row], sums[row]), x, y);
            }
        }
    }

    /// Columns of at most [`FEW`] elements, brought into rows.
    fn few_columns(&self, level: Level, x: &[u8], y: &mut [u8], stride: usize) {
        let (mut rows, mut results) = ([0; QROWS * FEW], [0; QROWS * FEW]);
        for part in spans(stride.div_ceil(QROWS), QROWS * self.len) {
            for first in part.map(|block| block * QROWS) {
                let count = QROWS.min(stride - first);
                let (rows, results) = (&mut rows[..count * self.len], &mut results[..count * self.len]);
                for (i, x) in x.chunks_exact(stride).enumerate() {
                    for (row, &x) in rows.chunks_exact_mut(self.len).zip(&x[first..]) {
                        row[i] = x;
                    }
                }
                self.rows(level, rows, results);
                for (i, y) in y.chunks_exact_mut(stride).enumerate() {
                    for (row, y) in results.chunks_exact(self.len).zip(&mut y[first..]) {
                        *y = row[i];
                    }
                }
            }
        }
    }

    fn column(&self, level: Level, x: &[u8], y: &mut [u8], stride: usize) {
        let flip = self.output.flip();
        let value = |i: usize| x[i * stride] ^ flip;
        let mut largest = 0;
        for part in spans(self.len, 1) {
            largest = part.map(value).max().unwrap_or(0).max(largest);
        }
        let mut sum = 0.0f32;
        for part in spans(self.len, 1) {
            sum = part.map(value).fold(sum, |sum, x| sum + self.exponential(x, largest));
        }
        let results = self.results(level, largest, sum);
        for part in spans(self.len, 1) {
            for i in part {
                y[i * stride] = results[usize::from(x[i * stride])];
            }
        }
    }

    /// Of a byte's value, shifted to 0..=255. One that was not looked at, as the work was stopped, may be above the largest.
    ///
    /// Sums of these have the order of the reference.
    #[inline(always)]
    fn exponential(&self, x: u8, largest: u8) -> f32 {
        self.table[usize::from(x.saturating_add(255 - largest))]
    }

    /// What exponentials become that are parts of sums.
    fn shares(&self, level: Level, exponentials: &[f32], sums: &[f32], results: &mut [u8]) {
        let kind = (self.output.signed, self.output.zero_point);
        requantize(level, kind, self.output.range(), self.steps, sums, exponentials, results);
    }

    /// What each byte becomes.
    fn results(&self, level: Level, largest: u8, sum: f32) -> [u8; 256] {
        let mut values = [0; 256];
        let known = &self.table[usize::from(255 - largest)..];
        self.shares(level, known, &[sum; 256], &mut values[..known.len()]);
        if self.output.flip() == 0 {
            return values;
        }
        let mut results = [0; 256];
        results[128..].copy_from_slice(&values[..128]);
        results[..128].copy_from_slice(&values[128..]);
        results
    }
}

multiversion! {
    fn largest_byte(x: &[u8], flip: u8) -> u8 {
        x.iter().fold(0, |largest, x| if x ^ flip > largest { x ^ flip } else { largest })
    }
}

/// Above the finite ones, which are 2³⁰ and a little at most.
const BEYOND: f32 = 2_147_483_648.0;

multiversion! {
    /// Shares of a sum in steps. An axis of one element makes the product infinite: the reference converts that as x86 does, to the
    /// type's smallest integer, which wraps when a negative zero point is added, or, unsigned, to 0.
    fn requantize(
        kind: (bool, i32), limits: [i32; 2], steps: f32, sums: &[f32], exponentials: &[f32], results: &mut [u8],
    ) {
        let ((signed, zero_point), [low, high]) = (kind, limits);
        if signed {
            for ((result, exponential), sum) in results.iter_mut().zip(exponentials).zip(sums) {
                let rounded = (exponential * steps / sum).round_ties_even();
                let q = if rounded < BEYOND { rounded as i32 } else { i32::MIN };
                *result = q.wrapping_add(zero_point).clamp(low, high) as u8;
            }
        } else {
            for ((result, exponential), sum) in results.iter_mut().zip(exponentials).zip(sums) {
                let rounded = (exponential * steps / sum).round_ties_even();
                let q = if rounded < BEYOND { rounded as i32 as u32 } else { 0 };
                *result = q.wrapping_add(zero_point as u32).min(high as u32) as u8;
            }
        }
    }
}
