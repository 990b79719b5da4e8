//! What the kernel tests share: deterministic numbers, maps with gaps, bit-exact comparison.

// Each test binary compiles this file and uses a part of it.
#![allow(unreachable_pub, reason = "a module of several test binaries")]

use triune_kernels::{Isa, Nhwc};
use triune_testing::Random;

/// A map with free elements after each pixel, row and image.
pub fn gapped(n: usize, [h, w]: [usize; 2], c: usize, gaps: [usize; 3]) -> Nhwc {
    let stride_w = c + gaps[0];
    let stride_h = w * stride_w + gaps[1];
    Nhwc { n, h, w, c, stride_n: h * stride_h + gaps[2], stride_h, stride_w }
}

/// Every index of a map.
pub fn indices(map: Nhwc) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..map.n).flat_map(move |n| {
        (0..map.h).flat_map(move |h| (0..map.w).flat_map(move |w| (0..map.c).map(move |c| (n, h, w, c))))
    })
}

/// Extents of a random loop nest, one axis longer than the others.
pub fn extents(random: &mut Random, most: usize) -> [usize; 6] {
    let mut dims = std::array::from_fn(|_| random.between(1, most));
    dims[random.below(6)] = [1, 7, 40, 300][random.below(4)];
    dims
}

/// Strides of the axes in a random order with gaps; where `repeats`, some axes repeat what they have.
pub fn strides(random: &mut Random, dims: [usize; 6], repeats: bool) -> [usize; 6] {
    let mut order = [0, 1, 2, 3, 4, 5];
    for axis in 0..6 {
        order.swap(axis, random.between(axis, 5));
    }
    let (mut strides, mut next) = ([0; 6], 1);
    for axis in order {
        if !repeats || random.below(4) > 0 {
            strides[axis] = next;
            next = next * dims[axis] + random.below(2);
        }
    }
    strides
}

/// For every element of a nest in row-major order, where it stands in each operand.
pub fn offsets<const N: usize>(
    dims: [usize; 6],
    strides: [[usize; 6]; N],
) -> impl Iterator<Item = [usize; N]> {
    (0..dims.iter().product::<usize>()).map(move |mut flat| {
        let mut at = [0; N];
        for axis in (0..6).rev() {
            let index = flat % dims[axis];
            flat /= dims[axis];
            for (at, strides) in at.iter_mut().zip(&strides) {
                *at += index * strides[axis];
            }
        }
        at
    })
}

/// Elements from the first to one past the last of a nest's operand.
pub fn span(dims: [usize; 6], strides: [usize; 6]) -> usize {
    1 + dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>()
}

/// Asserts equal bits.
#[track_caller]
pub fn same_bits(expected: &[f32], got: &[f32], what: &str) {
    assert_eq!(expected.len(), got.len(), "{what}");
    for (i, (e, g)) in expected.iter().zip(got).enumerate() {
        assert!(e.to_bits() == g.to_bits() || (e.is_nan() && g.is_nan()), "{what}: [{i}] {e} is {g}");
    }
}

/// The instruction sets of this machine.
pub fn isas() -> Vec<Isa> {
    Isa::available().collect()
}
