//! A package on a card, as programs run it: results at once or two calls late, and how long the host took.

use std::time::Instant;

use triune_tensor::memory;

use crate::{
    DeployOptions, Deployment, Error, Package, Profile, SessionOptions, card::Card, clock::Realtime,
};

/// Calls until a double-buffered result arrives: one while it is copied in and computed, one while it is copied out.
pub const DOUBLE_BUFFER_DELAY: usize = 2;

/// How a package runs on a card.
#[derive(Clone, Debug)]
pub struct InstanceOptions {
    /// Numbers of the cores, one per image of the batch.
    pub cores: Vec<u32>,
    /// Threads that compute a run; 0: one per image of the batch.
    pub threads: usize,
    /// Whether results arrive [`DOUBLE_BUFFER_DELAY`] calls late, as copies and computation overlap.
    pub double_buffer: bool,
    /// Whether the host's time of each run is taken.
    pub host_profiling: bool,
    /// Percent of the memory for constants that they may have; what does not fit streams.
    pub constants_percent: u32,
    /// The speed that runs are paced at; without one, the environment says.
    pub realtime: Option<Realtime>,
}

/// What the host took for the runs so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// Runs.
    pub calls: u64,
    /// All of them together.
    pub total: u64,
    /// The shortest.
    pub least: u64,
    /// The longest.
    pub most: u64,
    /// The last one.
    pub last: u64,
}

impl HostTimes {
    fn add(&mut self, nanos: u64) {
        self.least = if self.calls == 0 { nanos } else { self.least.min(nanos) };
        self.most = self.most.max(nanos);
        self.last = nanos;
        self.total = self.total.saturating_add(nanos);
        self.calls += 1;
    }
}

/// A package on a card.
#[derive(Debug)]
pub struct Instance {
    deployment: Deployment,
    /// Results under way, the newest at `calls % late.len()`; empty without double buffering.
    late: Vec<Vec<Vec<u8>>>,
    calls: usize,
    host: Option<HostTimes>,
}

impl Instance {
    /// Puts a package's program, and what the host computes while it waits, on a card.
    ///
    /// # Errors
    /// As [`Deployment::on_card`] and [`Package::between_parts`]; [`Error::Memory`] if there is no room for results under way.
    pub fn new(card: &Card, package: &Package, options: InstanceOptions) -> Result<Self, Error> {
        let program = package.program();
        let threads = if options.threads == 0 { program.batch } else { options.threads };
        let slots = if options.double_buffer { DOUBLE_BUFFER_DELAY + 1 } else { 0 };
        let deploy = DeployOptions {
            threads,
            cores: options.cores,
            constants_percent: Some(options.constants_percent),
            lag: slots.saturating_sub(1),
            realtime: options.realtime,
            ..DeployOptions::default()
        };
        let mut deployment = Deployment::on_card(card, program, deploy)?;
        deployment
            .attach(package.between_parts(&SessionOptions { threads, ..SessionOptions::default() })?)?;
        let slot = || program.results().iter().map(|io| memory::filled(io.bytes(), 0)).collect();
        let late = (0..slots).map(|_| slot()).collect::<Result<_, _>>()?;
        let host = options.host_profiling.then(HostTimes::default);
        Ok(Self { deployment, late, calls: 0, host })
    }

    /// Computes `outputs` from `inputs`, the bytes of each tensor of the border in its order. With double buffering, call n
    /// gives the results of call n − [`DOUBLE_BUFFER_DELAY`]; the first calls write nothing.
    ///
    /// # Errors
    /// As [`Deployment::run`]; results under way stay as they were then.
    pub fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), Error> {
        let start = self.host.is_some().then(Instant::now);
        if self.late.is_empty() {
            self.deployment.run(inputs, outputs)?;
        } else {
            let slots = self.late.len();
            let mut into: Vec<&mut [u8]> =
                self.late[self.calls % slots].iter_mut().map(Vec::as_mut_slice).collect();
            self.deployment.run(inputs, &mut into)?;
            if let Some(ready) = self.calls.checked_sub(DOUBLE_BUFFER_DELAY) {
                for (output, late) in outputs.iter_mut().zip(&self.late[ready % slots]) {
                    output.copy_from_slice(late);
                }
            }
        }
        self.calls += 1;
        if let (Some(host), Some(start)) = (&mut self.host, start) {
            host.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// The modelled cost of one run.
    pub fn profile(&self) -> Profile {
        Profile::of(&self.deployment)
    }

    /// What the host took; nothing without [`InstanceOptions::host_profiling`].
    pub fn host_times(&self) -> Option<HostTimes> {
        self.host
    }
}
