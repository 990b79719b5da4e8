//! What a compilation came to: what runs where, why, and what crosses.

use pyo3::prelude::*;
use triune::internals::runtime::Report;

/// A result: name, type, extents, and what its integers stand for: their type, scale and zero point.
type Output = (String, &'static str, Vec<usize>, Option<(&'static str, f32, i32)>);

/// Operators and multiply-accumulates per side, and what crosses between the two.
#[pyclass(frozen, get_all, skip_from_py_object, module = "triune._native")]
#[derive(Debug, Clone)]
pub(crate) struct CompileReport {
    /// Operators and their multiply-accumulates on the device.
    device: (usize, u64),
    /// The same on the host.
    host: (usize, u64),
    /// How often the device begins.
    segments: usize,
    /// The device's share of the multiply-accumulates, 0 to 1.
    share: f64,
    /// Operators on the host: node, operator, multiply-accumulates, reason.
    stayed: Vec<(String, String, u64, String)>,
    /// Tensors between the two: name, whether it goes to the device, the device's segment, bytes per image.
    crossings: Vec<(String, bool, usize, u64)>,
    /// The model's outputs: name, dtype, extents, and dtype, scale and zero point of the integers behind them.
    outputs: Vec<Output>,
    /// A node that takes images of a batch together, and its operator.
    together: Option<(String, String)>,
}

impl CompileReport {
    pub(crate) fn new(report: Report) -> Self {
        let share = report.share();
        let stayed = report.stayed.into_iter().map(|each| (each.node, each.op, each.macs, each.reason));
        let crossings =
            report.crossings.into_iter().map(|each| (each.name, each.to_device, each.segment, each.bytes));
        let outputs = report.outputs.into_iter().map(|each| {
            let quant = each.quant.map(|(dtype, quant)| (dtype.name(), quant.scale, quant.zero_point));
            let dtype = if each.strings { "object" } else { each.dtype.name() };
            (each.name, dtype, each.shape.to_vec(), quant)
        });
        Self {
            device: (report.device.operators, report.device.macs),
            host: (report.host.operators, report.host.macs),
            segments: report.segments,
            share,
            stayed: stayed.collect(),
            crossings: crossings.collect(),
            outputs: outputs.collect(),
            together: report.together,
        }
    }
}
