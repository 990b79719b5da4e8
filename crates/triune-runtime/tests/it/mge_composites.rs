//! Operators of MegEngine's files that become several of the graph's: files made here, numbers by naive loops.

use crate::mge_common;
use crate::mge_common::{F32, Field, File, close, noise, qs8, read, run};

const U: fn(u32) -> Field = Field::U32;
const U8: mge_common::Type = mge_common::Type(1, None);

/// Element (i, …) of an array of these extents.
fn at_index(values: &[f32], extents: &[usize], index: &[usize]) -> f32 {
    values[index.iter().zip(extents).fold(0, |flat, (index, extent)| flat * extent + index)]
}

/// Every index of some extents, in order.
fn indices(extents: &[usize]) -> Vec<Vec<usize>> {
    extents.iter().fold(vec![Vec::new()], |all, &extent| {
        all.iter().flat_map(|index| (0..extent).map(move |i| [index.as_slice(), &[i]].concat())).collect()
    })
}

fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Every product of an input and a tap, added where it belongs.
#[test]
fn transposed_convolutions_spread_their_inputs() {
    for (groups, stride, pad, dilation) in [(1, [2, 3], [1, 0], [1, 2]), (2, [1, 2], [0, 2], [2, 1])] {
        let (n, inputs, outputs, h, w, kh, kw) = (2, 4, 6, 3, 4, 3, 2);
        let x = noise(1, n * inputs * h * w);
        let own = [groups, inputs / groups, outputs / groups, kh, kw];
        let weights = noise(2, own.iter().product());
        let mut file = File::default();
        let input = file.input("x", F32, &[n, inputs, h, w]);
        let shape = if groups == 1 { &own[1..] } else { &own[..] };
        let filter = file.floats(shape, &weights);
        let [ph, pw] = pad;
        let [sh, sw] = stride;
        let [dh, dw] = dilation;
        let slots = [ph, pw, sh, sw, dh, dw];
        let mut params: Vec<_> =
            slots.iter().enumerate().map(|(slot, &value)| (slot + 1, U(value as u32))).collect();
        params.push((7, U(u32::from(groups > 1))));
        let y = file.one("ConvolutionBackwardData", (3, params), &[filter, input]);
        let outs = run(file.finish(&[y]), &[(&[n, inputs, h, w], &x)]);
        let rows = (h - 1) * sh + (kh - 1) * dh + 1 - 2 * ph;
        let columns = (w - 1) * sw + (kw - 1) * dw + 1 - 2 * pw;
        let extents = [n, outputs, rows, columns];
        let mut want = vec![0.0_f32; extents.iter().product()];
        for index in indices(&[n, groups, inputs / groups, outputs / groups, h, w, kh, kw]) {
            let [n, g, i, o, r, c, y, x_tap] = index[..] else { unreachable!() };
            let (row, column) = (r * sh + y * dh, c * sw + x_tap * dw);
            if row < ph || column < pw || row - ph >= rows || column - pw >= columns {
                continue;
            }
            let value = at_index(&x, &[2, inputs, h, w], &[n, g * (inputs / groups) + i, r, c]);
            let to = ((n * outputs + g * (outputs / groups) + o) * rows + row - ph) * columns + column - pw;
            want[to] += value * at_index(&weights, &own, &[g, i, o, y, x_tap]);
        }
        assert_eq!(outs[0].shape, extents);
        close(&outs[0].f32(), &want, 1e-5);
    }
}

/// Sums of bytes are exact, and rounded once.
#[test]
fn quantized_transposed_convolutions_round_once() {
    let (channels, h, w) = (3, 4, 5);
    let x = noise(4, channels * h * w);
    let taps: Vec<i8> = noise(5, channels * 2 * 4).iter().map(|value| (value * 100.0) as i8).collect();
    let mut file = File::default();
    let input = file.input("x", F32, &[1, channels, h, w]);
    let q = file.convert(input, qs8(0.01));
    let weights = file.constant(qs8(0.02), &[channels, 2, 2, 2], taps.iter().map(|&tap| tap as u8).collect());
    let y = file.typed("ConvolutionBackwardData", (3, vec![(3, U(2)), (4, U(2))]), &[weights, q], qs8(0.03));
    let y = file.convert(y, F32);
    let outs = run(file.finish(&[y]), &[(&[1, channels, h, w], &x)]);
    let integer = |value: f32| ((value / 0.01).round().clamp(-128.0, 127.0)) as i32;
    let want: Vec<f32> = indices(&[2, 2 * h, 2 * w])
        .iter()
        .map(|index| {
            let [o, r, c] = index[..] else { unreachable!() };
            let sum: i32 = (0..channels)
                .map(|i| {
                    let tap = taps[((i * 2 + o) * 2 + r % 2) * 2 + c % 2];
                    integer(at_index(&x, &[channels, h, w], &[i, r / 2, c / 2])) * i32::from(tap)
                })
                .sum();
            (f64::from(sum) * 0.01 * 0.02 / 0.03).round().clamp(-128.0, 127.0) as f32 * 0.03
        })
        .collect();
    close(&outs[0].f32(), &want, 1e-6);
}

#[test]
fn volumes_are_convolved() {
    let (inputs, outputs, extents, kernel) = (2, 3, [4, 5, 6], [2, 3, 2]);
    let x = noise(6, inputs * extents.iter().product::<usize>());
    let own = [outputs, inputs, kernel[0], kernel[1], kernel[2]];
    let weights = noise(7, own.iter().product());
    let mut file = File::default();
    let input = file.input("x", F32, &[1, inputs, 4, 5, 6]);
    let filter = file.floats(&own, &weights);
    // Padding 1, 0, 2; steps 2, 1, 3.
    let params = vec![(1, U(1)), (3, U(2)), (4, U(2)), (5, U(1)), (6, U(3))];
    let y = file.one("Convolution3D", (41, params), &[input, filter]);
    let outs = run(file.finish(&[y]), &[(&[1, inputs, 4, 5, 6], &x)]);
    let (pad, step) = ([1, 0, 2], [2, 1, 3]);
    let places: Vec<usize> =
        (0..3).map(|axis| (extents[axis] + 2 * pad[axis] - kernel[axis]) / step[axis] + 1).collect();
    let result = [1, outputs, places[0], places[1], places[2]];
    let want: Vec<f32> = indices(&result[1..])
        .iter()
        .map(|place| {
            indices(&own[1..])
                .iter()
                .map(|tap| {
                    let mut from = vec![tap[0]];
                    for axis in 0..3 {
                        let position = place[1 + axis] * step[axis] + tap[1 + axis];
                        if position < pad[axis] || position - pad[axis] >= extents[axis] {
                            return 0.0;
                        }
                        from.push(position - pad[axis]);
                    }
                    let weight = at_index(&weights, &own, &[&[place[0]], tap.as_slice()].concat());
                    weight * at_index(&x, &[inputs, 4, 5, 6], &from)
                })
                .sum()
        })
        .collect();
    assert_eq!(outs[0].shape, result);
    close(&outs[0].f32(), &want, 1e-5);
}

/// Windows taken apart, and what is put together of them again: each element as often as windows have it.
#[test]
fn windows_are_taken_apart_and_put_together() {
    let (h, w, pad, step, dilation, kernel) = (5, 7, [1, 2], [2, 1], [1, 2], [3, 2]);
    let x = noise(8, 2 * h * w);
    let slots = |first: usize| {
        let values = [pad, step, dilation, kernel].concat();
        values.into_iter().enumerate().map(move |(slot, value)| (first + slot, U(value as u32)))
    };
    let mut file = File::default();
    let input = file.input("x", F32, &[1, 2, h, w]);
    let apart = file.one("Images2Neibs", (8, slots(0).collect()), &[input]);
    let more = [(0, U(h as u32)), (1, U(w as u32))].into_iter().chain(slots(2)).collect();
    let back = file.one("SlidingWindowTranspose", (81, more), &[apart]);
    let outs = run(file.finish(&[apart, back]), &[(&[1, 2, h, w], &x)]);
    let places = [(h + 2 * pad[0] - 3) / 2 + 1, w + 2 * pad[1] - 3 + 1];
    let extents = [1, 2, places[0], places[1], kernel[0], kernel[1]];
    let mut sums = vec![0.0; x.len()];
    let want: Vec<f32> = indices(&extents)
        .iter()
        .map(|index| {
            let position = |axis: usize| index[2 + axis] * step[axis] + index[4 + axis] * dilation[axis];
            let (row, column) = (position(0), position(1));
            if row < pad[0] || column < pad[1] || row - pad[0] >= h || column - pad[1] >= w {
                return 0.0;
            }
            let from = (index[1] * h + row - pad[0]) * w + column - pad[1];
            sums[from] += x[from];
            x[from]
        })
        .collect();
    assert_eq!(outs[0].shape, extents);
    assert_eq!(outs[0].f32(), want);
    close(&outs[1].f32(), &sums, 1e-6);
}

#[test]
fn weights_may_differ_from_place_to_place() {
    let (groups, inputs, outputs, h, w, rows, columns) = (2, 2, 3, 4, 5, 4, 4);
    let x = noise(9, groups * inputs * h * w);
    let own = [groups, rows, columns, inputs, 3, 2, outputs];
    let weights = noise(10, own.iter().product());
    let mut file = File::default();
    let input = file.input("x", F32, &[1, groups * inputs, h, w]);
    let filter = file.floats(&own, &weights);
    let y = file.one("GroupLocalV2", (3, vec![(1, U(1))]), &[input, filter]);
    let outs = run(file.finish(&[y]), &[(&[1, groups * inputs, h, w], &x)]);
    let want: Vec<f32> = indices(&[groups, outputs, rows, columns])
        .iter()
        .map(|place| {
            let [g, o, r, c] = place[..] else { unreachable!() };
            indices(&[inputs, 3, 2])
                .iter()
                .map(|tap| {
                    let row = r + tap[1];
                    if row == 0 || row > h {
                        return 0.0;
                    }
                    let value =
                        at_index(&x, &[groups * inputs, h, w], &[g * inputs + tap[0], row - 1, c + tap[2]]);
                    value * at_index(&weights, &own, &[g, r, c, tap[0], tap[1], tap[2], o])
                })
                .sum()
        })
        .collect();
    assert_eq!(outs[0].shape, [1, groups * outputs, rows, columns]);
    close(&outs[0].f32(), &want, 1e-5);
}

/// Mean and deviation of what `of` calls one.
fn normalized(x: &[f32], of: impl Fn(usize) -> usize, epsilon: f64) -> Vec<f32> {
    (0..x.len())
        .map(|own| {
            let alike: Vec<f64> =
                (0..x.len()).filter(|&other| of(other) == of(own)).map(|other| x[other].into()).collect();
            let mean = alike.iter().sum::<f64>() / alike.len() as f64;
            let variance = alike.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / alike.len() as f64;
            ((f64::from(x[own]) - mean) / (variance + epsilon).sqrt()) as f32
        })
        .collect()
}

#[test]
fn statistics_normalize() {
    let extents = [2, 6, 3, 4];
    let x = noise(11, 144);
    let (scale, bias) = (noise(12, 6), noise(13, 6));
    let mut file = File::default();
    let input = file.input("x", F32, &extents);
    let [weight, offset] = [&scale, &bias].map(|values| file.floats(&[6], values));
    let groups = (92, vec![(1, Field::F32(0.01)), (2, U(3))]);
    let group = file.many("GroupNorm", groups, &[input, weight, offset], 3);
    let instance = file.many("InstanceNorm", (92, vec![(1, Field::F32(0.01))]), &[input, weight, offset], 3);
    let last = (85, vec![(0, Field::U8(0)), (1, Field::F32(0.01)), (2, Field::U64(2)), (3, Field::U64(12))]);
    let layer = file.many("LayerNorm", last, &[input], 3);
    let inner = (94, vec![(1, Field::F32(0.01)), (2, Field::U64(1)), (3, Field::U64(3))]);
    let [weight, offset] = [14, 15].map(|seed| file.floats(&[6, 3], &noise(seed, 18)));
    let general = file.many("GeneralNorm", inner, &[input, weight, offset], 3);
    let outs = run(
        file.finish(&[group[0], instance[0], layer[0], general[0], layer[1], group[1], general[2]]),
        &[(&extents, &x)],
    );
    let channel = |flat: usize| flat / 12 % 6;
    let scaled = |values: Vec<f32>| -> Vec<f32> {
        values.iter().enumerate().map(|(at, x)| x * scale[channel(at)] + bias[channel(at)]).collect()
    };
    close(&outs[0].f32(), &scaled(normalized(&x, |at| at / 24, 0.01)), 1e-5);
    close(&outs[1].f32(), &scaled(normalized(&x, |at| at / 12, 0.01)), 1e-5);
    close(&outs[2].f32(), &normalized(&x, |at| at / 12, 0.01), 1e-5);
    let (scale, bias) = (noise(14, 18), noise(15, 18));
    let want: Vec<f32> = normalized(&x, |at| at / 72 * 4 + at % 4, 0.01)
        .iter()
        .enumerate()
        .map(|(at, x)| x * scale[at / 4 % 18] + bias[at / 4 % 18])
        .collect();
    close(&outs[3].f32(), &want, 1e-5);
    let shapes: Vec<&[usize]> = outs[4..].iter().map(|out| out.shape.as_slice()).collect();
    assert_eq!(shapes, [&[2, 6][..], &[2, 3], &[2, 4]]);
    let means: Vec<f32> = x.chunks(12).map(|row| row.iter().sum::<f32>() / 12.0).collect();
    close(&outs[4].f32(), &means, 1e-5);
}

#[test]
fn responses_are_normalized_by_neighbours() {
    let x = noise(16, 7 * 6);
    let mut file = File::default();
    let input = file.input("x", F32, &[1, 7, 2, 3]);
    let params = vec![(0, U(3)), (1, Field::F32(1.5)), (2, Field::F32(0.3)), (3, Field::F32(0.6))];
    let y = file.one("LRN", (10, params), &[input]);
    let outs = run(file.finish(&[y]), &[(&[1, 7, 2, 3], &x)]);
    let want: Vec<f32> = (0..42)
        .map(|own| {
            let around =
                (0..42_usize).filter(|other| other % 6 == own % 6 && (other / 6).abs_diff(own / 6) <= 1);
            let sum: f32 = around.map(|other| x[other] * x[other]).sum();
            x[own] / (1.5 + 0.3 * sum).powf(0.6)
        })
        .collect();
    close(&outs[0].f32(), &want, 1e-5);
}

/// A description of one axis: begin, end, step and index are operands where the flags are set.
fn item(axis: i8, flags: [u8; 4]) -> Vec<u8> {
    [&[axis as u8][..], &flags].concat()
}

fn description(items: &[Vec<u8>]) -> (u8, mge_common::Table) {
    (66, vec![(0, Field::Vector(items.len(), 1, items.concat()))])
}

#[test]
fn elements_are_put_where_an_index_says() {
    let x = noise(17, 24);
    let mut file = File::default();
    let input = file.input("x", F32, &[4, 6]);
    let [minus_one, minus_six, minus_two, one] = [-1, -6, -2, 1].map(|value| file.ints(&[value]));
    let few = file.floats(&[2, 1], &[7.0, 8.0]);
    // x[1:3, -1:-6:-2], backwards.
    let part = description(&[item(0, [1, 1, 0, 0]), item(1, [1, 1, 1, 0])]);
    let three = file.ints(&[3]);
    let put =
        file.one("SetSubtensor", part.clone(), &[input, few, one, three, minus_one, minus_six, minus_two]);
    let added = file.one("IncrSubtensor", part, &[input, few, one, three, minus_one, minus_six, minus_two]);
    let (rows, columns) = (file.ints(&[3, 0, 3]), file.ints(&[1, 5, -1]));
    let values = file.floats(&[3], &[1.0, 2.0, 3.0]);
    let both = description(&[item(0, [0, 0, 0, 1]), item(1, [0, 0, 0, 1])]);
    let many = file.one("IndexingSetMultiAxisVec", both, &[input, values, rows, columns]);
    let picked = file.ints(&[5, 0, 3, 2]);
    let hot = file.one("IndexingOneHot", (2, vec![(0, U(1))]), &[input, picked]);
    let ones = file.floats(&[4, 1], &[1.0, 2.0, 3.0, 4.0]);
    let set = file.one("IndexingSetOneHot", (2, vec![(0, U(1))]), &[input, picked, ones]);
    let outs = run(file.finish(&[put, added, many, hot, set]), &[(&[4, 6], &x)]);
    let (mut put, mut added, mut many, mut set) = (x.clone(), x.clone(), x.clone(), x.clone());
    for (row, value) in [(1, 7.0), (2, 8.0)] {
        for column in [5, 3, 1] {
            put[row * 6 + column] = value;
            added[row * 6 + column] += value;
        }
    }
    for (row, column, value) in [(3, 1, 1.0), (0, 5, 2.0), (3, 5, 3.0)] {
        many[row * 6 + column] = value;
    }
    let picked = [5, 0, 3, 2];
    for (row, column) in picked.into_iter().enumerate() {
        set[row * 6 + column] = row as f32 + 1.0;
    }
    let hot: Vec<f32> = picked.iter().enumerate().map(|(row, column)| x[row * 6 + column]).collect();
    for (out, want) in outs.iter().zip([put, added, many, hot, set]) {
        assert_eq!(out.f32(), want);
    }
    assert_eq!(outs[3].shape, [4, 1]);
}

#[test]
fn parts_diagonals_and_series() {
    let x = noise(18, 12);
    let mut file = File::default();
    let input = file.input("x", F32, &[3, 4]);
    let (one, three) = (file.ints(&[1]), file.ints(&[3]));
    let parts = file.many("Split", (2, vec![(0, U(1))]), &[input, one, three], 2);
    let above = file.one("Diag", (91, vec![(0, U(1))]), &[input]);
    let below = file.one("Diag", (91, vec![(0, U(-1_i32 as u32))]), &[above]);
    let (start, stop, count) = (file.floats(&[1], &[-1.0]), file.floats(&[1], &[2.0]), file.ints(&[4]));
    let series = file.one("Linspace", (29, vec![(0, Field::U8(0))]), &[start, stop, count]);
    let whole = file.one("Linspace", (29, Vec::new()), &[start, stop, count]);
    let extents = file.ints(&[2, 3]);
    let eye = file.one("Eye", (31, vec![(0, U(1)), (1, Field::U8(4))]), &[extents]);
    let sums = file.one("CumsumV1", (24, vec![(0, U(1)), (1, Field::U8(0)), (2, Field::U8(1))]), &[input]);
    let before = file.one("CumsumV1", (24, vec![(0, U(0))]), &[input]);
    let outs = run(
        file.finish(&[parts[0], parts[1], above, below, series, whole, eye, sums, before]),
        &[(&[3, 4], &x)],
    );
    assert_eq!(outs[0].f32(), [x[0], x[4], x[8]]);
    assert_eq!(outs[1].f32(), [&x[1..4], &x[5..8], &x[9..12]].concat());
    assert_eq!(outs[2].f32(), [x[1], x[6], x[11]]);
    let mut square = vec![0.0; 16];
    (square[4], square[9], square[14]) = (x[1], x[6], x[11]);
    assert_eq!((outs[3].shape.as_slice(), outs[3].f32()), (&[4, 4][..], square));
    close(&outs[4].f32(), &[-1.0, -0.25, 0.5, 1.25], 1e-6);
    close(&outs[5].f32(), &[-1.0, 0.0, 1.0, 2.0], 1e-6);
    assert_eq!(outs[6].i32(), [0, 1, 0, 0, 0, 1]);
    let want: Vec<f32> = (0..12).map(|own| x[own..own / 4 * 4 + 4].iter().rev().sum()).collect();
    close(&outs[7].f32(), &want, 1e-6);
    let want: Vec<f32> = (0..12).map(|own| (0..own / 4).map(|row| x[row * 4 + own % 4]).sum()).collect();
    close(&outs[8].f32(), &want, 1e-6);
}

/// Two rows and columns around a place, weighed by how near they are; 0 outside.
fn sampled(plane: &[f32], [h, w]: [usize; 2], row: f32, column: f32) -> f32 {
    let mut sum = 0.0;
    for (y, below) in
        [(row.floor(), 1.0 - row.fract().rem_euclid(1.0)), (row.floor() + 1.0, row - row.floor())]
    {
        for (x, right) in [
            (column.floor(), 1.0 - (column - column.floor())),
            (column.floor() + 1.0, column - column.floor()),
        ] {
            if y >= 0.0 && x >= 0.0 && (y as usize) < h && (x as usize) < w {
                let below = if y == row.floor() { 1.0 - (row - row.floor()) } else { below };
                sum += below * right * plane[y as usize * w + x as usize];
            }
        }
    }
    sum
}

#[test]
fn images_are_taken_by_maps_and_boxes() {
    let (n, c, h, w) = (2, 3, 5, 6);
    let x = noise(19, n * c * h * w);
    let map: Vec<f32> = noise(20, n * 4 * 2).iter().map(|value| value * 5.0 + 2.0).collect();
    let boxes = [1.0, -1.0, 0.5, 3.0, 4.0, 0.0, 2.0, 1.0, 1.0, 3.5];
    let mut file = File::default();
    let input = file.input("x", F32, &[n, c, h, w]);
    let places = file.floats(&[n, 2, 2, 2], &map);
    let params = vec![(1, U(4)), (2, U(0))];
    let remapped = file.one("RemapV1", (68, params), &[input, places]);
    let rois = file.floats(&[2, 5], &boxes);
    let params = vec![
        (0, U(1)),
        (2, Field::F32(0.5)),
        (3, Field::F32(0.25)),
        (4, U(2)),
        (5, U(3)),
        (6, U(2)),
        (7, U(1)),
    ];
    let aligned = file.many("ROIAlignV1", (48, params), &[input, rois], 2);
    let grid = file.ints(&[2, 2]);
    let pooled = file.many("ROIPooling", (12, vec![(1, Field::F32(1.0))]), &[input, rois, grid], 2);
    let outs = run(file.finish(&[remapped, aligned[0], pooled[0]]), &[(&[n, c, h, w], &x)]);
    let plane = |image: usize, channel: usize| &x[(image * c + channel) * h * w..][..h * w];
    let want: Vec<f32> = indices(&[n, c, 4])
        .iter()
        .map(|index| {
            let place = &map[(index[0] * 4 + index[2]) * 2..][..2];
            sampled(plane(index[0], index[1]), [h, w], place[1], place[0])
        })
        .collect();
    close(&outs[0].f32(), &want, 1e-5);
    let want: Vec<f32> = indices(&[2, c, 2, 3])
        .iter()
        .map(|index| {
            let own = &boxes[index[0] * 5..][..5];
            let edge = |at: usize| own[at] * 0.5 - 0.25;
            let (tall, wide) = ((edge(4) - edge(2)).max(0.0) / 2.0, (edge(3) - edge(1)).max(0.0) / 3.0);
            let mean: f32 = [0.25, 0.75]
                .iter()
                .map(|down| {
                    let row = edge(2) + tall * (index[2] as f32 + down);
                    let column = edge(1) + wide * (index[3] as f32 + 0.5);
                    sampled(plane(own[0] as usize, index[1]), [h, w], row, column)
                })
                .sum();
            mean / 2.0
        })
        .collect();
    assert_eq!(outs[1].shape, [2, c, 2, 3]);
    close(&outs[1].f32(), &want, 1e-5);
    let want: Vec<f32> = indices(&[2, c, 2, 2])
        .iter()
        .map(|index| {
            let own: Vec<i64> = boxes[index[0] * 5..][..5].iter().map(|edge| edge.round() as i64).collect();
            let range = |low: i64, high: i64, cell: usize, extent: usize| {
                let size = (high - low + 1).max(1) as f32 / 2.0;
                let from = (size * cell as f32).floor() as i64 + low;
                let to = (size * (cell + 1) as f32).ceil() as i64 + low;
                from.clamp(0, extent as i64) as usize..to.clamp(0, extent as i64) as usize
            };
            let mut largest = f32::NEG_INFINITY;
            for row in range(own[2], own[4], index[2], h) {
                for column in range(own[1], own[3], index[3], w) {
                    largest = largest.max(plane(own[0] as usize, index[1])[row * w + column]);
                }
            }
            if largest == f32::NEG_INFINITY { 0.0 } else { largest }
        })
        .collect();
    close(&outs[2].f32(), &want, 1e-6);
}

/// Layers in both directions against the steps of their cells, one by one.
#[test]
fn layers_are_cells_over_time() {
    let (steps, batch, inputs, hidden) = (3, 2, 4, 3);
    let x = noise(21, steps * batch * inputs);
    let rows = 4 * hidden;
    let count = |width: usize| rows * (width + hidden + 2);
    let weights = noise(22, 2 * count(inputs) + 2 * count(2 * hidden));
    let states = noise(23, 2 * 4 * batch * hidden);
    let mut file = File::default();
    let input = file.input("x", F32, &[steps, batch, inputs]);
    let (h, c) = states.split_at(4 * batch * hidden);
    let [h0, c0] = [h, c].map(|values| file.floats(&[4, batch, hidden], values));
    let all = file.floats(&[weights.len()], &weights);
    let params = vec![(0, U(2)), (1, Field::U8(1)), (2, Field::U8(1)), (3, U(hidden as u32))];
    let outs = file.many("LSTMForward", (89, params), &[input, h0, c0, all], 4);
    let outs = run(file.finish(&outs[..3]), &[(&[steps, batch, inputs], &x)]);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let (mut sequence, mut width, mut from) = (x, inputs, 0);
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for layer in 0..2 {
        let mut next = vec![0.0; steps * batch * 2 * hidden];
        for direction in 0..2 {
            let own = &weights[from..from + count(width)];
            from += count(width);
            let (own_x, rest) = own.split_at(rows * width);
            let (own_h, rest) = rest.split_at(rows * hidden);
            let (bias, other) = rest.split_at(rows);
            let state = (layer * 2 + direction) * batch * hidden;
            let (mut h, mut c) =
                (h[state..][..batch * hidden].to_vec(), c[state..][..batch * hidden].to_vec());
            for step in 0..steps {
                let step = if direction == 0 { step } else { steps - 1 - step };
                let before = h.clone();
                for (b, unit) in (0..batch).flat_map(|b| (0..hidden).map(move |unit| (b, unit))) {
                    let gate = |gate: usize| {
                        let row = gate * hidden + unit;
                        let x = &sequence[(step * batch + b) * width..][..width];
                        let sum: f32 = x.iter().zip(&own_x[row * width..]).map(|(x, w)| x * w).sum();
                        let state = &before[b * hidden..][..hidden];
                        let other_sum: f32 =
                            state.iter().zip(&own_h[row * hidden..]).map(|(h, w)| h * w).sum();
                        sum + other_sum + bias[row] + other[row]
                    };
                    let at = b * hidden + unit;
                    c[at] = sigmoid(gate(1)) * c[at] + sigmoid(gate(0)) * gate(2).tanh();
                    h[at] = sigmoid(gate(3)) * c[at].tanh();
                    next[(step * batch + b) * 2 * hidden + direction * hidden + unit] = h[at];
                }
            }
            last_h.extend(h);
            last_c.extend(c);
        }
        (sequence, width) = (next, 2 * hidden);
    }
    assert_eq!(outs[0].shape, [steps, batch, 2 * hidden]);
    close(&outs[0].f32(), &sequence, 1e-5);
    close(&outs[1].f32(), &last_h, 1e-5);
    close(&outs[2].f32(), &last_c, 1e-5);
}

/// One step of a cell, and of an LSTM's.
#[test]
fn cells_take_one_step() {
    let (batch, inputs, hidden) = (2, 3, 2);
    let x = noise(24, batch * inputs);
    let mut file = File::default();
    let input = file.input("x", F32, &[batch, inputs]);
    let (own, state) = (noise(25, 8 * inputs), noise(26, 8 * hidden));
    let (bias, other, h, c) = (noise(27, 8), noise(28, 8), noise(29, 4), noise(30, 4));
    let operands = |file: &mut File, rows: usize| {
        [
            file.floats(&[rows, inputs], &own[..rows * inputs]),
            file.floats(&[rows], &bias[..rows]),
            file.floats(&[batch, hidden], &h),
            file.floats(&[rows, hidden], &state[..rows * hidden]),
            file.floats(&[rows], &other[..rows]),
        ]
    };
    let small = operands(&mut file, hidden);
    let simple = file.one("RNNCellForward", (87, vec![(0, U(1))]), &[&[input], &small[..]].concat());
    let large = operands(&mut file, 4 * hidden);
    let memory = file.floats(&[batch, hidden], &c);
    let lstm = file.many("LSTMCellForward", (1, Vec::new()), &[&[input], &large[..], &[memory]].concat(), 3);
    let outs = run(file.finish(&[simple, lstm[0], lstm[1]]), &[(&[batch, inputs], &x)]);
    let sum = |b: usize, row: usize| {
        let x: f32 = (0..inputs).map(|i| x[b * inputs + i] * own[row * inputs + i]).sum();
        let h: f32 = (0..hidden).map(|i| h[b * hidden + i] * state[row * hidden + i]).sum();
        x + h + bias[row] + other[row]
    };
    let pairs = [(0, 0), (0, 1), (1, 0), (1, 1)];
    close(&outs[0].f32(), &pairs.map(|(b, unit)| sum(b, unit).max(0.0)), 1e-5);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let memory = pairs.map(|(b, unit)| {
        sigmoid(sum(b, 2 + unit)) * c[b * 2 + unit] + sigmoid(sum(b, unit)) * sum(b, 4 + unit).tanh()
    });
    let shown = pairs.map(|(b, unit)| sigmoid(sum(b, 6 + unit)) * memory[b * 2 + unit].tanh());
    close(&outs[1].f32(), &shown, 1e-5);
    close(&outs[2].f32(), &memory, 1e-5);
}

/// Bytes in fixed point of 14 bits, half up.
#[test]
fn colors_are_converted_in_fixed_point() {
    let pixels: Vec<u8> = (0..12).map(|at| (at * 67 + 13) as u8).collect();
    let mut file = File::default();
    let image = file.constant(U8, &[1, 2, 2, 3], pixels.clone());
    let planes = file.constant(U8, &[1, 3, 4, 1], pixels.clone());
    let convert =
        |file: &mut File, mode: u32, image: u32| file.one("CvtColor", (37, vec![(0, U(mode))]), &[image]);
    let modes = [(0, image), (8, image), (1, image), (2, image), (7, image), (11, planes), (27, planes)];
    let all: Vec<u32> = modes.iter().map(|&(mode, image)| convert(&mut file, mode, image)).collect();
    let outs = run(file.finish(&all), &[]);
    let rgb = |at: usize| [0, 1, 2].map(|channel| i32::from(pixels[at * 3 + channel]));
    let gray = |[r, g, b]: [i32; 3]| (r * 4899 + g * 9617 + b * 1868 + 8192) >> 14;
    let byte = |value: i32| value.clamp(0, 255) as u8;
    let each = |of: &dyn Fn([i32; 3]) -> Vec<u8>| (0..4).flat_map(|at| of(rgb(at))).collect::<Vec<u8>>();
    assert_eq!(outs[0].bytes, each(&|color| vec![byte(gray(color))]));
    assert_eq!(outs[1].bytes, each(&|[b, g, r]| vec![byte(gray([r, g, b]))]));
    let yuv = |[a, b, c]: [i32; 3]| {
        let y = gray([c, b, a]);
        let chroma = |value: i32, share: i32| byte(((value - y) * share + (128 << 14) + 8192) >> 14);
        vec![byte(y), chroma(a, 8061), chroma(c, 14369)]
    };
    assert_eq!(outs[2].bytes, each(&yuv));
    let back = |[y, u, v]: [i32; 3]| {
        let (u, v) = (u - 128, v - 128);
        let part = |sum: i32| byte(y + ((sum + 8192) >> 14));
        vec![part(u * 33292), part(v * -9519 + u * -6472), part(v * 18678)]
    };
    assert_eq!(outs[3].bytes, each(&back));
    assert_eq!(outs[4].bytes, each(&|[r, g, b]| vec![byte(b), byte(g), byte(r)]));
    // Two rows of luma, then a row of pairs: V and U of NV21, U and V of NV12.
    let pair = |column: usize| (i32::from(pixels[8 + column / 2 * 2]), i32::from(pixels[9 + column / 2 * 2]));
    let nv21: Vec<u8> = (0..8)
        .flat_map(|at| {
            let (v, u) = pair(at % 4);
            let (y, v, u) = (i32::from(pixels[at]), v - 128, u - 128);
            [y + ((359 * v) >> 8), y - ((88 * u + 183 * v) >> 8), y + ((454 * u) >> 8)].map(byte)
        })
        .collect();
    assert_eq!(outs[5].bytes, nv21);
    let nv12: Vec<u8> = (0..8)
        .flat_map(|at| {
            let (u, v) = pair(at % 4);
            let luma = ((i64::from(pixels[at]) * 257 * 18997) >> 16) as i32 - 1160;
            let blue = (luma - 128 * 128 + 128 * u) >> 6;
            let green = (luma + (25 + 52) * 128 - 25 * u - 52 * v) >> 6;
            let red = (luma - 102 * 128 + 102 * v) >> 6;
            [blue, green, red].map(byte)
        })
        .collect();
    assert_eq!(outs[6].bytes, nv12);
}

/// Answers are bools; a function of integers that all mean the same is one of theirs.
#[test]
fn comparisons_powers_and_bytes() {
    let x = [-1.5, 0.0, 2.0, f32::NAN, f32::INFINITY, 0.5];
    let mut file = File::default();
    let input = file.input("x", F32, &[6]);
    let other = file.floats(&[6], &[-1.5, 1.0, 2.0, 0.0, 1.0, 0.25]);
    let modes = [58, 59, 60, 61];
    let ask = |file: &mut File, mode: u32, operands: &[u32]| {
        file.one("ElemwiseMultiType", (18, vec![(0, U(mode))]), operands)
    };
    let mut results: Vec<u32> = modes.iter().map(|&mode| ask(&mut file, mode, &[input, other])).collect();
    results.extend([62, 63].map(|mode| ask(&mut file, mode, &[input])));
    results
        .extend([2.0, -1.0, 3.0].map(|power| file.one("PowC", (19, vec![(0, Field::F32(power))]), &[input])));
    let left = file.constant(mge_common::Type(2, None), &[2, 3], vec![1, 2, 3, 0x80, 0x7f, 0]);
    let right = file.constant(mge_common::Type(2, None), &[3, 1], vec![0x80, 5, 0xff]);
    results.push(file.one("MatrixMulV2", (20, Vec::new()), &[left, right]));
    let [a, b] = [[1, -2], [3, 4]].map(|values| file.constant(mge_common::qs32(0.5), &[2], bytes(&values)));
    let sum = file.one("Elemwise", (17, vec![(0, U(16))]), &[a, b]);
    results.push(file.convert(sum, F32));
    let total = file.ints(&[1]);
    results.push(file.one("ReduceV2", (23, Vec::new()), &[right, total]));
    let outs = run(file.finish(&results), &[(&[6], &x)]);
    for (index, want) in [
        [1, 0, 1, 0, 0, 0],
        [0, 1, 0, 1, 1, 1],
        [0, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(outs[index].bytes, want, "mode {}", 58 + index);
    }
    let finite = |at: usize| [0, 2, 5].map(|element| outs[at].f32()[element]);
    assert_eq!(finite(6), [2.25, 4.0, 0.25]);
    assert_eq!(finite(7), [1.0 / -1.5, 0.5, 2.0]);
    close(&finite(8), &[-3.375, 8.0, 0.125], 1e-6);
    assert_eq!(outs[9].i32(), [-128 + 10 - 3, 16384 + 635]);
    assert_eq!(outs[10].f32(), [2.0, 1.0]);
    assert_eq!((outs[11].shape.as_slice(), outs[11].bytes.as_slice()), (&[1][..], &[0x84][..]));
}

#[test]
fn pixels_are_turned_and_cut() {
    let x: Vec<f32> = (0..12).map(|at| at as f32).collect();
    let mut file = File::default();
    let input = file.input("x", F32, &[1, 2, 3, 2]);
    let across = file.one("Flip", (34, vec![(1, Field::U8(1))]), &[input]);
    let both = file.one("Flip", (34, vec![(0, Field::U8(1)), (1, Field::U8(1))]), &[input]);
    let clockwise = file.one("Rotate", (35, Vec::new()), &[input]);
    let back = file.one("Rotate", (35, vec![(0, Field::U8(0))]), &[clockwise]);
    let part = file.one("ROICopy", (36, vec![(0, U(1)), (1, U(2)), (3, U(2))]), &[input]);
    let outs = run(file.finish(&[across, both, clockwise, back, part]), &[(&[1, 2, 3, 2], &x)]);
    let pixels =
        |order: &[usize]| -> Vec<f32> { order.iter().flat_map(|&at| [x[2 * at], x[2 * at + 1]]).collect() };
    assert_eq!(outs[0].f32(), pixels(&[2, 1, 0, 5, 4, 3]));
    assert_eq!(outs[1].f32(), pixels(&[5, 4, 3, 2, 1, 0]));
    assert_eq!((outs[2].shape.as_slice(), outs[2].f32()), (&[1, 3, 2, 2][..], pixels(&[3, 0, 4, 1, 5, 2])));
    assert_eq!(outs[3].f32(), x);
    assert_eq!((outs[4].shape.as_slice(), outs[4].f32()), (&[1, 1, 2, 2][..], pixels(&[3, 4])));
}

#[test]
fn quantizers_that_stay_in_reals_and_choices() {
    let x = [-1.25, -0.25, 0.0, 0.375, 3.0, 100.0];
    let mut file = File::default();
    let input = file.input("x", F32, &[6]);
    let (scale, zero_point) = (file.floats(&[1], &[0.5]), file.floats(&[1], &[1.0]));
    let limits = || vec![(0, U(-4_i32 as u32)), (1, U(7))];
    let fake = file.one("FakeQuant", (73, limits()), &[input, scale, zero_point]);
    let learned = file.one("LSQ", (76, limits()), &[input, scale, zero_point, scale]);
    let exponent = file.floats(&[1], &[-1.5]);
    let trained = file.one("TQT", (74, limits()), &[input, exponent]);
    let other = file.floats(&[6], &[9.0; 6]);
    let mask = file.one("ElemwiseMultiType", (18, vec![(0, U(60))]), &[input, scale]);
    let chosen = file.one("Where", (1, Vec::new()), &[mask, input, other]);
    let product = file.one("Dot", (1, Vec::new()), &[input, other]);
    let where_not = file.one("NonZero", (1, Vec::new()), &[input]);
    let outs = run(file.finish(&[fake, learned, trained, chosen, product, where_not]), &[(&[6], &x)]);
    // Halves go away from zero: -2.5 to -3, -0.5 to -1.
    assert_eq!(outs[0].f32(), [-1.5, -0.5, 0.0, 0.5, 3.0, 3.0]);
    // Here they go after the zero point: -1.5 to -2, 0.5 to 1, 1.75 to 2.
    assert_eq!(outs[1].f32(), [-1.5, 0.0, 0.0, 0.5, 3.0, 3.0]);
    // Steps of 2⁻¹.
    assert_eq!(outs[2].f32(), [-1.5, -0.5, 0.0, 0.5, 3.0, 3.5]);
    assert_eq!(outs[3].f32(), [-1.25, -0.25, 0.0, 0.375, 9.0, 9.0]);
    close(&outs[4].f32(), &[9.0 * x.iter().sum::<f32>()], 1e-6);
    assert_eq!((outs[5].shape.as_slice(), outs[5].i32()), (&[1, 5][..], vec![0, 1, 3, 4, 5]));
}

/// Taps beside their places, in two groups of channels that move together.
#[test]
fn taps_stand_beside_their_places() {
    let (n, channels, outputs, h, w, kh, kw, sets, groups) = (2, 4, 6, 5, 6, 3, 2, 2, 2);
    let (pad, stride, dilation) = ([1, 2], [2, 1], [1, 2]);
    let places = [(h + 2 - 3) / 2 + 1, w + 4 - 3 + 1];
    let taps = kh * kw;
    let x = noise(31, n * channels * h * w);
    let own = [groups, outputs / groups, channels / groups, kh, kw];
    let weights = noise(32, own.iter().product());
    let area = places[0] * places[1];
    let offsets: Vec<f32> = noise(33, n * sets * taps * 2 * area).iter().map(|offset| offset * 2.0).collect();
    let factors = noise(34, n * sets * taps * area);
    let mut file = File::default();
    let input = file.input("x", F32, &[n, channels, h, w]);
    let filter = file.floats(&own, &weights);
    let beside = file.floats(&[n, sets * taps * 2, places[0], places[1]], &offsets);
    let counts = file.floats(&[n, sets * taps, places[0], places[1]], &factors);
    let slots = [pad, stride, dilation].concat();
    let mut params: Vec<_> =
        slots.iter().enumerate().map(|(slot, &value)| (slot + 1, U(value as u32))).collect();
    params.push((7, U(1)));
    let y = file.one("DeformableConvForward", (3, params), &[input, filter, beside, counts]);
    let outs = run(file.finish(&[y]), &[(&[n, channels, h, w], &x)]);
    let want: Vec<f32> = indices(&[n, groups, outputs / groups, places[0], places[1]])
        .iter()
        .map(|place| {
            let [image, group, output, row, column] = place[..] else { unreachable!() };
            indices(&[channels / groups, kh, kw])
                .iter()
                .map(|tap| {
                    let channel = group * (channels / groups) + tap[0];
                    let set = channel / (channels / sets);
                    let which = (image * sets + set) * taps + tap[1] * kw + tap[2];
                    let at = row * places[1] + column;
                    let beside = |axis: usize| offsets[(which * 2 + axis) * area + at];
                    let y = (row * stride[0] + tap[1] * dilation[0]) as f32 - pad[0] as f32 + beside(0);
                    let x_at = (column * stride[1] + tap[2] * dilation[1]) as f32 - pad[1] as f32 + beside(1);
                    let plane = &x[(image * channels + channel) * h * w..][..h * w];
                    let weight = at_index(&weights, &own, &[group, output, tap[0], tap[1], tap[2]]);
                    weight * factors[which * area + at] * sampled(plane, [h, w], y, x_at)
                })
                .sum()
        })
        .collect();
    assert_eq!(outs[0].shape, [n, outputs, places[0], places[1]]);
    close(&outs[0].f32(), &want, 1e-4);
}

/// A small file does not become operators without number.
#[test]
fn composites_have_a_budget() {
    let mut file = File::default();
    let input = file.input("x", F32, &[1, 1, 32, 32]);
    let params = || (8, vec![(6, U(32)), (7, U(32))]);
    let all: Vec<u32> = (0..50).map(|_| file.one("Images2Neibs", params(), &[input])).collect();
    let error = read(file.finish(&all)).expect_err("too many operators");
    assert!(error.contains("composite operators become") && error.contains("Images2Neibs"), "{error}");
}

/// Of a matrix whose singular values and inverse are plain: a diagonal whose rows change places.
#[test]
fn inverses_and_singular_values_come_of_files() {
    let x = [0.0, -4.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 2.0];
    let mut file = File::default();
    let input = file.input("x", F32, &[3, 3]);
    let inverse = file.one("MatrixInverse", (63, Vec::new()), &[input]);
    let parts = file.many("SVD", (63, Vec::new()), &[input], 3);
    let outs = run(file.finish(&[inverse, parts[1]]), &[(&[3, 3], &x)]);
    assert_eq!(outs[0].f32(), [0.0, 2.0, 0.0, -0.25, 0.0, 0.0, 0.0, 0.0, 0.5]);
    assert_eq!((outs[1].shape.as_slice(), outs[1].f32()), (&[3][..], vec![4.0, 2.0, 0.5]));
}
