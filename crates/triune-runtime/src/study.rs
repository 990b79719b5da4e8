//! One model on many devices: what it costs on designs that differ in some numbers, and several models on one device together.

use std::{path::Path, sync::Arc};

use triune_device::{
    DeviceSpec, TimingOptions,
    spec::{BorderSpec, MemorySpec},
};
use triune_fork::Lock;
use triune_graph::{Graph, format::onnx};

use crate::{
    CompileOptions, Error, Estimate, PlanOptions, Policy, Profile, Program,
    clock::{self, Arrivals, Composition, Demand, Instance},
    compile,
    cores::{Mode, Shared},
    target,
};

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
pub struct Study {
    base: DeviceSpec,
    batch: usize,
    /// What the program is made from; none for the program of a package.
    model: Option<Graph>,
    /// The programs so far, and what they are for.
    made: Lock<Vec<(Kind, Arc<Estimate>)>>,
}

impl Study {
    /// The program of a package.
    ///
    /// # Errors
    /// [`Error::Device`](triune_compiler::Error::Device) if its commands are none.
    pub fn of(program: &Arc<Program>) -> Result<Self, Error> {
        let base = program.spec()?;
        let made = Lock::new(vec![(Kind::of(&base), Arc::new(Estimate::new(program)?))]);
        Ok(Self { base, batch: program.batch, model: None, made })
    }

    /// The program of a package with its feature maps placed anew: by a policy, within `capacity` bytes of the near memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`](triune_compiler::Error::Unsupported) if the package does not hold its memory plan.
    pub fn replanned(program: &Program, policy: Policy, capacity: Option<u64>) -> Result<Self, Error> {
        let options = PlanOptions { policy, capacity, ..PlanOptions::default() };
        Self::of(&Arc::new(program.replan(&program.spec()?, &options)?))
    }

    /// The program that the ONNX file `model` becomes for the device that `target` names, `batch` images a run.
    ///
    /// # Errors
    /// As [`compile`] and [`target::device`].
    pub fn compile(model: &Path, target: &Path, batch: usize) -> Result<Self, Error> {
        let (base, model) = (target::device(target)?, onnx::read(model)?);
        let study = Self { base, batch, model: Some(model), made: Lock::default() };
        study.estimate(&study.base)?;
        Ok(study)
    }

    /// The device that the program is for.
    pub fn base(&self) -> &DeviceSpec {
        &self.base
    }

    /// Images per run, each on a core of its own.
    pub fn batch(&self) -> usize {
        self.batch
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
        let program = compile(model, spec, &options)?.program;
        let new = Arc::new(Estimate::new(&Arc::new(program))?);
        made.push((kind, Arc::clone(&new)));
        Ok(new)
    }

    /// One run on an empty device that differs from the program's in `changes`: keys of its description, such as `array`, and
    /// values, such as `32x32`. Without `clock_mhz` at the device's own clock.
    ///
    /// # Errors
    /// [`Error::Device`](triune_compiler::Error::Device) if a change or the clock is wrong, or the device cannot hold the
    /// program; as [`compile`], if it has to be made again.
    pub fn at(&self, changes: &[(&str, &str)], clock_mhz: Option<u32>) -> Result<Profile, Error> {
        let spec = self.base.with(changes)?;
        let estimate = self.estimate(&spec)?;
        let (timeline, places) = estimate.timeline(&spec, &at_clock(clock_mhz))?;
        Ok(Profile::new(spec, Arc::clone(estimate.program()), timeline, places))
    }

    /// What images cost that the first `cores` cores of such a device, all without it, work on together.
    ///
    /// # Errors
    /// As [`Self::at`]; [`Error::Argument`](triune_compiler::Error::Argument) as [`Shared::new`] says.
    pub fn on_cores(
        &self,
        changes: &[(&str, &str)],
        clock_mhz: Option<u32>,
        mode: Mode,
        cores: Option<u32>,
    ) -> Result<Shared, Error> {
        let spec = self.base.with(changes)?;
        let cores = cores.unwrap_or(spec.cores);
        Shared::new(spec.clone(), self.estimate(&spec)?.program(), mode, cores, clock_mhz)
    }

    /// What each run on `cores` (a bit each) asks of the program's own device.
    fn demand(&self, clock_mhz: Option<u32>, cores: u64) -> Result<Demand, Error> {
        self.estimate(&self.base)?.demand(&self.base, &at_clock(clock_mhz), cores)
    }
}

fn at_clock(clock_mhz: Option<u32>) -> TimingOptions {
    TimingOptions { clock_mhz, ..TimingOptions::default() }
}

/// One that runs a study's program on some cores of the device.
#[derive(Clone, Debug)]
pub struct Caller<'a> {
    /// For people.
    pub name: String,
    /// What it runs.
    pub study: &'a Study,
    /// Numbers of the cores, as many as the batch has images.
    pub cores: &'a [u32],
    /// When it calls.
    pub arrivals: Arrivals,
}

/// What `callers` do to each other on one device for `horizon` nanoseconds, without running anything.
///
/// # Errors
/// [`Error::Argument`](triune_compiler::Error::Argument) if there are none, they are for different devices, or as
/// [`clock::compose`] and [`Estimate::demand`] say.
pub fn compose(callers: &[Caller<'_>], horizon: u64, clock_mhz: Option<u32>) -> Result<Composition, Error> {
    let Some(first) = callers.first() else {
        return Err(Error::argument("instances: there are none"));
    };
    let spec = first.study.base();
    let mut demands: Vec<(&Study, u64, Arc<Demand>)> = Vec::new();
    let mut instances = Vec::with_capacity(callers.len());
    for Caller { name, study, cores, arrivals } in callers {
        let own = study.base();
        if own.name != spec.name {
            return Err(Error::argument(format!(
                "'{name}' is for {}, the others are for {}",
                own.name, spec.name
            )));
        }
        if own != spec {
            return Err(Error::argument(format!(
                "'{name}' is for another device of the name '{}' than the others",
                spec.name
            )));
        }
        let mask = cores.iter().fold(0, |mask, &core| mask | 1_u64.checked_shl(core).unwrap_or(0));
        let known = demands.iter().find(|(other, cores, _)| std::ptr::eq(*other, *study) && *cores == mask);
        let demand = match known {
            Some((.., demand)) => Arc::clone(demand),
            None => Arc::new(study.demand(clock_mhz, mask)?),
        };
        demands.push((study, mask, Arc::clone(&demand)));
        instances.push(Instance {
            name: name.clone(),
            images: study.batch() as u32,
            demand,
            arrivals: *arrivals,
        });
    }
    clock::compose(spec.cores, &instances, horizon)
}
