//! A program on a device in parts, each run by itself: for operators one by one, and for what looks at memory between.

use std::sync::{Arc, Mutex, PoisonError};

use triune_device::{Addr, Executor, Memory, Segment, SegmentTable, Stream, command};
use triune_kernels::{Isa, Pool};

use super::{Device, Image, Loaded, Near};
use crate::{Error, Program};

/// A deployed program whose commands run in parts.
#[derive(Debug)]
pub struct Parts {
    memory: Arc<Memory>,
    segments: SegmentTable,
    /// First byte, bytes, and the decoded commands of each part that has been run.
    streams: Vec<([u64; 2], Mutex<Option<Executor>>)>,
    pool: Pool,
    _image: Image,
    loaded: Arc<Loaded>,
}

impl Parts {
    /// Loads a program for one image; `parts` has the first byte and the bytes of each among the instructions.
    pub fn new(
        device: &Arc<Device>,
        program: &Arc<Program>,
        parts: impl IntoIterator<Item = [u64; 2]>,
        threads: usize,
    ) -> Result<Self, Error> {
        program.check_device(device.spec())?;
        if program.batch != 1 {
            return Err(Error::argument(format!(
                "a program for a batch of {}, not of one image",
                program.batch
            )));
        }
        let near = Near::new(device.spec(), program, program.batch, None, None)?;
        let loaded = device.load(program, near)?;
        let pool = Pool::new(threads);
        let image = Image::new(device, program, &loaded, 0, near, pool.threads())?;
        let segments = image.executor.decoded().segments().clone();
        let streams = parts.into_iter().map(|part| (part, Mutex::new(None))).collect();
        let memory = Arc::clone(device.memory());
        Ok(Self { memory, segments, streams, pool, _image: image, loaded })
    }

    /// Runs one part on what lies in memory. Decodes it the first time.
    pub fn run(&self, part: usize) -> Result<(), Error> {
        let Some(([first, bytes], executor)) = self.streams.get(part) else {
            return Err(Error::internal(format!("part {part} of {}", self.streams.len())));
        };
        if *bytes == 0 {
            return Ok(());
        }
        let mut executor = executor.lock().unwrap_or_else(PoisonError::into_inner);
        let executor = match &mut *executor {
            Some(executor) => executor,
            none => {
                let stream = Stream { addr: Addr::new(Program::INSTRUCTIONS, *first), len: *bytes };
                let memory = Arc::clone(&self.memory);
                let new = Executor::new(memory, &self.segments, stream, Isa::best());
                none.insert(new.map_err(|error| self.blame(*first, error))?.into_part())
            }
        };
        executor.run(&self.pool, None).map_err(|error| self.blame(*first, error))
    }

    /// An error of the part whose instructions begin at byte `first`, as one of the operator that the command came from.
    fn blame(&self, first: u64, error: triune_device::Error) -> Error {
        let program = &self.loaded.program;
        let before = program.instructions.get(..first as usize).map(command::decode);
        let before = before.and_then(Result::ok).map_or(0, |commands| commands.len() as u32);
        program.blame(before, error).into()
    }

    /// Whether a segment has such bytes.
    pub fn holds(&self, segment: u16, offset: u64, bytes: u64) -> bool {
        let found = self.segments.segments().get(usize::from(segment));
        found.is_some_and(|segment| offset.checked_add(bytes).is_some_and(|end| end <= segment.len))
    }

    /// Copies bytes of a segment.
    pub fn read(&self, segment: u16, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let segment = self.range(segment, offset, bytes.len())?;
        Ok(self.memory.read(segment.region, segment.base + offset, bytes)?)
    }

    /// Whether the memory's sanitizer is on, and wants to hear what parts make.
    pub fn is_watched(&self) -> bool {
        self.memory.is_watched()
    }

    /// Says that bytes of a segment hold nothing of value any more.
    pub fn forget(&self, segment: u16, offset: u64, bytes: u64) -> Result<(), Error> {
        let segment = self.range(segment, offset, bytes as usize)?;
        Ok(self.memory.forget(segment.region, segment.base + offset, bytes)?)
    }

    /// Replaces bytes of a segment.
    pub fn write(&self, segment: u16, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let segment = self.range(segment, offset, bytes.len())?;
        Ok(self.memory.write(segment.region, segment.base + offset, bytes)?)
    }

    fn range(&self, segment: u16, offset: u64, bytes: usize) -> Result<Segment, Error> {
        let found = self.segments.segments().get(usize::from(segment)).copied();
        found.filter(|_| self.holds(segment, offset, bytes as u64)).ok_or_else(|| {
            Error::program(format!(
                "{bytes} bytes at {segment}:{offset:#x} are outside of the program's memory"
            ))
        })
    }
}
