//! Random numbers. They follow from a seed, the node's `seed` or else its name, and are the same in every run, on every machine
//! and for any number of threads.

use triune_tensor::{
    DType,
    function::{BinaryKind, ReduceKind, UnaryKind},
};

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators};
use crate::{
    Error, Op, ValueId,
    functions::{Scope, running},
    ops::Softmax,
};

/// A stream of random numbers: `SplitMix64` (Steele, Lea and Flood 2014), whose states are equally spaced.
struct Stream(u64);

impl Stream {
    /// By the node's seed, its name without one.
    fn of(node: &mut NodeReader<'_, '_>) -> Result<Self, Error> {
        Ok(Self(match node.maybe_float("seed")? {
            Some(seed) => u64::from(seed.to_bits()),
            // FNV-1a: two nodes without seeds have different numbers.
            None => node.name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            }),
        }))
    }

    /// 0 ≤ u < 1, of 24 bits: exact in f32.
    fn uniform(&self, index: usize) -> f64 {
        let mut word =
            self.0.wrapping_add((index as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 40) as f64 / f64::from(1 << 24)
    }

    /// Mean 0 and deviation 1, by Box and Muller's transform of two uniform numbers.
    fn normal(&self, index: usize) -> f64 {
        // Not 0, which has no logarithm.
        let [radius, turn] = [2 * index, 2 * index + 1].map(|index| self.uniform(index));
        let radius = (-2.0 * UnaryKind::Log.evaluate(1.0 - radius)).sqrt();
        radius * UnaryKind::Cos.evaluate(2.0 * std::f64::consts::PI * turn)
    }

    /// Uniform numbers of these extents.
    fn uniforms(&self, f: &mut Scope<'_, '_>, dims: &[usize], dtype: DType) -> Result<ValueId, Error> {
        filled(f, dims, dtype, |index| self.uniform(index))
    }
}

fn filled(
    f: &mut Scope<'_, '_>,
    dims: &[usize],
    dtype: DType,
    number: impl Fn(usize) -> f64,
) -> Result<ValueId, Error> {
    if !dtype.is_float() {
        return Err(f.unsupported(format!("random numbers of {dtype}; a type of reals is expected")));
    }
    let count = dims.iter().try_fold(1_usize, |count, &extent| count.checked_mul(extent));
    let numbers: Vec<f64> = (0..f.bounded(count)?).map(number).collect();
    let list = f.floats(&numbers, dtype);
    f.reshape(list, dims)
}

/// Where the extents come from.
#[derive(Clone, Copy, PartialEq)]
enum Extents {
    Attribute,
    Operand,
}

#[derive(Clone, Copy, PartialEq)]
enum Distribution {
    Normal,
    Uniform,
}

fn random(node: &mut NodeReader<'_, '_>, distribution: Distribution, extents: Extents) -> Result<Op, Error> {
    // A mean and a deviation, or two ends.
    let [shift, scale] = match distribution {
        Distribution::Normal => [node.float("mean", 0.0)?, node.float("scale", 1.0)?].map(f64::from),
        Distribution::Uniform => {
            let [low, high] = [node.float("low", 0.0)?, node.float("high", 1.0)?].map(f64::from);
            [low, high - low]
        }
    };
    let dtype = node.dtype("dtype")?;
    let dims = match extents {
        Extents::Attribute => {
            Some(node.extents("shape")?.ok_or_else(|| node.unsupported("attribute 'shape' is missing"))?)
        }
        Extents::Operand => None,
    };
    let stream = Stream::of(node)?;
    Ok(node
        .function(move |f| {
            let (dims, dtype) = if let Some(dims) = &dims {
                (dims.clone(), dtype.unwrap_or(DType::F32))
            } else {
                let x = f.input(0)?;
                (f.shape(x).to_vec(), dtype.unwrap_or_else(|| f.dtype(x)))
            };
            filled(f, &dims, dtype, |index| {
                let number = match distribution {
                    Distribution::Normal => stream.normal(index),
                    Distribution::Uniform => stream.uniform(index),
                };
                shift + scale * number
            })
        })
        .into())
}

/// 1 as often as each element says, else 0.
fn bernoulli(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (dtype, stream) = (node.dtype("dtype")?, Stream::of(node)?);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let own = f.dtype(x);
            let wide = if own == DType::F64 { own } else { DType::F32 };
            let chance = f.cast(x, wide)?;
            let dims = f.shape(x).to_vec();
            let number = stream.uniforms(f, &dims, wide)?;
            let drawn = f.binary(BinaryKind::Less, number, chance)?;
            f.cast(drawn, dtype.unwrap_or(own))
        })
        .into())
}

/// Classes, each as often as the logarithms of their shares say.
fn multinomial(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let dtype = node.dtype("dtype")?.unwrap_or(DType::I32);
    if !matches!(dtype, DType::I32 | DType::I64) {
        return Err(node.unsupported(format!("attribute 'dtype' = {dtype}; int32 or int64 is expected")));
    }
    let samples = node.int("sample_size")?.unwrap_or(1);
    let samples = usize::try_from(samples).ok().filter(|samples| *samples > 0);
    let samples = samples.ok_or_else(|| node.unsupported("attribute 'sample_size' is not positive"))?;
    let stream = Stream::of(node)?;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let shape = f.shape(x);
            let &[batch, classes] = &*shape else {
                return Err(f.wrong(format!("{shape}; a batch of classes is expected")));
            };
            if classes == 0 {
                return Err(f.wrong("there is no class to draw"));
            }
            let draws = batch.checked_mul(samples);
            f.bounded(draws.and_then(|draws| draws.checked_mul(classes)))?;
            let x = f.cast(x, DType::F32)?;
            let shares = f.op(Op::Softmax(Softmax { axis: 1, flatten: false, log: false }), &[x])?;
            let ends = running::along(f, shares, 1, BinaryKind::Add, [false; 2])?;
            // Of the last end rather than of 1, which rounding misses: no number lies behind it.
            let whole = f.slice(ends, 1, classes as i64 - 1, classes as i64)?;
            let numbers = stream.uniforms(f, &[batch, samples], DType::F32)?;
            let numbers = f.mul(numbers, whole)?;
            let numbers = f.reshape(numbers, &[batch, samples, 1])?;
            let ends = f.reshape(ends, &[batch, 1, classes])?;
            let passed = f.binary(BinaryKind::LessOrEqual, ends, numbers)?;
            let passed = f.cast(passed, dtype)?;
            let class = f.reduce(ReduceKind::Sum, passed, &[2])?;
            let last = f.integer(classes as i64 - 1, dtype);
            let class = f.binary(BinaryKind::Min, class, last)?;
            f.reshape(class, &[batch, samples])
        })
        .into())
}

operators! {
    DEFAULT_DOMAIN;
    "Bernoulli": [15, 22] {1, 1, 1 => bernoulli};
    "Multinomial": [7, 22] {1, 1, 1 => multinomial};
    "RandomNormal": [1, 22] {0, 0, 1 => |node| random(node, Distribution::Normal, Extents::Attribute)};
    "RandomNormalLike": [1, 22] {1, 1, 1 => |node| random(node, Distribution::Normal, Extents::Operand)};
    "RandomUniform": [1, 22] {0, 0, 1 => |node| random(node, Distribution::Uniform, Extents::Attribute)};
    "RandomUniformLike": [1, 22] {1, 1, 1 => |node| random(node, Distribution::Uniform, Extents::Operand)};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_as_they_should_be() {
        let stream = Stream(7);
        let count = 100_000;
        let moments = |number: &dyn Fn(usize) -> f64| {
            let mean = (0..count).map(number).sum::<f64>() / f64::from(count as u32);
            let variance = (0..count).map(|index| (number(index) - mean).powi(2)).sum::<f64>();
            [mean, variance / f64::from(count as u32)]
        };
        let [mean, variance] = moments(&|index| stream.uniform(index));
        assert!((mean - 0.5).abs() < 0.004 && (variance - 1.0 / 12.0).abs() < 0.002, "{mean} {variance}");
        let [mean, variance] = moments(&|index| stream.normal(index));
        assert!(mean.abs() < 0.012 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((0..count).all(|index| (0.0..1.0).contains(&stream.uniform(index))));
        assert_ne!(stream.uniform(0).to_bits(), Stream(8).uniform(0).to_bits());
    }
}
