//! Operators that the host runs between stages: operands that do not fit are refused by name, and values are those of plain loops.

use std::collections::BTreeMap;

use triune_graph::{
    Op,
    ops::{
        Comparison, CondTake, Determinant, Hosted, Inverse, LinearAttention, NGramWeight, NGrams, Nms,
        NonMaxSuppression, NonZero, RoiAlign, SingularValues, Unique,
    },
    passes::{HostOperand, HostStep},
};
use triune_runtime::{CancelToken, Error, dynamic};
use triune_tensor::DType;
use triune_testing::{Random, Tensor};

fn step(op: Op, inputs: &[Option<Tensor>], results: usize) -> HostStep {
    let operand = |input: &Option<Tensor>| input.as_ref().map(|x| HostOperand::Constant(x.to_constant()));
    HostStep {
        name: "pick".into(),
        op,
        inputs: inputs.iter().map(operand).collect(),
        outputs: (0..results).map(|index| Some(index.to_string())).collect(),
    }
}

fn run(op: Op, inputs: &[Tensor], results: usize) -> Vec<Tensor> {
    let inputs: Vec<Option<Tensor>> = inputs.iter().cloned().map(Some).collect();
    let step = step(op, &inputs, results);
    let made = dynamic::run(&step, |_| None).expect("results");
    made.into_iter().map(|(_, made)| Tensor::from_bytes(made.dtype, &made.shape, &made.bytes)).collect()
}

fn f32s(shape: &[usize]) -> Tensor {
    Tensor::f32(shape, &vec![1.0; shape.iter().product()])
}

fn f64s(shape: &[usize]) -> Tensor {
    Tensor::of_floats(DType::F64, shape, &vec![1.0; shape.iter().product()])
}

fn i64s(values: &[i64]) -> Tensor {
    Tensor::i64(&[values.len()], values)
}

fn roi() -> RoiAlign {
    RoiAlign { max: false, size: [2, 3], samples: Some(2), scale: 1.0, half_pixel: true }
}

fn grams(twice: bool) -> NGrams {
    NGrams {
        grams: vec![(vec![3, 4], 0), (vec![if twice { 3 } else { 4 }, 4], 1)],
        weights: vec![1.0; 2],
        lengths: [1, 2],
        skips: 0,
        weight: NGramWeight::Count,
    }
}

/// An operator, its operands, and what is said of them.
#[test]
fn operands_that_do_not_fit_are_refused() {
    let take = || Op::from(CondTake { comparison: Comparison::Less, value: 1.0, epsilon: 1e-4 });
    let nms = |max_output| Op::from(Nms { threshold: 0.5, max_output });
    let select = || Op::from(NonMaxSuppression { center_point_box: false });
    let align = || Op::from(roi());
    let unique = |axis| Op::from(Unique { axis, sorted: true });
    let attend = |heads| Op::from(LinearAttention { query_heads: 2, heads, scale: None });
    let count = |twice| Op::Hosted(Hosted::NGrams(Box::new(grams(twice))));
    let some = |tensors: &[Tensor]| tensors.iter().cloned().map(Some).collect::<Vec<_>>();
    let cases: Vec<(Op, Vec<Option<Tensor>>, &str)> = vec![
        (take(), some(&[f32s(&[2, 3]), f32s(&[3, 2])]), "elements [2, 3] and mask [3, 2]"),
        (take(), some(&[f32s(&[2, 3])]), "operand 1 is missing"),
        (take(), vec![None, Some(f32s(&[2]))], "operand 0 is missing"),
        (nms(3), some(&[f32s(&[2, 4])]), "boxes [2, 4]"),
        (nms(3), some(&[f32s(&[1, 2, 5])]), "boxes [1, 2, 5]"),
        (nms(3), some(&[f64s(&[1, 2, 4])]), "operand 0 of type float64; f32 is expected"),
        (nms((1 << 27) + 1), some(&[f32s(&[2, 1, 4])]), "2 times 134217729 results"),
        (select(), some(&[f32s(&[1, 2, 3]), f32s(&[1, 1, 2])]), "boxes [1, 2, 3] and scores [1, 1, 2]"),
        (select(), some(&[f32s(&[1, 2, 4]), f32s(&[1, 2])]), "boxes [1, 2, 4] and scores [1, 2]"),
        (select(), some(&[f32s(&[1, 2, 4]), f32s(&[2, 1, 2])]), "boxes [1, 2, 4] and scores [2, 1, 2]"),
        (select(), some(&[f32s(&[1, 2, 4]), f32s(&[1, 1, 3])]), "boxes [1, 2, 4] and scores [1, 1, 3]"),
        (
            select(),
            some(&[f32s(&[1, 2, 4]), f32s(&[1, 1, 2]), i64s(&[1, 2])]),
            "operand 2 of extents [2]; one element is expected",
        ),
        (
            select(),
            some(&[f32s(&[1, 2, 4]), f32s(&[1, 1, 2]), i64s(&[1]), f32s(&[0])]),
            "operand 3 of extents [0]; one element is expected",
        ),
        (unique(Some(2)), some(&[f32s(&[2, 3])]), "axis 2 is not one of 2 dimensions"),
        (unique(Some(-3)), some(&[f32s(&[2, 3])]), "axis -3 is not one of 2 dimensions"),
        (
            align(),
            some(&[f32s(&[1, 2, 3]), f32s(&[1, 4]), i64s(&[0])]),
            "a map [1, 2, 3], regions [1, 4] and images [1]",
        ),
        (align(), some(&[f32s(&[1, 2, 3, 3]), f32s(&[1, 5]), i64s(&[0])]), "regions [1, 5] and images [1]"),
        (
            align(),
            some(&[f32s(&[1, 2, 3, 3]), f32s(&[1, 4]), Tensor::i64(&[1, 1], &[0])]),
            "regions [1, 4] and images [1, 1]",
        ),
        (align(), some(&[f32s(&[1, 2, 3, 3]), f32s(&[2, 4]), i64s(&[0])]), "1 images for 2 regions"),
        (
            align(),
            some(&[f32s(&[1, 2, 3, 3]), f64s(&[1, 4]), i64s(&[0])]),
            "1 images for 1 regions, of float64 for a map of float32",
        ),
        (
            align(),
            some(&[Tensor::i64(&[1, 1, 1, 1], &[1]), Tensor::i64(&[1, 4], &[0; 4]), i64s(&[0])]),
            "of int64 for a map of int64",
        ),
        (align(), some(&[f32s(&[1, 2, 0, 3]), f32s(&[1, 4]), i64s(&[0])]), "has no elements to take"),
        (align(), some(&[f32s(&[1, 2, 3, 0]), f32s(&[1, 4]), i64s(&[0])]), "has no elements to take"),
        (align(), some(&[f32s(&[1, 2, 3, 3]), f32s(&[1, 4]), i64s(&[1])]), "region 0 is of no image of 1"),
        (
            align(),
            some(&[f32s(&[2, 2, 3, 3]), f32s(&[2, 4]), i64s(&[1, -1])]),
            "region 1 is of no image of 2",
        ),
        (align(), some(&[f32s(&[1, 2, 3, 3]), f32s(&[1, 4]), f32s(&[1])]), "region 0 is of no image of 1"),
        (
            Op::from(RoiAlign { samples: None, ..roi() }),
            some(&[f32s(&[1, 1, 2, 2]), Tensor::f32(&[1, 4], &[0.0, 0.0, 1e6, 1e6]), i64s(&[0])]),
            "samples of each of its parts",
        ),
        (Op::from(Determinant), some(&[f32s(&[2, 3])]), "float32 [2, 3] is not of square matrices of reals"),
        (Op::from(Determinant), some(&[f32s(&[3])]), "is not of square matrices of reals"),
        (
            Op::from(Determinant),
            some(&[Tensor::i64(&[1, 1], &[2])]),
            "int64 [1, 1] is not of square matrices",
        ),
        (Op::from(Inverse), some(&[f32s(&[2, 3])]), "float32 [2, 3] is not of square matrices of reals"),
        (
            Op::from(Inverse),
            some(&[Tensor::f32(&[2, 2], &[1.0, 2.0, 2.0, 4.0])]),
            "the matrix is singular: it has no inverse",
        ),
        (
            Op::from(Inverse),
            some(&[Tensor::f32(&[2, 1, 1], &[1.0, 0.0])]),
            "matrix 1 of [2] is singular: it has no inverse",
        ),
        (Op::from(SingularValues), some(&[f32s(&[3])]), "float32 [3] is not of matrices of reals"),
        (
            attend(2),
            some(&[f32s(&[1, 3, 4]), f32s(&[1, 2, 4]), f32s(&[1, 3, 4])]),
            "queries [1, 3, 4], keys [1, 2, 4]",
        ),
        (attend(0), some(&[f32s(&[1, 3, 4]), f32s(&[1, 3, 4]), f32s(&[1, 3, 4])]), "and values [1, 3, 4]"),
        (
            attend(2),
            some(&[f32s(&[1, 3, 4]), f32s(&[1, 3, 4]), f32s(&[1, 3, 4]), f32s(&[1, 2, 2, 3])]),
            "a state [1, 2, 2, 3]",
        ),
        (
            attend(2),
            some(&[
                f32s(&[1, 3, 4]),
                f32s(&[1, 3, 4]),
                f32s(&[1, 3, 4]),
                f32s(&[1, 2, 2, 2]),
                f32s(&[1, 3, 3]),
            ]),
            "operand 4 of extents [1, 3, 3]",
        ),
        (
            attend(2),
            vec![
                Some(f32s(&[1, 3, 4])),
                Some(f32s(&[1, 3, 4])),
                Some(f32s(&[1, 3, 4])),
                None,
                None,
                Some(f32s(&[1, 2, 2])),
            ],
            "operand 5 of extents [1, 2, 2]",
        ),
        (count(false), some(&[Tensor::i64(&[1, 1, 2], &[3, 4])]), "[1, 1, 2]; one or two axes are expected"),
        (count(false), some(&[f32s(&[2])]), "float32 elements; int32 or int64 is expected"),
        (count(true), some(&[i64s(&[3, 4])]), "a sequence of 2 numbers is there twice"),
    ];
    let mut wrong = Vec::new();
    for (op, inputs, words) in cases {
        let step = step(op, &inputs, 4);
        match dynamic::run(&step, |_| None) {
            Ok(_) => wrong.push(format!("{:?}: no error; wanted '{words}'", step.op)),
            Err(error) => {
                let text = error.to_string();
                let kind = matches!(
                    &error,
                    Error::Compile(triune_compiler::Error::Graph(triune_graph::Error::Shape { node, op, .. }))
                        if node == "pick" && op == step.op.name()
                );
                if !kind || !text.contains(words) || !text.contains("'pick'") {
                    wrong.push(format!("{:?}, '{words}': {error:?}: {text}", step.op));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whatever the host computes ends when it is stopped, instead of being done.
#[test]
fn what_is_stopped_gives_nothing() {
    let some = |tensors: &[Tensor]| tensors.iter().cloned().map(Some).collect::<Vec<_>>();
    let boxes = f32s(&[1, 2, 4]);
    let square = Tensor::f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let cases: Vec<(Op, Vec<Option<Tensor>>)> = vec![
        (NonZero.into(), some(&[f32s(&[2, 3])])),
        (
            CondTake { comparison: Comparison::Less, value: 2.0, epsilon: 1e-4 }.into(),
            some(&[f32s(&[2, 3]), f32s(&[2, 3])]),
        ),
        (Nms { threshold: 0.5, max_output: 2 }.into(), some(std::slice::from_ref(&boxes))),
        (
            NonMaxSuppression { center_point_box: false }.into(),
            some(&[
                boxes,
                f32s(&[1, 1, 2]),
                i64s(&[2]),
                Tensor::f32(&[1], &[0.5]),
                Tensor::f32(&[1], &[0.25]),
            ]),
        ),
        (Unique { axis: None, sorted: true }.into(), some(&[i64s(&[3, 1, 3])])),
        (Unique { axis: Some(0), sorted: false }.into(), some(std::slice::from_ref(&square))),
        (Determinant.into(), some(&[square])),
        (roi().into(), some(&[f32s(&[1, 2, 3, 3]), f32s(&[1, 4]), i64s(&[0])])),
        (
            LinearAttention { query_heads: 2, heads: 2, scale: None }.into(),
            some(&[f32s(&[1, 3, 4]), f32s(&[1, 3, 4]), f32s(&[1, 3, 4])]),
        ),
        (Op::Hosted(Hosted::NGrams(Box::new(grams(false)))), some(&[i64s(&[3, 4, 4])])),
    ];
    for (op, inputs) in cases {
        let (step, token) = (step(op, &inputs, 4), CancelToken::new());
        assert!(token.during(|| dynamic::run(&step, |_| None)).is_ok(), "{:?}", step.op);
        token.cancel();
        let stopped = token.during(|| dynamic::run(&step, |_| None));
        let cancelled = matches!(
            stopped,
            Err(Error::Compile(triune_compiler::Error::Device(triune_device::Error::Cancelled)))
        );
        assert!(cancelled, "{:?}: {stopped:?}", step.op);
    }
}

/// The value of a map of one channel between its pixels, 0 beyond its border, as four shares.
fn shares(plane: &[f32], [rows, columns]: [usize; 2], y: f64, x: f64) -> [f64; 4] {
    if y < -1.0 || y > rows as f64 || x < -1.0 || x > columns as f64 {
        return [0.0; 4];
    }
    let along = |at: f64, extent: usize| {
        let at = at.clamp(0.0, extent as f64 - 1.0);
        let low = at.floor();
        (low as usize, (low as usize + 1).min(extent - 1), at - low)
    };
    let ((top, bottom, down), (left, right, across)) = (along(y, rows), along(x, columns));
    let pixel = |row: usize, column: usize| f64::from(plane[row * columns + column]);
    [
        (1.0 - down) * (1.0 - across) * pixel(top, left),
        (1.0 - down) * across * pixel(top, right),
        down * (1.0 - across) * pixel(bottom, left),
        down * across * pixel(bottom, right),
    ]
}

#[test]
fn regions_are_sampled_as_plain_loops_sample_them() {
    let mut random = Random(7);
    for round in 0..60 {
        let (images, channels) = (random.between(1, 3), random.between(1, 10));
        let [rows, columns] = [random.between(1, 6), random.between(1, 7)];
        let regions = random.between(1, 4);
        let op = RoiAlign {
            max: round % 2 == 0,
            size: [random.between(1, 3), random.between(1, 4)],
            samples: (round % 3 > 0).then(|| random.between(1, 3)),
            scale: [1.0, 0.5, 2.0][round % 3],
            half_pixel: random.below(2) == 0,
        };
        let pixels = random.tensor(DType::F32, &[images, channels, rows, columns]);
        // Positive, so that what lies beyond the border is least in the form of the largest, too.
        let pixels: Vec<f32> = pixels.as_f32().iter().map(|pixel| pixel.abs() + 0.125).collect();
        let map = Tensor::f32(&[images, channels, rows, columns], &pixels);
        let corners: Vec<f32> = (0..regions)
            .flat_map(|_| {
                let [left, top] = [random.below(8) as f32 / 2.0 - 1.0, random.below(8) as f32 / 2.0 - 1.0];
                [left, top, left + random.below(9) as f32 / 2.0, top + random.below(9) as f32 / 2.0]
            })
            .collect();
        let of: Vec<i64> = (0..regions).map(|_| random.below(images) as i64).collect();
        let found = &run(Op::from(op), &[map, Tensor::f32(&[regions, 4], &corners), i64s(&of)], 1)[0];
        let [high, wide] = op.size;
        assert_eq!(found.shape, [regions, channels, high, wide]);
        for region in 0..regions {
            let shift = if op.half_pixel { 0.5 } else { 0.0 };
            let at = |index: usize| f64::from(corners[region * 4 + index]) * f64::from(op.scale) - shift;
            let extent = |size: f64| if op.half_pixel { size } else { size.max(1.0) };
            let (height, width) = (extent(at(3) - at(1)) / high as f64, extent(at(2) - at(0)) / wide as f64);
            let count = |part: f64| op.samples.unwrap_or(part.ceil() as usize);
            let (down, across) = (count(height), count(width));
            for (channel, row, column) in
                (0..channels).flat_map(|c| (0..high).flat_map(move |y| (0..wide).map(move |x| (c, y, x))))
            {
                let plane = (of[region] as usize * channels + channel) * rows * columns;
                let plane = &pixels[plane..][..rows * columns];
                let (mut sum, mut most) = (0.0, f64::NEG_INFINITY);
                for (a, b) in (0..down).flat_map(|a| (0..across).map(move |b| (a, b))) {
                    let y = at(1) + row as f64 * height + (a as f64 + 0.5) * height / down as f64;
                    let x = at(0) + column as f64 * width + (b as f64 + 0.5) * width / across as f64;
                    let shares = shares(plane, [rows, columns], y, x);
                    sum += shares.iter().sum::<f64>();
                    most = shares.iter().copied().fold(most, f64::max);
                }
                let wanted = match (down * across, op.max) {
                    (0, _) => 0.0,
                    (_, true) => most,
                    (number, false) => sum / number as f64,
                };
                let index = ((region * channels + channel) * high + row) * wide + column;
                let got = f64::from(found.as_f32()[index]);
                assert!((got - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{op:?}: {got}, not {wanted}");
            }
        }
    }
}

#[test]
fn different_parts_are_found_as_a_map_finds_them() {
    let mut random = Random(3);
    for round in 0..80 {
        let shape = [random.between(1, 4), random.between(1, 5), random.between(1, 3)];
        let count: usize = shape.iter().product();
        let values: Vec<i64> = (0..count).map(|_| random.below(2) as i64).collect();
        let axis = [None, Some(0), Some(1), Some(2), Some(-1), Some(-3)][round % 6];
        let sorted = random.below(2) == 0;
        let made = run(Op::from(Unique { axis, sorted }), &[Tensor::i64(&shape, &values)], 4);
        let along = axis.map(|axis| axis.rem_euclid(3) as usize);
        let (extent, inner) = match along {
            None => (count, 1),
            Some(axis) => (shape[axis], shape[axis + 1..].iter().product()),
        };
        let part = |at: usize| -> Vec<i64> {
            let own = |index: &usize| *index / inner % extent == at;
            (0..count).filter(own).map(|index| values[index]).collect()
        };
        let mut places: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
        (0..extent).for_each(|at| places.entry(part(at)).or_default().push(at));
        let mut groups: Vec<Vec<usize>> = places.into_values().collect();
        if !sorted {
            groups.sort_by_key(|group| group[0]);
        }
        let first: Vec<i64> = groups.iter().map(|group| group[0] as i64).collect();
        let mut inverse = vec![0; extent];
        for (number, group) in groups.iter().enumerate() {
            for &at in group {
                inverse[at] = number as i64;
            }
        }
        let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
        assert_eq!(
            [made[1].integers(), made[2].integers(), made[3].integers()],
            [first.clone(), inverse, counts]
        );
        let mut wanted = shape.to_vec();
        match along {
            None => wanted = vec![groups.len()],
            Some(axis) => wanted[axis] = groups.len(),
        }
        assert_eq!(made[0].shape, wanted);
        let kept = made[0].integers();
        let kept_part = |at: usize| -> Vec<i64> {
            let own = |index: &usize| *index / inner % groups.len() == at;
            (0..kept.len()).filter(own).map(|index| kept[index]).collect()
        };
        for (number, &at) in first.iter().enumerate() {
            assert_eq!(kept_part(number), part(at as usize), "{axis:?} of {shape:?}: {values:?}");
        }
    }
}

/// Sum over all permutations.
fn determinant(rows: &[Vec<f64>]) -> f64 {
    let Some((first, rest)) = rows.split_first() else { return 1.0 };
    let minor = |column: usize| -> Vec<Vec<f64>> {
        let left = |row: &Vec<f64>| (0..row.len()).filter(|&at| at != column).map(|at| row[at]).collect();
        rest.iter().map(left).collect()
    };
    let sign = |column: usize| if column.is_multiple_of(2) { 1.0 } else { -1.0 };
    first.iter().enumerate().map(|(column, own)| sign(column) * own * determinant(&minor(column))).sum()
}

/// Products of every pair of rows and columns.
fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let sum =
        |row: usize, column: usize| (0..size).map(|at| a[row * size + at] * b[at * size + column]).sum();
    (0..size * size).map(|place| sum(place / size, place % size)).collect()
}

#[test]
fn a_matrix_times_its_inverse_is_the_identity() {
    let mut random = Random(12);
    for size in 1..7 {
        // Zeros on the diagonal, too: rows have to change places.
        let values: Vec<f64> =
            (0..6 * size * size).map(|_| f64::from(random.below(2001) as i32 - 1000)).collect();
        let made =
            &run(Op::from(Inverse), &[Tensor::of_floats(DType::F64, &[2, 3, size, size], &values)], 1)[0];
        assert_eq!(made.shape, [2, 3, size, size]);
        for (own, inverse) in values.chunks(size * size).zip(made.reals().chunks(size * size)) {
            for (place, got) in product(own, inverse, size).into_iter().enumerate() {
                let wanted = f64::from(u8::from(place / size == place % size));
                assert!((got - wanted).abs() < 1e-9, "{own:?}: {got}, not {wanted}");
            }
        }
    }
    let swapped = Tensor::of_floats(DType::F32, &[2, 2], &[0.0, 2.0, 4.0, 0.0]);
    assert_eq!(run(Op::from(Inverse), &[swapped], 1)[0].reals(), [0.0, 0.25, 0.5, 0.0]);
    assert_eq!(
        run(Op::from(Inverse), &[Tensor::of_floats(DType::F32, &[2, 0, 0], &[])], 1)[0].shape,
        [2, 0, 0]
    );
}

#[test]
fn singular_values_are_those_of_the_matrix_that_was_turned() {
    // A diagonal turned on both sides, in every size: the values are known, equal and missing ones among them.
    let mut random = Random(13);
    for [rows, columns] in [[1, 1], [3, 3], [5, 2], [2, 5], [6, 4], [1, 4]] {
        let count = rows.min(columns);
        let mut wanted: Vec<f64> = (0..count).map(|at| [7.0, 2.0, 2.0, 0.0, 1.0, 1e-6][at]).collect();
        let mut matrix = vec![0.0; rows * columns];
        (0..count).for_each(|at| matrix[at * columns + at] = wanted[at]);
        for _ in 0..40 {
            let angle = f64::from(random.below(1000) as i32) / 100.0;
            let (sine, cosine) = angle.sin_cos();
            let [a, b] = [random.below(rows), random.below(rows)];
            for column in (0..columns).filter(|_| a != b) {
                let [x, y] = [matrix[a * columns + column], matrix[b * columns + column]];
                matrix[a * columns + column] = cosine * x - sine * y;
                matrix[b * columns + column] = sine * x + cosine * y;
            }
            let [a, b] = [random.below(columns), random.below(columns)];
            for row in (0..rows).filter(|_| a != b) {
                let [x, y] = [matrix[row * columns + a], matrix[row * columns + b]];
                matrix[row * columns + a] = cosine * x - sine * y;
                matrix[row * columns + b] = sine * x + cosine * y;
            }
        }
        wanted.sort_by(|a, b| b.total_cmp(a));
        for scale in [1.0, 1e200, 1e-200] {
            let scaled: Vec<f64> = matrix.iter().map(|element| element * scale).collect();
            let x = Tensor::of_floats(DType::F64, &[1, rows, columns], &scaled);
            let made = &run(Op::from(SingularValues), &[x], 1)[0];
            assert_eq!(made.shape, [1, count]);
            for (got, wanted) in made.reals().into_iter().zip(&wanted) {
                assert!(
                    (got / scale - wanted).abs() < 1e-13 * 7.0,
                    "{rows} by {columns}: {got}, not {wanted}"
                );
            }
        }
    }
    let of = |shape: &[usize], values: &[f64]| {
        run(Op::from(SingularValues), &[Tensor::of_floats(DType::F32, shape, values)], 1)[0].clone()
    };
    assert_eq!(of(&[2, 3, 0], &[]).shape, [2, 0]);
    assert!(of(&[1, 2], &[1.0, f64::INFINITY]).reals()[0].is_nan());
}

#[test]
fn determinants_are_sums_over_permutations() {
    let mut random = Random(11);
    for size in 0..5 {
        let values: Vec<f64> = (0..6 * size * size).map(|_| random.below(7) as f64 - 3.0).collect();
        let made =
            &run(Op::from(Determinant), &[Tensor::of_floats(DType::F64, &[2, 3, size, size], &values)], 1)[0];
        assert_eq!(made.shape, [2, 3]);
        for (index, got) in made.reals().into_iter().enumerate() {
            let own = &values[index * size * size..][..size * size];
            let rows: Vec<Vec<f64>> = own.chunks(size.max(1)).map(<[f64]>::to_vec).collect();
            let wanted = determinant(&rows);
            assert!((got - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{rows:?}: {got}, not {wanted}");
        }
    }
    // A column of zeros ends it, whatever is behind, unless that is no number.
    let of = |values: [f64; 4]| {
        run(Op::from(Determinant), &[Tensor::of_floats(DType::F64, &[2, 2], &values)], 1)[0].reals()[0]
    };
    assert_eq!(of([0.0, 5.0, 0.0, 7.0]), 0.0);
    assert!(of([0.0, f64::INFINITY, 0.0, 7.0]).is_nan());
}
