//! `quaver bench`.

/// The command line of `quaver bench`.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs the chosen benchmarks.
///
/// # Errors
///
/// None yet.
pub fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("no benchmark is built in")
}
