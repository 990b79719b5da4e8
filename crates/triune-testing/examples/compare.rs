//! Runs an ONNX model through the naive interpreter, as imported and as prepared by the passes, and counts where its
//! outputs differ from recorded ones.
//!
//! `compare model.onnx folder`: the folder holds `meta.txt` (one line per tensor, input first: name, element type, extents,
//! raw file) and the raw little-endian files. Exits with 1 if
//! the prepared network differs anywhere.

use std::{collections::BTreeMap, error::Error, fs, path::Path, process::ExitCode, time::Instant};

use triune_graph::{Graph, Op, format::onnx, infer, ops::PostOp, passes};
use triune_tensor::DType;
use triune_testing::{Data, Tensor, interpret};

fn load(folder: &Path, line: &str) -> Result<(String, Tensor), Box<dyn Error>> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(dtype), Some(file)) = (words.next(), words.next(), words.next()) else {
        return Err(format!("'{line}' lacks name, element type or file").into());
    };
    let shape = words.map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let dtype = DType::from_name(dtype).ok_or("unknown element type")?;
    Ok((name.to_owned(), Tensor::from_bytes(dtype, &shape, &fs::read(folder.join(file))?)))
}

/// Operators and fused steps, counted by kind; integer ones are marked.
fn census(graph: &Graph) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in &graph.nodes {
        let debug = format!("{:?}", node.op);
        let name = debug.split(['(', ' ']).next().unwrap_or_default();
        let integer = node.inputs[0].is_some_and(|id| graph.value(id).dtype.is_some_and(DType::is_quantized));
        let epilogue = match &node.op {
            Op::Conv(op) => &op.epilogue.post_ops[..],
            Op::Gemm(op) => &op.epilogue.post_ops[..],
            Op::MatMul(op) => &op.epilogue.post_ops[..],
            Op::Binary(op) => &op.epilogue.post_ops[..],
            _ => &[],
        };
        let stages: String = (epilogue.iter())
            .map(|stage| match stage {
                PostOp::Activation(_) => "+activation",
                PostOp::Clamp { .. } => "+clamp",
                PostOp::Table { .. } => "+table",
                PostOp::Residual(_) => "+residual",
            })
            .collect();
        *counts.entry(format!("{}{name}{stages}", if integer { "q8 " } else { "" })).or_default() += 1;
    }
    counts
}

/// How many elements differ, by how much at most, of how many.
fn differences(a: &Tensor, b: &Tensor) -> (usize, f32, usize) {
    assert_eq!(a.shape, b.shape, "shapes");
    if let (Data::F32(a), Data::F32(b)) = (&a.data, &b.data) {
        let differ = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        return (differ, a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max), a.len());
    }
    let (a, b) = (a.integers(), b.integers());
    let differ = a.iter().zip(&b).filter(|(a, b)| a != b).count();
    (differ, a.iter().zip(&b).map(|(a, b)| (a - b).abs()).max().unwrap_or(0) as f32, a.len())
}

fn run() -> Result<bool, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, folder] = &arguments[..] else { return Err("usage: compare model.onnx folder".into()) };
    let folder = Path::new(folder);
    let meta = fs::read_to_string(folder.join("meta.txt"))?;
    let mut tensors = meta.lines().map(|line| load(folder, line));
    let (input, x) = tensors.next().ok_or("an empty meta.txt")??;
    let expected = tensors.collect::<Result<Vec<_>, _>>()?;

    let mut imported = onnx::read(model)?;
    imported.bind(&[(&input, &x.shape)])?;
    infer::infer(&mut imported)?;
    let mut prepared = imported.clone();
    passes::prepare(&mut prepared)?;
    println!("{model}: {} nodes, {} prepared", imported.nodes.len(), prepared.nodes.len());
    for (name, count) in census(&prepared) {
        println!("  {count:5} {name}");
    }
    let mut equal = true;
    // As imported, a quantized network runs in float between its quantizers: close, not equal.
    for (stage, graph) in [("imported", &imported), ("prepared", &prepared)] {
        let start = Instant::now();
        let results = interpret(graph, &[(&input, x.clone())]);
        for ((name, expected), result) in expected.iter().zip(&results) {
            let (differ, worst, of) = differences(expected, result);
            println!(
                "  {stage} '{name}': {differ} of {of} differ, by at most {worst:e} ({:.1?})",
                start.elapsed()
            );
            equal &= stage == "imported" || differ == 0;
        }
    }
    Ok(equal)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
