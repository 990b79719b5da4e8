//! The float convolution on layers of real networks, one thread, for each instruction set of this machine.
//!
//! Throughput is in multiply-accumulates: criterion's `Gelem/s` reads as GMAC/s.

mod layers;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use layers::{LAYERS, config, noise};
use triune_kernels::{FConv, FConvSpec, Filter, Isa, PackedFilter, Pool};
use triune_tensor::function::UnaryKind;

fn bench(criterion: &mut Criterion) {
    let pool = Pool::new(1);
    for layer in LAYERS {
        let floats = |count| noise(count).map(|byte| f32::from(byte) / 256.0 - 0.5).collect::<Vec<_>>();
        let [in_map, out_map] = layer.maps();
        let weights: Vec<u8> =
            floats(out_map.c * layer.taps()).into_iter().flat_map(f32::to_le_bytes).collect();
        let bias = floats(out_map.c);
        let spec = FConvSpec {
            geometry: layer.geometry(),
            in_channels: in_map.c,
            out_channels: out_map.c,
            bias: Some(&bias),
            residual: false,
            activation: UnaryKind::Relu,
        };
        let input = floats(in_map.span());
        let mut output = vec![0.0; out_map.span()];

        let mut group = criterion.benchmark_group(format!("f32 {layer}"));
        group.throughput(Throughput::Elements(layer.macs()));
        for isa in Isa::available() {
            let [kh, kw] = spec.geometry.kernel;
            let group_channels = in_map.c / spec.geometry.groups;
            let filter = Filter::dense(&weights, out_map.c, kh * kw, group_channels);
            let packed = PackedFilter::new(&filter, spec.geometry.groups, isa).expect("a valid layer");
            let mut forms = vec![(format!("{isa:?}"), packed)];
            let channels = [in_map.c, out_map.c];
            if FConv::gains_by_winograd(&spec.geometry, channels, [out_map.h, out_map.w]) {
                let packed = PackedFilter::winograd(&filter, isa).expect("a valid layer");
                forms.push((format!("{isa:?}, Winograd"), packed));
            }
            for (name, packed) in forms {
                let conv = FConv::new(&spec, packed.into()).expect("a valid layer");
                let mut scratch = vec![0; conv.scratch_bytes(pool.threads())];
                group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                    bencher.iter(|| {
                        conv.run(&input, in_map, None, &mut output, out_map, &mut scratch, &pool)
                            .expect("it runs");
                    });
                });
            }
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
