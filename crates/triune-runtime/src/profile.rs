//! What a run of a program costs on a device: its timeline, summed up by the model's operators, and where its segments lie.

use std::{collections::HashMap, sync::Arc};

use triune_device::{
    Command, DeviceSpec, Timeline, command,
    spec::MemorySpec,
    timing::{self, BoundBy, CommandTime, Energy, MemoryBytes, SramAccesses, TileTime, Tiling},
    touches,
};

use crate::{Deployment, Error, Place, Program};

/// The modelled cost of one run.
#[derive(Clone, Debug)]
pub struct Profile {
    spec: DeviceSpec,
    program: Arc<Program>,
    timeline: Timeline,
    places: Vec<Place>,
    /// The timeline's commands of each operator.
    operators: Vec<Vec<CommandTime>>,
}

/// One operator of the model, and its commands in the order in which they begin.
#[derive(Clone, Copy, Debug)]
pub struct OperatorCost<'a> {
    /// The node's name; empty for commands of no node.
    pub name: &'a str,
    /// The node's operator.
    pub kind: &'a str,
    /// Its commands.
    pub commands: &'a [CommandTime],
}

/// The sums over some commands. Times are cycles.
#[derive(Clone, Debug)]
pub struct Cost<'a> {
    /// When the first command begins, and the last one ends.
    pub span: [u64; 2],
    /// Of the array or the vector unit.
    pub compute: u64,
    /// Of loads.
    pub load: u64,
    /// Of stores.
    pub store: u64,
    /// In which the core waits.
    pub stall: u64,
    /// Of those, for loads.
    pub load_stall: u64,
    /// What starting the commands takes.
    pub launch: u64,
    /// Of an array that always works.
    pub ideal: u64,
    /// In which the core works for these commands alone: computes, waits, starts them.
    pub occupied: u64,
    /// Elements that the array's buffers give and take.
    pub sram: SramAccesses,
    /// What takes longest.
    pub bound_by: BoundBy,
    /// The memory whose port is busy longest with it, if it is loads or stores.
    pub bound_memory: Option<&'a str>,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Bytes that are read and were read before.
    pub reread: u64,
    /// Most bytes of one command in the buffers at once.
    pub buffered: u64,
    /// Tiles of all commands together.
    pub tiles: u64,
    /// How the command that takes longest is cut.
    pub tiling: Tiling,
    /// Bytes read from each memory of the device.
    pub read: Vec<u64>,
    /// Bytes written to each.
    pub written: Vec<u64>,
    /// What they cost in energy, if the device's description says.
    pub energy: Option<Energy>,
}

impl Cost<'_> {
    /// Cycles from the first command's start to the last one's end.
    pub fn cycles(&self) -> u64 {
        self.span[1] - self.span[0]
    }

    /// What an array that always works would take over what the commands do, 0 to 1.
    pub fn utilization(&self) -> f64 {
        ratio(self.ideal, self.occupied)
    }

    /// The same while it computes: how well the shapes fit the array.
    pub fn array_utilization(&self) -> f64 {
        ratio(self.ideal, self.compute)
    }
}

impl Profile {
    /// The cost of a program whose segments lie at `places`.
    pub fn new(spec: DeviceSpec, program: Arc<Program>, timeline: Timeline, places: Vec<Place>) -> Self {
        let mut operators: Vec<Vec<CommandTime>> = Vec::with_capacity(program.operators.len());
        // Bands of cascades take turns. Commands of no operator belong together where nothing is between them.
        let mut found: HashMap<(&str, &str), usize> = HashMap::new();
        let mut last = None;
        for command in &timeline.commands {
            let own = named(&program, command);
            let at = if own.0.is_empty() && last != Some(own) { None } else { found.get(&own).copied() };
            if let Some(at) = at {
                operators[at].push(*command);
            } else {
                found.insert(own, operators.len());
                operators.push(vec![*command]);
            }
            last = Some(own);
        }
        Self { spec, program, timeline, places, operators }
    }

    /// The cost of a deployed program.
    pub fn of(deployment: &Deployment) -> Self {
        Self::new(
            deployment.device().spec().clone(),
            Arc::clone(deployment.program()),
            deployment.timeline().clone(),
            deployment.places().to_vec(),
        )
    }

    /// The device.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The timeline, command by command.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Where the segments of the first image lie.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The operators in the order in which they begin, each with all of its commands: those of other operators come between where they
    /// run band by band.
    pub fn operators(&self) -> impl Iterator<Item = OperatorCost<'_>> {
        self.operators.iter().map(|commands| {
            let (name, kind) = named(&self.program, &commands[0]);
            OperatorCost { name, kind, commands }
        })
    }

    /// The memory that the description places constants in, and the bytes of it that are the program's: what its images are of the
    /// cores that share it. More of them stream from the memory that the host reaches.
    pub fn constants_share(&self) -> (&str, u64) {
        let name = &*self.spec.placement.constants;
        let memory = self.spec.memory.iter().find(|memory| memory.name == name);
        (name, memory.map_or(0, |memory| self.spec.own_bytes(memory, self.program.batch, None)))
    }

    /// Name and kind of the operator that a command belongs to; empty if it belongs to none.
    pub fn operator_of(&self, command: &CommandTime) -> (&str, &str) {
        named(&self.program, command)
    }

    /// The whole run: from the launch to the last store, launch included.
    pub fn total(&self) -> Cost<'_> {
        let cycles = self.timeline.total_cycles;
        let energy = self.spec.energy_of_all(&self.timeline);
        Cost { span: [0, cycles], occupied: cycles, energy, ..self.cost(&self.timeline.commands) }
    }

    /// When each tile of each command is in each queue.
    ///
    /// # Errors
    /// [`Error::Device`](triune_compiler::Error::Device) if the program's commands are none.
    pub fn tiles(&self) -> Result<Vec<Vec<TileTime>>, Error> {
        let commands = command::decode(&self.program.instructions)?;
        let placement: Vec<&str> = self.places.iter().map(|place| &*place.memory).collect();
        Ok(timing::tiles(&self.spec, commands, &placement, &self.timeline)?)
    }

    /// The feature maps (indices of the program's buffers) that each command reads, and those that it writes.
    ///
    /// # Errors
    /// [`Error::Device`](triune_compiler::Error::Device) if the program's commands are none.
    pub fn feature_maps(&self) -> Result<Vec<[Vec<usize>; 2]>, Error> {
        let commands = command::decode(&self.program.instructions)?;
        let buffers = &self.program.buffers;
        let own = |(index, command): (usize, &Command)| {
            let mut sides = [Vec::new(), Vec::new()];
            for touch in touches(&self.spec, command) {
                let (segment, offset) = (touch.addr.segment(), touch.addr.offset());
                let found = buffers.iter().position(|buffer| {
                    buffer.segment == segment
                        && (buffer.first as usize..buffer.last as usize).contains(&index)
                        && (buffer.offset..buffer.offset + buffer.bytes).contains(&offset)
                });
                let side = &mut sides[usize::from(touch.written)];
                side.extend(found.filter(|at| !side.contains(at)));
            }
            sides
        };
        Ok(commands.iter().enumerate().map(own).collect())
    }

    /// Some commands together.
    pub fn cost(&self, commands: &[CommandTime]) -> Cost<'_> {
        let sum = |field: fn(&CommandTime) -> u64| commands.iter().map(field).sum::<u64>();
        let each = |field: fn(&CommandTime) -> &MemoryBytes| -> Vec<u64> {
            (0..self.spec.memory.len()).map(|at| commands.iter().map(|c| field(c)[at]).sum()).collect()
        };
        let bound_by = BoundBy::of(commands);
        Cost {
            span: [
                commands.iter().map(|c| c.start).min().unwrap_or(0),
                commands.iter().map(|c| c.end).max().unwrap_or(0),
            ],
            compute: sum(|c| c.compute),
            load: sum(|c| c.load),
            store: sum(|c| c.store),
            stall: sum(|c| c.stall),
            load_stall: sum(|c| c.load_stall),
            launch: sum(|c| c.launch),
            ideal: sum(|c| c.ideal),
            occupied: sum(CommandTime::occupied),
            sram: SramAccesses {
                ifmap: sum(|c| c.sram.ifmap),
                filter: sum(|c| c.sram.filter),
                ofmap: sum(|c| c.sram.ofmap),
            },
            bound_by,
            bound_memory: self.bounding_memory(bound_by, commands),
            macs: sum(|c| c.macs),
            reread: sum(CommandTime::reread),
            buffered: commands.iter().map(|c| c.buffered).max().unwrap_or(0),
            tiles: sum(|c| c.tiling.tiles()),
            tiling: commands.iter().max_by_key(|c| c.occupied()).map_or_else(Tiling::default, |c| c.tiling),
            read: each(|c| &c.bytes_read),
            written: each(|c| &c.bytes_written),
            energy: self.spec.energy_of(&self.timeline, commands),
        }
    }

    /// The memory whose port the commands' loads or stores keep busy longest, if that is what bounds them.
    fn bounding_memory(&self, bound: BoundBy, commands: &[CommandTime]) -> Option<&str> {
        let bytes = |command: &CommandTime, memory: usize| match bound {
            BoundBy::Load => command.bytes_read[memory],
            BoundBy::Store => command.bytes_written[memory],
            BoundBy::Compute | BoundBy::Launch => 0,
        };
        let busy = |(at, memory): (usize, &MemorySpec)| {
            let moved: u64 = commands.iter().map(|command| bytes(command, at)).sum();
            moved as f64 / memory.bytes_per_cycle_at(self.timeline.clock_mhz)
        };
        let ports = self.spec.memory.iter().enumerate().map(|each| (each.1, busy(each)));
        let longest = ports.filter(|(_, busy)| *busy > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        longest.map(|(memory, _)| &*memory.name)
    }
}

fn named<'p>(program: &'p Program, command: &CommandTime) -> (&'p str, &'p str) {
    program.operator_of(command.index).map_or(("", ""), |operator| (&*operator.name, &*operator.kind))
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
