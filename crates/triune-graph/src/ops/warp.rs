//! Perspective warps of images.

use triune_tensor::{
    DType,
    function::{BorderMode, Sampling},
};

use super::infer::{Operands, TensorType};
use crate::Error;

/// Output pixel (x, y) of image i is the input's at (m₀x + m₁y + m₂, m₃x + m₄y + m₅) / (m₆x + m₇y + m₈) of matrix i.
///
/// Inputs x (N, C, H, W) of f32, i8 or u8; matrices (M, 3, 3) of f32; optional indices (M) of i32, the image of x that
/// each result is taken from (without them M is N); size, two integers: rows and columns of the result (M, C, rows,
/// columns). 8-bit results are rounded half away from zero. An index outside of x is an error when the network runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarpPerspective {
    /// What a pixel is made of.
    pub sampling: Sampling,
    /// What lies outside of the input.
    pub border: BorderMode,
}

impl WarpPerspective {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, matrices) = (at.of_rank(0, 4)?, at.of_rank(1, 3)?);
        if !matches!(x.dtype, DType::F32 | DType::I8 | DType::U8) {
            return Err(at.wrong(format!("images of type {}; f32, i8 and u8 can be warped", x.dtype)));
        }
        if matrices.dtype != DType::F32 || matrices.shape[1..] != [3, 3] {
            return Err(at.wrong(format!("matrices {} of type {}", matrices.shape, matrices.dtype)));
        }
        let results = matrices.shape[0];
        match at.get(2) {
            Some(indices) if indices.dtype != DType::I32 || *indices.shape != [results] => {
                return Err(at.wrong(format!(
                    "image indices {} of type {}; {results} of type i32 are expected",
                    indices.shape, indices.dtype
                )));
            }
            None if results != x.shape[0] => {
                return Err(at.wrong(format!("{results} matrices for {} images", x.shape[0])));
            }
            _ => {}
        }
        let [rows, columns] = at.size(3)?;
        if x.shape.contains(&0) && rows != 0 && columns != 0 && results != 0 {
            return Err(at.wrong(format!("input {} has no elements to take", x.shape)));
        }
        at.like_input(at.shape(&[results, x.shape[1], rows, columns])?)
    }
}

/// Weighted sums of elements picked by index: y[n, c, i] = Σₜ f[n, t, i]·x[n, c, k[n, t, i]].
///
/// Inputs x (N, C, elements) of f32; indices k (N or 1, taps, count) of i32, of which negative ones add nothing; optional
/// factors f of the same extents, f32. An index behind the last element is an error when the network runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weigh;

impl Weigh {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let (x, indices) = (at.of_rank(0, 3)?, at.of_rank(1, 3)?);
        let fits = x.dtype == DType::F32
            && indices.dtype == DType::I32
            && (indices.shape[0] == 1 || indices.shape[0] == x.shape[0]);
        let factors = at.get(2);
        if !fits || factors.is_some_and(|all| all.dtype != DType::F32 || all.shape != indices.shape) {
            return Err(
                at.wrong(format!("sums of {} {} by {} {}", x.dtype, x.shape, indices.dtype, indices.shape))
            );
        }
        at.like_input(at.shape(&[x.shape[0], x.shape[1], indices.shape[2]])?)
    }
}
