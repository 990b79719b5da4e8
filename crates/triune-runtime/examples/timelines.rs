//! What deploying real networks costs, and what a timeline of each does: makes the table of `docs/timing-model.md`, "What it costs".
//!
//! ```text
//! cargo run --release -p triune-runtime --example timelines -- <folder or model.onnx>…
//! ```
//! Topologies without weights are quantized first, as `validate_timing` does.

#[expect(dead_code, reason = "single products are for the other example")]
#[path = "validate_timing/quantize.rs"]
mod quantize;

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use triune_device::{DeviceSpec, TimingOptions};
use triune_graph::format::onnx;
use triune_runtime::{CompileOptions, DeployOptions, Deployment, Device, compile};

const DEVICES: [&str; 3] = ["metis", "buyi", "zg330"];

/// How often a timeline is made: the fastest counts.
const TIMES: usize = 300;

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

fn main() -> Result<(), Box<dyn Error>> {
    println!("| network | device | commands | tiles | compile ms | deploy ms | timeline µs |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    for path in
        std::env::args().skip(1).map(|argument| models(&argument)).collect::<Result<Vec<_>, _>>()?.concat()
    {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let graph = quantize::quantized(onnx::read(&path)?)?;
        for device in DEVICES {
            let spec = DeviceSpec::builtin(device)?;
            let start = Instant::now();
            let program = Arc::new(compile(&graph, &spec, &CompileOptions::default())?.program);
            let compiled = start.elapsed();
            let device = Device::new(spec.clone())?;
            let start = Instant::now();
            let deployment = Deployment::new(&device, &program, &DeployOptions::default())?;
            let deployed = start.elapsed();
            let options = TimingOptions { active_cores: spec.cores, ..TimingOptions::default() };
            let mut best = Duration::MAX;
            for _ in 0..TIMES {
                let start = Instant::now();
                std::hint::black_box(deployment.retime(&options)?);
                best = best.min(start.elapsed());
            }
            let commands = &deployment.timeline().commands;
            let tiles: u64 = commands.iter().map(|command| command.tiling.tiles()).sum();
            println!(
                "| {name} | {} | {} | {tiles} | {:.0} | {:.0} | {:.0} |",
                spec.name,
                commands.len(),
                compiled.as_secs_f64() * 1e3,
                deployed.as_secs_f64() * 1e3,
                best.as_secs_f64() * 1e6,
            );
        }
    }
    Ok(())
}
