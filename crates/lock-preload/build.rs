//! The library defines pthread functions and nothing else: not the C interface of quaver-lock,
//! which the program may have from elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
