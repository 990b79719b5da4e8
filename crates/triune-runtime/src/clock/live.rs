//! What was really run on a device: a bounded log of runs, composed when somebody asks, and pacing.
//!
//! A log entry says whose run it was and what it came after: the last run that its thread waited for, and the last one
//! that its deployment gave back. Virtual times follow from that alone, not from how fast this machine is, so that
//! logging costs a lock and a push. Paced runs are composed as they come besides, with the host's clock as the time of
//! their call, and wait until the composition says that they have ended.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use triune_fork::{Brief, BriefGuard};

use super::{Composition, Demand, InstanceTimes, Stamp, engine::Engine};
use crate::Error;
use triune_device::cancel;

/// Most runs that a clock remembers.
pub(super) const MAX_LOG: usize = 1 << 16;

/// Devices whose last run a thread remembers.
const MAX_THREAD_DEVICES: usize = 16;

/// The environment's word on pacing.
const VARIABLE: &str = "TRIUNE_REALTIME";

/// How fast a paced device runs: virtual time over the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realtime {
    millionths: u64,
}

impl Realtime {
    /// As fast as the device itself.
    pub const DEVICE: Self = Self { millionths: 1_000_000 };

    /// `factor` times as fast as the device: 2 lets runs last half as long, 0.1 ten times.
    ///
    /// # Errors
    /// [`Error::Operand`] unless it is from 0.001 to 1000.
    pub fn new(factor: f64) -> Result<Self, Error> {
        if !(0.001..=1000.0).contains(&factor) {
            return Err(Error::Operand {
                what: "realtime".into(),
                expected: "a factor from 0.001 to 1000".into(),
                got: factor.to_string(),
            });
        }
        Ok(Self { millionths: (factor * 1e6).round() as u64 })
    }

    /// What the environment variable `TRIUNE_REALTIME` asks for: 1 for the device's own speed, another factor for a
    /// multiple of it; unset, empty or 0: no pacing.
    ///
    /// # Errors
    /// [`Error::Card`] if it is something else.
    pub fn from_env() -> Result<Option<Self>, Error> {
        let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let text = value.to_string_lossy();
        let wrong = || crate::card::Error::BadSetting {
            name: VARIABLE.into(),
            expected: "0, 1, or a factor from 0.001 to 1000".into(),
            got: text.clone().into_owned(),
        };
        match text.trim().parse::<f64>() {
            Ok(0.0) => Ok(None),
            Ok(factor) => Self::new(factor).map(Some).map_err(|_| wrong().into()),
            Err(_) => Err(wrong().into()),
        }
    }

    /// Virtual nanoseconds in `host` nanoseconds.
    fn passed(self, host: u128) -> u64 {
        u64::try_from(host * u128::from(self.millionths) / 1_000_000).unwrap_or(u64::MAX)
    }

    /// Time on the host until `nanos` virtual ones have passed.
    fn takes(self, nanos: u64) -> Duration {
        let host = (u128::from(nanos) * 1_000_000).div_ceil(u128::from(self.millionths));
        Duration::from_nanos(u64::try_from(host).unwrap_or(u64::MAX))
    }
}

/// The clock of one device: what ran on it.
#[derive(Debug)]
pub struct DeviceClock {
    /// Tells clocks apart for threads that use several.
    number: u64,
    cores: u32,
    state: Brief<State>,
}

#[derive(Debug)]
struct State {
    log: VecDeque<Entry>,
    /// Number of the log's first entry: how many are forgotten.
    first: u64,
    owners: u32,
    paced: Option<Paced>,
    /// Deployments that are paced.
    pacing: usize,
}

/// A run that was done.
#[derive(Clone, Debug)]
struct Entry {
    owner: Arc<Owner>,
    /// Runs that had ended before this one was called.
    after: [Option<u64>; 2],
    /// When a paced one was called; 0 for others.
    called: u64,
}

/// A deployment, as the log remembers it.
#[derive(Debug)]
struct Owner {
    number: u32,
    images: u32,
    demand: Arc<Demand>,
}

/// The composition of paced runs, in step with the host's clock.
#[derive(Debug)]
struct Paced {
    speed: Realtime,
    /// A moment on the host, and the virtual time then.
    epoch: (Instant, u64),
    engine: Engine,
    /// Where ends are collected; nobody looks at them.
    ended: Vec<(u64, Stamp)>,
}

impl Paced {
    fn now(&self) -> u64 {
        self.epoch.1.saturating_add(self.speed.passed(self.epoch.0.elapsed().as_nanos()))
    }

    /// Lets everything happen that has its time by now; gives the time.
    fn catch_up(&mut self) -> u64 {
        let now = self.now();
        while self.engine.step(now, &mut self.ended) {
            self.ended.clear();
        }
        now
    }
}

thread_local! {
    /// The last run that this thread waited for, by the clock's number.
    static LAST: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

fn last_of_thread(clock: u64) -> Option<u64> {
    LAST.with_borrow(|last| last.iter().find(|(number, _)| *number == clock).map(|&(_, run)| run))
}

fn note_for_thread(clock: u64, run: u64) {
    LAST.with_borrow_mut(|last| {
        if let Some(entry) = last.iter_mut().find(|(number, _)| *number == clock) {
            entry.1 = run;
            return;
        }
        if last.len() == MAX_THREAD_DEVICES {
            last.remove(0);
        }
        last.push((clock, run));
    });
}

impl DeviceClock {
    /// A clock of a device of `cores` cores, at 0.
    pub(crate) fn new(cores: u32) -> Self {
        static CLOCKS: AtomicU64 = AtomicU64::new(0);
        Self {
            number: CLOCKS.fetch_add(1, Ordering::Relaxed),
            cores,
            state: Brief::new(State { log: VecDeque::new(), first: 0, owners: 0, paced: None, pacing: 0 }),
        }
    }

    fn state(&self) -> BriefGuard<'_, State> {
        self.state.lock()
    }

    /// What the runs so far did to each other; the last 65 536 of them, and how many older ones are forgotten. A
    /// deployment's runs, and those of a thread, follow each other as they did; time between them counts only where they
    /// were paced. Runs that failed, and those of other processes, are not in it.
    pub fn composition(&self) -> Composition {
        let (log, first) = {
            let state = self.state();
            (state.log.iter().cloned().collect::<Vec<_>>(), state.first)
        };
        let mut owners: Vec<&Owner> = Vec::new();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for entry in &log {
            numbers.entry(entry.owner.number).or_insert_with(|| {
                owners.push(&entry.owner);
                owners.len() as u32 - 1
            });
        }
        let names = owners.iter().map(|owner| InstanceTimes {
            name: format!("deployment {}", owner.number),
            images: owner.images,
            cores: owner.demand.cores(),
            ..InstanceTimes::default()
        });
        let names = names.collect();
        let mut replay = Replay::new(self.cores, &log, first, numbers);
        let runs = replay.finish();
        let horizon = runs.last().map_or(0, |run| run.end);
        let composition = Composition::new(horizon, names, runs, &replay.engine);
        Composition { forgotten: first, ..composition }
    }

    /// Forgets all runs so far; the ones to come are as if nothing had been before.
    pub fn clear(&self) {
        let mut state = self.state();
        state.first += state.log.len() as u64;
        state.log.clear();
    }
}

/// The log's runs on an engine, each as soon as those before it have ended.
struct Replay<'a> {
    engine: Engine,
    log: &'a [Entry],
    /// When the first run was called.
    start: u64,
    instances: HashMap<u32, u32>,
    /// How many of the runs that each came after have not ended.
    missing: Vec<usize>,
    /// The runs that come after each.
    following: Vec<Vec<usize>>,
    /// When the last of those that each came after ended.
    ready: Vec<u64>,
    /// The log's entry of each of the engine's runs.
    entries: Vec<usize>,
}

impl<'a> Replay<'a> {
    fn new(cores: u32, log: &'a [Entry], first: u64, instances: HashMap<u32, u32>) -> Self {
        let (mut missing, mut following) = (vec![0; log.len()], vec![Vec::new(); log.len()]);
        for (run, entry) in log.iter().enumerate() {
            let [a, b] = entry.after;
            for earlier in [a, b.filter(|_| a != b)].into_iter().flatten() {
                // What is forgotten has ended before everything else.
                let Some(earlier) = earlier.checked_sub(first) else { continue };
                if let Some(list) = following.get_mut(earlier as usize) {
                    list.push(run);
                    missing[run] += 1;
                }
            }
        }
        Self {
            engine: Engine::new(cores),
            log,
            start: log.iter().map(|entry| entry.called).min().unwrap_or(0),
            instances,
            missing,
            following,
            ready: vec![0; log.len()],
            entries: Vec::with_capacity(log.len()),
        }
    }

    fn submit(&mut self, entry: usize) {
        let Entry { owner, called, .. } = &self.log[entry];
        let at = self.ready[entry].max(called.saturating_sub(self.start));
        self.engine.submit(at, self.instances.get(&owner.number).copied().unwrap_or(0), &owner.demand);
        self.entries.push(entry);
    }

    fn finish(&mut self) -> Vec<Stamp> {
        for entry in 0..self.log.len() {
            if self.missing[entry] == 0 {
                self.submit(entry);
            }
        }
        let (mut ended, mut runs) = (Vec::new(), Vec::with_capacity(self.log.len()));
        while self.engine.step(u64::MAX, &mut ended) {
            for (id, stamp) in ended.drain(..) {
                runs.push(stamp);
                let entry = self.entries[id as usize];
                for next in std::mem::take(&mut self.following[entry]) {
                    self.ready[next] = self.ready[next].max(stamp.end);
                    self.missing[next] -= 1;
                    if self.missing[next] == 0 {
                        self.submit(next);
                    }
                }
            }
        }
        runs
    }
}

/// One deployment's way to its device's clock.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Arc<DeviceClock>,
    owner: Arc<Owner>,
    paced: bool,
    /// Calls until the result of a run is given back: 0 for the call's own.
    lag: usize,
    /// Runs that were not given back, the oldest first: their numbers in the log and in the paced engine.
    under_way: VecDeque<(u64, u64)>,
    /// The last run that was given back.
    returned: Option<u64>,
}

/// A run that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// Its number in the paced engine, and the virtual time of the call.
    paced: Option<(u64, u64)>,
}

impl Meter {
    /// For a deployment whose runs ask for `demand`, and give back results `lag` calls late.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) if deployments that are paced at another speed are on the device.
    pub(crate) fn new(
        clock: &Arc<DeviceClock>,
        images: u32,
        demand: Demand,
        lag: usize,
        realtime: Option<Realtime>,
    ) -> Result<Self, Error> {
        let mut state = clock.state();
        if let Some(speed) = realtime {
            state.pace(speed, clock.cores)?;
        }
        let owner = Arc::new(Owner { number: state.owners, images, demand: Arc::new(demand) });
        state.owners += 1;
        drop(state);
        let paced = realtime.is_some();
        Ok(Self { clock: Arc::clone(clock), owner, paced, lag, under_way: VecDeque::new(), returned: None })
    }

    /// What each run asks for.
    pub(crate) fn demand(&self) -> &Arc<Demand> {
        &self.owner.demand
    }

    /// A run is called.
    pub(crate) fn start(&self) -> Started {
        if !self.paced {
            return Started { paced: None };
        }
        let mut state = self.clock.state();
        let paced = state.paced.as_mut().map(|paced| {
            let now = paced.catch_up();
            (paced.engine.submit(now, self.owner.number, &self.owner.demand), now)
        });
        Started { paced }
    }

    /// A run was done; sleeps, when it is paced, until the device would have given back what this call gives back.
    pub(crate) fn finish(&mut self, started: Started) {
        let after = [last_of_thread(self.clock.number), self.returned];
        let called = started.paced.map_or(0, |(_, now)| now);
        let run = self.clock.state().push(Entry { owner: Arc::clone(&self.owner), after, called });
        self.under_way.push_back((run, started.paced.map_or(0, |(id, _)| id)));
        if self.under_way.len() <= self.lag {
            return;
        }
        let Some((run, id)) = self.under_way.pop_front() else { return };
        self.returned = Some(run);
        note_for_thread(self.clock.number, run);
        if started.paced.is_some() {
            self.wait(id);
        }
    }

    fn wait(&self, id: u64) {
        loop {
            let pause = {
                let mut state = self.clock.state();
                let Some(paced) = state.paced.as_mut() else { return };
                let now = paced.catch_up();
                if !paced.engine.pending(id) {
                    return;
                }
                // Nothing that others do later lets a run end before the next thing that happens.
                let Some(next) = paced.engine.next() else { return };
                paced.speed.takes(next.saturating_sub(now))
            };
            if !cancel::sleep(pause) {
                return;
            }
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.paced {
            self.clock.state().pacing -= 1;
        }
    }
}

impl State {
    fn push(&mut self, entry: Entry) -> u64 {
        if self.log.len() == MAX_LOG {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(entry);
        self.first + self.log.len() as u64 - 1
    }

    /// Counts one more paced deployment.
    fn pace(&mut self, speed: Realtime, cores: u32) -> Result<(), Error> {
        match &mut self.paced {
            Some(paced) if paced.speed != speed && self.pacing > 0 => {
                return Err(Error::argument(format!(
                    "realtime: other deployments on the device are paced at {} times its speed",
                    paced.speed.millionths as f64 / 1e6
                )));
            }
            Some(paced) => {
                paced.epoch = (Instant::now(), paced.now());
                paced.speed = speed;
            }
            none => {
                *none = Some(Paced {
                    speed,
                    epoch: (Instant::now(), 0),
                    engine: Engine::new(cores),
                    ended: Vec::new(),
                });
            }
        }
        self.pacing += 1;
        Ok(())
    }
}
