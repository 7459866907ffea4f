//! Names the shared library as programs will look for it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libquaver.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
