//! Composition without executing: instances that call again and again, for a stretch of virtual time.

use std::sync::Arc;

use super::{Composition, Demand, InstanceTimes, MAX_RUNS, engine::Engine};
use crate::Error;

/// When an instance calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// As soon as one of its `depth` runs under way has ended: 1 for a caller that waits for each result.
    Closed {
        /// Runs under way at once.
        depth: u32,
    },
    /// Every `period` nanoseconds from `offset` on, whether earlier runs have ended or not, as a camera does.
    Periodic {
        /// Nanoseconds between calls, at least 1.
        period: u64,
        /// The first call.
        offset: u64,
    },
}

/// One that runs a program.
#[derive(Clone, Debug)]
pub struct Instance {
    /// For people.
    pub name: String,
    /// Images per run.
    pub images: u32,
    /// What each run asks for.
    pub demand: Arc<Demand>,
    /// When it calls.
    pub arrivals: Arrivals,
}

/// What `instances` do to each other on a device of `cores` cores from time 0 until `horizon` (nanoseconds). Runs that
/// have not ended by then are left out, but they take part until then.
///
/// # Errors
/// [`Error::Argument`](triune_compiler::Error::Argument) if an instance is on a core that there is not, calls with a period or depth of 0, or the horizon
/// holds more than [`MAX_RUNS`] runs.
pub fn compose(cores: u32, instances: &[Instance], horizon: u64) -> Result<Composition, Error> {
    let mut engine = Engine::new(cores);
    let too_many =
        || Error::argument(format!("more than {MAX_RUNS} runs in {horizon} ns; choose a shorter time"));
    let mut calls: u64 = 0;
    for (index, instance) in instances.iter().enumerate() {
        let wrong = |what: String| Error::argument(format!("instance '{}': {what}", instance.name));
        let last = instance.demand.cores().ilog2();
        if last >= cores {
            return Err(wrong(format!("core {last}; the device has {cores}")));
        }
        let index = index as u32;
        match instance.arrivals {
            Arrivals::Closed { depth } => {
                if depth == 0 {
                    return Err(wrong("no run under way at once: the depth is 0".into()));
                }
                calls += u64::from(depth);
                if calls > MAX_RUNS as u64 {
                    return Err(too_many());
                }
                for _ in 0..depth {
                    engine.submit(0, index, &instance.demand);
                }
            }
            Arrivals::Periodic { period, offset } => {
                if period == 0 {
                    return Err(wrong("a period of 0".into()));
                }
                calls = calls.saturating_add(horizon.saturating_sub(offset) / period);
                if calls > MAX_RUNS as u64 {
                    return Err(too_many());
                }
                let mut at = offset;
                while at <= horizon {
                    engine.submit(at, index, &instance.demand);
                    let Some(next) = at.checked_add(period) else { break };
                    at = next;
                }
            }
        }
    }
    let (mut ended, mut runs) = (Vec::new(), Vec::new());
    while engine.step(horizon, &mut ended) {
        for (_, stamp) in ended.drain(..) {
            let instance = &instances[stamp.instance as usize];
            if let Arrivals::Closed { .. } = instance.arrivals {
                calls += 1;
                if calls > MAX_RUNS as u64 {
                    return Err(too_many());
                }
                engine.submit(stamp.end, stamp.instance, &instance.demand);
            }
            runs.push(stamp);
        }
    }
    let names = instances.iter().map(|instance| InstanceTimes {
        name: instance.name.clone(),
        images: instance.images,
        cores: instance.demand.cores(),
        ..InstanceTimes::default()
    });
    Ok(Composition::new(horizon, names.collect(), runs, &engine))
}
