//! What a program costs, without deploying it: no weight is copied or packed, nothing can be run.
//!
//! For asking the same program about many devices; a deployment's own timeline says the same about the one that it is on.

use std::sync::Arc;

use triune_device::{Command, DeviceSpec, Timeline, TimingOptions, command};

use crate::{
    Error, Place, Program,
    clock::Demand,
    deploy::{by_stages, demand, in_stages, places_on},
};

/// A program whose cost can be asked.
#[derive(Debug)]
pub struct Estimate {
    program: Arc<Program>,
    commands: Vec<Command>,
    /// Cores whose part of the shared memories is the program's.
    cores: usize,
}

impl Estimate {
    /// Decodes the program's commands.
    ///
    /// # Errors
    /// [`Error::Device`](triune_compiler::Error::Device) if they are none.
    pub fn new(program: &Arc<Program>) -> Result<Self, Error> {
        Self::on(program, program.batch)
    }

    /// As [`Self::new`], of a program that has as much of the shared memories as `cores` cores.
    pub(crate) fn on(program: &Arc<Program>, cores: usize) -> Result<Self, Error> {
        Ok(Self { program: Arc::clone(program), commands: command::decode(&program.instructions)?, cores })
    }

    /// Its commands.
    pub(crate) fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Where its segments would lie on an empty device, and its timeline there. `options.active_cores` counts the images
    /// of a batch at least.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) if the device has fewer cores than the batch images, [`Error::Device`](triune_compiler::Error::Device) if its memories do not
    /// hold the program, or as `timing::timeline` says.
    pub fn timeline(
        &self,
        spec: &DeviceSpec,
        options: &TimingOptions,
    ) -> Result<(Timeline, Vec<Place>), Error> {
        self.timed(spec, options, None)
    }

    /// As [`Self::timeline`], with commands cut as in another one.
    fn timed(
        &self,
        spec: &DeviceSpec,
        options: &TimingOptions,
        cut: Option<&Timeline>,
    ) -> Result<(Timeline, Vec<Place>), Error> {
        let batch = self.program.batch as u32;
        if batch > spec.cores {
            return Err(Error::argument(format!("a batch of {batch} on a device of {} cores", spec.cores)));
        }
        let places = places_on(spec, &self.program, self.cores, &self.commands)?;
        let memories: Vec<&str> = places.iter().map(|place| &*place.memory).collect();
        let options = TimingOptions { active_cores: options.active_cores.max(batch), ..*options };
        let asked = by_stages(spec, &self.program, &self.commands, &memories, &options)?;
        Ok((in_stages(spec, &self.program, &asked, &options, cut)?, places))
    }

    /// What each run on `cores` (a bit each) asks of the device, for `clock::compose`.
    ///
    /// # Errors
    /// As [`Self::timeline`]; [`Error::Argument`](triune_compiler::Error::Argument) if the device's time is not modelled, or the cores are not as many as the
    /// batch has images.
    pub fn demand(&self, spec: &DeviceSpec, options: &TimingOptions, cores: u64) -> Result<Demand, Error> {
        let batch = self.program.batch;
        if cores.count_ones() as usize != batch {
            return Err(Error::argument(format!("a batch of {batch} on {} cores", cores.count_ones())));
        }
        let mut busy = Vec::with_capacity(spec.cores as usize);
        let mut own: Option<Timeline> = None;
        for active in 1..=spec.cores {
            if active as usize <= batch && active > 1 {
                busy.push(busy[0]);
                continue;
            }
            // A program is cut once, for its own cores at work.
            let options = TimingOptions { active_cores: active, ..*options };
            let (timeline, _) = self.timed(spec, &options, own.as_ref())?;
            if timeline.clock_mhz == 0 {
                return Err(Error::argument(format!("the time of '{}' is not modelled", spec.name)));
            }
            busy.push(timeline.nanos_up(timeline.total_cycles));
            own.get_or_insert(timeline);
        }
        let own = own.ok_or_else(|| Error::internal("a device without cores"))?;
        Ok(demand(spec, &self.program, cores, &busy, &own))
    }
}
