//! Spatial resampling. Coordinates are computed in f32, as the reference runtimes do: it decides which neighbour wins.

use triune_graph::ops::{CoordinateMode, NearestMode, Resize, ResizeMode};

use super::{Step, epilogue::requantize};
use crate::{
    Data, Tensor,
    tensor::{flat, positions},
};

impl Step<'_> {
    pub(super) fn resize(&self, op: Resize) -> Tensor {
        let x = self.input(0);
        let sizes = self.optional(3).map(Tensor::integers);
        let (shape, scales): (Vec<usize>, Vec<f32>) = match sizes {
            Some(sizes) => (sizes.iter().zip(&x.shape))
                .map(|(&size, &dim)| (size as usize, size as f32 / dim as f32))
                .unzip(),
            None => (self.input(2).as_f32().iter().zip(&x.shape))
                .map(|(&scale, &dim)| ((dim as f32 * scale).floor() as usize, scale))
                .unzip(),
        };
        let coordinate = |axis: usize, at: usize| {
            let (input, output, scale) = (x.shape[axis] as f32, shape[axis] as f32, scales[axis]);
            let at = at as f32;
            // A tensor that keeps its shape is copied, whatever its scales.
            if shape == x.shape || scale == 1.0 {
                return at;
            }
            match op.coordinates {
                CoordinateMode::Asymmetric => at / scale,
                CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners if shape[axis] == 1 => 0.0,
                CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
                CoordinateMode::AlignCorners => at * (input - 1.0) / (output - 1.0),
            }
        };
        match op.mode {
            ResizeMode::Nearest(mode) => {
                let nearest = |axis: usize, at: usize| {
                    let place = coordinate(axis, at);
                    // ONNX Runtime takes what lies this near to the middle for a tie.
                    let tie = (place - place.floor() - 0.5).abs() < 1e-6;
                    let rounded = match mode {
                        NearestMode::RoundPreferFloor if tie => place.floor(),
                        NearestMode::RoundPreferCeil if tie => place.ceil(),
                        NearestMode::RoundPreferFloor | NearestMode::RoundPreferCeil => place.round(),
                        NearestMode::Floor => place.floor(),
                        NearestMode::Ceil => place.ceil(),
                    };
                    rounded.clamp(0.0, (x.shape[axis] - 1) as f32) as usize
                };
                let source = |at: Vec<usize>| {
                    flat(&x.shape, &(0..at.len()).map(|axis| nearest(axis, at[axis])).collect::<Vec<_>>())
                };
                x.take(&shape, positions(&shape).map(source))
            }
            ResizeMode::Linear if self.quant().is_some() => self.blended(&shape, coordinate),
            ResizeMode::Linear => {
                let values = x.as_f32();
                // Each axis contributes two neighbours and their shares; the result is the sum over all corners.
                let neighbours = |axis: usize, at: usize| {
                    let last = (x.shape[axis] - 1) as f32;
                    let place = coordinate(axis, at).clamp(0.0, last);
                    let low = place.floor();
                    let share = f64::from(place - low);
                    [(low as usize, 1.0 - share), ((low + 1.0).min(last) as usize, share)]
                };
                let blend = |at: Vec<usize>| {
                    let axes: Vec<_> = (0..at.len()).map(|axis| neighbours(axis, at[axis])).collect();
                    let corners = 0..1_usize << axes.len();
                    let corner = |corner: usize| {
                        let chosen: Vec<_> =
                            (axes.iter().enumerate()).map(|(axis, two)| two[corner >> axis & 1]).collect();
                        let share: f64 = chosen.iter().map(|(_, share)| share).product();
                        if share == 0.0 {
                            return 0.0;
                        }
                        let place: Vec<usize> = chosen.iter().map(|(place, _)| *place).collect();
                        share * f64::from(values[flat(&x.shape, &place)])
                    };
                    corners.map(corner).sum::<f64>() as f32
                };
                Tensor::new(&shape, Data::F32(positions(&shape).map(blend).collect()))
            }
        }
    }

    /// Rows and columns of integers, weights in steps of 2⁻¹¹, the sum exact.
    fn blended(&self, shape: &[usize], coordinate: impl Fn(usize, usize) -> f32) -> Tensor {
        let x = self.input(0);
        let (from, to, dtype) = (self.input_quant(0), self.result_quant(), self.result_dtype());
        let factor = self.arithmetic().factor(from.scale / to.scale, dtype);
        let values = x.integers();
        let neighbours = |axis: usize, at: usize| {
            let last = x.shape[axis] - 1;
            let place = coordinate(axis, at).clamp(0.0, last as f32);
            let low = place.floor();
            let steps = i64::from(((place - low) * 2048.0).round_ties_even() as i32);
            [(low as usize, 2048 - steps), ((low as usize + 1).min(last), steps)]
        };
        let blend = |at: Vec<usize>| {
            let mut sum = 0;
            for (row, down) in neighbours(2, at[2]) {
                for (column, across) in neighbours(3, at[3]) {
                    let q = values[flat(&x.shape, &[at[0], at[1], row, column])];
                    sum += down * across * (q - i64::from(from.zero_point));
                }
            }
            let steps = factor / 4_194_304.0;
            i64::from(requantize(sum, steps, to.zero_point, dtype, self.graph.rounding))
        };
        let results: Vec<i64> = positions(shape).map(blend).collect();
        Tensor::of_integers(dtype, shape, &results)
    }
}
