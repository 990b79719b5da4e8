//! Elements picked by index and put in order, on every thread count, against loops.

use std::cmp::Ordering;

use crate::common::{extents, offsets, span, strides};
use triune_kernels::{Error, Isa, OrderSpec, Pool, Take, TakeSpec, order};
use triune_tensor::function::ScatterKind;
use triune_testing::Random;

/// A nest whose results each have `count` indices.
struct Case {
    spec: TakeSpec,
    source: Vec<i32>,
    indices: Vec<i64>,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let dims = extents(random, 3);
        let count = random.between(1, 3);
        let (mut extents, mut axes) = ([0; 6], [0; 6]);
        let own = strides(random, dims, true);
        // The indexed axes lie outside of what the nest itself walks over.
        let mut next = span(dims, own) + random.below(2);
        for axis in 0..count {
            extents[axis] = random.between(1, 5);
            axes[axis] = next;
            next *= extents[axis];
        }
        let places = strides(random, dims, true);
        let spec = TakeSpec {
            dims,
            source: own,
            indices: places,
            output: strides(random, dims, false),
            count,
            index_stride: span(dims, places),
            extents,
            strides: axes,
        };
        let reach: usize = (0..count).map(|axis| (extents[axis] - 1) * axes[axis]).sum();
        let source = (0..span(dims, own) + reach).map(|_| random.next() as i32).collect();
        let one = |axis: usize, random: &mut Random| {
            let extent = extents[axis];
            random.below(2 * extent) as i64 - extent as i64
        };
        let indices = (0..count)
            .flat_map(|axis| (0..spec.index_stride).map(move |_| axis))
            .map(|axis| one(axis, random));
        Self { spec, source, indices: indices.collect() }
    }

    fn want(&self) -> Vec<i32> {
        let TakeSpec { dims, source, indices, output, .. } = self.spec;
        let mut want = vec![-1; span(dims, output)];
        for [out, from, at] in offsets(dims, [output, source, indices]) {
            let place = (0..self.spec.count).map(|axis| {
                let index = self.indices[at + axis * self.spec.index_stride];
                let extent = self.spec.extents[axis] as i64;
                index.rem_euclid(extent) as usize * self.spec.strides[axis]
            });
            want[out] = self.source[from + place.sum::<usize>()];
        }
        want
    }
}

#[test]
fn elements_are_picked_by_index() {
    let mut random = Random(101);
    let pools = [Pool::new(1), Pool::new(3)];
    for _ in 0..120 {
        let case = Case::random(&mut random);
        let take = Take::new(case.spec).expect("a nest");
        let want = case.want();
        let narrow: Vec<i32> = case.indices.iter().map(|&index| index as i32).collect();
        for (isa, pool) in Isa::available().flat_map(|isa| pools.iter().map(move |pool| (isa, pool))) {
            let mut out = vec![-1; want.len()];
            take.run(isa, &case.source, &case.indices, &mut out, pool).expect("fitting slices");
            assert_eq!(out, want);
            out.fill(-1);
            take.run(isa, &case.source, &narrow, &mut out, pool).expect("fitting slices");
            assert_eq!(out, want, "indices of 32 bits");
            let short = case.source.len() - 1;
            assert!(take.run(isa, &case.source[..short], &case.indices, &mut out, pool).is_err());
            assert!(take.run(isa, &case.source, &case.indices[1..], &mut out, pool).is_err());
            assert!(take.run(isa, &case.source, &case.indices, &mut out[1..], pool).is_err());
        }
    }
}

impl Case {
    /// What the target becomes of updates that lie as results would, all in `f64`.
    fn put(&self, target: &[i32], updates: &[i32], together: impl Fn(i64, i64) -> i64) -> Vec<i32> {
        let TakeSpec { dims, source, indices, output, .. } = self.spec;
        let mut want = target.to_vec();
        let mut all: Vec<[usize; 3]> = offsets(dims, [output, source, indices]).collect();
        all.sort_unstable();
        for [from, to, at] in all {
            let place = (0..self.spec.count).map(|axis| {
                let index = self.indices[at + axis * self.spec.index_stride];
                index.rem_euclid(self.spec.extents[axis] as i64) as usize * self.spec.strides[axis]
            });
            let own = &mut want[to + place.sum::<usize>()];
            *own = together(i64::from(*own), i64::from(updates[from])) as i32;
        }
        want
    }
}

#[test]
fn elements_are_put_where_they_would_be_picked() {
    let mut random = Random(103);
    for _ in 0..80 {
        let case = Case::random(&mut random);
        let places = Take::new(case.spec).expect("a nest");
        let updates: Vec<i32> =
            (0..span(case.spec.dims, case.spec.output)).map(|_| random.next() as i32).collect();
        let narrow: Vec<i32> = case.indices.iter().map(|&index| index as i32).collect();
        for &kind in ScatterKind::ALL {
            let together = |a: i64, b: i64| match kind {
                ScatterKind::Set => b,
                ScatterKind::Add => a.wrapping_add(b),
                ScatterKind::Mul => a.wrapping_mul(b),
                ScatterKind::Min => a.min(b),
                ScatterKind::Max => a.max(b),
            };
            let want = case.put(&case.source, &updates, together);
            let mut target = case.source.clone();
            places.put_with(&updates, &case.indices, &mut target, kind).expect("fitting slices");
            assert_eq!(target, want, "{kind:?}");
            let mut target = case.source.clone();
            places.put_with(&updates, &narrow, &mut target, kind).expect("fitting slices");
            assert_eq!(target, want, "{kind:?}, indices of 32 bits");
        }
        let mut target = case.source.clone();
        let short = target.len() - 1;
        assert!(places.put(&updates, &case.indices, &mut target[..short]).is_err());
        assert!(places.put(&updates[1..], &case.indices, &mut target).is_err());
        assert!(places.put(&updates, &case.indices[1..], &mut target).is_err());
    }
}

#[test]
fn what_is_no_number_wins_and_stays() {
    let spec = TakeSpec {
        dims: [1, 1, 1, 1, 1, 4],
        source: [0; 6],
        indices: [0, 0, 0, 0, 0, 1],
        output: [0, 0, 0, 0, 0, 1],
        count: 1,
        index_stride: 0,
        extents: [3, 1, 1, 1, 1, 1],
        strides: [1, 0, 0, 0, 0, 0],
    };
    let places = Take::new(spec).expect("a nest");
    for (kind, rest) in [(ScatterKind::Min, -1.0), (ScatterKind::Max, 3.0)] {
        let mut target = [f32::NAN, 0.0, 1.0];
        places.put_with(&[5.0, f32::NAN, -1.0, 3.0], &[0_i64, -2, 2, 2], &mut target, kind).expect("fits");
        assert!(target[0].is_nan() && target[1].is_nan());
        assert_eq!(target[2], if rest < 0.0 { -1.0 } else { 3.0 });
    }
    let mut target = [0.0_f32; 3];
    let error = places.put(&[1.0; 4], &[0_i64, 1, 3, 9], &mut target).expect_err("outside");
    assert!(matches!(error, Error::Index { index: 3, axis: 0, extent: 3, .. }), "{error}");
    // Rows at indices of two axes, the second of which leaves its own.
    let pairs = TakeSpec {
        dims: [1, 1, 1, 1, 2, 2],
        indices: [0, 0, 0, 0, 1, 0],
        output: [0, 0, 0, 0, 2, 1],
        source: [0, 0, 0, 0, 0, 1],
        count: 2,
        index_stride: 2,
        extents: [2, 3, 1, 1, 1, 1],
        strides: [6, 2, 0, 0, 0, 0],
    };
    let places = Take::new(pairs).expect("a nest");
    let mut target = [0.0_f32; 12];
    let error = places.put(&[1.0; 4], &[0_i64, 1, 2, 7], &mut target).expect_err("outside");
    assert!(matches!(error, Error::Index { index: 7, axis: 1, extent: 3, .. }), "{error}");
    places.put(&[1.0; 4], &[0_i64, 1, 2, 0], &mut target).expect("inside");
    assert_eq!(target, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

/// Long rows, which threads share, and an index that is outside of its axis wherever it stands.
#[test]
fn indices_outside_of_their_axis_are_an_error() {
    let spec = TakeSpec {
        dims: [1, 1, 1, 1, 40_000, 2],
        source: [0, 0, 0, 0, 0, 1],
        indices: [0, 0, 0, 0, 1, 0],
        output: [0, 0, 0, 0, 2, 1],
        count: 1,
        index_stride: 0,
        extents: [3, 0, 0, 0, 0, 0],
        strides: [2, 0, 0, 0, 0, 0],
    };
    let take = Take::new(spec).expect("a nest");
    let source: Vec<u8> = (0..6).collect();
    let indices: Vec<i64> = (0..40_000).map(|index| index % 6 - 3).collect();
    for pool in [Pool::new(1), Pool::new(3)] {
        let (isa, mut out) = (Isa::best(), vec![9; 80_000]);
        take.run(isa, &source, &indices, &mut out, &pool).expect("indices inside of the axis");
        assert_eq!(out[..12], [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
        for (at, wrong) in [(0, 3), (39_999, -4), (20_000, i64::MAX), (7, i64::MIN)] {
            let mut indices = indices.clone();
            indices[at] = wrong;
            assert!(take.run(isa, &source, &indices, &mut out, &pool).is_err(), "{wrong}");
        }
    }
    for wrong in
        [TakeSpec { count: 0, ..spec }, TakeSpec { count: 7, ..spec }, TakeSpec { extents: [0; 6], ..spec }]
    {
        assert!(Take::new(wrong).is_err());
    }
}

/// An index outside is named with its axis and that one's extent, whichever of several coordinates it is, and whether every place
/// has its own or rows have them in common.
#[test]
fn indices_outside_are_named() {
    let spec = |shared: bool| TakeSpec {
        dims: [1, 1, 1, 1, 3, 2],
        source: [0; 6],
        indices: if shared { [0, 0, 0, 0, 1, 0] } else { [0, 0, 0, 0, 2, 1] },
        output: [0, 0, 0, 0, 2, 1],
        count: 2,
        index_stride: 6,
        extents: [4, 5, 1, 1, 1, 1],
        strides: [5, 1, 0, 0, 0, 0],
    };
    for (shared, count) in [(true, 3), (false, 6)] {
        let take = Take::new(spec(shared)).expect("a nest");
        for axis in [0, 1] {
            for at in 0..count {
                let mut indices = vec![1_i64; 12];
                indices[axis * 6 + at] = -9;
                let wanted = Err(Error::Index { operand: "indices", index: -9, axis, extent: [4, 5][axis] });
                assert_eq!(take.put(&[7_u8; 6], &indices, &mut [0; 20]), wanted, "put {shared} {axis} {at}");
                let taken = take.run(Isa::best(), &[7_u8; 20], &indices, &mut [0; 6], &Pool::new(1));
                assert_eq!(taken, wanted, "taken {shared} {axis} {at}");
            }
        }
    }
}

fn ordered(spec: &OrderSpec, x: &[f32]) -> Vec<i64> {
    let OrderSpec { outer, len, inner, k, descending } = *spec;
    let mut want = vec![-1; outer * k * inner];
    for row in 0..outer * inner {
        let key = |at: usize| x[(row / inner * len + at) * inner + row % inner];
        let mut places: Vec<usize> = (0..len).collect();
        // A stable sort keeps equal ones in the order of their places.
        places.sort_by(|&a, &b| {
            let (a, b) = (key(a), key(b));
            let rising = match (a.is_nan(), b.is_nan()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => a.partial_cmp(&b).expect("numbers"),
            };
            if descending { rising.reverse() } else { rising }
        });
        for (place, &at) in places[..k].iter().enumerate() {
            want[(row / inner * k + place) * inner + row % inner] = at as i64;
        }
    }
    want
}

#[test]
fn elements_are_put_in_order() {
    let mut random = Random(111);
    let pools = [Pool::new(1), Pool::new(3)];
    for round in 0..120 {
        let len = [1, 2, 9, 100, 3000][random.below(5)];
        let k = [1, len, random.between(0, len), random.between(0, len / 8)][random.below(4)];
        let [outer, inner] = std::array::from_fn(|_| random.between(1, 6));
        let spec = OrderSpec { outer, len, inner, k, descending: random.below(2) == 0 };
        // Few different ones, so that many are equal.
        let element = |random: &mut Random| [-1.5, 0.0, -0.0, 2.0, f32::NAN, f32::INFINITY][random.below(6)];
        let x: Vec<f32> = (0..outer * len * inner)
            .map(|_| if round % 2 == 0 { element(&mut random) } else { random.unit() })
            .collect();
        let want = ordered(&spec, &x);
        for pool in &pools {
            let mut scratch = vec![0; spec.scratch_words(pool.threads())];
            let mut out = vec![-1; want.len()];
            order(&spec, &x, &mut out, &mut scratch, pool).expect("fitting slices");
            assert_eq!(out, want, "{spec:?}");
            assert!(order(&spec, &x[1..], &mut out, &mut scratch, pool).is_err());
            let short = scratch.len() - 1;
            assert!(order(&spec, &x, &mut out, &mut scratch[..short], pool).is_err());
        }
    }
    let more = OrderSpec { outer: 1, len: 2, inner: 1, k: 3, descending: false };
    assert!(order(&more, &[1.0, 2.0], &mut [0; 3], &mut [0; 2], &pools[0]).is_err());
}

/// At the ends of each type, in rows that are sorted whole and in ones of which a few are wanted.
#[test]
fn elements_of_every_type_are_put_in_order() {
    let pool = Pool::new(1);
    macro_rules! check {
        ($($number:ty),*) => {$(
            let ends = [<$number>::MIN, <$number>::MAX, 0 as $number, 1 as $number, <$number>::MAX - 1 as $number];
            let x: Vec<$number> = (0..600).map(|at| ends[at * at % 11 % 5]).collect();
            for (k, descending) in [(50, false), (50, true), (600, false), (600, true)] {
                let spec = OrderSpec { outer: 1, len: 600, inner: 1, k, descending };
                let (mut scratch, mut out) = (vec![0; spec.scratch_words(1)], vec![-1; k]);
                order(&spec, &x, &mut out, &mut scratch, &pool).expect("fitting slices");
                let mut want: Vec<i64> = (0..600).collect();
                want.sort_by(|&a, &b| {
                    let rising = x[a as usize].partial_cmp(&x[b as usize]).expect("numbers");
                    if descending { rising.reverse() } else { rising }
                });
                assert_eq!(out, want[..k], "{} {spec:?}", std::any::type_name::<$number>());
            }
        )*};
    }
    check!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);
}

/// Each element comes before all that came before it, or behind them: whole stretches are taken, or passed over.
#[test]
fn elements_in_order_already_and_backwards() {
    let pool = Pool::new(1);
    for (len, k) in [(64, 1), (1000, 3), (1000, 124), (3000, 370), (5000, 7), (300_000, 70_000)] {
        let rising: Vec<f32> = (0..len).map(|at| at as f32).collect();
        let falling: Vec<f32> = rising.iter().map(|x| -x).collect();
        // Runs of 40 equal ones, none of which is passed over for its place alone.
        let steps: Vec<f32> = (0..len).map(|at| (at / 40) as f32).collect();
        for x in [&rising, &falling, &steps] {
            for descending in [false, true] {
                let spec = OrderSpec { outer: 1, len, inner: 1, k, descending };
                let mut scratch = vec![0; spec.scratch_words(1)];
                let mut out = vec![-1; k];
                order(&spec, x, &mut out, &mut scratch, &pool).expect("fitting slices");
                assert_eq!(out, ordered(&spec, x), "{spec:?}");
            }
        }
    }
}
