//! How often sequences of numbers stand in rows.

use std::collections::HashMap;

use triune_device::work;
use triune_graph::ops::{NGramWeight, NGrams};
use triune_tensor::{DType, memory, text::List};

use super::{Element, Elements, Operands};
use crate::{Error, Tensor};

/// The sequences as a tree: a step by each number, and a place in the result where one ends.
#[derive(Default)]
struct Tree {
    steps: HashMap<(usize, i64), usize>,
    ends: Vec<Option<usize>>,
}

impl Tree {
    /// Of those sequences whose length counts; one that is there twice is an error.
    fn new(at: &Operands<'_>, op: &NGrams) -> Result<Self, Error> {
        let mut tree = Self { ends: vec![None], ..Self::default() };
        let counts = |gram: &&(Vec<i64>, usize)| (op.lengths[0]..=op.lengths[1]).contains(&gram.0.len());
        for (gram, place) in op.grams.iter().filter(counts) {
            let mut node = 0;
            for &number in gram {
                node = *tree.steps.entry((node, number)).or_insert_with(|| {
                    tree.ends.push(None);
                    tree.ends.len() - 1
                });
            }
            if tree.ends[node].replace(*place).is_some() {
                return Err(at.wrong(format!("a sequence of {} numbers is there twice", gram.len())));
            }
        }
        Ok(tree)
    }
}

pub(super) fn count(at: &Operands<'_>, op: &NGrams) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let width = op.weights.len();
    let (shape, length) = match *x.shape {
        [length] => (vec![width], length),
        [batch, length] => (vec![batch, width], length),
        _ => return Err(at.wrong(format!("{}; one or two axes are expected", List(x.shape)))),
    };
    if !matches!(x.dtype, DType::I32 | DType::I64) {
        return Err(at.wrong(format!("{} elements; int32 or int64 is expected", x.dtype)));
    }
    let mut numbers = memory::with_room(x.bytes.len() / x.dtype.bytes())?;
    numbers.extend(Elements::of(x).map(|element| match element {
        Element::Integer(number) => number,
        Element::Float(_) | Element::Unsigned(_) => 0,
    }));
    let tree = Tree::new(at, op)?;
    let count = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    let count = count.ok_or_else(|| at.wrong(format!("{} results are too many", List(&shape))))?;
    let mut counts = memory::filled(count, 0_u32)?;
    // A sequence of one number has no elements between its own: it counts once.
    let distances = if op.lengths[1] > 1 { 1..=op.skips.saturating_add(1).min(length.max(1)) } else { 1..=1 };
    for (row, counts) in numbers.chunks_exact(length.max(1)).zip(counts.chunks_exact_mut(width.max(1))) {
        for distance in distances.clone() {
            for start in 0..length {
                work::go_on()?;
                let mut node = 0;
                let taken = row[start..].iter().step_by(distance).take(op.lengths[1]);
                for (before, &number) in taken.enumerate() {
                    let Some(&next) = tree.steps.get(&(node, number)) else { break };
                    node = next;
                    if let Some(place) = tree.ends[node].filter(|_| before > 0 || distance == 1) {
                        counts[place] += 1;
                    }
                }
            }
        }
    }
    let weighed = |(count, weight): (&u32, &f32)| {
        f64::from(match op.weight {
            NGramWeight::Count => *count as f32,
            NGramWeight::Presence if *count == 0 => 0.0,
            NGramWeight::Presence => *weight,
            NGramWeight::Both => *count as f32 * weight,
        })
    };
    let mut results = memory::with_room(count)?;
    for counts in counts.chunks_exact(width.max(1)) {
        results.extend(counts.iter().zip(&op.weights).map(weighed));
    }
    at.tensor(DType::F32, &shape, results.into_iter())
}
