//! Compiles the kernel program with clang. Without clang the crate builds all the same, and says so
//! when it is asked for the program.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=bpf/monitor.bpf.c");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let object =
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("monitor.o");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let compiled = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"])
        .arg("bpf/monitor.bpf.c")
        .arg("-o")
        .arg(&object)
        .status();
    match compiled {
        Ok(status) if status.success() => {}
        // With a clang that is there, it is an error in the program, or a clang without BPF.
        Ok(status) => {
            println!("cargo::warning=clang could not compile the lock monitor ({status})");
            std::fs::write(&object, []).expect("the output directory is ours");
        }
        Err(_) => std::fs::write(&object, []).expect("the output directory is ours"),
    }
}
