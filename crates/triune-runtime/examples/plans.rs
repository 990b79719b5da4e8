//! Memory plans of real networks: what lowering, planning and timing cost, what stays on the chip, and how near to the
//! optimum that is. Makes the tables of `docs/memory.md`.
//!
//! ```text
//! cargo run --release -p triune-runtime --example plans -- <folder or model.onnx>…
//! ```
//! Quantized models are compiled for each device; float ones are quantized first if they hold topologies alone.

#[expect(dead_code, reason = "single products are for the other example")]
#[path = "validate_timing/quantize.rs"]
mod quantize;

use std::{
    error::Error,
    path::{Path, PathBuf},
    time::Instant,
};

use triune_device::{DeviceSpec, TimingOptions, command::decode, timeline};
use triune_graph::{Graph, format::onnx};
use triune_runtime::{CompileOptions, PlanOptions, Policy, Program, Residency, compile};

const DEVICES: [&str; 2] = ["buyi", "zg330"];

fn models(argument: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let path = Path::new(argument);
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    found.sort();
    Ok(found)
}

/// The model with every open batch bound to one image, quantized if it is not.
fn read(path: &Path) -> Result<Option<Graph>, Box<dyn Error>> {
    let graph = onnx::read(path)?;
    if path.to_string_lossy().contains("_qdq") {
        return Ok(Some(graph));
    }
    // What has weights of its own comes with a quantized twin.
    let weights: u64 = std::fs::metadata(path)?.len();
    if weights > 100_000 { Ok(None) } else { Ok(Some(quantize::quantized(graph)?)) }
}

/// Fastest of three, in milliseconds.
fn millis<T>(mut task: impl FnMut() -> T) -> (T, f64) {
    let mut best: Option<(T, f64)> = None;
    for _ in 0..3 {
        let start = Instant::now();
        let result = task();
        let elapsed = start.elapsed().as_secs_f64() * 1e3;
        if best.as_ref().is_none_or(|(_, least)| elapsed < *least) {
            best = Some((result, elapsed));
        }
    }
    best.expect("three runs")
}

fn placement(spec: &DeviceSpec, program: &Program) -> Vec<String> {
    let place = &spec.placement;
    let near = place.resident.as_ref().unwrap_or(&place.scratch);
    let mut names =
        vec![place.instructions.clone(), place.constants.clone(), place.scratch.clone(), near.clone()];
    names.resize(4 + program.inputs.len() + program.outputs.len(), place.io.clone());
    names
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "| network | device | maps | lower+plan ms | replan ms | timeline ms | near | far (bound) | traffic avoided | OPTION1 \
         | OPTION2 | OPTION3 | BEST_SCORE | exact | gap | peak, none near | in place |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for path in
        std::env::args().skip(1).map(|argument| models(&argument)).collect::<Result<Vec<_>, _>>()?.concat()
    {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let graph = match read(&path) {
            Ok(Some(graph)) => graph,
            Ok(None) => continue,
            Err(error) => {
                println!("| {name} | {error} |");
                continue;
            }
        };
        for device in DEVICES {
            let spec = DeviceSpec::builtin(device)?;
            let (compiled, whole) = millis(|| compile(&graph, &spec, &CompileOptions::default()));
            let program = match compiled {
                Ok(compiled) => compiled.program,
                Err(error) => {
                    println!("| {name} | {device} | {error} |");
                    continue;
                }
            };
            let (_, replan) = millis(|| program.replan(&spec, &PlanOptions::default()));
            let commands = decode(&program.instructions)?;
            let names = placement(&spec, &program);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (_, timed) = millis(|| timeline(&spec, &commands, &names, &TimingOptions::default()));
            let value = |policy| -> Result<u64, Box<dyn Error>> {
                let options = PlanOptions { policy, ..PlanOptions::default() };
                Ok(program.replan(&spec, &options)?.residency.map_or(0, |residency| residency.value))
            };
            let Some(Residency { value: exact, bound, peak, .. }) = program.residency else { continue };
            let share = |value: u64| 100.0 * value as f64 / bound.max(1) as f64;
            let peak_of = |in_place| -> Result<u64, Box<dyn Error>> {
                let plan = PlanOptions { policy: Policy::None, in_place, ..PlanOptions::default() };
                let options = CompileOptions { plan, ..CompileOptions::default() };
                Ok(compile(&graph, &spec, &options)?.program.scratch_bytes / 1024)
            };
            let [apart, shared] = [peak_of(false)?, peak_of(true)?];
            let all: u64 =
                program.buffers.iter().map(|buffer| buffer.bytes * u64::from(buffer.reads + 1)).sum();
            println!(
                "| {name} | {device} | {} | {whole:.1} | {replan:.2} | {timed:.3} | {} KiB | {} KiB ({:+.1} %) | {:.0} % \
                 | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.2} % | {apart} KiB | {shared} KiB |",
                program.buffers.len(),
                peak / 1024,
                program.scratch_bytes / 1024,
                100.0 * (program.scratch_bytes as f64 / program.scratch_lower_bound.max(1) as f64 - 1.0),
                100.0 * exact as f64 / all.max(1) as f64,
                share(value(Policy::Option1)?),
                share(value(Policy::Option2)?),
                share(value(Policy::Option3)?),
                share(value(Policy::BestScore)?),
                share(exact),
                100.0 * program.residency.map_or(0.0, |residency| residency.gap()),
            );
        }
    }
    Ok(())
}
