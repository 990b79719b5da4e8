//! Pictures, channels last and a byte each, become a network's input in one pass: every channel goes through a table of its own,
//! into a plane of its own where the network has its channels in front.

use crate::{Error, cancel::spans};

/// Which axis of a network's input the channels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// The first: a plane each.
    First,
    /// The last, as in pictures.
    Last,
}

/// `y[c, p] = tables[c][x[p, c]]`, or `y[p, c]` with the channels [last](Channels::Last), for every pixel `p` and channel `c`.
///
/// Takes one thread: who has many pictures has threads of their own.
///
/// Errors: no tables, slices that are no whole number of pixels or differ in length.
pub fn pixels<T: Copy>(tables: &[[T; 256]], channels: Channels, x: &[u8], y: &mut [T]) -> Result<(), Error> {
    let count = tables.len();
    if count == 0 || !x.len().is_multiple_of(count) {
        return Err(Error::Invalid("the picture is no whole number of pixels"));
    }
    Error::check_eq("pixels", x.len(), y.len())?;
    let pixels = x.len() / count;
    for span in spans(pixels, count) {
        let x = &x[span.start * count..span.end * count];
        for (c, table) in tables.iter().enumerate() {
            let x = x.iter().skip(c).step_by(count);
            match channels {
                Channels::First => {
                    let y = &mut y[c * pixels + span.start..c * pixels + span.end];
                    y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]);
                }
                Channels::Last => {
                    let y = y[span.start * count..span.end * count].iter_mut().skip(c).step_by(count);
                    y.zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]);
                }
            }
        }
    }
    Ok(())
}
