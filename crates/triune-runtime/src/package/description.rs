//! What a program is besides its payloads, as JSON: border tensors, memory plan, operators.
//!
//! A part of `model.json`, and of other containers that hold programs.

use std::{collections::HashSet, path::Path, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use triune_device::{DeviceSpec, spec::Style};
use triune_memory::residency::Policy;
use triune_tensor::{DType, Shape, text::Name};

use crate::{Error, Operator, PlannedBuffer, Program, Residency, TensorIo, Wait};

/// A program without its instructions and constants.
#[derive(Serialize, Deserialize)]
pub struct Description {
    target: String,
    /// The device's description as TOML, if it does not come with Triune.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    batch: usize,
    inputs: Vec<TensorJson>,
    outputs: Vec<TensorJson>,
    /// How many of the outputs callers get; all if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    results: Option<usize>,
    /// Where the program waits for the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waits: Vec<WaitJson>,
    /// What callers give for the host's parts in the waits alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<TensorJson>,
    scratch_bytes: u64,
    scratch_lower_bound: u64,
    /// Bytes of the segment behind the outputs', if there is one.
    #[serde(default, skip_serializing_if = "is_zero")]
    spilled_bytes: u64,
    residency: Option<ResidencyJson>,
    /// Segment, offset, bytes, first command, one past the last, reads.
    #[serde(default)]
    feature_maps: Vec<(u16, u64, u64, u32, u32, u32)>,
    operators: Vec<OperatorJson>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Commands before it, the outputs that the host reads, the inputs that it makes.
#[derive(Serialize, Deserialize)]
struct WaitJson {
    commands: u32,
    reads: Vec<usize>,
    makes: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
struct ResidencyJson {
    policy: String,
    capacity: u64,
    value: u64,
    bound: u64,
    peak: u64,
    lower_bound: u64,
}

#[derive(Serialize, Deserialize)]
struct TensorJson {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    padding: Vec<(usize, usize)>,
    scale: f32,
    zero_point: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
    model_shape: Vec<usize>,
    /// Packages from before it was told take reals.
    #[serde(default = "float32")]
    model_dtype: String,
}

fn float32() -> String {
    DType::F32.name().into()
}

#[derive(Serialize, Deserialize)]
struct OperatorJson {
    name: String,
    kind: String,
    commands: [u32; 2],
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    axes: Vec<u32>,
}

impl Description {
    /// What there is to say of a program.
    pub fn of(program: &Program) -> Self {
        Self {
            target: program.target.clone(),
            device: program.device.as_ref().map(|spec| spec.to_toml(Style::Short)),
            batch: program.batch,
            inputs: program.inputs.iter().map(TensorJson::new).collect(),
            outputs: program.outputs.iter().map(TensorJson::new).collect(),
            results: (!program.waits.is_empty()).then_some(program.results),
            waits: program
                .waits
                .iter()
                .map(|wait| WaitJson {
                    commands: wait.at,
                    reads: wait.reads.clone(),
                    makes: wait.makes.clone(),
                })
                .collect(),
            beside: program.beside.iter().map(TensorJson::new).collect(),
            scratch_bytes: program.scratch_bytes,
            scratch_lower_bound: program.scratch_lower_bound,
            spilled_bytes: program.spilled_bytes,
            residency: program.residency.as_ref().map(ResidencyJson::new),
            feature_maps: program
                .buffers
                .iter()
                .map(|b| (b.segment, b.offset, b.bytes, b.first, b.last, b.reads))
                .collect(),
            operators: program
                .operators
                .iter()
                .map(|o| OperatorJson {
                    name: o.name.clone(),
                    kind: o.kind.clone().into_owned(),
                    commands: [o.first, o.last],
                    axes: o.axes.clone(),
                })
                .collect(),
        }
    }

    /// The program with its payloads. Errors name the file at `path`.
    pub fn program(self, path: &Path, instructions: Bytes, constants: Bytes) -> Result<Program, Error> {
        let device = self.device(path)?.map(Arc::new);
        let spec = match &device {
            Some(own) => DeviceSpec::clone(own),
            None => DeviceSpec::builtin(&self.target).map_err(|_| {
                let target = Name(&self.target);
                Error::package(
                    path,
                    format!("unknown target '{target}', and no description of it; compile the model again"),
                )
            })?,
        };
        if self.batch == 0 || self.batch > spec.cores as usize {
            let reason =
                format!("a batch of {} on {} cores; compile the model again", self.batch, spec.cores);
            return Err(Error::package(path, reason));
        }
        let border = |tensors: &[TensorJson], batch: usize| -> Result<Vec<TensorIo>, Error> {
            tensors.iter().map(|tensor| tensor.io(path, batch)).collect()
        };
        let (inputs, outputs) = (border(&self.inputs, self.batch)?, border(&self.outputs, self.batch)?);
        // Nobody divides these among the images.
        let beside = border(&self.beside, 1)?;
        if let Some(odd) = beside.iter().find(|io| io.padding.iter().any(|&sides| sides != (0, 0))) {
            let reason =
                format!("tensor '{}': padding that no device wants; compile the model again", odd.name);
            return Err(Error::package(path, reason));
        }
        if let Some(operator) = self.operators.iter().find(|o| o.commands[0] > o.commands[1]) {
            let OperatorJson { name, commands: [first, last], .. } = operator;
            let reason =
                format!("operator '{name}' has the commands {first} to {last}; compile the model again");
            return Err(Error::package(path, reason));
        }
        let results = self.results.unwrap_or(outputs.len());
        if !self.are_turns(inputs.len(), outputs.len(), results) {
            return Err(Error::package(
                path,
                "waits for the host that do not fit the program's tensors; compile the model again",
            ));
        }
        let waits = self.waits.iter();
        let waits = waits.map(|wait| Wait {
            at: wait.commands,
            reads: wait.reads.clone(),
            makes: wait.makes.clone(),
        });
        let waits = waits.collect();
        let residency = self.residency(path)?;
        let buffers = self.buffers(path)?;
        Ok(Program {
            target: self.target,
            device,
            batch: self.batch,
            instructions,
            constants,
            tables: Vec::new(),
            scratch_bytes: self.scratch_bytes,
            scratch_lower_bound: self.scratch_lower_bound,
            spilled_bytes: self.spilled_bytes,
            residency,
            buffers,
            inputs,
            outputs,
            results,
            waits,
            beside,
            operators: self
                .operators
                .into_iter()
                .map(|o| Operator {
                    name: o.name,
                    kind: o.kind.into(),
                    first: o.commands[0],
                    last: o.commands[1],
                    axes: o.axes,
                    origin: None,
                })
                .collect(),
        })
    }

    /// The description of the device that the package carries, checked as a user's file is.
    fn device(&self, path: &Path) -> Result<Option<DeviceSpec>, Error> {
        let Some(text) = &self.device else { return Ok(None) };
        let spec = DeviceSpec::own(text).map_err(|problems| {
            let first = problems.first().map_or_else(String::new, ToString::to_string);
            Error::package(path, format!("its device's description: {first}; compile the model again"))
        })?;
        if spec.name != self.target {
            let (target, name) = (Name(&self.target), Name(&spec.name));
            let reason = format!("for '{target}', with the description of '{name}'; compile the model again");
            return Err(Error::package(path, reason));
        }
        Ok(Program::carried(&spec).is_some().then_some(spec))
    }

    /// Whether the waits come in order, read outputs and make the last inputs, each once.
    fn are_turns(&self, inputs: usize, outputs: usize, results: usize) -> bool {
        let made: Vec<usize> = self.waits.iter().flat_map(|wait| wait.makes.iter().copied()).collect();
        made.len() <= inputs
            && made.iter().copied().eq(inputs - made.len()..inputs)
            && self.waits.is_sorted_by_key(|wait| wait.commands)
            && self.waits.iter().all(|wait| {
                let mut seen = HashSet::new();
                wait.reads.iter().all(|&index| index < outputs && seen.insert(index))
            })
            && (results == outputs || !self.waits.is_empty() && results <= outputs)
    }

    fn residency(&self, path: &Path) -> Result<Option<Residency>, Error> {
        let Some(json) = &self.residency else { return Ok(None) };
        let &ResidencyJson { ref policy, capacity, value, bound, peak, lower_bound } = json;
        let policy = Policy::from_name(policy).ok_or_else(|| {
            Error::package(path, format!("unknown residency policy '{policy}'; compile the model again"))
        })?;
        if value > bound || peak > capacity || lower_bound > peak {
            return Err(Error::package(
                path,
                "resident feature maps beyond their bounds; compile the model again",
            ));
        }
        Ok(Some(Residency { policy, capacity, value, bound, peak, lower_bound }))
    }

    fn buffers(&self, path: &Path) -> Result<Vec<PlannedBuffer>, Error> {
        let spilled = Program::behind(self.inputs.len() + self.outputs.len());
        if self.spilled_bytes > 0 && spilled.is_none() {
            return Err(Error::package(
                path,
                "more tensors than addresses can name; compile the model again",
            ));
        }
        let buffer = |&(segment, offset, bytes, first, last, reads): &(u16, u64, u64, u32, u32, u32)| {
            let room = match segment {
                Program::SCRATCH => self.scratch_bytes,
                Program::RESIDENT => self.residency.as_ref().map_or(0, |residency| residency.peak),
                _ if Some(segment) == spilled => self.spilled_bytes,
                _ => return None,
            };
            let fits = offset.checked_add(bytes).is_some_and(|end| end <= room) && first < last;
            fits.then_some(PlannedBuffer { segment, offset, bytes, first, last, reads })
        };
        let found: Option<Vec<_>> = self.feature_maps.iter().map(buffer).collect();
        found.ok_or_else(|| {
            Error::package(path, "a feature map outside of the memory plan; compile the model again")
        })
    }
}

/// The integers of a type that means reals.
fn integers(dtype: DType) -> Option<std::ops::RangeInclusive<i32>> {
    match dtype {
        DType::I8 => Some(-128..=127),
        DType::U8 => Some(0..=255),
        DType::I16 => Some(i32::from(i16::MIN)..=i32::from(i16::MAX)),
        _ => None,
    }
}

impl ResidencyJson {
    fn new(residency: &Residency) -> Self {
        let &Residency { policy, capacity, value, bound, peak, lower_bound } = residency;
        Self { policy: policy.name().into(), capacity, value, bound, peak, lower_bound }
    }
}

impl TensorJson {
    fn new(io: &TensorIo) -> Self {
        Self {
            name: io.name.clone(),
            dtype: io.dtype.name().into(),
            shape: io.shape.to_vec(),
            padding: io.padding.clone(),
            scale: io.scale,
            zero_point: io.zero_point,
            block: io.block,
            model_shape: io.model_shape.to_vec(),
            model_dtype: io.model_dtype.name().into(),
        }
    }

    fn io(&self, path: &Path, batch: usize) -> Result<TensorIo, Error> {
        let fail = |reason: &str| {
            Error::package(path, format!("tensor '{}': {reason}; compile the model again", self.name))
        };
        let dtype = DType::from_name(&self.dtype).ok_or_else(|| fail("unknown element type"))?;
        let shape = Shape::new(&self.shape).ok_or_else(|| fail("too many dimensions"))?;
        let model_shape = Shape::new(&self.model_shape).ok_or_else(|| fail("too many dimensions"))?;
        let model_dtype =
            DType::from_name(&self.model_dtype).ok_or_else(|| fail("the model's element type is unknown"))?;
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(dtype.bytes()));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(fail("its size overflows"));
        }
        if self.padding.len() != shape.rank()
            || self
                .padding
                .iter()
                .zip(shape.iter())
                .any(|(&(before, after), &dim)| before.checked_add(after).is_none_or(|sum| sum > dim))
        {
            return Err(fail("padding that does not fit the shape"));
        }
        if shape.first().is_none_or(|&first| first % batch != 0) {
            return Err(fail("its first extent is no multiple of the batch"));
        }
        // An NPU's buffers are (batch, rows, columns, channels), whatever the model's tensors are.
        let data = shape.iter().zip(&self.padding).map(|(&dim, &(before, after))| dim - before - after);
        if shape.rank() != 4 || Some(data.product::<usize>()) != model_shape.elements() {
            return Err(fail(&format!(
                "a buffer of {shape} with padding does not hold the model's {model_shape}"
            )));
        }
        if !(self.scale.is_finite() && self.scale > 0.0) {
            return Err(fail("a scale that is not positive"));
        }
        if !integers(dtype).is_none_or(|range| range.contains(&self.zero_point)) {
            return Err(fail(&format!("a zero point outside of {dtype}")));
        }
        let in_blocks =
            |block: usize| block > 0 && shape.last().is_some_and(|&channels| channels % block == 0);
        if !self.block.is_none_or(in_blocks) {
            return Err(fail("blocks that its channels do not fill"));
        }
        let padding = self.padding.clone();
        let (name, scale, zero_point) = (self.name.clone(), self.scale, self.zero_point);
        let block = self.block;
        Ok(TensorIo { name, dtype, shape, padding, scale, zero_point, block, model_shape, model_dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_order_and_make_the_last_inputs() {
        // Commands before, outputs that are read, inputs that are made.
        let turns = |waits: &str, inputs, outputs, results| {
            let text = format!(
                r#"{{"target": "metis", "batch": 1, "inputs": [], "outputs": [], "scratch_bytes": 0, "feature_maps": [],
                    "scratch_lower_bound": 0, "residency": null, "operators": [], "waits": {waits}}}"#
            );
            let description: Description = serde_json::from_str(&text).expect("a description");
            description.are_turns(inputs, outputs, results)
        };
        let wait = |commands: u32, reads: &str, makes: &str| {
            format!(r#"{{"commands": {commands}, "reads": {reads}, "makes": {makes}}}"#)
        };
        let one = |reads, makes| format!("[{}]", wait(4, reads, makes));
        assert!(turns("[]", 2, 3, 3));
        // Outputs that callers do not get are there for a wait.
        assert!(!turns("[]", 2, 3, 2) && !turns("[]", 2, 3, 4));
        assert!(turns(&one("[2]", "[1]"), 2, 3, 2) && turns(&one("[2]", "[1]"), 2, 3, 3));
        assert!(!turns(&one("[2]", "[1]"), 2, 3, 4));
        // The last inputs, all of them, in order.
        assert!(turns(&one("[0]", "[0, 1]"), 2, 3, 3) && turns(&one("[0]", "[]"), 2, 3, 3));
        assert!(turns(&one("[0]", "[2, 3]"), 4, 1, 1));
        for makes in ["[0]", "[1, 0]", "[2]", "[1, 1]", "[0, 1, 2]"] {
            assert!(!turns(&one("[0]", makes), 2, 3, 3), "{makes}");
        }
        // Outputs that there are, each once in a wait.
        assert!(turns(&one("[2, 0, 1]", "[1]"), 2, 3, 3));
        for reads in ["[3]", "[1, 1]", "[0, 2, 0]"] {
            assert!(!turns(&one(reads, "[1]"), 2, 3, 3), "{reads}");
        }
        let two = |first, second, makes: [&str; 2]| {
            format!("[{}, {}]", wait(first, "[0]", makes[0]), wait(second, "[0]", makes[1]))
        };
        assert!(turns(&two(3, 5, ["[1]", "[2]"]), 3, 1, 1) && turns(&two(5, 5, ["[1]", "[2]"]), 3, 1, 1));
        assert!(!turns(&two(5, 3, ["[1]", "[2]"]), 3, 1, 1) && !turns(&two(3, 5, ["[2]", "[1]"]), 3, 1, 1));
    }

    #[test]
    fn zero_points_are_integers_of_their_type() {
        let bounds = |dtype| integers(dtype).map(|range| (*range.start(), *range.end()));
        assert_eq!(bounds(DType::I8), Some((-128, 127)));
        assert_eq!(bounds(DType::U8), Some((0, 255)));
        assert_eq!(bounds(DType::I16), Some((-32768, 32767)));
        for dtype in [DType::I32, DType::I64, DType::F32, DType::Bool, DType::U16] {
            assert_eq!(bounds(dtype), None, "{dtype}");
        }
    }

    /// A tensor of four images in blocks of two channels, with as much padding as there is room for.
    fn tensor() -> TensorJson {
        TensorJson {
            name: "x".into(),
            dtype: "uint8".into(),
            shape: vec![4, 3, 5, 6],
            padding: vec![(0, 0), (1, 1), (0, 3), (0, 0)],
            scale: 0.5,
            zero_point: 255,
            block: Some(2),
            model_shape: vec![4, 6, 1, 2],
            model_dtype: "uint8".into(),
        }
    }

    #[test]
    fn tensors_are_read_up_to_their_bounds() {
        let path = Path::new("model.json");
        for batch in [1, 2, 4] {
            let io = tensor().io(path, batch).expect("a tensor");
            assert_eq!(
                (io.dtype, &*io.shape, &*io.model_shape),
                (DType::U8, &[4, 3, 5, 6][..], &[4, 6, 1, 2][..])
            );
            assert_eq!((io.scale, io.zero_point, io.block), (0.5, 255, Some(2)));
            assert_eq!(io.padding, tensor().padding);
        }
        let refused = |json: TensorJson, batch| json.io(path, batch).expect_err("no tensor").to_string();
        let none = TensorJson { shape: vec![], padding: vec![], block: None, ..tensor() };
        for (json, batch, words) in [
            (tensor(), 3, "its first extent is no multiple of the batch"),
            (none, 1, "its first extent is no multiple of the batch"),
            (TensorJson { zero_point: 256, ..tensor() }, 1, "a zero point outside of uint8"),
            (TensorJson { zero_point: -1, ..tensor() }, 1, "a zero point outside of uint8"),
            (TensorJson { scale: f32::NAN, ..tensor() }, 1, "a scale that is not positive"),
            (TensorJson { scale: f32::INFINITY, ..tensor() }, 1, "a scale that is not positive"),
            (TensorJson { block: Some(4), ..tensor() }, 1, "blocks that its channels do not fill"),
            (
                TensorJson { padding: vec![(0, 0), (2, 2), (0, 5), (0, 0)], ..tensor() },
                1,
                "padding that does not fit the shape",
            ),
            (
                TensorJson { shape: vec![1 << 31, 1 << 30, 2, 2], block: None, ..tensor() },
                1,
                "its size overflows",
            ),
        ] {
            let error = refused(json, batch);
            assert!(error.contains("tensor 'x': ") && error.contains(words), "{words}: {error}");
        }
    }

    /// A description of nothing but a plan of 96 bytes, of which 32 are near.
    fn plan(residency: [u64; 5], map: (u16, u64, u64, u32, u32, u32)) -> Description {
        let [capacity, value, bound, peak, lower_bound] = residency;
        let policy = Policy::default().name().into();
        Description {
            target: "metis".into(),
            device: None,
            batch: 1,
            inputs: Vec::new(),
            outputs: Vec::new(),
            results: None,
            waits: Vec::new(),
            beside: Vec::new(),
            scratch_bytes: 96,
            scratch_lower_bound: 96,
            spilled_bytes: 0,
            residency: Some(ResidencyJson { policy, capacity, value, bound, peak, lower_bound }),
            feature_maps: vec![map],
            operators: Vec::new(),
        }
    }

    #[test]
    fn a_plan_is_read_up_to_its_bounds() {
        let path = Path::new("model.json");
        let (scratch, resident) = (Program::SCRATCH, Program::RESIDENT);
        let program = |residency, map| plan(residency, map).program(path, Bytes::new(), Bytes::new());
        let near = [32, 7, 7, 32, 32];
        let program_of = |map| program(near, map).expect("a program");
        assert_eq!(
            program_of((scratch, 64, 32, 3, 4, 2)).buffers,
            [PlannedBuffer { segment: scratch, offset: 64, bytes: 32, first: 3, last: 4, reads: 2 }]
        );
        let residency = program_of((resident, 0, 32, 0, 1, 1)).residency.expect("a near memory");
        assert_eq!((residency.capacity, residency.value, residency.bound), (32, 7, 7));
        assert_eq!((residency.peak, residency.lower_bound), (32, 32));
        for (residency, map, words) in [
            (near, (scratch, 65, 32, 0, 1, 1), "a feature map outside of the memory plan"),
            (near, (resident, 1, 32, 0, 1, 1), "a feature map outside of the memory plan"),
            (near, (scratch, 0, 32, 4, 4, 1), "a feature map outside of the memory plan"),
            (near, (Program::CONSTANTS, 0, 0, 0, 1, 1), "a feature map outside of the memory plan"),
            ([32, 8, 7, 32, 32], (scratch, 0, 1, 0, 1, 1), "resident feature maps beyond their bounds"),
            ([31, 7, 7, 32, 32], (scratch, 0, 1, 0, 1, 1), "resident feature maps beyond their bounds"),
            ([32, 7, 7, 31, 32], (scratch, 0, 1, 0, 1, 1), "resident feature maps beyond their bounds"),
        ] {
            let error = program(residency, map).expect_err("no plan").to_string();
            assert!(error.contains(words), "{residency:?}, {map:?}: {error}");
        }
        let batch = |batch| Description { batch, ..plan(near, (scratch, 0, 1, 0, 1, 1)) };
        assert_eq!(batch(4).program(path, Bytes::new(), Bytes::new()).expect("four cores").batch, 4);
        let error = batch(5).program(path, Bytes::new(), Bytes::new()).expect_err("four cores").to_string();
        assert!(error.contains("a batch of 5 on 4 cores"), "{error}");
    }
}
