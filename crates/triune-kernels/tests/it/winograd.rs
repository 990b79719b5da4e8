//! Winograd's filtering on every instruction set, against its definition to the bit, and against nine products by their error.

use std::sync::Arc;

use crate::common::{gapped, indices, isas, same_bits};
use triune_kernels::{ConvGeometry, FConv, FConvSpec, Filter, Isa, Nhwc, PackedFilter, Pool};
use triune_tensor::function::UnaryKind;
use triune_testing::Random;

const GEOMETRY: ConvGeometry =
    ConvGeometry { kernel: [3, 3], stride: [1, 1], dilation: [1, 1], pad: [1, 1, 1, 1], groups: 1 };

struct Case {
    pad: [usize; 4],
    batch: usize,
    size: [usize; 2],
    channels: [usize; 2],
    bias: bool,
    residual: bool,
    activation: UnaryKind,
    gaps: [usize; 3],
}

impl Case {
    fn maps(&self) -> Option<[Nhwc; 2]> {
        let [ci, co] = self.channels;
        let out = ConvGeometry { pad: self.pad, ..GEOMETRY }.output(self.size[0], self.size[1])?;
        let map = gapped(self.batch, self.size, ci, self.gaps);
        Some([map, gapped(self.batch, out, co, [self.gaps[1], self.gaps[2], self.gaps[0]])])
    }

    fn run(
        &self,
        isa: Isa,
        threads: usize,
        x: &[f32],
        weights: &[f32],
        bias: &[f32],
        residual: &[f32],
    ) -> Vec<f32> {
        let [in_map, out_map] = self.maps().unwrap();
        let [ci, co] = self.channels;
        let spec = FConvSpec {
            geometry: ConvGeometry { pad: self.pad, ..GEOMETRY },
            in_channels: ci,
            out_channels: co,
            bias: self.bias.then_some(bias),
            residual: self.residual,
            activation: self.activation,
        };
        let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        let packed = PackedFilter::winograd(&Filter::dense(&bytes, co, 9, ci), isa).unwrap();
        let conv = FConv::new(&spec, packed.into()).unwrap();
        let pool = Pool::new(threads);
        // An odd start, so that nothing relies on the scratch's alignment or content.
        let mut scratch = vec![0xA5u8; conv.scratch_bytes(threads) + 3];
        let mut y = vec![777.0f32; out_map.span()];
        let added = self.residual.then_some((residual, out_map));
        conv.run(x, in_map, added, &mut y, out_map, &mut scratch[3..], &pool).unwrap();
        y
    }
}

/// Four values along one axis of a window become four points.
fn window([a, b, c, d]: [f32; 4]) -> [f32; 4] {
    [a - c, b + c, c - b, b - d]
}

/// Four points become two results.
fn results([a, b, c, d]: [f32; 4]) -> [f32; 2] {
    [a + b + c, b - c - d]
}

/// Three taps become four points.
fn taps([a, b, c]: [f64; 3]) -> [f64; 4] {
    [a, (a + b + c) * 0.5, (a - b + c) * 0.5, c]
}

/// `f` along the columns of a matrix, then along its rows.
fn twice<T: Copy + Default, const N: usize, const M: usize>(
    matrix: [[T; N]; N],
    f: impl Fn([T; N]) -> [T; M],
) -> [[T; M]; M] {
    let columns: [[T; M]; N] = std::array::from_fn(|column| f(matrix.map(|row| row[column])));
    std::array::from_fn(|row| f(columns.map(|column| column[row])))
}

/// The definition: the sum of one result.
fn oracle(case: &Case, x: &[f32], map: Nhwc, weights: &[f32], [n, h, w, o]: [usize; 4]) -> f32 {
    let [ci, _] = case.channels;
    let mut sums = [[0.0f32; 4]; 4];
    for i in 0..ci {
        let d = std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                let y = (h / 2 * 2 + row).wrapping_sub(case.pad[0]);
                let x_at = (w / 2 * 2 + column).wrapping_sub(case.pad[1]);
                if y < map.h && x_at < map.w { x[map.offset(n, y, x_at) + i] } else { 0.0 }
            })
        });
        let v = twice(d, window);
        let g = std::array::from_fn(|row| {
            std::array::from_fn(|column| f64::from(weights[(o * 9 + 3 * row + column) * ci + i]))
        });
        let u = twice(g, taps);
        for row in 0..4 {
            for column in 0..4 {
                sums[row][column] = v[row][column].mul_add(u[row][column] as f32, sums[row][column]);
            }
        }
    }
    twice(sums, results)[h % 2][w % 2]
}

/// Nine products per channel, exact but for f64.
fn direct(case: &Case, x: &[f32], map: Nhwc, weights: &[f32], [n, h, w, o]: [usize; 4]) -> f64 {
    let [ci, _] = case.channels;
    let mut sum = 0.0;
    for tap in 0..9 {
        let (y, x_at) = ((h + tap / 3).wrapping_sub(case.pad[0]), (w + tap % 3).wrapping_sub(case.pad[1]));
        if y < map.h && x_at < map.w {
            for i in 0..ci {
                let value = f64::from(x[map.offset(n, y, x_at) + i]);
                sum += value * f64::from(weights[(o * 9 + tap) * ci + i]);
            }
        }
    }
    sum
}

/// What a sum comes to at most.
fn reach(x: &[f32], weights: &[f32], channels: usize) -> f64 {
    let largest = |values: &[f32]| {
        values.iter().filter(|value| value.is_finite()).fold(0.0, |most: f32, value| most.max(value.abs()))
    };
    9.0 * channels as f64 * f64::from(largest(x)) * f64::from(largest(weights))
}

#[test]
fn filterings_equal_their_definition() {
    let mut random = Random(7);
    let activations = [
        UnaryKind::Identity,
        UnaryKind::Relu,
        UnaryKind::Clip([-0.5, 0.75]),
        UnaryKind::Silu,
        UnaryKind::LeakyRelu(0.1),
    ];
    for round in 0..40 {
        let case = Case {
            pad: std::array::from_fn(|_| random.below(4)),
            batch: random.between(1, 3),
            size: [random.between(1, 13), random.between(1, 19)],
            channels: [
                [1, 3, 8, 16, 21, 40][random.below(6)],
                [1, 5, 8, 16, 17, 33, 40, 64][random.below(8)],
            ],
            bias: round % 3 != 0,
            residual: round % 4 == 1,
            activation: activations[round % activations.len()],
            gaps: [[0, 0, 0], [0, 2, 1], [3, 0, 5]][round % 3],
        };
        let Some([in_map, out_map]) = case.maps() else { continue };
        let (x, weights) =
            (random.floats(in_map.span()), random.floats(9 * case.channels[0] * case.channels[1]));
        let (bias, residual) = (random.floats(case.channels[1]), random.floats(out_map.span()));
        let reach = reach(&x, &weights, case.channels[0]);
        let mut expected = vec![777.0f32; out_map.span()];
        for (n, h, w, c) in indices(out_map) {
            let at = out_map.offset(n, h, w) + c;
            let place = [n, h, w, c];
            let sum = oracle(&case, &x, in_map, &weights, place);
            let exact = direct(&case, &x, in_map, &weights, place);
            assert!((f64::from(sum) - exact).abs() <= 1e-7 * reach, "{sum} for {exact}");
            let mut y = sum + if case.bias { bias[c] } else { 0.0 };
            if case.residual {
                y += residual[at];
            }
            expected[at] = match case.activation {
                UnaryKind::Relu => y.max(0.0),
                UnaryKind::Clip([low, high]) => y.clamp(low, high),
                _ => y,
            };
        }
        if !matches!(case.activation, UnaryKind::Identity | UnaryKind::Relu | UnaryKind::Clip(_)) {
            let (mut flat, map) = (vec![0.0; expected.len()], Nhwc::dense(1, 1, expected.len(), 1));
            triune_kernels::unary(
                Isa::Scalar,
                case.activation,
                &expected,
                map,
                &mut flat,
                map,
                &Pool::new(1),
            )
            .unwrap();
            for (n, h, w, c) in indices(out_map) {
                let at = out_map.offset(n, h, w) + c;
                expected[at] = flat[at];
            }
        }
        for isa in isas() {
            for threads in [1, 3] {
                let y = case.run(isa, threads, &x, &weights, &bias, &residual);
                let what = format!("{isa:?} {threads} threads {:?} {:?}", case.size, case.channels);
                same_bits(&expected, &y, &what);
            }
        }
    }
}

#[test]
fn what_is_not_finite_reaches_the_windows_that_see_it() {
    let case = Case {
        pad: [1; 4],
        batch: 1,
        size: [9, 10],
        channels: [5, 18],
        bias: true,
        residual: true,
        activation: UnaryKind::Identity,
        gaps: [0; 3],
    };
    let [in_map, out_map] = case.maps().unwrap();
    let mut random = Random(3);
    let weights = random.floats(9 * 5 * 18);
    let (bias, residual) = (random.floats(18), random.floats(out_map.span()));
    for (value, [row, column]) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .into_iter()
        .flat_map(|value| [[4, 5], [3, 6], [0, 0], [8, 9]].map(|at| (value, at)))
    {
        let mut x = random.floats(in_map.span());
        let reach = reach(&x, &weights, 5);
        x[in_map.offset(0, row, column) + 2] = value;
        for isa in isas() {
            let y = case.run(isa, 1, &x, &weights, &bias, &residual);
            for (n, h, w, c) in indices(out_map) {
                let at = out_map.offset(n, h, w) + c;
                let exact = direct(&case, &x, in_map, &weights, [n, h, w, c])
                    + f64::from(bias[c])
                    + f64::from(residual[at]);
                let same = (exact.is_nan() && y[at].is_nan())
                    || (exact.is_infinite() && f64::from(y[at]) == exact)
                    || (f64::from(y[at]) - exact).abs() <= 1e-7 * reach;
                assert!(same, "{isa:?} {value} at {row}, {column}: [{h}, {w}, {c}] {} for {exact}", y[at]);
            }
        }
    }
}

#[test]
fn misfits_are_errors() {
    let bytes = vec![0u8; 4 * 9 * 4 * 8];
    let isa = Isa::best();
    assert!(PackedFilter::winograd(&Filter::dense(&bytes, 8, 9, 5), isa).is_err());
    assert!(PackedFilter::winograd(&Filter::dense(&bytes, 8, 4, 4), isa).is_err());
    assert!(PackedFilter::winograd(&Filter::dense(&bytes, 0, 9, 4), isa).is_err());
    let packed = Arc::new(PackedFilter::winograd(&Filter::dense(&bytes, 8, 9, 4), isa).unwrap());
    let spec = FConvSpec {
        geometry: GEOMETRY,
        in_channels: 4,
        out_channels: 8,
        bias: None,
        residual: false,
        activation: UnaryKind::Identity,
    };
    FConv::new(&spec, Arc::clone(&packed)).unwrap();
    for geometry in [
        ConvGeometry { stride: [2, 1], ..GEOMETRY },
        ConvGeometry { dilation: [1, 2], ..GEOMETRY },
        ConvGeometry { kernel: [1, 9], ..GEOMETRY },
    ] {
        assert!(FConv::new(&FConvSpec { geometry, ..spec }, Arc::clone(&packed)).is_err(), "{geometry:?}");
    }
}

#[test]
fn it_is_chosen_by_shape() {
    assert!(FConv::gains_by_winograd(&GEOMETRY, [64, 64], [56, 56]));
    assert!(!FConv::gains_by_winograd(&GEOMETRY, [3, 64], [56, 56]));
    assert!(!FConv::gains_by_winograd(&GEOMETRY, [64, 2], [56, 56]));
    assert!(!FConv::gains_by_winograd(&GEOMETRY, [512, 512], [7, 7]));
    let other = ConvGeometry { stride: [2, 2], ..GEOMETRY };
    assert!(!FConv::gains_by_winograd(&other, [64, 64], [56, 56]));
}
