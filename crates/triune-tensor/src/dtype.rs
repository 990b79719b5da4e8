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
    /// The upper half of a binary32.
    BF16,
    /// 8 bits: sign, 4 of exponent, 3 of fraction; no infinity.
    F8E4M3FN,
    /// 8 bits: sign, 4 of exponent, 3 of fraction; no infinity, no −0.
    F8E4M3FNUZ,
    /// 8 bits: sign, 5 of exponent, 2 of fraction.
    F8E5M2,
    /// 8 bits: sign, 5 of exponent, 2 of fraction; no infinity, no −0.
    F8E5M2FNUZ,
    /// 8 bits: a power of two.
    F8E8M0,
    /// The low 4 bits of a byte: sign, 2 of exponent, 1 of fraction.
    F4E2M1,
    /// Unsigned integer in the low 4 bits of a byte.
    U4,
    /// Signed integer in the low 4 bits of a byte.
    I4,
    /// Unsigned integer in the low 2 bits of a byte.
    U2,
    /// Signed integer in the low 2 bits of a byte.
    I2,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [Self; 23] = [
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
        Self::BF16,
        Self::F8E4M3FN,
        Self::F8E4M3FNUZ,
        Self::F8E5M2,
        Self::F8E5M2FNUZ,
        Self::F8E8M0,
        Self::F4E2M1,
        Self::U4,
        Self::I4,
        Self::U2,
        Self::I2,
    ];

    /// Size of one element in bytes; elements of fewer than 8 bits have one each.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bool
            | Self::U8
            | Self::I8
            | Self::F8E4M3FN
            | Self::F8E4M3FNUZ
            | Self::F8E5M2
            | Self::F8E5M2FNUZ
            | Self::F8E8M0
            | Self::F4E2M1
            | Self::U4
            | Self::I4
            | Self::U2
            | Self::I2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The type's name as numpy spells it, `"int8"` for [`DType::I8`], or its extension `ml_dtypes`.
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
            Self::BF16 => "bfloat16",
            Self::F8E4M3FN => "float8_e4m3fn",
            Self::F8E4M3FNUZ => "float8_e4m3fnuz",
            Self::F8E5M2 => "float8_e5m2",
            Self::F8E5M2FNUZ => "float8_e5m2fnuz",
            Self::F8E8M0 => "float8_e8m0fnu",
            Self::F4E2M1 => "float4_e2m1fn",
            Self::U4 => "uint4",
            Self::I4 => "int4",
            Self::U2 => "uint2",
            Self::I2 => "int2",
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

    /// Whether the type is one of reals that operators compute on.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Whether the type is one of reals in 16 bits, which operators compute on in 32.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// Whether elements of the type are stored, moved and converted, but never computed on.
    pub const fn is_storage(self) -> bool {
        matches!(
            self,
            Self::F8E4M3FN
                | Self::F8E4M3FNUZ
                | Self::F8E5M2
                | Self::F8E5M2FNUZ
                | Self::F8E8M0
                | Self::F4E2M1
                | Self::U4
                | Self::I4
                | Self::U2
                | Self::I2
        )
    }

    /// Whether the type is one of reals.
    pub const fn is_real(self) -> bool {
        self.is_float() || self.is_storage() && !matches!(self, Self::U4 | Self::I4 | Self::U2 | Self::I2)
    }

    /// Bits of an element; fewer than those of its bytes for some.
    pub const fn bits(self) -> usize {
        match self {
            Self::F4E2M1 | Self::U4 | Self::I4 => 4,
            Self::U2 | Self::I2 => 2,
            _ => 8 * self.bytes(),
        }
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
            Self::U4 => Some((0, 15)),
            Self::I4 => Some((-8, 7)),
            Self::U2 => Some((0, 3)),
            Self::I2 => Some((-2, 1)),
            Self::Bool
            | Self::U64
            | Self::I64
            | Self::F16
            | Self::F32
            | Self::F64
            | Self::BF16
            | Self::F8E4M3FN
            | Self::F8E4M3FNUZ
            | Self::F8E5M2
            | Self::F8E5M2FNUZ
            | Self::F8E8M0
            | Self::F4E2M1 => None,
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
                assert_eq!(high - low, (1_i64 << dtype.bits()) - 1, "{dtype}");
            }
        }
    }
}
