//! What a package's description is refused for: each row changes one thing of one that is right, and the error says which.

use std::{fs, path::Path};

use serde_json::{Value, json};
use triune_device::DeviceSpec;
use triune_runtime::{CompileOptions, Error, MODEL_FILE, Package, compile};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor};

/// Three convolutions, so that there are feature maps between them.
fn package(folder: &Path) -> Value {
    let params = QuantParams { scale: 0.02, zero_point: 3 };
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let mut x = builder.quantize_dequantize(x, params, DType::I8);
    for _ in 0..3 {
        let weights = builder.dequantized_constant(&Tensor::i8(&[3, 3, 3, 3], &[1; 81]), &[0.01], 0);
        x = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(x, params, DType::I8);
    }
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let compiled = compile(&builder.finish(&[x]), &spec, &CompileOptions::default()).expect("a program");
    Package::write(&compiled, folder).expect("a package");
    let text = fs::read_to_string(folder.join(MODEL_FILE)).expect("model.json");
    serde_json::from_str(&text).expect("valid JSON")
}

/// Where in the description, what is put there (`null`: it goes), and words of the error.
type Row = (&'static str, Value, &'static [&'static str]);

fn rows() -> Vec<Row> {
    vec![
        // The whole.
        ("/target", json!("moon"), &["unknown target 'moon'"]),
        ("/target", Value::Null, &["missing field `target`"]),
        ("/batch", json!(0), &["a batch of 0 on 4 cores"]),
        ("/batch", json!(5), &["a batch of 5 on 4 cores"]),
        ("/batch", json!(-1), &["-1"]),
        ("/scratch_bytes", json!("many"), &["\"many\""]),
        ("/operators", Value::Null, &["missing field `operators`"]),
        // Payloads.
        ("/instructions", Value::Null, &["missing field `instructions`"]),
        (
            "/instructions/file",
            json!("../instructions.bin"),
            &["payload name '../instructions.bin' is not a plain"],
        ),
        ("/instructions/file", json!("/etc/passwd"), &["payload name '/etc/passwd' is not a plain"]),
        ("/instructions/file", json!(""), &["payload name '' is not a plain"]),
        ("/instructions/file", json!("."), &["payload name '.' is not a plain"]),
        ("/constants/file", json!("nothing.bin"), &["nothing.bin"]),
        ("/constants/bytes", json!(1), &["constants.bin", "instead of 1: truncated or edited"]),
        ("/constants/sha256", json!("00"), &["constants.bin", "its SHA-256 is not the one in model.json"]),
        ("/constants/file", json!("instructions.bin"), &["instructions.bin", "truncated or edited"]),
        ("/preprocess_graph", json!({"file": "gone.onnx", "bytes": 1, "sha256": ""}), &["gone.onnx"]),
        // Tensors.
        ("/inputs/0/dtype", json!("int9"), &["tensor 'x'", "unknown element type"]),
        ("/inputs/0/shape", json!(vec![1; 9]), &["tensor 'x'", "too many dimensions"]),
        ("/inputs/0/model_shape", json!(vec![1; 9]), &["tensor 'x'", "too many dimensions"]),
        ("/inputs/0/shape", json!([1_u64 << 40, 1_u64 << 40, 8, 8]), &["tensor 'x'", "its size overflows"]),
        ("/inputs/0/shape", json!([1, -8, 8, 8]), &["-8"]),
        ("/inputs/0/padding", json!([[0, 0]]), &["tensor 'x'", "padding that does not fit the shape"]),
        ("/inputs/0/padding/1", json!([99, 0]), &["padding that does not fit the shape"]),
        ("/inputs/0/padding/1", json!([1, u64::MAX]), &["padding that does not fit the shape"]),
        ("/inputs/0/scale", json!(0.0), &["tensor 'x'", "a scale that is not positive"]),
        ("/inputs/0/scale", json!(-1.0), &["a scale that is not positive"]),
        ("/inputs/0/scale", json!(1e300), &["a scale that is not positive"]),
        ("/inputs/0/zero_point", json!(128), &["tensor 'x'", "a zero point outside of int8"]),
        ("/outputs/0/zero_point", json!(-129), &["a zero point outside of int8"]),
        ("/inputs/0/block", json!(0), &["tensor 'x'", "blocks that its channels do not fill"]),
        ("/inputs/0/block", json!(7), &["blocks that its channels do not fill"]),
        // The memory plan.
        ("/residency/policy", json!("luck"), &["unknown residency policy 'luck'"]),
        ("/residency/value", json!(1_u64 << 60), &["resident feature maps beyond their bounds"]),
        ("/residency/peak", json!(1_u64 << 60), &["resident feature maps beyond their bounds"]),
        ("/residency/lower_bound", json!(1_u64 << 60), &["resident feature maps beyond their bounds"]),
        ("/feature_maps/0/0", json!(4), &["a feature map outside of the memory plan"]),
        ("/feature_maps/0/1", json!(u64::MAX), &["a feature map outside of the memory plan"]),
        ("/feature_maps/0/2", json!(1_u64 << 60), &["a feature map outside of the memory plan"]),
        ("/feature_maps/0/4", json!(0), &["a feature map outside of the memory plan"]),
        // Operators.
        ("/operators/0/commands", json!([2, 1]), &["operator", "commands 2 to 1"]),
        ("/operators/0/commands", json!([0]), &["invalid length 1"]),
        ("/operators/0/name", json!(3), &["invalid type"]),
    ]
}

#[test]
fn each_wrong_field_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = package(folder.path());
    let model = folder.path().join(MODEL_FILE);
    let mut wrong = Vec::new();
    for (place, value, words) in rows() {
        let mut json = good.clone();
        if value.is_null() {
            json.as_object_mut().expect("an object").remove(&place[1..]).expect("it is there");
        } else if let Some(there) = json.pointer_mut(place) {
            *there = value.clone();
        } else {
            let (parent, key) = place.rsplit_once('/').expect("a place");
            let parent = json.pointer_mut(parent).and_then(Value::as_object_mut).expect("a parent");
            parent.insert(key.into(), value.clone());
        }
        fs::write(&model, json.to_string()).expect("an edited file");
        match Package::load(&model) {
            Ok(_) => wrong.push(format!("{place} = {value} is loaded")),
            Err(error) => {
                let text = error.to_string();
                let named = matches!(error, Error::Package { .. } | Error::File(_));
                if !named || !words.iter().all(|word| text.contains(word)) {
                    wrong.push(format!("{place} = {value}: {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    fs::write(&model, good.to_string()).expect("the file again");
    Package::load(&model).expect("it is right again");
}
