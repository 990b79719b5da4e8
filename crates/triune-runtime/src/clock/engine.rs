//! The composition itself: runs pass the host's call, the link, their cores and the link again, and share what is shared.
//!
//! Integers only. A run's work on its cores is [`WORK`] units; beside others it does ⌈[`WORK`]/t(k)⌉ of them per nanosecond, t(k)
//! being what its timeline takes with k cores at work. So work is additive, however time is cut up, and a run that has the same k all
//! the time takes exactly t(k).
//!
//! k is how many cores the run *feels*, between its own and all that are at work, by what the others ask of memories:
//!
//! ```text
//! share(m) = min(1, max((p − Σ others' traffic)/own cores, p/cores at work));   k = max over memories p/share(m)
//! ```
//! A memory of p ports has the bandwidth of p of them. Others' traffic is what their runs fill of a port's time when nothing else is at
//! work, so at most what they can take; what they leave is the run's, and an even share of it at least. t is linear between whole k.

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

/// Parts that a core is counted in where a run feels some of it.
const PART: u64 = 1 << 16;

/// What a run asks of a memory that cores share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Cores that have its whole bandwidth at once.
    pub ports: u32,
    /// Of a port's time, what the traffic of each of the run's cores fills while nothing else is at work, in [`Self::WHOLE`]ths.
    pub used: u64,
}

impl MemoryUse {
    /// All of a port's time.
    pub const WHOLE: u64 = 1 << 20;

    /// What traffic that keeps a port busy for so many cycles of `all` uses.
    pub(crate) fn new(ports: u32, cycles: u64, all: u64) -> Self {
        let used = (u128::from(cycles) * u128::from(Self::WHOLE)).div_ceil(u128::from(all.max(1)));
        Self { ports, used: u64::try_from(used).map_or(Self::WHOLE, |used| used.min(Self::WHOLE)) }
    }
}

/// What one run asks of its device, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    cores: u64,
    busy: Box<[u64]>,
    memories: Box<[MemoryUse]>,
    call: u64,
    input: u64,
    output: u64,
}

impl Demand {
    /// A run on `cores` (a bit each, at least one) of a device. `busy[k − 1]` is what it takes while k cores are at work,
    /// its own included, that all ask for as much as it; entries for fewer than its own are not looked at, and a busier device is
    /// never a faster one: an entry below the one before counts as that. `memories` is what it asks of those that cores share, in the
    /// order of the device's. `call` passes on the host before the input moves; `link` is what the host link needs for inputs and for
    /// outputs. Times are held to 1 ns at least on the cores and to 2⁴⁶ ns at most.
    pub fn new(cores: u64, busy: &[u64], memories: &[MemoryUse], call: u64, link: [u64; 2]) -> Self {
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
        let [call, input, output] = [call, link[0], link[1]].map(|nanos| nanos.min(MAX_NANOS));
        Self { cores: cores.max(1), busy, memories: memories.into(), call, input, output }
    }

    /// Its cores, a bit each.
    pub const fn cores(&self) -> u64 {
        self.cores
    }

    /// What it asks of the memories that cores share.
    pub fn memories(&self) -> &[MemoryUse] {
        &self.memories
    }

    /// What it takes on its cores while `active` cores are at work that all ask for as much as it, in nanoseconds.
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

    /// Work per nanosecond beside others: `active` cores are at work, which ask `asked` of each memory, the run's own part of it included.
    fn rate(&self, active: u32, asked: &[u64]) -> u128 {
        let felt = self.felt(active, asked);
        let (whole, part) = ((felt / PART) as u32, felt % PART);
        let least = self.busy(whole);
        let most = if part > 0 { self.busy(whole + 1) } else { least };
        let nanos = u128::from(least) * u128::from(PART) + u128::from(most - least) * u128::from(part);
        (WORK * u128::from(PART)).div_ceil(nanos)
    }

    /// Cores at work that the run feels, in [`PART`]s.
    fn felt(&self, active: u32, asked: &[u64]) -> u64 {
        let (own, active) = (u64::from(self.cores.count_ones()), u64::from(active));
        let of = |(memory, &asked): (&MemoryUse, &u64)| {
            let ports = u64::from(memory.ports);
            let others = asked.saturating_sub(own * memory.used);
            let left = (ports * MemoryUse::WHOLE).saturating_sub(others);
            // Enough for all, or for the run; or no more than an even share.
            if memory.used == 0 || active <= ports || left >= own * MemoryUse::WHOLE {
                return own * PART;
            }
            if left * active <= own * ports * MemoryUse::WHOLE {
                return active * PART;
            }
            (own * ports * MemoryUse::WHOLE * PART).div_ceil(left).clamp(own * PART, active * PART)
        };
        self.memories.iter().zip(asked).map(of).fold(own * PART, u64::max)
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
    /// Those that a nanosecond does, as long as the same runs are at work.
    rate: u128,
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
    /// What they ask of each memory that they share, in [`MemoryUse::WHOLE`]ths of a port's time.
    asked: Vec<u64>,
    /// Whether other runs are at work than before.
    changed: bool,
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
            asked: Vec::new(),
            changed: false,
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
        let demand = Arc::clone(demand);
        self.asked.resize(self.asked.len().max(demand.memories.len()), 0);
        self.runs.insert(id, Run { demand, phase: Phase::Due, left: WORK, rate: WORK, stamp });
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
                run.left = run.left.saturating_sub(run.rate.saturating_mul(elapsed));
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
                for (asked, memory) in self.asked.iter_mut().zip(&run.demand.memories) {
                    *asked -= u64::from(run.demand.cores.count_ones()) * memory.used;
                }
                self.changed = true;
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
            for (asked, memory) in self.asked.iter_mut().zip(&run.demand.memories) {
                *asked += u64::from(cores.count_ones()) * memory.used;
            }
            self.changed = true;
            self.running.push(first.1);
            for core in (0..self.waiting.len()).filter(own) {
                self.waiting[core].remove(&first);
            }
        }
    }

    /// When the first of the running computations ends if nothing changes.
    fn foresee(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        let ends = self.running.iter().filter_map(|id| {
            let run = self.runs.get_mut(id)?;
            if changed {
                run.rate = run.demand.rate(self.active, &self.asked);
            }
            let nanos = run.left.div_ceil(run.rate);
            Some(self.since.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX)))
        });
        self.computed = ends.min();
    }
}
