//! Maps whose channels lie in blocks: taken apart to pixels with all their channels, and put together again.
//!
//! Kernels want the channels of a pixel in one run. A map of several blocks is gathered for them and scattered behind them;
//! one of a single block lies as kernels want it. Works on bytes: it knows the size of an element only by the padding.

use crate::cancel::spans;
use crate::parallel::{self, GRAIN, Shared};
use crate::{Error, Pool};

/// Where the bytes of a map with blocks of channels lie. Extents are above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Images, rows, columns.
    pub extents: [usize; 3],
    /// Bytes of a pixel's channels.
    pub channels: usize,
    /// Bytes of a block.
    pub block: usize,
    /// Bytes from one image, row and column to the next.
    pub strides: [usize; 3],
    /// Bytes from one block to the next.
    pub stride_block: usize,
    /// What the last block's padding holds, from an even byte on.
    pub fill: [u8; 2],
}

impl Blocked {
    /// Number of blocks.
    pub const fn blocks(&self) -> usize {
        self.channels.div_ceil(self.block)
    }

    /// Bytes of all pixels, one after the other.
    pub const fn dense_len(&self) -> usize {
        let [n, h, w] = self.extents;
        n.saturating_mul(h).saturating_mul(w).saturating_mul(self.channels)
    }

    /// Bytes from a row's first to its last, in one block.
    fn row_len(&self) -> usize {
        (self.extents[2] - 1).saturating_mul(self.strides[2]).saturating_add(self.block)
    }

    /// Bytes from the first to the last, or an error when rows of blocks share bytes or lie between each other.
    fn span(&self) -> Result<usize, Error> {
        let [n, h, _] = self.extents;
        if self.block == 0 || self.channels == 0 || self.extents.contains(&0) {
            return Err(Error::Invalid("an empty map in blocks"));
        }
        let mut axes = [(self.strides[0], n), (self.stride_block, self.blocks()), (self.strides[1], h)];
        axes.sort_unstable();
        let mut span = self.row_len();
        if self.extents[2] > 1 && self.strides[2] < self.block {
            return Err(Error::Invalid("blocks of two pixels share bytes"));
        }
        for (stride, dim) in axes.into_iter().filter(|&(_, dim)| dim > 1) {
            if stride < span {
                return Err(Error::Invalid("rows of a map in blocks share bytes or lie between each other"));
            }
            span = span.saturating_add((dim - 1).saturating_mul(stride));
        }
        Ok(span)
    }

    /// Whether the map can be used: its rows lie apart.
    ///
    /// Errors: extents of 0, rows that share bytes or lie between each other.
    pub fn check(&self) -> Result<(), Error> {
        self.span().map(|_| ())
    }

    /// First byte and length of each block's part of a pixel.
    fn parts(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (channels, block) = (self.channels, self.block);
        (0..self.blocks()).map(move |index| (index * block, block.min(channels - index * block)))
    }

    /// All channels of each pixel, one pixel after the other, padding left out.
    ///
    /// Errors: as [`Self::check`]; `x` shorter than the map, `y` of another length than [`Self::dense_len`].
    pub fn gather(&self, x: &[u8], y: &mut [u8], pool: &Pool) -> Result<(), Error> {
        Error::check_len("input", x.len(), self.span()?)?;
        Error::check_eq("gathered map", self.dense_len(), y.len())?;
        let [n, h, w] = self.extents;
        let row_bytes = w * self.channels;
        let shared = Shared::new(y);
        parallel::ranges(pool, n * h, (4 * GRAIN).div_ceil(row_bytes), &|range| {
            for row in range {
                let from = row / h * self.strides[0] + row % h * self.strides[1];
                // SAFETY: rows are disjoint and inside of the slice.
                let y = unsafe { shared.piece(row * row_bytes, row_bytes) };
                for (index, (first, len)) in self.parts().enumerate() {
                    let x = &x[from + index * self.stride_block..][..self.row_len()];
                    for part in spans(w, len) {
                        let (x, y) =
                            (&x[part.start * self.strides[2]..], &mut y[part.start * self.channels..]);
                        move_runs(x, self.strides[2], &mut y[first..], self.channels, len, part.len());
                    }
                }
            }
        });
        Ok(())
    }

    /// The opposite of [`Self::gather`]; the last block's padding gets [`Self::fill`].
    ///
    /// Errors: as [`Self::check`]; `x` of another length than [`Self::dense_len`], `y` shorter than the map.
    pub fn scatter(&self, x: &[u8], y: &mut [u8], pool: &Pool) -> Result<(), Error> {
        Error::check_len("output", y.len(), self.span()?)?;
        Error::check_eq("scattered map", self.dense_len(), x.len())?;
        let [n, h, w] = self.extents;
        let row_bytes = w * self.channels;
        let shared = Shared::new(y);
        parallel::ranges(pool, n * h, (4 * GRAIN).div_ceil(row_bytes), &|range| {
            for row in range {
                let to = row / h * self.strides[0] + row % h * self.strides[1];
                let x = &x[row * row_bytes..][..row_bytes];
                for (index, (first, len)) in self.parts().enumerate() {
                    // SAFETY: inside of the span that was checked; rows of blocks are disjoint.
                    let y = unsafe { shared.piece(to + index * self.stride_block, self.row_len()) };
                    for part in spans(w, len) {
                        let (x, y) =
                            (&x[part.start * self.channels..], &mut y[part.start * self.strides[2]..]);
                        move_runs(&x[first..], self.channels, y, self.strides[2], len, part.len());
                    }
                    if len < self.block {
                        for y in y.chunks_mut(self.strides[2].max(self.block)) {
                            self.fill_padding(&mut y[len..self.block], len);
                        }
                    }
                }
            }
        });
        Ok(())
    }

    /// Fills the padding of a map of a single block, whose channels lie as kernels want them.
    ///
    /// Errors: as [`Self::check`]; more than one block, `y` shorter than the map.
    pub fn pad(&self, y: &mut [u8]) -> Result<(), Error> {
        Error::check_len("output", y.len(), self.span()?)?;
        Error::check_eq("blocks", 1, self.blocks())?;
        let [n, h, w] = self.extents;
        for row in spans(n * h, w.saturating_mul(self.block)).flatten() {
            let to = row / h * self.strides[0] + row % h * self.strides[1];
            for column in spans(w, self.block).flatten() {
                let pixel = &mut y[to + column * self.strides[2]..][..self.block];
                self.fill_padding(&mut pixel[self.channels..], self.channels);
            }
        }
        Ok(())
    }

    fn fill_padding(&self, y: &mut [u8], first: usize) {
        for (at, y) in y.iter_mut().enumerate() {
            *y = self.fill[(first + at) % 2];
        }
    }
}

/// Copies `count` runs of `len` bytes between two strides; whole blocks have a loop of their own.
fn move_runs(x: &[u8], stride_x: usize, y: &mut [u8], stride_y: usize, len: usize, count: usize) {
    if len == 32 {
        for index in 0..count {
            y[index * stride_y..][..32].copy_from_slice(&x[index * stride_x..][..32]);
        }
    } else {
        for index in 0..count {
            y[index * stride_y..][..len].copy_from_slice(&x[index * stride_x..][..len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(extents: [usize; 3], channels: usize, block: usize, gap: usize) -> Blocked {
        let [_, h, w] = extents;
        let stride_w = block;
        let stride_h = w * stride_w + gap;
        let stride_block = h * stride_h;
        let stride_n = channels.div_ceil(block) * stride_block;
        let strides = [stride_n, stride_h, stride_w];
        Blocked { extents, channels, block, strides, stride_block, fill: [7, 9] }
    }

    #[test]
    fn there_and_back() {
        for (extents, channels, block, gap) in
            [([2, 3, 5], 70, 32, 0), ([1, 4, 1], 64, 32, 3), ([3, 1, 2], 10, 4, 1), ([1, 2, 2], 5, 8, 2)]
        {
            let map = map(extents, channels, block, gap);
            let span = map.span().unwrap();
            let x: Vec<u8> = (0..map.dense_len()).map(|i| (i * 37 % 251) as u8).collect();
            for threads in [1, 2] {
                let pool = Pool::new(threads);
                let mut y = vec![0xEE; span];
                map.scatter(&x, &mut y, &pool).unwrap();
                let [n, h, w] = extents;
                let mut seen = vec![false; span];
                for (at, &byte) in x.iter().enumerate() {
                    let (pixel, c) = (at / channels, at % channels);
                    let [i, r, q] = [pixel / (h * w), pixel / w % h, pixel % w];
                    let place = i * map.strides[0]
                        + c / block * map.stride_block
                        + r * map.strides[1]
                        + q * map.strides[2]
                        + c % block;
                    assert_eq!(y[place], byte);
                    seen[place] = true;
                }
                // Everything else is padding or a gap.
                let others = |value: u8| (0..span).filter(|&i| !seen[i] && y[i] == value).count();
                let padding = n * h * w * (map.blocks() * block - channels);
                assert_eq!(others(7) + others(9), padding);
                assert_eq!(others(0xEE), span - padding - x.len());
                let mut back = vec![0; x.len()];
                map.gather(&y, &mut back, &pool).unwrap();
                assert_eq!(back, x);
                if map.blocks() == 1 {
                    let mut padded = y.clone();
                    padded.iter_mut().zip(&seen).filter(|(_, seen)| !**seen).for_each(|(y, _)| *y = 0xEE);
                    map.pad(&mut padded).unwrap();
                    assert_eq!(padded, y);
                }
            }
        }
    }

    #[test]
    fn misfits_are_errors() {
        let good = map([1, 3, 5], 40, 32, 0);
        let pool = Pool::new(1);
        let (x, mut y) = (vec![0; good.dense_len()], vec![0; good.span().unwrap()]);
        good.scatter(&x, &mut y, &pool).unwrap();
        good.scatter(&x[1..], &mut y, &pool).unwrap_err();
        good.scatter(&x, &mut y[1..], &pool).unwrap_err();
        good.pad(&mut y).unwrap_err();
        for bad in [
            Blocked { strides: [0, 32, 96], ..good },
            Blocked { stride_block: 32, ..good },
            Blocked { strides: [0, 160, 31], ..good },
            Blocked { extents: [0, 3, 5], ..good },
            Blocked { strides: [usize::MAX; 3], ..good },
        ] {
            assert!(bad.scatter(&x, &mut y, &pool).is_err(), "{bad:?}");
        }
    }
}
