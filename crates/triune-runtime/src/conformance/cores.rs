//! Cores that work together give the bits of one, and more of them are never slower.

use std::sync::Arc;

use triune_compiler::{
    CompileOptions, Program, compile,
    parts::{Axis, parts},
};
use triune_device::{
    Command, DeviceSpec,
    command::{decode, encode},
    spec::TimingModel,
};
use triune_graph::Graph;

use super::{differing, on_device};
use crate::{
    Device,
    cores::{Mode, Shared},
};

/// Most cores that are tried.
const MOST: u32 = 4;

/// What is promised of a program on several cores of a device, or of one like it that has several.
pub(super) fn together(
    spec: &DeviceSpec,
    graph: &Graph,
    inputs: &[f32],
    expected: &[f32],
) -> Result<(), String> {
    let spec = DeviceSpec { cores: spec.cores.max(MOST), ..spec.clone() };
    let program = compile(graph, &spec, &CompileOptions::default())
        .map_err(|error| format!("compiling it for {} cores: {error}", spec.cores))?
        .program;
    in_parts(&spec, &program, inputs, expected)?;
    if spec.timing == TimingModel::None {
        return Ok(());
    }
    let program = Arc::new(program);
    for mode in [Mode::Pipelined, Mode::Split] {
        let mut fewer: Option<Shared> = None;
        for cores in 1..=MOST {
            let failed = |what: String| format!("{} on {cores} cores: {what}", mode.name());
            let found = Shared::new(spec.clone(), &program, mode, cores, None)
                .map_err(|error| failed(error.to_string()))?;
            consistent(&found).map_err(failed)?;
            if found.interval > fewer.as_ref().map_or(found.alone, |fewer| fewer.interval) {
                return Err(failed(format!("{} cycles an image, fewer with a core less", found.interval)));
            }
            fewer = Some(found);
        }
    }
    Ok(())
}

/// Every command in parts that can be cut so, all on one core.
fn in_parts(spec: &DeviceSpec, program: &Program, inputs: &[f32], expected: &[f32]) -> Result<(), String> {
    let whole = decode(&program.instructions).map_err(|error| error.to_string())?;
    let device = Device::new(spec.clone()).map_err(|error| format!("making the device: {error}"))?;
    for axis in Axis::ALL {
        for count in [2, 3] {
            let cut = |command: &Command| parts(spec, command, axis, count).unwrap_or_else(|| vec![*command]);
            // The last part first: no part may need another.
            let commands: Vec<Command> =
                whole.iter().flat_map(|command| cut(command).into_iter().rev()).collect();
            let program = Program { instructions: encode(&commands).into(), ..program.clone() };
            let failed = |what: String| format!("in {count} parts by {}: {what}", axis.name());
            let got = on_device(&device, &Arc::new(program), inputs)
                .map_err(|error| failed(format!("running it: {error}")))?;
            differing(&got, expected).map_err(failed)?;
        }
    }
    Ok(())
}

/// What is said of cores follows from what each does.
fn consistent(shared: &Shared) -> Result<(), String> {
    let busy = shared.busy();
    if shared.tasks.iter().map(|task| task.span.end).max() != Some(shared.latency) {
        return Err("its last task does not end with the image".to_owned());
    }
    let mut free = vec![0; shared.cores as usize];
    let mut done = 0;
    for task in &shared.tasks {
        let core = &mut free[task.core as usize];
        let before = if shared.mode == Mode::Pipelined { done } else { *core };
        if task.span.start < before.max(*core) {
            return Err("a core does two things at once, or what is not there yet".to_owned());
        }
        *core = task.span.end;
        done = done.max(task.span.end);
    }
    let longest = busy.iter().copied().max().unwrap_or(0);
    let sum: u64 = busy.iter().sum();
    let fits = match shared.mode {
        Mode::Pipelined => shared.interval == longest && shared.latency == sum,
        Mode::Split => shared.interval == shared.latency && longest <= shared.latency,
    };
    if fits { Ok(()) } else { Err("its times are not those of its tasks".to_owned()) }
}
