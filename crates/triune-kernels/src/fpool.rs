//! Pooling of reals: maximum, average, global average. Windows slide as in `pool2d`.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::function::PoolKind;

use crate::dispatch::{Level, multiversion};
#[cfg(target_arch = "x86_64")]
use crate::fpool_simd::{self, LINES};
#[cfg(target_arch = "x86_64")]
use crate::fpool_slide::{self, Slide, WINDOW};
use crate::pool2d::{Reduce, Taps, Window, add_rows, drive, global};
use crate::{Error, Isa, Nhwc, Pool, PoolSpec};

/// The taps of one window, for the kernels: what they read was checked.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "other machines have no kernels of their own")
)]
pub(crate) struct Region {
    /// Channel 0 of the first tap.
    pub(crate) input: *const f32,
    /// Rows and columns of taps, none of either 0.
    pub(crate) taps: [usize; 2],
    /// From row to row and from column to column, in floats.
    pub(crate) steps: [usize; 2],
    /// What a sum is divided by.
    pub(crate) counted: f32,
    /// From one result's taps to the next one's.
    pub(crate) apart: Apart,
    /// Lines of results, one at least; floats from the taps of one to those of the next.
    pub(crate) lines: usize,
    pub(crate) line_step: usize,
    /// Results of a line, one at least; floats from the first of one to that of the next.
    pub(crate) results: usize,
    pub(crate) out_step: usize,
}

/// Floats from one result's tap to the next one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// Channels, or a window that slides by one column of a plane.
    One,
    /// A window that slides by two.
    Two,
}

/// What the kernels make of the taps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// The largest number, the first of equal ones.
    Max,
    /// The same, but a NaN wins.
    MaxOrNan,
    /// The sum in their order, divided.
    Mean,
    /// The sum of the rows' sums, divided.
    MeanByRows,
}

/// Lines of results, whose taps are as those of the first: channels of neighbouring pixels, or rows of a plane.
#[derive(Clone, Copy)]
struct Alike {
    lines: usize,
    /// From the taps of one line to those of the next.
    line_step: usize,
    results: usize,
    /// From the results of one line to those of the next.
    out_step: usize,
    apart: Apart,
}

impl Alike {
    fn rows(window: &Window, lines: usize, results: usize) -> Option<Self> {
        let apart = match window.spec.stride[1] {
            1 => Apart::One,
            2 => Apart::Two,
            _ => return None,
        };
        let line_step = window.spec.stride[0] * window.map.stride_h;
        Some(Self { lines, line_step, results, out_step: results, apart })
    }

    const fn pixels(window: &Window, [lines, out_step]: [usize; 2]) -> Self {
        let line_step = window.spec.stride[1] * window.map.stride_w;
        Self { lines, line_step, results: window.map.c, out_step, apart: Apart::One }
    }
}

/// Runs the kernel of the instruction set, if there is one and there are taps.
#[inline(always)]
fn lines(
    join: Join,
    level: Level,
    window: &Window,
    x: &[f32],
    [rows, columns]: [Taps; 2],
    counted: usize,
    alike: Alike,
    out: &mut [f32],
) -> bool {
    let map = window.map;
    let steps = [window.spec.dilation[0] * map.stride_h, window.spec.dilation[1] * map.stride_w];
    if rows.count == 0 || columns.count == 0 || level.isa() == Isa::Scalar {
        return false;
    }
    let Alike { lines, line_step, results, out_step, apart } = alike;
    let first = rows.first * map.stride_h + columns.first * map.stride_w;
    let last = first + (rows.count - 1) * steps[0] + (columns.count - 1) * steps[1];
    let reach = match apart {
        Apart::One => results,
        Apart::Two => (2 * results).saturating_sub(1),
    };
    assert!(last + (lines - 1) * line_step + reach <= x.len(), "the map was checked");
    let region = Region {
        input: x.as_ptr().wrapping_add(first),
        taps: [rows.count, columns.count],
        steps,
        counted: counted as f32,
        apart,
        lines,
        line_step,
        results,
        out_step,
    };
    // SAFETY: what all lines read lies inside of the slice, as was just seen of the last tap; the level vouches for the instruction
    // set.
    unsafe {
        match level.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => crate::fpool_simd::pixel_avx512(join, &region, out),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => crate::fpool_simd::pixel_avx2(join, &region, out),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon | Isa::NeonDot => crate::fpool_simd::pixel_neon(join, &region, out),
            _ => {
                let _ = (join, region);
                return false;
            }
        }
    }
    true
}

/// Lines of results of a plane by windows of three rows and columns, if it is those and the machine has a kernel.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn slide(
    join: fpool_slide::Join,
    level: Level,
    window: &Window,
    x: &[f32],
    first: usize,
    columns: usize,
    out: &mut [f32],
) -> bool {
    let (spec, map) = (window.spec, window.map);
    let [stride, across] = spec.stride;
    if spec.kernel != [WINDOW; 2] || spec.dilation != [1; 2] || stride != across {
        return false;
    }
    let (extents, pad) = ([map.h, map.w], [spec.pad[0], spec.pad[1]]);
    let lines = Slide { x, extents, row_step: map.stride_h, pad, stride, first, columns };
    fpool_slide::slide(level, join, &lines, out)
}

/// The largest number, or a NaN if there is one and it `NAN_WINS`.
#[derive(Clone, Copy)]
struct MaxFloat<const NAN_WINS: bool>;

impl<const NAN_WINS: bool> Reduce for MaxFloat<NAN_WINS> {
    type In = f32;
    type Sum = f32;
    type Out = f32;
    const BY_PLANES: bool = NAN_WINS;
    #[inline(always)]
    fn start(&self) -> f32 {
        f32::NEG_INFINITY
    }
    #[inline(always)]
    fn add(&self, sum: f32, x: f32) -> f32 {
        // One comparison waits for the sum, that with itself does not.
        let larger = if x > sum { x } else { sum };
        if NAN_WINS && x.is_nan() { x } else { larger }
    }
    #[inline(always)]
    fn join(&self, sum: f32, row: f32) -> f32 {
        self.add(sum, row)
    }
    #[inline(always)]
    fn finish(&self, sum: f32, _taps: usize) -> f32 {
        sum
    }
    #[inline(always)]
    fn pixels(
        &self,
        level: Level,
        window: &Window,
        x: &[f32],
        taps: [Taps; 2],
        counted: usize,
        pixels: [usize; 2],
        out: &mut [f32],
    ) -> bool {
        let join = if NAN_WINS { Join::MaxOrNan } else { Join::Max };
        lines(join, level, window, x, taps, counted, Alike::pixels(window, pixels), out)
    }
    #[inline(always)]
    fn add_rows(&self, level: Level, x: &[f32], _columns: usize, sum: f32) -> f32 {
        self.join(sum, largest(level, x))
    }
    #[inline(always)]
    fn beside(&self) -> Option<f32> {
        // Of a whole map's windows none is cut.
        if NAN_WINS { None } else { Some(f32::NEG_INFINITY) }
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn slide(
        &self,
        level: Level,
        window: &Window,
        x: &[f32],
        first: usize,
        columns: usize,
        out: &mut [f32],
    ) -> bool {
        !NAN_WINS && slide(fpool_slide::Join::Max, level, window, x, first, columns, out)
    }
    #[inline(always)]
    fn line(
        &self,
        level: Level,
        window: &Window,
        x: &[f32],
        taps: [Taps; 2],
        counted: usize,
        rows: usize,
        out: &mut [f32],
    ) -> bool {
        let join = if NAN_WINS { Join::MaxOrNan } else { Join::Max };
        Alike::rows(window, rows, out.len() / rows)
            .is_some_and(|alike| lines(join, level, window, x, taps, counted, alike, out))
    }
}

multiversion! {
    /// The largest number, the first of equal ones, or the last NaN: by steps that know neither NaN nor order, which are looked for
    /// where it matters.
    fn largest(x: &[f32]) -> f32 {
        const LANES: usize = 16;
        let (groups, rest) = x.as_chunks::<{ 4 * LANES }>();
        let (mut bests, mut marks) = ([f32::NEG_INFINITY; 4 * LANES], [0.0; 4 * LANES]);
        for group in groups {
            for ((best, mark), &x) in bests.iter_mut().zip(&mut marks).zip(group) {
                *best = if x > *best { x } else { *best };
                *mark += x;
            }
        }
        let (chunks, rest) = rest.as_chunks::<LANES>();
        // What is left of the last chunk with some before it, which change nothing.
        let again = if rest.is_empty() { None } else { x.last_chunk::<LANES>() };
        for chunk in chunks.iter().chain(again) {
            for ((best, mark), &x) in bests.iter_mut().zip(&mut marks).zip(chunk) {
                *best = if x > *best { x } else { *best };
                *mark += x;
            }
        }
        let few = if again.is_some() { &[][..] } else { rest };
        for ((best, mark), &x) in bests.iter_mut().zip(&mut marks).zip(few) {
            *best = if x > *best { x } else { *best };
            *mark += x;
        }
        if marks.iter().fold(false, |any, mark| any | mark.is_nan())
            && let Some(nan) = x.iter().rfind(|x| x.is_nan())
        {
            return *nan;
        }
        // Halves of a constant width become vectors.
        macro_rules! halve {
            ($($width:literal)*) => {$(
                for lane in 0..$width {
                    let (best, own) = (bests[lane], bests[lane + $width]);
                    bests[lane] = if own > best { own } else { best };
                }
            )*};
        }
        halve!(32 16 8 4 2 1);
        let best = bests[0];
        // Only zeros are equal and not the same.
        let first = if best == 0.0 { x.iter().find(|x| **x == 0.0) } else { None };
        first.copied().unwrap_or(best)
    }
}

#[derive(Clone, Copy)]
struct MeanFloat<const BY_ROWS: bool>;

impl<const BY_ROWS: bool> Reduce for MeanFloat<BY_ROWS> {
    type In = f32;
    type Sum = f32;
    type Out = f32;
    const BY_ROWS: bool = BY_ROWS;
    #[inline(always)]
    fn start(&self) -> f32 {
        0.0
    }
    #[inline(always)]
    fn add(&self, sum: f32, x: f32) -> f32 {
        sum + x
    }
    #[inline(always)]
    fn join(&self, sum: f32, row: f32) -> f32 {
        sum + row
    }
    #[inline(always)]
    fn finish(&self, sum: f32, taps: usize) -> f32 {
        if taps == 0 { 0.0 } else { sum / taps as f32 }
    }
    #[inline(always)]
    fn pixels(
        &self,
        level: Level,
        window: &Window,
        x: &[f32],
        taps: [Taps; 2],
        counted: usize,
        pixels: [usize; 2],
        out: &mut [f32],
    ) -> bool {
        let join = if BY_ROWS { Join::MeanByRows } else { Join::Mean };
        lines(join, level, window, x, taps, counted, Alike::pixels(window, pixels), out)
    }
    #[inline(always)]
    fn add_rows(&self, level: Level, x: &[f32], columns: usize, sum: f32) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if level.isa() >= Isa::Avx2 {
            if columns < LINES {
                // SAFETY: the level vouches for AVX2.
                return unsafe { fpool_simd::add_short_rows_avx2(x, columns, sum) };
            }
            if x.len() >= LINES * columns {
                // SAFETY: as above.
                return unsafe { fpool_simd::add_rows_avx2(x, columns, sum) };
            }
        }
        add_rows(level, *self, x, columns, sum)
    }
    #[inline(always)]
    fn beside(&self) -> Option<f32> {
        // A sum from 0 on is never −0, which alone a 0 would change.
        if BY_ROWS { None } else { Some(0.0) }
    }
    #[inline(always)]
    fn divided(&self, sum: f32, taps: f32) -> f32 {
        sum / taps
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn slide(
        &self,
        level: Level,
        window: &Window,
        x: &[f32],
        first: usize,
        columns: usize,
        out: &mut [f32],
    ) -> bool {
        !BY_ROWS && slide(fpool_slide::Join::Sum, level, window, x, first, columns, out)
    }
    #[inline(always)]
    fn line(
        &self,
        level: Level,
        window: &Window,
        x: &[f32],
        taps: [Taps; 2],
        counted: usize,
        rows: usize,
        out: &mut [f32],
    ) -> bool {
        let join = if BY_ROWS { Join::MeanByRows } else { Join::Mean };
        Alike::rows(window, rows, out.len() / rows)
            .is_some_and(|alike| lines(join, level, window, x, taps, counted, alike, out))
    }
}

/// Slides a window over f32. Sums run in the order of the taps, then divide.
///
/// Errors: extents that do not agree, slices shorter than their maps.
pub fn f32_pool(
    isa: Isa,
    spec: &PoolSpec,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    match spec.kind {
        PoolKind::Max => drive(level, MaxFloat::<false>, spec, x, in_map, y, out_map, pool),
        PoolKind::Average { .. } => drive(level, MeanFloat::<false>, spec, x, in_map, y, out_map, pool),
    }
}

/// One result per image and channel, of f32: an average sums each row, then the rows; among what a maximum is taken of, a NaN
/// wins, as it does in [`reduce`](crate::reduce) and not in a window. `out_map` has one row and one column.
///
/// Errors: as [`f32_pool`].
pub fn f32_global_pool(
    isa: Isa,
    kind: PoolKind,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let (level, spec) = (Level::new(isa), global(kind, in_map, out_map)?);
    match kind {
        PoolKind::Max => drive(level, MaxFloat::<true>, &spec, x, in_map, y, out_map, pool),
        PoolKind::Average { .. } => drive(level, MeanFloat::<true>, &spec, x, in_map, y, out_map, pool),
    }
}
