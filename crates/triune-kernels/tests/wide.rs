//! 16-bit integers against loops over i128.

mod common;

use common::{Noise, gapped, indices};
use triune_kernels::{
    Broadcast, ConvGeometry, Error, Pool, WideConv, WideConvSpec, WideTarget, table_wide, wide_add, wide_mul,
};
use triune_tensor::Rounding;

/// Extremes are as likely as all else.
fn word(noise: &mut Noise) -> i16 {
    match noise.below(8) {
        0 => i16::MIN,
        1 => i16::MAX,
        _ => noise.next() as i16,
    }
}

fn words(noise: &mut Noise, count: usize) -> Vec<i16> {
    (0..count).map(|_| word(noise)).collect()
}

fn rounded(real: f64, target: WideTarget) -> i16 {
    let whole = match target.rounding {
        Rounding::HalfToEven => real.round_ties_even(),
        Rounding::HalfAwayFromZero => real.round(),
    };
    whole.max(f64::from(target.clamp[0])).min(f64::from(target.clamp[1])) as i16
}

fn target(noise: &mut Noise) -> WideTarget {
    let rounding = [Rounding::HalfToEven, Rounding::HalfAwayFromZero][noise.below(2)];
    let clamp = [[-32_768, 32_767], [0, 32_767], [-5, 20_000]][noise.below(3)];
    WideTarget { rounding, clamp }
}

fn convolve(noise: &mut Noise, geometry: ConvGeometry, channels: [usize; 2], size: [usize; 2]) {
    let [ci, co] = channels;
    let Some(out) = geometry.output(size[0], size[1]) else { return };
    let in_map = gapped(1 + noise.below(2), size, ci, [noise.below(3), noise.below(3), noise.below(3)]);
    let out_map = gapped(in_map.n, out, co, [noise.below(3), noise.below(3), 0]);
    let x = words(noise, in_map.span());
    let inner = ci / geometry.groups;
    let [kh, kw] = geometry.kernel;
    let weights = words(noise, co * kh * kw * inner);
    let bias: Vec<i32> = (0..co).map(|_| noise.next() as i32).collect();
    let multiplier: Vec<f32> = (0..co).map(|_| noise.unit().abs() * 1e-5).collect();
    let target = target(noise);
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
    let mut noise = Noise(16);
    for _ in 0..120 {
        let groups = [1, 1, 2, 5][noise.below(4)];
        let channelwise = noise.below(4) == 0;
        let (ci, co) = (groups * noise.between(1, 9), groups * noise.between(1, 19));
        let (groups, ci, co) = if channelwise { (ci, ci, ci) } else { (groups, ci, co) };
        let geometry = ConvGeometry {
            kernel: [noise.between(1, 3), noise.between(1, 3)],
            stride: [noise.between(1, 2), noise.between(1, 2)],
            dilation: [noise.between(1, 2), noise.between(1, 2)],
            pad: [noise.below(3), noise.below(3), noise.below(3), noise.below(3)],
            groups,
        };
        let size = [noise.between(1, 9), noise.between(1, 11)];
        convolve(&mut noise, geometry, [ci, co], size);
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
    let mut noise = Noise(17);
    for length in [0, 1, 7, 16, 33, 257] {
        let (a, b) = (words(&mut noise, length), words(&mut noise, length));
        let dims = [1, 1, 1, 1, 1, length];
        let dense = [0, 0, 0, 0, 0, 1];
        let shape = Broadcast::new(dims, dense, dense, dense).unwrap();
        let target = target(&mut noise);
        let factors = [noise.unit(), noise.unit()];
        let scale = noise.unit().abs() * 1e-4;
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
