//! The f32 convolution: what callers say, what is checked, how work is cut into tiles. Arithmetic lies in `fgemm`.
//!
//! An output is Σ weight · input by fused multiply-adds from 0 in the order kernel row, kernel column, input channel;
//! then the bias is added, then the residual, then comes the activation. With weights for it, the sum is that of Winograd's
//! filtering instead. The same on every instruction set and thread count.

use std::sync::Arc;

use triune_tensor::Buffer;

use crate::cancel::spans;
use crate::dispatch::Level;
use triune_tensor::function::UnaryKind;

use crate::{ConvGeometry, Error, Isa, Nhwc, Planes, Pool, parallel};

use super::fdepthwise::{self, Depthwise};
use super::fepilogue::Epilogue;
use super::fgemm::{Finish, MAX_ROWS, Panels, Staged, TILE_STEPS};
use super::fpack::{self, Filter};
use super::fpicture::Picture;
use super::frows::Rows;
use super::method::ConvMethod;
use super::winograd::Winograd;

/// A convolution over f32 maps.
#[derive(Clone, Copy, Debug)]
pub struct FConvSpec<'a> {
    /// Window and groups.
    pub geometry: ConvGeometry,
    /// Channels of the input map.
    pub in_channels: usize,
    /// Channels of the output map.
    pub out_channels: usize,
    /// One per output channel.
    pub bias: Option<&'a [f32]>,
    /// Whether a second map of the output's shape is added before the activation.
    pub residual: bool,
    /// What each result goes through last.
    pub activation: UnaryKind,
}

/// A convolution with packed weights, ready to run on any map size.
#[derive(Debug)]
pub struct FConv {
    pub(super) geometry: ConvGeometry,
    in_channels: usize,
    out_channels: usize,
    residual: bool,
    pub(super) epilogue: Epilogue,
    weights: Arc<PackedFilter>,
}

/// Packs a panel: how its group is cut, its place there, the place of its first value, its zeros.
type PackPanel<'p> = dyn FnMut(&Panels, usize, usize, &mut [fpack::Word]) + 'p;

/// The weights of an f32 convolution, packed for one instruction set. Convolutions of other strides, paddings, biases
/// and activations can share them.
#[derive(Debug)]
pub struct PackedFilter {
    level: Level,
    groups: usize,
    taps: usize,
    in_channels: usize,
    out_channels: usize,
    kernel: Kernel,
}

impl PackedFilter {
    /// Packs weights for `isa`, or for the best instruction set below it that this machine has.
    ///
    /// Errors: fewer values than the extents call for, zero extents, channels that the groups do not divide.
    pub fn new(filter: &Filter<'_>, groups: usize, isa: Isa) -> Result<Self, Error> {
        let Filter { out_channels, group_channels, .. } = *filter;
        Self::packed(filter, groups, isa, Self::is_depthwise(group_channels, out_channels, groups))
    }

    /// Packs one matrix per group, whatever its extents are, as products over time use them.
    ///
    /// Errors: as [`PackedFilter::new`].
    pub fn matrices(filter: &Filter<'_>, groups: usize, isa: Isa) -> Result<Self, Error> {
        Self::packed(filter, groups, isa, false)
    }

    /// Packs 3×3 filters of one group for Winograd's filtering, see [`FConv::gains_by_winograd`]; sums are rounded otherwise then.
    ///
    /// Errors: as [`PackedFilter::new`], and another number of taps than nine.
    pub fn winograd(filter: &Filter<'_>, isa: Isa) -> Result<Self, Error> {
        let kernel = Kernel::Winograd(Winograd::pack(filter, isa)?);
        let Filter { out_channels, taps, group_channels: in_channels, .. } = *filter;
        Ok(Self { level: Level::new(isa), groups: 1, taps, in_channels, out_channels, kernel })
    }

    /// As [`Self::matrices`] if they are `matrices`, else as [`Self::new`], of values that are not there: `read` writes those from a
    /// place on, of `len` in all, as little-endian bytes into zeros. The filter has none. As a rule no more of them are in memory at
    /// one time than a panel has.
    ///
    /// Errors: as [`PackedFilter::new`].
    pub fn read(
        filter: &Filter<'_>,
        groups: usize,
        isa: Isa,
        matrices: bool,
        len: usize,
        read: &mut dyn FnMut(usize, &mut [u8]),
    ) -> Result<Self, Error> {
        let Filter { out_channels, group_channels, .. } = *filter;
        let depthwise = !matrices && Self::is_depthwise(group_channels, out_channels, groups);
        if !depthwise {
            let mut own = Vec::new();
            let mut in_panels = true;
            let packed = Self::dense(filter, groups, isa, len, &mut |panels, index, start, panel| {
                in_panels =
                    in_panels && fpack::pack_read(panels, index, filter, start, panel, &mut own, read);
            })?;
            if in_panels {
                return Ok(packed);
            }
        }
        let bytes = len.checked_mul(size_of::<f32>()).and_then(Buffer::zeroed);
        let mut bytes = bytes.ok_or(Error::Invalid("more weights than there is memory for"))?;
        read(0, &mut bytes);
        Self::packed(&Filter { bytes: &bytes, ..*filter }, groups, isa, depthwise)
    }

    /// Whether channels are computed side by side.
    const fn is_depthwise(group_channels: usize, out_channels: usize, groups: usize) -> bool {
        groups > 1
            && out_channels.is_multiple_of(groups)
            && Depthwise::takes(group_channels, out_channels / groups)
    }

    fn packed(filter: &Filter<'_>, groups: usize, isa: Isa, depthwise: bool) -> Result<Self, Error> {
        let len = filter.bytes.len() / size_of::<f32>();
        if depthwise {
            let (in_channels, _) = filter.check(groups, len)?;
            let Filter { out_channels, taps, group_channels, .. } = *filter;
            let get = |channel, tap, input| filter.get(channel, tap, input);
            let kernel = Kernel::Depthwise(Depthwise::new(out_channels, group_channels, taps, get));
            return Ok(Self { level: Level::new(isa), groups, taps, in_channels, out_channels, kernel });
        }
        Self::dense(filter, groups, isa, len, &mut |panels, index, start, panel| {
            fpack::pack(panels, index, filter, start, panel);
        })
    }

    /// Panels that `pack` fills one by one with some of `len` values.
    fn dense(
        filter: &Filter<'_>,
        groups: usize,
        isa: Isa,
        len: usize,
        pack: &mut PackPanel<'_>,
    ) -> Result<Self, Error> {
        let (in_channels, k) = filter.check(groups, len)?;
        let Filter { out_channels, taps, .. } = *filter;
        let group_out = out_channels / groups;
        let level = Level::new(isa);
        let panels = Panels::new(level, group_out);
        let group_len = panels.packed_len(k).ok_or(Error::Invalid("weight size overflows"))?;
        let total = group_len.checked_mul(groups).and_then(|total| total.checked_mul(size_of::<f32>()));
        let weights = Buffer::zeroed(total.ok_or(Error::Invalid("weight size overflows"))?);
        let mut weights = weights.ok_or(Error::Invalid("more weights than there is memory for"))?;
        let (words, _) = weights.as_chunks_mut();
        for (number, panel) in words.chunks_exact_mut(k * panels.columns).enumerate() {
            let (group, index) = (number / panels.count(), number % panels.count());
            let start = (group * group_out + index * panels.columns) * filter.strides[0];
            pack(&panels, index, start, panel);
        }
        let kernel = Kernel::Dense { panels, weights, group_len };
        Ok(Self { level, groups, taps, in_channels, out_channels, kernel })
    }

    /// How the groups' matrices are cut into panels, and the panels, for `level`; `None` if they were packed for another.
    pub(crate) fn panels(&self, level: Level) -> Option<(&Panels, &[f32])> {
        match &self.kernel {
            Kernel::Dense { panels, weights, .. } if self.level == level => {
                // SAFETY: any bytes are floats; a buffer is aligned for them.
                let (_, floats, _) = unsafe { weights.align_to::<f32>() };
                Some((panels, floats))
            }
            _ => None,
        }
    }

    /// Bytes of the packed weights.
    pub fn bytes(&self) -> usize {
        match &self.kernel {
            Kernel::Dense { weights, .. } => weights.len(),
            Kernel::Depthwise(depthwise) => depthwise.bytes(),
            Kernel::Winograd(winograd) => winograd.bytes(),
        }
    }
}

#[derive(Debug)]
enum Kernel {
    /// Panels of each group, one group behind the other.
    Dense { panels: Panels, weights: Buffer, group_len: usize },
    /// One input channel and one output channel per group, or a few of either.
    Depthwise(Depthwise),
    /// 3×3 windows one step apart, of one group.
    Winograd(Winograd),
}

/// Tiles whose row pointers a task makes at once; bounds the scratch.
const MAX_TILES: usize = 16;

/// Bytes of the input that the tiles of one block should cover at most: a share of the second-level cache.
const BLOCK_BYTES: usize = 1 << 18;

/// Bytes of weights up to which they stay in the second-level cache while tiles pass by.
const RESIDENT_BYTES: usize = 1 << 19;

/// Input channels below which a window row is treated as one run, copying windows that touch padding.
const MERGE_BELOW: usize = 32;

impl FConv {
    /// Checks the parameters against the weights.
    ///
    /// Errors: lengths that do not fit the channels, zero extents, channels or groups that are not the weights'.
    pub fn new(spec: &FConvSpec<'_>, weights: Arc<PackedFilter>) -> Result<Self, Error> {
        let g = spec.geometry;
        let [kh, kw] = g.kernel;
        g.check_window()?;
        let taps = kh.checked_mul(kw).ok_or(Error::Invalid("kernel size overflows"))?;
        Error::check_eq("kernel taps", weights.taps, taps)?;
        Error::check_eq("groups", weights.groups, g.groups)?;
        Error::check_eq("input channels", weights.in_channels, spec.in_channels)?;
        Error::check_eq("output channels", weights.out_channels, spec.out_channels)?;
        if let Some(bias) = spec.bias {
            Error::check_eq("bias", spec.out_channels, bias.len())?;
        }
        if matches!(weights.kernel, Kernel::Winograd(_)) && !Winograd::takes(&g) {
            return Err(Error::Invalid(
                "weights for Winograd's filtering of a window other than 3×3 by steps of 1",
            ));
        }
        let bias = spec.bias.map_or_else(|| vec![0.0; spec.out_channels], <[f32]>::to_vec);
        Ok(Self {
            geometry: g,
            in_channels: spec.in_channels,
            out_channels: spec.out_channels,
            residual: spec.residual,
            epilogue: Epilogue::new(weights.level, bias, spec.activation),
            weights,
        })
    }

    /// Whether a convolution with so many input and output channels and output rows and columns takes less time by Winograd's filtering
    /// ([`PackedFilter::winograd`]). Looks at no machine, so that the answer, and with it the bits, are the same everywhere.
    pub fn gains_by_winograd(geometry: &ConvGeometry, channels: [usize; 2], size: [usize; 2]) -> bool {
        Winograd::takes(geometry) && Winograd::gains(channels, size)
    }

    /// How it is computed from a map.
    pub fn method(&self, in_map: Nhwc) -> ConvMethod {
        match &self.weights.kernel {
            Kernel::Dense { panels, .. } if self.copies(&self.plan(panels), in_map) => ConvMethod::Gather,
            Kernel::Dense { .. } => ConvMethod::Direct,
            Kernel::Depthwise(_) => ConvMethod::Depthwise,
            Kernel::Winograd(_) => ConvMethod::Winograd,
        }
    }

    /// Bytes of scratch that [`FConv::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        match &self.weights.kernel {
            Kernel::Dense { panels, .. } => self.plan(panels).scratch.saturating_mul(threads.max(1)),
            Kernel::Depthwise(_) => 0,
            Kernel::Winograd(winograd) => winograd.scratch_bytes(threads),
        }
    }

    /// Computes `output` from `input` and, if the convolution has one, the residual map of the output's shape.
    ///
    /// The slices start at the first element of their maps, `scratch` holds [`FConv::scratch_bytes`] bytes of any
    /// content. Elements in the gaps of the output map are left alone. Errors: extents that do not agree, slices shorter
    /// than their maps, a residual where none is expected or none where one is, an output map that overlaps itself.
    pub fn run(
        &self,
        input: &[f32],
        in_map: Nhwc,
        residual: Option<(&[f32], Nhwc)>,
        output: &mut [f32],
        out_map: Nhwc,
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        self.geometry.check_maps([self.in_channels, self.out_channels], in_map, out_map)?;
        Error::check_len("input", input.len(), in_map.span())?;
        parallel::check_output(output, out_map)?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(pool.threads()))?;
        match (residual, self.residual) {
            (Some((values, map)), true) => {
                parallel::same_extents(out_map, map)?;
                Error::check_len("residual", values.len(), map.span())?;
            }
            (None, false) => {}
            (Some(_), false) => {
                return Err(Error::Invalid("a residual was given to a convolution without one"));
            }
            (None, true) => return Err(Error::Invalid("the residual is missing")),
        }
        if out_map.n == 0 {
            return Ok(());
        }
        let mut views = Views { input, in_map, residual, output: output.as_mut_ptr(), out_map };
        if self.geometry == (ConvGeometry { groups: self.geometry.groups, ..ConvGeometry::pointwise() }) {
            views.flatten();
        }
        match &self.weights.kernel {
            Kernel::Dense { panels, weights, group_len } => {
                self.run_dense(panels, weights, *group_len, &views, scratch, pool);
            }
            Kernel::Depthwise(depthwise) => {
                fdepthwise::run(self.weights.level, depthwise, &self.geometry, &self.epilogue, &views, pool);
            }
            Kernel::Winograd(winograd) => {
                winograd.run(&self.geometry, &self.epilogue, &views, scratch, pool);
            }
        }
        Ok(())
    }

    /// Bytes of scratch that [`FConv::run_planes`] needs with a pool of `threads` threads.
    pub fn planes_scratch_bytes(&self, threads: usize) -> usize {
        Picture::scratch_bytes(self).saturating_mul(threads.max(1))
    }

    /// As [`FConv::run`], of an input in planes, with the same sums; nothing but what windows see at the border is copied.
    ///
    /// `scratch` holds [`FConv::planes_scratch_bytes`] bytes. Errors: as there; a convolution of several groups, by steps of more than
    /// two columns or with a residual; weights for Winograd's filtering.
    pub fn run_planes(
        &self,
        input: &[f32],
        planes: Planes,
        output: &mut [f32],
        out_map: Nhwc,
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let channels = [self.in_channels, self.out_channels];
        self.geometry.check_maps(channels, planes.channels_last(), out_map)?;
        Error::check_len("input", input.len(), planes.span())?;
        parallel::check_output(output, out_map)?;
        Error::check_len("scratch", scratch.len(), self.planes_scratch_bytes(pool.threads()))?;
        let Kernel::Dense { panels, weights, .. } = &self.weights.kernel else {
            return Err(Error::Invalid("weights that are not those of planes"));
        };
        if self.geometry.groups != 1 || self.residual || !Panels::SIDES.contains(&self.geometry.stride[1]) {
            return Err(Error::Invalid(
                "planes of several groups, by more than two columns or with a residual",
            ));
        }
        let picture =
            Picture { conv: self, panels, weights, planes, input, out_map, output: output.as_mut_ptr() };
        picture.run(scratch, pool);
        Ok(())
    }

    /// Products of a sum.
    pub(super) fn depth(&self) -> usize {
        let [kh, kw] = self.geometry.kernel;
        kh.saturating_mul(kw).saturating_mul(self.in_channels / self.geometry.groups)
    }

    /// How much of the work one task prepares at once, and the scratch that takes.
    fn plan(&self, panels: &Panels) -> Plan {
        let [kh, kw] = self.geometry.kernel;
        let group_in = self.in_channels / self.geometry.groups;
        let k = self.depth();
        // Neighbouring windows share what their step does not skip.
        let fresh = self.geometry.stride[0].min(kh).saturating_mul(self.geometry.stride[1].min(kw));
        let tile_bytes = panels.rows.saturating_mul(group_in * 4).saturating_mul(fresh);
        let may_merge = kw > 1 && group_in < MERGE_BELOW && self.geometry.groups == 1;
        let reach = k.saturating_mul(4 * self.geometry.stride[1]);
        let may_copy = kh * kw == 1 && self.geometry.groups == 1 && reach >= PAGE;
        let copied = if may_merge || may_copy { (k + kh * GAP).saturating_mul(4 * panels.rows) } else { 0 };
        let tiles = (BLOCK_BYTES / tile_bytes.max(copied).max(1)).clamp(1, MAX_TILES);
        // Per row and run one pointer, then one each for output and residual.
        let pointers = (kh * kw + 2).saturating_mul(MAX_ROWS * tiles * size_of::<*const f32>());
        let scratch = pointers
            .saturating_add(copied.saturating_mul(tiles))
            .saturating_add(group_in.saturating_mul(4))
            .saturating_add(ALIGN);
        Plan { tiles, pointers, may_merge, may_copy, scratch }
    }

    /// Whether every row is copied: those a multiple of a page apart compete for the same lines of the first-level cache.
    fn copies(&self, plan: &Plan, in_map: Nhwc) -> bool {
        let step = in_map.stride_w.saturating_mul(4 * self.geometry.stride[1]);
        plan.may_copy && step.is_multiple_of(PAGE)
    }

    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a buffer is aligned for vectors, a panel a multiple of lines"
    )]
    fn run_dense(
        &self,
        panels: &Panels,
        weights: &Buffer,
        group_len: usize,
        views: &Views<'_>,
        scratch: &mut [u8],
        pool: &Pool,
    ) {
        #[cfg(target_arch = "x86_64")]
        if super::fplane::run(&self.geometry, weights, panels.width(0), &self.epilogue, views, pool) {
            return;
        }
        let plan = self.plan(panels);
        let [kh, kw] = self.geometry.kernel;
        let groups = self.geometry.groups;
        let group_in = self.in_channels / groups;
        let k = self.depth();
        let merged =
            plan.may_merge && self.geometry.dilation[1] == 1 && views.in_map.stride_w == views.in_map.c;
        let copied = self.copies(&plan, views.in_map);
        let (runs, run_len) = if merged { (kh, kw * group_in) } else { (kh * kw, group_in) };

        let pixels = views.out_map.pixels();
        let tiles = pixels.div_ceil(panels.rows);
        // Blocks of equal size, and enough of them to keep all threads busy.
        let blocks = tiles.div_ceil(plan.tiles);
        let threads = pool.threads();
        let blocks = if threads > 1 { blocks.max(tiles.min(2 * threads)) } else { blocks };
        let splits = if threads > 1 && blocks < 4 * threads {
            (4 * threads).div_ceil(blocks * groups).min(panels.count())
        } else {
            1
        };
        let weight_bytes = k.saturating_mul(4 * panels.columns);
        // Rows that lie evenly: where the next tile's are, is known before their pointers are made.
        let even = runs == 1 && !merged && !copied && views.out_map.n * views.out_map.h == 1;
        let scratch = parallel::Shared::new(scratch);
        pool.run(blocks * groups * splits, &|task, worker| {
            let (task, split) = (task / splits, task % splits);
            let (block, group) = (task / groups, task % groups);
            // SAFETY: one piece per worker, inside of the scratch as its length was checked.
            let scratch = unsafe { scratch.piece(worker * plan.scratch, plan.scratch) };
            let tile_range = block * tiles / blocks..(block + 1) * tiles / blocks;
            // Rows of the block before each tile.
            let first = tile_range.start * pixels / tiles;
            let mut before = [0; MAX_TILES + 1];
            for (before, tile) in before.iter_mut().zip(tile_range.start..=tile_range.end) {
                *before = tile * pixels / tiles - first;
            }
            let tile_range = 0..tile_range.len();
            let mut rows = Rows::new(scratch, &plan, runs, group_in, views.pixel(first));
            let mut add = |count| {
                rows.add(&self.geometry, views, group * group_in, group_in, [merged, copied], count);
            };
            if runs == 1 {
                // Tile after tile is row after row.
                add(before[tile_range.end]);
            } else {
                tile_range.clone().for_each(|tile| add(before[tile + 1] - before[tile]));
            }
            let panel_range = split * panels.count() / splits..(split + 1) * panels.count() / splits;
            let mut stages = self.stages();
            let mut product = |tile: usize, panel: usize| {
                let start = group * group_len + panels.start(panel, k);
                let b = weights.as_ptr().cast::<f32>().wrapping_add(start);
                let (width, used) = (panels.width(panel), panels.used(panel));
                let channel = group * panels.n + panel * panels.columns;
                let (row, len) = (before[tile], before[tile + 1] - before[tile]);
                let residual = rows.residuals.wrapping_add(row);
                let output = rows.outputs.wrapping_add(row);
                let finish = Finish {
                    factors: std::ptr::null(),
                    bias: self.epilogue.bias[channel..].as_ptr(),
                    residual: if self.residual { residual } else { std::ptr::null() },
                    output,
                    ahead: output,
                    next: if even && panel == panel_range.start {
                        len * self.geometry.stride[1] * views.in_map.stride_w
                    } else {
                        0
                    },
                    offset: channel,
                    used,
                    limits: self.epilogue.limits,
                };
                let a = rows.pointers.wrapping_add(row * runs);
                // SAFETY: the row pointers were made for these tiles and run lengths; the panel holds k rows of `width`
                // floats; a tile has at most `panels.rows` rows by the choice of `tiles`; tasks have disjoint pixels or
                // channels of the checked maps.
                let multiply =
                    |finish: &Finish| unsafe { panels.tile(len, width, a, runs, run_len, b, finish) };
                // SAFETY: as above.
                unsafe { self.staged_tile(len, width, finish, &mut stages, multiply) };
            };
            let weight = k.saturating_mul(TILE_STEPS);
            let bytes = weight_bytes.saturating_mul(panel_range.len());
            if bytes <= RESIDENT_BYTES {
                // A tile's rows stay in the first-level cache for all panels, which the second-level one keeps.
                let weight = weight.saturating_mul(panel_range.len());
                for tile in spans(tile_range.len(), weight).flatten() {
                    for panel in panel_range.clone() {
                        product(tile, panel);
                    }
                }
            } else {
                let weight = weight.saturating_mul(tile_range.len());
                for panel in spans(panel_range.len(), weight).flatten() {
                    for tile in tile_range.clone() {
                        product(tile, panel_range.start + panel);
                    }
                }
            }
        });
    }

    /// Room for the sums and results of a tile, if there is a function behind them.
    pub(super) fn stages(&self) -> Option<[Staged; 2]> {
        self.epilogue.function.map(|_| [Staged([0.0; _]), Staged([0.0; _])])
    }

    /// A tile, which is given where its sums go: with stages they go through the function on their way out.
    ///
    /// # Safety
    /// As [`Panels::tile`].
    pub(super) unsafe fn staged_tile(
        &self,
        rows: usize,
        width: usize,
        finish: Finish,
        stages: &mut Option<[Staged; 2]>,
        tile: impl FnOnce(&Finish),
    ) {
        let Some([sums, results]) = stages else {
            tile(&finish);
            return;
        };
        // The tile adds the offset to its pointers; the stage starts at column 0.
        let stage = sums.0.as_mut_ptr().wrapping_sub(finish.offset);
        let rows_out: [*mut f32; MAX_ROWS] = std::array::from_fn(|row| stage.wrapping_add(row * width));
        tile(&Finish { output: rows_out.as_ptr(), ..finish });
        let extents = [width, finish.used];
        // SAFETY: rows and columns of the tile, as the caller promised.
        if unsafe {
            self.epilogue.activate_rows(&sums.0[..rows * width], extents, finish.output, finish.offset)
        } {
            return;
        }
        // All rows at once, columns that nobody reads included: a call for each would take longer than the function.
        self.epilogue.activate(&sums.0[..rows * width], &mut results.0[..rows * width]);
        for (row, result) in results.0.chunks_exact(width).enumerate().take(rows) {
            // SAFETY: this row's used channels, as the caller promised.
            unsafe {
                let output = (*finish.output.add(row)).add(finish.offset);
                // Lengths that the compiler knows.
                match (result.as_array::<32>(), result.as_array::<16>()) {
                    (Some(whole), _) if finish.used == 32 => {
                        output.cast::<[f32; 32]>().write_unaligned(*whole);
                    }
                    (_, Some(whole)) if finish.used == 16 => {
                        output.cast::<[f32; 16]>().write_unaligned(*whole);
                    }
                    _ => output.copy_from_nonoverlapping(result.as_ptr(), finish.used),
                }
            }
        }
    }
}

/// Bytes after which addresses share a line of the first-level cache again.
const PAGE: usize = 4096;

/// Floats between copied rows, so that they do not compete as the originals did.
pub(super) const GAP: usize = 16;

/// Scratch pieces start at a multiple of this after rounding up.
pub(super) const ALIGN: usize = 64;

pub(super) struct Plan {
    /// Tiles per block at most.
    pub(super) tiles: usize,
    /// Bytes for row pointers.
    pub(super) pointers: usize,
    may_merge: bool,
    may_copy: bool,
    /// Bytes per worker.
    scratch: usize,
}

/// The maps of one run; every access through them was checked.
#[derive(Clone, Copy)]
pub(crate) struct Views<'a> {
    pub(crate) input: &'a [f32],
    pub(crate) in_map: Nhwc,
    pub(crate) residual: Option<(&'a [f32], Nhwc)>,
    pub(crate) output: *mut f32,
    pub(crate) out_map: Nhwc,
}

// SAFETY: `output` is the only pointer; tasks write disjoint pixels or channels of it.
unsafe impl Sync for Views<'_> {}

impl Views<'_> {
    /// Sees all pixels as one row where they lie evenly spaced in every map.
    fn flatten(&mut self) {
        let flat = |map: Nhwc| {
            let even = (map.h == 1 || map.stride_h == map.w * map.stride_w)
                && (map.n == 1 || map.stride_n == map.h * map.w * map.stride_w);
            // A map of one column may have any distance between columns.
            let even = even && (map.w > 1 || map.n * map.h == 1);
            even.then_some(Nhwc { n: 1, h: 1, w: map.pixels(), ..map })
        };
        let residual = self.residual.map(|(values, map)| flat(map).map(|map| (values, map)));
        if let (Some(input), Some(output), None | Some(Some(_))) =
            (flat(self.in_map), flat(self.out_map), residual)
        {
            (self.in_map, self.out_map, self.residual) = (input, output, residual.flatten());
        }
    }

    /// Image, row and column of the output's pixel of that number.
    pub(crate) fn pixel(&self, index: usize) -> [usize; 3] {
        let (row, w) = (index / self.out_map.w, index % self.out_map.w);
        [row / self.out_map.h, row % self.out_map.h, w]
    }

    /// The pixel behind one.
    pub(crate) fn next(&self, [n, h, w]: [usize; 3]) -> [usize; 3] {
        if w + 1 < self.out_map.w {
            [n, h, w + 1]
        } else if h + 1 < self.out_map.h {
            [n, h + 1, 0]
        } else {
            [n + 1, 0, 0]
        }
    }
}
