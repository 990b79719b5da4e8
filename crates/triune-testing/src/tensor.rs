//! A tensor that owns its elements: row-major, logical extents, no layout.

use half::{bf16, f16};
use triune_graph::Constant;
use triune_tensor::{DType, Shape};

/// The elements, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// f32.
    F32(Vec<f32>),
    /// i64.
    I64(Vec<i64>),
    /// i32.
    I32(Vec<i32>),
    /// u8.
    U8(Vec<u8>),
    /// i8.
    I8(Vec<i8>),
    /// bool.
    Bool(Vec<bool>),
    /// u16.
    U16(Vec<u16>),
    /// i16.
    I16(Vec<i16>),
    /// u32.
    U32(Vec<u32>),
    /// u64.
    U64(Vec<u64>),
    /// f16.
    F16(Vec<f16>),
    /// f64.
    F64(Vec<f64>),
    /// bf16.
    BF16(Vec<bf16>),
    /// The bytes of a type that is only stored.
    Stored(DType, Vec<u8>),
}

/// A row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Data,
}

/// Evaluates `$body` with `$values` bound to the vector of whatever element type `$data` has.
macro_rules! each_type {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            Data::F32($values) => $body,
            Data::I64($values) => $body,
            Data::I32($values) => $body,
            Data::U8($values) => $body,
            Data::I8($values) => $body,
            Data::Bool($values) => $body,
            Data::U16($values) => $body,
            Data::I16($values) => $body,
            Data::U32($values) => $body,
            Data::U64($values) => $body,
            Data::F16($values) => $body,
            Data::F64($values) => $body,
            Data::BF16($values) => $body,
            Data::Stored(_, $values) => $body,
        }
    };
}

/// As [`each_type`], wrapping the resulting vector in the same element type again.
macro_rules! same_type {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            Data::F32($values) => Data::F32($body),
            Data::I64($values) => Data::I64($body),
            Data::I32($values) => Data::I32($body),
            Data::U8($values) => Data::U8($body),
            Data::I8($values) => Data::I8($body),
            Data::Bool($values) => Data::Bool($body),
            Data::U16($values) => Data::U16($body),
            Data::I16($values) => Data::I16($body),
            Data::U32($values) => Data::U32($body),
            Data::U64($values) => Data::U64($body),
            Data::F16($values) => Data::F16($body),
            Data::F64($values) => Data::F64($body),
            Data::BF16($values) => Data::BF16($body),
            Data::Stored(dtype, $values) => Data::Stored(*dtype, $body),
        }
    };
}

impl Tensor {
    /// A tensor of these elements.
    ///
    /// # Panics
    /// Unless `shape` holds exactly as many.
    pub fn new(shape: &[usize], data: Data) -> Self {
        let tensor = Self { shape: shape.to_vec(), data };
        assert_eq!(
            tensor.elements(),
            shape.iter().product::<usize>(),
            "elements of a tensor of shape {shape:?}"
        );
        tensor
    }

    /// A tensor of f32 elements; panics as [`Tensor::new`].
    pub fn f32(shape: &[usize], values: &[f32]) -> Self {
        Self::new(shape, Data::F32(values.to_vec()))
    }

    /// A tensor of i64 elements; panics as [`Tensor::new`].
    pub fn i64(shape: &[usize], values: &[i64]) -> Self {
        Self::new(shape, Data::I64(values.to_vec()))
    }

    /// A tensor of i32 elements; panics as [`Tensor::new`].
    pub fn i32(shape: &[usize], values: &[i32]) -> Self {
        Self::new(shape, Data::I32(values.to_vec()))
    }

    /// A tensor of u8 elements; panics as [`Tensor::new`].
    pub fn u8(shape: &[usize], values: &[u8]) -> Self {
        Self::new(shape, Data::U8(values.to_vec()))
    }

    /// A tensor of i8 elements; panics as [`Tensor::new`].
    pub fn i8(shape: &[usize], values: &[i8]) -> Self {
        Self::new(shape, Data::I8(values.to_vec()))
    }

    /// A tensor of integers that fit `dtype`.
    ///
    /// # Panics
    /// For a value out of range or a float type.
    pub fn of_integers(dtype: DType, shape: &[usize], values: &[i64]) -> Self {
        let data = match dtype {
            DType::I64 => Data::I64(values.to_vec()),
            DType::I32 => Data::I32(values.iter().map(|&v| i32::try_from(v).expect("an i32")).collect()),
            DType::U8 => Data::U8(values.iter().map(|&v| u8::try_from(v).expect("a u8")).collect()),
            DType::I8 => Data::I8(values.iter().map(|&v| i8::try_from(v).expect("an i8")).collect()),
            DType::Bool => Data::Bool(values.iter().map(|&v| v != 0).collect()),
            DType::U16 => Data::U16(values.iter().map(|&v| u16::try_from(v).expect("a u16")).collect()),
            DType::I16 => Data::I16(values.iter().map(|&v| i16::try_from(v).expect("an i16")).collect()),
            DType::U32 => Data::U32(values.iter().map(|&v| u32::try_from(v).expect("a u32")).collect()),
            DType::U64 => Data::U64(values.iter().map(|&v| v.cast_unsigned()).collect()),
            dtype if dtype.is_storage() && !dtype.is_real() => {
                let mask = (1 << dtype.bits()) - 1;
                Data::Stored(dtype, values.iter().map(|&v| v as u8 & mask).collect())
            }
            _ => panic!("no integer tensors of {dtype}"),
        };
        Self::new(shape, data)
    }

    /// A tensor of integers wrapped around into `dtype`; those of u64 are the bit patterns of i64.
    ///
    /// # Panics
    /// For a float type.
    pub fn wrapped(dtype: DType, shape: &[usize], values: &[i64]) -> Self {
        let bytes: Vec<u8> = match dtype {
            DType::Bool => values.iter().map(|&v| u8::from(v != 0)).collect(),
            dtype if dtype.is_storage() => return Self::of_integers(dtype, shape, values),
            _ => values.iter().flat_map(|v| v.to_le_bytes()[..dtype.bytes()].to_vec()).collect(),
        };
        assert!(!dtype.is_float(), "no integer tensors of {dtype}");
        Self::from_bytes(dtype, shape, &bytes)
    }

    /// A tensor of floats rounded to a float type.
    ///
    /// # Panics
    /// For an integer type.
    pub fn of_floats(dtype: DType, shape: &[usize], values: &[f64]) -> Self {
        let data = match dtype {
            DType::F16 => Data::F16(values.iter().map(|&v| f16::from_f64(v)).collect()),
            DType::F32 => Data::F32(values.iter().map(|&v| v as f32).collect()),
            DType::F64 => Data::F64(values.to_vec()),
            DType::BF16 => Data::BF16(values.iter().map(|&v| bf16::from_f64(v)).collect()),
            dtype if dtype.is_real() => {
                let bytes = values.iter().map(|&v| dtype.encode(v).expect("a stored real") as u8);
                Data::Stored(dtype, bytes.collect())
            }
            other => panic!("no float tensors of {other}"),
        };
        Self::new(shape, data)
    }

    /// The constant's elements.
    ///
    /// # Panics
    /// For an element type that no operator of a real network computes on.
    pub fn of_constant(constant: &Constant) -> Self {
        let shape = constant.shape();
        match constant.dtype() {
            DType::F32 => Self::new(&shape, Data::F32(constant.to_f32().expect("f32"))),
            DType::F16 => {
                let words = constant.bytes().as_chunks::<2>().0;
                Self::new(&shape, Data::F16(words.iter().map(|&word| f16::from_le_bytes(word)).collect()))
            }
            DType::F64 => {
                let words = constant.bytes().as_chunks::<8>().0;
                Self::new(&shape, Data::F64(words.iter().map(|&word| f64::from_le_bytes(word)).collect()))
            }
            DType::U64 => {
                let words = constant.bytes().as_chunks::<8>().0;
                Self::new(&shape, Data::U64(words.iter().map(|&word| u64::from_le_bytes(word)).collect()))
            }
            DType::BF16 => {
                let words = constant.bytes().as_chunks::<2>().0;
                Self::new(&shape, Data::BF16(words.iter().map(|&word| bf16::from_le_bytes(word)).collect()))
            }
            dtype if dtype.is_storage() => Self::new(&shape, Data::Stored(dtype, constant.bytes().to_vec())),
            dtype => Self::of_integers(dtype, &shape, &constant.to_i64().expect("integers")),
        }
    }

    /// The same elements as a constant.
    ///
    /// # Panics
    /// Above rank 8.
    pub fn to_constant(&self) -> Constant {
        let shape = Shape::new(&self.shape).expect("rank of at most 8");
        Constant::new(self.dtype(), shape, self.to_bytes()).expect("elements match the shape")
    }

    /// The elements from little-endian bytes; panics when they are not exactly those of `shape`.
    ///
    /// # Panics
    /// As it says, and for types without elements here.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Self {
        let own = Shape::new(shape).expect("rank of at most 8");
        Self::of_constant(&Constant::new(dtype, own, bytes.to_vec()).expect("bytes match the shape"))
    }

    /// The elements as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::F32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::I64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::I32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::U8(values) | Data::Stored(_, values) => values.clone(),
            Data::I8(values) => values.iter().map(|&v| v as u8).collect(),
            Data::Bool(values) => values.iter().map(|&v| u8::from(v)).collect(),
            Data::U16(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::I16(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::U32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::U64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::F16(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::F64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Data::BF16(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self.data {
            Data::F32(_) => DType::F32,
            Data::I64(_) => DType::I64,
            Data::I32(_) => DType::I32,
            Data::U8(_) => DType::U8,
            Data::I8(_) => DType::I8,
            Data::Bool(_) => DType::Bool,
            Data::U16(_) => DType::U16,
            Data::I16(_) => DType::I16,
            Data::U32(_) => DType::U32,
            Data::U64(_) => DType::U64,
            Data::F16(_) => DType::F16,
            Data::F64(_) => DType::F64,
            Data::BF16(_) => DType::BF16,
            Data::Stored(dtype, _) => dtype,
        }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        each_type!(&self.data, values => values.len())
    }

    /// The f32 elements.
    ///
    /// # Panics
    /// For another element type.
    pub fn as_f32(&self) -> &[f32] {
        match &self.data {
            Data::F32(values) => values,
            _ => panic!("expected float32, got {}", self.dtype()),
        }
    }

    /// Float elements widened to f64, integers converted.
    pub fn reals(&self) -> Vec<f64> {
        match &self.data {
            Data::F16(values) => values.iter().map(|v| v.to_f64()).collect(),
            Data::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
            Data::F64(values) => values.clone(),
            Data::U64(values) => values.iter().map(|&v| v as f64).collect(),
            Data::BF16(values) => values.iter().map(|v| v.to_f64()).collect(),
            Data::Stored(dtype, values) if dtype.is_real() => {
                values.iter().map(|&v| dtype.decode(v.into()).unwrap_or(f64::NAN)).collect()
            }
            _ => self.integers().into_iter().map(|v| v as f64).collect(),
        }
    }

    /// Integer (or bool) elements widened to i64; those of u64 are the bit patterns.
    ///
    /// # Panics
    /// For floats.
    pub fn integers(&self) -> Vec<i64> {
        match &self.data {
            Data::Stored(dtype, values) if !dtype.is_real() => {
                values.iter().map(|&v| dtype.decode_integer(v).expect("a stored integer")).collect()
            }
            Data::F16(_) | Data::F32(_) | Data::F64(_) | Data::BF16(_) | Data::Stored(..) => {
                panic!("expected integers, got {}", self.dtype())
            }
            Data::U16(values) => values.iter().map(|&v| i64::from(v)).collect(),
            Data::I16(values) => values.iter().map(|&v| i64::from(v)).collect(),
            Data::U32(values) => values.iter().map(|&v| i64::from(v)).collect(),
            Data::U64(values) => values.iter().map(|&v| v.cast_signed()).collect(),
            Data::I64(values) => values.clone(),
            Data::I32(values) => values.iter().map(|&v| i64::from(v)).collect(),
            Data::U8(values) => values.iter().map(|&v| i64::from(v)).collect(),
            Data::I8(values) => values.iter().map(|&v| i64::from(v)).collect(),
            Data::Bool(values) => values.iter().map(|&v| i64::from(v)).collect(),
        }
    }

    /// One integer (or bool) element of at most 32 bits.
    pub(crate) fn integer_at(&self, index: usize) -> i32 {
        match &self.data {
            Data::I32(values) => values[index],
            Data::U8(values) => i32::from(values[index]),
            Data::I8(values) => i32::from(values[index]),
            Data::Bool(values) => i32::from(values[index]),
            Data::U16(values) => i32::from(values[index]),
            Data::I16(values) => i32::from(values[index]),
            _ => {
                panic!("expected small integers, got {}", self.dtype())
            }
        }
    }

    /// The elements at `indices`, under another shape.
    pub(crate) fn take(&self, shape: &[usize], indices: impl Iterator<Item = usize>) -> Self {
        Self::new(shape, same_type!(&self.data, values => indices.map(|index| values[index]).collect()))
    }

    /// The elements at `indices`, and `fill`'s only element where there is none.
    pub(crate) fn take_or(
        &self,
        shape: &[usize],
        indices: impl Iterator<Item = Option<usize>>,
        fill: &Self,
    ) -> Self {
        let mut joined = self.clone();
        joined.extend(fill);
        let last = self.elements();
        joined.take(shape, indices.map(|index| index.unwrap_or(last)))
    }

    /// Appends the other tensor's elements; the shape is the caller's to set.
    pub(crate) fn extend(&mut self, other: &Self) {
        match (&mut self.data, &other.data) {
            (Data::F32(own), Data::F32(more)) => own.extend(more),
            (Data::I64(own), Data::I64(more)) => own.extend(more),
            (Data::I32(own), Data::I32(more)) => own.extend(more),
            (Data::U8(own), Data::U8(more)) => own.extend(more),
            (Data::I8(own), Data::I8(more)) => own.extend(more),
            (Data::Bool(own), Data::Bool(more)) => own.extend(more),
            (Data::U16(own), Data::U16(more)) => own.extend(more),
            (Data::I16(own), Data::I16(more)) => own.extend(more),
            (Data::U32(own), Data::U32(more)) => own.extend(more),
            (Data::U64(own), Data::U64(more)) => own.extend(more),
            (Data::F16(own), Data::F16(more)) => own.extend(more),
            (Data::F64(own), Data::F64(more)) => own.extend(more),
            (Data::BF16(own), Data::BF16(more)) => own.extend(more),
            (Data::Stored(a, own), Data::Stored(b, more)) if a == b => own.extend(more),
            _ => panic!("cannot join elements of two types"),
        }
    }

    /// The same elements under another shape.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Self {
        Self::new(shape, self.data.clone())
    }
}

/// Every multi-index of `shape`, in row-major order.
pub(crate) fn positions(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product::<usize>()).map(move |mut flat| {
        let mut position = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            position[axis] = flat % shape[axis];
            flat /= shape[axis];
        }
        position
    })
}

/// Where `position` lies in a row-major tensor of `shape`.
pub(crate) fn flat(shape: &[usize], position: &[usize]) -> usize {
    shape.iter().zip(position).fold(0, |index, (&extent, &at)| index * extent + at)
}

/// Where `position` of a broadcast result lies in an operand of `shape`.
pub(crate) fn broadcast_flat(shape: &[usize], position: &[usize]) -> usize {
    let tail = &position[position.len() - shape.len()..];
    shape.iter().zip(tail).fold(0, |index, (&extent, &at)| index * extent + if extent == 1 { 0 } else { at })
}

/// The shape that two operands broadcast to.
pub(crate) fn broadcast_shape(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| {
        let missing = rank - shape.len();
        if axis < missing { 1 } else { shape[axis - missing] }
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (1, other) | (other, 1) => other,
            (left, right) => {
                assert_eq!(left, right, "{a:?} and {b:?} do not broadcast");
                left
            }
        })
        .collect()
}

/// An axis counted from the front.
pub(crate) fn resolve_axis(axis: isize, rank: usize) -> usize {
    let resolved = if axis < 0 { axis + rank as isize } else { axis };
    usize::try_from(resolved).expect("axis within the rank")
}
