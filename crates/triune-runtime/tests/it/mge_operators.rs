//! Operators of MegEngine's files that none of the real models has: files made here, numbers by naive loops.

use crate::mge_common;
use crate::mge_common::{F32, Field, File, I32, Type, close, noise, qs8, qs32, read, run};
use triune_graph::Op;

const U: fn(u32) -> Field = Field::U32;

fn convolution_params(format: u32, grouped: bool, activation: u32, pad: u32) -> (u8, mge_common::Table) {
    let group = u32::from(grouped);
    (6, vec![(0, U(activation)), (2, U(group)), (3, U(format)), (4, U(pad)), (5, U(pad))])
}

/// (1, C, H, W) ∗ (O, I/groups, K, K) with padding K/2 and a bias.
fn naive(
    x: &[f32],
    [c, h, w]: [usize; 3],
    weights: &[f32],
    o: usize,
    groups: usize,
    k: usize,
    bias: &[f32],
) -> Vec<f32> {
    let (inputs, outputs, pad) = (c / groups, o / groups, k / 2);
    let mut y = Vec::new();
    for out in 0..o {
        for row in 0..h {
            for column in 0..w {
                let mut sum = f64::from(bias[out]);
                for input in 0..inputs {
                    for dy in 0..k {
                        for dx in 0..k {
                            let (r, s) = (row + dy, column + dx);
                            if r < pad || s < pad || r - pad >= h || s - pad >= w {
                                continue;
                            }
                            let channel = out / outputs * inputs + input;
                            let at = (channel * h + r - pad) * w + s - pad;
                            let weight = weights[((out * inputs + input) * k + dy) * k + dx];
                            sum += f64::from(x[at]) * f64::from(weight);
                        }
                    }
                }
                y.push(sum as f32);
            }
        }
    }
    y
}

/// How the element (g, o, i, y, x) of a group's weights stands in a format: extents, and the place.
type Place = fn([usize; 5], [usize; 5]) -> (Vec<usize>, Vec<usize>);

fn packed(weights: &[f32], extents: [usize; 5], place: Place) -> (Vec<usize>, Vec<f32>) {
    let [groups, outputs, inputs, rows, columns] = extents;
    let (shape, _) = place(extents, [0; 5]);
    let mut out = vec![f32::NAN; shape.iter().product()];
    let mut values = weights.iter();
    for g in 0..groups {
        for o in 0..outputs {
            for i in 0..inputs {
                for y in 0..rows {
                    for x in 0..columns {
                        let (_, at) = place(extents, [g, o, i, y, x]);
                        let flat = at.iter().zip(&shape).fold(0, |flat, (at, extent)| flat * extent + at);
                        out[flat] = *values.next().expect("as many weights");
                    }
                }
            }
        }
    }
    assert!(out.iter().all(|value| !value.is_nan()));
    (shape, out)
}

/// A convolution in a blocked format between relayouts from and to planes, against planes.
fn blocked(format: u32, block: usize, [to, from]: [u32; 2], [c, o, groups]: [usize; 3], place: Place) {
    let (h, w, k) = (5, 4, 3);
    let x = noise(3, c * h * w);
    let weights = noise(4, o * c / groups * k * k);
    let bias = noise(5, o);
    let mut file = File::default();
    let input = file.input("x", F32, &[1, c, h, w]);
    let image = file.one("RelayoutFormatV1", (45, vec![(0, U(to))]), &[input]);
    let (shape, values) = packed(&weights, [groups, o / groups, c / groups, k, k], place);
    let own = file.floats(&shape, &values);
    let row = file.floats(&[1, o / block, 1, 1, block], &bias);
    let y = file.one("ConvBiasForward", convolution_params(format, groups > 1, 1, 1), &[image, own, row]);
    // An operator that works element by element keeps blocks: half of it.
    let half = file.floats(&[1], &[0.5]);
    let y = file.one("Elemwise", (17, vec![(0, U(21))]), &[y, half]);
    let result = file.one("RelayoutFormatV1", (45, vec![(0, U(from))]), &[y]);
    let bytes = file.finish(&[result, y]);
    let graph = read(bytes.clone()).unwrap().graph;
    let moves = graph.nodes.iter().filter(|node| matches!(node.op, Op::Transpose(_))).count();
    assert_eq!(moves, 1, "only the result in blocks is moved");
    let outputs = run(bytes, &[(&[1, c, h, w], &x)]);
    let mut want = naive(&x, [c, h, w], &weights, o, groups, k, &bias);
    for value in &mut want {
        *value = 0.5 * value.max(0.0);
    }
    assert_eq!(outputs[0].shape, [1, o, h, w]);
    close(&outputs[0].f32(), &want, 1e-5);
    assert_eq!(outputs[1].shape, [1, o / block, h, w, block]);
    let planes = |at: usize| {
        let (inner, pixel, outer) = (at % block, at / block % (h * w), at / block / (h * w));
        want[(outer * block + inner) * h * w + pixel]
    };
    let want: Vec<f32> = (0..want.len()).map(planes).collect();
    close(&outputs[1].f32(), &want, 1e-5);
}

#[test]
fn convolutions_in_blocks_are_those_of_planes() {
    // NCHW88: dense, grouped, one channel per group.
    blocked(6, 8, [20, 21], [16, 8, 1], |[_, o, i, h, w], [_, oc, ic, y, x]| {
        (vec![o / 8, i / 8, h, w, 8, 8], vec![oc / 8, ic / 8, y, x, ic % 8, oc % 8])
    });
    blocked(6, 8, [20, 21], [16, 32, 2], |[g, o, i, h, w], [gc, oc, ic, y, x]| {
        (vec![g, o / 8, i / 8, h, w, 8, 8], vec![gc, oc / 8, ic / 8, y, x, ic % 8, oc % 8])
    });
    blocked(6, 8, [20, 21], [16, 16, 16], |[g, _, _, h, w], [gc, _, _, y, x]| {
        (vec![g / 8, 1, 1, h, w, 8], vec![gc / 8, 0, 0, y, x, gc % 8])
    });
    // NCHW44 and NCHW44_DOT.
    blocked(7, 4, [24, 25], [8, 4, 1], |[_, o, i, h, w], [_, oc, ic, y, x]| {
        (vec![o / 4, i / 4, h, w, 4, 4], vec![oc / 4, ic / 4, y, x, ic % 4, oc % 4])
    });
    blocked(8, 4, [24, 25], [8, 4, 1], |[_, o, i, h, w], [_, oc, ic, y, x]| {
        (vec![o / 4, i / 4, h, w, 4, 4], vec![oc / 4, ic / 4, y, x, oc % 4, ic % 4])
    });
    // NCHW4: dense, grouped.
    blocked(3, 4, [24, 25], [8, 4, 1], |[_, o, i, h, w], [_, oc, ic, y, x]| {
        (vec![o, i / 4, h, w, 4], vec![oc, ic / 4, y, x, ic % 4])
    });
    blocked(3, 4, [24, 25], [8, 8, 2], |[g, o, i, h, w], [gc, oc, ic, y, x]| {
        (vec![g, o, i / 4, h, w, 4], vec![gc, oc, ic / 4, y, x, ic % 4])
    });
}

/// The first convolution of a blocked network: three channels in planes.
#[test]
fn a_blocked_convolution_takes_planes() {
    let (c, o, h, w) = (3, 8, 4, 4);
    let (x, weights, bias) = (noise(1, c * h * w), noise(2, o * c * 9), vec![0.0; o]);
    let mut file = File::default();
    let input = file.input("x", F32, &[1, c, h, w]);
    let (shape, values) = packed(&weights, [1, o, c, 3, 3], |[_, o, i, h, w], [_, oc, ic, y, x]| {
        (vec![o / 8, h, w, i, 8], vec![oc / 8, y, x, ic, oc % 8])
    });
    let own = file.floats(&shape, &values);
    let y = file.one("ConvBiasForward", convolution_params(6, false, 0, 1), &[input, own]);
    let pool = (9, vec![(0, U(0)), (3, U(2)), (4, U(2)), (5, U(2)), (6, U(2)), (7, U(6))]);
    let y = file.one("PoolingV1", pool, &[y]);
    let y = file.one("RelayoutFormatV1", (45, vec![(0, U(21))]), &[y]);
    let outputs = run(file.finish(&[y]), &[(&[1, c, h, w], &x)]);
    let full = naive(&x, [c, h, w], &weights, o, 1, 3, &bias);
    let mut want = Vec::new();
    for channel in 0..o {
        for row in 0..2 {
            for column in 0..2 {
                let at = |dy: usize, dx: usize| full[(channel * h + 2 * row + dy) * w + 2 * column + dx];
                want.push(at(0, 0).max(at(0, 1)).max(at(1, 0)).max(at(1, 1)));
            }
        }
    }
    close(&outputs[0].f32(), &want, 1e-5);
}

#[test]
fn convolutions_of_pixels_are_those_of_planes() {
    for groups in [1, 2] {
        let (c, o, h, w) = (4, 6, 4, 5);
        let (x, weights, bias) = (noise(1, c * h * w), noise(2, o * c / groups * 9), noise(3, o));
        let mut file = File::default();
        let input = file.input("x", F32, &[1, h, w, c]);
        let (shape, values) = packed(
            &weights,
            [groups, o / groups, c / groups, 3, 3],
            |[g, o, i, h, w], [gc, oc, ic, y, x]| {
                let (mut shape, mut at) = (vec![g, o, h, w, i], vec![gc, oc, y, x, ic]);
                if g == 1 {
                    (shape, at) = (shape.split_off(1), at.split_off(1));
                }
                (shape, at)
            },
        );
        let own = file.floats(&shape, &values);
        let row = file.floats(&[1, 1, 1, o], &bias);
        let y = file.one("ConvBiasForward", convolution_params(1, groups > 1, 0, 1), &[input, own, row]);
        let pixels: Vec<f32> = (0..x.len()).map(|at| x[at % c * h * w + at / c]).collect();
        let outputs = run(file.finish(&[y]), &[(&[1, h, w, c], &pixels)]);
        let want = naive(&x, [c, h, w], &weights, o, groups, 3, &bias);
        let want: Vec<f32> = (0..want.len()).map(|at| want[at % o * h * w + at / o]).collect();
        assert_eq!(outputs[0].shape, [1, h, w, o]);
        close(&outputs[0].f32(), &want, 1e-5);
    }
}

/// Weights that the file itself puts into blocks, and channels that do not fill one.
#[test]
fn relayouts_fill_and_empty_blocks() {
    let (c, h, w) = (3, 2, 2);
    let x = noise(1, c * h * w);
    let weights = noise(2, 4 * c * 9);
    let mut file = File::default();
    let input = file.input("x", F32, &[1, c, h, w]);
    let image = file.one("RelayoutFormatV1", (45, vec![(0, U(22))]), &[input]);
    let own = file.floats(&[4, c, 3, 3], &weights);
    let own = file.one("RelayoutFormatV1", (45, vec![(0, U(23))]), &[own]);
    let y = file.one("ConvBiasForward", convolution_params(3, false, 0, 1), &[image, own]);
    let y = file.one("RelayoutFormatV1", (45, vec![(0, U(25)), (1, U(3))]), &[y]);
    let outputs = run(file.finish(&[y, image]), &[(&[1, c, h, w], &x)]);
    let want = naive(&x, [c, h, w], &weights, 4, 1, 3, &[0.0; 4]);
    assert_eq!(outputs[0].shape, [1, 3, h, w]);
    close(&outputs[0].f32(), &want[..3 * h * w], 1e-5);
    assert_eq!(outputs[1].shape, [1, 1, h, w, 4]);
    let filled = |at: usize| x.get(at % 4 * h * w + at / 4).copied().unwrap_or(0.0);
    assert_eq!(outputs[1].f32(), (0..16).map(filled).collect::<Vec<_>>());
}

/// What works element by element between something in blocks and something that is not has the axes of the file, in which their
/// extents meet.
#[test]
fn blocks_meet_other_extents() {
    let (c, h, w, block) = (8, 3, 2, 4);
    let x = noise(1, c * h * w);
    // The same elements, (1, C/b, H, W, b).
    let own: Vec<f32> = (0..c * h * w)
        .map(|at| {
            let (inner, pixel, outer) = (at % block, at / block % (h * w), at / block / (h * w));
            x[(outer * block + inner) * h * w + pixel]
        })
        .collect();
    let extents = [1, c / block, h, w, block];
    for shape in [
        &[1, 2, 3, 2, 4][..],
        &[1, 2, 1, 1, 4],
        &[1, 1, 3, 2, 4],
        &[1, 2, 3, 2, 1],
        &[1, 1, 3, 1, 1],
        &[2, 1, 1, 4],
        &[3, 1, 1],
        &[4],
        &[1],
        &[1, 1, 1, 1, 1],
    ] {
        let factors = noise(2, shape.iter().product());
        let mut file = File::default();
        let input = file.input("x", F32, &[1, c, h, w]);
        let image = file.one("RelayoutFormatV1", (45, vec![(0, U(24))]), &[input]);
        let other = file.floats(shape, &factors);
        let y = file.one("Elemwise", (17, vec![(0, U(21))]), &[image, other]);
        let output = &run(file.finish(&[y]), &[(&[1, c, h, w], &x)])[0];
        assert_eq!(output.shape, extents, "{shape:?}");
        let factor = |mut at: usize| {
            let (mut flat, mut step) = (0, 1);
            for axis in (0..5).rev() {
                let place = at % extents[axis];
                at /= extents[axis];
                let Some(own) = (axis + shape.len()).checked_sub(5).map(|axis| shape[axis]) else { continue };
                flat += if own == 1 { 0 } else { place * step };
                step *= own;
            }
            factors[flat]
        };
        let want: Vec<f32> = own.iter().enumerate().map(|(at, x)| x * factor(at)).collect();
        assert_eq!(output.f32(), want, "{shape:?}");
    }
}

#[test]
fn formats_that_are_not_read_are_named() {
    let mut file = File::default();
    let x = file.input("x", F32, &[1, 4, 1, 4, 4]);
    let own = file.floats(&[1, 3, 3, 4, 4], &[0.0; 144]);
    let y = file.one("ConvBiasForward", convolution_params(2, false, 0, 1), &[x, own]);
    let error = read(file.finish(&[y])).unwrap_err();
    assert!(error.contains("NHWCD4") && error.contains("ConvBiasForward_2"), "{error}");
    let mut file = File::default();
    let x = file.input("x", F32, &[1]);
    let y = file.one("Svd", (1, Vec::new()), &[x]);
    let error = read(file.finish(&[y])).unwrap_err();
    assert!(error.contains("Svd_1"), "{error}");
}

/// Extents that do not make whole blocks, or blocks of another extent than the format's.
#[test]
fn blocks_that_are_not_whole_are_named() {
    let relayout = |shape: &[usize], mode: u32, more: &[(usize, u32)]| {
        let mut file = File::default();
        let x = file.input("x", F32, shape);
        let fields = [(0, mode)].iter().chain(more).map(|&(slot, value)| (slot, U(value))).collect();
        let y = file.one("RelayoutFormatV1", (45, fields), &[x]);
        read(file.finish(&[y])).map(|_| ())
    };
    // Mode, extents that fit, others that do not: from blocks of 8 and 4, weights into blocks.
    for (mode, fits, wrong) in [
        (21, &[1, 2, 3, 4, 8][..], &[&[1, 2, 3, 4, 4][..], &[1, 16, 3, 4], &[1, 2, 3, 4, 16]][..]),
        (25, &[1, 2, 3, 4, 4], &[&[1, 2, 3, 4, 8], &[1, 8, 3, 4]]),
        (28, &[1, 2, 3, 4, 64], &[&[1, 2, 3, 4, 32]]),
        (17, &[16, 8, 3, 3], &[&[16, 4, 3, 3], &[12, 8, 3, 3], &[2, 16, 8, 3, 3]]),
        (18, &[16, 1, 1, 3, 3], &[&[12, 1, 1, 3, 3], &[16, 2, 1, 3, 3], &[16, 1, 2, 3, 3]]),
        (19, &[2, 16, 8, 3, 3], &[&[2, 16, 4, 3, 3], &[2, 12, 8, 3, 3], &[16, 8, 3, 3]]),
        (23, &[6, 3, 3, 3], &[&[3, 3, 3], &[2, 2, 6, 3, 3, 3]]),
    ] {
        assert_eq!(relayout(fits, mode, &[]), Ok(()), "{mode}: {fits:?}");
        for shape in wrong {
            let error = relayout(shape, mode, &[]).expect_err("no whole blocks");
            assert!(error.contains("RelayoutFormatV1"), "{mode}: {shape:?}: {error}");
        }
    }
    // Groups of channels fill blocks each; planes are not taken from groups.
    assert_eq!(relayout(&[1, 16, 3, 4], 20, &[(2, 2)]), Ok(()));
    let error = relayout(&[1, 12, 3, 4], 20, &[(2, 2)]).expect_err("groups of six");
    assert!(error.contains("groups of channels"), "{error}");
    let error = relayout(&[1, 2, 3, 4, 8], 21, &[(1, 12), (2, 2)]).expect_err("planes of groups");
    assert!(error.contains("taken from groups"), "{error}");
    assert!(relayout(&[1, 16, 3, 4], 99, &[]).expect_err("no such mode").contains("mode 99"));
}

fn quantize(x: f32, scale: f32) -> f32 {
    // Rust rounds half away from zero.
    (x / scale).round().clamp(-128.0, 127.0) * scale
}

#[test]
fn quantized_convolutions_add_and_activate_in_reals() {
    let (c, o, h, w) = (4, 4, 4, 4);
    let (sx, sw, sz, sy) = (0.02, 0.01, 0.05, 0.03);
    let x: Vec<f32> = noise(1, c * h * w).into_iter().map(|x| quantize(x, sx)).collect();
    let z: Vec<f32> = noise(2, o * h * w).into_iter().map(|z| quantize(4.0 * z, sz)).collect();
    let integers: Vec<i8> = noise(3, o * c * 9).into_iter().map(|w| (w * 100.0) as i8).collect();
    let bias: Vec<i32> = noise(4, o).into_iter().map(|b| (b * 3000.0) as i32).collect();
    for (activation, with_z) in [(0, true), (1, true), (3, true), (3, false), (2, false)] {
        let mut file = File::default();
        let inputs = [file.input("x", F32, &[1, c, h, w]), file.input("z", F32, &[1, o, h, w])];
        let image = file.convert(inputs[0], qs8(sx));
        let addend = file.convert(inputs[1], qs8(sz));
        let own = file.constant(qs8(sw), &[o, c, 3, 3], integers.iter().map(|&w| w as u8).collect());
        let row = bias.iter().flat_map(|b| b.to_le_bytes()).collect();
        let row = file.constant(qs32(sx * sw), &[1, o, 1, 1], row);
        let operands = if with_z { vec![image, own, row, addend] } else { vec![image, own, row] };
        let y =
            file.typed("ConvBiasForward", convolution_params(0, false, activation, 1), &operands, qs8(sy));
        let y = file.convert(y, F32);
        let outputs = run(file.finish(&[y]), &[(&[1, c, h, w], &x), (&[1, o, h, w], &z)]);
        let weights: Vec<f32> = integers.iter().map(|&w| f32::from(w) * sw).collect();
        let reals: Vec<f32> = bias.iter().map(|&b| b as f32 * sx * sw).collect();
        let sums = naive(&x, [c, h, w], &weights, o, 1, 3, &reals);
        for (index, got) in outputs[0].f32().into_iter().enumerate() {
            let sum = sums[index] + if with_z { z[index] } else { 0.0 };
            let real = match activation {
                0 => sum,
                1 => sum.max(0.0),
                2 => 1.0 / (1.0 + (-sum).exp()),
                _ => sum * (sum + 3.0).clamp(0.0, 6.0) / 6.0,
            };
            // Half a step, and what a sum in another order may do to a tie.
            let exact = (real / sy).clamp(-128.0, 127.0) * sy;
            assert!((got - exact).abs() <= 0.5001 * sy, "{activation} {with_z} {index}: {got}, not {exact}");
        }
    }
}

/// A function of one or two reals.
type Function = fn(f32, f32) -> f32;

#[test]
fn quantized_functions_round_once() {
    let (sa, sb, sy) = (0.05, 0.02, 0.04);
    let a: Vec<f32> = noise(1, 64).into_iter().map(|a| quantize(3.0 * a, sa)).collect();
    let b: Vec<f32> = noise(2, 64).into_iter().map(|b| quantize(2.0 * b, sb)).collect();
    let cases: [(u32, bool, Function); 9] = [
        (6, true, |a, b| a + b),
        (7, true, |a, b| (a + b).max(0.0)),
        (8, true, |a, b| a * b),
        (9, true, f32::min),
        (11, true, |a, b| a - b),
        (14, true, |a, b| (a + b).tanh()),
        (16, false, |a, _| a.abs()),
        (17, false, |a, _| 1.0 / (1.0 + (-a).exp())),
        (51, false, |a, _| a * (a + 3.0).clamp(0.0, 6.0) / 6.0),
    ];
    for (mode, binary, function) in cases {
        let mut file = File::default();
        let inputs = [file.input("a", F32, &[64]), file.input("b", F32, &[64])];
        let (left, right) = (file.convert(inputs[0], qs8(sa)), file.convert(inputs[1], qs8(sb)));
        let operands = if binary { vec![left, right] } else { vec![left] };
        let y = file.typed("ElemwiseMultiType", (18, vec![(0, U(mode))]), &operands, qs8(sy));
        let y = file.convert(y, F32);
        let outputs = run(file.finish(&[y, right]), &[(&[64], &a), (&[64], &b)]);
        for (index, got) in outputs[0].f32().into_iter().enumerate() {
            let exact = (function(a[index], b[index]) / sy).clamp(-128.0, 127.0) * sy;
            assert!((got - exact).abs() <= 0.5001 * sy, "mode {mode} {index}: {got}, not {exact}");
        }
    }
    // To 32 bits, and a function of plain types.
    let mut file = File::default();
    let input = file.input("a", F32, &[64]);
    let left = file.convert(input, qs8(sa));
    let wide = file.typed("ElemwiseMultiType", (18, vec![(0, U(6))]), &[left, left], qs32(0.001));
    let small = file.convert(input, Type(3, None));
    let y = file.typed("ElemwiseMultiType", (18, vec![(0, U(55))]), &[small, input], F32);
    let outputs = run(file.finish(&[wide, y]), &[(&[64], &a)]);
    let want: Vec<i32> = a.iter().map(|&a| (2.0 * a / 0.001).round() as i32).collect();
    for (got, want) in outputs[0].i32().into_iter().zip(want) {
        assert!((got - want).abs() <= 1, "{got}, not {want}");
    }
    close(&outputs[1].f32(), &a.iter().map(|&a| a.trunc() * a).collect::<Vec<_>>(), 1e-6);
}

#[test]
fn adaptive_pools_take_equal_windows() {
    let (c, h, w) = (3, 7, 6);
    let x = noise(1, c * h * w);
    for kind in ["AdaptivePooling", "AdaptivePoolingV1"] {
        let mut file = File::default();
        let input = file.input("x", F32, &[1, c, h, w]);
        let size = file.ints(&[3, 2]);
        let y = file.one(kind, (70, vec![(0, U(2))]), &[input, size]);
        let outputs = run(file.finish(&[y]), &[(&[1, c, h, w], &x)]);
        // Steps ⌊7/3⌋ = 2 and 6/2 = 3, windows 7 − 2·2 = 3 and 6 − 1·3 = 3.
        let mut want = Vec::new();
        for channel in 0..c {
            for row in 0..3 {
                for column in 0..2 {
                    let window =
                        (0..9).map(|at| x[(channel * h + 2 * row + at / 3) * w + 3 * column + at % 3]);
                    want.push(window.sum::<f32>() / 9.0);
                }
            }
        }
        assert_eq!(outputs[0].shape, [1, c, 3, 2]);
        close(&outputs[0].f32(), &want, 1e-5);
    }
}

/// Rows with equal elements among them.
fn rows() -> Vec<f32> {
    // No −0, which is another place in the order that is asked for below.
    noise(1, 24).into_iter().map(|x| (x * 4.0).round() + 0.0).collect()
}

fn sorted(x: &[f32], largest: bool) -> Vec<(f32, i32)> {
    let mut row: Vec<(f32, i32)> = x.iter().copied().zip(0..).collect();
    row.sort_by(|a, b| if largest { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
    row
}

#[test]
fn rows_are_put_in_order() {
    let x = rows();
    for largest in [false, true] {
        let mut file = File::default();
        let input = file.input("x", F32, &[3, 8]);
        let results = file.many("Argsort", (26, vec![(0, U(u32::from(largest)))]), &[input], 2);
        let outputs = run(file.finish(&results), &[(&[3, 8], &x)]);
        let want: Vec<(f32, i32)> = x.chunks(8).flat_map(|row| sorted(row, largest)).collect();
        assert_eq!(outputs[0].f32(), want.iter().map(|(x, _)| *x + 0.0).collect::<Vec<_>>());
        assert_eq!(outputs[1].i32(), want.iter().map(|(_, at)| *at).collect::<Vec<_>>());
    }
}

#[test]
fn the_first_of_rows_are_taken() {
    let x = rows();
    for k in [1, 3, -3, -20] {
        let mut file = File::default();
        let input = file.input("x", F32, &[3, 8]);
        let count = file.ints(&[k]);
        let results = file.many("TopK", (44, vec![(0, U(2))]), &[input, count], 2);
        let last = file.one("TopK", (44, Vec::new()), &[input, count]);
        let outputs = run(file.finish(&[results[0], results[1], last]), &[(&[3, 8], &x)]);
        let count = (k.unsigned_abs() as usize).min(8);
        let want: Vec<Vec<(f32, i32)>> =
            x.chunks(8).map(|row| sorted(row, k < 0)[..count].to_vec()).collect();
        assert_eq!(outputs[0].shape, [3, count]);
        assert_eq!(outputs[0].f32(), want.iter().flatten().map(|(x, _)| *x).collect::<Vec<_>>());
        assert_eq!(outputs[1].i32(), want.iter().flatten().map(|(_, at)| *at).collect::<Vec<_>>());
        assert_eq!(outputs[2].shape, [3]);
        assert_eq!(outputs[2].f32(), want.iter().map(|row| row[count - 1].0).collect::<Vec<_>>());
    }
}

/// `x[:, [2, 0], 1:, [1, 3]]`, whose indices come first as they are not neighbours, and `x[[1, 0], [2, 2]]`.
#[test]
fn elements_are_picked_by_several_indices() {
    let dims = [2, 3, 4, 5];
    let x = noise(1, 120);
    let mut file = File::default();
    let input = file.input("x", F32, &dims);
    let operands = [&[2, 0][..], &[1], &[1, 3]].map(|values| file.ints(values));
    let items = vec![1, 0, 0, 0, 1, 2, 1, 0, 0, 0, 3, 0, 0, 0, 1];
    let params = (66, vec![(0, Field::Vector(3, 1, items))]);
    let inputs = [&[input][..], &operands].concat();
    let first = file.one("IndexingMultiAxisVec", params, &inputs);
    let operands = [&[1, 0][..], &[-1, 2]].map(|values| file.ints(values));
    let items = vec![0, 0, 0, 0, 1, 1, 0, 0, 0, 1];
    let params = (66, vec![(0, Field::Vector(2, 1, items))]);
    let inputs = [&[input][..], &operands].concat();
    let second = file.one("IndexingMultiAxisVec", params, &inputs);
    let outputs = run(file.finish(&[first, second]), &[(&dims, &x)]);
    let at = |a: usize, b: usize, c: usize, d: usize| x[((a * 3 + b) * 4 + c) * 5 + d];
    let mut want = Vec::new();
    for (b, d) in [(2, 1), (0, 3)] {
        for a in 0..2 {
            want.extend((1..4).map(|c| at(a, b, c, d)));
        }
    }
    assert_eq!((outputs[0].shape.as_slice(), outputs[0].f32()), (&[2, 2, 3][..], want));
    let want: Vec<f32> = [1, 0]
        .iter()
        .flat_map(|&a| (0..20).map(move |at| (a, at)))
        .map(|(a, i)| x[(a * 3 + 2) * 20 + i])
        .collect();
    assert_eq!((outputs[1].shape.as_slice(), outputs[1].f32()), (&[2, 4, 5][..], want));
}

/// The elements above 0 and twice of them, from a network whose extents depend on its data.
#[test]
fn elements_that_meet_a_condition_are_taken() {
    let x = noise(1, 30);
    let mut file = File::default();
    let input = file.input("x", F32, &[5, 6]);
    let taken = file.many("CondTake", (25, vec![(0, U(4)), (1, Field::F32(0.25))]), &[input, input], 2);
    let two = file.floats(&[1], &[2.0]);
    let twice = file.one("Elemwise", (17, vec![(0, U(21))]), &[taken[0], two]);
    let outputs = run(file.finish(&[twice, taken[1]]), &[(&[5, 6], &x)]);
    let want: Vec<(f32, i32)> = x.iter().copied().zip(0..).filter(|(x, _)| *x > 0.25).collect();
    assert!(want.len() > 3 && want.len() < 30);
    assert_eq!(outputs[0].f32(), want.iter().map(|(x, _)| 2.0 * x).collect::<Vec<_>>());
    assert_eq!(outputs[1].i32(), want.iter().map(|(_, at)| *at).collect::<Vec<_>>());
}

#[test]
fn boxes_that_overlap_are_dropped() {
    let boxes = [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0, 1.9, 3.0, 3.0, 4.0, 4.0, 3.0, 3.0, 4.0, 4.1];
    let mut file = File::default();
    let input = file.input("x", F32, &[1, 4, 4]);
    let params = (69, vec![(0, Field::F32(0.5)), (1, U(3))]);
    let results = file.many("NMSKeep", params, &[input], 2);
    let outputs = run(file.finish(&results), &[(&[1, 4, 4], &boxes)]);
    assert_eq!((outputs[0].shape.as_slice(), outputs[0].i32()), (&[1, 3][..], vec![0, 2, 2]));
    assert_eq!((outputs[1].shape.as_slice(), outputs[1].i32()), (&[1][..], vec![2]));
}

/// A shift by whole pixels, with the image that each result is taken from.
#[test]
fn warps_take_images_by_index() {
    let x: Vec<f32> = (0..32).map(|x| x as f32).collect();
    let mut file = File::default();
    let input = file.input("x", F32, &[2, 1, 4, 4]);
    let shift = [1.0, 0.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0];
    let matrices = file.floats(&[3, 3, 3], &[shift, shift, shift].concat());
    let (indices, size) = (file.ints(&[1, 0, 1]), file.ints(&[2, 4]));
    let params = (13, vec![(1, U(4)), (3, Field::F32(-1.0))]);
    let y = file.one("WarpPerspectiveV2", params, &[input, matrices, indices, size]);
    let outputs = run(file.finish(&[y]), &[(&[2, 1, 4, 4], &x)]);
    let image = |image: usize| {
        (0..8).map(
            move |at| if at % 4 == 3 { -1.0 } else { (image * 16 + (at / 4 + 2) * 4 + at % 4 + 1) as f32 },
        )
    };
    let want: Vec<f32> = image(1).chain(image(0)).chain(image(1)).collect();
    assert_eq!(outputs[0].shape, [3, 1, 2, 4]);
    close(&outputs[0].f32(), &want, 1e-6);
}

/// Of integers the rest has the divisor's sign; of floats, the dividend's.
#[test]
fn rests_of_divisions() {
    let (a, b) = ([-13, 13, -13, 13, 12, -7, 0, 5], [3, 3, -3, -3, 4, 7, 5, 8]);
    let bytes = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = File::default();
    let [x, y] = [a, b].map(|values| file.constant(I32, &[8], bytes(&values)));
    let input = file.input("x", F32, &[8]);
    let divisors = file.floats(&[8], &b.map(|value| value as f32));
    let integers = file.one("Elemwise", (17, vec![(0, U(20))]), &[x, y]);
    let floats = file.one("Elemwise", (17, vec![(0, U(20))]), &[input, divisors]);
    let outputs = run(file.finish(&[integers, floats]), &[(&[8], &a.map(|value| value as f32))]);
    assert_eq!(outputs[0].i32(), [2, 1, -1, -2, 0, 0, 0, 5]);
    assert_eq!(outputs[1].f32(), [-1.0, 1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 5.0]);
}
