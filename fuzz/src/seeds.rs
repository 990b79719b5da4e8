//! Writes one seed or more per target below the folder that the argument names.

use std::{fs, path::Path};

use triune::graph::format::{
    mge::{self, packed::Packed},
    onnx,
};
use triune_fuzz::{DOCUMENT, compiled, document, network, package, quantized};

fn main() {
    let folder = std::env::args().nth(1).expect("usage: seeds FOLDER");
    let save = |target: &str, name: &str, bytes: &[u8]| {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), bytes).expect("a file");
    };
    let graph = network();
    let model = mge::write(&graph, &[vec![1, 2, 6, 6]]).expect("a model");
    save("mge", "small", &model);
    let packed = Packed { name: "net".into(), model: model.clone().into(), ..Packed::default() };
    save("packed", "small", &mge::packed::write(&packed));
    for name in mge::cipher::NAMES {
        let key = mge::cipher::default_key(name).expect("a key");
        save("cipher", name, &mge::cipher::encrypt(name, key, &model).expect("bytes"));
    }
    save("onnx", "float", &onnx::write(&graph).expect("a model"));
    save("onnx", "quantized", &onnx::write(&quantized()).expect("a model"));
    save("command", "small", &compiled().program.instructions);
    let (_folder, files) = package();
    for (choice, (_, content)) in files.iter().enumerate() {
        // The first byte says which file the others are.
        save("package", &choice.to_string(), &[&[choice as u8], &**content].concat());
    }
    save("xir_json", "small", DOCUMENT.as_bytes());
    let mut document = document();
    for value in &mut document.values {
        let bytes = value.dtype.storage_bytes().expect("a size");
        if let Some(params) = &mut value.params {
            params.data = Some(vec![7; bytes as usize].into());
        }
    }
    save("xir_raw", "small", &document.write().expect("a document").1);
    for (index, text) in [
        "@fp(32)",
        "@sint(8)",
        "@layout(OIHWo32i4)",
        "@norm_ratios([axis=-1]32*0.2,0.5)",
        "@scales([axis=-1]3*2.007629)",
        "@exp_scales([axis=4]128/21/6.1035156e-05,2*180/16/0.002746582)",
        "@merged_distr([1, 4]^ZERO:{v:[0, 20), u:[20, 32)})",
        "@chunk(3@100)",
        "@zhuget(330)",
    ]
    .iter()
    .enumerate()
    {
        save("xir_text", &index.to_string(), text.as_bytes());
    }
}
