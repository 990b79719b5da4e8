//! Perspective warps on every instruction set, against one pixel at a time.

use crate::common::{gapped, indices, isas, same_bits};
use triune_kernels::{Nhwc, Pool, WarpSpec, warp_perspective};
use triune_tensor::function::{BorderMode, Sampling};
use triune_testing::Random;

const BORDERS: [BorderMode; 5] = [
    BorderMode::Constant(-3.5),
    BorderMode::Replicate,
    BorderMode::Reflect,
    BorderMode::Reflect101,
    BorderMode::Wrap,
];

const SAMPLINGS: [Sampling; 4] = [Sampling::Linear, Sampling::Grid, Sampling::AffineGrid, Sampling::Nearest];

/// The index that an infinite continuation of the axis has there.
fn continued(border: BorderMode, at: i64, len: usize) -> Option<usize> {
    let len = len as i64;
    let index = |at: i64| -> i64 {
        let block = at.div_euclid(len);
        let inside = at.rem_euclid(len);
        if block % 2 == 0 { inside } else { len - 1 - inside }
    };
    match border {
        BorderMode::Constant(_) => (0..len).contains(&at).then_some(at as usize),
        BorderMode::Replicate => Some(at.clamp(0, len - 1) as usize),
        BorderMode::Reflect => Some(index(at) as usize),
        BorderMode::Reflect101 if len == 1 => Some(0),
        BorderMode::Reflect101 => {
            let period = at.rem_euclid(2 * (len - 1));
            Some(period.min(2 * (len - 1) - period) as usize)
        }
        BorderMode::Wrap => Some(at.rem_euclid(len) as usize),
    }
}

fn expected(
    spec: &WarpSpec,
    m: &[f32],
    pixel: [usize; 2],
    read: &dyn Fn(usize, usize) -> f32,
    size: [usize; 2],
) -> f32 {
    let (y, x) = (pixel[0] as f32, pixel[1] as f32);
    let scale = m[6] * x + m[7] * y + m[8];
    let wide = |i: usize| {
        f64::from(m[i]) * f64::from(x) + (f64::from(m[i + 1]) * f64::from(y) + f64::from(m[i + 2]))
    };
    let (u, v) = match spec.sampling {
        Sampling::Grid => {
            let steps = |i| {
                ((if wide(6) == 0.0 { 0.0 } else { wide(i) * (32.0 / wide(6)) }).round_ties_even() / 32.0)
                    as f32
            };
            (steps(0), steps(3))
        }
        Sampling::AffineGrid => {
            let part = |value: f64| (value * 1024.0).round_ties_even();
            let steps = |i: usize| {
                let down = f64::from(m[i + 1]) * f64::from(y) + f64::from(m[i + 2]);
                (((part(f64::from(m[i]) * f64::from(x)) + part(down) + 16.0) / 32.0).floor() / 32.0) as f32
            };
            (steps(0), steps(3))
        }
        _ => ((m[0] * x + m[1] * y + m[2]) / scale, (m[3] * x + m[4] * y + m[5]) / scale),
    };
    let border = if let BorderMode::Constant(value) = spec.border { value } else { 0.0 };
    if !(u.is_finite() && v.is_finite()) {
        return border;
    }
    let tap = |row: i64, column: i64| match (
        continued(spec.border, row, size[0]),
        continued(spec.border, column, size[1]),
    ) {
        (Some(row), Some(column)) => read(row, column),
        _ => border,
    };
    if spec.sampling == Sampling::Nearest {
        return tap(i64::from(v.round_ties_even() as i32), i64::from(u.round_ties_even() as i32));
    }
    let (row, column) = (i64::from(v.floor() as i32), i64::from(u.floor() as i32));
    let (below, right) = (v - v.floor(), u - u.floor());
    let sum = tap(row, column) * (1.0 - right) * (1.0 - below)
        + tap(row, column + 1) * right * (1.0 - below)
        + tap(row + 1, column) * (1.0 - right) * below
        + tap(row + 1, column + 1) * right * below;
    if matches!(spec.border, BorderMode::Constant(_)) && !sum.is_finite() { border } else { sum }
}

#[test]
fn warps_equal_one_pixel_at_a_time() {
    let mut random = Random(91);
    for round in 0..60 {
        let spec = WarpSpec { sampling: SAMPLINGS[round % 4], border: BORDERS[round % 5] };
        let size = [random.between(1, 9), random.between(1, 9)];
        let out_size = [random.between(1, 12), random.between(1, 12)];
        let (images, results, c) = (random.between(1, 3), random.between(1, 4), random.between(1, 40));
        let gaps = [[0; 3], [2, 1, 5]][round % 2];
        let (i, o) = (gapped(images, size, c, gaps), gapped(results, out_size, c, gaps));
        let mut matrix: Vec<f32> = (0..9 * results).map(|_| random.unit() * 2.0).collect();
        for m in matrix.chunks_exact_mut(9) {
            (m[2], m[5]) = (m[2] * 4.0, m[5] * 4.0);
            (m[6], m[7]) = (m[6] * 0.05, m[7] * 0.05);
        }
        if round % 10 == 0 {
            matrix[6..9].fill(0.0);
        }
        let image: Vec<i32> = (0..results).map(|_| random.below(images) as i32).collect();
        let floats = random.floats(i.span());
        let bytes = random.bytes(i.span());
        let signed: Vec<i8> = bytes.iter().map(|byte| byte.cast_signed()).collect();
        let mut wanted = vec![777.0_f32; o.span()];
        let (mut wanted_bytes, mut wanted_signed) = (vec![0xEE_u8; o.span()], vec![0x77_i8; o.span()]);
        for (n, h, w, c) in indices(o) {
            let from = image[n] as usize;
            let (m, to) = (&matrix[9 * n..9 * n + 9], o.offset(n, h, w) + c);
            let at = |row, column| i.offset(from, row, column) + c;
            let pixel = [h, w];
            wanted[to] = expected(&spec, m, pixel, &|row, column| floats[at(row, column)], size);
            let byte = |row, column| f32::from(bytes[at(row, column)]);
            wanted_bytes[to] = expected(&spec, m, pixel, &byte, size).round() as u8;
            let byte = |row, column| f32::from(signed[at(row, column)]);
            wanted_signed[to] = expected(&spec, m, pixel, &byte, size).round() as i8;
        }
        for isa in isas() {
            for threads in [1, 3] {
                let pool = Pool::new(threads);
                let mut y = vec![777.0; o.span()];
                warp_perspective(isa, &spec, &matrix, Some(&image), &floats, i, &mut y, o, &pool).unwrap();
                same_bits(&wanted, &y, &format!("{isa:?} {spec:?}"));
                let mut y = vec![0xEE; o.span()];
                warp_perspective(isa, &spec, &matrix, Some(&image), &bytes, i, &mut y, o, &pool).unwrap();
                assert_eq!(wanted_bytes, y, "{isa:?} {spec:?}");
                let mut y = vec![0x77; o.span()];
                warp_perspective(isa, &spec, &matrix, Some(&image), &signed, i, &mut y, o, &pool).unwrap();
                assert_eq!(wanted_signed, y, "{isa:?} {spec:?}");
            }
        }
    }
}

/// Places exactly between two pixels go to the even one, on either side of 0.
#[test]
fn nearest_of_two_is_the_even_one() {
    let (i, o) = (Nhwc::dense(1, 6, 7, 1), Nhwc::dense(1, 5, 6, 1));
    let x: Vec<f32> = (0_u8..42).map(f32::from).collect();
    for border in BORDERS {
        let spec = WarpSpec { sampling: Sampling::Nearest, border };
        for [left, top] in [[0.5, 0.0], [0.0, 0.5], [-1.5, 0.5], [1.5, -2.5], [-0.5, -0.5], [2.5, 1.5]] {
            let matrix = [1.0, 0.0, left, 0.0, 1.0, top, 0.0, 0.0, 1.0];
            let mut wanted = vec![0.0; o.span()];
            for (n, h, w, c) in indices(o) {
                // Half to even by integers, of twice the place.
                let even = |twice: i64| {
                    let down = twice.div_euclid(2);
                    down + i64::from(twice.rem_euclid(2) == 1 && down.rem_euclid(2) == 1)
                };
                let row = continued(border, even(2 * h as i64 + (2.0 * top) as i64), 6);
                let column = continued(border, even(2 * w as i64 + (2.0 * left) as i64), 7);
                let outside = if let BorderMode::Constant(value) = border { value } else { 0.0 };
                let at = row.zip(column).map(|(row, column)| x[i.offset(0, row, column)]);
                wanted[o.offset(n, h, w) + c] = at.unwrap_or(outside);
            }
            for isa in isas() {
                let mut y = vec![777.0; o.span()];
                warp_perspective(isa, &spec, &matrix, None, &x, i, &mut y, o, &Pool::new(1)).unwrap();
                same_bits(&wanted, &y, &format!("{isa:?} {spec:?} {left} {top}"));
            }
        }
    }
}

#[test]
fn misfits_are_errors() {
    let spec = WarpSpec { sampling: Sampling::Linear, border: BorderMode::Replicate };
    let pool = Pool::new(1);
    let (i, o) = (Nhwc::dense(2, 3, 3, 1), Nhwc::dense(2, 2, 2, 1));
    let run = |matrix: usize, image: Option<&[i32]>, x: usize, y: usize, i: Nhwc| {
        let (matrix, x, mut y) = (vec![1.0; matrix], vec![0.0_f32; x], vec![0.0_f32; y]);
        warp_perspective(isas()[0], &spec, &matrix, image, &x, i, &mut y, o, &pool)
    };
    run(18, None, 18, 8, i).unwrap();
    run(18, Some(&[1, 0]), 18, 8, i).unwrap();
    run(17, None, 18, 8, i).unwrap_err();
    run(18, None, 17, 8, i).unwrap_err();
    run(18, None, 18, 7, i).unwrap_err();
    run(18, Some(&[1]), 18, 8, i).unwrap_err();
    run(18, Some(&[0, 2]), 18, 8, i).unwrap_err();
    run(18, Some(&[0, -1]), 18, 8, i).unwrap_err();
    run(18, None, 18, 8, Nhwc { n: 1, ..i }).unwrap_err();
    run(18, None, 18, 8, Nhwc { h: 0, ..i }).unwrap_err();
}
