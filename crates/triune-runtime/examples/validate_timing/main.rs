//! Predicted against published throughput, before and after the fit of a few parameters: makes the tables of
//! `docs/timing-model.md`.
//!
//! ```text
//! cargo run --release -p triune-runtime --example validate_timing -- <folder with the topologies> [docs/timing-model.md] [more]
//! ```
//! With a file, its tables are replaced; else they are printed. `more` is a folder with topologies of networks that no fit saw,
//! whose rows come first.
//! Every network is quantized, compiled and deployed as any other; what is timed is the command stream that it runs.

mod fit;
mod published;
mod quantize;
mod unseen;

use std::{error::Error, fmt::Write as _, path::Path, sync::Arc};

use fit::{Parameter, fit, with};
use published::{BUYI, METIS, PRODUCTS};
use triune_device::{
    Command, DeviceSpec, Timeline, TimingOptions,
    command::decode,
    spec::Precision,
    timing::{Tiling, timeline_tiled},
};
use triune_graph::{Graph, format::onnx};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, PlanOptions, Policy, TensorIo, compile,
};
use unseen::{BUYI_UNSEEN, METIS_UNSEEN};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A program, ready to be timed under changed descriptions.
struct Case {
    commands: Vec<Command>,
    placement: Vec<String>,
    /// Bytes of one image that cross the host link, in its busier direction.
    link_bytes: usize,
    /// Bytes of the near memory that feature maps have.
    resident_bytes: u64,
    /// How the commands are cut on the device as it is, at 8 and at 16 bit: what a fit takes them to be cut like.
    cut: [Vec<Tiling>; 2],
}

impl Case {
    /// The quantized network on every core of the device.
    fn new(float: Graph, spec: &DeviceSpec, policy: Policy) -> Outcome<Self> {
        let plan = PlanOptions { policy, ..PlanOptions::default() };
        let options = CompileOptions { batch: spec.cores as usize, plan, ..CompileOptions::default() };
        let program = Arc::new(compile(&quantize::quantized(float)?, spec, &options)?.program);
        let device = Device::new(spec.clone())?;
        let deployment = Deployment::new(&device, &program, &DeployOptions::default())?;
        let placement = deployment.places().iter().map(|place| place.memory.clone()).collect();
        let bytes = |tensors: &[TensorIo]| tensors.iter().map(TensorIo::bytes).sum::<usize>() / program.batch;
        let link_bytes = bytes(&program.inputs).max(bytes(&program.outputs));
        let (commands, resident_bytes) = (decode(&program.instructions)?, program.resident_bytes());
        let mut case = Self { commands, placement, link_bytes, resident_bytes, cut: Default::default() };
        let wide = spec.array.is_some_and(|array| array.cycles_per_vector_16.is_some());
        for (at, precision) in
            [Precision::Int8, Precision::Int16].into_iter().take(1 + usize::from(wide)).enumerate()
        {
            case.cut[at] =
                case.timeline(spec, precision, &[]).commands.iter().map(|time| time.tiling).collect();
        }
        Ok(case)
    }

    fn read(folder: &Path, topology: &str, spec: &DeviceSpec, policy: Policy) -> Outcome<Self> {
        Self::new(onnx::read(folder.join(format!("{topology}.onnx")))?, spec, policy)
    }

    /// One run with all cores at work; commands without a tiling are cut in the best way.
    fn timeline(&self, spec: &DeviceSpec, precision: Precision, cut: &[Tiling]) -> Timeline {
        let placement: Vec<&str> = self.placement.iter().map(String::as_str).collect();
        let (active_cores, resident_bytes) = (spec.cores, self.resident_bytes);
        let options = TimingOptions { precision, active_cores, resident_bytes, ..TimingOptions::default() };
        timeline_tiled(spec, &self.commands, &placement, &options, cut.iter().copied())
            .expect("it was deployed")
    }

    /// Microseconds of one run, with or without the launch; cut in the best way, or as on the device as it is.
    fn micros(&self, spec: &DeviceSpec, precision: Precision, launch: bool, best: bool) -> f64 {
        let cut = &self.cut[usize::from(precision == Precision::Int16)];
        let timeline = self.timeline(spec, precision, if best { &[] } else { cut });
        let skipped = if launch { 0 } else { timeline.launch_cycles };
        timeline.nanos(timeline.total_cycles - skipped) as f64 / 1000.0
    }
}

/// A published figure, as a time, and what the model says.
struct Row {
    name: String,
    /// Published microseconds between results.
    published: f64,
    unit: Unit,
    weight: f64,
    /// What the row was used for.
    used: &'static str,
    case: Arc<Case>,
    precision: Precision,
    /// Which of the specs it is for.
    board: usize,
}

#[derive(Clone, Copy)]
enum Unit {
    FramesPerSecond,
    Micros,
    Millis,
}

impl Unit {
    fn show(self, micros: f64) -> String {
        match self {
            Self::FramesPerSecond => format!("{:.0}", 1e6 / micros),
            Self::Micros => format!("{micros:.2}"),
            Self::Millis => format!("{:.3}", micros / 1000.0),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::FramesPerSecond => "frames/s",
            Self::Micros => "µs",
            Self::Millis => "ms",
        }
    }
}

impl Row {
    fn predicted(&self, spec: &DeviceSpec, best: bool) -> f64 {
        // The times of one NPU are those of its hardware; the others contain the launch.
        let launch = !matches!(self.unit, Unit::Millis);
        let cores = self.case.micros(spec, self.precision, launch, best) / f64::from(spec.cores);
        // Frames come and go over the link, which works beside the cores; single products were timed without it.
        let link = match (self.unit, &spec.link) {
            (Unit::FramesPerSecond, Some(link)) => {
                1e6 * self.case.link_bytes as f64 / link.bytes_per_second as f64
            }
            _ => 0.0,
        };
        cores.max(link)
    }

    /// Error in the published figure's own terms, in percent.
    fn error(&self, spec: &DeviceSpec) -> f64 {
        let ratio = self.predicted(spec, true) / self.published;
        100.0 * if matches!(self.unit, Unit::FramesPerSecond) { ratio.recip() - 1.0 } else { ratio - 1.0 }
    }
}

/// Weighted mean square of the logarithm of predicted over published, over the rows that have a weight. Commands stay cut as on the
/// device as it is: a search for every set of parameters would take hours.
fn loss(rows: &[Row], weight: &dyn Fn(&Row) -> f64, spec: &DeviceSpec) -> f64 {
    let weighted = || rows.iter().map(|row| (row, weight(row))).filter(|(_, weight)| *weight > 0.0);
    let square =
        |(row, weight): (&Row, f64)| weight * (row.predicted(spec, false) / row.published).ln().powi(2);
    weighted().map(square).sum::<f64>() / weighted().map(|(_, weight)| weight).sum::<f64>()
}

fn metis_parameters() -> Vec<Parameter> {
    vec![
        Parameter {
            key: "launch.program_ns",
            start: 36_000,
            range: [1000, 100_000],
            power_of_two: false,
            set: |spec, value| spec.launch.program_ns = value,
        },
        Parameter {
            key: "launch.command_cycles",
            start: 400,
            range: [1, 40_000],
            power_of_two: false,
            set: |spec, value| spec.launch.command_cycles = value as u32,
        },
        Parameter {
            key: "memory[1].bytes_per_cycle",
            start: 45,
            range: [45, 128],
            power_of_two: false,
            set: |spec, value| spec.memory[1].bytes_per_cycle = Some([value as u32, 1]),
        },
        Parameter {
            key: "array.weight_bytes_per_cycle",
            start: 45,
            range: [41, 54],
            power_of_two: false,
            set: |spec, value| {
                spec.array.iter_mut().for_each(|array| array.weight_bytes_per_cycle = Some(value as u32));
            },
        },
        Parameter {
            key: "array.replication",
            start: 1,
            range: [1, 8],
            power_of_two: true,
            set: |spec, value| spec.array.iter_mut().for_each(|array| array.replication = value as u32),
        },
        Parameter {
            key: "vector.taps_per_cycle",
            start: 576,
            range: [8, 4096],
            power_of_two: false,
            set: |spec, value| spec.vector.iter_mut().for_each(|vector| vector.taps_per_cycle = value as u32),
        },
        Parameter {
            key: "vector.products_per_cycle",
            start: 64,
            range: [1, 64],
            power_of_two: false,
            set: |spec, value| {
                spec.vector.iter_mut().for_each(|vector| vector.products_per_cycle = Some(value as u32));
            },
        },
    ]
}

fn metis(folder: &Path, text: &mut String) -> Outcome<()> {
    let boards = [DeviceSpec::builtin("metis")?, DeviceSpec::builtin("metis-m2")?];
    let mut rows = Vec::new();
    for figure in &METIS {
        for (board, spec) in boards.iter().enumerate() {
            rows.push(Row {
                name: format!("{}, {}", figure.name, ["PCIe", "M.2"][board]),
                published: 1e6 / f64::from(figure.fps[board]),
                unit: Unit::FramesPerSecond,
                weight: if figure.fitted && board == 0 { 1.0 } else { 0.0 },
                used: match (figure.name, board) {
                    ("Wide ResNet-50", 1) => "M.2's DDR",
                    (_, 0) if figure.fitted => "fit",
                    _ => "",
                },
                case: Arc::new(Case::read(folder, figure.topology, spec, Policy::default())?),
                precision: Precision::Int8,
                board,
            });
        }
    }
    for figure in &PRODUCTS {
        let [k, n, m] = [figure.k, figure.n, figure.m];
        rows.push(Row {
            name: format!("{k}×{n} by {m}"),
            published: figure.micros,
            unit: Unit::Micros,
            weight: 4.0 / PRODUCTS.len() as f64,
            used: "fit",
            case: Arc::new(Case::new(quantize::product(k, n, m), &boards[0], Policy::default())?),
            precision: Precision::Int8,
            board: 0,
        });
    }
    report(text, "Metis", &boards, &rows, &metis_parameters())
}

fn buyi_parameters() -> Vec<Parameter> {
    vec![
        Parameter {
            key: "launch.command_cycles_16",
            start: 400,
            range: [1, 80_000],
            power_of_two: false,
            set: |spec, value| spec.launch.command_cycles_16 = Some(value as u32),
        },
        Parameter {
            key: "array.rows",
            start: 32,
            range: [2, 32],
            power_of_two: true,
            set: |spec, value| spec.array.iter_mut().for_each(|array| array.rows = value as u32),
        },
        Parameter {
            key: "array.columns",
            start: 32,
            range: [2, 32],
            power_of_two: true,
            set: |spec, value| spec.array.iter_mut().for_each(|array| array.columns = value as u32),
        },
        Parameter {
            key: "array.cycles_per_vector_16",
            start: 2,
            range: [2, 4],
            power_of_two: true,
            set: |spec, value| {
                spec.array.iter_mut().for_each(|array| array.cycles_per_vector_16 = Some(value as u32));
            },
        },
        Parameter {
            key: "memory[0].bytes_per_second",
            start: 12_800_000_000,
            range: [1_000_000_000, 40_000_000_000],
            power_of_two: false,
            set: |spec, value| spec.memory[0].bytes_per_second = Some(value),
        },
        Parameter {
            key: "launch.command_cycles",
            start: 400,
            range: [1, 40_000],
            power_of_two: false,
            set: |spec, value| spec.launch.command_cycles = value as u32,
        },
    ]
}

fn buyi(folder: &Path, text: &mut String) -> Outcome<()> {
    let boards = [DeviceSpec::builtin("buyi")?];
    let mut rows = Vec::new();
    for figure in &BUYI {
        // The published times are those of feature maps in external memory; the page says how that was found.
        let case = Arc::new(Case::read(folder, figure.topology, &boards[0], Policy::None)?);
        for (index, precision) in [Precision::Int8, Precision::Int16].into_iter().enumerate() {
            rows.push(Row {
                name: format!("{}, {} bit", figure.name, [8, 16][index]),
                published: figure.millis[index] * 1000.0,
                unit: Unit::Millis,
                weight: if figure.fitted[index] { 1.0 } else { 0.0 },
                used: if figure.fitted[index] { "fit" } else { "" },
                case: Arc::clone(&case),
                precision,
                board: 0,
            });
        }
    }
    report(text, "BUYI", &boards, &rows, &buyi_parameters())
}

/// Writes the parameters, then every row before and after the fit.
fn report(
    text: &mut String,
    title: &str,
    boards: &[DeviceSpec],
    rows: &[Row],
    parameters: &[Parameter],
) -> Outcome<()> {
    let starts: Vec<u64> = parameters.iter().map(|parameter| parameter.start).collect();
    let values = fit(&boards[0], parameters, &|spec| loss(rows, &|row| row.weight, spec));
    writeln!(text, "\n## {title}\n\n| parameter | before | fitted |\n|---|---:|---:|")?;
    for ((parameter, start), value) in parameters.iter().zip(&starts).zip(&values) {
        writeln!(text, "| `{}` | {start} | {value} |", parameter.key)?;
    }
    let specs = |values: &[u64]| -> Vec<DeviceSpec> {
        boards.iter().map(|board| with(board, parameters, values)).collect()
    };
    let (before, after) = (specs(&starts), specs(&values));
    if after != boards {
        writeln!(text, "\nThe descriptions that come with the crate are not those of this fit.")?;
    }
    writeln!(
        text,
        "\n| row | published | | before | error | fitted | error | used for |\n|---|---:|---|---:|---:|---:|---:|---|"
    )?;
    for row in rows {
        let columns = |specs: &[DeviceSpec]| {
            let spec = &specs[row.board];
            format!("{} | {:+.1} %", row.unit.show(row.predicted(spec, true)), row.error(spec))
        };
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.name,
            row.unit.show(row.published),
            row.unit.name(),
            columns(&before),
            columns(&after),
            row.used
        )?;
    }
    let mean = |specs: &[DeviceSpec], seen: bool| {
        let errors: Vec<f64> = (rows.iter())
            .filter(|row| row.used.is_empty() != seen)
            .map(|row| row.error(&specs[row.board]).abs())
            .collect();
        (errors.iter().sum::<f64>() / errors.len().max(1) as f64, errors.iter().copied().fold(0.0, f64::max))
    };
    writeln!(text)?;
    for (what, specs) in [("Before", &before), ("Fitted", &after)] {
        let (seen, unseen) = (mean(specs, true), mean(specs, false));
        writeln!(
            text,
            "{what}: mean error {:.1} % (largest {:.1} %) on rows of the fit, {:.1} % (largest {:.1} %) on the others.  ",
            seen.0, seen.1, unseen.0, unseen.1
        )?;
    }
    left_out(text, boards, rows, parameters)
}

/// Writes how each network is predicted by a fit to all the others.
fn left_out(text: &mut String, boards: &[DeviceSpec], rows: &[Row], parameters: &[Parameter]) -> Outcome<()> {
    let network = |row: &Row| row.name.split_once(", ").map(|(name, _)| name.to_owned());
    let mut names: Vec<String> = rows.iter().filter_map(network).collect();
    names.dedup();
    writeln!(
        text,
        "\nEach network predicted by a fit to all the others (the first board's) and the products:\n"
    )?;
    writeln!(text, "| left out | errors | parameters, in the order above |\n|---|---|---|")?;
    for name in names {
        let weight = |row: &Row| match network(row) {
            Some(other) if other == name || row.board > 0 => 0.0,
            Some(_) => 1.0,
            None => row.weight,
        };
        let values = fit(&boards[0], parameters, &|spec| loss(rows, &weight, spec));
        let errors: Vec<String> = (rows.iter())
            .filter(|row| network(row).as_ref() == Some(&name))
            .map(|row| format!("{:+.1} %", row.error(&with(&boards[row.board], parameters, &values))))
            .collect();
        writeln!(text, "| {name} | {} | {values:?} |", errors.join(", "))?;
    }
    Ok(())
}

/// The rows of networks that no fit saw, by the descriptions that come with the crate.
fn unseen(folder: &Path, text: &mut String) -> Outcome<()> {
    writeln!(text, "\n## Networks that no fit saw\n")?;
    writeln!(
        text,
        "By the descriptions that come with the crate; the rows after these are those of the fits.\n"
    )?;
    writeln!(text, "| row | published | | predicted | error |\n|---|---:|---|---:|---:|")?;
    let mut errors: Vec<(&str, f64)> = Vec::new();
    for (figures, devices, kinds, unit) in [
        (&METIS_UNSEEN[..], ["metis", "metis-m2"], ["PCIe", "M.2"], Unit::FramesPerSecond),
        (&BUYI_UNSEEN[..], ["buyi", "buyi"], ["BUYI, 8 bit", "BUYI, 16 bit"], Unit::Millis),
    ] {
        let slow = matches!(unit, Unit::Millis);
        let policy = if slow { Policy::None } else { Policy::default() };
        for figure in figures {
            for (at, published) in figure.figures.into_iter().enumerate() {
                let Some(published) = published else { continue };
                let spec = DeviceSpec::builtin(devices[at])?;
                let row = Row {
                    name: format!("{}, {}", figure.name, kinds[at]),
                    published: if slow { published * 1000.0 } else { 1e6 / published },
                    unit,
                    weight: 0.0,
                    used: "",
                    case: Arc::new(Case::read(folder, figure.topology, &spec, policy)?),
                    precision: if slow && at == 1 { Precision::Int16 } else { Precision::Int8 },
                    board: 0,
                };
                let (made, error) = (row.predicted(&spec, true), row.error(&spec));
                let [wanted, made] = [row.published, made].map(|micros| unit.show(micros));
                writeln!(text, "| {} | {wanted} | {} | {made} | {error:+.1} % |", row.name, unit.name())?;
                errors.push((devices[at], error.abs()));
            }
        }
    }
    writeln!(text)?;
    for (device, name) in [("metis", "Metis PCIe"), ("metis-m2", "Metis M.2"), ("buyi", "BUYI")] {
        let mut own: Vec<f64> =
            errors.iter().filter(|(each, _)| *each == device).map(|(_, error)| *error).collect();
        own.sort_by(f64::total_cmp);
        let (Some(largest), count) = (own.last(), own.len()) else { continue };
        let (mean, median) = (own.iter().sum::<f64>() / count as f64, own[count / 2]);
        writeln!(
            text,
            "{name}: mean error {mean:.1} %, median {median:.1} %, largest {largest:.1} %, of {count} rows.  "
        )?;
    }
    Ok(())
}

/// Where the tables begin in the documentation.
const MARK: &str = "<!-- made by `validate_timing`; what follows is replaced -->\n";

fn main() -> Outcome<()> {
    let usage =
        "usage: validate_timing <folder with the topologies> [docs/timing-model.md] [folder with more]";
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or(usage)?;
    let (page, more) = (arguments.next(), arguments.next());
    let mut text = String::new();
    if let Some(more) = more {
        unseen(Path::new(&more), &mut text)?;
    }
    metis(Path::new(&folder), &mut text)?;
    buyi(Path::new(&folder), &mut text)?;
    let Some(page) = page else {
        print!("{text}");
        return Ok(());
    };
    let old = std::fs::read_to_string(&page)?;
    let (before, _) = old.split_once(MARK).ok_or("the page has no mark where the tables begin")?;
    Ok(std::fs::write(&page, format!("{before}{MARK}{text}"))?)
}
