//! Whether a device holds what Triune promises of all: small programs compile for it, their plans are sound, they compute the
//! host's bits, whole and in parts on several cores, and their time does not grow when a resource does.
//!
//! One suite, every device: those that come with Triune pass it in `tests/conformance.rs`, a user's in
//! `triune device check --conformance`.

mod cores;
mod models;

use std::{path::Path, sync::Arc};

use triune_compiler::{CompileOptions, Compiled, Program, TensorIo, compile};
use triune_device::{
    DeviceSpec,
    command::{Opcode, decode},
    spec::TimingModel,
    timing::{Timeline, TimingOptions},
};
use triune_graph::Graph;
use triune_tensor::{DType, QuantParams, Requantize};

use crate::{
    DeployOptions, Deployment, Description, Device, Error, Estimate, Session, SessionOptions, TensorRef,
};

pub use models::names;

/// What came of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What the program does.
    pub name: String,
    /// What failed, and how; none if the device holds what is promised.
    pub failed: Option<String>,
}

/// Runs the suite over a device, a check for each of its programs.
pub fn run(spec: &DeviceSpec) -> Vec<Check> {
    let check = |(name, graph): (&'static str, Option<Graph>)| {
        let failed = match graph {
            Some(graph) => whole(spec, &graph).err(),
            None => Some("the suite's own graph cannot be made".to_owned()),
        };
        Check { name: name.to_owned(), failed }
    };
    models::all().into_iter().map(check).collect()
}

/// The commands that the suite's programs have on a device, each once, in the order of the command set.
///
/// # Errors
/// As [`compile`].
pub fn opcodes(spec: &DeviceSpec) -> Result<Vec<Opcode>, Error> {
    let mut found: Vec<Opcode> = Vec::new();
    for graph in models::all().into_iter().filter_map(|(_, graph)| graph) {
        let program = compile(&graph, spec, &CompileOptions::default())?.program;
        found.extend(decode(&program.instructions)?.iter().map(triune_device::Command::opcode));
    }
    found.sort_unstable_by_key(|&opcode| opcode as u16);
    found.dedup();
    Ok(found)
}

/// Everything that is promised of one program.
fn whole(spec: &DeviceSpec, graph: &Graph) -> Result<(), String> {
    let mut graph = graph.clone();
    if spec.requantize == Requantize::Fixed {
        graph.requantize = Requantize::Fixed;
    }
    let inputs = values(&graph);
    let expected = on_host(&graph, &inputs).map_err(|error| format!("on the host: {error}"))?;
    let batches = if spec.cores > 1 { [1, 2].as_slice() } else { &[1] };
    for &batch in batches {
        let options = CompileOptions { batch, ..CompileOptions::default() };
        let compiled = compile(&graph, spec, &options).map_err(|error| format!("compiling it: {error}"))?;
        sound(&compiled)?;
        let program = Arc::new(compiled.program);
        carried(&program)?;
        timed(spec, &program)?;
        let device = Device::new(spec.clone()).map_err(|error| format!("making the device: {error}"))?;
        let got = on_device(&device, &program, &inputs).map_err(|error| format!("running it: {error}"))?;
        differing(&got, &expected)?;
    }
    cores::together(spec, &graph, &inputs, &expected)
}

/// What of the images' results are other bits than the host's.
fn differing(got: &[Vec<f32>], expected: &[f32]) -> Result<(), String> {
    for (image, got) in got.iter().enumerate() {
        if let Some(at) = (0..expected.len().max(got.len()))
            .find(|&at| expected.get(at).map(|real| real.to_bits()) != got.get(at).map(|real| real.to_bits()))
        {
            let shown = |values: &[f32]| values.get(at).map_or("nothing".to_owned(), f32::to_string);
            return Err(format!(
                "element {at} of image {image}: {} on the device, {} on the host",
                shown(got),
                shown(expected)
            ));
        }
    }
    Ok(())
}

/// The whole model runs on the device, and its plan keeps apart what is alive together.
fn sound(compiled: &Compiled) -> Result<(), String> {
    if compiled.preprocess.is_some() || compiled.postprocess.is_some() || !compiled.between.is_empty() {
        return Err("compiling it: a part of it stays on the host".to_owned());
    }
    let program = &compiled.program;
    for (at, one) in program.buffers.iter().enumerate() {
        let room = program.map_bytes(one.segment).unwrap_or(0);
        if one.offset.checked_add(one.bytes).is_none_or(|end| end > room) {
            return Err(format!("its plan: feature map {at} ends beyond the {room} bytes of its segment"));
        }
        let touches = |other: &&crate::PlannedBuffer| {
            one.segment == other.segment
                && one.first < other.last
                && other.first < one.last
                && one.offset < other.offset + other.bytes
                && other.offset < one.offset + one.bytes
        };
        if program.buffers[..at].iter().find(touches).is_some() {
            return Err(format!("its plan: feature map {at} shares bytes with one that is alive, too"));
        }
    }
    Ok(())
}

/// What a package says of a program gives the same program again, its device's description with it.
fn carried(program: &Program) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("its package: {error}");
    let text = serde_json::to_string(&Description::of(program)).map_err(|error| failed(&error))?;
    let description: Description = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let again = description
        .program(Path::new("model.json"), program.instructions.clone(), program.constants.clone())
        .map_err(|error| failed(&error))?;
    // Names that only errors tell are not kept.
    if (&again.device, &again.buffers, &again.inputs, &again.outputs)
        == (&program.device, &program.buffers, &program.inputs, &program.outputs)
    {
        Ok(())
    } else {
        Err("its package: what is read back differs".to_owned())
    }
}

/// Its timeline is in order, and no resource makes it longer.
fn timed(spec: &DeviceSpec, program: &Arc<Program>) -> Result<(), String> {
    let failed = |error: Error| format!("its timeline: {error}");
    let estimate = Estimate::new(program).map_err(failed)?;
    let at =
        |spec: &DeviceSpec| estimate.timeline(spec, &TimingOptions::default()).map(|(timeline, _)| timeline);
    let base = at(spec).map_err(failed)?;
    in_order(spec, &base)?;
    if spec.timing == TimingModel::None {
        return Ok(());
    }
    for (what, richer) in richer(spec) {
        let cycles = at(&richer).map_err(failed)?.total_cycles;
        if cycles > base.total_cycles {
            return Err(format!("its timeline: {cycles} cycles with {what}, {} without", base.total_cycles));
        }
    }
    Ok(())
}

fn in_order(spec: &DeviceSpec, timeline: &Timeline) -> Result<(), String> {
    let wrong = |what: &str, index: u32| Err(format!("its timeline: command {index} {what}"));
    let mut computed = 0;
    for command in &timeline.commands {
        if command.start > command.end || command.end > timeline.total_cycles {
            return wrong("ends before it starts, or behind the program", command.index);
        }
        if command.computing.start < command.computing.end {
            if command.computing.start < computed {
                return wrong("computes while the one before does", command.index);
            }
            computed = command.computing.end;
        }
        if spec.timing == TimingModel::Modelled && command.compute < command.ideal {
            return wrong("takes less than an array that always works", command.index);
        }
    }
    Ok(())
}

/// Devices that have more of one thing.
fn richer(spec: &DeviceSpec) -> Vec<(String, DeviceSpec)> {
    let mut found = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut DeviceSpec)| {
        let mut richer = spec.clone();
        change(&mut richer);
        found.push((what, richer));
    };
    for (at, memory) in spec.memory.iter().enumerate() {
        add(format!("twice the bandwidth of {}", memory.name), &|spec| {
            let memory = &mut spec.memory[at];
            if let Some([bytes, _]) = &mut memory.bytes_per_cycle {
                *bytes = bytes.saturating_mul(2);
            }
            memory.bytes_per_second = memory.bytes_per_second.map(|rate| rate.saturating_mul(2));
        });
        add(format!("no latency of {}", memory.name), &|spec| spec.memory[at].latency_cycles = 0);
    }
    add("another tile under way".to_owned(), &|spec| spec.queues.buffers = (spec.queues.buffers + 1).min(8));
    add("twice the buffers".to_owned(), &|spec| {
        spec.queues.buffer_bytes = spec.queues.buffer_bytes.map(|bytes| bytes.saturating_mul(2));
    });
    add("twice the blocks".to_owned(), &|spec| spec.queues.blocks = (2 * spec.queues.blocks).min(64));
    add("no cost of commands".to_owned(), &|spec| spec.launch.command_cycles = 0);
    add("no cost of a launch".to_owned(), &|spec| spec.launch.program_ns = 0);
    add("twice the vector unit".to_owned(), &|spec| {
        if let Some(vector) = &mut spec.vector {
            vector.elements_per_cycle = vector.elements_per_cycle.saturating_mul(2);
            vector.taps_per_cycle = vector.taps_per_cycle.saturating_mul(2);
        }
    });
    found
}

/// Numbers for a model's input, the same each time.
fn values(graph: &Graph) -> Vec<f32> {
    let shape = graph.inputs.first().and_then(|&id| graph.value(id).fixed_shape());
    let count = shape.and_then(|shape| shape.elements()).unwrap_or_default();
    let mut numbers = models::Numbers::new(7);
    (0..count).map(|_| models::INPUT.dequantize(i32::from(numbers.next()))).collect()
}

fn on_host(graph: &Graph, inputs: &[f32]) -> Result<Vec<f32>, Error> {
    let mut session = Session::new(graph.clone(), &SessionOptions::default())?;
    let shape = graph.inputs.first().and_then(|&id| graph.value(id).fixed_shape());
    let shape: Vec<usize> = shape.map(|shape| shape.to_vec()).unwrap_or_default();
    let bytes: Vec<u8> = inputs.iter().flat_map(|value| value.to_le_bytes()).collect();
    let results = session.run(&[TensorRef { dtype: DType::F32, shape: &shape, bytes: &bytes }])?;
    let reals = |bytes: &[u8]| {
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
    };
    Ok(results.first().map(|result| reals(&result.bytes)).unwrap_or_default())
}

/// The reals that the program's first output stands for, in the model's order, for each image of a batch.
fn on_device(device: &Arc<Device>, program: &Arc<Program>, inputs: &[f32]) -> Result<Vec<Vec<f32>>, Error> {
    let (Some(input), Some(output)) = (program.inputs.first(), program.outputs.first()) else {
        return Err(Error::program("it has no input or no output"));
    };
    let mut deployment = Deployment::new(device, program, &DeployOptions::default())?;
    let params = QuantParams { scale: input.scale, zero_point: input.zero_point };
    let mut given = vec![input.zero_point as u8; input.bytes()];
    for image in 0..program.batch {
        walk(input, program.batch, image, |model, place| {
            given[place] = params.quantize(inputs[model], DType::I8) as u8;
        });
    }
    let mut results: Vec<Vec<u8>> = program.outputs.iter().map(|io| vec![0xaa; io.bytes()]).collect();
    let mut slices: Vec<&mut [u8]> = results.iter_mut().map(Vec::as_mut_slice).collect();
    deployment.run(&[&given], &mut slices)?;
    let params = QuantParams { scale: output.scale, zero_point: output.zero_point };
    let images = (0..program.batch).map(|image| {
        let count = output.unpadded_shape().elements().unwrap_or_default() / program.batch;
        let mut reals = vec![0.0; count];
        walk(output, program.batch, image, |model, place| {
            reals[model] = params.dequantize(i32::from(results[0][place] as i8));
        });
        reals
    });
    Ok(images.collect())
}

/// Calls `each` for every element of one image with its place in the model's order, channels in front, and the byte that it
/// has in the buffer, channels innermost.
fn walk(io: &TensorIo, batch: usize, image: usize, mut each: impl FnMut(usize, usize)) {
    let inner = io.unpadded_shape();
    let (dims, padding) = (&*inner, &io.padding);
    let (Some(&first), Some(&channels)) = (dims.first(), dims.last()) else { return };
    let images = first / batch;
    let pixels: usize = dims[1..dims.len() - 1].iter().product();
    for one in 0..images {
        for pixel in 0..pixels.max(1) {
            for channel in 0..channels {
                let model = if dims.len() == 4 {
                    (one * channels + channel) * pixels + pixel
                } else {
                    (one * pixels.max(1) + pixel) * channels + channel
                };
                // Row-major among the buffer's own extents, behind the padding.
                let mut at = vec![image * images + one];
                let mut rest = pixel;
                for &dim in dims[1..dims.len() - 1].iter().rev() {
                    at.insert(1, rest % dim);
                    rest /= dim;
                }
                at.push(channel);
                let place = at
                    .iter()
                    .zip(&*io.shape)
                    .zip(padding)
                    .fold(0, |sum, ((&at, &dim), &(before, _))| sum * dim + at + before);
                each(model, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triune_device::timing::Span;

    /// The program with most feature maps, on a device whose time is modelled.
    fn residual() -> (DeviceSpec, Compiled) {
        let spec = DeviceSpec::builtin("zg330").expect("a built-in device");
        let graph = models::all().into_iter().find(|(name, _)| *name == "residual block");
        let graph = graph.and_then(|(_, graph)| graph).expect("a graph");
        let compiled = compile(&graph, &spec, &CompileOptions::default()).expect("a program");
        (spec, compiled)
    }

    #[test]
    fn plans_that_are_not_sound_are_told() {
        let (_, good) = residual();
        assert_eq!(sound(&good), Ok(()));
        let buffers = &good.program.buffers;
        let pair =
            (0..buffers.len()).flat_map(|at| (0..at).map(move |other| (at, other))).find(|&(at, other)| {
                buffers[at].first < buffers[other].last && buffers[other].first < buffers[at].last
            });
        let (at, other) = pair.expect("two maps that are alive together");
        let told = |change: &dyn Fn(&mut Compiled)| {
            let mut wrong = good.clone();
            change(&mut wrong);
            sound(&wrong).expect_err("a plan that is not sound")
        };
        let room = |compiled: &Compiled, segment| match segment {
            Program::SCRATCH => compiled.program.scratch_bytes,
            _ => compiled.program.resident_bytes(),
        };
        let beyond = format!("feature map {at} ends beyond");
        for past in [1, u64::MAX / 2] {
            let found = told(&|wrong| {
                let end = room(wrong, wrong.program.buffers[at].segment);
                let own = &mut wrong.program.buffers[at];
                own.offset = (end + past).wrapping_sub(own.bytes);
            });
            assert!(found.contains(&beyond), "{past}: {found}");
        }
        assert!(
            told(&|wrong| wrong.program.buffers[at].offset = u64::MAX).contains(&beyond),
            "in 64 bits, too"
        );
        // One byte of the other, at either end of it.
        let shares = format!("feature map {at} shares bytes");
        let whole = |compiled: &Compiled| compiled.program.buffers[other];
        for first in [true, false] {
            let found = told(&|wrong| {
                let theirs = whole(wrong);
                wrong.program.scratch_bytes += 1 << 20;
                if let Some(residency) = &mut wrong.program.residency {
                    residency.peak += 1 << 20;
                }
                let shift = 1 << 16;
                wrong.program.buffers[other].offset = shift;
                let own = &mut wrong.program.buffers[at];
                own.segment = theirs.segment;
                own.offset = if first { shift + 1 - own.bytes } else { shift + theirs.bytes - 1 };
            });
            assert!(found.contains(&shares), "{found}");
        }
        for part in [0, 1, 2] {
            let found = told(&|wrong| match part {
                0 => wrong.preprocess = Some(Vec::new()),
                1 => wrong.postprocess = Some(Vec::new()),
                _ => wrong.between = vec![Vec::new()],
            });
            assert!(found.contains("stays on the host"), "{found}");
        }
        // What touches it, in bytes or in time, shares nothing.
        let mut apart = good.clone();
        apart.program.buffers = vec![buffers[at]; 4];
        let first = apart.program.buffers[0];
        apart.program.scratch_bytes = 3 * first.bytes;
        if let Some(residency) = &mut apart.program.residency {
            residency.peak = 3 * first.bytes;
        }
        for (index, own) in apart.program.buffers.iter_mut().enumerate() {
            own.offset = [0, first.bytes, 2 * first.bytes, first.bytes][index];
            (own.first, own.last) = if index == 3 { (7, 9) } else { (4, 7) };
        }
        assert_eq!(sound(&apart), Ok(()));
    }

    #[test]
    fn timelines_that_are_not_in_order_are_told() {
        let (spec, compiled) = residual();
        let estimate = Estimate::new(&Arc::new(compiled.program)).expect("commands");
        let (good, _) = estimate.timeline(&spec, &TimingOptions::default()).expect("a timeline");
        assert_eq!(in_order(&spec, &good), Ok(()));
        let last = good.commands.len() - 1;
        let told = |change: &dyn Fn(&mut Timeline)| {
            let mut wrong = good.clone();
            change(&mut wrong);
            in_order(&spec, &wrong)
        };
        let index = good.commands[last].index;
        let wrong = |what: &str| Err(format!("its timeline: command {index} {what}"));
        let bounds = wrong("ends before it starts, or behind the program");
        assert_eq!(told(&|line| line.commands[last].end = line.total_cycles + 1), bounds);
        assert_eq!(told(&|line| line.commands[last].start = line.commands[last].end + 1), bounds);
        assert_eq!(told(&|line| line.commands[last].start = line.commands[last].end), Ok(()));
        let before = good.commands[last - 1].computing.end;
        let computing = |start, end| told(&move |line| line.commands[last].computing = Span { start, end });
        assert_eq!(computing(before - 1, before + 1), wrong("computes while the one before does"));
        assert_eq!(computing(before, before + 1), Ok(()));
        assert_eq!(computing(0, 0), Ok(()), "what computes nothing");
        let ideal = |less: u64| {
            told(&move |line| {
                line.commands[last].ideal = 100;
                line.commands[last].compute = 100 - less;
            })
        };
        assert_eq!(ideal(0), Ok(()));
        assert_eq!(ideal(1), wrong("takes less than an array that always works"));
    }

    /// Each has more of one thing, and of nothing else.
    #[test]
    fn richer_devices_have_more_of_one_thing() {
        for name in ["zg330", "metis"] {
            let spec = DeviceSpec::builtin(name).expect("a built-in device");
            let found = richer(&spec);
            assert_eq!(found.len(), 2 * spec.memory.len() + 6);
            let bandwidth = |spec: &DeviceSpec, at: usize| spec.memory[at].bytes_per_cycle_at(1000);
            for (what, richer) in &found {
                let mut changes = Vec::new();
                for (at, (own, more)) in spec.memory.iter().zip(&richer.memory).enumerate() {
                    if bandwidth(richer, at) != bandwidth(&spec, at) {
                        assert_eq!(bandwidth(richer, at), 2.0 * bandwidth(&spec, at), "{what}");
                        changes.push(format!("twice the bandwidth of {}", own.name));
                    }
                    if own.latency_cycles != more.latency_cycles
                        || what == &format!("no latency of {}", own.name)
                    {
                        assert_eq!(more.latency_cycles, 0, "{what}");
                        changes.push(format!("no latency of {}", own.name));
                    }
                }
                let (own, more) = (spec.queues, richer.queues);
                if own.buffers != more.buffers {
                    assert_eq!(more.buffers, own.buffers + 1);
                    changes.push("another tile under way".into());
                }
                if own.buffer_bytes != more.buffer_bytes {
                    assert_eq!(more.buffer_bytes, own.buffer_bytes.map(|bytes| 2 * bytes));
                    changes.push("twice the buffers".into());
                }
                if own.blocks != more.blocks {
                    assert_eq!(more.blocks, 2 * own.blocks);
                    changes.push("twice the blocks".into());
                }
                if spec.launch.command_cycles != richer.launch.command_cycles {
                    assert_eq!(richer.launch.command_cycles, 0);
                    changes.push("no cost of commands".into());
                }
                if spec.launch.program_ns != richer.launch.program_ns {
                    assert_eq!(richer.launch.program_ns, 0);
                    changes.push("no cost of a launch".into());
                }
                if let (Some(own), Some(more)) = (&spec.vector, &richer.vector)
                    && own != more
                {
                    assert_eq!(more.elements_per_cycle, 2 * own.elements_per_cycle);
                    assert_eq!(more.taps_per_cycle, 2 * own.taps_per_cycle);
                    changes.push("twice the vector unit".into());
                }
                assert_eq!(changes, std::slice::from_ref(what), "{name}");
            }
        }
    }
}
