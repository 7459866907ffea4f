//! Compiles the scenarios that only C++ can express.

fn main() {
    println!("cargo::rerun-if-changed=src/foreign/foreign.cpp");
    cc::Build::new()
        .cpp(true)
        .file("src/foreign/foreign.cpp")
        .warnings_into_errors(true)
        .compile("quaver_foreign");
}
