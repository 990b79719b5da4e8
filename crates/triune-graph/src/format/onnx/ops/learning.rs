//! Operators of classical learning: linear models, encoders, and what prepares features for them.

use super::NodeReader;
use crate::Error;

/// The domain of classical learning.
pub(super) const ML_DOMAIN: &str = "ai.onnx.ml";

/// Takes the labels of classes, integers or strings, of which the numbers stand for them; the first result has them.
pub(super) fn labels(node: &mut NodeReader<'_, '_>, integers: &str) -> Result<Vec<i64>, Error> {
    let texts = node.texts("classlabels_strings")?.filter(|texts| !texts.is_empty());
    let labels = node.ints(integers)?.filter(|labels| !labels.is_empty());
    match (texts, labels) {
        (None, None) => Err(node.unsupported(format!(
            "attributes '{integers}' and 'classlabels_strings' are missing; one of both is expected"
        ))),
        (Some(texts), _) => {
            node.makes_strings(0);
            texts.iter().map(|text| node.number_of(text)).collect()
        }
        (None, Some(labels)) => Ok(labels),
    }
}
