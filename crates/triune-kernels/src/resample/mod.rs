//! Pictures scaled as Pillow scales them, to its bits, and through tables into a network's input in the same pass.
//!
//! Along each axis an element is a weighted sum of bytes: weights of 22 bits, which [`weights`] makes, and a sum that is rounded
//! and cut off to a byte, before the other axis' turn. Columns first, rows are summed as a result needs them, and a few are kept:
//! as many as one row of the result is made of. Sums are integers, so that any order of adding gives the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod plain;
mod weights;

use crate::{Channels, Error, Isa, cancel::Pace, dispatch::Level};
use weights::Axis;

/// How the weight of an element falls with its distance; names and values are Pillow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResampleFilter {
    /// One within half an element.
    Box,
    /// Falls linearly to 0, at one element.
    Bilinear,
    /// A sinc of one element in a Hamming window.
    Hamming,
    /// Cubic pieces to two elements, a = −0.5.
    Bicubic,
    /// A sinc of three elements in the middle of a wider one.
    Lanczos,
}

impl ResampleFilter {
    /// Every filter.
    pub const ALL: [Self; 5] = [Self::Box, Self::Bilinear, Self::Hamming, Self::Bicubic, Self::Lanczos];

    /// Pillow's name, in small letters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Bilinear => "bilinear",
            Self::Hamming => "hamming",
            Self::Bicubic => "bicubic",
            Self::Lanczos => "lanczos",
        }
    }
}

/// What is scaled to what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResampleSpec {
    /// How elements are weighed.
    pub filter: ResampleFilter,
    /// Rows and columns of the picture.
    pub input: [usize; 2],
    /// What of it is shown: left, top, right and bottom, inside of the picture.
    pub part: [f32; 4],
    /// Rows and columns of the result.
    pub output: [usize; 2],
    /// Whether rows are summed up before columns are. As bytes are made in between, the order shows.
    pub down_first: bool,
}

/// Where a result lies in a network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResampleTarget {
    /// Which axis the channels are.
    pub channels: Channels,
    /// Rows and columns of the input.
    pub extents: [usize; 2],
    /// Row and column that the result begins at.
    pub origin: [usize; 2],
}

/// A scaling with its weights.
#[derive(Clone, Debug)]
pub struct Resample {
    spec: ResampleSpec,
    /// `None` where rows, or columns, stay as they are.
    across: Option<Axis>,
    down: Option<Axis>,
}

impl Resample {
    /// Works out the weights.
    ///
    /// Errors: no elements, more than 2³¹ − 1 of them, a part that is not inside of the picture, weights that are too large to be
    /// added up.
    pub fn new(spec: &ResampleSpec) -> Result<Self, Error> {
        let [left, top, right, bottom] = spec.part;
        let [rows, columns] = spec.input;
        let axis = |input: usize, from: f32, to: f32, output: usize| -> Result<Option<Axis>, Error> {
            if [input, output].iter().any(|&extent| extent == 0 || i32::try_from(extent).is_err()) {
                return Err(Error::Invalid("a picture has 1 to 2³¹ − 1 rows and columns"));
            }
            // Not as `!(from > to)`, which would let through what is no number.
            if !(from >= 0.0 && from <= to && f64::from(to) <= input as f64) {
                return Err(Error::Invalid("the part is not inside of the picture"));
            }
            if input == output && from == 0.0 && f64::from(to) == output as f64 {
                return Ok(None);
            }
            Axis::new(spec.filter, input, [from, to], output).map(Some)
        };
        Ok(Self {
            spec: *spec,
            across: axis(columns, left, right, spec.output[1])?,
            down: axis(rows, top, bottom, spec.output[0])?,
        })
    }

    /// Scales a picture whose pixels have so many bytes, 1, 3 or 4, row after row. For each table (channel, values) of a channel of
    /// the picture, elements are `values[byte]`; they become a channel of the target, in the order of the tables.
    ///
    /// Takes one thread: who has many pictures has threads of their own.
    ///
    /// Errors: slices that do not fit the extents, a target that the result is not inside of, other pixels, a channel that they do
    /// not have, more than a gigabyte of rows to keep.
    pub fn run<T: Copy>(
        &self,
        isa: Isa,
        x: &[u8],
        pixel: usize,
        tables: &[(usize, [T; 256])],
        y: &mut [T],
        target: &ResampleTarget,
    ) -> Result<(), Error> {
        if !matches!(pixel, 1 | 3 | 4) {
            return Err(Error::Invalid("pixels have 1, 3 or 4 bytes"));
        }
        if tables.iter().any(|&(channel, _)| channel >= pixel) {
            return Err(Error::Invalid("a table is of a channel that the picture does not have"));
        }
        let volume = |[rows, columns]: [usize; 2], each: usize| {
            let elements = rows.checked_mul(columns).and_then(|count| count.checked_mul(each));
            elements.ok_or(Error::Invalid("the extents overflow"))
        };
        Error::check_eq("pixels", volume(self.spec.input, pixel)?, x.len())?;
        Error::check_eq("elements of the input", volume(target.extents, tables.len())?, y.len())?;
        for axis in 0..2 {
            if target.extents[axis]
                .checked_sub(target.origin[axis])
                .is_none_or(|room| room < self.spec.output[axis])
            {
                return Err(Error::Invalid("the result is not inside of the input"));
            }
        }
        if self.kept_bytes(pixel) > MOST_KEPT {
            return Err(Error::Invalid("too many rows would have to be kept"));
        }
        let passes = Passes::new(Level::new(isa), self, pixel);
        let mut pace = Pace::new();
        let mut row = |row: usize, bytes: &[u8]| match pixel {
            1 => spread::<T, 1>(bytes, tables, y, target, row),
            _ => spread::<T, 4>(bytes, tables, y, target, row),
        };
        if self.spec.down_first {
            self.down_first(&passes, x, &mut pace, &mut row);
        } else {
            self.across_first(&passes, x, &mut pace, &mut row);
        }
        Ok(())
    }

    /// Gives `done` the rows of the result, until the work is to stop.
    fn across_first(
        &self,
        passes: &Passes<'_>,
        x: &[u8],
        pace: &mut Pace,
        done: &mut dyn FnMut(usize, &[u8]),
    ) {
        let [rows, columns] = self.spec.output;
        let (width, lane) = (self.spec.input[1] * passes.pixel, passes.lane());
        let pitch = columns.next_multiple_of(plain::STEP) * lane;
        let kept = self.down.as_ref().map_or(1, Axis::most);
        let (mut ring, mut result) = (vec![0_u8; kept * pitch], vec![0_u8; pitch]);
        let (mut offsets, mut tail, mut next) = (Vec::with_capacity(kept), Vec::new(), 0);
        for row in 0..rows {
            let (start, weights) = self.down.as_ref().map_or((row, &[1][..]), |down| down.taps(row));
            let end = start + weights.len();
            // Rows of the picture that no row of the result is made of are left out.
            next = next.max(start);
            while next < end {
                if pace.stops(self.work(pitch)) {
                    return;
                }
                let at = next % kept * pitch;
                passes.across(&x[next * width..], width, &mut ring[at..at + pitch], &mut tail);
                next += 1;
            }
            let bytes = if self.down.is_some() {
                if pace.stops(weights.len() * pitch / STEP) {
                    return;
                }
                offsets.clear();
                offsets.extend((start..end).map(|row| row % kept * pitch));
                passes.down(row, &ring, &offsets, weights, &mut result);
                &result
            } else {
                &ring
            };
            done(row, &bytes[..columns * lane]);
        }
    }

    /// As [`Self::across_first`], the other way.
    fn down_first(&self, passes: &Passes<'_>, x: &[u8], pace: &mut Pace, done: &mut dyn FnMut(usize, &[u8])) {
        let [rows, columns] = self.spec.output;
        let width = self.spec.input[1] * passes.pixel;
        let mut result = vec![0_u8; columns.next_multiple_of(plain::STEP) * passes.lane()];
        // Columns that nothing is made of are left out.
        let used = self.across.as_ref().map_or(0..self.spec.input[1], Axis::used);
        let used = used.start * passes.pixel..used.end * passes.pixel;
        let (mut summed, mut offsets, mut tail) = (vec![0_u8; width], Vec::new(), Vec::new());
        for row in 0..rows {
            let summed = if let Some(down) = &self.down {
                let (start, weights) = down.taps(row);
                if pace.stops(weights.len() * used.len() / STEP) {
                    return;
                }
                offsets.clear();
                offsets.extend((start..start + weights.len()).map(|row| row * width + used.start));
                passes.down(row, x, &offsets, weights, &mut summed[used.clone()]);
                &summed
            } else {
                &x[row * width..]
            };
            if pace.stops(self.work(result.len())) {
                return;
            }
            passes.across(summed, width, &mut result, &mut tail);
            done(row, &result[..columns * passes.lane()]);
        }
    }

    /// Bytes of rows that are kept, at most.
    fn kept_bytes(&self, pixel: usize) -> usize {
        let rows = self.down.as_ref().filter(|_| !self.spec.down_first).map_or(1, Axis::most);
        self.spec.output[1].saturating_mul(pixel + 1).saturating_mul(rows)
    }

    /// Steps that a row takes, about.
    fn work(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.across.as_ref().map_or(1, Axis::most)) / STEP
    }
}

/// Bytes of rows that may be kept, which is more than any picture has that is not scaled to next to nothing.
const MOST_KEPT: usize = 1 << 30;

/// Products that take about as long as a step.
const STEP: usize = 16;

/// The sums along rows and columns, as the machine does them.
struct Passes<'a> {
    pixel: usize,
    across: Option<&'a Axis>,
    #[cfg(target_arch = "x86_64")]
    packed: Option<avx2::Packed>,
    #[cfg(target_arch = "x86_64")]
    pairs: Option<avx2::Pairs>,
}

impl<'a> Passes<'a> {
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "one body for all others"))]
    fn new(level: Level, resample: &'a Resample, pixel: usize) -> Self {
        let across = resample.across.as_ref();
        // Made for that machine alone, so that whoever has them may use its instructions.
        #[cfg(target_arch = "x86_64")]
        let has = |_: &&Axis| level.isa() >= Isa::Avx2;
        Self {
            pixel,
            across,
            #[cfg(target_arch = "x86_64")]
            packed: across.filter(has).map(|axis| avx2::Packed::new(axis, pixel)),
            #[cfg(target_arch = "x86_64")]
            pairs: resample.down.as_ref().filter(has).map(avx2::Pairs::new),
        }
    }

    /// Bytes of a pixel of the result.
    fn lane(&self) -> usize {
        if self.pixel == 1 { 1 } else { 4 }
    }

    /// A row of the picture, which has `width` bytes and begins `x`, along its columns. `tail` is room for one.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "as above"))]
    fn across(&self, x: &[u8], width: usize, y: &mut [u8], tail: &mut Vec<u8>) {
        let Some(axis) = self.across else {
            return plain::copy(&x[..width], self.pixel, y);
        };
        #[cfg(target_arch = "x86_64")]
        if let Some(packed) = &self.packed {
            // Vectors reach into the next row, whose weights are 0, but not out of the picture.
            let x = if x.len() < packed.reach() {
                tail.clear();
                tail.extend_from_slice(&x[..width]);
                tail.resize(packed.reach().max(width), 0);
                &tail[..]
            } else {
                x
            };
            // SAFETY: packed weights are only made where the machine has AVX2.
            return unsafe { avx2::across(packed, self.pixel, x, y) };
        }
        plain::across(axis, &x[..width], self.pixel, y);
    }

    /// The rows that one of the result is made of, at those offsets, by their weights.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "as above"))]
    fn down(&self, row: usize, rows: &[u8], offsets: &[usize], weights: &[i32], y: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(pairs) = &self.pairs {
            // SAFETY: pairs are only made where the machine has AVX2.
            let done = unsafe { avx2::down(rows, offsets, pairs, row, y) };
            for (at, y) in y.iter_mut().enumerate().skip(done) {
                [*y] = plain::several(rows, offsets, weights, at);
            }
            return;
        }
        plain::down(rows, offsets, weights, y);
    }
}

/// A row of bytes through the tables into the target.
fn spread<T: Copy, const LANE: usize>(
    bytes: &[u8],
    tables: &[(usize, [T; 256])],
    y: &mut [T],
    target: &ResampleTarget,
    row: usize,
) {
    let [rows, columns] = target.extents;
    let first = (target.origin[0] + row) * columns + target.origin[1];
    let bytes = bytes.as_chunks::<LANE>().0;
    for (index, (channel, table)) in tables.iter().enumerate() {
        let byte = |bytes: &[u8; LANE]| usize::from(bytes[*channel % LANE]);
        match target.channels {
            Channels::First => {
                let y = &mut y[index * rows * columns + first..][..bytes.len()];
                y.iter_mut().zip(bytes).for_each(|(y, bytes)| *y = table[byte(bytes)]);
            }
            Channels::Last => {
                let y = &mut y[first * tables.len()..][..bytes.len() * tables.len()];
                let y = y.iter_mut().skip(index).step_by(tables.len());
                y.zip(bytes).for_each(|(y, bytes)| *y = table[byte(bytes)]);
            }
        }
    }
}
