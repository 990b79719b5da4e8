//! 16-bit integers against loops over i128.

mod common;

use common::{gapped, indices};
use triune_kernels::{
    Broadcast, ConvGeometry, Error, Pool, WideConv, WideConvSpec, WideTarget, table_wide, wide_add, wide_mul,
};
use triune_tensor::Rounding;
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

fn rounded(real: f64, target: WideTarget) -> i16 {
    let whole = match target.rounding {
        Rounding::HalfToEven => real.round_ties_even(),
        Rounding::HalfAwayFromZero => real.round(),
    };
    whole.max(f64::from(target.clamp[0])).min(f64::from(target.clamp[1])) as i16
}

fn target(random: &mut Random) -> WideTarget {
    let rounding = [Rounding::HalfToEven, Rounding::HalfAwayFromZero][random.below(2)];
    let clamp = [[-32_768, 32_767], [0, 32_767], [-5, 20_000]][random.below(3)];
    WideTarget { rounding, clamp }
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
    let spec = WideConvSpec {
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
    let conv = WideConv::new(&spec).unwrap();
    for threads in [1, 3] {
        let mut y = vec![77; out_map.span()];
        conv.run(&x, in_map, &mut y, out_map, &Pool::new(threads)).unwrap();
        assert_eq!(y, expected, "{geometry:?} {channels:?} {size:?}");
    }
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

/// Inner products of millions of elements.
#[test]
fn long_products_are_exact() {
    let depth = 1 << 22;
    let map = gapped(1, [1, 1], depth, [0; 3]);
    let out = gapped(1, [1, 1], 1, [0; 3]);
    let x = vec![i16::MIN; depth];
    let mut weights = vec![i16::MIN; depth];
    weights[0] = 1;
    let geometry = ConvGeometry::pointwise();
    // 2³⁰ · (2²² − 1) − 2¹⁵, of which the multiplier leaves the middle.
    let spec = WideConvSpec {
        geometry,
        in_channels: depth,
        out_channels: 1,
        weights: &weights,
        bias: None,
        multiplier: &[2.0_f32.powi(-38)],
        target: WideTarget::full(Rounding::HalfToEven),
    };
    let exact = (i128::from(1_i64 << 30) * (depth as i128 - 1) - (1 << 15)) as f64 * 2.0_f64.powi(-38);
    let conv = WideConv::new(&spec).unwrap();
    let mut y = [0];
    conv.run(&x, map, &mut y, out, &Pool::new(1)).unwrap();
    assert_eq!(y, [rounded(exact, spec.target)]);
    assert!(WideConv::new(&WideConvSpec { weights: &weights[1..], ..spec }).is_err());
    assert!(WideConv::new(&WideConvSpec { multiplier: &[f32::NAN], ..spec }).is_err());
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
        wide_add(factors, target, &shape, &a, &b, &mut out, &pool).unwrap();
        assert_eq!(out, sums);
        wide_mul(scale, target, &shape, &a, &b, &mut out, &pool).unwrap();
        assert_eq!(out, products);
    }
}

#[test]
fn tables_have_every_pattern() {
    let table: Vec<i16> = (0..=u16::MAX).map(|pattern| pattern.reverse_bits().cast_signed()).collect();
    let x: Vec<i16> = (0..=u16::MAX).map(u16::cast_signed).collect();
    let map = gapped(1, [4, 64], 256, [0; 3]);
    let mut y = vec![0; x.len()];
    table_wide(&table, &x, map, &mut y, map, &Pool::new(2)).unwrap();
    assert!(x.iter().zip(&y).all(|(x, y)| x.cast_unsigned().reverse_bits() == y.cast_unsigned()));
    let short = table_wide(&table[1..], &x, map, &mut y, map, &Pool::new(1));
    assert!(matches!(short, Err(Error::Mismatch { what: "table", .. })), "{short:?}");
}

#[test]
fn convolutions_that_do_not_fit_are_refused() {
    let weights = [1; 24];
    let good = WideConvSpec {
        geometry: ConvGeometry { groups: 2, kernel: [1, 2], ..ConvGeometry::pointwise() },
        in_channels: 4,
        out_channels: 6,
        weights: &weights,
        bias: None,
        multiplier: &[1.0],
        target: WideTarget::full(Rounding::HalfToEven),
    };
    WideConv::new(&good).unwrap();
    // As many weights as needed each time, so that only what is wrong is.
    let with =
        |in_channels, out_channels, geometry| WideConvSpec { in_channels, out_channels, geometry, ..good };
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
        (WideConvSpec { bias: Some(&[1; 5]), ..good }, "too few biases"),
        (WideConvSpec { multiplier: &[1.0; 5], ..good }, "too few multipliers"),
        (WideConvSpec { multiplier: &[f32::INFINITY], ..good }, "an infinite multiplier"),
        (WideConvSpec { target: WideTarget { clamp: [5, 4], ..good.target }, ..good }, "an empty range"),
        (
            WideConvSpec { target: WideTarget { clamp: [40_000, 50_000], ..good.target }, ..good },
            "a range beyond",
        ),
    ] {
        assert!(WideConv::new(&wrong).is_err(), "{why}");
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
        let target = WideTarget::full(rounding);
        let wanted: Vec<i16> = x.iter().map(|&x| rounded(f64::from(x) / 4.0, target)).collect();
        let spec = WideConvSpec {
            geometry,
            in_channels: 1,
            out_channels: 1,
            weights: &[1],
            bias: None,
            multiplier: &[0.25],
            target,
        };
        let (mut y, pool) = (vec![0; 80], Pool::new(1));
        WideConv::new(&spec).unwrap().run(&x, map, &mut y, map, &pool).unwrap();
        assert_eq!(y, wanted);
        wide_mul(0.25, target, &constant, &x, &[1], &mut y, &pool).unwrap();
        assert_eq!(y, wanted);
        wide_add([0.125, 0.125], target, &shape, &x, &x, &mut y, &pool).unwrap();
        assert_eq!(y, wanted);
    }
}
