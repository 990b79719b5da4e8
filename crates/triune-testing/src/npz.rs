//! Numpy's `.npz` archives, as the reference models' inputs and outputs come in.

use std::{collections::HashMap, path::Path};

use triune_tensor::DType;

/// One array of an archive, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// Elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Array {
    /// The elements of an f32 array.
    ///
    /// # Panics
    /// When the elements are of another type.
    pub fn to_f32(&self) -> Vec<f32> {
        assert_eq!(self.dtype, DType::F32);
        self.bytes
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect()
    }
}

/// The arrays of an archive by name, without the `.npy`.
///
/// # Panics
/// When the file is not an archive that numpy wrote: a test's data is wrong then.
pub fn load(path: &Path) -> HashMap<String, Array> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // The central directory's end record is the last 22 bytes, as there is no comment.
    let end = bytes.len().checked_sub(22).expect("a zip archive");
    assert_eq!(&bytes[end..end + 4], b"PK\x05\x06");
    let (count, mut at) = (u16_at(&bytes, end + 10), u32_at(&bytes, end + 16) as usize);
    let mut arrays = HashMap::new();
    for _ in 0..count {
        assert_eq!(&bytes[at..at + 4], b"PK\x01\x02");
        let method = u16_at(&bytes, at + 10);
        let packed = u32_at(&bytes, at + 20) as usize;
        let [name, extra, comment] = [28, 30, 32].map(|offset| usize::from(u16_at(&bytes, at + offset)));
        let local = u32_at(&bytes, at + 42) as usize;
        let title = std::str::from_utf8(&bytes[at + 46..][..name]).expect("a name");
        let head = [26, 28].map(|offset| usize::from(u16_at(&bytes, local + offset)));
        let data = &bytes[local + 30 + head[0] + head[1]..][..packed];
        let plain = match method {
            0 => data.to_vec(),
            8 => miniz_oxide::inflate::decompress_to_vec(data).expect("deflated bytes"),
            _ => panic!("compression method {method}"),
        };
        arrays.insert(title.trim_end_matches(".npy").into(), array(&plain));
        at += 46 + name + extra + comment;
    }
    arrays
}

/// An `.npy` file, versions 1 and 2: a Python dict of the type, order and shape, then the elements.
fn array(bytes: &[u8]) -> Array {
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let (start, length) =
        if bytes[6] == 1 { (10, usize::from(u16_at(bytes, 8))) } else { (12, u32_at(bytes, 8) as usize) };
    let header = std::str::from_utf8(&bytes[start..start + length]).expect("text");
    let value = |key: &str| header.split_once(key).expect("a key").1.trim_start_matches([':', ' ']);
    assert!(value("'fortran_order'").starts_with("False"));
    let dtype = match value("'descr'").split('\'').nth(1).expect("a type") {
        "<f4" => DType::F32,
        "<i4" => DType::I32,
        "<i8" => DType::I64,
        "|i1" => DType::I8,
        "|u1" => DType::U8,
        other => panic!("element type {other}"),
    };
    let list = value("'shape'").trim_start_matches('(').split(')').next().expect("a shape");
    let shape: Vec<usize> = list.split(',').filter_map(|extent| extent.trim().parse().ok()).collect();
    let bytes = bytes[start + length..].to_vec();
    assert_eq!(bytes.len(), shape.iter().product::<usize>() * dtype.bytes());
    Array { dtype, shape, bytes }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
