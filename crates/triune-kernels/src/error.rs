//! What a kernel refuses to run on.

/// A kernel was given operands that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An operand's slice is shorter than the view that it is read or written through.
    #[error("{operand} holds {got} elements, its view needs {need}")]
    Short {
        /// Which operand.
        operand: &'static str,
        /// Elements that the view spans.
        need: usize,
        /// Elements that the slice holds.
        got: usize,
    },
    /// Two extents that must agree do not.
    #[error("{what}: expected {expected}, got {got}")]
    Mismatch {
        /// What was compared.
        what: &'static str,
        /// The extent that the other operands call for.
        expected: usize,
        /// The extent found.
        got: usize,
    },
    /// An index among the operands' elements leads out of what it indexes.
    #[error("{operand}: index {index} is outside of axis {axis} of extent {extent}")]
    Index {
        /// Which operand holds it.
        operand: &'static str,
        /// The index.
        index: i64,
        /// Which of the indexed axes it is along, from 0.
        axis: usize,
        /// The axis' extent.
        extent: usize,
    },
    /// A number among the operands' elements is outside of what the operation is defined for.
    #[error("{operand}: {value} is not within 0 and {most}")]
    Range {
        /// Which operand holds it.
        operand: &'static str,
        /// The number.
        value: i64,
        /// The largest that is possible.
        most: usize,
    },
    /// A parameter is outside of what the kernel is defined for.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Error {
    /// Checks that `operand`, of `got` elements, covers the `need` elements of its view.
    pub(crate) fn check_len(operand: &'static str, got: usize, need: usize) -> Result<(), Self> {
        if got < need { Err(Self::Short { operand, need, got }) } else { Ok(()) }
    }

    /// Checks that two extents agree.
    pub(crate) fn check_eq(what: &'static str, expected: usize, got: usize) -> Result<(), Self> {
        if expected == got { Ok(()) } else { Err(Self::Mismatch { what, expected, got }) }
    }
}
