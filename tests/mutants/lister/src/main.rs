//! Lists the small faults that can be planted into crates, as JSON.
//!
//! `triune-mutants CRATE…` reads the folders of crates, from `src/lib.rs` along their modules, and prints a list of [`Fault`]s.
//! Nothing is written; `tests/mutants/planting.py` puts them into a copy.

mod bodies;
mod faults;
mod signatures;
mod sources;
mod visitor;

use std::{env, error::Error, path::PathBuf};

use faults::Fault;
use signatures::Signatures;
use sources::Source;

fn main() -> Result<(), Box<dyn Error>> {
    let crates: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let mut sources: Vec<Source> = Vec::new();
    for folder in &crates {
        sources.extend(sources::of_crate(folder)?);
    }
    let mut signatures = Signatures::default();
    for source in &sources {
        signatures.read(&source.file);
    }
    let faults: Vec<Fault> = sources.iter().flat_map(|source| visitor::faults(source, &signatures)).collect();
    println!("[{}]", faults.iter().map(Fault::json).collect::<Vec<_>>().join(",\n"));
    Ok(())
}
