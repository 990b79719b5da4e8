//! Models written by the real MegEngine, against the outputs that it gave for the inputs beside them.

use std::{collections::HashMap, fs, path::PathBuf};

use bytes::Bytes;
use triune_graph::{format::mge, passes};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::{
    npz::{self, Array},
    test_data,
};

/// The folder with the models; `None` where there is none.
fn folder() -> Option<PathBuf> {
    test_data("models/mge")
}

fn read(bytes: Vec<u8>) -> mge::Model {
    mge::read(bytes, &mge::ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the model on arrays by name.
fn run(session: &mut Session, inputs: &HashMap<&str, &Array>) -> Vec<Array> {
    let names: Vec<String> = session.inputs().iter().map(|input| input.name.clone()).collect();
    let operands: Vec<TensorRef<'_>> = names
        .iter()
        .map(|name| {
            let array = inputs[name.as_str()];
            TensorRef { dtype: array.dtype, shape: &array.shape, bytes: &array.bytes }
        })
        .collect();
    let outputs = session.run(&operands).unwrap_or_else(|error| panic!("{error}"));
    outputs
        .into_iter()
        .map(|tensor| Array { dtype: tensor.dtype, shape: tensor.shape.to_vec(), bytes: tensor.bytes })
        .collect()
}

/// The largest difference in units of the largest magnitude.
fn difference(got: &Array, want: &Array) -> f32 {
    assert_eq!((got.dtype, &got.shape), (want.dtype, &want.shape));
    if want.dtype != DType::F32 {
        assert_eq!(got.bytes, want.bytes);
        return 0.0;
    }
    let (got, want) = (got.to_f32(), want.to_f32());
    let largest = want.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    got.iter().zip(&want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max) / largest
}

fn check(model: mge::Model, data: &str, bound: f32) {
    let Some(folder) = folder() else { return };
    let arrays = npz::load(&folder.join(data));
    let shapes: Vec<Vec<usize>> = model
        .graph
        .inputs
        .iter()
        .map(|&id| arrays[&format!("in:{}", model.graph.value(id).name)].shape.clone())
        .collect();
    assert_eq!(model.default_shapes, shapes);
    let inputs: HashMap<&str, &Array> =
        arrays.iter().filter_map(|(name, array)| Some((name.strip_prefix("in:")?, array))).collect();
    let mut session = Session::new(model.graph, &SessionOptions::default()).expect("a session");
    let outputs = run(&mut session, &inputs);
    assert_eq!(outputs.len(), arrays.len() - inputs.len());
    for (index, got) in outputs.iter().enumerate() {
        let difference = difference(got, &arrays[&format!("out:{index}")]);
        println!("{data}: output {index} differs by {difference:e}");
        assert!(difference <= bound, "{data}: output {index} differs by {difference}");
    }
}

macro_rules! models {
    ($($test:ident: $model:literal, $data:literal, $bound:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let Some(folder) = folder() else { return };
                check(read(fs::read(folder.join($model)).unwrap()), $data, $bound);
            }
        )*
    };
}

models! {
    simple_add: "simple_add.mge", "simple_add.npz", 0.0;
    multi_io: "multi_io.mge", "multi_io.npz", 1e-6;
    dyn_conv: "dyn_conv.mge", "dyn_conv.npz", 1e-5;
    yoloxish: "yoloxish.mge", "yoloxish.npz", 1e-5;
    yoloxish_optimized: "yoloxish_opt.mge", "yoloxish_opt.npz", 1e-5;
    discrete_input: "test_discrete_input.mge", "test_discrete_input.npz", 1e-5;
    qnet: "qnet_int8.mge", "qnet_int8.npz", 1e-6;
    qnet_optimized: "qnet_int8_opt.mge", "qnet_int8_opt.npz", 1e-6;
    qnet_v1: "qnet_int8_v1.mge", "qnet_int8_v1.npz", 1e-6;
    mnist: "mnist_b1.mge", "mnist_b1.npz", 1e-5;
    resnet: "resnet18_w16_64.mge", "resnet18_w16_64.npz", 1e-5;
    resnet_optimized: "resnet18_w16_64_opt.mge", "resnet18_w16_64_opt.npz", 1e-5;
    resnet_v1: "resnet18_w16_64_v1.mge", "resnet18_w16_64_v1.npz", 1e-5;
}

/// Other extents than the file's: images of another number and size.
#[test]
fn inputs_take_other_shapes() {
    let Some(folder) = folder() else { return };
    let model = read(fs::read(folder.join("dyn_conv.mge")).unwrap());
    let arrays = npz::load(&folder.join("dyn_conv_shapes.npz"));
    let mut session = Session::new(model.graph, &SessionOptions::default()).expect("a session");
    for index in 0..3 {
        let inputs = HashMap::from([("data", &arrays[&format!("in{index}")])]);
        let outputs = run(&mut session, &inputs);
        let difference = difference(&outputs[0], &arrays[&format!("out{index}")]);
        assert!(difference <= 1e-5, "shape {index} differs by {difference}");
    }
}

#[test]
fn inputs_come_in_upstreams_order() {
    let Some(folder) = folder() else { return };
    for (file, names) in [("simple_add.mge", ["b", "a"]), ("multi_io.mge", ["a", "b"])] {
        let graph = read(fs::read(folder.join(file)).unwrap()).graph;
        let found: Vec<&str> = graph.inputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
        assert_eq!(found, names);
    }
}

#[test]
fn weights_share_the_files_buffer() {
    let Some(folder) = folder() else { return };
    let bytes = Bytes::from(fs::read(folder.join("resnet18_w16_64.mge")).unwrap());
    let model = mge::read(bytes.clone(), &mge::ReadOptions::default()).unwrap();
    let range = bytes.as_ptr_range();
    let big = model.graph.values.iter().filter_map(|value| value.constant.as_ref());
    let mut count = 0;
    for constant in big.filter(|constant| constant.bytes().len() > 1000) {
        assert!(range.contains(&constant.bytes().as_ptr()));
        count += 1;
    }
    assert!(count > 15);
}

/// The same model under every cipher and in packed files.
#[test]
fn wrapped_models_are_the_bare_one() {
    let Some(folder) = folder() else { return };
    let bare = fs::read(folder.join("qnet_int8.mge")).unwrap();
    let wrapped = |name: &str| fs::read(folder.join("encrypted").join(name)).unwrap();
    for (file, cipher) in [
        ("qnet_int8_aes.mge", "AES_default"),
        ("qnet_int8_rc4.mge", "RC4_default"),
        ("qnet_int8_sfrc4.mge", "SIMPLE_FAST_RC4_default"),
    ] {
        let (key, secret) = (mge::cipher::default_key(cipher).unwrap(), wrapped(file));
        let plain = mge::cipher::decrypt(cipher, key, &secret).unwrap_or_else(|error| panic!("{error}"));
        assert!(plain.starts_with(&bare), "{file}");
        // And back to what upstream's tool wrote; AES begins with a random vector there.
        if cipher != "AES_default" {
            assert!(mge::cipher::encrypt(cipher, key, &bare).unwrap() == secret, "{file}");
        }
        assert!(mge::read(secret, &mge::ReadOptions::default()).is_err(), "{file}");
    }
    for (file, cipher) in [("qnet_int8_packed.lite", "NONE"), ("qnet_int8_packed_rc4.lite", "RC4_default")] {
        let packed = mge::packed::read(wrapped(file)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((packed.model_decryption.as_str(), packed.info_parser.as_str()), (cipher, "LITE_default"));
        let model = match mge::cipher::default_key(cipher) {
            Some(key) => mge::cipher::decrypt(cipher, key, &packed.model).unwrap(),
            None => packed.model.to_vec(),
        };
        assert!(model.starts_with(&bare), "{file}");
        assert_eq!(mge::packed::read(mge::packed::write(&packed)).unwrap(), packed);
    }
}

/// The operators of a file as they run, with the extents of their results.
fn operators(model: mge::Model) -> Vec<String> {
    let mut graph = model.graph;
    let names: Vec<String> = graph.inputs.iter().map(|&id| graph.value(id).name.clone()).collect();
    let shapes: Vec<(&str, &[usize])> =
        names.iter().map(String::as_str).zip(model.default_shapes.iter().map(Vec::as_slice)).collect();
    graph.bind(&shapes).unwrap();
    passes::prepare(&mut graph).unwrap();
    let describe = |node: &triune_graph::Node| {
        let result = node.outputs[0].and_then(|id| graph.value(id).fixed_shape()).expect("a known shape");
        format!("{} {result}", node.op.name())
    };
    let mut operators: Vec<String> = graph.nodes.iter().map(describe).collect();
    operators.sort();
    operators
}

/// What upstream's optimizer does, the passes do, too.
#[test]
fn unoptimized_dumps_run_the_optimized_ones_operators() {
    let Some(folder) = folder() else { return };
    let [plain, optimized] = ["yoloxish.mge", "yoloxish_opt.mge"]
        .map(|file| operators(read(fs::read(folder.join(file)).unwrap())));
    assert_eq!(plain, optimized);
}
