//! Pooling over NHWC maps and planes: how windows slide. Vectorised over channels, or over columns of planes. What they make of
//! integers is in `integers`, of reals in `fpool`.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

mod integers;

use std::ops::Range;

use triune_tensor::function::PoolKind;

use crate::cancel::{Pace, SPAN, spans};
use crate::copy::{Lines, TILE, turn_columns};
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::reduce::{Fold, fold_rows, rows_within};
use crate::{Error, Nhwc, Pool};
pub use integers::{PoolQuant, Q16Pool, q8_global_pool, q8_pool, q16_pool};

/// A sliding window without weights. The output map's extents say how often it slides, so that partial windows at
/// the end (ONNX `ceil_mode`) need nothing of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Window rows and columns.
    pub kernel: [usize; 2],
    /// Step of the window.
    pub stride: [usize; 2],
    /// Distance of two taps.
    pub dilation: [usize; 2],
    /// Padding: top, left, bottom, right.
    pub pad: [usize; 4],
    /// What is computed.
    pub kind: PoolKind,
}

/// The taps of one window along one axis that lie inside of the input, and how many the padding adds.
#[derive(Clone, Copy)]
pub(crate) struct Taps {
    /// Input index of the first tap inside.
    pub(crate) first: usize,
    /// Taps inside.
    pub(crate) count: usize,
    /// Taps inside of the padded input.
    padded: usize,
}

impl PoolSpec {
    /// Whether every position of the window begins within the padded input.
    ///
    /// Errors: extents of 0 in the window, a position beyond the input and its padding.
    pub fn check(self, input: Nhwc, output: Nhwc) -> Result<(), Error> {
        Window::new(self, input, output).map(|_| ())
    }
}

/// A checked window over one input map.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) spec: PoolSpec,
    pub(crate) map: Nhwc,
}

impl Window {
    fn new(spec: PoolSpec, map: Nhwc, out: Nhwc) -> Result<Self, Error> {
        if spec.kernel.contains(&0) || spec.stride.contains(&0) || spec.dilation.contains(&0) {
            return Err(Error::Invalid("zero kernel, stride or dilation"));
        }
        for (axis, size, out) in [(0, map.h, out.h), (1, map.w, out.w)] {
            let padded = size.checked_add(spec.pad[axis]).and_then(|x| x.checked_add(spec.pad[axis + 2]));
            let last = out.saturating_sub(1).checked_mul(spec.stride[axis]);
            let reach = (spec.kernel[axis] - 1)
                .checked_mul(spec.dilation[axis])
                .and_then(|reach| reach.checked_add(last?))
                .and_then(|reach| i64::try_from(reach).ok());
            match (padded, last, reach) {
                (Some(padded), Some(last), Some(_)) if out == 0 || last < padded => {}
                _ => return Err(Error::Invalid("the window slides out of the padded input")),
            }
        }
        Ok(Self { spec, map })
    }

    #[inline(always)]
    fn taps(&self, axis: usize, size: usize, index: usize) -> Taps {
        let (kernel, step) = (self.spec.kernel[axis], self.spec.dilation[axis]);
        let start = (index * self.spec.stride[axis]) as i64 - self.spec.pad[axis] as i64;
        // A division takes longer than all the rest.
        let steps = |room: usize| if step == 1 { room } else { room.div_ceil(step) };
        let skipped = steps(if start < 0 { start.unsigned_abs() as usize } else { 0 });
        // Taps k with start + k·step < limit.
        let below = |limit: i64| {
            let room = limit - start;
            if room <= 0 { 0 } else { steps(room as usize).min(kernel) }
        };
        let end = below(size as i64);
        let count = end.saturating_sub(skipped);
        let first = if count == 0 { 0 } else { (start + (skipped * step) as i64) as usize };
        Taps { first, count, padded: below((size + self.spec.pad[axis + 2]) as i64) }
    }

    /// Which of so many results along an axis of such a size have all of their taps inside of the input.
    fn inside(&self, axis: usize, size: usize, results: usize) -> Range<usize> {
        let (stride, pad) = (self.spec.stride[axis], self.spec.pad[axis]);
        // No overflow: `new` has seen the last window's reach.
        let reach = (self.spec.kernel[axis] - 1) * self.spec.dilation[axis];
        let end = match (size + pad).checked_sub(reach + 1) {
            Some(last) => (last / stride + 1).min(results),
            None => 0,
        };
        pad.div_ceil(stride).min(end)..end
    }

    /// Whether there is one result, of all elements of a plane without gaps.
    fn is_whole(&self, out: Nhwc) -> bool {
        let Nhwc { h, w, stride_h, .. } = self.map;
        let PoolSpec { kernel, dilation, pad, .. } = self.spec;
        (out.h, out.w, kernel, dilation, pad) == (1, 1, [h, w], [1; 2], [0; 4]) && (h == 1 || stride_h == w)
    }

    /// How many taps along an axis a mean counts, of a reduction that does not count all.
    #[inline(always)]
    fn of_axis(&self, taps: Taps) -> usize {
        match self.spec.kind {
            PoolKind::Average { count_include_pad: true } => taps.padded,
            _ => taps.count,
        }
    }

    /// How many taps a mean is divided by.
    #[inline(always)]
    fn counted<R: Reduce>(&self, rows: Taps, columns: Taps) -> usize {
        match self.spec.kind {
            PoolKind::Average { count_include_pad: true } if R::COUNT_ALL => {
                self.spec.kernel[0] * self.spec.kernel[1]
            }
            _ => self.of_axis(rows) * self.of_axis(columns),
        }
    }
}

/// How the taps of a window become one result, for one channel.
pub(crate) trait Reduce: Copy {
    type In: Copy;
    type Sum: Copy;
    type Out: Copy;
    /// Whether a mean that counts padding counts every tap of the window, also those beyond the padding.
    const COUNT_ALL: bool = false;
    /// Whether taps may be added in any order: integers are, exactly.
    const ANY_ORDER: bool = false;
    /// Whether each row of taps is summed by itself first: keeps the error of long f32 sums small.
    const BY_ROWS: bool = false;
    /// Whether [`Reduce::add_rows`] makes the results of whole planes.
    const BY_PLANES: bool = Self::BY_ROWS;
    fn start(&self) -> Self::Sum;
    fn add(&self, sum: Self::Sum, x: Self::In) -> Self::Sum;
    fn join(&self, sum: Self::Sum, row: Self::Sum) -> Self::Sum;
    fn finish(&self, sum: Self::Sum, taps: usize) -> Self::Out;
    /// All channels of some neighbouring results by a kernel of the reduction's own, if the machine has one; says whether it has
    /// run. `taps` are those of the first, whose `pixels` are so many, and so many elements apart.
    #[inline(always)]
    fn pixels(
        &self,
        _level: Level,
        _window: &Window,
        _x: &[Self::In],
        _taps: [Taps; 2],
        _counted: usize,
        _pixels: [usize; 2],
        _out: &mut [Self::Out],
    ) -> bool {
        false
    }
    /// As the function [`add_rows`], or by a kernel of the reduction's own.
    #[inline(always)]
    fn add_rows(&self, level: Level, x: &[Self::In], columns: usize, sum: Self::Sum) -> Self::Sum {
        add_rows(level, *self, x, columns, sum)
    }
    /// What an element beside a plane is, so that it changes no result but its number of taps; `None` where lines have no kernel.
    #[inline(always)]
    fn beside(&self) -> Option<Self::In> {
        None
    }
    /// The result of a sum that was divided by 1, of so many taps, one at least.
    #[inline(always)]
    fn divided(&self, sum: Self::Out, _taps: f32) -> Self::Out {
        sum
    }
    /// Lines of results of a plane from `first` on, whether their taps lie inside or not, of sums that [`Reduce::divided`] ends, by
    /// a kernel of the reduction's own.
    #[inline(always)]
    fn slide(
        &self,
        _level: Level,
        _window: &Window,
        _x: &[Self::In],
        _first: usize,
        _columns: usize,
        _out: &mut [Self::Out],
    ) -> bool {
        false
    }
    /// Neighbouring results of a row of a plane, all of whose taps lie inside, by a kernel of the reduction's own; `taps` are those
    /// of the first. Lines behind the first are those of the next rows, with as many taps.
    #[inline(always)]
    fn line(
        &self,
        _level: Level,
        _window: &Window,
        _x: &[Self::In],
        _taps: [Taps; 2],
        _counted: usize,
        _lines: usize,
        _out: &mut [Self::Out],
    ) -> bool {
        false
    }
}

/// `N` channels of some taps of a row, added to sums.
#[inline(always)]
fn add_taps<R: Reduce, const N: usize>(
    reduce: R,
    mut sums: [R::Sum; N],
    x: &[R::In],
    base: usize,
    step: usize,
    taps: Range<usize>,
) -> [R::Sum; N] {
    for tap in taps {
        let x = &x[base + tap * step..][..N];
        for i in 0..N {
            sums[i] = reduce.add(sums[i], x[i]);
        }
    }
    sums
}

/// `N` channels of one result. A window that takes `LONG` is left early when the work is stopped.
#[inline(always)]
fn chunk<R: Reduce, const N: usize, const LONG: bool>(
    reduce: R,
    window: &Window,
    x: &[R::In],
    rows: Taps,
    columns: Taps,
    counted: usize,
    out: &mut [R::Out],
) {
    let mut sum = [reduce.start(); N];
    let step_h = window.spec.dilation[0] * window.map.stride_h;
    let step_w = window.spec.dilation[1] * window.map.stride_w;
    let mut pace = Pace::new();
    for kh in 0..rows.count {
        let mut row = if R::BY_ROWS { [reduce.start(); N] } else { sum };
        let base = rows.first * window.map.stride_h + kh * step_h + columns.first * window.map.stride_w;
        if LONG {
            if pace.stops(columns.count.saturating_mul(N)) {
                return;
            }
            for part in spans(columns.count, N) {
                row = add_taps(reduce, row, x, base, step_w, part);
            }
        } else {
            row = add_taps(reduce, row, x, base, step_w, 0..columns.count);
        }
        if R::BY_ROWS {
            for i in 0..N {
                sum[i] = reduce.join(sum[i], row[i]);
            }
        } else {
            sum = row;
        }
    }
    for (out, sum) in out[..N].iter_mut().zip(sum) {
        *out = reduce.finish(sum, counted);
    }
}

/// All channels of one result. Windows that take `long` look whether the work is stopped.
#[inline(always)]
fn result<R: Reduce>(
    machine: Level,
    reduce: R,
    window: &Window,
    x: &[R::In],
    rows: Taps,
    ow: usize,
    long: bool,
    out: &mut [R::Out],
) {
    let map = window.map;
    let taps = window.taps(1, map.w, ow);
    let counted = window.counted::<R>(rows, taps);
    let rows = if taps.count == 0 { Taps { count: 0, ..rows } } else { rows };
    if !long && reduce.pixels(machine, window, x, [rows, taps], counted, [1, map.c], out) {
        return;
    }
    let mut c = 0;
    macro_rules! chunks {
        ($($size:literal),*) => {$(
            while map.c - c >= $size {
                let x = x.get(c..).unwrap_or_default();
                if long {
                    chunk::<R, $size, true>(reduce, window, x, rows, taps, counted, &mut out[c..]);
                } else {
                    chunk::<R, $size, false>(reduce, window, x, rows, taps, counted, &mut out[c..]);
                }
                c += $size;
            }
        )*};
    }
    // Accumulators that fit registers: more of them when they are bytes.
    if size_of::<R::Sum>() == 1 {
        chunks!(64);
    } else {
        chunks!(32);
    }
    chunks!(16, 4, 1);
}

multiversion! {
    /// One output row; `x` starts at the image's first element.
    fn row_of[R: Reduce](machine: Level, reduce: R, window: &Window, x: &[R::In], oh: usize, out: &mut [R::Out], columns: usize, stride: usize) {
        let map = window.map;
        let rows = window.taps(0, map.h, oh);
        let window_taps = window.spec.kernel[0].saturating_mul(window.spec.kernel[1]);
        let long = window_taps > SPAN / 64;
        let inside = window.inside(1, map.w, columns);
        for part in spans(columns, window_taps.saturating_mul(map.c)) {
            // Those that are not cut, all at once.
            let whole = part.start.max(inside.start)..part.end.min(inside.end);
            let made = !long && whole.len() > 1 && {
                let taps = [rows, window.taps(1, map.w, whole.start)];
                let counted = window.counted::<R>(taps[0], taps[1]);
                let out = &mut out[whole.start * stride..];
                reduce.pixels(machine, window, x, taps, counted, [whole.len(), stride], out)
            };
            for ow in part.filter(|ow| !made || !whole.contains(ow)) {
                result(machine, reduce, window, x, rows, ow, long, &mut out[ow * stride..][..map.c]);
            }
        }
    }
}

/// Ends the sums of a row of windows that count `down` rows and, each of them, some columns.
#[inline(always)]
fn divide<R: Reduce>(reduce: R, down: usize, across: &[f32], sums: &mut [R::Out]) {
    for (sum, &across) in sums.iter_mut().zip(across) {
        let taps = down as f32 * across;
        *sum = reduce.divided(*sum, if taps > 1.0 { taps } else { 1.0 });
    }
}

multiversion! {
    /// Rows `first` and behind of all planes' outputs, one below the other, `height` of each plane.
    fn rows_of_planes[R: Reduce](
        machine: Level, reduce: R, window: &Window, x: &[R::In], first: usize, extents: [usize; 2], out: &mut [R::Out],
    ) {
        let (map, [height, columns]) = (window.map, extents);
        let inside = window.inside(1, map.w, columns);
        let whole_rows = window.inside(0, map.h, height);
        let left = window.taps(1, map.w, inside.start);
        let (mut plane, mut oh) = (first / height, first % height);
        // Where windows are cut: some rows of a plane with what is beside them, and the window over those.
        let mut band = [x[0]; BAND];
        let (mut held, mut held_plane) = (0..0, plane);
        let mut across = [0.0; BAND];
        for (ow, across) in across.iter_mut().enumerate().take(columns) {
            *across = window.of_axis(window.taps(1, map.w, ow)) as f32;
        }
        let width = (columns - 1) * window.spec.stride[1] + (window.spec.kernel[1] - 1) * window.spec.dilation[1] + 1;
        let beside = if inside == (0..columns) { None } else { reduce.beside() };
        let wide = Window { map: Nhwc { w: width, stride_h: width, ..map }, ..*window };
        let whole = Taps { first: 0, count: window.spec.kernel[1], padded: window.spec.kernel[1] };
        let mut rest = out;
        while !rest.is_empty() {
            let x = x.get(plane * map.stride_n..).unwrap_or_default();
            // All that is left of the plane.
            let lines = (height - oh).min(rest.len() / columns);
            if columns <= BAND && reduce.slide(machine, window, x, oh, columns, &mut rest[..lines * columns]) {
                let (out, behind) = std::mem::take(&mut rest).split_at_mut(lines * columns);
                rest = behind;
                for (line, out) in (oh..).zip(out.chunks_exact_mut(columns)) {
                    divide(reduce, window.of_axis(window.taps(0, map.h, line)), &across, out);
                }
                (plane, oh) = if oh + lines == height { (plane + 1, 0) } else { (plane, oh + lines) };
                continue;
            }
            let rows = window.taps(0, map.h, oh);
            let reach = rows.first..rows.first + (rows.count.max(1) - 1) * window.spec.dilation[0] + 1;
            let beside = beside.filter(|_| rows.count > 0 && reach.len().saturating_mul(width) <= BAND);
            // Rows whose windows are not cut above or below are made together.
            let alike = if whole_rows.contains(&oh) { (whole_rows.end - oh).min(rest.len() / columns) } else { 1 };
            let lines = if let Some(beside) = beside {
                if held_plane != plane || reach.start < held.start || held.end < reach.end {
                    (held, held_plane) = (reach.start..map.h.min(reach.start + BAND / width), plane);
                    for (line, row) in band.chunks_exact_mut(width).zip(held.clone()) {
                        let x = &x[row * map.stride_h..][..map.w];
                        let (before, rest) = line.split_at_mut(window.spec.pad[1].min(width));
                        let (own, behind) = rest.split_at_mut(map.w.min(rest.len()));
                        before.fill(beside);
                        own.copy_from_slice(&x[..own.len()]);
                        behind.fill(beside);
                    }
                }
                alike.min((held.end - reach.end) / window.spec.stride[0] + 1)
            } else if inside == (0..columns) {
                alike
            } else {
                1
            };
            let (out, behind) = std::mem::take(&mut rest).split_at_mut(lines * columns);
            rest = behind;
            let own = Taps { first: rows.first - held.start.min(rows.first), ..rows };
            let made = if beside.is_some() {
                let made = reduce.line(machine, &wide, &band, [own, whole], 1, lines, out);
                for out in out.chunks_exact_mut(columns).filter(|_| made) {
                    divide(reduce, window.of_axis(rows), &across, out);
                }
                made
            } else {
                let counted = window.counted::<R>(rows, left);
                inside == (0..columns) && reduce.line(machine, window, x, [rows, left], counted, lines, out)
            };
            if !made {
                for (line, out) in out.chunks_exact_mut(columns).enumerate() {
                    let rows = window.taps(0, map.h, oh + line);
                    let counted = window.counted::<R>(rows, left);
                    let done = !inside.is_empty()
                        && reduce.line(machine, window, x, [rows, left], counted, 1, &mut out[inside.clone()]);
                    let border = if done { inside.start } else { columns };
                    for ow in 0..border {
                        result(machine, reduce, window, x, rows, ow, false, &mut out[ow..=ow]);
                    }
                    if done {
                        for ow in inside.end..columns {
                            result(machine, reduce, window, x, rows, ow, false, &mut out[ow..=ow]);
                        }
                    }
                }
            }
            oh += lines;
            if oh == height {
                (plane, oh) = (plane + 1, 0);
            }
        }
    }
}

/// Checks the operands, then makes every row of the output.
pub(crate) fn drive<R: Reduce + Sync>(
    level: Level,
    reduce: R,
    spec: &PoolSpec,
    x: &[R::In],
    in_map: Nhwc,
    y: &mut [R::Out],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error>
where
    R::In: Sync,
    R::Out: Send,
{
    Error::check_eq("batch", in_map.n, out_map.n)?;
    Error::check_eq("channels", in_map.c, out_map.c)?;
    Error::check_len("input", x.len(), in_map.span())?;
    parallel::check_output(y, out_map)?;
    let window = Window::new(*spec, in_map, out_map)?;
    if in_map.c == 1 && in_map.stride_w == 1 && out_map.is_dense() && out_map.elements() > 0 {
        planes(level, reduce, &window, x, y, out_map, pool);
        return Ok(());
    }
    parallel::rows(pool, y, out_map, &|n, oh, row| {
        let image = x.get(n * in_map.stride_n..).unwrap_or_default();
        row_of(level, level, reduce, &window, image, oh, row, out_map.w, out_map.stride_w);
    });
    Ok(())
}

/// Elements of rows with what is beside them.
const BAND: usize = 2048;

/// Elements of a plane that are added side by side.
const TOGETHER: usize = 64;

multiversion! {
    /// Rows of a plane, each summed by itself from left to right: several side by side, so that one waits for its last element while
    /// the others go on.
    pub(crate) fn add_rows[R: Reduce](reduce: R, x: &[R::In], columns: usize, sum: R::Sum) -> R::Sum {
        const ROWS: usize = 8;
        let (mut sum, rows) = (sum, x.len() / columns);
        let mut first = 0;
        while first < rows {
            // Of fewer rows the last one is summed several times.
            let count = if rows - first < ROWS { rows - first } else { ROWS };
            macro_rules! row {
                ($index:literal) => {
                    &x[(first + if $index < count { $index } else { count - 1 }) * columns..][..columns]
                };
            }
            let [a, b, c, d] = [row!(0), row!(1), row!(2), row!(3)];
            let [e, f, g, h] = [row!(4), row!(5), row!(6), row!(7)];
            let mut sums = [reduce.start(); ROWS];
            for i in 0..columns {
                sums[0] = reduce.add(sums[0], a[i]);
                sums[1] = reduce.add(sums[1], b[i]);
                sums[2] = reduce.add(sums[2], c[i]);
                sums[3] = reduce.add(sums[3], d[i]);
                sums[4] = reduce.add(sums[4], e[i]);
                sums[5] = reduce.add(sums[5], f[i]);
                sums[6] = reduce.add(sums[6], g[i]);
                sums[7] = reduce.add(sums[7], h[i]);
            }
            for row in &sums[..count] {
                sum = reduce.join(sum, *row);
            }
            first += ROWS;
        }
        sum
    }
}

/// Elements of planes that are added side by side.
const SHORT: usize = 256;

multiversion! {
    /// The results of [`TILE`] planes that lie `step` apart, a tile's side before the end of `x` at least: as [`add_rows`] makes each.
    fn short_planes[R: Reduce](
        reduce: R, machine: Level, x: &[R::In], step: usize, extents: [usize; 2], counted: usize,
        out: &mut [R::Out],
    ) {
        let len = extents[0] * extents[1];
        let mut tile = Lines([[x[0]; TILE]; TILE]);
        let (mut sums, mut row) = ([reduce.start(); TILE], [reduce.start(); TILE]);
        let mut left = extents[1];
        for first in (0..len).step_by(TILE) {
            let count = TILE.min(len - first);
            turn_columns(machine, &x[first..], step, count, &mut tile);
            for column in &tile.0[..count] {
                for (row, &x) in row.iter_mut().zip(column) {
                    *row = reduce.add(*row, x);
                }
                left -= 1;
                if left == 0 {
                    for (sum, row) in sums.iter_mut().zip(&mut row) {
                        *sum = reduce.join(*sum, *row);
                        *row = reduce.start();
                    }
                    left = extents[1];
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = reduce.finish(sum, counted);
        }
    }
}

multiversion! {
    fn add_all[R: Reduce](reduce: R, x: &[R::In], sums: &mut [R::Sum; TOGETHER]) {
        let (whole, rest) = x.as_chunks::<TOGETHER>();
        // In registers.
        let mut own = *sums;
        for x in whole {
            for (sum, &x) in own.iter_mut().zip(x) {
                *sum = reduce.add(*sum, x);
            }
        }
        for (sum, &x) in own.iter_mut().zip(rest) {
            *sum = reduce.add(*sum, x);
        }
        *sums = own;
    }
}

/// A plane as a row of elements in any order.
#[derive(Clone, Copy)]
struct Whole<R> {
    reduce: R,
    /// Taps that a mean is divided by.
    counted: usize,
}

impl<R: Reduce + Sync> Fold<R::In> for Whole<R> {
    type Sum = R::Sum;
    type Out = R::Out;
    #[inline(always)]
    fn start(self) -> R::Sum {
        self.reduce.start()
    }
    #[inline(always)]
    fn step(self, sum: R::Sum, x: R::In) -> R::Sum {
        self.reduce.add(sum, x)
    }
    #[inline(always)]
    fn join(self, a: R::Sum, b: R::Sum) -> R::Sum {
        self.reduce.join(a, b)
    }
    #[inline(always)]
    fn finish(self, sum: R::Sum) -> R::Out {
        self.reduce.finish(sum, self.counted)
    }
}

/// One result for each plane, of all its elements.
fn whole_planes<R: Reduce + Sync>(
    level: Level,
    reduce: R,
    window: &Window,
    x: &[R::In],
    y: &mut [R::Out],
    pool: &Pool,
) where
    R::In: Sync,
    R::Out: Send,
{
    let Nhwc { n, h, w: columns, stride_n, .. } = window.map;
    let len = h * columns;
    let taps = [0, 1].map(|axis| window.taps(axis, [h, columns][axis], 0));
    let counted = window.counted::<R>(taps[0], taps[1]);
    let shared = Shared::new(y);
    let several = if len <= SHORT { rows_within(x.len(), len, stride_n).min(n) } else { 0 };
    parallel::ranges(pool, n, GRAIN.div_ceil(len), &|mut range| {
        while range.start + TILE <= several.min(range.end) {
            // SAFETY: as below, of so many planes.
            let out = unsafe { shared.piece(range.start, TILE) };
            let x = &x[range.start * stride_n..];
            if R::BY_ROWS {
                short_planes(level, reduce, level, x, stride_n, [h, columns], counted, out);
            } else {
                fold_rows(level, Whole { reduce, counted }, level, len, stride_n, x, out.as_chunks_mut().0);
            }
            range.start += TILE;
        }
        for plane in range {
            let x = &x[plane * stride_n..][..len];
            let sum = if R::BY_PLANES {
                spans(h, columns).fold(reduce.start(), |sum, rows| {
                    reduce.add_rows(level, &x[rows.start * columns..rows.end * columns], columns, sum)
                })
            } else {
                let mut sums = [reduce.start(); TOGETHER];
                spans(len, 1).for_each(|part| add_all(level, reduce, &x[part], &mut sums));
                sums[1..].iter().fold(sums[0], |sum, &own| reduce.join(sum, own))
            };
            // SAFETY: one result of a dense map with one per plane.
            let out = unsafe { shared.piece(plane, 1) };
            out[0] = reduce.finish(sum, counted);
        }
    });
}

/// Planes: what lies beside each other are columns, not channels.
fn planes<R: Reduce + Sync>(
    level: Level,
    reduce: R,
    window: &Window,
    x: &[R::In],
    y: &mut [R::Out],
    out_map: Nhwc,
    pool: &Pool,
) where
    R::In: Sync,
    R::Out: Send,
{
    let Nhwc { n, h, w, .. } = out_map;
    if (R::BY_PLANES || R::ANY_ORDER) && window.is_whole(out_map) {
        return whole_planes(level, reduce, window, x, y, pool);
    }
    let taps = window.spec.kernel[0].saturating_mul(window.spec.kernel[1]).saturating_mul(w);
    if taps > SPAN || x.is_empty() {
        // A row by itself may take long, or there is none.
        parallel::rows(pool, y, out_map, &|n, oh, row| {
            let image = x.get(n * window.map.stride_n..).unwrap_or_default();
            row_of(level, level, reduce, window, image, oh, row, w, 1);
        });
        return;
    }
    let shared = Shared::new(y);
    parallel::ranges(pool, n * h, GRAIN.div_ceil(taps), &|range| {
        for part in spans(range.len(), taps) {
            let first = range.start + part.start;
            // SAFETY: ranges are disjoint, and rows of a dense map one behind the other; its span was checked.
            let out = unsafe { shared.piece(first * w, part.len() * w) };
            rows_of_planes(level, level, reduce, window, x, first, [h, w], out);
        }
    });
}

/// The window that covers a whole map.
pub(crate) fn global(kind: PoolKind, map: Nhwc, out_map: Nhwc) -> Result<PoolSpec, Error> {
    Error::check_eq("output rows", 1, out_map.h)?;
    Error::check_eq("output columns", 1, out_map.w)?;
    Ok(PoolSpec { kernel: [map.h.max(1), map.w.max(1)], stride: [1, 1], dilation: [1, 1], pad: [0; 4], kind })
}
