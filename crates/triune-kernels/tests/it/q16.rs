//! 16-bit integers against loops over i128.

use crate::common::{gapped, indices};
use triune_kernels::{
    Broadcast, ConvGeometry, Error, Isa, Nhwc, Pool, Q16Conv, Q16ConvSpec, Q16Target, Word, q16_add,
    q16_dequantize, q16_mul, q16_quantize, q16_table,
};
use triune_tensor::{DType, QuantParams, Rounding};
use triune_testing::Random;

/// Extremes are as likely as all else.
fn word(random: &mut Random) -> i16 {
    match random.below(8) {
        0 => i16::MIN,
        1 => i16::MAX,
        _ => random.next() as i16,
    }
}

fn words(random: &mut Random, count: usize) -> Vec<i16> {
    (0..count).map(|_| word(random)).collect()
}

fn rounded(real: f64, target: Q16Target) -> i16 {
    let whole = match target.rounding {
        Rounding::HalfToEven => real.round_ties_even(),
        Rounding::HalfAwayFromZero => real.round(),
    };
    whole.max(f64::from(target.clamp[0])).min(f64::from(target.clamp[1])) as i16
}

fn target(random: &mut Random) -> Q16Target {
    let rounding = [Rounding::HalfToEven, Rounding::HalfAwayFromZero][random.below(2)];
    let clamp = [[-32_768, 32_767], [0, 32_767], [-5, 20_000]][random.below(3)];
    Q16Target { rounding, clamp }
}

fn convolve(random: &mut Random, geometry: ConvGeometry, channels: [usize; 2], size: [usize; 2]) {
    let [ci, co] = channels;
    let Some(out) = geometry.output(size[0], size[1]) else { return };
    let in_map = gapped(1 + random.below(2), size, ci, [random.below(3), random.below(3), random.below(3)]);
    let out_map = gapped(in_map.n, out, co, [random.below(3), random.below(3), 0]);
    let x = words(random, in_map.span());
    let inner = ci / geometry.groups;
    let [kh, kw] = geometry.kernel;
    let weights = words(random, co * kh * kw * inner);
    let bias: Vec<i32> = (0..co).map(|_| random.next() as i32).collect();
    let multiplier: Vec<f32> = (0..co).map(|_| random.unit().abs() * 1e-5).collect();
    let target = target(random);
    let spec = Q16ConvSpec {
        geometry,
        in_channels: ci,
        out_channels: co,
        weights: &weights,
        bias: Some(&bias),
        multiplier: &multiplier,
        target,
    };
    let mut expected = vec![77; out_map.span()];
    for (n, h, w, c) in indices(out_map) {
        let mut sum = i128::from(bias[c]);
        for tap in 0..kh * kw {
            let row =
                (h * geometry.stride[0] + tap / kw * geometry.dilation[0]).wrapping_sub(geometry.pad[0]);
            let column =
                (w * geometry.stride[1] + tap % kw * geometry.dilation[1]).wrapping_sub(geometry.pad[1]);
            for channel in 0..inner {
                if row < in_map.h && column < in_map.w {
                    let from = c / (co / geometry.groups) * inner + channel;
                    let weight = weights[(c * kh * kw + tap) * inner + channel];
                    sum += i128::from(x[in_map.offset(n, row, column) + from]) * i128::from(weight);
                }
            }
        }
        expected[out_map.offset(n, h, w) + c] = rounded(sum as f64 * f64::from(multiplier[c]), target);
    }
    for (isa, threads) in Isa::available().flat_map(|isa| [(isa, 1), (isa, 3)]) {
        let mut y = vec![77; out_map.span()];
        run(&spec, isa, threads, &x, in_map, &mut y, out_map);
        assert_eq!(y, expected, "{isa:?} {geometry:?} {channels:?} {size:?}");
    }
}

fn run(spec: &Q16ConvSpec<'_>, isa: Isa, threads: usize, x: &[i16], map: Nhwc, y: &mut [i16], out: Nhwc) {
    let conv = Q16Conv::new(spec, isa).unwrap();
    let mut scratch = vec![0xa5; conv.scratch_bytes(threads)];
    conv.run(x, map, y, out, &mut scratch, &Pool::new(threads)).unwrap();
}

#[test]
fn convolutions_are_exact() {
    let mut random = Random(16);
    for _ in 0..120 {
        let groups = [1, 1, 2, 5][random.below(4)];
        let channelwise = random.below(4) == 0;
        let (ci, co) = (groups * random.between(1, 9), groups * random.between(1, 19));
        let (groups, ci, co) = if channelwise { (ci, ci, ci) } else { (groups, ci, co) };
        let geometry = ConvGeometry {
            kernel: [random.between(1, 3), random.between(1, 3)],
            stride: [random.between(1, 2), random.between(1, 2)],
            dilation: [random.between(1, 2), random.between(1, 2)],
            pad: [random.below(3), random.below(3), random.below(3), random.below(3)],
            groups,
        };
        let size = [random.between(1, 9), random.between(1, 11)];
        convolve(&mut random, geometry, [ci, co], size);
    }
}

/// Products of many tiles, panels and chunks, some of them read in place.
#[test]
fn large_convolutions_are_exact() {
    let mut random = Random(17);
    let plain = ConvGeometry::pointwise();
    for (kernel, groups, channels, size) in [
        ([1, 1], 1, [70, 70], [11, 17]),
        ([1, 1], 2, [74, 150], [9, 13]),
        ([1, 1], 1, [71, 33], [3, 5]),
        ([3, 3], 1, [130, 66], [6, 7]),
        ([1, 1], 1, [1010, 9], [2, 2]),
        ([3, 2], 3, [60, 36], [12, 19]),
        ([5, 3], 150, [150, 150], [5, 6]),
    ] {
        let pad = if kernel == [1, 1] { [0; 4] } else { [1, 0, 2, 1] };
        convolve(&mut random, ConvGeometry { kernel, groups, pad, ..plain }, channels, size);
    }
}

/// Inner products of millions of elements, and of extremes alone in panels.
#[test]
fn long_products_are_exact() {
    for (depth, channels) in [(1 << 22, 1), (1 << 12, 5)] {
        for extreme in [i16::MIN, i16::MAX] {
            long_product(depth, channels, extreme);
        }
    }
}

fn long_product(depth: usize, channels: usize, extreme: i16) {
    let map = gapped(1, [1, 1], depth, [0; 3]);
    let out = gapped(1, [1, 1], channels, [0; 3]);
    let x = vec![i16::MIN; depth];
    let mut weights = vec![extreme; depth * channels];
    for row in weights.chunks_exact_mut(depth) {
        row[0] = 1;
    }
    let shift = if depth > 1 << 20 { 38 } else { 28 };
    let spec = Q16ConvSpec {
        geometry: ConvGeometry::pointwise(),
        in_channels: depth,
        out_channels: channels,
        weights: &weights,
        bias: None,
        multiplier: &[2.0_f32.powi(-shift)],
        target: Q16Target::full(Rounding::HalfToEven),
    };
    let sum = i128::from(i16::MIN) * (i128::from(extreme) * (depth as i128 - 1) + 1);
    let exact = sum as f64 * 2.0_f64.powi(-shift);
    for isa in Isa::available() {
        let mut y = vec![0; channels];
        run(&spec, isa, 1, &x, map, &mut y, out);
        assert_eq!(y, vec![rounded(exact, spec.target); channels], "{isa:?}");
    }
    for isa in Isa::available() {
        assert!(Q16Conv::new(&Q16ConvSpec { weights: &weights[1..], ..spec }, isa).is_err());
        assert!(Q16Conv::new(&Q16ConvSpec { multiplier: &[f32::NAN], ..spec }, isa).is_err());
    }
}

#[test]
fn sums_and_products_are_exact() {
    let mut random = Random(17);
    for length in [0, 1, 7, 16, 33, 257] {
        let (a, b) = (words(&mut random, length), words(&mut random, length));
        let dims = [1, 1, 1, 1, 1, length];
        let dense = [0, 0, 0, 0, 0, 1];
        let shape = Broadcast::new(dims, dense, dense, dense).unwrap();
        let target = target(&mut random);
        let factors = [random.unit(), random.unit()];
        let scale = random.unit().abs() * 1e-4;
        let real = |at: usize| {
            let [p, q] = [(a[at], factors[0]), (b[at], factors[1])].map(|(x, r)| f64::from(x) * f64::from(r));
            rounded(p + q, target)
        };
        let sums: Vec<i16> = (0..length).map(real).collect();
        let product =
            |at: usize| rounded((i64::from(a[at]) * i64::from(b[at])) as f64 * f64::from(scale), target);
        let products: Vec<i16> = (0..length).map(product).collect();
        let pool = Pool::new(2);
        let mut out = vec![0; length];
        q16_add(factors, target, &shape, &a, &b, &mut out, &pool).unwrap();
        assert_eq!(out, sums);
        q16_mul(scale, target, &shape, &a, &b, &mut out, &pool).unwrap();
        assert_eq!(out, products);
    }
}

#[test]
fn tables_have_every_pattern() {
    let table: Vec<i16> = (0..=u16::MAX).map(|pattern| pattern.reverse_bits().cast_signed()).collect();
    let x: Vec<i16> = (0..=u16::MAX).map(u16::cast_signed).collect();
    let map = gapped(1, [4, 64], 256, [0; 3]);
    let mut y = vec![0; x.len()];
    q16_table(&table, &x, map, &mut y, map, &Pool::new(2)).unwrap();
    assert!(x.iter().zip(&y).all(|(x, y)| x.cast_unsigned().reverse_bits() == y.cast_unsigned()));
    let short = q16_table(&table[1..], &x, map, &mut y, map, &Pool::new(1));
    assert!(matches!(short, Err(Error::Mismatch { what: "table", .. })), "{short:?}");
}

#[test]
fn convolutions_that_do_not_fit_are_refused() {
    let weights = [1; 24];
    let good = Q16ConvSpec {
        geometry: ConvGeometry { groups: 2, kernel: [1, 2], ..ConvGeometry::pointwise() },
        in_channels: 4,
        out_channels: 6,
        weights: &weights,
        bias: None,
        multiplier: &[1.0],
        target: Q16Target::full(Rounding::HalfToEven),
    };
    Q16Conv::new(&good, Isa::best()).unwrap();
    // As many weights as needed each time, so that only what is wrong is.
    let with =
        |in_channels, out_channels, geometry| Q16ConvSpec { in_channels, out_channels, geometry, ..good };
    let g = good.geometry;
    for (wrong, why) in [
        (with(3, 12, ConvGeometry { kernel: [1, 2], ..g }), "inputs of uneven groups"),
        (with(8, 3, g), "outputs of uneven groups"),
        (with(4, 6, ConvGeometry { groups: 0, ..g }), "no groups"),
        (with(0, 6, g), "no inputs"),
        (with(4, 0, g), "no outputs"),
        (with(4, 6, ConvGeometry { kernel: [0, 2], ..g }), "no kernel"),
        (with(4, 6, ConvGeometry { stride: [1, 0], ..g }), "no stride"),
        (with(4, 6, ConvGeometry { dilation: [0, 1], ..g }), "no dilation"),
        (Q16ConvSpec { bias: Some(&[1; 5]), ..good }, "too few biases"),
        (Q16ConvSpec { multiplier: &[1.0; 5], ..good }, "too few multipliers"),
        (Q16ConvSpec { multiplier: &[f32::INFINITY], ..good }, "an infinite multiplier"),
        (Q16ConvSpec { target: Q16Target { clamp: [5, 4], ..good.target }, ..good }, "an empty range"),
        (
            Q16ConvSpec { target: Q16Target { clamp: [40_000, 50_000], ..good.target }, ..good },
            "a range beyond",
        ),
    ] {
        assert!(Q16Conv::new(&wrong, Isa::best()).is_err(), "{why}");
    }
}

/// Halves, which random multipliers never meet: factors are powers of two here, so that no result is off by rounding.
#[test]
fn halves_go_where_the_rounding_says() {
    let x: Vec<i16> = (-40..40).collect();
    let geometry = ConvGeometry::pointwise();
    let (map, dense) = (gapped(1, [8, 10], 1, [0; 3]), [0, 0, 0, 0, 0, 1]);
    let shape = Broadcast::new([1, 1, 1, 1, 1, 80], dense, dense, dense).unwrap();
    let constant = Broadcast::new([1, 1, 1, 1, 1, 80], dense, [0; 6], dense).unwrap();
    for rounding in [Rounding::HalfToEven, Rounding::HalfAwayFromZero] {
        let target = Q16Target::full(rounding);
        let wanted: Vec<i16> = x.iter().map(|&x| rounded(f64::from(x) / 4.0, target)).collect();
        let spec = Q16ConvSpec {
            geometry,
            in_channels: 1,
            out_channels: 1,
            weights: &[1],
            bias: None,
            multiplier: &[0.25],
            target,
        };
        let (mut y, pool) = (vec![0; 80], Pool::new(1));
        for isa in Isa::available() {
            run(&spec, isa, 1, &x, map, &mut y, map);
            assert_eq!(y, wanted);
            // As many channels as panels have, each with an input of its own.
            let (weights, map) = ([1; 80], gapped(1, [1, 1], 80, [0; 3]));
            let geometry = ConvGeometry { groups: 80, ..geometry };
            run(
                &Q16ConvSpec { geometry, in_channels: 80, out_channels: 80, weights: &weights, ..spec },
                isa,
                1,
                &x,
                map,
                &mut y,
                map,
            );
            assert_eq!(y, wanted);
            let diagonal: Vec<i16> = (0..6400).map(|at| i16::from(at % 81 == 0)).collect();
            run(
                &Q16ConvSpec { in_channels: 80, out_channels: 80, weights: &diagonal, ..spec },
                isa,
                1,
                &x,
                map,
                &mut y,
                map,
            );
            assert_eq!(y, wanted);
        }
        q16_mul(0.25, target, &constant, &x, &[1], &mut y, &pool).unwrap();
        assert_eq!(y, wanted);
        q16_add([0.125, 0.125], target, &shape, &x, &x, &mut y, &pool).unwrap();
        assert_eq!(y, wanted);
    }
}

/// From reals and back by the rule of one number, halves, extremes and what is no number among them.
fn border<W: Word>(dtype: DType, zero_points: [i32; 3]) {
    let mut random = Random(16);
    let mut x: Vec<f32> = (0..500).map(|_| (random.below(400_000) as f32 - 200_000.0) / 4.0).collect();
    x.extend([
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e30,
        -1e30,
        0.0,
        -0.0,
        0.499_999_97,
        -0.499_999_97,
    ]);
    let map = Nhwc::dense(1, 1, x.len(), 1);
    for (scale, zero_point) in [1.0, 0.5, 0.037].into_iter().zip(zero_points) {
        let params = QuantParams { scale, zero_point };
        for rounding in [Rounding::HalfToEven, Rounding::HalfAwayFromZero] {
            let expected: Vec<i32> = x.iter().map(|&x| params.quantize_by(rounding, x, dtype)).collect();
            let reals: Vec<f32> = expected.iter().map(|&q| params.dequantize(q)).collect();
            for (isa, pool) in
                Isa::available().flat_map(|isa| [1, 3].map(|threads| (isa, Pool::new(threads))))
            {
                let mut q = vec![W::of_bits(7); x.len()];
                q16_quantize(isa, params, rounding, &x, map, &mut q, map, &pool).expect("integers");
                assert!(
                    q.iter().map(|q| q.widen()).eq(expected.iter().copied()),
                    "{params:?} {rounding:?} {isa:?}"
                );
                let mut y = vec![0.0; x.len()];
                q16_dequantize(isa, params, &q, map, &mut y, map, &pool).expect("reals");
                assert_eq!(y, reals, "{params:?} {isa:?}");
            }
        }
    }
}

#[test]
fn border_of_reals() {
    border::<i16>(DType::I16, [0, -32_768, 1234]);
    border::<u16>(DType::U16, [0, 65_535, 32_768]);
}
