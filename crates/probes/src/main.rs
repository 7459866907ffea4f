//! `quaver-as`: inserts preemption probes into the assembly text of a compiler, and assembles it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    match quaver_probes::driver::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("quaver-as: {error}");
            ExitCode::from(2)
        }
    }
}
