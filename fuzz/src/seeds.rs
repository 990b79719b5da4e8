//! Writes one seed or more per target below the folder that the argument names.

// What the coverage instrumentation calls: seeds are built with the targets' flags, so that nothing is built twice.
use libfuzzer_sys as _;

use std::{fs, path::Path};

use triune::internals::{
    device::{
        BoardInfo, Error, JobReport, LayerTime, Records, RegionId, RegionInfo, Segment, SegmentKind,
        Settings, spec::Precision,
    },
    graph::format::{
        mge::{self, packed::Packed},
        onnx,
    },
    remote::protocol::{Answer, Frame, Hello, Kind, Request, Welcome, encode_error},
};
use triune_fuzz::{DOCUMENT, compiled, document, network, package, quantized};

/// One frame of every shape of payload.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let region = RegionId(0);
    let segment = Segment { region, base: 64, len: 128, kind: SegmentKind::Output };
    let hello =
        Hello { device: "zg330".into(), board: None, share: true, patience: 1, token: b"secret".to_vec() };
    let regions = vec![RegionInfo { name: "ddr".into(), bytes: 1 << 32, reserved: 0 }];
    let versions = vec![("icore".into(), "1".into())];
    let info = BoardInfo { device: "zg330".into(), regions, versions, computes: true, watched: true };
    let settings = Settings {
        core_hz: 1,
        memory_hz: 2,
        engines: [3, 4],
        precision: Precision::Int16,
        timer: Some(Records { region, start: 5, bytes: 6 }),
        profiler: None,
    };
    let run = Request::Run { start: 0, bytes: 64, segments: Some(vec![segment; 3]) };
    let copy = Request::Copy { from: (region, 1), to: (region, 2), bytes: 3 };
    let forget = Request::Forget { ranges: vec![(region, 1, 2), (region, 3, 4)] };
    let report =
        JobReport { layer_count: 1, cycles: 2, nanoseconds: 3, layers: vec![LayerTime { start: 0, end: 2 }] };
    let error = Error::NotAllocated { region: "ddr".into(), start: 64 };
    vec![
        ("hello", Frame::encode(Kind::Hello, 0, &hello.encode())),
        ("welcome", Frame::encode(Kind::Welcome, 0, &Welcome { board: 0, patience: 1, info }.encode())),
        ("run", Frame::encode(Kind::Run, 1, &run.encode_head())),
        ("copy", Frame::encode(Kind::Copy, 2, &copy.encode_head())),
        ("forget", Frame::encode(Kind::Forget, 7, &forget.encode_head())),
        ("configure", Frame::encode(Kind::Configure, 3, &Request::Configure(settings).encode_head())),
        ("report", Frame::encode(Kind::Run, 4, &Answer::Report(report).encode())),
        ("live", Frame::encode(Kind::Live, 5, &Answer::Ranges(vec![(64, 64)]).encode())),
        ("failed", Frame::encode(Kind::Failed, 6, &encode_error(&error))),
        ("beats", [Frame::encode(Kind::Beat, 0, b""), Frame::encode(Kind::Bye, 0, b"")].concat()),
    ]
}

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
    save("xir_flat", "small", &document.write_flat().expect("a file"));
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
    for (name, frame) in frames() {
        save("remote_frame", name, &frame);
    }
}
