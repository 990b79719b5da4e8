//! Matrix products.

use triune_tensor::{DType, QuantParams};

use super::kind;
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    functions::exact,
    ops::{Epilogue, Gemm, Inverse, MatMul, Op, Reshape, SingularValues},
};

/// A·B, each as given or transposed.
pub(in super::super) fn matrix_mul(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::MATRIX_MUL)?;
    let (trans_a, trans_b) = (params.bool(0, false)?, params.bool(1, false)?);
    if params.u32(3, 0)? != 0 {
        return Err(node.unsupported("a packed matrix format"));
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    if !node.dtype(a)?.is_float() {
        return integers(node, a, b, [trans_a, trans_b]);
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
    if !node.dtype(a)?.is_float() {
        return integers(node, a, b, transposed);
    }
    product(node, a, b, transposed)
}

/// Inverses of square matrices.
pub(in super::super) fn inverse(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let x = node.input(0)?;
    node.emit(Inverse, &[x])
}

/// The values of a singular value decomposition. Its vectors are left out: whoever reads them is told.
pub(in super::super) fn singular_values(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let x = node.input(0)?;
    node.emit(SingularValues, &[x])
}

/// A product of bytes in 32 bits: integers that mean the product of what the operands' mean, plain ones of plain ones.
fn integers(
    node: &mut NodeReader<'_, '_, '_>,
    a: ValueId,
    b: ValueId,
    transposed: [bool; 2],
) -> Result<ValueId, Error> {
    let quants = [node.quant(a), node.quant(b)];
    for (id, quant) in [a, b].into_iter().zip(quants) {
        if node.dtype(id)?.bytes() != 1 || quant.is_some() != quants[0].is_some() {
            return Err(node.unsupported(format!(
                "operands of types {} and {}",
                node.dtype(a)?,
                node.dtype(b)?
            )));
        }
    }
    let target = node.output_element()?;
    let dtype = target.map_or(DType::I32, |element| element.dtype);
    if !matches!(dtype, DType::I32 | DType::I16) {
        return Err(node.unsupported(format!("a product of bytes as {dtype}")));
    }
    let zero_points = quants.map(|quant| quant.map_or(0, |quant| quant.zero_point));
    let result = node.function(&[a, b], &[], move |f| {
        let mut operands = [f.input(0)?, f.input(1)?];
        for (operand, (zero_point, turned)) in
            operands.iter_mut().zip(zero_points.into_iter().zip(transposed))
        {
            let mut x = f.cast(*operand, DType::F32)?;
            if zero_point != 0 {
                x = f.add_number(x, -f64::from(zero_point))?;
            }
            let rank = f.rank(x);
            if turned && rank >= 2 {
                let mut perm: Vec<usize> = (0..rank).collect();
                perm.swap(rank - 2, rank - 1);
                x = f.transpose(x, &perm)?;
            }
            *operand = x;
        }
        let [a, b] = operands;
        let sums = exact::product(f, a, b)?;
        f.cast(sums, dtype)
    })?;
    if let [Some(a), Some(b)] = quants {
        let own = QuantParams { scale: a.scale * b.scale, zero_point: 0 };
        let quant = target.and_then(|element| element.quant).unwrap_or(own);
        node.builder.set_quant(result, Some(quant));
    }
    Ok(result)
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

/// The product of two vectors, as a vector of one element.
pub(in super::super) fn dot(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    if !node.dtype(a)?.is_float() {
        return Err(node.unsupported(format!("a product of vectors of {}", node.dtype(a)?)));
    }
    let row = node.ints("row", &[1, -1])?;
    let column = node.ints("column", &[-1, 1])?;
    let reshape = Op::Reshape(Reshape { allow_zero: false });
    let a = node.emit_like(reshape.clone(), &[a, row])?;
    let b = node.emit_like(reshape, &[b, column])?;
    let product = node.emit(MatMul::default(), &[a, b])?;
    node.reshaped(product, &[1])
}
