//! Reductions on every instruction set and thread count, against sums element by element.

use crate::common::{isas, offsets};
use triune_kernels::{Isa, Pool, Reduction, arg_reduce, reduce};
use triune_tensor::function::ReduceKind;
use triune_testing::Random;

const KINDS: [ReduceKind; 6] = [
    ReduceKind::Sum,
    ReduceKind::SumSquare,
    ReduceKind::Product,
    ReduceKind::Min,
    ReduceKind::Max,
    ReduceKind::Mean,
];

struct Case {
    dims: [usize; 6],
    input: [usize; 6],
    output: [usize; 6],
    reduced: [bool; 6],
}

impl Case {
    /// Extents and strides of a random order of axes with gaps; some axes of the input repeat.
    fn random(random: &mut Random) -> Self {
        let mut case = Self {
            dims: std::array::from_fn(|_| random.between(1, 6)),
            input: [0; 6],
            output: [0; 6],
            reduced: std::array::from_fn(|_| random.below(2) == 0),
        };
        case.dims[random.below(6)] = [1, 7, 40, 300][random.below(4)];
        let mut order = [0, 1, 2, 3, 4, 5];
        for axis in 0..6 {
            order.swap(axis, random.between(axis, 5));
        }
        let (mut input, mut output) = (1, 1);
        for axis in order {
            if random.below(8) > 0 {
                case.input[axis] = input;
                input = input * case.dims[axis] + random.below(2);
            }
            if !case.reduced[axis] {
                case.output[axis] = output;
                output = output * case.dims[axis] + random.below(2);
            }
        }
        case
    }

    fn nest(&self) -> Reduction {
        Reduction::new(self.dims, self.input, self.output, self.reduced).expect("a nest")
    }

    /// For every element, where it stands in the input and where its result.
    fn positions(&self) -> impl Iterator<Item = [usize; 2]> + '_ {
        let kept = std::array::from_fn(|axis| if self.reduced[axis] { 0 } else { self.output[axis] });
        offsets(self.dims, [self.input, kept])
    }

    fn spans(&self) -> [usize; 2] {
        self.positions().fold([0; 2], |span, at| [span[0].max(at[0] + 1), span[1].max(at[1] + 1)])
    }
}

fn fold(kind: ReduceKind, sum: f64, x: f64) -> f64 {
    match kind {
        ReduceKind::Sum | ReduceKind::Mean => sum + x,
        ReduceKind::SumSquare => sum + x * x,
        ReduceKind::Product => sum * x,
        ReduceKind::Min => sum.min(x),
        ReduceKind::Max => sum.max(x),
    }
}

fn start(kind: ReduceKind) -> f64 {
    match kind {
        ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::Mean => 0.0,
        ReduceKind::Product => 1.0,
        ReduceKind::Min => f64::INFINITY,
        ReduceKind::Max => f64::NEG_INFINITY,
    }
}

#[test]
fn floats_are_rounded_once_and_alike_everywhere() {
    let mut random = Random(31);
    let pools = [Pool::new(1), Pool::new(3)];
    for round in 0..60 {
        let case = Case::random(&mut random);
        let nest = case.nest();
        let [input, output] = case.spans();
        let x = random.floats(input);
        for kind in KINDS {
            let mut expected = vec![None; output];
            for [from, to] in case.positions() {
                let sum = expected[to].get_or_insert(start(kind));
                *sum = fold(kind, *sum, f64::from(x[from]));
            }
            let mut first: Option<Vec<f32>> = None;
            for isa in isas() {
                for pool in &pools {
                    let mut out = vec![f32::NAN; output];
                    reduce(isa, kind, &nest, &x, &mut out, pool).expect("fitting slices");
                    for (got, expected) in out.iter().zip(&expected) {
                        let Some(sum) = expected else {
                            assert!(got.is_nan(), "a gap was written");
                            continue;
                        };
                        let exact = if kind == ReduceKind::Mean { sum / nest.count() as f64 } else { *sum };
                        // One rounding to f32, and the order of f64 sums.
                        let bound = f64::from(f32::EPSILON) * 0.51 * exact.abs() + 1e-12;
                        assert!((f64::from(*got) - exact).abs() <= bound, "{round} {kind:?}: {got} {exact}");
                    }
                    let bits: Vec<f32> = out;
                    let first = first.get_or_insert_with(|| bits.clone());
                    assert!(
                        first.iter().zip(&bits).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{round} {kind:?} on {}",
                        isa.name()
                    );
                }
            }
        }
    }
}

#[test]
fn integers_wrap_around() {
    let mut random = Random(32);
    let pool = Pool::new(2);
    for _ in 0..40 {
        let case = Case::random(&mut random);
        let nest = case.nest();
        let [input, output] = case.spans();
        let x: Vec<i8> = random.bytes(input).into_iter().map(|byte| byte as i8).collect();
        for kind in KINDS {
            let mut expected = vec![None; output];
            for [from, to] in case.positions() {
                let x = i64::from(x[from]);
                let sum: &mut i64 = expected[to].get_or_insert(match kind {
                    ReduceKind::Product => 1,
                    ReduceKind::Min => 127,
                    ReduceKind::Max => -128,
                    _ => 0,
                });
                *sum = match kind {
                    ReduceKind::Sum | ReduceKind::Mean => *sum + x,
                    ReduceKind::SumSquare => *sum + x * x,
                    ReduceKind::Product => sum.wrapping_mul(x),
                    ReduceKind::Min => x.min(*sum),
                    ReduceKind::Max => x.max(*sum),
                };
            }
            for isa in isas() {
                let mut out = vec![0_i8; output];
                reduce(isa, kind, &nest, &x, &mut out, &pool).expect("fitting slices");
                for (got, expected) in out.iter().zip(&expected) {
                    let Some(sum) = *expected else { continue };
                    let sum = if kind == ReduceKind::Mean { sum / nest.count() as i64 } else { sum };
                    assert_eq!(*got, sum as i8, "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn nan_wins_and_nothing_is_refused() {
    let row = |len| {
        Reduction::new(
            [1, 1, 1, 1, 1, len],
            [0, 0, 0, 0, 0, 1],
            [0; 6],
            [false, false, false, false, false, true],
        )
    };
    let nest = row(40).expect("a nest");
    let mut x = [1.0; 40];
    x[17] = f32::NAN;
    for kind in KINDS {
        let mut out = [0.0];
        reduce(Isa::best(), kind, &nest, &x, &mut out, &Pool::new(1)).expect("fitting slices");
        assert!(out[0].is_nan(), "{kind:?}");
    }
    assert!(row(0).is_err());
    assert!(reduce(Isa::best(), ReduceKind::Sum, &nest, &x[..39], &mut [0.0], &Pool::new(1)).is_err());
    assert!(reduce(Isa::best(), ReduceKind::Sum, &nest, &x, &mut [], &Pool::new(1)).is_err());
}

#[test]
fn positions() {
    let mut random = Random(33);
    for _ in 0..40 {
        let mut case = Case::random(&mut random);
        let axis = random.below(6);
        case.reduced = std::array::from_fn(|index| index == axis);
        case.output[axis] = 0;
        let mut step = 1;
        for index in (0..6).rev().filter(|&index| index != axis) {
            case.output[index] = step;
            step *= case.dims[index];
        }
        let [input, output] = case.spans();
        let x: Vec<i16> = (0..input).map(|_| random.below(5) as i16 - 2).collect();
        for (largest, last) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut best: Vec<Option<(i16, i64)>> = vec![None; output];
            let mut seen = vec![0_i64; output];
            for [from, to] in case.positions() {
                // Row-major order: positions of one result come in the order of the axis.
                let index = seen[to];
                seen[to] += 1;
                let value = if largest { x[from] } else { -x[from] };
                match &mut best[to] {
                    Some(best) if value > best.0 || last && value == best.0 => *best = (value, index),
                    Some(_) => {}
                    slot => *slot = Some((value, index)),
                }
            }
            let expected: Vec<i64> = best.iter().map(|best| best.map_or(-1, |best| best.1)).collect();
            for isa in Isa::available() {
                let mut out = vec![-1_i64; output];
                let pool = Pool::new(2);
                arg_reduce(isa, largest, last, &case.nest(), &x, &mut out, &pool).expect("fitting slices");
                assert_eq!(out, expected, "largest {largest}, last {last}, {isa:?}");
            }
        }
    }
}

/// Extremes of short rows, several at a time: a NaN wins, and of zeros of both signs every instruction set takes the same.
#[test]
fn extremes_among_reals() {
    let mut random = Random(35);
    let rows = 40;
    for len in [1, 4, 8, 15, 16, 17, 56, 100, 255] {
        for nans in [0, 1, 5] {
            let values = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY];
            let mut x: Vec<f32> = (0..len * rows)
                .map(|_| {
                    let several = 2 + random.below(5);
                    values[random.below(several)]
                })
                .collect();
            for _ in 0..nans {
                let at = random.below(x.len());
                x[at] = f32::NAN;
            }
            let nest = Reduction::new(
                [1, 1, 1, 1, rows, len],
                [0, 0, 0, 0, len, 1],
                [0, 0, 0, 0, 1, 0],
                [false, false, false, false, false, true],
            )
            .expect("a nest");
            for kind in [ReduceKind::Max, ReduceKind::Min] {
                let mut first: Option<Vec<u32>> = None;
                for isa in isas() {
                    let mut out = vec![0.5; rows];
                    reduce(isa, kind, &nest, &x, &mut out, &Pool::new(1)).expect("fitting slices");
                    for (row, &got) in x.chunks(len).zip(&out) {
                        let join = if kind == ReduceKind::Max { f32::max } else { f32::min };
                        let best = row.iter().copied().reduce(join).expect("elements");
                        let has_nan = row.iter().any(|x| x.is_nan());
                        assert!(if has_nan { got.is_nan() } else { got == best }, "{kind:?} {got} {row:?}");
                    }
                    let bits: Vec<u32> = out.iter().map(|x| x.to_bits()).collect();
                    assert_eq!(
                        *first.get_or_insert_with(|| bits.clone()),
                        bits,
                        "{kind:?} on {}",
                        isa.name()
                    );
                }
            }
        }
    }
}

/// A NaN wins, the first of several or the last, wherever in a row or a column it stands; zeros of both signs are equal.
#[test]
fn positions_among_reals() {
    let mut random = Random(34);
    for len in [1, 2, 16, 17, 33, 100] {
        for others in [1, 3, 40] {
            let values = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY];
            let mut x: Vec<f32> = (0..len * others).map(|_| values[random.below(6)]).collect();
            for _ in 0..random.below(4) {
                let at = random.below(x.len());
                x[at] = f32::NAN;
            }
            // Along rows that lie apart, and along columns of neighbours.
            for (row, step) in [(len, 1), (1, others)] {
                let dims = [1, 1, 1, 1, others, len];
                let nest = Reduction::new(
                    dims,
                    [0, 0, 0, 0, row, step],
                    [0, 0, 0, 0, 1, 0],
                    [false, false, false, false, false, true],
                )
                .expect("a nest");
                for (largest, last) in [(false, false), (false, true), (true, false), (true, true)] {
                    let expected: Vec<i32> = (0..others)
                        .map(|result| {
                            let key = |at: usize| x[result * row + at * step];
                            let beats = |a: f32, b: f32| {
                                (if largest { a > b } else { a < b }) || a.is_nan() && !b.is_nan()
                            };
                            (0..len).fold(0, |best, at| {
                                let wins = beats(key(at), key(best)) || last && !beats(key(best), key(at));
                                if wins { at } else { best }
                            }) as i32
                        })
                        .collect();
                    for isa in Isa::available() {
                        let mut out = vec![-1_i32; others];
                        arg_reduce(isa, largest, last, &nest, &x, &mut out, &Pool::new(1)).expect("fits");
                        assert_eq!(out, expected, "{x:?} {largest} {last} {isa:?}");
                    }
                }
            }
        }
    }
}
