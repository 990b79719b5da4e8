//! The suite over the devices that come with Triune, and over broken ones, which it must not let through.

use triune_device::{DeviceSpec, command::Opcode, spec::TEMPLATE};
use triune_runtime::conformance;

/// Every built-in device but the host, some of those with parameters in their names, and what a user begins with.
fn devices() -> Vec<DeviceSpec> {
    let parametrised = ["buyi-1x3", "scalesim-ws-8x16", "scalesim-os-3x50", "scalesim-is-1x1"];
    let builtin = DeviceSpec::BUILTIN.iter().copied().filter(|&name| name != "host").chain(parametrised);
    let mut devices: Vec<DeviceSpec> =
        builtin.map(|name| DeviceSpec::builtin(name).expect("a built-in device")).collect();
    devices.push(DeviceSpec::own(TEMPLATE).expect("the template is in order"));
    devices
}

#[test]
fn every_device_passes() {
    for spec in devices() {
        let checks = conformance::run(&spec);
        assert_eq!(checks.len(), conformance::names().count());
        for check in checks {
            assert_eq!(check.failed, None, "{} on {}", check.name, spec.name);
        }
    }
}

/// The suite has the commands that programs of usual networks have.
#[test]
fn the_programs_have_the_commands_of_devices() {
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let found = conformance::opcodes(&spec).expect("compiled");
    for opcode in [
        Opcode::Copy,
        Opcode::QConv,
        Opcode::QMatMul,
        Opcode::Pool,
        Opcode::GlobalPool,
        Opcode::QAdd,
        Opcode::QMul,
        Opcode::Table,
        Opcode::QSoftmax,
        Opcode::Resize,
    ] {
        assert!(found.contains(&opcode), "{} is in none of {}", opcode as u16, found.len());
    }
}

/// A device that cannot hold the programs fails, and says why.
#[test]
fn a_device_without_room_fails() {
    let text = TEMPLATE.replace("bytes = 1_073_741_824", "bytes = 2048");
    let spec = DeviceSpec::own(&text).expect("in order by itself");
    let failed: Vec<String> = conformance::run(&spec).into_iter().filter_map(|check| check.failed).collect();
    assert!(!failed.is_empty());
    assert!(failed.iter().all(|text| text.contains("dram")), "{failed:?}");
}
