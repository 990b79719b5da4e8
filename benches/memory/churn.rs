//! Speed and failure rates of the online allocators on the same churn: 2 M operations of 64 B to 8 MiB in 1 GiB.
//!
//! `cargo bench -p triune-benches --bench churn` prints a table.

#![expect(clippy::print_stdout, reason = "the table is the output")]

mod peers;

use std::{fmt, time::Instant};

use peers::{Peer, Sizes, Workload};

const OPERATIONS: usize = 2_000_000;

/// The fastest run so far in ns per operation, and the share of allocations that failed.
#[derive(Clone, Copy)]
struct Figures(f64, f64);

impl Figures {
    fn better<P: Peer>(&mut self, workload: &Workload, alignment: u32, occupancy: f64) {
        let mut peer = P::region(alignment);
        let start = Instant::now();
        let (operations, tried, failed) = workload.run(&mut peer, alignment, occupancy);
        self.0 = self.0.min(start.elapsed().as_nanos() as f64 / operations as f64);
        self.1 = 100.0 * failed as f64 / tried as f64;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} ns, {:.2} %", self.0, self.1)
    }
}

fn main() {
    println!("| sizes | alignment | occupancy | Arena | offset-allocator | B-tree best fit |");
    println!("|---|---|---|---|---|---|");
    for sizes in [Sizes::Uniform, Sizes::Logarithmic] {
        let workload = Workload::new(sizes, OPERATIONS);
        for alignment in [1, 64] {
            for occupancy in [0.7, 0.8, 0.9, 0.95] {
                let mut results = [Figures(f64::INFINITY, 0.0); 3];
                // In turn, so that a busy machine slows them alike.
                for _ in 0..5 {
                    results[0].better::<triune_memory::Arena>(&workload, alignment, occupancy);
                    results[1].better::<offset_allocator::Allocator>(&workload, alignment, occupancy);
                    results[2].better::<peers::Tree>(&workload, alignment, occupancy);
                }
                let [own, peer, tree] = results;
                println!(
                    "| {sizes:?} | {alignment} | {:.0} % | {own} | {peer} | {tree} |",
                    100.0 * occupancy
                );
            }
        }
    }
}
