//! Pairs of elements of rows turned by angles.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use crate::dispatch::{Level, multiversion};
use crate::eltwise::{GROUP, apart, group};
use crate::parallel::{self, Shared};
use crate::strided::{Nest, RANK};
use crate::{Error, Isa, Pool};

/// Rows whose first elements turn in pairs: extents and, per operand, strides in elements from row to row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    nest: Nest<4>,
    row: Row,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its elements, one after the other.
    pub len: usize,
    /// Angles, and pairs among the elements.
    pub pairs: usize,
    /// Whether a pair's elements are neighbours; else the second ones stand behind all first ones.
    pub interleaved: bool,
}

impl Rotation {
    /// A nest of rows, outermost axis first; strides of the output, the operand, cosines and sines.
    ///
    /// Errors: products that overflow, an output in which two rows overlap, more pairs than a row has.
    pub fn new(dims: [usize; RANK], row: Row, operands: [[usize; RANK]; 4]) -> Result<Self, Error> {
        let overflow = Error::Invalid("strided extents overflow");
        if row.pairs > row.len / 2 {
            return Err(Error::Invalid("more pairs than a row has"));
        }
        let mut strides = [[0_i64; 4]; RANK];
        for (axis, strides) in strides.iter_mut().enumerate() {
            for (stride, operand) in strides.iter_mut().zip(operands) {
                *stride = i64::try_from(operand[axis]).map_err(|_| overflow.clone())?;
            }
        }
        let [len, pairs] = [i64::try_from(row.len), i64::try_from(row.pairs)]
            .map(|extent| extent.map_err(|_| overflow.clone()));
        let (len, pairs) = (len?, pairs?);
        Ok(Self { nest: Nest::new(dims, strides, [len, len, pairs, pairs])?, row })
    }
}

/// A pair (a, b) becomes a·cos − b·sin and b·cos + a·sin, every product, difference and sum rounded; what stands behind the pairs of a
/// row stays as it is.
///
/// Errors: slices shorter than the nest's spans.
pub fn rotate(
    isa: Isa,
    shape: &Rotation,
    [x, cosines, sines]: [&[f32]; 3],
    out: &mut [f32],
    pool: &Pool,
) -> Result<(), Error> {
    let Rotation { nest, row } = shape;
    let span = |i: usize| usize::try_from(nest.span[i][1]).unwrap_or(usize::MAX);
    Error::check_len("output", out.len(), span(0))?;
    Error::check_len("input", x.len(), span(1))?;
    Error::check_len("cosines", cosines.len(), span(2))?;
    Error::check_len("sines", sines.len(), span(3))?;
    if nest.is_empty() || row.len == 0 {
        return Ok(());
    }
    let (level, shared) = (Level::new(isa), Shared::new(out));
    let steps = nest.inner_strides().map(|stride| stride as usize);
    parallel::runs(pool, nest.outer(1), nest.inner(), row.len, &|index, first, rows| {
        let at = nest.position(1, index);
        let [o, a, c, s] = std::array::from_fn(|i| at[i] as usize + first * steps[i]);
        // SAFETY: within the span that was checked; runs, and pieces of one, are disjoint since the nest refuses outputs that overlap
        // themselves.
        let out = unsafe { shared.piece(o, (rows - 1) * steps[0] + row.len) };
        turn_rows(level, *row, rows, steps, [&x[a..], &cosines[c..], &sines[s..]], out);
    });
    Ok(())
}

multiversion! {
    fn turn_rows(row: Row, rows: usize, steps: [usize; 4], operands: [&[f32]; 3], out: &mut [f32]) {
        let [x, cosines, sines] = operands;
        for index in 0..rows {
            let x = &x[index * steps[1]..][..row.len];
            let (cosines, sines) = (&cosines[index * steps[2]..][..row.pairs], &sines[index * steps[3]..][..row.pairs]);
            let (y, rest) = out[index * steps[0]..][..row.len].split_at_mut(2 * row.pairs);
            if row.interleaved {
                turn_neighbours(x, cosines, sines, y);
            } else {
                turn_halves(x, cosines, sines, y);
            }
            if !rest.is_empty() {
                rest.copy_from_slice(&x[2 * row.pairs..]);
            }
        }
    }
}

#[inline(always)]
fn turn_halves(x: &[f32], cosines: &[f32], sines: &[f32], y: &mut [f32]) {
    let pairs = cosines.len();
    let (first, second) = x[..2 * pairs].split_at(pairs);
    let (y_first, y_second) = y.split_at_mut(pairs);
    let whole = pairs / GROUP * GROUP;
    for at in (0..whole).step_by(GROUP) {
        let (a, b) = (group::<_, 1, GROUP>(first, at), group::<_, 1, GROUP>(second, at));
        let (cos, sin) = (group::<_, 1, GROUP>(cosines, at), group::<_, 1, GROUP>(sines, at));
        // One after the other: together vectors would be made of pairs.
        let (mut own, mut other) = ([0.0; GROUP], [0.0; GROUP]);
        for i in 0..GROUP {
            own[i] = a[i] * cos[i] - b[i] * sin[i];
        }
        y_first[at..][..GROUP].copy_from_slice(&own);
        apart();
        for i in 0..GROUP {
            other[i] = b[i] * cos[i] + a[i] * sin[i];
        }
        y_second[at..][..GROUP].copy_from_slice(&other);
        apart();
    }
    for i in whole..pairs {
        let (a, b, cos, sin) = (first[i], second[i], cosines[i], sines[i]);
        y_first[i] = a * cos - b * sin;
        y_second[i] = b * cos + a * sin;
    }
}

#[inline(always)]
fn turn_neighbours(x: &[f32], cosines: &[f32], sines: &[f32], y: &mut [f32]) {
    let pairs = cosines.len();
    let (x, y) = (x.as_chunks::<2>().0, y.as_chunks_mut::<2>().0);
    let whole = pairs / GROUP * GROUP;
    for at in (0..whole).step_by(GROUP) {
        let own = group::<_, 1, GROUP>(x, at);
        let (cos, sin) = (group::<_, 1, GROUP>(cosines, at), group::<_, 1, GROUP>(sines, at));
        let y = &mut y[at..][..GROUP];
        for i in 0..GROUP {
            let [a, b] = own[i];
            y[i] = [a * cos[i] - b * sin[i], b * cos[i] + a * sin[i]];
        }
        apart();
    }
    for i in whole..pairs {
        let ([a, b], cos, sin) = (x[i], cosines[i], sines[i]);
        y[i] = [a * cos - b * sin, b * cos + a * sin];
    }
}
