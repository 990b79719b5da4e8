//! Pipelined: consecutive commands on each core, cut where the slowest core is the fastest that it can be.

use std::collections::HashMap;

use triune_device::{
    Addr, Command, DeviceSpec,
    command::Copy,
    timing::{self, CommandTime, Span, Timeline},
};

use super::{About, Exchange, Kind, Mode, Shared, Task, durations};
use crate::{Error, Estimate, Place, Program};

/// What moving a feature map out of a core's own memory takes, and into another's.
#[derive(Clone, Copy)]
struct Move {
    send: (u64, CommandTime),
    receive: (u64, CommandTime),
}

/// What the commands cost, wherever they are cut.
struct Costs {
    launch: u64,
    /// Cycles of all commands before each, and of all.
    until: Vec<u64>,
    /// The same with constants in the cores' own memory.
    until_near: Vec<u64>,
    /// Bytes of the constants of all commands before each, and of all.
    constants: Vec<u64>,
    /// Bytes of a core's own memory for constants; none if they lie elsewhere, or there already.
    room: Option<u64>,
    /// Cycles of sending what a cut before each command parts, and of receiving it.
    send: Vec<u64>,
    receive: Vec<u64>,
}

impl Costs {
    fn is_near(&self, from: usize, to: usize) -> bool {
        self.room.is_some_and(|room| self.constants[to] - self.constants[from] <= room)
    }

    /// Cycles of a stage of the commands `from..to`.
    fn stage(&self, from: usize, to: usize) -> u64 {
        let until = if self.is_near(from, to) { &self.until_near } else { &self.until };
        self.launch + self.receive[from] + (until[to] - until[from]) + self.send[to]
    }

    /// No stage of these commands takes less.
    fn at_least(&self, from: usize, to: usize) -> u64 {
        self.launch + (self.until[to] - self.until[from]).min(self.until_near[to] - self.until_near[from])
    }

    /// Where `stages` stages end of which the slowest takes least, and all together least among such; `None` for more stages than commands.
    fn cut(&self, stages: usize) -> Option<Vec<usize>> {
        let (slowest, _) = self.least(stages, u64::MAX, u64::max)?;
        Some(self.least(stages, slowest, u64::saturating_add)?.1)
    }

    /// What stages of at most `limit` cycles come to at least, joined so, and where they end.
    fn least(&self, stages: usize, limit: u64, join: fn(u64, u64) -> u64) -> Option<(u64, Vec<usize>)> {
        let count = self.until.len() - 1;
        // By the number of commands: the least, and where the last stage begins.
        let mut rows: Vec<Vec<Option<(u64, usize)>>> = vec![vec![None; count + 1]];
        rows[0][0] = Some((0, 0));
        for stage in 1..=stages {
            let before = &rows[stage - 1];
            let mut row: Vec<Option<(u64, usize)>> = vec![None; count + 1];
            for (to, best) in row.iter_mut().enumerate().skip(stage) {
                for from in (stage - 1..to).rev() {
                    if self.at_least(from, to) > best.map_or(limit, |(least, _)| least.min(limit)) {
                        break;
                    }
                    let own = self.stage(from, to);
                    let Some((others, _)) = before[from].filter(|_| own <= limit) else { continue };
                    let all = join(others, own);
                    if best.is_none_or(|(least, _)| all < least) {
                        *best = Some((all, from));
                    }
                }
            }
            rows.push(row);
        }
        let least = rows[stages][count]?.0;
        let (mut ends, mut to) = (Vec::with_capacity(stages), count);
        for row in rows[1..].iter().rev() {
            ends.push(to);
            to = row[to]?.1;
        }
        ends.reverse();
        Some((least, ends))
    }
}

/// A pipeline of `stages` cores; `None` if there are fewer commands.
pub(super) fn on(about: &About, stages: u32) -> Result<Option<Shared>, Error> {
    let (estimate, timeline, places) = about.timed(stages as usize, stages)?;
    let placement: Vec<&str> = places.iter().map(|place| &*place.memory).collect();
    let mut moves =
        Moves { about, stages, timeline: &timeline, placement: &placement, known: HashMap::new() };
    let handed = handed(about, &estimate, &places, timeline.commands.len());
    let (costs, near) = costs(about, &estimate, &timeline, &placement, &handed, &mut moves)?;
    let Some(ends) = costs.cut(stages as usize) else { return Ok(None) };
    let mut shared = about.shared(Mode::Pipelined, stages, &estimate, timeline.clock_mhz);
    shared.commands = estimate.commands()[..timeline.commands.len()].to_vec();
    let (mut at, mut from) = (0_u64, 0);
    for (core, to) in (0_u32..).zip(ends) {
        let began = at;
        at += costs.launch;
        shared.tasks.push(Task::launch(core, from as u32, Span { start: began, end: at }));
        let mut task = |kind, command: usize, cycles: u64, time: &CommandTime| {
            let span = Span { start: at, end: at + cycles };
            at = span.end;
            let (read, written) = (time.bytes_read, time.bytes_written);
            let (command, energy) = (command as u32, about.energy(&timeline, time));
            shared.tasks.push(Task { core, kind, command, part: None, span, read, written, energy });
        };
        for &bytes in &handed[from].own {
            let (cycles, time) = moves.of(bytes)?.receive;
            task(Kind::Receive, from, cycles, &time);
        }
        let (times, until) = match &near {
            Some(near) if costs.is_near(from, to) => (near, &costs.until_near),
            _ => (&timeline, &costs.until),
        };
        for command in from..to {
            task(Kind::Command, command, until[command + 1] - until[command], &times.commands[command]);
        }
        for &bytes in &handed[to].own {
            let (cycles, time) = moves.of(bytes)?.send;
            task(Kind::Send, to, cycles, &time);
        }
        debug_assert_eq!(at - began, costs.stage(from, to), "a stage takes what was searched for");
        if from > 0 {
            let copied = handed[from].own.iter().sum();
            let exchange =
                Exchange { command: from as u32, shared: handed[from].shared, copied, ..Exchange::default() };
            shared.exchanges.push(exchange);
        }
        shared.interval = shared.interval.max(at - began);
        from = to;
    }
    shared.latency = at;
    Ok(Some(shared))
}

/// The feature maps that a cut before a command parts.
#[derive(Clone, Default)]
struct Handed {
    /// Bytes of each that lies in a core's own memory.
    own: Vec<u64>,
    /// Bytes of all others.
    shared: u64,
}

fn handed(about: &About, estimate: &Estimate, places: &[Place], count: usize) -> Vec<Handed> {
    let mut handed = vec![Handed::default(); count + 1];
    for buffer in &estimate.program().buffers {
        let own = places.get(usize::from(buffer.segment)).is_some_and(|place| about.is_own(&place.memory));
        let last = (buffer.last as usize).min(count);
        for cut in handed.iter_mut().take(last).skip(buffer.first as usize + 1) {
            if own {
                cut.own.push(buffer.bytes);
            } else {
                cut.shared += buffer.bytes;
            }
        }
    }
    handed
}

fn costs(
    about: &About,
    estimate: &Estimate,
    timeline: &Timeline,
    placement: &[&str],
    handed: &[Handed],
    moves: &mut Moves<'_>,
) -> Result<(Costs, Option<Timeline>), Error> {
    let spec = &about.spec;
    let sums = |each: &[u64]| -> Vec<u64> {
        let mut sum = 0_u64;
        std::iter::once(0)
            .chain(each.iter().map(|own| {
                sum += own;
                sum
            }))
            .collect()
    };
    let until = sums(&durations(timeline));
    let commands = &estimate.commands()[..timeline.commands.len()];
    // A core needs the constants of its own commands alone.
    let own = &*spec.placement.constants;
    let split = about.is_own(own) && placement[usize::from(Program::CONSTANTS)] != own;
    let (mut near, mut room, mut constants) = (None, None, vec![0; until.len()]);
    if split {
        let mut placement = placement.to_vec();
        placement[usize::from(Program::CONSTANTS)] = own;
        near = Some(timing::timeline(spec, commands, &placement, &timeline.options)?);
        let beside: u64 = [
            (Program::SCRATCH, estimate.program().scratch_bytes),
            (Program::RESIDENT, estimate.program().resident_bytes()),
        ]
        .iter()
        .filter(|(segment, _)| placement[usize::from(*segment)] == own)
        .map(|(_, bytes)| bytes)
        .sum();
        room = Some(spec.memory[spec.memory_index(own)?].usable_bytes().saturating_sub(beside));
        constants = sums(
            &commands.iter().map(|command| timing::constant_bytes(spec, &[*command])).collect::<Vec<_>>(),
        );
    }
    let until_near = near.as_ref().map_or_else(|| until.clone(), |near| sums(&durations(near)));
    let (mut send, mut receive) = (Vec::with_capacity(handed.len()), Vec::with_capacity(handed.len()));
    for each in handed {
        let (mut out, mut back) = (0, 0);
        for &bytes in &each.own {
            let found = moves.of(bytes)?;
            out += found.send.0;
            back += found.receive.0;
        }
        send.push(out);
        receive.push(back);
    }
    let launch = timeline.launch_cycles;
    Ok((Costs { launch, until, until_near, constants, room, send, receive }, near))
}

/// Copies between a core's own memory and the one that the host reaches, which all cores reach.
struct Moves<'a> {
    about: &'a About,
    stages: u32,
    timeline: &'a Timeline,
    placement: &'a [&'a str],
    known: HashMap<u64, Move>,
}

impl Moves<'_> {
    fn of(&mut self, bytes: u64) -> Result<Move, Error> {
        if let Some(found) = self.known.get(&bytes) {
            return Ok(*found);
        }
        let spec: &DeviceSpec = &self.about.spec;
        let own = *self
            .placement
            .iter()
            .find(|memory| self.about.is_own(memory))
            .ok_or_else(|| Error::internal("a copy from a memory that no core has"))?;
        let placement = [own, &*spec.placement.io];
        let options = timing::TimingOptions { active_cores: self.stages, ..self.timeline.options };
        let time = |src: u16, dst: u16| -> Result<(u64, CommandTime), Error> {
            let dims = [1, 1, 1, 1, u32::try_from(bytes.div_ceil(64)).unwrap_or(u32::MAX), 64];
            let strides = [0, 0, 0, 0, 64, 1];
            let (src, dst) = (Addr::new(src, 0), Addr::new(dst, 0));
            let copy = Copy { elem_bytes: 1, dims, src, src_strides: strides, dst, dst_strides: strides };
            let timeline = timing::timeline(spec, [Command::Copy(copy)], &placement, &options)?;
            Ok((timeline.total_cycles - timeline.launch_cycles, timeline.commands[0]))
        };
        let found = Move { send: time(0, 1)?, receive: time(1, 0)? };
        self.known.insert(bytes, found);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use triune_testing::Random;

    use super::*;

    /// The slowest stage and all stages together of every way to cut the commands from `from` on.
    fn ways(costs: &Costs, from: usize, stages: usize) -> Vec<(u64, u64)> {
        let count = costs.until.len() - 1;
        if stages == 1 {
            let own = costs.stage(from, count);
            return vec![(own, own)];
        }
        let cuts = from + 1..=count + 1 - stages;
        let joined = |to: usize| {
            let own = costs.stage(from, to);
            ways(costs, to, stages - 1).into_iter().map(move |(slowest, all)| (slowest.max(own), all + own))
        };
        cuts.flat_map(joined).collect()
    }

    #[test]
    fn cuts_are_the_best_of_all() {
        let mut random = Random(29);
        for _ in 0..2000 {
            let count = random.between(1, 9);
            let mut numbers =
                |most: usize| -> Vec<u64> { (0..=count).map(|_| random.below(most) as u64).collect() };
            let sums = |each: Vec<u64>| -> Vec<u64> {
                each.iter().scan(0, |sum, own| Some(std::mem::replace(sum, *sum + own))).collect()
            };
            let (far, near) = (numbers(40), numbers(40));
            let near = near.iter().zip(&far).map(|(near, far)| *near.min(far)).collect();
            let (mut send, mut receive) = (numbers(20), numbers(20));
            (send[count], receive[0]) = (0, 0);
            let (until, until_near, constants) = (sums(far), sums(near), sums(numbers(10)));
            let room = random.between(0, 3).checked_sub(1).map(|room| 20 * room as u64);
            let costs = Costs { launch: 5, until, until_near, constants, room, send, receive };
            let stages = random.between(1, 5);
            let found = costs.cut(stages).map(|ends| {
                let mut from = 0;
                let each = ends.into_iter().map(|to| costs.stage(std::mem::replace(&mut from, to), to));
                each.fold((0, 0), |(slowest, all), own| (own.max(slowest), all + own))
            });
            let best = (stages <= count).then(|| ways(&costs, 0, stages).into_iter().min()).flatten();
            assert_eq!(found, best);
        }
    }
}
