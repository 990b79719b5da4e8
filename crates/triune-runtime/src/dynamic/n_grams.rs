//! How often sequences of numbers stand in rows.

use std::collections::HashMap;
use std::ops::Range;

use triune_device::work;
use triune_graph::ops::{NGramWeight, NGrams};
use triune_tensor::{DType, memory, text::List};

use super::{Operands, ROUND};
use crate::{Error, Tensor};

/// No number of any sequence.
const ELSE: u32 = u32::MAX;

/// Numbers of the sequences, each once.
struct Numbers {
    /// In their order.
    sorted: Vec<i64>,
    /// Where they lie close together, the place in `sorted` of each from the least one on.
    places: Vec<u32>,
}

impl Numbers {
    fn new<'a>(grams: impl Iterator<Item = &'a Vec<i64>>) -> Result<Self, Error> {
        let mut sorted = grams.flatten().copied().collect::<Vec<_>>();
        sorted.sort_unstable();
        sorted.dedup();
        let ends = sorted.first().zip(sorted.last());
        let span =
            ends.and_then(|(first, last)| usize::try_from(last.checked_sub(*first)?.checked_add(1)?).ok());
        let mut places = Vec::new();
        if let Some(span) = span.filter(|&span| span / 16 <= sorted.len() + 256) {
            places = memory::filled(span, ELSE)?;
            for (place, number) in sorted.iter().enumerate() {
                places[(number - sorted[0]) as usize] = place as u32;
            }
        }
        Ok(Self { sorted, places })
    }

    /// Which of the numbers it is.
    fn place(&self, number: i64) -> u32 {
        match self.sorted.first() {
            Some(&first) if !self.places.is_empty() => {
                let place = usize::try_from(number.wrapping_sub(first)).ok().filter(|_| number >= first);
                place.and_then(|place| self.places.get(place)).copied().unwrap_or(ELSE)
            }
            _ => self.sorted.binary_search(&number).map_or(ELSE, |place| place as u32),
        }
    }
}

/// A sequence that others begin with, or one that counts.
struct Node {
    /// What follows it: steps from here on, in the order of their numbers.
    steps: Range<usize>,
    /// The place in the result, where one ends.
    end: Option<usize>,
}

/// The sequences as a tree: a step by each number.
struct Tree {
    numbers: Numbers,
    nodes: Vec<Node>,
    /// A number, and the node behind it.
    steps: Vec<(u32, u32)>,
    /// The node behind each number that a sequence begins with, or [`ELSE`].
    first: Vec<u32>,
}

impl Tree {
    /// Of those sequences whose length counts; one that is there twice is an error.
    fn new(at: &Operands<'_>, op: &NGrams) -> Result<Self, Error> {
        let counts = |gram: &&(Vec<i64>, usize)| (op.lengths[0]..=op.lengths[1]).contains(&gram.0.len());
        let numbers = Numbers::new(op.grams.iter().filter(counts).map(|gram| &gram.0))?;
        let mut found: HashMap<(u32, u32), u32> = HashMap::new();
        let mut ends = vec![None];
        for (gram, place) in op.grams.iter().filter(counts) {
            let mut node = 0;
            for &number in gram {
                node = *found.entry((node, numbers.place(number))).or_insert_with(|| {
                    ends.push(None);
                    (ends.len() - 1) as u32
                });
            }
            if ends[node as usize].replace(*place).is_some() {
                return Err(at.wrong(format!("a sequence of {} numbers is there twice", gram.len())));
            }
        }
        let mut sorted: Vec<_> = found.into_iter().collect();
        sorted.sort_unstable();
        let mut nodes = Vec::with_capacity(ends.len());
        let mut from = 0;
        for (node, end) in ends.into_iter().enumerate() {
            let own = sorted[from..].iter().take_while(|((before, _), _)| *before as usize == node).count();
            nodes.push(Node { steps: from..from + own, end });
            from += own;
        }
        let steps: Vec<_> = sorted.into_iter().map(|((_, number), node)| (number, node)).collect();
        let mut first = vec![ELSE; numbers.sorted.len()];
        steps[nodes[0].steps.clone()].iter().for_each(|&(number, node)| first[number as usize] = node);
        Ok(Self { numbers, nodes, steps, first })
    }

    /// The node behind the first number.
    fn begin(&self, number: u32) -> Option<&Node> {
        self.nodes.get(*self.first.get(number as usize)? as usize)
    }

    /// The node behind one more number.
    fn step(&self, node: &Node, number: u32) -> Option<&Node> {
        let steps = &self.steps[node.steps.clone()];
        let place = steps.binary_search_by_key(&number, |step| step.0).ok()?;
        self.nodes.get(steps[place].1 as usize)
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
    let tree = Tree::new(at, op)?;
    let mut numbers = memory::with_room(x.bytes.len() / x.dtype.bytes())?;
    if x.dtype == DType::I32 {
        let words = x.bytes.as_chunks().0.iter();
        numbers.extend(words.map(|&word| tree.numbers.place(i32::from_le_bytes(word).into())));
    } else {
        numbers
            .extend(x.bytes.as_chunks().0.iter().map(|&word| tree.numbers.place(i64::from_le_bytes(word))));
    }
    let count = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    let count = count.ok_or_else(|| at.wrong(format!("{} results are too many", List(&shape))))?;
    let mut counts = memory::filled(count, 0_u32)?;
    // A sequence of one number has no elements between its own: it counts once.
    let distances = if op.lengths[1] > 1 { 1..=op.skips.saturating_add(1).min(length.max(1)) } else { 1..=1 };
    // The first look is at once.
    let mut steps = ROUND;
    for (row, counts) in numbers.chunks_exact(length.max(1)).zip(counts.chunks_exact_mut(width.max(1))) {
        for distance in distances.clone() {
            for start in 0..length {
                steps += 1;
                if steps > ROUND {
                    steps = 0;
                    work::go_on()?;
                }
                let Some(mut node) = tree.begin(row[start]).filter(|_| op.lengths[1] > 0) else { continue };
                if let Some(place) = node.end.filter(|_| distance == 1) {
                    counts[place] += 1;
                }
                for &number in row[start..].iter().step_by(distance).take(op.lengths[1]).skip(1) {
                    steps += 1;
                    let Some(next) = tree.step(node, number) else { break };
                    node = next;
                    if let Some(place) = node.end {
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
