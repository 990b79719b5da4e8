//! One suite over the quantized convolution on every instruction set, against a loop nest in i64.

use proptest::prelude::*;
use triune_kernels::{ConvGeometry, ConvMethod, Error, Isa, Nhwc, Pool, Q8, QAdd, QConv, QConvSpec};
use triune_tensor::{Requantize, Rounding};
use triune_testing::Random;

/// How the bytes of a case are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    Random,
    Zero,
    Least,
    Most,
}

#[derive(Clone, Debug)]
struct Case {
    geometry: ConvGeometry,
    batch: usize,
    in_size: [usize; 2],
    in_channels: usize,
    out_channels: usize,
    input: Q8,
    output: Q8,
    rounding: Rounding,
    clamp: [i32; 2],
    /// Elements left free after each pixel, row and image: input, residual, output.
    gaps: [[usize; 3]; 3],
    bias: bool,
    per_channel: bool,
    table: bool,
    /// Operand encodings of a and b, encoding of the sum, whether the convolution is a.
    residual: Option<(Q8, Q8, bool)>,
    weights: Fill,
    activations: Fill,
    magnitude: f32,
    seed: u64,
}

fn gapped(n: usize, [h, w]: [usize; 2], c: usize, gaps: [usize; 3]) -> Nhwc {
    let stride_w = c + gaps[0];
    let stride_h = w * stride_w + gaps[1];
    Nhwc { n, h, w, c, stride_n: h * stride_h + gaps[2], stride_h, stride_w }
}

fn fill(random: &mut Random, n: usize, how: Fill, signed: bool) -> Vec<u8> {
    match how {
        Fill::Random => random.bytes(n),
        Fill::Zero => vec![0; n],
        Fill::Least => vec![if signed { 0x80 } else { 0 }; n],
        Fill::Most => vec![if signed { 0x7F } else { 0xFF }; n],
    }
}

fn decode(q: Q8, byte: u8) -> i64 {
    if q.signed { i64::from(byte as i8) } else { i64::from(byte) }
}

fn saturate(x: f64, [low, high]: [i32; 2], q: Q8) -> u8 {
    let range = if q.signed { [-128, 127] } else { [0, 255] };
    (x.max(f64::from(range[0])).min(f64::from(range[1])).max(f64::from(low)).min(f64::from(high))) as i32
        as u8
}

/// The definition, sums in i64, one output at a time.
fn oracle(
    spec: &QConvSpec<'_>,
    input: &[u8],
    im: Nhwc,
    residual: Option<(&[u8], Nhwc)>,
    out: &mut [u8],
    om: Nhwc,
) {
    let g = spec.geometry;
    let (depth, columns) = (spec.in_channels / g.groups, spec.out_channels / g.groups);
    for n in 0..om.n {
        for y in 0..om.h {
            for x in 0..om.w {
                for o in 0..om.c {
                    let mut sum = spec.bias.map_or(0, |bias| i64::from(bias[o]));
                    for ky in 0..g.kernel[0] {
                        for kx in 0..g.kernel[1] {
                            let iy = (y * g.stride[0] + ky * g.dilation[0]) as i64 - g.pad[0] as i64;
                            let ix = (x * g.stride[1] + kx * g.dilation[1]) as i64 - g.pad[1] as i64;
                            if iy < 0 || ix < 0 || iy >= im.h as i64 || ix >= im.w as i64 {
                                continue;
                            }
                            for i in 0..depth {
                                let at = im.offset(n, iy as usize, ix as usize) + o / columns * depth + i;
                                let w = spec.weights[((o * g.kernel[0] + ky) * g.kernel[1] + kx) * depth + i];
                                let a = decode(spec.input, input[at]) - i64::from(spec.input.zero_point);
                                sum += i64::from(w) * a;
                            }
                        }
                    }
                    let m = if spec.multiplier.len() == 1 { spec.multiplier[0] } else { spec.multiplier[o] };
                    let scaled = f64::from(spec.rounding.round(sum as f32 * m));
                    let mut byte =
                        saturate(scaled + f64::from(spec.output.zero_point), spec.clamp, spec.output);
                    if let Some(table) = spec.table {
                        byte = table[usize::from(byte)];
                    }
                    if let (Some(add), Some((other, map))) = (spec.residual, residual) {
                        let other = other[map.offset(n, y, x) + o];
                        let (a, b) = if add.conv_is_a { (byte, other) } else { (other, byte) };
                        let (a, b) = (decode(add.a, a) as f32, decode(add.b, b) as f32);
                        let sum = add.rounding.round(a.mul_add(add.ra, b.mul_add(add.rb, add.k)));
                        let zero = match add.rounding {
                            Rounding::HalfToEven => 0,
                            Rounding::HalfAwayFromZero => add.out.zero_point,
                        };
                        byte = saturate(f64::from(sum) + f64::from(zero), add.clamp, add.out);
                    }
                    out[om.offset(n, y, x) + o] = byte;
                }
            }
        }
    }
}

/// Runs the case everywhere; gaps and the bytes after the map must stay as they were.
fn check(case: &Case) {
    let g = case.geometry;
    let Some(out_size) = g.output(case.in_size[0], case.in_size[1]) else { return };
    let random = &mut Random(case.seed | 1);
    let depth = case.in_channels / g.groups;
    let taps = g.kernel[0] * g.kernel[1] * depth;
    let weights: Vec<i8> =
        fill(random, case.out_channels * taps, case.weights, true).into_iter().map(|b| b as i8).collect();
    let bias: Option<Vec<i32>> =
        case.bias.then(|| (0..case.out_channels).map(|_| random.next() as i32 % 20_000).collect());
    let scales = if case.per_channel { case.out_channels } else { 1 };
    let multiplier: Vec<f32> = (0..scales)
        .map(|_| {
            case.magnitude * (0.5 + (random.next() % 1000) as f32 / 1000.0) / (taps as f32).sqrt() / 60.0
        })
        .collect();
    let table: Option<[u8; 256]> = case.table.then(|| random.bytes(256).try_into().unwrap());
    let residual = case.residual.map(|(other, out, conv_is_a)| {
        let (a, b) = if conv_is_a { (case.output, other) } else { (other, case.output) };
        QAdd {
            conv_is_a,
            ..QAdd::new(a, 0.031, b, 0.027, out, 0.04, case.rounding, Requantize::Float).unwrap()
        }
    });
    let spec = QConvSpec {
        geometry: g,
        in_channels: case.in_channels,
        out_channels: case.out_channels,
        weights: &weights,
        bias: bias.as_deref(),
        multiplier: &multiplier,
        input: case.input,
        output: case.output,
        rounding: case.rounding,
        clamp: case.clamp,
        table: table.as_ref(),
        residual,
    };
    let im = gapped(case.batch, case.in_size, case.in_channels, case.gaps[0]);
    let rm = gapped(case.batch, out_size, case.out_channels, case.gaps[1]);
    let om = gapped(case.batch, out_size, case.out_channels, case.gaps[2]);
    // Exactly as long as the map: whoever reads or writes beyond it leaves the allocation.
    let input = fill(random, im.span(), case.activations, case.input.signed).into_boxed_slice();
    let other = random.bytes(rm.span()).into_boxed_slice();
    let other = residual.map(|_| (&*other, rm));
    let before = random.bytes(om.span());
    let mut expected = before.clone();
    oracle(&spec, &input, im, other, &mut expected, om);
    for isa in Isa::available() {
        let conv = QConv::new(&spec, isa).unwrap();
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            let mut got = before.clone();
            let mut scratch = random.bytes(conv.scratch_bytes(threads));
            conv.run(&input, im, other, &mut got, om, &mut scratch, &pool).unwrap();
            if let Some(at) = (0..got.len()).find(|&i| got[i] != expected[i]) {
                panic!(
                    "{isa:?}, {threads} threads, byte {at}: {} instead of {}\n{case:?}",
                    got[at], expected[at]
                );
            }
        }
    }
}

fn q8() -> impl Strategy<Value = Q8> {
    (any::<bool>(), 0..256)
        .prop_map(|(signed, z)| Q8 { signed, zero_point: if signed { z - 128 } else { z } })
}

fn fills() -> impl Strategy<Value = Fill> {
    prop_oneof![8 => Just(Fill::Random), 1 => Just(Fill::Zero), 1 => Just(Fill::Least), 1 => Just(Fill::Most)]
}

fn gaps() -> impl Strategy<Value = [usize; 3]> {
    prop_oneof![Just([0; 3]), [0..5_usize, 0..9_usize, 0..7_usize]]
}

/// Groups, input channels, output channels.
fn channels() -> impl Strategy<Value = (usize, usize, usize)> {
    prop_oneof![
        6 => (Just(1_usize), 1..80_usize, 1..100_usize),
        4 => (1..150_usize).prop_map(|c| (c, c, c)),
        2 => (1..5_usize, 1..20_usize, 1..40_usize).prop_map(|(g, i, o)| (g, g * i, g * o)),
        1 => (1..20_usize, 2..4_usize).prop_map(|(c, times)| (c, c, c * times)),
    ]
}

fn geometry() -> impl Strategy<Value = ConvGeometry> {
    let kernel = prop_oneof![
        3 => Just([1_usize, 1]),
        3 => Just([3_usize, 3]),
        1 => Just([5_usize, 5]),
        3 => [1..8_usize, 1..6_usize],
    ];
    let dilation = prop_oneof![3 => Just([1_usize, 1]), 1 => [1..4_usize, 1..4_usize]];
    (kernel, [1..4_usize, 1..4_usize], dilation, [0..4_usize, 0..4_usize, 0..4_usize, 0..4_usize])
        .prop_map(|(kernel, stride, dilation, pad)| ConvGeometry { kernel, stride, dilation, pad, groups: 1 })
}

fn cases(
    channels: impl Strategy<Value = (usize, usize, usize)>,
    size: [std::ops::Range<usize>; 2],
) -> impl Strategy<Value = Case> {
    let shape = (geometry(), channels, 1..4_usize, size);
    let types = (q8(), q8(), any::<Option<(bool, bool)>>(), q8(), q8(), -140..270_i32, 0..300_i32);
    let maps = ([gaps(), gaps(), gaps()], fills(), fills());
    let rest =
        (any::<[bool; 2]>(), prop::bool::weighted(0.3), prop_oneof![4 => Just(1.0_f32), 1 => Just(40.0)]);
    (shape, types, maps, rest, any::<u64>()).prop_map(|(shape, types, maps, rest, seed)| {
        let (geometry, (groups, in_channels, out_channels), batch, in_size) = shape;
        let (input, output, residual, other, sum, low, width) = types;
        let range = if output.signed { [-128, 127] } else { [0, 255] };
        let low = low.clamp(range[0] - 5, range[1]);
        Case {
            geometry: ConvGeometry { groups, ..geometry },
            batch,
            in_size,
            in_channels,
            out_channels,
            input,
            output,
            rounding: if seed % 5 < 2 { Rounding::HalfAwayFromZero } else { Rounding::HalfToEven },
            clamp: if seed % 3 == 0 { [low, (low + width).max(range[0])] } else { range },
            gaps: maps.0,
            bias: rest.0[0],
            per_channel: rest.0[1],
            table: rest.1,
            residual: residual.map(|(conv_is_a, _)| (other, sum, conv_is_a)),
            weights: maps.1,
            activations: maps.2,
            magnitude: rest.2,
            seed,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn equals_the_definition(case in cases(channels(), [1..14, 1..14])) {
        check(&case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Maps that are wide enough for windows to be read in rows, and rows that do not fill whole steps.
    #[test]
    fn windows_that_share_rows_equal_the_definition(
        case in cases((Just(1_usize), 1..20_usize, 1..140_usize), [1..9, 12..45])
    ) {
        check(&case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    /// Depths of some tiles, and rows and panels that fill none of them or several.
    #[test]
    fn products_in_tiles_equal_the_definition(
        case in cases((Just(1_usize), 60..200_usize, 1..70_usize), [1..5, 1..40])
    ) {
        let kernel = case.geometry.kernel.map(|extent| extent.min(3));
        check(&Case { geometry: ConvGeometry { kernel, ..case.geometry }, batch: 1, ..case });
    }
}

const U8: Q8 = Q8 { signed: false, zero_point: 3 };
const I8: Q8 = Q8 { signed: true, zero_point: -5 };

fn plain(kernel: usize, groups: usize, channels: [usize; 2], size: usize) -> Case {
    let pad = kernel / 2;
    Case {
        geometry: ConvGeometry { kernel: [kernel; 2], pad: [pad; 4], groups, ..ConvGeometry::pointwise() },
        batch: 1,
        in_size: [size; 2],
        in_channels: channels[0],
        out_channels: channels[1],
        input: U8,
        output: I8,
        rounding: Rounding::HalfToEven,
        clamp: [-128, 127],
        gaps: [[0; 3]; 3],
        bias: true,
        per_channel: true,
        table: false,
        residual: None,
        weights: Fill::Random,
        activations: Fill::Random,
        magnitude: 1.0,
        seed: 7,
    }
}

#[test]
fn channel_counts_around_vector_and_panel_sizes() {
    for c in [15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 129] {
        for input in [U8, I8] {
            check(&Case { input, ..plain(1, 1, [c, 24], 5) });
            check(&Case { input, ..plain(1, 1, [32, c], 5) });
            check(&Case { input, residual: Some((I8, U8, true)), ..plain(3, c, [c, c], 6) });
            check(&Case { input, residual: Some((U8, I8, false)), table: true, ..plain(1, 1, [20, c], 3) });
        }
    }
}

#[test]
fn many_pixels_and_deep_products() {
    check(&plain(1, 1, [64, 64], 40));
    check(&Case { batch: 3, ..plain(3, 1, [64, 40], 17) });
    check(&Case { batch: 5, ..plain(3, 1, [520, 16], 3) });
    check(&plain(1, 1, [2049, 70], 2));
    let first = plain(7, 1, [3, 64], 40);
    check(&Case { geometry: ConvGeometry { stride: [2, 2], ..first.geometry }, ..first });
    check(&Case { batch: 2, ..plain(5, 72, [72, 72], 21) });
    check(&plain(19, 33, [33, 33], 12));
}

#[test]
fn extreme_operands() {
    for weights in [Fill::Least, Fill::Most] {
        for activations in [Fill::Least, Fill::Most] {
            for input in [
                Q8 { signed: false, zero_point: 0 },
                Q8 { signed: false, zero_point: 255 },
                Q8 { signed: true, zero_point: -128 },
                Q8 { signed: true, zero_point: 127 },
            ] {
                for magnitude in [1.0, 1e-3, 1e6, 1e30, 1e38, -1.0, -1e38] {
                    let base = plain(3, 1, [40, 20], 4);
                    check(&Case { input, weights, activations, magnitude, ..base });
                    let base = plain(3, 40, [40, 40], 6);
                    check(&Case { input, weights, activations, magnitude, ..base });
                }
            }
        }
    }
}

#[test]
fn rounds_halves_as_asked_and_saturates_beyond_i32() {
    let halves: Vec<i32> = (-9..9).map(|i| 2 * i + 1).chain([i32::MAX / 2, i32::MIN / 2]).collect();
    let n = halves.len();
    let both = [Rounding::HalfToEven, Rounding::HalfAwayFromZero];
    for (output, rounding) in [U8, I8].into_iter().flat_map(|output| both.map(|each| (output, each))) {
        // The second lifts 1 to the largest f32 below ½, which neither rounding takes for a half.
        for multiplier in [0.5_f32, 0.499_999_97, f32::MAX] {
            let spec = QConvSpec {
                geometry: ConvGeometry::pointwise(),
                in_channels: 1,
                out_channels: n,
                weights: &vec![0; n],
                bias: Some(&halves),
                multiplier: &[multiplier],
                input: U8,
                output,
                rounding,
                clamp: [-128, 255],
                table: None,
                residual: None,
            };
            let expected: Vec<u8> = halves
                .iter()
                .map(|&sum| {
                    let rounded = rounding.round(sum as f32 * multiplier);
                    saturate(f64::from(rounded) + f64::from(output.zero_point), spec.clamp, output)
                })
                .collect();
            for isa in Isa::available() {
                let conv = QConv::new(&spec, isa).unwrap();
                let mut got = vec![0; n];
                let mut scratch = vec![0; conv.scratch_bytes(1)];
                let (im, om) = (Nhwc::dense(1, 1, 1, 1), Nhwc::dense(1, 1, 1, n));
                conv.run(&[9], im, None, &mut got, om, &mut scratch, &Pool::new(1)).unwrap();
                assert_eq!(got, expected, "{isa:?}");
            }
        }
    }
}

#[test]
fn methods_and_sizes_are_told() {
    let map = |c| Nhwc::dense(1, 4, 20, c);
    let window = |kernel: usize, groups| {
        let pad = [kernel / 2; 4];
        ConvGeometry { kernel: [kernel; 2], groups, pad, ..ConvGeometry::pointwise() }
    };
    for isa in Isa::available() {
        let method = |geometry: ConvGeometry, channels: usize, input: Q8| {
            let weights =
                vec![1; channels * channels / geometry.groups * geometry.kernel[0] * geometry.kernel[1]];
            let (in_channels, out_channels) = (channels, channels);
            let spec = QConvSpec { geometry, in_channels, out_channels, input, ..spec_of_ones(&weights) };
            let conv = QConv::new(&spec, isa).expect("a convolution");
            assert!(conv.bytes() >= weights.len(), "{isa:?}");
            conv.method(map(channels))
        };
        let vectors = isa != Isa::Scalar;
        let expected = |with_vectors| if vectors { with_vectors } else { ConvMethod::Plain };
        assert_eq!(method(window(3, 1), 8, U8), expected(ConvMethod::Rows), "{isa:?}");
        assert_eq!(method(window(3, 1), 136, U8), expected(ConvMethod::Gather), "{isa:?}");
        assert_eq!(method(window(3, 64), 64, U8), expected(ConvMethod::Depthwise), "{isa:?}");
        assert_eq!(method(window(1, 1), 6, U8), expected(ConvMethod::Gather), "{isa:?}");
        // Bytes are read where they lie if the dot product takes their sign, or they are flipped in registers.
        let signs = [U8, Q8 { signed: true, zero_point: 0 }].map(|input| method(window(1, 1), 8, input));
        match isa {
            Isa::Avx512Vnni | Isa::Amx => assert_eq!(signs, [ConvMethod::Direct; 2], "{isa:?}"),
            Isa::NeonDot => assert_eq!(signs, [ConvMethod::Gather, ConvMethod::Direct]),
            _ => {}
        }
    }
}

#[test]
fn an_empty_batch_is_nothing_to_do() {
    for isa in Isa::available() {
        let spec = spec_of_ones(&[1; 8]);
        let conv = QConv::new(&spec, isa).unwrap();
        let mut scratch = vec![0; conv.scratch_bytes(1)];
        let (im, om) = (Nhwc::dense(0, 4, 4, 2), Nhwc::dense(0, 4, 4, 4));
        conv.run(&[], im, None, &mut [], om, &mut scratch, &Pool::new(1)).unwrap();
    }
}

fn spec_of_ones(weights: &[i8]) -> QConvSpec<'_> {
    QConvSpec {
        geometry: ConvGeometry::pointwise(),
        in_channels: 2,
        out_channels: 4,
        weights,
        bias: None,
        multiplier: &[1.0],
        input: U8,
        output: U8,
        rounding: Rounding::HalfToEven,
        clamp: [0, 255],
        table: None,
        residual: None,
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let pool = Pool::new(1);
    for isa in Isa::available() {
        let conv = QConv::new(&spec_of_ones(&[1; 8]), isa).unwrap();
        let need = conv.scratch_bytes(1);
        let (im, om) = (Nhwc::dense(1, 3, 3, 2), Nhwc::dense(1, 3, 3, 4));
        let run = |input: usize,
                   im: Nhwc,
                   residual: Option<(&[u8], Nhwc)>,
                   output: usize,
                   om: Nhwc,
                   scratch: usize| {
            let (input, mut output, mut scratch) = (vec![0; input], vec![0; output], vec![0; scratch]);
            conv.run(&input, im, residual, &mut output, om, &mut scratch, &pool)
        };
        assert_eq!(run(18, im, None, 36, om, need), Ok(()));
        assert!(matches!(
            run(17, im, None, 36, om, need),
            Err(Error::Short { operand: "input", need: 18, got: 17 })
        ));
        assert!(matches!(run(18, im, None, 35, om, need), Err(Error::Short { operand: "output", .. })));
        if need > 0 {
            let short = run(18, im, None, 36, om, need - 1);
            assert!(matches!(short, Err(Error::Short { operand: "scratch", .. })));
        }
        assert!(matches!(run(18, im, None, 99, Nhwc { h: 4, ..om }, need), Err(Error::Mismatch { .. })));
        assert!(matches!(run(18, im, None, 99, Nhwc { c: 5, ..om }, need), Err(Error::Mismatch { .. })));
        assert!(matches!(run(99, Nhwc { n: 2, ..im }, None, 36, om, need), Err(Error::Mismatch { .. })));
        assert!(matches!(run(18, im, None, 36, Nhwc { stride_w: 3, ..om }, need), Err(Error::Invalid(_))));
        assert!(matches!(run(18, im, Some((&[0; 36], om)), 36, om, need), Err(Error::Invalid(_))));
        let huge = Nhwc { stride_h: usize::MAX, ..im };
        assert!(matches!(run(18, huge, None, 36, om, need), Err(Error::Short { .. })));
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let ones = [1; 8];
    let good = spec_of_ones(&ones);
    let refused = |spec: QConvSpec<'_>| QConv::new(&spec, Isa::best()).unwrap_err();
    refused(QConvSpec { weights: &ones[1..], ..good });
    refused(QConvSpec { in_channels: 0, weights: &[], ..good });
    refused(QConvSpec { bias: Some(&[0; 3]), ..good });
    refused(QConvSpec { bias: Some(&[i32::MAX - 500; 4]), ..good });
    refused(QConvSpec { bias: Some(&[i32::MIN; 4]), ..good });
    refused(QConvSpec { multiplier: &[1.0; 3], ..good });
    refused(QConvSpec { multiplier: &[], ..good });
    refused(QConvSpec { multiplier: &[f32::NAN], ..good });
    refused(QConvSpec { multiplier: &[1.0, 1.0, f32::INFINITY, 1.0], ..good });
    refused(QConvSpec { clamp: [5, 4], ..good });
    refused(QConvSpec { clamp: [-9, -1], ..good });
    refused(QConvSpec { input: Q8 { signed: true, zero_point: 128 }, ..good });
    refused(QConvSpec { output: Q8 { signed: false, zero_point: -1 }, ..good });
    for geometry in [
        ConvGeometry { groups: 3, ..good.geometry },
        ConvGeometry { groups: 0, ..good.geometry },
        ConvGeometry { stride: [0, 1], ..good.geometry },
        ConvGeometry { dilation: [1, 0], ..good.geometry },
        ConvGeometry { kernel: [0, 1], ..good.geometry },
        ConvGeometry { kernel: [usize::MAX, 2], ..good.geometry },
    ] {
        refused(QConvSpec { geometry, ..good });
    }
    let even = Rounding::HalfToEven;
    let add = QAdd::new(U8, 1.0, I8, 1.0, U8, 1.0, even, Requantize::Float).unwrap();
    QConv::new(&QConvSpec { residual: Some(add), ..good }, Isa::best()).unwrap();
    refused(QConvSpec { residual: Some(QAdd { ra: f32::NAN, ..add }), ..good });
    refused(QConvSpec { residual: Some(QAdd { ra: 3e38, rb: -3e38, ..add }), ..good });
    refused(QConvSpec { residual: Some(QAdd { clamp: [9, 8], ..add }), ..good });
    refused(QConvSpec { residual: Some(QAdd { conv_is_a: false, ..add }), ..good });
    QAdd::new(U8, 0.0, I8, 1.0, U8, 1.0, even, Requantize::Float).unwrap_err();
    QAdd::new(U8, 1.0, I8, f32::MAX, U8, 1e-6, even, Requantize::Float).unwrap_err();
}
