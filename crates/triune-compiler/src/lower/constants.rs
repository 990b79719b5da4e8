//! The constants segment while it grows.

use std::collections::HashMap;

use triune_tensor::{OutOfMemory, memory};

use super::ALIGNMENT;

/// Bytes of segment 1; small equal pieces are kept once.
#[derive(Debug, Default)]
pub(super) struct ConstantPool {
    bytes: Vec<u8>,
    small: HashMap<Vec<u8>, u64>,
    pieces: Vec<[u64; 2]>,
    /// A piece that there was no memory for; what follows it is left out.
    refused: Option<OutOfMemory>,
}

impl ConstantPool {
    /// Pieces up to this size are looked up before they are added: tables, biases, multipliers.
    const SMALL: usize = 4096;

    /// The aligned offset of a piece with this content.
    pub(super) fn add(&mut self, piece: &[u8]) -> u64 {
        if piece.len() <= Self::SMALL
            && let Some(&offset) = self.small.get(piece)
        {
            return offset;
        }
        let offset = self.bytes.len().next_multiple_of(ALIGNMENT as usize);
        if self.refused.is_none() {
            self.refused = memory::grow(&mut self.bytes, ALIGNMENT as usize + piece.len()).err();
        }
        if self.refused.is_some() {
            return 0;
        }
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(piece);
        self.pieces.push([offset as u64, piece.len() as u64]);
        if piece.len() <= Self::SMALL {
            self.small.insert(piece.to_vec(), offset as u64);
        }
        offset as u64
    }

    /// As [`Self::add`], of f32 values.
    pub(super) fn add_f32(&mut self, values: &[f32]) -> u64 {
        self.add(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// As [`Self::add`], of i32 values.
    pub(super) fn add_i32(&mut self, values: &[i32]) -> u64 {
        self.add(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// Offset and length of each piece, in order.
    pub(super) fn pieces(&self) -> &[[u64; 2]] {
        &self.pieces
    }

    /// The whole segment, padded to the alignment.
    pub(super) fn into_bytes(mut self) -> Result<Vec<u8>, OutOfMemory> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let length = self.bytes.len().next_multiple_of(ALIGNMENT as usize);
        self.bytes.resize(length, 0);
        Ok(self.bytes)
    }
}
