//! Serial systolic arrays against SCALE-Sim v3's own tables, through the whole path: each layer as a quantized graph,
//! compiled for the array, deployed, and timed from its command.

use std::{collections::HashMap, path::Path, sync::Arc};

use triune_device::{
    DeviceSpec,
    spec::{Dataflow, Depthwise},
    timing::{CommandTime, SramAccesses},
};
use triune_graph::Graph;
use triune_runtime::{CompileOptions, DeployOptions, Deployment, Device, compile};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor};

/// A line of a topology: heights, widths, channels, filters, stride.
#[derive(Clone, Copy)]
struct Layer {
    input: [usize; 2],
    kernel: [usize; 2],
    channels: usize,
    filters: usize,
    stride: usize,
}

fn layers(topologies: &Path, net: &str) -> HashMap<String, Layer> {
    let text = std::fs::read_to_string(topologies.join(format!("{net}.csv"))).expect("a topology");
    let layer = |line: &str| {
        let mut cells = line.split(',').map(str::trim);
        let name = cells.next()?.to_owned();
        let numbers: Vec<usize> = cells.take(7).map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
        let [h, w, kh, kw, channels, filters, stride] = *numbers else { return None };
        Some((name, Layer { input: [h, w], kernel: [kh, kw], channels, filters, stride }))
    };
    text.lines().skip(1).filter_map(layer).collect()
}

/// The layer as a quantized convolution. SCALE-Sim slides its window ⌈(H − kh + s)/s⌉ times, over the edge if need be:
/// there the graph has padding.
fn graph(layer: &Layer, groups: usize) -> Graph {
    let params = QuantParams { scale: 0.05, zero_point: 3 };
    let mut builder = GraphBuilder::new();
    let image = builder.input("x", DType::F32, &[1, layer.channels, layer.input[0], layer.input[1]]);
    let x = builder.quantize_dequantize(image, params, DType::I8);
    let [filters, channels] = if groups == 1 { [layer.filters, layer.channels] } else { [groups, 1] };
    let shape = [filters, channels, layer.kernel[0], layer.kernel[1]];
    let weights = Tensor::of_integers(DType::I8, &shape, &vec![1; shape.iter().product()]);
    let weights = builder.dequantized_constant(&weights, &[0.01], 0);
    let y = builder.conv(&[x, weights], layer.stride, 0, groups);
    let Some(triune_graph::Op::Conv(conv)) = builder.graph_mut().nodes.last_mut().map(|node| &mut node.op)
    else {
        panic!("the last node is the convolution");
    };
    for axis in 0..2 {
        let times = (layer.input[axis] - layer.kernel[axis] + layer.stride).div_ceil(layer.stride);
        let reach = (times - 1) * layer.stride + layer.kernel[axis];
        conv.pad[2 + axis] = reach.saturating_sub(layer.input[axis]);
    }
    let y = builder.quantize_dequantize(y, params, DType::I8);
    builder.finish(&[y])
}

/// The one command that the layer compiles to, as timed on a deployment.
fn time(device: &Arc<Device>, layer: &Layer, groups: usize) -> CommandTime {
    let compiled =
        compile(&graph(layer, groups), device.spec(), &CompileOptions::default()).expect("compiled");
    assert!(compiled.preprocess.is_none() && compiled.postprocess.is_none());
    let deployment =
        Deployment::new(device, &Arc::new(compiled.program), &DeployOptions::default()).expect("deployed");
    let [command] = deployment.timeline().commands[..] else { panic!("one command per layer") };
    command
}

#[test]
fn every_row_of_the_reference_tables() {
    let Some(folder) = triune_testing::test_data("refdata/scalesim") else { return };
    let (mut rows, mut depthwise) = (0, 0);
    for (table, spec) in [
        ("resnet18_os128_calc.csv", "scalesim-os-128x128"),
        ("mobilenet_ws32_calc.csv", "scalesim-ws-32x32"),
        ("resnet18_is16_calc.csv", "scalesim-is-16x16"),
    ] {
        let device = Device::new(DeviceSpec::builtin(spec).expect("a built-in device")).expect("a device");
        let array = device.spec().array.expect("an array");
        let (height, width) = (u64::from(array.rows), u64::from(array.columns));
        let text = std::fs::read_to_string(folder.join(table)).expect("a table");
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
        for line in lines {
            let cells: HashMap<&str, &str> = header.iter().copied().zip(line.split(',')).collect();
            let number = |key: &str| cells[key].parse::<u64>().expect("a number");
            let layers = layers(&folder.join("topologies"), cells["net"]);
            let layer = layers[cells["layer"]];
            let what = format!("{table} {}", cells["layer"]);
            let command = time(&device, &layer, 1);
            // A depthwise layer stands in its topologies as one filter over all channels: as one that keeps them apart, it
            // is the same to the array.
            if layer.filters == 1 && layer.kernel != [1, 1] {
                let apart = time(&device, &layer, layer.channels);
                assert_eq!(
                    (apart.compute, apart.macs, apart.sram, apart.ideal),
                    (command.compute, command.macs, command.sram, command.ideal),
                    "{what}"
                );
                depthwise += 1;
            }
            // Its total is the index of the last cycle.
            assert_eq!(command.compute - 1, number("total_cycles"), "{what}");
            let (m, n, k) = (number("Sr_ofmap_px"), number("Sc_filters"), number("T_window"));
            assert_eq!(command.macs, m * n * k, "{what}");
            let SramAccesses { ifmap, filter, mut ofmap } = command.sram;
            if array.dataflow == Dataflow::Os {
                // It counts the drain of every fold once more.
                ofmap += m.div_ceil(height) * n.div_ceil(width) * (height + width);
            }
            let reference = ["sram_if_rd", "sram_fl_rd", "sram_of_wr"].map(number);
            assert_eq!([ifmap, filter, ofmap], reference, "{what}");
            // MACs over all cells and cycles, in percent, of one cycle less.
            let utilization = command.macs as f64 / ((command.compute - 1) * height * width) as f64 * 100.0;
            let reported: f64 = cells["overall_util_pct"].parse().expect("a number");
            assert!((utilization - reported).abs() < 0.02, "{what}: {utilization} {reported}");
            let permille = command.macs * 1000 / (command.compute * height * width);
            assert!(command.array_utilization().abs_diff(permille) <= 1, "{what}");
            rows += 1;
        }
    }
    assert_eq!((rows, depthwise), (21 + 24 + 7, 12));
}

/// Where depthwise convolutions run is the description's to say.
#[test]
fn depthwise_convolutions_run_where_the_description_says() {
    let layer = Layer { input: [16, 16], kernel: [3, 3], channels: 40, filters: 40, stride: 1 };
    let (m, rows, columns) = (14 * 14, 8_u64, 16_u64);
    for (flow, window, channel) in [
        ("os", [m, 1, 9 * 40], [m, 1, 9]),
        ("ws", [9 * 40, 1, m], [9, 1, m]),
        ("is", [9 * 40, m, 1], [9, m, 1]),
    ] {
        let fold = if flow == "os" { rows + columns } else { 2 * rows + columns } - 2;
        let cycles = |[over_rows, over_columns, stream]: [u64; 3]| {
            over_rows.div_ceil(rows) * over_columns.div_ceil(columns) * (fold + stream)
        };
        for (place, expected) in [
            (None, cycles(window)),
            (Some(Depthwise::Window), cycles(window)),
            (Some(Depthwise::Groups), 40 * cycles(channel)),
            // Nine taps for each of the results, sixteen a cycle.
            (Some(Depthwise::Vector), (m * 40 * 9).div_ceil(16)),
        ] {
            let mut spec = DeviceSpec::builtin(&format!("scalesim-{flow}-8x16")).expect("a built-in device");
            spec.array.as_mut().expect("an array").depthwise = place;
            spec.vector.as_mut().expect("a vector unit").taps_per_cycle = 16;
            let device = Device::new(spec).expect("a device");
            let command = time(&device, &layer, 40);
            assert_eq!(command.compute, expected, "{flow} {place:?}");
            assert_eq!(command.macs, m * 40 * 9);
        }
    }
}

/// Arrays without a reference table: the closed forms.
#[test]
fn other_extents_follow_the_closed_form() {
    for (size, rows, columns) in [("8x16", 8_u64, 16_u64), ("64x4", 64, 4), ("1x1", 1, 1)] {
        for (flow, fold_cycles, folds) in [
            ("os", rows + columns + 27 * 5 - 2, 169_u64.div_ceil(rows) * 20_u64.div_ceil(columns)),
            ("ws", 2 * rows + columns + 169 - 2, (27 * 5_u64).div_ceil(rows) * 20_u64.div_ceil(columns)),
            ("is", 2 * rows + columns + 20 - 2, (27 * 5_u64).div_ceil(rows) * 169_u64.div_ceil(columns)),
        ] {
            let name = format!("scalesim-{flow}-{size}");
            let device =
                Device::new(DeviceSpec::builtin(&name).expect("a built-in device")).expect("a device");
            // 13 × 13 pixels.
            let layer = Layer { input: [27, 33], kernel: [3, 9], channels: 5, filters: 20, stride: 2 };
            let command = time(&device, &layer, 1);
            assert_eq!(command.compute, folds * fold_cycles, "{name}");
        }
    }
}
