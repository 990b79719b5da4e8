//! Operators that the vendor has none for, under the names of the graph's own functions.

use triune_tensor::function::{BinaryKind, Code, Coded, UnaryKind};

use super::{super::node::Reader, activation, arithmetic, normalization, resize};
use crate::Error;

/// A function of one or of two numbers, resampling, or a normalization by the mean square.
pub(in super::super) fn read(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let kind = node.kind().rsplit("::").next().unwrap_or_default();
    let code = |codes: &[Code]| codes.iter().find(|code| code.name == kind).map(|code| code.code);
    match kind {
        "Resize" => return resize::any(node),
        "RMSNorm" => return normalization::layer(node),
        _ => {}
    }
    if let Some(code) = code(UnaryKind::CODES) {
        let parameters = [node.float("alpha", 0.0)?, node.float("beta", 0.0)?];
        let function = UnaryKind::from_code(code, parameters).ok_or_else(|| node.unknown())?;
        return activation::each(node, |node, x| node.unary(function, x));
    }
    let function = code(BinaryKind::CODES).and_then(BinaryKind::from_code).ok_or_else(|| node.unknown())?;
    arithmetic::of_both(node, function)
}
