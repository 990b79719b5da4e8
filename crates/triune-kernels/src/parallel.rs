//! Splitting work over a pool: disjoint pieces of one output slice for its tasks. Knows no arithmetic.

use std::marker::PhantomData;

use crate::{Error, Nhwc, Pool};

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

/// Calls `f` on pieces `first..last` of `0..items`, `grain` items at a time.
pub(crate) fn ranges(pool: &Pool, items: usize, grain: usize, f: &(dyn Fn(std::ops::Range<usize>) + Sync)) {
    let grain = grain.max(1);
    if items <= grain || pool.threads() == 1 {
        if items > 0 {
            f(0..items);
        }
        return;
    }
    pool.run(items.div_ceil(grain), &|task, _| {
        f(task * grain..items.min((task + 1) * grain));
    });
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
            f(&x[..in_map.w * in_map.c], row);
        } else {
            for w in 0..in_map.w {
                f(&x[w * in_map.stride_w..][..in_map.c], &mut row[w * out_map.stride_w..][..in_map.c]);
            }
        }
    });
    Ok(())
}
