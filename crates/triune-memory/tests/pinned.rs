//! What plans there are of random buffers, all of them, as they were when they were last validated: orders and ties are part of
//! what users see, as equal plans make equal files. A change that is meant is written down with
//! `TRIUNE_PIN=write cargo test -p triune-memory --test pinned`.

use std::{fmt::Write, path::Path};

use triune_memory::{
    Arena, Buffer, Limits, Plan, minimize, plan,
    residency::{Candidate, Policy, choose},
    solve, validate,
};
use triune_testing::{Random, digest, pinned};

/// Buffers of `steps` steps; sizes have few factors in common, or many.
fn buffers(random: &mut Random, count: usize, steps: usize, grain: u64) -> Vec<Buffer> {
    (0..count)
        .map(|_| {
            let lower = random.below(steps) as u64;
            let upper = lower + random.between(1, steps / 3 + 1) as u64;
            let size = grain * random.between(1, 40) as u64;
            Buffer { lower, upper, size, alignment: 1 << random.below(6) }
        })
        .collect()
}

fn offsets(offsets: &[u64]) -> String {
    if offsets.len() <= 40 {
        return format!("{offsets:?}");
    }
    let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    format!("{:016x}", digest(&bytes))
}

fn line(out: &mut String, what: &str, found: &Plan) {
    let (peak, bound, proven) = (found.peak, found.lower_bound, found.proven_optimal);
    writeln!(out, "  {what}: {peak} of at least {bound}, proven {proven}, {}", offsets(&found.offsets))
        .expect("memory");
}

#[test]
fn pinned_plans() {
    let mut out = String::new();
    for seed in 0..24 {
        let mut random = Random(seed + 1);
        let count = [5, 9, 14, 20, 30, 60][seed as usize % 6];
        let given = buffers(&mut random, count, 4 + count / 3, [1, 16, 64][seed as usize % 3]);
        writeln!(out, "seed {seed}: {count} buffers").expect("memory");
        let quick = plan(&given).expect("buffers");
        let best = minimize(&given, Limits::placements(3000)).expect("buffers");
        for (what, found) in [("quick", &quick), ("best", &best)] {
            assert_eq!(validate(&given, found), Ok(()));
            line(&mut out, what, found);
        }
        for capacity in [best.lower_bound - 1, best.lower_bound, best.peak - 1, best.peak] {
            let found = solve(&given, capacity, Limits::placements(500)).expect("buffers");
            writeln!(out, "  within {capacity}: {found:?}").expect("memory");
        }
    }
    // So many that they are placed in one walk.
    let mut random = Random(99);
    let given = buffers(&mut random, 6000, 3000, 1);
    let found = plan(&given).expect("buffers");
    assert_eq!(validate(&given, &found), Ok(()));
    line(&mut out, "many", &found);
    pinned(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned/plans.txt"), &out);
}

#[test]
fn pinned_residencies() {
    let mut out = String::new();
    for seed in 0..24 {
        let mut random = Random(seed + 1);
        let count = [4, 8, 12, 24, 40, 90][seed as usize % 6];
        let given: Vec<Candidate> = buffers(&mut random, count, 3 + count / 4, [1, 64][seed as usize % 2])
            .into_iter()
            .map(|buffer| Candidate { buffer, reads: random.below(4) as u64 })
            .collect();
        let whole = plan(&given.iter().map(|each| each.buffer).collect::<Vec<_>>()).expect("buffers");
        for share in [3, 2] {
            let capacity = whole.lower_bound / share;
            writeln!(out, "seed {seed}: {count} candidates, {capacity} bytes").expect("memory");
            for policy in Policy::ALL {
                let found = choose(&given, capacity, policy).expect("candidates");
                let kept: Vec<u64> = found.offsets.iter().map(|offset| offset.unwrap_or(u64::MAX)).collect();
                let kept = if count <= 12 { format!("{:?}", found.offsets) } else { offsets(&kept) };
                writeln!(
                    out,
                    "  {}: {} of {}, {} bytes, {kept}",
                    policy.name(),
                    found.value,
                    found.bound,
                    found.peak
                )
                .expect("memory");
            }
        }
    }
    pinned(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned/residencies.txt"), &out);
}

#[test]
fn pinned_arenas() {
    let mut out = String::new();
    for (seed, granule) in [(1, 1), (2, 16), (3, 64), (4, 1)] {
        let mut random = Random(seed);
        let mut arena = Arena::with_granule(1 << 16, granule);
        let mut live: Vec<u64> = Vec::new();
        writeln!(out, "granules of {granule}").expect("memory");
        for round in 0..60 {
            let mut given = Vec::new();
            for _ in 0..20 {
                if !live.is_empty() && random.below(5) < 2 {
                    let at = live.swap_remove(random.below(live.len()));
                    given.push(arena.free(at).expect("live"));
                } else {
                    let size =
                        if random.below(8) == 0 { random.between(1, 9000) } else { random.between(1, 700) };
                    let found = arena.allocate(size as u64, 1 << random.below(8));
                    live.extend(found);
                    given.push(found.unwrap_or(u64::MAX));
                }
            }
            let at = random.below(1 << 16) as u64;
            if arena.allocate_at(at / granule * granule, 50) {
                live.push(at / granule * granule);
            }
            writeln!(
                out,
                "  {round}: {} {:?} {:?}",
                offsets(&[given, vec![0; 40]].concat()),
                arena.find(at),
                arena.report()
            )
            .expect("memory");
        }
    }
    pinned(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned/arenas.txt"), &out);
}
