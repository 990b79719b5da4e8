//! A network as it runs, in the vendor's format.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use triune::internals::{
    compiler::{Outline, OutlineValue},
    tensor::DType,
};

use super::numbers::known;

/// The library's name for the host.
pub(super) const HOST: &str = "cpu0:0";

/// The operators of the last run, with what flows between them.
///
/// The library numbers operators and their results together. Operators have Triune's names; the network's inputs and constants are
/// operators, too, with the library's.
pub(super) struct Drawing {
    values: Vec<OutlineValue>,
    operators: Map<String, Value>,
    variables: Map<String, Value>,
    chunks: Map<String, Value>,
    sequence: Vec<String>,
    footprints: Map<String, Value>,
    /// Of operators by their names.
    numbers: BTreeMap<String, String>,
    /// Of results by their positions.
    makers: BTreeMap<usize, String>,
}

impl Drawing {
    pub(super) fn of(outline: Outline) -> Self {
        let Outline { values, nodes } = outline;
        let made: BTreeSet<usize> = nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
        let mut drawing = Self {
            values,
            operators: Map::new(),
            variables: Map::new(),
            chunks: Map::new(),
            sequence: Vec::new(),
            footprints: Map::new(),
            numbers: BTreeMap::new(),
            makers: BTreeMap::new(),
        };
        for position in (0..drawing.values.len()).filter(|position| !made.contains(position)) {
            let value = &drawing.values[position];
            let (name, constant) = (value.name.clone(), value.constant);
            drawing.add(
                &name,
                if constant { "ImmutableTensor" } else { "Host2DeviceCopy" },
                &[],
                &[position],
                None,
            );
        }
        for node in nodes {
            let number = drawing.add(&node.name, node.kind, &node.inputs, &node.outputs, node.operations);
            drawing.numbers.insert(node.name, number);
        }
        drawing
    }

    fn next(&self) -> String {
        (self.operators.len() + self.variables.len()).to_string()
    }

    fn add(
        &mut self,
        name: &str,
        kind: &str,
        operands: &[usize],
        results: &[usize],
        operations: Option<u64>,
    ) -> String {
        let number = self.next();
        let read: Vec<&str> =
            operands.iter().filter_map(|at| self.makers.get(at)).map(String::as_str).collect();
        let operator = json!({
            "node_type": "operator", "id": number, "name": name, "type": kind, "extra": {}, "param": {}, "input": read,
        });
        self.operators.insert(number.clone(), operator);
        let constant = kind == "ImmutableTensor";
        let outputs: Vec<String> = results.iter().map(|&at| self.variable(at, &number, constant)).collect();
        self.operators[&number]["output"] = json!(outputs);
        if !constant {
            self.sequence.push(number.clone());
        }
        let shapes = |positions: &[usize]| -> Vec<&[usize]> {
            positions.iter().map(|&at| &*self.values[at].shape).collect()
        };
        let moved: usize = operands.iter().chain(results).map(|&at| bytes(&self.values[at])).sum();
        let footprint = json!({
            "param": {}, "in_shapes": shapes(operands), "out_shapes": shapes(results), "memory": moved,
            "computation": operations,
        });
        self.footprints.insert(number.clone(), footprint);
        number
    }

    fn variable(&mut self, position: usize, owner: &str, constant: bool) -> String {
        let number = self.next();
        let value = &self.values[position];
        let chunk = format!("chk{number}");
        self.makers.insert(position, number.clone());
        let shape: &[usize] = &value.shape;
        let strides: Vec<usize> = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        self.chunks.insert(
            chunk.clone(),
            json!({
                "node_type": "mem_chunk", "id": chunk, "size": bytes(value), "owner_var": number, "dev_ptr": null,
            }),
        );
        let flags: &[&str] = if constant { &["PERSISTENT_DEVICE_VALUE"] } else { &[] };
        let variable = json!({
            "node_type": "var", "id": number, "name": value.name, "comp_node": HOST, "owner_opr": owner,
            "mem_plan": {
                "mem_chunk_id": chunk, "offset_byte": 0,
                "layout": {"shape": shape, "stride": strides, "dtype": named(value.dtype)},
            },
            "dev_ptr": null, "flag": flags,
        });
        self.variables.insert(number.clone(), variable);
        number
    }

    /// The number of an operator by its name; one that moves results behind the last operator is added.
    pub(super) fn number(&mut self, name: &str, kind: &str) -> String {
        if let Some(number) = self.numbers.get(name) {
            return number.clone();
        }
        let number = self.add(name, kind, &[], &[], None);
        self.numbers.insert(name.to_owned(), number.clone());
        number
    }

    /// What an operator reads, makes and computes.
    pub(super) fn footprint(&self, number: &str) -> Option<&Value> {
        self.footprints.get(number)
    }

    /// What the vendor's tools read of a network.
    pub(super) fn content(&self) -> Value {
        json!({
            "operator": self.operators, "var": self.variables, "mem_chunk": self.chunks, "comp_seq": self.sequence,
        })
    }
}

fn bytes(value: &OutlineValue) -> usize {
    value.shape.iter().product::<usize>() * value.dtype.bytes()
}

/// The library's name of an element type, or one like it.
fn named(dtype: DType) -> String {
    known(dtype).map_or_else(
        || {
            let name = dtype.name();
            name[..1].to_uppercase() + &name[1..]
        },
        |(_, name)| name.to_owned(),
    )
}
