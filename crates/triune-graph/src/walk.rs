//! Walks over what a model has many of, which whoever loads it may stop.

use triune_cancel::Pace;

use crate::Error;

/// A walk over nodes: it looks at the first one, and then every few hundred, whether it is to go on.
#[derive(Debug)]
pub(crate) struct Walk(Pace);

impl Walk {
    /// Steps that a node takes, in the sense of [`Pace`]: a few microseconds.
    const NODE: usize = 1 << 10;

    pub(crate) const fn new() -> Self {
        Self(Pace::due())
    }

    /// Before a node.
    ///
    /// # Errors
    /// [`Error::Cancelled`] when somebody has stopped the work.
    pub(crate) fn node(&mut self) -> Result<(), Error> {
        if self.0.stops(Self::NODE) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
