//! Speed and failure rates of the online allocators on the same churn: 2 M operations of 64 B to 8 MiB in 1 GiB.
//!
//! `cargo bench -p triune-benches --bench churn` prints a table. Times are those that the thread was running, so that a
//! busy machine does not count twice.

#![expect(clippy::print_stdout, reason = "the table is the output")]

mod peers;

use std::{sync::OnceLock, time::Instant};

use peers::{Peer, Sizes, Workload};

const OPERATIONS: usize = 2_000_000;

/// Nanoseconds that this thread has run, where the system says so, else those that passed.
fn nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// The fastest run so far in ns per operation, the share of allocations that failed, and the chunks alive in the end.
#[derive(Clone, Copy)]
struct Figures {
    nanos: f64,
    failed: f64,
    live: u64,
}

impl Figures {
    fn better<P: Peer>(&mut self, workload: &Workload, alignment: u32, occupancy: f64) {
        let mut peer = P::region(alignment);
        let start = nanos();
        let [operations, tried, failed, live] = workload.run(&mut peer, alignment, occupancy);
        self.nanos = self.nanos.min((nanos() - start) as f64 / operations as f64);
        (self.failed, self.live) = (100.0 * failed as f64 / tried as f64, live);
    }
}

fn main() {
    println!(
        "| sizes | alignment | occupancy | live | Arena | / offset-allocator | / the same by address | / B-tree | \
         failed | offset-allocator | B-tree |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for sizes in [Sizes::Uniform, Sizes::Logarithmic] {
        let workload = Workload::new(sizes, OPERATIONS);
        for alignment in [1, 64] {
            for occupancy in [0.5, 0.7, 0.9, 0.95] {
                let mut results = [Figures { nanos: f64::INFINITY, failed: 0.0, live: 0 }; 4];
                // In turn, so that a busy machine slows them alike.
                for _ in 0..5 {
                    results[0].better::<triune_memory::Arena>(&workload, alignment, occupancy);
                    results[1].better::<offset_allocator::Allocator>(&workload, alignment, occupancy);
                    results[2].better::<peers::ByAddress>(&workload, alignment, occupancy);
                    results[3].better::<peers::Tree>(&workload, alignment, occupancy);
                }
                let [own, peer, by_address, tree] = results;
                let ratio = |other: Figures| own.nanos / other.nanos;
                println!(
                    "| {sizes:?} | {alignment} | {:.0} % | {} | {:.0} ns | {:.2} | {:.2} | {:.2} | {:.2} % | {:.2} % | {:.2} % |",
                    100.0 * occupancy,
                    own.live,
                    own.nanos,
                    ratio(peer),
                    ratio(by_address),
                    ratio(tree),
                    own.failed,
                    peer.failed,
                    tree.failed
                );
            }
        }
    }
}
