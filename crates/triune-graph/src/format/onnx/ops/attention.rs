//! Attention, and what turns queries and keys by their positions.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{
        AutoPad, BinaryKind, Body, Conv, Epilogue, LinearAttention, ReduceKind, Rotate, Softmax, UnaryKind,
    },
};

/// The attributes of attention.
struct Attention {
    causal: bool,
    query_heads: Option<usize>,
    heads: Option<usize>,
    scale: Option<f32>,
    /// 0 for none.
    cap: f32,
    precision: Option<DType>,
    /// Keys that a query sees before and behind its own place; all if there is no limit.
    window: [Option<i64>; 2],
    /// What of the scores the last result is.
    scores: i64,
    /// Whether single-head operands say how many heads they are.
    since: i64,
}

/// softmax(Q·Kᵀ·scale + bias)·V over heads; results y, the keys and values with what went before, the scores.
fn attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let count = |node: &mut NodeReader<'_, '_>, name: &str| match node.int(name)? {
        None => Ok(None),
        Some(count) => match usize::try_from(count) {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(node.unsupported(format!("attribute '{name}' = {count}"))),
        },
    };
    let limit = |node: &mut NodeReader<'_, '_>, name: &str| match node.int(name)?.unwrap_or(-1) {
        -1 => Ok(None),
        limit if limit >= 0 => Ok(Some(limit)),
        limit => Err(node.unsupported(format!("attribute '{name}' = {limit}"))),
    };
    let attributes = Attention {
        causal: node.flag("is_causal")?,
        query_heads: count(node, "q_num_heads")?,
        heads: count(node, "kv_num_heads")?,
        scale: node.maybe_float("scale")?,
        cap: node.float("softcap", 0.0)?,
        precision: node.dtype("softmax_precision")?,
        window: [limit(node, "left_window_size")?, limit(node, "right_window_size")?],
        scores: node.int("qk_matmul_output_mode")?.unwrap_or(0),
        since: node.since,
    };
    if attributes.cap < 0.0 || !(0..=3).contains(&attributes.scores) {
        return Err(node.unsupported("attribute 'softcap' or 'qk_matmul_output_mode' is out of range"));
    }
    Ok(node.functions(move |f| attributes.body(f)).into())
}

impl Attention {
    fn body(&self, f: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> {
        let (q, k, v) = (f.input(0)?, f.input(1)?, f.input(2)?);
        let flat = f.rank(q) == 3;
        let q = self.by_head(f, q, self.query_heads)?;
        let mut k = self.by_head(f, k, self.heads)?;
        let mut v = self.by_head(f, v, self.heads)?;
        let past = f.get(4);
        if past.is_some() != f.get(5).is_some() || past.is_some() && f.get(6).is_some() {
            return Err(f.wrong("keys and values of the past come together, and without lengths"));
        }
        let before = match (past, f.get(5)) {
            (Some(keys), Some(values)) => {
                k = f.concat(&[keys, k], 2)?;
                v = f.concat(&[values, v], 2)?;
                f.shape(keys)[2]
            }
            _ => 0,
        };
        let (present_keys, present_values) = (k, v);
        let (queries, keys) = (f.shape(q), f.shape(k));
        let scale = self.scale.map_or_else(|| 1.0 / (queries[3] as f64).sqrt(), f64::from);
        let q = f.mul_number(q, scale)?;
        let dtype = f.dtype(q);
        let bias = self.bias(f, dtype, queries[2], keys[2], before)?;
        let cap = (self.cap > 0.0).then(|| f64::from(self.cap));
        // Whether a query sees a key: what is fed says, or what is known of their places.
        let fed = f.get(3).is_some() || f.get(6).is_some();
        let blind = bias.is_some() && (fed || self.is_blind(queries[2], keys[2], before));
        let how = Weighing { cap, bias, precision: self.precision, sink: None, blind };
        let Weighed { stages: [product, capped, biased, weights], mut y } = how.weigh(f, [q, k, v])?;
        if flat {
            y = places_first(f, y)?;
        }
        let scores = match self.scores {
            0 => product,
            1 => capped,
            2 => biased,
            _ => weights,
        };
        Ok(vec![y, present_keys, present_values, scores])
    }

    /// (batch, heads, places, elements) of what may be (batch, places, heads · elements).
    fn by_head(&self, f: &mut Scope<'_, '_>, x: ValueId, heads: Option<usize>) -> Result<ValueId, Error> {
        let shape = f.shape(x);
        match (&*shape, heads) {
            (&[_, _, _, _], None) => Ok(x),
            (&[_, _, _, _], Some(_)) if self.since < 25 => Ok(x),
            (&[batch, places, width], Some(heads)) if width.is_multiple_of(heads) => {
                let x = f.reshape(x, &[batch, places, heads, width / heads])?;
                f.transpose(x, &[0, 2, 1, 3])
            }
            _ => Err(f.wrong(format!("operand {shape} in {} heads", heads.unwrap_or(0)))),
        }
    }

    /// Whether the places alone hide all keys from a query.
    fn is_blind(&self, queries: usize, keys: usize, before: usize) -> bool {
        let [left, right] = self.window;
        (before..before.saturating_add(queries)).any(|place| {
            let place = place as i64;
            let first = left.map_or(0, |left| place.saturating_sub(left));
            let last = right.map_or(i64::MAX, |right| place.saturating_add(right));
            let last = if self.causal { last.min(place) } else { last };
            first.max(0) > last.min(keys as i64 - 1)
        })
    }

    /// What is added to the scores of `queries` and `keys`: 0, or −∞ where a query does not see a key.
    fn bias(
        &self,
        f: &mut Scope<'_, '_>,
        dtype: DType,
        queries: usize,
        keys: usize,
        before: usize,
    ) -> Result<Option<ValueId>, Error> {
        let mut bias = None;
        if let Some(mask) = f.get(3) {
            let mask = padded(f, mask, keys, self.since)?;
            let mask = if f.dtype(mask) == DType::Bool {
                hidden_unless(f, mask, dtype)?
            } else {
                f.cast(mask, dtype)?
            };
            bias = Some(mask);
        }
        let lengths = match f.get(6) {
            Some(lengths) => {
                let count = f.shape(lengths).elements().unwrap_or(0);
                let lengths = f.cast(lengths, DType::I64)?;
                Some(f.reshape(lengths, &[count, 1, 1, 1])?)
            }
            None => None,
        };
        let (row, column) = (f.places(queries, 1)?, f.places(keys, 0)?);
        let mut seen = Vec::new();
        if self.causal || self.window != [None; 2] {
            // Where a query stands among the keys.
            let place = match lengths {
                Some(lengths) => {
                    let first = f.add_number(lengths, -(queries as f64))?;
                    f.add(row, first)?
                }
                None => f.add_number(row, before as f64)?,
            };
            if self.causal {
                seen.push(f.binary(BinaryKind::LessOrEqual, column, place)?);
            }
            if let Some(left) = self.window[0] {
                let first = f.add_number(place, -(left as f64))?;
                seen.push(f.binary(BinaryKind::GreaterOrEqual, column, first)?);
            }
            if let Some(right) = self.window[1] {
                let last = f.add_number(place, right as f64)?;
                seen.push(f.binary(BinaryKind::LessOrEqual, column, last)?);
            }
        }
        if let Some(lengths) = lengths {
            seen.push(f.binary(BinaryKind::Less, column, lengths)?);
        }
        with_hidden(f, bias, &seen, dtype)
    }
}

/// How queries weigh keys, beside their product.
pub(super) struct Weighing {
    /// Scores stay within ± this, smoothly.
    pub(super) cap: Option<f64>,
    /// What is added to the scores.
    pub(super) bias: Option<ValueId>,
    /// In which type weights are made of them, if it is another.
    pub(super) precision: Option<DType>,
    /// A score per head, (1, heads, 1, 1), of what is looked at beside the keys and has no value.
    pub(super) sink: Option<ValueId>,
    /// Whether queries may see no key: they give 0, not what 0/0 is.
    pub(super) blind: bool,
}

/// What [`Weighing::weigh`] gives.
pub(super) struct Weighed {
    /// The scores as products, within their limits, with what is added to them, and as weights: each (batch, heads, queries, keys).
    pub(super) stages: [ValueId; 4],
    /// (batch, heads, queries, elements of a value).
    pub(super) y: ValueId,
}

impl Weighing {
    /// The values that scaled queries weigh; each operand is (batch, heads, places, elements), and several heads of queries may share
    /// one of keys and values.
    pub(super) fn weigh(&self, f: &mut Scope<'_, '_>, [q, k, v]: [ValueId; 3]) -> Result<Weighed, Error> {
        let (queries, keys, values, dtype) = (f.shape(q), f.shape(k), f.shape(v), f.dtype(q));
        let [batch, heads, rows, width] = *queries else {
            return Err(f.wrong(format!("queries {queries} by head")));
        };
        let ([_, own, columns, inner], [_, other, _, elements]) = (&*keys, &*values) else {
            return Err(f.wrong(format!("keys {keys} and values {values} by head")));
        };
        let (own, columns, elements) = (*own, *columns, *elements);
        if own == 0 || !heads.is_multiple_of(own) || *other != own {
            return Err(f.wrong(format!("{heads} heads of queries for {own} of keys and {other} of values")));
        }
        if *inner != width || keys[0] != batch || values[..3] != keys[..3] {
            return Err(f.wrong(format!("queries {queries}, keys {keys} and values {values}")));
        }
        // Heads that share keys are rows of one product.
        let q = f.reshape(q, &[batch, own, heads / own * rows, width])?;
        let k = f.transpose(k, &[0, 1, 3, 2])?;
        let product = f.matmul(q, k)?;
        let product = f.reshape(product, &[batch, heads, rows, columns])?;
        let mut scores = product;
        if let Some(cap) = self.cap {
            let cap = f.scalar_like(cap, scores);
            let inner = f.div(scores, cap)?;
            let inner = f.unary(UnaryKind::Tanh, inner)?;
            scores = f.mul(inner, cap)?;
        }
        let capped = scores;
        if let Some(bias) = self.bias {
            scores = f.add(scores, bias)?;
        }
        let biased = scores;
        if let Some(precision) = self.precision {
            scores = f.cast(scores, precision)?;
        }
        if let Some(sink) = self.sink {
            let sink = f.cast(sink, f.dtype(scores))?;
            let sink = f.expand(sink, &[batch, heads, rows, 1])?;
            scores = f.concat(&[scores, sink], 3)?;
        }
        let axis = f.rank(scores) as isize - 1;
        let mut weights = f.op(Op::Softmax(Softmax { axis, flatten: false, log: false }), &[scores])?;
        if self.sink.is_some() {
            weights = f.slice(weights, 3, 0, columns as i64)?;
        }
        let mut weights = f.cast(weights, dtype)?;
        let packed = f.reshape(weights, &[batch, own, heads / own * rows, columns])?;
        let y = f.matmul(packed, v)?;
        let mut y = f.reshape(y, &[batch, heads, rows, elements])?;
        if let Some(bias) = self.bias.filter(|_| self.blind) {
            let last = f.rank(bias) - 1;
            let most = f.reduce(ReduceKind::Max, bias, &[last])?;
            let blind = f.compare(BinaryKind::Equal, most, f64::NEG_INFINITY)?;
            // Few look at the weights, and a query has fewer elements of a value than keys.
            for value in [&mut weights, &mut y] {
                let zero = f.scalar_like(0.0, *value);
                *value = f.choose(blind, zero, *value)?;
            }
        }
        Ok(Weighed { stages: [product, capped, biased, weights], y })
    }
}

/// (batch, places, heads · elements) of (batch, heads, places, elements).
pub(super) fn places_first(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let shape = f.shape(x);
    let x = f.transpose(x, &[0, 2, 1, 3])?;
    f.reshape(x, &[shape[0], shape[2], shape[1] * shape[3]])
}

/// What is added to scores, and −∞ wherever one of these does not hold.
pub(super) fn with_hidden(
    f: &mut Scope<'_, '_>,
    mut bias: Option<ValueId>,
    seen: &[ValueId],
    dtype: DType,
) -> Result<Option<ValueId>, Error> {
    for &seen in seen {
        let hidden = hidden_unless(f, seen, dtype)?;
        bias = Some(match bias {
            Some(bias) => f.add(bias, hidden)?,
            None => hidden,
        });
    }
    Ok(bias)
}

/// 0 where something holds, −∞ elsewhere.
fn hidden_unless(f: &mut Scope<'_, '_>, holds: ValueId, dtype: DType) -> Result<ValueId, Error> {
    let (zero, hidden) = (f.scalar(0.0, dtype), f.scalar(f64::NEG_INFINITY, dtype));
    f.choose(holds, zero, hidden)
}

/// A mask for as many keys; those that it says nothing of are not seen.
fn padded(f: &mut Scope<'_, '_>, mask: ValueId, keys: usize, since: i64) -> Result<ValueId, Error> {
    let shape = f.shape(mask);
    let Some((&known, rest)) = shape.split_last() else { return Ok(mask) };
    if known >= keys || known == 1 && since < 24 {
        return Ok(mask);
    }
    let dtype = f.dtype(mask);
    let filling =
        if dtype == DType::Bool { f.scalar(0.0, dtype) } else { f.scalar(f64::NEG_INFINITY, dtype) };
    let filling = f.expand(filling, &[rest, &[keys - known]].concat())?;
    f.concat(&[mask, filling], rest.len())
}

/// Each head several times, one after the other.
fn repeated(f: &mut Scope<'_, '_>, x: ValueId, times: usize) -> Result<ValueId, Error> {
    let shape = f.shape(x);
    let x = f.reshape(x, &[shape[0], shape[1], 1, shape[2], shape[3]])?;
    let x = f.expand(x, &[shape[0], shape[1], times, shape[2], shape[3]])?;
    f.reshape(x, &[shape[0], shape[1] * times, shape[2], shape[3]])
}

/// Pairs of elements turned by angles that belong to their places.
fn rotary_embedding(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let interleaved = node.flag("interleaved")?;
    let size = |value: Option<i64>| usize::try_from(value.unwrap_or(0));
    let (heads, width) = (node.int("num_heads")?, node.int("rotary_embedding_dim")?);
    let (Ok(heads), Ok(width)) = (size(heads), size(width)) else {
        return Err(node.unsupported("attribute 'num_heads' or 'rotary_embedding_dim' is negative"));
    };
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let whole = f.shape(x);
            // Heads stand before places, or behind them; the angles follow.
            let (by_head, places, head_axis) = match *whole {
                [_, _, places, _] => (x, places, 1),
                [batch, places, all] if heads > 0 && all.is_multiple_of(heads) => {
                    (f.reshape(x, &[batch, places, heads, all / heads])?, places, 2)
                }
                _ => return Err(f.wrong(format!("operand {whole} in {heads} heads"))),
            };
            let shape = f.shape(by_head);
            let width = if width == 0 { shape[3] } else { width };
            if !width.is_multiple_of(2) || width > shape[3] {
                return Err(f.wrong(format!("{width} elements of {} in pairs", shape[3])));
            }
            let half = width / 2;
            let mut angles = [0; 2].map(|_| x);
            for (index, angle) in angles.iter_mut().enumerate() {
                let cache = f.input(1 + index)?;
                let cache = match f.get(3) {
                    Some(places) => f.gather(cache, 0, places)?,
                    None => cache,
                };
                let dims = f.shape(cache);
                if dims[..] != [shape[0], places, half] {
                    return Err(f.wrong(format!("angles {dims} for {shape} of which {width} turn")));
                }
                let mut dims = [shape[0], places, places, half];
                dims[head_axis] = 1;
                *angle = f.reshape(cache, &dims)?;
            }
            let result = turned(f, by_head, angles, interleaved)?;
            f.reshape(result, &whole)
        })
        .into())
}

/// The first elements of each head turned in pairs by angles, whose last axis has one for each pair; both of rank 4.
pub(super) fn turned(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    [cos, sin]: [ValueId; 2],
    interleaved: bool,
) -> Result<ValueId, Error> {
    let (shape, half) = (f.shape(x), f.shape(cos)[3]);
    let width = 2 * half;
    if width > shape[3] {
        return Err(f.wrong(format!("{width} elements of {} in pairs", shape[3])));
    }
    if half == 0 {
        return Ok(x);
    }
    // Of bfloat16 every step is rounded.
    if matches!(f.dtype(x), DType::F32 | DType::F16) {
        return f.op(Op::Rotate(Rotate { interleaved }), &[x, cos, sin]);
    }
    let own = f.slice(x, 3, 0, width as i64)?;
    let result = if interleaved {
        let first = f.slice_by(own, 3, 0, i64::MAX, 2)?;
        let second = f.slice_by(own, 3, 1, i64::MAX, 2)?;
        let (a, b) = (f.mul(cos, first)?, f.mul(sin, second)?);
        let (c, d) = (f.mul(sin, first)?, f.mul(cos, second)?);
        let (real, imaginary) = (f.sub(a, b)?, f.add(c, d)?);
        let dims = [shape[0], shape[1], shape[2], half, 1];
        let (real, imaginary) = (f.reshape(real, &dims)?, f.reshape(imaginary, &dims)?);
        let pairs = f.concat(&[real, imaginary], 4)?;
        f.reshape(pairs, &[shape[0], shape[1], shape[2], width])?
    } else {
        // Whole rows at a time: x·(cos, cos) + (second, first)·(−sin, sin).
        let minus = f.unary(UnaryKind::Neg, sin)?;
        let (cos, sin) = (f.concat(&[cos, cos], 3)?, f.concat(&[minus, sin], 3)?);
        let first = f.slice(own, 3, 0, half as i64)?;
        let second = f.slice(own, 3, half as i64, width as i64)?;
        let other = f.concat(&[second, first], 3)?;
        let (own, other) = (f.mul(own, cos)?, f.mul(other, sin)?);
        f.add(own, other)?
    };
    let rest = f.slice(x, 3, width as i64, i64::MAX)?;
    if width == shape[3] { Ok(result) } else { f.concat(&[result, rest], 3) }
}

/// Attention whose scores and weights networks may change in between; rank 4 throughout.
pub(super) fn flex_attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (scale, precision) = (node.maybe_float("scale")?, node.dtype("softmax_precision")?);
    if precision.is_some_and(|precision| !precision.is_float()) {
        return Err(node.unsupported("attribute 'softmax_precision' is not a type of reals"));
    }
    let inner = |node: &mut NodeReader<'_, '_>, name: &str| -> Result<Option<(Body, usize)>, Error> {
        if !node.has(name) {
            return Ok(None);
        }
        // What it sees of the network around it comes behind the operands.
        let first = node.inputs.len();
        let body = node.body(name)?;
        if body.formals() != 1 || body.graph.outputs.len() != 1 {
            return Err(node.unsupported(format!("'{name}' does not make one tensor of one")));
        }
        Ok(Some((body, first)))
    };
    let (scores_by, weights_by) = (inner(node, "score_mod")?, inner(node, "prob_mod")?);
    Ok(node
        .function(move |f| {
            let (q, mut k, mut v) = (f.input(0)?, f.input(1)?, f.input(2)?);
            let (queries, keys, values) = (f.shape(q), f.shape(k), f.shape(v));
            let fits = [queries, keys, values].iter().all(|shape| shape.rank() == 4)
                && queries[0] == keys[0]
                && queries[3] == keys[3]
                && keys[..3] == values[..3]
                && keys[1] > 0
                && queries[1].is_multiple_of(keys[1]);
            if !fits {
                return Err(f.wrong(format!("queries {queries}, keys {keys} and values {values}")));
            }
            let times = queries[1] / keys[1];
            if times != 1 {
                (k, v) = (repeated(f, k, times)?, repeated(f, v, times)?);
            }
            let scale = scale.map_or_else(|| 1.0 / (queries[3] as f64).sqrt(), f64::from).sqrt();
            let (own, result) = (f.dtype(q), f.dtype(v));
            let precision = precision.unwrap_or(if own == DType::F64 { own } else { DType::F32 });
            let q = f.mul_number(q, scale)?;
            let k = f.mul_number(k, scale)?;
            let k = f.transpose(k, &[0, 1, 3, 2])?;
            let scores = f.matmul(q, k)?;
            let scores = f.cast(scores, precision)?;
            let changed = |f: &mut Scope<'_, '_>, x: ValueId, by: &Option<(Body, usize)>| {
                let Some((body, first)) = by else { return Ok(x) };
                let operands = f.inputs().get(*first..*first + body.captures).unwrap_or_default();
                let operands = [&[Some(x)], operands].concat();
                let changed = f.network(body, &operands)?[0];
                if f.shape(changed) != f.shape(x) || f.dtype(changed) != f.dtype(x) {
                    return Err(f.wrong(format!(
                        "a network makes {} {} of {} {}",
                        f.dtype(changed),
                        f.shape(changed),
                        f.dtype(x),
                        f.shape(x)
                    )));
                }
                Ok(changed)
            };
            let scores = changed(f, scores, &scores_by)?;
            let weights = f.op(Op::Softmax(Softmax { axis: 3, flatten: false, log: false }), &[scores])?;
            let weights = changed(f, weights, &weights_by)?;
            let v = f.cast(v, precision)?;
            let y = f.matmul(weights, v)?;
            f.cast(y, result)
        })
        .into())
}

/// A convolution of each channel with what went before, and the places that the next one needs.
fn causal_conv(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let activations = [("none", false), ("silu", true), ("swish", true)];
    let silu = node.choice("activation", "none", &activations)?;
    Ok(node
        .functions(move |f| {
            let (x, weights) = (f.input(0)?, f.input(1)?);
            let (shape, taps) = (f.shape(x), f.shape(weights));
            let (&[batch, channels, length], &[own, 1, kernel]) = (&*shape, &*taps) else {
                return Err(f.wrong(format!("weights {taps} for {shape}")));
            };
            if own != channels || kernel == 0 {
                return Err(f.wrong(format!("weights {taps} for {shape}")));
            }
            let before = match f.get(3) {
                Some(past) if f.shape(past)[..] == [batch, channels, kernel - 1] => past,
                Some(past) => {
                    return Err(f.wrong(format!("a past of {} for a window of {kernel}", f.shape(past))));
                }
                None => {
                    let zero = f.scalar_like(0.0, x);
                    f.expand(zero, &[batch, channels, kernel - 1])?
                }
            };
            let whole = f.concat(&[before, x], 2)?;
            let image = f.reshape(whole, &[batch, channels, 1, length + kernel - 1])?;
            let weights = f.reshape(weights, &[channels, 1, 1, kernel])?;
            let op = Conv {
                kernel: None,
                stride: [1; 2],
                dilation: [1; 2],
                pad: [0; 4],
                auto_pad: AutoPad::Explicit,
                groups: channels,
                epilogue: Epilogue::default(),
            };
            let operands = [Some(image), Some(weights), f.get(2)];
            let operands = if operands[2].is_some() { &operands[..] } else { &operands[..2] };
            let mut y = f.ops(Op::Conv(Box::new(op)), operands, 1)?[0];
            if silu {
                y = f.unary(UnaryKind::Silu, y)?;
            }
            let y = f.reshape(y, &[batch, channels, length])?;
            let present = f.slice(whole, 2, length as i64, (length + kernel - 1) as i64)?;
            Ok(vec![y, present])
        })
        .into())
}

/// Attention by a state that every place changes.
fn linear_attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // How many places are worked on at once changes no result.
    node.int("chunk_size")?;
    let count = |node: &mut NodeReader<'_, '_>, name: &str| {
        let count = node.int(name)?.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        count.ok_or_else(|| node.unsupported(format!("attribute '{name}' is not positive")))
    };
    let (query_heads, heads) = (count(node, "q_num_heads")?, count(node, "kv_num_heads")?);
    let rules = [
        ("linear", [false; 2]),
        ("gated", [true, false]),
        ("delta", [false, true]),
        ("gated_delta", [true; 2]),
    ];
    let [gated, delta] = node.choice("update_rule", "gated_delta", &rules)?;
    let scale = node.float("scale", 0.0)?;
    if !query_heads.is_multiple_of(heads) {
        return Err(node.unsupported(format!("{query_heads} heads of queries for {heads} of keys")));
    }
    for (index, wanted, what) in [(4, gated, "decay"), (5, delta, "beta")] {
        if node.inputs.get(index).copied().flatten().is_some() != wanted {
            let wanted = if wanted { "is missing" } else { "has no place" };
            return Err(node.unsupported(format!("input {index} ({what}) {wanted} with this 'update_rule'")));
        }
    }
    Ok(LinearAttention { query_heads, heads, scale: (scale != 0.0).then_some(scale) }.into())
}

operators! {
    DEFAULT_DOMAIN;
    "Attention": [23] {3, 6, 4 => attention} [24, 25] {3, 7, 4 => attention};
    "CausalConvWithState": [27] {2, 4, 2 => causal_conv};
    "LinearAttention": [27] {3, 6, 2 => linear_attention};
    "RotaryEmbedding": [23] {3, 4, 1 => rotary_embedding};
}
