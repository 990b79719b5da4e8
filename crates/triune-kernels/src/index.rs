//! Elements picked by index, and the order of elements along an axis.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use triune_tensor::function::ScatterKind;

use crate::cancel::{self, SPAN, spans};
use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::strided::{Nest, RANK};
use crate::{Error, Isa, Pool, Reducible};

/// How elements are picked: every result has its own index along some axes of the source, and a fixed place in the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeSpec {
    /// The result's extents, outermost first; unused ones are 1.
    pub dims: [usize; RANK],
    /// Elements from one result to the next, in the source: 0 along what only indices decide.
    pub source: [usize; RANK],
    /// Elements from one result's index to the next one's.
    pub indices: [usize; RANK],
    /// Elements from one result to the next, in the output.
    pub output: [usize; RANK],
    /// Axes of the source that are indexed.
    pub count: usize,
    /// Elements from a result's index along one indexed axis to that along the next.
    pub index_stride: usize,
    /// Extents of the indexed axes.
    pub extents: [usize; RANK],
    /// Strides of the indexed axes, in elements of the source.
    pub strides: [usize; RANK],
}

/// A checked [`TakeSpec`].
#[derive(Clone, Copy, Debug)]
pub struct Take {
    nest: Nest<3>,
    spec: TakeSpec,
    /// Elements from first to one past last: source, indices.
    spans: [usize; 2],
}

/// An element type that indices come in.
pub trait Index: Copy + Send + Sync + 'static {
    /// The index, widened.
    fn widen(self) -> i64;
}

impl Index for i32 {
    #[inline]
    fn widen(self) -> i64 {
        i64::from(self)
    }
}

impl Index for i64 {
    #[inline]
    fn widen(self) -> i64 {
        self
    }
}

impl Take {
    /// Checks the extents.
    ///
    /// Errors: more than six indexed axes or none, an indexed axis without elements, products that overflow, an output in
    /// which two elements overlap.
    pub fn new(spec: TakeSpec) -> Result<Self, Error> {
        let overflow = Error::Invalid("strided extents overflow");
        if spec.count == 0 || spec.count > RANK || spec.extents[..spec.count].contains(&0) {
            return Err(Error::Invalid("one to six axes with elements can be indexed"));
        }
        let mut strides = [[0_i64; 3]; RANK];
        for (axis, strides) in strides.iter_mut().enumerate() {
            for (stride, value) in
                strides.iter_mut().zip([spec.output[axis], spec.source[axis], spec.indices[axis]])
            {
                *stride = i64::try_from(value).map_err(|_| overflow.clone())?;
            }
        }
        let nest = Nest::new(spec.dims, strides, [1; 3])?;
        let span = |operand: usize, more: &[(usize, usize)]| {
            let start = usize::try_from(nest.span[operand][1]).ok()?;
            more.iter().try_fold(start, |span, &(extent, stride)| {
                span.checked_add((extent - 1).checked_mul(stride)?)
            })
        };
        let indexed: [(usize, usize); RANK] =
            std::array::from_fn(|axis| (spec.extents[axis], spec.strides[axis]));
        let spans = [
            span(1, &indexed[..spec.count]).ok_or(overflow.clone())?,
            span(2, &[(spec.count, spec.index_stride)]).ok_or(overflow)?,
        ];
        Ok(Self { nest, spec, spans })
    }

    /// Where a result's element stands from its fixed place on, or the axis of an index that is outside of it.
    fn offset<I: Index>(&self, indices: &[I]) -> Result<usize, usize> {
        let mut offset = 0;
        for axis in 0..self.spec.count {
            let (extent, index) = (self.spec.extents[axis], indices[axis * self.spec.index_stride].widen());
            // From the back when negative.
            let index = if index < 0 { index.saturating_add_unsigned(extent as u64) } else { index };
            let index = usize::try_from(index).ok().filter(|&index| index < extent).ok_or(axis)?;
            offset += index * self.spec.strides[axis];
        }
        Ok(offset)
    }

    /// Picks the elements.
    ///
    /// Errors: slices shorter than the spans; an index outside of its axis, the one that lies first among the indices, and the
    /// output is then undefined.
    pub fn run<T: Copy + Send + Sync, I: Index>(
        &self,
        isa: Isa,
        source: &[T],
        indices: &[I],
        out: &mut [T],
        pool: &Pool,
    ) -> Result<(), Error> {
        Error::check_len("source", source.len(), self.spans[0])?;
        Error::check_len("indices", indices.len(), self.spans[1])?;
        let nest = &self.nest;
        Error::check_len("output", out.len(), usize::try_from(nest.span[0][1]).unwrap_or(usize::MAX))?;
        if nest.is_empty() {
            return Ok(());
        }
        let inner = nest.inner();
        let [so, ss, si] = nest.inner_strides().map(|stride| stride as usize);
        let (level, shared) = (Level::new(isa), Shared::new(out));
        // The first position whose index leads out, and the axis.
        let outside: Mutex<Option<(usize, usize)>> = Mutex::new(None);
        let leave = |at: usize, axis: usize| {
            let mut first = outside.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none_or(|(found, _)| at < found) {
                *first = Some((at, axis));
            }
        };
        parallel::runs(pool, nest.outer(1), inner, 1, &|index, first, len| {
            let [o, s, i] = nest.position(1, index).map(|at| at as usize);
            let (s, i) = (s + first * ss, i + first * si);
            // SAFETY: within the span that was checked; runs, and pieces of one, are disjoint since the nest refuses
            // outputs that overlap themselves.
            let out = unsafe { shared.piece(o + first * so, (len - 1) * so + 1) };
            if si == 0 {
                // One index for the whole run.
                let offset = match self.offset(&indices[i..]) {
                    Ok(offset) => offset,
                    Err(axis) => return leave(i, axis),
                };
                let source = &source[s + offset..][..=(len - 1) * ss];
                if ss == 1 && so == 1 {
                    out.copy_from_slice(source);
                } else {
                    for at in 0..len {
                        out[at * so] = source[at * ss];
                    }
                }
                return;
            }
            if self.spec.count == 1 {
                let (extent, stride) = (self.spec.extents[0], self.spec.strides[0]);
                let indices = &indices[i..][..=(len - 1) * si];
                if !all_within(level, indices, si, extent) {
                    let outside = |index: &I| within(index.widen(), extent) as u64 >= extent as u64;
                    let at = indices.iter().step_by(si).position(outside).unwrap_or_default();
                    return leave(i + at * si, 0);
                }
                let source = &source[s..][..=(len - 1) * ss + (extent - 1) * stride];
                // SAFETY: all indices lie within the extent, and with it the elements within the slice.
                unsafe { gather_row(source, ss, indices, si, extent, stride, out, so) };
                return;
            }
            for at in 0..len {
                let offset = match self.offset(&indices[i + at * si..]) {
                    Ok(offset) => offset,
                    Err(axis) => return leave(i + at * si, axis),
                };
                out[at * so] = source[s + at * ss + offset];
            }
        });
        match outside.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((at, axis)) => Err(self.leaves(indices, at, axis)),
        }
    }
}

impl Take {
    /// Puts elements where a take would pick them, as they lie in memory: of several for one place the last one stays.
    ///
    /// Errors: slices shorter than the spans; an index outside of its axis, and the target is then undefined.
    pub fn put<T: Copy, I: Index>(
        &self,
        updates: &[T],
        indices: &[I],
        target: &mut [T],
    ) -> Result<(), Error> {
        self.place(updates, indices, target, |to, from| *to = from)
    }

    /// The same with elements that are put together with those that are there, one after the other.
    pub fn put_with<T: Reducible, I: Index>(
        &self,
        updates: &[T],
        indices: &[I],
        target: &mut [T],
        kind: ScatterKind,
    ) -> Result<(), Error> {
        // Each a closure of its own, which its loop takes in.
        match kind {
            ScatterKind::Set => self.put(updates, indices, target),
            ScatterKind::Add => self.place(updates, indices, target, |to, from| {
                *to = T::narrow(T::add(to.widen(), from.widen()));
            }),
            ScatterKind::Mul => self.place(updates, indices, target, |to, from| {
                *to = T::narrow(T::mul(to.widen(), from.widen()));
            }),
            ScatterKind::Min => self.place(updates, indices, target, |to, from| {
                if !to.is_nan() && (from.is_nan() || from < *to) {
                    *to = from;
                }
            }),
            ScatterKind::Max => self.place(updates, indices, target, |to, from| {
                if !to.is_nan() && (from.is_nan() || from > *to) {
                    *to = from;
                }
            }),
        }
    }

    fn place<T: Copy, I: Index>(
        &self,
        updates: &[T],
        indices: &[I],
        target: &mut [T],
        put: impl Fn(&mut T, T),
    ) -> Result<(), Error> {
        Error::check_len("target", target.len(), self.spans[0])?;
        Error::check_len("indices", indices.len(), self.spans[1])?;
        let nest = &self.nest;
        Error::check_len("updates", updates.len(), usize::try_from(nest.span[0][1]).unwrap_or(usize::MAX))?;
        if nest.is_empty() {
            return Ok(());
        }
        let inner = nest.inner();
        let [su, st, si] = nest.inner_strides().map(|stride| stride as usize);
        for run in spans(nest.outer(1), inner).flatten() {
            let [u, t, i] = nest.position(1, run).map(|at| at as usize);
            if si == 0 {
                let offset = self.offset(&indices[i..]).map_err(|axis| self.leaves(indices, i, axis))?;
                let target = &mut target[t + offset..][..=(inner - 1) * st];
                if (st, su) == (1, 1) {
                    target.iter_mut().zip(&updates[u..][..inner]).for_each(|(to, &from)| put(to, from));
                } else {
                    (0..inner).for_each(|at| put(&mut target[at * st], updates[u + at * su]));
                }
                continue;
            }
            let (extent, stride) = (self.spec.extents[0], self.spec.strides[0]);
            if (self.spec.count, st, su, si) == (1, 0, 1, 1) {
                let target = &mut target[t..];
                let places = indices[i..][..inner].iter().zip(&updates[u..][..inner]);
                for (at, (index, &from)) in places.enumerate() {
                    let index = within(index.widen(), extent);
                    if index as u64 >= extent as u64 {
                        return Err(self.leaves(indices, i + at, 0));
                    }
                    put(&mut target[index as usize * stride], from);
                }
                continue;
            }
            for at in 0..inner {
                let i = i + at * si;
                let offset = if self.spec.count == 1 {
                    let index = within(indices[i].widen(), extent);
                    if index as u64 >= extent as u64 {
                        return Err(self.leaves(indices, i, 0));
                    }
                    index as usize * stride
                } else {
                    self.offset(&indices[i..]).map_err(|axis| self.leaves(indices, i, axis))?
                };
                put(&mut target[t + at * st + offset], updates[u + at * su]);
            }
        }
        Ok(())
    }

    /// The error of an index that is outside of its axis.
    fn leaves<I: Index>(&self, indices: &[I], at: usize, axis: usize) -> Error {
        let index = indices[at + axis * self.spec.index_stride].widen();
        Error::Index { operand: "indices", index, axis, extent: self.spec.extents[axis] }
    }
}

/// An index from the front on.
#[inline(always)]
fn within(index: i64, extent: usize) -> i64 {
    if index < 0 { index.saturating_add_unsigned(extent as u64) } else { index }
}

multiversion! {
    /// Whether every `step`-th index lies within an extent.
    fn all_within[I: Index](indices: &[I], step: usize, extent: usize) -> bool {
        let (low, high) = (0_i64.wrapping_sub_unsigned(extent as u64), extent as i64);
        // No early end: a loop that leaves is not vectorised.
        let mut all = true;
        if step == 1 {
            for index in indices {
                let index = index.widen();
                all &= (low..high).contains(&index);
            }
        } else {
            for index in indices.iter().step_by(step) {
                let index = index.widen();
                all &= (low..high).contains(&index);
            }
        }
        all
    }
}

/// Every `si`-th index picks its element, `ss` further for each. Not by an instruction set's gathers, which take longer than loads
/// one by one.
///
/// # Safety
/// Indices lie within the extent, and the source holds what is `stride` elements further for each and `ss` for each place.
unsafe fn gather_row<T: Copy, I: Index>(
    source: &[T],
    ss: usize,
    indices: &[I],
    si: usize,
    extent: usize,
    stride: usize,
    out: &mut [T],
    so: usize,
) {
    // SAFETY: the caller's contract.
    let pick = |at: usize, index: &I| unsafe {
        *source.get_unchecked(at * ss + within(index.widen(), extent) as usize * stride)
    };
    if (si, so) == (1, 1) {
        for (at, (out, index)) in out.iter_mut().zip(indices).enumerate() {
            *out = pick(at, index);
        }
        return;
    }
    for (at, (out, index)) in out.iter_mut().step_by(so).zip(indices.iter().step_by(si)).enumerate() {
        *out = pick(at, index);
    }
}

/// Rows whose elements are put in order: `outer` × `len` × `inner` elements, dense, of which the first `k` along `len`
/// are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderSpec {
    /// Extents before the axis.
    pub outer: usize,
    /// Elements of a row.
    pub len: usize,
    /// Extents behind the axis.
    pub inner: usize,
    /// Positions wanted per row.
    pub k: usize,
    /// Whether the largest come first.
    pub descending: bool,
}

impl OrderSpec {
    /// Words of 64 bits of scratch that [`order`] needs with a pool of `threads` threads.
    pub fn scratch_words(&self, threads: usize) -> usize {
        self.len.saturating_mul(threads)
    }
}

/// a before b? NaN counts as larger than every number.
fn compare<T: Reducible>(a: T, b: T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

/// A row of at least so many times k elements is gone through once, with the best so far.
const FEW: usize = 8;
/// Elements that are looked at together, since nearly all of a row come behind.
const AHEAD: usize = 32;

/// So many elements at most are kept in order while a row is gone through.
const KEPT: usize = 32;

/// Whether an element belongs before one that stands before it: of equal ones the one that stands first stays there.
#[inline]
fn is_before<T: Reducible>(own: T, other: T, descending: bool) -> bool {
    if descending {
        T::gt(&own, &other) | own.is_nan() & !other.is_nan()
    } else {
        T::lt(&own, &other) | !own.is_nan() & other.is_nan()
    }
}

/// Positions of the first elements of a row in order, as many as there is room for: each is put in its place as it comes.
fn first_few<T: Reducible>(x: &[T], len: usize, step: usize, descending: bool, positions: &mut [u64]) {
    let is_before = |own, other| is_before(own, other, descending);
    let mut keys = [x[0]; KEPT];
    let keys = &mut keys[..positions.len()];
    let mut count = 0;
    for chunk in spans(len, 1).flat_map(|part| part.clone().step_by(AHEAD).map(move |at| at..part.end)) {
        let chunk = chunk.start..chunk.end.min(chunk.start + AHEAD);
        if count == keys.len() && step == 1 {
            let last = keys[count - 1];
            // No early end: a loop that leaves is not vectorised.
            let behind = |all: bool, &own: &T| all & comes_behind(own, last, descending);
            if x[chunk.clone()].iter().fold(true, behind) {
                continue;
            }
        }
        for position in chunk {
            let own = x[position * step];
            if count < keys.len() {
                count += 1;
            } else if !is_before(own, keys[count - 1]) {
                continue;
            }
            let mut place = count - 1;
            while place > 0 && is_before(own, keys[place - 1]) {
                keys[place] = keys[place - 1];
                positions[place] = positions[place - 1];
                place -= 1;
            }
            keys[place] = own;
            positions[place] = position as u64;
        }
    }
}

/// The same for the first two of a short row, whose order nobody can foresee: without branches.
fn first_two<T: Reducible>(x: &[T], len: usize, step: usize, descending: bool, positions: &mut [u64; 2]) {
    let is_before = |own, other| is_before(own, other, descending);
    let (a, b) = (x[0], x[step]);
    let (mut keys, mut places) = if is_before(b, a) { ([b, a], [1, 0]) } else { ([a, b], [0, 1]) };
    for position in 2..len {
        let own = x[position * step];
        let (first, second) = (is_before(own, keys[0]), is_before(own, keys[1]));
        let behind = if second { (own, position as u64) } else { (keys[1], places[1]) };
        (keys[1], places[1]) = if first { (keys[0], places[0]) } else { behind };
        (keys[0], places[0]) = if first { (own, position as u64) } else { (keys[0], places[0]) };
    }
    *positions = places;
}

/// Whether an element comes behind one that stands before it. A few that do are let through: NaNs among themselves.
fn comes_behind<T: Reducible>(a: T, b: T, descending: bool) -> bool {
    if descending { !T::gt(&a, &b) && !a.is_nan() } else { !T::lt(&a, &b) && !b.is_nan() }
}

/// Brings the first `k` in order to the front. In pieces, as long as nobody stops the work; no two elements are equal.
fn sort_first(mut slice: &mut [u64], mut k: usize, before: &impl Fn(&u64, &u64) -> Ordering) {
    // Anything will do: what a row's maker cannot foresee without trying.
    let mut random = slice.len() as u64;
    // Left parts are done at once, right ones in turn.
    while slice.len() > SPAN && k > 0 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let last = slice.len() - 1;
        slice.swap((random >> 33) as usize % slice.len(), last);
        let pivot = slice[last];
        let mut middle = 0;
        for part in spans(last, 2) {
            for at in part {
                if before(&slice[at], &pivot) == Ordering::Less {
                    slice.swap(at, middle);
                    middle += 1;
                }
            }
        }
        if cancel::requested() {
            return;
        }
        slice.swap(middle, last);
        let (left, right) = slice.split_at_mut(middle);
        sort_first(left, k.min(middle), before);
        (slice, k) = (&mut right[1..], k.saturating_sub(middle + 1));
    }
    if k == 0 {
        return;
    }
    if k < slice.len() {
        slice.select_nth_unstable_by(k - 1, before);
    }
    slice[..k].sort_unstable_by(before);
}

/// The positions along the axis of the first k elements in order, `outer` × `k` × `inner`, dense. Of equal elements the
/// one with the lower position comes first. NaN counts as larger than every number.
///
/// Errors: slices that are too short, a k above the row's length, rows of 2³² elements and more.
pub fn order<T: Reducible>(
    spec: &OrderSpec,
    x: &[T],
    out: &mut [i64],
    scratch: &mut [u64],
    pool: &Pool,
) -> Result<(), Error> {
    let OrderSpec { outer, len, inner, k, descending } = *spec;
    let rows = outer.checked_mul(inner).ok_or(Error::Invalid("extents overflow"))?;
    let elements = |each: usize| rows.checked_mul(each).ok_or(Error::Invalid("extents overflow"));
    Error::check_len("input", x.len(), elements(len)?)?;
    Error::check_len("output", out.len(), elements(k)?)?;
    Error::check_len("scratch", scratch.len(), spec.scratch_words(pool.threads()))?;
    if k > len || u32::try_from(len).is_err() {
        return Err(Error::Invalid("k is above the number of elements, or there are 2³² and more"));
    }
    if rows == 0 || k == 0 {
        return Ok(());
    }
    let (out, scratch) = (Shared::new(out), Shared::new(scratch));
    let grain = GRAIN.div_ceil(len.saturating_mul(8));
    let tasks = if pool.threads() == 1 { 1 } else { rows.div_ceil(grain) };
    let per_task = rows.div_ceil(tasks);
    pool.run(tasks, &|task, worker| {
        // SAFETY: no two tasks of one run have the same worker at the same time; the length was checked.
        let positions = unsafe { scratch.piece(worker * len, len) };
        let first_row = task * per_task;
        for row in spans(rows.min(first_row + per_task) - first_row, len.saturating_mul(8)).flatten() {
            let row = first_row + row;
            let first = row / inner * len * inner + row % inner;
            // A key in front of a position is compared at once, with no look at the element.
            let entry = |position: usize, own: T| {
                let key = if descending { !own.key() } else { own.key() };
                position as u64 | if T::KEYED { u64::from(key) << 32 } else { 0 }
            };
            let element = |entry: u64| x[first + entry as u32 as usize * inner];
            let before = |a: &u64, b: &u64| {
                if T::KEYED {
                    return a.cmp(b);
                }
                let order = compare(element(*a), element(*b));
                (if descending { order.reverse() } else { order }).then(a.cmp(b))
            };
            let count = if let (true, Some(positions)) =
                (len <= AHEAD, positions.first_chunk_mut().filter(|_| k == 2))
            {
                first_two(&x[first..], len, inner, descending, positions);
                k
            } else if k <= KEPT {
                first_few(&x[first..], len, inner, descending, &mut positions[..k]);
                k
            } else if k > len / FEW {
                for part in spans(len, 1) {
                    for position in part {
                        positions[position] = entry(position, x[first + position * inner]);
                    }
                }
                len
            } else {
                // Behind the last one wanted of those that have come, nothing need be kept.
                let room = 2 * k;
                let (mut count, mut last) = (0, None);
                for chunk in
                    spans(len, 1).flat_map(|part| part.clone().step_by(AHEAD).map(move |at| at..part.end))
                {
                    let chunk = chunk.start..chunk.end.min(chunk.start + AHEAD);
                    if let (Some(last), 1) = (last, inner) {
                        // No early end: a loop that leaves is not vectorised.
                        let behind = |all: bool, &own: &T| all & comes_behind(own, last, descending);
                        if x[first + chunk.start..first + chunk.end].iter().fold(true, behind) {
                            continue;
                        }
                    }
                    for position in chunk {
                        let own = x[first + position * inner];
                        if last.is_some_and(|last| comes_behind(own, last, descending)) {
                            continue;
                        }
                        positions[count] = entry(position, own);
                        count += 1;
                        if count == room {
                            let (_, end, _) = positions[..room].select_nth_unstable_by(k - 1, before);
                            (last, count) = (Some(element(*end)), k);
                        }
                    }
                }
                count
            };
            if len > SPAN && cancel::requested() {
                // What was not numbered must not be looked up.
                return;
            }
            if k > KEPT {
                sort_first(&mut positions[..count], k, &before);
            }
            for (place, &entry) in positions[..k].iter().enumerate() {
                let at = row / inner * k * inner + place * inner + row % inner;
                // SAFETY: inside of the output, whose length was checked; every result is written by one task.
                let out = unsafe { out.piece(at, 1) };
                out[0] = i64::from(entry as u32);
            }
        }
    });
    Ok(())
}
