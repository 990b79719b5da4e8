//! Speed of the quantized convolution on typical layers; prints and asserts nothing.
//!
//! `cargo test --release -p triune-kernels --test it qconv_speed -- --ignored --nocapture`; the environment variable
//! `LAYER` picks the layers whose name contains it, `THREADS` is 1 if not set, with `AWAY` halves
//! are rounded away from zero.

use std::time::{Duration, Instant};

use triune_kernels::{ConvGeometry, Isa, Nhwc, Pool, Q8, QAdd, QConv, QConvSpec};
use triune_tensor::{Requantize, Rounding};

struct Layer {
    name: &'static str,
    kernel: usize,
    stride: usize,
    channels: [usize; 2],
    size: usize,
    depthwise: bool,
}

const fn layer(name: &'static str, kernel: usize, stride: usize, channels: [usize; 2], size: usize) -> Layer {
    Layer { name, kernel, stride, channels, size, depthwise: false }
}

const fn depthwise(name: &'static str, kernel: usize, stride: usize, c: usize, size: usize) -> Layer {
    Layer { name, kernel, stride, channels: [c, c], size, depthwise: true }
}

const LAYERS: [Layer; 18] = [
    layer("3x3 64-64 56", 3, 1, [64, 64], 56),
    layer("1x1 256-64 56", 1, 1, [256, 64], 56),
    layer("1x1 64-256 56", 1, 1, [64, 256], 56),
    layer("3x3 128-128 28", 3, 1, [128, 128], 28),
    layer("3x3 256-256 14", 3, 1, [256, 256], 14),
    layer("3x3 512-512 7", 3, 1, [512, 512], 7),
    layer("1x1 512-2048 7", 1, 1, [512, 2048], 7),
    layer("1x1/2 256-512 56", 1, 2, [256, 512], 56),
    layer("7x7/2 3-64 224", 7, 2, [3, 64], 224),
    layer("3x3/2 3-32 224", 3, 2, [3, 32], 224),
    layer("1x1 16-96 112", 1, 1, [16, 96], 112),
    layer("1x1 96-24 56", 1, 1, [96, 24], 56),
    layer("1x1 144-24 56", 1, 1, [144, 24], 56),
    depthwise("dw3 96 112", 3, 1, 96, 112),
    depthwise("dw3/2 96 112", 3, 2, 96, 112),
    depthwise("dw3 384 14", 3, 1, 384, 14),
    depthwise("dw3 960 7", 3, 1, 960, 7),
    depthwise("dw5 64 52", 5, 1, 64, 52),
];

fn threads() -> usize {
    std::env::var("THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn giga_macs(layer: &Layer, isa: Isa, signed: bool, add: bool, look: bool) -> f64 {
    let [ci, co] = layer.channels;
    let groups = if layer.depthwise { ci } else { 1 };
    let geometry = ConvGeometry {
        kernel: [layer.kernel; 2],
        stride: [layer.stride; 2],
        dilation: [1, 1],
        pad: [layer.kernel / 2; 4],
        groups,
    };
    let taps = layer.kernel * layer.kernel * ci / groups;
    let weights: Vec<i8> = (0..taps * co).map(|i| (i * 37 % 251) as i8).collect();
    let q = Q8 { signed, zero_point: 1 };
    let table = std::array::from_fn(|i| i as u8);
    let spec = QConvSpec {
        geometry,
        in_channels: ci,
        out_channels: co,
        weights: &weights,
        bias: Some(&vec![5; co]),
        multiplier: &vec![1e-3; co],
        input: q,
        output: q,
        rounding: if std::env::var_os("AWAY").is_some() {
            Rounding::HalfAwayFromZero
        } else {
            Rounding::HalfToEven
        },
        clamp: [-128, 255],
        table: look.then_some(&table),
        residual: add
            .then(|| QAdd::new(q, 0.1, q, 0.2, q, 0.25, Rounding::HalfToEven, Requantize::Float).unwrap()),
    };
    let conv = QConv::new(&spec, isa).unwrap();
    let [h, w] = geometry.output(layer.size, layer.size).unwrap();
    let (im, om) = (Nhwc::dense(1, layer.size, layer.size, ci), Nhwc::dense(1, h, w, co));
    let input: Vec<u8> = (0..im.span()).map(|i| (i * 31 % 253) as u8).collect();
    let mut output = vec![0; om.span()];
    let other = vec![7; om.span()];
    let pool = Pool::new(threads());
    let mut scratch = vec![0; conv.scratch_bytes(pool.threads())];
    let mut best = f64::MAX;
    let end = Instant::now() + Duration::from_millis(120);
    while Instant::now() < end {
        let start = Instant::now();
        let residual = add.then_some((&*other, om));
        conv.run(&input, im, residual, &mut output, om, &mut scratch, &pool).unwrap();
        best = best.min(start.elapsed().as_secs_f64());
    }
    (h * w * co * taps) as f64 / best / 1e9
}

#[test]
#[ignore = "a measurement"]
fn speed_of_typical_layers() {
    println!("GMAC/s, {} threads (u8, i8, u8 with residual, u8 with table)", threads());
    let instruction_sets: Vec<Isa> = Isa::available().filter(|&isa| isa > Isa::Scalar).collect();
    println!("{:18} {instruction_sets:?}", "layer");
    let wanted = std::env::var("LAYER").unwrap_or_default();
    for layer in LAYERS.iter().filter(|layer| layer.name.contains(&wanted)) {
        print!("{:18}", layer.name);
        for &isa in &instruction_sets {
            let speeds = [[false; 3], [true, false, false], [false, true, false], [false, false, true]]
                .map(|[signed, add, look]| giga_macs(layer, isa, signed, add, look));
            print!(" | {:6.1} {:6.1} {:6.1} {:6.1}", speeds[0], speeds[1], speeds[2], speeds[3]);
        }
        println!();
    }
}
