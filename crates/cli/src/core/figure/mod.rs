//! `quaver core figure`: the figures of the xUI paper from the model, beside the paper's numbers.

mod eight;
mod five;
pub mod four;
mod jobs;
mod nic;
mod nine;
mod page;
mod paper;
mod rows;
mod runs;
mod server;
mod seven;
mod six;
pub mod table2;
mod two;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::output::{self, Target};

/// Compute a figure or table of the xUI paper, and set the paper's numbers beside it
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which: 2, 4 to 9, or table2
    #[arg(value_name = "N")]
    which: String,
    /// Write the points as JSON to FILE (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write a page with charts to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<Target>,
    /// Short programs and few points: a look, no result
    #[arg(long)]
    quick: bool,
}

/// The figures with results.
const BUILT: &str = "2, 4 to 9, or table2";

/// Computes it.
///
/// # Errors
///
/// The figure is unknown, a program cannot be built or run, or a file not be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    for target in [&args.json, &args.html].into_iter().flatten() {
        target.check()?;
    }
    let report = match args.which.as_str() {
        "2" => two::compute(args.quick).context("figure 2")?,
        "4" => four::compute(args.quick).context("figure 4")?,
        "5" => five::compute(args.quick).context("figure 5")?,
        "6" => six::compute(args.quick).context("figure 6")?,
        "7" => seven::compute(args.quick).context("figure 7")?,
        "table2" => table2::compute(args.quick).context("table 2")?,
        "8" => eight::compute(args.quick).context("figure 8")?,
        "9" => nine::compute(args.quick).context("figure 9")?,
        other => bail!("{}", refusal(other)),
    };
    if let Some(target) = &args.html {
        target.write(&page::render(&report))?;
    }
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    if args.json != Some(Target::Stdout) && args.html != Some(Target::Stdout) {
        output::print(&report.to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a figure is not computed.
fn refusal(which: &str) -> String {
    format!("the xUI paper has no results in a figure {which}; N is {BUILT}")
}
