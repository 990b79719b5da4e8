//! Functions of two operands, and a choice between them.

use triune_tensor::{DType, Shape};

use super::super::{View, node::Reader};
use crate::{
    Constant, Error, Op, ValueId,
    ops::{BinaryKind, UnaryKind, Where},
};

impl Reader<'_, '_> {
    /// The reals of value `index` with the axes of the open view of value `to`, extents of 1 where it has none.
    ///
    /// Axes are found by name where names tell, else from the last one on.
    pub(in super::super) fn aligned(&mut self, index: usize, to: usize) -> Result<ValueId, Error> {
        let (from, target) = (self.typed(index)?.form, self.typed(to)?.form);
        if let Some(perm) = from.towards(&target) {
            let perm = self.open_perm(index, to, &perm)?;
            let open = self.in_floats(index, View::Open)?;
            return self.transpose(open, &perm);
        }
        let missing = target.flat.len().checked_sub(from.flat.len()).ok_or_else(|| {
            self.wrong(format!(
                "an operand of {} axes and a result of {}",
                from.flat.len(),
                target.flat.len()
            ))
        })?;
        let named: Option<Vec<usize>> =
            from.flat.iter().map(|axis| target.named(axis.name).filter(|_| axis.name != '*')).collect();
        let places = named
            .filter(|places| (1..places.len()).all(|next| !places[..next].contains(&places[next])))
            .unwrap_or_else(|| (missing..target.flat.len()).collect());
        // First in the order in which the axes come, then with the others between them.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&axis| target.open_axis(places[axis]));
        let flat = self.in_floats(index, View::Flat)?;
        let moved = self.transpose(flat, &order)?;
        let mut extents = vec![Some(1); target.flat.len()];
        for (axis, place) in places.iter().enumerate() {
            extents[target.open_axis(*place)] = from.flat[axis].extent();
        }
        self.reshape(moved, &extents)
    }

    /// Both operands with the result's axes.
    fn both(&mut self) -> Result<[ValueId; 2], Error> {
        let y = self.result(0)?;
        let (a, b) = (self.operand(0)?, self.operand(1)?);
        Ok([self.aligned(a, y)?, self.aligned(b, y)?])
    }

    /// Two operands of one type: reals when one of them is.
    fn one_type(&mut self, a: ValueId, b: ValueId) -> Result<(ValueId, ValueId), Error> {
        match (self.dtype(a), self.dtype(b)) {
            (Some(own), Some(other)) if own != other => {
                let to = if own.is_float() && !other.is_float() {
                    own
                } else if other.is_float() && !own.is_float() {
                    other
                } else if own.bytes() >= other.bytes() {
                    own
                } else {
                    other
                };
                Ok((self.cast(a, to)?, self.cast(b, to)?))
            }
            _ => Ok((a, b)),
        }
    }

    /// A value times a list of factors: one, or one per channel.
    fn scaled(&mut self, x: ValueId, factors: &[f32]) -> Result<ValueId, Error> {
        match factors {
            [] | [1.0] => Ok(x),
            &[factor] => {
                let x = self.cast(x, DType::F32)?;
                let factor = self.scalar(factor);
                self.binary(BinaryKind::Mul, x, factor)
            }
            factors if factors.iter().all(|&factor| factor == 1.0) => Ok(x),
            factors => {
                let y = self.result(0)?;
                let form = self.typed(y)?.form;
                let axis = form.named('C').filter(|&axis| form.flat[axis].extent() == Some(factors.len()));
                let axis =
                    axis.ok_or_else(|| self.unsupported(format!("{} factors of an operand", factors.len())))?;
                let mut shape = vec![1; form.flat.len()];
                shape[form.open_axis(axis)] = factors.len();
                let constant = Shape::new(&shape).and_then(|shape| Constant::from_f32(shape, factors));
                let constant = constant.ok_or_else(|| self.unsupported("too many axes"))?;
                let factors = self.constant("factors", constant);
                let x = self.cast(x, DType::F32)?;
                self.binary(BinaryKind::Mul, x, factors)
            }
        }
    }
}

/// A function of both operands.
pub(super) fn of_both(node: &mut Reader<'_, '_>, kind: BinaryKind) -> Result<(), Error> {
    let [a, b] = node.both()?;
    let (a, b) = node.one_type(a, b)?;
    let result = node.binary(kind, a, b)?;
    node.define(node.result(0)?, View::Open, result)
}

/// alpha·a + beta·b.
pub(in super::super) fn add(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (alpha, beta) = (node.floats("alpha")?, node.floats("beta")?);
    let all = |list: &[f32], wanted: f32| list.iter().all(|&factor| factor == wanted);
    let [a, b] = node.both()?;
    let (result, a, b) = if all(&alpha, 1.0) && all(&beta, -1.0) && !beta.is_empty() {
        (BinaryKind::Sub, a, b)
    } else {
        let a = node.scaled(a, &alpha)?;
        (BinaryKind::Add, a, node.scaled(b, &beta)?)
    };
    let (a, b) = node.one_type(a, b)?;
    let sum = node.binary(result, a, b)?;
    node.define(node.result(0)?, View::Open, sum)
}

/// a·b.
pub(in super::super) fn multiply(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    node.no_cut()?;
    of_both(node, BinaryKind::Mul)
}

/// The larger or the smaller.
pub(in super::super) fn extreme(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let kind = if node.kind() == "Maximum" { BinaryKind::Max } else { BinaryKind::Min };
    of_both(node, kind)
}

/// How a quotient is rounded.
#[derive(Clone, Copy)]
enum Rounding {
    None,
    Towards0,
    Down,
}

fn rounding(node: &Reader<'_, '_>) -> Result<Rounding, Error> {
    let names = [("NONE", Rounding::None), ("TRUNC", Rounding::Towards0), ("FLOOR", Rounding::Down)];
    node.choice("rounding_mode", Rounding::None, &names)
}

fn quotient(node: &mut Reader<'_, '_>, a: ValueId, b: ValueId, rounding: Rounding) -> Result<ValueId, Error> {
    let quotient = node.binary(BinaryKind::Div, a, b)?;
    match rounding {
        Rounding::None => Ok(quotient),
        Rounding::Down if node.dtype(a).is_some_and(|dtype| !dtype.is_float()) => {
            node.binary(BinaryKind::FloorDiv, a, b)
        }
        Rounding::Down => node.unary(UnaryKind::Floor, quotient),
        Rounding::Towards0 if node.dtype(a).is_some_and(|dtype| !dtype.is_float()) => Ok(quotient),
        Rounding::Towards0 => {
            let sign = node.unary(UnaryKind::Sign, quotient)?;
            let size = node.unary(UnaryKind::Abs, quotient)?;
            let size = node.unary(UnaryKind::Floor, size)?;
            node.binary(BinaryKind::Mul, sign, size)
        }
    }
}

/// a / b, rounded as the attribute says.
pub(in super::super) fn divide(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let rounding = rounding(node)?;
    let [a, b] = node.both()?;
    let (a, b) = node.one_type(a, b)?;
    let result = quotient(node, a, b, rounding)?;
    node.define(node.result(0)?, View::Open, result)
}

/// x / divisor, rounded as the attribute says.
pub(in super::super) fn divide_scalar(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let rounding = rounding(node)?;
    let divisor = node.float("divisor", 1.0)?;
    let open = node.in_floats(x, View::Open)?;
    let open = node.cast(open, DType::F32)?;
    let divisor = node.scalar(divisor);
    let result = quotient(node, open, divisor, rounding)?;
    node.define_like(y, x, result)
}

/// A question about two numbers.
pub(in super::super) fn compare(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let kind = match node.kind() {
        "Equal" => BinaryKind::Equal,
        "NotEqual" => BinaryKind::NotEqual,
        "Greater" => BinaryKind::Greater,
        "GreaterEqual" => BinaryKind::GreaterOrEqual,
        "Less" => BinaryKind::Less,
        _ => BinaryKind::LessOrEqual,
    };
    let [a, b] = node.both()?;
    let (a, b) = node.one_type(a, b)?;
    let result = node.binary(kind, a, b)?;
    let y = node.result(0)?;
    let declared = node.typed(y)?.dtype;
    let result = node.cast(result, declared)?;
    node.define(y, View::Open, result)
}

/// The first operand where the third holds, else the second.
pub(in super::super) fn choose(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let [a, b] = node.both()?;
    let (a, b) = node.one_type(a, b)?;
    let condition = node.operand(2)?;
    let condition = node.aligned(condition, y)?;
    let condition = node.cast(condition, DType::Bool)?;
    let result = node.emit(Op::Where(Where), &[condition, a, b])?;
    node.define(y, View::Open, result)
}
