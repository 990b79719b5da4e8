//! What a session's plan does on the host, for people and their tools: operators, their commands, where results lie, strips.

use std::borrow::Cow;

use triune_compiler::{OutlineValue, PlannedBuffer, Skeleton};
use triune_device::exec::{StepForm, StripForm};
use triune_graph::{Graph, NodeId};
use triune_kernels::{ConvMethod, Isa};
use triune_tensor::Shape;

use crate::{Error, MapPlace, Program, Session, engine::Engine, host::HostProgram};

/// What a session does for some shapes of its inputs, where all of it runs on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPlan {
    /// The instruction set that its kernels use at most.
    pub isa: &'static str,
    /// Threads that a run uses, the caller's included.
    pub threads: usize,
    /// Bytes of the memory that its programs share: feature maps, and room for inputs and outputs that cannot be used where they are.
    pub workspace_bytes: u64,
    /// Bytes of the model's weights, as the model has them.
    pub weight_bytes: usize,
    /// Bytes of their packed forms, which the model's sessions share.
    pub packed_bytes: usize,
    /// Bytes of large constants that commands read as they are.
    pub table_bytes: u64,
    /// One program; of a model with extents that depend on data, each stage as far as it is compiled, as it was used last.
    pub parts: Vec<PartPlan>,
}

/// A program, and what the host runs behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartPlan {
    /// Bytes of the feature maps, where each has its place.
    pub map_bytes: u64,
    /// What no plan can do without.
    pub lower_bound: u64,
    /// Names of what it gives: the model's outputs, or a stage's.
    pub outputs: Vec<String>,
    /// Bytes of inputs and outputs.
    pub border_bytes: u64,
    /// Bytes of biases, factors, tables and the like.
    pub constant_bytes: u64,
    /// Bytes that its kernels work in beside the feature maps, all threads together.
    pub scratch_bytes: usize,
    /// The operators, fused, in execution order.
    pub operators: Vec<PlannedOperator>,
    /// The feature maps, by offset in the workspace.
    pub maps: Vec<MapPlace>,
    /// The commands that run strip by strip.
    pub strips: Vec<StripForm>,
    /// Names and kinds of the operators that are no commands: the host runs them behind the program.
    pub hosted: Vec<(String, &'static str)>,
}

/// An operator of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedOperator {
    /// The node's name.
    pub name: String,
    /// Its operator.
    pub kind: Cow<'static, str>,
    /// Names and kinds of the model's operators that it is made of, see [`Skeleton::made_of`].
    pub made_of: Vec<(String, &'static str)>,
    /// Name and kind of the composite operator of the model that it is a part of, if it is.
    pub part_of: Option<(String, String)>,
    /// Names of its operands, constants left out.
    pub inputs: Vec<String>,
    /// Its results.
    pub outputs: Vec<OutlineValue>,
    /// Its commands; none of an operator that only changes how its operand is seen.
    pub commands: Vec<PlannedCommand>,
}

/// A command of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCommand {
    /// Its name in listings.
    pub mnemonic: &'static str,
    /// How a convolution is computed.
    pub method: Option<ConvMethod>,
    /// Where its output lies.
    pub place: Placement,
    /// Bytes from the output's first element to its last.
    pub bytes: u64,
}

/// Where what a command writes lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the workspace, at this offset.
    Workspace(u64),
    /// In an output, by its number: where the caller has it, or where that cannot be written, in the workspace.
    Output(usize),
    /// In the scratch of the thread that computes a strip, for as long as that takes.
    Strip,
}

impl Session {
    /// What the session does for inputs of these shapes.
    ///
    /// # Errors
    /// As [`Session::prepare`]; [`CompileError::Argument`](crate::CompileError::Argument) if a part of the model runs on a device.
    pub fn plan(&mut self, shapes: &[Shape]) -> Result<SessionPlan, Error> {
        self.prepare(shapes)?;
        let (threads, model) = (self.threads(), self.model());
        let parts = self.host_parts().map(|(engine, hosted)| {
            let mut part = match engine {
                Some(Engine::Host { program, skeleton, .. }) => {
                    PartPlan::of(program, skeleton, &model.graph, threads)
                }
                Some(Engine::Split(_)) => {
                    return Err(Error::argument("a part of the model runs on a device"));
                }
                None => PartPlan::default(),
            };
            part.hosted = hosted;
            Ok(part)
        });
        Ok(SessionPlan {
            isa: Isa::best().name(),
            threads,
            workspace_bytes: self.workspace().bytes(),
            weight_bytes: model.library().bytes(),
            packed_bytes: model.library().packed_bytes(),
            table_bytes: self.workspace().table_bytes(),
            parts: parts.collect::<Result<_, _>>()?,
        })
    }
}

impl PartPlan {
    fn of(own: &HostProgram, skeleton: &Skeleton, model: &Graph, threads: usize) -> Self {
        let (program, decoded) = (own.program(), own.decoded());
        let strips: Vec<StripForm> = decoded.chains().collect();
        let mut commands: Vec<PlannedCommand> = decoded.steps().map(|step| command(program, step)).collect();
        for strip in &strips {
            for (command, _) in
                commands[strip.commands.clone()].iter_mut().zip(&strip.passing).filter(|each| *each.1)
            {
                command.place = Placement::Strip;
            }
        }
        let map = |map: &PlannedBuffer| MapPlace {
            offset: map.offset,
            bytes: map.bytes,
            first: map.first,
            last: map.last,
        };
        Self {
            map_bytes: program.scratch_bytes,
            lower_bound: program.scratch_lower_bound,
            outputs: program.outputs.iter().map(|io| io.name.clone()).collect(),
            border_bytes: program.border().map(|(_, io)| io.bytes() as u64).sum(),
            constant_bytes: own.constant_bytes(),
            scratch_bytes: decoded.scratch_bytes(threads),
            operators: operators(program, &commands, skeleton, model),
            maps: program.buffers.iter().map(map).collect(),
            strips,
            hosted: Vec::new(),
        }
    }
}

fn command(program: &Program, step: StepForm) -> PlannedCommand {
    let outputs = usize::from(Program::FIRST_IO) + program.inputs.len();
    let place = match usize::from(step.segment).checked_sub(outputs) {
        Some(number) => Placement::Output(number),
        None => Placement::Workspace(step.start),
    };
    PlannedCommand { mnemonic: step.opcode.mnemonic(), method: step.method, place, bytes: step.len }
}

/// The outline's operators, with the commands of those that have any.
fn operators(
    program: &Program,
    commands: &[PlannedCommand],
    skeleton: &Skeleton,
    model: &Graph,
) -> Vec<PlannedOperator> {
    let outline = skeleton.outline();
    let named = |id: NodeId| {
        let node = &model.nodes[id.0 as usize];
        (node.name.clone(), node.op.name())
    };
    let mut own = program.operators.iter().peekable();
    let mut planned: Vec<PlannedOperator> = Vec::with_capacity(outline.nodes.len());
    for (node, made_of) in outline.nodes.into_iter().zip(skeleton.made_of(model)) {
        let with_commands = own.next_if(|operator| operator.is_of(&node.name, node.kind));
        let inputs = node.inputs.iter().map(|&input| &outline.values[input]).filter(|value| !value.constant);
        planned.push(PlannedOperator {
            name: node.name,
            kind: node.kind.into(),
            made_of: made_of.into_iter().map(named).collect(),
            part_of: with_commands
                .and_then(|operator| operator.origin.as_ref())
                .map(|origin| (origin.node.clone(), origin.op.clone())),
            inputs: inputs.map(|value| value.name.clone()).collect(),
            outputs: node.outputs.iter().map(|&output| outline.values[output].clone()).collect(),
            commands: with_commands.map_or_else(Vec::new, |operator| {
                commands[operator.first as usize..operator.last as usize].to_vec()
            }),
        });
    }
    // Copies to outputs, which are no operators of the model.
    planned.extend(own.map(|operator| PlannedOperator {
        name: operator.name.clone(),
        kind: operator.kind.clone(),
        made_of: Vec::new(),
        part_of: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
        commands: commands[operator.first as usize..operator.last as usize].to_vec(),
    }));
    planned
}
