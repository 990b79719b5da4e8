//! The one source of arbitrary numbers that every test draws from.

use triune_tensor::DType;

use crate::Tensor;

/// Splitmix64: the sequence is the seed's, on every machine.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator without end would need an unwrap at every draw"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `limit`, which 0 stands for 1 in.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// From `low` to `high`, both of them included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Any bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// −1 to 1, with 24 bits.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    /// Numbers of [`Self::unit`].
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }

    /// Small values, so that equal ones and halves occur; some of either sign where the type has signs.
    pub fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        if dtype.is_real() {
            let values: Vec<f64> = (0..count).map(|_| (self.next() % 65) as f64 / 8.0 - 4.0).collect();
            return Tensor::of_floats(dtype, shape, &values);
        }
        if let Some((low, high)) = dtype.int_range().filter(|_| dtype.is_storage()) {
            let values: Vec<i64> = (0..count).map(|_| low + (self.next() as i64 & (high - low))).collect();
            return Tensor::of_integers(dtype, shape, &values);
        }
        let low = match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => -9,
            _ => 0,
        };
        let limit = if dtype == DType::Bool { 2 } else { 19 };
        let values: Vec<i64> = (0..count).map(|_| (self.next() % limit) as i64 + low).collect();
        Tensor::of_integers(dtype, shape, &values)
    }

    /// How a window moves over `size`: every kernel extent, step, gap and each of the four paddings (top, left, bottom, right) a
    /// draw of its own, and none of them so large that a window lies in the padding alone.
    ///
    /// Where `kernel` allows it, paddings of opposite sides differ, so that a test notices sides that are mixed up.
    pub fn window(&mut self, size: [usize; 2], kernel: [usize; 2]) -> Window {
        let mut window = Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], pad: [0; 4] };
        for axis in 0..2 {
            window.stride[axis] = self.between(1, 3);
            window.dilation[axis] = self.between(1, size[axis].min(2));
            window.kernel[axis] = self.between(1, kernel[axis]);
            let reach = (window.kernel[axis] - 1) * window.dilation[axis];
            let mut pads = [self.between(0, reach), self.between(0, reach)];
            if pads[0] == pads[1] && reach > 0 {
                pads[1] = (pads[1] + 1) % (reach + 1);
            }
            // As far as the window leaves the map, the end's padding makes up for it.
            pads[1] = pads[1].max((reach + 1).saturating_sub(size[axis] + pads[0]));
            (window.pad[axis], window.pad[axis + 2]) = (pads[0], pads[1]);
        }
        window
    }
}

/// What [`Random::window`] draws: the attributes of a convolution or a pool in two dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows and columns.
    pub kernel: [usize; 2],
    /// Steps down and right.
    pub stride: [usize; 2],
    /// Distances of the kernel's elements.
    pub dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub pad: [usize; 4],
}

impl Window {
    /// The extents of the result on a map of `size`.
    pub fn output(&self, size: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|axis| {
            let reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1;
            (size[axis] + self.pad[axis] + self.pad[axis + 2] - reach) / self.stride[axis] + 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_fit_and_their_sides_differ() {
        let mut random = Random(1);
        let mut uneven = [0; 2];
        for _ in 0..2000 {
            let size = [random.between(1, 9), random.between(1, 9)];
            let window = random.window(size, [4, 5]);
            assert!(window.output(size).iter().all(|&extent| extent > 0), "{window:?} on {size:?}");
            for axis in 0..2 {
                assert!((1..=[4, 5][axis]).contains(&window.kernel[axis]));
                for place in 0..window.output(size)[axis] {
                    let taps = (0..window.kernel[axis]).map(|tap| {
                        (place * window.stride[axis] + tap * window.dilation[axis])
                            .wrapping_sub(window.pad[axis])
                    });
                    assert!(taps.into_iter().any(|at| at < size[axis]), "{window:?} on {size:?}");
                }
                uneven[axis] += usize::from(window.pad[axis] != window.pad[axis + 2]);
            }
        }
        assert!(uneven.iter().all(|&count| count > 1000), "{uneven:?}");
    }
}
