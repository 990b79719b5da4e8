//! Deployment: a program's segments get addresses in a device's memory, and runs move data in, execute, move data out.

pub(crate) mod parts;
mod results;

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use triune_device::{
    Addr, Chunk, Command, Decoded, DeviceSpec, Executor, Layout, Memory, Sanitize, SegmentKind, SegmentTable,
    Stream, Timeline, TimingOptions, command,
    spec::Precision,
    timing::{self, Asked},
    work,
};
use triune_fork::Brief;
use triune_kernels::{Isa, Pool};
use triune_tensor::memory::filled;

use crate::{
    Error, Program, TensorIo,
    between::{BetweenPart, Kept, keep_until_read},
    clock::{Demand, DeviceClock, MemoryUse, Meter, Realtime},
};

/// A simulated device: its description, its memory, and the programs whose constants lie in it.
#[derive(Debug)]
pub struct Device {
    spec: DeviceSpec,
    memory: Arc<Memory>,
    /// By the program's address, and whether its constants may lie in the memory for them.
    loaded: Brief<HashMap<(usize, bool), Weak<Loaded>>>,
    clock: Arc<DeviceClock>,
}

impl Device {
    /// A device with empty memory, watched by the sanitizer if the environment asks for it
    /// ([`Sanitize::from_environment`]).
    pub fn new(spec: DeviceSpec) -> Result<Arc<Self>, Error> {
        Self::with_sanitizer(spec, Sanitize::from_environment()?)
    }

    /// As [`Self::new`], with the sanitizer as said here.
    pub fn with_sanitizer(spec: DeviceSpec, sanitize: Sanitize) -> Result<Arc<Self>, Error> {
        let memory = Arc::new(Memory::with_sanitizer(&spec, sanitize)?);
        let clock = Arc::new(DeviceClock::new(spec.cores));
        Ok(Arc::new(Self { spec, memory, loaded: Brief::default(), clock }))
    }

    /// The device's description.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The device's memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The device's virtual clock: what ran on it, and when that would have been.
    pub fn clock(&self) -> &DeviceClock {
        &self.clock
    }

    /// The program's instructions and constants in device memory, once for all deployments of it that may have as much.
    fn load(&self, program: &Arc<Program>, near: Near) -> Result<Arc<Loaded>, Error> {
        let mut loaded = self.loaded.lock();
        loaded.retain(|_, each| each.strong_count() > 0);
        // The entry keeps the program alive, so that its address cannot come to stand for another.
        let key = (Arc::as_ptr(program) as usize, near.constants);
        if let Some(found) = loaded.get(&key).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let place = &self.spec.placement;
        let instructions =
            Placed::new(&self.memory, &[&place.instructions], 0, program.instructions.len() as u64)?
                .labelled(|| format!("instructions of {}", title(program)));
        let constants = near
            .constants(&self.memory, &self.spec, program)?
            .labelled(|| format!("constants of {}", title(program)));
        instructions.chunk.write(&program.instructions)?;
        constants.chunk.write(&program.constants)?;
        instructions.chunk.seal();
        constants.chunk.seal();
        let new = Arc::new(Loaded {
            program: Arc::clone(program),
            instructions,
            constants,
            decoded: Brief::default(),
        });
        loaded.insert(key, Arc::downgrade(&new));
        Ok(new)
    }
}

/// What all deployments of one program share.
#[derive(Debug)]
struct Loaded {
    program: Arc<Program>,
    instructions: Placed,
    constants: Placed,
    /// The program as its first deployment decoded it, for the others to share its packed weights.
    decoded: Brief<Option<Decoded>>,
}

/// A chunk of device memory, and what the device's description calls the memory.
#[derive(Debug)]
struct Placed {
    chunk: Chunk,
    memory: String,
}

impl Placed {
    /// `len` bytes in the first memory of `places`, as `core` sees it, that has room for them.
    fn new(memory: &Arc<Memory>, places: &[&str], core: u32, len: u64) -> Result<Self, Error> {
        let mut full = None;
        for &place in places {
            match Chunk::new(memory, memory.core_region(place, core)?, len) {
                Ok(chunk) => return Ok(Self { chunk, memory: place.to_owned() }),
                Err(error) => full = Some(error),
            }
        }
        Err(full.map_or_else(|| Error::internal("the device has no memory"), Error::from))
    }

    fn labelled(self, label: impl FnOnce() -> String) -> Self {
        Self { chunk: self.chunk.labelled(label), ..self }
    }

    fn place(&self, kind: SegmentKind) -> Place {
        Place { kind, memory: self.memory.clone(), base: self.chunk.base(), bytes: self.chunk.len() }
    }
}

/// What one image of the batch needs of its core's memory.
#[derive(Debug)]
struct Maps {
    /// In the order of their segments.
    border: Vec<(SegmentKind, Placed)>,
    scratch: Placed,
    resident: Placed,
    spilled: Option<Placed>,
}

impl Maps {
    fn new(
        memory: &Arc<Memory>,
        spec: &DeviceSpec,
        program: &Program,
        core: u32,
        near: Near,
    ) -> Result<Self, Error> {
        let batch = program.batch as u64;
        let border = program.border().map(|(kind, io)| {
            let chunk = Placed::new(memory, &[&spec.placement.io], core, io.bytes() as u64 / batch)?;
            Ok((kind, chunk.labelled(|| format!("{kind} '{}' of {}", io.name, title(program)))))
        });
        let border = border.collect::<Result<_, Error>>()?;
        let far = |bytes: u64, near: bool| -> Result<Placed, Error> {
            // The last is the one that the host reaches.
            let places = scratch_places(spec);
            let places = if near { &places[..] } else { &places[places.len() - 1..] };
            Ok(Placed::new(memory, places, core, bytes)?
                .labelled(|| format!("feature maps of {}", title(program))))
        };
        let scratch = far(program.scratch_bytes, near.scratch)?;
        let spilled = program.spilled().map(|_| far(program.spilled_bytes, near.spilled)).transpose()?;
        // Where another deployment holds the near memory, this one runs from the far one, and is timed so.
        let resident = Placed::new(memory, &resident_places(spec), core, program.resident_bytes())?
            .labelled(|| format!("feature maps on chip of {}", title(program)));
        Ok(Self { border, scratch, resident, spilled })
    }

    fn of_kind(&self, kind: SegmentKind) -> impl Iterator<Item = &Chunk> {
        self.border.iter().filter(move |(own, _)| *own == kind).map(|(_, placed)| &placed.chunk)
    }

    /// An input's or output's, by its number among these.
    fn border(&self, kind: SegmentKind, number: usize) -> Result<&Chunk, Error> {
        self.of_kind(kind).nth(number).ok_or_else(|| Error::internal(format!("{kind} {number} of a program")))
    }

    /// All segments of a program, these chunks among them.
    fn layout<'a>(&'a self, instructions: &'a Placed, constants: &'a Placed) -> Layout<&'a Placed> {
        Layout {
            instructions,
            constants,
            scratch: &self.scratch,
            resident: &self.resident,
            others: self
                .border
                .iter()
                .map(|(kind, placed)| (*kind, placed))
                .chain(self.spilled.iter().map(|placed| (SegmentKind::Spilled, placed)))
                .collect(),
        }
    }
}

/// A program as its user knows it: by its border.
fn title(program: &Program) -> String {
    let names = |tensors: &[TensorIo]| tensors.iter().map(|io| &*io.name).collect::<Vec<_>>().join(", ");
    format!("the program that makes {} of {}", names(&program.outputs), names(&program.inputs))
}

/// How to deploy.
#[derive(Clone, Debug)]
pub struct DeployOptions {
    /// Threads that a run uses, the caller's included; 0 means one per CPU core.
    pub threads: usize,
    /// Cores of the device, one per image of the batch, in order; empty means 0, 1, ….
    pub cores: Vec<u32>,
    /// Core clock in MHz for the timeline; `None` means the device's default.
    pub clock_mhz: Option<u32>,
    /// Share of its time that the array may spend on products in percent, for the timeline.
    pub array_percent: u32,
    /// How much of the memory for constants these and the feature maps beside them may take, in percent of what programs can use of
    /// it; what needs more streams from the memory that the host reaches. `None`: the part that the cores are of the device's.
    pub constants_percent: Option<u32>,
    /// Calls until the result of a run is given back: 0 for the call's own. For the device's clock; `run` itself always
    /// gives its own.
    pub lag: usize,
    /// Holds runs back until the device would have ended them; `None`: they return as soon as they can.
    pub realtime: Option<Realtime>,
}

impl Default for DeployOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: Vec::new(),
            clock_mhz: None,
            array_percent: 100,
            constants_percent: None,
            lag: 0,
            realtime: None,
        }
    }
}

/// A program on a device, ready to run. Each deployment has feature maps of its own; constants are shared.
#[derive(Debug)]
pub struct Deployment {
    device: Arc<Device>,
    program: Arc<Program>,
    images: Vec<Mutex<Image>>,
    /// What the commands of an image ask for, by stages, in the precision and with the share of the array of the deployment.
    asked: Vec<Asked>,
    timeline: Timeline,
    places: Vec<Place>,
    pool: Pool,
    /// None when time is not modelled.
    meter: Option<Meter>,
    /// What the host computes while the program waits.
    between: Vec<BetweenPart>,
    _loaded: Arc<Loaded>,
}

/// Where one segment of a deployed program lies; for a batch, that of its first image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it holds.
    pub kind: SegmentKind,
    /// The memory's name in the device's description.
    pub memory: String,
    /// Its first byte's address there.
    pub base: u64,
    /// Size.
    pub bytes: u64,
}

/// What one image of the batch needs: a core's feature maps and border buffers.
#[derive(Debug)]
struct Image {
    executor: Executor,
    pool: Option<Pool>,
    maps: Maps,
    failed: Option<Error>,
}

/// What the host does in a wait: of its number and the outputs that it reads, the inputs that it makes.
pub type AtWait<'h> = dyn FnMut(usize, &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> + 'h;

impl Deployment {
    /// Loads the program's segments into the device's memory and decodes its commands.
    pub fn new(device: &Arc<Device>, program: &Arc<Program>, options: &DeployOptions) -> Result<Self, Error> {
        program.check_device(&device.spec)?;
        if let Some(core) = options.cores.iter().find(|&&core| core >= device.spec.cores) {
            return Err(Error::argument(format!(
                "core {core} of '{}', which has {}",
                device.spec.name, device.spec.cores
            )));
        }
        let near = Near::new(&device.spec, program, program.batch, options.constants_percent, None)?;
        let loaded = device.load(program, near)?;
        let pool = Pool::new(options.threads);
        // A batch runs its images side by side, one thread each; a single image is split inside the kernels.
        let inner = program.batch > 1;
        let images = (0..program.batch)
            .map(|image| {
                let core = options.cores.get(image).copied().unwrap_or(image as u32);
                Image::new(device, program, &loaded, core, near, if inner { 1 } else { pool.threads() })
                    .map(|each| Mutex::new(Image { pool: inner.then(|| Pool::new(1)), ..each }))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        // The images of a batch run at the same time and share the memories.
        let circumstances = TimingOptions {
            clock_mhz: options.clock_mhz,
            active_cores: program.batch as u32,
            array_percent: options.array_percent,
            ..TimingOptions::default()
        };
        let places = match images.first() {
            Some(image) => {
                let image = image.lock().unwrap_or_else(PoisonError::into_inner);
                places(&loaded.instructions, &loaded.constants, &image.maps)
            }
            None => Vec::new(),
        };
        let asked = asked(device, program, &places, &images, &circumstances)?;
        let timeline = in_stages(&device.spec, program, &asked, &circumstances, None)?;
        let meter = if timeline.clock_mhz == 0 {
            None
        } else {
            let busy = busier(&device.spec, program, &asked, &timeline, &circumstances)?;
            let demand = demand(&device.spec, program, cores(options, program.batch), &busy, &timeline);
            Some(Meter::new(&device.clock, program.batch as u32, demand, options.lag, options.realtime)?)
        };
        let (device, program) = (Arc::clone(device), Arc::clone(program));
        let between = Vec::new();
        Ok(Self { device, program, images, asked, timeline, places, pool, meter, between, _loaded: loaded })
    }

    /// What each run asks of the device's cores and link; `None` when time is not modelled.
    pub fn demand(&self) -> Option<&Arc<Demand>> {
        self.meter.as_ref().map(Meter::demand)
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// What one image costs on its core; computed when the program was deployed.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The timeline under other circumstances: another clock, 16-bit elements, other cores at work besides. Commands stay cut
    /// into the tiles that were best when the program was deployed; for 16-bit elements, which are larger, they are cut anew.
    pub fn retime(&self, options: &TimingOptions) -> Result<Timeline, Error> {
        let spec = &self.device.spec;
        if self.asked.iter().all(|asked| asked.serves(options)) {
            return in_stages(spec, &self.program, &self.asked, options, Some(&self.timeline));
        }
        let asked = asked(&self.device, &self.program, &self.places, &self.images, options)?;
        in_stages(spec, &self.program, &asked, options, Some(&self.timeline))
    }

    /// Where the segments of the first image lie: instructions, constants, feature maps in the far and in the near
    /// memory, inputs, outputs. The second of these lies in the far memory when another deployment left no room.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Nanoseconds that the host link takes to move one run's inputs and outputs, those between its stages included; 0 when the
    /// device has no link.
    pub fn transfer_nanos(&self) -> u64 {
        let Some(link) = &self.device.spec.link else { return 0 };
        let bytes = |tensors: &[TensorIo]| tensors.iter().map(|io| io.bytes() as u64).sum::<u64>();
        let total = u128::from(bytes(&self.program.inputs) + bytes(&self.program.outputs));
        let moving = total * 1_000_000_000 / u128::from(link.bytes_per_second.max(1));
        let calls = link.call_ns.saturating_mul(1 + self.program.waits.len() as u64);
        u64::try_from(moving).unwrap_or(u64::MAX).saturating_add(calls)
    }

    /// Lets the host compute what the program waits for: one part for each of its waits, in order.
    ///
    /// # Errors
    /// An argument error for another number of parts, or one that does not fit the program's tensors.
    pub fn attach(&mut self, mut parts: Vec<BetweenPart>) -> Result<(), Error> {
        if parts.len() != self.program.waits.len() {
            return Err(Error::argument(format!(
                "{} parts on the host for a program that waits for {}",
                parts.len(),
                self.program.waits.len()
            )));
        }
        keep_until_read(&self.program, &mut parts)?;
        self.between = parts;
        Ok(())
    }

    /// Runs the program once: copies the inputs to the device, executes, copies the outputs back. Allocates nothing, unless the
    /// program waits for the host.
    ///
    /// Each slice has exactly the bytes of its [`TensorIo`], in the order of [`Program::taken`](crate::Program::taken). A run can be stopped, see [`Session::run`](crate::Session::run).
    pub fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), Error> {
        if self.between.len() != self.program.waits.len() {
            return Err(Error::argument(
                "the program waits for the host, and nothing is attached that computes there",
            ));
        }
        let (mut between, program) = (std::mem::take(&mut self.between), Arc::clone(&self.program));
        let done = self.run_between(&program, &mut between, inputs, outputs);
        self.between = between;
        done
    }

    fn run_between(
        &mut self,
        program: &Program,
        between: &mut [BetweenPart],
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        check("input", program.taken(), inputs.iter().map(|bytes| bytes.len()))?;
        let (inputs, beside) = inputs.split_at(program.given().len());
        let mut kept = Kept::new(program, beside)?;
        self.run_with(inputs, outputs, &mut |wait, tensors| between[wait].run(program, tensors, &mut kept))
    }

    /// As [`Self::run`], with the host's part in each wait by its number: of the outputs that it reads, in the order of
    /// [`Wait::reads`](crate::Wait), it makes the inputs, in the order of `makes`. What callers give for the host alone is no input here.
    pub fn run_with(
        &mut self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        host: &mut AtWait<'_>,
    ) -> Result<(), Error> {
        let program = Arc::clone(&self.program);
        check("input", program.given().iter(), inputs.iter().map(|bytes| bytes.len()))?;
        check("output", program.results().iter(), outputs.iter().map(|bytes| bytes.len()))?;
        let started = self.meter.as_ref().map(Meter::start);
        self.write((0..inputs.len()).zip(inputs.iter().copied()))?;
        for (stage, commands) in program.stages().enumerate() {
            self.execute(commands)?;
            let Some(wait) = program.waits.get(stage) else { continue };
            let mut read: Vec<Vec<u8>> = Vec::with_capacity(wait.reads.len());
            for &index in &wait.reads {
                let mut bytes = filled(program.outputs[index].bytes(), 0)?;
                self.read(index, &mut bytes)?;
                read.push(bytes);
            }
            let made = host(stage, &read)?;
            let ios: Vec<&TensorIo> = wait.makes.iter().map(|&index| &program.inputs[index]).collect();
            if made.len() != ios.len() || made.iter().zip(&ios).any(|(bytes, io)| bytes.len() != io.bytes()) {
                return Err(Error::internal("the host makes other tensors than the program waits for"));
            }
            self.write(wait.makes.iter().copied().zip(made.iter().map(Vec::as_slice)))?;
        }
        // A paced device gives results when their time has come, and none to a run that was stopped before.
        if let (Some(meter), Some(started)) = (&mut self.meter, started) {
            meter.finish(started);
        }
        work::go_on()?;
        for (index, output) in outputs.iter_mut().enumerate() {
            self.read(index, output)?;
        }
        Ok(())
    }

    /// Copies inputs, by their number, to the device.
    fn write<'b>(&mut self, inputs: impl Iterator<Item = (usize, &'b [u8])>) -> Result<(), Error> {
        for (index, bytes) in inputs {
            let length = bytes.len() / self.program.batch;
            for (number, image) in self.images.iter_mut().enumerate() {
                let image = image.get_mut().unwrap_or_else(PoisonError::into_inner);
                let part = &bytes[number * length..(number + 1) * length];
                image.maps.border(SegmentKind::Input, index)?.write(part)?;
            }
        }
        Ok(())
    }

    /// Copies an output, by its number, from the device.
    fn read(&mut self, index: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let length = bytes.len() / self.program.batch;
        for (number, image) in self.images.iter_mut().enumerate() {
            let image = image.get_mut().unwrap_or_else(PoisonError::into_inner);
            let part = &mut bytes[number * length..(number + 1) * length];
            image.maps.border(SegmentKind::Output, index)?.read(part)?;
        }
        Ok(())
    }

    /// Runs some of the commands, all images side by side.
    fn execute(&mut self, commands: Range<usize>) -> Result<(), Error> {
        let (images, pool, batch) = (&self.images, &self.pool, self.program.batch);
        pool_for(batch, pool, &|image| {
            let mut guard = images[image].lock().unwrap_or_else(PoisonError::into_inner);
            let own = &mut *guard;
            let run = own.executor.run_part(commands.clone(), own.pool.as_ref().unwrap_or(pool), None);
            own.failed = run.err().map(|error| self.program.blame(0, error).into());
        });
        // Images that were left out have not failed.
        work::go_on()?;
        for image in &mut self.images {
            if let Some(error) = image.get_mut().unwrap_or_else(PoisonError::into_inner).failed.take() {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Which of a program's parts lie where the description places them: those that its part of the shared memories has room for.
#[derive(Clone, Copy, Debug)]
struct Near {
    /// Its constants; else they stream from the memory that the host reaches.
    constants: bool,
    /// Its feature maps in the far memory.
    scratch: bool,
    /// Those for which its plan saw no room there, too.
    spilled: bool,
}

impl Near {
    /// With `percent` of the memories, or the part that the program's `cores` are of the device's. `commands` are the program's, if
    /// they are known.
    fn new(
        spec: &DeviceSpec,
        program: &Program,
        cores: usize,
        percent: Option<u32>,
        commands: Option<&[Command]>,
    ) -> Result<Self, Error> {
        let constants = match (spec.array.is_some_and(|array| array.packs_weights()), commands) {
            (false, _) => program.constants.len() as u64,
            (true, Some(commands)) => timing::constant_bytes(spec, commands),
            (true, None) => timing::constant_bytes(spec, &command::decode(&program.instructions)?),
        };
        let share = spec.share(program.batch, cores, constants, percent)?;
        let shared = !spec.memory[spec.memory_index(&spec.placement.scratch)?].per_core;
        let holds = |bytes: u64| bytes <= share.scratch;
        let scratch = !shared || holds(program.scratch_bytes);
        let spilled = holds(program.scratch_bytes.saturating_add(program.spilled_bytes));
        Ok(Self { constants: share.constants_near, scratch, spilled })
    }

    /// Room for the constants: what the memory near the array cannot hold streams from the one that the host's transfers reach.
    fn constants(self, memory: &Arc<Memory>, spec: &DeviceSpec, program: &Program) -> Result<Placed, Error> {
        let places = [&*spec.placement.constants, &*spec.placement.io];
        let places = if self.constants { &places[..] } else { &places[1..] };
        Placed::new(memory, places, 0, program.constants.len() as u64)
    }
}

/// The cores of a deployment, a bit each.
fn cores(options: &DeployOptions, batch: usize) -> u64 {
    let core = |image: usize| options.cores.get(image).copied().unwrap_or(image as u32);
    (0..batch).map(core).fold(0, |cores, core| cores | 1_u64.checked_shl(core).unwrap_or(0))
}

/// Nanoseconds of a run while 1, 2, … all cores of the device are at work. Runs of more cores than that are not asked for.
fn busier(
    spec: &DeviceSpec,
    program: &Program,
    asked: &[Asked],
    own: &Timeline,
    circumstances: &TimingOptions,
) -> Result<Vec<u64>, Error> {
    let shortest = circumstances.active_cores;
    (1..=spec.cores)
        .map(|active| {
            if active <= shortest {
                return Ok(own.nanos_up(own.total_cycles));
            }
            let options = TimingOptions { active_cores: active, ..*circumstances };
            let busy = in_stages(spec, program, asked, &options, Some(own))?;
            Ok(busy.nanos_up(busy.total_cycles))
        })
        .collect()
}

/// Nanoseconds of the host's part of a call, and of the host link for inputs and for outputs, these of one of `parts` equal parts of the
/// batch; none without a link.
pub(crate) fn over_link(spec: &DeviceSpec, program: &Program, parts: usize) -> Option<[u64; 3]> {
    let link = spec.link?;
    let moving = |tensors: &[TensorIo]| {
        let bytes = tensors.iter().map(|io| (io.bytes() / parts.max(1)) as u128).sum::<u128>();
        let nanos = (bytes * 1_000_000_000).div_ceil(u128::from(link.bytes_per_second.max(1)));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    };
    let calls = link.call_ns.saturating_mul(1 + program.waits.len() as u64);
    Some([calls, moving(&program.inputs), moving(&program.outputs)])
}

/// What a run asks of cores, memories and link. `own` is its timeline with nothing else at work, `busy` what it takes in nanoseconds while
/// 1, 2, … cores are.
pub(crate) fn demand(
    spec: &DeviceSpec,
    program: &Program,
    cores: u64,
    busy: &[u64],
    own: &Timeline,
) -> Demand {
    let [call, input, output] = over_link(spec, program, 1).unwrap_or_default();
    let memories = spec.memory.iter().zip(own.port_cycles(spec));
    let memories = memories.map(|(memory, cycles)| {
        let cycles = if memory.per_core { 0 } else { cycles };
        MemoryUse::new(memory.ports, cycles, own.total_cycles)
    });
    Demand::new(cores, busy, &memories.collect::<Vec<_>>(), call, [input, output])
}

/// Runs one task per image: inline when there is one, so that the kernels can use the pool themselves.
fn pool_for(batch: usize, pool: &Pool, task: &(dyn Fn(usize) + Sync)) {
    if batch == 1 { task(0) } else { pool.run(batch, &|image, _| task(image)) }
}

impl Image {
    fn new(
        device: &Arc<Device>,
        program: &Arc<Program>,
        loaded: &Loaded,
        core: u32,
        near: Near,
        threads: usize,
    ) -> Result<Self, Error> {
        let maps = Maps::new(&device.memory, &device.spec, program, core, near)?;
        for (chunk, io) in maps.of_kind(SegmentKind::Output).zip(&program.outputs) {
            if io.padding.iter().all(|&padding| padding == (0, 0)) {
                continue;
            }
            // Padding of outputs is never written by the program; a run must not show what lay there before.
            chunk.write(&filled(chunk.len() as usize, 0)?)?;
        }
        let layout = maps.layout(&loaded.instructions, &loaded.constants);
        let segments = layout.in_order().map(|(kind, placed)| placed.chunk.segment(kind)).collect();
        let stream =
            Stream { addr: Addr::new(Program::INSTRUCTIONS, 0), len: program.instructions.len() as u64 };
        let segments = SegmentTable::new(segments)?;
        let memory = Arc::clone(&device.memory);
        let shared = loaded.decoded.lock().clone().filter(|decoded| !decoded.is_stale());
        let mut executor = match &shared {
            Some(decoded) => Executor::sharing(memory, decoded, &segments, stream, Isa::best()),
            None => Executor::new(memory, &segments, stream, Isa::best()),
        }
        .map_err(|error| program.blame(0, error))?;
        if executor.memory().is_watched() {
            let first = usize::from(Program::FIRST_IO) + program.inputs.len();
            let results = program.outputs.iter().enumerate().flat_map(|(index, io)| {
                let written = results::written(io, program.batch);
                written.into_iter().map(move |(start, len)| ((first + index) as u16, start, len))
            });
            executor = executor.with_results(results);
        }
        // A second deployment that decoded at the same time keeps its own.
        loaded.decoded.lock().get_or_insert_with(|| executor.decoded().clone());
        executor.reserve(threads)?;
        Ok(Self { executor, pool: None, maps, failed: None })
    }
}

/// Checks the number of tensors of a run and the bytes of each.
fn check<'t>(
    what: &str,
    tensors: impl Iterator<Item = &'t TensorIo> + Clone,
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Result<(), Error> {
    let count = tensors.clone().count();
    if count != lengths.len() {
        return Err(Error::Operand {
            what: format!("number of {what}s"),
            expected: count.to_string(),
            got: lengths.len().to_string(),
        });
    }
    for (io, length) in tensors.zip(lengths) {
        if io.bytes() != length {
            return Err(Error::Operand {
                what: format!("{what} '{}'", io.name),
                expected: format!("{} bytes ({} of {})", io.bytes(), io.shape, io.dtype),
                got: format!("{length} bytes"),
            });
        }
    }
    Ok(())
}

/// Where an image's segments lie.
fn places(instructions: &Placed, constants: &Placed, maps: &Maps) -> Vec<Place> {
    maps.layout(instructions, constants).in_order().map(|(kind, placed)| placed.place(kind)).collect()
}

/// Where the segments of a program on `cores` cores would lie on an empty device; for a batch, those of its first image.
pub(crate) fn places_on(
    spec: &DeviceSpec,
    program: &Program,
    cores: usize,
    commands: &[Command],
) -> Result<Vec<Place>, Error> {
    let memory = Arc::new(Memory::new(spec)?);
    let place = &spec.placement;
    let instructions = Placed::new(&memory, &[&place.instructions], 0, program.instructions.len() as u64)?;
    let near = Near::new(spec, program, cores, None, Some(commands))?;
    let constants = near.constants(&memory, spec, program)?;
    let images = (0..program.batch as u32).map(|core| Maps::new(&memory, spec, program, core, near));
    let images = images.collect::<Result<Vec<_>, _>>()?;
    Ok(images.first().map_or_else(Vec::new, |first| places(&instructions, &constants, first)))
}

/// The memories that resident feature maps may lie in: the near one, and where it is taken the far ones.
fn resident_places(spec: &DeviceSpec) -> Vec<&str> {
    spec.placement.resident.as_deref().into_iter().chain(scratch_places(spec)).collect()
}

/// The memories that feature maps may lie in, the nearest to the core first.
fn scratch_places(spec: &DeviceSpec) -> [&str; 3] {
    [&spec.placement.scratch, &spec.placement.constants, &spec.placement.io]
}

/// What the commands of one image ask for, by the program's stages; all images ask for the same but for the memory that their feature
/// maps found room in.
fn asked(
    device: &Device,
    program: &Program,
    places: &[Place],
    images: &[Mutex<Image>],
    options: &TimingOptions,
) -> Result<Vec<Asked>, Error> {
    let image = images.first().ok_or_else(|| Error::internal("a batch of 0"))?;
    let image = image.lock().unwrap_or_else(PoisonError::into_inner);
    let placement: Vec<&str> = places.iter().map(|place| &*place.memory).collect();
    let commands: Vec<Command> = image.executor.decoded().commands().collect();
    by_stages(&device.spec, program, &commands, &placement, options)
}

/// What commands ask for, by the program's stages.
pub(crate) fn by_stages(
    spec: &DeviceSpec,
    program: &Program,
    commands: &[Command],
    placement: &[&str],
    options: &TimingOptions,
) -> Result<Vec<Asked>, Error> {
    let stage = |stage: Range<usize>| {
        let own = &commands[stage.start.min(commands.len())..stage.end.min(commands.len())];
        Ok(Asked::new(spec, own, placement, options)?)
    };
    program.stages().map(stage).collect()
}

/// The timeline of a program that begins anew behind each of its waits, with nothing under way; what the host does there takes
/// no time of it. Commands are cut as in the timeline `cut`, one of 8-bit elements, if these are, too.
pub(crate) fn in_stages(
    spec: &DeviceSpec,
    program: &Program,
    asked: &[Asked],
    options: &TimingOptions,
    cut: Option<&Timeline>,
) -> Result<Timeline, Error> {
    let cut = cut.filter(|_| options.precision == Precision::Int8).map_or(&[][..], |cut| &cut.commands);
    let options = &TimingOptions { resident_bytes: program.resident_bytes(), ..*options };
    let mut whole: Option<Timeline> = None;
    for (stage, asked) in program.stages().zip(asked) {
        let tilings = cut.iter().skip(stage.start).take(stage.len()).map(|time| time.tiling);
        let part = asked.timeline(spec, options, tilings)?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => whole.append(part),
        }
    }
    whole.ok_or_else(|| Error::internal("a program without stages"))
}
