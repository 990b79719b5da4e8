//! Attention as ONNX Runtime's optimizers and exporters write it: projected by one matrix, with keys that heads of queries share,
//! with a past that callers hand on from step to step, behind embeddings.

use triune_tensor::{DType, text::List};

use super::{
    Form, Meaning, NodeReader, Operator, Signature,
    attention::{Weighing, places_first, turned, with_hidden},
    microsoft::scaled,
    operators,
};
use crate::{
    Error, Op, ValueId,
    functions::{Scope, standard},
    ops::{BinaryKind, ReduceKind, UnaryKind},
};

/// A positive number of an attribute.
fn count(node: &mut NodeReader<'_, '_>, name: &str) -> Result<usize, Error> {
    match node.int(name)?.and_then(|count| usize::try_from(count).ok()) {
        Some(count) if count > 0 => Ok(count),
        _ => Err(node.unsupported(format!("attribute '{name}' is not positive"))),
    }
}

/// Refuses operands that only other devices' kernels have.
fn refuse(node: &NodeReader<'_, '_>, operands: &[(usize, &str)]) -> Result<(), Error> {
    for &(index, name) in operands {
        if node.inputs.get(index).copied().flatten().is_some() {
            return Err(node.unsupported(format!(
                "input {index} ('{name}'): ONNX Runtime's CPU has no such form, either"
            )));
        }
    }
    Ok(())
}

/// The factor of scores: 1/√ of a head's elements unless the attribute says otherwise.
fn scale(node: &mut NodeReader<'_, '_>) -> Result<Option<f64>, Error> {
    Ok(node.maybe_float("scale")?.filter(|&scale| scale != 0.0).map(f64::from))
}

/// (batch, heads, places, elements) of (batch, places, heads · elements).
fn by_head(f: &mut Scope<'_, '_>, x: ValueId, heads: usize) -> Result<ValueId, Error> {
    let shape = f.shape(x);
    match *shape {
        [batch, places, width] if width.is_multiple_of(heads) => {
            let x = f.reshape(x, &[batch, places, heads, width / heads])?;
            f.transpose(x, &[0, 2, 1, 3])
        }
        _ => Err(f.wrong(format!("operand {shape} in {heads} heads"))),
    }
}

/// The parts of a value along its last axis, one after the other, of these lengths.
fn parts<const N: usize>(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    lengths: [usize; N],
) -> Result<[ValueId; N], Error> {
    let axis = f.rank(x).saturating_sub(1);
    if f.rank(x) == 0 || lengths.iter().sum::<usize>() != f.shape(x)[axis] {
        return Err(f.wrong(format!("operand {} in parts of {}", f.shape(x), List(&lengths))));
    }
    let (mut parts, mut from) = ([x; N], 0);
    for (part, length) in parts.iter_mut().zip(lengths) {
        *part = f.slice(x, axis, from as i64, (from + length) as i64)?;
        from += length;
    }
    Ok(parts)
}

/// How scores become weights.
#[derive(Clone, Copy)]
struct Masking {
    /// Whether places see none behind them.
    causal: bool,
    /// What is added to the scores of keys that a mask leaves out.
    hidden: f64,
}

impl Masking {
    fn read(node: &mut NodeReader<'_, '_>) -> Result<Self, Error> {
        let causal = node.flag("unidirectional")?;
        Ok(Self { causal, hidden: node.float("mask_filter_value", -10_000.0)?.into() })
    }

    /// What is added to the scores of `queries` and `keys`, which stand `before` places behind the first: for a mask of lengths, ends and
    /// beginnings, keys, or keys of each query, and a bias.
    fn bias(
        self,
        f: &mut Scope<'_, '_>,
        [batch, queries, keys, before]: [usize; 4],
        dtype: DType,
        [mask, bias]: [Option<ValueId>; 2],
    ) -> Result<Option<ValueId>, Error> {
        let mut sum = bias;
        if let Some(mask) = mask {
            let shape = f.shape(mask);
            let mask = f.cast(mask, DType::I64)?;
            let seen = match *shape {
                [count] if count == batch || count == 2 * batch => {
                    let column = f.places(keys, 0)?;
                    let ends = f.slice(mask, 0, 0, batch as i64)?;
                    let ends = f.reshape(ends, &[batch, 1, 1, 1])?;
                    let mut seen = f.binary(BinaryKind::Less, column, ends)?;
                    if count != batch {
                        let starts = f.slice(mask, 0, batch as i64, 2 * batch as i64)?;
                        let starts = f.reshape(starts, &[batch, 1, 1, 1])?;
                        let behind = f.binary(BinaryKind::GreaterOrEqual, column, starts)?;
                        seen = f.binary(BinaryKind::And, seen, behind)?;
                    }
                    seen
                }
                [own, columns] if own == batch && columns == keys => {
                    let mask = f.reshape(mask, &[batch, 1, 1, keys])?;
                    f.compare(BinaryKind::Greater, mask, 0.0)?
                }
                [own, rows, columns] if [own, rows, columns] == [batch, queries, keys] => {
                    let mask = f.reshape(mask, &[batch, 1, queries, keys])?;
                    f.compare(BinaryKind::Greater, mask, 0.0)?
                }
                [own, 1, most, columns]
                    if own == batch && most == columns && most >= keys.max(before + queries) =>
                {
                    let mask = f.slice(mask, 2, before as i64, (before + queries) as i64)?;
                    let mask = f.slice(mask, 3, 0, keys as i64)?;
                    f.compare(BinaryKind::Greater, mask, 0.0)?
                }
                _ => {
                    return Err(f.wrong(format!(
                        "a mask of {shape} for {batch} times {queries} queries and {keys} keys: lengths, keys, or keys of each query are read"
                    )));
                }
            };
            let (zero, hidden) = (f.scalar(0.0, dtype), f.scalar(self.hidden, dtype));
            let hidden = f.choose(seen, zero, hidden)?;
            sum = Some(match sum {
                Some(sum) => f.add(sum, hidden)?,
                None => hidden,
            });
        }
        if self.causal {
            let (row, column) = (f.places(queries, 1)?, f.places(keys, 0)?);
            let place = f.add_number(row, before as f64)?;
            let seen = f.binary(BinaryKind::LessOrEqual, column, place)?;
            sum = with_hidden(f, sum, &[seen], dtype)?;
        }
        Ok(sum)
    }

    /// Queries, keys and values by head, which `before` others went before; gives (batch, places, heads · elements).
    fn attend(
        self,
        f: &mut Scope<'_, '_>,
        [q, k, v]: [ValueId; 3],
        scale: Option<f64>,
        before: usize,
        more: [Option<ValueId>; 2],
    ) -> Result<ValueId, Error> {
        let (queries, keys, dtype) = (f.shape(q), f.shape(k), f.dtype(q));
        let scale = scale.unwrap_or_else(|| 1.0 / (queries[3] as f64).sqrt());
        let q = f.mul_number(q, scale)?;
        let bias = self.bias(f, [queries[0], queries[2], keys[2], before], dtype, more)?;
        let weighing = Weighing { cap: None, bias, precision: None, sink: None, blind: false };
        let y = weighing.weigh(f, [q, k, v])?.y;
        places_first(f, y)
    }
}

/// Attention over queries, keys and values that are projected already, maybe together; results y, keys and values with what went
/// before.
fn multi_head_attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (heads, scale, masking) = (count(node, "num_heads")?, scale(node)?, Masking::read(node)?);
    refuse(node, &[(8, "past_sequence_length"), (9, "cache_indirection")])?;
    if node.output_used(3) {
        return Err(node.unsupported("output 3 ('qk'): scores are not given out"));
    }
    Ok(node
        .functions(move |f| {
            let q = f.input(0)?;
            // (batch, places, heads, several, elements) as so many (batch, places, heads · elements).
            let unpacked = |f: &mut Scope<'_, '_>,
                            x: ValueId,
                            several: usize|
             -> Result<Vec<ValueId>, Error> {
                let shape = f.shape(x);
                match *shape {
                    [batch, places, own, count, elements] if own == heads && count == several => (0..several)
                        .map(|index| {
                            let part = f.slice(x, 3, index as i64, index as i64 + 1)?;
                            f.reshape(part, &[batch, places, own * elements])
                        })
                        .collect(),
                    _ => Err(f.wrong(format!("operand {shape} is not {several} in one, in {heads} heads"))),
                }
            };
            let (mut q, k, v) = match (f.rank(q), f.get(1), f.get(2)) {
                (5, None, None) => match *unpacked(f, q, 3)? {
                    [q, k, v] => (q, k, v),
                    _ => return Err(f.wrong("operand 0 is not three in one")),
                },
                (3, Some(both), None) => match *unpacked(f, both, 2)? {
                    [k, v] => (q, k, v),
                    _ => return Err(f.wrong("operand 1 is not two in one")),
                },
                (3, Some(k), Some(v)) => (q, k, v),
                _ => {
                    return Err(f.wrong(format!(
                        "queries {}: in one with keys and values, or beside those",
                        f.shape(q)
                    )));
                }
            };
            let cached = f.rank(k) == 4;
            let (mut k, mut v) = (k, v);
            if let Some(bias) = f.get(3) {
                let width = |f: &Scope<'_, '_>, x: ValueId| f.shape(x)[2];
                let lengths = if cached {
                    let (own, other) = (width(f, q), f.shape(v));
                    [own, own, other[1] * other[3]]
                } else {
                    [width(f, q), width(f, k), width(f, v)]
                };
                let [of_q, of_k, of_v] = parts(f, bias, lengths)?;
                q = f.add(q, of_q)?;
                if !cached {
                    (k, v) = (f.add(k, of_k)?, f.add(v, of_v)?);
                }
            }
            q = by_head(f, q, heads)?;
            if !cached {
                (k, v) = (by_head(f, k, heads)?, by_head(f, v, heads)?);
            }
            let before = match (f.get(6), f.get(7)) {
                (Some(keys), Some(values)) => {
                    k = f.concat(&[keys, k], 2)?;
                    v = f.concat(&[values, v], 2)?;
                    f.shape(keys)[2]
                }
                (None, None) => 0,
                _ => return Err(f.wrong("keys and values of the past come together")),
            };
            let y = masking.attend(f, [q, k, v], scale, before, [f.get(4), f.get(5)])?;
            Ok(vec![y, k, v])
        })
        .into())
}

/// Attention whose queries, keys and values one matrix makes of the operand; results y, keys and values with what went before.
fn attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let projected = Projected::read(node)?;
    refuse(node, &[(6, "past_sequence_length")])?;
    Ok(node
        .functions(move |f| {
            let (x, weights) = (f.input(0)?, f.input(1)?);
            let mut all = f.matmul(x, weights)?;
            if let Some(bias) = f.get(2) {
                all = f.add(all, bias)?;
            }
            projected.attend(f, all, f.get(4), [f.get(3), f.get(5)])
        })
        .into())
}

/// The same of bytes; operands x, weights, a bias, both scales, a mask, both zero points, a past.
fn quantized_attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let projected = Projected::read(node)?;
    Ok(node
        .functions(move |f| {
            let (operands, scales) = ([f.input(0)?, f.input(1)?], [f.input(3)?, f.input(4)?]);
            let all = scaled(f, operands, [f.get(6), f.get(7)], scales, f.get(2))?;
            projected.attend(f, all, f.get(8), [f.get(5), None])
        })
        .into())
}

/// What an attention says of itself whose queries, keys and values come together.
struct Projected {
    heads: usize,
    scale: Option<f64>,
    masking: Masking,
    widths: Option<Vec<usize>>,
}

impl Projected {
    fn read(node: &mut NodeReader<'_, '_>) -> Result<Self, Error> {
        let (heads, scale, masking) = (count(node, "num_heads")?, scale(node)?, Masking::read(node)?);
        let widths = node.extents("qkv_hidden_sizes")?;
        if node.flag("do_rotary")? || node.int("rotary_embedding_dim")?.unwrap_or(0) != 0 {
            return Err(
                node.unsupported("attribute 'do_rotary': ONNX Runtime's CPU has no such form, either")
            );
        }
        if node.flag("past_present_share_buffer")? {
            return Err(node.unsupported("attribute 'past_present_share_buffer' = 1"));
        }
        Ok(Self { heads, scale, masking, widths })
    }

    /// Gives y, keys and values with what went before.
    fn attend(
        &self,
        f: &mut Scope<'_, '_>,
        all: ValueId,
        past: Option<ValueId>,
        more: [Option<ValueId>; 2],
    ) -> Result<Vec<ValueId>, Error> {
        let width = f.shape(all).last().copied().unwrap_or(0);
        let lengths = match self.widths.as_deref() {
            None => [width / 3; 3],
            Some(&[q, k, v]) => [q, k, v],
            Some(other) => return Err(f.wrong(format!("attribute 'qkv_hidden_sizes' = {}", List(other)))),
        };
        let [q, k, v] = parts(f, all, lengths)?;
        let (q, mut k, mut v) =
            (by_head(f, q, self.heads)?, by_head(f, k, self.heads)?, by_head(f, v, self.heads)?);
        let mut before = 0;
        if let Some(past) = past {
            let shape = f.shape(past);
            let [2, rest @ ..] = &*shape else { return Err(f.wrong(format!("a past of {shape}"))) };
            let rest = rest.to_vec();
            let [keys, values] = [0, 1].map(|index| f.slice(past, 0, index, index + 1));
            let (keys, values) = (f.reshape(keys?, &rest)?, f.reshape(values?, &rest)?);
            before = rest.get(2).copied().unwrap_or(0);
            k = f.concat(&[keys, k], 2)?;
            v = f.concat(&[values, v], 2)?;
        }
        let y = self.masking.attend(f, [q, k, v], self.scale, before, more)?;
        if f.shape(k) != f.shape(v) {
            // They cannot stand in one tensor, and no network asks for them then.
            return Ok(vec![y]);
        }
        let dims = [&[1], &*f.shape(k)].concat();
        let (k, v) = (f.reshape(k, &dims)?, f.reshape(v, &dims)?);
        Ok(vec![y, f.concat(&[k, v], 0)?])
    }
}

/// What a grouped attention says of itself.
#[derive(Clone)]
struct Grouped {
    heads: usize,
    own: usize,
    scale: Option<f64>,
    cap: f64,
    causal: bool,
    /// Keys that a query sees, its own the last.
    window: Option<i64>,
    /// Whether pairs that turn lie beside each other; `None` if nothing turns.
    rotary: Option<bool>,
    smooth: bool,
    /// ε of queries' and keys' norms.
    epsilons: [f32; 2],
}

/// Where the new places of a batch stand among all.
enum First {
    /// All of it at one place.
    At(usize),
    /// (batch, 1, 1, 1).
    Each(ValueId),
}

/// Attention with fewer heads of keys than of queries, whose past the caller hands on; results y, keys and values with what went
/// before.
fn group_query_attention(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("qk_norm_epsilon", 1e-6)?;
    let epsilons = [node.float("q_norm_epsilon", epsilon)?, node.float("k_norm_epsilon", epsilon)?];
    let grouped = Grouped {
        heads: count(node, "num_heads")?,
        own: count(node, "kv_num_heads")?,
        scale: scale(node)?,
        cap: node.float("softcap", 0.0)?.into(),
        causal: node.int("causal")?.unwrap_or(1) != 0,
        window: node.int("local_window_size")?.filter(|&window| window > 0),
        rotary: {
            let interleaved = node.flag("rotary_interleaved")?;
            node.flag("do_rotary")?.then_some(interleaved)
        },
        smooth: node.int("smooth_softmax")?.unwrap_or(0) > 0,
        epsilons,
    };
    for name in ["kv_cache_bit_width", "qk_output", "sliding_window_cache"] {
        node.only(name, 0)?;
    }
    for name in ["k_quant_type", "v_quant_type"] {
        let kind = node.text(name, "NONE")?;
        if kind != "NONE" {
            return Err(node.unsupported(format!("attribute '{name}' = '{kind}': a past of reals is read")));
        }
    }
    for (index, name) in [(12, "k_scale"), (13, "v_scale"), (16, "query_seqlens")] {
        if node.inputs.get(index).copied().flatten().is_some() {
            return Err(node.unsupported(format!("input {index} ('{name}')")));
        }
    }
    if !grouped.heads.is_multiple_of(grouped.own) {
        return Err(
            node.unsupported(format!("{} heads of queries for {} of keys", grouped.heads, grouped.own))
        );
    }
    Ok(node.functions(move |f| grouped.body(f)).deciding(&[6]).into())
}

impl Grouped {
    fn body(&self, f: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Error> {
        let Self { heads, own, .. } = *self;
        let q = f.input(0)?;
        let [q, k, v] = match (f.get(1), f.get(2)) {
            (Some(k), Some(v)) => [q, k, v],
            (None, None) => {
                let each = f.shape(q).last().copied().unwrap_or(0) / (heads + 2 * own);
                parts(f, q, [heads * each, own * each, own * each])?
            }
            _ => return Err(f.wrong("keys and values come together, or in one with the queries")),
        };
        let (mut q, mut k, v) = (by_head(f, q, heads)?, by_head(f, k, own)?, by_head(f, v, own)?);
        let &[batch, _, places, _] = &*f.shape(q) else { return Err(f.wrong("queries by head")) };
        if let (Some(of_q), Some(of_k)) = (f.get(14), f.get(15)) {
            q = normalized(f, q, of_q, self.epsilons[0])?;
            k = normalized(f, k, of_k, self.epsilons[1])?;
        }
        let total = f.int(6)?;
        let total = usize::try_from(total).ok().filter(|total| *total >= places);
        let total = total.ok_or_else(|| {
            f.wrong(format!("'total_sequence_length' says less than the {places} places here"))
        })?;
        let before = total - places;
        let lengths = f.input(5)?;
        if f.shape(lengths).elements() != Some(batch) {
            return Err(f.wrong(format!("'seqlens_k' {} for a batch of {batch}", f.shape(lengths))));
        }
        // One image's length is the longest; a prompt stands at the beginning, however much of it is filling.
        let first = if batch == 1 || before == 0 {
            First::At(before)
        } else {
            let lengths = f.cast(lengths, DType::I64)?;
            let lengths = f.reshape(lengths, &[batch, 1, 1, 1])?;
            First::Each(f.add_number(lengths, 1.0 - places as f64)?)
        };
        if let Some(interleaved) = self.rotary {
            let angles = angles(f, &first, [batch, places], before == 0)?;
            q = turned(f, q, angles, interleaved)?;
            k = turned(f, k, angles, interleaved)?;
        }
        let (past_keys, past_values) = (f.get(3), f.get(4));
        let keys = present(f, past_keys, k, &first, total)?;
        let values = present(f, past_values, v, &first, total)?;
        let seen = |f: &mut Scope<'_, '_>, x: ValueId| {
            if f.shape(x)[2] == total { Ok(x) } else { f.slice(x, 2, 0, total as i64) }
        };
        let (k, v) = (seen(f, keys)?, seen(f, values)?);
        let scale = self.scale.unwrap_or_else(|| 1.0 / (f.shape(q)[3] as f64).sqrt());
        let q = f.mul_number(q, scale)?;
        let bias = self.bias(f, &first, [places, total])?;
        let sink = match f.get(11) {
            Some(sink) => Some(f.reshape(sink, &[1, heads, 1, 1])?),
            None if self.smooth => {
                let zero = f.scalar_like(0.0, q);
                Some(f.reshape(zero, &[1; 4])?)
            }
            None => None,
        };
        let cap = (self.cap > 0.0).then_some(self.cap);
        let weighing = Weighing { cap, bias, precision: None, sink, blind: false };
        let y = weighing.weigh(f, [q, k, v])?.y;
        Ok(vec![places_first(f, y)?, keys, values])
    }

    /// What is added to the scores of new places and all keys.
    fn bias(
        &self,
        f: &mut Scope<'_, '_>,
        first: &First,
        [places, total]: [usize; 2],
    ) -> Result<Option<ValueId>, Error> {
        let dtype = f.dtype(f.input(0)?);
        let (row, column) = (f.places(places, 1)?, f.places(total, 0)?);
        let place = match first {
            First::At(first) => f.add_number(row, *first as f64)?,
            First::Each(first) => f.add(*first, row)?,
        };
        let bias = match f.get(10) {
            Some(bias) if f.shape(bias).last().is_some_and(|&own| own > total) => {
                let axis = f.rank(bias) - 1;
                Some(f.slice(bias, axis, 0, total as i64)?)
            }
            bias => bias,
        };
        let mut seen = Vec::new();
        // One place alone sees all that there is.
        if self.causal && (places > 1 || matches!(first, First::Each(_))) {
            seen.push(f.binary(BinaryKind::LessOrEqual, column, place)?);
        } else if let First::Each(first) = first {
            let end = f.add_number(*first, places as f64)?;
            seen.push(f.binary(BinaryKind::Less, column, end)?);
        }
        if let Some(window) = self.window {
            let before = f.add_number(place, -(window as f64))?;
            seen.push(f.binary(BinaryKind::Greater, column, before)?);
        }
        with_hidden(f, bias, &seen, dtype)
    }
}

/// Cosines and sines for every place, (batch or 1, 1, places, pairs).
fn angles(
    f: &mut Scope<'_, '_>,
    first: &First,
    [batch, places]: [usize; 2],
    prompt: bool,
) -> Result<[ValueId; 2], Error> {
    let (cos, sin) = (f.input(7)?, f.input(8)?);
    let row = f.places(places, 0)?;
    let at = match (f.get(9), first) {
        // Of a prompt's, the first alone counts.
        (Some(ids), _) if prompt => {
            let count = f.shape(ids).elements().unwrap_or(0);
            let ids = f.reshape(ids, &[count])?;
            let base = f.slice(ids, 0, 0, 1)?;
            let at = f.add(row, base)?;
            f.reshape(at, &[1, places])?
        }
        (Some(ids), _) => f.reshape(ids, &[batch, places])?,
        (None, First::At(first)) => {
            let at = f.add_number(row, *first as f64)?;
            f.reshape(at, &[1, places])?
        }
        (None, First::Each(first)) => {
            let first = f.reshape(*first, &[batch, 1])?;
            f.add(first, row)?
        }
    };
    let rows = f.shape(at)[0];
    let mut angles = [cos, sin];
    for angle in &mut angles {
        let taken = f.gather(*angle, 0, at)?;
        let pairs = f.shape(taken).last().copied().unwrap_or(0);
        *angle = f.reshape(taken, &[rows, 1, places, pairs])?;
    }
    Ok(angles)
}

/// x/√(mean of x² + ε) along the elements of each head, times weights.
fn normalized(f: &mut Scope<'_, '_>, x: ValueId, weights: ValueId, epsilon: f32) -> Result<ValueId, Error> {
    let dtype = f.dtype(x);
    let wide = f.cast(x, DType::F32)?;
    let square = f.mul(wide, wide)?;
    let mean = f.reduce(ReduceKind::Mean, square, &[3])?;
    let mean = f.add_number(mean, f64::from(epsilon))?;
    let inverse = f.unary(UnaryKind::Rsqrt, mean)?;
    let y = f.mul(wide, inverse)?;
    let weights = f.cast(weights, DType::F32)?;
    let y = f.mul(y, weights)?;
    f.cast(y, dtype)
}

/// The new places behind those of the past, in as many as the past has room for, at least `total`. What is behind the new ones is what
/// the past has there, or 0.
fn present(
    f: &mut Scope<'_, '_>,
    past: Option<ValueId>,
    new: ValueId,
    first: &First,
    total: usize,
) -> Result<ValueId, Error> {
    let shape = f.shape(new);
    let [batch, heads, places, elements] = *shape else { return Err(f.wrong(format!("new {shape}"))) };
    let room = past.map_or(0, |past| f.shape(past)[2]);
    let fits = past.is_none_or(|past| {
        let past = f.shape(past);
        past.rank() == 4 && past[..2] == [batch, heads] && past[3] == elements
    });
    if !fits || room + places < total {
        return Err(f.wrong(format!(
            "a past of {room} places, {} of which are said to be before {shape}",
            total - places
        )));
    }
    match (first, past) {
        (First::At(_), None) => Ok(new),
        (&First::At(before), Some(past)) => {
            let mut parts = Vec::with_capacity(3);
            if before > 0 {
                parts.push(if room == before { past } else { f.slice(past, 2, 0, before as i64)? });
            }
            parts.push(new);
            if room > total {
                parts.push(f.slice(past, 2, total as i64, i64::MAX)?);
            }
            f.concat(&parts, 2)
        }
        (First::Each(first), past) => {
            // Rows by place: of the past up to the first new one, then the new ones, which stand behind the past's room.
            let whole = match past {
                Some(past) => f.concat(&[past, new], 2)?,
                None => new,
            };
            let (from, to) = (room + places, total.max(room));
            let whole = f.transpose(whole, &[0, 2, 1, 3])?;
            let rows = f.reshape(whole, &[batch * from, heads * elements])?;
            let place = f.places(to, 0)?;
            let first = f.reshape(*first, &[batch, 1])?;
            let old = f.binary(BinaryKind::Less, place, first)?;
            let since = f.sub(place, first)?;
            let ended = f.compare(BinaryKind::GreaterOrEqual, since, places as f64)?;
            let behind = f.add_number(since, room as f64)?;
            let row = f.choose(old, place, behind)?;
            let zero = f.scalar_like(0.0, row);
            let row = f.choose(ended, zero, row)?;
            let base = f.places(batch, 1)?;
            let base = f.mul_number(base, from as f64)?;
            let row = f.add(row, base)?;
            let taken = f.gather(rows, 0, row)?;
            let taken = f.reshape(taken, &[batch, to, heads, elements])?;
            let ended = f.reshape(ended, &[batch, to, 1, 1])?;
            let zero = f.scalar_like(0.0, taken);
            let taken = f.choose(ended, zero, taken)?;
            f.transpose(taken, &[0, 2, 1, 3])
        }
    }
}

/// Pairs of elements turned by angles that belong to their places; operands x, places, cosines, sines.
fn rotary_embedding(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let interleaved = node.flag("interleaved")?;
    let size = |value: Option<i64>| usize::try_from(value.unwrap_or(0));
    let (heads, width) = (node.int("num_heads")?, node.int("rotary_embedding_dim")?);
    let (Ok(heads), Ok(width)) = (size(heads), size(width)) else {
        return Err(node.unsupported("attribute 'num_heads' or 'rotary_embedding_dim' is negative"));
    };
    if node.float("scale", 1.0)? != 1.0 {
        return Err(node.unsupported("attribute 'scale' other than 1"));
    }
    node.only("is_packed_batching", 0)?;
    Ok(node
        .function(move |f| {
            let (x, at, cos, sin) = (f.input(0)?, f.input(1)?, f.input(2)?, f.input(3)?);
            let whole = f.shape(x);
            let pairs = f.shape(cos).last().copied().unwrap_or(0);
            if width != 0 && width != 2 * pairs {
                return Err(f.wrong(format!("{width} elements turn by {pairs} angles")));
            }
            // Heads stand before places, or behind them; the angles follow.
            let (x, places, head_axis) = match *whole {
                [_, _, places, _] => (x, places, 1),
                [batch, places, all] if pairs > 0 => {
                    // Without a number, all elements of a head turn.
                    let heads = if heads > 0 { heads } else { all / (2 * pairs) }.max(1);
                    if !all.is_multiple_of(heads) {
                        return Err(f.wrong(format!("operand {whole} in {heads} heads")));
                    }
                    (f.reshape(x, &[batch, places, heads, all / heads])?, places, 2)
                }
                _ => return Err(f.wrong(format!("operand {whole} by angles {}", f.shape(cos)))),
            };
            let batch = whole[0];
            let at = if f.shape(at).elements() == Some(1) && batch * places != 1 {
                let row = f.places(places, 0)?;
                let at = f.reshape(at, &[1])?;
                let at = f.add(row, at)?;
                f.reshape(at, &[1, places])?
            } else {
                f.reshape(at, &[batch, places])?
            };
            let rows = f.shape(at)[0];
            let mut angles = [cos, sin];
            for angle in &mut angles {
                let taken = f.gather(*angle, 0, at)?;
                let mut dims = [rows, places, places, pairs];
                dims[head_axis] = 1;
                *angle = f.reshape(taken, &dims)?;
            }
            let y = turned(f, x, angles, interleaved)?;
            f.reshape(y, &whole)
        })
        .into())
}

/// Rows of tables of words, places and segments added up and normalized; results y, how many places a mask leaves of each image, the sum.
fn embed_layer_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-12)?;
    node.ignore(&["mask_index_type"]);
    Ok(node
        .functions(move |f| {
            let words = f.input(0)?;
            let &[batch, places] = &*f.shape(words) else {
                return Err(f.wrong(format!("words {}", f.shape(words))));
            };
            let mut sum = f.gather(f.input(2)?, 0, words)?;
            let at = if let Some(at) = f.get(8) {
                at
            } else {
                let at = f.places(places, 0)?;
                f.reshape(at, &[1, places])?
            };
            let place = f.gather(f.input(3)?, 0, at)?;
            sum = f.add(sum, place)?;
            if let (Some(segments), Some(table)) = (f.get(1), f.get(4)) {
                let segment = f.gather(table, 0, segments)?;
                sum = f.add(sum, segment)?;
            }
            let dtype = f.dtype(sum);
            let wide = f.cast(sum, DType::F32)?;
            let standard = standard::standardized(f, wide, &[2], epsilon)?.result;
            let y = f.cast(standard, dtype)?;
            let y = f.mul(y, f.input(5)?)?;
            let y = f.add(y, f.input(6)?)?;
            let left = if let Some(mask) = f.get(7) {
                let mask = f.cast(mask, DType::I32)?;
                let one = f.compare(BinaryKind::Equal, mask, 1.0)?;
                let one = f.cast(one, DType::I32)?;
                f.reduce(ReduceKind::Sum, one, &[1])?
            } else {
                let zero = f.scalar(0.0, DType::I32);
                f.expand(zero, &[batch, 1])?
            };
            let left = f.reshape(left, &[batch])?;
            Ok(vec![y, left, sum])
        })
        .into())
}

operators! {
    "com.microsoft";
    "Attention": [1] {2, 7, 2 => attention};
    "EmbedLayerNormalization": [1] {1, 9, 3 => embed_layer_normalization};
    "GroupQueryAttention": [1] {1, 17, 4 => group_query_attention};
    "MultiHeadAttention": [1] {1, 10, 4 => multi_head_attention};
    "QAttention": [1] {5, 9, 2 => quantized_attention};
    "RotaryEmbedding": [1] {4, 4, 1 => rotary_embedding};
}
