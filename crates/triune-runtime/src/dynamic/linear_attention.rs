//! Attention by a state that every place changes.

use triune_device::work;
use triune_graph::ops::LinearAttention;
use triune_tensor::{DType, function::UnaryKind, memory, text::List};

use super::Operands;
use crate::{Error, Tensor};

/// How many elements there are of some extents.
fn elements(at: &Operands<'_>, extents: &[usize]) -> Result<usize, Error> {
    let count = extents.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    count.ok_or_else(|| at.wrong(format!("{} elements are too many", List(extents))))
}

/// Runs the operator; gives the results and the last state.
pub(super) fn run(at: &Operands<'_>, op: LinearAttention) -> Result<Vec<Tensor>, Error> {
    let (q, k, v) = (at.input(0)?, at.input(1)?, at.input(2)?);
    let wrong = || {
        let [q, k, v] = [q, k, v].map(|tensor| List(tensor.shape).to_string());
        at.wrong(format!("queries {q}, keys {k} and values {v}"))
    };
    let [key, value] = op.widths(q.shape, k.shape, v.shape).ok_or_else(wrong)?;
    if op.heads == 0 || !q.dtype.is_float() {
        return Err(wrong());
    }
    let [batch, places] = [q.shape[0], q.shape[1]];
    let (heads, shared) = (op.heads, op.query_heads / op.heads);
    let state_shape = [batch, heads, key, value];
    let state = match at.get(3)? {
        Some(state) if state.shape == state_shape && state.dtype.is_float() => Some(state.dtype),
        Some(state) => return Err(at.wrong(format!("a state {}", List(state.shape)))),
        None => None,
    };
    let optional = |index: usize, widths: [usize; 2]| -> Result<Option<(Vec<f64>, usize)>, Error> {
        let Some(tensor) = at.get(index)? else { return Ok(None) };
        match *tensor.shape {
            [own, places_of, width] if [own, places_of] == [batch, places] && widths.contains(&width) => {
                Ok(Some((at.doubles(index)?, width)))
            }
            _ => Err(at.wrong(format!("operand {index} of extents {}", List(tensor.shape)))),
        }
    };
    let decay = optional(4, [heads, heads * key])?;
    let rate = optional(5, [heads, 1])?;
    let (q, k, v, dtype) = (at.doubles(0)?, at.doubles(1)?, at.doubles(2)?, q.dtype);
    let own = if dtype == DType::F64 { |x: f64| x } else { |x: f64| f64::from(x as f32) };
    let scale = op.scale.map_or_else(|| 1.0 / (key as f64).sqrt(), f64::from);
    let count = elements(at, &state_shape)?;
    let mut states = match state {
        Some(_) => at.doubles(3)?,
        None => memory::filled(count, 0.0)?,
    };
    let width = elements(at, &[op.query_heads, value])?;
    let mut results = memory::filled(elements(at, &[batch, places, width])?, 0.0)?;
    let mut written = memory::filled(value, 0.0)?;
    for (index, state) in states.chunks_exact_mut((key * value).max(1)).enumerate() {
        let (entry, head) = (index / heads, index % heads);
        for place in 0..places {
            work::go_on()?;
            let row = entry * places + place;
            let (key_at, value_at) =
                (&k[(row * heads + head) * key..][..key], &v[(row * heads + head) * value..][..value]);
            if let Some((decay, width)) = &decay {
                for (element, state) in state.chunks_exact_mut(value).enumerate() {
                    let at = if *width == heads { head } else { head * key + element };
                    let factor = own(UnaryKind::Exp.evaluate(decay[row * width + at]));
                    for state in state.iter_mut() {
                        *state = own(*state * factor);
                    }
                }
            }
            written.copy_from_slice(value_at);
            if let Some((rate, width)) = &rate {
                let rate = rate[row * width + if *width == heads { head } else { 0 }];
                for (column, written) in written.iter_mut().enumerate() {
                    let known: f64 =
                        key_at.iter().enumerate().map(|(row, key)| state[row * value + column] * key).sum();
                    *written = own(rate * own(*written - own(known)));
                }
            }
            for (state, key) in state.chunks_exact_mut(value).zip(key_at) {
                state.iter_mut().zip(&written).for_each(|(state, value)| *state = own(*state + key * value));
            }
            for query_head in head * shared..(head + 1) * shared {
                let query = &q[(row * op.query_heads + query_head) * key..][..key];
                let result = &mut results[row * width + query_head * value..][..value];
                for (column, result) in result.iter_mut().enumerate() {
                    let sum: f64 = query
                        .iter()
                        .enumerate()
                        .map(|(row, query)| state[row * value + column] * query)
                        .sum();
                    *result = scale * sum;
                }
            }
        }
    }
    Ok(vec![
        at.tensor(dtype, &[batch, places, width], results.into_iter())?,
        at.tensor(state.unwrap_or(dtype), &state_shape, states.into_iter())?,
    ])
}
