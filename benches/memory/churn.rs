//! Speed and failure rates of the online allocators on the same churn: 2 M operations of 64 B to 8 MiB in 1 GiB.
//!
//! `cargo bench -p triune-benches --bench churn` prints a table.

#![expect(clippy::print_stdout, reason = "the table is the output")]

mod peers;

use std::time::Instant;

use peers::{Peer, Sizes, Workload};

const OPERATIONS: usize = 2_000_000;

/// The best of three runs in ns per operation, and the share of allocations that failed.
fn measure<P: Peer>(workload: &Workload, alignment: u32, occupancy: f64) -> (f64, f64) {
    let mut fastest = f64::INFINITY;
    let mut rate = 0.0;
    for _ in 0..3 {
        let mut peer = P::region();
        let start = Instant::now();
        let (operations, tried, failed) = workload.run(&mut peer, alignment, occupancy);
        fastest = fastest.min(start.elapsed().as_nanos() as f64 / operations as f64);
        rate = 100.0 * failed as f64 / tried as f64;
    }
    (fastest, rate)
}

fn main() {
    println!(
        "| sizes | alignment | occupancy | Arena ns/op, failed % | offset-allocator | B-tree best fit |"
    );
    println!("|---|---|---|---|---|---|");
    for sizes in [Sizes::Logarithmic, Sizes::Uniform] {
        let workload = Workload::new(sizes, OPERATIONS);
        for alignment in [1, 64] {
            for occupancy in [0.7, 0.9, 0.95] {
                let (own, own_failed) = measure::<triune_memory::Arena>(&workload, alignment, occupancy);
                let (peer, peer_failed) =
                    measure::<offset_allocator::Allocator>(&workload, alignment, occupancy);
                let (tree, tree_failed) = measure::<peers::Tree>(&workload, alignment, occupancy);
                println!(
                    "| {sizes:?} | {alignment} | {:.0} % | {own:.1}, {own_failed:.3} | {peer:.1}, {peer_failed:.3} | \
                     {tree:.1}, {tree_failed:.3} |",
                    100.0 * occupancy
                );
            }
        }
    }
}
