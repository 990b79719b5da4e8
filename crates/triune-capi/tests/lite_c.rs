//! Programs for `lite-c`, in the form of the vendor's examples, with the core's own results as the reference.

use std::{fs, path::Path};

use support::{build, build_test, command, crate_file, has, run, valgrind};
use triune::{
    Session, SessionOptions, TensorRef,
    internals::graph::format::mge::{
        cipher,
        packed::{self, Packed},
    },
};

mod support;

/// The bytes of an input, and what the core makes of them.
fn reference(model: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut session = Session::open(model, &SessionOptions::default()).unwrap();
    let known = session.model().default_shapes().map(|shapes| shapes[0].to_vec());
    let shape = known.unwrap_or_else(|| vec![3, 4]);
    let input: Vec<f32> = (0..shape.iter().product::<usize>()).map(|at| (at * 7 % 13) as f32 - 5.0).collect();
    let outputs = session.run(&[TensorRef::of(&input, &shape)]).unwrap();
    (input.iter().flat_map(|value| value.to_le_bytes()).collect(), outputs[0].bytes.clone())
}

fn a_model_runs(model: &Path, threads: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("lite_basic.c", folder.path()) else { return };
    let (input, result) = reference(model);
    fs::write(folder.path().join("in.bin"), input).unwrap();
    let said = run(command(&program, folder.path()).arg(model).args(["in.bin", "out.bin", threads]));
    assert_eq!(said, "1 1 1");
    assert!(fs::read(folder.path().join("out.bin")).unwrap() == result);
}

#[test]
fn a_forward_has_the_cores_bits() {
    let model = crate_file("../triune/models/sums.onnx");
    a_model_runs(&model, "1");
    a_model_runs(&model, "2");
}

#[test]
fn megengines_models_run() {
    // A folder of models that are not everywhere.
    let Some(folder) = std::env::var_os("TRIUNE_MGE_MODELS") else {
        eprintln!("skipped: TRIUNE_MGE_MODELS names no folder of MegEngine's models");
        return;
    };
    for name in ["mnist_b1.mge", "qnet_int8.mge"] {
        a_model_runs(&Path::new(&folder).join(name), "2");
    }
}

const LINES: &[&str] = &[
    "tensor: expected a LiteTensor, got one that has been destroyed, or never was one",
    "the tensor is a slice with gaps: copy it to a tensor of its own first",
    "reshape: [5, -1] has another number of elements than [3, 4]",
    "prepared_data: expected at least 48 bytes, got 8",
    "tensor: expected a LiteTensor, got NULL",
    "layout: expected a place for the result, got NULL",
    "not implemented: tensors on device type 1; there is LITE_CPU",
    "no model is loaded",
    "load: 'gone.mge': No such file or directory (os error 2)",
    "not an MGE (MegEngine) model, or a damaged one: packed model: 4 bytes at 0 of 0 are outside",
    "nr_threads: expected 1 to 1024, got 0",
    "network: expected a LiteNetwork, got one that has been destroyed, or never was one",
    "network: expected a LiteNetwork, got one that has been destroyed, or never was one",
];

#[test]
fn tensors_do_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("lite_tensor.c", folder.path()) else { return };
    assert_eq!(run(&mut command(&program, folder.path())).lines().collect::<Vec<_>>(), LINES);
}

/// The edges' model in the forms that `lite_models` reads.
fn forms(folder: &Path) -> Vec<std::path::PathBuf> {
    let model = fs::read(crate_file("../triune/models/edges.onnx")).unwrap();
    let info = r#"{"valid": true, "name": "net", "version": "1.13.0", "has_compression": false, "extra_info": {"who": "me", "a": [1, 2]},
        "device": {"type": "CPU", "device_id": 7, "number_threads": 1, "enable_inplace_model": true},
        "options": {"graph_opt_level": 1}, "IO": {"inputs": [{"name": "image", "io_type": "value", "is_host": true,
        "dtype": "float32", "shape": {"dim0": 1, "dim1": 1, "dim2": 8, "dim3": 8}}]}}"#;
    let encrypted = |name: &str, plain: &[u8]| {
        cipher::encrypt(name, cipher::default_key(name).unwrap(), plain).unwrap().into()
    };
    let packed_by = |parser: &str, info_decryption: &str, info: &[u8]| Packed {
        name: "net".into(),
        info_decryption: info_decryption.into(),
        info_parser: parser.into(),
        model_decryption: "AES_default".into(),
        info: if info_decryption == "NONE" { info.to_vec().into() } else { encrypted(info_decryption, info) },
        model: encrypted("AES_default", &model),
        ..Packed::default()
    };
    let forms = [
        ("plain.onnx", model.clone()),
        ("secret.onnx", model.iter().map(|byte| byte ^ 15).collect()),
        ("packed.lite", packed::write(&packed_by("LITE_default", "RC4_default", info.as_bytes()))),
        ("own.lite", packed::write(&packed_by("mine", "NONE", b"mine:"))),
    ];
    let write = |(name, content): &(&str, Vec<u8>)| {
        fs::write(folder.join(name), content).unwrap();
        folder.join(name)
    };
    forms.iter().map(write).collect()
}

const SAID: &[&str] = &[
    "load: 'gone.mge': No such file or directory (os error 2)",
    "model_path: expected a path, got NULL",
    "ios: expected a place for the result, got NULL",
    "there is no decryption 'swap'; there are AES_default, RC4_default, SIMPLE_FAST_RC4_default; LITE_register_decryption_and_key adds one",
    "there is no decryption 'swap'; there are AES_default, RC4_default, SIMPLE_FAST_RC4_default; LITE_register_decryption_and_key adds one",
    "there is a decryption 'swap' already; LITE_update_decryption_or_key changes it",
    "there is a decryption 'RC4_default' already; LITE_update_decryption_or_key changes it",
    "func: expected a function, got NULL",
    "decrypt_name: expected a name, got NULL",
    "key_data: expected 1 bytes, got NULL",
    "decryption 'swap': expected a size of at most 1048576, got 18446744073709551615",
    "the key of AES_default has 32 bytes, got 2",
    r#"{"a":[1,2],"who":"me"}"#,
    "the extra configuration: a model is loaded already; set it before",
    "packed model 'net': its information is for the parser 'mine'; LITE_register_parse_info_func adds it",
    "there is a parser 'mine' already",
    "there is a parser 'LITE_default' already",
    "dump_layout_transform_model: call LITE_enable_global_layout_transform before loading",
    "TensorRT: a model is loaded already; set it before",
    "dump_tensor_rt_cache: call LITE_set_tensor_rt_cache first, to name a file",
    "set_loader_lib_path: 'FOLDER/plain.onnx' is no shared library",
    "shared memory: a model is loaded already; set it before",
    "shared memory: a model is loaded already; set it before",
    "share_runtime_memroy: a network cannot share with itself",
    "vir_ptr: 0x10100 is in no registered pair on device type 1",
    "vir_ptr: 0x10000 is in no registered pair on device type 0",
    "vir_ptr: 0x10008 overlaps the pair at 0x10000",
    "length: expected at least 1, and no more than there are addresses, got 0",
    "phy_ptr: expected an address, got NULL",
    "backend: expected LITE_DEFAULT, got 1",
    "vir_ptr: there is no pair 0x10000, 0x90001 on device type 1",
    "vir_ptr: there is no pair 0x10000, 0x90000 on device type 1",
];

#[test]
fn models_are_read_in_all_forms() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("lite_models.c", folder.path()) else { return };
    let said = run(command(&program, folder.path()).args(forms(folder.path())));
    let said = said.replace(&folder.path().display().to_string(), "FOLDER");
    assert_eq!(said.lines().collect::<Vec<_>>(), SAID);
}

const LOOKED: &[&str] = &[
    "no model is loaded",
    "profile_json_file_path: expected a path, got NULL",
    "enable_io_txt_dump: cannot write gone/all.txt: there is no folder gone",
    "enable_io_bin_dump: there is no directory 'gone': make it first",
    "get_static_memory_alloc_info: cannot make 'MODEL': File exists (os error 17)",
    "allocate_fun: expected a function, got NULL",
    "free_fun: expected a function, got NULL",
    "the allocator: a model is loaded already; set it before",
    "the program's allocator gave no memory for a tensor of 256 bytes",
    "'x' is no discrete input: name it in LiteConfig.discrete_input_name",
    "discrete_input_name: the model has no input 'other'; there are 'x'",
    "discrete_input_name: the shape of 'x' is open; configure its layout with a LiteIO",
    "'x' has 3 discrete tensors, there is no 3",
    "'x' is no discrete input: name it in LiteConfig.discrete_input_name",
    "'other' is no discrete input: name it in LiteConfig.discrete_input_name",
    "discrete input 'x': sample 1 has another layout than sample 0, or a leading extent that is not 1",
    "tensor: expected a LiteTensor, got one that has been destroyed, or never was one",
    "an async callback and force_output_use_user_specified_memory exclude each other",
    "force_output_use_user_specified_memory: output 'edges' has no memory of the program's, or too little of it: give it 1024 bytes \
     with LITE_reset_tensor_memory",
];

/// The JSON of a file.
fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn networks_can_be_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("lite_looks.c", folder.path()) else { return };
    let [model, sums] = ["edges.onnx", "sums.onnx"].map(|name| crate_file("../triune/models").join(name));
    let said = run(command(&program, folder.path()).args([&model, &sums]));
    let said = said.replace(&model.display().to_string(), "MODEL");
    assert_eq!(said.lines().collect::<Vec<_>>(), LOOKED);

    // All of one run's results, as the core has them.
    let mut session = Session::open(&model, &SessionOptions::default()).unwrap();
    let shapes = session.model().default_shapes().unwrap().to_vec();
    let input: Vec<f32> =
        (0..shapes[0].iter().product::<usize>()).map(|at| (at * 7 % 13) as f32 - 5.0).collect();
    let traced = session.trace(&[TensorRef::of(&input, &shapes[0])]).unwrap();
    let text = fs::read_to_string(folder.path().join("all.txt")).unwrap();
    let said: Vec<&str> = text.lines().filter(|line| line.contains(" produced: name=")).collect();
    assert_eq!(said.len(), traced.len());
    assert!(
        said[0].starts_with(&format!("var1 produced: name={} layout={{1(64),", traced[0].name)),
        "{}",
        said[0]
    );
    assert!(text.contains(" val: [-5, 2, -4, 3, -3, ...]min=-5 max=7 mean="), "{text}");
    for (index, variable) in traced.iter().enumerate() {
        assert!(said[index].contains(&format!("var{} produced: name={} ", 2 * index + 1, variable.name)));
        let record = fs::read(folder.path().join(format!("{:06x}", 2 * index + 1))).unwrap();
        let (words, _) = record[..40].as_chunks();
        let words: Vec<usize> = words.iter().map(|word| u32::from_le_bytes(*word) as usize).collect();
        let number = [("float32", 0), ("uint8", 1), ("int8", 2)];
        let number = number.iter().find(|(name, _)| *name == variable.value.dtype.name()).unwrap().1;
        assert_eq!(words[1..3], [number, 7]);
        assert_eq!(words[3..3 + variable.value.shape.len()], *variable.value.shape);
        let (name, elements) = record[40..].split_at(words[0]);
        assert!(name.starts_with(format!("var={} owner_opr=", variable.name).as_bytes()));
        assert!(elements == variable.value.bytes, "{}", variable.name);
    }

    // Every operator that ran has a time and a place in the drawing.
    let profile = json(&folder.path().join("profile.json"));
    let times = profile["profiler"]["device"].as_object().unwrap();
    assert!(!times.is_empty());
    let mut starts: Vec<(f64, f64)> = times
        .values()
        .map(|time| (time["cpu0:0"]["start"].as_f64().unwrap(), time["cpu0:0"]["end"].as_f64().unwrap()))
        .collect();
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(starts[0].0 == 0.0 && starts.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-12));
    session.prepare(&shapes).unwrap();
    let outline = session.outline();
    let drawn = profile["graph_exec"]["operator"].as_object().unwrap();
    for node in &outline.nodes {
        let (number, _) = drawn.iter().find(|(_, operator)| operator["name"] == *node.name).unwrap();
        assert!(times.contains_key(number), "{}", node.name);
        let footprint = &profile["profiler"]["opr_footprint"][number];
        assert_eq!(footprint["computation"].as_u64(), node.operations, "{}", node.name);
        let read: Vec<&str> = node.inputs.iter().map(|&at| outline.values[at].name.as_str()).collect();
        let drawn: Vec<&str> = drawn[number]["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| {
                profile["graph_exec"]["var"][variable.as_str().unwrap()]["name"].as_str().unwrap()
            })
            .collect();
        assert_eq!(drawn, read, "{}", node.name);
    }

    // The plan is the core's.
    let plan = session.memory_plan(&shapes).unwrap();
    let deep = folder.path().join("plan/deep");
    let said = json(&deep.join("memory.json"));
    assert_eq!(said["peak_memory_size"], plan.bytes);
    assert_eq!(said["inputs"]["image"], 256);
    assert_eq!(said["chunks"].as_array().unwrap().len(), plan.maps.len());
    let info = json(&deep.join("StaticMemoryInfo.json"));
    assert_eq!(info["opr"].as_object().unwrap().len(), plan.operators.len());
    let weights =
        info["chunk"].as_object().unwrap().values().filter(|chunk| chunk["type"] == "weight_mem").count();
    assert_eq!(weights, usize::from(plan.weights > 0));
    // What moves results behind the last operator has a time and no place in the plan.
    let sequences = [json(&deep.join("graph.json")), profile["graph_exec"].clone()]
        .map(|graph| graph["comp_seq"].clone());
    let [planned, ran] = sequences.each_ref().map(|sequence| sequence.as_array().unwrap());
    assert!(planned.len() > outline.nodes.len() && ran.starts_with(planned));
    assert!(fs::read_to_string(deep.join("memory.svg")).unwrap().ends_with("</svg>\n"));
}

#[test]
fn runs_may_be_apart() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("lite_async.c", folder.path()) else { return };
    assert_eq!(
        run(command(&program, folder.path()).arg(crate_file("../triune/models/edges.onnx"))),
        "done\n"
    );
}

#[test]
fn threads_and_children_run_networks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("lite_threads.c", folder.path()) else { return };
    assert_eq!(
        run(command(&program, folder.path()).arg(crate_file("../triune/models/edges.onnx"))),
        "done\n"
    );
}

#[test]
fn valgrind_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    if !has("valgrind") {
        return;
    }
    let Some(program) = build_test("lite_tensor.c", folder.path()) else { return };
    run(&mut valgrind(&program, folder.path()));
    let Some(program) = build_test("lite_basic.c", folder.path()) else { return };
    let model = crate_file("../triune/models/sums.onnx");
    fs::write(folder.path().join("in.bin"), reference(&model).0).unwrap();
    run(valgrind(&program, folder.path()).arg(&model).args(["in.bin", "out.bin", "2"]));
    let Some(program) = build_test("lite_models.c", folder.path()) else { return };
    run(valgrind(&program, folder.path()).args(forms(folder.path())));
    let Some(program) = build_test("lite_async.c", folder.path()) else { return };
    run(valgrind(&program, folder.path()).arg(crate_file("../triune/models/edges.onnx")));
}

#[test]
fn valgrind_finds_nothing_where_networks_are_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    if !has("valgrind") {
        return;
    }
    let Some(program) = build_test("lite_looks.c", folder.path()) else { return };
    let models = ["edges.onnx", "sums.onnx"].map(|name| crate_file("../triune/models").join(name));
    run(valgrind(&program, folder.path()).args(models));
}

#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(&crate_file("examples/lite-c/forward.c"), folder.path()) else { return };
    let said = run(command(&program, folder.path()).arg(crate_file("../triune/models/edges.onnx")));
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn whatever_the_headers_declare_can_be_linked() {
    let folder = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for header in ["tensor_c.h", "network_c.h", "global_c.h"] {
        let text = fs::read_to_string(crate_file("include/lite-c").join(header)).unwrap();
        let declared = text.split("LITE_API ").skip(1).map(|rest| rest.split(['(', ';']).next().unwrap());
        names.extend(declared.map(|text| text.rsplit([' ', '*']).next().unwrap().to_owned()));
    }
    assert_eq!(names.len(), 93, "{names:?}");
    let addresses = names.join(", (void*)&");
    let program = format!(
        "#include \"lite-c/global_c.h\"\nvoid* all[] = {{(void*)&{addresses}}};\nint main(void) {{ return !all[0]; }}\n"
    );
    let source = folder.path().join("all.c");
    fs::write(&source, program).unwrap();
    let Some(program) = build(&source, folder.path()) else { return };
    run(&mut command(&program, folder.path()));
}

#[test]
fn the_pages_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(crate_file("../../docs/c.md")).unwrap();
    let source = page.split("```c\n").nth(2).and_then(|text| text.split("```").next()).unwrap();
    fs::write(folder.path().join("page.c"), source).unwrap();
    let Some(program) = build(&folder.path().join("page.c"), folder.path()) else { return };
    let said = run(command(&program, folder.path()).arg(crate_file("../triune/models/edges.onnx")));
    assert!(said.contains(": "), "{said}");
}
