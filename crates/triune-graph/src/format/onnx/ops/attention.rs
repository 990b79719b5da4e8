//! Attention, and what turns queries and keys by their positions.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, ReduceKind, Softmax, UnaryKind},
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
        let (heads, own) = (queries[1], keys[1]);
        if own == 0 || !heads.is_multiple_of(own) || f.shape(v)[1] != own {
            return Err(f.wrong(format!("{heads} heads of queries for {own} of keys")));
        }
        if heads != own {
            k = repeated(f, k, heads / own)?;
            v = repeated(f, v, heads / own)?;
        }
        let scale = self.scale.map_or_else(|| 1.0 / (queries[3] as f64).sqrt(), f64::from).sqrt();
        let q = f.mul_number(q, scale)?;
        let k = f.mul_number(k, scale)?;
        let k = f.transpose(k, &[0, 1, 3, 2])?;
        let mut scores = f.matmul(q, k)?;
        let product = scores;
        if self.cap > 0.0 {
            let cap = f.scalar_like(f64::from(self.cap), scores);
            let inner = f.div(scores, cap)?;
            let inner = f.unary(UnaryKind::Tanh, inner)?;
            scores = f.mul(inner, cap)?;
        }
        let capped = scores;
        let dtype = f.dtype(q);
        let bias = self.bias(f, dtype, queries[2], keys[2], before)?;
        if let Some(bias) = bias {
            scores = f.add(scores, bias)?;
        }
        let biased = scores;
        if let Some(precision) = self.precision {
            scores = f.cast(scores, precision)?;
        }
        let axis = f.rank(scores) as isize - 1;
        let mut weights = f.op(Op::Softmax(Softmax { axis, flatten: false }), &[scores])?;
        if let Some(bias) = bias {
            // A query that sees no key gives 0, not what 0/0 is.
            let last = f.rank(bias) - 1;
            let most = f.reduce(ReduceKind::Max, bias, &[last])?;
            let blind = f.compare(BinaryKind::Equal, most, f64::NEG_INFINITY)?;
            let zero = f.scalar_like(0.0, weights);
            weights = f.choose(blind, zero, weights)?;
        }
        let weights = f.cast(weights, dtype)?;
        let mut y = f.matmul(weights, v)?;
        if flat {
            let shape = f.shape(y);
            y = f.transpose(y, &[0, 2, 1, 3])?;
            y = f.reshape(y, &[shape[0], shape[2], shape[1] * shape[3]])?;
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
            let mask = padded(f, mask, keys)?;
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
        for seen in seen {
            let hidden = hidden_unless(f, seen, dtype)?;
            bias = Some(match bias {
                Some(bias) => f.add(bias, hidden)?,
                None => hidden,
            });
        }
        Ok(bias)
    }
}

/// 0 where something holds, −∞ elsewhere.
fn hidden_unless(f: &mut Scope<'_, '_>, holds: ValueId, dtype: DType) -> Result<ValueId, Error> {
    let (zero, hidden) = (f.scalar(0.0, dtype), f.scalar(f64::NEG_INFINITY, dtype));
    f.choose(holds, zero, hidden)
}

/// A mask for as many keys; those that it says nothing of are not seen.
fn padded(f: &mut Scope<'_, '_>, mask: ValueId, keys: usize) -> Result<ValueId, Error> {
    let shape = f.shape(mask);
    let Some((&known, rest)) = shape.split_last() else { return Ok(mask) };
    if known == 1 || known >= keys {
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
            let by_head = match *whole {
                [_, _, _, _] => f.transpose(x, &[0, 2, 1, 3])?,
                [batch, places, all] if heads > 0 && all.is_multiple_of(heads) => {
                    f.reshape(x, &[batch, places, heads, all / heads])?
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
                if dims[..] != [shape[0], shape[1], half] {
                    return Err(f.wrong(format!("angles {dims} for {shape} of which {width} turn")));
                }
                *angle = f.reshape(cache, &[shape[0], shape[1], 1, half])?;
            }
            let [cos, sin] = angles;
            let turned = f.slice(by_head, 3, 0, width as i64)?;
            let (first, second) = if interleaved {
                (f.slice_by(turned, 3, 0, i64::MAX, 2)?, f.slice_by(turned, 3, 1, i64::MAX, 2)?)
            } else {
                (f.slice(turned, 3, 0, half as i64)?, f.slice(turned, 3, half as i64, width as i64)?)
            };
            let (a, b) = (f.mul(cos, first)?, f.mul(sin, second)?);
            let (c, d) = (f.mul(sin, first)?, f.mul(cos, second)?);
            let (real, imaginary) = (f.sub(a, b)?, f.add(c, d)?);
            let turned = if interleaved {
                let dims = [shape[0], shape[1], shape[2], half, 1];
                let (real, imaginary) = (f.reshape(real, &dims)?, f.reshape(imaginary, &dims)?);
                let pairs = f.concat(&[real, imaginary], 4)?;
                f.reshape(pairs, &[shape[0], shape[1], shape[2], width])?
            } else {
                f.concat(&[real, imaginary], 3)?
            };
            let rest = f.slice(by_head, 3, width as i64, i64::MAX)?;
            let result = if width == shape[3] { turned } else { f.concat(&[turned, rest], 3)? };
            if whole.rank() == 4 { f.transpose(result, &[0, 2, 1, 3]) } else { f.reshape(result, &whole) }
        })
        .into())
}

operators! {
    DEFAULT_DOMAIN;
    "Attention": [23] {3, 6, 4 => attention} [24, 25] {3, 7, 4 => attention};
    "RotaryEmbedding": [23] {3, 4, 1 => rotary_embedding};
}
