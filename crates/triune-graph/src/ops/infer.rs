//! What a shape rule sees: the operands' types, extents and, where known, elements.

use triune_tensor::{DType, MAX_RANK, Shape, text::List};

use crate::{Constant, Error};

/// Element type and extents of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorType {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// One operand of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) constant: Option<&'a Constant>,
}

/// A node's operands, and who the node is, for messages.
#[derive(Debug)]
pub(crate) struct Operands<'a> {
    pub(crate) node: &'a str,
    pub(crate) op: &'a str,
    pub(crate) inputs: &'a [Option<Operand<'a>>],
    /// The result's element type, if the operator computes on integers that stand for reals.
    pub(crate) quantized: Option<DType>,
}

impl<'a> Operands<'a> {
    /// The error that the operands do not fit.
    pub(crate) fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::Shape { node: self.node.into(), op: self.op.into(), reason: reason.into() }
    }

    /// Refuses operands of types that nothing is computed on.
    pub(crate) fn expect_numbers(&self) -> Result<(), Error> {
        let stored = |operand: &&Operand<'_>| operand.dtype.is_storage();
        match self.inputs.iter().flatten().find(stored) {
            None => Ok(()),
            Some(operand) => Err(self.wrong(format!(
                "an operand of {}, which is moved and converted but not computed on; cast it first",
                operand.dtype
            ))),
        }
    }

    /// Operand `index`, when it is there.
    pub(crate) fn get(&self, index: usize) -> Option<&'a Operand<'a>> {
        self.inputs.get(index)?.as_ref()
    }

    /// Operand `index`.
    pub(crate) fn input(&self, index: usize) -> Result<&'a Operand<'a>, Error> {
        self.get(index).ok_or_else(|| self.wrong(format!("input {index} is missing")))
    }

    /// Operand `index`, which has to have `rank` dimensions.
    pub(crate) fn of_rank(&self, index: usize, rank: usize) -> Result<&'a Operand<'a>, Error> {
        let operand = self.input(index)?;
        if operand.shape.rank() != rank {
            return Err(self.wrong(format!(
                "input {index} has shape {}, but {rank} dimensions are expected",
                operand.shape
            )));
        }
        Ok(operand)
    }

    /// The integers of operand `index`, when it is there; an error when they are not known before the network runs.
    pub(crate) fn ints(&self, index: usize) -> Result<Option<Vec<i64>>, Error> {
        let Some(operand) = self.get(index) else { return Ok(None) };
        let constant = operand.constant.ok_or_else(|| {
            self.wrong(format!("input {index} decides about shapes, but depends on the network's data"))
        })?;
        constant
            .to_i64()
            .map(Some)
            .ok_or_else(|| self.wrong(format!("input {index} has type {}, not an integer's", operand.dtype)))
    }

    /// The integers of operand `index`.
    pub(crate) fn needed_ints(&self, index: usize) -> Result<Vec<i64>, Error> {
        self.ints(index)?.ok_or_else(|| self.wrong(format!("input {index} is missing")))
    }

    /// Rows and columns from operand `index`: two integers.
    pub(crate) fn size(&self, index: usize) -> Result<[usize; 2], Error> {
        let ints = self.needed_ints(index)?;
        match ints[..] {
            [rows, columns] => usize::try_from(rows).ok().zip(usize::try_from(columns).ok()),
            _ => None,
        }
        .map(|(rows, columns)| [rows, columns])
        .ok_or_else(|| self.wrong(format!("size {}; rows and columns are expected", List(&ints))))
    }

    /// An axis of a tensor of `rank` dimensions, counted from the front.
    pub(crate) fn axis(&self, axis: isize, rank: usize) -> Result<usize, Error> {
        resolve_axis(axis as i64, rank)
            .ok_or_else(|| self.wrong(format!("axis {axis} is not one of {rank} dimensions")))
    }

    /// Refuses indices in operand `index` that are known and lead out of an axis of `extent` elements; negative ones count
    /// from the back.
    pub(crate) fn expect_indices_within(
        &self,
        index: usize,
        axis: usize,
        extent: usize,
    ) -> Result<(), Error> {
        let known = self.input(index)?.constant.and_then(Constant::to_i64).unwrap_or_default();
        let inside = |&at: &i64| resolve_axis(at, extent).is_some();
        match known.into_iter().find(|at| !inside(at)) {
            None => Ok(()),
            Some(at) => {
                Err(self.wrong(format!("indices: index {at} is outside of axis {axis} of extent {extent}")))
            }
        }
    }

    /// The element type of a result that is `dtype` unless the node says otherwise.
    pub(crate) fn result_dtype(&self, dtype: DType) -> DType {
        self.quantized.unwrap_or(dtype)
    }

    /// The only result, of operand 0's type and of `shape`.
    pub(crate) fn like_input(&self, shape: Shape) -> Result<Vec<TensorType>, Error> {
        let dtype = self.result_dtype(self.input(0)?.dtype);
        Ok(vec![TensorType { dtype, shape }])
    }

    /// A shape of `dims`, whose elements have to be countable.
    pub(crate) fn shape(&self, dims: &[usize]) -> Result<Shape, Error> {
        Shape::new(dims).filter(is_countable).ok_or_else(|| {
            let dims_of = List(dims);
            self.wrong(if dims.len() > MAX_RANK {
                format!("the result {dims_of} has {} dimensions; tensors have {MAX_RANK} at most", dims.len())
            } else {
                format!("the result's shape {dims_of} is too large")
            })
        })
    }

    /// The extent that both operands have along a broadcast axis, as numpy does it.
    pub(crate) fn broadcast(&self, a: &[usize], b: &[usize]) -> Result<Shape, Error> {
        broadcast(a, b)
            .ok_or_else(|| self.wrong(format!("shapes {} and {} cannot be broadcast", List(a), List(b))))
            .and_then(|dims| self.shape(&dims))
    }
}

/// Whether any part of such a tensor's extents can be multiplied and addressed, also beside an extent of 0.
pub(crate) fn is_countable(shape: &Shape) -> bool {
    let product = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent.max(1)));
    product.is_some_and(|product| product <= isize::MAX as usize / 8)
}

/// An axis counted from the front.
pub(crate) fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// The shape that two operands are broadcast to.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |dims: &[usize], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(axis) => dims[axis],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (1, extent) | (extent, 1) => Some(extent),
            (left, right) => (left == right).then_some(left),
        })
        .collect()
}
