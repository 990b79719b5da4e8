//! Element by element over one operand.

use std::sync::Arc;

use triune_tensor::function::UnaryKind;

use super::{
    Op,
    infer::{Operands, TensorType},
};
use crate::Error;

/// One operand, element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unary {
    /// The function.
    pub kind: UnaryKind,
}

/// Clamp with limits as operands; becomes [`UnaryKind::Clip`] once they are constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip;

/// A 256-entry map of 8-bit values, indexed by the byte's unsigned pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The map.
    pub table: Arc<[u8; 256]>,
}

/// A 256-entry map of 8-bit values for every index along an axis, each indexed by the byte's unsigned pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// The maps, as many as the axis has indices.
    pub tables: Arc<[[u8; 256]]>,
    /// The axis.
    pub axis: usize,
}

impl From<UnaryKind> for Op {
    fn from(kind: UnaryKind) -> Self {
        Self::Unary(Unary { kind })
    }
}

impl Clip {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        for index in 1..=2 {
            if let Some(limit) = at.get(index)
                && (limit.shape.elements() != Some(1) || limit.dtype != x.dtype)
            {
                return Err(at.wrong(format!("limit {index} is not one value of type {}", x.dtype)));
            }
        }
        at.like_input(x.shape)
    }
}

impl Table {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if !x.dtype.is_quantized() {
            return Err(at.wrong(format!("an input of type {}; 8 bits are expected", x.dtype)));
        }
        at.like_input(x.shape)
    }
}

impl Tables {
    pub(super) fn infer(&self, at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        if !x.dtype.is_quantized() {
            return Err(at.wrong(format!("an input of type {}; 8 bits are expected", x.dtype)));
        }
        match x.shape.get(self.axis) {
            Some(&extent) if extent == self.tables.len() => at.like_input(x.shape),
            Some(extent) => {
                Err(at.wrong(format!("{} tables along axis {} of {extent}", self.tables.len(), self.axis)))
            }
            None => Err(at.wrong(format!("axis {} of a value of rank {}", self.axis, x.shape.rank()))),
        }
    }
}
