//! The memory plan of a program: which feature maps stay in the near memory, and where in their segment each one lies.
//!
//! One step over a finished command stream whose addresses still name feature maps (see `patch.rs`). A compiled
//! program goes back to that form by its recorded plan, so that it can be planned again for another policy or capacity.
//! Nothing here knows operators or tensors.

use std::collections::BTreeMap;

use triune_device::{
    Addr, DeviceSpec,
    command::CommandBuffer,
    spec::{Kept as Stays, Share},
    timing, touches, work,
};
use triune_memory::{
    Buffer, Limits, Plan, minimize,
    residency::{Candidate, Policy, choose},
    validate,
};

use crate::{
    ALIGNMENT, Error, Program, TensorIo, in_place, patch,
    program::{PlannedBuffer, Residency},
};

/// How feature maps are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// How the feature maps that stay in the near memory are chosen.
    pub policy: Policy,
    /// Bytes of the near memory that one image's feature maps may take at most; `None`: all that the device has for them.
    pub capacity: Option<u64>,
    /// Whether element-by-element results may take the bytes of an operand that dies there. The device then copies that
    /// operand aside; a program that was compiled so keeps these feature maps together when it is planned again.
    pub in_place: bool,
    /// How long to look for a lower peak where the greedy placement is not proven optimal. Limits on placements give equal
    /// plans on every machine, a limit on time need not.
    pub search: Limits,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { policy: Policy::Exact, capacity: None, in_place: false, search: Limits::placements(50_000) }
    }
}

/// A feature map without an address: its size, and the commands between which it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Its size.
    pub bytes: u64,
    /// Index of the first command that touches it.
    pub first: u32,
    /// One past the last command that touches it; `first` when none does.
    pub last: u32,
}

/// What a plan must leave room for in the memories, besides feature maps.
#[derive(Clone, Copy, Debug)]
pub struct Besides<'a> {
    /// Images side by side.
    pub batch: usize,
    /// Cores that the images are on, whose part of the shared memories is theirs: one each, or all of them on one image.
    pub cores: usize,
    /// Bytes of constants.
    pub constants: u64,
    /// The program's inputs.
    pub inputs: &'a [TensorIo],
    /// The program's outputs.
    pub outputs: &'a [TensorIo],
}

/// What a plan may do with each feature map.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// Whether each draft may stay in the near memory; `None`: all may, where it keeps whole feature maps.
    pub near: Option<&'a [bool]>,
    /// Whether each feature map in the far memory has bytes that no other ever takes.
    pub apart: bool,
}

/// What planning gives, beside commands with final addresses.
#[derive(Clone, Debug)]
pub struct Planned {
    /// One per draft that any command touches, in their order; drafts that share bytes are one.
    pub buffers: Vec<PlannedBuffer>,
    /// The buffer of each draft that any command touches.
    pub drafts: Vec<Option<usize>>,
    /// Bytes of the far memory that hold feature maps.
    pub scratch_bytes: u64,
    /// What no plan can do without of them.
    pub scratch_lower_bound: u64,
    /// Bytes of the memory that the host reaches that hold those for which the far memory has no room.
    pub spilled_bytes: u64,
    /// What stays in the near memory; `None` when the device has no such memory.
    pub residency: Option<Residency>,
}

/// Places the feature maps that the commands' addresses name, and gives the commands their final addresses.
pub fn place(
    spec: &DeviceSpec,
    options: &PlanOptions,
    besides: &Besides<'_>,
    commands: &mut CommandBuffer,
    drafts: &[Draft],
) -> Result<Planned, Error> {
    place_within(spec, options, besides, commands, drafts, Scope::default())
}

/// As [`place`], with limits on what may lie where.
pub fn place_within(
    spec: &DeviceSpec,
    options: &PlanOptions,
    besides: &Besides<'_>,
    commands: &mut CommandBuffer,
    drafts: &[Draft],
    scope: Scope<'_>,
) -> Result<Planned, Error> {
    let mut owners: Vec<usize> = (0..drafts.len()).collect();
    if options.in_place {
        take_over(spec, commands, drafts, &mut owners);
    }
    work::go_on()?;
    let (groups, buffers) = grouped(drafts, &owners);
    let traffic = traffic(spec, commands, &groups, buffers.len());
    let candidates: Vec<Candidate> = traffic
        .iter()
        .zip(&buffers)
        .map(|(own, &buffer)| {
            let moved = own.read.saturating_add(own.written);
            Candidate { buffer, reads: whole(moved, buffer.size).saturating_sub(1) }
        })
        .collect();
    let mut seats: Vec<Option<(u16, u64)>> = vec![None; buffers.len()];
    let mut seat = |segment: u16, indices: &[usize], plan: &Plan| {
        for (&index, &offset) in indices.iter().zip(&plan.offsets) {
            seats[index] = Some((segment, offset));
        }
    };
    let mut residency = None;
    let mut away: Vec<usize> = (0..buffers.len()).collect();
    if spec.placement.resident.is_some() {
        let capacity = capacity(spec, options, besides, commands);
        let mut able = vec![scope.near.is_some() || spec.placement.kept == Stays::Maps; buffers.len()];
        for (group, &near) in groups.iter().zip(scope.near.unwrap_or_default()) {
            if let Some(group) = group {
                able[*group] &= near;
            }
        }
        let able: Vec<usize> = (0..buffers.len()).filter(|&index| able[index]).collect();
        let Kept { stay, plan, value, bound } = kept(&candidates, &able, capacity, options.policy, options)?;
        seat(Program::RESIDENT, &stay, &plan);
        away.retain(|index| stay.binary_search(index).is_err());
        let (peak, lower_bound) = (plan.peak, plan.lower_bound);
        residency = Some(Residency { policy: options.policy, capacity, value, bound, peak, lower_bound });
    }
    work::go_on()?;
    let mut far = if scope.apart {
        let always = |buffer: &Buffer| Buffer { lower: 0, upper: commands.len().max(1) as u64, ..*buffer };
        placed(&away, &buffers.iter().map(always).collect::<Vec<_>>(), options, None)?
    } else {
        placed(&away, &buffers, options, None)?
    };
    work::go_on()?;
    // What the far memory has no room for lies where the host's transfers end; the rest does not have to go along.
    let mut spilled = 0;
    if let Some((segment, room)) = room(spec, besides, commands, residency.map_or(0, |near| near.peak))?
        && far.peak > room
        && !scope.apart
    {
        let Kept { stay, plan, .. } = kept(&candidates, &away, room, Policy::default(), options)?;
        away.retain(|index| stay.binary_search(index).is_err());
        let behind = placed(&away, &buffers, options, None)?;
        seat(segment, &away, &behind);
        (away, far, spilled) = (stay, plan, padded(behind.peak)?);
    }
    seat(Program::SCRATCH, &away, &far);
    work::go_on()?;
    let offsets: Vec<(u16, u64)> = seats.into_iter().flatten().collect();
    let planned = buffers.iter().zip(&offsets).zip(&traffic).map(|((buffer, &(segment, offset)), own)| {
        let [first, last] = [buffer.lower, buffer.upper].map(|step| step as u32);
        let reads = u32::try_from(whole(own.read, buffer.size)).unwrap_or(u32::MAX);
        PlannedBuffer { segment, offset, bytes: buffer.size, first, last, reads }
    });
    let planned = planned.collect();
    let mut lost = false;
    commands.change(|command| {
        patch::addresses(command, &mut |addr| {
            if addr.segment() == Program::SCRATCH {
                let (index, within) = patch::unpack(*addr);
                match groups.get(index).copied().flatten().map(|group| offsets[group]) {
                    Some((segment, offset)) => *addr = Addr::new(segment, offset + within),
                    None => lost = true,
                }
            }
        });
    });
    if lost {
        return Err(Error::Internal("a command reads a feature map that nothing keeps".into()));
    }
    Ok(Planned {
        buffers: planned,
        drafts: groups,
        scratch_bytes: padded(far.peak)?,
        scratch_lower_bound: far.lower_bound,
        spilled_bytes: spilled,
        residency,
    })
}

/// Feature maps that a memory keeps, in ascending order, and where they lie in it.
struct Kept {
    stay: Vec<usize>,
    plan: Plan,
    /// Bytes not moved by it, and what no choice is above.
    value: u64,
    bound: u64,
}

/// The most valuable of some candidates that a memory can keep.
fn kept(
    candidates: &[Candidate],
    able: &[usize],
    capacity: u64,
    policy: Policy,
    options: &PlanOptions,
) -> Result<Kept, Error> {
    let own: Vec<Candidate> = able.iter().map(|&index| candidates[index]).collect();
    let chosen = choose(&own, capacity, policy).ok_or_else(overflow)?;
    let stays = able.iter().zip(&chosen.offsets).filter_map(|(&index, offset)| Some((index, (*offset)?)));
    let (stay, offsets): (Vec<usize>, Vec<u64>) = stays.unzip();
    let found = Plan { offsets, peak: chosen.peak, lower_bound: 0, proven_optimal: false };
    let buffers: Vec<Buffer> = candidates.iter().map(|candidate| candidate.buffer).collect();
    let plan = placed(&stay, &buffers, options, Some(found))?;
    Ok(Kept { stay, plan, value: chosen.value, bound: chosen.bound })
}

/// The segment of the feature maps that the far memory has no room for, and the room that there is for one image's; `None` where
/// no memory is behind the far one.
fn room(
    spec: &DeviceSpec,
    besides: &Besides<'_>,
    commands: &CommandBuffer,
    resident: u64,
) -> Result<Option<(u16, u64)>, Error> {
    let Some(segment) =
        Program::behind(besides.inputs.len() + besides.outputs.len()).filter(|_| spec.spills())
    else {
        return Ok(None);
    };
    let mut room = share_of(spec, besides, commands)?.scratch;
    let place = &spec.placement;
    if place.instructions == place.scratch {
        room = room.saturating_sub(commands.as_bytes().len() as u64);
    }
    if place.resident.as_ref() == Some(&place.scratch) {
        room = room.saturating_sub(resident);
    }
    Ok(Some((segment, room / ALIGNMENT * ALIGNMENT)))
}

/// What the program has of the memories that cores share.
pub(crate) fn share_of(
    spec: &DeviceSpec,
    besides: &Besides<'_>,
    commands: &CommandBuffer,
) -> Result<Share, Error> {
    let constants = if spec.array.is_some_and(|array| array.packs_weights()) {
        timing::constant_bytes(spec, &commands.iter().collect::<Vec<_>>())
    } else {
        besides.constants
    };
    Ok(spec.share(besides.batch, besides.cores, constants, None)?)
}

/// Bytes rounded up to the alignment of segments.
fn padded(bytes: u64) -> Result<u64, Error> {
    bytes.checked_next_multiple_of(ALIGNMENT).ok_or_else(overflow)
}

fn overflow() -> Error {
    Error::Target("the feature maps' sizes overflow 64 bits".into())
}

/// Bytes as a multiple of a size, rounded up; 0 of nothing.
fn whole(bytes: u64, size: u64) -> u64 {
    if size == 0 { 0 } else { bytes.div_ceil(size) }
}

/// Bytes that the commands move to and from one feature map.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    read: u64,
    written: u64,
}

/// The traffic of each group of drafts.
fn traffic(
    spec: &DeviceSpec,
    commands: &CommandBuffer,
    groups: &[Option<usize>],
    count: usize,
) -> Vec<Traffic> {
    let mut traffic = vec![Traffic::default(); count];
    for touch in commands.iter().flat_map(|command| touches(spec, &command)) {
        if let Some(group) = named(touch.addr).and_then(|index| groups.get(index).copied().flatten()) {
            let own = &mut traffic[group];
            let bytes = if touch.written { &mut own.written } else { &mut own.read };
            *bytes = bytes.saturating_add(touch.bytes);
        }
    }
    traffic
}

/// The draft that an address names.
fn named(addr: Addr) -> Option<usize> {
    (addr.segment() == Program::SCRATCH).then(|| patch::unpack(addr).0)
}

/// Lets results take the bytes of operands that die where they are made: `owners` leads from each draft to the one whose
/// bytes it takes.
fn take_over(spec: &DeviceSpec, commands: &CommandBuffer, drafts: &[Draft], owners: &mut [usize]) {
    for (at, command) in commands.iter().enumerate() {
        for (operand, result) in in_place::pairs(&command) {
            let (Some(from), Some(to)) = (named(operand), named(result)) else { continue };
            let (Some(dying), Some(born)) = (drafts.get(from), drafts.get(to)) else { continue };
            // Both are whole buffers, and nothing else in this command touches them.
            let whole = |addr: Addr, index: usize| {
                let mut own = touches(spec, &command).filter(|touch| named(touch.addr) == Some(index));
                let only = own.next().is_some_and(|touch| touch.bytes == drafts[index].bytes);
                only && own.next().is_none() && patch::unpack(addr).1 == 0
            };
            let meet = dying.last as usize == at + 1 && born.first as usize == at;
            if from != to && meet && dying.bytes == born.bytes && whole(operand, from) && whole(result, to) {
                owners[to] = owners[from];
                break;
            }
        }
    }
}

/// One buffer per group of drafts that share bytes, and the group of each draft; those that nothing touches have none.
fn grouped(drafts: &[Draft], owners: &[usize]) -> (Vec<Option<usize>>, Vec<Buffer>) {
    let (mut groups, mut buffers) = (vec![None; drafts.len()], Vec::<Buffer>::new());
    for (index, &Draft { bytes, first, last }) in drafts.iter().enumerate() {
        if first >= last {
            continue;
        }
        let group = *groups[owners[index]].get_or_insert_with(|| {
            buffers.push(Buffer {
                lower: first.into(),
                upper: last.into(),
                size: bytes,
                alignment: ALIGNMENT,
            });
            buffers.len() - 1
        });
        groups[index] = Some(group);
        let own = &mut buffers[group];
        own.lower = own.lower.min(first.into());
        own.upper = own.upper.max(last.into());
    }
    (groups, buffers)
}

/// Bytes of the near memory for one image's feature maps.
fn capacity(
    spec: &DeviceSpec,
    options: &PlanOptions,
    besides: &Besides<'_>,
    commands: &CommandBuffer,
) -> u64 {
    let Some(memory) = spec.resident_memory() else { return 0 };
    let padded = |bytes: u64| bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
    let mut free = memory.usable_bytes();
    let mut take = |place: &str, bytes: u64| {
        if place == memory.name {
            free = free.saturating_sub(padded(bytes));
        }
    };
    take(&spec.placement.instructions, commands.as_bytes().len() as u64);
    take(&spec.placement.constants, besides.constants);
    for io in besides.inputs.iter().chain(besides.outputs) {
        // A core has its own image only.
        let images = if memory.per_core { besides.batch } else { 1 };
        take(&spec.placement.io, (io.bytes() / images.max(1)) as u64);
    }
    if !memory.per_core {
        free /= besides.batch.max(1) as u64;
    }
    options.capacity.map_or(free, |limit| limit.min(free)) / ALIGNMENT * ALIGNMENT
}

/// Places some of the buffers, as low as the search finds or as `found`; the result is checked.
fn placed(
    indices: &[usize],
    buffers: &[Buffer],
    options: &PlanOptions,
    found: Option<Plan>,
) -> Result<Plan, Error> {
    let own: Vec<Buffer> = indices.iter().map(|&index| buffers[index]).collect();
    let mut plan = minimize(&own, options.search).ok_or_else(overflow)?;
    if let Some(found) = found
        && found.peak < plan.peak
    {
        plan = Plan { lower_bound: plan.lower_bound, ..found };
    }
    validate(&own, &plan)
        .map_err(|violation| Error::Internal(format!("the memory plan is invalid: {violation}")))?;
    Ok(plan)
}

impl Program {
    /// The program with another memory plan: another policy, another capacity, or another device of its kind. What it
    /// computes stays the same.
    ///
    /// # Errors
    /// [`Error::Program`] when the recorded plan is not that of the commands; [`Error::Device`] for instructions that
    /// cannot be decoded.
    pub fn replan(&self, spec: &DeviceSpec, options: &PlanOptions) -> Result<Self, Error> {
        self.replan_on(spec, options, self.batch)
    }

    /// As [`Self::replan`], with the part of the shared memories that `cores` cores have. A run has as many images as before.
    ///
    /// # Errors
    /// As [`Self::replan`].
    pub fn replan_on(&self, spec: &DeviceSpec, options: &PlanOptions, cores: usize) -> Result<Self, Error> {
        let mut commands = CommandBuffer::read(&self.instructions)?;
        let drafts = self.lift(&mut commands)?;
        // Bands stay bands.
        let bands = (spec.placement.kept == Stays::Bands).then(|| {
            let near = |buffer: &PlannedBuffer| buffer.segment == Self::RESIDENT;
            self.buffers.iter().map(near).collect::<Vec<_>>()
        });
        let besides = Besides {
            batch: self.batch,
            cores,
            constants: self.constants.len() as u64,
            inputs: &self.inputs,
            outputs: &self.outputs,
        };
        let scope = Scope { near: bands.as_deref(), ..Scope::default() };
        let planned = place_within(spec, options, &besides, &mut commands, &drafts, scope)?;
        Ok(Self { device: Self::carried(spec), ..self.with_plan(commands, planned) })
    }

    /// The program with these commands and this plan.
    #[must_use]
    pub fn with_plan(&self, commands: CommandBuffer, planned: Planned) -> Self {
        let Planned { buffers, scratch_bytes, scratch_lower_bound, spilled_bytes, residency, .. } = planned;
        let instructions = commands.into_bytes().into();
        let program =
            Self { instructions, scratch_bytes, scratch_lower_bound, spilled_bytes, ..self.clone() };
        Self { residency, buffers, ..program }
    }

    /// Makes the commands' addresses name feature maps again: at every command, an address belongs to the one that is
    /// alive there.
    pub fn lift(&self, commands: &mut CommandBuffer) -> Result<Vec<Draft>, Error> {
        self.check_plan()?;
        let holds_any = |&index: &usize| {
            let buffer = &self.buffers[index];
            buffer.bytes > 0 && buffer.first < buffer.last
        };
        let mut starting: Vec<usize> = (0..self.buffers.len()).filter(holds_any).collect();
        let mut ending = starting.clone();
        starting.sort_by_key(|&index| self.buffers[index].first);
        ending.sort_by_key(|&index| self.buffers[index].last);
        let (mut starting, mut ending) = (starting.into_iter().peekable(), ending.into_iter().peekable());
        // Those that are alive share no bytes, so that the one that begins last before an address is the only one that can
        // hold it.
        let mut live: BTreeMap<(u16, u64), usize> = BTreeMap::new();
        let place = |index: usize| (self.buffers[index].segment, self.buffers[index].offset);
        let (mut at, mut lost) = (0, None);
        commands.change(|command| {
            while let Some(index) = ending.next_if(|&index| self.buffers[index].last as usize <= at) {
                live.remove(&place(index));
            }
            while let Some(index) = starting.next_if(|&index| self.buffers[index].first as usize <= at) {
                live.insert(place(index), index);
            }
            patch::addresses(command, &mut |addr| {
                if self.map_bytes(addr.segment()).is_none() {
                    return;
                }
                let key = (addr.segment(), addr.offset());
                let owner = live.range(..=key).next_back().and_then(|(&(segment, offset), &index)| {
                    let within = addr.offset().checked_sub(offset)?;
                    let holds = segment == addr.segment() && within < self.buffers[index].bytes;
                    holds.then(|| patch::pack(u32::try_from(index).ok()?, within)).flatten()
                });
                match owner {
                    Some(named) => *addr = named,
                    None => lost = lost.or(Some((at, *addr))),
                }
            });
            at += 1;
        });
        if let Some((at, addr)) = lost {
            return Err(Error::Program(format!("command {at}: the memory plan has nothing at {addr}")));
        }
        Ok(self
            .buffers
            .iter()
            .map(|&PlannedBuffer { bytes, first, last, .. }| Draft { bytes, first, last })
            .collect())
    }

    /// Checks that the recorded plan is one: no two feature maps of a segment share bytes while both are alive.
    fn check_plan(&self) -> Result<(), Error> {
        for segment in [Self::SCRATCH, Self::RESIDENT].into_iter().chain(self.spilled()) {
            let own = || self.buffers.iter().filter(|buffer| buffer.segment == segment);
            let buffers: Vec<Buffer> = own()
                .map(|each| Buffer {
                    lower: each.first.into(),
                    upper: each.last.into(),
                    size: each.bytes,
                    alignment: ALIGNMENT,
                })
                .collect();
            let offsets = own().map(|buffer| buffer.offset).collect();
            let plan = Plan {
                offsets,
                peak: self.map_bytes(segment).unwrap_or(0),
                lower_bound: 0,
                proven_optimal: false,
            };
            validate(&buffers, &plan)
                .map_err(|violation| Error::Program(format!("the memory plan is invalid: {violation}")))?;
        }
        Ok(())
    }
}
