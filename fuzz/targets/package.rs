//! Packages on disk: one file of a good one is replaced, which the first byte chooses; what loads is deployed, and run if it
//! is small.
#![no_main]

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use triune::internals::{
    device::DeviceSpec,
    runtime::{DeployOptions, Deployment, Device, MODEL_FILE, Package, TensorIo},
};

/// A good package, and its files with what they hold.
static GOOD: LazyLock<(TempDir, Vec<(PathBuf, Vec<u8>)>)> = LazyLock::new(triune_fuzz::package);

static DEVICE: LazyLock<Arc<Device>> =
    LazyLock::new(|| Device::new(DeviceSpec::builtin("metis").expect("a device")).expect("a device"));

/// More bytes at the border are not worth the time.
const MOST: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, contents)) = data.split_first() else { return };
    let (folder, files) = &*GOOD;
    let (path, good) = &files[usize::from(choice) % files.len()];
    let model = folder.path().join(MODEL_FILE);
    let (_, description) = files.iter().find(|(path, _)| *path == model).expect("a description");
    fs::write(path, contents).expect("a file");
    if *path != model {
        // A payload that is not what was written is refused: let it be so.
        let name = path.file_name().expect("a name").to_string_lossy();
        fs::write(&model, triune_fuzz::signed(description, &name, contents)).expect("a file");
    }
    if let Ok(package) = Package::load(&model) {
        run(&package);
    }
    fs::write(path, good).expect("a file");
    fs::write(&model, description).expect("a file");
});

fn run(package: &Package) {
    let program = package.program();
    let Ok(mut deployment) = Deployment::new(&DEVICE, program, &DeployOptions::default()) else { return };
    let sizes = |ios: &[TensorIo]| -> Vec<usize> { ios.iter().map(TensorIo::bytes).collect() };
    let (inputs, outputs) = (sizes(&program.inputs), sizes(&program.outputs));
    if inputs.iter().chain(&outputs).any(|&bytes| bytes > MOST) {
        return;
    }
    let inputs: Vec<Vec<u8>> = inputs.into_iter().map(|bytes| vec![1; bytes]).collect();
    let mut outputs: Vec<Vec<u8>> = outputs.into_iter().map(|bytes| vec![0; bytes]).collect();
    let sources: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let _ = deployment.run(&sources, &mut targets);
}
