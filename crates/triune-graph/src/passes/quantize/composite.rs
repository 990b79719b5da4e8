//! Several operators over reals that are one over integers: functions of one value, factors and addends per channel,
//! normalizations. Each begins behind one `DequantizeLinear`.

use std::{collections::HashMap, sync::Arc};

use triune_tensor::{DType, QuantParams, Rounding, Shape};

use super::{
    super::rewrite::Rewriter,
    operator::clip_limits,
    over,
    pattern::{bias, dequantized, quantizer},
    table::{Quantized, integer},
};
use crate::{
    Constant, Error, Graph, Node, Op, Quantization, Value, ValueId,
    ops::{
        AutoPad, Binary, BinaryKind, GlobalPool, LayerNorm, PoolKind, Reduce, ReduceKind, Table, Tables,
        Unary, UnaryKind,
    },
};

/// The one operator over integers that makes `real`, quantized as `to` says.
pub(super) fn form(rewriter: &mut Rewriter<'_>, real: ValueId, to: Quantized) -> Option<Node> {
    to.is_byte().then_some(())?;
    function(rewriter, real, to).or_else(|| normalization(rewriter, real, to))
}

fn name(rewriter: &Rewriter<'_>, real: ValueId) -> String {
    rewriter.producer(real).map_or_else(String::new, |(_, node)| node.name.clone())
}

fn operand(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// A constant of one element.
fn scalar(rewriter: &Rewriter<'_>, id: ValueId) -> Option<f32> {
    (count(rewriter, id)? == 1).then_some(())?;
    let elements = floats(rewriter, id)?;
    if let [value] = *elements { Some(value) } else { None }
}

/// Elements of a constant of reals, dequantized or not; looks at none of them.
fn count(rewriter: &Rewriter<'_>, id: ValueId) -> Option<usize> {
    if let Some(constant) = &rewriter.value(id).constant {
        return (constant.dtype() == DType::F32).then(|| constant.elements());
    }
    let source = match dequantized(rewriter, id) {
        Some((source, _)) => source,
        None => bias(rewriter, id)?.source,
    };
    Some(rewriter.value(source).constant.as_ref()?.elements())
}

/// A constant of reals, dequantized or not.
fn floats(rewriter: &Rewriter<'_>, id: ValueId) -> Option<Vec<f32>> {
    if let Some(constant) = &rewriter.value(id).constant {
        return (constant.dtype() == DType::F32).then(|| constant.to_f32())?;
    }
    if let Some((source, meaning)) = dequantized(rewriter, id) {
        let integers = rewriter.value(source).constant.as_ref()?.to_i64()?;
        return Some(integers.into_iter().map(|q| meaning.params.dequantize(q as i32)).collect());
    }
    // Tools that quantize take what is added for a bias.
    let bias = bias(rewriter, id)?;
    bias.floats(bias.elements)?.to_f32()
}

// ---- functions of one value ----

/// Most operators between a value and its function.
const DEEPEST: usize = 24;

/// Looks for the one dequantized value of bytes that a real is a function of.
struct Walk<'w, 'r> {
    rewriter: &'w Rewriter<'r>,
    source: Option<(ValueId, Quantized)>,
    /// The axis along which the function is another one for each index: how many axes lie from there to the last, itself counted,
    /// and its extent.
    axis: Option<(usize, usize)>,
    tables: HashMap<ValueId, Option<FloatTables>>,
}

/// A function's results by the byte of its value; of one function, or of one for each index of an axis.
type FloatTables = Arc<[[f32; 256]]>;

/// Most functions that an operator has along an axis.
const MOST_TABLES: usize = 4096;

/// A chain or a web of functions of one value of bytes and of constants, of which there may be one per index of an axis: a table, or
/// a table for each index.
fn function(rewriter: &Rewriter<'_>, real: ValueId, to: Quantized) -> Option<Node> {
    let mut walk = Walk { rewriter, source: None, axis: None, tables: HashMap::new() };
    let results = walk.results(real, DEEPEST)?;
    let (source, from) = walk.source?;
    let shape = rewriter.value(source).fixed_shape()?;
    (rewriter.value(real).fixed_shape()? == shape).then_some(())?;
    let rounding = rewriter.rounding();
    let quantized =
        |results: &[f32; 256]| results.map(|real| to.params.quantize_by(rounding, real, to.dtype) as u8);
    let tables: Arc<[[u8; 256]]> = results.iter().map(quantized).collect();
    let op = match (&*tables, walk.axis) {
        ([first, others @ ..], _) if others.iter().all(|other| other == first) => {
            Op::Table(Table { table: Arc::new(*first) })
        }
        (_, Some((behind, _))) => Op::Tables(Tables { tables, axis: shape.rank().checked_sub(behind)? }),
        _ => return None,
    };
    let quant = Some(Box::new(over(&[from], to)));
    Some(Node { quant, ..Node::new(name(rewriter, real), op, vec![Some(source)], Vec::new()) })
}

impl Walk<'_, '_> {
    fn results(&mut self, real: ValueId, depth: usize) -> Option<FloatTables> {
        if let Some(table) = self.tables.get(&real) {
            return table.clone();
        }
        let results = self.computed(real, depth);
        self.tables.insert(real, results.clone());
        results
    }

    /// Each step is computed in f64 and rounded to f32.
    fn computed(&mut self, real: ValueId, depth: usize) -> Option<FloatTables> {
        if let Some(values) = self.constants(real) {
            return Some(values.into_iter().map(|value| [value; 256]).collect());
        }
        if let Some((source, from)) = dequantized(self.rewriter, real) {
            let fits = from.is_byte() && self.rewriter.value(source).constant.is_none();
            let same = self.source.is_none_or(|own| own == (source, from));
            (fits && same).then_some(())?;
            self.source = Some((source, from));
            let reals = |byte: usize| from.params.dequantize(integer(byte as u8, from.dtype));
            return Some(Arc::new([std::array::from_fn(reals)]));
        }
        let depth = depth.checked_sub(1)?;
        let (_, node) = self.rewriter.producer(real)?;
        (node.quant.is_none() && self.rewriter.value(real).dtype == Some(DType::F32)).then_some(())?;
        match &node.op {
            Op::Unary(Unary { kind }) => self.mapped(operand(node, 0)?, depth, *kind),
            Op::Clip(_) => {
                let limits = clip_limits(self.rewriter, node)?;
                self.mapped(operand(node, 0)?, depth, UnaryKind::Clip(limits))
            }
            Op::Binary(Binary { kind, epilogue }) if epilogue.post_ops.is_empty() => {
                let step = arithmetic(*kind)?;
                let (a, b) = (operand(node, 0)?, operand(node, 1)?);
                let (a, b) = (self.results(a, depth)?, self.results(b, depth)?);
                // One function serves every index.
                let (all_a, all_b) = (a.iter().cycle(), b.iter().cycle());
                let pairs = all_a.zip(all_b).take(a.len().max(b.len()));
                pairs.map(|(a, b)| both(step, a, b)).collect()
            }
            // Factors and addends per channel.
            Op::Conv(op) => {
                let (scale, shift) = point(self.rewriter, node, op.groups)?;
                if op.groups > 1 {
                    self.along(IMAGE_CHANNELS, op.groups)?;
                }
                let x = self.results(operand(node, 0)?, depth)?;
                let channels = scale.iter().zip(&shift).zip(x.iter().cycle());
                Some(channels.map(|((scale, shift), x)| x.map(|x| x * scale + shift)).collect())
            }
            _ => None,
        }
    }

    fn mapped(&mut self, x: ValueId, depth: usize, kind: UnaryKind) -> Option<FloatTables> {
        let x = self.results(x, depth)?;
        Some(x.iter().map(|x| x.map(|x| kind.evaluate(f64::from(x)) as f32)).collect())
    }

    /// A constant of one element, or of elements along one axis.
    fn constants(&mut self, id: ValueId) -> Option<Vec<f32>> {
        let count = count(self.rewriter, id).filter(|&count| 0 < count && count <= MOST_TABLES)?;
        if count > 1 {
            let shape = self.rewriter.value(id).fixed_shape()?;
            let axis = shape.iter().position(|&extent| extent == count)?;
            self.along(shape.rank() - axis, count)?;
        }
        floats(self.rewriter, id)
    }

    /// The one axis along which functions differ.
    fn along(&mut self, behind: usize, count: usize) -> Option<()> {
        let own = (behind, count);
        (count <= MOST_TABLES && *self.axis.get_or_insert(own) == own).then_some(())
    }
}

/// Axes of an image from that of its channels on.
const IMAGE_CHANNELS: usize = 3;

/// A function of two functions of one byte.
fn both(step: Step, a: &[f32; 256], b: &[f32; 256]) -> Option<[f32; 256]> {
    let mut results = [0.0; 256];
    for (result, (&a, &b)) in results.iter_mut().zip(a.iter().zip(b)) {
        *result = step(f64::from(a), f64::from(b))? as f32;
    }
    Some(results)
}

/// What two reals make, if f64 gives it with no more than one rounding to f32.
type Step = fn(f64, f64) -> Option<f64>;

/// Functions of two reals that f64 gives with no more than one rounding to f32.
fn arithmetic(kind: BinaryKind) -> Option<Step> {
    Some(match kind {
        BinaryKind::Add => |a, b| Some(a + b),
        BinaryKind::Sub => |a, b| Some(a - b),
        BinaryKind::Mul => |a, b| Some(a * b),
        BinaryKind::Div => |a, b| Some(a / b),
        BinaryKind::PRelu => |a, b| Some(if a < 0.0 { a * b } else { a }),
        // Of what is no number, each runtime makes what it likes.
        BinaryKind::Max => |a, b| (!a.is_nan() && !b.is_nan()).then(|| a.max(b)),
        BinaryKind::Min => |a, b| (!a.is_nan() && !b.is_nan()).then(|| a.min(b)),
        BinaryKind::Pow => |a, b| match b {
            0.5 => Some(a.sqrt()),
            1.0 => Some(a),
            2.0 => Some(a * a),
            3.0 => Some(a * a * a),
            _ => None,
        },
        _ => return None,
    })
}

/// Factors and addends of a depthwise 1×1 convolution over reals, which a normalization becomes that nothing takes in.
fn point(rewriter: &Rewriter<'_>, node: &Node, channels: usize) -> Option<(Vec<f32>, Vec<f32>)> {
    let Op::Conv(op) = &node.op else { return None };
    let plain = op.stride == [1; 2] && op.pad == [0; 4] && op.epilogue.post_ops.is_empty();
    let elements = |id: ValueId| rewriter.value(id).constant.as_ref()?.to_f32();
    let weights = operand(node, 1)?;
    let fits = rewriter.value(weights).fixed_shape()? == Shape::from([channels, 1, 1, 1]);
    let explicit = op.auto_pad == AutoPad::Explicit && op.groups == channels;
    (plain && fits && explicit && node.quant.is_none()).then_some(())?;
    let shift = match operand(node, 2) {
        Some(bias) => elements(bias)?,
        None => vec![0.0; channels],
    };
    Some((elements(weights)?, shift))
}

// ---- normalizations ----

/// (x − mean)/√(variance + ε), maybe times a factor and plus an addend per element of the axes.
fn normalization(rewriter: &mut Rewriter<'_>, real: ValueId, to: Quantized) -> Option<Node> {
    let (op, x, rows) = normalized(rewriter, real)?;
    let (source, from) = dequantized(rewriter, x)?;
    // Networks that round otherwise compute it in reals.
    let fits = from.dtype == to.dtype && rewriter.rounding() == Rounding::HalfToEven;
    let constant = rewriter.value(source).constant.is_some();
    (fits && from.is_byte() && !constant).then_some(())?;
    let inputs = with_rows(rewriter, source, rows);
    let mut operands: Vec<Option<QuantParams>> = vec![None; inputs.len()];
    operands[0] = Some(from.params);
    let quant = Quantization { operands, weights: [].into(), dtype: to.dtype, result: to.params };
    let op = Op::LayerNorm(op);
    Some(Node { quant: Some(Box::new(quant)), ..Node::new(name(rewriter, real), op, inputs, Vec::new()) })
}

/// x·½·(1 + erf(x/√2)) of a dequantized x, in whatever order it is multiplied: one function. Returns whether the node was its last.
pub(super) fn join_gelu(rewriter: &mut Rewriter<'_>, index: usize) -> bool {
    join_gelu_of(rewriter, index, |rewriter, x| dequantized(rewriter, x).is_some())
}

/// The same of an x that `fits`.
fn join_gelu_of(
    rewriter: &mut Rewriter<'_>,
    index: usize,
    fits: impl Fn(&Rewriter<'_>, ValueId) -> bool,
) -> bool {
    let Some(Some(real)) = rewriter.get(index).and_then(|node| node.outputs.first().copied()) else {
        return false;
    };
    let Some(x) = gelu_of(rewriter, real).filter(|&x| fits(rewriter, x)) else { return false };
    let op = Op::Unary(Unary { kind: UnaryKind::Gelu });
    let name = name(rewriter, real);
    rewriter.replace(index, Node::new(name, op, vec![Some(x)], vec![Some(real)]));
    true
}

fn gelu_of(rewriter: &Rewriter<'_>, real: ValueId) -> Option<ValueId> {
    let mut factors = Vec::new();
    multiplied(rewriter, real, 2, &mut factors);
    let [_, _, _] = factors[..] else { return None };
    let half = factors.iter().position(|&id| scalar(rewriter, id) == Some(0.5))?;
    factors.swap_remove(half);
    let [a, b] = factors[..] else { return None };
    let near = |value: f32, wanted: f64| (f64::from(value) - wanted).abs() < 1e-6;
    let fits = |x: ValueId, sum: ValueId| {
        let (BinaryKind::Add, ends) = binary(rewriter, sum)? else { return None };
        let one = (0..2).find(|&at| scalar(rewriter, ends[at]) == Some(1.0))?;
        let inner = unary(rewriter, ends[1 - one], UnaryKind::Erf)?;
        let scaled = match binary(rewriter, inner)? {
            (BinaryKind::Div, [y, root]) if near(scalar(rewriter, root)?, std::f64::consts::SQRT_2) => y,
            (BinaryKind::Mul, ends) => {
                let at = (0..2).find(|&at| {
                    scalar(rewriter, ends[at]).is_some_and(|c| near(c, std::f64::consts::FRAC_1_SQRT_2))
                })?;
                ends[1 - at]
            }
            _ => return None,
        };
        (scaled == x).then_some(x)
    };
    fits(a, b).or_else(|| fits(b, a))
}

/// The factors of a product of products.
fn multiplied(rewriter: &Rewriter<'_>, real: ValueId, depth: usize, factors: &mut Vec<ValueId>) {
    match binary(rewriter, real) {
        Some((BinaryKind::Mul, ends)) if depth > 0 => {
            for end in ends {
                multiplied(rewriter, end, depth - 1, factors);
            }
        }
        _ => factors.push(real),
    }
}

/// Makes one operator of every normalization between a `DequantizeLinear` and a `QuantizeLinear`, and of every Gelu that is spelled
/// out. Returns whether there was one.
pub fn join_composites(graph: &mut Graph) -> Result<bool, Error> {
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        if join_gelu(&mut rewriter, index) {
            continue;
        }
        let output = rewriter.get(index).and_then(|node| node.outputs.first().copied().flatten());
        let Some(real) = output else { continue };
        let into_quantizer = rewriter.is_private(real)
            && rewriter.consumers(real).all(|reader| quantizer(&rewriter, reader).is_some());
        let Some((op, x, rows)) = normalized(&rewriter, real).filter(|_| into_quantizer) else { continue };
        if dequantized(&rewriter, x).is_none_or(|(_, from)| !from.is_byte()) {
            continue;
        }
        let inputs = with_rows(&mut rewriter, x, rows);
        let name = name(&rewriter, real);
        rewriter.replace(index, Node::new(name, Op::LayerNorm(op), inputs, vec![Some(real)]));
    }
    Ok(rewriter.commit())
}

/// Makes one operator of every Gelu over reals that is spelled out. Returns whether there was one.
pub fn join_gelus(graph: &mut Graph) -> Result<bool, Error> {
    let is_erf = |node: &Node| matches!(node.op, Op::Unary(Unary { kind: UnaryKind::Erf }));
    if !graph.nodes.iter().any(is_erf) {
        return Ok(false);
    }
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        join_gelu_of(&mut rewriter, index, |rewriter, x| rewriter.value(x).dtype == Some(DType::F32));
    }
    Ok(rewriter.commit())
}

/// Makes one operator of every float normalization over the last axes. Returns whether there was one.
pub fn join_normalizations(graph: &mut Graph) -> Result<bool, Error> {
    let is_root = |node: &Node| match &node.op {
        Op::Unary(Unary { kind }) => *kind == UnaryKind::Sqrt,
        Op::Binary(Binary { kind, .. }) => *kind == BinaryKind::Pow,
        _ => false,
    };
    if !graph.nodes.iter().any(is_root) {
        return Ok(false);
    }
    let mut rewriter = Rewriter::new(graph);
    // From the back: with factors and addends first, of which what comes before is a normalization, too.
    for index in (0..rewriter.len()).rev() {
        rewriter.go_on()?;
        let output = rewriter.get(index).and_then(|node| node.outputs.first().copied().flatten());
        let Some(real) = output.filter(|&real| rewriter.value(real).dtype == Some(DType::F32)) else {
            continue;
        };
        let Some((op, x, rows)) = normalized(&rewriter, real) else { continue };
        let last = rewriter.value(x).shape.as_ref().map(Vec::len) == Some(op.axes[1]);
        if !last || !op.centred || rewriter.value(x).dtype != Some(DType::F32) {
            continue;
        }
        let inputs = with_rows(&mut rewriter, x, rows);
        let name = name(&rewriter, real);
        rewriter.replace(index, Node::new(name, Op::LayerNorm(op), inputs, vec![Some(real)]));
    }
    Ok(rewriter.commit())
}

/// Factors and addends, an element each per element that is normalized.
type Rows = [Option<Vec<f32>>; 2];

/// What a real is the normalization of, with a row of factors and one of addends.
fn normalized(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(LayerNorm, ValueId, Rows)> {
    let (x, op, given) = scaled_behind(rewriter, real).or_else(|| scaled_inside(rewriter, real))?;
    let shape = rewriter.value(x).fixed_shape()?;
    let elements = shape[op.axes[0]..op.axes[1]].iter().product::<usize>();
    (rewriter.value(real).fixed_shape()? == shape && elements <= MOST_ELEMENTS).then_some(())?;
    let mut rows: Rows = [None, None];
    for (row, id) in rows.iter_mut().zip(given) {
        if let Some(id) = id {
            *row = Some(spread(rewriter, id, &shape, op.axes)?);
        }
    }
    Some((op, x, rows))
}

/// A normalized value, the normalization, and the constants that scale and shift it.
type Scaled = (ValueId, LayerNorm, [Option<ValueId>; 2]);

/// (x − mean)·scale/√(variance + ε) + shift, in whatever order it is multiplied and divided; both may be missing.
fn scaled_behind(rewriter: &Rewriter<'_>, real: ValueId) -> Option<Scaled> {
    let (rest, shift) = match with_constant(rewriter, real, BinaryKind::Add) {
        Some((rest, constant)) => (rest, Some(constant)),
        None => (real, None),
    };
    Quotient::of(rewriter, rest, None).radicands.into_iter().find_map(|radicand| {
        let (squared, op) = deviation(rewriter, radicand)?;
        let Quotient { dividends, radicands } = Quotient::of(rewriter, rest, Some(squared));
        let (constants, values): (Vec<_>, Vec<_>) =
            dividends.into_iter().partition(|&id| count(rewriter, id).is_some());
        let ([difference], [] | [_], true) = (&values[..], &constants[..], radicands == [radicand]) else {
            return None;
        };
        alike(rewriter, squared, *difference).then_some(())?;
        // By the mean square, if nothing is taken off before.
        let (x, op) = match centred(rewriter, *difference, op.axes) {
            Some(x) => (x, op),
            None => (*difference, LayerNorm { centred: false, ..op }),
        };
        Some((x, op, [constants.first().copied(), shift]))
    })
}

/// What a real is a product of, and what of the roots are that it is divided by.
#[derive(Default)]
struct Quotient {
    dividends: Vec<ValueId>,
    radicands: Vec<ValueId>,
}

impl Quotient {
    /// Most products and quotients of one another.
    const DEEPEST: usize = 4;

    /// `whole` is a factor, whatever it is made of.
    fn of(rewriter: &Rewriter<'_>, real: ValueId, whole: Option<ValueId>) -> Self {
        let mut found = Self::default();
        found.add(rewriter, real, whole, Self::DEEPEST);
        found
    }

    fn add(&mut self, rewriter: &Rewriter<'_>, real: ValueId, whole: Option<ValueId>, depth: usize) {
        if let Some(radicand) = over_root(rewriter, real) {
            return self.radicands.push(radicand);
        }
        match binary(rewriter, real).filter(|_| depth > 0 && whole != Some(real)) {
            Some((BinaryKind::Mul, ends)) => {
                for end in ends {
                    self.add(rewriter, end, whole, depth - 1);
                }
            }
            Some((BinaryKind::Div, [dividend, root])) if let Some(radicand) = under_root(rewriter, root) => {
                self.radicands.push(radicand);
                self.add(rewriter, dividend, whole, depth - 1);
            }
            _ => self.dividends.push(real),
        }
    }
}

/// x·f + (shift − mean·f) with f = scale/√(variance + ε), of which scale and shift may be missing: how TensorFlow normalizes.
fn scaled_inside(rewriter: &Rewriter<'_>, real: ValueId) -> Option<Scaled> {
    let (kind, ends) = binary(rewriter, real)?;
    let sums = match kind {
        BinaryKind::Add => vec![(ends[0], ends[1], true), (ends[1], ends[0], true)],
        BinaryKind::Sub => vec![(ends[0], ends[1], false)],
        _ => return None,
    };
    sums.into_iter().find_map(|(product, rest, added)| {
        let (shift, middle) = if added { taken_off(rewriter, rest)? } else { (None, rest) };
        let (BinaryKind::Mul, factors) = binary(rewriter, product)? else { return None };
        let (BinaryKind::Mul, means) = binary(rewriter, middle)? else { return None };
        (0..2).find_map(|at| {
            let (x, factor) = (factors[at], factors[1 - at]);
            let mean_of = means[1 - means.iter().position(|&id| id == factor)?];
            let (inverse, scale) = match with_constant(rewriter, factor, BinaryKind::Mul) {
                Some((inverse, scale)) => (inverse, Some(scale)),
                None => (factor, None),
            };
            let (difference, op) = deviation(rewriter, over_root(rewriter, inverse)?)?;
            (centred(rewriter, difference, op.axes)? == x).then_some(())?;
            // What is taken off is no negated mean: that would add it.
            let negated = unary(rewriter, mean_of, UnaryKind::Neg).filter(|_| added);
            let mean_of = negated.unwrap_or(mean_of);
            is_mean(rewriter, mean_of, x, op.axes).then_some((x, op, [scale, shift]))
        })
    })
}

/// What is subtracted, as shift − product, as (−mean)·f + shift, or as one of them without a shift.
fn taken_off(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(Option<ValueId>, ValueId)> {
    let negated = |product: ValueId| {
        let (BinaryKind::Mul, ends) = binary(rewriter, product)? else { return None };
        ends.iter().any(|&id| unary(rewriter, id, UnaryKind::Neg).is_some()).then_some(product)
    };
    if let (BinaryKind::Sub, [shift, product]) = binary(rewriter, real)? {
        return (count(rewriter, shift).is_some() && negated(product).is_none())
            .then_some((Some(shift), product));
    }
    match with_constant(rewriter, real, BinaryKind::Add) {
        Some((product, shift)) => Some((Some(shift), negated(product)?)),
        None => Some((None, negated(real)?)),
    }
}

/// The other operand and the constant of an operator with one.
fn with_constant(rewriter: &Rewriter<'_>, real: ValueId, wanted: BinaryKind) -> Option<(ValueId, ValueId)> {
    let (kind, ends) = binary(rewriter, real)?;
    let constant = (0..2).find(|&at| count(rewriter, ends[at]).is_some())?;
    (kind == wanted).then_some((ends[1 - constant], ends[constant]))
}

/// The operands: a value, and constants for the rows.
fn with_rows(rewriter: &mut Rewriter<'_>, x: ValueId, rows: Rows) -> Vec<Option<ValueId>> {
    let mut inputs = vec![Some(x)];
    for row in rows {
        let constant = row.and_then(|row| Constant::from_f32(Shape::from([row.len()]), &row));
        inputs.push(constant.map(|constant| {
            let stem = format!("{}.row", rewriter.value(x).name);
            let value = rewriter.add_value(Value::named(stem));
            rewriter.set_constant(value, constant);
            value
        }));
    }
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    inputs
}

/// Longest axes: exact sums of squares times as many fit an i64.
const MOST_ELEMENTS: usize = 1 << 22;

/// The elements of a constant that broadcasts to `shape` along the axes: one per element of these.
fn spread(
    rewriter: &Rewriter<'_>,
    id: ValueId,
    shape: &[usize],
    [first, end]: [usize; 2],
) -> Option<Vec<f32>> {
    (count(rewriter, id)? <= MOST_ELEMENTS).then_some(())?;
    let (own, values) = (rewriter.value(id).fixed_shape()?, floats(rewriter, id)?);
    let missing = shape.len().checked_sub(own.rank())?;
    let extent = |axis: usize| axis.checked_sub(missing).map_or(1, |axis| own[axis]);
    let fits = (0..shape.len()).all(|axis| match extent(axis) {
        1 => true,
        own => (first..end).contains(&axis) && own == shape[axis],
    });
    fits.then_some(())?;
    let len: usize = shape[first..end].iter().product();
    let place = |mut at: usize| {
        let (mut place, mut step) = (0, 1);
        for axis in (first..end).rev() {
            if extent(axis) > 1 {
                place += at % shape[axis] * step;
                step *= shape[axis];
            }
            at /= shape[axis];
        }
        place
    };
    (0..len).map(|at| values.get(place(at)).copied()).collect()
}

/// The difference whose squares' mean is, with a number above 0, under the root of a deviation.
fn deviation(rewriter: &Rewriter<'_>, radicand: ValueId) -> Option<(ValueId, LayerNorm)> {
    let (BinaryKind::Add, ends) = binary(rewriter, radicand)? else { return None };
    let (variance, epsilon) = (0..2).find_map(|at| Some((ends[1 - at], scalar(rewriter, ends[at])?)))?;
    if let Some((x, axes)) = mean_of_squares(rewriter, variance) {
        let positive = epsilon.is_finite() && epsilon > 0.0;
        return positive.then_some((x, LayerNorm { axes, epsilon, centred: true }));
    }
    let (square, axes) = mean(rewriter, variance)?;
    let positive = epsilon.is_finite() && epsilon > 0.0;
    positive.then_some((squared(rewriter, square)?, LayerNorm { axes, epsilon, centred: true }))
}

/// What a real is the mean of the squares of, as their sum times 1/n, and the axes.
fn mean_of_squares(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(ValueId, [usize; 2])> {
    let (sum, factor) = with_constant(rewriter, real, BinaryKind::Mul)?;
    let (_, node) = rewriter.producer(sum)?;
    let Op::Reduce(op @ Reduce { kind: ReduceKind::SumSquare, keep_dims: true, .. }) = &node.op else {
        return None;
    };
    let x = operand(node, 0)?;
    let shape = rewriter.value(x).fixed_shape()?;
    let [first, end] = beside(&op.reduced(shape.rank())?)?;
    let count = shape[first..end].iter().product::<usize>();
    (scalar(rewriter, factor)? == (1.0 / count as f64) as f32).then_some((x, [first, end]))
}

/// What a difference is, less its mean over the axes.
fn centred(rewriter: &Rewriter<'_>, difference: ValueId, axes: [usize; 2]) -> Option<ValueId> {
    let (BinaryKind::Sub, [x, middle]) = binary(rewriter, difference)? else { return None };
    is_mean(rewriter, middle, x, axes).then_some(x)
}

/// Whether a real is the mean of `x` over the axes.
fn is_mean(rewriter: &Rewriter<'_>, real: ValueId, x: ValueId, axes: [usize; 2]) -> bool {
    means(rewriter, same_extents(rewriter, real))
        .any(|(own, along)| beside(&along) == Some(axes) && alike(rewriter, own, x))
}

/// Whether two reals are one: some tools dequantize once for every reader.
fn alike(rewriter: &Rewriter<'_>, a: ValueId, b: ValueId) -> bool {
    let source = dequantized(rewriter, a);
    a == b || source.is_some() && dequantized(rewriter, b) == source
}

/// What a real is a copy of.
fn same_extents(rewriter: &Rewriter<'_>, mut real: ValueId) -> ValueId {
    while let Some((_, node)) = rewriter.producer(real)
        && matches!(node.op, Op::Reshape(_) | Op::Identity(_))
        && let Some(x) = operand(node, 0)
        && rewriter
            .value(x)
            .fixed_shape()
            .is_some_and(|shape| Some(shape) == rewriter.value(real).fixed_shape())
    {
        real = x;
    }
    real
}

fn binary(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(BinaryKind, [ValueId; 2])> {
    let (_, node) = rewriter.producer(real)?;
    let Op::Binary(Binary { kind, epilogue }) = &node.op else { return None };
    let plain = epilogue.post_ops.is_empty() && node.quant.is_none();
    Some((*kind, [operand(node, 0)?, operand(node, 1)?])).filter(|_| plain)
}

fn unary(rewriter: &Rewriter<'_>, real: ValueId, kind: UnaryKind) -> Option<ValueId> {
    let (_, node) = rewriter.producer(real)?;
    let same = matches!(&node.op, Op::Unary(own) if own.kind == kind) && node.quant.is_none();
    same.then(|| operand(node, 0))?
}

/// What a real is the inverse of the root of.
fn over_root(rewriter: &Rewriter<'_>, real: ValueId) -> Option<ValueId> {
    if let Some(root) = unary(rewriter, real, UnaryKind::Reciprocal) {
        return under_root(rewriter, root);
    }
    match binary(rewriter, real)? {
        (BinaryKind::Div, [one, root]) if scalar(rewriter, one)? == 1.0 => under_root(rewriter, root),
        (BinaryKind::Pow, [x, power]) if scalar(rewriter, power)? == -0.5 => Some(x),
        (BinaryKind::Pow, [root, power]) if scalar(rewriter, power)? == -1.0 => under_root(rewriter, root),
        _ => None,
    }
}

/// What a real is the root of.
fn under_root(rewriter: &Rewriter<'_>, real: ValueId) -> Option<ValueId> {
    if let Some(x) = unary(rewriter, real, UnaryKind::Sqrt) {
        return Some(x);
    }
    let (BinaryKind::Pow, [x, power]) = binary(rewriter, real)? else { return None };
    (scalar(rewriter, power)? == 0.5).then_some(x)
}

/// What a real is the square of.
fn squared(rewriter: &Rewriter<'_>, real: ValueId) -> Option<ValueId> {
    if let Some(x) = unary(rewriter, real, UnaryKind::Square) {
        return Some(x);
    }
    match binary(rewriter, real)? {
        (BinaryKind::Mul, [a, b]) if alike(rewriter, a, b) => Some(a),
        (BinaryKind::Pow, [x, two]) if scalar(rewriter, two)? == 2.0 => Some(x),
        _ => None,
    }
}

/// What a real is the mean of, over axes that lie side by side and stay.
fn mean(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(ValueId, [usize; 2])> {
    let (x, gone) = means(rewriter, real).last()?;
    Some((x, beside(&gone)?))
}

/// What a real is the mean of, and which axes it is over: at once, and one mean behind the other, the longest last.
fn means<'r>(
    rewriter: &'r Rewriter<'_>,
    real: ValueId,
) -> impl Iterator<Item = (ValueId, Vec<bool>)> + use<'r> {
    let further = |(at, gone): &(ValueId, Vec<bool>)| {
        let (x, mut also) = mean_of(rewriter, *at)?;
        let apart = gone.len() == also.len() && gone.iter().zip(&also).all(|(a, b)| !(*a && *b));
        also.iter_mut().zip(gone).for_each(|(also, gone)| *also |= gone);
        apart.then_some((x, also))
    };
    std::iter::successors(mean_of(rewriter, real), further)
}

/// What a real is the mean of, and which axes it is over, which stay.
fn mean_of(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(ValueId, Vec<bool>)> {
    let (_, node) = rewriter.producer(real)?;
    let x = operand(node, 0)?;
    let rank = rewriter.value(x).shape.as_ref()?.len();
    match &node.op {
        Op::GlobalPool(GlobalPool { kind: PoolKind::Average { .. } }) if node.quant.is_none() => {
            Some((x, (0..rank).map(|axis| axis >= 2).collect()))
        }
        Op::Reduce(op @ Reduce { kind: ReduceKind::Mean, keep_dims: true, .. }) => {
            Some((x, op.reduced(rank)?))
        }
        _ => None,
    }
}

/// The first of the axes that go, and one past the last, if they lie side by side.
fn beside(gone: &[bool]) -> Option<[usize; 2]> {
    let first = gone.iter().position(|&gone| gone)?;
    let count = gone[first..].iter().take_while(|&&gone| gone).count();
    let all = gone.iter().filter(|&&gone| gone).count();
    (count == all).then_some([first, first + count])
}
