//! Passes: each takes a graph and leaves an equal one that is closer to what runs. One that fails, or is stopped, leaves a graph
//! that is of no further use.

mod affine;
mod blocks;
mod constants;
mod dead_code;
mod fuse;
mod half;
mod quantize;
mod rewrite;
mod spell_out;
mod stages;

pub use affine::fold_batch_norm;
pub use constants::{fold_constants, fold_dequantize};
pub use dead_code::dead_code;
pub use fuse::fuse;
pub use half::widen_half;
pub use quantize::{
    composite::{join_composites, join_gelus, join_normalizations},
    correlation::spell_out_correlations,
    pattern::are_of_products,
    quantize,
    table::{q16_table, table},
};
pub use spell_out::spell_out_vectors;
pub use stages::{Arrival, HostOperand, HostStep, Stage, body_stages, stages};

use crate::{Error, Graph, infer::infer};

/// All passes in the order in which they help each other, on a bound graph. Returns whether anything changed.
///
/// Afterwards all types are known, operators between quantized values are integer operators, everything else is
/// float, and what can be fused is.
pub fn prepare(graph: &mut Graph) -> Result<bool, Error> {
    let mut changed = prepare_unfused(graph)?;
    changed |= fuse(graph)?;
    if changed {
        dead_code(graph)?;
        infer(graph)?;
    }
    Ok(changed)
}

/// As [`prepare`], with float normalizations of rows as one operator each, for who computes them so.
pub fn prepare_for_rows(graph: &mut Graph) -> Result<bool, Error> {
    let mut changed = prepare_unfused(graph)?;
    // Before steps join others, which hides them.
    changed |= join_normalizations(graph)?;
    changed |= fuse(graph)?;
    if changed {
        dead_code(graph)?;
        infer(graph)?;
    }
    Ok(changed)
}

/// As [`prepare`], but every operator stays one of its own.
pub fn prepare_unfused(graph: &mut Graph) -> Result<bool, Error> {
    let mut changed = dead_code(graph)?;
    // From here on, types are inferred anew behind whatever changes the graph.
    infer(graph)?;
    changed |= half::widen_inferred(graph)?;
    let mut folded = constants::fold_inferred(graph)?;
    // Before products become layers with room for a bias.
    changed |= blocks::multiply_as_stored(graph);
    // Before quantization: a float normalization behind a convolution would keep it from being seen.
    folded |= fold_batch_norm(graph)?;
    if folded {
        infer(graph)?;
    }
    // What folding leaves without readers goes with it.
    let mut quantized = (folded || quantize::concerns(graph)) && quantize(graph)?;
    // What quantization left in float has float weights, which may take in what follows.
    if fold_dequantize(graph)? {
        quantized = true;
        fold_constants(graph)?;
        fold_batch_norm(graph)?;
    }
    if quantized {
        infer(graph)?;
    }
    changed |= folded | quantized;
    changed |= spell_out::spell_out(graph)?;
    Ok(changed)
}
