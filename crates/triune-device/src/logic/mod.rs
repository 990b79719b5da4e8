//! Operators in programmable logic beside an accelerator: what pictures become on their way in, which candidates of a detector
//! leave it, and which boxes of those stay.
//!
//! The arithmetic is that of the registers which public programs for the vendor's boards write; what those leave open is
//! inferred, and said where it is. Knows bytes, no board.

mod det_post;
mod image_make;
mod nms;

pub use det_post::{Compare, DetPost, UNIT_BYTES, WORD_BYTES};
pub use image_make::{Arrangement, CHANNELS, ImageMake};
pub use nms::{Nms, Overlap};

use crate::Error;

/// Room for `bytes` zero bytes.
fn room(bytes: usize) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    all.try_reserve_exact(bytes)
        .map_err(|_| Error::Board(format!("there are no {bytes} bytes of memory for the logic's data")))?;
    all.resize(bytes, 0);
    Ok(all)
}
