//! Products of reals with an addend or a third factor, element by element with broadcasting.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::dispatch::{Level, multiversion};
use crate::eltwise::{GROUP, apart, group};
use crate::parallel::{self, GRAIN, Shared};
use crate::strided::{Nest, RANK};
use crate::{Error, Isa, Pool};

/// The loop nest of a·b + c or a·b·c: extents and, per operand, strides in elements; stride 0 repeats an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple {
    nest: Nest<4>,
}

/// Runs of at least so many elements are worth a call each.
const LONG: usize = 512;

impl Triple {
    /// A nest of six axes, outermost first; strides are in elements.
    ///
    /// Errors: products that overflow, an output in which two elements overlap.
    pub fn new(dims: [usize; RANK], operands: [[usize; RANK]; 3], out: [usize; RANK]) -> Result<Self, Error> {
        let [a, b, c] = operands;
        let mut strides = [[0_i64; 4]; RANK];
        for (axis, strides) in strides.iter_mut().enumerate() {
            for (stride, value) in strides.iter_mut().zip([out[axis], a[axis], b[axis], c[axis]]) {
                *stride = i64::try_from(value).map_err(|_| Error::Invalid("strided extents overflow"))?;
            }
        }
        Ok(Self { nest: Nest::new(dims, strides, [1; 4])? })
    }

    /// Rows along the outermost axis, where cutting the nest leaves every row whole, and how many elements lie from one to the next
    /// in the output and the operands; `None` where the output has gaps, or there is one row.
    pub fn rows(&self) -> Option<(usize, [usize; 4])> {
        self.nest.rows()
    }

    /// The nest over the first `count` of [`Self::rows`], one at least: operands that start later in a row's place are others of its rows.
    #[must_use]
    pub fn of_rows(&self, count: usize) -> Self {
        Self { nest: self.nest.of_rows(count) }
    }
}

/// Rows of the innermost axis.
#[derive(Clone, Copy)]
struct Runs {
    rows: usize,
    len: usize,
    /// From element to element, in the output and the operands.
    steps: [usize; 4],
    /// From row to row.
    row: [usize; 4],
}

impl Runs {
    /// Elements from the first to the last, of operand `index`.
    fn reach(&self, index: usize) -> usize {
        (self.rows - 1) * self.row[index] + (self.len - 1) * self.steps[index] + 1
    }
}

/// What comes of a product and the third operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Their sum.
    Add,
    /// Their product.
    Mul,
}

/// out = a·b + c or a·b·c, the product of the first two rounded before.
///
/// Errors: slices shorter than the nest's spans.
pub fn triple(
    isa: Isa,
    then: Then,
    shape: &Triple,
    [a, b, c]: [&[f32]; 3],
    out: &mut [f32],
    pool: &Pool,
) -> Result<(), Error> {
    let nest = &shape.nest;
    let span = |i: usize| usize::try_from(nest.span[i][1]).unwrap_or(usize::MAX);
    Error::check_len("output", out.len(), span(0))?;
    Error::check_len("first operand", a.len(), span(1))?;
    Error::check_len("second operand", b.len(), span(2))?;
    Error::check_len("third operand", c.len(), span(3))?;
    if nest.is_empty() {
        return Ok(());
    }
    let (level, shared) = (Level::new(isa), Shared::new(out));
    let len = nest.inner();
    let steps = nest.inner_strides().map(|stride| stride as usize);
    let run = |[o, x, y, z]: [usize; 4], runs: Runs| {
        // SAFETY: within the span that was checked; runs, and pieces of one, are disjoint since the nest orders axes by the output's
        // strides and refuses outputs that overlap themselves.
        let out = unsafe { shared.piece(o, runs.reach(0)) };
        let operands = [&a[x..][..runs.reach(1)], &b[y..][..runs.reach(2)], &c[z..][..runs.reach(3)]];
        match then {
            Then::Add => rows(level, Sum, runs, operands, out),
            Then::Mul => rows(level, Product, runs, operands, out),
        }
    };
    if nest.rank > 1 && len < LONG {
        // Short ones come as rows of the axis around them.
        let count = nest.dims[nest.rank - 2];
        let row = nest.strides[nest.rank - 2].map(|stride| stride as usize);
        let several = |index: usize, first: usize, rows: usize| {
            let at = nest.position(2, index);
            let at = std::array::from_fn(|i| at[i] as usize + first * row[i]);
            run(at, Runs { rows, len, steps, row });
        };
        let outer = nest.outer(2);
        if outer == 1 {
            parallel::ranges(pool, count, GRAIN.div_ceil(len), &|range| several(0, range.start, range.len()));
        } else {
            parallel::runs(pool, outer, count, len, &several);
        }
        return Ok(());
    }
    let one = |index: usize, first: usize, len: usize| {
        let at = nest.position(1, index);
        let at = std::array::from_fn(|i| at[i] as usize + first * steps[i]);
        run(at, Runs { rows: 1, len, steps, row: [0; 4] });
    };
    if nest.outer(1) == 1 {
        parallel::ranges(pool, len, GRAIN, &|range| one(0, range.start, range.len()));
    } else {
        parallel::runs(pool, nest.outer(1), len, 1, &one);
    }
    Ok(())
}

trait Last: Copy {
    fn join(self, product: f32, c: f32) -> f32;
}

#[derive(Clone, Copy)]
struct Sum;

impl Last for Sum {
    #[inline(always)]
    fn join(self, product: f32, c: f32) -> f32 {
        product + c
    }
}

#[derive(Clone, Copy)]
struct Product;

impl Last for Product {
    #[inline(always)]
    fn join(self, product: f32, c: f32) -> f32 {
        product * c
    }
}

/// One row, operands that repeat with step 0 and others with step 1.
#[inline(always)]
fn row<L: Last, const A: usize, const B: usize, const C: usize>(
    then: L,
    [a, b, c]: [&[f32]; 3],
    out: &mut [f32],
) {
    let last = out.len() - 1;
    let (a, b, c) = (&a[..=last * A], &b[..=last * B], &c[..=last * C]);
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let tail = groups.len() * GROUP;
    for (index, out) in groups.iter_mut().enumerate() {
        let first = index * GROUP;
        let (a, b, c) =
            (group::<_, A, GROUP>(a, first), group::<_, B, GROUP>(b, first), group::<_, C, GROUP>(c, first));
        for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
            *out = then.join(a * b, c);
        }
        apart();
    }
    for (i, out) in rest.iter_mut().enumerate() {
        let i = tail + i;
        *out = then.join(a[i * A] * b[i * B], c[i * C]);
    }
}

multiversion! {
    fn rows[L: Last](then: L, runs: Runs, operands: [&[f32]; 3], out: &mut [f32]) {
        let [so, sa, sb, sc] = runs.steps;
        let [a, b, c] = operands;
        for index in 0..runs.rows {
            let (a, b, c) = (&a[index * runs.row[1]..], &b[index * runs.row[2]..], &c[index * runs.row[3]..]);
            let out = &mut out[index * runs.row[0]..][..=(runs.len - 1) * so];
            match [so, sa, sb, sc] {
                [1, 1, 1, 1] => row::<_, 1, 1, 1>(then, [a, b, c], out),
                [1, 1, 1, 0] => row::<_, 1, 1, 0>(then, [a, b, c], out),
                [1, 1, 0, 1] => row::<_, 1, 0, 1>(then, [a, b, c], out),
                [1, 1, 0, 0] => row::<_, 1, 0, 0>(then, [a, b, c], out),
                [1, 0, 1, 1] => row::<_, 0, 1, 1>(then, [a, b, c], out),
                [1, 0, 1, 0] => row::<_, 0, 1, 0>(then, [a, b, c], out),
                [1, 0, 0, 1] => row::<_, 0, 0, 1>(then, [a, b, c], out),
                _ => {
                    for i in 0..runs.len {
                        out[i * so] = then.join(a[i * sa] * b[i * sb], c[i * sc]);
                    }
                }
            }
        }
    }
}
