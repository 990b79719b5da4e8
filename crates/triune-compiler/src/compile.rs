//! Compilation: a model and a device description give a program, or a package with what the host must do besides.

use std::time::Duration;

use triune_device::{DeviceSpec, Library, command::CommandBuffer};
use triune_graph::{Graph, ValueId, ValueKind, infer, passes};
use triune_memory::Limits;
use triune_tensor::{OutOfMemory, QuantParams, Requantize, memory::Room};

use crate::{
    Error, PlanOptions, Program, Report, Residency, Skeleton, TensorIo, border, cascade,
    lower::{InputPlan, IoPlan, Lowered, lower},
    partition::{Core, End, Turns, partition},
    plan::{self, Besides},
    tail::Split,
    together::taken_together,
    view::{Home, View},
};

/// How to compile.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Images per run, each on a core of its own.
    pub batch: usize,
    /// Where feature maps lie.
    pub plan: PlanOptions,
    /// Bytes of a block, for programs whose quantized feature maps lie as (N, blocks of channels, H, W, channels of a block)
    /// in memory, and whose weights lie in blocks as well; `None`: as (N, H, W, C). Results are the same.
    pub block: Option<u32>,
    /// Whether consecutive commands run band of rows by band of rows, where the near memory does not keep what is between them and that
    /// takes less time. Results are the same.
    pub cascades: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self { batch: 1, plan: PlanOptions::default(), block: None, cascades: false }
    }
}

/// A program for an NPU, with the parts of the model that stay on the host.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What the device runs.
    pub program: Program,
    /// ONNX file of the nodes before the integer core, if there are any.
    pub preprocess: Option<Vec<u8>>,
    /// ONNX files of the nodes between the integer core's stages: one for each time that the program waits.
    pub between: Vec<Vec<u8>>,
    /// ONNX file of the nodes behind the integer core, if there are any.
    pub postprocess: Option<Vec<u8>>,
    /// What compilation found and chose, for people.
    pub summary: Summary,
    /// What runs where, and why.
    pub report: Report,
}

/// What compilation found and chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes of the prepared model that the device runs.
    pub device_nodes: usize,
    /// Nodes before the integer core.
    pub preprocess_nodes: usize,
    /// Nodes between the integer core's stages.
    pub between_nodes: usize,
    /// Nodes behind the integer core.
    pub postprocess_nodes: usize,
    /// Commands of one image.
    pub commands: usize,
    /// Of those, what running in bands takes more than running as a whole would.
    pub banded: usize,
    /// Bytes of weights, parameters and tables.
    pub constant_bytes: u64,
    /// Bytes of feature maps in the far memory, and what no plan of those can do without.
    pub scratch_bytes: [u64; 2],
    /// What stays in the near memory; `None` when the device has no such memory.
    pub residency: Option<Residency>,
    /// How long compilation took.
    pub elapsed: Duration,
}

/// Compiles the integer core of a quantized model for an NPU.
///
/// A symbolic batch is bound to 1: a batch of N runs N images side by side, each on its own core. What comes behind extents that
/// depend on data ends the host's last part.
pub fn compile(model: &Graph, spec: &DeviceSpec, options: &CompileOptions) -> Result<Compiled, Error> {
    expect_numbers(model)?;
    let mut compiled = compile_open(model, spec, options)?;
    compiled.report.together = taken_together(model);
    Ok(compiled)
}

/// Compiles a model whose extents may depend on data.
fn compile_open(model: &Graph, spec: &DeviceSpec, options: &CompileOptions) -> Result<Compiled, Error> {
    let Some(split) = Split::of(model)? else { return compile_static(model, spec, options) };
    // Extents may be known all the same.
    let mut whole = bind_batch(model, 1)?;
    if passes::fold_constants(&mut whole).is_ok() && infer::infer(&mut whole).is_ok() {
        return compile_static(model, spec, options);
    }
    drop(whole);
    let mut compiled = compile_static(&split.head, spec, options)?;
    compiled.postprocess = Some(split.behind(compiled.postprocess, spec)?);
    compiled.summary.postprocess_nodes += split.nodes();
    compiled.report.host.operators += split.nodes();
    compiled.report.stayed.extend(split.stayed());
    Ok(compiled)
}

/// Refuses strings and maps that come in. Those that the host makes of what the device gave go out.
fn expect_numbers(model: &Graph) -> Result<(), Error> {
    let inputs = model.inputs.iter().map(|&id| model.value(id));
    let Some(input) =
        inputs.into_iter().find(|input| input.kind == ValueKind::Strings || input.kind.is_map())
    else {
        return Ok(());
    };
    let (name, kind) = (&input.name, input.kind.name());
    Err(Error::Target(format!(
        "input '{name}' is of kind '{kind}', and packages take tensors of numbers; compile what follows the operators that look \
         its elements up, and run those in a session before it"
    )))
}

/// Compiles a model whose extents are all known.
fn compile_static(model: &Graph, spec: &DeviceSpec, options: &CompileOptions) -> Result<Compiled, Error> {
    let start = std::time::Instant::now();
    if options.batch == 0 || options.batch > spec.cores as usize {
        return Err(Error::Argument(format!(
            "a batch of {} on a device of {} cores: each image needs one",
            options.batch, spec.cores
        )));
    }
    // Once for the image, once for the host's parts.
    let _rooms = [compile_room(model)?, compile_room(model)?];
    let mut image = bind_batch(model, 1)?;
    adapt(&mut image, spec);
    // The host's parts see the whole batch.
    let mut host = bind_batch(model, options.batch)?;
    adapt(&mut host, spec);
    // Arithmetic on shapes would tie the part behind the core to the model's inputs.
    passes::fold_constants(&mut host)?;
    infer::infer(&mut host)?;
    let Core { graph, turns, preprocess, between, postprocess, inputs, outputs, beside, nodes, report } =
        partition(&image, &host)?;
    let fixed = model.inputs.iter().any(|&id| model.value(id).fixed_shape().is_some());
    let around = preprocess.is_some() || !between.is_empty() || postprocess.is_some();
    if options.batch > 1 && fixed && around {
        return Err(Error::Argument(format!(
            "a batch of {} of a model whose batch is fixed, of which parts stay on the host: export it with an open batch",
            options.batch
        )));
    }
    if options.block == Some(0) {
        return Err(Error::Argument("blocks of 0 bytes".into()));
    }
    let mut borders = border::npu(&spec.border, &graph, &inputs, &outputs, options.batch, options.block)?;
    borders.plan.turns = turns;
    let lowered = lower(&graph, &borders.plan, None)?;
    let whole = lowered.commands.len();
    let (mut program, _) = program(spec, options, lowered, borders.inputs, borders.outputs)?;
    program.beside = beside;
    let commands = CommandBuffer::read(&program.instructions)?.len();
    let summary = Summary {
        device_nodes: nodes[1],
        preprocess_nodes: nodes[0],
        between_nodes: nodes[2],
        postprocess_nodes: nodes[3],
        commands,
        banded: commands.saturating_sub(whole),
        constant_bytes: program.constants.len() as u64,
        scratch_bytes: [program.scratch_bytes, program.scratch_lower_bound],
        residency: program.residency,
        elapsed: start.elapsed(),
    };
    Ok(Compiled { program, preprocess, between, postprocess, summary, report })
}

/// Room for all that is made of a graph while it is compiled, what its constants' elements become apart.
pub fn compile_room(graph: &Graph) -> Result<Room, OutOfMemory> {
    /// Copies of the graph that the passes' tables, the commands, the plan and the names in a program are worth.
    const COPIES: u64 = 8;
    Room::of(graph.footprint().saturating_mul(COPIES))
}

/// Compiles a whole bound graph for the host: borders are row-major without padding.
/// Weights stay in the model's library, if there is one. What the graph's outline is drawn of comes with the program.
/// `search` is how long to look for a lower peak of its memory.
pub fn compile_host(
    mut graph: Graph,
    spec: &DeviceSpec,
    fusion: bool,
    library: Option<&Library>,
    search: Limits,
) -> Result<(Program, Skeleton), Error> {
    if fusion {
        passes::prepare_for_rows(&mut graph)?;
    } else {
        passes::prepare_unfused(&mut graph)?;
    }
    let meanings = graph.meanings();
    let border = |id, home| -> Result<(TensorIo, View), Error> {
        let io = host_io(&graph, &meanings, id)?;
        let view = View::dense(home, io.dtype, io.shape);
        Ok((io, view))
    };
    let (mut plan, mut inputs, mut outputs) = (IoPlan::default(), Vec::new(), Vec::new());
    for (index, &id) in graph.inputs.iter().enumerate() {
        let (io, view) = border(id, Home::Input(index as u32))?;
        plan.inputs.push(InputPlan { view, bordered: None });
        inputs.push(io);
    }
    for (index, &id) in graph.outputs.iter().enumerate() {
        let (io, view) = border(id, Home::Output(index as u32))?;
        plan.outputs.push(view);
        outputs.push(io);
    }
    let lowered = lower(&graph, &plan, library)?;
    let skeleton = Skeleton::of(graph);
    let usual = CompileOptions::default();
    let options = CompileOptions { plan: PlanOptions { search, ..usual.plan }, ..usual };
    let (program, _) = program(spec, &options, lowered, inputs, outputs)?;
    Ok((program, skeleton))
}

/// A value at the border of a host program: row-major without padding. `meanings` are the graph's.
pub fn host_io(graph: &Graph, meanings: &[Option<QuantParams>], id: ValueId) -> Result<TensorIo, Error> {
    let value = graph.value(id);
    let (Some(shape), Some(dtype)) = (value.fixed_shape(), value.dtype) else {
        return Err(Error::Internal(format!("the shape of '{}' is not known", value.name)));
    };
    let quant = meanings[id.0 as usize];
    Ok(TensorIo {
        name: value.name.clone(),
        dtype,
        shape,
        padding: vec![(0, 0); shape.rank()],
        scale: quant.map_or(1.0, |quant| quant.scale),
        zero_point: quant.map_or(0, |quant| quant.zero_point),
        block: None,
        model_shape: shape,
        model_dtype: dtype,
    })
}

/// Makes the graph's arithmetic the device's, where that has one of its own.
pub fn adapt(graph: &mut Graph, spec: &DeviceSpec) {
    if spec.requantize == Requantize::Fixed {
        graph.requantize = Requantize::Fixed;
    }
}

/// Compiles an integer core, whose arithmetic is the device's already, for one core of a device that takes turns with the host.
pub fn compile_core(graph: &Graph, turns: Turns, spec: &DeviceSpec) -> Result<Program, Error> {
    let [inputs, outputs] = [&graph.inputs, &graph.outputs].map(|ids| End::of(graph, ids));
    let mut borders = border::npu(&spec.border, graph, &inputs, &outputs, 1, None)?;
    borders.plan.turns = turns;
    let lowered = lower(graph, &borders.plan, None)?;
    Ok(program(spec, &CompileOptions::default(), lowered, borders.inputs, borders.outputs)?.0)
}

/// The model with every input fixed, a symbolic first extent being `batch`.
pub fn bind_batch(model: &Graph, batch: usize) -> Result<Graph, Error> {
    let mut bound = model.clone();
    let mut shapes: Vec<(String, Vec<usize>)> = Vec::new();
    for &id in &model.inputs {
        let value = model.value(id);
        let dims = value.shape.as_ref().ok_or_else(|| {
            Error::Target(format!("input '{}' has no shape; only its batch may be left open", value.name))
        })?;
        let mut shape = Vec::with_capacity(dims.len());
        for (axis, dim) in dims.iter().enumerate() {
            match dim {
                triune_graph::Dim::Fixed(extent) => shape.push(*extent),
                triune_graph::Dim::Symbol(_) if axis == 0 => shape.push(batch),
                triune_graph::Dim::Symbol(symbol) => {
                    return Err(Error::Target(format!(
                        "input '{}': extent '{symbol}' of axis {axis} is open; only the batch may be",
                        value.name
                    )));
                }
            }
        }
        shapes.push((value.name.clone(), shape));
    }
    let shapes: Vec<(&str, &[usize])> = shapes.iter().map(|(name, shape)| (&**name, &**shape)).collect();
    bound.bind(&shapes)?;
    Ok(bound)
}

/// Plans the memory of what was lowered; also gives the buffer of each feature map.
pub fn program(
    spec: &DeviceSpec,
    options: &CompileOptions,
    lowered: Lowered,
    inputs: Vec<TensorIo>,
    outputs: Vec<TensorIo>,
) -> Result<(Program, Vec<Option<usize>>), Error> {
    let Lowered { mut commands, mut operators, constants, drafts, results, mut waits, views, tables, .. } =
        lowered;
    drop(views);
    let batch = options.batch;
    let besides = Besides {
        batch,
        cores: batch,
        constants: constants.len() as u64,
        inputs: &inputs,
        outputs: &outputs,
    };
    let before = options.cascades.then(|| commands.clone());
    let mut planned = plan::place(spec, &options.plan, &besides, &mut commands, &drafts)?;
    if let Some(before) = before {
        let whole = cascade::Unplanned { commands: before, drafts, operators, waits };
        if let Some((bands, plan)) =
            cascade::faster(spec, &options.plan, &besides, &whole, &commands, &planned)?
        {
            (commands, planned) = plan;
            (operators, waits) = (bands.operators, bands.waits);
        } else {
            (operators, waits) = (whole.operators, whole.waits);
        }
    }
    let program = Program {
        target: spec.name.clone(),
        device: Program::carried(spec),
        batch,
        instructions: commands.into_bytes().into(),
        constants: constants.into(),
        tables,
        scratch_bytes: planned.scratch_bytes,
        scratch_lower_bound: planned.scratch_lower_bound,
        spilled_bytes: planned.spilled_bytes,
        residency: planned.residency,
        buffers: planned.buffers,
        inputs,
        outputs,
        results,
        waits,
        beside: Vec::new(),
        operators,
    };
    Ok((program, planned.drafts))
}
