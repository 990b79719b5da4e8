//! `TensorProto` to [`Constant`]: raw, typed and external data.

use std::{
    collections::HashMap,
    fmt::Display,
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use triune_files::{DATA_LIMIT, Error as FileError};
use triune_tensor::{DType, MAX_RANK, OutOfMemory, Shape, memory};

use super::{malformed, proto::TensorProto};
use crate::{Constant, Error, Strings, format::contents};

/// The element type with this `TensorProto.DataType` number.
pub(super) fn dtype(number: i64) -> Option<DType> {
    DType::ALL.into_iter().find(|&dtype| dtype_number(dtype) == number)
}

/// The `TensorProto.DataType` number of an element type.
pub(super) const fn dtype_number(dtype: DType) -> i64 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::BF16 => 16,
        DType::F8E4M3FN => 17,
        DType::F8E4M3FNUZ => 18,
        DType::F8E5M2 => 19,
        DType::F8E5M2FNUZ => 20,
        DType::U4 => 21,
        DType::I4 => 22,
        DType::F4E2M1 => 23,
        DType::F8E8M0 => 24,
        DType::U2 => 25,
        DType::I2 => 26,
    }
}

/// Where tensors' bytes come from.
pub(super) struct Source<'a> {
    /// The whole model, that raw data are slices of.
    model: &'a Bytes,
    folder: Option<&'a Path>,
    /// External files, each read once however many tensors lie in it.
    files: HashMap<PathBuf, Bytes>,
}

impl<'a> Source<'a> {
    pub(super) fn new(model: &'a Bytes, folder: Option<&'a Path>) -> Self {
        Self { model, folder, files: HashMap::new() }
    }

    /// The same, with the files that were read; this one has none any more.
    pub(super) fn take(&mut self) -> Self {
        Self { files: std::mem::take(&mut self.files), ..*self }
    }

    /// The tensor's elements; `what` names it in errors.
    pub(super) fn constant(
        &mut self,
        tensor: &TensorProto<'_>,
        what: &dyn Display,
    ) -> Result<Constant, Error> {
        let fail = |reason: String| malformed(format!("{what}: {reason}"));
        if tensor.is_segment {
            return Err(fail("segmented tensors are not supported".into()));
        }
        let dtype = dtype(tensor.data_type)
            .ok_or_else(|| fail(format!("element type {} is not supported", tensor.data_type)))?;
        let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        let dims = dims.ok_or_else(|| fail("a negative extent".into()))?;
        let shape = Shape::new(&dims)
            .ok_or_else(|| fail(format!("{} dimensions, at most {MAX_RANK} are supported", dims.len())))?;
        let bytes = if tensor.is_external {
            self.external(tensor, what)?
        } else if let Some(raw) = tensor.raw {
            self.model.slice_ref(raw)
        } else {
            typed_data(tensor, dtype)?
                .ok_or_else(|| fail(format!("element out of the range of {dtype}")))?
                .into()
        };
        let bytes = if dtype.bits() < 8 {
            let count = shape.elements().unwrap_or(usize::MAX);
            unpacked(&bytes, dtype.bits(), count)?.map_or(bytes, Bytes::from)
        } else {
            bytes
        };
        let found = bytes.len();
        Constant::new(dtype, shape, bytes)
            .ok_or_else(|| fail(format!("shape {shape} of {dtype} does not fit {found} bytes of data")))
    }

    fn external(&mut self, tensor: &TensorProto<'_>, what: &dyn Display) -> Result<Bytes, Error> {
        let fail = |reason: String| malformed(format!("{what}: external data: {reason}"));
        let entry = |key: &str| tensor.external.iter().find(|(k, _)| *k == key).map(|&(_, value)| value);
        let number = |key: &str| {
            entry(key)
                .map(|value| {
                    value.parse::<usize>().map_err(|_| fail(format!("{key} '{value}' is no number")))
                })
                .transpose()
        };
        let location = entry("location").ok_or_else(|| fail("no location".into()))?;
        let folder = self
            .folder
            .ok_or_else(|| {
                fail(format!(
                    "'{location}' lies beside the model's file, but the model comes from memory: open the file, or name its folder (external_data=)"
                ))
            })?;
        // The file is data from a stranger: it may name files beside the model, not the rest of the disk.
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !Path::new(location).components().all(plain) {
            return Err(fail(format!("location '{location}' leaves the model's folder")));
        }
        let path = folder.join(location);
        let io = |source| FileError::Read { path: path.clone(), source };
        let inside = path.canonicalize().map_err(io)?;
        if !inside.starts_with(folder.canonicalize().map_err(io)?) {
            return Err(fail(format!("location '{location}' leads out of the model's folder")));
        }
        let file = if let Some(file) = self.files.get(&inside) {
            file.clone()
        } else {
            let file = contents(&inside, DATA_LIMIT)?;
            self.files.insert(inside, file.clone());
            file
        };
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(file.len().saturating_sub(offset));
        let end = offset.checked_add(length).filter(|&end| end <= file.len()).ok_or_else(|| {
            fail(format!("bytes {offset} + {length} of '{location}', which has {}", file.len()))
        })?;
        Ok(file.slice(offset..end))
    }
}

/// A tensor of strings as their numbers; `what` names it in errors.
pub(super) fn strings(
    tensor: &TensorProto<'_>,
    table: &mut Strings,
    what: &dyn Display,
) -> Result<Constant, Error> {
    let fail = |reason: &str| malformed(format!("{what}: {reason}"));
    if tensor.is_segment || tensor.is_external || tensor.raw.is_some() {
        return Err(fail("strings lie in the field for them and nowhere else"));
    }
    let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    numbered(&tensor.strings, &dims.ok_or_else(|| fail("a negative extent"))?, table, what)
}

/// Strings of these extents as their numbers.
pub(super) fn numbered(
    texts: &[&[u8]],
    dims: &[usize],
    table: &mut Strings,
    what: &dyn Display,
) -> Result<Constant, Error> {
    let fail = |reason: String| malformed(format!("{what}: {reason}"));
    let mut numbers = memory::with_room(texts.len())?;
    for (index, text) in texts.iter().enumerate() {
        let text = std::str::from_utf8(text).map_err(|_| fail(format!("string {index} is not UTF-8")))?;
        numbers.push(table.number(text)?);
    }
    let shape = Shape::new(dims)
        .ok_or_else(|| fail(format!("{} dimensions, at most {MAX_RANK} are supported", dims.len())))?;
    Constant::from_i64(shape, &numbers)
        .ok_or_else(|| fail(format!("shape {shape} does not fit {} strings", numbers.len())))
}

/// Elements of fewer than 8 bits, which lie in a byte from its low bits on, in a byte each; `None` unless there are `count`.
fn unpacked(packed: &[u8], bits: usize, count: usize) -> Result<Option<Vec<u8>>, OutOfMemory> {
    let per_byte = 8 / bits;
    if count.div_ceil(per_byte) != packed.len() {
        return Ok(None);
    }
    let mut bytes = memory::with_room(count)?;
    let element = |index: usize| packed[index / per_byte] >> (index % per_byte * bits) & ((1 << bits) - 1);
    bytes.extend((0..count).map(element));
    Ok(Some(bytes))
}

/// The bytes of a constant as files have them.
pub(super) fn packed(constant: &Constant) -> Bytes {
    let bits = constant.dtype().bits();
    if bits >= 8 {
        return constant.bytes().clone();
    }
    let mask = (1 << bits) - 1;
    let byte = |elements: &[u8]| {
        let placed = elements.iter().enumerate().map(|(index, element)| (element & mask) << (index * bits));
        placed.fold(0, |byte, element| byte | element)
    };
    constant.bytes().chunks(8 / bits).map(byte).collect()
}

/// The elements of the typed field that belongs to `dtype`; `None` when one is out of range.
fn typed_data(tensor: &TensorProto<'_>, dtype: DType) -> Result<Option<Vec<u8>>, OutOfMemory> {
    fn narrow<const N: usize>(words: &[u64], low: i64, high: i64) -> Result<Option<Vec<u8>>, OutOfMemory> {
        let mut bytes = memory::with_room(words.len() * N)?;
        for &word in words {
            let value = word as i64;
            if !(low..=high).contains(&value) {
                return Ok(None);
            }
            bytes.extend_from_slice(&value.to_le_bytes()[..N]);
        }
        Ok(Some(bytes))
    }
    match dtype {
        DType::F32 => memory::copied(&tensor.floats).map(Some),
        DType::F64 => memory::copied(&tensor.doubles).map(Some),
        DType::I64 => narrow::<8>(&tensor.int64s, i64::MIN, i64::MAX),
        DType::U64 => narrow::<8>(&tensor.uint64s, i64::MIN, i64::MAX),
        DType::U32 => narrow::<4>(&tensor.uint64s, 0, i64::from(u32::MAX)),
        DType::I32 => narrow::<4>(&tensor.int32s, i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::U16 | DType::F16 | DType::BF16 => narrow::<2>(&tensor.int32s, 0, 65_535),
        DType::I16 => narrow::<2>(&tensor.int32s, -32_768, 32_767),
        // Bytes, of which those of fewer bits have several elements.
        DType::U8
        | DType::F8E4M3FN
        | DType::F8E4M3FNUZ
        | DType::F8E5M2
        | DType::F8E5M2FNUZ
        | DType::F8E8M0
        | DType::F4E2M1
        | DType::U4
        | DType::I4
        | DType::U2
        | DType::I2 => narrow::<1>(&tensor.int32s, 0, 255),
        DType::I8 => narrow::<1>(&tensor.int32s, -128, 127),
        DType::Bool => narrow::<1>(&tensor.int32s, 0, 1),
    }
}
