//! The candidates of a detector: of all positions and anchors those with a score above a threshold, each with its channels
//! and where it is.

use triune_tensor::text::List;

use crate::{Error, work};

/// Bytes that channels are counted in: 64 of 8 bits, 32 of 16, which are two blocks of a feature map.
pub const UNIT_BYTES: usize = 64;
/// Bytes that rows are written in.
pub const WORD_BYTES: usize = 8;
/// Blocks of channels of a feature map in a unit.
const BLOCKS: usize = 2;
const BLOCK_BYTES: usize = UNIT_BYTES / BLOCKS;

/// Which candidates there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The first units are compared, so many; all but the last as a whole. (Known for one unit; inferred for more.)
    pub units: usize,
    /// Channels of the last of them that are not compared, a bit each, the first channel's lowest.
    pub mask: u64,
    /// What one of them has to be larger than.
    pub threshold: i32,
}

/// What gathers the candidates of one group of feature maps: the parts of one level of a detector.
///
/// A row has the units of each part, of the last unit as many words as are valid, and, with a comparison, a word of four
/// 16-bit integers: 0 (inferred), column, row and anchor. Rows are ordered by row, column, anchor (inferred). Without a
/// comparison all are there, without the word (the word's bytes are not counted then; the rest is inferred).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetPost {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Anchors at each position.
    pub anchors: usize,
    /// Units of one anchor in each part, 1 to 3 of them.
    pub parts: Vec<usize>,
    /// Words of the last unit that are written, 1 to 8.
    pub valid: usize,
    /// The comparison, if there is one.
    pub compare: Option<Compare>,
    /// Elements are int16, not int8.
    pub wide: bool,
}

impl DetPost {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`Error::Board`] says what.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |problem: String| Err(Error::Board(format!("DetPost: {problem}")));
        if self.width == 0 || self.height == 0 || self.anchors == 0 {
            return refuse(format!(
                "maps of {}x{} positions with {} anchors have no candidates",
                self.height, self.width, self.anchors
            ));
        }
        if !(1..=3).contains(&self.parts.len()) || self.parts.contains(&0) {
            return refuse(format!("1 to 3 parts of at least one unit can be, not {}", List(&self.parts)));
        }
        if !(1..=UNIT_BYTES / WORD_BYTES).contains(&self.valid) {
            return refuse(format!("{} words of the last unit; 1 to 8 can be", self.valid));
        }
        let Some(units) = self.parts.iter().try_fold(0_usize, |sum, &units| sum.checked_add(units)) else {
            return refuse("more channels than can be counted".to_owned());
        };
        match self.compare {
            Some(compare) if !(1..=units).contains(&compare.units) => {
                refuse(format!("{} units are to be compared of {units}", compare.units))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of the feature map of each part.
    ///
    /// # Errors
    /// As [`Self::check`]; [`Error::Board`] for more than can be counted.
    pub fn map_bytes(&self) -> Result<Vec<usize>, Error> {
        self.check()?;
        let all = |&units: &usize| {
            [self.width, self.height, self.anchors, UNIT_BYTES]
                .iter()
                .try_fold(units, |product: usize, &each| product.checked_mul(each))
        };
        let sizes: Option<Vec<usize>> = self.parts.iter().map(all).collect();
        sizes.ok_or_else(|| Error::Board("DetPost: maps of more bytes than can be counted".to_owned()))
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        let units = self.parts.iter().sum::<usize>().saturating_sub(1);
        units * UNIT_BYTES + (self.valid + usize::from(self.compare.is_some())) * WORD_BYTES
    }

    /// Candidates at most.
    pub fn most_rows(&self) -> usize {
        self.width.saturating_mul(self.height).saturating_mul(self.anchors)
    }

    /// Cycles of the logic's 200 MHz: one for each unit compared, and for each word written (inferred).
    pub fn cycles(&self, rows: usize) -> u64 {
        let compared = self.compare.map_or(0, |compare| compare.units as u64);
        let words = (self.row_bytes() / WORD_BYTES) as u64;
        (self.most_rows() as u64).saturating_mul(compared).saturating_add((rows as u64).saturating_mul(words))
    }

    /// The rows of the candidates in the maps of the parts, each in blocks of channels: anchors outermost, then blocks, rows,
    /// columns and the channels of a block.
    ///
    /// # Errors
    /// As [`Self::map_bytes`]; [`Error::Board`] for maps of other sizes or too little memory, [`Error::Cancelled`].
    pub fn run(&self, maps: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let sizes = self.map_bytes()?;
        if maps.len() != sizes.len() || maps.iter().zip(&sizes).any(|(map, &size)| map.len() != size) {
            let given: Vec<usize> = maps.iter().map(|map| map.len()).collect();
            return Err(Error::Board(format!(
                "DetPost: maps of {} bytes, which have to be {}",
                List(&given),
                List(&sizes)
            )));
        }
        let mut rows = Vec::new();
        for y in 0..self.height {
            work::go_on()?;
            for x in 0..self.width {
                for anchor in 0..self.anchors {
                    if self.is_candidate(maps, anchor, y, x) {
                        rows.try_reserve(self.row_bytes())
                            .map_err(|_| Error::Board("there is no memory for DetPost's rows".to_owned()))?;
                        self.put(maps, [anchor, y, x], &mut rows);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// A unit at a position, as the two blocks that it lies in.
    fn unit<'a>(&self, map: &'a [u8], units: usize, unit: usize, at: [usize; 3]) -> [&'a [u8]; BLOCKS] {
        let [anchor, y, x] = at;
        let positions = self.width * self.height;
        let first = (anchor * units + unit) * BLOCKS;
        [0, 1].map(|block| {
            let start = ((first + block) * positions + y * self.width + x) * BLOCK_BYTES;
            &map[start..start + BLOCK_BYTES]
        })
    }

    fn is_candidate(&self, maps: &[&[u8]], anchor: usize, y: usize, x: usize) -> bool {
        let Some(compare) = self.compare else { return true };
        let mut left = compare.units;
        for (map, &units) in maps.iter().zip(&self.parts) {
            for unit in 0..units {
                let mask = if left == 1 { compare.mask } else { 0 };
                let blocks = self.unit(map, units, unit, [anchor, y, x]);
                let bytes = blocks.iter().flat_map(|block| block.iter().copied());
                let above =
                    |(index, value): (usize, i32)| mask >> index & 1 == 0 && value > compare.threshold;
                let found = if self.wide {
                    let elements = blocks.iter().flat_map(|block| block.chunks_exact(2));
                    let values = elements.map(|pair| i32::from(i16::from_le_bytes([pair[0], pair[1]])));
                    values.enumerate().any(above)
                } else {
                    bytes.map(|byte| i32::from(byte as i8)).enumerate().any(above)
                };
                if found {
                    return true;
                }
                left -= 1;
                if left == 0 {
                    return false;
                }
            }
        }
        false
    }

    fn put(&self, maps: &[&[u8]], at: [usize; 3], rows: &mut Vec<u8>) {
        let last = self.parts.len() - 1;
        for (part, (map, &units)) in maps.iter().zip(&self.parts).enumerate() {
            for unit in 0..units {
                let blocks = self.unit(map, units, unit, at);
                let whole = part != last || unit + 1 != units;
                let bytes = if whole { UNIT_BYTES } else { self.valid * WORD_BYTES };
                let first = bytes.min(BLOCK_BYTES);
                rows.extend_from_slice(&blocks[0][..first]);
                rows.extend_from_slice(&blocks[1][..bytes - first]);
            }
        }
        if self.compare.is_some() {
            let [anchor, y, x] = at;
            for value in [0, x, y, anchor] {
                rows.extend_from_slice(&(value as u16).to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map in blocks of what a function gives for anchor, channel, row and column.
    fn map(post: &DetPost, units: usize, value: impl Fn(usize, usize, usize, usize) -> i32) -> Vec<u8> {
        let bytes = if post.wide { 2 } else { 1 };
        let channels = BLOCK_BYTES / bytes;
        let mut all = Vec::new();
        for block in 0..post.anchors * units * BLOCKS {
            for y in 0..post.height {
                for x in 0..post.width {
                    for c in 0..channels {
                        let (anchor, within) = (block / (units * BLOCKS), block % (units * BLOCKS));
                        let made = value(anchor, within * channels + c, y, x) as i16;
                        all.extend_from_slice(&made.to_le_bytes()[..bytes]);
                    }
                }
            }
        }
        all
    }

    /// The layout of a published network: 85 channels of 3 anchors, padded to 128, the fifth channel compared.
    #[test]
    fn rows_are_those_that_clients_read() {
        let compare = Compare { units: 1, mask: !(1 << 4), threshold: -15 };
        let post = DetPost {
            width: 3,
            height: 2,
            anchors: 3,
            parts: vec![2],
            valid: 3,
            compare: Some(compare),
            wide: false,
        };
        assert_eq!((post.row_bytes(), post.map_bytes().expect("small")), (96, vec![3 * 2 * 3 * 128]));
        let value = |anchor: usize, c: usize, y: usize, x: usize| {
            let hit = (anchor, y, x) == (1, 0, 2) || (anchor, y, x) == (2, 1, 0);
            match c {
                4 if hit => -14,
                4 => -15,
                _ => (c as i32 % 100) + 1,
            }
        };
        let maps = map(&post, 2, value);
        let rows = post.run(&[&maps]).expect("fits");
        assert_eq!(rows.len(), 2 * 96);
        for (row, [anchor, y, x]) in rows.chunks_exact(96).zip([[1, 0, 2], [2, 1, 0]]) {
            assert_eq!(row[4] as i8, -14);
            assert!(
                (0..88).filter(|&c| c != 4).all(|c| i32::from(row[c]) == (c as i32 % 100) + 1),
                "{row:?}"
            );
            assert_eq!(row[88..], [0, 0, x, 0, y, 0, anchor, 0]);
        }
        assert_eq!(post.cycles(2), 18 + 24);
        // None above.
        let none = DetPost { compare: Some(Compare { threshold: -14, ..compare }), ..post.clone() };
        assert!(none.run(&[&maps]).expect("fits").is_empty());
        // All, without places.
        let all = DetPost { compare: None, ..post };
        assert_eq!(all.run(&[&maps]).expect("fits").len(), 18 * 88);
    }

    /// 16-bit elements in two parts; of the compared units the last has a mask.
    #[test]
    fn parts_follow_each_other() {
        let compare = Compare { units: 2, mask: !1, threshold: 1000 };
        let post = DetPost {
            width: 300,
            height: 1,
            anchors: 1,
            parts: vec![2, 1],
            valid: 1,
            compare: Some(compare),
            wide: true,
        };
        // Above in the first unit, in the compared channel of the second, and in one that is not compared.
        let first = map(&post, 2, |_, c, _, x| match (x, c) {
            (1, 31) | (299, 32) | (7, 33) => 1001,
            _ => -5,
        });
        let second = map(&post, 1, |_, c, _, x| (x * 10 + c) as i32);
        let rows = post.run(&[&first, &second]).expect("fits");
        assert_eq!(post.row_bytes(), 128 + 8 + 8);
        let words = |row: &[u8]| -> Vec<i16> {
            row.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
        };
        let rows: Vec<Vec<i16>> = rows.chunks_exact(144).map(words).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0][31], rows[1][32]), (1001, 1001));
        assert_eq!(rows[0][64..], [10, 11, 12, 13, 0, 1, 0, 0]);
        assert_eq!(rows[1][64..], [2990, 2991, 2992, 2993, 0, 299, 0, 0]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let post =
            DetPost { width: 1, height: 1, anchors: 1, parts: vec![1], valid: 8, compare: None, wide: false };
        let said = |post: &DetPost, maps: &[&[u8]]| post.run(maps).expect_err("refused").to_string();
        assert!(said(&post, &[&[0; 63]]).contains("maps of [63] bytes, which have to be [64]"));
        assert!(said(&DetPost { parts: vec![1, 0], ..post.clone() }, &[]).contains("1 to 3 parts"));
        assert!(said(&DetPost { valid: 9, ..post.clone() }, &[]).contains("9 words"));
        assert!(said(&DetPost { width: 0, ..post.clone() }, &[]).contains("no candidates"));
        let compare = Compare { units: 2, mask: 0, threshold: 0 };
        assert!(said(&DetPost { compare: Some(compare), ..post.clone() }, &[]).contains("2 units"));
        let huge = DetPost { width: usize::MAX, height: 2, ..post };
        assert!(said(&huge, &[]).contains("more bytes than can be counted"));
    }
}
