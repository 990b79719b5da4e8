//! A compiled program on disk: a directory with `model.json`, `manifest.json`, payload files and host graphs.
//!
//! `model.json` is Triune's own (schema, version, border tensors, payloads with their SHA-256); `manifest.json` has the
//! field names that programs for the vendor's compiled models read. Payloads are laid out for mapping: every piece in
//! them starts at a multiple of 64 bytes.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use triune_device::DeviceSpec;
use triune_files::{DATA_LIMIT, FileSet, FolderLock, Input};
use triune_graph::format::onnx;
use triune_tensor::text::Name;

use crate::{
    BetweenPart, CompileOptions, Compiled, Error, Program, SessionOptions, Share, TensorIo, fold_constants,
    target,
};

pub(crate) mod description;

use description::Description;

/// Name of the file that `load` takes.
pub const MODEL_FILE: &str = "model.json";
const MANIFEST_FILE: &str = "manifest.json";
/// The settings that the vendor's compiler leaves beside its models, as far as they mean something here.
const SETTINGS_FILE: &str = "compile_config.json";
const SCHEMA: &str = "triune-program";
/// Goes up with every change of the command set or of how programs run; no other version is read.
const VERSION: u32 = 5;
/// `model.json` of the largest networks has some hundred kilobytes.
const MAX_MODEL_JSON: u64 = 64 << 20;

/// A program as loaded from its directory.
#[derive(Clone, Debug)]
pub struct Package {
    program: Arc<Program>,
    directory: PathBuf,
    preprocess: Option<String>,
    between: Vec<String>,
    postprocess: Option<String>,
    shares: Option<[Share; 2]>,
}

#[derive(Serialize, Deserialize)]
struct ModelJson {
    schema: String,
    schema_version: u32,
    producer: String,
    #[serde(flatten)]
    program: Description,
    instructions: PayloadJson,
    constants: PayloadJson,
    preprocess_graph: Option<PayloadJson>,
    /// One for each of the program's waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    between_graphs: Vec<PayloadJson>,
    postprocess_graph: Option<PayloadJson>,
    /// Operators and multiply-accumulates on the device and on the host, per image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shares: Option<[(usize, u64); 2]>,
}

#[derive(Serialize, Deserialize)]
struct PayloadJson {
    file: String,
    bytes: u64,
    sha256: String,
}

impl Package {
    /// Compiles an ONNX file for the device that `target` names, and writes the package into `directory`. Errors call the file
    /// `title`.
    ///
    /// # Errors
    /// As [`target::device`], [`triune_compiler::compile`] and [`Self::write`].
    pub fn compile(
        model: &Path,
        title: &Path,
        target: &Path,
        directory: &Path,
        options: &CompileOptions,
    ) -> Result<Compiled, Error> {
        let spec = target::device(target)?;
        let graph = fold_constants(onnx::read_titled(model, title)?)?;
        let compiled = triune_compiler::compile(&graph, &spec, options)?;
        Self::write(&compiled, directory)?;
        Ok(compiled)
    }

    /// Writes a compiled model into `directory`, which is made if it is not there; files of the same names are replaced, all at
    /// once, and graphs of the host that a package in their place had besides are taken away.
    ///
    /// # Errors
    /// [`Error::File`] names the file; then those that were there are still there.
    pub fn write(compiled: &Compiled, directory: &Path) -> Result<Self, Error> {
        let program = &compiled.program;
        if let Some(spec) = &program.device
            && DeviceSpec::builtin(&spec.name).is_ok()
        {
            return Err(Error::argument(format!(
                "'{}' is a device that comes with Triune, and this one differs from it; a package for it needs a name of its own",
                Name(&spec.name)
            )));
        }
        let mut files = FileSet::create(directory)?;
        let mut written = Vec::new();
        let mut put = |name: &str, bytes: &[u8]| -> Result<PayloadJson, Error> {
            files.add(name, bytes)?;
            written.push(name.to_owned());
            Ok(PayloadJson { file: name.into(), bytes: bytes.len() as u64, sha256: digest(bytes) })
        };
        let model = ModelJson {
            schema: SCHEMA.into(),
            schema_version: VERSION,
            producer: format!("triune {}", env!("CARGO_PKG_VERSION")),
            program: Description::of(program),
            instructions: put("instructions.bin", &program.instructions)?,
            constants: put("constants.bin", &program.constants)?,
            preprocess_graph: match &compiled.preprocess {
                Some(graph) => Some(put("preprocess_graph.onnx", graph)?),
                None => None,
            },
            between_graphs: (0..compiled.between.len())
                .map(|wait| put(&format!("between_graph_{wait}.onnx"), &compiled.between[wait]))
                .collect::<Result<_, Error>>()?,
            postprocess_graph: match &compiled.postprocess {
                Some(graph) => Some(put("postprocess_graph.onnx", graph)?),
                None => None,
            },
            shares: Some([compiled.report.device, compiled.report.host].map(|own| (own.operators, own.macs))),
        };
        let manifest = manifest(program, &model);
        put(MANIFEST_FILE, json(&manifest).as_bytes())?;
        if let Some(settings) = settings(program, &model) {
            put(SETTINGS_FILE, json(&settings).as_bytes())?;
        }
        put(MODEL_FILE, json(&serde_json::to_value(&model).unwrap_or_default()).as_bytes())?;
        // Held while it is read back: another compiler may write into the same directory.
        let replaced = is_package(directory);
        let _lock = files.commit()?;
        if replaced {
            for name in parts(directory).filter(|name| !written.contains(name)) {
                let path = directory.join(name);
                fs::remove_file(&path).map_err(|source| triune_files::Error::Write { path, source })?;
            }
        }
        Self::load_locked(&directory.join(MODEL_FILE))
    }

    /// Loads the package whose `model.json` is at `path`, and checks every payload's size and SHA-256.
    ///
    /// [`Error::Foreign`] for another compiler's model, [`Error::Package`] for a truncated, edited or newer package.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let _lock = FolderLock::to_read(path.parent().unwrap_or(Path::new("")));
        Self::load_locked(path)
    }

    fn load_locked(path: &Path) -> Result<Self, Error> {
        let text = triune_files::read(path, MAX_MODEL_JSON)?;
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let _room = triune_graph::format::json::room(&text)?;
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| {
            Error::package(path, format!("not valid JSON ({error}); compile the model again"))
        })?;
        check_schema(path, &directory, &value)?;
        let model: ModelJson = serde_json::from_value(value)
            .map_err(|error| Error::package(path, format!("{error}; compile the model again")))?;
        let instructions = payload(&directory, &model.instructions)?;
        let constants = payload(&directory, &model.constants)?;
        let graph = |payload_json: &Option<PayloadJson>| -> Result<Option<String>, Error> {
            let Some(json) = payload_json else { return Ok(None) };
            payload(&directory, json)?;
            Ok(Some(json.file.clone()))
        };
        let (preprocess, postprocess) = (graph(&model.preprocess_graph)?, graph(&model.postprocess_graph)?);
        let between =
            model.between_graphs.into_iter().map(|json| Ok(graph(&Some(json))?.unwrap_or_default()));
        let between: Vec<String> = between.collect::<Result<_, Error>>()?;
        let shares = model.shares.map(|both| both.map(|(operators, macs)| Share { operators, macs }));
        let program = model.program.program(path, instructions, constants)?;
        if between.len() != program.waits.len() {
            let reason = format!(
                "{} graphs for the {} times that the program waits for the host; compile the model again",
                between.len(),
                program.waits.len()
            );
            return Err(Error::package(path, reason));
        }
        Ok(Self { program: Arc::new(program), directory, preprocess, between, postprocess, shares })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The package's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// File name of the ONNX graph that the host runs before the program.
    pub fn preprocess(&self) -> Option<&str> {
        self.preprocess.as_deref()
    }

    /// File names of the ONNX graphs that the host runs while the program waits: one for each of its waits.
    pub fn between(&self) -> &[String] {
        &self.between
    }

    /// Operators and multiply-accumulates on the device and on the host, per image, if the package says.
    pub fn shares(&self) -> Option<[Share; 2]> {
        self.shares
    }

    /// What the host computes while the program waits, for [`Deployment::attach`](crate::Deployment::attach).
    ///
    /// # Errors
    /// As [`BetweenPart::open`].
    pub fn between_parts(&self, options: &SessionOptions) -> Result<Vec<BetweenPart>, Error> {
        let mut parts = Vec::with_capacity(self.between.len());
        for file in &self.between {
            parts.push(BetweenPart::open(&self.program, &parts, &self.directory.join(file), options)?);
        }
        Ok(parts)
    }

    /// File name of the ONNX graph that the host runs behind the program.
    pub fn postprocess(&self) -> Option<&str> {
        self.postprocess.as_deref()
    }
}

/// Tells Triune's packages from others, and the version that this build reads from older and newer ones.
fn check_schema(path: &Path, directory: &Path, value: &serde_json::Value) -> Result<(), Error> {
    let foreign = |reason: String| Error::Foreign { path: path.display().to_string(), reason };
    if value.get("schema").and_then(serde_json::Value::as_str) != Some(SCHEMA) {
        let elf = fs::read_dir(directory).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|entry| entry.path().extension().is_some_and(|extension| extension == "elf"))
        });
        return Err(foreign(if elf {
            "compiled by the vendor's compiler to ELF kernels, which only the chip runs; compile the ONNX model with \
             `triune compile MODEL.onnx --target metis -o DIR` and load DIR/model.json"
                .into()
        } else {
            format!(
                "not a program of Triune (no \"schema\": \"{SCHEMA}\"); compile the ONNX model with \
                 `triune compile MODEL.onnx --target metis -o DIR` and load DIR/model.json"
            )
        }));
    }
    match value.get("schema_version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => Ok(()),
        Some(version) if (1..u64::from(VERSION)).contains(&version) => Err(Error::package(
            path,
            format!(
                "schema version {version} is of a Triune before this one, which reads version {VERSION}; compile the model \
                 again"
            ),
        )),
        Some(version) if version > u64::from(VERSION) => Err(Error::package(
            path,
            format!(
                "schema version {version} is newer than {VERSION}, the newest that this Triune reads; upgrade it"
            ),
        )),
        Some(version) => Err(Error::package(
            path,
            format!("schema version {version} is not known; compile the model again"),
        )),
        None => Err(Error::package(path, "it has no schema version; compile the model again")),
    }
}

/// Reads a payload and checks that it is what was written.
fn payload(directory: &Path, json: &PayloadJson) -> Result<Bytes, Error> {
    let plain = Path::new(&json.file).components().count() == 1
        && matches!(Path::new(&json.file).components().next(), Some(std::path::Component::Normal(_)));
    if !plain {
        return Err(Error::package(
            directory,
            format!("payload name '{}' is not a plain file name; compile the model again", json.file),
        ));
    }
    let path = directory.join(&json.file);
    if !path.exists() {
        return Err(Error::package(
            &path,
            "it is not there, and the package's model.json names it; compile the model again",
        ));
    }
    let input = Input::open(&path, DATA_LIMIT)?;
    let check = |bytes: u64| {
        if bytes == json.bytes {
            return Ok(());
        }
        let reason =
            format!("{bytes} bytes instead of {}: truncated or edited; compile the model again", json.bytes);
        Err(Error::package(&path, reason))
    };
    // Before it is read, and after, in case it was shortened meanwhile.
    check(input.size())?;
    let bytes = Bytes::from(input.read()?);
    check(bytes.len() as u64)?;
    if digest(&bytes) != json.sha256 {
        return Err(Error::package(
            &path,
            "its SHA-256 is not the one in model.json: edited; compile the model again",
        ));
    }
    Ok(bytes)
}

/// Whether a folder has a package of this format, of any version.
fn is_package(directory: &Path) -> bool {
    let schema = || {
        let text = triune_files::read(&directory.join(MODEL_FILE), MAX_MODEL_JSON).ok()?;
        let model: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Some(model.get("schema")?.as_str()? == SCHEMA)
    };
    schema().unwrap_or(false)
}

/// The files of a folder that some packages have and others do not; programs look for some of them by name.
fn parts(directory: &Path) -> impl Iterator<Item = String> {
    let is_part = |name: &String| {
        let between = name.strip_prefix("between_graph_").and_then(|rest| rest.strip_suffix(".onnx"));
        matches!(name.as_str(), "preprocess_graph.onnx" | "postprocess_graph.onnx" | SETTINGS_FILE)
            || between.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_part)
}

fn digest(bytes: &[u8]) -> String {
    triune_kernels::sha256(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn json(value: &serde_json::Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// `manifest.json` with the field names that programs for compiled models read.
fn manifest(program: &Program, model: &ModelJson) -> serde_json::Value {
    let each = |tensors: &[&TensorIo], f: &dyn Fn(&TensorIo) -> serde_json::Value| -> serde_json::Value {
        tensors.iter().map(|io| f(io)).collect()
    };
    let taken: Vec<&TensorIo> = program.taken().collect();
    let results: Vec<&TensorIo> = program.results().iter().collect();
    let quant = |io: &TensorIo| serde_json::json!([io.scale, io.zero_point]);
    let padding = |io: &TensorIo| io.padding.iter().flat_map(|&(low, high)| [low, high]).collect();
    let shape = |io: &TensorIo| serde_json::json!(io.shape.to_vec());
    let original = |io: &TensorIo| serde_json::json!(io.model_shape.to_vec());
    let dtype = |io: &TensorIo| serde_json::json!(io.dtype.name());
    let name = |io: &TensorIo| serde_json::json!(io.name);
    let file = |payload: &Option<PayloadJson>| payload.as_ref().map(|payload| payload.file.clone());
    serde_json::json!({
        "manifest_version": "1.1",
        "model_metadata": { "producer": model.producer, "target": program.target, "batch": program.batch },
        "input_names": each(&taken, &name),
        "output_names": each(&results, &name),
        "quantized_model_file": MODEL_FILE,
        "model_lib_file": MODEL_FILE,
        "model_params_file": model.constants.file,
        "input_tensor_layout": "NHWC",
        "quantize_params": each(&taken, &quant),
        "dequantize_params": each(&results, &quant),
        "n_padded_ch_inputs": each(&taken, &padding),
        "n_padded_ch_outputs": each(&results, &padding),
        "input_shapes": each(&taken, &shape),
        "output_shapes": each(&results, &shape),
        "input_shapes_original": each(&taken, &original),
        "output_shapes_original": each(&results, &original),
        "input_dtypes": each(&taken, &dtype),
        "output_dtypes": each(&results, &dtype),
        "preprocess_graph": file(&model.preprocess_graph),
        "postprocess_graph": file(&model.postprocess_graph),
    })
}

/// `compile_config.json`, with the field names that programs for compiled models read; nothing for a device that is not known here.
fn settings(program: &Program, model: &ModelJson) -> Option<serde_json::Value> {
    let builtin = DeviceSpec::builtin(&program.target).ok();
    let spec = program.device.as_deref().or(builtin.as_ref())?;
    Some(serde_json::json!({
        "compiler_version": model.producer,
        "aipu_cores_used": program.batch,
        // Of the memory that the cores share, which goes by cores.
        "resources_used": program.batch as f64 / f64::from(spec.cores),
        "frequency": spec.clock_mhz,
    }))
}
