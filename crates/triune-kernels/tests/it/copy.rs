//! Strided copies against an index-by-index loop.

use proptest::prelude::*;
use triune_kernels::{CopyNd, CopySpec, Pool};
use triune_testing::Random;

fn oracle(spec: &CopySpec, src: &[u8], dst: &mut [u8]) {
    let total: usize = spec.dims.iter().product();
    for mut index in 0..total {
        let (mut from, mut to) = (spec.src_offset as i64, 0);
        for axis in (0..6).rev() {
            let at = index % spec.dims[axis];
            index /= spec.dims[axis];
            from += at as i64 * spec.src_strides[axis];
            to += at * spec.dst_strides[axis];
        }
        for byte in 0..spec.elem_bytes {
            dst[to + byte] = src[from as usize + byte];
        }
    }
}

fn check(spec: &CopySpec) {
    let copy = CopyNd::new(spec).unwrap();
    let src = Random(77).bytes(copy.src_bytes());
    let mut expected = vec![0xEE; copy.dst_bytes()];
    oracle(spec, &src, &mut expected);
    for threads in [1, 3] {
        let pool = Pool::new(threads);
        let mut dst = vec![0xEE; copy.dst_bytes()];
        copy.run(&src, &mut dst, &pool).unwrap();
        assert_eq!(expected, dst, "{spec:?}");
        if !src.is_empty() {
            assert!(copy.run(&src[1..], &mut dst, &pool).is_err());
            assert!(copy.run(&src, &mut dst[1..], &pool).is_err());
        }
    }
}

/// Row-major strides of a permuted layout with gaps.
fn strides(dims: [usize; 6], order: [usize; 6], elem: usize, gaps: [usize; 6]) -> [usize; 6] {
    let mut strides = [0; 6];
    let mut step = elem;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step *= dims[axis] + gaps[axis];
    }
    strides
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn copies_equal_the_loop(
        size in 0usize..4,
        dims in prop::array::uniform6(1usize..6),
        from in Just([0usize, 1, 2, 3, 4, 5]).prop_shuffle(),
        to in Just([0usize, 1, 2, 3, 4, 5]).prop_shuffle(),
        gaps in prop::array::uniform6(0usize..2),
        repeat in prop::option::of(0usize..6),
        reverse in prop::option::of(0usize..6),
        empty in prop::option::weighted(0.05, 0usize..6),
    ) {
        let elem_bytes = 1 << size;
        let mut dims = dims;
        if let Some(axis) = empty {
            dims[axis] = 0;
        }
        let mut src = strides(dims, from, elem_bytes, gaps).map(|s| s as i64);
        let dst_strides = strides(dims, to, elem_bytes, [gaps[1], gaps[2], 0, 0, gaps[0], 0]);
        if let Some(axis) = repeat {
            src[axis] = 0;
        }
        let mut src_offset = 0;
        if let Some(axis) = reverse {
            src_offset = src[axis] as usize * dims[axis].saturating_sub(1);
            src[axis] = -src[axis];
        }
        check(&CopySpec { elem_bytes, dims, src_offset, src_strides: src, dst_strides });
    }
}

#[test]
fn layout_changes_slices_and_fills() {
    for (elem_bytes, c) in [1, 2, 4, 8].into_iter().flat_map(|elem| [2, 3, 4, 37].map(|c| (elem, c))) {
        let e = elem_bytes;
        // NCHW to NHWC and back, sizes that are no multiple of a tile.
        let (h, w) = (19, 23);
        let nchw = [c * h * w * e, h * w * e, w * e, e];
        let nhwc = [c * h * w * e, e, w * c * e, c * e];
        let dims = [1, 1, 2, c, h, w];
        let pad = |s: [usize; 4]| [0, 0, s[0], s[1], s[2], s[3]];
        let signed = |s: [usize; 4]| pad(s).map(|s| s as i64);
        let base =
            CopySpec { elem_bytes, dims, src_offset: 0, src_strides: signed(nchw), dst_strides: pad(nhwc) };
        check(&base);
        check(&CopySpec { src_strides: signed(nhwc), dst_strides: pad(nchw), ..base });
        // A piece of a concatenation along channels.
        let wide = [h * w * 50 * e, e, w * 50 * e, 50 * e];
        check(&CopySpec { src_strides: signed(nhwc), dst_strides: pad(wide), ..base });

        let fill = CopyNd::fill(e, dims, pad(wide)).unwrap();
        let mut dst = vec![0; fill.dst_bytes()];
        let value: Vec<u8> = (1..=e as u8).collect();
        fill.run(&value, &mut dst, &Pool::new(2)).unwrap();
        let count = dst.chunks(e).filter(|element| **element == value).count();
        assert_eq!(count, 2 * c * h * w);
    }
}

#[test]
fn large_copies_split_over_threads() {
    let dims = [1, 1, 1, 1, 700, 900];
    let dst_strides = [0, 0, 0, 0, 900 * 4, 4];
    for src_strides in [[0, 0, 0, 0, 3600, 4], [0, 0, 0, 0, 4, 2800], [0; 6], [0, 0, 0, 0, 3608, 4]] {
        check(&CopySpec { elem_bytes: 4, dims, src_offset: 0, src_strides, dst_strides });
    }
}

#[test]
fn misfits_are_errors() {
    let spec = CopySpec {
        elem_bytes: 4,
        dims: [1, 1, 1, 1, 3, 5],
        src_offset: 0,
        src_strides: [0, 0, 0, 0, 20, 4],
        dst_strides: [0, 0, 0, 0, 20, 4],
    };
    assert!(CopyNd::new(&CopySpec { elem_bytes: 3, ..spec }).is_err());
    assert!(CopyNd::new(&CopySpec { dst_strides: [0, 0, 0, 0, 16, 4], ..spec }).is_err());
    assert!(CopyNd::new(&CopySpec { dst_strides: [0, 0, 0, 0, 20, 2], ..spec }).is_err());
    assert!(CopyNd::new(&CopySpec { src_strides: [0, 0, 0, 0, 20, -4], ..spec }).is_err());
    assert!(CopyNd::new(&CopySpec { src_strides: [0, 0, 0, 0, i64::MAX, 4], ..spec }).is_err());
    assert!(CopyNd::new(&CopySpec { dims: [usize::MAX, 2, 1, 1, 1, 1], ..spec }).is_err());
}

/// Elements that begin a byte apart lie over each other; those that begin at the same byte are one.
#[test]
fn elements_may_overlap_in_the_source() {
    for elem_bytes in [1, 2, 4, 8] {
        for step in [0, 1, 2, 3, 5] {
            let unit = elem_bytes;
            check(&CopySpec {
                dims: [1, 1, 1, 1, 3, 7],
                src_strides: [0, 0, 0, 0, 4, step],
                dst_strides: [0, 0, 0, 0, 7 * unit, unit],
                src_offset: 1,
                elem_bytes,
            });
        }
    }
}
