//! The composition against a simulator that goes nanosecond by nanosecond, and against what must always hold.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use triune_device::timing::Span;

use super::{
    Arrivals, Composition, Demand, DeviceClock, Instance, MemoryUse, Meter, Realtime, Stamp, compose,
};

/// A memory of one port that each run fills all the time: others leave an even share of it.
const FULL: [MemoryUse; 1] = [MemoryUse { ports: 1, used: MemoryUse::WHOLE }];

/// A load as the tests make it up: the slow simulator reads this, not [`Demand`].
#[derive(Clone, Debug)]
struct Load {
    cores: u64,
    busy: Vec<u64>,
    memories: Vec<MemoryUse>,
    call: u64,
    input: u64,
    output: u64,
    arrivals: Arrivals,
}

impl Load {
    fn instance(&self) -> Instance {
        let link = [self.input, self.output];
        let demand = Demand::new(self.cores, &self.busy, &self.memories, self.call, link);
        Instance { name: "x".into(), images: 1, demand: Arc::new(demand), arrivals: self.arrivals }
    }

    fn alone(&self) -> u64 {
        self.call + self.input + self.busy[self.cores.count_ones() as usize - 1] + self.output
    }
}

fn instances(loads: &[Load]) -> Vec<Instance> {
    loads.iter().map(Load::instance).collect()
}

/// What a run asks of a memory that `ports` cores have the bandwidth of: nothing, all that it can, or something between.
fn used(ports: u32) -> impl Strategy<Value = MemoryUse> {
    prop_oneof![Just(0), Just(MemoryUse::WHOLE), 0..=MemoryUse::WHOLE]
        .prop_map(move |used| MemoryUse { ports, used })
}

fn load(cores: u32, ports: [u32; 2]) -> impl Strategy<Value = Load> {
    let arrivals = prop_oneof![
        (1_u32..4).prop_map(|depth| Arrivals::Closed { depth }),
        (5_u64..90, 0_u64..40).prop_map(|(period, offset)| Arrivals::Periodic { period, offset }),
    ];
    let busy = prop::collection::vec(0_u64..20, cores as usize);
    let memories = ports.map(used).prop_map(Vec::from);
    let times = (0_u64..6, 0_u64..12, 0_u64..12);
    (1..1_u64 << cores, 1_u64..40, busy, memories, times, arrivals).prop_map(
        |(cores, first, growth, memories, (call, input, output), arrivals)| {
            let busy = growth
                .iter()
                .scan(first, |sum, more| {
                    *sum += more;
                    Some(*sum)
                })
                .collect();
            Load { cores, busy, memories, call, input, output, arrivals }
        },
    )
}

fn loads() -> impl Strategy<Value = (u32, Vec<Load>)> {
    (1_u32..5, [1_u32..6, 1..6])
        .prop_flat_map(|(cores, ports)| (Just(cores), prop::collection::vec(load(cores, ports), 1..5)))
}

/// Nanoseconds, in 65536ths, that a run takes beside others at work: the law as the page has it, with numbers of 2⁻²⁰ of a port and 2⁻¹⁶
/// of a core.
fn beside(load: &Load, others: &[&Load]) -> u128 {
    let count = |load: &Load| u128::from(load.cores.count_ones());
    let (own, all) = (count(load), count(load) + others.iter().map(|other| count(other)).sum::<u128>());
    let mut felt = own << 16;
    for (at, memory) in load.memories.iter().enumerate().filter(|(_, memory)| memory.used > 0) {
        let ports = u128::from(memory.ports);
        if ports >= all {
            continue;
        }
        let taken: u128 = others.iter().map(|other| count(other) * u128::from(other.memories[at].used)).sum();
        // A share of `left / own`, in 2⁻²⁰ of a port, or of `ports / all`, the larger; at most a port.
        let left = (ports << 20).saturating_sub(taken);
        let (share, of) = if left * all > (ports << 20) * own { (left, own) } else { (ports << 20, all) };
        if share < of << 20 {
            felt = felt.max((((ports << 20) * of) << 16).div_ceil(share));
        }
    }
    let (whole, part) = ((felt >> 16) as usize, felt & 0xffff);
    let nanos = |cores: usize| u128::from(load.busy[cores.min(load.busy.len()) - 1]);
    nanos(whole) * (65536 - part) + nanos(whole + usize::from(part > 0)) * part
}

/// A run of the slow simulator.
struct Slow {
    load: usize,
    /// 0 not called, 1 in the call, 2 inputs, 3 cores, 4 outputs, 5 over.
    stage: usize,
    /// Holds what its stage needs.
    holds: bool,
    arrived: u64,
    until: u64,
    left: u128,
    stamp: Stamp,
}

/// What the slow simulator finds: runs, and nanoseconds that each core and each direction of the link is taken.
type Found = (Vec<Stamp>, Vec<u64>, [u64; 2]);

/// Every nanosecond looks at every run. Work is counted as the module says: 2⁹⁶ units, rates rounded up.
fn slowly(cores: u32, loads: &[Load], horizon: u64) -> Found {
    let (mut core_busy, mut link_busy) = (vec![0; cores as usize], [0; 2]);
    let mut runs: Vec<Slow> = Vec::new();
    let call = |runs: &mut Vec<Slow>, load: usize, at: u64| {
        let stamp = Stamp { instance: load as u32, queued: at, ..Stamp::default() };
        runs.push(Slow { load, stage: 0, holds: true, arrived: 0, until: at, left: 1 << 96, stamp });
    };
    for (at, load) in loads.iter().enumerate() {
        match load.arrivals {
            Arrivals::Closed { depth } => (0..depth).for_each(|_| call(&mut runs, at, 0)),
            Arrivals::Periodic { period, offset } => {
                for at_time in (offset..=horizon).step_by(period as usize) {
                    call(&mut runs, at, at_time);
                }
            }
        }
    }
    let mut done = Vec::new();
    for now in 0..=horizon {
        let at_work: Vec<usize> =
            (0..runs.len()).filter(|&at| runs[at].stage == 3 && runs[at].holds && now > 0).collect();
        for &at in &at_work {
            let others = at_work.iter().filter(|&&other| other != at).map(|&other| &loads[runs[other].load]);
            let nanos = beside(&loads[runs[at].load], &others.collect::<Vec<_>>());
            runs[at].left = runs[at].left.saturating_sub((1_u128 << 112).div_ceil(nanos));
        }
        let mut next = 0;
        while next < runs.len() {
            let run = &mut runs[next];
            next += 1;
            let load = &loads[run.load];
            let over = match run.stage {
                3 => run.left == 0,
                5 => false,
                _ => run.until <= now,
            };
            if !(run.holds && over) {
                continue;
            }
            match run.stage {
                2 => run.stamp.input.end = now,
                3 => run.stamp.compute.end = now,
                4 => run.stamp.output.end = now,
                _ => {}
            }
            let lengths = [0, load.call, load.input, 1, load.output, 1];
            let entered = (run.stage + 1..6).find(|&stage| lengths[stage] > 0).expect("the last is 1");
            for skipped in run.stage + 1..entered {
                let nothing = Span { start: now, end: now };
                match skipped {
                    2 => run.stamp.input = nothing,
                    4 => run.stamp.output = nothing,
                    _ => {}
                }
            }
            run.stage = entered;
            (run.arrived, run.holds, run.until) = (now, run.stage == 1, now + load.call);
            if run.stage == 5 {
                run.stamp.end = now;
                done.push(run.stamp);
                if let Arrivals::Closed { .. } = load.arrivals {
                    let load = run.load;
                    call(&mut runs, load, now);
                }
            }
        }
        for stage in [2, 4] {
            if runs.iter().any(|run| run.stage == stage && run.holds) {
                continue;
            }
            let first = (0..runs.len())
                .filter(|&at| runs[at].stage == stage)
                .min_by_key(|&at| (runs[at].arrived, at));
            if let Some(at) = first {
                let load = &loads[runs[at].load];
                let run = &mut runs[at];
                run.holds = true;
                let (span, length) = if stage == 2 {
                    (&mut run.stamp.input, load.input)
                } else {
                    (&mut run.stamp.output, load.output)
                };
                span.start = now;
                run.until = now + length;
            }
        }
        let taken = runs.iter().filter(|run| run.stage == 3 && run.holds);
        let mut blocked = taken.fold(0, |mask, run| mask | loads[run.load].cores);
        let mut waiting: Vec<usize> =
            (0..runs.len()).filter(|&at| runs[at].stage == 3 && !runs[at].holds).collect();
        waiting.sort_by_key(|&at| (runs[at].arrived, at));
        for at in waiting {
            let own = loads[runs[at].load].cores;
            if own & blocked == 0 {
                runs[at].holds = true;
                runs[at].stamp.compute.start = now;
            }
            blocked |= own;
        }
        assert!(blocked < 1 << cores);
        // What is held now is held for a nanosecond, unless the time ends here.
        for run in runs.iter().filter(|run| run.holds && now < horizon) {
            match run.stage {
                2 => link_busy[0] += 1,
                3 => {
                    let own = loads[run.load].cores;
                    core_busy.iter_mut().enumerate().for_each(|(core, busy)| *busy += own >> core & 1);
                }
                4 => link_busy[1] += 1,
                _ => {}
            }
        }
    }
    (done, core_busy, link_busy)
}

fn sorted(mut stamps: Vec<Stamp>) -> Vec<Stamp> {
    stamps.sort_by_key(|stamp| (stamp.end, stamp.instance, stamp.queued, stamp.compute.start));
    stamps
}

fn planned(cores: u32, loads: &[Load], horizon: u64) -> Composition {
    compose(cores, &instances(loads), horizon).expect("composed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn equals_a_simulator_that_steps((cores, loads) in loads()) {
        let fast = planned(cores, &loads, 400);
        let (runs, core_busy, link_busy) = slowly(cores, &loads, 400);
        prop_assert_eq!(sorted(fast.runs), sorted(runs));
        prop_assert_eq!((fast.core_busy, fast.link_busy), (core_busy, link_busy));
    }

    #[test]
    fn nothing_is_faster_than_alone((cores, loads) in loads()) {
        let all = planned(cores, &loads, 400);
        for run in &all.runs {
            prop_assert!(run.end - run.queued >= loads[run.instance as usize].alone());
        }
        for busy in all.core_busy.iter().chain(&all.link_busy) {
            prop_assert!(*busy <= 400);
        }
        for (index, load) in loads.iter().enumerate() {
            let one = planned(cores, std::slice::from_ref(load), 400);
            let runs = |found: &Composition, at: usize| found.instances[at].runs;
            prop_assert!(runs(&all, index) <= runs(&one, 0), "others never help");
        }
    }

    #[test]
    fn n_instances_do_at_most_n_times_as_much(mut one in load(4, [1, 2]), n in 1_usize..5) {
        one.cores = 1;
        one.arrivals = Arrivals::Closed { depth: 1 };
        let alone = planned(4, std::slice::from_ref(&one), 2000);
        let copies: Vec<Load> = (0..n).map(|core| Load { cores: 1 << core, ..one.clone() }).collect();
        let all = planned(4, &copies, 2000);
        prop_assert!(all.runs.len() <= n * alone.runs.len());
        // Nothing shared but time on the host: exactly as much.
        let free: Vec<Load> =
            copies.iter().map(|load| Load { busy: vec![load.busy[0]; 4], input: 0, output: 0, ..load.clone() }).collect();
        let each = planned(4, &free[..1], 2000).runs.len();
        prop_assert_eq!(planned(4, &free, 2000).runs.len(), n * each);
    }

    #[test]
    fn one_instance_alone_takes_its_timeline(mut one in load(4, [1, 2])) {
        one.arrivals = Arrivals::Closed { depth: 1 };
        let found = planned(4, &[one.clone()], 4000);
        let nanos = one.busy[one.cores.count_ones() as usize - 1];
        for (at, run) in found.runs.iter().enumerate() {
            prop_assert_eq!(run.compute.end - run.compute.start, nanos);
            prop_assert_eq!(run.end, (at as u64 + 1) * one.alone());
        }
    }
}

#[test]
fn long_times_are_exact() {
    for nanos in [1, 3, 1_000_003, (1 << 46) - 1] {
        let one = Load {
            cores: 1,
            busy: vec![nanos],
            memories: FULL.into(),
            call: 0,
            input: 0,
            output: 0,
            arrivals: Arrivals::Closed { depth: 1 },
        };
        assert_eq!(planned(1, &[one], nanos).runs[0].compute, Span { start: 0, end: nanos });
    }
}

#[test]
fn a_run_slows_down_while_another_is_at_work() {
    // 100 ns alone, 200 ns beside another: the second comes when the first has done half.
    let at = |cores, offset| Load {
        cores,
        busy: vec![100, 200],
        memories: FULL.into(),
        call: 0,
        input: 0,
        output: 0,
        arrivals: Arrivals::Periodic { period: 1000, offset },
    };
    let found = planned(2, &[at(1, 0), at(2, 50)], 900);
    let spans: Vec<Span> = found.runs.iter().map(|run| run.compute).collect();
    assert_eq!(spans, [Span { start: 0, end: 150 }, Span { start: 50, end: 200 }]);
    assert_eq!((found.core_busy, found.link_busy), (vec![150, 150], [0, 0]));
}

/// What neighbours leave of a memory's bandwidth is a run's, and an even share of it at least.
#[test]
fn neighbours_take_what_they_use() {
    // 100 ns alone, 150, 200, 250 beside one, two and three others that ask for as much as it.
    let nanos = |ports, own: u64, others: &[u64]| {
        let use_of = |percent: u64| MemoryUse { ports, used: MemoryUse::WHOLE * percent / 100 };
        let at = |core: usize, percent, busy: &[u64]| Load {
            cores: 1 << core,
            busy: busy.to_vec(),
            memories: vec![use_of(percent)],
            call: 0,
            input: 0,
            output: 0,
            arrivals: Arrivals::Closed { depth: 1 },
        };
        let first = at(0, own, &[100, 150, 200, 250]);
        let others = others.iter().enumerate().map(|(core, &percent)| at(core + 1, percent, &[1000; 4]));
        let loads: Vec<Load> = std::iter::once(first).chain(others).collect();
        let compute = planned(4, &loads, 900).runs[0].compute;
        compute.end - compute.start
    };
    assert_eq!(nanos(1, 100, &[]), 100);
    assert_eq!(nanos(1, 100, &[0, 0, 0]), 100, "others that leave the memory alone");
    assert_eq!(nanos(1, 0, &[100, 100, 100]), 100, "a run that does");
    assert_eq!(nanos(1, 100, &[50]), 150, "half is left: as beside one that takes half");
    assert_eq!(nanos(1, 100, &[100]), 150, "an even share at least");
    assert_eq!(nanos(1, 100, &[10, 10]), 113, "four fifths: as beside a quarter of another");
    assert_eq!(nanos(1, 20, &[20, 20, 20]), 175, "two fifths");
    assert_eq!(nanos(1, 100, &[100, 100, 100]), 250);
    assert_eq!(nanos(2, 100, &[100]), 100, "a port each");
    assert_eq!(nanos(2, 100, &[50, 50]), 100, "a port is left");
    assert_eq!(nanos(2, 100, &[60, 60]), 175, "four fifths of one: as beside two and a half");
    assert_eq!(nanos(2, 100, &[100, 50]), 200, "half of one; two thirds are even");
    assert_eq!(nanos(4, 100, &[100, 100, 100]), 100);
}

#[test]
fn percentiles_and_throughput() {
    let one = Load {
        cores: 1,
        busy: vec![10],
        memories: FULL.into(),
        call: 0,
        input: 0,
        output: 0,
        arrivals: Arrivals::Closed { depth: 3 },
    };
    let found = planned(1, &[one], 1000);
    let times = &found.instances[0];
    assert_eq!(times.runs, 100);
    assert_eq!((times.latency.min, times.latency.p50, times.latency.max), (10, 30, 30));
    assert!((times.images_per_second(found.horizon) - 1e8).abs() < 1.0);
    assert_eq!(found.core_busy, [1000]);
}

/// Calls that come when all is over are none, however far away they are.
#[test]
fn calls_behind_the_horizon_are_none() {
    let at = |offset| Load {
        cores: 1,
        busy: vec![10],
        memories: FULL.into(),
        call: 0,
        input: 0,
        output: 0,
        arrivals: Arrivals::Periodic { period: 1, offset },
    };
    for offset in [101, 1 << 40, u64::MAX] {
        assert_eq!(planned(1, &[at(offset)], 100).runs, []);
    }
    assert_eq!(planned(1, &[at(90)], 100).runs.len(), 1, "just in time");
}

#[test]
fn what_cannot_be_composed_is_said() {
    let good = Load {
        cores: 1,
        busy: vec![10],
        memories: FULL.into(),
        call: 0,
        input: 0,
        output: 0,
        arrivals: Arrivals::Closed { depth: 1 },
    };
    for (load, horizon, said) in [
        (Load { cores: 4, ..good.clone() }, 10, "core 2"),
        (Load { arrivals: Arrivals::Closed { depth: 0 }, ..good.clone() }, 10, "depth"),
        (Load { arrivals: Arrivals::Periodic { period: 0, offset: 0 }, ..good.clone() }, 10, "period"),
        (Load { arrivals: Arrivals::Periodic { period: 1, offset: 0 }, ..good.clone() }, u64::MAX, "shorter"),
        (Load { arrivals: Arrivals::Closed { depth: u32::MAX }, ..good.clone() }, 10, "shorter"),
        (good.clone(), u64::MAX, "shorter"),
    ] {
        let error = compose(2, &instances(&[load]), horizon).expect_err("refused").to_string();
        assert!(error.contains(said), "{error}");
    }
}

fn meter(clock: &Arc<DeviceClock>, core: u64, lag: usize, realtime: Option<Realtime>) -> Meter {
    Meter::new(clock, 1, Demand::new(1 << core, &[100, 150, 200, 250], &FULL, 0, [10, 10]), lag, realtime)
        .expect("a meter")
}

#[test]
fn a_threads_runs_follow_each_other_and_threads_overlap() {
    let clock = Arc::new(DeviceClock::new(4));
    let run = |meter: &mut Meter| {
        let started = meter.start();
        meter.finish(started);
    };
    let (mut first, mut second) = (meter(&clock, 0, 0, None), meter(&clock, 1, 0, None));
    run(&mut first);
    run(&mut second);
    run(&mut first);
    let found = clock.composition();
    let ends: Vec<u64> = found.runs.iter().map(|run| run.end).collect();
    assert_eq!(ends, [120, 240, 360]);
    assert_eq!(found.instances.iter().map(|instance| instance.runs).collect::<Vec<_>>(), [2, 1]);
    clock.clear();
    thread::scope(|scope| {
        for meter in [&mut first, &mut second] {
            scope.spawn(move || {
                for _ in 0..3 {
                    run(meter);
                }
            });
        }
    });
    let found = clock.composition();
    assert_eq!((found.runs.len(), found.forgotten), (6, 3));
    // Side by side on two cores, one after the other on the link.
    assert!((3 * 150..2 * 3 * 120).contains(&found.horizon), "{}", found.horizon);
}

#[test]
fn late_results_overlap_transfers_and_computation() {
    let horizon = |lag| {
        let clock = Arc::new(DeviceClock::new(4));
        let mut meter = meter(&clock, 0, lag, None);
        for _ in 0..10 {
            let started = meter.start();
            meter.finish(started);
        }
        clock.composition().horizon
    };
    assert_eq!(horizon(0), 10 * 120);
    assert_eq!(horizon(2), 10 + 10 * 100 + 10);
}

#[test]
fn the_log_is_bounded() {
    let clock = Arc::new(DeviceClock::new(4));
    let mut meter = meter(&clock, 0, 0, None);
    let start = Instant::now();
    for _ in 0..super::live::MAX_LOG + 10 {
        let started = meter.start();
        meter.finish(started);
    }
    eprintln!("{} ns per run", start.elapsed().as_nanos() / super::live::MAX_LOG as u128);
    let found = clock.composition();
    assert_eq!((found.runs.len(), found.forgotten), (super::live::MAX_LOG, 10));
    assert_eq!(found.horizon, super::live::MAX_LOG as u64 * 120);
}

#[test]
fn paced_runs_last_as_long_as_on_the_device() {
    // 120 ns at a thousandth of the speed: 120 µs.
    let slow = Realtime::new(0.001).expect("a factor");
    let clock = Arc::new(DeviceClock::new(4));
    let mut paced = meter(&clock, 0, 0, Some(slow));
    let start = Instant::now();
    for _ in 0..50 {
        let started = paced.start();
        paced.finish(started);
    }
    assert!(start.elapsed() >= Duration::from_millis(6));
    let found = clock.composition();
    assert!(found.horizon >= 50 * 120 - 120 && found.core_busy[0] == 50 * 100, "{found:?}");
    let refused = Meter::new(&clock, 1, Demand::new(1, &[1], &FULL, 0, [0; 2]), 0, Some(Realtime::DEVICE));
    assert!(refused.expect_err("another speed").to_string().contains("0.001"));
    drop(paced);
    meter(&clock, 0, 0, Some(Realtime::DEVICE));
}

#[test]
fn factors_are_checked() {
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-4, 1e4] {
        assert!(Realtime::new(factor).is_err(), "{factor}");
    }
    assert_eq!(Realtime::new(1.0).expect("a factor"), Realtime::DEVICE);
}
