//! Scaled pictures, beside two plain passes over a whole picture. That these are Pillow's bits, `tests/batch` asks Pillow.

use std::f64::consts::PI;

use triune_kernels::{
    CancelToken, Channels, Error, Isa, Resample, ResampleFilter, ResampleSpec, ResampleTarget,
};
use triune_testing::Random;

const HALF: i32 = 1 << 21;

/// How far a filter reaches, and what it weighs at a distance.
fn filter(of: ResampleFilter, x: f64) -> (f64, f64) {
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * PI).sin() / (x * PI) };
    let far = x.abs();
    match of {
        ResampleFilter::Box => (0.5, f64::from(-0.5 < x && x <= 0.5)),
        ResampleFilter::Bilinear => (1.0, (1.0 - far).max(0.0)),
        ResampleFilter::Hamming if far < 1.0 => {
            (1.0, sinc(far) * (f64::from(0.54_f32) + f64::from(0.46_f32) * (far * PI).cos()))
        }
        ResampleFilter::Hamming => (1.0, 0.0),
        ResampleFilter::Bicubic if far < 1.0 => (2.0, (1.5 * far - 2.5) * far * far + 1.0),
        ResampleFilter::Bicubic if far < 2.0 => (2.0, (((far - 5.0) * far + 8.0) * far - 4.0) * -0.5),
        ResampleFilter::Bicubic => (2.0, 0.0),
        ResampleFilter::Lanczos if (-3.0..3.0).contains(&x) => (3.0, sinc(x) * sinc(x / 3.0)),
        ResampleFilter::Lanczos => (3.0, 0.0),
    }
}

/// Elements at `at(0)` to `at(input − 1)`, scaled.
fn along(
    of: ResampleFilter,
    input: usize,
    part: [f32; 2],
    output: usize,
    at: &dyn Fn(usize) -> u8,
) -> Vec<u8> {
    let scale = f64::from(part[1] - part[0]) / output as f64;
    let wide = scale.max(1.0);
    let support = filter(of, 0.0).0 * wide;
    let element = |index: usize| {
        let center = f64::from(part[0]) + (index as f64 + 0.5) * scale;
        let first = ((center - support + 0.5) as usize).min(input);
        let end = ((center + support + 0.5) as usize).min(input);
        let weight = |i: usize| filter(of, (i as f64 - center + 0.5) * (1.0 / wide)).1;
        let all: f64 = (first..end).fold(0.0, |sum, i| sum + weight(i));
        let fixed = |i: usize| {
            let share = if all == 0.0 { weight(i) } else { weight(i) / all };
            (share * f64::from(1 << 22) + 0.5_f64.copysign(share)) as i32
        };
        let sum = (first..end).fold(HALF, |sum, i| sum.wrapping_add(i32::from(at(i)) * fixed(i)));
        (sum >> 22).clamp(0, 255) as u8
    };
    (0..output).map(element).collect()
}

/// Rows of a picture of one channel, each scaled.
fn across(spec: &ResampleSpec, rows: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let [left, _, right, _] = spec.part;
    let one = |row: &Vec<u8>| along(spec.filter, row.len(), [left, right], spec.output[1], &|at| row[at]);
    rows.iter().map(one).collect()
}

/// Columns, each scaled.
fn down(spec: &ResampleSpec, rows: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let [_, top, _, bottom] = spec.part;
    let columns: Vec<Vec<u8>> = (0..rows[0].len())
        .map(|column| along(spec.filter, rows.len(), [top, bottom], spec.output[0], &|at| rows[at][column]))
        .collect();
    (0..spec.output[0]).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

/// A picture of bytes, `channels` each pixel, scaled.
fn scaled(spec: &ResampleSpec, channels: usize, x: &[u8]) -> Vec<u8> {
    let [rows, columns] = spec.output;
    let mut y = vec![0; rows * columns * channels];
    for channel in 0..channels {
        let plane: Vec<u8> = x.iter().skip(channel).step_by(channels).copied().collect();
        let plane: Vec<Vec<u8>> = plane.chunks(spec.input[1]).map(<[u8]>::to_vec).collect();
        let plane = if spec.down_first {
            across(spec, &down(spec, &plane))
        } else {
            down(spec, &across(spec, &plane))
        };
        for (at, byte) in plane.concat().into_iter().enumerate() {
            y[at * channels + channel] = byte;
        }
    }
    y
}

/// What tables make of bytes: told apart by channel, and none twice.
fn table(channel: usize) -> [u32; 256] {
    std::array::from_fn(|byte| (channel * 1000 + byte) as u32)
}

fn check(spec: &ResampleSpec, pixel: usize, x: &[u8]) {
    let expected = scaled(spec, pixel, x);
    let [rows, columns] = spec.output;
    let resample = Resample::new(spec).unwrap();
    // The last channel first, as BGR is of RGB.
    let channels: Vec<usize> = (0..pixel.min(3)).rev().collect();
    let tables: Vec<_> = channels.iter().map(|&channel| (channel, table(channel))).collect();
    for isa in Isa::available() {
        for order in [Channels::First, Channels::Last] {
            let target = ResampleTarget { channels: order, extents: [rows + 3, columns + 5], origin: [1, 4] };
            let plane = (rows + 3) * (columns + 5);
            let mut y = vec![u32::MAX; plane * channels.len()];
            resample.run(isa, x, pixel, &tables, &mut y, &target).unwrap();
            for (index, &channel) in channels.iter().enumerate() {
                for at in 0..plane {
                    let (row, column) = (at / (columns + 5), at % (columns + 5));
                    let inside = (1..=rows).contains(&row) && (4..columns + 4).contains(&column);
                    let byte = || expected[((row - 1) * columns + column - 4) * pixel + channel];
                    let value = if inside { table(channel)[usize::from(byte())] } else { u32::MAX };
                    let found = match order {
                        Channels::First => y[index * plane + at],
                        Channels::Last => y[at * channels.len() + index],
                    };
                    assert_eq!(found, value, "{spec:?} {pixel} {isa:?} {order:?}: {row} {column} {channel}");
                }
            }
        }
    }
}

#[test]
fn pictures_of_all_sizes() {
    let mut random = Random(11);
    for filter in ResampleFilter::ALL {
        for (input, output) in [
            ([1, 1], [1, 1]),
            ([1, 1], [5, 9]),
            ([2, 3], [40, 1]),
            ([7, 5], [7, 5]),
            ([7, 5], [7, 9]),
            ([7, 5], [3, 5]),
            ([31, 33], [33, 31]),
            ([40, 70], [12, 35]),
            ([300, 3], [2, 2]),
            ([3, 300], [2, 1]),
            ([64, 48], [1, 100]),
        ] {
            let whole = [0.0, 0.0, input[1] as f32, input[0] as f32];
            for pixel in [1, 3, 4] {
                let x = random.bytes(input[0] * input[1] * pixel);
                for down_first in [false, true] {
                    check(&ResampleSpec { filter, input, part: whole, output, down_first }, pixel, &x);
                }
                for _ in 0..3 {
                    let mut pair = |most: usize| {
                        let [a, b] = [(); 2].map(|()| f32::midpoint(random.unit(), 1.0) * most as f32);
                        [a.min(b), a.max(b)]
                    };
                    let ([left, right], [top, bottom]) = (pair(input[1]), pair(input[0]));
                    let part = [left, top, right, bottom];
                    let down_first = random.below(2) == 1;
                    check(&ResampleSpec { filter, input, part, output, down_first }, pixel, &x);
                }
            }
        }
    }
}

/// Black and white make filters overshoot the most.
#[test]
fn what_overshoots_is_cut_off() {
    let mut random = Random(12);
    for filter in [ResampleFilter::Bicubic, ResampleFilter::Lanczos] {
        for output in [[9, 14], [50, 61]] {
            let x: Vec<u8> = random.bytes(20 * 30 * 3).iter().map(|byte| (byte & 1) * 255).collect();
            let part = [0.0, 0.0, 30.0, 20.0];
            check(&ResampleSpec { filter, input: [20, 30], part, output, down_first: false }, 3, &x);
        }
    }
}

#[test]
fn one_color_stays() {
    for filter in ResampleFilter::ALL {
        let part = [1.5, 0.25, 30.0, 50.0];
        let spec = ResampleSpec { filter, input: [50, 37], part, output: [11, 90], down_first: false };
        let resample = Resample::new(&spec).unwrap();
        let target = ResampleTarget { channels: Channels::Last, extents: spec.output, origin: [0, 0] };
        let identity = std::array::from_fn(|byte| byte as u8);
        let mut y = vec![0; 11 * 90];
        for isa in Isa::available() {
            for byte in [0, 1, 127, 255] {
                resample.run(isa, &[byte; 50 * 37], 1, &[(0, identity)], &mut y, &target).unwrap();
                assert!(y.iter().all(|&y| y == byte), "{filter:?} {isa:?} {byte}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let good = ResampleSpec {
        filter: ResampleFilter::Bilinear,
        input: [4, 6],
        part: [0.0, 0.0, 6.0, 4.0],
        output: [2, 3],
        down_first: false,
    };
    let inside = Error::Invalid("the part is not inside of the picture");
    for part in [
        [-0.5, 0.0, 6.0, 4.0],
        [0.0, 0.0, 6.5, 4.0],
        [0.0, 0.0, 6.0, 4.5],
        [0.0, 3.0, 6.0, 2.0],
        [f32::NAN, 0.0, 6.0, 4.0],
        [0.0, 0.0, 6.0, f32::NAN],
        [0.0, 0.0, f32::INFINITY, 4.0],
    ] {
        assert_eq!(Resample::new(&ResampleSpec { part, ..good }).unwrap_err(), inside, "{part:?}");
    }
    for (input, output) in
        [([0, 6], [2, 3]), ([4, 6], [2, 0]), ([4, 1 << 31], [2, 3]), ([4, 6], [1 << 31, 3])]
    {
        let extents = Error::Invalid("a picture has 1 to 2³¹ − 1 rows and columns");
        assert_eq!(Resample::new(&ResampleSpec { input, output, ..good }).unwrap_err(), extents);
    }
    let many = ResampleSpec { input: [4, 1 << 30], part: [0.0, 0.0, (1 << 30) as f32, 4.0], ..good };
    assert_eq!(Resample::new(&many).unwrap_err(), Error::Invalid("there are too many weights"));

    let resample = Resample::new(&good).unwrap();
    let target = ResampleTarget { channels: Channels::First, extents: [2, 3], origin: [0, 0] };
    let run = |x: usize, pixel, channel, y: usize, target: &ResampleTarget| {
        resample.run(Isa::best(), &vec![0; x], pixel, &[(channel, [0_u8; 256])], &mut vec![0; y], target)
    };
    assert_eq!(run(72, 3, 2, 6, &target), Ok(()));
    assert_eq!(run(48, 2, 0, 6, &target), Err(Error::Invalid("pixels have 1, 3 or 4 bytes")));
    assert!(run(72, 3, 3, 6, &target).is_err());
    for x in [71, 73] {
        assert_eq!(run(x, 3, 2, 6, &target), Err(Error::Mismatch { what: "pixels", expected: 72, got: x }));
    }
    for y in [5, 7] {
        assert!(run(72, 3, 2, y, &target).is_err());
    }
    for (extents, origin) in [([2, 3], [1, 0]), ([2, 3], [0, 1]), ([1, 6], [0, 0]), ([2, 3], [3, 0])] {
        assert!(
            run(72, 3, 2, 6, &ResampleTarget { extents, origin, ..target }).is_err(),
            "{extents:?} {origin:?}"
        );
    }
}

#[test]
fn a_stop_is_heard_inside_of_a_large_picture() {
    let token = CancelToken::new();
    token.cancel();
    let side = 3000;
    let output = [side - 1, side - 1];
    let part = [0.0, 0.0, side as f32, side as f32];
    let target = ResampleTarget { channels: Channels::First, extents: output, origin: [0, 0] };
    for down_first in [false, true] {
        let spec =
            ResampleSpec { filter: ResampleFilter::Box, input: [side, side], part, output, down_first };
        let resample = Resample::new(&spec).unwrap();
        let mut y = vec![0_u8; output[0] * output[1]];
        let x = vec![9; side * side];
        token.during(|| resample.run(Isa::best(), &x, 1, &[(0, [1; 256])], &mut y, &target)).unwrap();
        assert!(y.ends_with(&[0]));
    }
}
