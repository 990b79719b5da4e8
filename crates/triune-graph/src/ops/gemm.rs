//! Matrix products.

use super::Epilogue;

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
