//! Element types.

use std::fmt;

/// The type of one tensor element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [Self; 12] = [
        Self::Bool,
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
    ];

    /// Size of one element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The type's name as numpy spells it, `"int8"` for [`DType::I8`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }

    /// The type that numpy spells `name`, if it is one of ours.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether the type is an 8-bit integer.
    pub const fn is_quantized(self) -> bool {
        matches!(self, Self::U8 | Self::I8)
    }

    /// Whether quantized operators compute on the type: the 8-bit integers, and the signed one of 16 bits.
    pub const fn holds_quantized(self) -> bool {
        self.is_quantized() || matches!(self, Self::I16)
    }

    /// Whether the type is an IEEE float.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Smallest and largest value of an integer type of at most 32 bits.
    pub const fn int_range(self) -> Option<(i64, i64)> {
        match self {
            Self::U8 => Some((0, 255)),
            Self::I8 => Some((-128, 127)),
            Self::U16 => Some((0, 65_535)),
            Self::I16 => Some((-32_768, 32_767)),
            Self::U32 => Some((0, u32::MAX as i64)),
            Self::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            Self::Bool | Self::U64 | Self::I64 | Self::F16 | Self::F32 | Self::F64 => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("complex64"), None);
    }

    #[test]
    fn ranges_match_widths() {
        for dtype in DType::ALL {
            if let Some((low, high)) = dtype.int_range() {
                assert_eq!(high - low, (1_i64 << (8 * dtype.bytes())) - 1, "{dtype}");
            }
        }
    }
}
