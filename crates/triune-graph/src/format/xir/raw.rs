//! The RAW container: the constants' bytes behind a table of where each one starts.
//!
//! ```text
//! 0   12   magic A5 "ICRAFT_RAW" A5
//! 12  4    number of constants N, u32
//! 16  12 N  { v_id: u32, offset from the file's start: u64 } each
//!          the bytes, one constant behind the other
//! ```
//!
//! All numbers are little-endian. A network without constants has an empty file, or none.

use std::{collections::HashSet, fmt::Write};

use md5::{Digest, Md5};

use super::malformed;
use crate::Error;

const MAGIC: [u8; 12] = *b"\xA5ICRAFT_RAW\xA5";
const HEADER: usize = MAGIC.len() + 4;
const ENTRY: usize = 12;

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEntry {
    /// The constant's `v_id`.
    pub v_id: u32,
    /// Its first byte, from the file's start.
    pub offset: u64,
    /// The bytes from there to the next constant that starts later, or to the file's end: as many as it has, or none.
    ///
    /// Constants without elements share the offset of the next one, so that only the document tells which has the bytes.
    pub length: u64,
}

/// The table of a RAW file, in the file's order, every range inside of the file.
///
/// # Errors
/// Bytes that are not a RAW file, an offset outside of the data, data that no constant has, a `v_id` given twice.
pub fn raw_table(bytes: &[u8]) -> Result<Vec<RawEntry>, Error> {
    raw_table_of(bytes, bytes.len() as u64)
}

/// How many bytes of a RAW file that starts with `start` (16 bytes or more) are header and table; what the file says, unchecked.
pub fn raw_table_bytes(start: &[u8]) -> u64 {
    let count =
        start.get(MAGIC.len()..HEADER).and_then(|count| count.try_into().ok()).map_or(0, u32::from_le_bytes);
    (HEADER + ENTRY * count as usize) as u64
}

/// As [`raw_table`], of a file of `size` bytes of which only header and table are at hand.
pub fn raw_table_of(bytes: &[u8], size: u64) -> Result<Vec<RawEntry>, Error> {
    if size == 0 {
        return Ok(Vec::new());
    }
    let bad = |reason: String| malformed(format!("RAW file: {reason}"));
    let Some((&magic, rest)) = bytes.split_first_chunk::<12>() else {
        return Err(bad(format!("it has {size} bytes, fewer than its header")));
    };
    if magic != MAGIC {
        return Err(bad("it does not start with the bytes A5 'ICRAFT_RAW' A5".to_owned()));
    }
    let Some((&count, table)) = rest.split_first_chunk::<4>() else {
        return Err(bad(format!("it has {size} bytes, fewer than its header")));
    };
    let count = u32::from_le_bytes(count) as usize;
    let Some(table) = count.checked_mul(ENTRY).and_then(|bytes| table.get(..bytes)) else {
        return Err(bad(format!("its table of {count} constants does not fit {size} bytes")));
    };
    let (first, end) = ((HEADER + table.len()) as u64, size);
    let mut seen = HashSet::with_capacity(count);
    let mut entries = Vec::with_capacity(count);
    for line in table.as_chunks::<ENTRY>().0 {
        let [a, b, c, d, offset @ ..] = *line;
        let (v_id, offset) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(offset));
        if !(first..=end).contains(&offset) {
            return Err(bad(format!(
                "constant {v_id} starts at byte {offset}, the data lie from {first} to {end}"
            )));
        }
        if !seen.insert(v_id) {
            return Err(bad(format!("constant {v_id} is in the table twice")));
        }
        entries.push(RawEntry { v_id, offset, length: 0 });
    }
    let mut starts: Vec<u64> = entries.iter().map(|entry| entry.offset).collect();
    starts.sort_unstable();
    starts.dedup();
    if let Some(&start) = starts.first().filter(|start| **start != first) {
        return Err(bad(format!("bytes {first} to {start} are of no constant")));
    }
    for entry in &mut entries {
        let next = starts.partition_point(|&start| start <= entry.offset);
        entry.length = starts.get(next).copied().unwrap_or(end) - entry.offset;
    }
    Ok(entries)
}

/// A RAW file of these constants in this order; empty without any.
///
/// # Errors
/// More constants than the table counts.
pub(super) fn raw_file(constants: &[(u32, &[u8])]) -> Result<Vec<u8>, Error> {
    if constants.is_empty() {
        return Ok(Vec::new());
    }
    let count = u32::try_from(constants.len())
        .map_err(|_| malformed("RAW file: it cannot hold 2^32 constants or more"))?;
    let mut offset = HEADER + ENTRY * constants.len();
    let mut file = Vec::with_capacity(offset + constants.iter().map(|(_, data)| data.len()).sum::<usize>());
    file.extend_from_slice(&MAGIC);
    file.extend_from_slice(&count.to_le_bytes());
    for (v_id, data) in constants {
        file.extend_from_slice(&v_id.to_le_bytes());
        file.extend_from_slice(&(offset as u64).to_le_bytes());
        offset += data.len();
    }
    for (_, data) in constants {
        file.extend_from_slice(data);
    }
    Ok(file)
}

/// The MD5 sum of `bytes` in lower-case hexadecimal, as `params_md5` has it.
pub fn md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().fold(String::with_capacity(32), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}
