//! Compiled packages: opening one, and compiling one from an ONNX file.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use pyo3::{prelude::*, types::PyDict};
use triune::internals::{
    device::spec::Style,
    runtime::{self, CompileOptions, PlanOptions, Policy, Program, Study, card},
};

use crate::{
    card::Card,
    error,
    report::CompileReport,
    timeline::{self, Timeline},
};

/// One tensor at a program's border, as it lies in memory.
#[pyclass(frozen, get_all, skip_from_py_object, module = "triune._native")]
#[derive(Debug, Clone)]
pub(crate) struct TensorIo {
    name: String,
    dtype: &'static str,
    /// Extents of the buffer, padding included.
    shape: Vec<usize>,
    /// Elements before and after the data along each axis.
    padding: Vec<(usize, usize)>,
    scale: f32,
    zero_point: i32,
    /// Extents in the model's own order of axes, without padding.
    model_shape: Vec<usize>,
    /// The model's own element type: of reals, or of integers that it takes or gives itself.
    model_dtype: &'static str,
}

impl TensorIo {
    fn new(io: &runtime::TensorIo) -> Self {
        Self {
            name: io.name.clone(),
            dtype: io.dtype.name(),
            shape: io.shape.to_vec(),
            padding: io.padding.clone(),
            scale: io.scale,
            zero_point: io.zero_point,
            model_shape: io.model_shape.to_vec(),
            model_dtype: io.model_dtype.name(),
        }
    }
}

/// A compiled package, opened.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) inner: runtime::Package,
}

#[pymethods]
impl Package {
    /// Opens the package whose `model.json` is at `path`.
    ///
    /// Raises `FileError` if it cannot be read, `ForeignError` if another compiler wrote it, `ArgumentError` if it is damaged.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner = error::detached(py, || runtime::Package::load(&path))?.map_err(error::runtime)?;
        Ok(Self { inner })
    }

    /// The device that the program is for.
    #[getter]
    fn target(&self) -> &str {
        &self.program().target
    }

    /// The description of that device, if it does not come with Triune: the package carries it, as TOML.
    #[getter]
    fn device(&self) -> Option<String> {
        self.program().device.as_ref().map(|spec| spec.to_toml(Style::Whole))
    }

    /// Whether the program is for the device that `target` names: one of the same name can be another.
    ///
    /// Raises `FileError`, `ArgumentError` if there is no such device.
    fn is_for(&self, py: Python<'_>, target: PathBuf) -> PyResult<bool> {
        let compare = || Ok(runtime::target::device(&target)? == self.program().spec()?);
        error::detached(py, compare)?.map_err(error::runtime)
    }

    /// A virtual card with the device of the package: it is there without being described anywhere, and the same for all packages
    /// of the same device.
    ///
    /// Raises `FileError` if the runtime directory cannot be used.
    fn card(&self, py: Python<'_>) -> PyResult<Card> {
        let program = self.program();
        let find = || {
            let spec = match &program.device {
                Some(device) => card::CardSpec::of_package(device),
                None => card::CardSpec::of_builtin(&program.target)?,
            };
            card::Cards::with_state(vec![spec])
        };
        let cards = error::detached(py, find)?.map_err(|e| error::card(&e))?;
        let card = cards.iter().next().map(|inner| Card { inner: inner.clone() });
        card.ok_or_else(|| error::InternalError::new_err("a package's card is gone"))
    }

    /// Images per run, each on a core of its own.
    #[getter]
    fn batch(&self) -> usize {
        self.program().batch
    }

    #[getter]
    fn inputs(&self) -> Vec<TensorIo> {
        self.program().taken().map(TensorIo::new).collect()
    }

    #[getter]
    fn outputs(&self) -> Vec<TensorIo> {
        self.program().results().iter().map(TensorIo::new).collect()
    }

    /// File name of the ONNX graph that the host runs before the program, if there is one.
    #[getter]
    fn preprocess(&self) -> Option<&str> {
        self.inner.preprocess()
    }

    /// Operators and multiply-accumulates on the device, then on the host, per image; None if the package does not say.
    #[getter]
    fn shares(&self) -> Option<[(usize, u64); 2]> {
        self.inner.shares().map(|both| both.map(|own| (own.operators, own.macs)))
    }

    /// File names of the ONNX graphs that the host runs while the program waits, in order.
    #[getter]
    fn between(&self) -> Vec<String> {
        self.inner.between().to_vec()
    }

    /// File name of the ONNX graph that the host runs behind the program, if there is one.
    #[getter]
    fn postprocess(&self) -> Option<&str> {
        self.inner.postprocess()
    }

    /// The modelled time of one run on an empty device of its kind, at the device's clock or `clock_mhz`.
    ///
    /// `policy` (`none`, `option1`, `option2`, `option3`, `best_score`, `exact`) and `on_chip_bytes`, the most that feature
    /// maps may take of the near memory, place the feature maps anew; without both, they lie as compiled.
    ///
    /// Raises `ArgumentError` if the device has no such clock or there is no such policy, `UnsupportedError` if its memory
    /// does not hold the program, or the package does not hold its memory plan.
    #[pyo3(signature = (*, clock_mhz=None, policy=None, on_chip_bytes=None))]
    fn timeline(
        &self,
        py: Python<'_>,
        clock_mhz: Option<u32>,
        policy: Option<&str>,
        on_chip_bytes: Option<u64>,
    ) -> PyResult<Timeline> {
        let policy = policy.map(self::policy).transpose()?;
        let estimate = || {
            let study = match (policy, on_chip_bytes) {
                (None, None) => Study::of(self.program())?,
                _ => Study::replanned(self.program(), policy.unwrap_or_default(), on_chip_bytes)?,
            };
            study.at(&[], clock_mhz)
        };
        let inner = error::detached(py, estimate)?.map_err(error::runtime)?;
        Ok(Timeline { inner })
    }

    /// What stays in the near memory: policy, capacity, value (bytes that are not moved to and from the far memory), bound
    /// (no choice avoids more), gap (0 to 1, how far value may be below the optimum), peak, `lower_bound`. None when the
    /// device has no such memory.
    fn residency<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        timeline::residency(py, self.program())
    }
}

impl Package {
    pub(crate) fn program(&self) -> &Arc<Program> {
        self.inner.program()
    }
}

/// Compiles a quantized ONNX file for a device and writes the package into the folder `output`, which is made if missing.
/// Returns what compilation chose, by name, and what runs where. Errors call the model `title`, if that is given. `policy` and `on_chip_bytes` are those of `Package.timeline`.
/// With `cascades`, consecutive operators run band by band where that takes less time.
///
/// Raises `FileError`, `ArgumentError` if the model is damaged or there is no such policy, `UnsupportedError` if the device
/// cannot run the model.
#[pyfunction]
#[pyo3(signature = (model, *, target, output, title=None, batch=1, policy="exact", on_chip_bytes=None, cascades=false))]
pub(crate) fn compile(
    py: Python<'_>,
    model: PathBuf,
    target: PathBuf,
    output: PathBuf,
    title: Option<PathBuf>,
    batch: usize,
    policy: &str,
    on_chip_bytes: Option<u64>,
    cascades: bool,
) -> PyResult<(BTreeMap<&'static str, u64>, CompileReport)> {
    let plan =
        PlanOptions { policy: self::policy(policy)?, capacity: on_chip_bytes, ..PlanOptions::default() };
    let options = CompileOptions { batch, plan, cascades, ..CompileOptions::default() };
    let title = title.as_ref().unwrap_or(&model);
    let compile = || runtime::Package::compile(&model, title, &target, &output, &options);
    let compiled = error::detached(py, compile)?.map_err(error::runtime)?;
    let chosen = &compiled.summary;
    let summary = BTreeMap::from([
        ("device_nodes", chosen.device_nodes as u64),
        ("preprocess_nodes", chosen.preprocess_nodes as u64),
        ("between_nodes", chosen.between_nodes as u64),
        ("postprocess_nodes", chosen.postprocess_nodes as u64),
        ("commands", chosen.commands as u64),
        ("banded", chosen.banded as u64),
        ("constant_bytes", chosen.constant_bytes),
        ("scratch_bytes", chosen.scratch_bytes[0]),
        ("scratch_lower_bound", chosen.scratch_bytes[1]),
    ]);
    Ok((summary, CompileReport::new(compiled.report)))
}

/// The policy of that name.
pub(crate) fn policy(name: &str) -> PyResult<Policy> {
    Policy::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Policy::ALL.into_iter().map(Policy::name).collect();
        error::argument(format!("policy: expected one of {}, got '{name}'", known.join(", ")))
    })
}
