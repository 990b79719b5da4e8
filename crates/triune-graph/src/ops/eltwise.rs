//! Element by element over two operands.

use super::Epilogue;

/// The function of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryKind {
    /// a + b.
    Add,
    /// a − b.
    Sub,
    /// a · b.
    Mul,
    /// a / b.
    Div,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// aᵇ.
    Pow,
}

/// Two operands, broadcast as numpy does.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// The function.
    pub kind: BinaryKind,
    /// What happens to a result before it is stored.
    pub epilogue: Epilogue,
}
