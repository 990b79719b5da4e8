//! Feature maps and weights in blocks of channels: on every instruction set the bits of those without, padding filled, and
//! damaged descriptions refused.

use crate::common::{Bench, Constants, INPUT, OUTPUT, SCRATCH, quant, window};
use triune_device::{
    Addr, Command, Error, FeatureMap,
    command::{AddParams, Blocks, Pool, QConv, RequantTarget, Table},
};
use triune_kernels::Isa;
use triune_tensor::DType;
use triune_tensor::{Requantize, Rounding, function::PoolKind};
use triune_testing::Random;

const SIZE: [u32; 2] = [5, 7];
const PIXELS: usize = 35;

/// A map of 5×7 pixels in blocks of `block` channels.
fn blocked(addr: Addr, channels: u32, block: u32, fill: u32) -> FeatureMap {
    let [h, w] = SIZE;
    let stride = u64::from(h * w * block);
    FeatureMap {
        stride_n: stride * u64::from(channels.div_ceil(block)),
        stride_h: u64::from(w * block),
        stride_w: block.into(),
        blocks: Some(Blocks { channels: block, stride, fill }),
        ..FeatureMap::dense(addr, DType::I8, [1, h, w, channels])
    }
}

fn bytes_of(map: &FeatureMap) -> usize {
    let blocks = map.blocks.expect("blocks");
    (blocks.stride * u64::from(map.c.div_ceil(blocks.channels))) as usize
}

/// From pixels to blocks.
fn into_blocks(dense: &[u8], channels: usize, block: usize, fill: u8) -> Vec<u8> {
    let mut out = vec![fill; channels.div_ceil(block) * PIXELS * block];
    for (index, &byte) in dense.iter().enumerate() {
        let (pixel, channel) = (index / channels, index % channels);
        out[(channel / block * PIXELS + pixel) * block + channel % block] = byte;
    }
    out
}

fn run(command: &Command, constants: &Constants, isa: Isa, maps: [&[u8]; 2], len: usize) -> Vec<u8> {
    let sizes = [maps[1].len().max(64) as u64, maps[0].len() as u64, len as u64];
    let bench = Bench::alone(&[*command], constants, sizes);
    bench.write(INPUT, 0, maps[0]);
    bench.write(SCRATCH, 0, maps[1]);
    bench.write(OUTPUT, 0, &vec![0xEE; len]);
    let mut executor = bench.executor(isa).expect("valid");
    executor.run(&triune_kernels::Pool::new(2), None).expect("runs");
    bench.read(OUTPUT, 0, len)
}

fn target(zero_point: i32) -> RequantTarget {
    RequantTarget { dtype: DType::I8, zero_point }
}

/// A 3×3 convolution with a residual of the given channels; weights lie in blocks of 32×32 when `weight_blocks` says so.
fn conv(
    constants: &mut Constants,
    weights: &[u8],
    weight_blocks: [u32; 2],
    [input, output, residual]: [FeatureMap; 3],
) -> QConv {
    let channels = output.c as i32;
    let add = AddParams {
        a: target(4),
        b: target(-2),
        out: target(-7),
        ra: 0.7,
        rb: 0.4,
        k: -7.0 - 0.7 * 4.0 + 0.4 * 2.0,
        rounding: Rounding::HalfToEven,
        clamp: [-128, 127],
    };
    QConv {
        input,
        output,
        window: window([3, 3], [1, 1], [1; 4], 1),
        weights: constants.add(weights.iter().copied()),
        weight_blocks,
        bias: Some(constants.ints(&(0..channels).map(|i| 31 * i - 900).collect::<Vec<_>>())),
        multiplier: constants.floats(&(0..channels).map(|i| 0.0004 + i as f32 * 1e-6).collect::<Vec<_>>()),
        multipliers: output.c,
        input_zero_point: 3,
        result: target(4),
        rounding: Rounding::HalfToEven,
        clamp: [-128, 127],
        table: None,
        residual: Some(residual),
        add: Some(add),
        conv_is_a: true,
    }
}

#[test]
fn convolutions_equal_those_of_pixels() {
    let mut random = Random(1);
    let [h, w] = SIZE;
    for (inputs, outputs, block) in [(40, 70, 32), (3, 33, 32), (64, 32, 32), (20, 16, 8), (5, 9, 4)] {
        let [input, output] = [inputs, outputs].map(|channels: u32| channels as usize);
        let (x, r) = (random.bytes(PIXELS * input), random.bytes(PIXELS * output));
        let dense: Vec<u8> = random.bytes(output * 9 * input);
        let mut constants = Constants::default();
        let map =
            |segment, channels| FeatureMap::dense(Addr::new(segment, 0), DType::I8, [1, h, w, channels]);
        let maps = [map(INPUT, inputs), map(OUTPUT, outputs), map(SCRATCH, outputs)];
        let plain = conv(&mut constants, &dense, [0, 0], maps);
        let expected = run(&plain.into(), &constants, Isa::Scalar, [&x, &r], PIXELS * output);

        // Output block, input block, tap, output, input.
        let (own_outputs, own_inputs) = (32, if input <= 4 { 4 } else { 32 });
        let count = input.div_ceil(own_inputs);
        let mut weights = vec![0; output.div_ceil(own_outputs) * count * 9 * own_outputs * own_inputs];
        for (index, &byte) in dense.iter().enumerate() {
            let (o, tap, i) = (index / (9 * input), index / input % 9, index % input);
            let at = (o / own_outputs * count + i / own_inputs) * 9 + tap;
            weights[(at * own_outputs + o % own_outputs) * own_inputs + i % own_inputs] = byte;
        }
        let mut constants = Constants::default();
        let maps = [
            blocked(Addr::new(INPUT, 0), inputs, block, 0),
            blocked(Addr::new(OUTPUT, 0), outputs, block, 0xf9),
            blocked(Addr::new(SCRATCH, 0), outputs, block, 0),
        ];
        let command = conv(&mut constants, &weights, [own_outputs as u32, own_inputs as u32], maps);
        let block = block as usize;
        let operands = [into_blocks(&x, input, block, 0x55), into_blocks(&r, output, block, 0x55)];
        let expected = into_blocks(&expected, output, block, 0xf9);
        for isa in Isa::available() {
            let operands = [operands[0].as_slice(), operands[1].as_slice()];
            let got = run(&command.into(), &constants, isa, operands, bytes_of(&maps[1]));
            assert!(got == expected, "{inputs} to {outputs} channels by {block} on {isa:?}");
        }
    }
}

#[test]
fn other_commands_take_blocks() {
    let mut random = Random(2);
    let (channels, block) = (70_u32, 32_u32);
    let x = random.bytes(PIXELS * channels as usize);
    let input = blocked(Addr::new(INPUT, 0), channels, block, 0);
    let output = blocked(Addr::new(OUTPUT, 0), channels, block, 0x07);
    let plain = |map: FeatureMap| FeatureMap::dense(map.addr, map.dtype, [map.n, map.h, map.w, map.c]);
    let pool = |input, output| Pool {
        input,
        output,
        window: window([3, 3], [1, 1], [1; 4], 1),
        kind: PoolKind::Max,
        input_quant: quant(0.5, 7),
        output_quant: quant(0.5, 7),
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    let mut constants = Constants::default();
    let table = constants.add((0..=255_u8).rev());
    let table = |input, output| Table { input, output, table };
    let pairs: [[Command; 2]; 2] = [
        [pool(plain(input), plain(output)).into(), pool(input, output).into()],
        [table(plain(input), plain(output)).into(), table(input, output).into()],
    ];
    let len = bytes_of(&output);
    for [dense, blocks] in pairs {
        let expected = run(&dense, &constants, Isa::best(), [&x, &[]], x.len());
        let own = into_blocks(&x, channels as usize, block as usize, 0x55);
        let got = run(&blocks, &constants, Isa::best(), [&own, &[]], len);
        assert!(got == into_blocks(&expected, channels as usize, block as usize, 0x07), "{blocks:?}");
    }
}

#[test]
fn what_is_no_map_in_blocks_is_refused() {
    let good = blocked(Addr::new(INPUT, 0), 70, 32, 0);
    let refused = |change: &dyn Fn(&mut Table), words: &str| {
        let mut constants = Constants::default();
        let table = constants.add(0..=255_u8);
        let mut command =
            Table { input: good, output: FeatureMap { addr: Addr::new(OUTPUT, 0), ..good }, table };
        change(&mut command);
        let size = bytes_of(&good) as u64;
        let error = Bench::alone(&[command.into()], &constants, [64, size, size]).executor(Isa::best());
        let Err(Error::Command { field, problem, .. }) = error else { panic!("{words}: {error:?}") };
        assert!(format!("{field}: {problem}").contains(words), "{field}: {problem}");
    };
    let blocks = |change: fn(&mut Blocks)| {
        move |command: &mut Table| change(command.output.blocks.as_mut().expect("blocks"))
    };
    refused(&blocks(|blocks| blocks.channels = 0), "output.blocks: a block of 0 channels");
    refused(&blocks(|blocks| blocks.fill = 256), "output.blocks: the filling 0x100");
    refused(&blocks(|blocks| blocks.stride = 32), "output.blocks");
    refused(&blocks(|blocks| blocks.stride = u64::MAX), "leave the segment");
    refused(&blocks(|blocks| blocks.channels = 64), "output.blocks");
    refused(&|command| command.input.c += 32, "input");
    refused(&|command| command.output.stride_w = 16, "output.blocks");
}

/// A 1×1 convolution of 16-bit integers, 20 to 24 channels, in blocks of 16 channels.
#[test]
fn integers_of_16_bits_lie_in_blocks() {
    let mut random = Random(3);
    let (inputs, outputs, block) = (20_usize, 24_usize, 16_usize);
    let mut words = |count: usize| -> Vec<i16> { (0..count).map(|_| random.next() as i16).collect() };
    let (x, weights) = (words(PIXELS * inputs), words(outputs * inputs));
    let expected = |pixel: usize, o: usize| {
        let sum: i64 = (0..inputs)
            .map(|i| i64::from(x[pixel * inputs + i]) * i64::from(weights[o * inputs + i]))
            .sum::<i64>()
            + o as i64;
        (sum as f64 * f64::from(3e-6_f32)).round_ties_even().clamp(-30_000.0, 32_767.0) as i16
    };
    let in_blocks = |channels: usize, fill: i16, value: &dyn Fn(usize, usize) -> i16| -> Vec<u8> {
        let mut out = vec![fill; channels.div_ceil(block) * PIXELS * block];
        for (pixel, c) in (0..PIXELS).flat_map(|pixel| (0..channels).map(move |c| (pixel, c))) {
            out[(c / block * PIXELS + pixel) * block + c % block] = value(pixel, c);
        }
        out.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    let map = |segment, channels: usize, fill| {
        let map = blocked(Addr::new(segment, 0), channels as u32, block as u32, fill);
        let blocks = map.blocks.map(|blocks| Blocks { stride: 2 * blocks.stride, ..blocks });
        FeatureMap {
            dtype: DType::I16,
            stride_n: 2 * map.stride_n,
            stride_h: 2 * map.stride_h,
            stride_w: 2 * map.stride_w,
            blocks,
            ..map
        }
    };
    let mut constants = Constants::default();
    // Blocks of 8 outputs and 4 inputs.
    let mut packed = vec![0_i16; outputs * inputs];
    for (index, &weight) in weights.iter().enumerate() {
        let (o, i) = (index / inputs, index % inputs);
        packed[(o / 8 * (inputs / 4) + i / 4) * 32 + o % 8 * 4 + i % 4] = weight;
    }
    let target = RequantTarget { dtype: DType::I16, zero_point: 0 };
    let command = QConv {
        input: map(INPUT, inputs, 0),
        output: map(OUTPUT, outputs, 0x0403),
        window: window([1, 1], [1, 1], [0; 4], 1),
        weights: constants.add(packed.iter().flat_map(|word| word.to_le_bytes())),
        weight_blocks: [8, 4],
        bias: Some(constants.ints(&(0..outputs as i32).collect::<Vec<_>>())),
        multiplier: constants.floats(&[3e-6]),
        multipliers: 1,
        input_zero_point: 0,
        result: target,
        rounding: Rounding::HalfToEven,
        clamp: [-30_000, 40_000],
        table: None,
        residual: None,
        add: None,
        conv_is_a: false,
    };
    let own = in_blocks(inputs, 0x55, &|pixel, c| x[pixel * inputs + c]);
    let want = in_blocks(outputs, 0x0403, &expected);
    let got = run(&command.into(), &constants, Isa::best(), [&own, &[]], want.len());
    assert!(got == want);
    let refused = QConv { input_zero_point: 1, ..command };
    let sizes = [64, own.len() as u64, want.len() as u64];
    let error =
        Bench::alone(&[refused.into()], &constants, sizes).executor(Isa::best()).expect_err("symmetric");
    assert!(error.to_string().contains("input_zero_point"), "{error}");
}
