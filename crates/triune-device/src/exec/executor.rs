//! A program on a memory, with all that it needs to run again and again.

use std::{ops::Range, sync::Arc};

use triune_kernels::{Isa, Pool};

use super::{Decoded, Observer, Scratch, SegmentTable, Stream, operands::SegRange};
use crate::{Error, Memory};

/// A program bound to a memory: decodes when it must, owns its scratch buffer, runs.
#[derive(Debug)]
pub struct Executor {
    memory: Arc<Memory>,
    stream: Stream,
    isa: Isa,
    decoded: Decoded,
    scratch: Scratch,
}

impl Executor {
    /// Decodes the program at `stream`; weights are packed for `isa`.
    ///
    /// # Errors
    /// As [`Decoded::new`].
    pub fn new(
        memory: Arc<Memory>,
        segments: &SegmentTable,
        stream: Stream,
        isa: Isa,
    ) -> Result<Self, Error> {
        let decoded = Decoded::new(&memory, segments, stream, isa)?;
        Ok(Self { memory, stream, isa, decoded, scratch: Scratch::default() })
    }

    /// The program of `decoded` on segments of its own, with the same packed weights.
    ///
    /// # Errors
    /// As [`Decoded::rebind`].
    pub fn sharing(
        memory: Arc<Memory>,
        decoded: &Decoded,
        segments: &SegmentTable,
        stream: Stream,
        isa: Isa,
    ) -> Result<Self, Error> {
        let mut decoded = decoded.clone();
        decoded.rebind(&memory, segments)?;
        Ok(Self { memory, stream, isa, decoded, scratch: Scratch::default() })
    }

    /// The same for a part of a longer program, whose other parts run on the same feature maps and outputs. Who runs the parts
    /// says what each makes ([`Memory::forget`]).
    #[must_use]
    pub fn into_part(self) -> Self {
        Self { decoded: self.decoded.into_part(), ..self }
    }

    /// The same for a program that leaves some bytes of its outputs to the host, which wrote them once: all that runs write is
    /// `results`, each the index of a segment, the first byte and the bytes. The sanitizer reports who reads one of these before
    /// the run at hand has written it.
    #[must_use]
    pub fn with_results(mut self, results: impl IntoIterator<Item = (u16, u64, u64)>) -> Self {
        let results = results.into_iter().map(|(segment, start, len)| SegRange { segment, start, len });
        self.decoded = self.decoded.making(results);
        self
    }

    /// The program as last decoded.
    pub fn decoded(&self) -> &Decoded {
        &self.decoded
    }

    /// The memory that the program is bound to.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Moves the program to other segments; decodes again only when instructions or constants move.
    ///
    /// # Errors
    /// As [`Decoded::new`]; the program stays where it was then.
    pub fn bind(&mut self, segments: &SegmentTable) -> Result<(), Error> {
        if self.decoded.rebind(&self.memory, segments).is_err() {
            self.decoded = self.decode(segments)?;
        }
        Ok(())
    }

    /// Decodes anew.
    fn decode(&self, segments: &SegmentTable) -> Result<Decoded, Error> {
        Ok(Decoded::new(&self.memory, segments, self.stream, self.isa)?.in_place_of(&self.decoded))
    }

    /// Allocates all that a run with a pool of `threads` threads needs, so that the first run does not.
    ///
    /// # Errors
    /// [`Error::HostMemory`].
    pub fn reserve(&mut self, threads: usize) -> Result<(), Error> {
        Ok(self.scratch.reserve(self.decoded.scratch_bytes(threads))?)
    }

    /// Runs the program once; decodes it first if its instructions or constants changed.
    ///
    /// Allocates nothing otherwise, the first run with a larger pool aside.
    ///
    /// # Errors
    /// As [`Decoded::new`] and [`Decoded::run`].
    pub fn run(&mut self, pool: &Pool, observer: Option<&mut Observer<'_>>) -> Result<(), Error> {
        self.run_part(0..usize::MAX, pool, observer)
    }

    /// As [`Self::run`], of some of the commands by their index, on what those before them left: a run begins with the first.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_part(
        &mut self,
        commands: Range<usize>,
        pool: &Pool,
        observer: Option<&mut Observer<'_>>,
    ) -> Result<(), Error> {
        if self.decoded.is_stale() {
            self.decoded.check_chunks(&self.memory)?;
            let segments = self.decoded.segments().clone();
            self.decoded = self.decode(&segments)?;
        }
        self.reserve(pool.threads())?;
        self.decoded.run_part(&self.memory, commands, self.scratch.bytes(), pool, observer)
    }
}
