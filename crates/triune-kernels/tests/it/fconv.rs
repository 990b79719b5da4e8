//! The float convolution and product on every instruction set, against loop nests that define them to the bit.

use std::sync::Arc;

use crate::common::{gapped, indices, isas, same_bits};
use triune_kernels::{
    ConvGeometry, ConvMethod, Error, FConv, FConvSpec, FMatMul, Filter, Isa, MatMulSpec, Nhwc, PackedFilter,
    Planes, Pool,
};
use triune_tensor::function::UnaryKind;
use triune_testing::Random;

struct Case {
    geometry: ConvGeometry,
    batch: usize,
    size: [usize; 2],
    channels: [usize; 2],
    bias: bool,
    residual: bool,
    activation: UnaryKind,
    gaps: [usize; 3],
}

/// The definition: one output at a time, fused multiply-adds from 0 in k order.
fn oracle(
    case: &Case,
    x: &[f32],
    map: Nhwc,
    weights: &[f32],
    n: usize,
    oh: usize,
    ow: usize,
    o: usize,
) -> f32 {
    let g = &case.geometry;
    let (group_in, group_out) = (case.channels[0] / g.groups, case.channels[1] / g.groups);
    let group = o / group_out;
    let mut sum = 0.0f32;
    for kh in 0..g.kernel[0] {
        for kw in 0..g.kernel[1] {
            for i in 0..group_in {
                let h = (oh * g.stride[0] + kh * g.dilation[0]).wrapping_sub(g.pad[0]);
                let w = (ow * g.stride[1] + kw * g.dilation[1]).wrapping_sub(g.pad[1]);
                let value =
                    if h < map.h && w < map.w { x[map.offset(n, h, w) + group * group_in + i] } else { 0.0 };
                let weight = weights[((o * g.kernel[0] + kh) * g.kernel[1] + kw) * group_in + i];
                sum = value.mul_add(weight, sum);
            }
        }
    }
    sum
}

fn check(case: &Case, seed: u64) {
    let mut random = Random(seed | 1);
    let g = case.geometry;
    let [ci, co] = case.channels;
    let Some(out) = g.output(case.size[0], case.size[1]) else { return };
    let in_map = gapped(case.batch, case.size, ci, case.gaps);
    let out_map = gapped(case.batch, out, co, [case.gaps[1], case.gaps[2], case.gaps[0]]);
    let mut x = random.floats(in_map.span());
    if seed.is_multiple_of(5) {
        let at = random.below(x.len());
        x[at] = f32::NAN;
    }
    // The same in planes.
    let [h, w] = case.size;
    let (stride_h, stride_c) = (w + case.gaps[0], (h + case.gaps[1]) * (w + case.gaps[0]) + case.gaps[2]);
    let planes = Planes { n: case.batch, c: ci, h, w, stride_n: ci * stride_c + 1, stride_c, stride_h };
    let mut turned_x = vec![555.0; planes.span()];
    for (n, h, w, c) in indices(in_map) {
        let at = n * planes.stride_n + c * planes.stride_c + h * planes.stride_h + w;
        turned_x[at] = x[in_map.offset(n, h, w) + c];
    }
    let weights = random.floats(co * g.kernel[0] * g.kernel[1] * (ci / g.groups));
    let bias = random.floats(co);
    let residual = random.floats(out_map.span());

    let mut expected = vec![777.0f32; out_map.span()];
    for (n, h, w, c) in indices(out_map) {
        let at = out_map.offset(n, h, w) + c;
        let mut y = oracle(case, &x, in_map, &weights, n, h, w, c) + if case.bias { bias[c] } else { 0.0 };
        if case.residual {
            y += residual[at];
        }
        expected[at] = match case.activation {
            // NaN passes.
            UnaryKind::Relu if y < 0.0 => 0.0,
            UnaryKind::Clip([low, high]) => y.clamp(low, high),
            _ => y,
        };
    }
    let functional = !matches!(case.activation, UnaryKind::Identity | UnaryKind::Relu | UnaryKind::Clip(_));
    if functional {
        // The function itself is tested elsewhere; here it must be applied once, to every element and nothing else.
        let (mut flat, map) = (vec![0.0; expected.len()], Nhwc::dense(1, 1, expected.len(), 1));
        triune_kernels::unary(Isa::Scalar, case.activation, &expected, map, &mut flat, map, &Pool::new(1))
            .unwrap();
        for (n, h, w, c) in indices(out_map) {
            let at = out_map.offset(n, h, w) + c;
            expected[at] = flat[at];
        }
    }

    let spec = FConvSpec {
        geometry: g,
        in_channels: ci,
        out_channels: co,
        bias: case.bias.then_some(&bias),
        residual: case.residual,
        activation: case.activation,
    };
    let taps = g.kernel[0] * g.kernel[1];
    let dense: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let filter = Filter::dense(&dense, co, taps, ci / g.groups);
    // The same weights with taps innermost, behind a byte that spoils their alignment.
    let other: Vec<u8> = (0..weights.len())
        .map(|at| {
            let (channel, input, tap) = (at / (ci / g.groups * taps), at / taps % (ci / g.groups), at % taps);
            weights[(channel * taps + tap) * (ci / g.groups) + input]
        })
        .flat_map(f32::to_le_bytes)
        .collect();
    let shifted = [&[0xA5], other.as_slice()].concat();
    let strides = [ci / g.groups * taps, 1, taps];
    let inner_taps = Filter { bytes: &shifted[1..], strides, ..filter };
    // The same with channels innermost, rows of them a gap apart, as a matrix has them that is a part of a larger one.
    let (inputs, row) = (ci / g.groups, co + 3);
    let mut turned = vec![0xA5_u8; 4 * taps * inputs * row];
    for (at, weight) in weights.iter().enumerate() {
        let (channel, within) = (at / (taps * inputs), at % (taps * inputs));
        turned[4 * (within * row + channel)..][..4].copy_from_slice(&weight.to_le_bytes());
    }
    let outermost = Filter { bytes: &turned, strides: [1, inputs * row, row], ..filter };
    // And with every other value of no weight, so that a panel's are all over the place.
    let spread: Vec<u8> =
        weights.iter().flat_map(|weight| [weight.to_le_bytes(), [0xA5; 4]].concat()).collect();
    let apart = Filter { bytes: &spread, strides: filter.strides.map(|stride| 2 * stride), ..filter };
    let filters = [&filter, &inner_taps, &outermost, &apart].map(|filter| [(filter, false), (filter, true)]);
    let forms = filters.as_flattened();
    for (isa, &(filter, is_read)) in
        isas().into_iter().flat_map(|isa| forms.iter().map(move |form| (isa, form)))
    {
        let packed = if is_read {
            let mut most = 0;
            let mut read = |from: usize, to: &mut [u8]| {
                assert!(to.iter().all(|&byte| byte == 0), "zeros");
                most = most.max(to.len());
                to.copy_from_slice(&filter.bytes[4 * from..][..to.len()]);
            };
            let (values, bare) = (filter.bytes.len() / 4, Filter { bytes: &[], ..*filter });
            let packed = PackedFilter::read(&bare, g.groups, isa, false, values, &mut read).unwrap();
            if filter.strides[0] == 1 && g.groups == 1 {
                assert!(most <= 4 * 64, "rows of one panel: {most}");
            }
            packed
        } else {
            PackedFilter::new(filter, g.groups, isa).unwrap()
        };
        assert!(packed.bytes() >= dense.len());
        let conv = FConv::new(&spec, packed.into()).unwrap();
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            // An odd start, so that nothing relies on the scratch's alignment or content.
            let mut scratch = vec![0xA5u8; conv.scratch_bytes(threads) + 3];
            let mut y = vec![777.0f32; out_map.span()];
            let added = case.residual.then_some((residual.as_slice(), out_map));
            conv.run(&x, in_map, added, &mut y, out_map, &mut scratch[3..], &pool).unwrap();
            let what = format!("{isa:?} {threads} threads {g:?} {:?} {:?}", case.size, case.channels);
            same_bits(&expected, &y, &what);
            if g.groups == 1 && !case.residual && g.stride[1] <= 2 {
                let mut scratch = vec![0xA5u8; conv.planes_scratch_bytes(threads) + 3];
                let mut y = vec![777.0f32; out_map.span()];
                conv.run_planes(&turned_x, planes, &mut y, out_map, &mut scratch[3..], &pool).unwrap();
                same_bits(&expected, &y, &format!("{what}, in planes"));
            }
        }
    }
}

#[test]
fn convolutions_equal_their_definition() {
    let mut random = Random(42);
    let activations = [
        UnaryKind::Identity,
        UnaryKind::Relu,
        UnaryKind::Clip([-0.5, 0.75]),
        UnaryKind::Silu,
        UnaryKind::LeakyRelu(0.1),
    ];
    for round in 0..60 {
        let kernel = [random.between(1, 4), random.between(1, 5)];
        let groups = [1, 1, 1, 2, 3][random.below(5)];
        let case = Case {
            geometry: ConvGeometry {
                kernel,
                stride: [random.between(1, 2), random.between(1, 3)],
                dilation: [random.between(1, 2), [1, 1, 2][random.below(3)]],
                pad: [random.below(3), random.below(4), random.below(3), random.below(2)],
                groups,
            },
            batch: random.between(1, 2),
            size: [random.between(1, 9), random.between(1, 12)],
            channels: [groups * random.between(1, 9), groups * [1, 5, 8, 16, 17, 33, 40][random.below(7)]],
            bias: round % 3 != 0,
            residual: round % 4 == 1,
            activation: activations[round % activations.len()],
            gaps: [[0, 0, 0], [0, 2, 1], [3, 0, 5]][round % 3],
        };
        check(&case, round as u64 + 1);
    }
}

/// Planes with padding on all sides, narrower and wider than what is made together.
#[test]
fn planes_become_planes() {
    let mut random = Random(31);
    let activations = [UnaryKind::Identity, UnaryKind::Relu, UnaryKind::Clip([-0.5, 0.75]), UnaryKind::Tanh];
    for round in 0..60 {
        let case = Case {
            geometry: ConvGeometry {
                kernel: [random.between(1, 5), [3, 5, 2, 16, 17, 1][random.below(6)]],
                stride: [1, 1 + round / 59],
                dilation: [1 + round % 5 / 4, 1 + round % 7 / 6],
                pad: [random.below(4), random.below(4), random.below(4), random.below(4)],
                groups: 1,
            },
            batch: random.between(1, 2),
            size: [random.between(1, 11), [1, 7, 8, 16, 17, 31, 32, 33, 70, 100][round % 10]],
            channels: [1, [1, 1, 1, 3][round % 4]],
            bias: round % 3 != 0,
            residual: round % 8 == 1,
            activation: activations[round / 5 % 4],
            gaps: [[0, 0, 0], [0, 3, 2], [1, 0, 0]][round / 3 % 3],
        };
        check(&case, round as u64 + 1);
    }
}

/// Windows over pictures that are wider than what lies side by side at once.
#[test]
fn pictures_become_maps() {
    let mut random = Random(77);
    for round in 0..16 {
        let step = 1 + round % 2;
        let case = Case {
            geometry: ConvGeometry {
                kernel: [random.between(1, 3), random.between(1, 7)],
                stride: [1 + round % 2, step],
                dilation: [1, 1 + round / 12],
                pad: [random.below(3), random.below(9), random.below(3), random.below(9)],
                groups: 1,
            },
            batch: 1 + round % 2,
            size: [random.between(3, 6), [115, 230, 333][round % 3]],
            channels: [[3, 1, 4, 2, 12][round % 5], [16, 5, 33, 64][round % 4]],
            bias: round % 3 != 0,
            residual: false,
            activation: [UnaryKind::Relu, UnaryKind::Silu, UnaryKind::Identity][round % 3],
            gaps: [[0, 0, 0], [2, 1, 3]][round % 2],
        };
        check(&case, round as u64 + 1);
    }
}

#[test]
fn pointwise_and_first_layers() {
    for (geometry, size, channels) in [
        (ConvGeometry::pointwise(), [7, 7], [64, 48]),
        (ConvGeometry::pointwise(), [1, 1], [130, 100]),
        // Rows a page apart, which are copied.
        (ConvGeometry::pointwise(), [3, 5], [1024, 20]),
        (ConvGeometry { stride: [2, 1], ..ConvGeometry::pointwise() }, [3, 4], [2048, 7]),
        (ConvGeometry { stride: [2, 2], ..ConvGeometry::pointwise() }, [9, 7], [40, 33]),
        (
            ConvGeometry { kernel: [7, 7], stride: [2, 2], pad: [3; 4], dilation: [1, 1], groups: 1 },
            [30, 31],
            [3, 64],
        ),
        (
            ConvGeometry { kernel: [3, 3], stride: [1, 1], pad: [1; 4], dilation: [1, 1], groups: 1 },
            [14, 14],
            [40, 40],
        ),
    ] {
        for (residual, gaps) in [(false, [0; 3]), (true, [0; 3]), (true, [2, 0, 0]), (true, [1, 2, 3])] {
            let activation = if gaps[2] == 0 { UnaryKind::Relu } else { UnaryKind::Sigmoid };
            check(&Case { geometry, batch: 2, size, channels, bias: true, residual, activation, gaps }, 10);
        }
    }
}

#[test]
fn methods_are_told() {
    let method = |kernel: usize, groups: usize, channels: usize, winograd: bool| {
        let values = vec![1.0_f32; channels * channels / groups * kernel * kernel];
        let filter =
            Filter::dense(bytemuck::cast_slice(&values), channels, kernel * kernel, channels / groups);
        let packed = if winograd {
            PackedFilter::winograd(&filter, Isa::best())
        } else {
            PackedFilter::new(&filter, groups, Isa::best())
        };
        let pad = [kernel / 2; 4];
        let spec = FConvSpec {
            geometry: ConvGeometry { kernel: [kernel; 2], pad, groups, ..ConvGeometry::pointwise() },
            in_channels: channels,
            out_channels: channels,
            bias: None,
            residual: false,
            activation: UnaryKind::Identity,
        };
        let conv = FConv::new(&spec, Arc::new(packed.expect("weights"))).expect("a convolution");
        conv.method(Nhwc::dense(1, 5, 6, channels))
    };
    assert_eq!(method(3, 1, 16, false), ConvMethod::Direct);
    assert_eq!(method(3, 1, 16, true), ConvMethod::Winograd);
    assert_eq!(method(3, 16, 16, false), ConvMethod::Depthwise);
    assert_eq!(method(3, 32, 128, false), ConvMethod::Depthwise);
    assert_eq!(method(1, 1, 64, false), ConvMethod::Direct);
    // Rows a page apart are copied.
    assert_eq!(method(1, 1, 1024, false), ConvMethod::Gather);
}

#[test]
fn depthwise_convolutions_equal_their_definition() {
    let mut random = Random(7);
    for round in 0..96 {
        // The last are more than wait for a function at a time.
        let groups = [2, 3, 16, 17, 32, 50, 83, 2100][round % 8];
        // Groups of a few channels are computed side by side, too; those of three are not.
        let channels = groups * [1, 2, 4, 1, 3, 4][round / 16];
        let case = Case {
            geometry: ConvGeometry {
                kernel: [random.between(1, 5), random.between(1, 5)],
                stride: [random.between(1, 2), random.between(1, 2)],
                dilation: [random.between(1, 2), random.between(1, 2)],
                pad: [random.below(3), random.below(3), random.below(3), random.below(3)],
                groups,
            },
            batch: random.between(1, 2),
            size: [random.between(1, 9), random.between(1, 20)],
            channels: [channels, channels],
            bias: round % 3 != 0,
            residual: round % 4 == 1,
            activation: [UnaryKind::Relu, UnaryKind::Tanh, UnaryKind::Silu][round % 3],
            gaps: [[0, 0, 0], [1, 2, 1]][round / 8 % 2],
        };
        check(&case, round as u64 + 1);
    }
}

#[test]
fn misfits_are_errors() {
    let weights = vec![0; 12 * 4];
    let spec = FConvSpec {
        geometry: ConvGeometry::pointwise(),
        in_channels: 3,
        out_channels: 4,
        bias: None,
        residual: false,
        activation: UnaryKind::Identity,
    };
    let filter = Filter::dense(&weights, 4, 1, 3);
    let pack = |filter: &Filter<'_>, groups| PackedFilter::new(filter, groups, Isa::best());
    assert!(pack(&Filter { bytes: &weights[1..], ..filter }, 1).is_err());
    assert!(pack(&Filter { strides: [3, 3, 2], ..filter }, 1).is_err());
    assert!(pack(&Filter { strides: [usize::MAX; 3], ..filter }, 1).is_err());
    assert!(pack(&Filter { group_channels: 0, ..filter }, 1).is_err());
    assert!(pack(&filter, 3).is_err());
    let read = |len| PackedFilter::read(&filter, 1, Isa::best(), true, len, &mut |_, _| {});
    assert!(read(12).is_ok());
    assert!(matches!(read(11), Err(Error::Short { got: 11, need: 12, .. })));
    let packed = Arc::new(pack(&filter, 1).unwrap());
    let make = |spec: &FConvSpec<'_>| FConv::new(spec, Arc::clone(&packed));
    assert!(make(&FConvSpec { bias: Some(&[0.0; 3]), ..spec }).is_err());
    let uneven = ConvGeometry { groups: 2, ..ConvGeometry::pointwise() };
    assert!(make(&FConvSpec { geometry: uneven, ..spec }).is_err());
    assert!(make(&FConvSpec { in_channels: 2, ..spec }).is_err());
    let wide = ConvGeometry { kernel: [1, 2], ..ConvGeometry::pointwise() };
    assert!(make(&FConvSpec { geometry: wide, ..spec }).is_err());
    let conv = make(&spec).unwrap();
    let (i, o) = (Nhwc::dense(1, 2, 2, 3), Nhwc::dense(1, 2, 2, 4));
    let (x, mut y) = ([0.0; 12], [0.0; 16]);
    let mut scratch = vec![0; conv.scratch_bytes(1)];
    let pool = Pool::new(1);
    conv.run(&x, i, None, &mut y, o, &mut scratch, &pool).unwrap();
    assert!(matches!(conv.run(&x[1..], i, None, &mut y, o, &mut scratch, &pool), Err(Error::Short { .. })));
    assert!(matches!(conv.run(&x, i, None, &mut y[1..], o, &mut scratch, &pool), Err(Error::Short { .. })));
    assert!(conv.run(&x, i, None, &mut y, o, &mut scratch[1..], &pool).is_err());
    assert!(conv.run(&x, i, Some((&x, i)), &mut y, o, &mut scratch, &pool).is_err());
    let overlapping = Nhwc { stride_w: 3, ..o };
    assert!(conv.run(&x, i, None, &mut y, overlapping, &mut scratch, &pool).is_err());
}

#[test]
fn products_equal_their_definition() {
    let mut random = Random(3);
    for round in 0..80 {
        let m = if round % 7 == 6 { 1 } else { random.between(1, 40) };
        let (batch, n, k) = (random.between(1, 3), random.between(1, 70), random.between(0, 50));
        let (trans_a, trans_b) = (round % 2 == 1, round % 4 >= 2);
        let mut spec = MatMulSpec::dense(batch, m, n, k, trans_a, trans_b);
        if round % 3 == 0 {
            spec.stride_a += 2;
            spec.stride_b += 1;
            spec.stride_c += 3;
            spec.batch_a = spec.stride_a * m.max(k);
            spec.batch_b = if round % 2 == 0 { 0 } else { spec.stride_b * n.max(k) };
            spec.batch_c = spec.stride_c * m;
        }
        let a = random.floats(spec.batch_a * batch + spec.stride_a * m.max(k));
        let (b_rows, b_columns) = if trans_b { (n, k) } else { (k, n) };
        // Not an element more than there must be.
        let last = (b_rows.max(1) - 1) * spec.stride_b + b_columns;
        let b = random.floats(if b_rows == 0 { 0 } else { spec.batch_b * (batch - 1) + last });
        let bias = random.floats(n);
        let bias = (round % 5 == 0).then_some(bias.as_slice());
        let mut expected = vec![777.0f32; spec.batch_c * batch];
        for i in 0..batch {
            for row in 0..m {
                for column in 0..n {
                    let mut sum = 0.0f32;
                    for t in 0..k {
                        let (ar, ac) = if trans_a { (t, row) } else { (row, t) };
                        let (br, bc) = if trans_b { (column, t) } else { (t, column) };
                        let x = a[i * spec.batch_a + ar * spec.stride_a + ac];
                        sum = x.mul_add(b[i * spec.batch_b + br * spec.stride_b + bc], sum);
                    }
                    expected[i * spec.batch_c + row * spec.stride_c + column] =
                        sum + bias.map_or(0.0, |bias| bias[column]);
                }
            }
        }
        for isa in isas() {
            let product = FMatMul::new(&spec, isa).unwrap();
            for threads in [1, 2] {
                let mut scratch = vec![0xA5; product.scratch_bytes(threads) + 1];
                let mut c = vec![777.0f32; expected.len()];
                product.run(&a, &b, bias, &mut c, &mut scratch[1..], &Pool::new(threads)).unwrap();
                same_bits(&expected, &c, &format!("{isa:?} {spec:?}"));
            }
        }
        let product = FMatMul::new(&spec, Isa::best()).unwrap();
        let mut c = vec![0.0; expected.len()];
        assert!(product.run(&a, &b, bias, &mut c, &mut [], &Pool::new(1)).is_err());
        if k > 0 {
            let mut scratch = vec![0; product.scratch_bytes(1)];
            assert!(product.run(&[], &b, bias, &mut c, &mut scratch, &Pool::new(1)).is_err());
        }
    }
}
