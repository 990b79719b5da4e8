//! Convolutions whose weights are computed: correlation of two images, filters that are chosen by what they see. They are one product
//! of two activations each, of the weights as they lie with a column of what each window sees.

use super::{
    super::rewrite::Rewriter,
    maker::Maker,
    movement::is_reordering,
    pattern::{dequantized, quantizer},
};
use crate::{
    Error, Graph, Node, Op, ValueId,
    infer::infer,
    ops::{AutoPad, Conv, MatMul, Pad, PadMode, Reshape, Unary, UnaryKind},
};

/// Most elements of the columns, which are copies.
const MOST_ELEMENTS: usize = 1 << 24;

/// Most rows and columns of a window together, each of which is copied by itself.
const MOST_PARTS: usize = 256;

/// Makes products of all convolutions of computed weights between quantizers. Infers types behind what
/// changed. Returns whether anything did.
pub fn spell_out_correlations(graph: &mut Graph) -> Result<bool, Error> {
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        as_product(&mut rewriter, index);
    }
    if !rewriter.commit() {
        return Ok(false);
    }
    infer(graph)?;
    Ok(true)
}

/// Makes a product of the convolution at `index` if its weights are computed, and it and both its operands are quantized.
pub(super) fn as_product(rewriter: &mut Rewriter<'_>, index: usize) {
    if let Some(found) = Found::of(rewriter, index) {
        found.multiply(rewriter, index);
    }
}

struct Found {
    op: Box<Conv>,
    image: ValueId,
    weights: ValueId,
    output: ValueId,
    /// Images, channels, rows and columns of the operand and of the result.
    from: [usize; 4],
    to: [usize; 4],
    kernel: [usize; 2],
}

impl Found {
    fn of(rewriter: &Rewriter<'_>, index: usize) -> Option<Self> {
        let node = rewriter.get(index)?;
        let Op::Conv(op) = &node.op else { return None };
        let plain = node.quant.is_none() && op.epilogue.post_ops.is_empty();
        let biased = node.inputs.get(2).copied().flatten().is_some();
        (plain && !biased && op.auto_pad == AutoPad::Explicit).then_some(())?;
        let (image, weights) = (node.inputs.first().copied()??, node.inputs.get(1).copied()??);
        let output = node.outputs.first().copied()??;
        (is_activation(rewriter, weights) && is_activation(rewriter, image)).then_some(())?;
        is_quantized(rewriter, output, MOST_STEPS).then_some(())?;
        let extents = |id: ValueId| <[usize; 4]>::try_from(&*rewriter.value(id).fixed_shape()?).ok();
        let (from, taps, to) = (extents(image)?, extents(weights)?, extents(output)?);
        let elements = [to[0], taps[1], op.groups, taps[2], taps[3], to[2], to[3]];
        let elements = elements.into_iter().try_fold(1, usize::checked_mul)?;
        let fits = (1..=MOST_ELEMENTS).contains(&elements) && taps[2] + taps[3] <= MOST_PARTS;
        fits.then(|| Self { op: op.clone(), image, weights, output, from, to, kernel: [taps[2], taps[3]] })
    }

    fn multiply(self, rewriter: &mut Rewriter<'_>, index: usize) {
        let Self { op, image, weights, output, from, to, kernel } = self;
        let ([images, channels, mut rows, mut columns], groups) = (from, op.groups);
        let (made, area) = (to[1] / groups, to[2] * to[3]);
        let mut make = Maker::new(rewriter, index, output);
        let mut at = image;
        let [top, left, bottom, right] = op.pad;
        if op.pad != [0; 4] {
            [rows, columns] = [rows + top + bottom, columns + left + right];
            let padded = make.value("padded", &[images, channels, rows, columns]);
            let pads = make.list(&[0, 0, top, left, 0, 0, bottom, right]);
            make.node(Op::Pad(Pad { mode: PadMode::Constant }), vec![Some(at), Some(pads)], padded);
            at = padded;
        }
        // What the rows of a window see, then what its columns see of that.
        let mut seen = [images, channels, rows, columns];
        for (along, what) in [(0, "by_rows"), (1, "by_columns")] {
            let (axis, count) = (2 + along, to[2 + along]);
            if kernel[along] == 1 && count == seen[axis] {
                continue;
            }
            seen[axis] = count;
            let apart = [images, seen[1], 1, seen[2] * seen[3]];
            let parts: Vec<ValueId> = (0..kernel[along])
                .map(|tap| {
                    let places = (axis, tap * op.dilation[along], op.stride[along]);
                    let part = make.sliced(at, &format!("{what}{tap}"), places, &seen);
                    make.reshaped(part, &format!("{what}{tap}_apart"), &apart)
                })
                .collect();
            let together = [images, seen[1], kernel[along], seen[2] * seen[3]];
            at = if let [only] = parts[..] { only } else { make.joined(&parts, what, 2, &together) };
            seen[1] *= kernel[along];
            at = make.reshaped(at, &format!("{what}_together"), &seen);
        }
        let long = channels / groups * kernel[0] * kernel[1];
        let [places, operand, product] = [
            vec![images, groups, long, area],
            vec![groups, long, images * area],
            vec![groups, made, images * area],
        ];
        let mut sees = make.reshaped(at, "seen", &places);
        if images > 1 {
            sees = make.transposed(sees, "seen_by_groups", &[1, 2, 0, 3], &[groups, long, images, area]);
        }
        let sees = make.reshaped(sees, "columns", &operand);
        let matrices = make.reshaped(weights, "matrices", &[groups, made, long]);
        let mut result = make.value("product", &product);
        make.node(Op::MatMul(MatMul::default()), vec![Some(matrices), Some(sees)], result);
        if images > 1 {
            let apart = make.reshaped(result, "product_by_images", &[groups, made, images, area]);
            result =
                make.transposed(apart, "product_in_images", &[2, 0, 1, 3], &[images, groups, made, area]);
        }
        let inputs = vec![Some(result), Some(make.list(&to))];
        make.finish(Op::Reshape(Reshape { allow_zero: false }), inputs, output);
    }
}

/// Whether a real is made of integers of 8 bits that are computed, in another order at most.
fn is_activation(rewriter: &Rewriter<'_>, mut real: ValueId) -> bool {
    while let Some((_, node)) = rewriter.producer(real)
        && is_reordering(&node.op)
        && let Some(Some(x)) = node.inputs.first().copied()
    {
        real = x;
    }
    dequantized(rewriter, real)
        .is_some_and(|(source, from)| from.is_byte() && rewriter.value(source).constant.is_none())
}

/// Most steps between a result and its quantizer.
const MOST_STEPS: usize = 8;

/// Whether a real is only read to be quantized, limited and in another order at most, after so many `steps` at most.
fn is_quantized(rewriter: &Rewriter<'_>, real: ValueId, steps: usize) -> bool {
    let quantizes = |(at, node): (usize, &Node)| {
        let passes = is_reordering(&node.op)
            || matches!(
                &node.op,
                Op::Unary(Unary { kind: UnaryKind::Relu | UnaryKind::Clip(_) }) | Op::Clip(_)
            );
        let mut results = node.outputs.iter().flatten();
        quantizer(rewriter, at).is_some()
            || passes && steps > 0 && results.all(|&result| is_quantized(rewriter, result, steps - 1))
    };
    let mut readers = rewriter.consumers(real).filter_map(|at| Some((at, rewriter.get(at)?)));
    rewriter.is_private(real) && readers.all(quantizes)
}
