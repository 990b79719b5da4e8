//! Operators of XIR documents that move elements or are about axes, against formulas, in several layouts.

use crate::passes_common::Numbers;
use crate::xir_common::{
    check::{F32, NAMES, close, float, images, int, text},
    net::{Net, Place, graph, ints, plain, quantized, real, run},
};
use triune_graph::{
    format::xir::{Attribute, Scalar, TensorType},
    passes,
};
use triune_tensor::DType;
use triune_testing::{Random, Tensor, interpret};

/// Operators whose attributes name stored axes, on plain and on blocked values: the result is that on the plain tensor.
#[test]
fn operators_over_axes() {
    let mut numbers = Numbers::new(6);
    let x = numbers.reals(&[1, 5, 4, 6], 2.0);
    let v = x.reals();
    let element = |n: usize, c: usize, h: usize, w: usize| v[((n * 5 + c) * 4 + h) * 6 + w];
    let tensor = |extents: [usize; 4], f: &dyn Fn(usize, usize, usize, usize) -> f64| {
        let [n, c, h, w] = extents;
        let mut values = Vec::new();
        for i in 0..n {
            for j in 0..c {
                for k in 0..h {
                    for l in 0..w {
                        values.push(f(i, j, k, l));
                    }
                }
            }
        }
        Tensor::of_floats(DType::F64, &extents, &values)
    };
    for place in images() {
        let axis =
            |name: char| place.layout.axes.iter().position(|axis| axis.name == name).expect("an axis") as i64;
        let check = |kind: &str, attributes: &[(&str, Attribute)], expected: &Tensor| {
            let mut net = Net::default();
            let input = net.input(place.dtype(F32, NAMES, &x.shape));
            let y = net.op(kind, &[input], place.dtype(F32, NAMES, &expected.shape), attributes);
            let found = run(&net.finish(&[y]), &[place.store(NAMES, &x, 3.0)]).remove(0);
            close(&found, &place.store(NAMES, expected, 0.0).reals(), &format!("{kind} {place:?}"));
        };
        let soft = tensor([1, 5, 4, 6], &|n, c, h, w| {
            element(n, c, h, w).exp() / (0..5).map(|c| element(n, c, h, w).exp()).sum::<f64>()
        });
        check("Softmax", &[("axis", int(axis('C')))], &soft);
        let log = tensor([1, 5, 4, 6], &|n, c, h, w| {
            element(n, c, h, w) - (0..6).map(|w| element(n, c, h, w).exp()).sum::<f64>().ln()
        });
        check("LogSoftmax", &[("axis", int(axis('W')))], &log);
        let mean = tensor([1, 5, 1, 1], &|n, c, _, _| {
            (0..24).map(|at| element(n, c, at / 6, at % 6)).sum::<f64>() / 24.0
        });
        check("Mean", &[("dim", ints(&[axis('H'), axis('W')])), ("keepdim", Attribute::Bool(true))], &mean);
        let sum = tensor([1, 5, 1, 6], &|n, c, _, w| (0..4).map(|h| element(n, c, h, w)).sum());
        check("Sum", &[("dim", int(axis('H'))), ("keepdim", Attribute::Bool(true))], &sum);
        let most =
            tensor([1, 5, 4, 1], &|n, c, h, _| (0..6).map(|w| element(n, c, h, w)).fold(f64::MIN, f64::max));
        check("Max", &[("dim", int(axis('W'))), ("keepdim", Attribute::Bool(true))], &most);
        // Two rows on, columns 1, 3, 5, all channels.
        let (mut begin, mut end, mut stride) = (
            vec![0; place.layout.axes.len()],
            vec![1 << 40; place.layout.axes.len()],
            vec![1; place.layout.axes.len()],
        );
        begin[axis('H') as usize] = 1;
        end[axis('H') as usize] = 3;
        begin[axis('W') as usize] = 1;
        stride[axis('W') as usize] = 2;
        let part = tensor([1, 5, 2, 3], &|n, c, h, w| element(n, c, h + 1, 2 * w + 1));
        check("Slice", &[("begin", ints(&begin)), ("end", ints(&end)), ("stride", ints(&stride))], &part);
        let near = tensor([1, 5, 8, 12], &|n, c, h, w| element(n, c, h / 2, w / 2));
        let size = [("height", int(8)), ("width", int(12))];
        check("Upsample", &[size[0].clone(), size[1].clone(), ("interpolation", text("NEAREST"))], &near);
        check("Resize", &[("dsize", ints(&[12, 8])), ("interpolation", text("INTER_NEAREST"))], &near);
        let between = tensor([1, 5, 7, 11], &|n, c, h, w| {
            let part = |h: usize, w: usize| element(n, c, h.min(3), w.min(5));
            let (row, column) = (h / 2, w / 2);
            let (down, right) = ((h % 2) as f64 / 2.0, (w % 2) as f64 / 2.0);
            (1.0 - down) * ((1.0 - right) * part(row, column) + right * part(row, column + 1))
                + down * ((1.0 - right) * part(row + 1, column) + right * part(row + 1, column + 1))
        });
        let corners = [
            ("height", int(7)),
            ("width", int(11)),
            ("interpolation", text("BILINEAR")),
            ("align_corners", Attribute::Bool(true)),
        ];
        check("Upsample", &corners, &between);
        let order = [4, 2, 0, 1, 3];
        let swapped = tensor([1, 5, 4, 6], &|n, c, h, w| element(n, order[c] as usize, h, w));
        check("SwapOrder", &[("axis", int(axis('C'))), ("order", ints(&order))], &swapped);
        let instance = tensor([1, 5, 4, 6], &|n, c, h, w| {
            let all: Vec<f64> = (0..24).map(|at| element(n, c, at / 6, at % 6)).collect();
            let mean = all.iter().sum::<f64>() / 24.0;
            let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 24.0;
            (element(n, c, h, w) - mean) / (variance + 1e-3).sqrt()
        });
        check("InstanceNorm2d", &[("eps", float(1e-3))], &instance);
        let unit = tensor([1, 5, 4, 6], &|n, c, h, w| {
            element(n, c, h, w) / (0..5).map(|c| element(n, c, h, w).powi(2)).sum::<f64>().sqrt()
        });
        check("Normalize", &[("axis", ints(&[axis('C')])), ("p", float(2.0))], &unit);
        // Parts along rows and the whole again.
        let mut net = Net::default();
        let input = net.input(place.dtype(F32, NAMES, &x.shape));
        let halves = [place.dtype(F32, NAMES, &[1, 5, 1, 6]), place.dtype(F32, NAMES, &[1, 5, 3, 6])];
        let split = [("axis", int(axis('H'))), ("sections", ints(&[1, 3]))];
        let parts = net.op_many("Split", &[input], &halves, &split);
        let y = net.op(
            "Concat",
            &[parts[1], parts[0]],
            place.dtype(F32, NAMES, &x.shape),
            &[("axis", int(axis('H')))],
        );
        let turned = tensor([1, 5, 4, 6], &|n, c, h, w| element(n, c, (h + 1) % 4, w));
        let found = run(&net.finish(&[y]), &[place.store(NAMES, &x, 3.0)]).remove(0);
        close(&found, &place.store(NAMES, &turned, 0.0).reals(), &format!("Split {place:?}"));
    }
}

#[test]
fn channels_in_blocks_are_joined_with_their_padding() {
    let mut numbers = Numbers::new(7);
    let (a, b) = (numbers.reals(&[1, 5, 2, 3], 1.0), numbers.reals(&[1, 3, 2, 3], 1.0));
    let whole: Vec<f64> = a.reals().into_iter().chain(b.reals()).collect();
    let from = Place::new("NCHWc4");
    // Five of eight, then three of four; or, for somebody who calls all of them valid, zeros between.
    let to = Place::new("NCHWc4").padded('C', &[(0, 5), (8, 11)], 12);
    let mut net = Net::default();
    let inputs = [net.input(from.dtype(F32, NAMES, &a.shape)), net.input(from.dtype(F32, NAMES, &b.shape))];
    let dtype = to.dtype(F32, NAMES, &[1, 8, 2, 3]);
    let y = net.op("Concat", &inputs, dtype.clone(), &[("axis", int(1))]);
    let careless = net.op("Concat", &inputs, TensorType { merged: Vec::new(), ..dtype }, &[("axis", int(1))]);
    let given = [from.store(NAMES, &a, 7.0), from.store(NAMES, &b, 7.0)];
    let document = net.finish(&[y, careless]);
    let found = run(&document, &given);
    let expected = Tensor::of_floats(DType::F64, &[1, 8, 2, 3], &whole);
    close(&found[0], &to.store(NAMES, &expected, 0.0).reals(), "valid");
    let given = [from.store(NAMES, &a, 0.0), from.store(NAMES, &b, 0.0)];
    assert_eq!(run(&document, &given)[1], found[0]);
}

#[test]
fn movements_of_stored_axes() {
    let x = Tensor::f32(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let one = |kind: &str, attributes: &[(&str, Attribute)], shape: &[usize], expected: &[f32]| {
        let mut net = Net::default();
        let input = net.input(real("**", &[2, 3]));
        let layout = "*".repeat(shape.len());
        let y = net.op(kind, &[input], real(&layout, shape), attributes);
        let found = run(&net.finish(&[y]), std::slice::from_ref(&x)).remove(0);
        assert_eq!((found.shape.as_slice(), found.as_f32()), (shape, expected), "{kind}");
    };
    one("Reshape", &[("shape", ints(&[3, 2]))], &[3, 2], &[1., 2., 3., 4., 5., 6.]);
    one("Transpose", &[("dims", ints(&[1, 0]))], &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    one(
        "Pad",
        &[("padding", ints(&[1, 0, 0, 1])), ("value", float(9.0))],
        &[3, 4],
        &[9., 1., 2., 3., 9., 4., 5., 6., 9., 9., 9., 9.],
    );
    one(
        "Pad",
        &[("padding", ints(&[1, 0])), ("mode", text("REFLECTION"))],
        &[2, 4],
        &[2., 1., 2., 3., 5., 4., 5., 6.],
    );
    one("Pad", &[("padding", ints(&[0, 1])), ("mode", int(2))], &[2, 4], &[1., 2., 3., 3., 4., 5., 6., 6.]);
    one("Roll", &[("shifts", ints(&[1])), ("dims", ints(&[1]))], &[2, 3], &[3., 1., 2., 6., 4., 5.]);
    one("Roll", &[("shifts", int(-2))], &[2, 3], &[3., 4., 5., 6., 1., 2.]);
    one("Sum", &[], &[1], &[21.]);
    one("Mean", &[("dim", ints(&[1])), ("keepdim", Attribute::Bool(false))], &[2], &[2., 5.]);
    one(
        "LayerNorm",
        &[("axis", ints(&[1])), ("eps", float(0.0))],
        &[2, 3],
        &[-1.224_744_8, 0., 1.224_744_8, -1.224_744_8, 0., 1.224_744_8],
    );
    let mut net = Net::default();
    let input = net.input(real("**", &[2, 3]));
    let rows = net.op_many("Unstack", &[input], &[real("*", &[3]), real("*", &[3])], &[("dim", int(0))]);
    let stacked = net.op("Stack", &[rows[1], rows[0]], real("**", &[3, 2]), &[("dim", int(1))]);
    let wide = net.op("Reshape", &[stacked], real("***", &[3, 1, 2]), &[]);
    let spread = net.op("Expand", &[wide], real("***", &[3, 2, 2]), &[("sizes", ints(&[3, 2, 2]))]);
    let slim = net.op("Squeeze", &[wide], real("**", &[3, 2]), &[("axis", ints(&[1]))]);
    let at = net.op("Argmax", &[input], plain(Scalar::Signed(64), "*", &[2]), &[("dim", int(1))]);
    let least = net.op("Argmin", &[input], plain(Scalar::Signed(32), "*", &[1]), &[]);
    let found = run(&net.finish(&[spread, slim, at, least]), std::slice::from_ref(&x));
    assert_eq!(found[0].as_f32(), [4., 1., 4., 1., 5., 2., 5., 2., 6., 3., 6., 3.]);
    assert_eq!(found[1].as_f32(), [4., 1., 5., 2., 6., 3.]);
    assert_eq!((found[2].integers(), found[3].integers()), (vec![2, 2], vec![0]));
}

#[test]
fn channels_and_pixels_change_places() {
    let x = Tensor::f32(&[1, 8, 1, 2], &(0..16).map(|x| x as f32).collect::<Vec<_>>());
    for place in [Place::new("NHWC"), Place::new("NCHWc4")] {
        let mut net = Net::default();
        let input = net.input(place.dtype(F32, NAMES, &x.shape));
        let large = net.op(
            "PixelShuffle",
            &[input],
            place.dtype(F32, NAMES, &[1, 2, 2, 4]),
            &[("upscale_factor", int(2))],
        );
        let mixed =
            net.op("ChannelShuffle", &[input], place.dtype(F32, NAMES, &x.shape), &[("groups", int(2))]);
        let found = run(&net.finish(&[large, mixed]), &[place.store(NAMES, &x, 0.0)]);
        let expected: Vec<f32> = (0..16)
            .map(|at| {
                let (c, h, w) = (at / 8, at / 4 % 2, at % 4);
                ((c * 4 + h * 2 + w % 2) * 2 + w / 2) as f32
            })
            .collect();
        assert_eq!(found[0], place.store(NAMES, &Tensor::f32(&[1, 2, 2, 4], &expected), 0.0));
        let expected: Vec<f32> =
            [0, 4, 1, 5, 2, 6, 3, 7].iter().flat_map(|c| [(2 * c) as f32, (2 * c + 1) as f32]).collect();
        assert_eq!(found[1], place.store(NAMES, &Tensor::f32(&x.shape, &expected), 0.0));
    }
}

#[test]
fn blocking_by_hand_is_blocking() {
    // AlignAxis, Reshape and Transpose, and back: what a compiler puts at an accelerator's border.
    let mut numbers = Numbers::new(8);
    let x = numbers.bytes(&[1, 5, 2, 3]);
    let element = || quantized(-1, &[0.5], 3);
    let image = Place::new("NHWC");
    let aligned = image.clone().padded('C', &[(0, 5)], 8);
    let split = Place::new("NHWCc4").padded('C', &[(0, 5)], 8);
    let blocked = Place::new("NCHWc4").padded('C', &[(0, 5)], 8);
    let dtype = |place: &Place| place.dtype(element(), NAMES, &x.shape);
    let mut net = Net::default();
    let input = net.input(dtype(&image));
    let a = net.op("AlignAxis", &[input], dtype(&aligned), &[]);
    let s = net.op("Reshape", &[a], dtype(&split), &[]);
    let b = net.op("Transpose", &[s], dtype(&blocked), &[("dims", ints(&[0, 3, 1, 2, 4]))]);
    let s = net.op("Transpose", &[b], dtype(&split), &[("dims", ints(&[0, 2, 3, 1, 4]))]);
    let a = net.op("Reshape", &[s], dtype(&aligned), &[]);
    let y = net.op("PruneAxis", &[a], dtype(&image), &[]);
    let document = net.finish(&[y, b]);
    let mut prepared = graph(&document);
    passes::prepare(&mut prepared).expect("a graph");
    let name = prepared.value(prepared.inputs[0]).name.clone();
    let given = image.store(NAMES, &x, 0.0);
    let found = interpret(&prepared, &[(&name, given.clone())]);
    assert_eq!(found[0], given);
    assert_eq!(found[1], blocked.store(NAMES, &x, 3.0));
}

#[test]
fn products_of_matrices() {
    let mut numbers = Numbers::new(10);
    let (x, w, b) = (numbers.reals(&[2, 5], 1.0), numbers.reals(&[5, 3], 1.0), numbers.reals(&[3], 1.0));
    let (xs, ws, bs) = (x.reals(), w.reals(), b.reals());
    let expected: Vec<f64> = (0..6)
        .map(|at| (0..5).map(|k| xs[at / 3 * 5 + k] * ws[k * 3 + at % 3]).sum::<f64>() + bs[at % 3])
        .collect();
    let turned = Tensor::f32(&[3, 5], &(0..15).map(|at| w.as_f32()[at % 5 * 3 + at / 5]).collect::<Vec<_>>());
    for (layout, weights) in [("IO", &w), ("OI", &turned)] {
        for x_layout in ["NC", "NCc4"] {
            let place = Place::new(x_layout);
            let mut net = Net::default();
            let input = net.input(place.dtype(F32, "NC", &[2, 5]));
            let k = net.constant(real(layout, &weights.shape), weights);
            let bias = net.constant(real("*", &[3]), &b);
            let y = net.op(
                "Matmul",
                &[input, k, bias],
                real("NC", &[2, 3]),
                &[("cut_scale", text("@scales([axis=-1])"))],
            );
            let found = run(&net.finish(&[y]), &[place.store("NC", &x, 8.0)]).remove(0);
            close(&found, &expected, layout);
        }
    }
    // Of two values, batched.
    let (a, c) = (numbers.reals(&[2, 2, 3], 1.0), numbers.reals(&[2, 3, 2], 1.0));
    let mut net = Net::default();
    let inputs = [net.input(real("***", &[2, 2, 3])), net.input(real("***", &[2, 3, 2]))];
    let y = net.op("Matmul", &inputs, real("***", &[2, 2, 2]), &[]);
    let (av, cv) = (a.reals(), c.reals());
    let expected: Vec<f64> = (0..8)
        .map(|at| (0..3).map(|k| av[at / 4 * 6 + at / 2 % 2 * 3 + k] * cv[at / 4 * 6 + k * 2 + at % 2]).sum())
        .collect();
    close(&run(&net.finish(&[y]), &[a, c]).remove(0), &expected, "batched");
}

#[test]
fn transposed_convolutions_spread_their_operand() {
    let mut numbers = Numbers::new(11);
    let mut random = Random(12);
    for round in 0..40 {
        let groups = [1, 3][round % 2];
        let mut below = |limit: usize| random.below(limit);
        let kernel = [1 + below(3), 1 + below(3)];
        let (stride, dilation) = ([1 + below(3), 1 + below(3)], [1 + below(2), 1 + below(2)]);
        // Top, left, bottom, right; rows and columns more behind the end.
        let pad = [0; 4].map(|_| below(3));
        let more = [below(stride[0]), below(stride[1])];
        let (x, w, b) = (
            numbers.reals(&[1, 3, 4, 5], 1.0),
            numbers.reals(&[2 * groups, 3 / groups, kernel[0], kernel[1]], 1.0),
            numbers.reals(&[2 * groups], 1.0),
        );
        let size = |axis: usize, extent: usize| {
            let all = (extent - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1 + more[axis];
            all.checked_sub(pad[axis] + pad[axis + 2]).filter(|&rest| rest > 0)
        };
        let (Some(rows), Some(columns)) = (size(0, 4), size(1, 5)) else { continue };
        let mut expected = vec![0.0; 2 * groups * rows * columns];
        for o in 0..2 * groups {
            for at in 0..rows * columns {
                expected[o * rows * columns + at] = b.reals()[o];
            }
            for i in 0..3 / groups {
                let from = o / 2 * (3 / groups) + i;
                for tap in 0..4 * 5 * kernel[0] * kernel[1] {
                    let (pixel, tap) = (tap / (kernel[0] * kernel[1]), tap % (kernel[0] * kernel[1]));
                    let (h, c) = (pixel / 5, pixel % 5);
                    let (kh, kw) = (tap / kernel[1], tap % kernel[1]);
                    let row = (h * stride[0] + kh * dilation[0]).checked_sub(pad[0]);
                    let column = (c * stride[1] + kw * dilation[1]).checked_sub(pad[1]);
                    if let (Some(row), Some(column)) = (row, column)
                        && row < rows
                        && column < columns
                    {
                        expected[(o * rows + row) * columns + column] += x.reals()[from * 20 + pixel]
                            * w.reals()[((o * (3 / groups) + i) * kernel[0] + kh) * kernel[1] + kw];
                    }
                }
            }
        }
        let place = Place::new("NHWC");
        let weights = Place::new("HWIO");
        let mut net = Net::default();
        let input = net.input(place.dtype(F32, NAMES, &x.shape));
        let k = net.constant(weights.dtype(F32, "OIHW", &w.shape), &weights.store("OIHW", &w, 0.0));
        let bias = net.constant(real("O", &[2 * groups]), &b);
        let attributes = [
            ("stride_height", stride[0]),
            ("stride_width", stride[1]),
            ("dilation_height", dilation[0]),
            ("dilation_width", dilation[1]),
            ("pad_top", pad[0]),
            ("pad_left", pad[1]),
            ("pad_bottom", pad[2]),
            ("pad_right", pad[3]),
            ("output_pad_height", more[0]),
            ("output_pad_width", more[1]),
            ("groups", groups),
        ];
        let given = attributes.map(|(key, value)| (key, int(value as i64)));
        let result = place.dtype(F32, NAMES, &[1, 2 * groups, rows, columns]);
        let y = net.op("ConvTranspose2d", &[input, k, bias], result, &given);
        let found = run(&net.finish(&[y]), &[place.store(NAMES, &x, 0.0)]).remove(0);
        let expected = Tensor::of_floats(DType::F64, &[1, 2 * groups, rows, columns], &expected);
        close(&found, &place.store(NAMES, &expected, 0.0).reals(), &format!("{attributes:?}"));
    }
}

#[test]
fn rows_have_convolutions() {
    let x = Tensor::f32(&[1, 4, 2], &[1., 0., 2., 1., 3., 0., 4., 1.]);
    let w = Tensor::f32(&[2, 2, 1], &[1., 10., 2., 20.]);
    let mut net = Net::default();
    let input = net.input(real("N*C", &[1, 4, 2]));
    let weights = net.constant(real("WIO", &[2, 2, 1]), &w);
    let attributes =
        [("stride_width", int(1)), ("pad_left", int(0)), ("pad_right", int(0)), ("dilation_width", int(1))];
    let y = net.op("Conv1d", &[input, weights], real("N*C", &[1, 3, 1]), &attributes);
    let found = run(&net.finish(&[y]), &[x]).remove(0);
    // x0·1 + x1·10 now, ·2 and ·20 of the next.
    assert_eq!(found.as_f32(), [25., 18., 31.]);
}
