//! The layers that the convolution benchmarks share, and what they are fed with.

use std::{fmt, time::Duration};

use criterion::Criterion;
use triune_kernels::{ConvGeometry, Nhwc};

/// A layer: where it occurs, the side of its square input, channels, and the window.
pub(crate) struct Layer {
    name: &'static str,
    side: usize,
    channels: [usize; 2],
    window: usize,
    stride: usize,
    groups: usize,
}

impl Layer {
    const fn dense(
        name: &'static str,
        side: usize,
        channels: [usize; 2],
        window: usize,
        stride: usize,
    ) -> Self {
        Self { name, side, channels, window, stride, groups: 1 }
    }

    const fn depthwise(name: &'static str, side: usize, channels: usize, stride: usize) -> Self {
        Self { name, side, channels: [channels, channels], window: 3, stride, groups: channels }
    }

    /// Same padding.
    pub(crate) fn geometry(&self) -> ConvGeometry {
        ConvGeometry {
            kernel: [self.window; 2],
            stride: [self.stride; 2],
            dilation: [1; 2],
            pad: [self.window / 2; 4],
            groups: self.groups,
        }
    }

    /// The input and the output, dense.
    pub(crate) fn maps(&self) -> [Nhwc; 2] {
        let [h, w] = self.geometry().output(self.side, self.side).expect("the window fits");
        let [inputs, outputs] = self.channels;
        [Nhwc::dense(1, self.side, self.side, inputs), Nhwc::dense(1, h, w, outputs)]
    }

    /// Weights per output channel.
    pub(crate) fn taps(&self) -> usize {
        self.window * self.window * self.channels[0] / self.groups
    }

    /// Multiply-accumulates of one run, padding included.
    pub(crate) fn macs(&self) -> u64 {
        (self.maps()[1].span() * self.taps()) as u64
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [inputs, outputs] = self.channels;
        write!(f, "{} {} {inputs}-{outputs}", self.name, self.side)
    }
}

/// What a convolutional network is made of: a stem, 3×3 and 1×1 windows from large to small maps, depthwise, linear.
pub(crate) const LAYERS: [Layer; 10] = [
    Layer::dense("resnet stem 7x7s2", 224, [3, 64], 7, 2),
    Layer::dense("resnet 3x3", 56, [64, 64], 3, 1),
    Layer::dense("resnet 3x3", 14, [256, 256], 3, 1),
    Layer::dense("resnet 3x3", 7, [512, 512], 3, 1),
    Layer::dense("resnet 1x1", 56, [64, 256], 1, 1),
    Layer::dense("resnet 1x1", 14, [1024, 256], 1, 1),
    Layer::dense("mobilenet 1x1", 28, [32, 192], 1, 1),
    Layer::dense("linear", 1, [2048, 1000], 1, 1),
    Layer::depthwise("mobilenet depthwise", 112, 32, 1),
    Layer::depthwise("mobilenet depthwise", 14, 384, 1),
];

/// Bytes that look random and are the same in each run.
pub(crate) fn noise(count: usize) -> impl Iterator<Item = u8> {
    let mut state = 0x9e37_79b9_u32;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    })
}

/// Short measurements: there are many.
pub(crate) fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
}
