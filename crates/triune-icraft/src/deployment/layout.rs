//! The layout itself: which feature maps cross the border, where the others lie, and the commands with these addresses.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use triune_device::{Addr, Command, DeviceSpec, command::CommandBuffer};
use triune_memory::residency::Policy;

use super::{
    DeployedOp, DeploymentOptions, HardDeployment, LogicSegment, OnChip,
    border::Border,
    encode,
    homes::{Home, homes, windows},
    vendors,
};
use crate::{Error, HardNetwork, load::Place};
use triune_compiler::{
    PlanOptions, Program, patch,
    plan::{Besides, Draft, Planned, Scope, place_within},
};

/// Where a value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePlace {
    /// Its number.
    pub v_id: i64,
    /// The name of its segment.
    pub segment: &'static str,
    /// The area that it lies in.
    pub area: Option<usize>,
    /// First byte in its area, or in its segment; on the chip, in what the deployment has there.
    pub offset: u64,
    /// Logical address; on the chip, as `offset`.
    pub logic: u64,
    /// Bytes of its elements.
    pub bytes: u64,
    /// Bytes from its first element to the end of its last.
    pub span: u64,
    /// Whether it lies on the chip.
    pub on_chip: bool,
    /// The value whose memory it shares, `None` if the memory is its own.
    pub shares: Option<i64>,
    /// Stored extents.
    pub extents: Vec<usize>,
    /// Bytes from one element to the next along each stored axis.
    pub strides: Vec<u64>,
}

impl ValuePlace {
    /// Whether elements lie without gaps.
    pub fn is_dense(&self) -> bool {
        self.bytes == self.span
    }

    /// The number of its segment in a table of segments ([`Placement::segments`](super::Placement::segments)).
    pub fn segment_number(&self) -> u16 {
        match self.area {
            Some(area) => Program::FIRST_IO + area as u16,
            None if self.on_chip => Program::RESIDENT,
            None if self.segment == "weight" => Program::CONSTANTS,
            None => Program::SCRATCH,
        }
    }
}

/// What a feature map becomes: part of the border, or a draft for the plan.
#[derive(Clone, Copy)]
enum Fate {
    Area(usize),
    Draft(u32),
}

impl HardDeployment {
    /// Lays out operators of a network.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for operators that are not there, [`Error::Program`](triune_compiler::Error::Program) for operands that lie nowhere, [`Error::Target`](triune_compiler::Error::Target) for too
    /// many inputs and outputs, [`Error::Device`](triune_compiler::Error::Device) for commands that cannot be decoded and for memories that are too small.
    pub fn new(
        network: &Arc<HardNetwork>,
        spec: &DeviceSpec,
        options: &DeploymentOptions,
    ) -> Result<Self, Error> {
        let program = &network.program;
        let chosen = chosen(network, options)?;
        let all = windows(network)?;
        let homes = homes(network, &all)?;
        let mut commands = CommandBuffer::read(&program.instructions)?;
        let buffers = program.lift(&mut commands)?;
        let commands: Vec<Command> = commands.iter().collect();

        let mut own = Vec::new();
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(chosen.len());
        for &step in &chosen {
            let first = own.len();
            own.extend_from_slice(&commands[all[step].clone()]);
            spans.push(first..own.len());
        }
        let runs = runs(network, &chosen);
        let mut border = Border::new(network, spec, &chosen, options, &homes, &own)?;
        let mut fates: HashMap<usize, Fate> = HashMap::new();
        let mut drafts: Vec<Draft> = Vec::new();
        let mut origins = Vec::new();
        for (at, command) in own.iter_mut().enumerate() {
            let mut lost = false;
            patch::addresses(command, &mut |addr| {
                let segment = addr.segment();
                let (home, within) = match segment {
                    Program::SCRATCH => {
                        let (index, within) = patch::unpack(*addr);
                        (Home::Map(index), within)
                    }
                    Program::INSTRUCTIONS | Program::CONSTANTS | Program::RESIDENT => return,
                    _ => (Home::Edge(segment), addr.offset()),
                };
                if let Some(area) = border.area(home) {
                    *addr = Addr::new(Program::FIRST_IO + area as u16, within);
                    return;
                }
                let Home::Map(index) = home else {
                    lost = true;
                    return;
                };
                let Some(bytes) = buffers.get(index).map(|buffer| buffer.bytes) else {
                    lost = true;
                    return;
                };
                let fate = *fates.entry(index).or_insert_with(|| {
                    drafts.push(Draft { bytes, first: at as u32, last: at as u32 });
                    origins.push(index);
                    Fate::Draft(drafts.len() as u32 - 1)
                });
                if let Fate::Draft(draft) = fate {
                    drafts[draft as usize].last = at as u32 + 1;
                    match patch::pack(draft, within) {
                        Some(named) => *addr = named,
                        None => lost = true,
                    }
                }
            });
            if lost {
                return Err(Error::program(format!("command {at} reads what lies nowhere")));
            }
        }
        let near = near(program, options, &drafts, &origins, &runs, &spans);
        let mut planned = plan(spec, program, options, &near, &mut own, &drafts)?;
        let (instructions, streams) = match &network.vendor {
            None => encode(&own, &spans),
            Some(vendor) => vendors(chosen.iter().map(|&step| &vendor.streams[step]), vendor.complete),
        };
        let instruction_bytes = streams.last().map_or(0, |[first, bytes]| first + bytes);
        let weights =
            network.vendor.as_ref().map_or(program.constants.len() as u64, |vendor| vendor.weight_bytes);
        let stated = network.vendor.as_ref().is_some_and(|vendor| vendor.addressed) && !options.reuse;
        let first_map = if stated { as_stated(program, &mut planned, &origins) } else { 0 };
        let sizes = [weights, planned.scratch_bytes, instruction_bytes];
        let segments =
            if stated { border.as_stated(program, sizes, first_map) } else { border.lay_out(sizes)? };

        for (&index, place) in origins.iter().zip(&planned.drafts) {
            if let Some(place) = place {
                fates.insert(index, Fate::Draft(*place as u32));
            }
        }
        for (index, area) in border.maps() {
            fates.insert(index, Fate::Area(area));
        }
        let lists: Vec<i64> = chosen
            .iter()
            .flat_map(|&step| network.steps[step].inputs.iter().chain(&network.steps[step].outputs).copied())
            .collect();
        let mut seen = HashSet::new();
        let lists = lists.into_iter().filter(|v_id| seen.insert(*v_id));
        let (mut values, mut owned) = (Vec::new(), Vec::new());
        for v_id in lists {
            let place = &network.values[&v_id];
            values.push(value(v_id, place, homes[&v_id], &border, &fates, &planned, &segments)?);
            owned.push(homes[&v_id]);
        }
        share(&mut values, &owned);
        values.sort_by_key(|value| value.v_id);

        let mut layers = 0;
        let ops = chosen.iter().zip(&spans).zip(streams).map(|((&step, window), instructions)| {
            let step = &network.steps[step];
            layers += u64::from(!window.is_empty());
            DeployedOp {
                op_id: step.op_id,
                instructions,
                weights: step.pieces.clone(),
                inputs: step.inputs.clone(),
                outputs: step.outputs.clone(),
                layers,
                window: window.clone(),
            }
        });
        Ok(Self {
            ops: ops.collect(),
            network: Arc::clone(network),
            spec: spec.clone(),
            runs,
            values,
            areas: border.areas,
            segments,
            commands: own,
            instructions,
            buffers: planned.buffers,
            map_bytes: planned.scratch_bytes,
            residency: planned.residency,
        })
    }
}

/// The operators that are asked for, in the order in which they run.
fn chosen(network: &HardNetwork, options: &DeploymentOptions) -> Result<Vec<usize>, Error> {
    let Some(ops) = &options.ops else { return Ok((0..network.steps.len()).collect()) };
    let wanted: HashSet<i64> = ops.iter().copied().collect();
    let found: Vec<usize> =
        (0..network.steps.len()).filter(|&step| wanted.contains(&network.steps[step].op_id)).collect();
    if found.len() != wanted.len() {
        let there: HashSet<i64> = network.op_ids().collect();
        let missing = ops.iter().find(|op| !there.contains(op)).copied().unwrap_or_default();
        return Err(Error::argument(format!("{missing} is no HardOp of the network")));
    }
    Ok(found)
}

/// Rows of operators with nothing between them, whose results have elements of one width.
fn runs(network: &HardNetwork, chosen: &[usize]) -> Vec<Range<usize>> {
    let width = |step: usize| {
        let step = &network.steps[step];
        step.outputs.first().and_then(|v_id| network.values.get(v_id)).map(|place| place.element_bytes)
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, &step) in chosen.iter().enumerate() {
        let follows = at.checked_sub(1).is_some_and(|before| {
            let before = chosen[before];
            network.steps[before].position + 1 == network.steps[step].position && width(before) == width(step)
        });
        match runs.last_mut() {
            Some(run) if follows => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// Which feature maps may stay on the chip.
fn near(
    program: &Program,
    options: &DeploymentOptions,
    drafts: &[Draft],
    origins: &[usize],
    runs: &[Range<usize>],
    spans: &[Range<usize>],
) -> Vec<bool> {
    drafts
        .iter()
        .zip(origins)
        .map(|(draft, &origin)| {
            let own = runs.iter().any(|run| {
                let (first, last) = (spans[run.start].start, spans[run.end - 1].end);
                draft.first as usize >= first && draft.last as usize <= last
            });
            let compiled = program.buffers[origin].segment == Program::RESIDENT;
            own && (compiled || options.on_chip != OnChip::Compiled)
        })
        .collect()
}

/// Places what does not cross the border; of several ways the one that moves the fewest bytes.
fn plan(
    spec: &DeviceSpec,
    program: &Program,
    options: &DeploymentOptions,
    near: &[bool],
    commands: &mut Vec<Command>,
    drafts: &[Draft],
) -> Result<Planned, Error> {
    let besides =
        Besides { batch: 1, cores: 1, constants: program.constants.len() as u64, inputs: &[], outputs: &[] };
    let scope = Scope { near: Some(near), apart: !options.reuse };
    let policies: &[Policy] = match &options.on_chip {
        OnChip::Compiled => &[Policy::Exact],
        OnChip::Policy(Policy::BestScore) => &[Policy::Option1, Policy::Option2, Policy::Option3],
        OnChip::Policy(policy) => std::slice::from_ref(policy),
    };
    let unplaced: CommandBuffer = commands.iter().collect();
    let mut best: Option<(u64, Planned, CommandBuffer)> = None;
    for &policy in policies {
        let capacity = options.on_chip_bytes;
        let with = PlanOptions { policy, capacity, ..PlanOptions::default() };
        let mut placed = unplaced.clone();
        let planned = place_within(spec, &with, &besides, &mut placed, drafts, scope)?;
        let score = planned.residency.map_or(0, |residency| residency.value);
        if best.as_ref().is_none_or(|(most, _, _)| score > *most) {
            best = Some((score, planned, placed));
        }
    }
    let (_, planned, placed) =
        best.ok_or_else(|| Error::internal("no way to choose what stays on the chip"))?;
    *commands = placed.iter().collect();
    Ok(planned)
}

/// Puts the feature maps in the far memory where the document has them, counted from the first of them, whose address it gives.
fn as_stated(program: &Program, planned: &mut Planned, origins: &[usize]) -> u64 {
    let stated = |(place, &origin): (&Option<usize>, &usize)| {
        let (place, stated) = ((*place)?, program.buffers.get(origin)?);
        let far = stated.segment == Program::SCRATCH && planned.buffers[place].segment == Program::SCRATCH;
        far.then_some((place, stated.offset))
    };
    let places: Vec<(usize, u64)> = planned.drafts.iter().zip(origins).filter_map(stated).collect();
    let first = places.iter().map(|(_, offset)| *offset).min().unwrap_or_default();
    for &(place, offset) in &places {
        planned.buffers[place].offset = offset - first;
    }
    let far = planned.buffers.iter().filter(|buffer| buffer.segment == Program::SCRATCH);
    planned.scratch_bytes = far.map(|buffer| buffer.offset + buffer.bytes).max().unwrap_or_default();
    first
}

fn value(
    v_id: i64,
    place: &Place,
    (home, within): (Home, u64),
    border: &Border,
    fates: &HashMap<usize, Fate>,
    planned: &Planned,
    segments: &[LogicSegment],
) -> Result<ValuePlace, Error> {
    let lost = || Error::program(format!("value {v_id} lies nowhere"));
    let base = |name: &str| segments.iter().find(|segment| segment.name == name).map_or(0, |each| each.logic);
    let fate = match home {
        Home::Map(index) => fates.get(&index).copied(),
        Home::Edge(_) => border.area(home).map(Fate::Area),
        Home::Constants => None,
    };
    let (segment, area, offset, logic, on_chip) = match (home, fate) {
        (Home::Constants, _) => ("weight", None, within, base("weight") + within, false),
        (_, Some(Fate::Area(index))) => {
            let area = border.areas.get(index).ok_or_else(lost)?;
            let end = place.span().and_then(|span| within.checked_add(span));
            end.filter(|&end| end <= area.bytes).ok_or_else(lost)?;
            (area.role.name(), Some(index), within, area.logic + within, false)
        }
        (_, Some(Fate::Draft(index))) => {
            let buffer = planned.buffers.get(index as usize).ok_or_else(lost)?;
            let (offset, on_chip) = (buffer.offset + within, buffer.segment == Program::RESIDENT);
            ("ftmp", None, offset, if on_chip { offset } else { base("ftmp") + offset }, on_chip)
        }
        (_, None) => return Err(lost()),
    };
    Ok(ValuePlace {
        v_id,
        segment,
        area,
        offset,
        logic,
        bytes: place.bytes().ok_or_else(lost)? as u64,
        span: place.span().ok_or_else(lost)?,
        on_chip,
        shares: None,
        extents: place.extents.clone(),
        strides: place.strides.clone(),
    })
}

/// Notes which values lie in the memory of others, given what each lies in: the largest owns it, of equal ones the one that is
/// made first.
fn share(values: &mut [ValuePlace], owned: &[(Home, u64)]) {
    let mut owners: HashMap<Home, usize> = HashMap::new();
    for (index, (home, _)) in owned.iter().enumerate() {
        let owner = owners.entry(*home).or_insert(index);
        if values[index].span > values[*owner].span {
            *owner = index;
        }
    }
    for (index, (home, _)) in owned.iter().enumerate() {
        let owner = owners[home];
        if owner != index {
            values[index].shares = Some(values[owner].v_id);
        }
    }
}
