//! What the core does in several steps and Python in one: compile a file, deploy to a card.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Weak},
};

use triune::internals::{
    device::{
        DeviceSpec, TimingOptions,
        spec::{BorderSpec, MemorySpec},
    },
    fork::{Brief, Lock},
    graph::{Graph, format::onnx},
    runtime::{
        self, CompileOptions, DeployOptions, Deployment, Device, Error, Estimate, Package, PlanOptions,
        Policy, Program,
        card::Card,
        clock::{Composition, Demand, Realtime},
    },
};

use crate::{report::CompileReport, timeline::Timeline};

/// The simulated devices of this process by card: all that is deployed to one card shares its memory.
static DEVICES: Brief<BTreeMap<String, Weak<Device>>> = Brief::new(BTreeMap::new());

fn device(card: &Card) -> Result<Arc<Device>, Error> {
    let spec = card.spec();
    let mut devices = DEVICES.lock();
    let model = spec.model()?;
    // A card may have become another one of the same name: what is deployed to the old one keeps it.
    let known = devices.get(&spec.name).and_then(Weak::upgrade);
    if let Some(device) = known.filter(|device| *device.spec() == model) {
        return Ok(device);
    }
    let device = Device::new(model)?;
    devices.insert(spec.name.clone(), Arc::downgrade(&device));
    Ok(device)
}

/// What ran on a card in this process; nothing if nothing is deployed there.
pub(crate) fn composition(card: &Card) -> Option<Composition> {
    let devices = DEVICES.lock();
    let device = devices.get(&card.spec().name).and_then(Weak::upgrade)?;
    drop(devices);
    Some(device.clock().composition())
}

/// Deploys a program to `options.cores` of a card, timed at the slowest one's clock and the tightest limit; each core's
/// clock must be one that the device has. Without `options.realtime`, the environment says whether runs are paced.
pub(crate) fn deploy(
    card: &Card,
    program: &Arc<Program>,
    mut options: DeployOptions,
) -> Result<Deployment, Error> {
    let settings = card.settings()?;
    let device = device(card)?;
    let clock = |&core: &u32| settings.clock_mhz(core as usize);
    let modelled = device.spec().clock_mhz.is_some();
    if let Some(core) =
        options.cores.iter().find(|&core| modelled && !device.spec().allows_clock(clock(core)))
    {
        return Err(Error::argument(format!(
            "{}: core {core} is set to {} MHz, at which a {} does not run",
            card.spec().name,
            clock(core),
            card.spec().device
        )));
    }
    options.clock_mhz = options.cores.iter().map(clock).min().filter(|_| modelled);
    let limit = |&core: &u32| settings.utilisation(core as usize);
    options.array_percent = options.cores.iter().map(limit).min().unwrap_or(100);
    if options.realtime.is_none() {
        options.realtime = Realtime::from_env()?;
    }
    Deployment::new(&device, program, &options)
}

/// Compiles an ONNX file into a package, and says what was found and chosen. Errors call the file `title`.
pub(crate) fn compile(
    model: &Path,
    title: &Path,
    target: &Path,
    output: &Path,
    options: &CompileOptions,
) -> Result<(BTreeMap<&'static str, u64>, CompileReport), Error> {
    let spec = runtime::target::device(target)?;
    let compiled = runtime::compile(&onnx::read_titled(model, title)?, &spec, options)?;
    Package::write(&compiled, output)?;
    let found = &compiled.summary;
    let summary = BTreeMap::from([
        ("device_nodes", found.device_nodes as u64),
        ("preprocess_nodes", found.preprocess_nodes as u64),
        ("between_nodes", found.between_nodes as u64),
        ("postprocess_nodes", found.postprocess_nodes as u64),
        ("commands", found.commands as u64),
        ("constant_bytes", found.constant_bytes),
        ("scratch_bytes", found.scratch_bytes[0]),
        ("scratch_lower_bound", found.scratch_bytes[1]),
    ]);
    Ok((summary, CompileReport::new(compiled.report)))
}

/// The program with its feature maps placed anew, by a policy or within some bytes of the near memory.
pub(crate) fn replanned(
    program: &Program,
    policy: Option<Policy>,
    on_chip_bytes: Option<u64>,
) -> Result<Arc<Program>, Error> {
    let policy = policy.unwrap_or_default();
    let options = PlanOptions { policy, capacity: on_chip_bytes, ..PlanOptions::default() };
    Ok(Arc::new(program.replan(&program.spec()?, &options)?))
}

/// The circumstances at a clock.
pub(crate) fn at_clock(clock_mhz: Option<u32>) -> TimingOptions {
    TimingOptions { clock_mhz, ..TimingOptions::default() }
}

/// What a program depends on besides the model: how tensors lie at its border, and the memories that its plan has room in.
#[derive(Debug, PartialEq)]
struct Kind {
    border: BorderSpec,
    bytes: Vec<u64>,
}

impl Kind {
    fn of(spec: &DeviceSpec) -> Self {
        let bytes = spec.memory.iter().map(MemorySpec::usable_bytes).collect();
        Self { border: spec.border, bytes }
    }
}

/// A program, and how to make it for devices that differ from its own.
#[derive(Debug)]
pub(crate) struct Study {
    base: DeviceSpec,
    batch: usize,
    /// What the program is made from; none for the program of a package.
    model: Option<Graph>,
    /// The programs so far, and what they are for.
    made: Lock<Vec<(Kind, Arc<Estimate>)>>,
}

impl Study {
    /// The program of a package.
    pub(crate) fn of(program: &Arc<Program>) -> Result<Self, Error> {
        let base = program.spec()?;
        let made = Lock::new(vec![(Kind::of(&base), Arc::new(Estimate::new(program)?))]);
        Ok(Self { base, batch: program.batch, model: None, made })
    }

    /// The program that a model becomes for a device.
    pub(crate) fn compile(model: &Path, target: &Path, batch: usize) -> Result<Self, Error> {
        let (base, model) = (runtime::target::device(target)?, onnx::read(model)?);
        let study = Self { base, batch, model: Some(model), made: Lock::default() };
        study.estimate(&study.base)?;
        Ok(study)
    }

    pub(crate) fn target(&self) -> &str {
        &self.base.name
    }

    /// The device that the program is for.
    pub(crate) fn base(&self) -> &DeviceSpec {
        &self.base
    }

    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// The device's own value of a key.
    pub(crate) fn number(&self, key: &str) -> Result<String, Error> {
        Ok(self.base.number(key)?)
    }

    /// The device with changes.
    pub(crate) fn spec(&self, changes: &[(&str, &str)]) -> Result<DeviceSpec, Error> {
        Ok(self.base.with(changes)?)
    }

    /// The program for a device: one that was made before where that does.
    fn estimate(&self, spec: &DeviceSpec) -> Result<Arc<Estimate>, Error> {
        let kind = Kind::of(spec);
        let mut made = self.made.lock()?;
        // A package's program stays as it was compiled.
        let fits = |other: &Kind| *other == kind || (self.model.is_none() && other.border == kind.border);
        if let Some((_, found)) = made.iter().find(|(other, _)| fits(other)) {
            return Ok(Arc::clone(found));
        }
        let Some(model) = &self.model else {
            return Err(Error::argument(
                "a package's tensors lie as its device wants them: give the ONNX file to change the border",
            ));
        };
        let options = CompileOptions { batch: self.batch, ..CompileOptions::default() };
        let program = runtime::compile(model, spec, &options)?.program;
        let new = Arc::new(Estimate::new(&Arc::new(program))?);
        made.push((kind, Arc::clone(&new)));
        Ok(new)
    }

    /// The time of one run on the device with changes.
    pub(crate) fn at(&self, changes: &[(&str, &str)], clock_mhz: Option<u32>) -> Result<Timeline, Error> {
        let spec = self.spec(changes)?;
        let estimate = self.estimate(&spec)?;
        let (timeline, places) = estimate.timeline(&spec, &at_clock(clock_mhz))?;
        Ok(Timeline::of(spec, Arc::clone(estimate.program()), timeline, places))
    }

    /// What each run on `cores` asks of a device.
    pub(crate) fn demand(
        &self,
        spec: &DeviceSpec,
        options: &TimingOptions,
        cores: u64,
    ) -> Result<Demand, Error> {
        self.estimate(spec)?.demand(spec, options, cores)
    }
}
