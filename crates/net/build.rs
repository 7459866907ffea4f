//! Compiles the XDP program, if clang is here. Without it the package has everything but AF_XDP.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "bpf/redirect.c";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(xdp_program)");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("redirect.o");
    // Debug information says what the maps are. The processor's version is that of Linux 5.1.
    let options = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-c"];
    let built = Command::new(&clang).args(options).arg(SOURCE).arg("-o").arg(&object).output();
    match built {
        Ok(output) if output.status.success() => println!("cargo::rustc-cfg=xdp_program"),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            println!("cargo::warning=without AF_XDP: clang cannot compile {SOURCE}");
            why.lines().take(5).for_each(|line| println!("cargo::warning={line}"));
        }
        // Whoever opens a device is told.
        Err(_) => {}
    }
}
