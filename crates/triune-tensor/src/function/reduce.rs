//! What many elements become one by.

use super::coded;

coded! {
    /// What a reduction makes of its elements.
    ReduceKind, "What a reduction makes of its elements." {
        /// Σ x; integers wrap around in their type.
        Sum = 0, "Σ x.";
        /// Σ x²; integers wrap around in their type.
        SumSquare = 1, "Σ x².";
        /// Π x; integers wrap around in their type.
        Product = 2, "Π x.";
        /// The smallest; NaN when any is.
        Min = 3, "The smallest; NaN when any is.";
        /// The largest; NaN when any is.
        Max = 4, "The largest; NaN when any is.";
        /// Σ x / n; integers towards 0.
        Mean = 5, "Σ x / n; integers towards 0.";
    }
}

impl ReduceKind {
    /// The operator's name in ONNX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "ReduceSum",
            Self::SumSquare => "ReduceSumSquare",
            Self::Product => "ReduceProd",
            Self::Min => "ReduceMin",
            Self::Max => "ReduceMax",
            Self::Mean => "ReduceMean",
        }
    }
}
