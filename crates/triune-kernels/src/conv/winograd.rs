//! 3×3 convolutions of step 1 by Winograd's minimal filtering F(2×2, 3×3): sixteen products for four results, where there were 36.
//!
//! ```text
//! for each filter g (3×3):          U = G·g·Gᵀ       in f64, rounded once, when weights are packed
//! for each tile of 2×2 results, d the 4×4 pixels under its windows:
//!     V = Bᵀ·d·B                                     per input channel, additions alone
//!     M[p] = Σ over channels, fma(V[p], U[p], M[p])  per point p of 16: a product of matrices
//!     y = Aᵀ·M·A                                     per output channel, additions alone
//!
//!      1  0 −1  0         1  0  0        1  1  1  0
//! Bᵀ = 0  1  1  0    G =  ½  ½  ½   Aᵀ = 0  1 −1 −1
//!      0 −1  1  0         ½ −½  ½
//!      0  1  0 −1         0  0  1
//! ```
//!
//! (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015.) Each step has its order, columns of a window first, so that
//! every instruction set and thread count gives the same bits; tiles begin at an image's first row and column. What departs:
//!
//! 1. A tile lies in blocks with others, so that each point's matrix is read once for all of them.
//! 2. A value that is not finite would spoil the results of its tile that do not see it, for ∞ − ∞ is NaN: a tile with such a result
//!    is computed window by window, with filters that are taken back from U (as [`Winograd::filter`] says).

use triune_tensor::Buffer;

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::{ConvGeometry, Error, Isa, Pool, math, parallel};

use super::fconv::Views;
use super::fepilogue::Epilogue;
use super::fgemm::{Finish, MAX_COLUMNS, MAX_ROWS, Panels, TILE_STEPS};
use super::fpack::Filter;
use super::winograd_simd as simd;

/// Products per tile and pair of channels: the points that its polynomials are taken at, four by four.
pub(super) const POINTS: usize = 16;

/// Results of a tile.
const RESULTS: usize = 4;

/// Bytes that the two sides of a block's products should take at most where weights leave room for them in the second-level cache.
const BLOCK_BYTES: usize = 3 << 17;

/// Bytes of weights up to which they stay in the second-level cache beside a block.
const RESIDENT_BYTES: usize = 1 << 19;

/// Tiles of a block for weights that come from further away: so many rows of products for each time they are read.
const MANY: usize = 56;

/// Input and output channels from which on products outweigh the additions before and behind them.
const LEAST_CHANNELS: [usize; 2] = [24, 16];

/// Results of an image from which on tiles are enough for each reading of the filters, which are 16/9 as many bytes.
const LEAST_PIXELS: usize = 64;

/// Floats between rows and planes, so that they do not compete for lines of the first-level cache.
const GAP: usize = 16;

/// Scratch pieces start at a multiple of this after rounding up.
const ALIGN: usize = 64;

/// The transformed filters, a matrix of input by output channels for each point.
#[derive(Debug)]
pub(super) struct Winograd {
    level: Level,
    channels: usize,
    panels: Panels,
    weights: Buffer,
    /// Floats of a point's matrix.
    matrix: usize,
}

/// How a block's scratch is laid out, in floats.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Tiles at most.
    tiles: usize,
    /// From one tile's transformed window to the next, and from one point to the next.
    window: [usize; 2],
    /// The same of sums.
    sum: [usize; 2],
    /// Results of a tile, one behind the other.
    stage: usize,
}

impl Plan {
    fn new(panels: &Panels, channels: usize) -> Self {
        let rows = panels.rows;
        let width = panels.count() * panels.columns;
        let (window, sum) = (channels.next_multiple_of(16) + GAP, width + GAP);
        let bytes = POINTS.saturating_mul(window.saturating_add(sum)).saturating_mul(4);
        let resident = POINTS.saturating_mul(channels).saturating_mul(4 * width) <= RESIDENT_BYTES;
        let tiles = if resident { (BLOCK_BYTES / bytes).clamp(rows, MANY) } else { MANY };
        let tiles = tiles / rows * rows;
        Self {
            tiles,
            window: [window, tiles * window + GAP],
            sum: [sum, tiles * sum + GAP],
            stage: RESULTS * width,
        }
    }

    /// Floats of one worker: zeros for pixels outside of the map, windows, sums, two stages.
    fn floats(&self) -> usize {
        let planes = self.window[1].saturating_add(self.sum[1]).saturating_mul(POINTS);
        self.window[0].saturating_add(planes).saturating_add(2 * self.stage)
    }

    /// Bytes of one worker.
    fn bytes(&self) -> usize {
        self.floats().saturating_mul(4).saturating_add(ALIGN)
    }
}

/// Where a tile lies: image, first row and column of its results.
type Place = [usize; 3];

impl Winograd {
    /// Transforms and packs 3×3 filters of one group.
    ///
    /// Errors: fewer values than the extents call for, zero extents, another window.
    pub(super) fn pack(filter: &Filter<'_>, isa: Isa) -> Result<Self, Error> {
        let (channels, _) = filter.check(1, filter.bytes.len() / size_of::<f32>())?;
        if filter.taps != 9 {
            return Err(Error::Invalid("a window other than 3×3 for Winograd's filtering"));
        }
        let level = Level::new(isa);
        let panels = Panels::new(level, filter.out_channels);
        let matrix = panels.packed_len(channels).ok_or(Error::Invalid("weight size overflows"))?;
        let bytes = matrix.checked_mul(POINTS * size_of::<f32>());
        let weights = bytes.and_then(Buffer::zeroed);
        let mut weights = weights.ok_or(Error::Invalid("more weights than there is memory for"))?;
        // SAFETY: any bytes are floats; a buffer is aligned for them.
        let (_, floats, _) = unsafe { weights.align_to_mut::<f32>() };
        for panel in spans(panels.count(), channels.saturating_mul(panels.columns * POINTS)).flatten() {
            let (width, used) = (panels.width(panel), panels.used(panel));
            for input in 0..channels {
                let mut taps = [[0.0; MAX_COLUMNS]; 9];
                for column in 0..used {
                    for (tap, taps) in taps.iter_mut().enumerate() {
                        taps[column] = filter.get(panel * panels.columns + column, tap, input);
                    }
                }
                let points = transformed(level, &taps);
                let at = panels.start(panel, channels) + input * width;
                for (point, values) in points.iter().enumerate() {
                    floats[point * matrix + at..][..width].copy_from_slice(&values[..width]);
                }
            }
        }
        Ok(Self { level, channels, panels, weights, matrix })
    }

    /// Bytes of the packed weights.
    pub(super) fn bytes(&self) -> usize {
        self.weights.len()
    }

    /// Whether a convolution is one that this room has.
    pub(super) fn takes(geometry: &ConvGeometry) -> bool {
        let ConvGeometry { kernel, stride, dilation, groups, .. } = *geometry;
        (kernel, stride, dilation, groups) == ([3, 3], [1, 1], [1, 1], 1)
    }

    /// Whether it takes less time than nine products each.
    pub(super) fn gains([inputs, outputs]: [usize; 2], [rows, columns]: [usize; 2]) -> bool {
        inputs >= LEAST_CHANNELS[0]
            && outputs >= LEAST_CHANNELS[1]
            && rows.saturating_mul(columns) >= LEAST_PIXELS
    }

    /// Bytes of scratch for a pool of so many threads.
    pub(super) fn scratch_bytes(&self, threads: usize) -> usize {
        Plan::new(&self.panels, self.channels).bytes().saturating_mul(threads.max(1))
    }

    fn floats(&self) -> &[f32] {
        // SAFETY: any bytes are floats; a buffer is aligned for them.
        unsafe { self.weights.align_to::<f32>() }.1
    }

    /// Computes all results of checked maps; the geometry is one that [`Self::takes`].
    pub(super) fn run(
        &self,
        geometry: &ConvGeometry,
        epilogue: &Epilogue,
        views: &Views<'_>,
        scratch: &mut [u8],
        pool: &Pool,
    ) {
        let plan = Plan::new(&self.panels, self.channels);
        let out = views.out_map;
        let [lines, columns] = [out.h.div_ceil(2), out.w.div_ceil(2)];
        let tiles = out.n * lines * columns;
        let threads = pool.threads();
        let blocks = tiles.div_ceil(plan.tiles);
        let blocks = if threads > 1 {
            blocks.next_multiple_of(threads).min(tiles.div_ceil(self.panels.rows)).max(blocks)
        } else {
            blocks
        };
        let scratch = parallel::Shared::new(scratch);
        pool.run(blocks, &|block, worker| {
            // SAFETY: one piece per worker, inside of the scratch as its length was checked.
            let scratch = unsafe { scratch.piece(worker * plan.bytes(), plan.bytes()) };
            let range = block * tiles / blocks..(block + 1) * tiles / blocks;
            let place =
                |tile: usize| [tile / (lines * columns), tile / columns % lines * 2, tile % columns * 2];
            Block::new(self, geometry, epilogue, views, plan, scratch).run(range.map(place));
        });
    }

    /// A filter's tap, as far as U still tells: sums and differences of the tap with its neighbours, which are within the rounding of
    /// the largest of them.
    fn filter(&self, row: usize, column: usize, input: usize, output: usize) -> f32 {
        let panel = output / self.panels.columns;
        let at = self.panels.start(panel, self.channels)
            + input * self.panels.width(panel)
            + output % self.panels.columns;
        let u = |i: usize, j: usize| self.floats()[(4 * i + j) * self.matrix + at];
        let along = |i: usize| match column {
            0 => u(i, 0),
            1 => u(i, 1) - u(i, 2),
            _ => u(i, 3),
        };
        match row {
            0 => along(0),
            1 => along(1) - along(2),
            _ => along(3),
        }
    }
}

/// As many of one value as a panel has columns.
type Row<T> = [T; MAX_COLUMNS];

multiversion! {
    /// U = G·g·Gᵀ of one filter per column.
    fn transformed(taps: &[Row<f32>; 9]) -> [Row<f32>; POINTS] {
        let mut points = [[0.0; MAX_COLUMNS]; POINTS];
        // Columns of the filters, then rows.
        let mut lines = [[[0.0f64; MAX_COLUMNS]; 3]; 4];
        for tap in 0..3 {
            let [a, b, c] = [&taps[tap], &taps[3 + tap], &taps[6 + tap]];
            for column in 0..MAX_COLUMNS {
                let [a, b, c] = [f64::from(a[column]), f64::from(b[column]), f64::from(c[column])];
                lines[0][tap][column] = a;
                lines[1][tap][column] = (a + b + c) * 0.5;
                lines[2][tap][column] = (a - b + c) * 0.5;
                lines[3][tap][column] = c;
            }
        }
        for (line, [a, b, c]) in lines.iter().enumerate() {
            for column in 0..MAX_COLUMNS {
                let [a, b, c] = [a[column], b[column], c[column]];
                points[4 * line][column] = a as f32;
                points[4 * line + 1][column] = ((a + b + c) * 0.5) as f32;
                points[4 * line + 2][column] = ((a - b + c) * 0.5) as f32;
                points[4 * line + 3][column] = c as f32;
            }
        }
        points
    }
}

/// What one task works on.
struct Block<'a> {
    own: &'a Winograd,
    pad: [usize; 2],
    epilogue: &'a Epilogue,
    views: &'a Views<'a>,
    plan: Plan,
    zeros: *const f32,
    windows: *mut f32,
    sums: *mut f32,
    stages: [*mut f32; 2],
}

impl<'a> Block<'a> {
    /// Carves the scratch, which holds the plan's bytes.
    #[expect(clippy::cast_ptr_alignment, reason = "aligned by hand")]
    fn new(
        own: &'a Winograd,
        geometry: &ConvGeometry,
        epilogue: &'a Epilogue,
        views: &'a Views<'a>,
        plan: Plan,
        scratch: &mut [u8],
    ) -> Self {
        let skip = scratch.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        let zeros = scratch[skip..].as_mut_ptr().cast::<f32>();
        for at in 0..plan.window[0] {
            // SAFETY: the plan counts the zeros into the scratch, and ALIGN for the rounding.
            unsafe { zeros.add(at).write(0.0) };
        }
        let windows = zeros.wrapping_add(plan.window[0]);
        let sums = windows.wrapping_add(POINTS * plan.window[1]);
        let stage = sums.wrapping_add(POINTS * plan.sum[1]);
        let stages = [stage, stage.wrapping_add(plan.stage)];
        let pad = [geometry.pad[0], geometry.pad[1]];
        Self { own, pad, epilogue, views, plan, zeros, windows, sums, stages }
    }

    fn run(&self, places: impl Iterator<Item = Place> + Clone) {
        let mut tiles = 0;
        for place in places.clone() {
            self.take_window(tiles, place);
            tiles += 1;
        }
        self.multiply(tiles);
        for (tile, place) in places.enumerate() {
            self.give_results(tile, place);
        }
    }

    /// The pixels under a tile's windows, row by row: where their channels lie, zeros outside of the map.
    fn pixels(&self, [n, h, w]: Place) -> [*const f32; POINTS] {
        let map = self.views.in_map;
        let image = self.views.input.as_ptr().wrapping_add(n * map.stride_n);
        let mut pixels = [self.zeros; POINTS];
        for i in 0..4 {
            // Beyond the last row above the first one.
            let y = (h + i).wrapping_sub(self.pad[0]);
            for j in 0..4 {
                let x = (w + j).wrapping_sub(self.pad[1]);
                if y < map.h && x < map.w {
                    pixels[4 * i + j] = image.wrapping_add(y * map.stride_h + x * map.stride_w);
                }
            }
        }
        pixels
    }

    /// V of one tile.
    fn take_window(&self, tile: usize, place: Place) {
        let (channels, [row, plane]) = (self.own.channels, self.plan.window);
        let pixels = self.pixels(place);
        let to = self.windows.wrapping_add(tile * row);
        // SAFETY: pixels of the checked map have so many channels, as have the zeros; rows and planes are the plan's. The level
        // vouches for the instruction set.
        unsafe {
            let done = match self.own.level.isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => {
                    simd::windows_avx512(&pixels, 0, channels, to, plane)
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => simd::windows_avx2(&pixels, 0, channels, to, plane),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon | Isa::NeonDot => simd::windows_neon(&pixels, 0, channels, to, plane),
                _ => 0,
            };
            simd::windows_scalar(&pixels, done, channels, to, plane);
        }
    }

    /// M of so many tiles.
    fn multiply(&self, tiles: usize) {
        let Winograd { panels, channels, matrix, .. } = self.own;
        let ([window, windows], [sum, sums]) = (self.plan.window, self.plan.sum);
        let bias = [0.0f32; MAX_COLUMNS];
        let groups = tiles.div_ceil(panels.rows);
        for point in 0..POINTS {
            let weights = self.own.floats()[point * matrix..].as_ptr();
            let (from, to) =
                (self.windows.wrapping_add(point * windows), self.sums.wrapping_add(point * sums));
            let steps = channels.saturating_mul(TILE_STEPS * tiles);
            for panel in spans(panels.count(), steps).flatten() {
                let width = panels.width(panel);
                let b = weights.wrapping_add(panels.start(panel, *channels));
                for group in 0..groups {
                    let (first, end) = (group * tiles / groups, (group + 1) * tiles / groups);
                    let mut a = [std::ptr::null(); MAX_ROWS];
                    let mut output = [std::ptr::null_mut(); MAX_ROWS];
                    for (row, tile) in (first..end).enumerate() {
                        a[row] = from.wrapping_add(tile * window).cast_const();
                        output[row] = to.wrapping_add(tile * sum);
                    }
                    let finish = Finish {
                        factors: std::ptr::null(),
                        bias: bias.as_ptr(),
                        residual: std::ptr::null(),
                        output: output.as_ptr(),
                        ahead: output.as_ptr(),
                        next: 0,
                        offset: panel * panels.columns,
                        used: width,
                        limits: [f32::NEG_INFINITY, f32::INFINITY],
                    };
                    // SAFETY: at most `panels.rows` rows; each pointer has a row of the plan behind it, with room for whole panels; the
                    // panel holds `channels` rows of `width` floats.
                    unsafe { panels.tile(end - first, width, a.as_ptr(), 1, *channels, b, &finish) };
                }
            }
        }
    }

    /// Y of one tile, and what follows sums.
    fn give_results(&self, tile: usize, place: Place) {
        let (channels, [row, plane]) = (self.own.panels.n, self.plan.sum);
        let from = self.sums.wrapping_add(tile * row).cast_const();
        let [sums, results] = self.stages;
        // SAFETY: rows and planes are the plan's, and a stage has room for four results. The level vouches for the instruction set.
        let is_finite = unsafe {
            let (done, is_finite) = match self.own.level.isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx512Vnni | Isa::Amx => {
                    simd::results_avx512(from, plane, 0, channels, sums, channels)
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => simd::results_avx2(from, plane, 0, channels, sums, channels),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon | Isa::NeonDot => simd::results_neon(from, plane, 0, channels, sums, channels),
                _ => (0, true),
            };
            is_finite & simd::results_scalar(from, plane, done, channels, sums, channels).1
        };
        // SAFETY: the stages lie apart, and nobody else has them.
        let [sums, results] =
            [sums, results].map(|stage| unsafe { std::slice::from_raw_parts_mut(stage, RESULTS * channels) });
        if !is_finite {
            self.recompute(place, sums);
        }
        let [n, h, w] = place;
        let (out, Epilogue { bias, limits, function, .. }) = (self.views.out_map, self.epilogue);
        for (index, (sums, results)) in
            sums.chunks_exact_mut(channels).zip(results.chunks_exact_mut(channels)).enumerate()
        {
            let (h, w) = (h + index / 2, w + index % 2);
            if h >= out.h || w >= out.w {
                continue;
            }
            let residual =
                self.views.residual.map(|(values, map)| &values[map.offset(n, h, w)..][..channels]);
            // SAFETY: a pixel of the checked map, which no other tile has.
            let output = unsafe {
                std::slice::from_raw_parts_mut(self.views.output.add(out.offset(n, h, w)), channels)
            };
            if function.is_some() {
                finish(self.own.level, sums, &bias[..channels], residual, *limits, results);
                self.epilogue.activate(results, output);
            } else {
                finish(self.own.level, sums, &bias[..channels], residual, *limits, output);
            }
        }
    }

    /// The sums of one tile window by window, where a value or a sum is not finite: one that sees a NaN is NaN.
    #[cold]
    fn recompute(&self, place: Place, sums: &mut [f32]) {
        let inputs = self.own.channels;
        let pixels = self.pixels(place);
        for (index, sums) in sums.chunks_exact_mut(self.own.panels.n).enumerate() {
            let window: [&[f32]; 9] = std::array::from_fn(|tap| {
                let pixel = pixels[4 * (index / 2 + tap / 3) + index % 2 + tap % 3];
                // SAFETY: a pixel of the checked map, or zeros; both have so many channels.
                unsafe { std::slice::from_raw_parts(pixel, inputs) }
            });
            if window.iter().any(|pixel| pixel.iter().any(|x| x.is_nan())) {
                sums.fill(f32::NAN);
                continue;
            }
            for (output, sum) in sums.iter_mut().enumerate() {
                *sum = 0.0;
                for (tap, pixel) in window.iter().enumerate() {
                    for (input, &x) in pixel.iter().enumerate() {
                        *sum = x.mul_add(self.own.filter(tap / 3, tap % 3, input, output), *sum);
                    }
                }
            }
        }
    }
}

multiversion! {
    /// y = min(max(sum + bias (+ residual), low), high).
    fn finish(sums: &[f32], bias: &[f32], residual: Option<&[f32]>, limits: [f32; 2], output: &mut [f32]) {
        let [low, high] = limits;
        if let Some(residual) = residual {
            for (((y, &sum), &bias), &residual) in output.iter_mut().zip(sums).zip(bias).zip(residual) {
                *y = math::min(math::max(sum + bias + residual, low), high);
            }
        } else {
            for ((y, &sum), &bias) in output.iter_mut().zip(sums).zip(bias) {
                *y = math::min(math::max(sum + bias, low), high);
            }
        }
    }
}
