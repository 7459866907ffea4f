//! Compiles the XDP program, if clang is here. Without it the package has everything but AF_XDP.

fn main() {
    quaver_bpf_build::compile("bpf/redirect.c", "redirect.o");
}
