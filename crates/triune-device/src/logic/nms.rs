//! Of boxes that overlap, the first.

use crate::{Error, work};

/// Bytes of a box: left, upper, right and lower edge and the class, 16-bit integers.
const BOX_BYTES: usize = 10;
/// Fraction bits of the threshold.
const FRACTION: u32 = 15;

/// Which boxes suppress others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Those of the same class.
    SameClass,
    /// Those of all classes.
    AllClasses,
}

/// What keeps, of boxes in the order of their scores, each that overlaps no kept one before it by more than a threshold.
///
/// The overlap is the intersection divided by the union, without rounding, of boxes whose right and lower edges are not part of
/// them (inferred).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nms {
    /// The threshold, times 2¹⁵.
    pub threshold: u32,
    /// Which boxes suppress others.
    pub overlap: Overlap,
}

impl Nms {
    /// Bytes of so many boxes.
    pub const fn bytes(boxes: usize) -> usize {
        boxes * BOX_BYTES
    }

    /// A bit for each box, the first lowest: whether it is kept.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn run(self, boxes: &[u8]) -> Result<Vec<u8>, Error> {
        let read = |bytes: &[u8]| -> [i64; 5] {
            std::array::from_fn(|at| i16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).into())
        };
        let boxes: Vec<[i64; 5]> = boxes.chunks_exact(BOX_BYTES).map(read).collect();
        let mut mask = vec![0_u8; boxes.len().div_ceil(8)];
        let mut kept: Vec<&[i64; 5]> = Vec::new();
        for (index, each) in boxes.iter().enumerate() {
            work::go_on()?;
            if kept.iter().any(|other| self.suppresses(other, each)) {
                continue;
            }
            kept.push(each);
            mask[index / 8] |= 1 << (index % 8);
        }
        Ok(mask)
    }

    fn suppresses(self, a: &[i64; 5], b: &[i64; 5]) -> bool {
        let side = |low: usize, high: usize| (a[high].min(b[high]) - a[low].max(b[low])).max(0);
        let area = |each: &[i64; 5]| (each[2] - each[0]).max(0) * (each[3] - each[1]).max(0);
        let common = side(0, 2) * side(1, 3);
        let union = area(a) + area(b) - common;
        (self.overlap == Overlap::AllClasses || a[4] == b[4])
            && common << FRACTION > i64::from(self.threshold) * union
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_that_overlap_is_kept() {
        let boxes: [[i16; 5]; 5] = [
            [0, 0, 10, 10, 1],
            // Half of it, another class.
            [0, 0, 10, 5, 2],
            // 9 of 10 rows.
            [0, 0, 10, 9, 1],
            // Beside it.
            [10, 0, 20, 10, 1],
            // Nothing.
            [3, 3, 3, 3, 1],
        ];
        let bytes: Vec<u8> = boxes.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes.len(), Nms::bytes(5));
        let kept = |threshold: f64, overlap| {
            let threshold = (threshold * 32768.0) as u32;
            Nms { threshold, overlap }.run(&bytes).expect("runs")
        };
        assert_eq!(kept(0.5, Overlap::SameClass), [0b11011]);
        assert_eq!(kept(0.4, Overlap::AllClasses), [0b11001]);
        assert_eq!(kept(0.5, Overlap::AllClasses), [0b11011], "not more than half");
        assert_eq!(kept(0.95, Overlap::SameClass), [0b11111]);
        assert!(Nms { threshold: 0, overlap: Overlap::SameClass }.run(&[]).expect("runs").is_empty());
    }
}
