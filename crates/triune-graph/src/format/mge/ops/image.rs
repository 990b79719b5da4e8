//! Images resampled.

use super::{channels_last, kind};
use crate::{Error, ValueId, format::mge::node::NodeReader};

pub(in super::super) fn resize(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::RESIZE)?;
    let _ = channels_last(node, &params, 1, 1)?;
    Err(node.unsupported("resampling"))
}
