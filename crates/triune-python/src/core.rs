//! What the core does in several steps and Python in one: compile a file, deploy to a card.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use triune::{
    device::DeviceSpec,
    graph::format::onnx,
    runtime::{self, CompileOptions, DeployOptions, Deployment, Device, Error, Package, Program, card::Card},
};

/// The simulated devices of this process by card: all that is deployed to one card shares its memory.
static DEVICES: LazyLock<Mutex<HashMap<String, Weak<Device>>>> = LazyLock::new(Mutex::default);

fn device(card: &Card) -> Result<Arc<Device>, Error> {
    let spec = card.spec();
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = devices.get(&spec.name).and_then(Weak::upgrade) {
        return Ok(device);
    }
    let device = Device::new(DeviceSpec::builtin(&spec.device)?)?;
    devices.insert(spec.name.clone(), Arc::downgrade(&device));
    Ok(device)
}

/// Deploys a program to cores of a card, timed at the slowest one's clock; each core's clock must be one that the device has.
pub(crate) fn deploy(
    card: &Card,
    program: &Arc<Program>,
    cores: Vec<u32>,
    threads: usize,
) -> Result<Deployment, Error> {
    let settings = card.settings()?;
    let device = device(card)?;
    let clock = |&core: &u32| settings.clock_mhz(core as usize);
    if let Some(core) = cores.iter().find(|&core| !device.spec().allows_clock(clock(core))) {
        return Err(Error::Target(format!(
            "{}: core {core} is set to {} MHz, at which a {} does not run",
            card.spec().name,
            clock(core),
            card.spec().device
        )));
    }
    let clock_mhz = cores.iter().map(clock).min();
    Deployment::new(&device, program, &DeployOptions { threads, cores, clock_mhz })
}

/// Deploys a program to an empty device of its kind, to ask what it costs.
pub(crate) fn timed(program: &Arc<Program>, clock_mhz: Option<u32>) -> Result<Deployment, Error> {
    let device = Device::new(DeviceSpec::builtin(&program.target)?)?;
    Deployment::new(&device, program, &DeployOptions { clock_mhz, ..DeployOptions::default() })
}

/// Compiles an ONNX file into a package, and says what was found and chosen.
pub(crate) fn compile(
    model: &Path,
    target: &str,
    output: &Path,
    batch: usize,
) -> Result<BTreeMap<&'static str, u64>, Error> {
    let spec = DeviceSpec::builtin(target)?;
    let compiled = runtime::compile(&onnx::read(model)?, &spec, &CompileOptions { batch })?;
    Package::write(&compiled, output)?;
    let found = &compiled.summary;
    Ok(BTreeMap::from([
        ("device_nodes", found.device_nodes as u64),
        ("preprocess_nodes", found.preprocess_nodes as u64),
        ("postprocess_nodes", found.postprocess_nodes as u64),
        ("commands", found.commands as u64),
        ("constant_bytes", found.constant_bytes),
        ("scratch_bytes", found.scratch_bytes[0]),
        ("scratch_lower_bound", found.scratch_bytes[1]),
    ]))
}
