//! A Rust program that runs ONNX models on the CPU: `cargo run --release --example embed -- model.onnx`.

use std::path::{Path, PathBuf};

use triune::{Dim, Error, Session, SessionOptions, Tensor, TensorRef};

/// Runs a model with one input on zeros, with every CPU.
fn run(model: &Path) -> Result<Vec<Tensor>, Error> {
    let mut session = Session::open(model, &SessionOptions { threads: 0, ..SessionOptions::default() })?;
    let input = session.inputs()[0].clone();
    // What the model leaves open is the batch.
    let extent = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 };
    let shape: Vec<usize> = input.dims.iter().map(extent).collect();
    let bytes = vec![0; shape.iter().product::<usize>() * input.dtype.bytes()];
    session.run(&[TensorRef { dtype: input.dtype, shape: &shape, bytes: &bytes }])
}

fn main() -> Result<(), Error> {
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        for output in run(&path)? {
            println!("{}: {} {:?}", path.display(), output.dtype, &output.shape[..]);
        }
    }
    Ok(())
}

#[test]
fn the_embedded_networks_run() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/triune/models");
    for file in ["digits_f32.onnx", "digits_int8.onnx"] {
        let outputs = run(&models.join(file)).expect("the network runs");
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].shape[..], [1, 10]);
    }
}
