//! Packages on disk: one file of a good one is replaced, which the first byte chooses.
#![no_main]

use std::{fs, path::PathBuf, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use triune::{
    device::DeviceSpec,
    runtime::{CompileOptions, Package, compile},
};

/// A good package, and its files with what they hold.
static GOOD: LazyLock<(TempDir, Vec<(PathBuf, Vec<u8>)>)> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a folder");
    let spec = DeviceSpec::builtin("metis").expect("a device");
    let compiled = compile(&triune_fuzz::quantized(), &spec, &CompileOptions::default()).expect("a program");
    Package::write(&compiled, folder.path()).expect("a package");
    let mut files = Vec::new();
    let mut open = vec![folder.path().to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push((path.clone(), fs::read(path).expect("a file")));
            }
        }
    }
    files.sort();
    (folder, files)
});

fuzz_target!(|data: &[u8]| {
    let Some((&choice, contents)) = data.split_first() else { return };
    let (folder, files) = &*GOOD;
    let (path, good) = &files[usize::from(choice) % files.len()];
    fs::write(path, contents).expect("a file");
    let _ = Package::load(folder.path());
    fs::write(path, good).expect("a file");
});
