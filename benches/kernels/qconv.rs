//! The quantized convolution on layers of real networks, one thread, for each instruction set of this machine.
//!
//! Throughput is in multiply-accumulates: criterion's `Gelem/s` reads as GMAC/s.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use triune_kernels::{ConvGeometry, Isa, Nhwc, Pool, Q8, QConv, QConvSpec};

/// A layer: where it occurs, the side of its square input, channels, and the window.
struct Layer {
    name: &'static str,
    side: usize,
    channels: [usize; 2],
    window: usize,
    stride: usize,
    groups: usize,
}

const fn layer(name: &'static str, side: usize, channels: [usize; 2], window: usize, stride: usize) -> Layer {
    Layer { name, side, channels, window, stride, groups: 1 }
}

const fn depthwise(name: &'static str, side: usize, channels: usize, stride: usize) -> Layer {
    Layer { name, side, channels: [channels, channels], window: 3, stride, groups: channels }
}

const LAYERS: [Layer; 10] = [
    layer("resnet stem 7x7/2", 224, [3, 64], 7, 2),
    layer("resnet 3x3", 56, [64, 64], 3, 1),
    layer("resnet 3x3", 14, [256, 256], 3, 1),
    layer("resnet 3x3", 7, [512, 512], 3, 1),
    layer("resnet 1x1", 56, [64, 256], 1, 1),
    layer("resnet 1x1", 14, [1024, 256], 1, 1),
    layer("mobilenet 1x1", 28, [32, 192], 1, 1),
    layer("linear", 1, [2048, 1000], 1, 1),
    depthwise("mobilenet depthwise", 112, 32, 1),
    depthwise("mobilenet depthwise", 14, 384, 1),
];

/// Bytes that look random and are the same in each run.
fn noise(count: usize) -> impl Iterator<Item = u8> {
    let mut state = 0x9e37_79b9_u32;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    })
}

fn bench(criterion: &mut Criterion) {
    let pool = Pool::new(1);
    for Layer { name, side, channels: [inputs, outputs], window, stride, groups } in LAYERS {
        let edge = window / 2;
        let geometry = ConvGeometry {
            kernel: [window; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            pad: [edge; 4],
            groups,
        };
        let [height, width] = geometry.output(side, side).expect("the window fits");
        let per_output = window * window * inputs / groups;
        let weights: Vec<i8> = noise(outputs * per_output).map(|byte| byte as i8).collect();
        let multiplier = vec![1e-4; outputs];
        let bias = vec![0; outputs];
        let encoding = Q8 { signed: false, zero_point: 0 };
        let spec = QConvSpec {
            geometry,
            in_channels: inputs,
            out_channels: outputs,
            weights: &weights,
            bias: Some(&bias),
            multiplier: &multiplier,
            input: encoding,
            output: encoding,
            clamp: [0, 255],
            table: None,
            residual: None,
        };
        let in_map = Nhwc::dense(1, side, side, inputs);
        let out_map = Nhwc::dense(1, height, width, outputs);
        let input: Vec<u8> = noise(in_map.span()).collect();
        let mut output = vec![0; out_map.span()];

        let mut group = criterion.benchmark_group(format!("{name} {side} {inputs}-{outputs}"));
        group.throughput(Throughput::Elements((out_map.span() * per_output) as u64));
        for isa in Isa::available() {
            let conv = QConv::new(&spec, isa).expect("a valid layer");
            let mut scratch = vec![0; conv.scratch_bytes(pool.threads())];
            group.bench_function(BenchmarkId::from_parameter(format!("{isa:?}")), |bencher| {
                bencher.iter(|| {
                    conv.run(&input, in_map, None, &mut output, out_map, &mut scratch, &pool)
                        .expect("it runs");
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = bench
}
criterion_main!(benches);
