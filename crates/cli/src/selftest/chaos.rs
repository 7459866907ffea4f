//! `quaver selftest share`: programs that share cores, some of which die or stop. See
//! [`quaver_selftest::chaos`].

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use comfy_table::{Table, presets};
use quaver_selftest::chaos::{Chaos, Difference, Progress, Report, Row, Scene};

use super::Args;
use super::hunting::Hunting;
use crate::doctor::detect::cpus::allowed;
use crate::output;
use crate::parse::cpulist;
use crate::run::find_shim;

/// How long a scene takes, unless it is said.
const SECONDS: f64 = 60.0;
const QUICK_SECONDS: f64 = 5.0;
/// More CPUs would only leave each other alone.
const CPUS: usize = 2;

struct Log(Hunting);

impl Progress for Log {
    fn so_far(&self, scene: &str, row: &Row) {
        let Row { runs, killed, stops, .. } = row;
        self.0.say(|seconds| {
            format!("{scene}: {runs} runs, {killed} killed, {stops} stops; {seconds} s in all")
        });
    }

    fn found(&self, difference: &Difference) {
        eprintln!("{}", difference.to_text());
    }

    fn stop(&self) -> bool {
        self.0.is_over()
    }
}

/// Plays scenes; the exit code is 0 only if nothing was wrong.
///
/// # Errors
///
/// There is no such scene, no shim, no place for the JSON file, or a process cannot be started.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let names = Scene::ALL.map(Scene::name);
    if args.list {
        output::print(&format!("{}\n", names.join(", ")))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = args.only.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("there is no scene '{name}': quaver selftest share --list names them");
    }
    find_shim()?;
    if let Some(target) = &args.json {
        target.check()?;
    }
    let wanted = |s: &Scene| args.only.is_empty() || args.only.iter().any(|n| n == s.name());
    let seconds = args.seconds.unwrap_or(if args.quick { QUICK_SECONDS } else { SECONDS });
    let cpus: Vec<usize> = allowed().into_iter().take(CPUS).collect();
    let log = Log(Hunting::begin()?);
    let chaos = Chaos {
        quaver: std::env::current_exe().context("cannot find this program's file")?,
        cpus: cpulist::format(&cpus),
        scenes: Scene::ALL.into_iter().filter(wanted).collect(),
        time: Duration::from_secs_f64(seconds),
        seed: args.seed,
    };
    let mut report = chaos.run(&log)?;
    report.interrupted = log.0.is_over();
    let differs = report.differences != 0;
    log.0.end(&report, &text(&report), differs, args.json.as_ref())
}

fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scene", "runs", "compared", "killed", "stops", "differences"]);
    for row in &report.rows {
        let Row { scene, runs, compared, killed, stops, differences } = row;
        let numbers = [runs, compared, killed, stops, differences].map(u64::to_string);
        table.add_row([&[scene.clone()][..], &numbers].concat());
    }
    format!("{table}\n{} differences\n", report.differences)
}
