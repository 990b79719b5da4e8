//! Writing a document: keys sorted, four blanks per level, values inline wherever they are used.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Map, Value as Json, ser::PrettyFormatter};

use super::{
    Attribute, Document, ElementType, Operation, TensorType, Value, malformed,
    raw::{md5, raw_file},
};
use crate::Error;

impl Document {
    /// The JSON text and the RAW file; `params_bytes` and `params_md5` are those of the new file.
    ///
    /// # Errors
    /// A constant without data that has to have some, with data of another size than its type's, or with a `v_id` that the
    /// RAW file's table can't hold.
    ///
    /// # Panics
    /// If an operation refers to a value that the document doesn't have.
    pub fn write(&self) -> Result<(String, Vec<u8>), Error> {
        let raw = self.write_raw()?;
        let mut json = self.json();
        json.insert("params_bytes".into(), (raw.len() as u64).into());
        json.insert("params_md5".into(), md5(&raw).into());
        Ok((pretty(&Json::Object(json)), raw))
    }

    /// The JSON text as the document has it, `params_bytes` and `params_md5` included.
    ///
    /// # Panics
    /// As [`Document::write`].
    pub fn write_json(&self) -> String {
        pretty(&Json::Object(self.json()))
    }

    fn write_raw(&self) -> Result<Vec<u8>, Error> {
        let mut constants = Vec::new();
        for value in &self.values {
            let Some(params) = &value.params else { continue };
            let v_id = value.v_id;
            let Some(data) = &params.data else {
                if params.allow_no_data {
                    continue;
                }
                return Err(malformed(format!("constant {v_id} has no data to write")));
            };
            if value.dtype.storage_bytes() != Some(data.len() as u64) {
                return Err(malformed(format!(
                    "constant {v_id} has {} bytes, not those of its type",
                    data.len()
                )));
            }
            let id = u32::try_from(v_id)
                .map_err(|_| malformed(format!("constant {v_id}: a RAW file has ids from 0 to 2^32 - 1")))?;
            constants.push((id, data.as_ref()));
        }
        raw_file(&constants)
    }

    fn json(&self) -> Map<String, Json> {
        let values: Vec<Json> = self.values.iter().map(value).collect();
        let mut json: Map<String, Json> = self.extra.clone().into_iter().collect();
        json.insert("_type_key".into(), "icraft::xir::Network".into());
        if let Some(target) = &self.ai_target {
            json.insert("ai_target".into(), text(target));
        }
        json.insert("framework_kind".into(), self.framework_kind.as_str().into());
        json.insert("framework_version".into(), self.framework_version.as_str().into());
        json.insert("icraft_version".into(), self.icraft_version.as_str().into());
        // A file that leaves it out is read as one of today's; no version at all is refused.
        if !self.icraft_xir_version.is_empty() {
            json.insert("icraft_xir_version".into(), self.icraft_xir_version.as_str().into());
        }
        json.insert("name".into(), self.name.as_str().into());
        json.insert("ops".into(), self.ops.iter().map(|op| operation(op, &values)).collect());
        json.insert("params_bytes".into(), self.params_bytes.into());
        json.insert("params_md5".into(), self.params_md5.as_str().into());
        json.insert("tags".into(), self.tags.clone().into_iter().collect());
        json
    }
}

fn pretty(json: &Json) -> String {
    let mut text = Vec::new();
    let mut serializer =
        serde_json::Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    json.serialize(&mut serializer).expect("JSON values go into memory");
    String::from_utf8(text).expect("JSON is UTF-8")
}

fn text(item: impl Display) -> Json {
    Json::String(item.to_string())
}

fn object<const N: usize>(entries: [(&str, Json); N]) -> Json {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A number, or its name where JSON has none.
fn number(value: f64) -> Json {
    if value.is_nan() {
        return "nan".into();
    }
    serde_json::Number::from_f64(value).map_or_else(|| text(value), Json::Number)
}

/// An operation's JSON; `values` are those of the document.
pub(super) fn operation(op: &Operation, values: &[Json]) -> Json {
    let mut json: Map<String, Json> =
        op.attributes.iter().map(|(key, item)| (key.clone(), attribute(item, values))).collect();
    let input = |input: &Option<usize>| input.map_or(Json::Null, |index| values[index].clone());
    json.insert("_type_key".into(), op.type_key.as_str().into());
    json.insert("compile_target".into(), text(op.target));
    json.insert("inputs".into(), op.inputs.iter().map(input).collect());
    json.insert("name".into(), op.name.as_str().into());
    json.insert("op_id".into(), op.op_id.into());
    json.insert("outputs".into(), op.outputs.iter().map(|&index| values[index].clone()).collect());
    json.insert("tags".into(), op.tags.clone().into_iter().collect());
    Json::Object(json)
}

/// An attribute's JSON; `values` are those of the document.
pub(super) fn attribute(item: &Attribute, values: &[Json]) -> Json {
    match item {
        Attribute::Null => Json::Null,
        Attribute::Bool(value) => (*value).into(),
        Attribute::Int(value) => (*value).into(),
        Attribute::Float(value) => number(*value),
        Attribute::Text(value) => value.as_str().into(),
        Attribute::List(items) => items.iter().map(|item| attribute(item, values)).collect(),
        Attribute::Map(items) => {
            items.iter().map(|(key, item)| (key.clone(), attribute(item, values))).collect()
        }
        Attribute::Value(index) => values[*index].clone(),
        Attribute::Type(item) => tensor_type(item),
        Attribute::Element(item) => element_type(item),
        Attribute::Operation(op) => operation(op, values),
    }
}

/// A value's JSON.
pub(super) fn value(value: &Value) -> Json {
    let kind = if value.params.is_some() { "icraft::xir::Params" } else { "icraft::xir::Value" };
    let mut json = object([
        ("_type_key", kind.into()),
        ("dtype", tensor_type(&value.dtype)),
        ("mtype", text(value.mtype)),
        ("name", value.name.as_str().into()),
        ("tags", value.tags.clone().into_iter().collect()),
        ("v_id", value.v_id.into()),
    ]);
    if let Some(params) = &value.params {
        json["_allow_no_data"] = params.allow_no_data.into();
    }
    json
}

fn tensor_type(dtype: &TensorType) -> Json {
    object([
        ("_type_key", "icraft::xir::TensorType".into()),
        ("element_dtype", element_type(&dtype.element)),
        ("layout", Json::String(format!("@layout({})", dtype.layout))),
        ("merged_distrs", dtype.merged.iter().map(text).collect()),
        ("shape", dtype.shape.clone().into()),
    ])
}

fn element_type(element: &ElementType) -> Json {
    let numbers = |values: &[f64]| -> Json { values.iter().map(|&value| number(value)).collect() };
    match element {
        ElementType::Scalar(scalar) => text(scalar),
        ElementType::Calibrated { storage, expressed, min, max, sat } => object([
            ("_type_key", "icraft::xir::CalibratedType".into()),
            ("expressed_dtype", text(expressed)),
            ("max", numbers(max)),
            ("min", numbers(min)),
            ("sat", numbers(sat)),
            ("storage_dtype", text(storage)),
        ]),
        ElementType::Normalized { storage, expressed, ratio, zero_points } => {
            let mut json = object([
                ("_type_key", "icraft::xir::NormalizedType".into()),
                ("expressed_dtype", text(expressed)),
                ("normratio", ratio.ratios_text().into()),
                ("storage_dtype", text(storage)),
            ]);
            if let Some(zero_points) = zero_points {
                json["zero_points"] = zero_points.clone().into();
            }
            json
        }
        ElementType::Quantized { storage, expressed, scale, zero_points } => object([
            ("_type_key", "icraft::xir::QuantizedType".into()),
            ("expressed_dtype", text(expressed)),
            ("scale", text(scale)),
            ("storage_dtype", text(storage)),
            ("zero_points", zero_points.clone().into()),
        ]),
        ElementType::NormalizedQuantized { storage, expressed, ratio, scale, zero_points } => object([
            ("_type_key", "icraft::xir::NormalizedQuantizedType".into()),
            ("expressed_dtype", text(expressed)),
            ("normratio", ratio.ratios_text().into()),
            ("scale", text(scale)),
            ("storage_dtype", text(storage)),
            ("zero_points", zero_points.clone().into()),
        ]),
    }
}
