//! Tells the module how it is compiled.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").expect("cargo says the level to build scripts");
    println!("cargo::rustc-env=TRIUNE_OPT_LEVEL={level}");
}
