//! Where the largest and smallest elements along an axis stand.

use std::ops::Range;

use super::{BLOCK, LANES, Reducible, Reduction, Rows};
use crate::cancel::spans;
use crate::copy::{Lines, TILE, turn_columns};
use crate::dispatch::{Level, multiversion};
use crate::eltwise::apart;
use crate::parallel::Shared;
use crate::strided::RANK;
use crate::{Error, Isa, Pool};

/// An integer type that positions are written in.
pub trait IndexType: Copy + Send + Sync + 'static {
    /// The position in this type.
    fn of(position: usize) -> Self;
}

impl IndexType for i32 {
    fn of(position: usize) -> Self {
        position as Self
    }
}

impl IndexType for i64 {
    fn of(position: usize) -> Self {
        position as Self
    }
}

/// Where along the one axis that goes the largest (or smallest) element stands: the first of equal ones, or the `last`.
/// A NaN wins.
///
/// Errors: slices shorter than the nest's spans; a nest in which more than one axis goes, or one of 2³² elements and more.
pub fn arg_reduce<T: Reducible, I: IndexType>(
    isa: Isa,
    largest: bool,
    last: bool,
    nest: &Reduction,
    x: &[T],
    out: &mut [I],
    pool: &Pool,
) -> Result<(), Error> {
    nest.check(x, out)?;
    if nest.axes[..RANK - 1].iter().any(|axis| axis.0 > 1) {
        return Err(Error::Invalid("a position is one along a single axis"));
    }
    let (len, stride) = nest.axes[RANK - 1];
    if u32::try_from(len).is_err() {
        return Err(Error::Invalid("a position among 2³² elements and more"));
    }
    let [out_step, step] = nest.kept.inner_strides().map(|stride| stride as usize);
    let (level, shared) = (Level::new(isa), Shared::new(out));
    let scan: Scan<T> = match (largest, last) {
        (true, false) => scan::<T, true, false>,
        (true, true) => scan::<T, true, true>,
        (false, false) => scan::<T, false, false>,
        (false, true) => scan::<T, false, true>,
    };
    let quickly: InRows<T> = match (largest, last) {
        (true, false) => in_rows::<T, true, false>,
        (true, true) => in_rows::<T, true, true>,
        (false, false) => in_rows::<T, false, false>,
        (false, true) => in_rows::<T, false, true>,
    };
    let short = nest.each_short_rows(x.len(), &shared, pool, &|Rows { first, len, step }, out, rest| {
        let mut places = [0; TILE];
        for (block, out) in out.iter_mut().enumerate() {
            quickly(level, len, step, &x[(first + block * TILE) * step..], &mut places);
            for (&place, out) in places.iter().zip(out) {
                *out = I::of(place as usize);
            }
        }
        for (row, out) in (first + out.as_flattened().len()..).zip(rest) {
            *out = I::of(place_of(level, largest, last, &x[row * step..][..len]));
        }
    });
    if short {
        return Ok(());
    }
    nest.each(pool, &|input, output, results| {
        let x = &x[input..];
        let mut places = [0; BLOCK];
        let places = &mut places[..results];
        if results == 1 && stride == 1 && len > LANES {
            places[0] = place_of(level, largest, last, &x[..len]) as u32;
        } else {
            scan(level, x, len, stride, step, places);
        }
        // SAFETY: results of the nest, which lie inside of its span and do not overlap; blocks are disjoint.
        let out = unsafe { shared.piece(output, (results - 1) * out_step + 1) };
        for (&index, out) in places.iter().zip(out.iter_mut().step_by(out_step.max(1))) {
            *out = I::of(index as usize);
        }
    });
    Ok(())
}

/// Whether an element is better than another, NaN than all numbers.
#[inline(always)]
fn beats<T: Reducible>(largest: bool, x: T, other: T) -> bool {
    (if largest { x > other } else { x < other }) || x.is_nan() && !other.is_nan()
}

/// Where the best element of a row is, the first or the last of equal ones: its value first, then the place, in vectors both.
fn place_of<T: Reducible>(level: Level, largest: bool, last: bool, x: &[T]) -> usize {
    let mut best = x[0];
    for part in spans(x.len(), 1) {
        let own = best_of(level, largest, &x[part]);
        best = if beats(largest, own, best) { own } else { best };
    }
    let is_best = |x: &T| *x == best || x.is_nan() && best.is_nan();
    let mut groups = x.chunks(GROUP).enumerate();
    let has_best = |(_, group): &(usize, &[T])| contains(level, group, best);
    let found = if last { groups.rfind(has_best) } else { groups.find(has_best) };
    // Nothing is found where the work was stopped.
    let (index, group) = found.unwrap_or((0, x));
    let place = if last { group.iter().rposition(is_best) } else { group.iter().position(is_best) };
    index * GROUP + place.unwrap_or(0)
}

/// [`in_rows`], one of its forms.
type InRows<T> = fn(Level, usize, usize, &[T], &mut [u32; TILE]);

fn in_rows<T: Reducible, const LARGEST: bool, const LAST: bool>(
    level: Level,
    len: usize,
    step: usize,
    x: &[T],
    places: &mut [u32; TILE],
) {
    places_in_rows(level, Way::<LARGEST, LAST>, level, len, step, x, places);
}

multiversion! {
    /// Where the best elements of [`TILE`] rows of `len` elements stand that lie `step` apart, at least [`LANES`] elements before the end
    /// of `x` each.
    fn places_in_rows[T: Reducible, W: Search](
        way: W, machine: Level, len: usize, step: usize, x: &[T], places: &mut [u32; TILE],
    ) {
        let mut columns = Lines([[T::LOWEST; TILE]; LANES]);
        turn_columns(machine, x, step, 1, &mut columns);
        let (mut best, mut found) = (columns.0[0], [0; TILE]);
        for first in (0..len).step_by(LANES) {
            let count = LANES.min(len - first);
            turn_columns(machine, &x[first..], step, count, &mut columns);
            for (index, column) in columns.0[..count].iter().enumerate() {
                for ((place, best), &own) in found.iter_mut().zip(&mut best).zip(column) {
                    let wins = way.wins(own, *best);
                    *place = if wins { (first + index) as u32 } else { *place };
                    *best = if wins { own } else { *best };
                }
                apart();
            }
        }
        *places = found;
    }
}

/// [`scan`], one of its forms.
type Scan<T> = fn(Level, &[T], usize, usize, usize, &mut [u32]);

/// Elements that are looked through at once.
const GROUP: usize = 256;

multiversion! {
    /// The best of some elements, NaN where one of them is.
    fn best_of[T: Reducible](largest: bool, x: &[T]) -> T {
        const SIDE_BY_SIDE: usize = 2 * LANES;
        let (groups, rest) = x.as_chunks::<SIDE_BY_SIDE>();
        let mut bests = [x[0]; SIDE_BY_SIDE];
        let mut has_nan = false;
        // One loop each, so that nothing is asked within.
        macro_rules! search {
            ($operator:tt) => {
                for group in groups {
                    for (best, &x) in bests.iter_mut().zip(group) {
                        *best = if x $operator *best { x } else { *best };
                    }
                    has_nan |= group.iter().fold(false, |any, x| any | x.is_nan());
                }
            };
        }
        if largest {
            search!(>);
        } else {
            search!(<);
        }
        if has_nan && let Some(nan) = x.iter().find(|x| x.is_nan()) {
            return *nan;
        }
        let mut best = x[0];
        for &x in bests.iter().chain(rest) {
            best = if beats(largest, x, best) { x } else { best };
        }
        best
    }
}

multiversion! {
    /// Whether one of some elements is the best one.
    #[expect(clippy::needless_bitwise_bool, reason = "a comparison that is skipped would be a branch")]
    fn contains[T: Reducible](x: &[T], best: T) -> bool {
        if best.is_nan() {
            x.iter().fold(false, |any, x| any | x.is_nan())
        } else {
            x.iter().fold(false, |any, x| any | (*x == best))
        }
    }
}

/// For each of neighbouring columns, `step` apart, which of `len` rows has its best element.
fn scan<T: Reducible, const LARGEST: bool, const LAST: bool>(
    level: Level,
    x: &[T],
    len: usize,
    stride: usize,
    step: usize,
    places: &mut [u32],
) {
    let mut best = [x[0]; BLOCK];
    let best = &mut best[..places.len()];
    for (result, best) in best.iter_mut().enumerate() {
        *best = x[result * step];
    }
    places.fill(0);
    for part in spans(len - 1, places.len()) {
        let (way, rows) = (Way::<LARGEST, LAST>, part.start + 1..part.end + 1);
        scan_rows(level, way, x, rows, stride, step, best, places);
    }
}

/// Which elements are looked for.
trait Search: Copy {
    /// Whether an element takes the place of the best one before it.
    fn wins<T: Reducible>(self, own: T, best: T) -> bool;
}

#[derive(Clone, Copy)]
struct Way<const LARGEST: bool, const LAST: bool>;

impl<const LARGEST: bool, const LAST: bool> Search for Way<LARGEST, LAST> {
    #[inline(always)]
    fn wins<T: Reducible>(self, own: T, best: T) -> bool {
        let (new, old) = if LAST { (best, own) } else { (own, best) };
        let beats = (if LARGEST { new > old } else { new < old }) | (new.is_nan() & !old.is_nan());
        beats ^ LAST
    }
}

multiversion! {
    /// Goes on with some rows.
    fn scan_rows[T: Reducible, W: Search](
        way: W, x: &[T], rows: Range<usize>, stride: usize, step: usize, best: &mut [T], places: &mut [u32],
    ) {
        for index in rows {
            let row = &x[index * stride..];
            if step == 1 {
                for ((place, best), &own) in places.iter_mut().zip(best.iter_mut()).zip(row) {
                    let wins = way.wins(own, *best);
                    *place = if wins { index as u32 } else { *place };
                    *best = if wins { own } else { *best };
                }
            } else {
                for (result, (place, best)) in places.iter_mut().zip(best.iter_mut()).enumerate() {
                    let own = row[result * step];
                    if way.wins(own, *best) {
                        (*place, *best) = (index as u32, own);
                    }
                }
            }
        }
    }
}
