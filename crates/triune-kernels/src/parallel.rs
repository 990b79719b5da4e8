//! Splitting work over a pool: disjoint pieces of one output slice for its tasks. Knows no arithmetic.

use std::{marker::PhantomData, ops::Range};

use crate::{
    Error, Nhwc, Pool,
    cancel::{SPAN, spans},
};

/// Elements that one task should touch at least, so that handing it out costs nothing in comparison.
pub(crate) const GRAIN: usize = 1 << 14;

/// An output slice that tasks write disjoint pieces of.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: the pieces that tasks take are disjoint by the contract of `piece`.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Takes over the slice.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// The elements `offset..offset + len`.
    ///
    /// # Safety
    /// The range lies inside of the slice and no other live piece overlaps it.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn piece(&self, offset: usize, len: usize) -> &mut [T] {
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: in bounds and disjoint as promised; the lifetime is bounded by the borrow of the slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), len) }
    }

    /// Pointer to the first element, for kernels that write with strides.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.start
    }
}

/// What one thread does at a time, in grains: it hands out nothing, and only looks whether it is to stop.
const ALONE: usize = SPAN / GRAIN;

/// Calls `f` on pieces `first..last` of `0..items`, multiples of `grain` items at a time.
pub(crate) fn ranges(pool: &Pool, items: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    let grain = match (pool.threads(), grain.max(1)) {
        // Items of more than a grain each.
        (_, 1) => 1,
        (1, grain) => grain.saturating_mul(ALONE),
        (_, grain) => grain,
    };
    if items <= grain {
        if items > 0 {
            f(0..items);
        }
        return;
    }
    pool.run(items.div_ceil(grain), &|task, _| {
        f(task * grain..items.min((task + 1) * grain));
    });
}

/// Calls `f(run, first, items)` on pieces of `runs` runs of `items` items each, `weight` steps an item.
pub(crate) fn runs(
    pool: &Pool,
    runs: usize,
    items: usize,
    weight: usize,
    f: &(dyn Fn(usize, usize, usize) + Sync),
) {
    let steps = items.saturating_mul(weight);
    if steps > SPAN && items > 1 {
        let most = (SPAN / weight.max(1)).max(1);
        let pieces = items.div_ceil(most);
        ranges(pool, runs.saturating_mul(pieces), 1, &|range| {
            for piece in range {
                let first = piece % pieces * most;
                f(piece / pieces, first, most.min(items - first));
            }
        });
        return;
    }
    ranges(pool, runs, GRAIN.div_ceil(steps.max(1)), &|range| range.for_each(|run| f(run, 0, items)));
}

/// Checks that two maps have the same extents.
pub(crate) fn same_extents(expected: Nhwc, got: Nhwc) -> Result<(), Error> {
    Error::check_eq("batch", expected.n, got.n)?;
    Error::check_eq("rows", expected.h, got.h)?;
    Error::check_eq("columns", expected.w, got.w)?;
    Error::check_eq("channels", expected.c, got.c)
}

/// Checks an output slice and its map.
pub(crate) fn check_output<T>(output: &[T], map: Nhwc) -> Result<(), Error> {
    Error::check_len("output", output.len(), map.span())?;
    if map.overlaps_itself() {
        return Err(Error::Invalid("output map overlaps itself"));
    }
    Ok(())
}

/// Calls `f(image, row, elements)` for every row of a checked output map; the elements run from the row's first to
/// its last, gaps between pixels included.
pub(crate) fn rows<T: Send>(
    pool: &Pool,
    output: &mut [T],
    map: Nhwc,
    f: &(dyn Fn(usize, usize, &mut [T]) + Sync),
) {
    if map.span() == 0 {
        return;
    }
    let len = (map.w - 1) * map.stride_w + map.c;
    let grain = GRAIN.div_ceil(map.w * map.c);
    let shared = Shared::new(output);
    ranges(pool, map.n * map.h, grain, &|range| {
        for row in range {
            let (n, h) = (row / map.h, row % map.h);
            // SAFETY: inside of the map's span, which the slice covers; rows of a map that does not overlap itself
            // are disjoint.
            f(n, h, unsafe { shared.piece(map.offset(n, h, 0), len) });
        }
    });
}

/// Checks both operands, then calls `f` on runs of elements that lie contiguously in both.
pub(crate) fn elementwise<T: Sync, U: Send>(
    pool: &Pool,
    x: &[T],
    in_map: Nhwc,
    y: &mut [U],
    out_map: Nhwc,
    f: &(dyn Fn(&[T], &mut [U]) + Sync),
) -> Result<(), Error> {
    same_extents(in_map, out_map)?;
    Error::check_len("input", x.len(), in_map.span())?;
    check_output(y, out_map)?;
    if out_map.span() == 0 {
        return Ok(());
    }
    if in_map.is_dense() && out_map.is_dense() {
        let len = in_map.elements();
        let shared = Shared::new(y);
        ranges(pool, len, GRAIN, &|range| {
            // SAFETY: ranges are disjoint and inside of `len`, which the slice covers.
            f(&x[range.clone()], unsafe { shared.piece(range.start, range.len()) });
        });
        return Ok(());
    }
    let packed = |map: Nhwc| map.w == 1 || map.stride_w == map.c;
    let whole_rows = packed(in_map) && packed(out_map);
    rows(pool, y, out_map, &|n, h, row| {
        let x = &x[in_map.offset(n, h, 0)..];
        if whole_rows {
            for span in spans(in_map.w * in_map.c, 1) {
                f(&x[span.clone()], &mut row[span]);
            }
            return;
        }
        for span in spans(in_map.w, in_map.c) {
            for w in span {
                f(&x[w * in_map.stride_w..][..in_map.c], &mut row[w * out_map.stride_w..][..in_map.c]);
            }
        }
    });
    Ok(())
}
