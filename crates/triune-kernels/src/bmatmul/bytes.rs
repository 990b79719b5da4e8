//! The product in integers: rows are quantized block by block, sums of a block are exact.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use std::ops::Range;

use crate::arch::int8::SumsKernel;
use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::eltwise::{GROUP, apart};
use crate::imatmul::{Block, PLAIN, sums_plain};
use crate::parallel::Shared;
use crate::{Isa, Pool};

use super::{BlockMatMul, HALF};

/// Lanes of the panels that products in reals read.
pub(super) const REAL_LANES: usize = 16;
/// Most sums that a kernel makes.
const MOST_SUMS: usize = 64 * 16;
/// Elements of a column that become whole bytes at a time: of a group's columns they stay in the first-level cache.
const DEPTH: usize = 256;

/// How an instruction set takes operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Columns of a panel.
    pub(super) lanes: usize,
    /// Elements of a step: 4 bytes, or 2 of 16 bits.
    pub(super) per_step: usize,
    /// Panels of a group.
    panels: usize,
    /// What elements of 8 bits are xored with, to become signed where the dot product takes those.
    pub(super) flip: u8,
    /// Rows of the kernel for the panels of a group.
    rows: &'static [usize],
    kernel: Kernel,
}

/// How blocks are multiplied.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    /// All of a group's at once, as they are stored.
    #[cfg(target_arch = "x86_64")]
    Whole,
    /// One by one, of whole bytes or words: the kernel for rows and panels.
    Sums(fn(usize, usize) -> SumsKernel),
}

impl Form {
    pub(super) fn new(level: Level) -> Self {
        match level.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::of::<crate::arch::int8_avx2::Avx2>(0x80, crate::arch::int8_avx2::sums),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                use crate::arch::int8_avx512::{Avx512, sums};
                Self::of::<Avx512<false>>(0x80, sums::<false>)
            }
            // Its dot product takes unsigned bytes on one side: those of the matrix.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni | Isa::Amx => {
                Self { lanes: 16, per_step: 4, panels: 4, flip: 0, rows: &[4, 2, 1], kernel: Kernel::Whole }
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => {
                use crate::arch::int8_neon::{Neon, sums};
                Self::of::<Neon<false>>(0x80, sums::<false>)
            }
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => {
                use crate::arch::int8_neon::{Neon, sums};
                Self::of::<Neon<true>>(0x80, sums::<true>)
            }
            _ => Self {
                lanes: PLAIN,
                per_step: 4,
                panels: 1,
                flip: 0x80,
                rows: &[1],
                kernel: Kernel::Sums(|_, _| sums_plain::<true>),
            },
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn of<S: crate::arch::int8::Int8>(flip: u8, kernel: fn(usize, usize) -> SumsKernel) -> Self {
        // As many as a power of two has: blocks of a group are whole lines.
        let panels = if S::ROWS.len() >= 4 { 4 } else { 2 };
        let (lanes, rows) = (S::LANES, S::ROWS[panels - 1]);
        Self { lanes, per_step: 4 / S::WIDTH, panels, flip, rows, kernel: Kernel::Sums(kernel) }
    }

    /// How reals lie.
    pub(super) const fn of_reals() -> Self {
        Self {
            lanes: REAL_LANES,
            per_step: 4,
            panels: 1,
            flip: 0,
            rows: &[],
            kernel: Kernel::Sums(|_, _| sums_plain::<true>),
        }
    }

    /// Columns of a group.
    pub(super) const fn columns(self) -> usize {
        self.lanes * self.panels
    }

    /// By how much elements of so many bits are less than they were.
    fn shift(self, bits: usize) -> i32 {
        if bits == 8 { self.flip.into() } else { 0 }
    }

    /// The place of the first element of a column of a block.
    pub(super) const fn place(self, column: usize, block: usize) -> usize {
        column / self.lanes * block * self.lanes + column % self.lanes * self.per_step
    }

    /// Bytes of an element.
    const fn width(self) -> usize {
        4 / self.per_step
    }
}

/// Where parts of the scratch begin, in bytes.
struct Layout {
    /// Bytes of a quantized row.
    row: usize,
    factors: usize,
    sums: usize,
    slots: usize,
    /// Bytes of whole elements, and of a slot with the sums behind them.
    elements: usize,
    slot: usize,
}

impl BlockMatMul {
    fn layout(&self, m: usize) -> Option<Layout> {
        let (blocks, block, width) = (self.spec.blocks(), self.spec.block, self.form.width());
        let line = |bytes: usize| bytes.checked_next_multiple_of(64);
        let row = line(blocks.checked_mul(block)?.checked_mul(width)?)?;
        let each = line(blocks.checked_mul(m)?.checked_mul(size_of::<f32>())?)?;
        let factors = row.checked_mul(m)?;
        let sums = factors.checked_add(each)?;
        let slots = sums.checked_add(each)?;
        let elements = line(block.max(DEPTH).checked_mul(self.columns)?.checked_mul(width)?)?;
        let slot =
            elements.checked_add(line(m.checked_mul(self.columns)?.checked_mul(size_of::<f32>())?)?)?;
        Some(Layout { row, factors, sums, slots, elements, slot })
    }

    /// Bytes of scratch of a product in integers.
    pub(super) fn bytes_scratch(&self, m: usize, threads: usize) -> Option<usize> {
        let layout = self.layout(m)?;
        layout.slot.checked_mul(threads)?.checked_add(layout.slots)
    }

    pub(super) fn multiply_bytes(&self, x: &[f32], m: usize, y: &mut [f32], scratch: &mut [u8], pool: &Pool) {
        let (spec, form, columns) = (&self.spec, self.form, self.columns);
        let (n, k, blocks) = (spec.n, spec.k, spec.blocks());
        let layout = self.layout(m).expect("was computed for the scratch");
        let (rows, rest) = scratch.split_at_mut(layout.factors);
        let (factors, rest) = rest.split_at_mut(layout.sums - layout.factors);
        let (sums, slots) = rest.split_at_mut(layout.slots - layout.sums);
        let (factors, sums) = (floats(factors), floats(sums));
        {
            let (rows, factors, sums) =
                (Shared::new(&mut *rows), Shared::new(&mut *factors), Shared::new(&mut *sums));
            pool.run(m, &|row, _| {
                // SAFETY: rows are disjoint pieces of each.
                let (to, factors, sums) = unsafe {
                    let at = row * blocks;
                    (
                        rows.piece(row * layout.row, layout.row),
                        factors.piece(at, blocks),
                        sums.piece(at, blocks),
                    )
                };
                quantize(self.level, &x[row * k..][..k], spec.block, form.width(), to, factors, sums);
            });
        }
        let (y, slots) = (Shared::new(y), Shared::new(slots));
        let rows = Rows { count: m, integers: rows, stride: layout.row, factors, sums };
        pool.run(n.div_ceil(columns), &|group, worker| {
            // SAFETY: each worker has a slot of its own.
            let slot = unsafe { slots.piece(worker * layout.slot, layout.slot) };
            let (elements, results) = slot.split_at_mut(layout.elements);
            let results = &mut floats(results)[..m * columns];
            match form.kernel {
                #[cfg(target_arch = "x86_64")]
                Kernel::Whole => self.whole_group(group, &rows, results),
                Kernel::Sums(kernel) => self.group(group, &rows, kernel, elements, results),
            }
            let used = columns.min(n - group * columns);
            for (row, results) in results.chunks_exact(columns).enumerate() {
                // SAFETY: groups are disjoint pieces of a row.
                unsafe { y.piece(row * n + group * columns, used) }.copy_from_slice(&results[..used]);
            }
        });
    }

    /// The results of a group's columns, whose elements become whole in registers.
    #[cfg(target_arch = "x86_64")]
    fn whole_group(&self, group: usize, rows: &Rows<'_>, results: &mut [f32]) {
        let (spec, form, blocks) = (&self.spec, self.form, self.spec.blocks());
        let [scales, zeros] = self.parameters(group, 0);
        let zeros_apart = if self.zeros.len() == self.columns { 0 } else { self.columns };
        for row in rows.in_tiles(form.rows, spec.k.saturating_mul(self.columns) / 16) {
            let job = BlockRows {
                digits: self.stored(group, 0).as_ptr(),
                activations: rows.integers[row.start * rows.stride..].as_ptr(),
                stride: rows.stride,
                blocks,
                pairs: spec.block / 8,
                factors: &rows.factors[row.start * blocks..row.end * blocks],
                sums: &rows.sums[row.start * blocks..row.end * blocks],
                scales: scales.as_ptr(),
                zeros: zeros.as_ptr(),
                zeros_apart,
                results: results[row.start * self.columns..row.end * self.columns].as_mut_ptr(),
            };
            // SAFETY: the level vouches for the instruction set, whose form has groups of four panels and such numbers of rows; blocks
            // of a group follow each other.
            unsafe { crate::arch::int8_avx512::rows_by_blocks(&job, row.len(), spec.bits == 4) };
        }
    }

    /// The same, whose elements become whole some blocks at a time.
    fn group(
        &self,
        group: usize,
        rows: &Rows<'_>,
        kernel: fn(usize, usize) -> SumsKernel,
        elements: &mut [u8],
        results: &mut [f32],
    ) {
        let (spec, form, columns, blocks) = (&self.spec, self.form, self.columns, self.spec.blocks());
        let bytes = spec.block * columns * form.width();
        let as_they_lie = spec.bits == 8 && form.width() == 1;
        let mut made = Sums([0; MOST_SUMS]);
        results.fill(0.0);
        let at_once = (DEPTH / spec.block).max(1);
        for first in (0..blocks).step_by(at_once) {
            let there = first..blocks.min(first + at_once);
            if !as_they_lie {
                for (block, to) in there.clone().zip(elements.chunks_exact_mut(bytes)) {
                    widen(self.level, self.stored(group, block), spec.bits, form.width(), to);
                }
            }
            for row in rows.in_tiles(form.rows, at_once.saturating_mul(spec.block * columns) / 16) {
                let kernel = kernel(row.len(), form.panels);
                for block in there.clone() {
                    let weights = if as_they_lie {
                        self.stored(group, block)
                    } else {
                        &elements[(block - first) * bytes..][..bytes]
                    };
                    let at = row.start * rows.stride + block * spec.block * form.width();
                    // SAFETY: the form is one that the machine has; rows, panels and steps exist, and the sums of a kernel have room.
                    unsafe {
                        kernel(&Block {
                            activations: rows.integers[at..].as_ptr(),
                            stride: rows.stride,
                            steps: spec.block / form.per_step,
                            weights: weights.as_ptr(),
                            sums: made.0.as_mut_ptr(),
                        });
                    }
                    let own = Own {
                        factors: &rows.factors[row.start * blocks + block..],
                        sums: &rows.sums[row.start * blocks + block..],
                        apart: blocks,
                        shift: form.shift(spec.bits),
                    };
                    let results = &mut results[row.start * columns..row.end * columns];
                    add(self.level, &made.0, &own, self.parameters(group, block), results);
                }
            }
        }
    }
}

/// Rows that are integers.
struct Rows<'a> {
    count: usize,
    integers: &'a [u8],
    /// Bytes from one row to the next.
    stride: usize,
    /// What a row's integers are multiplied with, block by block, and their sums.
    factors: &'a [f32],
    sums: &'a [f32],
}

impl Rows<'_> {
    /// The rows in tiles of so many as are listed, from large to small, as long as nobody stops the work; `weight` steps a row.
    fn in_tiles(&self, tiles: &'static [usize], weight: usize) -> impl Iterator<Item = Range<usize>> {
        let most = tiles.first().copied().unwrap_or(1);
        let whole = spans(self.count.div_ceil(most), weight.saturating_mul(most)).flatten();
        let count = self.count;
        whole.flat_map(move |tile| {
            let (mut next, end) = (tile * most, count.min((tile + 1) * most));
            std::iter::from_fn(move || {
                let rows = tiles.iter().copied().find(|&rows| rows <= end - next).filter(|_| next < end)?;
                next += rows;
                Some(next - rows..next)
            })
        })
    }
}

/// Rows, times the columns of a group.
#[cfg(target_arch = "x86_64")]
pub(crate) struct BlockRows<'a> {
    /// The group's elements, as they are stored.
    pub(crate) digits: *const u8,
    /// The first row's integers, and bytes to those of the next.
    pub(crate) activations: *const u8,
    pub(crate) stride: usize,
    pub(crate) blocks: usize,
    /// Half as many as a block has steps.
    pub(crate) pairs: usize,
    /// What the rows' integers are multiplied with, block by block, and their sums; one row behind the other.
    pub(crate) factors: &'a [f32],
    pub(crate) sums: &'a [f32],
    /// The group's factors and zero points, of which those of the next block are `zeros_apart` behind.
    pub(crate) scales: *const f32,
    pub(crate) zeros: *const f32,
    pub(crate) zeros_apart: usize,
    /// 64 of each row.
    pub(crate) results: *mut f32,
}

/// Sums of a kernel, from a cache line on.
#[repr(align(64))]
struct Sums([i32; MOST_SUMS]);

/// Bytes that begin at a cache line as floats.
fn floats(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: any bytes are floats.
    unsafe { bytes.align_to_mut().1 }
}

/// 1.5·2²³: added to a small number, what is left of it is rounded to an integer, in the low bits.
const ROUNDING: f32 = 12_582_912.0;

multiversion! {
    /// A row's elements as integers of `width` bytes, what they are multiplied with, and their sum, block by block. What is no number, or
    /// infinite, makes all of its block no number.
    fn quantize(x: &[f32], block: usize, width: usize, to: &mut [u8], factors: &mut [f32], sums: &mut [f32]) {
        if width == 1 {
            quantize_blocks::<1>(x, block, to, factors, sums);
        } else {
            quantize_blocks::<2>(x, block, to, factors, sums);
        }
    }
}

#[inline(always)]
fn quantize_blocks<const WIDTH: usize>(
    x: &[f32],
    block: usize,
    to: &mut [u8],
    factors: &mut [f32],
    sums: &mut [f32],
) {
    to.fill(0);
    let blocks = x.chunks(block).zip(to.chunks_mut(block * WIDTH)).zip(factors).zip(sums);
    for (((x, to), factor), sum) in blocks {
        // As bits, of which those of what is no number are the largest.
        let largest = f32::from_bits(x.iter().map(|x| x.to_bits() & 0x7fff_ffff).fold(0, u32::max));
        *factor = largest / 127.0;
        let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
        let mut total = 0;
        for (x, to) in x.iter().zip(to.as_chunks_mut::<WIDTH>().0) {
            let rounded = (x * inverse + ROUNDING).to_bits().wrapping_sub(ROUNDING.to_bits()) as i16;
            total += i32::from(rounded);
            *to = *rounded.to_le_bytes().first_chunk().expect("of two");
        }
        *sum = if largest.is_finite() { total as f32 } else { f32::NAN };
    }
}

multiversion! {
    /// Stored elements of a block as the kernels take them.
    fn widen(stored: &[u8], bits: usize, width: usize, to: &mut [u8]) {
        match (bits, width) {
            (4, 1) => {
                for (from, to) in stored.chunks_exact(HALF).zip(to.chunks_exact_mut(2 * HALF)) {
                    let (low, high) = to.split_at_mut(HALF);
                    for i in 0..HALF {
                        low[i] = from[i] & 15;
                    }
                    for i in 0..HALF {
                        high[i] = from[i] >> 4;
                    }
                }
            }
            (4, _) => {
                for (from, to) in stored.chunks_exact(HALF).zip(to.as_chunks_mut::<2>().0.chunks_exact_mut(2 * HALF)) {
                    let (low, high) = to.split_at_mut(HALF);
                    for i in 0..HALF {
                        low[i] = u16::from(from[i] & 15).to_le_bytes();
                    }
                    for i in 0..HALF {
                        high[i] = u16::from(from[i] >> 4).to_le_bytes();
                    }
                }
            }
            _ => {
                for (from, to) in stored.iter().zip(to.as_chunks_mut::<2>().0) {
                    *to = i16::from(from.cast_signed()).to_le_bytes();
                }
            }
        }
    }
}

/// What is known of a block of rows.
struct Own<'a> {
    /// Of the first row what its integers are multiplied with, and their sum; those of the next are `apart`.
    factors: &'a [f32],
    sums: &'a [f32],
    apart: usize,
    /// By how much the matrix's elements are less than they were.
    shift: i32,
}

multiversion! {
    /// Adds what the sums of a block stand for to the results of rows.
    fn add(made: &[i32], own: &Own<'_>, parameters: [&[f32]; 2], results: &mut [f32]) {
        let [factors, zeros] = parameters;
        let columns = factors.len();
        for (row, (made, results)) in made.chunks_exact(columns).zip(results.chunks_exact_mut(columns)).enumerate() {
            let (factor, sum) = (own.factors[row * own.apart], own.sums[row * own.apart]);
            let shift = own.shift * sum as i32;
            let (made, made_rest) = made.as_chunks::<GROUP>();
            let (results, results_rest) = results.as_chunks_mut::<GROUP>();
            let (factors, factors_rest) = factors.as_chunks::<GROUP>();
            let (zeros, zeros_rest) = zeros.as_chunks::<GROUP>();
            for (((made, results), factors), zeros) in made.iter().zip(results).zip(factors).zip(zeros) {
                for i in 0..GROUP {
                    results[i] = one(made[i] + shift, [factor, sum], [factors[i], zeros[i]], results[i]);
                }
                apart();
            }
            for (((made, result), other), zero) in
                made_rest.iter().zip(results_rest).zip(factors_rest).zip(zeros_rest)
            {
                *result = one(made + shift, [factor, sum], [*other, *zero], *result);
            }
        }
    }
}

#[inline(always)]
fn one(made: i32, [factor, sum]: [f32; 2], [other, zero]: [f32; 2], result: f32) -> f32 {
    (-zero).mul_add(sum, made as f32).mul_add(factor * other, result)
}
