//! How long operators took, in the vendor's format.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use triune::internals::{compiler::Outline, runtime::OperatorTime};

use super::drawing::{Drawing, HOST};

const NANOSECOND: f64 = 1e-9;

/// The times of a run's operators, one behind the other. Operators that only change how their operand is seen take none, and have none.
pub(super) fn content(outline: Outline, times: &[OperatorTime]) -> Value {
    let mut drawing = Drawing::of(outline);
    let mut device = Map::new();
    let mut host = Map::new();
    let mut footprints = BTreeMap::new();
    let mut now = 0.0;
    for time in times {
        let number = drawing.number(&time.name, &time.kind);
        // Tools divide by the time from the start to either.
        let seconds = (time.nanos as f64 * NANOSECOND).max(2.0 * NANOSECOND);
        let entry = json!({"start": now, "kern": now + NANOSECOND, "end": now + seconds});
        now += seconds;
        device.insert(number.clone(), json!({HOST: entry}));
        host.insert(number.clone(), json!({"main": entry}));
        footprints.insert(number.clone(), drawing.footprint(&number).cloned().unwrap_or_default());
    }
    json!({
        "profiler": {"opr_internal_pf": {}, "host": host, "opr_footprint": footprints, "device": device},
        "graph_exec": drawing.content(),
    })
}
