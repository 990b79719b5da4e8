//! Matrix products.

use triune_tensor::DType;

use super::{
    Epilogue,
    conv::check_types,
    infer::{Operands, TensorType, broadcast},
};
use crate::Error;

/// y = α·A·B + β·C, matrices of rank 2; inputs A, B, optional C.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the addend.
    pub beta: f32,
    /// Whether A is given as (K, M).
    pub trans_a: bool,
    /// Whether B is given as (N, K).
    pub trans_b: bool,
    /// What happens to a result before it is stored.
    pub epilogue: Epilogue,
}

/// Batched product as numpy's `matmul`; inputs A, B.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatMul {
    /// What happens to a result before it is stored.
    pub epilogue: Epilogue,
}

/// Σ (a − a₀)·(b − b₀) of bytes in 32 bits that wrap around, batched as [`MatMul`] over matrices; inputs A, B, optional zero points of
/// A (one, or one per row), optional ones of B (one, or one per column), and optional factors (one, or one per column), with
/// which the result is f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerMatMul;

/// x·W of f32 with W in blocks of integers, each with a factor and a zero point; inputs x and W: u8, a row of bytes per column, its blocks one after
/// the other: the integers, the first in the low bits of a byte; then factor and zero point, little-endian f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMatMul {
    /// Length of the inner products.
    pub depth: usize,
    /// Bits of an integer, 4 or 8.
    pub bits: usize,
    /// Integers of a block: a power of two from 16 on.
    pub block: usize,
    /// Whether elements of x become integers of 8 bits, too, with a factor for each block of a row.
    pub integers: bool,
}

impl BlockMatMul {
    /// Bytes of a column of W; saturates.
    pub const fn column_bytes(&self) -> usize {
        let block = (self.block / 8).saturating_mul(self.bits).saturating_add(8);
        self.depth.div_ceil(self.block).saturating_mul(block)
    }

    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, matrix) = (at.input(0)?, at.of_rank(1, 2)?);
        if self.block < 16 || !self.block.is_power_of_two() || !matches!(self.bits, 4 | 8) {
            return Err(
                at.wrong(format!("there are no blocks of {} integers of {} bits", self.block, self.bits))
            );
        }
        let ([batch @ .., depth], [columns, bytes]) = (&*x.shape, &*matrix.shape) else {
            return Err(at.wrong("scalars have no matrix product"));
        };
        let fits = *depth == self.depth && *bytes == self.column_bytes();
        if x.dtype != DType::F32 || matrix.dtype != DType::U8 || !fits {
            return Err(at.wrong(format!(
                "{} {} · {} {}, float32 rows of {} and columns of {} bytes are expected",
                x.dtype,
                x.shape,
                matrix.dtype,
                matrix.shape,
                self.depth,
                self.column_bytes()
            )));
        }
        let dims = [batch, &[*columns]].concat();
        Ok(vec![TensorType { dtype: DType::F32, shape: at.shape(&dims)? }])
    }
}

impl IntegerMatMul {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (a, b) = (at.input(0)?, at.input(1)?);
        let bytes = |dtype| matches!(dtype, DType::I8 | DType::U8);
        let ([own @ .., rows, depth], [other @ .., inner, columns]) = (&*a.shape, &*b.shape) else {
            return Err(at.wrong(format!("{} · {} is no product of matrices", a.shape, b.shape)));
        };
        if !bytes(a.dtype) || !bytes(b.dtype) || depth != inner {
            return Err(at.wrong(format!("{} {} · {} {}", a.dtype, a.shape, b.dtype, b.shape)));
        }
        let given = [(2, a.dtype, *rows), (3, b.dtype, *columns), (4, DType::F32, *columns)];
        for (index, dtype, extent) in given {
            let Some(each) = at.get(index) else { continue };
            let count = each.shape.elements();
            if each.dtype != dtype || count != Some(1) && count != Some(extent) {
                return Err(at.wrong(format!(
                    "input {index} is {} {}, 1 or {extent} of {dtype} are expected",
                    each.dtype, each.shape
                )));
            }
        }
        let mut dims = at.broadcast(own, other)?.to_vec();
        dims.extend([*rows, *columns]);
        let dtype = if at.get(4).is_some() { DType::F32 } else { DType::I32 };
        Ok(vec![TensorType { dtype, shape: at.shape(&dims)? }])
    }
}

impl Gemm {
    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (a, b) = (at.of_rank(0, 2)?, at.of_rank(1, 2)?);
        let (rows, depth) = if self.trans_a { (a.shape[1], a.shape[0]) } else { (a.shape[0], a.shape[1]) };
        let (other, columns) = if self.trans_b { (b.shape[1], b.shape[0]) } else { (b.shape[0], b.shape[1]) };
        if depth != other {
            return Err(at.wrong(format!("{} · {}: inner extents {depth} and {other}", a.shape, b.shape)));
        }
        check_types(at, a.dtype, b.dtype)?;
        let shape = at.shape(&[rows, columns])?;
        if let Some(c) = at.get(2)
            && broadcast(&c.shape, &shape).as_deref() != Some(&*shape)
        {
            return Err(at.wrong(format!("addend {} cannot be broadcast to {shape}", c.shape)));
        }
        self.epilogue.check(at, shape)?;
        at.like_input(shape)
    }
}

impl MatMul {
    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (a, b) = (at.input(0)?, at.input(1)?);
        // Integers that stand for themselves are multiplied, too.
        let whole =
            a.dtype == b.dtype && matches!(a.dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64);
        if !whole {
            check_types(at, a.dtype, b.dtype)?;
        }
        if a.shape.rank() == 0 || b.shape.rank() == 0 {
            return Err(at.wrong("scalars have no matrix product"));
        }
        // A vector is a row on the left and a column on the right; the made-up extent goes again.
        let left = if a.shape.rank() == 1 { [&[1], &*a.shape].concat() } else { a.shape.to_vec() };
        let right = if b.shape.rank() == 1 { [&*b.shape, &[1]].concat() } else { b.shape.to_vec() };
        let (left_batch, left) = left.split_at(left.len() - 2);
        let (right_batch, right) = right.split_at(right.len() - 2);
        if left[1] != right[0] {
            return Err(
                at.wrong(format!("{} · {}: inner extents {} and {}", a.shape, b.shape, left[1], right[0]))
            );
        }
        let mut dims = at.broadcast(left_batch, right_batch)?.to_vec();
        dims.extend((a.shape.rank() > 1).then_some(left[0]));
        dims.extend((b.shape.rank() > 1).then_some(right[1]));
        let shape = at.shape(&dims)?;
        self.epilogue.check(at, shape)?;
        at.like_input(shape)
    }
}
