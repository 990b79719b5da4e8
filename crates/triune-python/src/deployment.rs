//! Networks with commands laid out for a board: segments, places of values, streams of commands, what they cost.

use std::{collections::BTreeMap, sync::Arc};

use pyo3::{buffer::PyBuffer, prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use triune::internals::{
    device::{DeviceSpec, SegmentTable},
    graph::format::xir,
    icraft::{self, DeploymentOptions, OnChip, Seat},
};

use crate::list::{self, List};
use crate::{array::Input, board, error, package::policy};

/// The operators with commands of a document, to be laid out for boards.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct HardNetwork {
    inner: Arc<icraft::HardNetwork>,
    spec: DeviceSpec,
}

#[pymethods]
impl HardNetwork {
    /// Takes the operators of a document: its JSON as bytes, and the bytes of its constants by `v_id`, which are copied.
    ///
    /// Raises `ArgumentError` if it is damaged or holds no commands.
    #[new]
    fn new(py: Python<'_>, model: PyBackedBytes, params: BTreeMap<i64, PyBuffer<u8>>) -> PyResult<Self> {
        let params: PyResult<Vec<(i64, Vec<u8>)>> =
            params.into_iter().map(|(v_id, data)| Ok((v_id, list::bytes(py, &data)?))).collect();
        let params = params?;
        let read = error::detached(py, || {
            let mut document = xir::Document::read(&model, None)?;
            for (v_id, data) in params {
                document.give(v_id, data.into())?;
            }
            let network = icraft::HardNetwork::any(&document, document.name.as_ref())?;
            let spec = DeviceSpec::builtin(&network.program().target)?;
            Ok((network, spec))
        });
        let (inner, spec) = read?.map_err(error::runtime)?;
        Ok(Self { inner: Arc::new(inner), spec })
    }

    /// The device that the commands are for.
    #[getter]
    fn target(&self) -> &str {
        &self.inner.program().target
    }

    /// Numbers of the operators, in the order in which they run.
    #[getter]
    fn op_ids(&self) -> Vec<i64> {
        self.inner.op_ids().collect()
    }

    /// The largest number of an operator in the document.
    #[getter]
    fn last_op(&self) -> i64 {
        self.inner.last_op()
    }

    /// Whether another compiler wrote the instructions, which then cannot be run.
    #[getter]
    fn is_foreign(&self) -> bool {
        self.inner.is_vendors()
    }

    /// Whether all instructions and constants have their data.
    #[getter]
    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }

    /// Lays out operators, all unless `ops` has numbers. `outputs` are numbers of values that are wanted by others than these
    /// operators; `reuse` lets feature maps share bytes in turn; `on_chip` says what stays on the chip, `compiled` for what the
    /// document has there, else as in `Package.timeline`, in `on_chip_bytes` at most.
    ///
    /// Raises `ArgumentError` if there is no such policy or operator, `UnsupportedError` if the device cannot
    /// hold the feature maps.
    #[pyo3(signature = (ops=None, outputs=List::default(), *, reuse=true, on_chip="best_score", on_chip_bytes=None))]
    fn deploy(
        &self,
        py: Python<'_>,
        ops: Option<List<i64>>,
        outputs: List<i64>,
        reuse: bool,
        on_chip: &str,
        on_chip_bytes: Option<u64>,
    ) -> PyResult<Deployment> {
        let on_chip = match on_chip {
            "compiled" => OnChip::Compiled,
            name => OnChip::Policy(policy(name)?),
        };
        let (ops, outputs) = (ops.map(|ops| ops.0), outputs.0);
        let options = DeploymentOptions { ops, outputs, reuse, on_chip, on_chip_bytes };
        let inner = error::detached(py, || icraft::HardDeployment::new(&self.inner, &self.spec, &options))?;
        Ok(Deployment { inner: Arc::new(inner.map_err(error::runtime)?) })
    }
}

/// A wrong byte: its operator, its offset, what it should be and what it is.
type Fault = (Option<i64>, u64, u8, u8);

/// An operator of a deployment.
#[pyclass(frozen, get_all, skip_from_py_object, module = "triune._native")]
#[derive(Debug, Clone)]
pub(crate) struct DeployedOp {
    op_id: i64,
    /// First byte and bytes of its commands among the instructions.
    instructions: (u64, u64),
    /// First byte and bytes of each of its constants among the weights.
    weights: Vec<(u64, u64)>,
    inputs: Vec<i64>,
    outputs: Vec<i64>,
    /// Layers that are done when it is.
    layers: u64,
}

/// A value of a deployment.
#[pyclass(frozen, get_all, skip_from_py_object, module = "triune._native")]
#[derive(Debug, Clone)]
pub(crate) struct DeployedValue {
    v_id: i64,
    /// `input`, `output`, `weight` or `ftmp`.
    segment: &'static str,
    /// The chunk of the border that it lies in, an index of `Deployment.areas`.
    area: Option<usize>,
    /// First byte in that chunk, or in its segment; on the chip, in what is kept there.
    offset: u64,
    /// Logical address.
    logic: u64,
    nbytes: u64,
    /// Whether its elements lie without gaps.
    dense: bool,
    on_chip: bool,
    /// The value whose memory it shares.
    shares: Option<i64>,
}

/// Operators laid out. It holds no memory of a board.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Deployment {
    pub(crate) inner: Arc<icraft::HardDeployment>,
}

#[pymethods]
impl Deployment {
    /// The operators in the order in which they run.
    #[getter]
    fn ops(&self) -> Vec<DeployedOp> {
        let pair = |[first, bytes]: [u64; 2]| (first, bytes);
        let op = |op: &icraft::DeployedOp| DeployedOp {
            op_id: op.op_id,
            instructions: pair(op.instructions),
            weights: op.weights.iter().copied().map(pair).collect(),
            inputs: op.inputs.clone(),
            outputs: op.outputs.clone(),
            layers: op.layers,
        };
        self.inner.ops().iter().map(op).collect()
    }

    /// Operators with nothing between them: index of the first and one past the last.
    #[getter]
    fn runs(&self) -> Vec<(usize, usize)> {
        self.inner.runs().iter().map(|run| (run.start, run.end)).collect()
    }

    /// Where values lie, by their number.
    #[getter]
    fn values(&self) -> BTreeMap<i64, DeployedValue> {
        let value = |value: &icraft::ValuePlace| DeployedValue {
            v_id: value.v_id,
            segment: value.segment,
            area: value.area,
            offset: value.offset,
            logic: value.logic,
            nbytes: value.bytes,
            dense: value.is_dense(),
            on_chip: value.on_chip,
            shares: value.shares,
        };
        self.inner.values().iter().map(|each| (each.v_id, value(each))).collect()
    }

    /// Chunks of the border: `input` or `output`, and bytes.
    #[getter]
    fn areas(&self) -> Vec<(&'static str, u64)> {
        self.inner.areas().iter().map(|area| (area.role.name(), area.bytes)).collect()
    }

    /// What each area lies in, given chunks for values (number and bytes): the value that its chunk was given for, or the offset in
    /// the chunk of all of its role if `packed`, or neither for a chunk of its own. A chunk does for the area of a value without
    /// gaps that it begins with, if all of it fits.
    ///
    /// Raises `ArgumentError` for values that lie in no area.
    fn seats(&self, chunks: List<(i64, u64)>, packed: bool) -> PyResult<Vec<(Option<i64>, Option<u64>)>> {
        let seats = self.inner.seats(&chunks, packed).map_err(error::runtime)?;
        let pair = |seat| match seat {
            Seat::Value(v_id) => (Some(v_id), None),
            Seat::Edge(offset) => (None, Some(offset)),
            Seat::Own => (None, None),
        };
        Ok(seats.into_iter().map(pair).collect())
    }

    /// Logical address and bytes of the segments `input`, `output`, `weight`, `ftmp` and `instr`.
    #[getter]
    fn segments(&self) -> BTreeMap<&'static str, (u64, u64)> {
        self.inner.segments().iter().map(|each| (each.name, (each.logic, each.bytes))).collect()
    }

    /// Bytes of the segments that are no areas, by kind.
    #[getter]
    fn sizes(&self) -> BTreeMap<String, u64> {
        let own = self.inner.sizes().in_order().take(usize::from(SegmentTable::FIRST_IO));
        own.map(|(kind, bytes)| (kind.to_string(), bytes)).collect()
    }

    /// What the instruction segment holds.
    #[getter]
    fn instructions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        list::to_bytes(py, self.inner.instructions())
    }

    /// What the weight segment holds.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        list::to_bytes(py, self.inner.weights())
    }

    /// Bytes of feature maps on the chip.
    #[getter]
    fn on_chip_bytes(&self) -> u64 {
        self.inner.on_chip_bytes()
    }

    /// How what stays on the chip was chosen, and the bytes that this keeps from being moved.
    #[getter]
    fn on_chip(&self) -> (&'static str, u64) {
        self.inner.residency().map_or(("none", 0), |chosen| (chosen.policy.name(), chosen.value))
    }

    /// First byte and bytes of the commands of operators `first..last` among the instructions.
    ///
    /// Raises `ArgumentError` if there are no such operators.
    fn stream(&self, first: usize, last: usize) -> PyResult<(u64, u64)> {
        let [at, bytes] = self.inner.stream(first..last).map_err(error::runtime)?;
        Ok((at, bytes))
    }

    /// First byte and bytes of the constants of operators `first..last` among the weights, from the first to the end of the last.
    ///
    /// Raises `ArgumentError` if there are no such operators.
    fn constants(&self, first: usize, last: usize) -> PyResult<(u64, u64)> {
        let [at, bytes] = self.inner.constants(first..last).map_err(error::runtime)?;
        Ok((at, bytes))
    }

    /// The number of the operator whose commands are a layer of a run of operators `first..last`, None if there is no such layer.
    ///
    /// Raises `ArgumentError` if there are no such operators.
    fn layer(&self, first: usize, last: usize, layer: usize) -> PyResult<Option<i64>> {
        self.inner.layer(first..last, layer).map_err(error::runtime)
    }

    /// The first byte of the segment `instructions` or `constants` that is not what was put there, given what is there: the operator
    /// that it belongs to, its offset, what was put there and what is; None if there is none.
    ///
    /// Raises `ArgumentError` if there is no such kind.
    fn fault(&self, py: Python<'_>, kind: &str, there: &Bound<'_, PyAny>) -> PyResult<Option<Fault>> {
        let kind = board::kind(kind)?;
        let there = Input::new("there", &board::bytes_of(there)?)?;
        let bytes = there.bytes()?;
        let fault = error::detached(py, || self.inner.fault(kind, bytes))?;
        Ok(fault.map(|fault| (fault.op_id, fault.offset, fault.wanted, fault.found)))
    }
}
