//! A device's virtual clock: what runs of all its deployments do to each other, and how long they take together.
//!
//! A run passes four phases: the host's call, its inputs over the host link, its cores, its outputs over the link. Each
//! core and each direction of the link serves one run at a time, in the order of arrival; on its cores a run goes as fast
//! as its timeline says beside what the runs at work at that moment ask of the memories. `compose` says what happens without running
//! anything; `DeviceClock` keeps what was really run, and can hold runs back until the device would have ended them.
//!
//! Times are integers, nanoseconds of virtual time: the same loads give the same composition on every machine.

mod engine;
mod live;
mod plan;

pub use engine::{Demand, MemoryUse, Stamp};
pub(crate) use live::Meter;
pub use live::{DeviceClock, Realtime};
pub use plan::{Arrivals, Instance, compose};

use engine::Engine;

/// Most runs that a composition holds.
pub const MAX_RUNS: usize = 1 << 18;

/// Latencies of an instance's runs, from the call to the result, in nanoseconds; 0 without runs. The n-th percentile is
/// the shortest that at least n % of the runs do not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The shortest.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// The average, rounded down.
    pub mean: u64,
}

/// What one instance got done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceTimes {
    /// For people.
    pub name: String,
    /// Its cores, a bit each.
    pub cores: u64,
    /// Images per run.
    pub images: u32,
    /// Runs that ended.
    pub runs: u64,
    /// From the call to the result.
    pub latency: Latency,
    /// When the first and the last of the runs ended.
    pub ends: [u64; 2],
}

impl InstanceTimes {
    /// Images per second, by the time between the first result and the last, so that the start does not count; with fewer
    /// than two runs by the whole time, `horizon` nanoseconds.
    pub fn images_per_second(&self, horizon: u64) -> f64 {
        let [first, last] = self.ends;
        let (runs, nanos) = if last > first { (self.runs - 1, last - first) } else { (self.runs, horizon) };
        if nanos == 0 {
            return 0.0;
        }
        (runs * u64::from(self.images)) as f64 * 1e9 / nanos as f64
    }
}

/// What runs did to each other on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Nanoseconds that it covers, from 0.
    pub horizon: u64,
    /// Per instance, in the order in which they were given or made.
    pub instances: Vec<InstanceTimes>,
    /// Every run that ended, in the order in which they did.
    pub runs: Vec<Stamp>,
    /// Nanoseconds that each core was taken.
    pub core_busy: Vec<u64>,
    /// Nanoseconds that the host link was taken: to the device, from the device.
    pub link_busy: [u64; 2],
    /// Older runs that a live clock no longer remembers.
    pub forgotten: u64,
}

impl Composition {
    fn new(horizon: u64, mut instances: Vec<InstanceTimes>, runs: Vec<Stamp>, engine: &Engine) -> Self {
        let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); instances.len()];
        for run in &runs {
            let instance = &mut instances[run.instance as usize];
            instance.ends = [if instance.runs == 0 { run.end } else { instance.ends[0] }, run.end];
            instance.runs += 1;
            latencies[run.instance as usize].push(run.end - run.queued);
        }
        for (instance, mut latencies) in instances.iter_mut().zip(latencies) {
            instance.latency = latency(&mut latencies);
        }
        let (core_busy, link_busy) = engine.busy(horizon);
        Self { horizon, instances, runs, core_busy, link_busy, forgotten: 0 }
    }

    /// Images per second of all instances together.
    pub fn images_per_second(&self) -> f64 {
        self.instances.iter().map(|instance| instance.images_per_second(self.horizon)).sum()
    }
}

fn latency(nanos: &mut [u64]) -> Latency {
    nanos.sort_unstable();
    let at = |percent: usize| {
        nanos.get((nanos.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
    };
    let sum: u128 = nanos.iter().copied().map(u128::from).sum();
    let mean = sum.checked_div(nanos.len() as u128).unwrap_or(0) as u64;
    Latency { min: at(0), p50: at(50), p90: at(90), p99: at(99), max: at(100), mean }
}

#[cfg(test)]
mod tests;
