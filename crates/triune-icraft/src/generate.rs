//! The accelerator's program for an integer core, and where it keeps the core's values.

use std::ops::Range;

use triune_device::{Command, DeviceSpec, command};
use triune_graph::{Graph, ValueId};

use super::{BLOCK_BYTES, accelerated::Accelerated};
use crate::Error;
use triune_compiler::{
    CompileOptions, PlanOptions, Program, border,
    lower::lower,
    partition::End,
    program,
    view::{Home, View},
};

/// A compiled core.
#[derive(Debug)]
pub(crate) struct Generated {
    pub(crate) program: Program,
    /// The program's commands, its end included.
    pub(crate) commands: Vec<Command>,
    /// Commands of each node of the core, in order.
    pub(crate) spans: Vec<Range<usize>>,
    /// Commands at the end of each stage that copy results to where the host takes them.
    pub(crate) copies: Vec<Range<usize>>,
    /// Where each value of the core lies.
    pub(crate) places: Vec<Option<Placed>>,
    /// Where the caller takes the results.
    pub(crate) outputs: Vec<Placed>,
    /// Offset and length of each piece of the constants.
    pub(crate) pieces: Vec<[u64; 2]>,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) segment: u16,
    /// The first byte's offset in the segment.
    pub(crate) offset: u64,
    /// The buffer of the program's plan that it lies in.
    pub(crate) buffer: Option<usize>,
    pub(crate) view: View,
}

impl Generated {
    pub(crate) fn new(core: &Accelerated, spec: &DeviceSpec, plan: &PlanOptions) -> Result<Self, Error> {
        let graph = &core.graph;
        let end = |&id: &ValueId| {
            let value = graph.value(id);
            let quant = core.meanings[id.0 as usize].map(|meaning| meaning.params);
            End { name: value.name.clone(), quant, dtype: value.dtype }
        };
        let [inputs, outputs] =
            [&graph.inputs, &graph.outputs].map(|ids| ids.iter().map(end).collect::<Vec<_>>());
        // What is no feature map crosses the border without padding.
        let mut edge = spec.border;
        edge.channels = 1;
        let block = Some(BLOCK_BYTES as u32);
        let mut borders = border::npu(&edge, graph, &inputs, &outputs, 1, block)?;
        borders.plan.turns = core.turns.clone();
        let lowered = lower(graph, &borders.plan, None)?;
        let (views, spans, pieces) = (lowered.views.clone(), lowered.spans.clone(), lowered.pieces.clone());
        let copies = lowered.copies.clone();
        let options = CompileOptions { batch: 1, plan: *plan, block, cascades: false };
        let (program, drafts) = program(spec, &options, lowered, borders.inputs, borders.outputs)?;
        let commands = command::decode(&program.instructions)?;
        let ranges = |spans: Vec<[u32; 2]>| -> Vec<Range<usize>> {
            spans.into_iter().map(|[first, last]| first as usize..last as usize).collect()
        };
        let (spans, copies) = (ranges(spans), ranges(copies));
        let place = |view: &View| placed(&program, graph, &drafts, view);
        let places = views.iter().map(|view| view.as_ref().and_then(place)).collect();
        let outputs: Option<Vec<Placed>> = borders.plan.outputs.iter().map(place).collect();
        let outputs = outputs.ok_or_else(|| Error::internal("a result that lies nowhere"))?;
        Ok(Self { program, commands, spans, copies, places, outputs, pieces })
    }
}

fn placed(program: &Program, graph: &Graph, drafts: &[Option<usize>], view: &View) -> Option<Placed> {
    let first = u32::from(Program::FIRST_IO);
    let (segment, base, buffer) = match view.home {
        Home::Constants => (Program::CONSTANTS, 0, None),
        Home::Scratch(index) => {
            let buffer = (*drafts.get(index as usize)?)?;
            let planned = program.buffers.get(buffer)?;
            (planned.segment, planned.offset, Some(buffer))
        }
        Home::Input(index) => (u16::try_from(first + index).ok()?, 0, None),
        Home::Output(index) => (u16::try_from(first + graph.inputs.len() as u32 + index).ok()?, 0, None),
        // The host alone has tables.
        Home::Table(_) => return None,
    };
    Some(Placed { segment, offset: base + view.offset, buffer, view: *view })
}
