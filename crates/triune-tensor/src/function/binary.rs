//! Functions of two numbers.

use super::coded;
use crate::DType;

coded! {
    /// A function of two numbers.
    BinaryKind, "A function of two numbers." {
        /// a + b.
        Add = 0, "a + b.";
        /// a − b.
        Sub = 1, "a − b.";
        /// a · b.
        Mul = 2, "a · b.";
        /// a / b.
        Div = 3, "a / b.";
        /// The smaller.
        Min = 4, "The smaller.";
        /// The larger.
        Max = 5, "The larger.";
        /// aᵇ.
        Pow = 6, "aᵇ.";
        /// ⌊a / b⌋.
        FloorDiv = 7, "⌊a / b⌋.";
        /// a − b·⌊a / b⌋: the remainder of b's sign.
        Mod = 8, "a − b·⌊a / b⌋: the remainder of b's sign.";
        /// a − b·trunc(a / b): the remainder of a's sign.
        Rem = 9, "a − b·trunc(a / b): the remainder of a's sign.";
        /// a, or a·b where a is negative.
        PRelu = 10, "a, or a·b where a is negative.";
        /// The angle of the point (b, a); reals.
        Atan2 = 11, "The angle of the point (b, a); reals.";
        /// ln(eᵃ + eᵇ); reals.
        LogAddExp = 12, "ln(eᵃ + eᵇ); reals.";
        /// Bit by bit, or of truth values; not for floats.
        And = 13, "Bit by bit, or of truth values; not for floats.";
        /// Bit by bit, or of truth values; not for floats.
        Or = 14, "Bit by bit, or of truth values; not for floats.";
        /// Bit by bit, or of truth values; not for floats.
        Xor = 15, "Bit by bit, or of truth values; not for floats.";
        /// Towards the high bits; 0 beyond the type's width; integers.
        ShiftLeft = 16, "Towards the high bits; 0 beyond the type's width; integers.";
        /// Towards the low bits, keeping the sign; integers.
        ShiftRight = 17, "Towards the low bits, keeping the sign; integers.";
        /// The high half of 2·a·b, rounded half up, cut to the type's range; integers.
        MulHigh = 18, "The high half of 2·a·b, rounded half up, cut to the type's range; integers.";
        /// a = b; a bool.
        Equal = 19, "a = b; a bool.";
        /// a ≠ b; a bool.
        NotEqual = 20, "a ≠ b; a bool.";
        /// a < b; a bool.
        Less = 21, "a < b; a bool.";
        /// a ≤ b; a bool.
        LessOrEqual = 22, "a ≤ b; a bool.";
        /// a > b; a bool.
        Greater = 23, "a > b; a bool.";
        /// a ≥ b; a bool.
        GreaterOrEqual = 24, "a ≥ b; a bool.";
    }
}

coded! {
    /// A comparison of two numbers.
    Comparison, "A comparison of two numbers." {
        /// a = b; no NaN equals anything.
        Equal = 0, "a = b; no NaN equals anything.";
        /// a ≠ b.
        NotEqual = 1, "a ≠ b.";
        /// a < b.
        Less = 2, "a < b.";
        /// a ≤ b.
        LessOrEqual = 3, "a ≤ b.";
        /// a > b.
        Greater = 4, "a > b.";
        /// a ≥ b.
        GreaterOrEqual = 5, "a ≥ b.";
    }
}

impl BinaryKind {
    /// The comparison that gives a bool, whatever the operands are.
    pub const fn comparison(self) -> Option<Comparison> {
        Some(match self {
            Self::Equal => Comparison::Equal,
            Self::NotEqual => Comparison::NotEqual,
            Self::Less => Comparison::Less,
            Self::LessOrEqual => Comparison::LessOrEqual,
            Self::Greater => Comparison::Greater,
            Self::GreaterOrEqual => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Whether operands of a network's operator can be of this type.
    pub const fn takes(self, dtype: DType) -> bool {
        match self {
            _ if dtype.is_storage() => false,
            Self::Atan2 | Self::LogAddExp => dtype.is_float(),
            Self::And | Self::Or | Self::Xor => !dtype.is_float(),
            Self::ShiftLeft | Self::ShiftRight | Self::MulHigh => {
                !dtype.is_float() && !matches!(dtype, DType::Bool)
            }
            Self::Min | Self::Max => true,
            _ if self.comparison().is_some() => true,
            _ => !matches!(dtype, DType::Bool),
        }
    }

    /// The operator's name in ONNX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::Pow => "Pow",
            Self::FloorDiv => "FloorDiv",
            Self::Mod | Self::Rem => "Mod",
            Self::PRelu => "PRelu",
            Self::Atan2 => "Atan2",
            Self::LogAddExp => "LogAddExp",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
            Self::ShiftLeft | Self::ShiftRight => "BitShift",
            Self::MulHigh => "MulHigh",
            Self::Equal => "Equal",
            Self::NotEqual => "NotEqual",
            Self::Less => "Less",
            Self::LessOrEqual => "LessOrEqual",
            Self::Greater => "Greater",
            Self::GreaterOrEqual => "GreaterOrEqual",
        }
    }
}
