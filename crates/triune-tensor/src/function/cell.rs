//! What recurrent cells make of a step's input and the state that the step before left.

use super::coded;

coded! {
    /// A recurrent cell. With x a gate's product of the step's input and weights, biases included, R its recurrent weights, h
    /// the state before the step, f, g and j the first, the second and the third function:
    CellKind, "What a recurrent cell makes of its gates (h is the state, x a gate's input, R its recurrent weights; f, g, j the functions)." {
        /// h' = f(x + h·R).
        Simple = 0, "h' = f(x + h·R).";
        /// Gates z, r, n: h' = (1 − z)·n + z·h with z and r by f, n = g(xₙ + (r·h)·Rₙ).
        Gru = 1, "Gates z, r, n: z = f(x + h·R), r likewise; n = g(x + (r·h)·R); h' = (1 − z)·n + z·h.";
        /// As `Gru` with n = g(xₙ + r·(h·Rₙ + bₙ)): the bias is a vector of the cell.
        LinearGru = 2, "As Gru with n = g(x + r·(h·R + b)); b is the cell's vector.";
        /// Gates i, o, f, c: c' = f·c + i·g(x + h·R), h' = o·j(c'); i, o and f by the first function, of sums to which the
        /// vectors add p·c (for o: p·c').
        Lstm = 3, "Gates i, o, f, c: c' = f·c + i·g(x + h·R), h' = o·j(c'); i, o, f = f(x + h·R + p·c), for o p·c'; the vectors are p.";
    }
}

impl CellKind {
    /// Gates, each with weights of its own.
    #[inline]
    pub const fn gates(self) -> usize {
        match self {
            Self::Simple => 1,
            Self::Gru | Self::LinearGru => 3,
            Self::Lstm => 4,
        }
    }

    /// Values that a unit hands on to the next step: h, and c.
    #[inline]
    pub const fn states(self) -> usize {
        if matches!(self, Self::Lstm) { 2 } else { 1 }
    }

    /// Parameters of a unit beside its weights.
    #[inline]
    pub const fn vectors(self) -> usize {
        match self {
            Self::Simple | Self::Gru => 0,
            Self::LinearGru => 1,
            Self::Lstm => 3,
        }
    }

    /// Functions of a direction.
    pub const fn functions(self) -> usize {
        match self {
            Self::Simple => 1,
            Self::Gru | Self::LinearGru => 2,
            Self::Lstm => 3,
        }
    }
}
