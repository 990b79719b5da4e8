//! What a node costs from the file to the first run, for models of any number of nodes; the passes are a part of the load.
//!
//! ```text
//! cargo run --release -p triune-runtime --example many_nodes -- [part of a family's name] [count]…
//! ```

#[path = "../tests/many_nodes/mod.rs"]
mod many_nodes;

use std::error::Error;

use many_nodes::{FAMILIES, REFUSED};
use triune_graph::{format::onnx, passes};
use triune_runtime::{Model, Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::thread_time;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let counts: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    let counts = if counts.is_empty() { vec![1_000, 10_000, 100_000, 300_000] } else { counts };
    let wanted = arguments.iter().find(|text| text.parse::<usize>().is_err()).map_or("", String::as_str);
    println!(
        "{:<30} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "microseconds per node", "nodes", "read", "passes", "load", "run", "in all"
    );
    for (name, family) in FAMILIES.iter().chain(&REFUSED).filter(|(name, _)| name.contains(wanted)) {
        for &count in &counts {
            let bytes = family(count);
            let (graph, read) = thread_time(|| onnx::read_bytes(bytes, None));
            let graph = graph?;
            let mut prepared = graph.clone();
            prepared.bind(&[])?;
            let (prepared, passes) = thread_time(|| passes::prepare(&mut prepared).map(|_| prepared));
            drop(prepared?);
            let (session, load) = thread_time(|| Session::of(Model::new(graph), &SessionOptions::default()));
            let (result, run) = thread_time(|| {
                // Some models are refused; that takes its time, too.
                let Ok(mut session) = session else { return Ok(()) };
                let x = TensorRef { dtype: DType::F32, shape: &[1, 4], bytes: &[0; 16] };
                session.run(&[x]).map(|_| ())
            });
            result?;
            let [all, read, passes, load, run] = [read + load + run, read, passes, load, run]
                .map(|time| time.as_secs_f64() * 1e6 / count as f64);
            println!("{name:<30} {count:>8} {read:>7.2} {passes:>7.2} {load:>7.2} {run:>7.2} {all:>7.2}");
        }
    }
    Ok(())
}
