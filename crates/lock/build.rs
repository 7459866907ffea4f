//! Compiles the kernel program with clang. Without clang the crate builds all the same, and says so
//! when it is asked for the program.

fn main() {
    println!("cargo::rerun-if-changed=bpf/carriers.h");
    quaver_bpf_build::compile("bpf/monitor.bpf.c", "monitor.o");
}
