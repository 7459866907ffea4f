//! `quaver core run --cores N`: a program with threads on several cores.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use quaver_uarch::Machine;
use quaver_uarch::core::Config;
use quaver_uarch::system::{System, SystemReport};
use serde::Serialize;

use super::run::Args;

/// What is known after a run.
#[derive(Serialize)]
struct Report<'a> {
    model: &'static str,
    program: &'a std::path::Path,
    /// Of this machine.
    seconds: f64,
    #[serde(flatten)]
    run: &'a SystemReport,
}

/// Runs it.
///
/// # Errors
///
/// The program does something that the model does not know, or a file cannot be written.
pub fn run(
    args: &Args,
    config: &Config,
    cores: usize,
    machine: Machine,
) -> anyhow::Result<ExitCode> {
    let name = || args.program.display().to_string();
    let begin = Instant::now();
    let quantum = config.parameters.cycles(args.quantum);
    let run = System::new(machine, config, cores, quantum).run().with_context(name)?;
    let seconds = begin.elapsed().as_secs_f64();
    if let Some(target) = &args.json {
        let program = &args.program;
        target.write_json(&Report { model: "system", program, seconds, run: &run })?;
    }
    eprintln!(
        "{}: status {}, {} instructions in {} cycles on {cores} core(s), {} user interrupts",
        name(),
        run.status,
        run.instructions,
        run.cycles,
        run.interrupts
    );
    for (number, core) in run.cores.iter().enumerate() {
        let slow = &core.slow;
        eprintln!(
            "  core {number}: {:.0} % idle, {:.0} % kernel, {} switches, {} notifications sent, {} \
             reposted, {} kept for a thread, {} late timers, {} signals",
            share(core.idle, run.cycles),
            share(core.kernel, run.cycles),
            core.switches,
            slow.notifications,
            slow.reposted,
            slow.kept,
            slow.late_timers,
            slow.signals
        );
    }
    Ok(ExitCode::from(run.status))
}

/// Percent of all cycles.
fn share(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}
