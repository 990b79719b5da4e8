//! The FlatBuffers wire format: a checked walker over borrowed bytes, and a writer.
//!
//! It knows tables, vectors and scalars, no schema. Every access is checked when it is made, so that nothing has to be
//! verified up front. Parts of a buffer may be shared: what a reader visits is counted, and a buffer that makes a reader
//! visit much more than it holds is an error. References point forwards only, so that there are no cycles.

#![cfg_attr(
    not(all(feature = "megengine", feature = "xir")),
    expect(dead_code, reason = "each form of files takes what it needs of it")
)]

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use bytes::Bytes;
use triune_tensor::{OutOfMemory, memory::Room};

/// What is wrong with a buffer, for the format's own error.
pub(crate) type Wrong = String;

/// Claims to memory by those who say what is wrong in words, and whether it was the memory.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    room: RefCell<Room>,
    refused: Cell<Option<OutOfMemory>>,
}

impl Claims {
    /// Claims so many bytes more.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Wrong> {
        self.room.borrow_mut().take(bytes).map_err(|none| {
            self.refused.set(Some(none));
            none.to_string()
        })
    }

    /// Whether the last thing that was wrong was the want of memory.
    pub(crate) fn refused(&self) -> Option<OutOfMemory> {
        self.refused.get()
    }
}

/// The bytes of one FlatBuffer, and how much of them may still be visited.
#[derive(Debug)]
pub(crate) struct Buffer<'a> {
    bytes: &'a [u8],
    budget: Cell<usize>,
    /// For what becomes of the parts that are visited.
    claims: Claims,
}

impl<'a> Buffer<'a> {
    /// About what becomes of a byte that a reader visits, in memory: an operator with its name and operands has some dozens.
    const ROOM: u64 = 32;

    /// Reads what `bytes` hold.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        // Writers share strings and little tables, and a reference of 5 bytes makes a reader visit a field list: some slack,
        // linear in the size all the same.
        let budget = Cell::new(bytes.len().saturating_mul(8).saturating_add(1 << 16));
        Self { bytes, budget, claims: Claims::default() }
    }

    /// The table that the reference at `position` points to.
    pub(crate) fn root(&'a self, position: usize) -> Result<Table<'a>, Wrong> {
        self.table_at(self.follow(position)?)
    }

    /// Whether the last thing that was wrong was the want of memory.
    pub(crate) fn refused(&self) -> Option<OutOfMemory> {
        self.claims.refused()
    }

    /// Counts `bytes` that a reader is about to visit.
    fn visit(&self, bytes: usize) -> Result<(), Wrong> {
        let left = self
            .budget
            .get()
            .checked_sub(bytes.max(8))
            .ok_or("its parts refer to each other so often that it cannot be a real model")?;
        self.budget.set(left);
        self.claim(bytes)
    }

    /// Claims memory for what becomes of `bytes`.
    fn claim(&self, bytes: usize) -> Result<(), Wrong> {
        self.claims.take(Self::ROOM * bytes.max(8) as u64)
    }

    fn array<const N: usize>(&self, position: usize) -> Result<[u8; N], Wrong> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(position, N)?);
        Ok(array)
    }

    fn slice(&self, position: usize, length: usize) -> Result<&'a [u8], Wrong> {
        position
            .checked_add(length)
            .and_then(|end| self.bytes.get(position..end))
            .ok_or_else(|| format!("{length} bytes at {position} of {} are outside", self.bytes.len()))
    }

    /// The position that the reference at `position` points to.
    fn follow(&self, position: usize) -> Result<usize, Wrong> {
        let distance = u32::from_le_bytes(self.array(position)?) as usize;
        if distance == 0 {
            return Err(format!("the reference at {position} points to itself"));
        }
        position.checked_add(distance).ok_or_else(|| format!("the reference at {position} points outside"))
    }

    fn table_at(&'a self, position: usize) -> Result<Table<'a>, Wrong> {
        let back = i64::from(i32::from_le_bytes(self.array(position)?));
        let vtable = i64::try_from(position).ok().and_then(|at| at.checked_sub(back));
        let vtable = vtable
            .and_then(|at| usize::try_from(at).ok())
            .ok_or_else(|| format!("the table at {position} has its field list outside"))?;
        let length = usize::from(u16::from_le_bytes(self.array(vtable)?));
        if length < 4 || !length.is_multiple_of(2) {
            return Err(format!("the table at {position} has a field list of {length} bytes"));
        }
        let slots = &self.slice(vtable, length)?[4..];
        self.visit(length)?;
        Ok(Table { buffer: self, position, slots })
    }

    /// The position of a vector's first element, and the number of elements, which have `size` bytes each.
    fn vector(&self, position: usize, size: usize) -> Result<(usize, usize), Wrong> {
        let start = self.follow(position)?;
        let count = u32::from_le_bytes(self.array(start)?) as usize;
        let first = start.saturating_add(4);
        let length = count.checked_mul(size).ok_or("a vector's size does not fit memory")?;
        self.slice(first, length)?;
        Ok((first, count))
    }
}

/// A table: fields by slot number, each there or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    buffer: &'a Buffer<'a>,
    position: usize,
    slots: &'a [u8],
}

macro_rules! scalars {
    ($($name:ident: $type:ty;)*) => {
        $(
            /// A scalar field, `default` where the file leaves it out.
            pub(crate) fn $name(&self, slot: usize, default: $type) -> Result<$type, Wrong> {
                match self.field(slot)? {
                    None => Ok(default),
                    Some(position) => Ok(<$type>::from_le_bytes(self.buffer.array(position)?)),
                }
            }
        )*
    };
}

impl<'a> Table<'a> {
    scalars! {
        u8: u8;
        u32: u32;
        i32: i32;
        u64: u64;
        i64: i64;
        f32: f32;
        f64: f64;
    }

    /// A flag, `default` where the file leaves it out.
    pub(crate) fn bool(&self, slot: usize, default: bool) -> Result<bool, Wrong> {
        Ok(self.u8(slot, u8::from(default))? != 0)
    }

    /// Where the field of `slot` lies, if the table has it.
    fn field(&self, slot: usize) -> Result<Option<usize>, Wrong> {
        let Some(entry) = self.slots.get(2 * slot..2 * slot + 2) else { return Ok(None) };
        let offset = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
        if offset == 0 {
            return Ok(None);
        }
        let position = self.position.checked_add(offset).ok_or("a field lies outside")?;
        Ok(Some(position))
    }

    /// A field that is a table.
    pub(crate) fn table(&self, slot: usize) -> Result<Option<Table<'a>>, Wrong> {
        self.field(slot)?.map(|position| self.buffer.root(position)).transpose()
    }

    /// A string; bytes that are not UTF-8 become replacement characters.
    pub(crate) fn text(&self, slot: usize) -> Result<Option<String>, Wrong> {
        Ok(self.bytes(slot)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// The bytes of a string or of a vector of bytes that is read here and now.
    pub(crate) fn bytes(&self, slot: usize) -> Result<Option<&'a [u8]>, Wrong> {
        let Some((first, length)) = self.blob(slot)? else { return Ok(None) };
        self.buffer.visit(length)?;
        self.buffer.slice(first, length).map(Some)
    }

    /// Where a vector of bytes lies in the buffer, and its length: for contents that are shared, not read.
    pub(crate) fn blob(&self, slot: usize) -> Result<Option<(usize, usize)>, Wrong> {
        self.field(slot)?.map(|position| self.buffer.vector(position, 1)).transpose()
    }

    /// A vector of structs of `size` bytes (or of scalars), as bytes.
    pub(crate) fn structs(&self, slot: usize, size: usize) -> Result<Option<&'a [u8]>, Wrong> {
        let Some(position) = self.field(slot)? else { return Ok(None) };
        let (first, count) = self.buffer.vector(position, size)?;
        self.buffer.visit(count * size)?;
        self.buffer.slice(first, count * size).map(Some)
    }

    /// A vector of unsigned integers; empty where the file leaves it out.
    pub(crate) fn u32s(&self, slot: usize) -> Result<Vec<u32>, Wrong> {
        let bytes = self.structs(slot, 4)?.unwrap_or_default();
        Ok(bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    /// A vector of 64-bit integers, `None` where the file leaves it out.
    pub(crate) fn i64s(&self, slot: usize) -> Result<Option<Vec<i64>>, Wrong> {
        let bytes = self.structs(slot, 8)?;
        Ok(bytes.map(|bytes| bytes.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word)).collect()))
    }

    /// A vector of 32-bit floats; empty where the file leaves it out.
    pub(crate) fn f32s(&self, slot: usize) -> Result<Vec<f32>, Wrong> {
        let bytes = self.structs(slot, 4)?.unwrap_or_default();
        Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
    }

    /// A field that is a union: its class at `slot`, not 0, and its table behind. `None` where the file leaves it out.
    pub(crate) fn union(&self, slot: usize) -> Result<Option<(u8, Table<'a>)>, Wrong> {
        match self.u8(slot, 0)? {
            0 => Ok(None),
            class => match self.table(slot + 1)? {
                None => Err(format!("a union says class {class} and has no table")),
                Some(table) => Ok(Some((class, table))),
            },
        }
    }

    /// A vector of unions: the classes at `slot`, the tables behind; `None` where a class is 0. Empty where the file leaves
    /// it out.
    pub(crate) fn unions(&self, slot: usize) -> Result<Vec<Option<(u8, Table<'a>)>>, Wrong> {
        let classes = self.bytes(slot)?.unwrap_or_default();
        let (first, count) = match self.field(slot + 1)? {
            None => (0, 0),
            Some(position) => self.buffer.vector(position, 4)?,
        };
        if classes.len() != count {
            return Err(format!("a vector of unions has {} classes and {count} tables", classes.len()));
        }
        self.buffer.visit(count.saturating_mul(4))?;
        let one = |(index, &class): (usize, &u8)| match class {
            // Nothing that its reference points to is meant.
            0 => Ok(None),
            class => self.buffer.root(first + 4 * index).map(|table| Some((class, table))),
        };
        classes.iter().enumerate().map(one).collect()
    }

    /// Counts bytes that a reader is about to look at besides what the other functions return.
    pub(crate) fn visit(&self, bytes: usize) -> Result<(), Wrong> {
        self.buffer.visit(bytes)
    }

    /// Where the table begins.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// How many bytes of the buffer may still be visited.
    pub(crate) fn left(&self) -> usize {
        self.buffer.budget.get()
    }

    /// Claims memory for what becomes once more of `bytes` that were visited before.
    pub(crate) fn repeat(&self, bytes: usize) -> Result<(), Wrong> {
        self.buffer.claim(bytes)
    }

    /// A vector of tables; empty where the file leaves it out.
    pub(crate) fn tables(&self, slot: usize) -> Result<Vec<Table<'a>>, Wrong> {
        let Some(position) = self.field(slot)? else { return Ok(Vec::new()) };
        let (first, count) = self.buffer.vector(position, 4)?;
        self.buffer.visit(count.saturating_mul(4))?;
        (0..count).map(|index| self.buffer.root(first + 4 * index)).collect()
    }

    /// A vector of strings, `None` where the file leaves it out.
    pub(crate) fn texts(&self, slot: usize) -> Result<Option<Vec<String>>, Wrong> {
        let Some(position) = self.field(slot)? else { return Ok(None) };
        let (first, count) = self.buffer.vector(position, 4)?;
        self.buffer.visit(count.saturating_mul(4))?;
        let text = |index: usize| {
            let (first, length) = self.buffer.vector(first + 4 * index, 1)?;
            self.buffer.visit(length)?;
            Ok(String::from_utf8_lossy(self.buffer.slice(first, length)?).into_owned())
        };
        (0..count).map(text).collect::<Result<_, _>>().map(Some)
    }
}

/// A part of a buffer to be written.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// A table's fields.
    Table(TableBuilder),
    /// A string.
    Text(String),
    /// Bytes of a vector: number of elements, alignment of the first, contents.
    Vector(usize, usize, Bytes),
    /// A vector of references.
    Parts(Vec<Part>),
    /// A part that several refer to, by its place in the list that [`write_shared`] takes.
    Shared(usize),
}

/// A table to be written; fields that are not given read as their defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableBuilder {
    fields: Vec<(usize, Field)>,
}

#[derive(Clone, Debug)]
enum Field {
    Scalar(Vec<u8>),
    Part(Part),
}

impl TableBuilder {
    fn scalar(mut self, slot: usize, bytes: &[u8]) -> Self {
        self.fields.push((slot, Field::Scalar(bytes.to_vec())));
        self
    }

    /// A byte or flag.
    pub(crate) fn u8(self, slot: usize, value: u8) -> Self {
        self.scalar(slot, &[value])
    }

    /// A 32-bit integer.
    pub(crate) fn u32(self, slot: usize, value: u32) -> Self {
        self.scalar(slot, &value.to_le_bytes())
    }

    /// A signed 32-bit integer.
    pub(crate) fn i32(self, slot: usize, value: i32) -> Self {
        self.scalar(slot, &value.to_le_bytes())
    }

    /// A 64-bit integer.
    pub(crate) fn u64(self, slot: usize, value: u64) -> Self {
        self.scalar(slot, &value.to_le_bytes())
    }

    /// A signed 64-bit integer.
    pub(crate) fn i64(self, slot: usize, value: i64) -> Self {
        self.scalar(slot, &value.to_le_bytes())
    }

    /// A 32-bit float.
    pub(crate) fn f32(self, slot: usize, value: f32) -> Self {
        self.scalar(slot, &value.to_le_bytes())
    }

    /// A 64-bit float.
    pub(crate) fn f64(self, slot: usize, value: f64) -> Self {
        self.scalar(slot, &value.to_le_bytes())
    }

    /// A table, string or vector.
    pub(crate) fn part(mut self, slot: usize, part: Part) -> Self {
        self.fields.push((slot, Field::Part(part)));
        self
    }

    /// A string.
    pub(crate) fn text(self, slot: usize, text: &str) -> Self {
        self.part(slot, Part::Text(text.into()))
    }

    /// A table.
    pub(crate) fn table(self, slot: usize, table: Self) -> Self {
        self.part(slot, Part::Table(table))
    }

    /// A vector of bytes whose first has an address that is a multiple of `align`.
    pub(crate) fn bytes(self, slot: usize, bytes: &[u8], align: usize) -> Self {
        self.part(slot, Part::Vector(bytes.len(), align, Bytes::copy_from_slice(bytes)))
    }

    /// A vector of 32-bit integers.
    pub(crate) fn u32s(self, slot: usize, values: impl IntoIterator<Item = u32>) -> Self {
        let bytes: Vec<u8> = values.into_iter().flat_map(u32::to_le_bytes).collect();
        self.part(slot, Part::Vector(bytes.len() / 4, 4, bytes.into()))
    }

    /// A vector of 64-bit integers.
    pub(crate) fn i64s(self, slot: usize, values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.part(slot, Part::Vector(values.len(), 8, bytes.into()))
    }

    /// A vector of 32-bit floats.
    pub(crate) fn f32s(self, slot: usize, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.part(slot, Part::Vector(values.len(), 4, bytes.into()))
    }

    /// A union: its class at `slot`, its table behind.
    pub(crate) fn union(self, slot: usize, class: u8, table: Part) -> Self {
        self.u8(slot, class).part(slot + 1, table)
    }

    /// A vector of unions: the classes at `slot`, the tables behind.
    pub(crate) fn unions(self, slot: usize, unions: impl IntoIterator<Item = (u8, Part)>) -> Self {
        let (classes, tables): (Vec<u8>, Vec<Part>) = unions.into_iter().unzip();
        self.bytes(slot, &classes, 1).part(slot + 1, Part::Parts(tables))
    }

    /// A vector of tables.
    pub(crate) fn tables(self, slot: usize, tables: impl IntoIterator<Item = Self>) -> Self {
        self.part(slot, Part::Parts(tables.into_iter().map(Part::Table).collect()))
    }
}

/// Appends a buffer to `out`: the reference to the root, `identifier`, then everything else. References and alignments
/// count from the start of `out`.
pub(crate) fn write(out: &mut Vec<u8>, identifier: &[u8], root: TableBuilder) {
    write_shared(out, identifier, root, Vec::new());
}

/// As [`write`], with parts that [`Part::Shared`] refers to, which must not refer to such parts themselves. They come behind
/// all others, as references only point forwards.
pub(crate) fn write_shared(out: &mut Vec<u8>, identifier: &[u8], root: TableBuilder, shared: Vec<Part>) {
    let mut writer = Writer { out, vtables: HashMap::new(), waiting: vec![Vec::new(); shared.len()] };
    let reference = writer.out.len();
    writer.out.extend_from_slice(&[0; 4]);
    writer.out.extend_from_slice(identifier);
    writer.drain(reference, Part::Table(root));
    for (index, part) in shared.into_iter().enumerate() {
        if let [first, others @ ..] = std::mem::take(&mut writer.waiting[index]).as_slice() {
            let position = writer.drain(*first, part);
            for &reference in others {
                writer.refer(reference, position);
            }
        }
    }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    vtables: HashMap<Vec<u8>, usize>,
    /// Where references to shared parts stand.
    waiting: Vec<Vec<usize>>,
}

impl Writer<'_> {
    fn refer(&mut self, reference: usize, position: usize) {
        let distance = (position - reference) as u32;
        self.out[reference..reference + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Writes a part, and all that it refers to, and returns where it begins; `reference` is where the reference to it stands.
    fn drain(&mut self, reference: usize, part: Part) -> usize {
        let first = self.out.len();
        let mut start = None;
        // Parents before children, as references only point forwards.
        let mut queue = std::collections::VecDeque::from([(reference, part)]);
        while let Some((reference, part)) = queue.pop_front() {
            let out = &mut *self.out;
            let position = match part {
                Part::Table(table) => write_table(out, &mut self.vtables, table, &mut queue),
                Part::Text(text) => {
                    let position = write_vector(out, text.len(), 1, text.as_bytes());
                    out.push(0);
                    position
                }
                Part::Vector(count, align, bytes) => write_vector(out, count, align, &bytes),
                Part::Parts(parts) => {
                    let position = write_vector(out, parts.len(), 4, &vec![0; 4 * parts.len()]);
                    queue.extend(
                        parts.into_iter().enumerate().map(|(index, part)| (position + 4 + 4 * index, part)),
                    );
                    position
                }
                Part::Shared(index) => {
                    self.waiting[index].push(reference);
                    continue;
                }
            };
            start.get_or_insert(position);
            self.refer(reference, position);
        }
        start.unwrap_or(first)
    }
}

fn write_vector(out: &mut Vec<u8>, count: usize, align: usize, bytes: &[u8]) -> usize {
    // The count lies before the first element and has an alignment of its own.
    let align = align.max(4);
    out.resize((out.len() + 4).next_multiple_of(align) - 4, 0);
    let position = out.len();
    out.extend_from_slice(&(count as u32).to_le_bytes());
    out.extend_from_slice(bytes);
    position
}

fn write_table(
    out: &mut Vec<u8>,
    vtables: &mut HashMap<Vec<u8>, usize>,
    mut table: TableBuilder,
    queue: &mut std::collections::VecDeque<(usize, Part)>,
) -> usize {
    let size = |field: &Field| match field {
        Field::Scalar(bytes) => bytes.len(),
        Field::Part(_) => 4,
    };
    // Widest first, so that nothing but the start needs padding.
    table.fields.sort_by_key(|(_, field)| std::cmp::Reverse(size(field)));
    let wide = table.fields.iter().any(|(_, field)| size(field) == 8);
    let slots = table.fields.iter().map(|&(slot, _)| slot + 1).max().unwrap_or(0);
    // Behind the distance to the field list; eight-byte fields are aligned against the table, which is.
    let mut offset = if wide { 8 } else { 4 };
    let mut vtable = vec![0_u8; 4 + 2 * slots];
    for (slot, field) in &table.fields {
        vtable[4 + 2 * slot..][..2].copy_from_slice(&(offset as u16).to_le_bytes());
        offset += size(field);
    }
    let vtable_length = vtable.len() as u16;
    vtable[..2].copy_from_slice(&vtable_length.to_le_bytes());
    vtable[2..4].copy_from_slice(&(offset as u16).to_le_bytes());
    let list = *vtables.entry(vtable).or_insert_with_key(|vtable| {
        out.resize(out.len().next_multiple_of(2), 0);
        let list = out.len();
        out.extend_from_slice(vtable);
        list
    });
    out.resize(out.len().next_multiple_of(8), 0);
    let position = out.len();
    out.extend_from_slice(&((position - list) as i32).to_le_bytes());
    out.resize(position + if wide { 8 } else { 4 }, 0);
    for (_, field) in table.fields {
        match field {
            Field::Scalar(bytes) => out.extend_from_slice(&bytes),
            Field::Part(part) => {
                queue.push_back((out.len(), part));
                out.extend_from_slice(&[0; 4]);
            }
        }
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let child = TableBuilder::default().f32(0, 0.5).u8(2, 7);
        let root = TableBuilder::default()
            .u64(0, 1 << 40)
            .text(1, "name")
            .tables(3, [child.clone(), child.clone(), TableBuilder::default()])
            .u32s(4, [1, 2, 3])
            .table(5, child)
            .bytes(6, b"weights", 16)
            .part(7, Part::Parts(vec![Part::Text("a".into()), Part::Text(String::new())]));
        let mut out = Vec::new();
        write(&mut out, b"test", root);
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = sample();
        let buffer = Buffer::new(&bytes);
        let root = buffer.root(0).unwrap();
        assert_eq!(root.u64(0, 0).unwrap(), 1 << 40);
        assert_eq!(root.text(1).unwrap().as_deref(), Some("name"));
        assert_eq!(root.u32(2, 9).unwrap(), 9);
        let children = root.tables(3).unwrap();
        assert_eq!(children.len(), 3);
        assert_eq!(children[1].f32(0, 0.0).unwrap(), 0.5);
        assert_eq!(children[1].u8(2, 0).unwrap(), 7);
        assert_eq!(children[2].u8(2, 3).unwrap(), 3);
        assert_eq!(root.u32s(4).unwrap(), [1, 2, 3]);
        assert_eq!(root.table(5).unwrap().unwrap().u8(2, 0).unwrap(), 7);
        assert_eq!(root.bytes(6).unwrap(), Some(&b"weights"[..]));
        assert!(root.blob(6).unwrap().unwrap().0.is_multiple_of(16));
        assert_eq!(root.texts(7).unwrap().unwrap(), ["a", ""]);
        assert!(root.table(40).unwrap().is_none());
    }

    #[test]
    fn damage_is_an_error_or_another_value() {
        let bytes = sample();
        let walk = |bytes: &[u8]| -> Result<(), Wrong> {
            let buffer = Buffer::new(bytes);
            let root = buffer.root(0)?;
            root.u64(0, 0)?;
            root.text(1)?;
            for child in root.tables(3)? {
                child.f32(0, 0.0)?;
            }
            root.u32s(4)?;
            root.texts(7)?;
            root.bytes(6).map(drop)
        };
        assert!(walk(&bytes).is_ok());
        for index in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[index] = value;
                let _ = walk(&bytes);
            }
            // The zero behind the last string is nothing that is read.
            assert_eq!(walk(&bytes[..index]).is_err(), index + 1 < bytes.len(), "cut at {index}");
        }
    }

    /// The number of tables below this one, over every path.
    fn count_all(table: Table<'_>) -> Result<usize, Wrong> {
        let mut count = 1;
        for child in table.tables(0)? {
            count += count_all(child)?;
        }
        Ok(count)
    }

    #[test]
    fn a_buffer_that_multiplies_itself_is_refused() {
        // Four levels, each a table whose vector refers 4096 times to the next level's table.
        let count = 4096_usize;
        let mut bytes = 4_u32.to_le_bytes().to_vec();
        for _ in 0..4 {
            let table = bytes.len();
            bytes.extend_from_slice(&(-8_i32).to_le_bytes()); // its field list lies 8 behind
            bytes.extend_from_slice(&8_u32.to_le_bytes()); // the field: the vector, 12 behind the table
            bytes.extend_from_slice(&[6, 0, 8, 0, 4, 0, 0, 0]);
            let vector = table + 16;
            bytes[table + 4..table + 8].copy_from_slice(&12_u32.to_le_bytes());
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
            let next = vector + 4 + 4 * count;
            for index in 0..count {
                bytes.extend_from_slice(&((next - (vector + 4 + 4 * index)) as u32).to_le_bytes());
            }
        }
        bytes.extend_from_slice(&(-4_i32).to_le_bytes());
        bytes.extend_from_slice(&[4, 0, 4, 0]);
        let buffer = Buffer::new(&bytes);
        let error = count_all(buffer.root(0).unwrap()).unwrap_err();
        assert!(error.contains("so often"), "{error}");
    }
}
