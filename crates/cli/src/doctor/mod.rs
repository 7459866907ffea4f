//! `quaver doctor`: what this machine offers, and which mechanisms would be used here and why.
//!
//! Three steps that know nothing of each other's insides: [`detect`] reads facts, [`findings`] says
//! what they mean, [`choose`] says what the runtime would pick. [`report`] writes all three down.
//! The exit code is 0 unless something is missing that the runtime cannot do without (1).

pub mod choose;
pub mod detect;
pub mod findings;
pub mod report;

use std::process::ExitCode;

use crate::output;

/// The command line of `quaver doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Write the report as JSON to FILE, or to standard output without FILE or with -
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<output::Target>,
}

/// Prints the report.
///
/// # Errors
///
/// The report cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let facts = detect::detect();
    let findings = findings::judge(&facts);
    let choice = choose::choose(&facts);
    let report = report::assemble(facts, findings, choice);
    match args.json {
        Some(target) => target.write_json(&report)?,
        None => output::print(&report::text(&report))?,
    }
    Ok(if report.possible { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
