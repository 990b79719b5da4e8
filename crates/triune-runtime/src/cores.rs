//! One image on several cores: pipelined, each core runs some of the commands and hands the image on; or split, cores share each
//! command.
//!
//! Times are those of commands on a core, as everywhere; this says which core has what, and what that moves between them. Nothing here runs
//! anything, and no value depends on it.

mod pipelined;
mod split;

use std::sync::Arc;

use triune_device::{
    Command, DeviceSpec, TimingOptions,
    timing::{CommandTime, Energy, MemoryBytes, Span, Timeline},
};

use crate::{Error, Estimate, Place, PlanOptions, Policy, Program, deploy::over_link};

pub use triune_compiler::parts::Axis;

/// How cores work on images together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each core has a pipeline stage: consecutive commands, for one image after the other.
    Pipelined,
    /// All cores work on one image, and share its commands by rows or by output channels.
    Split,
}

impl Mode {
    /// The mode of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Pipelined, Self::Split].into_iter().find(|mode| mode.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipelined => "pipelined",
            Self::Split => "split",
        }
    }
}

/// What a core is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Being started.
    Launch,
    /// Feature maps of its own memory, on their way to the one that the host reaches.
    Send,
    /// The same, from there.
    Receive,
    /// A command, or a part of one.
    Command,
}

impl Kind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Command => "command",
        }
    }
}

/// What one core does for one image.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The core.
    pub core: u32,
    /// What.
    pub kind: Kind,
    /// The command of the program; for others the one that comes next.
    pub command: u32,
    /// Which part of the command it is, of how many, along what; the whole command without.
    pub part: Option<(Axis, u32, u32)>,
    /// Cycles since the image's first core was launched.
    pub span: Span,
    /// Bytes read from each memory.
    pub read: MemoryBytes,
    /// Bytes written to each.
    pub written: MemoryBytes,
    /// What it costs in energy, but for what the core draws whatever it does; nothing if the device's description does not say.
    pub energy: Energy,
}

impl Task {
    /// A core being started.
    fn launch(core: u32, command: u32, span: Span) -> Self {
        let [read, written] = Default::default();
        Self { core, kind: Kind::Launch, command, part: None, span, read, written, energy: Energy::default() }
    }
}

/// What two pipeline stages, or the parts of commands, move because there are several cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The first command of the later stage, or the command that is split.
    pub command: u32,
    /// Bytes of feature maps that one core makes and another reads where both reach them, which costs nothing besides.
    pub shared: u64,
    /// Bytes of feature maps that are copied from a core's own memory to another's.
    pub copied: u64,
    /// Bytes of feature maps that more than one part reads: halos, or inputs of parts by channels.
    pub maps_again: u64,
    /// Bytes of weights that more than one part reads.
    pub weights_again: u64,
}

/// Images on several cores.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The device.
    pub spec: DeviceSpec,
    /// The program, planned for these cores.
    pub program: Arc<Program>,
    /// How they share it.
    pub mode: Mode,
    /// The clock in MHz.
    pub clock_mhz: u32,
    /// Cores that there were.
    pub given: u32,
    /// Cores at work: fewer, if more would be no faster.
    pub cores: u32,
    /// Cycles of one image, from the first launch to the last store, with others before and behind it.
    pub latency: u64,
    /// Cycles between two images' results.
    pub interval: u64,
    /// Cycles of one image on one core.
    pub alone: u64,
    /// Of them, those of each command.
    pub alone_each: Vec<u64>,
    /// Cycles of an image on one core beside an image on each of the others that there are.
    pub abreast: u64,
    /// Bytes that such an image moves to and from the device's first memory.
    pub abreast_traffic: u64,
    /// What one image costs in energy, and what each core at work draws from one result to the next; none if the device's description
    /// does not say.
    pub energy: Option<Energy>,
    /// The same of an image on one core.
    pub alone_energy: Option<Energy>,
    /// The same of an image beside an image on each of the others that there are.
    pub abreast_energy: Option<Energy>,
    /// What an image needs besides, in nanoseconds: the host's part of its call, its inputs on the host link, its outputs; none without a link.
    /// Both directions work beside the cores.
    pub link: Option<[u64; 3]>,
    /// What cores do for one image, in the order of its commands.
    pub tasks: Vec<Task>,
    /// What goes from core to core.
    pub exchanges: Vec<Exchange>,
    /// The commands of the tasks, in order, each part one of its own: on one core they compute what the program does.
    pub commands: Vec<Command>,
}

impl Shared {
    /// Images of `program` on at most `cores` cores of a device: of the numbers of cores that are tried, the one that gives most images
    /// in a time (pipelined) or the soonest result (split). These are 1 to 8 and multiples of 8.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) if the device has fewer cores, its time is not modelled, or the program waits
    /// for the host; as [`Program::replan`].
    pub fn new(
        spec: DeviceSpec,
        program: &Arc<Program>,
        mode: Mode,
        cores: u32,
        clock_mhz: Option<u32>,
    ) -> Result<Self, Error> {
        if !(1..=spec.cores).contains(&cores) {
            return Err(Error::argument(format!(
                "cores: expected 1 to the {} of '{}', got {cores}",
                spec.cores, spec.name
            )));
        }
        if !program.waits.is_empty() {
            return Err(Error::argument(
                "the program waits for the host between its commands, which several cores cannot share; compile it without operators on the host between",
            ));
        }
        let about = About { spec, program: Arc::clone(program), clock_mhz };
        let alone = about.timed(1, 1)?.1;
        let abreast = about.timed(cores as usize, cores)?.1;
        if alone.clock_mhz == 0 {
            return Err(Error::argument(format!("the time of '{}' is not modelled", about.spec.name)));
        }
        let mut best: Option<Self> = None;
        for count in counts(cores) {
            let found = match mode {
                Mode::Pipelined => pipelined::on(&about, count)?,
                Mode::Split => split::on(&about, count)?,
            };
            let Some(found) = found else { continue };
            let rank = |shared: &Self| (shared.interval, shared.latency);
            if best.as_ref().is_none_or(|best| rank(&found) < rank(best)) {
                best = Some(found);
            }
        }
        let best = best.ok_or_else(|| Error::internal("a program that not even one core runs"))?;
        let traffic = abreast.commands.iter().map(|time| time.bytes_read[0] + time.bytes_written[0]).sum();
        Ok(Self {
            given: cores,
            alone: alone.total_cycles,
            alone_each: durations(&alone),
            abreast: abreast.total_cycles,
            abreast_traffic: traffic,
            energy: best.all_energy(),
            alone_energy: about.spec.energy_of_all(&alone),
            abreast_energy: about.spec.energy_of_all(&abreast),
            link: over_link(&about.spec, program, program.batch),
            ..best
        })
    }

    /// What one image costs: its tasks, and all cores at work for as long as it is until the next.
    fn all_energy(&self) -> Option<Energy> {
        let cycles = self.interval.saturating_mul(self.cores.into());
        let idle = self.spec.idle_energy(cycles, self.clock_mhz)?;
        let spent = self.tasks.iter().fold(Energy::default(), |sum, task| sum.plus(&task.energy));
        Some(Energy { idle, ..spent })
    }

    /// Cycles per image that each core at work is busy.
    pub fn busy(&self) -> Vec<u64> {
        let mut busy = vec![0; self.cores as usize];
        for task in &self.tasks {
            busy[task.core as usize] += task.span.end - task.span.start;
        }
        busy
    }
}

/// Numbers of cores that are tried. Those of fewer cores are among those of more.
fn counts(most: u32) -> impl Iterator<Item = u32> {
    (1..=most).filter(|&count| count <= 8 || count.is_multiple_of(8))
}

/// What is asked about.
struct About {
    spec: DeviceSpec,
    program: Arc<Program>,
    clock_mhz: Option<u32>,
}

impl About {
    /// The program planned for `images` images on `cores` cores, as many images as cores or one.
    fn planned(&self, images: usize, cores: usize, policy: Option<Policy>) -> Result<Estimate, Error> {
        if (images, cores) == (self.program.batch, self.program.batch) && policy.is_none() {
            return Estimate::new(&self.program);
        }
        let mut program = Program::clone(&self.program);
        let batch = std::mem::replace(&mut program.batch, images);
        for io in program.inputs.iter_mut().chain(&mut program.outputs) {
            if let Some(first) = io.shape.dims_mut().first_mut() {
                *first = *first / batch * images;
            }
        }
        let mut options = PlanOptions::default();
        if let Some(residency) = program.residency {
            (options.policy, options.capacity) = (residency.policy, Some(residency.capacity));
        }
        options.policy = policy.unwrap_or(options.policy);
        Estimate::on(&Arc::new(program.replan_on(&self.spec, &options, cores)?), cores)
    }

    /// The program of `images` images, each on a core of its own, and its timeline with so many cores at work.
    fn timed(&self, images: usize, active: u32) -> Result<(Estimate, Timeline, Vec<Place>), Error> {
        let estimate = self.planned(images, images, None)?;
        let (timeline, places) = estimate.timeline(&self.spec, &self.options(active))?;
        Ok((estimate, timeline, places))
    }

    fn options(&self, active_cores: u32) -> TimingOptions {
        TimingOptions { clock_mhz: self.clock_mhz, active_cores, ..TimingOptions::default() }
    }

    /// Whether each core has a memory of that name to itself.
    fn is_own(&self, memory: &str) -> bool {
        self.spec.memory.iter().any(|own| own.name == memory && own.per_core)
    }

    /// What a command of a timeline costs in energy, but for what a core draws whatever it does.
    fn energy(&self, timeline: &Timeline, time: &CommandTime) -> Energy {
        let energy = self.spec.energy_of(timeline, std::slice::from_ref(time));
        Energy { idle: 0, ..energy.unwrap_or_default() }
    }

    /// The result, but for what all modes have alike.
    fn shared(&self, mode: Mode, cores: u32, estimate: &Estimate, clock_mhz: u32) -> Shared {
        Shared {
            spec: self.spec.clone(),
            program: Arc::clone(estimate.program()),
            mode,
            clock_mhz,
            given: cores,
            cores,
            latency: 0,
            interval: 0,
            alone: 0,
            alone_each: Vec::new(),
            abreast: 0,
            abreast_traffic: 0,
            energy: None,
            alone_energy: None,
            abreast_energy: None,
            link: None,
            tasks: Vec::new(),
            exchanges: Vec::new(),
            commands: Vec::new(),
        }
    }
}

/// Cycles of each command of a timeline, from the end of the one before.
fn durations(timeline: &Timeline) -> Vec<u64> {
    let mut before = timeline.launch_cycles;
    let own = |end: u64| end - std::mem::replace(&mut before, end);
    timeline.commands.iter().map(|time| time.end).map(own).collect()
}
