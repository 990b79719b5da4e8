//! Perspective warps: each output pixel is taken where a 3×3 matrix says. Vectorised over channels.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::function::{BorderMode, Sampling};

use crate::cancel::spans;
use crate::dispatch::{Level, multiversion};
use crate::{Error, Isa, Nhwc, Pool, parallel};

/// The input index for `at` along an axis of `len` > 0 elements; `None` for a constant border.
fn index(border: BorderMode, at: i64, len: usize) -> Option<usize> {
    let last = len as i64 - 1;
    if (0..=last).contains(&at) {
        return Some(at as usize);
    }
    let mirrored = |at: i64, period: i64, turn: i64| {
        let at = at.rem_euclid(period);
        if at > last { turn - at } else { at }
    };
    let at = match border {
        BorderMode::Constant(_) => return None,
        BorderMode::Replicate => at.clamp(0, last),
        BorderMode::Reflect => mirrored(at, 2 * (last + 1), 2 * last + 1),
        BorderMode::Reflect101 if last == 0 => 0,
        BorderMode::Reflect101 => mirrored(at, 2 * last, 2 * last),
        BorderMode::Wrap => at.rem_euclid(last + 1),
    };
    Some(at as usize)
}

/// A warp: output pixel (x, y) of image i lies in the input at (u, v) = (m₀x + m₁y + m₂, m₃x + m₄y + m₅) / (m₆x + m₇y + m₈)
/// of matrix i, computed in f32 in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarpSpec {
    /// What a result is made of. On a grid of 1/32, places are computed in f64.
    pub sampling: Sampling,
    /// What lies outside of the input.
    pub border: BorderMode,
}

/// An element that can be interpolated.
pub trait Sample: Copy + Send + Sync {
    /// As real.
    fn real(self) -> f32;
    /// From a real: rounded half away from zero and saturated, where the type is an integer's.
    fn of(x: f32) -> Self;
}

impl Sample for f32 {
    #[inline(always)]
    fn real(self) -> f32 {
        self
    }
    #[inline(always)]
    fn of(x: f32) -> Self {
        x
    }
}

impl Sample for u8 {
    #[inline(always)]
    fn real(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn of(x: f32) -> Self {
        x.round() as Self
    }
}

impl Sample for i8 {
    #[inline(always)]
    fn real(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn of(x: f32) -> Self {
        x.round() as Self
    }
}

/// Where the four taps of a pixel lie in the image, if inside, and their shares.
#[derive(Clone, Copy)]
struct Taps {
    at: [Option<usize>; 4],
    right: f32,
    below: f32,
}

/// Warps `x` into `y`; image i of the output is made of image `image[i]` of the input (of image i without them) by the
/// matrix `matrix[9·i..9·i + 9]`, row-major.
///
/// Linear: ((a·(1 − r)·(1 − d) + b·r·(1 − d)) + c·(1 − r)·d) + e·r·d from the upper left a, right b, lower left c and
/// right e, as `MegEngine` orders it; where the sum is not finite the constant border's value takes its place. A pixel
/// whose (u, v) is not finite gets the constant border's value, 0 with other borders.
///
/// Errors: channels, matrices or images that do not fit, slices shorter than their maps, an image index outside of the
/// input, an empty input with an output that is not.
pub fn warp_perspective<T: Sample>(
    isa: Isa,
    spec: &WarpSpec,
    matrix: &[f32],
    image: Option<&[i32]>,
    x: &[T],
    in_map: Nhwc,
    y: &mut [T],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    Error::check_eq("channels", in_map.c, out_map.c)?;
    Error::check_len("matrices", matrix.len(), out_map.n.saturating_mul(9))?;
    Error::check_len("input", x.len(), in_map.span())?;
    parallel::check_output(y, out_map)?;
    match image {
        Some(image) => {
            Error::check_len("image indices", image.len(), out_map.n)?;
            let inside = |&index: &i32| usize::try_from(index).is_ok_and(|index| index < in_map.n);
            if let Some(&index) = image[..out_map.n].iter().find(|index| !inside(index)) {
                let (index, extent) = (i64::from(index), in_map.n);
                return Err(Error::Index { operand: "images", index, axis: 0, extent });
            }
        }
        None => Error::check_eq("images", out_map.n, in_map.n)?,
    }
    if out_map.span() > 0 && in_map.span() == 0 {
        return Err(Error::Invalid("an empty map cannot be warped"));
    }
    let level = Level::new(isa);
    parallel::rows(pool, y, out_map, &|n, h, row| {
        let source = image.map_or(n, |image| image[n] as usize);
        let x = &x[in_map.offset(source, 0, 0)..];
        let m: &[f32] = &matrix[9 * n..9 * n + 9];
        for part in spans(out_map.w, out_map.c.saturating_add(16)) {
            for w in part {
                let out = &mut row[w * out_map.stride_w..][..out_map.c];
                match taps(spec, m, in_map, w as f32, h as f32) {
                    Some(taps) if spec.sampling != Sampling::Nearest => {
                        blend(level, taps, spec.border, x, out);
                    }
                    Some(Taps { at: [Some(at), ..], .. }) => out.copy_from_slice(&x[at..][..out.len()]),
                    _ => out.fill(T::of(spec.border.value())),
                }
            }
        }
    });
    Ok(())
}

/// The taps of one pixel; `None` when its place is not finite.
fn taps(spec: &WarpSpec, m: &[f32], map: Nhwc, x: f32, y: f32) -> Option<Taps> {
    let at = |row: i64, column: i64| {
        let (row, column) = (index(spec.border, row, map.h)?, index(spec.border, column, map.w)?);
        Some(map.offset(0, row, column))
    };
    let around = |row: i64, column: i64, below: f32, right: f32| Taps {
        at: [at(row, column), at(row, column + 1), at(row + 1, column), at(row + 1, column + 1)],
        right,
        below,
    };
    if let Sampling::Grid | Sampling::AffineGrid = spec.sampling {
        let [u, v] = if spec.sampling == Sampling::Grid { on_grid(m, x, y) } else { affine_on_grid(m, x, y) };
        let share = |place: i32| (place & 31) as f32 / 32.0;
        return Some(around(i64::from(v >> 5), i64::from(u >> 5), share(v), share(u)));
    }
    let denominator = m[6] * x + m[7] * y + m[8];
    let u = (m[0] * x + m[1] * y + m[2]) / denominator;
    let v = (m[3] * x + m[4] * y + m[5]) / denominator;
    if !u.is_finite() || !v.is_finite() {
        return None;
    }
    // `as` saturates; so far out only the border's rule matters.
    if spec.sampling == Sampling::Nearest {
        let (row, column) = (v.round_ties_even() as i32, u.round_ties_even() as i32);
        let nearest = at(row.into(), column.into());
        return Some(Taps { at: [nearest, None, None, None], right: 0.0, below: 0.0 });
    }
    let (top, left) = (v.floor(), u.floor());
    Some(around(i64::from(top as i32), i64::from(left as i32), v - top, u - left))
}

/// (u, v) in 1/32, half to even; the origin where the denominator is 0.
fn on_grid(m: &[f32], x: f32, y: f32) -> [i32; 2] {
    let (x, y) = (f64::from(x), f64::from(y));
    let along = |i: usize| f64::from(m[i]) * x + (f64::from(m[i + 1]) * y + f64::from(m[i + 2]));
    let denominator = along(6);
    let factor = if denominator == 0.0 { 0.0 } else { 32.0 / denominator };
    [along(0), along(3)].map(|place| (place * factor).round_ties_even() as i32)
}

/// (u, v) of an affine matrix in 1/32: both parts of a place in 2⁻¹⁰, half to even, and their sum half up.
fn affine_on_grid(m: &[f32], x: f32, y: f32) -> [i32; 2] {
    let (x, y) = (f64::from(x), f64::from(y));
    let fixed = |value: f64| i64::from((value * 1024.0).round_ties_even() as i32);
    [0, 3].map(|i| {
        let across = fixed(f64::from(m[i]) * x);
        let down = fixed(f64::from(m[i + 1]) * y + f64::from(m[i + 2]));
        ((across + down + 16) >> 5).clamp(i32::MIN.into(), i32::MAX.into()) as i32
    })
}

multiversion! {
    fn blend[T: Sample](taps: Taps, border: BorderMode, x: &[T], out: &mut [T]) {
        let Taps { at, right, below } = taps;
        let (left, above) = (1.0 - right, 1.0 - below);
        let blended = |a: f32, b: f32, c: f32, d: f32| {
            a * left * above + b * right * above + c * left * below + d * right * below
        };
        if let [Some(a), Some(b), Some(c), Some(d)] = at {
            let (a, b) = (&x[a..][..out.len()], &x[b..][..out.len()]);
            let (c, d) = (&x[c..][..out.len()], &x[d..][..out.len()]);
            for (i, out) in out.iter_mut().enumerate() {
                let sum = blended(a[i].real(), b[i].real(), c[i].real(), d[i].real());
                *out = T::of(finite_or(sum, border));
            }
        } else {
            for (i, out) in out.iter_mut().enumerate() {
                let [a, b, c, d] = at.map(|at| at.map_or(border.value(), |at| x[at + i].real()));
                *out = T::of(finite_or(blended(a, b, c, d), border));
            }
        }
    }
}

/// The sum, or a constant border's value in place of what is not finite.
#[inline(always)]
fn finite_or(sum: f32, border: BorderMode) -> f32 {
    match border {
        BorderMode::Constant(value) if !sum.is_finite() => value,
        _ => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By walking: mirrors and repeats one step at a time.
    fn walked(border: BorderMode, mut at: i64, len: i64) -> Option<usize> {
        let shift = i64::from(border == BorderMode::Reflect101);
        while !(0..len).contains(&at) {
            at = match border {
                BorderMode::Constant(_) => return None,
                BorderMode::Replicate => at.clamp(0, len - 1),
                BorderMode::Reflect101 if len == 1 => 0,
                BorderMode::Reflect | BorderMode::Reflect101 if at < 0 => -at - 1 + shift,
                BorderMode::Reflect | BorderMode::Reflect101 => 2 * len - 1 - at - shift,
                BorderMode::Wrap if at < 0 => at + len,
                BorderMode::Wrap => at - len,
            };
        }
        Some(at as usize)
    }

    #[test]
    fn borders_continue_the_input() {
        for border in [
            BorderMode::Constant(1.0),
            BorderMode::Replicate,
            BorderMode::Reflect,
            BorderMode::Reflect101,
            BorderMode::Wrap,
        ] {
            for len in 1..6 {
                for at in -20..20 {
                    assert_eq!(
                        index(border, at, len),
                        walked(border, at, len as i64),
                        "{border:?} {at} {len}"
                    );
                }
                for at in [i64::from(i32::MIN), i64::from(i32::MAX) + 1] {
                    assert!(index(border, at, len).is_none_or(|index| index < len));
                }
            }
        }
    }
}
