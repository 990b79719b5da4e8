//! Operators that ONNX Runtime had before ONNX did, and has under their old names still.

use super::{Form, Meaning, NodeReader, Operator, Signature, grid, index, layout, movement, operators};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, ReduceKind, UnaryKind, Unique},
};

/// Squared distances of rows from rows, or their roots.
fn cdist(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let roots = node.choice("metric", "sqeuclidean", &[("euclidean", true), ("sqeuclidean", false)])?;
    Ok(node.function(move |f| distances(f, roots)).into())
}

fn distances(f: &mut Scope<'_, '_>, roots: bool) -> Result<ValueId, Error> {
    let (a, b) = (f.input(0)?, f.input(1)?);
    if f.rank(a) != 2 || f.rank(b) != 2 {
        return Err(f.wrong(format!("distances of {} from {}", f.shape(a), f.shape(b))));
    }
    let of_a = f.reduce(ReduceKind::SumSquare, a, &[1])?;
    let of_b = f.reduce(ReduceKind::SumSquare, b, &[1])?;
    let (of_b, b) = (f.transpose(of_b, &[1, 0])?, f.transpose(b, &[1, 0])?);
    let both = f.matmul(a, b)?;
    let both = f.mul_number(both, -2.0)?;
    let sum = f.add(of_a, of_b)?;
    let sum = f.add(sum, both)?;
    let zero = f.scalar_like(0.0, sum);
    let y = f.binary(BinaryKind::Max, sum, zero)?;
    if roots { f.unary(UnaryKind::Sqrt, y) } else { Ok(y) }
}

/// One axis more, before the one that the second operand names.
fn expand_dims(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (x, axis) = (f.input(0)?, f.int(1)?);
    let mut dims = f.shape(x).to_vec();
    let places = dims.len() as i64 + 1;
    if !(-places..places).contains(&axis) {
        return Err(f.wrong(format!("axis {axis} is not one of {places} dimensions")));
    }
    dims.insert(axis.rem_euclid(places) as usize, 1);
    f.reshape(x, &dims)
}

fn grid_sample(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    node.since = 16;
    grid::grid_sample(node)
}

/// Pads may stand in a row of their own.
fn pad(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    node.since = 19;
    let pads = node.constant(1).filter(|pads| pads.shape().rank() == 2).and_then(Constant::to_i64);
    if let Some(pads) = pads {
        let pads = node.new_ints("pads", &pads);
        node.set_input(1, pads);
    }
    movement::pad(node)
}

/// Elements in the order that they come first in, where each went, and how many there are.
#[expect(clippy::unnecessary_wraps, reason = "it is one of the readers")]
fn unique(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let result = |index: usize| node.outputs.get(index).copied().flatten();
    node.outputs = vec![result(0), None, result(1), result(2)];
    Ok(Unique { axis: None, sorted: false }.into())
}

operators! {
    "com.microsoft";
    "CDist": [1] {2, 2, 1 => cdist};
    "ExpandDims": [1] {2, 2, 1 => body expand_dims, deciding &[1]};
    "GatherND": [1] {2, 2, 1 => index::gather_nd};
    "GridSample": [1] {2, 2, 1 => grid_sample};
    "Pad": [1] {2, 3, 1 => pad};
    "Range": [1] {2, 3, 1 => layout::range};
    "Trilu": [1] {1, 2, 1 => layout::trilu};
    "Unique": [1] {1, 1, 3 => unique};
}
