//! Attributes of classical learning, for tests that read and write it.

use crate::onnx_common::{Message, tensor, tensor_attribute};

/// An attribute of strings.
pub(crate) fn texts(name: &str, values: &[&str]) -> Message {
    values.iter().fold(Message::default().text(1, name), |list, value| list.text(9, value)).int(20, 8)
}

/// An attribute of f64.
pub(crate) fn doubles(name: &str, values: &[f64]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor_attribute(name, &tensor("", 11, &[values.len() as i64]).bytes(9, &bytes))
}
