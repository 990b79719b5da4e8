//! Weighted sums of elements that are picked by index: samples between pixels, columns that become images again.

use std::ops::Range;

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Isa, Pool};

/// Sums of `taps` elements each, the same for every channel of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeighSpec {
    /// Images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Elements of a channel.
    pub elements: usize,
    /// Results of a channel.
    pub count: usize,
    /// Elements that a result is made of.
    pub taps: usize,
    /// Whether all images have the same indices and factors.
    pub shared: bool,
}

/// Channels that are summed side by side, their elements beside each other.
const LANES: usize = 16;
/// Fewer channels than that are summed one by one.
const FEW: usize = 4;
/// Elements of a channel up to which channels are brought side by side.
const MOST: usize = 1 << 18;

impl WeighSpec {
    fn by_lanes(&self) -> bool {
        // Bringing a channel's elements side by side takes as long as picking as many.
        let picked = self.count.saturating_mul(self.taps);
        self.channels >= FEW && self.elements <= MOST && self.elements <= picked
    }

    /// Floats of scratch that [`weigh`] needs with a pool of `threads` threads.
    pub fn scratch_floats(&self, threads: usize) -> usize {
        if self.by_lanes() { self.elements.saturating_mul(LANES).saturating_mul(threads) } else { 0 }
    }
}

/// out[n, c, i] = Σ factors[n, t, i] · x[n, c, indices[n, t, i]], taps from front to back, each added with one rounding; a negative
/// index adds nothing, and without factors all are 1.
///
/// Errors: slices shorter than the extents say, extents that overflow, an index behind the last element.
pub fn weigh(
    isa: Isa,
    spec: &WeighSpec,
    x: &[f32],
    indices: &[i32],
    factors: Option<&[f32]>,
    out: &mut [f32],
    scratch: &mut [f32],
    pool: &Pool,
) -> Result<(), Error> {
    let WeighSpec { batch, channels, elements, count, taps, shared } = *spec;
    let product = |factors: [usize; 3]| {
        let product = factors.into_iter().try_fold(1_usize, usize::checked_mul);
        product.ok_or(Error::Invalid("extents overflow"))
    };
    let own = product([if shared { batch.min(1) } else { batch }, taps, count])?;
    Error::check_len("input", x.len(), product([batch, channels, elements])?)?;
    Error::check_len("indices", indices.len(), own)?;
    Error::check_len("factors", factors.map_or(own, <[f32]>::len), own)?;
    Error::check_len("output", out.len(), product([batch, channels, count])?)?;
    Error::check_len("scratch", scratch.len(), spec.scratch_floats(pool.threads()))?;
    let level = Level::new(isa);
    let indices = &indices[..own];
    for part in spans(own, 1) {
        let last = largest(level, &indices[part.clone()]);
        if usize::try_from(last).is_ok_and(|last| last >= elements) {
            let axis = 0;
            return Err(Error::Index { operand: "indices", index: last.into(), axis, extent: elements });
        }
    }
    if [batch, channels, count].contains(&0) {
        return Ok(());
    }
    // Neighbours that are neighbours of each other: nothing has to be brought side by side.
    let by_runs = factors.is_none()
        && spec.by_lanes()
        && count >= LANES
        && runs_of(level, indices, count).saturating_mul(LONG) <= own;
    if by_runs {
        let (blocks, out) = (count.div_ceil(LANES), Shared::new(out));
        let work = (taps.saturating_mul(channels)).saturating_mul(LANES);
        parallel::ranges(pool, batch * blocks, GRAIN.div_ceil(work.max(1)), &|range| {
            for part in spans(range.len(), work) {
                let (mut next, end) = (range.start + part.start, range.start + part.end);
                while next < end {
                    let (image, block) = (next / blocks, next % blocks);
                    let some = block..blocks.min(block + end - next).min(block + TOGETHER);
                    next += some.len();
                    let indices = &indices[if shared { 0 } else { image * taps * count }..][..taps * count];
                    let x = &x[image * channels * elements..][..channels * elements];
                    // SAFETY: no two tasks have the same block of the same image; the length was checked.
                    unsafe { add_blocks(level, spec, x, indices, some, &out, image * channels * count) };
                }
            }
        });
        return Ok(());
    }
    let lanes = if spec.by_lanes() { LANES } else { 1 };
    let blocks = channels.div_ceil(lanes);
    let (out, scratch) = (Shared::new(out), Shared::new(scratch));
    let one = |task: usize, worker: usize| {
        let (image, first) = (task / blocks, task % blocks * lanes);
        let width = lanes.min(channels - first);
        let start = (image * channels + first) * elements;
        let x = &x[start..][..width * elements];
        let from = if shared { 0 } else { image * taps * count };
        let indices = &indices[from..][..taps * count];
        let factors = factors.map(|factors| &factors[from..][..taps * count]);
        let to = (image * channels + first) * count;
        if lanes == 1 {
            // SAFETY: a task has channels of its own, within the slice that was checked.
            let out = unsafe { out.piece(to, count) };
            for part in spans(count, taps) {
                // SAFETY: no index is behind the last element, as was seen above.
                unsafe { single(level, spec, x, indices, factors, part.start, &mut out[part]) };
            }
            return;
        }
        // SAFETY: no two tasks of one run have the same worker at the same time; the length was checked.
        let turned = unsafe { scratch.piece(worker * elements * LANES, elements * LANES) };
        turn(level, x, elements, turned);
        for part in spans(count, taps.saturating_mul(LANES)) {
            for first in part.clone().step_by(LANES) {
                let last = part.end.min(first + LANES);
                let mut tile = [[0.0; LANES]; LANES];
                tile_of(level, spec, turned, indices, factors, first, &mut tile[..last - first]);
                for lane in 0..width {
                    // SAFETY: as above.
                    let out = unsafe { out.piece(to + lane * count + first, last - first) };
                    for (out, sums) in out.iter_mut().zip(&tile) {
                        *out = sums[lane];
                    }
                }
            }
        }
    };
    let work = elements.saturating_add(count.saturating_mul(taps)).saturating_mul(batch * channels);
    if work <= GRAIN {
        (0..batch * blocks).for_each(|task| one(task, 0));
    } else {
        pool.run(batch * blocks, &one);
    }
    Ok(())
}

multiversion! {
    fn largest(indices: &[i32]) -> i32 {
        let mut largest = -1;
        for &index in indices {
            largest = if index > largest { index } else { largest };
        }
        largest
    }
}

/// Neighbours that a run has at least, on average, so that runs are taken as such.
const LONG: usize = 8;

multiversion! {
    /// Runs of all taps: indices that follow each other.
    fn runs_of(indices: &[i32], count: usize) -> usize {
        let mut runs = 0;
        for tap in indices.chunks_exact(count) {
            for part in spans(count, 1) {
                runs += 1;
                for pair in tap[part].windows(2) {
                    // Any negative index is none, and follows none.
                    let follows = pair[1] == pair[0].wrapping_add(1) && pair[0] >= 0 || pair[0].max(pair[1]) < 0;
                    runs += usize::from(!follows);
                }
            }
        }
        runs
    }
}

/// Neighbouring elements that are added to some of a block's results.
#[derive(Clone, Copy)]
struct Piece {
    /// What the first of all results would have added.
    from: i64,
    /// All bits of those that have something added, none of the others.
    lanes: [u32; LANES],
}

/// Blocks of results whose pieces are made before they are added, channel by channel: neighbouring blocks read neighbouring elements,
/// and the next channel's lie elsewhere.
const TOGETHER: usize = 16;
/// Pieces that are made before they are added.
const PIECES: usize = 14 * TOGETHER;

/// Where some pieces are added.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The first of its results. The last block begins within the one before, and leaves alone what it shares with it.
    first: usize,
    /// Results that it leaves alone.
    skipped: usize,
    /// The last of its pieces, and all before.
    end: usize,
}

/// Blocks of results of all channels of an image, [`TOGETHER`] at most, which begin at `start`.
///
/// # Safety
/// Nobody else has the blocks.
unsafe fn add_blocks(
    level: Level,
    spec: &WeighSpec,
    x: &[f32],
    indices: &[i32],
    blocks: Range<usize>,
    out: &Shared<'_, f32>,
    start: usize,
) {
    let count = spec.count;
    let mut own = [Block::default(); TOGETHER];
    for (own, block) in own.iter_mut().zip(blocks.clone()) {
        let first = (block * LANES).min(count - LANES);
        *own = Block { first, skipped: block * LANES - first, end: 0 };
    }
    let own = &mut own[..blocks.len()];
    let behind = own[own.len() - 1].first + LANES;
    let begin = blocks.start * LANES;
    let results = |channel: usize, first: usize, len: usize| {
        // SAFETY: the caller's contract.
        unsafe { out.piece(start + channel * count + first, len) }
    };
    for channel in 0..spec.channels {
        // Adding this changes no bit of anything, where a zero would lose its sign.
        results(channel, begin, behind - begin).fill(-0.0);
    }
    let (mut pieces, mut len) = ([Piece { from: 0, lanes: [0; LANES] }; PIECES], 0);
    let mut seen = [[false; LANES]; TOGETHER];
    let mut added = 0;
    for at in 0..own.len() {
        let Block { first, skipped, .. } = own[at];
        for tap in indices.chunks_exact(count) {
            let tap = &tap[first..][..LANES];
            let mut last = None;
            for lane in skipped..LANES {
                let Ok(index) = u32::try_from(tap[lane]) else { continue };
                let from = i64::from(index) - lane as i64;
                if last != Some(from) {
                    if len == PIECES {
                        own[at].end = len;
                        // SAFETY: the caller's contract.
                        unsafe { add_pieces(level, spec, x, &pieces, &own[added..=at], out, start) };
                        (added, len) = (at, 0);
                    }
                    pieces[len] = Piece { from, lanes: [0; LANES] };
                    (last, len) = (Some(from), len + 1);
                }
                pieces[len - 1].lanes[lane] = u32::MAX;
                seen[at][lane] = true;
            }
        }
        own[at].end = len;
    }
    // SAFETY: the caller's contract.
    unsafe { add_pieces(level, spec, x, &pieces[..len], &own[added..], out, start) };
    for (block, seen) in own.iter().zip(&seen) {
        for lane in (block.skipped..LANES).filter(|&lane| !seen[lane]) {
            for channel in 0..spec.channels {
                results(channel, block.first + lane, 1)[0] = 0.0;
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Nobody else has the blocks, of which those lanes are written that none of them leaves alone.
    unsafe fn add_pieces(
        spec: &WeighSpec, x: &[f32], pieces: &[Piece], blocks: &[Block], out: &Shared<'_, f32>, start: usize,
    ) {
        for (channel, x) in x.chunks_exact(spec.elements).enumerate() {
            let mut from = 0;
            for &Block { first, skipped, end } in blocks {
                let pieces = &pieces[from..end];
                from = end;
                // SAFETY: the caller's contract.
                let out = unsafe { out.piece(start + channel * spec.count + first + skipped, LANES - skipped) };
                let mut begun = [-0.0; LANES];
                match <&[f32; LANES]>::try_from(&*out) {
                    Ok(out) => begun = *out,
                    Err(_) => begun[skipped..].copy_from_slice(out),
                }
                // In registers.
                let mut sums = begun;
                for Piece { from, lanes } in pieces {
                    let own = usize::try_from(*from).ok().and_then(|from| x.get(from..)?.first_chunk::<LANES>());
                    if let Some(x) = own {
                        sums = with_lanes(sums, x, lanes);
                        continue;
                    }
                    let mut beside = [0.0; LANES];
                    for i in (0..LANES).filter(|&i| lanes[i] != 0) {
                        beside[i] = x[(from + i as i64) as usize];
                    }
                    sums = with_lanes(sums, &beside, lanes);
                }
                let done = sums;
                match <&mut [f32; LANES]>::try_from(&mut *out) {
                    Ok(out) => *out = done,
                    Err(_) => out.copy_from_slice(&done[skipped..]),
                }
            }
        }
    }
}

/// Adds to some of the lanes.
#[inline(always)]
fn with_lanes(sums: [f32; LANES], x: &[f32; LANES], lanes: &[u32; LANES]) -> [f32; LANES] {
    const NOTHING: u32 = (-0.0_f32).to_bits();
    std::array::from_fn(|i| sums[i] + f32::from_bits(x[i].to_bits() & lanes[i] | NOTHING & !lanes[i]))
}

multiversion! {
    /// Elements of several channels beside each other; lanes without a channel keep what they have.
    fn turn(x: &[f32], elements: usize, turned: &mut [f32]) {
        const AHEAD: usize = 16;
        for (block, lines) in turned.chunks_mut(AHEAD * LANES).enumerate() {
            let first = block * AHEAD;
            for (lane, x) in x.chunks_exact(elements).enumerate() {
                for (line, &x) in lines.chunks_exact_mut(LANES).zip(&x[first..]) {
                    line[lane] = x;
                }
            }
        }
    }
}

multiversion! {
    /// Results from `first` on, of all lanes.
    fn tile_of(
        spec: &WeighSpec,
        turned: &[f32],
        indices: &[i32],
        factors: Option<&[f32]>,
        first: usize,
        tile: &mut [[f32; LANES]]
    ) {
        let (lines, _) = turned.as_chunks::<LANES>();
        for (place, sums) in tile.iter_mut().enumerate() {
            let mut own = [0.0; LANES];
            let mut some = false;
            for tap in 0..spec.taps {
                let at = tap * spec.count + first + place;
                let Ok(index) = usize::try_from(indices[at]) else { continue };
                let line = &lines[index];
                let factor = factors.map_or(1.0, |factors| factors[at]);
                if some {
                    for (own, &x) in own.iter_mut().zip(line) {
                        *own = factor.mul_add(x, *own);
                    }
                } else {
                    // No sum yet, which would take a zero's sign.
                    for (own, &x) in own.iter_mut().zip(line) {
                        *own = factor * x;
                    }
                    some = true;
                }
            }
            *sums = own;
        }
    }
}

multiversion! {
    /// Results from `first` on, of one channel.
    ///
    /// # Safety
    /// Indices are those of elements of `x`, or negative.
    unsafe fn single(
        spec: &WeighSpec,
        x: &[f32],
        indices: &[i32],
        factors: Option<&[f32]>,
        first: usize,
        out: &mut [f32]
    ) {
        if x.is_empty() {
            out.fill(0.0);
            return;
        }
        let (tiles, rest) = out.as_chunks_mut::<LANES>();
        let behind = first + tiles.len() * LANES;
        for (tile, out) in tiles.iter_mut().enumerate() {
            // Adding to this changes no bit of what is added.
            let (mut sums, mut some) = ([-0.0; LANES], [false; LANES]);
            for tap in 0..spec.taps {
                let at = tap * spec.count + first + tile * LANES;
                let mut own = [0; LANES];
                own.copy_from_slice(&indices[at..][..LANES]);
                let mut by = [1.0; LANES];
                if let Some(factors) = factors {
                    by.copy_from_slice(&factors[at..][..LANES]);
                }
                let mut picked = [0.0; LANES];
                for (picked, &index) in picked.iter_mut().zip(&own) {
                    let index = if index > 0 { index } else { 0 };
                    // SAFETY: the caller's contract; there is a first element.
                    *picked = unsafe { *x.get_unchecked(index as usize) };
                }
                for lane in 0..LANES {
                    let next = by[lane].mul_add(picked[lane], sums[lane]);
                    let inside = own[lane] >= 0;
                    sums[lane] = if inside { next } else { sums[lane] };
                    some[lane] |= inside;
                }
            }
            for ((out, sum), some) in out.iter_mut().zip(sums).zip(some) {
                *out = if some { sum } else { 0.0 };
            }
        }
        for (place, out) in rest.iter_mut().enumerate() {
            let (mut own, mut some) = (0.0, false);
            for tap in 0..spec.taps {
                let at = tap * spec.count + behind + place;
                let Ok(index) = usize::try_from(indices[at]) else { continue };
                let factor = factors.map_or(1.0, |factors| factors[at]);
                own = if some { factor.mul_add(x[index], own) } else { factor * x[index] };
                some = true;
            }
            *out = own;
        }
    }
}
