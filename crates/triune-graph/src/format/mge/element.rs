//! Element types of the format: plain ones, and integers that carry what they mean in reals.

use triune_tensor::{DType, QuantParams};

use crate::format::flatbuffer::{Table, TableBuilder, Wrong};

/// An element type, and what its integers mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Element {
    pub(super) dtype: DType,
    pub(super) quant: Option<QuantParams>,
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        Self { dtype, quant: None }
    }
}

/// Names of the codes 0 to 21, for messages.
const NAMES: [&str; 22] = [
    "Float32",
    "Uint8",
    "Int8",
    "Int16",
    "Int32",
    "IntB1",
    "IntB2",
    "IntB4",
    "Byte",
    "Float16",
    "UintB4",
    "Quantized8Asymm",
    "QuantizedS32",
    "QuantizedS8",
    "Quantized4Asymm",
    "QuantizedS4",
    "QuantizedS16",
    "BFloat16",
    "Bool",
    "Uint16",
    "QuantizedS1",
    "Complex64",
];

impl Element {
    /// Reads a `DType` table.
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Wrong> {
        let code = table.u8(0, 0)?;
        let params = table.table(2)?;
        let quantized = |dtype: DType, asymmetric: bool| {
            let params = params.ok_or_else(|| format!("element type {} without a scale", name(code)))?;
            let scale = params.f32(0, 0.0)?;
            if !scale.is_finite() || scale <= 0.0 {
                return Err(format!("element type {} with a scale of {scale}", name(code)));
            }
            let zero_point = if asymmetric { i32::from(params.u8(1, 0)?) } else { 0 };
            Ok(Self { dtype, quant: Some(QuantParams { scale, zero_point }) })
        };
        match code {
            11 => quantized(DType::U8, true),
            12 => quantized(DType::I32, false),
            13 => quantized(DType::I8, false),
            16 => quantized(DType::I16, false),
            _ => plain(code).map(Self::from),
        }
    }

    /// Writes a `DType` table; `None` for a type that the format does not have.
    pub(super) fn write(self) -> Option<TableBuilder> {
        let Some(quant) = self.quant else {
            let code = (0..NAMES.len() as u8).find(|&code| plain(code).ok() == Some(self.dtype))?;
            return Some(if code == 0 {
                TableBuilder::default()
            } else {
                TableBuilder::default().u8(0, code)
            });
        };
        let code = match self.dtype {
            DType::U8 => 11,
            DType::I32 => 12,
            DType::I8 => 13,
            DType::I16 => 16,
            _ => return None,
        };
        let mut params = TableBuilder::default().f32(0, quant.scale);
        if code == 11 {
            params = params.u8(1, u8::try_from(quant.zero_point).ok()?);
        } else if quant.zero_point != 0 {
            return None;
        }
        Some(TableBuilder::default().u8(0, code).u8(1, 1).table(2, params))
    }
}

fn name(code: u8) -> String {
    NAMES.get(usize::from(code)).map_or_else(|| format!("number {code}"), |&name| name.into())
}

/// The plain type with this code, as the `DTypeEnum` of the format's schema has it.
pub(super) fn plain(code: u8) -> Result<DType, Wrong> {
    match code {
        0 => Ok(DType::F32),
        1 | 8 => Ok(DType::U8),
        2 => Ok(DType::I8),
        3 => Ok(DType::I16),
        4 => Ok(DType::I32),
        9 => Ok(DType::F16),
        18 => Ok(DType::Bool),
        19 => Ok(DType::U16),
        _ => Err(format!("element type {} is not supported", name(code))),
    }
}
