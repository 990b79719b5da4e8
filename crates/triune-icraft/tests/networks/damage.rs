//! Documents with commands that do not hold together: each is refused, and the error says what is wrong with which operator.

use std::{path::Path, sync::Arc};

use triune_compiler::PlanOptions;
use triune_device::DeviceSpec;
use triune_graph::format::xir::{Attribute, Document, Mem, Target};
use triune_icraft::{Error, HardNetwork, HardOps, PROGRAM_TAG, Stages};
use triune_runtime::Device;

use crate::operators::behind;

const HARD_OP: &str = "icraft::xir::HardOp";

fn compiled(device: &str) -> Document {
    let spec = DeviceSpec::builtin(device).unwrap();
    let model = behind(|_, y| vec![y]);
    let stages = Stages::new(&model, None, &spec, &PlanOptions::default()).unwrap();
    let (json, raw) = stages.compiled.write().unwrap();
    Document::read(json.as_bytes(), Some(raw.into())).unwrap()
}

/// The number of the first operator with commands, and its position.
fn hard(document: &Document) -> (i64, usize) {
    let at = document.ops.iter().position(|op| op.type_key == HARD_OP).unwrap();
    (document.ops[at].op_id, at)
}

/// The first constant in a list of an operator with commands that is not empty.
fn constant(document: &Document, key: &str) -> usize {
    let lists = document.ops.iter().filter(|op| op.type_key == HARD_OP).map(|op| &op.attributes[key]);
    for list in lists {
        let Attribute::List(list) = list else { panic!("'{key}' is a list") };
        for item in list {
            let Attribute::Value(index) = item else { panic!("'{key}' has values") };
            let data = document.values[*index].params.as_ref().and_then(|params| params.data.as_ref());
            if data.is_some_and(|data| !data.is_empty()) {
                return *index;
            }
        }
    }
    panic!("nothing in '{key}' has data")
}

fn tag(document: &mut Document) -> &mut serde_json::Value {
    document.tags.get_mut(PROGRAM_TAG).unwrap()
}

type Damage = fn(&mut Document);

/// The words of the error, and what is done to a document.
const DAMAGED: &[(&str, Damage)] = &[
    ("commands of version 1, 2 is read; compile the model again", |d| tag(d)["version"] = 1.into()),
    ("commands of version 3, 2 is read; compile the model again", |d| tag(d)["version"] = 3.into()),
    ("tag 'triune' has no version", |d| tag(d)["version"] = "one".into()),
    ("tag 'triune': missing field `addresses`", |d| {
        tag(d).as_object_mut().unwrap().remove("addresses");
    }),
    ("bytes of constants, of which the document has", |d| tag(d)["constants"] = (1_u64 << 40).into()),
    ("a constant outside of the constants", |d| tag(d)["constants"] = 0.into()),
    ("'params' is no list", |d| {
        let at = hard(d).1;
        d.ops[at].attributes.insert("params".to_owned(), Attribute::Int(1));
    }),
    ("'instr' is no list", |d| {
        let at = hard(d).1;
        d.ops[at].attributes.remove("instr");
    }),
    ("'params' has something without data", |d| {
        let at = hard(d).1;
        d.ops[at].attributes.insert("params".to_owned(), Attribute::List(vec![Attribute::Null]));
    }),
    ("'params' has something without data", |d| {
        let (at, index) = (hard(d).1, d.values.len());
        d.ops[at].attributes.insert("params".to_owned(), Attribute::List(vec![Attribute::Value(index)]));
    }),
    ("'instr' has something without data", |d| {
        let index = constant(d, "instr");
        d.values[index].params.as_mut().unwrap().data = None;
    }),
    ("0xffff is no opcode", |d| {
        let index = constant(d, "instr");
        d.values[index].params.as_mut().unwrap().data = Some(vec![0xFF; 16].into());
    }),
    ("a constant outside of the constants", |d| {
        let index = constant(d, "params");
        d.values[index].mtype = Mem::Host;
    }),
    ("a value that the document does not have", |d| {
        let (at, index) = (hard(d).1, d.values.len());
        d.ops[at].inputs[0] = Some(index);
    }),
    ("a value that lies nowhere in the accelerator's memory", |d| {
        let index = d.ops[hard(d).1].outputs[0];
        d.values[index].mtype = Mem::Host;
    }),
    ("a value that lies nowhere in the accelerator's memory", |d| {
        let index = d.ops[hard(d).1].outputs[0];
        d.values[index].dtype.shape[0] = -1;
    }),
    ("a value that lies nowhere in the accelerator's memory", |d| {
        let index = d.ops[hard(d).1].outputs[0];
        d.values[index].tags.insert("strides".to_owned(), serde_json::json!([1]));
    }),
    ("a value that lies nowhere in the accelerator's memory", |d| {
        let index = d.ops[hard(d).1].outputs[0];
        d.values[index].dtype.shape[0] = i64::MAX;
    }),
];

#[test]
fn damaged_documents_are_refused() {
    let path = Path::new("some/net.json");
    let mut wrong = Vec::new();
    for device in ["zg330", "buyi"] {
        let whole = compiled(device);
        assert!(HardNetwork::new(&whole, path).is_ok(), "{device}");
        for (at, &(words, damage)) in DAMAGED.iter().enumerate() {
            let mut document = whole.clone();
            damage(&mut document);
            for network in [HardNetwork::new(&document, path), HardNetwork::any(&document, path)] {
                match network {
                    Err(error @ Error::Package { .. }) => {
                        let text = error.to_string();
                        if !(text.starts_with("some/net.json: ") && text.contains(words)) {
                            wrong.push(format!("{at} on {device}, '{words}': {text}"));
                        }
                    }
                    Err(error) => wrong.push(format!("{at} on {device}, '{words}': {error:?}")),
                    Ok(_) => wrong.push(format!("{at} on {device}: read all the same; wanted '{words}'")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn commands_of_others_are_no_program() {
    let mut document = compiled("zg330");
    let has_commands = |document: &Document| document.ops.iter().any(|op| op.type_key == HARD_OP);
    assert!(has_commands(&document));
    document.tags.remove(PROGRAM_TAG);
    let error = HardNetwork::new(&document, Path::new("net.json")).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(
        error.to_string().contains("net.json: its instructions are the vendor's machine code"),
        "{error}"
    );
    document.ops.retain(|op| op.target == Target::Host && op.type_key != HARD_OP);
    assert!(!has_commands(&document));
}

#[test]
fn operators_and_values_that_are_not_there_are_named() {
    let document = compiled("zg330");
    let network = Arc::new(HardNetwork::new(&document, Path::new("net.json")).unwrap());
    let most = document.ops.iter().map(|op| op.op_id).max().unwrap();
    assert_eq!(network.last_op(), most);
    assert!(!network.is_vendors() && network.is_complete());
    let device = Device::new(DeviceSpec::builtin("zg330").unwrap()).unwrap();
    let hard_ops = HardOps::new(&device, &network, 1).unwrap();
    let ids: Vec<i64> = network.op_ids().collect();
    let (inputs, outputs) = hard_ops.operands(ids[0]).unwrap();
    let (read, made) = (inputs[0], outputs[0]);
    let missing = most + 1;
    let argument = |error: Error, words: &str| {
        assert!(matches!(error, Error::Compile(triune_compiler::Error::Argument(_))), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let no_op = format!("{missing} is no HardOp of the network");
    argument(hard_ops.operands(missing).unwrap_err(), &no_op);
    argument(hard_ops.run(missing, missing).unwrap_err(), &no_op);
    argument(hard_ops.run(ids[0], missing).unwrap_err(), &no_op);
    argument(hard_ops.forward(missing, ids[0], &[], &mut []).unwrap_err(), &no_op);
    if let [first, .., last] = ids[..] {
        argument(hard_ops.run(last, first).unwrap_err(), "the first operator comes behind the last");
    }
    let no_value = "no HardOp of the network reads or makes value -77";
    argument(hard_ops.extents(-77).unwrap_err(), no_value);
    argument(hard_ops.bytes(-77).unwrap_err(), no_value);
    argument(hard_ops.write(-77, &[]).unwrap_err(), no_value);
    argument(hard_ops.read(-77, &mut []).unwrap_err(), no_value);
    for v_id in [read, made] {
        let bytes = hard_ops.bytes(v_id).unwrap();
        assert_eq!(hard_ops.extents(v_id).unwrap().iter().product::<usize>(), bytes);
        let expected = format!("value {v_id}: expected {bytes} bytes of");
        for wrong in [bytes - 1, bytes + 1] {
            for error in [
                hard_ops.write(v_id, &vec![0; wrong]).unwrap_err(),
                hard_ops.read(v_id, &mut vec![0; wrong]).unwrap_err(),
                hard_ops.forward(ids[0], ids[0], &[(v_id, &vec![0; wrong])], &mut []).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Operand { .. }), "{error}");
                assert!(error.to_string().starts_with(&expected), "{error}");
                assert!(error.to_string().ends_with(&format!("got {wrong} bytes")), "{error}");
            }
        }
        let given: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut back = vec![0; bytes];
        hard_ops.write(v_id, &given).unwrap();
        hard_ops.read(v_id, &mut back).unwrap();
        assert!(back == given);
    }
}
