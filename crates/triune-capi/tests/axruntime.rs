//! Programs for `axruntime/axruntime.h`, in the form of the vendor's examples, with the core's own results as the reference.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use support::{build, build_test, command, crate_file, has, run, valgrind};
use tempfile::TempDir;
use triune::{CompileOptions, DeployOptions, Deployment, Device, DeviceSpec, Package};

mod support;

struct Case {
    folder: TempDir,
    model: PathBuf,
    result: Vec<u8>,
}

/// A package, the bytes of an input, and what the core makes of them.
fn case() -> Case {
    let folder = tempfile::tempdir().unwrap();
    let spec = DeviceSpec::builtin("metis").unwrap();
    let edges = crate_file("../triune/models/edges.onnx");
    let compiled = triune::compile(&edges, &spec, &CompileOptions::default()).unwrap();
    Package::write(&compiled, &folder.path().join("edges")).unwrap();
    let program = Arc::new(compiled.program);
    let input: Vec<u8> = (0..program.inputs[0].bytes()).map(|at| (at * 37 % 251) as u8).collect();
    let mut result = vec![0; program.outputs[0].bytes()];
    let device = Device::new(spec).unwrap();
    let mut deployment = Deployment::new(&device, &program, &DeployOptions::default()).unwrap();
    deployment.run(&[&input], &mut [&mut result]).unwrap();
    assert!(result.iter().any(|&byte| byte != result[0]), "the picture has edges");
    fs::write(folder.path().join("in.bin"), input).unwrap();
    Case { model: folder.path().join("edges/model.json"), folder, result }
}

impl Case {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn output(&self) -> Vec<u8> {
        fs::read(self.path().join("out.bin")).unwrap()
    }
}

#[test]
fn a_frame_has_the_cores_bits() {
    let case = case();
    let Some(program) = build_test("axr_image.cpp", case.path()) else { return };
    for properties in ["", ";double_buffer=1", "\nhost_profiling=1;"] {
        let said =
            run(command(&program, case.path()).arg(&case.model).args(["in.bin", "out.bin", properties]));
        assert_eq!(case.output(), case.result, "{properties}");
        let package = Package::load(&case.model).unwrap();
        let io = &package.program().given()[0];
        assert!(said.starts_with(&io.name), "{said}");
        assert!(said.trim_end().ends_with(&format!("8 1 {} {}", io.scale, io.zero_point)), "{said}");
    }
}

#[test]
fn a_model_without_a_manifest_says_nothing_of_its_quantization() {
    let case = case();
    let Some(program) = build_test("axr_image.cpp", case.path()) else { return };
    fs::remove_file(case.model.with_file_name("manifest.json")).unwrap();
    let said = run(command(&program, case.path()).arg(&case.model).args(["in.bin", "out.bin"]));
    assert!(said.trim_end().ends_with("8 1 1 0"), "{said}");
    assert_eq!(case.output(), case.result);
}

#[test]
fn two_threads_run_one_model() {
    let case = case();
    let Some(program) = build_test("axr_threads.cpp", case.path()) else { return };
    run(command(&program, case.path()).arg(&case.model).args(["in.bin", "out.bin"]));
    assert_eq!(case.output(), case.result);
}

/// The lines of a program that does everything wrong, without what differs between machines.
const WRONG: &[&str] = &[
    "no context: AXR_ERROR_INVALID_ARGUMENT: context: expected an object, got NULL",
    "nothing yet: 0 ''",
    "NULL path: AXR_ERROR_INVALID_ARGUMENT: path: expected a model.json file, got NULL",
    "folder: AXR_ERROR_INVALID_ARGUMENT: path: expected a model.json file, got the directory 'edges'; try 'edges/model.json'",
    "onnx: AXR_ERROR_INVALID_ARGUMENT: path: expected a model.json file, got the ONNX file 'edges.onnx'; compile it with \
         `triune compile edges.onnx --target metis -o DIR` and load DIR/model.json",
    "gone: AXR_ERROR_INVALID_ARGUMENT: path: expected a model.json file, got 'gone/model.json', which does not exist",
    "no such input: AXR_ERROR_INVALID_ARGUMENT: n: the model has 1 inputs, got 7",
    "another kind: AXR_ERROR_INVALID_ARGUMENT: model: expected an axrModel, got an axrContext",
    "properties: input_tensor_layout;postamble_graph;preamble_graph; NHWC",
    "NULL value: AXR_ERROR_INVALID_ARGUMENT: axr_set_property: expected a key and a value, got NULL",
    "devices: 1 metis-0:1:0 4 pcie",
    "no such device: AXR_ERROR_INVALID_ARGUMENT: device: no device named 'nobody'; the devices are metis-0:1:0",
    "too many: AXR_ERROR_INVALID_ARGUMENT: num_sub_devices: expected 1 to 4, got 9",
    "no such clock: AXR_ERROR_VALUE_ERROR: clock_profile: expected an integer from 20 to 1000 (MHz), got \"1\"",
    "clock: 800",
    "unknown property: AXR_ERROR_INVALID_ARGUMENT: unknown property 'sub_devices'; valid are aipu_cores, num_sub_devices, \
         input_dmabuf, device_profiling, host_profiling, output_dmabuf, double_buffer, elf_in_ddr",
    "no flag: AXR_ERROR_INVALID_ARGUMENT: double_buffer: expected 0 or 1, got 'yes'",
    "NULL model: AXR_ERROR_INVALID_ARGUMENT: model: expected an object, got NULL",
    "no sub-device left: AXR_ERROR_INVALID_ARGUMENT: num_sub_devices: expected at most 0 (the connection has 1, its other \
         instances hold 1; release them or connect to more), got 1",
    "NULL inputs: AXR_ERROR_INVALID_ARGUMENT: inputs: expected an array of 1 axrArgument, got NULL",
    "no inputs: AXR_ERROR_INVALID_ARGUMENT: inputs: expected 1 (INPUT), got 0",
    "another size: AXR_ERROR_INVALID_ARGUMENT: inputs[0].size: expected BYTES bytes for tensor 'INPUT', got 1",
    "an offset: AXR_ERROR_INVALID_ARGUMENT: inputs[0].offset: expected 0, got 4",
    "one memory: AXR_ERROR_INVALID_ARGUMENT: outputs[0]: expected memory that nobody else uses, got some that is given twice",
    "NULL memory: AXR_ERROR_INVALID_ARGUMENT: outputs[0].ptr: expected WRITTEN bytes for tensor 'OUTPUT', got NULL",
    "descriptors: the same",
    "no descriptor: AXR_ERROR_INVALID_ARGUMENT: inputs[0].fd: expected a dma-buf file descriptor, got -1",
    "a child: 0",
    "destroyed with its connection: AXR_ERROR_INVALID_ARGUMENT: instance: expected an object, got what has been destroyed, or \
         never was one",
    "logged: all",
];

fn wrong_expected(case: &Case) -> Vec<String> {
    let package = Package::load(&case.model).unwrap();
    let (given, result) = (&package.program().given()[0], &package.program().results()[0]);
    let lines = WRONG.iter().map(|line| {
        line.replace("INPUT'", &format!("{}'", given.name))
            .replace("(INPUT)", &format!("({})", given.name))
            .replace("OUTPUT'", &format!("{}'", result.name))
            .replace("BYTES", &given.bytes().to_string())
            .replace("WRITTEN", &result.bytes().to_string())
    });
    lines.collect()
}

#[test]
fn whatever_is_wrong_gets_its_code_and_text() {
    let case = case();
    let Some(program) = build_test("axr_wrong.c", case.path()) else { return };
    fs::write(case.path().join("edges.onnx"), b"").unwrap();
    let said = run(command(&program, case.path()).args(["edges/model.json", "edges", "edges.onnx"]));
    assert_eq!(said.lines().collect::<Vec<_>>(), wrong_expected(&case));
}

#[test]
fn valgrind_finds_nothing() {
    let case = case();
    if !has("valgrind") {
        return;
    }
    let Some(program) = build_test("axr_image.cpp", case.path()) else { return };
    run(valgrind(&program, case.path()).arg(&case.model).args(["in.bin", "out.bin", ";double_buffer=1"]));
    assert_eq!(case.output(), case.result);
    let Some(program) = build_test("axr_wrong.c", case.path()) else { return };
    fs::write(case.path().join("edges.onnx"), b"").unwrap();
    run(valgrind(&program, case.path()).args(["edges/model.json", "edges", "edges.onnx"]));
}

#[test]
fn the_example_runs() {
    let case = case();
    let Some(program) = build(&crate_file("examples/axruntime/classify.cpp"), case.path()) else { return };
    fs::write(case.path().join("pixels.u8"), vec![200; 64]).unwrap();
    let said = run(command(&program, case.path()).arg(&case.model).arg("pixels.u8"));
    assert_eq!(said.lines().count(), 4 * 8 * 8, "what the model gives, without the padding");
}

/// The names of all functions that the header declares.
fn declared() -> Vec<String> {
    let header = fs::read_to_string(crate_file("include/axruntime/axruntime.h")).unwrap();
    let functions = header.split("AXR_EXPORT ").skip(2);
    let name = |text: &str| text.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned();
    functions.map(name).collect()
}

#[test]
fn whatever_the_header_declares_can_be_linked() {
    let folder = tempfile::tempdir().unwrap();
    let names = declared();
    assert_eq!(names.len(), 28, "{names:?}");
    let addresses = format!("(void*)&{}", names.join(", (void*)&"));
    let program = format!(
        "#include <stdio.h>\n#include \"axruntime/axruntime.h\"\nstatic void* all[] = {{{addresses}}};\n\
         int main(void) {{ printf(\"%zu\", sizeof all / sizeof *all); return 0; }}\n"
    );
    let source = folder.path().join("all.c");
    fs::write(&source, program).unwrap();
    let Some(program) = build(&source, folder.path()) else { return };
    assert_eq!(run(&mut command(&program, folder.path())), "28");
}

#[test]
fn several_cards_are_listed_with_all_fields() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build_test("axr_devices.c", folder.path()) else { return };
    let said = run(command(&program, folder.path()).env("TRIUNE_CARDS", "pcie,m2"));
    let version = concat!("v", env!("CARGO_PKG_VERSION"), "-triune");
    assert_eq!(
        said,
        format!(
            "metis-0:1:0 4 4294967296 2 pcie {version} 0 {version} '' ''\nmetis-0:2:0 4 1073741824 1 m2 {version} 0 {version} '' ''\n"
        )
    );
}

/// The page's program, with what pkg-config says of an installation.
#[test]
fn the_pages_program_runs_from_an_installation() {
    let case = case();
    if !has("pkg-config") || !has("cc") {
        return;
    }
    let page = fs::read_to_string(crate_file("../../docs/c.md")).unwrap();
    let source = page.split("```c\n").nth(1).and_then(|text| text.split("```").next()).unwrap();
    fs::write(case.path().join("page.c"), source).unwrap();
    let pc = fs::read_to_string(crate_file("triune-capi.pc.in")).unwrap();
    let prefix = case.path().join("prefix");
    fs::create_dir_all(&prefix).unwrap();
    std::os::unix::fs::symlink(support::library(), prefix.join("lib")).unwrap();
    std::os::unix::fs::symlink(crate_file("include"), prefix.join("include")).unwrap();
    let pc = pc.replace("@PREFIX@", prefix.to_str().unwrap()).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(case.path().join("triune-capi.pc"), pc).unwrap();
    let mut line = command(Path::new("sh"), case.path());
    let compile =
        "cc page.c $(PKG_CONFIG_PATH=. pkg-config --cflags --libs triune-capi) -Wl,-rpath,prefix/lib -o page";
    run(line.args(["-c", compile]));
    let said = run(command(&case.path().join("page"), case.path()).arg(&case.model));
    assert_eq!(said, format!("AXR_SUCCESS: {} bytes\n", case.result.len()));
}
