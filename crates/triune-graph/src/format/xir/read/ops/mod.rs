//! What the vendor's operators mean in the graph, one file per family.

pub(super) mod activation;
pub(super) mod arithmetic;
pub(super) mod conv;
pub(super) mod custom;
pub(super) mod matrix;
pub(super) mod movement;
pub(super) mod normalization;
pub(super) mod planes;
pub(super) mod pool;
pub(super) mod reduce;
pub(super) mod resize;
pub(super) mod shape;
mod weights;
