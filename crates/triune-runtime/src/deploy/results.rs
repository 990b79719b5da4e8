//! What of an output buffer a program writes: all but the padding, which the host fills once.

use crate::TensorIo;

/// Runs of bytes in one image's buffer, as (first, length), in ascending order.
pub(super) fn written(io: &TensorIo, batch: usize) -> Vec<(u64, u64)> {
    let item = io.dtype.bytes();
    let bytes = io.bytes() / batch;
    if io.padding.iter().all(|&padding| padding == (0, 0)) {
        return vec![(0, bytes as u64)];
    }
    let mut extents = io.shape.to_vec();
    extents[0] /= batch;
    // Axes as the buffer has them, outer ones first: which one, its extent, and how far one step goes along it.
    let layout: Vec<(usize, usize, usize)> = match io.block {
        Some(block) => {
            vec![
                (0, extents[0], 1),
                (3, extents[3] / block, block),
                (1, extents[1], 1),
                (2, extents[2], 1),
                (3, block, 1),
            ]
        }
        None => extents.iter().enumerate().map(|(axis, &extent)| (axis, extent, 1)).collect(),
    };
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut at = vec![0; extents.len()];
    for index in 0..bytes / item {
        at.fill(0);
        let mut rest = index;
        for &(axis, extent, step) in layout.iter().rev() {
            at[axis] += rest % extent * step;
            rest /= extent;
        }
        let inside = |((&at, &extent), &(before, after)): ((&usize, &usize), &(usize, usize))| {
            before <= at && at < extent - after
        };
        if !at.iter().zip(&extents).zip(&io.padding).all(inside) {
            continue;
        }
        let (first, length) = ((index * item) as u64, item as u64);
        match runs.last_mut() {
            Some((start, len)) if *start + *len == first => *len += length,
            _ => runs.push((first, length)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use triune_tensor::{DType, Shape};

    use super::*;

    fn io(dtype: DType, shape: [usize; 4], padding: [(usize, usize); 4], block: Option<usize>) -> TensorIo {
        let shape = Shape::from(shape);
        let (name, padding) = ("y".to_owned(), padding.to_vec());
        let (scale, zero_point, model_shape, model_dtype) = (1.0, 0, shape, dtype);
        TensorIo { name, dtype, shape, padding, scale, zero_point, block, model_shape, model_dtype }
    }

    #[test]
    fn padding_is_left_out() {
        let none = [(0, 0); 4];
        assert_eq!(written(&io(DType::I32, [2, 2, 1, 3], none, None), 2), [(0, 24)]);
        // Two pixels of three channels, the third one padding, below a row of padding.
        let padding = [(0, 0), (1, 0), (0, 0), (0, 1)];
        assert_eq!(written(&io(DType::I8, [1, 2, 2, 3], padding, None), 1), [(6, 2), (9, 2)]);
        assert_eq!(written(&io(DType::I16, [3, 2, 2, 3], padding, None), 3), [(12, 4), (18, 4)]);
        // The same in blocks of two channels of four: (1, 2, 2, 2, 2).
        let padding = [(0, 0), (1, 0), (0, 0), (0, 1)];
        assert_eq!(written(&io(DType::I8, [1, 2, 2, 4], padding, Some(2)), 1), [(4, 4), (12, 1), (14, 1)]);
    }
}
