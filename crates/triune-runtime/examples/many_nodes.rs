//! What a node costs from the file to the first run, for models of any number of nodes, in every format; the passes are a
//! part of the load.
//!
//! ```text
//! cargo run --release -p triune-runtime --example many_nodes -- [part of a family's name] [count]…
//! ```

#[path = "../tests/it/families/mod.rs"]
mod families;

use std::{error::Error, time::Duration};

use families::{FAMILIES, REFUSED, quantized_chain, staged};
use triune_device::DeviceSpec;
use triune_graph::{format, passes};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, MODEL_FILE, Model, ModelOptions, Package, Session,
    SessionOptions, TensorRef, compile,
};
use triune_tensor::DType;
use triune_testing::thread_time;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let counts: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let counts = if counts.is_empty() { vec![1_000, 10_000, 100_000, 300_000] } else { counts };
    let wanted = arguments.iter().find(|text| text.parse::<usize>().is_err()).map_or("", String::as_str);
    let families =
        FAMILIES.iter().chain(&REFUSED).copied().chain([("stages", staged as fn(usize) -> Vec<u8>)]);
    row("microseconds per node", ["nodes", "read", "passes", "load", "run", "in all"].map(String::from));
    for (name, family) in families.filter(|(name, _)| name.contains(wanted)) {
        for &count in counts.iter().filter(|&&count| name != "stages" || count <= 10_000) {
            let times = load_and_run(family, count)?;
            numbers(name, count, times);
        }
    }
    if "package".contains(wanted) {
        row(
            "microseconds per node",
            ["nodes", "compile", "write", "read", "deploy", "in all"].map(String::from),
        );
        for &count in &counts {
            numbers("package", count, package(count)?);
        }
    }
    Ok(())
}

/// Times of the steps, and of all of them.
type Times = [Duration; 5];

/// How often everything is done: the least counts, for others work on the machine, too.
const ROUNDS: u32 = 3;

fn load_and_run(family: fn(usize) -> Vec<u8>, count: usize) -> Result<Times, Box<dyn Error>> {
    // A small model is over too soon for the system's clock of a thread.
    let times = 40_000_usize.div_ceil(count.max(1)) as u32;
    let bytes = bytes::Bytes::from(family(count));
    let mut least = [Duration::MAX; 5];
    for _ in 0..ROUNDS {
        let mut sum = [Duration::ZERO; 5];
        for _ in 0..times {
            let steps = steps(&bytes)?;
            sum.iter_mut().zip(steps).for_each(|(sum, time)| *sum += time);
        }
        // One look at the clock for all: what is torn down is a part of it.
        let (result, whole) = thread_time(|| (0..times).try_for_each(|_| whole(&bytes)));
        result?;
        sum[4] = whole;
        least.iter_mut().zip(sum).for_each(|(least, sum)| *least = (*least).min(sum / times));
    }
    Ok(least)
}

/// Zeros for the one input.
const X: TensorRef<'_> = TensorRef { dtype: DType::F32, shape: &[1, 4], bytes: &[0; 16] };

/// From the file to the first run.
fn whole(bytes: &bytes::Bytes) -> Result<(), Box<dyn Error>> {
    let model = Model::from_bytes(bytes.clone(), &ModelOptions::default())?;
    // Some models are refused; that takes its time, too.
    if let Ok(mut session) = Session::of(model, &SessionOptions::default()) {
        session.run(&[X])?;
    }
    Ok(())
}

/// Times of reading, of the passes, of loading and of a run.
fn steps(bytes: &bytes::Bytes) -> Result<Times, Box<dyn Error>> {
    let (model, read) = thread_time(|| Model::from_bytes(bytes.clone(), &ModelOptions::default()));
    let model = model?;
    let passes = match format::read_bytes(bytes.clone(), None) {
        Ok(mut graph) if passes::stages(&graph)?.is_none() => {
            let dims = vec![[1_usize, 4]; graph.inputs.len()];
            let names: Vec<String> = graph.inputs.iter().map(|&id| graph.value(id).name.clone()).collect();
            let shapes: Vec<(&str, &[usize])> =
                names.iter().map(String::as_str).zip(dims.iter().map(|dims| &dims[..])).collect();
            graph.bind(&shapes)?;
            let (prepared, passes) = thread_time(|| passes::prepare(&mut graph));
            prepared?;
            passes
        }
        _ => Duration::ZERO,
    };
    let (session, load) = thread_time(|| Session::of(model, &SessionOptions::default()));
    let (result, run) = thread_time(|| {
        let Ok(mut session) = session else { return Ok(()) };
        session.run(&[X]).map(|_| ())
    });
    result?;
    Ok([read, passes, load, run, Duration::ZERO])
}

fn package(count: usize) -> Result<Times, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let spec = DeviceSpec::builtin("metis")?;
    let graph = format::read_bytes(quantized_chain(count), None)?;
    let (compiled, compiling) = thread_time(|| compile(&graph, &spec, &CompileOptions::default()));
    let compiled = compiled?;
    let (written, write) = thread_time(|| Package::write(&compiled, folder.path()));
    written?;
    let (package, read) = thread_time(|| Package::load(&folder.path().join(MODEL_FILE)));
    let (package, device) = (package?, Device::new(spec)?);
    let (deployment, deploy) =
        thread_time(|| Deployment::new(&device, package.program(), &DeployOptions::default()));
    deployment?;
    Ok([compiling, write, read, deploy, compiling + write + read + deploy])
}

fn numbers(name: &str, count: usize, times: Times) {
    let [a, b, c, d, e] = times.map(|time| format!("{:.2}", time.as_secs_f64() * 1e6 / count as f64));
    row(name, [count.to_string(), a, b, c, d, e]);
}

fn row(name: &str, [count, rest @ ..]: [String; 6]) {
    println!("{name:<30} {count:>8} {}", rest.map(|text| format!("{text:>8}")).concat());
}
