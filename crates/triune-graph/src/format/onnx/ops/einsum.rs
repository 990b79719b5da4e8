//! Sums of products over named axes.

use super::{DEFAULT_DOMAIN, Form, MANY, Meaning, NodeReader, Operator, Signature, operators};
use crate::{Error, Op, ValueId, functions::Scope, ops::ReduceKind};

/// An axis: a letter, or one of those that an ellipsis stands for, counted from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Label {
    Rest(usize),
    Letter(char),
}

/// A value with a label for each of its axes.
#[derive(Clone)]
struct Term {
    value: ValueId,
    labels: Vec<Label>,
}

fn einsum(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let equation: String = node.text("equation", "")?.split_whitespace().collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left.to_owned(), Some(right.to_owned())),
        None => (equation.clone(), None),
    };
    let terms: Vec<String> = left.split(',').map(str::to_owned).collect();
    if terms.len() != node.inputs.len() {
        return Err(node.unsupported(format!("{} terms for {} inputs", terms.len(), node.inputs.len())));
    }
    let odd = |text: &str| text.replacen("...", "", 1).chars().any(|letter| !letter.is_ascii_alphabetic());
    if let Some(text) = terms.iter().chain(&right).find(|text| odd(text)) {
        return Err(node.unsupported(format!("attribute 'equation' has the term '{text}'")));
    }
    Ok(node
        .function(move |f| {
            let mut open = Vec::with_capacity(terms.len());
            for (index, text) in terms.iter().enumerate() {
                let value = f.input(index)?;
                let labels = labels(f, text, f.rank(value))?;
                open.push(diagonal(f, Term { value, labels })?);
            }
            let result = if let Some(text) = &right {
                let rest = open.iter().flat_map(|term| &term.labels).filter_map(|label| match label {
                    Label::Rest(index) => Some(index + 1),
                    Label::Letter(_) => None,
                });
                let letters = text.replacen("...", "", 1).len();
                let rest = if text.contains("...") { rest.max().unwrap_or(0) } else { 0 };
                labels(f, text, letters + rest)?
            } else {
                // All ellipsis axes, then the letters that stand once, in order.
                let mut all: Vec<Label> = terms
                    .iter()
                    .flat_map(|text| text.replacen("...", "", 1).chars().collect::<Vec<_>>())
                    .map(Label::Letter)
                    .collect();
                all.sort_unstable();
                let once = all.iter().filter(|label| all.iter().filter(|other| other == label).count() == 1);
                let mut rest: Vec<Label> = open
                    .iter()
                    .flat_map(|term| &term.labels)
                    .filter(|label| matches!(label, Label::Rest(_)))
                    .copied()
                    .collect();
                rest.sort_unstable();
                rest.dedup();
                rest.into_iter().rev().chain(once.copied()).collect()
            };
            let known = |label: &Label| open.iter().any(|term| term.labels.contains(label));
            let mut sorted = result.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != result.len() || !result.iter().all(known) {
                return Err(f.wrong("the result's axes are not distinct ones of the terms"));
            }
            let mut total = open.remove(0);
            while !open.is_empty() {
                let next = open.remove(0);
                let kept = |label: &Label| {
                    result.contains(label) || open.iter().any(|term| term.labels.contains(label))
                };
                total = product(f, &total, &next, kept)?;
            }
            let total = summed(f, total, |label| result.contains(label))?;
            arranged(f, &total, &result)
        })
        .into())
}

/// The axes that a term names, of a value of `rank` dimensions.
fn labels(f: &Scope<'_, '_>, text: &str, rank: usize) -> Result<Vec<Label>, Error> {
    let letters = text.replacen("...", "", 1).len();
    let wrong = || f.wrong(format!("the term '{text}' for {rank} dimensions"));
    let rest = rank.checked_sub(letters).ok_or_else(wrong)?;
    let (before, behind) = match text.split_once("...") {
        Some(parts) => parts,
        None if rest == 0 => (text, ""),
        None => return Err(wrong()),
    };
    let ellipsis = (0..rest).rev().map(Label::Rest);
    Ok(before.chars().map(Label::Letter).chain(ellipsis).chain(behind.chars().map(Label::Letter)).collect())
}

/// Of axes with the same label, only elements with the same index stay.
fn diagonal(f: &mut Scope<'_, '_>, mut term: Term) -> Result<Term, Error> {
    loop {
        let count = term.labels.len();
        let twice = (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
        let Some((first, second)) =
            twice.into_iter().find(|&(first, second)| term.labels[first] == term.labels[second])
        else {
            return Ok(term);
        };
        let shape = f.shape(term.value);
        if shape[first] != shape[second] {
            return Err(f.wrong(format!("a diagonal of {shape}")));
        }
        let extent = shape[first];
        let rest: Vec<usize> = (0..count).filter(|axis| *axis != first && *axis != second).collect();
        let perm = [rest.as_slice(), &[first, second]].concat();
        let value = f.transpose(term.value, &perm)?;
        let mut dims: Vec<usize> = rest.iter().map(|&axis| shape[axis]).collect();
        let last = dims.len();
        dims.push(extent * extent);
        let value = f.reshape(value, &dims)?;
        let value = f.slice_by(value, last, 0, i64::MAX, extent as i64 + 1)?;
        let label = term.labels[first];
        term = Term { value, labels: rest.iter().map(|&axis| term.labels[axis]).chain([label]).collect() };
    }
}

/// The value without the axes that nobody needs any more.
fn summed(f: &mut Scope<'_, '_>, term: Term, kept: impl Fn(&Label) -> bool) -> Result<Term, Error> {
    let gone: Vec<usize> = (0..term.labels.len()).filter(|&axis| !kept(&term.labels[axis])).collect();
    if gone.is_empty() {
        return Ok(term);
    }
    let shape = f.shape(term.value);
    let sum = f.reduce(ReduceKind::Sum, term.value, &gone)?;
    let stays = |axis: &usize| !gone.contains(axis);
    let dims: Vec<usize> = (0..shape.rank()).filter(stays).map(|axis| shape[axis]).collect();
    let labels = (0..shape.rank()).filter(stays).map(|axis| term.labels[axis]).collect();
    Ok(Term { value: f.reshape(sum, &dims)?, labels })
}

/// The value with exactly these axes in order; those that it has not are 1.
fn arranged(f: &mut Scope<'_, '_>, term: &Term, labels: &[Label]) -> Result<ValueId, Error> {
    let shape = f.shape(term.value);
    let places: Vec<Option<usize>> =
        labels.iter().map(|label| term.labels.iter().position(|own| own == label)).collect();
    let perm: Vec<usize> = places.iter().flatten().copied().collect();
    let value = if perm.is_sorted() { term.value } else { f.transpose(term.value, &perm)? };
    let dims: Vec<usize> = places.iter().map(|place| place.map_or(1, |axis| shape[axis])).collect();
    f.reshape(value, &dims)
}

/// The product of two values, summed over the axes that are not `kept`.
fn product(f: &mut Scope<'_, '_>, a: &Term, b: &Term, kept: impl Fn(&Label) -> bool) -> Result<Term, Error> {
    // What one alone has and nobody needs goes first.
    let a = summed(f, a.clone(), |label| kept(label) || b.labels.contains(label))?;
    let b = summed(f, b.clone(), |label| kept(label) || a.labels.contains(label))?;
    let extent = |f: &Scope<'_, '_>, term: &Term, label: &Label| {
        term.labels.iter().position(|own| own == label).map(|axis| f.shape(term.value)[axis])
    };
    let mut batch = Vec::new();
    let mut inner = Vec::new();
    for &label in a.labels.iter().filter(|label| b.labels.contains(label)) {
        let (own, other) = (extent(f, &a, &label), extent(f, &b, &label));
        // An extent of 1 is spread, which no matrix product does within a row.
        if kept(&label) || own != other {
            batch.push(label);
        } else {
            inner.push(label);
        }
    }
    let left: Vec<Label> = a.labels.iter().filter(|label| !b.labels.contains(label)).copied().collect();
    let right: Vec<Label> = b.labels.iter().filter(|label| !a.labels.contains(label)).copied().collect();
    let dims = |f: &Scope<'_, '_>, term: &Term, labels: &[Label]| -> Vec<usize> {
        labels.iter().map(|label| extent(f, term, label).unwrap_or(1)).collect()
    };
    let (a_batch, b_batch) = (dims(f, &a, &batch), dims(f, &b, &batch));
    let (rows, depth, columns) = (dims(f, &a, &left), dims(f, &a, &inner), dims(f, &b, &right));
    let area = |dims: &[usize]| dims.iter().product::<usize>();
    let a_value = arranged(f, &a, &[batch.as_slice(), &left, &inner].concat())?;
    let b_value = arranged(f, &b, &[batch.as_slice(), &inner, &right].concat())?;
    let a_value = f.reshape(a_value, &[a_batch.as_slice(), &[area(&rows), area(&depth)]].concat())?;
    let b_value = f.reshape(b_value, &[b_batch.as_slice(), &[area(&depth), area(&columns)]].concat())?;
    let value = f.matmul(a_value, b_value)?;
    let spread: Vec<usize> =
        a_batch.iter().zip(&b_batch).map(|(a, b)| if *a == 1 { *b } else { *a }).collect();
    let value = f.reshape(value, &[spread.as_slice(), &rows, &columns].concat())?;
    let labels = [batch.as_slice(), &left, &right].concat();
    summed(f, Term { value, labels }, kept)
}

operators! {
    DEFAULT_DOMAIN;
    "Einsum": [12, 28] {1, MANY, 1 => einsum};
}
