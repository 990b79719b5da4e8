//! Spatial resampling.

use triune_tensor::function::{CoordinateMode, ResizeMode};

use super::infer::{Operands, TensorType};
use crate::{Constant, Error};
use triune_tensor::text::List;

/// Spatial resampling; inputs x, optional roi, optional scales, optional sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// How values are made.
    pub mode: ResizeMode,
    /// Where they are taken.
    pub coordinates: CoordinateMode,
}

impl Resize {
    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let dims: Vec<usize> = if at.get(3).is_some() {
            at.needed_ints(3)?
                .iter()
                .map(|&size| usize::try_from(size).ok())
                .collect::<Option<_>>()
                .ok_or_else(|| at.wrong("a negative size"))?
        } else {
            let scales = at
                .input(2)?
                .constant
                .and_then(Constant::to_f32)
                .ok_or_else(|| at.wrong("scales are not f32 or depend on the network's data"))?;
            if !scales.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
                return Err(at.wrong(format!("scales {}", List(&scales))));
            }
            // A product in f32, as the reference implementations have it: 1/3 of 3 is 1.
            scales.iter().zip(x.shape.iter()).map(|(&scale, &dim)| (scale * dim as f32) as usize).collect()
        };
        // Elements cannot be made of none.
        let from_nothing = x.shape.contains(&0) && !dims.contains(&0);
        if dims.len() != x.shape.rank() || from_nothing {
            return Err(at.wrong(format!("input {} cannot become {}", x.shape, List(&dims))));
        }
        at.like_input(at.shape(&dims)?)
    }
}
