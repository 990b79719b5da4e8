//! Matrix products.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, no_epilogue,
    operators,
};
use crate::{
    Error, Op, ValueId,
    functions::Scope,
    ops::{Epilogue, Gemm, MatMul},
};

pub(super) fn gemm(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 7 {
        // Whether C has to be spread; where it has the product's shape, that comes to the same.
        node.ignore(&["broadcast"]);
    }
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    let (trans_a, trans_b) = (node.flag("transA")?, node.flag("transB")?);
    if [0, 1].iter().any(|&index| node.dtype_of(index) == Some(DType::F64)) {
        return Ok(node.function(move |f| gemm_parts(f, [trans_a, trans_b], [alpha, beta])).into());
    }
    Ok(Op::Gemm(Gemm { alpha, beta, trans_a, trans_b, epilogue: Epilogue::default() }))
}

/// α·A·B + β·C in the type of A; programs have the operator in f32.
fn gemm_parts(
    f: &mut Scope<'_, '_>,
    transposed: [bool; 2],
    [alpha, beta]: [f32; 2],
) -> Result<ValueId, Error> {
    let mut operands = [f.input(0)?, f.input(1)?];
    for (operand, transposed) in operands.iter_mut().zip(transposed) {
        let shape = f.shape(*operand);
        if shape.rank() != 2 {
            return Err(f.wrong(format!("an operand of shape {shape}; a matrix is expected")));
        }
        if transposed {
            *operand = f.transpose(*operand, &[1, 0])?;
        }
    }
    let mut y = f.matmul(operands[0], operands[1])?;
    if alpha != 1.0 {
        y = f.mul_number(y, f64::from(alpha))?;
    }
    let Some(mut addend) = f.get(2) else { return Ok(y) };
    if beta != 1.0 {
        addend = f.mul_number(addend, f64::from(beta))?;
    }
    let shape = f.shape(y);
    // Its extents may be those of the product, or 1.
    let addend = f.expand(addend, &shape)?;
    f.add(y, addend)
}

fn write_gemm(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Gemm(op) = op else { return Err(mistaken(op)) };
    no_epilogue(&op.epilogue)?;
    writer.float("alpha", op.alpha);
    writer.float("beta", op.beta);
    writer.int("transA", i64::from(op.trans_a));
    writer.int("transB", i64::from(op.trans_b));
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of the readers")]
fn matmul(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // Most are of f32, and known to be; what is not is seen when types are known.
    if [0, 1].iter().any(|&index| node.dtype_of(index) == Some(DType::F32)) {
        return Ok(Op::MatMul(MatMul::default()));
    }
    Ok(node.function(|f| f.matmul(f.input(0)?, f.input(1)?)).into())
}

fn write_matmul(op: &Op, _: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::MatMul(op) = op else { return Err(mistaken(op)) };
    no_epilogue(&op.epilogue)
}

operators! {
    DEFAULT_DOMAIN;
    "Gemm": [1, 6, 7, 9] {3, 3, 1 => gemm} [11, 13] {2, 3, 1 => gemm} write write_gemm;
    "MatMul": [1, 9, 13] {2, 2, 1 => matmul} write write_matmul;
}
