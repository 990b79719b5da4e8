//! Split: each command whole on one core or in parts on several, whichever takes least; the next begins when all parts are stored.

use triune_compiler::parts::{Axis, parts};
use triune_device::{
    Command, DeviceSpec, TimingOptions,
    timing::{self, CommandTime, Span},
    touches,
};

use super::{About, Exchange, Kind, Mode, Shared, Task, counts, durations};
use crate::{Error, Policy};

/// A way to run a command.
struct Choice {
    axis: Option<Axis>,
    parts: Vec<(Command, u64, CommandTime)>,
}

impl Choice {
    fn cycles(&self) -> u64 {
        self.parts.iter().map(|(_, cycles, _)| *cycles).max().unwrap_or(0)
    }
}

/// One image on `cores` cores.
pub(super) fn on(about: &About, cores: u32) -> Result<Option<Shared>, Error> {
    let spec = &about.spec;
    // What lies between commands has to lie where all cores reach it.
    let own = spec.placement.resident.as_deref().is_some_and(|memory| about.is_own(memory));
    let policy = (own && cores > 1).then_some(Policy::None);
    let estimate = about.planned(1, cores as usize, policy)?;
    let (timeline, places) = estimate.timeline(spec, &about.options(1))?;
    let placement: Vec<&str> = places.iter().map(|place| &*place.memory).collect();
    let maps = [crate::Program::SCRATCH, crate::Program::RESIDENT];
    let apart = |segment: &u16| {
        about.is_own(placement[usize::from(*segment)]) && estimate.program().map_bytes(*segment) > Some(0)
    };
    if cores > 1 && maps.iter().any(apart) {
        return Ok(None);
    }
    let resident_bytes = estimate.program().resident_bytes();
    let options = |active| TimingOptions { resident_bytes, ..about.options(active) };
    let commands = &estimate.commands()[..timeline.commands.len()];
    let mut best: Vec<Choice> = commands
        .iter()
        .zip(durations(&timeline).into_iter().zip(&timeline.commands))
        .map(|(&command, (cycles, &time))| Choice { axis: None, parts: vec![(command, cycles, time)] })
        .collect();
    for count in counts(cores).skip(1) {
        for axis in Axis::ALL {
            let cut: Vec<Option<Vec<Command>>> =
                commands.iter().map(|command| parts(spec, command, axis, count)).collect();
            let all: Vec<Command> = cut.iter().flatten().flatten().copied().collect();
            let times = timing::timeline(spec, &all, &placement, &options(count))?;
            let mut timed = all.iter().zip(durations(&times)).zip(&times.commands);
            for (best, cut) in best.iter_mut().zip(cut) {
                let Some(cut) = cut else { continue };
                let parts = timed.by_ref().take(cut.len());
                let parts = parts.map(|((command, cycles), time)| (*command, cycles, *time)).collect();
                let found = Choice { axis: Some(axis), parts };
                if found.cycles() < best.cycles() {
                    *best = found;
                }
            }
        }
    }
    let mut shared = about.shared(Mode::Split, cores, &estimate, timeline.clock_mhz);
    let mut at = timeline.launch_cycles;
    let launched = Span { start: 0, end: at };
    shared.tasks.extend((0..cores).map(|core| Task::launch(core, 0, launched)));
    for ((index, whole), choice) in (0_u32..).zip(commands).zip(&best) {
        let of = choice.parts.len() as u32;
        for (core, (command, cycles, time)) in (0_u32..).zip(&choice.parts) {
            shared.commands.push(*command);
            shared.tasks.push(Task {
                core,
                kind: Kind::Command,
                command: index,
                part: choice.axis.map(|axis| (axis, core, of)),
                span: Span { start: at, end: at + cycles },
                read: time.bytes_read,
                written: time.bytes_written,
                energy: about.energy(&timeline, time),
            });
        }
        at += choice.cycles();
        if of > 1 {
            shared.exchanges.push(again(spec, index, whole, choice));
        }
    }
    (shared.latency, shared.interval) = (at, at);
    Ok(Some(shared))
}

/// What parts of a command read that others of them read, too.
fn again(spec: &DeviceSpec, index: u32, whole: &Command, choice: &Choice) -> Exchange {
    let maps = |command: &Command| -> u64 {
        touches(spec, command).filter(|touch| !touch.written).map(|touch| touch.bytes).sum()
    };
    let weights = |command: &Command| timing::constant_bytes(spec, &[*command]);
    let sum =
        |of: &dyn Fn(&Command) -> u64| choice.parts.iter().map(|(command, ..)| of(command)).sum::<u64>();
    Exchange {
        command: index,
        maps_again: sum(&maps).saturating_sub(maps(whole)),
        weights_again: sum(&weights).saturating_sub(weights(whole)),
        ..Exchange::default()
    }
}
