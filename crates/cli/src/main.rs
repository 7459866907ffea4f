//! The `quaver` command; everything is in the library `quaver_cli`, so that tests can reach it.

fn main() -> std::process::ExitCode {
    quaver_cli::main()
}
