//! The two containers of the format, as one list of operators.
//!
//! Version 2 is one FlatBuffer with the tensors' bytes inside; version 1 has the bytes in front of it, one tensor after
//! the other. Slot numbers are those of upstream's `schema_v2.fbs` and `schema.fbs`.

use std::ops::Range;
use triune_tensor::text::List;

use super::{element::Element, registry};
use crate::format::flatbuffer::{Buffer, Table, Wrong};

/// A model file.
pub(super) struct File<'a> {
    /// The container's version: 1 or 2.
    pub(super) container: u32,
    /// The version of the library that wrote it: major · 10000 + minor · 100 + patch.
    pub(super) library: u32,
    pub(super) operators: Vec<Operator<'a>>,
    /// Variable names by number, where the file has them.
    pub(super) names: Vec<Option<String>>,
    /// Numbers of the variables that a caller gets, with a name of their own where the file gives one.
    pub(super) outputs: Vec<(u32, Option<String>)>,
}

/// One operator.
pub(super) struct Operator<'a> {
    /// The registered type's name.
    pub(super) kind: String,
    pub(super) name: Option<String>,
    /// The kind of parameters, and they.
    pub(super) param: Option<(u8, Table<'a>)>,
    pub(super) inputs: Vec<u32>,
    /// Numbers of the results.
    pub(super) outputs: Range<u32>,
    pub(super) output_dtype: Option<Table<'a>>,
    pub(super) tensors: Vec<Tensor>,
}

/// A tensor that an operator holds.
pub(super) struct Tensor {
    pub(super) name: Option<String>,
    pub(super) element: Result<Element, Wrong>,
    pub(super) shape: Vec<usize>,
    /// Where in the file its bytes are, if it has any.
    pub(super) data: Option<Range<usize>>,
}

const V1_IDENTIFIER: &[u8; 4] = b"mgb1";

fn u32_at(bytes: &[u8], position: usize) -> Result<u32, Wrong> {
    let word =
        position.checked_add(4).and_then(|end| bytes.get(position..end)).ok_or("the file is cut off")?;
    Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// The FlatBuffer of a version 2 file, behind its length; what lies behind the buffer is ignored, as upstream does.
pub(super) fn v2_buffer(bytes: &[u8]) -> Result<Buffer<'_>, Wrong> {
    let length = u32_at(bytes, 0)? as usize;
    let body = length.checked_add(4).and_then(|end| bytes.get(..end)).ok_or_else(|| {
        format!("the file is cut off: it says {length} bytes and has {}", bytes.len().saturating_sub(4))
    })?;
    Ok(Buffer::new(body))
}

/// Reads a version 2 file.
pub(super) fn v2<'a>(buffer: &'a Buffer<'a>) -> Result<File<'a>, Wrong> {
    let root = buffer.root(4)?;
    let mut names = Vec::new();
    for tensor in root.tables(3)? {
        names.push(tensor.text(0)?.filter(|name| !name.is_empty()));
    }
    let mut next = 0_u32;
    let mut operators = Vec::new();
    for table in root.tables(2)? {
        let kind = match table.text(0)?.filter(|kind| !kind.is_empty()) {
            Some(kind) => kind,
            None => registry::name_of(table.u64(1, 0)?),
        };
        let numbers = table.u32s(8)?;
        let outputs = next..next.checked_add(numbers.len() as u32).ok_or("too many variables")?;
        if !numbers.iter().copied().eq(outputs.clone()) {
            return Err(format!(
                "an operator of type {kind} makes variables {}, {next} is the next",
                List(&numbers)
            ));
        }
        next = outputs.end;
        let mut tensors = Vec::new();
        for tensor in table.tables(11)? {
            let data = tensor.blob(6)?.filter(|&(_, length)| length > 0);
            let format = tensor.u8(4, 0)?;
            let element = if format > 1 {
                Err(format!("tensor format {format} is not supported; 1, the plain one, is"))
            } else {
                element(tensor.table(3)?)
            };
            tensors.push(Tensor {
                name: tensor.text(0)?.filter(|name| !name.is_empty()),
                element,
                shape: tensor.u32s(1)?.into_iter().map(|extent| extent as usize).collect(),
                data: data.map(|(first, length)| first..first + length),
            });
        }
        operators.push(Operator {
            kind,
            name: table.text(2)?.filter(|name| !name.is_empty()),
            param: union(&table, 3)?,
            inputs: table.u32s(7)?,
            outputs,
            output_dtype: table.table(10)?,
            tensors,
        });
    }
    let mut outputs = Vec::new();
    // A list of aliases, where there is one, replaces the list of outputs.
    for alias in root.tables(5)? {
        outputs.push((alias.u32(0, 0)?, alias.text(1)?.filter(|name| !name.is_empty())));
    }
    if outputs.is_empty() {
        for output in root.tables(4)? {
            outputs.push((output.u32(0, 0)?, None));
        }
    }
    Ok(File { container: 2, library: root.u32(0, 0)?, operators, names, outputs })
}

/// The FlatBuffer of a version 1 file behind its length, and where the tensors' bytes start and end.
pub(super) fn v1_buffer(bytes: &[u8]) -> Result<(Buffer<'_>, Range<usize>), Wrong> {
    let flat = |start: usize| {
        // Magic, then for the younger form eight bytes of features, then four of padding and the tensors' total size.
        let size = bytes.get(start - 8..start)?;
        let size = usize::try_from(u64::from_le_bytes(size.try_into().ok()?)).ok()?;
        let at = start.checked_add(size)?;
        let length = u32_at(bytes, at).ok()? as usize;
        let body = bytes.get(at + 4..)?.get(..length)?;
        (body.get(4..8) == Some(V1_IDENTIFIER)).then(|| (Buffer::new(body), start..at))
    };
    flat(24).or_else(|| flat(16)).ok_or_else(|| "the part with the operators is damaged or cut off".into())
}

/// Reads a version 1 file whose tensors' bytes lie at `blobs`.
pub(super) fn v1<'a>(buffer: &'a Buffer<'a>, blobs: Range<usize>) -> Result<File<'a>, Wrong> {
    let root = buffer.root(0)?;
    let mut names = Vec::new();
    let mut operators = Vec::new();
    let mut next = 0_u32;
    let mut cursor = blobs.start;
    for table in root.tables(3)? {
        let kind = registry::name_of(table.u64(0, 0)?);
        let output_names = table.texts(5)?;
        let count = match &output_names {
            Some(names) => names.len(),
            None => registry::results_of(&kind),
        };
        let outputs = next..u32::try_from(count)
            .ok()
            .and_then(|count| next.checked_add(count))
            .ok_or("too many variables")?;
        next = outputs.end;
        match output_names {
            Some(own) => names.extend(own.into_iter().map(|name| Some(name).filter(|name| !name.is_empty()))),
            None => names.resize(names.len() + count, None),
        }
        let mut tensors = Vec::new();
        for tensor in table.tables(7)? {
            let (length, skip) = (tensor.u32(4, 0)? as usize, tensor.u32(5, 0)? as usize);
            let data = if length == 0 {
                None
            } else {
                let start = cursor.checked_add(skip).ok_or("a tensor lies outside")?;
                let end = start.checked_add(length).filter(|&end| end <= blobs.end);
                cursor = end.ok_or("a tensor lies outside of the file's tensors")?;
                Some(start..cursor)
            };
            tensors.push(Tensor {
                name: tensor.text(0)?.filter(|name| !name.is_empty()),
                element: element(tensor.table(3)?),
                shape: tensor.u32s(1)?.into_iter().map(|extent| extent as usize).collect(),
                data,
            });
        }
        operators.push(Operator {
            kind,
            name: table.text(12)?.filter(|name| !name.is_empty()),
            param: union(&table, 1)?,
            inputs: table.u32s(3)?,
            outputs,
            output_dtype: table.table(6)?,
            tensors,
        });
    }
    // A struct of the number and the one it had while the graph was built.
    let outputs = root.structs(4, 8)?.unwrap_or_default();
    let outputs =
        outputs.chunks_exact(8).map(|pair| (u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]), None));
    Ok(File { container: 1, library: root.u32(0, 0)?, operators, names, outputs: outputs.collect() })
}

/// The element type of a tensor; an absent table has all defaults.
fn element(table: Option<Table<'_>>) -> Result<Element, Wrong> {
    table.map_or(Ok(triune_tensor::DType::F32.into()), |table| Element::read(&table))
}

/// A union: its kind in `slot`, its table in the next.
fn union<'a>(table: &Table<'a>, slot: usize) -> Result<Option<(u8, Table<'a>)>, Wrong> {
    Ok(match (table.u8(slot, 0)?, table.table(slot + 1)?) {
        (0, _) | (_, None) => None,
        (kind, Some(params)) => Some((kind, params)),
    })
}
