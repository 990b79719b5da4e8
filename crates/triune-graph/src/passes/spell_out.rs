//! Operators that no command computes as they are, in terms of several that are computed.

mod pool;

use std::sync::Arc;

use triune_tensor::{DType, Rounding, Shape, function::PoolKind};

use super::{fold_constants, rewrite::Rewriter};
use crate::{
    Constant, Error, Graph, Node, Op, Origin, Value, ValueId, ValueIds,
    constant::real_bytes,
    infer::infer,
    ops::{
        AutoPad, Binary, BinaryKind, Cast, Concat, Conv, DequantizeLinear, Expand, Gather, Gemm, GlobalPool,
        MatMul, Pad, PadMode, QuantizeLinear, Reduce, ReduceKind, Reshape, Slice, SliceRange, Softmax,
        Transpose, UnaryKind, Where,
        infer::{broadcast, resolve_axis},
    },
};

/// Spells out convolutions with computed weights or addends or over doubles, pools over doubles, products whose addend is no constant row, whose factors are not 1, whose matrices are both computed, are
/// vectors or in batches that differ, powers whose exponents are of another type than their bases, pools over all of another number of axes than two, and
/// quantizers with several or computed parameters or of types that have none of their own. Wants inferred types and infers
/// those of what it adds. Returns whether anything changed.
pub(super) fn spell_out(graph: &mut Graph) -> Result<bool, Error> {
    if !graph.nodes.iter().any(may_be_spelled_out) {
        return Ok(false);
    }
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        let Some(node) = rewriter.get(index).filter(|node| may_be_spelled_out(node)).cloned() else {
            continue;
        };
        let mut site = Site::new(&mut rewriter, index, &node);
        match &node.op {
            Op::Gemm(op) => site.gemm(&node, op),
            Op::MatMul(_) => site.matmul(&node, true),
            Op::Conv(op) => site.conv(&node, op),
            Op::Slice(_) => site.slice(&node),
            Op::Pad(_) => site.pad(&node),
            Op::Binary(_) => site.pow(&node),
            Op::Softmax(op) => site.softmax(&node, *op),
            Op::GlobalPool(op) => site.global_pool(&node, *op),
            Op::Pool(op) => site.pool(&node, op),
            Op::QuantizeLinear(op) => site.quantize(&node, op.axis, op.dtype),
            Op::DequantizeLinear(op) => site.dequantize(&node, op.axis),
            _ => None,
        };
    }
    if !rewriter.commit() {
        return Ok(false);
    }
    infer(graph)?;
    fold_constants(graph)?;
    Ok(true)
}

/// Spells out products with vectors alone, for who multiplies matrices of any batches. Infers types before and after. Returns whether
/// anything changed.
pub fn spell_out_vectors(graph: &mut Graph) -> Result<bool, Error> {
    infer(graph)?;
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        let Some(node) = rewriter.get(index).filter(|node| matches!(node.op, Op::MatMul(_))).cloned() else {
            continue;
        };
        Site::new(&mut rewriter, index, &node).matmul(&node, false);
    }
    if !rewriter.commit() {
        return Ok(false);
    }
    infer(graph)?;
    fold_constants(graph)?;
    Ok(true)
}

fn may_be_spelled_out(node: &Node) -> bool {
    match &node.op {
        Op::Conv(op) => node.quant.is_none() && op.epilogue.post_ops.is_empty(),
        Op::Gemm(_) | Op::Binary(Binary { kind: BinaryKind::Pow, .. }) => node.quant.is_none(),
        Op::MatMul(op) => node.quant.is_none() && op.epilogue.post_ops.is_empty(),
        Op::Softmax(_)
        | Op::GlobalPool(_)
        | Op::Pool(_)
        | Op::Slice(_)
        | Op::Pad(Pad { mode: PadMode::Constant })
        | Op::QuantizeLinear(_)
        | Op::DequantizeLinear(_) => true,
        _ => false,
    }
}

/// Most taps of a window that become operators of their own.
const MOST_TAPS: usize = 1024;

/// Most elements that are copied so that a convolution becomes one product: what a window of 3×3 sees of 64 channels of 160×160.
const MOST_COLUMNS: usize = 1 << 24;

/// A node while others take its place.
struct Site<'r, 'g> {
    rewriter: &'r mut Rewriter<'g>,
    index: usize,
    name: String,
    origin: Arc<Origin>,
}

impl<'r, 'g> Site<'r, 'g> {
    fn new(rewriter: &'r mut Rewriter<'g>, index: usize, node: &Node) -> Self {
        Self { rewriter, index, name: node.name.clone(), origin: node.as_origin() }
    }

    fn dtype(&self, id: ValueId) -> Option<DType> {
        self.rewriter.value(id).dtype
    }

    fn shape(&self, id: ValueId) -> Option<Shape> {
        self.rewriter.value(id).fixed_shape()
    }

    /// Adds a node before the one that is spelled out.
    fn emit(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> ValueId {
        let op = op.into();
        let name = format!("{}.{}", self.name, op.name());
        let output = self.rewriter.add_value(Value::named(name.clone()));
        let inputs: ValueIds = inputs.iter().copied().map(Some).collect();
        let node = Node {
            origin: Some(Arc::clone(&self.origin)),
            ..Node::new(name, op, inputs, vec![Some(output)])
        };
        self.rewriter.add_node(node, self.index);
        output
    }

    fn constant(&mut self, constant: Option<Constant>) -> Option<ValueId> {
        let id = self.rewriter.add_value(Value::named(format!("{}.constant", self.name)));
        self.rewriter.set_constant(id, constant?);
        Some(id)
    }

    fn scalar(&mut self, value: f32) -> Option<ValueId> {
        self.constant(Constant::from_f32(Shape::from([]), &[value]))
    }

    fn double(&mut self, value: f64) -> Option<ValueId> {
        self.constant(Constant::new(DType::F64, Shape::from([]), value.to_le_bytes().to_vec()))
    }

    fn number(&mut self, value: f32, dtype: DType) -> Option<ValueId> {
        self.constant(Constant::new(dtype, Shape::from([]), real_bytes(f64::from(value), dtype).to_vec()))
    }

    /// The last operator, which makes the result of the one that is spelled out.
    fn finish(&mut self, op: impl Into<Op>, inputs: &[ValueId], node: &Node) {
        let inputs: ValueIds = inputs.iter().copied().map(Some).collect();
        let own = Node::new(&*node.name, op, inputs, node.outputs.clone());
        self.rewriter.replace(self.index, Node { origin: Some(Arc::clone(&self.origin)), ..own });
    }

    fn cast(&mut self, id: ValueId, from: DType, to: DType) -> ValueId {
        if from == to { id } else { self.emit(Op::Cast(Cast { to }), &[id]) }
    }

    /// y = α·A·B + β·C.
    fn gemm(&mut self, node: &Node, op: &Gemm) -> Option<()> {
        let operand = |index: usize| node.inputs.get(index).copied().flatten();
        let (mut a, mut b) = (operand(0)?, operand(1)?);
        // The factors are f32, and numbers of the product's type.
        let dtype = self.dtype(a)?;
        let columns = self.shape(*node.outputs.first()?.as_ref()?)?[1];
        let addend = operand(2);
        // No command multiplies doubles by weights.
        let known = self.rewriter.value(b).constant.is_some() && dtype != DType::F64;
        let is_row = |constant: &Constant| {
            let last = constant.shape().last().copied().unwrap_or(1);
            constant.elements() == 1 || constant.elements() == columns && last == columns
        };
        let row = addend.is_none_or(|id| self.rewriter.value(id).constant.as_ref().is_some_and(is_row));
        let factors = op.alpha != 1.0 || addend.is_some() && op.beta != 1.0;
        if !op.epilogue.post_ops.is_empty() || known && row && !factors {
            return None;
        }
        if !known {
            let transpose = || Op::Transpose(Transpose { perm: vec![1, 0] });
            a = if op.trans_a { self.emit(transpose(), &[a]) } else { a };
            b = if op.trans_b { self.emit(transpose(), &[b]) } else { b };
        }
        let product = if known {
            Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, ..op.clone() })
        } else {
            Op::MatMul(MatMul::default())
        };
        if addend.is_none() && op.alpha == 1.0 {
            self.finish(product, &[a, b], node);
            return Some(());
        }
        let product = self.emit(product, &[a, b]);
        let alpha = self.number(op.alpha, dtype)?;
        let Some(mut addend) = addend else {
            self.finish(BinaryKind::Mul, &[product, alpha], node);
            return Some(());
        };
        let scaled = if op.alpha == 1.0 { product } else { self.emit(BinaryKind::Mul, &[product, alpha]) };
        if op.beta != 1.0 {
            let beta = self.number(op.beta, dtype)?;
            addend = self.emit(BinaryKind::Mul, &[addend, beta]);
        }
        self.finish(BinaryKind::Add, &[scaled, addend], node);
        Some(())
    }

    /// A pool over another number of axes than an image's is a reduction.
    fn global_pool(&mut self, node: &Node, op: GlobalPool) -> Option<()> {
        let x = node.inputs[0]?;
        let rank = self.shape(x)?.rank();
        if rank == 4 && self.dtype(x)? != DType::F64 || node.quant.is_some() {
            return None;
        }
        let kind = if op.kind == PoolKind::Max { ReduceKind::Max } else { ReduceKind::Mean };
        let axes = Some((2..rank as isize).collect());
        self.finish(Op::Reduce(Reduce { kind, axes, keep_dims: true }), &[x], node);
        Some(())
    }

    fn list(&mut self, values: &[usize]) -> Option<ValueId> {
        let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
        self.constant(Constant::from_i64(Shape::from([values.len()]), &values))
    }

    fn reshape(&mut self, id: ValueId, dims: &[usize]) -> Option<ValueId> {
        let requested = self.list(dims)?;
        Some(self.emit(Op::Reshape(Reshape { allow_zero: true }), &[id, requested]))
    }

    /// Elements from one place to another, by a step, along the last two axes.
    fn window(
        &mut self,
        x: ValueId,
        starts: [usize; 2],
        ends: [usize; 2],
        steps: [usize; 2],
    ) -> Option<ValueId> {
        let (starts, ends) = (self.list(&starts)?, self.list(&ends)?);
        let (axes, steps) = (self.list(&[2, 3])?, self.list(&steps)?);
        Some(self.emit(Op::Slice(Slice), &[x, starts, ends, axes, steps]))
    }

    /// What a tap of a window sees of a padded image, at each of the window's places.
    fn seen(
        &mut self,
        image: ValueId,
        tap: [usize; 2],
        places: [usize; 2],
        stride: [usize; 2],
        dilation: [usize; 2],
    ) -> Option<ValueId> {
        let starts = [0, 1].map(|axis| tap[axis] * dilation[axis]);
        let ends = [0, 1].map(|axis| starts[axis] + (places[axis] - 1) * stride[axis] + 1);
        self.window(image, starts, ends, stride)
    }

    /// What `part` makes for each tap of a window, row by row, put together by `join`.
    fn over_taps(
        &mut self,
        kernel: [usize; 2],
        join: BinaryKind,
        mut part: impl FnMut(&mut Self, [usize; 2]) -> Option<ValueId>,
    ) -> Option<ValueId> {
        let mut total = None;
        for tap in (0..kernel[0]).flat_map(|row| (0..kernel[1]).map(move |column| [row, column])) {
            let own = part(self, tap)?;
            total = Some(total.map_or(own, |total| self.emit(join, &[total, own])));
        }
        total
    }

    /// The integers of an operand, if they are known.
    fn integers(&self, node: &Node, index: usize) -> Option<Vec<i64>> {
        let id = node.inputs.get(index).copied().flatten()?;
        self.rewriter.value(id).constant.as_ref()?.to_i64()
    }

    /// A part of which elements come in reverse: those are picked by index.
    fn slice(&mut self, node: &Node) -> Option<()> {
        let steps = self.integers(node, 4).filter(|steps| steps.iter().any(|&step| step < 0))?;
        let (starts, ends, axes) = (self.integers(node, 1)?, self.integers(node, 2)?, self.integers(node, 3));
        let mut x = node.inputs.first().copied()??;
        let ranges = Slice::ranges(&self.shape(x)?, &starts, &ends, axes.as_deref(), Some(&steps))?;
        let backwards = |axis: &usize| ranges[*axis].step < 0;
        let (behind, ahead): (Vec<usize>, Vec<usize>) = (0..ranges.len()).partition(backwards);
        if !ahead.is_empty() {
            let starts: Vec<usize> = ahead.iter().map(|&axis| ranges[axis].start).collect();
            let end = |&axis: &usize| {
                let range = ranges[axis];
                range.start + range.length.checked_sub(1).map_or(0, |last| last * range.step as usize + 1)
            };
            let ends: Vec<usize> = ahead.iter().map(end).collect();
            // A step over a single element may be huge; it is never taken.
            let step = |&axis: &usize| if ranges[axis].length > 1 { ranges[axis].step as usize } else { 1 };
            let steps: Vec<usize> = ahead.iter().map(step).collect();
            let operands = [self.list(&starts)?, self.list(&ends)?, self.list(&ahead)?, self.list(&steps)?];
            x = self.emit(Op::Slice(Slice), &[x, operands[0], operands[1], operands[2], operands[3]]);
        }
        let (&last, others) = behind.split_last()?;
        for &axis in others {
            let index = self.backwards(ranges[axis])?;
            x = self.emit(Op::Gather(Gather { axis: axis as isize }), &[x, index]);
        }
        let index = self.backwards(ranges[last])?;
        self.finish(Op::Gather(Gather { axis: last as isize }), &[x, index], node);
        Some(())
    }

    /// The places of what is taken backwards.
    fn backwards(&mut self, range: SliceRange) -> Option<ValueId> {
        let place = |index: usize| range.start - index * range.step.unsigned_abs();
        let places: Vec<usize> = (0..range.length).map(place).collect();
        self.list(&places)
    }

    /// A border that takes elements away on some sides: those go first.
    fn pad(&mut self, node: &Node) -> Option<()> {
        let pads = self.integers(node, 1).filter(|pads| pads.iter().any(|&pad| pad < 0))?;
        let x = node.inputs.first().copied()??;
        let shape = self.shape(x)?;
        let amounts = Pad::amounts(shape.rank(), &pads, self.integers(node, 3).as_deref())?;
        let cut = |amount: i64| usize::try_from(amount.min(0).unsigned_abs()).ok();
        let added = |amount: i64| usize::try_from(amount.max(0)).ok();
        let (mut starts, mut ends, mut before, mut behind) = (vec![], vec![], vec![], vec![]);
        for (&extent, &(first, last)) in shape.iter().zip(&amounts) {
            let (start, end) = (cut(first)?, extent.checked_sub(cut(last)?));
            // What is more than all that there is cannot be taken from the operand alone.
            let end = end.filter(|end| *end >= start)?;
            starts.push(start);
            ends.push(end);
            before.push(added(first)?);
            behind.push(added(last)?);
        }
        let axes: Vec<usize> = (0..shape.rank()).collect();
        let operands = [self.list(&starts)?, self.list(&ends)?, self.list(&axes)?];
        let part = self.emit(Op::Slice(Slice), &[x, operands[0], operands[1], operands[2]]);
        let pads = self.list(&[before, behind].concat())?;
        let mut operands = vec![part, pads];
        operands.extend(node.inputs.get(2).copied().flatten());
        self.finish(node.op.clone(), &operands, node);
        Some(())
    }

    /// A matrix of weights per group under these extents, for each image.
    fn for_each_image(&mut self, weights: ValueId, dims: [usize; 4]) -> Option<ValueId> {
        let matrices = self.reshape(weights, &[1, dims[1], dims[2], dims[3]])?;
        let requested = self.list(&dims)?;
        Some(self.emit(Op::Expand(Expand), &[matrices, requested]))
    }

    /// A convolution as one product per image and group: of the weights, tap by tap, with a column of what each window sees. Sums run
    /// in the order of those of a convolution with weights that are known.
    fn by_columns(
        &mut self,
        [image, weights]: [ValueId; 2],
        images: usize,
        kernel: [usize; 2],
        places: [usize; 2],
        op: &Conv,
    ) -> Option<ValueId> {
        let (taps, groups) = (self.shape(weights)?, op.groups);
        let (area, own) = (places[0] * places[1], kernel[0] * kernel[1] * taps[1]);
        // Parts of an image are put together as they are, and become columns then: as columns they would be copies. Integers are
        // columns at once, which devices put together.
        let in_place = self.dtype(weights)?.is_float();
        let mut seen = Vec::with_capacity(kernel[0] * kernel[1]);
        for tap in (0..kernel[0]).flat_map(|row| (0..kernel[1]).map(move |column| [row, column])) {
            let pixels = self.seen(image, tap, places, op.stride, op.dilation)?;
            seen.push(if in_place {
                self.reshape(pixels, &[images, groups, taps[1], places[0], places[1]])?
            } else {
                self.reshape(pixels, &[images, groups, taps[1], area])?
            });
        }
        let columns = match seen[..] {
            [only] => only,
            _ => self.emit(Op::Concat(Concat { axis: 2 }), &seen),
        };
        let columns = if in_place { self.reshape(columns, &[images, groups, own, area])? } else { columns };
        let matrices = self.emit(Op::Transpose(Transpose { perm: vec![0, 2, 3, 1] }), &[weights]);
        let matrices = self.for_each_image(matrices, [images, groups, taps[0] / groups, own])?;
        Some(self.emit(Op::MatMul(MatMul::default()), &[matrices, columns]))
    }

    /// A convolution with weights that are computed, or over doubles: a matrix product, or one per tap where that
    /// would take too much memory. Else with a bias that is computed:
    /// that is added.
    fn conv(&mut self, node: &Node, op: &Conv) -> Option<()> {
        let (x, weights) = (node.inputs.first().copied()??, node.inputs.get(1).copied()??);
        if self.rewriter.value(weights).constant.is_some() && self.dtype(x)? != DType::F64 {
            let bias = node.inputs.get(2).copied()??;
            if self.rewriter.value(bias).constant.is_some() {
                return None;
            }
            let channels = self.shape(weights)?[0];
            let product = self.emit(Op::Conv(Box::new(op.clone())), &[x, weights]);
            let bias = self.reshape(bias, &[channels, 1, 1])?;
            self.finish(BinaryKind::Add, &[product, bias], node);
            return Some(());
        }
        let (shape, taps) = (self.shape(x)?, self.shape(weights)?);
        let kernel = op.kernel.or_else(|| taps.get(2..4)?.try_into().ok())?;
        if kernel[0].saturating_mul(kernel[1]) > MOST_TAPS || op.auto_pad != AutoPad::Explicit {
            return None;
        }
        let result = self.shape(*node.outputs.first()?.as_ref()?)?;
        let (groups, area) = (op.groups, result[2] * result[3]);
        let mut image = x;
        if op.pad != [0; 4] {
            let [top, left, bottom, right] = op.pad;
            let pads = self.list(&[0, 0, top, left, 0, 0, bottom, right])?;
            image = self.emit(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads]);
        }
        let outs = [result[2], result[3]].map(|out| out.max(1));
        let columns =
            [kernel[0] * kernel[1], shape[0], shape[1], area].into_iter().try_fold(1, usize::checked_mul);
        let total = if columns.is_some_and(|columns| (1..=MOST_COLUMNS).contains(&columns)) {
            self.by_columns([image, weights], shape[0], kernel, outs, op)?
        } else {
            self.over_taps(kernel, BinaryKind::Add, |site, tap| {
                let pixels = site.seen(image, tap, outs, op.stride, op.dilation)?;
                let pixels = site.reshape(pixels, &[shape[0], groups, shape[1] / groups, area])?;
                let tap = site.window(weights, tap, tap.map(|at| at + 1), [1, 1])?;
                let tap = site.for_each_image(tap, [shape[0], groups, taps[0] / groups, taps[1]])?;
                Some(site.emit(Op::MatMul(MatMul::default()), &[tap, pixels]))
            })?
        };
        let requested = self.list(&result)?;
        let Some(bias) = node.inputs.get(2).copied().flatten() else {
            self.finish(Op::Reshape(Reshape { allow_zero: true }), &[total, requested], node);
            return Some(());
        };
        let total = self.emit(Op::Reshape(Reshape { allow_zero: true }), &[total, requested]);
        let bias = self.reshape(bias, &[taps[0], 1, 1])?;
        self.finish(BinaryKind::Add, &[total, bias], node);
        Some(())
    }

    /// exp(x − max)/Σ over f64, in f64, or x − max − ln Σ.
    fn softmax(&mut self, node: &Node, op: Softmax) -> Option<()> {
        let x = node.inputs.first().copied()??;
        if self.dtype(x)? != DType::F64 || node.quant.is_some() {
            return None;
        }
        let rank = self.shape(x)?.rank();
        let first = if op.axis == rank as isize { rank } else { resolve_axis(op.axis as i64, rank)? };
        let axes: Vec<isize> =
            if op.flatten { first..rank } else { first..first + 1 }.map(|a| a as isize).collect();
        if axes.is_empty() {
            // Each element is a row of its own.
            let difference = self.emit(BinaryKind::Sub, &[x, x]);
            let last = if op.log { UnaryKind::Identity } else { UnaryKind::Exp };
            self.finish(last, &[difference], node);
            return Some(());
        }
        let most = self.emit(Op::Reduce(Reduce::along(ReduceKind::Max, &axes)), &[x]);
        let difference = self.emit(BinaryKind::Sub, &[x, most]);
        let power = self.emit(UnaryKind::Exp, &[difference]);
        let sum = self.emit(Op::Reduce(Reduce::along(ReduceKind::Sum, &axes)), &[power]);
        if op.log {
            let sum = self.emit(UnaryKind::Log, &[sum]);
            self.finish(BinaryKind::Sub, &[difference, sum], node);
        } else {
            self.finish(BinaryKind::Div, &[power, sum], node);
        }
        Some(())
    }

    /// aᵇ with b in the type of a; a real power of an integer is computed in f64 and cut.
    fn pow(&mut self, node: &Node) -> Option<()> {
        let (a, b) = (node.inputs.first().copied()??, node.inputs.get(1).copied()??);
        let (base, exponent) = (self.dtype(a)?, self.dtype(b)?);
        if base == exponent {
            return None;
        }
        if exponent.is_float() && !base.is_float() {
            let (a, b) = (self.cast(a, base, DType::F64), self.cast(b, exponent, DType::F64));
            let power = self.emit(node.op.clone(), &[a, b]);
            self.finish(Op::Cast(Cast { to: base }), &[power], node);
            return Some(());
        }
        let b = self.cast(b, exponent, base);
        self.finish(node.op.clone(), &[a, b], node);
        Some(())
    }

    /// A · B with vectors as matrices and, if they are to be, the batches spread: commands have one B for all or one for each A.
    fn matmul(&mut self, node: &Node, spreads: bool) -> Option<()> {
        let (a, b) = (node.inputs.first().copied()??, node.inputs.get(1).copied()??);
        let (left, right) = (self.shape(a)?, self.shape(b)?);
        let rows = if left.rank() == 1 { vec![1, left[0]] } else { left.to_vec() };
        let columns = if right.rank() == 1 { vec![right[0], 1] } else { right.to_vec() };
        let (own, row) = rows.split_at(rows.len() - 2);
        let (other, column) = columns.split_at(columns.len() - 2);
        let vectors = left.rank() == 1 || right.rank() == 1;
        let fits = own == other || other.iter().all(|&extent| extent == 1) && own.len() >= other.len();
        if !vectors && (fits || !spreads) {
            return None;
        }
        let batch = broadcast(own, other)?;
        let (mut a, mut b) = (self.reshape(a, &rows)?, self.reshape(b, &columns)?);
        if spreads && own != batch {
            let requested = self.list(&[&batch, row].concat())?;
            a = self.emit(Op::Expand(Expand), &[a, requested]);
        }
        if spreads && other != batch && other.iter().any(|&extent| extent != 1) {
            let requested = self.list(&[&batch, column].concat())?;
            b = self.emit(Op::Expand(Expand), &[b, requested]);
        }
        if !vectors {
            self.finish(Op::MatMul(MatMul::default()), &[a, b], node);
            return Some(());
        }
        let product = self.emit(Op::MatMul(MatMul::default()), &[a, b]);
        let result = self.shape(*node.outputs.first()?.as_ref()?)?;
        let requested = self.list(&result)?;
        self.finish(Op::Reshape(Reshape { allow_zero: true }), &[product, requested], node);
        Some(())
    }

    /// A quantizer's parameter as f32 (or as `to`), to be spread over `x`.
    fn parameter(&mut self, id: ValueId, x: &Shape, axis: isize, to: DType) -> Option<ValueId> {
        let shape = self.shape(id)?;
        let id = self.cast(id, self.dtype(id)?, to);
        let mut dims = vec![1; x.rank()];
        if shape.elements()? != 1 {
            dims[resolve_axis(axis as i64, x.rank())?] = shape.elements()? as i64;
        }
        let requested = self.constant(Constant::from_i64(Shape::from([dims.len()]), &dims))?;
        Some(self.emit(Op::Reshape(Reshape { allow_zero: true }), &[id, requested]))
    }

    /// Whether commands have the border between reals and this type of integers, with the node's parameters.
    fn has_command(&self, node: &Node, dtype: DType) -> bool {
        let symmetric = |zero_point| dtype != DType::I32 || zero_point == 0;
        let params = self.rewriter.graph().border_params(node);
        (dtype.holds_quantized() || matches!(dtype, DType::U16 | DType::I32))
            && params.is_some_and(|params| symmetric(params.zero_point))
    }

    /// y = clamp(round(x / scale) + zero point); NaN gives the lowest integer.
    fn quantize(&mut self, node: &Node, axis: isize, dtype: DType) -> Option<()> {
        let (x, scale) = (node.inputs.first().copied()??, node.inputs.get(1).copied()??);
        let zero_point = node.inputs.get(2).copied().flatten();
        let dtype = zero_point.and_then(|id| self.dtype(id)).unwrap_or(dtype);
        let from = self.dtype(x)?;
        if self.has_command(node, dtype) && dtype != DType::I32 && from == DType::F32 {
            return None;
        }
        let one = |id: ValueId| self.shape(id).and_then(|shape| shape.elements()) == Some(1);
        let computed = one(scale) && zero_point.is_none_or(one) && self.dtype(scale) == Some(DType::F32);
        if computed && from == DType::F32 && dtype.is_quantized() {
            return None;
        }
        let shape = self.shape(x)?;
        let x = self.cast(x, from, DType::F32);
        let scale = self.parameter(scale, &shape, axis, DType::F32)?;
        if let Some(largest) = dtype.largest().filter(|_| dtype.is_storage()) {
            // Reals round by themselves, and their zero point is 0.
            let quotient = self.emit(BinaryKind::Div, &[x, scale]);
            let largest = largest as f32;
            let limited = self.emit(UnaryKind::Clip([-largest, largest]), &[quotient]);
            self.finish(Op::Cast(Cast { to: dtype }), &[limited], node);
            return Some(());
        }
        let (low, high) = dtype.int_range()?;
        let (low, high) = (low as f32, high as f32);
        let (quotient, round) = match self.rewriter.rounding() {
            Rounding::HalfToEven => (self.emit(BinaryKind::Div, &[x, scale]), UnaryKind::Round),
            Rounding::HalfAwayFromZero => {
                let inverse = self.emit(UnaryKind::Reciprocal, &[scale]);
                (self.emit(BinaryKind::Mul, &[x, inverse]), UnaryKind::RoundHalfAway)
            }
        };
        if let Some(shared) = self.shared_zero_point(zero_point).filter(|_| dtype.holds_quantized()) {
            return self.quantize_by_one(quotient, shared, dtype, node);
        }
        let mut integers = self.emit(round, &[quotient]);
        if let Some(zero_point) = zero_point {
            let zero_point = self.parameter(zero_point, &shape, axis, DType::F32)?;
            integers = self.emit(BinaryKind::Add, &[integers, zero_point]);
        }
        if dtype.holds_quantized() {
            return self.quantize_by_one(integers, 0, dtype, node);
        }
        let clamped = self.emit(UnaryKind::Clip([low, high]), &[integers]);
        let number = self.emit(BinaryKind::Equal, &[quotient, quotient]);
        let lowest = self.scalar(low)?;
        let clamped = self.emit(Op::Where(Where), &[number, clamped, lowest]);
        self.finish(Op::Cast(Cast { to: dtype }), &[clamped], node);
        Some(())
    }

    /// The zero point that all elements have, if it is known.
    fn shared_zero_point(&self, id: Option<ValueId>) -> Option<i64> {
        let Some(id) = id else { return Some(0) };
        let all = self.rewriter.value(id).constant.as_ref()?.to_i64()?;
        let &first = all.first()?;
        all.iter().all(|&zero_point| zero_point == first).then_some(first)
    }

    /// A scale of 1 and one zero point, as a quantizer's operands behind the first.
    fn unit_params(&mut self, zero_point: i64, dtype: DType) -> Option<[ValueId; 2]> {
        let bytes = &zero_point.to_le_bytes()[..dtype.bytes()];
        Some([self.scalar(1.0)?, self.constant(Constant::new(dtype, Shape::from([]), bytes.to_vec()))?])
    }

    /// The last operator: what was divided by its scales rounds, saturates and becomes an integer as in every quantizer.
    fn quantize_by_one(&mut self, x: ValueId, zero_point: i64, dtype: DType, node: &Node) -> Option<()> {
        let [scale, zero_point] = self.unit_params(zero_point, dtype)?;
        self.finish(Op::QuantizeLinear(QuantizeLinear { axis: 0, dtype }), &[x, scale, zero_point], node);
        Some(())
    }

    /// y = (x − zero point)·scale; the difference is exact.
    fn dequantize(&mut self, node: &Node, axis: isize) -> Option<()> {
        let (x, scale) = (node.inputs.first().copied()??, node.inputs.get(1).copied()??);
        let from = self.dtype(x)?;
        if self.has_command(node, from) {
            return None;
        }
        let shape = self.shape(x)?;
        let zero_point = node.inputs.get(2).copied().flatten();
        let shared = self.shared_zero_point(zero_point).filter(|_| from.holds_quantized());
        let difference = if let Some(shared) = shared {
            let [one, zero_point] = self.unit_params(shared, from)?;
            self.emit(Op::DequantizeLinear(DequantizeLinear { axis: 0 }), &[x, one, zero_point])
        } else {
            let exact = if from.bytes() > 2 { DType::I64 } else { DType::F32 };
            let mut difference = self.cast(x, from, exact);
            if let Some(zero_point) = zero_point {
                let zero_point = self.parameter(zero_point, &shape, axis, exact)?;
                difference = self.emit(BinaryKind::Sub, &[difference, zero_point]);
            }
            self.cast(difference, exact, DType::F32)
        };
        let scale = self.parameter(scale, &shape, axis, DType::F32)?;
        self.finish(BinaryKind::Mul, &[difference, scale], node);
        Some(())
    }
}
