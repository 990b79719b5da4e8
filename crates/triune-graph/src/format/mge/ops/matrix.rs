//! Matrix products.

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{Epilogue, Gemm, MatMul},
};

/// A·B, each as given or transposed.
pub(in super::super) fn matrix_mul(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::MATRIX_MUL)?;
    let (trans_a, trans_b) = (params.bool(0, false)?, params.bool(1, false)?);
    if params.u32(3, 0)? != 0 {
        return Err(node.unsupported("a packed matrix format"));
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    if node.quant(a).is_some() || node.quant(b).is_some() {
        return Err(node.unsupported("a product of quantized matrices"));
    }
    if node.rank(a)? == 2 && node.rank(b)? == 2 {
        let gemm = Gemm { alpha: 1.0, beta: 1.0, trans_a, trans_b, epilogue: Epilogue::default() };
        return node.emit(gemm, &[a, b]);
    }
    product(node, a, b, [trans_a, trans_b])
}

/// A·B for every index of the leading axes.
pub(in super::super) fn batched_matrix_mul(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::MATRIX_MUL)?;
    let transposed = [params.bool(0, false)?, params.bool(1, false)?];
    if params.u32(3, 0)? != 0 {
        return Err(node.unsupported("a packed matrix format"));
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    if node.quant(a).is_some() || node.quant(b).is_some() {
        return Err(node.unsupported("a product of quantized matrices"));
    }
    product(node, a, b, transposed)
}

/// A product over the last two axes.
fn product(
    node: &mut NodeReader<'_, '_, '_>,
    a: ValueId,
    b: ValueId,
    transposed: [bool; 2],
) -> Result<ValueId, Error> {
    let mut operands = [a, b];
    for (operand, transposed) in operands.iter_mut().zip(transposed) {
        let rank = node.rank(*operand)?;
        if transposed && rank >= 2 {
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.swap(rank - 2, rank - 1);
            *operand = node.transposed(*operand, &perm)?;
        }
    }
    node.emit(MatMul::default(), &operands)
}
