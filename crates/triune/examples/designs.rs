//! A Rust program that asks what a quantized ONNX model costs on designs of a device:
//! `cargo run --release --example designs -- model.onnx metis array=256x256 array=128x128`.

use std::{env, error::Error, io::Write, path::Path, process::ExitCode};

use triune::internals::runtime::{
    Study,
    clock::Arrivals,
    study::{Caller, compose},
};

/// Writes the slowest operators of a run, and each design's time; then how many images two programs get done on two cores.
fn report(out: &mut dyn Write, model: &Path, target: &str, changes: &[String]) -> Result<(), Box<dyn Error>> {
    let study = Study::compile(model, Path::new(target), 1)?;
    let profile = study.at(&[], None)?;
    writeln!(out, "{target}: {:.1} µs", profile.timeline().micros())?;
    let mut operators: Vec<_> = profile.operators().map(|each| (each, profile.cost(each.commands))).collect();
    operators.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.cycles()));
    for (operator, cost) in operators.iter().take(5) {
        writeln!(
            out,
            "  {} ({}): {} cycles, bound by {}, {:.0} % of the array",
            operator.name,
            operator.kind,
            cost.cycles(),
            cost.bound_by.name(),
            100.0 * cost.utilization()
        )?;
    }
    for change in changes {
        let (key, value) = change.split_once('=').ok_or("expected changes such as array=256x256")?;
        writeln!(out, "{change}: {:.1} µs", study.at(&[(key, value)], None)?.timeline().micros())?;
    }
    let caller = |name: &str, cores| Caller {
        name: name.to_owned(),
        study: &study,
        cores,
        arrivals: Arrivals::Closed { depth: 2 },
    };
    let together = compose(&[caller("first", &[0]), caller("second", &[1])], 100_000_000, None)?;
    for instance in &together.instances {
        writeln!(out, "{}: {:.0} images/s", instance.name, instance.images_per_second(together.horizon))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [model, target, changes @ ..] = arguments.as_slice() else {
        eprintln!("usage: designs MODEL TARGET [KEY=VALUE ...]");
        return ExitCode::from(2);
    };
    match report(&mut std::io::stdout(), Path::new(model), target, changes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_arrays_take_longer() {
        let edges = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/models/edges.onnx"));
        let mut written = Vec::new();
        report(&mut written, edges, "metis", &["array=1x1".to_owned()]).expect("a report");
        let text = String::from_utf8(written).expect("a text");
        let micros = |line: &str| {
            let found = text
                .lines()
                .find_map(|each| each.strip_prefix(line)?.strip_suffix(" µs")?.trim().parse().ok());
            found.unwrap_or_else(|| panic!("{line} in {text}"))
        };
        let (usual, small): (f64, f64) = (micros("metis: "), micros("array=1x1: "));
        assert!(usual > 0.0 && small > usual, "{text}");
        assert!(
            text.contains("(Conv): ") && text.lines().filter(|line| line.ends_with("images/s")).count() == 2
        );
        let error = report(&mut Vec::new(), edges, "metis", &["array".to_owned()]);
        let error = error.expect_err("no change").to_string();
        assert!(error.contains("array=256x256"), "{error}");
    }
}
