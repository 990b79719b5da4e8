//! Cascades: consecutive products, pools and resamplings that run band of rows by band of rows, so that what lies between them never has to
//! exist as a whole.
//!
//! A step over a command stream whose addresses still name feature maps, as the memory plan is: a band of a command is the same
//! command on fewer rows, with the padding that these rows meet. Bands of neighbours overlap where windows reach over their edges; those
//! rows are computed for both. Every result is computed as before, so that values do not change.

use std::ops::Range;

use triune_device::{
    Addr, Command, DeviceSpec, TimingOptions,
    command::{CommandBuffer, FeatureMap, Resize, Window},
    spec::Kept,
    timing, work,
};

use triune_tensor::function::CoordinateMode;

use crate::{
    ALIGNMENT, Error, Operator, Program, Wait, patch,
    plan::{Besides, Draft, PlanOptions, Planned, Scope, place_within, share_of},
    program::PlannedBuffer,
};

/// Most commands of a cascade: each one more makes the first bands higher.
const DEEPEST: usize = 6;

/// How often cascades are looked for at most.
const ROUNDS: usize = 4;

/// Most bands of a cascade: each of them is launched.
const MOST_BANDS: u32 = 64;

/// A program's commands before its memory plan, and what counts them.
#[derive(Clone, Debug)]
pub(crate) struct Unplanned {
    pub commands: CommandBuffer,
    pub drafts: Vec<Draft>,
    pub operators: Vec<Operator>,
    pub waits: Vec<Wait>,
}

/// Where segments lie, for timing.
struct Circumstances<'a> {
    spec: &'a DeviceSpec,
    /// The memory of each segment.
    placement: &'a [&'a str],
    /// Bytes of the near memory for feature maps.
    capacity: u64,
    options: TimingOptions,
}

/// A cascade: commands `first..first + depth` in bands of so many rows of the last one's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cascade {
    first: usize,
    depth: usize,
    rows: u32,
    /// Cycles that it saves.
    saved: u64,
}

/// Commands between which feature maps lie in no near memory, where bands take less time. `planned` is the plan of the program as it
/// is.
fn found(
    program: &Unplanned,
    commands: &[Command],
    planned: &Planned,
    about: &Circumstances<'_>,
) -> Result<Vec<Cascade>, Error> {
    let users = users(commands, program.drafts.len());
    let is_far = |draft: usize| {
        let buffer: Option<&PlannedBuffer> = planned.drafts[draft].map(|at| &planned.buffers[at]);
        buffer.is_some_and(|buffer| buffer.segment != Program::RESIDENT)
    };
    // Whether what lies between a command and the next is for these two alone, and not in the near memory.
    let joined: Vec<bool> = (0..commands.len())
        .map(|at| {
            let next = commands.get(at + 1);
            let waits = program.waits.iter().any(|wait| wait.at as usize == at + 1);
            !waits
                && next.and_then(|next| between(&commands[at], next)).is_some_and(|map| {
                    let (draft, within) = patch::unpack(map.addr);
                    let alone = users.get(draft).is_some_and(|own| *own == [at, at + 1]);
                    let whole = within == 0 && map.stride_h * u64::from(map.h) <= program.drafts[draft].bytes;
                    alone && whole && is_far(draft)
                })
        })
        .collect();
    // From the last command back to the first: what all from there on save at most, and the cascade that they begin with.
    let mut best: Vec<(u64, Option<Cascade>)> = vec![(0, None); commands.len() + 1];
    for at in (0..commands.len()).rev() {
        work::go_on()?;
        best[at] = (best[at + 1].0, None);
        let most = joined[at..].iter().take(DEEPEST - 1).take_while(|&&joined| joined).count() + 1;
        for depth in 2..=most {
            if let Some(own) = fastest(commands, at, depth, planned, about)? {
                let saved = own.saved + best[at + depth].0;
                if saved > best[at].0 {
                    best[at] = (saved, Some(own));
                }
            }
        }
    }
    let (mut found, mut at) = (Vec::new(), 0);
    while at < commands.len() {
        let own = best[at].1;
        at += own.map_or(1, |own| own.depth);
        found.extend(own);
    }
    Ok(found)
}

/// The program in cascades, with its plan, if it takes less time so than as it is planned.
#[expect(clippy::type_complexity, reason = "a program, and what planning makes of its commands")]
pub(crate) fn faster(
    spec: &DeviceSpec,
    options: &PlanOptions,
    besides: &Besides<'_>,
    program: &Unplanned,
    commands: &CommandBuffer,
    planned: &Planned,
) -> Result<Option<(Unplanned, (CommandBuffer, Planned))>, Error> {
    let place = &spec.placement;
    let (Some(near), Some(behind)) =
        (&place.resident, Program::behind(besides.inputs.len() + besides.outputs.len()))
    else {
        return Ok(None);
    };
    if spec.clock_mhz.is_none() {
        return Ok(None);
    }
    let mut placement: Vec<&str> = vec![&place.io; usize::from(behind) + 1];
    placement[usize::from(Program::INSTRUCTIONS)] = &place.instructions;
    placement[usize::from(Program::SCRATCH)] = &place.scratch;
    placement[usize::from(Program::RESIDENT)] = near;
    if share_of(spec, besides, commands)?.constants_near {
        placement[usize::from(Program::CONSTANTS)] = &place.constants;
    }
    let whole = program.drafts.len();
    let about = Circumstances {
        spec,
        placement: &placement,
        capacity: planned.residency.map_or(0, |residency| residency.capacity),
        options: TimingOptions { active_cores: spec.cores, ..TimingOptions::default() },
    };
    let time = |commands: &CommandBuffer, planned: &Planned| -> Result<u64, Error> {
        let resident_bytes = planned.residency.map_or(0, |residency| residency.peak);
        let options = TimingOptions { resident_bytes, ..about.options };
        Ok(timing::timeline(spec, commands, &placement, &options)?.total_cycles)
    };
    let mut least = time(commands, planned)?;
    let mut best: Option<(Unplanned, (CommandBuffer, Planned))> = None;
    // What is planned anew may have other feature maps far.
    for _ in 0..ROUNDS {
        let (program, planned) = best.as_ref().map_or((program, planned), |(own, (_, plan))| (own, plan));
        let all: Vec<Command> = program.commands.iter().collect();
        let mut found = found(program, &all, planned, &about)?;
        found.sort_by_key(|cascade| std::cmp::Reverse(cascade.saved));
        // Bands take room from each other: if all of them save nothing together, those that save most may.
        let mut better = None;
        while !found.is_empty() && better.is_none() {
            let mut taken = found.clone();
            taken.sort_by_key(|cascade| cascade.first);
            let bands = program.with(&all, &taken)?;
            let mut own = bands.commands.clone();
            let is_band: Vec<bool> = (0..bands.drafts.len()).map(|draft| draft >= whole).collect();
            let near = (spec.placement.kept == Kept::Bands).then_some(&*is_band);
            let scope = Scope { near, ..Scope::default() };
            let plan = place_within(spec, options, besides, &mut own, &bands.drafts, scope)?;
            let time = time(&own, &plan)?;
            better = (time < least).then_some((time, (bands, (own, plan))));
            found.truncate(found.len() / 2);
        }
        let Some((time, cascades)) = better else { break };
        (least, best) = (time, Some(cascades));
    }
    Ok(best)
}

/// The commands that name each feature map, in order.
fn users(commands: &[Command], drafts: usize) -> Vec<Vec<usize>> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); drafts];
    for (at, command) in commands.iter().enumerate() {
        patch::addresses(&mut { *command }, &mut |addr| {
            if addr.segment() == Program::SCRATCH
                && let Some(own) = users.get_mut(patch::unpack(*addr).0)
                && own.last() != Some(&at)
            {
                own.push(at);
            }
        });
    }
    users
}

/// What a command that can be cut into bands reads, makes and by which window.
fn maps(command: &Command) -> Option<(&FeatureMap, &FeatureMap, Option<&Window>)> {
    let (input, output, window) = match command {
        Command::QConv(conv) => (&conv.input, &conv.output, Some(&conv.window)),
        Command::Pool(pool) => (&pool.input, &pool.output, Some(&pool.window)),
        Command::Table(table) => (&table.input, &table.output, None),
        Command::Resize(resize) => (&resize.input, &resize.output, None),
        _ => return None,
    };
    (input.n == 1 && output.n == 1 && input.blocks.is_none() && output.blocks.is_none())
        .then_some((input, output, window))
}

/// The feature map that one command makes and the next reads, rows of which can be made one after the other.
fn between<'c>(command: &'c Command, next: &Command) -> Option<&'c FeatureMap> {
    let ((_, made, _), (read, _, _)) = (maps(command)?, maps(next)?);
    let same = *made == FeatureMap { stride_n: made.stride_n, ..*read };
    // A residual would be a second reader of it, which bands do not look for.
    let residual = match next {
        Command::QConv(conv) => conv.residual.is_some_and(|map| {
            map.addr.segment() == Program::SCRATCH && patch::unpack(map.addr).0 == patch::unpack(made.addr).0
        }),
        _ => false,
    };
    (same && made.addr.segment() == Program::SCRATCH && !residual).then_some(made)
}

/// How many rows a resampling makes of one, where some rows of its input give what these give of all of it: a power of two, so that
/// where an element is taken from is exact, and no corner is aligned to.
pub(crate) fn rows_of_one(resize: &Resize) -> Option<u32> {
    let (from, to) = (resize.input.h, resize.output.h);
    let times = to.checked_div(from)?;
    let exact = times.is_power_of_two() && from.checked_mul(times) == Some(to);
    let as_extents = [0.0, times as f32].contains(&resize.scales[0]);
    (exact && as_extents && resize.coordinates != CoordinateMode::AlignCorners).then_some(times)
}

/// The rows that a band of a command makes so that it has some: a resampling blends those at its edges with rows that it does not have.
fn made(command: &Command, rows: Range<u32>) -> Option<Range<u32>> {
    let Command::Resize(resize) = command else { return Some(rows) };
    let times = rows_of_one(resize)?;
    let first = (rows.start / times).saturating_sub(1);
    let last = rows.end.div_ceil(times).saturating_add(1).min(resize.input.h);
    Some(first * times..last * times)
}

/// The rows of the input that some rows of the results need, and how many rows of padding before and behind them.
fn needed(command: &Command, rows: &Range<u32>) -> Option<(Range<u32>, [u32; 2])> {
    if let Command::Resize(resize) = command {
        let times = rows_of_one(resize)?;
        return Some((rows.start / times..rows.end / times, [0; 2]));
    }
    let (input, _, window) = maps(command)?;
    let Some(window) = window else { return Some((rows.clone(), [0; 2])) };
    let [kernel, stride, dilation] = [window.kernel[0], window.stride[0], window.dilation[0]].map(i64::from);
    let (before, height) = (i64::from(window.pad[0]), i64::from(input.h));
    let first = i64::from(rows.start) * stride - before;
    let last = (i64::from(rows.end) - 1) * stride - before + (kernel - 1) * dilation + 1;
    let inside = first.clamp(0, height)..last.clamp(0, height);
    let pad = [inside.start - first, last - inside.end];
    let [start, end] = [inside.start, inside.end].map(|row| u32::try_from(row).ok());
    let [top, bottom] = pad.map(|rows| u32::try_from(rows).ok());
    let behind = bottom? <= window.pad[2];
    (start? < end? && behind).then_some((start?..end?, [top?, bottom?]))
}

/// The rows of a feature map.
fn rows_of(map: &FeatureMap, rows: &Range<u32>) -> FeatureMap {
    let addr = Addr::new(map.addr.segment(), map.addr.offset() + u64::from(rows.start) * map.stride_h);
    FeatureMap { addr, h: rows.end - rows.start, ..*map }
}

/// A command on some rows of its results. Of what others in the cascade make or read, the map has the rows from `held` on, at the
/// beginning of a feature map of its own.
pub(crate) fn band(
    command: &Command,
    rows: &Range<u32>,
    reads: Option<(Addr, u32)>,
    writes: Option<(Addr, u32)>,
) -> Option<Command> {
    let (read, pad) = needed(command, rows)?;
    let part = |map: &FeatureMap, rows: &Range<u32>, own: Option<(Addr, u32)>| match own {
        Some((addr, held)) => rows_of(
            &FeatureMap { addr, ..*map },
            &(rows.start.checked_sub(held)?..rows.end.checked_sub(held)?),
        )
        .into(),
        None => Some(rows_of(map, rows)),
    };
    let (input, output, _) = maps(command)?;
    let (input, output) = (part(input, &read, reads)?, part(output, rows, writes)?);
    let padded = |window: &Window| {
        let [_, left, _, right] = window.pad;
        Window { pad: [pad[0], left, pad[1], right], ..*window }
    };
    Some(match *command {
        Command::QConv(mut conv) => {
            (conv.input, conv.output, conv.window) = (input, output, padded(&conv.window));
            conv.residual = conv.residual.map(|map| rows_of(&map, rows));
            Command::QConv(conv)
        }
        Command::Pool(mut pool) => {
            (pool.input, pool.output, pool.window) = (input, output, padded(&pool.window));
            Command::Pool(pool)
        }
        Command::Table(mut table) => {
            (table.input, table.output) = (input, output);
            Command::Table(table)
        }
        Command::Resize(mut resize) => {
            (resize.input, resize.output) = (input, output);
            Command::Resize(resize)
        }
        _ => return None,
    })
}

/// The commands of one band of a cascade; `name` gives a feature map between them its address, from its bytes.
fn cut(
    commands: &[Command],
    rows: &Range<u32>,
    mut name: impl FnMut(u64) -> Option<Addr>,
) -> Option<Vec<Command>> {
    // The last one's results are those of the program: a band makes no others.
    if matches!(commands.last(), Some(Command::Resize(_))) {
        return None;
    }
    // From the last command back to the first: what each has to make.
    let mut wanted = vec![rows.clone(); commands.len()];
    for at in (1..commands.len()).rev() {
        wanted[at - 1] = made(&commands[at - 1], needed(&commands[at], &wanted[at])?.0)?;
    }
    let mut held: Vec<(Addr, u32)> = Vec::with_capacity(commands.len());
    for (command, rows) in commands.iter().zip(&wanted).take(commands.len() - 1) {
        let map = maps(command)?.1;
        let bytes = u64::from(rows.end - rows.start).checked_mul(map.stride_h)?;
        held.push((name(bytes)?, rows.start));
    }
    let own = |at: usize| held.get(at).copied();
    commands
        .iter()
        .zip(&wanted)
        .enumerate()
        .map(|(at, (command, rows))| band(command, rows, at.checked_sub(1).and_then(own), own(at)))
        .collect()
}

/// The bands of so many rows each, the last one of what is left.
fn bands(commands: &[Command], rows: u32) -> Option<impl Iterator<Item = Range<u32>> + use<>> {
    let height = maps(commands.last()?)?.1.h;
    let step = usize::try_from(rows).ok()?;
    Some((0..height).step_by(step).map(move |start| start..start.saturating_add(rows).min(height)))
}

/// The height of bands by which some commands save most time; `None` if none saves any.
fn fastest(
    commands: &[Command],
    first: usize,
    depth: usize,
    planned: &Planned,
    about: &Circumstances<'_>,
) -> Result<Option<Cascade>, Error> {
    let own = &commands[first..first + depth];
    let Some((_, last, _)) = maps(&own[depth - 1]) else { return Ok(None) };
    let placed = |command: &Command| -> Command {
        let mut command = *command;
        patch::addresses(&mut command, &mut |addr| {
            if addr.segment() == Program::SCRATCH {
                let (draft, within) = patch::unpack(*addr);
                let buffer = planned.drafts.get(draft).copied().flatten().map(|at| &planned.buffers[at]);
                *addr = buffer.map_or(Addr::new(Program::RESIDENT, 0), |buffer| {
                    Addr::new(buffer.segment, buffer.offset + within)
                });
            }
        });
        command
    };
    let time = |commands: &[Command], near: u64| -> Result<u64, Error> {
        let commands: Vec<Command> = commands.iter().map(placed).collect();
        let resident = planned.residency.map_or(0, |residency| residency.peak);
        let resident_bytes = resident.saturating_add(near).min(about.capacity);
        let options = TimingOptions { resident_bytes, ..about.options };
        let timeline = timing::timeline(about.spec, &commands, about.placement, &options)?;
        Ok(timeline.total_cycles - timeline.launch_cycles)
    };
    let whole = time(own, 0)?;
    let unnamed =
        u32::try_from(planned.drafts.len()).map_err(|_| Error::Internal("too many feature maps".into()))?;
    let mut best: Option<Cascade> = None;
    let heights = std::iter::successors(Some(1_u32), |rows| rows.checked_mul(2));
    for height in heights.take_while(|&height| height < last.h) {
        if last.h.div_ceil(height) > MOST_BANDS {
            continue;
        }
        let Some(bands) = bands(own, height) else { break };
        // Two neighbours are alive together, and what else lies near has to go on doing so: half of it, for a guess.
        let mut most = 0;
        let parts: Option<Vec<Vec<Command>>> = bands
            .map(|band| {
                cut(own, &band, |bytes| {
                    most = most.max(bytes);
                    patch::pack(unnamed, 0)
                })
            })
            .collect();
        let Some(parts) = parts else { continue };
        if 2 * most > about.capacity / 2 {
            break;
        }
        let saved = whole.saturating_sub(time(&parts.concat(), 2 * most)?);
        if saved > best.map_or(0, |best| best.saved) {
            best = Some(Cascade { first, depth, rows: height, saved });
        }
    }
    Ok(best)
}

impl Unplanned {
    /// The program with some of its commands in cascades.
    fn with(&self, commands: &[Command], cascades: &[Cascade]) -> Result<Self, Error> {
        let lost = || Error::Internal("a cascade whose bands are none".into());
        let mut drafts: Vec<Draft> =
            self.drafts.iter().map(|draft| Draft { first: 0, last: 0, ..*draft }).collect();
        // Each new command, with the one that it is of.
        let mut list: Vec<(Command, u32)> = Vec::with_capacity(commands.len());
        let mut starts: Vec<u32> = Vec::with_capacity(commands.len() + 1);
        let mut cascades = cascades.iter().peekable();
        let mut at = 0;
        while at < commands.len() {
            let start = list.len() as u32;
            let Some(cascade) = cascades.next_if(|cascade| cascade.first == at) else {
                starts.push(start);
                list.push((commands[at], at as u32));
                at += 1;
                continue;
            };
            starts.extend(std::iter::repeat_n(start, cascade.depth));
            let own = &commands[at..at + cascade.depth];
            for band in bands(own, cascade.rows).ok_or_else(lost)? {
                let named = |bytes: u64| {
                    let index = u32::try_from(drafts.len()).ok()?;
                    drafts.push(Draft {
                        bytes: bytes.checked_next_multiple_of(ALIGNMENT)?,
                        first: 0,
                        last: 0,
                    });
                    patch::pack(index, 0)
                };
                let cut = cut(own, &band, named).ok_or_else(lost)?;
                list.extend(cut.into_iter().zip(at as u32..));
            }
            at += cascade.depth;
        }
        starts.push(list.len() as u32);
        let mut buffer = CommandBuffer::default();
        for (index, (command, _)) in list.iter_mut().enumerate() {
            patch::addresses(command, &mut |addr| {
                if addr.segment() == Program::SCRATCH
                    && let Some(draft) = drafts.get_mut(patch::unpack(*addr).0)
                {
                    let begins = draft.first == draft.last;
                    draft.first = if begins { index as u32 } else { draft.first };
                    draft.last = index as u32 + 1;
                }
            });
            buffer.push(command);
        }
        let mut operators: Vec<Operator> = Vec::with_capacity(self.operators.len());
        let mut current: Option<usize> = None;
        for (index, (_, of)) in list.iter().enumerate() {
            let own = self.operators.partition_point(|operator| operator.last <= *of);
            let Some(operator) = self.operators.get(own).filter(|operator| operator.first <= *of) else {
                current = None;
                continue;
            };
            let (first, last) = (index as u32, index as u32 + 1);
            match operators.last_mut() {
                Some(piece) if current == Some(own) => piece.last = last,
                _ => operators.push(Operator { first, last, ..operator.clone() }),
            }
            current = Some(own);
        }
        let waits = self.waits.iter().map(|wait| Wait { at: starts[wait.at as usize], ..wait.clone() });
        let waits = waits.collect();
        Ok(Self { commands: buffer, drafts, operators, waits })
    }
}
