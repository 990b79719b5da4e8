//! Copies between strided layouts: transposes, slices, pieces of a concatenation, repeats, fills. Knows bytes only.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::arch::transpose;
use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::eltwise::GROUP;
use crate::parallel::{self, Shared};
use crate::strided::{Nest, RANK};
use crate::{Error, Isa, Pool};

/// What a copy is: extents and, per operand, strides in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySpec {
    /// Bytes per element: 1, 2, 4 or 8.
    pub elem_bytes: usize,
    /// Extents, outermost first; unused axes have extent 1.
    pub dims: [usize; RANK],
    /// Byte of the source where the element of index 0 lies: negative strides run from there towards the start.
    pub src_offset: usize,
    /// Bytes from one element to the next in the source; 0 repeats, negative reverses.
    pub src_strides: [i64; RANK],
    /// Bytes from one element to the next in the destination.
    pub dst_strides: [usize; RANK],
}

/// A copy brought into its shortest loop nest, checked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyNd {
    nest: Nest<2>,
    elem_bytes: usize,
    src_offset: usize,
    shape: Shape,
}

/// The form of the innermost axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The innermost axis lies contiguously in both.
    Runs,
    /// The innermost axis repeats one element of the source.
    Repeat,
    /// The innermost axis is contiguous in the destination, the one before it in the source.
    Transpose,
    /// Anything else.
    Strided,
}

/// Rows and columns of a tile of a transpose: a few cache lines on either side.
pub(crate) const TILE: usize = 16;

/// Bytes that one task should move at least.
const GRAIN_BYTES: usize = 1 << 16;

impl CopyNd {
    /// Checks and canonicalises a copy.
    ///
    /// Errors: element sizes other than 1, 2, 4, 8; products that overflow; a destination in which two elements
    /// overlap; a source that reaches in front of byte 0.
    pub fn new(spec: &CopySpec) -> Result<Self, Error> {
        if ![1, 2, 4, 8].contains(&spec.elem_bytes) {
            return Err(Error::Invalid("elements of a copy have 1, 2, 4 or 8 bytes"));
        }
        let unit = spec.elem_bytes as i64;
        let mut strides = [[0i64; 2]; RANK];
        for (axis, strides) in strides.iter_mut().enumerate() {
            let dst = i64::try_from(spec.dst_strides[axis]);
            *strides = [dst.map_err(|_| Error::Invalid("strided extents overflow"))?, spec.src_strides[axis]];
        }
        let mut nest = Nest::new(spec.dims, strides, [unit; 2])?;
        let offset =
            i64::try_from(spec.src_offset).map_err(|_| Error::Invalid("strided extents overflow"))?;
        if offset.checked_add(nest.span[1][0]).is_none_or(|low| low < 0) {
            return Err(Error::Invalid("the source reaches in front of its first byte"));
        }
        if offset.checked_add(nest.span[1][1]).is_none() {
            return Err(Error::Invalid("strided extents overflow"));
        }
        let [dst, src] = nest.inner_strides();
        let shape = if dst != unit {
            Shape::Strided
        } else if src == unit {
            nest.lengthen(unit);
            Shape::Runs
        } else if src == 0 {
            Shape::Repeat
        } else if let Some(axis) = (0..nest.rank - 1).find(|&axis| nest.strides[axis][1] == unit) {
            // The order of the outer axes is free: bring the source's contiguous axis next to the destination's.
            nest.dims[axis..nest.rank - 1].rotate_left(1);
            nest.strides[axis..nest.rank - 1].rotate_left(1);
            Shape::Transpose
        } else {
            Shape::Strided
        };
        Ok(Self { nest, elem_bytes: spec.elem_bytes, src_offset: spec.src_offset, shape })
    }

    /// A copy that writes one element everywhere: run it with the element's bytes as the source.
    ///
    /// Errors: as [`CopyNd::new`].
    pub fn fill(elem_bytes: usize, dims: [usize; RANK], dst_strides: [usize; RANK]) -> Result<Self, Error> {
        Self::new(&CopySpec { elem_bytes, dims, src_offset: 0, src_strides: [0; RANK], dst_strides })
    }

    /// Bytes that the source must hold.
    pub fn src_bytes(&self) -> usize {
        if self.nest.is_empty() { 0 } else { self.src_offset + self.nest.span[1][1] as usize }
    }

    /// Bytes that the destination must hold.
    pub fn dst_bytes(&self) -> usize {
        self.nest.span[0][1] as usize
    }

    /// Copies. Bytes of the destination between its elements are left alone.
    ///
    /// Errors: slices shorter than [`CopyNd::src_bytes`] and [`CopyNd::dst_bytes`].
    pub fn run(&self, src: &[u8], dst: &mut [u8], pool: &Pool) -> Result<(), Error> {
        Error::check_len("source", src.len(), self.src_bytes())?;
        Error::check_len("destination", dst.len(), self.dst_bytes())?;
        if self.nest.is_empty() {
            return Ok(());
        }
        let shared = Shared::new(dst);
        // SAFETY: the spans of both operands were checked against the slices just now, and the nest refuses
        // destinations that overlap themselves.
        unsafe {
            let src = src.as_ptr().add(self.src_offset);
            match (self.shape, self.elem_bytes) {
                (Shape::Runs, _) => self.runs(src, &shared, pool),
                (Shape::Repeat, 1) => self.repeat::<u8>(src, &shared, pool),
                (Shape::Repeat, 2) => self.repeat::<u16>(src, &shared, pool),
                (Shape::Repeat, 4) => self.repeat::<u32>(src, &shared, pool),
                (Shape::Repeat, _) => self.repeat::<u64>(src, &shared, pool),
                (Shape::Transpose, 1) => self.transpose::<u8>(src, &shared, pool),
                (Shape::Transpose, 2) => self.transpose::<u16>(src, &shared, pool),
                (Shape::Transpose, 4) => self.transpose::<u32>(src, &shared, pool),
                (Shape::Transpose, _) => self.transpose::<u64>(src, &shared, pool),
                (Shape::Strided, 1) => self.strided::<u8>(src, &shared, pool),
                (Shape::Strided, 2) => self.strided::<u16>(src, &shared, pool),
                (Shape::Strided, 4) => self.strided::<u32>(src, &shared, pool),
                (Shape::Strided, _) => self.strided::<u64>(src, &shared, pool),
            }
        }
        Ok(())
    }

    /// Calls `f(source, destination, iterations)` for pieces of the second innermost axis, at every position of the
    /// axes outside of it.
    ///
    /// # Safety
    /// `src` and `dst` cover the nest's spans.
    unsafe fn pieces(
        &self,
        src: *const u8,
        dst: &Shared<'_, u8>,
        pool: &Pool,
        f: &(dyn Fn(*const u8, *mut u8, usize) + Sync),
    ) {
        let nest = &self.nest;
        let count = if nest.rank >= 2 { nest.dims[nest.rank - 2] } else { 1 };
        let [dst_step, src_step] = if nest.rank >= 2 { nest.strides[nest.rank - 2] } else { [0; 2] };
        let outer = nest.outer(2);
        let bytes = nest.inner().saturating_mul(self.elem_bytes).max(1);
        let src = Source(src);
        let call = |[dst_at, src_at]: [i64; 2], first: usize, len: usize| {
            let first = first as i64;
            // SAFETY: a position of the nest, which the caller vouches for.
            unsafe {
                let src = src.get().offset((src_at + first * src_step) as isize);
                f(src, dst.as_ptr().offset((dst_at + first * dst_step) as isize), len);
            }
        };
        if outer == 1 {
            let grain = GRAIN_BYTES.div_ceil(bytes).next_multiple_of(TILE);
            parallel::ranges(pool, count, grain, &|range| call([0; 2], range.start, range.len()));
        } else {
            parallel::ranges(pool, outer, GRAIN_BYTES.div_ceil(bytes.saturating_mul(count)), &|range| {
                for at in nest.positions(2, range.start).take(range.len()) {
                    if count <= TILE {
                        call(at, 0, count);
                        continue;
                    }
                    // Whole tiles.
                    for part in spans(count.div_ceil(TILE), bytes.saturating_mul(TILE)) {
                        let first = part.start * TILE;
                        call(at, first, count.min(part.end * TILE) - first);
                    }
                }
            });
        }
    }

    /// Strides of the second innermost axis, destination first.
    fn steps(&self) -> [isize; 2] {
        let nest = &self.nest;
        if nest.rank >= 2 { nest.strides[nest.rank - 2].map(|step| step as isize) } else { [0; 2] }
    }

    /// # Safety
    /// As [`CopyNd::pieces`].
    unsafe fn runs(&self, src: *const u8, dst: &Shared<'_, u8>, pool: &Pool) {
        let bytes = self.nest.inner() * self.elem_bytes;
        if self.nest.rank == 1 {
            let src = Source(src);
            parallel::ranges(pool, bytes, 16 * GRAIN_BYTES, &|range| {
                // SAFETY: a part of the only run.
                unsafe {
                    let from = src.get().add(range.start);
                    std::ptr::copy_nonoverlapping(from, dst.as_ptr().add(range.start), range.len());
                }
            });
            return;
        }
        let [dst_step, src_step] = self.steps();
        let level = Level::new(Isa::best());
        let copy = |src: *const u8, dst: *mut u8, count: usize| {
            if bytes.is_multiple_of(16) && (16 * 5..=1024).contains(&bytes) {
                // SAFETY: `count` runs of the nest.
                return unsafe { copy_vectors(level, src, dst, [src_step, dst_step], count, bytes / 16) };
            }
            // Short runs of the usual sizes become moves instead of calls.
            macro_rules! by_size {
                ($($size:literal),*) => {
                    match bytes {
                        // SAFETY: `count` runs of the nest.
                        $($size => unsafe { copy_runs(src, dst, src_step, dst_step, count, $size) },)*
                        // SAFETY: as above.
                        _ => unsafe { copy_runs(src, dst, src_step, dst_step, count, bytes) },
                    }
                };
            }
            by_size!(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64);
        };
        // SAFETY: passed on.
        unsafe { self.pieces(src, dst, pool, &copy) };
    }

    /// # Safety
    /// As [`CopyNd::pieces`]; `T` has the element's size.
    unsafe fn repeat<T: Element>(&self, src: *const u8, dst: &Shared<'_, u8>, pool: &Pool) {
        let (inner, [dst_step, src_step]) = (self.nest.inner(), self.steps());
        if self.nest.rank == 1 {
            // SAFETY: the source holds one element; the destination `inner` of them.
            let value = unsafe { src.cast::<T>().read_unaligned() }.bits();
            parallel::ranges(pool, inner, GRAIN_BYTES, &|range| {
                // SAFETY: a part of the only run.
                unsafe { fill::<T>(dst.as_ptr().add(range.start * size_of::<T>()), value, range.len()) };
            });
            return;
        }
        let copy = |src: *const u8, dst: *mut u8, count: usize| {
            for i in 0..count as isize {
                // SAFETY: iteration i of the second innermost axis.
                unsafe {
                    let value = src.offset(i * src_step).cast::<T>().read_unaligned().bits();
                    fill::<T>(dst.offset(i * dst_step), value, inner);
                }
            }
        };
        // SAFETY: passed on.
        unsafe { self.pieces(src, dst, pool, &copy) };
    }

    /// # Safety
    /// As [`CopyNd::pieces`]; `T` has the element's size.
    unsafe fn transpose<T: Element>(&self, src: *const u8, dst: &Shared<'_, u8>, pool: &Pool) {
        let columns = self.nest.inner();
        let src_column = self.nest.inner_strides()[1] as isize;
        let dst_row = self.steps()[0];
        let (row, column) = ([size_of::<T>() as isize, dst_row], [src_column, size_of::<T>() as isize]);
        let level = Level::new(Isa::best());
        let copy = |src: *const u8, dst: *mut u8, rows: usize| {
            // The few channels of a picture: no tiles, one of the loops is spelled out.
            // SAFETY: rows and columns of the nest.
            let done = unsafe {
                narrow::<T>(level, src, dst, [rows, columns], row, column)
                    || narrow::<T>(level, src, dst, [columns, rows], column, row)
            };
            if done {
                return;
            }
            // Tiles, so that each cache line is fetched once on either side.
            for row in (0..rows).step_by(TILE) {
                for column in spans(columns.div_ceil(TILE), TILE * TILE).flatten() {
                    let column = column * TILE;
                    let (height, width) = (TILE.min(rows - row), TILE.min(columns - column));
                    // SAFETY: rows and columns of the nest.
                    unsafe {
                        let src = src.offset(column as isize * src_column).cast::<T>().add(row);
                        let dst = dst.offset(row as isize * dst_row).cast::<T>().add(column);
                        if height == TILE && width == TILE {
                            T::whole_tile(level, src, src_column, dst, dst_row);
                        } else {
                            tile::<T>(src, src_column, dst, dst_row, height, width);
                        }
                    }
                }
            }
        };
        // SAFETY: passed on.
        unsafe { self.pieces(src, dst, pool, &copy) };
    }

    /// # Safety
    /// As [`CopyNd::pieces`]; `T` has the element's size.
    unsafe fn strided<T: Element>(&self, src: *const u8, dst: &Shared<'_, u8>, pool: &Pool) {
        let inner = self.nest.inner();
        let [dst_inner, src_inner] = self.nest.inner_strides().map(|step| step as isize);
        let [dst_step, src_step] = self.steps();
        let level = Level::new(Isa::best());
        let copy = |src: *const u8, dst: *mut u8, count: usize| {
            // SAFETY: positions of the nest.
            if unsafe {
                narrow::<T>(level, src, dst, [count, inner], [src_step, dst_step], [src_inner, dst_inner])
            } {
                return;
            }
            for i in 0..count as isize {
                for part in spans(inner, 1) {
                    for j in part.start as isize..part.end as isize {
                        // SAFETY: positions of the nest.
                        unsafe {
                            let value = src.offset(i * src_step + j * src_inner).cast::<T>().read_unaligned();
                            dst.offset(i * dst_step + j * dst_inner).cast::<T>().write_unaligned(value);
                        }
                    }
                }
            }
        };
        // SAFETY: passed on.
        unsafe { self.pieces(src, dst, pool, &copy) };
    }
}

/// A source pointer that tasks share.
#[derive(Clone, Copy)]
struct Source(*const u8);

// SAFETY: only read through.
unsafe impl Sync for Source {}

impl Source {
    fn get(self) -> *const u8 {
        self.0
    }
}

/// Unsigned integers as plain patterns.
trait Element: Copy {
    /// The same in memory, wherever it lies.
    type Bytes: Copy;

    /// The pattern repeated over 64 bits.
    fn bits(self) -> u64;

    /// Transposes a tile of [`TILE`] rows and columns.
    ///
    /// # Safety
    /// As [`tile`].
    #[inline(always)]
    unsafe fn whole_tile(_level: Level, src: *const Self, src_column: isize, dst: *mut Self, dst_row: isize) {
        // SAFETY: passed on.
        unsafe { tile(src, src_column, dst, dst_row, TILE, TILE) };
    }
}

impl Element for u8 {
    type Bytes = [u8; 1];

    fn bits(self) -> u64 {
        u64::from(self) * 0x0101_0101_0101_0101
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn whole_tile(_level: Level, src: *const Self, src_column: isize, dst: *mut Self, dst_row: isize) {
        // SAFETY: passed on.
        unsafe { transpose::bytes_sse2(src, src_column, dst, dst_row) };
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn whole_tile(_level: Level, src: *const Self, src_column: isize, dst: *mut Self, dst_row: isize) {
        // SAFETY: passed on; every machine of this kind has NEON.
        unsafe { transpose::bytes_neon(src, src_column, dst, dst_row) };
    }
}

impl Element for u16 {
    type Bytes = [u8; 2];

    fn bits(self) -> u64 {
        u64::from(self) * 0x0001_0001_0001_0001
    }
}

impl Element for u32 {
    type Bytes = [u8; 4];

    fn bits(self) -> u64 {
        u64::from(self) << 32 | u64::from(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn whole_tile(level: Level, src: *const Self, src_column: isize, dst: *mut Self, dst_row: isize) {
        if level.is_512() {
            // SAFETY: the machine has the instructions; the rest is passed on.
            unsafe { transpose::words_avx512(src.cast(), src_column, dst.cast(), dst_row) };
        } else if level.isa() == Isa::Avx2 {
            // SAFETY: as above.
            unsafe { transpose::words_avx2(src.cast(), src_column, dst.cast(), dst_row) };
        } else {
            // SAFETY: passed on.
            unsafe { tile(src, src_column, dst, dst_row, TILE, TILE) };
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn whole_tile(_level: Level, src: *const Self, src_column: isize, dst: *mut Self, dst_row: isize) {
        // SAFETY: passed on; every machine of this kind has NEON.
        unsafe { transpose::words_neon(src.cast(), src_column, dst.cast(), dst_row) };
    }
}

impl Element for u64 {
    type Bytes = [u8; 8];

    fn bits(self) -> u64 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn whole_tile(level: Level, src: *const Self, src_column: isize, dst: *mut Self, dst_row: isize) {
        if level.isa() >= Isa::Avx2 {
            // SAFETY: the machine has the instructions; the rest is passed on.
            unsafe { transpose::longs_avx2(src.cast(), src_column, dst.cast(), dst_row) };
        } else {
            // SAFETY: passed on.
            unsafe { tile(src, src_column, dst, dst_row, TILE, TILE) };
        }
    }
}

/// # Safety
/// `count` runs of `bytes` lie `src_step` and `dst_step` apart from `src` and `dst` on.
#[inline(always)]
unsafe fn copy_runs(
    src: *const u8,
    dst: *mut u8,
    src_step: isize,
    dst_step: isize,
    count: usize,
    bytes: usize,
) {
    for i in 0..count as isize {
        // SAFETY: run i of the caller's.
        unsafe {
            std::ptr::copy_nonoverlapping(src.offset(i * src_step), dst.offset(i * dst_step), bytes);
        }
    }
}

multiversion! {
    /// Runs of so many times 16 bytes, too short for a call each.
    ///
    /// # Safety
    /// As [`copy_runs`].
    unsafe fn copy_vectors(src: *const u8, dst: *mut u8, steps: [isize; 2], count: usize, vectors: usize) {
        let [src_step, dst_step] = steps;
        for i in 0..count as isize {
            // SAFETY: run i of the caller's; source and destination do not overlap.
            unsafe {
                let (src, dst) = (src.offset(i * src_step).cast::<[u8; 16]>(), dst.offset(i * dst_step).cast::<[u8; 16]>());
                for four in 0..vectors / 4 {
                    dst.cast::<[u8; 64]>().add(four).write(src.cast::<[u8; 64]>().add(four).read());
                }
                for one in vectors / 4 * 4..vectors {
                    dst.add(one).write(src.add(one).read());
                }
            }
        }
    }
}

impl Nest<2> {
    /// Brings an axis of more runs next to the runs of which there are few at a time, each time by a call. What these cover stays
    /// in the first-level cache.
    fn lengthen(&mut self, unit: i64) {
        const FEW: usize = 8;
        const BYTES: usize = 1 << 14;
        let [.., outer, own, inner] = self.dims[..self.rank] else { return };
        let bytes = [outer, own, inner, unit as usize].into_iter().try_fold(1, usize::checked_mul);
        if own < FEW && own < outer && bytes.is_some_and(|bytes| bytes <= BYTES) {
            self.dims.swap(self.rank - 3, self.rank - 2);
            self.strides.swap(self.rank - 3, self.rank - 2);
        }
    }
}

/// # Safety
/// `dst` has room for `len` elements.
unsafe fn fill<T>(dst: *mut u8, bits: u64, len: usize) {
    // SAFETY: as promised by the caller.
    let bytes = unsafe { std::slice::from_raw_parts_mut(dst, len * size_of::<T>()) };
    let pattern = bits.to_le_bytes();
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&pattern);
    }
    let rest = chunks.into_remainder();
    let len = rest.len();
    rest.copy_from_slice(&pattern[..len]);
}

/// Copies `[long, short]` elements if the short axis is one of those that are spelled out, and says whether it did. Steps are
/// in bytes, the source's first.
///
/// # Safety
/// The elements lie in both operands, which do not overlap.
#[inline(always)]
unsafe fn narrow<T: Element>(
    level: Level,
    src: *const u8,
    dst: *mut u8,
    [long, short]: [usize; 2],
    long_steps: [isize; 2],
    short_steps: [isize; 2],
) -> bool {
    let size = size_of::<T>() as isize;
    let of_groups = size * short as isize;
    // SAFETY: passed on.
    unsafe {
        if !(2..=4).contains(&short) {
            return false;
        }
        if (short_steps[0], long_steps) == (size, [of_groups, size]) {
            take_apart::<T>(level, src, dst, [long, short], short_steps[1]);
        } else if (short_steps[1], long_steps) == (size, [size, of_groups]) {
            put_together::<T>(level, src, dst, [long, short], short_steps[0]);
        } else {
            match short {
                2 => narrow_by::<T, 2>(src, dst, long, long_steps, short_steps),
                3 => narrow_by::<T, 3>(src, dst, long, long_steps, short_steps),
                _ => narrow_by::<T, 4>(src, dst, long, long_steps, short_steps),
            }
        }
    }
    true
}

/// Pixels of few channels that lie one behind the other become planes, `step` bytes apart.
///
/// # Safety
/// As [`narrow`].
unsafe fn take_apart<T: Element>(
    level: Level,
    src: *const u8,
    dst: *mut u8,
    [long, short]: [usize; 2],
    step: isize,
) {
    let (src, dst) = (src.cast::<T::Bytes>(), dst.cast::<T::Bytes>());
    for part in spans(long, short) {
        let (at, len) = (part.start, part.len());
        // SAFETY: some of the caller's elements. Planes overlap neither the pixels nor each other, since a nest refuses what does.
        unsafe {
            let src = src.add(at * short);
            let plane = |j: isize| std::slice::from_raw_parts_mut(dst.byte_offset(j * step).add(at), len);
            match short {
                2 => apart_2(level, std::slice::from_raw_parts(src.cast(), len), plane(0), plane(1)),
                3 => {
                    apart_3(level, std::slice::from_raw_parts(src.cast(), len), plane(0), plane(1), plane(2));
                }
                _ => {
                    let src = std::slice::from_raw_parts(src.cast(), len);
                    apart_4(level, src, plane(0), plane(1), plane(2), plane(3));
                }
            }
        }
    }
}

/// Planes, `step` bytes apart, become pixels of few channels that lie one behind the other.
///
/// # Safety
/// As [`narrow`].
unsafe fn put_together<T: Element>(
    level: Level,
    src: *const u8,
    dst: *mut u8,
    [long, short]: [usize; 2],
    step: isize,
) {
    let (src, dst) = (src.cast::<T::Bytes>(), dst.cast::<T::Bytes>());
    for part in spans(long, short) {
        let (at, len) = (part.start, part.len());
        // SAFETY: some of the caller's elements.
        unsafe {
            let dst = dst.add(at * short);
            let plane = |j: isize| std::slice::from_raw_parts(src.byte_offset(j * step).add(at), len);
            match short {
                2 => together_2(level, [0, 1].map(plane), std::slice::from_raw_parts_mut(dst.cast(), len)),
                3 => together_3(level, [0, 1, 2].map(plane), std::slice::from_raw_parts_mut(dst.cast(), len)),
                _ => together_4(
                    level,
                    [0, 1, 2, 3].map(plane),
                    std::slice::from_raw_parts_mut(dst.cast(), len),
                ),
            }
        }
    }
}

/// Bytes of elements of which groups are a vector or more.
const WORD: usize = 4;

/// Where groups of [`GROUP`] among so many elements begin, that many at least: the last one has some of those before it, too, so that
/// none are left over.
#[inline(always)]
fn groups(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(GROUP).map(move |at| at.min(len - GROUP))
}

/// Functions that take apart and put together pixels of so many channels.
macro_rules! pixels {
    ($apart:ident, $together:ident, $count:literal: $($plane:ident $index:literal),*) => {
        multiversion! {
            fn $apart[B: Copy](src: &[[B; $count]], $($plane: &mut [B]),*) {
                $(let $plane = &mut $plane[..src.len()];)*
                if size_of::<B>() < WORD || src.len() < GROUP {
                    for (i, pixel) in src.iter().enumerate() {
                        $($plane[i] = pixel[$index];)*
                    }
                    return;
                }
                for at in groups(src.len()) {
                    let own: &[[B; $count]] = &src[at..][..GROUP];
                    $(let $plane = &mut $plane[at..][..GROUP];)*
                    for i in 0..GROUP {
                        $($plane[i] = own[i][$index];)*
                    }
                }
            }
        }

        multiversion! {
            fn $together[B: Copy](planes: [&[B]; $count], dst: &mut [[B; $count]]) {
                let planes = planes.map(|plane| &plane[..dst.len()]);
                if size_of::<B>() < WORD || dst.len() < GROUP {
                    for (i, pixel) in dst.iter_mut().enumerate() {
                        *pixel = planes.map(|plane| plane[i]);
                    }
                    return;
                }
                for at in groups(dst.len()) {
                    let ([$($plane),*], dst) = (planes, &mut dst[at..][..GROUP]);
                    $(let $plane = &$plane[at..][..GROUP];)*
                    for i in 0..GROUP {
                        dst[i] = [$($plane[i]),*];
                    }
                }
            }
        }
    };
}

pixels!(apart_2, together_2, 2: a 0, b 1);
pixels!(apart_3, together_3, 3: a 0, b 1, c 2);
pixels!(apart_4, together_4, 4: a 0, b 1, c 2, d 3);

/// # Safety
/// As [`narrow`], with `SHORT` elements along the short axis.
#[inline(always)]
unsafe fn narrow_by<T: Element, const SHORT: usize>(
    src: *const u8,
    dst: *mut u8,
    long: usize,
    [src_long, dst_long]: [isize; 2],
    [src_short, dst_short]: [isize; 2],
) {
    for part in spans(long, SHORT) {
        for i in part.start as isize..part.end as isize {
            let (src, dst) = (src.wrapping_offset(i * src_long), dst.wrapping_offset(i * dst_long));
            for j in 0..SHORT as isize {
                // SAFETY: an element, as the caller promised.
                unsafe {
                    let value = src.offset(j * src_short).cast::<T>().read_unaligned();
                    dst.offset(j * dst_short).cast::<T>().write_unaligned(value);
                }
            }
        }
    }
}

/// [`TILE`] elements of as many rows that lie `step` apart become columns; theirs lie `to_step` apart.
pub(crate) fn turn_tile<T: Copy>(level: Level, rows: &[T], step: usize, columns: &mut [T], to_step: usize) {
    const { assert!(matches!(size_of::<T>(), 1 | 2 | 4 | 8)) };
    let (rows, columns) = (&rows[..(TILE - 1) * step + TILE], &mut columns[..(TILE - 1) * to_step + TILE]);
    let [step, to_step] = [step, to_step].map(|step| (step * size_of::<T>()) as isize);
    let (src, dst) = (rows.as_ptr(), columns.as_mut_ptr());
    // SAFETY: the last row and the last column lie in their slices, and so do the others; what has the size is copied as it is.
    unsafe {
        match size_of::<T>() {
            1 => u8::whole_tile(level, src.cast(), step, dst.cast(), to_step),
            2 => u16::whole_tile(level, src.cast(), step, dst.cast(), to_step),
            4 => u32::whole_tile(level, src.cast(), step, dst.cast(), to_step),
            _ => u64::whole_tile(level, src.cast(), step, dst.cast(), to_step),
        }
    }
}

/// Lines of a tile, none of which crosses a line of the cache.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Lines<T>(pub(crate) [[T; TILE]; TILE]);

impl<T: Copy> Lines<T> {
    /// Lines joined by halves until one is left, each element with those of its column.
    #[inline(always)]
    pub(crate) fn halved(&self, join: impl Fn(T, T) -> T) -> [T; TILE] {
        const { assert!(TILE == 16) };
        let Self(lines) = self;
        let mut whole = lines[0];
        for (column, whole) in whole.iter_mut().enumerate() {
            let two = |line: usize| join(lines[line][column], lines[line + 8][column]);
            let four = |line: usize| join(two(line), two(line + 4));
            *whole = join(join(four(0), four(2)), join(four(1), four(3)));
        }
        whole
    }
}

/// The first `count` elements of [`TILE`] rows that lie `step` apart, as columns; what the other columns hold is left open. [`TILE`]
/// elements of each row can be read.
pub(crate) fn turn_columns<T: Copy>(
    level: Level,
    rows: &[T],
    step: usize,
    count: usize,
    Lines(columns): &mut Lines<T>,
) {
    /// Columns that are sooner gathered one by one.
    const FEW: usize = 3;
    if count > FEW {
        return turn_tile(level, rows, step, columns.as_flattened_mut(), TILE);
    }
    for (index, column) in columns[..count].iter_mut().enumerate() {
        for (row, to) in column.iter_mut().enumerate() {
            *to = rows[row * step + index];
        }
    }
}

/// # Safety
/// `height` rows and `width` columns lie in both operands; steps are in bytes.
#[inline(always)]
unsafe fn tile<T: Element>(
    src: *const T,
    src_column: isize,
    dst: *mut T,
    dst_row: isize,
    height: usize,
    width: usize,
) {
    for row in 0..height {
        for column in 0..width {
            // SAFETY: inside of the tile.
            unsafe {
                let value = src.byte_offset(column as isize * src_column).add(row).read_unaligned();
                dst.byte_offset(row as isize * dst_row).add(column).write_unaligned(value);
            }
        }
    }
}
