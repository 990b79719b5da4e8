//! A session's plan as Python has it: dicts, lists and numbers.

use pyo3::{prelude::*, types::PyDict};
use triune::internals::runtime::{
    ConvMethod, PartPlan, Placement, PlannedCommand, PlannedOperator, SessionPlan,
};

/// The plan as a dict.
pub(super) fn dict(py: Python<'_>, plan: SessionPlan) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("isa", plan.isa)?;
    found.set_item("threads", plan.threads)?;
    found.set_item("workspace_bytes", plan.workspace_bytes)?;
    found.set_item("weight_bytes", plan.weight_bytes)?;
    found.set_item("packed_bytes", plan.packed_bytes)?;
    found.set_item("table_bytes", plan.table_bytes)?;
    let parts = plan.parts.into_iter().map(|part| self::part(py, part));
    found.set_item("parts", parts.collect::<PyResult<Vec<_>>>()?)?;
    Ok(found)
}

fn part(py: Python<'_>, part: PartPlan) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("map_bytes", part.map_bytes)?;
    found.set_item("lower_bound", part.lower_bound)?;
    found.set_item("output_names", part.outputs)?;
    found.set_item("border_bytes", part.border_bytes)?;
    found.set_item("constant_bytes", part.constant_bytes)?;
    found.set_item("scratch_bytes", part.scratch_bytes)?;
    let operators = part.operators.into_iter().map(|operator| self::operator(py, operator));
    found.set_item("operators", operators.collect::<PyResult<Vec<_>>>()?)?;
    let maps = part.maps.iter().map(|map| (map.offset, map.bytes, map.first, map.last));
    found.set_item("maps", maps.collect::<Vec<_>>())?;
    let strips =
        part.strips.iter().map(|strip| (strip.commands.start, strip.commands.end, strip.rows, strip.each));
    found.set_item("strips", strips.collect::<Vec<_>>())?;
    found.set_item("hosted", part.hosted)?;
    Ok(found)
}

fn operator(py: Python<'_>, operator: PlannedOperator) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("name", operator.name)?;
    found.set_item("kind", &*operator.kind)?;
    found.set_item("made_of", operator.made_of)?;
    found.set_item("part_of", operator.part_of)?;
    found.set_item("inputs", operator.inputs)?;
    let outputs =
        operator.outputs.iter().map(|value| (&value.name, value.dtype.name(), value.shape.to_vec()));
    found.set_item("outputs", outputs.collect::<Vec<_>>())?;
    found.set_item("commands", operator.commands.into_iter().map(command).collect::<Vec<_>>())?;
    Ok(found)
}

/// Its name, method, place, the place's offset or number, and the output's bytes.
fn command(command: PlannedCommand) -> (&'static str, Option<&'static str>, &'static str, u64, u64) {
    let (place, at) = match command.place {
        Placement::Workspace(offset) => ("workspace", offset),
        Placement::Output(number) => ("output", number as u64),
        Placement::Strip => ("strip", 0),
    };
    (command.mnemonic, command.method.map(ConvMethod::name), place, at, command.bytes)
}
