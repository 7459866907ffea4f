//! Compiles the kernel program with clang. Without clang the crate builds all the same, and says so
//! when it is asked for the program.

fn main() {
    quaver_bpf_build::compile("bpf/monitor.bpf.c", "monitor.o");
}
