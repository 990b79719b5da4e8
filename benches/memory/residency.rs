//! What the residency policies avoid of the traffic of known networks, beside the optimum, and what they cost.
//!
//! `cargo bench -p triune-benches --bench residency` prints a table. The networks are their feature maps alone, one byte
//! per element, in the order in which a compiler without fusion over operators other than activations writes them.

#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::time::Instant;

use triune_memory::{
    Buffer,
    residency::{Candidate, Policy, choose},
};

/// Feature maps in the making: one step per operator.
#[derive(Default)]
struct Network {
    maps: Vec<Candidate>,
}

impl Network {
    /// An operator that reads some maps and writes one of `side` × `side` × `channels`.
    fn operator(&mut self, inputs: &[usize], side: u64, channels: u64) -> usize {
        let step = self.maps.len() as u64;
        for &input in inputs {
            self.maps[input].buffer.upper = step + 1;
            self.maps[input].reads += 1;
        }
        let buffer = Buffer { lower: step, upper: step + 1, size: side * side * channels, alignment: 64 };
        self.maps.push(Candidate { buffer, reads: 0 });
        self.maps.len() - 1
    }

    fn resnet(bottleneck: bool, blocks: [u64; 4]) -> Vec<Candidate> {
        let mut net = Self::default();
        let image = net.operator(&[], 224, 3);
        let stem = net.operator(&[image], 112, 64);
        let mut last = net.operator(&[stem], 56, 64);
        for (stage, &count) in blocks.iter().enumerate() {
            let (side, width) = (56 >> stage, 64 << stage);
            let out = if bottleneck { 4 * width } else { width };
            for block in 0..count {
                // The first operator of a bottleneck still works on the larger map.
                let large = if stage > 0 && block == 0 { 2 * side } else { side };
                let mut main = last;
                if bottleneck {
                    main = net.operator(&[main], large, width);
                }
                main = net.operator(&[main], side, width);
                main = net.operator(&[main], side, out);
                let skip = if block == 0 && (bottleneck || stage > 0) {
                    net.operator(&[last], side, out)
                } else {
                    last
                };
                last = net.operator(&[main, skip], side, out);
            }
        }
        let pooled = net.operator(&[last], 1, if bottleneck { 2048 } else { 512 });
        net.operator(&[pooled], 1, 1000);
        net.maps
    }

    fn mobilenet_v2() -> Vec<Candidate> {
        let mut net = Self::default();
        let image = net.operator(&[], 224, 3);
        let (mut side, mut channels) = (112, 32);
        let mut last = net.operator(&[image], side, channels);
        for (expand, out, count, stride) in [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ] {
            for block in 0..count {
                let inside = channels * expand;
                let wide = if expand > 1 { net.operator(&[last], side, inside) } else { last };
                let same = block > 0;
                side = if block == 0 { side / stride } else { side };
                let deep = net.operator(&[wide], side, inside);
                let narrow = net.operator(&[deep], side, out);
                last = if same { net.operator(&[last, narrow], side, out) } else { narrow };
                channels = out;
            }
        }
        let head = net.operator(&[last], side, 1280);
        let pooled = net.operator(&[head], 1, 1280);
        net.operator(&[pooled], 1, 1000);
        net.maps
    }

    /// A U-Net with four levels: skips that live for most of the network.
    fn unet() -> Vec<Candidate> {
        let mut net = Self::default();
        let mut last = net.operator(&[], 256, 3);
        let mut skips = Vec::new();
        for level in 0..4 {
            let (side, width) = (256 >> level, 16 << level);
            last = net.operator(&[last], side, width);
            last = net.operator(&[last], side, width);
            skips.push(last);
            last = net.operator(&[last], side / 2, width);
        }
        last = net.operator(&[last], 16, 256);
        for level in (0..4).rev() {
            let (side, width) = (256 >> level, 16 << level);
            last = net.operator(&[last], side, width);
            last = net.operator(&[last, skips[level]], side, 2 * width);
            last = net.operator(&[last], side, width);
        }
        net.operator(&[last], 256, 2);
        net.maps
    }
}

fn main() {
    println!(
        "| network | maps | memory | OPTION1 | OPTION2 | OPTION3 | BEST_SCORE | exact | traffic avoided | exact takes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let networks = [
        ("ResNet-18", Network::resnet(false, [2; 4])),
        ("ResNet-50", Network::resnet(true, [3, 4, 6, 3])),
        ("MobileNetV2", Network::mobilenet_v2()),
        ("U-Net", Network::unet()),
    ];
    for (name, maps) in &networks {
        let traffic: u64 = maps.iter().map(Candidate::value).sum();
        for kib in [256, 512, 1024, 2048, 4096] {
            let run = |policy| choose(maps, kib << 10, policy).unwrap_or_else(|| panic!("{name} is sound"));
            let share = |policy| {
                let found = run(policy);
                format!("{:.1} %", 100.0 * (1.0 - found.gap()))
            };
            let start = Instant::now();
            let exact = run(Policy::Exact);
            let time = start.elapsed();
            println!(
                "| {name} | {} | {kib} KiB | {} | {} | {} | {} | {} | {:.0} % | {:.2} ms |",
                maps.len(),
                share(Policy::Option1),
                share(Policy::Option2),
                share(Policy::Option3),
                share(Policy::BestScore),
                share(Policy::Exact),
                100.0 * exact.value as f64 / traffic as f64,
                time.as_secs_f64() * 1e3,
            );
        }
    }
}
