//! Pictures to feature maps: mean, scale and padding, channels in blocks of four.

use super::room;
use crate::{Error, work};

/// Channels of a block of the result. Three channels get one of zeros, as in the vendor's networks; that fewer are filled up
/// likewise is inferred.
pub const CHANNELS: usize = 4;
/// Bits that products of the scale are cut off by.
const CUT: u32 = 10;
/// Cycles of a board's run over [`TIMED_PIXELS`] pixels: 5.62 ms, published for a detector of 608×1088, at the 100 MHz that
/// programs convert the logic's counter with.
const TIMED_CYCLES: u64 = 562_000;
const TIMED_PIXELS: u64 = 608 * 1088;

/// Integers of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// int8, 0 in the register.
    Int8,
    /// int16, 1 in the register.
    Int16,
    /// uint8, 2 in the register. The vendor's networks have none; Triune's do.
    Uint8,
}

impl Arrangement {
    /// The arrangement of a register's value.
    pub fn of(value: u32) -> Option<Self> {
        [Self::Int8, Self::Int16, Self::Uint8].get(value as usize).copied()
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 => 2,
        }
    }

    const fn range(self) -> (i64, i64) {
        match self {
            Self::Int8 => (-128, 127),
            Self::Int16 => (-32768, 32767),
            Self::Uint8 => (0, 255),
        }
    }
}

/// What makes a feature map of a picture: ⌊(pixel − mean) · scale / 2¹⁰⌋, saturated, in blocks of four channels.
///
/// That products are cut off by ten bits is said by programs that set the registers; that cutting off rounds down, and that
/// results saturate, is inferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageMake {
    /// Columns of the picture.
    pub width: usize,
    /// Rows of the picture.
    pub height: usize,
    /// Channels of the picture, 1 to 4.
    pub channels: usize,
    /// What is subtracted, per channel.
    pub mean: [i16; CHANNELS],
    /// What is multiplied with, times 2¹⁰, per channel.
    pub scale: [i16; CHANNELS],
    /// Zeros around the picture: rows above and below, columns left and right.
    pub pads: [usize; 4],
    /// Pixels are int16, not uint8.
    pub wide: bool,
    /// Integers of the result.
    pub arrangement: Arrangement,
}

impl ImageMake {
    /// Bytes of the picture.
    ///
    /// # Errors
    /// [`Error::Board`] for a picture without pixels, with other numbers of channels, or of more bytes than can be counted.
    pub fn input_bytes(&self) -> Result<usize, Error> {
        let each = self.channels * if self.wide { 2 } else { 1 };
        if !(1..=CHANNELS).contains(&self.channels) || self.width == 0 || self.height == 0 {
            return Err(Error::Board(format!(
                "ImageMake takes pictures of 1 to {CHANNELS} channels, not {}x{} of {}",
                self.width, self.height, self.channels
            )));
        }
        let pixels = self.width.checked_mul(self.height);
        pixels.and_then(|pixels| pixels.checked_mul(each)).ok_or_else(too_large)
    }

    /// Bytes of the result.
    ///
    /// # Errors
    /// [`Error::Board`] for more than can be counted.
    pub fn output_bytes(&self) -> Result<usize, Error> {
        let [above, below, left, right] = self.pads;
        let sum =
            |extent: usize, pads: [usize; 2]| pads.iter().try_fold(extent, |sum, &pad| sum.checked_add(pad));
        let extents = sum(self.height, [above, below]).zip(sum(self.width, [left, right]));
        let pixels = extents.and_then(|(rows, columns)| rows.checked_mul(columns));
        pixels
            .and_then(|pixels| pixels.checked_mul(CHANNELS * self.arrangement.bytes()))
            .ok_or_else(too_large)
    }

    /// Cycles of the logic's 100 MHz: linear in the picture's pixels (inferred) at the rate of the one published run.
    pub fn cycles(&self) -> u64 {
        let pixels = (self.width as u64).saturating_mul(self.height as u64);
        pixels.saturating_mul(TIMED_CYCLES).div_ceil(TIMED_PIXELS)
    }

    /// The feature map of a picture: rows, columns, channels; channels innermost.
    ///
    /// # Errors
    /// As [`Self::input_bytes`] and [`Self::output_bytes`]; [`Error::Board`] for a picture of another size,
    /// [`Error::Cancelled`].
    pub fn run(&self, picture: &[u8]) -> Result<Vec<u8>, Error> {
        let (wanted, bytes) = (self.input_bytes()?, self.arrangement.bytes());
        if picture.len() != wanted {
            return Err(Error::Board(format!(
                "ImageMake is set up for {}x{} pixels of {} channels, {wanted} bytes, and gets {}",
                self.width,
                self.height,
                self.channels,
                picture.len()
            )));
        }
        let mut map = room(self.output_bytes()?)?;
        let [above, _, left, right] = self.pads;
        let (low, high) = self.arrangement.range();
        let step = if self.wide { 2 } else { 1 };
        let line = (left + self.width + right) * CHANNELS * bytes;
        let rows = picture.chunks_exact(self.width * self.channels * step);
        for (row, out) in rows.zip(map.chunks_exact_mut(line).skip(above)) {
            work::go_on()?;
            let pixels = row.chunks_exact(self.channels * step);
            for (pixel, out) in pixels.zip(out.chunks_exact_mut(CHANNELS * bytes).skip(left)) {
                let values = pixel.chunks_exact(step).zip(out.chunks_exact_mut(bytes));
                for (channel, (value, out)) in values.enumerate() {
                    let value = match *value {
                        [low, high] => i16::from_le_bytes([low, high]).into(),
                        [byte] => byte.into(),
                        _ => 0_i64,
                    };
                    let product = (value - i64::from(self.mean[channel])) * i64::from(self.scale[channel]);
                    let made = (product >> CUT).clamp(low, high) as i16;
                    out.copy_from_slice(&made.to_le_bytes()[..bytes]);
                }
            }
        }
        Ok(map)
    }
}

fn too_large() -> Error {
    Error::Board("ImageMake: a picture of more bytes than can be counted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(width: usize, height: usize, channels: usize) -> ImageMake {
        ImageMake {
            width,
            height,
            channels,
            mean: [0; 4],
            scale: [1024; 4],
            pads: [0; 4],
            wide: false,
            arrangement: Arrangement::Int8,
        }
    }

    /// Every byte by the formula, in reals.
    #[test]
    fn every_byte_is_scaled_and_cut_off() {
        for (mean, scale, arrangement) in
            [(128, 1016, Arrangement::Int8), (-100, 517, Arrangement::Uint8), (7, 30000, Arrangement::Int16)]
        {
            let make = ImageMake { mean: [mean; 4], scale: [scale; 4], arrangement, ..plain(256, 1, 1) };
            let picture: Vec<u8> = (0..=255).collect();
            let map = make.run(&picture).expect("fits");
            let (low, high) = arrangement.range();
            for (pixel, block) in picture.iter().zip(map.chunks_exact(4 * arrangement.bytes())) {
                let real = (f64::from(*pixel) - f64::from(mean)) * f64::from(scale) / 1024.0;
                let wanted = (real.floor() as i64).clamp(low, high);
                let made = match arrangement {
                    Arrangement::Int8 => i64::from(block[0] as i8),
                    Arrangement::Uint8 => i64::from(block[0]),
                    Arrangement::Int16 => i64::from(i16::from_le_bytes([block[0], block[1]])),
                };
                assert_eq!(made, wanted, "{pixel} of {arrangement:?}");
                assert!(block[arrangement.bytes()..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn pictures_lie_within_their_padding() {
        let make = ImageMake { pads: [1, 2, 3, 1], ..plain(2, 1, 3) };
        let map = make.run(&[1, 2, 3, 4, 5, 6]).expect("fits");
        assert_eq!(map.len(), make.output_bytes().expect("small"));
        let mut wanted = vec![0_u8; 4 * 6 * 4];
        wanted[(6 + 3) * 4..(6 + 5) * 4].copy_from_slice(&[1, 2, 3, 0, 4, 5, 6, 0]);
        assert_eq!(map, wanted);
        // 16-bit pixels, saturated.
        let make = ImageMake { wide: true, ..plain(1, 1, 2) };
        assert_eq!(make.run(&[0x00, 0x80, 0xff, 0x7f]).expect("fits"), [0x80, 0x7f, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let said =
            |make: &ImageMake, bytes: usize| make.run(&vec![0; bytes]).expect_err("refused").to_string();
        assert!(said(&plain(2, 2, 3), 11).contains("2x2 pixels of 3 channels, 12 bytes, and gets 11"));
        assert!(said(&plain(0, 2, 3), 0).contains("0x2 of 3"));
        assert!(said(&plain(2, 2, 5), 20).contains("of 5"));
        assert!(said(&plain(usize::MAX, 2, 3), 0).contains("more bytes than can be counted"));
        let make = ImageMake { pads: [usize::MAX, 1, 0, 0], ..plain(1, 1, 1) };
        assert!(said(&make, 1).contains("more bytes than can be counted"));
        assert_eq!(plain(1088, 608, 3).cycles(), 562_000);
    }
}
