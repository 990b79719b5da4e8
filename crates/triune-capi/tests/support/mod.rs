//! Compiles C and C++ programs against the headers and the library, and runs them.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub(crate) fn crate_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Whether a tool is there; says so where it is not.
pub(crate) fn has(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: {tool} is not installed");
    }
    there
}

/// The folder that the library was built into, which is the test's.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let found = test.ancestors().skip(1).take(2).find(|folder| folder.join("libtriune_capi.so").exists());
    found.expect("cargo builds the library before its tests").to_owned()
}

/// Compiles a program into `folder`; nothing if there is no compiler for it. Warnings are errors.
pub(crate) fn build(source: &Path, folder: &Path) -> Option<PathBuf> {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let (compiler, standard) = if is_c { ("cc", "-std=c11") } else { ("g++", "-std=c++17") };
    if !has(compiler) {
        return None;
    }
    let program = folder.join(source.file_stem().unwrap());
    let library = library();
    let output = Command::new(compiler)
        .args([standard, "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg("-I")
        .arg(crate_file("include"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-ltriune_capi")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// A test program of this folder's.
pub(crate) fn build_test(name: &str, folder: &Path) -> Option<PathBuf> {
    build(&crate_file("tests/programs").join(name), folder)
}

/// The command, with cards of its own.
pub(crate) fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("TRIUNE_RUNTIME_DIR", folder.join("state")).env_remove("TRIUNE_CARDS");
    command
}

pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// The same program under valgrind, where every error and every byte that nobody knows of any more is a failure.
pub(crate) fn valgrind(program: &Path, folder: &Path) -> Command {
    let mut command = command(Path::new("valgrind"), folder);
    command.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    command.arg(program);
    command
}
