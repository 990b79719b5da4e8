//! Matrix products.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, no_epilogue,
    operators,
};
use crate::{
    Error, Op,
    ops::{Epilogue, Gemm, MatMul},
};

fn gemm(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 7 {
        // Whether C has to be spread; where it has the product's shape, that comes to the same.
        node.ignore(&["broadcast"]);
    }
    Ok(Op::Gemm(Gemm {
        alpha: node.float("alpha", 1.0)?,
        beta: node.float("beta", 1.0)?,
        trans_a: node.flag("transA")?,
        trans_b: node.flag("transB")?,
        epilogue: Epilogue::default(),
    }))
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
