//! The online allocators under criterion: one churn of 20,000 operations per iteration.

mod peers;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peers::{Peer, Sizes, Workload};

const OPERATIONS: usize = 20_000;

fn bench<P: Peer>(criterion: &mut Criterion, name: &str) {
    for sizes in [Sizes::Uniform, Sizes::Logarithmic] {
        let workload = Workload::new(sizes, OPERATIONS);
        let mut group = criterion.benchmark_group(format!("{sizes:?} churn"));
        group.throughput(Throughput::Elements(OPERATIONS as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || P::region(64),
                |peer| workload.run(peer, 64, 0.9),
                criterion::BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

fn all(criterion: &mut Criterion) {
    bench::<triune_memory::Arena>(criterion, "arena");
    bench::<offset_allocator::Allocator>(criterion, "offset-allocator");
    bench::<peers::ByAddress>(criterion, "offset-allocator by address");
    bench::<peers::Tree>(criterion, "b-tree best fit");
}

criterion_group!(benches, all);
criterion_main!(benches);
