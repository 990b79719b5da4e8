//! What runs a graph whose extents are fixed: a program on the host, or a core on a device between parts on the host.

use std::{collections::HashSet, sync::Arc, time::Instant};

use triune_compiler::{PlanOptions, Skeleton, compile_host, compile_room, partition::without_operators};
use triune_device::{DeviceSpec, Inputs, Outputs, Scratch, exec::StepView};
use triune_graph::{Graph, NodeId, Strings, passes};
use triune_kernels::Pool;
use triune_memory::Limits;
use triune_tensor::text::Name;

use crate::{
    Deployment, Error, Model, OperatorTime, Outline, Program, TensorIo, Workspace, host::HostProgram,
    split::Split,
};

/// What the engines of a session have in common.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) model: Arc<Model>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) pool: Pool,
    pub(crate) fusion: bool,
    pub(crate) device: Option<DeviceSpec>,
    pub(crate) scratch: Scratch,
    /// The model's strings, and behind them those of the run.
    pub(crate) strings: Strings,
    /// Whether runs take the time of every operator.
    pub(crate) profiled: bool,
    /// Programs that were planned.
    pub(crate) planned: u32,
    /// How often networks within networks may still run in this run.
    pub(crate) rounds_left: u64,
}

/// Programs of a session whose memory is planned as low as a search finds; for later ones the first placement does.
const SEARCHED: u32 = 16;

/// A graph of fixed extents, ready to run: a program on the host, or one on a device with the parts before, between and behind it.
#[derive(Debug)]
pub(crate) enum Engine {
    Host {
        program: Box<HostProgram>,
        skeleton: Box<Skeleton>,
        /// Nanoseconds of each command of the last run, if it was profiled.
        times: Vec<u64>,
    },
    Split(Box<Split>),
}

/// Tells whoever listens what was planned, and since when.
fn log_plan(program: &Program, start: Instant) {
    log::debug!(
        target: "triune::session",
        "planned for {} on {} in {:.1} ms: {} commands, {} bytes of feature maps",
        program.inputs.iter().map(|io| format!("{} {}", Name(&io.name), io.shape)).collect::<Vec<_>>().join(", "),
        program.target,
        start.elapsed().as_secs_f64() * 1e3,
        program.operators.last().map_or(0, |operator| operator.last),
        program.scratch_bytes + program.resident_bytes()
    );
}

impl Engine {
    /// For a graph whose inputs are bound. With a device, a graph without operators for it is an error, unless it is only
    /// `part` of a model: that runs on the host.
    pub(crate) fn new(graph: Graph, resources: &mut Resources, part: bool) -> Result<Self, Error> {
        let (threads, start) = (resources.pool.threads(), Instant::now());
        let _room = compile_room(&graph)?;
        if let Some(device) = &resources.device {
            match Split::new(graph.clone(), device, threads)? {
                Some(split) => {
                    log_plan(split.deployment().program(), start);
                    return Ok(Self::Split(Box::new(split)));
                }
                None if part => {}
                None => {
                    let mut graph = graph;
                    passes::prepare(&mut graph)?;
                    let kept: HashSet<NodeId> = HashSet::new();
                    return Err(without_operators(
                        &graph,
                        &kept,
                        device.int16,
                        "the device computes on 8-bit ones; buyi computes on both",
                    )
                    .into());
                }
            }
        }
        let (workspace, library) = (&resources.workspace, &resources.model.library);
        // One whose extents are new at each run, as those of a growing cache are, is to run, not to be planned as low as can be.
        let usual = PlanOptions::default().search;
        let search = if resources.planned < SEARCHED { usual } else { Limits::placements(0) };
        resources.planned = resources.planned.saturating_add(1);
        let (program, skeleton) =
            compile_host(graph, workspace.spec(), resources.fusion, Some(library), search)?;
        let program = HostProgram::new(workspace, program, library)?;
        program.reserve(&mut resources.scratch, threads)?;
        log_plan(program.program(), start);
        Ok(Self::Host { program: Box::new(program), skeleton: Box::new(skeleton), times: Vec::new() })
    }

    /// About the bytes that it takes, its weights apart, which others have as well; as good as all for one on a device.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Host { program, skeleton, .. } => skeleton.footprint().saturating_add(program.bytes()),
            Self::Split(_) => u64::MAX,
        }
    }

    /// The graph's outputs.
    pub(crate) fn outputs(&self) -> &[TensorIo] {
        match self {
            Self::Host { program, .. } => &program.program().outputs,
            Self::Split(split) => split.outputs(),
        }
    }

    /// The program, or that of the core.
    pub(crate) fn program(&self) -> &Program {
        match self {
            Self::Host { program, .. } => program.program(),
            Self::Split(split) => split.deployment().program(),
        }
    }

    /// The operators.
    pub(crate) fn outline(&self) -> Outline {
        match self {
            Self::Host { skeleton, .. } => skeleton.outline(),
            Self::Split(split) => split.outline().clone(),
        }
    }

    /// The core, if there is a device.
    pub(crate) fn deployment(&self) -> Option<&Deployment> {
        match self {
            Self::Host { .. } => None,
            Self::Split(split) => Some(split.deployment()),
        }
    }

    /// Runs once.
    pub(crate) fn run(
        &mut self,
        resources: &mut Resources,
        inputs: &dyn Inputs,
        outputs: &mut dyn Outputs,
    ) -> Result<(), Error> {
        let (program, times) = match self {
            Self::Host { program, times, .. } => (program, times),
            Self::Split(split) => return split.run(inputs, outputs, resources.profiled),
        };
        let (scratch, pool) = (&mut resources.scratch, &resources.pool);
        times.clear();
        if !resources.profiled {
            return program.run(inputs, outputs, scratch, pool, None);
        }
        let mut last = Instant::now();
        let mut observer = |_: StepView<'_>| {
            let now = Instant::now();
            times.push((now - last).as_nanos() as u64);
            last = now;
        };
        program.run(inputs, outputs, scratch, pool, Some(&mut observer))
    }

    /// Times of the last run, if it was profiled.
    pub(crate) fn operator_times(&self) -> Vec<OperatorTime> {
        let (program, times) = match self {
            Self::Host { program, times, .. } => (program.program(), times),
            Self::Split(split) => return split.operator_times(),
        };
        let time = |operator: &crate::Operator| {
            let commands = times.get(operator.first as usize..operator.last as usize)?;
            let nanos = commands.iter().sum();
            Some(OperatorTime {
                name: operator.name.clone(),
                kind: operator.kind.clone().into_owned(),
                nanos,
            })
        };
        program.operators.iter().filter_map(time).collect()
    }
}
