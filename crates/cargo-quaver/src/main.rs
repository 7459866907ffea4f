//! `cargo quaver build|run|test|bench`: Rust programs with preemption probes.
//!
//! One program in three places:
//!
//! ```text
//!   cargo quaver build ----> cargo build --target HOST            [front]
//!                              `-> RUSTC_WRAPPER: this program     [wrapper]
//!                                    `-> rustc ... --emit=asm      the crate's text, as one unit
//!                                          `-> -C linker: this     [linker]
//! ```
//!
//! * Libraries: the [wrapper] puts the object made from the text with probes into the rlib, in
//!   place of the compiler's.
//! * What is linked: the [linker] gives the linker that object instead of the compiler's.
//! * With link-time optimisation libraries are bitcode and stay as they are. The text of the last
//!   crate then holds the whole program, with the standard library.
//!
//! `--target` is what tells code of the program from build scripts and procedural macros: cargo
//! compiles those without it, and they stay plain.
#![forbid(unsafe_code)]

mod archive;
mod front;
mod invocation;
mod job;
mod linker;
mod swap;
mod wrapper;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let result = if let Some(folder) = linker::folder(&arguments) {
        linker::run(&folder, &arguments[1..])
    } else if arguments.get(1).is_some_and(|word| word == "quaver") {
        front::run(&arguments[2..])
    } else if let Some(job) = job::Job::given() {
        job.and_then(|job| wrapper::run(&job, &arguments[1..]))
    } else {
        front::run(&arguments[1..])
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: quaver: {error:#}");
        ExitCode::FAILURE
    })
}
