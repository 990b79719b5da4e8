//! The sums in portable Rust: the specification of all others.

use super::weights::{Axis, BITS};

/// Pixels that a row is a multiple of, so that vectors need no rest.
pub(super) const STEP: usize = 32;

/// A half, before bits behind the point are cut off.
pub(super) const HALF: i32 = 1 << (BITS - 1);

/// A sum as a byte.
fn byte(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// A row that is not scaled. Pixels of three bytes become such of four.
pub(super) fn copy(x: &[u8], pixel: usize, y: &mut [u8]) {
    if pixel == 3 {
        for (y, x) in y.as_chunks_mut::<4>().0.iter_mut().zip(x.as_chunks::<3>().0) {
            y[..3].copy_from_slice(x);
        }
    } else {
        y[..x.len()].copy_from_slice(x);
    }
}

/// A row along its columns. Pixels of three bytes become such of four.
pub(super) fn across(axis: &Axis, x: &[u8], pixel: usize, y: &mut [u8]) {
    match pixel {
        1 => pixels::<1, 1>(axis, x, y),
        3 => pixels::<3, 4>(axis, x, y),
        _ => pixels::<4, 4>(axis, x, y),
    }
}

fn pixels<const PIXEL: usize, const LANE: usize>(axis: &Axis, x: &[u8], y: &mut [u8]) {
    let x = x.as_chunks::<PIXEL>().0;
    for (index, y) in y.as_chunks_mut::<LANE>().0.iter_mut().take(axis.len()).enumerate() {
        let (first, weights) = axis.taps(index);
        let mut sums = [HALF; PIXEL];
        for (&weight, x) in weights.iter().zip(&x[first..]) {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum = sum.wrapping_add(i32::from(x).wrapping_mul(weight));
            }
        }
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = byte(sum);
        }
    }
}

/// Rows that begin at those offsets, by their weights.
pub(super) fn down(rows: &[u8], offsets: &[usize], weights: &[i32], y: &mut [u8]) {
    let (parts, rest) = y.as_chunks_mut::<STEP>();
    let begun = parts.len() * STEP;
    for (part, y) in parts.iter_mut().enumerate() {
        *y = several(rows, offsets, weights, part * STEP);
    }
    for (at, y) in rest.iter_mut().enumerate() {
        [*y] = several(rows, offsets, weights, begun + at);
    }
}

/// So many bytes of a row from `at` on.
pub(super) fn several<const COUNT: usize>(
    rows: &[u8],
    offsets: &[usize],
    weights: &[i32],
    at: usize,
) -> [u8; COUNT] {
    let mut sums = [HALF; COUNT];
    for (&offset, &weight) in offsets.iter().zip(weights) {
        for (sum, &x) in sums.iter_mut().zip(&rows[offset + at..][..COUNT]) {
            *sum = sum.wrapping_add(i32::from(x).wrapping_mul(weight));
        }
    }
    sums.map(byte)
}
