//! Bytes through tables of 256 entries: one for a whole map, or one for each of its rows or channels.

use crate::{
    Error, Isa, Nhwc, Pool,
    arch::lookup::lookup,
    cancel::spans,
    dispatch::Level,
    parallel::{self, GRAIN, Shared},
};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::{
    arch::transpose::{bytes_16x32, bytes_32x16},
    cancel::Pace,
};

/// y = `table[x]`, byte by byte, indexed by the byte's unsigned pattern.
///
/// Errors: extents that differ, slices shorter than their maps.
pub fn table(
    isa: Isa,
    table: &[u8; 256],
    x: &[u8],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| look_up(level, table, x, y))
}

/// As [`table()`], of bytes that lie one behind the other.
pub(crate) fn look_up(level: Level, table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    // SAFETY: so many bytes are in both; the level vouches for the instructions.
    unsafe { lookup(level)(x.as_ptr(), y.as_mut_ptr(), x.len().min(y.len()), table) };
}

/// y = `tables[i][x]`, byte by byte, indexed by the byte's unsigned pattern; i is the row with `by_rows`, else the channel.
///
/// Errors: extents that differ, another number of tables than rows or channels, slices shorter than their maps.
pub fn tables(
    isa: Isa,
    tables: &[[u8; 256]],
    by_rows: bool,
    x: &[u8],
    in_map: Nhwc,
    y: &mut [u8],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    parallel::same_extents(in_map, out_map)?;
    Error::check_len("input", x.len(), in_map.span())?;
    parallel::check_output(y, out_map)?;
    let wanted = if by_rows { in_map.h } else { in_map.c };
    Error::check_eq("tables", wanted, tables.len())?;
    if in_map.span() == 0 {
        return Ok(());
    }
    let level = Level::new(isa);
    if !by_rows {
        Channels { level, tables, x, in_map, out_map }.look_up(y, pool);
        return Ok(());
    }
    let packed = |map: Nhwc| map.w == 1 || map.stride_w == map.c;
    let (pixels, len) =
        if packed(in_map) && packed(out_map) { (1, in_map.w * in_map.c) } else { (in_map.w, in_map.c) };
    parallel::rows(pool, y, out_map, &|n, h, row| {
        let x = &x[in_map.offset(n, h, 0)..];
        for pixel in 0..pixels {
            let (x, row) = (&x[pixel * in_map.stride_w..], &mut row[pixel * out_map.stride_w..]);
            for span in spans(len, 1) {
                look_up(level, &tables[h], &x[span.clone()], &mut row[span]);
            }
        }
    });
    Ok(())
}

/// A table for each channel.
struct Channels<'a> {
    level: Level,
    tables: &'a [[u8; 256]],
    x: &'a [u8],
    in_map: Nhwc,
    out_map: Nhwc,
}

/// Places at equal distances, and channels of each; where several neighbours count as one place, their channels come one after
/// the other.
#[derive(Clone, Copy)]
struct Run {
    places: usize,
    channels: usize,
    in_step: usize,
    out_step: usize,
}

impl Channels<'_> {
    fn look_up(&self, y: &mut [u8], pool: &Pool) {
        let (map, maps) = (self.in_map, [self.in_map, self.out_map]);
        // Rows and images without gaps between them go on at the same distance.
        let rows_follow = maps.iter().all(|map| map.h == 1 || map.stride_h == map.w * map.stride_w);
        let images_follow =
            rows_follow && maps.iter().all(|map| map.n == 1 || map.stride_n == map.h * map.w * map.stride_w);
        let len = match (images_follow, rows_follow) {
            (true, _) => map.pixels(),
            (false, true) => map.h * map.w,
            (false, false) => map.w,
        };
        let start = |map: Nhwc, place: usize| {
            let row = place / map.w;
            map.offset(row / map.h, row % map.h, place % map.w)
        };
        let most = (GRAIN / map.c).next_multiple_of(BLOCK).max(BLOCK);
        let each = most.min(len.div_ceil(pool.threads()).next_multiple_of(STRIP));
        // The last piece has what is left of its run, too.
        let pieces = (len / each).max(1);
        let (shared, grain) = (Shared::new(y), GRAIN.div_ceil(each * map.c));
        parallel::ranges(pool, map.pixels() / len * pieces, grain, &|range| {
            for index in range {
                let (run, piece) = (index / pieces, index % pieces);
                let first = run * len + piece * each;
                let places = if piece + 1 == pieces { len - piece * each } else { each };
                let covers = |step: usize| (places - 1) * step + map.c;
                let (from, to) = (start(self.in_map, first), start(self.out_map, first));
                let x = &self.x[from..][..covers(self.in_map.stride_w)];
                // SAFETY: inside of the map's span, which the slice covers; pieces of a map that does not overlap itself are
                // disjoint.
                let y = unsafe { shared.piece(to, covers(self.out_map.stride_w)) };
                self.piece(x, y, places);
            }
        });
    }

    /// So many places, from the first bytes of the slices on.
    fn piece(&self, x: &[u8], y: &mut [u8], places: usize) {
        let (in_step, out_step, channels) = (self.in_map.stride_w, self.out_map.stride_w, self.in_map.c);
        let run = Run { places, channels, in_step, out_step };
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if self.level.isa() != Isa::Scalar {
            if places >= STRIP && channels >= SIDE {
                return self.turned(x, y, run);
            }
            if places >= STRIP * SIDE && [in_step, out_step] == [channels; 2] {
                // As many neighbours as make whole tiles whatever the number of channels is.
                let (several, rest) = (places / SIDE, places % SIDE);
                let step = channels * SIDE;
                self.turned(x, y, Run { places: several, channels: step, in_step: step, out_step: step });
                let done = several * step;
                return self.direct(&x[done..], &mut y[done..], Run { places: rest, ..run });
            }
        }
        self.direct(x, y, run);
    }

    /// One byte after the other.
    fn direct(&self, x: &[u8], y: &mut [u8], run: Run) {
        for span in spans(run.places, run.channels) {
            for (block, tables) in self.tables.chunks(NEAR_TABLES).enumerate() {
                let first = block * NEAR_TABLES;
                for place in span.clone() {
                    let from = &x[place * run.in_step + first..][..tables.len()];
                    let to = &mut y[place * run.out_step + first..][..tables.len()];
                    for ((to, &byte), table) in to.iter_mut().zip(from).zip(tables) {
                        *to = table[usize::from(byte)];
                    }
                }
            }
        }
    }

    /// Tiles of places and channels are transposed, so that vectors hold bytes of one channel, and back.
    ///
    /// There are a strip of places and a side of channels at least. What is left behind whole tiles is done by tiles that reach
    /// back over places and channels that others do, too.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn turned(&self, x: &[u8], y: &mut [u8], run: Run) {
        let Run { places, channels, in_step, out_step } = run;
        let (look_up, mut tile) = (lookup(self.level), Tile([0; SIDE * BLOCK]));
        debug_assert!(places >= STRIP && channels >= SIDE);
        debug_assert!(x.len() >= (places - 1) * in_step + channels);
        debug_assert!(y.len() >= (places - 1) * out_step + channels);
        let mut pace = Pace::new();
        for at in (0..places).step_by(BLOCK) {
            let at = at.min(places - STRIP);
            let len = BLOCK.min(places - at);
            let strips = len.div_ceil(STRIP);
            let place = |strip: usize| at + (strip * STRIP).min(len - STRIP);
            // The tile that reaches back comes first: of the channels that it shares, it writes nothing that stays.
            let whole = channels / SIDE * SIDE;
            let last = (whole < channels).then(|| (channels - SIDE, SIDE - (channels - whole)));
            for (first, shared) in last.into_iter().chain((0..whole).step_by(SIDE).map(|first| (first, 0))) {
                if pace.stops(SIDE * len) {
                    return;
                }
                for strip in 0..strips {
                    // SAFETY: 32 places and 16 channels of them lie inside of `x`, and a strip inside of the tile.
                    unsafe {
                        let from = x.as_ptr().add(place(strip) * in_step + first);
                        bytes_32x16(from, in_step, tile.0.as_mut_ptr().add(strip * STRIP), BLOCK);
                    }
                }
                for channel in shared..SIDE {
                    let table = &self.tables[(first + channel) % self.tables.len()];
                    let row = tile.0[channel * BLOCK..].as_mut_ptr();
                    // SAFETY: a row of the tile; the level vouches for the instructions.
                    unsafe { look_up(row, row, strips * STRIP, table) };
                }
                for strip in 0..strips {
                    // SAFETY: as above, inside of `y`.
                    unsafe {
                        let to = y.as_mut_ptr().add(place(strip) * out_step + first);
                        bytes_16x32(tile.0.as_ptr().add(strip * STRIP), BLOCK, to, out_step);
                    }
                }
            }
        }
    }
}

/// Tables of so many channels lie in a processor's first cache beside what is looked up.
const NEAR_TABLES: usize = 64;

/// Channels of a tile.
const SIDE: usize = 16;

/// Places that are transposed at a time.
const STRIP: usize = 32;

/// Places of a tile: each table is loaded for so many.
const BLOCK: usize = 128;

/// Bytes of one channel after those of the other.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[repr(align(64))]
struct Tile([u8; SIDE * BLOCK]);
