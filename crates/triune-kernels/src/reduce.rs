//! Sums, products and extremes along axes of strided tensors; where extremes stand, in `places`.
//!
//! Each result is accumulated by one task in an order that only extents and strides decide, so that instruction sets
//! and thread counts change no bit. Sums, means and products of floats are carried in f64 and rounded once.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

mod places;

use std::ops::Range;

use triune_tensor::function::ReduceKind;

use crate::cancel::{Pace, spans};
use crate::copy::{Lines, TILE, turn_columns, turn_tile};
use crate::dispatch::{Level, multiversion};
use crate::eltwise::{apart, halved};
use crate::parallel::{self, GRAIN, Shared};
use crate::strided::{Nest, RANK};
use crate::{Error, Isa, Pool};

pub use places::{IndexType, arg_reduce};

/// Results that are accumulated side by side where neighbours lie side by side.
const BLOCK: usize = 128;
/// Partial results of one row: element i of a run goes to partial result i mod `LANES`.
const LANES: usize = TILE;

/// Elements of a row up to which only so many partial results are joined.
const FEW_LANES: usize = 4;

/// Elements of a result, of several axes, up to which neighbouring results are made together.
const FEW: usize = 16;

/// The loop nest of a reduction: axes that stay and axes that go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Axes of the result; operand 0 is the output, operand 1 the input.
    kept: Nest<2>,
    /// Extents and input strides of the axes that go, outermost first.
    axes: [(usize, usize); RANK],
    /// Elements per result.
    count: usize,
    /// Elements from the input's first to one past its last.
    input_span: usize,
}

impl Reduction {
    /// A nest of six axes, of which those in `reduced` go; unused axes have extent 1. Strides are in elements, the
    /// output's along axes that go are not looked at.
    ///
    /// Errors: extents of 0, products that overflow, an output in which two elements overlap.
    pub fn new(
        dims: [usize; RANK],
        input: [usize; RANK],
        output: [usize; RANK],
        reduced: [bool; RANK],
    ) -> Result<Self, Error> {
        let overflow = Error::Invalid("strided extents overflow");
        if dims.contains(&0) {
            return Err(Error::Invalid("nothing to reduce: an extent is 0"));
        }
        let mut kept_dims = dims;
        let mut kept_strides = [[0_i64; 2]; RANK];
        let mut axes = [(1, 0); RANK];
        let mut count = 1_usize;
        let mut span = 1_usize;
        for axis in 0..RANK {
            let reach = (dims[axis] - 1).checked_mul(input[axis]);
            span = reach.and_then(|reach| span.checked_add(reach)).ok_or(overflow.clone())?;
            if reduced[axis] {
                kept_dims[axis] = 1;
                axes[axis] = (dims[axis], input[axis]);
                count = count.checked_mul(dims[axis]).ok_or(overflow.clone())?;
            } else {
                let stride = |value: usize| i64::try_from(value).map_err(|_| overflow.clone());
                kept_strides[axis] = [stride(output[axis])?, stride(input[axis])?];
            }
        }
        // Extents of 1 first, then from the largest stride to the smallest, so that memory is walked in order.
        axes.sort_by_key(|&(dim, stride)| (dim > 1, std::cmp::Reverse(if dim > 1 { stride } else { 0 })));
        let mut merged = [(1_usize, 0_usize); RANK];
        let mut free = RANK;
        for &(dim, stride) in axes.iter().rev().filter(|axis| axis.0 > 1) {
            if free < RANK && merged[free].1.checked_mul(merged[free].0) == Some(stride) {
                merged[free].0 *= dim;
            } else {
                free -= 1;
                merged[free] = (dim, stride);
            }
        }
        let kept = Nest::new(kept_dims, kept_strides, [1; 2])?;
        Ok(Self { kept, axes: merged, count, input_span: span })
    }

    /// Elements per result.
    pub fn count(&self) -> usize {
        self.count
    }

    /// As [`Broadcast::rows`](crate::Broadcast::rows), of the output and the input; `None` as well where neighbouring results are made
    /// together: by itself, one would be added up in another order.
    pub fn rows(&self) -> Option<(usize, [usize; 2])> {
        if self.is_vertical() { None } else { self.kept.rows() }
    }

    /// The nest over the first `count` of [`Self::rows`], one at least.
    #[must_use]
    pub fn of_rows(&self, count: usize) -> Self {
        let kept = self.kept.of_rows(count);
        let left_out = (self.kept.dims[0] - kept.dims[0]) * self.kept.strides[0][1] as usize;
        Self { kept, input_span: self.input_span - left_out, ..*self }
    }

    /// Whether neighbouring results are made together: they lie closer together in the input than a result's own elements, or have few
    /// elements each, of several axes.
    fn is_vertical(&self) -> bool {
        let (extent, stride) = self.axes[RANK - 1];
        let closer = extent == 1 || self.kept.inner_strides()[1].unsigned_abs() < stride as u64;
        let few = self.count <= FEW && self.axes[RANK - 2].0 > 1;
        self.kept.inner() > 1 && (closer || few)
    }

    /// Results, elements of each and what lies between the first ones, where results lie side by side and each is one of short rows.
    fn short_rows(&self) -> Option<(usize, usize, usize)> {
        let (len, stride) = self.axes[RANK - 1];
        let [out_step, step] = self.kept.inner_strides();
        let one_axis = self.axes[..RANK - 1].iter().all(|axis| axis.0 == 1) && self.kept.outer(1) == 1;
        let step = usize::try_from(step).ok().filter(|&step| step >= len)?;
        let rows =
            one_axis && stride == 1 && out_step == 1 && (2..=SHORT).contains(&len) && self.kept.inner() > 1;
        rows.then_some((self.kept.inner(), len, step))
    }

    /// Calls `f` with rows and their results if [`Self::short_rows`] are what there is: whole blocks of [`TILE`] rows that end at least
    /// [`LANES`] elements before the end of so many elements, and the rows behind those. Says whether they are.
    fn each_short_rows<O: Send>(
        &self,
        elements: usize,
        out: &Shared<'_, O>,
        pool: &Pool,
        f: &EachRows<'_, O>,
    ) -> bool {
        let Some((count, len, step)) = self.short_rows() else { return false };
        let several = rows_within(elements, len, step).min(count);
        parallel::ranges(pool, count, GRAIN.div_ceil(len), &|range| {
            for part in spans(range.len(), len) {
                let (first, end) = (range.start + part.start, range.start + part.end);
                // SAFETY: results of the nest, which lie side by side and inside of its span; ranges are disjoint.
                let out = unsafe { out.piece(first, end - first) };
                let blocks = several.saturating_sub(first).min(end - first) / TILE;
                let (out, rest) = out.split_at_mut(blocks * TILE);
                f(Rows { first, len, step }, out.as_chunks_mut().0, rest);
            }
        });
        true
    }

    fn check<T, O>(&self, x: &[T], out: &[O]) -> Result<(), Error> {
        Error::check_len("input", x.len(), self.input_span)?;
        Error::check_len("output", out.len(), usize::try_from(self.kept.span[0][1]).unwrap_or(usize::MAX))
    }

    /// Calls `f` with the position of every run of the innermost axis that goes, relative to a result's first element,
    /// and the part of the run to take; `results` are made at the same time. Ends early when the work is stopped.
    #[inline(always)]
    fn runs(&self, results: usize, mut f: impl FnMut(usize, Range<usize>)) {
        let outer = &self.axes[..RANK - 1];
        let len = self.axes[RANK - 1].0;
        // Short ones are counted together.
        let steps = len.saturating_mul(results).max(1);
        let mut pace = Pace::new();
        let mut at = [0_usize; RANK - 1];
        let mut position = 0;
        'next: loop {
            for part in spans(len, results) {
                f(position, part);
            }
            if pace.stops(steps) {
                return;
            }
            for axis in (0..RANK - 1).rev() {
                at[axis] += 1;
                position += outer[axis].1;
                if at[axis] < outer[axis].0 {
                    continue 'next;
                }
                position -= at[axis] * outer[axis].1;
                at[axis] = 0;
            }
            return;
        }
    }

    /// Hands out the results: single ones, or blocks of neighbours. `f(input position, output position, results)`.
    // Called for every type and fold.
    #[inline(never)]
    fn each(&self, pool: &Pool, f: &(dyn Fn(usize, usize, usize) + Sync)) {
        let at = |axes: usize, index: usize| self.kept.position(axes, index).map(|at| at as usize);
        if self.is_vertical() {
            let inner = self.kept.inner();
            let blocks = inner.div_ceil(BLOCK);
            let [out_step, in_step] = self.kept.inner_strides().map(|stride| stride as usize);
            let grain = GRAIN.div_ceil(self.count.saturating_mul(inner.min(BLOCK)));
            parallel::ranges(pool, self.kept.outer(1) * blocks, grain, &|tasks: Range<usize>| {
                for task in tasks {
                    let [out, input] = at(1, task / blocks);
                    let first = task % blocks * BLOCK;
                    f(input + first * in_step, out + first * out_step, BLOCK.min(inner - first));
                }
            });
        } else {
            let grain = GRAIN.div_ceil(self.count);
            parallel::ranges(pool, self.kept.outer(0), grain, &|tasks: Range<usize>| {
                for task in tasks {
                    let [out, input] = at(0, task);
                    f(input, out, 1);
                }
            });
        }
    }
}

/// An element type that can be reduced: the type that it is accumulated in, and the arithmetic there.
pub trait Reducible: Copy + Send + Sync + PartialOrd + 'static {
    /// What sums and products are carried in.
    type Accumulator: Copy;
    /// 0, where sums start.
    const ZERO: Self::Accumulator;
    /// 1, where products start.
    const ONE: Self::Accumulator;
    /// Not above any element.
    const LOWEST: Self;
    /// Not below any element.
    const HIGHEST: Self;
    /// The element as a sum or product of its own.
    fn widen(self) -> Self::Accumulator;
    /// Back, rounded or wrapped around.
    fn narrow(sum: Self::Accumulator) -> Self;
    /// a + b.
    fn add(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    /// a · b.
    fn mul(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    /// sum / count.
    fn mean(sum: Self::Accumulator, count: usize) -> Self::Accumulator;
    /// Whether the element is NaN, which wins every comparison.
    fn is_nan(self) -> bool;
    /// Whether [`Self::key`] tells all elements apart.
    const KEYED: bool = size_of::<Self>() <= size_of::<u32>();
    /// A number that grows with the element, the same for both zeros and above all others for NaN.
    fn key(self) -> u32;
    /// [`reduce`], compiled once for each type, in this crate, rather than in all that call it.
    ///
    /// Errors: as there.
    fn reduce(
        isa: Isa,
        kind: ReduceKind,
        nest: &Reduction,
        x: &[Self],
        out: &mut [Self],
        pool: &Pool,
    ) -> Result<(), Error>;
}

macro_rules! reducible_integers {
    ($($type:ty => $wide:ty),*) => {$(
        impl Reducible for $type {
            type Accumulator = $wide;
            const ZERO: $wide = 0;
            const ONE: $wide = 1;
            const LOWEST: Self = Self::MIN;
            const HIGHEST: Self = Self::MAX;
            #[inline(always)]
            fn widen(self) -> $wide {
                self as $wide
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn add(a: $wide, b: $wide) -> $wide {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn mul(a: $wide, b: $wide) -> $wide {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn mean(sum: $wide, count: usize) -> $wide {
                sum / (count.max(1) as $wide)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn key(self) -> u32 {
                (self as $wide).wrapping_sub(Self::MIN as $wide) as u32
            }
            fn reduce(
                isa: Isa,
                kind: ReduceKind,
                nest: &Reduction,
                x: &[Self],
                out: &mut [Self],
                pool: &Pool,
            ) -> Result<(), Error> {
                reduce_here(isa, kind, nest, x, out, pool)
            }
        }
    )*};
}

reducible_integers!(u8 => i64, i8 => i64, u16 => i64, i16 => i64, u32 => i64, i32 => i64, i64 => i64, u64 => u64);

macro_rules! reducible_floats {
    ($($type:ty),*) => {$(
        impl Reducible for $type {
            type Accumulator = f64;
            const ZERO: f64 = 0.0;
            const ONE: f64 = 1.0;
            const LOWEST: Self = Self::NEG_INFINITY;
            const HIGHEST: Self = Self::INFINITY;
            #[inline(always)]
            fn widen(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn narrow(wide: f64) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn add(a: f64, b: f64) -> f64 {
                a + b
            }
            #[inline(always)]
            fn mul(a: f64, b: f64) -> f64 {
                a * b
            }
            #[inline(always)]
            fn mean(sum: f64, count: usize) -> f64 {
                sum / count as f64
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn key(self) -> u32 {
                const SIGN: u32 = 1 << 31;
                let bits = (self as f32 + 0.0).to_bits();
                match bits & SIGN {
                    _ if self.is_nan() => u32::MAX,
                    0 => bits | SIGN,
                    _ => !bits,
                }
            }
            fn reduce(
                isa: Isa,
                kind: ReduceKind,
                nest: &Reduction,
                x: &[Self],
                out: &mut [Self],
                pool: &Pool,
            ) -> Result<(), Error> {
                reduce_here(isa, kind, nest, x, out, pool)
            }
        }
    )*};
}

reducible_floats!(f32, f64);

/// How elements are gathered into a result.
pub(crate) trait Fold<T>: Copy + Sync {
    type Sum: Copy;
    type Out;
    /// Whether elements may be gathered in any order: a comparison takes longer than loading what is compared, so that several
    /// go on side by side.
    const ANY_ORDER: bool = false;
    fn start(self) -> Self::Sum;
    fn step(self, sum: Self::Sum, x: T) -> Self::Sum;
    fn join(self, a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn finish(self, sum: Self::Sum) -> Self::Out;
}

macro_rules! wide_fold {
    ($name:ident { $($field:ident: $type:ty)? }, $start:ident, $step:expr, $join:ident, $finish:expr) => {
        #[derive(Clone, Copy)]
        struct $name { $($field: $type)? }

        impl<T: Reducible> Fold<T> for $name {
            type Sum = T::Accumulator;
            type Out = T;
            #[inline(always)]
            fn start(self) -> T::Accumulator {
                T::$start
            }
            #[inline(always)]
            fn step(self, sum: T::Accumulator, x: T) -> T::Accumulator {
                let value: fn(T::Accumulator) -> T::Accumulator = $step;
                T::$join(sum, value(x.widen()))
            }
            #[inline(always)]
            fn join(self, a: T::Accumulator, b: T::Accumulator) -> T::Accumulator {
                T::$join(a, b)
            }
            #[inline(always)]
            fn finish(self, sum: T::Accumulator) -> T {
                let finish: fn(Self, T::Accumulator) -> T::Accumulator = $finish;
                T::narrow(finish(self, sum))
            }
        }
    };
}

wide_fold!(SumSquare {}, ZERO, |x| T::mul(x, x), add, |_, sum| sum);
wide_fold!(Product {}, ONE, |x| x, mul, |_, product| product);
// What sums are divided by, if that is asked for: one loop for both, for the sake of the program's size.
wide_fold!(Sum { count: Option<usize> }, ZERO, |x| x, add, |this, sum| match this.count {
    Some(count) => T::mean(sum, count),
    None => sum,
});

macro_rules! extreme_fold {
    ($name:ident, $start:ident, $beats:tt) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: Reducible> Fold<T> for $name {
            type Sum = T;
            type Out = T;
            const ANY_ORDER: bool = true;
            #[inline(always)]
            fn start(self) -> T {
                T::$start
            }
            #[inline(always)]
            fn step(self, best: T, x: T) -> T {
                // One comparison waits for the best, that with itself does not.
                let better = if x $beats best { x } else { best };
                if x.is_nan() { x } else { better }
            }
            #[inline(always)]
            fn join(self, a: T, b: T) -> T {
                self.step(a, b)
            }
            #[inline(always)]
            fn finish(self, best: T) -> T {
                best
            }
        }
    };
}

extreme_fold!(Least, HIGHEST, <);
extreme_fold!(Largest, LOWEST, >);

multiversion! {
    /// One result, from the elements around `x`'s first.
    fn fold_one[T: Reducible, F: Fold<T, Out = T>](fold: F, nest: &Reduction, x: &[T]) -> T {
        let stride = nest.axes[RANK - 1].1;
        let mut lanes = [fold.start(); LANES];
        nest.runs(1, |at, part| {
            let run = &x[at + part.start * stride..][..=(part.len() - 1) * stride];
            if stride == 1 {
                let (groups, run) = if F::ANY_ORDER { run.as_chunks::<{ 4 * LANES }>() } else { (&[][..], run) };
                if !groups.is_empty() {
                    let mut own = [fold.start(); 4 * LANES];
                    for group in groups {
                        for (lane, &x) in own.iter_mut().zip(group) {
                            *lane = fold.step(*lane, x);
                        }
                    }
                    for own in own.as_chunks::<LANES>().0 {
                        for (lane, &own) in lanes.iter_mut().zip(own) {
                            *lane = fold.join(*lane, own);
                        }
                    }
                }
                let (chunks, rest) = run.as_chunks::<LANES>();
                // In registers: what others can see would be stored and loaded again for each chunk.
                let mut own = lanes;
                for chunk in chunks {
                    for (lane, &x) in own.iter_mut().zip(chunk) {
                        *lane = fold.step(*lane, x);
                    }
                }
                for (lane, &x) in own.iter_mut().zip(rest) {
                    *lane = fold.step(*lane, x);
                }
                lanes = own;
            } else {
                for index in 0..part.len() {
                    let lane = &mut lanes[index % LANES];
                    *lane = fold.step(*lane, run[index * stride]);
                }
            }
        });
        fold.finish(halved(lanes, |a, b| fold.join(a, b)))
    }
}

/// Rows one after the other.
#[derive(Clone, Copy)]
struct Rows {
    /// The first one's number.
    first: usize,
    /// Elements of each.
    len: usize,
    /// Elements from one to the next.
    step: usize,
}

/// Makes the results of blocks of rows, and those of the rows behind them.
type EachRows<'f, O> = dyn Fn(Rows, &mut [[O; TILE]], &mut [O]) + Sync + 'f;

/// Elements of rows that are gathered several in a call.
const SHORT: usize = 256;

/// How many rows of `len` elements that lie `step` apart end, within so many elements, at least as long before their end as
/// [`fold_rows`] reads on.
pub(crate) fn rows_within(elements: usize, len: usize, step: usize) -> usize {
    let last = elements.checked_sub((len / LANES + 1) * LANES);
    last.map_or(0, |last| last / step.max(1) + 1)
}

multiversion! {
    /// Results of blocks of rows of `len` elements that lie `step` apart, within `x` as [`rows_within`] counts them: as
    /// [`fold_one`]. What becomes columns of [`TILE`] rows are their sums, and of rows shorter than a group the elements.
    pub(crate) fn fold_rows[T: Copy, F: Fold<T>](
        fold: F, machine: Level, len: usize, step: usize, x: &[T], out: &mut [[F::Out; TILE]],
    ) {
        let (whole, rest) = (len / LANES, len % LANES);
        let mut columns = Lines([[x[0]; TILE]; LANES]);
        let mut inside = [false; LANES];
        inside[..rest].fill(true);
        let (mut rows, mut sums) = (Lines([[fold.start(); LANES]; TILE]), Lines([[fold.start(); TILE]; LANES]));
        for (index, out) in out.iter_mut().enumerate() {
            let x = &x[index * TILE * step..];
            if whole > 0 {
                for (row, lanes) in rows.0.iter_mut().enumerate() {
                    let (groups, behind) = x[row * step..][..(whole + 1) * LANES].split_at(whole * LANES);
                    let mut own = [fold.start(); LANES];
                    for group in groups.as_chunks::<LANES>().0 {
                        for (own, &x) in own.iter_mut().zip(group) {
                            *own = fold.step(*own, x);
                        }
                    }
                    apart();
                    for ((lane, own), (&x, &inside)) in lanes.iter_mut().zip(own).zip(behind.iter().zip(&inside)) {
                        let next = fold.step(own, x);
                        *lane = if inside { next } else { own };
                    }
                    apart();
                }
                turn_tile(machine, rows.0.as_flattened(), LANES, sums.0.as_flattened_mut(), TILE);
            } else if rest <= FEW_LANES {
                // The other partial results are what all start with, and change nothing.
                turn_columns(machine, x, step, rest, &mut columns);
                let mut own = [[fold.start(); TILE]; FEW_LANES];
                for (sums, column) in own.iter_mut().zip(&columns.0[..rest]) {
                    for (sum, &x) in sums.iter_mut().zip(column) {
                        *sum = fold.step(*sum, x);
                    }
                    apart();
                }
                let [a, b, c, d] = &own;
                for (lane, out) in out.iter_mut().enumerate() {
                    *out = fold.finish(fold.join(fold.join(a[lane], c[lane]), fold.join(b[lane], d[lane])));
                }
                continue;
            } else {
                turn_columns(machine, x, step, rest, &mut columns);
                sums.0 = [[fold.start(); TILE]; LANES];
                for (sums, column) in sums.0.iter_mut().zip(&columns.0[..rest]) {
                    for (sum, &x) in sums.iter_mut().zip(column) {
                        *sum = fold.step(*sum, x);
                    }
                    apart();
                }
            }
            for (out, sum) in out.iter_mut().zip(sums.halved(|a, b| fold.join(a, b))) {
                *out = fold.finish(sum);
            }
        }
    }
}

/// `N` neighbouring results, of `len` rows.
#[inline(always)]
fn down<T: Reducible, F: Fold<T, Out = T>, const N: usize>(
    fold: F,
    x: &[T],
    stride: usize,
    len: usize,
    out: &mut [T; N],
) {
    let mut own = [fold.start(); N];
    for part in spans(len, N) {
        for row in part {
            for (sum, &x) in own.iter_mut().zip(&x[row * stride..][..N]) {
                *sum = fold.step(*sum, x);
            }
        }
    }
    for (out, own) in out.iter_mut().zip(own) {
        *out = fold.finish(own);
    }
}

multiversion! {
    /// Neighbouring results, element after element, into every `out_step`-th of `out`.
    fn fold_block[T: Reducible, F: Fold<T, Out = T>](
        fold: F,
        nest: &Reduction,
        x: &[T],
        out: &mut [T],
        out_step: usize,
        results: usize
    ) {
        let (len, stride) = nest.axes[RANK - 1];
        let step = nest.kept.inner_strides()[1] as usize;
        if step == 1 && out_step == 1 && len == nest.count {
            // One axis goes: so many columns at once stay in registers.
            let (wide, narrow) = out[..results].as_chunks_mut::<{ 4 * LANES }>();
            let behind = wide.len() * 4 * LANES;
            for (chunk, out) in wide.iter_mut().enumerate() {
                down(fold, &x[chunk * 4 * LANES..], stride, len, out);
            }
            let (narrow, rest) = narrow.as_chunks_mut::<LANES>();
            let last = results - rest.len();
            for (chunk, out) in narrow.iter_mut().enumerate() {
                down(fold, &x[behind + chunk * LANES..], stride, len, out);
            }
            for (column, out) in rest.as_chunks_mut::<1>().0.iter_mut().enumerate() {
                down(fold, &x[last + column..], stride, len, out);
            }
            return;
        }
        let mut sums = [fold.start(); BLOCK];
        let sums = &mut sums[..results];
        nest.runs(results, |at, part| {
            for index in part {
                let row = &x[at + index * stride..][..=(results - 1) * step];
                if step == 1 {
                    for (sum, &x) in sums.iter_mut().zip(row) {
                        *sum = fold.step(*sum, x);
                    }
                } else {
                    for (sum, &x) in sums.iter_mut().zip(row.iter().step_by(step.max(1))) {
                        *sum = fold.step(*sum, x);
                    }
                    if step == 0 {
                        for sum in sums.iter_mut().skip(1) {
                            *sum = fold.step(*sum, row[0]);
                        }
                    }
                }
            }
        });
        for (&sum, out) in sums.iter().zip(out.iter_mut().step_by(out_step.max(1))) {
            *out = fold.finish(sum);
        }
    }
}

fn run<T: Reducible, F: Fold<T, Out = T>>(
    isa: Isa,
    fold: F,
    nest: &Reduction,
    x: &[T],
    out: &mut [T],
    pool: &Pool,
) {
    let level = Level::new(isa);
    let shared = Shared::new(out);
    let out_step = nest.kept.inner_strides()[0] as usize;
    let vertical = nest.is_vertical();
    let short = nest.each_short_rows(x.len(), &shared, pool, &|Rows { first, len, step }, out, rest| {
        fold_rows(level, fold, level, len, step, &x[first * step..], out);
        for (row, out) in (first + out.as_flattened().len()..).zip(rest) {
            *out = fold_one(level, fold, nest, &x[row * step..]);
        }
    });
    if short {
        return;
    }
    nest.each(pool, &|input, output, results| {
        let x = &x[input..];
        if vertical {
            // SAFETY: results of the nest, which lie inside of its span and do not overlap; blocks are disjoint.
            let out = unsafe { shared.piece(output, (results - 1) * out_step + 1) };
            fold_block(level, fold, nest, x, out, out_step, results);
        } else {
            let result = fold_one(level, fold, nest, x);
            // SAFETY: as above, one result.
            let out = unsafe { shared.piece(output, 1) };
            out[0] = result;
        }
    });
}

/// One result per position of the axes that stay.
///
/// Errors: slices shorter than the nest's spans.
pub fn reduce<T: Reducible>(
    isa: Isa,
    kind: ReduceKind,
    nest: &Reduction,
    x: &[T],
    out: &mut [T],
    pool: &Pool,
) -> Result<(), Error> {
    T::reduce(isa, kind, nest, x, out, pool)
}

fn reduce_here<T: Reducible>(
    isa: Isa,
    kind: ReduceKind,
    nest: &Reduction,
    x: &[T],
    out: &mut [T],
    pool: &Pool,
) -> Result<(), Error> {
    nest.check(x, out)?;
    match kind {
        ReduceKind::Sum => run(isa, Sum { count: None }, nest, x, out, pool),
        ReduceKind::SumSquare => run(isa, SumSquare {}, nest, x, out, pool),
        ReduceKind::Product => run(isa, Product {}, nest, x, out, pool),
        ReduceKind::Min => run(isa, Least, nest, x, out, pool),
        ReduceKind::Max => run(isa, Largest, nest, x, out, pool),
        ReduceKind::Mean => run(isa, Sum { count: Some(nest.count) }, nest, x, out, pool),
    }
    Ok(())
}
