//! The bytes of a strided operand as runs without gaps.
//!
//! Knows extents and strides, not memory. Which bytes an operand has does not depend on the order of its axes, so they
//! are sorted by stride and merged where one continues the other: a transposed map without gaps is a single run.

/// Extents and byte strides of an operand's elements; the strides of extents of 1 do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Bytes of a run.
    run: u64,
    /// Extents and strides from one run to the next, the smallest stride first; unused ones have extent 1.
    axes: [(u64, u64); 6],
    used: usize,
}

impl Rows {
    /// `len` bytes without gaps.
    pub(crate) const fn dense(len: u64) -> Self {
        Self { run: len, axes: [(1, 0); 6], used: 0 }
    }

    /// The bytes of the elements of `elem_bytes` each; a stride of 0 repeats. Extents are above 0, and the last byte's
    /// offset fits u64.
    pub(crate) fn strided(elem_bytes: u64, dims: [u64; 6], strides: [u64; 6]) -> Self {
        let mut sorted = [(0, 0); 6];
        for (slot, axis) in sorted.iter_mut().zip(strides.into_iter().zip(dims)) {
            *slot = axis;
        }
        sorted.sort_unstable();
        let mut rows = Self::dense(elem_bytes);
        for (stride, dim) in sorted {
            if dim == 1 || stride == 0 {
                continue;
            }
            match rows.axes[..rows.used].last_mut() {
                // Elements that touch or overlap leave no gap.
                None if stride <= rows.run => rows.run += (dim - 1) * stride,
                Some((extent, inner)) if *extent * *inner == stride => *extent *= dim,
                _ => {
                    rows.axes[rows.used] = (dim, stride);
                    rows.used += 1;
                }
            }
        }
        rows
    }

    /// Calls `each` with the offset and the length of every run until one fails.
    pub(crate) fn try_each<E>(&self, mut each: impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        let axes = &self.axes[..self.used];
        let Some((&(inner, stride), outer)) = axes.split_first() else {
            return each(0, self.run);
        };
        let mut at = [0; 6];
        let mut base = 0;
        loop {
            for step in 0..inner {
                each(base + step * stride, self.run)?;
            }
            let mut axis = 0;
            loop {
                let Some(&(dim, stride)) = outer.get(axis) else { return Ok(()) };
                at[axis] += 1;
                if at[axis] < dim {
                    base += stride;
                    break;
                }
                base -= (dim - 1) * stride;
                at[axis] = 0;
                axis += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn bytes(rows: &Rows) -> Vec<u64> {
        let mut bytes = Vec::new();
        let result: Result<(), Infallible> = rows.try_each(|start, len| {
            bytes.extend(start..start + len);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        bytes.sort_unstable();
        bytes.dedup();
        bytes
    }

    #[test]
    fn permuted_maps_without_gaps_are_one_run() {
        let rows = Rows::strided(2, [1, 3, 5, 1, 4, 7], [99, 70 * 4, 2, 5, 70, 10]);
        assert_eq!(rows, Rows::dense(2 * 3 * 5 * 4 * 7));
        let gaps = Rows::strided(1, [1, 1, 1, 4, 8, 16], [0, 0, 0, 800, 32, 1]);
        assert_eq!((gaps.run, gaps.used), (16, 2));
        let rows_continue = Rows::strided(1, [1, 1, 1, 4, 8, 16], [0, 0, 0, 256, 32, 1]);
        assert_eq!((rows_continue.used, rows_continue.axes[0]), (1, (32, 32)));
    }

    proptest! {
        /// The runs hold exactly the bytes of the elements, listed one by one.
        #[test]
        fn runs_are_the_elements_bytes(
            elem in prop::sample::select(vec![1_u64, 2, 4, 8]),
            axes in prop::array::uniform6((1_u64..4, 0_u64..9)),
        ) {
            let dims = axes.map(|axis| axis.0);
            let strides = axes.map(|axis| axis.1 * elem);
            let mut expected = vec![0];
            for (dim, stride) in dims.into_iter().zip(strides) {
                expected = expected.iter().flat_map(|&at| (0..dim).map(move |i| at + i * stride)).collect();
            }
            let mut expected: Vec<u64> = expected.into_iter().flat_map(|at| at..at + elem).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(bytes(&Rows::strided(elem, dims, strides)), expected);
        }
    }
}
