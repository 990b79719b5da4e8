//! Pictures through tables, beside a loop over pixels and channels.

use triune_kernels::{CancelToken, Channels, pixels};
use triune_testing::Random;

fn tables(count: usize, random: &mut Random) -> Vec<[f32; 256]> {
    (0..count).map(|_| std::array::from_fn(|_| random.unit())).collect()
}

#[test]
fn every_channel_has_a_table_of_its_own() {
    let mut random = Random(7);
    for (count, size) in [(1, 0), (1, 257), (2, 3), (3, 1), (3, 224 * 219), (4, 1000), (3, 1 << 21)] {
        let tables = tables(count, &mut random);
        let x: Vec<u8> = (0..count * size).map(|_| (random.unit() * 128.0 + 128.0) as u8).collect();
        let (mut first, mut last) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
        pixels(&tables, Channels::First, &x, &mut first).unwrap();
        pixels(&tables, Channels::Last, &x, &mut last).unwrap();
        for pixel in 0..size {
            for channel in 0..count {
                let expected = tables[channel][usize::from(x[pixel * count + channel])];
                assert_eq!(first[channel * size + pixel], expected, "{count} {size}: {pixel} {channel}");
                assert_eq!(last[pixel * count + channel], expected, "{count} {size}: {pixel} {channel}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let table = [[0u8; 256]; 3];
    assert!(pixels(&table[..0], Channels::First, &[], &mut []).is_err());
    assert!(pixels(&table, Channels::First, &[0; 4], &mut [0; 4]).is_err());
    assert!(pixels(&table, Channels::Last, &[0; 6], &mut [0; 3]).is_err());
}

#[test]
fn a_stop_is_heard_inside_of_a_large_picture() {
    let token = CancelToken::new();
    let x = vec![1; 3 << 22];
    let mut y = vec![0u8; x.len()];
    token.cancel();
    token.during(|| pixels(&[[1u8; 256]; 3], Channels::Last, &x, &mut y)).unwrap();
    assert!(y.ends_with(&[0]));
}
