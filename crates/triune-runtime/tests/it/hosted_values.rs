//! Operators that the host runs between stages, in every type that arms of theirs tell apart, and on both sides of what they compare.

use std::collections::BTreeMap;

use triune_graph::{
    Op,
    ops::{
        Comparison, CondTake, Determinant, Hosted, LinearAttention, NGramWeight, NGrams, Nms,
        NonMaxSuppression, NonZero, Unique,
    },
    passes::{HostOperand, HostStep},
};
use triune_runtime::{TensorRef, dynamic};
use triune_tensor::DType;
use triune_testing::{Random, Tensor};

fn step(op: Op, inputs: Vec<Option<HostOperand>>, results: usize) -> HostStep {
    let outputs = (0..results).map(|index| Some(index.to_string())).collect();
    HostStep { name: "pick".into(), op, inputs, outputs }
}

fn run(op: Op, inputs: &[Option<Tensor>], results: usize) -> Vec<Tensor> {
    let operand = |input: &Option<Tensor>| input.as_ref().map(|x| HostOperand::Constant(x.to_constant()));
    let step = step(op, inputs.iter().map(operand).collect(), results);
    let made = dynamic::run(&step, |_| None).expect("results");
    assert_eq!(made.len(), results);
    made.into_iter().map(|(_, made)| Tensor::from_bytes(made.dtype, &made.shape, &made.bytes)).collect()
}

fn all(inputs: &[Tensor]) -> Vec<Option<Tensor>> {
    inputs.iter().cloned().map(Some).collect()
}

#[test]
fn operands_arrive_by_name_and_with_all_of_their_bytes() {
    let operands = |names: &[&str]| names.iter().map(|&name| Some(HostOperand::Value(name.into()))).collect();
    let take = CondTake { comparison: Comparison::Less, value: 4.0, epsilon: 0.0 };
    let step = step(take.into(), operands(&["x", "mask"]), 2);
    let (x, mask) = ([7, 0, 8, 0, 9, 0], [5, 3, 1]);
    let run = |bytes: usize| {
        dynamic::run(&step, |name| match name {
            "x" => Some(TensorRef { dtype: DType::I16, shape: &[3], bytes: x.get(..bytes)? }),
            "mask" => Some(TensorRef { dtype: DType::U8, shape: &[3], bytes: &mask }),
            _ => None,
        })
    };
    let made = run(6).expect("results");
    assert_eq!((made[0].0, &*made[0].1.bytes), ("0", &[8, 0, 9, 0][..]));
    assert_eq!((made[1].0, &*made[1].1.bytes), ("1", &[1, 0, 0, 0, 2, 0, 0, 0][..]));
    let refused = |bytes| run(bytes).expect_err("an error").to_string();
    assert!(refused(5).contains("operand 0: 5 bytes for extents [3]"), "{}", refused(5));
    assert!(refused(7).contains("'x' is not there yet"), "{}", refused(7));
}

/// Zeros of a type, and what only looks like one, from the bytes of an element.
#[test]
fn what_is_not_zero_is_found_in_every_type() {
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E4M3FN, DType::F8E5M2];
    for dtype in floats {
        let x = Tensor::of_floats(dtype, &[2, 3], &[0.0, -0.5, -0.0, f64::NAN, 0.0, 1.0]);
        let made = &run(NonZero.into(), &all(&[x]), 1)[0];
        assert_eq!((&*made.shape, made.integers()), (&[2, 3][..], vec![0, 1, 1, 1, 0, 2]), "{dtype}");
    }
    let integers = [
        (DType::Bool, 1),
        (DType::U8, 0x80),
        (DType::I8, -0x80),
        (DType::U16, 0x100),
        (DType::I16, -0x8000),
        (DType::U32, 0x1_0000),
        (DType::I32, 0x100_0000),
        (DType::U64, i64::MIN),
        (DType::I64, 1 << 32),
        (DType::U4, 8),
        (DType::I4, -8),
        (DType::U2, 2),
        (DType::I2, -2),
    ];
    for (dtype, high) in integers {
        let x = Tensor::wrapped(dtype, &[2, 3], &[0, high, 0, 1, 0, 0]);
        let made = &run(NonZero.into(), &all(&[x]), 1)[0];
        assert_eq!((&*made.shape, made.integers()), (&[2, 2][..], vec![0, 1, 1, 0]), "{dtype}");
    }
}

/// Axes that differ, a scalar, nothing at all, and rows longer than what is looked at at once.
#[test]
fn what_is_not_zero_is_found_where_it_is() {
    let mut random = Random(17);
    for shape in [&[][..], &[1], &[7], &[2, 3], &[3, 2, 4], &[2, 3, 1, 5], &[0, 3], &[3, 0], &[2, 65_539]] {
        let count: usize = shape.iter().product();
        let values: Vec<i64> = (0..count).map(|_| random.below(3) as i64 - 1).collect();
        let made = &run(NonZero.into(), &all(&[Tensor::i64(shape, &values)]), 1)[0];
        let axes = if shape.is_empty() { &[1] } else { shape };
        let found: Vec<usize> = (0..count).filter(|&index| values[index] != 0).collect();
        let place =
            |axis: usize, index: usize| index / axes[axis + 1..].iter().product::<usize>() % axes[axis];
        let wanted = (0..axes.len()).flat_map(|axis| found.iter().map(move |&index| (axis, index)));
        let wanted: Vec<i64> = wanted.map(|(axis, index)| place(axis, index) as i64).collect();
        assert_eq!(made.shape, [axes.len(), found.len()]);
        assert!(made.integers() == wanted, "{shape:?}");
    }
}

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// What is taken where a mask meets each of the comparisons: places, which are those of the elements, too.
fn taken(mask: &Tensor, value: f32, epsilon: f32) -> [Vec<i64>; 6] {
    let x: Vec<i64> = (0..mask.elements() as i64).map(|index| 300 * (index + 1)).collect();
    COMPARISONS.map(|comparison| {
        let op = CondTake { comparison, value, epsilon };
        let made =
            run(op.into(), &[Some(Tensor::of_integers(DType::I16, &mask.shape, &x)), Some(mask.clone())], 2);
        let places = made[1].integers();
        assert_eq!((made[1].dtype(), &made[1].shape), (DType::I32, &vec![places.len()]));
        assert_eq!((made[0].dtype(), &made[0].shape), (DType::I16, &made[1].shape));
        assert_eq!(made[0].integers(), places.iter().map(|&at| x[at as usize]).collect::<Vec<_>>());
        places
    })
}

#[test]
fn masks_are_compared_on_both_sides_of_the_value() {
    // An eighth is near 2, a quarter is not.
    let near =
        [vec![2, 3, 4], vec![0, 1, 5, 6], vec![0, 1, 2], vec![0, 1, 2, 3], vec![4, 5, 6], vec![3, 4, 5, 6]];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let mask = Tensor::of_floats(dtype, &[7], &[1.5, 1.75, 1.875, 2.0, 2.125, 2.25, 2.5]);
        assert_eq!(taken(&mask, 2.0, 0.25), near, "{dtype}");
    }
    let exact = [vec![2], vec![0, 1, 3], vec![0, 1], vec![0, 1, 2], vec![3], vec![2, 3]];
    for (dtype, least, most) in [
        (DType::U8, 0, 0xFF),
        (DType::I8, -0x80, 0x7F),
        (DType::U16, 0, 0xFFFF),
        (DType::I16, -0x8000, 0x7FFF),
        (DType::U32, 0, 0xFFFF_FFFF),
        (DType::I32, -0x8000_0000, 0x7FFF_FFFF),
        (DType::U64, 0, -1),
        (DType::I64, i64::MIN, i64::MAX),
        (DType::U4, 0, 15),
        (DType::I4, -8, 7),
    ] {
        // The value is cut to an integer, and what is near counts for floats alone.
        let mask = Tensor::wrapped(dtype, &[2, 2], &[least, 1, 2, most]);
        assert_eq!(taken(&mask, 2.75, 5.0), exact, "{dtype}");
    }
    let mask = Tensor::of_integers(DType::Bool, &[3], &[0, 1, 0]);
    assert_eq!(taken(&mask, 1.0, 0.0)[..3], [vec![1], vec![0, 2], vec![0, 2]]);
    // More than what is looked at at once.
    let long: Vec<i64> = (0..65_539).map(|index| i64::from(index % 65_535 != 0)).collect();
    let x = Tensor::of_integers(DType::U8, &[65_539], &long);
    let op = CondTake { comparison: Comparison::Equal, value: 0.0, epsilon: 0.0 };
    assert_eq!(run(op.into(), &all(&[x.clone(), x]), 2)[1].integers(), [0, 65_535]);
}

#[test]
fn boxes_that_overlap_by_more_than_the_threshold_are_dropped() {
    // The second is half of the first, the third apart, the fourth the third again.
    let image = [[0.0, 0.0, 2.0, 4.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 8.0], [5.0, 5.0, 6.0, 8.0]];
    let mirrored = [image[2], image[3], image[0], image[1]];
    let boxes: Vec<f32> = image.iter().chain(&mirrored).flatten().copied().collect();
    let boxes = Tensor::f32(&[2, 4, 4], &boxes);
    for (threshold, most, indices, counts) in [
        (0.5, 3, vec![0, 1, 2, 0, 2, 3], vec![3, 3]),
        (0.49, 3, vec![0, 2, 2, 0, 2, 2], vec![2, 2]),
        (0.49, 2, vec![0, 2, 0, 2], vec![2, 2]),
        (0.5, 1, vec![0, 0], vec![1, 1]),
        (1.0, 5, vec![0, 1, 2, 3, 3, 0, 1, 2, 3, 3], vec![4, 4]),
        (0.5, 0, vec![], vec![0, 0]),
    ] {
        let made = run(Nms { threshold, max_output: most }.into(), &[Some(boxes.clone())], 2);
        assert_eq!((made[0].integers(), made[1].integers()), (indices, counts), "{threshold}, {most}");
        assert_eq!((&*made[0].shape, &*made[1].shape), (&[2, most][..], &[2][..]));
    }
    let made = run(Nms { threshold: 0.5, max_output: 2 }.into(), &all(&[Tensor::f32(&[1, 0, 4], &[])]), 2);
    assert_eq!((made[0].integers(), made[1].integers()), (vec![0, 0], vec![0]));
}

/// What is kept of a class, in plain loops.
fn kept(corners: &[[f32; 4]], scores: &[f32], most: usize, overlap: f32, least: Option<f32>) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..scores.len()).filter(|&at| least.is_none_or(|least| scores[at] > least)).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let area = |[y0, x0, y1, x1]: [f32; 4]| (y1 - y0) * (x1 - x0);
    let shared = |a: [f32; 4], b: [f32; 4]| {
        let high = a[2].min(b[2]) - a[0].max(b[0]);
        let wide = a[3].min(b[3]) - a[1].max(b[1]);
        if high > 0.0 && wide > 0.0 { high * wide } else { 0.0 }
    };
    let mut kept: Vec<usize> = Vec::new();
    for at in order {
        let over = |&other: &usize| {
            let common = shared(corners[at], corners[other]);
            common > 0.0 && common / (area(corners[at]) + area(corners[other]) - common) > overlap
        };
        if kept.len() < most && !kept.iter().any(over) {
            kept.push(at);
        }
    }
    kept
}

#[test]
fn boxes_of_classes_are_kept_as_plain_loops_keep_them() {
    let mut random = Random(23);
    let mut sizes = [0; 4];
    for round in 0..120 {
        let (images, classes, count) = (random.between(1, 2), random.between(1, 3), random.between(1, 6));
        let mut corners = Vec::new();
        let mut given = Vec::new();
        let center_point_box = round % 2 == 0;
        for _ in 0..images * count {
            let [y, x] = [random.below(5) as f32, random.below(7) as f32];
            let [high, wide] = [random.below(4) as f32, random.below(5) as f32];
            corners.push([y, x, y + high, x + wide]);
            given.extend(match random.below(3) {
                _ if center_point_box => [x + wide / 2.0, y + high / 2.0, wide, high],
                0 => [y, x, y + high, x + wide],
                1 => [y + high, x, y, x + wide],
                _ => [y, x + wide, y + high, x],
            });
        }
        let scores: Vec<f32> = (0..images * classes * count).map(|_| random.below(4) as f32 / 4.0).collect();
        let (most, overlap) = (random.below(4), [0.0, 0.25, 0.5, 0.75][random.below(4)]);
        let least = (random.below(2) == 0).then_some(0.25);
        let inputs = [
            Some(Tensor::f32(&[images, count, 4], &given)),
            Some(Tensor::f32(&[images, classes, count], &scores)),
            Some(Tensor::i64(&[1], &[most as i64])),
            Some(Tensor::f32(&[1], &[overlap])),
            least.map(|least| Tensor::f32(&[1], &[least])),
        ];
        let made = &run(NonMaxSuppression { center_point_box }.into(), &inputs, 1)[0];
        let mut wanted = Vec::new();
        for (image, class) in (0..images).flat_map(|image| (0..classes).map(move |class| (image, class))) {
            let scores = &scores[(image * classes + class) * count..][..count];
            let kept = kept(&corners[image * count..][..count], scores, most, overlap, least);
            sizes[kept.len()] += 1;
            wanted.extend(kept.into_iter().flat_map(|at| [image as i64, class as i64, at as i64]));
        }
        assert_eq!(made.integers(), wanted, "{inputs:?}");
        assert_eq!(made.shape, [wanted.len() / 3, 3]);
    }
    assert!(sizes.iter().all(|&size| size > 10), "{sizes:?}");
}

#[test]
fn without_a_number_of_boxes_none_is_kept() {
    let inputs = all(&[Tensor::f32(&[1, 1, 4], &[0.0, 0.0, 1.0, 1.0]), Tensor::f32(&[1, 1, 1], &[1.0])]);
    let op = NonMaxSuppression { center_point_box: false };
    assert_eq!(run(op.into(), &inputs, 1)[0].shape, [0, 3]);
    let fewer = [inputs, vec![Some(Tensor::i64(&[1], &[-1]))]].concat();
    assert_eq!(run(op.into(), &fewer, 1)[0].shape, [0, 3]);
    // Without a threshold whatever overlaps is dropped.
    let boxes = Tensor::f32(&[1, 2, 4], &[0.0, 0.0, 9.0, 9.0, 8.0, 8.0, 17.0, 17.0]);
    let two = all(&[boxes, Tensor::f32(&[1, 1, 2], &[0.25, 0.5]), Tensor::i64(&[1], &[2])]);
    assert_eq!(run(op.into(), &two, 1)[0].integers(), [0, 0, 1]);
}

#[test]
fn different_elements_come_in_the_order_of_their_type() {
    let of = |x: Tensor| {
        let made = run(Unique { axis: None, sorted: true }.into(), &all(&[x]), 4);
        (made[0].clone(), made[1].integers(), made[2].integers(), made[3].integers())
    };
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let x = Tensor::of_floats(dtype, &[2, 3], &[f64::NAN, 2.0, f64::NEG_INFINITY, -0.0, f64::NAN, 0.0]);
        let (made, first, inverse, counts) = of(x);
        assert_eq!(made.reals()[..3], [f64::NEG_INFINITY, 0.0, 2.0], "{dtype}");
        assert!(made.reals()[1].is_sign_negative() && made.reals()[3].is_nan());
        assert_eq!((first, inverse, counts), (vec![2, 3, 1, 0], vec![3, 2, 0, 1, 3, 1], vec![1, 2, 1, 2]));
    }
    for (dtype, low, high) in [
        (DType::U8, 1, 0x80),
        (DType::I8, -0x80, 0x7F),
        (DType::U16, 1, 0x8000),
        (DType::I16, -0x8000, 0x7FFF),
        (DType::U32, 1, 0x8000_0000),
        (DType::I32, -0x8000_0000, 0x7FFF_FFFF),
        (DType::U64, 1, i64::MIN),
        (DType::I64, i64::MIN, i64::MAX),
        (DType::U4, 1, 15),
        (DType::I4, -8, 7),
    ] {
        let (made, first, inverse, counts) = of(Tensor::wrapped(dtype, &[4], &[high, 2, low, high]));
        assert_eq!(made.integers(), [low, 2, high], "{dtype}");
        assert_eq!((made.dtype(), &*made.shape), (dtype, &[3][..]));
        assert_eq!((first, inverse, counts), (vec![2, 1, 0], vec![2, 1, 0, 2], vec![1, 1, 2]));
    }
}

/// So many that sorted runs are merged, the last of which is shorter, in two rounds and a third.
#[test]
fn many_different_elements_are_sorted_in_runs() {
    let mut random = Random(29);
    for count in [4096, 4097, 8195, 5 * 4096 + 3] {
        let values: Vec<i64> = (0..count).map(|_| random.below(3000) as i64 - 1500).collect();
        let made =
            run(Unique { axis: None, sorted: true }.into(), &all(&[Tensor::i64(&[count], &values)]), 4);
        let mut groups: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (at, &value) in values.iter().enumerate() {
            groups.entry(value).or_insert((at as i64, 0)).1 += 1;
        }
        assert!(made[0].integers().iter().eq(groups.keys()));
        let (first, counts): (Vec<i64>, Vec<i64>) = groups.values().copied().unzip();
        assert!(made[1].integers() == first && made[3].integers() == counts);
        let kept = made[0].integers();
        assert!(made[2].integers().iter().zip(&values).all(|(&at, &value)| kept[at as usize] == value));
    }
}

#[test]
fn determinants_are_rounded_to_their_type() {
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let of = |shape: &[usize], values: &[f64]| {
            let made = &run(Op::from(Determinant), &all(&[Tensor::of_floats(dtype, shape, values)]), 1)[0];
            assert_eq!((made.dtype(), &*made.shape), (dtype, &shape[..shape.len() - 2]));
            made.reals()
        };
        assert_eq!(of(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), [-2.0], "{dtype}");
        assert_eq!(of(&[3, 1, 1], &[5.0, -7.0, 0.5]), [5.0, -7.0, 0.5]);
        assert_eq!(of(&[1, 2, 0, 0], &[]), [1.0, 1.0]);
        // The largest of a column is divided by: a tenth is no binary fraction.
        assert_eq!(of(&[2, 2], &[0.0, 1.0, 1.0, 0.0]), [-1.0]);
        assert_eq!(of(&[3, 3], &[0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 4.0, 0.0, 0.0]), [-8.0]);
    }
    // Divided by the small one, what is added to 2^60 times the row would be lost.
    let tiny = (-60_f64).exp2();
    let values = [tiny, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 3.0];
    let made = &run(Op::from(Determinant), &all(&[Tensor::of_floats(DType::F64, &[3, 3], &values)]), 1)[0];
    assert_eq!(made.reals(), [-3.0]);
}

/// What the operator says, one number after the other in f64.
struct Attention<'a> {
    heads: usize,
    shared: usize,
    key: usize,
    value: usize,
    places: usize,
    inputs: &'a [Option<Vec<f64>>],
}

impl Attention<'_> {
    fn run(&self, batch: usize, scale: f64) -> [Vec<f64>; 2] {
        let &Self { heads, shared, key, value, places, inputs } = self;
        let [q, k, v] = [0, 1, 2].map(|index| inputs[index].as_ref().expect("an operand"));
        let mut state = inputs[3].clone().unwrap_or_else(|| vec![0.0; batch * heads * key * value]);
        let mut results = vec![0.0; batch * places * heads * shared * value];
        for (entry, head, place) in (0..batch).flat_map(|entry| {
            (0..heads).flat_map(move |head| (0..places).map(move |place| (entry, head, place)))
        }) {
            let row = entry * places + place;
            let at = |down: usize, across: usize| ((entry * heads + head) * key + down) * value + across;
            let wide = |operand: &Vec<f64>| operand.len() / (batch * places);
            for (down, across) in (0..key).flat_map(|down| (0..value).map(move |across| (down, across))) {
                if let Some(decay) = &inputs[4] {
                    let own = if wide(decay) == heads { head } else { head * key + down };
                    state[at(down, across)] *= decay[row * wide(decay) + own].exp();
                }
            }
            let known: Vec<f64> = (0..value)
                .map(|across| {
                    (0..key).map(|down| state[at(down, across)] * k[(row * heads + head) * key + down]).sum()
                })
                .collect();
            for (down, across) in (0..key).flat_map(|down| (0..value).map(move |across| (down, across))) {
                let given = v[(row * heads + head) * value + across];
                let written = match &inputs[5] {
                    None => given,
                    Some(rate) => {
                        let own = if wide(rate) == heads { head } else { 0 };
                        rate[row * wide(rate) + own] * (given - known[across])
                    }
                };
                state[at(down, across)] += k[(row * heads + head) * key + down] * written;
            }
            for (query, across) in (0..shared).flat_map(|query| (0..value).map(move |across| (query, across)))
            {
                let query = head * shared + query;
                let own = &q[(row * heads * shared + query) * key..][..key];
                let sum: f64 = own.iter().enumerate().map(|(down, q)| q * state[at(down, across)]).sum();
                results[(row * heads * shared + query) * value + across] = scale * sum;
            }
        }
        [results, state]
    }
}

#[test]
fn attention_by_a_state_is_what_plain_loops_compute() {
    let mut random = Random(31);
    for round in 0..48 {
        let (batch, places) = (random.between(1, 2), random.between(1, 4));
        let (heads, shared) = (random.between(2, 3), random.between(1, 2));
        let (key, value) = (random.between(2, 4), random.between(1, 3));
        let dtype = [DType::F64, DType::F32, DType::F16][round % 3];
        let scale = (round % 2 == 0).then_some(0.75);
        let extents = [
            Some(vec![batch, places, heads * shared * key]),
            Some(vec![batch, places, heads * key]),
            Some(vec![batch, places, heads * value]),
            (round % 4 > 0).then(|| vec![batch, heads, key, value]),
            (round % 5 > 0).then(|| vec![batch, places, [heads, heads * key][random.below(2)]]),
            (round % 7 > 0).then(|| vec![batch, places, [heads, 1][random.below(2)]]),
        ];
        let operands = extents.map(|extents| {
            let extents = extents?;
            let values: Vec<f64> =
                random.floats(extents.iter().product()).into_iter().map(f64::from).collect();
            Some(Tensor::of_floats(dtype, &extents, &values))
        });
        let inputs: Vec<Option<Vec<f64>>> =
            operands.iter().map(|tensor| tensor.as_ref().map(Tensor::reals)).collect();
        let op = LinearAttention { query_heads: heads * shared, heads, scale };
        let made = run(op.into(), &operands, 2);
        let attention = Attention { heads, shared, key, value, places, inputs: &inputs };
        let wanted = attention.run(batch, scale.map_or_else(|| (key as f64).sqrt().recip(), f64::from));
        assert_eq!(made[0].shape, [batch, places, heads * shared * value]);
        assert_eq!(made[1].shape, [batch, heads, key, value]);
        let near = [1e-12, 1e-5, 4e-3][round % 3];
        for (made, wanted) in made.iter().zip(&wanted) {
            assert_eq!(made.dtype(), dtype);
            for (got, wanted) in made.reals().iter().zip(wanted) {
                assert!((got - wanted).abs() <= near * wanted.abs().max(1.0), "{op:?}: {got}, not {wanted}");
            }
        }
    }
}

/// A state has its own type, and its last one goes back into it.
#[test]
fn the_state_keeps_its_type() {
    let ones = |dtype, shape: &[usize]| Tensor::of_floats(dtype, shape, &vec![1.0; shape.iter().product()]);
    let inputs = [
        Some(ones(DType::F16, &[1, 1, 2])),
        Some(ones(DType::F16, &[1, 1, 2])),
        Some(ones(DType::F16, &[1, 1, 3])),
        Some(ones(DType::F32, &[1, 1, 2, 3])),
    ];
    let made = run(LinearAttention { query_heads: 1, heads: 1, scale: Some(0.5) }.into(), &inputs, 2);
    assert_eq!((made[0].dtype(), made[0].reals()), (DType::F16, vec![2.0; 3]));
    assert_eq!((made[1].dtype(), made[1].reals()), (DType::F32, vec![2.0; 6]));
}

#[test]
fn sequences_of_numbers_are_counted_as_plain_loops_count_them() {
    let mut random = Random(37);
    let mut most = 0.0_f64;
    for round in 0..60 {
        let (batch, length) = (random.between(1, 3), random.between(0, 7));
        let numbers: Vec<i64> = (0..batch * length).map(|_| random.below(2) as i64 + 3).collect();
        let grams: Vec<(Vec<i64>, usize)> =
            [vec![3], vec![4], vec![3, 4], vec![4, 4], vec![3, 3, 4], vec![4, 3, 4]]
                .into_iter()
                .zip([4, 0, 2, 6, 1, 3])
                .collect();
        let weights: Vec<f32> = (0..7).map(|index| 0.5 + index as f32).collect();
        let lengths = [[1, 1], [1, 2], [2, 3], [1, 3], [3, 3]][round % 5];
        let (skips, weight) =
            (random.below(4), [NGramWeight::Count, NGramWeight::Presence, NGramWeight::Both][round % 3]);
        let op = NGrams { grams: grams.clone(), weights: weights.clone(), lengths, skips, weight };
        let dtype = [DType::I32, DType::I64][round % 2];
        let x = Tensor::of_integers(dtype, &[batch, length], &numbers);
        let made = &run(Op::Hosted(Hosted::NGrams(Box::new(op.clone()))), &all(&[x]), 1)[0];
        let mut wanted = vec![0.0; batch * 7];
        for (row, (gram, place)) in (0..batch).flat_map(|row| grams.iter().map(move |gram| (row, gram))) {
            if gram.len() < lengths[0] || gram.len() > lengths[1] {
                continue;
            }
            let own = &numbers[row * length..][..length];
            let apart = if gram.len() == 1 { 1..=1 } else { 1..=skips + 1 };
            let starts = apart.flat_map(|apart| (0..length).map(move |start| (apart, start)));
            let count = starts
                .filter(|(apart, start)| {
                    (0..gram.len()).all(|at| own.get(start + at * apart) == Some(&gram[at]))
                })
                .count() as f64;
            most = most.max(count);
            let factor = f64::from(weights[*place]);
            wanted[row * 7 + place] = match weight {
                NGramWeight::Count => count,
                NGramWeight::Presence => factor * count.min(1.0),
                NGramWeight::Both => factor * count,
            };
        }
        assert_eq!((&made.shape, made.reals()), (&vec![batch, 7], wanted), "{op:?}: {numbers:?}");
        if batch == 1 {
            let x = Tensor::of_integers(dtype, &[length], &numbers);
            let flat = &run(Op::Hosted(Hosted::NGrams(Box::new(op))), &all(&[x]), 1)[0];
            assert_eq!((&*flat.shape, flat.reals()), (&[7][..], made.reals()));
        }
    }
    assert!(most > 3.0, "{most}");
}

/// Boxes by their centers, a side of 6 each: those that lie 4 further in one of four directions share a fifth of what both cover.
#[test]
fn boxes_by_their_centers_reach_half_their_extents_each_way() {
    for (x, y) in [(4.0, 0.0), (-4.0, 0.0), (0.0, 4.0), (0.0, -4.0)] {
        let boxes = Tensor::f32(&[1, 2, 4], &[0.0, 0.0, 6.0, 6.0, x, y, 6.0, 6.0]);
        let scores = Tensor::f32(&[1, 1, 2], &[0.9, 0.8]);
        for (threshold, kept) in [(0.19, 1), (0.21, 2)] {
            let operands = [
                boxes.clone(),
                scores.clone(),
                Tensor::i64(&[1], &[2]),
                Tensor::f32(&[1], &[threshold]),
                Tensor::f32(&[1], &[0.0]),
            ];
            let op = NonMaxSuppression { center_point_box: true };
            let found = &run(op.into(), &all(&operands), 1)[0];
            assert_eq!(found.shape[0], kept, "({x}, {y}) at {threshold}");
        }
    }
}
