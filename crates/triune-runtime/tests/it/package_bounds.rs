//! Packages whose description says what cannot be: every number that a deployment relies on is checked when it is read.

use std::{fs, path::Path};

use serde_json::{Value, json};
use triune_device::DeviceSpec;
use triune_runtime::{CompileOptions, Error, MODEL_FILE, Package, Program, compile};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor};

const PARAMS: QuantParams = QuantParams { scale: 0.02, zero_point: 3 };

/// Three convolutions for zg330, with maps in the near memory between them.
fn package(folder: &Path) -> Value {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    for _ in 0..3 {
        let weights = builder.dequantized_constant(&Tensor::i8(&[3, 3, 3, 3], &[1; 81]), &[0.01], 0);
        x = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    }
    let spec = DeviceSpec::builtin("zg330").expect("a built-in device");
    let compiled = compile(&builder.finish(&[x]), &spec, &CompileOptions::default()).expect("a program");
    Package::write(&compiled, folder).expect("a package");
    serde_json::from_slice(&fs::read(folder.join(MODEL_FILE)).expect("model.json")).expect("valid JSON")
}

fn load(folder: &Path, description: &Value) -> Result<Package, Error> {
    let model = folder.join(MODEL_FILE);
    fs::write(&model, description.to_string()).expect("an edited file");
    Package::load(&model)
}

#[track_caller]
fn refused(folder: &Path, description: &Value, words: &str) {
    let error = load(folder, description).expect_err(words).to_string();
    assert!(error.contains(words), "'{error}' does not say '{words}'");
}

/// The description with one number replaced.
fn with(description: &Value, pointer: &str, value: &Value) -> Value {
    let mut changed = description.clone();
    *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value.clone();
    changed
}

#[test]
fn what_stays_in_the_near_memory_keeps_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = package(folder.path());
    let number = |key: &str| good["residency"][key].as_u64().unwrap_or_else(|| panic!("no {key}"));
    let (value, peak, least) = (number("value"), number("peak"), number("lower_bound"));
    let words = "beyond their bounds";
    for (key, wrong, right) in [
        ("bound", value - 1, value),
        ("capacity", peak - 1, peak),
        ("lower_bound", peak + 1, peak),
        ("value", number("bound") + 1, number("bound")),
        // The least that all of them need together; less room than that is no plan of these.
        ("peak", least - 1, peak),
    ] {
        let pointer = format!("/residency/{key}");
        refused(folder.path(), &with(&good, &pointer, &wrong.into()), words);
        load(folder.path(), &with(&good, &pointer, &right.into())).expect("at the bound");
    }
}

#[test]
fn feature_maps_lie_inside_of_the_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = package(folder.path());
    let peak = good["residency"]["peak"].as_u64().expect("a peak");
    let resident = Program::RESIDENT;
    let words = "outside of the memory plan";
    for wrong in [
        json!([resident, peak - 63, 64, 0, 1, 1]),
        json!([resident, peak + 1, 0, 0, 1, 1]),
        json!([resident, u64::MAX, 64, 0, 1, 1]),
        json!([resident, 0, 64, 1, 1, 1]),
        json!([resident, 0, 64, 2, 1, 1]),
        // Nothing of this program lies in the far memory.
        json!([Program::SCRATCH, 0, 64, 0, 1, 1]),
        json!([Program::CONSTANTS, 0, 64, 0, 1, 1]),
        // Nor behind the outputs.
        json!([Program::FIRST_IO + 2, 0, 64, 0, 1, 1]),
    ] {
        refused(folder.path(), &with(&good, "/feature_maps/0", &wrong), words);
    }
    for right in [json!([resident, peak - 64, 64, 0, 1, 1]), json!([resident, 0, peak, 0, 1, 1])] {
        load(folder.path(), &with(&good, "/feature_maps/0", &right)).expect("inside");
    }
    // A segment for what the far memory has no room for, as a package of it says.
    let mut spilling = good;
    spilling["spilled_bytes"] = json!(128);
    for (map, fits) in [
        (json!([Program::FIRST_IO + 2, 64, 64, 0, 1, 1]), true),
        (json!([Program::FIRST_IO + 2, 65, 64, 0, 1, 1]), false),
        (json!([Program::FIRST_IO + 1, 0, 64, 0, 1, 1]), false),
    ] {
        let package = with(&spilling, "/feature_maps/0", &map);
        if fits {
            let program = load(folder.path(), &package).expect("inside");
            assert_eq!(program.program().spilled(), Some(Program::FIRST_IO + 2));
        } else {
            refused(folder.path(), &package, words);
        }
    }
}

#[test]
fn tensors_at_the_border_are_what_they_can_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = package(folder.path());
    let shape = good["inputs"][0]["shape"].as_array().expect("a shape").clone();
    let rows = shape[1].as_u64().expect("rows");
    let channels = shape[3].as_u64().expect("channels");
    for (side, key) in [("inputs", "padding"), ("outputs", "padding")] {
        let at = format!("/{side}/0/{key}");
        let mut padding = good.pointer(&at).expect("padding").clone();
        padding[1] = json!([rows, 1]);
        refused(folder.path(), &with(&good, &at, &padding), "padding that does not fit");
        padding[1] = json!([u64::MAX, 1]);
        refused(folder.path(), &with(&good, &at, &padding), "padding that does not fit");
        padding.as_array_mut().expect("a list").pop();
        refused(folder.path(), &with(&good, &at, &padding), "padding that does not fit");
    }
    for (key, wrong, words) in [
        ("shape", json!([u64::MAX, 2, 1, 1]), "overflows"),
        ("shape", json!([1, 1, 1, 1, 1, 1, 1, 1, 1]), "too many dimensions"),
        ("model_shape", json!([1, 1, 1, 1, 1, 1, 1, 1, 1]), "too many dimensions"),
        ("shape", json!([]), "padding that does not fit"),
        ("scale", json!(0.0), "scale"),
        ("dtype", json!("int7"), "element type"),
    ] {
        refused(folder.path(), &with(&good, &format!("/inputs/0/{key}"), &wrong), words);
    }
    // Blocks that channels fill, and those that they do not.
    for (block, fits) in [(0, false), (channels, true), (channels + 1, false), (1, true)] {
        let mut changed = good.clone();
        changed["inputs"][0]["block"] = block.into();
        match load(folder.path(), &changed) {
            Ok(_) => assert!(fits, "{block} of {channels}"),
            Err(error) => assert!(!fits && error.to_string().contains("blocks"), "{block}: {error}"),
        }
    }
}
