//! What crosses the border of a deployment: feature maps, inputs and outputs that others read or make, and the segments by
//! logical addresses.

use std::collections::{BTreeMap, HashSet};

use triune_device::{Command, DeviceSpec, SegmentKind, touches};

use super::{
    DeploymentOptions, PAGE,
    homes::{Home, Homes},
};
use crate::{Error, HardNetwork};
use triune_compiler::{Program, patch};

/// Whether operators write an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// They only read it.
    Input,
    /// They write it.
    Output,
}

impl Role {
    /// The name of the segment of all areas of the role, as [`LogicSegment::name`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }

    /// What a program does with such an area.
    pub const fn kind(self) -> SegmentKind {
        match self {
            Self::Input => SegmentKind::Input,
            Self::Output => SegmentKind::Output,
        }
    }
}

/// Memory that values from outside or for outside lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Whether operators write it.
    pub role: Role,
    /// Bytes.
    pub bytes: u64,
    /// Logical address.
    pub logic: u64,
}

/// A segment with its logical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogicSegment {
    /// `input`, `output`, `weight`, `ftmp` or `instr`.
    pub name: &'static str,
    /// First byte.
    pub logic: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What crosses the border of a deployment.
pub(super) struct Border {
    pub(super) areas: Vec<Area>,
    by_home: BTreeMap<Home, usize>,
}

impl Border {
    pub(super) fn new(
        network: &HardNetwork,
        spec: &DeviceSpec,
        chosen: &[usize],
        options: &DeploymentOptions,
        homes: &Homes,
        commands: &[Command],
    ) -> Result<Self, Error> {
        let program = &network.program;
        let inside: HashSet<usize> = chosen.iter().copied().collect();
        let steps = || chosen.iter().map(|&step| &network.steps[step]);
        let made: HashSet<i64> = steps().flat_map(|step| step.outputs.iter().copied()).collect();
        let mut wanted: HashSet<i64> = options.outputs.iter().copied().collect();
        for (index, step) in network.steps.iter().enumerate() {
            if !inside.contains(&index) {
                wanted.extend(&step.inputs);
            }
        }
        let mut written: HashSet<Home> = HashSet::new();
        let mut touched: Vec<Home> = Vec::new();
        for touch in commands.iter().flat_map(|command| touches(spec, command)) {
            let home = match touch.addr.segment() {
                Program::SCRATCH => Home::Map(patch::unpack(touch.addr).0),
                Program::INSTRUCTIONS | Program::CONSTANTS | Program::RESIDENT => continue,
                segment => Home::Edge(segment),
            };
            if matches!(home, Home::Edge(_)) {
                touched.push(home);
            }
            if touch.written {
                written.insert(home);
            }
        }
        let read = steps().flat_map(|step| &step.inputs).filter(|v_id| !made.contains(v_id));
        let given = steps().flat_map(|step| &step.outputs).filter(|v_id| wanted.contains(v_id));
        let crossing = read.map(|v_id| (v_id, false)).chain(given.map(|v_id| (v_id, true)));
        let mut roles: BTreeMap<Home, bool> = BTreeMap::new();
        for (v_id, out) in crossing {
            let home = homes[v_id].0;
            if home != Home::Constants {
                *roles.entry(home).or_default() |= out || written.contains(&home);
            }
        }
        for home in touched {
            *roles.entry(home).or_default() |= written.contains(&home);
        }
        if roles.len() > 250 {
            return Err(Error::target(format!(
                "{} inputs and outputs of the operators on the accelerator; 250 can be",
                roles.len()
            )));
        }
        let mut border = Self { areas: Vec::new(), by_home: BTreeMap::new() };
        for role in [Role::Input, Role::Output] {
            for (&home, _) in roles.iter().filter(|(_, out)| **out == (role == Role::Output)) {
                border.by_home.insert(home, border.areas.len());
                border.areas.push(Area { role, bytes: bytes(program, home), logic: 0 });
            }
        }
        Ok(border)
    }

    pub(super) fn area(&self, home: Home) -> Option<usize> {
        self.by_home.get(&home).copied()
    }

    /// The feature maps among the areas.
    pub(super) fn maps(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.by_home.iter().filter_map(|(home, &area)| match home {
            Home::Map(index) => Some((*index, area)),
            _ => None,
        })
    }

    /// Logical addresses, in the vendor's order: weights, inputs, outputs, feature maps, instructions.
    pub(super) fn lay_out(
        &mut self,
        [weights, maps, instructions]: [u64; 3],
    ) -> Result<Vec<LogicSegment>, Error> {
        let mut at = PAGE;
        let mut take = |bytes: u64| -> Result<u64, Error> {
            let first = at;
            let end = at.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE));
            at = end.ok_or_else(|| Error::target("the segments overflow 64 bits"))?;
            Ok(first)
        };
        let weight = LogicSegment { name: "weight", logic: take(weights)?, bytes: weights };
        let mut edges = Vec::new();
        for role in [Role::Input, Role::Output] {
            let logic = take(0)?;
            let mut end = logic;
            for area in self.areas.iter_mut().filter(|area| area.role == role) {
                area.logic = take(area.bytes)?;
                end = area.logic + area.bytes;
            }
            edges.push(LogicSegment { name: role.name(), logic, bytes: end - logic });
        }
        let ftmp = LogicSegment { name: "ftmp", logic: take(maps)?, bytes: maps };
        let instr = LogicSegment { name: "instr", logic: take(instructions)?, bytes: instructions };
        let [input, output] = edges[..] else {
            return Err(Error::internal("the border has two sides"));
        };
        Ok(vec![input, output, weight, ftmp, instr])
    }

    /// Logical addresses as the document of the vendor's compiler has them: one segment behind the other, constants first.
    pub(super) fn as_stated(
        &mut self,
        program: &Program,
        [weights, maps, instructions]: [u64; 3],
        first_map: u64,
    ) -> Vec<LogicSegment> {
        for (home, &area) in &self.by_home {
            if let Home::Map(index) = home {
                self.areas[area].logic = program.buffers.get(*index).map_or(0, |buffer| buffer.offset);
            }
        }
        let edge = |role: Role| {
            let own = || self.areas.iter().filter(|area| area.role == role);
            let logic = own().map(|area| area.logic).min().unwrap_or_default();
            let end = own().map(|area| area.logic + area.bytes).max().unwrap_or_default();
            LogicSegment { name: role.name(), logic, bytes: end - logic }
        };
        vec![
            edge(Role::Input),
            edge(Role::Output),
            LogicSegment { name: "weight", logic: PAGE, bytes: weights },
            LogicSegment { name: "ftmp", logic: first_map, bytes: maps },
            LogicSegment { name: "instr", logic: program.scratch_bytes, bytes: instructions },
        ]
    }
}

/// Bytes of a part of the border.
fn bytes(program: &Program, home: Home) -> u64 {
    match home {
        Home::Map(index) => program.buffers.get(index).map_or(0, |buffer| buffer.bytes),
        Home::Edge(segment) => {
            let index = usize::from(segment.saturating_sub(Program::FIRST_IO));
            let mut edges = program.inputs.iter().chain(&program.outputs);
            edges.nth(index).map_or(0, |io| io.bytes() as u64)
        }
        Home::Constants => 0,
    }
}
