//! Tables of 256 entries per channel, over maps of real networks, one thread, for each instruction set of this machine.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use triune_kernels::{Isa, Nhwc, Pool, table, tables};

/// Bytes of no pattern, the same every time.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

fn bench(criterion: &mut Criterion) {
    let pool = Pool::new(1);
    for (side, channels) in [
        (56, 3),
        (56, 12),
        (56, 24),
        (56, 40),
        (56, 64),
        (56, 72),
        (56, 100),
        (56, 128),
        (56, 256),
        (14, 512),
        (7, 2048),
    ] {
        let map = Nhwc::dense(1, side, side, channels);
        let (x, mut y) = (noise(map.span()), vec![0; map.span()]);
        let bytes = noise(256 * side.max(channels));
        let all = bytes.as_chunks::<256>().0;
        let mut group = criterion.benchmark_group(format!("tables {side}x{side}x{channels}"));
        group.throughput(Throughput::Elements(map.elements() as u64));
        for isa in Isa::available() {
            for (name, by_rows, count) in [("channels", false, channels), ("rows", true, side)] {
                group.bench_function(BenchmarkId::new(name, isa.name()), |bencher| {
                    bencher.iter(|| {
                        tables(isa, &all[..count], by_rows, &x, map, &mut y, map, &pool).expect("it runs");
                    });
                });
            }
            group.bench_function(BenchmarkId::new("one", isa.name()), |bencher| {
                bencher.iter(|| table(isa, &all[0], &x, map, &mut y, map, &pool).expect("it runs"));
            });
        }
        group.finish();
    }
}

/// Short measurements: there are many.
fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
}

criterion_group!(name = benches; config = config(); targets = bench);
criterion_main!(benches);
