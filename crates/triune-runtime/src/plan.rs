//! The memory plan of a program: which feature maps stay in the near memory, and where in their segment each one lies.
//!
//! One step over a finished command stream whose addresses still name feature maps (see `lower/patch.rs`). A compiled
//! program goes back to that form by its recorded plan, so that it can be planned again for another policy or capacity.
//! Nothing here knows operators or tensors.

use triune_device::{Addr, Command, DeviceSpec, command, touches};
use triune_memory::{
    Buffer, Limits, Plan, minimize,
    residency::{Candidate, Policy, choose},
    validate,
};

use crate::{
    Error, Program, TensorIo,
    lower::{ALIGNMENT, patch},
    program::{PlannedBuffer, Residency},
};

/// How feature maps are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// How the feature maps that stay in the near memory are chosen.
    pub policy: Policy,
    /// Bytes of the near memory that one image's feature maps may take at most; `None`: all that the device has for them.
    pub capacity: Option<u64>,
    /// How long to look for a lower peak where the greedy placement is not proven optimal. Limits on placements give equal
    /// plans on every machine, a limit on time need not.
    pub search: Limits,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { policy: Policy::Exact, capacity: None, search: Limits::placements(50_000) }
    }
}

/// A feature map without an address: its size, and the commands between which it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) bytes: u64,
    /// Index of the first command that touches it.
    pub(crate) first: u32,
    /// One past the last command that touches it; `first` when none does.
    pub(crate) last: u32,
}

/// What a plan must leave room for in the memories, besides feature maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Besides<'a> {
    pub(crate) batch: usize,
    pub(crate) constants: u64,
    pub(crate) inputs: &'a [TensorIo],
    pub(crate) outputs: &'a [TensorIo],
}

/// What planning gives, beside commands with final addresses.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// One per draft that any command touches, in their order.
    pub(crate) buffers: Vec<PlannedBuffer>,
    pub(crate) scratch_bytes: u64,
    pub(crate) scratch_lower_bound: u64,
    pub(crate) residency: Option<Residency>,
}

/// Places the feature maps that the commands' addresses name, and gives the commands their final addresses.
pub(crate) fn place(
    spec: &DeviceSpec,
    options: &PlanOptions,
    besides: &Besides<'_>,
    commands: &mut [Command],
    drafts: &[Draft],
) -> Result<Planned, Error> {
    let traffic = traffic(spec, commands, drafts);
    let touched: Vec<usize> =
        (0..drafts.len()).filter(|&index| drafts[index].first < drafts[index].last).collect();
    let buffers: Vec<Buffer> = touched
        .iter()
        .map(|&index| {
            let Draft { bytes, first, last } = drafts[index];
            Buffer { lower: first.into(), upper: last.into(), size: bytes, alignment: ALIGNMENT }
        })
        .collect();
    let candidates: Vec<Candidate> = touched
        .iter()
        .zip(&buffers)
        .map(|(&index, &buffer)| {
            let moved = traffic[index].read.saturating_add(traffic[index].written);
            Candidate { buffer, reads: whole(moved, buffer.size).saturating_sub(1) }
        })
        .collect();
    let mut near: Vec<Option<u64>> = vec![None; buffers.len()];
    let mut residency = None;
    if spec.placement.resident.is_some() {
        let capacity = capacity(spec, options, besides, commands);
        let chosen = choose(&candidates, capacity, options.policy).ok_or_else(overflow)?;
        let stay: Vec<usize> = (0..buffers.len()).filter(|&index| chosen.offsets[index].is_some()).collect();
        let offsets = stay.iter().filter_map(|&index| chosen.offsets[index]).collect();
        let found = Plan { offsets, peak: chosen.peak, lower_bound: 0, proven_optimal: false };
        let plan = placed(&stay, &buffers, options, Some(found))?;
        for (&index, &offset) in stay.iter().zip(&plan.offsets) {
            near[index] = Some(offset);
        }
        let (policy, value, bound) = (options.policy, chosen.value, chosen.bound);
        residency = Some(Residency {
            policy,
            capacity,
            value,
            bound,
            peak: plan.peak,
            lower_bound: plan.lower_bound,
        });
    }
    let away: Vec<usize> = (0..buffers.len()).filter(|&index| near[index].is_none()).collect();
    let far = placed(&away, &buffers, options, None)?;
    let mut offsets: Vec<(u8, u64)> =
        near.into_iter().map(|offset| (Program::RESIDENT, offset.unwrap_or_default())).collect();
    for (&index, &offset) in away.iter().zip(&far.offsets) {
        offsets[index] = (Program::SCRATCH, offset);
    }
    let mut addresses: Vec<Option<(u8, u64)>> = vec![None; drafts.len()];
    let mut planned = Vec::with_capacity(touched.len());
    for (&index, &(segment, offset)) in touched.iter().zip(&offsets) {
        addresses[index] = Some((segment, offset));
        let Draft { bytes, first, last } = drafts[index];
        let reads = u32::try_from(whole(traffic[index].read, bytes)).unwrap_or(u32::MAX);
        planned.push(PlannedBuffer { segment, offset, bytes, first, last, reads });
    }
    for command in commands {
        let mut lost = false;
        patch::addresses(command, &mut |addr| {
            if addr.segment() == Program::SCRATCH {
                let (index, within) = patch::unpack(*addr);
                match addresses.get(index).copied().flatten() {
                    Some((segment, offset)) => *addr = Addr::new(segment, offset + within),
                    None => lost = true,
                }
            }
        });
        if lost {
            return Err(Error::Target("a command reads a feature map that nothing keeps".into()));
        }
    }
    Ok(Planned {
        buffers: planned,
        scratch_bytes: far.peak.checked_next_multiple_of(ALIGNMENT).ok_or_else(overflow)?,
        scratch_lower_bound: far.lower_bound,
        residency,
    })
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

fn traffic(spec: &DeviceSpec, commands: &[Command], drafts: &[Draft]) -> Vec<Traffic> {
    let mut traffic = vec![Traffic::default(); drafts.len()];
    for touch in commands.iter().flat_map(|command| touches(spec, command)) {
        if touch.addr.segment() != Program::SCRATCH {
            continue;
        }
        if let Some(own) = traffic.get_mut(patch::unpack(touch.addr).0) {
            let count = if touch.written { &mut own.written } else { &mut own.read };
            *count = count.saturating_add(touch.bytes);
        }
    }
    traffic
}

/// Bytes of the near memory for one image's feature maps.
fn capacity(spec: &DeviceSpec, options: &PlanOptions, besides: &Besides<'_>, commands: &[Command]) -> u64 {
    let Some(memory) = spec.resident_memory() else { return 0 };
    let padded = |bytes: u64| bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
    let mut free = memory.usable_bytes();
    let mut take = |place: &str, bytes: u64| {
        if place == memory.name {
            free = free.saturating_sub(padded(bytes));
        }
    };
    let words: usize = commands.iter().map(Command::words).sum();
    take(&spec.placement.instructions, 4 * words as u64);
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
        .map_err(|violation| Error::Target(format!("the memory plan is invalid: {violation}")))?;
    Ok(plan)
}

impl Program {
    /// The program with another memory plan: another policy, another capacity, or another device of its kind. What it
    /// computes stays the same.
    ///
    /// # Errors
    /// [`Error::Target`] when the recorded plan is not that of the commands, or was not kept (in packages of the first
    /// versions); [`Error::Device`] for instructions that cannot be decoded.
    pub fn replan(&self, spec: &DeviceSpec, options: &PlanOptions) -> Result<Self, Error> {
        let mut commands = command::decode(&self.instructions)?;
        let drafts = self.lift(&mut commands)?;
        let besides = Besides {
            batch: self.batch,
            constants: self.constants.len() as u64,
            inputs: &self.inputs,
            outputs: &self.outputs,
        };
        let planned = place(spec, options, &besides, &mut commands, &drafts)?;
        Ok(self.with_plan(&commands, planned))
    }

    /// The program with these commands and this plan.
    pub(crate) fn with_plan(&self, commands: &[Command], planned: Planned) -> Self {
        let Planned { buffers, scratch_bytes, scratch_lower_bound, residency } = planned;
        let instructions = command::encode(commands).into();
        Self { instructions, scratch_bytes, scratch_lower_bound, residency, buffers, ..self.clone() }
    }

    /// Makes the commands' addresses name feature maps again: at every command, an address belongs to the one that is
    /// alive there.
    fn lift(&self, commands: &mut [Command]) -> Result<Vec<Draft>, Error> {
        self.check_plan()?;
        let mut starting: Vec<usize> = (0..self.buffers.len()).collect();
        starting.sort_by_key(|&index| self.buffers[index].first);
        let mut starting = starting.into_iter().peekable();
        let mut live: Vec<usize> = Vec::new();
        for (at, command) in commands.iter_mut().enumerate() {
            live.retain(|&index| self.buffers[index].last as usize > at);
            while let Some(index) = starting.next_if(|&index| self.buffers[index].first as usize <= at) {
                if self.buffers[index].last as usize > at {
                    live.push(index);
                }
            }
            let mut lost = None;
            patch::addresses(command, &mut |addr| {
                if !matches!(addr.segment(), Self::SCRATCH | Self::RESIDENT) {
                    return;
                }
                let owner = live.iter().find_map(|&index| {
                    let buffer = &self.buffers[index];
                    let within =
                        addr.offset().checked_sub(buffer.offset).filter(|&within| within < buffer.bytes);
                    patch::pack(index as u32, within.filter(|_| buffer.segment == addr.segment())?)
                });
                match owner {
                    Some(named) => *addr = named,
                    None => lost = Some(*addr),
                }
            });
            if let Some(addr) = lost {
                return Err(Error::Target(format!(
                    "command {at}: the memory plan has nothing at {addr}; compile the model again"
                )));
            }
        }
        Ok(self
            .buffers
            .iter()
            .map(|&PlannedBuffer { bytes, first, last, .. }| Draft { bytes, first, last })
            .collect())
    }

    /// Checks that the recorded plan is one: no two feature maps of a segment share bytes while both are alive.
    fn check_plan(&self) -> Result<(), Error> {
        for segment in [Self::SCRATCH, Self::RESIDENT] {
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
            let plan =
                Plan { offsets, peak: self.segment_bytes(segment), lower_bound: 0, proven_optimal: false };
            validate(&buffers, &plan)
                .map_err(|violation| Error::Target(format!("the memory plan is invalid: {violation}")))?;
        }
        Ok(())
    }

    /// Bytes of a segment of feature maps.
    fn segment_bytes(&self, segment: u8) -> u64 {
        if segment == Self::RESIDENT { self.resident_bytes() } else { self.scratch_bytes }
    }
}
