//! Reductions.

use super::kind;
use crate::{Error, ValueId, format::mge::node::NodeReader};

/// A sum, product, extreme or mean along an axis, which stays with an extent of 1.
pub(in super::super) fn reduce(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::REDUCE)?;
    let mode = params.u32(0, 0)?;
    Err(node.unsupported(format!("mode {mode}")))
}
