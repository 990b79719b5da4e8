//! A network's memory plan, in the vendor's format and as a picture.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use triune::internals::runtime::MemoryPlan;

/// An input or output, and its bytes where they do not depend on data.
pub(super) type Border = (String, Option<usize>);

/// The plan with what there is to say of it.
pub(super) fn described(plan: &MemoryPlan, inputs: &[Border], outputs: &[Border]) -> Value {
    let sizes = |border: &[Border]| -> Map<String, Value> {
        border.iter().map(|(name, bytes)| (name.clone(), json!(bytes))).collect()
    };
    let operators = plan.operators.iter().enumerate().map(|(id, operator)| {
        json!({
            "id": id, "name": operator.name, "type": operator.kind, "time_begin": operator.first, "time_end": operator.last,
        })
    });
    let chunks = plan.maps.iter().enumerate().map(|(id, map)| {
        json!({
            "id": id, "addr_begin": map.offset, "addr_end": map.offset + map.bytes, "time_begin": map.first,
            "time_end": map.last,
        })
    });
    json!({
        "peak_memory_size": plan.bytes, "lower_bound": plan.lower_bound, "weights": plan.weights, "inputs": sizes(inputs),
        "outputs": sizes(outputs), "operators": operators.collect::<Vec<_>>(), "chunks": chunks.collect::<Vec<_>>(),
    })
}

/// The plan in the library's terms: all text, times counted in operators, weights behind the rest.
pub(super) fn static_info(plan: &MemoryPlan) -> Value {
    let chunk = |id: usize, kind: &str, times: [usize; 2], addresses: [u64; 2]| {
        let content = json!({
            "id": id.to_string(), "type": kind, "time_begin": times[0].to_string(), "time_end": times[1].to_string(),
            "logic_addr_begin": addresses[0].to_string(), "logic_addr_end": addresses[1].to_string(),
            // No result is written over another operand's place.
            "overwrite_dest_id": "-1",
        });
        (id.to_string(), content)
    };
    let operator_at =
        |command: u32| plan.operators.partition_point(|operator| operator.first <= command).saturating_sub(1);
    let mut chunks: Map<String, Value> = plan
        .maps
        .iter()
        .enumerate()
        .map(|(id, map)| {
            let times = [operator_at(map.first), operator_at(map.last.saturating_sub(1)) + 1];
            chunk(id, "static_mem", times, [map.offset, map.offset + map.bytes])
        })
        .collect();
    if plan.weights > 0 {
        let (times, end) = ([0, plan.operators.len()], plan.bytes + plan.weights as u64);
        chunks.extend([chunk(plan.maps.len(), "weight_mem", times, [plan.bytes, end])]);
    }
    let operators: Map<String, Value> = plan
        .operators
        .iter()
        .enumerate()
        .map(|(id, operator)| (id.to_string(), json!({"id": id.to_string(), "name": operator.name})))
        .collect();
    json!({"chunk": chunks, "opr": operators})
}

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 600.0;
const MARGIN: f64 = 20.0;

/// The feature maps: from left to right the commands, from the bottom up the addresses.
pub(super) fn picture(plan: &MemoryPlan) -> String {
    let wide = WIDTH / f64::from(plan.maps.iter().map(|map| map.last).max().unwrap_or(1).max(1));
    let high = HEIGHT / plan.bytes.max(1) as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\">\n\
         <text x=\"{MARGIN}\" y=\"{}\" font-size=\"12\">peak_memory_size: {} bytes</text>\n\
         <rect x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"gray\"/>\n",
        WIDTH + 2.0 * MARGIN,
        HEIGHT + 2.0 * MARGIN,
        MARGIN - 5.0,
        plan.bytes,
    );
    for (id, map) in plan.maps.iter().enumerate() {
        let (offset, bytes, first, last) = (map.offset, map.bytes, map.first, map.last);
        let written = writeln!(
            text,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"silver\" stroke=\"black\"><title>chunk {id}: \
             {bytes} bytes at {offset}, commands {first} to {last}</title></rect>",
            MARGIN + f64::from(first) * wide,
            MARGIN + HEIGHT - (offset + bytes) as f64 * high,
            f64::from(last - first) * wide,
            bytes as f64 * high,
        );
        debug_assert!(written.is_ok(), "a text takes whatever is written");
    }
    text + "</svg>\n"
}
