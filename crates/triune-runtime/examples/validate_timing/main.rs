//! Predicted against published throughput, by fits of a few parameters that leave out a family of networks each: makes the tables of
//! `docs/timing-model.md`.
//!
//! ```text
//! cargo run --release -p triune-runtime --example validate_timing -- FOLDER… [--page docs/timing-model.md] [--rows more.csv]
//! ```
//! Folders hold the topologies. With a page its tables are replaced, else they are printed. `more.csv` has further rows, under the
//! heading `device,topology,metric,value,source`, with the devices `metis-pcie`, `metis-m2` and `buyi` and the metrics `fps`, `ms8`
//! and `ms16`: no fit sees them.
//! Every network is quantized, compiled and deployed as any other; what is timed is the command stream that it runs.

mod fit;
mod published;
mod quantize;

use std::{
    borrow::Cow,
    error::Error,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use fit::{Parameter, fit, with};
use published::{BUYI, METIS, Network, PRODUCTS, Setting};
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

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A program, ready to be timed under changed descriptions.
struct Case {
    commands: Vec<Command>,
    placement: Vec<String>,
    /// Bytes of one image that cross the host link, in its busier direction.
    link_bytes: usize,
    /// Bytes of the near memory that feature maps have.
    resident_bytes: u64,
    /// Share of its time that the array may work, in percent.
    array_percent: u32,
    /// Whether the array holds weights of few outputs several times.
    replicated: bool,
    /// How the commands are cut on the device as it is, at 8 and at 16 bit: what a fit takes them to be cut like.
    cut: [Vec<Tiling>; 2],
}

impl Case {
    /// The quantized network as it is compiled for one of the boards.
    fn new(float: Graph, spec: &DeviceSpec, policy: Policy, setting: Setting, board: usize) -> Outcome<Self> {
        let (replicated, array_percent) = (setting.replicated, setting.array_percent[board]);
        let spec = &*in_array(spec, replicated);
        let plan = PlanOptions { policy, ..PlanOptions::default() };
        let options = CompileOptions {
            batch: setting.images,
            plan,
            cascades: setting.cascades,
            ..CompileOptions::default()
        };
        let program = Arc::new(compile(&quantize::quantized(float)?, spec, &options)?.program);
        let device = Device::new(spec.clone())?;
        let deployment = Deployment::new(&device, &program, &DeployOptions::default())?;
        let placement = deployment.places().iter().map(|place| place.memory.clone()).collect();
        let bytes = |tensors: &[TensorIo]| tensors.iter().map(TensorIo::bytes).sum::<usize>() / program.batch;
        let link_bytes = bytes(&program.inputs).max(bytes(&program.outputs));
        let (commands, resident_bytes) = (decode(&program.instructions)?, program.resident_bytes());
        let mut case = Self {
            commands,
            placement,
            link_bytes,
            resident_bytes,
            array_percent,
            replicated,
            cut: Default::default(),
        };
        let wide = spec.array.is_some_and(|array| array.cycles_per_vector_16.is_some());
        for (at, precision) in
            [Precision::Int8, Precision::Int16].into_iter().take(1 + usize::from(wide)).enumerate()
        {
            case.cut[at] =
                case.timeline(spec, precision, &[]).commands.iter().map(|time| time.tiling).collect();
        }
        Ok(case)
    }

    /// One run with all cores at work; commands without a tiling are cut in the best way.
    fn timeline(&self, spec: &DeviceSpec, precision: Precision, cut: &[Tiling]) -> Timeline {
        let placement: Vec<&str> = self.placement.iter().map(String::as_str).collect();
        let (active_cores, resident_bytes) = (spec.cores, self.resident_bytes);
        let options = TimingOptions {
            precision,
            active_cores,
            resident_bytes,
            array_percent: self.array_percent,
            ..TimingOptions::default()
        };
        timeline_tiled(
            &in_array(spec, self.replicated),
            &self.commands,
            &placement,
            &options,
            cut.iter().copied(),
        )
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

/// The board, or one whose array holds no weights several times.
fn in_array(spec: &DeviceSpec, replicated: bool) -> Cow<'_, DeviceSpec> {
    if replicated {
        return Cow::Borrowed(spec);
    }
    let mut spec = spec.clone();
    spec.array.iter_mut().for_each(|array| array.replication = 1);
    Cow::Owned(spec)
}

/// What is published, as a time, and what the model says.
struct Row {
    name: String,
    family: &'static str,
    /// Published microseconds between results.
    published: f64,
    unit: Unit,
    /// In the fit of everything; 0: no fit sees it.
    weight: f64,
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

/// Weighted mean, over the rows that have a weight, of the logarithm of predicted over published without its sign, rounded off
/// below 5 %: rows that the model has no word for do not bend it. Commands stay cut as on the device as it is: a search for every set of
/// parameters would take hours.
fn loss(rows: &[Row], weight: &dyn Fn(&Row) -> f64, spec: &DeviceSpec) -> f64 {
    let weighted = || rows.iter().map(|row| (row, weight(row))).filter(|(_, weight)| *weight > 0.0);
    let off =
        |(row, weight): (&Row, f64)| weight * (row.predicted(spec, false) / row.published).ln().hypot(0.05);
    weighted().map(off).sum::<f64>() / weighted().map(|(_, weight)| weight).sum::<f64>()
}

/// A vendor's boards, and what is published of them.
struct Vendor {
    title: &'static str,
    /// What the boards, or the widths, are called.
    kinds: [&'static str; 2],
    boards: Vec<DeviceSpec>,
    rows: Vec<Row>,
    parameters: Vec<Parameter>,
}

/// The folders with topologies.
struct Topologies(Vec<PathBuf>);

impl Topologies {
    fn read(&self, topology: &str) -> Outcome<Graph> {
        let mut files = self.0.iter().map(|folder| folder.join(format!("{topology}.onnx")));
        let file =
            files.find(|file| file.is_file()).ok_or_else(|| format!("{topology}.onnx is in no folder"))?;
        Ok(onnx::read(file)?)
    }

    /// The rows of a network on Metis' boards.
    fn on_metis(&self, network: &Network, boards: &[DeviceSpec]) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        for (board, published) in network.figures.into_iter().enumerate() {
            let Some(published) = published else { continue };
            let graph = self.read(network.topology)?;
            let case = Case::new(
                graph,
                &boards[board],
                Policy::default(),
                Setting::on_metis(network.topology),
                board,
            )?;
            rows.push(Row {
                name: format!("{}, {}", network.name, ["PCIe", "M.2"][board]),
                family: network.family,
                published: 1e6 / published,
                unit: Unit::FramesPerSecond,
                weight: if board == 0 && network.left_out.is_none() { 1.0 } else { 0.0 },
                case: Arc::new(case),
                precision: Precision::Int8,
                board,
            });
        }
        Ok(rows)
    }

    /// The rows of a network on BUYI.
    fn on_buyi(&self, network: &Network, board: &DeviceSpec) -> Outcome<Vec<Row>> {
        // The published times are those of feature maps in external memory; the page says how that was found.
        let graph = self.read(network.topology)?;
        let case = Arc::new(Case::new(graph, board, Policy::None, Setting::NONE, 0)?);
        let widths = [Precision::Int8, Precision::Int16].into_iter().zip([8, 16]).zip(network.figures);
        let rows = widths.filter_map(|((precision, bits), published)| {
            Some(Row {
                name: format!("{}, {bits} bit", network.name),
                family: network.family,
                published: published? * 1000.0,
                unit: Unit::Millis,
                weight: if network.left_out.is_none() { 1.0 } else { 0.0 },
                case: Arc::clone(&case),
                precision,
                board: 0,
            })
        });
        Ok(rows.collect())
    }
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
            key: "launch.table_cycles",
            start: 6_000,
            range: [1, 40_000],
            power_of_two: false,
            set: |spec, value| spec.launch.table_cycles = value as u32,
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

fn buyi_parameters() -> Vec<Parameter> {
    vec![
        Parameter {
            key: "launch.command_cycles_16",
            start: 400,
            range: [1, 120_000],
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

fn metis(topologies: &Topologies) -> Outcome<Vendor> {
    let boards = vec![DeviceSpec::builtin("metis")?, DeviceSpec::builtin("metis-m2")?];
    let mut rows = Vec::new();
    for network in &METIS {
        rows.extend(topologies.on_metis(network, &boards)?);
    }
    for figure in &PRODUCTS {
        let [k, n, m] = [figure.k, figure.n, figure.m];
        rows.push(Row {
            name: format!("{k}×{n} by {m}"),
            family: "products",
            published: figure.micros,
            unit: Unit::Micros,
            weight: 4.0 / PRODUCTS.len() as f64,
            case: Arc::new(Case::new(
                quantize::product(k, n, m),
                &boards[0],
                Policy::default(),
                Setting::NONE,
                0,
            )?),
            precision: Precision::Int8,
            board: 0,
        });
    }
    Ok(Vendor { title: "Metis", kinds: ["PCIe", "M.2"], boards, rows, parameters: metis_parameters() })
}

fn buyi(topologies: &Topologies) -> Outcome<Vendor> {
    let boards = vec![DeviceSpec::builtin("buyi")?];
    let mut rows = Vec::new();
    for network in &BUYI {
        rows.extend(topologies.on_buyi(network, &boards[0])?);
    }
    Ok(Vendor { title: "BUYI", kinds: ["8 bit", "16 bit"], boards, rows, parameters: buyi_parameters() })
}

impl Vendor {
    /// The boards with the parameters that are best for the rows that `weight` gives one.
    fn fitted(&self, weight: &dyn Fn(&Row) -> f64) -> (Vec<u64>, Vec<DeviceSpec>) {
        let values = fit(&self.boards[0], &self.parameters, &|spec| loss(&self.rows, weight, spec));
        let boards = self.boards.iter().map(|board| with(board, &self.parameters, &values)).collect();
        (values, boards)
    }

    /// Writes the parameters, then every row by the descriptions, by a fit of everything, and by one that left its family out.
    fn report(&self, text: &mut String) -> Outcome<()> {
        let (all, whole) = self.fitted(&|row| row.weight);
        let mut families: Vec<&str> = self.rows.iter().map(|row| row.family).collect();
        families.sort_unstable();
        families.dedup();
        families.retain(|family| *family != "products");
        let without: Vec<(&str, Vec<u64>, Vec<DeviceSpec>)> = families
            .iter()
            .map(|&family| {
                let (values, boards) =
                    self.fitted(&|row| if row.family == family { 0.0 } else { row.weight });
                (family, values, boards)
            })
            .collect();
        writeln!(text, "\n## {}\n", self.title)?;
        if whole != self.boards {
            writeln!(text, "The descriptions that come with the crate are not those of this fit.\n")?;
        }
        write!(text, "| parameter | all | without")?;
        for (family, ..) in &without {
            write!(text, " {family} |")?;
        }
        writeln!(text, "\n|---|---:{}|", "|---:".repeat(without.len()))?;
        for (at, (parameter, value)) in self.parameters.iter().zip(&all).enumerate() {
            write!(text, "| `{}` | {value}", parameter.key)?;
            for (_, values, _) in &without {
                write!(text, " | {}", values[at])?;
            }
            writeln!(text, " |")?;
        }
        writeln!(
            text,
            "\n| row | published | | as described | error | family left out | error |\n|---|---:|---|---:|---:|---:|---:|"
        )?;
        let mut errors: Vec<(&str, usize, f64)> = Vec::new();
        for row in &self.rows {
            let unseen = without.iter().find(|(family, ..)| *family == row.family).map(|(.., boards)| boards);
            let cells = |boards: &[DeviceSpec]| {
                let spec = &boards[row.board];
                format!("{} | {:+.1} %", row.unit.show(row.predicted(spec, true)), row.error(spec))
            };
            let (described, left) = (cells(&self.boards), unseen.map_or("| ".into(), |boards| cells(boards)));
            let (published, unit) = (row.unit.show(row.published), row.unit.name());
            writeln!(text, "| {} | {published} | {unit} | {described} | {left} |", row.name)?;
            if let Some(boards) = unseen {
                let kind = if self.boards.len() > 1 {
                    row.board
                } else {
                    usize::from(row.precision == Precision::Int16)
                };
                errors.push(("family left out", kind, row.error(&boards[row.board]).abs()));
                errors.push(("as described", kind, row.error(&self.boards[row.board]).abs()));
            }
        }
        writeln!(text)?;
        for way in ["as described", "family left out"] {
            for (kind, name) in self.kinds.iter().enumerate() {
                let own = errors.iter().filter(|(own, at, _)| *own == way && *at == kind).map(|each| each.2);
                writeln!(text, "{name}, {way}: {}.  ", summary(own.collect()))?;
            }
        }
        for (kind, name) in self.kinds.iter().enumerate().take(self.boards.len()) {
            let own = self.rows.iter().filter(|row| row.board == kind && row.family != "products");
            let pairs: Vec<[f64; 2]> =
                own.map(|row| [row.published, row.predicted(&self.boards[kind], true)]).collect();
            writeln!(text, "{name}: rank correlation {:.3}.  ", rank_correlation(&pairs))?;
        }
        Ok(())
    }

    /// Writes rows that no fit saw.
    fn unseen(&self, rows: &[Row], text: &mut String) -> Outcome<()> {
        writeln!(text, "\n## {}: further rows\n", self.title)?;
        writeln!(text, "| row | published | | as described | error |\n|---|---:|---|---:|---:|")?;
        for row in rows {
            let spec = &self.boards[row.board];
            let [wanted, made] =
                [row.published, row.predicted(spec, true)].map(|micros| row.unit.show(micros));
            let error = row.error(spec);
            writeln!(text, "| {} | {wanted} | {} | {made} | {error:+.1} % |", row.name, row.unit.name())?;
        }
        let errors = rows.iter().map(|row| row.error(&self.boards[row.board]).abs()).collect();
        Ok(writeln!(text, "\n{}.", summary(errors))?)
    }
}

fn summary(mut errors: Vec<f64>) -> String {
    errors.sort_by(f64::total_cmp);
    let count = errors.len();
    let Some(largest) = errors.last() else { return "no rows".into() };
    let (mean, median) = (errors.iter().sum::<f64>() / count as f64, errors[count / 2]);
    let within = errors.iter().filter(|error| **error <= 25.0).count();
    format!(
        "median error {median:.1} %, mean {mean:.1} %, largest {largest:.1} %, {within} of {count} rows within 25 %"
    )
}

/// Spearman's coefficient.
fn rank_correlation(pairs: &[[f64; 2]]) -> f64 {
    let ranks = |side: usize| -> Vec<f64> {
        let below = |value: f64| pairs.iter().filter(|pair| pair[side] < value).count();
        let same = |value: f64| pairs.iter().filter(|pair| pair[side] == value).count();
        let rank = |pair: &[f64; 2]| below(pair[side]) as f64 + (same(pair[side]) as f64 - 1.0) / 2.0;
        pairs.iter().map(rank).collect()
    };
    let (a, b) = (ranks(0), ranks(1));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

/// Further rows of a file, by vendor.
fn further(file: &Path, topologies: &Topologies, vendors: &[Vendor; 2]) -> Outcome<[Vec<Row>; 2]> {
    let mut rows = [Vec::new(), Vec::new()];
    for line in std::fs::read_to_string(file)?.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        let [device, topology, metric, value, ..] = fields[..] else {
            return Err(format!("{}: {line}: fewer than four fields", file.display()).into());
        };
        let value: f64 = value.parse().map_err(|_| format!("{}: {line}: '{value}'", file.display()))?;
        let figures = match (device, metric) {
            ("metis-pcie", "fps") | ("buyi", "ms8") => [Some(value), None],
            ("metis-m2", "fps") | ("buyi", "ms16") => [None, Some(value)],
            _ => return Err(format!("{}: {line}: '{device}' has no '{metric}'", file.display()).into()),
        };
        let topology: &'static str = topology.to_owned().leak();
        let network = Network { topology, name: topology, family: "", figures, left_out: None };
        if device == "buyi" {
            rows[1].extend(topologies.on_buyi(&network, &vendors[1].boards[0])?);
        } else {
            rows[0].extend(topologies.on_metis(&network, &vendors[0].boards)?);
        }
    }
    Ok(rows)
}

/// Where the tables begin in the documentation.
const MARK: &str = "<!-- made by `validate_timing`; what follows is replaced -->\n";

fn main() -> Outcome<()> {
    let usage = "usage: validate_timing FOLDER… [--page docs/timing-model.md] [--rows more.csv]";
    let (mut page, mut more, mut folders) = (None, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--page" => page = Some(arguments.next().ok_or(usage)?),
            "--rows" => more = Some(arguments.next().ok_or(usage)?),
            folder => folders.push(PathBuf::from(folder)),
        }
    }
    if folders.is_empty() {
        return Err(usage.into());
    }
    let topologies = Topologies(folders);
    let vendors = [metis(&topologies)?, buyi(&topologies)?];
    let mut text = String::new();
    for vendor in &vendors {
        vendor.report(&mut text)?;
    }
    if let Some(more) = more {
        for (rows, vendor) in further(Path::new(&more), &topologies, &vendors)?.iter().zip(&vendors) {
            vendor.unseen(rows, &mut text)?;
        }
    }
    let Some(page) = page else {
        print!("{text}");
        return Ok(());
    };
    let old = std::fs::read_to_string(&page)?;
    let (before, _) = old.split_once(MARK).ok_or("the page has no mark where the tables begin")?;
    Ok(std::fs::write(&page, format!("{before}{MARK}{text}"))?)
}
