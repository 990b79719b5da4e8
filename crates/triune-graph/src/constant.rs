//! Constant tensors: weights, shapes, tables.

use bytes::Bytes;
use triune_tensor::{DType, Shape};

/// A dense row-major tensor whose bytes (little-endian) are shared, possibly with a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    dtype: DType,
    shape: Shape,
    bytes: Bytes,
}

impl Constant {
    /// A constant over `bytes`; `None` unless they hold exactly the elements of `shape`.
    pub fn new(dtype: DType, shape: Shape, bytes: impl Into<Bytes>) -> Option<Self> {
        let bytes = bytes.into();
        (shape.elements()?.checked_mul(dtype.bytes())? == bytes.len()).then_some(Self { dtype, shape, bytes })
    }

    /// A constant of f32 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_f32(shape: Shape, values: &[f32]) -> Option<Self> {
        Self::new(DType::F32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// A constant of i64 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_i64(shape: Shape, values: &[i64]) -> Option<Self> {
        Self::new(DType::I64, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// A constant of i32 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_i32(shape: Shape, values: &[i32]) -> Option<Self> {
        Self::new(DType::I32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// A constant of i8 values; `None` unless there are exactly as many as `shape` holds.
    pub fn from_i8(shape: Shape, values: &[i8]) -> Option<Self> {
        Self::new(DType::I8, shape, values.iter().map(|&v| v as u8).collect::<Vec<u8>>())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The elements as little-endian bytes, row-major.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.bytes()
    }

    /// The same bytes under another shape of as many elements.
    pub fn reshaped(&self, shape: Shape) -> Option<Self> {
        Self::new(self.dtype, shape, self.bytes.clone())
    }

    /// The elements as f32, or `None` for another element type.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        (self.dtype == DType::F32).then(|| self.words().map(f32::from_le_bytes).collect())
    }

    /// The elements as i8, or `None` for another element type.
    pub fn to_i8(&self) -> Option<Vec<i8>> {
        (self.dtype == DType::I8).then(|| self.bytes.iter().map(|&b| b as i8).collect())
    }

    /// The elements as i32, or `None` for another element type.
    pub fn to_i32(&self) -> Option<Vec<i32>> {
        (self.dtype == DType::I32).then(|| self.words().map(i32::from_le_bytes).collect())
    }

    /// The elements of any integer (or bool) type widened to i64, or `None` for floats and u64 above i64's range.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        match self.dtype {
            DType::Bool | DType::U8 => Some(self.bytes.iter().map(|&b| i64::from(b)).collect()),
            DType::I8 => Some(self.bytes.iter().map(|&b| i64::from(b as i8)).collect()),
            DType::U16 => Some(self.words().map(|w| i64::from(u16::from_le_bytes(w))).collect()),
            DType::I16 => Some(self.words().map(|w| i64::from(i16::from_le_bytes(w))).collect()),
            DType::U32 => Some(self.words().map(|w| i64::from(u32::from_le_bytes(w))).collect()),
            DType::I32 => Some(self.words().map(|w| i64::from(i32::from_le_bytes(w))).collect()),
            DType::I64 => Some(self.words().map(i64::from_le_bytes).collect()),
            DType::U64 => self.words().map(|w| i64::try_from(u64::from_le_bytes(w)).ok()).collect(),
            DType::F16 | DType::F32 | DType::F64 => None,
        }
    }

    /// The only element as f32, when there is exactly one and it is an f32.
    pub fn scalar_f32(&self) -> Option<f32> {
        match self.to_f32()?.as_slice() {
            [value] => Some(*value),
            _ => None,
        }
    }

    fn words<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> + '_ {
        self.bytes.chunks_exact(N).map(|chunk| {
            let mut word = [0; N];
            word.copy_from_slice(chunk);
            word
        })
    }
}
