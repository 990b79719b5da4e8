//! Bytes through tables, beside a loop over indices.

use crate::common::{gapped, indices, isas};
use triune_kernels::{Nhwc, Pool, table, tables};
use triune_testing::Random;

/// What bytes between the elements of outputs are, and stay.
const UNTOUCHED: u8 = 0xa5;

fn some_tables(count: usize, random: &mut Random) -> Vec<[u8; 256]> {
    (0..count).map(|_| std::array::from_fn(|_| random.next() as u8)).collect()
}

#[test]
fn one_table_looks_up_every_byte() {
    let mut random = Random(51);
    let bytes: [u8; 256] = std::array::from_fn(|_| random.next() as u8);
    for len in (0..140).chain([255, 256, 1000, 70_000]) {
        let x: Vec<u8> = (0..len).map(|at| if len > 255 { at as u8 } else { random.next() as u8 }).collect();
        let map = Nhwc::dense(1, 1, len, 1);
        for isa in isas() {
            let mut y = vec![0; len];
            table(isa, &bytes, &x, map, &mut y, map, &Pool::new(2)).unwrap();
            assert!(x.iter().zip(&y).all(|(&x, &y)| y == bytes[usize::from(x)]), "{isa:?} {len}");
        }
    }
}

fn check(by_rows: bool, input: Nhwc, output: Nhwc, random: &mut Random) {
    let (x, bytes) =
        (random.bytes(input.span()), some_tables(if by_rows { input.h } else { input.c }, random));
    let mut expected = vec![UNTOUCHED; output.span()];
    for (n, h, w, c) in indices(input) {
        let table = &bytes[if by_rows { h } else { c }];
        expected[output.offset(n, h, w) + c] = table[usize::from(x[input.offset(n, h, w) + c])];
    }
    for isa in isas() {
        for threads in [1, 3] {
            let mut y = vec![UNTOUCHED; output.span()];
            tables(isa, &bytes, by_rows, &x, input, &mut y, output, &Pool::new(threads)).unwrap();
            let wrong = y.iter().zip(&expected).position(|(got, expected)| got != expected);
            assert_eq!(wrong, None, "{isa:?}, {threads} threads, rows {by_rows}: {input:?} to {output:?}");
        }
    }
}

#[test]
fn tables_of_channels_and_rows_look_up_every_byte() {
    let mut random = Random(52);
    // Tiles of 16 channels and 128 places in strips of 32: fewer, as many, some more.
    for c in [1, 3, 15, 16, 17, 24, 40, 100, 150] {
        for extents in [[1, 1], [5, 7], [1, 31], [4, 8], [3, 43], [9, 40], [23, 29]] {
            let dense = Nhwc::dense(2, extents[0], extents[1], c);
            for gaps in [[0; 3], [0, 0, 5], [3, 0, 0], [0, 4, 0], [1, 2, 3]] {
                let gapped = gapped(2, extents, c, gaps);
                check(false, dense, gapped, &mut random);
                check(false, gapped, dense, &mut random);
            }
        }
    }
    for (c, gaps) in [(1, [0; 3]), (1, [0, 4, 0]), (1, [1, 2, 3]), (3, [0; 3]), (40, [1, 2, 3])] {
        for extents in [[1, 1], [3, 7], [4, 70]] {
            let gapped = gapped(2, extents, c, gaps);
            check(true, gapped, gapped, &mut random);
            check(true, Nhwc::dense(2, extents[0], extents[1], c), gapped, &mut random);
        }
    }
}

#[test]
fn few_channels_and_many_places_share_tiles() {
    let mut random = Random(53);
    for c in [1, 2, 3, 7, 12, 15] {
        for places in [511, 512, 513, 531, 3000] {
            let dense = Nhwc::dense(1, 1, places, c);
            check(false, dense, dense, &mut random);
            check(false, dense, gapped(1, [1, places], c, [1, 0, 0]), &mut random);
        }
    }
}

#[test]
fn many_places_are_split_among_threads() {
    let mut random = Random(54);
    for (extents, c) in [([60, 61], 20), ([3, 7000], 3), ([13, 13], 520)] {
        let dense = Nhwc::dense(1, extents[0], extents[1], c);
        check(false, dense, dense, &mut random);
        check(false, dense, gapped(1, extents, c, [0, 1, 0]), &mut random);
    }
}

#[test]
fn tables_refuse_other_numbers_and_short_slices() {
    for (by_rows, count) in [(false, 3), (true, 5)] {
        let (map, pool) = (Nhwc::dense(2, 5, 7, 3), Pool::new(1));
        let (bytes, x, mut y) = (vec![[0; 256]; count + 1], vec![0; map.span()], vec![0; map.span()]);
        for isa in isas() {
            let mut refused = |count: usize, short: [usize; 2]| {
                let y = &mut y[short[1]..];
                tables(isa, &bytes[..count], by_rows, &x[short[0]..], map, y, map, &pool).is_err()
            };
            assert!(!refused(count, [0, 0]));
            assert!(refused(count - 1, [0, 0]) && refused(count + 1, [0, 0]));
            assert!(refused(count, [1, 0]) && refused(count, [0, 1]));
        }
        let empty = Nhwc::dense(0, 5, 7, 3);
        tables(isas()[0], &bytes[..count], by_rows, &[], empty, &mut [], empty, &pool).unwrap();
    }
}
