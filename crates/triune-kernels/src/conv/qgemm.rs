//! Quantized convolution as a matrix product: rows are output pixels, depth is kernel taps × channels.
//!
//! A task takes a tile of pixels. It gathers their windows into scratch, one row of bytes per pixel (im2col, in runs of
//! channels; a 1×1 window over bytes of the sign that the dot product takes is read where it lies), and multiplies them by panels of packed
//! weights. A microkernel goes over the whole depth, so sums never leave registers before they are bytes.
#![expect(clippy::inline_always, reason = "vector code must be inlined where the instruction set is enabled")]

use crate::{
    Isa, Nhwc, Pool,
    arch::int8::{GemmKernel, Int8},
    cancel::Pace,
    dispatch::Level,
    imatmul::{Tiles, add_products},
};

use super::{
    method::ConvMethod,
    qconv::{Params, Views},
    qepilogue::Epilogue,
    qpack::{self, Packed, Vector},
    qrows::{self, Bands},
};

/// Pixels of a tile at most.
const MAX_ROWS: usize = 192;
/// What tile sizes are multiples of: the common multiple of the usual microkernels' rows.
const ROW_STEP: usize = 24;
/// Bytes of gathered activations that stay in the second-level cache beside the weights that stream through it, and on machines with
/// tiles, whose cache has 2 MiB.
const TILE_BYTES: usize = 256 << 10;
const TILE_BYTES_TILED: usize = 1 << 20;
/// How far packing may write beyond a row.
pub(super) const SLACK: usize = 64;
/// Rows of a microkernel at most.
const MOST_ROWS: usize = 32;

/// Rows from which on a tile that is not full takes less time than vectors.
const LEAST_TILED: usize = 4;

/// Microkernels that multiply in tiles, by number of panels: rows, from large to small, and the function.
pub(crate) type TileKernels = [[(usize, GemmKernel); 2]; 2];

/// A convolution packed for the matrix product.
#[derive(Debug)]
pub(crate) struct QGemm {
    packed: Packed,
    epilogue: Epilogue,
    pub(super) vector: Vector,
    tile: TileFn,
    /// Whether windows are pixels that the microkernel takes as they are.
    in_place: bool,
    /// Whether windows may be read in rows: each of their rows begins with a step.
    in_rows: bool,
    /// Bytes from one gathered row to the next.
    pub(super) row_bytes: usize,
    /// Pixels of a tile at most.
    max_rows: usize,
    /// Panels that a microkernel takes at most.
    max_panels: usize,
    /// What multiplies in tiles, where the machine has them.
    tiled: Option<Tiled>,
}

/// Microkernels that multiply whole tiles of a run's depth as such.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has tiles"))]
struct Tiled {
    level: Level,
    kernels: &'static TileKernels,
    /// Steps of a run from which on there is a tile.
    least: usize,
    /// Biases of sums that begin in tiles.
    bias: Vec<i32>,
}

type TileFn = unsafe fn(&GemmJob<'_>, usize, usize);

/// One run over a pair of maps.
pub(crate) struct GemmJob<'a> {
    pub(super) gemm: &'a QGemm,
    pub(super) p: &'a Params,
    pub(super) views: &'a Views<'a>,
    /// Pixels of a tile.
    rows: usize,
    /// Tasks that share the panels of one tile and group, and the panels of each.
    pub(super) chunks: usize,
    chunk_panels: usize,
    /// Elements between pixels, if rows are read from the input itself.
    direct: Option<usize>,
    /// Instead of tiles, if windows are read in rows.
    bands: Option<Bands>,
    pub(super) scratch: *mut u8,
}

// SAFETY: tasks write disjoint parts of the output, and workers disjoint parts of the scratch.
unsafe impl Sync for GemmJob<'_> {}

/// What a microkernel multiplies, and where the bytes go.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    /// First row of activations, and bytes to the next.
    activations: *const u8,
    stride: usize,
    /// Runs of a row, bytes between their beginnings, and steps of each.
    runs: usize,
    apart: usize,
    steps: usize,
    /// First panel of weights, of its biases and multipliers; they follow each other.
    weights: *const u8,
    bias: *const i32,
    multiplier: *const f32,
    epilogue: &'a Epilogue,
    /// Columns that exist.
    columns: usize,
    /// Where column 0 of each row goes.
    output: *mut u8,
    output_at: &'a [usize],
    residual: *const u8,
    residual_at: &'a [usize],
}

impl QGemm {
    pub(crate) fn new(p: &Params, weights: &[i8], level: Level) -> Option<Self> {
        #[cfg(target_arch = "aarch64")]
        use crate::arch::int8_neon::{Neon, tile_dot, tile_neon};
        #[cfg(target_arch = "x86_64")]
        use crate::arch::{
            int8_avx2::{Avx2, tile_avx2},
            int8_avx512::{Avx512, tile_avx512, tile_flipping, tile_vnni},
        };
        let (tile, vector, max_panels, flips): (TileFn, Vector, _, _) = match level.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => (tile_avx2, Vector::of::<Avx2>(), Avx2::ROWS.len(), false),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => (tile_avx512, Vector::of::<Avx512<false>>(), Avx512::<false>::ROWS.len(), false),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni | Isa::Amx => {
                let vector = Vector::of::<Avx512<true>>();
                let flips = vector.flip(p.input) != 0 && is_pointwise(p);
                (if flips { tile_flipping } else { tile_vnni }, vector, <Avx512<true>>::ROWS.len(), flips)
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => (tile_neon, Vector::of::<Neon<false>>(), Neon::<false>::ROWS.len(), false),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => (tile_dot, Vector::of::<Neon<true>>(), Neon::<true>::ROWS.len(), false),
            _ => return None,
        };
        let in_place = is_pointwise(p) && vector.width == 1 && (flips || vector.flip(p.input) == 0);
        let in_rows = qrows::serves(p);
        let runs = if in_rows { p.geometry.kernel[0] } else { 1 };
        let packed = qpack::panels(p, weights, runs, vector);
        let tiled = Tiled::new(level, &packed, packed.steps / runs, flips);
        // Two panels of tiles fill the registers.
        let max_panels = tiled.as_ref().map_or(max_panels, |tiled| tiled.kernels.len());
        // An odd number of cache lines, so that the rows of a microkernel do not fall into the same cache sets.
        let row_bytes = (4 * packed.steps).next_multiple_of(64) | 64;
        let (row_step, tile_bytes) =
            if tiled.is_some() { (MOST_ROWS, TILE_BYTES_TILED) } else { (ROW_STEP, TILE_BYTES) };
        let max_rows = (tile_bytes / row_bytes / row_step * row_step).clamp(row_step, MAX_ROWS);
        Some(Self {
            packed,
            epilogue: Epilogue::new(p, level),
            vector,
            tile,
            in_place,
            in_rows,
            row_bytes,
            max_rows,
            max_panels,
            tiled,
        })
    }

    pub(super) fn slot_bytes(&self) -> usize {
        (self.max_rows * self.row_bytes + SLACK).next_multiple_of(64)
    }

    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        threads * self.slot_bytes() + 64
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Elements between pixels, if rows are read from the input itself.
    pub(crate) fn direct(&self, in_map: &Nhwc) -> Option<usize> {
        if self.in_place { pixel_stride(in_map) } else { None }
    }

    /// How a map is read whose windows are not read where they lie.
    pub(super) fn copying(&self, p: &Params, in_map: &Nhwc) -> ConvMethod {
        let out = p.geometry.output(in_map.h, in_map.w);
        let out = out.map(|[h, w]| Nhwc::dense(in_map.n, h, w, p.out_channels));
        let bands = out.and_then(|out| self.bands(p, &out, 1));
        if bands.is_some() { ConvMethod::Rows } else { ConvMethod::Gather }
    }

    fn bands(&self, p: &Params, out: &Nhwc, wanted: usize) -> Option<Bands> {
        let new = || Bands::new(p, self.vector.width, out, self.slot_bytes(), wanted);
        self.in_rows.then(new).flatten()
    }

    pub(crate) fn run(&self, p: &Params, views: &Views<'_>, scratch: &mut [u8], pool: &Pool) {
        let g = &p.geometry;
        let direct = self.direct(&views.in_map);
        let pixels = views.out_map.pixels();
        // Several tasks per thread even out their ends; tiles are cut before panels, because tasks that share a
        // tile gather it once each.
        let wanted = if pool.threads() == 1 { 1 } else { 4 * pool.threads() };
        let bands = self.bands(p, &views.out_map, wanted);
        let tiles = pixels.div_ceil(self.max_rows).max(wanted.div_ceil(g.groups).min(pixels.div_ceil(48)));
        let unit = if self.tiled.is_some() { MOST_ROWS } else { 12 };
        let rows = pixels.div_ceil(tiles).next_multiple_of(unit).min(self.max_rows);
        let tiles = bands.map_or(pixels.div_ceil(rows), |bands| bands.count(views.out_map.n));
        let panels = self.packed.panels;
        let chunks = wanted.div_ceil(tiles * g.groups).clamp(1, panels.div_ceil(self.max_panels));
        let chunk_panels = panels.div_ceil(chunks).next_multiple_of(self.max_panels);
        let chunks = panels.div_ceil(chunk_panels);
        let scratch = scratch.as_mut_ptr();
        let scratch = scratch.wrapping_add(scratch.align_offset(64).min(64));
        let job = GemmJob { gemm: self, p, views, rows, chunks, chunk_panels, direct, bands, scratch };
        pool.run(tiles * g.groups * chunks, &|task, worker| {
            let _tiles = self.tiled.as_ref().map(|tiled| Tiles::on(tiled.level));
            // SAFETY: `new` chose the function for an instruction set that the machine has; QConv::run checked slices.
            unsafe { (self.tile)(&job, task, worker) }
        });
    }
}

impl Tiled {
    /// For runs of so many steps; activations that are read as they are, though flipped elsewhere, are signed bytes to a tile.
    #[cfg(target_arch = "x86_64")]
    fn new(level: Level, packed: &Packed, steps: usize, signed: bool) -> Option<Self> {
        use crate::arch::{
            int8_amx::STEPS,
            int8_avx512::{TILED, TILED_SIGNED},
        };
        if level.isa() != Isa::Amx || steps < STEPS {
            return None;
        }
        let mut bias = packed.bias.clone();
        if signed {
            let (lanes, whole) = (16, steps / STEPS * STEPS);
            for (panel, bias) in bias.chunks_exact_mut(lanes).enumerate() {
                let weights =
                    &packed.weights.as_bytes()[panel * packed.steps * lanes * 4..][..whole * lanes * 4];
                for (index, &weight) in weights.iter().enumerate() {
                    // What flipping would have added; modulo 2³², as all sums are.
                    let bias = &mut bias[index / 4 % lanes];
                    *bias = bias.wrapping_add(128 * i32::from(weight.cast_signed()));
                }
            }
        }
        Some(Self { level, kernels: if signed { &TILED_SIGNED } else { &TILED }, least: STEPS, bias })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn new(_: Level, _: &Packed, _: usize, _: bool) -> Option<Self> {
        None
    }
}

/// Whether windows are single pixels, one step apart, of whole steps of channels.
fn is_pointwise(p: &Params) -> bool {
    let g = &p.geometry;
    g.kernel == [1, 1]
        && g.stride == [1, 1]
        && g.pad == [0; 4]
        && (p.in_channels / g.groups).is_multiple_of(4)
}

/// Elements from one pixel to the next, if they are the same throughout.
pub(super) fn pixel_stride(map: &Nhwc) -> Option<usize> {
    let stride = if map.w > 1 {
        map.stride_w
    } else if map.h > 1 {
        map.stride_h
    } else {
        map.stride_n
    };
    let rows = map.h <= 1 || Some(map.stride_h) == map.w.checked_mul(stride);
    let images = map.n <= 1 || Some(map.stride_n) == (map.w * map.h).checked_mul(stride);
    (rows && images).then_some(stride)
}

/// A walk over where the pixels of a map lie.
struct Walk {
    at: usize,
    /// Elements from a pixel to the next, if they are the same throughout, else the map and the pixel.
    stride: Result<usize, (Nhwc, Pixel)>,
}

impl Walk {
    fn new(map: &Nhwc, [n, y, x]: [usize; 3]) -> Self {
        let stride = pixel_stride(map).ok_or((*map, Pixel { n, y, x }));
        Self { at: map.offset(n, y, x), stride }
    }

    /// The places of the next pixels.
    #[inline(always)]
    fn take(&mut self, places: &mut [usize]) {
        match &mut self.stride {
            Ok(stride) => {
                for place in places {
                    *place = self.at;
                    self.at += *stride;
                }
            }
            Err((map, pixel)) => {
                for place in places {
                    *place = pixel.offset(map);
                    pixel.step(map);
                }
            }
        }
    }
}

/// A walk over the pixels of a map.
#[derive(Clone, Copy)]
pub(super) struct Pixel {
    n: usize,
    y: usize,
    x: usize,
}

impl Pixel {
    pub(super) fn at(map: &Nhwc, index: usize) -> Self {
        Self { n: index / (map.h * map.w), y: index / map.w % map.h, x: index % map.w }
    }

    /// Image, row and column.
    pub(super) fn place(&self) -> [usize; 3] {
        [self.n, self.y, self.x]
    }

    /// Where the pixel's first channel lies.
    pub(super) fn offset(&self, map: &Nhwc) -> usize {
        map.offset(self.n, self.y, self.x)
    }

    pub(super) fn step(&mut self, map: &Nhwc) {
        self.x += 1;
        if self.x == map.w {
            (self.x, self.y) = (0, self.y + 1);
            if self.y == map.h {
                (self.y, self.n) = (0, self.n + 1);
            }
        }
    }
}

/// Pixels whose windows lie a step apart.
pub(super) struct Line {
    /// The first one's window, and bytes to the next.
    pub(super) activations: *const u8,
    pub(super) stride: usize,
    /// Runs of a window, and bytes between their beginnings.
    pub(super) runs: usize,
    pub(super) apart: usize,
    /// Bytes from the first window on that may be read.
    pub(super) readable: usize,
    /// Image, row and column of the first in the output.
    pub(super) pixel: [usize; 3],
    pub(super) rows: usize,
}

impl GemmJob<'_> {
    /// The panels of a chunk, as many together as a microkernel takes: the first one and their number.
    pub(super) fn panels(&self, chunk: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (first, most) = (chunk * self.chunk_panels, self.gemm.max_panels);
        let last = self.gemm.packed.panels.min(first + self.chunk_panels);
        (first..last).step_by(most).map(move |panel| (panel, (last - panel).min(most)))
    }

    /// Multiplies some of a group's panels by the windows of a line.
    ///
    /// # Safety
    /// The CPU has `S`; the line's pixels and windows exist, and so do the panels.
    #[inline(always)]
    pub(super) unsafe fn multiply<S: Int8>(&self, line: &Line, group: usize, panel: usize, count: usize) {
        let (gemm, views) = (self.gemm, self.views);
        let columns = self.p.out_channels / self.p.geometry.groups;
        let packed = group * gemm.packed.panels + panel;
        let column = group * columns + panel * S::LANES;
        let (mut output, mut residual) = (Walk::new(&views.out_map, line.pixel), None);
        if let Some((_, map)) = &views.residual {
            residual = Some(Walk::new(map, line.pixel));
        }
        let (mut output_at, mut residual_at) = ([0; MOST_ROWS], [0; MOST_ROWS]);
        let steps = gemm.packed.steps / line.runs;
        let mut multiply = |row: usize, rows: usize, kernel: GemmKernel, bias: &[i32]| {
            output.take(&mut output_at[..rows]);
            if let Some(residual) = &mut residual {
                residual.take(&mut residual_at[..rows]);
            }
            // SAFETY: the packed arrays have `count` panels from `packed` on; rows and columns exist in all maps.
            unsafe {
                kernel(&Block {
                    activations: line.activations.add(row * line.stride),
                    stride: line.stride,
                    runs: line.runs,
                    apart: line.apart,
                    steps,
                    weights: gemm.packed.panel(packed, S::LANES),
                    bias: bias.as_ptr().add(packed * S::LANES),
                    multiplier: gemm.packed.multiplier.as_ptr().add(packed * S::LANES),
                    epilogue: &gemm.epilogue,
                    columns: columns - panel * S::LANES,
                    output: views.output.add(column),
                    output_at: &output_at[..rows],
                    residual: views
                        .residual
                        .map_or(std::ptr::null(), |(bytes, _)| bytes.as_ptr().add(column)),
                    residual_at: &residual_at[..rows],
                });
            }
        };
        let mut row = 0;
        if let Some(tiled) = gemm.tiled.as_ref().filter(|tiled| steps >= tiled.least) {
            let [tall, low] = tiled.kernels[count - 1];
            // Where the rows of a tile end that begins so many rows behind the first.
            let reach = |row: usize| {
                (row - 1) * line.stride + (line.runs - 1) * line.apart + steps / tiled.least * tiled.least * 4
            };
            while line.rows - row >= LEAST_TILED {
                let left = line.rows - row;
                let fits = |(rows, _): (usize, GemmKernel)| reach(row + rows) <= line.readable;
                let (rows, kernel) = if left > low.0 && fits(tall) { tall } else { low };
                if !fits((rows, kernel)) {
                    break;
                }
                let rows = rows.min(left);
                multiply(row, rows, kernel, &tiled.bias);
                row += rows;
            }
        }
        for &rows in S::ROWS[count - 1] {
            let kernel = S::kernel(rows, count);
            while line.rows - row >= rows {
                multiply(row, rows, kernel, &gemm.packed.bias);
                row += rows;
            }
        }
    }

    /// Looks up what [`Self::multiply`] has stored of a chunk.
    ///
    /// # Safety
    /// As there; this task has written those bytes.
    #[inline(always)]
    pub(super) unsafe fn look_up<S: Int8>(&self, line: &Line, group: usize, chunk: usize) {
        let (gemm, views) = (self.gemm, self.views);
        if !gemm.epilogue.looks_up_stored() {
            return;
        }
        let columns = self.p.out_channels / self.p.geometry.groups;
        let begin = chunk * self.chunk_panels * S::LANES;
        let n = columns.min(begin + self.chunk_panels * S::LANES) - begin;
        let mut walk = Walk::new(&views.out_map, line.pixel);
        // SAFETY: the caller's contract.
        unsafe {
            let output = views.output.add(group * columns + begin);
            if pixel_stride(&views.out_map) == Some(n) {
                gemm.epilogue.look_up_stored(output.add(walk.at), line.rows * n);
                return;
            }
            for _ in 0..line.rows {
                let mut at = [0];
                walk.take(&mut at);
                gemm.epilogue.look_up_stored(output.add(at[0]), n);
            }
        }
    }
}

/// Computes one tile, or a part of its columns.
///
/// # Safety
/// The CPU has `S`; the job's maps lie within their slices, `scratch` has a slot for `worker`.
#[inline(always)]
pub(crate) unsafe fn gemm_tile<S: Int8>(job: &GemmJob<'_>, task: usize, worker: usize) {
    if let Some(bands) = &job.bands {
        // SAFETY: the caller's contract.
        unsafe { qrows::band::<S>(job, bands, task, worker) };
        return;
    }
    let (gemm, p, views) = (job.gemm, job.p, job.views);
    let groups = p.geometry.groups;
    let (chunk, group, tile) = (task % job.chunks, task / job.chunks % groups, task / job.chunks / groups);
    let first = tile * job.rows;
    let rows = job.rows.min(views.out_map.pixels() - first);
    let depth = p.in_channels / groups;
    let (activations, stride, readable) = if let Some(stride) = job.direct {
        // Pixel `first` exists.
        let input = &views.input[first * stride + group * depth..];
        (input.as_ptr(), stride, input.len())
    } else {
        // SAFETY: the worker's slot holds `max_rows` ≥ `rows` rows and the slack.
        unsafe {
            let to = job.scratch.add(worker * gemm.slot_bytes());
            gather::<S>(job, group, first, rows, to);
            (to.cast_const(), gemm.row_bytes, gemm.slot_bytes())
        }
    };
    let pixel = Pixel::at(&views.out_map, first).place();
    let line = Line { activations, stride, runs: 1, apart: 0, readable, pixel, rows };
    // A panel's step covers many bytes of a row.
    let steps = rows.saturating_mul(gemm.row_bytes / 8);
    let mut pace = Pace::new();
    for (panel, count) in job.panels(chunk) {
        if pace.stops(steps) {
            return;
        }
        // SAFETY: the caller's contract.
        unsafe { job.multiply::<S>(&line, group, panel, count) };
    }
    // SAFETY: the caller's contract.
    unsafe { job.look_up::<S>(&line, group, chunk) };
}

/// Packs the windows of `rows` pixels from `first` on, one row each.
///
/// Rows are written from front to back, so that what a run writes beyond its end is overwritten by the next.
///
/// # Safety
/// As [`gemm_tile`]; `to` has room for the rows and the slack.
#[inline(always)]
unsafe fn gather<S: Int8>(job: &GemmJob<'_>, group: usize, first: usize, rows: usize, to: *mut u8) {
    let (p, map, out) = (job.p, &job.views.in_map, &job.views.out_map);
    let g = &p.geometry;
    let [kh, kw] = g.kernel;
    let depth = p.in_channels / g.groups;
    let vector = job.gemm.vector;
    let (mut flip, mut zero_point) = (vector.flip(p.input), vector.zero_point(p.input) as u8);
    if S::FLIPS {
        (flip, zero_point) = (0, zero_point ^ flip);
    }
    // Each row of a window fills whole steps, if they are packed so.
    let beyond = (kw * depth * S::WIDTH).next_multiple_of(4) - kw * depth * S::WIDTH;
    let beyond = if job.gemm.in_rows { beyond } else { 0 };
    // The taps of a kernel row are one run if columns and channels follow each other without gap.
    let merged = g.groups == 1 && g.dilation[1] == 1 && (map.stride_w == depth || kw == 1);
    let (runs, run) = if merged { (1, kw * depth) } else { (kw, depth) };
    let window = (kw - 1) * g.dilation[1] + 1;
    let input = job.views.input.as_ptr();
    let mut pixel = Pixel::at(out, first);
    for row in 0..rows {
        // SAFETY: rows and taps that lie outside of the map are filled, the others lie within the input's slice.
        unsafe {
            let mut to = to.add(row * job.gemm.row_bytes);
            let left = pixel.x * g.stride[1];
            let inside = left >= g.pad[1] && left - g.pad[1] + window <= map.w;
            for ky in 0..kh {
                let y = (pixel.y * g.stride[0] + ky * g.dilation[0]).wrapping_sub(g.pad[0]);
                if y >= map.h {
                    S::fill_activations(to, zero_point, kw * depth);
                    to = to.add(kw * depth * S::WIDTH + beyond);
                    continue;
                }
                let from = input.add(map.offset(pixel.n, y, 0) + group * depth);
                if inside {
                    let mut from = from.add((left - g.pad[1]) * map.stride_w);
                    for _ in 0..runs {
                        S::pack_activations(to, from, run, flip);
                        to = to.add(run * S::WIDTH);
                        from = from.wrapping_add(g.dilation[1] * map.stride_w);
                    }
                    to = to.add(beyond);
                    continue;
                }
                for kx in 0..kw {
                    let x = (left + kx * g.dilation[1]).wrapping_sub(g.pad[1]);
                    if x >= map.w {
                        S::fill_activations(to, zero_point, depth);
                    } else {
                        S::pack_activations(to, from.add(x * map.stride_w), depth, flip);
                    }
                    to = to.add(depth * S::WIDTH);
                }
                to = to.add(beyond);
            }
        }
        pixel.step(out);
    }
}

/// The microkernel: MR rows times NV panels, then the epilogue.
///
/// # Safety
/// The CPU has `S`; `block` describes MR rows and NV panels that exist.
#[inline(always)]
pub(crate) unsafe fn gemm_block<S: Int8, const MR: usize, const NV: usize>(block: &Block<'_>) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut sums = [[S::load(block.bias); NV]; MR];
        for v in 1..NV {
            let bias = S::load(block.bias.add(v * S::LANES));
            for row in &mut sums {
                row[v] = bias;
            }
        }
        let panel = block.runs * block.steps * S::LANES * 4;
        let mut weights = block.weights;
        let mut run = block.activations;
        for _ in 0..block.runs {
            add_products::<S, MR, NV>(&mut sums, run, block.stride, weights, panel, block.steps);
            weights = weights.add(block.steps * S::LANES * 4);
            run = run.wrapping_add(block.apart);
        }
        store::<S, MR, NV>(block, sums);
    }
}

/// As [`gemm_block`] for 16 · MR rows, of which the last need not be stored, and NV panels; whole tiles of each run's depth are
/// multiplied as such. Activations are of the sign that `S` takes, or `SIGNED` where it flips them.
///
/// # Safety
/// The CPU has `S` and tiles, which are switched on; `block` describes as many rows as it has places for, and panels that exist, with
/// runs of a tile's depth at least and the biases of [`Tiled`]; behind its rows as many may be read as are left of 16 · MR.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn tiled_block<S: Int8, const SIGNED: bool, const MR: usize, const NV: usize>(
    block: &Block<'_>,
) {
    use std::mem::MaybeUninit;

    use crate::arch::int8_amx::{Operands, STEPS, add, load, store as store_tiles};

    #[repr(align(64))]
    struct Sums([MaybeUninit<i32>; MOST_ROWS * 2 * 16]);
    let line = S::LANES * 4;
    let (whole, panel) = (block.steps / STEPS, block.runs * block.steps * line);
    let mut sums = Sums([const { MaybeUninit::uninit() }; _]);
    // SAFETY: the caller's contract; there is room for the most rows times two panels.
    unsafe {
        load::<MR, NV>(block.bias);
        for run in 0..block.runs {
            add::<MR, NV, SIGNED>(&Operands {
                activations: block.activations.wrapping_add(run * block.apart),
                stride: block.stride,
                weights: block.weights.add(run * block.steps * line),
                panel,
                count: whole,
            });
        }
        store_tiles::<MR, NV>(sums.0.as_mut_ptr().cast());
        // Rows of a tile that is not full are left alone.
        let (mut first, rows) = (0, block.output_at.len());
        macro_rules! rows {
            ($($some:literal)*) => {$(
                while rows - first >= $some {
                    finish_rows::<S, $some, NV>(block, sums.0.as_ptr().cast(), first, whole * STEPS);
                    first += $some;
                }
            )*};
        }
        rows!(8 4 2 1);
    }
}

/// Adds what is left of the depth behind `done` steps of each run to the sums of some rows from `first` on, and stores them.
///
/// # Safety
/// As [`gemm_block`] for these rows; `sums` has those of all rows, one behind the other.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn finish_rows<S: Int8, const ROWS: usize, const NV: usize>(
    block: &Block<'_>,
    sums: *const i32,
    first: usize,
    done: usize,
) {
    let (line, left) = (S::LANES * 4, block.steps - done);
    // SAFETY: the caller's contract.
    unsafe {
        let from = sums.add(first * NV * S::LANES);
        let mut own = [[S::load(from); NV]; ROWS];
        for (index, own) in own.as_flattened_mut().iter_mut().enumerate() {
            *own = S::load(from.add(index * S::LANES));
        }
        if left > 0 {
            let mut weights = block.weights.add(done * line);
            let mut run = block.activations.add(first * block.stride + done * 4);
            for _ in 0..block.runs {
                let panel = block.runs * block.steps * line;
                add_products::<S, ROWS, NV>(&mut own, run, block.stride, weights, panel, left);
                weights = weights.wrapping_add(block.steps * line);
                run = run.wrapping_add(block.apart);
            }
        }
        let (output_at, residual_at) = (&block.output_at[first..], &block.residual_at[first..]);
        store::<S, ROWS, NV>(&Block { output_at, residual_at, ..*block }, own);
    }
}

/// Turns sums into bytes, four vectors at a time.
///
/// # Safety
/// As [`gemm_block`].
#[inline(always)]
unsafe fn store<S: Int8, const MR: usize, const NV: usize>(block: &Block<'_>, sums: [[S::V; NV]; MR]) {
    // SAFETY: the caller's contract.
    unsafe {
        if block.epilogue.has_residual() {
            let spilled = sums;
            for first in (0..MR * NV).step_by(4) {
                store_four::<S, MR, NV, true>(block, &spilled, first);
            }
            return;
        }
        const { assert!(MR * NV <= 24) };
        // Spelled out, so that the sums need not go through memory.
        macro_rules! quads {
            ($($first:literal)*) => {$(
                if $first < MR * NV {
                    store_four::<S, MR, NV, false>(block, &sums, $first);
                }
            )*};
        }
        quads!(0 4 8 12 16 20);
    }
}

/// Stores the vectors from number `first` on, counted along rows.
///
/// # Safety
/// As [`gemm_block`].
#[inline(always)]
unsafe fn store_four<S: Int8, const MR: usize, const NV: usize, const RESIDUAL: bool>(
    block: &Block<'_>,
    sums: &[[S::V; NV]; MR],
    first: usize,
) {
    // SAFETY: the caller's contract; rows are below MR, which the arrays of offsets have.
    unsafe {
        let mut v = [sums[0][0]; 4];
        let (mut to, mut other, mut n) = ([block.output; 4], [block.residual; 4], [0; 4]);
        for j in 0..4 {
            let i = (first + j).min(MR * NV - 1);
            let (row, column) = (i / NV, i % NV * S::LANES);
            v[j] = S::scale(
                sums[row][i % NV],
                block.multiplier.add(column),
                block.epilogue.high,
                block.epilogue.away,
            );
            to[j] = block.output.wrapping_add(*block.output_at.get_unchecked(row) + column);
            if RESIDUAL {
                other[j] = block.residual.wrapping_add(*block.residual_at.get_unchecked(row) + column);
            }
            // Vectors that repeat the last one to fill up the four are not stored.
            n[j] = if first + j < MR * NV { block.columns.saturating_sub(column) } else { 0 };
        }
        let bytes = if RESIDUAL {
            block.epilogue.finish::<S, false>(v, other, n)
        } else {
            block.epilogue.bytes::<S, false>(v)
        };
        if NV == 4 {
            S::store_bytes(to[0], bytes, n[0].min(4 * S::LANES));
        } else {
            S::store_chunks(to, bytes, n);
        }
    }
}
