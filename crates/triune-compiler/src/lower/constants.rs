//! Where constants lie: the constants segment while it grows, tables that other programs have, too, and weights in the library.

use std::collections::HashMap;

use bytes::Bytes;
use triune_graph::{Constant, ValueId};
use triune_tensor::{OutOfMemory, Recipe, memory};

use super::Lowering;
use crate::ALIGNMENT;
use crate::{
    Error, Program,
    view::{Home, View},
};

impl Lowering<'_> {
    /// Where a value lies, maybe in blocks; constants are placed when first asked for.
    pub(super) fn mapped(&mut self, id: ValueId) -> Result<View, Error> {
        if let Some(view) = self.views[id.0 as usize] {
            return Ok(view);
        }
        let value = self.graph.value(id);
        let Some(constant) = &value.constant else {
            return Err(Error::Internal(format!("'{}' is read before anything makes it", value.name)));
        };
        let (dtype, shape) = (constant.dtype(), constant.shape());
        let view = match self.shared_table(constant.bytes()) {
            Some(table) => View::dense(table, dtype, shape),
            None => View::dense(Home::Constants, dtype, shape).at(self.constants.add(constant.bytes())),
        };
        self.views[id.0 as usize] = Some(view);
        Ok(view)
    }

    /// A constant's elements, or the recipe of those that are made of others for a library: it makes them when it packs them.
    pub(super) fn weight_elements(&self, constant: &Constant) -> (Bytes, Option<Recipe>) {
        match constant.recipe().filter(|_| self.library.is_some()) {
            Some(recipe) => (Bytes::new(), Some(recipe.clone())),
            None => (constant.bytes().clone(), None),
        }
    }

    /// A segment of its own for a large constant of the model's file: other extents make another program, and there it lies, too.
    fn shared_table(&mut self, bytes: &Bytes) -> Option<Home> {
        /// Bytes that are copied sooner than a segment is looked up.
        const LEAST: usize = 1 << 16;
        /// Segments are counted in 8 bits.
        const MOST: usize = 32;
        let library = self.library.filter(|_| bytes.len() >= LEAST)?;
        let same = |table: &Bytes| table.as_ptr() == bytes.as_ptr() && table.len() == bytes.len();
        if let Some(known) = self.tables.iter().position(same) {
            return Some(Home::Table(known as u32));
        }
        let before = usize::from(Program::FIRST_IO) + self.io.inputs.len() + self.io.outputs.len();
        let room = self.tables.len() < MOST && before + self.tables.len() + 1 < usize::from(u8::MAX);
        if !room || !library.has(bytes) {
            return None;
        }
        self.tables.push(bytes.clone());
        Some(Home::Table(self.tables.len() as u32 - 1))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces lie on lines of their own; small ones that are equal, up to a limit, lie there once.
    #[test]
    fn pieces_are_kept_apart_or_once() {
        let mut pool = ConstantPool::default();
        let small = |last: u8| [vec![7; ConstantPool::SMALL - 1], vec![last]].concat();
        let large = vec![7; ConstantPool::SMALL + 1];
        assert_eq!([pool.add(&[1, 2, 3]), pool.add(&[1, 2]), pool.add(&[1, 2, 3])], [0, 64, 0]);
        assert_eq!([pool.add(&small(1)), pool.add(&small(2)), pool.add(&small(1))], [128, 4224, 128]);
        assert_eq!([pool.add(&large), pool.add(&large)], [8320, 12480]);
        assert_eq!(pool.add_f32(&[1.5, -2.0]), 16640);
        // The bits of the same numbers.
        assert_eq!(pool.add_i32(&[0x3FC0_0000, i32::MIN | 0x4000_0000]), 16640);
        assert_eq!(pool.add_i32(&[-2]), 16704);
        let pieces =
            [[0, 3], [64, 2], [128, 4096], [4224, 4096], [8320, 4097], [12480, 4097], [16640, 8], [16704, 4]];
        assert_eq!(pool.pieces(), pieces);
        let bytes = pool.into_bytes().expect("room");
        assert_eq!(bytes.len(), 16768);
        assert_eq!((&bytes[..4], &bytes[64..67]), (&[1, 2, 3, 0][..], &[1, 2, 0][..]));
        assert_eq!((bytes[4223], bytes[8319], &bytes[8320..12417]), (1, 2, &*large));
        assert_eq!(bytes[16704..16709], [0xFE, 0xFF, 0xFF, 0xFF, 0]);
    }

    /// What there was no memory for once is not left out in silence.
    #[test]
    fn a_piece_that_is_refused_refuses_all() {
        let mut pool = ConstantPool { refused: Some(OutOfMemory { bytes: 5 }), ..ConstantPool::default() };
        assert_eq!((pool.add(&[1]), pool.pieces().len()), (0, 0));
        assert!(pool.into_bytes().is_err());
    }
}
