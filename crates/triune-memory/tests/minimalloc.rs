//! The challenging instances published with `MiniMalloc`: each is solved to exactly its capacity.
//!
//! Times: `cargo test --release -p triune-memory --test minimalloc -- --ignored --nocapture`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use triune_memory::{Buffer, Limits, Outcome, plan, solve, validate};
use triune_testing::test_data;

const CAPACITY: u64 = 1 << 20;

fn read(path: &Path) -> Vec<Buffer> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',').skip(1).map(|field| field.trim().parse().unwrap());
            let mut next = || fields.next().unwrap();
            Buffer { lower: next(), upper: next(), size: next(), alignment: 1 }
        })
        .collect()
}

/// Solves instances within `limits` each and prints time beside those of `MiniMalloc`.
fn solve_all(instances: &[(&str, f64)], limits: Limits) {
    let Some(folder) = test_data("refdata/minimalloc") else { return };
    let (mut own, mut peer) = (Duration::ZERO, 0.0);
    println!("| instance | buffers | greedy peak / capacity | time | MiniMalloc |");
    for &(name, seconds) in instances {
        let buffers = read(&folder.join(format!("{name}.{CAPACITY}.csv")));
        let greedy = plan(&buffers).unwrap();
        assert!(greedy.peak > CAPACITY, "{name} is not a challenge");
        let start = Instant::now();
        let outcome = solve(&buffers, CAPACITY, limits).unwrap();
        let time = start.elapsed();
        let Outcome::Fits(plan) = outcome else { panic!("{name}: {outcome:?}") };
        assert!(plan.peak <= CAPACITY);
        assert_eq!(validate(&buffers, &plan), Ok(()));
        let ratio = greedy.peak as f64 / CAPACITY as f64;
        println!("| {name} | {} | {ratio:.2} | {:.3} s | {seconds} s |", buffers.len(), time.as_secs_f64());
        own += time;
        peer += seconds;
    }
    println!("| all | | | {:.3} s | {peer:.2} s |", own.as_secs_f64());
}

#[test]
fn quick_instances_fit_exactly() {
    solve_all(&[("C", 0.85), ("I", 5.1), ("K", 0.8)], Limits::placements(2_000_000));
}

#[test]
#[ignore = "seconds in a debug build"]
fn all_instances_fit_exactly() {
    let all = [("A", 7.5), ("C", 0.85), ("E", 5.0), ("G", 2.1), ("I", 5.1), ("K", 0.8)];
    solve_all(&all, Limits::time(Duration::from_mins(1)));
}
