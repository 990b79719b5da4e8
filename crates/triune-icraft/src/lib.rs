//! Networks as Icraft's compiler keeps them between its steps, as documents.
//!
//! `parsed` has the operators of the source model over reals, `optimized` folds what can be folded, `quantized` says which
//! integers stand for the reals, `adapted` says what the accelerator runs and lays its values out in blocks of channels,
//! and the last stage has the accelerator's commands.
#![forbid(unsafe_code)]

mod accelerated;
mod address;
mod commands;
mod convert;
mod deployment;
mod emit;
mod estimate;
mod files;
mod form;
mod generate;
mod hardops;
mod load;
mod logic;
mod made;
mod ops;
mod source;
mod tags;
#[cfg(test)]
mod tests;
mod vendor;

use std::path::Path;

use triune_device::DeviceSpec;
use triune_graph::{
    Error as GraphError, Graph, Node, Op, Provenance,
    format::{
        onnx,
        xir::{Chip, Document, Target},
    },
    ops::BinaryKind,
};

pub use deployment::{
    Area, Cost, DeployedOp, DeploymentOptions, Fault, HardDeployment, LogicSegment, OnChip, PAGE, Placement,
    Role, Seat, ValuePlace, Wanted,
};
pub use estimate::program;
pub use files::read;
pub use hardops::HardOps;
pub use load::HardNetwork;
pub use logic::{DetPost, Logic, Pixels};
pub use tags::PROGRAM_TAG;

use accelerated::Accelerated;
use address::Addresses;
use commands::Compiled;
use emit::{Dialect, Emitter, Hardware, Ids};
use form::Style;
use generate::Generated;
use logic::Image;
use source::Source;
use triune_compiler::{Error as CompileError, PlanOptions, Report, adapt, bind_batch, taken_together};
pub use triune_runtime::Error;
use triune_runtime::{fold_constants, target};
use triune_tensor::text::Name;

/// Bytes of a block of channels: 32 of 8 bit, 16 of 16 bit.
const BLOCK_BYTES: usize = 32;

/// The accelerators that documents are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// BUYI: multipliers m·2⁻ⁿ, `_BY` networks.
    Buyi,
    /// ZG330: any multipliers, `_ZG` networks.
    Zg330,
}

impl Accelerator {
    /// The accelerator of a device description.
    pub fn of(device: &str) -> Option<Self> {
        let family = device.split('-').next()?;
        match family {
            "buyi" => Some(Self::Buyi),
            "zg330" => Some(Self::Zg330),
            _ => None,
        }
    }

    /// What documents call it.
    pub const fn target(self) -> Target {
        match self {
            Self::Buyi => Target::Buyi,
            Self::Zg330 => Target::Zhuge(Chip::Zg330),
        }
    }

    /// The end of file names of networks with its commands.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Buyi => "BY",
            Self::Zg330 => "ZG",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Buyi => Style::Fixed,
            Self::Zg330 => Style::Plain,
        }
    }
}

/// The documents of a network, one per step of the vendor's compiler.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The source model's operators over reals.
    pub parsed: Document,
    /// The same with constants and normalizations folded.
    pub optimized: Document,
    /// The operators over the integers that stand for the reals.
    pub quantized: Document,
    /// What the accelerator runs marked as such, its values in blocks of channels.
    pub adapted: Document,
    /// The accelerator's operators as commands, every value where the memory plan has it.
    pub compiled: Document,
    /// The suffix of files with `compiled`: `BY` or `ZG`.
    pub suffix: &'static str,
    /// What runs where, and why.
    pub report: Report,
}

impl Stages {
    /// The documents of a quantized ONNX file for the device that `target` names, as a network called `name`, with operators in
    /// logic if `logic` says so; the steps before quantization come from the file `float`, if there is one, and errors call the
    /// model so then.
    ///
    /// # Errors
    /// As [`target::device`], the reader of ONNX files, and [`Self::with_logic`].
    pub fn compile(
        model: &Path,
        float: Option<&Path>,
        target: &Path,
        name: &str,
        plan: &PlanOptions,
        logic: &Logic,
    ) -> Result<Self, Error> {
        let spec = target::device(target)?;
        let named = |mut graph: Graph| {
            name.clone_into(&mut graph.name);
            graph
        };
        let graph = named(fold_constants(onnx::read_titled(model, float.unwrap_or(model))?)?);
        let float = float.map(onnx::read).transpose()?;
        let float = float.map(fold_constants).transpose()?.map(named);
        Self::with_logic(&graph, float.as_ref(), &spec, plan, logic)
    }

    /// The documents of a quantized model; `float` is the model that it was quantized from, if there is one.
    ///
    /// A symbolic batch is bound to 1.
    ///
    /// # Errors
    /// [`Error::Unsupported`](triune_compiler::Error::Unsupported) names an operator that the vendor's intermediate representation does not have,
    /// [`Error::Argument`](triune_compiler::Error::Argument) a device that has no such documents; [`triune_compiler::Error::NotQuantized`] for a model without operators for it.
    pub fn new(
        model: &Graph,
        float: Option<&Graph>,
        spec: &DeviceSpec,
        plan: &PlanOptions,
    ) -> Result<Self, Error> {
        Self::with_logic(model, float, spec, plan, &Logic::default())
    }

    /// The same with operators in logic beside the accelerator, from `adapted` on.
    ///
    /// # Errors
    /// As [`Self::new`]; [`Error::Argument`](triune_compiler::Error::Argument) for what the logic cannot do with the model.
    pub fn with_logic(
        model: &Graph,
        float: Option<&Graph>,
        spec: &DeviceSpec,
        plan: &PlanOptions,
        logic: &Logic,
    ) -> Result<Self, Error> {
        Self::written(model, float, spec, plan, logic).map_err(|error| host_only(model, error))
    }

    fn written(
        model: &Graph,
        float: Option<&Graph>,
        spec: &DeviceSpec,
        plan: &PlanOptions,
        logic: &Logic,
    ) -> Result<Self, Error> {
        // A device of one's own may be called buyi-something.
        let own = DeviceSpec::builtin(&spec.name).is_err();
        let accelerator = Accelerator::of(&spec.name).filter(|_| !own).ok_or_else(|| {
            let cure = if own { "; compile for it into a package" } else { "" };
            Error::argument(format!(
                "Icraft's documents are for buyi and zg330; '{}' is neither{cure}",
                Name(&spec.name)
            ))
        })?;
        let mut ids = Ids::default();
        let mut bound = bind_batch(model, 1)?;
        let source = Source::new(&bound)?;
        adapt(&mut bound, spec);
        if accelerator.style() == Style::Fixed {
            square_by_products(&mut bound);
        }
        let core = Accelerated::new(&accelerated::prepared(&bound)?, &source, spec.int16)?;
        let reals = match float {
            Some(float) => Some(Source::new(&bind_batch(float, 1)?)?),
            None => None,
        };
        let reals = reals.as_ref().unwrap_or(&source);
        let in_reals = Dialect { style: None, hardware: None };
        let parsed = Emitter::new(reals, in_reals.clone(), &mut ids).run(None)?;
        let optimized = Emitter::new(&reals.optimized()?, in_reals, &mut ids).run(None)?;
        let mut dialect = Dialect { style: Some(accelerator.style()), hardware: None };
        let quantized = Emitter::new(&source, dialect.clone(), &mut ids).run(None)?;
        dialect.hardware = Some(Hardware {
            nodes: core.nodes.clone(),
            target: accelerator.target(),
            block_bytes: BLOCK_BYTES,
            images: accelerated::images(&core, spec.border.image_channels as usize),
        });
        let picture = logic.image_make.as_ref();
        let image = picture.map(|pixels| Image::new(pixels, &core, &source, accelerator)).transpose()?;
        let (image, post) = (image.as_ref(), logic.det_post.as_ref());
        let adapted = Emitter::new(&source, dialect.clone(), &mut ids).with_logic(image, post).run(None)?;
        let generated = Generated::new(&core, spec, plan)?;
        let mut hard = Compiled::new(&core, &generated, Addresses::new(accelerator, &generated)?);
        let emitter = Emitter::new(&source, dialect, &mut ids).after(&adapted).with_logic(image, post);
        let mut compiled = emitter.run(Some(&mut hard))?;
        compiled.tags = tags::network(spec, &hard)?;
        if let Some(pixels) = picture {
            compiled.tags.insert("bgr_order".to_owned(), pixels.bgr.into());
        }
        let title = |document: Document| Document {
            ai_target: Some(accelerator.target()),
            framework_kind: "ONNX".to_owned(),
            framework_version: "1".to_owned(),
            icraft_version: "v3.33.1".to_owned(),
            icraft_xir_version: "3.33.1.0".to_owned(),
            ..document
        };
        Ok(Self {
            parsed: title(parsed),
            optimized: title(optimized),
            quantized: title(quantized),
            adapted: title(adapted),
            compiled: title(compiled),
            suffix: accelerator.suffix(),
            report: Report { together: taken_together(model), ..core.report.clone() },
        })
    }

    /// The documents with the names of their stages, in the order of the steps.
    pub fn documents(&self) -> [(&'static str, &Document); 5] {
        [
            ("parsed", &self.parsed),
            ("optimized", &self.optimized),
            ("quantized", &self.quantized),
            ("adapted", &self.adapted),
            (self.suffix, &self.compiled),
        ]
    }
}

/// Says of an operator that has no place in a network of fixed extents, because the host runs it behind such a one, what that
/// means for documents, and what can be done.
fn host_only(model: &Graph, error: Error) -> Error {
    let Error::Compile(CompileError::Graph(GraphError::Shape { node: name, .. })) = &error else {
        return error;
    };
    let found = model.nodes.iter().find_map(|node| match &node.op {
        Op::Hosted(op) if node.title().0 == name => Some((node, op.against_programs()?)),
        _ => None,
    });
    let Some((node, why)) = found else { return error };
    let cure = without(model, node);
    Error::unsupported(
        node,
        format!(
            "{why}, and networks in Icraft's documents have tensors of numbers with fixed extents; {cure}"
        ),
    )
}

/// What can be done about an operator that documents cannot have.
fn without(graph: &Graph, node: &Node) -> String {
    let producers = graph.producers();
    // By names that the file has: those that rewriting gave are nobody's to ask for.
    let made = node.inputs.iter().flatten().filter(|id| producers[id.0 as usize].is_some());
    let made = made.map(|&id| graph.value(id)).filter(|value| value.provenance == Provenance::Network);
    let ends: Vec<String> = made.map(|value| Name(&value.name).to_string()).collect();
    let before = match ends.as_slice() {
        [] => String::new(),
        ends => format!("let the model end before it (--outputs {}), or ", ends.join(",")),
    };
    format!("{before}compile it into a package (--format package), whose host part runs it")
}

/// Makes squares products, as the vendor's intermediate representation has no powers: an accelerator whose factors are coarser than
/// reals rounds the two differently.
fn square_by_products(graph: &mut Graph) {
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let Op::Binary(op) = &node.op else { continue };
        let exponent = node.inputs.get(1).copied().flatten().and_then(|id| graph.value(id).constant.as_ref());
        let square = exponent
            .is_some_and(|exponent| exponent.shape().rank() <= 1 && exponent.scalar_f32() == Some(2.0));
        if op.kind == BinaryKind::Pow && square {
            let node = &mut graph.nodes[index];
            (node.inputs[1], node.op) = (node.inputs[0], BinaryKind::Mul.into());
        }
    }
}
