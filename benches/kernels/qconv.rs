//! The quantized convolution on layers of real networks, of 8 and of 16 bits, one thread, for each instruction set of this machine.
//!
//! Throughput is in multiply-accumulates: criterion's `Gelem/s` reads as GMAC/s.

mod layers;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use layers::{LAYERS, config, noise};
use triune_kernels::{Isa, Pool, Q8, Q16Conv, Q16ConvSpec, Q16Target, QConv, QConvSpec};
use triune_tensor::Rounding;

fn bench(criterion: &mut Criterion) {
    let pool = Pool::new(1);
    for layer in LAYERS {
        let [in_map, out_map] = layer.maps();
        let weights: Vec<i8> = noise(out_map.c * layer.taps()).map(|byte| byte as i8).collect();
        let multiplier = vec![1e-4; out_map.c];
        let bias = vec![0; out_map.c];
        let encoding = Q8 { signed: false, zero_point: 0 };
        let spec = QConvSpec {
            geometry: layer.geometry(),
            in_channels: in_map.c,
            out_channels: out_map.c,
            weights: &weights,
            bias: Some(&bias),
            multiplier: &multiplier,
            input: encoding,
            output: encoding,
            rounding: Rounding::HalfToEven,
            clamp: [0, 255],
            table: None,
            residual: None,
        };
        let input: Vec<u8> = noise(in_map.span()).collect();
        let mut output = vec![0; out_map.span()];

        let mut group = criterion.benchmark_group(format!("int8 {layer}"));
        group.throughput(Throughput::Elements(layer.macs()));
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

        let weights: Vec<i16> = weights.iter().map(|&weight| i16::from(weight) * 250).collect();
        let spec = Q16ConvSpec {
            geometry: layer.geometry(),
            in_channels: in_map.c,
            out_channels: out_map.c,
            weights: &weights,
            bias: Some(&bias),
            multiplier: &multiplier,
            target: Q16Target::full(Rounding::HalfToEven),
        };
        let input: Vec<i16> = input.iter().map(|&byte| i16::from(byte) * 120).collect();
        let mut output = vec![0; out_map.span()];
        let mut group = criterion.benchmark_group(format!("int16 {layer}"));
        group.throughput(Throughput::Elements(layer.macs()));
        for isa in Isa::available() {
            let conv = Q16Conv::new(&spec, isa).expect("a valid layer");
            let mut scratch = vec![0; conv.scratch_bytes(pool.threads())];
            group.bench_function(BenchmarkId::from_parameter(format!("{isa:?}")), |bencher| {
                bencher.iter(|| {
                    conv.run(&input, in_map, &mut output, out_map, &mut scratch, &pool).expect("it runs");
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = config();
    targets = bench
}
criterion_main!(benches);
