//! The composition itself: runs pass the host's call, the link, their cores and the link again, and share what is shared.
//!
//! Integers only. A run's work on its cores is [`WORK`] units; while k cores are at work it does ⌈[`WORK`]/t(k)⌉ of them
//! per nanosecond, t(k) being what its timeline takes then. So work is additive, however time is cut up, and a run that
//! has k cores at work all the time takes exactly t(k).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    sync::Arc,
};

use triune_device::timing::Span;

/// Units of work of a run on its cores. With times up to [`MAX_NANOS`], rounding a rate up shortens no whole run.
const WORK: u128 = 1 << 96;

/// Longest time that one phase of a run can take: some 19 hours. Its square stays below [`WORK`].
const MAX_NANOS: u64 = 1 << 46;

/// Most cores of a device, as its description allows.
const MAX_CORES: usize = 64;

/// What one run asks of its device, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    cores: u64,
    busy: Box<[u64]>,
    rates: Box<[u128]>,
    call: u64,
    input: u64,
    output: u64,
}

impl Demand {
    /// A run on `cores` (a bit each, at least one) of a device. `busy[k − 1]` is what it takes while k cores are at work,
    /// its own included; entries for fewer than its own are not looked at, and a busier device is never a faster one: an
    /// entry below the one before counts as that. `call` passes on the host before the input moves; `input` and `output`
    /// are what the host link needs for them. Times are held to 1 ns at least on the cores and to 2⁴⁶ ns at most.
    pub fn new(cores: u64, busy: &[u64], call: u64, input: u64, output: u64) -> Self {
        let own = (cores.count_ones() as usize).clamp(1, MAX_CORES);
        let mut least = 1;
        let busy: Box<[u64]> = busy
            .iter()
            .enumerate()
            .map(|(at, &nanos)| {
                if at + 1 >= own {
                    least = nanos.clamp(least, MAX_NANOS);
                }
                least
            })
            .collect();
        let rates = busy.iter().map(|&nanos| WORK.div_ceil(u128::from(nanos))).collect();
        let [call, input, output] = [call, input, output].map(|nanos| nanos.min(MAX_NANOS));
        Self { cores: cores.max(1), busy, rates, call, input, output }
    }

    /// Its cores, a bit each.
    pub const fn cores(&self) -> u64 {
        self.cores
    }

    /// What it takes on its cores while `active` cores are at work, in nanoseconds.
    pub fn busy(&self, active: u32) -> u64 {
        self.busy.get(self.at(active)).copied().unwrap_or(1)
    }

    /// From the call to the result when nothing else is at work.
    pub fn alone(&self) -> u64 {
        self.call + self.input + self.busy(self.cores.count_ones()) + self.output
    }

    /// The host's part of a call.
    pub const fn call(&self) -> u64 {
        self.call
    }

    /// What the link needs for inputs and for outputs.
    pub const fn transfers(&self) -> [u64; 2] {
        [self.input, self.output]
    }

    fn at(&self, active: u32) -> usize {
        (active.max(1) as usize - 1).min(self.busy.len().saturating_sub(1))
    }

    fn rate(&self, active: u32) -> u128 {
        self.rates.get(self.at(active)).copied().unwrap_or(WORK)
    }
}

/// When a run was where, in nanoseconds of the device's clock. Stages that take nothing are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Whose run it is.
    pub instance: u32,
    /// When it was called.
    pub queued: u64,
    /// Its inputs on the host link.
    pub input: Span,
    /// On its cores.
    pub compute: Span,
    /// Its outputs on the host link.
    pub output: Span,
    /// When its result is with the host.
    pub end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Will be called at a time that is known.
    Due,
    Call,
    Input,
    Compute,
    Output,
}

#[derive(Debug)]
struct Run {
    demand: Arc<Demand>,
    phase: Phase,
    /// Units of work that are left, as of `Engine::since`.
    left: u128,
    stamp: Stamp,
}

/// One direction of the host link: one transfer at a time, in the order of arrival.
#[derive(Debug, Default)]
struct Link {
    /// Since when it moves something.
    taken: Option<u64>,
    waiting: BTreeSet<(u64, u64)>,
}

/// A device in virtual time.
///
/// At each instant, first everything that ends moves on, then what waits starts: first come, first served at each core and
/// each direction of the link; at the same instant, the run that was submitted first. A run that needs several cores
/// starts when it is the first at all of them, and they are free.
#[derive(Debug)]
pub(super) struct Engine {
    now: u64,
    submitted: u64,
    runs: HashMap<u64, Run>,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    links: [Link; 2],
    /// Who waits for each core, by time of arrival.
    waiting: Vec<BTreeSet<(u64, u64)>>,
    /// Idle cores, a bit each.
    idle: u64,
    running: Vec<u64>,
    /// Cores at work.
    active: u32,
    /// When the work that is left was last brought up to date.
    since: u64,
    /// When the first computation ends.
    computed: Option<u64>,
    core_busy: Vec<u64>,
    link_busy: [u64; 2],
}

impl Engine {
    pub(super) fn new(cores: u32) -> Self {
        let cores = (cores as usize).clamp(1, MAX_CORES);
        Self {
            now: 0,
            submitted: 0,
            runs: HashMap::new(),
            timers: BinaryHeap::new(),
            links: Default::default(),
            waiting: vec![BTreeSet::new(); cores],
            idle: if cores == MAX_CORES { u64::MAX } else { (1 << cores) - 1 },
            running: Vec::with_capacity(cores),
            active: 0,
            since: 0,
            computed: None,
            core_busy: vec![0; cores],
            link_busy: [0; 2],
        }
    }

    /// A run that is called at `at`, or now if that has passed; gives its number, which counts up. Its cores must be the
    /// device's.
    pub(super) fn submit(&mut self, at: u64, instance: u32, demand: &Arc<Demand>) -> u64 {
        let (id, at) = (self.submitted, at.max(self.now));
        self.submitted += 1;
        debug_assert_eq!(demand.cores >> (self.waiting.len() - 1) >> 1, 0);
        let stamp = Stamp { instance, queued: at, ..Stamp::default() };
        self.runs.insert(id, Run { demand: Arc::clone(demand), phase: Phase::Due, left: WORK, stamp });
        self.timers.push(Reverse((at, id)));
        id
    }

    /// Whether a run has not ended yet.
    pub(super) fn pending(&self, id: u64) -> bool {
        self.runs.contains_key(&id)
    }

    /// When something happens next; not before the last instant.
    pub(super) fn next(&self) -> Option<u64> {
        let timer = self.timers.peek().map(|&Reverse((at, _))| at);
        timer.into_iter().chain(self.computed).min()
    }

    /// Nanoseconds until `until`, which the engine has reached, that each core and each direction of the link was taken.
    pub(super) fn busy(&self, until: u64) -> (Vec<u64>, [u64; 2]) {
        let (mut cores, mut links) = (self.core_busy.clone(), self.link_busy);
        for run in self.running.iter().filter_map(|id| self.runs.get(id)) {
            for (core, busy) in cores.iter_mut().enumerate() {
                if run.demand.cores >> core & 1 == 1 {
                    *busy += until.saturating_sub(run.stamp.compute.start);
                }
            }
        }
        for (busy, link) in links.iter_mut().zip(&self.links) {
            *busy += link.taken.map_or(0, |start| until.saturating_sub(start));
        }
        (cores, links)
    }

    /// Goes to the next instant at which something happens, if it is not after `until`; adds the runs that end then to
    /// `done`. False when there is none.
    pub(super) fn step(&mut self, until: u64, done: &mut Vec<(u64, Stamp)>) -> bool {
        let Some(now) = self.next().filter(|&next| next <= until) else { return false };
        self.now = now;
        self.catch_up();
        let mut ended: Vec<u64> = Vec::new();
        while let Some(&Reverse((at, id))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            ended.push(id);
        }
        let (runs, running) = (&self.runs, &mut self.running);
        running.retain(|id| {
            let over = runs.get(id).is_none_or(|run| run.left == 0);
            if over {
                ended.push(*id);
            }
            !over
        });
        ended.sort_unstable();
        for id in ended {
            self.leave(id);
            if let Some(stamp) = self.enter(id) {
                done.push((id, stamp));
            }
        }
        self.start_transfers();
        self.start_computations();
        self.foresee();
        true
    }

    /// Work done since the last instant.
    fn catch_up(&mut self) {
        let elapsed = u128::from(self.now - self.since);
        self.since = self.now;
        for id in &self.running {
            if let Some(run) = self.runs.get_mut(id) {
                run.left = run.left.saturating_sub(run.demand.rate(self.active).saturating_mul(elapsed));
            }
        }
    }

    /// Gives back what a run held in the phase that ends.
    fn leave(&mut self, id: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match run.phase {
            Phase::Due | Phase::Call => {}
            Phase::Input => {
                run.stamp.input.end = self.now;
                self.links[0].taken = None;
                self.link_busy[0] += run.demand.input;
            }
            Phase::Output => {
                run.stamp.output.end = self.now;
                self.links[1].taken = None;
                self.link_busy[1] += run.demand.output;
            }
            Phase::Compute => {
                run.stamp.compute.end = self.now;
                self.idle |= run.demand.cores;
                self.active -= run.demand.cores.count_ones();
                for (core, busy) in self.core_busy.iter_mut().enumerate() {
                    if run.demand.cores >> core & 1 == 1 {
                        *busy += self.now - run.stamp.compute.start;
                    }
                }
            }
        }
    }

    /// Queues a run for its next phase that takes time; gives its stamp, and forgets it, when there is none.
    fn enter(&mut self, id: u64) -> Option<Stamp> {
        let now = self.now;
        let run = self.runs.get_mut(&id)?;
        let (demand, stamp) = (&run.demand, &mut run.stamp);
        let nothing = Span { start: now, end: now };
        if run.phase == Phase::Due && demand.call > 0 {
            run.phase = Phase::Call;
            self.timers.push(Reverse((now.saturating_add(demand.call), id)));
            return None;
        }
        if matches!(run.phase, Phase::Due | Phase::Call) {
            if demand.input > 0 {
                run.phase = Phase::Input;
                self.links[0].waiting.insert((now, id));
                return None;
            }
            stamp.input = nothing;
        }
        if matches!(run.phase, Phase::Due | Phase::Call | Phase::Input) {
            run.phase = Phase::Compute;
            for (core, waiting) in self.waiting.iter_mut().enumerate() {
                if demand.cores >> core & 1 == 1 {
                    waiting.insert((now, id));
                }
            }
            return None;
        }
        if run.phase == Phase::Compute {
            if demand.output > 0 {
                run.phase = Phase::Output;
                self.links[1].waiting.insert((now, id));
                return None;
            }
            stamp.output = nothing;
        }
        stamp.end = now;
        self.runs.remove(&id).map(|run| run.stamp)
    }

    fn start_transfers(&mut self) {
        for (at, link) in self.links.iter_mut().enumerate() {
            if link.taken.is_some() {
                continue;
            }
            let Some((_, id)) = link.waiting.pop_first() else { continue };
            let Some(run) = self.runs.get_mut(&id) else { continue };
            let (span, nanos) = match at {
                0 => (&mut run.stamp.input, run.demand.input),
                _ => (&mut run.stamp.output, run.demand.output),
            };
            span.start = self.now;
            link.taken = Some(self.now);
            self.timers.push(Reverse((self.now.saturating_add(nanos), id)));
        }
    }

    fn start_computations(&mut self) {
        for core in 0..self.waiting.len() {
            let Some(&first) = self.waiting[core].first() else { continue };
            let Some(run) = self.runs.get_mut(&first.1) else { continue };
            let cores = run.demand.cores;
            let own = |core: &usize| cores >> core & 1 == 1;
            let first_everywhere =
                (0..self.waiting.len()).filter(own).all(|core| self.waiting[core].first() == Some(&first));
            if self.idle & cores != cores || !first_everywhere {
                continue;
            }
            run.stamp.compute.start = self.now;
            self.idle &= !cores;
            self.active += cores.count_ones();
            self.running.push(first.1);
            for core in (0..self.waiting.len()).filter(own) {
                self.waiting[core].remove(&first);
            }
        }
    }

    /// When the first of the running computations ends if nothing changes.
    fn foresee(&mut self) {
        let ends = self.running.iter().filter_map(|id| {
            let run = self.runs.get(id)?;
            let nanos = run.left.div_ceil(run.demand.rate(self.active));
            Some(self.since.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX)))
        });
        self.computed = ends.min();
    }
}
