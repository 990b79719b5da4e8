//! What a node costs does not grow with their number, from the file to the first run.

use crate::families;
use std::{cell::Cell, time::Duration};

use crate::families::{FAMILIES, REFUSED};
use triune_device::{
    DeviceSpec,
    cancel::{self, Asker},
};
use triune_graph::format::onnx;
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Error, MODEL_FILE, Model, ModelOptions, Package,
    PlanOptions, Session, SessionOptions, TensorRef, compile,
};
use triune_tensor::DType;
use triune_testing::thread_time;

/// Two sizes: a walk that grows with the square takes `STEP` times as long per node for the larger one.
const FEW: usize = 1_000;
const STEP: usize = 16;
/// What a node of the larger model may cost, times one of the smaller: caches and pages are felt, a square is not missed.
const MOST: u32 = 5;

fn load_and_run(bytes: Vec<u8>) -> Result<(), Error> {
    let model = Model::from_bytes(bytes, &ModelOptions::default())?;
    let mut session = Session::of(model, &SessionOptions::default())?;
    let x = TensorRef { dtype: DType::F32, shape: &[1, 4], bytes: &[0; 16] };
    session.run(&[x]).map(|_| ())
}

fn time(load: &dyn Fn(Vec<u8>) -> Result<(), Error>, files: &[Vec<u8>], fits: bool) -> Duration {
    let files = files.to_vec();
    let (results, time) = thread_time(|| files.into_iter().map(load).collect::<Vec<_>>());
    assert!(results.iter().all(|result| result.is_ok() == fits), "{:?}", results.first());
    time
}

fn grows_in_proportion(
    (name, family): families::Family,
    load: &dyn Fn(Vec<u8>) -> Result<(), Error>,
    few: usize,
    fits: bool,
) {
    // As many nodes on either side.
    let (many, one) = (vec![family(few); STEP], [family(few * STEP)]);
    let (mut small, mut large) = (Duration::MAX, Duration::MAX);
    // The least of a few tries: others work on the machine, too.
    for _ in 0..4 {
        small = small.min(time(load, &many, fits));
        large = large.min(time(load, &one, fits));
        if large <= small * MOST {
            return;
        }
    }
    panic!("{name}: {small:?} for {STEP} models of {few} nodes, {large:?} for one of {}", few * STEP);
}

/// From a quantized model to a package, and from that to a deployment, planned once more.
fn package_and_deploy(bytes: Vec<u8>) -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = DeviceSpec::builtin("metis")?;
    let compiled = compile(&onnx::read_bytes(bytes, None)?, &spec, &CompileOptions::default())?;
    Package::write(&compiled, folder.path())?;
    let package = Package::load(&folder.path().join(MODEL_FILE))?;
    let planned = package.program().replan(&spec, &PlanOptions::default())?;
    assert_eq!(planned.buffers, package.program().buffers);
    Deployment::new(&Device::new(spec)?, package.program(), &DeployOptions::default()).map(drop)
}

#[test]
fn models_of_many_nodes_load_and_run_in_proportion() {
    for family in FAMILIES {
        grows_in_proportion(family, &load_and_run, FEW, true);
    }
}

#[test]
fn models_of_many_inputs_and_outputs_are_refused_in_proportion() {
    for family in REFUSED {
        grows_in_proportion(family, &load_and_run, 2 * FEW, false);
    }
}

#[test]
fn packages_of_many_commands_are_made_and_deployed_in_proportion() {
    grows_in_proportion(("package", families::quantized_chain), &package_and_deploy, FEW / 2, true);
}

#[test]
fn models_of_many_stages_load_and_run_in_proportion() {
    // A stage is a program: each costs what some dozens of nodes do.
    grows_in_proportion(("stages", families::staged), &load_and_run, FEW / 25, true);
}

/// What loading gives when the look of this number is told to stop, and how often it looked.
fn stopped_at(look: usize, bytes: &[u8]) -> (Result<(), Error>, usize) {
    let looks = Cell::new(0);
    let asker = |_| {
        looks.set(looks.get() + 1);
        looks.get() > look
    };
    let asker: &Asker<'_> = &asker;
    let load = || {
        let model = Model::from_bytes(bytes.to_vec(), &ModelOptions::default())?;
        Session::of(model, &SessionOptions::default()).map(|_| ())
    };
    (cancel::during(None, Some(asker), load), looks.get())
}

/// Nodes that loading walks over between two looks, at most.
const OFTEN: usize = 256;

#[test]
fn loading_stops_wherever_it_looks() {
    const COUNT: usize = 4 * OFTEN;
    for (name, family) in FAMILIES {
        let bytes = family(COUNT);
        let (loaded, all) = stopped_at(usize::MAX, &bytes);
        loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
        // Each format is read, and goes through several passes.
        assert!(all > 4 * COUNT / OFTEN, "{name}: {all} looks");
        for look in (0..all).step_by((all / 50).max(1)) {
            let (stopped, looks) = stopped_at(look, &bytes);
            let Err(Error::Compile(triune_compiler::Error::Device(triune_device::Error::Cancelled))) =
                stopped
            else {
                panic!("{name}: {stopped:?} at look {look} of {all}");
            };
            assert!(looks < look + 4, "{name}: stopped at look {look}, and looked {looks} times");
        }
    }
}
