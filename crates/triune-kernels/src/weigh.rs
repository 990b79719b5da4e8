//! Weighted sums of elements that are picked by index: samples between pixels, columns that become images again.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::cancel::{Pace, spans};
use crate::dispatch::{Level, multiversion};
use crate::parallel::{GRAIN, Shared};
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
        self.channels >= FEW && self.elements <= MOST
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
        && count <= spec.elements.saturating_mul(LANES)
        && runs_of(level, indices, count).saturating_mul(LONG) <= own;
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
                single(level, spec, x, indices, factors, part.start, &mut out[part]);
            }
            return;
        }
        // SAFETY: no two tasks of one run have the same worker at the same time; the length was checked.
        let turned = unsafe { scratch.piece(worker * elements * LANES, elements * LANES) };
        if by_runs {
            // SAFETY: a task has channels of its own, within the slice that was checked.
            let out = unsafe { out.piece(to, width * count) };
            out.fill(0.0);
            let seen = &mut turned[..count];
            seen.fill(0.0);
            for tap in spans(taps, count.saturating_mul(width)).flatten() {
                add_runs(level, x, elements, &indices[tap * count..][..count], seen, out);
            }
            return;
        }
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

/// Neighbours that are looked at together: a loop that leaves is not vectorised.
const AHEAD: usize = 8;

/// For counting runs, pieces of which are runs as well.
const NOTHING_SEEN: [f32; 256] = [0.0; 256];

/// How many of the first results take neighbouring elements, or none of them any, and all have been `seen` or none.
#[inline(always)]
fn run(indices: &[i32], seen: &[f32]) -> usize {
    let (Some(&first), Some(&own)) = (indices.first(), seen.first()) else { return 0 };
    let step = i32::from(first >= 0);
    let mut len = 1;
    while len + AHEAD <= indices.len() {
        let (ahead, seen) = (&indices[len..][..AHEAD], &seen[len..][..AHEAD]);
        let next = first.wrapping_add(step * len as i32);
        let mut all = true;
        for k in 0..AHEAD {
            // Any negative index is none.
            let expected = next.wrapping_add(step * k as i32);
            all &= ahead[k].max(-1) == expected.max(-1);
            all &= seen[k] == own;
        }
        if !all {
            break;
        }
        len += AHEAD;
    }
    while len < indices.len() {
        let expected = first.wrapping_add(step * len as i32);
        if indices[len].max(-1) != expected.max(-1) || seen[len] != own {
            break;
        }
        len += 1;
    }
    len
}

multiversion! {
    /// Runs of all taps.
    fn runs_of(indices: &[i32], count: usize) -> usize {
        let mut runs = 0;
        for tap in indices.chunks_exact(count) {
            for part in spans(count, 1) {
                let mut tap = &tap[part];
                while !tap.is_empty() {
                    let most = tap.len().min(NOTHING_SEEN.len());
                    tap = &tap[run(&tap[..most], &NOTHING_SEEN[..most])..];
                    runs += 1;
                }
            }
        }
        runs
    }
}

multiversion! {
    /// Adds the elements of one tap to the results of all channels: the first one of a result is none that is added, since a zero
    /// would lose its sign.
    fn add_runs(x: &[f32], elements: usize, indices: &[i32], seen: &mut [f32], out: &mut [f32]) {
        let count = indices.len();
        let (mut at, mut pace) = (0, Pace::new());
        while at < count {
            let len = run(&indices[at..], &seen[at..]);
            if pace.stops(len.saturating_mul(out.len() / count)) {
                return;
            }
            if let Ok(from) = usize::try_from(indices[at]) {
                let first = seen[at] == 0.0;
                for (x, out) in x.chunks_exact(elements).zip(out.chunks_exact_mut(count)) {
                    let (x, out) = (&x[from..][..len], &mut out[at..][..len]);
                    if first {
                        out.copy_from_slice(x);
                    } else {
                        for (out, &x) in out.iter_mut().zip(x) {
                            *out += x;
                        }
                    }
                }
                for seen in &mut seen[at..][..len] {
                    *seen = 1.0;
                }
            }
            at += len;
        }
    }
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
    fn single(
        spec: &WeighSpec,
        x: &[f32],
        indices: &[i32],
        factors: Option<&[f32]>,
        first: usize,
        out: &mut [f32]
    ) {
        for (place, out) in out.iter_mut().enumerate() {
            let (mut own, mut some) = (0.0, false);
            for tap in 0..spec.taps {
                let at = tap * spec.count + first + place;
                let Ok(index) = usize::try_from(indices[at]) else { continue };
                let factor = factors.map_or(1.0, |factors| factors[at]);
                own = if some { factor.mul_add(x[index], own) } else { factor * x[index] };
                some = true;
            }
            *out = own;
        }
    }
}
